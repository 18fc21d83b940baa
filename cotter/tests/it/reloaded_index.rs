//! Files that change the callable names leave the lists before the conversation unchanged. A note tells the
//! model, and the new list is shown after the next compaction. A program's registrations are shown at once.

use std::sync::{Arc, Mutex};

use cotter::{
    Agent, Origin, Owner, Registry, Session, Skill, builtin,
    hooks::points::{ModelPost, ModelPostEvent},
    registry::change::RegistryChange,
};
use cotter_test::{RecordingModel, ScriptedModel, Step, fresh};
use expect_test::{Expect, expect};

/// Loads the skills of a person's folder, given as name and description.
fn skills(agent: &Agent, skills: &[(&'static str, &'static str)]) {
    let mut change = RegistryChange::new().caused_by_files();
    change.load(Owner::new(Origin::User, "skills"), |unit: &mut Registry| {
        for (name, words) in skills {
            unit.define_skill(Skill::text(*name, "text").description(*words).expose_to_agent());
        }
    });
    drop(agent.apply(change).unwrap());
}

struct Told {
    agent: Agent,
    session: Session,
    model: RecordingModel<ScriptedModel>,
    broken: Arc<Mutex<Vec<String>>>,
}

impl Told {
    async fn new(steps: usize) -> Self {
        let model = RecordingModel::new(ScriptedModel::new(vec![Step::text("ok"); steps]));
        let broken = Arc::new(Mutex::new(vec![]));
        let heard = broken.clone();
        let agent = Agent::builder(model.clone())
            .extend(builtin::commands)
            .observe(ModelPost, move |reply: &ModelPostEvent| {
                let words = reply.cache_break.as_ref().map(|broken| broken.by.to_string());
                heard.lock().unwrap().push(words.unwrap_or_else(|| "whole".into()));
            })
            .build()
            .unwrap();
        skills(&agent, &[("one", "First."), ("two", "Second.")]);
        let session = fresh(&agent).await;
        Told { agent, session, model, broken }
    }

    async fn ask(&self) {
        self.session.prompt("go").await.unwrap();
    }

    /// Checks the lists and notes of each request, and the owner that broke the cache.
    fn check(&self, expected: Expect) {
        let mut shown = String::new();
        for request in self.model.requests() {
            if request.system.starts_with("You sum up") {
                shown += "(a summary)\n";
                continue;
            }
            let lists = request.tools.specs().map(|spec| {
                spec.description.split("Skills:\n").nth(1).unwrap_or_default().replace('\n', " ")
            });
            let lists: Vec<_> = lists.collect();
            shown += &format!("{} | {}\n", lists.join(" "), request.system.replace('\n', " "));
            let last = request.messages.iter().last().map(|message| message.text().to_string());
            let last = last.filter(|text| text.contains("<system-reminder>"));
            shown +=
                &last.map(|text| format!("  {}\n", text.replace('\n', "\n  "))).unwrap_or_default();
        }
        shown += &self.broken.lock().unwrap().join(", ");
        expected.assert_eq(&shown);
    }
}

#[tokio::test]
async fn hot_reload_keeps_the_lists_of_a_conversation_and_adds_a_note() {
    let told = Told::new(8).await;
    told.ask().await;
    skills(&told.agent, &[("two", "Second, better."), ("three", "Third.")]);
    told.ask().await;
    told.ask().await;
    skills(&told.agent, &[("two", "Second, better.")]);
    told.ask().await;
    told.check(expect![[r#"
        - one: First. - two: Second. | <resources> skills: one, two </resources>
        - one: First. - two: Second. | <resources> skills: one, two </resources>
          <system-reminder>
          The available skills and subagents have changed.
          Available now: skill `two`: Second, better.
          Available now: skill `three`: Third.
          Removed: skill `one`.
          </system-reminder>
        - one: First. - two: Second. | <resources> skills: one, two </resources>
        - one: First. - two: Second. | <resources> skills: one, two </resources>
          <system-reminder>
          The available skills and subagents have changed.
          Removed: skill `three`.
          </system-reminder>
        whole, whole, whole, whole"#]]);
}

#[tokio::test]
async fn hot_reload_without_visible_changes_is_not_reported() {
    let told = Told::new(8).await;
    told.ask().await;
    skills(&told.agent, &[("one", "First."), ("two", "Second.")]);
    told.ask().await;
    skills(&told.agent, &[("one", "First.")]);
    skills(&told.agent, &[("one", "First."), ("two", "Second.")]);
    told.ask().await;
    told.check(expect![[r#"
        - one: First. - two: Second. | <resources> skills: one, two </resources>
        - one: First. - two: Second. | <resources> skills: one, two </resources>
        - one: First. - two: Second. | <resources> skills: one, two </resources>
        whole, whole, whole"#]]);
}

#[tokio::test]
async fn lists_are_rebuilt_after_a_compaction_and_in_a_new_session() {
    let mut told = Told::new(8).await;
    told.ask().await;
    skills(&told.agent, &[("two", "Second.")]);
    told.ask().await;
    told.session.invoke_command("compact", "").await.unwrap().unwrap();
    told.ask().await;
    told.session = fresh(&told.agent).await;
    told.ask().await;
    told.check(expect![[r#"
        - one: First. - two: Second. | <resources> skills: one, two </resources>
        - one: First. - two: Second. | <resources> skills: one, two </resources>
          <system-reminder>
          The available skills and subagents have changed.
          Removed: skill `one`.
          </system-reminder>
        (a summary)
        - two: Second. | <resources> skills: two </resources>
        - two: Second. | <resources> skills: two </resources>
        whole, whole, whole, user (skills), whole"#]]);
}

#[tokio::test]
async fn g11_registration_of_the_program_is_shown_at_once() {
    let told = Told::new(8).await;
    told.ask().await;
    skills(&told.agent, &[("two", "Second.")]);
    told.ask().await;
    let three = Skill::text("three", "text").description("Third.").expose_to_agent();
    told.agent.define_skill(three).unwrap();
    told.ask().await;
    told.check(expect![[r#"
        - one: First. - two: Second. | <resources> skills: one, two </resources>
        - one: First. - two: Second. | <resources> skills: one, two </resources>
          <system-reminder>
          The available skills and subagents have changed.
          Removed: skill `one`.
          </system-reminder>
        - three: Third. - two: Second. | <resources> skills: three, two </resources>
        whole, whole, embedder (program)"#]]);
}
