//! `protected-paths`: files that decide what runs later. Writing one asks, every time.

use std::path::Path;

use crate::{
    agent::cx::Cx,
    fs::workspace::Workspace,
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
    registry.on(ToolPre, gate);
}

/// Names that are protected wherever they stand below a root: folders with all they hold, and files.
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

/// Whether a path decides what runs later: our own and other agents' folders, git's, editors' and CI's,
/// memory files. Compared by component and whatever the case of letters.
pub fn is_protected(path: &Path, workspace: &Workspace) -> bool {
    let Some(inside) = workspace.write_roots().find_map(|root| path.strip_prefix(root).ok()) else {
        return false;
    };
    let names: Vec<_> =
        inside.components().map(|name| name.as_os_str().to_string_lossy()).collect();
    let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
    let workflows =
        |pair: &[std::borrow::Cow<'_, str>]| is(&pair[0], ".github") && is(&pair[1], "workflows");
    // As a whole it is put there or taken away with the workflows in it.
    let holds_workflows = names.last().is_some_and(|name| is(name, ".github"));
    names.iter().any(|name| PROTECTED.iter().any(|known| is(name, known)))
        || names.windows(2).any(workflows)
        || holds_workflows
}

fn protected_paths(call: &ToolPreEvent, cx: &Cx) -> Verdict {
    let workspace = cx.workspace();
    match call.facts.writes.iter().find(|path| is_protected(path, workspace)) {
        Some(path) => {
            let shown = crate::fs::paths::shown(path, workspace);
            Verdict::ask(format!("{shown} decides what runs later"))
        }
        None => Verdict::Pass,
    }
}
