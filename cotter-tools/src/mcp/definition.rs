//! A tool as its server defines it, its digest, and the tool that the model is shown.

use cotter::{
    ToolSpec,
    permission::{Zone, facts::Doubt},
    text,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use smol_str::SmolStr;

use cotter_files::settings::mcp_servers::McpServer;

/// The longest description for the model.
const DESCRIPTION_BYTES: usize = 8 * 1024;
/// The largest schema.
const SCHEMA_BYTES: usize = 64 * 1024;
/// The longest name that all providers take.
const NAME_BYTES: usize = 64;

/// A tool as its server defines it: everything that a person accepts with it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Definition {
    /// The server's name of the tool.
    pub name: String,
    /// A title for people.
    pub title: Option<String>,
    /// The server's description.
    pub description: String,
    /// The schema of its input, unchecked.
    pub schema: Value,
    /// The server's hints about it.
    pub annotations: Value,
}

impl Definition {
    /// Parses an element of a tool list; `None` without a name.
    pub(crate) fn parse(tool: &Value) -> Option<Self> {
        let text = |key: &str| tool[key].as_str().map(str::to_owned);
        Some(Definition {
            name: text("name")?,
            title: text("title"),
            description: text("description").unwrap_or_default(),
            schema: tool["inputSchema"].clone(),
            annotations: tool["annotations"].clone(),
        })
    }

    /// The definition as JSON, with the keys of the protocol.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": self.annotations,
        })
    }

    /// The SHA-256 of the definition, in 64 hex digits. The order of keys does not matter.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(sort_keys(&self.to_json()).to_string()))
    }

    /// A hint of the server, if it gives one.
    fn hint(&self, name: &str) -> Option<bool> {
        self.annotations[name].as_bool()
    }
}

/// A tool that the model is shown.
#[derive(Clone, Debug)]
pub(crate) struct OfferedTool {
    pub(crate) spec: ToolSpec,
    /// The server's name of the tool.
    pub(crate) name: SmolStr,
    /// The digest of the accepted definition.
    pub(crate) digest: String,
    pub(crate) zone: Zone,
    pub(crate) doubts: Vec<Doubt>,
}

impl OfferedTool {
    /// The tool for a definition, or the reason to leave it out.
    pub(crate) fn new(server: &McpServer, definition: &Definition) -> Result<Self, String> {
        let name = tool_name(server.name(), &definition.name)?;
        let schema = &definition.schema;
        if schema["type"] != "object" {
            return Err("its schema is not that of an object".into());
        }
        let size = schema.to_string().len();
        if size > SCHEMA_BYTES {
            return Err(format!("its schema has {size} bytes; it may have {SCHEMA_BYTES}"));
        }
        let (zone, doubts) = risk(server, definition);
        let description = sanitize(&definition.description);
        Ok(OfferedTool {
            spec: ToolSpec::new(name, description, sanitize_schema(schema)),
            name: definition.name.as_str().into(),
            digest: definition.digest(),
            zone,
            doubts,
        })
    }
}

/// `mcp__server__tool`. Names of servers have no `__` in them and no `_` at their ends, so the name
/// can be split in one way only. Nothing is replaced or cut, so no two tools share a name.
fn tool_name(server: &str, tool: &str) -> Result<SmolStr, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if tool.is_empty() || !tool.bytes().all(fits) {
        return Err("its name may have only letters, digits, `_`, `-` and `.`".into());
    }
    let name = format!("mcp__{server}__{tool}");
    if name.len() > NAME_BYTES {
        let room = NAME_BYTES + tool.len() - name.len();
        return Err(format!("its name has {} characters; it may have {room}", tool.len()));
    }
    Ok(name.into())
}

/// The zone and doubts of a call. A server's hints can only raise the risk: a tool counts as
/// reading only if the person says so and the server does not deny it.
fn risk(server: &McpServer, definition: &Definition) -> (Zone, Vec<Doubt>) {
    let only_reads = server.read_only.matches(&definition.name)
        && definition.hint("readOnlyHint") != Some(false);
    let zone = if only_reads { Zone::Network } else { Zone::External };
    let destroys = definition.hint("destructiveHint") == Some(true);
    let (tool, server) = (text::show_line(&definition.name), server.name());
    let message = format!("the MCP server `{server}` says that `{tool}` may destroy things");
    (zone, destroys.then_some(Doubt::Destructive(message)).into_iter().collect())
}

/// A server's text for the model: hidden characters visible, no fake notes, clipped.
fn sanitize(raw: &str) -> String {
    let shown = text::show(raw);
    let mut text = text::escape_note_tags(&shown);
    if text.len() > DESCRIPTION_BYTES {
        let left_out = text.len() - DESCRIPTION_BYTES;
        text.truncate(text.floor_char_boundary(DESCRIPTION_BYTES));
        text.push_str(&format!("… [about {left_out} bytes left out]"));
    }
    text
}

/// A schema with sanitized descriptions and titles; the rest, which checks input, is unchanged.
fn sanitize_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let sanitize = |(key, value): (&String, &Value)| {
                let value = match (key.as_str(), value) {
                    ("description" | "title", Value::String(text)) => Value::String(sanitize(text)),
                    (_, value) => sanitize_schema(value),
                };
                (key.clone(), value)
            };
            Value::Object(members.iter().map(sanitize).collect())
        }
        Value::Array(elements) => Value::Array(elements.iter().map(sanitize_schema).collect()),
        value => value.clone(),
    }
}

/// A value with the keys of every object sorted.
fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(Map::from_iter(members))
        }
        Value::Array(elements) => Value::Array(elements.iter().map(sort_keys).collect()),
        value => value.clone(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
