//! `cotter`: the command line.
//!
//! Only this crate reads folders, variables and terminals. The library does none of this.

// The rooms, from top to bottom. A room uses only the rooms below it.
//
// One file per command.
mod commands;
// Builds an agent from settings and flags.
mod setup;
// The spaces of a person or a project.
mod spaces;
// The available models, and the choice of one.
mod models;
// The settings files that apply.
mod settings;
// The sources in a project, and the trust in each.
mod trust;
// The arguments of every command.
mod args;
// Folders and files on this machine.
mod paths;
// Questions, screen, colour and tables.
mod terminal;
// The effect of signals.
mod signals;
// The error that every command returns.
mod error;

use std::{env, ffi::OsString, process::ExitCode};

use cotter::invoke::named_item::NameKind;
use cotter_files::extensions::FileKind;

use crate::{
    args::{
        AgentsVerb, CheckArgs, Command, CommandsVerb, HooksVerb, LedgerVerb, McpVerb, ModelsVerb,
        PermissionsVerb, SessionsVerb, SkillsVerb,
    },
    error::CliError,
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style},
    },
};

fn main() -> ExitCode {
    // A process that starts the agent's commands is this program too. That process never returns from here.
    cotter_tools::process::run_spawner_if_requested();
    let args: Vec<OsString> = env::args_os().collect();
    // Answered before the parser is built, because scripts and prompts ask for the version often.
    if matches!(args.as_slice(), [_, only] if only == "--version" || only == "-V") {
        return print_stdout(concat!("cotter ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    let (style, command) = match args::parse(args) {
        Ok(parsed) => parsed,
        Err(args::ParseExit::Help(text)) => return print_stdout(&text),
        Err(args::ParseExit::Error(failure)) => {
            return failure.report(Style::on_stderr(ColorChoice::Auto));
        }
    };
    if let Some(failure) = refuse_if_agent(&command) {
        return failure.report(Style::on_stderr(style));
    }
    let done = run_command(command, style);
    done.unwrap_or_else(|failure| failure.report(Style::on_stderr(style)))
}

fn run_command(command: Command, color: ColorChoice) -> Result<ExitCode, CliError> {
    use commands::{check, hooks, ledger, mcp, models, names, permissions, sessions, skills};
    let check = |kind, args: CheckArgs| check::files(kind, &args.path, args.json, color);
    match command {
        Command::Run(args) => commands::run::run(*args, color),
        Command::Skills(verb) => match verb {
            SkillsVerb::List(args) => skills::list(args.json, color),
            SkillsVerb::Show { name, json } => skills::show(&name, json, color),
            SkillsVerb::Match { task, json } => skills::matching(&task, json, color),
            SkillsVerb::Check(args) => check(FileKind::Skills, args),
        },
        Command::Hooks(verb) => match verb {
            HooksVerb::List { json, setup_args } => hooks::list(json, &setup_args, color),
            HooksVerb::Log(args) => hooks::log::log(&args, color),
            HooksVerb::Test(args) => hooks::test::test(&args, color),
            HooksVerb::Dev(args) => hooks::test::dev(&args, color),
            HooksVerb::Check(args) => check(FileKind::Hooks, args),
        },
        Command::Commands(CommandsVerb::List(args)) => {
            names::list(NameKind::Command, args.json, color)
        }
        Command::Commands(CommandsVerb::Check(args)) => check(FileKind::Commands, args),
        Command::Agents(AgentsVerb::List(args)) => {
            names::list(NameKind::Subagent, args.json, color)
        }
        Command::Agents(AgentsVerb::Check(args)) => check(FileKind::Agents, args),
        Command::Models(ModelsVerb::List(args)) => models::list(args.json, color),
        Command::Spaces(verb) => commands::spaces::run(verb, color),
        Command::Doctor { json } => commands::doctor::doctor(json, color),
        Command::Explain(args) => commands::explain::explain(&args, color),
        Command::Mcp(McpVerb::List(args)) => mcp::list(args.json, color),
        Command::Mcp(McpVerb::Accept { server, digest }) => mcp::accept(&server, digest.as_deref()),
        Command::Permissions(PermissionsVerb::List(args)) => permissions::list(args.json, color),
        Command::Permissions(PermissionsVerb::Revoke { rule }) => permissions::revoke(&rule),
        Command::Init { folder } => commands::init::init(folder.as_deref()),
        Command::Schema { name } => commands::schema::schema(name.as_deref()),
        Command::Trust(args) => commands::trust::run(&args, color),
        Command::Untrust { path } => commands::trust::untrust(path.as_deref()),
        Command::Sessions(SessionsVerb::List(args)) => sessions::list(args.json),
        Command::Sessions(SessionsVerb::Show { id, json }) => sessions::show(&id, json, color),
        Command::Ledger { id, verb: None } => ledger::show(id.as_deref()),
        Command::Ledger { id, verb: Some(LedgerVerb::Verify { head }) } => {
            ledger::verify(id.as_deref(), head.as_deref())
        }
    }
}

/// Refuses a command that changes something if an agent started this process. An agent may only run read-only
/// commands.
fn refuse_if_agent(command: &Command) -> Option<CliError> {
    env::var_os(cotter_tools::process::environment::MARK)?;
    (!command.is_read_only()).then(|| {
        let message = "an agent may only run read-only commands: `explain`, `list`, `show`";
        CliError::refused(message).with_hint("run it yourself in a terminal")
    })
}
