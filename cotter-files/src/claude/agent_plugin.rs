//! Agent Plugins: the manifest `plugin.json` at the top of the folder, and servers in `mcp.json`.
//!
//! Servers are converted one by one into the form of our own settings. A program of the plugin is called by
//! its absolute path and starts in the plugin's folder. Only `${PLUGIN_ROOT}` is replaced. There is no
//! `${PLUGIN_DATA}`: plugins store nothing here.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};

use crate::claude::plugin::{
    Plugin, PluginFile, PluginFileKind, PluginFileSource, path_in_plugin, settings_diagnostic,
};
use crate::{
    document::{Document, Node, Object, location::SettingsError},
    folder::diagnostic::Severity,
};
use cotter::text;

pub(crate) const MANIFEST: &str = "plugin.json";
pub(crate) const SERVERS: &str = "mcp.json";

/// The prefix of a schema's URL, which is followed by the version of Agent Plugins.
const SCHEMAS: &str = "https://agent-plugins.org/schemas/";
const KNOWN_VERSION: &str = "1.0.0";

const ROOT: &str = "${PLUGIN_ROOT}";
const DATA: &str = "${PLUGIN_DATA}";

/// Support for a version of Agent Plugins: only a known version can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Known,
    Unknown,
}

impl Plugin {
    /// The version of the manifest in the folder; `None` if it is not a manifest of Agent Plugins.
    pub(crate) fn read_portable_version(
        &mut self,
        path: &Path,
        object: &Object<'_>,
        name: Option<&str>,
    ) -> Option<Version> {
        let schema = object.get("$schema");
        let line = schema.map(|node| node.location().line() as usize);
        let schema = schema.and_then(|node| node.string().ok());
        let Some(version) = schema.and_then(|schema| version(schema, "plugin.schema.json")) else {
            let why =
                "it has no `$schema` of Agent Plugins: it is read like a plugin of Claude Code";
            self.report(path, line, Severity::Warning, why.into());
            return None;
        };
        if version != KNOWN_VERSION {
            let version = text::cut_chars(&text::show_line(version), 40).into_owned();
            let why = format!("Agent Plugins {version} is not supported, only {KNOWN_VERSION}");
            self.report(path, line, Severity::Rejected, why);
            return Some(Version::Unknown);
        }
        let why = match name {
            Some(name) if is_name(name) => return Some(Version::Known),
            Some(name) => {
                let name = text::cut_chars(&text::show_line(name), 80).into_owned();
                format!("`{name}` is not a valid name for Agent Plugins")
            }
            None => "`name` is missing: the name of another manifest or of its folder is used"
                .to_owned(),
        };
        self.report(path, None, Severity::Warning, why);
        Some(Version::Known)
    }

    /// Reports the parts of a manifest that are for other programs.
    pub(crate) fn report_foreign_parts(&mut self, path: &Path, node: Node<'_>) {
        let line = Some(node.location().line() as usize);
        let Ok(object) = node.object() else {
            return self.report(
                path,
                line,
                Severity::Warning,
                "`extensions` is not an object".into(),
            );
        };
        for (name, node) in object.members() {
            let name = text::cut_chars(&text::show_line(name), 60).into_owned();
            let why = format!("`extensions`: the part for `{name}` is not honoured");
            self.report(path, Some(node.location().line() as usize), Severity::Warning, why);
        }
    }

    /// Reads the servers of `mcp.json`. An invalid server is skipped; the others load.
    pub(crate) fn portable_servers(&mut self, read_file: PluginFileSource<'_>) {
        let inside = Path::new(SERVERS);
        let path = self.root.join(inside);
        let bytes = match read_file(inside) {
            None => return,
            Some(Err(why)) => return self.fail(PluginFileKind::Servers, inside, None, why),
            Some(Ok(bytes)) => bytes,
        };
        let document = Document::parse_bytes(&path.display().to_string(), &bytes);
        let read = document.and_then(|document| {
            let mut errors = vec![];
            servers(&document, &mut errors).map(|servers| (servers, errors))
        });
        match read {
            Err(why) => self.diagnostics.push(settings_diagnostic(&path, &why)),
            Ok((servers, errors)) => {
                for (line, why) in errors {
                    self.report(inside, Some(line), Severity::Rejected, why);
                }
                let text = json!({ "mcpServers": servers }).to_string();
                self.add_file(PluginFileKind::Servers, PluginFile { path, text });
            }
        }
    }

    /// Reports an `mcp.json` that no manifest declares the format of.
    pub(crate) fn report_unread_servers(&mut self, read_file: PluginFileSource<'_>) {
        let path = self.root.join(SERVERS);
        let is_taken = self.servers.iter().any(|file| file.path == path);
        if !is_taken && read_file(Path::new(SERVERS)).is_some() {
            let why = format!(
                "it is not honoured without a `{MANIFEST}` of Agent Plugins {KNOWN_VERSION}"
            );
            self.report(Path::new(SERVERS), None, Severity::Warning, why);
        }
    }
}

/// The folders at the top of a plugin whose names are those of other programs.
pub(crate) fn foreign_folders(root: &Path) -> Vec<String> {
    if !root.join(MANIFEST).exists() {
        return vec![];
    }
    let entries = fs::read_dir(root).into_iter().flatten().flatten().take(1000);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.contains('.') && is_name(name)).collect();
    names.sort();
    names
}

/// The version in a schema's URL.
fn version<'s>(schema: &'s str, of: &str) -> Option<&'s str> {
    schema.strip_prefix(SCHEMAS)?.strip_suffix(of)?.strip_suffix('/')
}

/// True if `name` is a valid name of a plugin by the published rules.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let is_end = |c: char| c.is_ascii_alphanumeric();
    (1..=64).contains(&name.len())
        && name.chars().all(fits)
        && name.starts_with(is_end)
        && name.ends_with(is_end)
        && !name.contains("--")
        && !name.contains("..")
}

/// The servers in the form of our own settings. Each reported error has its line.
fn servers(
    document: &Document,
    errors: &mut Vec<(usize, String)>,
) -> Result<Map<String, Value>, SettingsError> {
    let object = document.root().object()?.keys(&["$schema", "mcpServers"])?;
    let schema = object.require("$schema")?;
    if version(schema.string()?, "mcp.schema.json") != Some(KNOWN_VERSION) {
        return Err(schema.error(format!("expected the schema of Agent Plugins {KNOWN_VERSION}")));
    }
    let mut servers = Map::new();
    for (name, node) in object.require("mcpServers")?.object()?.members() {
        match server(node) {
            Ok(server) => _ = servers.insert(name.to_owned(), server),
            Err(why) => {
                let line =
                    why.location().map_or(node.location(), |location| location.clone()).line();
                let name = text::cut_chars(&text::show_line(name), 40).into_owned();
                let why = format!("the server `{name}` cannot be used: {}", why.message());
                errors.push((line as usize, why));
            }
        }
    }
    Ok(servers)
}

fn server(node: Node<'_>) -> Result<Value, SettingsError> {
    let object = node.object()?;
    match object.require("type")?.string()? {
        "stdio" => program(object.keys(&["type", "command", "args", "env", "cwd"])?),
        "streamable-http" => address(object.keys(&["type", "url", "headers"])?),
        "sse" => Err(node.error("servers of the older kind `sse` are not supported")),
        _ => Err(node.error("a `type` is `stdio`, `streamable-http` or `sse`")),
    }
}

fn program(object: Object<'_>) -> Result<Value, SettingsError> {
    let node = object.require("command")?;
    let command = match node.non_empty_string()? {
        bare if !bare.contains('/') => bare.to_owned(),
        path => plugin_path(&node, path)?,
    };
    let mut args = vec![];
    for node in object.get("args").map(|node| node.list()).transpose()?.into_iter().flatten() {
        args.push(escape_text(&node)?);
    }
    let mut env = Map::new();
    let given = object.get("env").map(|node| node.object()).transpose()?;
    for (name, node) in given.iter().flat_map(Object::members) {
        if ["PLUGIN_ROOT", "PLUGIN_DATA"].contains(&name) {
            return Err(node.error(format!("`{name}` is reserved and cannot be set")));
        }
        env.insert(name.to_owned(), escape_text(&node)?.into());
    }
    env.insert("PLUGIN_ROOT".into(), ROOT.into());
    let cwd = match object.get("cwd") {
        Some(node) => plugin_path(&node, node.string()?)?,
        None => ROOT.to_owned(),
    };
    Ok(json!({"type": "stdio", "command": command, "args": args, "env": env, "cwd": cwd}))
}

fn address(object: Object<'_>) -> Result<Value, SettingsError> {
    let node = object.require("url")?;
    let url = node.non_empty_string()?;
    if !is_allowed_url(url) {
        let why = "an address begins with https://, or http:// on this machine, and has no user and no \
                   fragment";
        return Err(node.error(why));
    }
    let mut headers = Map::new();
    let given = object.get("headers").map(|node| node.object()).transpose()?;
    for (name, node) in given.iter().flat_map(Object::members) {
        if headers.keys().any(|other: &String| other.eq_ignore_ascii_case(name)) {
            return Err(node.error("duplicate header"));
        }
        headers.insert(name.to_owned(), escape_variables(node.string()?).into());
    }
    Ok(json!({"type": "http", "url": url, "headers": headers}))
}

/// True if a URL may be used: https, or http on this machine, without a user and without a fragment.
fn is_allowed_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?', '\\']).next().unwrap_or_default();
    let bare = match host.strip_prefix('[') {
        Some(ipv6) => ipv6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_local = bare == "localhost"
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let is_safe =
        scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http") && is_local;
    is_safe && !bare.is_empty() && !host.contains('@') && !url.contains('#')
}

/// A path in the plugin: `./…`, or below `${PLUGIN_ROOT}`.
fn plugin_path(node: &Node<'_>, path: &str) -> Result<String, SettingsError> {
    if path.starts_with(DATA) {
        return Err(node.error(format!("`{DATA}` is not supported")));
    }
    let below = match path.strip_prefix(ROOT) {
        Some("") => Some(""),
        Some(below) => below.strip_prefix('/'),
        None => path.strip_prefix("./"),
    };
    let below = below.ok_or_else(|| node.error("a path in the plugin begins with `./`"))?;
    if below.trim_matches(['.', '/']).is_empty() && !below.contains("..") {
        return Ok(ROOT.to_owned());
    }
    let below = path_in_plugin(&format!("./{below}")).map_err(|why| node.error(why))?;
    Ok(format!("{ROOT}/{}", below.to_string_lossy()))
}

/// A text in which `${PLUGIN_ROOT}` stays a placeholder and everything else is literal.
fn escape_text(node: &Node<'_>) -> Result<String, SettingsError> {
    let text = node.string()?;
    if text.contains(DATA) {
        return Err(node.error(format!("`{DATA}` is not supported")));
    }
    let parts: Vec<_> = text.split(ROOT).map(escape_variables).collect();
    Ok(parts.join(ROOT))
}

/// Escapes `${` for settings, where `${NAME}` is a variable.
fn escape_variables(text: &str) -> String {
    text.replace("${", "${:-$}{")
}
