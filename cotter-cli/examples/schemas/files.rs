//! Extensions that are files: hooks of a `hooks/*.yaml`, the manifest of a space, and the front matter of
//! skills, commands and agents.
//!
//! Front matter may have keys of other programs, which have no effect here; so every key is accepted.

use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value};

use crate::{
    hooks::CommandLine,
    shape::{ModelName, Text, plain, read},
};

pub(crate) fn hook() -> Schema {
    read::<Hook>()
}

pub(crate) fn manifest() -> Schema {
    read::<Manifest>()
}

pub(crate) fn skill() -> Schema {
    read::<Skill>()
}

pub(crate) fn command() -> Schema {
    read::<Command>()
}

pub(crate) fn agent() -> Schema {
    read::<Agent>()
}

plain! {
    /// The name of a skill, agent or profile.
    Id = json_schema!({"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]*$", "maxLength": 64});
    /// The name of a hook.
    HookId = json_schema!({"type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": 80});
    /// The name of a space.
    SpaceId = json_schema!({
        "type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$", "maxLength": cotter_files::space::MAX_ID, "examples": ["deploy"],
    });
    /// A list of words, or one text with words separated by commas or blanks.
    Words = json_schema!({"type": ["array", "string"], "items": {"type": "string"}});
    /// A list of words that is not empty.
    SomeWords = json_schema!({
        "type": ["array", "string"], "items": {"type": "string", "pattern": r"\S"}, "minItems": 1, "pattern": r"\S",
    });
}

/// A hook of a folder `hooks/`, for calls of tools. It reads `{"tool", "input", "result"?}` on standard input and
/// may answer `{"blocked", "reason", "modified"}` (`cotter schema hook-output`).
#[derive(JsonSchema)]
#[schemars(title = "Hook file of cotter", rename_all = "camelCase", deny_unknown_fields)]
struct Hook {
    /// The id. It is shown with the hook's reasons.
    id: HookId,
    /// The name, for people.
    name: Option<String>,
    /// The purpose of the hook.
    description: Option<String>,
    /// When the hook runs: before a tool runs (`pre`) or after it ran (`post`).
    #[schemars(extend("enum" = ["pre", "post"]))]
    phase: String,
    /// The tools that the hook is about, as globs over their names. Without it, all tools.
    #[schemars(extend("examples" = [["write", "edit"]]))]
    tools: Option<SomeWords>,
    /// The command, run in the folder that contains `hooks`. A text of plain words and a list are executed as they
    /// are, a text with shell syntax by `sh -c`. Without it, the file beside this file with the same name and
    /// another extension.
    command: Option<CommandLine>,
    /// The time limit in milliseconds. Without it, the time limit of the point.
    #[schemars(range(min = 1, max = 3_600_000))]
    timeout_ms: Option<u64>,
    /// `false` disables the hook.
    enabled: Option<bool>,
}

/// The manifest of a space: `manifest.json`.
#[derive(JsonSchema)]
#[schemars(title = "Manifest of a space", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("allowComments" = true, "allowTrailingCommas" = true))]
struct Manifest {
    /// The path of this schema, for editors. `cotter schema space > FILE` writes it.
    #[schemars(rename = "$schema", extend("examples" = ["./space.schema.json"]))]
    schema: Option<String>,
    /// The id of the space. It is also the name of its folder.
    id: SpaceId,
    /// The name, for people.
    name: Text,
    /// The version, in any form.
    #[schemars(extend("examples" = ["1.0.0"]))]
    version: Text,
    /// The purpose of the space, in one sentence.
    description: Option<String>,
}

/// The front matter of a skill: `skills/NAME/SKILL.md`, `skills/NAME.md` or `skills/NAME.yaml`.
#[derive(JsonSchema)]
#[schemars(title = "Front matter of a skill", rename_all = "kebab-case")]
struct Skill {
    /// The id: `/ID` calls the skill. Without it, the name of the folder or file.
    id: Option<Id>,
    /// The name, for people.
    name: Option<String>,
    /// The purpose of the skill, and when to use it. The model chooses skills by this text.
    #[schemars(extend("maxLength" = 1024))]
    description: Option<String>,
    /// Patterns that load the skill if one of them matches the person's text.
    #[schemars(extend("examples" = [["deploy", {"pattern": "docker(file)?", "type": "regex"}]]))]
    triggers: Option<Triggers>,
    /// The ids of the agents that may use the skill. Without it, all agents.
    agents: Option<Words>,
    /// Search words.
    tags: Option<Words>,
    /// The license. It has no effect.
    license: Option<Value>,
    /// The tools that the skill uses. It adds no tool and approves no call.
    allowed_tools: Option<Value>,
    /// A description of the arguments.
    argument_hint: Option<Value>,
    /// `true`: the model cannot load the skill. A person loads it by its name, or a trigger does.
    disable_model_invocation: Option<bool>,
    /// Other data of the author. It has no effect.
    metadata: Option<Map<String, Value>>,
    /// The text of the skill, in a `.yaml` without front matter.
    body: Option<String>,
}

/// One trigger, or a list of triggers.
#[derive(JsonSchema)]
#[schemars(rename = "triggers", untagged)]
enum Triggers {
    One(Text),
    Several(#[schemars(length(max = 64))] Vec<Trigger>),
}

/// A pattern. It ignores case unless it contains `(?-i)`.
#[derive(JsonSchema)]
#[schemars(rename = "trigger", untagged)]
enum Trigger {
    Keyword(Text),
    Typed(TypedTrigger),
}

/// A pattern with its kind.
#[derive(JsonSchema)]
#[schemars(rename = "typedTrigger")]
struct TypedTrigger {
    /// The words, or the regular expression.
    #[schemars(extend("examples" = ["deploy"]))]
    pattern: Text,
    /// `keyword` (the default) or `regex`.
    #[schemars(rename = "type", extend("enum" = ["keyword", "regex"]))]
    kind: Option<String>,
    /// `true`: the pattern matches whole words only.
    word: Option<bool>,
}

/// The front matter of a command: `commands/NAME.md`. The text below is the prompt.
#[derive(JsonSchema)]
#[schemars(title = "Front matter of a command", rename_all = "kebab-case")]
struct Command {
    /// The effect of the command, for the list of commands.
    description: Option<String>,
    /// A description of the arguments.
    #[schemars(extend("examples" = ["[what to look at first]"]))]
    argument_hint: Option<Words>,
    /// The tools that the command uses. It adds no tool and approves no call.
    allowed_tools: Option<Value>,
    /// The model, as `provider/model`. Without it, or with `inherit`, the model of the session.
    model: Option<ModelName>,
    /// The name, for people. The command is called by the name of its file.
    name: Option<Value>,
}

/// An agent that the model may call: the front matter of `agents/NAME.md`, or `agents/NAME.yaml`.
#[derive(JsonSchema)]
#[schemars(title = "Front matter of an agent", rename_all = "camelCase")]
struct Agent {
    /// The id. Without it, `name` if that is a valid id, else the name of the file.
    id: Option<Id>,
    /// The name.
    name: Option<String>,
    /// The purpose of the agent. The model chooses agents by this text.
    description: Option<String>,
    /// The instructions. Without it, the text below the front matter.
    prompt: Option<String>,
    /// The instructions, in a `.yaml` without front matter.
    body: Option<String>,
    /// The tools of its caller that the agent may call, as globs over their names. Without it, all tools.
    #[schemars(extend("examples" = [["read", "grep"]]))]
    tools: Option<Words>,
    /// The tools that the agent may not call, even if `tools` includes them.
    #[schemars(extend("examples" = [["bash"]]))]
    disallowed_tools: Option<Words>,
    /// `plan`: the agent may change nothing. Any other value has no effect.
    #[schemars(extend("examples" = ["plan"]))]
    permission_mode: Option<Text>,
    /// The skills that the agent may use. Without it, all skills.
    #[schemars(extend("examples" = [["house-style"]]))]
    skills: Option<Words>,
    /// The model, as `provider/model`. Without it, or with `inherit`, the model of its caller.
    model: Option<ModelName>,
    /// The value of `{{mode}}` in its texts.
    mode: Option<Text>,
}
