//! Commands of an ordinary day, and rows of our own with the verdict that a careful person wants.

use std::fmt::Write;

use expect_test::{expect, expect_file};
use tokio::runtime::Builder;

use crate::{
    corpus::Tally,
    kit::{Confined, Project, explain, verdict},
};

/// The list is a table: `plain`, or `dynamic` for a variable, a loop, an assignment or a pipe to `xargs`; the
/// verdict where nothing counts as confined; the verdict with `"sandbox": "landlock"`; the verdict where
/// commands have a view of the files; the command.
#[test]
fn l13_everyday_commands_have_their_verdicts() {
    let (project, runtime) =
        (Project::without_links(), Builder::new_current_thread().build().unwrap());
    let agents = WAYS.map(|(_, confined)| project.agent_confined(&[], confined));
    let (mut table, mut passed) = (String::new(), [0; WAYS.len()]);
    for line in include_str!("../data/everyday.tsv").lines() {
        let mut columns = line.split('\t');
        let kind = columns.next().unwrap();
        let command = columns.nth(3).unwrap_or_else(|| panic!("five columns in `{line}`"));
        let verdicts = agents.each_ref().map(|agent| {
            let explained = runtime.block_on(explain(agent, command));
            verdict(&explained)
        });
        for (count, verdict) in passed.iter_mut().zip(verdicts) {
            *count += usize::from(verdict == "pass");
        }
        writeln!(table, "{kind}\t{}\t{command}", verdicts.join("\t")).unwrap();
    }
    expect_file!["../data/everyday.tsv"].assert_eq(&table);
    let counts: Vec<_> =
        WAYS.iter().zip(passed).map(|((way, _), count)| format!("{way}: {count}\n")).collect();
    expect![[r#"
        passed of 200
        without a view of the files: 74
        with landlock alone: 123
        with a view of the files: 150
    "#]]
    .assert_eq(&format!("passed of 200\n{}", counts.concat()));
}

const WAYS: [(&str, Confined); 3] = [
    ("without a view of the files", Confined::Not),
    ("with landlock alone", Confined::WithoutView),
    ("with a view of the files", Confined::InView),
];

/// Counts may only fall.
#[test]
fn l13_wanted_verdicts_are_given() {
    let rows = include_str!("../data/wanted.jsonl");
    let lines =
        WAYS.map(|(way, confined)| format!("{way}: {}\n", Tally::of(rows, confined).line()));
    let text = lines.concat();
    expect![[r#"
        without a view of the files: forbidden 170, passed 0; harmless 150, not passed 87 (destructive-commands 5, not-understood 11, zone build 30, zone external 13, zone machine 23, zone network 5)
        with landlock alone: forbidden 170, passed 24 (zone build 24); harmless 150, not passed 57 (destructive-commands 5, not-understood 11, zone external 13, zone machine 23, zone network 5)
        with a view of the files: forbidden 170, passed 25 (unknown words 1, zone build 24); harmless 150, not passed 53 (destructive-commands 5, not-understood 7, zone external 13, zone machine 23, zone network 5)
    "#]].assert_eq(&text);
}
