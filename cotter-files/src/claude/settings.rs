//! Settings files of Claude Code: hooks, rules, mode, and the plugins that they enable and disable.

use std::{collections::BTreeMap, path::PathBuf};

use crate::{
    claude::{self, project::ClaudeUnit},
    document::{
        Document, Node, Object,
        location::{SettingsError, SourcedText},
    },
    folder::diagnostic::{Diagnostic, Severity},
    settings::{SettingsOwner, permissions::Permissions},
};
use cotter::{
    permission::{
        mode::Mode,
        rule::{Rule, RuleKind},
    },
    text,
};

/// The owner of the settings that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaudeScope {
    Project,
    Own,
}

/// Plugins that settings enable (`true`) or disable, by `name@marketplace`, with the file that says so.
pub(crate) type EnabledPlugins = BTreeMap<String, (bool, PathBuf)>;

/// The plugins that a settings file enables or disables. A list of versions means enabled.
pub fn read_enabled_plugins(object: &Object<'_>) -> Result<Vec<(String, bool)>, SettingsError> {
    let Some(node) = object.get("enabledPlugins") else { return Ok(vec![]) };
    let on = |node: Node<'_>| match node.list() {
        Ok(_) => Ok(true),
        Err(_) => node.bool(),
    };
    node.object()?.members().map(|(id, node)| Ok((id.to_owned(), on(node)?))).collect()
}

/// Keys of a settings file that are not used here, and why.
const IGNORED_KEYS: &[(&str, &str)] = &[
    ("env", "variables are `environment` in your own settings"),
    ("model", "models are named `provider/model`, in your own settings"),
    ("apiKeyHelper", "keys come from variables or the file of keys"),
    ("sandbox", "how commands are confined is `sandbox` in your own settings"),
    ("mcpServers", "servers stand in `.mcp.json`"),
    ("enableAllProjectMcpServers", "servers of `.mcp.json` are used once they are trusted"),
    ("enabledMcpjsonServers", "servers of `.mcp.json` are used once they are trusted"),
    ("disabledMcpjsonServers", "`tools` of an entry limits a server"),
    ("extraKnownMarketplaces", "nothing is installed from here"),
    ("statusLine", "there is none"),
    ("outputStyle", "there is none"),
];

/// Keys that are used, or that change nothing about what is done.
const KNOWN_KEYS: [&str; 7] = [
    "$schema",
    "hooks",
    "permissions",
    "enabledPlugins",
    "disableAllHooks",
    "includeCoAuthoredBy",
    "cleanupPeriodDays",
];

/// Keys of `permissions` that restrict calls.
const RESTRICTING_KEYS: [&str; 3] = ["deny", "ask", "defaultMode"];

/// Refuses a settings file in which an intended gate would have no effect.
pub fn check(document: &Document) -> Result<(), SettingsError> {
    let object = document.root().object()?;
    object.get("hooks").map(|hooks| hooks.object()).transpose()?;
    claude::check(document)?;
    check_spelling(&object, &KNOWN_KEYS)?;
    let permissions = object.get("permissions").map(|node| node.object()).transpose()?;
    permissions.map_or(Ok(()), |permissions| check_spelling(&permissions, &RESTRICTING_KEYS))
}

/// Refuses keys that differ from a known key only in letter case.
fn check_spelling(object: &Object<'_>, known: &[&str]) -> Result<(), SettingsError> {
    for (key, node) in object.members().filter(|(key, _)| !known.contains(key)) {
        if let Some(meant) = known.iter().find(|known| known.eq_ignore_ascii_case(key)) {
            return Err(node.error(format!("nobody reads this key: it is spelled `{meant}`")));
        }
    }
    Ok(())
}

/// Reads a settings file into a unit. Returns the plugins that the file enables and disables.
pub(crate) fn read(
    part: &mut ClaudeUnit,
    document: &Document,
    source: &claude::ClaudeFile,
    whose: ClaudeScope,
) -> Result<EnabledPlugins, SettingsError> {
    check(document)?;
    let object = document.root().object()?;
    let (hooks, told) = claude::read(document, source);
    part.settings.hooks = hooks;
    part.told.extend(told);
    for (key, node) in object.members().filter(|(key, _)| !KNOWN_KEYS.contains(key)) {
        let shown = text::clip(&text::show_line(key), 60).into_owned();
        let why = match IGNORED_KEYS.iter().find(|(name, _)| *name == key) {
            Some((_, why)) => format!("`{shown}` is not honoured: {why}"),
            None => format!("`{shown}` is not known and left alone"),
        };
        say(part, &node, Severity::Warning, why);
    }
    if let Some(node) = object.get("permissions") {
        part.settings.permissions = permissions(part, &node.object()?, whose)?;
    }
    part.settings.source = Some(match whose {
        ClaudeScope::Project => SettingsOwner::Project,
        ClaudeScope::Own => SettingsOwner::User,
    });
    let said = read_enabled_plugins(&object)?.into_iter();
    Ok(said.map(|(id, on)| (id, (on, part.path.clone()))).collect())
}

fn say(part: &mut ClaudeUnit, node: &Node<'_>, severity: Severity, what: impl Into<String>) {
    let line = Some(node.location().line() as usize);
    part.told.push(Diagnostic::new(&part.path, line, severity, what));
}

/// Reads rules and mode. Settings that loosen count only in the person's own file.
fn permissions(
    part: &mut ClaudeUnit,
    object: &Object<'_>,
    whose: ClaudeScope,
) -> Result<Permissions, SettingsError> {
    let mut permissions = Permissions::default();
    for (key, node) in object.members() {
        match key {
            "deny" => permissions.deny = rules(part, &node, RuleKind::Deny)?,
            "ask" => permissions.ask = rules(part, &node, RuleKind::Ask)?,
            "allow" if whose == ClaudeScope::Own => {
                permissions.allow = rules(part, &node, RuleKind::Allow)?;
            }
            "allow" => {
                let why = "`allow` is not honoured: a project may only tighten";
                say(part, &node, Severity::Warning, why);
            }
            "defaultMode" => permissions.mode = mode(part, &node, whose),
            "disableBypassPermissionsMode" => {}
            _ => {
                let key = text::clip(&text::show_line(key), 60).into_owned();
                say(part, &node, Severity::Warning, format!("`{key}` is not honoured"));
            }
        }
    }
    Ok(permissions)
}

fn mode(part: &mut ClaudeUnit, node: &Node<'_>, whose: ClaudeScope) -> Option<Mode> {
    match node.string().unwrap_or_default() {
        "plan" => Some(Mode::Plan),
        "acceptEdits" if whose == ClaudeScope::Own => Some(Mode::AcceptEdits),
        "default" => None,
        other => {
            let other = text::clip(&text::show_line(other), 40).into_owned();
            let why = match whose {
                ClaudeScope::Project => "a project may only tighten",
                ClaudeScope::Own => "there is no such mode here",
            };
            let why = format!("`defaultMode` `{other}` is not honoured: {why}");
            say(part, node, Severity::Warning, why);
            None
        }
    }
}

/// Reads the rules of a list. An invalid rule that denies or asks holds for every call of its tool.
fn rules(
    part: &mut ClaudeUnit,
    node: &Node<'_>,
    kind: RuleKind,
) -> Result<Vec<SourcedText>, SettingsError> {
    let mut rules = vec![];
    for node in node.list()? {
        let (text, location) = (node.non_empty_string()?, node.location());
        let Err(why) = Rule::parse(kind, text) else {
            rules.push(SourcedText { text: text.into(), location });
            continue;
        };
        if kind == RuleKind::Allow {
            say(part, &node, Severity::Repaired, format!("{why}: it allows nothing"));
            continue;
        }
        let tool = text.split('(').next().unwrap_or_default().trim();
        Rule::parse(kind, tool).map_err(|_| location.error(why.to_string()))?;
        say(part, &node, Severity::Repaired, format!("{why}: it holds for every call of `{tool}`"));
        rules.push(SourcedText { text: tool.into(), location });
    }
    Ok(rules)
}
