//! Files with secret names.

use std::{ffi::OsStr, path::Path};

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

/// Ends of the paths of secret files whose name alone says little.
const PATHS: [&str; 13] = [
    ".gem/credentials",
    ".local/share/gem/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gh/hosts.yml",
    ".config/git/credentials",
    ".config/hub",
    ".config/rclone/rclone.conf",
    ".config/gcloud/application_default_credentials.json",
    ".config/gcloud/credentials.db",
    ".docker/config.json",
    ".m2/settings.xml",
    ".terraform.d/credentials.tfrc.json",
];

/// Folders in which every file is secret.
const FOLDERS: [&str; 6] = [".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store"];

/// Name endings of secret files.
const ENDINGS: [&str; 6] = [".pem", ".key", ".p12", ".pfx", ".keystore", ".jks"];

/// True if a file is a secret by its name: `.env*`, keys, credentials.
pub fn is_secret(path: &Path) -> bool {
    let lowercase = path.to_string_lossy().to_lowercase();
    let lowercase = Path::new(&lowercase);
    let Some(name) = lowercase.iter().next_back().and_then(OsStr::to_str) else { return false };
    let is_key = name.starts_with("id_") && !name.contains('.');
    name.starts_with(".env")
        || is_key
        || FILES.contains(&name)
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || PATHS.iter().any(|end| lowercase.ends_with(end))
        || FOLDERS.iter().any(|folder| lowercase.iter().any(|name| name == *folder))
        || path.starts_with("/proc") && name == "environ"
}
