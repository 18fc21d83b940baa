//! Helpers of the tests in this folder: handlers of every kind, a store that reports its use, runs read to
//! their end, records as text.

use std::{
    fmt::Write,
    io::{Write as _, stdout},
    path::Path,
    sync::Arc,
    thread,
};

use cotter::{
    At, Command, Controls, FnTool, HookCx, Registry, Reply, Run, RunError, Skill, Subagent, Tool,
    Verdict,
    history::{
        entry::SessionHeader,
        jsonl::JsonlStore,
        message::{ContentPart, Usage},
        store::{Log, SessionSummary, Store, StoreError, StoreLine, StoredSession, SyncFuture},
    },
    hooks::points::ToolPre,
    invoke::{command::CommandCx, skill::SkillCx, subagent::SubagentCx},
    model::{Model, ReplyStream, Request},
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{RecordingModel, ScriptedModel, shown_event, spec};
use serde_json::Value;
use smol_str::SmolStr;

/// Passes every point to a macro. This is the only list of points in the tests.
macro_rules! every_point {
    ($take:ident) => {
        $take!(SessionOpen SessionStart UserPromptSubmit Context ModelPre ModelPost ToolPre
            PermissionAsk ToolPost ToolRefused CompactPre CompactPost SubagentStart SubagentEnd
            TurnEnd Error SessionEnd SessionClose)
    };
}

pub(crate) use every_point;

/// Makes a tool that returns its input text.
pub(crate) fn echo() -> impl Tool {
    FnTool::new(spec("echo"), |permit| async move {
        Ok(permit.input()["text"].as_str().unwrap_or("").into())
    })
    .with_facts(Facts::zone(Zone::Safe))
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
        unit.tool(tool.with_facts(Facts::zone(Zone::Safe)))
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
            .gate(
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

/// A scripted model that records its requests and has a known or unknown context window.
#[derive(Clone)]
pub(crate) struct Windowed(pub(crate) RecordingModel<ScriptedModel>, pub(crate) Option<u64>);

impl Model for Windowed {
    fn name(&self) -> &SmolStr {
        self.0.name()
    }

    fn stream(&self, request: Request) -> ReplyStream {
        self.0.stream(request)
    }

    fn context_window(&self) -> Option<u64> {
        self.1
    }
}

/// Returns a usage of this many input tokens.
pub(crate) fn used(tokens: u64) -> Usage {
    Usage { input_tokens: tokens, ..Usage::default() }
}

/// Returns a small image.
pub(crate) fn image() -> ContentPart {
    ContentPart::Image { media_type: "image/png".into(), data: "AAAA".into() }
}

/// Prints a line for the parent process of a test.
pub(crate) fn print_line(line: &str) {
    let mut out = stdout().lock();
    // The test harness may have left an unfinished line.
    out.write_all(format!("\n{line}\n").as_bytes()).expect("the parent process reads");
    out.flush().expect("the parent process reads");
}

/// Prints `now` and waits until the parent process kills this one.
pub(crate) fn wait_for_kill() -> ! {
    print_line("now");
    loop {
        thread::park();
    }
}
