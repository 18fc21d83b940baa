//! Skills: text that is added to the context, by `/name` or by the model's own call.
//!
//! If a person calls a skill, its text becomes a message before the person's own, marked
//! `is_skill_injection`. The model can also call an exposed skill, through the tool `invoke_skill`, whose
//! description lists the skills. After a compaction, the texts of skills in the summarised part are
//! attached to the summary.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Skill};
//! use cotter_test::{RecordingModel, ScriptedModel, Step};
//!
//! let model = RecordingModel::new(ScriptedModel::new([Step::text("Rust is a language.")]));
//! let agent = Agent::builder(model.clone())
//!     .define_skill(Skill::new("concise", |_| async { Ok("Be terse.".into()) }))
//!     .build()?;
//! agent.process_request("/concise tell me about Rust").await?;
//! assert_eq!(
//!     model.shown(),
//!     "skill: <skill name=\"concise\">\nBe terse.\n</skill>\nuser: tell me about Rust\n",
//! );
//! # Ok(())
//! # }
//! ```

use std::{fmt, future::Future, path::PathBuf, sync::Arc};

use serde_json::json;
use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

pub use crate::invoke::trigger::{MatchScope, Trigger, TriggerError, TriggerKind};
use crate::{
    agent::controls::Controls,
    history::message::Content,
    invoke::callable::{BoxError, Callable, failed},
    model::tools::ToolSpec,
    permission::origin::Owner,
};

/// A skill: a name, and a function that returns its text.
///
/// The function is called for each use of the name, in text order. A failure ends the turn, and nothing of
/// the turn is stored.
pub struct Skill {
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    pub(crate) exposed: bool,
    /// The triggers that activate the skill; any match is enough.
    pub(crate) triggers: Vec<Trigger>,
    /// The agents that the skill is for; empty for all.
    pub(crate) agents: Vec<SmolStr>,
    pub(crate) tags: Vec<String>,
    /// The file that the skill was read from.
    pub(crate) file: Option<PathBuf>,
    pub(crate) function: Callable<SkillCx, Content>,
    source_text: Option<Arc<SkillTextFn>>,
}

/// Returns the text of a skill as it was written, before anything is filled in.
type SkillTextFn = dyn Fn() -> Result<String, BoxError> + Send + Sync;

impl Skill {
    /// Makes a skill named `name`.
    pub fn new<F, Fut>(name: impl Into<SmolStr>, function: F) -> Self
    where
        F: Fn(SkillCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Content, BoxError>> + Send + 'static,
    {
        let function =
            Callable::new(function, |result: Result<Content, BoxError>| result.map_err(failed));
        Skill {
            name: name.into(),
            description: String::new(),
            exposed: false,
            triggers: vec![],
            agents: vec![],
            tags: vec![],
            file: None,
            function,
            source_text: None,
        }
    }

    /// Makes a skill with a constant text.
    pub fn text(name: impl Into<SmolStr>, text: impl Into<String>) -> Self {
        let text = text.into();
        let source = text.clone();
        Skill::new(name, move |_| std::future::ready(Ok(Content::Text(text.clone()))))
            .source_text(move || Ok(source.clone()))
    }

    /// Sets the description, which the model reads before it calls the skill.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Lets the model call the skill, through `invoke_skill`.
    pub fn expose_to_agent(mut self) -> Self {
        self.exposed = true;
        self
    }

    /// Adds triggers. The skill is activated, once per session, if any of them matches a person's task.
    pub fn triggers(mut self, triggers: impl IntoIterator<Item = Trigger>) -> Self {
        self.triggers.extend(triggers);
        self
    }

    /// Limits the triggers to agents with these ids; case does not count. Without ids, all agents.
    pub fn agents<S: Into<SmolStr>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
        self.agents.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Adds tags, which help to find the skill in lists.
    pub fn tags<S: Into<String>>(mut self, tags: impl IntoIterator<Item = S>) -> Self {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Sets the file that the skill was read from, for lists.
    pub fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Sets a function that returns the text as it was written, to show it without a call of the skill.
    pub fn source_text(
        mut self,
        read: impl Fn() -> Result<String, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.source_text = Some(Arc::new(read));
        self
    }

    /// True if the skill is for the agent with that id.
    pub(crate) fn is_for(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|id| id.eq_ignore_ascii_case(agent))
    }
}

/// A skill, as lists show it.
#[derive(Clone)]
#[non_exhaustive]
pub struct SkillInfo {
    /// The skill's name.
    pub name: SmolStr,
    /// The skill's description.
    pub description: String,
    /// The skill's owner.
    pub owner: Owner,
    /// The owner of a skill that has the same name and is found instead.
    pub shadowed_by: Option<Owner>,
    /// True if the model may call the skill.
    pub exposed: bool,
    /// The triggers that activate the skill.
    pub triggers: Vec<Trigger>,
    /// The agents that the skill is for; empty for all.
    pub agents: Vec<SmolStr>,
    /// The tags, which help to find the skill.
    pub tags: Vec<String>,
    /// The file that the skill was read from.
    pub file: Option<PathBuf>,
    source_text: Option<Arc<SkillTextFn>>,
}

impl SkillInfo {
    pub(crate) fn new(skill: &Skill, owner: &Owner, shadowed_by: Option<&Owner>) -> Self {
        SkillInfo {
            name: skill.name.clone(),
            description: skill.description.clone(),
            owner: owner.clone(),
            shadowed_by: shadowed_by.cloned(),
            exposed: skill.exposed,
            triggers: skill.triggers.clone(),
            agents: skill.agents.clone(),
            tags: skill.tags.clone(),
            file: skill.file.clone(),
            source_text: skill.source_text.clone(),
        }
    }

    /// The skill's text as it was written; `None` if the skill is a function.
    pub fn text(&self) -> Option<Result<String, BoxError>> {
        self.source_text.as_ref().map(|read| read())
    }
}

impl fmt::Debug for SkillInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skill {} of {}", self.name, self.owner)
    }
}

/// A skill with triggers, and the result of matching a task.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkillMatch {
    /// The skill.
    pub skill: SkillInfo,
    /// The triggers that match.
    pub matched: Vec<Trigger>,
    /// True if the skill would be activated: a trigger matches, and the skill is for this agent.
    pub fires: bool,
    /// True if the skill is for the agent.
    pub fits: bool,
}

/// The caller of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillCaller {
    /// A person, with `/name`.
    User,
    /// The model, with `invoke_skill`.
    Agent,
    /// No caller: a trigger matched a person's task.
    Trigger,
}

impl SkillCaller {
    /// The word of the caller in events.
    pub fn as_str(self) -> &'static str {
        match self {
            SkillCaller::User => "user",
            SkillCaller::Agent => "agent",
            SkillCaller::Trigger => "trigger",
        }
    }
}

/// The context of a skill.
#[derive(Clone)]
#[non_exhaustive]
pub struct SkillCx {
    /// The name that the skill was called by.
    pub name: SmolStr,
    /// From a person: the text without bound tokens. From the model: its arguments, or an empty text. From
    /// a trigger: the task.
    pub parsed_text: String,
    /// From the model: its arguments, if it gave any.
    pub args: Option<String>,
    /// The caller of the skill.
    pub source: SkillCaller,
    /// The controls: actions beyond the answer.
    pub controls: Controls,
}

impl SkillCx {
    /// Returns the token that fires when the run is aborted.
    pub fn cancel(&self) -> &CancellationToken {
        self.controls.cx().cancel()
    }
}

/// The greatest size of the list of skills in the description of `invoke_skill`, in bytes.
const LIST_BYTES: usize = 8 * 1024;

/// The tool with which the model calls a skill.
pub struct InvokeSkill {
    pub(crate) spec: ToolSpec,
}

impl InvokeSkill {
    /// Builds the tool from names and descriptions of skills.
    pub(crate) fn new<'a>(
        tool: impl Into<SmolStr>,
        skills: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        InvokeSkill::with_list(tool, &list(skills, LIST_BYTES))
    }

    /// Builds the tool from names, descriptions and ranks of skills. If the list is too long, skills of a
    /// higher rank keep their descriptions longest.
    pub(crate) fn ranked(tool: impl Into<SmolStr>, skills: Vec<(&str, &str, u8)>) -> Self {
        InvokeSkill::with_list(tool, &ranked_list(skills, LIST_BYTES))
    }

    fn with_list(tool: impl Into<SmolStr>, listed: &str) -> Self {
        let description = format!(
            "Calls for a skill: its instructions or content come back as the result and hold for \
             the rest of the conversation. Skills:\n{listed}"
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The skill's name."},
                "args": {"type": "string", "description": "What the skill should know, in words."},
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        InvokeSkill { spec: ToolSpec::new(tool, description, schema) }
    }
}

/// Builds the tool with which a model calls skills. An agent with exposed skills has this tool by itself.
pub fn create_skill_invoke_tool<'a>(
    skills: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> InvokeSkill {
    let skills: Vec<_> = skills.into_iter().collect();
    InvokeSkill::new("invoke_skill", skills.iter().copied())
}

/// Lists names with descriptions in at most `bytes` bytes. Every name comes first; then descriptions are
/// added in order, as far as they fit. Names that do not fit are counted.
pub(crate) fn list<'a>(items: impl Iterator<Item = (&'a str, &'a str)>, bytes: usize) -> String {
    ranked_list(items.map(|(name, description)| (name, description, 0)).collect(), bytes)
}

/// Lists names with descriptions. Items of a higher rank are fitted in first; the order stays.
fn ranked_list(items: Vec<(&str, &str, u8)>, bytes: usize) -> String {
    let mut free_bytes = bytes;
    let mut fits = |length: usize| {
        let fits = length < free_bytes;
        free_bytes -= if fits { length } else { 0 };
        fits
    };
    let mut ranked: Vec<_> = (0..items.len()).collect();
    ranked.sort_by_key(|index| std::cmp::Reverse(items[*index].2));
    ranked.retain(|index| fits(items[*index].0.len() + "- \n".len()));
    let left_out = items.len() - ranked.len();
    let line = |index: usize| {
        let (name, description, _) = items[index];
        let text = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let has_text = !text.is_empty() && fits(text.len() + ": ".len());
        let line = if has_text { format!("- {name}: {text}") } else { format!("- {name}") };
        (index, line)
    };
    let mut lines: Vec<_> = ranked.into_iter().map(line).collect();
    lines.sort();
    let mut lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
    if left_out > 0 {
        lines.push(format!("- and {left_out} more, to be called by name"));
    }
    lines.join("\n")
}
