//! Golden tests: the input of a hook at each event, and the meaning of each outcome.

#![expect(clippy::too_many_lines, reason = "whole outputs stand in the tests")]

use std::{fmt::Write, path::Path};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::claude::{
    ClaudeEntry, ClaudeFile, PluginPaths,
    entries::{drop_repeats, read},
    events::ClaudeEvent,
    input::{EventContext, claude_inputs},
    output::{HookOutput, interpret_output},
    tool_mapping as tools,
};
use crate::{
    command_hook::{
        ProcessExit, ProcessOutput,
        entry::{CommandHook, CommandLine, OnFailure},
    },
    document::Document,
};
use cotter::{Workspace, hooks::points::PointId};

fn workspace() -> Workspace {
    Workspace::new(Path::new("/work")).with_home("/home/me")
}

/// Checks the inputs of a hook, an object per line; the common fields are left out after the first.
fn told(
    event: ClaudeEvent,
    point: PointId,
    payload: Value,
    subagent: Option<&str>,
    expected: Expect,
) {
    let workspace = workspace();
    let mut whole = json!({"cwd": "/work", "sessionId": "s2", "runId": "r1", "callId": "c1.1"});
    for (key, value) in payload.as_object().expect("an object") {
        whole[key] = value.clone();
    }
    let around = EventContext { session: "s1", subagent, mode: "default", workspace: &workspace };
    let mut shown = String::new();
    for told in claude_inputs(event, point, &whole, &around) {
        assert_eq!(told.fields["session_id"], "s1");
        assert_eq!(told.fields["transcript_path"], "");
        assert_eq!(told.fields["hook_event_name"], event.name());
        let own = told.fields.into_iter().filter(|(key, _)| {
            !["session_id", "transcript_path", "hook_event_name"].contains(&key.as_str())
        });
        let _ = writeln!(shown, "{}", Value::Object(own.collect()));
    }
    expected.assert_eq(&shown);
}

#[test]
fn b3_hook_input_of_each_claude_event() {
    use ClaudeEvent as E;
    use PointId as P;
    told(
        E::SessionStart,
        P::SessionOpen,
        json!({"how": "created"}),
        None,
        expect![[r#"
        {"cwd":"/work","source":"startup"}
    "#]],
    );
    told(
        E::SessionStart,
        P::SessionOpen,
        json!({"how": "resumed"}),
        None,
        expect![[r#"
        {"cwd":"/work","source":"resume"}
    "#]],
    );
    told(
        E::SessionStart,
        P::SessionOpen,
        json!({"how": "forked"}),
        None,
        expect![[r#"
        {"cwd":"/work","source":"fork"}
    "#]],
    );
    told(
        E::SessionStart,
        P::CompactPost,
        json!({"trigger": "forced"}),
        None,
        expect![[r#"
        {"cwd":"/work","source":"compact"}
    "#]],
    );
    let prompt = json!({"prompt": "hi", "rawPrompt": "/x hi"});
    told(
        E::UserPromptSubmit,
        P::UserPromptSubmit,
        prompt,
        None,
        expect![[r#"
        {"cwd":"/work","permission_mode":"default","prompt":"hi"}
    "#]],
    );
    let call = json!({"toolName": "bash", "toolInput": {"command": "ls", "timeout_ms": 5}});
    told(
        E::PreToolUse,
        P::ToolPre,
        call.clone(),
        None,
        expect![[r#"
        {"cwd":"/work","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"ls","timeout":5},"tool_use_id":"c1.1"}
    "#]],
    );
    told(
        E::PreToolUse,
        P::ToolPre,
        call,
        Some("reviewer"),
        expect![[r#"
        {"cwd":"/work","permission_mode":"default","agent_id":"r1","agent_type":"reviewer","tool_name":"Bash","tool_input":{"command":"ls","timeout":5},"tool_use_id":"c1.1"}
    "#]],
    );
    let asked = json!({"calls": [
        {"callId": "c1.1", "name": "bash", "input": {"command": "make"}, "offer": ["bash(make)"]},
        {"callId": "c1.2", "name": "mcp__db__drop", "input": {"table": "t"}},
    ]});
    told(
        E::PermissionRequest,
        P::PermissionAsk,
        asked.clone(),
        None,
        expect![[r#"
        {"cwd":"/work","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"make"},"permission_suggestions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"make"}],"behavior":"allow","destination":"session"}]}
        {"cwd":"/work","permission_mode":"default","tool_name":"mcp__db__drop","tool_input":{"table":"t"}}
    "#]],
    );
    told(
        E::Notification,
        P::PermissionAsk,
        asked,
        None,
        expect![[r#"
        {"cwd":"/work","message":"Permission is needed to use Bash, mcp__db__drop","title":"Permission needed","notification_type":"permission_prompt"}
    "#]],
    );
    let ran = |is_error: bool, outcome: &str| {
        json!({"toolName": "bash", "toolInput": {"command": "ls"}, "result": "a\nb",
               "is_error": is_error, "outcome": outcome, "durationMs": 7})
    };
    told(
        E::PostToolUse,
        P::ToolPost,
        ran(false, "ok"),
        None,
        expect![[r#"
        {"cwd":"/work","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"c1.1","tool_response":{"stdout":"a\nb","stderr":"","interrupted":false,"isImage":false},"duration_ms":7}
    "#]],
    );
    told(E::PostToolUse, P::ToolPost, ran(true, "failed"), None, expect![[""]]);
    told(
        E::PostToolUseFailure,
        P::ToolPost,
        ran(true, "failed"),
        None,
        expect![[r#"
        {"cwd":"/work","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"c1.1","error":"a\nb","is_interrupt":false,"duration_ms":7}
    "#]],
    );
    told(E::PostToolUseFailure, P::ToolPost, ran(true, "cancelled"), None, expect![[""]]);
    told(E::PostToolUseFailure, P::ToolPost, ran(false, "ok"), None, expect![[""]]);
    told(
        E::PreCompact,
        P::CompactPre,
        json!({"trigger": "forced"}),
        None,
        expect![[r#"
        {"cwd":"/work","trigger":"manual","custom_instructions":""}
    "#]],
    );
    told(
        E::PreCompact,
        P::CompactPre,
        json!({"trigger": "overflow"}),
        None,
        expect![[r#"
        {"cwd":"/work","trigger":"auto","custom_instructions":""}
    "#]],
    );
    let summed = json!({"trigger": "threshold", "summary": "all of it"});
    told(
        E::PostCompact,
        P::CompactPost,
        summed,
        None,
        expect![[r#"
        {"cwd":"/work","trigger":"auto","compact_summary":"all of it"}
    "#]],
    );
    let ending = json!({"text": "done", "sentOn": 0});
    told(
        E::Stop,
        P::TurnEnd,
        ending.clone(),
        None,
        expect![[r#"
        {"cwd":"/work","permission_mode":"default","stop_hook_active":false,"last_assistant_message":"done","background_tasks":[],"session_crons":[]}
    "#]],
    );
    told(
        E::Stop,
        P::TurnEnd,
        json!({"text": "done", "sentOn": 2}),
        None,
        expect![[r#"
        {"cwd":"/work","permission_mode":"default","stop_hook_active":true,"last_assistant_message":"done","background_tasks":[],"session_crons":[]}
    "#]],
    );
    told(E::Stop, P::TurnEnd, ending.clone(), Some("reviewer"), expect![[""]]);
    told(E::SubagentStop, P::TurnEnd, ending.clone(), None, expect![[""]]);
    told(
        E::SubagentStop,
        P::TurnEnd,
        ending,
        Some("reviewer"),
        expect![[r#"
        {"cwd":"/work","permission_mode":"default","agent_id":"r1","agent_type":"reviewer","stop_hook_active":false,"last_assistant_message":"done","background_tasks":[],"session_crons":[],"agent_transcript_path":""}
    "#]],
    );
    told(
        E::SubagentStart,
        P::SessionStart,
        json!({"model": "m"}),
        Some("tide"),
        expect![[r#"
        {"cwd":"/work","agent_id":"r1","agent_type":"tide"}
    "#]],
    );
    told(E::SubagentStart, P::SessionStart, json!({"model": "m"}), None, expect![[""]]);
    let failed = |code: &str| json!({"code": code, "message": "429"});
    told(
        E::StopFailure,
        P::Error,
        failed("rate_limited"),
        None,
        expect![[r#"
        {"cwd":"/work","error":"rate_limit","error_details":"429","last_assistant_message":"429"}
    "#]],
    );
    told(E::StopFailure, P::Error, failed("max_turns"), None, expect![[""]]);
    told(
        E::SessionEnd,
        P::SessionClose,
        json!({"runs": 3}),
        None,
        expect![[r#"
        {"cwd":"/work","reason":"other"}
    "#]],
    );
}

/// Checks the calls of theirs for a call of ours, a line each.
fn called(tool: &str, input: Value, expected: Expect) {
    let shown = tools::claude_calls(tool, &input, &workspace()).into_iter().map(|call| {
        let name = call.names.join("/");
        format!("{} {}\n", if name.is_empty() { tool } else { &name }, Value::Object(call.input))
    });
    expected.assert_eq(&shown.collect::<String>());
}

#[test]
fn b3_calls_are_converted_to_claude_tools() {
    called(
        "bash",
        json!({"command": "ls", "timeout_ms": 100, "cwd": "sub"}),
        expect![[r#"
        Bash {"command":"ls","timeout":100}
    "#]],
    );
    called(
        "bash_background",
        json!({"action": "start", "command": "make"}),
        expect![[r#"
        Bash {"command":"make","run_in_background":true}
    "#]],
    );
    called(
        "bash_background",
        json!({"action": "list"}),
        expect![[r#"
        bash_background {"action":"list"}
    "#]],
    );
    called(
        "read",
        json!({"path": "a.txt", "offset": 3, "limit": 4}),
        expect![[r#"
        Read {"file_path":"/work/a.txt","offset":3,"limit":4}
    "#]],
    );
    called(
        "read",
        json!({"path": "~/.ssh/id"}),
        expect![[r#"
        Read {"file_path":"/home/me/.ssh/id"}
    "#]],
    );
    called(
        "read",
        json!({"path": "./sub/../.env"}),
        expect![[r#"
        Read {"file_path":"/work/.env"}
    "#]],
    );
    called(
        "write",
        json!({"path": "/work/a", "content": "x"}),
        expect![[r#"
        Write {"file_path":"/work/a","content":"x"}
    "#]],
    );
    let edits = json!([{"old": "a", "new": "b"}, {"old": "c", "new": ""}]);
    called(
        "edit",
        json!({"path": "a", "edits": edits}),
        expect![[r#"
        Edit/MultiEdit {"file_path":"/work/a","old_string":"a","new_string":"b","replace_all":false}
        Edit/MultiEdit {"file_path":"/work/a","old_string":"c","new_string":"","replace_all":false}
    "#]],
    );
    called(
        "list",
        json!({}),
        expect![[r#"
        LS {}
    "#]],
    );
    called(
        "glob",
        json!({"pattern": "*.rs", "path": "src"}),
        expect![[r#"
        Glob {"pattern":"*.rs","path":"/work/src"}
    "#]],
    );
    let grep =
        json!({"pattern": "x", "ignore_case": true, "context": 2, "limit": 9, "glob": "*.c"});
    called(
        "grep",
        grep,
        expect![[r#"
        Grep {"pattern":"x","glob":"*.c","-i":true,"-C":2,"head_limit":9,"output_mode":"content"}
    "#]],
    );
    called(
        "fetch",
        json!({"url": "https://example.org", "max_bytes": 9}),
        expect![[r#"
        WebFetch {"url":"https://example.org","prompt":""}
    "#]],
    );
    called(
        "invoke_subagent",
        json!({"name": "tide", "prompt": "go"}),
        expect![[r#"
        Agent/Task {"subagent_type":"tide","prompt":"go","description":""}
    "#]],
    );
    let tasks = json!({"tasks": [{"agent": "a", "prompt": "x"}, {"prompt": "y", "max_turns": 2}]});
    called(
        "delegate",
        tasks,
        expect![[r#"
        Agent/Task {"subagent_type":"a","prompt":"x","description":""}
        Agent/Task {"prompt":"y","description":""}
    "#]],
    );
    called(
        "invoke_skill",
        json!({"name": "ship", "args": "now"}),
        expect![[r#"
        Skill {"skill":"ship","args":"now"}
    "#]],
    );
    let asked = json!({"question": "Which?", "options": ["a", "b"], "multiple": true});
    called(
        "ask_user",
        asked,
        expect![[r#"
        AskUserQuestion {"questions":[{"question":"Which?","header":"","options":[{"label":"a","description":""},{"label":"b","description":""}],"multiSelect":true}]}
    "#]],
    );
    called(
        "mcp__db__drop",
        json!({"table": "t"}),
        expect![[r#"
        mcp__db__drop {"table":"t"}
    "#]],
    );
    called(
        "deploy",
        json!({"to": "prod"}),
        expect![[r#"
        deploy {"to":"prod"}
    "#]],
    );
}

/// Checks our input after a hook replaces one of their calls by `updated`.
fn put_back(tool: &str, mut input: Value, part: usize, updated: Value, expected: Expect) {
    let calls = tools::claude_calls(tool, &input, &workspace());
    let updated = updated.as_object().expect("an object").clone();
    let said = match calls[part].apply_update(&updated, &mut input) {
        Ok(()) => input.to_string(),
        Err(why) => format!("error: {why}"),
    };
    expected.assert_eq(&said);
}

#[test]
fn b3_rewritten_claude_input_is_converted_back() {
    let bash = || json!({"command": "ls", "cwd": "sub"});
    put_back(
        "bash",
        bash(),
        0,
        json!({"command": "ls -a"}),
        expect![[r#"{"command":"ls -a","cwd":"sub"}"#]],
    );
    put_back(
        "bash",
        bash(),
        0,
        json!({"command": "ls", "timeout": 5}),
        expect![[r#"{"command":"ls","cwd":"sub","timeout_ms":5}"#]],
    );
    let remark = json!({"command": "ls -a", "description": "lists", "run_in_background": false});
    put_back("bash", bash(), 0, remark, expect![[r#"{"command":"ls -a","cwd":"sub"}"#]]);
    let background = json!({"command": "ls", "run_in_background": true});
    put_back("bash", bash(), 0, background, expect!["error: `bash` has no `run_in_background`"]);
    put_back("bash", bash(), 0, json!({"description": "x"}), expect![[r#"{"cwd":"sub"}"#]]);
    let write = || json!({"path": "a", "content": "x"});
    put_back(
        "write",
        write(),
        0,
        json!({"file_path": "/work/a", "content": "y"}),
        expect![[r#"{"path":"a","content":"y"}"#]],
    );
    put_back(
        "write",
        write(),
        0,
        json!({"file_path": "/etc/a", "content": "x"}),
        expect![[r#"{"path":"/etc/a","content":"x"}"#]],
    );
    let two =
        || json!({"path": "a", "edits": [{"old": "1", "new": "2"}, {"old": "3", "new": "4"}]});
    let second = json!({"file_path": "/work/a", "old_string": "3", "new_string": "five"});
    put_back(
        "edit",
        two(),
        1,
        second,
        expect![[r#"{"path":"a","edits":[{"old":"1","new":"2"},{"old":"3","new":"five"}]}"#]],
    );
    let elsewhere = json!({"file_path": "/work/b", "old_string": "3", "new_string": "4"});
    put_back(
        "edit",
        two(),
        1,
        elsewhere,
        expect!["error: `file_path` is common to all parts of this call"],
    );
    let all =
        json!({"file_path": "/work/a", "old_string": "3", "new_string": "4", "replace_all": true});
    put_back("edit", two(), 1, all, expect!["error: `edit` has no `replace_all`"]);
    let one = json!({"path": "a", "edits": [{"old": "1", "new": "2"}]});
    let moved = json!({"file_path": "/work/b", "old_string": "1", "new_string": "2"});
    put_back(
        "edit",
        one,
        0,
        moved,
        expect![[r#"{"path":"/work/b","edits":[{"old":"1","new":"2"}]}"#]],
    );
    put_back(
        "mcp__db__drop",
        json!({"table": "t"}),
        0,
        json!({"table": "u"}),
        expect![[r#"{"table":"u"}"#]],
    );
    let answered = json!({"questions": [], "answers": {"Which?": "a"}});
    put_back(
        "ask_user",
        json!({"question": "Which?"}),
        0,
        answered,
        expect!["error: a question to a person cannot be changed"],
    );
}

fn shown(heard: Result<HookOutput, impl std::fmt::Display>) -> String {
    let said = match heard {
        Err(why) => return format!("failure: {why}"),
        Ok(said) if said == HookOutput::default() => return "nothing".into(),
        Ok(said) => said,
    };
    let HookOutput {
        block,
        ask,
        allow,
        input,
        output,
        context,
        person_notes: tells,
        end_reason: ends,
    } = said;
    let words = [
        block.map(|why| format!("block {why:?}")),
        ask.map(|why| format!("ask {why:?}")),
        allow.then(|| "allow".into()),
        input.map(|input| format!("input {}", Value::Object(input))),
        output.map(|output| format!("output {output}")),
        (!context.is_empty()).then(|| format!("context {context:?}")),
        (!tells.is_empty()).then(|| format!("tells {tells:?}")),
        ends.map(|_| "ends".into()),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Checks the meaning of an exit code, standard output and standard error at each event.
fn heard(events: &[ClaudeEvent], exit: ProcessExit, stdout: &str, stderr: &str, expected: Expect) {
    let lines = events.iter().map(|event| {
        let own = stdout.replace("EVENT", event.name());
        let ran = ProcessOutput {
            exit,
            stdout: own.into(),
            stderr: stderr.into(),
            remarks: vec![],
            blocked_accesses: vec![],
        };
        format!("{}: {}\n", event.name(), shown(interpret_output(*event, "guard", &ran)))
    });
    expected.assert_eq(&lines.collect::<String>());
}

const ALL: &[ClaudeEvent] = &[
    ClaudeEvent::PreToolUse,
    ClaudeEvent::PermissionRequest,
    ClaudeEvent::UserPromptSubmit,
    ClaudeEvent::PostToolUse,
    ClaudeEvent::PostToolUseFailure,
    ClaudeEvent::Stop,
    ClaudeEvent::SubagentStop,
    ClaudeEvent::PreCompact,
    ClaudeEvent::SessionStart,
    ClaudeEvent::SubagentStart,
    ClaudeEvent::Notification,
    ClaudeEvent::PostCompact,
    ClaudeEvent::StopFailure,
    ClaudeEvent::SessionEnd,
];

#[test]
fn b3_exit_code_and_output_are_interpreted_per_claude_event() {
    let (ok, two, one) = (ProcessExit::Code(0), ProcessExit::Code(2), ProcessExit::Code(1));
    heard(
        ALL,
        ok,
        "",
        "noise",
        expect![[r#"
        PreToolUse: nothing
        PermissionRequest: nothing
        UserPromptSubmit: nothing
        PostToolUse: nothing
        PostToolUseFailure: nothing
        Stop: nothing
        SubagentStop: nothing
        PreCompact: nothing
        SessionStart: nothing
        SubagentStart: nothing
        Notification: nothing
        PostCompact: nothing
        StopFailure: nothing
        SessionEnd: nothing
    "#]],
    );
    heard(
        ALL,
        ok,
        "plain words\n",
        "",
        expect![[r#"
        PreToolUse: nothing
        PermissionRequest: nothing
        UserPromptSubmit: context ["plain words"]
        PostToolUse: nothing
        PostToolUseFailure: nothing
        Stop: nothing
        SubagentStop: nothing
        PreCompact: nothing
        SessionStart: context ["plain words"]
        SubagentStart: nothing
        Notification: nothing
        PostCompact: nothing
        StopFailure: nothing
        SessionEnd: nothing
    "#]],
    );
    heard(
        ALL,
        two,
        "",
        "not here\n",
        expect![[r#"
        PreToolUse: block "not here"
        PermissionRequest: nothing
        UserPromptSubmit: block "not here"
        PostToolUse: block "not here"
        PostToolUseFailure: block "not here"
        Stop: block "not here"
        SubagentStop: block "not here"
        PreCompact: block "not here"
        SessionStart: tells ["not here"]
        SubagentStart: tells ["not here"]
        Notification: nothing
        PostCompact: tells ["not here"]
        StopFailure: nothing
        SessionEnd: tells ["not here"]
    "#]],
    );
    heard(
        ALL,
        two,
        "",
        "",
        expect![[r#"
        PreToolUse: block "hook guard exited with code 2"
        PermissionRequest: nothing
        UserPromptSubmit: block "hook guard exited with code 2"
        PostToolUse: block "hook guard exited with code 2"
        PostToolUseFailure: block "hook guard exited with code 2"
        Stop: block "hook guard exited with code 2"
        SubagentStop: block "hook guard exited with code 2"
        PreCompact: block "hook guard exited with code 2"
        SessionStart: tells ["hook guard exited with code 2"]
        SubagentStart: tells ["hook guard exited with code 2"]
        Notification: nothing
        PostCompact: tells ["hook guard exited with code 2"]
        StopFailure: nothing
        SessionEnd: tells ["hook guard exited with code 2"]
    "#]],
    );
    heard(
        ALL,
        one,
        "",
        "Traceback\nmore",
        expect![[r#"
            PreToolUse: failure: it exited with code 1: Traceback
            more
            PermissionRequest: failure: it exited with code 1: Traceback
            more
            UserPromptSubmit: failure: it exited with code 1: Traceback
            more
            PostToolUse: failure: it exited with code 1: Traceback
            more
            PostToolUseFailure: failure: it exited with code 1: Traceback
            more
            Stop: failure: it exited with code 1: Traceback
            more
            SubagentStop: failure: it exited with code 1: Traceback
            more
            PreCompact: failure: it exited with code 1: Traceback
            more
            SessionStart: failure: it exited with code 1: Traceback
            more
            SubagentStart: failure: it exited with code 1: Traceback
            more
            Notification: failure: it exited with code 1: Traceback
            more
            PostCompact: failure: it exited with code 1: Traceback
            more
            StopFailure: failure: it exited with code 1: Traceback
            more
            SessionEnd: failure: it exited with code 1: Traceback
            more
        "#]],
    );
    heard(
        ALL,
        ProcessExit::Signal(9),
        "",
        "",
        expect![[r#"
            PreToolUse: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            PermissionRequest: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            UserPromptSubmit: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            PostToolUse: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            PostToolUseFailure: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            Stop: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            SubagentStop: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            PreCompact: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            SessionStart: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            SubagentStart: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            Notification: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            PostCompact: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            StopFailure: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            SessionEnd: failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
        "#]],
    );
    heard(
        ALL,
        ok,
        r#"{"decision": "block", "reason": "why"}"#,
        "",
        expect![[r#"
        PreToolUse: block "why"
        PermissionRequest: block "why"
        UserPromptSubmit: block "why"
        PostToolUse: block "why"
        PostToolUseFailure: block "why"
        Stop: block "why"
        SubagentStop: block "why"
        PreCompact: block "why"
        SessionStart: nothing
        SubagentStart: nothing
        Notification: nothing
        PostCompact: nothing
        StopFailure: nothing
        SessionEnd: nothing
    "#]],
    );
    heard(
        ALL,
        ok,
        r#"{"continue": false, "stopReason": "enough"}"#,
        "",
        expect![[r#"
            PreToolUse: block "enough", tells ["enough"], ends
            PermissionRequest: block "enough", tells ["enough"], ends
            UserPromptSubmit: block "enough", tells ["enough"], ends
            PostToolUse: tells ["enough"], ends
            PostToolUseFailure: tells ["enough"], ends
            Stop: tells ["enough"], ends
            SubagentStop: tells ["enough"], ends
            PreCompact: block "enough"
            SessionStart: tells ["enough"], ends
            SubagentStart: tells ["enough"], ends
            Notification: nothing
            PostCompact: nothing
            StopFailure: nothing
            SessionEnd: nothing
        "#]],
    );
    let context = r#"{"hookSpecificOutput": {"hookEventName": "EVENT", "additionalContext": "it is Friday"}}"#;
    heard(
        ALL,
        ok,
        context,
        "",
        expect![[r#"
            PreToolUse: context ["it is Friday"]
            PermissionRequest: nothing
            UserPromptSubmit: context ["it is Friday"]
            PostToolUse: context ["it is Friday"]
            PostToolUseFailure: context ["it is Friday"]
            Stop: block "it is Friday"
            SubagentStop: block "it is Friday"
            PreCompact: nothing
            SessionStart: context ["it is Friday"]
            SubagentStart: context ["it is Friday"]
            Notification: nothing
            PostCompact: nothing
            StopFailure: nothing
            SessionEnd: nothing
        "#]],
    );
    heard(
        ALL,
        ok,
        r#"{"systemMessage": "mind the gap", "suppressOutput": true}"#,
        "",
        expect![[r#"
            PreToolUse: tells ["mind the gap"]
            PermissionRequest: tells ["mind the gap"]
            UserPromptSubmit: tells ["mind the gap"]
            PostToolUse: tells ["mind the gap"]
            PostToolUseFailure: tells ["mind the gap"]
            Stop: tells ["mind the gap"]
            SubagentStop: tells ["mind the gap"]
            PreCompact: nothing
            SessionStart: tells ["mind the gap"]
            SubagentStart: tells ["mind the gap"]
            Notification: nothing
            PostCompact: nothing
            StopFailure: nothing
            SessionEnd: nothing
        "#]],
    );
    let output = r#"{"hookSpecificOutput": {"hookEventName": "EVENT", "updatedToolOutput": {"stdout": "x"}}}"#;
    heard(
        ALL,
        ok,
        output,
        "",
        expect![[r#"
        PreToolUse: nothing
        PermissionRequest: nothing
        UserPromptSubmit: nothing
        PostToolUse: output {"stdout":"x"}
        PostToolUseFailure: nothing
        Stop: nothing
        SubagentStop: nothing
        PreCompact: nothing
        SessionStart: nothing
        SubagentStart: nothing
        Notification: nothing
        PostCompact: nothing
        StopFailure: nothing
        SessionEnd: nothing
    "#]],
    );
    heard(
        ALL,
        ok,
        "{ half",
        "",
        expect![[r#"
            PreToolUse: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            PermissionRequest: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            UserPromptSubmit: context ["{ half"]
            PostToolUse: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            PostToolUseFailure: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            Stop: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            SubagentStop: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            PreCompact: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            SessionStart: context ["{ half"]
            SubagentStart: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            Notification: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            PostCompact: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            StopFailure: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
            SessionEnd: failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 3
        "#]],
    );
}

/// Checks the meaning of an event-specific object at `PreToolUse`.
fn decided(own: &str, expected: Expect) {
    let stdout = format!(r#"{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", {own}}}}}"#);
    said(ProcessExit::Code(0), &stdout, expected);
}

fn said(exit: ProcessExit, stdout: &str, expected: Expect) {
    let ran = ProcessOutput {
        exit,
        stdout: stdout.into(),
        stderr: "err".into(),
        remarks: vec![],
        blocked_accesses: vec![],
    };
    expected.assert_eq(&shown(interpret_output(ClaudeEvent::PreToolUse, "guard", &ran)));
}

#[test]
fn b3_pre_tool_use_decisions_are_interpreted() {
    let reason = r#""permissionDecisionReason": "why""#;
    decided(&format!(r#""permissionDecision": "deny", {reason}"#), expect![[r#"block "why""#]]);
    decided(&format!(r#""permissionDecision": "ask", {reason}"#), expect![[r#"ask "why""#]]);
    decided(&format!(r#""permissionDecision": "allow", {reason}"#), expect!["allow"]);
    decided(&format!(r#""permissionDecision": "defer", {reason}"#), expect![[r#"ask "why""#]]);
    decided(
        r#""permissionDecision": "ask""#,
        expect![[r#"ask "it asks for a person's approval""#]],
    );
    decided(
        r#""permissionDecision": "allow", "updatedInput": {"command": "ls"}"#,
        expect![[r#"allow, input {"command":"ls"}"#]],
    );
    decided(r#""updatedInput": {"command": "ls"}"#, expect![[r#"input {"command":"ls"}"#]]);
    let (ok, bad) = (ProcessExit::Code(0), ProcessExit::Code(1));
    said(ok, r#"{"decision": "approve", "reason": "why"}"#, expect!["allow"]);
    said(ok, r#"{"decision": "block", "reason": "why"}"#, expect![[r#"block "why""#]]);
    // The object decides, whatever the exit code is; but a hook that fails allows nothing.
    let deny =
        r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}"#;
    said(bad, deny, expect![[r#"block "it gave no reason""#]]);
    said(bad, &deny.replace("deny", "allow"), expect!["nothing"]);
    said(ProcessExit::Code(2), &deny.replace("deny", "allow"), expect![[r#"block "err""#]]);
    said(ProcessExit::Signal(15), deny, expect![[r#"block "it gave no reason""#]]);
}

#[test]
fn b3_a_malformed_deny_denies_and_a_malformed_allow_allows_nothing() {
    let ok = ProcessExit::Code(0);
    decided(r#""permissionDecision": "DENY""#, expect![[r#"block "it gave no reason""#]]);
    decided(r#""permissionDecision": " denied ""#, expect![[r#"block "it gave no reason""#]]);
    decided(r#""permissionDecision": false"#, expect![[r#"block "it gave no reason""#]]);
    decided(
        r#""permissionDecision": {"behavior": "deny"}"#,
        expect![[r#"block "it gave no reason""#]],
    );
    decided(
        r#""permissionDecision": "deny", "permissionDecisionReason": 7"#,
        expect![[r#"block "7""#]],
    );
    decided(r#""decision": "deny""#, expect![[r#"block "it gave no reason""#]]);
    decided(
        r#""permissionDecision": "allow", "decision": "block""#,
        expect![[r#"block "it gave no reason""#]],
    );
    decided(
        r#""permissionDecision": "deny", "permissionDecision": "allow""#,
        expect![[r#"block "its output contains a refusal, although it is not valid as a whole""#]],
    );
    decided(
        r#""permissionDecision": "allow", "updatedInput": "ls""#,
        expect![[r#"block "its `updatedInput` is not an object""#]],
    );
    said(ok, r#"{"permissionDecision": "deny"}"#, expect![[r#"block "it gave no reason""#]]);
    said(
        ok,
        r#"{"hookSpecificOutput": {"permissionDecision": "deny"}}"#,
        expect![[r#"block "it gave no reason""#]],
    );
    said(
        ok,
        r#"{"continue": "false"}"#,
        expect![[r#"block "it ends the run", tells ["it ends the run"], ends"#]],
    );
    said(
        ok,
        r#"{"hookSpecificOutput": {"permissionDecision": "deny""#,
        expect![[r#"block "its output contains a refusal, although it is not valid as a whole""#]],
    );
    said(
        ok,
        "loading\n{\"decision\" : \"block\"}",
        expect![[r#"block "its output contains a refusal, although it is not valid as a whole""#]],
    );
    said(
        ok,
        "{'permissionDecision': 'deny'}",
        expect![[r#"block "its output contains a refusal, although it is not valid as a whole""#]],
    );
    said(
        ok,
        r#"{"decision": "block"} {"decision": "approve"}"#,
        expect![[r#"block "its output contains a refusal, although it is not valid as a whole""#]],
    );

    decided(r#""permissionDecision": "Allow""#, expect!["failure: its decision is unknown"]);
    decided(r#""permissionDecision": true"#, expect!["failure: its decision is unknown"]);
    decided(r#""permissionDecision": "yes""#, expect!["failure: its decision is unknown"]);
    said(
        ok,
        r#"{"permissionDecision": "allow"}"#,
        expect!["failure: its answer has no known key, only `permissionDecision`"],
    );
    said(ok, r#"{"hookSpecificOutput": {"permissionDecision": "allow"}}"#, expect!["nothing"]);
    let other =
        r#"{"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "allow"}}"#;
    said(ok, other, expect!["nothing"]);
    said(ok, r#"{"decision": "allow"}"#, expect!["nothing"]);
    said(
        ok,
        "{'permissionDecision': 'allow'}",
        expect![
            "failure: its output begins with `{` and is not JSON: key must be a string at line 1 column 2"
        ],
    );
    said(ok, r#"["allow"]"#, expect!["nothing"]);
}

#[test]
fn b3_permission_request_decisions_are_interpreted() {
    let check = |decision: &str, expected: Expect| {
        let stdout = format!(
            r#"{{"hookSpecificOutput": {{"hookEventName": "PermissionRequest", "decision": {decision}}}}}"#
        );
        let ran = ProcessOutput {
            exit: ProcessExit::Code(0),
            stdout: stdout.into(),
            stderr: vec![],
            remarks: vec![],
            blocked_accesses: vec![],
        };
        expected.assert_eq(&shown(interpret_output(ClaudeEvent::PermissionRequest, "guard", &ran)));
    };
    check(r#"{"behavior": "allow"}"#, expect!["allow"]);
    check(r#"{"behavior": "deny", "message": "no"}"#, expect![[r#"block "no""#]]);
    check(
        r#"{"behavior": "deny", "interrupt": true}"#,
        expect![[r#"block "it answered no", tells ["it ends the run"], ends"#]],
    );
    check(
        r#"{"behavior": "allow", "updatedInput": {"command": "ls"}}"#,
        expect![[r#"tells ["its `updatedInput` is not honoured here: the person is asked"]"#]],
    );
    check(
        r#"{"behavior": "allow", "updatedPermissions": [{"type": "addRules"}]}"#,
        expect![[r#"allow, tells ["its `updatedPermissions` are not honoured"]"#]],
    );
    check(r#""allow""#, expect!["nothing"]);
    check(r#""deny""#, expect![[r#"block "it answered no""#]]);
    check(r#"{"behavior": "perhaps"}"#, expect!["failure: its decision is unknown"]);
}

/// Checks the hooks of a file and the diagnostics about it.
fn check(hooks: &str, expected: Expect) {
    check_of(&ClaudeFile::new(".claude/settings.json"), hooks, expected);
}

fn check_of(source: &ClaudeFile, text: &str, expected: Expect) {
    let document = Document::parse("settings.json", text).expect("a document");
    let (hooks, told) = read(&document, source);
    let mut shown = String::new();
    for hook in &hooks {
        let _ = writeln!(shown, "{}", hook_line(hook));
    }
    for told in told {
        let _ = writeln!(shown, "{told} [{}]", told.severity.as_str());
    }
    expected.assert_eq(&shown);
}

fn hook_line(hook: &CommandHook) -> String {
    let Some(entry) = ClaudeEntry::of(hook) else { return "another dialect".into() };
    let run = match (&entry.handler, &hook.command) {
        (crate::claude::ClaudeHandler::Nothing(why), _) => format!("nobody ({why})"),
        (crate::claude::ClaudeHandler::Http(http), _) => format!("{} {:?}", http.url, http.headers),
        (crate::claude::ClaudeHandler::Prompt(prompt), _) => format!("a model ({})", prompt.text),
        (crate::claude::ClaudeHandler::Command, CommandLine::Shell(line)) => format!("sh: {line}"),
        (crate::claude::ClaudeHandler::Command, CommandLine::Words(words)) => format!("{words:?}"),
    };
    let tools = hook.spec.tools.as_ref().map(|tools| tools.join(" "));
    let fails = if hook.on_failure == OnFailure::Block { ", failing blocks" } else { "" };
    let detached = if hook.spec.detached { ", nobody waits" } else { "" };
    let rule = entry.condition.as_ref().map(|rule| format!(", if {}", rule.text()));
    format!(
        "{} at {} [{}] {:?}: {run}{fails}{detached}{}",
        hook.name,
        entry.event.name(),
        tools.unwrap_or_else(|| "all".into()),
        hook.limit(),
        rule.unwrap_or_default()
    )
}

#[test]
fn b3_published_claude_hook_entries_are_read() {
    check(
        r#"{"permissions": {}, "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "command", "command": "python3 \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.py", "timeout": 5}]},
                {"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "./style.sh"}]},
                {"matcher": "mcp__memory__.*", "hooks": [{"type": "command", "command": "./style.sh"}]},
                {"hooks": [{"type": "command", "command": "node", "args": ["${CLAUDE_PROJECT_DIR}/x.js"], "onFailure": "block"}]}
            ],
            "Stop": [{"hooks": [{"type": "command", "command": "exit 2", "shell": "bash"}]}],
            "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "date"}]}],
            "PostToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "cargo fmt", "async": true, "if": "Write(*.rs)"}]}]
        }}"#,
        expect![[r#"
            guard at PreToolUse [Bash bash bash_background] 5s: sh: python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.py
            style at PreToolUse [all] 600s: sh: ./style.sh
            x at PreToolUse [all] 600s: ["node", "${CLAUDE_PROJECT_DIR}/x.js"], failing blocks
            exit-af164c at Stop [all] 600s: ["bash", "-c", "exit 2"]
            date-6eb75c at UserPromptSubmit [all] 30s: sh: date
            cargo-0045c0 at PostToolUse [Write write] 600s: sh: cargo fmt, nobody waits, if Write(*.rs)
        "#]],
    );
}

/// A gate under a name that is nearly right would match nothing.
#[test]
fn b3_c1_misspelled_tool_in_a_matcher_is_an_error_with_the_right_name() {
    check(
        r#"{"hooks": {
            "PreToolUse": [
                {"matcher": "bash|Write", "hooks": [{"type": "command", "command": "./a"}]},
                {"matcher": "webfetch", "hooks": [{"type": "command", "command": "./b"}]}],
            "PostToolUse": [{"matcher": "ask_user", "hooks": [{"type": "command", "command": "./c"}]}]
        }}"#,
        expect![[r#"
            PreToolUse-1196de at PreToolUse [Bash bash bash_background] 600s: nobody (its entry cannot be read: there is no tool `bash`: here it is `Bash`)
            a at PreToolUse [Write bash write] 600s: sh: ./a
            PreToolUse-9fe8d8 at PreToolUse [WebFetch fetch] 600s: nobody (its entry cannot be read: there is no tool `webfetch`: here it is `WebFetch`)
            b at PreToolUse [webfetch] 600s: sh: ./b
            c at PostToolUse [ask_user] 600s: sh: ./c
            .claude/settings.json:3: there is no tool `bash`: here it is `Bash` [rejected]
            .claude/settings.json:4: there is no tool `webfetch`: here it is `WebFetch` [rejected]
            .claude/settings.json:5: there is no tool `ask_user`: here it is `AskUserQuestion` [ok]
        "#]],
    );
}

#[test]
fn b3_unsupported_claude_entries_are_reported_and_keep_their_gate() {
    check(
        r#"{"hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "mcp_tool", "server": "x"}]},
                {"matcher": "(?!Read).*", "hooks": [{"type": "command", "command": "./guard"}]},
                {"matcher": "Bash", "hooks": [{"type": "command"}]},
                {"matcher": "Bash", "hooks": "x"},
                {"type": "command", "command": "./flat"},
                7,
                {"matcher": ["Bash"], "hooks": [{"command": "./typeless", "sudo": true, "statusMessage": "x"}]},
                {"hooks": [{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/x", "timeout": "5"}]},
                {"hooks": [{"type": "command", "command": "x", "shell": "powershell"}]},
                {"hooks": [{"type": "command", "command": "./y", "onFailure": "explode", "if": "Bash("}]},
                {"matcher": "NotebookEdit", "hooks": [{"type": "command", "command": "./z"}]}
            ],
            "PostToolUse": [{"hooks": [{"type": "agent", "prompt": "look"}]}, 8],
            "Stop": {"hooks": []},
            "Setup": [{"hooks": [{"type": "command", "command": "./setup"}]}],
            "PreToolUsed": [],
            "SessionEnd": [{"hooks": [{"type": "command", "command": "./bye", "if": "Bash(x)"}]}],
            "SessionStart": [{"hooks": [{"type": "prompt", "prompt": "fine?"}]}]
        }}"#,
        expect![[r#"
            PreToolUse-4410ba at PreToolUse [Bash bash bash_background] 600s: nobody (handlers `mcp_tool` are not honoured yet: this gate fails each time)
            guard at PreToolUse [all] 600s: sh: ./guard
            PreToolUse-fb435a at PreToolUse [Bash bash bash_background] 600s: nobody (missing key `command`)
            PreToolUse-0deff4 at PreToolUse [Bash bash bash_background] 600s: nobody (its entry cannot be read: expected a list, found the string `x`)
            flat at PreToolUse [all] 600s: sh: ./flat
            PreToolUse-a8d40e at PreToolUse [all] 600s: nobody (its entry cannot be read: expected an object, found the number 7)
            typeless at PreToolUse [all] 600s: sh: ./typeless
            PreToolUse-e65400 at PreToolUse [all] 600s: nobody (nothing stands for `${CLAUDE_PLUGIN_ROOT…}` here)
            PreToolUse-e6f5f7 at PreToolUse [all] 600s: nobody (there is no shell `powershell` here)
            y at PreToolUse [all] 600s: sh: ./y, failing blocks
            z at PreToolUse [NotebookEdit] 600s: sh: ./z
            Stop-c97b98 at Stop [all] 600s: nobody (its entry cannot be read: expected a list, found an object)
            .claude/settings.json:3: unknown key `server` is ignored [ok]
            .claude/settings.json:3: handlers `mcp_tool` are not honoured yet: this gate fails each time [in part]
            .claude/settings.json:4: the matcher cannot be read and matches everything: look-around, including look-ahead and look-behind, is not supported [repaired]
            .claude/settings.json:5: missing key `command` [rejected]
            .claude/settings.json:6: expected a list, found the string `x` [rejected]
            .claude/settings.json:7: a handler is in place of a group with a list `hooks`: it is read as a group [repaired]
            .claude/settings.json:8: expected an object, found the number 7 [rejected]
            .claude/settings.json:9: the matcher cannot be read and matches everything: expected a string, found a list [repaired]
            .claude/settings.json:9: unknown key `sudo` is ignored [ok]
            .claude/settings.json:9: `statusMessage` is not honoured: nothing is shown while a hook runs [ok]
            .claude/settings.json:9: it has no `type`: it is read as `command` [repaired]
            .claude/settings.json:10: nothing stands for `${CLAUDE_PLUGIN_ROOT…}` here [rejected]
            .claude/settings.json:10: `timeout` is not a number of seconds: it is ignored [repaired]
            .claude/settings.json:11: there is no shell `powershell` here [rejected]
            .claude/settings.json:12: `if` cannot be read and lets everything through: rule `Bash(`: `(` without `)` at the end [repaired]
            .claude/settings.json:12: `onFailure` is neither `block` nor `continue`: it is read as `block` [repaired]
            .claude/settings.json:13: no tool of Cotter is known as `NotebookEdit` [ok]
            .claude/settings.json:15: handlers `agent` are not honoured yet [ok]
            .claude/settings.json:15: expected an object, found the number 8 [ok]
            .claude/settings.json:16: expected a list, found an object [rejected]
            .claude/settings.json:17: hooks at `Setup` are not honoured: there is no separate setup [ok]
            .claude/settings.json:18: there is no event `PreToolUsed`: did you mean `PreToolUse`? [ok]
            .claude/settings.json:19: `SessionEnd`: the reason is always `other` [ok]
            .claude/settings.json:19: a hook with `if` never runs at an event that is not about tools [ok]
            .claude/settings.json:20: `SessionStart`: `clear` never happens, and `CLAUDE_ENV_FILE` is not read [ok]
            .claude/settings.json:20: a model is not asked at `SessionStart` [ok]
        "#]],
    );
    check(
        r#"{"hooks": []}"#,
        expect![[r#"
        .claude/settings.json: expected an object, found a list [rejected]
    "#]],
    );
    check(
        r#"{"hooks": {"Stop": []}, "disableAllHooks": true}"#,
        expect![[r#"
            .claude/settings.json:1: its hooks are disabled by `disableAllHooks` [ok]
        "#]],
    );
    check(r#"{"model": "x"}"#, expect![[""]]);
    check(
        "[]",
        expect![[r#"
        .claude/settings.json: expected an object, found a list [rejected]
    "#]],
    );
}

#[test]
fn b3_equal_handlers_of_one_event_become_one_hook() {
    check(
        r#"{"hooks": {"PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "./a"}, {"type": "command", "command": "./a", "timeout": 900}]},
            {"matcher": "Write", "hooks": [{"type": "command", "command": "./a", "onFailure": "block"}]},
            {"matcher": "Write", "hooks": [{"type": "command", "command": "./a", "if": "Write(x)"}]}
        ], "PostToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "./a"}]}]}}"#,
        expect![[r#"
            a-2def5c at PreToolUse [Bash Write bash bash_background write] 900s: sh: ./a, failing blocks
            a-bcf286 at PreToolUse [Write write] 600s: sh: ./a, if Write(x)
            a-01406d at PostToolUse [Write write] 600s: sh: ./a
        "#]],
    );
}

#[test]
fn b3_gates_beyond_the_hook_limit_block_and_are_reported() {
    let handlers: Vec<_> =
        (0..600).map(|n| json!({"type": "command", "command": format!("./h{n}")})).collect();
    let groups = json!([{"matcher": "Bash", "hooks": handlers}]);
    let text = json!({"hooks": {"PreToolUse": groups, "Stop": groups, "PostToolUse": groups}});
    let document = Document::parse("settings.json", &text.to_string()).expect("a document");
    let (hooks, told) = read(&document, &ClaudeFile::new("settings.json"));
    let last: Vec<_> = hooks.iter().skip(499).map(|hook| hook_line(hook) + "\n").collect();
    expect![[r#"
        h499 at PreToolUse [Bash bash bash_background] 600s: sh: ./h499
        PreToolUse-bf9bb3 at PreToolUse [all] 600s: nobody (its entry cannot be read: a file has at most 500 hooks: the others cannot be asked)
        Stop-db2b67 at Stop [all] 600s: nobody (its entry cannot be read: a file has at most 500 hooks: the others cannot be asked)
    "#]].assert_eq(&last.concat());
    assert_eq!(told.len(), 3);
}

#[test]
fn b3_the_same_hook_of_two_files_runs_once() {
    let hooks = |text: &str| {
        let document = Document::parse("settings.json", text).expect("a document");
        read(&document, &ClaudeFile::new("settings.json")).0
    };
    let entry = |matcher: &str, more: &str| {
        let handler = format!(r#"{{"type": "command", "command": "./a"{more}}}"#);
        let group = format!(r#"{{"matcher": "{matcher}", "hooks": [{handler}]}}"#);
        hooks(&format!(r#"{{"hooks": {{"PreToolUse": [{group}]}}}}"#))
    };
    let left = |earlier: &[CommandHook], later| drop_repeats(earlier, later).len();
    let strict = r#", "onFailure": "block""#;
    assert_eq!(left(&entry("Bash", ""), entry("Bash", "")), 0);
    assert_eq!(left(&entry("Bash", strict), entry("Bash", "")), 0);
    assert_eq!(left(&entry("Bash", ""), entry("Bash", strict)), 1);
    assert_eq!(left(&entry("Bash", ""), entry("Write", "")), 1);
    assert_eq!(left(&entry("Bash", r#", "async": true"#), entry("Bash", "")), 1);
}

#[test]
fn b3_async_claude_hook_decides_nothing() {
    let check = |more: &str, expected: Expect| {
        let text = format!(
            r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{{"type": "command", "command": "./a", {more}}}]}}]}}}}"#
        );
        let document = Document::parse("settings.json", &text).expect("a document");
        let (hooks, _) = read(&document, &ClaudeFile::new("settings.json"));
        assert!(hooks[0].spec.detached);
        let Some(entry) = ClaudeEntry::of(&hooks[0]) else { panic!("another dialect") };
        let stdout = br#"{"systemMessage": "hm", "hookSpecificOutput": {"hookEventName": "PreToolUse",
            "permissionDecision": "deny", "permissionDecisionReason": "late", "additionalContext": "Friday"}}"#;
        let ran = ProcessOutput {
            exit: ProcessExit::Code(2),
            stdout: stdout.to_vec(),
            stderr: vec![],
            remarks: vec![],
            blocked_accesses: vec![],
        };
        expected.assert_eq(&shown(
            interpret_output(ClaudeEvent::PreToolUse, "a", &ran)
                .map(|said| entry.keep_detached_output(said)),
        ));
    };
    check(r#""async": true"#, expect![[r#"context ["Friday"], tells ["hm"]"#]]);
    check(r#""asyncRewake": true"#, expect![[r#"context ["Friday", "late"], tells ["hm"]"#]]);
}

#[test]
fn b3_on_failure_block_applies_to_every_hook_of_the_file() {
    let source = ClaudeFile::new("settings.json").with_on_failure(OnFailure::Block);
    check_of(
        &source,
        r#"{"hooks": {"PreToolUse": [{"hooks": [
            {"type": "command", "command": "./a"},
            {"type": "command", "command": "./b", "onFailure": "continue"}
        ]}]}}"#,
        expect![[r#"
            a at PreToolUse [all] 600s: sh: ./a, failing blocks
            b at PreToolUse [all] 600s: sh: ./b, failing blocks
        "#]],
    );
}

#[test]
fn s7_placeholders_are_replaced_without_changing_shell_syntax() {
    let check = |project: &str, handler: &str, expected: Expect| {
        let plugin = PluginPaths { root: "/plug in".into(), data: Some("/data".into()) };
        let source = ClaudeFile::new("hooks.json").with_plugin(plugin);
        let text = format!(r#"{{"hooks": {{"Stop": [{{"hooks": [{handler}]}}]}}}}"#);
        let document = Document::parse("hooks.json", &text).expect("a document");
        let (hooks, _) = read(&document, &source);
        let Some(entry) = ClaudeEntry::of(&hooks[0]) else { panic!("another dialect") };
        let words = entry.words(&hooks[0].command, Path::new(project));
        expected.assert_eq(&format!("{words:?}"));
    };
    let shell = r#"{"type": "command", "command": "${CLAUDE_PROJECT_DIR}/x '${CLAUDE_PLUGIN_ROOT}' $HOME"}"#;
    check(
        "/work",
        shell,
        expect![[r#"["/bin/sh", "-c", "/work/x '${CLAUDE_PLUGIN_ROOT}' $HOME"]"#]],
    );
    check(
        "/wo$(rm -rf ~)rk",
        shell,
        expect![[r#"["/bin/sh", "-c", "${CLAUDE_PROJECT_DIR}/x '${CLAUDE_PLUGIN_ROOT}' $HOME"]"#]],
    );
    let words = r#"{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/x", "args": ["${CLAUDE_PROJECT_DIR}", "${CLAUDE_PLUGIN_DATA}/$(id)"]}"#;
    check(
        "/wo$(rm -rf ~)rk",
        words,
        expect![[r#"["/plug in/x", "/wo$(rm -rf ~)rk", "/data/$(id)"]"#]],
    );
}

/// A refusal counts at any position and in any spelling.
#[test]
fn b3_misplaced_deny_still_denies() {
    for said in [
        r#"{"hookSpecificOutput":[{"permissionDecision":"deny"}]}"#,
        r#"{"hookSpecificOutput":{"PreToolUse":{"permissionDecision":"deny"}}}"#,
        r#"{"hookspecificoutput":{"permissionDecision":"deny"}}"#,
        r#"{"hook_specific_output":{"permission_decision":"deny"}}"#,
        r#"{"permissionDecision":{"decision":"deny"}}"#,
        r#"{"Decision":"block"}"#,
        r#"{"result":{"decision":"block"}}"#,
        r#"{"hookSpecificOutput":{"continue":false}}"#,
        r#"{"block":true}"#,
    ] {
        let stdout = said.as_bytes().to_vec();
        let ran = ProcessOutput {
            exit: ProcessExit::Code(0),
            stdout,
            stderr: vec![],
            remarks: vec![],
            blocked_accesses: vec![],
        };
        let heard = crate::claude::output::interpret_output(ClaudeEvent::PreToolUse, "h", &ran);
        assert!(heard.is_ok_and(|said| said.block.is_some()), "{said}");
    }
    for said in [r#"{"note":"do not block"}"#, r#"{"systemMessage":"x"}"#, r#"{"continue":true}"#] {
        let stdout = said.as_bytes().to_vec();
        let ran = ProcessOutput {
            exit: ProcessExit::Code(0),
            stdout,
            stderr: vec![],
            remarks: vec![],
            blocked_accesses: vec![],
        };
        let heard = crate::claude::output::interpret_output(ClaudeEvent::PreToolUse, "h", &ran);
        assert!(!heard.is_ok_and(|said| said.block.is_some()), "{said}");
    }
}
