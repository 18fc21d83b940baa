//! Rules for special commands, beyond their rows of the table. Pure.

use cotter::{builtin::PROTECTED, permission::Zone};

use crate::shell::{
    below::Deep, command_verdict::CommandVerdict, expand::Field, git, options::ParsedOptions, sed,
    table::ProgramRow, wrappers::WrappedCommand,
};

/// The name of our own program.
pub(crate) const OURS: &str = "cotter";

/// Our own program: it can answer questions and grant trust, so an agent may only read through it.
pub(crate) fn own(name: &str, fields: &[Field], judged: &mut CommandVerdict) {
    if name != OURS {
        return;
    }
    // A word known only at run time is not a read-only command.
    let words: Vec<_> = fields[1..].iter().map(|field| field.literal().unwrap_or("-?")).collect();
    let looks = match words.as_slice() {
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
    judged.zone = if looks { Zone::Safe } else { Zone::Never };
    // A check reads the file and prints parts of it.
    if let [_, "check", ..] = words.as_slice() {
        let operands = fields.iter().skip(3).filter(|field| field.literal() != Some("--json"));
        judged.reads.extend(operands.cloned());
    }
}

/// Options before a subcommand.
pub(crate) fn global(name: &str, given: &ParsedOptions, judged: &mut CommandVerdict) {
    if name != "git" {
        return;
    }
    judged.folder = given.values(&["C"]).last().cloned();
    if given.values(&["C"]).count() > 1 {
        judged.unclear("each `-C` of `git` starts where the one before led");
    }
    judged.reads.extend(given.values(&["git-dir", "work-tree", "exec-path"]).cloned());
    let harmless = [
        "user.name=",
        "user.email=",
        "color.",
        "advice.",
        "core.quotepath=",
        "init.defaultbranch=",
    ];
    let told = |field: &Field| {
        let key = field.text.to_ascii_lowercase();
        field.is_known() && harmless.iter().any(|begin| key.starts_with(begin))
    };
    if given.values(&["c"]).any(|setting| !told(setting)) || given.has(&["config-env", "exec-path"])
    {
        judged.unclear("a setting given to `git` may run a program");
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

/// The effects of options and operands together.
pub(crate) fn refine(row: &ProgramRow, given: &ParsedOptions, judged: &mut CommandVerdict) {
    judged.deep = deep(row.name, given);
    match row.name.split_once(' ').map_or(row.name, |(name, _)| name) {
        "git" => git::refine(row.name, given, judged),
        "curl" | "wget" => {
            web(given, judged);
            downloads(row.name, given, judged);
        }
        "sed" => sed::refine(given, judged),
        "npm" | "gh" | "docker" | "kubectl" | "terraform" | "helm" | "aws" => {
            elsewhere(row.name, given, judged)
        }
        "psql" | "mysql" | "sqlite3" | "mongosh" | "mongo" | "redis-cli" => database(given, judged),
        "rm" | "rmdir" | "unlink" | "shred" | "truncate" | "mv" | "chmod" | "chown" | "chgrp"
        | "dd" | "rsync" | "tar" | "gzip" | "gunzip" | "xz" | "unxz" | "split" | "install" => {
            files(row.name, given, judged)
        }
        _ => others(row.name, given, judged),
    }
}

/// How a command reads folders recursively, if it does.
fn deep(name: &str, given: &ParsedOptions) -> Option<Deep> {
    if name == "git grep" {
        let tracked = !given.has(&["untracked", "no-index"]);
        return Some(Deep { tracked, ..Deep::default() });
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
    given.has(goes).then(|| Deep { follows: given.has(follows), ..Deep::default() })
}

/// Fetched addresses, sent data, and files made from them.
fn web(given: &ParsedOptions, judged: &mut CommandVerdict) {
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
        judged.raise(Zone::External);
    }
    let carries =
        [&sends[..], &["H", "header", "u", "user", "b", "cookie", "oauth2-bearer"]].concat();
    for value in given.values(&carries) {
        let file = value.text.split_once('@').filter(|(before, _)| {
            before.is_empty() || before.ends_with('=') || given.has(&["data-urlencode"])
        });
        if let Some((before, _)) = file {
            judged.reads.extend(value.without(&format!("{before}@")));
        }
    }
    if given.has(&["post-file", "body-file"]) {
        judged.reads.extend(given.values(&["post-file", "body-file"]).cloned());
    }
    given.values(&["url", "x", "proxy"]).for_each(|address| judged.speaks_to(address));
    if given.has(&[
        "K",
        "config",
        "execute",
        "use-askpass",
        "input-file",
        "J",
        "remote-header-name",
    ]) {
        judged.unclear("what it fetches is told by a file or by the host");
    }
    if given
        .values(&["w", "write-out"])
        .any(|format| format.text.contains("%output") || format.text.starts_with('@'))
    {
        judged.raise(Zone::External);
    }
    if given.has(&["O", "remote-name", "output-dir"]) {
        judged.writes.push(Field::known("."));
    }
}

/// Files named after the address they come from.
fn downloads(name: &str, given: &ParsedOptions, judged: &mut CommandVerdict) {
    let named = match name {
        "curl" => given.has(&["O", "remote-name"]),
        _ => !given.has(&["O", "output-document", "spider"]),
    };
    if given.has(&["r", "recursive"]) && name == "wget" {
        judged.unclear("what it fetches, and under which names, is told by the host");
    }
    let parts = |field: &&Field| field.text.contains('#');
    if name == "curl" && given.values(&["o", "output"]).any(|field| parts(&field)) {
        judged.unclear("the name of a file is made of its address");
    }
    let folder = given.values(&["P", "directory-prefix", "output-dir"]).last();
    let folder = folder.map_or(".", |field| field.text.as_str());
    for address in given.operands.iter().chain(given.values(&["url"])).filter(|_| named) {
        let path = address.text.split(['?', '#']).next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        if file.contains(['%', '[', '{', '*'])
            || !address.is_known() && !address.text.contains("://")
        {
            judged.unclear("the name of a file is made of its address");
        }
        judged.writes.push(Field::known(format!("{folder}/{file}")));
    }
}

/// Commands that work on another machine.
fn elsewhere(name: &str, given: &ParsedOptions, judged: &mut CommandVerdict) {
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
        judged.destroys(format!("`{name}` deletes what cannot be brought back"));
    }
}

/// Statements that delete without a condition.
fn database(given: &ParsedOptions, judged: &mut CommandVerdict) {
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
            judged.destroys("a statement deletes what a database holds");
            return;
        }
    }
}

fn files(name: &str, given: &ParsedOptions, judged: &mut CommandVerdict) {
    let recursive = given.has(&["r", "R", "recursive"]);
    let shown =
        || given.operands.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ");
    match name {
        "rm" if recursive => {
            judged.removes = judged.writes.clone();
            judged.destroys(format!("`rm -r {}` deletes a folder with all it holds", shown()));
        }
        "rm" | "unlink" => {
            judged.removes = judged.writes.clone();
            judged.destroys(format!("`{name} {}` deletes a file", shown()));
        }
        "rmdir" => judged.removes = judged.writes.clone(),
        "shred" | "truncate" => {
            judged.destroys(format!("`{name} {}` deletes what files hold", shown()))
        }
        "mv" => {
            judged.removes = judged.reads.clone();
            judged.writes.append(&mut judged.reads.clone());
        }
        "chmod" | "chown" | "chgrp" => {
            judged.writes.append(&mut judged.reads);
            let open = given
                .operands
                .first()
                .is_some_and(|mode| mode.text.trim_start_matches('0') == "777");
            if recursive {
                judged.removes = judged.writes.clone();
            }
            if recursive && (open || name == "chown") {
                judged.destroys(format!("`{name} -R` changes who may do what with a whole folder"));
            }
        }
        "dd" => dd(given, judged),
        "rsync" => rsync(given, judged),
        "tar" => tar(given, judged),
        "gzip" | "gunzip" if given.has(&["c", "stdout", "to-stdout", "l", "list", "t", "test"]) => {
            judged.reads.append(&mut judged.writes);
            judged.only(given, Zone::Safe);
        }
        "gzip" | "gunzip" | "xz" | "unxz" => unpacked(given, judged),
        "split" => split(given, judged),
        "install" if given.has(&["d", "directory"]) => {
            judged.writes = given.operands.clone();
            judged.reads.clear();
        }
        "install" if given.operands.len() == 1 => judged.writes.push(Field::known(".")),
        _ => {}
    }
}

/// An unpacked file has its name without the suffix.
fn unpacked(given: &ParsedOptions, judged: &mut CommandVerdict) {
    for operand in &given.operands {
        match operand.literal().and_then(|text| text.rsplit_once('.')) {
            Some((stem, _)) => judged.writes.push(Field::known(stem)),
            None if operand.is_known() => {}
            None => judged.unclear(format!("what `{}` becomes is not known", operand.text)),
        }
    }
}

/// The parts have a prefix as name, with letters or digits behind it.
fn split(given: &ParsedOptions, judged: &mut CommandVerdict) {
    let begin = given.operands.get(1).map_or("x", |field| field.text.as_str());
    let name = begin.rsplit('/').next().unwrap_or_default();
    let may_be =
        |known: &&str| known.len() > name.len() && known[..name.len()].eq_ignore_ascii_case(name);
    if !name.is_ascii() || PROTECTED.iter().any(may_be) {
        judged.unclear(format!("a piece of `{begin}…` may be a file that decides what runs later"));
    }
}

fn dd(given: &ParsedOptions, judged: &mut CommandVerdict) {
    for operand in &given.operands {
        judged.reads.extend(operand.without("if="));
        judged.writes.extend(operand.without("of="));
        if !operand.text.contains('=') {
            judged.unclear(format!("`{}` is nothing `dd` takes", operand.text));
        }
    }
    if given.operands.iter().any(|operand| operand.text.starts_with("of=")) {
        judged.destroys("`dd` writes over what is there");
    }
}

fn rsync(given: &ParsedOptions, judged: &mut CommandVerdict) {
    let is_remote = |field: &&Field| {
        field.text.starts_with("rsync://")
            || field.text.split('/').next().is_some_and(|head| head.contains(':'))
    };
    if let Some(remote) = given.operands.iter().find(is_remote) {
        judged.reads.retain(|field| !is_remote(&field));
        judged.writes.retain(|field| !is_remote(&field));
        judged.raise(Zone::External);
        judged.speaks_to(remote);
    }
    if given.has(&["delete"]) {
        judged.destroys("`rsync --delete` deletes what the source does not have");
    }
}

fn tar(given: &ParsedOptions, judged: &mut CommandVerdict) {
    let archive: Vec<_> =
        given.values(&["f", "file"]).filter(|field| field.text != "-").cloned().collect();
    let makes = given.has(&["c", "create", "r", "append", "u", "update"]);
    let lists = given.has(&["t", "list"]);
    let unpacks = given.has(&["x", "extract", "get"]);
    judged.folder = given.values(&["C", "directory"]).next().cloned();
    if given.values(&["C", "directory"]).count() > 1 {
        judged.unclear("each `-C` of `tar` starts where the one before led");
    }
    if archive.iter().any(|field| field.text.contains(':')) {
        judged.raise(Zone::External);
        judged.unclear("`tar` takes what stands before a `:` for a host");
    }
    match (makes, lists, unpacks) {
        (true, false, false) => {
            judged.writes.extend(archive);
            judged.reads.extend(given.operands.iter().cloned());
        }
        (false, true, false) => {
            judged.reads.extend(archive);
            judged.only(given, Zone::Safe);
        }
        (false, false, true) => {
            judged.reads.extend(archive);
            judged.writes.push(Field::known("."));
            // The content of an archive is unknown: it may be a hook.
            judged.raise(Zone::Build);
        }
        _ => judged.raise(Zone::Build),
    }
}

fn copied(name: &str, given: &ParsedOptions, judged: &mut CommandVerdict) {
    let (there, here): (Vec<_>, Vec<_>) =
        given.operands.iter().partition(|field| field.text.contains(':') || name == "sftp");
    there.into_iter().for_each(|address| judged.speaks_to(address));
    judged.reads.extend(here.into_iter().cloned());
}

/// A program that runs a script: without a script it runs its input.
fn interpreter(name: &str, given: &ParsedOptions, judged: &mut CommandVerdict) {
    let script = given.operands.first().filter(|field| field.text != "-" && !is_pipe(field));
    // `python3 -m pip install` is `pip install`.
    let module =
        given.values(&["m"]).any(|module| matches!(module.text.as_str(), "pip" | "ensurepip"));
    let fetches = |field: &Field| matches!(field.text.as_str(), "install" | "download");
    if module && given.operands.iter().any(fetches) {
        judged.raise(Zone::Network);
    }
    let told =
        given.has(&["m", "V", "v", "version", "test", "help", "h"]) || given.unknown.is_some();
    if script.is_none() && !told {
        judged.inner.push(WrappedCommand::Input { shell: name.to_owned() });
    }
}

/// A `jq` program may read files.
fn jq(given: &ParsedOptions, judged: &mut CommandVerdict) {
    if given.has(&["arg", "argjson", "slurpfile", "rawfile", "args", "jsonargs"]) {
        judged.reads.extend(given.operands.first().cloned());
    }
    if given
        .operands
        .iter()
        .any(|field| field.text.contains("import") || field.text.contains("include"))
    {
        judged.raise(Zone::Build);
    }
    if given.has(&["f", "from-file", "L"]) {
        judged.raise(Zone::Build);
    }
}

fn others(name: &str, given: &ParsedOptions, judged: &mut CommandVerdict) {
    let first = given.operands.first().map(|field| field.text.as_str()).unwrap_or_default();
    match name {
        "date" if given.operands.iter().any(|field| !field.text.starts_with('+')) => {
            judged.raise(Zone::Machine)
        }
        "jq" => jq(given, judged),
        "man" if given.operands.iter().any(|field| field.text.contains('/')) => {
            judged.raise(Zone::Build);
            judged.reads.extend(given.operands.iter().cloned());
        }
        "ps" if shows_environments(given) => judged.raise(Zone::Machine),
        "crontab" if given.has(&["r"]) => judged.destroys("`crontab -r` deletes every entry"),
        "scp" | "sftp" => copied(name, given, judged),
        "dig" | "host" | "nslookup" | "ping" | "nc" if first.starts_with(['@', '+']) => {
            judged.unclear("where it asks is not plain")
        }
        "tee" if given.operands.is_empty() => judged.only(given, Zone::Safe),
        "zip" => {
            judged.writes.truncate(1);
            judged.reads.extend(given.operands.iter().skip(1).cloned());
        }
        "mktemp" => judged
            .writes
            .extend(given.operands.iter().filter(|field| field.text.contains('/')).cloned()),
        "ln" | "link" | "cp" if given.operands.len() > 1 => linked(name, given, judged),
        "cp" | "ln" | "install" if given.operands.len() == 1 => {
            judged.writes.push(Field::known("."))
        }
        "python" | "python3" | "perl" | "ruby" | "node" | "php" => interpreter(name, given, judged),
        "source" | "." if given.operands.iter().any(is_pipe) => {
            judged.unclear(format!("`{name}` runs what it reads"))
        }
        "unzip" if !given.has(&["l", "v", "t", "p"]) => {
            judged.raise(Zone::Build);
            if !given.has(&["d"]) {
                judged.writes.push(Field::known("."));
            }
        }
        "wait" if given.unknown.is_some() => {
            judged.unclear("`wait -p` may evaluate what it is given")
        }
        "unzip" if given.has(&["l", "v", "t", "p"]) => judged.only(given, Zone::Safe),
        _ => {}
    }
}

/// `ps e` prints the environment of every process, with keys.
fn shows_environments(given: &ParsedOptions) -> bool {
    let letters = |field: &Field| !field.is_known() || field.text.contains(['e', 'E']);
    let formats = given.values(&["o", "format"]);
    given.operands.iter().any(letters) || { formats }.any(|format| format.text.contains("env"))
}

/// A link gives its target another name: writing one writes the other. A symbolic link is relative
/// to its own folder.
fn linked(name: &str, given: &ParsedOptions, judged: &mut CommandVerdict) {
    let symbolic = given.has(&["s", "symbolic", "symbolic-link"]);
    let hard = name != "cp" && !symbolic || given.has(&["l", "link"]);
    if hard {
        judged.writes.extend(judged.reads.clone());
    }
    if !symbolic || given.has(&["r", "relative"]) && name == "ln" {
        return;
    }
    let folders: Vec<_> = match judged.into.iter().map(Field::literal).collect::<Option<Vec<_>>>() {
        Some(into) => into
            .iter()
            .flat_map(|into| [*into, into.rsplit_once('/').map_or(".", |(folder, _)| folder)])
            .map(str::to_owned)
            .collect(),
        None => return judged.unclear("where a link is made is only known when it runs"),
    };
    for source in std::mem::take(&mut judged.reads) {
        match source.literal() {
            Some(text) if !text.starts_with('/') => {
                judged.reads.extend(folders.iter().map(|f| Field::known(format!("{f}/{text}"))));
            }
            _ => judged.reads.push(source),
        }
    }
    judged.links = true;
}

/// True if a word is a pipe, or the name of standard input.
pub(crate) fn is_pipe(field: &Field) -> bool {
    field.text.starts_with("/dev/fd/")
        || field.text.starts_with("/proc/self/fd/")
        || field.text == "/dev/stdin"
}

impl CommandVerdict {
    /// Limits the zone, if every option was known.
    pub(crate) fn only(&mut self, given: &ParsedOptions, zone: Zone) {
        let plain = given.unknown.is_none()
            && self
                .doubts
                .iter()
                .all(|doubt| matches!(doubt, cotter::permission::facts::Doubt::Destructive(_)));
        self.zone = if plain { zone } else { self.zone.max(zone) };
    }
}
