#![expect(clippy::too_many_lines, reason = "whole outputs stand in the tests")]

use std::{fmt::Write, path::Path};

use cotter_test::write_files;
use expect_test::expect;

use super::*;

/// Shows the result of `check` for a path.
fn show_check(root: &Path, path: &Path) -> String {
    let mut out = String::new();
    for file in check(path, FileKind::Hooks) {
        let path = file.path.strip_prefix(root).unwrap_or(&file.path).display();
        let _ = writeln!(out, "{} {path}: {}", file.kind.as_str(), file.status.as_str());
        for told in file.diagnostics {
            let line = told.line.map(|line| format!("{line}: ")).unwrap_or_default();
            let _ = writeln!(out, "  {line}{}", told.message);
        }
    }
    out
}

#[test]
fn c14_check_reports_every_file_that_declares_hooks() {
    let files = [
        (
            ".cotter/settings.json",
            r#"{"hooks": {"tool.pre": [{"command": "./none.sh"}, {"command": "./hooks/a.sh"}]}}"#,
        ),
        (".cotter/hooks/a.yaml", "id: a\nphase: pre\n"),
        (".cotter/hooks/a.sh!", ""),
        (".cotter/hooks/b.yaml", "id: a\nphase: pre\ncommand: ./check.sh\n"),
        (".cotter/hooks/c.yaml", "id: a\nphase: pre\ncommand: ./a.sh\n"),
        ("broken/settings.json", "{\n  \"hooks\": {\n    \"tool.pr\": []\n  }\n}\n"),
        ("alone/one.yaml", "id: one\nphase: pre\n"),
        ("alone/one.py!", ""),
        ("alone/two.yaml", "id: one\nphase: post\n"),
        ("loose/.cotter/settings.json", r#"{"roots": []}"#),
        ("empty/x.txt", ""),
    ];
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), &files);
    let root = folder.path();
    let mut out = String::new();
    for name in [
        "",
        ".cotter",
        ".cotter/hooks",
        ".cotter/hooks/a.yaml",
        ".cotter/settings.json",
        "broken",
        "alone",
        "alone/two.yaml",
        "loose",
        "empty",
    ] {
        let _ = write!(out, "> {name}\n{}", show_check(root, &root.join(name)));
    }
    expect![[r#"
        > 
        hook .cotter/hooks/a.yaml: ok
        hook .cotter/hooks/b.yaml: rejected
          3: there is no program `./check.sh` in the folder that has `hooks`
        hook .cotter/hooks/c.yaml: rejected
          3: there is no program `./a.sh` in the folder that has `hooks`; did you mean `./hooks/a.sh`?
        settings .cotter/settings.json: rejected
          hook `none`: there is no program `./none.sh` in the folder that has `hooks`
        > .cotter
        hook .cotter/hooks/a.yaml: ok
        hook .cotter/hooks/b.yaml: rejected
          3: there is no program `./check.sh` in the folder that has `hooks`
        hook .cotter/hooks/c.yaml: rejected
          3: there is no program `./a.sh` in the folder that has `hooks`; did you mean `./hooks/a.sh`?
        settings .cotter/settings.json: rejected
          hook `none`: there is no program `./none.sh` in the folder that has `hooks`
        > .cotter/hooks
        hook .cotter/hooks/a.yaml: ok
        hook .cotter/hooks/b.yaml: rejected
          3: there is no program `./check.sh` in the folder that has `hooks`
        hook .cotter/hooks/c.yaml: rejected
          3: there is no program `./a.sh` in the folder that has `hooks`; did you mean `./hooks/a.sh`?
        > .cotter/hooks/a.yaml
        hook .cotter/hooks/a.yaml: ok
        > .cotter/settings.json
        settings .cotter/settings.json: rejected
          hook `none`: there is no program `./none.sh` in the folder that has `hooks`
        > broken
        settings broken/settings.json: rejected
          3: $.hooks["tool.pr"]: there is no point `tool.pr`; did you mean `tool.pre`?
        > alone
        hook alone/one.yaml: ok
        hook alone/two.yaml: rejected
          it has no `command`, and no program beside it is called `two` or `two.sh`
        > alone/two.yaml
        hook alone/two.yaml: rejected
          it has no `command`, and no program beside it is called `two` or `two.sh`
        > loose
        settings loose/.cotter/settings.json: rejected
          1: $.roots: `roots` is not allowed in a project's settings; a project may only tighten: move this to your own settings
        > empty
    "#]].assert_eq(&out);
}
