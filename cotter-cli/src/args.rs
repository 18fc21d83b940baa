//! The one table of what may be typed. Help comes from it; nothing stands here before it works.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgAction, ArgMatches, builder::PossibleValuesParser, error::ErrorKind, value_parser,
};
use cotter::{invoke::named_item::NameKind, permission::mode::Mode, text};
use cotter_files::{extensions::FileKind, trust::snapshot::Hash};

use crate::{error::CliError, terminal::style::ColorChoice};

/// What was typed.
#[derive(Debug)]
pub(crate) struct CliArgs {
    pub(crate) style: ColorChoice,
    pub(crate) command: Command,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Doctor {
        json: bool,
    },
    HooksList {
        json: bool,
        shape: Box<SetupArgs>,
    },
    HooksTest(Box<HooksTestArgs>),
    HooksLog(HooksLogArgs),
    NamesList {
        kind: NameKind,
        json: bool,
    },
    SkillsShow {
        name: String,
        json: bool,
    },
    SkillsMatch {
        task: String,
        json: bool,
    },
    Check {
        kind: FileKind,
        path: PathBuf,
        json: bool,
    },
    SessionsList {
        json: bool,
    },
    SessionsShow {
        id: String,
        json: bool,
    },
    ModelsList {
        json: bool,
    },
    Explain {
        tool: String,
        input: Option<String>,
        hooks: HookMode,
        json: bool,
        shape: Box<SetupArgs>,
    },
    ExplainBatch {
        file: PathBuf,
        hooks: HookMode,
        shape: Box<SetupArgs>,
    },
    McpList {
        json: bool,
    },
    McpAccept {
        server: String,
        digest: Option<String>,
    },
    PermissionsList {
        json: bool,
    },
    PermissionsRevoke {
        rule: String,
    },
    Spaces(SpacesVerb),
    Trust {
        path: Option<PathBuf>,
        rewrite: bool,
    },
    TrustShow {
        path: Option<PathBuf>,
        how: TrustDetail,
    },
    TrustList {
        json: bool,
    },
    Init {
        folder: Option<PathBuf>,
    },
    Schema {
        name: Option<String>,
    },
    Untrust {
        path: Option<PathBuf>,
    },
    Ledger {
        id: Option<String>,
    },
    LedgerVerify {
        id: Option<String>,
        head: Option<String>,
    },
}

impl Command {
    /// Whether it changes nothing, starts nothing and shows nothing of sessions.
    pub(crate) fn only_looks(&self) -> bool {
        matches!(
            self,
            Command::Explain { hooks: HookMode::Listed, .. }
                | Command::ExplainBatch { hooks: HookMode::Listed, .. }
                | Command::NamesList { .. }
                | Command::HooksList { .. }
                | Command::SkillsShow { .. }
                | Command::Check { .. }
                | Command::ModelsList { .. }
                | Command::Spaces(SpacesVerb::List { .. })
                | Command::McpList { .. }
                | Command::PermissionsList { .. }
                | Command::SessionsList { .. }
                | Command::SessionsShow { .. }
                | Command::TrustShow { how: TrustDetail::AtNames, .. }
                | Command::TrustList { .. }
        )
    }
}

/// How `explain` treats hooks that may do more than look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookMode {
    /// They are named.
    Listed,
    /// They are asked, and told that it is a dry run.
    Asked,
}

/// How closely somebody looks at what would be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustDetail {
    /// Commands, and the names of files.
    AtNames,
    /// The texts of files, too.
    AtTexts,
}

/// What is to be done with spaces.
#[derive(Debug)]
pub(crate) enum SpacesVerb {
    Add { source: String, rev: Option<String>, rewrite: bool },
    Remove { id: String },
    List { json: bool },
    New { id: String },
    Update { id: Option<String>, rewrite: bool },
}

/// What hooks are tried on.
#[derive(Debug)]
pub(crate) struct HooksTestArgs {
    pub(crate) point: String,
    pub(crate) tool: Option<String>,
    pub(crate) input: Option<String>,
    pub(crate) result: Option<String>,
    pub(crate) prompt: Option<String>,
    pub(crate) json: bool,
    pub(crate) shape: SetupArgs,
}

/// Which hooks are told of, and how.
#[derive(Debug)]
pub(crate) struct HooksLogArgs {
    pub(crate) session: Option<String>,
    pub(crate) follow: bool,
    pub(crate) all: bool,
    pub(crate) json: bool,
}

/// The flags that decide what a run has: who runs, and what extends or limits it. Whoever only looks gives
/// the same, to see what such a run would have.
#[derive(Debug, Default)]
pub(crate) struct SetupArgs {
    pub(crate) settings: Option<PathBuf>,
    /// Who is to run: the name of an agent, or a profile's file.
    pub(crate) agent: Option<String>,
    /// The spaces to load, by id.
    pub(crate) spaces: Vec<String>,
    pub(crate) mode: Option<Mode>,
    /// Whether nothing that a project or a space brings is used.
    pub(crate) safe_mode: bool,
    /// Hooks that do not run, by name.
    pub(crate) without: Vec<String>,
}

/// One run.
#[derive(Debug)]
pub(crate) struct RunArgs {
    pub(crate) prompt: Option<String>,
    pub(crate) format: Format,
    pub(crate) model: ModelArg,
    /// Who answers when the ones before fail; empty for whoever the settings name.
    pub(crate) fallbacks: Vec<String>,
    pub(crate) cassette: Option<Cassette>,
    pub(crate) session: SessionArg,
    pub(crate) max_turns: Option<u32>,
    pub(crate) max_budget_usd: Option<f64>,
    pub(crate) cwd: Option<PathBuf>,
    /// Further folders that calls may read and write.
    pub(crate) add_dirs: Vec<PathBuf>,
    /// Files with further MCP servers.
    pub(crate) mcp: Vec<PathBuf>,
    pub(crate) shape: SetupArgs,
    pub(crate) trust: TrustArgs,
    pub(crate) ask: bool,
}

/// What becomes of what a project brings.
#[derive(Debug)]
pub(crate) struct TrustArgs {
    /// Whether somebody is asked about what nobody trusted yet.
    pub(crate) ask: bool,
    /// Contents that may be used in this run.
    pub(crate) hashes: Vec<Hash>,
    /// Whether there is no run with something left out.
    pub(crate) require: bool,
}

/// How a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
    StreamJson,
}

/// Who answers.
#[derive(Debug)]
pub(crate) enum ModelArg {
    /// Whatever is set up.
    Unsaid,
    Named(String),
    Script(PathBuf),
}

/// What becomes of what is said to providers, besides.
#[derive(Debug)]
pub(crate) enum Cassette {
    Record(PathBuf),
    Play(PathBuf),
}

/// Where the conversation is kept.
#[derive(Debug)]
pub(crate) enum SessionArg {
    New,
    Nowhere,
    Last,
    Of(String),
}

/// Why there is nothing to do.
pub(crate) enum ParseExit {
    Help(String),
    Wrong(CliError),
}

/// Reads the arguments, the program's name first.
pub(crate) fn parse(args: Vec<OsString>) -> Result<CliArgs, ParseExit> {
    let first = args.get(1).and_then(|word| word.to_str()).map(str::to_owned);
    let matches = definition().try_get_matches_from(args).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ParseExit::Help(error.to_string()),
        _ => ParseExit::Wrong(complaint(&error.to_string(), first.as_deref())),
    })?;
    let style = match text_of(&matches, "color").as_deref() {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    };
    let command = command(&matches).map_err(ParseExit::Wrong)?;
    Ok(CliArgs { style, command })
}

fn definition() -> clap::Command {
    clap::Command::new("cotter")
        .version(env!("CARGO_PKG_VERSION"))
        .about("An agent runtime built round one extension layer")
        .override_usage("cotter -p [OPTIONS] [PROMPT]\n       cotter <COMMAND>")
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .args(run_args())
        .args(shape_args())
        .args(trust_args())
        .arg(
            Arg::new("color")
                .long("color")
                .value_name("WHEN")
                .global(true)
                .value_parser(["auto", "always", "never"])
                .hide_possible_values(true)
                .help("Colour: auto, always, never"),
        )
        .subcommand(skills())
        .subcommand(hooks())
        .subcommand(
            names("commands", "List what may be typed after a slash", "The commands there are")
                .subcommand(check("commands")),
        )
        .subcommand(
            names(
                "agents",
                "List the subagents the model may call, and profiles",
                "The subagents and profiles there are",
            )
            .subcommand(check("agents")),
        )
        .subcommand(names(
            "models",
            "List the models that can answer",
            "The models there are, and which one would answer now",
        ))
        .subcommand(spaces())
        .subcommand(
            clap::Command::new("doctor")
                .about(
                    "What was found where, what is trusted, used, not honoured, confined or slow",
                )
                .arg(json("One JSON object")),
        )
        .subcommand(explain())
        .subcommand(mcp())
        .subcommand(permissions())
        .subcommand(init())
        .subcommand(schema())
        .subcommand(trust())
        .subcommand(untrust())
        .subcommand(sessions())
        .subcommand(ledger())
}

/// The row of something that has names, which are listed.
fn names(name: &'static str, about: &'static str, list: &'static str) -> clap::Command {
    clap::Command::new(name)
        .about(about)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(clap::Command::new("list").about(list).arg(json("One JSON object per line")))
}

fn hooks() -> clap::Command {
    names(
        "hooks",
        "List hooks, try them, see what they did, check the files that declare them",
        "The hooks there are, where each is bound and whose it is",
    )
    .mut_subcommand("list", |list| list.args(shape_args()))
    .subcommand(hooks_test())
    .subcommand(hooks_log())
    .subcommand(check("hooks"))
}

fn hooks_log() -> clap::Command {
    let session = Arg::new("session").value_name("SESSION");
    clap::Command::new("log")
        .about("Each hook as it ran: matched or why not, verdict, time, standard error")
        .arg(session.help("A session's id, or the beginning of it; without it, the folder's last"))
        .arg(flag("follow", "Go on as hooks run, in sessions to come too").short('f'))
        .arg(flag("all", "The program's own hooks, too"))
        .arg(json("One JSON object per line"))
}

fn hooks_test() -> clap::Command {
    let point = Arg::new("point").value_name("POINT").required(true);
    clap::Command::new("test")
        .about("Fire a point at the hooks that are loaded; nothing else happens")
        .arg(point.help("The point, such as tool.pre"))
        .arg(value("tool", "TOOL", "The tool that is called; it need not exist"))
        .arg(
            value("input", "JSON", "What it is given; @FILE reads it from a file, - from a pipe")
                .requires("tool"),
        )
        .arg(value("result", "TEXT", "At tool.post: what it answered"))
        .arg(value("prompt", "TEXT", "At user.prompt.submit: what was typed"))
        .arg(json("One JSON object"))
        .args(shape_args())
}

/// The row that checks files of a kind.
fn check(what: &str) -> clap::Command {
    let path = Arg::new("path").value_name("PATH").required(true);
    clap::Command::new("check")
        .about(format!("Read files of {what} and say what is wrong with them"))
        .arg(path.value_parser(value_parser!(PathBuf)).help("A file, or a folder of them"))
        .arg(json("One JSON object per file"))
}

fn skills() -> clap::Command {
    let arg = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).value_name(value).help(help).required(true)
    };
    names("skills", "List skills, look at one, see which a task brings in", "The skills there are")
        .subcommand(
            clap::Command::new("show")
                .about("What a skill says, and when it comes by itself")
                .arg(arg("name", "NAME", "The skill's name"))
                .arg(json("One JSON object")),
        )
        .subcommand(
            clap::Command::new("match")
                .about("Which skills a task would bring in, and why not the others")
                .arg(arg("task", "TEXT", "What one would ask the agent"))
                .arg(json("One JSON object per line")),
        )
        .subcommand(check("skills"))
}

fn spaces() -> clap::Command {
    let arg = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).value_name(value).help(help)
    };
    let rewrite = || flag("rewrite", "Let its hooks rewrite calls and results too");
    names(
        "spaces",
        "Add spaces, folders that are an extension, and begin one",
        "The spaces there are, and whether you trust them",
    )
    .subcommand(
        clap::Command::new("add")
            .about("Copy a space, show what would run, and ask whether to trust it")
            .arg(arg("source", "PATH|GIT-URL", "Its folder, or a repository").required(true))
            .arg(value("rev", "REV", "The branch, tag or commit of a repository"))
            .arg(rewrite()),
    )
    .subcommand(
        clap::Command::new("update")
            .about("Copy spaces again from where they came, show the difference, and ask")
            .arg(arg("id", "ID", "The space; without it, all"))
            .arg(rewrite()),
    )
    .subcommand(
        clap::Command::new("remove")
            .about("Take a space away, and the trust in it")
            .arg(arg("id", "ID", "The space").required(true)),
    )
    .subcommand(
        clap::Command::new("new")
            .about("Begin a space in a folder of its own: a hook, a skill, an agent")
            .arg(arg("id", "ID", "What it is called by, and its folder").required(true)),
    )
    .subcommand(check("spaces"))
}

fn explain() -> clap::Command {
    let arg = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).value_name(value).help(help)
    };
    clap::Command::new("explain")
        .about("What would happen to a call, and why, without running it")
        .arg(arg("tool", "TOOL", "The tool's name").required_unless_present("batch"))
        .arg(arg("input", "INPUT", "What it is given, if it needs anything: JSON, or its one text"))
        .arg(json("One JSON object"))
        .arg(
            value(
                "batch",
                "FILE",
                "A {\"tool\", \"input\"} per line, answered a line each; - is standard input",
            )
            .value_parser(value_parser!(PathBuf))
            .conflicts_with("tool"),
        )
        .arg(flag("run-hooks", "Ask hooks that are programs, too; they are told it is a dry run"))
        .args(shape_args())
}

fn mcp() -> clap::Command {
    clap::Command::new("mcp")
        .about("List what MCP servers offer, and accept what changed")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            clap::Command::new("list")
                .about("The servers of your settings, and what they were seen to offer")
                .arg(json("One JSON object per line")),
        )
        .subcommand(
            clap::Command::new("accept")
                .about("Show what of a server changed and waits; with its digest, accept it")
                .arg(
                    Arg::new("server")
                        .value_name("SERVER")
                        .required(true)
                        .help("The server's name"),
                )
                .arg(Arg::new("digest").value_name("DIGEST").help("What was shown, by its digest")),
        )
}

fn permissions() -> clap::Command {
    clap::Command::new("permissions")
        .about("List the rules in force, and take one back")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            clap::Command::new("list")
                .about("The rules there are, whose they are and where they stand")
                .arg(json("One JSON object per line")),
        )
        .subcommand(
            clap::Command::new("revoke").about("Take an allow rule out of your settings").arg(
                Arg::new("rule").value_name("RULE").required(true).help("The rule as it is listed"),
            ),
        )
}

fn init() -> clap::Command {
    clap::Command::new("init")
        .about("Begin a project's own folder: a hook, a rule, a skill, a command, an agent")
        .arg(
            Arg::new("folder")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("The folder to begin it in; without it, the project's root"),
        )
}

fn schema() -> clap::Command {
    clap::Command::new("schema")
        .about("Print the JSON Schema of a file, for editors, or of what hooks read and answer")
        .arg(Arg::new("name").value_name("NAME").help("Which one; without it, all are listed"))
}

fn trust() -> clap::Command {
    clap::Command::new("trust")
        .about("Show what a project brings, and let it run")
        .arg(path().help("A folder of the project, or a `.cotter` folder or `.mcp.json` by itself"))
        .arg(flag("print", "Show it, with its hash, and decide nothing"))
        .arg(
            flag("show", "Show it with the text of every file, and decide nothing")
                .conflicts_with("print"),
        )
        .arg(
            flag("rewrite", "Let its hooks rewrite calls and results too")
                .conflicts_with_all(["print", "show"]),
        )
        .arg(
            flag("list", "Everything you trust on this machine")
                .conflicts_with_all(["path", "print", "show", "rewrite"]),
        )
        .arg(json("With --list: one JSON object per line").requires("list"))
}

fn untrust() -> clap::Command {
    clap::Command::new("untrust")
        .about("Take trust back")
        .arg(path().help("What was trusted, or a folder of its project"))
}

fn path() -> Arg {
    Arg::new("path").value_name("PATH").value_parser(value_parser!(PathBuf))
}

fn sessions() -> clap::Command {
    clap::Command::new("sessions")
        .about("List and show stored sessions")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            clap::Command::new("list")
                .about("The sessions there are, the last one first")
                .arg(json("One JSON object per line")),
        )
        .subcommand(
            clap::Command::new("show")
                .about("The conversation of a session")
                .arg(id())
                .arg(json("The entries as they are stored, one JSON object per line")),
        )
}

fn ledger() -> clap::Command {
    clap::Command::new("ledger")
        .about("Every decision about every tool call of a session")
        .arg(
            id().required(false)
                .help("A session's id, or the beginning of it; without it, the folder's last"),
        )
        .disable_help_subcommand(true)
        .subcommand(
            clap::Command::new("verify")
                .about("Check that no row of the ledger is missing, changed or out of order")
                .arg(value("head", "HASH", "A hash of this ledger that was kept elsewhere")),
        )
}

fn run_args() -> Vec<Arg> {
    vec![
        Arg::new("prompt").value_name("PROMPT").help("What to do; piped input is added as data"),
        flag("print", "Run one prompt and print the answer").short('p'),
        value("output-format", "FORMAT", "How the run is told: text, json, stream-json")
            .value_parser(["text", "json", "stream-json"])
            .hide_possible_values(true),
        value("model", "MODEL", "Who answers: provider/model, or `rehearsal`, an offline stand-in")
            .conflicts_with("script"),
        value("fallback-model", "MODEL", "Who answers when the ones before fail; may be repeated")
            .action(ArgAction::Append),
        value("script", "FILE", "Let a script answer: steps in a JSON file")
            .value_parser(value_parser!(PathBuf)),
        value("record-cassette", "FILE", "Write what is said to providers to a new file")
            .value_parser(value_parser!(PathBuf))
            .conflicts_with("script"),
        value("cassette", "FILE", "Let such a file answer; nothing is sent")
            .value_parser(value_parser!(PathBuf))
            .conflicts_with_all(["script", "record-cassette"]),
        flag("continue", "Go on with the last session of this folder")
            .conflicts_with_all(["resume", "no-session"]),
        value("resume", "ID", "Go on with a session; the beginning of its id is enough")
            .conflicts_with("no-session"),
        flag("no-session", "Keep nothing"),
        flag("ask", "Put questions on the terminal instead of refusing what would ask"),
        value("max-turns", "N", "The most requests of this run, and of each subagent")
            .allow_negative_numbers(true)
            .value_parser(value_parser!(u32).range(1..)),
        value("max-budget-usd", "X", "The most this run may cost, in dollars")
            .allow_negative_numbers(true)
            .value_parser(dollars),
        value("cwd", "DIR", "The folder to work in").value_parser(value_parser!(PathBuf)),
        value("add-dir", "DIR", "A further folder that may be read and written; may be repeated")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf)),
        value("mcp", "FILE", "MCP servers for this run, in a file; may be repeated")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf)),
    ]
}

/// What decides what a run has.
fn shape_args() -> Vec<Arg> {
    let modes = Mode::WORDS.iter().map(|(word, _)| *word);
    vec![
        value("settings", "FILE", "Settings for this run, nearer than your own")
            .value_parser(value_parser!(PathBuf)),
        value("agent", "AGENT", "Who runs: an agent's name, or the path of a profile's agent.json"),
        value("space", "ID", "Load a space; may be repeated")
            .action(ArgAction::Append)
            .value_parser(space_id),
        value(
            "permission-mode",
            "MODE",
            "What becomes of calls that no rule decides: ask, accept-edits, plan, auto",
        )
        .value_parser(PossibleValuesParser::new(modes))
        .hide_possible_values(true),
        value("without", "NAME", "Run without a hook; may be repeated").action(ArgAction::Append),
        flag(
            "safe-mode",
            "Use nothing that the project or a space brings: no hooks, skills, servers, notes",
        )
        .conflicts_with("space"),
    ]
}

/// What becomes of what the project brings.
fn trust_args() -> Vec<Arg> {
    vec![
        value("trust", "HASH", "Use what the project brings: ask about it, or trust this hash")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("")
            .action(ArgAction::Append)
            .value_parser(trusted)
            .conflicts_with("safe-mode"),
        flag("require-trust", "Do not run where something of the project is not trusted")
            .conflicts_with("safe-mode"),
    ]
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn value(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn json(help: &'static str) -> Arg {
    flag("json", help)
}

fn id() -> Arg {
    Arg::new("id").value_name("ID").required(true).help("A session's id, or the beginning of it")
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

/// A hash, or nothing, which asks.
fn trusted(text: &str) -> Result<Option<Hash>, &'static str> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

fn command(matches: &ArgMatches) -> Result<Command, CliError> {
    match matches.subcommand() {
        Some(("hooks", matches)) => Ok(hooks_of(matches)),
        Some((word @ ("skills" | "commands" | "agents"), matches)) => Ok(named(word, matches)),
        Some(("models", matches)) => {
            let json = matches.subcommand().is_some_and(|(_, list)| list.get_flag("json"));
            Ok(Command::ModelsList { json })
        }
        Some(("sessions", matches)) => Ok(match matches.subcommand() {
            Some(("show", matches)) => {
                Command::SessionsShow { id: id_of(matches), json: matches.get_flag("json") }
            }
            Some((_, matches)) => Command::SessionsList { json: matches.get_flag("json") },
            None => Command::SessionsList { json: false },
        }),
        Some(("spaces", matches)) => Ok(spaces_of(matches)),
        Some(("doctor", matches)) => Ok(Command::Doctor { json: matches.get_flag("json") }),
        Some(("explain", matches)) => Ok(explain_of(matches)),
        Some(("mcp", matches)) => Ok(match matches.subcommand() {
            Some(("accept", matches)) => Command::McpAccept {
                server: text_of(matches, "server").unwrap_or_default(),
                digest: text_of(matches, "digest"),
            },
            Some((_, matches)) => Command::McpList { json: matches.get_flag("json") },
            None => Command::McpList { json: false },
        }),
        Some(("permissions", matches)) => Ok(match matches.subcommand() {
            Some(("revoke", matches)) => {
                Command::PermissionsRevoke { rule: text_of(matches, "rule").unwrap_or_default() }
            }
            Some((_, matches)) => Command::PermissionsList { json: matches.get_flag("json") },
            None => Command::PermissionsList { json: false },
        }),
        Some(("trust", matches)) => Ok(trust_verb(matches)),
        Some(("init", matches)) => Ok(Command::Init { folder: path_of(matches, "folder") }),
        Some(("schema", matches)) => Ok(Command::Schema { name: text_of(matches, "name") }),
        Some(("untrust", matches)) => Ok(Command::Untrust { path: path_of(matches, "path") }),
        Some(("ledger", matches)) => Ok(match matches.subcommand() {
            Some((_, verify)) => {
                Command::LedgerVerify { id: text_of(matches, "id"), head: text_of(verify, "head") }
            }
            None => Command::Ledger { id: text_of(matches, "id") },
        }),
        Some((word, _)) => unreachable!("`{word}` has a row in `definition` and no arm here"),
        None => run_of(matches).map(|args| Command::Run(Box::new(args))),
    }
}

fn trust_verb(matches: &ArgMatches) -> Command {
    let path = path_of(matches, "path");
    let is = |flag: &str| matches.get_flag(flag);
    match (is("list"), is("print"), is("show")) {
        (true, ..) => Command::TrustList { json: is("json") },
        (_, true, _) => Command::TrustShow { path, how: TrustDetail::AtNames },
        (.., true) => Command::TrustShow { path, how: TrustDetail::AtTexts },
        _ => Command::Trust { path, rewrite: is("rewrite") },
    }
}

fn spaces_of(matches: &ArgMatches) -> Command {
    let typed = |matches, name| text_of(matches, name).unwrap_or_default();
    Command::Spaces(match matches.subcommand() {
        Some(("check", matches)) => return check_of(FileKind::Spaces, matches),
        Some(("add", matches)) => SpacesVerb::Add {
            source: typed(matches, "source"),
            rev: text_of(matches, "rev"),
            rewrite: matches.get_flag("rewrite"),
        },
        Some(("remove", matches)) => SpacesVerb::Remove { id: typed(matches, "id") },
        Some(("new", matches)) => SpacesVerb::New { id: typed(matches, "id") },
        Some(("update", matches)) => {
            SpacesVerb::Update { id: text_of(matches, "id"), rewrite: matches.get_flag("rewrite") }
        }
        list => SpacesVerb::List { json: list.is_some_and(|(_, list)| list.get_flag("json")) },
    })
}

fn explain_of(matches: &ArgMatches) -> Command {
    let hooks = if matches.get_flag("run-hooks") { HookMode::Asked } else { HookMode::Listed };
    let shape = Box::new(shape_of(matches));
    match path_of(matches, "batch") {
        Some(file) => Command::ExplainBatch { file, hooks, shape },
        None => Command::Explain {
            tool: text_of(matches, "tool").unwrap_or_default(),
            input: text_of(matches, "input"),
            hooks,
            json: matches.get_flag("json"),
            shape,
        },
    }
}

fn hooks_of(matches: &ArgMatches) -> Command {
    match matches.subcommand() {
        Some(("test", matches)) => Command::HooksTest(Box::new(HooksTestArgs {
            point: text_of(matches, "point").unwrap_or_default(),
            tool: text_of(matches, "tool"),
            input: text_of(matches, "input"),
            result: text_of(matches, "result"),
            prompt: text_of(matches, "prompt"),
            json: matches.get_flag("json"),
            shape: shape_of(matches),
        })),
        Some(("check", matches)) => check_of(FileKind::Hooks, matches),
        Some(("log", matches)) => Command::HooksLog(HooksLogArgs {
            session: text_of(matches, "session"),
            follow: matches.get_flag("follow"),
            all: matches.get_flag("all"),
            json: matches.get_flag("json"),
        }),
        Some((_, list)) => {
            let shape = Box::new(shape_of(list));
            Command::HooksList { json: list.get_flag("json"), shape }
        }
        None => Command::HooksList { json: false, shape: Box::default() },
    }
}

/// A command about what is called by name.
fn named(word: &str, matches: &ArgMatches) -> Command {
    let (kind, files) = match word {
        "skills" => (NameKind::Skill, FileKind::Skills),
        "agents" => (NameKind::Subagent, FileKind::Agents),
        _ => (NameKind::Command, FileKind::Commands),
    };
    let json = matches.subcommand().is_some_and(|(_, list)| list.get_flag("json"));
    let typed = |matches, name| text_of(matches, name).unwrap_or_default();
    match matches.subcommand() {
        Some(("check", matches)) => check_of(files, matches),
        Some(("show", matches)) => Command::SkillsShow { name: typed(matches, "name"), json },
        Some(("match", matches)) => Command::SkillsMatch { task: typed(matches, "task"), json },
        _ => Command::NamesList { kind, json },
    }
}

fn check_of(kind: FileKind, matches: &ArgMatches) -> Command {
    let path = path_of(matches, "path").unwrap_or_default();
    Command::Check { kind, path, json: matches.get_flag("json") }
}

fn run_of(matches: &ArgMatches) -> Result<RunArgs, CliError> {
    let prompt = text_of(matches, "prompt");
    if !matches.get_flag("print") {
        return Err(no_chat(prompt.as_deref()));
    }
    Ok(RunArgs {
        prompt,
        format: match text_of(matches, "output-format").as_deref() {
            Some("json") => Format::Json,
            Some("stream-json") => Format::StreamJson,
            _ => Format::Text,
        },
        model: match (path_of(matches, "script"), text_of(matches, "model")) {
            (Some(script), _) => ModelArg::Script(script),
            (None, Some(name)) => ModelArg::Named(name),
            (None, None) => ModelArg::Unsaid,
        },
        fallbacks: matches.get_many("fallback-model").into_iter().flatten().cloned().collect(),
        cassette: match (path_of(matches, "record-cassette"), path_of(matches, "cassette")) {
            (Some(path), _) => Some(Cassette::Record(path)),
            (None, Some(path)) => Some(Cassette::Play(path)),
            (None, None) => None,
        },
        session: match text_of(matches, "resume") {
            Some(id) => SessionArg::Of(id),
            None if matches.get_flag("continue") => SessionArg::Last,
            None if matches.get_flag("no-session") => SessionArg::Nowhere,
            None => SessionArg::New,
        },
        max_turns: matches.get_one("max-turns").copied(),
        max_budget_usd: matches.get_one("max-budget-usd").copied(),
        cwd: path_of(matches, "cwd"),
        add_dirs: matches.get_many("add-dir").into_iter().flatten().cloned().collect(),
        mcp: matches.get_many("mcp").into_iter().flatten().cloned().collect(),
        shape: shape_of(matches),
        trust: trust_of(matches),
        ask: matches.get_flag("ask"),
    })
}

fn shape_of(matches: &ArgMatches) -> SetupArgs {
    SetupArgs {
        settings: path_of(matches, "settings"),
        agent: text_of(matches, "agent"),
        spaces: matches.get_many("space").into_iter().flatten().cloned().collect(),
        mode: text_of(matches, "permission-mode").and_then(|word| word.parse().ok()),
        safe_mode: matches.get_flag("safe-mode"),
        without: matches.get_many("without").into_iter().flatten().cloned().collect(),
    }
}

fn trust_of(matches: &ArgMatches) -> TrustArgs {
    let given = || matches.get_many::<Option<Hash>>("trust").into_iter().flatten();
    TrustArgs {
        ask: given().any(Option::is_none),
        hashes: given().filter_map(|hash| *hash).collect(),
        require: matches.get_flag("require-trust"),
    }
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

/// The command that a word may be meant for.
fn near_command(word: &str) -> Option<String> {
    let table = definition();
    text::nearest(word, table.get_subcommands().map(clap::Command::get_name)).map(str::to_owned)
}

fn id_of(matches: &ArgMatches) -> String {
    text_of(matches, "id").unwrap_or_default()
}

fn text_of(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.get_one::<String>(name).cloned()
}

fn path_of(matches: &ArgMatches, name: &str) -> Option<PathBuf> {
    matches.get_one::<PathBuf>(name).cloned()
}

/// The parser's own words in our order: what is wrong, then what to do. `typed` is the first argument.
fn complaint(rendered: &str, typed: Option<&str>) -> CliError {
    let mut lines = rendered.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let wrong = first.strip_prefix("error: ").unwrap_or(first);
    // It takes whatever follows the prompt for a command.
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
    let mut hint = format!("`cotter{} --help` shows what may be typed", command_in(usage));
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

/// The command that a line of usage is of, each of its words after a blank.
fn command_in(usage: Option<&str>) -> String {
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
    fn the_table_is_sound() {
        definition().debug_assert();
    }
}
