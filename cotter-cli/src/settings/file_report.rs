//! What is said about files where something starts: each that is not used, up to a handful of a folder, and
//! the rest in numbers. `cotter doctor` tells all of it.

use std::path::{Path, PathBuf};

use cotter_files::extensions::{Diagnostic, Severity};

use crate::{terminal::style::count, trust::shown};

/// What is to be said about the files of a folder, or about one file.
#[derive(Clone)]
pub(crate) struct FileReport {
    /// The folder or file, as its author knows it.
    pub(crate) folder: PathBuf,
    /// Everything, grave or not.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// What tells all of it.
    by: String,
}

/// How many of a folder are told one by one.
const HANDFUL: usize = 5;

/// What is said at a start.
pub(crate) fn in_short(about: &[FileReport]) -> Vec<String> {
    about.iter().flat_map(FileReport::in_short).collect()
}

impl FileReport {
    /// Files that `cotter doctor` sees.
    pub(crate) fn new(folder: &Path, diagnostics: Vec<Diagnostic>) -> Self {
        FileReport { folder: folder.into(), diagnostics, by: "cotter doctor".into() }
    }

    /// Files of a space, which is there where it is loaded.
    pub(crate) fn of_space(folder: &Path, diagnostics: Vec<Diagnostic>) -> Self {
        let by = format!("cotter spaces check {}", shown(folder));
        FileReport { by, ..FileReport::new(folder, diagnostics) }
    }

    /// What is not used one by one, the rest in numbers. Notes alone are no reason to say anything.
    fn in_short(&self) -> Vec<String> {
        let of = |wanted: &[Severity]| {
            let told = self.diagnostics.iter();
            told.filter(|told| wanted.contains(&told.severity)).collect::<Vec<_>>()
        };
        // What would guard something first.
        let mut lost = of(&[Severity::InPart]);
        lost.extend(of(&[Severity::Rejected]));
        let (repaired, notes) = (of(&[Severity::Repaired]), of(&[Severity::Warning]).len());
        let mut said: Vec<_> = lost.iter().take(HANDFUL).map(ToString::to_string).collect();
        let mut rest = vec![];
        if lost.len() > HANDFUL {
            rest.push(format!("{} more not used", lost.len() - HANDFUL));
        }
        match repaired[..] {
            [] => {}
            // As short as a number of them would be.
            [only] => said.push(only.to_string()),
            _ => rest.push(count(repaired.len(), "repair")),
        }
        if !rest.is_empty() {
            rest.extend((notes > 0).then(|| count(notes, "note")));
            let (folder, rest) = (shown(&self.folder), rest.join(", "));
            said.push(format!("{folder}: {rest} (`{}` tells each)", self.by));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(said: &[(Severity, usize)], expected: Expect) {
        let told = said.iter().flat_map(|(severity, number)| {
            let path = |index: usize| format!("agents/{}-{index}.md", severity.as_str());
            let of =
                move |index| Diagnostic::new(Path::new(&path(index)), Some(2), *severity, "why");
            (0..*number).map(of)
        });
        let about = FileReport::new(Path::new("home/.claude"), told.collect());
        expected.assert_eq(&in_short(&[about]).join("\n"));
    }

    #[test]
    fn c9_a_start_tells_what_is_not_used_and_counts_the_rest() {
        check(&[(Severity::Warning, 9)], expect![[""]]);
        check(
            &[(Severity::Repaired, 1), (Severity::Warning, 1)],
            expect!["agents/repaired-0.md:2: why"],
        );
        check(
            &[(Severity::Repaired, 181), (Severity::Warning, 4)],
            expect!["home/.claude: 181 repairs, 4 notes (`cotter doctor` tells each)"],
        );
        check(
            &[(Severity::Rejected, 7), (Severity::InPart, 1), (Severity::Repaired, 2)],
            expect![[r#"
                agents/in part-0.md:2: why
                agents/rejected-0.md:2: why
                agents/rejected-1.md:2: why
                agents/rejected-2.md:2: why
                agents/rejected-3.md:2: why
                home/.claude: 3 more not used, 2 repairs (`cotter doctor` tells each)"#]],
        );
    }
}
