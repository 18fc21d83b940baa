//! Directives: the bound names in a text, the hooks and skills that they run, and the remaining text.

use std::future::ready;

use cotter::{AgentBuilder, Message, Skill, history::entry::EntryBody};
use cotter_test::Step;

use super::kit::{Log, Stage};

const HOOKS: [&str; 5] = ["compact", "stop", "a", "b", "dup"];
const SKILLS: [&str; 5] = ["concise", "research-mode", "x_1", "dup", "usr"];

/// An agent on which every name of the cases is bound. Each hook and skill logs its name.
fn all_bound(agent: AgentBuilder, log: &Log) -> AgentBuilder {
    let agent = HOOKS.into_iter().fold(agent, |agent, name| {
        let log = log.clone();
        agent.define_hook(name, move |_| {
            log.add(format!("hook {name}"));
            ready(())
        })
    });
    SKILLS.into_iter().fold(agent, |agent, name| {
        let log = log.clone();
        agent.define_skill(Skill::new(name, move |_| {
            log.add(format!("skill {name}"));
            ready(Ok(name.into()))
        }))
    })
}

/// Checks that a text calls these names in this order, that `left` remains, and that the typed text is
/// kept.
pub(super) async fn binds(text: &str, left: &str, called: &[&str]) {
    let log = Log::default();
    let stage = Stage::new([Step::text("ok")], |agent| all_bound(agent, &log));
    let played = stage.say(text).await;
    assert_eq!(log.lines(), called);
    let skills = called.iter().filter_map(|line| line.strip_prefix("skill "));
    let skills = skills.map(|name| format!("skill: <skill name=\"{name}\">\n{name}\n</skill>\n"));
    let sent = skills.collect::<String>() + &format!("user: {left}\n");
    assert_eq!(stage.model.shown(), sent);
    assert_eq!(played.transcript, sent + "assistant: ok\n");
    let is_typed = |body: &EntryBody| matches!(body, EntryBody::Message(m) if m.text() == left);
    let entries = played.session.entries();
    let typed = entries.iter().find(|entry| is_typed(entry.body())).expect("it is stored");
    let EntryBody::Message(Message::User(message)) = typed.body() else { panic!("a prompt") };
    let raw = message.rewritten.as_ref().map(|rewritten| rewritten.raw.as_str());
    assert_eq!(raw, (text != left).then_some(text));
}

/// Checks that no name is bound and every byte stays.
pub(super) async fn stays(text: &str) {
    binds(text, text, &[]).await;
}
