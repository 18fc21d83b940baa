//! The known commands, a row each, read from `programs.txt` as they are needed. Pure.

use std::{
    collections::HashMap,
    sync::{LazyLock, OnceLock},
};

use cotter::permission::Zone;

use crate::shell::rules::{Rule, RuleTime};

/// The data. Its head describes the format.
const TEXT: &str = include_str!("programs.txt");

/// How a command's operands are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandKind {
    /// There should be none: any operand is unknown.
    Nothing,
    /// Words, not files: `echo a`.
    Text,
    /// Files if they look like it: `git diff main -- ../x`.
    Maybe,
    /// Files that are read.
    Reads,
    /// A pattern or program, then files that are read.
    TextThenReads,
    /// Files that are written, created or removed.
    Writes,
    /// Files that are read, then one that is written.
    Copies,
    /// Addresses.
    Hosts,
    /// Words that the rules of the row read.
    Special,
    /// The first is a subcommand. Without one, the command reaches this zone.
    Sub(Zone),
    /// So many words, then a command that it runs.
    Runs(usize),
    /// A command that it runs in its own way.
    RunsAs(Runner),
}

/// A way to run other commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Applet,
    Builtin,
    /// Our own program.
    Cotter,
    Find,
    Flock,
    Shell,
    Ssh,
    Su,
    Watch,
    Xargs,
}

/// The facts about one command.
#[derive(Debug)]
pub(crate) struct ProgramRow {
    /// Its name, with its subcommand: `git diff`.
    pub name: &'static str,
    pub zone: Zone,
    pub takes: OperandKind,
    pub short: &'static str,
    pub long: String,
    /// True if no option is harmful, so that a pattern or a variable may come first.
    pub plain: bool,
    /// True if a pattern may come first while no file has the name of an option.
    pub listed: bool,
    /// True if it only prints or compares its words, also those with a dash that are not options.
    pub prints: bool,
    /// True if long options begin with one dash.
    pub long_with_one_dash: bool,
    /// True if the first word may hold options without a dash.
    pub letters: bool,
    /// True if `NAME=value` may come before the command that it runs.
    pub assigns: bool,
    /// The rules, with those of the outer command for all its subcommands.
    pub rules: Vec<Rule>,
}

impl ProgramRow {
    const fn new(name: &'static str, zone: Zone, takes: OperandKind) -> Self {
        ProgramRow {
            name,
            zone,
            takes,
            short: "",
            long: String::new(),
            plain: false,
            listed: false,
            prints: false,
            long_with_one_dash: false,
            letters: false,
            assigns: false,
            rules: vec![],
        }
    }
}

/// The row of an unknown command.
pub(crate) static UNKNOWN: ProgramRow = ProgramRow::new("", Zone::Build, OperandKind::Maybe);

/// The row of that name.
pub(crate) fn row_of(name: &str) -> Option<&'static ProgramRow> {
    let entry = PROGRAMS.entries.get(name)?;
    Some(entry.row.get_or_init(|| entry.read(&PROGRAMS).expect("a test reads every row")))
}

/// The rows of the file, and the words it defines.
struct Programs {
    definitions: HashMap<&'static str, &'static str>,
    entries: HashMap<&'static str, Entry>,
}

/// The lines of one row. They are read when a command first needs them.
struct Entry {
    name: &'static str,
    head: &'static str,
    rules: Vec<&'static str>,
    row: OnceLock<ProgramRow>,
}

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| Programs::split(TEXT));

impl Programs {
    /// Finds the lines of each row.
    fn split(text: &'static str) -> Self {
        let mut programs = Programs { definitions: HashMap::new(), entries: HashMap::new() };
        let is_data = |line: &&str| !line.is_empty() && !line.trim_start().starts_with('#');
        let mut lines = text.lines().filter(is_data).peekable();
        while let Some(line) = lines.next() {
            if let Some((name, words)) = line.split_once(" = ").filter(|_| line.starts_with('$')) {
                programs.definitions.insert(name, words);
                continue;
            }
            let mut rules = vec![];
            while let Some(rule) = lines.next_if(|line| line.starts_with("    ")) {
                rules.push(rule.trim_start());
            }
            let (names, head) = line.split_once(": ").unwrap_or((line, ""));
            for name in names.split(", ") {
                let entry = Entry { name, head, rules: rules.clone(), row: OnceLock::new() };
                programs.entries.insert(name, entry);
            }
        }
        programs
    }

    /// Splits words, and puts in those that a name such as `$look` stands for.
    fn words(&self, text: &'static str) -> Result<Vec<&'static str>, String> {
        let mut words = vec![];
        for word in text.split_whitespace() {
            match word.starts_with('$') {
                true => {
                    let defined = self.definitions.get(word);
                    let defined = defined.ok_or_else(|| format!("`{word}` is not defined"))?;
                    words.extend(defined.split_whitespace());
                }
                false => words.push(word),
            }
        }
        Ok(words)
    }
}

impl Entry {
    fn read(&self, programs: &Programs) -> Result<ProgramRow, String> {
        let (facts, options) = self.head.split_once(" | ").unwrap_or((self.head, ""));
        let mut facts = facts.split(' ');
        let zone = zone_of(facts.next().unwrap_or_default())?;
        let takes = operand_kind(facts.next().unwrap_or_default())?;
        let mut row = ProgramRow::new(self.name, zone, takes);
        for flag in facts {
            match flag {
                "plain" => row.plain = true,
                "listed" => row.listed = true,
                "prints" => row.prints = true,
                "one-dash" => row.long_with_one_dash = true,
                "letters" => row.letters = true,
                "assigns" => row.assigns = true,
                _ => return Err(format!("`{flag}` is not a flag")),
            }
        }
        let mut options = programs.words(options)?;
        if let Some(short) = options.first().and_then(|word| word.strip_prefix('-')) {
            row.short = short;
            options.remove(0);
        }
        row.long = options.join(" ");
        for line in &self.rules {
            let (head, effects) = line.split_once(" => ").ok_or("a rule has no `=>`")?;
            row.rules.push(Rule::read(&programs.words(head)?, effects)?);
        }
        if let Some((outer, _)) = self.name.rsplit_once(' ') {
            let outer = row_of(outer).ok_or_else(|| format!("`{outer}` has no row"))?;
            let inherited = outer.rules.iter().filter(|rule| rule.time == RuleTime::Each);
            row.rules.extend(inherited.cloned());
        }
        Ok(row)
    }
}

pub(crate) fn zone_of(text: &str) -> Result<Zone, String> {
    let zones = [
        Zone::Safe,
        Zone::Workspace,
        Zone::Build,
        Zone::Network,
        Zone::External,
        Zone::Machine,
        Zone::Never,
    ];
    let zone = zones.into_iter().find(|zone| zone.as_str() == text);
    zone.ok_or_else(|| format!("`{text}` is not a zone"))
}

pub(crate) fn operand_kind(text: &str) -> Result<OperandKind, String> {
    let (kind, detail) = text.split_once(':').unwrap_or((text, ""));
    Ok(match (kind, detail) {
        ("nothing", "") => OperandKind::Nothing,
        ("text", "") => OperandKind::Text,
        ("maybe", "") => OperandKind::Maybe,
        ("reads", "") => OperandKind::Reads,
        ("text-then-reads", "") => OperandKind::TextThenReads,
        ("writes", "") => OperandKind::Writes,
        ("copies", "") => OperandKind::Copies,
        ("hosts", "") => OperandKind::Hosts,
        ("special", "") => OperandKind::Special,
        ("sub", zone) => OperandKind::Sub(zone_of(zone)?),
        ("runs", "") => OperandKind::Runs(0),
        ("runs", count) => OperandKind::Runs(
            count.parse().map_err(|_| format!("`{count}` is not a number of words"))?,
        ),
        ("as", runner) => OperandKind::RunsAs(match runner {
            "applet" => Runner::Applet,
            "builtin" => Runner::Builtin,
            "cotter" => Runner::Cotter,
            "find" => Runner::Find,
            "flock" => Runner::Flock,
            "shell" => Runner::Shell,
            "ssh" => Runner::Ssh,
            "su" => Runner::Su,
            "watch" => Runner::Watch,
            "xargs" => Runner::Xargs,
            _ => return Err(format!("no code is named `{runner}`")),
        }),
        _ => return Err(format!("`{text}` says nothing about operands")),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::shell::options::takes_short;

    #[test]
    fn every_row_can_be_read() {
        let mut wrong = vec![];
        for (name, entry) in &PROGRAMS.entries {
            match entry.read(&PROGRAMS) {
                Err(why) => wrong.push(format!("{name}: {why}")),
                Ok(row) => wrong.extend(
                    // A letter that the row does not have is never found.
                    row.rules
                        .iter()
                        .filter(|rule| rule.time != RuleTime::Each)
                        .flat_map(Rule::letters)
                        .filter(|letter| !takes_short(row.short, *letter))
                        .map(|letter| {
                            format!("{name}: a rule knows `-{letter}`, the row does not")
                        }),
                ),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn rows_are_sorted_and_named_once() {
        let heads = TEXT.lines().filter(|line| !line.starts_with(['#', '$', ' ']));
        let heads = heads.filter_map(|line| line.split_once(": "));
        let names: Vec<Vec<_>> = heads.map(|(names, _)| names.split(", ").collect()).collect();
        for pair in names.windows(2) {
            assert!(pair[0][0] < pair[1][0], "`{}` is before `{}`", pair[0][0], pair[1][0]);
        }
        let all: Vec<_> = names.concat();
        let mut seen = HashSet::new();
        let twice: Vec<_> = all.iter().filter(|name| !seen.insert(**name)).collect();
        assert_eq!(twice, [""; 0].each_ref());
        assert_eq!(all.len(), PROGRAMS.entries.len());
    }
}
