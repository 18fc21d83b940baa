//! Tests of files as people write them: one of our own per kind of oddity, and whole collections if they are
//! available.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use cotter_files::{
    check::{self, CheckedFile},
    extensions::FileKind,
};
use cotter_test::not_tested;
use expect_test::{Expect, expect};

const KINDS: [(&str, FileKind); 3] =
    [("skills", FileKind::Skills), ("agents", FileKind::Agents), ("commands", FileKind::Commands)];

fn check(kind: &str, expected: Expect) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/odd").join(kind);
    let kind = KINDS.iter().find(|(name, _)| *name == kind).expect("a kind there is").1;
    let mut shown = String::new();
    for file in check::check(&root, kind) {
        let path = file.path.strip_prefix(&root).unwrap().display();
        shown += &format!("{:<8} {path}\n", file.status.as_str());
        for told in &file.diagnostics {
            let line = told.line.map(|line| format!("{line}: ")).unwrap_or_default();
            shown += &format!("           {line}{}\n", told.message);
        }
    }
    expected.assert_eq(&shown);
}

#[test]
fn c9_odd_skill_files_are_read_or_reported() {
    check(
        "skills",
        expect![[r#"
            repaired 3d-print/SKILL.md
                       `3d-print` cannot be the name of a skill; the name `skill-3d-print` is used instead
            repaired Two Words/SKILL.md
                       `Two Words` cannot be the name of a skill; the name `Two-Words` is used instead
                       2: its name is that of its folder, `/Two-Words`; `name` has no effect
            ok       alias/SKILL.md
            repaired apostrophe/SKILL.md
                       3: it is not YAML; read line by line
            repaired at-sign/SKILL.md
                       3: it is not YAML; read with its values in quotes
            ok       blank-first/SKILL.md
            repaired body-not-utf8/SKILL.md
                       bytes of its text are not UTF-8 and are replaced by U+FFFD
            ok       bom/SKILL.md
            ok       comment-before/SKILL.md
                       it has no front matter: it is used only if it is named
            ok       comment-within/SKILL.md
            ok       crlf/SKILL.md
            ok       date/SKILL.md
            ok       depot/inner/deep/SKILL.md
            repaired description-list/SKILL.md
                       3: `description` is a list; it is joined to one text
            rejected description-map/SKILL.md
                       3: `description` has to be a text
            ok       empty/SKILL.md
                       it has no front matter: it is used only if it is named
                       it has no text below its front matter
            rejected flag-odd/SKILL.md
                       4: `disable-model-invocation` has to be `true` or `false`
            ok       flag-word/SKILL.md
            ok       folded/SKILL.md
            ok       hash/SKILL.md
            ok       literal/SKILL.md
            ok       long-description/SKILL.md
                       3: its `description` has more than 1024 bytes
            ok       loose.md
            rejected no-end/SKILL.md
                       1: the front matter has no end: a second line `---` is missing
            ok       no-front-matter/SKILL.md
                       it has no front matter: it is used only if it is named
            ok       no-name/SKILL.md
            rejected not-utf8/SKILL.md
                       3: a byte in the front matter is not UTF-8
            ok       only-front-matter/SKILL.md
                       it has no text below its front matter
            ok       other-name/SKILL.md
                       2: its name is that of its folder, `/other-name`; `name` has no effect
            repaired percent/SKILL.md
                       3: it is not YAML; read with its values in quotes
            repaired quoted-path/SKILL.md
                       3: it is not YAML; read line by line
            ok       rule-in-body/SKILL.md
            repaired star/SKILL.md
                       3: it is not YAML; read with its values in quotes
            repaired tabs/SKILL.md
                       5: it is not YAML; read with its values in quotes
            ok       tools-list/SKILL.md
                       4: `allowed-tools` allows nothing here: use `allow` rules in your settings
            ok       tools-text/SKILL.md
                       4: `allowed-tools` allows nothing here: use `allow` rules in your settings
            rejected twice/SKILL.md
                       4: duplicate key `description`
            repaired unquoted-colon/SKILL.md
                       3: it is not YAML; read with its values in quotes
            ok       upper/skill.md
                       its folder is not a skill: for that, name the file `SKILL.md`
            ok       vendor-keys/SKILL.md
            ok       windows-path/SKILL.md
            rejected 📦/SKILL.md
                       `📦` cannot be the name of a skill
            repaired 📦-parcels/SKILL.md
                       `📦-parcels` cannot be the name of a skill; the name `parcels` is used instead
                       2: its name is that of its folder, `/parcels`; `name` has no effect
        "#]],
    );
}

#[test]
fn c15_odd_agent_files_are_read_or_reported() {
    check(
        "agents",
        expect![[r#"
            ok       bypass.md
                       4: `permissionMode` `bypassPermissions` has no effect: the caller's mode applies
                       5: `hooks` has no effect here: no hook in it runs
            repaired examples-in-description.md
                       3: it is not YAML; read with its values in quotes
            ok       mapping.yaml
            repaired newlines-in-description.md
                       3: it is not YAML; read with its values in quotes
            ok       no-description.md
                       it has no `description`: the model sees only its name
            ok       no-front-matter.md
                       it has no `description`: the model sees only its name
            rejected no-prompt.md
                       it has no prompt: write it below the front matter
            ok       plan.md
            repaired spaced name.md
                       `spaced name` cannot be the name of a subagent; the name `spaced-name` is used instead
            ok       tools-blank.md
                       4: `tools` has no value and no effect
            repaired tools-call.md
                       4: `Bash(git log:*)` in `tools` is a kind of call, not a tool: it is skipped
            ok       tools-list.md
            ok       tools-none.md
                       4: `tools` is empty: the agent has none
            ok       tools-star.md
            ok       tools-text.md
                       5: `model` is not `provider/model`: the caller's model is used
            repaired without.md
                       4: `Bash(rm *)` is a kind of call: the whole tool is disallowed
        "#]],
    );
}

#[test]
fn c13_odd_command_files_are_read_or_reported() {
    check(
        "commands",
        expect![[r#"
            repaired braces.md
                       2: it is not YAML; read with its values in quotes
            ok       depot/close.md
            ok       empty.md
                       it has no text below its front matter
            repaired hint-colon.md
                       2: it is not YAML; read with its values in quotes
                       4: `allowed-tools` allows nothing here: use `allow` rules in your settings
            repaired hint-list.md
                       3: it is not YAML; read with its values in quotes
            ok       model.md
                       3: `model` is not `provider/model`: the session's model is used
            ok       no-front-matter.md
            repaired v1.2.md
                       `v1.2` cannot be the name of a command; the name `v1-2` is used instead
            repaired with blank.md
                       `with blank` cannot be the name of a command; the name `with-blank` is used instead
        "#]],
    );
}

/// Walks the folder that `COTTER_COLLECTIONS` names, with one collection per subfolder, and prints the status
/// of each collection's files.
#[test]
#[expect(clippy::print_stdout, reason = "whoever names collections wants to read about them")]
fn b3_collections_named_by_the_variable_are_checked() {
    let Some(root) = env::var_os("COTTER_COLLECTIONS") else {
        return not_tested("`COTTER_COLLECTIONS` names no folder of collections");
    };
    let mut collections: Vec<_> =
        fs::read_dir(root).unwrap().map(|one| one.unwrap().path()).collect();
    collections.sort();
    for collection in collections.iter().filter(|path| path.is_dir()) {
        let mut checked = vec![];
        walk(collection, kind_of(collection), &mut checked);
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for file in &checked {
            *counts.entry((file.kind.as_str(), file.status.as_str())).or_default() += 1;
        }
        let name = collection.file_name().unwrap().to_string_lossy();
        for ((kind, status), count) in &counts {
            println!("{name}: {kind} {status} {count}");
        }
        for file in &checked {
            for told in file.diagnostics.iter().filter(|told| told.severity.as_str() != "ok") {
                println!("  {}: {told}", told.severity.as_str());
            }
            let is_told = file.status.as_str() == "ok" || !file.diagnostics.is_empty();
            assert!(is_told, "{} is doubtful, and nothing is said", file.path.display());
        }
    }
}

/// The kind that the name of a folder or of a whole collection suggests.
fn kind_of(path: &Path) -> Option<FileKind> {
    let name = path.file_name()?.to_str()?.to_lowercase();
    KINDS.iter().find(|(kind, _)| name == *kind || name.ends_with(kind)).map(|(_, kind)| *kind)
}

/// Checks every file of a kind alone, because files with the same name in two folders are no conflict here.
fn walk(folder: &Path, kind: Option<FileKind>, checked: &mut Vec<CheckedFile>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    if folder.join("SKILL.md").is_file() {
        checked.extend(check::check(folder, FileKind::Skills));
        return;
    }
    for entry in entries {
        let is_link = entry.symlink_metadata().is_ok_and(|about| about.is_symlink());
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        let by_itself = name.strip_suffix(".md").is_some_and(|stem| stem != stem.to_uppercase());
        if is_link || name.starts_with('.') && name != ".claude" {
            continue;
        } else if entry.is_dir() {
            walk(&entry, kind_of(&entry).or(kind), checked);
        } else if let Some(kind) = kind.filter(|kind| by_itself && *kind != FileKind::Skills) {
            checked.extend(check::check(&entry, kind));
        }
    }
}
