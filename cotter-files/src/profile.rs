//! Profiles: an agent as a folder with an `agent.json`, which can be shared. The file declares the prompt of
//! the agent, its tools, and actions at moments of its run.
//!
//! ```text
//! read       agent.json ─► Profile; every error with its location       profile/read.rs
//!   │
//! Action     log ─ webhook ─ save_json ─ approve ─ command             profile/action.rs
//!   │
//! ActionHost posts, saves lines, starts commands: the caller provides it
//!   │
//! Registry   gates and observers, as `profile:NAME`; never a transform, never an allow rule
//! ```
//!
//! A profile may observe, ask and deny. It cannot loosen anything or change the input of a tool: the origin
//! of its registrations has no such right.

pub mod read;
mod action;
mod event_line;
mod run_files;
#[cfg(test)]
mod tests;

use std::{fmt, future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use smol_str::SmolStr;

pub use crate::profile::read::MOMENTS;
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

/// The contents of an `agent.json`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// The name of the profile.
    pub name: SmolStr,
    /// The purpose of the profile.
    pub description: String,
    /// The model, as `provider/model`. The caller checks that the person has configured it.
    pub model: Option<SourcedText>,
    /// The system prompt.
    pub system_prompt: Option<String>,
    /// The tools it may call, as globs over names; empty for all.
    pub tools: Vec<String>,
    /// The skills it may use, by name; empty for all.
    pub skills: Vec<SmolStr>,
    /// The mode of the agent, for hooks and texts.
    pub mode: Option<SmolStr>,
    /// The maximum number of requests of a run.
    pub max_turns: Option<u32>,
    /// Rules that ask or deny, guards, and a mode and level, which are checked by [`Profile::check_tightens`].
    pub permissions: Permissions,
    /// The actions at moments of a run.
    pub actions: Vec<Action>,
    /// The locations of `mode` and `level` in the file.
    setting_locations: [Option<SourceLocation>; 2],
}

/// An action at a moment of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Action {
    /// The name of the hook: `onToolCall.approve`.
    pub name: SmolStr,
    /// The point of the moment.
    pub point: PointId,
    /// The tools that the action is about, as globs over our names; `None` for all.
    pub tools: Option<Vec<String>>,
    /// The location of its `tools` in the file, or else of the action.
    pub location: SourceLocation,
    /// The time limit; `None` for the limit of its point.
    pub limit: Option<Duration>,
    /// The kind of action.
    pub kind: ActionKind,
}

impl Action {
    /// True if the action can refuse a call.
    pub fn is_gate(&self) -> bool {
        match self.kind {
            ActionKind::Approve => true,
            ActionKind::Command(_) => self.point == PointId::ToolPre,
            ActionKind::Log(_) | ActionKind::Webhook(_) | ActionKind::SaveJson(_) => false,
        }
    }
}

/// The kind of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActionKind {
    /// Reports names and sizes, no contents.
    Log(LogLevel),
    /// Posts the event to an https URL.
    Webhook(SourcedText),
    /// Appends the event as a line to a file below `runs/`.
    SaveJson(PathBuf),
    /// Asks a person before a tool runs.
    Approve,
    /// Starts a program: a gate before a tool runs, an observer at other points.
    Command(CommandLine),
}

/// The level of a log action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogLevel {
    /// Only added to the hook's record.
    Debug,
    /// Shown to the person.
    #[default]
    Info,
    /// Shown as a warning.
    Warn,
    /// Shown as an error.
    Error,
}

impl LogLevel {
    /// The words in a file, with their levels.
    pub const WORDS: &[(&str, LogLevel)] = &[
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("warn", LogLevel::Warn),
        ("error", LogLevel::Error),
    ];
}

/// The permissions that the operator of the machine grants to profiles.
#[derive(Clone, Copy)]
pub struct ProfileGrants<'a> {
    /// True if profiles may start programs.
    pub commands: bool,
    /// The poster that decides which URLs are allowed; `None` if nothing will be posted.
    pub posts: Option<&'a dyn WebhookPoster>,
}

impl ProfileGrants<'_> {
    /// Grants everything, for a caller that inspects a file and runs nothing.
    pub fn for_inspection() -> Self {
        ProfileGrants { commands: true, posts: None }
    }
}

/// Posts events. The library itself connects to nothing.
pub trait WebhookPoster: Send + Sync + 'static {
    /// Checks whether a URL may be posted to, as far as the URL itself shows. An error gives the reason, and
    /// the profile is not loaded.
    fn admits(&self, url: &str) -> Result<(), String>;

    /// Posts JSON to a URL. Dropping the future cancels the post. An error is reported and changes nothing.
    fn post(&self, url: &str, body: Arc<[u8]>) -> PostFuture;
}

/// A post in progress.
pub type PostFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// The host that performs the actions of a profile.
#[derive(Clone)]
pub struct ActionHost {
    /// The profile's folder, without links: `runs/` is below it.
    pub folder: PathBuf,
    /// The location for its commands, and the starter of processes.
    pub commands: HookLocation,
    /// The poster for webhooks.
    pub posts: Arc<dyn WebhookPoster>,
    /// Redacts secrets in posted and saved lines.
    pub redactor: Arc<Redactor>,
}

impl Profile {
    /// The owner of the profile's registrations; `unit` names the source of the profile.
    pub fn owner(&self, unit: impl Into<SmolStr>) -> Owner {
        Owner::new(Origin::Profile(self.name.clone()), unit)
    }

    /// Applies the profile to the configuration of an agent.
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

    /// Checks that its mode and level are no looser than those of `policy`.
    pub fn check_tightens(&self, policy: &Policy) -> Result<(), SettingsError> {
        let Permissions { mode, level, .. } = &self.permissions;
        let is_looser = [
            ("mode", mode.is_some_and(|mode: Mode| mode < policy.mode())),
            ("level", level.is_some_and(|level: Level| level < policy.level())),
        ];
        for ((name, is_looser), location) in is_looser.into_iter().zip(&self.setting_locations) {
            if let (true, Some(location)) = (is_looser, location) {
                let message = format!("the {name} of the profile is looser than yours");
                return Err(location.error(message).with_hint(crate::profile::read::TIGHTEN_HINT));
            }
        }
        Ok(())
    }

    /// Registers its rules and actions.
    pub fn register(&self, unit: &mut Registry, host: &ActionHost) {
        let Permissions { mode, level, ask, deny, policies, .. } = &self.permissions;
        for (kind, rules) in [(RuleKind::Ask, ask), (RuleKind::Deny, deny)] {
            // Invalid rules were refused when the file was read.
            let rules = rules.iter().filter_map(|rule| Rule::parse(kind, &rule.text).ok());
            rules.for_each(|rule| _ = unit.rule(rule));
        }
        mode.iter().for_each(|mode| _ = unit.mode(*mode));
        level.iter().for_each(|level| _ = unit.level(*level));
        policies.iter().for_each(|guard| _ = unit.guard(guard.clone()));
        self.actions.iter().for_each(|action| action.register(&self.name, unit, host));
    }
}

impl fmt::Debug for ProfileGrants<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileGrants").field("commands", &self.commands).finish_non_exhaustive()
    }
}
