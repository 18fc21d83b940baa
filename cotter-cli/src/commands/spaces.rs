//! `cotter spaces add|update|remove|list|new`: the person's own spaces, their sources, and their trust.
//! Adding a space runs nothing: the space is copied and shown, and the person is asked.

use std::{fs, io, path::Path, process::ExitCode};

use cotter::text;
use cotter_files::{
    extensions::FileKind,
    space::{self, Space},
    trust::{
        snapshot::{Hash, Snapshot},
        store::{Grants, TrustState, TrustStore},
        view::view,
    },
};
use serde_json::json;

use crate::{
    args::{SetupArgs, SpacesVerb},
    commands::check,
    error::CliError,
    paths,
    spaces::{
        SpaceLocation, Spaces, describe_contents,
        git::{self, GitUrl},
        store::{self, SpaceRecord, SpaceStore},
    },
    terminal::{
        Terminal,
        screen::{Screen, print_stdout},
        style::{ColorChoice, Style},
    },
    trust::{self, show_path},
};

/// Runs the command.
pub(crate) fn run(verb: SpacesVerb, color: ColorChoice) -> Result<ExitCode, CliError> {
    match verb {
        SpacesVerb::Add { source, rev, rewrite } => add(&source, rev, rewrite, color),
        SpacesVerb::Update { id, rewrite } => update(id.as_deref(), rewrite, color),
        SpacesVerb::Remove { id } => remove(&id),
        SpacesVerb::List(args) => list(args.json, color),
        SpacesVerb::New { id } => new(&id),
        SpacesVerb::Check(args) => check::files(FileKind::Spaces, &args.path, args.json, color),
    }
}

/// A copy of a space from its source.
struct FetchedSpace {
    /// The files, under a folder that does not exist yet.
    snapshot: Snapshot,
    /// The commit, for a repository.
    revision: Option<String>,
}

/// The source of a space.
enum SpaceSource {
    Folder(String),
    Repository(GitUrl),
}

impl SpaceSource {
    fn parse(typed: &str) -> Result<Self, CliError> {
        if let Some(address) = GitUrl::parse(typed)? {
            return Ok(SpaceSource::Repository(address));
        }
        let cannot = |cause: io::Error| {
            CliError::new(format!("folder {} not found", show_path(Path::new(typed))))
                .with_cause(cause)
        };
        let folder = fs::canonicalize(typed).map_err(cannot)?;
        let folder = folder.into_os_string().into_string();
        folder
            .map(SpaceSource::Folder)
            .map_err(|_| CliError::new("the path of that folder is not UTF-8"))
    }

    /// Describes in words the source of contents.
    fn describe(&self, revision: Option<&str>) -> String {
        let at = revision.map(|revision| format!(" at {revision}")).unwrap_or_default();
        format!("{}{at}", text::show_line(self.as_str()))
    }

    fn as_str(&self) -> &str {
        match self {
            SpaceSource::Folder(folder) => folder,
            SpaceSource::Repository(address) => address.as_str(),
        }
    }

    fn copy(&self, rev: Option<&str>, space_store: &SpaceStore) -> Result<FetchedSpace, CliError> {
        match self {
            SpaceSource::Folder(_) if rev.is_some() => {
                Err(CliError::usage("`--rev` is for repositories, and this is a folder"))
            }
            SpaceSource::Folder(folder) => {
                // The folder of git is no part of the space.
                let snapshot = Snapshot::take_without(Path::new(folder), &[".git"])?;
                Ok(FetchedSpace { snapshot, revision: None })
            }
            SpaceSource::Repository(address) => {
                let scratch = space_store.scratch();
                let (items, commit) = git::fetch_commit(address, rev, &scratch)?;
                let snapshot = Snapshot::of_items(&scratch, items).map_err(|error| {
                    let shown = text::show_line(address.as_str()).into_owned();
                    CliError::from(error).wrap_in(format!("{shown} cannot be used as a space"))
                })?;
                Ok(FetchedSpace { snapshot, revision: Some(commit) })
            }
        }
    }
}

/// Reads the manifest. An error names files relative to the space.
fn read(copied: &FetchedSpace, from: &SpaceSource) -> Result<space::SpaceManifest, CliError> {
    let (manifest, _) = Space::read_strict_parts(&copied.snapshot).map_err(|mut broken| {
        let source = copied.snapshot.source();
        for diagnostic in &mut broken.diagnostics {
            diagnostic.path = diagnostic
                .path
                .strip_prefix(source)
                .map_or(diagnostic.path.clone(), Path::to_owned);
        }
        let shown = text::show_line(from.as_str()).into_owned();
        CliError::of_space(format!("{shown} cannot be used as a space"), &broken)
    })?;
    Ok(manifest)
}

fn add(
    source: &str,
    rev: Option<String>,
    rewrite: bool,
    color: ColorChoice,
) -> Result<ExitCode, CliError> {
    let from = SpaceSource::parse(source)?;
    let space_store = SpaceStore::open()?;
    let copied = from.copy(rev.as_deref(), &space_store)?;
    let id = read(&copied, &from)?.id;
    let (folder, snapshot) = (space_store.space_folder(&id), copied.snapshot);
    let hash = snapshot.hash();
    let is_known = space_store.entries()?.iter().any(|entry| entry.id == id);
    let is_installed = match folder.symlink_metadata() {
        Ok(_) if is_known => {
            return Err(CliError::new(format!("the space `{id}` already exists")).with_hint(
                format!(
                    "`cotter spaces update {id}` updates it, `cotter spaces remove {id}` removes it"
                ),
            ));
        }
        // A killed process left this folder. It only needs a record.
        Ok(_) if Snapshot::take(&folder).is_ok_and(|installed| installed.hash() == hash) => true,
        Ok(_) => {
            return Err(CliError::new(format!(
                "{} already exists, with other contents",
                show_path(&folder)
            ))
            .with_hint(format!("`cotter spaces remove {id}` removes it")));
        }
        Err(_) => false,
    };
    let snapshot = snapshot.at(&folder)?;
    let store = trust::store(paths::find_workspace(None)?.project())?;
    let answer =
        ask(&snapshot, &from.describe(copied.revision.as_deref()), &store, rewrite, color)?;
    if answer == TrustAnswer::No {
        return Err(CliError::refused("the answer was no: nothing was added"));
    }
    if !is_installed {
        space_store.install(&id, &snapshot)?;
    }
    let source = from.as_str().to_owned();
    let entry = SpaceRecord { id: id.to_string(), source, rev, revision: copied.revision, hash };
    space_store.set(&id, Some(entry))?;
    store_answer(&answer, &snapshot, &store, rewrite)?;
    let done =
        UpdateReport::new(&answer, &snapshot, describe_installed(&id, &folder, "is installed")?);
    let exit_code = print_stdout(&done.text);
    done.open_error.map_or(Ok(exit_code), Err)
}

/// The person's answer to the question about trust.
#[derive(PartialEq, Eq)]
enum TrustAnswer {
    /// The contents are trusted already.
    AlreadyTrusted,
    Yes,
    No,
    /// There was no terminal to ask on.
    NotAsked,
}

/// Shows the contents, their source and the changes since they were trusted, and asks.
fn ask(
    snapshot: &Snapshot,
    from: &str,
    store: &TrustStore,
    rewrite: bool,
    color: ColorChoice,
) -> Result<TrustAnswer, CliError> {
    let state = store.state(snapshot);
    if matches!(&state, TrustState::Trusted { grants, .. } if grants.rewrite >= rewrite) {
        return Ok(TrustAnswer::AlreadyTrusted);
    }
    let shown = view(snapshot, &trust::declared_of_space(snapshot)?, &state);
    let shown = format!("from    {from}\n{shown}");
    let grants = Grants::default().with_rewrite(rewrite);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|cause| CliError::new("cannot start the runtime").with_cause(cause))?;
    Ok(runtime.block_on(async {
        let Ok(terminal) = Terminal::open(color, Screen::default()) else {
            return TrustAnswer::NotAsked;
        };
        match trust::confirm(&shown, snapshot, grants, &terminal).await {
            true => TrustAnswer::Yes,
            false => TrustAnswer::No,
        }
    }))
}

/// Stores the answer of the person.
fn store_answer(
    answer: &TrustAnswer,
    snapshot: &Snapshot,
    store: &TrustStore,
    rewrite: bool,
) -> Result<(), CliError> {
    if *answer == TrustAnswer::Yes {
        let _ = store.trust(snapshot, Grants::default().with_rewrite(rewrite))?;
    }
    Ok(())
}

/// Renders a line about an installed space, and its diagnostics.
fn describe_installed(id: &str, folder: &Path, what: &str) -> Result<String, CliError> {
    let space = Space::read(folder)?;
    let version = text::show_line(&space.manifest.version).into_owned();
    let mut out = format!("space `{id}` {version} {what}: {}\n", describe_contents(&space));
    for diagnostic in space.diagnostics() {
        out += &format!("warning: {}\n", text::show_line(&diagnostic.to_string()));
    }
    Ok(out)
}

/// The result of an update, and what the person still has to do.
struct UpdateReport {
    text: String,
    open_error: Option<CliError>,
}

impl UpdateReport {
    fn new(answer: &TrustAnswer, snapshot: &Snapshot, text: String) -> Self {
        let id = id_of(snapshot);
        if *answer != TrustAnswer::NotAsked {
            let text = format!("{text}`cotter -p --space {id} PROMPT` uses it\n");
            return UpdateReport { text, open_error: None };
        }
        let (path, hash) = (show_path(snapshot.source()), snapshot.hash());
        let failure = CliError::refused(format!(
            "space `{id}` is not trusted yet: there is no terminal to ask on"
        ));
        let error = failure.with_hint(format!(
            "`cotter trust {path}` shows it and asks; `--trust={hash}` trusts it for one run"
        ));
        UpdateReport { text, open_error: Some(error) }
    }
}

fn id_of(snapshot: &Snapshot) -> String {
    snapshot.source().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn update(id: Option<&str>, rewrite: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let space_store = SpaceStore::open()?;
    let mut entries = space_store.entries()?;
    if let Some(id) = id {
        let known: Vec<_> = entries.iter().map(|entry| entry.id.clone()).collect();
        entries.retain(|entry| entry.id == id);
        if entries.is_empty() {
            return Err(unknown(id, known.iter().map(String::as_str)));
        }
    }
    if entries.is_empty() {
        return Ok(print_stdout("there are no spaces to update\n"));
    }
    let mut failed = None;
    for entry in entries {
        let id = entry.id.clone();
        let failure = match update_one(&space_store, entry, rewrite, color) {
            Ok(UpdateReport { text, open_error }) => {
                print_stdout(&text);
                open_error
            }
            Err(failure) => Some(failure.wrap_in(format!("space `{id}` is unchanged"))),
        };
        if let Some(failure) = failure
            && let Some(before) = failed.replace(failure)
        {
            before.report(Style::on_stderr(color));
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// True if the requested revision is one commit, which has no newer version.
fn is_fixed(entry: &SpaceRecord) -> bool {
    let is_commit = |rev: &String| {
        matches!(rev.len(), 40 | 64) && rev.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    entry.rev.as_ref().is_some_and(is_commit)
}

/// True if the installed space was edited. An update would discard the edits.
fn is_edited(entry: &SpaceRecord, folder: &Path, installed: Option<Hash>) -> bool {
    match installed {
        Some(hash) => hash != entry.hash,
        None => folder.symlink_metadata().is_ok(),
    }
}

fn update_one(
    space_store: &SpaceStore,
    entry: SpaceRecord,
    rewrite: bool,
    color: ColorChoice,
) -> Result<UpdateReport, CliError> {
    let SpaceRecord { id, .. } = &entry;
    let folder = space_store.space_folder(id);
    let installed = Snapshot::take(&folder).ok().map(|snapshot| snapshot.hash());
    let unchanged = |text: String| Ok(UpdateReport { text, open_error: None });
    if let Some(rev) = entry.rev.as_deref().filter(|_| is_fixed(&entry))
        && installed == Some(entry.hash)
    {
        let text = format!("space `{id}` is fixed at {rev}, by `--rev`: there is nothing newer\n");
        return unchanged(text);
    }
    let from = SpaceSource::parse(&entry.source)?;
    let copied = from.copy(entry.rev.as_deref(), space_store)?;
    let found = read(&copied, &from)?.id;
    if found != *id {
        return Err(CliError::new(format!("its id is `{found}` now")));
    }
    let origin = from.describe(copied.revision.as_deref());
    let snapshot = copied.snapshot.at(&folder)?;
    let new = SpaceRecord { revision: copied.revision, hash: snapshot.hash(), ..entry.clone() };
    if installed == Some(snapshot.hash()) {
        if new != entry {
            space_store.set(id, Some(new))?;
        }
        return unchanged(format!("space `{id}` is up to date\n"));
    }
    if is_edited(&entry, &folder, installed) {
        let message = format!("{} was changed after it was copied there", show_path(&folder));
        let source = text::show_line(&entry.source).into_owned();
        return Err(CliError::new(message).with_hint(format!(
            "save your changes elsewhere; then `cotter spaces remove {id}` and \
             `cotter spaces add {source}`"
        )));
    }
    let store = trust::store(paths::find_workspace(None)?.project())?;
    let answer = ask(&snapshot, &origin, &store, rewrite, color)?;
    match (&answer, store.state(&snapshot)) {
        (TrustAnswer::No, _) => {
            return unchanged(format!("space `{id}` is unchanged: the answer was no\n"));
        }
        // The installed contents are trusted, and only a person may replace them.
        (TrustAnswer::NotAsked, TrustState::Changed { .. }) => {
            return Err(CliError::refused(
                "there is no terminal to ask on, and only a person can give trust",
            ));
        }
        _ => {}
    }
    space_store.install(id, &snapshot)?;
    space_store.set(id, Some(new))?;
    store_answer(&answer, &snapshot, &store, rewrite)?;
    Ok(UpdateReport::new(&answer, &snapshot, describe_installed(id, &folder, "is up to date")?))
}

fn unknown<'a>(id: &str, known: impl IntoIterator<Item = &'a str>) -> CliError {
    let failure = CliError::new(format!("there is no space `{}` of yours", text::show_line(id)));
    failure.suggest(id, known, "`cotter spaces list` shows the spaces")
}

fn remove(id: &str) -> Result<ExitCode, CliError> {
    let space_store = SpaceStore::open()?;
    let entries = space_store.entries()?;
    let folder = space_store.space_folder(id);
    let is_known = entries.iter().any(|entry| entry.id == id);
    if !space::is_id(id) || (!is_known && folder.symlink_metadata().is_err()) {
        return Err(unknown(id, entries.iter().map(|entry| entry.id.as_str())));
    }
    // Trust is removed first: if the process is killed here, nothing would run.
    let untrusted = trust::store(paths::find_workspace(None)?.project())?.untrust(&folder)?;
    space_store.set(id, None)?;
    space_store.remove_space(id)?;
    let more = if untrusted { ", and is no longer trusted" } else { "" };
    Ok(print_stdout(&format!("space `{id}` is removed{more}\n")))
}

fn list(json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let here = paths::find_workspace(None)?;
    let all = Spaces::new(&here, &SetupArgs::default(), &[]).all(&trust::scan_trust(&here));
    let entries = paths::spaces_lock_file()
        .map(|file| store::entries(&file))
        .transpose()?
        .unwrap_or_default();
    let style = Style::on_stdout(color);
    let rows = all.iter().map(|location| {
        let entry =
            entries.iter().find(|entry| !location.of_project && entry.id == location.id.as_str());
        if json { json_row(location, entry) } else { text_row(location, entry, style) }
    });
    let out: String = rows.collect();
    match out.is_empty() && !json {
        true => Ok(print_stdout("there are no spaces\n")),
        false => Ok(print_stdout(&out)),
    }
}

/// Reads the manifest of a space. Nothing of the space runs.
fn manifest(location: &SpaceLocation) -> Result<space::SpaceManifest, String> {
    let one_line = |failure: CliError| failure.one_line();
    let snapshot = Snapshot::take(&location.source).map_err(|error| one_line(error.into()))?;
    let (manifest, _) = Space::read_strict_parts(&snapshot).map_err(|broken| broken.to_string())?;
    Ok(manifest)
}

fn text_row(location: &SpaceLocation, entry: Option<&SpaceRecord>, style: Style) -> String {
    let (version, description) = match manifest(location) {
        Ok(manifest) => (manifest.version, manifest.description),
        Err(why) => (String::new(), format!("cannot be read: {why}")),
    };
    let origin = if location.of_project { "project" } else { "user" };
    let mut row = style.strong(&location.id);
    for word in [&version, &description] {
        if !word.is_empty() {
            row += &format!("  {}", text::show_line(word));
        }
    }
    row += &format!("  {}\n", style.muted(&format!("({origin}, {})", location.trust_word())));
    let from = match entry {
        Some(SpaceRecord { source, revision: Some(revision), .. }) => {
            format!("{source} at {revision}")
        }
        Some(SpaceRecord { source, .. }) => source.clone(),
        None => show_path(&location.source),
    };
    row + &format!("  {}\n", style.muted(&text::show_line(&from)))
}

fn json_row(location: &SpaceLocation, entry: Option<&SpaceRecord>) -> String {
    let mut row = json!({
        "id": location.id,
        "origin": if location.of_project { "project" } else { "user" },
        "trust": location.trust_word(),
        "path": location.source,
    });
    match manifest(location) {
        Ok(space::SpaceManifest { name, version, description, .. }) => {
            row["name"] = name.into();
            row["version"] = version.into();
            row["description"] = description.into();
        }
        Err(why) => row["error"] = why.into(),
    }
    if let Some(SpaceRecord { source, rev, revision, hash, .. }) = entry {
        row["source"] = source.as_str().into();
        row["rev"] = rev.as_deref().into();
        row["revision"] = revision.as_deref().into();
        row["hash"] = Hash::to_string(hash).into();
    }
    format!("{row}\n")
}

/// The files of a new space: path, true if executable, contents.
const STARTER: &[(&str, bool, &str)] = &[
    ("manifest.json", false, include_str!("../../starter/space/manifest.json")),
    ("hooks/pre-write.yaml", false, include_str!("../../starter/space/hooks/pre-write.yaml")),
    ("hooks/pre-write.sh", true, include_str!("../../starter/space/hooks/pre-write.sh")),
    ("skills/specialist.yaml", false, include_str!("../../starter/space/skills/specialist.yaml")),
    ("agents/assistant.yaml", false, include_str!("../../starter/space/agents/assistant.yaml")),
];

fn new(id: &str) -> Result<ExitCode, CliError> {
    if !space::is_id(id) {
        let message = format!("`{}` cannot be the id of a space", text::show_line(id));
        return Err(CliError::usage(message).with_hint(
            "use lower-case letters, digits and `-`, and start with a letter or digit",
        ));
    }
    let folder = Path::new(id);
    if folder.symlink_metadata().is_ok() {
        return Err(CliError::new(format!("{id} already exists")).with_hint("nothing was changed"));
    }
    let temporary = Path::new(&format!(".{id}.{}.new", std::process::id())).to_owned();
    if let Err(cause) = write(&temporary, id).and_then(|()| fs::rename(&temporary, folder)) {
        let _ = fs::remove_dir_all(&temporary);
        return Err(CliError::new(format!("cannot create {id}")).with_cause(cause));
    }
    let files = STARTER.iter().map(|(name, ..)| format!("  {id}/{name}\n")).collect::<String>();
    Ok(print_stdout(&format!(
        "{files}\n`cotter spaces check {id}` checks it, `cotter spaces add {id}` adds it.\n"
    )))
}

fn write(folder: &Path, id: &str) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for (name, is_program, text) in STARTER {
        let path = folder.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, text.replace("SPACE", id))?;
        if *is_program {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}
