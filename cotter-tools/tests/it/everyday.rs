//! Commands of an ordinary day, and rows of our own with the verdict that a careful person wants.

use std::fmt::Write;

use expect_test::{expect, expect_file};
use tokio::runtime::Builder;

use crate::{
    corpus::Tally,
    kit::{Project, explain, verdict},
};

/// The list is a table: `plain`, or `dynamic` for a variable, a loop, an assignment or a pipe to `xargs`; the
/// verdict where nothing is confined; the verdict where commands are confined; the command.
#[test]
fn l13_everyday_commands_have_their_verdicts() {
    let (project, runtime) =
        (Project::without_links(), Builder::new_current_thread().build().unwrap());
    let agents = [false, true].map(|is_confined| project.agent_confined(&[], is_confined));
    let mut table = String::new();
    for line in include_str!("../data/everyday.tsv").lines() {
        let mut columns = line.split('\t');
        let kind = columns.next().unwrap();
        let command = columns.nth(2).unwrap_or_else(|| panic!("four columns in `{line}`"));
        let verdicts = agents.each_ref().map(|agent| {
            let explained = runtime.block_on(explain(agent, command));
            verdict(&explained)
        });
        writeln!(table, "{kind}\t{}\t{}\t{command}", verdicts[0], verdicts[1]).unwrap();
    }
    expect_file!["../data/everyday.tsv"].assert_eq(&table);
}

/// Counts may only fall.
#[test]
fn l13_wanted_verdicts_are_given() {
    let rows = include_str!("../data/wanted.jsonl");
    let tallies = [false, true].map(|is_confined| Tally::of(rows, is_confined).line());
    let text = format!("unconfined: {}\nconfined: {}\n", tallies[0], tallies[1]);
    expect![[r#"
        unconfined: forbidden 170, passed 0; harmless 150, not passed 87 (destructive-commands 5, not-understood 11, zone build 30, zone external 13, zone machine 23, zone network 5)
        confined: forbidden 170, passed 24; harmless 150, not passed 57 (destructive-commands 5, not-understood 11, zone external 13, zone machine 23, zone network 5)
    "#]].assert_eq(&text);
}
