//! Separates options and operands of a command by its row of the table. Pure.

use cotter::permission::{Zone, facts::CommandWordKind};

use crate::shell::{
    expand::{Field, Shape},
    faults,
    table::ProgramRow,
};

/// Options after `--` that tools pass on, and that do not change what may run.
const PASSED_ON: [&str; 12] = [
    "--nocapture",
    "--no-capture",
    "--exact",
    "--ignored",
    "--include-ignored",
    "--show-output",
    "--test-threads",
    "--skip",
    "--list",
    "-D",
    "-W",
    "-A",
];

/// The parsed words of a command.
#[derive(Debug, Default)]
pub(crate) struct ParsedOptions {
    /// Options by name (`r`, `recursive`), with their values.
    pub options: Vec<(String, Option<Field>)>,
    pub operands: Vec<Field>,
    /// Files named by options, to be read or written.
    pub reads: Vec<Field>,
    pub writes: Vec<Field>,
    /// The kind of each word, without those before the first parsed one.
    pub kinds: Vec<CommandWordKind>,
    /// An unknown option.
    pub unknown: Option<String>,
    /// A word that could become an option, or several words.
    pub open: Option<OpenWord>,
    /// Patterns that must match no file with the name of an option.
    pub listed_patterns: Vec<String>,
    /// True if the last word is an unknown option that may take the next word as its value.
    may_take_value: bool,
    /// The number of operands before `--`.
    pub before_dashes: Option<usize>,
    /// The number of parsed words.
    pub read: usize,
}

/// A word that could become an option, as written.
#[derive(Debug)]
pub(crate) enum OpenWord {
    /// Known only at run time.
    Unknown(String),
    /// A pattern that a file with such a name would match.
    Pattern(String),
}

/// Where options end.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Until {
    /// They may follow operands.
    End,
    /// They end at the first operand; the rest belongs to another command.
    Operand,
}

/// The value of an option, by the sign after it in the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OptionArity {
    Nothing,
    /// `:` or `=`: a value.
    Text,
    /// `?`: a value, only in the same word.
    Maybe,
    /// `<`: a file to read.
    Read,
    /// `>`: a file to write.
    Write,
    /// `!`: no value; changes what the command may do.
    Harm,
    /// `~`: a value only in the same word; changes what the command may do.
    HarmMaybe,
    /// `&`: a value; changes what the command may do.
    HarmWith,
}

impl OptionArity {
    fn of(sign: Option<char>) -> Option<OptionArity> {
        Some(match sign? {
            ':' | '=' => OptionArity::Text,
            '?' => OptionArity::Maybe,
            '<' => OptionArity::Read,
            '>' => OptionArity::Write,
            '!' => OptionArity::Harm,
            '~' => OptionArity::HarmMaybe,
            '&' => OptionArity::HarmWith,
            _ => return None,
        })
    }

    fn wants_a_value(self) -> bool {
        matches!(
            self,
            OptionArity::Text | OptionArity::Read | OptionArity::Write | OptionArity::HarmWith
        )
    }

    fn kind(self) -> CommandWordKind {
        match self {
            OptionArity::Write
            | OptionArity::Harm
            | OptionArity::HarmMaybe
            | OptionArity::HarmWith => CommandWordKind::UnknownOption,
            _ => CommandWordKind::Option,
        }
    }
}

impl ParsedOptions {
    /// Parses the words after a command's name.
    pub(crate) fn read(row: &ProgramRow, fields: &[Field], until: Until) -> ParsedOptions {
        let mut given = ParsedOptions::default();
        let mut words = fields.iter();
        let mut dashes = false;
        while let Some(field) = words.next() {
            let text = field.text.as_str();
            if !dashes && field.is_known() && text == "--" {
                dashes = true;
                given.before_dashes = Some(given.operands.len());
                given.kinds.push(CommandWordKind::Option);
                continue;
            }
            let dashed = text.starts_with('-')
                && text.len() > 1
                && !matches!(field.shape, Shape::Open { starts_open: true, .. });
            let is_printed = dashed && row.prints && !is_options(row, text);
            if dashes || !dashed || is_printed {
                if until == Until::Operand {
                    break;
                }
                let may_be_option =
                    if row.plain { field.may_split() } else { field.may_be_option() };
                match &field.shape {
                    Shape::Pattern(pattern) if !dashes && may_be_option && row.listed => {
                        given.listed_patterns.push(pattern.clone());
                    }
                    _ if !dashes && may_be_option => given.note_open(field),
                    _ => {}
                }
                let passed_on = dashes && row.zone == Zone::Build && text.starts_with('-');
                let unknown = passed_on && !PASSED_ON.iter().any(|option| text.starts_with(option));
                given.kinds.push(if unknown {
                    CommandWordKind::UnknownOption
                } else {
                    kind_of(field)
                });
                if std::mem::take(&mut given.may_take_value) && row.zone == Zone::Workspace {
                    given.writes.push(field.clone());
                }
                given.operands.push(field.clone());
                continue;
            }
            given.may_take_value = false;
            let without_value = given.option(row, field);
            if let Some((name, arity)) = without_value {
                let value = words.next();
                // A long option may take its value in the same word only: then the next word is an option.
                let is_option = |value: &Field| {
                    name.len() > 1 && (value.may_be_option() || value.text.starts_with('-'))
                };
                if let Some(value) = value.filter(|value| value.is_several() || is_option(value)) {
                    given.note_open(value);
                }
                given.kinds.extend(value.map(|value| value_kind(value, arity)));
                given.add(name, arity, value.cloned());
            }
        }
        given.read = given.kinds.len();
        given
    }

    fn note_open(&mut self, field: &Field) {
        let word = field.text.clone();
        self.open.get_or_insert_with(|| match field.is_open() {
            true => OpenWord::Unknown(word),
            false => OpenWord::Pattern(word),
        });
    }

    /// True if one of these options is present.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// The values of these options.
    pub(crate) fn values<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a Field> {
        self.options
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
            .filter_map(|(_, value)| value.as_ref())
    }

    /// The operands without the pattern or program that comes first, unless an option gives it. Of a word that
    /// becomes several, only the first is that.
    pub(crate) fn operands_after_text(&self) -> impl Iterator<Item = &Field> {
        let scripted = self.has(&["e", "f", "regexp", "file", "expression", "files"]);
        let is_text = |first: &Field| !scripted && !first.is_several();
        let skipped = usize::from(self.operands.first().is_some_and(is_text));
        self.operands.iter().skip(skipped).filter(|field| field.text != "-")
    }

    /// Parses one word that begins with a dash. Returns an option that still needs a value.
    fn option(&mut self, row: &ProgramRow, field: &Field) -> Option<(String, OptionArity)> {
        let text = field.text.as_str();
        if row.long_with_one_dash || text.starts_with("--") {
            return self.long(row, field);
        }
        let digits = text.len() > 1 && text[1..].chars().all(|c| c.is_ascii_digit());
        if digits && row.short.contains('#') && field.is_known() {
            self.kinds.push(CommandWordKind::Option);
            return None;
        }
        let mut kind = CommandWordKind::Option;
        for (at, c) in text.char_indices().skip(1) {
            let Some(arity) = short(row.short, c) else {
                self.unknown.get_or_insert_with(|| text.to_owned());
                kind = CommandWordKind::UnknownOption;
                break;
            };
            if arity.kind() == CommandWordKind::UnknownOption {
                kind = arity.kind();
            }
            let rest = &text[at + c.len_utf8()..];
            if arity.wants_a_value() && rest.is_empty() {
                self.kinds.push(kind);
                return Some((c.to_string(), arity));
            }
            let valued = arity.wants_a_value()
                || matches!(arity, OptionArity::Maybe | OptionArity::HarmMaybe) && !rest.is_empty();
            let value = valued.then(|| field.without(&text[..at + c.len_utf8()])).flatten();
            let ends = value.is_some();
            self.add(c.to_string(), arity, value);
            if ends {
                break;
            }
        }
        let kind = if field.is_open() && kind == CommandWordKind::Option {
            CommandWordKind::RuntimeValue
        } else {
            kind
        };
        self.kinds.push(kind);
        None
    }

    fn long(&mut self, row: &ProgramRow, field: &Field) -> Option<(String, OptionArity)> {
        let text = field.text.as_str();
        let name = text.trim_start_matches('-');
        let (name, valued) = name.split_once('=').map_or((name, false), |(name, _)| (name, true));
        let Some(arity) = long(&row.long, name) else {
            if faults::is_off(faults::UNKNOWN_OPTIONS) {
                self.kinds.push(CommandWordKind::Option);
                return None;
            }
            let whole = abbreviated(&row.long, name);
            self.unknown.get_or_insert_with(|| text.to_owned());
            // What an unknown option does with its value is unknown too: it may be a file to write.
            let value = text.find('=').and_then(|at| field.without(&text[..=at]));
            self.reads.extend(value.clone());
            self.writes.extend(value);
            self.options.push((whole.unwrap_or(name).to_owned(), None));
            self.kinds.push(CommandWordKind::UnknownOption);
            self.may_take_value = !valued;
            return None;
        };
        let fits = match arity {
            OptionArity::Nothing | OptionArity::Harm => !valued && field.is_known(),
            OptionArity::Maybe | OptionArity::HarmMaybe => valued || field.is_known(),
            _ => true,
        };
        if !fits {
            self.unknown.get_or_insert_with(|| text.to_owned());
        }
        let kind = match fits {
            true if field.is_open() => CommandWordKind::RuntimeValue,
            true => arity.kind(),
            false => CommandWordKind::UnknownOption,
        };
        self.kinds.push(kind);
        if arity.wants_a_value() && !valued {
            return Some((name.to_owned(), arity));
        }
        let value = text.find('=').filter(|_| valued).and_then(|at| field.without(&text[..=at]));
        self.add(name.to_owned(), arity, value);
        None
    }

    fn add(&mut self, name: String, arity: OptionArity, value: Option<Field>) {
        match arity {
            OptionArity::Read => self.reads.extend(value.clone()),
            OptionArity::Write => self.writes.extend(value.clone()),
            _ => {}
        }
        self.options.push((name, value));
    }
}

/// True if every letter of a word is an option of the row, without a value.
fn is_options(row: &ProgramRow, text: &str) -> bool {
    let is_option = |letter| short(row.short, letter) == Some(OptionArity::Nothing);
    text.chars().skip(1).all(is_option)
}

/// The kind of a word that is not an option.
pub(crate) fn kind_of(field: &Field) -> CommandWordKind {
    if field.is_open() { CommandWordKind::RuntimeValue } else { CommandWordKind::Operand }
}

fn value_kind(field: &Field, arity: OptionArity) -> CommandWordKind {
    match arity {
        _ if field.is_open() => CommandWordKind::RuntimeValue,
        OptionArity::Text | OptionArity::Maybe => CommandWordKind::Option,
        OptionArity::HarmWith => CommandWordKind::UnknownOption,
        _ => CommandWordKind::Operand,
    }
}

/// The value of a short option, by a row such as `lan:f<`.
fn short(spec: &str, wanted: char) -> Option<OptionArity> {
    if wanted == '#' || OptionArity::of(Some(wanted)).is_some_and(|_| !matches!(wanted, '?' | '!'))
    {
        return None;
    }
    let mut letters = spec.chars().peekable();
    while let Some(c) = letters.next() {
        let arity = OptionArity::of(letters.peek().copied());
        if c == wanted && c.is_ascii_alphanumeric() {
            return Some(arity.unwrap_or(OptionArity::Nothing));
        }
        if arity.is_some() {
            letters.next();
        }
    }
    None
}

/// The value of a long option, by a row such as `all color? file<`.
pub(crate) fn long(spec: &str, wanted: &str) -> Option<OptionArity> {
    spec.split_whitespace().find_map(|option| {
        let rest = option.strip_prefix(wanted)?;
        match rest.chars().next() {
            None => Some(OptionArity::Nothing),
            sign if rest.len() == 1 => OptionArity::of(sign),
            _ => None,
        }
    })
}

/// The option of an abbreviation; `None` if several options begin with it.
fn abbreviated<'s>(spec: &'s str, wanted: &str) -> Option<&'s str> {
    let names = spec
        .split_whitespace()
        .map(|option| option.trim_end_matches(|c: char| !c.is_alphanumeric()));
    let mut matching = names.filter(|name| name.starts_with(wanted) && !wanted.is_empty());
    let first = matching.next()?;
    matching.next().is_none().then_some(first)
}

/// True if a row has a short option.
#[cfg(test)]
pub(crate) fn takes_short(spec: &str, letter: char) -> bool {
    short(spec, letter).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::table::row_of;

    fn check(line: &str, kinds: &str, unknown: Option<&str>) {
        let fields: Vec<_> = line.split(' ').map(Field::known).collect();
        let row = row_of(&fields[0].text).expect("a row");
        let given = ParsedOptions::read(row, &fields[1..], Until::End);
        let shown: String = given
            .kinds
            .iter()
            .map(|kind| match kind {
                CommandWordKind::Operand => 'o',
                CommandWordKind::Option => '-',
                CommandWordKind::UnknownOption => '!',
                _ => '?',
            })
            .collect();
        assert_eq!((shown.as_str(), given.unknown.as_deref()), (kinds, unknown), "{line}");
    }

    #[test]
    fn s11_option_missing_from_the_command_table_is_unknown() {
        check("ls -la src", "-o", None);
        check("ls --color=auto --all src", "--o", None);
        check("ls --colo src", "!o", Some("--colo"));
        check("head -5 x", "-o", None);
        check("head -n 5 x -n5", "--o-", None);
        check("sort -o out in", "!oo", None);
        check("sort -u --compress-program=x in", "-!o", Some("--compress-program=x"));
        check("grep -e -x -- -y", "---o", None);
    }
}
