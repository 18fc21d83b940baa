//! The stored sessions, and the search for one by its id.

use std::{fs, future::ready, path::PathBuf, sync::Arc};

use cotter::{
    history::{
        entry::SessionHeader,
        jsonl::{JsonlStore, LoadedSession, load},
        store::{Log, SessionSummary, Store, StoreError, StoreLine, StoredSession, SyncFuture},
    },
    text,
};
use smol_str::SmolStr;

use crate::{error::CliError, paths, setup};

/// The sessions of the person on this machine.
pub(crate) struct Sessions {
    folder: PathBuf,
    pub(crate) store: JsonlStore,
}

impl Sessions {
    pub(crate) fn open() -> Result<Self, CliError> {
        let folder = paths::sessions()?;
        Ok(Sessions { store: JsonlStore::new(&folder), folder })
    }

    /// Returns the folder for results that are too long for a model.
    pub(crate) fn spill(&self) -> PathBuf {
        self.folder.join("spill")
    }

    /// Finds a session by its id, or by the beginning of its id.
    pub(crate) fn find(&self, typed: &str) -> Result<SmolStr, CliError> {
        if self.store.path(typed).is_ok_and(|path| path.exists()) {
            return Ok(typed.into());
        }
        let ids = self.ids();
        let fitting = |id: &&SmolStr| !typed.is_empty() && id.starts_with(typed);
        match *ids.iter().filter(fitting).collect::<Vec<_>>() {
            [only] => Ok(only.clone()),
            [] => Err(unknown(typed, &ids)),
            [first, second, ..] => {
                let shown = text::show_line(typed).into_owned();
                Err(CliError::new(format!("more than one session begins with `{shown}`"))
                    .with_hint(format!("type more of the id: `{first}`, `{second}`, …")))
            }
        }
    }

    /// Finds a session by its id, or the last one of this folder if no id was typed.
    pub(crate) fn find_or_last(&self, typed: Option<&str>) -> Result<SmolStr, CliError> {
        let Some(typed) = typed else {
            let last = setup::last_session(&self.store, &paths::find_workspace(None)?);
            return last.map_err(|failure| {
                failure.with_hint(
                    "`cotter sessions list` shows the sessions of other folders; name one",
                )
            });
        };
        self.find(typed)
    }

    /// Reads the file of a session and parses it, without opening it for writing.
    pub(crate) fn read(&self, id: &str) -> Result<(Vec<u8>, LoadedSession), CliError> {
        let path = self.store.path(id)?;
        let shown = path.display();
        let bytes = fs::read(&path)
            .map_err(|cause| CliError::new(format!("cannot read {shown}")).with_cause(cause))?;
        let loaded = load(bytes.clone());
        if loaded.header.is_none() {
            let message =
                format!("{shown}:1: not a session: expected a line with \"type\":\"session\"");
            return Err(CliError::new(message).with_hint("the file was left as it is"));
        }
        Ok((bytes, loaded))
    }

    /// Returns every id, from the names of the files.
    pub(crate) fn ids(&self) -> Vec<SmolStr> {
        self.files().map(|(id, _)| id).collect()
    }

    /// Returns every id with the length of its file.
    pub(crate) fn lengths(&self) -> Vec<(SmolStr, u64)> {
        let length = |file: &fs::DirEntry| file.metadata().map_or(0, |metadata| metadata.len());
        self.files().map(|(id, file)| (id, length(&file))).collect()
    }

    /// Returns every id with its file, in the order of ids.
    fn files(&self) -> impl Iterator<Item = (SmolStr, fs::DirEntry)> + use<> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let named = |file: fs::DirEntry| {
            let name = file.file_name();
            Some((SmolStr::from(name.to_str()?.strip_suffix(".jsonl")?), file))
        };
        let mut files: Vec<_> = files.filter_map(named).collect();
        files.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        files.into_iter()
    }
}

/// A store that creates a session with its first line. A command that only reports leaves no file behind.
pub(crate) struct LazyStore(Arc<JsonlStore>);

impl LazyStore {
    pub(crate) fn new(store: JsonlStore) -> Self {
        LazyStore(Arc::new(store))
    }
}

impl Store for LazyStore {
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn Log>, StoreError> {
        Ok(Box::new(LazyLog { store: self.0.clone(), header: header.clone(), log: None }))
    }

    fn open(&self, id: &str) -> Result<StoredSession, StoreError> {
        self.0.open(id)
    }

    fn new_id(&self) -> SmolStr {
        self.0.new_id()
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.0.list()
    }

    fn lines(&self, id: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        self.0.lines(id)
    }
}

/// The log of a session that is created with its first line.
struct LazyLog {
    store: Arc<JsonlStore>,
    header: SessionHeader,
    log: Option<Box<dyn Log>>,
}

impl Log for LazyLog {
    fn append(&mut self, lines: &[StoreLine]) -> Result<(), StoreError> {
        match &mut self.log {
            Some(log) => log.append(lines),
            None => self.log.insert(self.store.create(&self.header)?).append(lines),
        }
    }

    fn sync(&mut self) -> SyncFuture {
        match &mut self.log {
            Some(log) => log.sync(),
            None => Box::pin(ready(Ok(()))),
        }
    }

    fn start_sync(&mut self) {
        if let Some(log) = &mut self.log {
            log.start_sync();
        }
    }
}

fn unknown(typed: &str, ids: &[SmolStr]) -> CliError {
    let shown = text::show_line(typed).into_owned();
    let failure = CliError::new(format!("there is no session `{}`", text::cut_chars(&shown, 60)));
    let ids = ids.iter().map(SmolStr::as_str);
    failure.suggest(typed, ids, "`cotter sessions list` shows the sessions")
}
