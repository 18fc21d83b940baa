//! The rules of a row of `programs.txt`: conditions on options and operands, and the effects they add. Pure.

use cotter::permission::Zone;

use crate::shell::{
    below::{FileFilter, RecursiveRead},
    command_verdict::CommandVerdict,
    expand::Field,
    options::ParsedOptions,
    programs::{Interpreter, interpreter_of},
    table::{OperandKind, ProgramRow, operand_kind, zone_of},
};

/// One rule of a row.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub time: RuleTime,
    conditions: Vec<Condition>,
    effects: Vec<Effect>,
}

/// The time at which a rule is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleTime {
    /// With all options and operands.
    All,
    /// The same, for the command and its subcommands.
    Each,
    /// With the options before a subcommand.
    Before,
    /// First of all. The rule replaces zone and operands of the row by these.
    Mode(Zone, OperandKind),
}

#[derive(Clone, Debug)]
enum Condition {
    /// One of these options is given.
    Has(Vec<&'static str>),
    /// None of these options is given.
    HasNot(Vec<&'static str>),
    /// Two or more of these options are given.
    Twice(Vec<&'static str>),
    /// An option is given that is not in the row.
    Unknown,
    /// There are at least so many operands, and at most so many.
    Words(usize, usize),
    /// There are operands behind `--`, or there are none.
    Paths(bool),
    /// One of the words compares so with one of the texts; or, negated, with none.
    Compare { words: Selector, with: Comparison, negated: bool, texts: Vec<&'static str> },
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Is,
    Starts,
    Contains,
}

/// The words that a condition or an effect is about.
#[derive(Clone, Debug)]
enum Selector {
    /// Operands from one index, up to another.
    Words(usize, usize),
    /// Operands behind the pattern or program.
    Files,
    /// Values of options.
    Values(Vec<&'static str>),
    /// Operands that begin with a text, without it.
    Rest(&'static str),
    /// A path.
    At(&'static str),
}

#[derive(Clone, Debug)]
enum Effect {
    Zone(Zone),
    Destroys(&'static str),
    Unclear(&'static str),
    Reads(Selector),
    Writes(Selector),
    Removes(Selector),
    Enters(Selector),
    OuterReads(Selector),
    OuterWrites(Selector),
    Address(Selector),
    Fills(Selector),
    Recursive(RecursiveRead),
    ClearsEnvironment,
    By(Interpreter),
}

/// The zone and the operands of a command with these options, before any rule adds to them.
pub(crate) fn mode(row: &ProgramRow, given: &ParsedOptions) -> (Zone, OperandKind) {
    let modes = row.rules.iter().filter(|rule| rule.holds(given));
    let mut modes = modes.filter_map(|rule| match rule.time {
        RuleTime::Mode(zone, takes) => Some((zone, takes)),
        _ => None,
    });
    modes.next().unwrap_or((row.zone, row.takes))
}

/// Adds the effects of the options before a subcommand.
pub(crate) fn add_before(row: &ProgramRow, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    add(row, given, verdict, |time| time == RuleTime::Before);
}

/// Adds the effects of all options and operands.
pub(crate) fn add_all(row: &ProgramRow, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    add(row, given, verdict, |time| matches!(time, RuleTime::All | RuleTime::Each));
}

fn add(
    row: &ProgramRow,
    given: &ParsedOptions,
    verdict: &mut CommandVerdict,
    is_time: impl Fn(RuleTime) -> bool,
) {
    for rule in row.rules.iter().filter(|rule| is_time(rule.time) && rule.holds(given)) {
        for effect in &rule.effects {
            effect.add_to(verdict, row, given);
        }
    }
}

impl Rule {
    /// Reads a rule from the words before `=>` and the text behind it.
    pub(crate) fn read(head: &[&'static str], effects: &'static str) -> Result<Self, String> {
        let (when, conditions) = head.split_first().ok_or("a rule says not when")?;
        let conditions = conditions.split(|word| *word == "and").filter(|words| !words.is_empty());
        let conditions = conditions.map(Condition::read).collect::<Result<Vec<_>, _>>()?;
        let time = match *when {
            "if" | "always" => RuleTime::All,
            "each" => RuleTime::Each,
            "before" => RuleTime::Before,
            "mode" => {
                let (zone, takes) = effects.split_once(' ').ok_or("a mode has no operands")?;
                let time = RuleTime::Mode(zone_of(zone)?, operand_kind(takes)?);
                return Ok(Rule { time, conditions, effects: vec![] });
            }
            when => return Err(format!("`{when}` is not a time for a rule")),
        };
        if (*when == "always") != conditions.is_empty() {
            return Err(format!("`{when}` with {} conditions", conditions.len()));
        }
        let effects = effects.split("; ").map(Effect::read).collect::<Result<_, _>>()?;
        Ok(Rule { time, conditions, effects })
    }

    fn holds(&self, given: &ParsedOptions) -> bool {
        self.conditions.iter().all(|condition| condition.holds(given))
    }

    /// The short options that the rule names.
    #[cfg(test)]
    pub(crate) fn letters(&self) -> Vec<char> {
        let named = self.conditions.iter().flat_map(|condition| match condition {
            Condition::Has(names) | Condition::HasNot(names) | Condition::Twice(names) => names,
            Condition::Compare { words: Selector::Values(names), .. } => names,
            _ => const { &vec![] },
        });
        let letter = |name: &&str| name.chars().next().filter(|_| name.len() == 1);
        named.filter_map(letter).collect()
    }
}

/// The names of options, without their dashes.
fn options(words: &[&'static str]) -> Result<Vec<&'static str>, String> {
    let name = |word: &&'static str| match word.trim_start_matches('-') {
        name if name.len() < word.len() && !name.is_empty() => Ok(name),
        _ => Err(format!("`{word}` is not an option")),
    };
    match words {
        [] => Err("an option is missing".into()),
        words => words.iter().map(name).collect(),
    }
}

/// Reads `2` or `2+`: the least and the most.
fn range(text: &str) -> Result<(usize, usize), String> {
    let (digits, is_open) = text.strip_suffix('+').map_or((text, false), |digits| (digits, true));
    let count = digits.parse().map_err(|_| format!("`{text}` is not a number"))?;
    Ok((count, if is_open { usize::MAX } else { count }))
}

impl Condition {
    fn read(words: &[&'static str]) -> Result<Self, String> {
        let comparison = |word: &&str| match *word {
            "is" => Some(Comparison::Is),
            "starts" => Some(Comparison::Starts),
            "contains" => Some(Comparison::Contains),
            _ => None,
        };
        if let Some(at) = words.iter().position(|word| comparison(word).is_some())
            && let Some(with) = comparison(&words[at])
        {
            let texts = &words[at + 1..];
            let negated = texts.first() == Some(&"not");
            let texts = texts[usize::from(negated)..].to_vec();
            if texts.is_empty() {
                return Err("there is nothing to compare with".into());
            }
            return Ok(Condition::Compare {
                words: Selector::read(&words[..at])?,
                with,
                negated,
                texts,
            });
        }
        Ok(match words {
            ["unknown"] => Condition::Unknown,
            ["paths"] => Condition::Paths(true),
            ["no", "paths"] => Condition::Paths(false),
            ["words", count] => {
                let (least, most) = range(count)?;
                Condition::Words(least, most)
            }
            ["no", names @ ..] => Condition::HasNot(options(names)?),
            ["twice", names @ ..] => Condition::Twice(options(names)?),
            names => Condition::Has(options(names)?),
        })
    }

    fn holds(&self, given: &ParsedOptions) -> bool {
        match self {
            Condition::Has(names) => given.has(names),
            Condition::HasNot(names) => !given.has(names),
            Condition::Twice(names) => {
                let is_named = |name: &str| names.contains(&name);
                given.options.iter().filter(|(name, _)| is_named(name)).count() > 1
            }
            Condition::Unknown => given.unknown.is_some(),
            Condition::Words(least, most) => (*least..=*most).contains(&given.operands.len()),
            Condition::Paths(some) => {
                let before = given.before_dashes.unwrap_or(usize::MAX);
                (given.operands.len() > before) == *some
            }
            Condition::Compare { words, with, negated, texts } => {
                let compares = |text: &str, with_text: &&str| match with {
                    Comparison::Is => text == *with_text,
                    Comparison::Starts => text.starts_with(with_text),
                    Comparison::Contains => text.contains(with_text),
                };
                // An unknown word may turn out to be any text with its known beginning.
                let may_become = |field: &Field, with_text: &&str| {
                    let begin = field.known_begin();
                    matches!(with, Comparison::Contains)
                        || begin.starts_with(with_text)
                        || with_text.starts_with(begin)
                };
                words.select(given).iter().any(|field| {
                    let found = texts.iter().any(|text| compares(&field.text, text));
                    let may_be_found =
                        !field.is_known() && texts.iter().any(|text| may_become(field, text));
                    if *negated { !found } else { found || may_be_found }
                })
            }
        }
    }
}

impl Selector {
    fn read(words: &[&'static str]) -> Result<Self, String> {
        Ok(match words {
            ["words"] => Selector::Words(0, usize::MAX),
            ["words", from] | ["word", from] => {
                let (from, to) = range(from)?;
                let from = from.checked_sub(1).ok_or("words are counted from 1")?;
                Selector::Words(from, to)
            }
            ["files"] => Selector::Files,
            ["value", names @ ..] => Selector::Values(options(names)?),
            ["rest", text] => Selector::Rest(text),
            ["at", path] => Selector::At(path),
            words => return Err(format!("`{}` selects no words", words.join(" "))),
        })
    }

    /// The selected words without `-`, which stands for a stream where a file is read.
    fn select_read(&self, given: &ParsedOptions) -> Vec<Field> {
        self.select(given).into_iter().filter(|field| field.text != "-").collect()
    }

    /// The selected words.
    fn select(&self, given: &ParsedOptions) -> Vec<Field> {
        let operands = &given.operands;
        match self {
            Selector::Words(from, to) => {
                let to = operands.len().min(*to);
                operands.get(*from..to).unwrap_or_default().to_vec()
            }
            Selector::Files => given.operands_after_text().cloned().collect(),
            Selector::Values(names) => given.values(names).cloned().collect(),
            Selector::Rest(text) => operands.iter().filter_map(|f| f.without(text)).collect(),
            Selector::At(path) => vec![Field::known(*path)],
        }
    }
}

impl Effect {
    fn read(text: &'static str) -> Result<Self, String> {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        let words: Vec<_> = rest.split_whitespace().collect();
        let selector = || Selector::read(&words);
        Ok(match verb {
            "zone" => Effect::Zone(zone_of(rest)?),
            "destroys" => Effect::Destroys(rest),
            "unclear" => Effect::Unclear(rest),
            "reads" => Effect::Reads(selector()?),
            "writes" => Effect::Writes(selector()?),
            "removes" => Effect::Removes(selector()?),
            "enters" => Effect::Enters(selector()?),
            "outer-reads" => Effect::OuterReads(selector()?),
            "outer-writes" => Effect::OuterWrites(selector()?),
            "fills" => Effect::Fills(selector()?),
            "address" => Effect::Address(selector()?),
            "recursive" => {
                let mut read = RecursiveRead::default();
                match rest {
                    "" => {}
                    "follows" => read.follows_links = true,
                    "tracked" => read.only = FileFilter::Untracked,
                    "kept" => read.only = FileFilter::Ignored,
                    _ => return Err(format!("`{rest}` is no way to read folders")),
                }
                Effect::Recursive(read)
            }
            "clears-environment" => Effect::ClearsEnvironment,
            "by" => Effect::By(
                interpreter_of(rest).ok_or_else(|| format!("no code is named `{rest}`"))?,
            ),
            verb => return Err(format!("`{verb}` is not an effect")),
        })
    }

    fn add_to(&self, verdict: &mut CommandVerdict, row: &ProgramRow, given: &ParsedOptions) {
        match self {
            Effect::Zone(zone) => verdict.raise(*zone),
            Effect::Destroys(text) => verdict.destroys(filled(text, row, given)),
            Effect::Unclear(text) => verdict.unclear(filled(text, row, given)),
            Effect::Reads(words) => verdict.add_reads(words.select_read(given)),
            Effect::Writes(words) => verdict.add_writes(words.select(given)),
            Effect::Removes(words) => verdict.add_removes(words.select(given)),
            Effect::Enters(words) => {
                if let Some(folder) = words.select(given).into_iter().next() {
                    verdict.enter(folder);
                }
            }
            Effect::OuterReads(words) => verdict.add_outer_reads(words.select_read(given)),
            Effect::OuterWrites(words) => verdict.add_outer_writes(words.select_read(given)),
            Effect::Address(words) => {
                words.select(given).iter().for_each(|address| verdict.add_address(address));
            }
            Effect::Fills(words) => {
                words.select(given).into_iter().for_each(|folder| verdict.add_filled(folder, ""));
            }
            Effect::Recursive(read) => {
                let whole_repository = reads_repository(read.only, given);
                verdict.read_recursively(RecursiveRead { whole_repository, ..read.clone() });
            }
            Effect::ClearsEnvironment => verdict.clear_environment(),
            Effect::By(interpreter) => interpreter(row, given, verdict),
        }
    }
}

/// True if `git` reads the whole repository: no words are paths for sure, or one is a pattern for `git`.
fn reads_repository(filter: FileFilter, given: &ParsedOptions) -> bool {
    let paths = match filter {
        FileFilter::Nothing | FileFilter::Hidden => return false,
        // Of `git diff a b`, only words behind `--` are paths for sure.
        FileFilter::Untracked => given.before_dashes.unwrap_or(given.operands.len()),
        FileFilter::Ignored => 0,
    };
    let paths = given.operands.get(paths..).unwrap_or_default();
    let is_pattern = |path: &Field| {
        !path.is_known() || path.text.starts_with(':') || path.text.contains(['*', '?', '[', '\\'])
    };
    paths.is_empty() || paths.iter().any(is_pattern) || given.has(&["pathspec-from-file"])
}

/// A text with the command's name and its operands.
fn filled(text: &str, row: &ProgramRow, given: &ParsedOptions) -> String {
    let text = text.replace("{name}", row.name);
    if !text.contains("{words}") {
        return text;
    }
    let words: Vec<_> = given.operands.iter().map(|field| field.text.as_str()).collect();
    text.replace("{words}", &words.join(" "))
}
