//! What a file says about a command hook.

use std::{ffi::OsString, time::Duration};

use smol_str::SmolStr;

use crate::command_hook::{
    dialect::Dialect, names::name_apart, other_points::other_point, point_named,
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
    /// Its name: its own, or that of its program.
    pub name: SmolStr,
    /// Where it is bound.
    pub point: PointId,
    /// What else is said about it as a hook.
    pub declared: ExternalHookSpec,
    /// What is run.
    pub command: CommandLine,
    /// The person's variables that it gets besides the usual ones, by name.
    pub env: Vec<String>,
    /// Whether it is started once and asked line by line.
    pub serve: bool,
    /// What its failure amounts to.
    pub on_failure: OnFailure,
    /// How it is spoken to.
    pub dialect: Dialect,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// A program and its arguments, as they are.
    Words(Vec<String>),
    /// A line with shell syntax, for `sh -c`.
    Shell(String),
}

impl CommandLine {
    /// A line: plain words are executed as they are, everything else is the shell's.
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

    /// The words that are executed.
    pub fn words(&self) -> Vec<OsString> {
        match self {
            CommandLine::Words(words) => words.iter().map(OsString::from).collect(),
            CommandLine::Shell(line) => ["/bin/sh", "-c", line].map(OsString::from).into(),
        }
    }

    /// The same where there is something to run.
    pub(crate) fn runnable(self) -> Result<Self, &'static str> {
        if self.words().iter().any(|word| word.as_encoded_bytes().contains(&0)) {
            return Err("no program can be told a NUL");
        }
        match &self {
            CommandLine::Words(words) if words.first().is_none_or(String::is_empty) => {
                Err("there is nothing to run")
            }
            _ => Ok(self),
        }
    }

    /// The name of what is run, for a hook that has none.
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

/// What the failure of a hook amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// What every failing gate does: it blocks.
    #[default]
    Block,
    /// It passes, and a person is told.
    Pass,
}

impl OnFailure {
    /// The words for it in settings files.
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

/// Powers that a hook can be limited to.
const POWERS: &[(&str, Power)] = &[("observe", Power::Observe), ("gate", Power::Gate)];

/// The longest name, in characters.
const MAX_NAME: usize = 80;

/// The longest a hook may be given.
pub(crate) const MAX_LIMIT_MS: u64 = 60 * 60 * 1000;

impl CommandHook {
    /// The hooks of a section `hooks`: lists of entries by the name of their point.
    pub fn read_all(node: Node<'_>) -> Result<Vec<Self>, SettingsError> {
        let mut hooks: Vec<CommandHook> = vec![];
        for (name, entries) in node.object()?.members() {
            let point = point_named(name).ok_or_else(|| unknown_point(name, &entries))?;
            for entry in entries.list()? {
                let hook = CommandHook::read(point, entry)?;
                hooks.push(hook);
            }
        }
        name_apart(&mut hooks);
        Ok(hooks)
    }

    /// One entry.
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
            declared: ExternalHookSpec {
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
            serve,
            on_failure: on_failure.transpose()?.unwrap_or_default(),
            dialect: Dialect::Cotter,
        })
    }
}

/// A name, which people and the model read beside a hook's words: it cannot pretend to be some of them.
fn name(node: Node<'_>) -> Result<SmolStr, SettingsError> {
    let name = node.non_empty_string()?;
    let fits = |c: char| !c.is_control() && !text::is_hidden(c) && !matches!(c, '"' | '`' | '<');
    match name.chars().all(fits) && name.chars().count() <= MAX_NAME {
        true => Ok(name.into()),
        false => Err(node
            .error(format!("`{}` is no name", text::clip(&text::show_line(name), MAX_NAME)))
            .with_hint(format!("at most {MAX_NAME} characters that can be seen, without quotes"))),
    }
}

fn power(point: PointId, detached: bool, node: Node<'_>) -> Result<Power, SettingsError> {
    let power = node.one_of(POWERS)?;
    if !point.row().powers.contains(&power) {
        return Err(node.error(format!("`{point}` takes no {}", power.as_str())));
    }
    match detached && power == Power::Gate {
        true => Err(node.error("nobody waits for what a hook with `async` says: it is no gate")),
        false => Ok(power),
    }
}

fn unknown_point(name: &str, node: &Node<'_>) -> SettingsError {
    let names = || POINTS.iter().map(|row| row.name).filter(|name| *name != "context");
    if name == "context" {
        return node.error("`context` is for hooks in Rust and for scripts");
    }
    let shown = text::show_line(name);
    let error = node.error(format!("there is no point `{shown}`"));
    if let Some(point) = other_point(name) {
        return error.with_hint(format!("what Claude Code calls so is `{point}` here"));
    }
    match text::nearest(name, names()) {
        Some(near) => error.with_hint(format!("did you mean `{near}`?")),
        None => error.with_hint(format!("there are {}", names().collect::<Vec<_>>().join(", "))),
    }
}

/// What is run: a line, or a list of words.
pub(crate) fn command(node: Node<'_>) -> Result<CommandLine, SettingsError> {
    let line = match node.string() {
        Ok(_) => CommandLine::parse(node.non_empty_string()?),
        Err(_) => {
            let words = node.list()?.map(|word| word.string().map(str::to_owned));
            CommandLine::Words(words.collect::<Result<_, _>>()?)
        }
    };
    line.runnable().map_err(|why| node.error(why))
}

fn tools(point: PointId, node: Node<'_>) -> Result<Vec<String>, SettingsError> {
    if !point.row().is_about_tools() {
        return Err(node.error(format!("`{point}` is not about tools, so none can be named")));
    }
    let globs = node.list()?.map(|glob| glob.non_empty_string().map(str::to_owned));
    let globs = globs.collect::<Result<Vec<_>, _>>()?;
    if globs.is_empty() {
        return Err(node
            .error("an empty list of tools would match none")
            .with_hint("leave `tools` out for every tool"));
    }
    cotter::host::check_globs(&globs).map_err(|cause| node.error(cause))?;
    Ok(globs)
}

fn variable(node: Node<'_>) -> Result<String, SettingsError> {
    let name = node.non_empty_string()?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match name.chars().all(fits) {
        true => Ok(name.into()),
        false => Err(node.error(format!("`{}` is no variable's name", text::show_line(name)))),
    }
}
