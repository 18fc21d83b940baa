//! The speed of the search for directives in a text.

use std::{collections::HashSet, hint::black_box};

use cotter::invoke::directives::parse_tokens;

use crate::measure::{Goal, Table, time};

/// The text size: as long as a long prompt with a file in it, and small enough for the cache of a core.
const LENGTH: usize = 256 << 10;

pub(crate) fn measure(table: &mut Table) {
    let names = ["compact", "brief", "review", "plan", "research-mode", "deploy", "stop", "usr"];
    let names: HashSet<&str> = names.into_iter().collect();
    let unbound = [
        ("directives, prose", prose as fn(&mut Dice) -> String),
        ("directives, code", code),
        ("directives, paths", paths),
        ("directives, paths in sentences", sentences),
        ("directives, prose that is not ASCII", umlauts),
    ];
    for (row, line) in unbound {
        if table.wants(row) {
            let text = text(line);
            assert!(parse_tokens(&text, |name| names.contains(name)).tokens.is_empty());
            table.add(row, rate(&text, &names), Goal::Rate(2.0));
        }
    }
    let bound = [
        ("directives, a bound token before prose", format!("/brief {}", text(prose)), 0.5),
        ("directives, a bound token before code spans", format!("/brief {}", text(spans)), 0.05),
        ("directives, nothing but bound tokens", "/brief ".repeat(LENGTH / 7), 0.01),
    ];
    for (row, text, goal) in bound {
        if table.wants(row) {
            table.add(row, rate(&text, &names), Goal::Rate(goal));
        }
    }
}

fn rate(text: &str, names: &HashSet<&str>) -> f64 {
    let nanos = time(|| {
        black_box(parse_tokens(black_box(text), |name| names.contains(name)));
    });
    text.len() as f64 / nanos
}

/// Makes a text of distinct lines. The processor would predict a text that repeats itself.
fn text(line: fn(&mut Dice) -> String) -> String {
    let mut dice = Dice(7);
    let mut text = String::new();
    while text.len() < LENGTH {
        text.push_str(&line(&mut dice));
        text.push('\n');
    }
    text
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

const WORDS: &[&str] = &[
    "the", "harbour", "is", "open", "and/or", "closed", "when", "a", "tide", "turns", "before",
    "noon,", "so", "we", "wait", "for", "24/7", "news", "of", "every", "boat.", "Then", "nothing",
];
const FOLDERS: &[&str] = &[
    "usr",
    "local",
    "bin",
    "etc",
    "srv",
    "share",
    "a",
    "home",
    "src",
    "node_modules",
    "lib64",
    "x86_64-linux-gnu",
    "tests",
    "v2",
    "cotter",
    "b",
    "include",
];

fn words(dice: &mut Dice, from: &[&str]) -> String {
    let count = 6 + dice.roll(9);
    (0..count).map(|_| dice.pick(from)).collect::<Vec<_>>().join(" ")
}

fn prose(dice: &mut Dice) -> String {
    words(dice, WORDS)
}

fn umlauts(dice: &mut Dice) -> String {
    words(dice, &["Größe", "für", "über", "ä/ö", "schön", "世界", "и/или", "это", "и", "да"])
}

fn spans(dice: &mut Dice) -> String {
    words(dice, &["`a`", "``b ` c``", "and", "`", "so", "\\`", "on"])
}

fn paths(dice: &mut Dice) -> String {
    let count = 2 + dice.roll(4);
    (0..count).map(|_| format!("/{}", dice.pick(FOLDERS))).collect()
}

fn sentences(dice: &mut Dice) -> String {
    format!("{} {} {}", dice.pick(WORDS), paths(dice), dice.pick(WORDS))
}

fn code(dice: &mut Dice) -> String {
    let indent = " ".repeat(4 * dice.roll(4));
    let line = match dice.roll(8) {
        0 => format!("// {}", prose(dice)),
        1 => format!("let {} = total / {};", dice.pick(FOLDERS), dice.roll(100)),
        2 => format!("open(\"{}\")?;", paths(dice)),
        3 => "}".into(),
        4 => format!("/// See <https://example.org/{}>.", dice.pick(FOLDERS)),
        5 => format!("if {}.len() > {} {{", dice.pick(FOLDERS), dice.roll(100)),
        6 => format!("use crate::{}::{};", dice.pick(FOLDERS), dice.pick(FOLDERS)),
        _ => format!("{}({}, {});", dice.pick(FOLDERS), dice.roll(9), dice.pick(FOLDERS)),
    };
    indent + &line
}
