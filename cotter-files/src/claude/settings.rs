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
    ("env", "use `environment` in your own settings"),
    ("model", "set `model` to `provider/model` in your own settings"),
    ("apiKeyHelper", "keys come from variables or the file of keys"),
    ("sandbox", "use `sandbox` in your own settings"),
    ("mcpServers", "declare servers in `.mcp.json`"),
    ("enableAllProjectMcpServers", "servers of `.mcp.json` are used once they are trusted"),
    ("enabledMcpjsonServers", "servers of `.mcp.json` are used once they are trusted"),
    ("disabledMcpjsonServers", "use `tools` in the entry of a server to limit it"),
    ("extraKnownMarketplaces", "Cotter installs no plugins"),
    ("statusLine", "Cotter has no status line"),
    ("outputStyle", "Cotter has no output styles"),
];

/// Keys that are used, or that have no effect on a run.
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
            return Err(node.error(format!("unknown key: it is spelled `{meant}`")));
        }
    }
    Ok(())
}

/// Reads a settings file into a unit. Returns the plugins that the file enables and disables.
pub(crate) fn read(
    unit: &mut ClaudeUnit,
    document: &Document,
    source: &claude::ClaudeFile,
    scope: ClaudeScope,
) -> Result<EnabledPlugins, SettingsError> {
    check(document)?;
    let object = document.root().object()?;
    let (hooks, diagnostics) = claude::read(document, source);
    unit.settings.hooks = hooks;
    unit.diagnostics.extend(diagnostics);
    for (key, node) in object.members().filter(|(key, _)| !KNOWN_KEYS.contains(key)) {
        let shown = text::cut_chars(&text::show_line(key), 60).into_owned();
        let why = match IGNORED_KEYS.iter().find(|(name, _)| *name == key) {
            Some((_, why)) => format!("`{shown}` is not honoured: {why}"),
            None => format!("unknown key `{shown}` is ignored"),
        };
        report(unit, &node, Severity::Warning, why);
    }
    if let Some(node) = object.get("permissions") {
        unit.settings.permissions = permissions(unit, &node.object()?, scope)?;
    }
    unit.settings.source = Some(match scope {
        ClaudeScope::Project => SettingsOwner::Project,
        ClaudeScope::Own => SettingsOwner::User,
    });
    let enabled = read_enabled_plugins(&object)?.into_iter();
    Ok(enabled.map(|(id, on)| (id, (on, unit.path.clone()))).collect())
}

fn report(unit: &mut ClaudeUnit, node: &Node<'_>, severity: Severity, message: impl Into<String>) {
    let line = Some(node.location().line() as usize);
    unit.diagnostics.push(Diagnostic::new(&unit.path, line, severity, message));
}

/// Reads rules and mode. Settings that loosen count only in the person's own file.
fn permissions(
    unit: &mut ClaudeUnit,
    object: &Object<'_>,
    scope: ClaudeScope,
) -> Result<Permissions, SettingsError> {
    let mut permissions = Permissions::default();
    for (key, node) in object.members() {
        match key {
            "deny" => permissions.deny = rules(unit, &node, RuleKind::Deny)?,
            "ask" => permissions.ask = rules(unit, &node, RuleKind::Ask)?,
            "allow" if scope == ClaudeScope::Own => {
                permissions.allow = rules(unit, &node, RuleKind::Allow)?;
            }
            "allow" => {
                let why = "`allow` is not honoured: a project may only tighten";
                report(unit, &node, Severity::Warning, why);
            }
            "defaultMode" => permissions.mode = mode(unit, &node, scope),
            "disableBypassPermissionsMode" => {}
            _ => {
                let key = text::cut_chars(&text::show_line(key), 60).into_owned();
                report(unit, &node, Severity::Warning, format!("`{key}` is not honoured"));
            }
        }
    }
    Ok(permissions)
}

fn mode(unit: &mut ClaudeUnit, node: &Node<'_>, scope: ClaudeScope) -> Option<Mode> {
    match node.string().unwrap_or_default() {
        "plan" => Some(Mode::Plan),
        "acceptEdits" if scope == ClaudeScope::Own => Some(Mode::AcceptEdits),
        "default" => None,
        other => {
            let other = text::cut_chars(&text::show_line(other), 40).into_owned();
            let why = match scope {
                ClaudeScope::Project => "a project may only tighten",
                ClaudeScope::Own => "unknown mode",
            };
            let why = format!("`defaultMode` `{other}` is not honoured: {why}");
            report(unit, node, Severity::Warning, why);
            None
        }
    }
}

/// Reads the rules of a list. An invalid rule that denies or asks applies to every call of its tool.
fn rules(
    unit: &mut ClaudeUnit,
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
            report(unit, &node, Severity::PartlyUsed, format!("{why}: it allows nothing"));
            continue;
        }
        let tool = text.split('(').next().unwrap_or_default().trim();
        Rule::parse(kind, tool).map_err(|_| location.error(why.to_string()))?;
        report(
            unit,
            &node,
            Severity::Repaired,
            format!("{why}: it applies to every call of `{tool}`"),
        );
        rules.push(SourcedText { text: tool.into(), location });
    }
    Ok(rules)
}
