//! Confinement of commands by the operating system.

use std::path::PathBuf;

pub use cotter::permission::Sandbox;

/// How much of the network a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// None, this machine's own sockets included.
    Off,
    /// The internet, and nothing local but loopback.
    On,
    /// The internet, and sockets of this machine such as a key agent's.
    WithLocal,
}

impl Network {
    const WORDS: [(Network, &'static str); 3] =
        [(Network::Off, "off"), (Network::On, "on"), (Network::WithLocal, "with-local")];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(network, _)| *network == self).map_or("off", |(_, word)| word)
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(network, _)| *network)
    }
}

/// What a command may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// How much of the network it has.
    pub network: Network,
    /// Files and folders it may read and run, with all below.
    pub reads: Vec<PathBuf>,
    /// Files and folders it may read, run and write, with all below.
    pub writes: Vec<PathBuf>,
    /// Closed to it, also inside of what is open.
    pub closed: Vec<PathBuf>,
    /// Not to be written, also inside of what may be written.
    pub protected: Vec<PathBuf>,
}

impl Confinement {
    pub(crate) fn lists(&self) -> [&Vec<PathBuf>; 4] {
        [&self.reads, &self.writes, &self.closed, &self.protected]
    }

    pub(crate) fn from_lists(network: Network, lists: Vec<Vec<PathBuf>>) -> Option<Self> {
        let [reads, writes, closed, protected] = lists.try_into().ok()?;
        Some(Confinement { network, reads, writes, closed, protected })
    }

    pub(crate) fn mounts(&self) -> Result<(), String> {
        Ok(())
    }

    pub(crate) fn enter(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Why this machine cannot confine, where it cannot.
pub fn unsupported() -> Option<String> {
    Some("not yet".into())
}

pub(crate) struct Guard;

impl Guard {
    pub(crate) fn take(_: &Confinement) -> Self {
        Guard
    }

    pub(crate) fn put_back(self) -> Vec<String> {
        vec![]
    }
}
