//! Tool definitions of servers in a file. They are shown again without starting the servers, and
//! held back if they change.
//!
//! The first list of a server is accepted as it is, since the person named the server. Later, a new
//! or changed definition waits until a person has reviewed and accepted it.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::mcp::definition::{Definition, hex};

/// The format version.
const VERSION: u64 = 1;

/// The known definitions of all servers, by name.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Pins {
    /// Each server.
    pub servers: BTreeMap<String, PinnedServer>,
}

/// The known definitions of one server, by tool name.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PinnedServer {
    /// Identifies the settings entry of the listed server. If the entry changes, the server is listed
    /// again.
    pub(crate) identity: String,
    /// The accepted definitions.
    pub accepted: BTreeMap<String, Definition>,
    /// The new and changed definitions that wait.
    pub waiting: BTreeMap<String, Definition>,
    /// The accepted tools that are not offered at present.
    pub gone: BTreeSet<String>,
}

impl Pins {
    /// Loads the file; a missing file has no servers.
    pub fn load(path: &Path) -> Result<Self, PinsError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Pins::default()),
            Err(cause) => return Err(PinsError::new(path, "cannot be read", cause)),
        };
        // An invalid file does not count as empty: then everything would be accepted.
        let invalid = |cause: io::Error| PinsError::new(path, "is invalid", cause);
        let value: Value = serde_json::from_slice(&bytes).map_err(|cause| invalid(cause.into()))?;
        if value["v"] != VERSION {
            return Err(invalid(io::Error::other(format!("unknown format {}", value["v"]))));
        }
        let servers =
            value["servers"].as_object().ok_or_else(|| invalid(io::Error::other("no servers")))?;
        let pinned = |(name, value): (&String, &Value)| {
            Some((name.clone(), PinnedServer::from_json(value)?))
        };
        let servers = servers.iter().map(pinned).collect::<Option<_>>();
        Ok(Pins {
            servers: servers.ok_or_else(|| invalid(io::Error::other("a server is broken")))?,
        })
    }

    /// Changes the file under a lock. An `Err` of `change` changes nothing.
    pub(crate) fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Pins) -> Result<T, PinsError>,
    ) -> Result<T, PinsError> {
        let failed = |cause| PinsError::new(path, "cannot be written", cause);
        let _lock = lock(path).map_err(failed)?;
        let before = Pins::load(path)?;
        let mut pins = before.clone();
        let answer = change(&mut pins)?;
        if pins != before {
            write(path, &pins.to_json()).map_err(failed)?;
        }
        Ok(answer)
    }

    /// Accepts all waiting definitions of a server, if `shown` is still their digest: see
    /// [`PinnedServer::waiting_digest`]. Running sessions keep their tools; the next session has
    /// the new ones.
    pub fn accept(path: &Path, server: &str, shown: &str) -> Result<(), PinsError> {
        Pins::change(path, |pins| {
            let refused =
                |why: String| PinsError::new(path, "was not changed", io::Error::other(why));
            let pinned = pins.servers.get_mut(server);
            let pinned = pinned.ok_or_else(|| refused(format!("unknown server `{server}`")))?;
            if pinned.waiting_digest() != shown {
                return Err(refused(format!(
                    "the waiting definitions of `{server}` changed meanwhile; review them again"
                )));
            }
            for (name, definition) in std::mem::take(&mut pinned.waiting) {
                pinned.accepted.insert(name, definition);
            }
            Ok(())
        })
    }

    /// Records a server's tool list. No IO.
    pub(crate) fn record_list(
        &mut self,
        server: &str,
        identity: &str,
        listed: &BTreeMap<String, Definition>,
    ) {
        let Some(pinned) = self.servers.get_mut(server) else {
            let identity = identity.to_owned();
            let first =
                PinnedServer { identity, accepted: listed.clone(), ..PinnedServer::default() };
            self.servers.insert(server.to_owned(), first);
            return;
        };
        pinned.identity = identity.to_owned();
        let changes = listed.iter().filter(|(name, new)| pinned.accepted.get(*name) != Some(*new));
        pinned.waiting = changes.map(|(name, new)| (name.clone(), new.clone())).collect();
        let missing = pinned.accepted.keys().filter(|name| !listed.contains_key(*name));
        pinned.gone = missing.cloned().collect();
    }

    fn to_json(&self) -> Value {
        let servers = self.servers.iter().map(|(name, pinned)| (name.clone(), pinned.to_json()));
        json!({"v": VERSION, "servers": servers.collect::<serde_json::Map<_, _>>()})
    }
}

impl PinnedServer {
    /// A digest of all waiting definitions. Accepting names it.
    pub fn waiting_digest(&self) -> String {
        let digests = self.waiting.values().map(Definition::digest);
        hex(&Sha256::digest(digests.collect::<String>()))
    }

    fn to_json(&self) -> Value {
        let list = |definitions: &BTreeMap<String, Definition>| -> Vec<Value> {
            definitions.values().map(Definition::to_json).collect()
        };
        json!({
            "entry": self.identity,
            "accepted": list(&self.accepted),
            "waiting": list(&self.waiting),
            "gone": self.gone,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let list = |key: &str| -> Option<BTreeMap<String, Definition>> {
            let parse = |value: &Value| {
                let definition = Definition::parse(value)?;
                Some((definition.name.clone(), definition))
            };
            value[key].as_array()?.iter().map(parse).collect()
        };
        let gone = value["gone"].as_array()?.iter().map(|name| Some(name.as_str()?.to_owned()));
        Some(PinnedServer {
            identity: value["entry"].as_str()?.to_owned(),
            accepted: list("accepted")?,
            waiting: list("waiting")?,
            gone: gone.collect::<Option<_>>()?,
        })
    }
}

/// The definitions file cannot be used. Without it changes cannot be detected.
#[derive(Debug)]
pub struct PinsError {
    path: PathBuf,
    what: &'static str,
    cause: io::Error,
}

impl PinsError {
    fn new(path: &Path, what: &'static str, cause: io::Error) -> Self {
        PinsError { path: path.into(), what, cause }
    }
}

impl fmt::Display for PinsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file of tool definitions {} {}", self.path.display(), self.what)
    }
}

impl Error for PinsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// Locks a file next to `path` for one writer: `path` itself is replaced.
fn lock(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        builder.mode(0o700);
        builder.create(folder)?;
    }
    let lock = private(&path.with_extension("lock"), OpenOptions::new().write(true).create(true))?;
    lock.lock()?;
    Ok(lock)
}

fn write(path: &Path, value: &Value) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = private(&new, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(value.to_string().as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.mode(0o600);
    options.open(path)
}
