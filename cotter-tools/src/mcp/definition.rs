//! A tool as its server defines it, the digest it is known by, and what becomes of it for the model.

use cotter::{
    ToolSpec,
    permission::{Zone, facts::Doubt},
    text,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use smol_str::SmolStr;

use cotter_files::settings::mcp_servers::McpServer;

/// The most of a description that the model gets.
const DESCRIPTION_BYTES: usize = 8 * 1024;
/// The most a schema may have.
const SCHEMA_BYTES: usize = 64 * 1024;
/// The longest name that all providers take.
const NAME_BYTES: usize = 64;

/// A tool as its server defines it: everything that a person trusts when they trust it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Definition {
    /// The name its server calls it by.
    pub name: String,
    /// A title for people.
    pub title: Option<String>,
    /// What it does, in its server's words.
    pub description: String,
    /// The schema of its input; whatever stood there.
    pub schema: Value,
    /// What its server claims about it.
    pub annotations: Value,
}

impl Definition {
    /// What an element of a list of tools says; `None` where it has no name.
    pub(crate) fn parse(listed: &Value) -> Option<Self> {
        let text = |key: &str| listed[key].as_str().map(str::to_owned);
        Some(Definition {
            name: text("name")?,
            title: text("title"),
            description: text("description").unwrap_or_default(),
            schema: listed["inputSchema"].clone(),
            annotations: listed["annotations"].clone(),
        })
    }

    /// The same as JSON, with the keys of the protocol.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": self.annotations,
        })
    }

    /// What tells it from every other definition, in 64 hex digits. The order of keys makes no difference.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(sorted(&self.to_json()).to_string()))
    }

    /// What its server claims, where it does.
    fn claims(&self, hint: &str) -> Option<bool> {
        self.annotations[hint].as_bool()
    }
}

/// A tool that the model is shown.
#[derive(Clone, Debug)]
pub(crate) struct OfferedTools {
    pub(crate) spec: ToolSpec,
    /// The name its server calls it by.
    pub(crate) name: SmolStr,
    /// What it was accepted as.
    pub(crate) digest: String,
    pub(crate) zone: Zone,
    pub(crate) doubts: Vec<Doubt>,
}

impl OfferedTools {
    /// What is made of a definition; or why it is left out.
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
        let description = fit(&definition.description);
        Ok(OfferedTools {
            spec: ToolSpec::new(name, description, with_fit_words(schema)),
            name: definition.name.as_str().into(),
            digest: definition.digest(),
            zone,
            doubts,
        })
    }
}

/// `mcp__server__tool`. Names of servers have no `__` in them and no `_` at their ends, so it can be
/// taken apart in one way only; nothing is replaced or cut, so no two tools have one name.
fn tool_name(server: &str, tool: &str) -> Result<SmolStr, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if tool.is_empty() || !tool.bytes().all(fits) {
        return Err("its name has more than letters, digits, `_`, `-` and `.`".into());
    }
    let name = format!("mcp__{server}__{tool}");
    if name.len() > NAME_BYTES {
        let room = NAME_BYTES + tool.len() - name.len();
        return Err(format!("its name has {} letters; here it may have {room}", tool.len()));
    }
    Ok(name.into())
}

/// How far a call reaches. What a server claims may make it worse, never better: that a tool only reads
/// counts when the person says so, and then not against the server's own word.
fn risk(server: &McpServer, definition: &Definition) -> (Zone, Vec<Doubt>) {
    let only_reads = server.read_only.matches(&definition.name)
        && definition.claims("readOnlyHint") != Some(false);
    let zone = if only_reads { Zone::Network } else { Zone::External };
    let destroys = definition.claims("destructiveHint") == Some(true);
    let (tool, server) = (text::show_line(&definition.name), server.name());
    let words = format!("the MCP server `{server}` says that `{tool}` may destroy things");
    (zone, destroys.then_some(Doubt::Destructive(words)).into_iter().collect())
}

/// A server's words as the model gets them: nothing hidden, nothing that poses as a note, not too much.
fn fit(words: &str) -> String {
    let shown = text::show(words);
    let mut fit = text::without_notes(&shown);
    if fit.len() > DESCRIPTION_BYTES {
        let left_out = fit.len() - DESCRIPTION_BYTES;
        fit.truncate(fit.floor_char_boundary(DESCRIPTION_BYTES));
        fit.push_str(&format!("… [about {left_out} bytes left out]"));
    }
    fit
}

/// A schema with its words for the model made fit; what input is checked against stays.
fn with_fit_words(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let fit = |(key, value): (&String, &Value)| {
                let value = match (key.as_str(), value) {
                    ("description" | "title", Value::String(words)) => Value::String(fit(words)),
                    (_, value) => with_fit_words(value),
                };
                (key.clone(), value)
            };
            Value::Object(members.iter().map(fit).collect())
        }
        Value::Array(elements) => Value::Array(elements.iter().map(with_fit_words).collect()),
        value => value.clone(),
    }
}

/// The same with the keys of every object in the alphabet's order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(Map::from_iter(members))
        }
        Value::Array(elements) => Value::Array(elements.iter().map(sorted).collect()),
        value => value.clone(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
