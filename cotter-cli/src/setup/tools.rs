//! The tools of every agent, and how their commands run.

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
    error::CliError,
    paths::{self, operator_switches::OperatorSwitches},
    setup::access,
};

/// Adds all tools except those of MCP servers.
pub(crate) fn add_tools(
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
    let Some(folder) = paths::memory() else { return Ok(builder) };
    let folder = folder.join(memory::project_key(workspace.project()));
    let memory = Memory::open(&folder).map_err(|cause| {
        CliError::new(format!("cannot use {}", folder.display())).with_cause(cause)
    })?;
    Ok(builder.config(|config| config.memory = true).hook(memory))
}

/// Creates the runner of commands: with few environment variables, confined as settings say.
pub(crate) fn runner(values: &MergedSettings) -> Result<Runner, CliError> {
    let named: Vec<_> = values.access.environment.iter().map(|name| name.text.as_str()).collect();
    let runner = Runner::new(this_program())
        .with_sandbox(values.sandbox.unwrap_or_default())
        .with_environment(Environment::chosen(env::vars_os(), &named))
        .with_caches(access::caches(&values.access)?)
        .with_temp_below(&env::temp_dir());
    Ok(runner)
}

/// Creates the runner of hook programs.
pub(crate) fn hooks(runner: &Runner, redactor: Redactor) -> Result<HookRunner, CliError> {
    let webhooks = OperatorSwitches::read()?.webhooks;
    let hooks = HookRunner::new(runner.clone(), env::vars_os());
    Ok(hooks.with_webhooks(Webhooks::clone(&webhooks), redactor))
}

/// Returns the tools of MCP servers. Servers without stored definitions are started; errors of a server go to
/// standard error.
pub(crate) async fn servers(
    servers: Servers,
    runner: &Runner,
    workspace: &Workspace,
) -> Result<Option<Mcp>, CliError> {
    if servers.is_empty() {
        return Ok(None);
    }
    let mcp = Mcp::open(servers, mcp_host(runner, workspace)).await;
    let mcp = mcp.map_err(|cause| CliError::new("cannot use MCP servers").with_cause(cause))?;
    for diagnostic in mcp.take_diagnostics() {
        crate::terminal::screen::print_notice(&format!(
            "warning: {}",
            text::show_line(&diagnostic.to_string())
        ));
    }
    Ok(Some(mcp))
}

/// Returns the tools of MCP servers with stored definitions. Starts no server.
pub(crate) fn pinned_servers(
    servers: Servers,
    runner: &Runner,
    workspace: &Workspace,
) -> Result<Option<Mcp>, CliError> {
    if servers.is_empty() {
        return Ok(None);
    }
    let mcp = Mcp::open_pinned(servers, mcp_host(runner, workspace));
    mcp.map(Some).map_err(|cause| CliError::new("cannot use MCP servers").with_cause(cause))
}

fn mcp_host(runner: &Runner, workspace: &Workspace) -> McpHost {
    let host =
        McpHost::new(workspace.clone()).with_variables(env::vars_os()).with_runner(runner.clone());
    match paths::mcp_definitions() {
        Some(file) => host.with_definitions(file),
        None => host,
    }
}

/// Returns the path of the running program. On Linux it stays valid after the file was replaced.
fn this_program() -> PathBuf {
    match cfg!(target_os = "linux") {
        true => "/proc/self/exe".into(),
        false => env::current_exe().unwrap_or_default(),
    }
}
