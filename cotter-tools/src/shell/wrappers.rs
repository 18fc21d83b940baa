//! Commands that run other commands, and the commands they run. Pure.

use cotter::permission::{Zone, facts::CommandWordKind};

use crate::shell::{
    command_verdict::CommandVerdict,
    expand::{Field, Shape},
    find,
    judge::{plain_words, unknown},
    names,
    options::{ParsedOptions, Until, kind_of},
    programs::{is_pipe, own_program},
    rules,
    table::{OperandKind, ProgramRow, Runner},
};

/// A command that another one runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrappedCommand {
    /// A program with its words; never a function or builtin.
    Program(Vec<Field>),
    /// A builtin or program, without functions: `command ls`, `builtin cd x`.
    Command(Vec<Field>),
    /// A script for a shell.
    Script { shell: String, text: Field },
    /// A shell that runs its input.
    Input { shell: String },
}

/// The verdict on a command that runs another, if the row is one of those.
pub(crate) fn unwrap(row: &ProgramRow, fields: &[Field]) -> Option<CommandVerdict> {
    Some(match row.takes {
        OperandKind::Runs(before) => simple(row, before, fields),
        OperandKind::RunsAs(runner) => match runner {
            Runner::Applet => applet(fields),
            Runner::Builtin => builtin(row.name, fields),
            Runner::Cotter => {
                let mut verdict = unknown(fields, Zone::Safe);
                own_program(fields, &mut verdict);
                verdict
            }
            Runner::Find => find::verdict_of(row, fields),
            Runner::Flock => flock(fields),
            Runner::Shell => shell(row, fields),
            Runner::Ssh => ssh(row, fields),
            Runner::Su => su(fields),
            Runner::Watch => watch(row, fields),
            Runner::Xargs => xargs(row, fields),
        },
        _ => return None,
    })
}

/// `busybox`: the next word is the command.
fn applet(fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Safe);
    verdict.words = plain_words(fields);
    if fields.len() > 1 {
        verdict.run(WrappedCommand::Program(fields[1..].to_vec()));
    }
    verdict
}

/// A command with only its own options before the one it runs.
fn simple(row: &ProgramRow, before: usize, fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(row.zone);
    let given = ParsedOptions::read(row, &fields[1..], Until::Operand);
    let mut kinds = vec![CommandWordKind::Name];
    kinds.extend(&given.kinds);
    verdict.add_reads(given.reads.iter().cloned());
    verdict.add_writes(given.writes.iter().cloned());
    rules::add_all(row, &given, &mut verdict);
    if let Some(unknown) = &given.unknown {
        verdict.unclear(format!("`{} {unknown}` has an unknown option", row.name));
    }
    refuse_open(row.name, &given, &mut verdict);
    if row.zone == Zone::Machine {
        verdict.clear_environment();
    }
    let mut rest = &fields[1 + given.read..];
    // `env -` is `env -i`.
    if row.assigns && rest.first().is_some_and(|field| field.text == "-") {
        kinds.push(CommandWordKind::Option);
        rest = &rest[1..];
        verdict.clear_environment();
    }
    let assigned = |field: &&Field| row.assigns && assigned_name(field).is_some();
    for (field, name) in
        rest.iter().take_while(assigned).filter_map(|field| Some((field, assigned_name(field)?)))
    {
        let value = field.literal().and_then(|text| text.get(name.len() + 1..));
        if names::is_influential(name) || field.may_split() {
            verdict.unclear(format!("`{name}=…` may change what a command does"));
        } else if !names::is_harmless(name) || !names::is_harmless_value(name, value) {
            verdict.unknown(format!("`{name}=…` before a command may change what it does"));
        }
        kinds.push(kind_of(field));
    }
    rest = &rest[rest.iter().take_while(assigned).count()..];
    let before = before.min(rest.len());
    if let Some(open) = rest[..before].iter().find(|field| !field.is_known()) {
        verdict.unclear(format!("`{}` is only known when it runs", open.text));
    }
    kinds.extend(rest[..before].iter().map(kind_of));
    let rest = &rest[before..];
    kinds.extend(rest.iter().map(kind_of));
    verdict.words = fields.iter().cloned().zip(kinds).collect();
    if !rest.is_empty() {
        verdict.run(WrappedCommand::Program(rest.to_vec()));
    }
    verdict
}

/// Adds a doubt if a word before the inner command may become several, or an option: then another word is the
/// command.
fn refuse_open(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if given.open.is_some() {
        verdict.unclear(format!("which words `{name}` runs is only known when it runs"));
    }
}

/// The name in `name=value`.
fn assigned_name(field: &Field) -> Option<&str> {
    let (name, _) = field.text.split_once('=')?;
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let named = letters && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
    (named && !matches!(field.shape, Shape::Open { starts_open: true, .. })).then_some(name)
}

/// Options of a shell by name that change no meaning.
pub(crate) const HARMLESS_SHELL_OPTIONS: [&str; 5] =
    ["pipefail", "errexit", "nounset", "xtrace", "verbose"];

fn shell(row: &ProgramRow, fields: &[Field]) -> CommandVerdict {
    let name = row.name;
    let mut verdict = CommandVerdict::new(Zone::Safe);
    verdict.words = plain_words(fields);
    // `+x` turns off what `-x` turns on.
    let with_dash = |field: &Field| match field.text.strip_prefix('+') {
        Some(flags) if field.is_known() => Field::known(format!("-{flags}")),
        _ => field.clone(),
    };
    let fields: Vec<_> = fields.iter().map(with_dash).collect();
    let given = ParsedOptions::read(row, &fields[1..], Until::Operand);
    refuse_open(name, &given, &mut verdict);
    if let Some(unknown) = &given.unknown {
        verdict.unclear(format!("`{name} {unknown}` has an unknown option"));
    }
    let is_harmless = |option: &Field| {
        option.literal().is_some_and(|option| HARMLESS_SHELL_OPTIONS.contains(&option))
    };
    if given.values(&["o"]).any(|option| !is_harmless(option)) {
        verdict.unclear(format!("`{name} -o` changes how the shell reads what follows"));
    }
    for ((_, kind), read) in verdict.words[1..].iter_mut().zip(&given.kinds) {
        *kind = *read;
    }
    let rest = &fields[1 + given.read..];
    // A single dash ends the options.
    let rest = if rest.first().is_some_and(|field| field.text == "-") { &rest[1..] } else { rest };
    let reads_input = given.has(&["s"]);
    match rest.split_first() {
        _ if given.has(&["version"]) => {}
        Some((text, _)) if given.has(&["c"]) => {
            verdict.run(WrappedCommand::Script { shell: name.into(), text: text.clone() });
        }
        Some((script, _)) if !reads_input && !is_pipe(script) => {
            verdict.raise(Zone::Build);
            verdict.add_reads([script.clone()]);
        }
        _ => verdict.run(WrappedCommand::Input { shell: name.into() }),
    }
    verdict
}

fn su(fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Machine);
    verdict.words = plain_words(fields);
    let at = fields.iter().position(|field| field.text == "-c" || field.text == "--command");
    if let Some(text) = at.and_then(|at| fields.get(at + 1)) {
        verdict.run(WrappedCommand::Script { shell: "sh".into(), text: text.clone() });
    }
    verdict
}

fn builtin(name: &str, fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Safe);
    verdict.words = plain_words(fields);
    let first = fields.get(1).map(|field| field.text.as_str()).unwrap_or_default();
    if name == "command" && matches!(first, "-v" | "-V") {
        verdict.words[1].1 = CommandWordKind::Option;
        return verdict;
    }
    let skip = match first {
        "--" => 2,
        "-p" if name == "command" => 2,
        "-c" | "-l" | "-cl" | "-lc" if name == "exec" => {
            verdict.clear_environment();
            2
        }
        "-a" if name == "exec" => {
            verdict
                .unclear("`exec -a` gives a program another name, which may change what it does");
            3
        }
        _ if first.starts_with('-') => {
            verdict.unclear(format!("`{name} {first}` has an unknown option"));
            1
        }
        _ => 1,
    };
    let rest = fields.get(skip..).unwrap_or_default().to_vec();
    if !rest.is_empty() {
        verdict.run(if name == "exec" {
            WrappedCommand::Program(rest)
        } else {
            WrappedCommand::Command(rest)
        });
    }
    verdict
}

/// The words that `xargs` appends are known only at run time.
fn xargs(row: &ProgramRow, fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Safe);
    verdict.words = plain_words(fields);
    let given = ParsedOptions::read(row, &fields[1..], Until::Operand);
    refuse_open("xargs", &given, &mut verdict);
    if let Some(unknown) = &given.unknown {
        verdict.unclear(format!("`xargs {unknown}` has an unknown option"));
    }
    for ((_, kind), read) in verdict.words[1..].iter_mut().zip(&given.kinds) {
        *kind = *read;
    }
    let replaces = ["I", "replace", "n", "max-args", "L", "max-lines"];
    if given.has(&replaces[..2])
        && given.options.iter().filter(|(name, _)| replaces.contains(&name.as_str())).count() > 1
    {
        verdict.unclear("where `xargs` puts words depends on the order of its options");
    }
    let mut program = fields[1 + given.read..].to_vec();
    // Without a command it prints its input.
    if program.is_empty() {
        return verdict;
    }
    let input =
        Field { text: "…".into(), shape: Shape::Open { splits: true, starts_open: true } };
    let placeholder = given.values(&["I", "replace"]).next();
    let placeholder = match given.has(&["replace"]) && placeholder.is_none() {
        true => Some("{}".to_owned()),
        false => placeholder.map(|field| field.literal().unwrap_or_default().to_owned()),
    };
    match placeholder {
        Some(placeholder) if placeholder.is_empty() => {
            verdict.unclear("which words `xargs` replaces is only known when it runs");
        }
        Some(placeholder) => {
            for field in &mut program {
                if field.text.contains(&placeholder) {
                    let starts_open = field.text.starts_with(&placeholder);
                    field.shape = Shape::Open { splits: false, starts_open };
                }
            }
        }
        None => program.push(input),
    }
    verdict.run(WrappedCommand::Program(program));
    verdict
}

fn watch(row: &ProgramRow, fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Safe);
    verdict.words = plain_words(fields);
    let given = ParsedOptions::read(row, &fields[1..], Until::Operand);
    refuse_open("watch", &given, &mut verdict);
    if let Some(unknown) = &given.unknown {
        verdict.unclear(format!("`watch {unknown}` has an unknown option"));
    }
    let rest = &fields[1 + given.read..];
    if given.has(&["x", "exec"]) {
        verdict.run(WrappedCommand::Program(rest.to_vec()));
        return verdict;
    }
    match rest.iter().map(Field::literal).collect::<Option<Vec<_>>>() {
        Some(words) if !words.is_empty() => {
            let text = Field::known(words.join(" "));
            verdict.run(WrappedCommand::Script { shell: "sh".into(), text });
        }
        Some(_) => {}
        None => verdict.unclear("what `watch` runs is only known when it runs"),
    }
    verdict
}

fn flock(fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Workspace);
    verdict.words = plain_words(fields);
    match fields.get(1..) {
        Some([file, rest @ ..])
            if file.is_known() && !file.text.starts_with('-') && !rest.is_empty() =>
        {
            verdict.add_writes([file.clone()]);
            match rest {
                [flag, text, ..] if flag.text == "-c" => {
                    verdict.run(WrappedCommand::Script { shell: "sh".into(), text: text.clone() })
                }
                _ => verdict.run(WrappedCommand::Program(rest.to_vec())),
            }
        }
        _ => verdict.unclear("`flock` is given options"),
    }
    verdict
}

/// `ssh`: the command runs on another machine; the host counts.
fn ssh(row: &ProgramRow, fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::External);
    verdict.words = plain_words(fields);
    let given = ParsedOptions::read(row, &fields[1..], Until::Operand);
    refuse_open("ssh", &given, &mut verdict);
    rules::add_all(row, &given, &mut verdict);
    if let Some(host) = fields.get(1 + given.read) {
        verdict.add_address(host);
    }
    verdict
}
