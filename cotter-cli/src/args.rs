//! The arguments of every command, and their help. An argument is added only when it works.
//!
//! The comments on fields and variants below [`CliArgs`] are the texts of `--help`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
    error::ErrorKind,
    value_parser,
};
use cotter::{permission::mode::Mode, text};
use cotter_files::trust::snapshot::Hash;

use crate::{error::CliError, terminal::style::ColorChoice};

/// The reason why no command runs.
pub(crate) enum ParseExit {
    Help(String),
    Error(CliError),
}

/// Parses the arguments, which begin with the program's name.
pub(crate) fn parse(args: Vec<OsString>) -> Result<(ColorChoice, Command), ParseExit> {
    let first = args.get(1).and_then(|word| word.to_str()).map(str::to_owned);
    let matches = definition().try_get_matches_from(args);
    let parsed = matches.and_then(|matches| CliArgs::from_arg_matches(&matches));
    let CliArgs { run, color, command } = parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ParseExit::Help(error.to_string()),
        _ => ParseExit::Error(parser_error(&error.to_string(), first.as_deref())),
    })?;
    match command {
        Some(command) => Ok((color, command)),
        None if run.print => Ok((color, Command::Run(run))),
        None => Err(ParseExit::Error(no_chat(run.prompt.as_deref()))),
    }
}

fn definition() -> clap::Command {
    let quiet = |command: clap::Command| {
        command.disable_help_subcommand(true).arg_required_else_help(false)
    };
    quiet(CliArgs::command()).mut_subcommands(quiet)
}

#[derive(Debug, Parser)]
#[command(
    name = "cotter",
    version,
    about = "An agent runtime built round one extension layer",
    override_usage = "cotter -p [OPTIONS] [PROMPT]\n       cotter <COMMAND>",
    args_conflicts_with_subcommands = true
)]
struct CliArgs {
    #[command(flatten)]
    run: Box<RunArgs>,
    /// Use colour: auto, always, never
    #[arg(long, value_name = "WHEN", global = true, value_enum, default_value_t)]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    color: ColorChoice,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The command that was typed.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// No command: a run.
    #[command(skip)]
    Run(Box<RunArgs>),
    /// List skills, show one, show which skills a task triggers, check skill files
    #[command(subcommand)]
    Skills(SkillsVerb),
    /// List hooks, test them, show their log, check hook files
    #[command(subcommand)]
    Hooks(HooksVerb),
    /// List slash commands, check command files
    #[command(subcommand)]
    Commands(CommandsVerb),
    /// List subagents and profiles, check agent files
    #[command(subcommand)]
    Agents(AgentsVerb),
    /// List the available models
    #[command(subcommand)]
    Models(ModelsVerb),
    /// Add, update, remove, create and check spaces: folders that are an extension
    #[command(subcommand)]
    Spaces(SpacesVerb),
    /// Report which files are found, trusted and used, what is broken, confined or slow
    Doctor {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show the decision about a call, and its reasons, without running the call
    Explain(Box<ExplainArgs>),
    /// List the tools of MCP servers, accept changed ones
    #[command(subcommand)]
    Mcp(McpVerb),
    /// List the permission rules, revoke one
    #[command(subcommand)]
    Permissions(PermissionsVerb),
    /// Create a `.cotter` folder with an example hook, rule, skill, command and agent
    Init {
        /// Create it in this folder [default: the root of the project]
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Print the JSON Schema of a file, or of the input and output of hooks
    Schema {
        /// Print this schema [default: list all schemas]
        name: Option<String>,
    },
    /// Show what a project would run, and ask whether to trust it
    Trust(TrustCommandArgs),
    /// Withdraw trust
    Untrust {
        /// Withdraw trust from this source, or from all sources of the project in this folder
        path: Option<PathBuf>,
    },
    /// List and show stored sessions
    #[command(subcommand)]
    Sessions(SessionsVerb),
    /// Show every decision about the tool calls of a session
    Ledger {
        /// Show this session; the start of its id is enough [default: the last one in this folder]
        id: Option<String>,
        #[command(subcommand)]
        verb: Option<LedgerVerb>,
    },
}

impl Command {
    /// True if an agent may run the command. These commands change nothing, start nothing and show nothing of
    /// sessions.
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Command::Explain(args) => args.hook_mode() == HookMode::Listed,
            Command::Trust(args) => args.list || args.print,
            Command::Skills(
                SkillsVerb::List(_) | SkillsVerb::Show { .. } | SkillsVerb::Check(_),
            )
            | Command::Hooks(HooksVerb::List { .. } | HooksVerb::Check(_))
            | Command::Commands(CommandsVerb::List(_) | CommandsVerb::Check(_))
            | Command::Agents(AgentsVerb::List(_) | AgentsVerb::Check(_))
            | Command::Models(ModelsVerb::List(_))
            | Command::Spaces(SpacesVerb::List(_) | SpacesVerb::Check(_))
            | Command::Mcp(McpVerb::List(_))
            | Command::Permissions(PermissionsVerb::List(_)) => true,
            _ => false,
        }
    }
}

/// The arguments of every `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of every `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Check this file, or the files in this folder
    pub(crate) path: PathBuf,
    /// Print one JSON object per file
    #[arg(long)]
    pub(crate) json: bool,
}

/// A command about skills.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsVerb {
    /// List all skills
    List(ListArgs),
    /// Show the text of a skill, and its triggers
    Show {
        /// Show this skill
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show which skills a task triggers, and why not the others
    Match {
        /// Match the triggers against this prompt
        #[arg(value_name = "TEXT")]
        task: String,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Check skill files and list their errors
    Check(CheckArgs),
}

/// A command about hooks.
#[derive(Debug, Subcommand)]
pub(crate) enum HooksVerb {
    /// List all hooks, with the point, the powers and the owner of each
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        setup_args: Box<SetupArgs>,
    },
    /// Run the hooks of a point in a dry run
    Test(Box<HooksTestArgs>),
    /// Run the hooks of a point as you write them, again after each change
    Dev(Box<HooksTestArgs>),
    /// Show each hook that ran: match, verdict, time, standard error
    Log(HooksLogArgs),
    /// Check hook files and list their errors
    Check(CheckArgs),
}

/// The arguments of `hooks test`.
#[derive(Debug, Args)]
pub(crate) struct HooksTestArgs {
    /// Run the hooks of this point, such as tool.pre
    pub(crate) point: String,
    /// Show the hooks a call of this tool; the tool need not exist
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Use this input of the call; @FILE reads a file, - reads standard input
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) input: Option<String>,
    /// Use this result of the call (tool.post)
    #[arg(long, value_name = "TEXT")]
    pub(crate) result: Option<String>,
    /// Use this prompt (user.prompt.submit)
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// Run the hooks of this folder as they are on disk, after one yes per folder and terminal
    #[arg(long, conflicts_with_all = ["given", "safe_mode"])]
    pub(crate) here: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) setup_args: SetupArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

/// The arguments of `hooks log`.
#[derive(Debug, Args)]
pub(crate) struct HooksLogArgs {
    /// Show this session; the start of its id is enough [default: the last one in this folder]
    pub(crate) session: Option<String>,
    /// Continue to print as hooks run, also in new sessions
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Include the built-in hooks
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// A command about commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CommandsVerb {
    /// List all slash commands
    List(ListArgs),
    /// Check command files and list their errors
    Check(CheckArgs),
}

/// A command about subagents and profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsVerb {
    /// List all subagents and profiles
    List(ListArgs),
    /// Check agent files and list their errors
    Check(CheckArgs),
}

/// A command about models.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsVerb {
    /// List all available models, and the one that a run would use now
    List(ListArgs),
}

/// A command about spaces.
#[derive(Debug, Subcommand)]
pub(crate) enum SpacesVerb {
    /// List all spaces, and whether you trust them
    List(ListArgs),
    /// Copy a space, show what it would run, and ask whether to trust it
    Add {
        /// Copy this folder or git repository
        #[arg(value_name = "PATH|GIT-URL")]
        source: String,
        /// Use this branch, tag or commit of the repository
        #[arg(long)]
        rev: Option<String>,
        /// Also let its hooks rewrite calls and results
        #[arg(long)]
        rewrite: bool,
    },
    /// Copy spaces again from their sources, show the changes, and ask
    Update {
        /// Update this space [default: all]
        id: Option<String>,
        /// Also let its hooks rewrite calls and results
        #[arg(long)]
        rewrite: bool,
    },
    /// Remove a space, and the trust in it
    Remove {
        /// Remove this space
        id: String,
    },
    /// Create a space in a new folder, with an example hook, skill and agent
    New {
        /// Use this id, also as the name of the folder
        id: String,
    },
    /// Check the files of spaces and list their errors
    Check(CheckArgs),
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Explain a call of this tool
    #[arg(required_unless_present = "batch")]
    pub(crate) tool: Option<String>,
    /// Use this input: JSON, or the text of the only required field
    pub(crate) input: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Read one {"tool", "input"} per line, print one answer per line; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "tool")]
    pub(crate) batch: Option<PathBuf>,
    /// Also run external hooks; their input says that it is a dry run
    #[arg(long)]
    run_hooks: bool,
    #[command(flatten)]
    pub(crate) setup_args: SetupArgs,
}

impl ExplainArgs {
    pub(crate) fn hook_mode(&self) -> HookMode {
        if self.run_hooks { HookMode::Asked } else { HookMode::Listed }
    }
}

/// The treatment of hooks with effects in `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookMode {
    /// They are listed, not asked.
    Listed,
    /// They are asked, and their input says that it is a dry run.
    Asked,
}

/// A command about MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum McpVerb {
    /// List the servers of your settings, and their stored tools
    List(ListArgs),
    /// Show the changed tools of a server, or accept them by their digest
    Accept {
        /// Show or accept the changes of this server
        server: String,
        /// Accept the changes with this digest
        digest: Option<String>,
    },
}

/// A command about rules.
#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsVerb {
    /// List all rules, with the owner and the location of each
    List(ListArgs),
    /// Remove an allow rule from your settings
    Revoke {
        /// Remove this rule, written as in the list
        rule: String,
    },
}

/// The arguments of `trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustCommandArgs {
    /// Show the project in this folder, or only this `.cotter` folder or `.mcp.json`
    pub(crate) path: Option<PathBuf>,
    /// Print it with its hash, and do not ask
    #[arg(long)]
    pub(crate) print: bool,
    /// Print it with the text of every file, and do not ask
    #[arg(long, conflicts_with = "print")]
    pub(crate) show: bool,
    /// Also let its hooks rewrite calls and results
    #[arg(long, conflicts_with_all = ["print", "show"])]
    pub(crate) rewrite: bool,
    /// List everything that you trust on this machine
    #[arg(long, conflicts_with_all = ["path", "print", "show", "rewrite"])]
    pub(crate) list: bool,
    /// Print one JSON object per line (with --list)
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
}

/// A command about stored sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsVerb {
    /// List all sessions, the newest first
    List(ListArgs),
    /// Show the conversation of a session
    Show {
        /// Show this session; the start of its id is enough
        id: String,
        /// Print the stored entries, one JSON object per line
        #[arg(long)]
        json: bool,
    },
}

/// A command about the ledger of a session.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerVerb {
    /// Check that no row of the ledger is missing, changed or out of order
    Verify {
        /// Check that the ledger contains this row hash, which you stored elsewhere
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
    },
}

/// The arguments of a run.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Run this prompt; piped input is added as data
    pub(crate) prompt: Option<String>,
    /// Run one prompt and print the answer
    #[arg(long, short)]
    print: bool,
    /// Print the run in this format: text, json, stream-json
    #[arg(long = "output-format", value_enum, default_value_t)]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    pub(crate) format: Format,
    /// Use this model: `provider/model`, or `rehearsal`
    #[arg(long, conflicts_with = "script")]
    model: Option<String>,
    /// Use this model if the models before it fail; may be repeated
    #[arg(long = "fallback-model", value_name = "MODEL")]
    pub(crate) fallbacks: Vec<String>,
    /// Take the replies of the model from this script, a JSON file
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Record the requests to providers and their replies in this new file
    #[arg(long, value_name = "FILE", conflicts_with = "script")]
    record_cassette: Option<PathBuf>,
    /// Take the replies from such a file; nothing is sent
    #[arg(long, value_name = "FILE", conflicts_with_all = ["script", "record_cassette"])]
    cassette: Option<PathBuf>,
    /// Continue the last session in this folder
    #[arg(long = "continue", conflicts_with_all = ["resume", "no_session"])]
    continue_last: bool,
    /// Continue this session; the start of its id is enough
    #[arg(long, value_name = "ID", conflicts_with = "no_session")]
    resume: Option<String>,
    /// Do not store this session
    #[arg(long)]
    no_session: bool,
    /// Ask on the terminal, instead of refusing calls that need approval
    #[arg(long)]
    pub(crate) ask: bool,
    /// Limit the steps of this run, and of each subagent
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// Limit the cost of this run, in dollars
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = dollars)]
    pub(crate) max_budget_usd: Option<f64>,
    /// Work in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Allow calls to read and write in this folder too; may be repeated
    #[arg(long = "add-dir", value_name = "DIR")]
    pub(crate) add_dirs: Vec<PathBuf>,
    /// Use the MCP servers in this file; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) setup_args: SetupArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

impl RunArgs {
    /// Returns the model that the command line names.
    pub(crate) fn model(&self) -> ModelArg<'_> {
        match (&self.script, &self.model) {
            (Some(script), _) => ModelArg::Script(script),
            (None, Some(name)) => ModelArg::Named(name),
            (None, None) => ModelArg::Unnamed,
        }
    }

    /// Returns the cassette to record or to play.
    pub(crate) fn cassette(&self) -> Option<Cassette<'_>> {
        let play = || self.cassette.as_deref().map(Cassette::Play);
        self.record_cassette.as_deref().map(Cassette::Record).or_else(play)
    }

    /// Returns the session that the run continues or begins.
    pub(crate) fn session(&self) -> SessionArg<'_> {
        match &self.resume {
            Some(id) => SessionArg::ById(id),
            None if self.continue_last => SessionArg::Last,
            None if self.no_session => SessionArg::NotStored,
            None => SessionArg::New,
        }
    }
}

/// The output format of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
    StreamJson,
}

/// The model that the command line names.
#[derive(Debug)]
pub(crate) enum ModelArg<'a> {
    /// No name: the model comes from settings, variables or keys.
    Unnamed,
    Named(&'a str),
    Script(&'a Path),
}

/// A recording of the requests to providers and their replies.
#[derive(Debug)]
pub(crate) enum Cassette<'a> {
    Record(&'a Path),
    Play(&'a Path),
}

/// The session of a run.
#[derive(Debug)]
pub(crate) enum SessionArg<'a> {
    New,
    NotStored,
    Last,
    ById(&'a str),
}

/// The flags that choose the agent of a run, and what extends or limits it. Read-only commands take the same
/// flags, to show what such a run would have.
#[derive(Debug, Default, Args)]
pub(crate) struct SetupArgs {
    /// Use this settings file too; it takes precedence over your own settings
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Run this agent: a name, or the path of a profile's agent.json
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Load this space; may be repeated
    #[arg(long = "space", value_name = "ID", value_parser = space_id)]
    pub(crate) spaces: Vec<String>,
    /// Set the mode for calls that no rule decides: ask, accept-edits, plan, auto
    #[arg(long = "permission-mode", value_parser = mode_parser(), hide_possible_values = true)]
    pub(crate) mode: Option<Mode>,
    /// Disable this hook; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) without: Vec<String>,
    /// Use no hooks, skills, servers or memory files of the project or of a space
    #[arg(long, conflicts_with = "spaces")]
    pub(crate) safe_mode: bool,
}

/// The flags that decide whether a run uses the sources of a project.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Ask whether to trust the project, or trust this hash for one run
    #[arg(long = "trust", value_name = "HASH", value_parser = parse_trust, conflicts_with = "safe_mode")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "")]
    given: Vec<Option<Hash>>,
    /// Refuse to run if a source of the project or a named space is not trusted
    #[arg(long = "require-trust", conflicts_with = "safe_mode")]
    pub(crate) require: bool,
}

impl TrustArgs {
    /// True if the person is asked about sources that are not trusted yet.
    pub(crate) fn asks(&self) -> bool {
        self.given.iter().any(Option::is_none)
    }

    /// Returns the hashes of the contents that this run may use.
    pub(crate) fn hashes(&self) -> Vec<Hash> {
        self.given.iter().flatten().copied().collect()
    }
}

fn mode_parser() -> impl TypedValueParser<Value = Mode> {
    let words = Mode::WORDS.iter().map(|(word, _)| *word);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Mode>())
}

fn dollars(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected a number above 0".into()),
    }
}

fn space_id(text: &str) -> Result<String, &'static str> {
    match cotter_files::space::is_id(text) {
        true => Ok(text.to_owned()),
        false => Err("the id of a space has lower-case letters, digits and `-`"),
    }
}

/// Parses a hash. An empty text means that the person is asked.
fn parse_trust(text: &str) -> Result<Option<Hash>, &'static str> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

fn no_chat(prompt: Option<&str>) -> CliError {
    let failure = CliError::usage("this version has no chat in the terminal yet");
    match prompt.and_then(near_command) {
        Some(near) => failure.with_hint(format!("did you mean `cotter {near}`?")),
        None => {
            failure.with_hint("`cotter -p PROMPT` runs one prompt, `cotter --help` shows the rest")
        }
    }
}

/// Returns the command whose name is nearest to a word.
fn near_command(word: &str) -> Option<String> {
    let table = definition();
    text::nearest(word, table.get_subcommands().map(clap::Command::get_name)).map(str::to_owned)
}

/// Converts an error text of the parser: first the error, then the hint. `typed` is the first argument.
fn parser_error(rendered: &str, typed: Option<&str>) -> CliError {
    let mut lines = rendered.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let wrong = first.strip_prefix("error: ").unwrap_or(first);
    // The parser takes the word after the prompt as a command.
    if let Some((extra, _)) =
        wrong.strip_prefix("the subcommand '").and_then(|rest| rest.split_once("' cannot"))
    {
        if let Some((word, near)) = typed.and_then(|word| Some((word, near_command(word)?))) {
            return CliError::usage(format!("there is no command `{word}`"))
                .with_hint(format!("did you mean `cotter {near}`?"));
        }
        return CliError::usage(format!("unexpected argument '{extra}' after the prompt"))
            .with_hint("put the prompt in quotes; a command's options come after the command");
    }
    let mut failure = CliError::usage(wrong.trim_end_matches(':'));
    let usage = rendered.lines().find_map(|line| line.trim().strip_prefix("Usage: cotter"));
    let mut hint = format!("`cotter{} --help` lists the arguments", usage_command(usage));
    for line in lines.take_while(|line| !line.starts_with("Usage:")) {
        if let Some(tip) = line.strip_prefix("tip: ") {
            hint = tip.to_owned();
        } else if let Some(values) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'))
        {
            hint = values.to_owned();
        } else if !line.is_empty() && !line.starts_with("For more information") {
            failure = failure.with_cause(line);
        }
    }
    failure.with_hint(hint)
}

/// Returns the command in a usage line, with a space before each word.
fn usage_command(usage: Option<&str>) -> String {
    let table = definition();
    let (mut at, mut path) = (&table, String::new());
    for word in usage.unwrap_or_default().split(' ').filter(|word| !word.is_empty()) {
        let Some(inner) = at.find_subcommand(word) else { break };
        path += &format!(" {word}");
        at = inner;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_definition_is_valid() {
        definition().debug_assert();
    }
}
