//! Servers of the Model Context Protocol: the section `mcpServers`, and the file that has only this section.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::shape::{Text, plain, read};

pub(crate) fn file() -> Schema {
    read::<File>()
}

/// Servers of the Model Context Protocol, for `cotter --mcp FILE`.
#[derive(JsonSchema)]
#[schemars(title = "MCP servers of cotter", deny_unknown_fields)]
#[schemars(extend("allowComments" = true, "allowTrailingCommas" = true))]
struct File {
    /// The path of this schema, for editors.
    #[schemars(rename = "$schema")]
    schema: Option<String>,
    /// The servers, by name.
    #[schemars(rename = "mcpServers")]
    servers: Servers,
}

plain! {
    /// A name that is part of tools' names: `mcp__NAME__TOOL`.
    Name = json_schema!({"pattern": "^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$", "maxLength": 32});
    /// The name of a variable in `env`.
    Given = json_schema!({"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"});
    /// The name of a header.
    Header = json_schema!({"pattern": "^[-!#$%&'*+.^_`|~0-9A-Za-z]+$"});
    /// A URL.
    Address = json_schema!({
        "type": "string", "pattern": r"^\s*[Hh][Tt][Tt][Pp][Ss]?:\S", "examples": ["https://example.org/mcp"],
    });
}

/// Servers by name.
pub(crate) struct Servers;

impl JsonSchema for Servers {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Servers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let program = generator.subschema_for::<Program>();
        let address = generator.subschema_for::<Remote>();
        json_schema!({
            "type": "object",
            "propertyNames": Name::json_schema(generator),
            "additionalProperties": {"anyOf": [program, address]},
            "examples": [{"docs": {"command": "docs-server", "args": ["--stdio"]}}],
        })
    }
}

/// A server that is a program, with the protocol on its standard input and output.
#[derive(JsonSchema)]
#[schemars(rename = "mcpProgram", rename_all = "camelCase", deny_unknown_fields)]
struct Program {
    /// `stdio`: the default without `url`.
    #[schemars(rename = "type", extend("enum" = ["stdio"]))]
    kind: Option<String>,
    /// The program: a name in `PATH`, or a path.
    #[schemars(extend("examples" = ["docs-server"]))]
    command: Text,
    /// The arguments. `${NAME}` and `${NAME:-default}` are replaced by your variables.
    #[schemars(extend("examples" = [["--stdio"]]))]
    args: Option<Vec<String>>,
    /// Variables besides the few that every server gets. `${NAME}` is replaced as in `args`.
    #[schemars(extend("propertyNames" = Given::json_schema(generator), "examples" = [{"TOKEN": "${DOCS_TOKEN}"}]))]
    env: Option<BTreeMap<String, String>>,
    /// The folder that the program starts in. Without it, the project.
    cwd: Option<Text>,
    /// `true`: the program may use local sockets, such as those of a container service or a desktop.
    local_sockets: Option<bool>,
    #[schemars(flatten)]
    common: Common,
}

/// A server at an HTTP address.
#[derive(JsonSchema)]
#[schemars(rename = "mcpAddress", rename_all = "camelCase", deny_unknown_fields)]
struct Remote {
    /// `http`: the default with `url`.
    #[schemars(rename = "type", extend("enum" = ["http", "streamable-http"]))]
    kind: Option<String>,
    /// The address.
    url: Address,
    /// The headers of every request. `${NAME}` and `${NAME:-default}` are replaced by your variables: keep secrets
    /// in variables.
    #[schemars(extend(
        "propertyNames" = Header::json_schema(generator),
        "examples" = [{"Authorization": "Bearer ${DOCS_TOKEN}"}]
    ))]
    headers: Option<BTreeMap<String, String>>,
    #[schemars(flatten)]
    common: Common,
}

/// The keys of every server.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct Common {
    /// The tools of the server that may be used.
    tools: Option<Tools>,
    /// The tools that you declare to change nothing, as globs over the server's own names.
    #[schemars(extend("examples" = [["get_*"]]))]
    read_only: Option<Vec<Text>>,
    /// The time limit of a call, in milliseconds. The default is 60000.
    #[schemars(range(min = 1, max = 86_400_000))]
    timeout_ms: Option<u64>,
    /// The time limit for starting the server and listing its tools, in milliseconds. The default is 30000.
    #[schemars(range(min = 1, max = 86_400_000))]
    start_timeout_ms: Option<u64>,
}

/// Globs over the server's own names for its tools.
#[derive(JsonSchema)]
#[schemars(rename = "mcpTools", deny_unknown_fields)]
struct Tools {
    /// The tools that may be used. Without it, all tools.
    #[schemars(extend("examples" = [["get_*", "list_*"]]))]
    allow: Option<Vec<Text>>,
    /// The tools that may not be used. `deny` wins over `allow`.
    #[schemars(extend("examples" = [["delete_*"]]))]
    deny: Option<Vec<Text>>,
}
