//! The rules about files, for a sandbox that enforces them on files that no call names.

use std::path::{Path, PathBuf};

use crate::{
    fs::workspace::{self, Workspace},
    permission::rule::{Rule, RuleKind},
};

/// The rules about reading and writing files.
///
/// A call may read and write what it names: the decision was about that. For everything else a sandbox asks
/// here what to hide from the call and what to make read-only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileRules(Vec<Rule>);

impl FileRules {
    /// Takes those of the rules that are about files.
    pub fn new<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Self {
        let about_files = |rule: &&Rule| rule.is_about_files();
        FileRules(rules.into_iter().filter(about_files).cloned().collect())
    }

    /// The strictest rule that denies reading a file or asks about it.
    pub fn forbids_reading(&self, path: &Path, workspace: &Workspace) -> Option<RuleKind> {
        self.strictest(|rule| rule.names_read(path, workspace))
    }

    /// The strictest rule that denies writing a file or asks about it.
    pub fn forbids_writing(&self, path: &Path, workspace: &Workspace) -> Option<RuleKind> {
        self.strictest(|rule| rule.names_write(path, workspace))
    }

    fn strictest(&self, names: impl Fn(&Rule) -> bool) -> Option<RuleKind> {
        let mut kinds: Vec<_> = vec![];
        kinds.extend(self.forbidding().filter(|rule| names(rule)).map(|rule| rule.kind));
        let denies = kinds.contains(&RuleKind::Deny);
        if denies { Some(RuleKind::Deny) } else { kinds.first().copied() }
    }

    /// True if a rule with paths allows reading a file.
    pub fn allows_reading(&self, path: &Path, workspace: &Workspace) -> bool {
        let allowing = |rule: &&Rule| rule.kind == RuleKind::Allow;
        self.0.iter().filter(allowing).any(|rule| rule.names_read(path, workspace))
    }

    /// The single paths that rules forbid, wherever they are.
    pub fn single_paths(&self, workspace: &Workspace) -> Vec<PathBuf> {
        self.forbidding().filter_map(|rule| rule.single_path(workspace)).collect()
    }

    /// True if a sandbox that looks through the write roots enforces every rule. A rule about all files, or
    /// about many files outside, cannot be enforced so.
    pub fn are_enforceable(&self, workspace: &Workspace) -> bool {
        let is_open = |folder: &Path| {
            let mut roots = workspace.read_roots();
            let touches = |root: &Path| root.starts_with(folder) || folder.starts_with(root);
            workspace::is_system(folder) || roots.any(touches)
        };
        let is_walked =
            |folder: &Path| workspace.write_roots().any(|root| folder.starts_with(root));
        self.forbidding().all(|rule| match rule.folder(workspace) {
            None => !rule.is_about_all_files(),
            Some(folder) => {
                rule.single_path(workspace).is_some() || is_walked(&folder) || !is_open(&folder)
            }
        })
    }

    fn forbidding(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().filter(|rule| rule.kind != RuleKind::Allow)
    }
}
