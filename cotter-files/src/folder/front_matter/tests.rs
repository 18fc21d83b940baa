#![expect(clippy::too_many_lines, reason = "whole outputs stand in the tests")]

use std::path::Path;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::folder::front_matter::*;

fn shown(value: &YamlValue) -> String {
    match value {
        YamlValue::Empty => "-".into(),
        YamlValue::Flag(flag) => flag.to_string(),
        YamlValue::Text(text) => format!("{text:?}"),
        YamlValue::List(list) => {
            let items = list.iter().map(|(line, value)| format!("{line}:{}", shown(value)));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        YamlValue::Fields(fields) => {
            let fields = fields
                .iter()
                .map(|field| format!("{}:{} {}", field.line, field.key, shown(&field.value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        YamlValue::Unread => "?".into(),
    }
}

fn told(bytes: &[u8]) -> String {
    match read(Path::new("f.md"), bytes) {
        Err(diagnostic) => format!("{}: {diagnostic}\n", diagnostic.severity.as_str()),
        Ok(read) => {
            let mut out = shown(&YamlValue::Fields(read.fields)) + "\n";
            for diagnostic in read.diagnostics {
                out += &format!("{}: {diagnostic}\n", diagnostic.severity.as_str());
            }
            out + &format!("body {:?}\n", String::from_utf8_lossy(&bytes[read.body..]))
        }
    }
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&told(text.as_bytes()));
}

#[test]
fn c9_front_matter_has_keys_with_lines_and_a_body() {
    check(
        "---\nid: a\ntriggers:\n  - pattern: x\n    type: regex\n  - y\nflag: true\nnone:\nn: 3\n---\nbody\n---\n",
        expect![[r#"
            {2:id "a", 3:triggers [4:{4:pattern "x", 5:type "regex"}, 6:"y"], 7:flag true, 8:none -, 9:n "3"}
            body "body\n---\n"
        "#]],
    );
    check(
        "just a body",
        expect![[r#"
        {}
        body "just a body"
    "#]],
    );
    check(
        "",
        expect![[r#"
        {}
        body ""
    "#]],
    );
    check(
        "---\n---\nbody",
        expect![[r#"
        {}
        body "body"
    "#]],
    );
    check(
        "---\n# just a comment\n---\nbody",
        expect![[r#"
        {}
        body "body"
    "#]],
    );
    check(
        "---\nid: a\n---",
        expect![[r#"
        {2:id "a"}
        body ""
    "#]],
    );
    check(
        "\u{feff}---\r\nname: test\r\n---\r\none\r\ntwo",
        expect![[r#"
        {2:name "test"}
        body "one\r\ntwo"
    "#]],
    );
    check(
        "\n\n--- \nid: a\n---\n\n  body  \n",
        expect![[r#"
        {4:id "a"}
        body "\n  body  \n"
    "#]],
    );
    check(
        "---\nd: |\n  one\n  two\n---\n\nbody",
        expect![[r#"
        {2:d "one\ntwo\n"}
        body "\nbody"
    "#]],
    );
}

#[test]
fn c9_invalid_yaml_front_matter_is_repaired_by_quoting_values() {
    check(
        "---\nid: a\ndescription: Use it when: always\n---\n",
        expect![[r#"
        {2:id "a", 3:description "Use it when: always"}
        repaired: f.md:3: it is not YAML; read with its values in quotes
        body ""
    "#]],
    );
    check(
        "---\nglob: *.rs\nwho: @me\ntools: `x`\n---\n",
        expect![[r#"
        {2:glob "*.rs", 3:who "@me", 4:tools "`x`"}
        repaired: f.md:2: it is not YAML; read with its values in quotes
        body ""
    "#]],
    );
    check(
        "---\nlist:\n\t- a: b: c\n---\n",
        expect![[r#"
        {2:list [3:{3:a "b: c"}]}
        repaired: f.md:3: it is not YAML; read with its values in quotes
        body ""
    "#]],
    );
    check(
        "---\nd: \"open\nid: x\n---\n",
        expect![[r#"
        {2:d "\"open", 3:id "x"}
        repaired: f.md:3: it is not YAML; read with its values in quotes
        body ""
    "#]],
    );
    check(
        "---\nd: one: two\n  three: four\nlist:\n  - a\n  - b\nmore: [x, 'y']\n---\n",
        expect![[r#"
            {2:d "one: two three: four", 4:list [5:"a", 6:"b"], 7:more [7:"x", 7:"y"]}
            repaired: f.md:2: it is not YAML; read line by line
            body ""
        "#]],
    );
    check(
        "---\nd: one: two\n  three: four\ntriggers:\n  - pattern: x\n    type: regex\n---\n",
        expect![[r#"
        {2:d "one: two three: four", 4:triggers ?}
        repaired: f.md:2: it is not YAML; read line by line
        body ""
    "#]],
    );
    check(
        "---\nnot a key\n  id: [\n---\n",
        expect![[r#"
            rejected: f.md:2: `not a key` is not `key: value`
        "#]],
    );
    check(
        "---\n- a\n- b\n---\n",
        expect![[r#"
            rejected: f.md:2: `- a` is not `key: value`
        "#]],
    );
    check(
        "---\na: b: c\n d: e: f\na: x\n---\n",
        expect![[r#"
            rejected: f.md:4: duplicate key `a`
        "#]],
    );
}

#[test]
fn c9_hostile_front_matter_is_rejected() {
    check(
        "---\nid: a\nid: b\n---\n",
        expect![[r#"
            rejected: f.md:3: duplicate key `id`
        "#]],
    );
    check(
        "---\nid: a\nbody",
        expect![[r#"
        rejected: f.md:1: the front matter has no end: a second line `---` is missing
    "#]],
    );
    let bomb: String =
        (1..9).map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{},", n - 1).repeat(9))).collect();
    check(
        &format!("---\na0: &a0 [x,x]\n{bomb}---\n"),
        expect![[r#"
            rejected: f.md:4: it is too long, too deeply nested, or has too many aliases
        "#]],
    );
    // Few aliases, each of them large.
    let tall: String = (1..9).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1)).collect();
    check(
        &format!("---\na0: &a0 [x,x]\n{tall}---\n"),
        expect![[r#"
            rejected: f.md:9: it is too long, too deeply nested, or has too many aliases
        "#]],
    );
    check(
        &format!("---\nx: {}\n---\n", "[".repeat(20_000)),
        expect![[r#"
            rejected: f.md:2: it is too long, too deeply nested, or has too many aliases
        "#]],
    );
    check(
        &format!("---\nx: {}{}\n---\n", "[".repeat(20_000), "]".repeat(20_000)),
        expect![[r#"
            rejected: f.md:2: it is too long, too deeply nested, or has too many aliases
        "#]],
    );
    let deep: String = (0..300).map(|n| format!("{}k:\n", " ".repeat(n))).collect();
    check(
        &format!("---\n{deep}---\n"),
        expect![[r#"
            rejected: f.md:14: it is too long, too deeply nested, or has too many aliases
        "#]],
    );
    check(
        &format!("---\nx: {}\n---\n", "y".repeat(70_000)),
        expect![[r#"
        rejected: f.md:1: the front matter does not end within 65536 bytes
    "#]],
    );
    check(
        &format!("---\n{}", "x: y\n".repeat(2_000_000)),
        expect![[r#"
        rejected: f.md:1: the front matter does not end within 65536 bytes
    "#]],
    );
    check(
        &format!("---\n{}\n---\n", "-".repeat(60_000)),
        expect![[r#"
            rejected: f.md:2: `---------------------------------------…` is not `key: value`
        "#]],
    );
    check(
        &format!("---\n{}\n---\n", "- ".repeat(30_000)),
        expect![[r#"
            rejected: f.md:2: it is too long, too deeply nested, or has too many aliases
        "#]],
    );
    check(
        "---\n<<: {a: b}\nc: d\n---\n",
        expect![[r#"
            rejected: f.md:2: it is too long, too deeply nested, or has too many aliases
        "#]],
    );
    check(
        "---\na: 1\n--- \n---\n",
        expect![[r#"
        {2:a "1"}
        body "---\n"
    "#]],
    );
    expect![[r#"
        rejected: f.md:3: a byte in the front matter is not UTF-8
    "#]]
    .assert_eq(&told(b"---\nid: a\nx: \xff\n---\n"));
    expect![[r#"
        {2:id "a"}
        body "�"
    "#]]
    .assert_eq(&told(b"---\nid: a\n---\n\xff"));
}

#[test]
fn c9_word_lists_are_split_at_commas_or_blanks() {
    let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text}");
    check("read, write", &["read", "write"]);
    check("read write", &["read", "write"]);
    check("Bash(git diff *) Read", &["Bash(git diff *)", "Read"]);
    check("Bash(git add, git rm), Read", &["Bash(git add, git rm)", "Read"]);
    check("", &[]);
    check(")) (a", &["))", "(a"]);
}

/// Generates text that looks like front matter more often than random text.
fn nearly() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("---\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\n  - ".to_owned()),
        Just("id: ".to_owned()),
        Just("&a *a !!x @ ` | > \" ' [ { } ] , # % \t".to_owned()),
        "[a-z:# \\-\\[\\]{}'\"\n\t]{0,12}",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| "---\n".to_owned() + &pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn c9_front_matter_parser_never_panics(text in nearly(), bytes in any::<Vec<u8>>()) {
        for bytes in [text.as_bytes(), &bytes] {
            crate::folder::front_matter::check_invariants(bytes);
        }
    }
}
