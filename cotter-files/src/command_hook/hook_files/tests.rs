#![expect(clippy::too_many_lines, reason = "whole outputs stand in the tests")]

use std::fmt::Write;

use cotter_test::write_files;
use expect_test::{Expect, expect};
use tempfile::TempDir;

use crate::command_hook::hook_files::*;

/// Creates a folder with files; a name that ends in `!` is an executable file.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), files);
    folder
}

fn shown(root: &Path, read: Result<HookFiles, HookFileErrors>) -> String {
    let mut out = String::new();
    let diagnostics = match read {
        Ok(HookFiles { files, diagnostics }) => {
            for HookFile { hook, path, enabled } in files {
                let CommandHook { name, point, spec: declared, command, dialect, .. } = hook;
                let ExternalHookSpec { tools, limit, power, description, .. } = declared;
                assert_eq!(dialect, Dialect::Space);
                let off = if enabled { "" } else { ", off" };
                let _ = writeln!(
                    out,
                    "{}: {name} at {point}{off}: {command:?}, {tools:?}, {limit:?}, {power:?}, {description:?}",
                    path.display()
                );
            }
            diagnostics
        }
        Err(broken) => broken.diagnostics,
    };
    for told in diagnostics {
        let _ = writeln!(out, "{}: {told}", told.severity.as_str());
    }
    out.replace(&format!("{}/", root.display()), "")
}

/// Checks the hooks of a folder, and that its snapshot has the same hooks: a person sees exactly what runs.
fn check_in(folder: &TempDir, expected: Expect) {
    let root = folder.path().canonicalize().unwrap();
    let on_disk = shown(&root, load_hooks(&root));
    expected.assert_eq(&on_disk);
    assert_eq!(shown(&root, hooks_of(&Snapshot::take(&root).unwrap())), on_disk);
}

fn check(files: &[(&str, &str)], expected: Expect) {
    check_in(&folder(files), expected);
}

/// Checks one file, with a program beside it.
fn check_one(text: &str, expected: Expect) {
    check(&[("hooks/a.yaml", text), ("hooks/a.sh!", "#!/bin/sh\n")], expected);
}

#[test]
fn c14_hook_file_without_a_command_runs_the_program_beside_it() {
    check(
        &[
            (
                "hooks/pre-write.yaml",
                "id: pre-write\nname: Pre write\ndescription: Guards.\nphase: pre\ntools: [write, edit]\n",
            ),
            ("hooks/pre-write.sh!", "#!/bin/sh\n"),
            ("hooks/audit.yml", "id: audit.1\nphase: post\ntools: \"*\"\ntimeoutMs: 10000\n"),
            ("hooks/audit!", ""),
            ("hooks/pre-write.md", "About it.\n"),
            ("hooks/lib/x.yaml", "not one of them"),
            ("hooks/.hidden.yaml", "nor this"),
        ],
        expect![[r#"
            hooks/audit.yml: audit.1 at tool.post: Words(["./hooks/audit"]), Some(["*"]), Some(10s), Some(Observe), ""
            hooks/pre-write.yaml: pre-write at tool.pre: Words(["./hooks/pre-write.sh"]), Some(["write", "edit"]), None, None, "Pre write: Guards."
        "#]],
    );
    check(&[], expect![""]);
    check(
        &[("hooks", "a file")],
        expect![[r#"
            rejected: hooks: it is not a folder
        "#]],
    );
}

#[test]
fn c14_hook_file_command_is_words_or_a_line_and_can_be_disabled() {
    check(
        &[
            ("hooks/a.yaml", "---\nid: a\nphase: pre\ncommand: ./hooks/check.sh --strict\n"),
            (
                "hooks/b.yaml",
                "id: b\nphase: pre\ncommand: [python3, 'hooks/b.py', \" x\", true, 1]\n",
            ),
            ("hooks/c.yaml", "id: c\r\nphase: pre\r\ncommand: grep -q prod && exit 1\r\n"),
            (
                "hooks/d.yaml",
                "\u{feff}id: d\nphase: post\ncommand: /usr/bin/none\nenabled: false\n",
            ),
            ("hooks/e.yaml", "id: e\nphase: post\nenabled: no\n"),
            ("hooks/f.yaml", "id: f\nphase: post\ncommand: >\n  true\n"),
            ("hooks/check.sh!", ""),
        ],
        expect![[r#"
            hooks/a.yaml: a at tool.pre: Words(["./hooks/check.sh", "--strict"]), None, None, None, ""
            hooks/b.yaml: b at tool.pre: Words(["python3", "hooks/b.py", " x", "true", "1"]), None, None, None, ""
            hooks/c.yaml: c at tool.pre: Shell("grep -q prod && exit 1"), None, None, None, ""
            hooks/d.yaml: d at tool.post, off: Words(["/usr/bin/none"]), None, None, Some(Observe), ""
            hooks/e.yaml: e at tool.post, off: Words(["./hooks/e"]), None, None, Some(Observe), ""
            hooks/f.yaml: f at tool.post: Words(["true"]), None, None, Some(Observe), ""
            ok: hooks/e.yaml: it has no `command`, and no program beside it is called `e` or `e.sh`
        "#]],
    );
}

#[test]
fn l19_hook_file_errors_name_their_line() {
    let cases = [
        "",
        "- a\n",
        "id: a\n",
        "phase: pre\n",
        "\nid:\nphase: pre\n",
        "id: [a]\nphase: pre\n",
        "id: a b\nphase: pre\n",
        "id: a/b\nphase: pre\n",
        "id: \"a\\u202eb\"\nphase: pre\n",
        "id: a\nphase: before\n",
        "id: a\nphase: Pre\n",
        "id: a\nphase: tool.post\n",
        "id: a\nphase: session.start\n",
        "id: a\nphase: pre\n\ntool: write\n",
        "id: a\nphase: pre\npower: gate\n",
        "id: a\nphase: pre\nPhase: post\n",
        "id: a\nphase: pre\n\u{1b}[31m: x\n",
        "id: a\nphase: pre\nphase: post\n",
        "id: a\nphase: pre\ntools: []\n",
        "id: a\nphase: pre\ntools:\n",
        "id: a\nphase: pre\ntools: [write, '']\n",
        "id: a\nphase: pre\ntools: ['[']\n",
        "id: a\nphase: pre\ntools:\n  - write\n  - {a: b}\n",
        "id: a\nphase: pre\ntools: [*]\n",
        "id: a\nphase: pre\ntools: *\n",
        "id: a\nphase: pre\ntimeoutMs: 0\n",
        "id: a\nphase: pre\ntimeoutMs: 1.5\n",
        "id: a\nphase: pre\ntimeoutMs: -1\n",
        "id: a\nphase: pre\ntimeoutMs: 99999999999\n",
        "id: a\nphase: pre\ntimeoutMs: soon\n",
        "id: a\nphase: pre\ncommand:\n",
        "id: a\nphase: pre\ncommand: []\n",
        "id: a\nphase: pre\ncommand: ['']\n",
        "id: a\nphase: pre\ncommand: \"a\\0b\"\n",
        "id: a\nphase: pre\ncommand: {sh: x}\n",
        "id: a\nphase: pre\ncommand:\n  - sh\n  - [x]\n",
        "id: a\nphase: pre\ncommand: ./none.sh\n",
        "id: a\nphase: pre\ncommand: ./a.sh\n",
        "id: a\nphase: pre\ncommand: ../a.sh\n",
        "id: a\nphase: pre\nenabled: maybe\n",
        "id: a\nphase: pre\nenabled:\n",
        "id: a\nphase: pre\ndescription: one: two\n",
        "id: a\nphase: pre\n\tname: x\n",
        "id: a\nphase: pre\n---\nid: b\nphase: pre\n",
    ];
    let mut out = String::new();
    for text in cases {
        let folder = folder(&[("hooks/a.yaml", text), ("hooks/a.sh!", "")]);
        let root = folder.path().canonicalize().unwrap();
        let on_disk = shown(&root, load_hooks(&root));
        assert_eq!(shown(&root, hooks_of(&Snapshot::take(&root).unwrap())), on_disk);
        let _ = writeln!(out, "{}\n  {}", text.escape_debug(), on_disk.trim_end());
    }
    expect![[r#"

          rejected: hooks/a.yaml:1: missing key `id`
        - a\n
          rejected: hooks/a.yaml:1: it is not a mapping of keys to values
        id: a\n
          rejected: hooks/a.yaml:1: missing key `phase`
        phase: pre\n
          rejected: hooks/a.yaml:1: missing key `id`
        \nid:\nphase: pre\n
          rejected: hooks/a.yaml:2: `id` has to be a text
        id: [a]\nphase: pre\n
          rejected: hooks/a.yaml:1: `id` has to be a text
        id: a b\nphase: pre\n
          rejected: hooks/a.yaml:1: `a b` is not a valid `id`: use at most 80 letters, digits, `-`, `_` and `.`
        id: a/b\nphase: pre\n
          rejected: hooks/a.yaml:1: `a/b` is not a valid `id`: use at most 80 letters, digits, `-`, `_` and `.`
        id: \"a\\u202eb\"\nphase: pre\n
          rejected: hooks/a.yaml:1: `a\u{202e}b` is not a valid `id`: use at most 80 letters, digits, `-`, `_` and `.`
        id: a\nphase: before\n
          rejected: hooks/a.yaml:2: there is no phase `before`; there are `pre`, `post`
        id: a\nphase: Pre\n
          rejected: hooks/a.yaml:2: there is no phase `Pre`; did you mean `pre`?
        id: a\nphase: tool.post\n
          rejected: hooks/a.yaml:2: there is no phase `tool.post`; did you mean `post`?
        id: a\nphase: session.start\n
          rejected: hooks/a.yaml:2: there is no phase `session.start`; there are `pre`, `post`
        id: a\nphase: pre\n\ntool: write\n
          rejected: hooks/a.yaml:4: there is no key `tool`; did you mean `tools`?
        id: a\nphase: pre\npower: gate\n
          rejected: hooks/a.yaml:3: there is no key `power`; there are `id`, `name`, `description`, `phase`, `tools`, `command`, `timeoutMs`, `enabled`
        id: a\nphase: pre\nPhase: post\n
          rejected: hooks/a.yaml:3: there is no key `Phase`; did you mean `phase`?
        id: a\nphase: pre\n\u{1b}[31m: x\n
          rejected: hooks/a.yaml:3: it is not YAML
        id: a\nphase: pre\nphase: post\n
          rejected: hooks/a.yaml:3: duplicate key `phase`
        id: a\nphase: pre\ntools: []\n
          rejected: hooks/a.yaml:3: `tools` is empty: leave it out to match every tool
        id: a\nphase: pre\ntools:\n
          rejected: hooks/a.yaml:3: `tools` is empty: leave it out to match every tool
        id: a\nphase: pre\ntools: [write, \'\']\n
          rejected: hooks/a.yaml:3: a tool in `tools` has no name
        id: a\nphase: pre\ntools: [\'[\']\n
          rejected: hooks/a.yaml:3: `tools`: error parsing glob '[': unclosed character class; missing ']'
        id: a\nphase: pre\ntools:\n  - write\n  - {a: b}\n
          rejected: hooks/a.yaml:5: `tools` has to be a list of texts
        id: a\nphase: pre\ntools: [*]\n
          rejected: hooks/a.yaml:3: it is not YAML
        id: a\nphase: pre\ntools: *\n
          rejected: hooks/a.yaml:3: it is not YAML; with its values in quotes it would be YAML
        id: a\nphase: pre\ntimeoutMs: 0\n
          rejected: hooks/a.yaml:3: `timeoutMs` has to be a whole number from 1 to 3600000
        id: a\nphase: pre\ntimeoutMs: 1.5\n
          rejected: hooks/a.yaml:3: `timeoutMs` has to be a whole number from 1 to 3600000
        id: a\nphase: pre\ntimeoutMs: -1\n
          rejected: hooks/a.yaml:3: `timeoutMs` has to be a whole number from 1 to 3600000
        id: a\nphase: pre\ntimeoutMs: 99999999999\n
          rejected: hooks/a.yaml:3: `timeoutMs` has to be a whole number from 1 to 3600000
        id: a\nphase: pre\ntimeoutMs: soon\n
          rejected: hooks/a.yaml:3: `timeoutMs` has to be a whole number from 1 to 3600000
        id: a\nphase: pre\ncommand:\n
          rejected: hooks/a.yaml:3: `command` has to be a text or a list of words
        id: a\nphase: pre\ncommand: []\n
          rejected: hooks/a.yaml:3: `command`: the command is empty
        id: a\nphase: pre\ncommand: [\'\']\n
          rejected: hooks/a.yaml:3: `command`: the command is empty
        id: a\nphase: pre\ncommand: \"a\\0b\"\n
          rejected: hooks/a.yaml:3: `command`: a command cannot contain a NUL byte
        id: a\nphase: pre\ncommand: {sh: x}\n
          rejected: hooks/a.yaml:3: `command` has to be a text
        id: a\nphase: pre\ncommand:\n  - sh\n  - [x]\n
          rejected: hooks/a.yaml:5: a word of `command` has to be a text
        id: a\nphase: pre\ncommand: ./none.sh\n
          rejected: hooks/a.yaml:3: there is no program `./none.sh` in the folder that has `hooks`
        id: a\nphase: pre\ncommand: ./a.sh\n
          rejected: hooks/a.yaml:3: there is no program `./a.sh` in the folder that has `hooks`; did you mean `./hooks/a.sh`?
        id: a\nphase: pre\ncommand: ../a.sh\n
          rejected: hooks/a.yaml:3: there is no program `../a.sh` in the folder that has `hooks`
        id: a\nphase: pre\nenabled: maybe\n
          rejected: hooks/a.yaml:3: `enabled` has to be `true` or `false`
        id: a\nphase: pre\nenabled:\n
          rejected: hooks/a.yaml:3: `enabled` has to be `true` or `false`
        id: a\nphase: pre\ndescription: one: two\n
          rejected: hooks/a.yaml:3: it is not YAML; with its values in quotes it would be YAML
        id: a\nphase: pre\n\tname: x\n
          rejected: hooks/a.yaml:2: it is not YAML
        id: a\nphase: pre\n---\nid: b\nphase: pre\n
          rejected: hooks/a.yaml:3: it is too long, too deeply nested, or has too many aliases
    "#]].assert_eq(&out);
}

#[test]
fn c14_hook_folder_with_an_error_loads_nothing() {
    let good = "id: one\nphase: pre\ncommand: 'true'\n";
    check(
        &[
            ("hooks/a.yaml", good),
            ("hooks/b.yaml", good),
            ("hooks/c.yaml", "id: c\nphase: prod\n"),
            ("hooks/d.yaml", "id: d\nphase: pre\n"),
        ],
        expect![[r#"
            rejected: hooks/b.yaml:1: the id `one` is already defined by a.yaml
            rejected: hooks/c.yaml:2: there is no phase `prod`; there are `pre`, `post`
            rejected: hooks/d.yaml: it has no `command`, and no program beside it is called `d` or `d.sh`
        "#]],
    );
    check(
        &[
            ("hooks/a.yaml", "id: a\nphase: pre\n"),
            ("hooks/a.sh", ""),
            ("hooks/b.yaml", "id: b\nphase: pre\n"),
            ("hooks/b.sh!", ""),
            ("hooks/b.py!", ""),
        ],
        expect![[r#"
            rejected: hooks/a.yaml: `a.sh` beside it is not executable (run `chmod +x` on it)
            rejected: hooks/b.yaml: `b.py` and `b.sh` are beside it: name one in `command`
        "#]],
    );
    check_one(
        "id: a\nphase: pre\n",
        expect![[r#"
        hooks/a.yaml: a at tool.pre: Words(["./hooks/a.sh"]), None, None, None, ""
    "#]],
    );
}

#[test]
fn s6_hostile_hook_files_are_rejected() {
    let bomb: String =
        (1..20).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)).collect();
    let bomb = format!("id: a\nphase: pre\na0: &a0 x\n{bomb}");
    let deep = format!("id: a\nphase: pre\ntools: {}\n", "[".repeat(10_000));
    let long = format!("id: a\nphase: pre\n# {}\n", "x".repeat(MAX_BYTES));
    for (text, expected) in [
        (
            bomb,
            expect![[r#"
                rejected: hooks/a.yaml:9: it is too long, too deeply nested, or has too many aliases
            "#]],
        ),
        (
            deep,
            expect![[r#"
                rejected: hooks/a.yaml:3: it is too long, too deeply nested, or has too many aliases
            "#]],
        ),
        (
            long,
            expect![[r#"
            rejected: hooks/a.yaml: it has more than 65536 bytes
        "#]],
        ),
        (
            "id: &a a\nphase: pre\n<<: *a\n".to_owned(),
            expect![[r#"
                rejected: hooks/a.yaml:3: it is too long, too deeply nested, or has too many aliases
            "#]],
        ),
    ] {
        check_one(&text, expected);
    }
    let folder = folder(&[("hooks/a.sh!", "")]);
    write_files(folder.path(), &[("hooks/a.yaml", b"id: a\nphase: \xff\n")]);
    check_in(
        &folder,
        expect![[r#"
            rejected: hooks/a.yaml:2: a byte in the file is not UTF-8
        "#]],
    );
}

#[test]
fn s6_linked_or_special_hook_files_are_rejected() {
    use std::os::unix::{fs::symlink, net::UnixListener};

    let text = "id: a\nphase: pre\n";
    let inside = folder(&[
        ("real/b.yaml", text),
        ("real/b.sh!", ""),
        ("hooks/c.yaml", "id: c\nphase: pre\n"),
    ]);
    symlink("../real/b.yaml", inside.path().join("hooks/b.yaml")).unwrap();
    symlink("../real/b.sh", inside.path().join("hooks/c.sh")).unwrap();
    check_in(
        &inside,
        expect![[r#"
            rejected: hooks/b.yaml: it is a link, and links are not followed
            rejected: hooks/c.yaml: `c.sh` beside it is a link, and links are not followed: name it in `command`
        "#]],
    );
    // The folder itself may be a link: a copy of it has the same contents.
    let linked = folder(&[("real/b.yaml", text), ("real/b.sh!", "")]);
    symlink("real", linked.path().join("hooks")).unwrap();
    check_in(
        &linked,
        expect![[r#"
        hooks/b.yaml: a at tool.pre: Words(["./hooks/b.sh"]), None, None, None, ""
    "#]],
    );
    let odd = folder(&[("hooks/x/y", "")]);
    let _socket = UnixListener::bind(odd.path().join("hooks/a.yaml")).unwrap();
    fs::create_dir(odd.path().join("hooks/b.yaml")).unwrap();
    symlink("/etc/passwd", odd.path().join("hooks/c.yml")).unwrap();
    symlink("hooks", odd.path().join("hooks/loop")).unwrap();
    let root = odd.path();
    expect![[r#"
        rejected: hooks/a.yaml: it cannot be read: No such device or address (os error 6)
        rejected: hooks/b.yaml: it cannot be read: it is not a file
        rejected: hooks/c.yml: it is a link, and links are not followed
    "#]]
    .assert_eq(&shown(root, load_hooks(root)));
    // In a user's own folder links are followed.
    expect![[r#"
        rejected: hooks/a.yaml: it cannot be read: No such device or address (os error 6)
        rejected: hooks/b.yaml: it cannot be read: it is not a file
        rejected: hooks/c.yml:1: it is not a mapping of keys to values
    "#]]
    .assert_eq(&shown(root, load_own_hooks(root)));
    let round = folder(&[]);
    symlink("hooks", round.path().join("hooks")).unwrap();
    expect![[r#"
        rejected: hooks: it cannot be read: Too many levels of symbolic links (os error 40)
    "#]]
    .assert_eq(&shown(round.path(), load_hooks(round.path())));
}
