//! The diagnostics about files that a start prints. For each folder, up to five diagnostics about files that
//! are not used or not fully used are printed one by one. The others are counted; `cotter doctor` lists all.

use std::path::{Path, PathBuf};

use cotter_files::extensions::{Diagnostic, Severity};

use crate::{terminal::style::count, trust::show_path};

/// The diagnostics about the files of a folder, or about one file.
#[derive(Clone)]
pub(crate) struct FileReport {
    /// The folder or file. For contents that Cotter copied when they were trusted, this is the path of the
    /// original, not of the copy.
    pub(crate) folder: PathBuf,
    /// All diagnostics, of every severity.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The command that lists all diagnostics.
    full_list_command: String,
}

/// The number of diagnostics per folder that are listed one by one.
const MAX_LISTED: usize = 5;

/// Returns the lines that a start prints about all folders.
pub(crate) fn summary_lines(reports: &[FileReport]) -> Vec<String> {
    reports.iter().flat_map(FileReport::lines).collect()
}

impl FileReport {
    /// Creates a report about files that `cotter doctor` reads.
    pub(crate) fn new(folder: &Path, diagnostics: Vec<Diagnostic>) -> Self {
        FileReport { folder: folder.into(), diagnostics, full_list_command: "cotter doctor".into() }
    }

    /// Creates a report about the files of a space. It names `cotter spaces check`, because `cotter doctor`
    /// loads no space.
    pub(crate) fn of_space(folder: &Path, diagnostics: Vec<Diagnostic>) -> Self {
        let full_list_command = format!("cotter spaces check {}", show_path(folder));
        FileReport { full_list_command, ..FileReport::new(folder, diagnostics) }
    }

    /// Returns the lines about this folder: some diagnostics one by one, then a line that counts the others.
    /// Empty if there are only warnings.
    fn lines(&self) -> Vec<String> {
        let of = |wanted: &[Severity]| {
            let all = self.diagnostics.iter();
            all.filter(|diagnostic| wanted.contains(&diagnostic.severity)).collect::<Vec<_>>()
        };
        // Partly used files come first: the part that is missing may be a gate or a rule that protects.
        let mut not_fully_used = of(&[Severity::PartlyUsed]);
        not_fully_used.extend(of(&[Severity::Rejected]));
        // A diagnostic of severity `Warning` is printed as a "note", because its file was loaded.
        let (repaired, notes) = (of(&[Severity::Repaired]), of(&[Severity::Warning]).len());
        let listed = not_fully_used.iter().take(MAX_LISTED);
        let mut lines: Vec<_> = listed.map(ToString::to_string).collect();
        let mut rest = vec![];
        if not_fully_used.len() > MAX_LISTED {
            rest.push(format!("{} more not used", not_fully_used.len() - MAX_LISTED));
        }
        match repaired[..] {
            [] => {}
            // A single repair is printed itself: a count would be no shorter.
            [only] => lines.push(only.to_string()),
            _ => rest.push(count(repaired.len(), "repair")),
        }
        if !rest.is_empty() {
            rest.extend((notes > 0).then(|| count(notes, "note")));
            let (folder, rest) = (show_path(&self.folder), rest.join(", "));
            lines.push(format!("{folder}: {rest} (`{}` lists them)", self.full_list_command));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(numbers: &[(Severity, usize)], expected: Expect) {
        let diagnostics = numbers.iter().flat_map(|(severity, number)| {
            let path = |index: usize| format!("agents/{}-{index}.md", severity.as_str());
            let of =
                move |index| Diagnostic::new(Path::new(&path(index)), Some(2), *severity, "why");
            (0..*number).map(of)
        });
        let report = FileReport::new(Path::new("home/.claude"), diagnostics.collect());
        expected.assert_eq(&summary_lines(&[report]).join("\n"));
    }

    #[test]
    fn c9_start_lists_unused_files_and_counts_other_diagnostics() {
        check(&[(Severity::Warning, 9)], expect![[""]]);
        check(
            &[(Severity::Repaired, 1), (Severity::Warning, 1)],
            expect!["agents/repaired-0.md:2: why"],
        );
        check(
            &[(Severity::Repaired, 181), (Severity::Warning, 4)],
            expect!["home/.claude: 181 repairs, 4 notes (`cotter doctor` lists them)"],
        );
        check(
            &[(Severity::Rejected, 7), (Severity::PartlyUsed, 1), (Severity::Repaired, 2)],
            expect![[r#"
                agents/in part-0.md:2: why
                agents/rejected-0.md:2: why
                agents/rejected-1.md:2: why
                agents/rejected-2.md:2: why
                agents/rejected-3.md:2: why
                home/.claude: 3 more not used, 2 repairs (`cotter doctor` lists them)"#]],
        );
    }
}
