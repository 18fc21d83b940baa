//! The report about files at a start: up to five unused files per folder by name, the rest as numbers.
//! `cotter doctor` lists everything.

use std::path::{Path, PathBuf};

use cotter_files::extensions::{Diagnostic, Severity};

use crate::{terminal::style::count, trust::show_path};

/// The diagnostics about the files of a folder, or about one file.
#[derive(Clone)]
pub(crate) struct FileReport {
    /// The folder or file, under the path that its author knows.
    pub(crate) folder: PathBuf,
    /// All diagnostics, of every severity.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The command that lists all diagnostics.
    full_list_command: String,
}

/// The number of diagnostics per folder that are listed one by one.
const MAX_LISTED: usize = 5;

/// Returns the lines to print at a start.
pub(crate) fn summary_lines(reports: &[FileReport]) -> Vec<String> {
    reports.iter().flat_map(FileReport::summary_lines).collect()
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

    /// Lists unused files one by one and the rest as numbers. Warnings alone print nothing.
    fn summary_lines(&self) -> Vec<String> {
        let of = |wanted: &[Severity]| {
            let all = self.diagnostics.iter();
            all.filter(|diagnostic| wanted.contains(&diagnostic.severity)).collect::<Vec<_>>()
        };
        // Files that would guard something come first.
        let mut unused = of(&[Severity::PartlyUsed]);
        unused.extend(of(&[Severity::Rejected]));
        let (repaired, notes) = (of(&[Severity::Repaired]), of(&[Severity::Warning]).len());
        let mut lines: Vec<_> = unused.iter().take(MAX_LISTED).map(ToString::to_string).collect();
        let mut rest = vec![];
        if unused.len() > MAX_LISTED {
            rest.push(format!("{} more not used", unused.len() - MAX_LISTED));
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
