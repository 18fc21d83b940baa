//! Hook files: `hooks/*.yaml`. Each declares a command that is asked before a tool runs, or is notified
//! afterwards. The command reads tool and input on standard input, and answers by `blocked`, `reason` and
//! `modified` ([`Dialect::Space`]).
//!
//! Any file may contain a gate, so no file is repaired or skipped: a file that cannot be read as written is
//! an error of the whole folder. Without `command`, the program beside the file with the same stem runs.
//! Paths in commands are relative to the folder that contains `hooks`, as in its settings.

#[cfg(test)]
mod tests;

use std::{
    error::Error,
    ffi::{OsStr, OsString},
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::trust::snapshot::{Snapshot, SnapshotItem};
use crate::{
    command_hook::{
        self, HookLocation,
        dialect::Dialect,
        entry::{CommandHook, CommandLine, MAX_LIMIT_MS, OnFailure},
    },
    folder::{
        diagnostic::{Diagnostic, Severity},
        front_matter::{FieldError, MAX_BYTES, YamlFields, YamlValue, read_exact},
        walk::{MAX_NAMES, list_names, read},
    },
};
use cotter::{
    Registry,
    hooks::{external::ExternalHookSpec, points::PointId},
    permission::verdict::Power,
    text,
};

/// The name of the folder of hooks in an extension folder.
pub(crate) const FOLDER: &str = "hooks";

const KEYS: [&str; 8] =
    ["id", "name", "description", "phase", "tools", "command", "timeoutMs", "enabled"];

/// The values of `phase` and their points.
const PHASES: [(&str, PointId); 2] = [("pre", PointId::ToolPre), ("post", PointId::ToolPost)];

/// The maximum length of an id.
const MAX_ID: usize = 80;

/// A hook as its file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookFile {
    /// The hook, named by its `id`.
    pub hook: CommandHook,
    /// The file.
    pub path: PathBuf,
    /// True if the hook is registered; false with `enabled: false`.
    pub enabled: bool,
}

/// The hooks of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookFiles {
    /// Each file, in the order of names.
    pub files: Vec<HookFile>,
    /// Diagnostics for the authors of the files.
    pub diagnostics: Vec<Diagnostic>,
}

impl HookFiles {
    /// The enabled hooks.
    pub fn enabled(&self) -> impl Iterator<Item = &CommandHook> {
        self.files.iter().filter(|file| file.enabled).map(|file| &file.hook)
    }

    /// The disabled hooks.
    pub fn disabled(&self) -> impl Iterator<Item = &CommandHook> {
        self.files.iter().filter(|file| !file.enabled).map(|file| &file.hook)
    }

    /// Registers the enabled hooks. The folder of `base` is the one that contains `hooks`, or a copy of it.
    pub fn register(&self, unit: &mut Registry, base: &HookLocation) {
        command_hook::register_all(unit, self.enabled(), base);
    }
}

/// The errors in the hook files of a folder. The whole folder is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookFileErrors {
    /// At least one error with its location, and the other diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

impl HookFileErrors {
    /// The errors, each with its location.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Rejected)
    }
}

impl fmt::Display for HookFileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.errors().map(ToString::to_string).collect();
        f.write_str(&shown.join("; "))
    }
}

impl Error for HookFileErrors {}

/// Reads `hooks/*.yaml` of an extension folder, without starting any program. A folder without such files has
/// no hooks.
pub fn load_hooks(folder: &Path) -> Result<HookFiles, HookFileErrors> {
    reject_on_error(HookFolder::of_folder(folder))
}

/// Reads `hooks/*.yaml` of a user's own folder. Unlike [`load_hooks`], this follows links in the folder.
pub fn load_own_hooks(folder: &Path) -> Result<HookFiles, HookFileErrors> {
    reject_on_error(HookFolder::of_folder(folder).map(HookFolder::with_links_followed))
}

/// Reads `hooks/*.yaml` of a snapshot. The result equals that of [`load_hooks`] on a copy of the snapshot.
pub fn hooks_of(snapshot: &Snapshot) -> Result<HookFiles, HookFileErrors> {
    let not_a_folder = || {
        let path = snapshot.source().join(FOLDER);
        Diagnostic::new(&path, None, Severity::Rejected, NOT_A_FOLDER)
    };
    match snapshot.file(Path::new(FOLDER)) {
        Some(_) => reject_on_error(Err(not_a_folder())),
        None => reject_on_error(Ok(HookFolder::of_snapshot(snapshot))),
    }
}

/// The message about a path that must be a folder.
const NOT_A_FOLDER: &str = "it is not a folder";

fn reject_on_error(
    folder: Result<HookFolder<'_>, Diagnostic>,
) -> Result<HookFiles, HookFileErrors> {
    let (files, diagnostics) = match folder {
        Ok(folder) => folder.read(),
        Err(diagnostic) => (vec![], vec![diagnostic]),
    };
    match diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Rejected) {
        true => Err(HookFileErrors { diagnostics }),
        false => Ok(HookFiles { files, diagnostics }),
    }
}

/// The folder `hooks`, on disk or in a snapshot.
pub(crate) struct HookFolder<'a> {
    /// The path for display.
    pub(crate) shown: PathBuf,
    /// The path of the folder, relative to the folder that commands run in.
    relative: String,
    /// The entries, in the order of names.
    pub(crate) entries: Vec<(OsString, HookFolderEntry)>,
    /// Looks up a program by a path relative to the folder that commands run in.
    find: Box<dyn Fn(&str) -> ProgramState + 'a>,
}

/// An entry in the folder of hooks.
pub(crate) enum HookFolderEntry {
    /// The contents of a file that declares a hook, or the reason why it cannot be read.
    Hook(Result<Vec<u8>, String>),
    /// Any other file.
    Other(ProgramState),
    /// A link.
    Link,
}

/// Tells whether a program can run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramState {
    Executable,
    /// The file exists and is not executable.
    NotExecutable,
    Missing,
}

impl HookFolder<'_> {
    /// Reads the folder of hooks in an extension folder.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self, Diagnostic> {
        HookFolder::on_disk(&folder.join(FOLDER), folder, FOLDER)
    }

    pub(crate) fn on_disk(shown: &Path, root: &Path, below: &str) -> Result<Self, Diagnostic> {
        let root = root.to_owned();
        let find = move |path: &str| ProgramState::of(fs::metadata(root.join(path)));
        Ok(HookFolder {
            shown: shown.into(),
            relative: below.into(),
            entries: entries(shown)?,
            find: Box::new(find),
        })
    }

    fn with_links_followed(mut self) -> Self {
        for (name, entry) in &mut self.entries {
            if let HookFolderEntry::Link = entry {
                let path = self.shown.join(&*name);
                *entry = match fs::canonicalize(&path) {
                    Err(cause) => {
                        HookFolderEntry::Hook(Err(format!("it is a broken link: {cause}")))
                    }
                    Ok(real) if is_yaml(name) => HookFolderEntry::Hook(read_hook_file(&real)),
                    Ok(real) => HookFolderEntry::Other(ProgramState::of(fs::metadata(real))),
                };
            }
        }
        self
    }

    fn of_snapshot(snapshot: &Snapshot) -> HookFolder<'_> {
        let is_visible = |name: &OsString| !name.as_encoded_bytes().starts_with(b".");
        let entry = |(name, item): (OsString, &SnapshotItem)| {
            let entry = match item {
                SnapshotItem::Link(_) => HookFolderEntry::Link,
                SnapshotItem::File { bytes, .. } if is_yaml(&name) => {
                    HookFolderEntry::Hook(Ok(bytes.clone()))
                }
                SnapshotItem::File { executable: true, .. } => {
                    HookFolderEntry::Other(ProgramState::Executable)
                }
                SnapshotItem::File { executable: false, .. } => {
                    HookFolderEntry::Other(ProgramState::NotExecutable)
                }
            };
            (name, entry)
        };
        let find = |path: &str| match snapshot.file(Path::new(path)) {
            Some((true, _)) => ProgramState::Executable,
            Some((false, _)) => ProgramState::NotExecutable,
            None => ProgramState::Missing,
        };
        let items = snapshot.folder(Path::new(FOLDER)).into_iter();
        HookFolder {
            shown: snapshot.source().join(FOLDER),
            relative: FOLDER.into(),
            entries: items.filter(|(name, _)| is_visible(name)).map(entry).collect(),
            find: Box::new(find),
        }
    }

    /// Reads the hooks and their diagnostics. If two files have the same id, the first is kept.
    pub(crate) fn read(&self) -> (Vec<HookFile>, Vec<Diagnostic>) {
        let (mut files, mut diagnostics): (Vec<HookFile>, Vec<Diagnostic>) = (vec![], vec![]);
        for (name, entry) in self.entries.iter().filter(|(name, _)| is_yaml(name)) {
            let path = self.shown.join(name);
            let reader = HookFileReader { folder: self, name, path: &path };
            match reader.hook(entry, &mut diagnostics) {
                Err(diagnostic) => diagnostics.push(diagnostic),
                Ok((file, line)) => match id_conflict(&files, &file) {
                    Some(why) => {
                        diagnostics.push(FieldError::new(line, why).into_diagnostic(&path))
                    }
                    None => files.push(file),
                },
            }
        }
        (files, diagnostics)
    }
}

/// The reason why a new hook conflicts with the others: its id is already used.
fn id_conflict(files: &[HookFile], new: &HookFile) -> Option<String> {
    let first = files.iter().find(|file| file.hook.name == new.hook.name)?;
    let name = first.path.file_name().unwrap_or_default().to_string_lossy();
    Some(format!("the id `{}` is already defined by {}", new.hook.name, text::show_line(&name)))
}

/// The entries of a folder on disk. A missing folder has none.
pub(crate) fn entries(folder: &Path) -> Result<Vec<(OsString, HookFolderEntry)>, Diagnostic> {
    let rejected = |why: String| Diagnostic::new(folder, None, Severity::Rejected, why);
    let cannot = |cause: io::Error| rejected(format!("it cannot be read: {cause}"));
    let real = match fs::canonicalize(folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && !folder.is_symlink() => {
            return Ok(vec![]);
        }
        real => real.map_err(cannot)?,
    };
    if !real.is_dir() {
        return Err(rejected(NOT_A_FOLDER.into()));
    }
    let names = list_names(&real).map_err(cannot)?;
    if names.len() > MAX_NAMES {
        return Err(rejected("it contains too many files".into()));
    }
    let entry = |(name, kind): (PathBuf, fs::FileType)| {
        let path = real.join(&name);
        let entry = match is_yaml(name.as_os_str()) {
            _ if kind.is_symlink() => HookFolderEntry::Link,
            true => HookFolderEntry::Hook(read_hook_file(&path)),
            false => HookFolderEntry::Other(ProgramState::of(fs::symlink_metadata(&path))),
        };
        (name.into_os_string(), entry)
    };
    Ok(names.into_iter().map(entry).collect())
}

/// Reads the whole contents of a file that declares a hook.
fn read_hook_file(path: &Path) -> Result<Vec<u8>, String> {
    let (bytes, _) =
        read(path, MAX_BYTES + 1).map_err(|cause| format!("it cannot be read: {cause}"))?;
    if bytes.len() > MAX_BYTES { Err(too_long()) } else { Ok(bytes) }
}

fn too_long() -> String {
    format!("it has more than {MAX_BYTES} bytes")
}

pub(crate) fn is_yaml(name: impl AsRef<Path>) -> bool {
    let ending = name.as_ref().extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ending == "yaml" || ending == "yml")
}

impl ProgramState {
    pub(crate) fn of(metadata: io::Result<fs::Metadata>) -> Self {
        let Some(metadata) = metadata.ok().filter(fs::Metadata::is_file) else {
            return ProgramState::Missing;
        };
        if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 == 0 {
            return ProgramState::NotExecutable;
        }
        ProgramState::Executable
    }
}

/// The state of reading one hook file.
struct HookFileReader<'a> {
    folder: &'a HookFolder<'a>,
    name: &'a OsString,
    path: &'a Path,
}

impl HookFileReader<'_> {
    fn rejected(&self, why: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.path, None, Severity::Rejected, why)
    }

    /// Reads the hook, and the line of its id.
    fn hook(
        &self,
        entry: &HookFolderEntry,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<(HookFile, usize), Diagnostic> {
        let bytes = match entry {
            HookFolderEntry::Hook(Ok(bytes)) if bytes.len() <= MAX_BYTES => bytes,
            HookFolderEntry::Hook(Ok(_)) => return Err(self.rejected(too_long())),
            HookFolderEntry::Hook(Err(why)) => return Err(self.rejected(why)),
            HookFolderEntry::Link => {
                return Err(self.rejected("it is a link, and links are not followed"));
            }
            HookFolderEntry::Other(_) => return Err(self.rejected("it is not a file")),
        };
        let fields = read_exact(self.path, bytes)?;
        let to_diagnostic = |error: FieldError| error.into_diagnostic(self.path);
        check_keys(&fields).map_err(to_diagnostic)?;
        let (id, line) = id(&fields).map_err(to_diagnostic)?;
        let point = phase(&fields).map_err(to_diagnostic)?;
        let enabled = enabled(&fields).map_err(to_diagnostic)?;
        let tools = tools(&fields).map_err(to_diagnostic)?;
        let limit = limit(&fields).map_err(to_diagnostic)?;
        let description = description(&fields).map_err(to_diagnostic)?;
        let given = command(&fields).map_err(to_diagnostic)?;
        let command = match self.command(given, fields.get("command").map(|field| field.line)) {
            Ok(command) => command,
            // A disabled hook may lack its program.
            Err((command, diagnostic)) if !enabled => {
                diagnostics.push(Diagnostic { severity: Severity::Warning, ..diagnostic });
                command
            }
            Err((_, diagnostic)) => return Err(diagnostic),
        };
        let hook = CommandHook {
            name: id.into(),
            point,
            spec: ExternalHookSpec {
                definition: "".into(),
                name: Some(id.into()),
                description: description.into(),
                tools,
                limit,
                // A hook after the tool can only observe.
                power: (point == PointId::ToolPost).then_some(Power::Observe),
                detached: false,
            },
            command,
            env: vec![],
            is_resident: false,
            on_failure: OnFailure::Block,
            dialect: Dialect::Space,
        };
        Ok((HookFile { hook, path: self.path.into(), enabled }, line))
    }

    /// Returns the command; or, if it cannot run, the command and the reason.
    fn command(
        &self,
        given: Option<CommandLine>,
        line: Option<usize>,
    ) -> Result<CommandLine, (CommandLine, Diagnostic)> {
        let Some(command) = given else { return self.find_program_beside() };
        match find_program_error(&command, &self.folder.find, &self.folder.relative) {
            None => Ok(command),
            Some(why) => Err((command, Diagnostic::new(self.path, line, Severity::Rejected, why))),
        }
    }

    /// Finds the program with the same stem beside the file.
    fn find_program_beside(&self) -> Result<CommandLine, (CommandLine, Diagnostic)> {
        let stem = Path::new(self.name).file_stem().unwrap_or_default();
        let same = |name: &OsString| !is_yaml(name) && Path::new(name).file_stem() == Some(stem);
        let others = || self.folder.entries.iter().filter(|(name, _)| same(name));
        // Files that cannot run, such as a readme, may have the same stem too.
        let is_closed = |entry: &HookFolderEntry| {
            matches!(entry, HookFolderEntry::Other(ProgramState::NotExecutable))
        };
        let closed = others().find(|(_, entry)| is_closed(entry));
        let programs = others().filter(|(_, entry)| {
            matches!(
                entry,
                HookFolderEntry::Link | HookFolderEntry::Other(ProgramState::Executable)
            )
        });
        let shown = |name: &OsStr| text::show_line(&name.to_string_lossy()).into_owned();
        let (name, why) = match (programs.collect::<Vec<_>>().as_slice(), closed) {
            ([(name, HookFolderEntry::Other(_))], _) => match name.to_str() {
                Some(name) => return Ok(self.command_beside(name)),
                None => {
                    (name.as_os_str(), "its name is not UTF-8: name a program in `command`".into())
                }
            },
            ([(name, _)], _) => {
                let why = "is a link, and links are not followed: name it in `command`";
                (name.as_os_str(), format!("`{}` beside it {why}", shown(name)))
            }
            ([(one, _), (two, _), ..], _) => {
                let why = "are beside it: name one in `command`";
                (one.as_os_str(), format!("`{}` and `{}` {why}", shown(one), shown(two)))
            }
            ([], Some((name, _))) => {
                let why = "beside it is not executable (run `chmod +x` on it)";
                (name.as_os_str(), format!("`{}` {why}", shown(name)))
            }
            ([], None) => {
                let name = shown(stem);
                let why = format!(
                    "it has no `command`, and no program beside it is called `{name}` or `{name}.sh`"
                );
                (stem, why)
            }
        };
        Err((self.command_beside(&name.to_string_lossy()), self.rejected(why)))
    }

    /// The command of a program beside the file, relative to the folder that commands run in.
    fn command_beside(&self, name: &str) -> CommandLine {
        let below = Path::new(&self.folder.relative).join(name);
        CommandLine::Words(vec![format!("./{}", below.display())])
    }
}

/// The reason why a command cannot run, if its program is a relative path.
pub(crate) fn find_program_error(
    command: &CommandLine,
    find: &dyn Fn(&str) -> ProgramState,
    below: &str,
) -> Option<String> {
    let CommandLine::Words(words) = command else { return None };
    let program = words.first()?;
    if !program.contains('/') || Path::new(program).has_root() {
        return None;
    }
    let shown = text::cut_chars(&text::show_line(program), 80).into_owned();
    match find(program) {
        ProgramState::Executable => None,
        ProgramState::NotExecutable => {
            Some(format!("`{shown}` is not executable (run `chmod +x` on it)"))
        }
        ProgramState::Missing => {
            let within = program.strip_prefix("./").unwrap_or(program);
            let within = format!("./{below}/{within}");
            let meant = match find(&within) {
                ProgramState::Missing => String::new(),
                _ => {
                    format!("; did you mean `{}`?", text::cut_chars(&text::show_line(&within), 80))
                }
            };
            Some(format!("there is no program `{shown}` in the folder that has `{below}`{meant}"))
        }
    }
}

fn check_keys(fields: &YamlFields) -> Result<(), FieldError> {
    let Some(field) = fields.iter().find(|field| !KEYS.contains(&field.key.as_str())) else {
        return Ok(());
    };
    let key = text::cut_chars(&text::show_line(&field.key), 40).into_owned();
    let hint = text::did_you_mean(&field.key, KEYS);
    let hint = hint.unwrap_or_else(|| format!("there are {}", quoted(&KEYS)));
    Err(FieldError::new(field.line, format!("there is no key `{key}`; {hint}")))
}

fn quoted(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

/// The text of a required key, and its line.
fn required<'a>(fields: &'a YamlFields, key: &str) -> Result<(&'a str, usize), FieldError> {
    match (fields.text(key)?, fields.get(key)) {
        (Some(text), Some(field)) => Ok((text, field.line)),
        (None, Some(field)) => Err(field.error("a text")),
        (_, None) => Err(FieldError::new(1, format!("missing key `{key}`"))),
    }
}

/// Reads the id. People and the model read it beside the hook's reasons, so its characters are limited.
fn id(fields: &YamlFields) -> Result<(&str, usize), FieldError> {
    let (id, line) = required(fields, "id")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match id.chars().all(fits) && id.len() <= MAX_ID {
        true => Ok((id, line)),
        false => {
            let shown = text::cut_chars(&text::show_line(id), 40).into_owned();
            let why = format!(
                "`{shown}` is not a valid `id`: use at most {MAX_ID} letters, digits, `-`, `_` and `.`"
            );
            Err(FieldError::new(line, why))
        }
    }
}

fn phase(fields: &YamlFields) -> Result<PointId, FieldError> {
    let (phase, line) = required(fields, "phase")?;
    if let Some((_, point)) = PHASES.iter().find(|(word, _)| *word == phase) {
        return Ok(*point);
    }
    let shown = text::cut_chars(&text::show_line(phase), 40).into_owned();
    let words = PHASES.map(|(word, _)| word);
    // A point has a longer name than a phase: `tool.pre`.
    let short = phase.strip_prefix("tool.").unwrap_or(phase);
    let hint = text::did_you_mean(short, words);
    let hint = hint.unwrap_or_else(|| format!("there are {}", quoted(&words)));
    Err(FieldError::new(line, format!("there is no phase `{shown}`; {hint}")))
}

fn enabled(fields: &YamlFields) -> Result<bool, FieldError> {
    match (fields.flag("enabled")?, fields.get("enabled")) {
        (Some(flag), _) => Ok(flag),
        (None, None) => Ok(true),
        (None, Some(field)) => Err(field.error("`true` or `false`")),
    }
}

fn tools(fields: &YamlFields) -> Result<Option<Vec<String>>, FieldError> {
    let (Some(globs), Some(field)) = (fields.words("tools")?, fields.get("tools")) else {
        return Ok(None);
    };
    let fails = |why: String| Err(FieldError::new(field.line, why));
    if globs.is_empty() {
        return fails("`tools` is empty: leave it out to match every tool".into());
    }
    if globs.iter().any(String::is_empty) {
        return fails("a tool in `tools` has no name".into());
    }
    let checked = cotter::host::check_globs(&globs);
    match checked.and_then(|()| cotter::host::check_tool_names(&globs)) {
        Ok(_) => Ok(Some(globs)),
        Err(cause) => fails(format!("`tools`: {}", text::show_line(&cause.to_string()))),
    }
}

fn limit(fields: &YamlFields) -> Result<Option<Duration>, FieldError> {
    let Some(field) = fields.get("timeoutMs") else { return Ok(None) };
    let number = match &field.value {
        YamlValue::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number.filter(|number| (1..=MAX_LIMIT_MS).contains(number)) {
        Some(number) => Ok(Some(Duration::from_millis(number))),
        None => Err(field.error(&format!("a whole number from 1 to {MAX_LIMIT_MS}"))),
    }
}

/// Joins the name for people and the description.
fn description(fields: &YamlFields) -> Result<String, FieldError> {
    let parts = [fields.text("name")?, fields.text("description")?];
    Ok(parts.into_iter().flatten().collect::<Vec<_>>().join(": "))
}

fn command(fields: &YamlFields) -> Result<Option<CommandLine>, FieldError> {
    let Some(field) = fields.get("command") else { return Ok(None) };
    let line = match &field.value {
        YamlValue::List(words) => CommandLine::Words(
            words.iter().map(|(line, word)| as_word(*line, word)).collect::<Result<_, _>>()?,
        ),
        _ => match fields.text("command")? {
            Some(line) => CommandLine::parse(line),
            None => return Err(field.error("a text or a list of words")),
        },
    };
    let line = line
        .check_runnable()
        .map_err(|why| FieldError::new(field.line, format!("`command`: {why}")));
    line.map(Some)
}

/// A word of a command, as it is written.
fn as_word(line: usize, word: &YamlValue) -> Result<String, FieldError> {
    match word {
        YamlValue::Text(word) => Ok(word.clone()),
        YamlValue::Flag(word) => Ok(word.to_string()),
        _ => Err(FieldError::new(line, "a word of `command` has to be a text")),
    }
}
