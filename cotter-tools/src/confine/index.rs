//! What the folders of the write roots contain that a command must not touch: protected paths at any
//! depth, files with secret names, and files that rules forbid.
//!
//! The first walk lists every folder. A later one lists only folders that changed: it compares the
//! time of their last change, which no program can set. No link is followed. The number of files is
//! bounded; past it the result is incomplete. A folder that cannot be listed counts as a whole.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::OsString,
    fs::{self, Metadata},
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use cotter::{
    Workspace,
    builtin::PROTECTED,
    permission::{file_rules::FileRules, rule::RuleKind, secret_files::is_secret},
};

use crate::confine::{guard::PathGuard, protect};

/// The most files and folders of all write roots together.
const MAX_ENTRIES: usize = 200_000;

/// The most paths of one kind that are found.
const MAX_FOUND: usize = 4_000;

/// A folder that changed less long ago than this is listed again: another change in the same tick of
/// the clock would not show.
const SETTLED_SECONDS: i64 = 3;

/// The folders known to a runner.
#[derive(Default)]
pub(crate) struct FileIndex(Mutex<IndexState>);

#[derive(Default)]
struct IndexState {
    folders: HashMap<PathBuf, Folder>,
    /// What the folders were searched for. `None`: not yet with any rules.
    rules: Option<(FileRules, Vec<PathBuf>)>,
    calls: CallLog,
}

/// The calls under way, as far as their ends depend on each other.
#[derive(Default)]
struct CallLog {
    begun: u64,
    under_way: BTreeMap<u64, Approvals>,
    /// Calls that were dropped before their end was checked, and remarks about such.
    unchecked: Vec<PendingCheck>,
    untold: Vec<String>,
}

/// Protected paths that may change while a call runs.
struct Approvals {
    /// Those that the call was approved to write.
    own: Vec<PathBuf>,
    /// These, and those of calls that ran at the same time.
    all: Vec<PathBuf>,
}

/// A listed folder.
struct Folder {
    id: FileId,
    changed: (i64, i64),
    is_settled: bool,
    entries: usize,
    /// Names of the folders in it that are walked.
    folders: Vec<OsString>,
    marked: Vec<Marked>,
    /// The numbers of its files, to find other names of a hidden one.
    files: Vec<u64>,
}

/// An entry that a command must not touch.
struct Marked {
    name: OsString,
    file: u64,
    is_folder: bool,
    is_protected: bool,
    /// It has a secret's name.
    is_secret: bool,
    read: Option<RuleKind>,
    write: Option<RuleKind>,
}

type FileId = (u64, u64);

/// The time after which a dropped check is done.
const DROPPED_AFTER: Duration = Duration::from_millis(500);

/// The most remarks about new protected paths of one call.
const MAX_REMARKS: usize = 4;

/// What a walk found.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundFiles {
    /// Protected paths, with the number of each and the folder it is in.
    pub(crate) protected: HashMap<PathBuf, (FileId, FileId)>,
    /// Files and folders that are not to be read.
    pub(crate) hidden: Vec<HiddenFile>,
    /// Files and folders that rules forbid to write.
    pub(crate) fixed: Vec<(PathBuf, RuleKind)>,
    /// True if every file was looked at.
    pub(crate) is_complete: bool,
}

/// A file or folder that is not to be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HiddenFile {
    pub(crate) path: PathBuf,
    /// The rule that forbids reading it; `None` for a secret's name alone.
    pub(crate) rule: Option<RuleKind>,
    /// Its other names: where a link leads, and hard links.
    pub(crate) also: Vec<PathBuf>,
}

impl FileIndex {
    /// Walks the write roots of a workspace. Without rules, those of the last walk hold.
    pub(crate) fn walk(&self, workspace: &Workspace, rules: Option<&FileRules>) -> FoundFiles {
        let mut state = self.lock();
        let roots: Vec<_> = workspace.write_roots().map(Path::to_path_buf).collect();
        let searched = state.rules.as_ref();
        let wanted = rules.or_else(|| searched.map(|(rules, _)| rules)).cloned();
        let wanted = (wanted.unwrap_or_default(), roots);
        if searched != Some(&wanted) {
            state.folders.clear();
            state.rules = Some(wanted.clone());
        }
        let walk = Walk::new(workspace, &wanted.0);
        walk.run(&mut state.folders, &wanted.1)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, IndexState> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// One walk.
struct Walk<'a> {
    workspace: &'a Workspace,
    rules: &'a FileRules,
    now: i64,
    entries: usize,
    found: FoundFiles,
}

impl<'a> Walk<'a> {
    fn new(workspace: &'a Workspace, rules: &'a FileRules) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let found = FoundFiles { is_complete: true, ..FoundFiles::default() };
        Walk { workspace, rules, now: now.cast_signed(), entries: 0, found }
    }

    fn run(mut self, known: &mut HashMap<PathBuf, Folder>, roots: &[PathBuf]) -> FoundFiles {
        let mut folders = HashMap::with_capacity(known.len());
        for root in roots {
            let mut pending = vec![root.clone()];
            while let Some(path) = pending.pop() {
                if folders.contains_key(&path) {
                    continue;
                }
                let Some(folder) = self.folder(&path, root, known.remove(&path)) else { continue };
                self.entries += folder.entries + 1;
                if self.entries > MAX_ENTRIES {
                    self.found.is_complete = false;
                    break;
                }
                pending.extend(folder.folders.iter().map(|name| path.join(name)));
                self.collect(&path, &folder);
                folders.insert(path, folder);
            }
        }
        self.add_named_paths();
        self.add_other_names(&folders);
        *known = folders;
        self.found
    }

    /// A folder as it is now: the known one if it did not change.
    fn folder(&self, path: &Path, root: &Path, known: Option<Folder>) -> Option<Folder> {
        let metadata = path.symlink_metadata().ok().filter(Metadata::is_dir)?;
        let (id, changed) = (id(&metadata), (metadata.ctime(), metadata.ctime_nsec()));
        let is_same =
            |known: &Folder| known.is_settled && known.id == id && known.changed == changed;
        if let Some(known) = known.filter(is_same) {
            return Some(known);
        }
        let is_settled = changed.0 < self.now - SETTLED_SECONDS;
        let mut folder = Folder {
            id,
            changed,
            is_settled,
            entries: 0,
            folders: vec![],
            marked: vec![],
            files: vec![],
        };
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            folder.entries += 1;
            if folder.entries > MAX_ENTRIES {
                break;
            }
            self.list(&mut folder, path, root, &entry);
        }
        Some(folder)
    }

    fn list(&self, folder: &mut Folder, path: &Path, root: &Path, entry: &fs::DirEntry) {
        let Ok(kind) = entry.file_type() else { return };
        let (name, is_folder) = (entry.file_name(), kind.is_dir());
        let full = path.join(&name);
        let below = full.strip_prefix(root).unwrap_or(&full);
        let marked = Marked {
            file: entry.ino(),
            is_folder,
            is_protected: is_protected_name(path, &name, is_folder),
            is_secret: match is_folder {
                // Of folders only those in which every file is secret.
                true => is_secret(&below.join("any")),
                false => is_secret(below),
            },
            read: self.rules.forbids_reading(&full, self.workspace),
            write: self.rules.forbids_writing(&full, self.workspace),
            name,
        };
        let is_hidden = marked.is_secret || marked.read.is_some();
        let is_git = is_folder && marked.name == ".git";
        if is_folder && !is_hidden && !is_git {
            folder.folders.push(marked.name.clone());
        } else if kind.is_file() {
            folder.files.push(marked.file);
        }
        if is_hidden || marked.is_protected || marked.write.is_some() {
            folder.marked.push(marked);
        }
    }

    fn collect(&mut self, path: &Path, folder: &Folder) {
        for marked in &folder.marked {
            let found =
                [self.found.protected.len(), self.found.hidden.len(), self.found.fixed.len()];
            if found.into_iter().any(|found| found >= MAX_FOUND) {
                self.found.is_complete = false;
                return;
            }
            let full = path.join(&marked.name);
            if marked.is_protected {
                let ids = ((folder.id.0, marked.file), folder.id);
                self.found.protected.insert(full.clone(), ids);
            }
            if marked.is_secret || marked.read.is_some() {
                self.found.hidden.push(HiddenFile {
                    also: if marked.is_folder { vec![] } else { self.target(&full) },
                    path: full.clone(),
                    rule: marked.read,
                });
            }
            self.found.fixed.extend(marked.write.map(|kind| (full, kind)));
        }
    }

    /// Where a hidden link leads. A folder outside the write roots is not hidden: a link could name any.
    fn target(&self, path: &Path) -> Vec<PathBuf> {
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let target = is_link.then(|| path.canonicalize().ok()).flatten();
        let is_inside = |target: &PathBuf| {
            target.is_file()
                || self
                    .workspace
                    .write_roots()
                    .any(|root| target.starts_with(root) && target != root)
        };
        target.filter(is_inside).into_iter().collect()
    }

    /// Adds the paths that rules name one by one: they may be outside the write roots.
    fn add_named_paths(&mut self) {
        let walked: HashSet<_> = self.found.hidden.iter().map(|file| file.path.clone()).collect();
        for path in self.rules.single_paths(self.workspace) {
            let Ok(path) = path.canonicalize() else { continue };
            if let Some(rule) = self.rules.forbids_reading(&path, self.workspace)
                && !walked.contains(&path)
            {
                let hidden = HiddenFile { path: path.clone(), rule: Some(rule), also: vec![] };
                self.found.hidden.push(hidden);
            }
            let fixed = self.rules.forbids_writing(&path, self.workspace);
            self.found.fixed.extend(fixed.map(|kind| (path, kind)));
        }
    }

    /// Adds the other names of hidden files: hard links in the walked folders.
    fn add_other_names(&mut self, folders: &HashMap<PathBuf, Folder>) {
        let mut linked: HashMap<u64, (FileId, usize)> = HashMap::new();
        for (at, hidden) in self.found.hidden.iter().enumerate() {
            if let Ok(metadata) = hidden.path.symlink_metadata()
                && metadata.is_file()
                && metadata.nlink() > 1
            {
                linked.insert(metadata.ino(), (id(&metadata), at));
            }
        }
        if linked.is_empty() {
            return;
        }
        let has_linked =
            |folder: &Folder| folder.files.iter().any(|file| linked.contains_key(file));
        for (path, _) in folders.iter().filter(|(_, folder)| has_linked(folder)) {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                let Some((file, at)) = linked.get(&entry.ino()) else { continue };
                let name = entry.path();
                if name.symlink_metadata().is_ok_and(|metadata| id(&metadata) == *file)
                    && self.found.hidden[*at].path != name
                {
                    self.found.hidden[*at].also.push(name);
                }
            }
        }
    }
}

fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

fn is_protected_name(folder: &Path, name: &std::ffi::OsStr, is_folder: bool) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let in_github = || folder.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".github"));
    PROTECTED.iter().any(|known| is(known)) || is_folder && is("workflows") && in_github()
}

impl FoundFiles {
    /// The paths that a command must not write: of a repository, those that decide what git runs, existing or
    /// not.
    pub(crate) fn unwritable(&self) -> Vec<PathBuf> {
        let mut paths = vec![];
        for path in self.protected.keys() {
            if path.ends_with(".git") && path.is_dir() {
                paths.extend(protect::protected_in_repository(path));
            } else {
                paths.push(path.clone());
            }
        }
        paths.sort_unstable();
        paths
    }
}

/// The check at the end of a call: protected paths that it created deeper in the project are taken
/// away. If it is dropped before, it is done soon, or when the next call begins.
pub(crate) struct EndCheck(Option<PendingCheck>);

impl std::fmt::Debug for EndCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("check at the end of a call")
    }
}

struct PendingCheck {
    index: Arc<FileIndex>,
    workspace: Workspace,
    /// The number of the call.
    number: u64,
    /// What there was before.
    before: FoundFiles,
    aside: PathBuf,
    /// True if what there was before could not be written.
    has_view: bool,
    outlives: bool,
}

impl EndCheck {
    /// Begins with a call. `approved` are the protected paths that it may write.
    pub(crate) fn begin(
        index: &Arc<FileIndex>,
        workspace: &Workspace,
        before: FoundFiles,
        approved: Vec<PathBuf>,
        aside: &Path,
        has_view: bool,
    ) -> Self {
        let number = index.lock().calls.begin(approved);
        EndCheck(Some(PendingCheck {
            index: index.clone(),
            workspace: workspace.clone(),
            number,
            before,
            aside: aside.into(),
            has_view,
            outlives: false,
        }))
    }

    /// The command outlives its call: remarks say so.
    pub(crate) fn outlives(mut self) -> Self {
        self.0.iter_mut().for_each(|check| check.outlives = true);
        self
    }

    /// Marks paths as approved while the command runs.
    pub(crate) fn approve(&self, paths: &[PathBuf]) {
        if let Some(check) = &self.0 {
            let calls = &mut check.index.lock().calls;
            let approvals = calls.under_way.get_mut(&check.number);
            approvals.into_iter().for_each(|approvals| approvals.all.extend(paths.iter().cloned()));
        }
    }

    /// Takes away what was created without approval, and reports it.
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.0.take().map_or(vec![], PendingCheck::finish)
    }
}

impl Drop for EndCheck {
    fn drop(&mut self) {
        if let Some(check) = self.0.take() {
            let index = check.index.clone();
            index.lock().calls.unchecked.push(check);
            // Its processes are being ended.
            std::thread::spawn(move || {
                std::thread::sleep(DROPPED_AFTER);
                index.finish_dropped();
            });
        }
    }
}

impl CallLog {
    /// Adds a call, and returns its number.
    fn begin(&mut self, own: Vec<PathBuf>) -> u64 {
        let mut all = own.clone();
        for other in self.under_way.values_mut() {
            all.extend(other.own.iter().cloned());
            other.all.extend(own.iter().cloned());
        }
        self.begun += 1;
        self.under_way.insert(self.begun, Approvals { own, all });
        self.begun
    }
}

impl FileIndex {
    /// Finishes the checks of calls that were dropped. The next remarks tell what they found.
    pub(crate) fn finish_dropped(&self) {
        let unchecked = std::mem::take(&mut self.lock().calls.unchecked);
        for check in unchecked {
            let remarks = check.finish();
            self.lock().calls.untold.extend(remarks);
        }
    }
}

impl PendingCheck {
    fn finish(self) -> Vec<String> {
        let found = self.index.walk(&self.workspace, None);
        let mut state = self.index.lock();
        let calls = &mut state.calls;
        let approved = calls.under_way.remove(&self.number).map_or(vec![], |call| call.all);
        let mut remarks = std::mem::take(&mut calls.untold);
        drop(state);
        let is_approved = |path: &Path| {
            approved.iter().any(|other| other.starts_with(path) || path.starts_with(other))
        };
        let mut new: Vec<PathBuf> = found
            .protected
            .iter()
            .filter(|(path, ids)| self.is_new(path, ids))
            .map(|(path, _)| path.clone())
            .collect();
        new.retain(|path| !is_approved(path));
        new.sort_unstable();
        // A folder goes with what is in it.
        new.dedup_by(|path, above| path.starts_with(above));
        let count = new.len();
        let taken = PathGuard::of_new(new, &self.aside, self.outlives).restore_all();
        remarks.extend(taken.into_iter().take(MAX_REMARKS));
        if count > MAX_REMARKS {
            let (more, aside) = (count - MAX_REMARKS, self.aside.display());
            remarks.push(format!("so it was with {more} more of its files; all are in {aside}"));
        }
        remarks
    }

    /// True if a protected path came with the call. One whose folder was moved is not new; one that
    /// took the place of another is, unless its folder is the same: then no command could do that, and
    /// it was a person. A `.git` is new in any case.
    fn is_new(&self, path: &Path, (file, folder): &(FileId, FileId)) -> bool {
        match self.before.protected.get(path) {
            // Without a view, it was restored.
            Some(_) if !self.has_view => false,
            Some((old_file, old_folder)) => {
                old_file != file && (old_folder != folder || path.ends_with(".git"))
            }
            None => !self.before.protected.values().any(|old| old == &(*file, *folder)),
        }
    }
}
