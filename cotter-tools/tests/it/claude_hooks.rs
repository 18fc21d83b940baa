//! Hooks written for Claude Code, in python and in shell, as real processes: the same verdicts here.

use std::{
    ffi::OsString,
    fmt::Write,
    fs,
    io::{BufRead, BufReader, Read, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

use cotter::{
    Agent, AgentConfig, EndReason, FnTool, Origin, Owner, Registry, Subagent, ToolError, ToolSpec,
    Workspace,
    model::ModelErrorKind,
    permission::{
        Zone,
        facts::Facts,
        rule::{Rule, RuleKind},
    },
    text::redact::Redactor,
};
use cotter_files::{
    claude::{self, ClaudeFile, PluginPaths, pinned::PinnedFolder},
    command_hook::{self, HookHost, HookLocation, entry::OnFailure},
    document::Document,
    trust::snapshot::Snapshot,
};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step, transcript};
use cotter_tools::{
    bash::Bash,
    hooks::{HookRunner, webhook::Webhooks},
    process::Runner,
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::machine::{Scratch, runner};

/// A project with a folder `.claude`.
struct Machine {
    scratch: Scratch,
    runner: Runner,
    variables: Vec<(OsString, OsString)>,
    /// The hosts that the operator lists.
    listed: Option<String>,
}

/// A test case: the hooks of an owner, and the calls of a run.
struct Case {
    owner: Owner,
    hooks: Value,
    steps: Vec<Step>,
    /// How far calls reach.
    zone: Zone,
    person: Vec<PersonAnswer>,
    on_failure: OnFailure,
    rules: Vec<(RuleKind, &'static str)>,
    pinned: Option<PinnedFolder>,
    plugin: Option<PluginPaths>,
    /// True if `bash` is the real tool.
    is_real: bool,
}

impl Case {
    fn new(hooks: Value, steps: impl IntoIterator<Item = Step>) -> Self {
        Case {
            owner: Owner::new(Origin::User, "settings.json"),
            hooks,
            steps: steps.into_iter().chain([Step::text("done")]).collect(),
            zone: Zone::Safe,
            person: vec![],
            on_failure: OnFailure::Pass,
            rules: vec![],
            pinned: None,
            plugin: None,
            is_real: false,
        }
    }

    fn of_project(self) -> Self {
        Case { owner: Owner::new(Origin::Project, "settings.json"), ..self }
    }

    fn reaching(self, zone: Zone) -> Self {
        Case { zone, ..self }
    }
}

impl Machine {
    fn new() -> Self {
        let scratch = Scratch::new();
        for name in [".git", ".claude/hooks", "temp"] {
            fs::create_dir_all(scratch.path().join(name)).unwrap();
        }
        let runner = runner().with_temp_below(&scratch.path().join("temp"));
        // A confined hook cannot reach a Python in a home folder.
        let variables = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
        Machine { scratch, runner, variables, listed: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn posting(&self, hooks: HookRunner) -> HookRunner {
        let webhooks = match &self.listed {
            Some(host) => Webhooks::only([host.as_str()]).unwrap(),
            None => Webhooks::new(),
        };
        hooks.with_webhooks(webhooks, Redactor::new().with_secret("TOKEN", "sesame-open-sesame"))
    }

    /// A program in the project's folder of hooks.
    fn program(&self, name: &str, text: &str) -> &Self {
        let path = self.path(".claude/hooks").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// The outcome: results and the model's messages, then the person's notices and questions.
    async fn run(&self, case: Case) -> String {
        let person = ScriptedUi::new(case.person);
        let mut builder = Agent::builder(ScriptedModel::new(case.steps))
            .workspace(Workspace::new(&self.scratch.path()))
            .ui(person.clone());
        if case.is_real {
            builder = builder.tool(Bash::new(self.runner.clone()));
        }
        builder = builder.define_mention(Subagent::agent(AgentConfig::new("tide")));
        let others = ["write", "edit", "read", "mcp__db__drop"];
        for name in others.into_iter().chain((!case.is_real).then_some("bash")) {
            let spec = ToolSpec::new(name, "works", json!({"type": "object"}));
            let work = FnTool::new(spec, |permit| async move {
                match permit.input().get("fail") {
                    Some(_) => Err(ToolError::failed("it broke")),
                    None => Ok(format!("ran {}", permit.input()).into()),
                }
            });
            builder = builder.tool(work.with_facts(Facts::zone(case.zone)));
        }
        let agent = builder.build().unwrap();
        for (kind, rule) in case.rules {
            let rule = Rule::parse(kind, rule).unwrap();
            agent.extend(Owner::new(Origin::User, "rules"), |unit| _ = unit.rule(rule)).unwrap();
        }
        let text = json!({"hooks": case.hooks}).to_string();
        let document = Document::parse("settings.json", &text).unwrap();
        let mut source = ClaudeFile::new("settings.json").with_on_failure(case.on_failure);
        source.pinned = case.pinned;
        source.plugin = case.plugin;
        let (hooks, _) = claude::read(&document, &source);
        let starts: Arc<dyn HookHost> =
            Arc::new(self.posting(HookRunner::new(self.runner.clone(), self.variables.clone())));
        let confined = command_hook::is_confined(&case.owner);
        let folder = self.path(".claude");
        let base = HookLocation { state: Some(folder.clone()), folder, confined, host: starts };
        let put = |unit: &mut Registry| command_hook::register_all(unit, &hooks, &base);
        agent.extend(case.owner, put).unwrap();
        let session = agent.new_session().await.unwrap();
        let ended = session.prompt("go").await;
        let mut shown = transcript(&session);
        for quiet in ["<system-reminder>\n", "\n</system-reminder>"] {
            shown = shown.replace(quiet, "");
        }
        let _ = match ended {
            Ok(run) if run.reason == EndReason::EndTurn => Ok(()),
            Ok(run) => {
                let why = run.error.map(|failed| failed.message).unwrap_or_default();
                writeln!(shown, "ended: {:?}: {why}", run.reason)
            }
            Err(why) => writeln!(shown, "ended: {why}"),
        };
        let told = person.notices();
        told.lines().for_each(|line| _ = writeln!(shown, "told: {line}"));
        person.shown().lines().for_each(|line| _ = writeln!(shown, "asked: {line}"));
        let adjust = ". Adjust your approach; do not retry the exact same call.";
        let shown = undigested(&self.scratch.tidy(&shown).replace(adjust, ""));
        let quiet = ["user: go", "call ", "assistant: done"];
        let loud = |line: &&str| !line.is_empty() && !quiet.iter().any(|q| line.starts_with(q));
        shown.lines().filter(loud).map(|line| format!("{line}\n")).collect()
    }

    async fn check(&self, case: Case, expected: Expect) {
        expected.assert_eq(&self.run(case).await);
    }
}

fn bash(command: &str) -> Step {
    Step::call("bash", json!({"command": command}))
}

/// One hook at an event, for tools that match.
fn one(event: &str, matcher: &str, command: &str) -> Value {
    let handler = json!({"type": "command", "command": command});
    json!({event: [{"matcher": matcher, "hooks": [handler]}]})
}

/// The way people write them: look at the command, say no, ask, or nothing.
const GUARD: &str = r#"#!/usr/bin/env python3
import json, sys

event = json.load(sys.stdin)
assert event["hook_event_name"] == "PreToolUse", event
command = event["tool_input"].get("command", "")

def decide(decision, reason, **more):
    print(json.dumps({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason, **more}}))

if "rm -rf" in command:
    decide("deny", "no deleting here")
elif "push" in command:
    decide("ask", "pushing is a person's to say")
elif command.startswith("grep "):
    decide("allow", "faster", updatedInput={"command": "rg" + command[4:]})
elif command.startswith("make"):
    decide("allow", "builds are fine")
elif command == "crash":
    raise RuntimeError("oh")
sys.exit(0)
"#;

const GUARD_LINE: &str = "python3 \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.py";

fn guarded(calls: &[&str]) -> Case {
    Case::new(one("PreToolUse", "Bash", GUARD_LINE), calls.iter().map(|command| bash(command)))
}

#[tokio::test]
async fn b3_a_guard_in_python_denies_asks_and_passes() {
    let machine = Machine::new();
    machine.program("guard.py", GUARD);
    let calls = ["ls", "sudo rm -rf /x", "git push"];
    let case = Case { person: vec![PersonAnswer::No("not today".into())], ..guarded(&calls) };
    machine
        .check(
            case,
            expect![[r#"
        result c1.1: ran {"command":"ls"}
        result c2.1 (denied): Hook "guard" blocked the action: no deleting here
        result c3.1 (denied): Permission denied for `bash`: not today. Do not retry this exact call.
        asked: bash {"command":"git push"} <- guard: pushing is a person's to say
    "#]],
        )
        .await;
    // Another tool is none of its business; another that runs commands is.
    let steps = [
        Step::call("read", json!({"path": "rm -rf"})),
        Step::call("mcp__db__drop", json!({"command": "rm -rf"})),
    ];
    machine
        .check(
            Case::new(one("PreToolUse", "Bash", GUARD_LINE), steps),
            expect![[r#"
        result c1.1: ran {"path":"rm -rf"}
        result c2.1: ran {"command":"rm -rf"}
    "#]],
        )
        .await;
    // A project's does the same, closed off.
    machine.check(guarded(&calls).of_project(), expect![[r#"
        result c1.1: ran {"command":"ls"}
        result c2.1 (denied): Hook "guard" blocked the action: no deleting here
        result c3.1 (denied): Permission denied for `bash`: pushing is a person's to say, and there was no answer. Do not retry this exact call.
        asked: bash {"command":"git push"} <- guard: pushing is a person's to say
    "#]]).await;
}

#[tokio::test]
async fn b3_exit_code_two_and_legacy_decision_block() {
    let machine = Machine::new();
    machine.program(
        "guard.sh",
        "#!/bin/bash\ncommand=$(jq -r .tool_input.command)\n\
         if [[ $command == rm* ]]; then echo 'rm is not allowed' >&2; exit 2; fi\n\
         if [[ $command == mv* ]]; then echo '{\"decision\": \"block\", \"reason\": \"mv neither\"}'; fi\n\
         if [[ $command == cp* ]]; then echo '{\"decision\": \"approve\", \"reason\": \"fine\"}'; fi\n",
    );
    let line = "$CLAUDE_PROJECT_DIR/.claude/hooks/guard.sh";
    let steps = ["ls", "rm x", "mv x y", "cp x y"].map(bash);
    let case = Case::new(one("PreToolUse", "Bash|Write", line), steps);
    machine
        .check(
            Case { person: vec![PersonAnswer::Yes; 2], ..case.reaching(Zone::External) },
            expect![[r#"
            result c1.1: ran {"command":"ls"}
            result c2.1 (denied): Hook "guard" blocked the action: rm is not allowed
            result c3.1 (denied): Hook "guard" blocked the action: mv neither
            result c4.1: ran {"command":"cp x y"}
            asked: bash {"command":"ls"} <- zone: zone `external` asks at level `standard`
        "#]],
        )
        .await;
}

#[tokio::test]
async fn s3_allow_of_a_hook_replaces_only_the_question() {
    let machine = Machine::new();
    machine.program("guard.py", GUARD);
    // The floor would ask.
    machine
        .check(
            guarded(&["make all"]).reaching(Zone::External),
            expect![[r#"
        result c1.1: ran {"command":"make all"}
    "#]],
        )
        .await;
    // A rule asks: that is not the hook's to answer.
    let asks = Case {
        rules: vec![(RuleKind::Ask, "bash")],
        person: vec![PersonAnswer::No("no".into())],
        ..guarded(&["make all"]).reaching(Zone::External)
    };
    machine
        .check(
            asks,
            expect![[r#"
        result c1.1 (denied): Permission denied for `bash`: no. Do not retry this exact call.
        asked: bash {"command":"make all"} <- rule ask bash: the rule `ask bash` asks
    "#]],
        )
        .await;
    // A rule denies.
    let denies = Case { rules: vec![(RuleKind::Deny, "bash")], ..guarded(&["make all"]) };
    machine
        .check(
            denies,
            expect![[r#"
        result c1.1 (denied): Denied: the rule `deny bash` denies it. Do not retry this exact call.
    "#]],
        )
        .await;
    // One of two calls is allowed: the person is asked about both.
    let both = bash("make all").and_call("bash", json!({"command": "ls"}));
    let case = Case::new(one("PreToolUse", "Bash", GUARD_LINE), [both]);
    machine.check(case.reaching(Zone::External), expect![[r#"
        result c1.1 (denied): Permission denied for `bash`: zone `external` asks at level `standard`, and there was no answer. Do not retry this exact call.
        result c1.2 (denied): Permission denied for `bash`: zone `external` asks at level `standard`, and there was no answer. Do not retry this exact call.
        asked: bash {"command":"make all"} <- zone: zone `external` asks at level `standard`
        asked: bash {"command":"ls"} <- zone: zone `external` asks at level `standard`
    "#]]).await;
    // A project's hook allows nothing.
    machine
        .check(guarded(&["make all"]).of_project().reaching(Zone::External), expect![[r#"
            result c1.1 (denied): Permission denied for `bash`: zone `external` asks at level `standard`, and there was no answer. Do not retry this exact call.
            asked: bash {"command":"make all"} <- zone: zone `external` asks at level `standard`
        "#]])
        .await;
}

#[tokio::test]
async fn s3_rewritten_input_is_used_only_with_the_grant() {
    let machine = Machine::new();
    machine.program("guard.py", GUARD);
    machine
        .check(
            guarded(&["grep x y"]).reaching(Zone::External),
            expect![[r#"
        result c1.1: ran {"command":"rg x y"}
    "#]],
        )
        .await;
    machine.check(guarded(&["grep x y"]).of_project(), expect![[r#"
        result c1.1 (denied): Hook "guard" blocked the action: it may not change anything: its owner was not granted `rewrite`
    "#]]).await;
    let granted = Owner::new(Origin::Project, "settings.json").with_rewrite();
    let case = Case { owner: granted, ..guarded(&["grep x y"]) };
    machine
        .check(
            case,
            expect![[r#"
        result c1.1: ran {"command":"rg x y"}
    "#]],
        )
        .await;
}

#[tokio::test]
async fn b3_claude_hook_is_asked_about_each_edit() {
    let machine = Machine::new();
    machine.program(
        "style.py",
        r#"#!/usr/bin/env python3
import json, os, sys
event = json.load(sys.stdin)
given = event["tool_input"]
assert os.path.isabs(given["file_path"]), given
own = {"hookEventName": event["hook_event_name"]}
if "secret" in given["new_string"]:
    print("no secrets in " + os.path.basename(given["file_path"]), file=sys.stderr)
    sys.exit(2)
if "\t" in given["new_string"]:
    own["updatedInput"] = dict(given, new_string=given["new_string"].replace("\t", "    "))
print(json.dumps({"hookSpecificOutput": own}))
"#,
    );
    let line = "$CLAUDE_PROJECT_DIR/.claude/hooks/style.py";
    let edit = |texts: &[&str]| {
        let edits: Vec<_> = texts.iter().map(|new| json!({"old": "x", "new": new})).collect();
        Step::call("edit", json!({"path": "src/a.c", "edits": edits}))
    };
    let steps = [edit(&["a", "b"]), edit(&["a", "\tb", "\tc"]), edit(&["a", "secret", "\tb"])];
    machine.check(Case::new(one("PreToolUse", "Edit|Write", line), steps), expect![[r#"
        result c1.1: ran {"path":"src/a.c","edits":[{"old":"x","new":"a"},{"old":"x","new":"b"}]}
        result c2.1: ran {"path":"src/a.c","edits":[{"old":"x","new":"a"},{"old":"x","new":"    b"},{"old":"x","new":"    c"}]}
        result c3.1 (denied): Hook "style" blocked the action: no secrets in a.c
    "#]]).await;
    let many: Vec<_> = (0..101).map(|_| "a").collect();
    machine.check(Case::new(one("PreToolUse", "Edit", line), [edit(&many)]), expect![[r#"
        result c1.1 (denied): Hook "style" blocked the action: a hook is asked about at most 100 parts of a call: split it into several calls
    "#]]).await;
    // Several edits are shown as `MultiEdit`, a single edit is not.
    let steps = || [edit(&["secret"]), edit(&["a", "secret"]), edit(&["a", "\tb"])];
    for matcher in ["MultiEdit", "Write|MultiEdit", "^Multi.*"] {
        let expected = expect![[r#"
            result c1.1: ran {"path":"src/a.c","edits":[{"old":"x","new":"secret"}]}
            result c2.1 (denied): Hook "style" blocked the action: no secrets in a.c
            result c3.1: ran {"path":"src/a.c","edits":[{"old":"x","new":"a"},{"old":"x","new":"    b"}]}
        "#]];
        machine.check(Case::new(one("PreToolUse", matcher, line), steps()), expected).await;
    }
    let name = one("PreToolUse", "MultiEdit", "jq -r .tool_name >&2; exit 2");
    machine
        .check(
            Case::new(name, [edit(&["a", "b"])]),
            expect![[r#"
                result c1.1 (denied): Hook "jq-0c2f76" blocked the action: MultiEdit
            "#]],
        )
        .await;
}

#[tokio::test]
async fn b3_claude_hook_failures_pass_with_a_notice_or_block_by_setting() {
    let machine = Machine::new();
    machine.program("guard.py", GUARD);
    machine
        .check(
            guarded(&["crash"]),
            expect![[r#"
                result c1.1: ran {"command":"crash"}
                told: hook `guard` failed and passes: it exited with code 1: Traceback (most recent call last):
                told:   File "PROJECT/.claude/hooks/guard.py", line 23, in <module>
                told:     raise RuntimeError("oh")
                told: RuntimeError: oh
            "#]],
        )
        .await;
    let strict = Case { on_failure: OnFailure::Block, ..guarded(&["crash", "ls"]) };
    machine.check(strict, expect![[r#"
        result c1.1 (denied): Hook "guard" blocked the action: it exited with code 1: Traceback (most recent call last):
          File "PROJECT/.claude/hooks/guard.py", line 23, in <module>
            raise RuntimeError("oh")
        RuntimeError: oh
        result c2.1: ran {"command":"ls"}
    "#]]).await;
    let missing = one("PreToolUse", "Bash", "$CLAUDE_PROJECT_DIR/.claude/hooks/gone.sh");
    machine.check(Case::new(missing.clone(), [bash("ls")]), expect![[r#"
        result c1.1: ran {"command":"ls"}
        told: hook `gone` failed and passes: it exited with code 127: /bin/sh: 1: PROJECT/.claude/hooks/gone.sh: not found
    "#]]).await;
    let slow = json!({"PreToolUse": [{"hooks": [
        {"type": "command", "command": "sleep 60", "timeout": 0.2},
    ]}]});
    machine
        .check(
            Case::new(slow, [bash("ls")]),
            expect![[r#"
                result c1.1: ran {"command":"ls"}
                told: hook `sleep-86b54c` failed and passes: it took longer than 200ms
            "#]],
        )
        .await;
    let entry = json!({"type": "command", "command": "exit 7", "onFailure": "block"});
    let strict = json!({"PreToolUse": [{"hooks": [entry]}]});
    machine
        .check(
            Case::new(strict, [bash("ls")]),
            expect![[r#"
                result c1.1 (denied): Hook "exit-30bf4f" blocked the action: it exited with code 7
            "#]],
        )
        .await;
    // A hook with an invalid address has failed, too.
    let http =
        json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "http", "url": "x"}]}]});
    machine
        .check(
            Case::new(http.clone(), [bash("ls")]),
            expect![[r#"
                result c1.1: ran {"command":"ls"}
                told: hook `PreToolUse-*` failed and passes: `x`: relative URL without a base
            "#]],
        )
        .await;
    let strict = Case { on_failure: OnFailure::Block, ..Case::new(http, [bash("ls")]) };
    machine
        .check(
            strict,
            expect![[r#"
                result c1.1 (denied): Hook "PreToolUse-*" blocked the action: `x`: relative URL without a base
            "#]],
        )
        .await;
}

#[tokio::test]
async fn b3_stop_hook_continues_the_run() {
    let machine = Machine::new();
    machine.program(
        "stop.sh",
        "#!/bin/bash\ninput=$(cat)\n\
         [ \"$(jq -r .stop_hook_active <<<\"$input\")\" = true ] && exit 0\n\
         echo \"run the tests, you said: $(jq -r .last_assistant_message <<<\"$input\")\" >&2\nexit 2\n",
    );
    let line = "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/stop.sh";
    let steps = || [Step::text("finished"), bash("make test")];
    machine
        .check(
            Case::new(one("Stop", "", line), steps()),
            expect![[r#"
                assistant: finished
                note: Hook "stop" asks you to continue: run the tests, you said: finished
                result c2.1: ran {"command":"make test"}
            "#]],
        )
        .await;
    let block =
        r#"jq -c 'if .stop_hook_active then {} else {decision: "block", reason: "not yet"} end'"#;
    machine
        .check(
            Case::new(one("Stop", "", block), steps()),
            expect![[r#"
                assistant: finished
                note: Hook "jq-288837" asks you to continue: not yet
                result c2.1: ran {"command":"make test"}
            "#]],
        )
        .await;
    let end = r#"echo '{"continue": false, "stopReason": "enough", "decision": "block"}'"#;
    machine
        .check(
            Case::new(one("Stop", "", end), [Step::text("finished")]),
            expect![[r#"
                assistant: finished
                told: hook `echo-d1dd34`: enough
            "#]],
        )
        .await;
}

#[tokio::test]
async fn b3_hook_output_reaches_the_model_or_the_person() {
    let machine = Machine::new();
    let hooks = json!({
        "SessionStart": [
            {"matcher": "startup", "hooks": [{"type": "command", "command": "echo on branch main"}]},
            {"matcher": "resume", "hooks": [{"type": "command", "command": "echo resumed"}]},
        ],
        "UserPromptSubmit": [{"hooks": [{"type": "command",
            "command": "jq -r '\"you said \" + .prompt'"}]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command",
            "command": "jq -c '{systemMessage: (\"running \" + .tool_input.command)}'"}]}],
        "PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command",
            "command": "jq -c '{hookSpecificOutput: {hookEventName: .hook_event_name, additionalContext: .tool_response.stdout}}'"}]}],
        "PostToolUseFailure": [{"hooks": [{"type": "command",
            "command": "jq -r .error >&2; exit 2"}]}],
    });
    let steps = [bash("ls"), Step::call("bash", json!({"command": "x", "fail": 1}))];
    machine
        .check(
            Case::new(hooks, steps),
            expect![[r#"
                note: From hook "echo-0e0194": on branch main
                From hook "jq-d3cc24": you said go
                result c1.1: ran {"command":"ls"}
                note: From hook "jq-93f06a": ran {"command":"ls"}
                result c2.1 (failed): it broke
                note: From hook "jq-1f571e": Warning: it broke
                told: hook `jq-df0069`: running ls
                told: hook `jq-df0069`: running x
            "#]],
        )
        .await;
    let blocks = one("UserPromptSubmit", "", "echo no swearing >&2; exit 2");
    machine
        .check(
            Case::new(blocks, []),
            expect![[r#"
                ended: Blocked: hook "echo-aa0a09" refused the prompt: no swearing
            "#]],
        )
        .await;
}

#[tokio::test]
async fn b3_post_tool_use_hook_replaces_a_result_or_ends_the_run() {
    let machine = Machine::new();
    let redact = r#"jq -c '{hookSpecificOutput: {hookEventName: "PostToolUse",
        updatedToolOutput: (.tool_response | .stdout = "[redacted]")}}'"#;
    let case = || Case::new(one("PostToolUse", "Bash", redact), [bash("env")]);
    machine
        .check(
            case(),
            expect![[r#"
        result c1.1: [redacted]
    "#]],
        )
        .await;
    machine.check(case().of_project(), expect![[r#"
        result c1.1: ran {"command":"env"}
        told: hook `jq-22bb1c` may not change anything at `tool.post`: its owner was not granted `rewrite`; its change is ignored
    "#]]).await;
    let odd = r#"echo '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": 7}}'"#;
    machine
        .check(
            Case::new(one("PostToolUse", "", odd), [bash("env")]),
            expect![[r#"
                result c1.1: ran {"command":"env"}
                told: hook `echo-3b2de3`: its `updatedToolOutput` has an unknown form and is ignored
            "#]],
        )
        .await;
    let end = r#"echo '{"continue": false, "stopReason": "the build is broken"}'"#;
    machine
        .check(
            Case::new(one("PreToolUse", "", end), [bash("ls")]),
            expect![[r#"
                result c1.1 (cancelled): Cancelled: the run ended before this call started.
                ended: Blocked: hook `echo-126d98` ended the run: the build is broken
            "#]],
        )
        .await;
}

#[tokio::test]
async fn b3_permission_request_hook_answers_a_question() {
    let machine = Machine::new();
    let answer = |behavior: &str| {
        let answer = format!(
            r#"jq -c '{{hookSpecificOutput: {{hookEventName: "PermissionRequest",
            decision: {{behavior: "{behavior}", message: ("no " + .tool_input.command)}}}}}}'"#
        );
        one("PermissionRequest", "Bash", &answer)
    };
    let case =
        |behavior: &str| Case::new(answer(behavior), [bash("deploy")]).reaching(Zone::External);
    machine
        .check(
            case("allow"),
            expect![[r#"
        result c1.1: ran {"command":"deploy"}
    "#]],
        )
        .await;
    machine
        .check(
            case("deny"),
            expect![[r#"
        result c1.1 (denied): Permission denied for `bash`: no deploy. Do not retry this exact call.
    "#]],
        )
        .await;
    machine.check(case("allow").of_project(), expect![[r#"
        result c1.1 (denied): Permission denied for `bash`: zone `external` asks at level `standard`, and there was no answer. Do not retry this exact call.
        asked: bash {"command":"deploy"} <- zone: zone `external` asks at level `standard`
    "#]]).await;
    machine
        .check(
            case("deny").of_project(),
            expect![[r#"
        result c1.1 (denied): Permission denied for `bash`: no deploy. Do not retry this exact call.
    "#]],
        )
        .await;
    let exits = one("PermissionRequest", "", "exit 2");
    let exits = Case::new(exits, [bash("deploy")]).reaching(Zone::External);
    machine.check(exits, expect![[r#"
        result c1.1 (denied): Permission denied for `bash`: zone `external` asks at level `standard`, and there was no answer. Do not retry this exact call.
        asked: bash {"command":"deploy"} <- zone: zone `external` asks at level `standard`
    "#]]).await;
}

#[tokio::test]
async fn s7_claude_hook_gets_the_project_folder_and_listed_variables() {
    let machine = Machine::new();
    fs::create_dir_all(machine.path("plugin/scripts")).unwrap();
    fs::write(machine.path("plugin/scripts/x.sh"), "echo plugin >&2; exit 2").unwrap();
    let plugin = PluginPaths { root: machine.path("plugin"), data: None };
    let line = "pwd >&2; env | cut -d= -f1 | sort | tr '\\n' ' ' >&2; echo >&2; sh ${CLAUDE_PLUGIN_ROOT}/scripts/x.sh";
    let case = Case::new(one("PreToolUse", "", line), [bash("ls")]);
    machine
        .check(
            Case { plugin: Some(plugin.clone()), ..case },
            expect![[r#"
                result c1.1 (denied): Hook "pwd-*" blocked the action: PROJECT
                CLAUDE_PLUGIN_ROOT CLAUDE_PROJECT_DIR COTTER_CALL COTTER_PROJECT_DIR PATH PWD 
                plugin
            "#]],
        )
        .await;
    let exec =
        json!({"type": "command", "command": "sh", "args": ["${CLAUDE_PLUGIN_ROOT}/scripts/x.sh"]});
    let case = Case::new(json!({"PreToolUse": [{"hooks": [exec]}]}), [bash("ls")]);
    machine
        .check(
            Case { plugin: Some(plugin), ..case }.of_project(),
            expect![[r#"
        result c1.1 (denied): Hook "x" blocked the action: plugin
    "#]],
        )
        .await;
}

#[tokio::test]
async fn s6_hook_in_a_changed_pinned_folder_is_not_started() {
    let machine = Machine::new();
    machine.program("guard.sh", "#!/bin/sh\necho ran >> ran.txt\n");
    let snapshot = Snapshot::take(&machine.path(".claude")).unwrap();
    let pinned = PinnedFolder { folder: machine.path(".claude"), hash: snapshot.hash() };
    let case = |event: &str| {
        let hooks = one(event, "", "$CLAUDE_PROJECT_DIR/.claude/hooks/guard.sh");
        Case { pinned: Some(pinned.clone()), ..Case::new(hooks, [bash("ls")]).of_project() }
    };
    machine
        .check(
            case("PreToolUse"),
            expect![[r#"
        result c1.1: ran {"command":"ls"}
    "#]],
        )
        .await;
    assert_eq!(fs::read_to_string(machine.path("ran.txt")).unwrap(), "ran\n");
    // An added file beside the script counts, too: the script may load it.
    machine.program("json.py", "print('mine')");
    machine.check(case("PreToolUse"), expect![[r#"
        result c1.1 (denied): Hook "guard" blocked the action: PROJECT/.claude changed since it was trusted: `cotter trust` shows the difference
    "#]]).await;
    machine.check(case("PostToolUse"), expect![[r#"
        result c1.1: ran {"command":"ls"}
        told: hook `guard`: PROJECT/.claude changed since it was trusted: `cotter trust` shows the difference
    "#]]).await;
    assert_eq!(fs::read_to_string(machine.path("ran.txt")).unwrap(), "ran\n");
    fs::remove_dir_all(machine.path(".claude")).unwrap();
    machine.check(case("PreToolUse"), expect![[r#"
        result c1.1 (denied): Hook "guard" blocked the action: PROJECT/.claude cannot be compared with what was trusted: cannot read PROJECT/.claude
    "#]]).await;
}

/// The decision if a hook may run does not count against its time limit: a slow folder must not let
/// a call past a gate.
#[tokio::test]
async fn s6_check_of_a_pinned_folder_ignores_the_hook_timeout() {
    let machine = Machine::new();
    machine.program("guard.sh", "#!/bin/sh\necho ran >> ran.txt\n");
    fs::write(machine.path(".claude/large"), vec![7; 2 << 20]).unwrap();
    let snapshot = Snapshot::take(&machine.path(".claude")).unwrap();
    let pinned = PinnedFolder { folder: machine.path(".claude"), hash: snapshot.hash() };
    fs::write(machine.path(".claude/large"), vec![8; 2 << 20]).unwrap();
    let line = "$CLAUDE_PROJECT_DIR/.claude/hooks/guard.sh";
    let mut hooks = one("PreToolUse", "", line);
    hooks["PreToolUse"][0]["hooks"][0]["timeout"] = json!(0.001);
    let case = Case { pinned: Some(pinned), ..Case::new(hooks, [bash("ls")]).of_project() };
    machine.check(case, expect![[r#"
        result c1.1 (denied): Hook "guard" blocked the action: PROJECT/.claude changed since it was trusted: `cotter trust` shows the difference
    "#]]).await;
    assert!(!machine.path("ran.txt").exists());
}

#[tokio::test]
async fn b3_prompt_hook_asks_a_model_for_the_verdict() {
    let machine = Machine::new();
    let asked = |event: &str, more: Value| {
        let mut handler = json!({"type": "prompt", "prompt": "Is this fine? $ARGUMENTS"});
        more.as_object().unwrap().iter().for_each(|(key, value)| handler[key] = value.clone());
        json!({event: [{"matcher": "", "hooks": [handler]}]})
    };
    let no = || Step::text(r#"{"ok": false, "reason": "not on a Friday"}"#);
    let yes = || Step::text("```json\n{\"ok\": true}\n```");
    let go_on = json!({"continueOnBlock": true});
    let case = Case::new(asked("PreToolUse", go_on.clone()), [bash("ls"), no()]);
    machine
        .check(
            case,
            expect![[r#"
                result c1.1 (denied): Hook "PreToolUse-*" blocked the action: not on a Friday
            "#]],
        )
        .await;
    let case = Case::new(asked("PreToolUse", go_on.clone()), [bash("ls"), yes()]);
    machine
        .check(
            case,
            expect![[r#"
        result c1.1: ran {"command":"ls"}
    "#]],
        )
        .await;
    let case = Case::new(asked("PreToolUse", go_on), [bash("ls"), Step::text("perhaps")]);
    machine.check(case, expect![[r#"
        result c1.1: ran {"command":"ls"}
        told: hook `PreToolUse-*` failed and passes: the model's answer is not a JSON object: expected value at line 1 column 1
    "#]]).await;
    // No model answers: that is no answer of the hook.
    let failed = Step::error(ModelErrorKind::Auth);
    let case = Case::new(asked("PreToolUse", json!({})), [bash("ls"), failed]);
    machine.check(case, expect![[r#"
        result c1.1 (denied): Hook "PreToolUse-*" blocked the action: no model answered: the script says so
    "#]]).await;
    let case = Case::new(
        asked("Stop", json!({})),
        [Step::text("finished"), no(), Step::text("more"), yes()],
    );
    machine
        .check(
            case,
            expect![[r#"
                assistant: finished
                note: Hook "Stop-d3ee5e" asks you to continue: not on a Friday
                assistant: more
            "#]],
        )
        .await;
}

#[tokio::test]
async fn b3_hook_with_a_condition_also_runs_for_commands_that_are_not_understood() {
    let machine = Machine::new();
    let handler = json!({"type": "command", "if": "Bash(echo secret *)", "command": "exit 2"});
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]});
    let calls = ["echo plain", "true && echo secret x", "echo $(echo secret x)", "echo ${!x@P}"];
    let case = Case::new(hooks, calls.map(bash));
    let case = Case { is_real: true, person: vec![PersonAnswer::Yes; 4], ..case };
    machine
        .check(
            case,
            expect![[r#"
                result c1.1: plain
                result c2.1 (denied): Hook "exit-caa0c2" blocked the action: hook exit-caa0c2 exited with code 2
                result c3.1 (denied): Hook "exit-caa0c2" blocked the action: hook exit-caa0c2 exited with code 2
                result c4.1 (denied): Hook "exit-caa0c2" blocked the action: hook exit-caa0c2 exited with code 2
            "#]],
        )
        .await;
}

#[tokio::test]
async fn b3_star_in_the_condition_of_a_hook_spans_any_text_of_a_command() {
    let rows = [
        ("Bash(git * main)", "git push origin main", "git push origin other"),
        ("Bash(*--no-verify*)", "git commit -m x --no-verify", "git commit -m x"),
        ("Bash(git push *--force*)", "git push --force-with-lease origin", "git push origin x"),
        ("Bash(cat *.env*)", "cat sub/.env.local", "cat a.txt"),
        ("Bash(*)", "frob", ""),
    ];
    for (condition, hit, missed) in rows {
        let machine = Machine::new();
        let handler = json!({"type": "command", "if": condition, "command": "exit 2"});
        let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]});
        let hit = format!("true; {hit}");
        let calls = [hit.as_str(), missed].into_iter().filter(|call| !call.is_empty());
        let case = Case::new(hooks, calls.map(bash));
        let case = Case { is_real: true, person: vec![PersonAnswer::Yes; 4], ..case };
        let shown = machine.run(case).await;
        let is_blocked = |call: &str| shown.contains(&format!("result {call} (denied)"));
        assert!(is_blocked("c1.1") && !is_blocked("c2.1"), "{condition}: {shown}");
    }
}

#[tokio::test]
async fn b3_subagent_hooks_add_context_and_continue_the_subagent() {
    let machine = Machine::new();
    let start = "jq -c '{hookSpecificOutput: {hookEventName: .hook_event_name, additionalContext: (\"you are \" + .agent_type)}}'";
    let stop = "jq -c 'if .stop_hook_active then {} else {decision: \"block\", reason: (.agent_type + \", look again\")} end'";
    let hooks = json!({
        "SubagentStart": [{"matcher": "tide", "hooks": [{"type": "command", "command": start}]}],
        "SubagentStop": [{"matcher": "tide", "hooks": [{"type": "command", "command": stop}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "echo stop >> stops.txt"}]}],
        "PreToolUse": [{"matcher": "Task", "hooks": [{"type": "command",
            "command": "jq -c '{systemMessage: (.tool_name + \" \" + .tool_input.subagent_type)}'"}]}],
    });
    let steps = [
        Step::call("invoke_subagent", json!({"name": "tide", "prompt": "Oban"})),
        Step::text("low"),
        Step::text("high at six"),
    ];
    machine
        .check(
            Case::new(hooks, steps),
            expect![[r#"
                result c1.1: {"status":"success","data":{"subagent":"tide","content":"high at six"}}
                told: hook `jq-a90876`: Task tide
            "#]],
        )
        .await;
    assert_eq!(fs::read_to_string(machine.path("stops.txt")).unwrap(), "stop\n");
}

/// Answers each letter with the next of these, and keeps what it was told: header and body.
fn address(replies: Vec<(u16, &'static str)>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let told = Arc::new(Mutex::new(vec![]));
    let heard = told.clone();
    thread::spawn(move || {
        for (status, reply) in replies {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut lines, mut length) = (vec![], 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let line = line.trim_end().to_owned();
                if line.is_empty() {
                    break;
                }
                if let Some(rest) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = rest.parse().unwrap();
                }
                lines.extend(line.starts_with("authorization").then_some(line));
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let shown =
                format!("{} {} {}", body["hook_event_name"], body["tool_name"], body["tool_input"]);
            heard.lock().unwrap().push(format!("{} {shown}", lines.join(" ")));
            let length = reply.len();
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all((head + reply).as_bytes()).unwrap();
        }
    });
    (host, told)
}

/// Names of hooks that are addresses, or a plugin's, without the digest: it is another one each time.
fn undigested(text: &str) -> String {
    ["PreToolUse-", "pwd-"].iter().fold(text.to_owned(), |text, name| {
        let mut parts = text.split(name);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |shown, part| shown + name + "*" + part.get(6..).unwrap_or_default())
    })
}

fn posted(url: &str) -> Value {
    json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{
        "type": "http",
        "url": url,
        "headers": {"Authorization": "Bearer $KEY ${KEY} $HOME"},
        "allowedEnvVars": ["KEY"],
        "timeout": 10,
    }]}]})
}

#[tokio::test]
async fn b3_s34_http_hook_asks_an_address_on_the_operators_list() {
    let deny = r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not today"}}"#;
    let change = r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "true"}}}"#;
    let (host, told) = address(vec![
        (200, ""),
        (200, deny),
        (200, "mind the tide"),
        (500, "no"),
        (200, change),
        (200, change),
        (200, "{"),
    ]);
    let mut machine = Machine::new();
    machine.listed = Some(host.clone());
    machine.variables.push(("KEY".into(), "k1".into()));
    let calls =
        ["one", "two", "three", "four", "five", "six sesame-open-sesame", "seven"].map(bash);
    let case = Case::new(posted(&format!("http://{host}/hook")), calls);
    machine.check(case, expect![[r#"
        result c1.1: ran {"command":"one"}
        result c2.1 (denied): Hook "PreToolUse-*" blocked the action: not today
        result c3.1: ran {"command":"three"}
        note: From hook "PreToolUse-*": mind the tide
        result c4.1: ran {"command":"four"}
        result c5.1: ran {"command":"true"}
        result c6.1: ran {"command":"six sesame-open-sesame"}
        result c7.1: ran {"command":"seven"}
        told: hook `PreToolUse-*` failed and passes: it answered with status 500
        told: hook `PreToolUse-*` failed and passes: secrets were removed from its input, so it cannot change anything
        told: hook `PreToolUse-*` failed and passes: its output begins with `{` and is not JSON: EOF while parsing an object at line 1 column 1
    "#]]).await;
    expect![[r#"
        authorization: Bearer k1 k1 "PreToolUse" "Bash" {"command":"one"}
        authorization: Bearer k1 k1 "PreToolUse" "Bash" {"command":"two"}
        authorization: Bearer k1 k1 "PreToolUse" "Bash" {"command":"three"}
        authorization: Bearer k1 k1 "PreToolUse" "Bash" {"command":"four"}
        authorization: Bearer k1 k1 "PreToolUse" "Bash" {"command":"five"}
        authorization: Bearer k1 k1 "PreToolUse" "Bash" {"command":"six [redacted TOKEN]"}
        authorization: Bearer k1 k1 "PreToolUse" "Bash" {"command":"seven"}"#]]
    .assert_eq(&told.lock().unwrap().join("\n"));
}

#[tokio::test]
async fn s34_http_hook_refuses_unlisted_local_addresses_and_plain_http() {
    let (host, told) = address(vec![(200, "")]);
    for (url, on_failure, expected) in [
        (
            format!("http://{host}/hook"),
            OnFailure::Pass,
            expect![[r#"
                result c1.1 (denied): Hook "PreToolUse-*" blocked the action: the address must be https, or on the operator's list
            "#]],
        ),
        (
            format!("https://{host}/hook"),
            OnFailure::Block,
            expect![[r#"
                result c1.1 (denied): Hook "PreToolUse-*" blocked the action: it is on this machine or its network
            "#]],
        ),
        (
            "http://hooks.example.com/".into(),
            OnFailure::Block,
            expect![[r#"
                result c1.1 (denied): Hook "PreToolUse-*" blocked the action: the address must be https, or on the operator's list
            "#]],
        ),
        (
            "file:///etc/passwd".into(),
            OnFailure::Block,
            expect![[r#"
                result c1.1 (denied): Hook "PreToolUse-*" blocked the action: only http and https addresses are fetched
            "#]],
        ),
    ] {
        let machine = Machine::new();
        let case = Case { on_failure, ..Case::new(posted(&url), [bash("one")]) };
        expected.assert_eq(&machine.run(case).await.replace(&host, "[HOST]"));
    }
    assert_eq!(told.lock().unwrap().len(), 0);
}

/// Failures of our own machinery are not the hook's answer: each blocks, though failures of this hook pass.
#[tokio::test]
async fn l8_failure_of_the_host_blocks_in_the_claude_dialect() {
    let machine = Machine::new();
    let large = "head -c 2000000 /dev/zero | tr '\\0' x";
    let check = async |line: &str, expected: Expect| {
        let case = Case::new(one("PreToolUse", "Bash", line), [bash("ls")]).of_project();
        machine.check(case, expected).await;
    };
    check(
        &format!("{large}; echo no more >&2; exit 2"),
        expect![[r#"
        result c1.1 (denied): Hook "head-1c5cf7" blocked the action: no more
    "#]],
    )
    .await;
    check(large, expect![[r#"
        result c1.1 (denied): Hook "head-b6d02a" blocked the action: its output is longer than 1048576 bytes
    "#]]).await;
    // A refusal in the part that is not kept is lost, whatever else the hook says.
    for code in [0, 1] {
        let case =
            Case::new(one("PreToolUse", "Bash", &format!("{large}; exit {code}")), [bash("ls")]);
        let said = machine.run(case.of_project()).await;
        assert!(said.contains("its output is longer than 1048576 bytes"), "{said}");
    }
    // The temp folder is full: the shell goes on without its input.
    check(
        "echo 'sh: cannot create temp file for here-document: No space left on device' >&2",
        expect![[r#"
            result c1.1 (denied): Hook "echo-331c96" blocked the action: it exited with code 0: sh: cannot create temp file for here-document: No space left on device
        "#]],
    )
    .await;
    check(
        "echo 'out of memory errors are handled below' >&2",
        expect![[r#"
        result c1.1: ran {"command":"ls"}
    "#]],
    )
    .await;
    check("kill -9 $$", expect![[r#"
        result c1.1 (denied): Hook "kill-526e50" blocked the action: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it
    "#]]).await;
    let outside = Scratch::new();
    fs::write(outside.path().join("rules.txt"), "deny").unwrap();
    let script = format!("#!/bin/sh\ncat {}/rules.txt && exit 2\n", outside.path().display());
    machine.program("reads.sh", &script);
    let line = "$CLAUDE_PROJECT_DIR/.claude/hooks/reads.sh";
    let said = Case::new(one("PreToolUse", "Bash", line), [bash("ls")]).of_project();
    expect![[r#"
        result c1.1 (denied): Hook "reads" blocked the action: it exited with code 1: cat: OUTSIDE/rules.txt: Permission denied; access to OUTSIDE/rules.txt was refused: it is outside the project; `"readRoots": ["OUTSIDE"]` in your settings lets it be read; a hook writes `logs`, `data`, `state`, `cache` and `tmp` in its own folder
    "#]].assert_eq(&outside.tidy(&machine.run(said).await).replace("PROJECT", "OUTSIDE"));
    check("echo >> /etc/notes", expect![[r#"
        result c1.1 (denied): Hook "echo-15acbe" blocked the action: it exited with code 2: /bin/sh: 1: cannot create /etc/notes: Read-only file system; writing to /etc/notes was refused: it belongs to the system
    "#]]).await;
    // Whatever it makes of a refusal: it has not seen what it wanted to see.
    machine.program("shrugs.sh", &script.replace("&& exit 2", "|| exit 0"));
    let line = "$CLAUDE_PROJECT_DIR/.claude/hooks/shrugs.sh";
    let said = Case::new(one("PreToolUse", "Bash", line), [bash("ls")]).of_project();
    expect![[r#"
        result c1.1 (denied): Hook "shrugs" blocked the action: it exited with code 0: cat: OUTSIDE/rules.txt: Permission denied; access to OUTSIDE/rules.txt was refused: it is outside the project; `"readRoots": ["OUTSIDE"]` in your settings lets it be read; a hook writes `logs`, `data`, `state`, `cache` and `tmp` in its own folder
    "#]]
        .assert_eq(&outside.tidy(&machine.run(said).await).replace("PROJECT", "OUTSIDE"));
    // The words of programs are English, and those in the middle of much else are the beginning or the end.
    let long = "head -c 300000 /dev/zero | tr '\\0' '\\n' >&2";
    let script =
        format!("#!/bin/sh\n{long}\ncat {}/rules.txt || exit 1\n", outside.path().display());
    machine.program("talks.sh", &script);
    let line = "$CLAUDE_PROJECT_DIR/.claude/hooks/talks.sh";
    let said =
        machine.run(Case::new(one("PreToolUse", "Bash", line), [bash("ls")]).of_project()).await;
    assert!(said.contains("rules.txt was refused"), "{said}");
    let mut german = Machine::new();
    german
        .variables
        .extend([("LC_ALL".into(), "de_DE.UTF-8".into()), ("LANGUAGE".into(), "de".into())]);
    let line = "echo \"$LANG,$LC_MESSAGES,$LC_ALL,$LANGUAGE\" >&2; exit 2";
    let said =
        german.run(Case::new(one("PreToolUse", "Bash", line), [bash("ls")]).of_project()).await;
    assert!(said.contains("de_DE.UTF-8,C,,"), "{said}");
    // A write that it does without is told, and its answer counts.
    check(
        "{ echo > /etc/notes; } || true; echo '{}'",
        expect![[r#"
        result c1.1: ran {"command":"ls"}
        told: hook `PreToolUse-*`: writing to /etc/notes was refused: it belongs to the system
    "#]],
    )
    .await;
    check("python3 -c 'import nowhere_to_be_found'", expect![[r#"
        result c1.1 (denied): Hook "import-119524" blocked the action: it exited with code 1: Traceback (most recent call last):
          File "<string>", line 1, in <module>
        ModuleNotFoundError: No module named 'nowhere_to_be_found'; it runs confined: it reads the project and the `readRoots` of your settings, and writes the project, `logs`, `data`, `state`, `cache` and `tmp` in its own folder, and your `hookRoots`
    "#]]).await;
    let connects = "import socket; socket.create_connection((\"127.0.0.1\", 9))";
    check(&format!("python3 -c '{connects}'"), expect![[r#"
        result c1.1 (denied): Hook "import-a40206" blocked the action: it exited with code 1:     sock = socket(af, socktype, proto)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^
          File "/usr/lib/python3.11/socket.py", line 232, in __init__
            _socket.socket.__init__(self, family, type, proto, fileno)
        PermissionError: [Errno 1] Operation not permitted; the sandbox blocks the network for this command, including this machine's own sockets: only a call that is known to use the network gets it, once a rule or a person allows it (an unknown program never does); `"sandbox": "off"` in the person's settings opens it for all
    "#]]).await;
    check("nowhere-to-be-found --guard", expect![[r#"
        result c1.1: ran {"command":"ls"}
        told: hook `nowhere-to-be-found-7fa9aa` failed and passes: it exited with code 127: /bin/sh: 1: nowhere-to-be-found: not found
    "#]]).await;
}

/// A program outside the system that no word of the command names is hidden: it cannot start, whoever asks.
#[tokio::test]
async fn l8_program_that_the_sandbox_hides_blocks_in_the_claude_dialect() {
    let outside = Scratch::new();
    let checker = outside.path().join("checker");
    fs::write(&checker, "#!/bin/sh\nexit 2\n").unwrap();
    fs::set_permissions(&checker, fs::Permissions::from_mode(0o755)).unwrap();
    let mut machine = Machine::new();
    let path = format!("{}:/usr/bin:/bin", outside.path().display());
    machine.variables = vec![("PATH".into(), path.into())];
    let mut shown = String::new();
    for line in [
        "X=check; ${X}er",
        "X=check; exec \"${PATH%%:*}/${X}er\"",
        "X=check; ${X}er || exit 1",
        "X=check; ${X}er; [ $? -eq 2 ] && exit 2; exit 0",
    ] {
        let case = Case::new(one("PreToolUse", "Bash", line), [bash("ls")]).of_project();
        let said = machine.run(case).await;
        shown += &outside.tidy(&said).replace("PROJECT", "OUTSIDE");
    }
    expect![[r#"
        result c1.1 (denied): Hook "PreToolUse-*" blocked the action: it exited with code 126: /bin/sh: 1: checker: Permission denied; it runs confined: it reads the project and the `readRoots` of your settings, and writes the project, `logs`, `data`, `state`, `cache` and `tmp` in its own folder, and your `hookRoots`
        result c1.1 (denied): Hook "PreToolUse-*" blocked the action: it exited with code 126: /bin/sh: 1: exec: OUTSIDE/checker: Permission denied; starting OUTSIDE/checker was refused: it is outside the project; `"readRoots": ["OUTSIDE"]` in your settings lets it be read; a hook writes `logs`, `data`, `state`, `cache` and `tmp` in its own folder
        result c1.1 (denied): Hook "PreToolUse-*" blocked the action: it exited with code 1: /bin/sh: 1: checker: Permission denied; it runs confined: it reads the project and the `readRoots` of your settings, and writes the project, `logs`, `data`, `state`, `cache` and `tmp` in its own folder, and your `hookRoots`
        result c1.1 (denied): Hook "PreToolUse-*" blocked the action: it exited with code 0: /bin/sh: 1: checker: Permission denied; it runs confined: it reads the project and the `readRoots` of your settings, and writes the project, `logs`, `data`, `state`, `cache` and `tmp` in its own folder, and your `hookRoots`
    "#]].assert_eq(&shown);
}

/// What commands of the agent leave in their temp folder is not in that of a hook.
#[tokio::test]
async fn s15_temp_folder_of_a_hook_is_its_own() {
    let machine = Machine::new();
    let line = "[ -f \"$TMPDIR/reviewed\" ] || { echo not reviewed >&2; exit 2; }";
    let hooks = one("PreToolUse", "Write", line);
    let write = || Step::call("write", json!({"path": "a", "content": "x"}));
    let steps = [bash("touch $TMPDIR/reviewed && ls $TMPDIR"), write()];
    let case = Case { is_real: true, ..Case::new(hooks, steps).of_project() };
    machine
        .check(
            case,
            expect![[r#"
        result c1.1: reviewed
        result c2.1 (denied): Hook "PreToolUse-*" blocked the action: not reviewed
    "#]],
        )
        .await;
}

/// Without a temporary folder no confined program can start.
#[tokio::test]
async fn l8_missing_temp_folder_blocks_in_the_claude_dialect() {
    let mut machine = Machine::new();
    machine.runner = runner().with_temp_below(&machine.path("missing"));
    let case = Case::new(one("PreToolUse", "Bash", "exit 2"), [bash("ls")]).of_project();
    machine.check(case, expect![[r#"
        result c1.1 (denied): Hook "exit-f0dada" blocked the action: cannot create a folder for temporary files: No such file or directory (os error 2); `TMPDIR` must name a folder that can be written
    "#]]).await;
}
