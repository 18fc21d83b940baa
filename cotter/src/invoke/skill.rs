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

use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

pub use crate::invoke::trigger::{MatchScope, Trigger, TriggerError, TriggerKind};
use crate::{
    agent::{Agent, controls::Controls, cx::Cx, step_cx::StepCx, view::AgentView},
    fs::workspace::Workspace,
    history::{
        line_format as wire,
        message::{Content, ContentPart, UserMessage, UserMessageKind},
        outcome::ToolErrorKind,
    },
    hooks::{events::EventKind, handler::HandlerFailure, notes::NoteAuthor},
    invoke::{
        callable::{BoxError, Callable, failed},
        directives::format_skill_message,
        named_item::{NameKind, NamedItem, nearness},
    },
    model::tools::{ToolError, ToolOutput, ToolSpec},
    permission::{Zone, facts::Facts, origin::Owner},
    text,
    tool::{Tool, ToolFuture, permit::Permit},
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
    function: Callable<SkillCx, Content>,
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
    fn is_for(&self, agent: &str) -> bool {
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
    fn new(skill: &Skill, owner: &Owner, shadowed_by: Option<&Owner>) -> Self {
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

/// The skills of an agent: what a manager of skills does, on the one registry.
impl Agent {
    /// Every skill, in the order of registration, also the shadowed.
    pub fn skills(&self) -> Vec<SkillInfo> {
        let generation = self.generation();
        let all = generation.names.every().filter_map(|(owner, called)| match called {
            NamedItem::Skill(skill) => {
                let found = generation.names.find(NameKind::Skill, &skill.name);
                let by = found.map(|(found, _)| found).filter(|found| !found.is(owner));
                Some(SkillInfo::new(skill, owner, by))
            }
            _ => None,
        });
        all.collect()
    }

    /// The skill that a name stands for.
    pub fn skill(&self, name: &str) -> Option<SkillInfo> {
        match self.generation().names.find(NameKind::Skill, name)? {
            (owner, NamedItem::Skill(skill)) => Some(SkillInfo::new(skill, owner, None)),
            _ => None,
        }
    }

    /// What a task would do to every skill that has triggers and is not shadowed. Nothing is brought in.
    pub fn match_skills(&self, task: &str) -> Vec<SkillMatch> {
        let face = self.face();
        let matching = face.generation.triggers.matching(task);
        let all = face.generation.names.in_force().filter_map(|(owner, called)| match called {
            NamedItem::Skill(skill) if !skill.triggers.is_empty() => Some((owner, skill)),
            _ => None,
        });
        let told = |(owner, skill): (&Owner, &Arc<Skill>)| {
            let of_it = matching.iter().find(|(other, _)| Arc::ptr_eq(other, skill));
            let matched = of_it.into_iter().flat_map(|(_, triggers)| triggers);
            let matched: Vec<_> = matched.map(|trigger| Trigger::clone(trigger)).collect();
            let fits = skill.is_for(self.id()) && face.skill(&skill.name).is_some();
            let skill = SkillInfo::new(skill, owner, None);
            SkillMatch { fires: fits && !matched.is_empty(), skill, matched, fits }
        };
        all.map(told).collect()
    }
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

impl AgentView {
    /// The skill of that name, where this agent may use it.
    pub(crate) fn skill(&self, name: &str) -> Option<&Arc<Skill>> {
        match self.find(NameKind::Skill, name)? {
            NamedItem::Skill(skill) => Some(skill),
            _ => None,
        }
    }

    /// The skills this agent's model may call for.
    pub(crate) fn exposed_skills(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.in_force(NameKind::Skill).filter_map(|called| match called {
            NamedItem::Skill(skill) if skill.exposed => Some(skill),
            _ => None,
        })
    }

    /// The tool by which the model calls for them. Where the list has too little room, those of the
    /// nearest origin keep their words longest.
    pub(crate) fn invoke_skill(&self, tool: &SmolStr) -> InvokeSkill {
        let ranked = self.exposed_skills().map(|skill| {
            let origin = self.owner_of(NameKind::Skill, &skill.name).origin;
            (skill.name.as_str(), skill.description.as_str(), nearness(&origin))
        });
        InvokeSkill::listing(tool.clone(), &ranked_list(ranked.collect(), LIST_BYTES))
    }
}

/// A person's skill, as the message that goes before theirs.
pub(crate) async fn materialise(
    scene: &StepCx,
    name: &str,
    parsed_text: &str,
) -> Option<Result<UserMessage, HandlerFailure>> {
    let skill = scene.face.skill(name)?.clone();
    let content = bring(&skill, scene, parsed_text.to_owned(), None, SkillCaller::User).await;
    Some(content.map(|content| injection(name, content)))
}

/// A skill's text as a message before the person's own. It cannot pose as a note.
fn injection(name: &str, content: Content) -> UserMessage {
    injection_of(name, content, INJECTED_BYTES)
}

fn injection_of(name: &str, content: Content, most: usize) -> UserMessage {
    let told =
        |text: &str| crate::text::tags::escape(&format_skill_message(name, &text::cut(text, most)));
    let content = match content {
        Content::Text(text) => Content::Text(told(&text)),
        Content::Parts(parts) => {
            let text = told(&Content::Parts(parts.clone()).text());
            let others = parts.into_iter().filter(|part| part.as_text().is_none());
            Content::Parts(std::iter::once(ContentPart::Text(text)).chain(others).collect())
        }
    };
    UserMessage::marked(content, UserMessageKind::SkillInjection)
}

/// The skills that a person's task brings in, besides those they named: each once per session, with the
/// text that is told. One that fails, or for which there is no room, is left out and told to the person.
pub(crate) async fn triggered(
    scene: &StepCx,
    task: &str,
    named: &[SmolStr],
) -> Vec<TriggeredSkill> {
    let set = scene.generation().triggers.clone();
    let matching = set.matching(task);
    if matching.is_empty() {
        return vec![];
    }
    let active = scene.session().active_skills();
    let mut room = TRIGGERED_BYTES.saturating_sub(active.bytes);
    let mut brought = vec![];
    for (skill, _) in matching {
        let name = &skill.name;
        let is_ours = scene.face.skill(name).is_some_and(|ours| Arc::ptr_eq(ours, skill));
        if !is_ours || !skill.is_for(scene.agent().id()) || active.names.contains(name) {
            continue;
        }
        if named.contains(name) {
            brought.push(TriggeredSkill { name: name.clone(), content: None });
            continue;
        }
        match bring(skill, scene, task.to_owned(), None, SkillCaller::Trigger).await {
            Ok(content) => {
                let message = injection_of(name, content, TRIGGERED_EACH);
                let length = message.content.text().len();
                if length > room {
                    scene.cx.notify(&format!("skill \"{name}\" was left out: no room is left"));
                    continue;
                }
                room -= length;
                brought.push(TriggeredSkill { name: name.clone(), content: Some(message) });
            }
            Err(HandlerFailure::Cancelled) => break,
            Err(failure) => scene.cx.notify(&format!("skill \"{name}\" was left out: {failure}")),
        }
    }
    brought
}

/// A skill that a task brought in.
pub(crate) struct TriggeredSkill {
    pub(crate) name: SmolStr,
    /// What is told; nothing where the person named it and it is told anyway.
    pub(crate) content: Option<UserMessage>,
}

async fn bring(
    skill: &Arc<Skill>,
    scene: &StepCx,
    parsed_text: String,
    args: Option<String>,
    source: SkillCaller,
) -> Result<Content, HandlerFailure> {
    let owner = scene.face.owner_of(NameKind::Skill, &skill.name);
    let cx = scene.cx.spoken_by(NoteAuthor::called("skill", &skill.name, owner));
    let controls = cx.controls();
    let name = skill.name.clone();
    let told = SkillCx { name: name.clone(), parsed_text, args, source, controls };
    let content = skill.function.call(told, &scene.cx.run.cancel).await?;
    scene.emit(EventKind::Skill { name, source: source.as_str() });
    Ok(content)
}

/// The most bytes the list of skills takes in the description of `invoke_skill`.
const LIST_BYTES: usize = 8 * 1024;

/// The most bytes of one skill that go before a person's message.
const INJECTED_BYTES: usize = 1024 * 1024;

/// The most bytes of one skill, and of all together, that triggers bring into a session. As much survives
/// a compaction.
const TRIGGERED_EACH: usize = 32 * 1024;
const TRIGGERED_BYTES: usize = 64 * 1024;

/// From how many bytes on a text is kept for renderers besides what the model gets.
const LONG: usize = 16 * 1024;

/// The tool by which the model calls for a skill.
pub struct InvokeSkill {
    spec: ToolSpec,
}

impl InvokeSkill {
    /// The tool of that name for skills given as name and description.
    pub(crate) fn new<'a>(
        tool: impl Into<SmolStr>,
        skills: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        InvokeSkill::listing(tool, &list(skills, LIST_BYTES))
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

/// The same where those of a higher rank are fitted in first. The order of the list stays.
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

impl Tool for InvokeSkill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &Workspace) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move {
            let input = permit.input();
            let (name, args) = (input["name"].as_str().unwrap_or_default(), input["args"].as_str());
            invoke(permit.cx(), name, args).await
        })
    }
}

async fn invoke(cx: &Cx, name: &str, args: Option<&str>) -> Result<ToolOutput, ToolError> {
    let scene = StepCx::of(cx);
    let Some(skill) = scene.face.skill(name).filter(|skill| skill.exposed).cloned() else {
        let known = scene.face.exposed_skills().map(|skill| skill.name.as_str());
        return Err(unavailable("Skill", name, "is not available", known));
    };
    let args = args.map(str::to_owned);
    let parsed_text = args.clone().unwrap_or_default();
    match bring(&skill, &scene, parsed_text, args, SkillCaller::Agent).await {
        Ok(content) => Ok(shaped("skill", &skill.name, content)),
        Err(failure) => Err(failure_of(&failure)),
    }
}

/// What the model is told of a skill or subagent that failed.
pub(crate) fn failure_of(failure: &HandlerFailure) -> ToolError {
    match failure {
        HandlerFailure::Cancelled => {
            ToolError::new(ToolErrorKind::Cancelled, "Cancelled while it ran.")
        }
        failure => unshaped(&failure.to_string(), ToolErrorKind::Failed),
    }
}

/// `{status:"success", data:{skill, content}}`: the text for the model, the parts for renderers.
pub(crate) fn shaped(what: &str, name: &str, content: Content) -> ToolOutput {
    let text = content.text();
    let text = match (&content, text.trim().is_empty()) {
        (_, false) => text.into_owned(),
        (Content::Parts(parts), true) if !parts.is_empty() => format!("[non-text {what} content]"),
        _ => format!("[{what} produced no text content]"),
    };
    let data = json!({"status": "success", "data": {what: name, "content": text}});
    let render_data = match &content {
        // What is long may be cut for the model; a renderer gets all of it.
        Content::Text(text) if text.len() > LONG => {
            Some(json!({what: name, "parts": [{"type": "text", "text": text}]}))
        }
        Content::Text(_) => None,
        Content::Parts(_) => Some(json!({what: name, "parts": wire::content_to_json(&content)})),
    };
    ToolOutput { content: Content::Text(data.to_string()), render_data }
}

/// `{status:"error", message, data:null}`.
pub(crate) fn unshaped(message: &str, kind: ToolErrorKind) -> ToolError {
    let data = json!({"status": "error", "message": message, "data": null});
    ToolError::new(kind, data.to_string())
}

pub(crate) fn unavailable<'a>(
    what: &str,
    name: &str,
    how: &str,
    known: impl Iterator<Item = &'a str>,
) -> ToolError {
    let name = text::clip(&text::show_line(name), 80).into_owned();
    let known = known.collect::<Vec<_>>().join(", ");
    unshaped(&format!("{what} \"{name}\" {how}. Use one of: {known}."), ToolErrorKind::NotFound)
}
