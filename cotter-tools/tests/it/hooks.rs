//! Command hooks as real processes: whatever a program does, its call has an outcome, and nothing of it is
//! left.

use std::{ffi::OsString, fmt::Write, fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use cotter::{
    Agent, FnTool, Origin, Owner, Registry, Session, ToolSpec, Workspace,
    permission::{Zone, facts::Facts},
};
use cotter_files::{
    command_hook::{self, HookHost, HookLocation, entry::CommandHook},
    document::Document,
};
use cotter_test::{ScriptedModel, Step, transcript};
use cotter_tools::{confine::Sandbox, hooks::HookRunner, process::Runner};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::machine::{Scratch, alive, pid_in, runner, wait_until_gone};

/// A project, and a folder beside it that declares hooks.
struct Machine {
    scratch: Scratch,
    runner: Runner,
    variables: Vec<(OsString, OsString)>,
}

impl Machine {
    fn new() -> Self {
        let scratch = Scratch::new();
        for name in ["project/.git", "hooks", "closed", "temp"] {
            fs::create_dir_all(scratch.path().join(name)).unwrap();
        }
        let runner = runner().with_temp_below(&scratch.path().join("temp"));
        let path = std::env::var_os("PATH").unwrap();
        Machine { scratch, runner, variables: vec![("PATH".into(), path)] }
    }

    fn hook_runner(&self) -> HookRunner {
        HookRunner::new(self.runner.clone(), self.variables.clone())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A program in the folder that declares hooks.
    fn program(&self, name: &str, text: &str) -> &Self {
        let path = self.path("hooks").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// An agent that calls `work` with each of these inputs, one a step, with a hook at `tool.pre`.
    async fn agent(&self, who: &Owner, entry: &Value, inputs: &[Value]) -> (Agent, Session) {
        let workspace = Workspace::new(&self.path("project")).with_closed([self.path("closed")]);
        self.agent_in(workspace, self.path("hooks"), who, entry, inputs).await
    }

    /// Like `agent`, in another folder.
    async fn agent_in(
        &self,
        workspace: Workspace,
        folder: PathBuf,
        who: &Owner,
        entry: &Value,
        inputs: &[Value],
    ) -> (Agent, Session) {
        let spec = ToolSpec::new("work", "works", json!({"type": "object"}));
        let work = FnTool::new(spec, |_| async { Ok("worked".into()) });
        let calls = inputs.iter().map(|input| Step::call("work", input.clone()));
        let agent = Agent::builder(ScriptedModel::new(calls.chain([Step::text("done")])))
            .workspace(workspace)
            .tool(work.with_facts(Facts::zone(Zone::Safe)))
            .build()
            .unwrap();
        let text = json!({"tool.pre": [entry]}).to_string();
        let document = Document::parse("settings.json", &text).unwrap();
        let hooks = CommandHook::read_all(document.root()).unwrap();
        let starts: Arc<dyn HookHost> =
            Arc::new(self.hook_runner().with_hidden(["ANTHROPIC_API_KEY".into()]));
        let base = HookLocation {
            folder,
            confined: command_hook::is_confined(who),
            host: starts,
            state: None,
        };
        let put = |unit: &mut Registry| command_hook::register_all(unit, &hooks, &base);
        agent.extend(who.clone(), put).unwrap();
        let session = agent.new_session().await.unwrap();
        (agent, session)
    }

    /// The outcome of calls with a hook before them: results and the model's messages.
    async fn calls(&self, who: &Owner, entry: &Value, inputs: &[Value]) -> String {
        let (_agent, session) = self.agent(who, entry, inputs).await;
        session.prompt("go").await.unwrap();
        self.shown(&session)
    }

    fn shown(&self, session: &Session) -> String {
        let said = transcript(session);
        let said = said.replace("<system-reminder>\n", "").replace("\n</system-reminder>", "");
        let adjust = ". Adjust your approach; do not retry the exact same call.";
        let said = said.replace(adjust, "").replace("Hook \"hook\" blocked the action: ", "");
        let said = said.replace(&*self.scratch.path().to_string_lossy(), "OUTSIDE");
        let mut shown = String::new();
        for line in said.lines().filter(|line| !line.is_empty()) {
            if !line.starts_with("user:") && !line.starts_with("call") && line != "assistant: done"
            {
                let _ = writeln!(shown, "{}", squeezed(line));
            }
        }
        shown
    }
}

/// Long runs of one character as their number.
fn squeezed(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    let runs = chars.chunk_by(|a, b| a == b);
    runs.map(|run| match run.len() {
        ..20 => run.iter().collect(),
        many => format!("{}{{{many}}}", run[0]),
    })
    .collect()
}

fn user() -> Owner {
    Owner::new(Origin::User, "settings.json")
}

fn project() -> Owner {
    Owner::new(Origin::Project, "settings.json")
}

fn hook(command: impl Into<Value>) -> Value {
    json!({"name": "hook", "command": command.into(), "timeoutMs": 60_000})
}

/// Compares the outcome of one call with a hook before it; it is equal for a person's hook and a
/// project's.
async fn check(machine: &Machine, command: impl Into<Value>, expected: Expect) {
    let (entry, input) = (hook(command), [json!({"n": 1})]);
    let [mine, theirs] = [user(), project()];
    let mine = machine.calls(&mine, &entry, &input).await;
    let theirs = machine.calls(&theirs, &entry, &input).await;
    let theirs = theirs.replace("hook \"hook\" of this project", "hook \"hook\"");
    expected.assert_eq(&mine);
    assert_eq!(theirs, mine, "a project's hook is like a person's");
}

#[tokio::test]
async fn l8_a_program_that_cannot_be_started_blocks() {
    let machine = Machine::new();
    machine.program("bad", "#!/nowhere/shell\n").program("bare", "echo {}\n");
    machine.program("plain", "#!/bin/sh\n").program("empty", "");
    fs::set_permissions(machine.path("hooks/plain"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(machine.path("hooks/folder")).unwrap();
    let check = async |command: &str, expected: Expect| check(&machine, command, expected).await;
    check("./missing", expect![[r#"
        result c1.1 (denied): cannot run OUTSIDE/hooks/./missing: No such file or directory (os error 2)
    "#]]).await;
    check(
        "./plain",
        expect![[r#"
        result c1.1 (denied): cannot run OUTSIDE/hooks/./plain: Permission denied (os error 13)
    "#]],
    )
    .await;
    check(
        "./bad",
        expect![[r#"
            result c1.1 (denied): cannot run OUTSIDE/hooks/./bad: No such file or directory (os error 2); its interpreter `/nowhere/shell` is not there
        "#]],
    )
    .await;
    check(
        "./bare",
        expect![[r#"
        result c1.1 (denied): cannot run OUTSIDE/hooks/./bare: Exec format error (os error 8)
    "#]],
    )
    .await;
    check(
        "./empty",
        expect![[r#"
        result c1.1 (denied): cannot run OUTSIDE/hooks/./empty: Exec format error (os error 8)
    "#]],
    )
    .await;
    check(
        "./folder",
        expect![[r#"
        result c1.1 (denied): cannot run OUTSIDE/hooks/./folder: Permission denied (os error 13)
    "#]],
    )
    .await;
    check(
        "no-such-program",
        expect![[r#"
        result c1.1 (denied): there is no program `no-such-program` in PATH
    "#]],
    )
    .await;
    check(
        "./missing && true",
        expect![[r#"
        result c1.1 (denied): /bin/sh: 1: ./missing: not found
    "#]],
    )
    .await;
}

#[tokio::test]
async fn l8_exit_code_or_signal_of_a_hook_decides() {
    let machine = Machine::new();
    let check = async |command: &str, expected: Expect| check(&machine, command, expected).await;
    check(
        "exit 0;",
        expect![[r#"
        result c1.1: worked
    "#]],
    )
    .await;
    check(
        "exit 1;",
        expect![[r#"
        result c1.1 (denied): hook hook exited with code 1
    "#]],
    )
    .await;
    check(
        "echo no prod >&2; exit 2",
        expect![[r#"
        result c1.1 (denied): no prod
    "#]],
    )
    .await;
    check(
        "exit 255;",
        expect![[r#"
        result c1.1 (denied): hook hook exited with code 255
    "#]],
    )
    .await;
    check(
        "kill -9 $$",
        expect![[r#"
            result c1.1 (denied): it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
        "#]],
    )
    .await;
    check(
        "kill -TERM $$",
        expect![[r#"
        result c1.1 (denied): it was ended by signal 15
    "#]],
    )
    .await;
}

#[tokio::test]
async fn l8_hook_output_is_a_note_or_a_verdict() {
    let machine = Machine::new();
    let check = async |command: &str, expected: Expect| check(&machine, command, expected).await;
    check(
        "echo fine",
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": fine
    "#]],
    )
    .await;
    check(
        "printf '\\377fine'",
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": �fine
    "#]],
    )
    .await;
    check(
        "printf '{\"reason\": \"\\377\"}'",
        expect![[r#"
            result c1.1 (denied): its output begins with `{` and is not JSON: invalid unicode code point at line 1 column 13
        "#]],
    )
    .await;
    check("printf '{\"continue\": fal'", expect![[r#"
        result c1.1 (denied): its output begins with `{` and is not JSON: EOF while parsing a value at line 1 column 16
    "#]]).await;
    check(
        "echo '{}'; echo '{\"continue\": false}'",
        expect![[r#"
        result c1.1 (denied): its output contains a refusal, although it is not valid as a whole
    "#]],
    )
    .await;
    check(
        "echo ' {\"continue\": false, \"reason\": \"no\"} '",
        expect![[r#"
        result c1.1 (denied): no
    "#]],
    )
    .await;
    check(
        "echo '[1]'",
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": [1]
    "#]],
    )
    .await;
    check(
        "echo '{\"a\": 1, \"a\": 2, \"continue\": \"no\"}'",
        expect![[r#"
            result c1.1 (denied): its output begins with `{` and is not JSON: duplicate key `a` at line 1 column 15
        "#]],
    )
    .await;
    check(
        "head -c 1048576 /dev/zero | tr '\\0' x",
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": x{16384}… [1032192 bytes left out]
    "#]],
    )
    .await;
    check(
        "head -c 100000000 /dev/zero | tr '\\0' x",
        expect![[r#"
            result c1.1 (denied): its output is longer than 1048576 bytes
        "#]],
    )
    .await;
    check(
        "head -c 10000000 /dev/zero | tr '\\0' e >&2; exit 1",
        expect![[r#"
        result c1.1 (denied): e{3999}…
    "#]],
    )
    .await;
    check(
        "head -c 10000000 /dev/zero | tr '\\0' e >&2; echo ok",
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": ok
    "#]],
    )
    .await;
    check(
        "exec >&-; exec 2>&-",
        expect![[r#"
        result c1.1: worked
    "#]],
    )
    .await;
}

/// The keys of another dialect, or misspelled ones, may have been meant as a refusal.
#[tokio::test]
async fn l8_answer_without_a_known_key_is_a_failure() {
    let machine = Machine::new();
    let check = async |answer: &str, expected: Expect| {
        check(&machine, format!("echo '{answer}'"), expected).await;
    };
    check(
        "{}",
        expect![[r#"
        result c1.1: worked
    "#]],
    )
    .await;
    check(
        r#"{"verdict": "no thanks"}"#,
        expect![[r#"
        result c1.1 (denied): its answer has no known key, only `verdict`
    "#]],
    )
    .await;
    check(
        r#"{"status": "ok", "code": 1}"#,
        expect![[r#"
        result c1.1 (denied): its answer has no known key, only `status`, `code`
    "#]],
    )
    .await;
    check(
        r#"{"status": "ok", "continue": true}"#,
        expect![[r#"
        result c1.1: worked
    "#]],
    )
    .await;
    check(
        r#"{"blocked": true}"#,
        expect![[r#"
        result c1.1 (denied): it gave no reason
    "#]],
    )
    .await;
    let entry = json!({"name": "hook", "command": "echo '{\"verdict\": 1}'", "onFailure": "pass"});
    expect![[r#"
        result c1.1: worked
    "#]]
    .assert_eq(&machine.calls(&user(), &entry, &[json!({})]).await);
}

/// Large input works for hooks that read it and for hooks that do not.
#[tokio::test]
async fn l8_hook_gets_ten_megabytes_of_input() {
    let machine = Machine::new();
    let input = [json!({"text": "x".repeat(10 * 1024 * 1024)})];
    let mut shown = String::new();
    for command in ["cat > /dev/null; echo read", "exec 0<&-; echo closed", "true", "head -c 20;"] {
        for who in [user(), project()] {
            let _ = writeln!(shown, "{}: {command}", who.origin);
            shown += &machine.calls(&who, &hook(command), &input).await;
        }
    }
    let size = machine.calls(&user(), &hook("wc -c;"), &input).await;
    let size: usize = size.lines().find_map(|line| line.rsplit_once(": ")?.1.parse().ok()).unwrap();
    assert!(size > 10 * 1024 * 1024);
    expect![[r#"
        user: cat > /dev/null; echo read
        result c1.1: worked
        note: Output of hook "hook": read
        project: cat > /dev/null; echo read
        result c1.1: worked
        note: Output of hook "hook" of this project: read
        user: exec 0<&-; echo closed
        result c1.1: worked
        note: Output of hook "hook": closed
        project: exec 0<&-; echo closed
        result c1.1: worked
        note: Output of hook "hook" of this project: closed
        user: true
        result c1.1: worked
        project: true
        result c1.1: worked
        user: head -c 20;
        result c1.1 (denied): its output begins with `{` and is not JSON: EOF while parsing a string at line 1 column 20
        project: head -c 20;
        result c1.1 (denied): its output begins with `{` and is not JSON: EOF while parsing a string at line 1 column 20
    "#]].assert_eq(&shown);
}

#[tokio::test]
async fn s17_children_in_the_hooks_process_group_end_with_it() {
    let mut shown = String::new();
    for who in [user(), project()] {
        let machine = Machine::new();
        let pid = machine.path("project/pid");
        let leaves = format!("sleep 1000 & echo $! > {}; exit 0", pid.display());
        shown += &machine.calls(&who, &hook(leaves), &[json!({})]).await;
        wait_until_gone(pid_in(&pid).await).await;
    }
    expect![[r#"
        result c1.1: worked
        result c1.1: worked
    "#]]
    .assert_eq(&shown);
}

/// A process that tries to stay behind is ended too: a project's at once, a person's a moment later
/// or when the runner is dropped.
#[tokio::test]
async fn s1_s17_children_that_left_the_hooks_process_group_end_too() {
    let mut shown = String::new();
    for (who, serve) in [(user(), false), (project(), false), (user(), true), (project(), true)] {
        let machine = Machine::new();
        let pid = machine.path("project/pid");
        let file = pid.display();
        let leaves = format!(
            "setsid sh -c 'echo $$ > {file}; exec sleep 1000 > /dev/null 2>&1' & \
             until [ -s {file} ]; do :; done"
        );
        let mut entry = hook(leaves);
        entry["serve"] = serve.into();
        let (agent, session) = machine.agent(&who, &entry, &[json!({})]).await;
        session.prompt("go").await.unwrap();
        shown += &machine.shown(&session);
        wait_until_gone(pid_in(&pid).await).await;
        // The same at the very end.
        drop((session, agent));
        fs::remove_file(&pid).unwrap();
        machine.calls(&who, &entry, &[json!({})]).await;
        wait_until_gone(pid_in(&pid).await).await;
    }
    expect![[r#"
        result c1.1: worked
        result c1.1: worked
        result c1.1 (denied): it has ended: it wrote nothing to stderr
        result c1.1 (denied): it has ended: it wrote nothing to stderr
    "#]]
    .assert_eq(&shown);
}

/// A child that left the process group and never stops writing does not keep the hook open.
#[tokio::test]
async fn s17_output_of_a_detached_child_does_not_delay_the_hook() {
    let mut shown = String::new();
    for who in [user(), project()] {
        let machine = Machine::new();
        let pid = machine.path("project/pid");
        let file = pid.display();
        let talks = format!(
            "setsid sh -c 'echo $$ > {file}; exec yes' >&2 & until [ -s {file} ]; do :; done"
        );
        shown += &machine.calls(&who, &hook(talks), &[json!({})]).await;
        wait_until_gone(pid_in(&pid).await).await;
    }
    expect![[r#"
        result c1.1: worked
        result c1.1: worked
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn l7_hook_that_exceeds_its_timeout_is_killed_and_blocks() {
    let mut shown = String::new();
    for who in [user(), project()] {
        let machine = Machine::new();
        let pid = machine.path("project/pid");
        let entry = json!({
            "name": "hook",
            "command": format!("trap '' TERM INT; echo $$ > {}; exec sleep 1000", pid.display()),
            "timeoutMs": 500,
        });
        shown += &machine.calls(&who, &entry, &[json!({})]).await;
        wait_until_gone(pid_in(&pid).await).await;
        let passes = json!({
            "name": "hook", "command": "sleep 1000", "timeoutMs": 100, "onFailure": "pass",
        });
        shown += &machine.calls(&who, &passes, &[json!({})]).await;
    }
    expect![[r#"
        result c1.1 (denied): the hook timed out after 500ms
        result c1.1: worked
        result c1.1 (denied): the hook timed out after 500ms
        result c1.1: worked
    "#]]
    .assert_eq(&shown);
}

/// The last output of a late hook is in the message and in the record.
#[tokio::test]
async fn l7_timeout_report_quotes_the_last_output_of_the_hook() {
    let line = "for n in 1 2 3 4 5 6; do echo step $n >&2; done; exec sleep 1000";
    let late = |who: Owner, serve: bool, on_failure: &'static str| async move {
        let machine = Machine::new();
        let entry = json!({
            "name": "hook", "command": line, "timeoutMs": 3000, "serve": serve,
            "onFailure": on_failure,
        });
        let (agent, session) = machine.agent(&who, &entry, &[json!({})]).await;
        session.prompt("go").await.unwrap();
        let mut shown = machine.shown(&session);
        let lines = agent.store().lines(session.id()).unwrap();
        let rows = lines.iter().map(|line| serde_json::from_slice::<Value>(line).unwrap());
        for row in rows.filter(|row| row["type"] == "ledger") {
            let ran = &row["ran"][0];
            let why = if ran["stderr"].is_null() { &ran["reason"] } else { &ran["stderr"] };
            let _ = writeln!(shown, "{} {why}", ran["verdict"]);
        }
        shown
    };
    let (first, second, third, fourth) = tokio::join!(
        late(user(), false, "block"),
        late(project(), false, "pass"),
        late(user(), true, "pass"),
        late(project(), true, "block"),
    );
    expect![[r#"
        result c1.1 (denied): the hook timed out after 3s; its last output: step 2
        step 3
        step 4
        step 5
        step 6
        "timed_out" "step 1\nstep 2\nstep 3\nstep 4\nstep 5\nstep 6"
        result c1.1: worked
        "failed_passed" "it took longer than 3s; end of its standard error: step 2\nstep 3\nstep 4\nstep 5\nstep 6"
        result c1.1: worked
        "failed_passed" "it took longer than 3s; end of its standard error: step 2\nstep 3\nstep 4\nstep 5\nstep 6"
        result c1.1 (denied): the hook timed out after 3s; its last output: step 2
        step 3
        step 4
        step 5
        step 6
        "timed_out" "step 1\nstep 2\nstep 3\nstep 4\nstep 5\nstep 6"
    "#]]
    .assert_eq(&[first, second, third, fourth].concat());
}

#[tokio::test]
async fn s17_an_abort_during_a_hook_leaves_no_process() {
    for (who, serve) in [(user(), false), (project(), false), (user(), true), (project(), true)] {
        let machine = Machine::new();
        let pid = machine.path("project/pid");
        let waits = format!("echo $$ > {}; exec sleep 1000", pid.display());
        let mut entry = hook(waits);
        entry["serve"] = serve.into();
        let (agent, session) = machine.agent(&who, &entry, &[json!({})]).await;
        let task = tokio::spawn(async move { session.prompt("go").await });
        let pid = pid_in(&pid).await;
        assert!(alive(pid));
        task.abort();
        wait_until_gone(pid).await;
        drop(agent);
    }
}

#[tokio::test]
async fn s7_project_hook_gets_listed_variables_and_a_persons_hook_all_but_keys() {
    let mut machine = Machine::new();
    fs::create_dir(machine.path("project/bin")).unwrap();
    let path = format!("bin:.:{}:/usr/bin:/bin", machine.path("project/bin").display());
    machine.variables = [
        ("PATH", path.as_str()),
        ("HOME", "/home/me"),
        ("USER", "me"),
        ("LANG", "C"),
        ("LC_ALL", "C"),
        ("TZ", "UTC"),
        ("TERM", "dumb"),
        ("TMPDIR", "/tmp"),
        ("ANTHROPIC_API_KEY", "secret"),
        ("LD_PRELOAD", "x.so"),
        ("LD_LIBRARY_PATH", "."),
        ("BASH_ENV", "x"),
        ("ENV", "x"),
        ("BASH_FUNC_ls%%", "() { :; }"),
        ("PYTHONPATH", "."),
        ("PYTHONSTARTUP", "x"),
        ("NODE_OPTIONS", "-r x"),
        ("GIT_DIR", "/x"),
        ("DEPLOY_TOKEN", "named"),
        ("COTTER_CALL", "forged"),
        ("COTTER_PROJECT_DIR", "forged"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into();
    let mut entry = hook(json!(["/usr/bin/env"]));
    entry["env"] = json!(["DEPLOY_TOKEN", "NOT_SET"]);
    let mut shown = String::new();
    for who in [user(), project()] {
        let said = machine.calls(&who, &entry, &[json!({})]).await;
        let said = said.replace("\"hook\": ", "\"hook\":\n").replace("project: ", "project:\n");
        let masked = |line: &str| match line.split_once('=') {
            Some((name @ "COTTER_CALL", value)) if value != "forged" => format!("{name}=MARK\n"),
            Some((name @ ("TMPDIR" | "PYTHONPYCACHEPREFIX"), value))
                if value.starts_with("OUTSIDE/temp/") =>
            {
                format!("{name}=PRIVATE\n")
            }
            _ => format!("{line}\n"),
        };
        let mut lines: Vec<_> = said.lines().map(masked).collect();
        lines[2..].sort();
        shown += &lines.concat();
    }
    expect![[r#"
        result c1.1: worked
        note: Output of hook "hook":
        BASH_ENV=x
        BASH_FUNC_ls%%=() { :; }
        COTTER_CALL=MARK
        COTTER_PROJECT_DIR=OUTSIDE/project
        DEPLOY_TOKEN=named
        ENV=x
        GIT_DIR=/x
        HOME=/home/me
        LANG=C
        LC_ALL=C
        LD_LIBRARY_PATH=.
        LD_PRELOAD=x.so
        NODE_OPTIONS=-r x
        PATH=/usr/bin:/bin
        PYTHONPATH=.
        PYTHONSTARTUP=x
        TERM=dumb
        TMPDIR=/tmp
        TZ=UTC
        USER=me
        result c1.1: worked
        note: Output of hook "hook" of this project:
        COTTER_CALL=MARK
        COTTER_PROJECT_DIR=OUTSIDE/project
        DEPLOY_TOKEN=named
        HOME=/home/me
        LANG=C
        LC_MESSAGES=C
        PATH=/usr/bin:/bin
        PYTHONPYCACHEPREFIX=PRIVATE
        TERM=dumb
        TMPDIR=PRIVATE
        TZ=UTC
        USER=me
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn l8_plain_words_are_executed_directly_and_shell_syntax_by_sh() {
    let machine = Machine::new();
    machine.program("args", "#!/bin/sh\nprintf '%s,' \"$#\" \"$@\"\n");
    fs::write(machine.path("hooks/b.txt"), "").unwrap();
    let check = async |command: Value, expected: Expect| check(&machine, command, expected).await;
    check(
        json!("./args one   two"),
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": 2,one,two,
    "#]],
    )
    .await;
    check(
        json!("./args 'one two'"),
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": 1,one two,
    "#]],
    )
    .await;
    check(
        json!("./args *.txt"),
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": 1,b.txt,
    "#]],
    )
    .await;
    check(
        json!(["./args", "*.txt", "$HOME", "one two", ""]),
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": 4,*.txt,$HOME,one two,,
    "#]],
    )
    .await;
    // A shell that a line gets names itself; plain words have none.
    check(
        json!("./args $0"),
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": 1,/bin/sh,
    "#]],
    )
    .await;
}

/// Relative programs and files are meant from the folder that declares the hook.
#[tokio::test]
async fn l8_hook_starts_in_the_folder_that_declares_it() {
    let machine = Machine::new();
    machine.program("where", "#!/bin/sh\npwd; echo \"$COTTER_PROJECT_DIR\"; cat beside\n");
    fs::write(machine.path("hooks/beside"), "beside\n").unwrap();
    fs::write(machine.path("project/where"), "#!/bin/sh\necho the wrong one\n").unwrap();
    check(
        &machine,
        "./where",
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": OUTSIDE/hooks
        OUTSIDE/project
        beside
    "#]],
    )
    .await;
    check(
        &machine,
        "../hooks/where",
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": OUTSIDE/hooks
        OUTSIDE/project
        beside
    "#]],
    )
    .await;
}

/// A project's hook reads its own folder and works on the project, and that is all.
#[tokio::test]
async fn s1_s6_project_hook_runs_confined() {
    let machine = Machine::new();
    if let Some(why) = machine.runner.cannot_confine() {
        panic!("this machine cannot confine: {why}");
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tries = format!(
        r#"try() {{ if ( eval "$2" ) 2> /dev/null; then echo "$1: yes"; else echo "$1: no"; fi; }}
try 'reads its own folder' 'cat data > /dev/null'
try 'writes its own folder' 'echo x > new'
try 'reads the project' 'ls "$COTTER_PROJECT_DIR" > /dev/null'
try 'writes the project' 'echo x > "$COTTER_PROJECT_DIR/made"'
try 'writes into .git/hooks' 'mkdir -p "$COTTER_PROJECT_DIR/.git/hooks" && echo x > "$COTTER_PROJECT_DIR/.git/hooks/pre-commit"'
try 'writes to its temp folder' 'echo x > "$TMPDIR/x"'
try 'reads outside' 'cat ../outside > /dev/null'
try 'writes outside' 'echo x > ../outside'
try 'reads what is ours' 'cat ../closed/key > /dev/null'
try 'reaches the network' 'exec 3<> /dev/tcp/127.0.0.1/{port}'
exit 0
"#
    );
    let mut shown = String::new();
    for (who, sandbox) in
        [(project(), Sandbox::Auto), (project(), Sandbox::Off), (user(), Sandbox::Auto)]
    {
        let _ = writeln!(shown, "{} with sandbox {}", who.origin, sandbox.as_str());
        let mut machine = Machine::new();
        machine.runner = machine.runner.clone().with_sandbox(sandbox);
        fs::write(machine.path("hooks/data"), "own").unwrap();
        fs::write(machine.path("closed/key"), "secret").unwrap();
        fs::write(machine.path("outside"), "outside").unwrap();
        fs::create_dir(machine.path("own-temp")).unwrap();
        machine.variables.push(("TMPDIR".into(), machine.path("own-temp").into()));
        machine.program("tries", &format!("#!/bin/bash\n{tries}"));
        shown += &machine.calls(&who, &hook("./tries"), &[json!({})]).await;
    }
    expect![[r#"
        project with sandbox auto
        result c1.1: worked
        note: Output of hook "hook" of this project: reads its own folder: yes
        writes its own folder: no
        reads the project: yes
        writes the project: yes
        writes into .git/hooks: yes
        writes to its temp folder: yes
        reads outside: no
        writes outside: no
        reads what is ours: no
        reaches the network: no
        project with sandbox off
        result c1.1: worked
        note: Output of hook "hook" of this project: reads its own folder: yes
        writes its own folder: yes
        reads the project: yes
        writes the project: yes
        writes into .git/hooks: yes
        writes to its temp folder: yes
        reads outside: yes
        writes outside: yes
        reads what is ours: yes
        reaches the network: yes
        user with sandbox auto
        result c1.1: worked
        note: Output of hook "hook": reads its own folder: yes
        writes its own folder: yes
        reads the project: yes
        writes the project: yes
        writes into .git/hooks: yes
        writes to its temp folder: yes
        reads outside: yes
        writes outside: yes
        reads what is ours: yes
        reaches the network: yes
    "#]]
    .assert_eq(&shown);
}

/// Content that a project's hook writes to a protected path is removed afterwards. For a resident hook, the
/// person's own changes stay.
#[tokio::test]
async fn s15_project_hook_cannot_write_protected_paths() {
    let machine = Machine::new();
    let (made, hooks) = (machine.path("project/.envrc"), machine.path("project/.git/hooks"));
    let writes = "cd \"$COTTER_PROJECT_DIR\"; echo x > .envrc; mkdir -p .git/hooks; \
                  echo x > .git/hooks/pre-commit; echo wrote";
    let said = machine.calls(&project(), &hook(writes), &[json!({})]).await;
    expect![[r#"
        result c1.1: worked
        note: Output of hook "hook" of this project: wrote
    "#]]
    .assert_eq(&said);
    assert_eq!([made.exists(), hooks.join("pre-commit").exists()], [false, false]);

    machine.program("serves", &serves("echo \"{\\\"id\\\":$id}\""));
    let mut entry = hook("./serves");
    entry["serve"] = true.into();
    let (agent, session) = machine.agent(&project(), &entry, &[json!({})]).await;
    session.prompt("go").await.unwrap();
    fs::write(&made, "mine").unwrap();
    let pid = pid_in(&machine.path("project/started")).await;
    let minder = parent(pid);
    drop((agent, session));
    wait_until_gone(minder).await;
    assert_eq!(fs::read_to_string(&made).unwrap(), "mine");
}

/// The hook's own folder is inside a closed folder: trusted copies are in the data home.
#[tokio::test]
async fn s1_project_hook_reads_its_own_folder_inside_a_closed_folder() {
    let mut shown = String::new();
    for home in ["closed", "project/closed"] {
        let machine = Machine::new();
        let own = machine.path(home).join("store/abc");
        fs::create_dir_all(&own).unwrap();
        fs::write(machine.path(home).join("key"), "secret").unwrap();
        let workspace = Workspace::new(&machine.path("project")).with_closed([machine.path(home)]);
        let script = "#!/bin/sh\ncat data; cat ../../key 2> /dev/null || echo closed\n";
        fs::write(own.join("data"), "own\n").unwrap();
        fs::write(own.join("reads"), script).unwrap();
        fs::set_permissions(own.join("reads"), fs::Permissions::from_mode(0o755)).unwrap();
        let entry = hook("./reads");
        let (agent, session) =
            machine.agent_in(workspace, own, &project(), &entry, &[json!({})]).await;
        session.prompt("go").await.unwrap();
        let _ = writeln!(shown, "{home}");
        shown += &machine.shown(&session);
        drop(agent);
    }
    expect![[r#"
        closed
        result c1.1: worked
        note: Output of hook "hook" of this project: own
        closed
        project/closed
        result c1.1: worked
        note: Output of hook "hook" of this project: own
        closed
    "#]]
    .assert_eq(&shown);
}

/// A program that stays: what it does with each line, `$id` being the question's. It writes down that it
/// was started.
fn serves(body: &str) -> String {
    format!(
        "#!/bin/sh\necho $$ >> \"$COTTER_PROJECT_DIR/started\"\n\
         once() {{ [ ! -e \"$COTTER_PROJECT_DIR/once\" ] && touch \"$COTTER_PROJECT_DIR/once\"; }}\n\
         while read -r line; do\nid=${{line##*'\"id\":'}}; id=${{id%'}}'}}\n{body}\ndone\n"
    )
}

/// The number of the process that minds a program: its parent.
fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Compares the outcome of three calls with a resident hook and the number of its starts, and
/// checks that no process is left when the agent is gone.
async fn check_warm(body: &str, expected: Expect) {
    let mut shown = String::new();
    for who in [user(), project()] {
        let machine = Machine::new();
        machine.program("serves", &serves(body));
        let entry = json!({
            "name": "hook", "command": "./serves", "serve": true, "timeoutMs": 1000,
        });
        let inputs = [json!({"n": 1}), json!({"n": 2}), json!({"n": 3})];
        let (agent, session) = machine.agent(&who, &entry, &inputs).await;
        session.prompt("go").await.unwrap();
        let said = machine.shown(&session);
        let started = fs::read_to_string(machine.path("project/started")).unwrap();
        let said = said.replace(" of this project", "")
            + &format!("started {} times\n", started.lines().count());
        drop((agent, session));
        for pid in started.lines() {
            wait_until_gone(pid.parse().unwrap()).await;
        }
        match shown.is_empty() {
            true => shown = said,
            false => assert_eq!(said, shown, "a project's hook is like a person's"),
        }
    }
    expected.assert_eq(&shown);
}

#[tokio::test]
async fn s23_resident_hook_answers_many_events() {
    check_warm(
        r#"echo "{\"id\":$id,\"output\":\"$id\"}""#,
        expect![[r#"
        result c1.1: worked
        note: Output of hook "hook": 1
        result c2.1: worked
        note: Output of hook "hook": 2
        result c3.1: worked
        note: Output of hook "hook": 3
        started 1 times
    "#]],
    )
    .await;
    check_warm(
        r#"echo "{\"id\":$id,\"continue\":false,\"reason\":\"no\"}""#,
        expect![[r#"
        result c1.1 (denied): no
        result c2.1 (denied): no
        result c3.1 (denied): no
        started 1 times
    "#]],
    )
    .await;
    check_warm(
        r#"echo said >&2; echo "{\"id\":$id}""#,
        expect![[r#"
        result c1.1: worked
        result c2.1: worked
        result c3.1: worked
        started 1 times
    "#]],
    )
    .await;
}

/// A resident hook whose failures pass: the sandbox, or an end from outside, is not its failure.
#[tokio::test]
async fn l8_end_of_a_resident_hook_is_its_own_failure_or_ours() {
    let check = async |body: &str, expected: Expect| {
        let machine = Machine::new();
        machine.program("serves", &serves(body));
        fs::write(machine.path("closed/rules"), "deny").unwrap();
        let entry = json!({
            "name": "hook", "command": "./serves", "serve": true, "onFailure": "pass",
        });
        let (agent, session) = machine.agent(&project(), &entry, &[json!({})]).await;
        session.prompt("go").await.unwrap();
        expected.assert_eq(&machine.shown(&session));
        drop((agent, session));
    };
    check(
        "exit 3",
        expect![[r#"
        result c1.1: worked
    "#]],
    )
    .await;
    check("kill -9 $$", expect![[r#"
        result c1.1 (denied): it has ended: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
    "#]]).await;
    check(
        "cat ../closed/rules; echo \"{\\\"id\\\":$id}\"",
        expect![[r#"
        result c1.1 (denied): OUTSIDE/closed/rules is closed to commands
    "#]],
    )
    .await;
    check("cat ../closed/rules || exit 1", expect![[r#"
        result c1.1 (denied): it has ended: it exited with code 1: cat: ../closed/rules: Permission denied; OUTSIDE/closed/rules is closed to commands
    "#]]).await;
    check(
        "echo \"out of memory\" >&2; exit 1",
        expect![[r#"
        result c1.1 (denied): it has ended: it exited with code 1: out of memory
    "#]],
    )
    .await;
}

#[tokio::test]
async fn s23_invalid_answer_of_a_resident_hook_blocks_the_call_and_restarts_it() {
    let good = r#"echo "{\"id\":$id}""#;
    let check = async |bad: &str, expected: Expect| {
        check_warm(&format!("if once; then {bad}; else {good}; fi"), expected).await;
    };
    check(
        r#"echo "{\"id\":99}""#,
        expect![[r#"
            result c1.1 (denied): the `id` of its answer is not the `id` of the request
            result c2.1: worked
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    check(
        r#"echo "{\"id\":\"$id\"}""#,
        expect![[r#"
            result c1.1 (denied): the `id` of its answer is not the `id` of the request
            result c2.1: worked
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    check(
        r#"echo "{}""#,
        expect![[r#"
            result c1.1 (denied): the `id` of its answer is not the `id` of the request
            result c2.1: worked
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    check("echo", expect![[r#"
        result c1.1 (denied): its answer is not a JSON object: EOF while parsing a value at line 1 column 0
        result c2.1: worked
        result c3.1: worked
        started 2 times
    "#]]).await;
    check(
        "echo garbage",
        expect![[r#"
            result c1.1 (denied): its answer is not a JSON object: expected value at line 1 column 1
            result c2.1: worked
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    check(
        "echo '[]'",
        expect![[r#"
            result c1.1 (denied): its answer is not a JSON object: it is not an object
            result c2.1: worked
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    check(
        r#"echo "{\"id\":$id} {}""#,
        expect![[r#"
            result c1.1 (denied): its answer is not a JSON object: trailing characters at line 1 column 10
            result c2.1: worked
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    check(
        r#"printf '{"id":'; exit 0"#,
        expect![[r#"
            result c1.1 (denied): it has ended: it wrote nothing to stderr
            result c2.1: worked
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    check(
        "echo dying >&2; exit 1",
        expect![[r#"
        result c1.1 (denied): it has ended: dying
        result c2.1: worked
        result c3.1: worked
        started 2 times
    "#]],
    )
    .await;
    check(
        "kill -9 $$",
        expect![[r#"
            result c1.1 (denied): it has ended: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
            result c2.1: worked
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    check(
        "head -c 2000000 /dev/zero | tr '\\0' x",
        expect![[r#"
        result c1.1 (denied): it wrote more than 1048576 bytes
        result c2.1: worked
        result c3.1: worked
        started 2 times
    "#]],
    )
    .await;
    check(
        "exec 0<&-; sleep 1000",
        expect![[r#"
        result c1.1 (denied): the hook timed out after 1s
        result c2.1: worked
        result c3.1: worked
        started 2 times
    "#]],
    )
    .await;
    check(
        "sleep 1000",
        expect![[r#"
        result c1.1 (denied): the hook timed out after 1s
        result c2.1: worked
        result c3.1: worked
        started 2 times
    "#]],
    )
    .await;
}

/// Extra or late output is never the answer to the next question.
#[tokio::test]
async fn s23_unrequested_output_of_a_resident_hook_blocks_the_next_call() {
    let good = r#"echo "{\"id\":$id}""#;
    let twice =
        format!("if once; then printf '{{\"id\":%s}}\\n{{\"id\":%s}}\\n' $id $id; else {good}; fi");
    check_warm(
        &twice,
        expect![[r#"
            result c1.1: worked
            result c2.1 (denied): it wrote output without a request
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    let ahead = format!(
        "if once; then printf '{{\"id\":%s}}\\n{{\"id\":%s}}\\n' $id $((id+1)); else {good}; fi"
    );
    check_warm(
        &ahead,
        expect![[r#"
            result c1.1: worked
            result c2.1 (denied): it wrote output without a request
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
    check_warm(
        &format!("if once; then sleep 2; {good}; else {good}; fi"),
        expect![[r#"
        result c1.1 (denied): the hook timed out after 1s
        result c2.1: worked
        result c3.1: worked
        started 2 times
    "#]],
    )
    .await;
    // The program dies after an answer: the next call finds no process.
    check_warm(
        &format!("if once; then {good}; exit 0; else {good}; fi"),
        expect![[r#"
            result c1.1: worked
            result c2.1 (denied): it has ended: it wrote nothing to stderr
            result c3.1: worked
            started 2 times
        "#]],
    )
    .await;
}

/// A question of ten megabytes, for a program that answers before it has read the question.
#[tokio::test]
async fn s23_resident_hook_gets_questions_of_ten_megabytes() {
    let machine = Machine::new();
    machine.program(
        "serves",
        "#!/bin/sh\nn=1\nwhile :; do echo \"{\\\"id\\\":$n}\"; head -n 1 > /dev/null || exit; n=$((n+1)); done\n",
    );
    let entry = json!({"name": "hook", "command": "./serves", "serve": true, "timeoutMs": 60_000});
    let long = json!({"text": "x".repeat(10 * 1024 * 1024)});
    expect![[r#"
        result c1.1: worked
    "#]]
    .assert_eq(&machine.calls(&user(), &entry, &[long]).await);
}
