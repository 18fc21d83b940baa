//! Text of a folder reaches the model only once the folder is trusted, and only as it was trusted.

use std::fs;

use expect_test::expect;

use crate::support::World;

const FOLDERS: [&str; 3] = [".cotter", ".claude", ".agents"];

/// A project whose folders each have a command, a skill and an agent with a word of their own, and a memory
/// file that imports two of them.
fn world() -> World {
    let world = World::new().with_env("NO_COLOR", "1");
    for folder in FOLDERS {
        let name = &folder[1..];
        write_texts(&world, folder, &format!("WORD-{name}"));
    }
    world.write("project/AGENTS.md", "Ours.\n@.cotter/commands/c-cotter.md @.claude/notes.md\n");
    world.write("project/.claude/notes.md", "WORD-notes\n");
    world
}

fn write_texts(world: &World, folder: &str, word: &str) {
    let name = &folder[1..];
    let text = |kind: &str| format!("---\ndescription: {word}-{kind}\n---\n{word}-{kind}\n");
    world.write(&format!("project/{folder}/commands/c-{name}.md"), text("command"));
    world.write(&format!("project/{folder}/skills/s-{name}.md"), text("skill"));
    world.write(&format!("project/{folder}/agents/a-{name}.md"), text("agent"));
}

/// The words that lists, a stored session and the system prompt show, and the warnings about memory files.
fn words(world: &World) -> String {
    let mut shown = String::new();
    for args in [["skills", "list"], ["commands", "list"], ["agents", "list"]] {
        shown += &String::from_utf8(world.output(&args).stdout).unwrap();
    }
    let script = world.script(r#"{"text": "done"}, {"text": "done"}, {"text": "done"}"#);
    for prompt in ["/c-cotter", "/c-claude", "/c-agents", "/s-cotter"] {
        let output = world.output(&["-p", "--script", &script, prompt]);
        assert!(output.status.success(), "{output:?}");
    }
    for file in fs::read_dir(world.sessions()).unwrap() {
        shown += &fs::read_to_string(file.unwrap().path()).unwrap();
    }
    fs::remove_dir_all(world.sessions()).unwrap();
    let is_part = |c: char| c.is_alphanumeric() || c == '-';
    let shown = shown.replace("\\n", " ");
    let words = shown.split(|c| !is_part(c)).filter(|word| word.contains("WORD"));
    let mut words: Vec<_> = words.map(str::to_owned).collect();
    words.sort();
    words.dedup();
    let doctor = String::from_utf8(world.output(&["doctor"]).stdout).unwrap();
    let warnings = doctor.lines().filter(|line| line.contains("AGENTS.md"));
    let warnings: String = warnings.map(|line| format!("{}\n", world.plain(line.trim()))).collect();
    format!("{}\n{warnings}", words.join(" "))
}

#[test]
fn s8_text_reaches_the_model_only_as_it_was_trusted() {
    let world = world();
    expect![[r#"

          note    [T]/project/AGENTS.md:2: [T]/project/.cotter/commands/c-cotter.md is not part of a trusted [T]/project/.cotter
          note    [T]/project/AGENTS.md:2: [T]/project/.claude/notes.md is not part of a trusted [T]/project/.claude
    "#]]
    .assert_eq(&words(&world));
    world.trust_now(&["project/.cotter", "project/.claude", "project/.agents"]);
    expect![[r#"
        WORD-agents-agent WORD-agents-command WORD-agents-skill WORD-claude-agent WORD-claude-command WORD-claude-skill WORD-cotter-agent WORD-cotter-command WORD-cotter-skill
    "#]].assert_eq(&words(&world));
    // A change of one file: neither the old nor the new text is used.
    for folder in FOLDERS {
        world.write(&format!("project/{folder}/skills/new.md"), "CHANGED-WORD");
        write_texts(&world, folder, "CHANGED-WORD");
    }
    expect![[r#"

          note    [T]/project/AGENTS.md:2: [T]/project/.cotter/commands/c-cotter.md is not part of a trusted [T]/project/.cotter
          note    [T]/project/AGENTS.md:2: [T]/project/.claude/notes.md is not part of a trusted [T]/project/.claude
    "#]]
    .assert_eq(&words(&world));
}
