//! What happened, as a line of JSON for those outside, and in a few words without contents.

use serde_json::{Map, Value, json};

use crate::{redact::Redactor, session::Timestamp, text};

/// The most bytes of one text in a line.
const TEXT_BYTES: usize = 64 * 1024;
/// The most bytes of a line: beyond, what was said and done is left out.
const LINE_BYTES: usize = 1024 * 1024;

/// What a payload has of names, numbers and words of ours.
const PLAIN: &[&str] = &[
    "sessionId",
    "runId",
    "step",
    "agentId",
    "cwd",
    "projectDir",
    "dryRun",
    "model",
    "messageCount",
    "attempt",
    "stopReason",
    "inputTokens",
    "outputTokens",
    "cacheRead",
    "cacheWrite",
    "costUsd",
    "toolCallCount",
    "callId",
    "toolName",
    "is_error",
    "outcome",
    "durationMs",
    "code",
];

/// `{v, ts, profile, event, context}`, without secrets. The context is the payload, as hooks get it.
pub(super) fn line(profile: &str, payload: &Value, redactor: &Redactor) -> String {
    let whole = written(profile, payload, redactor);
    match whole.len() > LINE_BYTES {
        false => whole,
        true => written(profile, &without(payload, "it is too long"), redactor),
    }
}

fn written(profile: &str, payload: &Value, redactor: &Redactor) -> String {
    let mut context = payload.clone();
    let event = payload["event"].clone();
    if let Value::Object(context) = &mut context {
        context.retain(|key, _| key != "v" && key != "event");
    }
    scrub(&mut context, redactor);
    let ts = Timestamp::now().to_string();
    json!({"v": 1, "ts": ts, "profile": profile, "event": event, "context": context}).to_string()
}

/// A payload without anything that was said, read or done.
pub(super) fn without_contents(payload: &Value) -> Value {
    without(payload, "a secret was read in this session")
}

fn without(payload: &Value, why: &str) -> Value {
    let members = payload.as_object().into_iter().flatten();
    let kept = members.filter(|(key, _)| PLAIN.contains(&key.as_str()) || *key == "event");
    let mut kept: Map<_, _> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    // Of an end the reason is a word of ours.
    if payload["event"] == "session.end" {
        kept.insert("reason".into(), payload["reason"].clone());
    }
    kept.insert("withheld".into(), why.into());
    Value::Object(kept)
}

/// Takes secrets out of every text and name, and cuts what is long.
fn scrub(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => {
            let written = number.to_string();
            let scrubbed = redactor.redact(&written);
            if scrubbed != written {
                *value = scrubbed.into_owned().into();
            }
        }
        Value::String(words) => {
            // Before it is cut: half a secret would not be known.
            *words = text::cut(&redactor.redact(words), TEXT_BYTES);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| scrub(item, redactor)),
        Value::Object(members) => {
            let scrubbed = std::mem::take(members).into_iter().map(|(key, mut value)| {
                scrub(&mut value, redactor);
                (redactor.redact(&key).into_owned(), value)
            });
            *members = scrubbed.collect();
        }
    }
}

/// What happened in names and sizes.
pub(super) fn summary(payload: &Value) -> String {
    let text = |key: &str| {
        let word = payload[key].as_str().unwrap_or("?");
        text::clip(&text::show_line(word), 100).into_owned()
    };
    let number = |key: &str| payload[key].as_u64().unwrap_or_default();
    let size = |key: &str| match &payload[key] {
        Value::Null => 0,
        Value::String(words) => words.len(),
        other => other.to_string().len(),
    };
    let event = text("event");
    match event.as_str() {
        "session.start" => format!("{event} {}", text("model")),
        "tool.pre" => format!("{event} {}, input {} bytes", text("toolName"), size("toolInput")),
        "tool.post" => {
            let (tool, input, result) = (text("toolName"), size("toolInput"), size("result"));
            let (outcome, ms) = (text("outcome"), number("durationMs"));
            format!(
                "{event} {tool}, input {input} bytes, result {result} bytes, {outcome}, in {ms} ms"
            )
        }
        "model.pre" => {
            let (model, messages) = (text("model"), number("messageCount"));
            format!("{event} {model}, {messages} messages, attempt {}", number("attempt"))
        }
        "model.post" => {
            let (model, reason, calls) =
                (text("model"), text("stopReason"), number("toolCallCount"));
            let (input, output) = (number("inputTokens"), number("outputTokens"));
            format!("{event} {model}, {reason}, {input} tokens in, {output} out, {calls} calls")
        }
        "session.end" => format!("{event} {}", text("reason")),
        "error" => format!("{event} {}, message {} bytes", text("code"), size("message")),
        _ => event,
    }
}
