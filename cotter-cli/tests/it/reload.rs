//! Files that change during a run: they are applied completely or not at all, and never make the run looser.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::Child,
};

use expect_test::{Expect, expect};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    support::{World, wait_until},
    terminal::Screen,
};

const DENY: &str = r#"{"permissions": {"deny": ["read(./a.txt)"]}}"#;

/// Writes a script of a model that reads one file again and again.
fn reading(world: &World) -> String {
    let step = r#"{"calls": [{"name": "read", "input": {"path": "a.txt"}}], "delayMs": 50}"#;
    world.script(&vec![step; 1000].join(","))
}

/// Returns for each call so far: true if it was refused.
pub(crate) fn refusals(world: &World) -> Vec<bool> {
    let Some(id) = world.ids().first().cloned() else { return vec![] };
    let text = fs::read_to_string(world.sessions().join(format!("{id}.jsonl"))).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let messages = lines.filter(|line| line["message"]["role"] == "toolResult");
    messages.map(|line| line["message"]["is_error"] == true).collect()
}

/// Waits until a later call is refused, or until one runs.
pub(crate) fn wait_for_refusal(world: &World, refused: bool) {
    let before = refusals(world).len();
    let is_so = || refusals(world).iter().skip(before + 1).any(|is| *is == refused);
    wait_until(is_so, if refused { "a call is refused" } else { "a call runs" });
}

/// A run in progress, with its standard error in a file.
pub(crate) struct Running<'w> {
    world: &'w World,
    child: Child,
    said: PathBuf,
}

impl<'w> Running<'w> {
    pub(crate) fn new(world: &'w World, more: &[&str]) -> Self {
        let script = reading(world);
        let args = [&["-p", "--script", &script], more, &["go"]].concat();
        let said = world.path("said");
        let stderr = File::create(&said).unwrap();
        let child = world.command(&args).stderr(stderr).spawn().unwrap();
        Running { world, child, said }
    }

    pub(crate) fn wait_for(&self, words: &str) {
        let said = || fs::read_to_string(&self.said).unwrap_or_default();
        wait_until(|| said().contains(words), words);
    }

    fn end_quietly(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the run and checks its standard error, without lines about refused calls.
    pub(crate) fn end(mut self, expected: Expect) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap();
        let said = fs::read_to_string(&self.said).unwrap();
        let lines = said.lines().filter(|line| !line.starts_with("refused:"));
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        expected.assert_eq(&self.world.plain(&lines));
    }
}

/// A stricter change acts at once. A broken file leaves the settings in force. A looser change waits.
#[test]
fn s2_hot_reload_of_user_settings() {
    let world = World::new().with_env("NO_COLOR", "1");
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, false);
    world.settings(DENY);
    wait_for_refusal(&world, true);
    world.settings(r#"{"permissions": {"deny": ["read(./a.txt)"], "ask": 1}}"#);
    run.wait_for("still apply");
    wait_for_refusal(&world, true);
    world.settings(r#"{"permissions": {"allow": ["bash(ls *)"]}, "model": "other/model"}"#);
    run.wait_for("loosen");
    wait_for_refusal(&world, true);
    fs::remove_file(world.path("home/.config/cotter/settings.json")).unwrap();
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        warning: [T]/home/.config/cotter/settings.json:1:52: $.permissions.ask: expected a list, found the number 1; the earlier settings still apply
        warning: changes of model, limits, folders and servers apply to the next run
        warning: settings changed; these changes would loosen this run and wait for the next run:
          gone: rule `deny read(./a.txt)`
          new: rule `allow bash(ls *)`
        error: the run was aborted
    "#]]);
}

/// A stricter change acts, even if it comes after the files were loaded and before they are watched: a run
/// that is opening its session is not watched yet.
#[test]
fn s2_hot_reload_of_a_change_before_the_watch() {
    let world = World::new().with_env("NO_COLOR", "1").with_env("PATH", "/usr/bin:/bin");
    let (opening, go) = (world.path("project/opening"), world.path("project/go"));
    let wait =
        format!("touch {}; until test -e {}; do sleep 0.01; done", opening.display(), go.display());
    let hooks = serde_json::json!({"session.open": [{"name": "wait", "command": wait, "timeoutMs": 60000}]});
    world.settings(&serde_json::json!({"hooks": hooks}).to_string());
    let run = Running::new(&world, &[]);
    wait_until(|| opening.exists(), "the session is opened");
    let deny = serde_json::json!({"deny": ["read(./a.txt)"]});
    world.settings(&serde_json::json!({"hooks": hooks, "permissions": deny}).to_string());
    fs::write(go, "").unwrap();
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        error: the run was aborted
    "#]]);
}

/// A changed skill, command or agent is loaded, and a broken one is reported.
#[test]
fn hot_reload_of_user_skills_and_commands() {
    let world = World::new().with_env("NO_COLOR", "1");
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, false);
    world.write(
        "home/.config/cotter/skills/neat/SKILL.md",
        "---\nname: neat\ndescription: [\n---\nx\n",
    );
    world.write("home/.config/cotter/commands/look.md", "---\ndescription: Looks.\ntools: [\n");
    run.wait_for("look.md");
    wait_for_refusal(&world, false);
    run.end(expect![[r#"
        warning: [T]/home/.config/cotter/commands/look.md:1: the front matter has no end: a second line `---` is missing
        warning: [T]/home/.config/cotter/skills/neat/SKILL.md:3: it is not YAML; read with its values in quotes
        error: the run was aborted
    "#]]);
}

fn trust(world: &World) {
    let mut screen = Screen::new(world, &["trust"]);
    screen.wait_for("[y]es, [n]o: ");
    screen.type_keys("y\n");
    screen.end(world);
}

/// Deleting the folder, or checking out a branch without it, drops no gate. Withdrawing trust does.
#[test]
fn s2_s8_hot_reload_of_a_trusted_project_folder() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("project/.cotter/settings.json", DENY);
    trust(&world);
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, true);
    world.write("project/.cotter/settings.json", "{}");
    run.wait_for("changed since it was trusted");
    wait_for_refusal(&world, true);
    fs::remove_dir_all(world.path("project/.cotter")).unwrap();
    run.wait_for("is gone");
    wait_for_refusal(&world, true);
    let untrusted = world.output(&["untrust"]);
    assert!(untrusted.status.success(), "{untrusted:?}");
    wait_for_refusal(&world, false);
    run.end(expect![[r#"
        warning: [T]/project/.cotter changed since it was trusted: its trusted hooks and rules still apply, nothing else of it runs (`cotter trust` shows how it changed)
        warning: [T]/project/.cotter was trusted, and is gone: its trusted hooks and rules still apply, nothing else of it runs (`cotter untrust` removes the trust)
        error: the run was aborted
    "#]]);
}

/// A source that a person trusts during a run is loaded into it, because they were shown its contents.
#[test]
fn s8_hot_reload_of_a_source_trusted_during_the_run() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("project/.cotter/settings.json", DENY);
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, false);
    trust(&world);
    wait_for_refusal(&world, true);
    world.write("project/.cotter/settings.json", "{}");
    trust(&world);
    wait_for_refusal(&world, false);
    run.end(expect![[r#"
        warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
        warning: [T]/project/.cotter changed since it was trusted: its trusted hooks and rules still apply, nothing else of it runs (`cotter trust` shows how it changed)
        error: the run was aborted
    "#]]);
}

/// Withdrawn trust takes effect at once, even if another file is broken.
#[test]
fn s2_withdrawn_trust_takes_effect_while_another_file_is_broken() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("project/.cotter/settings.json", DENY);
    trust(&world);
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, true);
    world.settings("{");
    run.wait_for("still apply");
    wait_for_refusal(&world, true);
    assert!(world.output(&["untrust"]).status.success());
    wait_for_refusal(&world, false);
    run.end(expect![[r#"
        warning: [T]/home/.config/cotter/settings.json:1:1: $: object is not closed (add a `}`); the earlier settings still apply
        error: the run was aborted
    "#]]);
}

/// Contents that were trusted by hash stay the same for the run.
#[test]
fn s2_s8_hot_reload_of_a_source_trusted_by_hash() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("project/.cotter/settings.json", DENY);
    let shown = String::from_utf8(world.output(&["trust", "--print"]).stdout).unwrap();
    let hash = shown.lines().find_map(|line| line.strip_prefix("hash    ")).unwrap();
    let run = Running::new(&world, &[&format!("--trust={hash}")]);
    wait_for_refusal(&world, true);
    world.write("project/.cotter/settings.json", "{}");
    run.wait_for("loosen");
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
        warning: settings changed; these changes would loosen this run and wait for the next run:
          gone: rule `deny read(./a.txt)`
        error: the run was aborted
    "#]]);
}

/// The question with its prompt. Keys count only after the prompt.
const LET_IT: &str = "Apply them?\r\n[y]es, [n]o: ";

/// The person at the terminal is asked, and their yes applies to the changes that they were shown.
#[test]
fn s2_hot_reload_that_loosens_is_asked_about() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.settings(DENY);
    let script = reading(&world);
    let mut screen = Screen::new(&world, &["-p", "--ask", "--script", &script, "go"]);
    wait_for_refusal(&world, true);
    world.settings("{}");
    screen.wait_for("gone: rule `deny read(./a.txt)`");
    wait_for_refusal(&world, true);
    screen.wait_for(LET_IT);
    screen.type_keys("y\n");
    wait_for_refusal(&world, false);
    screen.type_keys("\u{3}");
    assert!(screen.end(&world).contains("Apply them?"));
}

/// An "always" for one rule does not apply another change that was answered with no.
#[test]
fn s2_l14_always_answer_applies_its_own_rule_and_no_other_change() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.settings(r#"{"permissions": {"deny": ["read(./a.txt)"], "level": "paranoid"}}"#);
    let read = r#"{"calls": [{"name": "read", "input": {"path": "a.txt"}}], "delayMs": 50}"#;
    let other = r#"{"calls": [{"name": "read", "input": {"path": "src/b.txt"}}]}"#;
    let script = world.script(&[vec![read; 60], vec![other], vec![read; 900]].concat().join(","));
    let mut screen = Screen::new(&world, &["-p", "--ask", "--script", &script, "go"]);
    wait_for_refusal(&world, true);
    world.settings(r#"{"permissions": {"level": "paranoid"}}"#);
    screen.wait_for(LET_IT);
    screen.type_keys("n\n");
    screen.wait_for("[a]lways");
    screen.type_keys("a\n");
    screen.wait_for("stored in");
    let before = refusals(&world).len();
    wait_until(|| refusals(&world).len() > before + 10, "calls go on");
    assert!(refusals(&world)[before + 2..].iter().all(|refused| *refused));
    // Nor does writing the file again: by then even the earlier consent no longer counts.
    let written = fs::read_to_string(world.path("home/.config/cotter/settings.json")).unwrap();
    assert!(!screen.text().contains("new: rule"), "{}", screen.text());
    world.settings(r#"{"permissions": {"deny": ["read(./a.txt)", "read(./c.txt)"]}}"#);
    screen.wait_for("new: level `standard`");
    world.settings(&written);
    screen.wait_for("new: rule `allow read`");
    wait_for_refusal(&world, true);
    screen.type_keys("\u{3}");
    screen.end(&world);
}

/// A looser level or mode changes nothing in a new file, over a flag, or under a stricter file.
#[test]
fn s2_looser_level_or_mode_in_any_file_waits_for_the_next_run() {
    let world = World::new().with_env("NO_COLOR", "1");
    let run = Running::new(&world, &["--permission-mode", "plan"]);
    wait_for_refusal(&world, false);
    world.settings(r#"{"permissions": {"mode": "accept-edits", "level": "permissive"}}"#);
    run.wait_for("level");
    run.end(expect![[r#"
        warning: settings changed; these changes would loosen this run and wait for the next run:
          new: level `permissive`
        error: the run was aborted
    "#]]);
}

/// A person's stricter level acts at once, even if a trusted project sets a looser one.
#[test]
fn s2_s3_user_level_stricter_than_the_project_level_acts_at_once() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("project/.cotter/settings.json", r#"{"permissions": {"level": "standard"}}"#);
    trust(&world);
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, false);
    world.settings(r#"{"permissions": {"level": "paranoid"}}"#);
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        warning: [T]/project/.cotter/settings.json: the level of the project is looser than yours; yours applies
        error: the run was aborted
    "#]]);
    // A run that begins with these files fails with an error.
    let output = world.output(&["-p", "--model", "rehearsal", "read a.txt"]);
    assert!(world.shown(&output).contains("a project may only tighten"));
}

/// Deleting a named file drops none of its rules, and does not stop other reloads.
#[test]
fn s2_hot_reload_after_a_settings_file_was_deleted() {
    let world = World::new().with_env("NO_COLOR", "1");
    let named = world.write("named.json", DENY);
    let run = Running::new(&world, &["--settings", named.to_str().unwrap()]);
    wait_for_refusal(&world, true);
    fs::remove_file(&named).unwrap();
    run.wait_for("is gone");
    wait_for_refusal(&world, true);
    world.settings(r#"{"permissions": {"allow": ["bash(ls *)"]}}"#);
    run.wait_for("allow bash(ls *)");
    wait_for_refusal(&world, true);
    // The file exists again, with other contents.
    fs::write(&named, "{}").unwrap();
    run.wait_for("gone: rule");
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        warning: the settings file [T]/named.json is gone: its last contents still apply
        warning: settings changed; these changes would loosen this run and wait for the next run:
          new: rule `allow bash(ls *)`
        warning: settings changed; these changes would loosen this run and wait for the next run:
          gone: rule `deny read(./a.txt)`
        error: the run was aborted
    "#]]);
}

/// Trust records that cannot be read decide nothing: the trusted contents stay in force.
#[test]
fn s2_hot_reload_with_unreadable_trust_records() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("project/.cotter/settings.json", DENY);
    trust(&world);
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, true);
    let records = world.path("home/.local/share/cotter/trust/trust.json");
    let text = fs::read_to_string(&records).unwrap();
    // By one rename: a file that is being written may be read while it is empty.
    let replace = |text: &str| {
        let new = records.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &records).unwrap();
    };
    replace("{");
    run.wait_for("trust.json");
    wait_for_refusal(&world, true);
    fs::remove_file(&records).unwrap();
    wait_for_refusal(&world, true);
    replace(&text);
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        warning: nothing of [T]/project/.agents runs: [T]/home/.local/share/cotter/trust/trust.json is broken (EOF while parsing an object at line 1 column 1), so its records are ignored
        warning: nothing of [T]/project/.claude runs: [T]/home/.local/share/cotter/trust/trust.json is broken (EOF while parsing an object at line 1 column 1), so its records are ignored
        warning: nothing of [T]/project/.claude/settings.local.json runs: [T]/home/.local/share/cotter/trust/trust.json is broken (EOF while parsing an object at line 1 column 1), so its records are ignored
        warning: nothing of [T]/project/.cotter runs: [T]/home/.local/share/cotter/trust/trust.json is broken (EOF while parsing an object at line 1 column 1), so its records are ignored
        warning: nothing of [T]/project/.mcp.json runs: [T]/home/.local/share/cotter/trust/trust.json is broken (EOF while parsing an object at line 1 column 1), so its records are ignored
        warning: settings changed; these changes would loosen this run and wait for the next run:
          gone: rule `deny read(./a.txt)`
        warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
        error: the run was aborted
    "#]]);
}

const HOOK: &str = r#"{"hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [
    {"type": "command", "command": "echo not this one >&2; exit 2"}]}]}}"#;

/// The contents of a trusted `.claude` stay in force after any change; additions wait for trust.
#[test]
fn s2_s6_hot_reload_of_a_claude_folder() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("project/.claude/settings.json", "{}");
    trust(&world);
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, false);
    world.write("project/.claude/settings.json", HOOK);
    run.wait_for("changed since it was trusted");
    wait_for_refusal(&world, false);
    trust(&world);
    wait_for_refusal(&world, true);
    world.wait_for_session("not this one");
    world.write("project/.claude/settings.json", "{}");
    world.wait_for_session("`cotter trust` shows the difference");
    let said = || fs::read_to_string(world.path("said")).unwrap();
    wait_until(
        || said().matches("changed since it was trusted: its rules").count() == 2,
        "it is told again",
    );
    wait_for_refusal(&world, true);
    fs::remove_dir_all(world.path("project/.claude")).unwrap();
    run.wait_for("and is gone");
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        warning: [T]/project/.claude changed since it was trusted: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter trust` shows how it changed)
        warning: [T]/project/.claude changed since it was trusted: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter trust` shows how it changed)
        warning: [T]/project/.claude was trusted, and is gone: its rules still apply, its hooks block every call that they match until it is trusted again, nothing else of it runs (`cotter untrust` removes the trust)
        error: the run was aborted
    "#]]);
}

/// A gate that a plugin adds is in force at once. A gate that it removes or breaks stays.
#[test]
fn s2_hot_reload_of_a_plugin_named_in_settings() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("plugins/depot/.claude-plugin/plugin.json", r#"{"name": "depot"}"#);
    let folder = world.path("plugins/depot");
    world.settings(&format!(r#"{{"plugins": [{folder:?}]}}"#));
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, false);
    // The hook is named after its file, because a digest would include the path of the plugin.
    world.write("plugins/depot/hooks/guard.sh", "echo not this one >&2; exit 2");
    let guard = "sh ${CLAUDE_PLUGIN_ROOT}/hooks/guard.sh";
    let hook = HOOK.replace("echo not this one >&2; exit 2", guard);
    world.write("plugins/depot/hooks/hooks.json", hook);
    run.wait_for("new: answer");
    wait_for_refusal(&world, true);
    world.write("plugins/depot/hooks/hooks.json", "{");
    run.wait_for("still apply");
    wait_for_refusal(&world, true);
    world.write("plugins/depot/hooks/hooks.json", "{}");
    run.wait_for("gone: gate");
    wait_for_refusal(&world, true);
    // The script is deleted too: the gate then refuses; it does not fail and pass.
    fs::remove_file(world.path("plugins/depot/hooks/guard.sh")).unwrap();
    let before = refusals(&world).len();
    wait_until(|| refusals(&world).len() > before + 4, "four calls more");
    assert!(refusals(&world).iter().skip(before + 1).all(|refused| *refused));
    run.end(expect![[r#"
        warning: settings changed; these changes would loosen this run and wait for the next run:
          new: answer `guard` at `permission.ask`
        warning: [T]/plugins/depot/hooks/hooks.json:1: object is not closed (a gate may be in it, so nothing runs: fix it, or remove it from `plugins` at [T]/home/.config/cotter/settings.json:1:14); the earlier settings still apply
        warning: settings changed; these changes would loosen this run and wait for the next run:
          gone: gate `guard` at `tool.pre` (runs `sh ${CLAUDE_PLUGIN_ROOT}/hooks/guard.sh` in a shell, its failure passes)
        error: the run was aborted
    "#]]);
}

/// A link inside a repository is not followed, and does not stop the watch of other files.
#[test]
fn s8_linked_project_folder_does_not_stop_the_watch() {
    let world = World::new().with_env("NO_COLOR", "1");
    std::os::unix::fs::symlink("/", world.path("project/.cotter")).unwrap();
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, false);
    world.settings(DENY);
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        warning: nothing of [T]/project/.cotter runs: [T]/project/.cotter is a link (name the folder or file that the link leads to)
        error: the run was aborted
    "#]]);
}

/// A person's own folder may be a link that gets a new target, or may be replaced by another folder.
#[test]
fn hot_reload_of_a_replaced_config_folder() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.write("dotfiles/one/settings.json", "{}");
    world.write("dotfiles/two/settings.json", DENY);
    fs::create_dir_all(world.path("home/.config")).unwrap();
    let link = world.path("home/.config/cotter");
    std::os::unix::fs::symlink(world.path("dotfiles/one"), &link).unwrap();
    let run = Running::new(&world, &[]);
    wait_for_refusal(&world, false);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(world.path("dotfiles/two"), &link).unwrap();
    wait_for_refusal(&world, true);
    run.end(expect![[r#"
        error: the run was aborted
    "#]]);
}

/// The trusted contents run, even if files are swapped, added beside them or put earlier in the search path.
#[test]
fn s6_s7_trusted_hook_runs_unchanged_despite_swapped_or_added_files() {
    let world = World::new().with_env("NO_COLOR", "1");
    let evil = |name: &str, text: &str| {
        let path = world.write_executable(name, text);
        path.parent().unwrap().to_str().unwrap().to_owned()
    };
    let bin = evil("project/bin/python3", "#!/bin/sh\necho put before it >&2; exit 1\n");
    evil("project/python3", "#!/bin/sh\necho put before it >&2; exit 1\n");
    let modules = evil("project/modules/json.py", "raise SystemExit('slipped in')\n");
    let started = evil("project/start/up.sh", "echo slipped in >&2; exit 1\n");
    let path = format!("{bin}:.:/usr/bin:/bin");
    let world = world
        .with_env("PATH", &path)
        .with_env("PYTHONPATH", &modules)
        .with_env("BASH_ENV", format!("{started}/up.sh"))
        .with_env("ENV", format!("{started}/up.sh"));
    let settings = r#"{"hooks": {"tool.pre": [
        {"tools": ["read"], "command": ["python3", "hooks/check.py"], "timeoutMs": 60000},
        {"tools": ["read"], "command": ["bash", "hooks/pass.sh"], "timeoutMs": 60000}
    ]}}"#;
    let check = "import json, sys\nfrom words import WORDS\nsys.exit(WORDS)\n";
    world.write("project/.cotter/settings.json", settings);
    world.write("project/.cotter/hooks/check.py", check);
    world.write("project/.cotter/hooks/words.py", "WORDS = 'as it was trusted'\n");
    world.write("project/.cotter/hooks/pass.sh", "exit 0\n");
    trust(&world);
    let run = Running::new(&world, &[]);
    world.wait_for_session("as it was trusted");
    world.write("project/.cotter/hooks/words.py", "WORDS = 'swapped'\n");
    world.write("project/.cotter/hooks/json.py", "raise SystemExit('slipped in')\n");
    run.wait_for("changed since it was trusted");
    wait_for_refusal(&world, true);
    let session = fs::read_to_string(world.session_file()).unwrap();
    for words in ["swapped", "slipped in", "put before it"] {
        assert!(!session.contains(words), "{words}: {session}");
    }
    run.end(expect![[r#"
        warning: [T]/project/.cotter changed since it was trusted: its trusted hooks and rules still apply, nothing else of it runs (`cotter trust` shows how it changed)
        error: the run was aborted
    "#]]);
}

/// A gate that changes in any property that decides its verdicts does not replace the earlier gate.
#[test]
fn s2_b3_gate_that_changed_in_any_property_stays_in_force() {
    const OWN: &str = "home/.config/cotter/settings.json";
    const CLAUDE: &str = "home/.claude/settings.json";
    let theirs = |entry: &str, matcher: &str| {
        format!(
            r#"{{"hooks": {{"PreToolUse": [{{"matcher": "{matcher}", "hooks": [{{"type": "command", {entry}}}]}}]}}}}"#
        )
    };
    let ours =
        |entry: &str| format!(r#"{{"hooks": {{"tool.pre": [{{"name": "guard", {entry}}}]}}}}"#);
    let home = r#"{"claude": {"home": true}}"#.to_owned();
    let strict = r#"{"claude": {"home": true}, "claudeHooks": {"onFailure": "block"}}"#.to_owned();
    let shown = |words: &str| format!(r#""command": "{words} # guard""#);
    let fails = shown("exit 1");
    let given = r#""command": "test -z $LANG", "env": ["LANG"]"#;
    let late = r#""command": "sleep 1; exit 1", "onFailure": "pass""#;
    for (what, path, before, after) in [
        ("command", CLAUDE, theirs(&shown("exit 2"), "Read"), theirs(&shown("exit 0"), "Read")),
        ("matcher", CLAUDE, theirs(&shown("exit 2"), "Re.*"), theirs(&shown("exit 2"), "Zz.*")),
        (
            "if",
            CLAUDE,
            theirs(&shown("exit 2"), "Read"),
            theirs(&format!("{}, \"if\": \"Bash(no *)\"", shown("exit 2")), "Read"),
        ),
        (
            "limit",
            CLAUDE,
            theirs(&shown("sleep 0.2; exit 2"), "Read"),
            theirs(&format!("{}, \"timeout\": 0.001", shown("sleep 0.2; exit 2")), "Read"),
        ),
        ("failure", OWN, strict, home.clone()),
        ("environment", OWN, ours(given), ours(r#""command": "test -z $LANG""#)),
        ("our limit", OWN, ours(late), ours(&format!("{late}, \"timeoutMs\": 1"))),
    ] {
        let world = World::new().with_env("NO_COLOR", "1").with_env("LANG", "C");
        world.write(OWN, &home);
        world.write(CLAUDE, theirs(&fails, if what == "failure" { "Read" } else { "No" }));
        world.write(path, &before);
        let run = Running::new(&world, &[]);
        wait_for_refusal(&world, true);
        world.write(path, &after);
        run.wait_for("loosen this run");
        let before = refusals(&world).len();
        wait_until(|| refusals(&world).len() > before + 3, "three calls more");
        let later = refusals(&world).split_off(before + 1);
        assert!(later.iter().all(|refused| *refused), "{what}: {later:?}");
        run.end_quietly();
    }
}
