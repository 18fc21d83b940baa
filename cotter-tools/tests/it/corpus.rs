//! Command lines with the verdict that somebody wants for each, and how often the floor says otherwise. The
//! tests hold rows of our own against it; the example `corpora` holds those of other guards.

use std::collections::BTreeMap;

use serde::Deserialize;
use tokio::runtime::Builder;

use crate::kit::{Confined, Project, explain, verdict};

/// One line of a corpus.
#[derive(Deserialize)]
struct Row {
    /// Missing in rows about a tool other than the shell.
    command: Option<String>,
    /// `deny`, `ask` or `allow`.
    want: String,
}

/// The rows of a corpus, counted by what is wanted and what the floor says.
#[derive(Default)]
pub(crate) struct Tally {
    forbidden: usize,
    harmless: usize,
    /// Forbidden commands that pass, by reason: the zone, or that a word is only known when it runs.
    pub(crate) passed: BTreeMap<String, Vec<String>>,
    /// Harmless commands that do not pass, by reason.
    pub(crate) held: BTreeMap<String, Vec<String>>,
}

impl Tally {
    /// Judges every command of a corpus at level `standard`. Folders that stand for the project or for a
    /// home are replaced by those of the test project.
    pub(crate) fn of(corpus: &str, confined: Confined) -> Tally {
        let (project, mut tally) = (Project::without_links(), Tally::default());
        let agent = project.agent_confined(&[], confined);
        let runtime = Builder::new_current_thread().build().unwrap();
        for (number, line) in corpus.lines().enumerate() {
            let row: Row = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("line {}: {error}", number + 1));
            let Some(command) = row.command else { continue };
            let placed = command
                .replace("/workspace", project.folder.to_str().unwrap())
                .replace("/home/user", "/home/u");
            let explained = runtime.block_on(explain(&agent, &placed));
            let passes = explained.verdict == "pass";
            match row.want.as_str() {
                "allow" => tally.harmless += 1,
                _ => tally.forbidden += 1,
            }
            match (row.want.as_str(), passes) {
                ("allow", false) => {
                    let zone = explained.facts.zone.as_str();
                    let by = match verdict(&explained) {
                        "ask!" => explained
                            .considered
                            .iter()
                            .find(|c| c.kind == "kernel" && c.verdict == "ask"),
                        _ => None,
                    };
                    let reason =
                        by.map_or_else(|| format!("zone {zone}"), |by| by.name.to_string());
                    tally.held.entry(reason).or_default().push(command);
                }
                ("deny" | "ask", true) => {
                    let reason = match explained.facts.view {
                        true => "unknown words".into(),
                        false => format!("zone {}", explained.facts.zone.as_str()),
                    };
                    tally.passed.entry(reason).or_default().push(command);
                }
                _ => {}
            }
        }
        tally
    }

    /// The counts in one line.
    pub(crate) fn line(&self) -> String {
        format!(
            "forbidden {}, passed {}; harmless {}, not passed {}",
            self.forbidden,
            by_reason(&self.passed),
            self.harmless,
            by_reason(&self.held),
        )
    }
}

/// The number of rows, and that of each reason.
fn by_reason(rows: &BTreeMap<String, Vec<String>>) -> String {
    let all: usize = rows.values().map(Vec::len).sum();
    let reasons: Vec<_> =
        rows.iter().map(|(reason, rows)| format!("{reason} {}", rows.len())).collect();
    match reasons.is_empty() {
        true => all.to_string(),
        false => format!("{all} ({})", reasons.join(", ")),
    }
}
