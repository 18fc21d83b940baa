//! The first hooks of a new user, whose Python is of pyenv and whose Node is of nvm. The interpreters are
//! copies below the home folder, and those of the system are not in `PATH`.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use expect_test::expect;
use serde_json::{Value, json};

use crate::{claude_files::trust, support::World};

/// A guard in each language. It refuses a write to a path that contains `WORD`, in the dialect of its file.
const GUARDS: [(&str, &str, &str, &str); 6] = [
    (
        "claude-bash",
        ".claude/hooks/guard.sh",
        "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh",
        "#!/bin/bash\nif [[ $(jq -r .tool_input.file_path) == *WORD* ]]; then\n  \
         echo \"bash says no\" >&2\n  exit 2\nfi\n",
    ),
    (
        "claude-python",
        ".claude/hooks/guard.py",
        "python3 \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.py",
        "import json, sys\nif 'WORD' in json.load(sys.stdin)['tool_input']['file_path']:\n    \
         print('python says no', file=sys.stderr)\n    sys.exit(2)\n",
    ),
    (
        "claude-node",
        ".claude/hooks/guard.js",
        "node \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.js",
        "const event = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n\
         if (event.tool_input.file_path.includes('WORD')) {\n  \
         console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: 'PreToolUse',\n    \
         permissionDecision: 'deny', permissionDecisionReason: 'node says no' } }));\n}\n",
    ),
    (
        "own-bash",
        ".cotter/hooks/own-bash.sh",
        "./hooks/own-bash.sh",
        "#!/bin/bash\nif [[ $(jq -r .input.path) == *WORD* ]]; then\n  \
         echo '{\"blocked\": true, \"reason\": \"bash says no\"}'\nfi\n",
    ),
    (
        "own-python",
        ".cotter/hooks/own-python.py",
        "python3 hooks/own-python.py",
        "import json, sys\nif 'WORD' in json.load(sys.stdin)['input']['path']:\n    \
         print(json.dumps({'blocked': True, 'reason': 'python says no'}))\n",
    ),
    (
        "own-node",
        ".cotter/hooks/own-node.js",
        "./hooks/own-node.js",
        "#!/usr/bin/env node\nconst event = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n\
         if (event.input.path.includes('WORD')) {\n  \
         console.log(JSON.stringify({ blocked: true, reason: 'node says no' }));\n}\n",
    ),
];

/// A world whose Python is of pyenv and whose Node is of nvm.
fn world() -> World {
    let world = World::new().with_env("NO_COLOR", "1");
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../cotter-tools/tests/claude/prefixes.py");
    let mut folders: Vec<PathBuf> = vec![];
    for kind in ["pyenv", "nvm"] {
        let mut build = Command::new("python3");
        let output =
            build.arg("-B").arg(&script).arg(world.path("home")).arg(kind).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        let paths = made["path"].as_array().unwrap().iter();
        folders.extend(paths.map(|path| PathBuf::from(path.as_str().unwrap())));
    }
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    let hidden = ["python", "node", "npm", "npx"];
    for folder in ["/usr/local/bin", "/usr/bin", "/bin"] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !hidden.iter().any(|begin| name.to_string_lossy().starts_with(begin)) {
                let _ = symlink(entry.path(), bin.join(name));
            }
        }
    }
    folders.push(bin);
    // The project is empty.
    fs::remove_dir_all(world.path("project")).unwrap();
    fs::create_dir(world.path("project")).unwrap();
    world.with_env("PATH", PathBuf::from(std::env::join_paths(folders).unwrap()))
}

/// What becomes of a write to each path.
fn verdicts(world: &World, paths: &[&str]) -> String {
    let call = |path: &&str| json!({"name": "write", "input": {"path": path, "content": "x"}});
    let steps = paths.iter().map(|path| json!({"calls": [call(path)]}).to_string() + ", ");
    let script = world.script(&(steps.collect::<String>() + r#"{"text": "done"}"#));
    let args = ["-p", "--output-format", "stream-json", "--script", &script, "go"];
    let output = world.output(&args);
    let mut shown = String::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["type"].as_str().unwrap() {
            "tool.refused" => shown += &format!("refused {}: {}\n", event["by"], event["reason"]),
            "tool.result" => shown += &format!("ran {}\n", event["output"]),
            _ => {}
        }
    }
    world.plain(&(shown + &String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn b3_c1_first_hooks_of_a_new_user_block_in_every_language_and_dialect() {
    let world = world();
    let made = world.output(&["init"]);
    assert!(made.status.success(), "{}", world.shown(&made));
    let mut handlers = vec![];
    for (word, file, command, text) in GUARDS {
        world.write_executable(&format!("project/{file}"), text.replace("WORD", word));
        match word.starts_with("claude") {
            true => handlers.push(json!({"type": "command", "command": command})),
            false => {
                let hook = format!("id: {word}\nphase: pre\ntools: [write]\ncommand: {command}\n");
                world.write(&format!("project/.cotter/hooks/{word}.yaml"), hook);
            }
        }
    }
    let settings = json!({"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": handlers}]}});
    world.write("project/.claude/settings.json", settings.to_string());
    trust(&world);
    let words = GUARDS.map(|(word, ..)| format!("{word}.txt"));
    let paths = words.iter().map(String::as_str).chain(["plain.txt"]).collect::<Vec<_>>();
    let view = world.shown(&world.output(&["trust", "--print"]));
    assert!(!view.contains("do not start"), "{view}");
    expect![[r#"
        refused "guard-fbe99c": "bash says no"
        refused "guard-5c3e91": "python says no"
        refused "guard-ac1ebd": "node says no"
        refused "own-bash": "bash says no"
        refused "own-python": "python says no"
        refused "own-node": "node says no"
        ran "created plain.txt, 1 line"
    "#]]
    .assert_eq(&verdicts(&world, &paths));
    let written = fs::read_dir(world.path("project")).unwrap().flatten();
    let written = written.filter(|entry| entry.path().extension().is_some_and(|end| end == "txt"));
    let written: Vec<_> = written.map(|entry| entry.file_name()).collect();
    assert_eq!(written, ["plain.txt"]);
}
