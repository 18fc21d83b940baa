//! `secret-then-network`: after a secret was read, asks before any call that reaches beyond this machine.

use crate::{
    agent::cx::Cx,
    fs::paths,
    hooks::{
        handler::named,
        points::tool_pre::{ToolPre, ToolPreEvent},
    },
    permission::{secret_files::is_secret, verdict::Verdict},
    registry::Registry,
};

/// Registers the gate, and the observer that remembers secret reads.
pub(crate) fn register(registry: &mut Registry) {
    let gate = named("secret-then-network", secret_then_network)
        .description("After a secret was read, asks before anything reaches beyond this machine.");
    registry.gate(ToolPre, gate);
    registry.observe(ToolPre, named("secret-reads", remember_secret));
}

fn secret_then_network(call: &ToolPreEvent, cx: &Cx) -> Verdict {
    let facts = &call.facts;
    let reaches_out = facts.reaches_out();
    let secret = facts.reads.iter().find(|path| is_secret(path));
    match secret {
        Some(path) if reaches_out => {
            let shown = paths::format_path(path, cx.workspace());
            Verdict::ask(format!("it reads {shown}, a secret, and may reach beyond this machine"))
        }
        _ if reaches_out && cx.has_read_secret() => Verdict::ask(
            "a secret was read in this session, and this may reach beyond this machine",
        ),
        _ => Verdict::Pass,
    }
}

/// Remembers the read of a secret. Runs after the gates, so a call that is blocked at once does not count.
fn remember_secret(call: &ToolPreEvent, cx: &Cx) {
    if let Some(path) = call.facts.reads.iter().find(|path| is_secret(path)) {
        cx.mark_secret_read(&paths::format_path(path, cx.workspace()));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn s21_secret_file_is_recognised_by_its_name() {
        let secret = |path: &str| is_secret(Path::new(path));
        for path in
            ["/p/.env", "/p/.ENV.local", "/h/.ssh/config", "/p/a.pem", "/h/id_rsa", "/h/.netrc"]
        {
            assert!(secret(path), "{path}");
        }
        for path in [
            "/h/.gem/credentials",
            "/h/.Cargo/credentials.toml",
            "/h/.config/gh/hosts.yml",
            "/h/.kube/config",
            ".docker/config.json",
        ] {
            assert!(secret(path), "{path}");
        }
        for path in ["/p/config.json", "/p/docs/credentials", "/h/.gem/ruby/a.rb", "credentials"] {
            assert!(!secret(path), "{path}");
        }
        for path in ["/p/env.rs", "/p/id_map.rs", "/p/src/main.rs", "/p/key.rs", "/"] {
            assert!(!secret(path), "{path}");
        }
    }
}
