//! Files that were written for Claude Code: a folder `.claude` or `.agents`, plugins, and the hooks in them.
//! This room asks no person, prints nothing and looks up no home folder. The caller passes folders and trust
//! in.
//!
//! ```text
//! project     reads the folders of a project and of a person        claude/project.rs, installed.rs,
//!    │                                                              settings.rs, plugin.rs, agent_plugin.rs
//! entries     reads hooks leniently, reports unsupported parts      claude/entries.rs, misplaced.rs
//! events      maps each event to its point: one table               claude/events.rs, matcher.rs
//! hook        matches, checks and starts a hook, reads its output   claude/hook.rs, pinned.rs
//! input       builds a hook's input in Claude Code's fields         claude/input.rs, tool_mapping.rs
//! output      interprets exit code and output, event by event       claude/output.rs, prompt_handler.rs
//! ```
//!
//! Hooks run in place, in the session's folder: by `sh -c`, or directly if they have `args`. A failure passes
//! and is reported each time, unless the entry or [`ClaudeFile::on_failure`] says that a failure blocks. If a
//! hook allows a call, the person is not asked where only the mode or the zone would ask. The hook answers no
//! gate, no rule and no kernel gate. A changed input is used only if the owner may rewrite.

pub mod project;
mod installed;
pub mod settings;
pub mod plugin;
mod agent_plugin;
mod entries;
mod misplaced;
mod events;
mod matcher;
mod hook;
mod input;
mod tool_mapping;
mod output;
mod prompt_handler;
pub mod pinned;
#[cfg(test)]
mod tests;

use std::{
    any::Any,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};

pub(crate) use crate::claude::misplaced::explain_misplaced_key;
pub use crate::claude::{
    entries::{drop_repeats, read},
    events::ClaudeEvent,
    misplaced::check,
    pinned::PinnedFolder,
};
use crate::claude::{matcher::Matcher, prompt_handler::PromptHandler};
use crate::command_hook::{
    HookLocation,
    dialect::{CustomDialect, Dialect},
    entry::{CommandHook, CommandLine, OnFailure},
    other_points::other_point,
};
pub use cotter::host::our_tools;
use cotter::{Registry, hooks::points::PointId, permission::rule::Rule};

/// A file that declares hooks, and the properties that all its hooks share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaudeFile {
    /// The path of the file, for diagnostics.
    pub path: PathBuf,
    /// The plugin that the file belongs to.
    pub plugin: Option<PluginPaths>,
    /// The effect of a failure if an entry does not say. An entry may be stricter, never looser.
    pub on_failure: OnFailure,
    /// The folder that is compared with its trusted hash before each start.
    pub pinned: Option<PinnedFolder>,
}

impl ClaudeFile {
    /// A settings file with the default of Claude Code: a failure passes.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        ClaudeFile { path: path.into(), plugin: None, on_failure: OnFailure::Pass, pinned: None }
    }

    /// Returns this file as a file of `plugin`.
    pub fn with_plugin(self, plugin: PluginPaths) -> Self {
        ClaudeFile { plugin: Some(plugin), ..self }
    }

    /// Returns this file with another effect of failures.
    pub fn with_on_failure(self, on_failure: OnFailure) -> Self {
        ClaudeFile { on_failure, ..self }
    }

    /// Returns this file with a folder that is checked before each start.
    pub fn with_pinned(self, pinned: PinnedFolder) -> Self {
        ClaudeFile { pinned: Some(pinned), ..self }
    }
}

/// The folders of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginPaths {
    /// The folder that the plugin is in.
    pub root: PathBuf,
    /// The folder for data that outlives the plugin, if the plugin may store any.
    pub data: Option<PathBuf>,
}

/// The part of an entry that is specific to Claude Code.
#[derive(Clone, Debug)]
pub struct ClaudeEntry {
    event: ClaudeEvent,
    /// Never empty: one of the matchers must match.
    matchers: Vec<Matcher>,
    condition: Option<Rule>,
    handler: ClaudeHandler,
    plugin: Option<PluginPaths>,
    pinned: Option<PinnedFolder>,
    /// True if the model gets the refusal of a hook whose answer is not awaited.
    rewakes: bool,
}

/// True if Claude Code has an event of that name, supported here or not.
pub(crate) fn is_event(name: &str) -> bool {
    crate::claude::events::is_known(name)
}

/// The point at which an event of Claude Code happens here.
pub fn point_of(event: &str) -> Option<PointId> {
    other_point(event)
}

/// A handler that sends the event to a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HttpHandler {
    url: String,
    headers: Vec<(String, String)>,
    /// The variables that may be used in headers.
    variable_names: Vec<String>,
}

/// The kind of handler that an entry asks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClaudeHandler {
    /// The entry's command.
    Command,
    /// A model.
    Prompt(PromptHandler),
    /// A URL.
    Http(HttpHandler),
    /// No handler can be asked, for this reason: the hook fails each time.
    Nothing(String),
}

impl ClaudeEntry {
    /// The entry of a hook that was written for Claude Code; `None` for any other.
    pub fn of(hook: &CommandHook) -> Option<&ClaudeEntry> {
        let Dialect::Custom(entry) = &hook.dialect else { return None };
        let entry: &dyn Any = &**entry;
        entry.downcast_ref()
    }

    /// The URL of an HTTP handler, and the variables whose values it may get.
    pub fn address(&self) -> Option<(&str, &[String])> {
        match &self.handler {
            ClaudeHandler::Http(http) => Some((&http.url, &http.variable_names)),
            _ => None,
        }
    }

    /// The event that the entry is bound to.
    pub fn event(&self) -> ClaudeEvent {
        self.event
    }

    /// The existing files that a command names by absolute paths.
    pub(crate) fn files(&self, command: &CommandLine) -> Vec<PathBuf> {
        let words = self.words(command, Path::new("${CLAUDE_PROJECT_DIR}"));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let parts = words.iter().flat_map(|word| word.split_whitespace());
        let paths = parts
            .map(|part| part.trim_matches(['"', '\'', ';']))
            .filter(|part| part.starts_with('/'));
        paths.map(PathBuf::from).filter(|path| path.is_file()).collect()
    }

    /// The words to execute. Placeholders are replaced in words that no shell reads. In a shell line, a
    /// placeholder is replaced only if its path has no character with a meaning in a shell; otherwise the
    /// shell reads the variable.
    fn words(&self, command: &CommandLine, project: &Path) -> Vec<OsString> {
        let plugin = self.plugin.as_ref();
        let paths = [
            ("${CLAUDE_PROJECT_DIR}", Some(project)),
            ("${CLAUDE_PLUGIN_ROOT}", plugin.map(|plugin| plugin.root.as_path())),
            ("${CLAUDE_PLUGIN_DATA}", plugin.and_then(|plugin| plugin.data.as_deref())),
        ];
        let paths = paths.into_iter().filter_map(|(name, path)| Some((name, path?.to_str()?)));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,".contains(c);
        let filled = |text: &str, for_shell: bool| {
            let paths = paths.clone().filter(|(_, path)| !for_shell || path.chars().all(is_plain));
            paths.fold(text.to_owned(), |text, (name, path)| text.replace(name, path))
        };
        match command {
            CommandLine::Shell(line) => CommandLine::Shell(filled(line, true)).words(),
            CommandLine::Words(words) => {
                // A shell also reads `bash -c LINE`.
                let for_shell = words.len() == 3 && words[0] == "bash" && words[1] == "-c";
                words.iter().map(|word| filled(word, for_shell).into()).collect()
            }
        }
    }
}

impl CustomDialect for ClaudeEntry {
    fn register(self: Arc<Self>, hook: &CommandHook, unit: &mut Registry, base: &HookLocation) {
        hook::register(hook, &self, unit, base);
    }

    fn definition(&self, command: &CommandLine) -> String {
        let ClaudeEntry { event, matchers, condition, handler, plugin, pinned, rewakes } = self;
        let root = plugin.as_ref().map(|plugin| &plugin.root);
        let condition = condition.as_ref().map(Rule::text);
        format!(
            " at {event:?} for {matchers:?} if {condition:?} by {handler:?} of {root:?} in {pinned:?}, \
             rewakes {rewakes}, by {:?}",
            self.files(command)
        )
    }

    fn identity(&self) -> Value {
        let ClaudeEntry { event, matchers, handler, plugin, .. } = self;
        let mut matchers: Vec<_> = matchers.iter().map(Matcher::text).collect();
        matchers.sort();
        let handler = match handler {
            ClaudeHandler::Command => Value::Null,
            ClaudeHandler::Prompt(prompt) => json!(["prompt", prompt.text]),
            ClaudeHandler::Http(http) => json!(["http", http.url, http.headers]),
            ClaudeHandler::Nothing(why) => json!(["nobody", why]),
        };
        let plugin = plugin.as_ref().map(|plugin| plugin.root.to_string_lossy());
        json!([event.name(), matchers, self.rule(), handler, plugin])
    }

    fn event_name(&self) -> &'static str {
        self.event.name()
    }

    fn is_equal(&self, other: &dyn CustomDialect) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref().is_some_and(|other: &ClaudeEntry| self == other)
    }
}

impl ClaudeEntry {
    /// True if `other` does the same at the same event, whatever its matchers are. Entries with different
    /// pinned folders differ, because each folder is trusted separately.
    fn is_same_action(&self, other: &Self) -> bool {
        self.event == other.event
            && self.handler == other.handler
            && self.rule() == other.rule()
            && (&self.plugin, &self.pinned) == (&other.plugin, &other.pinned)
            && self.rewakes == other.rewakes
    }

    fn rule(&self) -> Option<&str> {
        self.condition.as_ref().map(Rule::text)
    }
}

impl PartialEq for ClaudeEntry {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_action(other) && self.matchers == other.matchers
    }
}

impl Eq for ClaudeEntry {}
