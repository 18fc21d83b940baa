//! A thousand calls in one step with 256 open files: none gets past a gate that refuses, in any dialect.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::Command,
    thread,
};

use serde_json::json;

use crate::{
    claude_files::{trust, world},
    support::World,
};

/// The number of calls in one step.
const CALLS: usize = 1000;

/// Makes the calls in a process that cannot open more files, and returns its standard error.
fn refusals(world: &World) -> String {
    let call =
        |n| json!({"name": "write", "input": {"path": format!("out/{n}.txt"), "content": "x"}});
    let calls: Vec<_> = (0..CALLS).map(call).collect();
    let script = world.script(&format!("{{\"calls\": {}}}, {{\"text\": \"done\"}}", json!(calls)));
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_cotter")]);
    command.args(["-p", "--script", &script, "go"]);
    command.env_clear().envs(world.env()).current_dir(world.path("project"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Each call is refused in the hook's own words, and nothing was written.
fn check(world: &World) {
    let said = refusals(world);
    assert!(!world.path("project/out").exists(), "{said}");
    let own = said.lines().filter(|line| line.contains("never today")).count();
    assert_eq!(own, CALLS, "{said}");
}

#[test]
fn l8_thousand_calls_pass_no_claude_gate_when_files_run_out() {
    let world = world();
    let hook = json!({"type": "command", "command": "echo never today >&2; exit 2"});
    let hooks = json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}});
    world.write("project/.claude/settings.json", hooks.to_string());
    trust(&world);
    check(&world);
}

/// A gate that is a web address: each question needs descriptors of ours.
#[test]
fn l8_thousand_calls_pass_no_http_gate_when_files_run_out() {
    let host = refusing_server();
    let world = world().with_env("COTTER_HOOK_WEBHOOK_ALLOWLIST", &host);
    let hook = json!({"type": "http", "url": format!("http://{host}/")});
    let hooks = json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}});
    world.write("project/.claude/settings.json", hooks.to_string());
    trust(&world);
    check(&world);
}

/// A server on this machine that refuses each call. It ends with the test.
fn refusing_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().take(CALLS) {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            for line in
                reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty())
            {
                if let Some(rest) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = rest.parse().unwrap();
                }
            }
            reader.take(length).read_to_end(&mut vec![]).unwrap();
            let body = r#"{"decision": "block", "reason": "never today"}"#;
            let length = body.len();
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            stream.write_all((head + body).as_bytes()).unwrap();
        }
    });
    host
}

#[test]
fn l8_thousand_calls_pass_no_gate_of_settings_when_files_run_out() {
    let world = World::new();
    world.settings(r#"{"hooks": {"tool.pre": [{"command": "echo never today >&2; exit 1"}]}}"#);
    check(&world);
}

#[test]
fn l8_thousand_calls_pass_no_hook_file_when_files_run_out() {
    let world = World::new();
    let hook = "id: no\nphase: pre\ncommand: \"echo never today >&2; exit 1\"\n";
    world.write("home/.config/cotter/hooks/no.yaml", hook);
    check(&world);
}
