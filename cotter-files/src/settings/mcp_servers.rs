//! The section `mcpServers`: the MCP servers and how to reach them, read strictly.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use globset::{Glob, GlobSet, GlobSetBuilder};
use http::HeaderName;
use sha2::{Digest, Sha256};
use smol_str::SmolStr;
use url::Url;

use crate::document::{
    Document, Node,
    location::{SettingsError, SourcedText},
};

/// The keys of a server that is a program.
const PROGRAM_KEYS: [&str; 5] = ["command", "args", "env", "cwd", "localSockets"];
/// The keys of a server at an address.
const ADDRESS_KEYS: [&str; 2] = ["url", "headers"];
/// The keys of every server.
const COMMON_KEYS: [&str; 5] = ["type", "tools", "readOnly", "timeoutMs", "startTimeoutMs"];

const NAME_RULE: &str = "a server's name has 1 to 32 letters, digits, `-` and single `_`, and no `_` at \
                     either end";

/// Headers that the protocol itself sets.
const RESERVED: [&str; 6] =
    ["accept", "content-length", "host", "last-event-id", "mcp-protocol-version", "mcp-session-id"];

/// An MCP server: how to reach it, and which of its tools are allowed.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// The name. It is part of the names of the server's tools, so its characters are limited: see
    /// [`McpServer::new`].
    name: SmolStr,
    /// The way to reach the server.
    pub transport: Transport,
    /// The allowed tools; empty allows all.
    pub allow: Globs,
    /// The denied tools; wins over `allow`.
    pub deny: Globs,
    /// The tools that change nothing, as the user declares.
    pub read_only: Globs,
    /// The time limit of a call.
    pub timeout: Duration,
    /// The time limit for starting the server and listing its tools.
    pub start_timeout: Duration,
}

/// The way to reach a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A program with the protocol on its standard input and output.
    Stdio {
        /// The program: a name in `PATH`, or a path.
        command: String,
        /// The arguments. `${NAME}` is replaced by the user's variable.
        args: Vec<String>,
        /// Variables besides the few that every server gets. `${NAME}` is replaced as in `args`.
        env: BTreeMap<String, String>,
        /// The folder that the program starts in; the default is the project.
        cwd: Option<PathBuf>,
        /// True if the program may use local sockets, such as those of a container service, a desktop or a
        /// terminal. Only needed in the sandbox.
        local_sockets: bool,
    },
    /// A server at an HTTP address.
    Http {
        /// The address.
        url: Url,
        /// Headers of every request. `${NAME}` is replaced as in `args`.
        headers: Vec<(HeaderName, String)>,
    },
}

/// Shows only names: values may be secrets.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.identity())
    }
}

impl Transport {
    /// A text that identifies this transport, without secrets.
    fn identity(&self) -> String {
        match self {
            Transport::Stdio { command, args, env, cwd, .. } => {
                let names: Vec<_> = env.keys().collect();
                format!("stdio {command:?} {args:?} {names:?} {cwd:?}")
            }
            Transport::Http { url, headers } => {
                let mut url = url.clone();
                // Both calls succeed for an address with a host.
                let _ = (url.set_password(None), url.set_username(""));
                let names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
                format!("http {} {names:?}", url.as_str())
            }
        }
    }
}

/// Globs for names of tools.
#[derive(Clone, Debug, Default)]
pub struct Globs {
    set: GlobSet,
}

impl Globs {
    /// Compiles globs such as `read_*`, `{get,list}_*`. The error names an invalid glob.
    pub fn new<S: AsRef<str>>(globs: impl IntoIterator<Item = S>) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            set.add(Glob::new(glob.as_ref()).map_err(|cause| cause.to_string())?);
        }
        Ok(Globs { set: set.build().map_err(|cause| cause.to_string())? })
    }

    /// True if one of the globs matches.
    pub fn matches(&self, name: &str) -> bool {
        self.set.is_match(name)
    }

    /// True if the list of globs is empty.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }
}

impl McpServer {
    /// Creates a server with all its tools. The error says which names are valid.
    pub fn new(name: &str, transport: Transport) -> Result<Self, &'static str> {
        let fits = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
        let is_ambiguous = name.contains("__") || name.starts_with('_') || name.ends_with('_');
        if !(1..=32).contains(&name.len()) || !name.chars().all(fits) || is_ambiguous {
            return Err(NAME_RULE);
        }
        Ok(McpServer {
            name: name.into(),
            transport,
            allow: Globs::default(),
            deny: Globs::default(),
            read_only: Globs::default(),
            timeout: Duration::from_secs(60),
            start_timeout: Duration::from_secs(30),
        })
    }

    /// The name of the server.
    pub fn name(&self) -> &SmolStr {
        &self.name
    }

    /// True if the tool is allowed.
    pub fn has(&self, tool: &str) -> bool {
        (self.allow.is_empty() || self.allow.matches(tool)) && !self.deny.matches(tool)
    }

    /// A digest that identifies this entry: after a change, the server is asked for its tools again.
    pub fn identity(&self) -> String {
        let digest = Sha256::digest(self.transport.identity());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The servers of a file, by name.
#[derive(Clone, Debug, Default)]
pub struct Servers(Vec<McpServer>);

impl Servers {
    /// Reads the value of `mcpServers`.
    pub fn read(node: Node<'_>) -> Result<Self, SettingsError> {
        let server = |(key, node): (SourcedText, Node<'_>)| server(&key, node);
        Ok(Servers(node.object()?.entries().map(server).collect::<Result<_, _>>()?))
    }

    /// Loads a file `{"mcpServers": {…}}`; `None` if there is no file.
    pub fn load(path: &Path) -> Result<Option<Self>, SettingsError> {
        let document = Document::load(path)?;
        document.map(|document| Servers::from_document(&document)).transpose()
    }

    /// Reads a document `{"mcpServers": {…}}`.
    pub fn from_document(document: &Document) -> Result<Self, SettingsError> {
        let object = document.root().object()?.keys(&["$schema", "mcpServers"])?;
        object.get("$schema").map(|node| node.string()).transpose()?;
        Servers::read(object.require("mcpServers")?)
    }

    /// Adds the servers of `further` whose names are not used yet: the nearest entry wins as a whole.
    #[must_use]
    pub fn or(mut self, further: Servers) -> Self {
        for server in further.0 {
            if !self.0.iter().any(|other| other.name == server.name) {
                self.0.push(server);
            }
        }
        self
    }

    /// True if there are no servers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The servers in order.
    pub fn iter(&self) -> impl Iterator<Item = &McpServer> {
        self.0.iter()
    }
}

impl FromIterator<McpServer> for Servers {
    fn from_iter<I: IntoIterator<Item = McpServer>>(servers: I) -> Self {
        Servers::default().or(Servers(servers.into_iter().collect()))
    }
}

impl IntoIterator for Servers {
    type Item = McpServer;
    type IntoIter = std::vec::IntoIter<McpServer>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

fn server(key: &SourcedText, node: Node<'_>) -> Result<McpServer, SettingsError> {
    let mut server = McpServer::new(&key.text, transport(node)?)
        .map_err(|message| key.location.error(message))?;
    let object = node.object()?;
    if let Some(tools) = object.get("tools") {
        let tools = tools.object()?.keys(&["allow", "deny"])?;
        server.allow = tools.get("allow").map(globs).transpose()?.unwrap_or_default();
        server.deny = tools.get("deny").map(globs).transpose()?.unwrap_or_default();
    }
    server.read_only = object.get("readOnly").map(globs).transpose()?.unwrap_or_default();
    const A_DAY: u64 = 24 * 60 * 60 * 1000;
    let millis = |node: Node<'_>| node.u64_in(1..=A_DAY).map(Duration::from_millis);
    if let Some(timeout) = object.get("timeoutMs").map(millis).transpose()? {
        server.timeout = timeout;
    }
    if let Some(timeout) = object.get("startTimeoutMs").map(millis).transpose()? {
        server.start_timeout = timeout;
    }
    Ok(server)
}

#[derive(Clone, Copy)]
enum Kind {
    Stdio,
    Http,
    Sse,
}

fn transport(node: Node<'_>) -> Result<Transport, SettingsError> {
    const KINDS: &[(&str, Kind)] = &[
        ("stdio", Kind::Stdio),
        ("http", Kind::Http),
        ("streamable-http", Kind::Http),
        ("sse", Kind::Sse),
    ];
    let object = node.object()?;
    let explicit = object.get("type").map(|node| node.one_of(KINDS)).transpose()?;
    let kind = explicit.unwrap_or(match object.get("url") {
        Some(_) => Kind::Http,
        None => Kind::Stdio,
    });
    let with_common_keys = |keys: &[&'static str]| [keys, &COMMON_KEYS].concat();
    match kind {
        Kind::Stdio => {
            let object = object.keys(&with_common_keys(&PROGRAM_KEYS))?;
            let strings = |node: Node<'_>| -> Result<Vec<String>, SettingsError> {
                node.list()?.map(|node| node.string().map(str::to_owned)).collect()
            };
            Ok(Transport::Stdio {
                command: object.require("command")?.non_empty_string()?.to_owned(),
                args: object.get("args").map(strings).transpose()?.unwrap_or_default(),
                env: object.get("env").map(variables).transpose()?.unwrap_or_default(),
                cwd: object
                    .get("cwd")
                    .map(|node| node.non_empty_string())
                    .transpose()?
                    .map(Into::into),
                local_sockets: object
                    .get("localSockets")
                    .map(|node| node.bool())
                    .transpose()?
                    .unwrap_or(false),
            })
        }
        Kind::Http => {
            let object = object.keys(&with_common_keys(&ADDRESS_KEYS))?;
            Ok(Transport::Http {
                url: address(object.require("url")?)?,
                headers: object.get("headers").map(headers).transpose()?.unwrap_or_default(),
            })
        }
        Kind::Sse => {
            let error =
                object.require("type")?.error("servers of the older kind `sse` are not supported");
            Err(error
                .with_hint("many servers also support `http`, at an address that ends in `/mcp`"))
        }
    }
}

fn globs(node: Node<'_>) -> Result<Globs, SettingsError> {
    let mut globs = vec![];
    for node in node.list()? {
        let glob = node.non_empty_string()?;
        Globs::new([glob]).map_err(|cause| node.error(cause))?;
        globs.push(glob);
    }
    Globs::new(globs).map_err(|cause| node.error(cause))
}

fn variables(node: Node<'_>) -> Result<BTreeMap<String, String>, SettingsError> {
    let variable = |(key, node): (SourcedText, Node<'_>)| {
        let fits = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let begins = |char: char| !char.is_ascii_digit();
        if !key.text.starts_with(begins) || !key.text.chars().all(fits) {
            return Err(key.location.error("a variable's name has letters, digits and `_`"));
        }
        Ok((key.text, node.string()?.to_owned()))
    };
    node.object()?.entries().map(variable).collect()
}

fn address(node: Node<'_>) -> Result<Url, SettingsError> {
    let url = Url::parse(node.non_empty_string()?).ok();
    let fits = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    // The address may contain a key, so the error does not repeat it.
    url.filter(fits)
        .ok_or_else(|| node.error("expected an address that begins with https:// or http://"))
}

fn headers(node: Node<'_>) -> Result<Vec<(HeaderName, String)>, SettingsError> {
    let header = |(key, node): (SourcedText, Node<'_>)| {
        let name = key.text.parse::<HeaderName>();
        let name = name.map_err(|_| key.location.error("not a valid name of a header"))?;
        if RESERVED.contains(&name.as_str()) {
            return Err(key
                .location
                .error(format!("the header `{name}` is reserved for the protocol")));
        }
        Ok((name, node.string()?.to_owned()))
    };
    node.object()?.entries().map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use expect_test::{Expect, expect};

    /// Compares the output that a person sees: the servers, or the error with its hint.
    fn check(entries: &str, expected: Expect) {
        let document = Document::parse("mcp.json", entries);
        let read = document.and_then(|document| Servers::read(document.root()));
        expected.assert_eq(&match read {
            Ok(servers) => servers.iter().map(shown).collect::<Vec<_>>().join("\n"),
            Err(error) => match error.hint() {
                Some(hint) => format!("error: {error}\nhint: {hint}"),
                None => format!("error: {error}"),
            },
        });
    }

    fn shown(server: &McpServer) -> String {
        let tools = ["get", "set", "drop"].into_iter().filter(|tool| server.has(tool));
        let reads = ["get", "set"].into_iter().filter(|tool| server.read_only.matches(tool));
        let (tools, reads): (Vec<_>, Vec<_>) = (tools.collect(), reads.collect());
        let McpServer { name, transport, timeout, start_timeout, .. } = server;
        format!("{name}: {transport:?} has {tools:?} reads {reads:?} {timeout:?} {start_timeout:?}")
    }

    #[test]
    fn mcp_servers_are_read() {
        check(
            r#"{
                "notes": {"command": "npx", "args": ["-y", "x@1"], "env": {"TOKEN": "hush"}, "cwd": "sub"},
                "bare": {"type": "stdio", "command": "/bin/x"},
                "web": {
                    "type": "http", "url": "https://me:hush@example.org/mcp", "headers": {"X-Key": "hush"},
                    "tools": {"allow": ["*et"], "deny": ["s*"]}, "readOnly": ["get"],
                    "timeoutMs": 5, "startTimeoutMs": 7
                },
                "untold": {"url": "http://127.0.0.1:1/"}
            }"#,
            expect![[r#"
                notes: stdio "npx" ["-y", "x@1"] ["TOKEN"] Some("sub") has ["get", "set", "drop"] reads [] 60s 30s
                bare: stdio "/bin/x" [] [] None has ["get", "set", "drop"] reads [] 60s 30s
                web: http https://example.org/mcp ["x-key"] has ["get"] reads ["get"] 5ms 7ms
                untold: http http://127.0.0.1:1/ [] has ["get", "set", "drop"] reads [] 60s 30s"#]],
        );
        check("{}", expect![""]);
    }

    #[test]
    fn mcp_server_errors_name_their_place() {
        check(r#"[]"#, expect!["error: mcp.json:1:1: $: expected an object, found a list"]);
        check(
            r#"{"a": {"comand": "x"}}"#,
            expect![[r#"
            error: mcp.json:1:8: $.a.comand: unknown key `comand`
            hint: did you mean `command`?"#]],
        );
        check(r#"{"a": {"args": []}}"#, expect!["error: mcp.json:1:7: $.a: missing key `command`"]);
        check(
            r#"{"a": {"command": "x", "url": "http://y/"}}"#,
            expect![[r#"
            error: mcp.json:1:8: $.a.command: unknown key `command`
            hint: known keys are `url`, `headers`, `type`, `tools`, `readOnly`, `timeoutMs`, `startTimeoutMs`"#]],
        );
        check(
            r#"{"a": {"type": "stdio", "command": "x", "url": "http://y/"}}"#,
            expect![[r#"
                error: mcp.json:1:41: $.a.url: unknown key `url`
                hint: known keys are `command`, `args`, `env`, `cwd`, `localSockets`, `type`, `tools`, `readOnly`, `timeoutMs`, `startTimeoutMs`"#]],
        );
        check(
            r#"{"a": {"type": "sse", "url": "http://y/sse"}}"#,
            expect![[r#"
                error: mcp.json:1:16: $.a.type: servers of the older kind `sse` are not supported
                hint: many servers also support `http`, at an address that ends in `/mcp`"#]],
        );
        check(
            r#"{"a": {"type": "htp", "url": "http://y/"}}"#,
            expect![[r#"
            error: mcp.json:1:16: $.a.type: expected one of `stdio`, `http`, `streamable-http`, `sse`, found the string `htp`
            hint: did you mean `http`?"#]],
        );
    }

    #[test]
    fn mcp_server_value_errors_name_their_place_and_no_secret() {
        check(
            r#"{"a": {"url": "ftp://hush@y/"}}"#,
            expect![
                "error: mcp.json:1:15: $.a.url: expected an address that begins with https:// or http://"
            ],
        );
        check(
            r#"{"a": {"url": "http://y/", "headers": {"a b": ""}}}"#,
            expect![[r#"error: mcp.json:1:40: $.a.headers["a b"]: not a valid name of a header"#]],
        );
        check(
            r#"{"a": {"url": "http://y/", "headers": {"Accept": "*"}}}"#,
            expect![
                "error: mcp.json:1:40: $.a.headers.Accept: the header `accept` is reserved for the protocol"
            ],
        );
        check(
            r#"{"a": {"command": "x", "env": {"A=B": ""}}}"#,
            expect![[
                r#"error: mcp.json:1:32: $.a.env["A=B"]: a variable's name has letters, digits and `_`"#
            ]],
        );
        check(
            r#"{"a": {"command": "x", "env": {"A": 1}}}"#,
            expect!["error: mcp.json:1:37: $.a.env.A: expected a string, found the number 1"],
        );
        check(
            r#"{"a": {"command": "x", "tools": {"allow": ["a", "{"]}}}"#,
            expect![
                "error: mcp.json:1:49: $.a.tools.allow[1]: error parsing glob '{': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)"
            ],
        );
        check(
            r#"{"a": {"command": "x", "tools": {"alow": []}}}"#,
            expect![[r#"
            error: mcp.json:1:34: $.a.tools.alow: unknown key `alow`
            hint: did you mean `allow`?"#]],
        );
        check(
            r#"{"a": {"command": "x", "readOnly": true}}"#,
            expect!["error: mcp.json:1:36: $.a.readOnly: expected a list, found `true`"],
        );
        check(
            r#"{"a": {"command": "x", "timeoutMs": 0}}"#,
            expect![
                "error: mcp.json:1:37: $.a.timeoutMs: expected a whole number from 1 to 86400000, found the number 0"
            ],
        );
    }

    #[test]
    fn s9_ambiguous_names_are_refused() {
        for name in ["", "a__b", "_a", "a_", "a b", "a.b", "ä", &"x".repeat(33)] {
            let entries = format!("{{{name:?}: {{\"command\": \"x\"}}}}");
            let document = Document::parse("mcp.json", &entries).expect("it is JSON");
            let error = Servers::read(document.root()).expect_err("no such name");
            assert_eq!(error.message(), NAME_RULE, "{name}");
        }
        check(
            r#"{"a_b-C9": {"command": "x"}}"#,
            expect![[
                r#"a_b-C9: stdio "x" [] [] None has ["get", "set", "drop"] reads [] 60s 30s"#
            ]],
        );
    }

    #[test]
    fn file_has_the_servers_under_one_key() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("mcp.json");
        assert!(Servers::load(&path).expect("no file is no error").is_none());
        std::fs::write(&path, r#"{"mcpServers": {"a": {"command": "x"}}}"#).expect("writable");
        let servers = Servers::load(&path).expect("it is good").expect("it is there");
        assert_eq!(servers.iter().map(|server| server.name().as_str()).collect::<Vec<_>>(), ["a"]);
        std::fs::write(&path, r#"{"servers": {}}"#).expect("writable");
        let error = Servers::load(&path).expect_err("no such key");
        expect!["unknown key `servers`"].assert_eq(error.message());
    }

    #[test]
    fn nearest_mcp_server_of_a_name_wins() {
        let server = |name: &str, command: &str| {
            let (args, env, cwd) = (vec![], BTreeMap::new(), None);
            let command = command.into();
            let transport = Transport::Stdio { command, args, env, cwd, local_sockets: false };
            McpServer::new(name, transport).expect("it is a name")
        };
        let near: Servers = [server("a", "near"), server("a", "again")].into_iter().collect();
        let far: Servers = [server("a", "far"), server("b", "far")].into_iter().collect();
        let both: Vec<_> =
            near.or(far).into_iter().map(|server| format!("{:?}", server.transport)).collect();
        expect![[r#"
            stdio "near" [] [] None
            stdio "far" [] [] None"#]]
        .assert_eq(&both.join("\n"));
    }
}
