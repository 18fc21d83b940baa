//! The effects of one command. They can only grow.

use std::ops::Deref;

use cotter::permission::{
    Zone,
    facts::{CommandWordKind, Doubt},
};

use crate::shell::{
    below::RecursiveRead,
    expand::{Field, Shape},
    hosts::{self, AddressTarget},
    wrappers::WrappedCommand,
};

/// A command's words and effects.
///
/// The zone never falls, and no effect is ever taken back: rules for special commands only add. The effects are
/// read through `Deref`.
#[derive(Debug)]
pub(crate) struct CommandVerdict {
    /// The words for the facts: names first, then the rest in order.
    pub words: Vec<(Field, CommandWordKind)>,
    effects: Effects,
}

/// The effects of one command.
#[derive(Debug)]
pub(crate) struct Effects {
    pub zone: Zone,
    pub reads: Vec<Field>,
    /// Files read from a repository's history, by their paths in it.
    pub history_reads: Vec<Field>,
    pub writes: Vec<Field>,
    /// Written paths that are removed, with everything below.
    pub removes: Vec<Field>,
    /// Written paths to which the owner may have no access any more.
    pub closes: Vec<Field>,
    pub hosts: Vec<String>,
    pub doubts: Vec<Doubt>,
    /// Commands it would run.
    pub inner: Vec<WrappedCommand>,
    /// The targets of copies. In a folder, each copy gets the name of its source.
    pub into: Vec<Field>,
    pub copied: Vec<Field>,
    /// True if the copies are links, whatever the source is.
    pub links: bool,
    /// How it reads folders recursively, if it does.
    pub recursive_read: Option<RecursiveRead>,
    /// The folder it enters before it reads anything.
    pub folder: Option<Field>,
    /// Files that it reads and writes before it enters that folder.
    pub outer_reads: Vec<Field>,
    pub outer_writes: Vec<Field>,
    /// True if it only prints its words.
    pub only_prints: bool,
    /// Patterns that must match no file with the name of an option.
    pub listed_patterns: Vec<String>,
    /// Folders in which it writes files that the words do not name, with the beginning of their names.
    pub fills: Vec<(Field, String)>,
    /// True if what it runs does not get the environment of the shell.
    pub clears_environment: bool,
}

impl Deref for CommandVerdict {
    type Target = Effects;

    fn deref(&self) -> &Effects {
        &self.effects
    }
}

impl CommandVerdict {
    /// A command without effects but for its zone.
    pub(crate) fn new(zone: Zone) -> Self {
        let effects = Effects {
            zone,
            reads: vec![],
            history_reads: vec![],
            writes: vec![],
            removes: vec![],
            closes: vec![],
            hosts: vec![],
            doubts: vec![],
            inner: vec![],
            into: vec![],
            copied: vec![],
            links: false,
            recursive_read: None,
            folder: None,
            outer_reads: vec![],
            outer_writes: vec![],
            only_prints: false,
            listed_patterns: vec![],
            fills: vec![],
            clears_environment: false,
        };
        CommandVerdict { words: vec![], effects }
    }

    /// A command that only prints its words.
    pub(crate) fn printer() -> Self {
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.effects.only_prints = true;
        verdict
    }

    pub(crate) fn raise(&mut self, zone: Zone) {
        self.effects.zone = self.effects.zone.max(zone);
    }

    /// Adds a doubt about a command that is not understood.
    pub(crate) fn unclear(&mut self, why: impl Into<String>) {
        self.raise(Zone::Build);
        self.effects.doubts.push(Doubt::NotUnderstood(why.into()));
    }

    /// Adds a doubt about a word whose value is only known at run time.
    pub(crate) fn unknown(&mut self, why: impl Into<String>) {
        self.raise(Zone::Build);
        self.effects.doubts.push(Doubt::Unknown(why.into()));
    }

    pub(crate) fn destroys(&mut self, what: impl Into<String>) {
        self.effects.doubts.push(Doubt::Destructive(what.into()));
    }

    pub(crate) fn add_reads(&mut self, files: impl IntoIterator<Item = Field>) {
        self.effects.reads.extend(files);
    }

    pub(crate) fn add_writes(&mut self, files: impl IntoIterator<Item = Field>) {
        self.effects.writes.extend(files);
    }

    /// Adds files read from a repository's history, by their paths in it.
    pub(crate) fn add_history_reads(&mut self, files: impl IntoIterator<Item = Field>) {
        self.effects.history_reads.extend(files);
    }

    /// Adds paths that are written and removed, with everything below.
    pub(crate) fn add_removes(&mut self, paths: impl IntoIterator<Item = Field>) {
        self.effects.removes.extend(paths);
    }

    /// Adds files read before it enters its folder.
    pub(crate) fn add_outer_reads(&mut self, files: impl IntoIterator<Item = Field>) {
        self.effects.outer_reads.extend(files);
    }

    /// Adds files written before it enters its folder.
    pub(crate) fn add_outer_writes(&mut self, files: impl IntoIterator<Item = Field>) {
        self.effects.outer_writes.extend(files);
    }

    /// Adds copies of files. In a folder, each copy gets the name of its source.
    pub(crate) fn add_copies(
        &mut self,
        copied: impl IntoIterator<Item = Field>,
        into: impl IntoIterator<Item = Field>,
    ) {
        self.effects.copied.extend(copied);
        self.effects.into.extend(into);
    }

    /// Its copies are links, whatever the source is.
    pub(crate) fn make_links(&mut self) {
        self.effects.links = true;
    }

    /// It reads folders recursively, in every way that is added.
    pub(crate) fn read_recursively(&mut self, read: RecursiveRead) {
        let known = self.effects.recursive_read.take();
        self.effects.recursive_read = Some(known.map_or(read.clone(), |known| known.join(read)));
    }

    /// Adds paths that it closes: then nothing below can be reached.
    pub(crate) fn add_closed(&mut self, paths: impl IntoIterator<Item = Field>) {
        self.effects.closes.extend(paths);
    }

    /// Adds a folder in which it writes files that the words do not name, with the beginning of their names.
    pub(crate) fn add_filled(&mut self, folder: Field, begin: &str) {
        self.add_writes([folder.clone()]);
        self.effects.fills.push((folder, begin.to_owned()));
    }

    /// Adds patterns that must match no file with the name of an option.
    pub(crate) fn add_listed_patterns(&mut self, patterns: impl IntoIterator<Item = String>) {
        self.effects.listed_patterns.extend(patterns);
    }

    /// It enters a folder before it reads anything.
    pub(crate) fn enter(&mut self, folder: Field) {
        self.effects.folder = Some(folder);
    }

    /// What it runs does not get the environment of the shell.
    pub(crate) fn clear_environment(&mut self) {
        self.effects.clears_environment = true;
        // The settings that make git harmless are variables too.
        self.raise(Zone::Build);
    }

    /// Adds a command it would run.
    pub(crate) fn run(&mut self, command: WrappedCommand) {
        self.effects.inner.push(command);
    }

    /// Adds an address it connects to.
    pub(crate) fn add_address(&mut self, address: &Field) {
        // For bash a `?` is a pattern; without a matching file an address stays unchanged.
        let literal = matches!(address.shape, Shape::Pattern(_)) && address.text.contains("://");
        if !address.is_known() && !literal {
            self.unclear(format!("where `{}` leads is only known when it runs", address.text));
            return;
        }
        match hosts::target_of(&address.text) {
            AddressTarget::To(host) => {
                self.raise(hosts::zone_of(&host));
                self.effects.hosts.push(host);
            }
            AddressTarget::Perhaps(host) => {
                self.unclear(format!(
                    "where `{}` leads depends on the program that reads it",
                    address.text
                ));
                self.raise(hosts::zone_of(&host));
                self.effects.hosts.push(host);
            }
            AddressTarget::File(path) => self.add_reads([Field::known(path)]),
            AddressTarget::Unclear => {
                self.unclear(format!("where `{}` leads is not known", address.text))
            }
        }
    }

    /// The words, and the effects.
    pub(crate) fn into_parts(self) -> (Vec<(Field, CommandWordKind)>, Effects) {
        (self.words, self.effects)
    }
}
