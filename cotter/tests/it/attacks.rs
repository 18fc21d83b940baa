//! Models, hooks, tools and stores that misbehave on purpose. The invariants must hold all the same.

use std::{
    future::{Future, poll_fn},
    path::Path,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use cotter::{
    Agent, At, FnTool, Origin, Owner, Permit, Tool, ToolSpec, Verdict, Workspace,
    builtin::Read,
    history::{
        message::{StopReason, Usage},
        store::MemoryStore,
    },
    hooks::{
        points::{
            PermissionAnswer, PermissionAsk, SessionEnd, SessionEndEvent, SessionStart,
            SessionStartEvent, ToolPre, ToolPreChange, ToolPreEvent,
        },
        ui::{CallApproval, Question, QuestionAnswer, Ui, UiFuture},
    },
    model::{Delta, Model, ReplyStream, Request},
    named,
    permission::{
        Zone,
        facts::Facts,
        mode::Mode,
        rule::{Rule, RuleKind},
    },
    registry::RegisterError,
    tool::ToolFuture,
};
use cotter_test::{
    Diary, PersonAnswer, ScriptedModel, ScriptedUi, Step, ending, fresh, probe, spec, transcript,
};
use expect_test::expect;
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::kit::{Moment, Spy, files, records, to_the_end};

/// A model that sends exactly these pieces, one reply per request, and then says `done`.
struct Raw {
    name: SmolStr,
    replies: Mutex<Vec<Vec<Delta>>>,
    cost: Option<f64>,
}

impl Raw {
    fn new(replies: impl IntoIterator<Item = Vec<Delta>>) -> Self {
        let mut replies: Vec<_> = replies.into_iter().collect();
        replies.reverse();
        Raw { name: "test/raw".into(), replies: Mutex::new(replies), cost: None }
    }
}

fn call(id: &str, name: &str, input: Value) -> Delta {
    Delta::Call { id: id.into(), name: name.into(), input }
}

impl Model for Raw {
    fn name(&self) -> &SmolStr {
        &self.name
    }

    fn stream(&self, _: Request) -> ReplyStream {
        let last = || vec![Delta::Text("done".into())];
        let mut reply = self.replies.lock().unwrap().pop().unwrap_or_else(last);
        reply.push(Delta::Done { stop_reason: StopReason::EndTurn, usage: Usage::default() });
        Box::pin(futures_util::stream::iter(reply.into_iter().map(Ok)))
    }

    fn cost_usd(&self, _: &Usage) -> Option<f64> {
        self.cost
    }
}

/// S4: a generated id never equals the id of another call, so a yes never counts for another call.
#[tokio::test]
async fn s4_yes_to_one_call_does_not_approve_another_call_of_its_id() {
    let diary = Diary::default();
    let calls = vec![
        call("call_1_1", "risky", json!({"do": "little"})),
        call("", "risky", json!({"do": "harm"})),
    ];
    let agent = Agent::builder(Raw::new([calls]))
        .ui(ScriptedUi::new([PersonAnswer::Each(vec![true, false])]))
        .tool(probe("risky", Zone::External, &diary))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    assert_eq!(diary.shown(), "risky {\"do\":\"little\"}\n", "{}", transcript(&session));
}

/// S2: a gate that is registered while the start of a call is written to the disk still counts.
#[tokio::test]
async fn s2_gate_registered_while_the_ledger_row_is_synced_blocks() {
    let diary = Diary::default();
    let slot: Arc<Mutex<Option<Agent>>> = Arc::default();
    let late = slot.clone();
    let store = Spy::new(MemoryStore::new(), move |moment| {
        if moment == Moment::Synced
            && let Some(agent) = late.lock().unwrap().take()
        {
            agent
                .gate(ToolPre, named("late", |_: &ToolPreEvent| Verdict::block("too late")))
                .unwrap();
        }
    });
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("write", json!({})), Step::text("done")]))
            .store(store)
            .tool(probe("write", Zone::Workspace, &diary))
            .build()
            .unwrap();
    *slot.lock().unwrap() = Some(agent.clone());
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    assert_eq!(diary.shown(), "", "{}", records(&**agent.store(), session.id()));
}

/// After an abort while the start of a call is written to the disk, the tool does not start.
#[tokio::test]
async fn l21_abort_while_the_ledger_row_is_synced_starts_no_call() {
    let diary = Diary::default();
    let slot: Arc<Mutex<Option<tokio_util::sync::CancellationToken>>> = Arc::default();
    let late = slot.clone();
    let store = Spy::new(MemoryStore::new(), move |moment| {
        if moment == Moment::Synced
            && let Some(cancel) = late.lock().unwrap().take()
        {
            cancel.cancel();
        }
    });
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("write", json!({})), Step::text("done")]))
            .store(store)
            .tool(probe("write", Zone::Workspace, &diary))
            .build()
            .unwrap();
    let session = fresh(&agent).await;
    let run = session.prompt("go");
    *slot.lock().unwrap() = Some(run.cancel_token());
    let reply = run.await;
    assert_eq!((diary.shown().as_str(), ending(&reply).as_str()), ("", "aborted"));
}

/// An input as deep as the parser accepts can be read when the session is opened again.
#[tokio::test]
async fn p10_a_deep_input_does_not_make_its_line_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    let deep = (0..126).fold(json!(1), |inner, _| json!({"a": inner}));
    let diary = Diary::default();
    let agent = || {
        Agent::builder(Raw::new([vec![call("c1", "write", deep.clone())]]))
            .store(files(folder.path()))
            .tool(probe("write", Zone::Workspace, &diary))
            .build()
            .unwrap()
    };
    let first = agent();
    let session = fresh(&first).await;
    let _ = session.prompt("go").await;
    let id = session.id().clone();
    let before = transcript(&session);
    drop((session, first));
    let again = agent().session(&id).await.unwrap();
    assert_eq!(again.diagnostics(), Vec::<String>::new());
    assert_eq!(transcript(&again), before);
}

/// L21: a price that is negative or not a number does not disable the budget.
#[tokio::test]
async fn l21_invalid_price_does_not_disable_the_budget() {
    for cost in [f64::NAN, -1.0, f64::INFINITY] {
        let diary = Diary::default();
        let calls = || vec![call("c", "look", json!({}))];
        let model = Raw { cost: Some(cost), ..Raw::new([calls(), calls(), calls()]) };
        let agent = Agent::builder(model)
            .limits(|limits| limits.max_budget_usd = Some(0.01))
            .tool(probe("look", Zone::Safe, &diary))
            .build()
            .unwrap();
        let reply = fresh(&agent).await.prompt("go").await.unwrap();
        assert_eq!((reply.reason.as_str(), reply.steps), ("budget_exceeded", 1), "{cost}");
    }
}

/// The disk fails once, directly after an effect. The model still gets the result of the call.
#[tokio::test]
async fn s26_finished_call_is_not_reported_cancelled_after_a_store_error() {
    let diary = Diary::default();
    let ran = diary.clone();
    let stumbled = Arc::new(AtomicUsize::new(0));
    let store = Stumbling {
        store: MemoryStore::new(),
        when: Arc::new(move || {
            !ran.lines().is_empty() && stumbled.fetch_add(1, Ordering::Relaxed) == 0
        }),
    };
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("write", json!({})), Step::text("done")]))
            .store(store)
            .tool(probe("write", Zone::Workspace, &diary))
            .build()
            .unwrap();
    let session = fresh(&agent).await;
    let (_, reply) = to_the_end(session.prompt("go")).await;
    assert_eq!(ending(&reply), "error: store: the disk is full");
    let shown = transcript(&session);
    assert!(shown.contains("result c1.1: write ran"), "{shown}");
}

/// A store whose appends fail if `when` returns true.
struct Stumbling {
    store: MemoryStore,
    when: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl cotter::history::store::Store for Stumbling {
    fn create(
        &self,
        header: &cotter::history::entry::SessionHeader,
    ) -> Result<Box<dyn cotter::history::store::Log>, cotter::history::store::StoreError> {
        let log = self.store.create(header)?;
        Ok(Box::new(StumblingLog { log, when: self.when.clone() }))
    }
    fn open(
        &self,
        id: &str,
    ) -> Result<cotter::history::store::StoredSession, cotter::history::store::StoreError> {
        self.store.open(id)
    }
    fn new_id(&self) -> SmolStr {
        self.store.new_id()
    }
    fn list(
        &self,
    ) -> Result<Vec<cotter::history::store::SessionSummary>, cotter::history::store::StoreError>
    {
        self.store.list()
    }
    fn lines(&self, id: &str) -> Result<Vec<Vec<u8>>, cotter::history::store::StoreError> {
        self.store.lines(id)
    }
}

struct StumblingLog {
    log: Box<dyn cotter::history::store::Log>,
    when: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl cotter::history::store::Log for StumblingLog {
    fn append(
        &mut self,
        lines: &[cotter::history::store::StoreLine],
    ) -> Result<(), cotter::history::store::StoreError> {
        if (self.when)() {
            return Err(cotter::history::store::StoreError::new("the disk is full"));
        }
        self.log.append(lines)
    }
    fn sync(&mut self) -> cotter::history::store::SyncFuture {
        self.log.sync()
    }
}

/// L6: `session.end` fires and is reported even if the store has failed for good.
#[tokio::test]
async fn l6_session_end_fires_after_a_store_failure() {
    let diary = Diary::default();
    let (started, ended) = (diary.clone(), diary.clone());
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (breaks, is_broken) = (broken.clone(), broken);
    let agent = Agent::builder(ScriptedModel::new([Step::text("done")]))
        .store(Stumbling {
            store: MemoryStore::new(),
            when: Arc::new(move || is_broken.load(Ordering::Relaxed)),
        })
        .observe(SessionStart, move |_: &SessionStartEvent| {
            started.add("start");
            breaks.store(true, Ordering::Relaxed);
        })
        .observe(SessionEnd, move |end: &SessionEndEvent| ended.add(end.reason.as_str()))
        .build()
        .unwrap();
    let (events, _) = to_the_end(fresh(&agent).await.prompt("go")).await;
    assert_eq!(diary.shown(), "start\nerror\n");
    assert!(events.contains("session.end"), "{events}");
}

struct Panics(ToolSpec);
impl Tool for Panics {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    fn effects(&self, _: &Value, _: &Workspace) -> Facts {
        Facts::zone(Zone::Safe)
    }
    fn parallel(&self) -> bool {
        panic!("which way is up?")
    }
    fn run(&self, _: Permit) -> ToolFuture<'_> {
        Box::pin(async { Ok("ran".into()) })
    }
}

struct PanickyModel(SmolStr);
impl Model for PanickyModel {
    fn name(&self) -> &SmolStr {
        &self.0
    }
    fn stream(&self, _: Request) -> ReplyStream {
        panic!("no stream")
    }
}

struct PanickyUi;
impl Ui for PanickyUi {
    fn present(&self) -> bool {
        true
    }
    fn ask(&self, _: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        Box::pin(async { panic!("no person") })
    }
}

/// L6: after a panic the run has its end and every call its result.
#[tokio::test]
async fn l6_a_panic_outside_of_hooks_ends_the_run_properly() {
    let diary = Diary::default();
    let steps = |name: &str| ScriptedModel::new([Step::call(name, json!({})), Step::text("done")]);
    let builders = [
        Agent::builder(PanickyModel("test/panics".into())),
        Agent::builder(steps("odd")).tool(Panics(spec("odd"))),
        Agent::builder(steps("risky")).tool(probe("risky", Zone::External, &diary)).ui(PanickyUi),
    ];
    for builder in builders {
        let ends = Diary::default();
        let ended = ends.clone();
        let agent = builder
            .observe(SessionEnd, move |end: &SessionEndEvent| ended.add(end.reason.as_str()))
            .build()
            .unwrap();
        let session = fresh(&agent).await;
        let run = session.prompt("go");
        let done = tokio::spawn(run).await;
        assert!(done.is_ok(), "the panic got out");
        assert_eq!(ends.lines().len(), 1);
        let shown = transcript(&session);
        assert_eq!(shown.matches("call c").count(), shown.matches("result c").count(), "{shown}");
    }
    assert_eq!(diary.shown(), "");
}

/// No owner can register as the kernel or replace it.
#[test]
fn registration_as_the_kernel_is_refused() {
    let agent = Agent::builder(ScriptedModel::new([])).build().unwrap();
    let kernel = agent.hooks();
    let owner = || Owner::new(Origin::Kernel, "cotter");
    assert!(agent.reload(owner(), true, |_| {}).is_err());
    assert!(
        agent.extend(Owner::new(Origin::Kernel, "other"), |unit| _ = unit.mode(Mode::Ask)).is_err()
    );
    assert_eq!(agent.hooks(), kernel);
}

/// A grant does not change the identity of an owner. The owner is unloaded and replaced with or without the
/// grant.
#[test]
fn owner_is_unloaded_with_or_without_its_grant() {
    let agent = Agent::builder(ScriptedModel::new([])).build().unwrap();
    let kernel = agent.hooks();
    let plain = || Owner::new(Origin::Project, "hooks");
    let keep = |unit: &mut cotter::Registry| {
        _ = unit.transform(ToolPre, named("keep", |_: &ToolPreEvent| ToolPreChange::Keep));
    };
    agent.extend(plain().with_rewrite(), keep).unwrap();
    assert!(agent.unload(&plain()), "revoked trust must find it");
    assert_eq!(agent.hooks(), kernel);
}

/// Mode `auto` asks no person, even if a gate wants to ask.
#[tokio::test]
async fn mode_auto_refuses_calls_that_a_gate_asks_about() {
    let diary = Diary::default();
    let ui = ScriptedUi::new([PersonAnswer::Yes]);
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("look", json!({})), Step::text("done")]))
            .ui(ui.clone())
            .mode(Mode::Auto)
            .gate(ToolPre, named("wary", |_: &ToolPreEvent| Verdict::ask("sure?")))
            .tool(probe("look", Zone::Safe, &diary))
            .build()
            .unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    assert_eq!((ui.questions().len(), diary.shown().as_str()), (0, ""));
}

/// A deny rule matches either end of a link; an allow rule must cover both.
#[tokio::test]
async fn deny_rule_matches_either_end_of_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("real.txt"), "secret words").unwrap();
    std::os::unix::fs::symlink("real.txt", root.join("link.txt")).unwrap();
    for denied in ["read(./link.txt)", "read(./real.txt)"] {
        let model = ScriptedModel::new([
            Step::call("read", json!({"path": "link.txt"})),
            Step::text("done"),
        ]);
        let agent = Agent::builder(model)
            .workspace(Workspace::new(&root))
            .rule(Rule::parse(RuleKind::Deny, denied).unwrap())
            .tool(Read::default())
            .build()
            .unwrap();
        let session = fresh(&agent).await;
        let _ = session.prompt("go").await;
        let shown = transcript(&session);
        assert!(!shown.contains("secret"), "{denied}: {shown}");
    }
}

/// A limit of `Duration::MAX` is accepted.
#[tokio::test]
async fn gate_limit_of_duration_max_is_accepted() {
    let diary = Diary::default();
    let slow = |_: At<ToolPre>| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Verdict::Pass
    };
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("look", json!({})), Step::text("done")]))
            .gate(ToolPre, named("slow", slow).limit(Duration::MAX))
            .tool(probe("look", Zone::Safe, &diary))
            .build()
            .unwrap();
    let reply = fresh(&agent).await.prompt("go").await;
    assert_eq!((ending(&reply).as_str(), diary.shown().as_str()), ("end_turn", "look {}\n"));
}

/// A verdict after the gate's limit does not count, even if no other task ran in between.
#[tokio::test(start_paused = true)]
async fn l7_pass_after_the_limit_does_not_count() {
    let diary = Diary::default();
    let late = |_: At<ToolPre>| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        // One poll moves the clock forward. No other task is polled before the verdict.
        let mut later = pin!(tokio::time::advance(Duration::from_millis(100)));
        poll_fn(|task| Poll::Ready(later.as_mut().poll(task).is_ready())).await;
        Verdict::Pass
    };
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("look", json!({})), Step::text("done")]))
            .gate(ToolPre, named("late", late).limit(Duration::from_millis(50)))
            .tool(probe("look", Zone::Safe, &diary))
            .build()
            .unwrap();
    let _ = fresh(&agent).await.prompt("go").await;
    assert_eq!(diary.shown(), "");
}

/// S2: a hook that was removed can no longer answer.
#[tokio::test]
async fn s2_answer_of_a_removed_hook_does_not_count() {
    let diary = Diary::default();
    let slot: Arc<Mutex<Option<(Agent, cotter::hooks::HandlerId)>>> = Arc::default();
    let revoke = slot.clone();
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("risky", json!({})), Step::text("done")]))
            .gate(
                ToolPre,
                named("revoker", move |_: &ToolPreEvent| {
                    if let Some((agent, id)) = revoke.lock().unwrap().take() {
                        assert!(agent.remove(id));
                    }
                    Verdict::Pass
                }),
            )
            .tool(probe("risky", Zone::External, &diary))
            .build()
            .unwrap();
    let id = agent
        .answer(PermissionAsk, named("yes-man", |_: &Question| PermissionAnswer::Yes))
        .unwrap();
    *slot.lock().unwrap() = Some((agent.clone(), id));
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    assert_eq!(diary.shown(), "", "{}", records(&**agent.store(), session.id()));
}

/// A person during whose question another gate is registered.
struct Meanwhile(Mutex<Option<Box<dyn FnOnce() + Send>>>);
impl Ui for Meanwhile {
    fn present(&self) -> bool {
        true
    }
    fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        if let Some(act) = self.0.lock().unwrap().take() {
            act();
        }
        Box::pin(async move { Some(QuestionAnswer::all(&question, CallApproval::Yes, "test")) })
    }
}

/// S4: the answer to one hook does not count for another hook of the same name.
#[tokio::test]
async fn s4_answer_does_not_count_for_a_second_hook_of_the_same_name() {
    let diary = Diary::default();
    let slot: Arc<Mutex<Option<Agent>>> = Arc::default();
    let late = slot.clone();
    let ui = Meanwhile(Mutex::new(Some(Box::new(move || {
        let agent = late.lock().unwrap().take().unwrap();
        let more = named("guard", |_: &ToolPreEvent| Verdict::ask("this deletes everything"));
        agent
            .extend(Owner::new(Origin::Project, "p"), |unit| _ = unit.gate(ToolPre, more))
            .unwrap();
    }))));
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("look", json!({})), Step::text("done")]))
            .ui(ui)
            .gate(ToolPre, named("guard", |_: &ToolPreEvent| Verdict::ask("a formality")))
            .tool(probe("look", Zone::Safe, &diary))
            .build()
            .unwrap();
    *slot.lock().unwrap() = Some(agent.clone());
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    assert_eq!(diary.shown(), "", "{}", records(&**agent.store(), session.id()));
}

/// A long line counts as one line.
#[tokio::test]
async fn read_counts_a_long_line_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), format!("{}\nsecond\n", "x".repeat(40_000))).unwrap();
    let input = json!({"path": "a.txt", "offset": 2});
    let agent = Agent::builder(ScriptedModel::new([Step::call("read", input), Step::text("done")]))
        .workspace(Workspace::new(Path::new(&root)))
        .tool(Read::default())
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    expect![[r#"
        user: go
        call c1.1: read {"path":"a.txt","offset":2}
        result c1.1:      2	second
        assistant: done
    "#]]
    .assert_eq(&transcript(&session));
}

/// S20: no spelling of the tag in a tool's output opens or closes a note.
#[tokio::test]
async fn s20_every_spelling_of_the_note_tag_is_escaped() {
    for tag in [
        "<system-reminder>",
        "</system-reminder>",
        "<System-Reminder>",
        "</SYSTEM-REMINDER >",
        "< system-reminder>",
        "</ system-reminder>",
        "< / system-reminder>",
        "<\u{200b}system-reminder>",
        "<system\u{200b}-reminder>",
        "<system\u{ad}-rem\u{2060}inder>",
    ] {
        let words = tag.to_owned();
        let tool = FnTool::new(spec("look"), move |_| {
            let words = words.clone();
            async move { Ok(words.into()) }
        })
        .with_facts(Facts::zone(Zone::Safe));
        let agent =
            Agent::builder(ScriptedModel::new([Step::call("look", json!({})), Step::text("done")]))
                .tool(tool)
                .build()
                .unwrap();
        let session = fresh(&agent).await;
        let _ = session.prompt("go").await;
        let shown = transcript(&session);
        assert!(!shown.contains('<') && shown.contains("&lt;"), "{tag:?}: {shown}");
    }
}

/// An invalid glob is refused. Otherwise it would match no tool: its gate would guard nothing, and its
/// scope would hide nothing.
#[tokio::test]
async fn invalid_tool_glob_is_refused() {
    let builder = || Agent::builder(ScriptedModel::new([]));
    let gate = named("guard", |_: &ToolPreEvent| Verdict::block("no")).tools(["wri[te"]);
    let error = |built: Result<Agent, _>| built.err().map(|error: RegisterError| error.to_string());
    assert_eq!(
        error(builder().gate(ToolPre, gate).build()).as_deref(),
        Some("hook `guard`: error parsing glob 'wri[te': unclosed character class; missing ']'")
    );
    assert_eq!(
        error(builder().scope(["wri[te"]).build()).as_deref(),
        Some("scope: error parsing glob 'wri[te': unclosed character class; missing ']'")
    );
}
