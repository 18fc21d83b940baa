//! Confinement of commands by the operating system.

use std::{fmt, path::PathBuf, str::FromStr};

/// The setting `sandbox`: whether commands are confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Never.
    Off,
    /// Where the machine can.
    #[default]
    Auto,
    /// Always: where the machine cannot, nothing runs.
    Required,
}

impl Sandbox {
    const WORDS: [(Sandbox, &'static str); 3] =
        [(Sandbox::Off, "off"), (Sandbox::Auto, "auto"), (Sandbox::Required, "required")];
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(sandbox, _)| sandbox == self);
        f.write_str(word.map_or("", |(_, word)| word))
    }
}

impl FromStr for Sandbox {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::WORDS.iter().find(|(_, known)| *known == word);
        known
            .map(|(sandbox, _)| *sandbox)
            .ok_or_else(|| format!("`{word}` is none of off, auto, required"))
    }
}

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
