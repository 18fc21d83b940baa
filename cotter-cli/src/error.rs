//! The error of a command: what failed, why, what to do about it, and the exit code.

use std::{
    error::Error,
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use cotter::{history::store::StoreError, registry::RegisterError, text};
use cotter_files::{
    command_hook::hook_files::HookFileErrors, document::location::SettingsError,
    space::SpaceErrors, trust::TrustError,
};
use cotter_test::ScriptError;

use crate::terminal::style::Style;

/// An error for a person to read. Code branches only on the exit code.
#[derive(Clone, Debug)]
pub(crate) struct CliError {
    message: String,
    /// The causes, nearest first.
    causes: Vec<String>,
    hint: Option<String>,
    code: u8,
}

impl CliError {
    /// Creates an error for something that failed: exit code 1.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        CliError { message: message.into(), causes: vec![], hint: None, code: 1 }
    }

    /// Creates an error for arguments that make no sense: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CliError { code: 2, ..CliError::new(message) }
    }

    /// Creates an error for something that is not permitted: exit code 3.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        CliError { code: 3, ..CliError::new(message) }
    }

    /// True if the error is about something that is not permitted.
    pub(crate) fn is_refusal(&self) -> bool {
        self.code == 3
    }

    /// Creates an error for a command that the person stopped: exit code 130.
    pub(crate) fn aborted(message: impl Into<String>) -> Self {
        CliError { code: 130, ..CliError::new(message) }
    }

    pub(crate) fn with_cause(mut self, cause: impl fmt::Display) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        CliError { hint: Some(hint.into()), ..self }
    }

    /// Adds the name that is nearest to the typed one as a hint, or else `otherwise`.
    pub(crate) fn suggest<'a>(
        self,
        typed: &str,
        names: impl IntoIterator<Item = &'a str>,
        otherwise: impl Into<String>,
    ) -> Self {
        let hint = text::did_you_mean(typed, names);
        self.with_hint(hint.unwrap_or_else(|| otherwise.into()))
    }

    /// Wraps this error: `message` becomes the message, and the old message becomes the first cause.
    pub(crate) fn wrap_in(mut self, message: impl Into<String>) -> Self {
        self.causes.insert(0, std::mem::replace(&mut self.message, message.into()));
        self
    }

    /// Returns message, causes and hint on one line.
    pub(crate) fn one_line(&self) -> String {
        let causes: String = self.causes.iter().map(|cause| format!(": {cause}")).collect();
        let hint = self.hint.iter().map(|hint| format!(" ({hint})")).collect::<String>();
        format!("{}{causes}{hint}", self.message)
    }

    /// Returns the message, without causes and hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    fn of(error: &dyn Error, hint: Option<&str>) -> Self {
        let mut failure = CliError::new(error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            failure = failure.with_cause(cause);
            source = cause.source();
        }
        CliError { hint: hint.map(str::to_owned), ..failure }
    }

    /// Creates the error for a space that cannot be used. It lists all errors of the space, so that its
    /// author can fix them together.
    pub(crate) fn of_space(message: impl Into<String>, broken: &SpaceErrors) -> Self {
        let failure = broken.errors().fold(CliError::new(message), CliError::with_cause);
        failure
            .with_hint("a space with errors is not loaded; `cotter spaces check PATH` lists them")
    }

    /// Prints the error on standard error and returns its exit code.
    pub(crate) fn report(&self, style: Style) -> ExitCode {
        // A failed write to standard error cannot be reported anywhere.
        let _ = io::stderr().lock().write_all(self.render(style).as_bytes());
        ExitCode::from(self.code)
    }

    /// Renders the error for a person. All texts are sanitized, because they may quote foreign input.
    pub(crate) fn render(&self, style: Style) -> String {
        let mut out = format!("{} {}\n", style.bad("error:"), text::show(&self.message));
        for cause in &self.causes {
            out += &format!("  caused by: {}\n", text::show(cause));
        }
        if let Some(hint) = &self.hint {
            out += &format!("\n{} {}\n", style.good("hint:"), text::show(hint));
        }
        out
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        CliError::of(&error, error.hint())
    }
}

impl From<SettingsError> for CliError {
    fn from(error: SettingsError) -> Self {
        CliError::of(&error, error.hint())
    }
}

impl From<&SettingsError> for CliError {
    fn from(error: &SettingsError) -> Self {
        CliError::of(error, error.hint())
    }
}

impl From<ScriptError> for CliError {
    fn from(error: ScriptError) -> Self {
        CliError::of(&error, error.hint())
    }
}

impl From<RegisterError> for CliError {
    fn from(error: RegisterError) -> Self {
        CliError::of(&error, error.hint())
    }
}

impl From<HookFileErrors> for CliError {
    /// Lists the errors of all files, so that their author can fix them together.
    fn from(broken: HookFileErrors) -> Self {
        let failure = CliError::new("cannot load hooks");
        let failure = broken.errors().fold(failure, CliError::with_cause);
        failure.with_hint(
            "these files may contain gates, so nothing runs; `cotter hooks check PATH` lists all \
             errors",
        )
    }
}

impl From<SpaceErrors> for CliError {
    fn from(broken: SpaceErrors) -> Self {
        CliError::of_space("cannot use the space", &broken)
    }
}

impl From<TrustError> for CliError {
    fn from(error: TrustError) -> Self {
        CliError::of(&error, error.hint())
    }
}
