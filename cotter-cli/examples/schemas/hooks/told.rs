//! The payload at each point, as `cotter/src/hooks/points/` writes it.

use cotter::hooks::points::PointId;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// The schema of the payload at a point, without the fields that all points have.
pub(super) fn payload_at(point: PointId, generator: &mut SchemaGenerator) -> Schema {
    match point {
        PointId::SessionOpen => SessionOpen::json_schema(generator),
        PointId::SessionStart => SessionStart::json_schema(generator),
        PointId::UserPromptSubmit => UserPromptSubmit::json_schema(generator),
        PointId::ModelPre => ModelPre::json_schema(generator),
        PointId::ModelPost => ModelPost::json_schema(generator),
        PointId::ToolPre => ToolPre::json_schema(generator),
        PointId::PermissionAsk => PermissionAsk::json_schema(generator),
        PointId::ToolPost => ToolPost::json_schema(generator),
        PointId::ToolRefused => ToolRefused::json_schema(generator),
        PointId::CompactPre => CompactPre::json_schema(generator),
        PointId::CompactPost => CompactPost::json_schema(generator),
        PointId::SubagentStart => SubagentStart::json_schema(generator),
        PointId::SubagentEnd => SubagentEnd::json_schema(generator),
        PointId::TurnEnd => TurnEnd::json_schema(generator),
        PointId::Error => Failed::json_schema(generator),
        PointId::SessionEnd => SessionEnd::json_schema(generator),
        PointId::SessionClose => SessionClose::json_schema(generator),
        point => unreachable!("nothing here says what is told at `{point}`"),
    }
}

/// What is told everywhere.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct Common {
    /// The version of the format: 1.
    #[schemars(extend("const" = 1))]
    v: u32,
    /// The point.
    event: String,
    /// The session.
    session_id: String,
    /// The run; empty outside of one.
    run_id: String,
    /// The step of the run, from 1; 0 before the first request.
    step: u32,
    /// The agent: `main`, or a subagent's id.
    agent_id: String,
    /// The folder the session works in.
    cwd: String,
    /// The project's root.
    project_dir: String,
    /// Whether nothing will come of it: somebody only wants to know what the hook would say.
    dry_run: bool,
    /// The number of the question, of a hook with `serve`: its answer has to repeat it.
    #[schemars(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
}

/// What a hook of a `hooks/*.yaml` is told.
#[derive(JsonSchema)]
pub(super) struct Space {
    /// The tool's name.
    tool: String,
    /// The input.
    input: Value,
    /// The text of the result, in the phase `post`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
}

#[derive(JsonSchema)]
struct SessionOpen {
    /// How it came about.
    #[schemars(extend("enum" = ["created", "resumed", "forked"]))]
    how: String,
}

#[derive(JsonSchema)]
struct SessionStart {
    /// The model the run starts with.
    model: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct UserPromptSubmit {
    /// The text as it would be stored.
    prompt: String,
    /// The text as the person gave it.
    raw_prompt: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ModelPre {
    /// The model asked.
    model: String,
    /// How many messages the request has, its notes aside.
    message_count: u64,
    /// 1 for the first try of a step.
    attempt: u32,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ModelPost {
    /// The model that answered.
    model: String,
    /// Why it stopped.
    #[schemars(extend("enum" = ["end_turn", "tool_use", "max_tokens", "refusal", "aborted"]))]
    stop_reason: String,
    /// Tokens read.
    input_tokens: u64,
    /// Tokens written.
    output_tokens: u64,
    /// Tokens read from the provider's cache.
    cache_read: u64,
    /// Tokens written to the provider's cache.
    cache_write: u64,
    /// What it cost, or `null` where the price is not known.
    cost_usd: Option<f64>,
    /// How many tools it called.
    tool_call_count: u64,
    /// Who made the request begin otherwise than the last one to the same model, where somebody did.
    #[schemars(skip_serializing_if = "Option::is_none")]
    cache_break: Option<CacheBreak>,
}

/// Where a provider's cache came to be of no use.
#[derive(JsonSchema)]
#[schemars(rename = "cacheBreak")]
struct CacheBreak {
    /// Whose doing it is: an owner, a hook with words for the system prompt, a context transform, `compaction` or
    /// `session`.
    by: String,
    /// What changed.
    #[schemars(extend("enum" = ["tools", "system", "messages"]))]
    part: String,
    /// The byte of the request's body at which it changed, or `null` where nobody knows.
    byte: Option<u64>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ToolPre {
    /// The id of the call.
    call_id: String,
    /// The tool's name.
    tool_name: String,
    /// The input as it would run.
    tool_input: Value,
    /// What the call touches.
    facts: Facts,
}

/// What a call touches, as its tool says.
#[derive(JsonSchema)]
#[schemars(rename = "facts")]
struct Facts {
    /// Files read, absolute, links resolved.
    reads: Vec<String>,
    /// Files written, the same way.
    writes: Vec<String>,
    /// Hosts spoken to.
    hosts: Vec<String>,
    /// Commands run, one simple command each.
    commands: Vec<String>,
    /// The most serious zone of it all.
    zone: Zone,
    /// What a person is asked about, whatever rules say.
    #[schemars(skip_serializing_if = "Vec::is_empty")]
    doubts: Vec<Doubt>,
    /// Whether it runs with its writes and its network closed off by the operating system.
    #[schemars(skip_serializing_if = "is_not")]
    confined: bool,
    /// Why the tool would refuse this input.
    #[schemars(skip_serializing_if = "Option::is_none")]
    invalid: Option<String>,
}

/// What a call touches, from harmless to forbidden.
#[derive(JsonSchema)]
#[schemars(rename = "zone", rename_all = "snake_case")]
enum Zone {
    /// Reads inside the roots; nothing changes.
    Safe,
    /// Writes inside the project.
    Workspace,
    /// Runs project code or an unknown program.
    Build,
    /// Outgoing traffic.
    Network,
    /// Changes something elsewhere.
    External,
    /// The system itself.
    Machine,
    /// Never, whoever asks.
    Never,
}

/// Something that a person is asked about.
#[derive(JsonSchema)]
#[schemars(rename = "doubt", rename_all = "snake_case")]
enum Doubt {
    /// It destroys what cannot be brought back.
    Destructive(String),
    /// It cannot be told beforehand what it does.
    NotUnderstood(String),
}

/// A question about to be put.
#[derive(JsonSchema)]
#[schemars(rename = "question", rename_all = "camelCase")]
struct PermissionAsk {
    /// The question's id. With `serve` it is, as everywhere, the number that the answer has to repeat.
    #[schemars(extend("type" = ["string", "integer"]))]
    id: String,
    /// The question's id, of a hook with `serve`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    question_id: Option<String>,
    /// The calls it is about.
    calls: Vec<AskedCall>,
}

/// One call of a question.
#[derive(JsonSchema)]
#[schemars(rename = "askedCall", rename_all = "camelCase")]
struct AskedCall {
    /// The id of the call.
    call_id: String,
    /// The tool's name.
    name: String,
    /// What would run.
    preview: String,
    /// Who wants it asked, and why.
    asks: Vec<Ask>,
    /// Rules with which it would run unasked.
    #[schemars(skip_serializing_if = "Vec::is_empty")]
    offer: Vec<String>,
}

/// Somebody who wants a person asked.
#[derive(JsonSchema)]
#[schemars(rename = "ask")]
struct Ask {
    /// Who: a rule, a zone, a hook.
    by: String,
    /// Why.
    reason: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ToolPost {
    /// The id of the call.
    call_id: String,
    /// The tool's name.
    tool_name: String,
    /// The input that ran.
    tool_input: Value,
    /// The input the model gave, where a hook changed it.
    #[schemars(skip_serializing_if = "Option::is_none")]
    original_input: Option<Map<String, Value>>,
    /// What the call touched.
    facts: Facts,
    /// The text of the result.
    result: String,
    /// Whether the tool failed.
    #[schemars(rename = "is_error")]
    is_error: bool,
    /// How it ended.
    #[schemars(extend("enum" = ["ok", "failed", "timed_out", "cancelled"]))]
    outcome: String,
    /// How long it took, in milliseconds.
    duration_ms: u64,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ToolRefused {
    /// The id of the call.
    call_id: String,
    /// The tool's name, which may be no tool's.
    tool_name: String,
    /// The input as it stood when it was refused.
    tool_input: Value,
    /// Who refused it: a stage, a rule or a hook.
    by: String,
    /// Why.
    reason: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct CompactPre {
    /// Why now.
    #[schemars(extend("enum" = ["forced", "threshold", "overflow"]))]
    trigger: String,
    /// How many tokens the context has, as far as is known.
    tokens_before: u64,
    /// The first entry that is kept beside the summary; empty where nothing is.
    first_kept_id: String,
    /// The summary that a hook gave.
    #[schemars(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct CompactPost {
    /// Why it was.
    #[schemars(extend("enum" = ["forced", "threshold", "overflow"]))]
    trigger: String,
    /// How many tokens the context had.
    tokens_before: u64,
    /// The first entry that is kept beside the summary; empty where nothing is.
    first_kept_id: String,
    /// The summary as it was stored.
    summary: String,
    /// The hook that gave the summary; absent where the model did.
    #[schemars(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct SubagentStart {
    /// The call that asks for it.
    call_id: String,
    /// Its name.
    name: String,
    /// All it will know of the conversation.
    prompt: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct SubagentEnd {
    /// The call that asked for it.
    call_id: String,
    /// Its name.
    name: String,
    /// How it ended.
    #[schemars(extend("enum" = ["success", "error"]))]
    status: String,
    /// What it said, or why it failed.
    text: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct TurnEnd {
    /// The text of the last reply.
    text: String,
    /// How often in a row a hook has sent the model on.
    gone_on: u32,
}

#[derive(JsonSchema)]
struct Failed {
    /// What kind of failure, one word.
    code: String,
    /// The failure in words.
    message: String,
}

#[derive(JsonSchema)]
struct SessionEnd {
    /// Why it ended.
    reason: Reason,
}

/// Why a run ended.
#[derive(JsonSchema)]
#[schemars(rename = "reason", rename_all = "snake_case")]
enum Reason {
    /// The model had said what it had to say.
    EndTurn,
    /// Somebody aborted it.
    Aborted,
    /// It reached the limit of steps.
    MaxTurns,
    /// It reached the limit of money or tokens.
    BudgetExceeded,
    /// The model's reply did not fit, again and again.
    MaxTokens,
    /// The model declined.
    Refusal,
    /// A hook refused the prompt.
    Blocked,
    /// A hook answered in the model's stead.
    ShortCircuit,
    /// It failed.
    Error,
    /// Its process died; written when the session was opened again.
    Crashed,
}

#[derive(JsonSchema)]
struct SessionClose {
    /// How many runs it had.
    runs: u32,
}
