//! The ledger: the record of every decision about every tool call, and of every run.
//!
//! Up to four rows are about a call: question, answer, decision and outcome. The decision is the `ledger`
//! row. It is stored before the permit is given, so it also marks the start. The `outcome` row is stored
//! after the call. Rows form a hash chain: each row carries a hash over its own line and the hash of the row
//! before. The chain shows order and gaps. It does not reveal a rewrite of the whole file, unless a copy of
//! the last hash is stored elsewhere.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, builtin::List, history::{ledger, ledger_row::LedgerRow}};
//! use cotter_test::{ScriptedModel, Step};
//! use serde_json::json;
//!
//! let model = ScriptedModel::new([Step::call("list", json!({})), Step::text("That is all.")]);
//! let agent = Agent::builder(model).tool(List::default()).build()?;
//! let session = agent.new_session().await?;
//! session.prompt("What is here?").await?;
//!
//! let lines = agent.store().lines(session.id())?;
//! let decision = lines.iter().find_map(|line| match LedgerRow::parse(line) {
//!     Some(LedgerRow::Decision(decision)) => Some(decision),
//!     _ => None,
//! });
//! let decision = decision.expect("every call has one");
//! assert_eq!((&*decision.tool, &*decision.verdict, &*decision.by), ("list", "pass", "zone"));
//!
//! let mut lines = lines;
//! assert!(ledger::verify(session.id(), lines.iter().map(Vec::as_slice)).is_ok());
//! lines.retain(|line| !line.starts_with(br#"{"type":"ledger""#));
//! assert!(ledger::verify(session.id(), lines.iter().map(Vec::as_slice)).is_err());
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use serde::{Serialize, de::IgnoredAny};
use serde_json::Value;
use sha2::{Digest, Sha256};
use smol_str::SmolStr;

use crate::history::{
    entry::Timestamp,
    message::Usage,
    outcome::{EndReason, ToolErrorKind, ToolOutcome},
};

/// The number of a registered handler, unique within one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub(crate) u32);

/// A reason to ask a person about a call, with its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AskReason {
    /// The hook, rule, zone or mode that asks.
    pub by: SmolStr,
    /// The reason.
    pub reason: String,
    /// The number of the hook that asks: two hooks may share a name.
    #[serde(skip)]
    pub(crate) hook: Option<HandlerId>,
}

/// The record of one execution of a handler.
#[derive(Clone, Debug)]
pub(crate) struct HandlerRun {
    pub(crate) handler: HandlerId,
    pub(crate) nanos: u64,
    /// The answer or the failure as one word.
    pub(crate) word: &'static str,
    pub(crate) reason: Option<Box<str>>,
    /// The remark of the hook for the person who maintains it.
    pub(crate) remark: Option<Box<str>>,
    /// True for an external hook.
    pub(crate) is_external: bool,
}

impl HandlerRun {
    /// True if an execution outside a call's rows gets its own row: external hooks and failures do.
    pub(crate) fn should_record(&self) -> bool {
        self.is_external || matches!(self.word, "failed" | "panicked" | "timed_out")
    }
}

/// A record of a session. It is not part of the conversation.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    RunStart {
        run: SmolStr,
        at: Timestamp,
        model: SmolStr,
        agent: SmolStr,
    },
    RunEnd {
        run: SmolStr,
        at: Timestamp,
        reason: EndReason,
        steps: u32,
        usage: Usage,
        cost: Option<f64>,
    },
    Generation(HookTable),
    Question(QuestionRow),
    Answer(AnswerRow),
    Ledger(Box<DecisionRow>),
    Outcome(OutcomeRow),
    HooksRan(HooksRow),
}

impl Record {
    pub(crate) const KINDS: [&str; 8] = [
        "run.start",
        "run.end",
        "generation",
        "question",
        "answer",
        "ledger",
        "outcome",
        "hooks.ran",
    ];

    pub(crate) fn kind(&self) -> &'static str {
        let index = match self {
            Record::RunStart { .. } => 0,
            Record::RunEnd { .. } => 1,
            Record::Generation(_) => 2,
            Record::Question(_) => 3,
            Record::Answer(_) => 4,
            Record::Ledger(_) => 5,
            Record::Outcome(_) => 6,
            Record::HooksRan(_) => 7,
        };
        Self::KINDS[index]
    }
}

/// The handlers of a generation, stored once for all rows that refer to it.
#[derive(Clone, Debug)]
pub(crate) struct HookTable {
    pub(crate) number: u64,
    pub(crate) hooks: Vec<HookTableRow>,
}

#[derive(Clone, Debug)]
pub(crate) struct HookTableRow {
    pub(crate) id: u32,
    pub(crate) name: SmolStr,
    pub(crate) origin: String,
    pub(crate) point: &'static str,
    pub(crate) power: &'static str,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) enabled: bool,
    pub(crate) detached: bool,
}

/// The record that a question was put to a person.
#[derive(Clone, Debug)]
pub(crate) struct QuestionRow {
    pub(crate) at: Timestamp,
    pub(crate) run: SmolStr,
    pub(crate) step: u32,
    pub(crate) id: SmolStr,
    pub(crate) deadline: Timestamp,
    pub(crate) calls: Vec<(SmolStr, Vec<AskReason>)>,
}

/// The record of the answer to a question. `by` is the person, a hook, or `nobody` without an answer.
#[derive(Clone, Debug)]
pub(crate) struct AnswerRow {
    pub(crate) at: Timestamp,
    pub(crate) run: SmolStr,
    pub(crate) question: SmolStr,
    pub(crate) by: SmolStr,
    pub(crate) decisions: Vec<(SmolStr, bool, Option<String>)>,
}

/// The record of the decision about a call.
#[derive(Clone, Debug)]
pub(crate) struct DecisionRow {
    pub(crate) at: Timestamp,
    pub(crate) run: SmolStr,
    pub(crate) step: u32,
    pub(crate) call_id: SmolStr,
    pub(crate) tool: SmolStr,
    pub(crate) input: Arc<Value>,
    pub(crate) generation: u64,
    /// The call whose tool or hook made this call.
    pub(crate) parent_call_id: Option<SmolStr>,
    pub(crate) verdict: &'static str,
    pub(crate) by: SmolStr,
    pub(crate) reason: Option<String>,
    pub(crate) approved_by: Option<SmolStr>,
    pub(crate) zone: &'static str,
    pub(crate) rewrites: Vec<(SmolStr, Arc<Value>, Arc<Value>)>,
    pub(crate) ran: Vec<HandlerRun>,
}

/// The record of the end of a call that had started.
#[derive(Clone, Debug)]
pub(crate) struct OutcomeRow {
    pub(crate) at: Timestamp,
    pub(crate) run: SmolStr,
    pub(crate) call_id: SmolStr,
    pub(crate) outcome: &'static str,
    pub(crate) error: Option<ToolErrorKind>,
    pub(crate) ms: u64,
    pub(crate) ran: Vec<HandlerRun>,
}

impl OutcomeRow {
    /// The outcome of a call that was running when the process died: it is not known.
    pub(crate) const UNKNOWN: &'static str = "unknown";

    pub(crate) fn word(outcome: ToolOutcome) -> &'static str {
        outcome.as_str()
    }
}

/// The record of hooks at a point that no row of a call covers.
#[derive(Clone, Debug)]
pub(crate) struct HooksRow {
    pub(crate) at: Timestamp,
    pub(crate) run: SmolStr,
    pub(crate) step: u32,
    pub(crate) point: &'static str,
    /// The call that the point event is about.
    pub(crate) call_id: Option<SmolStr>,
    pub(crate) generation: u64,
    pub(crate) ran: Vec<HandlerRun>,
}

/// The hash chain over a session's records.
#[derive(Clone, Debug)]
pub(crate) struct HashChain(SmolStr);

impl HashChain {
    /// Returns the chain of a session before its first record.
    pub(crate) fn of_session(id: &str) -> Self {
        HashChain(hex(&Sha256::digest(id.as_bytes())))
    }

    /// Continues a chain from a stored hash.
    pub(crate) fn after(hash: &str) -> Self {
        HashChain(hash.into())
    }

    /// Adds a line to the chain and returns its hash.
    pub(crate) fn link(&mut self, line: &[u8]) -> &str {
        let mut hasher = Sha256::new();
        hasher.update(self.0.as_bytes());
        hasher.update(line);
        self.0 = hex(&hasher.finalize());
        &self.0
    }
}

/// Formats the first 128 bits of a hash in hex.
fn hex(hash: &[u8]) -> SmolStr {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let nibbles = hash[..16].iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.map(|nibble| char::from(DIGITS[usize::from(nibble)])).collect()
}

/// Returns the short digest of several parts. Each part is hashed with its length, so parts cannot be
/// shifted.
pub(crate) fn digest(parts: &[&[u8]]) -> SmolStr {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

/// Checks the hash chain of a session file's lines. Returns the number of rows, or the first line (from 1)
/// that breaks the chain.
///
/// A line that is not JSON is skipped: a killed process leaves such a line, and the next row follows the
/// row before it. If the skipped line had been a stored row, the next row would break the chain.
pub fn verify<'a>(id: &str, lines: impl Iterator<Item = &'a [u8]>) -> Result<usize, usize> {
    let mut chain = HashChain::of_session(id);
    let mut rows = 0;
    for (index, line) in lines.enumerate() {
        if !is_chained(line) || serde_json::from_slice::<IgnoredAny>(line).is_err() {
            continue;
        }
        let (body, hash) = split_hash(line).ok_or(index + 1)?;
        if chain.link(body) != hash {
            return Err(index + 1);
        }
        rows += 1;
    }
    Ok(rows)
}

/// True if a line is a row of the ledger, by its kind.
pub(crate) fn is_chained(line: &[u8]) -> bool {
    Record::KINDS.iter().any(|kind| {
        let rest =
            line.strip_prefix(b"{\"type\":\"").and_then(|rest| rest.strip_prefix(kind.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(b"\""))
    })
}

/// Splits a line into its hashed part and the hash at its end.
pub(crate) fn split_hash(line: &[u8]) -> Option<(&[u8], &str)> {
    const KEY: &[u8] = b",\"hash\":\"";
    let line = line.strip_suffix(b"\"}")?;
    let start = line.len().checked_sub(32)?;
    let body = line[..start].strip_suffix(KEY)?;
    Some((body, std::str::from_utf8(&line[start..]).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(chain: &mut HashChain, n: u32) -> Vec<u8> {
        let body = format!("{{\"type\":\"ledger\",\"n\":{n}");
        let hash = chain.link(body.as_bytes()).to_owned();
        format!("{body},\"hash\":\"{hash}\"}}").into_bytes()
    }

    #[test]
    fn ledger_verify_skips_torn_lines_and_rejects_rows_without_a_hash() {
        let mut chain = HashChain::of_session("s");
        let (first, mut torn) = (row(&mut chain, 1), row(&mut chain.clone(), 2));
        torn.truncate(20);
        let last = row(&mut chain, 2);
        let check = |lines: &[&[u8]]| verify("s", lines.iter().copied());
        assert_eq!(check(&[b"{}", &first, &torn, &last]), Ok(2));
        assert_eq!(check(&[b"{}", &first, &last[..30]]), Ok(1));
        assert_eq!(check(&[b"{}", &last]), Err(2), "a row is missing before it");
        assert_eq!(check(&[b"{}", &first, &last, &first]), Err(4), "a row twice");
        assert_eq!(check(&[&first, br#"{"type":"ledger","n":3}"#]), Err(2));
    }
}
