//! Files that are secrets by their names.

use std::path::Path;

/// Files that are secrets by name, whatever they are in.
const FILES: [&str; 8] = [
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".pgpass",
    ".vault-token",
    ".htpasswd",
];

/// Folders whose files are secrets.
const FOLDERS: [&str; 6] = [".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store"];

/// Endings of the names of secret files.
const ENDINGS: [&str; 6] = [".pem", ".key", ".p12", ".pfx", ".keystore", ".jks"];

/// Whether a file is a secret, as its name tells: `.env*`, keys, credentials.
pub fn is_secret(path: &Path) -> bool {
    let names = || path.iter().map(|name| name.to_string_lossy().to_lowercase());
    let Some(name) = names().next_back() else { return false };
    let is_key = name.starts_with("id_") && !name.contains('.');
    name.starts_with(".env")
        || is_key
        || FILES.contains(&name.as_str())
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || names().any(|name| FOLDERS.contains(&name.as_str()))
        || path.starts_with("/proc") && name == "environ"
}
