//! The user interface: the person whom the runtime may ask. [`Headless`] is for runs without a person.
//!
//! Every call of a step that needs approval goes into one [`Question`], with the reasons of every hook and
//! rule that asks. An answer is bound to the calls as they were shown; a call without an answer does not run.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use cotter::{Agent, FnTool, ToolSpec};
//! use cotter::hooks::ui::{QuestionAnswer, UiFuture, CallApproval, Question, Ui};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! /// A person who approves nothing.
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
//! let agent = Agent::builder(ScriptedModel::new([Step::call("deploy", json!({})), Step::text("Monday then.")]))
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

/// The future of a [`Ui`] method.
pub type UiFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The connection to a person who can be asked.
///
/// The runtime calls `ask` at most once per step, with every call that needs approval. It drops the future
/// when the run is aborted or the time limit of the question is over. Both count as no answer, and no answer
/// is a no.
pub trait Ui: Send + Sync + 'static {
    /// True if a person is present.
    fn present(&self) -> bool;

    /// Asks a question. `None` is no answer.
    fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>>;

    /// Asks a yes/no question.
    fn confirm(&self, text: &str) -> UiFuture<'_, bool> {
        let _ = text;
        Box::pin(async { false })
    }

    /// Asks the person to choose one option. Returns the index of the option, or `None`.
    fn select<'a>(&'a self, title: &'a str, options: &'a [String]) -> UiFuture<'a, Option<usize>> {
        let _ = (title, options);
        Box::pin(async { None })
    }

    /// Asks the person to choose several options. Returns the indices of the options, or `None`. The default
    /// implementation asks for one option.
    fn select_many<'a>(
        &'a self,
        title: &'a str,
        options: &'a [String],
    ) -> UiFuture<'a, Option<Vec<usize>>> {
        Box::pin(async move { self.select(title, options).await.map(|index| vec![index]) })
    }

    /// Asks the person for a line of text.
    fn input<'a>(&'a self, title: &'a str) -> UiFuture<'a, Option<String>> {
        let _ = title;
        Box::pin(async { None })
    }

    /// Shows a message.
    fn notify(&self, text: &str) {
        let _ = text;
    }
}

/// A [`Ui`] without a person: every question is answered with no.
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

/// The question of one step: every call that needs approval, with the reasons to ask.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The id of the question, unique within the session.
    pub id: SmolStr,
    /// The id of the agent that makes the calls: `main`, or the id of a subagent.
    #[serde(skip)]
    pub agent: SmolStr,
    /// The calls, in call order.
    pub calls: Vec<QuestionCall>,
    /// The time limit for the answer.
    #[serde(skip)]
    pub limit: Duration,
}

/// One call of a question.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QuestionCall {
    /// The id of the call.
    pub call_id: SmolStr,
    /// The tool's name.
    pub name: SmolStr,
    /// The call as it is shown to the person.
    pub preview: String,
    /// The whole input.
    #[serde(skip)]
    pub input: Arc<Value>,
    /// The rules, gates and other sources that ask, each with its reason.
    pub asks: Vec<AskReason>,
    /// The allow rules with which the call would run without a question, as narrow as is useful; empty if no
    /// rule would allow it. A person may be offered them for the session, or permanently after they have seen
    /// the whole call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offer: Vec<String>,
    /// Checks a rule that the person types instead of the offered rules: true if it would allow the call.
    #[serde(skip)]
    pub own_rule: RuleCheck,
    /// Binds the answer to session, call, tool definition, input and working folder.
    #[serde(skip)]
    pub digest: SmolStr,
}

/// A check of the person's own rule: true if the rule would allow the call without a question.
#[derive(Clone, Default)]
pub struct RuleCheck(Option<Arc<RuleCheckFn>>);

type RuleCheckFn = dyn Fn(&Rule) -> bool + Send + Sync;

impl RuleCheck {
    pub(crate) fn new(covers_call: impl Fn(&Rule) -> bool + Send + Sync + 'static) -> Self {
        RuleCheck(Some(Arc::new(covers_call)))
    }
}

impl fmt::Debug for RuleCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuleCheck")
    }
}

impl QuestionCall {
    /// Checks a rule that a person typed, for [`CallApproval::YesForSession`] or [`CallApproval::YesAlways`].
    /// It must be an allow rule without its kind, cover this call, and be no wider than the offered rules.
    /// The error says which condition fails.
    pub fn take_rule(&self, typed: &str) -> Result<String, String> {
        let rule = Rule::parse(RuleKind::Allow, typed).map_err(|error| error.to_string())?;
        if !self.own_rule.0.as_ref().is_some_and(|covers_call| covers_call(&rule)) {
            return Err(format!("`{typed}` does not cover this call"));
        }
        if !self.offer.iter().any(|offered| is_within(typed, offered)) {
            let offered = self.offer.join(", ");
            return Err(format!("`{typed}` would allow more than {offered}"));
        }
        Ok(rule.text().to_owned())
    }
}

/// True if `typed` allows no more than `offered`: an equal rule, or a rule below its last `*`.
fn is_within(typed: &str, offered: &str) -> bool {
    let is_below = |end: &str, between: char| {
        let start = offered.strip_suffix(end)?;
        let rest = typed.strip_prefix(start)?.strip_prefix(between)?;
        Some(!rest.split(['/', ')']).any(|name| name == ".."))
    };
    typed == offered
        || is_below(" *)", ' ').is_some_and(|is_inside| is_inside && !typed.contains(" | "))
        || is_below("/**)", '/') == Some(true)
}

/// A person's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionAnswer {
    /// The id of the answered question.
    pub question: SmolStr,
    /// A decision per call, by digest. A call without a decision is not approved.
    pub decisions: Vec<(SmolStr, CallApproval)>,
    /// The person or hook that answered.
    pub by: SmolStr,
}

impl QuestionAnswer {
    /// Makes an answer with one decision for every call of a question.
    pub fn all(question: &Question, decision: CallApproval, by: impl Into<SmolStr>) -> Self {
        let decisions =
            question.calls.iter().map(|call| (call.digest.clone(), decision.clone())).collect();
        QuestionAnswer { question: question.id.clone(), decisions, by: by.into() }
    }
}

/// A person's decision about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallApproval {
    /// The call may run, this once.
    Yes,
    /// The call may run, and calls that these allow rules cover need no further approval in this session. If
    /// the rules do not cover the call, or the call has no offer, this counts as a plain yes.
    YesForSession(Vec<String>),
    /// Like `YesForSession`, but permanent. The caller that answers so has already saved the rules in the
    /// person's own settings. The runtime applies them to every session of the agent.
    YesAlways(Vec<String>),
    /// The call may not run; the text is for the model.
    No(Option<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s4_typed_rule_is_not_wider_than_the_offered_rule() {
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
