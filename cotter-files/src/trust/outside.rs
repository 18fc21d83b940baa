//! The files outside a source that its declarations run, such as the script `scripts/guard.sh` of a project.
//!
//! Trust covers them: a snapshot contains each as an item below [`FOLDER`]. Every value of a key that holds a
//! command counts, in every file that may declare something, whoever reads it. So no reader finds a command
//! that is not looked at here. A file that a script runs in its turn is not known.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

use cotter::fs::{declared_file::DeclaredFile, workspace::is_system};
use serde_json::Value;

use crate::{
    document::Document,
    trust::{
        TrustError, named_files,
        snapshot::SnapshotItem,
        source,
        state::{HEAD_BYTES, has_code_name, is_code, run_words},
    },
};

/// The folder of a snapshot that holds these files: those of the project by their paths there.
pub(crate) const FOLDER: &str = ".outside";

/// The folder in it for files outside the project, by their absolute paths.
const ABSOLUTE: &str = "%";

/// The size up to which a file is read. A larger one counts as changed when its change time differs.
const MAX_READ: u64 = 4 * 1024 * 1024;

/// The keys whose values are commands, in every format that is read.
const COMMAND_KEYS: [&str; 2] = ["command", "args"];

/// What an interpreter loads for a word that is no file: the file itself, once it appears, or one of these.
const LOADED_FOR: [&str; 5] = ["", ".js", ".node", "/index.js", "/__main__.py"];

type Items = BTreeMap<PathBuf, SnapshotItem>;

/// Returns the files that the items of a source run. Fails if the source has a folder of that name itself.
/// Empty for what is not a source of a project, such as a copy or a space.
pub(crate) fn items(source: &Path, items: &Items) -> Result<Items, TrustError> {
    if source::project_of(source).is_none() {
        return Ok(Items::new());
    }
    if items.keys().any(|path| path.starts_with(FOLDER)) {
        let error = TrustError::new(source, format_args!("contains `{FOLDER}`"));
        return Err(error.with_hint("rename it: the name stands for files outside the folder"));
    }
    let declares = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        ["json", "yaml", "yml"].iter().any(|known| ending.eq_ignore_ascii_case(known))
    };
    let mut found = Items::new();
    for (path, item) in items {
        let SnapshotItem::File { bytes, .. } = item else { continue };
        if !declares(path) {
            continue;
        }
        let files = commands_in(bytes).into_iter().flat_map(|text| named_by(&text, source));
        found.extend(files.filter_map(|file| Some((file.at.clone(), file.read()?))));
    }
    Ok(found)
}

/// The files that one command runs, and their trusted contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedFiles(Vec<(OutsideFile, Option<SnapshotItem>)>);

impl TrustedFiles {
    /// Reads the trusted contents from the copy of a source. The command is given as a line or as words.
    pub(crate) fn of_command(words: &[&str], source: &Path, copy: &Path) -> Self {
        let files = named_by(&words.join(" "), source).into_iter().map(|mut file| {
            let trusted = read_whole(&copy.join(&file.at));
            // It may be another command that runs it.
            file.is_run |= trusted.is_some();
            (file, trusted)
        });
        TrustedFiles(files.collect())
    }

    /// Compares the files with what was trusted. An error says which one differs.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.0.iter().find(|(file, trusted)| file.read() != *trusted) {
            None => Ok(()),
            Some((file, _)) => Err(format!(
                "{} changed since it was trusted: `cotter trust` shows the difference",
                crate::trust::show_path(&file.path)
            )),
        }
    }
}

/// A file that a command names.
#[derive(Clone, Debug)]
struct OutsideFile {
    path: PathBuf,
    /// The path in a snapshot.
    at: PathBuf,
    /// The command runs it, so it is code whatever it looks like.
    is_run: bool,
}

impl OutsideFile {
    /// Reads the file. `None` if there is none, or if it is no code.
    fn read(&self) -> Option<SnapshotItem> {
        if is_system(&self.path.canonicalize().ok()?) {
            return None;
        }
        let metadata = fs::metadata(&self.path).ok().filter(fs::Metadata::is_file)?;
        let executable = metadata.permissions().mode() & 0o111 != 0;
        if metadata.len() > MAX_READ {
            let times = (metadata.mtime(), metadata.ctime(), metadata.ctime_nsec());
            let text = format!("{} bytes, file {}, {times:?}", metadata.len(), metadata.ino());
            return Some(SnapshotItem::File { executable, bytes: text.into() });
        }
        let item = read_whole(&self.path)?;
        let SnapshotItem::File { executable, bytes } = &item else { return None };
        let head = &bytes[..bytes.len().min(HEAD_BYTES)];
        let is_code = *executable || has_code_name(&self.path) || is_code(head);
        (self.is_run || is_code).then_some(item)
    }
}

fn read_whole(path: &Path) -> Option<SnapshotItem> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let executable = metadata.permissions().mode() & 0o111 != 0;
    Some(SnapshotItem::File { executable, bytes: fs::read(path).ok()? })
}

/// The files outside a source that a command may name. The project is the folder of the source, and each one
/// above it up to the repository: which one a session works in is not known.
fn named_by(text: &str, source: &Path) -> Vec<OutsideFile> {
    let Some(project) = source::project_of(source) else { return vec![] };
    let is_repository = |folder: &Path| folder.join(".git").symlink_metadata().is_ok();
    let repository = project.ancestors().find(|folder| is_repository(folder)).unwrap_or(project);
    let projects: Vec<_> =
        project.ancestors().take_while(|folder| folder.starts_with(repository)).collect();
    let named = named_files::of(text, source).into_iter().flat_map(|file| match file {
        DeclaredFile::Absolute(path) => vec![path],
        DeclaredFile::InProject(path) => projects.iter().map(|folder| folder.join(&path)).collect(),
        // The home folder is one that the project is in.
        DeclaredFile::AtHome(path) => {
            project.ancestors().skip(1).map(|folder| folder.join(&path)).collect()
        }
    });
    let named = named.flat_map(|path| match path.is_file() {
        true => vec![path],
        // Node and Python find these for such a word.
        false => LOADED_FOR.map(|end| PathBuf::from(format!("{}{end}", path.display()))).into(),
    });
    let is_outside = |path: &PathBuf| !plain(path).starts_with(source);
    let run = run_words(text);
    let is_run =
        |path: &Path| run.iter().any(|word| Path::new(word).file_name() == path.file_name());
    let file = |path: PathBuf| OutsideFile {
        at: path_in_snapshot(&plain(&path), project),
        is_run: is_run(&path),
        path,
    };
    named.filter(is_outside).map(file).collect()
}

fn path_in_snapshot(path: &Path, project: &Path) -> PathBuf {
    let folder = Path::new(FOLDER);
    match path.strip_prefix(project) {
        Ok(inside) => folder.join(inside),
        Err(_) => folder.join(ABSOLUTE).join(path.strip_prefix("/").unwrap_or(path)),
    }
}

/// The path on disk of an item of a snapshot. `None` if it is no file elsewhere.
pub(crate) fn path_on_disk(at: &Path, source: &Path) -> Option<PathBuf> {
    let inside = at.strip_prefix(FOLDER).ok()?;
    Some(match inside.strip_prefix(ABSOLUTE) {
        Ok(absolute) => Path::new("/").join(absolute),
        Err(_) => source::project_of(source)?.join(inside),
    })
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
        plain
    })
}

/// The commands of a file, in any format: each text, and the words of a list as one line. The program of an
/// object comes before its arguments. A file that is not understood counts as one command.
fn commands_in(bytes: &[u8]) -> Vec<String> {
    let json = Document::parse_bytes("", bytes).map(|document| document.root().to_json());
    let text = String::from_utf8_lossy(bytes);
    match json.ok().or_else(|| serde_saphyr::from_str(&text).ok()) {
        Some(value) => {
            let mut commands = vec![];
            add_commands(&value, false, &mut commands);
            commands
        }
        None => vec![text.into_owned()],
    }
}

fn add_commands(value: &Value, is_command: bool, found: &mut Vec<String>) {
    if is_command {
        found.push(words_of(value).join(" "));
    }
    add_nested_commands(value, is_command, found);
}

/// Adds all but the words of the value itself.
fn add_nested_commands(value: &Value, is_command: bool, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => {
            let nested = values.iter().filter(|value| !value.is_string());
            nested.for_each(|value| add_commands(value, is_command, found));
        }
        Value::Object(members) => {
            let is_key = |key: &str, known: &str| key.eq_ignore_ascii_case(known);
            let values_of = |known| members.iter().filter(move |(key, _)| is_key(key, known));
            let line = COMMAND_KEYS.iter().copied().flat_map(values_of);
            let line: Vec<_> = line.flat_map(|(_, value)| words_of(value)).collect();
            found.push(line.join(" "));
            for (key, value) in members {
                match COMMAND_KEYS.iter().any(|known| is_key(key, known)) {
                    true => add_nested_commands(value, true, found),
                    false => add_commands(value, is_command, found),
                }
            }
        }
        _ => {}
    }
}

/// The words of a command: one text, or a list of them.
fn words_of(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        value => value.as_str().into_iter().collect(),
    }
}
