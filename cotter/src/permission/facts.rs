//! The facts of a call: what it touches. The tool states them before the call runs, and every decision uses
//! them.

use std::{fmt, path::PathBuf};

use serde::{Serialize, Serializer, ser::SerializeSeq};

use crate::{
    fs::{paths, workspace::Workspace},
    permission::Zone,
};

/// The facts of a call: what it touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// Files read: absolute paths with links resolved. If a path contains a link, the path as written is
    /// here too.
    pub reads: Vec<PathBuf>,
    /// Files written, in the same form.
    pub writes: Vec<PathBuf>,
    /// Hosts contacted.
    pub hosts: Vec<String>,
    /// Commands run, one simple command each, including nested commands.
    #[serde(serialize_with = "serialize_as_lines")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub commands: Vec<SimpleCommand>,
    /// The most serious zone of the whole call.
    pub zone: Zone,
    /// Files that may be read besides. They are not shown; rules that ask about reading or deny it check them.
    #[serde(skip)]
    pub possible_reads: PossibleReads,
    /// Doubts that a person should be asked about. Rules do not answer them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// True if the operating system will restrict the call's writes and its network.
    #[serde(skip_serializing_if = "is_false")]
    pub confined: bool,
    /// True if the call will also run in a view of the files that enforces the rules about files: what they
    /// deny and what has a secret's name cannot be read unless the call names it.
    #[serde(skip)]
    pub view: bool,
    /// The reason why the tool would reject this input, if known in advance. Such a call does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

impl Facts {
    /// Creates facts for a call about which nothing is known. It counts as code of the project.
    pub fn unknown() -> Self {
        Facts::zone(Zone::Build)
    }

    /// Creates facts of a zone that name no files, hosts or commands.
    pub fn zone(zone: Zone) -> Self {
        Facts {
            reads: vec![],
            writes: vec![],
            hosts: vec![],
            commands: vec![],
            zone,
            possible_reads: PossibleReads::default(),
            doubts: vec![],
            confined: false,
            view: false,
            invalid: None,
        }
    }

    /// Creates facts for a call that touches nothing, because the tool would reject its input for this
    /// reason.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Facts { invalid: Some(reason.into()), ..Facts::zone(Zone::Safe) }
    }

    /// Creates facts for a call that reads files and changes nothing.
    pub fn reads(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Facts { reads: paths.into_iter().collect(), ..Facts::zone(Zone::Safe) }
    }

    /// Creates facts from paths as a model writes them; `~/` is the home folder. The location of the paths
    /// gives the zone: inside the roots, elsewhere, or in system folders.
    pub fn of_paths(reads: &[&str], writes: &[&str], workspace: &Workspace) -> Self {
        let resolve = |texts: &[&str]| -> Vec<PathBuf> {
            let expanded = texts.iter().map(|path| paths::expand_home(path, workspace));
            expanded.flat_map(|path| paths::touched_paths(&path, workspace)).collect()
        };
        let (reads, writes) = (resolve(reads), resolve(writes));
        let zones = reads.iter().map(|path| Zone::of_read(path, workspace));
        let zones = zones.chain(writes.iter().map(|path| Zone::of_write(path, workspace)));
        Facts { zone: zones.max().unwrap_or(Zone::Safe), reads, writes, ..Facts::unknown() }
    }

    /// True if the call may send data out of this machine: it uses the network, or nothing blocks its
    /// network.
    pub fn reaches_out(&self) -> bool {
        self.zone >= Zone::Network || self.zone == Zone::Build && !self.confined
    }

    /// True if words of the call that are only known at run time need no question: whatever they turn out to
    /// be, the sandbox enforces the rules.
    pub fn may_run_unknown_words(&self) -> bool {
        self.confined && self.view && self.zone <= Zone::Build
    }

    /// True if the call has a lasting effect.
    pub fn has_effects(&self) -> bool {
        self.zone != Zone::Safe
    }
}

/// Files that a call may read besides those it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PossibleReads {
    /// Files in folders that are read as a whole, and words that may name files. Absolute paths.
    pub files: Vec<PathBuf>,
    /// Folders that are read as a whole, with more files than could be listed.
    pub unchecked: Vec<PathBuf>,
}

/// One simple command that a call would run, as far as it is known in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The words without quotes; the name is the first.
    pub words: Vec<CommandWord>,
    /// The zone of the command itself. The writes of its redirections are in `writes_to`.
    pub zone: Zone,
    /// The files to which output is redirected, resolved like [`Facts::writes`], which includes them.
    pub writes_to: Vec<PathBuf>,
    /// The number of the command's pipeline. The commands of one pipeline are listed in its order.
    pub pipeline: u32,
}

/// One word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandWord {
    /// The word without quotes; as written if its value is only known at run time.
    pub text: String,
    /// The role of the word.
    pub kind: CommandWordKind,
}

/// The role of a word in its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandWordKind {
    /// The name of the command or of a subcommand: `git`, `diff`.
    Name,
    /// An operand.
    Operand,
    /// An option known not to change what the command may do, or the value of such an option.
    Option,
    /// Any other option, including unknown ones.
    UnknownOption,
    /// A word whose value is only known at run time.
    RuntimeValue,
}

/// A reason to ask a person about a call. No rule answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Doubt {
    /// The call destroys data for good, in words such as "`rm -rf x` deletes a folder".
    Destructive(String),
    /// The effect of the call cannot be determined in advance, with the reason.
    NotUnderstood(String),
    /// A word of the call is only known when it runs, with the reason: the commands are known, but not every
    /// file they touch.
    Unknown(String),
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

/// Writes a word as it could be typed, with quotes if needed.
impl fmt::Display for CommandWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs_no_quotes = |c: char| c.is_alphanumeric() || "-_./=:,@%+~^".contains(c);
        if self.kind == CommandWordKind::RuntimeValue
            || (!self.text.is_empty() && self.text.chars().all(needs_no_quotes))
        {
            f.write_str(&self.text)
        } else {
            write!(f, "'{}'", self.text.replace('\'', r"'\''"))
        }
    }
}

fn serialize_as_lines<S: Serializer>(
    commands: &[SimpleCommand],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut lines = serializer.serialize_seq(Some(commands.len()))?;
    for command in commands {
        lines.serialize_element(&command.to_string())?;
    }
    lines.end()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
