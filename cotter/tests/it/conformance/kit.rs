//! Helpers for the cases: a log, plain tools, and one run with everything it left behind.

use std::{
    fmt::Display,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cotter::{
    Agent, AgentBuilder, FnTool, Message, Permit, Reply, Run, Session, Tool, ToolError, ToolOutput,
    ToolSpec,
    history::message::Content,
    hooks::events::Event,
    model::Request,
    permission::{Zone, facts::Facts},
};
use cotter_test::{RecordingModel, ScriptedModel, Step, shown_event, transcript};
use serde_json::{Value, json};

/// A log of what happened, in order.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(super) fn add(&self, line: impl Display) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_string());
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A tool that changes nothing and runs `work`.
pub(super) fn safe<F, Fut>(name: &str, schema: Value, work: F) -> FnTool<F>
where
    F: Fn(Permit) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    FnTool::new(ToolSpec::new(name, "for a test", schema), work).with_facts(Facts::zone(Zone::Safe))
}

/// A tool that changes nothing, logs each run and answers at once.
pub(super) fn tool(name: &str, log: &Log, answer: Result<&'static str, &'static str>) -> impl Tool {
    let (name, log) = (name.to_owned(), log.clone());
    safe(&name.clone(), any_object(), move |_| {
        log.add(&name);
        async move { answer.map(ToolOutput::from).map_err(ToolError::failed) }
    })
}

/// A tool that may run in parallel, waits and answers with its name. It logs its start and its end.
pub(super) fn slow(name: &str, log: &Log, ms: u64) -> impl Tool {
    let (name, log) = (name.to_owned(), log.clone());
    safe(&name.clone(), any_object(), move |_| {
        let (name, log) = (name.clone(), log.clone());
        async move {
            log.add(format!("{name} begins"));
            tokio::time::sleep(Duration::from_millis(ms)).await;
            log.add(format!("{name} is done"));
            Ok(ToolOutput::from(name))
        }
    })
    .parallel()
}

/// A tool that logs each run; its calls have that zone.
pub(super) fn tool_with_facts(name: &str, log: &Log, zone: Zone) -> impl Tool {
    let (name, log) = (name.to_owned(), log.clone());
    let work = move |permit: Permit| {
        log.add(format!("{} {}", permit.tool(), permit.input()));
        async { Ok(ToolOutput::from("ok")) }
    };
    FnTool::new(ToolSpec::new(name, "for a test", any_object()), work).with_facts(Facts::zone(zone))
}

/// The schema of a tool that takes any object.
pub(super) fn any_object() -> Value {
    json!({"type": "object"})
}

/// A step that calls a tool with an empty input.
pub(super) fn call(name: &str) -> Step {
    Step::call(name, json!({}))
}

/// An agent on a script, with its recorded model.
pub(super) struct Stage {
    pub(super) agent: Agent,
    pub(super) model: RecordingModel<ScriptedModel>,
}

impl Stage {
    pub(super) fn new<const N: usize>(
        steps: [Step; N],
        build: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Self {
        let model = RecordingModel::new(ScriptedModel::new(steps));
        let agent = build(Agent::builder(model.clone())).build().expect("the case is well formed");
        Stage { agent, model }
    }

    pub(super) async fn session(&self) -> Session {
        self.agent.main_session().await.expect("a session is made")
    }

    /// Returns a run on the main session that has not started yet.
    pub(super) async fn run(&self) -> Run {
        self.session().await.prompt("go")
    }

    /// Runs one prompt to its end and collects every event.
    pub(super) async fn play(&self) -> Played {
        self.say("go").await
    }

    /// Runs the given prompt to its end and collects every event.
    pub(super) async fn say(&self, prompt: impl Into<Content>) -> Played {
        let mut run = self.session().await.prompt(prompt);
        let mut events = vec![];
        while let Some(event) = run.next().await {
            events.push(event);
        }
        let reply = run.reply().await.unwrap_or_else(|error| *error.reply);
        let session = self.session().await;
        let transcript = transcript(&session);
        Played { session, transcript, reply, events, requests: self.model.requests() }
    }
}

/// Plays one run of an agent on a script.
pub(super) async fn play<const N: usize>(
    steps: [Step; N],
    build: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Played {
    Stage::new(steps, build).play().await
}

/// A finished run and everything it left behind.
pub(super) struct Played {
    pub(super) session: Session,
    pub(super) transcript: String,
    pub(super) reply: Reply,
    pub(super) events: Vec<Arc<Event>>,
    pub(super) requests: Vec<Request>,
}

impl Played {
    /// The results in history, in order: `c1.1: text`, or `c1.1 (kind): text`.
    pub(super) fn results(&self) -> Vec<&str> {
        self.transcript.lines().filter_map(|line| line.strip_prefix("result ")).collect()
    }

    pub(super) fn reason(&self) -> &'static str {
        self.reply.reason.as_str()
    }

    /// The events whose text begins with one of these words.
    pub(super) fn find_events(&self, words: &[&str]) -> Vec<String> {
        let shown = self.events.iter().map(|event| shown_event(event));
        shown.filter(|line| words.iter().any(|word| line.starts_with(word))).collect()
    }

    /// The notes of hooks in a request, one line each. Requests count from 1.
    pub(super) fn notes(&self, request: usize) -> Vec<String> {
        let request = &self.requests[request - 1];
        let last = request.messages.iter().rev().take(request.notes).map(|message| message.text());
        let lines = last.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|line| !line.contains("system-reminder>")).collect()
    }

    /// The messages of a request as `role: text`. Requests count from 1.
    pub(super) fn sent(&self, request: usize) -> Vec<String> {
        self.requests[request - 1].messages.iter().map(shown).collect()
    }
}

/// Formats a message as `role: text`.
pub(super) fn shown(message: &Message) -> String {
    let role = match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        _ => "toolResult",
    };
    format!("{role}: {}", message.text())
}

/// Asserts that a text contains a part; on failure it shows both.
#[track_caller]
pub(super) fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{text:?} does not hold {part:?}");
}
