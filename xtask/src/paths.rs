//! Checks that the paths in pages exist.
//!
//! Pages are the `.md` files of the workspace, except CHANGELOG.md, which describes the past, and files below
//! `tests/` and `starter/`, which are data. Two things are paths of the repository: the target of a link, and
//! a word in backticks that begins with a folder of the repository or ends in `.rs`. A path that ends in
//! `.rs` may leave out its first folders: `pipeline/decide.rs` is `cotter/src/pipeline/decide.rs`.

use std::path::Path;

use crate::{
    command,
    failure::Failure,
    files::{self, SourceFile},
};

/// The first folders of paths, besides crates, whose names begin with `cotter`.
const FOLDERS: [&str; 6] = ["docs", "schemas", "xtask", "fuzz", ".ci", ".cargo"];

/// The entries in the folder of the crate `cotter`.
const CORE: [&str; 5] = ["src", "tests", "examples", "benches", "Cargo.toml"];

/// Fails with every path that does not exist, by page and line.
pub(crate) fn check() -> Result<(), Failure> {
    let root = command::root()?;
    let pages = files::read_all(&root, "md")?;
    let sources = files::read_all(&root, "rs")?;
    let missing = find_missing(&pages, |path| root.join(path).exists(), &sources);
    if missing.is_empty() {
        return Ok(());
    }
    let failure = Failure::new("pages name paths that do not exist");
    let failure = missing.into_iter().fold(failure, Failure::with_cause);
    Err(failure
        .with_hint("correct the path, or write it without backticks if it is no path of ours"))
}

fn find_missing(
    pages: &[SourceFile],
    is_there: impl Fn(&str) -> bool,
    sources: &[SourceFile],
) -> Vec<String> {
    let is_source = |path: &str| {
        let end = format!("/{path}");
        sources.iter().any(|source| source.path == path || source.path.ends_with(&end))
    };
    let mut missing = Vec::new();
    for page in pages.iter().filter(|page| is_page(&page.path)) {
        for NamedPath { line, path, kind } in named_paths(&page.text) {
            let found = match kind {
                Kind::Link => is_there(&relative_to(&page.path, &path)),
                Kind::Source => is_source(&path),
                Kind::Entry => is_there(&path),
            };
            if !found {
                missing.push(format!("{}:{line}: `{path}`", page.path));
            }
        }
    }
    missing
}

fn is_page(path: &str) -> bool {
    let is_data = path.split('/').any(|folder| folder == "tests" || folder == "starter");
    path != "CHANGELOG.md" && !is_data
}

/// A path that a page names.
#[derive(Debug)]
struct NamedPath {
    line: usize,
    path: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// The target of a link, from the page's folder.
    Link,
    /// A Rust file, which may leave out its first folders.
    Source,
    /// A file or folder, from the root.
    Entry,
}

fn named_paths(text: &str) -> Vec<NamedPath> {
    let mut paths = Vec::new();
    let mut is_fenced = false;
    for (line, content) in (1..).zip(text.lines()) {
        if content.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            for target in links(content) {
                paths.push(NamedPath { line, path: target.to_owned(), kind: Kind::Link });
            }
            for word in content.split('`').skip(1).step_by(2).flat_map(str::split_whitespace) {
                if let Some((path, kind)) = as_path(word) {
                    paths.push(NamedPath { line, path: path.to_owned(), kind });
                }
            }
        }
    }
    paths
}

/// The targets of a line's links that are files.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

/// A word as a path of the repository; `None` if the word is no path.
fn as_path(word: &str) -> Option<(&str, Kind)> {
    // `src/a.rs:12` and `src/a.rs::name` name a location in the file.
    let path = word.split(':').next()?.trim_end_matches([',', ';', ')', '/']);
    let (first, rest) = path.split_once('/')?;
    let is_pattern = path.contains(['*', '…', '<', '{', '$']) || path.contains("NAME");
    if is_pattern || first.is_empty() {
        return None;
    }
    // A data home has a folder `cotter` too.
    let is_core = first == "cotter" && rest.split('/').next().is_some_and(|it| CORE.contains(&it));
    let is_ours = is_core || FOLDERS.contains(&first) || first.starts_with("cotter-");
    match (is_ours, path.ends_with(".rs")) {
        (_, true) => Some((path, Kind::Source)),
        (true, false) => Some((path, Kind::Entry)),
        (false, false) => None,
    }
}

/// Converts a path from a page's folder into a path from the root.
fn relative_to(page: &str, path: &str) -> String {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    folder.join(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::find_missing;
    use crate::files::SourceFile;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into() }
    }

    fn check(page: &str, text: &str, expected: Expect) {
        let there = ["docs/A.md", "docs/../README.md", "cotter/src", ".ci/run"];
        let sources = [file("cotter/src/run/agent_loop.rs", ""), file("xtask/src/main.rs", "")];
        let missing = find_missing(&[file(page, text)], |path| there.contains(&path), &sources);
        expected.assert_eq(&missing.join("\n"));
    }

    #[test]
    fn every_path_that_a_page_names_is_there() {
        if let Err(failure) = super::check() {
            panic!("{failure}");
        }
    }

    #[test]
    fn paths_that_are_there_pass() {
        check(
            "docs/B.md",
            "`cotter/src/`, `run/agent_loop.rs:12`, `xtask/src/main.rs::main`, `.ci/run`\n\
             [A](A.md#top), [home](../README.md), [web](https://a.b/c), [here](#below)\n",
            expect![""],
        );
    }

    #[test]
    fn paths_that_are_not_there_are_named_with_page_and_line() {
        check(
            "docs/B.md",
            "x\n`cotter/src/turn.rs` and `agent.rs` and `loop.rs/no`\n\n`docs/B.md`, `cargo run cotter-x/y`\n[A](a.md)\n",
            expect![[r#"
                docs/B.md:2: `cotter/src/turn.rs`
                docs/B.md:4: `docs/B.md`
                docs/B.md:4: `cotter-x/y`
                docs/B.md:5: `a.md`"#]],
        );
    }

    #[test]
    fn paths_of_other_projects_patterns_and_code_are_left_alone() {
        check(
            "README.md",
            "`.cotter/skills/a/SKILL.md`, `commands/review.md`, `cotter/src/*.rs`, `/etc/x.rs`, `cotter`,\
             `cotter/memory`, `commands/NAME.rs`\n\
             ```sh\ncat `cotter/none.rs`\n```\n",
            expect![""],
        );
        check("CHANGELOG.md", "`cotter/src/gone.rs`", expect![""]);
        check("cotter-cli/starter/a.md", "`cotter/src/gone.rs`", expect![""]);
    }
}
