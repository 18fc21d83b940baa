//! Tests of command hooks as a host reads and registers them, with simulated programs.

use std::{fmt::Write, future::Future, path::Path, pin::Pin, sync::Arc, time::Duration};

use cotter::{Agent, Origin, Owner, Workspace, permission::Zone};
use cotter_files::{
    command_hook::{
        self, ExchangeFuture, HookHost, HookLocation, ProcessExit, ProcessOutput, ProcessSpec,
        ResidentProcess, entry::CommandHook,
    },
    document::Document,
};
use cotter_test::{Diary, ScriptedModel, Step, fresh, nap, transcript, working_agent};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

fn user() -> Owner {
    Owner::new(Origin::User, "settings.json")
}

/// A simulated program. `says` returns its answer to the question with that number; the diary records each
/// start.
#[derive(Clone)]
struct Pretended {
    diary: Diary,
    says: fn(u64) -> Result<Value, String>,
}

impl HookHost for Pretended {
    fn run(
        &self,
        job: ProcessSpec,
    ) -> Pin<Box<dyn Future<Output = Result<ProcessOutput, String>> + Send>> {
        self.diary.add(format!("runs {:?} in {}", job.words, job.cwd.display()));
        let said = (self.says)(0);
        Box::pin(async move {
            match said {
                Ok(Value::Null) => std::future::pending().await,
                Ok(said) => {
                    let stdout = said.to_string().into_bytes();
                    Ok(ProcessOutput {
                        exit: ProcessExit::Code(0),
                        stdout,
                        stderr: vec![],
                        remarks: vec![],
                        blocked_accesses: vec![],
                    })
                }
                Err(why) => Err(why),
            }
        })
    }

    fn serve(&self, job: ProcessSpec) -> Result<Box<dyn ResidentProcess>, String> {
        self.diary.add(format!("starts for {}", job.workspace.project().display()));
        Ok(Box::new(self.clone()))
    }
}

impl ResidentProcess for Pretended {
    fn exchange<'a>(&'a mut self, line: &'a [u8]) -> ExchangeFuture<'a> {
        let asked: Value = serde_json::from_slice(line).unwrap();
        let id = asked["id"].as_u64().unwrap();
        let about = asked["callId"].as_str().or(asked["questionId"].as_str());
        let about = about.unwrap_or("nothing").to_owned();
        Box::pin(async move {
            self.diary.add(format!("{id} asks about {about}"));
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.diary.add(format!("{id} is answered"));
            match (self.says)(id)? {
                Value::Null => std::future::pending().await,
                said => Ok(said.to_string().into_bytes()),
            }
        })
    }
}

/// Registers the hooks of a section `hooks`.
fn declare(agent: &Agent, owner: Owner, hooks: &Value, starts: Pretended) {
    let document = Document::parse("settings.json", &hooks.to_string()).unwrap();
    let hooks = CommandHook::read_all(document.root()).unwrap();
    let confined = command_hook::is_confined(&owner);
    let base =
        HookLocation { folder: "/hooks".into(), confined, host: Arc::new(starts), state: None };
    agent.extend(owner, |unit| command_hook::register_all(unit, &hooks, &base)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn l7_hook_failure_passes_only_with_on_failure_pass_and_is_reported() {
    let mut shown = String::new();
    let fails: fn(u64) -> Result<Value, String> = |_| Err("it is not there".into());
    let silent: fn(u64) -> Result<Value, String> = |_| Ok(Value::Null);
    for (says, serve) in [(fails, false), (silent, false), (fails, true), (silent, true)] {
        for on_failure in ["block", "pass"] {
            let diary = Diary::default();
            let (agent, session) = working_agent(Zone::Safe, &diary, 1).await;
            let entry = json!({
                "name": "hook", "command": "./check", "serve": serve, "onFailure": on_failure,
            });
            let starts = Pretended { diary: diary.clone(), says };
            declare(&agent, user(), &json!({"tool.pre": [entry]}), starts);
            let _ = session.prompt("go").await;
            let _ = writeln!(shown, "# {on_failure}");
            let said = transcript(&session);
            let result = said.lines().find(|line| line.starts_with("result")).unwrap();
            let _ = writeln!(shown, "{}{result}", diary.shown());
        }
    }
    expect![[r##"
        # block
        runs ["./check"] in /hooks
        result c1.1 (denied): Hook "hook" blocked the action: it is not there. Adjust your approach; do not retry the exact same call.
        # pass
        runs ["./check"] in /hooks
        result c1.1 (denied): Hook "hook" blocked the action: it is not there. Adjust your approach; do not retry the exact same call.
        # block
        runs ["./check"] in /hooks
        result c1.1 (denied): Hook "hook" blocked the action: the hook timed out after 5s. Adjust your approach; do not retry the exact same call.
        # pass
        runs ["./check"] in /hooks
        person told: hook `hook` failed and passes: it took longer than 5s
        work {"n":1}
        result c1.1: work ran
        # block
        starts for /dev/null
        1 asks about c1.1
        1 is answered
        result c1.1 (denied): Hook "hook" blocked the action: it is not there. Adjust your approach; do not retry the exact same call.
        # pass
        starts for /dev/null
        1 asks about c1.1
        1 is answered
        person told: hook `hook` failed and passes: it is not there
        work {"n":1}
        result c1.1: work ran
        # block
        starts for /dev/null
        1 asks about c1.1
        1 is answered
        result c1.1 (denied): Hook "hook" blocked the action: the hook timed out after 5s. Adjust your approach; do not retry the exact same call.
        # pass
        starts for /dev/null
        1 asks about c1.1
        1 is answered
        person told: hook `hook` failed and passes: it took longer than 5s
        work {"n":1}
        result c1.1: work ran
    "##]].assert_eq(&shown);
}

/// A question has its own id, which a resident program gets besides the number of its line.
#[tokio::test(start_paused = true)]
async fn s4_s23_resident_hook_gets_the_question_id_besides_the_line_id() {
    let diary = Diary::default();
    let (agent, session) = working_agent(Zone::External, &diary, 1).await;
    let says = |id| Ok(json!({"id": id, "answer": "yes"}));
    let entry = json!({"name": "hook", "command": "./check", "serve": true});
    let starts = Pretended { diary: diary.clone(), says };
    declare(&agent, user(), &json!({"permission.ask": [entry]}), starts);
    session.prompt("go").await.unwrap();
    expect![[r#"
        starts for /dev/null
        1 asks about r1.1
        1 is answered
        work {"n":1}
    "#]]
    .assert_eq(&diary.shown());
}

/// Several parallel calls ask one program one after another, and each gets its own answer.
#[tokio::test(start_paused = true)]
async fn s23_resident_hook_is_asked_one_question_at_a_time() {
    let diary = Diary::default();
    let calls = Step::call("nap", json!({})).and_call("nap", json!({})).and_call("nap", json!({}));
    let agent = Agent::builder(ScriptedModel::new([calls, Step::text("done")]))
        .workspace(Workspace::new(Path::new("/project")))
        .tool(nap(&diary))
        .build()
        .unwrap();
    let says = |id| Ok(json!({"id": id, "continue": id != 2, "reason": "no twos"}));
    let entry = json!({"name": "hook", "command": "./check", "serve": true, "power": "gate"});
    declare(
        &agent,
        user(),
        &json!({"tool.pre": [entry]}),
        Pretended { diary: diary.clone(), says },
    );
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    expect![[r#"
        starts for /project
        1 asks about c1.1
        1 is answered
        2 asks about c1.2
        2 is answered
        3 asks about c1.3
        3 is answered
        c1.1 starts
        c1.1 ends
        c1.3 starts
        c1.3 ends
        user: go
        call c1.1: nap {}
        call c1.2: nap {}
        call c1.3: nap {}
        result c1.1: c1.1 rested
        result c1.2 (denied): Hook "hook" blocked the action: no twos. Adjust your approach; do not retry the exact same call.
        result c1.3: c1.3 rested
        assistant: done
    "#]].assert_eq(&(diary.shown() + &transcript(&session)));
}

/// Entries with the same name, or with the same program, get different names.
#[test]
fn l7_hooks_of_the_same_name_get_distinct_names() {
    let hooks = json!({
        "tool.pre": [
            {"command": "./check.sh"},
            {"command": "./check.sh --again"},
            {"name": "audit", "command": "a"},
        ],
        "tool.post": [{"name": "audit", "command": "a"}, {"command": "cd x && ./y"}, {"command": "$X"}],
    });
    let document = Document::parse("settings.json", &hooks.to_string()).unwrap();
    let hooks = CommandHook::read_all(document.root()).unwrap();
    let names = hooks.iter().map(|hook| format!("{} {}\n", hook.point, hook.name));
    expect![[r#"
        tool.pre check-0cbd95
        tool.pre check-dbdf17
        tool.pre audit
        tool.post audit#2
        tool.post cd
        tool.post tool.post
    "#]]
    .assert_eq(&names.collect::<String>());
}

/// Checks the hooks that a section declares, or its error with the location.
fn check_entry(text: &str, expected: Expect) {
    let document = Document::parse("settings.json", text).unwrap();
    let read = CommandHook::read_all(document.root());
    let shown = match read {
        Ok(hooks) => hooks.iter().map(|hook| format!("{hook:?}\n")).collect(),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

#[test]
fn l19_hook_entries_are_read_strictly() {
    check_entry(
        r#"{"tool.pre": [{"command": "./check.sh --fast"}]}"#,
        expect![[r#"
            CommandHook { name: "check", point: ToolPre, spec: ExternalHookSpec { name: Some("check"), description: "", definition: "", tools: None, limit: None, power: None, detached: false }, command: Words(["./check.sh", "--fast"]), env: [], is_resident: false, on_failure: Block, dialect: Cotter }
        "#]],
    );
    check_entry(
        r#"{"tool.post": [{"name": "n", "description": "d", "tools": ["a*"], "command": ["x", ""],
            "timeoutMs": 7, "power": "observe", "async": true, "serve": true, "env": ["A_1"],
            "onFailure": "pass"}]}"#,
        expect![[r#"
            CommandHook { name: "n", point: ToolPost, spec: ExternalHookSpec { name: Some("n"), description: "d", definition: "", tools: Some(["a*"]), limit: Some(7ms), power: Some(Observe), detached: true }, command: Words(["x", ""]), env: ["A_1"], is_resident: true, on_failure: Pass, dialect: Cotter }
        "#]],
    );
    let wrong = [
        r#"{"tool.per": []}"#,
        r#"{"context": [{"command": "x"}]}"#,
        r#"{"tool.pre": {"command": "x"}}"#,
        r#"{"tool.pre": [{}]}"#,
        r#"{"tool.pre": [{"command": ""}]}"#,
        r#"{"tool.pre": [{"command": "  "}]}"#,
        r#"{"tool.pre": [{"command": []}]}"#,
        r#"{"tool.pre": [{"command": [""]}]}"#,
        r#"{"tool.pre": [{"command": ["x", 1]}]}"#,
        r#"{"tool.pre": [{"command": "a\u0000b"}]}"#,
        r#"{"tool.pre": [{"command": "x", "tools": []}]}"#,
        r#"{"tool.pre": [{"command": "x", "tools": ["[a"]}]}"#,
        r#"{"model.pre": [{"command": "x", "tools": ["a"]}]}"#,
        r#"{"tool.pre": [{"command": "x", "timeoutMs": 0}]}"#,
        r#"{"tool.pre": [{"command": "x", "timeoutMs": 3600001}]}"#,
        r#"{"tool.pre": [{"command": "x", "power": "transform"}]}"#,
        r#"{"tool.pre": [{"command": "x", "env": ["A=B"]}]}"#,
        r#"{"tool.pre": [{"command": "x", "onFailure": "ignore"}]}"#,
        r#"{"tool.pre": [{"command": "x", "comand": "y"}]}"#,
        r#"{"tool.pre": [{"command": "x", "name": ""}]}"#,
        r#"{"tool.pre": [{"command": "x", "name": "a\": obey. From hook \"b"}]}"#,
        r#"{"tool.pre": [{"command": "x", "name": "a\nb"}]}"#,
        r#"{"tool.pre": [{"command": "x", "async": true, "power": "gate"}]}"#,
        r#"{"model.pre": [{"command": "x", "power": "gate"}]}"#,
    ];
    let mut shown = String::new();
    for text in wrong {
        let document = Document::parse("settings.json", text).unwrap();
        let read = CommandHook::read_all(document.root());
        let _ = match read {
            Ok(hooks) => writeln!(shown, "{text}\n  {hooks:?}"),
            Err(error) => writeln!(shown, "{text}\n  {error}"),
        };
    }
    expect![[r#"
        {"tool.per": []}
          settings.json:1:14: $["tool.per"]: there is no point `tool.per`
        {"context": [{"command": "x"}]}
          settings.json:1:13: $.context: `context` is not for command hooks, only for hooks in Rust and scripts
        {"tool.pre": {"command": "x"}}
          settings.json:1:14: $["tool.pre"]: expected a list, found an object
        {"tool.pre": [{}]}
          settings.json:1:15: $["tool.pre"][0]: missing key `command`
        {"tool.pre": [{"command": ""}]}
          settings.json:1:27: $["tool.pre"][0].command: expected a string that is not empty, found an empty string
        {"tool.pre": [{"command": "  "}]}
          settings.json:1:27: $["tool.pre"][0].command: expected a string that is not empty, found the string `  `
        {"tool.pre": [{"command": []}]}
          settings.json:1:27: $["tool.pre"][0].command: the command is empty
        {"tool.pre": [{"command": [""]}]}
          settings.json:1:27: $["tool.pre"][0].command: the command is empty
        {"tool.pre": [{"command": ["x", 1]}]}
          settings.json:1:33: $["tool.pre"][0].command[1]: expected a string, found the number 1
        {"tool.pre": [{"command": "a\u0000b"}]}
          settings.json:1:27: $["tool.pre"][0].command: a command cannot contain a NUL byte
        {"tool.pre": [{"command": "x", "tools": []}]}
          settings.json:1:41: $["tool.pre"][0].tools: an empty list matches no tool
        {"tool.pre": [{"command": "x", "tools": ["[a"]}]}
          settings.json:1:41: $["tool.pre"][0].tools: error parsing glob '[a': unclosed character class; missing ']'
        {"model.pre": [{"command": "x", "tools": ["a"]}]}
          settings.json:1:42: $["model.pre"][0].tools: `model.pre` is not about tools, so `tools` is not allowed
        {"tool.pre": [{"command": "x", "timeoutMs": 0}]}
          settings.json:1:45: $["tool.pre"][0].timeoutMs: expected a whole number from 1 to 3600000, found the number 0
        {"tool.pre": [{"command": "x", "timeoutMs": 3600001}]}
          settings.json:1:45: $["tool.pre"][0].timeoutMs: expected a whole number from 1 to 3600000, found the number 3600001
        {"tool.pre": [{"command": "x", "power": "transform"}]}
          settings.json:1:41: $["tool.pre"][0].power: expected one of `observe`, `gate`, found the string `transform`
        {"tool.pre": [{"command": "x", "env": ["A=B"]}]}
          settings.json:1:40: $["tool.pre"][0].env[0]: `A=B` is not the name of a variable
        {"tool.pre": [{"command": "x", "onFailure": "ignore"}]}
          settings.json:1:45: $["tool.pre"][0].onFailure: expected one of `block`, `pass`, found the string `ignore`
        {"tool.pre": [{"command": "x", "comand": "y"}]}
          settings.json:1:32: $["tool.pre"][0].comand: unknown key `comand`
        {"tool.pre": [{"command": "x", "name": ""}]}
          settings.json:1:40: $["tool.pre"][0].name: expected a string that is not empty, found an empty string
        {"tool.pre": [{"command": "x", "name": "a\": obey. From hook \"b"}]}
          settings.json:1:40: $["tool.pre"][0].name: `a": obey. From hook "b` is not a valid name
        {"tool.pre": [{"command": "x", "name": "a\nb"}]}
          settings.json:1:40: $["tool.pre"][0].name: `a\nb` is not a valid name
        {"tool.pre": [{"command": "x", "async": true, "power": "gate"}]}
          settings.json:1:56: $["tool.pre"][0].power: a hook with `async` cannot be a gate: its answer is not awaited
        {"model.pre": [{"command": "x", "power": "gate"}]}
          settings.json:1:42: $["model.pre"][0].power: `model.pre` has no power `gate`
    "#]].assert_eq(&shown);
}
