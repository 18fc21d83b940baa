//! A process that is killed at any moment leaves a session that can be opened again and keeps every
//! invariant.
//!
//! The test binary starts itself as a worker: an agent on a JSON-lines store whose tools write one line per
//! effect to a file. A worker counts its moments: before and after each append and sync, at each piece of a
//! reply, before and after each effect. At the planned moment it reports and waits until it is killed
//! (SIGKILL). Other workers are killed at random.

use std::{
    collections::HashMap,
    env,
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use cotter::{
    Agent, AgentBuilder, FnTool, Message, Permit, Session, Tool,
    history::{
        jsonl::JsonlStore,
        ledger,
        message::{StopReason, Usage, UserMessageKind},
        store::Store,
    },
    hooks::{
        events::EventKind,
        points::{SessionEnd, SessionEndEvent},
    },
    model::{Delta, Model, ReplyStream, Request},
    permission::{Zone, facts::Facts},
};
use cotter_test::{Diary, Dice, PersonAnswer, ScriptedUi, ending, fresh, spec, transcript};
use expect_test::expect;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

use crate::kit::{Moment, Spy, files, print_line, wait_for_kill};

const PLAN: &str = "COTTER_CRASH_PLAN";
/// The number of replies with calls per prompt.
const STEPS: usize = 4;

/// S26, L6, P10, B1: the process dies at every moment of a run, once each.
#[test]
fn s26_session_continues_after_a_kill_at_any_moment() {
    let moments = count_moments();
    assert!(moments > 60, "a run has many moments, not {moments}");
    for at in 1..=moments {
        let home = tempfile::tempdir().expect("there is room for a folder");
        let worker = Worker::start(home.path(), None, &json!({"at": at}));
        let (session, acknowledged) = worker.kill_when_it_says();
        check(home.path(), &session, &acknowledged, &format!("killed at moment {at}"));
    }
}

/// S26, P10: the last append is truncated, as by an unfinished write.
#[test]
fn p10_kill_during_a_write_loses_only_that_line() {
    for seed in 0..24 {
        let home = tempfile::tempdir().expect("there is room for a folder");
        let plan = json!({"tear": 1 + seed, "keep": 7 * seed * seed});
        let worker = Worker::start(home.path(), None, &plan);
        let (session, acknowledged) = worker.kill_when_it_says();
        check(home.path(), &session, &acknowledged, &format!("torn, seed {seed}"));
    }
}

/// S26, L6: one session is killed repeatedly at random and continues in between.
#[test]
fn s26_session_survives_repeated_kills() {
    for seed in 0..8 {
        let home = tempfile::tempdir().expect("there is room for a folder");
        let mut dice = Dice::new(seed);
        let (mut session, mut acknowledged) = (None, vec![]);
        for _ in 0..4 {
            let worker = Worker::start(home.path(), session.as_deref(), &json!({}));
            let (id, more) = worker.kill_after(Duration::from_micros(dice.below(12_000)));
            session = Some(id);
            acknowledged.extend(more);
        }
        let session = session.expect("a worker names its session before it works");
        check(home.path(), &session, &acknowledged, &format!("random, seed {seed}"));
    }
}

/// L6, S26: the question is still open and within its deadline, so the same run continues.
#[test]
fn l6_run_killed_at_a_question_continues_from_the_question() {
    let home = tempfile::tempdir().expect("there is room for a folder");
    let worker = Worker::start(home.path(), None, &json!({"question": 3600}));
    let (id, _) = worker.kill_when_it_says();
    let diary = Diary::default();
    let ui = ScriptedUi::new([PersonAnswer::Yes]);
    let agent = watched(builder(home.path(), |_| {}).ui(ui.clone()), &diary);
    block_on(async {
        let session = agent.session(&id).await.expect("it opens");
        assert_eq!(diary.shown(), "", "the run is not over");
        let run = session.resume().await.expect("a run waits for its answer");
        let reply = run.await.expect("the run goes on");
        assert_eq!((reply.run_id.as_str(), reply.reason.as_str()), ("r1", "end_turn"));
        assert!(session.resume().await.is_none(), "it waits no more");
    });
    expect![[r#"
        risky {"key":"n0.0"} <- zone: zone `external` asks at level `standard`
    "#]]
    .assert_eq(&ui.shown());
    assert_eq!(diary.shown(), "r1 end_turn\n");
    assert_eq!(effects(home.path()), HashMap::from([("n0.0".to_owned(), 1)]));
    drop(agent);
    check(home.path(), &id, &[], "after the question was answered");
}

/// L6: the deadline has passed, or the person sends another prompt. The run gets its end, once.
#[test]
fn l6_run_with_an_abandoned_question_ends_as_crashed() {
    for (seconds, resumes) in [(0, false), (3600, true)] {
        let home = tempfile::tempdir().expect("there is room for a folder");
        let worker = Worker::start(home.path(), None, &json!({"question": seconds}));
        let (id, _) = worker.kill_when_it_says();
        thread::sleep(Duration::from_millis(2));
        let diary = Diary::default();
        let agent = watched(builder(home.path(), |_| {}), &diary);
        block_on(async {
            let session = agent.session(&id).await.expect("it opens");
            assert_eq!(diary.shown(), if resumes { "" } else { "r1 crashed\n" });
            let reply = session.prompt("go on").await;
            assert_eq!(ending(&reply), "end_turn");
            expect![[r#"
                user: ask
                assistant: reply 0
                call n0.0: risky {"key":"n0.0"}
                result n0.0 (cancelled): Cancelled: the process ended before this call started.
                user: go on
            "#]]
            .assert_eq(&transcript(&session).split_inclusive('\n').take(5).collect::<String>());
        });
        assert_eq!(diary.shown(), "r1 crashed\nr2 end_turn\n");
        drop(agent);
        check(home.path(), &id, &[], "after the question was dropped");
    }
}

/// The process that [`Worker`] starts. Run directly, it does the same work and finishes.
#[test]
fn crash_worker_of_the_kill_tests() {
    if let Ok(plan) = env::var(PLAN) {
        return work(&serde_json::from_str(&plan).expect("a plan is JSON"));
    }
    let home = tempfile::tempdir().expect("there is room for a folder");
    let agent = watched(builder(home.path(), |_| {}), &Diary::default());
    let id = block_on(async {
        let session = fresh(&agent).await;
        assert_eq!(ending(&session.prompt("go").await), "end_turn");
        session.id().clone()
    });
    drop(agent);
    assert_eq!(effects(home.path()).len(), 8);
    check(home.path(), &id, &[], "never killed");
}

/// A worker process.
struct Worker {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(home: &Path, session: Option<&str>, plan: &Value) -> Self {
        let mut plan = plan.clone();
        plan["home"] = json!(home);
        plan["session"] = json!(session);
        let name = "crash::crash_worker_of_the_kill_tests";
        let mut child = Command::new(env::current_exe().expect("a test has a binary"))
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(PLAN, plan.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test binary starts");
        let out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        Worker { child, out }
    }

    /// Kills the worker at the planned moment, or when it is done. Returns its session and its reports.
    fn kill_when_it_says(mut self) -> (SmolStr, Vec<Value>) {
        let mut told = vec![];
        let mut line = String::new();
        while self.out.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if line.trim_end() == "now" {
                break;
            }
            told.push(std::mem::take(&mut line));
        }
        self.killed(told)
    }

    /// Kills the worker some time after it reported its session.
    fn kill_after(mut self, wait: Duration) -> (SmolStr, Vec<Value>) {
        let mut told = vec![];
        while !told.last().is_some_and(|line: &String| line.starts_with("session ")) {
            let mut line = String::new();
            let bytes = self.out.read_line(&mut line).expect("the worker speaks");
            assert!(bytes > 0, "the worker ended before it named its session: {told:?}");
            told.push(line);
        }
        thread::sleep(wait);
        self.killed(told)
    }

    fn killed(mut self, mut told: Vec<String>) -> (SmolStr, Vec<Value>) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is gone");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("it spoke UTF-8");
        told.extend(rest.split_inclusive('\n').map(str::to_owned));
        // The kill may have truncated the last line.
        told.retain(|line| line.ends_with('\n'));
        let after = |word: &str| {
            let lines = told.iter().filter_map(|line| line.strip_prefix(word));
            lines.map(|rest| rest.trim_end().to_owned()).collect::<Vec<_>>()
        };
        let session = after("session ").first().cloned();
        let read = |line: &String| serde_json::from_str(line).expect("an entry is JSON");
        let acknowledged = after("ack ").iter().map(read).collect();
        (session.unwrap_or_else(|| panic!("no session in {told:?}")).into(), acknowledged)
    }
}

/// Counts the moments of a run.
fn count_moments() -> u64 {
    let home = tempfile::tempdir().expect("there is room for a folder");
    let count = Arc::new(AtomicU64::new(0));
    let counter = count.clone();
    let agent = builder(home.path(), move |_| _ = counter.fetch_add(1, Ordering::SeqCst));
    let agent = watched(agent, &Diary::default());
    block_on(async {
        let session = fresh(&agent).await;
        let _listening = session.events();
        assert_eq!(ending(&session.prompt("go").await), "end_turn");
    });
    count.load(Ordering::SeqCst)
}

/// Runs the plan in the worker process. Never returns from the moment at which the worker is killed.
fn work(plan: &Value) {
    let home = PathBuf::from(plan["home"].as_str().expect("a plan has a home"));
    let doom = Doom::new(&home, plan);
    let mut builder = builder(&home, move |what| doom.reached(what));
    if let Some(seconds) = plan["question"].as_u64() {
        builder = builder.ui(Standing).limits(|limits| {
            limits.question = Duration::from_secs(seconds).max(Duration::from_millis(1));
        });
    }
    let agent = builder.build().expect("the agent is sound");
    block_on(async {
        let session = match plan["session"].as_str() {
            Some(id) => agent.session(id).await.expect("the session opens again"),
            None => fresh(&agent).await,
        };
        print_line(&format!("session {}", session.id()));
        loop {
            let prompt = if plan["question"].is_null() { "go" } else { "ask" };
            run_and_report(&session, prompt).await;
        }
    });
}

/// Runs a prompt and prints every reported entry.
async fn run_and_report(session: &Session, prompt: &str) {
    let mut run = session.prompt(prompt);
    while let Some(event) = run.next().await {
        if let EventKind::Message { entry } = &event.kind {
            print_line(&format!("ack {}", entry.to_json()));
        }
    }
    assert_eq!(ending(&run.reply().await), "end_turn");
}

/// The moment at which a worker stops and waits to be killed.
struct Doom {
    folder: PathBuf,
    at: Option<u64>,
    /// The append to truncate, and a number from which the kept length is computed.
    tear: Option<(u64, u64)>,
    moments: AtomicU64,
    appends: AtomicU64,
    length: AtomicU64,
}

impl Doom {
    fn new(home: &Path, plan: &Value) -> Self {
        Doom {
            folder: home.join("sessions"),
            at: plan["at"].as_u64(),
            tear: plan["tear"].as_u64().zip(plan["keep"].as_u64()),
            moments: AtomicU64::new(0),
            appends: AtomicU64::new(0),
            length: AtomicU64::new(0),
        }
    }

    fn reached(&self, what: Option<Moment>) {
        let nth = self.moments.fetch_add(1, Ordering::SeqCst) + 1;
        if self.at == Some(nth) {
            wait_for_kill();
        }
        match what {
            Some(Moment::Appending) => self.length.store(self.file_length(), Ordering::SeqCst),
            Some(Moment::Appended) => self.tear(self.appends.fetch_add(1, Ordering::SeqCst) + 1),
            _ => {}
        }
    }

    fn tear(&self, append: u64) {
        let Some((_, keep)) = self.tear.filter(|(nth, _)| *nth == append) else { return };
        let (before, after) = (self.length.load(Ordering::SeqCst), self.file_length());
        let length = before + keep % (after - before);
        let file = OpenOptions::new().write(true).open(self.file()).expect("it is there");
        file.set_len(length).expect("it can be cut");
        wait_for_kill();
    }

    fn file(&self) -> PathBuf {
        let mut files = fs::read_dir(&self.folder).expect("the folder is there");
        files.next().expect("the session is in it").expect("it can be read").path()
    }

    fn file_length(&self) -> u64 {
        fs::metadata(self.file()).expect("it is there").len()
    }
}

/// A person who leaves the question open until the process dies.
struct Standing;

impl cotter::hooks::ui::Ui for Standing {
    fn present(&self) -> bool {
        true
    }

    fn ask(
        &self,
        _: Arc<cotter::hooks::ui::Question>,
    ) -> cotter::hooks::ui::UiFuture<'_, Option<cotter::hooks::ui::QuestionAnswer>> {
        wait_for_kill()
    }
}

/// Creates the agent of workers and of the checks.
fn builder(home: &Path, reached: impl Fn(Option<Moment>) + Send + Sync + 'static) -> AgentBuilder {
    let reached: Reached = Arc::new(reached);
    let told = reached.clone();
    let store = Spy::new(files(home), move |moment| told(Some(moment)));
    Agent::builder(Planner(reached.clone()))
        .store(store)
        .tool(effect("write", Zone::Workspace, home, &reached))
        .tool(Beside(effect("write_beside", Zone::Workspace, home, &reached)))
        .tool(Beside(effect("look", Zone::Safe, home, &reached)))
        .tool(effect("risky", Zone::External, home, &reached))
}

type Reached = Arc<dyn Fn(Option<Moment>) + Send + Sync>;

/// Builds the agent and records every end of a run in the diary.
fn watched(builder: AgentBuilder, diary: &Diary) -> Agent {
    let diary = diary.clone();
    let ended = move |ended: &SessionEndEvent, cx: &cotter::Cx| {
        diary.add(format!("{} {}", cx.run_id(), ended.reason.as_str()));
    };
    builder.observe(SessionEnd, ended).build().expect("the agent is sound")
}

/// A tool that writes one line per call.
fn effect(name: &'static str, zone: Zone, home: &Path, reached: &Reached) -> impl Tool + use<> {
    let (file, reached) = (home.join("effects"), reached.clone());
    let run = move |permit: Permit| {
        let (file, reached) = (file.clone(), reached.clone());
        async move {
            reached(None);
            let mut file = OpenOptions::new().create(true).append(true).open(file).expect("a file");
            file.write_all(format!("{}\n", permit.call_id()).as_bytes()).expect("a line");
            reached(None);
            tokio::task::yield_now().await;
            Ok("done".into())
        }
    };
    FnTool::new(spec(name), run).with_facts(Facts::zone(zone))
}

/// A tool that may run in parallel.
struct Beside<T>(T);

impl<T: Tool> Tool for Beside<T> {
    fn spec(&self) -> &cotter::ToolSpec {
        self.0.spec()
    }

    fn effects(&self, input: &Value, workspace: &cotter::Workspace) -> Facts {
        self.0.effects(input, workspace)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> cotter::tool::ToolFuture<'_> {
        self.0.run(permit)
    }
}

/// A model that computes its next reply from the history alone and never repeats an id.
struct Planner(Reached);

impl Planner {
    fn calls(request: &Request) -> Vec<(usize, &'static str)> {
        let mut in_turn = 0;
        let mut prompt = String::new();
        for message in request.messages.iter() {
            match message {
                Message::User(user) if user.kind == UserMessageKind::Typed => {
                    in_turn = 0;
                    prompt = user.content.text().into_owned();
                }
                Message::Assistant(_) => in_turn += 1,
                _ => {}
            }
        }
        let names: &[&str] = match (prompt.as_str(), in_turn) {
            ("ask", 0) => &["risky"],
            ("ask", _) | (_, STEPS..) => &[],
            (_, 0) => &["write"],
            (_, 1) => &["look", "write", "write"],
            (_, 2) => &["write_beside", "look", "write_beside"],
            _ => &["look"],
        };
        names.iter().copied().enumerate().collect()
    }
}

impl Model for Planner {
    fn name(&self) -> &SmolStr {
        const NAME: &SmolStr = &SmolStr::new_static("test/planner");
        NAME
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let replies = |message: &&Message| matches!(message, Message::Assistant(_));
        let n = request.messages.iter().filter(replies).count();
        let calls = Planner::calls(&request);
        let stop_reason = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let call = |(i, name): (usize, &'static str)| {
            let id = format_smolstr!("n{n}.{i}");
            Delta::Call { input: json!({"key": id}), id, name: name.into() }
        };
        let text = [Delta::Text(format!("reply {n}"))];
        let done = [Delta::Done { stop_reason, usage: Usage::default() }];
        let deltas: Vec<_> =
            text.into_iter().chain(calls.into_iter().map(call)).chain(done).collect();
        let reached = self.0.clone();
        Box::pin(stream::iter(deltas).map(move |delta| {
            reached(None);
            Ok(delta)
        }))
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts")
        .block_on(future)
}

/// Opens the session again, checks it, continues it, and checks it once more.
fn check(home: &Path, id: &str, acknowledged: &[Value], when: &str) {
    let diary = Diary::default();
    let agent = watched(builder(home, |_| {}), &diary);
    block_on(async {
        let session = agent.session(id).await.unwrap_or_else(|error| panic!("{when}: {error}"));
        assert!(diary.lines().len() <= 1, "{when}: {}", diary.shown());
        check_acknowledged(&session, acknowledged, when).await;
        check_history(&session, home, when).await;
        check_records(home, id, when);
        let reply = session.prompt("go").await;
        assert_eq!(ending(&reply), "end_turn", "{when}");
        check_acknowledged(&session, acknowledged, when).await;
        check_history(&session, home, when).await;
    });
    check_records(home, id, when);
}

/// Checks that every reported entry was stored.
async fn check_acknowledged(session: &Session, acknowledged: &[Value], when: &str) {
    let there: Vec<_> = session.entries().iter().map(|entry| entry.to_json()).collect();
    for entry in acknowledged {
        assert!(there.contains(entry), "{when}: lost {entry}\nthere is {there:#?}");
    }
}

/// Checks that every call has exactly one result, in call order, directly after the reply, and that the
/// result is true about the effect.
async fn check_history(session: &Session, home: &Path, when: &str) {
    let entries = session.entries();
    let shown = transcript(session);
    let messages: Vec<_> = entries.iter().filter_map(|entry| entry.message()).collect();
    let effects = effects(home);
    assert!(effects.values().all(|count| *count == 1), "{when}: an effect ran twice: {effects:?}");
    let mut results = messages.iter().filter(|message| matches!(message, Message::ToolResult(_)));
    for (index, message) in messages.iter().enumerate() {
        let Message::Assistant(reply) = message else { continue };
        for (offset, call) in reply.calls().enumerate() {
            let Some(Message::ToolResult(result)) = messages.get(index + 1 + offset) else {
                panic!("{when}: {} has no result in its place\n{shown}", call.id);
            };
            assert_eq!(result.call_id, call.id, "{when}\n{shown}");
            assert!(results.next().is_some());
            let ran = effects.contains_key(call.id.as_str());
            match result.error.map(cotter::history::outcome::ToolErrorKind::as_str) {
                None => assert!(ran, "{when}: {} did not run\n{shown}", call.id),
                Some("cancelled") => assert!(!ran, "{when}: {} did run\n{shown}", call.id),
                Some(kind) => assert_eq!(kind, "unavailable", "{when}\n{shown}"),
            }
        }
    }
    assert!(results.next().is_none(), "{when}: a result without a call\n{shown}");
    for call in effects.keys() {
        assert!(shown.contains(&format!("result {call}")), "{when}: {call} ran, unknown\n{shown}");
    }
}

/// Checks that every run has one start and one end, every effect has its row, and the hash chain is intact.
fn check_records(home: &Path, id: &str, when: &str) {
    let store: JsonlStore = files(home);
    let lines = store.lines(id).expect("the session is there");
    let read = |line: &Vec<u8>| serde_json::from_slice::<Value>(line).ok();
    let records: Vec<_> = lines.iter().filter_map(read).collect();
    let named = |kind: &str, key: &str| -> Vec<String> {
        let of_kind = records.iter().filter(|record| record["type"] == kind);
        of_kind.map(|record| record[key].as_str().expect("it is named").to_owned()).collect()
    };
    assert_eq!(named("run.start", "runId"), named("run.end", "runId"), "{when}");
    let rows = named("ledger", "callId");
    for call in effects(home).keys() {
        assert_eq!(rows.iter().filter(|row| *row == call).count(), 1, "{when}: rows of {call}");
    }
    let checked = ledger::verify(id, lines.iter().map(Vec::as_slice));
    assert!(checked.is_ok(), "{when}: the chain breaks at line {checked:?}");
}

/// Counts the effects of each call.
fn effects(home: &Path) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for call in fs::read_to_string(home.join("effects")).unwrap_or_default().lines() {
        *counts.entry(call.to_owned()).or_default() += 1;
    }
    counts
}
