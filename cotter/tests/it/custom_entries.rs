//! An extension's own entries: any type, kept in the file, ignored by the core. Handlers of every kind
//! store them during a run. P4.

use cotter::{
    Agent, Controls, Cx, FnTool, HookCx, HookResult, Message, Skill, Subagent,
    history::entry::EntryBody,
    hooks::points,
    invoke::{skill::SkillCx, subagent::SubagentCx},
    permission::{Zone, facts::Facts},
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, spec, transcript};
use expect_test::expect;
use serde_json::{Map, Value, json};

use crate::kit::{files, to_the_end};

fn entry(value: &Value) -> Map<String, Value> {
    value.as_object().expect("an entry is an object").clone()
}

/// Does the work of a handler: reads, stores an entry, reads again. It never waits.
fn mark(controls: &Controls, who: &str, diary: &Diary) {
    let before = (controls.entries().len(), controls.messages().len());
    let id = controls.save_entry(entry(&json!({"type": "mark", "by": who}))).unwrap();
    let after = (controls.entries().len(), controls.messages().len());
    diary.add(format!("{who}: {id}, {before:?} then {after:?}"));
}

/// P4: an entry needs a type that is not the core's. Everything else is kept as given.
#[tokio::test]
async fn p4_custom_entry_needs_its_own_type_and_keeps_its_fields() {
    let home = tempfile::tempdir().expect("there is room for a folder");
    let agent = Agent::builder(ScriptedModel::new([])).store(files(home.path())).build().unwrap();
    let session = fresh(&agent).await;
    let mut shown = String::new();
    for fields in [
        json!({"type": "todo", "items": [{"a": 1}, null], "timestamp": "2020-01-02T03:04:05.000Z"}),
        json!({"type": "todo", "parentId": 7}),
        json!({"type": "todo", "id": "x"}),
        json!({"type": "über.zeug/2"}),
        json!({"items": []}),
        json!({"type": ""}),
        json!({"type": 7}),
        json!({"type": "message"}),
        json!({"type": "compaction"}),
        json!({"type": "run.start"}),
        json!({"type": "ledger"}),
        json!({"type": "session"}),
    ] {
        let saved = session.save_entry(entry(&fields));
        shown += &format!("{fields}: {:?}\n", saved.map_err(|error| error.to_string()));
    }
    expect![[r#"
        {"type":"todo","items":[{"a":1},null],"timestamp":"2020-01-02T03:04:05.000Z"}: Ok("00000001")
        {"type":"todo","parentId":7}: Err("entry key `parentId` is reserved")
        {"type":"todo","id":"x"}: Err("entry key `id` is reserved")
        {"type":"über.zeug/2"}: Ok("00000002")
        {"items":[]}: Err("Entry must have type")
        {"type":""}: Err("Entry must have type")
        {"type":7}: Err("Entry must have type")
        {"type":"message"}: Err("entry type `message` is reserved")
        {"type":"compaction"}: Err("entry type `compaction` is reserved")
        {"type":"run.start"}: Err("entry type `run.start` is reserved")
        {"type":"ledger"}: Err("entry type `ledger` is reserved")
        {"type":"session"}: Err("entry type `session` is reserved")
    "#]].assert_eq(&shown);
    let kept = transcript(&session);
    expect![[r#"
        {"type":"todo","items":[{"a":1},null]}
        {"type":"über.zeug/2"}
    "#]]
    .assert_eq(&kept);
    let id = session.id().clone();
    drop((session, agent));
    let again = Agent::builder(ScriptedModel::new([])).store(files(home.path())).build().unwrap();
    assert_eq!(transcript(&again.session(&id).await.unwrap()), kept);
}

/// P4: handlers of every kind and at every point read and store entries of their session during the run,
/// without waiting. The entries are stored in the order of creation, and never between a call and its
/// result. The model sees none of them.
#[tokio::test]
async fn p4_every_handler_stores_entries_during_a_run() {
    let diary = Diary::default();
    let script = [
        Step::call("tool", json!({})).and_call("nothing", json!({})).and_call("tool", json!({})),
        Step::call("invoke_subagent", json!({"name": "sub", "prompt": "p"})),
        Step::text("done"),
    ];
    let model = RecordingModel::new(ScriptedModel::new(script));
    let home = tempfile::tempdir().expect("there is room for a folder");
    let (d, d2, d3, d4) = (diary.clone(), diary.clone(), diary.clone(), diary.clone());
    let mut builder = Agent::builder(model.clone())
        .store(files(home.path()))
        .define_hook("dir", move |cx: HookCx| {
            mark(&cx.controls, "directive", &d);
            async {}
        })
        .define_skill(Skill::new("skill", move |cx: SkillCx| {
            mark(&cx.controls, "skill", &d2);
            async { Ok("be kind".into()) }
        }))
        .define_mention(Subagent::new("sub", move |cx: SubagentCx| {
            mark(&cx.controls, "subagent", &d3);
            async { Ok("sub did".into()) }
        }))
        .tool(
            FnTool::new(spec("tool"), move |permit| {
                mark(&permit.cx().controls(), permit.call_id(), &d4);
                async { Ok("tool ran".into()) }
            })
            .with_facts(Facts::zone(Zone::Safe)),
        );
    macro_rules! at {
        ($($point:ident $event:ident),*) => {$(
            let d = diary.clone();
            builder = builder.observe(points::$point, move |_: &points::$event, cx: &Cx| {
                mark(&cx.controls(), stringify!($point), &d);
            });
        )*};
    }
    at!(
        SessionStart SessionStartEvent, UserPromptSubmit UserPromptSubmitEvent, Context ContextEvent,
        ModelPre ModelPreEvent, ModelPost ModelPostEvent, ToolPre ToolPreEvent, ToolPost ToolPostEvent,
        ToolRefused ToolRefusedEvent, SubagentStart SubagentStartEvent, SubagentEnd SubagentEndEvent,
        TurnEnd TurnEndEvent, SessionEnd SessionEndEvent, SessionOpen SessionOpenEvent
    );
    let agent = builder.build().unwrap();
    let session = fresh(&agent).await;
    let (events, reply) = to_the_end(session.prompt("go /dir /skill")).await;
    assert_eq!(ending(&reply), "end_turn");
    expect![[r#"
        SessionOpen: 00000001, (0, 0) then (1, 0)
        SessionStart: 00000002, (1, 0) then (1, 0)
        directive: 00000003, (1, 0) then (1, 0)
        UserPromptSubmit: 00000004, (1, 0) then (1, 0)
        skill: 00000005, (1, 0) then (1, 0)
        Context: 00000008, (7, 2) then (7, 2)
        ModelPre: 00000009, (7, 2) then (7, 2)
        ModelPost: 0000000b, (8, 3) then (8, 3)
        ToolPre: 0000000c, (8, 3) then (8, 3)
        ToolPre: 0000000d, (8, 3) then (8, 3)
        c1.1: 0000000e, (8, 3) then (8, 3)
        ToolPost: 0000000f, (8, 3) then (8, 3)
        ToolRefused: 00000011, (9, 4) then (9, 4)
        c1.3: 00000013, (10, 5) then (10, 5)
        ToolPost: 00000014, (10, 5) then (10, 5)
        Context: 00000016, (21, 6) then (21, 6)
        ModelPre: 00000017, (21, 6) then (21, 6)
        ModelPost: 00000019, (22, 7) then (22, 7)
        ToolPre: 0000001a, (22, 7) then (22, 7)
        SubagentStart: 0000001b, (22, 7) then (22, 7)
        subagent: 0000001c, (22, 7) then (22, 7)
        SubagentEnd: 0000001d, (22, 7) then (22, 7)
        ToolPost: 0000001e, (22, 7) then (22, 7)
        Context: 00000020, (31, 8) then (31, 8)
        ModelPre: 00000021, (31, 8) then (31, 8)
        ModelPost: 00000023, (32, 9) then (32, 9)
        TurnEnd: 00000024, (32, 9) then (32, 9)
        SessionEnd: 00000025, (36, 9) then (37, 9)
    "#]]
    .assert_eq(&diary.shown());
    let shown = transcript(&session);
    expect![[r#"
        {"type":"mark","by":"SessionOpen"}
        {"type":"mark","by":"SessionStart"}
        {"type":"mark","by":"directive"}
        {"type":"mark","by":"UserPromptSubmit"}
        {"type":"mark","by":"skill"}
        skill: <skill name="skill">
        be kind
        </skill>
        user: go
        call c1.1: tool {}
        call c1.2: nothing {}
        call c1.3: tool {}
        result c1.1: tool ran
        result c1.2 (not_found): Unknown tool: nothing. There are: tool, invoke_subagent.
        result c1.3: tool ran
        {"type":"mark","by":"Context"}
        {"type":"mark","by":"ModelPre"}
        {"type":"mark","by":"ModelPost"}
        {"type":"mark","by":"ToolPre"}
        {"type":"mark","by":"ToolPre"}
        {"type":"mark","by":"c1.1"}
        {"type":"mark","by":"ToolPost"}
        {"type":"mark","by":"ToolRefused"}
        {"type":"mark","by":"c1.3"}
        {"type":"mark","by":"ToolPost"}
        call c2.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c2.1: {"status":"success","data":{"subagent":"sub","content":"sub did"}}
        {"type":"mark","by":"Context"}
        {"type":"mark","by":"ModelPre"}
        {"type":"mark","by":"ModelPost"}
        {"type":"mark","by":"ToolPre"}
        {"type":"mark","by":"SubagentStart"}
        {"type":"mark","by":"subagent"}
        {"type":"mark","by":"SubagentEnd"}
        {"type":"mark","by":"ToolPost"}
        assistant: done
        {"type":"mark","by":"Context"}
        {"type":"mark","by":"ModelPre"}
        {"type":"mark","by":"ModelPost"}
        {"type":"mark","by":"TurnEnd"}
        {"type":"mark","by":"SessionEnd"}
    "#]]
    .assert_eq(&shown);
    let told = events.lines().filter(|line| *line == "message").count();
    let stored = shown.lines().filter(|line| line.contains(r#""type":"mark""#)).count();
    // The first entry was stored before the run; the last one, at `session.end`, after it.
    assert_eq!(told, stored - 2, "every entry of the run is told:\n{events}");
    assert!(!model.shown().contains("mark"), "{}", model.shown());
    let id = session.id().clone();
    drop((session, agent));
    let again = Agent::builder(ScriptedModel::new([])).store(files(home.path())).build().unwrap();
    assert_eq!(transcript(&again.session(&id).await.unwrap()), shown, "all of it is in the file");
}

/// P4: a refused prompt discards the entries of its hooks.
#[tokio::test]
async fn p4_refused_prompt_discards_entries_of_its_hooks() {
    let diary = Diary::default();
    let (d, d2) = (diary.clone(), diary.clone());
    let agent = Agent::builder(ScriptedModel::new([Step::text("hi")]))
        .define_hook("dir", move |cx: HookCx| {
            mark(&cx.controls, "directive", &d);
            async { HookResult::nothing() }
        })
        .define_hook("fail", |_| async { Err::<(), _>("no") })
        .define_hook("burst", move |cx: HookCx| {
            mark(&cx.controls, "burst", &d2);
            async move { assert!(cx.args.is_empty(), "boo") }
        })
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    for prompt in ["/dir /fail", "/dir /burst now"] {
        let reply = session.prompt(prompt).await;
        assert!(ending(&reply).starts_with("error: hook: "), "{}", ending(&reply));
    }
    assert_eq!((diary.lines().len(), transcript(&session).as_str()), (3, ""));
    session.prompt("/dir hello").await.unwrap();
    expect![[r#"
        {"type":"mark","by":"directive"}
        user: hello
        assistant: hi
    "#]]
    .assert_eq(&transcript(&session));
}

/// P4: messages from a tool and from another task are part of the next request, after the results.
#[tokio::test]
async fn p4_messages_added_by_a_tool_follow_the_results_of_the_step() {
    let add = FnTool::new(spec("add"), |permit| async move {
        let controls = permit.cx().controls();
        let session = controls.session().clone();
        let elsewhere = tokio::spawn(async move {
            session.save_entry(entry(&json!({"type": "elsewhere"}))).map(drop)
        });
        elsewhere.await.unwrap().unwrap();
        controls.append_message(Message::user(format!("from {}", permit.call_id()))).unwrap();
        Ok("added".into())
    })
    .with_facts(Facts::zone(Zone::Safe));
    let calls = Step::call("add", json!({})).and_call("add", json!({}));
    let model = RecordingModel::new(ScriptedModel::new([calls, Step::text("done")]));
    let agent = Agent::builder(model.clone()).tool(add).build().unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "end_turn");
    expect![[r#"
        user: go
        --
        user: go
        call c1.1: add {}
        call c1.2: add {}
        result c1.1: added
        result c1.2: added
        user: from c1.1
        user: from c1.2
        --
        user: go
        call c1.1: add {}
        call c1.2: add {}
        result c1.1: added
        result c1.2: added
        {"type":"elsewhere"}
        user: from c1.1
        {"type":"elsewhere"}
        user: from c1.2
        assistant: done
    "#]]
    .assert_eq(&format!("{}--\n{}", model.shown(), transcript(&session)));
    let ids: Vec<_> = session.entries().iter().map(|entry| entry.id().clone()).collect();
    let parents = session.entries();
    let parents = parents.iter().filter_map(|entry| entry.parent_id().cloned());
    assert_eq!(parents.collect::<Vec<_>>(), ids[..ids.len() - 1], "one line, each after the other");
    assert!(session.entries().iter().any(|entry| matches!(entry.body(), EntryBody::Custom(_))));
}
