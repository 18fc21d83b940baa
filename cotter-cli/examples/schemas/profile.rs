//! `agent.json`: a profile.

use std::borrow::Cow;

use cotter::hooks::points::{PointId, PointSpec};
use cotter_files::profile::{LogLevel, read::MOMENTS};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::{
    files::Id,
    hooks::{CommandLine, fires},
    settings::{Permissions, Policy, RuleWithExamples, without_allow_rules},
    shape::{ModelName, Text, add_definition, one_of, plain, properties, read},
};

pub(crate) fn profile() -> Schema {
    let mut schema = read::<Profile>();
    without_allow_rules(&mut schema);
    schema
}

plain! {
    /// An https URL.
    Address = json_schema!({
        "type": "string",
        "pattern": r"^https://[A-Za-z0-9._-]+(:[0-9]+)?([/?#]\S*)?$",
        "maxLength": 2000,
        "examples": ["https://hooks.example.com/cotter"],
    });
    /// A file below `runs/`.
    RunsFile = json_schema!({
        "type": "string",
        "pattern": r"^runs/([^./\\][^/\\]*/)*[^./\\][^/\\]*\.jsonl$",
        "maxLength": 200,
        "examples": ["runs/calls.jsonl"],
    });
    /// The level of a log action.
    LevelWord = one_of(LogLevel::WORDS);
}

/// An agent that can be shared: `agents/NAME/agent.json`, run with `--agent NAME` or `--agent FILE`. It may
/// observe, ask and deny. It cannot loosen permissions or change the input of a tool.
#[derive(JsonSchema)]
#[schemars(title = "Profile of cotter", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("allowComments" = true, "allowTrailingCommas" = true))]
struct Profile {
    /// The path of this schema, for editors. `cotter schema profile > FILE` writes it.
    #[schemars(rename = "$schema", extend("examples" = ["./profile.schema.json"]))]
    schema: Option<String>,
    /// The name. Without it, the name of the folder.
    name: Option<Id>,
    /// The purpose of the profile.
    description: Option<Text>,
    /// The model, as `provider/model`. The person must have set it up.
    model: Option<ModelName>,
    /// The instructions.
    system_prompt: Option<Text>,
    /// The tools that the agent may call, as globs over their names. Without it, all tools.
    #[schemars(length(min = 1), extend("examples" = [["read", "grep"]]))]
    tools: Option<Vec<Text>>,
    /// The skills that the agent may use. Without it, all skills.
    #[schemars(length(min = 1), extend("examples" = [["house-style"]]))]
    skills: Option<Vec<Text>>,
    /// The value of `{{mode}}` in texts.
    mode: Option<Text>,
    /// The maximum number of requests in a run.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    max_turns: Option<u32>,
    /// Rules for calls that never run, and policies, which reject inputs of tools.
    #[schemars(extend("examples" = [["bash(rm *)"]]))]
    policies: Option<Vec<Forbidden>>,
    /// Rules that ask and deny, a mode and a level. They cannot be looser than the person's own.
    permissions: Option<Permissions>,
    /// The actions at moments of a run.
    hooks: Option<Moments>,
}

/// A deny rule, or a policy.
#[derive(JsonSchema)]
#[schemars(rename = "forbidden", untagged)]
enum Forbidden {
    Rule(Text),
    WithExamples(RuleWithExamples),
    Policy(Policy),
}

/// Lists of actions, by moment.
struct Moments;

impl JsonSchema for Moments {
    fn schema_name() -> Cow<'static, str> {
        "hooks".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let lists = MOMENTS.iter().map(|(name, point)| {
            let row: &PointSpec = point.row();
            let actions = actions(generator, *point, row.is_about_tools());
            let list = json!({
                "description": format!("{} Point: `{point}`.", fires(row)),
                "type": "array",
                "items": {"anyOf": actions},
            });
            ((*name).to_owned(), list)
        });
        let lists: Map<_, _> = lists.collect();
        json_schema!({
            "description": "The actions at moments of a run.",
            "type": "object",
            "properties": lists,
            "additionalProperties": false,
            "examples": [{"onToolCall": [{"action": "approve", "tools": ["bash"]}]}],
        })
    }
}

/// The schemas of the actions at a moment.
fn actions(generator: &mut SchemaGenerator, point: PointId, about_tools: bool) -> Vec<Value> {
    let mut actions = vec![
        ("log", Log::json_schema(generator)),
        ("webhook", Webhook::json_schema(generator)),
        ("save_json", SaveJson::json_schema(generator)),
        ("command", Command::json_schema(generator)),
    ];
    if point == PointId::ToolPre {
        actions.push(("approve", Approve::json_schema(generator)));
    }
    let actions = actions.into_iter().map(|(name, mut schema)| {
        let keys = properties(&mut schema);
        keys["action"]["enum"] = json!([name]);
        if !about_tools {
            keys.shift_remove("tools");
        }
        let name = if about_tools { format!("tool_{name}") } else { name.to_owned() };
        add_definition(generator, name, schema)
    });
    actions.collect()
}

/// The keys of every action.
#[derive(JsonSchema)]
struct ActionKeys {
    /// The name of the action.
    action: String,
    /// The tools that the action is about, as globs over their names. Without it, all tools.
    #[schemars(length(min = 1), extend("examples" = [["bash"]]))]
    tools: Option<Vec<Text>>,
}

/// Reports names and sizes, without any content.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Log {
    #[schemars(flatten)]
    common: ActionKeys,
    /// The level. `debug` is recorded and not shown.
    level: Option<LevelWord>,
}

/// Posts the event as JSON. A failure has no effect.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Webhook {
    #[schemars(flatten)]
    common: ActionKeys,
    /// The address. Addresses of this machine and its network must be allowed by the operator.
    url: Address,
    /// The time limit in milliseconds. The default is 5000.
    #[schemars(range(min = 1, max = 3_600_000))]
    timeout_ms: Option<u64>,
}

/// Appends the event to a file, as a line of JSON.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct SaveJson {
    #[schemars(flatten)]
    common: ActionKeys,
    /// The file, below the profile's folder.
    path: RunsFile,
}

/// Asks a person before the tool runs. Without a person, the tool does not run.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Approve {
    #[schemars(flatten)]
    common: ActionKeys,
}

/// Runs a program. In `onToolCall` it may block the call; elsewhere it only observes. The operator of the machine
/// allows it with `COTTER_ALLOW_COMMAND_HOOKS=1`.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Command {
    #[schemars(flatten)]
    common: ActionKeys,
    /// The command, run in the profile's folder in the same way as a command hook of settings.
    command: CommandLine,
    /// The time limit in milliseconds. Without it, the time limit of the point.
    #[schemars(range(min = 1, max = 3_600_000))]
    timeout_ms: Option<u64>,
}
