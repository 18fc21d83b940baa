//! Looks at a run that is not started: `hooks list`, `hooks test` and `explain` with the flags that decide
//! what a run has.

use expect_test::{Expect, expect};

use crate::{
    spaces::{OWN, at_terminal},
    support::World,
};

/// Creates a person with a space that guards `etc`, a profile that asks, and a settings file for
/// `--settings`.
fn world() -> World {
    let world = World::new().with_env("NO_COLOR", "1").with_env("PATH", "/usr/bin:/bin");
    world
        .write("guards/manifest.json", r#"{"id": "guards", "name": "Guards", "version": "1.0.0"}"#);
    world.write("guards/hooks/keep-etc.yaml", "id: keep-etc\nphase: pre\ntools: [write]\n");
    let script =
        "#!/bin/sh\ngrep -q etc && echo '{\"Blocked\": true, \"Reason\": \"not in etc\"}'\n";
    world.write_executable("guards/hooks/keep-etc.sh", script);
    at_terminal(&world, &["spaces", "add", "../guards"], "y");
    assert!(world.path(&format!("{OWN}/guards/manifest.json")).exists());
    world.write(
        "home/.config/cotter/agents/careful/agent.json",
        r#"{"hooks": {"onToolCall": [{"action": "approve", "tools": ["write"]}]}, "policies": ["bash(rm *)"]}"#,
    );
    world.write(
        "strict.json",
        r#"{"permissions": {"deny": ["bash(make *)"]}, "hooks": {"tool.pre": [{"name": "strict", "tools": ["bash"], "command": "exit 2"}]}}"#,
    );
    world
}

fn check(args: &[&str], expected: Expect) {
    world().check(args, expected);
}

#[test]
fn l8_hooks_list_takes_the_flags_of_a_run() {
    check(
        &[
            "hooks",
            "list",
            "--space",
            "guards",
            "--agent",
            "careful",
            "--settings",
            "../strict.json",
        ],
        expect![[r#"
            exit 0
            --- stdout
            strict                tool.pre            transform, gate  (user)  for bash
            keep-etc              tool.pre            gate             (space:guards)  for write
            onToolCall.approve    tool.pre            gate             (profile:careful)  for write  Asks a person before the tool runs.
            project-roots         tool.pre            gate             (kernel)  Blocks calls that read outside the roots or write outside the project.
            system-directories    tool.pre            gate             (kernel)  Blocks calls that write to system directories, such as /etc, /usr and /dev.
            own-files             tool.pre            gate             (kernel)  Blocks calls that touch closed files, such as settings, keys and sessions; asks if a command could reach them through a folder that contains them.
            protected-paths       tool.pre            gate             (kernel)  Asks before a file is written that decides what runs later, such as .git/hooks.
            destructive-commands  tool.pre            gate             (kernel)  Asks before a call destroys data that cannot be restored.
            not-understood        tool.pre            gate             (kernel)  Asks if the effects of a call are not known beforehand.
            secret-then-network   tool.pre            gate             (kernel)  After a secret was read, asks before anything reaches beyond this machine.
            secret-reads          tool.pre            observe          (kernel)
            background            session.close       observe          (embedder)  Ends background processes with their session.
            background-news       model.pre           observe          (embedder)  Reports unapproved changes by background processes.
            background-end        session.end         observe          (embedder)  Reports unapproved changes by background processes.
            background-approvals  tool.post           observe          (embedder)  for write, edit, bash, bash_background  Records the protected paths that a call was approved to write.
            AskUser               user.prompt.submit  transform        (embedder)
            Delegate              user.prompt.submit  transform        (embedder)
            Memory                user.prompt.submit  transform        (embedder)
        "#]],
    );
    check(
        &["hooks", "list", "--settings", "../strict.json", "--without", "strict"],
        expect![[r#"
            exit 0
            --- stdout
            strict                tool.pre            transform, gate  (user)  for bash  switched off
            project-roots         tool.pre            gate             (kernel)  Blocks calls that read outside the roots or write outside the project.
            system-directories    tool.pre            gate             (kernel)  Blocks calls that write to system directories, such as /etc, /usr and /dev.
            own-files             tool.pre            gate             (kernel)  Blocks calls that touch closed files, such as settings, keys and sessions; asks if a command could reach them through a folder that contains them.
            protected-paths       tool.pre            gate             (kernel)  Asks before a file is written that decides what runs later, such as .git/hooks.
            destructive-commands  tool.pre            gate             (kernel)  Asks before a call destroys data that cannot be restored.
            not-understood        tool.pre            gate             (kernel)  Asks if the effects of a call are not known beforehand.
            secret-then-network   tool.pre            gate             (kernel)  After a secret was read, asks before anything reaches beyond this machine.
            secret-reads          tool.pre            observe          (kernel)
            background            session.close       observe          (embedder)  Ends background processes with their session.
            background-news       model.pre           observe          (embedder)  Reports unapproved changes by background processes.
            background-end        session.end         observe          (embedder)  Reports unapproved changes by background processes.
            background-approvals  tool.post           observe          (embedder)  for write, edit, bash, bash_background  Records the protected paths that a call was approved to write.
            AskUser               user.prompt.submit  transform        (embedder)
            Delegate              user.prompt.submit  transform        (embedder)
            Memory                user.prompt.submit  transform        (embedder)
        "#]],
    );
    check(
        &["hooks", "list", "--space", "guard"],
        expect![[r#"
        exit 1
        --- stderr
        error: there is no space `guard`

        hint: did you mean `guards`?
    "#]],
    );
    check(
        &["hooks", "list", "--agent", "carefu"],
        expect![[r#"
        exit 2
        --- stderr
        error: there is no agent `carefu`

        hint: did you mean `careful`?
    "#]],
    );
    check(
        &["hooks", "list", "--without", "strict"],
        expect![[r#"
            exit 1
            --- stderr
            error: --without: no hook is named `strict`

            hint: `cotter hooks list` shows the hooks
        "#]],
    );
}

#[test]
fn l8_hooks_test_takes_the_flags_of_a_run() {
    let write = r#"{"path": "etc/a", "content": "x"}"#;
    let test = ["hooks", "test", "tool.pre", "--tool", "write", "--input", write];
    check(
        &[&test[..], &["--space", "guards", "--agent", "careful"]].concat(),
        expect![[r#"
        exit 3
        --- stdout
        tool.pre write {"path":"etc/a","content":"x"}
        block: not in etc
        decided by keep-etc

          keep-etc            (space:guards)     gate       block in N ms: not in etc
          onToolCall.approve  (profile:careful)  gate       ask in N ms: the profile `careful` wants a person to approve this
    "#]],
    );
    check(
        &[&test[..], &["--safe-mode"]].concat(),
        expect![[r#"
        exit 0
        --- stdout
        tool.pre write {"path":"etc/a","content":"x"}
        pass
        no hook is at this point
    "#]],
    );
}

#[test]
fn l8_explain_takes_the_flags_of_a_run() {
    check(
        &["explain", "bash", "rm a.txt", "--agent", "careful"],
        expect![[r#"
            exit 3
            --- stdout
            bash {"command":"rm a.txt"}
            block: the rule `deny bash(rm *)` denies it
            decided by rule deny bash(rm *)

              runs      rm a.txt  (workspace)
              writes    [T]/project/a.txt
              zone      workspace, confined

              scope     scope                                  pass
              schema    schema                                 pass
              kernel    project-roots                          pass
              kernel    system-directories                     pass
              kernel    own-files                              pass
              kernel    protected-paths                        pass
              kernel    destructive-commands                   ask    `rm a.txt` deletes a file
              kernel    not-understood                         pass
              kernel    secret-then-network                    pass
              rule      deny bash(rm *)                        block  the rule denies  (profile:careful)
              zone      workspace at level standard, confined  pass
              mode      ask                                    pass
        "#]],
    );
    check(
        &["explain", "bash", "make all", "--settings", "../strict.json"],
        expect![[r#"
            exit 3
            --- stdout
            bash {"command":"make all"}
            block: the rule `deny bash(make *)` denies it
            decided by rule deny bash(make *)

              runs      make all  (build)
              zone      build, confined

              scope     scope                              pass
              schema    schema                             pass
              transform strict                             would be asked   (user)
              kernel    project-roots                      pass
              kernel    system-directories                 pass
              kernel    own-files                          pass
              kernel    protected-paths                    pass
              kernel    destructive-commands               pass
              kernel    not-understood                     pass
              kernel    secret-then-network                pass
              rule      deny bash(make *)                  block  the rule denies  (user)
              zone      build at level standard, confined  pass
              mode      ask                                pass
        "#]],
    );
    check(
        &["explain", "bash", "touch a", "--permission-mode", "plan"],
        expect![[r#"
            exit 3
            --- stdout
            bash {"command":"touch a"}
            block: mode `plan` allows only safe calls
            decided by mode

              runs      touch a  (workspace)
              writes    [T]/project/a
              zone      workspace, confined

              scope     scope                                  pass
              schema    schema                                 pass
              kernel    project-roots                          pass
              kernel    system-directories                     pass
              kernel    own-files                              pass
              kernel    protected-paths                        pass
              kernel    destructive-commands                   pass
              kernel    not-understood                         pass
              kernel    secret-then-network                    pass
              zone      workspace at level standard, confined  pass
              mode      plan                                   block  mode `plan` allows only safe calls
        "#]],
    );
    check(
        &[
            "explain",
            "write",
            r#"{"path": "etc/a", "content": "x"}"#,
            "--space",
            "guards",
            "--run-hooks",
        ],
        expect![[r#"
            exit 3
            --- stdout
            write {"path":"etc/a","content":"x"}
            block: not in etc
            decided by keep-etc

              writes    [T]/project/etc/a
              zone      workspace

              scope     scope                        pass
              schema    schema                       pass
              kernel    project-roots                pass
              kernel    system-directories           pass
              kernel    own-files                    pass
              kernel    protected-paths              pass
              kernel    destructive-commands         pass
              kernel    not-understood               pass
              kernel    secret-then-network          pass
              gate      keep-etc                     block  not in etc  (space:guards)
              zone      workspace at level standard  pass
              mode      ask                          pass
        "#]],
    );
}
