//! Files that were written for Claude Code: a folder `.claude` or `.agents`, plugins, and the hooks in them.
//! Nothing here asks a person, prints or looks for a home folder; a caller passes folders and trust in.
//!
//! ```text
//! project     what a project's and a person's folders bring       claude/project.rs, installed.rs,
//!    │                                                            settings.rs, plugin.rs, agent_plugin.rs
//! entries     hooks, leniently; what is not honoured is told      claude/entries.rs, misplaced.rs
//! events      where each event happens here: one table            claude/events.rs, matcher.rs
//! hook        matched, checked, started, heard                    claude/hook.rs, pinned.rs
//! input       what a hook reads: fields, names, inputs of theirs  claude/input.rs, tool_mapping.rs
//! output      what exit code and output mean, event by event      claude/output.rs, prompt_handler.rs
//! ```
//!
//! Hooks run in place, in the session's folder, by `sh -c` or as they are where they have `args`. A failure
//! passes and is told each time, unless the entry or [`ClaudeFile::on_failure`] says that it blocks. What a
//! hook allows nobody is asked about, where nothing but mode or zone would ask: no gate, no rule and no
//! kernel gate is answered by it. Another input is taken where the owner may rewrite.

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

pub(crate) use crate::claude::misplaced::stray;
pub use crate::claude::{
    entries::{read, without_repeats},
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

/// A file that declares hooks, and what holds for all of them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaudeFile {
    /// The file, for what is said about it.
    pub path: PathBuf,
    /// The plugin it is of.
    pub plugin: Option<PluginPaths>,
    /// What a failure amounts to where an entry says nothing. An entry may be stricter, never looser.
    pub on_failure: OnFailure,
    /// The folder that is looked at before each start.
    pub pinned: Option<PinnedFolder>,
}

impl ClaudeFile {
    /// A settings file whose hooks are as published: a failure passes.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        ClaudeFile { path: path.into(), plugin: None, on_failure: OnFailure::Pass, pinned: None }
    }

    /// The same of a plugin.
    pub fn with_plugin(self, plugin: PluginPaths) -> Self {
        ClaudeFile { plugin: Some(plugin), ..self }
    }

    /// The same with another word on failures.
    pub fn with_on_failure(self, on_failure: OnFailure) -> Self {
        ClaudeFile { on_failure, ..self }
    }

    /// The same, each start after a look at the folder.
    pub fn with_pinned(self, pinned: PinnedFolder) -> Self {
        ClaudeFile { pinned: Some(pinned), ..self }
    }
}

/// The folders of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginPaths {
    /// Where it lies.
    pub root: PathBuf,
    /// Where it keeps what outlives it, if it may keep anything.
    pub data: Option<PathBuf>,
}

/// What an entry says beyond what every command hook has.
#[derive(Clone, Debug)]
pub struct ClaudeEntry {
    event: ClaudeEvent,
    /// Never empty: one of them must match.
    matchers: Vec<Matcher>,
    condition: Option<Rule>,
    handler: ClaudeHandler,
    plugin: Option<PluginPaths>,
    pinned: Option<PinnedFolder>,
    /// Whether its refusal is told to the model when nobody waited for it.
    rewakes: bool,
}

/// Whether Claude Code knows an event of that name, whatever becomes of it here.
pub(crate) fn is_event(name: &str) -> bool {
    crate::claude::events::is_known(name)
}

/// The point that an event of Claude Code is at here.
pub fn point_of(event: &str) -> Option<PointId> {
    other_point(event)
}

/// An address that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HttpHandler {
    url: String,
    headers: Vec<(String, String)>,
    /// The variables that headers may have in them.
    named: Vec<String>,
}

/// Who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClaudeHandler {
    /// The command.
    Command,
    /// A model.
    Prompt(PromptHandler),
    /// An address.
    Http(HttpHandler),
    /// Nobody can be, for this reason: it fails each time.
    Nothing(String),
}

impl ClaudeEntry {
    /// The entry of a hook that was written for Claude Code; `None` for any other.
    pub fn of(hook: &CommandHook) -> Option<&ClaudeEntry> {
        let Dialect::Custom(entry) = &hook.dialect else { return None };
        let entry: &dyn Any = &**entry;
        entry.downcast_ref()
    }

    /// The address that is asked, where it is one, and the variables it is told.
    pub fn address(&self) -> Option<(&str, &[String])> {
        match &self.handler {
            ClaudeHandler::Http(http) => Some((&http.url, &http.named)),
            _ => None,
        }
    }

    /// The event it is bound to.
    pub fn event(&self) -> ClaudeEvent {
        self.event
    }

    /// The files that a command names by whole paths, and that are there now.
    pub(crate) fn files(&self, command: &CommandLine) -> Vec<PathBuf> {
        let words = self.words(command, Path::new("${CLAUDE_PROJECT_DIR}"));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let parts = words.iter().flat_map(|word| word.split_whitespace());
        let paths = parts
            .map(|part| part.trim_matches(['"', '\'', ';']))
            .filter(|part| part.starts_with('/'));
        paths.map(PathBuf::from).filter(|path| path.is_file()).collect()
    }

    /// What is executed. Placeholders are filled in where no shell looks at them, and for a shell where the
    /// path means nothing but itself there; otherwise the shell finds the variable.
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
                // `bash -c LINE` is a shell's as well.
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
        let asked = match handler {
            ClaudeHandler::Command => Value::Null,
            ClaudeHandler::Prompt(prompt) => json!(["prompt", prompt.text]),
            ClaudeHandler::Http(http) => json!(["http", http.url, http.headers]),
            ClaudeHandler::Nothing(why) => json!(["nobody", why]),
        };
        let plugin = plugin.as_ref().map(|plugin| plugin.root.to_string_lossy());
        json!([event.name(), matchers, self.rule(), asked, plugin])
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
    /// Whether another does the same at the same event, for whatever it matches. What is trusted by itself is
    /// another thing.
    fn does_as(&self, other: &Self) -> bool {
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
        self.does_as(other) && self.matchers == other.matchers
    }
}

impl Eq for ClaudeEntry {}
