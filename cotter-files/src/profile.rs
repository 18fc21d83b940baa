//! Profiles: an agent as a folder with an `agent.json`, which can be handed on. It says what the agent is
//! told, what it may use, and what happens at moments of its run.
//!
//! ```text
//! read       agent.json ─► Profile; every mistake with its place       profile/read.rs
//!   │
//! Action     log ─ webhook ─ save_json ─ approve ─ command             profile/action.rs
//!   │
//! ActionHost posts, keeps lines, starts commands: the caller's to say
//!   │
//! Registry   gates and observers, as `profile:NAME`; never a transform, never an allow rule
//! ```
//!
//! A profile may watch, ask and forbid. Nothing it says makes anything looser or changes what a tool is
//! given: whatever it registers has an origin that may not.

pub mod read;
mod action;
mod event_line;
mod run_files;
#[cfg(test)]
mod tests;

use std::{fmt, future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use smol_str::SmolStr;

pub use crate::profile::read::BUCKETS;
use crate::{
    command_hook::{HookLocation, entry::CommandLine},
    document::location::{SettingsError, SourceLocation},
    settings::{SourcedText, permissions::Permissions},
};
use cotter::{
    AgentConfig, Origin, Owner, Registry,
    hooks::points::PointId,
    permission::{
        Policy,
        mode::{Level, Mode},
        rule::{Rule, RuleKind},
    },
    text::redact::Redactor,
};

/// What an `agent.json` says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// What it is called by.
    pub name: SmolStr,
    /// What it is for.
    pub description: String,
    /// Who answers, as `provider/model`. It is the caller's to see that the person has set it up.
    pub model: Option<SourcedText>,
    /// What its model is told first.
    pub system_prompt: Option<String>,
    /// The tools it may call, as globs over names; empty for all.
    pub tools: Vec<String>,
    /// The skills it may use, by name; empty for all.
    pub skills: Vec<SmolStr>,
    /// What it is at, for hooks and texts.
    pub mode: Option<SmolStr>,
    /// The most requests of a run.
    pub max_turns: Option<u32>,
    /// Rules that ask or deny, guards, and a mode and level, which are checked by [`Profile::tightens`].
    pub permissions: Permissions,
    /// What happens at moments of a run.
    pub actions: Vec<Action>,
    /// Where mode and level stand.
    stand: [Option<SourceLocation>; 2],
}

/// Something that happens at a moment of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Action {
    /// Its name as a hook: `onToolCall.approve`.
    pub name: SmolStr,
    /// The moment.
    pub point: PointId,
    /// The tools it is about, as globs over names of ours; `None` for all.
    pub tools: Option<Vec<String>>,
    /// Where its tools stand in the file, else the action.
    pub location: SourceLocation,
    /// How long it may take; `None` is what its point allows.
    pub limit: Option<Duration>,
    /// What happens.
    pub does: ActionKind,
}

impl Action {
    /// Whether it can keep a tool from running.
    pub fn is_gate(&self) -> bool {
        match self.does {
            ActionKind::Approve => true,
            ActionKind::Command(_) => self.point == PointId::ToolPre,
            ActionKind::Log(_) | ActionKind::Webhook(_) | ActionKind::SaveJson(_) => false,
        }
    }
}

/// What an action does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActionKind {
    /// Tells names and sizes, nothing of what was said or done.
    Log(LogLevel),
    /// Posts what happened to an https address.
    Webhook(SourcedText),
    /// Adds what happened to a file below `runs/`, as a line.
    SaveJson(PathBuf),
    /// Has a person asked before a tool runs.
    Approve,
    /// Starts a program: a gate before a tool runs, an observer elsewhere.
    Command(CommandLine),
}

/// How loud a log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogLevel {
    /// Kept with the hook's record; nobody is told.
    Debug,
    /// Told to the person.
    #[default]
    Info,
    /// Told as a warning.
    Warn,
    /// Told as an error.
    Error,
}

impl LogLevel {
    /// The words in a file.
    pub const WORDS: &[(&str, LogLevel)] = &[
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("warn", LogLevel::Warn),
        ("error", LogLevel::Error),
    ];
}

/// What the operator of the machine lets profiles do.
#[derive(Clone, Copy)]
pub struct ProfileGrants<'a> {
    /// Whether they may start programs.
    pub commands: bool,
    /// Who says which addresses may be posted to; `None` where nothing will be.
    pub posts: Option<&'a dyn WebhookPoster>,
}

impl ProfileGrants<'_> {
    /// Everything, for whoever looks at a file and runs nothing of it.
    pub fn to_look() -> Self {
        ProfileGrants { commands: true, posts: None }
    }
}

/// Posts what happened. The library connects to nothing by itself.
pub trait WebhookPoster: Send + Sync + 'static {
    /// Whether an address may be posted to, as far as it tells by itself. An error says why not, and the
    /// profile is not loaded.
    fn admits(&self, url: &str) -> Result<(), String>;

    /// Posts JSON to an address. Dropped, it is given up. An error says what went wrong; it is told and
    /// changes nothing.
    fn post(&self, url: &str, body: Arc<[u8]>) -> PostFuture;
}

/// A letter on its way.
pub type PostFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// What the actions of a profile are done with.
#[derive(Clone)]
pub struct ActionHost {
    /// The profile's folder, without links: `runs/` is below it.
    pub folder: PathBuf,
    /// Where its commands run, and who starts them.
    pub commands: HookLocation,
    /// Who posts.
    pub posts: Arc<dyn WebhookPoster>,
    /// Takes secrets out of what is posted and kept.
    pub redactor: Arc<Redactor>,
}

impl Profile {
    /// Who registers what a profile brings: `unit` tells where it is from.
    pub fn owner(&self, unit: impl Into<SmolStr>) -> Owner {
        Owner::new(Origin::Profile(self.name.clone()), unit)
    }

    /// Makes an agent what the profile says it is.
    pub fn configure(&self, config: &mut AgentConfig) {
        config.name = self.name.clone();
        config.description = self.description.clone();
        config.tools = self.tools.clone();
        config.skills = self.skills.clone();
        if let Some(prompt) = &self.system_prompt {
            config.system_prompt = prompt.clone();
        }
        if let Some(mode) = &self.mode {
            config.mode = mode.clone();
        }
    }

    /// Whether its mode and level are no looser than what is in force without it.
    pub fn tightens(&self, policy: &Policy) -> Result<(), SettingsError> {
        let Permissions { mode, level, .. } = &self.permissions;
        let is_looser = [
            ("mode", mode.is_some_and(|mode: Mode| mode < policy.mode())),
            ("level", level.is_some_and(|level: Level| level < policy.level())),
        ];
        for ((what, is_looser), location) in is_looser.into_iter().zip(&self.stand) {
            if let (true, Some(location)) = (is_looser, location) {
                let words = format!("the {what} of the profile is looser than yours");
                return Err(location.error(words).with_hint(crate::profile::read::TIGHTEN));
            }
        }
        Ok(())
    }

    /// Registers its rules and actions.
    pub fn register(&self, unit: &mut Registry, means: &ActionHost) {
        let Permissions { mode, level, ask, deny, policies, .. } = &self.permissions;
        for (kind, rules) in [(RuleKind::Ask, ask), (RuleKind::Deny, deny)] {
            // Those that are none were refused when the file was read.
            let rules = rules.iter().filter_map(|rule| Rule::parse(kind, &rule.text).ok());
            rules.for_each(|rule| _ = unit.rule(rule));
        }
        mode.iter().for_each(|mode| _ = unit.mode(*mode));
        level.iter().for_each(|level| _ = unit.level(*level));
        policies.iter().for_each(|guard| _ = unit.guard(guard.clone()));
        self.actions.iter().for_each(|action| action.register(&self.name, unit, means));
    }
}

impl fmt::Debug for ProfileGrants<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leave").field("commands", &self.commands).finish_non_exhaustive()
    }
}
