//! Plugins as their files declare them: the accepted parts, the diagnostics, and possible gates.

#![expect(clippy::too_many_lines, reason = "whole outputs stand in the tests")]

use std::collections::BTreeMap;

use expect_test::{Expect, expect};

use crate::claude::plugin::*;

/// Checks a plugin of these files, read as from a snapshot.
fn check(files: &[(&str, &str)], expected: Expect) {
    expected.assert_eq(&read_of(files));
}

fn read_of(files: &[(&str, &str)]) -> String {
    let files: BTreeMap<_, _> = files.iter().map(|(path, text)| (Path::new(path), text)).collect();
    let reads = |path: &Path| files.get(path).map(|text| Ok(text.as_bytes().to_vec()));
    shown(Plugin::read(Path::new("/plugins/depot"), &reads))
}

fn shown(plugin: Result<Plugin, Diagnostic>) -> String {
    let plugin = match plugin {
        Ok(plugin) => plugin,
        Err(why) => return format!("none: {why}\n"),
    };
    let mut out = format!("name {}\n", plugin.name);
    let (hooks, told) = plugin.command_hooks(|path| claude::ClaudeFile::new(path));
    for hook in hooks {
        out += &format!("hook {} at {}\n", hook.name, hook.point.name());
    }
    for PluginFile { path, text } in &plugin.servers {
        let document = Document::parse("servers", text).map(|document| document.root().to_json());
        let mut said = document.unwrap_or_else(|_| text.as_str().into());
        let servers = said.get_mut("mcpServers").and_then(Value::as_object_mut);
        for (_, server) in servers.into_iter().flatten() {
            *server = plugin.fill_server(server.take());
        }
        out += &format!("servers {} {said}\n", path.display());
    }
    for path in plugin.skills.iter().chain(&plugin.agents).chain(&plugin.commands) {
        if !["skills", "agents", "commands"].map(Path::new).contains(&path.as_path()) {
            out += &format!("also {}\n", path.display());
        }
    }
    if plugin.skills.is_empty() {
        out += "no skills\n";
    }
    for told in plugin.diagnostics.iter().chain(&told) {
        out += &format!("{:?}: {told}\n", told.severity);
    }
    for told in &plugin.broken {
        out += &format!("broken: {told}\n");
    }
    out
}

const GATE: &str =
    r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}}"#;

#[test]
fn b3_plugin_hooks_are_found_at_every_allowed_path() {
    let inline = r#"{"name": "p", "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "y"}]}]}}"#;
    check(
        &[(".claude-plugin/plugin.json", inline), ("hooks/hooks.json", GATE)],
        expect![[r#"
            name p
            hook y-f3a02c at tool.pre
            hook x-0fe6bd at tool.pre
        "#]],
    );
    let paths = ["./a/b.json", "${CLAUDE_PLUGIN_ROOT}/a/b.json", "${PLUGIN_ROOT}/./a/b.json"];
    let read = |path| {
        let manifest = format!(r#"{{"name": "p", "hooks": ["{path}"]}}"#);
        read_of(&[(".plugin/plugin.json", &manifest), ("a/b.json", GATE)])
    };
    expect![[r#"
        name p
        hook x-0fe6bd at tool.pre
        name p
        hook x-0fe6bd at tool.pre
        name p
        hook x-0fe6bd at tool.pre
    "#]]
    .assert_eq(&paths.map(read).concat());
    // A list may contain file names and hooks; a second manifest need not repeat the first.
    let list =
        format!(r#"{{"name": "p", "hooks": ["./hooks/hooks.json", {}]}}"#, GATE.replace('x', "z"));
    check(
        &[
            (".claude-plugin/plugin.json", &list),
            (".plugin/plugin.json", &list),
            ("plugin.json", r#"{"name": "other"}"#),
            ("hooks/hooks.json", GATE),
        ],
        expect![[r#"
            name p
            hook x-0fe6bd at tool.pre
            hook z-101650 at tool.pre
            Warning: /plugins/depot/plugin.json: it has no `$schema` of Agent Plugins: it is read like a plugin of Claude Code
        "#]],
    );
    // Events without `hooks` around them, after a byte order mark.
    check(
        &[("hooks/hooks.json", "\u{feff}{\n\"PreToolUse\": [{\"hooks\": 7}]}")],
        expect![[r#"
            name depot
            hook PreToolUse-81aa79 at tool.pre
            Repaired: /plugins/depot/hooks/hooks.json: its events are not inside `hooks`: they are read as if they were
            Rejected: /plugins/depot/hooks/hooks.json:2: expected a list, found the number 7
        "#]],
    );
}

#[test]
fn b3_unreadable_plugin_hooks_break_the_plugin() {
    let files = |text: &'static str| [("hooks/hooks.json", text)];
    check(
        &files("{"),
        expect![[r#"
        name depot
        broken: /plugins/depot/hooks/hooks.json:1: object is not closed
    "#]],
    );
    check(
        &files("[]"),
        expect![[r#"
        name depot
        broken: /plugins/depot/hooks/hooks.json:1: expected an object, found a list
    "#]],
    );
    check(
        &files(r#"{"hooks": [{"PreToolUse": []}]}"#),
        expect![[r#"
        name depot
        broken: /plugins/depot/hooks/hooks.json:1: expected an object, found a list
    "#]],
    );
    check(
        &files(r#"{"hooks": null}"#),
        expect![[r#"
        name depot
        broken: /plugins/depot/hooks/hooks.json:1: expected an object, found `null`
    "#]],
    );
    check(
        &files(r#"{"description": "none yet"}"#),
        expect![[r#"
            name depot
            Warning: /plugins/depot/hooks/hooks.json: it has no key `hooks`
        "#]],
    );
    let named = |value: &str| format!("{{\"name\": \"p\",\n\"hooks\": {value}}}");
    let values = [
        r#""./none.json""#,
        r#""./hooks/hooks.json""#,
        r#""/etc/hooks.json""#,
        r#""../hooks.json""#,
        r#""${CLAUDE_PLUGIN_ROOT}/../hooks.json""#,
        r#""${CLAUDE_PLUGIN_ROOT}""#,
        "7",
        r#"{"hooks": []}"#,
        r#"["./a.json", null]"#,
    ];
    let read = |value| read_of(&[(".claude-plugin/plugin.json", &named(value))]);
    expect![[r#"
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:2: file `none.json` not found
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:2: file `hooks/hooks.json` not found
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:2: `/etc/hooks.json` is not a path inside the plugin
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:2: `../hooks.json` is not a path inside the plugin
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:2: `${CLAUDE_PLUGIN_ROOT}/../hooks.json` is not a path inside the plugin
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:2: file `${CLAUDE_PLUGIN_ROOT}` not found
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:2: expected a string, found the number 7
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:2: expected an object, found a list
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:2: file `a.json` not found
        broken: /plugins/depot/.claude-plugin/plugin.json:2: expected a string, found `null`
    "#]].assert_eq(&values.map(read).concat());
    // A part that is no gate gets a diagnostic.
    let others = r#"{"name": "p", "skills": "/etc", "mcpServers": ["./none.json", 7]}"#;
    check(
        &[(".claude-plugin/plugin.json", others)],
        expect![[r#"
            name p
            Rejected: /plugins/depot/.claude-plugin/plugin.json:1: `/etc` is not a path inside the plugin
            Rejected: /plugins/depot/.claude-plugin/plugin.json:1: file `none.json` not found
            Rejected: /plugins/depot/.claude-plugin/plugin.json:1: expected a string, found the number 7
        "#]],
    );
    check(
        &[(".claude-plugin/plugin.json", "{")],
        expect![[r#"
        none: /plugins/depot/.claude-plugin/plugin.json:1: object is not closed
    "#]],
    );
    check(
        &[("plugin.json", r#"{"name": "!"}"#)],
        expect![[r#"
        none: /plugins/depot: `!` cannot be the name of a plugin
    "#]],
    );
}

/// Cases that only a folder can have: bytes, sizes, links, rights.
#[test]
fn b3_unreadable_hook_files_in_a_plugin_folder_break_the_plugin() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let plugin = |name: &str| {
        let plugin = root.join(name);
        fs::create_dir_all(plugin.join("hooks")).unwrap();
        plugin
    };
    fs::write(plugin("bytes").join("hooks/hooks.json"), b"{\"hooks\": {}, \"a\": \"\xff\"}")
        .unwrap();
    let long = format!("{GATE}{}", " ".repeat(MAX_BYTES));
    fs::write(plugin("long").join("hooks/hooks.json"), long).unwrap();
    fs::create_dir(plugin("folder").join("hooks/hooks.json")).unwrap();
    symlink("../none.json", plugin("nowhere").join("hooks/hooks.json")).unwrap();
    symlink("/etc/hostname", plugin("out").join("hooks/hooks.json")).unwrap();
    symlink("../real.json", plugin("within").join("hooks/hooks.json")).unwrap();
    fs::write(root.join("within/real.json"), GATE).unwrap();
    fs::create_dir(root.join("far")).unwrap();
    symlink("none", root.join("far/hooks")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    plugin("nothing");
    let mut shown_all = String::new();
    for name in
        ["bytes", "long", "folder", "nowhere", "out", "within", "far", "file", "nothing", "gone"]
    {
        let shown = match Plugin::load(&root.join(name)) {
            Ok(None) => "nothing of a plugin\n".to_owned(),
            Ok(Some(plugin)) => shown(Ok(plugin)),
            Err(why) => shown(Err(why)),
        };
        // The digest contains the folder, which differs each time.
        let name = shown.find("hook x-").map(|at| shown[at..at + "hook x-123456".len()].to_owned());
        let shown = name.map_or(shown.clone(), |name| shown.replace(&name, "hook x-*"));
        shown_all += &shown.replace(root.to_str().unwrap(), "[R]");
    }
    expect![[r#"
        name bytes
        broken: [R]/bytes/hooks/hooks.json: a byte in the file is not UTF-8
        name long
        broken: [R]/long/hooks/hooks.json: it has more than 1048576 bytes
        name folder
        broken: [R]/folder/hooks/hooks.json: it cannot be read: it is not a file
        name nowhere
        broken: [R]/nowhere/hooks/hooks.json: it cannot be read: No such file or directory (os error 2)
        name out
        broken: [R]/out/hooks/hooks.json: it is a link to a path outside the plugin
        name within
        hook x-* at tool.pre
        name far
        broken: [R]/far/hooks/hooks.json: it cannot be read: No such file or directory (os error 2)
        none: [R]/file: it is not a folder
        nothing of a plugin
        none: [R]/gone: it cannot be read: No such file or directory (os error 2)
    "#]].assert_eq(&shown_all);
}

const SCHEMA: &str = r#""$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json""#;

#[test]
fn b3_agent_plugin_manifest_is_read() {
    let whole = format!(
        r#"{{{SCHEMA}, "name": "acme.tools", "version": "1", "author": {{"name": "x"}},
            "extensions": {{"com.example.client": {{"a": 1}}, "org.example": {{}}}},
            "hooks": "./a.json", "skills": "./more", "logo": "x.png"}}"#
    );
    check(
        &[("plugin.json", &whole), ("a.json", GATE), ("hooks/hooks.json", GATE)],
        expect![[r#"
            name acme-tools
            hook x-0fe6bd at tool.pre
            also more
            Warning: /plugins/depot/plugin.json:2: `extensions`: the part for `com.example.client` is not honoured
            Warning: /plugins/depot/plugin.json:2: `extensions`: the part for `org.example` is not honoured
            Warning: /plugins/depot/plugin.json:3: `hooks` is not part of Agent Plugins; it is read as in other plugins
            Warning: /plugins/depot/plugin.json:3: `skills` is not part of Agent Plugins; it is read as in other plugins
            Warning: /plugins/depot/plugin.json:3: `logo` is not honoured
            Repaired: /plugins/depot: `acme.tools` cannot be the name of a plugin; the name `acme-tools` is used instead
        "#]],
    );
    let plain = |more: &str| format!("{{{SCHEMA}{more}}}");
    check(
        &[("plugin.json", &plain(""))],
        expect![[r#"
            name depot
            Warning: /plugins/depot/plugin.json: `name` is missing: the name of another manifest or of its folder is used
        "#]],
    );
    check(
        &[("plugin.json", &plain(r#", "name": "Has--Two", "extensions": 7"#))],
        expect![[r#"
            name Has--Two
            Warning: /plugins/depot/plugin.json: `Has--Two` is not a valid name for Agent Plugins
            Warning: /plugins/depot/plugin.json:1: `extensions` is not an object
        "#]],
    );
    // Of an unknown version, only hooks are used.
    let unknown = plain(r#", "name": "p", "skills": "./more""#).replace("1.0.0", "2.1.0");
    check(
        &[
            ("plugin.json", &unknown),
            ("hooks/hooks.json", GATE),
            (".mcp.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#),
            ("mcp.json", "{"),
        ],
        expect![[r#"
            name p
            hook x-0fe6bd at tool.pre
            no skills
            Rejected: /plugins/depot/plugin.json:1: Agent Plugins 2.1.0 is not supported, only 1.0.0
            Rejected: /plugins/depot: its skills, agents, commands and servers are skipped
        "#]],
    );
    // Beside another manifest, the unknown version does not affect the other's parts.
    check(
        &[
            (".plugin/plugin.json", r#"{"name": "q"}"#),
            ("plugin.json", &unknown),
            ("mcp.json", "{"),
        ],
        expect![[r#"
            name q
            Rejected: /plugins/depot/plugin.json:1: Agent Plugins 2.1.0 is not supported, only 1.0.0
            Warning: /plugins/depot/mcp.json: it is not honoured without a `plugin.json` of Agent Plugins 1.0.0
        "#]],
    );
    check(
        &[("plugin.json", r#"{"name": "p"}"#), ("mcp.json", "{")],
        expect![[r#"
            name p
            Warning: /plugins/depot/plugin.json: it has no `$schema` of Agent Plugins: it is read like a plugin of Claude Code
            Warning: /plugins/depot/mcp.json: it is not honoured without a `plugin.json` of Agent Plugins 1.0.0
        "#]],
    );
}

#[test]
fn b3_agent_plugin_servers_are_converted_to_mcp_entries() {
    let manifest = format!("{{{SCHEMA}, \"name\": \"p\"}}");
    let servers = |servers: &str| {
        let schema = SCHEMA.replace("plugin.schema", "mcp.schema");
        format!("{{{schema}, \"mcpServers\": {servers}}}")
    };
    let check = |text: &str, expected: Expect| {
        check(&[("plugin.json", &manifest), ("mcp.json", text)], expected);
    };
    check(
        &servers(
            r#"{"a": {"type": "stdio", "command": "./bin/a", "args": ["${PLUGIN_ROOT}/c", "${HOME}", "${PLUGIN_ROOT"],
                      "env": {"KEY": "${PLUGIN_ROOT}:${SECRET}"}, "cwd": "./data/"},
                "b": {"type": "stdio", "command": "npx", "cwd": "${PLUGIN_ROOT}"},
                "c": {"type": "streamable-http", "url": "https://example.com/mcp", "headers": {"X-A": "${SECRET}"}},
                "d": {"type": "streamable-http", "url": "http://[::1]:80/mcp"}}"#,
        ),
        expect![[r#"
            name p
            servers /plugins/depot/mcp.json {"mcpServers":{"a":{"type":"stdio","command":"/plugins/depot/bin/a","args":["/plugins/depot/c","${:-$}{HOME}","${:-$}{PLUGIN_ROOT"],"env":{"KEY":"/plugins/depot:${:-$}{SECRET}","PLUGIN_ROOT":"/plugins/depot"},"cwd":"/plugins/depot/data"},"b":{"type":"stdio","command":"npx","args":[],"env":{"PLUGIN_ROOT":"/plugins/depot"},"cwd":"/plugins/depot"},"c":{"type":"http","url":"https://example.com/mcp","headers":{"X-A":"${:-$}{SECRET}"}},"d":{"type":"http","url":"http://[::1]:80/mcp","headers":{}}}}
        "#]],
    );
    check(
        &servers(
            r#"{
            "none": {"command": "a"}, "old": {"type": "sse", "url": "https://example.com"},
            "odd": {"type": "http", "url": "https://example.com"}, "more": {"type": "stdio", "command": "a", "x": 1},
            "out": {"type": "stdio", "command": "../a"}, "top": {"type": "stdio", "command": "/bin/a"},
            "up": {"type": "stdio", "command": "./../a"}, "cwd": {"type": "stdio", "command": "a", "cwd": "data"},
            "far": {"type": "stdio", "command": "a", "cwd": "${PLUGIN_ROOT}/../b"},
            "keep": {"type": "stdio", "command": "a", "cwd": "${PLUGIN_DATA}/b"},
            "kept": {"type": "stdio", "command": "a", "args": ["${PLUGIN_DATA}"]},
            "root": {"type": "stdio", "command": "a", "env": {"PLUGIN_ROOT": "/"}},
            "plain": {"type": "streamable-http", "url": "http://example.com"},
            "near": {"type": "streamable-http", "url": "http://localhost.example.com"},
            "user": {"type": "streamable-http", "url": "https://me@example.com"},
            "twice": {"type": "streamable-http", "url": "https://example.com", "headers": {"A": "1", "a": "2"}},
            "good": {"type": "stdio", "command": "good"}}"#,
        ),
        expect![[r#"
            name p
            servers /plugins/depot/mcp.json {"mcpServers":{"good":{"type":"stdio","command":"good","args":[],"env":{"PLUGIN_ROOT":"/plugins/depot"},"cwd":"/plugins/depot"}}}
            Rejected: /plugins/depot/mcp.json:2: the server `none` cannot be used: missing key `type`
            Rejected: /plugins/depot/mcp.json:2: the server `old` cannot be used: servers of the older kind `sse` are not supported
            Rejected: /plugins/depot/mcp.json:3: the server `odd` cannot be used: a `type` is `stdio`, `streamable-http` or `sse`
            Rejected: /plugins/depot/mcp.json:3: the server `more` cannot be used: unknown key `x`
            Rejected: /plugins/depot/mcp.json:4: the server `out` cannot be used: a path in the plugin begins with `./`
            Rejected: /plugins/depot/mcp.json:4: the server `top` cannot be used: a path in the plugin begins with `./`
            Rejected: /plugins/depot/mcp.json:5: the server `up` cannot be used: `./../a` is not a path inside the plugin
            Rejected: /plugins/depot/mcp.json:5: the server `cwd` cannot be used: a path in the plugin begins with `./`
            Rejected: /plugins/depot/mcp.json:6: the server `far` cannot be used: `./../b` is not a path inside the plugin
            Rejected: /plugins/depot/mcp.json:7: the server `keep` cannot be used: `${PLUGIN_DATA}` is not supported
            Rejected: /plugins/depot/mcp.json:8: the server `kept` cannot be used: `${PLUGIN_DATA}` is not supported
            Rejected: /plugins/depot/mcp.json:9: the server `root` cannot be used: `PLUGIN_ROOT` is reserved and cannot be set
            Rejected: /plugins/depot/mcp.json:10: the server `plain` cannot be used: an address begins with https://, or http:// on this machine, and has no user and no fragment
            Rejected: /plugins/depot/mcp.json:11: the server `near` cannot be used: an address begins with https://, or http:// on this machine, and has no user and no fragment
            Rejected: /plugins/depot/mcp.json:12: the server `user` cannot be used: an address begins with https://, or http:// on this machine, and has no user and no fragment
            Rejected: /plugins/depot/mcp.json:13: the server `twice` cannot be used: duplicate header
        "#]],
    );
    check(
        "{",
        expect![[r#"
        name p
        Rejected: /plugins/depot/mcp.json:1: object is not closed
    "#]],
    );
    check(
        r#"{"mcpServers": {}}"#,
        expect![[r#"
        name p
        Rejected: /plugins/depot/mcp.json:1: missing key `$schema`
    "#]],
    );
    check(
        &servers("{}").replace("1.0.0", "1.1.0"),
        expect![[r#"
            name p
            Rejected: /plugins/depot/mcp.json:1: expected the schema of Agent Plugins 1.0.0
        "#]],
    );
    check(
        &servers("{}, \"more\": 1"),
        expect![[r#"
        name p
        Rejected: /plugins/depot/mcp.json:1: unknown key `more`
    "#]],
    );
    check(
        &servers("[]"),
        expect![[r#"
        name p
        Rejected: /plugins/depot/mcp.json:1: expected an object, found a list
    "#]],
    );
}

/// Entries in a file of hooks that would silently be no gate.
#[test]
fn b3_misspelled_or_misplaced_gate_in_a_hook_file_is_an_error() {
    let gate = r#"[{"hooks": [{"type": "command", "command": "x"}]}]"#;
    let many = vec![r#"{"type": "command", "command": "x"}"#; 501].join(",");
    let mut out = String::new();
    for text in [
        format!(r#"{{"Hooks": {{"PreToolUse": {gate}}}}}"#),
        format!(r#"{{"preToolUse": {gate}}}"#),
        format!(r#"{{"PreToolUse": {gate}, "stop": {gate}}}"#),
        format!(r#"{{"hooks": {{"PRETOOLUSE": {gate}}}}}"#),
        format!(r#"{{"hooks": {{}}, "PreToolUse": {gate}}}"#),
        format!(r#"{{"PreToolUse": {gate}, "Hooks": {{"PreToolUse": {gate}}}}}"#),
        format!(r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{many}]}}]}}}}"#),
        // Observers beyond the maximum are a warning, not an error.
        format!(r#"{{"hooks": {{"PreToolUse": {gate}, "PostToolUse": [{{"hooks": [{many}]}}]}}}}"#),
        // A key that is a duplicate only after a placeholder is replaced.
        format!(
            r#"{{"hooks": {{"PreToolUse": {gate}}}, "${{PLUGIN_ROOT}}": 1, "${{CLAUDE_PLUGIN_ROOT}}": 2}}"#
        ),
        // Too long only after `hooks` is put around it.
        padded(gate),
        // Too long only after the folder replaces its placeholder.
        format!(
            r#"{{"hooks": {{"PreToolUse": {gate}}}, "about": "{}"}}"#,
            "${PLUGIN_ROOT}".repeat(70_000)
        ),
    ] {
        out += &format!("== {}\n", text::cut_chars(&text, 80));
        out += &read_of(&[("hooks/hooks.json", &text)]);
    }
    for manifest in [
        format!(r#"{{"name": "p", "Hooks": {{"PreToolUse": {gate}}}}}"#),
        format!(r#"{{"name": "p", "PreToolUse": {gate}}}"#),
        format!(r#"{{"name": "p", "hooks": {{"preToolUse": {gate}}}}}"#),
    ] {
        out += &format!("== {manifest}\n");
        out += &read_of(&[(".claude-plugin/plugin.json", &manifest)]);
    }
    expect![[r#"
        == {"Hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}}
        name depot
        broken: /plugins/depot/hooks/hooks.json:1: unknown key: it is spelled `hooks`
        == {"preToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}
        name depot
        broken: /plugins/depot/hooks/hooks.json:1: the event `PreToolUse` is outside `hooks`, where it is not read
        == {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}], "stop": [{"h…
        name depot
        Repaired: /plugins/depot/hooks/hooks.json: its events are not inside `hooks`: they are read as if they were
        broken: /plugins/depot/hooks/hooks.json:1: unknown event: it is spelled `Stop`
        == {"hooks": {"PRETOOLUSE": [{"hooks": [{"type": "command", "command": "x"}]}]}}
        name depot
        broken: /plugins/depot/hooks/hooks.json:1: unknown event: it is spelled `PreToolUse`
        == {"hooks": {}, "PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}
        name depot
        broken: /plugins/depot/hooks/hooks.json:1: the event `PreToolUse` is outside `hooks`, where it is not read
        == {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}], "Hooks": {"P…
        name depot
        Repaired: /plugins/depot/hooks/hooks.json: its events are not inside `hooks`: they are read as if they were
        broken: /plugins/depot/hooks/hooks.json:1: `hooks` is inside `hooks`, where only events are read
        == {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"},{"type…
        name depot
        broken: /plugins/depot/hooks/hooks.json:1: a file has at most 500 hooks: this gate would be lost
        == {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}], "P…
        name depot
        hook x-0fe6bd at tool.pre
        hook x-52e2a8 at tool.post
        Warning: /plugins/depot/hooks/hooks.json:1: a file has at most 500 hooks: the others cannot be asked
        == {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}, "…
        name depot
        hook x-0fe6bd at tool.pre
        == {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}], "about": "xx…
        name depot
        Repaired: /plugins/depot/hooks/hooks.json: its events are not inside `hooks`: they are read as if they were
        broken: /plugins/depot/hooks/hooks.json: file is larger than 1 MiB, the maximum for a settings file
        == {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}, "…
        name depot
        hook x-0fe6bd at tool.pre
        == {"name": "p", "Hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}}
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:1: unknown key: it is spelled `hooks`
        == {"name": "p", "PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:1: the event `PreToolUse` is outside `hooks`, where it is not read
        == {"name": "p", "hooks": {"preToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}}
        name p
        broken: /plugins/depot/.claude-plugin/plugin.json:1: unknown event: it is spelled `PreToolUse`
    "#]].assert_eq(&out);
}

/// Events without `hooks` around them, in a text of the maximum length.
fn padded(gate: &str) -> String {
    let text = |about: &str| format!(r#"{{"PreToolUse": {gate}, "about": "{about}"}}"#);
    text(&"x".repeat(MAX_BYTES - text("").len()))
}

#[test]
fn s7_plugin_root_placeholder_is_replaced_literally() {
    let manifest =
        r#"{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "p"}"#;
    let servers = r#"{"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json", "mcpServers":
        {"s": {"type": "stdio", "command": "./s", "args": ["${PLUGIN_ROOT}{KEY}", "${KEY}"], "env": {"A": "${PLUGIN_ROOT}"}}}}"#;
    let theirs = r#"{"mcpServers": {"t": {"command": "${CLAUDE_PLUGIN_ROOT}/t", "args": ["${CLAUDE_PLUGIN_ROOT}", "${KEY}"]}}}"#;
    let hooks = r#"{"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": "${PLUGIN_ROOT}/x ${CLAUDE_PLUGIN_ROOT}"},
        {"type": "command", "command": "y", "args": ["${PLUGIN_ROOT}"]}]}]}}"#;
    let files = BTreeMap::from([
        ("plugin.json", manifest),
        ("mcp.json", servers),
        (".mcp.json", theirs),
        ("hooks/hooks.json", hooks),
    ]);
    let reads = |path: &Path| Some(Ok(files.get(path.to_str()?)?.as_bytes().to_vec()));
    let mut out = String::new();
    for root in ["/plugins/${KEY}", "/plugins/${PLUGIN_ROOT}/${CLAUDE_PLUGIN_ROOT}", "/plugins/$"] {
        let plugin = Plugin::read(Path::new(root), &reads);
        let hooks = plugin
            .as_ref()
            .map(|plugin| plugin.command_hooks(|path| claude::ClaudeFile::new(path)).0);
        for hook in hooks.unwrap_or_default() {
            out += &format!("{:?}\n", hook.command);
        }
        out += &shown(plugin);
    }
    expect![[r#"
        Shell("${CLAUDE_PLUGIN_ROOT}/x ${CLAUDE_PLUGIN_ROOT}")
        Words(["y", "${CLAUDE_PLUGIN_ROOT}"])
        name p
        hook x at tool.pre
        hook y-42e244 at tool.pre
        servers /plugins/${KEY}/.mcp.json {"mcpServers":{"t":{"command":"/plugins/${KEY}/t","args":["/plugins/${:-$}{KEY}","${KEY}"]}}}
        servers /plugins/${KEY}/mcp.json {"mcpServers":{"s":{"type":"stdio","command":"/plugins/${KEY}/s","args":["/plugins/${:-$}{KEY}{KEY}","${:-$}{KEY}"],"env":{"A":"/plugins/${:-$}{KEY}","PLUGIN_ROOT":"/plugins/${:-$}{KEY}"},"cwd":"/plugins/${KEY}"}}}
        Shell("${CLAUDE_PLUGIN_ROOT}/x ${CLAUDE_PLUGIN_ROOT}")
        Words(["y", "${CLAUDE_PLUGIN_ROOT}"])
        name p
        hook x at tool.pre
        hook y-ec2ff6 at tool.pre
        servers /plugins/${PLUGIN_ROOT}/${CLAUDE_PLUGIN_ROOT}/.mcp.json {"mcpServers":{"t":{"command":"/plugins/${PLUGIN_ROOT}/${CLAUDE_PLUGIN_ROOT}/t","args":["/plugins/${:-$}{PLUGIN_ROOT}/${:-$}{CLAUDE_PLUGIN_ROOT}","${KEY}"]}}}
        servers /plugins/${PLUGIN_ROOT}/${CLAUDE_PLUGIN_ROOT}/mcp.json {"mcpServers":{"s":{"type":"stdio","command":"/plugins/${PLUGIN_ROOT}/${CLAUDE_PLUGIN_ROOT}/s","args":["/plugins/${:-$}{PLUGIN_ROOT}/${:-$}{CLAUDE_PLUGIN_ROOT}{KEY}","${:-$}{KEY}"],"env":{"A":"/plugins/${:-$}{PLUGIN_ROOT}/${:-$}{CLAUDE_PLUGIN_ROOT}","PLUGIN_ROOT":"/plugins/${:-$}{PLUGIN_ROOT}/${:-$}{CLAUDE_PLUGIN_ROOT}"},"cwd":"/plugins/${PLUGIN_ROOT}/${CLAUDE_PLUGIN_ROOT}"}}}
        Shell("${CLAUDE_PLUGIN_ROOT}/x ${CLAUDE_PLUGIN_ROOT}")
        Words(["y", "${CLAUDE_PLUGIN_ROOT}"])
        name p
        hook x at tool.pre
        hook y-0fd0fa at tool.pre
        servers /plugins/$/.mcp.json {"mcpServers":{"t":{"command":"/plugins/$/t","args":["/plugins/${:-$}","${KEY}"]}}}
        servers /plugins/$/mcp.json {"mcpServers":{"s":{"type":"stdio","command":"/plugins/$/s","args":["/plugins/${:-$}{KEY}","${:-$}{KEY}"],"env":{"A":"/plugins/${:-$}","PLUGIN_ROOT":"/plugins/${:-$}"},"cwd":"/plugins/$"}}}
    "#]].assert_eq(&out);
}
