//! Properties of every command: nothing panics, no denied command hides, quotes change nothing, and
//! no context makes a command less restricted.

use std::{cell::RefCell, fmt::Write};

use cotter::{
    permission::{facts::CommandWordKind, rule::RuleKind},
    pipeline::explain::ExplainReport,
};
use cotter_tools::shell;
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use tokio::runtime::{Builder, Runtime};

use crate::{
    decision::{Judge, is_caught},
    kit::{Project, brief, explain, verdict},
    scripts::{self, LAYERS, Script, hidden, layer, soup, spelled, word},
};

fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

/// A destructive command, a safe command and an unknown command.
const DENIED: [&str; 3] = ["rm", "ls", "frob"];

fn denied() -> Vec<(RuleKind, String)> {
    DENIED.iter().map(|name| (RuleKind::Deny, format!("bash({name} *)"))).collect()
}

#[test]
fn c8_denied_command_is_found_inside_any_two_layers() {
    let (project, runtime) = (Project::new(), runtime());
    let agent = project.agent(&denied());
    let (mut hidden, mut unclear) = (String::new(), 0);
    for pair in 0..LAYERS * LAYERS {
        let command = Script { text: format!("{} x", DENIED[pair % 3]), simple: true };
        let inner = layer(pair / LAYERS, &command, 1);
        let script = layer(pair % LAYERS, &inner, 2).text;
        let explained = runtime.block_on(explain(&agent, &script));
        unclear += usize::from(explained.verdict != "block");
        if !is_caught(&explained) {
            writeln!(hidden, "{} {}", explained.verdict, brief(&script)).unwrap();
        }
    }
    assert!(hidden.is_empty(), "a denied command passes:\n{hidden}");
    let all = LAYERS * LAYERS;
    assert!(
        unclear * 4 < all,
        "{unclear} of {all} are not understood: asking for all is no answer"
    );
}

#[test]
fn c8_denied_command_is_found_inside_any_layers_and_quotes() {
    let (project, runtime) = (Project::new(), runtime());
    let agent = project.agent(&denied());
    let name = proptest::sample::select(DENIED.to_vec()).prop_flat_map(spelled);
    let scripts = name.prop_flat_map(|name| hidden(format!("{name} x"), vec(0..LAYERS, 1..7)));
    let check = |script: Script| {
        let explained = runtime.block_on(explain(&agent, &script.text));
        prop_assert!(is_caught(&explained), "{} {:?}", explained.verdict, explained.facts);
        Ok(())
    };
    TestRunner::new(config(512)).run(&scripts, check).unwrap();
}

#[test]
fn s14_words_are_the_same_in_any_quotes() {
    let project = Project::new();
    let words =
        vec(word().prop_flat_map(|word| spelled(&word).prop_map(move |s| (word.clone(), s))), 0..5);
    let check = |words: Vec<(String, String)>| {
        let wanted: Vec<_> =
            std::iter::once("frob").chain(words.iter().map(|(w, _)| w.as_str())).collect();
        let spellings: Vec<_> = words.iter().map(|(_, spelling)| spelling.as_str()).collect();
        let plain = Script { text: format!("frob {}", spellings.join(" ")), simple: true };
        let in_a_shell = scripts::quoted(scripts::QUOTERS[1], &plain);
        for script in [plain, in_a_shell] {
            let facts = shell::facts(&script.text, &project.workspace);
            let found = facts
                .commands
                .iter()
                .find(|command| command.words.first().is_some_and(|name| name.text == "frob"));
            let told: Vec<_> =
                found.iter().flat_map(|c| &c.words).map(|w| w.text.as_str()).collect();
            prop_assert_eq!(&told, &wanted, "{}", script.text);
            let open = found
                .iter()
                .flat_map(|c| &c.words)
                .any(|word| word.kind == CommandWordKind::RuntimeValue);
            prop_assert!(!open, "nothing is left open: {}", script.text);
        }
        Ok(())
    };
    TestRunner::new(config(512)).run(&words, check).unwrap();
}

#[test]
fn shell_facts_never_panic_on_any_text() {
    let project = Project::new();
    let calm = |text: String| {
        _ = shell::facts(&text, &project.workspace);
        Ok(())
    };
    TestRunner::new(config(2048)).run(&soup(), calm).unwrap();
    TestRunner::new(config(512)).run(&any::<String>(), calm).unwrap();
}

/// A line with changes, each with a position, a number of removed characters and an inserted text.
fn changed(line: &str, changes: &[(prop::sample::Index, usize, String)]) -> String {
    let mut chars: Vec<char> = line.chars().collect();
    for (at, out, put) in changes {
        let at = at.index(chars.len() + 1);
        let end = (at + out).min(chars.len());
        chars.splice(at..end, put.chars());
    }
    chars.into_iter().collect()
}

#[test]
fn shell_facts_never_panic_on_changed_table_lines() {
    let project = Project::new();
    let lines: Vec<_> = project.commands().into_iter().filter(|line| line.len() < 2000).collect();
    let changes = vec((any::<prop::sample::Index>(), 0..4usize, soup()), 1..4);
    let cases = (proptest::sample::select(lines), changes);
    let check = |(line, changes): (String, Vec<_>)| {
        _ = shell::facts(&changed(&line, &changes), &project.workspace);
        Ok(())
    };
    TestRunner::new(config(2048)).run(&cases, check).unwrap();
}

/// From loose to strict.
fn strictness(explained: &ExplainReport) -> usize {
    let order = ["pass", "ask", "ask!", "block"];
    order.iter().position(|word| *word == verdict(explained)).unwrap()
}

#[test]
fn c8_code_around_a_command_never_loosens_its_verdict() {
    let (project, runtime) = (Project::new(), runtime());
    let agent = project.agent(&[]);
    let next = RefCell::new(0);
    let mut looser = String::new();
    for command in project.commands().into_iter().filter(|command| is_whole(command)) {
        let plain = runtime.block_on(explain(&agent, &command));
        for _ in 0..3 {
            let number = next.replace_with(|n| *n + 7);
            let script = layer(number, &Script { text: command.clone(), simple: false }, 1).text;
            let within = runtime.block_on(explain(&agent, &script));
            // A command that is no longer understood asks, with any rules: that is strict enough.
            let is_unclear = is_caught(&within);
            if strictness(&within) < strictness(&plain) && !is_unclear {
                let (from, to) = (verdict(&plain), verdict(&within));
                writeln!(looser, "{from} became {to}: {}", brief(&script)).unwrap();
            }
        }
    }
    assert!(looser.is_empty(), "{looser}");
}

/// True if a command can stand within another: all its constructs are closed.
fn is_whole(command: &str) -> bool {
    let heredoc_at_end = command.contains("<<EOF\nx") && !command.contains("\nEOF");
    !heredoc_at_end && command.len() < 2000 && !command.contains('\0')
}

#[test]
fn s14_denied_first_line_is_found_before_any_second_line() {
    let (project, runtime) = (Project::new(), runtime());
    let agent = project.agent(&denied());
    let mut missed = String::new();
    for command in project.commands() {
        let script = format!("frob x\n{command}");
        let explained = runtime.block_on(explain(&agent, &script));
        if !is_caught(&explained) {
            writeln!(missed, "{} {}", explained.verdict, brief(&script)).unwrap();
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

/// Bytes from a seed, the same every time.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}

#[test]
fn s14_fuzz_target_checks_pass_for_random_input() {
    let judge = Judge::new();
    let table = include_bytes!("../data/shell.txt");
    for seed in 0..400 {
        let mut bytes = noise(seed);
        let length = usize::from(bytes.next().unwrap());
        let plain: Vec<u8> = bytes.by_ref().take(length).collect();
        judge.check(&plain);
        // Pieces of the table, cut anywhere, read like commands far more often.
        let pieces = std::iter::repeat_with(|| {
            let at = usize::from(bytes.next().unwrap()) * 257 + usize::from(bytes.next().unwrap());
            let length = usize::from(bytes.next().unwrap() % 24);
            &table[at % (table.len() - 24)..][..length]
        });
        judge.check(&pieces.take(6).collect::<Vec<_>>().concat());
    }
}
