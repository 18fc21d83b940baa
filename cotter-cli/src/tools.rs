//! The tools of every agent here, and how their commands run.

use std::env;

use cotter::{
    AgentBuilder, Place,
    builtin::{List, Read},
    settings::Values,
};
use cotter_tools::{
    ask_user::AskUser,
    bash::Bash,
    delegate::Delegate,
    memory::{self, Memory},
    process::{Environment, Runner},
};

use crate::{failure::Failure, home, roots};

/// Gives an agent its tools.
pub(crate) fn furnish(
    builder: AgentBuilder,
    values: &Values,
    place: &Place,
) -> Result<AgentBuilder, Failure> {
    let runner = runner(values)?;
    let mut builder = builder
        .tool(Read::default())
        .tool(List::default())
        .tool(Bash::new(runner))
        .hook(AskUser::default())
        .hook(Delegate);
    if let Some(folder) = home::memory() {
        let folder = folder.join(memory::project_key(place.project()));
        let memory = Memory::open(&folder).map_err(|cause| {
            Failure::new(format!("cannot use {}", folder.display())).with_cause(cause)
        })?;
        builder = builder.config(|config| config.memory = true).hook(memory);
    }
    Ok(builder)
}

/// How commands run: with little of our environment, confined as settings say.
fn runner(values: &Values) -> Result<Runner, Failure> {
    let named: Vec<_> = values.reach.environment.iter().map(|name| name.text.as_str()).collect();
    // The program that is running, also after its file was replaced.
    let runner = Runner::new("/proc/self/exe")
        .with_sandbox(values.sandbox.unwrap_or_default())
        .with_environment(Environment::chosen(env::vars_os(), &named))
        .with_caches(roots::caches(&values.reach)?)
        .with_temp_below(&env::temp_dir());
    Ok(runner)
}
