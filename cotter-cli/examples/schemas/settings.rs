//! `settings.json` of a person and of a project.

use std::collections::BTreeMap;

use cotter::permission::mode::{Level, Mode, Sandbox};
use cotter_files::{command_hook::entry::OnFailure, settings::KEYS_CLOSED_TO_PROJECTS};
use cotter_models::ApiFormat;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Value, json};

use crate::{
    hooks::Hooks,
    mcp::Servers,
    shape::{Folder, ModelName, Text, one_of, plain, properties, read},
};

pub(crate) fn settings() -> Schema {
    read::<Settings>()
}

/// The schema of a project's settings, which may only tighten.
pub(crate) fn project_settings() -> Schema {
    let mut schema = settings();
    schema.insert("title".into(), "Settings of a project, for cotter".into());
    let about = "The settings of a project for every agent that works in it: `.cotter/settings.json`. They may only \
                 tighten. No program in them runs before a person trusts the project.";
    schema.insert("description".into(), about.into());
    let keys = properties(&mut schema);
    keys.retain(|key, _| !KEYS_CLOSED_TO_PROJECTS.contains(&key.as_str()));
    keys["$schema"]["description"] =
        "The path of this schema, for editors. `cotter schema project-settings > FILE` writes it."
            .into();
    without_allow_rules(&mut schema);
    let definitions = schema.get_mut("definitions").and_then(Value::as_object_mut);
    let definitions = definitions.expect("there are definitions");
    let others = ["provider", "model", "price", "claude"];
    definitions.retain(|name, _| !others.contains(&name.as_str()));
    schema
}

/// Permits only an empty list of allow rules.
pub(crate) fn without_allow_rules(schema: &mut Schema) {
    let allow = schema.pointer_mut("/definitions/permissions/properties/allow");
    *allow.expect("permissions have allow rules") = json!({
        "description": "Always empty: only a person's own settings may allow calls without a question.",
        "type": "array",
        "maxItems": 0,
    });
}

plain! {
    /// The treatment of calls that the rules leave undecided.
    ModeWord = one_of(Mode::WORDS);
    /// The level: how much runs without a question.
    LevelWord = one_of(Level::WORDS);
    /// The confinement of commands.
    SandboxWord = one_of(Sandbox::WORDS);
    /// The effect of a failure.
    FailureWord = one_of(OnFailure::WORDS);
    /// The protocol of a provider.
    SpeaksWord = one_of(ApiFormat::WORDS);
    /// A pattern over names of tools.
    Glob = json_schema!({"type": "string", "minLength": 1});
    /// The variable that holds a key.
    KeyVariable = json_schema!({
        "type": "string", "pattern": "^[A-Z_][A-Z0-9_]*$", "maxLength": 64, "examples": ["LAB_KEY"],
    });
}

/// Your own settings, in `settings.json` in `~/.config/cotter`, or a file named with `--settings`.
#[derive(JsonSchema)]
#[schemars(title = "Settings of cotter", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("allowComments" = true, "allowTrailingCommas" = true))]
struct Settings {
    /// The path of this schema, for editors. `cotter schema settings > FILE` writes it.
    #[schemars(rename = "$schema", extend("examples" = ["./settings.schema.json"]))]
    schema: Option<String>,
    /// The model, as `provider/model`. `cotter models list` shows the models.
    model: Option<ModelName>,
    /// The models to use if the ones before them fail, as `provider/model`.
    fallback_models: Option<Vec<ModelName>>,
    /// The providers of models, by the name before the slash. Anthropic, OpenAI, Google, OpenRouter and Ollama
    /// need no entry.
    #[schemars(extend(
        "propertyNames" = {"pattern": "^[A-Za-z0-9._-]+$"},
        "examples" = [{"lab": {"speaks": "openai", "baseUrl": "http://10.0.0.7:8000/v1"}}]
    ))]
    providers: Option<BTreeMap<String, Provider>>,
    /// Data about models that override the catalogue, by `provider/model`.
    #[schemars(extend(
        "propertyNames" = {"pattern": r"^[^/]+/.*\S"},
        "examples" = [{"lab/qwen3": {"contextWindow": 32768}}]
    ))]
    models: Option<BTreeMap<String, Model>>,
    /// Rules for calls that run without a question, that ask, and that never run.
    permissions: Option<Permissions>,
    /// The limits of a run.
    limits: Option<Limits>,
    /// The sandbox of commands: `off`, `landlock` (also without a view of the files), `auto` (the default: used
    /// if the system supports it) or `required` (a command that cannot be confined does not run).
    sandbox: Option<SandboxWord>,
    /// More folders that may be read and written, besides the project.
    roots: Option<Vec<Folder>>,
    /// More folders that may be read, besides the project.
    read_roots: Option<Vec<Folder>>,
    /// Folders and log files that hooks of projects may write besides: `~/.claude/logs`. Missing ones are created.
    hook_roots: Option<Vec<Folder>>,
    /// More folders that commands in the sandbox may write.
    caches: Option<Vec<Folder>>,
    /// The names of variables that commands get besides the usual ones.
    #[schemars(extend("examples" = [["JAVA_HOME"]]))]
    environment: Option<Vec<Text>>,
    /// Servers of the Model Context Protocol, by name. Their tools have names such as `mcp__SERVER__TOOL`.
    mcp_servers: Option<Servers>,
    /// Command hooks, by point.
    hooks: Option<Hooks>,
    /// Disabled hooks, by name: `lint`, or with the origin, `project/lint`.
    #[schemars(extend("examples" = [["project/lint"]]))]
    disable: Option<Vec<Text>>,
    /// The folders of plugins. Such a folder has a `.claude-plugin/plugin.json` or `.plugin/plugin.json`, or skills,
    /// agents, commands, hooks or servers in the places of a plugin.
    plugins: Option<Vec<Folder>>,
    /// Settings for files that were written for Claude Code.
    claude: Option<Claude>,
    /// Settings for all hooks that were written for Claude Code.
    claude_hooks: Option<ClaudeHooks>,
}

/// Settings for files that were written for Claude Code.
#[derive(JsonSchema)]
#[schemars(rename = "claude", deny_unknown_fields)]
struct Claude {
    /// `true`: the files in `~/.claude` and `~/.agents` are used. The first run on a terminal asks for this.
    home: Option<bool>,
}

/// Settings for all hooks that were written for Claude Code.
#[derive(JsonSchema)]
#[schemars(rename = "claudeHooks", rename_all = "camelCase", deny_unknown_fields)]
struct ClaudeHooks {
    /// The effect of a failure: `block`, or `pass` (the default), which is reported. `block` in any file wins over
    /// `pass`.
    on_failure: Option<FailureWord>,
}

/// A provider of models. A missing key has the default of the provider with this name.
#[derive(JsonSchema)]
#[schemars(rename = "provider", rename_all = "camelCase", deny_unknown_fields)]
struct Provider {
    /// The protocol: `anthropic` (Messages), `openai` (Chat Completions) or `openai-responses`. Required if the
    /// provider is not built in.
    speaks: Option<SpeaksWord>,
    /// The address. Required if the provider is not built in.
    #[schemars(extend("examples" = ["http://10.0.0.7:8000/v1"]))]
    base_url: Option<Text>,
    /// The variable that contains the API key. A settings file never contains the key itself.
    api_key_variable: Option<KeyVariable>,
    /// The maximum time without data from the provider, in milliseconds. The default is 300000.
    #[schemars(range(min = 1, max = 86_400_000))]
    idle_timeout_ms: Option<u64>,
    /// The maximum time of a whole request, in milliseconds. The default is 1800000.
    #[schemars(range(min = 1, max = 86_400_000))]
    request_timeout_ms: Option<u64>,
}

/// Data about a model.
#[derive(JsonSchema)]
#[schemars(rename = "model", rename_all = "camelCase", deny_unknown_fields)]
struct Model {
    /// The maximum number of tokens in a conversation.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    context_window: Option<u64>,
    /// The maximum number of tokens in a reply.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    max_output: Option<u64>,
    /// The price of a million tokens, in dollars.
    #[schemars(extend("examples" = [{"input": 0.1, "output": 0.4}]))]
    price: Option<Price>,
}

/// The price of a million tokens, in dollars.
#[derive(JsonSchema)]
#[schemars(rename = "price", rename_all = "camelCase", deny_unknown_fields)]
struct Price {
    /// Tokens read.
    #[schemars(range(min = 0))]
    input: f64,
    /// Tokens written.
    #[schemars(range(min = 0))]
    output: f64,
    /// Tokens read from the provider's cache. The default is `input`.
    #[schemars(range(min = 0))]
    cache_read: Option<f64>,
    /// Tokens written to the provider's cache. The default is `input`.
    #[schemars(range(min = 0))]
    cache_write: Option<f64>,
}

/// Rules for calls that run without a question, that ask, and that never run. A deny of any file is final.
#[derive(JsonSchema)]
#[schemars(rename = "permissions", rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Permissions {
    /// The mode, for calls that rules and level do not decide: `ask` (asks a person), `accept-edits` (writes in the
    /// project run without a question), `plan` (only calls that change nothing run), `auto` (asks nobody; a call
    /// that would ask is refused).
    mode: Option<ModeWord>,
    /// The level: the calls that run without a question. `permissive` (work in the project, and outgoing traffic),
    /// `standard` (work in the project), `strict` (calls that change nothing), `paranoid` (none).
    level: Option<LevelWord>,
    /// Rules for calls that run without a question. The rules must cover everything that a call touches.
    #[schemars(extend("examples" = [["bash(git push origin *)", "fetch(docs.rs)"]]))]
    allow: Option<Vec<Rule>>,
    /// Rules for calls that run only after a person approves.
    #[schemars(extend("examples" = [["read(./secret)"]]))]
    ask: Option<Vec<Rule>>,
    /// Rules for calls that never run. One match with anything that a call touches is enough.
    #[schemars(extend("examples" = [["read(.env)", "bash(curl * | sh)"]]))]
    deny: Option<Vec<Rule>>,
    /// Policies, which reject inputs of tools without a question.
    #[schemars(extend("examples" = [[{"name": "look", "tools": ["bash"], "allow": ["ls *"]}]]))]
    policies: Option<Vec<Policy>>,
}

/// A rule: `tool` or `tool(spec)`. It matches what a call touches, by any tool. `bash(words)` matches commands;
/// `read(path)`, `write(path)` and `edit(path)` match files; `fetch(host)` matches hosts.
#[derive(JsonSchema)]
#[schemars(rename = "rule", untagged)]
enum Rule {
    Plain(Text),
    WithExamples(RuleWithExamples),
}

/// A rule with examples, which are checked when the file is read.
#[derive(JsonSchema)]
#[schemars(rename = "ruleWithExamples", deny_unknown_fields)]
pub(crate) struct RuleWithExamples {
    /// The rule.
    #[schemars(extend("examples" = ["bash(git diff *)"]))]
    rule: Text,
    /// Commands, paths or addresses that the rule must match.
    #[schemars(rename = "match", extend("examples" = [["git diff HEAD"]]))]
    matches: Option<Vec<Text>>,
    /// Commands, paths or addresses that the rule must not match.
    #[schemars(extend("examples" = [["git push"]]))]
    not_match: Option<Vec<Text>>,
}

/// A policy, which rejects inputs of tools without a question.
#[derive(JsonSchema)]
#[schemars(rename = "policy", deny_unknown_fields)]
pub(crate) struct Policy {
    /// The name, shown when the policy rejects an input.
    name: Option<Text>,
    /// The tools that the policy is about, as globs over their names.
    #[schemars(length(min = 1), extend("examples" = [["bash"]]))]
    tools: Vec<Glob>,
    /// The allowed commands. Every simple command must match one of them.
    #[schemars(extend("examples" = [["ls *"]]))]
    allow: Option<Vec<Text>>,
    /// Commands that are rejected.
    #[schemars(extend("examples" = [["rm *"]]))]
    deny: Option<Vec<Text>>,
    /// Regular expressions that a field of the input must not match, by the name of the field.
    #[schemars(extend("examples" = [{"url": ["^http:"]}]))]
    fields: Option<BTreeMap<String, Vec<Text>>>,
}

/// The limits of a run.
#[derive(JsonSchema)]
#[schemars(rename = "limits", rename_all = "camelCase", deny_unknown_fields)]
struct Limits {
    /// The maximum number of requests in a run. A subagent has its own count with the same limit.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    max_turns: Option<u32>,
    /// The maximum cost of a run in dollars, with its subagents.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_budget_usd: Option<f64>,
}
