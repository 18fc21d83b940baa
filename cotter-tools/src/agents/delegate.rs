//! `delegate {tasks: [{agent?, prompt, max_turns?, max_budget_usd?}]}`: several subagents at once.
//!
//! Each task is a call of `invoke_subagent` within this one: judged, recorded and told to listeners as
//! the model's own would be. What the run may still spend is shared out before the first begins, so that
//! together they cannot spend more. One that fails ends no other; results come in the order of the tasks.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Subagent, invoke::subagent::SubagentCx};
//! use cotter_test::{Scripted, Step, transcript};
//! use cotter_tools::agents::delegate::Delegate;
//! use serde_json::json;
//!
//! let tasks = json!({"tasks": [{"prompt": "Oban"}, {"prompt": "Ayr"}]});
//! let tide = |cx: SubagentCx| async move { Ok(format!("{}: 12:00", cx.prompt).into()) };
//! let agent = Agent::builder(Scripted::new([Step::call("delegate", tasks), Step::text("Noon.")]))
//!     .define_mention(Subagent::new("tide", tide).description("Knows when the tide is high."))
//!     .hook(Delegate)
//!     .build()?;
//! agent.process_request("When is high water?").await?;
//! let shown = transcript(&agent.main_session().await?);
//! assert!(shown.contains(r#"{"task":2,"agent":"tide","status":"success","content":"Ayr: 12:00"}"#));
//! # Ok(())
//! # }
//! ```

use cotter::{
    Controls, Hook, Permit, ToolError, ToolOutput, ToolSpec, Workspace,
    agent::session::{BudgetShare, TaskAllowance},
    history::outcome::ToolErrorKind,
    permission::{Zone, facts::Facts},
    tool::ToolFuture,
};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use smol_str::SmolStr;

/// How many tasks one call may have, and how many of them are worked on at once.
const MOST_TASKS: usize = 32;
const AT_ONCE: usize = 8;
/// The most bytes of all answers together that the model gets.
const ANSWER_BYTES: usize = 40 * 1024;
/// Who works on a task that names nobody, where there are several.
const GENERAL: &str = "general";

/// The tool `delegate`. It needs subagents to give tasks to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delegate;

impl Hook for Delegate {
    fn schema(&self) -> Vec<ToolSpec> {
        let description = "Give several tasks to subagents at once and get all their answers, in \
            the order of the tasks. For work that falls into parts which do not need each other. \
            A subagent sees nothing of this conversation but its prompt, so put all it needs into \
            it. Without `agent`, `general` works on the task.";
        let task = json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string", "description": "The subagent's name."},
                "prompt": {"type": "string", "description": "The whole task, in words."},
                "max_turns": {"type": "integer", "minimum": 1},
                "max_budget_usd": {"type": "number", "exclusiveMinimum": 0}
            },
            "required": ["prompt"],
            "additionalProperties": false
        });
        let schema = json!({
            "type": "object",
            "properties": {"tasks": {"type": "array", "items": task, "maxItems": MOST_TASKS}},
            "required": ["tasks"],
            "additionalProperties": false
        });
        vec![ToolSpec::new("delegate", description, schema)]
    }

    /// Delegating changes nothing by itself; each call a subagent makes is judged for itself.
    fn effects(&self, _: &str, _: &Value, _: &Workspace) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn parallel(&self, _: &str) -> bool {
        true
    }

    fn dispatch<'a>(&'a self, _: &'a str, call: Permit) -> Option<ToolFuture<'a>> {
        Some(Box::pin(async move { delegate(&call).await }))
    }
}

async fn delegate(call: &Permit) -> Result<ToolOutput, ToolError> {
    let controls = call.cx().controls();
    let tasks = read(call.input(), &controls.subagents())?;
    let allowances: Vec<_> = tasks.iter().map(|task| task.allowance).collect();
    let shares = controls.reserve(&allowances);
    let shares =
        shares.map_err(|error| ToolError::new(ToolErrorKind::Unavailable, error.message))?;
    let work = tasks.into_iter().zip(shares).enumerate().map(|(at, (task, share))| {
        let controls = controls.clone();
        async move { (at, task.work(&controls, share).await) }
    });
    // Each is polled here: dropped with this call, all of them end.
    let mut done: Vec<_> = stream::iter(work).buffer_unordered(AT_ONCE).collect().await;
    if call.cx().cancel().is_cancelled() {
        return Err(ToolError::new(ToolErrorKind::Cancelled, "Cancelled while it ran."));
    }
    done.sort_unstable_by_key(|(at, _)| *at);
    let answers: Vec<_> = done.into_iter().map(|(_, answer)| answer).collect();
    report(&answers)
}

/// One task.
struct DelegateTask {
    agent: SmolStr,
    prompt: String,
    allowance: TaskAllowance,
}

/// What came of one: who worked on it, and the answer or why there is none.
struct TaskResult {
    agent: SmolStr,
    answer: Result<String, String>,
}

fn read(input: &Value, subagents: &[SmolStr]) -> Result<Vec<DelegateTask>, ToolError> {
    let wrong = |words: String| ToolError::new(ToolErrorKind::InvalidArgs, words);
    if subagents.is_empty() {
        let words = "there are no subagents here to give a task to";
        return Err(ToolError::new(ToolErrorKind::Unavailable, words));
    }
    let tasks = input["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    if tasks.is_empty() {
        return Err(wrong("no tasks provided".into()));
    }
    let task = |(at, task): (usize, &Value)| {
        let prompt = task["prompt"].as_str().unwrap_or_default().to_owned();
        if prompt.trim().is_empty() {
            return Err(wrong(format!("task {} has an empty prompt", at + 1)));
        }
        let agent = match (task["agent"].as_str(), subagents) {
            (Some(name), _) => name.into(),
            (None, [only]) => only.clone(),
            (None, all) if all.iter().any(|name| name == GENERAL) => GENERAL.into(),
            (None, all) => {
                let all = all.join(", ");
                return Err(wrong(format!("task {} names no agent. Use one of: {all}.", at + 1)));
            }
        };
        let turns = task["max_turns"].as_u64().map(|turns| turns.try_into().unwrap_or(u32::MAX));
        let mut allowance = TaskAllowance::default();
        allowance.max_turns = turns;
        allowance.max_budget_usd = task["max_budget_usd"].as_f64();
        Ok(DelegateTask { agent, prompt, allowance })
    };
    tasks.iter().enumerate().map(task).collect()
}

impl DelegateTask {
    async fn work(self, controls: &Controls, share: BudgetShare) -> TaskResult {
        let controls = controls.spending(&share);
        let done = controls.invoke_subagent(&self.agent, &self.prompt).await;
        // What `invoke_subagent` says is JSON; what was said in its stead need not be.
        let answer = match done {
            Ok(output) => {
                let text = output.content.text();
                Ok(said(&text, "/data/content").unwrap_or_else(|| text.into_owned()))
            }
            Err(error) => Err(said(&error.message, "/message").unwrap_or(error.message)),
        };
        TaskResult { agent: self.agent, answer }
    }
}

fn said(text: &str, place: &str) -> Option<String> {
    let shape: Value = serde_json::from_str(text).ok()?;
    Some(shape.pointer(place)?.as_str()?.to_owned())
}

/// All answers for the model, each cut to its part of the room; whole for renderers where one was cut.
fn report(answers: &[TaskResult]) -> Result<ToolOutput, ToolError> {
    let room = ANSWER_BYTES / answers.len().max(1);
    let rows = |room: usize| -> Vec<Value> {
        let row = |(at, TaskResult { agent, answer }): (usize, &TaskResult)| match answer {
            Ok(content) => json!({
                "task": at + 1, "agent": agent, "status": "success", "content": cut(content, room),
            }),
            Err(message) => json!({
                "task": at + 1, "agent": agent, "status": "error", "message": cut(message, room),
            }),
        };
        answers.iter().enumerate().map(row).collect()
    };
    let is_cut = answers.iter().any(|answer| {
        let (Ok(words) | Err(words)) = &answer.answer;
        words.len() > room
    });
    if answers.iter().all(|answer| answer.answer.is_err()) {
        let data = json!({"status": "error", "message": "no task succeeded", "data": rows(room)});
        return Err(ToolError::failed(data.to_string()));
    }
    let data = json!({"status": "success", "data": rows(room)});
    let render_data = is_cut.then(|| json!({"tasks": rows(usize::MAX)}));
    Ok(ToolOutput { content: data.to_string().into(), render_data })
}

fn cut(words: &str, room: usize) -> String {
    if words.len() <= room {
        return words.to_owned();
    }
    let end = words.floor_char_boundary(room);
    format!("{}… [{} bytes left out]", &words[..end], words.len() - end)
}
