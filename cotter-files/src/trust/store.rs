//! The trust store: one file of records, and the trusted copies.
//!
//! The process that holds the lock changes the records by one rename; readers need no lock. The copy is on
//! disk before a record names it. A file of records grants nothing if it is unreadable, has a newer format,
//! or could be written by another user. Such a file is never overwritten.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use crate::trust::{
    TrustError,
    copies::{TrustedCopies, private_folder, sync_folder},
    diff::Difference,
    snapshot::{self, Hash, Snapshot},
};
use cotter::{
    fs::{git, open},
    history::entry::Timestamp,
};

/// The version of the format.
const VERSION: u64 = 1;

/// The maximum size of the file of records in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The sources that a user trusts on this machine, stored in one folder.
///
/// The store caches nothing: when a process revokes trust, no other process grants it from then on.
#[derive(Clone, Debug)]
pub struct TrustStore {
    folder: PathBuf,
}

/// Rights that trust gives beyond running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grants {
    /// True if the source's hooks may rewrite their input.
    pub rewrite: bool,
}

impl Grants {
    /// Sets or removes the right to rewrite.
    pub fn with_rewrite(self, rewrite: bool) -> Self {
        Grants { rewrite }
    }
}

/// The trust state of a source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TrustState {
    /// No person trusted the source, or the store cannot tell.
    Unknown {
        /// The reason why the store cannot tell, if so.
        reason: Option<String>,
    },
    /// The source was trusted and has changed since.
    Changed {
        /// The changes.
        difference: Difference,
        /// The folder with the trusted contents. Their gates may continue to block.
        copy: PathBuf,
    },
    /// The source was trusted, and is missing or cannot be read any more.
    Gone {
        /// The folder with the trusted contents.
        copy: PathBuf,
        /// The reason why the source cannot be read; `None` if it is missing.
        why: Option<String>,
    },
    /// The source is unchanged since it was trusted.
    Trusted {
        /// The hash of the contents.
        hash: Hash,
        /// The folder to run from: exactly the trusted bytes, read-only. A single file is in this folder
        /// under its own name.
        copy: PathBuf,
        /// The rights beyond running.
        grants: Grants,
    },
}

/// The stored record about one source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustRecord {
    /// The folder or file: absolute, without links.
    pub source: PathBuf,
    /// The hash of the trusted contents.
    pub hash: Hash,
    /// The rights beyond running.
    pub grants: Grants,
    /// The time at which trust was given.
    pub at: Timestamp,
}

type Records = BTreeMap<PathBuf, TrustRecord>;

impl TrustStore {
    /// Opens the store in a folder. The first write creates the folder, accessible only to its owner.
    pub fn open(folder: impl Into<PathBuf>) -> Self {
        TrustStore { folder: folder.into() }
    }

    /// Reads a source and returns its trust state. An error is about the source: it cannot be read or cannot
    /// be trusted. A problem with the store gives the state `Unknown` with the reason.
    pub fn read_state(&self, source: &Path) -> Result<TrustState, TrustError> {
        Ok(self.state(&Snapshot::take(source)?))
    }

    /// Returns the trust state of a snapshot.
    ///
    /// A worktree that git lists shares the trust of the same folder in another checkout of its repository,
    /// if the contents are equal.
    pub fn state(&self, now: &Snapshot) -> TrustState {
        let unknown = |error: TrustError| TrustState::Unknown { reason: Some(error.line()) };
        let no_copy = |error: TrustError| TrustState::Unknown {
            reason: Some(format!("its stored copy cannot be used ({})", error.line())),
        };
        let records = match self.records() {
            Ok(records) => records,
            Err(error) => return unknown(error),
        };
        let own = records.get(now.source());
        let is_equal = |record: &&TrustRecord| record.hash == now.hash();
        let shared = || {
            let others = in_other_checkouts(now.source());
            others.iter().filter_map(|source| records.get(source)).find(is_equal)
        };
        if let Some(TrustRecord { hash, grants, .. }) = own.filter(is_equal).or_else(shared) {
            // A lost copy is made again from the snapshot, which has the same bytes.
            let copy = self.copies().read(*hash).map(|(copy, _)| copy);
            let copy = copy.or_else(|_| self.change(|_, copies| copies.ensure(now)));
            return match copy {
                Ok(copy) => TrustState::Trusted { hash: *hash, copy, grants: *grants },
                Err(error) => no_copy(error),
            };
        }
        let Some(own) = own else { return TrustState::Unknown { reason: None } };
        match self.copies().read(own.hash) {
            Ok((copy, before)) => {
                TrustState::Changed { difference: Difference::between(&before, now), copy }
            }
            Err(error) => no_copy(error),
        }
    }

    /// The trust state of a missing source; `None` if no record about it exists.
    pub fn state_of_missing(&self, source: &Path) -> Option<TrustState> {
        self.state_without_contents(source, None)
    }

    /// The trust state of a source that exists and cannot be read, for the reason `why`. Its trusted copy
    /// stays trusted. `None` if no record about the source exists.
    pub fn state_of_unreadable(&self, source: &Path, why: impl Into<String>) -> Option<TrustState> {
        self.state_without_contents(source, Some(why.into()))
    }

    fn state_without_contents(&self, source: &Path, why: Option<String>) -> Option<TrustState> {
        let records = match self.records() {
            Ok(records) => records,
            Err(error) => return Some(TrustState::Unknown { reason: Some(error.line()) }),
        };
        let hash = records.get(source)?.hash;
        Some(match self.copies().read(hash) {
            Ok((copy, _)) => TrustState::Gone { copy, why },
            Err(error) => TrustState::Unknown {
                reason: Some(format!("its stored copy cannot be used ({})", error.line())),
            },
        })
    }

    /// Trusts a source as it was read, until it changes or is untrusted.
    pub fn trust(&self, snapshot: &Snapshot, grants: Grants) -> Result<TrustState, TrustError> {
        let (hash, source) = (snapshot.hash(), snapshot.source().to_owned());
        let copy = self.change(|records, copies| {
            let copy = copies.ensure(snapshot)?;
            let record = TrustRecord { source: source.clone(), hash, grants, at: Timestamp::now() };
            records.insert(source, record);
            Ok(copy)
        })?;
        Ok(TrustState::Trusted { hash, copy, grants })
    }

    /// Lets a source run as it was read, without a record: only its copy is stored, and the caller decides
    /// how long this lasts. For machines, where the caller that starts a run names the hash.
    pub fn admit(&self, snapshot: &Snapshot) -> Result<TrustState, TrustError> {
        let copy = self.change(|_, copies| copies.ensure(snapshot))?;
        Ok(TrustState::Trusted { hash: snapshot.hash(), copy, grants: Grants::default() })
    }

    /// Revokes trust immediately, also for the same source in other checkouts of the repository. Returns true
    /// if a record was removed.
    pub fn untrust(&self, source: &Path) -> Result<bool, TrustError> {
        // A source that is gone together with its folder is found by the given path.
        let source = snapshot::canonical(source).unwrap_or_else(|_| source.to_owned());
        if self.records()?.is_empty() {
            return Ok(false);
        }
        self.change(|records, _| {
            let own = records.remove(&source).is_some();
            let others = in_other_checkouts(&source);
            let shared = others.iter().filter(|other| records.remove(*other).is_some()).count();
            Ok(own || shared > 0)
        })
    }

    /// All records, in the order of paths.
    pub fn list(&self) -> Result<Vec<TrustRecord>, TrustError> {
        self.records().map(|records| records.into_values().collect())
    }

    fn copies(&self) -> TrustedCopies {
        TrustedCopies(self.folder.join("copies"))
    }

    fn file(&self) -> PathBuf {
        self.folder.join("trust.json")
    }

    /// Reads the records; a missing file means no records.
    fn records(&self) -> Result<Records, TrustError> {
        let path = self.file();
        let folder = match self.folder.canonicalize() {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Records::new()),
            Err(cause) => return Err(TrustError::io("read", &self.folder, cause)),
            Ok(folder) => folder,
        };
        let cannot = |cause| TrustError::io("read", &path, cause);
        let file = match open::file(&folder.join("trust.json")) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Records::new()),
            file => file.map_err(cannot)?,
        };
        check_owner(&path, &file.metadata().map_err(cannot)?)?;
        check_owner(&folder, &fs::metadata(&folder).map_err(cannot)?)?;
        let mut bytes = vec![];
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
        parse(&bytes).map_err(|what| {
            TrustError::new(&path, format_args!("{what}, so its records are ignored"))
                .with_hint("move the file away and trust your folders again")
        })
    }

    /// Changes the records, one writer at a time. If `change` fails, the records stay as they are.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Records, &TrustedCopies) -> Result<T, TrustError>,
    ) -> Result<T, TrustError> {
        let failed = |cause| TrustError::io("write", &self.folder, cause);
        private_folder(&self.folder).map_err(failed)?;
        let lock = private_file_options()
            .create(true)
            .truncate(false)
            .open(self.folder.join("trust.lock"));
        let lock = lock.map_err(failed)?;
        lock.lock().map_err(failed)?;
        let before = self.records()?;
        let copies = self.copies();
        copies.sweep(|hash| before.values().any(|record| record.hash == hash)).map_err(failed)?;
        let mut records = before.clone();
        let result = change(&mut records, &copies)?;
        if records != before {
            self.write(&records).map_err(failed)?;
        }
        Ok(result)
    }

    fn write(&self, records: &Records) -> io::Result<()> {
        let list: Vec<_> = records.values().map(TrustRecord::to_json).collect();
        let text = format!("{:#}\n", json!({"v": VERSION, "sources": list}));
        let new = self.folder.join("trust.json.new");
        let mut file = private_file_options().create(true).truncate(true).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.file())?;
        sync_folder(&self.folder)
    }
}

impl TrustRecord {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        match self.source.to_str() {
            Some(path) => object.insert("path".into(), path.into()),
            None => object.insert("pathHex".into(), hex(self.source.as_os_str().as_bytes()).into()),
        };
        object.insert("hash".into(), self.hash.to_string().into());
        object.insert("rewrite".into(), self.grants.rewrite.into());
        object.insert("at".into(), self.at.to_string().into());
        Value::Object(object)
    }

    fn from_json(value: &Value) -> Option<Self> {
        let source = match &value["path"] {
            Value::Null => OsString::from_vec(unhex(value["pathHex"].as_str()?)?).into(),
            path => PathBuf::from(path.as_str()?),
        };
        Some(TrustRecord {
            source,
            hash: value["hash"].as_str()?.parse().ok()?,
            grants: Grants { rewrite: value["rewrite"].as_bool()? },
            at: Timestamp::parse(value["at"].as_str()?)?,
        })
    }
}

/// The paths of a source in the other checkouts of its repository.
fn in_other_checkouts(source: &Path) -> Vec<PathBuf> {
    let is_checkout = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    let Some(folder) = source.ancestors().skip(1).find(is_checkout) else { return vec![] };
    let Ok(inside) = source.strip_prefix(folder) else { return vec![] };
    git::other_checkouts(folder).iter().map(|checkout| checkout.join(inside)).collect()
}

/// Rejects a path that another user could write: the writer of the records decides what runs.
fn check_owner(path: &Path, metadata: &fs::Metadata) -> Result<(), TrustError> {
    let refused =
        |what: &str| Err(TrustError::new(path, format_args!("{what}: its records are ignored")));
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refused("belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 {
        return refused("can be written by other users");
    }
    Ok(())
}

/// Parses the records, or returns a description of the problem.
fn parse(bytes: &[u8]) -> Result<Records, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err("is too large".into());
    }
    let value: Value =
        serde_json::from_slice(bytes).map_err(|cause| format!("is broken ({cause})"))?;
    match value["v"].as_u64() {
        Some(VERSION) => {}
        Some(newer @ VERSION..) => {
            return Err(format!(
                "was written by a newer version (format {newer}, this version reads up to {VERSION})"
            ));
        }
        _ => return Err("is broken (no format version)".into()),
    }
    let list = value["sources"].as_array().ok_or("is broken (no list `sources`)")?;
    let mut records = Records::new();
    for value in list {
        let record = TrustRecord::from_json(value).ok_or("is broken (invalid record)")?;
        if records.insert(record.source.clone(), record).is_some() {
            return Err("is broken (duplicate source)".into());
        }
    }
    Ok(records)
}

/// Options for a file that only its owner can access.
fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}
