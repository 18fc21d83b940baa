//! Decides the effects of a program with its words, by the table and by the rules for special programs.
//! Pure.

use cotter::permission::{Zone, facts::CommandWordKind};

use crate::shell::{
    command_verdict::CommandVerdict,
    copies,
    expand::Field,
    options::{OpenWord, ParsedOptions, Until, kind_of},
    programs, rules,
    table::{OperandKind, ProgramRow, UNKNOWN, row_of},
    wrappers,
};

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
    let mut verdict = match find(&folded) {
        None => unknown(fields, Zone::Build),
        Some(row) => wrappers::unwrap(row, fields).unwrap_or_else(|| by_table(row, fields)),
    };
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
        verdict.add_reads([fields[0].clone()]);
    }
    verdict
}

fn by_table(mut row: &ProgramRow, fields: &[Field]) -> CommandVerdict {
    let mut verdict =
        if row.prints { CommandVerdict::printer() } else { CommandVerdict::new(Zone::Safe) };
    let mut names = vec![(fields[0].clone(), CommandWordKind::Name)];
    let (mut rest, mut words) = (&fields[1..], vec![]);
    let mut bare = None;
    while let OperandKind::Sub(zone) = row.takes {
        let given = ParsedOptions::read(row, rest, Until::Operand);
        note_options(row, row.zone, &given, &mut verdict);
        words.extend(rest[..given.read].iter().cloned().zip(given.kinds.iter().copied()));
        rules::add_before(row, &given, &mut verdict);
        rest = &rest[given.read..];
        let Some(sub) = rest.first() else {
            rules::add_all(row, &given, &mut verdict);
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
    if let Some(zone) = bare {
        verdict.raise(zone);
    } else {
        // `tar xf a` is `tar -xf a`.
        let dashed = programs::dashed(row, rest);
        let given = ParsedOptions::read(row, dashed.as_deref().unwrap_or(rest), Until::End);
        let (zone, takes) = rules::mode(row, &given);
        verdict.raise(zone);
        note_options(row, zone, &given, &mut verdict);
        words.extend(match dashed {
            None => rest.iter().cloned().zip(given.kinds.iter().copied()).collect(),
            Some(_) => words_without_dash(rest, &given),
        });
        operands(row, takes, &given, &mut verdict);
        rules::add_all(row, &given, &mut verdict);
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
pub(crate) fn unknown(fields: &[Field], zone: Zone) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(zone);
    let given = ParsedOptions::read(&UNKNOWN, &fields[1..], Until::End);
    let kinds = std::iter::once(CommandWordKind::Name).chain(given.kinds.iter().copied());
    verdict.words = fields.iter().cloned().zip(kinds).collect();
    verdict.add_reads(fields[1..].iter().filter_map(path_in));
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
    verdict.add_reads(rest.iter().filter_map(path_in));
    note_open_words(rest, &mut verdict);
    rules::add_all(row, &given, &mut verdict);
    names.append(&mut words);
    verdict.words = names;
    verdict
}

/// The effects of options alone. With them, the command reaches `zone`.
fn note_options(row: &ProgramRow, zone: Zone, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if given.unknown.is_some() {
        // What an unknown option sends is unknown too.
        verdict.raise(if row.zone == Zone::Network { Zone::External } else { Zone::Build });
    }
    let has_harmful = given.kinds.contains(&CommandWordKind::UnknownOption);
    let only_reads = row.zone.max(zone) == Zone::Safe || matches!(row.takes, OperandKind::Sub(_));
    if has_harmful && only_reads && given.writes.is_empty() {
        verdict.raise(Zone::Build);
    }
    let is_code = row.zone == Zone::Build && row.takes == OperandKind::Text;
    verdict.add_listed_patterns(given.listed_patterns.iter().cloned());
    match &given.open {
        Some(_) if row.prints || is_code => {}
        Some(OpenWord::Unknown(word)) => {
            verdict.unknown(format!("`{word}` is only known when it runs"));
        }
        Some(OpenWord::Pattern(word)) => {
            verdict.unclear(format!("`{word}` could turn out to be an option"));
        }
        None => {}
    }
    verdict.add_reads(given.reads.iter().filter(|field| field.text != "-").cloned());
    // `-` is a stream for some programs and a file for others.
    verdict.add_writes(given.writes.iter().cloned());
}

/// The effects of operands.
fn operands(
    row: &ProgramRow,
    takes: OperandKind,
    given: &ParsedOptions,
    verdict: &mut CommandVerdict,
) {
    let operands = given.operands.iter().filter(|field| field.text != "-");
    match takes {
        OperandKind::Sub(_)
        | OperandKind::Text
        | OperandKind::Special
        | OperandKind::Runs(_)
        | OperandKind::RunsAs(_) => {}
        OperandKind::Nothing => {
            if !given.operands.is_empty() {
                verdict.raise(Zone::Build);
            }
        }
        OperandKind::Maybe => {
            let dashes = given.before_dashes.unwrap_or(usize::MAX);
            let paths = given.operands.iter().enumerate();
            verdict.add_reads(paths.filter_map(|(at, field)| {
                if at >= dashes { Some(field.clone()) } else { path_in(field) }
            }));
            if let Some(open) = given.operands.iter().find(|field| field.is_open()) {
                verdict.unknown(format!("`{}` is only known when it runs", open.text));
            }
        }
        OperandKind::Reads => verdict.add_reads(operands.cloned()),
        OperandKind::TextThenReads => {
            verdict.add_reads(given.operands_after_text().cloned());
        }
        OperandKind::Writes => verdict.add_writes(given.operands.iter().cloned()),
        OperandKind::Copies => copies::add_operands(row.name, given, verdict),
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
