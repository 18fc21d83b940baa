//! A person's yes to the working copy of a folder: it holds at this terminal, until the terminal is closed.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use cotter::Workspace;
use cotter_files::trust::{
    snapshot::Snapshot,
    store::TrustStore,
    view::{texts, view},
};

use crate::{
    error::CliError,
    paths,
    terminal::style::ColorChoice,
    trust::{
        KNOWN_FILES, TrustSource, TrustSources, current_trust, declared, open_terminal, show_path,
        store,
    },
};

/// The time after which an old yes is removed. Its terminal is closed by then, or it is asked for again.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the trust state of every source of a project, each as if it were trusted as it is now. The person
/// at this terminal agrees once per folder; what they change afterwards runs without another question. Fails
/// without a terminal.
pub(crate) async fn trust_working_copy(
    workspace: &Workspace,
    color: ColorChoice,
) -> Result<TrustSources, CliError> {
    let terminal = open_terminal(color)?;
    let store = store(workspace.project())?;
    let sources = super::sources(workspace);
    let snapshots = sources.iter().map(|source| Ok(Snapshot::take(source)?));
    let snapshots = snapshots.collect::<Result<Vec<_>, CliError>>()?;
    let consent = Consent::of(workspace.project());
    if !consent.as_ref().is_some_and(Consent::is_given) {
        let shown = describe(workspace, &snapshots, &store)?;
        let more = || {
            let all = snapshots.iter().map(|snapshot| texts(snapshot, &KNOWN_FILES));
            all.collect::<String>()
        };
        if !terminal.confirm_or_show(&shown, more).await {
            return Err(CliError::refused("the answer was no: nothing was run"));
        }
        if let Some(consent) = consent {
            consent.give()?;
        }
    }
    admit_all(workspace, &snapshots, &store)
}

/// Returns the sources with the contents of these snapshots.
fn admit_all(
    workspace: &Workspace,
    snapshots: &[Snapshot],
    store: &TrustStore,
) -> Result<TrustSources, CliError> {
    let mut sources = current_trust(workspace, &[]);
    for snapshot in snapshots.iter().filter(|snapshot| !snapshot.is_empty()) {
        // Errors are told as `cotter trust` tells them.
        declared(snapshot)?;
        let state = store.admit(snapshot)?;
        let source = snapshot.source();
        match sources.0.iter_mut().find(|found| found.source == source) {
            Some(found) => found.state = state,
            None => sources.0.push(TrustSource { source: source.to_owned(), state }),
        }
    }
    Ok(sources)
}

/// The question, after everything that would run.
fn describe(
    workspace: &Workspace,
    snapshots: &[Snapshot],
    store: &TrustStore,
) -> Result<String, CliError> {
    let mut shown = String::new();
    for snapshot in snapshots.iter().filter(|snapshot| !snapshot.is_empty()) {
        shown += &format!("{}\n", view(snapshot, &declared(snapshot)?, &store.state(snapshot)));
    }
    let project = show_path(workspace.project());
    Ok(format!(
        "{shown}Run the hooks of {project} as they are on disk, also after changes, until this \
         terminal is closed?"
    ))
}

/// The file that says that a person agreed at this terminal to a folder.
struct Consent(PathBuf);

impl Consent {
    /// The file for a folder. `None` if the login session of this terminal cannot be told from others.
    fn of(folder: &Path) -> Option<Self> {
        let metadata = fs::metadata(folder).ok()?;
        let leader = rustix::process::getsid(None).ok()?.as_raw_nonzero();
        // A number of a process is used again later: its start and that of the machine tell which one it is.
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let stat = fs::read_to_string(format!("/proc/{leader}/stat")).ok()?;
        let started = start_of(&stat)?;
        let (boot, device, inode) = (boot.trim(), metadata.dev(), metadata.ino());
        let name = format!("{boot}-{leader}-{started}-{device}-{inode}");
        Some(Consent(paths::working_copies()?.join(name)))
    }

    fn is_given(&self) -> bool {
        let metadata = self.0.symlink_metadata().ok();
        let own = rustix::process::geteuid().as_raw();
        metadata.is_some_and(|metadata| {
            metadata.is_file() && metadata.uid() == own && is_new(&metadata)
        })
    }

    fn give(&self) -> Result<(), CliError> {
        let folder = self.0.parent().unwrap_or(Path::new("/"));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.metadata().is_ok_and(|metadata| !is_new(&metadata)) {
                // What cannot be removed has no effect: it is too old.
                let _ = fs::remove_file(entry.path());
            }
        }
        paths::write_private(&self.0, b"")
    }
}

fn is_new(metadata: &fs::Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|then| SystemTime::now().duration_since(then).ok());
    age.is_some_and(|age| age < RETENTION)
}

/// The time at which a process started, from its `stat`: the 22nd field. The name in parentheses may have
/// spaces.
fn start_of(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_of_a_process_is_read_after_its_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 2662400 221";
        assert_eq!(start_of(stat), Some("4711"));
    }
}
