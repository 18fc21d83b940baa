//! Runs a program for a handler: decided, confined and recorded like a command of the model.

use serde_json::{Value, json};

use crate::{
    agent::{
        controls::Controls,
        exec::{ExecOptions, ExecResult},
    },
    history::outcome::ToolErrorKind,
    model::tools::{ToolError, ToolOutput},
};

/// The tool that runs commands.
const SHELL: &str = "bash";

impl Controls {
    /// Runs a program with these arguments; each argument is one word, whatever it contains. The program
    /// runs through the tool `bash`, and the call is decided like any `bash` call of
    /// [`Controls::run_tool`]. Without that tool the error is `unavailable`. A program that fails is no
    /// error: see [`ExecResult::code`].
    pub async fn exec<S: AsRef<str>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
        options: ExecOptions,
    ) -> Result<ExecResult, ToolError> {
        if !self.tools().specs().any(|spec| spec.name == SHELL) {
            let message = format!("cannot run a program: the tool `{SHELL}` is not available");
            return Err(ToolError::new(ToolErrorKind::Unavailable, message));
        }
        if program.is_empty() {
            return Err(ToolError::new(
                ToolErrorKind::InvalidArgs,
                "the name of the program is empty",
            ));
        }
        let mut command =
            if KEYWORDS.contains(&program) { quote(program) } else { quote_word(program)? };
        for arg in args {
            command = format!("{command} {}", quote_word(arg.as_ref())?);
        }
        let mut input = json!({"command": command});
        if let Some(cwd) = options.cwd {
            let Some(cwd) = cwd.to_str() else {
                let message = format!("the folder {} is not valid UTF-8", cwd.display());
                return Err(ToolError::new(ToolErrorKind::InvalidArgs, message));
            };
            input["cwd"] = cwd.into();
        }
        if let Some(timeout) = options.timeout {
            // A shorter timeout is rounded up to one millisecond.
            let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            input["timeout_ms"] = millis.max(1).into();
        }
        parse_output(&self.run_tool(SHELL, input).await?)
    }
}

/// Shell keywords: as the name of a program they must be quoted.
const KEYWORDS: [&str; 17] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while",
];

/// Quotes a word, so that the shell expands nothing in it and sees no assignment or pattern.
fn quote_word(text: &str) -> Result<String, ToolError> {
    if text.contains('\0') {
        let message = format!("the argument {text:?} contains a zero byte");
        return Err(ToolError::new(ToolErrorKind::InvalidArgs, message));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@%+".contains(c);
    let is_plain = !text.is_empty() && text.chars().all(is_plain);
    Ok(if is_plain { text.to_owned() } else { quote(text) })
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn parse_output(output: &ToolOutput) -> Result<ExecResult, ToolError> {
    let no_result =
        || ToolError::failed(format!("the tool `{SHELL}` returned no result of the program"));
    let data = output.render_data.as_ref().and_then(Value::as_object).ok_or_else(no_result)?;
    let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
    let code = data.get("exitCode").and_then(Value::as_i64);
    Ok(ExecResult {
        stdout: text("stdout").ok_or_else(no_result)?,
        stderr: text("stderr").ok_or_else(no_result)?,
        code: code.and_then(|code| code.try_into().ok()),
        killed: data.get("killed").and_then(Value::as_bool).unwrap_or(false),
    })
}
