//! Code for what rows of `programs.txt` cannot say: small languages in the words of a command. Pure.

use cotter::{builtin::PROTECTED, permission::Zone};

use crate::shell::{
    below::{FileFilter, RecursiveRead},
    command_verdict::CommandVerdict,
    copies::folder_of,
    expand::Field,
    git,
    options::ParsedOptions,
    sed,
    table::ProgramRow,
    wrappers::WrappedCommand,
};

/// Adds the effects that the words of a command have.
pub(crate) type Interpreter = fn(&ProgramRow, &ParsedOptions, &mut CommandVerdict);

/// The code that a rule names.
pub(crate) fn interpreter_of(name: &str) -> Option<Interpreter> {
    Some(match name {
        "data-files" => |_, given, verdict| data_files(given, verdict),
        "downloads" => |_, given, verdict| downloads(given, verdict),
        "git-address" => |row, given, verdict| git::address(row.name, given, verdict),
        "git-settings" => |_, given, verdict| git::settings(given, verdict),
        "interpreter" => |row, given, verdict| interpreter(row.name, given, verdict),
        "mktemp" => |_, given, verdict| mktemp(given, verdict),
        "modes" => |_, given, verdict| modes(given, verdict),
        "packed" => |row, given, verdict| packed(row.name, given, verdict),
        "remote-copies" => |row, given, verdict| remote_copies(row.name, given, verdict),
        "revisions" => |_, given, verdict| git::revisions(given, verdict),
        "ripgrep" => |_, given, verdict| ripgrep(given, verdict),
        "rsync" => |_, given, verdict| rsync(given, verdict),
        "sed" => |_, given, verdict| sed::refine(given, verdict),
        "split" => |_, given, verdict| split(given, verdict),
        "statements" => |_, given, verdict| statements(given, verdict),
        "zip" => |_, given, verdict| zip(given, verdict),
        _ => return None,
    })
}

/// The name of our own program.
pub(crate) const OWN_NAME: &str = "cotter";

/// Our own program: it can answer questions and grant trust, so an agent may only read through it. Nothing of
/// sessions is read this way: a title is the beginning of a prompt.
pub(crate) fn own_program(fields: &[Field], verdict: &mut CommandVerdict) {
    // A word known only at run time is not a read-only command.
    let words: Vec<_> = fields[1..].iter().map(|field| field.literal().unwrap_or("-?")).collect();
    let only_reads = match words.as_slice() {
        ["explain", rest @ ..] => {
            rest.iter().all(|word| !word.starts_with('-') || ["--json", "--batch"].contains(word))
        }
        ["--help" | "-h" | "--version" | "-V"] => true,
        [_, "--help" | "-h"] | ["list" | "show" | "check"] => true,
        // The next word is a path.
        ["trust" | "untrust", ..] => false,
        ["sessions", ..] => false,
        [group, "list" | "show" | "check", rest @ ..] => {
            !group.starts_with('-')
                && rest.iter().all(|word| !word.starts_with('-') || *word == "--json")
        }
        _ => false,
    };
    if !only_reads {
        verdict.raise(Zone::Never);
    }
    // A check reads the file and prints parts of it.
    if let [_, "check", ..] = words.as_slice() {
        let operands = fields.iter().skip(3).filter(|field| field.literal() != Some("--json"));
        verdict.add_reads(operands.cloned());
    }
}

/// The words of a command whose first word holds options without a dash.
pub(crate) fn dashed(row: &ProgramRow, fields: &[Field]) -> Option<Vec<Field>> {
    let first = fields.first()?.literal()?;
    if !row.letters || first.starts_with('-') {
        return None;
    }
    // Letters with a value take the following words, one after the other.
    let takes = |letter: &char| "fCbgIKLNTVXFH".contains(*letter);
    if first.chars().filter(takes).count() < 2 && !first.chars().rev().skip(1).any(|c| takes(&c)) {
        let mut fields = fields.to_vec();
        fields[0] = Field::known(format!("-{first}"));
        return Some(fields);
    }
    let mut rest = fields[1..].iter().cloned();
    let mut dashed = vec![];
    for letter in first.chars() {
        dashed.push(Field::known(format!("-{letter}")));
        dashed.extend(Some(letter).filter(takes).and_then(|_| rest.next()));
    }
    dashed.extend(rest);
    Some(dashed)
}

/// Files in the values of options, behind `@`: `-d @file`, `-F name=@file`.
fn data_files(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    for (name, value) in &given.options {
        let Some(value) = value else { continue };
        let file = value.text.split_once('@').filter(|(before, _)| {
            before.is_empty() || before.ends_with('=') || name == "data-urlencode"
        });
        if let Some((before, _)) = file {
            verdict.add_reads(value.without(&format!("{before}@")));
        }
    }
}

/// Files named after the address they come from.
fn downloads(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let folder = given.values(&["P", "directory-prefix", "output-dir"]).last();
    let folder = folder.map_or(".", |field| field.text.as_str());
    for address in given.operands.iter().chain(given.values(&["url"])) {
        let path = address.text.split(['?', '#']).next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        if file.contains(['%', '[', '{', '*'])
            || !address.is_known() && !address.text.contains("://")
        {
            verdict.unclear("the name of a file is made of its address");
        }
        verdict.add_writes([Field::known(format!("{folder}/{file}"))]);
    }
}

/// Statements that delete without a condition.
fn statements(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let values = given.options.iter().filter_map(|(_, value)| value.as_ref());
    for field in given.operands.iter().chain(values) {
        let folded = field.text.to_ascii_lowercase();
        let words: Vec<_> = folded
            .split(|c: char| c.is_whitespace() || c == ';')
            .filter(|w| !w.is_empty())
            .collect();
        let drops = words.windows(2).any(|pair| {
            let kinds =
                ["table", "database", "schema", "index", "view", "user", "role", "collection"];
            pair[0] == "drop" && kinds.contains(&pair[1])
        });
        let empties = words.contains(&"truncate")
            || words.contains(&"flushall")
            || words.contains(&"flushdb");
        let deletes =
            words.windows(2).any(|pair| pair == ["delete", "from"]) && !words.contains(&"where");
        let documents = folded.contains(".drop(")
            || folded.contains("dropdatabase(")
            || folded.contains("deletemany({})");
        if drops || empties || deletes || documents {
            verdict.destroys("a statement deletes what a database holds");
            return;
        }
    }
}

/// The mode of `chmod`. Without access to a folder, all below is out of reach.
fn modes(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if given.operands.first().is_some_and(keeps_access) {
        return;
    }
    verdict.add_closed(given.operands_after_text().cloned());
    if given.has(&["R", "recursive"]) {
        verdict.destroys("`chmod -R` changes who may do what with a whole folder");
    }
}

/// True if a mode of `chmod` takes no access from the owner, and does not open files to everybody.
fn keeps_access(mode: &Field) -> bool {
    let digits = mode.text.trim_start_matches('0');
    match mode.literal() {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.len() == 3 && digits.starts_with(['6', '7']) && digits != "777"
        }
        Some(text) => !text.contains(['-', '=']),
        None => false,
    }
}

/// A packed file has its name with a suffix, an unpacked one without.
fn packed(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let unpacks =
        name.starts_with("un") || name == "gunzip" || given.has(&["d", "decompress", "uncompress"]);
    let suffix = if name.ends_with("xz") { ".xz" } else { ".gz" };
    for operand in given.operands.iter().filter(|operand| operand.text != "-") {
        let made = operand.literal().and_then(|text| match unpacks {
            true => text.strip_suffix(suffix).map(str::to_owned),
            false => Some(format!("{text}{suffix}")),
        });
        match made {
            Some(made) => verdict.add_writes([Field::known(made)]),
            None => verdict.unclear(format!("what `{}` becomes is not known", operand.text)),
        }
    }
}

/// The archive is first. Without a dot in its name it gets one. It is packed beside it, under a name that stays
/// if `zip` is killed.
fn zip(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if let Some((archive, files)) = given.operands.split_first() {
        let name = archive.text.rsplit('/').next().unwrap_or_default();
        let suffix = if name.contains('.') { "" } else { ".zip" };
        if archive.text != "-" {
            verdict.add_writes([archive.with_suffix(suffix)]);
            verdict.add_writes(archive.literal().map(folder_of).map(Field::known));
        }
        verdict.add_reads(files.iter().cloned());
    }
}

/// The parts have a prefix as name, with letters or digits behind it.
fn split(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let begin = given.operands.get(1).map_or("x", |field| field.text.as_str());
    let name = begin.rsplit('/').next().unwrap_or_default();
    verdict.add_filled(Field::known(folder_of(begin)), name);
    let may_be =
        |path: &&str| path.len() > name.len() && path[..name.len()].eq_ignore_ascii_case(name);
    if !name.is_ascii() || PROTECTED.iter().any(may_be) {
        verdict
            .unclear(format!("a piece of `{begin}…` may be a file that decides what runs later"));
    }
}

/// The files that `rg` searches: those that are neither hidden nor ignored, and all that a glob asks for.
fn ripgrep(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let is_asked_for = |glob: &&Field| !glob.text.starts_with('!');
    let globs = given.values(&["g", "glob", "iglob"]).filter(is_asked_for);
    // The last part of a glob is compared with the names of files. `None`: it may be any name.
    let name = |glob: &Field| {
        let name = glob.literal()?.rsplit('/').next()?;
        (!name.is_empty() && !name.contains(['{', '\\'])).then(|| name.to_owned())
    };
    let names: Option<Vec<_>> = globs.map(name).collect();
    let sees_all = given.has(&["hidden", "u", "unrestricted", "iglob"]) || names.is_none();
    let names = names.filter(|_| !sees_all).unwrap_or_default();
    verdict.read_recursively(RecursiveRead {
        follows_links: given.has(&["L", "follow"]),
        only: match sees_all || !names.is_empty() {
            true => FileFilter::Nothing,
            false => FileFilter::Hidden,
        },
        whole_repository: false,
        names,
    });
}

/// True if `rsync` reads a word as a path on another machine.
pub(crate) fn is_remote(field: &Field) -> bool {
    field.text.starts_with("rsync://")
        || field.text.split('/').next().is_some_and(|head| head.contains(':'))
}

fn rsync(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if let Some(remote) = given.operands.iter().find(|field| is_remote(field)) {
        verdict.raise(Zone::External);
        verdict.add_address(remote);
    }
}

/// Words with a host are addresses, the others are files.
fn remote_copies(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let (remote, local): (Vec<_>, Vec<_>) =
        given.operands.iter().partition(|field| field.text.contains(':') || name == "sftp");
    remote.into_iter().for_each(|address| verdict.add_address(address));
    verdict.add_reads(local.into_iter().cloned());
}

/// A program that runs a script: without a script it runs its input.
fn interpreter(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let script = given.operands.first().filter(|field| field.text != "-" && !is_pipe(field));
    // `python3 -m pip install` is `pip install`.
    let module =
        given.values(&["m"]).any(|module| matches!(module.text.as_str(), "pip" | "ensurepip"));
    let fetches = |field: &Field| matches!(field.text.as_str(), "install" | "download");
    if module && given.operands.iter().any(fetches) {
        verdict.raise(Zone::Network);
    }
    let runs_no_input =
        given.has(&["m", "V", "v", "version", "test", "help", "h"]) || given.unknown.is_some();
    if script.is_none() && !runs_no_input {
        verdict.run(WrappedCommand::Input { shell: name.to_owned() });
    }
}

/// A name is made from a template, in its folder; without one, in the temp folder.
fn mktemp(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let folder_of = |field: &Field| match field.literal() {
        Some(text) => Field::known(folder_of(text)),
        None => field.clone(),
    };
    verdict.add_writes(given.operands.iter().map(folder_of));
    verdict.add_writes(given.values(&["p", "tmpdir"]).cloned());
}

/// True if a word is a pipe, or the name of standard input.
pub(crate) fn is_pipe(field: &Field) -> bool {
    field.text.starts_with("/dev/fd/")
        || field.text.starts_with("/proc/self/fd/")
        || field.text == "/dev/stdin"
}
