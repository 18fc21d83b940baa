//! Records what commands touch: the files of their words and redirections, with links resolved.

use std::path::{Component, Path, PathBuf};

use cotter::{
    Workspace,
    builtin::is_protected,
    fs::workspace::is_harmless_device,
    permission::{
        Zone,
        facts::{CommandWord, CommandWordKind, Doubt, SimpleCommand},
        secret_files::is_secret,
    },
};

use crate::shell::{
    below,
    command_verdict::{CommandVerdict, Effects},
    expand::{self, Field, Shape},
    faults,
    folders::Folders,
    glob,
    tree::{Redirect, ShellWord, WordPart},
    walk::{Call, ScriptWalk},
    wrappers::WrappedCommand,
};

impl ScriptWalk<'_> {
    /// Records what a command touches. Returns the commands it runs.
    pub(crate) fn record(
        &mut self,
        verdict: CommandVerdict,
        folders: &Folders,
        call: &Call<'_>,
    ) -> Vec<WrappedCommand> {
        let (words, effects) = verdict.into_parts();
        self.record_effects(words, effects, folders, call)
    }

    /// Records the effects of a command with these words. Returns the commands it runs.
    pub(crate) fn record_effects(
        &mut self,
        words: Vec<(Field, CommandWordKind)>,
        effects: Effects,
        folders: &Folders,
        call: &Call<'_>,
    ) -> Vec<WrappedCommand> {
        let mut zone = effects.zone;
        for field in &effects.reads {
            zone = zone.max(self.reads(field, folders));
        }
        for field in &effects.history_reads {
            zone = zone.max(self.read_history(field, folders));
        }
        for field in &effects.writes {
            zone = zone.max(self.writes(field, folders).0);
        }
        zone = zone.max(self.copies(&effects, folders));
        let destroys = effects.doubts.iter().any(|doubt| matches!(doubt, Doubt::Destructive(_)));
        for field in effects.removes.iter().chain(&effects.closes) {
            zone = zone.max(self.removal(field, folders));
        }
        for field in effects.closes.iter().filter(|_| !destroys) {
            self.check_closed(field, folders);
        }
        for host in effects.hosts {
            if !self.facts.hosts.contains(&host) {
                self.facts.hosts.push(host);
            }
        }
        for (folder, begin) in &effects.fills {
            self.check_filled(folder, begin, folders);
        }
        for pattern in &effects.listed_patterns {
            self.check_listed(pattern, folders);
        }
        for doubt in effects.doubts {
            if !matches!(doubt, Doubt::Destructive(_)) {
                zone = zone.max(Zone::Build);
            }
            self.doubt(doubt);
        }
        if !effects.only_prints || self.is_captured {
            for (field, kind) in &words {
                // A known program that writes a file need not read it.
                let is_recorded = effects.reads.contains(field)
                    || effects.zone <= Zone::Workspace && effects.writes.contains(field)
                    || effects.folder.as_ref() == Some(field)
                    || *kind == CommandWordKind::Name;
                if !is_recorded {
                    zone = zone.max(self.mention(field, folders));
                }
            }
        }
        self.add_command(words, zone, call);
        effects.inner
    }

    /// Records files that a command touches before it enters a folder of its own.
    pub(crate) fn record_outer(&mut self, verdict: &mut CommandVerdict, folders: &Folders) {
        let mut zone = Zone::Safe;
        for field in &verdict.outer_reads {
            zone = zone.max(self.reads(field, folders));
        }
        for field in &verdict.outer_writes {
            zone = zone.max(self.writes(field, folders).0);
        }
        verdict.raise(zone);
    }

    /// Counts literal words as read if they may name files, and raises the zone of the call.
    pub(crate) fn mention_all(&mut self, fields: &[Field], folders: &Folders) {
        for field in fields {
            let zone = self.mention(field, folders);
            self.facts.zone = self.facts.zone.max(zone);
        }
    }

    /// Counts a word as read if it may name a file of the project, a secret or a closed path, or matches some:
    /// nobody knows of every program which of its words it opens. Returns the zone of reading it.
    pub(crate) fn mention(&mut self, field: &Field, folders: &Folders) -> Zone {
        if faults::is_off(faults::WORDS_ARE_READ) {
            return Zone::Safe;
        }
        // In an unknown folder it may be any file.
        if folders.is_unknown() && !field.text.starts_with(['/', '-']) {
            self.unknown(format!("where `{}` lies depends on an unknown folder", field.text));
        }
        let first = Folders::of(self.workspace);
        let folders = if folders.is_unknown() { &first } else { folders };
        let names = match &field.shape {
            Shape::Open { .. } => return Zone::Safe,
            Shape::Known => file_names_in(&field.text).map(str::to_owned).collect(),
            Shape::Pattern(pattern) => {
                let matches = folders.as_slice().iter().map(|at| self.matches(pattern, at));
                matches.collect::<Vec<_>>().concat()
            }
        };
        let mut zone = Zone::Safe;
        for part in &names {
            let Some(left) = self.entries_left.checked_sub(folders.as_slice().len()) else {
                self.unclear("it has more words than can be checked");
                return zone;
            };
            self.entries_left = left;
            if folders.as_slice().iter().any(|folder| self.may_be_file(part, folder)) {
                zone = zone.max(self.reads(&Field::known(part), folders));
            } else {
                // It is a file if a rule names it, or if the script creates it.
                let paths = folders.as_slice().iter().map(|at| without_dots(&at.cwd().join(part)));
                self.facts.possible_reads.files.extend(paths);
            }
        }
        zone
    }

    /// Adds a doubt if a pattern matches a file with the name of an option now. Nothing in the script may then
    /// create one.
    fn check_listed(&mut self, pattern: &str, folders: &Folders) {
        let matches = folders.as_slice().iter().map(|at| self.matches(pattern, at));
        let names: Vec<_> = matches.collect::<Vec<_>>().concat();
        match names.iter().any(|name| name.starts_with('-')) {
            true => self.unclear(format!("`{pattern}` matches a file with the name of an option")),
            false => self.relies_on_names = true,
        }
    }

    fn may_be_file(&mut self, name: &str, folder: &Workspace) -> bool {
        let workspace = self.workspace;
        self.disk.may_be_file(name, folder, || {
            let path = without_dots(&folder.cwd().join(name));
            is_secret(&path)
                || workspace.is_closed(&path)
                || workspace.is_readable(&path) && path.symlink_metadata().is_ok()
        })
    }

    /// A file from a repository's history. Its path there is the path it has outside; git shows no
    /// other.
    fn read_history(&mut self, field: &Field, folders: &Folders) -> Zone {
        let text = field.text.as_str();
        if field.is_open() || folders.is_unknown() {
            self.unknown(format!("which file `{text}` is, is only known when it runs"));
            return Zone::Build;
        }
        let mut zone = Zone::Safe;
        for folder in folders.as_slice() {
            let root = below::repository(folder.cwd()).unwrap_or(self.workspace.project());
            let is_below = text.starts_with("./") || text.starts_with("../");
            let path = without_dots(&if is_below { folder.cwd() } else { root }.join(text));
            if path.starts_with(root) {
                zone = zone.max(Zone::of_read(&path, self.workspace));
                self.facts.reads.push(path);
            }
        }
        zone
    }

    /// Records copies in folders by their new names, and links among them for later commands.
    fn copies(&mut self, effects: &Effects, folders: &Folders) -> Zone {
        let mut zone = Zone::Safe;
        let sources: Vec<_> =
            effects.copied.iter().flat_map(|field| self.touched(field, folders)).collect();
        for into in &effects.into {
            let mut targets = self.touched(into, folders);
            let is_named_folder = |text: &str| matches!(text, "." | "..") || text.ends_with('/');
            // What does not exist becomes a folder if the source is one.
            let is_folder = |path: &PathBuf| {
                path.is_dir()
                    || is_named_folder(&into.text)
                    || !path.exists() && sources.iter().any(|source| source.is_dir())
            };
            for folder in targets.clone().iter().filter(|path| is_folder(path)) {
                for source in &sources {
                    let copy = source.file_name().map(|name| folder.join(name));
                    targets.extend(copy.into_iter().flat_map(|copy| self.resolved(&copy)));
                    let names = self.disk.names_in(source);
                    let within = names.iter().map(|name| folder.join(name));
                    targets.extend(within.filter(|path| is_protected(path, self.workspace)));
                }
            }
            for path in &targets {
                zone = zone.max(Zone::of_write(path, self.workspace));
                self.facts.writes.push(path.clone());
            }
            // The folder may be made by the script.
            let may_be_within = targets.iter().flat_map(|target| {
                sources.iter().filter_map(|s| Some(target.join(s.file_name()?)))
            });
            let may_be_within: Vec<_> = may_be_within.collect();
            if effects.links || sources.iter().any(|source| self.may_hold_links(source)) {
                // This folder itself does not become a link.
                let here = folders.as_slice().iter().map(Workspace::cwd).collect::<Vec<_>>();
                let is_here = |path: &PathBuf| into.text == "." && here.contains(&path.as_path());
                let links = targets.into_iter().filter(|path| !is_here(path));
                self.links.extend(links.chain(may_be_within));
            }
        }
        zone
    }

    /// A path with links resolved, and as it is.
    fn resolved(&mut self, path: &Path) -> Vec<PathBuf> {
        match path.to_str() {
            Some(text) => self.disk.touched(text, self.workspace).to_vec(),
            None => {
                self.unclear("a file has a name that is not text");
                vec![]
            }
        }
    }

    /// Adds a doubt if a folder holds links: a file that is written there may be one.
    fn check_filled(&mut self, folder: &Field, begin: &str, folders: &Folders) {
        for path in self.touched(folder, folders) {
            for entry in path.read_dir().into_iter().flatten().flatten() {
                let Some(left) = self.entries_left.checked_sub(1) else {
                    return self
                        .unclear(format!("`{}` holds more than can be checked", folder.text));
                };
                self.entries_left = left;
                let is_meant = entry.file_name().to_string_lossy().starts_with(begin);
                if is_meant && entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                    return self.unclear(format!("a file in `{}` may be a link", folder.text));
                }
            }
        }
    }

    /// True if a link may be at a path, or below it.
    fn may_hold_links(&mut self, path: &Path) -> bool {
        if let Some(found) = self.disk.links.get(path) {
            return *found;
        }
        let found = self.find_links(path);
        if let Some(found) = found {
            self.disk.links.insert(path.to_owned(), found);
        }
        // What is missing is created before it is copied.
        found.unwrap_or(!self.links.is_empty())
    }

    /// Looks for links at a path and below it. `None`: something is missing.
    fn find_links(&mut self, path: &Path) -> Option<bool> {
        let mut left = vec![path.to_owned()];
        while let Some(entries_left) = self.entries_left.checked_sub(1) {
            self.entries_left = entries_left;
            let Some(path) = left.pop() else { return Some(false) };
            match path.symlink_metadata() {
                Ok(metadata) if metadata.is_symlink() => return Some(true),
                Ok(metadata) if metadata.is_dir() => {
                    left.extend(path.read_dir().into_iter().flatten().flatten().map(|e| e.path()));
                }
                Ok(_) => {}
                Err(_) => return None,
            }
        }
        Some(true)
    }

    /// Adds one command to the facts.
    pub(crate) fn add_command(
        &mut self,
        words: Vec<(Field, CommandWordKind)>,
        zone: Zone,
        call: &Call<'_>,
    ) {
        let words =
            words.into_iter().map(|(field, kind)| CommandWord { text: field.text, kind }).collect();
        let mut writes_to = call.writes_to.clone();
        writes_to.extend(self.outputs.iter().cloned());
        self.facts.zone = self.facts.zone.max(zone);
        self.facts.commands.push(SimpleCommand { words, zone, writes_to, pipeline: call.number });
    }

    /// Walks redirections: the targets of output, and the input.
    pub(crate) fn redirects(
        &mut self,
        redirects: &[Redirect],
        folders: &Folders,
    ) -> (Vec<PathBuf>, Option<Field>) {
        let (mut to, mut input) = (vec![], None);
        for redirect in redirects {
            // The last one decides.
            if matches!(redirect, Redirect::From(_) | Redirect::Both(_) | Redirect::CopyInput) {
                input = None;
            }
            let Some(word) = redirect.word() else { continue };
            if !self.count_words(1) {
                break;
            }
            self.walk_words(std::slice::from_ref(word), folders);
            let Some(field) = self.target(word, redirect, folders) else { continue };
            match redirect {
                Redirect::Text(_, true) => input = Some(field),
                Redirect::Text(..) => {}
                Redirect::From(_) => self.raise_read(&field, folders),
                _ => {
                    if matches!(redirect, Redirect::Both(_)) {
                        self.raise_read(&field, folders);
                    }
                    let (zone, paths) = self.writes(&field, folders);
                    self.facts.zone = self.facts.zone.max(zone);
                    to.extend(paths);
                }
            }
        }
        (to, input)
    }

    fn raise_read(&mut self, field: &Field, folders: &Folders) {
        let zone = self.reads(field, folders);
        self.facts.zone = self.facts.zone.max(zone);
    }

    /// The target of a redirection. `None`: no file.
    fn target(
        &mut self,
        word: &ShellWord,
        redirect: &Redirect,
        folders: &Folders,
    ) -> Option<Field> {
        if matches!(word.pieces.as_slice(), [WordPart::Process(_)]) {
            return None;
        }
        if matches!(redirect, Redirect::Text(..)) {
            return Some(expand::single(word, self.known(folders)));
        }
        // A pattern or several words may be one file, or an error.
        let field = match expand::fields(std::slice::from_ref(word), self.known(folders)) {
            Ok(mut fields) if fields.len() == 1 => fields.remove(0),
            _ => Field::open(word.source.clone()),
        };
        let socket = field.text.starts_with("/dev/tcp/") || field.text.starts_with("/dev/udp/");
        if socket {
            self.facts.zone = self.facts.zone.max(Zone::Network);
            self.unclear(format!("`{}` opens a connection", field.text));
            return None;
        }
        Some(field)
    }

    pub(crate) fn reads(&mut self, field: &Field, folders: &Folders) -> Zone {
        let paths = self.touched(field, folders);
        let zone = paths.iter().map(|path| Zone::of_read(path, self.workspace)).max();
        self.facts.reads.extend(paths);
        zone.unwrap_or(Zone::Safe)
    }

    pub(crate) fn writes(&mut self, field: &Field, folders: &Folders) -> (Zone, Vec<PathBuf>) {
        let mut paths = self.touched(field, folders);
        if matches!(field.shape, Shape::Pattern(_)) {
            // What matches now may be gone by then: then the pattern is the name.
            paths.extend(self.touched(&Field::known(field.text.clone()), folders));
        }
        let zone = paths.iter().map(|path| Zone::of_write(path, self.workspace)).max();
        self.facts.writes.extend(paths.iter().cloned());
        (zone.unwrap_or(Zone::Safe), paths)
    }

    /// Raises the zone if the removed path is the person's home, or contains it.
    fn removal(&mut self, field: &Field, folders: &Folders) -> Zone {
        let written = field.text.trim_matches('"').trim_end_matches(['/', '*']);
        let unknown_home =
            field.is_open() && matches!(written, "~" | "$HOME" | "${HOME}" | "~root");
        let Some(home) = self.workspace.home() else {
            return if unknown_home { Zone::Never } else { Zone::Safe };
        };
        let whole = without_star(field);
        let holds = field.is_open() && unknown_home
            || !field.is_open()
                && self.touched(&whole, folders).iter().any(|path| home.starts_with(path));
        if holds { Zone::Never } else { Zone::Safe }
    }

    /// Doubts a command that closes a whole project or repository.
    fn check_closed(&mut self, field: &Field, folders: &Folders) {
        if field.is_open() {
            return;
        }
        let project = self.workspace.project();
        let is_whole = |path: &PathBuf| {
            project.starts_with(path) || path.join(".git").symlink_metadata().is_ok()
        };
        if self.touched(&without_star(field), folders).iter().any(is_whole) {
            let what = format!("`{}` is a whole project, which is out of reach then", field.text);
            self.doubt(Doubt::Destructive(what));
        }
    }

    /// The paths of a word, with links resolved.
    pub(crate) fn touched(&mut self, field: &Field, folders: &Folders) -> Vec<PathBuf> {
        let text = field.text.as_str();
        if text.is_empty() {
            return vec![];
        }
        if field.is_open() {
            self.unknown(format!("`{text}` is only known when it runs"));
            return vec![];
        }
        // The kernel opens no path of 4,096 bytes or more.
        if text.len() > 4096 {
            self.unclear("a file's name is longer than any path");
            return vec![];
        }
        let parts = text.split('/').count() * folders.as_slice().len().max(1);
        let Some(left) = self.path_parts_left.checked_sub(parts) else {
            self.unclear("it has more paths than can be checked");
            return vec![];
        };
        self.path_parts_left = left;
        // Links such as `/dev/stderr` resolve to this process's own files, which is meaningless
        // here.
        if is_harmless_device(Path::new(text)) && !text.contains("..") {
            return vec![text.into()];
        }
        let base = Folders::of(self.workspace);
        let folders = if text.starts_with('/') { &base } else { folders };
        if folders.is_unknown() {
            self.unknown(format!("where `{text}` lies depends on an unknown folder"));
            return vec![];
        }
        if self.goes_through_links(field, folders.as_slice()) {
            self.unclear(format!("`{text}` may go through a link that is made before"));
        }
        let mut found = vec![];
        for workspace in folders.as_slice() {
            let names = match &field.shape {
                Shape::Pattern(pattern) => self.matches(pattern, workspace),
                _ => vec![],
            };
            if names.is_empty() {
                if !field.is_known() && text.contains('[') {
                    self.unknown(format!("what `{text}` matches is only known when it runs"));
                }
                if !field.is_known() && text.contains("..") {
                    self.unclear(format!("what `{text}` matches is only known when it runs"));
                }
                let stem = text[..text.find(['*', '?', '[']).unwrap_or(text.len())].to_owned();
                let folder = &stem[..stem.rfind('/').map_or(0, |at| at + 1)];
                let written = if field.is_known() { text } else { folder };
                let written = if written.is_empty() { "." } else { written };
                found.extend_from_slice(&self.disk.touched(written, workspace));
            }
            for name in &names {
                found.extend_from_slice(&self.disk.touched(name, workspace));
            }
        }
        found
    }

    /// The file names that match a pattern; none if there are too many to look at.
    fn matches(&mut self, pattern: &str, workspace: &Workspace) -> Vec<String> {
        let Some(left) = self.patterns_left.checked_sub(1) else {
            self.unclear("it has more patterns than can be checked");
            return vec![];
        };
        self.patterns_left = left;
        glob::matches(pattern, workspace.cwd(), &mut self.globs_left).unwrap_or_else(|| {
            self.unknown(format!("`{pattern}` matches more files than can be checked"));
            vec![]
        })
    }

    /// True if a path leads through a link that the script makes, as it is written or by links on the disk.
    fn goes_through_links(&mut self, field: &Field, folders: &[Workspace]) -> bool {
        if self.links.is_empty() {
            return false;
        }
        !field.is_known() || folders.iter().any(|workspace| self.meets_link(&field.text, workspace))
    }

    fn meets_link(&mut self, path: &str, workspace: &Workspace) -> bool {
        let mut at = workspace.cwd().to_owned();
        let as_written = Path::new(path).components().any(|component| {
            match component {
                Component::ParentDir => _ = at.pop(),
                Component::CurDir => {}
                component => at.push(component),
            }
            self.links.contains(&at)
        });
        as_written || {
            let resolved = self.disk.touched(path, workspace);
            resolved.iter().flat_map(|path| path.ancestors()).any(|at| self.links.contains(at))
        }
    }

    /// The folders after a change to the one that a word names; unknown if the word is.
    pub(crate) fn entered(&mut self, folder: &Field, folders: &Folders) -> Folders {
        let paths = self.touched(folder, folders);
        match folder.is_known() {
            true => Folders::entered(self.workspace, &paths),
            false => Folders::unknown(),
        }
    }
}

/// The folder that a pattern such as `sub/*` empties; any other word itself.
fn without_star(field: &Field) -> Field {
    Field::known(match &field.shape {
        Shape::Pattern(_) => field.text.trim_end_matches('*').to_owned(),
        _ => field.text.clone(),
    })
}

/// A path in a repository without links: `..` removes the name before it.
fn without_dots(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = result.pop(),
            Component::CurDir => {}
            part => result.push(part),
        }
    }
    result
}

/// The parts of a word that could name a file: the whole word unless it is an option, the value of a short
/// option, and what follows `=`, `@` or `:`.
fn file_names_in(text: &str) -> impl Iterator<Item = &str> {
    let whole = Some(text).filter(|text| !text.starts_with('-'));
    let short = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let short = short.and_then(|rest| rest.get(1..));
    let after = text.char_indices().filter(|(_, c)| matches!(c, '=' | '@' | ':')).take(4);
    let after = after.map(|(at, _)| &text[at + 1..]);
    let is_address = |part: &&str| part.starts_with("//");
    let is_name =
        |part: &&str| !part.is_empty() && part.len() < 4096 && !part.contains(['\n', '\0']);
    let parts = whole.into_iter().chain(short).chain(after);
    parts.filter(move |part| is_name(part) && !is_address(part))
}
