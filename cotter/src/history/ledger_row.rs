//! The rows of the ledger as stored, for whoever shows, checks or recovers a session.
//!
//! A missing field has its default: an empty text, zero, an empty list.

use serde::Deserialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::history::ledger::is_chained;

/// A row of the ledger.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum LedgerRow {
    /// A run began.
    #[serde(rename = "run.start")]
    RunStart(RunStart),
    /// A run ended.
    #[serde(rename = "run.end")]
    RunEnd(RunEnd),
    /// The hooks of a generation of the registry. Later rows name hooks by number.
    #[serde(rename = "generation")]
    Generation(Generation),
    /// A question was put to a person.
    #[serde(rename = "question")]
    Question(Question),
    /// The question was answered.
    #[serde(rename = "answer")]
    Answer(Answer),
    /// A call was decided.
    #[serde(rename = "ledger")]
    Decision(Decision),
    /// A call that had started ended.
    #[serde(rename = "outcome")]
    Outcome(Outcome),
    /// Hooks ran at a point that no row of a call covers.
    #[serde(rename = "hooks.ran")]
    HooksRan(HooksRan),
}

impl LedgerRow {
    /// Parses a line of a session file. `None` for a line of another kind, and for one that is not complete.
    /// The kind is checked before the rest is parsed: most lines are of other kinds, and some are long.
    pub fn parse(line: &[u8]) -> Option<Self> {
        if is_chained(line) { serde_json::from_slice(line).ok() } else { None }
    }
}

macro_rules! rows {
    ($($(#[$of_struct:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$of_struct])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        #[non_exhaustive]
        pub struct $name { $($(#[$of_field])* pub $field: $kind,)* }
    )*};
}

rows! {
    /// The beginning of a run.
    RunStart {
        /// The run.
        run_id: SmolStr,
        /// The time.
        at: SmolStr,
        /// The model.
        model: SmolStr,
    }

    /// The end of a run.
    RunEnd {
        /// The run.
        run_id: SmolStr,
        /// The reason, as in [`EndReason`](crate::history::outcome::EndReason).
        reason: SmolStr,
        /// The number of steps.
        steps: u32,
    }

    /// The hooks of a generation.
    Generation {
        /// The number of the generation.
        generation: u64,
        /// The hooks, one row for each power.
        hooks: Vec<HookEntry>,
    }

    /// A hook of a generation.
    HookEntry {
        /// The number that other rows use.
        id: u64,
        /// The name.
        name: SmolStr,
        /// The origin of its owner.
        origin: SmolStr,
        /// The point.
        point: SmolStr,
        /// The power.
        power: SmolStr,
        /// The patterns of the tools it is for; `None` for all tools.
        tools: Option<Vec<String>>,
        /// False for a hook that is switched off.
        enabled: Option<bool>,
        /// True for a hook that nobody waits for.
        r#async: bool,
    }

    /// A question about calls.
    Question {
        /// The run.
        run_id: SmolStr,
        /// The step.
        step: Option<u32>,
        /// The id of the question.
        id: SmolStr,
        /// The time at which it ends without an answer.
        deadline: SmolStr,
        /// The calls it is about.
        calls: Vec<QuestionEntry>,
    }

    /// A call of a question.
    QuestionEntry {
        /// The call.
        call_id: SmolStr,
        /// The reasons to ask.
        asks: Vec<AskEntry>,
    }

    /// A reason to ask.
    AskEntry {
        /// The hook, rule, zone or mode that asks.
        by: SmolStr,
        /// The reason.
        reason: String,
    }

    /// The answer to a question.
    Answer {
        /// The run.
        run_id: SmolStr,
        /// The id of the question.
        id: SmolStr,
        /// The person, a hook, or `nobody`.
        by: SmolStr,
        /// The answer about each call.
        decisions: Vec<AnswerEntry>,
    }

    /// The answer about one call.
    AnswerEntry {
        /// The call.
        call_id: SmolStr,
        /// `yes` or `no`.
        answer: SmolStr,
        /// The person's words.
        words: Option<String>,
    }

    /// The decision about a call.
    Decision {
        /// The run.
        run_id: SmolStr,
        /// The time.
        at: SmolStr,
        /// The step.
        step: Option<u32>,
        /// The call.
        call_id: SmolStr,
        /// The tool.
        tool: SmolStr,
        /// The input, after rewrites.
        input: Value,
        /// `pass` or `block`.
        verdict: SmolStr,
        /// The hook, rule, zone or mode that decided.
        by: SmolStr,
        /// The reason of a refusal.
        reason: Option<String>,
        /// The person or hook that approved it.
        approved_by: Option<SmolStr>,
        /// The zone.
        zone: SmolStr,
        /// The rewrites of the input, in order.
        rewrites: Vec<RewriteEntry>,
        /// The generation of the hooks.
        generation: u64,
        /// The hooks that ran, in order.
        ran: Vec<HandlerEntry>,
    }

    /// A rewrite of an input.
    RewriteEntry {
        /// The hook.
        by: SmolStr,
        /// The input before.
        before: Value,
        /// The input after.
        after: Value,
    }

    /// The end of a call.
    Outcome {
        /// The run.
        run_id: SmolStr,
        /// The time.
        at: SmolStr,
        /// The call.
        call_id: SmolStr,
        /// The outcome, as in [`ToolOutcome`](crate::history::outcome::ToolOutcome), or `unknown`.
        outcome: SmolStr,
        /// The kind of the error.
        error_kind: Option<SmolStr>,
        /// The duration in milliseconds.
        ms: u64,
        /// The hooks that ran, in order.
        ran: Vec<HandlerEntry>,
    }

    /// Hooks that ran at another point.
    HooksRan {
        /// The run.
        run_id: SmolStr,
        /// The time.
        at: SmolStr,
        /// The step.
        step: Option<u32>,
        /// The point.
        point: SmolStr,
        /// The call that the point event is about.
        call_id: Option<SmolStr>,
        /// The generation of the hooks.
        generation: u64,
        /// The hooks that ran, in order.
        ran: Vec<HandlerEntry>,
    }

    /// One execution of a hook.
    HandlerEntry {
        /// The number of the hook in its generation.
        hook: u64,
        /// The answer or the failure as one word.
        verdict: SmolStr,
        /// The duration in nanoseconds.
        ns: u64,
        /// The reason of the answer or the failure.
        reason: Option<String>,
        /// The remark of the hook for the person who maintains it.
        stderr: Option<String>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ledger::Record;

    /// Recovery trusts these rows: a kind that cannot be read would make a started call look as if it had
    /// never begun.
    #[test]
    fn every_kind_of_record_is_read_as_a_row() {
        for kind in Record::KINDS {
            let line = format!(r#"{{"type":"{kind}","later":{{"key":[1]}}}}"#);
            assert!(LedgerRow::parse(line.as_bytes()).is_some(), "{kind}");
        }
        assert!(LedgerRow::parse(br#"{"type":"message","id":"1"}"#).is_none());
        assert!(LedgerRow::parse(br#"{"type":"ledger","callId":"#).is_none());
    }
}
