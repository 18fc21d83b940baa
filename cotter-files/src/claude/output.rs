//! The meaning of a hook's exit code and output, event by event.
//!
//! A refusal counts even if it is badly written. An output that permits something must have the published
//! form.

use serde_json::{Map, Value};

use crate::claude::events::{ClaudeEvent, ExitTwo};
use crate::command_hook::{
    ProcessOutput,
    dialect::REASON_CHARS,
    failure::{HookFailure, exit_error},
    stdout::HookStdout,
};
use cotter::{
    host::{find_refusal, is_no, is_refusal_word, is_yes, no_known_key},
    text,
};

/// The output of a hook, interpreted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HookOutput {
    /// The event is refused; at `Stop`, the model continues; after a tool, the model gets the reason.
    pub(crate) block: Option<String>,
    /// A person must agree first.
    pub(crate) ask: Option<String>,
    /// No person needs to be asked.
    pub(crate) allow: bool,
    /// A replacement for the whole input, in the fields of Claude Code.
    pub(crate) input: Option<Map<String, Value>>,
    /// A replacement for the result, in the form of Claude Code.
    pub(crate) output: Option<Value>,
    /// Text for the model.
    pub(crate) context: Vec<String>,
    /// Text for the person.
    pub(crate) person_notes: Vec<String>,
    /// The run ends, for this reason.
    pub(crate) end_reason: Option<String>,
}

impl HookOutput {
    fn blocked(reason: String) -> Self {
        HookOutput { block: Some(reason), ..HookOutput::default() }
    }
}

/// Interprets the output of a program.
pub(crate) fn interpret_output(
    event: ClaudeEvent,
    name: &str,
    process: &ProcessOutput,
) -> Result<HookOutput, HookFailure> {
    let stdout = HookStdout::read(&process.stdout);
    // Where plain text is passed to the model, it may quote anything.
    let is_text_for_model =
        event.row().passes_plain_text && !process.stdout.trim_ascii().starts_with(b"{");
    let result = match (&stdout, process.exit_code()) {
        (HookStdout::Refusal(reason), _) if event.is_gate() && !is_text_for_model => {
            Ok(HookOutput::blocked(reason.clone()))
        }
        (_, Ok(code)) => interpret_exit(event, name, code, &stdout, process),
        (_, Err(failure)) => Err(failure),
    };
    // What refuses counts, even if a part of it is missing or in the wrong place.
    let refuses = |output: &HookOutput| output.block.is_some() || output.ask.is_some();
    if result.as_ref().is_ok_and(refuses) || !event.is_gate() || ends_run(&result) {
        return result;
    }
    if let HookStdout::Object(object) = &stdout
        && let Some(reason) = find_refusal(object)
    {
        let reason = if reason.is_empty() { NO_REASON.to_owned() } else { cut_reason(&reason) };
        return Ok(HookOutput::blocked(reason));
    }
    // A part that is missing might refuse.
    process.check_whole()?;
    result
}

/// True if an output ends the run: its `continue: false` has had its effect.
fn ends_run(result: &Result<HookOutput, HookFailure>) -> bool {
    result.as_ref().is_ok_and(|output| output.end_reason.is_some())
}

fn interpret_exit(
    event: ClaudeEvent,
    name: &str,
    code: i32,
    stdout: &HookStdout,
    process: &ProcessOutput,
) -> Result<HookOutput, HookFailure> {
    let row = event.row();
    let stderr = String::from_utf8_lossy(&process.stderr);
    let read = match stdout {
        HookStdout::Object(object) => read(event, object).map_err(HookFailure::Hook),
        HookStdout::Broken(why) if code == 0 && !row.passes_plain_text => Err(why.clone().into()),
        _ => Ok(HookOutput::default()),
    };
    match (code, stdout) {
        (0, HookStdout::Object(_)) => read,
        (0, _) => {
            let mut output = read?;
            if row.passes_plain_text {
                output.context =
                    cut_text(&String::from_utf8_lossy(&process.stdout)).into_iter().collect();
            }
            Ok(output)
        }
        (2, _) => {
            let why = match stderr.trim() {
                "" => format!("hook {name} exited with code 2"),
                message => cut_reason(message),
            };
            Ok(apply_exit_two(row.exit_two, read.unwrap_or_default(), why))
        }
        // The object alone decides, but a hook that fails cannot allow anything.
        (_, HookStdout::Object(_)) => read.map(|output| HookOutput { allow: false, ..output }),
        _ => Err(exit_error(code, &process.stderr).into()),
    }
}

fn apply_exit_two(effect: ExitTwo, output: HookOutput, why: String) -> HookOutput {
    match effect {
        ExitTwo::Blocks | ExitTwo::NotifiesModel => HookOutput {
            block: output.block.or(Some(why)),
            ask: None,
            allow: false,
            input: None,
            ..output
        },
        ExitTwo::NotifiesPerson => {
            let person_notes = output.person_notes.into_iter().chain([why]).collect();
            HookOutput { person_notes, ..output }
        }
        ExitTwo::Nothing => output,
    }
}

/// The published keys of an output object, at any event. A reason alone says nothing.
const KEYS: [&str; 8] = [
    "continue",
    "stopReason",
    "suppressOutput",
    "systemMessage",
    "terminalSequence",
    "decision",
    "hookSpecificOutput",
    "additionalContext",
];

/// The published keys of `hookSpecificOutput` that say something.
const OWN_KEYS: [&str; 12] = [
    "permissionDecision",
    "permissionDecisionReason",
    "decision",
    "reason",
    "updatedInput",
    "updatedToolOutput",
    "updatedMCPToolOutput",
    "additionalContext",
    "sessionTitle",
    "watchPaths",
    "initialUserMessage",
    "retry",
];

/// Interprets an output object at an event.
fn read(event: ClaudeEvent, object: &Map<String, Value>) -> Result<HookOutput, String> {
    let empty = Map::new();
    let own = object.get("hookSpecificOutput").and_then(Value::as_object).unwrap_or(&empty);
    for (part, known) in [(object, &KEYS[..]), (own, &OWN_KEYS)] {
        let says_nothing =
            |(key, value): (&String, &Value)| value.is_null() || !known.contains(&key.as_str());
        let is_named = part.iter().any(|(key, _)| key != "hookEventName");
        if is_named && part.iter().all(says_nothing) && find_refusal(object).is_none() {
            return Err(no_known_key(part));
        }
    }
    let answer = OutputObject { object, own, event };
    let mut output = HookOutput::default();
    let has_context = !matches!(
        event,
        ClaudeEvent::PermissionRequest
            | ClaudeEvent::Notification
            | ClaudeEvent::PreCompact
            | ClaudeEvent::PostCompact
            | ClaudeEvent::SessionEnd
            | ClaudeEvent::StopFailure
    );
    if has_context {
        output.context = answer.text("additionalContext").into_iter().collect();
    }
    let has_common_fields = !matches!(
        event,
        ClaudeEvent::Notification
            | ClaudeEvent::PreCompact
            | ClaudeEvent::PostCompact
            | ClaudeEvent::SessionEnd
            | ClaudeEvent::StopFailure
    );
    if has_common_fields {
        output.person_notes =
            object.get("systemMessage").and_then(text_of_value).into_iter().collect();
        output.end_reason = is_no(object.get("continue")).then(String::new);
    }
    match event {
        ClaudeEvent::PreToolUse => answer.read_tool_decision(&mut output)?,
        ClaudeEvent::PermissionRequest => answer.permission(&mut output)?,
        ClaudeEvent::UserPromptSubmit
        | ClaudeEvent::PreCompact
        | ClaudeEvent::Stop
        | ClaudeEvent::SubagentStop => {
            answer.decision(&mut output)?;
        }
        ClaudeEvent::PostToolUse | ClaudeEvent::PostToolUseFailure => {
            answer.decision(&mut output)?;
            let updated = answer.get("updatedToolOutput").or(answer.get("updatedMCPToolOutput"));
            output.output = updated.filter(|_| event == ClaudeEvent::PostToolUse).cloned();
        }
        _ => {}
    }
    if output.end_reason.is_some() {
        let why = object.get("stopReason").and_then(text_of_value).or(answer.text("reason"));
        answer.end(&mut output, why.unwrap_or_else(|| "it ends the run".into()));
    }
    Ok(output)
}

/// The output object, and the part of it that is specific to the event.
struct OutputObject<'a> {
    object: &'a Map<String, Value>,
    own: &'a Map<String, Value>,
    event: ClaudeEvent,
}

/// The meaning of a decision's word; the later variant is the stricter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DecisionWord {
    Nothing,
    Allow,
    Unknown,
    Ask,
    Defer,
    Deny,
}

impl OutputObject<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.own.get(key).or_else(|| self.object.get(key)).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(text_of_value)
    }

    /// True if the event-specific part names this event.
    fn names_this_event(&self) -> bool {
        self.own.get("hookEventName").and_then(Value::as_str) == Some(self.event.name())
    }

    fn read_tool_decision(&self, output: &mut HookOutput) -> Result<(), String> {
        let own = parse_decision_word(self.own.get("permissionDecision"));
        let misplaced = [self.object.get("permissionDecision"), self.own.get("decision")];
        let misplaced =
            misplaced.map(|value| parse_decision_word(value).max(DecisionWord::Nothing));
        let legacy = parse_decision_word(self.object.get("decision"));
        let strictest =
            misplaced.into_iter().chain([own, legacy]).max().unwrap_or(DecisionWord::Nothing);
        let reason = self.text("permissionDecisionReason").or(self.text("reason"));
        let allows = own == DecisionWord::Allow && self.names_this_event();
        // The legacy form.
        let approves = self.object.get("decision").is_some_and(|word| word == "approve");
        match strictest {
            DecisionWord::Deny => output.block = Some(reason.unwrap_or_else(|| NO_REASON.into())),
            DecisionWord::Defer => {
                let why = "it defers the call, so a person has to decide";
                output.ask = Some(reason.unwrap_or_else(|| why.into()));
            }
            DecisionWord::Ask => {
                output.ask =
                    Some(reason.unwrap_or_else(|| "it asks for a person's approval".into()))
            }
            DecisionWord::Unknown => return Err("its decision is unknown".into()),
            DecisionWord::Allow => output.allow = allows || approves,
            DecisionWord::Nothing => {}
        }
        match self.get("updatedInput") {
            Some(Value::Object(input)) => output.input = Some(input.clone()),
            // The hook meant another call than the one that would run.
            Some(_) if output.block.is_none() => {
                output.block = Some("its `updatedInput` is not an object".into());
            }
            _ => {}
        }
        output.allow &= output.block.is_none();
        Ok(())
    }

    fn permission(&self, output: &mut HookOutput) -> Result<(), String> {
        let decision = self.get("decision");
        let part = |key: &str| decision.and_then(|decision| decision.get(key));
        match parse_decision_word(decision) {
            DecisionWord::Deny => {
                let reason = part("message").and_then(text_of_value).or(self.text("reason"));
                output.block = Some(reason.unwrap_or_else(|| "it answered no".into()));
                if is_yes(part("interrupt")) {
                    output.end_reason.get_or_insert_default();
                }
            }
            DecisionWord::Allow if part("updatedInput").is_some_and(|input| !input.is_null()) => {
                let why = "its `updatedInput` is not honoured here: the person is asked";
                output.person_notes.push(why.into());
            }
            DecisionWord::Allow => {
                let behavior = part("behavior").and_then(Value::as_str);
                output.allow = behavior == Some("allow") && self.names_this_event();
                if is_yes(part("updatedPermissions")) {
                    output.person_notes.push("its `updatedPermissions` are not honoured".into());
                }
            }
            DecisionWord::Unknown => return Err("its decision is unknown".into()),
            DecisionWord::Ask | DecisionWord::Defer | DecisionWord::Nothing => {}
        }
        Ok(())
    }

    fn decision(&self, output: &mut HookOutput) -> Result<(), String> {
        match parse_decision_word(self.get("decision"))
            .max(parse_decision_word(self.object.get("decision")))
        {
            DecisionWord::Deny => {
                output.block = Some(self.text("reason").unwrap_or_else(|| NO_REASON.into()));
            }
            DecisionWord::Unknown => return Err("its decision is unknown".into()),
            _ => {}
        }
        let stops = matches!(self.event, ClaudeEvent::Stop | ClaudeEvent::SubagentStop);
        if stops && output.block.is_none() && !output.context.is_empty() {
            // The added context keeps the conversation going.
            output.block = Some(std::mem::take(&mut output.context).join("\n"));
        }
        Ok(())
    }

    /// Ends the run, which overrides the rest of the output.
    fn end(&self, output: &mut HookOutput, why: String) {
        output.allow = false;
        match self.event {
            ClaudeEvent::Stop | ClaudeEvent::SubagentStop => {
                (output.block, output.context) = (None, vec![])
            }
            ClaudeEvent::PreToolUse
            | ClaudeEvent::PermissionRequest
            | ClaudeEvent::UserPromptSubmit => {
                output.block.get_or_insert_with(|| why.clone());
            }
            _ => {}
        }
        output.person_notes.push(why.clone());
        output.end_reason = Some(why);
    }
}

const NO_REASON: &str = "it gave no reason";

fn parse_decision_word(value: Option<&Value>) -> DecisionWord {
    match value {
        None | Some(Value::Null) => DecisionWord::Nothing,
        Some(Value::Bool(false)) => DecisionWord::Deny,
        Some(Value::String(text)) => match text.as_str() {
            "allow" | "approve" => DecisionWord::Allow,
            text => match text.trim().to_ascii_lowercase().as_str() {
                "" | "continue" | "pass" => DecisionWord::Nothing,
                "ask" => DecisionWord::Ask,
                "defer" => DecisionWord::Defer,
                word if is_refusal_word(word) => DecisionWord::Deny,
                _ => DecisionWord::Unknown,
            },
        },
        Some(Value::Object(object)) => parse_decision_word(object.get("behavior")),
        Some(_) => DecisionWord::Unknown,
    }
}

/// A string as it is, any other value as JSON; `None` for null and for empty strings.
fn text_of_value(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => cut_text(text),
        other => Some(cut_reason(&other.to_string())),
    }
}

/// The maximum length of a hook's text that is passed on.
const MAX_TEXT_CHARS: usize = 10_000;

fn cut_text(text: &str) -> Option<String> {
    let text = Some(text.trim()).filter(|text| !text.is_empty())?;
    Some(text::cut_chars(text, MAX_TEXT_CHARS).into_owned())
}

fn cut_reason(text: &str) -> String {
    text::cut_chars(text, REASON_CHARS).into_owned()
}
