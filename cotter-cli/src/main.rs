//! `cotter`: the command line.
//!
//! `cli` is the one table of what may be typed; each command is a file in `commands`. Everything that
//! looks around (folders, variables, terminals) is here, and nothing of it in the library.

pub(crate) mod args;
pub(crate) mod commands;
pub(crate) mod error;
pub(crate) mod models;
pub(crate) mod paths;
pub(crate) mod settings;
pub(crate) mod setup;
pub(crate) mod spaces;
pub(crate) mod terminal;
pub(crate) mod trust;

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use cotter::invoke::named_item::NameKind;

use crate::{
    args::{CliArgs, Command},
    error::CliError,
    terminal::style::Style,
};

fn main() -> ExitCode {
    // A process that starts the agent's commands is this program too; it never comes back from here.
    cotter_tools::process::serve_if_asked();
    let args: Vec<OsString> = env::args_os().collect();
    // Before the parser is built: this is what scripts and prompts ask for again and again.
    if matches!(args.as_slice(), [_, only] if only == "--version" || only == "-V") {
        return say(concat!("cotter ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    let CliArgs { style, command } = match args::parse(args) {
        Ok(parsed) => parsed,
        Err(args::ParseExit::Help(text)) => return say(&text),
        Err(args::ParseExit::Wrong(failure)) => {
            return failure.report(Style::on_stderr(terminal::style::ColorChoice::Auto));
        }
    };
    if let Some(failure) = by_an_agent(&command) {
        return failure.report(Style::on_stderr(style));
    }
    let done = match command {
        Command::Run(args) => commands::run::run(*args, style),
        Command::NamesList { kind: NameKind::Skill, json } => commands::skills::list(json, style),
        Command::NamesList { kind, json } => commands::names::list(kind, json, style),
        Command::SkillsShow { name, json } => commands::skills::show(&name, json, style),
        Command::SkillsMatch { task, json } => commands::skills::matching(&task, json, style),
        Command::Check { kind, path, json } => commands::check::files(kind, &path, json, style),
        Command::HooksList { json, shape } => commands::hooks::list(json, &shape, style),
        Command::HooksLog(args) => commands::hooks::log::log(&args, style),
        Command::HooksTest(args) => commands::hooks::test::test(&args, style),
        Command::Doctor { json } => commands::doctor::doctor(json, style),
        Command::ModelsList { json } => commands::models::list(json, style),
        Command::SessionsList { json } => commands::sessions::list(json),
        Command::SessionsShow { id, json } => commands::sessions::show(&id, json, style),
        Command::Explain { tool, input, hooks, json, shape } => {
            let asked = (tool.as_str(), input.as_deref());
            commands::explain::one(asked, hooks, &shape, json, style)
        }
        Command::ExplainBatch { file, hooks, shape } => {
            commands::explain::batch(&file, hooks, &shape)
        }
        Command::McpList { json } => commands::mcp::list(json, style),
        Command::McpAccept { server, digest } => commands::mcp::accept(&server, digest.as_deref()),
        Command::PermissionsList { json } => commands::permissions::list(json, style),
        Command::PermissionsRevoke { rule } => commands::permissions::revoke(&rule),
        Command::Spaces(verb) => commands::spaces::run(verb, style),
        Command::TrustShow { path, how } => commands::trust::print(path.as_deref(), how),
        Command::Trust { path, rewrite } => commands::trust::trust(path.as_deref(), rewrite, style),
        Command::Init { folder } => commands::init::init(folder.as_deref()),
        Command::Schema { name } => commands::schema::schema(name.as_deref()),
        Command::TrustList { json } => commands::trust::list(json, style),
        Command::Untrust { path } => commands::trust::untrust(path.as_deref()),
        Command::Ledger { id } => commands::ledger::show(id.as_deref()),
        Command::LedgerVerify { id, head } => {
            commands::ledger::verify(id.as_deref(), head.as_deref())
        }
    };
    done.unwrap_or_else(|failure: CliError| failure.report(Style::on_stderr(style)))
}

/// Whatever an agent starts may look, and no more: it does not answer, allow or go on for anybody.
fn by_an_agent(command: &Command) -> Option<CliError> {
    env::var_os(cotter_tools::process::environment::MARK)?;
    (!command.only_looks()).then(|| {
        let message = "an agent started this, and agents may only look: `explain`, `list`, `show`";
        CliError::refused(message).with_hint("run it yourself, in a terminal of your own")
    })
}

/// Writes to standard output. A reader who left is no error.
fn say(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
