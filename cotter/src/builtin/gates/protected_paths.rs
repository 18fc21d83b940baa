//! `protected-paths`: asks before every write to a file that decides what runs later.

use std::path::Path;

use crate::{
    agent::cx::Cx,
    fs::{declared_file::is_touched, workspace::Workspace},
    hooks::{
        handler::named,
        points::tool_pre::{ToolPre, ToolPreEvent},
    },
    permission::verdict::Verdict,
    registry::Registry,
};

/// Registers the gate.
pub(crate) fn register(registry: &mut Registry) {
    let gate = named("protected-paths", protected_paths).description(
        "Asks before a file is written that decides what runs later, such as .git/hooks.",
    );
    registry.gate(ToolPre, gate);
}

/// Protected names, at any depth below a root: folders with all their contents, and files.
pub const PROTECTED: [&str; 26] = [
    ".git",
    ".cotter",
    ".claude",
    ".agents",
    ".codex",
    ".gemini",
    ".cursor",
    ".aider.conf.yml",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".zed",
    ".envrc",
    ".husky",
    ".pre-commit-config.yaml",
    ".gitlab-ci.yml",
    ".circleci",
    "Jenkinsfile",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    "CLAUDE.local.md",
    ".gitmodules",
    ".gitattributes",
    ".devcontainer",
    ".windsurf",
];

/// True if a path decides what runs later: folders of Cotter and other agents, of git, editors and CI, and
/// memory files. Compared by component, ignoring case.
pub fn is_protected(path: &Path, workspace: &Workspace) -> bool {
    let Some(inside) = workspace.write_roots().find_map(|root| path.strip_prefix(root).ok()) else {
        return false;
    };
    let names: Vec<_> =
        inside.components().map(|name| name.as_os_str().to_string_lossy()).collect();
    let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
    let workflows =
        |pair: &[std::borrow::Cow<'_, str>]| is(&pair[0], ".github") && is(&pair[1], "workflows");
    // The folder as a whole can be created or removed with the workflows in it.
    let holds_workflows = names.last().is_some_and(|name| is(name, ".github"));
    names.iter().any(|name| PROTECTED.iter().any(|known| is(name, known)))
        || names.windows(2).any(workflows)
        || holds_workflows
}

fn protected_paths(call: &ToolPreEvent, cx: &Cx) -> Verdict {
    let workspace = cx.workspace();
    let ask = |path: &Path, why: &str| {
        let shown = crate::fs::paths::format_path(path, workspace);
        Verdict::ask(format!("{shown} {why}"))
    };
    let writes = &call.facts.writes;
    if let Some(path) = writes.iter().find(|path| is_protected(path, workspace)) {
        return ask(path, "decides what runs later");
    }
    let files = if writes.is_empty() { vec![] } else { cx.declared_files() };
    match writes.iter().find(|path| is_touched(path, &files, workspace)) {
        Some(path) => ask(path, "is run by a hook"),
        None => Verdict::Pass,
    }
}
