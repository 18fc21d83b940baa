//! `agent.json`: a profile.

use std::borrow::Cow;

use cotter::hooks::points::{PointId, PointSpec};
use cotter_files::profile::{LogLevel, read::MOMENTS};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::{
    files::Id,
    hooks::CommandLine,
    settings::{Permissions, Policy, RuleWithExamples},
    shape::{ModelName, Text, add_definition, one_of, plain, properties, read},
};

pub(crate) fn profile() -> Schema {
    let mut schema = read::<Profile>();
    let allow = schema.pointer_mut("/definitions/permissions/properties/allow");
    *allow.expect("permissions have allow rules") = json!({
        "description": "Always empty: what may run unasked belongs in a person's own settings.",
        "type": "array",
        "maxItems": 0,
    });
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

/// An agent that can be handed on: `agents/NAME/agent.json`, run with `--agent NAME` or `--agent FILE`. It may
/// watch, ask and forbid; nothing in it makes anything looser or changes what a tool is given.
#[derive(JsonSchema)]
#[schemars(title = "Profile of cotter", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("allowComments" = true, "allowTrailingCommas" = true))]
struct Profile {
    /// Where this schema is, for editors. `cotter schema profile > FILE` writes it.
    #[schemars(rename = "$schema", extend("examples" = ["./profile.schema.json"]))]
    schema: Option<String>,
    /// What it is called; without it, as its folder.
    name: Option<Id>,
    /// What it is for.
    description: Option<Text>,
    /// Who answers, as `provider/model`: one that the person has set up.
    model: Option<ModelName>,
    /// Its instructions.
    system_prompt: Option<Text>,
    /// The tools it may call, as globs over their names; without it, all.
    #[schemars(length(min = 1), extend("examples" = [["read", "grep"]]))]
    tools: Option<Vec<Text>>,
    /// The skills it may use; without it, all.
    #[schemars(length(min = 1), extend("examples" = [["house-style"]]))]
    skills: Option<Vec<Text>>,
    /// What texts find in `{{mode}}`.
    mode: Option<Text>,
    /// The most requests of a run.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    max_turns: Option<u32>,
    /// What never runs: rules, and policies over what tools are given.
    #[schemars(extend("examples" = [["bash(rm *)"]]))]
    policies: Option<Vec<Forbidden>>,
    /// Rules that ask and deny, a mode and a level: no looser than the person's own.
    permissions: Option<Permissions>,
    /// What happens at moments of a run.
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
            let mut fires = row.fires.to_owned();
            fires[..1].make_ascii_uppercase();
            let actions = actions(generator, *point, row.is_about_tools());
            let list = json!({
                "description": format!("{fires} (`{point}`)."),
                "type": "array",
                "items": {"anyOf": actions},
            });
            ((*name).to_owned(), list)
        });
        let lists: Map<_, _> = lists.collect();
        json_schema!({
            "description": "What happens at moments of a run.",
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

/// Tells names and sizes, nothing of what was said or done.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Log {
    /// What happens.
    action: String,
    /// The tools it is about, as globs over their names; without it, all.
    #[schemars(length(min = 1), extend("examples" = [["bash"]]))]
    tools: Option<Vec<Text>>,
    /// How loud: `debug` is kept with the hook's record and told to nobody.
    level: Option<LevelWord>,
}

/// Posts what happened as JSON. Its failure changes nothing.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Webhook {
    /// What happens.
    action: String,
    /// The tools it is about, as globs over their names; without it, all.
    #[schemars(length(min = 1), extend("examples" = [["bash"]]))]
    tools: Option<Vec<Text>>,
    /// Where it is posted to. This machine and its network are the operator's to list.
    url: Address,
    /// The longest it may take, in milliseconds; 5000 unless told.
    #[schemars(range(min = 1, max = 3_600_000))]
    timeout_ms: Option<u64>,
}

/// Adds what happened to a file, as a line of JSON.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct SaveJson {
    /// What happens.
    action: String,
    /// The tools it is about, as globs over their names; without it, all.
    #[schemars(length(min = 1), extend("examples" = [["bash"]]))]
    tools: Option<Vec<Text>>,
    /// The file, below the profile's folder.
    path: RunsFile,
}

/// Has a person asked before the tool runs. With nobody there it does not run.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Approve {
    /// What happens.
    action: String,
    /// The tools it is about, as globs over their names; without it, all.
    #[schemars(length(min = 1), extend("examples" = [["bash"]]))]
    tools: Option<Vec<Text>>,
}

/// Starts a program: in `onToolCall` it may refuse, elsewhere it is told. The operator of the machine allows
/// it with `COTTER_ALLOW_COMMAND_HOOKS=1`.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Command {
    /// What happens.
    action: String,
    /// The tools it is about, as globs over their names; without it, all.
    #[schemars(length(min = 1), extend("examples" = [["bash"]]))]
    tools: Option<Vec<Text>>,
    /// What is run, in the profile's folder, as a command hook of settings is.
    command: CommandLine,
    /// The longest it may take, in milliseconds; without it, what its point allows.
    #[schemars(range(min = 1, max = 3_600_000))]
    timeout_ms: Option<u64>,
}
