//! Profiles: the contents of an `agent.json`, and the effect of its actions in a run.

use std::{
    fs,
    future::{Future, ready},
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cotter::{
    Agent, EndReason, Origin, Registry,
    hooks::ui::{Question, QuestionAnswer, Ui, UiFuture},
    registry::DisabledHooks,
    text::redact::Redactor,
};
use cotter_files::{
    command_hook::{HookHost, HookLocation, ProcessOutput, ProcessSpec, ResidentProcess},
    document::{Document, location::SettingsError},
    profile::{ActionHost, PostFuture, Profile, ProfileGrants, WebhookPoster},
};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step};

use super::kit::{Log, assert_contains, call, tool};

/// A host that starts no programs.
struct Nobody;

impl HookHost for Nobody {
    fn run(
        &self,
        _: ProcessSpec,
    ) -> Pin<Box<dyn Future<Output = Result<ProcessOutput, String>> + Send>> {
        Box::pin(ready(Err("nothing is started here".into())))
    }

    fn serve(&self, _: ProcessSpec) -> Result<Box<dyn ResidentProcess>, String> {
        Err("nothing is started here".into())
    }
}

/// Records the posts. Only one host is admitted.
#[derive(Clone, Default)]
struct Post(Arc<Mutex<Vec<String>>>);

impl WebhookPoster for Post {
    fn admits(&self, url: &str) -> Result<(), String> {
        match url.starts_with("https://hooks.example.com/") {
            true => Ok(()),
            false => Err("it is not on the list".into()),
        }
    }

    fn post(&self, url: &str, body: Arc<[u8]>) -> PostFuture {
        let line = format!("{url} {}", String::from_utf8_lossy(&body));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        Box::pin(ready(Err("nobody is there".into())))
    }
}

fn read(text: &str, commands: bool) -> Result<Profile, SettingsError> {
    let document = Document::parse("agent.json", text)?;
    Profile::from_document(
        &document,
        "audit",
        ProfileGrants { commands, posts: Some(&Post::default()) },
    )
}

fn means(folder: &Path, posts: &Post) -> ActionHost {
    let folder = folder.canonicalize().expect("the folder is there");
    let commands = HookLocation {
        folder: folder.clone(),
        confined: true,
        host: Arc::new(Nobody),
        state: None,
    };
    ActionHost {
        folder,
        commands,
        posts: Arc::new(posts.clone()),
        redactor: Arc::new(Redactor::new()),
    }
}

/// Returns the hooks that a profile registers with an agent.
fn hooks(text: &str, off: Option<DisabledHooks>) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = read(text, true).expect("the case's profile");
    let agent = Agent::builder(ScriptedModel::new([])).build().expect("an agent");
    let before = agent.hooks().len();
    let means = means(folder.path(), &Post::default());
    let fill = |unit: &mut Registry| {
        profile.register(unit, &means);
        off.map(|off| unit.leave_out_hooks(off));
    };
    agent.extend(profile.owner("agent.json"), fill).map_err(|error| error.to_string())?;
    let hooks = agent.hooks().into_iter();
    let own = hooks.filter(|hook| matches!(hook.owner.origin, Origin::Profile(_)));
    let own: Vec<_> = own.map(|hook| format!("{} {}", hook.point, hook.power.as_str())).collect();
    assert_eq!(agent.hooks().len(), before + own.len());
    Ok(own)
}

pub(super) async fn no_hooks_register_nothing() {
    assert_eq!(hooks("{}", None), Ok(vec![]));
}

pub(super) async fn disabled_observers_are_removed_and_gates_stop_the_start() {
    let watches = r#"{"hooks": {"onStart": [{"action": "log"}]}}"#;
    let asks =
        r#"{"hooks": {"onStart": [{"action": "log"}], "onToolCall": [{"action": "approve"}]}}"#;
    assert_eq!(hooks(watches, Some(DisabledHooks::Observers)), Ok(vec![]));
    let refused = hooks(asks, Some(DisabledHooks::Observers)).expect_err("a gate is not lost");
    assert_contains(&refused, "has the gate `onToolCall.approve`, which is not an observer");
    assert_eq!(hooks(asks, Some(DisabledHooks::All)), Ok(vec![]));
}

pub(super) async fn seven_buckets_are_bound() {
    let buckets = cotter_files::profile::read::MOMENTS.iter();
    let lists = buckets.map(|(name, _)| format!(r#""{name}": [{{"action": "log"}}]"#));
    let text = format!(r#"{{"hooks": {{{}}}}}"#, lists.collect::<Vec<_>>().join(", "));
    let mut bound = hooks(&text, None).expect("all are bound");
    bound.sort();
    let points = [
        "error",
        "model.post",
        "model.pre",
        "session.end",
        "session.start",
        "tool.post",
        "tool.pre",
    ];
    assert_eq!(bound, points.map(|point| format!("{point} observe")));
}

/// Checks that a file is refused for this reason.
pub(super) async fn refused(action: &'static str, bucket: &'static str, why: &'static str) {
    let text = format!(r#"{{"hooks": {{"{bucket}": [{action}]}}}}"#);
    let error = read(&text, !action.contains("check.sh")).expect_err(action);
    assert_contains(&error.to_string(), why);
}

/// Checks that several files are refused.
pub(super) async fn all_refused(cases: &'static [(&'static str, &'static str)]) {
    for (action, why) in cases {
        refused(action, "onStart", why).await;
    }
}

pub(super) async fn two_events_are_two_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = r#"{"hooks": {
        "onToolCall": [{"action": "save_json", "path": "runs/log.jsonl"}],
        "onToolEnd": [{"action": "save_json", "path": "runs/log.jsonl"}],
        "onComplete": [{"action": "webhook", "url": "https://hooks.example.com/x"}]}}"#;
    let posts = Post::default();
    let (profile, means) = (read(text, false).expect("a profile"), means(folder.path(), &posts));
    let model = ScriptedModel::new([call("t"), Step::text("done")]);
    let agent = Agent::builder(model).tool(tool("t", &Log::default(), Ok("ok"))).build();
    let agent = agent.expect("an agent");
    agent.extend(profile.owner("x"), |unit| profile.register(unit, &means)).expect("it registers");
    let reply = agent.process_request("go").await.expect("what fails changes nothing");
    assert_eq!(reply.reason, EndReason::EndTurn);
    let lines = fs::read_to_string(folder.path().join("runs/log.jsonl")).expect("the file");
    let events: Vec<_> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line is JSON"))
        .map(|line| line["event"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(events, ["tool.pre", "tool.post"]);
    let posted = posts.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(posted.len(), 1);
    assert_contains(&posted[0], r#""profile":"audit","event":"session.end""#);
}

/// Runs calls of these tools with this person. Returns the tools that ran and the transcript.
async fn run_with_approval(
    tools: &str,
    calls: &[&'static str],
    person: Option<impl Ui>,
) -> (Vec<String>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(r#"{{"hooks": {{"onToolCall": [{{"action": "approve"{tools}}}]}}}}"#);
    let profile = read(&text, false).expect("a profile");
    let log = Log::default();
    let steps = calls.iter().map(|name| call(name)).chain([Step::text("done")]);
    let mut builder = Agent::builder(ScriptedModel::new(steps));
    for name in ["readFile", "send_email", "shell_execute"] {
        builder = builder.tool(tool(name, &log, Ok("ok")));
    }
    if let Some(person) = person {
        builder = builder.ui(person);
    }
    let agent = builder.build().expect("an agent");
    let means = means(folder.path(), &Post::default());
    agent.extend(profile.owner("x"), |unit| profile.register(unit, &means)).expect("it registers");
    let session = agent.main_session().await.expect("a session");
    session.prompt("go").await.expect("the run ends");
    (log.lines(), cotter_test::transcript(&session))
}

pub(super) async fn yes_runs_the_call() {
    let person = ScriptedUi::new([PersonAnswer::Yes]);
    let (ran, _) = run_with_approval("", &["send_email"], Some(person.clone())).await;
    assert_eq!(ran, ["send_email"]);
    assert_contains(&person.shown(), "the profile `audit` wants a person to approve this");
}

pub(super) async fn a_no_blocks_with_its_reason() {
    let person = ScriptedUi::new([PersonAnswer::No("not today".into())]);
    let (ran, told) = run_with_approval("", &["send_email"], Some(person)).await;
    assert!(ran.is_empty());
    assert_contains(&told, "not today");
}

pub(super) async fn only_listed_tools_ask() {
    let person = ScriptedUi::new([PersonAnswer::Yes, PersonAnswer::Yes]);
    let tools = r#", "tools": ["send_*", "shell_execute"]"#;
    let calls = ["readFile", "send_email", "shell_execute"];
    let (ran, _) = run_with_approval(tools, &calls, Some(person.clone())).await;
    assert_eq!(ran, calls);
    assert_eq!(person.questions().len(), 2);
}

pub(super) async fn question_without_an_answer_refuses() {
    let person = ScriptedUi::new([PersonAnswer::Nothing]);
    let (ran, _) = run_with_approval("", &["send_email"], Some(person)).await;
    assert!(ran.is_empty());
    let (ran, told) = run_with_approval("", &["send_email"], None::<ScriptedUi>).await;
    assert!(ran.is_empty());
    assert_contains(&told, "no person can be asked");
}

/// A person who answers late.
struct Late(ScriptedUi);

impl Ui for Late {
    fn present(&self) -> bool {
        true
    }

    fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(150)).await;
            self.0.ask(question).await
        })
    }
}

pub(super) async fn a_late_answer_is_waited_for() {
    let person = Late(ScriptedUi::new([PersonAnswer::Yes]));
    let (ran, _) = run_with_approval("", &["send_email"], Some(person)).await;
    assert_eq!(ran, ["send_email"]);
}
