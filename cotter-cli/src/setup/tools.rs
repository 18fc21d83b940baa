//! The tools of every agent, and the runners that start the commands of tools and hooks.

use std::{env, path::PathBuf};

use cotter::{
    AgentBuilder, Workspace,
    text::{self, redact::Redactor},
};
use cotter_files::settings::{MergedSettings, mcp_servers::Servers};
use cotter_models::BUILT_IN_PROVIDERS;
use cotter_tools::{
    agents::{ask_user::AskUser, delegate::Delegate},
    bash::{Bash, background::background},
    confine::Sandbox,
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

/// Adds all tools except those of MCP servers. A hook can provide tools too: `AskUser`, `Delegate` and
/// `Memory` are hooks that do.
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
    // The hook offers its tools only to agents with `config.memory`.
    Ok(builder.config(|config| config.memory = true).hook(memory))
}

/// Creates the runner of commands. Settings decide how it confines commands. Commands get a short list of
/// environment variables, such as `HOME` and `PATH`, and those that settings name. Their private temporary
/// folder is created inside the temporary folder of this machine.
pub(crate) fn runner(values: &MergedSettings) -> Result<Runner, CliError> {
    let variables = values.access.environment.iter();
    let extra_variables: Vec<_> = variables.map(|name| name.text.as_str()).collect();
    let runner = Runner::new(this_program())
        .with_sandbox(values.sandbox.unwrap_or_default())
        .with_environment(Environment::chosen(env::vars_os(), &extra_variables))
        .with_caches(access::caches(&values.access)?)
        .with_temp_below(&env::temp_dir());
    Ok(runner)
}

/// Describes what stays open to confined commands because they have no view of the files.
pub(crate) fn describe_missing_view(runner: &Runner) -> String {
    let build = match runner.sandbox() {
        Sandbox::Landlock => "code of the project runs without it (`\"sandbox\": \"landlock\"`)",
        _ => "code of the project asks (`\"sandbox\": \"landlock\"` would let it run)",
    };
    format!(
        "none: commands may change modes and times of your files, read secrets in the project and \
         write protected names deeper in it; {build}"
    )
}

/// Creates the runner of hook programs. The variables with keys of models are hidden from hooks.
pub(crate) fn hook_runner(
    runner: &Runner,
    values: &MergedSettings,
    redactor: Redactor,
) -> Result<HookRunner, CliError> {
    let built_in = BUILT_IN_PROVIDERS.iter().filter_map(|provider| provider.key_variable);
    let own = values.providers.values().filter_map(|provider| provider.api_key_variable.as_deref());
    let hidden = built_in.chain(own).map(Into::into);
    let shared_webhooks = OperatorSwitches::read()?.webhooks;
    // The switches share the value in an `Arc`; the runner takes a copy of its own.
    let webhooks = Webhooks::clone(&shared_webhooks);
    let hooks = HookRunner::new(runner.clone(), env::vars_os()).with_hidden(hidden);
    let hooks = hooks.with_roots(access::hook_roots(&values.access)?);
    Ok(hooks.with_webhooks(webhooks, redactor))
}

/// Opens MCP servers and returns the hook that provides their tools. `None` if there are no servers. A server
/// whose tool definitions are not stored yet is started; its errors go to standard error.
pub(crate) async fn open_servers(
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

/// Returns the hook that provides the tools of the MCP servers whose tool definitions are stored (`pinned` in
/// [`Mcp`]). `None` if there are no servers. Starts no server.
pub(crate) fn open_stored_servers(
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

/// Returns the path of the running program. On Linux it stays valid after the file was replaced. Other Unix
/// systems have no `/proc/self/exe`; Cotter compiles there but is not tested.
fn this_program() -> PathBuf {
    match cfg!(target_os = "linux") {
        true => "/proc/self/exe".into(),
        false => env::current_exe().unwrap_or_default(),
    }
}
