//! The effects of one command with its words, by the table and by the rules for special commands.
//! Pure.

use cotter::permission::{
    Zone,
    facts::{CommandWordKind, Doubt},
};

use crate::shell::{
    below::RecursiveRead,
    expand::{Field, Shape},
    hosts::{self, AddressTarget},
    options::{OpenWord, ParsedOptions, Until, kind_of},
    programs,
    table::{OperandKind, ProgramRow, UNKNOWN, row_of},
    wrappers::{self, WrappedCommand},
};

/// The effects of one command.
#[derive(Debug)]
pub(crate) struct CommandVerdict {
    /// The words for the facts: names first, then the rest in order.
    pub words: Vec<(Field, CommandWordKind)>,
    pub zone: Zone,
    pub reads: Vec<Field>,
    /// Files read from a repository's history, by their paths in it.
    pub history_reads: Vec<Field>,
    pub writes: Vec<Field>,
    /// The paths of `writes` that are removed, with everything below.
    pub removes: Vec<Field>,
    pub hosts: Vec<String>,
    pub doubts: Vec<Doubt>,
    /// Commands it would run.
    pub inner: Vec<WrappedCommand>,
    /// The targets of copies. In a folder, each copy gets the name of its source.
    pub into: Vec<Field>,
    pub copied: Vec<Field>,
    /// True if the copies are links, whatever the source is.
    pub links: bool,
    /// How it reads folders recursively, if it does.
    pub recursive_read: Option<RecursiveRead>,
    /// The folder it enters before it reads anything.
    pub folder: Option<Field>,
    /// Files that it reads and writes before it enters that folder.
    pub outer_reads: Vec<Field>,
    pub outer_writes: Vec<Field>,
    /// True if it only prints its words.
    pub only_prints: bool,
    /// True if what it runs does not get the environment of the shell.
    pub clears_environment: bool,
}

impl CommandVerdict {
    pub(crate) fn new(zone: Zone) -> Self {
        CommandVerdict {
            words: vec![],
            zone,
            reads: vec![],
            history_reads: vec![],
            writes: vec![],
            removes: vec![],
            hosts: vec![],
            doubts: vec![],
            inner: vec![],
            into: vec![],
            copied: vec![],
            links: false,
            recursive_read: None,
            folder: None,
            outer_reads: vec![],
            outer_writes: vec![],
            only_prints: false,
            clears_environment: false,
        }
    }

    pub(crate) fn raise(&mut self, zone: Zone) {
        self.zone = self.zone.max(zone);
    }

    pub(crate) fn unclear(&mut self, why: impl Into<String>) {
        self.raise(Zone::Build);
        self.doubts.push(Doubt::NotUnderstood(why.into()));
    }

    /// Adds a doubt about a word whose value is only known at run time.
    pub(crate) fn unknown(&mut self, why: impl Into<String>) {
        self.raise(Zone::Build);
        self.doubts.push(Doubt::Unknown(why.into()));
    }

    pub(crate) fn destroys(&mut self, what: impl Into<String>) {
        self.doubts.push(Doubt::Destructive(what.into()));
    }

    /// Adds an address it connects to.
    pub(crate) fn add_address(&mut self, address: &Field) {
        // For bash a `?` is a pattern; without a matching file an address stays unchanged.
        let literal = matches!(address.shape, Shape::Pattern(_)) && address.text.contains("://");
        if !address.is_known() && !literal {
            self.unclear(format!("where `{}` leads is only known when it runs", address.text));
            return;
        }
        match hosts::target_of(&address.text) {
            AddressTarget::To(host) => {
                self.raise(hosts::zone_of(&host));
                self.hosts.push(host);
            }
            AddressTarget::Perhaps(host) => {
                self.unclear(format!(
                    "where `{}` leads depends on the program that reads it",
                    address.text
                ));
                self.raise(hosts::zone_of(&host));
                self.hosts.push(host);
            }
            AddressTarget::File(path) => self.reads.push(Field::known(path)),
            AddressTarget::Unclear => {
                self.unclear(format!("where `{}` leads is not known", address.text))
            }
        }
    }
}

/// Folders whose programs are the ones their names say.
const SYSTEM_BINS: [&str; 7] = [
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
    "/opt/homebrew/bin/",
    "/usr/local/sbin/",
];

/// Computes the effects of a command with these words. The first word must be known.
pub(crate) fn verdict_of(fields: &[Field]) -> CommandVerdict {
    let written = fields[0].text.as_str();
    let base = written.rsplit('/').next().unwrap_or(written);
    let folded = base.to_ascii_lowercase();
    let mut verdict = match wrappers::unwrap(&folded, fields) {
        Some(verdict) => verdict,
        None => by_table(&folded, fields),
    };
    programs::own_program(&folded, fields, &mut verdict);
    if !base.is_ascii() {
        verdict.unclear(format!("the name `{base}` has letters that look like others"));
    }
    // A program given by a path may be another one than the known name.
    let by_path = written.contains('/');
    let known_path = SYSTEM_BINS.iter().any(|bin| written.strip_prefix(bin) == Some(base));
    if base != folded || by_path && !known_path {
        verdict.raise(Zone::Build);
    }
    if by_path && !known_path {
        verdict.reads.push(fields[0].clone());
    }
    verdict
}

fn by_table(name: &str, fields: &[Field]) -> CommandVerdict {
    let Some(mut row) = find(name) else { return unknown(fields) };
    let mut verdict = CommandVerdict::new(Zone::Safe);
    let mut names = vec![(fields[0].clone(), CommandWordKind::Name)];
    let (mut rest, mut words) = (&fields[1..], vec![]);
    let mut bare = None;
    while let OperandKind::Sub(zone) = row.takes {
        let given = ParsedOptions::read(row, rest, Until::Operand);
        note_options(row, &given, &mut verdict);
        words.extend(rest[..given.read].iter().cloned().zip(given.kinds.iter().copied()));
        programs::global(row.name, &given, &mut verdict);
        rest = &rest[given.read..];
        let Some(sub) = rest.first() else {
            bare = Some(zone);
            break;
        };
        let word = sub.literal().filter(|sub| !sub.contains(' '));
        let Some(below) = word.and_then(|sub| row_of(&format!("{} {sub}", row.name))) else {
            return unknown_sub(row, names, words, rest, verdict);
        };
        names.push((sub.clone(), CommandWordKind::Name));
        rest = &rest[1..];
        row = below;
    }
    verdict.raise(bare.unwrap_or(row.zone));
    if bare.is_none() {
        // `tar xf a` is `tar -xf a`.
        let dashed = programs::dashed(row.name, rest);
        let given = ParsedOptions::read(row, dashed.as_deref().unwrap_or(rest), Until::End);
        note_options(row, &given, &mut verdict);
        words.extend(match dashed {
            None => rest.iter().cloned().zip(given.kinds.iter().copied()).collect(),
            Some(_) => words_without_dash(rest, &given),
        });
        operands(row, &given, &mut verdict);
        programs::refine(row, &given, &mut verdict);
    }
    names.append(&mut words);
    verdict.words = names;
    verdict
}

/// Words as they are written, of which the first holds all options.
fn words_without_dash(words: &[Field], given: &ParsedOptions) -> Vec<(Field, CommandWordKind)> {
    let is_harmful = given.kinds.contains(&CommandWordKind::UnknownOption);
    let first = if is_harmful { CommandWordKind::UnknownOption } else { CommandWordKind::Option };
    let kinds = std::iter::once(first).chain(words[1..].iter().map(kind_of));
    words.iter().cloned().zip(kinds).collect()
}

/// The row of a name, with or without a version: `python3.12`.
fn find(name: &str) -> Option<&'static ProgramRow> {
    // `'git status'` in quotes is not `git status`.
    let name = Some(name).filter(|name| !name.contains(' '))?;
    row_of(name).or_else(|| {
        if name.starts_with("mkfs") {
            return row_of("mke2fs");
        }
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        let versioned =
            ["python", "pip", "ruby", "perl", "php", "gcc", "g++", "clang", "node", "java"];
        versioned.contains(&stem).then(|| row_of(stem)).flatten()
    })
}

/// An unknown program: words that look like paths count as paths.
fn unknown(fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Build);
    let given = ParsedOptions::read(&UNKNOWN, &fields[1..], Until::End);
    let kinds = std::iter::once(CommandWordKind::Name).chain(given.kinds.iter().copied());
    verdict.words = fields.iter().cloned().zip(kinds).collect();
    for field in &fields[1..] {
        verdict.reads.extend(path_in(field));
    }
    note_open_words(&fields[1..], &mut verdict);
    verdict
}

/// An unknown command may open any file that a word names, also one that a rule denies.
fn note_open_words(fields: &[Field], verdict: &mut CommandVerdict) {
    if let Some(open) = fields.iter().find(|field| field.is_open()) {
        verdict.unknown(format!("`{}` is only known when it runs", open.text));
    }
}

/// A known command with an unknown subcommand. The zone is that of the outer command.
fn unknown_sub(
    row: &ProgramRow,
    mut names: Vec<(Field, CommandWordKind)>,
    mut words: Vec<(Field, CommandWordKind)>,
    rest: &[Field],
    mut verdict: CommandVerdict,
) -> CommandVerdict {
    verdict.raise(row.zone);
    let given = ParsedOptions::read(row, rest, Until::End);
    if let Some(open) = rest.first().filter(|field| !field.is_known()) {
        verdict.unclear(format!("`{}` is only known when it runs", open.text));
    }
    words.extend(rest.iter().cloned().zip(given.kinds.iter().copied()));
    if let Some((_, kind)) = words
        .iter_mut()
        .find(|(word, kind)| *kind == CommandWordKind::Operand && Some(word) == rest.first())
    {
        *kind = CommandWordKind::Name;
    }
    verdict.reads.extend(rest.iter().filter_map(path_in));
    note_open_words(rest, &mut verdict);
    programs::refine(row, &given, &mut verdict);
    names.append(&mut words);
    verdict.words = names;
    verdict
}

/// The effects of options alone.
fn note_options(row: &ProgramRow, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if given.unknown.is_some() {
        // What an unknown option sends is unknown too.
        verdict.raise(if row.zone == Zone::Network { Zone::External } else { Zone::Build });
    }
    let has_harmful = given.kinds.contains(&CommandWordKind::UnknownOption);
    let only_reads = row.zone == Zone::Safe || matches!(row.takes, OperandKind::Sub(_));
    if has_harmful && only_reads && given.writes.is_empty() {
        verdict.raise(Zone::Build);
    }
    let only_prints = row.plain && row.takes == OperandKind::Text;
    verdict.only_prints = only_prints;
    let is_code = row.zone == Zone::Build && row.takes == OperandKind::Text;
    match &given.open {
        Some(_) if only_prints || is_code => {}
        Some(OpenWord::Unknown(word)) => {
            verdict.unknown(format!("`{word}` is only known when it runs"));
        }
        Some(OpenWord::Pattern(word)) => {
            verdict.unclear(format!("`{word}` could turn out to be an option"));
        }
        None => {}
    }
    verdict.reads.extend(given.reads.iter().filter(|field| field.text != "-").cloned());
    verdict.writes.extend(given.writes.iter().filter(|field| field.text != "-").cloned());
}

/// The effects of operands.
fn operands(row: &ProgramRow, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let operands = given.operands.iter().filter(|field| field.text != "-");
    match row.takes {
        OperandKind::Sub(_) | OperandKind::Text => {}
        OperandKind::Nothing => {
            if !given.operands.is_empty() && row.name != "dd" {
                verdict.raise(Zone::Build);
            }
        }
        OperandKind::Maybe => {
            let dashes = given.before_dashes.unwrap_or(usize::MAX);
            let paths = given.operands.iter().enumerate();
            verdict.reads.extend(paths.filter_map(|(at, field)| {
                if at >= dashes { Some(field.clone()) } else { path_in(field) }
            }));
            if let Some(open) = given.operands.iter().find(|field| field.is_open()) {
                verdict.unknown(format!("`{}` is only known when it runs", open.text));
            }
        }
        OperandKind::Reads => verdict.reads.extend(operands.cloned()),
        OperandKind::TextThenReads => {
            let scripted = given.has(&["e", "f", "regexp", "file", "expression", "files"]);
            verdict.reads.extend(operands.skip(usize::from(!scripted)).cloned());
        }
        OperandKind::Writes => verdict.writes.extend(operands.cloned()),
        OperandKind::Copies => {
            let operands: Vec<_> = operands.cloned().collect();
            let named = given.has(&["t", "target-directory"]);
            match operands.split_last() {
                Some((last, first)) if !named && !first.is_empty() => {
                    verdict.reads.extend(first.iter().cloned());
                    verdict.writes.push(last.clone());
                    verdict.into.push(last.clone());
                    verdict.copied.extend(first.iter().cloned());
                }
                _ => {
                    verdict.into.extend(given.values(&["t", "target-directory"]).cloned());
                    verdict.copied.extend(operands.iter().cloned());
                    verdict.reads.extend(operands);
                }
            }
        }
        OperandKind::Hosts => operands.for_each(|field| verdict.add_address(field)),
    }
}

/// A path in a word that need not be one: absolute, from home, or with dots; also behind
/// `--option=`.
pub(crate) fn path_in(field: &Field) -> Option<Field> {
    let looks_like_path = |text: &str| {
        text.starts_with('/')
            || text.starts_with("~/")
            || matches!(text, "." | ".." | "~")
            || text.starts_with("./")
            || text.starts_with("../")
            || text.contains("/../")
            || text.ends_with("/..")
    };
    if field.is_open() {
        return None;
    }
    if looks_like_path(&field.text) {
        return Some(field.clone());
    }
    let at = field.text.find(['=', ':', '@'])?;
    let value = field.without(&field.text[..=at])?;
    let is_address = value.text.starts_with("//");
    (!is_address
        && looks_like_path(&value.text)
        && (value.text.starts_with('/') || value.text.contains("..")))
    .then_some(value)
}

/// The kinds of words for a command without options.
pub(crate) fn plain_words(fields: &[Field]) -> Vec<(Field, CommandWordKind)> {
    let kind =
        |at: usize, field: &Field| if at == 0 { CommandWordKind::Name } else { kind_of(field) };
    fields.iter().enumerate().map(|(at, field)| (field.clone(), kind(at, field))).collect()
}
