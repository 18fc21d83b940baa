//! The table of features in docs/FEATURES.md: docs/features.tsv joined with the names of tests.
//!
//! A line of docs/features.tsv has three columns, separated by tabs: `id`, `yes`, `partly` or `no` (is it
//! built?), and one sentence. `# …` begins a section. A test shows a feature if its name begins with the
//! feature's id: `fn l6_…`, or `fn s4_s23_…` for two. Three things are errors: a feature that is built and
//! has no test, a feature that is not built and has one, and a test that begins with an unknown id.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write, fs};

use crate::{
    command,
    failure::Failure,
    files::{self, SourceFile},
};

const TABLE: &str = "docs/features.tsv";

/// The maximum number of tests that are listed for one feature.
const MAX_TESTS: usize = 3;

/// The first letters of ids. A test may begin with another letter and a number without naming a feature.
const LETTERS: &str = "gcprlbs";

/// The sections of docs/FEATURES.md.
pub(crate) fn generate() -> Result<String, Failure> {
    let root = command::root()?;
    let table = fs::read_to_string(root.join(TABLE))
        .map_err(|error| Failure::new(format!("{TABLE} was not read")).with_cause(error))?;
    let sections = parse(&table)?;
    let tests = find_tests(&files::read_all(&root, "rs")?);
    check(&sections, &tests)?;
    Ok(print(&sections, &tests))
}

struct Section<'a> {
    title: &'a str,
    features: Vec<Feature<'a>>,
}

struct Feature<'a> {
    /// The id in lower case, as in the name of a test.
    id: String,
    built: Built,
    text: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Built {
    Yes,
    Partly,
    No,
}

/// A test whose name begins with ids.
struct Test {
    ids: Vec<String>,
    /// The file, as a path from the workspace's root.
    path: String,
    name: String,
}

/// The tests of each id, best first.
type Tests = BTreeMap<String, Vec<Test>>;

fn parse(table: &str) -> Result<Vec<Section<'_>>, Failure> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut ids = Vec::new();
    for (number, line) in (1..).zip(table.lines()).filter(|(_, line)| !line.is_empty()) {
        let wrong = |what: &str| Failure::new(format!("{TABLE}:{number}: {what}"));
        if let Some(title) = line.strip_prefix("# ") {
            sections.push(Section { title, features: Vec::new() });
            continue;
        }
        let [id, built, text] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(wrong("a line is an id, yes, partly or no, and a sentence, apart by tabs"));
        };
        let built = match built {
            "yes" => Built::Yes,
            "partly" => Built::Partly,
            "no" => Built::No,
            _ => return Err(wrong("the second column is yes, partly or no")),
        };
        let id = id.to_lowercase();
        if ids_of(&format!("{id}_")).0.is_empty() {
            return Err(wrong("the first column is an id such as L6"));
        }
        if ids.contains(&id) {
            return Err(wrong("this id is in the table already"));
        }
        ids.push(id.clone());
        let section = sections.last_mut().ok_or_else(|| wrong("a section begins with `# `"))?;
        section.features.push(Feature { id, built, text });
    }
    Ok(sections)
}

/// The ids at the beginning of a test's name, and the rest of it.
fn ids_of(name: &str) -> (Vec<String>, &str) {
    let mut ids = Vec::new();
    let mut rest = name;
    while let Some((word, after)) = rest.split_once('_') {
        let mut chars = word.chars();
        let is_id = chars.next().is_some_and(|first| LETTERS.contains(first))
            && !chars.as_str().is_empty()
            && chars.all(|c| c.is_ascii_digit());
        if !is_id {
            break;
        }
        ids.push(word.to_owned());
        rest = after;
    }
    (ids, rest)
}

/// The tests that show each feature, best first: tests of the public API before unit tests, files with
/// many tests of the feature before files with few, tests of one feature before tests of several.
fn find_tests(files: &[SourceFile]) -> Tests {
    let mut tests = Tests::new();
    for file in files {
        for name in test_names(&file.text) {
            let (ids, _) = ids_of(name);
            for id in &ids {
                let (path, name) = (file.path.clone(), name.to_owned());
                tests.entry(id.clone()).or_default().push(Test { ids: ids.clone(), path, name });
            }
        }
    }
    for (id, tests) in &mut tests {
        let mut in_file: BTreeMap<String, usize> = BTreeMap::new();
        for test in &*tests {
            *in_file.entry(test.path.clone()).or_default() += 1;
        }
        // The sort is stable: tests of one file stay in their order.
        tests.sort_by_key(|test| {
            let is_unit_test = !test.path.contains("/tests/");
            let file = (Reverse(in_file[&test.path]), test.path.clone());
            (is_unit_test, file, test.ids.first() != Some(id), test.ids.len())
        });
    }
    tests
}

/// The names of the tests of a source file. Ignored tests show no feature and are left out.
fn test_names(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_test = false;
        } else if is_test && let Some(name) = function_name(line) {
            names.push(name);
            is_test = false;
        }
    }
    names
}

fn function_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split('(').next()
}

fn check(sections: &[Section<'_>], tests: &Tests) -> Result<(), Failure> {
    let features = || sections.iter().flat_map(|section| &section.features);
    let mut wrong = Vec::new();
    for feature in features() {
        let id = feature.id.to_uppercase();
        match (feature.built, tests.get(&feature.id)) {
            (Built::Yes | Built::Partly, None) => {
                wrong.push(format!("{id} is built, and no test begins with `{}_`", feature.id));
            }
            (Built::No, Some(tests)) => {
                let Test { path, name, .. } = &tests[0];
                wrong.push(format!("{id} is not built, and {path} has a test `{name}`"));
            }
            _ => {}
        }
    }
    for (id, tests) in tests.iter().filter(|(id, _)| !features().any(|f| f.id == **id)) {
        let Test { path, name, .. } = &tests[0];
        wrong.push(format!(
            "{path}: the test `{name}` names {}, which is unknown",
            id.to_uppercase()
        ));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let failure = Failure::new(format!("{TABLE} and the tests differ"));
    let failure = wrong.into_iter().fold(failure, Failure::with_cause);
    Err(failure.with_hint(format!("name the test after the feature, or correct {TABLE}")))
}

fn print(sections: &[Section<'_>], tests: &Tests) -> String {
    let mut page = String::new();
    for section in sections {
        let _ =
            writeln!(page, "## {}\n\n| id | feature | shown by |\n|---|---|---|", section.title);
        for feature in &section.features {
            let id = feature.id.to_uppercase();
            let shown = match feature.built {
                Built::No => "not built".to_owned(),
                Built::Yes | Built::Partly => chosen(&tests[&feature.id]),
            };
            let _ = writeln!(page, "| {id} | {} | {shown} |", feature.text);
        }
        page.push('\n');
    }
    page
}

/// The best tests, at most one of each file.
fn chosen(tests: &[Test]) -> String {
    let mut chosen: Vec<&Test> = Vec::new();
    for test in tests {
        if chosen.len() < MAX_TESTS && chosen.iter().all(|other| other.path != test.path) {
            chosen.push(test);
        }
    }
    let shown: Vec<_> =
        chosen.iter().map(|test| format!("`{}`: `{}`", test.path, test.name)).collect();
    shown.join("<br>")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{check, find_tests, parse, print};
    use crate::files::SourceFile;

    fn check_page(table: &str, sources: &[(&str, &str)], expected: Expect) {
        let files: Vec<_> = sources
            .iter()
            .map(|(path, text)| SourceFile { path: (*path).into(), text: (*text).into() })
            .collect();
        let tests = find_tests(&files);
        let made = parse(table).and_then(|sections| {
            check(&sections, &tests)?;
            Ok(print(&sections, &tests))
        });
        expected.assert_eq(&made.unwrap_or_else(|failure| format!("{failure}\n")));
    }

    #[test]
    fn every_feature_that_is_built_has_a_test() {
        if let Err(failure) = super::generate() {
            panic!("{failure}");
        }
    }

    #[test]
    fn each_feature_has_its_line_and_its_tests() {
        check_page(
            "# Ends\nL6\tyes\tEvery exit is told.\nB4\tno\tA guard.\n\n# Rules\nS4\tpartly\tBound.\n",
            &[
                ("a/src/x.rs", "    #[test]\n    fn l6_unit() {}\n"),
                (
                    "a/tests/it/y.rs",
                    "#[tokio::test(start_paused = true)]\nasync fn s4_l6_both() {}\n",
                ),
                (
                    "a/tests/it/z.rs",
                    "#[test]\n#[cfg(unix)]\nfn l6_one() {}\n#[test]\nfn l6_two() {}\n",
                ),
            ],
            expect![[r#"
                ## Ends

                | id | feature | shown by |
                |---|---|---|
                | L6 | Every exit is told. | `a/tests/it/z.rs`: `l6_one`<br>`a/tests/it/y.rs`: `s4_l6_both`<br>`a/src/x.rs`: `l6_unit` |
                | B4 | A guard. | not built |

                ## Rules

                | id | feature | shown by |
                |---|---|---|
                | S4 | Bound. | `a/tests/it/y.rs`: `s4_l6_both` |

            "#]],
        );
    }

    #[test]
    fn features_without_tests_and_tests_without_features_are_refused() {
        check_page(
            "# All\nL6\tyes\tEnds.\nL7\tpartly\tLimits.\nB4\tno\tA guard.\n",
            &[(
                "a/tests/it/x.rs",
                "#[test]\n#[ignore = \"slow\"]\nfn l6_a() {}\nfn l7_b() {}\n#[test]\nfn b4_c() {}\n\
                 #[test]\nfn l99_d() {}\n#[test]\nfn x1_e() {}\n",
            )],
            expect![[r#"
                error: docs/features.tsv and the tests differ
                  caused by: L6 is built, and no test begins with `l6_`
                  caused by: L7 is built, and no test begins with `l7_`
                  caused by: B4 is not built, and a/tests/it/x.rs has a test `b4_c`
                  caused by: a/tests/it/x.rs: the test `l99_d` names L99, which is unknown

                hint: name the test after the feature, or correct docs/features.tsv
            "#]],
        );
    }

    #[test]
    fn wrong_lines_are_refused() {
        let check = |table, expected| check_page(table, &[], expected);
        check(
            "L6\tyes\tx\n",
            expect![[r#"
            error: docs/features.tsv:1: a section begins with `# `
        "#]],
        );
        check(
            "# A\nL6 yes x\n",
            expect![[r#"
            error: docs/features.tsv:2: a line is an id, yes, partly or no, and a sentence, apart by tabs
        "#]],
        );
        check(
            "# A\nL6\tsoon\tx\n",
            expect![[r#"
            error: docs/features.tsv:2: the second column is yes, partly or no
        "#]],
        );
        check(
            "# A\n6\tno\tx\n",
            expect![[r#"
            error: docs/features.tsv:2: the first column is an id such as L6
        "#]],
        );
        check(
            "# A\nL6\tno\tx\n\nL6\tno\ty\n",
            expect![[r#"
            error: docs/features.tsv:4: this id is in the table already
        "#]],
        );
    }
}
