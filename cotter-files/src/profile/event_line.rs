//! An event as a line of JSON for recipients outside, and as a short summary without contents.

use serde_json::{Map, Value, json};

use cotter::{
    history::entry::Timestamp,
    text::{self, redact::Redactor},
};

/// The maximum size of one string in a line, in bytes.
const TEXT_BYTES: usize = 64 * 1024;
/// The maximum size of a line in bytes; a longer line is sent without contents.
const LINE_BYTES: usize = 1024 * 1024;

/// The keys of a payload that hold only names, numbers and our own words.
const KEYS_WITHOUT_CONTENTS: &[&str] = &[
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
pub(crate) fn line(profile: &str, payload: &Value, redactor: &Redactor) -> String {
    let complete = format_line(profile, payload, redactor);
    match complete.len() > LINE_BYTES {
        false => complete,
        true => format_line(profile, &drop_contents(payload, "it is too long"), redactor),
    }
}

fn format_line(profile: &str, payload: &Value, redactor: &Redactor) -> String {
    let mut context = payload.clone();
    let event = payload["event"].clone();
    if let Value::Object(context) = &mut context {
        context.retain(|key, _| key != "v" && key != "event");
    }
    redact_and_shorten(&mut context, redactor);
    let ts = Timestamp::now().to_string();
    json!({"v": 1, "ts": ts, "profile": profile, "event": event, "context": context}).to_string()
}

/// A payload without any contents of messages, files or calls.
pub(crate) fn without_contents(payload: &Value) -> Value {
    drop_contents(payload, "a secret was read in this session")
}

fn drop_contents(payload: &Value, why: &str) -> Value {
    let members = payload.as_object().into_iter().flatten();
    let kept =
        members.filter(|(key, _)| KEYS_WITHOUT_CONTENTS.contains(&key.as_str()) || *key == "event");
    let mut kept: Map<_, _> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    // The reason of `session.end` is one of our own words.
    if payload["event"] == "session.end" {
        kept.insert("reason".into(), payload["reason"].clone());
    }
    kept.insert("withheld".into(), why.into());
    Value::Object(kept)
}

/// Redacts secrets in every string and key, and shortens long strings.
fn redact_and_shorten(value: &mut Value, redactor: &Redactor) {
    // Redaction comes before shortening, because a part of a secret would not be recognised.
    redactor.redact_json(value);
    shorten(value);
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(string) => *string = text::cut_bytes(string, TEXT_BYTES),
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        _ => {}
    }
}

/// A summary of the event in names and sizes.
pub(crate) fn summary(payload: &Value) -> String {
    let text = |key: &str| {
        let value = payload[key].as_str().unwrap_or("?");
        text::cut_chars(&text::show_line(value), 100).into_owned()
    };
    let number = |key: &str| payload[key].as_u64().unwrap_or_default();
    let size = |key: &str| match &payload[key] {
        Value::Null => 0,
        Value::String(string) => string.len(),
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
            let ending = if messages == 1 { "" } else { "s" };
            format!("{event} {model}, {messages} message{ending}, attempt {}", number("attempt"))
        }
        "model.post" => {
            let (model, reason, calls) =
                (text("model"), text("stopReason"), number("toolCallCount"));
            let (input, output) = (number("inputTokens"), number("outputTokens"));
            format!(
                "{event} {model}, {reason}, {input} tokens in, {output} out, tool calls {calls}"
            )
        }
        "session.end" => format!("{event} {}", text("reason")),
        "error" => format!("{event} {}, message {} bytes", text("code"), size("message")),
        _ => event,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn payload() -> Value {
        json!({
            "v": 1, "event": "tool.post", "sessionId": "s", "step": 2, "toolName": "bash",
            "toolInput": {"command": "echo hush-hush-12 424242424242", "n": 424_242_424_242_u64, "hush-hush-12": [null, true]},
            "result": "Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345", "outcome": "ok",
        })
    }

    fn check(payload: &Value, expected: Expect) {
        let redactor = Redactor::new()
            .with_secret("LAB_KEY", "hush-hush-12")
            .with_secret("LAB_PIN", "424242424242");
        let line = line("audit", payload, &redactor);
        let mut read: Value = serde_json::from_str(&line).expect("a line is JSON");
        assert!(!line.contains('\n') && read["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')));
        read["ts"] = "[TIME]".into();
        expected.assert_eq(&read.to_string());
    }

    #[test]
    fn s28_event_line_redacts_texts_names_and_numbers() {
        check(
            &payload(),
            expect![[
                r#"{"v":1,"ts":"[TIME]","profile":"audit","event":"tool.post","context":{"sessionId":"s","step":2,"toolName":"bash","toolInput":{"command":"echo [redacted LAB_KEY] [redacted LAB_PIN]","n":"[redacted LAB_PIN]","[redacted LAB_KEY]":[null,true]},"result":"Authorization: Bearer [redacted]","outcome":"ok"}}"#
            ]],
        );
    }

    #[test]
    fn s21_event_line_without_contents_keeps_names_and_sizes() {
        check(
            &without_contents(&payload()),
            expect![[
                r#"{"v":1,"ts":"[TIME]","profile":"audit","event":"tool.post","context":{"sessionId":"s","step":2,"toolName":"bash","outcome":"ok","withheld":"a secret was read in this session"}}"#
            ]],
        );
        check(
            &without_contents(&json!({"event": "session.end", "reason": "end_turn"})),
            expect![[
                r#"{"v":1,"ts":"[TIME]","profile":"audit","event":"session.end","context":{"reason":"end_turn","withheld":"a secret was read in this session"}}"#
            ]],
        );
        check(
            &without_contents(&json!({"event": "error", "code": "other", "message": "x"})),
            expect![[
                r#"{"v":1,"ts":"[TIME]","profile":"audit","event":"error","context":{"code":"other","withheld":"a secret was read in this session"}}"#
            ]],
        );
    }

    #[test]
    fn event_line_cuts_long_texts_and_drops_longer_contents() {
        let redactor = Redactor::new();
        let long = |count: usize| {
            let texts: Vec<_> = (0..count).map(|_| "x".repeat(2 * TEXT_BYTES)).collect();
            line(
                "audit",
                &json!({"event": "tool.pre", "toolName": "t", "toolInput": texts}),
                &redactor,
            )
        };
        let one = long(1);
        assert!(one.len() < TEXT_BYTES + 500 && one.contains("xxx"), "{}", one.len());
        let many: Value = serde_json::from_str(&long(40)).expect("a line is JSON");
        assert_eq!(many["context"], json!({"toolName": "t", "withheld": "it is too long"}));
    }

    #[test]
    fn l17_log_summary_has_names_and_sizes_and_no_contents() {
        let secret = "the launch is at noon";
        let events = [
            json!({"event": "session.start", "model": "lab/m"}),
            json!({"event": "tool.pre", "toolName": "send", "toolInput": {"text": secret}}),
            json!({"event": "tool.post", "toolName": "send", "toolInput": {"text": secret}, "result": secret, "outcome": "failed", "durationMs": 3}),
            json!({"event": "model.pre", "model": "lab/m", "messageCount": 1, "attempt": 1}),
            json!({"event": "model.pre", "model": "lab/m", "messageCount": 4, "attempt": 1}),
            json!({"event": "model.post", "model": "lab/m", "stopReason": "end_turn", "inputTokens": 9, "outputTokens": 2, "toolCallCount": 1}),
            json!({"event": "session.end", "reason": "end_turn"}),
            json!({"event": "error", "code": "auth", "message": secret}),
        ];
        let told = events.map(|event| summary(&event) + "\n").concat();
        assert!(!told.contains("launch"));
        expect![[r#"
            session.start lab/m
            tool.pre send, input 32 bytes
            tool.post send, input 32 bytes, result 21 bytes, failed, in 3 ms
            model.pre lab/m, 1 message, attempt 1
            model.pre lab/m, 4 messages, attempt 1
            model.post lab/m, end_turn, 9 tokens in, 2 out, tool calls 1
            session.end end_turn
            error auth, message 21 bytes
        "#]]
        .assert_eq(&told);
    }
}
