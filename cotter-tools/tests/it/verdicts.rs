//! The table of commands, line by line: no verdict in it is wrong, and each has its reasons.

use std::fmt::Write;

use cotter::pipeline::explain::ExplainReport;

use crate::kit::{Case, Project, brief, explain, verdict};

#[tokio::test]
async fn c8_l13_every_command_of_the_table_gets_its_verdict() {
    let project = Project::new();
    let (mut wrong, mut count, mut all) = (String::new(), 0, 0);
    for class in project.classes() {
        let agent = project.agent(&class.rules);
        let mut lines = String::new();
        for case in &class.cases {
            all += 1;
            let explained = explain(&agent, &case.command).await;
            if let Err(told) = check(case, &explained) {
                count += 1;
                writeln!(lines, "{told}").unwrap();
            }
        }
        if !lines.is_empty() {
            write!(wrong, "\n## {}\n{lines}", class.title).unwrap();
        }
    }
    assert!(count == 0, "{count} of {all} verdicts are wrong:\n{wrong}");
}

/// Describes a wrong verdict and the facts of the decision.
fn check(case: &Case, explained: &ExplainReport) -> Result<(), String> {
    let (said, zone) = (verdict(explained), explained.facts.zone.as_str());
    let zone_fits = case.zones.iter().any(|z| z == zone || z == "-");
    if case.verdicts.iter().any(|v| v == said) && zone_fits && has_reason(explained) {
        return Ok(());
    }
    let (wanted, zones) = (case.verdicts.join("/"), case.zones.join("/"));
    let doubts: Vec<_> = explained.facts.doubts.iter().map(|doubt| format!("{doubt:?}")).collect();
    Err(format!(
        "line {}: {wanted} {zones} wanted, {said} {zone} given: {}\n    by {}: {} {}",
        case.line,
        brief(&case.command),
        explained.decided_by,
        explained.reason,
        doubts.join(", "),
    ))
}

/// A verdict other than `pass` must name its source and its reason.
fn has_reason(explained: &ExplainReport) -> bool {
    explained.verdict == "pass" || !explained.reason.is_empty() && !explained.decided_by.is_empty()
}

#[test]
fn verdict_table_has_enough_cases_per_class() {
    let project = Project::new();
    let mut everyday = 0;
    for class in project.classes() {
        let count = class.cases.len();
        let is_everyday = class.title.starts_with("everyday");
        everyday += if is_everyday { count } else { 0 };
        let is_conformance = class.title.starts_with("conformance");
        assert!(count >= 15 || is_conformance, "`{}` has {count} cases", class.title);
    }
    assert!(everyday >= 100, "{everyday} everyday commands");
}
