//! `find`: the folders it searches and its actions. Pure.

use cotter::permission::{Zone, facts::CommandWordKind};

use crate::shell::{
    below::RecursiveRead,
    command_verdict::CommandVerdict,
    expand::Field,
    judge::plain_words,
    options::{OptionArity, long},
    table::ProgramRow,
    wrappers::WrappedCommand,
};

pub(crate) fn verdict_of(row: &ProgramRow, fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Safe);
    verdict.words = plain_words(fields);
    let begins =
        |field: &Field| field.text.starts_with(['-', '(', ')', '!', ',']) || field.may_be_option();
    let link_options = link_options(fields, &mut verdict);
    let paths =
        link_options + fields[1 + link_options..].iter().take_while(|field| !begins(field)).count();
    let mut starts: Vec<_> = fields[1 + link_options..=paths].to_vec();
    if starts.is_empty() {
        starts.push(Field::known("."));
    }
    verdict.add_reads(starts.iter().cloned());
    let mut at = paths + 1;
    while let Some(field) = fields.get(at) {
        let text = field.text.as_str();
        let value = fields.get(at + 1).filter(|_| text.starts_with('-'));
        if !field.is_known() || value.is_some_and(Field::is_several) {
            let text = value.filter(|_| field.is_known()).map_or(text, |value| &value.text);
            verdict.unclear(format!("`{text}` could be something `find` does"));
            return verdict;
        }
        let arity = text.strip_prefix('-').and_then(|name| long(&row.long, name));
        at += match (arity, text) {
            (Some(OptionArity::Nothing), _) => mark_test(&mut verdict, at, 0),
            (Some(OptionArity::Text), _) => mark_test(&mut verdict, at, 1),
            (Some(OptionArity::Read), _) => {
                verdict.words[at].1 = CommandWordKind::Option;
                verdict.add_reads(fields.get(at + 1).cloned());
                2
            }
            (Some(OptionArity::Write), _) => {
                verdict.words[at].1 = CommandWordKind::UnknownOption;
                verdict.raise(Zone::Workspace);
                verdict.add_writes(fields.get(at + 1).cloned());
                if text == "-fprintf" { 3 } else { 2 }
            }
            (None, "(" | ")" | "!" | "," | "\\(" | "\\)") => 1,
            (Some(_), "-delete") => {
                verdict.words[at].1 = CommandWordKind::UnknownOption;
                verdict.raise(Zone::Workspace);
                verdict.add_writes(starts.iter().cloned());
                verdict.add_removes(starts.iter().cloned());
                verdict.destroys("`find … -delete` deletes what it finds");
                1
            }
            (Some(_), "-exec" | "-execdir" | "-ok" | "-okdir") => {
                add_exec(&mut verdict, fields, at, &starts)
            }
            _ => {
                verdict.words[at].1 = CommandWordKind::UnknownOption;
                verdict.raise(Zone::Build);
                1
            }
        };
    }
    verdict
}

/// The number of options before the search folders. Following links reads elsewhere.
fn link_options(fields: &[Field], verdict: &mut CommandVerdict) -> usize {
    let is_link_option = |field: &&Field| matches!(field.text.as_str(), "-L" | "-H" | "-P");
    let link_options = fields[1..].iter().take_while(is_link_option).count();
    for (field, kind) in &mut verdict.words[1..=link_options] {
        *kind = if field.text == "-P" {
            CommandWordKind::Option
        } else {
            CommandWordKind::UnknownOption
        };
    }
    if verdict.words.iter().any(|(_, kind)| *kind == CommandWordKind::UnknownOption) {
        verdict.raise(Zone::Build);
    }
    link_options
}

/// Marks the words of a test as options. Returns their number.
fn mark_test(verdict: &mut CommandVerdict, at: usize, takes: usize) -> usize {
    for (_, kind) in verdict.words[at..].iter_mut().take(takes + 1) {
        if *kind != CommandWordKind::RuntimeValue {
            *kind = CommandWordKind::Option;
        }
    }
    takes + 1
}

/// `-exec` with its command, in which `{}` is a path below a search folder.
fn add_exec(verdict: &mut CommandVerdict, fields: &[Field], at: usize, starts: &[Field]) -> usize {
    verdict.words[at].1 = CommandWordKind::UnknownOption;
    let rest = &fields[at + 1..];
    let ends = |at: usize| match rest[at].text.as_str() {
        ";" => true,
        "+" => at > 0 && rest[at - 1].text == "{}",
        _ => false,
    };
    let Some(end) = (0..rest.len()).find(|at| ends(*at)) else {
        verdict.unclear("the command of `find -exec` has no end");
        return rest.len() + 1;
    };
    if rest[..end].iter().any(|field| field.text.contains("{}") && field.text != "{}") {
        verdict.unclear("`find` puts names into the words of its command");
    }
    if rest.first().is_some_and(|name| name.text == "{}") {
        verdict.unclear("`find` runs what it finds");
    }
    // Only the tests before it limit what it gets.
    let tests = &fields[..at];
    let names = tests.windows(2).filter(|pair| pair[0].text == "-name");
    let names = names.filter_map(|pair| pair[1].literal().map(str::to_owned));
    // With several tests, either may match.
    let plain = tests.iter().filter(|field| field.text.ends_with("name")).count() == 1;
    let is_operator = |field: &Field| {
        matches!(field.text.as_str(), "-not" | "!" | "-o" | "-or" | "," | "(" | ")")
    };
    let has_operator = tests.iter().any(is_operator);
    let names = if plain && !has_operator { names.collect() } else { vec![] };
    let only_files = !has_operator
        && tests.windows(2).any(|pair| pair[0].text == "-type" && pair[1].text == "f");
    // These commands act on a link itself.
    let acts_on_links = ["rm", "unlink", "rmdir", "mv", "ls", "stat", "readlink", "echo", "printf"];
    let follows_links = !only_files
        && rest.first().is_some_and(|name| !acts_on_links.contains(&name.text.as_str()));
    verdict.read_recursively(RecursiveRead { follows_links, names, ..RecursiveRead::default() });
    for start in starts {
        // The found paths are a search folder or below one.
        let command: Vec<_> = rest[..end]
            .iter()
            .map(|field| match field.text.as_str() {
                "{}" => start.clone(),
                _ => field.clone(),
            })
            .collect();
        if command.is_empty() {
            verdict.unclear("`find -exec` has no command");
        } else if fields[at].text.contains("dir") || !start.is_known() {
            verdict.unclear("`find` runs a command in folders it finds");
            verdict.run(WrappedCommand::Program(command));
        } else {
            verdict.run(WrappedCommand::Program(command));
        }
    }
    end + 2
}
