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
    Wrong(CliError),
}

/// Parses the arguments, which begin with the program's name.
pub(crate) fn parse(args: Vec<OsString>) -> Result<(ColorChoice, Command), ParseExit> {
    let first = args.get(1).and_then(|word| word.to_str()).map(str::to_owned);
    let matches = definition().try_get_matches_from(args);
    let parsed = matches.and_then(|matches| CliArgs::from_arg_matches(&matches));
    let CliArgs { run, color, command } = parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ParseExit::Help(error.to_string()),
        _ => ParseExit::Wrong(parser_error(&error.to_string(), first.as_deref())),
    })?;
    match command {
        Some(command) => Ok((color, command)),
        None if run.print => Ok((color, Command::Run(run))),
        None => Err(ParseExit::Wrong(no_chat(run.prompt.as_deref()))),
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
    /// Colour: auto, always, never
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
    /// List skills, look at one, see which a task brings in
    #[command(subcommand)]
    Skills(SkillsVerb),
    /// List hooks, try them, see what they did, check the files that declare them
    #[command(subcommand)]
    Hooks(HooksVerb),
    /// List what may be typed after a slash
    #[command(subcommand)]
    Commands(CommandsVerb),
    /// List the subagents the model may call, and profiles
    #[command(subcommand)]
    Agents(AgentsVerb),
    /// List the models that can answer
    #[command(subcommand)]
    Models(ModelsVerb),
    /// Add spaces, folders that are an extension, and begin one
    #[command(subcommand)]
    Spaces(SpacesVerb),
    /// What was found where, what is trusted, used, not honoured, confined or slow
    Doctor {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// What would happen to a call, and why, without running it
    Explain(Box<ExplainArgs>),
    /// List what MCP servers offer, and accept what changed
    #[command(subcommand)]
    Mcp(McpVerb),
    /// List the rules in force, and take one back
    #[command(subcommand)]
    Permissions(PermissionsVerb),
    /// Begin a project's own folder: a hook, a rule, a skill, a command, an agent
    Init {
        /// The folder to begin it in; without it, the project's root
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Print the JSON Schema of a file, for editors, or of what hooks read and answer
    Schema {
        /// Which one; without it, all are listed
        name: Option<String>,
    },
    /// Show what a project brings, and let it run
    Trust(TrustCommandArgs),
    /// Take trust back
    Untrust {
        /// What was trusted, or a folder of its project
        path: Option<PathBuf>,
    },
    /// List and show stored sessions
    #[command(subcommand)]
    Sessions(SessionsVerb),
    /// Every decision about every tool call of a session
    Ledger {
        /// A session's id, or the beginning of it; without it, the folder's last
        id: Option<String>,
        #[command(subcommand)]
        verb: Option<LedgerVerb>,
    },
}

impl Command {
    /// True if the command changes nothing, starts nothing and shows no contents of sessions.
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
            | Command::Permissions(PermissionsVerb::List(_))
            | Command::Sessions(SessionsVerb::List(_) | SessionsVerb::Show { .. }) => true,
            _ => false,
        }
    }
}

/// The arguments of every `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// One JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of every `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A file, or a folder of them
    pub(crate) path: PathBuf,
    /// One JSON object per file
    #[arg(long)]
    pub(crate) json: bool,
}

/// A command about skills.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsVerb {
    /// The skills there are
    List(ListArgs),
    /// What a skill says, and when it comes by itself
    Show {
        /// The skill's name
        name: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Which skills a task would bring in, and why not the others
    Match {
        /// What one would ask the agent
        #[arg(value_name = "TEXT")]
        task: String,
        /// One JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Read files of skills and say what is wrong with them
    Check(CheckArgs),
}

/// A command about hooks.
#[derive(Debug, Subcommand)]
pub(crate) enum HooksVerb {
    /// The hooks there are, where each is bound and whose it is
    List {
        /// One JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        shape: Box<SetupArgs>,
    },
    /// Fire a point at the hooks that are loaded; nothing else happens
    Test(Box<HooksTestArgs>),
    /// Each hook as it ran: matched or why not, verdict, time, standard error
    Log(HooksLogArgs),
    /// Read files of hooks and say what is wrong with them
    Check(CheckArgs),
}

/// The arguments of `hooks test`.
#[derive(Debug, Args)]
pub(crate) struct HooksTestArgs {
    /// The point, such as tool.pre
    pub(crate) point: String,
    /// The tool that is called; it need not exist
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// What it is given; @FILE reads it from a file, - from a pipe
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) input: Option<String>,
    /// At tool.post: what it answered
    #[arg(long, value_name = "TEXT")]
    pub(crate) result: Option<String>,
    /// At user.prompt.submit: what was typed
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) shape: SetupArgs,
}

/// The arguments of `hooks log`.
#[derive(Debug, Args)]
pub(crate) struct HooksLogArgs {
    /// A session's id, or the beginning of it; without it, the folder's last
    pub(crate) session: Option<String>,
    /// Go on as hooks run, in sessions to come too
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// The program's own hooks, too
    #[arg(long)]
    pub(crate) all: bool,
    /// One JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// A command about commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CommandsVerb {
    /// The commands there are
    List(ListArgs),
    /// Read files of commands and say what is wrong with them
    Check(CheckArgs),
}

/// A command about subagents and profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsVerb {
    /// The subagents and profiles there are
    List(ListArgs),
    /// Read files of agents and say what is wrong with them
    Check(CheckArgs),
}

/// A command about models.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsVerb {
    /// The models there are, and which one would answer now
    List(ListArgs),
}

/// A command about spaces.
#[derive(Debug, Subcommand)]
pub(crate) enum SpacesVerb {
    /// The spaces there are, and whether you trust them
    List(ListArgs),
    /// Copy a space, show what would run, and ask whether to trust it
    Add {
        /// Its folder, or a repository
        #[arg(value_name = "PATH|GIT-URL")]
        source: String,
        /// The branch, tag or commit of a repository
        #[arg(long)]
        rev: Option<String>,
        /// Let its hooks rewrite calls and results too
        #[arg(long)]
        rewrite: bool,
    },
    /// Copy spaces again from where they came, show the difference, and ask
    Update {
        /// The space; without it, all
        id: Option<String>,
        /// Let its hooks rewrite calls and results too
        #[arg(long)]
        rewrite: bool,
    },
    /// Take a space away, and the trust in it
    Remove {
        /// The space
        id: String,
    },
    /// Begin a space in a folder of its own: a hook, a skill, an agent
    New {
        /// What it is called by, and its folder
        id: String,
    },
    /// Read files of spaces and say what is wrong with them
    Check(CheckArgs),
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The tool's name
    #[arg(required_unless_present = "batch")]
    pub(crate) tool: Option<String>,
    /// What it is given, if it needs anything: JSON, or its one text
    pub(crate) input: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// A {"tool", "input"} per line, answered a line each; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "tool")]
    pub(crate) batch: Option<PathBuf>,
    /// Ask hooks that are programs, too; they are told it is a dry run
    #[arg(long)]
    run_hooks: bool,
    #[command(flatten)]
    pub(crate) shape: SetupArgs,
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
    /// They are asked, and told that it is a dry run.
    Asked,
}

/// A command about MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum McpVerb {
    /// The servers of your settings, and what they were seen to offer
    List(ListArgs),
    /// Show what of a server changed and waits; with its digest, accept it
    Accept {
        /// The server's name
        server: String,
        /// What was shown, by its digest
        digest: Option<String>,
    },
}

/// A command about rules.
#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsVerb {
    /// The rules there are, whose they are and where they stand
    List(ListArgs),
    /// Take an allow rule out of your settings
    Revoke {
        /// The rule as it is listed
        rule: String,
    },
}

/// The arguments of `trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustCommandArgs {
    /// A folder of the project, or a `.cotter` folder or `.mcp.json` by itself
    pub(crate) path: Option<PathBuf>,
    /// Show it, with its hash, and decide nothing
    #[arg(long)]
    pub(crate) print: bool,
    /// Show it with the text of every file, and decide nothing
    #[arg(long, conflicts_with = "print")]
    pub(crate) show: bool,
    /// Let its hooks rewrite calls and results too
    #[arg(long, conflicts_with_all = ["print", "show"])]
    pub(crate) rewrite: bool,
    /// Everything you trust on this machine
    #[arg(long, conflicts_with_all = ["path", "print", "show", "rewrite"])]
    pub(crate) list: bool,
    /// With --list: one JSON object per line
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
}

/// A command about stored sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsVerb {
    /// The sessions there are, the last one first
    List(ListArgs),
    /// The conversation of a session
    Show {
        /// A session's id, or the beginning of it
        id: String,
        /// The entries as they are stored, one JSON object per line
        #[arg(long)]
        json: bool,
    },
}

/// A command about the ledger of a session.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerVerb {
    /// Check that no row of the ledger is missing, changed or out of order
    Verify {
        /// A hash of this ledger that was kept elsewhere
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
    },
}

/// The arguments of a run.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do; piped input is added as data
    pub(crate) prompt: Option<String>,
    /// Run one prompt and print the answer
    #[arg(long, short)]
    print: bool,
    /// How the run is told: text, json, stream-json
    #[arg(long = "output-format", value_enum, default_value_t)]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    pub(crate) format: Format,
    /// Who answers: provider/model, or `rehearsal`, an offline stand-in
    #[arg(long, conflicts_with = "script")]
    model: Option<String>,
    /// Who answers when the ones before fail; may be repeated
    #[arg(long = "fallback-model", value_name = "MODEL")]
    pub(crate) fallbacks: Vec<String>,
    /// Let a script answer: steps in a JSON file
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Write what is said to providers to a new file
    #[arg(long, value_name = "FILE", conflicts_with = "script")]
    record_cassette: Option<PathBuf>,
    /// Let such a file answer; nothing is sent
    #[arg(long, value_name = "FILE", conflicts_with_all = ["script", "record_cassette"])]
    cassette: Option<PathBuf>,
    /// Go on with the last session of this folder
    #[arg(long = "continue", conflicts_with_all = ["resume", "no_session"])]
    continue_last: bool,
    /// Go on with a session; the beginning of its id is enough
    #[arg(long, value_name = "ID", conflicts_with = "no_session")]
    resume: Option<String>,
    /// Keep nothing
    #[arg(long)]
    no_session: bool,
    /// Put questions on the terminal instead of refusing what would ask
    #[arg(long)]
    pub(crate) ask: bool,
    /// The most requests of this run, and of each subagent
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// The most this run may cost, in dollars
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = dollars)]
    pub(crate) max_budget_usd: Option<f64>,
    /// The folder to work in
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// A further folder that may be read and written; may be repeated
    #[arg(long = "add-dir", value_name = "DIR")]
    pub(crate) add_dirs: Vec<PathBuf>,
    /// MCP servers for this run, in a file; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) shape: SetupArgs,
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
            Some(id) => SessionArg::Of(id),
            None if self.continue_last => SessionArg::Last,
            None if self.no_session => SessionArg::Nowhere,
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
    Nowhere,
    Last,
    Of(&'a str),
}

/// The flags that decide what a run has: who runs, and what extends or limits it. Commands that only look
/// take the same, to show what such a run would have.
#[derive(Debug, Default, Args)]
pub(crate) struct SetupArgs {
    /// Settings for this run, nearer than your own
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Who runs: an agent's name, or the path of a profile's agent.json
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Load a space; may be repeated
    #[arg(long = "space", value_name = "ID", value_parser = space_id)]
    pub(crate) spaces: Vec<String>,
    /// What becomes of calls that no rule decides: ask, accept-edits, plan, auto
    #[arg(long = "permission-mode", value_parser = mode_parser(), hide_possible_values = true)]
    pub(crate) mode: Option<Mode>,
    /// Run without a hook; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) without: Vec<String>,
    /// Use nothing that the project or a space brings: no hooks, skills, servers, notes
    #[arg(long, conflicts_with = "spaces")]
    pub(crate) safe_mode: bool,
}

/// The flags that decide whether a run uses what a project brings.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Use what the project brings: ask about it, or trust this hash
    #[arg(long = "trust", value_name = "HASH", value_parser = parse_trust, conflicts_with = "safe_mode")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "")]
    given: Vec<Option<Hash>>,
    /// Do not run where something of the project is not trusted
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
        false => Err("the id of a space has small letters, digits and `-`"),
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
    let mut hint = format!("`cotter{} --help` shows what may be typed", usage_command(usage));
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
