//! Snapshots: everything in a folder, read at one time. The hashed bytes are the stored bytes.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io::{self, Read},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, PermissionsExt},
    },
    path::{Component, Path, PathBuf},
    str::FromStr,
};

use rustix::fs::FileType;
use sha2::{Digest, Sha256};

use crate::trust::{TrustError, outside, state};
use cotter::fs::open::Folder;

/// The maximum number of files, folders and links in a snapshot.
pub const MAX_ITEMS: usize = 4096;

/// The maximum number of bytes in a snapshot.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The maximum number of files, folders and links in the folders of state. They are looked at and not stored.
const MAX_STATE_ITEMS: usize = 65_536;

/// The maximum depth of folders.
const MAX_DEPTH: usize = 32;

/// The maximum number of links on a path; the usual limit of an operating system.
const MAX_LINKS: usize = 40;

/// The contents that a person trusts: every file of a folder, or one single file, with its bytes.
///
/// A folder without files is not part of a snapshot, because copies and checkouts do not contain empty
/// folders. State, and a file that is a source of its own, are left out. The files elsewhere that a source of a
/// project runs are items below `.outside`.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    source: PathBuf,
    /// The items by path below the source. A single file has its own name as its path. No item lies below a
    /// link, and no link leads out of the source.
    items: BTreeMap<PathBuf, SnapshotItem>,
    /// The hash of `items`.
    hash: Hash,
    /// The files and folders of the source that are left out: state, and compiled Python.
    left_out: Vec<PathBuf>,
}

/// A file or link in a snapshot.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotItem {
    /// A file.
    File {
        /// True if anyone may execute the file.
        executable: bool,
        /// The contents.
        bytes: Vec<u8>,
    },
    /// A link that stays inside the source, with its target byte by byte.
    Link(OsString),
}

/// A hash of the contents of a snapshot: names, bytes, executable bits and link targets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Snapshot {
    /// Reads a folder or a file. No link is followed out of the source. Every name is opened below the folder
    /// it was found in, so a file that is replaced meanwhile cannot lead outside.
    ///
    /// An error names the path. A link that leads out, a pipe, a socket or a device is an error. So is a
    /// source that is a link itself, or that exceeds the limits of a snapshot.
    pub fn take(source: &Path) -> Result<Self, TrustError> {
        Snapshot::read(source, &is_runs_folder)
    }

    /// Reads a source like [`Snapshot::take`], without the entries of these names at its top level, such as
    /// `.git`.
    pub fn take_without(source: &Path, without: &[&str]) -> Result<Self, TrustError> {
        Snapshot::read(source, &|source, at, kind| {
            is_runs_folder(source, at, kind) || without.iter().any(|name| at == Path::new(name))
        })
    }

    /// Reads a source for comparison only. In a folder `agents`, this also skips the `runs` folders of
    /// profiles.
    pub(crate) fn take_for_comparison(source: &Path) -> Result<Self, TrustError> {
        let is_agents = source.ends_with("agents");
        Snapshot::read(source, &|source, at, kind| {
            let is_runs_of_one = kind.is_dir() && at.ends_with("runs") && at.iter().count() == 2;
            is_runs_folder(source, at, kind) || is_agents && is_runs_of_one
        })
    }

    fn read(source: &Path, is_skipped: &SkipRule<'_>) -> Result<Self, TrustError> {
        let snapshot = Snapshot::read_with(source, is_skipped, PythonCaches::LeftOut)?;
        let has_cache = snapshot.left_out.iter().any(|at| at.ends_with(state::PYTHON_CACHE));
        let is_read = |item: &SnapshotItem| match item {
            SnapshotItem::File { bytes, .. } => state::may_read_python_caches(bytes),
            SnapshotItem::Link(_) => false,
        };
        match has_cache && snapshot.items.values().any(is_read) {
            // Such a Python reads the compiled files, so they are code like the others.
            true => Snapshot::read_with(source, is_skipped, PythonCaches::Pinned),
            false => Ok(snapshot),
        }
    }

    fn read_with(
        source: &Path,
        is_skipped: &SkipRule<'_>,
        python_caches: PythonCaches,
    ) -> Result<Self, TrustError> {
        let source = canonical(source)?;
        let cannot = |cause| TrustError::io("read", &source, cause);
        let (parent, name) = split(&source)?;
        let parent = Folder::open(parent).map_err(cannot)?;
        let mut walk = SnapshotWalk::new(&source, is_skipped, python_caches);
        match parent.kind(name).map_err(cannot)? {
            FileType::Directory => {
                let folder = parent.folder(name).map_err(cannot)?;
                walk.folder(&folder, Path::new(""), 0)?;
            }
            FileType::RegularFile => {
                let file = parent.file(name).map_err(cannot)?;
                walk.file(file, PathBuf::from(name), &source)?;
            }
            FileType::Symlink => {
                let error = TrustError::new(&source, "is a link");
                return Err(error.with_hint("name the folder or file that the link leads to"));
            }
            kind => {
                return Err(TrustError::new(&source, format_args!("is {}", describe_type(kind))));
            }
        }
        let SnapshotWalk { mut items, left_out, .. } = walk;
        check_links(&source, &items)?;
        items.append(&mut outside::items(&source, &items)?);
        Ok(Snapshot { hash: hash(&items), source, items, left_out })
    }

    /// Creates a snapshot from items that were read elsewhere, for example in a repository. Each path must be
    /// relative, must not leave the folder, contain `.git` or lie below a file. No link may lead out. The
    /// limits of a snapshot apply.
    pub fn of_items(
        source: &Path,
        items: BTreeMap<PathBuf, SnapshotItem>,
    ) -> Result<Self, TrustError> {
        let source = canonical(source)?;
        let size = |item: &SnapshotItem| match item {
            SnapshotItem::File { bytes, .. } => bytes.len() as u64,
            SnapshotItem::Link(_) => 0,
        };
        if items.len() > MAX_ITEMS || items.values().map(size).sum::<u64>() > MAX_BYTES {
            let most = MAX_BYTES / (1024 * 1024);
            let what = format!("contains more than {MAX_ITEMS} items or more than {most} MB");
            return Err(TrustError::new(&source, what));
        }
        for path in items.keys() {
            let is_plain = |part: Component<'_>| match part {
                Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
                _ => false,
            };
            let is_below_file = path.ancestors().skip(1).any(|above| items.contains_key(above));
            let fits = path.components().all(is_plain)
                && (1..=MAX_DEPTH).contains(&path.components().count());
            if !fits || is_below_file {
                let what = format!(
                    "contains a file with an invalid path: {}",
                    crate::trust::show_path(path)
                );
                return Err(TrustError::new(&source, what));
            }
        }
        check_links(&source, &items)?;
        Ok(Snapshot { hash: hash(&items), source, items, left_out: vec![] })
    }

    /// Returns the same contents with another source.
    pub fn at(self, source: &Path) -> Result<Self, TrustError> {
        Ok(Snapshot { source: canonical(source)?, ..self })
    }

    /// The names of the folders directly in a folder below the source.
    pub fn folders(&self, path: &Path) -> Vec<OsString> {
        let names = self.items.keys().filter_map(|item| {
            let mut names = item.strip_prefix(path).ok()?.components();
            let first = names.next()?;
            names.next().map(|_| first.as_os_str().to_owned())
        });
        let mut names: Vec<_> = names.collect();
        names.dedup();
        names
    }

    /// Creates a snapshot of one folder in this one. A link may leave that folder, but not this snapshot's
    /// source.
    pub fn below(&self, path: &Path) -> Snapshot {
        let within = self.items.iter().filter_map(|(item_path, item)| {
            let inner = item_path.strip_prefix(path).ok();
            let inner = inner.filter(|inner| *inner != Path::new(""))?;
            Some((inner.to_owned(), item.clone()))
        });
        let items = within.collect();
        Snapshot { hash: hash(&items), source: self.source.join(path), items, left_out: vec![] }
    }

    /// The path that was read: absolute, without links.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The files elsewhere that the source runs, by their paths on disk.
    pub fn files_elsewhere(&self) -> Vec<PathBuf> {
        self.items.keys().filter_map(|at| outside::path_on_disk(at, &self.source)).collect()
    }

    /// The hash of a source without files.
    pub(crate) fn hash_of_nothing() -> Hash {
        hash(&BTreeMap::new())
    }

    /// The hash of the contents.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The files that are left out as state and the folders of compiled Python, in the order they were found.
    pub fn left_out(&self) -> &[PathBuf] {
        &self.left_out
    }

    /// All items, in the order of their paths.
    pub fn items(&self) -> impl ExactSizeIterator<Item = (&Path, &SnapshotItem)> {
        self.items.iter().map(|(path, item)| (path.as_path(), item))
    }

    /// The item at a path below the source. Links are not followed.
    pub(crate) fn item(&self, path: &Path) -> Option<&SnapshotItem> {
        self.items.get(path)
    }

    /// True if the snapshot has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The files and links directly in a folder below the source, by name. Links in `path` are followed;
    /// links in the folder are returned as links.
    pub fn folder(&self, path: &Path) -> Vec<(OsString, &SnapshotItem)> {
        let Some(found) = follow(&self.items, Path::new(""), path) else { return vec![] };
        let within = self.items.iter().filter(|(path, _)| path.parent() == Some(&*found));
        within.filter_map(|(path, item)| Some((path.file_name()?.to_owned(), item))).collect()
    }

    /// The file at a path below the source, with its executable bit. Links are followed.
    pub fn file(&self, path: &Path) -> Option<(bool, &[u8])> {
        let found = follow(&self.items, Path::new(""), path)?;
        match self.items.get(&found)? {
            SnapshotItem::File { executable, bytes } => Some((*executable, bytes)),
            SnapshotItem::Link(_) => None,
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("source", &self.source)
            .field("hash", &self.hash)
            .field("items", &self.items)
            .finish()
    }
}

impl fmt::Debug for SnapshotItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotItem::File { executable, bytes } => {
                let word = if *executable { "executable, " } else { "" };
                write!(f, "File({word}{} bytes)", bytes.len())
            }
            SnapshotItem::Link(target) => write!(f, "Link({target:?})"),
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = &'static str;

    /// Parses exactly 64 hex digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a hash has 64 hex digits";
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| WRONG)?;
        }
        Ok(Hash(hash))
    }
}

/// The path by which a source is known: its parent folder without links, and its own name unchanged.
pub(crate) fn canonical(source: &Path) -> Result<PathBuf, TrustError> {
    let (parent, name) = split(source)?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let folder = parent.canonicalize().map_err(|cause| TrustError::io("find", parent, cause))?;
    Ok(folder.join(name))
}

fn split(source: &Path) -> Result<(&Path, &OsStr), TrustError> {
    source
        .parent()
        .zip(source.file_name())
        .ok_or_else(|| TrustError::new(source, "has no file name"))
}

/// The description of a file type that a snapshot cannot contain.
fn describe_type(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a pipe, not a file",
        FileType::Socket => "a socket, not a file",
        FileType::CharacterDevice | FileType::BlockDevice => "a device, not a file",
        _ => "not a file",
    }
}

/// Tells whether an entry is skipped, by the source, the path below the source and the file type.
type SkipRule<'a> = dyn Fn(&Path, &Path, FileType) -> bool + 'a;

/// What is done with folders of compiled Python.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PythonCaches {
    LeftOut,
    Pinned,
}

/// The state of reading a folder.
struct SnapshotWalk<'a> {
    source: &'a Path,
    is_skipped: &'a SkipRule<'a>,
    python_caches: PythonCaches,
    items: BTreeMap<PathBuf, SnapshotItem>,
    left_out: Vec<PathBuf>,
    /// The number of files, folders and links so far, without those in folders of state.
    item_count: usize,
    /// The number of files, folders and links in folders of state.
    state_count: usize,
    byte_count: u64,
}

impl<'a> SnapshotWalk<'a> {
    fn new(
        source: &'a Path,
        is_skipped: &'a SkipRule<'a>,
        python_caches: PythonCaches,
    ) -> SnapshotWalk<'a> {
        SnapshotWalk {
            source,
            is_skipped,
            python_caches,
            items: BTreeMap::new(),
            left_out: vec![],
            item_count: 0,
            state_count: 0,
            byte_count: 0,
        }
    }

    fn folder(&mut self, folder: &Folder, at: &Path, depth: usize) -> Result<(), TrustError> {
        // Joining an empty path would add a slash to the end.
        let here = if depth == 0 { self.source.to_owned() } else { self.source.join(at) };
        let (count, most) = match state::is_in_folder(self.source, at) {
            true => (&mut self.state_count, MAX_STATE_ITEMS),
            false => (&mut self.item_count, MAX_ITEMS),
        };
        let entries = folder.entries_at_most(most - *count);
        let entries = entries.map_err(|cause| TrustError::io("read", &here, cause))?;
        let entries = entries.ok_or_else(|| {
            let what = format!("contains more than {most} files and folders");
            let hint = "trust covers everything in the folder: move worktrees and caches elsewhere";
            TrustError::new(self.source, what).with_hint(hint)
        })?;
        *count += entries.len();
        for (name, kind) in entries {
            let at = at.join(&name);
            if (self.is_skipped)(self.source, &at, kind) || state::is_own_source(self.source, &at) {
                continue;
            }
            self.entry(folder, at, &name, kind, depth)?;
        }
        Ok(())
    }

    /// True for a folder of compiled Python that is left out.
    fn is_left_out_cache(&self, at: &Path, kind: FileType) -> bool {
        self.python_caches == PythonCaches::LeftOut
            && kind.is_dir()
            && state::is_in_python_cache(self.source, at)
    }

    fn entry(
        &mut self,
        folder: &Folder,
        at: PathBuf,
        name: &OsString,
        kind: FileType,
        depth: usize,
    ) -> Result<(), TrustError> {
        let here = self.source.join(&at);
        let cannot = |cause| TrustError::io("read", &here, cause);
        match kind {
            _ if self.is_left_out_cache(&at, kind) => {
                self.left_out.push(at);
                Ok(())
            }
            FileType::Directory if depth == MAX_DEPTH => {
                Err(TrustError::new(&here, format_args!("is more than {MAX_DEPTH} folders deep")))
            }
            FileType::Directory => {
                self.folder(&folder.folder(name).map_err(cannot)?, &at, depth + 1)
            }
            FileType::RegularFile => self.file(folder.file(name).map_err(cannot)?, at, &here),
            FileType::Symlink => {
                let target = folder.link(name).map_err(cannot)?;
                self.items.insert(at, SnapshotItem::Link(target));
                Ok(())
            }
            kind => Err(TrustError::new(&here, format_args!("is {}", describe_type(kind)))),
        }
    }

    fn file(&mut self, file: File, at: PathBuf, here: &Path) -> Result<(), TrustError> {
        let cannot = |cause| TrustError::io("read", here, cause);
        let metadata = file.metadata().map_err(cannot)?;
        if !metadata.is_file() {
            return Err(cannot(io::Error::other("it was replaced and is not a file any more")));
        }
        let executable = metadata.permissions().mode() & 0o111 != 0;
        if state::is_place(self.source, &at) {
            let mut head = [0; state::HEAD_BYTES];
            let length = file.read_at(&mut head, 0).map_err(cannot)?;
            if state::is_state(self.source, &at, executable, &head[..length]) {
                self.left_out.push(at);
                return Ok(());
            }
        }
        let bytes_left = MAX_BYTES - self.byte_count;
        let mut bytes = vec![];
        file.take(bytes_left + 1).read_to_end(&mut bytes).map_err(cannot)?;
        if bytes.len() as u64 > bytes_left {
            let most = MAX_BYTES / (1024 * 1024);
            let what = format!("contains more than {most} MB");
            return Err(TrustError::new(
                self.source,
                format_args!("{what} ({})", crate::trust::show_path(&at)),
            ));
        }
        self.byte_count += bytes.len() as u64;
        self.items.insert(at, SnapshotItem::File { executable, bytes });
        Ok(())
    }
}

/// True for a folder in which a profile records its runs: `agents/NAME/runs` of a `.cotter`. The folder grows
/// with every run. It contains no code that runs: a `.cotter` runs from its copy, and the copy does not
/// contain the folder. Other folders run in place, so they are read completely.
fn is_runs_folder(source: &Path, at: &Path, kind: FileType) -> bool {
    let below: Vec<_> = at.iter().collect();
    let is_ours = source.ends_with(".cotter") && kind.is_dir();
    is_ours && matches!(below[..], [agents, _, runs] if agents == "agents" && runs == "runs")
}

/// Rejects links that lead out of the source, or to a file that trust leaves out. Links are resolved in the
/// items, not on disk.
fn check_links(source: &Path, items: &BTreeMap<PathBuf, SnapshotItem>) -> Result<(), TrustError> {
    for (path, item) in items {
        let SnapshotItem::Link(target) = item else { continue };
        let (folder, target) = (path.parent().unwrap_or(Path::new("")), Path::new(target));
        let shown = crate::trust::show_path(target);
        let error = |what: &str, hint: &str| {
            let error =
                TrustError::new(&source.join(path), format!("is a link to {what}, {shown}"));
            Err(error.with_hint(hint))
        };
        match follow(items, folder, target) {
            None => error(
                "a path outside the folder",
                "move the link's target into the folder: everything that runs must be in it",
            )?,
            Some(found) if !items.contains_key(&found) && leads_to_state(source, &found) => error(
                "what trust leaves out",
                "move the link's target to another folder, or remove the link",
            )?,
            Some(_) => {}
        }
    }
    Ok(())
}

fn leads_to_state(source: &Path, at: &Path) -> bool {
    state::is_place(source, at)
        || state::is_in_folder(source, at)
        || state::is_in_python_cache(source, at)
        || state::is_own_source(source, at)
}

/// Resolves a path from a folder of a snapshot; `None` if it leads out. A circle of links resolves to a path
/// inside that is not a file.
fn follow(items: &BTreeMap<PathBuf, SnapshotItem>, from: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = from.to_owned();
    let mut left: VecDeque<OsString> = parts(path)?.collect();
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        if part == ".." {
            if !at.pop() {
                return None;
            }
            continue;
        }
        at.push(part);
        if let Some(SnapshotItem::Link(target)) = items.get(&at) {
            links += 1;
            if links > MAX_LINKS {
                return Some(at);
            }
            at.pop();
            for part in parts(Path::new(target))?.rev() {
                left.push_front(part);
            }
        }
    }
    Some(at)
}

/// The names in a path, including `..`; `None` for an absolute path.
fn parts(path: &Path) -> Option<impl DoubleEndedIterator<Item = OsString>> {
    if path.has_root() {
        return None;
    }
    let names = path.components().filter(|part| *part != Component::CurDir);
    Some(names.map(|part| part.as_os_str().to_owned()))
}

/// Hashes items: the kind, name and contents of each, with their lengths. So two different lists never give
/// the same bytes.
fn hash(items: &BTreeMap<PathBuf, SnapshotItem>) -> Hash {
    let mut hash = Sha256::new_with_prefix(b"cotter trust 1\n");
    let mut put = |kind: u8, path: &Path, bytes: &[u8]| {
        hash.update([kind]);
        for part in [path.as_os_str().as_bytes(), bytes] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    };
    for (path, item) in items {
        match item {
            SnapshotItem::File { executable: false, bytes } => put(b'f', path, bytes),
            SnapshotItem::File { executable: true, bytes } => put(b'x', path, bytes),
            SnapshotItem::Link(target) => put(b'l', path, target.as_bytes()),
        }
    }
    Hash(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::{collection, prelude::*};

    fn items(list: &[(&str, SnapshotItem)]) -> BTreeMap<PathBuf, SnapshotItem> {
        list.iter().map(|(path, item)| (path.into(), item.clone())).collect()
    }

    fn link(target: &str) -> SnapshotItem {
        SnapshotItem::Link(target.into())
    }

    fn file() -> SnapshotItem {
        SnapshotItem::File { executable: false, bytes: vec![] }
    }

    /// The `runs` folders are skipped only in a source that runs from its copy; elsewhere code would escape
    /// review.
    #[test]
    fn s6_runs_folders_of_profiles_are_not_part_of_the_snapshot() {
        use std::fs;
        let folder = tempfile::tempdir().unwrap();
        for source in [".cotter", ".claude", "agents"] {
            let root = folder.path().join(source);
            for name in ["agents/x/runs/a.jsonl", "agents/x/agent.json", "x/runs/b.jsonl"] {
                fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
                fs::write(root.join(name), "x").unwrap();
            }
            fs::create_dir_all(root.join("agents/link")).unwrap();
            std::os::unix::fs::symlink("../x", root.join("agents/link/runs")).unwrap();
        }
        let check = |read: fn(&Path) -> Result<Snapshot, TrustError>,
                     source: &str,
                     has: &[&str]| {
            let snapshot = read(&folder.path().join(source)).unwrap();
            let items: Vec<_> = snapshot.items().map(|(path, _)| path.to_str().unwrap()).collect();
            assert_eq!(items, has, "{source}");
        };
        let (link, json) = ("agents/link/runs", "agents/x/agent.json");
        let (kept, other) = ("agents/x/runs/a.jsonl", "x/runs/b.jsonl");
        check(Snapshot::take, ".cotter", &[link, json, other]);
        check(Snapshot::take, ".claude", &[link, json, kept, other]);
        check(Snapshot::take, "agents", &[link, json, kept, other]);
        check(Snapshot::take_for_comparison, ".cotter", &[link, json, other]);
        check(Snapshot::take_for_comparison, "agents", &[link, json, kept]);
    }

    #[test]
    fn s6_snapshot_follows_links_to_their_real_target() {
        let tree = items(&[
            ("file", file()),
            ("p/q/x", file()),
            ("p/q/up", link("../..")),
            ("e/f", file()),
            ("p/q/e", link("../../e")),
            ("round", link("round")),
            ("there", link("back")),
            ("back", link("there/..")),
        ]);
        let check = |from: &str, target: &str, leads: Option<&str>| {
            let found = follow(&tree, Path::new(from), Path::new(target));
            assert_eq!(found, leads.map(PathBuf::from), "{target} from {from:?}");
        };
        check("", "file", Some("file"));
        check("", "./p/../file", Some("file"));
        check("p/q", "../../file", Some("file"));
        check("p/q", "up/file", Some("file"));
        check("", "none/at/all", Some("none/at/all"));
        check("", "..", None);
        check("", "../.cotter/file", None);
        check("", "/etc/passwd", None);
        check("p/q", "../../..", None);
        // Without resolving links, this path would stay inside: `p/q/e/../..` would be `p`.
        check("p/q", "e/..", Some(""));
        check("p/q", "e/../..", None);
        check("", "round", Some("round"));
        let lost = follow(&tree, Path::new(""), Path::new("there"));
        assert!(lost.is_none_or(|at| tree.get(&at) != Some(&file())), "it leads to no file");
    }

    fn any_item() -> impl Strategy<Value = SnapshotItem> {
        prop_oneof![
            (any::<bool>(), collection::vec(any::<u8>(), 0..20))
                .prop_map(|(executable, bytes)| SnapshotItem::File { executable, bytes }),
            "[a-c/.]{1,6}".prop_map(|target| SnapshotItem::Link(target.into())),
        ]
    }

    fn any_items() -> impl Strategy<Value = BTreeMap<PathBuf, SnapshotItem>> {
        collection::btree_map("[ab]{1,2}(/[ab]{1,2})?".prop_map(PathBuf::from), any_item(), 0..6)
    }

    proptest! {
        /// A difference in names, bytes, kinds, modes or links changes the hash.
        #[test]
        fn s6_snapshot_hashes_are_equal_only_for_equal_items(
            one in any_items(),
            other in any_items(),
        ) {
            prop_assert_eq!(one == other, hash(&one) == hash(&other));
        }

        #[test]
        fn s6_any_single_change_changes_the_snapshot_hash(
            items in any_items(),
            at in any::<prop::sample::Index>(),
            bit in 0u8..8,
            how in 0u8..4,
        ) {
            prop_assume!(!items.is_empty());
            let before = hash(&items);
            let (path, item) = items.iter().nth(at.index(items.len())).unwrap();
            let mut changed = items.clone();
            match (how, item.clone()) {
                (0, _) => _ = changed.remove(path),
                (1, item) => {
                    changed.remove(path);
                    changed.insert(path.join("c"), item);
                }
                (2, SnapshotItem::File { executable, bytes }) => {
                    let item = SnapshotItem::File { executable: !executable, bytes };
                    changed.insert(path.clone(), item);
                }
                (_, SnapshotItem::File { executable, mut bytes }) => {
                    match bytes.len() {
                        0 => bytes.push(0),
                        length => bytes[at.index(length)] ^= 1 << bit,
                    }
                    changed.insert(path.clone(), SnapshotItem::File { executable, bytes });
                }
                (_, SnapshotItem::Link(mut target)) => {
                    target.push("/");
                    changed.insert(path.clone(), SnapshotItem::Link(target));
                }
            }
            prop_assert_ne!(before, hash(&changed));
        }

        #[test]
        fn s6_snapshot_hash_survives_printing_and_parsing(items in any_items()) {
            let hash = hash(&items);
            prop_assert_eq!(hash.to_string().parse(), Ok(hash));
            prop_assert!(hash.to_string()[1..].parse::<Hash>().is_err());
        }
    }
}
