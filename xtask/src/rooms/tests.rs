//! Tests with one edge of each kind in a small crate.

use expect_test::{Expect, expect};

use super::{HOUSES, Handles, House, Survey, survey};
use crate::source_tree::Texts;

const HOUSE: House = House {
    name: "house",
    rooms: &[&["attic"], &["hall"], &["cellar", "pit"]],
    outside: &["yard"],
    handles: Some(Handles { room: "attic", items: &["Key"], users: &["hall"] }),
};

/// The upper rooms. Each test adds `cellar.rs` and the other files that it needs.
const FILES: &[(&str, &str)] = &[
    (
        "lib.rs",
        "pub mod attic; pub mod hall; pub mod cellar; pub mod yard;
         pub use crate::attic::chest::Lamp; pub fn ring() {}",
    ),
    ("attic.rs", "pub mod chest; pub struct Key; pub use chest::Lamp; pub fn open() {}"),
    ("attic/chest.rs", "pub struct Lamp; pub enum Coin { Gold } pub const LID: u8 = 1;"),
    ("hall.rs", "pub struct Rug; pub use crate::cellar::Jar;"),
    ("cellar.rs", "pub struct Jar;"),
    ("yard.rs", "use crate::{attic::Key, cellar::Jar, hall::Rug}; pub struct Gate;"),
];

fn survey_planted(planted: &[(&str, &str)]) -> Survey {
    let files = FILES.iter().chain(planted);
    let texts: Texts =
        files.map(|(name, text)| (format!("house/src/{name}"), (*text).to_owned())).collect();
    survey(&HOUSE, "house/src", &texts).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Adds whole files, and checks the lines that are printed.
fn check_files(planted: &[(&str, &str)], expected: Expect) {
    expected.assert_eq(&survey_planted(planted).fault_lines().join("\n"));
}

/// Adds a text in the lowest room, and checks its lines with the definitions that they lead up to.
fn check(cellar: &str, expected: Expect) {
    let survey = survey_planted(&[("cellar.rs", &format!("{cellar}\npub struct Jar;"))]);
    assert!(survey.faults.is_empty(), "{:?}", survey.faults);
    let edges = survey.edges.iter().map(|edge| format!("{} {}", edge.line, edge.path));
    expected.assert_eq(&edges.collect::<Vec<_>>().join(", "));
}

#[test]
fn downward_paths_pass() {
    check_files(
        &[("attic.rs", "pub mod chest; pub struct Key; use crate::{cellar::Jar, hall::Rug};")],
        expect![],
    );
}

#[test]
fn upward_use_lines_are_reported() {
    check("use crate::hall::Rug;", expect!["1 hall::Rug"]);
    check(
        "use crate::attic::{\n    Key,\n    chest::{self, LID},\n};",
        expect!["2 attic::Key, 3 attic::chest, 3 attic::chest::LID"],
    );
    check("use std::fmt; use ::attic::Key; use attic::Key;", expect![]);
    check("fn f() {\n    use crate::hall::Rug;\n}", expect!["2 hall::Rug"]);
    check("pub(crate) use crate::hall::Rug;", expect!["1 hall::Rug"]);
}

#[test]
fn an_imported_item_counts_once() {
    check(
        "use crate::attic::chest::Coin;\nfn f() -> Coin {\n    Coin::Gold\n}",
        expect!["1 attic::chest::Coin"],
    );
}

#[test]
fn upward_inline_paths_are_reported() {
    check("fn f(rug: crate::hall::Rug) {}", expect!["1 hall::Rug"]);
    check("fn f(rug: Option<Vec<crate::hall::Rug>>) {}", expect!["1 hall::Rug"]);
    check("fn f() {\n    let lid = crate::attic::chest::LID;\n}", expect!["2 attic::chest::LID"]);
    check("impl From<super::hall::Rug> for Jar {}", expect!["1 hall::Rug"]);
    check("mod shelf {\n    use super::super::attic::Key;\n}", expect!["2 attic::Key"]);
    check("use self::super::attic::Key;", expect!["1 attic::Key"]);
    check("#[serde(with = \"crate::attic\")]\nstruct Box;", expect!["1 attic"]);
}

#[test]
fn upward_paths_through_imports_and_aliases_are_reported() {
    check("use crate::attic;\nfn f() {\n    attic::open();\n}", expect!["1 attic, 3 attic::open"]);
    check(
        "use crate::attic::chest as trunk;\nfn f() -> trunk::Coin {}",
        expect!["1 attic::chest, 2 attic::chest::Coin"],
    );
    check("use crate as house;\nfn f() -> house::attic::Key {}", expect!["2 attic::Key"]);
    check("use crate::attic as jar;\nfn jar() -> jar::Key {}", expect!["1 attic, 2 attic::Key"]);
}

#[test]
fn re_exports_are_resolved() {
    check("use crate::Lamp;", expect!["1 attic::chest::Lamp"]);
    check("use crate::attic::Lamp;", expect!["1 attic::chest::Lamp"]);
    check("use crate::hall::Jar as Own;", expect![]);
}

#[test]
fn glob_imports_are_resolved() {
    check("use crate::attic::*;", expect!["1 attic"]);
    check("use crate::*;\nfn f(lamp: Lamp) {}", expect!["2 attic::chest::Lamp"]);
    check("enum Size { Big }\nuse Size::*;\nfn f() -> std::fs::File {}", expect![]);
}

#[test]
fn paths_in_macros_are_reported() {
    check(
        "macro_rules! rug {\n    () => {\n        $crate::hall::Rug\n    };\n}",
        expect!["3 hall::Rug"],
    );
    check(
        "fn f() {\n    println!(\"{}\", crate::attic::chest::LID);\n}",
        expect!["2 attic::chest::LID"],
    );
    check(
        "make! {\n    use crate::{attic::{Key as K, chest::Coin}, cellar::Jar};\n}",
        expect!["2 attic::Key, 2 attic::chest::Coin"],
    );
    check(
        "use crate::attic;\nfn f() {\n    assert!(jar.attic::<u8>() == attic::open());\n}",
        expect!["1 attic, 3 attic::open"],
    );
    check("macro_rules! any {\n    ($attic:ident) => { $attic::open() };\n}", expect![]);
}

#[test]
fn handle_types_of_a_room_may_be_used() {
    let check_hall = |text: &str, expected| {
        check_files(&[("hall.rs", &format!("pub struct Rug; {text}"))], expected);
    };
    check_hall("use crate::attic::Key;", expect![]);
    check_hall(
        "use crate::attic::{self, Key};",
        expect!["house/src/hall.rs:1: hall uses attic (`attic`), which is above it"],
    );
    check_hall(
        "use crate::attic::Lamp;",
        expect!["house/src/hall.rs:1: hall uses attic (`attic::chest::Lamp`), which is above it"],
    );
    check("use crate::attic::Key;", expect!["1 attic::Key"]);
}

#[test]
fn messages_name_the_rooms_and_the_reason() {
    let check_cellar = |text: &str, expected| {
        check_files(&[("cellar.rs", &format!("{text}\npub struct Jar;"))], expected);
    };
    check_cellar(
        "use crate::hall::Rug;",
        expect!["house/src/cellar.rs:1: cellar uses hall (`hall::Rug`), which is above it"],
    );
    check_cellar(
        "use crate::yard::Gate;",
        expect!["house/src/cellar.rs:1: cellar uses yard (`yard::Gate`), which no room may use"],
    );
    check_cellar(
        "fn f() {\n    crate::ring();\n}",
        expect!["house/src/cellar.rs:2: cellar uses the crate's root (`ring`), which is above it"],
    );
    check_cellar(
        "use crate::attic::Gone;",
        expect!["house/src/cellar.rs:1: cannot find `crate::attic::Gone`"],
    );
    check_files(
        &[("lib.rs", "mod attic; mod hall; mod cellar; mod porch {}")],
        expect!["house/src: `porch` is not in the table of xtask/src/rooms.rs"],
    );
}

#[test]
fn count_line_counts_edges_and_paths() {
    let survey = survey_planted(&[(
        "hall.rs",
        "use crate::attic::{open, chest::{Coin, Lamp}}; pub struct Rug; pub use crate::Lamp as L;",
    )]);
    expect!["house          2 edges (3 paths)"].assert_eq(&survey.count_line("house"));
}

#[test]
fn modules_of_one_room_may_use_each_other() {
    let root = ("lib.rs", "mod attic; mod hall; mod cellar; mod pit;");
    let pit = ("pit.rs", "use crate::cellar::Jar; pub struct Well;");
    check_files(&[root, pit, ("cellar.rs", "pub struct Jar; use crate::pit::Well;")], expect![]);
}

#[test]
fn tests_and_comments_do_not_count() {
    check("#[cfg(test)]\nmod tests {\n    use crate::attic::Key;\n}", expect![]);
    check("#[cfg(all(test, unix))]\nmod tests;", expect![]);
    check("#[test]\nfn f() {\n    crate::attic::open();\n}", expect![]);
    check("/// See [`crate::attic::Key`].\nfn f() {}", expect![]);
    check("#[cfg(unix)]\nuse crate::attic::Key;", expect!["2 attic::Key"]);
}

#[test]
fn reported_lines_are_sorted() {
    let first = "fn f() {\n\n\n\n\n\n\n\n\n    crate::attic::open();\n}";
    check(&format!("use crate::hall::Rug;\n{first}"), expect!["1 hall::Rug, 11 attic::open"]);
}

#[test]
fn no_room_is_listed_twice() {
    for house in HOUSES {
        let mut names: Vec<_> = house.rooms.concat();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "{}", house.name);
    }
}
