//! Compares what a script did with what was predicted.

use std::path::Path;

use cotter::{
    Workspace,
    builtin::is_protected,
    permission::{
        Zone,
        facts::{CommandWord, CommandWordKind, Facts, SimpleCommand},
        secret_files::is_secret,
    },
};

use crate::execution::{Observed, STUBS};

/// The first effect that was not predicted. None if the facts are not [comparable](is_comparable).
pub(crate) fn find_uncovered(
    observed: &Observed,
    facts: &Facts,
    workspace: &Workspace,
) -> Option<String> {
    if !is_comparable(facts) {
        return None;
    }
    let commands = observed
        .commands
        .iter()
        .filter(|words| !is_covered(words, &facts.commands) && !is_helper(words, &facts.commands));
    if let Some(words) = { commands }.next() {
        let told: Vec<_> = facts.commands.iter().map(SimpleCommand::to_string).collect();
        return Some(format!("it ran {words:?}, not one of {told:?}"));
    }
    let writes = &observed.changes.writes;
    if let Some(path) = writes.iter().find(|path| !is_write_covered(path, facts, workspace)) {
        return Some(format!("it changed {}", path.display()));
    }
    let reads = &observed.changes.reads;
    let read = reads.iter().find(|path| !is_read_covered(path, facts));
    read.map(|path| format!("it read {}", path.display()))
}

/// True if all that happened can be predicted: code of the project, which only confinement bounds, is made of
/// stubs.
pub(crate) fn is_comparable(facts: &Facts) -> bool {
    facts.commands.iter().filter(|command| command.zone >= Zone::Build).all(|command| {
        let name = command.words.first().map_or("", |name| name.text.as_str());
        STUBS.contains(&name) || base_name(name) == "x.sh"
    })
}

/// True if a command with these words was predicted.
fn is_covered(words: &[String], commands: &[SimpleCommand]) -> bool {
    let name = words.first().map_or("", |name| base_name(name));
    commands.iter().any(|command| {
        let Some((first, rest)) = command.words.split_first() else { return false };
        base_name(&first.text) == name && (fits(&words[1..], rest) || is_reordered(words, command))
    })
}

/// True for a program that another starts for itself: `tar -z` packs with `gzip`, `gunzip` is a script that runs
/// `gzip -d`, the real `npm` is a script.
fn is_helper(words: &[String], commands: &[SimpleCommand]) -> bool {
    let has = |wanted: &str| {
        let names = commands.iter().filter_map(|command| command.words.first());
        { names }.any(|name| base_name(&name.text) == wanted)
    };
    match words {
        [name, option, rest @ ..] if name == "gzip" && option == "-d" && has("gunzip") => {
            is_covered(&[&["gunzip".into()], rest].concat(), commands)
        }
        [name, rest @ ..] if name == "gzip" => rest.len() < 2 && has("tar"),
        [name, script, ..] if name == "node" => script.ends_with("/npm") && has("npm"),
        _ => false,
    }
}

/// True for the same words in another order: options before a subcommand are told after it.
fn is_reordered(words: &[String], command: &SimpleCommand) -> bool {
    let mut words: Vec<_> = words[1..].iter().map(String::as_str).collect();
    let mut predicted: Vec<_> = command.words[1..].iter().map(|word| word.text.as_str()).collect();
    words.sort_unstable();
    predicted.sort_unstable();
    words == predicted
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// True if predicted words can become these: a pattern or an unknown word is any number of words.
fn fits(words: &[String], predicted: &[CommandWord]) -> bool {
    let Some((first, rest)) = predicted.split_first() else { return words.is_empty() };
    let is_open =
        first.kind == CommandWordKind::RuntimeValue || first.text.contains(['*', '?', '[', '…']);
    if is_open && fits(words, rest) {
        return true;
    }
    let Some((word, left)) = words.split_first() else { return false };
    // `find -exec` puts paths below a folder in its place.
    let is_below = word.starts_with(&format!("{}/", first.text)) || word == &first.text;
    let is_pipe = word.starts_with("/dev/fd/") && first.text.starts_with("/dev/fd/");
    (is_below || is_pipe) && fits(left, rest) || (is_open || is_below) && fits(left, predicted)
}

/// A write is predicted by itself or by a folder above; one of a protected path by a protected path only.
fn is_write_covered(path: &Path, facts: &Facts, workspace: &Workspace) -> bool {
    let needs_exact = is_protected(path, workspace);
    facts.writes.iter().any(|predicted| {
        path.starts_with(predicted) && (!needs_exact || is_protected(predicted, workspace))
            // A folder is made or left empty with what is below it.
            || predicted.starts_with(path)
    })
}

/// A read is predicted by itself; one of a file that is not secret also as a possible read, which rules check.
/// Git reads its own data.
fn is_read_covered(path: &Path, facts: &Facts) -> bool {
    // A program is opened when it starts.
    let is_exempt =
        path.ends_with("x.sh") || path.components().any(|part| part.as_os_str() == ".git");
    let possible = &facts.possible_reads.files;
    // Times of a file that is written are set with its content.
    is_exempt
        || facts.reads.iter().any(|known| known == path)
        || facts
            .writes
            .iter()
            .any(|known| path.starts_with(known) && !is_secret(path) || known == path)
        || path.is_dir() && facts.reads.iter().any(|known| path.starts_with(known))
        || !is_secret(path) && possible.iter().any(|known| known == path)
}
