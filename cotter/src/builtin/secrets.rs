//! `secret-then-network`: once a secret was read, whatever reaches beyond this machine asks.

use std::path::Path;

use crate::{
    cx::Cx,
    ext::{Registry, named},
    paths,
    points::{ToolCalled, ToolPre, Verdict},
};

/// Registers the gate, and the observer that remembers.
pub(super) fn register(registry: &mut Registry) {
    let gate = named("secret-then-network", secret_then_network)
        .description("After a secret was read, asks before anything reaches beyond this machine.");
    registry.on(ToolPre, gate);
    registry.observe(ToolPre, named("secret-reads", remember_secret));
}

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
const FOLDERS: [&str; 6] = [".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store"];
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

fn secret_then_network(call: &ToolCalled, cx: &Cx) -> Verdict {
    let facts = &call.facts;
    let reaches_out = facts.reaches_out();
    let reads_one = facts.reads.iter().find(|path| is_secret(path));
    match reads_one {
        Some(path) if reaches_out => {
            let shown = paths::shown(path, cx.place());
            Verdict::ask(format!("it reads {shown}, a secret, and may reach beyond this machine"))
        }
        _ if reaches_out && cx.has_read_secret() => Verdict::ask(
            "a secret was read in this session, and this may reach beyond this machine",
        ),
        _ => Verdict::Pass,
    }
}

/// Runs after the gates, so what is refused at once does not count.
fn remember_secret(call: &ToolCalled, cx: &Cx) {
    if let Some(path) = call.facts.reads.iter().find(|path| is_secret(path)) {
        cx.mark_secret_read(&paths::shown(path, cx.place()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s21_a_secret_is_known_by_its_name() {
        let secret = |path: &str| is_secret(Path::new(path));
        for path in
            ["/p/.env", "/p/.ENV.local", "/h/.ssh/config", "/p/a.pem", "/h/id_rsa", "/h/.netrc"]
        {
            assert!(secret(path), "{path}");
        }
        for path in ["/p/env.rs", "/p/id_map.rs", "/p/src/main.rs", "/p/key.rs", "/"] {
            assert!(!secret(path), "{path}");
        }
    }
}
