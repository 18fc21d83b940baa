//! Programs that copy, move or link files: the sources they read, and the files they make. Pure.

use crate::shell::{
    command_verdict::CommandVerdict, expand::Field, options::ParsedOptions, programs,
};

/// The effects of the operands: files that are read, then one that is written.
pub(crate) fn add_operands(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let is_local = |field: &&Field| name != "rsync" || !programs::is_remote(field);
    let operands: Vec<_> = given.operands.iter().collect();
    let named = given.has(&["t", "target-directory"]);
    let (sources, into): (_, Vec<_>) = match operands.split_last() {
        Some((last, sources)) if !named && !sources.is_empty() => {
            verdict.add_writes(Some(*last).filter(is_local).cloned());
            (sources, vec![(*last).clone()])
        }
        _ => (&operands[..], given.values(&["t", "target-directory"]).cloned().collect()),
    };
    let sources: Vec<_> = sources.iter().map(|field| (*field).clone()).collect();
    let reads: Vec<_> = match links_elsewhere(name, given) {
        true => link_targets(&sources, &into, verdict),
        false => sources.iter().filter(|field| is_local(field)).cloned().collect(),
    };
    if makes_hard_links(name, given) {
        // Writing one name writes the other.
        verdict.add_writes(sources.iter().cloned());
    }
    if name == "mv" {
        verdict.add_removes(reads.iter().cloned());
        verdict.add_writes(reads.iter().cloned());
    }
    if given.operands.len() == 1 && matches!(name, "cp" | "ln" | "install") {
        verdict.add_writes([Field::known(".")]);
    }
    if given.has(&["b", "backup", "S", "suffix"]) {
        add_backups(name, &into, verdict);
    }
    verdict.add_reads(reads);
    verdict.add_copies(sources, into);
}

/// What is written over is kept under a name of its own, beside the target or in it.
fn add_backups(name: &str, into: &[Field], verdict: &mut CommandVerdict) {
    for target in into.iter().filter(|_| matches!(name, "cp" | "mv" | "ln" | "install")) {
        verdict.add_writes(target.literal().map(folder_of).map(Field::known));
        verdict.add_writes([target.clone()]);
    }
}

fn makes_hard_links(name: &str, given: &ParsedOptions) -> bool {
    let symbolic = given.has(&["s", "symbolic", "symbolic-link"]);
    let links = matches!(name, "ln" | "link") && !symbolic
        || matches!(name, "ln" | "link" | "cp") && given.has(&["l", "link"]);
    links && given.operands.len() > 1
}

/// True if it makes symbolic links whose targets are relative to their own folder.
fn links_elsewhere(name: &str, given: &ParsedOptions) -> bool {
    matches!(name, "ln" | "link" | "cp")
        && given.operands.len() > 1
        && given.has(&["s", "symbolic", "symbolic-link"])
        && !(name == "ln" && given.has(&["r", "relative"]))
}

/// The files that new symbolic links lead to.
fn link_targets(sources: &[Field], into: &[Field], verdict: &mut CommandVerdict) -> Vec<Field> {
    let Some(into) = into.iter().map(Field::literal).collect::<Option<Vec<_>>>() else {
        verdict.unclear("where a link is made is only known when it runs");
        return sources.to_vec();
    };
    verdict.make_links();
    let folders: Vec<_> = into.iter().flat_map(|into| [*into, folder_of(into)]).collect();
    let targets = sources.iter().flat_map(|source| match source.literal() {
        Some(text) if !text.starts_with('/') => {
            folders.iter().map(|folder| Field::known(format!("{folder}/{text}"))).collect()
        }
        _ => vec![source.clone()],
    });
    targets.collect()
}

/// The folder of a path.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(folder, _)| folder)
}
