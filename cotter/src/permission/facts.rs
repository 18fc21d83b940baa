//! What a call touches, as its tool says before it runs: the ground for every decision about it.

use std::{fmt, path::PathBuf};

use serde::{Serialize, Serializer, ser::SerializeSeq};

use crate::{
    fs::{paths, workspace::Workspace},
    permission::Zone,
};

/// What a call touches: the ground for every decision about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Files read, absolute, links resolved. Where a path leads through a link, its own spelling too.
    pub reads: Vec<PathBuf>,
    /// Files written, the same way.
    pub writes: Vec<PathBuf>,
    /// Hosts spoken to.
    pub hosts: Vec<String>,
    /// Commands run, one simple command each, those within others included.
    #[serde(serialize_with = "as_lines")]
    pub commands: Vec<SimpleCommand>,
    /// The most serious zone of it all.
    pub zone: Zone,
    /// What a person should be asked about, whatever rules say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Whether the call will run with its writes and its network closed off by the operating system.
    #[serde(skip_serializing_if = "is_not")]
    pub confined: bool,
    /// Why the tool would refuse this input, where it can tell beforehand. Such a call is not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

impl Facts {
    /// Nothing is known: taken for code of the project.
    pub fn unknown() -> Self {
        Facts::zone(Zone::Build)
    }

    /// Nothing named, of that zone.
    pub fn zone(zone: Zone) -> Self {
        Facts {
            reads: vec![],
            writes: vec![],
            hosts: vec![],
            commands: vec![],
            zone,
            doubts: vec![],
            confined: false,
            invalid: None,
        }
    }

    /// Nothing is touched: the tool would refuse its input, for this reason.
    pub fn invalid(why: impl Into<String>) -> Self {
        Facts { invalid: Some(why.into()), ..Facts::zone(Zone::Safe) }
    }

    /// Reads files and changes nothing.
    pub fn reads(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Facts { reads: paths.into_iter().collect(), ..Facts::zone(Zone::Safe) }
    }

    /// Reads these paths and writes those, as a model spells them, `~/` being the home folder. The zone
    /// follows from where they lie: inside the roots, elsewhere, or where nobody may write.
    pub fn of_paths(reads: &[&str], writes: &[&str], workspace: &Workspace) -> Self {
        let touched = |spelled: &[&str]| -> Vec<PathBuf> {
            let spelled = spelled.iter().map(|path| paths::from_home(path, workspace));
            spelled.flat_map(|path| paths::touched(&path, workspace)).collect()
        };
        let (reads, writes) = (touched(reads), touched(writes));
        let zones = reads.iter().map(|path| Zone::of_read(path, workspace));
        let zones = zones.chain(writes.iter().map(|path| Zone::of_write(path, workspace)));
        Facts { zone: zones.max().unwrap_or(Zone::Safe), reads, writes, ..Facts::unknown() }
    }

    /// Whether the call may carry something beyond this machine: it has the network, or nothing keeps
    /// it from it.
    pub fn reaches_out(&self) -> bool {
        self.zone >= Zone::Network || self.zone == Zone::Build && !self.confined
    }

    /// Whether the call changes anything that outlives it.
    pub fn has_effects(&self) -> bool {
        self.zone != Zone::Safe
    }
}

/// One simple command that a call would run, as far as it is known beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleCommand {
    /// Its words, quotes taken off, its name first.
    pub words: Vec<CommandWord>,
    /// What it touches by itself. What its redirections write is told apart, in `writes_to`.
    pub zone: Zone,
    /// Where its output is redirected to, resolved like [`Facts::writes`], which has these too.
    pub writes_to: Vec<PathBuf>,
    /// The pipeline it is part of, by number. Commands of one pipeline stand in its order.
    pub pipeline: u32,
}

/// One word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandWord {
    /// The word, quotes taken off; as it is written where it is not known before it runs.
    pub text: String,
    /// What it is to the command.
    pub kind: CommandWordKind,
}

/// What a word is to its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandWordKind {
    /// The command's name, or that of a command within it: `git`, `diff`.
    Name,
    /// What it works on.
    Operand,
    /// An option that is known to change nothing of what the command may do, or such an option's value.
    Option,
    /// Any other option, also one that nobody knows.
    UnknownOption,
    /// Only known when it runs.
    Open,
}

/// Something about a call that a person should be asked about. No rule takes its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Doubt {
    /// It destroys what cannot be brought back, in words such as "`rm -rf x` deletes a folder".
    Destructive(String),
    /// It cannot be told beforehand what it does, and why not.
    NotUnderstood(String),
}

impl fmt::Display for SimpleCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.words.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{word}")?;
        }
        Ok(())
    }
}

/// A word as it could be typed: in quotes where it must be.
impl fmt::Display for CommandWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+~^".contains(c);
        if self.kind == CommandWordKind::Open
            || (!self.text.is_empty() && self.text.chars().all(plain))
        {
            f.write_str(&self.text)
        } else {
            write!(f, "'{}'", self.text.replace('\'', r"'\''"))
        }
    }
}

fn as_lines<S: Serializer>(commands: &[SimpleCommand], to: S) -> Result<S::Ok, S::Error> {
    let mut lines = to.serialize_seq(Some(commands.len()))?;
    for command in commands {
        lines.serialize_element(&command.to_string())?;
    }
    lines.end()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_not(confined: &bool) -> bool {
    !confined
}
