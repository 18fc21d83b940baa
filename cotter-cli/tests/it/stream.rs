//! `--output-format json` and `stream-json`, line by line.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use expect_test::expect;
use serde_json::Value;

use crate::support::World;

const JSON: [&str; 4] = ["-p", "--output-format", "json", "--script"];
const STREAM: [&str; 4] = ["-p", "--output-format", "stream-json", "--script"];

fn with<'a>(first: [&'a str; 4], more: &[&'a str]) -> Vec<&'a str> {
    first.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn json_output_is_one_object() {
    let world = World::new();
    let script = world.script(r#"{"text": "hello \u001b[31m"}"#);
    world.check(&with(JSON, &[&script, "go"]), expect![[r#"
        exit 0
        --- stdout
        {"type":"result","sessionId":"[ID1]","runId":"r1","reason":"end_turn","text":"hello \u001b[31m","steps":1,"usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"costUsd":null}
    "#]]);
    let script = world.script(r#"{"text": "so", "error": {"kind": "auth"}}"#);
    world.check(&with(JSON, &[&script, "go"]), expect![[r#"
        exit 1
        --- stdout
        {"type":"result","sessionId":"[ID2]","runId":"r1","reason":"error","text":"","steps":1,"usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"costUsd":0.0,"error":{"code":"auth","message":"the script says so"}}
    "#]]);
}

#[test]
fn stream_json_is_every_event_and_then_the_result() {
    let world = World::new();
    let script = world.script(
        r#"{"thinking": "hm", "text": "let me see", "calls": [
             {"name": "read", "input": {"path": "a.txt"}}]},
           {"calls": [{"name": "read", "input": {"path": "/etc/hostname"}}]},
           {"text": "done"}"#,
    );
    world.check(&with(STREAM, &[&script, "go"]), expect![[r#"
        exit 0
        --- stdout
        {"type":"session.open","v":1,"seq":1,"at":"[TIME]","sessionId":"[ID1]","runId":"","step":0,"agentId":"main","how":"created"}
        {"type":"session.start","v":1,"seq":2,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":0,"agentId":"main","model":"script"}
        {"type":"message","v":1,"seq":3,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":0,"agentId":"main","entry":{"type":"message","id":"00000001","parentId":null,"timestamp":"[TIME]","message":{"role":"user","content":"go"}}}
        {"type":"thinking.start","v":1,"seq":4,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main"}
        {"type":"thinking.delta","v":1,"seq":5,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","text":"hm"}
        {"type":"thinking.end","v":1,"seq":6,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main"}
        {"type":"text.start","v":1,"seq":7,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main"}
        {"type":"text.delta","v":1,"seq":8,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","text":"let "}
        {"type":"text.delta","v":1,"seq":9,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","text":"me "}
        {"type":"text.delta","v":1,"seq":10,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","text":"see"}
        {"type":"text.end","v":1,"seq":11,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main"}
        {"type":"message","v":1,"seq":12,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","entry":{"type":"message","id":"00000002","parentId":"00000001","timestamp":"[TIME]","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"let me see"},{"type":"toolCall","id":"c1.1","name":"read","input":{"path":"a.txt"}}],"model":"script","usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"stopReason":"tool_use"}}}
        {"type":"model.post","v":1,"seq":13,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","model":"script","stopReason":"tool_use","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":null,"toolCallCount":1}
        {"type":"tool.call","v":1,"seq":14,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","callId":"c1.1","name":"read","input":{"path":"a.txt"}}
        {"type":"tool.result","v":1,"seq":15,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","callId":"c1.1","name":"read","output":"     1\tone\n     2\ttwo\n","is_error":false,"ms":N}
        {"type":"message","v":1,"seq":16,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":1,"agentId":"main","entry":{"type":"message","id":"00000003","parentId":"00000002","timestamp":"[TIME]","message":{"role":"toolResult","toolCallId":"c1.1","toolName":"read","content":"     1\tone\n     2\ttwo\n","is_error":false}}}
        {"type":"message","v":1,"seq":17,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":2,"agentId":"main","entry":{"type":"message","id":"00000004","parentId":"00000003","timestamp":"[TIME]","message":{"role":"assistant","content":[{"type":"toolCall","id":"c2.1","name":"read","input":{"path":"/etc/hostname"}}],"model":"script","usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"stopReason":"tool_use"}}}
        {"type":"model.post","v":1,"seq":18,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":2,"agentId":"main","model":"script","stopReason":"tool_use","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":null,"toolCallCount":1}
        {"type":"hook","v":1,"seq":19,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":2,"agentId":"main","point":"tool.pre","name":"project-roots","origin":"kernel","power":"gate","verdict":"block","reason":"/etc/hostname is outside the project","ms":N}
        {"type":"tool.refused","v":1,"seq":20,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":2,"agentId":"main","callId":"c2.1","name":"read","by":"project-roots","reason":"/etc/hostname is outside the project"}
        {"type":"message","v":1,"seq":21,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":2,"agentId":"main","entry":{"type":"message","id":"00000005","parentId":"00000004","timestamp":"[TIME]","message":{"role":"toolResult","toolCallId":"c2.1","toolName":"read","content":"Hook \"project-roots\" blocked the action: /etc/hostname is outside the project. Adjust your approach; do not retry the exact same call.","is_error":true,"errorKind":"denied"}}}
        {"type":"text.start","v":1,"seq":22,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":3,"agentId":"main"}
        {"type":"text.delta","v":1,"seq":23,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":3,"agentId":"main","text":"done"}
        {"type":"text.end","v":1,"seq":24,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":3,"agentId":"main"}
        {"type":"message","v":1,"seq":25,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":3,"agentId":"main","entry":{"type":"message","id":"00000006","parentId":"00000005","timestamp":"[TIME]","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"model":"script","usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"stopReason":"end_turn"}}}
        {"type":"model.post","v":1,"seq":26,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":3,"agentId":"main","model":"script","stopReason":"end_turn","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":null,"toolCallCount":0}
        {"type":"session.end","v":1,"seq":27,"at":"[TIME]","sessionId":"[ID1]","runId":"r1","step":3,"agentId":"main","reason":"end_turn"}
        {"type":"result","sessionId":"[ID1]","runId":"r1","reason":"end_turn","text":"done","steps":3,"usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"costUsd":null}
    "#]]);
}

#[test]
fn stream_json_lines_match_the_event_format() {
    let world = World::new();
    world.settings(r#"{"permissions": {"ask": ["read"]}}"#);
    let script = world.script(
        r#"{"calls": [{"name": "read", "input": {"path": "a.txt"}}]},
           {"error": {"kind": "overloaded", "retryAfterMs": 1}},
           {"text": "done"}"#,
    );
    let output = world.output(&with(STREAM, &[&script, "go"]));
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (result, events) = lines.split_last().unwrap();
    for (index, event) in events.iter().enumerate() {
        let keys: Vec<_> = event.as_object().unwrap().keys().take(8).map(String::as_str).collect();
        let expected = ["type", "v", "seq", "at", "sessionId", "runId", "step", "agentId"];
        assert_eq!(keys, expected, "{event}");
        assert_eq!(event["v"], 1);
        assert_eq!(event["seq"], index + 1);
        assert_eq!(event["runId"], if index == 0 { "" } else { "r1" });
    }
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    expect![[r#"
        session.open
        session.start
        message
        message
        model.post
        permission.request
        permission.response
        tool.refused
        message
        retry
        text.start
        text.delta
        text.end
        message
        model.post
        session.end
        result"#]]
    .assert_eq(&types.join("\n"));
    let keys: Vec<_> = result.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["type", "sessionId", "runId", "reason", "text", "steps", "usage", "costUsd"];
    assert_eq!(keys, expected);
}

#[test]
fn closed_stdout_aborts_a_stream_json_run() {
    let world = World::new();
    let script = world.script(r#"{"text": "a b c d e f", "delayMs": 100}, {"text": "no"}"#);
    let mut child =
        world.command(&with(STREAM, &[&script, "go"])).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    world.wait_for_session(r#""reason":"aborted""#);
}

/// A value with a space comes in two pieces, and so does a token behind a letter that begins one.
#[test]
fn s28_no_format_prints_a_secret() {
    let world = World::new().with_env("LAB_API_KEY", "correct horse");
    let token = format!("ghp_{}", "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7j");
    world.write("project/key.txt", format!("correct horse {token}\n"));
    let step = r#"{"thinking": "so correct horse", "text": "it is correct horse, TOKEN", "calls": [
        {"name": "read", "input": {"path": "key.txt"}},
        {"name": "bash", "input": {"command": "printf 'correct '; sleep 0.2; printf 'horse '; cat key.txt"}}]},
        {"text": "I read correct horse and TOKEN"}"#;
    let script = world.script(&step.replace("TOKEN", &token));
    let mut shown = String::new();
    for format in ["text", "json", "stream-json"] {
        let args = ["-p", "--script", &script, "--output-format", format, "go"];
        let output = world.output(&args);
        let stdout = String::from_utf8(output.stdout).unwrap();
        let said = [&stdout, &*String::from_utf8_lossy(&output.stderr)].concat();
        assert!(!said.contains("correct horse") && !said.contains(&token), "{format}: {said}");
        let mut last = String::new();
        for line in stdout.lines() {
            let event = serde_json::from_str::<Value>(line).unwrap_or(Value::Null);
            let kind = event["type"].as_str().unwrap_or("answer").to_owned();
            if format != "stream-json" || kind.ends_with(".delta") || kind == "tool.output" {
                // How the output of a command is cut depends on time.
                let start = if kind == last { "" } else { &format!("\n{format} {kind}: ") };
                shown += &format!("{start}{}", event["text"].as_str().unwrap_or(line));
                last = kind;
            }
        }
        let numbers = stdout
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["seq"].as_u64());
        assert!(numbers.collect::<Vec<_>>().is_sorted_by(|one, next| one < next), "{stdout}");
        let session = std::fs::read_to_string(world.session_file()).unwrap();
        assert!(session.contains("I read correct horse"), "the session stays as it is: {session}");
        std::fs::remove_file(world.session_file()).unwrap();
    }
    expect![[r#"

        text answer: I read [redacted LAB_API_KEY] and [redacted]
        json result: I read [redacted LAB_API_KEY] and [redacted]
        stream-json thinking.delta: so [redacted LAB_API_KEY]
        stream-json text.delta: it is [redacted LAB_API_KEY], [redacted]
        stream-json tool.output: [redacted LAB_API_KEY] [redacted LAB_API_KEY] [redacted]

        stream-json text.delta: I read [redacted LAB_API_KEY] and [redacted]"#]]
    .assert_eq(&shown);
}
