//! The operator's switches for hooks: environment variables.

use std::sync::Arc;

use cotter::registry::DisabledHooks;
use cotter_files::profile::ProfileGrants;
use cotter_tools::hooks::webhook::Webhooks;

use crate::error::CliError;

const DISABLE: &str = "COTTER_DISABLE_HOOKS";
const COMMANDS: &str = "COTTER_ALLOW_COMMAND_HOOKS";
pub(crate) const WEBHOOKS: &str = "COTTER_HOOK_WEBHOOK_ALLOWLIST";

/// The names of all switches, for lists.
pub(crate) const VARIABLES: [&str; 3] = [DISABLE, COMMANDS, WEBHOOKS];

/// The permissions that the operator gives to the hooks of profiles.
#[derive(Clone)]
pub(crate) struct OperatorSwitches {
    commands: bool,
    pub(crate) webhooks: Arc<Webhooks>,
}

impl OperatorSwitches {
    /// Reads the variables. A value that is not understood is an error, not "unset".
    pub(crate) fn read() -> Result<Self, CliError> {
        let commands = match read_variable(COMMANDS)?.as_deref().map(str::trim) {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => {
                return Err(unknown_value_error(COMMANDS, other, "set it to 1, or unset it"));
            }
        };
        let webhooks =
            match std::env::var_os(WEBHOOKS).map(|_| read_variable(WEBHOOKS)).transpose()? {
                None => Webhooks::new(),
                Some(list) => {
                    let list = list.unwrap_or_default();
                    let hosts = list.split(',').map(str::trim).filter(|host| !host.is_empty());
                    Webhooks::only(hosts).map_err(|why| {
                        CliError::usage(format!("`{WEBHOOKS}`: {why}")).with_hint(
                            "list hosts, separated by commas: hooks.example.com,localhost:8443",
                        )
                    })?
                }
            };
        Ok(OperatorSwitches { commands, webhooks: Arc::new(webhooks) })
    }

    /// Returns the switches in the form that the reader of a profile takes.
    pub(crate) fn profile_grants(&self) -> ProfileGrants<'_> {
        ProfileGrants { commands: self.commands, posts: Some(&*self.webhooks) }
    }
}

/// Returns which hooks of projects, spaces and profiles are disabled.
pub(crate) fn read_disabled_hooks() -> Result<Option<DisabledHooks>, CliError> {
    match read_variable(DISABLE)?.as_deref().map(str::trim) {
        None | Some("0") => Ok(None),
        Some("1") => Ok(Some(DisabledHooks::Observers)),
        Some("force") => Ok(Some(DisabledHooks::All)),
        Some(other) => {
            Err(unknown_value_error(DISABLE, other, "set it to 1 or force, or unset it"))
        }
    }
}

/// Returns the value of a variable; an empty value counts as unset. A value that is not UTF-8 is an error,
/// not "unset".
fn read_variable(variable: &str) -> Result<Option<String>, CliError> {
    match std::env::var(variable) {
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(CliError::usage(format!("`{variable}` is not UTF-8 text"))
                .with_hint("set it to UTF-8 text, or unset it"))
        }
        Err(std::env::VarError::NotPresent) => Ok(None),
        Ok(value) => Ok(Some(value).filter(|value| !value.trim().is_empty())),
    }
}

fn unknown_value_error(variable: &str, value: &str, hint: &str) -> CliError {
    CliError::usage(format!("`{variable}` has the unknown value `{value}`")).with_hint(hint)
}
