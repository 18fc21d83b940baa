//! Hooks that are programs: their entries in settings, their input and their answers.

use std::borrow::Cow;

use cotter::{
    hooks::points::{POINTS, PointId, PointSpec},
    permission::verdict::Power,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::shape::{Text, Variable, add_definition, plain, properties, read, written};

/// The points at which a program can be asked.
fn points() -> impl Iterator<Item = &'static PointSpec> {
    POINTS.iter().filter(|row| row.id != PointId::Context)
}

/// The section `hooks`: lists of entries by point.
pub(crate) struct Hooks;

impl JsonSchema for Hooks {
    fn schema_name() -> Cow<'static, str> {
        "hooks".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let lists = points().map(|row| {
            let entry = entry(generator, row.is_about_tools(), row.powers.contains(&Power::Gate));
            (
                row.name.to_owned(),
                json!({
                    "description": about(row),
                    "type": "array",
                    "items": entry,
                }),
            )
        });
        let lists: Map<_, _> = lists.collect();
        json_schema!({
            "description": "Command hooks, by point.",
            "type": "object",
            "properties": lists,
            "additionalProperties": false,
            "examples": [{"tool.pre": [{"tools": ["write", "edit"], "command": "./hooks/check.sh"}]}],
        })
    }
}

/// The description of when a point fires, as a sentence.
pub(crate) fn fires(row: &PointSpec) -> String {
    let mut fires = row.fires.to_owned();
    fires[..1].make_ascii_uppercase();
    fires + "."
}

fn about(row: &PointSpec) -> String {
    let can = row.powers.iter().map(|power| match power {
        Power::Observe => "observe",
        Power::Gate => "block",
        Power::Transform => "change the event",
        Power::Answer => "answer for the person",
        _ => power.as_str(),
    });
    let can: Vec<_> = can.collect();
    let seconds = row.limit.as_secs();
    format!(
        "{} A hook at this point can {}. Its default time limit is {seconds} s.",
        fires(row),
        can.join(", ")
    )
}

/// The entry of a hook at points of a kind.
fn entry(generator: &mut SchemaGenerator, about_tools: bool, gates: bool) -> Value {
    let name = match (about_tools, gates) {
        (true, true) => "toolGate",
        (true, false) => "toolHook",
        (false, true) => "gate",
        (false, false) => "hook",
    };
    let mut schema = Entry::json_schema(generator);
    let keys = properties(&mut schema);
    if !about_tools {
        keys.shift_remove("tools");
    }
    let powers: &[&str] = if gates { &["observe", "gate"] } else { &["observe"] };
    keys["power"]["enum"] = json!(powers);
    if gates {
        // An asynchronous hook cannot be a gate, because nobody waits for its answer.
        schema.insert(
            "if".into(),
            json!({"properties": {"async": {"const": true}}, "required": ["async"]}),
        );
        schema.insert("then".into(), json!({"properties": {"power": {"enum": ["observe"]}}}));
    }
    add_definition(generator, name, schema)
}

plain! {
    /// The name that is shown to people and the model beside a hook's text.
    Name = json_schema!({
        "type": "string", "pattern": "^(?=.*\\S)[^\"`<\\u0000-\\u001f\\u007f-\\u009f]*$", "maxLength": 80,
    });
    /// A command as one line, or as a list of words.
    CommandLine = json_schema!({
        "anyOf": [
            {"type": "string", "pattern": r"\S"},
            {
                "type": "array",
                "items": [{"type": "string", "minLength": 1}],
                "additionalItems": {"type": "string"},
                "minItems": 1,
            },
        ],
        "examples": ["./hooks/check.sh", ["python3", "hooks/check.py"]],
    });
}

/// A command hook: a program that gets an event and may answer.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    /// The name. Without it, the name of the program.
    name: Option<Name>,
    /// The purpose of the hook.
    description: Option<String>,
    /// The tools that the hook is about, as globs over their names. Without it, all tools.
    #[schemars(length(min = 1), extend("examples" = [["write", "edit", "bash"]]))]
    tools: Option<Vec<Text>>,
    /// The command, run in the folder of this file. A text of plain words and a list are executed as they are, a
    /// text with shell syntax by `sh -c`. The command gets a JSON object on standard input (`cotter schema
    /// hook-input`) and may answer on standard output (`cotter schema hook-output`). An exit code other than 0
    /// blocks, with standard error as the reason.
    command: CommandLine,
    /// The time limit in milliseconds. Without it, the time limit of the point.
    #[schemars(range(min = 1, max = 3_600_000))]
    timeout_ms: Option<u64>,
    /// The highest power of the hook. Without it, the highest that its point and its owner allow.
    #[schemars(extend("enum" = ["observe", "gate"]))]
    power: Option<String>,
    /// `true`: the run does not wait for the hook, and the hook only observes.
    #[schemars(rename = "async")]
    detached: Option<bool>,
    /// `true`: the program is started once and gets one request per line. Each request has an `id`, which the
    /// answer must repeat.
    serve: Option<bool>,
    /// The names of your variables that the hook gets besides the usual ones.
    #[schemars(extend("examples" = [["DEPLOY_ENV"]]))]
    env: Option<Vec<Variable>>,
    /// The effect of a failure: `block` (the default) or `pass`, which is reported to the person.
    #[schemars(extend("enum" = ["block", "pass"]))]
    on_failure: Option<String>,
}

pub(crate) fn input() -> Schema {
    written::<Input>()
}

/// The input of a program.
struct Input;

impl JsonSchema for Input {
    fn schema_name() -> Cow<'static, str> {
        "Input".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut choices: Vec<Value> = vec![];
        for row in points() {
            let mut schema = row.id.payload_schema(generator);
            let keys = properties(&mut schema);
            keys["event"]["const"] = row.name.into();
            add_request_number(keys);
            schema.insert("description".into(), fires(row).into());
            choices.push(add_definition(generator, row.name, schema));
        }
        let space = SpaceInput::json_schema(generator);
        choices.push(add_definition(generator, "space", space));
        json_schema!({
            "title": "Input of a command hook of cotter",
            "description": "One JSON object on standard input; its keys depend on the point in `event`. A hook of a \
                            `hooks/*.yaml` reads the short form, `space`.",
            "oneOf": choices,
        })
    }
}

/// Adds the keys that a hook with `serve` gets: the number of the request as `id`. An `id` of the point is then
/// in `questionId`.
fn add_request_number(keys: &mut Map<String, Value>) {
    let Some(id) = keys.get_mut("id") else {
        let about =
            "The number of the request, for a hook with `serve`. The answer must repeat it.";
        let number = json!({"description": about, "type": "integer", "minimum": 0});
        keys.insert("id".into(), number);
        return;
    };
    let about = "The id of the question. For a hook with `serve`, the number of the request, which the answer must \
                 repeat.";
    *id = json!({"description": about, "type": ["string", "integer"]});
    let about = "The id of the question, for a hook with `serve`.";
    keys.insert("questionId".into(), json!({"description": about, "type": "string"}));
}

/// The input of a hook of a `hooks/*.yaml`.
#[derive(JsonSchema)]
struct SpaceInput {
    /// The tool's name.
    tool: String,
    /// The input of the tool.
    input: Value,
    /// The text of the result, in the phase `post`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
}

pub(crate) fn output() -> Schema {
    read::<Output>()
}

/// The answer of a program.
struct Output;

impl JsonSchema for Output {
    fn schema_name() -> Cow<'static, str> {
        "Output".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let whole = Answer::json_schema(generator);
        for row in points() {
            let mut schema = whole.clone();
            let keys = answers(row);
            properties(&mut schema).retain(|key, _| keys.contains(&key.as_str()));
            schema.remove("title");
            schema.insert("description".into(), format!("An answer at `{}`.", row.name).into());
            add_definition(generator, row.name, schema);
        }
        let space = SpaceAnswer::json_schema(generator);
        add_definition(generator, "space", space);
        whole
    }
}

/// The keys of an answer that have an effect at a point.
fn answers(row: &PointSpec) -> Vec<&'static str> {
    let gates = row.powers.contains(&Power::Gate);
    let warns = matches!(row.id, PointId::SessionStart | PointId::ToolPost);
    let refusal: &[_] = if gates || warns { &["continue", "block", "reason"] } else { &[] };
    let own: &[_] = match row.id {
        PointId::ToolPre => &["ask", "input", "result"],
        PointId::ToolPost => &["result"],
        PointId::UserPromptSubmit => &["prompt"],
        PointId::CompactPre => &["summary"],
        PointId::TurnEnd => &["goOn"],
        PointId::PermissionAsk => &["answer"],
        _ => &[],
    };
    [refusal, own, &["output", "additionalContext", "id"]].concat()
}

/// One JSON object on standard output. No output is a pass. A text that does not begin with `{` is sent to the
/// model. The definition with the name of a point has the keys that are valid at this point; `space` has the keys
/// for a hook of a `hooks/*.yaml`.
#[derive(JsonSchema)]
#[schemars(
    title = "Answer of a command hook of cotter",
    rename_all = "camelCase",
    deny_unknown_fields
)]
struct Answer {
    /// `false`: blocks the event, for the `reason`. At a point where nothing can be blocked, this is a warning.
    #[schemars(rename = "continue")]
    goes_on: Option<bool>,
    /// `true`: the same as `"continue": false`.
    block: Option<bool>,
    /// The reason. The model gets it.
    reason: Option<String>,
    /// Asks a person for approval first, for this reason. At `tool.pre`.
    ask: Option<Text>,
    /// A new input for the tool, which replaces the whole input. At `tool.pre`, if the hook's owner may change
    /// inputs.
    #[schemars(extend("examples" = [{"path": "copy.txt"}]))]
    input: Option<Map<String, Value>>,
    /// A result that replaces the tool's result. At `tool.pre`, the tool does not run. Also at `tool.post`.
    result: Option<String>,
    /// A new prompt, which replaces the prompt. At `user.prompt.submit`.
    prompt: Option<String>,
    /// The summary, used instead of a summary by the model. At `compact.pre`.
    summary: Option<String>,
    /// Makes the model continue, for this reason. At `turn.end`.
    go_on: Option<Text>,
    /// The answer for the person. At `permission.ask`.
    #[schemars(extend("enum" = ["yes", "no"]))]
    answer: Option<String>,
    /// Text for the model, as output of the hook.
    output: Option<String>,
    /// Additional context for the model.
    additional_context: Option<String>,
    /// The `id` of the request, for a hook with `serve`.
    id: Option<u64>,
}

/// An answer of a hook of a `hooks/*.yaml`. Keys may be in any case.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SpaceAnswer {
    /// `true`: blocks the call, for the `reason`.
    blocked: Option<bool>,
    /// The reason. The model gets it.
    reason: Option<String>,
    /// A new input for the tool, which replaces the whole input. In the phase `pre`, if the hook's owner may change
    /// inputs.
    modified: Option<Map<String, Value>>,
}
