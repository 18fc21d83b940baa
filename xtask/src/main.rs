//! Tasks of the workspace, run as `cargo xtask TASK`.
//!
//! Each task is a file; this file reads the arguments. There are few dependencies, so that it builds quickly.

use std::{env, process::ExitCode};

mod bench;
mod ci;
mod command;
mod corpora;
mod docs;
mod failure;
mod features;
mod files;
mod headline;
mod names;
mod oracle;
mod ordinary_user;
mod paths;
mod region;
mod rooms;
mod schemas;
mod source_tree;

use crate::{corpora::Rows, docs::Mode, failure::Failure, oracle::Extent};

const USAGE: &str = "\
Usage: cargo xtask TASK

Tasks:
  ci              run every check that CI runs, stop at the first that fails
  docs            write the generated regions of README.md and docs/, and schemas/
  docs --check    write nothing, fail when something generated is stale or a page names
                  a path that does not exist
  bench [FILTER]  run the benches of the core, all or those that match FILTER
  headline        measure the times that users feel beside their floors, fail when one has
                  multiplied
  corpora DIR     judge the command lines of other guards in DIR/*.jsonl and print, per file,
                  how many verdicts differ from the wanted ones; with --rows also which
  oracle [SEED]   run 200,000 generated commands that the judge passes with real bash, and fail
                  when one does more than predicted; with --short two minutes of it
  long            run the checks that take too long for CI
  rooms           fail when a path in a crate points from a room to a higher one
  rooms --count   print the number of such paths per crate, fail never
  names           print figures about names and doc comments per crate, fail never";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["as-user", folder, program, args @ ..] = args.as_slice() {
        eprintln!("{}", ordinary_user::become_user(folder, program, args));
        return ExitCode::FAILURE;
    }
    let Some(task) = parse(&args) else {
        eprintln!("{}\n\n{USAGE}", complaint(&args));
        return ExitCode::from(2);
    };
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// The task that the arguments name.
#[derive(Debug, Clone, Copy)]
enum Task<'a> {
    Help,
    Ci,
    Docs(Mode),
    Bench,
    BenchMatching(&'a str),
    Headline,
    Corpora(&'a str, Rows),
    Oracle(Extent<'a>),
    Long,
    Rooms,
    RoomsCount,
    Names,
}

/// Reads the arguments; `None` if they name no task.
fn parse<'a>(args: &[&'a str]) -> Option<Task<'a>> {
    match *args {
        ["help" | "--help" | "-h"] | [_, "--help" | "-h"] => Some(Task::Help),
        ["ci"] => Some(Task::Ci),
        ["docs"] => Some(Task::Docs(Mode::Write)),
        ["docs", "--check"] => Some(Task::Docs(Mode::Check)),
        ["bench"] => Some(Task::Bench),
        ["bench", filter] => Some(Task::BenchMatching(filter)),
        ["headline"] => Some(Task::Headline),
        ["corpora", folder] => Some(Task::Corpora(folder, Rows::Counted)),
        ["corpora", folder, "--rows"] => Some(Task::Corpora(folder, Rows::Shown)),
        ["oracle"] => Some(Task::Oracle(Extent::Long)),
        ["oracle", "--short"] => Some(Task::Oracle(Extent::Short)),
        ["oracle", seed] if seed.parse::<u64>().is_ok() => {
            Some(Task::Oracle(Extent::LongFrom(seed)))
        }
        ["long"] => Some(Task::Long),
        ["rooms"] => Some(Task::Rooms),
        ["rooms", "--count"] => Some(Task::RoomsCount),
        ["names"] => Some(Task::Names),
        _ => None,
    }
}

fn complaint(args: &[&str]) -> Failure {
    match args {
        [] => Failure::new("no task given"),
        args => Failure::new(format!("no such task: `{}`", args.join(" "))),
    }
}

#[expect(clippy::print_stdout, reason = "help that was asked for is the output")]
fn run(task: Task<'_>) -> Result<(), Failure> {
    match task {
        Task::Help => {
            println!("{USAGE}");
            Ok(())
        }
        Task::Ci => ci::run(),
        Task::Docs(mode) => docs::run(mode),
        Task::Bench => bench::run(),
        Task::BenchMatching(filter) => bench::run_matching(filter),
        Task::Headline => headline::run(),
        Task::Corpora(folder, rows) => corpora::run(folder, rows),
        Task::Oracle(extent) => oracle::run(extent),
        Task::Long => oracle::run(Extent::Long),
        Task::Rooms => rooms::run(),
        Task::RoomsCount => rooms::count(),
        Task::Names => names::run(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{complaint, parse};

    fn check(line: &str, expected: Expect) {
        let args: Vec<&str> = line.split_whitespace().collect();
        expected.assert_eq(&match parse(&args) {
            Some(task) => format!("{task:?}"),
            None => complaint(&args).to_string(),
        });
    }

    #[test]
    fn task_arguments_are_parsed() {
        check("ci", expect!["Ci"]);
        check("docs", expect!["Docs(Write)"]);
        check("docs --check", expect!["Docs(Check)"]);
        check("bench", expect!["Bench"]);
        check("bench turn", expect![[r#"BenchMatching("turn")"#]]);
        check("headline", expect!["Headline"]);
        check("corpora d", expect![[r#"Corpora("d", Counted)"#]]);
        check("corpora d --rows", expect![[r#"Corpora("d", Shown)"#]]);
        check("oracle", expect!["Oracle(Long)"]);
        check("oracle --short", expect!["Oracle(Short)"]);
        check("oracle 7", expect![[r#"Oracle(LongFrom("7"))"#]]);
        check("long", expect!["Long"]);
        check("rooms", expect!["Rooms"]);
        check("rooms --count", expect!["RoomsCount"]);
        check("names", expect!["Names"]);
    }

    #[test]
    fn help_flag_works_after_any_task() {
        check("--help", expect!["Help"]);
        check("-h", expect!["Help"]);
        check("help", expect!["Help"]);
        check("bench --help", expect!["Help"]);
    }

    #[test]
    fn unknown_tasks_are_refused() {
        check("", expect!["error: no task given"]);
        check("clean", expect!["error: no such task: `clean`"]);
        check("oracle x", expect!["error: no such task: `oracle x`"]);
        check("ci --fast", expect!["error: no such task: `ci --fast`"]);
        check("docs --fast", expect!["error: no such task: `docs --fast`"]);
        check("headline --fast", expect!["error: no such task: `headline --fast`"]);
        check("bench a b", expect!["error: no such task: `bench a b`"]);
    }
}
