//! `git`: what its commands discard, what they change, and which hosts they contact. Pure.

use cotter::permission::Zone;

use crate::shell::{
    command_verdict::CommandVerdict,
    expand::{Field, Shape},
    options::ParsedOptions,
};

/// The effects of options and operands together.
pub(crate) fn refine(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if SHOW_COMMANDS.contains(&name) {
        verdict.add_history_reads(given.operands.iter().filter_map(path_in_revision));
    }
    let named = given.before_dashes.is_some_and(|before| given.operands.len() > before);
    if name == "git grep" && !named {
        // A word may be a pattern or a file: without `--` the whole folder may be meant.
        verdict.add_reads([Field::known(".")]);
    }
    match name {
        "git push" => push(given, verdict),
        "git clone" | "git ls-remote" | "git fetch" | "git pull" => remote(name, given, verdict),
        "git branch" => branch(given, verdict),
        "git tag" => tag(given, verdict),
        "git clean" => clean(given, verdict),
        "git config" | "git remote" | "git symbolic-ref" | "git init" | "git stash" => {
            settings(name, given, verdict)
        }
        "git submodule" | "git bisect"
            if given
                .operands
                .iter()
                .any(|field| matches!(field.text.as_str(), "foreach" | "run")) =>
        {
            verdict.unclear(format!("`{name}` runs a command again and again"));
        }
        _ if given.has(&["show-signature"]) || checks_signatures(given) => {
            verdict.raise(Zone::Build)
        }
        _ => throws_away(name, given, verdict),
    }
}

/// Commands that show files of earlier revisions.
const SHOW_COMMANDS: [&str; 8] = [
    "git archive",
    "git cat-file",
    "git diff",
    "git diff-index",
    "git diff-tree",
    "git grep",
    "git log",
    "git show",
];

/// The file that a word names in a revision or in the index: `HEAD:.env`, `:0:.env`, `:/.env`.
fn path_in_revision(word: &Field) -> Option<Field> {
    let mut depth = 0;
    // Braces hold times and searches: `HEAD@{10:00}:.env`.
    let (at, _) = word.text.char_indices().find(|(_, char)| {
        depth += i32::from(*char == '{') - i32::from(*char == '}');
        *char == ':' && depth == 0
    })?;
    let mut path = &word.text[at + 1..];
    if at == 0 {
        let staged =
            path.strip_prefix(['0', '1', '2', '3']).and_then(|rest| rest.strip_prefix(':'));
        let magic = || path.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        path = match (staged, magic()) {
            (Some(rest), _) | (_, Some((_, rest))) => rest,
            // Excluded paths are not read.
            _ if path.starts_with(['!', '^']) => return None,
            _ => path.trim_start_matches('/'),
        };
    }
    let open = word.is_open() && path.contains(['$', '`']);
    (!path.is_empty()).then(|| if open { Field::open(path) } else { Field::known(path) })
}

/// True if a format needs a program that checks signatures.
fn checks_signatures(given: &ParsedOptions) -> bool {
    let formats = given.values(&["format", "pretty", "sort"]);
    { formats }.any(|format| format.text.contains("%G") || format.text.contains("signature"))
}

fn push(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let forced = given.has(&["f", "force", "force-with-lease", "mirror", "d", "delete", "prune"]);
    let refs = given.operands.iter().skip(1).any(|field| field.text.starts_with(['+', ':']));
    if forced || refs {
        verdict.destroys("`git push` overwrites or deletes what is elsewhere");
    }
    if let Some(address) = given.operands.first().filter(|field| field.text.contains(['/', ':'])) {
        verdict.add_address(address);
    }
}

fn remote(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let Some(address) = given.operands.first() else { return };
    let text = address.text.as_str();
    if text.contains("::") {
        verdict.unclear("`git` would run a helper for this address");
    } else if text.contains([':', '@']) || !address.is_known() {
        verdict.add_address(address);
    } else if text.starts_with(['/', '.']) || name == "git clone" {
        verdict.add_reads([address.clone()]);
    }
    if name == "git clone" {
        let from = text.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
        let named = Field::known(from.trim_end_matches(".git"));
        verdict.add_writes([given.operands.get(1).cloned().unwrap_or(named)]);
    }
}

fn branch(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if given.has(&["D", "M", "C", "f", "force"]) {
        verdict.destroys("`git branch` takes a name from commits that only it has");
    }
}

fn tag(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if given.has(&["s", "sign", "v", "verify"]) {
        verdict.raise(Zone::Build);
    }
}

fn clean(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    if given.has(&["f", "force"]) && !given.has(&["n", "dry-run"]) {
        verdict.destroys("`git clean -f` deletes files git does not know");
    }
}

/// Commands that read or change git's own data, by their number of words.
fn settings(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let operands = given.operands.len();
    match name {
        "git config"
            if operands > 1
                || given.operands.first().is_some_and(|field| field.text == "edit")
                || given.unknown.is_some() =>
        {
            verdict.raise(Zone::Build);
            verdict.add_writes([Field::known(".git/config")]);
        }
        "git remote" if operands > 0 => verdict.add_writes([Field::known(".git/config")]),
        "git symbolic-ref" if operands > 1 => verdict.raise(Zone::Workspace),
        "git init" if operands == 0 => verdict.add_writes([Field::known(".")]),
        "git stash" if operands > 0 => verdict.raise(Zone::Build),
        _ => {}
    }
}

fn throws_away(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let whole = |field: &Field| {
        matches!(field.text.as_str(), "." | "./" | ":/" | "..")
            || matches!(field.shape, Shape::Pattern(_))
    };
    let staged = given.has(&["staged", "S"]) && !given.has(&["worktree", "W"]);
    let named = given.before_dashes.is_some_and(|before| given.operands.len() > before);
    if name == "git reset" && given.has(&["keep", "merge"]) {
        verdict.raise(Zone::Build);
    }
    let what = match name {
        "git reset" if given.has(&["hard", "keep", "merge"]) => "throws changes away",
        "git restore" if !staged && !given.operands.is_empty() => "throws changes away",
        "git checkout" if named || given.operands.iter().any(whole) => "throws changes away",
        "git rm" if given.has(&["f", "force"]) && !given.has(&["cached"]) => "throws changes away",
        "git checkout" | "git switch" if given.has(&["f", "force", "discard-changes"]) => {
            "throws changes away"
        }
        "git stash drop" | "git stash clear" => "throws changes away",
        "git filter-branch" | "git filter-repo" => "rewrites history",
        "git reflog expire" | "git reflog delete" => "deletes the reflog",
        "git update-ref" => "moves or deletes a branch",
        "git gc" if given.has(&["prune", "aggressive"]) => "deletes what no branch has",
        "git prune" => "deletes what no branch has",
        _ => return,
    };
    verdict.destroys(format!("`{name}` {what}"));
}
