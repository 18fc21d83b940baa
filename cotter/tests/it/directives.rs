//! Directives: tokens, leading commands and mentions, arguments, and the message of a skill.

use std::borrow::Cow;

use cotter::invoke::directives::{
    format_skill_message, leading_command, leading_mention, parse_tokens, split_args,
};
use proptest::prelude::*;

/// Parses a text in which these names are bound, and checks the remaining text and the tokens.
#[track_caller]
fn check(text: &str, bound: &str, expected: (&str, &str)) {
    let parsed = parse_tokens(text, |name| bound.split(' ').any(|known| known == name));
    let tokens: Vec<_> = parsed.tokens.iter().map(|token| token.name.as_str()).collect();
    assert_eq!((&*parsed.text, tokens.join(" ").as_str()), expected, "for {text:?}");
    let is_borrowed = matches!(parsed.text, Cow::Borrowed(_));
    assert_eq!(is_borrowed, parsed.text == text, "borrowed where nothing changed: {text:?}");
}

#[track_caller]
fn check_all(cases: &[(&str, (&str, &str))]) {
    for (text, expected) in cases {
        check(text, "x y brief research-mode v_2", *expected);
    }
}

/// Checks that texts have no token and keep every byte.
#[track_caller]
fn check_unchanged(texts: &[&str]) {
    for text in texts {
        check(text, "x y brief", (text, ""));
    }
}

#[track_caller]
fn check_args(text: &str, expected: &[(&str, &str)]) {
    let parsed = parse_tokens(text, |name| matches!(name, "x" | "y"));
    let tokens: Vec<_> =
        parsed.tokens.iter().map(|token| (token.name.as_str(), token.args.as_str())).collect();
    assert_eq!(tokens, expected, "for {text:?}");
}

#[test]
fn g2_text_without_a_bound_token_keeps_every_byte() {
    check_unchanged(&[
        "",
        " ",
        "\n\n",
        "keep  two   spaces ",
        "a  \r\n  b\n\n",
        "```\n    indented\n```",
        "  /unknown  \n\n /other\t",
        "\\/unknown \\x \\",
        "\u{feff}é \u{a0} 世界",
    ]);
}

#[test]
fn g3_only_registered_names_bind() {
    check_unchanged(&["ping /me at 3pm", "/usr/local/bin", "cd /usr", "/b hi", "/brie", "/briefs"]);
    check("cd /usr", "usr", ("cd", "usr"));
    check("cd /usr/local /usr", "usr", ("cd /usr/local", "usr"));
}

#[test]
fn g3_names_are_exact() {
    check_unchanged(&["/Brief hi", "/BRIEF", "/X"]);
    check("/Brief /brief hi", "Brief", ("/brief hi", "Brief"));
}

#[test]
fn g4_mentions_are_not_parsed() {
    check_unchanged(&["@x NYC", "@x  NYC a@b.com", "mail x@y.z"]);
    check_all(&[("@x /brief NYC", ("@x NYC", "brief"))]);
}

#[test]
fn g5_arguments_are_the_rest_of_the_line() {
    check_args("/x one  two", &[("x", "one  two")]);
    check_args("one /x two", &[("x", "one two")]);
    check_args("one /x", &[("x", "one")]);
    check_args("/x", &[("x", "")]);
    check_args("  /x one \t", &[("x", "one")]);
    check_args("/x one /y two", &[("x", "one two"), ("y", "one two")]);
    check_args("one /x /y\ntwo", &[("x", "one"), ("y", "one")]);
    check_args("/x one\n/y\nthree", &[("x", "one"), ("y", "")]);
    check_args("zero\r\n/x one\r\ntwo", &[("x", "one")]);
    check_args("zero\u{2028}/x one\u{2029}two", &[("x", "one")]);
    check_args("/x \\/y `/y`", &[("x", "/y `/y`")]);
    check_args("\u{a0}/x\u{a0}one\u{a0}", &[("x", "one")]);
    check_args("\n\n/x one\n\n", &[("x", "one")]);
}

#[test]
fn g7_token_is_found_anywhere_in_the_text() {
    check_all(&[
        ("/x", ("", "x")),
        ("/x tell me", ("tell me", "x")),
        ("/research-mode tell me", ("tell me", "research-mode")),
        ("/v_2 tell me", ("tell me", "v_2")),
        ("please /x explain", ("please explain", "x")),
        ("tell me /x", ("tell me", "x")),
    ]);
}

#[test]
fn g7_token_needs_whitespace_around_it() {
    check_unchanged(&[
        "do it /x.",
        "(/x) hi",
        "/x) hi",
        "`/x` hi",
        "//x hi",
        "/x/ hi",
        "foo/x hi",
        "/x, hi",
        "/x: hi",
        "/x:y hi",
        "\"/x\"",
        "é/x",
        "/xé",
        "/é",
        "/x🙂",
        "/ x",
        "/",
        "/1x",
        "/-x",
        "/_x",
        "\\\\/x",
        "a\\/x",
    ]);
}

#[test]
fn g7_token_borders_are_ecmascript_whitespace() {
    for space in "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}"
        .chars()
    {
        let text = format!("a{space}/x{space}b");
        let parsed = parse_tokens(&text, |name| name == "x");
        assert_eq!(parsed.tokens.len(), 1, "for {space:?}");
    }
    for other in "\0\u{1}\u{1c}\u{1f}\u{85}\u{180e}\u{200b}\u{2060}".chars() {
        check_unchanged(&[&format!("a{other}/x b"), &format!("/x{other} b")]);
    }
}

#[test]
fn g7_blanks_around_a_token_are_removed() {
    check_all(&[
        // At the start of a line.
        (" \t/x \t a", ("a", "x")),
        ("a\n  /x  b", ("a\nb", "x")),
        ("a\n  /x  \nb", ("a\n\nb", "x")),
        // At the end of a line: blanks after the token become blanks at the end of the remaining line.
        ("a \t /x", ("a", "x")),
        ("a  /x\nb", ("a\nb", "x")),
        ("a /x  \nb", ("a  \nb", "x")),
        ("a /x ", ("a ", "x")),
        // Inside a line.
        ("a  /x   b", ("a  b", "x")),
        ("a\t/x\tb", ("a\tb", "x")),
        ("a\n/x", ("a", "x")),
    ]);
}

#[test]
fn g7_other_whitespace_around_a_token_stays() {
    check_all(&[
        ("a\u{a0}/x\u{a0}b", ("a\u{a0}\u{a0}b", "x")),
        ("\u{3000}/x hi", ("\u{3000}hi", "x")),
        ("a\u{feff}/x hi", ("a\u{feff}hi", "x")),
        ("a\u{b}/x", ("a\u{b}", "x")),
    ]);
}

#[test]
fn g7_line_breaks_stay_inside_the_text() {
    check_all(&[
        ("a\n/x\nb", ("a\n\nb", "x")),
        ("a\r\n/x\r\nb", ("a\r\n\r\nb", "x")),
        ("a\r/x\rb", ("a\r\rb", "x")),
        ("a /x\r\nb", ("a\r\nb", "x")),
        ("a\n\n\nb /x", ("a\n\n\nb", "x")),
        ("/x\n    if y:\n        z()", ("    if y:\n        z()", "x")),
        ("/x\r\n\r\n  a", ("  a", "x")),
        ("/x\u{2028}a", ("a", "x")),
        ("a\n\n/x", ("a", "x")),
        ("\n\na /x b\r\n", ("a b", "x")),
        ("/x\n \na", (" \na", "x")),
        ("\n/x\n", ("", "x")),
    ]);
}

#[test]
fn g7_adjacent_tokens_are_found() {
    check_all(&[
        ("/x /y go", ("go", "x y")),
        ("/x /x go", ("go", "x x")),
        ("go /x /y", ("go", "x y")),
        ("a  /x   /y    b", ("a  b", "x y")),
        ("a  /x   /y    ", ("a    ", "x y")),
        ("/x\n/y\ngo", ("go", "x y")),
        ("go\n/x\n/y", ("go", "x y")),
        ("/x /y", ("", "x y")),
        ("  /x\t/y  ", ("", "x y")),
        ("/x /z /y", ("/z", "x y")),
        ("/x/y /y", ("/x/y", "y")),
        ("/x\u{a0}/y go", ("\u{a0}go", "x y")),
    ]);
}

#[test]
fn g7_tokens_in_code_do_not_bind() {
    check_unchanged(&[
        "```\n/x\n```",
        "~~~\n/x\n~~~",
        "   ```sh\n/x\n   ```",
        "``` /x\n```",
        "```\n/x",
        "```\n/x\n``\n/x",
        "````\n```\n/x\n````",
        "```\n/x\n~~~\n/x\n```",
        "~~~ `\n/x\n~~~",
        "```\r\n/x\r\n```",
        "` /x `",
        "`` ` /x ``",
        "` /x\n/y `",
        "` /x \\`",
        "a ``` /x ```",
        "> ```\n> /x\n> ```",
        "```\n\\/x\n```",
        "` \\/x `",
    ]);
    check_all(&[
        ("```\n/x\n```\n/x", ("```\n/x\n```", "x")),
        ("/x\n```\n/x\n```", ("```\n/x\n```", "x")),
        ("`a` /x `b`", ("`a` `b`", "x")),
        ("` /x ` /y", ("` /x `", "y")),
    ]);
}

#[test]
fn g7_tokens_in_unclosed_code_bind() {
    check_all(&[
        ("a ` /x", ("a `", "x")),
        ("` /x ``", ("` ``", "x")),
        ("``` /x ``", ("``` ``", "x")),
        ("a ``` /x ``", ("a ``` ``", "x")),
        ("\\` /x `", ("\\` `", "x")),
        ("\\\\` /x `", ("\\\\` /x `", "")),
        ("\\`` /x `", ("\\`` /x `", "")),
        ("~~ /x ~~", ("~~ ~~", "x")),
        ("``\n/x\n``", ("``\n/x\n``", "")),
        // A code span ends with its paragraph.
        ("`\n\n/x `", ("`\n\n`", "x")),
        ("`\r\n/x `", ("`\r\n/x `", "")),
        ("`\n```\n```\n/x `", ("`\n```\n```\n`", "x")),
        // Indented code is text.
        ("a\n\n    /x", ("a", "x")),
        ("    ```\n/x", ("    ```", "x")),
        ("``` `\n/x", ("``` `", "x")),
    ]);
}

#[test]
fn g7_a_backslash_makes_a_token_literal() {
    check_all(&[
        ("\\/x", ("/x", "")),
        ("say \\/x twice", ("say /x twice", "")),
        ("\\/x /y \\/z", ("/x \\/z", "y")),
        ("/x \\/x", ("/x", "x")),
        ("\n\\/x\n", ("\n/x\n", "")),
    ]);
    check_unchanged(&["\\/z", "\\/x.", "a\\/x", "\\\\/x", "\\ /z"]);
}

#[test]
fn g7_each_candidate_is_looked_up_once_in_text_order() {
    let mut asked = vec![];
    let parsed = parse_tokens("/b /a\n/b/c `/d e` ` /f ` \\/g /a /é /h.", |name| {
        asked.push(name.to_owned());
        false
    });
    assert!(parsed.tokens.is_empty());
    assert_eq!(asked, ["b", "a", "f", "g", "a"]);
}

/// The time is linear in the text. With quadratic time this test would take hours.
#[test]
fn g7_long_texts_are_parsed_in_linear_time() {
    const MANY: usize = 300_000;
    let runs: String = (1..1500).map(|length| "`".repeat(length) + " ").collect();
    for text in [
        "/".repeat(4 * MANY),
        " /".repeat(MANY),
        "\\/".repeat(MANY),
        "/x".repeat(MANY),
        format!("/{}", "a".repeat(4 * MANY)),
        format!("/x {}", "` ".repeat(MANY)),
        format!("/x {runs}"),
        format!("/x {}", "\\`".repeat(MANY)),
        format!("/x\n{}", "`\n\n".repeat(MANY)),
        format!("/x\n{}", "```\n".repeat(MANY)),
        format!("a{}{}b", " ".repeat(MANY), "/x ".repeat(MANY)),
        format!("{}{}", "/x ".repeat(MANY), "b".repeat(MANY)),
        "/x\n".repeat(MANY),
        format!("/x{}", "\n".repeat(MANY)),
        "\\/x ".repeat(MANY),
    ] {
        let parsed = parse_tokens(&text, |name| name == "x");
        assert!(parsed.text.len() <= text.len());
    }
}

#[test]
fn g7_published_parsing_cases_hold() {
    const BOUND: &str = "compact stop a b dup concise research-mode x_1";
    let cases: &[(&str, &str, (&str, &str))] = &[
        ("GP-001s", "/compact", ("", "compact")),
        ("GP-003s", "/concise tell me about Rust", ("tell me about Rust", "concise")),
        (
            "GP-004s",
            "/research-mode tell me about ribosomes",
            ("tell me about ribosomes", "research-mode"),
        ),
        ("GP-007s", "ping /me at 3pm", ("ping /me at 3pm", "")),
        ("GP-009s", "@weather NYC", ("@weather NYC", "")),
        ("GP-010s", "@weather /compact NYC", ("@weather NYC", "compact")),
        ("GP-011s", "please /concise explain", ("please explain", "concise")),
        ("GP-013s", "/a /b go", ("go", "a b")),
        ("GP-016s", "/dup hi", ("hi", "dup")),
        ("GP-017s", "/concise /concise hi", ("hi", "concise concise")),
        ("GP-019s", "do it /concise.", ("do it /concise.", "")),
        ("GP-021s", "(/concise) hi", ("(/concise) hi", "")),
        ("GP-022s", "`/concise` hi", ("`/concise` hi", "")),
        ("GP-023s", "/Concise hi", ("/Concise hi", "")),
        ("GP-024s", "/1a hi", ("/1a hi", "")),
        ("GP-025s", "//concise hi", ("//concise hi", "")),
        ("GP-026s", "/concise/ hi", ("/concise/ hi", "")),
        ("GP-028s", "foo/concise hi", ("foo/concise hi", "")),
        ("GP-029s", "hello\n/concise\nworld", ("hello\n\nworld", "concise")),
        ("GP-031s", "a\u{a0}/concise\u{a0}b", ("a\u{a0}\u{a0}b", "concise")),
        ("GP-033s", "/concise\u{200b} hi", ("/concise\u{200b} hi", "")),
        ("GP-034s", "/concise🙂", ("/concise🙂", "")),
        ("GP-035s", "a\r\n/concise\r\nb", ("a\r\n\r\nb", "concise")),
        ("GP-041s", "a\n\n\nb /concise", ("a\n\n\nb", "concise")),
        ("GP-044s", "/comp hi", ("/comp hi", "")),
        ("GP-045s", "", ("", "")),
        ("GP-052s", "a\u{85}/concise hi", ("a\u{85}/concise hi", "")),
        ("GP-053s", "/concise\u{2028}x", ("x", "concise")),
        ("GP-054s", "/conciseé hi", ("/conciseé hi", "")),
        // Only blanks on the token's own line are removed. Without a bound name nothing is removed.
        ("GP-030s", "a\t/concise\tb", ("a\tb", "concise")),
        ("GP-032s", "\u{3000}/concise hi", ("\u{3000}hi", "concise")),
        ("GP-037s", "keep  two   spaces", ("keep  two   spaces", "")),
        ("GP-038s", "/concise\n    if x:\n        y()", ("    if x:\n        y()", "concise")),
        ("GP-039s", "```\n    indented\n```", ("```\n    indented\n```", "")),
        ("GP-040s", "a  \n  b", ("a  \n  b", "")),
        ("GP-051s", "a\u{feff}/concise hi", ("a\u{feff}hi", "concise")),
        // Names in code are not bound.
        ("GP-042s", "```\n/compact\n```", ("```\n/compact\n```", "")),
    ];
    for (_id, text, expected) in cases {
        check(text, BOUND, *expected);
    }
    check("cd /usr", "usr", ("cd", "usr")); // GP-049s
}

#[test]
fn g8_leading_command_is_recognised() {
    let check = |text: &str, expected: Option<(&str, &str)>| {
        let found = leading_command(text).map(|leading| (leading.name, leading.args_raw));
        assert_eq!(found, expected, "for {text:?}");
    };
    check("/hi", Some(("hi", "")));
    check("/hi foo  bar", Some(("hi", "foo  bar")));
    check("  /hi x ", Some(("hi", "x")));
    check("\n\t/hi x", Some(("hi", "x")));
    check("\u{feff}/hi\u{a0}x", Some(("hi", "x")));
    check("/review:2 y", Some(("review:2", "y")));
    check("/a-b_c:d:e", Some(("a-b_c:d:e", "")));
    check("/hi /there", Some(("hi", "/there")));
    for text in
        ["", " ", "/", "/ hi", "//hi", "/:a", "/1", "/-a", "/hi.", "/hi/there", "/hié", "/é"]
    {
        check(text, None);
    }
    for text in ["hi /there", "\\/hi", "`/hi`", "@hi", "hi"] {
        check(text, None);
    }
}

#[test]
fn p3_any_whitespace_ends_the_name_of_a_command() {
    for (text, args) in [
        ("/hi\nfoo", "foo"),
        ("/hi\tfoo", "foo"),
        ("/hi\r\nfoo\r\nbar\r\n", "foo\r\nbar"),
        ("/hi \n\n foo\n\n bar \n", "foo\n\n bar"),
        ("/hi\u{2028}foo", "foo"),
    ] {
        let leading = leading_command(text).unwrap();
        assert_eq!((leading.name, leading.args_raw), ("hi", args), "for {text:?}");
    }
}

#[test]
fn g4_leading_mention_is_parsed_like_a_token() {
    for (text, expected) in [
        ("@weather NYC", Some(("weather", "NYC"))),
        (" @weather\n NYC \n now ", Some(("weather", "NYC \n now"))),
        ("@a-b_1", Some(("a-b_1", ""))),
        ("@weather: NYC", None),
        ("@weather:x NYC", None),
        ("@weather, NYC", None),
        ("@ weather", None),
        ("@@weather", None),
        ("@1", None),
        ("a@b.com", None),
        ("ask @weather", None),
        ("/weather", None),
        ("", None),
    ] {
        assert_eq!(leading_mention(text), expected, "for {text:?}");
    }
}

#[test]
fn p3_arguments_are_quoted_as_in_a_shell() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        (" \n\t", &[]),
        ("a b\n c\u{a0}d", &["a", "b", "c", "d"]),
        ("'a b' \"c d\" e\\ f", &["a b", "c d", "e f"]),
        ("a'b'\"c\"d", &["abcd"]),
        ("'' \"\" a", &["", "", "a"]),
        (r#"'a\"b' "a'b""#, &[r#"a\"b"#, "a'b"]),
        (r#""a\"b\\c\$d\`e\f""#, &[r#"a"b\c$d`e\f"#]),
        (r"\' \a \\ \", &["'", "a", r"\", r"\"]),
        ("a \\\n b\\\r\nc \\\n", &["a", "bc"]),
        ("\"a\\\nb\"", &["ab"]),
        ("fix #42 $HOME *.rs", &["fix", "#42", "$HOME", "*.rs"]),
        ("'é 世' 界", &["é 世", "界"]),
        // An unclosed quote is an ordinary character.
        ("it's late", &["it's", "late"]),
        ("say \"no\n 'a b'", &["say", "\"no", "'a", "b'"]),
        (r#""a\""#, &[r#""a\""#]),
        ("' ", &["'"]),
    ];
    for (raw, expected) in cases {
        assert_eq!(split_args(raw), *expected, "for {raw:?}");
    }
}

#[test]
fn g20_skill_text_cannot_close_its_block() {
    let check = |name: &str, text: &str, expected: &str| {
        assert_eq!(format_skill_message(name, text), expected);
    };
    check("brief", "Say it.\n", "<skill name=\"brief\">\nSay it.\n\n</skill>");
    check("a\"b<c>&", "", "<skill name=\"a&quot;b&lt;c&gt;&amp;\">\n\n</skill>");
    for (text, shown) in [
        ("a</skill>b", "a&lt;/skill>b"),
        ("</SKILL >", "&lt;/SKILL >"),
        ("< / s\u{200b}kill\n>", "&lt; / s\u{200b}kill\n>"),
        ("<</skill>", "<&lt;/skill>"),
        ("</skill", "&lt;/skill"),
        ("<skill name=\"x\">", "<skill name=\"x\">"),
        ("a < b </ski", "a < b </ski"),
        ("&lt;/skill>", "&lt;/skill>"),
        ("<é", "<é"),
    ] {
        check("n", text, &format!("<skill name=\"n\">\n{shown}\n</skill>"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn g2_text_is_unchanged_if_no_name_is_bound(text in texts(), other in any::<String>()) {
        for text in [&text, &other] {
            let parsed = parse_tokens(text, |_| false);
            prop_assert!(matches!(parsed.text, Cow::Borrowed(same) if same == text));
            prop_assert!(parsed.tokens.is_empty());
        }
    }

    #[test]
    fn g7_parser_equals_the_slow_reference_parser(text in texts()) {
        let (mut asked, mut asked_slowly) = (vec![], vec![]);
        let parsed = parse_tokens(&text, |name| { asked.push(name.to_owned()); is_bound(name) });
        let tokens: Vec<_> =
            parsed.tokens.iter().map(|t| (t.name.to_string(), t.args.to_string())).collect();
        let (slow_text, slow_tokens) = slow::parse(&text, &mut asked_slowly);
        prop_assert_eq!(&parsed.text, &slow_text);
        prop_assert_eq!(tokens, slow_tokens);
        prop_assert_eq!(asked, asked_slowly);
    }

    #[test]
    fn g7_parsed_text_without_tokens_is_unchanged_by_a_second_parse(text in texts()) {
        let once = parse_tokens(&text, is_bound).text;
        let mut names = 0;
        let twice = parse_tokens(&once, |name| { names += usize::from(is_bound(name)); is_bound(name) });
        if names == 0 {
            prop_assert!(matches!(&twice.text, Cow::Borrowed(same) if *same == once));
        }
    }

    #[test]
    fn p3_no_argument_is_lost(args in prop::collection::vec("[a-z '\"\\\\\n#é]{0,6}", 0..5)) {
        let quoted: Vec<_> = args.iter().map(|arg| format!("'{}'", arg.replace('\'', r"'\''"))).collect();
        prop_assert_eq!(split_args(&quoted.join(" ")), args);
    }

    #[test]
    fn g20_skill_block_has_one_closing_tag(text in "[</ \u{200b}skilSKIL>&a]{0,40}") {
        let message = format_skill_message("n", &text);
        let said: String = message.to_lowercase().replace([' ', '\n', '\u{200b}'], "");
        prop_assert_eq!(said.matches("</skill").count(), 1);
    }
}

fn is_bound(name: &str) -> bool {
    matches!(name, "a" | "b" | "a-b")
}

/// Generates texts from the pieces that matter to the parser. Many are longer than one block of the
/// parser's scan.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "/", "\\", " ", " ", "\t", "\n", "\n", "\r", "\r\n", "a", "b", "-", "1", ".", "é",
        "\u{a0}", "\u{85}", "\u{2028}", "\u{feff}", "`", "`", "``", "~", "\n```", "\n~~~", "```",
        " /a", "/a ", " /a ", "/b\n", "\n/b", " /a-b ", "/c ", " \\/a ", "\\/c", "\n\n", "words ",
    ]);
    prop_oneof![
        prop::collection::vec(pieces.clone(), 0..12),
        prop::collection::vec(pieces, 0..120),
    ]
    .prop_map(|pieces| pieces.concat())
}

/// A second implementation of the rules: one rule after another, one character at a time.
mod slow {
    use super::is_bound;

    type Tokens = Vec<(String, String)>;

    #[derive(Clone, PartialEq)]
    enum Part {
        Char(char),
        Token(String),
    }

    pub(super) fn parse(text: &str, asked: &mut Vec<String>) -> (String, Tokens) {
        let chars: Vec<char> = text.chars().collect();
        let parts = find_tokens(&chars, &find_code(&chars), asked);
        let (mut out, mut tokens) = (String::new(), vec![]);
        for line in parts.split_inclusive(|part| matches!(part, Part::Char(c) if is_break(*c))) {
            let (line, line_break) = match line.split_last() {
                Some((Part::Char(c), line)) if is_break(*c) => (line, Some(*c)),
                _ => (line, None),
            };
            let (left, names) = remove_from_line(line.to_vec());
            let args = left.trim_matches(is_space).to_owned();
            tokens.extend(names.into_iter().map(|name| (name, args.clone())));
            out.push_str(&left);
            out.extend(line_break);
        }
        if !tokens.is_empty() {
            out = out.trim_matches(is_break).to_owned();
        }
        (out, tokens)
    }

    fn remove_from_line(mut line: Vec<Part>) -> (String, Vec<String>) {
        let blank = |part: &Part| matches!(part, Part::Char(' ' | '\t'));
        let mut names = vec![];
        while let Some(at) = line.iter().position(|part| matches!(part, Part::Token(_))) {
            let Part::Token(name) = line.remove(at) else { unreachable!() };
            names.push(name);
            let before = line[..at].iter().rev().take_while(|part| blank(part)).count();
            let after = line[at..].iter().take_while(|part| blank(part)).count();
            let at_start = before == at;
            let at_end = at + after == line.len();
            if at_start {
                line.drain(at - before..at + after);
            } else if at_end {
                line.drain(at - before..at);
            } else {
                line.drain(at..at + after);
            }
        }
        let char = |part: &Part| if let Part::Char(c) = part { *c } else { unreachable!() };
        (line.iter().map(char).collect(), names)
    }

    fn find_tokens(chars: &[char], code: &[bool], asked: &mut Vec<String>) -> Vec<Part> {
        let mut parts = vec![];
        let mut at = 0;
        while at < chars.len() {
            let is_escaped = chars[at] == '\\';
            let slash = at + usize::from(is_escaped);
            let name: String = chars[(slash + 1).min(chars.len())..]
                .iter()
                .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
                .collect();
            let end = slash + 1 + name.len();
            let is_candidate = chars.get(slash) == Some(&'/')
                && name.starts_with(|c: char| c.is_ascii_alphabetic())
                && (at == 0 || is_space(chars[at - 1]))
                && chars.get(end).is_none_or(|c| is_space(*c));
            if is_candidate {
                asked.push(name.clone());
            }
            if !is_candidate || !is_bound(&name) || code[slash] {
                parts.push(Part::Char(chars[at]));
                at += 1;
            } else if is_escaped {
                parts.extend(chars[slash..end].iter().map(|c| Part::Char(*c)));
                at = end;
            } else {
                parts.push(Part::Token(name));
                at = end;
            }
        }
        parts
    }

    /// Returns for each character if it is in code.
    fn find_code(chars: &[char]) -> Vec<bool> {
        let mut code = vec![false; chars.len()];
        let mut fence: Option<(char, usize)> = None;
        let mut paragraph = 0;
        let mut start = 0;
        while start < chars.len() {
            let mut end = start;
            while end < chars.len() && !is_break(chars[end]) {
                end += 1;
            }
            let next = if chars[end..].starts_with(&['\r', '\n']) { end + 2 } else { end + 1 };
            let next = next.min(chars.len());
            let line: String = chars[start..end].iter().collect();
            let is_blank = line.chars().all(|c| matches!(c, ' ' | '\t'));
            match (fence, opening(&line)) {
                (Some((mark, length)), _) => {
                    code[start..next].fill(true);
                    let marks = line.trim_start_matches(' ').trim_end_matches([' ', '\t']);
                    let is_closing = indent(&line) <= 3
                        && marks.len() >= length
                        && marks.chars().all(|c| c == mark);
                    if is_closing {
                        fence = None;
                    }
                    paragraph = next;
                }
                (None, Some(opened)) => {
                    find_spans(&chars[..start], paragraph, &mut code);
                    code[start..next].fill(true);
                    fence = Some(opened);
                    paragraph = next;
                }
                (None, None) if is_blank => {
                    find_spans(&chars[..start], paragraph, &mut code);
                    paragraph = next;
                }
                _ => {}
            }
            start = next;
        }
        find_spans(chars, paragraph, &mut code);
        code
    }

    fn indent(line: &str) -> usize {
        line.chars().take_while(|c| *c == ' ').count()
    }

    fn opening(line: &str) -> Option<(char, usize)> {
        let rest = &line[indent(line)..];
        let mark = rest.chars().next()?;
        let length = rest.chars().take_while(|c| *c == mark).count();
        let is_fence = indent(line) <= 3
            && length >= 3
            && (mark == '~' || mark == '`' && !rest[length..].contains('`'));
        is_fence.then_some((mark, length))
    }

    fn find_spans(chars: &[char], from: usize, code: &mut [bool]) {
        let run = |at: usize| chars[at..].iter().take_while(|c| **c == '`').count();
        let mut at = from;
        while at < chars.len() {
            let length = run(at);
            if chars[at] == '\\' && matches!(chars.get(at + 1), Some('\\' | '`')) {
                at += 2;
            } else if length == 0 {
                at += 1;
            } else {
                let mut close = at + length;
                while close < chars.len() && run(close) != length {
                    close += run(close).max(1);
                }
                if close < chars.len() {
                    code[at..close + length].fill(true);
                    at = close + length;
                } else {
                    at += length;
                }
            }
        }
    }

    fn is_break(c: char) -> bool {
        "\n\r\u{2028}\u{2029}".contains(c)
    }

    fn is_space(c: char) -> bool {
        "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}"
            .contains(c)
            || ('\u{2000}'..='\u{200a}').contains(&c)
    }
}
