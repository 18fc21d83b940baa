//! State: the files of a folder that trust leaves out, because they change while its hooks run.
//!
//! Trust covers everything in a folder but these. A file that is left out is not part of the hash and not of
//! the copy, so nothing loads it as a command, an agent, a skill, memory, a hook, an extension or a plugin.
//! State is never code: a file that looks like code is pinned wherever it is.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use crate::trust::snapshot::MAX_ITEMS;

/// The folders directly below a source that its own hooks may write.
pub const FOLDERS: [&str; 5] = ["logs", "data", "state", "cache", "tmp"];

/// The settings file of a `.claude` that is a source of its own.
pub const LOCAL_SETTINGS: &str = "settings.local.json";

/// The folder of compiled Python. Nothing reads it: hooks run with another folder for compiled code.
pub(crate) const PYTHON_CACHE: &str = "__pycache__";

/// The sources that have state. Spaces and single files have none.
const SOURCES: [&str; 3] = [".cotter", ".claude", ".agents"];

/// The number of bytes at the start of a file that tell whether it is code.
pub(crate) const HEAD_BYTES: usize = 4;

/// The end of the names of files that belong to one person.
const LOCAL: &str = ".local.md";

/// Lock files that say which code is installed.
const LOCKS_OF_PACKAGES: [&str; 14] = [
    "bun.lock",
    "cargo.lock",
    "composer.lock",
    "deno.lock",
    "flake.lock",
    "gemfile.lock",
    "mix.lock",
    "pdm.lock",
    "pipfile.lock",
    "pixi.lock",
    "podfile.lock",
    "poetry.lock",
    "uv.lock",
    "yarn.lock",
];

/// The endings of files that programs run or load.
const CODE_ENDINGS: &[&str] = &[
    "awk", "bash", "bat", "bun", "bundle", "cjs", "class", "clj", "cmd", "com", "csh", "cts",
    "dash", "dll", "dylib", "elf", "exe", "exs", "fish", "go", "groovy", "ipynb", "jar", "jl",
    "js", "jsx", "ksh", "kts", "lua", "mjs", "mk", "mts", "nix", "node", "o", "phar", "php", "pl",
    "pm", "ps1", "psm1", "pth", "py", "pyc", "pyd", "pyo", "pyw", "pyz", "r", "rb", "rs", "sed",
    "sh", "so", "tcl", "ts", "tsx", "wasm", "whl", "zsh",
];

/// True if a file is state: its place or name says so, and it is not code. `at` is the path below the source,
/// `head` the first bytes of the file.
pub(crate) fn is_state(source: &Path, at: &Path, executable: bool, head: &[u8]) -> bool {
    is_place(source, at) && !executable && !has_code_name(at) && !is_code(head)
}

/// True if a path below a source is a place of state, whatever file is there.
pub(crate) fn is_place(source: &Path, at: &Path) -> bool {
    let name = at.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_direct = at.parent() == Some(Path::new(""));
    let is_listed = name == ".DS_Store"
        || name.ends_with(".log")
        || name.ends_with(".lock") && !LOCKS_OF_PACKAGES.contains(&&*name.to_ascii_lowercase())
        || name.ends_with(LOCAL) && is_direct && source.ends_with(".claude");
    has_state(source) && (is_listed || !is_direct && is_in_folder(source, at))
}

/// True if a path below a source is one of the folders of state, or in one.
pub(crate) fn is_in_folder(source: &Path, at: &Path) -> bool {
    let first = at.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
    has_state(source) && FOLDERS.contains(&first)
}

/// True if a path below a source is a file that is a source of its own.
pub(crate) fn is_own_source(source: &Path, at: &Path) -> bool {
    source.ends_with(".claude") && at == Path::new(LOCAL_SETTINGS)
}

/// The folders of compiled Python below a source. Links are not followed.
pub fn python_caches(source: &Path) -> Vec<PathBuf> {
    let (mut caches, mut pending) = (vec![], vec![source.to_owned()]);
    let mut left = MAX_ITEMS;
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten().take(left) {
            left -= 1;
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let is_cache = entry.file_name() == PYTHON_CACHE;
            if is_cache { &mut caches } else { &mut pending }.push(entry.path());
        }
    }
    caches
}

/// True if a path below a source is a folder of compiled Python, or in one.
pub(crate) fn is_in_python_cache(source: &Path, at: &Path) -> bool {
    has_state(source) && at.iter().any(|name| name == PYTHON_CACHE)
}

/// A path in a source that a command line runs and that trust leaves out.
pub(crate) fn find_run_file(source: &Path, line: &str) -> Option<PathBuf> {
    let folder = format!("{}/", source.file_name()?.to_str()?);
    run_words(line).into_iter().find_map(|word| {
        let (_, inside) = word.rsplit_once(&folder)?;
        Some(plain_path(inside)).filter(|at| !may_be_pinned(source, at))
    })
}

/// The words of a command line that are run, without quotes: the program of each simple command, and the first
/// operand of a program that may run it.
pub(crate) fn run_words(line: &str) -> Vec<String> {
    // `"$DIR"/file` is one word; the text in other quotes may be a command of its own.
    let line = line.replace(['"', '{', '}'], "").replace(['\'', '`', '(', ')', '\n'], " ; ");
    let (mut found, mut is_run) = (vec![], true);
    for word in line.split_inclusive([';', '|', '&']).flat_map(str::split_whitespace) {
        let (word, ends_command) = match word.strip_suffix([';', '|', '&']) {
            Some(word) => (word, true),
            None => (word, false),
        };
        // `LOG=file` runs nothing, `--require=file` may.
        let is_data = word.contains('>') || !word.starts_with('-') && word.contains('=');
        if is_run && !is_data {
            found.push(word.to_owned());
        }
        let is_operand = !word.is_empty() && !word.starts_with('-') && !word.contains('=');
        let program = word.rsplit('/').next().unwrap_or_default();
        is_run = ends_command
            || !is_operand && is_run
            || is_operand && (STARTERS.contains(&program) || program.starts_with("python"));
    }
    found
}

/// Programs and words of a shell after which a file is run.
const STARTERS: [&str; 37] = [
    ".", "!", "ash", "bash", "bun", "command", "dash", "deno", "do", "else", "env", "eval", "exec",
    "fish", "if", "ksh", "lua", "nice", "node", "nohup", "perl", "php", "pypy3", "Rscript", "ruby",
    "run", "setsid", "sh", "source", "stdbuf", "sudo", "then", "time", "tsx", "uv", "while", "zsh",
];

fn may_be_pinned(source: &Path, at: &Path) -> bool {
    let is_code = has_code_name(at) && !is_in_python_cache(source, at);
    is_code
        || !(is_place(source, at) || is_in_python_cache(source, at) || is_own_source(source, at))
}

/// A path without `.` and `..`.
fn plain_path(path: &str) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    plain
}

/// True if a file of a project is never loaded, even if it was trusted: it belongs to one person.
pub(crate) fn is_never_loaded(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(LOCAL))
}

/// True if a folder of that name has state.
pub fn has_state(source: &Path) -> bool {
    SOURCES.iter().any(|name| source.ends_with(name))
}

pub(crate) fn has_code_name(at: &Path) -> bool {
    let name = at.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    // Also an ending in the middle: `x.py.1`.
    let mut endings = name.split('.').skip(1);
    endings.any(|end| CODE_ENDINGS.contains(&end))
}

/// True if the first bytes of a file are those of a script or a program.
pub(crate) fn is_code(head: &[u8]) -> bool {
    head.starts_with(b"#!") || head.starts_with(b"\x7fELF") || head.starts_with(b"\0asm")
}

/// True if a text may start Python in a way that makes it read the compiled files beside its sources: without
/// the variables that name another folder for them.
pub(crate) fn may_read_python_caches(text: &[u8]) -> bool {
    const SIGNS: [&str; 8] = [
        "env -i",
        "env -u",
        "env - ",
        "env=",
        "env:",
        "PYCACHEPREFIX",
        "pycache_prefix",
        PYTHON_CACHE,
    ];
    let text = String::from_utf8_lossy(text);
    let is_isolating = |word: &str| {
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        letters.is_some_and(|letters| letters.contains(['I', 'E']))
    };
    let mut words = text.split(|c: char| c.is_whitespace() || "\"'`,[]();&|".contains(c));
    (text.contains("py")
        && (SIGNS.iter().any(|sign| text.contains(sign)) || words.any(is_isolating)))
        || text.contains("exec -c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_files_that_a_line_runs_are_found_in_places_of_state() {
        let check = |line: &str, expected: Option<&str>| {
            let found = find_run_file(Path::new("/p/.claude"), line);
            assert_eq!(found, expected.map(PathBuf::from), "{line}");
        };
        for line in [
            "bash .claude/data/run",
            "sh -c 'bash -e \"$CLAUDE_PROJECT_DIR\"/.claude/data/run'",
            "${CLAUDE_PROJECT_DIR}/.claude/data/run",
            "true && . .claude/data/run",
            "if true; then source /p/.claude/data/run; fi",
            "env A=1 python3 -u .claude/hooks/../data/run",
            "node --require=.claude/data/run .claude/hooks/a.js",
            "echo $(sh .claude/data/run)",
        ] {
            check(line, Some("data/run"));
        }
        check("bash .claude/settings.local.json", Some("settings.local.json"));
        check("python3 .claude/hooks/__pycache__/a.pyc", Some("hooks/__pycache__/a.pyc"));
        for line in [
            "python3 .claude/hooks/a.py .claude/data/run",
            "echo x >> .claude/logs/a.log",
            "mkdir -p .claude/logs && tee -a .claude/logs/a.log",
            "LOG=.claude/logs/a.log python3 .claude/hooks/a.py",
            "[ -f .claude/state/on ] && .claude/hooks/a.sh",
            "jq -f .claude/data/filter",
            // Code in such a place is pinned.
            "python3 .claude/data/a.py",
            "bash .claude/commands/logs/a",
        ] {
            check(line, None);
        }
    }
}
