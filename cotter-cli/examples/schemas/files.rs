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
        "type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$", "maxLength": cotter_files::space::MOST_ID, "examples": ["deploy"],
    });
    /// A list of words, or one text with words separated by commas or blanks.
    Words = json_schema!({"type": ["array", "string"], "items": {"type": "string"}});
    /// A list of words that is not empty.
    SomeWords = json_schema!({
        "type": ["array", "string"], "items": {"type": "string", "pattern": r"\S"}, "minItems": 1, "pattern": r"\S",
    });
}

/// A hook of a folder `hooks/`, which is asked about tools. It reads `{"tool", "input", "result"?}` on standard
/// input and may answer `{"blocked", "reason", "modified"}` (`cotter schema hook-output`).
#[derive(JsonSchema)]
#[schemars(title = "Hook file of cotter", rename_all = "camelCase", deny_unknown_fields)]
struct Hook {
    /// What it is called by, and what is told with its reasons.
    id: HookId,
    /// Its name, for people.
    name: Option<String>,
    /// What it is for.
    description: Option<String>,
    /// Whether it is asked before a tool runs, `pre`, or told after it ran, `post`.
    #[schemars(extend("enum" = ["pre", "post"]))]
    phase: String,
    /// The tools it is about, as globs over their names; without it, all.
    #[schemars(extend("examples" = [["write", "edit"]]))]
    tools: Option<SomeWords>,
    /// What is run, from the folder that has `hooks`. A text of plain words and a list are executed as they are,
    /// a text with shell syntax by `sh -c`. Without it, the file beside this one with the same name but for the
    /// ending.
    command: Option<CommandLine>,
    /// The longest it may take, in milliseconds; without it, what its point allows.
    #[schemars(range(min = 1, max = 3_600_000))]
    timeout_ms: Option<u64>,
    /// `false` switches it off.
    enabled: Option<bool>,
}

/// What makes a folder a space: `manifest.json`.
#[derive(JsonSchema)]
#[schemars(title = "Manifest of a space", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("allowComments" = true, "allowTrailingCommas" = true))]
struct Manifest {
    /// Where this schema is, for editors. `cotter schema space > FILE` writes it.
    #[schemars(rename = "$schema", extend("examples" = ["./space.schema.json"]))]
    schema: Option<String>,
    /// What it is called by, and the name of its folder.
    id: SpaceId,
    /// Its name, for people.
    name: Text,
    /// Which version it is, in its author's own counting.
    #[schemars(extend("examples" = ["1.0.0"]))]
    version: Text,
    /// What it is for, in one sentence.
    description: Option<String>,
}

/// The front matter of a skill: `skills/NAME/SKILL.md`, `skills/NAME.md` or `skills/NAME.yaml`.
#[derive(JsonSchema)]
#[schemars(title = "Front matter of a skill", rename_all = "kebab-case")]
struct Skill {
    /// What `/` binds; without it, the name of the folder or file.
    id: Option<Id>,
    /// Its name, for people.
    name: Option<String>,
    /// What it is for, and when. The model chooses by it.
    #[schemars(extend("maxLength" = 1024))]
    description: Option<String>,
    /// What brings it in by itself, when a person's text matches any of them.
    #[schemars(extend("examples" = [["deploy", {"pattern": "docker(file)?", "type": "regex"}]]))]
    triggers: Option<Triggers>,
    /// The agents it is for, by id; without it, all.
    agents: Option<Words>,
    /// Words to find it by.
    tags: Option<Words>,
    /// Its license. Without effect.
    license: Option<Value>,
    /// Tools it likes to use. Adds no tool and approves nothing.
    allowed_tools: Option<Value>,
    /// What its arguments are, in words.
    argument_hint: Option<Value>,
    /// `true`: the model is not offered it, it comes by its name or a trigger.
    disable_model_invocation: Option<bool>,
    /// Whatever else its author wants to say. Without effect.
    metadata: Option<Map<String, Value>>,
    /// Its text, in a `.yaml` without front matter.
    body: Option<String>,
}

/// A trigger, or several.
#[derive(JsonSchema)]
#[schemars(rename = "triggers", untagged)]
enum Triggers {
    One(Text),
    Several(#[schemars(length(max = 64))] Vec<Trigger>),
}

/// A pattern. Case does not count unless it says `(?-i)`.
#[derive(JsonSchema)]
#[schemars(rename = "trigger", untagged)]
enum Trigger {
    Keyword(Text),
    Typed(TypedTrigger),
}

/// A pattern of a kind.
#[derive(JsonSchema)]
#[schemars(rename = "typedTrigger")]
struct TypedTrigger {
    /// The words, or the regular expression.
    #[schemars(extend("examples" = ["deploy"]))]
    pattern: Text,
    /// `keyword`, which it is without this, or `regex`.
    #[schemars(rename = "type", extend("enum" = ["keyword", "regex"]))]
    kind: Option<String>,
    /// `true`: it matches whole words only.
    word: Option<bool>,
}

/// The front matter of a command: `commands/NAME.md`. Its text is the prompt.
#[derive(JsonSchema)]
#[schemars(title = "Front matter of a command", rename_all = "kebab-case")]
struct Command {
    /// What it does, for people who choose one.
    description: Option<String>,
    /// What its arguments are, in words.
    #[schemars(extend("examples" = ["[what to look at first]"]))]
    argument_hint: Option<Words>,
    /// Tools it likes to use. Adds no tool and approves nothing.
    allowed_tools: Option<Value>,
    /// Who answers, as `provider/model`; without it, or with `inherit`, whoever would anyway.
    model: Option<ModelName>,
    /// Its name, for people: it is called by its file's.
    name: Option<Value>,
}

/// An agent that the model may call: the front matter of `agents/NAME.md`, or `agents/NAME.yaml`.
#[derive(JsonSchema)]
#[schemars(title = "Front matter of an agent", rename_all = "camelCase")]
struct Agent {
    /// What it is called by; without it, `name` where that can be one, else the file's name.
    id: Option<Id>,
    /// Its name.
    name: Option<String>,
    /// What it is for. The model chooses by it.
    description: Option<String>,
    /// Its instructions; without it, the text below the front matter.
    prompt: Option<String>,
    /// The same, in a `.yaml` without front matter.
    body: Option<String>,
    /// The tools it may call of those its caller has, as globs over their names; without it, all.
    #[schemars(extend("examples" = [["read", "grep"]]))]
    tools: Option<Words>,
    /// The tools it may not call, whatever else says that it may.
    #[schemars(extend("examples" = [["bash"]]))]
    disallowed_tools: Option<Words>,
    /// `plan`: it only looks. Any other has no effect.
    #[schemars(extend("examples" = ["plan"]))]
    permission_mode: Option<Text>,
    /// The skills it may use; without it, all.
    #[schemars(extend("examples" = [["house-style"]]))]
    skills: Option<Words>,
    /// Who answers for it, as `provider/model`; without it, or with `inherit`, who answers its caller.
    model: Option<ModelName>,
    /// What its texts find in `{{mode}}`.
    mode: Option<Text>,
}
