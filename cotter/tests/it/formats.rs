//! Tests of `docs/FORMATS.md`: it names every type and every key that is written.

use std::collections::BTreeSet;

use cotter::{
    Agent, AgentConfig, At, Command, Cx, HookCx, Session, Skill, Subagent, ToolOutput, Verdict,
    agent::controls::ModelScope,
    history::{
        entry::Compaction,
        message::{Content, ContentPart},
    },
    hooks::points::{
        ToolPost, ToolPre, ToolPreChange, ToolPreEvent, UserPromptSubmit, UserPromptSubmitChange,
        UserPromptSubmitEvent,
    },
    invoke::command::{CommandCx, CommandResult},
    named,
    permission::Zone,
};
use cotter_test::{Diary, PersonAnswer, ScriptedModel, ScriptedUi, Step, fresh, probe, spec};
use serde_json::{Value, json};

use crate::kit::echo;

#[tokio::test]
async fn formats_page_names_every_key_of_a_session() {
    let agent = busy_agent();
    let session = fresh(&agent).await;
    let told = a_busy_session(&session).await;
    let kinds = "run.start generation question answer ledger outcome note";
    check_named(&agent, &session, told, kinds);
}

#[tokio::test]
async fn formats_page_names_the_keys_of_commands_and_skills() {
    let agent = called_agent();
    let session = fresh(&agent).await;
    let mut events = session.events();
    for prompt in ["/about me", "/terse go", "/shrink on"] {
        session.prompt(prompt).await.expect("the run works");
    }
    let data = vec![ContentPart::Text("look".into()), ContentPart::data("/terse")];
    session.prompt(Content::Parts(data)).await.expect("the run works");
    let told = std::iter::from_fn(|| events.try_next());
    let told = told.map(|event| serde_json::from_str(&event.to_json()).expect("it is JSON"));
    let kinds = "command.result skill subagent.start subagent.end parentCallId compaction_start \
                 compaction_end compaction ui.request model_change thinking_level_change data";
    check_named(&agent, &session, told.collect(), kinds);
}

/// Makes an agent with a command, a skill, a subagent and a hook on a directive.
fn called_agent() -> Agent {
    let script = [
        Step::call("invoke_subagent", json!({"name": "aide", "prompt": "p"})),
        Step::call("write", json!({})),
        Step::text("written"),
        Step::text("gone"),
        Step::text("so far"),
        Step::text("on"),
        Step::text("seen"),
    ];
    let about = |cx: CommandCx| async move {
        cx.controls.cx().notify("about");
        cx.controls.set_thinking_level(cotter::model::Thinking::default())?;
        let other = cx.controls.agent().model();
        cx.controls.set_model(other, ModelScope::Session)?;
        Ok::<_, cotter::history::store::StoreError>(CommandResult::status("an agent"))
    };
    Agent::builder(ScriptedModel::new(script))
        .tool(probe("write", Zone::Safe, &Diary::default()))
        .define_command(Command::new("about", about))
        .define_skill(Skill::text("terse", "Be terse."))
        .define_mention(Subagent::agent(AgentConfig::new("aide")))
        .define_hook("shrink", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .build()
        .expect("the agent builds")
}

/// Checks that the page names everything in the events and the store, and that every kind occurred.
fn check_named(agent: &Agent, session: &Session, mut said: Vec<Value>, kinds: &str) {
    let page = include_str!("../../../docs/FORMATS.md");
    let lines = agent.store().lines(session.id()).expect("it was stored");
    said.extend(lines.iter().map(|line| serde_json::from_slice(line).expect("it is JSON")));
    let mut words = BTreeSet::new();
    said.iter().for_each(|value| collect(value, &mut words));
    let named = |word: &&String| page.contains(&format!("`{word}`"));
    let missing: Vec<_> = words.iter().filter(|word| !named(word)).collect();
    assert!(missing.is_empty(), "docs/FORMATS.md does not name {missing:?}");
    for kind in kinds.split_whitespace() {
        assert!(words.contains(kind), "the session was not busy enough for {kind}");
    }
}

fn busy_agent() -> Agent {
    let script = [
        Step::text("hm").and_thinking("so").and_error(cotter::model::ModelErrorKind::Network, None),
        Step::call("push", json!({})).and_call("write", json!({})).and_call("none", json!({})),
        Step::call("echo", json!({"text": "a"})).and_call("picture", json!({})),
        Step::text("done").and_thinking("so"),
    ];
    let asks = |_: &ToolPreEvent, cx: &Cx| {
        cx.note("mind the gap");
        Verdict::ask("it pushes")
    };
    let blocks = |_: At<ToolPre>| async { Verdict::block("not that") };
    let again = |_: &ToolPreEvent| ToolPreChange::Input(json!({"text": "b"}));
    let polite = |prompt: &UserPromptSubmitEvent| {
        UserPromptSubmitChange::Prompt(format!("{}, please", prompt.prompt))
    };
    let picture = cotter::FnTool::new(spec("picture"), |_| async {
        let part = cotter::history::message::ContentPart::Image {
            media_type: "image/png".into(),
            data: "".into(),
        };
        Ok(ToolOutput { content: Content::Parts(vec![part]), render_data: Some(json!({})) })
    });
    let zone = |zone| cotter::permission::facts::Facts::zone(zone);
    Agent::builder(ScriptedModel::new(script))
        .limits(|limits| limits.backoff = std::time::Duration::ZERO)
        .ui(ScriptedUi::new([PersonAnswer::Yes]))
        .tool(probe("push", Zone::External, &Diary::default()))
        .tool(probe("write", Zone::Safe, &Diary::default()))
        .tool(echo())
        .tool(picture.with_facts(zone(Zone::Safe)))
        .gate(ToolPre, named("asks", asks).tools(["push"]))
        .gate(ToolPre, named("blocks", blocks).tools(["write"]))
        .transform(ToolPre, named("again", again).tools(["echo"]))
        .transform(UserPromptSubmit, named("polite", polite))
        .observe(ToolPost, named("sees", |_: &cotter::hooks::points::ToolPostEvent| {}))
        .build()
        .expect("the agent builds")
}

/// Runs a session that produces every kind of event. Returns the events.
async fn a_busy_session(session: &Session) -> Vec<Value> {
    let stored = "memory takes it";
    let mut events = session.events();
    session.prompt("go").await.expect("the run works");
    session.prompt("again").await.expect_err("the script is over");
    let id = session.entries()[0].id().clone();
    session.set_label(&id, Some("first")).expect(stored);
    session.set_name("busy").expect(stored);
    session.store_compaction(Compaction::new("all of it", id.clone(), 7)).await.expect(stored);
    session.navigate(Some(&id)).await.expect(stored);
    let told = std::iter::from_fn(|| events.try_next());
    told.map(|event| serde_json::from_str(&event.to_json()).expect("an event is JSON")).collect()
}

/// Collects every key and every value of `type`, except inside the data of tools.
fn collect(value: &Value, words: &mut BTreeSet<String>) {
    const OF_TOOLS: [&str; 4] = ["input", "before", "after", "renderData"];
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                words.insert(key.clone());
                if let ("type" | "role", Some(word)) = (key.as_str(), value.as_str()) {
                    words.insert(word.to_owned());
                }
                if !OF_TOOLS.contains(&key.as_str()) {
                    collect(value, words);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        _ => {}
    }
}
