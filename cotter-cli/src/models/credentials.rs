//! The file of keys for providers. It belongs to the person alone, and its contents are never shown.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File, Metadata},
    io::{self, Read},
    path::{Path, PathBuf},
};

use cotter::text::redact::{Redactor, is_secret_name};
use cotter_files::document::{Document, MAX_BYTES, Node, location::SettingsError};
use cotter_models::ApiKey;
use serde_json::{Value, json};

use crate::{error::CliError, paths};

/// The keys in the file, by provider name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    keys: BTreeMap<String, ApiKey>,
}

impl Credentials {
    /// Loads the person's file; empty if there is none. A file that other users can read or change is
    /// refused, and so is a file in the project.
    pub(crate) fn load(project: &Path) -> Result<Self, CliError> {
        match paths::credentials() {
            Some(path) if path.symlink_metadata().is_ok() => Credentials::read(&path, project),
            _ => Ok(Credentials::default()),
        }
    }

    fn read(path: &Path, project: &Path) -> Result<Self, CliError> {
        let shown = path.display();
        if paths::belongs_to_project(path, project) {
            let message = format!("{shown} is inside the project, so its keys are not used");
            let hint = format!("keep your own files outside {}", project.display());
            return Err(CliError::new(message).with_hint(hint));
        }
        let cannot =
            |cause: io::Error| CliError::new(format!("cannot read {shown}")).with_cause(cause);
        // The check comes before opening: opening a pipe would wait for a writer.
        if !fs::metadata(path).map_err(cannot)?.is_file() {
            return Err(CliError::new(format!("{shown} is not a file")));
        }
        let mut file = File::open(path).map_err(cannot)?;
        check_private(path, &file.metadata().map_err(cannot)?)?;
        let mut bytes = vec![];
        file.by_ref().take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(cannot)?;
        let keys = parse(&bytes).map_err(|error| invalid_file_error(path, &error))?;
        Ok(Credentials { keys })
    }

    /// Returns the key of a provider.
    pub(crate) fn get(&self, provider: &str) -> Option<&ApiKey> {
        self.keys.get(provider)
    }

    /// Returns every key with its provider's name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ApiKey)> {
        self.keys.iter().map(|(name, key)| (name.as_str(), key))
    }

    /// Adds a key, also to the file. Returns the file.
    pub(crate) fn store(&mut self, provider: &str, key: &ApiKey) -> Result<PathBuf, CliError> {
        let path = paths::credentials().ok_or_else(paths::no_config)?;
        self.keys.insert(provider.to_owned(), key.clone());
        let keys =
            self.iter().map(|(name, key)| (name.to_owned(), json!({"apiKey": key.expose()})));
        let text = format!("{:#}\n", Value::Object(keys.collect()));
        paths::write_private(&path, text.as_bytes())?;
        Ok(path)
    }
}

/// Fails if other users can read, change or replace the file.
fn check_private(path: &Path, file: &Metadata) -> Result<(), CliError> {
    use std::os::unix::fs::MetadataExt;
    let shown = path.display();
    let refused = |why: &str, hint: String| {
        Err(CliError::new(format!("{shown} {why}, so its keys are not used")).with_hint(hint))
    };
    if file.uid() != rustix::process::geteuid().as_raw() {
        return refused("belongs to another user", "create your own file".into());
    }
    if file.mode() & 0o077 != 0 {
        return refused("can be read by other users", format!("`chmod 600 {shown}`"));
    }
    let folder = path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    let Some((folder, metadata)) =
        folder.and_then(|folder| Some((folder.clone(), fs::metadata(folder).ok()?)))
    else {
        return refused("has no folder", "create your own file".into());
    };
    if metadata.mode() & 0o022 != 0 {
        let hint = format!("`chmod go-w {}`", folder.display());
        return refused("is in a folder that other users can change", hint);
    }
    Ok(())
}

fn parse(bytes: &[u8]) -> Result<BTreeMap<String, ApiKey>, SettingsError> {
    let key = |node: Node<'_>| {
        let key = node.object()?.keys(&["apiKey"])?.require("apiKey")?.non_empty_string()?;
        Ok(ApiKey::new(key))
    };
    let document = Document::parse_bytes("", bytes)?;
    let object = document.root().object()?;
    object.members().map(|(name, node)| Ok((name.to_owned(), key(node)?))).collect()
}

/// Creates the error for an invalid file of keys, without quoting its contents.
fn invalid_file_error(path: &Path, error: &SettingsError) -> CliError {
    let location =
        error.location().map(|location| format!(":{}:{}", location.line(), location.column()));
    let location = format!("{}{}", path.display(), location.unwrap_or_default());
    CliError::new(format!("{location}: not a valid file of keys"))
        .with_hint("expected `{\"anthropic\": {\"apiKey\": \"…\"}}`")
}

/// Returns a redactor for everything that leaves the data home. It removes secrets of known shapes, and
/// values of variables whose names mark a secret.
pub(crate) fn redactor() -> Redactor {
    let secrets = env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        is_secret_name(&name).then_some((name, value))
    });
    secrets.fold(Redactor::new(), |redactor, (name, value)| redactor.with_secret(&name, &value))
}
