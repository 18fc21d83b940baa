//! Commands that run other commands, and the commands they run. Pure.

use cotter::permission::{Zone, facts::CommandWordKind};

use crate::shell::{
    command_verdict::CommandVerdict,
    expand::{Field, Shape},
    judge::plain_words,
    names,
    options::{ParsedOptions, Until, kind_of},
    programs::is_pipe,
    table::{OperandKind, ProgramRow},
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

/// A command that only runs another: its options, and the number of words before the other command.
struct Wrapper {
    row: ProgramRow,
    before: usize,
    assigns: bool,
}

const fn wrapper(
    name: &'static str,
    zone: Zone,
    before: usize,
    short: &'static str,
    long: &'static str,
) -> Wrapper {
    let row = ProgramRow {
        name,
        zone,
        takes: OperandKind::Text,
        short,
        long,
        plain: false,
        long_with_one_dash: false,
    };
    Wrapper { row, before, assigns: false }
}

const fn assigning(
    name: &'static str,
    zone: Zone,
    short: &'static str,
    long: &'static str,
) -> Wrapper {
    Wrapper { assigns: true, ..wrapper(name, zone, 0, short, long) }
}

static WRAPPERS: [Wrapper; 27] = [
    wrapper("pkexec", Zone::Machine, 0, "u:", "user= keep-cwd"),
    wrapper(
        "systemd-run",
        Zone::Machine,
        0,
        "tPqGdp:",
        "user scope pty pipe wait quiet unit= property=",
    ),
    assigning(
        "sudo",
        Zone::Machine,
        "nbHEkSAPu:g:p:C:D<h:R<r:t:T:U:",
        "non-interactive background set-home preserve-env? stdin user= group= prompt= chdir<",
    ),
    wrapper("doas", Zone::Machine, 0, "nsu:C<", ""),
    assigning("env", Zone::Safe, "i0u:C<v", "ignore-environment null unset= chdir< debug"),
    wrapper("nice", Zone::Safe, 0, "n:#", "adjustment="),
    wrapper("nohup", Zone::Safe, 0, "", ""),
    wrapper("time", Zone::Safe, 0, "pvaf:o>", "portability verbose append format= output>"),
    wrapper("gtime", Zone::Safe, 0, "pvaf:o>", "portability verbose append format= output>"),
    wrapper(
        "timeout",
        Zone::Safe,
        1,
        "k:s:v",
        "kill-after= signal= foreground preserve-status verbose",
    ),
    wrapper(
        "gtimeout",
        Zone::Safe,
        1,
        "k:s:v",
        "kill-after= signal= foreground preserve-status verbose",
    ),
    wrapper("stdbuf", Zone::Safe, 0, "i:o:e:", "input= output= error="),
    wrapper("setsid", Zone::Safe, 0, "cfw", "ctty fork wait"),
    wrapper("ionice", Zone::Safe, 0, "c:n:t", "class= classdata= ignore"),
    wrapper("chrt", Zone::Machine, 1, "bfior", "batch fifo idle other rr"),
    wrapper("taskset", Zone::Safe, 1, "c", "cpu-list"),
    wrapper("unbuffer", Zone::Safe, 0, "p", ""),
    wrapper("caffeinate", Zone::Safe, 0, "dimsut:", ""),
    wrapper("chronic", Zone::Safe, 0, "ev", ""),
    wrapper("strace", Zone::Build, 0, "fqve:s:o>tTrcyn", ""),
    wrapper("ltrace", Zone::Build, 0, "fe:s:o>tTrc", ""),
    wrapper("xvfb-run", Zone::Build, 0, "a", "auto-servernum"),
    wrapper("firejail", Zone::Machine, 0, "", ""),
    wrapper("unshare", Zone::Machine, 0, "rmnpuifUC", ""),
    wrapper("nsenter", Zone::Machine, 0, "", ""),
    wrapper("chroot", Zone::Machine, 1, "", ""),
    wrapper("runuser", Zone::Machine, 0, "u:", ""),
];

/// The verdict on a command that runs another, if the name is one of those.
pub(crate) fn unwrap(name: &str, fields: &[Field]) -> Option<CommandVerdict> {
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.row.name == name) {
        return Some(simple(wrapper, fields));
    }
    Some(match name {
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "fish" | "rbash" => shell(name, fields),
        "su" => su(fields),
        "command" | "builtin" | "exec" => builtin(name, fields),
        "busybox" | "toybox" => {
            let mut verdict = CommandVerdict::new(Zone::Safe);
            verdict.words = plain_words(fields);
            if fields.len() > 1 {
                verdict.run(WrappedCommand::Program(fields[1..].to_vec()));
            }
            verdict
        }
        "xargs" | "gxargs" => xargs(fields),
        "parallel" | "entr" => not_analysed(fields, "runs what it reads"),
        "watch" => watch(fields),
        "script" | "expect" | "at" | "batch" | "setarch" | "x86_64" | "i386" | "i686"
        | "linux32" | "linux64" | "uname26" | "run0" | "setpriv" | "prlimit" | "choom"
        | "numactl" | "fakeroot" | "capsh" | "start-stop-daemon" | "daemonize" | "eatmydata"
        | "faketime" => not_analysed(fields, "runs commands in its own way"),
        "flock" => flock(fields),
        "ssh" | "mosh" => ssh(fields),
        "find" | "gfind" => crate::shell::find::verdict_of(fields),
        "fd" | "fdfind" if fields.iter().any(runs_for_each) => {
            not_analysed(fields, "runs a command for what it finds")
        }
        _ => return None,
    })
}

/// `-x`, `-X`, `--exec` and `--exec-batch` of `fd`, also among other letters.
fn runs_for_each(field: &Field) -> bool {
    let text = field.text.as_str();
    let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    letters.is_some_and(|letters| letters.contains(['x', 'X'])) || text.starts_with("--exec")
}

/// A command with only its own options before the one it runs.
fn simple(wrapper: &Wrapper, fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(wrapper.row.zone);
    let given = ParsedOptions::read(&wrapper.row, &fields[1..], Until::Operand);
    let mut kinds = vec![CommandWordKind::Name];
    kinds.extend(&given.kinds);
    verdict.add_reads(given.reads.iter().cloned());
    verdict.add_writes(given.writes.iter().cloned());
    if let Some(folder) = given.values(&["C", "D", "chdir"]).next() {
        verdict.enter(folder.clone());
    }
    if let Some(unknown) = &given.unknown {
        verdict.unclear(format!("`{} {unknown}` has an unknown option", wrapper.row.name));
    }
    if given.open.is_some() {
        verdict
            .unclear(format!("which words `{}` runs is only known when it runs", wrapper.row.name));
    }
    if wrapper.row.zone == Zone::Machine || given.has(&["i", "ignore-environment", "u", "unset"]) {
        verdict.clear_environment();
    }
    let mut rest = &fields[1 + given.read..];
    // `env -` is `env -i`.
    if wrapper.row.name == "env" && rest.first().is_some_and(|field| field.text == "-") {
        kinds.push(CommandWordKind::Option);
        rest = &rest[1..];
        verdict.clear_environment();
    }
    let assigned = |field: &&Field| wrapper.assigns && assigned_name(field).is_some();
    for (field, name) in
        rest.iter().take_while(assigned).filter_map(|field| Some((field, assigned_name(field)?)))
    {
        if names::is_influential(name) || field.may_split() {
            verdict.unclear(format!("`{name}=…` may change what a command does"));
        } else if !names::is_harmless(name) {
            verdict.unknown(format!("`{name}=…` before a command may change what it does"));
        }
        kinds.push(kind_of(field));
    }
    rest = &rest[rest.iter().take_while(assigned).count()..];
    let before = wrapper.before.min(rest.len());
    if let Some(open) = rest[..before].iter().find(|field| field.is_open()) {
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

/// A command that is not analysed further: a person is asked.
fn not_analysed(fields: &[Field], why: &str) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Build);
    verdict.words = plain_words(fields);
    verdict.unclear(format!("`{}` {why}", fields[0].text));
    verdict
}

static SHELL: ProgramRow = ProgramRow {
    name: "bash",
    zone: Zone::Build,
    takes: OperandKind::Text,
    short: "ceuxvlno:",
    long: "noprofile norc posix login verbose",
    plain: false,
    long_with_one_dash: false,
};

fn shell(name: &str, fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Safe);
    verdict.words = plain_words(fields);
    // `+x` turns off what `-x` turns on.
    let with_dash = |field: &Field| match field.text.strip_prefix('+') {
        Some(flags) if field.is_known() => Field::known(format!("-{flags}")),
        _ => field.clone(),
    };
    let fields: Vec<_> = fields.iter().map(with_dash).collect();
    let given = ParsedOptions::read(&SHELL, &fields[1..], Until::Operand);
    refuse_open(name, &given, &mut verdict);
    if let Some(unknown) =
        given.unknown.as_ref().filter(|unknown| *unknown != "-s" && *unknown != "--version")
    {
        verdict.unclear(format!("`{name} {unknown}` has an unknown option"));
    }
    for ((_, kind), read) in verdict.words[1..].iter_mut().zip(&given.kinds) {
        *kind = *read;
    }
    let rest = &fields[1 + given.read..];
    // A single dash ends the options.
    let rest = if rest.first().is_some_and(|field| field.text == "-") { &rest[1..] } else { rest };
    let reads_input = given.unknown.as_deref() == Some("-s");
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

static XARGS: ProgramRow = ProgramRow {
    name: "xargs",
    zone: Zone::Safe,
    takes: OperandKind::Text,
    short: "0rtxn:P:L:s:I:d:E:",
    long: "null no-run-if-empty verbose exit max-args= max-procs= max-lines? max-chars= replace? delimiter=",
    plain: false,
    long_with_one_dash: false,
};

/// The words that `xargs` appends are known only at run time.
fn xargs(fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Safe);
    verdict.words = plain_words(fields);
    let given = ParsedOptions::read(&XARGS, &fields[1..], Until::Operand);
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
    let placeholder = given.values(&["I", "replace"]).next().map(|field| field.text.clone());
    match placeholder.filter(|placeholder| !placeholder.is_empty()) {
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

static WATCH: ProgramRow = ProgramRow {
    name: "watch",
    zone: Zone::Safe,
    takes: OperandKind::Text,
    short: "n:d?tgxebcpq:",
    long: "interval= differences? no-title chgexit exec errexit beep color precise",
    plain: false,
    long_with_one_dash: false,
};

fn watch(fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::Safe);
    verdict.words = plain_words(fields);
    let given = ParsedOptions::read(&WATCH, &fields[1..], Until::Operand);
    refuse_open("watch", &given, &mut verdict);
    if let Some(unknown) = &given.unknown {
        verdict.unclear(format!("`watch {unknown}` has an unknown option"));
    }
    let rest = &fields[1 + given.read..];
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
        Some([file, rest @ ..]) if !file.text.starts_with('-') && !rest.is_empty() => {
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

static SSH: ProgramRow = ProgramRow {
    name: "ssh",
    zone: Zone::External,
    takes: OperandKind::Text,
    short: "46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o&p:Q:R:S:W:w:",
    long: "",
    plain: false,
    long_with_one_dash: false,
};

/// `ssh`: the command runs on another machine; the host counts.
fn ssh(fields: &[Field]) -> CommandVerdict {
    let mut verdict = CommandVerdict::new(Zone::External);
    verdict.words = plain_words(fields);
    let given = ParsedOptions::read(&SSH, &fields[1..], Until::Operand);
    refuse_open("ssh", &given, &mut verdict);
    if given.has(&["o", "F"]) || given.unknown.is_some() {
        verdict.unclear("an option of `ssh` may run a command here");
    }
    if let Some(host) = fields.get(1 + given.read) {
        verdict.add_address(host);
    }
    verdict
}
