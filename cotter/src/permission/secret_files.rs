//! Files with secret names.

use std::path::Path;

/// Names of secret files, in any folder.
const FILES: [&str; 9] = [
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".pgpass",
    ".vault-token",
    ".htpasswd",
    ".boto",
];

/// Folders in which every file is secret.
const FOLDERS: [&str; 6] = [".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store"];

/// Name endings of secret files.
const ENDINGS: [&str; 6] = [".pem", ".key", ".p12", ".pfx", ".keystore", ".jks"];

/// True if a file is a secret by its name: `.env*`, keys, credentials.
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
