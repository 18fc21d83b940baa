//! A diary of events, and the tools and the person that write into it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cotter::{
    Agent, FnTool, Permit, Session, Tool, ToolError, ToolOutput, ToolSpec,
    hooks::ui::{Question, QuestionAnswer, Ui, UiFuture},
    permission::{Zone, facts::Facts},
};
use serde_json::json;

use crate::{PersonAnswer, ScriptedModel, ScriptedUi, Step, fresh};

/// The events of a test, in order. Clones write into the same diary.
#[derive(Clone, Default)]
pub struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    /// Adds a line.
    pub fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.into());
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All lines so far as one text, each with a newline.
    pub fn shown(&self) -> String {
        self.lines().iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A scripted person who writes every notice and every permission question into a diary.
pub struct DiaryUi {
    scripted: ScriptedUi,
    diary: Diary,
}

impl DiaryUi {
    /// A person who gives these answers.
    pub fn new(answers: impl IntoIterator<Item = PersonAnswer>, diary: &Diary) -> Self {
        DiaryUi { scripted: ScriptedUi::new(answers), diary: diary.clone() }
    }
}

impl Ui for DiaryUi {
    fn present(&self) -> bool {
        true
    }

    fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        for call in &question.calls {
            let asks = call.asks.iter().map(|ask| format!("{}: {}", ask.by, ask.reason));
            let asks = asks.collect::<Vec<_>>().join("; ");
            self.diary.add(format!("person asked: {} <- {asks}", call.preview));
        }
        self.scripted.ask(question)
    }

    fn notify(&self, text: &str) {
        self.diary.add(format!("person told: {text}"));
    }
}

/// The definition of a tool that takes any object.
pub fn spec(name: &'static str) -> ToolSpec {
    ToolSpec::new(name, format!("the tool {name}"), json!({"type": "object"}))
}

/// A tool that takes any object, writes `NAME INPUT` into the diary and answers `NAME ran`.
pub fn probe(name: &'static str, zone: Zone, diary: &Diary) -> impl Tool {
    let diary = diary.clone();
    FnTool::new(spec(name), move |permit| {
        diary.add(format!("{name} {}", permit.input()));
        async move { Ok(format!("{name} ran").into()) }
    })
    .with_facts(Facts::zone(zone))
}

/// A parallel tool in the zone `safe` that takes as long as its input says (`ms`). It writes its start and
/// its end into the diary.
pub fn nap(diary: &Diary) -> impl Tool {
    let diary = diary.clone();
    FnTool::new(spec("nap"), move |permit| sleep(permit, diary.clone()))
        .parallel()
        .with_facts(Facts::zone(Zone::Safe))
}

/// A tool like [`nap`] that is not parallel: a barrier.
pub fn solo(diary: &Diary) -> impl Tool {
    let diary = diary.clone();
    FnTool::new(spec("solo"), move |permit| sleep(permit, diary.clone()))
        .with_facts(Facts::zone(Zone::Safe))
}

async fn sleep(permit: Permit, diary: Diary) -> Result<ToolOutput, ToolError> {
    diary.add(format!("{} starts", permit.call_id()));
    tokio::time::sleep(Duration::from_millis(permit.input()["ms"].as_u64().unwrap_or(0))).await;
    diary.add(format!("{} ends", permit.call_id()));
    Ok(format!("{} rested", permit.call_id()).into())
}

/// An agent that calls the probe `work {"n": 1}` in each of `runs` runs, with a person who says yes, and a
/// new session.
///
/// # Panics
///
/// If the agent cannot be built.
pub async fn working_agent(zone: Zone, diary: &Diary, runs: usize) -> (Agent, Session) {
    let steps = (0..runs).flat_map(|_| [Step::call("work", json!({"n": 1})), Step::text("done")]);
    let agent = Agent::builder(ScriptedModel::new(steps))
        .ui(DiaryUi::new(vec![PersonAnswer::Yes; runs], diary))
        .tool(probe("work", zone, diary))
        .build()
        .expect("the agent is valid");
    let session = fresh(&agent).await;
    (agent, session)
}
