//! What it says when its calls are made: what came of them, what it could not do, what it is.

use cotter::{
    history::{
        message::{ToolCall, ToolResultMessage},
        outcome::ToolErrorKind,
    },
    model::tools::ToolList,
    text,
};

use super::{
    Conversation,
    plan::{CALL, Missing, Plan, SUBAGENT, VERBS},
};

/// How much of a result it repeats.
const LINES: usize = 40;
const CHARS: usize = 4000;

/// How it says what it is.
const FOOT: &str = "\n\n(rehearsal is an offline stand-in, not a model)";

/// The answer to a request whose calls have all been made.
pub(super) fn answer(plan: &Plan, conversation: &Conversation<'_>, tools: &ToolList) -> String {
    let mut said: Vec<String> = vec![];
    for call in &conversation.calls {
        let mut results = conversation.results.iter();
        if let Some(result) = results.find(|result| result.call_id == call.id) {
            said.push(of_result(call, result));
        }
    }
    said.extend(plan.missing.iter().map(|missing| of_missing(missing, tools)));
    said.extend(
        plan.unknown
            .iter()
            .map(|sentence| format!("I do not understand \"{}\"", text::clip(sentence, 200))),
    );
    let lost = said.is_empty() || !plan.unknown.is_empty();
    if said.is_empty() {
        said.push("nothing was asked".into());
    }
    if lost {
        said.push(format!("I understand: {}", usages().join("; ")));
    }
    format!("rehearsal: {}{FOOT}", said.join("\n\n"))
}

/// What it says of a conversation that it is to sum up.
pub(super) fn summary(conversation: &str) -> String {
    let asked = conversation.lines().filter_map(|line| line.strip_prefix("[Person]: "));
    let asked: Vec<_> = asked.map(|words| format!("\"{}\"", text::clip(words, 200))).collect();
    let count = asked.len();
    let shown = asked[count.saturating_sub(LINES)..].join(", ");
    format!("rehearsal: the person asked for {count}: {shown}{FOOT}")
}

fn of_result(call: &ToolCall, result: &ToolResultMessage) -> String {
    let content = result.content.text();
    let what = format!("`{}` {}", call.name, text::clip(&call.input.to_string(), 200));
    match result.error {
        None if let Some((name, said)) = of_subagent(call, &content) => {
            format!("@{name} says:\n{}", excerpt(&said))
        }
        None => {
            let lines = content.trim_end().lines().count();
            let plural = if lines == 1 { "line" } else { "lines" };
            format!("{what} gave {lines} {plural}:\n{}", excerpt(&content))
        }
        Some(ToolErrorKind::Denied) => format!("{what} was refused: {}", content.trim()),
        Some(kind) => format!("{what} failed ({}): {}", kind.as_str(), content.trim()),
    }
}

/// Who answered and what, where the call was one of a subagent.
fn of_subagent(call: &ToolCall, content: &str) -> Option<(String, String)> {
    call.name.ends_with(SUBAGENT).then_some(())?;
    let shaped: serde_json::Value = serde_json::from_str(content).ok()?;
    let text = |key: &str| shaped["data"][key].as_str();
    let (name, said) = (text("subagent")?, text("content")?);
    // It says itself what it is, once.
    Some((name.into(), said.strip_suffix(FOOT).unwrap_or(said).into()))
}

fn of_missing(missing: &Missing, tools: &ToolList) -> String {
    let Missing { tool, request } = missing;
    let names: Vec<_> = tools.specs().map(|spec| format!("`{}`", spec.name)).collect();
    let there = match names.as_slice() {
        [] => "there are no tools here".to_owned(),
        names => format!("there are {}", names.join(", ")),
    };
    format!("\"{}\" needs the tool `{tool}`, and {there}", text::clip(request, 200))
}

fn usages() -> Vec<&'static str> {
    VERBS.iter().map(|verb| verb.usage).chain([CALL]).collect()
}

/// The first lines of a result, and how many there are beyond.
fn excerpt(content: &str) -> String {
    let content = content.trim_end();
    let lines: Vec<_> = content.lines().collect();
    let shown = lines[..lines.len().min(LINES)].join("\n");
    let clipped = text::clip(&shown, CHARS);
    match lines.len().saturating_sub(LINES) {
        0 => clipped.into_owned(),
        more => format!("{clipped}\n… and {more} lines more"),
    }
}
