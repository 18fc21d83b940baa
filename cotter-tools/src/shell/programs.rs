//! Rules for special commands, beyond their rows of the table. Pure.

use cotter::{builtin::PROTECTED, permission::Zone};

use crate::shell::{
    below::RecursiveRead,
    command_verdict::CommandVerdict,
    copies::folder_of,
    expand::Field,
    git,
    options::ParsedOptions,
    sed,
    table::{OperandKind, ProgramRow},
    wrappers::WrappedCommand,
};

/// The name of our own program.
pub(crate) const OWN_NAME: &str = "cotter";

/// Our own program: it can answer questions and grant trust, so an agent may only read through it.
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

/// Options before a subcommand.
pub(crate) fn global(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if name != "git" {
        return;
    }
    if let Some(folder) = given.values(&["C"]).last() {
        verdict.enter(folder.clone());
    }
    if given.values(&["C"]).count() > 1 {
        verdict.unclear("each `-C` of `git` is relative to the one before");
    }
    verdict.add_reads(given.values(&["git-dir", "work-tree", "exec-path"]).cloned());
    let harmless = [
        "user.name=",
        "user.email=",
        "color.",
        "advice.",
        "core.quotepath=",
        "init.defaultbranch=",
    ];
    let is_harmless = |field: &Field| {
        let key = field.text.to_ascii_lowercase();
        field.is_known() && harmless.iter().any(|begin| key.starts_with(begin))
    };
    if given.values(&["c"]).any(|setting| !is_harmless(setting))
        || given.has(&["config-env", "exec-path"])
    {
        verdict.unclear("a setting given to `git` may run a program");
    }
}

/// The words of a command whose first options may have no dash.
pub(crate) fn dashed(name: &str, fields: &[Field]) -> Option<Vec<Field>> {
    let first = fields.first()?.literal()?;
    if name != "tar" || first.starts_with('-') {
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

/// The zone and the operands of a command with these options, before any rule adds to them.
pub(crate) fn mode(row: &ProgramRow, given: &ParsedOptions) -> (Zone, OperandKind) {
    let has_operands = !given.operands.is_empty();
    match row.name {
        "gzip" | "gunzip" if given.has(&["c", "stdout", "to-stdout", "l", "list", "t", "test"]) => {
            (Zone::Safe, OperandKind::Reads)
        }
        "git clean" if given.has(&["n", "dry-run"]) => (Zone::Safe, OperandKind::Reads),
        "install" if given.has(&["d", "directory"]) => (row.zone, OperandKind::Writes),
        "tee" if !has_operands => (Zone::Safe, row.takes),
        "unzip" if given.has(&["l", "v", "t", "p"]) => (Zone::Safe, row.takes),
        "tar" if tar_mode(given) == (false, true, false) => (Zone::Safe, row.takes),
        "sed" if given.has(&["i", "in-place"]) => (Zone::Workspace, row.takes),
        "git branch" if given.has(&BRANCH_CHANGES) || has_operands && !given.has(&BRANCH_LISTS) => {
            (Zone::Workspace, row.takes)
        }
        "git tag" if given.has(&TAG_CHANGES) || has_operands && !given.has(&TAG_LISTS) => {
            (Zone::Workspace, row.takes)
        }
        _ => (row.zone, row.takes),
    }
}

const BRANCH_CHANGES: [&str; 15] = [
    "d",
    "delete",
    "D",
    "m",
    "move",
    "M",
    "c",
    "C",
    "copy",
    "f",
    "force",
    "u",
    "set-upstream-to",
    "unset-upstream",
    "edit-description",
];

const BRANCH_LISTS: [&str; 14] = [
    "l",
    "list",
    "a",
    "all",
    "r",
    "remotes",
    "contains",
    "no-contains",
    "merged",
    "no-merged",
    "points-at",
    "show-current",
    "sort",
    "format",
];

const TAG_CHANGES: [&str; 4] = ["d", "delete", "f", "force"];

const TAG_LISTS: [&str; 8] =
    ["l", "list", "n", "contains", "no-contains", "merged", "no-merged", "points-at"];

/// The effects of options and operands together.
pub(crate) fn refine(row: &ProgramRow, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if let Some(read) = recursive_read(row.name, given) {
        verdict.read_recursively(read);
    }
    match row.name.split_once(' ').map_or(row.name, |(name, _)| name) {
        "git" => git::refine(row.name, given, verdict),
        "curl" | "wget" => {
            web(given, verdict);
            downloads(row.name, given, verdict);
        }
        "sed" => sed::refine(given, verdict),
        "npm" | "gh" | "docker" | "kubectl" | "terraform" | "helm" | "aws" => {
            remote_service(row.name, given, verdict)
        }
        "psql" | "mysql" | "sqlite3" | "mongosh" | "mongo" | "redis-cli" => {
            database(given, verdict)
        }
        "rm" | "rmdir" | "unlink" | "shred" | "truncate" | "chmod" | "chown" | "chgrp" | "dd"
        | "rsync" | "tar" | "gzip" | "gunzip" | "xz" | "unxz" | "split" => {
            files(row, given, verdict)
        }
        _ => others(row.name, given, verdict),
    }
}

/// How a command reads folders recursively, if it does.
fn recursive_read(name: &str, given: &ParsedOptions) -> Option<RecursiveRead> {
    if name == "git grep" {
        let only_tracked = !given.has(&["untracked", "no-index"]);
        return Some(RecursiveRead { only_tracked, ..RecursiveRead::default() });
    }
    let (goes, follows): (&[&str], &[&str]) = match name {
        "grep" | "egrep" | "fgrep" => {
            (&["r", "R", "recursive", "dereference-recursive"], &["R", "dereference-recursive"])
        }
        "rg" => (&["L", "follow", "hidden", "u", "unrestricted"], &["L", "follow"]),
        "cp" => (&["r", "R", "a", "recursive", "archive"], &["L"]),
        "rsync" => (&["r", "a", "recursive", "archive"], &[]),
        "tar" => (&["c", "create", "r", "append", "u", "update"], &["h", "dereference"]),
        "diff" => (&["r", "recursive"], &["r", "recursive"]),
        "zip" => (&["r"], &["r"]),
        _ => return None,
    };
    let is_recursive = |field: &Field| "recurse".starts_with(field.text.trim_start_matches('='));
    let by_value = name.ends_with("grep") && given.values(&["d", "directories"]).any(is_recursive);
    (given.has(goes) || by_value)
        .then(|| RecursiveRead { follows_links: given.has(follows), ..RecursiveRead::default() })
}

/// Fetched addresses, sent data, and files made from them.
fn web(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let sends = [
        "d",
        "data",
        "data-raw",
        "data-binary",
        "data-urlencode",
        "data-ascii",
        "json",
        "F",
        "form",
        "form-string",
        "T",
        "upload-file",
        "post-data",
        "post-file",
        "body-data",
        "body-file",
    ];
    let methods = given.values(&["X", "request", "method"]);
    let asks = |field: &Field| matches!(field.literal(), Some("GET" | "HEAD" | "OPTIONS"));
    let changes = { methods }.any(|method| !asks(method));
    if changes || given.has(&sends) && !given.has(&["G", "get"]) {
        verdict.raise(Zone::External);
    }
    let carries =
        [&sends[..], &["H", "header", "u", "user", "b", "cookie", "oauth2-bearer"]].concat();
    for value in given.values(&carries) {
        let file = value.text.split_once('@').filter(|(before, _)| {
            before.is_empty() || before.ends_with('=') || given.has(&["data-urlencode"])
        });
        if let Some((before, _)) = file {
            verdict.add_reads(value.without(&format!("{before}@")));
        }
    }
    if given.has(&["post-file", "body-file"]) {
        verdict.add_reads(given.values(&["post-file", "body-file"]).cloned());
    }
    given.values(&["url", "x", "proxy"]).for_each(|address| verdict.add_address(address));
    if given.has(&[
        "K",
        "config",
        "execute",
        "use-askpass",
        "input-file",
        "J",
        "remote-header-name",
    ]) {
        verdict.unclear("a file or the host decides what it fetches");
    }
    if given
        .values(&["w", "write-out"])
        .any(|format| format.text.contains("%output") || format.text.starts_with('@'))
    {
        verdict.raise(Zone::External);
    }
    if given.has(&["O", "remote-name", "output-dir"]) {
        verdict.add_writes([Field::known(".")]);
    }
}

/// Files named after the address they come from.
fn downloads(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let named = match name {
        "curl" => given.has(&["O", "remote-name"]),
        _ => !given.has(&["O", "output-document", "spider"]),
    };
    if given.has(&["r", "recursive"]) && name == "wget" {
        verdict.unclear("the host decides what it fetches, and under which names");
    }
    let parts = |field: &&Field| field.text.contains('#');
    if name == "curl" && given.values(&["o", "output"]).any(|field| parts(&field)) {
        verdict.unclear("the name of a file is made of its address");
    }
    let folder = given.values(&["P", "directory-prefix", "output-dir"]).last();
    let folder = folder.map_or(".", |field| field.text.as_str());
    for address in given.operands.iter().chain(given.values(&["url"])).filter(|_| named) {
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

/// Commands that work on another machine.
fn remote_service(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let words: Vec<_> = given.operands.iter().map(|field| field.text.as_str()).collect();
    let destroys = match (name, words.as_slice()) {
        ("npm unpublish" | "kubectl delete", _) => true,
        ("gh repo", ["delete", ..]) | ("gh release", ["delete", ..]) => true,
        ("docker", ["system" | "volume" | "image" | "container", "prune", ..]) => true,
        ("docker", ["rm" | "rmi", ..]) | ("terraform", ["destroy", ..]) => true,
        ("helm", ["uninstall" | "delete", ..]) | ("aws", ["s3", "rm" | "rb", ..]) => true,
        ("terraform", ["apply", ..]) => given.kinds.len() > 1 && given.has(&["destroy"]),
        _ => false,
    };
    if destroys {
        verdict.destroys(format!("`{name}` deletes what cannot be brought back"));
    }
}

/// Statements that delete without a condition.
fn database(given: &ParsedOptions, verdict: &mut CommandVerdict) {
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

fn files(row: &ProgramRow, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let name = row.name;
    let recursive = given.has(&["r", "R", "recursive"]);
    let shown =
        || given.operands.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ");
    match name {
        "rm" if recursive => {
            verdict.add_removes(given.operands.iter().cloned());
            verdict.destroys(format!("`rm -r {}` deletes a folder with all it holds", shown()));
        }
        "rm" | "unlink" => {
            verdict.add_removes(given.operands.iter().cloned());
            verdict.destroys(format!("`{name} {}` deletes a file", shown()));
        }
        "rmdir" => verdict.add_removes(given.operands.iter().cloned()),
        "shred" | "truncate" => {
            verdict.destroys(format!("`{name} {}` deletes what files hold", shown()))
        }
        "chmod" | "chown" | "chgrp" => {
            verdict.add_writes(given.operands_after_text().cloned());
            let keeps = given.operands.first().is_some_and(keeps_access);
            // Without access to a folder, all below is out of reach.
            if recursive || !keeps && name == "chmod" {
                verdict.add_removes(given.operands_after_text().cloned());
            }
            if recursive && (!keeps || name == "chown") {
                verdict
                    .destroys(format!("`{name} -R` changes who may do what with a whole folder"));
            }
        }
        "dd" => dd(given, verdict),
        "rsync" => rsync(given, verdict),
        "tar" => tar(given, verdict),
        "gzip" | "gunzip" if mode(row, given).0 == Zone::Safe => {}
        "gzip" | "gunzip" | "xz" | "unxz" => packed(name, given, verdict),
        "split" => split(given, verdict),
        _ => {}
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
    let suffix = if name.ends_with("xz") { ".xz" } else { ".gz" };
    if given.has(&["r", "recursive"]) {
        verdict.unclear(format!("`{name} -r` writes files that it does not name"));
    }
    for operand in &given.operands {
        match operand.literal() {
            Some(text) => {
                let stem = text.rsplit_once('.').map(|(stem, _)| stem.to_owned());
                verdict.add_writes(stem.map(Field::known));
                verdict.add_writes([Field::known(format!("{text}{suffix}"))]);
            }
            None => verdict.unclear(format!("what `{}` becomes is not known", operand.text)),
        }
    }
}

/// The parts have a prefix as name, with letters or digits behind it.
fn split(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let begin = given.operands.get(1).map_or("x", |field| field.text.as_str());
    verdict.add_writes([Field::known(folder_of(begin))]);
    let name = begin.rsplit('/').next().unwrap_or_default();
    let may_be =
        |path: &&str| path.len() > name.len() && path[..name.len()].eq_ignore_ascii_case(name);
    if !name.is_ascii() || PROTECTED.iter().any(may_be) {
        verdict
            .unclear(format!("a piece of `{begin}…` may be a file that decides what runs later"));
    }
}

fn dd(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    for operand in &given.operands {
        verdict.add_reads(operand.without("if="));
        verdict.add_writes(operand.without("of="));
        if !operand.text.contains('=') {
            verdict.unclear(format!("`{}` is not an operand of `dd`", operand.text));
        }
    }
    if given.operands.iter().any(|operand| operand.text.starts_with("of=")) {
        verdict.destroys("`dd` writes over what is there");
    }
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
    if given.has(&["delete"]) {
        verdict.destroys("`rsync --delete` deletes what the source does not have");
    }
}

/// Whether `tar` makes, lists and unpacks an archive.
fn tar_mode(given: &ParsedOptions) -> (bool, bool, bool) {
    let makes = given.has(&["c", "create", "r", "append", "u", "update"]);
    (makes, given.has(&["t", "list"]), given.has(&["x", "extract", "get"]))
}

fn tar(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let archive: Vec<_> =
        given.values(&["f", "file"]).filter(|field| field.text != "-").cloned().collect();
    if let Some(folder) = given.values(&["C", "directory"]).next() {
        verdict.enter(folder.clone());
    }
    if given.values(&["C", "directory"]).count() > 1 {
        verdict.unclear("each `-C` of `tar` is relative to the one before");
    }
    if archive.iter().any(|field| field.text.contains(':')) {
        verdict.raise(Zone::External);
        verdict.unclear("`tar` reads the text before a `:` as a host");
    }
    match tar_mode(given) {
        (true, false, false) => {
            verdict.add_outer_writes(archive);
            verdict.add_reads(given.operands.iter().cloned());
        }
        (false, true, false) => {
            verdict.add_outer_reads(archive);
        }
        (false, false, true) => {
            verdict.add_outer_reads(archive);
            verdict.add_writes([Field::known(".")]);
            // The content of an archive is unknown: it may be a hook.
            verdict.raise(Zone::Build);
        }
        _ => verdict.raise(Zone::Build),
    }
}

fn copied(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
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

/// A `jq` program may read files.
fn jq(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if given.has(&["arg", "argjson", "slurpfile", "rawfile", "args", "jsonargs"]) {
        verdict.add_reads(given.operands.first().cloned());
    }
    if given
        .operands
        .iter()
        .any(|field| field.text.contains("import") || field.text.contains("include"))
    {
        verdict.raise(Zone::Build);
    }
    if given.has(&["f", "from-file", "L"]) {
        verdict.raise(Zone::Build);
    }
}

fn others(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let first = given.operands.first().map(|field| field.text.as_str()).unwrap_or_default();
    match name {
        "date" if given.operands.iter().any(|field| !field.text.starts_with('+')) => {
            verdict.raise(Zone::Machine)
        }
        "jq" => jq(given, verdict),
        "man" if given.operands.iter().any(|field| field.text.contains('/')) => {
            verdict.raise(Zone::Build);
            verdict.add_reads(given.operands.iter().cloned());
        }
        "ps" if shows_environments(given) => verdict.raise(Zone::Machine),
        "crontab" if given.has(&["r"]) => verdict.destroys("`crontab -r` deletes every entry"),
        "scp" | "sftp" => copied(name, given, verdict),
        "dig" | "host" | "nslookup" | "ping" | "nc" if first.starts_with(['@', '+']) => {
            verdict.unclear("the server that it asks is unclear")
        }
        "zip" => {
            let mut operands = given.operands.iter().filter(|field| field.text != "-").cloned();
            verdict.add_writes(operands.next());
            verdict.add_reads(given.operands.iter().skip(1).cloned());
        }
        "mktemp" => mktemp(given, verdict),
        "python" | "python3" | "perl" | "ruby" | "node" | "php" => {
            interpreter(name, given, verdict)
        }
        "source" | "." if given.operands.iter().any(is_pipe) => {
            verdict.unclear(format!("`{name}` runs what it reads"))
        }
        "unzip" if !given.has(&["l", "v", "t", "p"]) => {
            verdict.raise(Zone::Build);
            if !given.has(&["d"]) {
                verdict.add_writes([Field::known(".")]);
            }
        }
        "wait" if given.unknown.is_some() => {
            verdict.unclear("`wait -p` may evaluate what it is given")
        }
        _ => {}
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

/// `ps e` prints the environment of every process, with keys.
fn shows_environments(given: &ParsedOptions) -> bool {
    let letters = |field: &Field| !field.is_known() || field.text.contains(['e', 'E']);
    let formats = given.values(&["o", "format"]);
    given.operands.iter().any(letters) || { formats }.any(|format| format.text.contains("env"))
}

/// True if a word is a pipe, or the name of standard input.
pub(crate) fn is_pipe(field: &Field) -> bool {
    field.text.starts_with("/dev/fd/")
        || field.text.starts_with("/proc/self/fd/")
        || field.text == "/dev/stdin"
}
