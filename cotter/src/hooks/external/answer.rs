//! The answers of external hooks.

use serde_json::{Map, Value};

use crate::{
    agent::cx::Cx,
    hooks::{external::refusal::find_refusal, points::PointId},
    text,
};

/// The answer of a hook. An empty answer is a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookAnswer {
    /// Blocks the action, for this reason, which may be empty.
    pub block: Option<String>,
    /// Requires a person's approval first, for this reason.
    pub ask: Option<String>,
    /// Replaces a part of the event.
    pub change: Option<HookChange>,
    /// Makes the model continue at `turn.end`, for this reason.
    pub go_on: Option<String>,
    /// Answers a question for the person.
    pub decision: Option<HookDecision>,
    /// The output of the hook, for the model.
    pub output: Option<String>,
    /// Information for the model.
    pub additional_context: Option<String>,
}

/// A replacement for a part of the event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HookChange {
    /// Another input for the tool.
    Input(Value),
    /// A result: instead of running the tool, or instead of the tool's own result.
    Result(String),
    /// Another prompt.
    Prompt(String),
    /// A summary.
    Summary(String),
}

/// A hook's answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HookDecision {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// The keys that say something, at any point. A reason alone says nothing.
const KEYS: [&str; 13] = [
    "continue",
    "block",
    "blocked",
    "ask",
    "input",
    "result",
    "prompt",
    "messages",
    "summary",
    "goOn",
    "answer",
    "output",
    "additionalContext",
];

impl HookAnswer {
    /// Returns an answer that blocks, with a reason.
    pub fn blocked(reason: impl Into<String>) -> Self {
        HookAnswer { block: Some(reason.into()), ..HookAnswer::default() }
    }

    /// Reads the JSON object of a hook's answer. A refusal counts in the words of any dialect, and an ask even
    /// if it is badly written. Anything else must be well formed, or the whole answer is an error. An object
    /// without a known key is an error too, because it may have been meant as a refusal.
    pub fn read(point: PointId, object: &Map<String, Value>) -> Result<Self, String> {
        let text = |key: &str| object.get(key).map(to_text).filter(|text| !text.is_empty());
        let reason = text("reason");
        if let Some(found) = find_refusal(object) {
            let block = Some(reason.unwrap_or(found));
            let (output, additional_context) = (text("output"), text("additionalContext"));
            return Ok(HookAnswer { block, output, additional_context, ..HookAnswer::default() });
        }
        let is_unknown = |key: &String| !KEYS.contains(&key.as_str());
        if !object.is_empty() && object.keys().all(is_unknown) {
            return Err(no_known_key(object));
        }
        let decision = decision(point, object)?;
        let answers_no = decision == Some(HookDecision::No) && reason.is_some();
        let asks = object.get("ask").filter(|ask| !ask.is_null() && **ask != Value::Bool(false));
        Ok(HookAnswer {
            block: answers_no.then(|| reason.clone().unwrap_or_default()),
            ask: asks.map(|ask| match ask {
                Value::String(reason) if !reason.trim().is_empty() => reason.clone(),
                _ => reason.clone().unwrap_or_else(|| "it asks for a person's approval".into()),
            }),
            change: change(point, object)?,
            go_on: text("goOn").filter(|_| point == PointId::TurnEnd),
            decision,
            output: text("output"),
            additional_context: text("additionalContext"),
        })
    }

    /// Sends the output and the additional context to the model as notes.
    pub(crate) fn send_notes(&self, cx: &Cx) {
        self.output.iter().for_each(|text| cx.output(text.as_str()));
        self.additional_context.iter().for_each(|text| cx.note(text.as_str()));
    }
}

/// The error of an answer that says nothing known, with its first keys.
pub fn no_known_key(object: &Map<String, Value>) -> String {
    let keys = object.keys().take(3).map(|key| format!("`{}`", text::show_line(key)));
    format!("its answer has no known key, only {}", keys.collect::<Vec<_>>().join(", "))
}

fn change(point: PointId, object: &Map<String, Value>) -> Result<Option<HookChange>, String> {
    let has = |key: &str| object.get(key).filter(|value| !value.is_null());
    let text = |key: &'static str| -> Result<Option<String>, String> {
        match has(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{key}` in its answer is not a string")),
        }
    };
    Ok(match point {
        PointId::ToolPre => match has("input") {
            Some(input @ Value::Object(_)) => Some(HookChange::Input(input.clone())),
            Some(_) => return Err("`input` in its answer is not an object".into()),
            None => text("result")?.map(HookChange::Result),
        },
        PointId::ToolPost => text("result")?.map(HookChange::Result),
        PointId::UserPromptSubmit => text("prompt")?.map(HookChange::Prompt),
        PointId::CompactPre => text("summary")?.map(HookChange::Summary),
        _ => None,
    })
}

fn decision(point: PointId, object: &Map<String, Value>) -> Result<Option<HookDecision>, String> {
    match object.get("answer").filter(|_| point == PointId::PermissionAsk) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(word)) if word == "yes" => Ok(Some(HookDecision::Yes)),
        Some(Value::String(word)) if word == "no" => Ok(Some(HookDecision::No)),
        Some(_) => Err("`answer` in its answer is neither \"yes\" nor \"no\"".into()),
    }
}

/// Returns a string as it is and any other value as JSON.
fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// True if a value means no, in any spelling.
pub fn is_no(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Bool(yes)) => !yes,
        Some(Value::String(word)) => {
            matches!(word.trim().to_ascii_lowercase().as_str(), "false" | "no" | "0")
        }
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

/// True if a value means yes, in any spelling: every value except no, null and blank text.
pub fn is_yes(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(word)) if word.trim().is_empty() => false,
        some => !is_no(some),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(point: PointId, json: &str, expected: Expect) {
        let value: Value = serde_json::from_str(json).expect("the test's JSON");
        let read = HookAnswer::read(point, value.as_object().expect("an object"));
        let shown = match read {
            Err(why) => format!("error: {why}"),
            Ok(answer) if answer == HookAnswer::default() => "pass".into(),
            Ok(answer) => {
                let HookAnswer { block, ask, change, go_on, decision, output, additional_context } =
                    answer;
                let parts = [
                    block.map(|why| format!("block {why:?}")),
                    ask.map(|why| format!("ask {why:?}")),
                    change.map(|change| format!("{change:?}")),
                    go_on.map(|why| format!("go on {why:?}")),
                    decision.map(|decision| format!("{decision:?}")),
                    output.map(|text| format!("output {text:?}")),
                    additional_context.map(|text| format!("context {text:?}")),
                ];
                parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
            }
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn l8_refusal_of_an_external_hook_counts_in_any_spelling() {
        let at = PointId::ToolPre;
        check(at, r#"{"continue": false, "reason": "no"}"#, expect![[r#"block "no""#]]);
        check(at, r#"{"continue": "false"}"#, expect![[r#"block """#]]);
        check(at, r#"{"continue": " No "}"#, expect![[r#"block """#]]);
        check(at, r#"{"continue": 0, "reason": 7}"#, expect![[r#"block "7""#]]);
        check(at, r#"{"continue": true, "block": "yes"}"#, expect![[r#"block """#]]);
        check(at, r#"{"block": {"any": 1}}"#, expect![[r#"block """#]]);
        check(at, r#"{"block": false}"#, expect!["pass"]);
        check(at, r#"{"continue": null}"#, expect!["pass"]);
        check(at, r#"{"ask": "sure?"}"#, expect![[r#"ask "sure?""#]]);
        check(at, r#"{"ask": true}"#, expect![[r#"ask "it asks for a person's approval""#]]);
        check(at, r#"{"ask": 1, "reason": "r"}"#, expect![[r#"ask "r""#]]);
        check(at, r#"{"ask": false}"#, expect!["pass"]);
        check(at, r#"{"unknown": 1, "continue": true}"#, expect!["pass"]);
    }

    #[test]
    fn l8_change_of_an_external_hook_must_have_the_right_type() {
        let pre = PointId::ToolPre;
        check(pre, r#"{"input": {"a": 1}}"#, expect![[r#"Input(Object {"a": Number(1)})"#]]);
        check(pre, r#"{"input": "a"}"#, expect!["error: `input` in its answer is not an object"]);
        check(pre, r#"{"result": "cached"}"#, expect![[r#"Result("cached")"#]]);
        check(pre, r#"{"result": 5}"#, expect!["error: `result` in its answer is not a string"]);
        check(pre, r#"{"prompt": "x"}"#, expect!["pass"]);
        check(PointId::ToolPost, r#"{"result": "r"}"#, expect![[r#"Result("r")"#]]);
        check(PointId::UserPromptSubmit, r#"{"prompt": "x"}"#, expect![[r#"Prompt("x")"#]]);
        check(PointId::CompactPre, r#"{"summary": "s"}"#, expect![[r#"Summary("s")"#]]);
        let ask = PointId::PermissionAsk;
        check(ask, r#"{"answer": "yes"}"#, expect!["Yes"]);
        let neither = expect![[r#"error: `answer` in its answer is neither "yes" nor "no""#]];
        check(ask, r#"{"answer": true}"#, neither);
        check(PointId::ToolPre, r#"{"answer": "yes"}"#, expect!["pass"]);
        check(PointId::TurnEnd, r#"{"goOn": "test it"}"#, expect![[r#"go on "test it""#]]);
    }

    #[test]
    fn l9_output_and_context_of_an_external_hook_are_read() {
        let json = r#"{"output": "seen", "additionalContext": "it is Friday"}"#;
        let expected = expect![[r#"output "seen", context "it is Friday""#]];
        check(PointId::ModelPre, json, expected);
    }
}
