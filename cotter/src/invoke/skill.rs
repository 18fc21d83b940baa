//! Skills: text brought into the context, by `/name` or by the model's own call.
//!
//! Called by a person, a skill's text becomes a message before theirs, marked `is_skill_injection`.
//! An exposed skill can also be called by the model, through the one tool `invoke_skill`, whose
//! description lists what there is. After a compaction the texts of skills that were summed up are
//! attached to the summary.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Skill};
//! use cotter_test::{Recording, Scripted, Step};
//!
//! let model = Recording::new(Scripted::new([Step::text("Rust is a language.")]));
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

/// A skill: a name, and a function that gives its text.
///
/// It is called each time its name is, in the order of the names in the text; its failure ends the
/// turn and nothing of the turn is stored.
pub struct Skill {
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    pub(crate) exposed: bool,
    /// What brings it in by itself: any of these.
    pub(crate) triggers: Vec<Trigger>,
    /// The agents it is for; none named, all of them.
    pub(crate) agents: Vec<SmolStr>,
    pub(crate) tags: Vec<String>,
    /// The file it was read from.
    pub(crate) file: Option<PathBuf>,
    pub(crate) function: Callable<SkillCx, Content>,
    written: Option<Arc<SkillTextFn>>,
}

/// The text of a skill as it was written, before anything is filled in.
type SkillTextFn = dyn Fn() -> Result<String, BoxError> + Send + Sync;

impl Skill {
    /// A skill of that name.
    pub fn new<F, Fut>(name: impl Into<SmolStr>, function: F) -> Self
    where
        F: Fn(SkillCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Content, BoxError>> + Send + 'static,
    {
        let function =
            Callable::new(function, |done: Result<Content, BoxError>| done.map_err(failed));
        Skill {
            name: name.into(),
            description: String::new(),
            exposed: false,
            triggers: vec![],
            agents: vec![],
            tags: vec![],
            file: None,
            function,
            written: None,
        }
    }

    /// A skill that always says the same.
    pub fn text(name: impl Into<SmolStr>, text: impl Into<String>) -> Self {
        let text = text.into();
        let written = text.clone();
        Skill::new(name, move |_| std::future::ready(Ok(Content::Text(text.clone()))))
            .written(move || Ok(written.clone()))
    }

    /// What it is for: what the model reads before it calls for it.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Lets the model call for it, through `invoke_skill`.
    pub fn expose_to_agent(mut self) -> Self {
        self.exposed = true;
        self
    }

    /// Brings it in by itself when any of these matches a person's task: once per session.
    pub fn triggers(mut self, triggers: impl IntoIterator<Item = Trigger>) -> Self {
        self.triggers.extend(triggers);
        self
    }

    /// Limits its triggers to agents of these ids; case does not count. None named: all of them.
    pub fn agents<S: Into<SmolStr>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
        self.agents.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Words to find it by in lists.
    pub fn tags<S: Into<String>>(mut self, tags: impl IntoIterator<Item = S>) -> Self {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// The file it was read from, for lists.
    pub fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Its text as it was written, for whoever looks at it without calling for it.
    pub fn written(
        mut self,
        written: impl Fn() -> Result<String, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.written = Some(Arc::new(written));
        self
    }

    /// Whether it is for the agent of that id.
    pub(crate) fn is_for(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|id| id.eq_ignore_ascii_case(agent))
    }
}

/// A skill, as lists show it.
#[derive(Clone)]
#[non_exhaustive]
pub struct SkillInfo {
    /// Its name.
    pub name: SmolStr,
    /// What it is for.
    pub description: String,
    /// Who registered it.
    pub owner: Owner,
    /// Who has the same name and is found instead.
    pub shadowed_by: Option<Owner>,
    /// Whether the model may call for it.
    pub exposed: bool,
    /// What brings it in by itself.
    pub triggers: Vec<Trigger>,
    /// The agents it is for; none named, all of them.
    pub agents: Vec<SmolStr>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    written: Option<Arc<SkillTextFn>>,
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
            written: skill.written.clone(),
        }
    }

    /// Its text as it was written; `None` for one that is a function.
    pub fn text(&self) -> Option<Result<String, BoxError>> {
        self.written.as_ref().map(|written| written())
    }
}

impl fmt::Debug for SkillInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skill {} of {}", self.name, self.owner)
    }
}

/// A skill with triggers, and what a task does to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkillMatch {
    /// The skill.
    pub skill: SkillInfo,
    /// Those of its triggers that match.
    pub matched: Vec<Trigger>,
    /// Whether it would be brought in: something matches, and it is for this agent.
    pub fires: bool,
    /// Whether it is for the agent.
    pub fits: bool,
}

/// Who called for a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillCaller {
    /// A person, with `/name`.
    User,
    /// The model, with `invoke_skill`.
    Agent,
    /// Nobody: one of its triggers matched a person's task.
    Trigger,
}

impl SkillCaller {
    /// The source's word in events.
    pub fn as_str(self) -> &'static str {
        match self {
            SkillCaller::User => "user",
            SkillCaller::Agent => "agent",
            SkillCaller::Trigger => "trigger",
        }
    }
}

/// What a skill is told.
#[derive(Clone)]
#[non_exhaustive]
pub struct SkillCx {
    /// The name it was called by.
    pub name: SmolStr,
    /// From a person: the text without bound tokens. From the model: its arguments, or nothing. Where a
    /// trigger matched: the task.
    pub parsed_text: String,
    /// From the model: its arguments, where it gave any.
    pub args: Option<String>,
    /// Who called for it.
    pub source: SkillCaller,
    /// What it can do beyond its answer.
    pub controls: Controls,
}

impl SkillCx {
    /// Fires when the run is aborted.
    pub fn cancel(&self) -> &CancellationToken {
        self.controls.cx().cancel()
    }
}

/// The most bytes the list of skills takes in the description of `invoke_skill`.
const LIST_BYTES: usize = 8 * 1024;

/// The tool by which the model calls for a skill.
pub struct InvokeSkill {
    pub(crate) spec: ToolSpec,
}

impl InvokeSkill {
    /// The tool of that name for skills given as name and description.
    pub(crate) fn new<'a>(
        tool: impl Into<SmolStr>,
        skills: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        InvokeSkill::listing(tool, &list(skills, LIST_BYTES))
    }

    /// The tool of that name for skills given as name, description and rank. Where the list has too
    /// little room, those of a higher rank keep their words longest.
    pub(crate) fn ranked(tool: impl Into<SmolStr>, skills: Vec<(&str, &str, u8)>) -> Self {
        InvokeSkill::listing(tool, &ranked_list(skills, LIST_BYTES))
    }

    fn listing(tool: impl Into<SmolStr>, listed: &str) -> Self {
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

/// The tool by which a model calls for skills: what an agent with exposed skills has by itself.
pub fn create_skill_invoke_tool<'a>(
    skills: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> InvokeSkill {
    let skills: Vec<_> = skills.into_iter().collect();
    InvokeSkill::new("invoke_skill", skills.iter().copied())
}

/// Names with descriptions, within a budget: every name first, then the descriptions that still fit,
/// in order. Names that do not fit are counted.
pub(crate) fn list<'a>(things: impl Iterator<Item = (&'a str, &'a str)>, bytes: usize) -> String {
    ranked_list(things.map(|(name, description)| (name, description, 0)).collect(), bytes)
}

/// Names with descriptions, where those of a higher rank are fitted in first. The order stays.
fn ranked_list(all: Vec<(&str, &str, u8)>, bytes: usize) -> String {
    let mut room = bytes;
    let mut fits = |length: usize| {
        let fits = length < room;
        room -= if fits { length } else { 0 };
        fits
    };
    let mut ranked: Vec<_> = (0..all.len()).collect();
    ranked.sort_by_key(|at| std::cmp::Reverse(all[*at].2));
    ranked.retain(|at| fits(all[*at].0.len() + "- \n".len()));
    let left_out = all.len() - ranked.len();
    let line = |at: usize| {
        let (name, description, _) = all[at];
        let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let described = !words.is_empty() && fits(words.len() + ": ".len());
        let line = if described { format!("- {name}: {words}") } else { format!("- {name}") };
        (at, line)
    };
    let mut lines: Vec<_> = ranked.into_iter().map(line).collect();
    lines.sort();
    let mut lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
    if left_out > 0 {
        lines.push(format!("- and {left_out} more, to be called by name"));
    }
    lines.join("\n")
}
