//! The texts of `rehearsal`: results of calls, sentences it did not understand, and what it is.

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

/// The most lines of a result that an answer repeats.
const LINES: usize = 40;
const CHARS: usize = 4000;

/// The last line of every answer: it says that `rehearsal` is not a model.
const FOOT: &str = "\n\n(rehearsal is an offline stand-in, not a model)";

/// The answer to a request whose calls have all been made.
pub(super) fn answer(plan: &Plan, conversation: &Conversation<'_>, tools: &ToolList) -> String {
    let mut answers: Vec<String> = vec![];
    for call in &conversation.calls {
        let mut results = conversation.results.iter();
        if let Some(result) = results.find(|result| result.call_id == call.id) {
            answers.push(describe_result(call, result));
        }
    }
    answers.extend(plan.missing.iter().map(|missing| describe_missing(missing, tools)));
    answers.extend(
        plan.unknown
            .iter()
            .map(|sentence| format!("I do not understand \"{}\"", text::cut_chars(sentence, 200))),
    );
    let show_help = answers.is_empty() || !plan.unknown.is_empty();
    if answers.is_empty() {
        answers.push("nothing was asked".into());
    }
    if show_help {
        answers.push(format!("I understand: {}", usages().join("; ")));
    }
    format!("rehearsal: {}{FOOT}", answers.join("\n\n"))
}

/// A summary of a conversation: the person's requests.
pub(super) fn summary(conversation: &str) -> String {
    let requests = conversation.lines().filter_map(|line| line.strip_prefix("[Person]: "));
    let requests: Vec<_> =
        requests.map(|request| format!("\"{}\"", text::cut_chars(request, 200))).collect();
    let count = requests.len();
    let shown = requests[count.saturating_sub(LINES)..].join(", ");
    format!("rehearsal: the person asked for {count}: {shown}{FOOT}")
}

fn describe_result(call: &ToolCall, result: &ToolResultMessage) -> String {
    let content = result.content.text();
    let call_text = format!("`{}` {}", call.name, text::cut_chars(&call.input.to_string(), 200));
    match result.error {
        None if let Some((name, text)) = subagent_answer(call, &content) => {
            format!("@{name} says:\n{}", excerpt(&text))
        }
        None => {
            let lines = content.trim_end().lines().count();
            let plural = if lines == 1 { "line" } else { "lines" };
            format!("{call_text} gave {lines} {plural}:\n{}", excerpt(&content))
        }
        Some(ToolErrorKind::Denied) => format!("{call_text} was refused: {}", content.trim()),
        Some(kind) => format!("{call_text} failed ({}): {}", kind.as_str(), content.trim()),
    }
}

/// The subagent's name and its answer, if the call was one of a subagent.
fn subagent_answer(call: &ToolCall, content: &str) -> Option<(String, String)> {
    call.name.ends_with(SUBAGENT).then_some(())?;
    let value: serde_json::Value = serde_json::from_str(content).ok()?;
    let text = |key: &str| value["data"][key].as_str();
    let (name, content) = (text("subagent")?, text("content")?);
    // The answer ends with `FOOT` once; remove the subagent's own.
    Some((name.into(), content.strip_suffix(FOOT).unwrap_or(content).into()))
}

fn describe_missing(missing: &Missing, tools: &ToolList) -> String {
    let Missing { tool, request } = missing;
    let names: Vec<_> = tools.specs().map(|spec| format!("`{}`", spec.name)).collect();
    let offered = match names.as_slice() {
        [] => "there are no tools here".to_owned(),
        names => format!("there are {}", names.join(", ")),
    };
    format!("\"{}\" needs the tool `{tool}`, and {offered}", text::cut_chars(request, 200))
}

fn usages() -> Vec<&'static str> {
    VERBS.iter().map(|verb| verb.usage).chain([CALL]).collect()
}

/// The first lines of a result, and the number of the rest.
fn excerpt(content: &str) -> String {
    let content = content.trim_end();
    let lines: Vec<_> = content.lines().collect();
    let shown = lines[..lines.len().min(LINES)].join("\n");
    let clipped = text::cut_chars(&shown, CHARS);
    match lines.len().saturating_sub(LINES) {
        0 => clipped.into_owned(),
        more => format!("{clipped}\n… and {more} lines more"),
    }
}
