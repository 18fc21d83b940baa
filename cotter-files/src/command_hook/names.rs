//! Names of hooks without a given name: the name of the file they run, or their first word and a digest. If a
//! user disables a name, no other hook gets this name later, whatever is added or moved.

use std::path::Path;

use sha2::{Digest, Sha256};
use smol_str::{SmolStr, format_smolstr};

use crate::command_hook::{
    dialect::Dialect,
    entry::{CommandHook, CommandLine},
};
use cotter::fs::workspace;

/// The source of a hook's name.
enum NameSource {
    /// The entry gives the name.
    Given,
    /// The name of the file that the hook runs. It is sufficient if no other hook has the name.
    File(SmolStr),
    /// The first word of the command. It does not identify the hook.
    Word(SmolStr),
}

impl NameSource {
    fn of(hook: &CommandHook) -> Self {
        match &hook.dialect {
            Dialect::Custom(entry) => match stem(&hook.command) {
                Some((stem, true)) => NameSource::File(stem),
                Some((stem, false)) => NameSource::Word(stem),
                None => NameSource::Word(entry.event_name().into()),
            },
            Dialect::Cotter => {
                let own = hook.command.stem().unwrap_or_else(|| hook.point.name().into());
                if own == hook.name { NameSource::File(own) } else { NameSource::Given }
            }
            Dialect::Space => NameSource::Given,
        }
    }
}

/// Names the hooks of one file.
pub(crate) fn assign_names(hooks: &mut [CommandHook]) {
    let mut hooks: Vec<_> = hooks.iter_mut().collect();
    assign_names_where(&mut hooks, |_| true);
}

/// Names the hooks of one origin that have a custom dialect; the others keep their names.
pub fn assign_names_in_origin(hooks: &mut [&mut CommandHook]) {
    assign_names_where(hooks, |hook| matches!(hook.dialect, Dialect::Custom(_)));
}

fn assign_names_where(
    hooks: &mut [&mut CommandHook],
    is_named_here: impl Fn(&CommandHook) -> bool,
) {
    let sources: Vec<_> = hooks
        .iter()
        .map(|hook| if is_named_here(hook) { NameSource::of(hook) } else { NameSource::Given })
        .collect();
    let claimed = hooks.iter().zip(&sources).filter_map(|(hook, source)| match source {
        NameSource::Given => Some(hook.name.clone()),
        NameSource::File(stem) => Some(stem.clone()),
        NameSource::Word(_) => None,
    });
    let claimed: Vec<_> = claimed.collect();
    for (hook, source) in hooks.iter_mut().zip(&sources) {
        let name = match source {
            NameSource::Given => continue,
            NameSource::File(stem)
                if claimed.iter().filter(|other| *other == stem).count() == 1 =>
            {
                stem.clone()
            }
            NameSource::File(stem) | NameSource::Word(stem) => {
                format_smolstr!("{stem}-{}", digest(hook))
            }
        };
        rename(hook, name);
    }
    number_duplicates(hooks, is_named_here);
}

/// Adds numbers to hooks that still share a name: they do the same, or were given the name at several points.
/// The name without a number selects all of them.
fn number_duplicates(hooks: &mut [&mut CommandHook], is_named_here: impl Fn(&CommandHook) -> bool) {
    for index in 1..hooks.len() {
        let (before, rest) = hooks.split_at_mut(index);
        let hook = &mut *rest[0];
        let taken = |name: &str| before.iter().any(|other| other.name == name);
        if is_named_here(hook) && taken(&hook.name) {
            let mut numbered = (2..).map(|n| format_smolstr!("{}#{n}", hook.name));
            let free = numbered.find(|name| !taken(name));
            rename(hook, free.unwrap_or_else(|| hook.name.clone()));
        }
    }
}

fn rename(hook: &mut CommandHook, name: SmolStr) {
    hook.spec.name = Some(name.clone());
    hook.name = name;
}

/// The number of bytes of a digest in a name.
const DIGEST_BYTES: usize = 3;

/// A digest of six hex digits over the hook's point and tools (or its dialect's identity), its command and
/// `async`. It must be equal in every version, because files contain it.
fn digest(hook: &CommandHook) -> String {
    let identity = match &hook.dialect {
        Dialect::Custom(entry) => entry.identity(),
        _ => serde_json::json!([hook.point.name(), hook.spec.tools]),
    };
    let words: Vec<_> = hook.command.words();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let all = serde_json::json!([identity, words, hook.spec.detached]).to_string();
    let digest = Sha256::digest(all.as_bytes());
    digest[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Programs that run other programs.
const RUNNERS: [&str; 16] = [
    "bash", "sh", "zsh", "env", "python", "python3", "node", "bun", "deno", "ruby", "perl", "uv",
    "uvx", "npx", "run", "exec",
];

/// The name of the program that a command runs, and true if it is a file of the user, not of the system.
fn stem(command: &CommandLine) -> Option<(SmolStr, bool)> {
    let line = match command {
        CommandLine::Shell(line) => line.clone(),
        CommandLine::Words(words) => words.join(" "),
    };
    let base = |word: &str| {
        let word = word.trim_matches(['"', '\'', '(', ')', ';']);
        word.rsplit('/').next().unwrap_or(word).trim_matches(['"', '\'']).to_owned()
    };
    let words = line.split_whitespace().filter(|word| !word.starts_with('-'));
    let mut words = words.map(|word| (word, base(word)));
    let (word, base) =
        words.find(|(_, base)| !RUNNERS.contains(&base.as_str()) && !base.contains('='))?;
    let stem = base.split('.').find(|stem| !stem.is_empty())?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let fits = stem.chars().all(is_plain) && stem.len() <= 80;
    fits.then(|| (stem.into(), is_file(word)))
}

/// True if a word is a path to a file that is not part of the system.
fn is_file(word: &str) -> bool {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,~${}\"'".contains(c);
    word.contains(['/', '.'])
        && word.chars().all(is_path)
        && !workspace::is_system(Path::new(word.trim_matches(['"', '\''])))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(commands: &[&str], expected: Expect) {
        let shown = commands.iter().map(|line| match stem(&CommandLine::Shell((*line).into())) {
            Some((stem, true)) => format!("file {stem}: {line}\n"),
            Some((stem, false)) => format!("word {stem}: {line}\n"),
            None => format!("none: {line}\n"),
        });
        expected.assert_eq(&shown.collect::<String>());
    }

    #[test]
    fn b3_hook_is_named_after_its_script_or_its_first_word() {
        check(
            &[
                "python3 \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.py --strict",
                "${CLAUDE_PLUGIN_ROOT}/scripts/no-prod.sh",
                "node lint.js",
                "LANG=C ./a",
                "~/hooks/b.sh",
                "echo hi >> log.txt",
                "if [ -f x ]; then exit 2; fi",
                "jq -r .tool_input.command",
                "/usr/bin/jq -e .tool_name",
                "npx prettier --write .",
                "python3 -c 'sys.exit(2)'",
                "cd x && ./guard.sh",
                "[ -f x ]",
                "",
            ],
            expect![[r#"
                file guard: python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.py --strict
                file no-prod: ${CLAUDE_PLUGIN_ROOT}/scripts/no-prod.sh
                file lint: node lint.js
                file a: LANG=C ./a
                file b: ~/hooks/b.sh
                word echo: echo hi >> log.txt
                word if: if [ -f x ]; then exit 2; fi
                word jq: jq -r .tool_input.command
                word jq: /usr/bin/jq -e .tool_name
                word prettier: npx prettier --write .
                word sys: python3 -c 'sys.exit(2)'
                word cd: cd x && ./guard.sh
                none: [ -f x ]
                none: 
            "#]],
        );
    }
}
