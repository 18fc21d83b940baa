//! What the folders of the write roots contain that a command must not touch: protected paths at any
//! depth, files with secret names, and files that rules forbid.
//!
//! The first walk lists every folder. A later one lists only folders that changed: it compares the
//! time of their last change, which no program can set. No link is followed. The number of files is
//! bounded; past it the result is incomplete. A folder that cannot be listed counts as a whole.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
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

use crate::confine::{guard::PathGuard, protect, rights};

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
    /// True if the last walk looked at every file.
    is_complete: bool,
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
    /// True if a remark said that there are too many files.
    is_limit_told: bool,
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
    is_listable: bool,
    entries: usize,
    /// Names of the folders in it, and whether a rule or its name hides the folder.
    folders: Vec<(OsString, bool)>,
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

/// The most remarks of one kind at the end of a call.
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
    /// Folders that cannot be listed.
    pub(crate) unlistable: BTreeSet<PathBuf>,
    /// Folders that could not be listed after a call, and were given back to their owner.
    given_back: Vec<PathBuf>,
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
        self.walk_with(workspace, rules, None)
    }

    /// True if the last walk of the write roots looked at every file. If there was none, it is made.
    pub(crate) fn is_complete(&self, workspace: &Workspace) -> bool {
        let state = self.lock();
        let is_known = |(_, roots): &(_, Vec<PathBuf>)| workspace.write_roots().eq(roots);
        let known = state.rules.as_ref().is_some_and(is_known).then_some(state.is_complete);
        drop(state);
        known.unwrap_or_else(|| self.walk(workspace, None).is_complete)
    }

    /// Walks with these rules; at the end of a call, with what there was before it.
    fn walk_with(
        &self,
        workspace: &Workspace,
        rules: Option<&FileRules>,
        before: Option<&FoundFiles>,
    ) -> FoundFiles {
        let mut state = self.lock();
        let roots: Vec<_> = workspace.write_roots().map(Path::to_path_buf).collect();
        let searched = state.rules.as_ref();
        let wanted = rules.or_else(|| searched.map(|(rules, _)| rules)).cloned();
        let wanted = (wanted.unwrap_or_default(), roots);
        if searched != Some(&wanted) {
            state.folders.clear();
            state.rules = Some(wanted.clone());
        }
        let walk = Walk::new(workspace, &wanted.0, before);
        let found = walk.run(&mut state.folders, &wanted.1);
        state.is_complete = found.is_complete;
        found
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, IndexState> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// One walk.
struct Walk<'a> {
    workspace: &'a Workspace,
    rules: &'a FileRules,
    /// At the end of a call, what there was before it.
    before: Option<&'a FoundFiles>,
    now: i64,
    entries: usize,
    /// The number of paths of each kind that may still be found.
    room: [usize; 5],
    found: FoundFiles,
}

/// A reason to collect a path. Each has its own limit: names that are cheap to make must not use up the others'.
#[derive(Clone, Copy)]
enum FoundKind {
    Protected,
    Forbidden,
    Secret,
    Fixed,
    Unlistable,
}

impl<'a> Walk<'a> {
    fn new(workspace: &'a Workspace, rules: &'a FileRules, before: Option<&'a FoundFiles>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let found = FoundFiles { is_complete: true, ..FoundFiles::default() };
        let mut room = [MAX_FOUND; 5];
        if before.is_some() {
            // Nothing is mounted for these: every new one is taken away.
            room[FoundKind::Protected as usize] = MAX_ENTRIES;
        }
        Walk { workspace, rules, before, now: now.cast_signed(), entries: 0, room, found }
    }

    fn run(mut self, known: &mut HashMap<PathBuf, Folder>, roots: &[PathBuf]) -> FoundFiles {
        let mut folders = HashMap::with_capacity(known.len());
        let before = self.before.into_iter().flat_map(|before| &before.hidden);
        let hidden_before: HashSet<_> = before.map(|hidden| hidden.path.as_path()).collect();
        for root in roots {
            let mut pending = vec![(root.clone(), false)];
            while let Some((path, is_hidden)) = pending.pop() {
                if folders.contains_key(&path) {
                    continue;
                }
                let known = known.remove(&path);
                let Some(folder) = self.folder(&path, root, is_hidden, known) else { continue };
                self.entries += folder.entries + 1;
                if self.entries > MAX_ENTRIES {
                    self.found.is_complete = false;
                    break;
                }
                if !folder.is_listable && self.has_room(FoundKind::Unlistable) {
                    // A root cannot be covered.
                    self.found.is_complete &= path != *root;
                    self.found.unlistable.insert(path.clone());
                }
                let inner = folder
                    .folders
                    .iter()
                    .map(|(name, is_secret)| (path.join(name), is_hidden || *is_secret));
                // What is hidden cannot change, unless it came with the call.
                let is_walked = |(path, is_hidden): &(PathBuf, bool)| {
                    !is_hidden || self.before.is_some() && !hidden_before.contains(path.as_path())
                };
                pending.extend(inner.filter(is_walked));
                self.collect(&path, &folder);
                folders.insert(path, folder);
            }
        }
        // The next call could not protect more.
        self.found.is_complete &= self.found.protected.len() <= MAX_FOUND;
        self.add_named_paths();
        self.add_other_names(&folders);
        *known = folders;
        self.found
    }

    /// A folder as it is now: the known one if it did not change.
    fn folder(
        &mut self,
        path: &Path,
        root: &Path,
        is_hidden: bool,
        known: Option<Folder>,
    ) -> Option<Folder> {
        let metadata = path.symlink_metadata().ok().filter(Metadata::is_dir)?;
        let (id, changed) = (id(&metadata), (metadata.ctime(), metadata.ctime_nsec()));
        let is_same =
            |known: &Folder| known.is_settled && known.id == id && known.changed == changed;
        if let Some(known) = known.filter(is_same) {
            return Some(known);
        }
        let mut folder = Folder {
            id,
            changed,
            is_settled: changed.0 < self.now - SETTLED_SECONDS,
            is_listable: rights::is_listable(path) || self.give_back(path),
            entries: 0,
            folders: vec![],
            marked: vec![],
            files: vec![],
        };
        let entries = folder.is_listable.then(|| fs::read_dir(path)).transpose();
        folder.is_listable &= entries.is_ok();
        for entry in entries.into_iter().flatten().flatten() {
            let Ok(entry) = entry else {
                folder.is_listable = false;
                continue;
            };
            folder.entries += 1;
            if folder.entries > MAX_ENTRIES {
                break;
            }
            self.list(&mut folder, path, root, is_hidden, &entry);
        }
        folder.is_settled &= folder.is_listable;
        Some(folder)
    }

    /// Gives a folder that a call closed to its owner back. One that was closed before stays so.
    fn give_back(&mut self, path: &Path) -> bool {
        let is_new = self.before.is_some_and(|before| !before.unlistable.contains(path));
        let is_given_back = is_new && rights::give_back(path);
        if is_given_back {
            self.found.given_back.push(path.into());
        }
        is_given_back
    }

    /// Adds an entry. In a hidden folder, only protected names count.
    fn list(
        &self,
        folder: &mut Folder,
        path: &Path,
        root: &Path,
        in_hidden: bool,
        entry: &fs::DirEntry,
    ) {
        let Ok(kind) = entry.file_type() else { return };
        let (name, is_folder) = (entry.file_name(), kind.is_dir());
        let full = path.join(&name);
        let below = full.strip_prefix(root).unwrap_or(&full);
        let is_secret = match is_folder {
            // Of folders only those in which every file is secret.
            true => is_secret(&below.join("any")),
            false => is_secret(below),
        };
        let read = self.rules.forbids_reading(&full, self.workspace);
        let marked = Marked {
            file: entry.ino(),
            is_folder,
            is_protected: is_protected_name(path, &name),
            is_secret: is_secret && !in_hidden,
            read: read.filter(|_| !in_hidden),
            write: self.rules.forbids_writing(&full, self.workspace),
            name,
        };
        let is_hidden = marked.is_secret || marked.read.is_some();
        if is_folder && marked.name != ".git" {
            folder.folders.push((marked.name.clone(), is_hidden));
        } else if kind.is_file() {
            folder.files.push(marked.file);
        }
        if is_hidden || marked.is_protected || marked.write.is_some() {
            folder.marked.push(marked);
        }
    }

    fn collect(&mut self, path: &Path, folder: &Folder) {
        for marked in &folder.marked {
            let full = path.join(&marked.name);
            if marked.is_protected && self.has_room(FoundKind::Protected) {
                let ids = ((folder.id.0, marked.file), folder.id);
                self.found.protected.insert(full.clone(), ids);
            }
            let kind = if marked.read.is_some() { FoundKind::Forbidden } else { FoundKind::Secret };
            if (marked.is_secret || marked.read.is_some()) && self.has_room(kind) {
                self.found.hidden.push(HiddenFile {
                    also: if marked.is_folder { vec![] } else { self.target(&full) },
                    path: full.clone(),
                    rule: marked.read,
                });
            }
            if let Some(kind) = marked.write
                && self.has_room(FoundKind::Fixed)
            {
                self.found.fixed.push((full, kind));
            }
        }
    }

    /// Takes room for one more path of a kind.
    fn has_room(&mut self, kind: FoundKind) -> bool {
        let room = &mut self.room[kind as usize];
        let has_room = *room > 0;
        *room = room.saturating_sub(1);
        self.found.is_complete &= has_room;
        has_room
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

fn is_protected_name(folder: &Path, name: &std::ffi::OsStr) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let in_github = || folder.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".github"));
    PROTECTED.iter().any(|known| is(known)) || is("workflows") && in_github()
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
        paths.extend(self.unlistable.iter().cloned());
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
        let found = self.index.walk_with(&self.workspace, None, Some(&self.before));
        let mut state = self.index.lock();
        let calls = &mut state.calls;
        let approved = calls.under_way.remove(&self.number).map_or(vec![], |call| call.all);
        let mut remarks = std::mem::take(&mut calls.untold);
        let was_told = std::mem::replace(&mut calls.is_limit_told, !found.is_complete);
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
        let taken = PathGuard::of_new(new, &self.aside, self.outlives).restore_all();
        let aside = self.aside.display();
        remarks.extend(first(taken, &format!("of its files; all are in {aside}")));
        remarks.extend(first(describe_closed(&found, &self.before), "folders"));
        if !found.is_complete && !was_told {
            remarks.push(TOO_MANY.into());
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

/// The remark about more files than are looked at.
const TOO_MANY: &str = "the project has too many files to look at all: protected files that this command made \
    may have stayed, and code of the project is asked about from now on";

/// The longest path in a remark about a folder.
const MAX_SHOWN: usize = 200;

/// Remarks about folders that a call closed.
fn describe_closed(found: &FoundFiles, before: &FoundFiles) -> Vec<String> {
    let shown = |path: &Path| {
        let is_short = |path: &&Path| path.as_os_str().len() <= MAX_SHOWN;
        let short = path.ancestors().find(is_short).unwrap_or(path);
        let deep = if short == path { "" } else { "a folder deep in " };
        format!("{deep}{}", short.display())
    };
    let given_back = found.given_back.iter().map(|path| {
        format!("the command closed {} to its owner: it was opened again", shown(path))
    });
    let unlistable = found.unlistable.difference(&before.unlistable).map(|path| {
        format!(
            "{} cannot be listed or is too deep: nothing in it was checked, and commands cannot use it",
            shown(path)
        )
    });
    given_back.chain(unlistable).collect()
}

/// The first of many remarks, and how many there are more.
fn first(mut remarks: Vec<String>, what: &str) -> Vec<String> {
    let more = remarks.len().saturating_sub(MAX_REMARKS);
    remarks.truncate(MAX_REMARKS);
    remarks.extend((more > 0).then(|| format!("so it was with {more} more {what}")));
    remarks
}
