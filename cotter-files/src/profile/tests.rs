//! The parts of an `agent.json`, file by file.

#![expect(clippy::too_many_lines, reason = "whole tables stand in the tests")]

use std::{future::ready, sync::Arc};

use expect_test::{Expect, expect};

use crate::document::Document;
use crate::profile::*;

/// An operator that allows one host.
struct OneHost;

impl WebhookPoster for OneHost {
    fn admits(&self, url: &str) -> Result<(), String> {
        match url.starts_with("https://hooks.example.com") {
            true => Ok(()),
            false => Err("it is not on the operator's list".into()),
        }
    }

    fn post(&self, _: &str, _: Arc<[u8]>) -> PostFuture {
        Box::pin(ready(Ok(())))
    }
}

fn read(text: &str, leave: ProfileGrants<'_>) -> Result<Profile, SettingsError> {
    Profile::from_document(&Document::parse("agent.json", text)?, "audit", leave)
}

/// Checks the results of files: each line is a file, and its result follows it.
fn check(files: &str, expected: Expect) {
    let leave = ProfileGrants { commands: false, posts: Some(&OneHost) };
    let mut out = String::new();
    for file in files.lines().map(str::trim).filter(|line| !line.is_empty()) {
        out += &format!("{file}\n");
        out += &match read(file, leave) {
            Ok(profile) => {
                let actions: Vec<_> = profile.actions.iter().map(|a| a.name.as_str()).collect();
                format!("  ok: {} {}\n", profile.name, actions.join(" "))
            }
            Err(error) => {
                let hint = error.hint().map(|hint| format!("\n    {hint}")).unwrap_or_default();
                format!("  {error}{hint}\n")
            }
        };
    }
    expected.assert_eq(&out);
}

#[test]
fn l19_invalid_profile_values_are_errors_with_their_place() {
    check(
        r#"
        []
        {"nme": "x"}
        {"name": ""}
        {"name": "a b"}
        {"name": 7}
        {"systemPrompt": ["x"]}
        {"tools": "read"}
        {"tools": []}
        {"tools": ["read", "[a"]}
        {"skills": []}
        {"skills": [1]}
        {"mode": {}}
        {"maxTurns": 0}
        {"maxTurns": "3"}
        {"model": ""}
        {"policies": ["bash(rm"]}
        {"policies": [{"rule": "bash(rm *)", "mach": ["rm x"]}]}
        {"policies": [{"tools": ["bash"], "denny": ["rm *"]}]}
        {"policies": [{"tools": []}]}
        {"permissions": {"allow": ["bash"]}}
        {"permissions": {"deny": ["bash("]}}
        {"permissions": {"mode": "off"}}
        {"providers": {}}
        {"hooks": []}
        {"hooks": {"onToolcall": []}}
        {"hooks": {"tool.pre": []}}
        {"hooks": {"onStart": {}}}
        {"hooks": {"onStart": [{}]}}
        {"hooks": {"onStart": ["log"]}}
        {"hooks": {"onStart": [{"action": "logs"}]}}
        {"hooks": {"onStart": [{"action": "log", "lvl": "info"}]}}
        {"hooks": {"onStart": [{"action": "log", "level": "loud"}]}}
        {"hooks": {"onStart": [{"action": "log", "url": "https://hooks.example.com/"}]}}
        {"hooks": {"onStart": [{"action": "save_json", "path": "runs/a.jsonl", "timeoutMs": 3}]}}
        {"hooks": {"onStart": [{"action": "log", "action": "log"}]}}
        "#,
        expect![[r#"
            []
              agent.json:1:1: $: expected an object, found a list
            {"nme": "x"}
              agent.json:1:2: $.nme: unknown key `nme`
                did you mean `name`?
            {"name": ""}
              agent.json:1:10: $.name: expected a string that is not empty, found an empty string
            {"name": "a b"}
              agent.json:1:10: $.name: `a b` cannot be the name of a profile
                a name begins with a letter and has letters, digits, `_`, `-`
            {"name": 7}
              agent.json:1:10: $.name: expected a string, found the number 7
            {"systemPrompt": ["x"]}
              agent.json:1:18: $.systemPrompt: expected a string, found a list
            {"tools": "read"}
              agent.json:1:11: $.tools: expected a list, found the string `read`
            {"tools": []}
              agent.json:1:11: $.tools: an empty list matches no tool
                leave it out to match every tool
            {"tools": ["read", "[a"]}
              agent.json:1:20: $.tools[1]: error parsing glob '[a': unclosed character class; missing ']'
            {"skills": []}
              agent.json:1:12: $.skills: an empty list matches no skill
                leave it out to match every skill
            {"skills": [1]}
              agent.json:1:13: $.skills[0]: expected a string, found the number 1
            {"mode": {}}
              agent.json:1:10: $.mode: expected a string, found an object
            {"maxTurns": 0}
              agent.json:1:14: $.maxTurns: expected a whole number from 1 to 4294967295, found the number 0
            {"maxTurns": "3"}
              agent.json:1:14: $.maxTurns: expected a whole number from 1 to 4294967295, found the string `3`
            {"model": ""}
              agent.json:1:11: $.model: expected a string that is not empty, found an empty string
            {"policies": ["bash(rm"]}
              agent.json:1:15: $.policies[0]: rule `bash(rm`: `(` without `)` at the end
            {"policies": [{"rule": "bash(rm *)", "mach": ["rm x"]}]}
              agent.json:1:38: $.policies[0].mach: unknown key `mach`
                did you mean `match`?
            {"policies": [{"tools": ["bash"], "denny": ["rm *"]}]}
              agent.json:1:35: $.policies[0].denny: unknown key `denny`
                did you mean `deny`?
            {"policies": [{"tools": []}]}
              agent.json:1:25: $.policies[0].tools: expected at least one tool name or glob, none of them empty
            {"permissions": {"allow": ["bash"]}}
              agent.json:1:28: $.permissions.allow[0]: `allow` rules are not allowed in a profile
                a profile may only tighten: move this to your own settings
            {"permissions": {"deny": ["bash("]}}
              agent.json:1:27: $.permissions.deny[0]: rule `bash(`: `(` without `)` at the end
            {"permissions": {"mode": "off"}}
              agent.json:1:26: $.permissions.mode: expected one of `ask`, `accept-edits`, `plan`, `auto`, found the string `off`
            {"providers": {}}
              agent.json:1:2: $.providers: unknown key `providers`
                known keys are `$schema`, `name`, `description`, `model`, `systemPrompt`, `tools`, `skills`, `mode`, `maxTurns`, `policies`, `permissions`, `hooks`
            {"hooks": []}
              agent.json:1:11: $.hooks: expected an object, found a list
            {"hooks": {"onToolcall": []}}
              agent.json:1:12: $.hooks.onToolcall: unknown key `onToolcall`
                did you mean `onToolCall`?
            {"hooks": {"tool.pre": []}}
              agent.json:1:12: $.hooks["tool.pre"]: unknown key `tool.pre`
                known keys are `onStart`, `onToolCall`, `onToolEnd`, `onModelCall`, `onModelEnd`, `onComplete`, `onError`
            {"hooks": {"onStart": {}}}
              agent.json:1:23: $.hooks.onStart: expected a list, found an object
            {"hooks": {"onStart": [{}]}}
              agent.json:1:24: $.hooks.onStart[0]: missing key `action`
            {"hooks": {"onStart": ["log"]}}
              agent.json:1:24: $.hooks.onStart[0]: expected an object, found the string `log`
            {"hooks": {"onStart": [{"action": "logs"}]}}
              agent.json:1:35: $.hooks.onStart[0].action: expected one of `log`, `webhook`, `save_json`, `approve`, `command`, found the string `logs`
                did you mean `log`?
            {"hooks": {"onStart": [{"action": "log", "lvl": "info"}]}}
              agent.json:1:42: $.hooks.onStart[0].lvl: unknown key `lvl`
                known keys are `action`, `tools`, `level`, `url`, `path`, `command`, `timeoutMs`
            {"hooks": {"onStart": [{"action": "log", "level": "loud"}]}}
              agent.json:1:51: $.hooks.onStart[0].level: expected one of `debug`, `info`, `warn`, `error`, found the string `loud`
            {"hooks": {"onStart": [{"action": "log", "url": "https://hooks.example.com/"}]}}
              agent.json:1:49: $.hooks.onStart[0].url: `url` belongs to `webhook`, not to `log`
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/a.jsonl", "timeoutMs": 3}]}}
              agent.json:1:85: $.hooks.onStart[0].timeoutMs: `timeoutMs` belongs to `webhook` and `command`, not to `save_json`
            {"hooks": {"onStart": [{"action": "log", "action": "log"}]}}
              agent.json:1:42: $.hooks.onStart[0].action: duplicate key `action`
                it is already at agent.json:1:25; keep one of the two
        "#]],
    );
}

#[test]
fn l19_profile_tools_and_approve_are_allowed_only_at_tool_points() {
    check(
        r#"
        {"hooks": {"onStart": [{"action": "log", "tools": ["read"]}]}}
        {"hooks": {"onModelCall": [{"action": "log", "tools": ["read"]}]}}
        {"hooks": {"onModelEnd": [{"action": "log", "tools": ["read"]}]}}
        {"hooks": {"onComplete": [{"action": "log", "tools": ["read"]}]}}
        {"hooks": {"onError": [{"action": "log", "tools": ["read"]}]}}
        {"hooks": {"onToolCall": [{"action": "log", "tools": []}]}}
        {"hooks": {"onToolCall": [{"action": "approve", "tools": ["send_*", "[x"]}]}}
        {"hooks": {"onToolEnd": [{"action": "approve"}]}}
        {"hooks": {"onComplete": [{"action": "approve"}]}}
        {"hooks": {"onToolCall": [{"action": "approve", "timeoutMs": 5}]}}
        {"hooks": {"onToolCall": [{"action": "approve", "tools": ["send_*"]}, {"action": "approve"}], "onToolEnd": [{"action": "log", "tools": ["*"]}]}}
        {"hooks": {"onStart": [{"action": "log"}], "onToolCall": [{"action": "log"}], "onToolEnd": [{"action": "log"}], "onModelCall": [{"action": "log"}], "onModelEnd": [{"action": "log"}], "onComplete": [{"action": "log"}], "onError": [{"action": "log"}]}}
        "#,
        expect![[r#"
            {"hooks": {"onStart": [{"action": "log", "tools": ["read"]}]}}
              agent.json:1:51: $.hooks.onStart[0].tools: `onStart` is not about tools, so `tools` is not allowed
                `tools` is for `onToolCall` and `onToolEnd`
            {"hooks": {"onModelCall": [{"action": "log", "tools": ["read"]}]}}
              agent.json:1:55: $.hooks.onModelCall[0].tools: `onModelCall` is not about tools, so `tools` is not allowed
                `tools` is for `onToolCall` and `onToolEnd`
            {"hooks": {"onModelEnd": [{"action": "log", "tools": ["read"]}]}}
              agent.json:1:54: $.hooks.onModelEnd[0].tools: `onModelEnd` is not about tools, so `tools` is not allowed
                `tools` is for `onToolCall` and `onToolEnd`
            {"hooks": {"onComplete": [{"action": "log", "tools": ["read"]}]}}
              agent.json:1:54: $.hooks.onComplete[0].tools: `onComplete` is not about tools, so `tools` is not allowed
                `tools` is for `onToolCall` and `onToolEnd`
            {"hooks": {"onError": [{"action": "log", "tools": ["read"]}]}}
              agent.json:1:51: $.hooks.onError[0].tools: `onError` is not about tools, so `tools` is not allowed
                `tools` is for `onToolCall` and `onToolEnd`
            {"hooks": {"onToolCall": [{"action": "log", "tools": []}]}}
              agent.json:1:54: $.hooks.onToolCall[0].tools: an empty list matches no tool
                leave it out to match every tool
            {"hooks": {"onToolCall": [{"action": "approve", "tools": ["send_*", "[x"]}]}}
              agent.json:1:69: $.hooks.onToolCall[0].tools[1]: error parsing glob '[x': unclosed character class; missing ']'
            {"hooks": {"onToolEnd": [{"action": "approve"}]}}
              agent.json:1:37: $.hooks.onToolEnd[0].action: `approve` asks before a tool runs and cannot be at `onToolEnd`
                move it to `onToolCall`
            {"hooks": {"onComplete": [{"action": "approve"}]}}
              agent.json:1:38: $.hooks.onComplete[0].action: `approve` asks before a tool runs and cannot be at `onComplete`
                move it to `onToolCall`
            {"hooks": {"onToolCall": [{"action": "approve", "timeoutMs": 5}]}}
              agent.json:1:62: $.hooks.onToolCall[0].timeoutMs: `timeoutMs` belongs to `webhook` and `command`, not to `approve`
            {"hooks": {"onToolCall": [{"action": "approve", "tools": ["send_*"]}, {"action": "approve"}], "onToolEnd": [{"action": "log", "tools": ["*"]}]}}
              ok: audit onToolCall.approve onToolCall.approve#2 onToolEnd.log
            {"hooks": {"onStart": [{"action": "log"}], "onToolCall": [{"action": "log"}], "onToolEnd": [{"action": "log"}], "onModelCall": [{"action": "log"}], "onModelEnd": [{"action": "log"}], "onComplete": [{"action": "log"}], "onError": [{"action": "log"}]}}
              ok: audit onStart.log onToolCall.log onToolEnd.log onModelCall.log onModelEnd.log onComplete.log onError.log
        "#]],
    );
}

#[test]
fn s34_save_json_path_must_be_below_runs() {
    let paths = [
        "",
        " ",
        "x.jsonl",
        "runs",
        "runs/",
        "runs/x.json",
        "runs/x",
        "runs/.jsonl",
        "runs/../x.jsonl",
        "../runs/x.jsonl",
        "runs/a/../../x.jsonl",
        "/etc/x.jsonl",
        "//runs/x.jsonl",
        "./runs/x.jsonl",
        "runs//x.jsonl",
        "runs/./x.jsonl",
        "runs\\\\x.jsonl",
        "runs/a\\\\b.jsonl",
        "runs/.git/x.jsonl",
        "runs/a\\u0000.jsonl",
        "runs/a\\n.jsonl",
        "runs/a\\u202e.jsonl",
        "RUNS/x.jsonl",
        "runs/x.JSONL",
        "runs/x.jsonl/",
        "~/runs/x.jsonl",
        "runs/x.jsonl",
        "runs/by day/x.jsonl",
    ];
    let files: String = paths
        .map(|path| {
            format!("{{\"hooks\": {{\"onStart\": [{{\"action\": \"save_json\", \"path\": \"{path}\"}}]}}}}\n")
        })
        .concat();
    check(
        &(files + r#"{"hooks": {"onStart": [{"action": "save_json"}]}}"#),
        expect![[r#"
            {"hooks": {"onStart": [{"action": "save_json", "path": ""}]}}
              agent.json:1:56: $.hooks.onStart[0].path: expected a string that is not empty, found an empty string
            {"hooks": {"onStart": [{"action": "save_json", "path": " "}]}}
              agent.json:1:56: $.hooks.onStart[0].path: expected a string that is not empty, found the string ` `
            {"hooks": {"onStart": [{"action": "save_json", "path": "x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `x.jsonl` is not below `runs/`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs` is not below `runs/`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/x.json"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/x.json` does not end in `.jsonl`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/x"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/x` does not end in `.jsonl`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/../x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/../x.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "../runs/x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `../runs/x.jsonl` is not below `runs/`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/a/../../x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/a/../../x.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "/etc/x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `/etc/x.jsonl` is not below `runs/`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "//runs/x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `//runs/x.jsonl` is not below `runs/`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "./runs/x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `./runs/x.jsonl` is not below `runs/`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs//x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs//x.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/./x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/./x.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs\\x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs\x.jsonl` is not below `runs/`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/a\\b.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/a\b.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/.git/x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/.git/x.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/a\u0000.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/a\u{0}.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/a\n.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/a\n.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/a\u202e.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/a\u{202e}.jsonl` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "RUNS/x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `RUNS/x.jsonl` is not below `runs/`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/x.JSONL"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/x.JSONL` does not end in `.jsonl`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/x.jsonl/"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `runs/x.jsonl/` is not a plain path
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "~/runs/x.jsonl"}]}}
              agent.json:1:56: $.hooks.onStart[0].path: `~/runs/x.jsonl` is not below `runs/`
                use a path like `runs/calls.jsonl`, relative to the profile's folder
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/x.jsonl"}]}}
              ok: audit onStart.save_json
            {"hooks": {"onStart": [{"action": "save_json", "path": "runs/by day/x.jsonl"}]}}
              ok: audit onStart.save_json
            {"hooks": {"onStart": [{"action": "save_json"}]}}
              agent.json:1:24: $.hooks.onStart[0]: missing key `path`
        "#]],
    );
}

#[test]
fn s34_webhook_url_must_be_https_to_an_allowed_host() {
    let urls = [
        "",
        "not a url",
        "http://hooks.example.com/",
        "HTTPS://hooks.example.com/",
        "ftp://a/",
        "https:hooks.example.com",
        "https:///x",
        "https://",
        "https://user@hooks.example.com/",
        "https://hooks.example.com@evil.example/",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:99999/",
        "https://hooks.example.com:/",
        "https://a b/",
        "https://hooks.example.com\\\\@evil.example/",
        "https://hooks.example.com\\t.evil.example/",
        "https://bücher.example/",
        "https://[::1",
        "https://[x]/",
        "https://evil.example/",
        "https://127.0.0.1/",
        "https://[::1]:8443/",
        "javascript:alert(1)",
        "https://hooks.example.com/a?b=c#d",
        "https://hooks.example.com:8443/",
    ];
    let files: String = urls
        .map(|url| {
            format!("{{\"hooks\": {{\"onStart\": [{{\"action\": \"webhook\", \"url\": \"{url}\"}}]}}}}\n")
        })
        .concat();
    check(
        &(files + r#"{"hooks": {"onStart": [{"action": "webhook"}]}}"#),
        expect![[r#"
            {"hooks": {"onStart": [{"action": "webhook", "url": ""}]}}
              agent.json:1:53: $.hooks.onStart[0].url: expected a string that is not empty, found an empty string
            {"hooks": {"onStart": [{"action": "webhook", "url": "not a url"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `not a url` is not a valid URL
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "http://hooks.example.com/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `http://hooks.example.com/` is not https
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "HTTPS://hooks.example.com/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `HTTPS://hooks.example.com/` is not https
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "ftp://a/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `ftp://a/` is not https
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https:hooks.example.com"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https:hooks.example.com` is not a valid URL
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https:///x"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https:///x` has no valid host
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://` has no valid host
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://user@hooks.example.com/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://user@hooks.example.com/` contains a user name or a password
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://hooks.example.com@evil.example/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://hooks.example.com@evil.example/` contains a user name or a password
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://hooks.example.com:0/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://hooks.example.com:0/` has no valid host
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://hooks.example.com:99999/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://hooks.example.com:99999/` has no valid host
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://hooks.example.com:/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://hooks.example.com:/` has no valid host
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://a b/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://a b/` is not a valid URL
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://hooks.example.com\\@evil.example/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://hooks.example.com\@evil.example/` is not a valid URL
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://hooks.example.com\t.evil.example/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://hooks.example.com\t.evil.example/` is not a valid URL
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://bücher.example/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://bücher.example/` has no valid host
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://[::1"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://[::1` has no valid host
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://[x]/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `https://[x]/` has no valid host
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://evil.example/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: cannot post to `evil.example`: it is not on the operator's list
                the operator of a machine lists hosts in `COTTER_HOOK_WEBHOOK_ALLOWLIST`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://127.0.0.1/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: cannot post to `127.0.0.1`: it is not on the operator's list
                the operator of a machine lists hosts in `COTTER_HOOK_WEBHOOK_ALLOWLIST`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://[::1]:8443/"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: cannot post to `[::1]:8443`: it is not on the operator's list
                the operator of a machine lists hosts in `COTTER_HOOK_WEBHOOK_ALLOWLIST`
            {"hooks": {"onStart": [{"action": "webhook", "url": "javascript:alert(1)"}]}}
              agent.json:1:53: $.hooks.onStart[0].url: `javascript:alert(1)` is not a valid URL
                use a URL like `https://hooks.example.com/cotter`
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://hooks.example.com/a?b=c#d"}]}}
              ok: audit onStart.webhook
            {"hooks": {"onStart": [{"action": "webhook", "url": "https://hooks.example.com:8443/"}]}}
              ok: audit onStart.webhook
            {"hooks": {"onStart": [{"action": "webhook"}]}}
              agent.json:1:24: $.hooks.onStart[0]: missing key `url`
        "#]],
    );
}

#[test]
fn l18_profile_command_needs_the_operators_grant() {
    let file = |command: &str| {
        format!(r#"{{"hooks": {{"onToolCall": [{{"action": "command", "command": {command}}}]}}}}"#)
    };
    check(
        &[r#""./check.sh""#, r#""  ""#, "[]", r#"["a", 1]"#].map(file).join("\n"),
        expect![[r#"
            {"hooks": {"onToolCall": [{"action": "command", "command": "./check.sh"}]}}
              agent.json:1:38: $.hooks.onToolCall[0].action: a profile's `command` is disabled by default: it would start a program
                the operator of a machine allows it with `COTTER_ALLOW_COMMAND_HOOKS=1`
            {"hooks": {"onToolCall": [{"action": "command", "command": "  "}]}}
              agent.json:1:60: $.hooks.onToolCall[0].command: expected a string that is not empty, found the string `  `
            {"hooks": {"onToolCall": [{"action": "command", "command": []}]}}
              agent.json:1:60: $.hooks.onToolCall[0].command: the command is empty
            {"hooks": {"onToolCall": [{"action": "command", "command": ["a", 1]}]}}
              agent.json:1:66: $.hooks.onToolCall[0].command[1]: expected a string, found the number 1
        "#]],
    );
    let allowed = ProfileGrants { commands: true, posts: None };
    let profile = read(&file(r#""./check.sh --all""#), allowed).unwrap();
    let words = ["./check.sh", "--all"].map(str::to_owned).into();
    assert_eq!(profile.actions[0].kind, ActionKind::Command(CommandLine::Words(words)));
}

#[test]
fn l15_profile_configures_the_agent() {
    let text = r#"{
        "$schema": "x", "name": "auditor", "description": "d", "model": "lab/m", "systemPrompt": "Be brief.",
        "tools": ["read", "mcp__*"], "skills": ["style"], "mode": "review", "maxTurns": 4,
        "policies": ["bash(rm *)", {"rule": "read(.env)", "match": [".env"]}, {"name": "look", "tools": ["bash"], "allow": ["ls *"]}],
        "permissions": {"mode": "plan", "level": "strict", "ask": ["fetch"], "deny": ["write"], "policies": [{"tools": ["fetch"], "fields": {"url": ["^http:"]}}]},
        "hooks": {"onError": [{"action": "webhook", "url": "https://hooks.example.com/", "timeoutMs": 9}]},
    }"#;
    let profile = read(text, ProfileGrants::for_inspection()).unwrap();
    let mut config = AgentConfig::new("main");
    profile.configure(&mut config);
    let Permissions { mode, level, ask, deny, policies, examples, .. } = &profile.permissions;
    let texts =
        |rules: &[SourcedText]| rules.iter().map(|rule| rule.text.clone()).collect::<Vec<_>>();
    let limits: Vec<_> = profile.actions.iter().map(|action| action.limit).collect();
    expect![[r#"
        AgentConfig {
            name: "auditor",
            description: "d",
            system_prompt: "Be brief.",
            model: None,
            tools: [
                "read",
                "mcp__*",
            ],
            without_tools: [],
            is_read_only: false,
            skills: [
                "style",
            ],
            mcps: [],
            agents: [],
            memory: false,
            mode: "review",
        }
        Some(Plan) Some(Strict) ask ["fetch"] deny ["write", "bash(rm *)", "read(.env)"], 2 guards, 1 examples, Some(4), [Some(9ms)]
    "#]]
    .assert_eq(&format!(
        "{config:#?}\n{mode:?} {level:?} ask {:?} deny {:?}, {} guards, {} examples, {:?}, {limits:?}\n",
        texts(ask),
        texts(deny),
        policies.len(),
        examples.len(),
        profile.max_turns,
    ));
}

#[test]
fn s3_looser_mode_or_level_in_a_profile_is_an_error() {
    let loose = read(
        r#"{"permissions": {"mode": "ask", "level": "permissive"}}"#,
        ProfileGrants::for_inspection(),
    );
    let strict = read(
        r#"{"permissions": {"mode": "plan", "level": "paranoid"}}"#,
        ProfileGrants::for_inspection(),
    );
    let policy = Policy::default();
    assert!(strict.unwrap().check_tightens(&policy).is_ok());
    let error = loose.unwrap().check_tightens(&policy).unwrap_err();
    expect!["agent.json:1:42: $.permissions.level: the level of the profile is looser than yours; a profile may only tighten: move this to your own settings"].assert_eq(&format!("{error}; {}", error.hint().unwrap()));
}
