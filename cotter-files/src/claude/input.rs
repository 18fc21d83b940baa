//! The standard input of a hook: our events, in the fields of Claude Code.

use serde_json::{Map, Value, json};

use crate::claude::{events::ClaudeEvent, tool_mapping, tool_mapping::ClaudeCall};
use cotter::{Workspace, hooks::points::PointId};

/// The data that is not in the payload of an event.
pub(crate) struct EventContext<'a> {
    /// The session that the agent and its subagents work for.
    pub(crate) session: &'a str,
    /// The subagent in which the event happens, if any.
    pub(crate) subagent: Option<&'a str>,
    /// Claude Code's word for the mode.
    pub(crate) mode: &'static str,
    pub(crate) workspace: &'a Workspace,
}

/// One input for a hook.
#[derive(Clone, Debug)]
pub(crate) struct ClaudeInput {
    pub(crate) fields: Map<String, Value>,
    /// The call that the input is about.
    pub(crate) call: Option<ClaudeCall>,
}

impl ClaudeInput {
    /// The values that a matcher is compared with: all names of one tool. Empty if the event has no matched
    /// field; then every matcher lets the input through.
    pub(crate) fn names(&self, event: ClaudeEvent) -> Vec<&str> {
        let Some(field) = event.row().matched_field else { return vec![] };
        let names = self.call.as_ref().map_or(&[][..], |call| call.names.as_slice());
        match names.is_empty() {
            true => self.fields.get(field).and_then(Value::as_str).into_iter().collect(),
            false => names.to_vec(),
        }
    }

    /// Returns this input with another name of its tool.
    pub(crate) fn with_name(mut self, name: &str) -> Self {
        self.fields.insert("tool_name".into(), name.into());
        self
    }
}

/// Converts a point event into inputs of Claude Code. Empty if the point event is not `event` there; several
/// if one call of ours is several calls there.
pub(crate) fn claude_inputs(
    event: ClaudeEvent,
    point: PointId,
    payload: &Value,
    context: &EventContext<'_>,
) -> Vec<ClaudeInput> {
    if event.is_about_tools() {
        return tool_inputs(event, payload, context);
    }
    let Some(own) = event_fields(event, point, payload, context) else { return vec![] };
    vec![ClaudeInput { fields: add_common_fields(event, payload, context, own), call: None }]
}

/// The inputs for an event about calls.
fn tool_inputs(
    event: ClaudeEvent,
    payload: &Value,
    context: &EventContext<'_>,
) -> Vec<ClaudeInput> {
    let failed = payload["is_error"] == true;
    match event {
        ClaudeEvent::PermissionRequest => {
            let calls = list(payload, "calls").iter().map(|call| {
                json!({"toolName": call["name"], "toolInput": call["input"], "offer": call["offer"]})
            });
            calls.flat_map(|call| call_inputs(event, payload, &call, context)).collect()
        }
        ClaudeEvent::PostToolUse if failed => vec![],
        ClaudeEvent::PostToolUseFailure if !failed || payload["outcome"] == "cancelled" => vec![],
        _ => call_inputs(event, payload, payload, context),
    }
}

/// The fields that are specific to an event that is not about a call. `None` if our event is not `event`
/// there.
fn event_fields(
    event: ClaudeEvent,
    point: PointId,
    payload: &Value,
    context: &EventContext<'_>,
) -> Option<Value> {
    let text = |key: &str| payload[key].as_str().unwrap_or_default();
    let in_subagent = context.subagent.is_some();
    Some(match event {
        ClaudeEvent::SessionStart => {
            let source = match (point, text("how")) {
                (PointId::CompactPost, _) => "compact",
                (_, "resumed") => "resume",
                (_, "forked") => "fork",
                _ => "startup",
            };
            json!({"source": source})
        }
        ClaudeEvent::UserPromptSubmit => json!({"prompt": payload["prompt"]}),
        ClaudeEvent::Notification => notification_fields(payload),
        ClaudeEvent::PreCompact => json!({"trigger": trigger(payload), "custom_instructions": ""}),
        ClaudeEvent::PostCompact => {
            json!({"trigger": trigger(payload), "compact_summary": payload["summary"]})
        }
        ClaudeEvent::SubagentStart if in_subagent => json!({}),
        ClaudeEvent::SubagentStop if in_subagent => {
            let mut fields = stop_fields(payload);
            fields["agent_transcript_path"] = "".into();
            fields
        }
        ClaudeEvent::Stop if !in_subagent => stop_fields(payload),
        ClaudeEvent::StopFailure => json!({
            "error": failure(text("code"))?,
            "error_details": payload["message"],
            "last_assistant_message": payload["message"],
        }),
        ClaudeEvent::SessionEnd => json!({"reason": "other"}),
        _ => return None,
    })
}

fn list<'a>(payload: &'a Value, key: &str) -> &'a [Value] {
    payload[key].as_array().map_or(&[], Vec::as_slice)
}

fn notification_fields(payload: &Value) -> Value {
    let ours = list(payload, "calls").iter().filter_map(|call| call["name"].as_str());
    let names = ours.map(|ours| *tool_mapping::their_names(ours).first().unwrap_or(&ours));
    let message = format!("Permission is needed to use {}", names.collect::<Vec<_>>().join(", "));
    json!({
        "message": message,
        "title": "Permission needed",
        "notification_type": "permission_prompt",
    })
}

fn add_common_fields(
    event: ClaudeEvent,
    payload: &Value,
    context: &EventContext<'_>,
    own: Value,
) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| _ = fields.insert(key.into(), value);
    put("session_id", context.session.into());
    // Session files are closed to hooks, and have another format.
    put("transcript_path", "".into());
    put("cwd", payload["cwd"].clone());
    let has_mode = event.is_about_tools()
        || matches!(
            event,
            ClaudeEvent::UserPromptSubmit | ClaudeEvent::Stop | ClaudeEvent::SubagentStop
        );
    if has_mode {
        put("permission_mode", context.mode.into());
    }
    put("hook_event_name", event.name().into());
    if let Some(subagent) = context.subagent {
        put("agent_id", payload["runId"].clone());
        put("agent_type", subagent.into());
    }
    if let Value::Object(own) = own {
        own.into_iter().for_each(|(key, value)| put(&key, value));
    }
    fields
}

/// The inputs for one call, with its result if it ran.
fn call_inputs(
    event: ClaudeEvent,
    payload: &Value,
    call: &Value,
    context: &EventContext<'_>,
) -> Vec<ClaudeInput> {
    let tool = call["toolName"].as_str().unwrap_or_default();
    let input = &call["toolInput"];
    let inputs =
        tool_mapping::claude_calls(tool, input, context.workspace).into_iter().map(|theirs| {
            let name = theirs.names.first().copied().unwrap_or(tool);
            let mut fields = json!({"tool_name": name, "tool_input": theirs.input});
            if let (Some(cwd), "Bash") = (input["cwd"].as_str(), name) {
                fields["cwd"] = tool_mapping::absolute_path(cwd, context.workspace).into();
            }
            match event {
                ClaudeEvent::PermissionRequest => add_rule_suggestions(&mut fields, call),
                _ => fields["tool_use_id"] = payload["callId"].clone(),
            }
            let result = payload["result"].as_str().unwrap_or_default();
            if event == ClaudeEvent::PostToolUse {
                fields["tool_response"] = tool_mapping::response(&theirs, name, result, false);
            }
            if event == ClaudeEvent::PostToolUseFailure {
                fields["error"] = result.into();
                fields["is_interrupt"] = false.into();
            }
            if payload.get("durationMs").is_some() {
                fields["duration_ms"] = payload["durationMs"].clone();
            }
            ClaudeInput {
                fields: add_common_fields(event, payload, context, fields),
                call: Some(theirs),
            }
        });
    inputs.collect()
}

/// Adds the rules that a person would be offered.
fn add_rule_suggestions(fields: &mut Value, call: &Value) {
    let rules = list(call, "offer").iter().filter_map(Value::as_str).map(|rule| {
        let (tool, spec) = match rule.split_once('(') {
            Some((tool, spec)) => (tool, spec.strip_suffix(')')),
            None => (rule, None),
        };
        let tool = *tool_mapping::their_names(tool).first().unwrap_or(&tool);
        match spec {
            Some(spec) => json!({"toolName": tool, "ruleContent": spec}),
            None => json!({"toolName": tool}),
        }
    });
    let rules: Vec<_> = rules.collect();
    if !rules.is_empty() {
        fields["permission_suggestions"] = json!([{
            "type": "addRules", "rules": rules, "behavior": "allow", "destination": "session",
        }]);
    }
}

fn trigger(payload: &Value) -> &'static str {
    if payload["trigger"] == "forced" { "manual" } else { "auto" }
}

fn stop_fields(payload: &Value) -> Value {
    json!({
        "stop_hook_active": payload["sentOn"].as_u64().unwrap_or_default() > 0,
        "last_assistant_message": payload["text"],
        "background_tasks": [],
        "session_crons": [],
    })
}

/// Claude Code's word for a failure of a model; `None` if the code is not such a failure.
fn failure(code: &str) -> Option<&'static str> {
    Some(match code {
        "auth" => "authentication_failed",
        "rate_limited" => "rate_limit",
        "overloaded" => "overloaded",
        "bad_request" | "context_overflow" => "invalid_request",
        "max_tokens" => "max_output_tokens",
        "network" | "timeout" => "server_error",
        "other" => "unknown",
        _ => return None,
    })
}
