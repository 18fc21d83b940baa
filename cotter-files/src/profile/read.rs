//! Reads `agent.json` strictly: an unknown part is an error with its location.

use std::{path::PathBuf, time::Duration};

use smol_str::{SmolStr, format_smolstr};

use crate::profile::{Action, ActionKind, LogLevel, Profile, ProfileGrants};
use crate::{
    command_hook::{self, entry::MAX_LIMIT_MS},
    document::{Document, Node, Object, location::SettingsError},
    settings::{SourcedText, permissions::Permissions, sections},
};
use cotter::{
    hooks::points::PointId,
    host::{check_globs, check_name, our_name, our_tools},
    invoke::named_item::NameKind,
    permission::{
        host::host_name,
        rule::{Rule, RuleKind},
    },
    text,
};

const KEYS: &[&str] = &[
    "$schema",
    "name",
    "description",
    "model",
    "systemPrompt",
    "tools",
    "skills",
    "mode",
    "maxTurns",
    "policies",
    "permissions",
    "hooks",
];

/// The moments of a profile, by their keys, with their points.
pub const MOMENTS: &[(&str, PointId)] = &[
    ("onStart", PointId::SessionStart),
    ("onToolCall", PointId::ToolPre),
    ("onToolEnd", PointId::ToolPost),
    ("onModelCall", PointId::ModelPre),
    ("onModelEnd", PointId::ModelPost),
    ("onComplete", PointId::SessionEnd),
    ("onError", PointId::Error),
];

const ACTION_KEYS: &[&str] = &["action", "tools", "level", "url", "path", "command", "timeoutMs"];

/// The actions, and the keys of each besides `tools`.
const ACTIONS: &[(&str, &[&str])] = &[
    ("log", &["level"]),
    ("webhook", &["url", "timeoutMs"]),
    ("save_json", &["path"]),
    ("approve", &[]),
    ("command", &["command", "timeoutMs"]),
];

pub(crate) const TIGHTEN_HINT: &str = "a profile may only tighten: move this to your own settings";

/// The maximum length of a path below `runs/`.
const MAX_PATH: usize = 200;
/// The maximum length of a URL.
const MAX_URL: usize = 2000;
/// The default time limit of a webhook in milliseconds.
const POST_MS: u64 = 5000;

impl Profile {
    /// Reads a profile from a document. `folder_name` is the name if the document has none.
    pub fn from_document(
        document: &Document,
        folder_name: &str,
        grants: ProfileGrants<'_>,
    ) -> Result<Self, SettingsError> {
        let object = document.root().object()?.keys(KEYS)?;
        // Editors use this key; it has no effect here.
        object.get("$schema").map(|node| node.string()).transpose()?;
        let string = |key| object.get(key).map(|node| node.non_empty_string()).transpose();
        let max_turns = object.get("maxTurns").map(sections::count).transpose()?;
        let mut permissions = permissions(&object)?;
        object.get("policies").map(|node| policies(node, &mut permissions)).transpose()?;
        check_rules(&permissions)?;
        let location_of =
            |key| Some(object.get("permissions")?.object().ok()?.get(key)?.location());
        Ok(Profile {
            name: name(&object, folder_name)?,
            description: string("description")?.unwrap_or_default().to_owned(),
            model: object.get("model").map(sections::one_text).transpose()?,
            system_prompt: string("systemPrompt")?.map(str::to_owned),
            tools: object
                .get("tools")
                .map(|node| globs(node, our_tool))
                .transpose()?
                .unwrap_or_default(),
            skills: object.get("skills").map(skills).transpose()?.unwrap_or_default(),
            mode: string("mode")?.map(SmolStr::from),
            max_turns,
            permissions,
            actions: object
                .get("hooks")
                .map(|node| hooks(node, grants))
                .transpose()?
                .unwrap_or_default(),
            setting_locations: [location_of("mode"), location_of("level")],
        })
    }
}

fn name(object: &Object<'_>, folder_name: &str) -> Result<SmolStr, SettingsError> {
    const NAMES: &str = "a name begins with a letter and has letters, digits, `_`, `-`";
    let (name, node) = match object.get("name") {
        Some(node) => (node.non_empty_string()?, node),
        None => (folder_name, object.node()),
    };
    match check_name(NameKind::Subagent, name) {
        Ok(()) => Ok(name.into()),
        Err(_) => {
            let shown = text::cut_chars(&text::show_line(name), 60).into_owned();
            Err(node.error(format!("`{shown}` cannot be the name of a profile")).with_hint(NAMES))
        }
    }
}

fn permissions(object: &Object<'_>) -> Result<Permissions, SettingsError> {
    let Some(node) = object.get("permissions") else { return Ok(Permissions::default()) };
    let permissions = sections::permissions(node)?;
    match permissions.allow.first() {
        None => Ok(permissions),
        Some(rule) => {
            let error = rule.location.error("`allow` rules are not allowed in a profile");
            Err(error.with_hint(TIGHTEN_HINT))
        }
    }
}

/// Reads deny rules and guards. An object without `rule` is a guard.
fn policies(node: Node<'_>, permissions: &mut Permissions) -> Result<(), SettingsError> {
    for (index, node) in node.list()?.enumerate() {
        match node.object() {
            Ok(object) if object.get("rule").is_none() => {
                permissions.policies.push(sections::policy((index, node))?);
            }
            _ => {
                let rule = sections::rule(node, RuleKind::Deny, &mut permissions.examples)?;
                permissions.deny.push(rule);
            }
        }
    }
    Ok(())
}

fn check_rules(permissions: &Permissions) -> Result<(), SettingsError> {
    let kinds = [(RuleKind::Ask, &permissions.ask), (RuleKind::Deny, &permissions.deny)];
    for (kind, SourcedText { text, location }) in
        kinds.into_iter().flat_map(|(kind, rules)| rules.iter().map(move |rule| (kind, rule)))
    {
        Rule::parse(kind, text).map_err(|error| location.error(error.to_string()))?;
    }
    Ok(())
}

/// Globs over names of tools, with names of other programs mapped to ours. An empty list is an error, because
/// it would mean no limit.
fn globs(node: Node<'_>, named: fn(&str) -> Vec<String>) -> Result<Vec<String>, SettingsError> {
    let mut globs = vec![];
    for glob in node.list()? {
        let text = glob.non_empty_string()?.to_owned();
        check_globs(std::slice::from_ref(&text)).map_err(|why| glob.error(why))?;
        globs.extend(named(&text));
    }
    require_items(node, globs, "tool")
}

/// Our name of the named tool, without other tools of the same effect.
fn our_tool(name: &str) -> Vec<String> {
    vec![our_name(name).unwrap_or(name).to_owned()]
}

/// All our tools with the effect of the named one: an action for `Bash` covers every tool that runs commands.
fn all_our_tools(name: &str) -> Vec<String> {
    let mut all = our_tool(name);
    let others = our_tools(name).into_iter().map(str::to_owned);
    all.extend(others.filter(|other| *other != all[0]).collect::<Vec<_>>());
    all
}

fn skills(node: Node<'_>) -> Result<Vec<SmolStr>, SettingsError> {
    let names = node.list()?.map(|name| name.non_empty_string().map(SmolStr::from));
    require_items(node, names.collect::<Result<_, _>>()?, "skill")
}

fn require_items<T>(node: Node<'_>, list: Vec<T>, what: &str) -> Result<Vec<T>, SettingsError> {
    match list.is_empty() {
        false => Ok(list),
        true => Err(node
            .error(format!("an empty list matches no {what}"))
            .with_hint(format!("leave it out to match every {what}"))),
    }
}

fn hooks(node: Node<'_>, grants: ProfileGrants<'_>) -> Result<Vec<Action>, SettingsError> {
    let names: Vec<_> = MOMENTS.iter().map(|(name, _)| *name).collect();
    let object = node.object()?.keys(&names)?;
    let mut actions: Vec<Action> = vec![];
    for (moment, entries) in object.members() {
        let Some((_, point)) = MOMENTS.iter().find(|(name, _)| *name == moment) else { continue };
        for entry in entries.list()? {
            let mut action = action(moment, *point, entry, grants)?;
            let stem = action.name.clone();
            let names = (2..).map(|number| format_smolstr!("{stem}#{number}"));
            let taken = |name: &SmolStr| actions.iter().any(|other| other.name == *name);
            let free = std::iter::once(stem.clone()).chain(names).find(|name| !taken(name));
            action.name = free.unwrap_or(stem);
            actions.push(action);
        }
    }
    Ok(actions)
}

fn action(
    moment: &str,
    point: PointId,
    node: Node<'_>,
    grants: ProfileGrants<'_>,
) -> Result<Action, SettingsError> {
    let object = node.object()?.keys(ACTION_KEYS)?;
    let word = object.require("action")?;
    let words: Vec<_> = ACTIONS.iter().map(|row| (row.0, row)).collect();
    let (name, own_keys) = word.one_of(&words)?;
    if *name == "approve" && point != PointId::ToolPre {
        return Err(word
            .error(format!("`approve` asks before a tool runs and cannot be at `{moment}`"))
            .with_hint("move it to `onToolCall`"));
    }
    let foreign_key = object
        .members()
        .find(|(key, _)| !["action", "tools"].contains(key) && !own_keys.contains(key));
    if let Some((key, value)) = foreign_key {
        let actions = ACTIONS.iter().filter(|(_, keys)| keys.contains(&key));
        let actions: Vec<_> = actions.map(|(action, _)| format!("`{action}`")).collect();
        let message = format!("`{key}` belongs to {}, not to `{name}`", actions.join(" and "));
        return Err(value.error(message));
    }
    let kind = match *name {
        "log" => ActionKind::Log(match object.get("level") {
            Some(level) => level.one_of(LogLevel::WORDS)?,
            None => LogLevel::default(),
        }),
        "webhook" => ActionKind::Webhook(address(object.require("url")?, grants)?),
        "save_json" => ActionKind::SaveJson(path(object.require("path")?)?),
        "approve" => ActionKind::Approve,
        _ => ActionKind::Command(command(word, object.require("command")?, grants)?),
    };
    let limit = object.get("timeoutMs").map(|node| node.u64_in(1..=MAX_LIMIT_MS)).transpose()?;
    let limit = limit.or_else(|| matches!(kind, ActionKind::Webhook(_)).then_some(POST_MS));
    Ok(Action {
        name: format_smolstr!("{moment}.{name}"),
        point,
        location: object.get("tools").unwrap_or(node).location(),
        tools: object.get("tools").map(|node| tools(moment, point, node)).transpose()?,
        limit: limit.map(Duration::from_millis),
        kind,
    })
}

fn tools(moment: &str, point: PointId, node: Node<'_>) -> Result<Vec<String>, SettingsError> {
    match point.row().is_about_tools() {
        true => globs(node, all_our_tools),
        false => Err(node
            .error(format!("`{moment}` is not about tools, so `tools` is not allowed"))
            .with_hint("`tools` is for `onToolCall` and `onToolEnd`")),
    }
}

fn command(
    action: Node<'_>,
    node: Node<'_>,
    grants: ProfileGrants<'_>,
) -> Result<command_hook::CommandLine, SettingsError> {
    let line = command_hook::command(node)?;
    match grants.commands {
        true => Ok(line),
        false => Err(action
            .error("a profile's `command` is disabled by default: it would start a program")
            .with_hint("the operator of a machine allows it with `COTTER_ALLOW_COMMAND_HOOKS=1`")),
    }
}

/// Reads the path of a file below `runs/` that ends in `.jsonl`.
fn path(node: Node<'_>) -> Result<PathBuf, SettingsError> {
    const HINT: &str = "use a path like `runs/calls.jsonl`, relative to the profile's folder";
    let path = node.non_empty_string()?;
    let shown = text::cut_chars(&text::show_line(path), 60).into_owned();
    let invalid = |why: &str| Err(node.error(format!("`{shown}` {why}")).with_hint(HINT));
    let parts: Vec<_> = path.split('/').collect();
    let is_plain = |part: &&str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.contains(|c: char| c.is_control() || text::is_hidden(c) || c == '\\')
    };
    match parts.as_slice() {
        _ if path.len() > MAX_PATH => invalid("is too long"),
        ["runs", rest @ ..] if !rest.is_empty() => match rest.iter().all(is_plain) {
            false => invalid("is not a plain path"),
            true if !path.ends_with(".jsonl") => invalid("does not end in `.jsonl`"),
            true => Ok(path.into()),
        },
        _ => invalid("is not below `runs/`"),
    }
}

/// Reads an https URL with an unambiguous host.
fn address(node: Node<'_>, grants: ProfileGrants<'_>) -> Result<SourcedText, SettingsError> {
    let url = node.non_empty_string()?;
    let host = host_of(url).map_err(|why| {
        let shown = text::cut_chars(&text::show_line(url), 60).into_owned();
        node.error(format!("`{shown}` {why}"))
            .with_hint("use a URL like `https://hooks.example.com/cotter`")
    })?;
    if let Some(posts) = grants.posts {
        posts.admits(url).map_err(|why| {
            let host = text::cut_chars(&host, 100).into_owned();
            node.error(format!("cannot post to `{host}`: {why}")).with_hint(
                "the operator of a machine lists hosts in `COTTER_HOOK_WEBHOOK_ALLOWLIST`",
            )
        })?;
    }
    Ok(SourcedText { text: url.to_owned(), location: node.location() })
}

/// The host of an https URL, with its port if it has one; or the error of the URL.
pub(crate) fn host_of(url: &str) -> Result<String, &'static str> {
    let is_forbidden =
        |c: char| c.is_whitespace() || c.is_control() || text::is_hidden(c) || c == '\\';
    if url.len() > MAX_URL || url.contains(is_forbidden) {
        return Err("is not a valid URL");
    }
    let Some((scheme, rest)) = url.split_once("://") else { return Err("is not a valid URL") };
    if scheme != "https" {
        return Err("is not https");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("contains a user name or a password");
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let in_brackets = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = match in_brackets {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(fits),
    };
    match is_host && port.is_none_or(is_port) {
        false => Err("has no valid host"),
        true => Ok(match port {
            Some(port) => format!("{}:{port}", host_name(host)),
            None => host_name(host),
        }),
    }
}
