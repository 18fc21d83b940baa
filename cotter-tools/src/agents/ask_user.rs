//! The tool `ask_user {question, options?, multiple?}`: the model asks the person and gets the
//! answer.
//!
//! The text of a question comes from the model. It is shown with every hidden character visible,
//! with a bar before each line, and below a line that names the asker. So it cannot look like a
//! permission question. An answer is an ordinary tool result and approves nothing.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::Agent;
//! use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step, transcript};
//! use cotter_tools::agents::ask_user::AskUser;
//! use serde_json::json;
//!
//! let question = json!({"question": "Which branch?", "options": ["main", "next"]});
//! let model = ScriptedModel::new([Step::call("ask_user", question), Step::text("next it is.")]);
//! let person = ScriptedUi::new([PersonAnswer::Choice(1)]);
//! let agent = Agent::builder(model).ui(person).hook(AskUser::default()).build()?;
//! agent.process_request("Merge it.").await?;
//! let shown = transcript(&agent.main_session().await?);
//! assert!(shown.contains("result c1.1: The person chose \"next\".\n"));
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use cotter::{
    Cx, Hook, Permit, ToolError, ToolOutput, ToolSpec, Workspace,
    history::outcome::ToolErrorKind,
    permission::{Zone, facts::Facts},
    text,
    tool::ToolFuture,
};
use serde_json::{Value, json};

/// The longest question and option, in characters.
const QUESTION_CHARS: usize = 4000;
const OPTION_CHARS: usize = 200;
/// The allowed number of options.
const MIN_OPTIONS: usize = 2;
const MAX_OPTIONS: usize = 8;

/// The width of a question's line.
const COLUMNS: usize = 72;

const OTHER: &str = "Something else";

const NO_PERSON: &str = "There is no person to ask. Do not ask again: choose the most likely \
    meaning, and say that you did.";
const NO_ANSWER: &str = "The person did not answer. Do not ask the same again: continue with the \
    most likely meaning and say so, or say what you need to know.";

/// The tool `ask_user`.
pub struct AskUser {
    limit: Duration,
}

impl Default for AskUser {
    fn default() -> Self {
        AskUser { limit: Duration::from_secs(30 * 60) }
    }
}

impl AskUser {
    /// Sets the time the person has to answer. The default is half an hour.
    pub fn with_limit(self, limit: Duration) -> Self {
        AskUser { limit }
    }
}

impl Hook for AskUser {
    fn schema(&self) -> Vec<ToolSpec> {
        let description = "Ask the person a question and wait for the answer. Use it where you \
            cannot continue without their decision, not for facts that you can find out. With \
            `options` they choose one, or several with `multiple`; they can always answer in their \
            own words instead. An answer is not a permission: calls that need one are asked \
            about separately.";
        let schema = json!({
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": QUESTION_CHARS},
                "options": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": OPTION_CHARS},
                    "minItems": MIN_OPTIONS,
                    "maxItems": MAX_OPTIONS
                },
                "multiple": {"type": "boolean", "description": "Whether several may be chosen."}
            },
            "required": ["question"],
            "additionalProperties": false
        });
        vec![ToolSpec::new("ask_user", description, schema)]
    }

    /// A question changes nothing.
    fn effects(&self, _: &str, _: &Value, _: &Workspace) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn dispatch<'a>(&'a self, _: &'a str, call: Permit) -> Option<ToolFuture<'a>> {
        Some(Box::pin(async move {
            let question = UserQuestion::read(call.input())?;
            if !call.cx().has_ui() {
                return Ok(NO_PERSON.into());
            }
            let answer = tokio::time::timeout(self.limit, question.ask(call.cx())).await;
            match answer.ok().flatten() {
                Some(answer) => Ok(answer.into_output()),
                None if call.cx().cancel().is_cancelled() => {
                    Err(ToolError::new(ToolErrorKind::Cancelled, "Cancelled while it ran."))
                }
                None => Ok(NO_ANSWER.into()),
            }
        }))
    }
}

/// A question of the model.
struct UserQuestion<'a> {
    question: &'a str,
    options: Vec<&'a str>,
    multiple: bool,
}

impl<'a> UserQuestion<'a> {
    fn read(input: &'a Value) -> Result<Self, ToolError> {
        let invalid = |message: &str| Err(ToolError::new(ToolErrorKind::InvalidArgs, message));
        let question = input["question"].as_str().unwrap_or_default();
        if question.trim().is_empty() {
            return invalid("the question is empty");
        }
        let options = input["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let options: Vec<_> = options.iter().filter_map(Value::as_str).map(str::trim).collect();
        if options.iter().any(|option| option.is_empty()) {
            return invalid("an option is empty");
        }
        let is_duplicate = |(at, option): (usize, &&str)| options[..at].contains(option);
        if options.iter().enumerate().any(is_duplicate) {
            return invalid("two options are the same");
        }
        Ok(UserQuestion {
            question,
            options,
            multiple: input["multiple"].as_bool().unwrap_or(false),
        })
    }

    /// Asks the person. `None` if there is no answer.
    async fn ask(&self, cx: &Cx) -> Option<UserAnswer> {
        let title = title(cx.agent_id(), self.question);
        if self.options.is_empty() {
            let text = cx.input(&title).await;
            return Some(UserAnswer { chosen: vec![], text: Some(text?) });
        }
        let shown = self.options.iter().map(|option| text::show_line(option).into_owned());
        let shown: Vec<_> = shown.chain([OTHER.to_owned()]).collect();
        let mut indexes = if self.multiple {
            cx.select_many(&title, &shown).await?
        } else {
            vec![cx.select(&title, &shown).await?]
        };
        let wants_other = indexes.last() == Some(&self.options.len());
        indexes.retain(|index| *index < self.options.len());
        let chosen = indexes.into_iter().map(|index| self.options[index].to_owned()).collect();
        let text = if wants_other { Some(cx.input(&title).await?) } else { None };
        Some(UserAnswer { chosen, text })
    }
}

/// The question below the asker's name, with a bar before each line.
fn title(agent: &str, question: &str) -> String {
    let asker = match agent {
        "main" => "The agent".to_owned(),
        name => format!("The subagent {}", text::show_line(name)),
    };
    let mut title = format!("{asker} has a question. Your answer allows nothing to run.");
    for line in text::show(question.trim()).lines() {
        // A line longer than the screen would wrap to a line without a bar.
        for piece in text::wrap(&line.replace('\t', "    "), COLUMNS) {
            title += &format!("\n│ {}", piece.trim_end());
        }
    }
    title
}

/// The person's answer.
struct UserAnswer {
    chosen: Vec<String>,
    /// The answer in the person's own words.
    text: Option<String>,
}

impl UserAnswer {
    fn into_output(self) -> ToolOutput {
        let quoted: Vec<_> = self.chosen.iter().map(|option| format!("\"{option}\"")).collect();
        let text = self.text.as_deref().map(str::trim);
        let message = match (quoted.join(" and "), text) {
            (chosen, None) => format!("The person chose {chosen}."),
            (chosen, Some("")) if chosen.is_empty() => "The person left the answer empty.".into(),
            (chosen, Some("")) => format!("The person chose {chosen}."),
            (chosen, Some(text)) if chosen.is_empty() => format!("The person said: {text}"),
            (chosen, Some(text)) => format!("The person chose {chosen}, and said: {text}"),
        };
        let render_data = Some(json!({"chosen": self.chosen, "said": text}));
        ToolOutput { content: message.into(), render_data }
    }
}
