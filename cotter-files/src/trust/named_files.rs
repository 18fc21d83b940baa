//! The files that a command names, as far as they are known when it is loaded. The agent must not change those
//! of a hook unasked: it would change what the hook does.

use std::path::Path;

use cotter::fs::{declared_file::DeclaredFile, workspace::is_system};

/// Lists the files that a line or a word of a command names. A word that only looks like a path is listed too, as
/// one of the folder that the command was declared for (`folder`), of the project, and of each folder that it may
/// have entered.
pub(crate) fn of(text: &str, folder: &Path) -> Vec<DeclaredFile> {
    let parts = text.split(|c: char| c.is_whitespace() || ";|&()<>=`".contains(c));
    let (mut files, mut entered) = (vec![], vec![]);
    let mut enters = false;
    for part in parts {
        let part: String = part.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
        let named = files_of_word(&part, folder);
        let below = entered.iter().filter_map(|above| below_folder(above, &part));
        for file in below.collect::<Vec<_>>().into_iter().chain(named.iter().cloned()) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        if enters && entered.len() < MAX_ENTERED {
            entered.extend(named);
        }
        enters = ["cd", "pushd", "-C", "--directory"].contains(&part.as_str());
    }
    files
}

/// The most folders that a command is taken to enter.
const MAX_ENTERED: usize = 8;

/// The file of a relative word below a folder.
fn below_folder(folder: &DeclaredFile, word: &str) -> Option<DeclaredFile> {
    let path = relative_path(word)?;
    Some(match folder {
        DeclaredFile::Absolute(above) => DeclaredFile::Absolute(above.join(path)),
        DeclaredFile::InProject(above) => DeclaredFile::InProject(above.join(path)),
        DeclaredFile::AtHome(above) => DeclaredFile::AtHome(above.join(path)),
    })
}

fn files_of_word(word: &str, folder: &Path) -> Vec<DeclaredFile> {
    if let Some(rest) = word.strip_prefix("~/") {
        return vec![DeclaredFile::AtHome(rest.into())];
    }
    match below_variable(word) {
        Some(("HOME", rest)) => return vec![DeclaredFile::AtHome(rest.into())],
        // Any other variable may stand for the project: `D=$CLAUDE_PROJECT_DIR; bash $D/guard.sh`.
        Some((_, rest)) => return vec![DeclaredFile::InProject(rest.into())],
        None => {}
    }
    let path = Path::new(word);
    if path.is_absolute() && is_name(word) && !is_system(path) {
        // After `$(git rev-parse --show-toplevel)` it is one of the project.
        let inside = path.strip_prefix("/").unwrap_or(path);
        return vec![DeclaredFile::Absolute(path.into()), DeclaredFile::InProject(inside.into())];
    }
    let Some(path) = relative_path(word) else { return vec![] };
    vec![DeclaredFile::InProject(path.into()), DeclaredFile::Absolute(folder.join(path))]
}

fn relative_path(word: &str) -> Option<&Path> {
    let path = word.strip_prefix("./").unwrap_or(word);
    (is_name(path) && !path.starts_with(['-', '/', '~'])).then_some(Path::new(path))
}

/// True for a text without anything that a shell fills in.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['$', '*', '?', '{', '\0'])
}

/// A variable, and what follows it and a slash: `$NAME/…`, `${NAME}/…`, `${NAME:-…}/…`.
fn below_variable(word: &str) -> Option<(&str, &str)> {
    let word = word.strip_prefix('$')?;
    let (name, rest) = match word.strip_prefix('{') {
        None => word.split_once('/')?,
        Some(braced) => {
            let (inside, rest) = braced.split_once('}')?;
            (inside.split(':').next()?, rest.strip_prefix('/')?)
        }
    };
    is_name(rest).then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(line: &str, expected: Expect) {
        let files = of(line, Path::new("/trusted"));
        let lines: Vec<_> = files.iter().map(|file| format!("{file:?}\n")).collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn s15_files_of_a_command_are_found() {
        check(
            r#""$CLAUDE_PROJECT_DIR"/scripts/guard.sh --strict"#,
            expect![[r#"
                InProject("scripts/guard.sh")
            "#]],
        );
        check(
            "cd ${COTTER_PROJECT_DIR:-.}/tools && python3 ./check.py | ~/bin/report; /usr/bin/true /opt/x/run",
            expect![[r#"
                InProject("cd")
                Absolute("/trusted/cd")
                InProject("tools")
                InProject("tools/python3")
                InProject("python3")
                Absolute("/trusted/python3")
                InProject("tools/check.py")
                InProject("check.py")
                Absolute("/trusted/check.py")
                AtHome("bin/report")
                Absolute("/opt/x/run")
                InProject("opt/x/run")
            "#]],
        );
        check(
            "jq -r .tool $UNKNOWN/x *.sh",
            expect![[r#"
                InProject("jq")
                Absolute("/trusted/jq")
                InProject(".tool")
                Absolute("/trusted/.tool")
                InProject("x")
            "#]],
        );
    }

    #[test]
    fn s15_files_behind_folders_and_variables_are_found() {
        check(
            "cd \"${CLAUDE_PROJECT_DIR:-/x/y}/tools\" && bash ./check.sh",
            expect![[r#"
            InProject("cd")
            Absolute("/trusted/cd")
            InProject("tools")
            InProject("tools/bash")
            InProject("bash")
            Absolute("/trusted/bash")
            InProject("tools/check.sh")
            InProject("check.sh")
            Absolute("/trusted/check.sh")
        "#]],
        );
        check(
            "D=$CLAUDE_PROJECT_DIR; bash $D/a.sh; \"$(git rev-parse --show-toplevel)/b.sh\"; bash guard",
            expect![[r#"
                InProject("D")
                Absolute("/trusted/D")
                InProject("bash")
                Absolute("/trusted/bash")
                InProject("a.sh")
                InProject("git")
                Absolute("/trusted/git")
                InProject("rev-parse")
                Absolute("/trusted/rev-parse")
                Absolute("/b.sh")
                InProject("b.sh")
                InProject("guard")
                Absolute("/trusted/guard")
            "#]],
        );
    }
}
