//! Helpers of the tests in this folder: a diary of events, tools that write into it, a store that reports its
//! use, runs read to their end, records as text.

use std::{
    fmt::Write,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cotter::{
    Agent, At, Command, Controls, FnTool, HookCx, Registry, Reply, Run, RunError, Session, Skill,
    Subagent, Tool, ToolSpec, Verdict,
    history::{
        entry::SessionHeader,
        jsonl::JsonlStore,
        store::{Log, SessionSummary, Store, StoreError, StoreLine, StoredSession, SyncFuture},
    },
    hooks::points::ToolPre,
    invoke::{command::CommandCx, skill::SkillCx, subagent::SubagentCx},
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::shown_event;
use serde_json::{Value, json};
use smol_str::SmolStr;

/// The events of a test, in order. Clones write into the same diary.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns all lines so far, each with a newline.
    pub(crate) fn shown(&self) -> String {
        self.lines().iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Passes every point to a macro. This is the only list of points in the tests.
macro_rules! every_point {
    ($take:ident) => {
        $take!(SessionOpen SessionStart UserPromptSubmit Context ModelPre ModelPost ToolPre
            PermissionAsk ToolPost ToolRefused CompactPre CompactPost SubagentStart SubagentEnd
            TurnEnd Error SessionEnd SessionClose)
    };
}

pub(crate) use every_point;

/// Makes a tool that takes any object, writes `NAME INPUT` into the diary and answers `NAME ran`.
pub(crate) fn probe(name: &'static str, zone: Zone, diary: &Diary) -> impl Tool {
    let diary = diary.clone();
    FnTool::new(spec(name), move |permit| {
        diary.add(format!("{name} {}", permit.input()));
        async move { Ok(format!("{name} ran").into()) }
    })
    .touching(Facts::zone(zone))
}

/// Makes a parallel tool in the zone `safe` that takes as long as its input says (`ms`). It writes its start
/// and its end into the diary.
pub(crate) fn nap(diary: &Diary) -> impl Tool {
    let diary = diary.clone();
    FnTool::new(spec("nap"), move |permit| napping(permit, diary.clone()))
        .parallel()
        .touching(Facts::zone(Zone::Safe))
}

/// Makes a tool like `nap` that is not parallel: a barrier.
pub(crate) fn solo(diary: &Diary) -> impl Tool {
    let diary = diary.clone();
    FnTool::new(spec("solo"), move |permit| napping(permit, diary.clone()))
        .touching(Facts::zone(Zone::Safe))
}

async fn napping(
    permit: cotter::Permit,
    diary: Diary,
) -> Result<cotter::ToolOutput, cotter::ToolError> {
    diary.add(format!("{} starts", permit.call_id()));
    tokio::time::sleep(Duration::from_millis(permit.input()["ms"].as_u64().unwrap_or(0))).await;
    diary.add(format!("{} ends", permit.call_id()));
    Ok(format!("{} rested", permit.call_id()).into())
}

/// Makes a tool that returns its input text.
pub(crate) fn echo() -> impl Tool {
    FnTool::new(spec("echo"), |permit| async move {
        Ok(permit.input()["text"].as_str().unwrap_or("").into())
    })
    .touching(Facts::zone(Zone::Safe))
}

pub(crate) fn spec(name: &'static str) -> ToolSpec {
    ToolSpec::new(name, format!("the tool {name}"), json!({"type": "object"}))
}

/// Makes an extension with a handler of every kind, all with one action: `/cmd`, `/dir`, `/skill`, `tool`,
/// `sub`.
pub(crate) fn everywhere<F, Fut>(act: F) -> impl FnOnce(&mut Registry)
where
    F: Fn(&'static str, Controls) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    move |unit| {
        let (a, b, c, d, e, f) =
            (act.clone(), act.clone(), act.clone(), act.clone(), act.clone(), act.clone());
        let tool = FnTool::new(spec("tool"), move |permit| {
            let done = a("tool", permit.cx().controls());
            async move {
                done.await;
                Ok("tool ran".into())
            }
        });
        unit.tool(tool.touching(Facts::zone(Zone::Safe)))
            .define_hook("dir", move |cx: HookCx| b("directive", cx.controls))
            .define_skill(
                Skill::new("skill", move |cx: SkillCx| {
                    let done = c("skill", cx.controls);
                    async move {
                        done.await;
                        Ok("be kind".into())
                    }
                })
                .expose_to_agent(),
            )
            .define_mention(Subagent::new("sub", move |cx: SubagentCx| {
                let done = d("subagent", cx.controls);
                async move {
                    done.await;
                    Ok("sub did".into())
                }
            }))
            .define_command(Command::new("cmd", move |cx: CommandCx| e("command", cx.controls)))
            .on(
                ToolPre,
                named("gate", move |at: At<ToolPre>| {
                    let done = f("point", at.cx().controls());
                    async move {
                        done.await;
                        Verdict::Pass
                    }
                })
                .tools(["tool"]),
            );
    }
}

/// Reads a run to its end. Returns its events as text, and its reply.
pub(crate) async fn to_the_end(mut run: Run) -> (String, Result<Reply, RunError>) {
    let mut events = String::new();
    while let Some(event) = run.next().await {
        let _ = writeln!(events, "{}", shown_event(&event));
    }
    (events, run.reply().await)
}

/// Returns the reason of a run's end, and its error.
pub(crate) fn ending(reply: &Result<Reply, RunError>) -> String {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => &error.reply,
    };
    match &reply.error {
        Some(failed) => format!("{}: {}: {}", reply.reason.as_str(), failed.code, failed.message),
        None => reply.reason.as_str().into(),
    }
}

/// Returns the lines of a session as JSON, without values that differ from run to run.
pub(crate) fn plain_lines(store: &dyn Store, id: &str) -> Vec<Value> {
    let lines = store.lines(id).expect("the session is there");
    let read = |line: &Vec<u8>| serde_json::from_slice(line).expect("every line is JSON");
    let mut values: Vec<Value> = lines.iter().map(read).collect();
    values.iter_mut().for_each(remove_random_values);
    values
}

fn remove_random_values(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let header = fields.get("type").is_some_and(|kind| kind == "session");
            for chance in ["at", "timestamp", "createdAt", "deadline", "hash", "ns", "ms"] {
                fields.shift_remove(chance);
            }
            if header {
                fields.shift_remove("id");
                fields.shift_remove("parent");
            }
            fields.values_mut().for_each(remove_random_values);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_random_values),
        _ => {}
    }
}

/// Returns the records of a session as text, one line each: the decision about every call, and its source.
pub(crate) fn records(store: &dyn Store, id: &str) -> String {
    let kinds = ["run.start", "run.end", "question", "answer", "ledger", "outcome"];
    let mut text = String::new();
    for line in plain_lines(store, id) {
        let kind = line["type"].as_str().unwrap_or_default();
        if !kinds.contains(&kind) {
            continue;
        }
        let words = |key: &str| match &line[key] {
            Value::Null => String::new(),
            Value::String(word) => format!(" {word}"),
            other => format!(" {other}"),
        };
        let keys: &[&str] = match kind {
            "run.start" => &["runId"],
            "run.end" => &["runId", "reason"],
            "question" => &["id", "calls"],
            "answer" => &["id", "by", "decisions"],
            "ledger" => &["callId", "tool", "input", "verdict", "by", "reason", "approvedBy"],
            _ => &["callId", "outcome", "errorKind"],
        };
        let told: String = keys.iter().map(|key| words(key)).collect();
        let _ = writeln!(text, "{kind}{told}");
        for rewrite in line["rewrites"].as_array().into_iter().flatten() {
            let _ = writeln!(
                text,
                "  {}: {} -> {}",
                rewrite["by"].as_str().unwrap_or_default(),
                rewrite["before"],
                rewrite["after"]
            );
        }
    }
    text
}

/// Makes a new session of the agent.
pub(crate) async fn fresh(agent: &Agent) -> Session {
    agent.new_session().await.expect("the store takes a new session")
}

/// Returns the session store in a folder.
pub(crate) fn files(folder: &Path) -> JsonlStore {
    JsonlStore::new(folder.join("sessions"))
}

/// A moment of a log operation, before or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Appending,
    Appended,
    Syncing,
    Synced,
}

/// A store that reports every append and every awaited sync.
pub(crate) struct Spy<S> {
    store: S,
    told: Arc<dyn Fn(Moment) + Send + Sync>,
}

impl<S: Store> Spy<S> {
    pub(crate) fn new(store: S, told: impl Fn(Moment) + Send + Sync + 'static) -> Self {
        Spy { store, told: Arc::new(told) }
    }
}

impl<S: Store> Store for Spy<S> {
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn Log>, StoreError> {
        let log = self.store.create(header)?;
        Ok(Box::new(SpyLog { log, told: self.told.clone() }))
    }

    fn open(&self, id: &str) -> Result<StoredSession, StoreError> {
        let told = self.told.clone();
        Ok(self.store.open(id)?.map_log(|log| Box::new(SpyLog { log, told })))
    }

    fn new_id(&self) -> SmolStr {
        self.store.new_id()
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.store.list()
    }

    fn lines(&self, id: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        self.store.lines(id)
    }
}

struct SpyLog {
    log: Box<dyn Log>,
    told: Arc<dyn Fn(Moment) + Send + Sync>,
}

impl Log for SpyLog {
    fn append(&mut self, lines: &[StoreLine]) -> Result<(), StoreError> {
        (self.told)(Moment::Appending);
        self.log.append(lines)?;
        (self.told)(Moment::Appended);
        Ok(())
    }

    fn sync(&mut self) -> SyncFuture {
        (self.told)(Moment::Syncing);
        let (synced, told) = (self.log.sync(), self.told.clone());
        Box::pin(async move {
            synced.await?;
            told(Moment::Synced);
            Ok(())
        })
    }

    fn start_sync(&mut self) {
        self.log.start_sync();
    }
}

/// A pseudo-random number generator: equal seeds give equal numbers.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}
