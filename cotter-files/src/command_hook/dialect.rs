//! Dialects: the standard input of a command, and the meaning of its exit code and output. Each dialect is
//! two pure functions; the dialects of this room differ in nothing else. A dialect of another program has its
//! own [`CustomDialect`].

use std::{any::Any, fmt, sync::Arc};

use serde_json::{Map, Value, json};

use crate::command_hook::{
    HookLocation, ProcessOutput,
    entry::{CommandHook, CommandLine},
    failure::{HookFailure, exit_error},
    stdout::HookStdout,
};
use cotter::{
    Registry,
    hooks::{
        external::{HookAnswer, HookChange},
        points::PointId,
    },
    host::{find_refusal, no_known_key},
    text,
};

/// The dialect of a command's input and output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// The dialect of settings files: the whole event as input; `continue`, `reason` and other keys as in
    /// `docs/FORMATS.md`.
    #[default]
    Cotter,
    /// The dialect of a space's `hooks/*.yaml`: tool, input and result; `blocked`, `reason`, `modified`.
    Space,
    /// The dialect of another program, as that program documents it.
    Custom(Arc<dyn CustomDialect>),
}

/// The part of a hook's entry that is specific to the dialect of another program.
///
/// Every method is called with the hook that the entry belongs to. No method starts a process.
pub trait CustomDialect: Any + fmt::Debug + Send + Sync {
    /// Registers the hook at the points of its event.
    fn register(self: Arc<Self>, hook: &CommandHook, unit: &mut Registry, base: &HookLocation);

    /// Describes everything but the command that decides what the hook blocks: its event, its matchers, its
    /// programs.
    fn definition(&self, command: &CommandLine) -> String;

    /// A value that distinguishes the hook from others with the same command. It must be equal in every
    /// version, because names in files are derived from it.
    fn identity(&self) -> Value;

    /// The name of the event: the first word of the hook's name if its command gives no name.
    fn event_name(&self) -> &'static str;

    /// True if another entry is equal.
    fn is_equal(&self, other: &dyn CustomDialect) -> bool;
}

impl PartialEq for dyn CustomDialect {
    fn eq(&self, other: &Self) -> bool {
        self.is_equal(other)
    }
}

impl Eq for dyn CustomDialect {}

/// The maximum number of characters of standard error that become a reason.
pub(crate) const REASON_CHARS: usize = 4000;

impl Dialect {
    /// The standard input of the command. A custom dialect creates its own, which depends on more than the
    /// payload.
    pub fn stdin(&self, payload: &Value) -> Vec<u8> {
        let input = match self {
            Dialect::Cotter | Dialect::Custom(_) => payload.to_string(),
            Dialect::Space => {
                let mut input = json!({"tool": payload["toolName"], "input": payload["toolInput"]});
                if let Some(result) = payload.get("result") {
                    input["result"] = result.clone();
                }
                input.to_string()
            }
        };
        input.into_bytes()
    }

    /// Reads the answer from a command's result.
    pub fn answer(
        &self,
        point: PointId,
        name: &str,
        output: &ProcessOutput,
    ) -> Result<HookAnswer, HookFailure> {
        let code = match output.exit_code() {
            Ok(code) => code,
            Err(failure) => return self.refusal(point, output).ok_or(failure),
        };
        if code == 0 {
            output.check_whole()?;
            return self.read(point, &output.stdout);
        }
        // The stricter of output and exit code applies: a nonzero code never passes.
        let answer = self.read(point, &output.stdout).unwrap_or_default();
        if point == PointId::TurnEnd && answer.go_on.is_none() && answer.block.is_none() {
            return Err(exit_error(code, &output.stderr).into());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let reasons = [answer.block.unwrap_or_default(), stderr.trim().to_owned()];
        let reason = reasons.into_iter().find(|reason| !reason.trim().is_empty());
        let reason = reason.unwrap_or_else(|| format!("hook {name} exited with code {code}"));
        let reason = text::cut_chars(&reason, REASON_CHARS).into_owned();
        Ok(HookAnswer { block: Some(reason), change: None, decision: None, ..answer })
    }

    /// The answer of a failed program, if it refused before it failed.
    fn refusal(&self, point: PointId, output: &ProcessOutput) -> Option<HookAnswer> {
        self.read(point, &output.stdout).ok().filter(|answer| answer.block.is_some())
    }

    fn read(&self, point: PointId, stdout: &[u8]) -> Result<HookAnswer, HookFailure> {
        let object = match HookStdout::read(stdout) {
            HookStdout::Object(object) => object,
            HookStdout::Refusal(reason) => return Ok(HookAnswer::blocked(reason)),
            HookStdout::Broken(why) => return Err(why.into()),
            HookStdout::Text(text) => {
                let output = Some(text).filter(|text| !text.is_empty());
                return Ok(HookAnswer { output, ..HookAnswer::default() });
            }
        };
        Ok(match self {
            Dialect::Cotter | Dialect::Custom(_) => HookAnswer::read(point, &object)?,
            Dialect::Space => read_space_answer(point, &object)?,
        })
    }
}

/// The keys that say something in the space dialect.
const SPACE_KEYS: [&str; 2] = ["blocked", "modified"];

/// Reads an answer in the space dialect. Keys match in any case; if several match, one that blocks is enough.
fn read_space_answer(point: PointId, object: &Map<String, Value>) -> Result<HookAnswer, String> {
    let all = |name: &'static str| {
        let found = object.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value).filter(|value| !value.is_null())
    };
    let reason = all("reason").find_map(Value::as_str).unwrap_or_default();
    let change = match all("modified").next().filter(|_| point == PointId::ToolPre) {
        Some(input @ Value::Object(_)) => Some(HookChange::Input(input.clone())),
        Some(_) => return Err("`modified` in its answer is not an object".into()),
        None => None,
    };
    let refusal = find_refusal(object).map(|found| match reason {
        "" => found,
        reason => reason.to_owned(),
    });
    let is_known = |key: &String| SPACE_KEYS.iter().any(|known| key.eq_ignore_ascii_case(known));
    if refusal.is_none() && !object.is_empty() && !object.keys().any(is_known) {
        return Err(no_known_key(object));
    }
    Ok(HookAnswer { block: refusal, change, ..HookAnswer::default() })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::command_hook::{MAX_OUTPUT, ProcessExit};

    fn check(dialect: &Dialect, exit: ProcessExit, stdout: &str, stderr: &str, expected: Expect) {
        check_at(PointId::ToolPre, dialect, exit, stdout.as_bytes(), stderr, expected);
    }

    fn check_at(
        point: PointId,
        dialect: &Dialect,
        exit: ProcessExit,
        stdout: &[u8],
        stderr: &str,
        expected: Expect,
    ) {
        let ran = ProcessOutput {
            exit,
            stdout: stdout.to_vec(),
            stderr: stderr.into(),
            remarks: vec![],
            blocked_accesses: vec![],
        };
        let said = match dialect.answer(point, "guard", &ran) {
            Err(why) => format!("failure: {why}"),
            Ok(answer) if answer == HookAnswer::default() => "pass".into(),
            Ok(HookAnswer { block: Some(reason), .. }) => format!("block: {reason}"),
            Ok(HookAnswer { ask: Some(reason), .. }) => format!("ask: {reason}"),
            Ok(HookAnswer { go_on: Some(reason), .. }) => format!("go on: {reason}"),
            Ok(HookAnswer { change: Some(change), .. }) => format!("{change:?}"),
            Ok(HookAnswer { output, .. }) => format!("output: {}", output.unwrap_or_default()),
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn l8_stricter_of_exit_code_and_json_wins() {
        let (ok, bad) = (ProcessExit::Code(0), ProcessExit::Code(3));
        let cotter = Dialect::Cotter;
        check(&cotter, ok, "", "noise", expect!["pass"]);
        check(&cotter, ok, "fine\n", "", expect!["output: fine"]);
        check(&cotter, ok, r#"{"continue":false,"reason":"no"}"#, "", expect!["block: no"]);
        check(&cotter, ok, r#"{"ask":"sure?"}"#, "", expect!["ask: sure?"]);
        check(&cotter, bad, "", "not in prod\n", expect!["block: not in prod"]);
        check(&cotter, bad, "", "", expect!["block: hook guard exited with code 3"]);
        check(
            &cotter,
            bad,
            r#"{"continue":true}"#,
            "",
            expect!["block: hook guard exited with code 3"],
        );
        check(&cotter, bad, r#"{"continue":false,"reason":"j"}"#, "e", expect!["block: j"]);
        check(&cotter, bad, r#"{"input":{}}"#, "e", expect!["block: e"]);
        check(&cotter, bad, "{", "e", expect!["block: e"]);
        check(
            &cotter,
            ProcessExit::Signal(9),
            "",
            "",
            expect![
                "failure: it was ended by signal 9: it crashed, or a limit of memory, time or processes ended it"
            ],
        );
    }

    #[test]
    fn l8_incomplete_json_answer_is_a_failure() {
        let ok = ProcessExit::Code(0);
        let broken = expect![
            "failure: its output begins with `{` and is not JSON: EOF while parsing a value at line 1 column 12"
        ];
        check(&Dialect::Cotter, ok, r#"{"continue":"#, "", broken);
        let in_text =
            || expect!["block: its output contains a refusal, although it is not valid as a whole"];
        check(&Dialect::Cotter, ok, r#"{"continue":false,"continue":true}"#, "", in_text());
        check(&Dialect::Cotter, ok, "{}\n{\"continue\":false}\n", "", in_text());
        let bytes = b"{\"reason\": \"\xff\"}";
        let not_text = expect![
            "failure: its output begins with `{` and is not JSON: invalid unicode code point at line 1 column 13"
        ];
        check_at(PointId::ToolPre, &Dialect::Cotter, ok, bytes, "", not_text);
        let lossy = expect!["output: \u{fffd}fine"];
        check_at(PointId::ToolPre, &Dialect::Cotter, ok, b"\xfffine", "", lossy);
        let much = vec![b'x'; MAX_OUTPUT + 1];
        let too_much = expect!["failure: its output is longer than 1048576 bytes"];
        check_at(PointId::ToolPre, &Dialect::Cotter, ok, &much, "", too_much);
    }

    #[test]
    fn failed_turn_end_hook_does_not_continue_the_run() {
        let end = PointId::TurnEnd;
        let failed = expect!["failure: it exited with code 1: Traceback"];
        check_at(end, &Dialect::Cotter, ProcessExit::Code(1), b"", "Traceback", failed);
        let sent_on = expect!["go on: run the tests"];
        let said = br#"{"goOn":"run the tests"}"#;
        check_at(end, &Dialect::Cotter, ProcessExit::Code(0), said, "", sent_on);
        let blocked = expect!["block: run the tests"];
        let said = br#"{"continue":false,"reason":"run the tests"}"#;
        check_at(end, &Dialect::Cotter, ProcessExit::Code(0), said, "", blocked);
    }

    #[test]
    fn c5_space_dialect_blocks_and_modifies() {
        let ok = ProcessExit::Code(0);
        let space = Dialect::Space;
        check(&space, ok, r#"{"blocked":true,"reason":"no"}"#, "", expect!["block: no"]);
        check(&space, ok, r#"{"Blocked":"yes","Reason":"no"}"#, "", expect!["block: no"]);
        check(&space, ok, r#"{"blocked":false}"#, "", expect!["pass"]);
        let twice = r#"{"Blocked":false,"blocked":true,"REASON":"no"}"#;
        check(&space, ok, twice, "", expect!["block: no"]);
        let no_object = expect!["failure: `modified` in its answer is not an object"];
        check(&space, ok, r#"{"modified":"rm"}"#, "", no_object);
        check(&space, ok, "logged", "", expect!["output: logged"]);
        let modified = expect![[r#"Input(Object {"path": String("b")})"#]];
        check(&space, ok, r#"{"modified":{"path":"b"}}"#, "", modified);
        check(&space, ProcessExit::Code(1), "", "why", expect!["block: why"]);
        let told = json!({"toolName": "write", "toolInput": {"a": 1}, "result": "ok", "v": 1});
        let told: Value = serde_json::from_slice(&space.stdin(&told)).unwrap();
        assert_eq!(told, json!({"tool": "write", "input": {"a": 1}, "result": "ok"}));
    }
}
