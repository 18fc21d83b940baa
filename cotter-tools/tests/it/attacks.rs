//! Attacks of an agent or a repository against the floor. Each of these once worked.

use std::{fs, path::Path, process::Command};

use cotter::{
    Tool,
    permission::{Zone, facts::Facts},
};
use cotter_tools::{bash::Bash, confine::Sandbox};
use serde_json::json;

use crate::machine::{Scratch, bash_result, runner};

fn git(folder: &Path, words: &[&str]) {
    let done = Command::new("git").arg("-C").arg(folder).args(words).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A repository with a file in it, and these settings.
fn repository(folder: &Path, settings: &[(&str, &str)]) {
    fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "-q"]);
    fs::write(folder.join("a.txt"), "a").unwrap();
    settings.iter().for_each(|(name, value)| git(folder, &["config", name, value]));
}

fn facts(scratch: &Scratch, command: &str) -> Facts {
    let bash = Bash::new(runner().with_sandbox(Sandbox::Off));
    bash.effects(&json!({"command": command}), &scratch.workspace())
}

#[tokio::test]
async fn s12_unasked_git_command_runs_no_program_of_the_repository() {
    let scratch = Scratch::new();
    let program = "touch ran; false";
    repository(&scratch.path(), &[("core.fsmonitor", program), ("core.editor", program)]);
    let hook = scratch.path().join(".git/hooks/post-index-change");
    fs::write(&hook, "#!/bin/sh\ntouch ran\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&hook).status().unwrap().success());
    let command = "git add a.txt; git mv a.txt b.txt; git branch --edit-description";
    assert_eq!(facts(&scratch, command).zone, Zone::Workspace);
    let said = bash_result(runner().with_sandbox(Sandbox::Off), scratch.workspace(), command).await;
    assert!(!scratch.path().join("ran").exists(), "{said}");
}

#[test]
fn s12_git_in_a_repository_with_filters_is_in_zone_build() {
    let scratch = Scratch::new();
    repository(&scratch.path(), &[]);
    repository(&scratch.path().join("sub"), &[("filter.x.clean", "touch ran")]);
    let check = |command: &str, zone: Zone| {
        let facts = facts(&scratch, command);
        assert_eq!(facts.zone, zone, "{command}");
        // A rule about `ls` must not answer for the rest.
        let git = facts.commands.iter().find(|command| command.to_string().starts_with("git"));
        assert_eq!(git.map(|git| git.zone), Some(zone), "{command}");
    };
    check("ls; git status", Zone::Safe);
    check("git add a.txt", Zone::Workspace);
    check("ls; cd sub && git status", Zone::Build);
    check("git -C sub add a.txt", Zone::Build);
    git(&scratch.path(), &["config", "diff.x.textconv", "touch ran"]);
    check("ls; git status", Zone::Build);
    check("git stash", Zone::Build);
}

#[test]
fn s12_settings_of_submodules_decide_the_zone_of_git() {
    let scratch = Scratch::new();
    repository(&scratch.path(), &[]);
    let module = scratch.path().join(".git/modules/inner");
    fs::create_dir_all(&module).unwrap();
    fs::write(module.join("config"), "[core]\n\tbare = false\n").unwrap();
    assert_eq!(facts(&scratch, "git status").zone, Zone::Safe);
    fs::write(module.join("config"), "[core]\n\tfsmonitor = touch ran\n").unwrap();
    assert_eq!(facts(&scratch, "git status").zone, Zone::Build);
}
