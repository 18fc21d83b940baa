//! What only some commands do, beyond their rows of the table. Pure.

use cotter::permission::Zone;

use super::{
    expand::{Field, Shape},
    judge::Judged,
    options::Given,
    sed,
    table::Row,
};

/// Our own program: it answers questions and gives trust, so an agent may only look through it.
pub(super) fn own(name: &str, fields: &[Field], judged: &mut Judged) {
    if name != "cotter" {
        return;
    }
    let words: Vec<_> = fields[1..].iter().map(|field| field.literal().unwrap_or_default()).collect();
    let looks = match words.as_slice() {
        ["explain", ..] | ["--help" | "-h" | "--version" | "-V"] => true,
        [_, "--help" | "-h"] | ["list" | "show" | "check", ..] => true,
        [group, "list" | "show" | "check", ..] => !group.starts_with('-'),
        _ => false,
    };
    if !looks {
        judged.raise(Zone::Never);
    }
}

/// Options that stand before a command within another.
pub(super) fn global(name: &str, given: &Given, judged: &mut Judged) {
    if matches!(name, "git") {
        judged.folder = given.values(&["C"]).last().cloned();
    }
}

/// Words of a command whose first options may stand without a dash.
pub(super) fn dashed(name: &str, fields: &[Field]) -> Option<Vec<Field>> {
    let first = fields.first()?.literal()?;
    if name != "tar" || first.starts_with('-') {
        return None;
    }
    let mut fields = fields.to_vec();
    fields[0] = Field::known(format!("-{first}"));
    Some(fields)
}

/// What follows from options and operands together.
pub(super) fn refine(row: &Row, given: &Given, judged: &mut Judged) {
    match row.name.split_once(' ').map_or(row.name, |(name, _)| name) {
        "git" => git(row.name, given, judged),
        "curl" | "wget" => web(given, judged),
        "sed" => sed::refine(given, judged),
        "npm" | "gh" | "docker" | "kubectl" | "terraform" | "helm" | "aws" => elsewhere(row.name, given, judged),
        "psql" | "mysql" | "sqlite3" | "mongosh" | "mongo" | "redis-cli" => database(given, judged),
        "rm" | "rmdir" | "unlink" | "shred" | "truncate" | "mv" | "chmod" | "chown" | "chgrp" | "dd" | "rsync"
        | "tar" | "gzip" | "gunzip" => files(row.name, given, judged),
        _ => others(row.name, given, judged),
    }
}

fn git(name: &str, given: &Given, judged: &mut Judged) {
    let any = |names: &[&str]| given.has(names);
    let first = given.operands.first().map(|field| field.text.as_str()).unwrap_or_default();
    let second = given.operands.get(1).map(|field| field.text.as_str()).unwrap_or_default();
    let everything = |field: &Field| {
        matches!(field.text.as_str(), "." | "./" | ":/" | "..") || matches!(field.shape, Shape::Pattern(_))
    };
    match name {
        "git push" => {
            let forced = any(&["f", "force", "force-with-lease", "mirror", "d", "delete", "prune"]);
            let refs = given.operands.iter().skip(1).any(|field| field.text.starts_with(['+', ':']));
            if forced || refs {
                judged.destroys("`git push` overwrites or deletes what is elsewhere");
            }
            if first.contains(['/', ':']) {
                judged.speaks_to(&given.operands[0]);
            }
        }
        "git clone" | "git ls-remote" | "git fetch" | "git pull" => remote(name, given, judged),
        "git reset" if any(&["hard"]) => judged.destroys("`git reset --hard` throws changes away"),
        "git clean" => {
            if any(&["f", "force"]) && !any(&["n", "dry-run"]) {
                judged.destroys("`git clean -f` deletes files git does not know");
            }
            if any(&["n", "dry-run"]) && !any(&["f", "force"]) {
                judged.zone = if given.unknown.is_some() { judged.zone } else { Zone::Safe };
                judged.reads.append(&mut judged.writes);
            }
        }
        "git checkout" | "git restore" | "git switch" => {
            let staged = any(&["staged", "S"]) && !any(&["worktree", "W"]);
            let all = given.operands.iter().any(everything) && !staged;
            if all || any(&["f", "force", "discard-changes"]) {
                judged.destroys(format!("`{name}` throws changes away"));
            }
        }
        "git branch" => {
            let changes = any(&["d", "delete", "m", "move", "M", "c", "C", "copy", "f", "force", "u",
                "set-upstream-to", "unset-upstream", "edit-description"]);
            if any(&["D"]) || any(&["d", "delete"]) && any(&["f", "force"]) {
                judged.destroys("`git branch -D` deletes a branch with what only it has");
            }
            let lists = any(&["l", "list", "a", "all", "r", "remotes", "contains", "no-contains", "merged",
                "no-merged", "points-at", "show-current", "sort", "format"]);
            if any(&["D"]) || changes || !given.operands.is_empty() && !lists {
                judged.only(given, Zone::Workspace);
            }
        }
        "git tag" => {
            let lists = any(&["l", "list", "n", "contains", "no-contains", "merged", "no-merged", "points-at"]);
            if any(&["d", "delete", "f", "force"]) || !given.operands.is_empty() && !lists {
                judged.only(given, Zone::Workspace);
            }
            if any(&["s", "sign", "v", "verify"]) {
                judged.raise(Zone::Build);
            }
        }
        "git stash drop" | "git stash clear" => judged.destroys(format!("`{name}` throws changes away")),
        "git stash" if !first.is_empty() => judged.raise(Zone::Build),
        "git filter-branch" | "git filter-repo" => judged.destroys(format!("`{name}` rewrites history")),
        "git reflog expire" | "git reflog delete" => judged.destroys(format!("`{name}` forgets what was")),
        "git update-ref" if any(&["d"]) => judged.destroys("`git update-ref -d` deletes a branch"),
        "git symbolic-ref" if !second.is_empty() => judged.raise(Zone::Workspace),
        "git config" if !second.is_empty() || given.unknown.is_some() => {
            judged.raise(Zone::Build);
            judged.writes.push(Field::known(".git/config"));
        }
        "git remote" if !first.is_empty() => judged.writes.push(Field::known(".git/config")),
        "git log" | "git show" | "git diff" if any(&["show-signature"]) => judged.raise(Zone::Build),
        "git init" if given.operands.is_empty() => judged.writes.push(Field::known(".")),
        _ => {}
    }
}

fn remote(name: &str, given: &Given, judged: &mut Judged) {
    let Some(address) = given.operands.first() else { return };
    let text = address.text.as_str();
    let is_address = text.contains("://") || text.contains('@') || text.contains(':');
    if text.contains("::") {
        judged.unclear("`git` would run a helper for this address");
    } else if is_address || !address.is_known() {
        judged.speaks_to(address);
    } else if text.starts_with(['/', '.']) || name == "git clone" {
        judged.hosts.clear();
        judged.reads.push(address.clone());
    }
    if name == "git clone" {
        let folder = given.operands.get(1).cloned();
        let from = text.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
        let named = Field::known(from.trim_end_matches(".git"));
        judged.writes.push(folder.unwrap_or(named));
    }
}

/// Addresses that are fetched, what is sent to them, and files that are made of them.
fn web(given: &Given, judged: &mut Judged) {
    let sends = ["d", "data", "data-raw", "data-binary", "data-urlencode", "data-ascii", "json", "F", "form",
        "form-string", "T", "upload-file", "post-data", "post-file", "body-data", "body-file"];
    let methods = given.values(&["X", "request", "method"]);
    let asks = |field: &Field| matches!(field.literal(), Some("GET" | "HEAD" | "OPTIONS"));
    let changes = !methods.map(asks).all(|asks| asks);
    if changes || given.has(&sends) && !given.has(&["G", "get"]) {
        judged.raise(Zone::External);
    }
    let carries = [&sends[..], &["H", "header", "u", "user", "b", "cookie", "oauth2-bearer"]].concat();
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
    if given.has(&["K", "config", "execute", "use-askpass", "input-file", "J", "remote-header-name"]) {
        judged.unclear("what it fetches is told by a file or by the host");
    }
    if given.values(&["w", "write-out"]).any(|format| format.text.contains("%output") || format.text.starts_with('@')) {
        judged.raise(Zone::External);
    }
    if given.has(&["O", "remote-name", "output-dir"]) {
        judged.writes.push(Field::known("."));
    }
}

/// Commands whose work is elsewhere.
fn elsewhere(name: &str, given: &Given, judged: &mut Judged) {
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
fn database(given: &Given, judged: &mut Judged) {
    let values = given.options.iter().filter_map(|(_, value)| value.as_ref());
    for field in given.operands.iter().chain(values) {
        let folded = field.text.to_ascii_lowercase();
        let words: Vec<_> = folded.split(|c: char| c.is_whitespace() || c == ';').filter(|w| !w.is_empty()).collect();
        let drops = words.windows(2).any(|pair| {
            let kinds = ["table", "database", "schema", "index", "view", "user", "role", "collection"];
            pair[0] == "drop" && kinds.contains(&pair[1])
        });
        let empties = words.contains(&"truncate") || words.contains(&"flushall") || words.contains(&"flushdb");
        let deletes = words.windows(2).any(|pair| pair == ["delete", "from"]) && !words.contains(&"where");
        let documents = folded.contains(".drop(") || folded.contains("dropdatabase(") || folded.contains("deletemany({})");
        if drops || empties || deletes || documents {
            judged.destroys("a statement deletes what a database holds");
            return;
        }
    }
}

fn files(name: &str, given: &Given, judged: &mut Judged) {
    let recursive = given.has(&["r", "R", "recursive"]);
    let shown = || given.operands.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ");
    match name {
        "rm" => {
            judged.removes = judged.writes.clone();
            if recursive {
                judged.destroys(format!("`rm -r {}` deletes a folder with all it holds", shown()));
            }
        }
        "rmdir" | "unlink" => judged.removes = judged.writes.clone(),
        "shred" | "truncate" => judged.destroys(format!("`{name} {}` deletes what files hold", shown())),
        "mv" => {
            judged.removes = judged.reads.clone();
            judged.writes.append(&mut judged.reads.clone());
        }
        "chmod" | "chown" | "chgrp" => {
            judged.writes.append(&mut judged.reads);
            let open = given.operands.first().is_some_and(|mode| mode.text.trim_start_matches('0') == "777");
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
        "gzip" | "gunzip" => {
            if given.has(&["c", "stdout", "to-stdout", "l", "list", "t", "test"]) {
                judged.reads.append(&mut judged.writes);
                judged.only(given, Zone::Safe);
            }
        }
        _ => {}
    }
}

fn dd(given: &Given, judged: &mut Judged) {
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

fn rsync(given: &Given, judged: &mut Judged) {
    let is_remote = |field: &&Field| {
        field.text.starts_with("rsync://") || field.text.split('/').next().is_some_and(|head| head.contains(':'))
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

fn tar(given: &Given, judged: &mut Judged) {
    let archive: Vec<_> = given.values(&["f", "file"]).filter(|field| field.text != "-").cloned().collect();
    let makes = given.has(&["c", "create", "r", "append", "u", "update"]);
    let lists = given.has(&["t", "list"]);
    let unpacks = given.has(&["x", "extract", "get"]);
    judged.folder = given.values(&["C", "directory"]).next().cloned();
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
        }
        _ => judged.raise(Zone::Build),
    }
}

fn others(name: &str, given: &Given, judged: &mut Judged) {
    let first = given.operands.first().map(|field| field.text.as_str()).unwrap_or_default();
    match name {
        "date" if given.operands.iter().any(|field| !field.text.starts_with('+')) => judged.raise(Zone::Machine),
        "jq" => {
            if given.has(&["arg", "argjson", "slurpfile", "rawfile", "args", "jsonargs"]) {
                judged.reads.extend(given.operands.first().cloned());
            }
            if given.operands.iter().any(|field| field.text.contains("import") || field.text.contains("include")) {
                judged.raise(Zone::Build);
            }
        }
        "crontab" if given.has(&["r"]) => judged.destroys("`crontab -r` deletes every entry"),
        "scp" | "sftp" => {
            let remote = given.operands.iter().find(|field| field.text.contains(':') || name == "sftp");
            if let Some(remote) = remote {
                judged.speaks_to(remote);
            }
            let here = given.operands.iter().filter(|field| !field.text.contains(':') && name == "scp");
            judged.reads.extend(here.cloned());
        }
        "dig" | "host" | "nslookup" | "ping" | "nc" if first.starts_with(['@', '+']) => judged.unclear("where it asks is not plain"),
        "tee" if given.operands.is_empty() => judged.only(given, Zone::Safe),
        "mktemp" => judged.reads.extend(given.operands.iter().filter(|field| field.text.contains('/')).cloned()),
        "cp" | "ln" | "install" if given.operands.len() == 1 => judged.writes.push(Field::known(".")),
        "unzip" if given.has(&["l", "v", "t", "p"]) => judged.only(given, Zone::Safe),
        _ => {}
    }
}

impl Judged {
    /// Reaches this far and no further, as long as every option was known.
    fn only(&mut self, given: &Given, zone: Zone) {
        let plain = given.unknown.is_none() && self.doubts.iter().all(|doubt| {
            matches!(doubt, cotter::tool::Doubt::Destructive(_))
        });
        self.zone = if plain { zone } else { self.zone.max(zone) };
    }
}
