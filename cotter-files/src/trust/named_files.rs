//! The files that a command names, as far as they are known when it is loaded. The agent must not change those
//! of a hook unasked: it would change what the hook does.

use std::path::{Path, PathBuf};

use cotter::fs::{declared_file::DeclaredFile, workspace::is_system};

/// The variables that name the project in a command.
const PROJECT: [&str; 3] = ["CLAUDE_PROJECT_DIR", "COTTER_PROJECT_DIR", "PWD"];

/// Lists the files that a line or a word of a command names. A word that only looks like a path is listed too.
/// `folder` is the folder that the command was declared for.
pub(crate) fn of(text: &str, folder: &Path) -> Vec<DeclaredFile> {
    let parts = text.split(|c: char| c.is_whitespace() || ";|&()<>=`".contains(c));
    let mut files = vec![];
    for part in parts {
        let part: String = part.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
        for file in files_of_word(&part, folder) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

fn files_of_word(word: &str, folder: &Path) -> Vec<DeclaredFile> {
    if let Some(rest) = PROJECT.iter().find_map(|name| below_variable(word, name)) {
        return vec![DeclaredFile::InProject(rest.into())];
    }
    if let Some(rest) = word.strip_prefix("~/").or_else(|| below_variable(word, "HOME")) {
        return vec![DeclaredFile::AtHome(rest.into())];
    }
    let path = Path::new(word.strip_prefix("./").unwrap_or(word));
    let is_name = !word.is_empty() && !word.contains(['$', '*', '?', '{', '\0']);
    match is_name && !word.starts_with('-') && word.contains(['/', '.']) {
        true if path.is_absolute() && is_system(path) => vec![],
        true if path.is_absolute() => vec![DeclaredFile::Absolute(path.into())],
        true => {
            let beside: PathBuf = folder.join(path);
            vec![DeclaredFile::InProject(path.into()), DeclaredFile::Absolute(beside)]
        }
        false => vec![],
    }
}

/// What follows a variable and a slash: `$NAME/…`, `${NAME}/…`, `${NAME:-…}/…`.
fn below_variable<'w>(word: &'w str, name: &str) -> Option<&'w str> {
    let rest = word.strip_prefix('$')?;
    let rest = match rest.strip_prefix('{') {
        None => rest.strip_prefix(name)?,
        Some(braced) => {
            let (inside, rest) = braced.split_once('}')?;
            let inside = inside.strip_prefix(name)?;
            (inside.is_empty() || inside.starts_with(':')).then_some(rest)?
        }
    };
    rest.strip_prefix('/').filter(|rest| !rest.is_empty())
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
                InProject("tools")
                InProject("check.py")
                Absolute("/trusted/check.py")
                AtHome("bin/report")
                Absolute("/opt/x/run")
            "#]],
        );
        check(
            "jq -r .tool $UNKNOWN/x *.sh",
            expect![[r#"
            InProject(".tool")
            Absolute("/trusted/.tool")
        "#]],
        );
    }
}
