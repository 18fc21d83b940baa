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

use std::{future::Future, sync::Arc};

use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

use crate::{
    controls::Controls,
    cx::{Cx, Place},
    directives::format_skill_message,
    events::EventKind,
    ext::{BoxError, Callable, Called, Failure, Kind, failed},
    face::Face,
    message::{Content, Mark, Part, UserMessage},
    notes::Speaker,
    permission::Zone,
    scene::Scene,
    session::wire,
    text,
    tool::{ErrorKind, Facts, Output, Permit, Tool, ToolError, ToolSpec, Working},
};

/// A skill: a name, and a function that gives its text.
///
/// It is called each time its name is, in the order of the names in the text; its failure ends the
/// turn and nothing of the turn is stored.
pub struct Skill {
    pub(crate) name: SmolStr,
    pub(crate) description: String,
    pub(crate) exposed: bool,
    function: Callable<SkillCx, Content>,
}

impl Skill {
    /// A skill of that name.
    pub fn new<F, Fut>(name: impl Into<SmolStr>, function: F) -> Self
    where
        F: Fn(SkillCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Content, BoxError>> + Send + 'static,
    {
        let function =
            Callable::new(function, |done: Result<Content, BoxError>| done.map_err(failed));
        Skill { name: name.into(), description: String::new(), exposed: false, function }
    }

    /// A skill that always says the same.
    pub fn text(name: impl Into<SmolStr>, text: impl Into<String>) -> Self {
        let text = text.into();
        Skill::new(name, move |_| std::future::ready(Ok(Content::Text(text.clone()))))
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
}

/// Who called for a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A person, with `/name`.
    User,
    /// The model, with `invoke_skill`.
    Agent,
}

impl Source {
    /// The source's word in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::User => "user",
            Source::Agent => "agent",
        }
    }
}

/// What a skill is told.
#[derive(Clone)]
#[non_exhaustive]
pub struct SkillCx {
    /// The name it was called by.
    pub name: SmolStr,
    /// From a person: the text without bound tokens. From the model: its arguments, or nothing.
    pub parsed_text: String,
    /// From the model: its arguments, where it gave any.
    pub args: Option<String>,
    /// Who called for it.
    pub source: Source,
    /// What it can do beyond its answer.
    pub controls: Controls,
}

impl SkillCx {
    /// Fires when the run is aborted.
    pub fn cancel(&self) -> &CancellationToken {
        self.controls.cx().cancel()
    }
}

impl Face {
    /// The skill of that name, where this agent may use it.
    pub(crate) fn skill(&self, name: &str) -> Option<&Arc<Skill>> {
        match self.find(Kind::Skill, name)? {
            Called::Skill(skill) => Some(skill),
            _ => None,
        }
    }

    /// The skills this agent's model may call for.
    pub(crate) fn exposed_skills(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.in_force(Kind::Skill).filter_map(|called| match called {
            Called::Skill(skill) if skill.exposed => Some(skill),
            _ => None,
        })
    }
}

/// A person's skill, as the message that goes before theirs.
pub(crate) async fn materialise(
    scene: &Scene,
    name: &str,
    parsed_text: &str,
) -> Option<Result<UserMessage, Failure>> {
    let skill = scene.face.skill(name)?.clone();
    let content = bring(&skill, scene, parsed_text.to_owned(), None, Source::User).await;
    Some(content.map(|content| injection(name, content)))
}

/// A skill's text as a message before the person's own. It cannot pose as a note.
fn injection(name: &str, content: Content) -> UserMessage {
    let told = |text: &str| {
        crate::notes::escape(&format_skill_message(name, &text::cut(text, INJECTED_BYTES)))
    };
    let content = match content {
        Content::Text(text) => Content::Text(told(&text)),
        Content::Parts(parts) => {
            let text = told(&Content::Parts(parts.clone()).text());
            let others = parts.into_iter().filter(|part| part.as_text().is_none());
            Content::Parts(std::iter::once(Part::Text(text)).chain(others).collect())
        }
    };
    UserMessage::marked(content, Mark::SkillInjection)
}

async fn bring(
    skill: &Arc<Skill>,
    scene: &Scene,
    parsed_text: String,
    args: Option<String>,
    source: Source,
) -> Result<Content, Failure> {
    let owner = scene.face.owner_of(Kind::Skill, &skill.name);
    let cx = scene.cx.spoken_by(Speaker::called("skill", &skill.name, owner));
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
        skills: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Self {
        let listed = list(skills.clone(), LIST_BYTES);
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
    let mut room = bytes;
    let mut fits = |length: usize| {
        let fits = length < room;
        room -= if fits { length } else { 0 };
        fits
    };
    let all: Vec<_> = things.collect();
    let named: Vec<_> = all.iter().filter(|(name, _)| fits(name.len() + "- \n".len())).collect();
    let left_out = all.len() - named.len();
    let line = |(name, description): &(&str, &str)| {
        let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let described = !words.is_empty() && fits(words.len() + ": ".len());
        if described { format!("- {name}: {words}") } else { format!("- {name}") }
    };
    let mut lines: Vec<_> = named.into_iter().map(line).collect();
    if left_out > 0 {
        lines.push(format!("- and {left_out} more, to be called by name"));
    }
    lines.join("\n")
}

impl Tool for InvokeSkill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &Place) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run(&self, permit: Permit) -> Working<'_> {
        Box::pin(async move {
            let input = permit.input();
            let (name, args) = (input["name"].as_str().unwrap_or_default(), input["args"].as_str());
            invoke(permit.cx(), name, args).await
        })
    }
}

async fn invoke(cx: &Cx, name: &str, args: Option<&str>) -> Result<Output, ToolError> {
    let scene = Scene::of(cx);
    let Some(skill) = scene.face.skill(name).filter(|skill| skill.exposed).cloned() else {
        let known = scene.face.exposed_skills().map(|skill| skill.name.as_str());
        return Err(unavailable("Skill", name, "is not available", known));
    };
    let args = args.map(str::to_owned);
    let parsed_text = args.clone().unwrap_or_default();
    match bring(&skill, &scene, parsed_text, args, Source::Agent).await {
        Ok(content) => Ok(shaped("skill", &skill.name, content)),
        Err(failure) => Err(failure_of(&failure)),
    }
}

/// What the model is told of a skill or subagent that failed.
pub(crate) fn failure_of(failure: &Failure) -> ToolError {
    match failure {
        Failure::Cancelled => ToolError::new(ErrorKind::Cancelled, "Cancelled while it ran."),
        failure => unshaped(&failure.to_string(), ErrorKind::Failed),
    }
}

/// `{status:"success", data:{skill, content}}`: the text for the model, the parts for renderers.
pub(crate) fn shaped(what: &str, name: &str, content: Content) -> Output {
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
    Output { content: Content::Text(data.to_string()), render_data }
}

/// `{status:"error", message, data:null}`.
pub(crate) fn unshaped(message: &str, kind: ErrorKind) -> ToolError {
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
    unshaped(&format!("{what} \"{name}\" {how}. Use one of: {known}."), ErrorKind::NotFound)
}
