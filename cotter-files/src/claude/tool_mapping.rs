//! Converts our calls into those of Claude Code and back: names, inputs, results.
//!
//! In this file, `ours` means a name or field of cotter, and `theirs` one of Claude Code.
//!
//! One call of ours may be several of theirs: our `edit` takes several changes of a file, theirs takes one.

use std::path::Path;

use serde_json::{Map, Value, json};

use cotter::{Workspace, fs::paths, host::OTHER_NAMES};

/// The mapping of one of our tools.
struct ToolMapping {
    ours: &'static str,
    /// Fields of the call.
    call: &'static [FieldMapping],
    /// The list field of ours whose items are each a call of theirs, and the fields of one item.
    each: Option<(&'static str, &'static [FieldMapping])>,
    /// Fields that theirs has and ours has not, with their JSON value.
    fixed: &'static [(&'static str, &'static str)],
}

/// Their field, our field, and its kind.
struct FieldMapping(&'static str, &'static str, FieldKind);

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    Plain,
    /// A path, which theirs has in absolute form.
    Path,
}

use FieldKind::{Path as P, Plain as V};

const TOOL_MAPPINGS: &[ToolMapping] = &[
    ToolMapping {
        ours: "bash",
        call: &[FieldMapping("command", "command", V), FieldMapping("timeout", "timeout_ms", V)],
        each: None,
        fixed: &[],
    },
    ToolMapping {
        ours: "bash_background",
        call: &[FieldMapping("command", "command", V)],
        each: None,
        fixed: &[("run_in_background", "true")],
    },
    ToolMapping {
        ours: "read",
        call: &[
            FieldMapping("file_path", "path", P),
            FieldMapping("offset", "offset", V),
            FieldMapping("limit", "limit", V),
        ],
        each: None,
        fixed: &[],
    },
    ToolMapping {
        ours: "write",
        call: &[FieldMapping("file_path", "path", P), FieldMapping("content", "content", V)],
        each: None,
        fixed: &[],
    },
    ToolMapping {
        ours: "edit",
        call: &[FieldMapping("file_path", "path", P)],
        each: Some((
            "edits",
            &[FieldMapping("old_string", "old", V), FieldMapping("new_string", "new", V)],
        )),
        fixed: &[("replace_all", "false")],
    },
    ToolMapping { ours: "list", call: &[FieldMapping("path", "path", P)], each: None, fixed: &[] },
    ToolMapping {
        ours: "glob",
        call: &[FieldMapping("pattern", "pattern", V), FieldMapping("path", "path", P)],
        each: None,
        fixed: &[],
    },
    ToolMapping {
        ours: "grep",
        call: &[
            FieldMapping("pattern", "pattern", V),
            FieldMapping("path", "path", P),
            FieldMapping("glob", "glob", V),
            FieldMapping("-i", "ignore_case", V),
            FieldMapping("-C", "context", V),
            FieldMapping("head_limit", "limit", V),
        ],
        each: None,
        fixed: &[("output_mode", "\"content\"")],
    },
    ToolMapping {
        ours: "fetch",
        call: &[FieldMapping("url", "url", V)],
        each: None,
        fixed: &[("prompt", "\"\"")],
    },
    ToolMapping {
        ours: "invoke_subagent",
        call: &[FieldMapping("subagent_type", "name", V), FieldMapping("prompt", "prompt", V)],
        each: None,
        fixed: &[("description", "\"\"")],
    },
    ToolMapping {
        ours: "delegate",
        call: &[],
        each: Some((
            "tasks",
            &[FieldMapping("subagent_type", "agent", V), FieldMapping("prompt", "prompt", V)],
        )),
        fixed: &[("description", "\"\"")],
    },
    ToolMapping {
        ours: "invoke_skill",
        call: &[FieldMapping("skill", "name", V), FieldMapping("args", "args", V)],
        each: None,
        fixed: &[],
    },
];

/// Fields of theirs that change nothing about the effect of a call.
const DESCRIPTIVE_FIELDS: [&str; 2] = ["description", "prompt"];

/// Tools of theirs that no tool of ours is mapped to, because their fields differ.
const UNMAPPED_TOOLS: [&str; 2] = ["MultiEdit", "NotebookEdit"];

/// A tool of ours, and their name for a call of it with several parts. Hooks still get it part by part.
const MULTI_PART_NAMES: [(&str, &str); 1] = [("edit", "MultiEdit")];

/// A call of theirs that corresponds to a call of ours, or to a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClaudeCall {
    /// Their names of the tool, the current name first.
    pub(crate) names: Vec<&'static str>,
    /// The input in their fields.
    pub(crate) input: Map<String, Value>,
    /// The index of the part of our call.
    part: Option<usize>,
    /// The index of its mapping; `None` if the input is the same as ours.
    shape: Option<usize>,
}

/// Their names for a tool of ours. Empty if the name is the same.
pub(crate) fn their_names(ours: &str) -> Vec<&'static str> {
    let ours = match ours {
        "bash_background" => "bash",
        "delegate" => "invoke_subagent",
        other => other,
    };
    let theirs = OTHER_NAMES.iter().filter(|(_, name)| *name == ours).map(|(theirs, _)| *theirs);
    theirs.filter(|theirs| !UNMAPPED_TOOLS.contains(theirs)).collect()
}

/// Converts a call of ours into one or several of theirs.
pub(crate) fn claude_calls(tool: &str, input: &Value, workspace: &Workspace) -> Vec<ClaudeCall> {
    let unchanged = || {
        let input = input.as_object().cloned().unwrap_or_default();
        vec![ClaudeCall { names: vec![], input, part: None, shape: None }]
    };
    if tool == "ask_user" {
        return vec![ask_user_call(input)];
    }
    if tool == "bash_background" && input["action"] != "start" {
        return unchanged();
    }
    let Some(index) = TOOL_MAPPINGS.iter().position(|shape| shape.ours == tool) else {
        return unchanged();
    };
    let (shape, mut names) = (&TOOL_MAPPINGS[index], their_names(tool));
    let mut call = Map::new();
    insert_fields(&mut call, shape.call, input, workspace);
    let add_fixed_fields = |call: &mut Map<String, Value>| {
        for (key, json) in shape.fixed {
            call.insert((*key).into(), serde_json::from_str(json).unwrap_or_default());
        }
    };
    let Some((list, fields)) = shape.each else {
        add_fixed_fields(&mut call);
        return vec![ClaudeCall { names, input: call, part: None, shape: Some(index) }];
    };
    let parts = input[list].as_array().map_or(&[][..], Vec::as_slice);
    if parts.len() > 1 {
        let several = MULTI_PART_NAMES.iter().filter(|(ours, _)| *ours == tool);
        names.extend(several.map(|(_, theirs)| *theirs));
    }
    let calls = parts.iter().enumerate().map(|(part, item)| {
        let mut input = call.clone();
        insert_fields(&mut input, fields, item, workspace);
        add_fixed_fields(&mut input);
        ClaudeCall { names: names.clone(), input, part: Some(part), shape: Some(index) }
    });
    calls.collect()
}

fn insert_fields(
    call: &mut Map<String, Value>,
    fields: &[FieldMapping],
    input: &Value,
    workspace: &Workspace,
) {
    for FieldMapping(theirs, ours, kind) in fields {
        let Some(value) = input.get(*ours) else { continue };
        let value = match (kind, value) {
            (FieldKind::Path, Value::String(path)) => absolute_path(path, workspace).into(),
            _ => value.clone(),
        };
        call.insert((*theirs).into(), value);
    }
}

/// The absolute form of a path, as it is written. A path with `..` is resolved to the file it means, because
/// the parent of a link is not the parent of the link's target.
pub(crate) fn absolute_path(path: &str, workspace: &Workspace) -> String {
    let path = paths::expand_home(path, workspace);
    let touched = paths::touched_paths(&path, workspace);
    let goes_up = Path::new(&*path).components().any(|part| part.as_os_str() == "..");
    let absolute = if goes_up { touched.first() } else { touched.last() };
    absolute.map_or_else(|| path.to_string(), |absolute| absolute.to_string_lossy().into_owned())
}

fn ask_user_call(input: &Value) -> ClaudeCall {
    let label = |option: &Value| json!({"label": option, "description": ""});
    let options = input["options"].as_array().map_or(&[][..], Vec::as_slice);
    let question = json!({
        "question": input["question"],
        "header": "",
        "options": options.iter().map(label).collect::<Vec<_>>(),
        "multiSelect": input["multiple"].as_bool().unwrap_or(false),
    });
    let mut fields = Map::new();
    fields.insert("questions".into(), json!([question]));
    ClaudeCall { names: their_names("ask_user"), input: fields, part: None, shape: None }
}

impl ClaudeCall {
    /// Applies a hook's change of this call to our input, which may have parts. A change that our fields
    /// cannot express is an error: only the call that the hook meant may run.
    pub(crate) fn apply_update(
        &self,
        updated: &Map<String, Value>,
        input: &mut Value,
    ) -> Result<(), String> {
        let Some(shape) = self.shape.map(|index| &TOOL_MAPPINGS[index]) else {
            if !self.names.is_empty() && *updated != self.input {
                return Err("a question to a person cannot be changed".into());
            }
            *input = Value::Object(updated.clone());
            return Ok(());
        };
        for (key, value) in updated {
            if self.input.get(key) == Some(value) {
                continue;
            }
            let known =
                |fields: &'static [FieldMapping]| fields.iter().find(|field| field.0 == key);
            let of_part = shape.each.and_then(|(list, fields)| Some((list, known(fields)?)));
            match (of_part, known(shape.call)) {
                (Some((list, field)), _) => {
                    let part = self.part.unwrap_or_default();
                    input[list][part][field.1] = value.clone();
                }
                (None, Some(field)) => {
                    let several = shape.each.and_then(|(list, _)| input[list].as_array());
                    if several.is_some_and(|parts| parts.len() > 1) {
                        return Err(format!("`{key}` is common to all parts of this call"));
                    }
                    input[field.1] = value.clone();
                }
                (None, None)
                    if is_empty_value(value) || DESCRIPTIVE_FIELDS.contains(&key.as_str()) => {}
                (None, None) => {
                    let key = cotter::text::show_line(key);
                    return Err(format!("`{}` has no `{key}`", shape.ours));
                }
            }
        }
        self.remove_left_out_fields(shape, updated, input);
        Ok(())
    }

    /// Removes the fields that a hook left out of the input.
    fn remove_left_out_fields(
        &self,
        shape: &ToolMapping,
        updated: &Map<String, Value>,
        input: &mut Value,
    ) {
        let is_left_out = |field: &&FieldMapping| {
            self.input.contains_key(field.0) && !updated.contains_key(field.0)
        };
        let remove = |object: Option<&mut Value>, fields: &'static [FieldMapping]| {
            if let Some(object) = object.and_then(Value::as_object_mut) {
                fields.iter().filter(is_left_out).for_each(|field| _ = object.remove(field.1));
            }
        };
        if let (Some((list, fields)), Some(part)) = (shape.each, self.part) {
            remove(input.get_mut(list).and_then(|parts| parts.get_mut(part)), fields);
        }
        remove(Some(input), shape.call);
    }
}

fn is_empty_value(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false)) || value == ""
}

/// A result of ours, in the form of theirs.
pub(crate) fn response(call: &ClaudeCall, name: &str, result: &str, interrupted: bool) -> Value {
    let text = || json!([{"type": "text", "text": result}]);
    match name {
        "Bash" => {
            json!({"stdout": result, "stderr": "", "interrupted": interrupted, "isImage": false})
        }
        "Write" | "Edit" => json!({"filePath": call.input.get("file_path"), "success": true}),
        "Read" => {
            let file = json!({"filePath": call.input.get("file_path"), "content": result});
            json!({"type": "text", "file": file})
        }
        "WebFetch" => json!({"url": call.input.get("url"), "result": result}),
        "Agent" | "Task" => json!({"status": "completed", "content": text()}),
        name if name.starts_with("mcp__") => text(),
        _ => json!({"content": result}),
    }
}

/// The text of a result in their form; `None` if the form is unknown.
pub(crate) fn read_response(response: &Value) -> Option<String> {
    let text = |key: &str| response.get(key).and_then(Value::as_str).map(str::to_owned);
    match response {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| block["text"].as_str());
            Some(texts.collect::<Option<Vec<_>>>()?.join("\n"))
        }
        Value::Object(object) => {
            if let Some(stdout) = text("stdout") {
                let stderr = text("stderr").filter(|text| !text.is_empty());
                return Some(stderr.map_or(stdout.clone(), |stderr| format!("{stdout}\n{stderr}")));
            }
            let inner = object.get("content").or_else(|| object.get("file"));
            text("result").or_else(|| read_response(inner?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cotter::host::our_tools;

    use super::*;

    #[test]
    fn b3_every_tool_with_a_claude_name_has_a_mapping() {
        let mapped: BTreeSet<_> = TOOL_MAPPINGS.iter().map(|mapping| mapping.ours).collect();
        let mut named: BTreeSet<_> =
            OTHER_NAMES.iter().flat_map(|(theirs, _)| our_tools(theirs)).collect();
        assert!(named.remove("ask_user"), "its questions have another shape: hooks see our input");
        assert_eq!(mapped, named);
    }
}
