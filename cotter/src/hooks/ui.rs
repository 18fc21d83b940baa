//! The person, as the runtime sees them: somebody who may be asked, or nobody.
//!
//! Every call of a step that needs a yes goes into one [`Question`], with everybody who wants it
//! asked. An answer is bound to the calls as they were shown; a call without an answer does not run.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use cotter::{Agent, FnTool, ToolSpec};
//! use cotter::hooks::ui::{QuestionAnswer, UiFuture, CallApproval, Question, Ui};
//! use cotter_test::{Scripted, Step, transcript};
//! use serde_json::json;
//!
//! /// Somebody who never lets anything run.
//! struct Cautious;
//!
//! impl Ui for Cautious {
//!     fn present(&self) -> bool {
//!         true
//!     }
//!
//!     fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
//!         let no = CallApproval::No(Some("not on a Friday".into()));
//!         Box::pin(async move { Some(QuestionAnswer::all(&question, no, "cautious")) })
//!     }
//! }
//!
//! let spec = ToolSpec::new("deploy", "Deploys.", json!({"type": "object"}));
//! let deploy = FnTool::new(spec, |_| async { Ok("deployed".into()) });
//! let agent = Agent::builder(Scripted::new([Step::call("deploy", json!({})), Step::text("Monday then.")]))
//!     .tool(deploy)
//!     .ui(Cautious)
//!     .build()?;
//! agent.process_request("Deploy.").await?;
//! let shown = transcript(&agent.main_session().await?);
//! assert!(shown.contains("Permission denied for `deploy`: not on a Friday."));
//! # Ok(())
//! # }
//! ```

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    history::ledger::AskReason,
    permission::rule::{Rule, RuleKind},
};

/// A future of the person's.
pub type UiFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A person who can be asked.
///
/// The runtime calls `ask` at most once per step, with every call that needs a yes. It drops the
/// future when the run is aborted or the question's time is over; both count as no answer, and no
/// answer is a no.
pub trait Ui: Send + Sync + 'static {
    /// Whether there is anybody.
    fn present(&self) -> bool;

    /// Puts a question. `None` is no answer.
    fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>>;

    /// Asks yes or no.
    fn confirm(&self, text: &str) -> UiFuture<'_, bool> {
        let _ = text;
        Box::pin(async { false })
    }

    /// Lets somebody choose: the index of an option, or none.
    fn select<'a>(&'a self, title: &'a str, options: &'a [String]) -> UiFuture<'a, Option<usize>> {
        let _ = (title, options);
        Box::pin(async { None })
    }

    /// Lets somebody choose several: the places of options, or none. Whoever cannot be asked for
    /// several is asked for one.
    fn select_many<'a>(
        &'a self,
        title: &'a str,
        options: &'a [String],
    ) -> UiFuture<'a, Option<Vec<usize>>> {
        Box::pin(async move { self.select(title, options).await.map(|index| vec![index]) })
    }

    /// Lets somebody type a line.
    fn input<'a>(&'a self, title: &'a str) -> UiFuture<'a, Option<String>> {
        let _ = title;
        Box::pin(async { None })
    }

    /// Tells something.
    fn notify(&self, text: &str) {
        let _ = text;
    }
}

/// Nobody: every question is a no.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headless;

impl Ui for Headless {
    fn present(&self) -> bool {
        false
    }

    fn ask(&self, _: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        Box::pin(async { None })
    }
}

/// One question of one step: every call that needs a yes, and everybody who wants it asked.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Its id, unique within the session.
    pub id: SmolStr,
    /// The agent whose calls these are, by id: `main`, or a subagent's.
    #[serde(skip)]
    pub agent: SmolStr,
    /// The calls, in call order.
    pub calls: Vec<QuestionCall>,
    /// How long the person has.
    #[serde(skip)]
    pub limit: Duration,
}

/// One call of a question.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionCall {
    /// The call.
    pub call_id: SmolStr,
    /// The tool's name.
    pub name: SmolStr,
    /// What would run.
    pub preview: String,
    /// The whole input.
    #[serde(skip)]
    pub input: Arc<Value>,
    /// Who wants it asked, and why.
    pub asks: Vec<AskReason>,
    /// The allow rules with which it would run unasked, as narrow as is useful; none where no rule would
    /// do. A person may be offered them for the session, or for good once they have seen all of the
    /// call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offer: Vec<String>,
    /// Tells of a rule that the person types in place of those offered whether it would do.
    #[serde(skip)]
    pub own_rule: RuleCheck,
    /// Binds the answer to session, call, tool definition, input and working folder.
    #[serde(skip)]
    pub digest: SmolStr,
}

/// Whether a rule of the person's own would answer a question about one call.
#[derive(Clone, Default)]
pub struct RuleCheck(Option<Arc<RuleCheckFn>>);

type RuleCheckFn = dyn Fn(&Rule) -> bool + Send + Sync;

impl RuleCheck {
    pub(crate) fn new(answers: impl Fn(&Rule) -> bool + Send + Sync + 'static) -> Self {
        RuleCheck(Some(Arc::new(answers)))
    }
}

impl fmt::Debug for RuleCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnRule")
    }
}

impl QuestionCall {
    /// A rule that a person typed, for [`CallApproval::YesForSession`] or [`CallApproval::YesAlways`]. It must be
    /// an allow rule without its kind, cover this very call, and be no wider than what is offered; the
    /// error says which of these it is not.
    pub fn take_rule(&self, typed: &str) -> Result<String, String> {
        let rule = Rule::parse(RuleKind::Allow, typed).map_err(|error| error.to_string())?;
        if !self.own_rule.0.as_ref().is_some_and(|answers| answers(&rule)) {
            return Err(format!("`{typed}` does not cover this call"));
        }
        if !self.offer.iter().any(|offered| is_within(typed, offered)) {
            let offered = self.offer.join(", ");
            return Err(format!("`{typed}` would allow more than {offered}"));
        }
        Ok(rule.text().to_owned())
    }
}

/// Whether a rule allows no more than one that is offered: the same, or what lies below its last `*`.
fn is_within(typed: &str, offered: &str) -> bool {
    let below = |end: &str, between: char| {
        let start = offered.strip_suffix(end)?;
        let rest = typed.strip_prefix(start)?.strip_prefix(between)?;
        Some(!rest.split(['/', ')']).any(|name| name == ".."))
    };
    typed == offered
        || below(" *)", ' ').is_some_and(|inside| inside && !typed.contains(" | "))
        || below("/**)", '/') == Some(true)
}

/// A person's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionAnswer {
    /// The question it answers.
    pub question: SmolStr,
    /// A decision per call, by digest. A call without one is a no.
    pub decisions: Vec<(SmolStr, CallApproval)>,
    /// Who answered.
    pub by: SmolStr,
}

impl QuestionAnswer {
    /// The same decision for every call of a question.
    pub fn all(question: &Question, decision: CallApproval, by: impl Into<SmolStr>) -> Self {
        let decisions =
            question.calls.iter().map(|call| (call.digest.clone(), decision.clone())).collect();
        QuestionAnswer { question: question.id.clone(), decisions, by: by.into() }
    }
}

/// What a person said about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallApproval {
    /// It may run, this once.
    Yes,
    /// It may run, and what these allow rules cover needs no further yes in this session. Rules that do
    /// not cover the call, or a call without an offer, make it a plain yes.
    YesForSession(Vec<String>),
    /// The same for good. Whoever answers so has kept the rules where the person's own are; here they
    /// are in force for every session of the agent.
    YesAlways(Vec<String>),
    /// It may not; the words are for the model.
    No(Option<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s4_a_rule_of_ones_own_is_no_wider_than_what_is_offered() {
        let cases = [
            ("bash(git push *)", "bash(git push *)", true),
            ("bash(git push origin)", "bash(git push *)", true),
            ("bash(git push origin *)", "bash(git push *)", true),
            ("bash(git *)", "bash(git push *)", false),
            ("bash(git pu*)", "bash(git push *)", false),
            ("bash(git push:*)", "bash(git push *)", false),
            ("bash(git push * | sh)", "bash(git push *)", false),
            ("bash", "bash(git push *)", false),
            ("*", "bash(git push *)", false),
            ("bash(./deploy *)", "bash(./deploy staging)", false),
            ("write(./src/a.txt)", "write(./src/**)", true),
            ("write(./src/**)", "write(./src/**)", true),
            ("write(./src/../**)", "write(./src/**)", false),
            ("write(./**)", "write(./src/**)", false),
            ("write(./src2/**)", "write(./src/**)", false),
            ("fetch(*)", "fetch(docs.rs)", false),
        ];
        for (typed, offered, expected) in cases {
            assert_eq!(is_within(typed, offered), expected, "{typed} within {offered}");
        }
    }
}
