//! The tool `delegate {tasks: [{agent?, prompt, max_turns?, max_budget_usd?}]}`: several subagents
//! at once.
//!
//! Each task is a nested call of `invoke_subagent`: decided, recorded and reported to listeners
//! like the model's own calls. The remaining budget of the run is divided before the first task
//! begins, so that together they cannot exceed it. A failed task ends no other. Results come in the
//! order of the tasks.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Subagent, invoke::subagent::SubagentCx};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use cotter_tools::agents::delegate::Delegate;
//! use serde_json::json;
//!
//! let tasks = json!({"tasks": [{"prompt": "Oban"}, {"prompt": "Ayr"}]});
//! let tide = |cx: SubagentCx| async move { Ok(format!("{}: 12:00", cx.prompt).into()) };
//! let agent = Agent::builder(ScriptedModel::new([Step::call("delegate", tasks), Step::text("Noon.")]))
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
    text,
    tool::ToolFuture,
};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use smol_str::SmolStr;

/// The most tasks of a call, and the most that run at once.
const MAX_TASKS: usize = 32;
const MAX_PARALLEL: usize = 8;
/// The most bytes of all answers together for the model.
const ANSWER_BYTES: usize = 40 * 1024;
/// The agent of a task that names none, if there are several.
const DEFAULT_AGENT: &str = "general";

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
            "properties": {"tasks": {"type": "array", "items": task, "maxItems": MAX_TASKS}},
            "required": ["tasks"],
            "additionalProperties": false
        });
        vec![ToolSpec::new("delegate", description, schema)]
    }

    /// Delegating itself changes nothing; each call of a subagent is decided on its own.
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
        async move { (at, task.run(&controls, share).await) }
    });
    // All tasks are polled here: dropping this call ends them.
    let mut done: Vec<_> = stream::iter(work).buffer_unordered(MAX_PARALLEL).collect().await;
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

/// The result of a task: the agent, and its answer or the error.
struct TaskResult {
    agent: SmolStr,
    answer: Result<String, String>,
}

fn read(input: &Value, subagents: &[SmolStr]) -> Result<Vec<DelegateTask>, ToolError> {
    let invalid = |message: String| ToolError::new(ToolErrorKind::InvalidArgs, message);
    if subagents.is_empty() {
        let message = "there are no subagents here to give a task to";
        return Err(ToolError::new(ToolErrorKind::Unavailable, message));
    }
    let tasks = input["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    if tasks.is_empty() {
        return Err(invalid("no tasks provided".into()));
    }
    let task = |(at, task): (usize, &Value)| {
        let prompt = task["prompt"].as_str().unwrap_or_default().to_owned();
        if prompt.trim().is_empty() {
            return Err(invalid(format!("task {} has an empty prompt", at + 1)));
        }
        let agent = match (task["agent"].as_str(), subagents) {
            (Some(name), _) => name.into(),
            (None, [only]) => only.clone(),
            (None, all) if all.iter().any(|name| name == DEFAULT_AGENT) => DEFAULT_AGENT.into(),
            (None, all) => {
                let all = all.join(", ");
                return Err(invalid(format!("task {} names no agent. Use one of: {all}.", at + 1)));
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
    async fn run(self, controls: &Controls, share: BudgetShare) -> TaskResult {
        let controls = controls.with_budget_share(&share);
        let done = controls.invoke_subagent(&self.agent, &self.prompt).await;
        // The result of `invoke_subagent` is JSON; a hook may have replaced it by other text.
        let answer = match done {
            Ok(output) => {
                let text = output.content.text();
                Ok(text_at(&text, "/data/content").unwrap_or_else(|| text.into_owned()))
            }
            Err(error) => Err(text_at(&error.message, "/message").unwrap_or(error.message)),
        };
        TaskResult { agent: self.agent, answer }
    }
}

fn text_at(text: &str, pointer: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(value.pointer(pointer)?.as_str()?.to_owned())
}

/// All answers for the model, each cut to its share of `ANSWER_BYTES`. If one was cut, renderers
/// get all of them uncut.
fn report(answers: &[TaskResult]) -> Result<ToolOutput, ToolError> {
    let max_bytes = ANSWER_BYTES / answers.len().max(1);
    let rows = |max_bytes: usize| -> Vec<Value> {
        let row = |(at, TaskResult { agent, answer }): (usize, &TaskResult)| match answer {
            Ok(content) => json!({
                "task": at + 1, "agent": agent, "status": "success", "content": text::cut_bytes(content, max_bytes),
            }),
            Err(message) => json!({
                "task": at + 1, "agent": agent, "status": "error", "message": text::cut_bytes(message, max_bytes),
            }),
        };
        answers.iter().enumerate().map(row).collect()
    };
    let is_cut = answers.iter().any(|answer| {
        let (Ok(text) | Err(text)) = &answer.answer;
        text.len() > max_bytes
    });
    if answers.iter().all(|answer| answer.answer.is_err()) {
        let data =
            json!({"status": "error", "message": "no task succeeded", "data": rows(max_bytes)});
        return Err(ToolError::failed(data.to_string()));
    }
    let data = json!({"status": "success", "data": rows(max_bytes)});
    let render_data = is_cut.then(|| json!({"tasks": rows(usize::MAX)}));
    Ok(ToolOutput { content: data.to_string().into(), render_data })
}
