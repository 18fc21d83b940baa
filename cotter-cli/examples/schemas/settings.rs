//! `settings.json` of a person and of a project.

use std::collections::BTreeMap;

use cotter::permission::mode::{Level, Mode, Sandbox};
use cotter_files::command_hook::entry::OnFailure;
use cotter_models::Speaks;
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
    const NOT_OF_A_PROJECT: [&str; 10] = [
        "providers",
        "models",
        "sandbox",
        "roots",
        "readRoots",
        "caches",
        "environment",
        "disable",
        "plugins",
        "claude",
    ];
    let mut schema = settings();
    schema.insert("title".into(), "Settings of a project, for cotter".into());
    let about = "What a project asks of every agent that works in it: `.cotter/settings.json`. It may only \
                 tighten, and nothing in it runs before somebody trusts it.";
    schema.insert("description".into(), about.into());
    let keys = properties(&mut schema);
    keys.retain(|key, _| !NOT_OF_A_PROJECT.contains(&key.as_str()));
    keys["$schema"]["description"] =
        "Where this schema is, for editors. `cotter schema project-settings > FILE` writes it."
            .into();
    let allow = schema.pointer_mut("/definitions/permissions/properties/allow");
    *allow.expect("permissions have allow rules") = json!({
        "description": "Always empty: what may run unasked belongs in a person's own settings.",
        "type": "array",
        "maxItems": 0,
    });
    let definitions = schema.get_mut("definitions").and_then(Value::as_object_mut);
    let definitions = definitions.expect("there are definitions");
    let others = ["provider", "model", "price", "claude"];
    definitions.retain(|name, _| !others.contains(&name.as_str()));
    schema
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
    SpeaksWord = one_of(Speaks::WORDS);
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
    /// Where this schema is, for editors. `cotter schema settings > FILE` writes it.
    #[schemars(rename = "$schema", extend("examples" = ["./settings.schema.json"]))]
    schema: Option<String>,
    /// Who answers, as `provider/model`. `cotter models list` shows who can.
    model: Option<ModelName>,
    /// Who is asked when the ones before fail, as `provider/model`.
    fallback_models: Option<Vec<ModelName>>,
    /// Where models are, by the name before the slash. Anthropic's, OpenAI's, Google's, OpenRouter and Ollama
    /// are known without being described.
    #[schemars(extend(
        "propertyNames" = {"pattern": "^[A-Za-z0-9._-]+$"},
        "examples" = [{"lab": {"speaks": "openai", "baseUrl": "http://10.0.0.7:8000/v1"}}]
    ))]
    providers: Option<BTreeMap<String, Provider>>,
    /// What you know better of a model than the catalogue does, by `provider/model`.
    #[schemars(extend(
        "propertyNames" = {"pattern": r"^[^/]+/.*\S"},
        "examples" = [{"lab/qwen3": {"contextWindow": 32768}}]
    ))]
    models: Option<BTreeMap<String, Model>>,
    /// What runs unasked, what asks and what never runs.
    permissions: Option<Permissions>,
    /// When a run ends by itself.
    limits: Option<Limits>,
    /// How commands are confined: `off`, `auto` (where the system can do it, which is so without this) or
    /// `required` (what cannot be confined does not run).
    sandbox: Option<SandboxWord>,
    /// Folders that may be read and written besides the project.
    roots: Option<Vec<Folder>>,
    /// Folders that may be read besides the project.
    read_roots: Option<Vec<Folder>>,
    /// Folders that confined commands may write besides.
    caches: Option<Vec<Folder>>,
    /// Variables that commands get besides the usual ones, by name.
    #[schemars(extend("examples" = [["JAVA_HOME"]]))]
    environment: Option<Vec<Text>>,
    /// Servers of the Model Context Protocol, by name. A tool of one is called `mcp__SERVER__TOOL`.
    mcp_servers: Option<Servers>,
    /// Programs that are asked or told, by point.
    hooks: Option<Hooks>,
    /// Hooks that are switched off: `lint`, or with the origin, `project/lint`.
    #[schemars(extend("examples" = [["project/lint"]]))]
    disable: Option<Vec<Text>>,
    /// Folders of plugins: with a `.claude-plugin/plugin.json` or `.plugin/plugin.json`, or with skills, agents,
    /// commands, hooks or servers where a plugin has them.
    plugins: Option<Vec<Folder>>,
    /// Files that were written for Claude Code.
    claude: Option<Claude>,
    /// What holds for all hooks that were written for Claude Code.
    claude_hooks: Option<ClaudeHooks>,
}

/// Files that were written for Claude Code.
#[derive(JsonSchema)]
#[schemars(rename = "claude", deny_unknown_fields)]
struct Claude {
    /// Whether those in `~/.claude` and `~/.agents` are used. Asked at the first run on a terminal.
    home: Option<bool>,
}

/// What holds for all hooks that were written for Claude Code.
#[derive(JsonSchema)]
#[schemars(rename = "claudeHooks", rename_all = "camelCase", deny_unknown_fields)]
struct ClaudeHooks {
    /// `block`: one that fails keeps what it guards from happening. Otherwise its failure passes and is told.
    /// Any file may say `block`, and none takes it back.
    on_failure: Option<FailureWord>,
}

/// A provider of models. What is left out is as the name is known to have it.
#[derive(JsonSchema)]
#[schemars(rename = "provider", rename_all = "camelCase", deny_unknown_fields)]
struct Provider {
    /// What it speaks: `anthropic` (Messages), `openai` (Chat Completions) or `openai-responses`. Needed where
    /// the name is none that is known.
    speaks: Option<SpeaksWord>,
    /// Its address. Needed where the name is none that is known.
    #[schemars(extend("examples" = ["http://10.0.0.7:8000/v1"]))]
    base_url: Option<Text>,
    /// The variable its key is in. A key itself never stands in a file of settings.
    api_key_variable: Option<KeyVariable>,
    /// The longest it may say nothing, in milliseconds; 300000 unless told.
    #[schemars(range(min = 1, max = 86_400_000))]
    idle_timeout_ms: Option<u64>,
}

/// What is known of a model.
#[derive(JsonSchema)]
#[schemars(rename = "model", rename_all = "camelCase", deny_unknown_fields)]
struct Model {
    /// How many tokens a conversation may have.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    context_window: Option<u64>,
    /// How many tokens a reply may have.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    max_output: Option<u64>,
    /// What a million tokens cost, in dollars.
    #[schemars(extend("examples" = [{"input": 0.1, "output": 0.4}]))]
    price: Option<Price>,
}

/// What a million tokens cost, in dollars.
#[derive(JsonSchema)]
#[schemars(rename = "price", rename_all = "camelCase", deny_unknown_fields)]
struct Price {
    /// What is read.
    #[schemars(range(min = 0))]
    input: f64,
    /// What is written.
    #[schemars(range(min = 0))]
    output: f64,
    /// What is read from the provider's cache; as `input` unless told.
    #[schemars(range(min = 0))]
    cache_read: Option<f64>,
    /// What is written to the provider's cache; as `input` unless told.
    #[schemars(range(min = 0))]
    cache_write: Option<f64>,
}

/// What runs unasked, what asks and what never runs. A deny of any file is final.
#[derive(JsonSchema)]
#[schemars(rename = "permissions", rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Permissions {
    /// What becomes of a call that rules and level leave open: `ask` (a person), `accept-edits` (writes in the
    /// project run unasked), `plan` (only what changes nothing runs), `auto` (nobody is asked, what would ask
    /// is refused).
    mode: Option<ModeWord>,
    /// How much runs unasked: `permissive` (work in the project, and outgoing traffic), `standard` (work in the
    /// project), `strict` (what changes nothing), `paranoid` (nothing).
    level: Option<LevelWord>,
    /// Calls that run unasked. Everything a call touches must be covered.
    #[schemars(extend("examples" = [["bash(git push origin *)", "fetch(docs.rs)"]]))]
    allow: Option<Vec<Rule>>,
    /// Calls that run only after a yes.
    #[schemars(extend("examples" = [["read(./secret)"]]))]
    ask: Option<Vec<Rule>>,
    /// Calls that never run. It is enough that something a call touches matches.
    #[schemars(extend("examples" = [["read(.env)", "bash(curl * | sh)"]]))]
    deny: Option<Vec<Rule>>,
    /// What tools may not be given. Never asks.
    #[schemars(extend("examples" = [[{"name": "look", "tools": ["bash"], "allow": ["ls *"]}]]))]
    policies: Option<Vec<Policy>>,
}

/// A rule: `tool` or `tool(spec)`, about what a call touches, whatever its tool is called. `bash(words)` is
/// about commands, `read(path)`, `write(path)` and `edit(path)` about files, `fetch(host)` about hosts.
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
    /// Commands, paths or addresses that it has to match.
    #[schemars(rename = "match", extend("examples" = [["git diff HEAD"]]))]
    matches: Option<Vec<Text>>,
    /// Such that it must not match.
    #[schemars(extend("examples" = [["git push"]]))]
    not_match: Option<Vec<Text>>,
}

/// A policy rejects what tools are given, and never asks.
#[derive(JsonSchema)]
#[schemars(rename = "policy", deny_unknown_fields)]
pub(crate) struct Policy {
    /// What it is called where it refuses.
    name: Option<Text>,
    /// The tools it is about, as globs over their names.
    #[schemars(length(min = 1), extend("examples" = [["bash"]]))]
    tools: Vec<Glob>,
    /// With this, every simple command must be like one of the list.
    #[schemars(extend("examples" = [["ls *"]]))]
    allow: Option<Vec<Text>>,
    /// Commands that are rejected.
    #[schemars(extend("examples" = [["rm *"]]))]
    deny: Option<Vec<Text>>,
    /// By the name of a field of the input: regular expressions it must not match.
    #[schemars(extend("examples" = [{"url": ["^http:"]}]))]
    fields: Option<BTreeMap<String, Vec<Text>>>,
}

/// When a run ends by itself.
#[derive(JsonSchema)]
#[schemars(rename = "limits", rename_all = "camelCase", deny_unknown_fields)]
struct Limits {
    /// The most requests of a run. A subagent has as many of its own.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    max_turns: Option<u32>,
    /// The most a run may cost, in dollars, with all who work for it.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_budget_usd: Option<f64>,
}
