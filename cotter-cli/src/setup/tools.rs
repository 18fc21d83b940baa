//! The tools of every agent here, and how their commands run.

use std::{env, path::PathBuf};

use cotter::{
    AgentBuilder, Workspace,
    text::{self, redact::Redactor},
};
use cotter_files::settings::{MergedSettings, mcp_servers::Servers};
use cotter_tools::{
    agents::{ask_user::AskUser, delegate::Delegate},
    bash::{Bash, background::background},
    fetch, files,
    hooks::{HookRunner, webhook::Webhooks},
    mcp::{Mcp, McpHost},
    memory::{self, Memory},
    process::{Runner, environment::Environment},
};

use crate::{
    error::CliError, paths as home, paths::operator_switches::OperatorSwitches,
    setup::access as roots,
};

/// Gives an agent its tools, but for those of servers.
pub(crate) fn furnish(
    builder: AgentBuilder,
    runner: &Runner,
    workspace: &Workspace,
) -> Result<AgentBuilder, CliError> {
    let builder = builder
        .extend(files::tools)
        .extend(fetch::tools)
        .tool(Bash::new(runner.clone()))
        .extend(background(runner.clone()))
        .hook(AskUser::default())
        .hook(Delegate);
    let Some(folder) = home::memory() else { return Ok(builder) };
    let folder = folder.join(memory::project_key(workspace.project()));
    let memory = Memory::open(&folder).map_err(|cause| {
        CliError::new(format!("cannot use {}", folder.display())).with_cause(cause)
    })?;
    Ok(builder.config(|config| config.memory = true).hook(memory))
}

/// How commands run: with little of our environment, confined as settings say.
pub(crate) fn runner(values: &MergedSettings) -> Result<Runner, CliError> {
    let named: Vec<_> = values.reach.environment.iter().map(|name| name.text.as_str()).collect();
    let runner = Runner::new(this_program())
        .with_sandbox(values.sandbox.unwrap_or_default())
        .with_environment(Environment::chosen(env::vars_os(), &named))
        .with_caches(roots::caches(&values.reach)?)
        .with_temp_below(&env::temp_dir());
    Ok(runner)
}

/// Who starts the programs of hooks.
pub(crate) fn hooks(runner: &Runner, redactor: Redactor) -> Result<HookRunner, CliError> {
    let webhooks = OperatorSwitches::read()?.webhooks;
    let hooks = HookRunner::new(runner.clone(), env::vars_os());
    Ok(hooks.with_posts(Webhooks::clone(&webhooks), redactor))
}

/// The tools of servers. Those that were not seen before are started; what is the matter with one is
/// told on standard error.
pub(crate) async fn servers(
    servers: Servers,
    runner: &Runner,
    workspace: &Workspace,
) -> Result<Option<Mcp>, CliError> {
    if servers.is_empty() {
        return Ok(None);
    }
    let mcp = Mcp::open(servers, surroundings(runner, workspace)).await;
    let mcp = mcp.map_err(|cause| CliError::new("MCP servers cannot be used").with_cause(cause))?;
    for diagnostic in mcp.take_diagnostics() {
        crate::terminal::screen::tell(&format!(
            "warning: {}",
            text::show_line(&diagnostic.to_string())
        ));
    }
    Ok(Some(mcp))
}

/// The tools of servers that were seen before. None is started.
pub(crate) fn seen_servers(
    servers: Servers,
    runner: &Runner,
    workspace: &Workspace,
) -> Result<Option<Mcp>, CliError> {
    if servers.is_empty() {
        return Ok(None);
    }
    let mcp = Mcp::open_pinned(servers, surroundings(runner, workspace));
    mcp.map(Some).map_err(|cause| CliError::new("MCP servers cannot be used").with_cause(cause))
}

fn surroundings(runner: &Runner, workspace: &Workspace) -> McpHost {
    let around =
        McpHost::new(workspace.clone()).with_variables(env::vars_os()).with_runner(runner.clone());
    match home::mcp_definitions() {
        Some(file) => around.with_definitions(file),
        None => around,
    }
}

/// The program that is running; on Linux also after its file was replaced.
fn this_program() -> PathBuf {
    match cfg!(target_os = "linux") {
        true => "/proc/self/exe".into(),
        false => env::current_exe().unwrap_or_default(),
    }
}
