//! Holds the floor against command lines of other guards, each with the verdict its authors want.
//!
//! `cargo xtask corpora DIR` runs it, with the folder of `.jsonl` files in `COTTER_CORPORA`. None of the command
//! lines is run. It fails if a forbidden one passes without a reason: one in `tests/data/reasons.tsv`, or that it
//! runs confined.

#![expect(clippy::unwrap_used, reason = "helpers of the tests fail as tests do")]

use std::{collections::BTreeMap, env, fs, path::PathBuf};

#[path = "../tests/it/corpus.rs"]
mod corpus;
#[expect(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/it/kit.rs"]
mod kit;

use corpus::Tally;
use kit::Confined;
use regex::Regex;

#[expect(clippy::print_stdout, reason = "the example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = env::var_os("COTTER_CORPORA").map(PathBuf::from);
    let folder = folder.ok_or("`COTTER_CORPORA` names no folder")?;
    let shows_rows = env::args().any(|argument| argument == "--rows");
    let mut files: Vec<_> = fs::read_dir(&folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(|file| file.file_name());
    let mut unexplained = vec![];
    for file in files.iter().map(|file| file.path()) {
        if file.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let rows = fs::read_to_string(&file)?;
        let ways = [
            ("unconfined", Confined::Not),
            ("confined", Confined::WithoutView),
            ("in a view", Confined::InView),
        ];
        for (way, confined) in ways {
            let tally = Tally::of(&rows, confined);
            println!("{name}, {way}: {}", tally.line());
            let (reasons, without) = reasons_for(&tally.passed)?;
            for (reason, count) in reasons {
                println!("  {count} passed. {reason}");
            }
            unexplained.extend(without.into_iter().map(|row| format!("{way}: {row}")));
            for (reason, rows) in tally.passed.iter().filter(|_| shows_rows) {
                rows.iter().for_each(|row| println!("  passed, {reason}: {row:?}"));
            }
            for (reason, rows) in tally.held.iter().filter(|_| shows_rows) {
                rows.iter().for_each(|row| println!("  {reason}: {row:?}"));
            }
        }
    }
    match unexplained.as_slice() {
        [] => Ok(()),
        rows => Err(format!("forbidden and passed without a reason: {}", rows.join("; ")).into()),
    }
}

/// Why every command of zone build passes where it is confined.
const CONFINED: &str =
    "Confined, code of the project runs without a network and writes to the project only.";
/// Why a command passes of which a word is only known when it runs.
const IN_A_VIEW: &str =
    "A word is only known when it runs. In a view, what rules forbid and secrets cannot be read.";

/// The written reasons for letting forbidden commands pass, each with the number of its commands, and the
/// commands without a reason.
fn reasons_for(
    passed: &BTreeMap<String, Vec<String>>,
) -> Result<(BTreeMap<&'static str, usize>, Vec<String>), regex::Error> {
    let rows =
        include_str!("../tests/data/reasons.tsv").lines().filter_map(|line| line.split_once('\t'));
    let rows: Vec<(&str, Regex)> = rows
        .map(|(reason, pattern)| Ok((reason, Regex::new(pattern)?)))
        .collect::<Result<_, regex::Error>>()?;
    let (mut reasons, mut without) = (BTreeMap::new(), vec![]);
    let passed =
        passed.iter().flat_map(|(by, rows)| rows.iter().map(move |row| (by.as_str(), row)));
    for (by, command) in passed {
        let words = command.split_whitespace().collect::<Vec<_>>().join(" ");
        let written = rows.iter().find(|(_, pattern)| pattern.is_match(&words));
        let reason = match (written, by) {
            (Some((reason, _)), _) => Some(*reason),
            // Unconfined, neither passes.
            (None, "unknown words") => Some(IN_A_VIEW),
            (None, "zone build") => Some(CONFINED),
            _ => None,
        };
        match reason {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None => without.push(command.clone()),
        }
    }
    Ok((reasons, without))
}
