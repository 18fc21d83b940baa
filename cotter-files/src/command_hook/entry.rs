//! Entries of command hooks in settings files.

use std::{ffi::OsString, time::Duration};

use smol_str::SmolStr;

use crate::command_hook::{
    dialect::Dialect, names::assign_names, other_points::other_point, parse_point,
};
use crate::document::{Node, location::SettingsError};
use cotter::{
    hooks::{
        external::ExternalHookSpec,
        points::{POINTS, PointId},
    },
    permission::verdict::Power,
    text,
};

/// A hook that is a program, as a file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandHook {
    /// The name: given in the entry, or derived from the program.
    pub name: SmolStr,
    /// The point that the hook is bound to.
    pub point: PointId,
    /// The rest of the declaration, common to all external hooks.
    pub spec: ExternalHookSpec,
    /// The command.
    pub command: CommandLine,
    /// The names of the user's variables that the hook gets, besides the usual ones.
    pub env: Vec<String>,
    /// True if the program is started once and asked line by line.
    pub is_resident: bool,
    /// The effect of a failure.
    pub on_failure: OnFailure,
    /// The dialect of input and output.
    pub dialect: Dialect,
}

/// The command of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// A program and its arguments, executed as they are.
    Words(Vec<String>),
    /// A line with shell syntax, for `sh -c`.
    Shell(String),
}

impl CommandLine {
    /// Parses a line: plain words are executed as they are, a line with shell syntax runs in a shell.
    pub fn parse(line: &str) -> Self {
        const SYNTAX: &[char] = &[
            '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '[', ']', '#',
            '~', '=', '%', '!', '{', '}', '\n',
        ];
        match line.contains(SYNTAX) {
            true => CommandLine::Shell(line.into()),
            false => CommandLine::Words(line.split_whitespace().map(str::to_owned).collect()),
        }
    }

    /// The line, or each word.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        match self {
            CommandLine::Shell(line) => std::slice::from_ref(line),
            CommandLine::Words(words) => words,
        }
        .iter()
        .map(String::as_str)
    }

    /// The words to execute.
    pub fn words(&self) -> Vec<OsString> {
        match self {
            CommandLine::Words(words) => words.iter().map(OsString::from).collect(),
            CommandLine::Shell(line) => ["/bin/sh", "-c", line].map(OsString::from).into(),
        }
    }

    /// Returns the command if it can run: it has a program and no NUL byte.
    pub(crate) fn check_runnable(self) -> Result<Self, &'static str> {
        if self.words().iter().any(|word| word.as_encoded_bytes().contains(&0)) {
            return Err("a command cannot contain a NUL byte");
        }
        match &self {
            CommandLine::Words(words) if words.first().is_none_or(String::is_empty) => {
                Err("the command is empty")
            }
            _ => Ok(self),
        }
    }

    /// The name of the program, as a default name for the hook.
    pub(crate) fn stem(&self) -> Option<SmolStr> {
        let first = match self {
            CommandLine::Words(words) => words.first()?.as_str(),
            CommandLine::Shell(line) => line.split_whitespace().next()?,
        };
        let base = first.rsplit('/').next().unwrap_or(first);
        let stem = base.split('.').next().filter(|stem| !stem.is_empty())?;
        let plain = stem.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        plain.then(|| stem.into())
    }
}

/// The effect of a hook's failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// A failure blocks, like the failure of every gate.
    #[default]
    Block,
    /// A failure passes, and a person is notified.
    Pass,
}

impl OnFailure {
    /// The words in settings files.
    pub const WORDS: &'static [(&'static str, OnFailure)] =
        &[("block", OnFailure::Block), ("pass", OnFailure::Pass)];
}

const KEYS: &[&str] = &[
    "name",
    "description",
    "tools",
    "command",
    "timeoutMs",
    "power",
    "async",
    "serve",
    "env",
    "onFailure",
];

/// The powers that a hook can be limited to.
const POWERS: &[(&str, Power)] = &[("observe", Power::Observe), ("gate", Power::Gate)];

/// The maximum length of a name in characters.
const MAX_NAME: usize = 80;

/// The maximum time limit of a hook in milliseconds.
pub(crate) const MAX_LIMIT_MS: u64 = 60 * 60 * 1000;

impl CommandHook {
    /// Reads a section `hooks`: lists of entries by the name of their point.
    pub fn read_all(node: Node<'_>) -> Result<Vec<Self>, SettingsError> {
        let mut hooks: Vec<CommandHook> = vec![];
        for (name, entries) in node.object()?.members() {
            let point = parse_point(name).ok_or_else(|| unknown_point(name, &entries))?;
            for entry in entries.list()? {
                let hook = CommandHook::read(point, entry)?;
                hooks.push(hook);
            }
        }
        assign_names(&mut hooks);
        Ok(hooks)
    }

    /// Reads one entry.
    pub fn read(point: PointId, node: Node<'_>) -> Result<Self, SettingsError> {
        let object = node.object()?.keys(KEYS)?;
        let command = command(object.require("command")?)?;
        let given = object.get("name").map(name).transpose()?;
        let limit =
            object.get("timeoutMs").map(|node| node.u64_in(1..=MAX_LIMIT_MS)).transpose()?;
        let flag = |key| object.get(key).map(|node| node.bool()).transpose();
        let tools = object.get("tools").map(|node| tools(point, node)).transpose()?;
        let detached = flag("async")?.unwrap_or(false);
        let power = object.get("power").map(|node| power(point, detached, node)).transpose()?;
        let serve = flag("serve")?.unwrap_or(false);
        let description = object.get("description").map(|node| node.string()).transpose()?;
        let env = match object.get("env") {
            Some(node) => node.list()?.map(variable).collect::<Result<_, _>>()?,
            None => vec![],
        };
        let name = given.clone().or_else(|| command.stem()).unwrap_or_else(|| point.name().into());
        let on_failure = object.get("onFailure").map(|node| node.one_of(OnFailure::WORDS));
        Ok(CommandHook {
            name: name.clone(),
            point,
            spec: ExternalHookSpec {
                name: Some(name),
                description: description.unwrap_or_default().into(),
                definition: SmolStr::default(),
                tools,
                limit: limit.map(Duration::from_millis),
                power,
                detached,
            },
            command,
            env,
            is_resident: serve,
            on_failure: on_failure.transpose()?.unwrap_or_default(),
            dialect: Dialect::Cotter,
        })
    }
}

/// Reads a name. People and the model read it beside a hook's text, so it must not be able to imitate that
/// text.
fn name(node: Node<'_>) -> Result<SmolStr, SettingsError> {
    let name = node.non_empty_string()?;
    let fits = |c: char| !c.is_control() && !text::is_hidden(c) && !matches!(c, '"' | '`' | '<');
    match name.chars().all(fits) && name.chars().count() <= MAX_NAME {
        true => Ok(name.into()),
        false => Err(node
            .error(format!(
                "`{}` is not a valid name",
                text::cut_chars(&text::show_line(name), MAX_NAME)
            ))
            .with_hint(format!("use at most {MAX_NAME} visible characters, without quotes"))),
    }
}

fn power(point: PointId, detached: bool, node: Node<'_>) -> Result<Power, SettingsError> {
    let power = node.one_of(POWERS)?;
    if !point.row().powers.contains(&power) {
        return Err(node.error(format!("`{point}` has no power `{}`", power.as_str())));
    }
    match detached && power == Power::Gate {
        true => Err(node.error("a hook with `async` cannot be a gate: its answer is not awaited")),
        false => Ok(power),
    }
}

fn unknown_point(name: &str, node: &Node<'_>) -> SettingsError {
    let names = || POINTS.iter().map(|row| row.name).filter(|name| *name != "context");
    if name == "context" {
        return node
            .error("`context` is not for command hooks, only for hooks in Rust and scripts");
    }
    let shown = text::show_line(name);
    let error = node.error(format!("there is no point `{shown}`"));
    if let Some(point) = other_point(name) {
        return error.with_hint(format!("the event of Claude Code is `{point}` here"));
    }
    let hint = text::did_you_mean(name, names());
    let all = || format!("there are {}", names().collect::<Vec<_>>().join(", "));
    error.with_hint(hint.unwrap_or_else(all))
}

/// Reads a command: a line, or a list of words.
pub(crate) fn command(node: Node<'_>) -> Result<CommandLine, SettingsError> {
    let line = match node.string() {
        Ok(_) => CommandLine::parse(node.non_empty_string()?),
        Err(_) => {
            let words = node.list()?.map(|word| word.string().map(str::to_owned));
            CommandLine::Words(words.collect::<Result<_, _>>()?)
        }
    };
    line.check_runnable().map_err(|why| node.error(why))
}

fn tools(point: PointId, node: Node<'_>) -> Result<Vec<String>, SettingsError> {
    if !point.row().is_about_tools() {
        return Err(node.error(format!("`{point}` is not about tools, so `tools` is not allowed")));
    }
    let globs = node.list()?.map(|glob| glob.non_empty_string().map(str::to_owned));
    let globs = globs.collect::<Result<Vec<_>, _>>()?;
    if globs.is_empty() {
        return Err(node
            .error("an empty list matches no tool")
            .with_hint("leave `tools` out to match every tool"));
    }
    cotter::host::check_globs(&globs).map_err(|cause| node.error(cause))?;
    cotter::host::check_tool_names(&globs).map_err(|cause| node.error(cause))?;
    Ok(globs)
}

fn variable(node: Node<'_>) -> Result<String, SettingsError> {
    let name = node.non_empty_string()?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match name.chars().all(fits) {
        true => Ok(name.into()),
        false => {
            Err(node.error(format!("`{}` is not the name of a variable", text::show_line(name))))
        }
    }
}
