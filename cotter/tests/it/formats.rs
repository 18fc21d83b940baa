//! `docs/FORMATS.md` names every type and every key that is written.

use std::collections::BTreeSet;

use cotter::{
    Agent, At, Cx, Output, Verdict,
    message::Content,
    named,
    permission::Zone,
    points::{CallChange, Prompt, PromptChange, ToolCalled, ToolPost, ToolPre, UserPromptSubmit},
    session::{Compaction, Session},
};
use cotter_test::{Said, Scripted, ScriptedUi, Step};
use serde_json::{Value, json};

use crate::kit::{Diary, echo, fresh, probe, spec};

#[tokio::test]
async fn the_page_names_every_key_that_is_written() {
    let page = include_str!("../../../docs/FORMATS.md");
    let agent = busy_agent();
    let session = fresh(&agent).await;
    let mut said = a_busy_session(&session).await;
    for line in agent.store().lines(session.id()).unwrap() {
        said.push(serde_json::from_slice(&line).unwrap());
    }
    let mut words = BTreeSet::new();
    said.iter().for_each(|value| collect(value, &mut words));
    let named = |word: &&String| page.contains(&format!("`{word}`"));
    let missing: Vec<_> = words.iter().filter(|word| !named(word)).collect();
    assert!(missing.is_empty(), "docs/FORMATS.md does not name {missing:?}");
    for kind in ["run.start", "generation", "question", "answer", "ledger", "outcome", "note"] {
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
    let asks = |_: &ToolCalled, cx: &Cx| {
        cx.note("mind the gap");
        Verdict::ask("it pushes")
    };
    let blocks = |_: At<ToolPre>| async { Verdict::block("not that") };
    let again = |_: &ToolCalled| CallChange::Input(json!({"text": "b"}));
    let polite = |prompt: &Prompt| PromptChange::Prompt(format!("{}, please", prompt.prompt));
    let picture = cotter::FnTool::new(spec("picture"), |_| async {
        let part = cotter::message::Part::Image { media_type: "image/png".into(), data: "".into() };
        Ok(Output { content: Content::Parts(vec![part]), render_data: Some(json!({})) })
    });
    let zone = |zone| cotter::tool::Facts::zone(zone);
    Agent::builder(Scripted::new(script))
        .limits(|limits| limits.backoff = std::time::Duration::ZERO)
        .ui(ScriptedUi::new([Said::Yes]))
        .tool(probe("push", Zone::External, &Diary::default()))
        .tool(probe("write", Zone::Safe, &Diary::default()))
        .tool(echo())
        .tool(picture.touching(zone(Zone::Safe)))
        .on(ToolPre, named("asks", asks).tools(["push"]))
        .on(ToolPre, named("blocks", blocks).tools(["write"]))
        .transform(ToolPre, named("again", again).tools(["echo"]))
        .transform(UserPromptSubmit, named("polite", polite))
        .observe(ToolPost, named("sees", |_: &cotter::points::ToolRan| {}))
        .build()
        .expect("the agent builds")
}

/// Runs that have something of everything; the events they told.
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

/// Every key, and every value of `type`, but for what belongs to tools.
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
