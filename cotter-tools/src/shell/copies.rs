//! Programs that copy, move or link files: the sources they read, and the files they make. Pure.

use crate::shell::{
    command_verdict::CommandVerdict, expand::Field, options::ParsedOptions, programs,
};

/// The effects of the operands: files that are read, then one that is written.
pub(crate) fn add_operands(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let is_local = |field: &&Field| name != "rsync" || !programs::is_remote(field);
    let operands: Vec<_> = given.operands.iter().collect();
    let named: Vec<_> = given.values(&["t", "target-directory"]).cloned().collect();
    let (sources, into) = match operands.split_last() {
        _ if !named.is_empty() => (&operands[..], named),
        Some((last, sources)) if !sources.is_empty() => {
            verdict.add_writes(Some(*last).filter(is_local).cloned());
            (sources, vec![(*last).clone()])
        }
        // Alone, a source is linked or copied to this folder.
        _ if !operands.is_empty() && matches!(name, "cp" | "ln" | "install") => {
            verdict.add_writes([Field::known(".")]);
            (&operands[..], vec![Field::known(".")])
        }
        _ => (&operands[..], vec![]),
    };
    let sources: Vec<_> = sources.iter().map(|field| (*field).clone()).collect();
    let reads: Vec<_> = match makes_symbolic_links(name, given) {
        true => link_targets(name, given, &sources, &into, verdict),
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
    if given.has(&["b", "backup", "S", "suffix"]) {
        add_backups(name, &into, verdict);
    }
    if given.has(&["parents"]) {
        add_whole_paths(&sources, &into, verdict);
    }
    verdict.add_reads(reads);
    verdict.add_copies(sources, into);
}

/// With `--parents` a copy has the whole path of its source, below the target.
fn add_whole_paths(sources: &[Field], into: &[Field], verdict: &mut CommandVerdict) {
    for (source, into) in
        sources.iter().flat_map(|source| into.iter().map(move |into| (source, into)))
    {
        match (source.literal(), into.literal()) {
            (Some(source), Some(into)) => {
                verdict.add_writes([Field::known(format!("{into}/{source}"))]);
            }
            _ => verdict.unclear("where `--parents` writes is only known when it runs"),
        }
    }
}

/// What is written over is kept under a name of its own, beside the target or in it.
fn add_backups(name: &str, into: &[Field], verdict: &mut CommandVerdict) {
    for target in into.iter().filter(|_| matches!(name, "cp" | "mv" | "ln" | "install")) {
        verdict.add_writes(target.literal().map(folder_of).map(Field::known));
        verdict.add_writes([target.clone()]);
    }
}

fn makes_hard_links(name: &str, given: &ParsedOptions) -> bool {
    matches!(name, "ln" | "link") && !makes_symbolic_links(name, given)
        || name == "cp" && given.has(&["l", "link"])
}

fn makes_symbolic_links(name: &str, given: &ParsedOptions) -> bool {
    matches!(name, "ln" | "link" | "cp") && given.has(&["s", "symbolic", "symbolic-link"])
}

/// The files that new symbolic links lead to. A link's target is relative to the folder of the link.
fn link_targets(
    name: &str,
    given: &ParsedOptions,
    sources: &[Field],
    into: &[Field],
    verdict: &mut CommandVerdict,
) -> Vec<Field> {
    verdict.make_links();
    let Some(into) = into.iter().map(Field::literal).collect::<Option<Vec<_>>>() else {
        verdict.unclear("where a link is made is only known when it runs");
        return sources.to_vec();
    };
    if name == "ln" && given.has(&["r", "relative"]) {
        return sources.to_vec();
    }
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
