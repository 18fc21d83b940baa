//! Tests of external hooks: the meaning of an answer at every point and for every origin, the interaction of
//! several hooks, and the payloads.

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use cotter::{
    Agent, HookCx, Origin, Owner, Subagent, Workspace,
    hooks::{
        external::{ExternalHook, ExternalHookSpec, HookAnswer, HookFuture, HookRequest},
        points::{POINTS, PointId},
    },
    model::ModelErrorKind,
    permission::{
        Zone,
        rule::{Rule, RuleKind},
        verdict::Power,
    },
};
use cotter_test::{
    Diary, DiaryUi, PersonAnswer, ScriptedModel, ScriptedUi, Step, ending, fresh, probe,
    transcript, working_agent,
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::kit::records;

type Says = dyn Fn(&HookRequest) -> Result<Value, String> + Send + Sync;

/// A hook that answers with JSON, and writes down each request.
struct Fake {
    name: &'static str,
    diary: Diary,
    says: Arc<Says>,
}

impl ExternalHook for Fake {
    fn ask(&self, asked: HookRequest) -> HookFuture {
        let what = match asked.point {
            PointId::ToolPre => asked.payload["toolInput"].to_string(),
            _ => asked.point.to_string(),
        };
        self.diary.add(format!("{} is asked about {what}", self.name));
        let says = self.says.clone();
        Box::pin(async move {
            tokio::task::yield_now().await;
            says(&asked).and_then(|said| read(asked.point, &said))
        })
    }
}

fn read(point: PointId, said: &Value) -> Result<HookAnswer, String> {
    HookAnswer::read(point, said.as_object().expect("the test's answer is an object"))
}

fn named_spec(name: &'static str) -> ExternalHookSpec {
    ExternalHookSpec { name: Some(name.into()), ..ExternalHookSpec::default() }
}

fn user() -> Owner {
    Owner::new(Origin::User, "settings.json")
}

fn project() -> Owner {
    Owner::new(Origin::Project, "settings.json")
}

fn profile() -> Owner {
    Owner::new(Origin::Profile("p".into()), "agent.json")
}

/// Owners that may register a hook, each with a different highest power.
fn owners() -> [(&'static str, Owner); 4] {
    [
        ("user", user()),
        ("granted", project().with_rewrite()),
        ("project", project()),
        ("profile", profile()),
    ]
}

/// Runs a session that passes every point, with one hook at one of them. Returns every event, one line each.
async fn run_every_point(point: PointId, owner: Owner, says: Arc<Says>) -> Vec<String> {
    let diary = Diary::default();
    let calls = Step::call("risky", json!({"n": 1}))
        .and_call("no", json!({}))
        .and_call("invoke_subagent", json!({"name": "helper", "prompt": "help"}));
    let steps = ["done", "a summary", "bye", "more", "still more"].map(Step::text);
    let person = DiaryUi::new(vec![PersonAnswer::Yes; 8], &diary);
    let agent = Agent::builder(ScriptedModel::new([calls].into_iter().chain(steps)))
        .ui(person)
        .define_mention(Subagent::new("helper", |_| async { Ok("helped".into()) }))
        .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .tool(probe("risky", Zone::External, &diary))
        .tool(probe("no", Zone::Safe, &diary))
        .rule(Rule::parse(RuleKind::Deny, "no").unwrap())
        .build()
        .unwrap();
    let hook = Fake { name: "hook", diary: Diary::default(), says };
    agent
        .extend(owner, |unit| _ = unit.register_external(point, named_spec("hook"), Arc::new(hook)))
        .unwrap();
    let session = fresh(&agent).await;
    for prompt in ["go", "/compact again"] {
        let reply = session.prompt(prompt).await;
        diary.add(format!("ended: {}", ending(&reply)));
    }
    agent.set_model(ScriptedModel::new([Step::error(ModelErrorKind::Auth)]));
    let reply = session.prompt("fail").await;
    diary.add(format!("ended: {}", ending(&reply)));
    let mut lines = diary.lines();
    let said = transcript(&session);
    let said = said.replace("<system-reminder>\n", "").replace("\n</system-reminder>", "");
    lines.extend(said.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    session.close().await;
    lines
}

/// Returns the difference: removed lines and added lines.
fn difference(before: &[String], after: &[String]) -> String {
    let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
    before.iter().for_each(|line| *counts.entry(line).or_default() -= 1);
    after.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    let mut shown = String::new();
    for (mark, sign, lines) in [("-", -1, before), ("+", 1, after)] {
        for line in lines {
            let count = counts.get_mut(line.as_str()).expect("every line was counted");
            if *count * sign > 0 {
                *count -= sign;
                let _ = writeln!(shown, "    {mark} {line}");
            }
        }
    }
    match shown.is_empty() {
        true => "    nothing changes\n".into(),
        false => shown,
    }
}

/// Checks the effect of each answer at a point, for each origin. Origins with the same effect are grouped.
async fn check(point: PointId, answers: &[Value], expected: Expect) {
    let quiet = run_every_point(point, user(), Arc::new(|_| Ok(json!({})))).await;
    let mut shown = String::new();
    let failure = json!("fails");
    for answer in answers.iter().chain([&failure]) {
        let mut rows: Vec<(String, String)> = vec![];
        for (who, owner) in owners() {
            let said = answer.clone();
            let says = move |asked: &HookRequest| match &said {
                Value::String(_) => Err("out of order".into()),
                // Once is enough to see that the model continues.
                _ if asked.payload["goneOn"].as_u64() > Some(0) => Ok(json!({})),
                said => Ok(said.clone()),
            };
            let happened = run_every_point(point, owner, Arc::new(says)).await;
            let difference = difference(&quiet, &happened);
            match rows.iter_mut().find(|(_, row)| *row == difference) {
                Some((whose, _)) => *whose += &format!(", {who}"),
                None => rows.push((who.into(), difference)),
            }
        }
        let _ = writeln!(shown, "{answer}");
        rows.iter().for_each(|(who, row)| _ = write!(shown, "  {who}:\n{row}"));
    }
    expected.assert_eq(&shown);
}

fn words() -> Value {
    json!({"output": "seen", "additionalContext": "it is Friday"})
}

fn block() -> Value {
    json!({"continue": false, "reason": "not today"})
}

fn ask() -> Value {
    json!({"ask": "sure?"})
}

#[tokio::test(start_paused = true)]
async fn l8_external_hook_answers_at_tool_pre() {
    let input = json!({"input": {"n": 2}});
    let both = json!({"input": {"n": 2}, "ask": "sure of 2?"});
    let result = json!({"result": "cached"});
    let answers = [block(), ask(), input, both, result, words()];
    check(PointId::ToolPre, &answers, expect![[r#"
        {"continue":false,"reason":"not today"}
          user, granted:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.2 (denied): Denied: the rule `deny no` denies it. Do not retry this exact call.
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: not today. Adjust your approach; do not retry the exact same call.
            + result c1.2 (denied): Hook "hook" blocked the action: not today. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: not today. Adjust your approach; do not retry the exact same call.
          project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: not today. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: not today. Adjust your approach; do not retry the exact same call.
        {"ask":"sure?"}
          user, granted, project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            + person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`; hook: sure?
            + person asked: invoke_subagent {"name":"helper","prompt":"help"} <- hook: sure?
        {"input":{"n":2}}
          user, granted:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + person asked: risky {"n":2} <- zone: zone `external` asks at level `standard`
            + risky {"n":2}
            + result c1.3 (invalid_args): Invalid arguments for `invoke_subagent`: "name" is a required property; "prompt" is a required property; Additional properties are not allowed ('n' was unexpected).
          project:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: it may not change anything: its owner was not granted `rewrite`. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: it may not change anything: its owner was not granted `rewrite`. Adjust your approach; do not retry the exact same call.
          profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: it may not change anything: it belongs to a profile. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: it may not change anything: it belongs to a profile. Adjust your approach; do not retry the exact same call.
        {"input":{"n":2},"ask":"sure of 2?"}
          user, granted:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + person asked: risky {"n":2} <- zone: zone `external` asks at level `standard`; hook: sure of 2?
            + risky {"n":2}
            + result c1.3 (invalid_args): Invalid arguments for `invoke_subagent`: "name" is a required property; "prompt" is a required property; Additional properties are not allowed ('n' was unexpected).
          project:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: it may not change anything: its owner was not granted `rewrite`. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: it may not change anything: its owner was not granted `rewrite`. Adjust your approach; do not retry the exact same call.
          profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: it may not change anything: it belongs to a profile. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: it may not change anything: it belongs to a profile. Adjust your approach; do not retry the exact same call.
        {"result":"cached"}
          user, granted:
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1: cached
            + result c1.3: cached
          project:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: it may not change anything: its owner was not granted `rewrite`. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: it may not change anything: its owner was not granted `rewrite`. Adjust your approach; do not retry the exact same call.
          profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: it may not change anything: it belongs to a profile. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: it may not change anything: it belongs to a profile. Adjust your approach; do not retry the exact same call.
        {"output":"seen","additionalContext":"it is Friday"}
          user:
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
          granted, project:
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
          profile:
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        "fails"
          user, granted:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.2 (denied): Denied: the rule `deny no` denies it. Do not retry this exact call.
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: out of order. Adjust your approach; do not retry the exact same call.
            + result c1.2 (denied): Hook "hook" blocked the action: out of order. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: out of order. Adjust your approach; do not retry the exact same call.
          project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (denied): Hook "hook" blocked the action: out of order. Adjust your approach; do not retry the exact same call.
            + result c1.3 (denied): Hook "hook" blocked the action: out of order. Adjust your approach; do not retry the exact same call.
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn l8_external_hook_answers_at_tool_post() {
    let result = json!({"result": "[redacted]"});
    check(PointId::ToolPost, &[block(), ask(), result, words()], expect![[r#"
        {"continue":false,"reason":"not today"}
          user:
            + note: From hook "hook": Warning: not today
          granted, project:
            + note: From hook "hook" of this project: Warning: not today
          profile:
            + note: From hook "hook" of the profile "p": Warning: not today
        {"ask":"sure?"}
          user:
            + note: From hook "hook": Warning: sure?
          granted, project:
            + note: From hook "hook" of this project: Warning: sure?
          profile:
            + note: From hook "hook" of the profile "p": Warning: sure?
        {"result":"[redacted]"}
          user, granted:
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1: [redacted]
            + result c1.3: [redacted]
          project:
            + person told: hook `hook` may not change anything at `tool.post`: its owner was not granted `rewrite`; its change is ignored
            + person told: hook `hook` may not change anything at `tool.post`: its owner was not granted `rewrite`; its change is ignored
          profile:
            + person told: hook `hook` may not change anything at `tool.post`: it belongs to a profile; its change is ignored
            + person told: hook `hook` may not change anything at `tool.post`: it belongs to a profile; its change is ignored
        {"output":"seen","additionalContext":"it is Friday"}
          user:
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
          granted, project:
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
          profile:
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        "fails"
          user, granted:
            - result c1.1: risky ran
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.1 (unavailable): the tool ran, but its result is withheld: out of order
            + result c1.3 (unavailable): the tool ran, but its result is withheld: out of order
          project, profile:
            nothing changes
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn l8_external_hook_answers_at_user_prompt_submit() {
    let prompt = json!({"prompt": "go slowly"});
    check(PointId::UserPromptSubmit, &[block(), ask(), prompt, words()], expect![[r#"
        {"continue":false,"reason":"not today"}
          user, granted, project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - ended: end_turn
            - ended: end_turn
            - ended: error: auth: the script says so
            - user: go
            - call c1.1: risky {"n":1}
            - call c1.2: no {}
            - call c1.3: invoke_subagent {"name":"helper","prompt":"help"}
            - result c1.1: risky ran
            - result c1.2 (denied): Denied: the rule `deny no` denies it. Do not retry this exact call.
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            - assistant: done
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            - user: fail
            + ended: blocked: blocked: hook "hook" refused the prompt: not today
            + ended: error: hook: hook "compact" failed: there is nothing to compact
            + ended: blocked: blocked: hook "hook" refused the prompt: not today
        {"ask":"sure?"}
          user, granted, project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - ended: end_turn
            - ended: end_turn
            - ended: error: auth: the script says so
            - user: go
            - call c1.1: risky {"n":1}
            - call c1.2: no {}
            - call c1.3: invoke_subagent {"name":"helper","prompt":"help"}
            - result c1.1: risky ran
            - result c1.2 (denied): Denied: the rule `deny no` denies it. Do not retry this exact call.
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            - assistant: done
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            - user: fail
            + ended: blocked: blocked: hook "hook" refused the prompt: sure?
            + ended: error: hook: hook "compact" failed: there is nothing to compact
            + ended: blocked: blocked: hook "hook" refused the prompt: sure?
        {"prompt":"go slowly"}
          user, granted:
            - user: go
            - user: again
            - user: fail
            + user: go slowly
            + user: go slowly
            + user: go slowly
          project:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - ended: end_turn
            - ended: end_turn
            - ended: error: auth: the script says so
            - user: go
            - call c1.1: risky {"n":1}
            - call c1.2: no {}
            - call c1.3: invoke_subagent {"name":"helper","prompt":"help"}
            - result c1.1: risky ran
            - result c1.2 (denied): Denied: the rule `deny no` denies it. Do not retry this exact call.
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            - assistant: done
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            - user: fail
            + ended: blocked: blocked: hook "hook" refused the prompt: it may not change anything: its owner was not granted `rewrite`
            + ended: error: hook: hook "compact" failed: there is nothing to compact
            + ended: blocked: blocked: hook "hook" refused the prompt: it may not change anything: its owner was not granted `rewrite`
          profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - ended: end_turn
            - ended: end_turn
            - ended: error: auth: the script says so
            - user: go
            - call c1.1: risky {"n":1}
            - call c1.2: no {}
            - call c1.3: invoke_subagent {"name":"helper","prompt":"help"}
            - result c1.1: risky ran
            - result c1.2 (denied): Denied: the rule `deny no` denies it. Do not retry this exact call.
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            - assistant: done
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            - user: fail
            + ended: blocked: blocked: hook "hook" refused the prompt: it may not change anything: it belongs to a profile
            + ended: error: hook: hook "compact" failed: there is nothing to compact
            + ended: blocked: blocked: hook "hook" refused the prompt: it may not change anything: it belongs to a profile
        {"output":"seen","additionalContext":"it is Friday"}
          user:
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
          granted, project:
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
          profile:
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        "fails"
          user, granted, project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - ended: end_turn
            - ended: end_turn
            - ended: error: auth: the script says so
            - user: go
            - call c1.1: risky {"n":1}
            - call c1.2: no {}
            - call c1.3: invoke_subagent {"name":"helper","prompt":"help"}
            - result c1.1: risky ran
            - result c1.2 (denied): Denied: the rule `deny no` denies it. Do not retry this exact call.
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            - assistant: done
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            - user: fail
            + ended: blocked: blocked: hook "hook" refused the prompt: out of order
            + ended: error: hook: hook "compact" failed: there is nothing to compact
            + ended: blocked: blocked: hook "hook" refused the prompt: out of order
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn l8_external_hook_answers_at_permission_ask() {
    let yes = json!({"answer": "yes"});
    let no = json!({"answer": "no", "reason": "not on Fridays"});
    let unsure = json!({"answer": "yes", "ask": "sure?"});
    let answers = [block(), ask(), yes, no, unsure, json!({"answer": "perhaps"}), words()];
    check(PointId::PermissionAsk, &answers, expect![[r#"
        {"continue":false,"reason":"not today"}
          user, granted, project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            + result c1.1 (denied): Permission denied for `risky`: not today. Do not retry this exact call.
        {"ask":"sure?"}
          user, granted, project, profile:
            nothing changes
        {"answer":"yes"}
          user:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
          granted, project, profile:
            nothing changes
        {"answer":"no","reason":"not on Fridays"}
          user, granted, project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            + result c1.1 (denied): Permission denied for `risky`: not on Fridays. Do not retry this exact call.
        {"answer":"yes","ask":"sure?"}
          user, granted, project, profile:
            nothing changes
        {"answer":"perhaps"}
          user:
            nothing changes
          granted, project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            + result c1.1 (denied): Permission denied for `risky`: `answer` in its answer is neither "yes" nor "no". Do not retry this exact call.
        {"output":"seen","additionalContext":"it is Friday"}
          user:
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
          granted, project:
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
          profile:
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        "fails"
          user:
            nothing changes
          granted, project, profile:
            - person asked: risky {"n":1} <- zone: zone `external` asks at level `standard`
            - risky {"n":1}
            - result c1.1: risky ran
            + result c1.1 (denied): Permission denied for `risky`: out of order. Do not retry this exact call.
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn l8_external_hook_answers_at_compact_pre() {
    let summary = json!({"summary": "we went"});
    check(PointId::CompactPre, &[block(), ask(), summary, words()], expect![[r#"
        {"continue":false,"reason":"not today"}
          user, granted, project, profile:
            - ended: end_turn
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            + ended: error: hook: hook "compact" failed: hook "hook" refused the compaction: not today
        {"ask":"sure?"}
          user, granted, project, profile:
            - ended: end_turn
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            + ended: error: hook: hook "compact" failed: hook "hook" refused the compaction: sure?
        {"summary":"we went"}
          user, granted:
            - a summary
            - assistant: bye
            + we went
            + assistant: a summary
          project:
            - ended: end_turn
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            + ended: error: hook: hook "compact" failed: hook "hook" refused the compaction: it may not change anything: its owner was not granted `rewrite`
          profile:
            - ended: end_turn
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            + ended: error: hook: hook "compact" failed: hook "hook" refused the compaction: it may not change anything: it belongs to a profile
        {"output":"seen","additionalContext":"it is Friday"}
          user:
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
          granted, project:
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
          profile:
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        "fails"
          user, granted, project, profile:
            - ended: end_turn
            - compaction: [Summary of the conversation so far]
            - a summary
            - [End of the summary; the conversation goes on from here]
            - user: again
            - assistant: bye
            + ended: error: hook: hook "compact" failed: hook "hook" refused the compaction: out of order
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn l8_external_hook_answers_at_subagent_start() {
    check(PointId::SubagentStart, &[block(), ask(), words()], expect![[r#"
        {"continue":false,"reason":"not today"}
          user, granted, project, profile:
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.3 (denied): {"status":"error","message":"Hook \"hook\" blocked the action: not today. Adjust your approach; do not retry the exact same call.","data":null}
        {"ask":"sure?"}
          user, granted, project, profile:
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.3 (denied): {"status":"error","message":"Hook \"hook\" blocked the action: sure?. Adjust your approach; do not retry the exact same call.","data":null}
        {"output":"seen","additionalContext":"it is Friday"}
          user:
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
          granted, project:
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
          profile:
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        "fails"
          user, granted, project, profile:
            - result c1.3: {"status":"success","data":{"subagent":"helper","content":"helped"}}
            + result c1.3 (denied): {"status":"error","message":"Hook \"hook\" blocked the action: out of order. Adjust your approach; do not retry the exact same call.","data":null}
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn l8_external_hook_answers_at_turn_end() {
    let on = json!({"goOn": "run the tests"});
    check(
        PointId::TurnEnd,
        &[block(), ask(), on, words()],
        expect![[r#"
            {"continue":false,"reason":"not today"}
              user, granted, project, profile:
                - a summary
                - assistant: bye
                + note: Hook "hook" asks you to continue: not today
                + assistant: a summary
                + bye
                + assistant: more
                + note: Hook "hook" asks you to continue: not today
                + assistant: still more
            {"ask":"sure?"}
              user, granted, project, profile:
                nothing changes
            {"goOn":"run the tests"}
              user, granted, project, profile:
                - a summary
                - assistant: bye
                + note: Hook "hook" asks you to continue: run the tests
                + assistant: a summary
                + bye
                + assistant: more
                + note: Hook "hook" asks you to continue: run the tests
                + assistant: still more
            {"output":"seen","additionalContext":"it is Friday"}
              user:
                + note: Output of hook "hook": seen
                + From hook "hook": it is Friday
              granted, project:
                + note: Output of hook "hook" of this project: seen
                + From hook "hook" of this project: it is Friday
              profile:
                + note: Output of hook "hook" of the profile "p": seen
                + From hook "hook" of the profile "p": it is Friday
            "fails"
              user, granted, project, profile:
                nothing changes
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn l8_external_hook_answers_at_session_start() {
    check(
        PointId::SessionStart,
        &[block(), ask(), words()],
        expect![[r#"
        {"continue":false,"reason":"not today"}
          user:
            + note: From hook "hook": Warning: not today
            + note: From hook "hook": Warning: not today
          granted, project:
            + note: From hook "hook" of this project: Warning: not today
            + note: From hook "hook" of this project: Warning: not today
          profile:
            + note: From hook "hook" of the profile "p": Warning: not today
            + note: From hook "hook" of the profile "p": Warning: not today
        {"ask":"sure?"}
          user:
            + note: From hook "hook": Warning: sure?
            + note: From hook "hook": Warning: sure?
          granted, project:
            + note: From hook "hook" of this project: Warning: sure?
            + note: From hook "hook" of this project: Warning: sure?
          profile:
            + note: From hook "hook" of the profile "p": Warning: sure?
            + note: From hook "hook" of the profile "p": Warning: sure?
        {"output":"seen","additionalContext":"it is Friday"}
          user:
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
          granted, project:
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
          profile:
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        "fails"
          user, granted, project, profile:
            nothing changes
    "#]],
    )
    .await;
}

/// An answer at these points decides nothing; its output and context still reach the model.
#[tokio::test(start_paused = true)]
async fn l8_external_hook_answers_at_observe_only_points_decide_nothing() {
    let decided = [
        PointId::ToolPre,
        PointId::ToolPost,
        PointId::UserPromptSubmit,
        PointId::PermissionAsk,
        PointId::CompactPre,
        PointId::SubagentStart,
        PointId::TurnEnd,
        PointId::SessionStart,
        PointId::Context,
    ];
    let everything_said = json!({
        "continue": false, "block": true, "ask": "sure?", "reason": "no", "input": {}, "result": "r",
        "prompt": "p", "summary": "s", "goOn": "g", "answer": "yes",
    });
    let mut shown = String::new();
    for row in POINTS.iter().filter(|row| !decided.contains(&row.id)) {
        let _ = writeln!(shown, "{}", row.name);
        let quiet = run_every_point(row.id, user(), Arc::new(|_| Ok(json!({})))).await;
        for said in [Ok(everything_said.clone()), Err("out of order".to_owned()), Ok(words())] {
            for (_, owner) in owners() {
                let (said, is_words) = (said.clone(), said == Ok(words()));
                let happened =
                    run_every_point(row.id, owner, Arc::new(move |_| said.clone())).await;
                let difference = difference(&quiet, &happened);
                match is_words {
                    true => shown += &difference,
                    false => assert_eq!(difference, "    nothing changes\n", "{}", row.name),
                }
            }
        }
    }
    expect![[r#"
        session.open
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        model.pre
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        model.post
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        tool.refused
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        compact.post
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        subagent.end
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        error
            nothing changes
            nothing changes
            nothing changes
            nothing changes
        session.end
            + note: Output of hook "hook": seen
            + From hook "hook": it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of this project: seen
            + From hook "hook" of this project: it is Friday
            + note: Output of hook "hook" of the profile "p": seen
            + From hook "hook" of the profile "p": it is Friday
        session.close
            nothing changes
            nothing changes
            nothing changes
            nothing changes
    "#]]
    .assert_eq(&shown);
}

#[test]
fn l8_external_hook_at_context_is_refused() {
    let agent = Agent::builder(ScriptedModel::new([])).build().unwrap();
    let hook = || Fake { name: "hook", diary: Diary::default(), says: Arc::new(|_| Ok(json!({}))) };
    let put = agent.extend(user(), |unit| {
        unit.register_external(PointId::Context, named_spec("hook"), Arc::new(hook()));
    });
    expect!["hook `hook`: only hooks in Rust and scripts can run at `context`"]
        .assert_eq(&put.unwrap_err().to_string());
}

/// A hook at `tool.pre`: its name, its owner and its answer to an input.
type Guard = (&'static str, Owner, Arc<Says>);

fn guard(
    name: &'static str,
    owner: Owner,
    says: impl Fn(&Value) -> Value + Send + Sync + 'static,
) -> Guard {
    (name, owner, Arc::new(move |asked: &HookRequest| Ok(says(&asked.payload["toolInput"]))))
}

/// Runs one call in a zone. Returns the diary, then the records.
async fn guarded(zone: Zone, guards: Vec<Guard>) -> String {
    let diary = Diary::default();
    let (agent, session) = working_agent(zone, &diary, 1).await;
    put(&agent, &diary, guards);
    let _ = session.prompt("go").await;
    let result = transcript(&session);
    let result = result.lines().filter(|line| line.starts_with("result"));
    let result = result.map(|line| format!("{line}\n")).collect::<String>();
    diary.shown() + &result + &records(&**agent.store(), session.id())
}

fn put(agent: &Agent, diary: &Diary, guards: Vec<Guard>) {
    for (index, (name, owner, says)) in guards.into_iter().enumerate() {
        let owner = match &owner.origin {
            Origin::Project => owner,
            origin => Owner::new(origin.clone(), format!("{index}")),
        };
        let hook = Arc::new(Fake { name, diary: diary.clone(), says });
        agent
            .extend(owner, |unit| {
                _ = unit.register_external(PointId::ToolPre, named_spec(name), hook)
            })
            .unwrap();
    }
}

/// Returns a hook that changes `{"n": from}` to `{"n": to}` and leaves other inputs unchanged.
fn makes(from: u64, to: u64) -> impl Fn(&Value) -> Value + Send + Sync + 'static {
    move |input| if input["n"] == from { json!({"input": {"n": to}}) } else { json!({}) }
}

#[tokio::test(start_paused = true)]
async fn l11_rewrites_are_applied_in_order_and_the_second_sees_the_first() {
    let add = |input: &Value| match input["n"].as_u64() {
        Some(n) if n < 10 => json!({"input": {"n": n + 10}}),
        _ => json!({}),
    };
    let second = |input: &Value| match input["n"].as_u64() {
        Some(n) if n < 100 => json!({"input": {"n": n + 100}}),
        _ => json!({}),
    };
    let guards = vec![guard("first", user(), add), guard("second", user(), second)];
    expect![[r#"
        first is asked about {"n":1}
        second is asked about {"n":1}
        second is asked about {"n":11}
        first is asked about {"n":111}
        work {"n":111}
        result c1.1: work ran
        run.start r1
        ledger c1.1 work {"n":111} pass zone
          first: {"n":1} -> {"n":11}
          second: {"n":11} -> {"n":111}
        outcome c1.1 ok
        run.end r1 end_turn
    "#]]
    .assert_eq(&guarded(Zone::Safe, guards).await);
}

/// The verdict is about the input that runs. The hook is asked twice: with the other hooks, and on their
/// result.
#[tokio::test(start_paused = true)]
async fn l11_gate_is_asked_again_about_the_rewritten_input() {
    let no_twos = |input: &Value| match input["n"] == 2 {
        true => json!({"continue": false, "reason": "no twos"}),
        false => json!({}),
    };
    let guards = vec![guard("judge", user(), no_twos), guard("rewrites", user(), makes(1, 2))];
    expect![[r#"
        judge is asked about {"n":1}
        rewrites is asked about {"n":1}
        judge is asked about {"n":2}
        result c1.1 (denied): Hook "judge" blocked the action: no twos. Adjust your approach; do not retry the exact same call.
        run.start r1
        ledger c1.1 work {"n":2} block judge no twos
          rewrites: {"n":1} -> {"n":2}
        run.end r1 end_turn
    "#]].assert_eq(&guarded(Zone::Safe, guards).await);
    let ones = vec![guard("judge", user(), no_twos), guard("rewrites", user(), makes(3, 2))];
    expect![[r#"
        judge is asked about {"n":1}
        rewrites is asked about {"n":1}
        work {"n":1}
        result c1.1: work ran
        run.start r1
        ledger c1.1 work {"n":1} pass zone
        outcome c1.1 ok
        run.end r1 end_turn
    "#]]
    .assert_eq(&guarded(Zone::Safe, ones).await);
    let bound = vec![guard("rewrites", user(), makes(1, 2)), guard("judge", project(), no_twos)];
    expect![[r#"
        rewrites is asked about {"n":1}
        judge is asked about {"n":2}
        result c1.1 (denied): Hook "judge" blocked the action: no twos. Adjust your approach; do not retry the exact same call.
        run.start r1
        ledger c1.1 work {"n":2} block judge no twos
          rewrites: {"n":1} -> {"n":2}
        run.end r1 end_turn
    "#]].assert_eq(&guarded(Zone::Safe, bound).await);
}

#[tokio::test(start_paused = true)]
async fn l11_hook_that_undoes_the_rewrite_of_another_blocks() {
    let ones = guard("ones", user(), |input| match input["n"] == 1 {
        true => json!({}),
        false => json!({"input": {"n": 1}}),
    });
    let guards = vec![ones, guard("twos", user(), makes(1, 2))];
    expect![[r#"
        ones is asked about {"n":1}
        twos is asked about {"n":1}
        ones is asked about {"n":2}
        result c1.1 (denied): Hook "ones" blocked the action: it would change the event again, after another hook changed it. Adjust your approach; do not retry the exact same call.
        run.start r1
        ledger c1.1 work {"n":2} block ones it would change the event again, after another hook changed it
          twos: {"n":1} -> {"n":2}
        run.end r1 end_turn
    "#]].assert_eq(&guarded(Zone::Safe, guards).await);
}

/// A hook that repeats its own change changes nothing, also when it is asked again after a person's yes.
#[tokio::test(start_paused = true)]
async fn l11_hook_that_repeats_its_rewrite_changes_nothing() {
    let always = |_: &Value| json!({"input": {"n": 2}});
    expect![[r#"
        always is asked about {"n":1}
        person asked: work {"n":2} <- zone: zone `external` asks at level `standard`
        always is asked about {"n":2}
        work {"n":2}
        result c1.1: work ran
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 test [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 work {"n":2} pass zone test
          always: {"n":1} -> {"n":2}
        outcome c1.1 ok
        run.end r1 end_turn
    "#]].assert_eq(&guarded(Zone::External, vec![guard("always", user(), always)]).await);
    let same = |input: &Value| json!({ "input": input });
    expect![[r#"
        same is asked about {"n":1}
        person asked: work {"n":1} <- zone: zone `external` asks at level `standard`
        same is asked about {"n":1}
        work {"n":1}
        result c1.1: work ran
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 test [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 work {"n":1} pass zone test
        outcome c1.1 ok
        run.end r1 end_turn
    "#]].assert_eq(&guarded(Zone::External, vec![guard("same", project(), same)]).await);
}

#[tokio::test(start_paused = true)]
async fn l11_result_of_a_hook_is_used_after_a_question() {
    let cached = |_: &Value| json!({"result": "cached"});
    expect![[r#"
        cache is asked about {"n":1}
        result c1.1: cached
        run.start r1
        ledger c1.1 work {"n":1} answer zone
        run.end r1 end_turn
    "#]]
    .assert_eq(&guarded(Zone::Safe, vec![guard("cache", user(), cached)]).await);
    expect![[r#"
        cache is asked about {"n":1}
        person asked: work {"n":1} <- zone: zone `external` asks at level `standard`
        cache is asked about {"n":1}
        result c1.1: cached
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 test [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 work {"n":1} answer zone test
        run.end r1 end_turn
    "#]].assert_eq(&guarded(Zone::External, vec![guard("cache", user(), cached)]).await);
    // The cached call is not the call that the hook was first asked about: no call runs unchecked.
    let twos = |input: &Value| match input["n"] == 2 {
        true => json!({"result": "cached"}),
        false => json!({}),
    };
    let guards = vec![guard("cache", user(), twos), guard("rewrites", user(), makes(1, 2))];
    expect![[r#"
        cache is asked about {"n":1}
        rewrites is asked about {"n":1}
        cache is asked about {"n":2}
        result c1.1 (denied): Hook "cache" blocked the action: it would change the event again, after another hook changed it. Adjust your approach; do not retry the exact same call.
        run.start r1
        ledger c1.1 work {"n":2} block cache it would change the event again, after another hook changed it
          rewrites: {"n":1} -> {"n":2}
        run.end r1 end_turn
    "#]].assert_eq(&guarded(Zone::Safe, guards).await);
}

#[tokio::test(start_paused = true)]
async fn s3_rewrite_without_a_grant_blocks_and_names_the_grant() {
    let mut shown = String::new();
    for owner in [project(), profile()] {
        shown += &guarded(Zone::Safe, vec![guard("rewrites", owner, makes(1, 2))]).await;
    }
    let diary = Diary::default();
    for power in [Power::Gate, Power::Observe] {
        let (agent, session) = working_agent(Zone::Safe, &diary, 1).await;
        let (name, _, says) = guard("limited", user(), makes(1, 2));
        let mut declared = named_spec(name);
        declared.power = Some(power);
        let hook = Arc::new(Fake { name, diary: diary.clone(), says });
        agent
            .extend(user(), |unit| _ = unit.register_external(PointId::ToolPre, declared, hook))
            .unwrap();
        let _ = session.prompt("go").await;
        diary.add(transcript(&session));
    }
    expect![[r#"
        rewrites is asked about {"n":1}
        result c1.1 (denied): Hook "rewrites" blocked the action: it may not change anything: its owner was not granted `rewrite`. Adjust your approach; do not retry the exact same call.
        run.start r1
        ledger c1.1 work {"n":1} block rewrites it may not change anything: its owner was not granted `rewrite`
        run.end r1 end_turn
        rewrites is asked about {"n":1}
        result c1.1 (denied): Hook "rewrites" blocked the action: it may not change anything: it belongs to a profile. Adjust your approach; do not retry the exact same call.
        run.start r1
        ledger c1.1 work {"n":1} block rewrites it may not change anything: it belongs to a profile
        run.end r1 end_turn
        limited is asked about {"n":1}
        user: go
        call c1.1: work {"n":1}
        result c1.1 (denied): Hook "limited" blocked the action: it may not change anything: its entry sets a lower power. Adjust your approach; do not retry the exact same call.
        assistant: done

        limited is asked about {"n":1}
        person told: hook `limited` may not change anything at `tool.pre`: its entry sets a lower power; its change is ignored
        work {"n":1}
        user: go
        call c1.1: work {"n":1}
        result c1.1: work ran
        assistant: done

    "#]].assert_eq(&(shown + &diary.shown()));
}

/// Call ids are unique only within a session: an answer in one session is not used in another.
#[tokio::test(start_paused = true)]
async fn s4_hook_verdict_of_one_session_does_not_count_in_another() {
    let diary = Diary::default();
    let (agent, first) = working_agent(Zone::Safe, &diary, 1).await;
    let session = first.id().to_owned();
    let in_first = move |asked: &HookRequest| asked.payload["sessionId"] == session.as_str();
    let in_first = Arc::new(in_first);
    let (a, b) = (in_first.clone(), in_first);
    let careful =
        move |asked: &HookRequest| Ok(if a(asked) { json!({}) } else { json!({"ask": "sure?"}) });
    let closes = move |asked: &HookRequest| {
        Ok(if b(asked) { json!({"block": true, "reason": "closed"}) } else { json!({}) })
    };
    let guards: Vec<Guard> =
        vec![("careful", user(), Arc::new(careful)), ("closes", user(), Arc::new(closes))];
    put(&agent, &diary, guards);
    let _ = first.prompt("go").await;
    agent.set_model(ScriptedModel::new([Step::call("work", json!({"n": 1})), Step::text("done")]));
    let second = fresh(&agent).await;
    let _ = second.prompt("go").await;
    expect![[r#"
        careful is asked about {"n":1}
        closes is asked about {"n":1}
        careful is asked about {"n":1}
        closes is asked about {"n":1}
        person asked: work {"n":1} <- careful: sure?
        careful is asked about {"n":1}
        closes is asked about {"n":1}
        work {"n":1}
        user: go
        call c1.1: work {"n":1}
        result c1.1 (denied): Hook "closes" blocked the action: closed. Adjust your approach; do not retry the exact same call.
        assistant: done
        user: go
        call c1.1: work {"n":1}
        result c1.1: work ran
        assistant: done
    "#]].assert_eq(&(diary.shown() + &transcript(&first) + &transcript(&second)));
}

/// A hook that answers when the barrier is full.
struct Together(Arc<Barrier>);

impl ExternalHook for Together {
    fn ask(&self, _: HookRequest) -> HookFuture {
        let barrier = self.0.clone();
        Box::pin(async move {
            barrier.wait().await;
            Ok(HookAnswer::default())
        })
    }
}

/// Asked one after another, the hooks would wait until their limit, and block.
#[tokio::test(start_paused = true)]
async fn l10_external_hooks_of_a_point_are_asked_concurrently() {
    for (owner, point) in [
        (user(), PointId::ToolPre),
        (project(), PointId::ToolPre),
        (user(), PointId::ToolPost),
        (user(), PointId::UserPromptSubmit),
        (project(), PointId::UserPromptSubmit),
    ] {
        let diary = Diary::default();
        let (agent, session) = working_agent(Zone::Safe, &diary, 1).await;
        let barrier = Arc::new(Barrier::new(10));
        let put = agent.extend(owner, |unit| {
            for index in 0..10 {
                let mut declared = named_spec("hook");
                declared.name = Some(format!("hook{index}").into());
                unit.register_external(point, declared, Arc::new(Together(barrier.clone())));
            }
        });
        put.unwrap();
        let reply = session.prompt("go").await;
        assert_eq!((ending(&reply), diary.shown()), ("end_turn".into(), "work {\"n\":1}\n".into()));
    }
}

/// A hook that never answers.
struct Silent;

impl ExternalHook for Silent {
    fn ask(&self, _: HookRequest) -> HookFuture {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn l7_external_hook_that_times_out_blocks_unless_it_observes() {
    let mut shown = String::new();
    for (power, limit) in [
        (None, None),
        (Some(Power::Gate), Some(Duration::from_secs(7))),
        (Some(Power::Observe), None),
    ] {
        let diary = Diary::default();
        let (agent, session) = working_agent(Zone::Safe, &diary, 1).await;
        let mut declared = named_spec("silent");
        (declared.power, declared.limit) = (power, limit);
        let hook = Arc::new(Silent);
        agent
            .extend(user(), |unit| _ = unit.register_external(PointId::ToolPre, declared, hook))
            .unwrap();
        let _ = session.prompt("go").await;
        shown += &transcript(&session);
    }
    expect![[r#"
        user: go
        call c1.1: work {"n":1}
        result c1.1 (denied): Hook "silent" blocked the action: the hook timed out after 5s. Adjust your approach; do not retry the exact same call.
        assistant: done
        user: go
        call c1.1: work {"n":1}
        result c1.1 (denied): Hook "silent" blocked the action: the hook timed out after 7s. Adjust your approach; do not retry the exact same call.
        assistant: done
        user: go
        call c1.1: work {"n":1}
        result c1.1: work ran
        assistant: done
    "#]].assert_eq(&shown);
}

/// The run does not wait for a detached hook, and its refusal has no effect.
#[tokio::test(start_paused = true)]
async fn l7_detached_external_hook_neither_delays_nor_refuses() {
    let diary = Diary::default();
    let (agent, session) = working_agent(Zone::Safe, &diary, 1).await;
    let refuses = guard("refuses", user(), |_| json!({"continue": false, "input": {"n": 2}}));
    let silent: Arc<dyn ExternalHook> = Arc::new(Silent);
    let refuses: Arc<dyn ExternalHook> =
        Arc::new(Fake { name: refuses.0, diary: diary.clone(), says: refuses.2 });
    let put = agent.extend(user(), |unit| {
        for (name, hook) in [("silent", silent), ("refuses", refuses)] {
            let mut declared = named_spec(name);
            declared.detached = true;
            unit.register_external(PointId::ToolPre, declared, hook);
        }
    });
    put.unwrap();
    let begun = tokio::time::Instant::now();
    let _ = session.prompt("go").await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(diary.lines().contains(&"work {\"n\":1}".to_owned()), "{}", diary.shown());
    expect![[r#"
        user: go
        call c1.1: work {"n":1}
        result c1.1: work ran
        assistant: done
    "#]]
    .assert_eq(&transcript(&session));
}

/// Checks the payload of a hook at every point.
#[tokio::test(start_paused = true)]
async fn l8_hook_payloads_match_the_formats_page() {
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<Value>>>);
    impl ExternalHook for Told {
        fn ask(&self, asked: HookRequest) -> HookFuture {
            assert_eq!(asked.payload["event"], asked.point.name());
            self.0.lock().unwrap().push(asked.payload);
            Box::pin(async { Ok(HookAnswer::default()) })
        }
    }
    let diary = Diary::default();
    let calls = Step::call("risky", json!({"n": 1}))
        .and_call("no", json!({}))
        .and_call("invoke_subagent", json!({"name": "helper", "prompt": "help"}));
    let steps =
        [calls, Step::text("done"), Step::text("a summary"), Step::error(ModelErrorKind::Auth)];
    let told = Told::default();
    let mut builder = Agent::builder(ScriptedModel::new(steps).priced(0.5))
        .workspace(Workspace::new(Path::new("/project")))
        .ui(ScriptedUi::new([PersonAnswer::Yes]))
        .define_mention(Subagent::new("helper", |_| async { Ok("helped".into()) }))
        .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .tool(probe("risky", Zone::External, &diary))
        .tool(probe("no", Zone::Safe, &diary))
        .rule(Rule::parse(RuleKind::Deny, "no").unwrap());
    builder = builder.extend(|unit| {
        let add =
            |input: &Value| if input["n"] == 1 { json!({"input": {"n": 2}}) } else { json!({}) };
        let (name, _, says) = guard("rewrites", user(), add);
        let hook = Fake { name, diary: Diary::default(), says };
        unit.register_external(PointId::ToolPre, named_spec(name), Arc::new(hook));
        for row in POINTS.iter().filter(|row| row.id != PointId::Context) {
            let mut declared = named_spec("told");
            declared.name = Some(format!("told {}", row.name).into());
            declared.power = Some(Power::Observe);
            unit.register_external(row.id, declared, Arc::new(told.clone()));
        }
    });
    let agent = builder.build().unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    let _ = session.prompt("/compact again").await;
    session.close().await;
    let told = told.0.lock().unwrap().iter().map(|told| format!("{told}\n")).collect::<String>();
    expect![[r#"
        {"v":1,"event":"session.open","sessionId":"SESSION","runId":"","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"how":"created"}
        {"v":1,"event":"session.start","sessionId":"SESSION","runId":"r1","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"model":"test/scripted"}
        {"v":1,"event":"user.prompt.submit","sessionId":"SESSION","runId":"r1","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"prompt":"go","rawPrompt":"go"}
        {"v":1,"event":"model.pre","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"model":"test/scripted","messageCount":1,"attempt":1}
        {"v":1,"event":"model.post","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"model":"test/scripted","stopReason":"tool_use","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":0.5,"toolCallCount":3}
        {"v":1,"event":"tool.pre","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"callId":"c1.1","toolName":"risky","toolInput":{"n":2},"facts":{"reads":[],"writes":[],"hosts":[],"commands":[],"zone":"external"}}
        {"v":1,"event":"tool.pre","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"callId":"c1.3","toolName":"invoke_subagent","toolInput":{"name":"helper","prompt":"help"},"facts":{"reads":[],"writes":[],"hosts":[],"commands":[],"zone":"safe"}}
        {"v":1,"event":"permission.ask","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"id":"r1.1","calls":[{"callId":"c1.1","name":"risky","preview":"risky {\"n\":2}","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}],"offer":["risky"]}]}
        {"v":1,"event":"tool.post","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"callId":"c1.1","toolName":"risky","toolInput":{"n":2},"originalInput":{"n":1},"facts":{"reads":[],"writes":[],"hosts":[],"commands":[],"zone":"external"},"result":"risky ran","is_error":false,"outcome":"ok","durationMs":0}
        {"v":1,"event":"tool.refused","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"callId":"c1.2","toolName":"no","toolInput":{},"by":"rule deny no","reason":"the rule `deny no` denies it"}
        {"v":1,"event":"subagent.start","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"callId":"c1.3","name":"helper","prompt":"help"}
        {"v":1,"event":"subagent.end","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"callId":"c1.3","name":"helper","status":"success","text":"helped"}
        {"v":1,"event":"tool.post","sessionId":"SESSION","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"callId":"c1.3","toolName":"invoke_subagent","toolInput":{"name":"helper","prompt":"help"},"facts":{"reads":[],"writes":[],"hosts":[],"commands":[],"zone":"safe"},"result":"{\"status\":\"success\",\"data\":{\"subagent\":\"helper\",\"content\":\"helped\"}}","is_error":false,"outcome":"ok","durationMs":0}
        {"v":1,"event":"model.pre","sessionId":"SESSION","runId":"r1","step":2,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"model":"test/scripted","messageCount":5,"attempt":1}
        {"v":1,"event":"model.post","sessionId":"SESSION","runId":"r1","step":2,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"model":"test/scripted","stopReason":"end_turn","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":0.5,"toolCallCount":0}
        {"v":1,"event":"turn.end","sessionId":"SESSION","runId":"r1","step":2,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"text":"done","goneOn":0}
        {"v":1,"event":"session.end","sessionId":"SESSION","runId":"r1","step":2,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"reason":"end_turn"}
        {"v":1,"event":"session.start","sessionId":"SESSION","runId":"r2","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"model":"test/scripted"}
        {"v":1,"event":"compact.pre","sessionId":"SESSION","runId":"r2","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"trigger":"forced","tokensBefore":55,"firstKeptId":""}
        {"v":1,"event":"model.pre","sessionId":"SESSION","runId":"r2","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"model":"test/scripted","messageCount":1,"attempt":1}
        {"v":1,"event":"model.post","sessionId":"SESSION","runId":"r2","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"model":"test/scripted","stopReason":"end_turn","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":0.5,"toolCallCount":0}
        {"v":1,"event":"compact.post","sessionId":"SESSION","runId":"r2","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"trigger":"forced","tokensBefore":55,"firstKeptId":"","summary":"[Summary of the conversation so far]\n\na summary\n\n[End of the summary; the conversation goes on from here]"}
        {"v":1,"event":"user.prompt.submit","sessionId":"SESSION","runId":"r2","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"prompt":"again","rawPrompt":"/compact again"}
        {"v":1,"event":"model.pre","sessionId":"SESSION","runId":"r2","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"model":"test/scripted","messageCount":2,"attempt":1}
        {"v":1,"event":"error","sessionId":"SESSION","runId":"r2","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"code":"auth","message":"the script says so"}
        {"v":1,"event":"session.end","sessionId":"SESSION","runId":"r2","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"reason":"error"}
        {"v":1,"event":"session.close","sessionId":"SESSION","runId":"","step":0,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"runs":2}
    "#]].assert_eq(&told.replace(session.id().as_str(), "SESSION"));
}
