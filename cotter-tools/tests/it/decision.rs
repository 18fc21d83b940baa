//! Properties that hold for any bytes given as a shell command, from parser to decision. The fuzz
//! target and a test call this.

use cotter::{
    Agent,
    permission::{
        Zone,
        facts::{Doubt, Facts},
        rule::RuleKind,
    },
    pipeline::explain::ExplainReport,
};
use cotter_tools::shell;
use tokio::runtime::{Builder, Runtime};

use crate::kit::{Project, explain, verdict};

/// A project, and an agent in it that allows everything but `frob`.
pub(crate) struct Judge {
    project: Project,
    agent: Agent,
    runtime: Runtime,
}

impl Judge {
    pub(crate) fn new() -> Self {
        let project = Project::new();
        let rules = [(RuleKind::Allow, "*".into()), (RuleKind::Deny, "bash(frob *)".into())];
        let agent = project.agent(&rules);
        Judge { project, agent, runtime: Builder::new_current_thread().build().unwrap() }
    }

    /// Panics where something does not hold.
    pub(crate) fn check(&self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let facts = shell::facts(&text, &self.project.workspace);
        assert_eq!(
            facts,
            shell::facts(&text, &self.project.workspace),
            "the same text says the same"
        );
        check_facts(&facts);
        let explained = self.explain(&text);
        let is_clear = facts.doubts.is_empty() && facts.zone != Zone::Never;
        assert!(explained.verdict != "pass" || is_clear, "no rule takes the place of a gate");
        let first = self.explain(&format!("frob x\n{text}"));
        assert!(is_caught(&first), "what is denied is seen, whatever follows it");
    }

    fn explain(&self, command: &str) -> ExplainReport {
        self.runtime.block_on(explain(&self.agent, command))
    }
}

/// True if the commands of a script are known beforehand.
pub(crate) fn is_understood(facts: &Facts) -> bool {
    !facts.doubts.iter().any(|doubt| matches!(doubt, Doubt::NotUnderstood(_)))
}

/// True if a call that runs a denied command was detected, or at least asks whatever the rules say.
pub(crate) fn is_caught(explained: &ExplainReport) -> bool {
    let has_unknown =
        |facts: &Facts| facts.doubts.iter().any(|doubt| matches!(doubt, Doubt::Unknown(_)));
    let is_known = is_understood(&explained.facts) && !has_unknown(&explained.facts);
    explained.verdict == "block" || verdict(explained) == "ask!" && !is_known
}

/// Checks that the facts are consistent.
fn check_facts(facts: &Facts) {
    let paths = facts.reads.iter().chain(&facts.writes);
    assert!(paths.clone().all(|path| path.is_absolute()), "paths are absolute");
    for command in &facts.commands {
        let only_redirects = command.words.is_empty();
        assert!(!only_redirects || command.zone == Zone::Safe, "what has no name does nothing");
        assert!(command.zone <= facts.zone, "the zone is the most serious of all");
        assert!(
            command.writes_to.iter().all(|path| facts.writes.contains(path)),
            "every write is told"
        );
    }
}
