//! The sources in a project that run something, what each declares, and whether the person trusts it.

mod declared;
pub(crate) mod here;

use std::{
    io,
    path::{Path, PathBuf},
};

use cotter::{Workspace, text};
use cotter_files::{
    extensions::Diagnostic,
    trust::{
        Declared, KnownFile,
        snapshot::{Hash, Snapshot},
        source,
        store::{Grants, TrustState, TrustStore},
        view::{texts, view},
    },
};

pub(crate) use cotter_files::trust::source::{SourceKind, TrustSource};

pub(crate) use crate::trust::declared::{
    SourceSettings, declared, declared_of_space, read_own_format,
};

use crate::{
    args::TrustArgs,
    error::CliError,
    paths,
    terminal::{Terminal, screen::Screen, style::ColorChoice},
};

/// Returns the paths where a project may have its own settings, hooks and servers. They need not exist.
pub(crate) fn possible_sources(workspace: &Workspace) -> Vec<PathBuf> {
    source::possible_sources(workspace, paths::person_home().as_deref())
}

/// Returns the sources that exist.
pub(crate) fn sources(workspace: &Workspace) -> Vec<PathBuf> {
    let mut sources = possible_sources(workspace);
    sources.retain(|source| is_there(source));
    sources
}

/// Opens the store of trust records on this machine. A store inside the project is an error: a project could
/// bring trust in itself.
pub(crate) fn store(project: &Path) -> Result<TrustStore, CliError> {
    let folder = paths::trust().ok_or_else(|| {
        CliError::new(
            "cannot find the folder for trust records: neither `XDG_DATA_HOME` nor `HOME` is set",
        )
        .with_hint("set `HOME`")
    })?;
    if paths::belongs_to_project(&folder, project) {
        let message = format!(
            "the trust records in {} are inside the project, so they are not used",
            folder.display()
        );
        let hint = format!("keep your own data outside {}", project.display());
        return Err(CliError::new(message).with_hint(hint));
    }
    Ok(TrustStore::open(folder))
}

/// The sources of a project, each with its trust state.
pub(crate) struct TrustSources(pub(crate) Vec<TrustSource>);

impl TrustSources {
    /// Returns an empty list, for a run that looks at no source.
    pub(crate) fn empty() -> Self {
        TrustSources(vec![])
    }

    /// Fails if the trusted contents of a source cannot be read: a gate may be in them.
    fn check_copies(self, store: &TrustStore) -> Result<Self, CliError> {
        const HINT: &str = "it may contain a gate, so nothing runs: `cotter trust` asks for \
                            trust again, `--safe-mode` runs without the files of the project";
        if self.0.is_empty() {
            return Ok(self);
        }
        let records = store.list().map_err(|cause| {
            CliError::new("cannot read the trust records").with_cause(cause).with_hint(
                "a trusted source may contain a gate, so nothing runs: repair or remove the \
                 file; `--safe-mode` runs without the files of the project",
            )
        })?;
        let was_trusted =
            |found: &TrustSource| records.iter().any(|record| record.source == found.source);
        let lost =
            self.0.iter().filter(|found| was_trusted(found)).find_map(|found| match &found.state {
                TrustState::Unknown { reason: Some(reason) } => Some((found, reason)),
                _ => None,
            });
        match lost {
            None => Ok(self),
            Some((found, reason)) => {
                let message =
                    format!("cannot read the trusted copy of {}", show_path(&found.source));
                Err(CliError::new(message).with_cause(reason).with_hint(HINT))
            }
        }
    }

    /// Checks that the text of a file may reach the model: it is in no folder that needs trust, or it is part
    /// of what was trusted. An error is the reason.
    pub(crate) fn check_text(&self, path: &Path, workspace: &Workspace) -> Result<(), String> {
        let home = paths::person_home();
        let Some(folder) = source::folder_that_needs_trust(path, workspace, home.as_deref()) else {
            return Ok(());
        };
        match self.0.iter().any(|found| found.source == folder && found.has_text(path)) {
            true => Ok(()),
            false => Err(format!("is not part of a trusted {}", show_path(&folder))),
        }
    }

    /// Returns a line per source that is skipped, with the reason.
    pub(crate) fn skipped(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|found| {
            let source = show_path(&found.source);
            let effect = match found.kind() {
                SourceKind::Cotter | SourceKind::LocalSettings => {
                    "its trusted hooks and rules still apply, nothing else of it runs"
                }
                // Their hooks run in the project itself, where the contents differ from the trusted ones.
                SourceKind::Claude | SourceKind::Agents => {
                    "its rules still apply, its hooks block every call that they match until it \
                     is trusted again, nothing else of it runs"
                }
                SourceKind::Servers => "nothing of it runs",
            };
            match &found.state {
                TrustState::Trusted { .. } => None,
                TrustState::Changed { .. } => Some(format!(
                    "{source} changed since it was trusted: {effect} (`cotter trust` shows how \
                     it changed)"
                )),
                TrustState::Gone { why: Some(why), .. } => Some(format!("{why}: {effect}")),
                TrustState::Gone { .. } => Some(format!(
                    "{source} was trusted, and is gone: {effect} (`cotter untrust` removes the \
                     trust)"
                )),
                TrustState::Unknown { reason: Some(reason) } => {
                    Some(format!("nothing of {source} runs: {reason}"))
                }
                _ => Some(format!(
                    "nothing of {source} runs: it is not trusted yet (`cotter trust` shows it)"
                )),
            }
        })
    }
}

/// Returns the trust state of every source of a project, after the options for trust are applied to these
/// sources and to the named spaces. The options ask the person, trust a hash for this run, or refuse to run
/// if a source is skipped.
pub(crate) async fn resolve_trust(
    workspace: &Workspace,
    spaces: &[PathBuf],
    args: &TrustArgs,
    color: ColorChoice,
) -> Result<TrustSources, CliError> {
    let store = store(workspace.project());
    let mut prompt = TrustPrompt { args, color, terminal: None, unused_hashes: args.hashes() };
    let sources = prompt.settle_all(possible_sources(workspace), &store).await?;
    let of_spaces = prompt.settle_all(spaces.to_vec(), &store).await?;
    check(&sources, &of_spaces, &prompt.unused_hashes, args)?;
    match &store {
        Ok(store) => sources.check_copies(store),
        Err(_) => Ok(sources),
    }
}

/// Returns the trust state of every source of a project, for read-only commands.
pub(crate) fn scan_trust(workspace: &Workspace) -> TrustSources {
    let scanned = scan_sources(possible_sources(workspace), &store(workspace.project()));
    let found = |ScannedSource { source, state, .. }| TrustSource { source, state };
    TrustSources(scanned.into_iter().map(found).collect())
}

/// A source before the person is asked about it.
struct ScannedSource {
    source: PathBuf,
    state: TrustState,
    /// The contents, if the source could be read.
    snapshot: Option<Snapshot>,
}

/// Returns every source that exists or was trusted: a gate may have been in it.
fn scan_sources(sources: Vec<PathBuf>, store: &Result<TrustStore, CliError>) -> Vec<ScannedSource> {
    let records = store.as_ref().ok().and_then(|store| store.list().ok()).unwrap_or_default();
    let mut scanned = vec![];
    for source in sources {
        let was_trusted = records.iter().any(|record| record.source == source);
        let (state, snapshot) = match (is_there(&source), store) {
            (false, Ok(store)) => match store.state_of_missing(&source) {
                Some(state) => (state, None),
                None => continue,
            },
            (false, Err(_)) => continue,
            (true, store) => match (Snapshot::take(&source), store) {
                (Ok(snapshot), _) if snapshot.is_empty() && !was_trusted => continue,
                (Err(error), store) => {
                    let failure = CliError::from(error);
                    let store = store.as_ref().ok().filter(|_| was_trusted);
                    let trusted =
                        store.and_then(|s| s.state_of_unreadable(&source, failure.one_line()));
                    (trusted.unwrap_or_else(|| unknown_state(&failure)), None)
                }
                (Ok(_), Err(failure)) => (unknown_state(failure), None),
                (Ok(snapshot), Ok(store)) => (store.state(&snapshot), Some(snapshot)),
            },
        };
        scanned.push(ScannedSource { source, state, snapshot });
    }
    scanned
}

/// Returns the trust state of every source during a run that may use contents with these hashes.
pub(crate) fn current_trust(workspace: &Workspace, hashes: &[Hash]) -> TrustSources {
    let mut sources = scan_trust(workspace);
    let store = store(workspace.project());
    sources.0.iter_mut().for_each(|found| admit(found, &store, hashes));
    sources
}

/// Returns the trust state of one source during a run. `None` if it does not exist and was never trusted.
pub(crate) fn trust_state_of(
    source: &Path,
    store: &Result<TrustStore, CliError>,
    hashes: &[Hash],
) -> Option<TrustState> {
    let ScannedSource { source, state, .. } = scan_sources(vec![source.to_owned()], store).pop()?;
    let mut found = TrustSource { source, state };
    admit(&mut found, store, hashes);
    Some(found.state)
}

/// Admits the contents of a source if this run may use their hash.
fn admit(found: &mut TrustSource, store: &Result<TrustStore, CliError>, hashes: &[Hash]) {
    if hashes.is_empty() || matches!(found.state, TrustState::Trusted { .. }) {
        return;
    }
    let Ok(snapshot) = Snapshot::take(&found.source) else { return };
    let store = store.as_ref().ok().filter(|_| hashes.contains(&snapshot.hash()));
    let admitted = store.and_then(|store| store.admit(&snapshot).ok());
    found.state = admitted.unwrap_or_else(|| found.state.clone());
}

fn is_there(source: &Path) -> bool {
    source.symlink_metadata().is_ok()
}

/// The options for trust, and the terminal once the person was asked.
struct TrustPrompt<'a> {
    args: &'a TrustArgs,
    color: ColorChoice,
    terminal: Option<Terminal>,
    /// Hashes from the command line that no source has had so far.
    unused_hashes: Vec<Hash>,
}

impl TrustPrompt<'_> {
    async fn settle_all(
        &mut self,
        sources: Vec<PathBuf>,
        store: &Result<TrustStore, CliError>,
    ) -> Result<TrustSources, CliError> {
        let mut settled = TrustSources::empty();
        for ScannedSource { source, state, snapshot } in scan_sources(sources, store) {
            let state = match (store, snapshot) {
                (Ok(store), Some(snapshot)) => self.settle(store, &snapshot, state).await?,
                _ => state,
            };
            settled.0.push(TrustSource { source, state });
        }
        Ok(settled)
    }

    async fn settle(
        &mut self,
        store: &TrustStore,
        snapshot: &Snapshot,
        state: TrustState,
    ) -> Result<TrustState, CliError> {
        self.unused_hashes.retain(|hash| *hash != snapshot.hash());
        match state {
            trusted @ TrustState::Trusted { .. } => Ok(trusted),
            _ if self.args.hashes().contains(&snapshot.hash()) => {
                // A person who knows the hash was shown the contents before.
                declared(snapshot)?;
                Ok(store.admit(snapshot)?)
            }
            state if self.args.asks() => {
                let terminal = match self.terminal.take() {
                    Some(terminal) => terminal,
                    None => open_terminal(self.color)?,
                };
                let terminal = self.terminal.insert(terminal);
                let declared = declared(snapshot)?;
                let shown = SourceView { snapshot, declared: &declared, remarks: "" };
                ask(store, shown, state, Grants::default(), terminal).await
            }
            state => Ok(state),
        }
    }
}

/// Fails if a hash from the command line matches nothing. With `--require-trust`, fails if a source or space
/// is skipped.
fn check(
    sources: &TrustSources,
    spaces: &TrustSources,
    unused: &[Hash],
    args: &TrustArgs,
) -> Result<(), CliError> {
    if let Some(hash) = unused.first() {
        return Err(CliError::refused(format!("no source or space here has the hash {hash}"))
            .with_hint("`cotter trust --print` shows the hashes"));
    }
    let of_spaces = spaces.0.iter().filter_map(skip_reason);
    let mut skipped = sources.skipped().chain(of_spaces).peekable();
    if args.require && skipped.peek().is_some() {
        let failure = match sources.skipped().next() {
            Some(_) => CliError::refused("a source of the project is not trusted"),
            None => CliError::refused("a named space is not trusted"),
        };
        return Err(skipped
            .fold(failure, CliError::with_cause)
            .with_hint("`cotter trust` shows it and asks; `--trust=HASH` trusts it for one run"));
    }
    Ok(())
}

/// Returns the reason why a named space is not used whole.
fn skip_reason(space: &TrustSource) -> Option<String> {
    let source = show_path(&space.source);
    Some(match &space.state {
        TrustState::Trusted { .. } => return None,
        TrustState::Changed { .. } => {
            format!("{source} changed since it was trusted (`cotter trust {source}` shows how)")
        }
        TrustState::Gone { why: Some(why), .. } => why.clone(),
        TrustState::Gone { .. } => format!("{source} was trusted, and is gone"),
        TrustState::Unknown { reason: Some(reason) } => {
            format!("nothing of {source} is used: {reason}")
        }
        _ => format!("{source} is not trusted yet (`cotter trust {source}` shows it)"),
    })
}

/// A source as it is shown to a person who may trust it.
#[derive(Clone, Copy)]
pub(crate) struct SourceView<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) declared: &'a Declared,
    /// What this machine says besides, such as interpreters that do not start. May be empty.
    pub(crate) remarks: &'a str,
}

/// Shows a source and asks whether to trust it. After a no, its state stays the same.
pub(crate) async fn ask(
    store: &TrustStore,
    source: SourceView<'_>,
    state: TrustState,
    grants: Grants,
    terminal: &Terminal,
) -> Result<TrustState, CliError> {
    let SourceView { snapshot, declared, remarks } = source;
    let mut shown = view(snapshot, declared, &state);
    shown += remarks;
    if !grants.rewrite && may_rewrite(store, snapshot) {
        shown += "\nUntil now its hooks may rewrite calls and results. After a yes they may not \
                  (`--rewrite` lets them).\n";
    }
    match confirm(&shown, snapshot, grants, terminal).await {
        true => Ok(store.trust(snapshot, grants)?),
        false => Ok(state),
    }
}

/// True if an existing trust record lets the source rewrite calls and results.
fn may_rewrite(store: &TrustStore, snapshot: &Snapshot) -> bool {
    let records = store.list().unwrap_or_default();
    records.iter().any(|record| record.source == snapshot.source() && record.grants.rewrite)
}

/// Asks whether to trust what is shown. The person may read all files first.
pub(crate) async fn confirm(
    shown: &str,
    snapshot: &Snapshot,
    grants: Grants,
    terminal: &Terminal,
) -> bool {
    let question = match grants.rewrite {
        false => "Trust it as it is, and let it run?",
        true => "Trust it as it is, let it run, and let its hooks rewrite calls and results?",
    };
    let more = || format!("{}\n{question}", texts(snapshot, &KNOWN_FILES));
    terminal.confirm_or_show(&format!("{shown}\n{question}"), more).await
}

/// The schema of a project's settings, which `cotter init` writes beside them.
pub(crate) const SETTINGS_SCHEMA: &str = include_str!("../../schemas/project-settings.schema.json");

/// The files whose contents need not be shown.
pub(crate) const KNOWN_FILES: [KnownFile; 1] = [KnownFile {
    bytes: SETTINGS_SCHEMA.as_bytes(),
    description: "the schema that `cotter schema project-settings` prints",
}];

/// Opens the terminal on which trust is asked for. Only a person can give trust.
pub(crate) fn open_terminal(color: ColorChoice) -> Result<Terminal, CliError> {
    Terminal::open(color, Screen::default()).map_err(|cause: io::Error| {
        CliError::refused("there is no terminal to ask on, and only a person can give trust")
            .with_cause(cause)
            .with_hint(
                "`cotter trust --print` shows the contents and their hash; `--trust=HASH` trusts \
                 them for one run",
            )
    })
}

fn unknown_state(failure: &CliError) -> TrustState {
    TrustState::Unknown { reason: Some(failure.one_line()) }
}

/// Renders a path with control characters made visible.
pub(crate) fn show_path(path: &Path) -> String {
    text::show_line(&text::show_bytes(path.as_os_str().as_encoded_bytes())).into_owned()
}

/// Replaces paths inside a trusted copy with the paths that the author knows.
pub(crate) fn replace_copy_paths(diagnostics: &mut [Diagnostic], copy: &Path, source: &Path) {
    for diagnostic in diagnostics {
        if let Ok(within) = diagnostic.path.strip_prefix(copy) {
            diagnostic.path = source.join(within);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    #[test]
    fn s6_sources_are_listed_from_the_root_to_the_working_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in [".cotter", "p/.cotter", "p/a/b/.cotter", "p/a/c/.cotter"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in [".mcp.json", "p/.mcp.json", "p/a/.mcp.json"] {
            fs::write(root.join(name), "{}").unwrap();
        }
        let workspace = Workspace::new(&root.join("p/a/b")).with_project(&root.join("p"));
        fs::create_dir_all(root.join("p/a/b/.claude")).unwrap();
        let found = ["p/.cotter", "p/a/b/.claude", "p/a/b/.cotter", "p/.mcp.json"];
        assert_eq!(sources(&workspace), found.map(|name| root.join(name)));
        assert_eq!(possible_sources(&workspace).len(), 13);
    }
}
