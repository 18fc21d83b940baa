//! Spaces from repositories: one commit is fetched over `file://`, and no setting of a repository has an
//! effect.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Output, Stdio},
};

use expect_test::expect;

use crate::{
    spaces::{OWN, at_terminal, put, world},
    support::World,
    terminal::Screen,
};

const FILES: &[(&str, &str)] = &[
    ("manifest.json", r#"{"id": "ship", "name": "Ship", "version": "1"}"#),
    ("hooks/no.yaml", "id: no\nphase: pre\ntools: write\n"),
    ("hooks/no.sh", "#!/bin/sh\necho '{\"blocked\": true, \"reason\": \"first\"}'\n"),
];

/// Runs git in the repository of a world, without the settings of the person who runs the tests.
fn git(world: &World, args: &[&str]) -> String {
    let output = run_git(world, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn run_git(world: &World, args: &[&str]) -> Output {
    Command::new("git")
        .args([
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.com",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", world.path("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
        .current_dir(world.path("repo"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn commit(world: &World) -> String {
    git(world, &["add", "--all"]);
    git(world, &["commit", "--quiet", "--allow-empty", "--message=m"]);
    git(world, &["rev-parse", "HEAD"])
}

/// Creates a repository with one commit, and returns its address.
fn repository() -> (World, String) {
    let world = world();
    put(&world, "repo", FILES);
    git(&world, &["init", "--quiet"]);
    commit(&world);
    let address = format!("file://{}", world.path("repo").display());
    (world, address)
}

fn run(world: &World) -> String {
    let args = ["-p", "--model", "rehearsal", "--space", "ship", "write x to a"];
    let output = world.output(&args);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn c14_a_space_is_added_updated_and_removed_from_a_repository() {
    let (world, address) = repository();
    let first = git(&world, &["rev-parse", "HEAD"]);
    git(&world, &["tag", "v1"]);
    expect![[r#"
        exit 0
        from    file://[T]/repo at [HASH]dd1af6de
        source  [T]/home/.config/cotter/spaces/ship
        hash    [HASH][HASH]
        trust   none yet

        commands, pinned (all their code is in the files below) or open (they run other code too)
          pinned  hook no at tool.pre
                  runs ./hooks/no.sh

        files (3)
          exec         54 bytes  hooks/no.sh
                       31 bytes  hooks/no.yaml
                       46 bytes  manifest.json

        Trust it as it is, and let it run?
        [s]how all, [y]es, [n]o: y
        space `ship` 1 is installed: 1 hook
        `cotter -p --space ship PROMPT` uses it
    "#]]
    .assert_eq(&at_terminal(&world, &["spaces", "add", &address], "y"));
    let lock = fs::read_to_string(world.path("home/.config/cotter/spaces.lock.json")).unwrap();
    expect![[r#"
        {
          "v": 1,
          "spaces": [
            {
              "id": "ship",
              "source": "file://[T]/repo",
              "revision": "[HASH]-first",
              "hash": "[HASH][HASH]"
            }
          ]
        }
    "#]]
    .assert_eq(&world.plain(&lock).replace(&first[32..], "-first"));
    assert!(!world.path(&format!("{OWN}/ship/.git")).exists());
    let mode = fs::metadata(world.path(&format!("{OWN}/ship/hooks/no.sh"))).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    assert_eq!(run(&world), "refused: write: first (no, space:ship)\n");
    world.check(
        &["spaces", "update"],
        expect![[r#"
        exit 0
        --- stdout
        space `ship` is up to date
    "#]],
    );
    // A change is shown; it is trusted again or not applied.
    world.write(
        "repo/hooks/no.sh",
        "#!/bin/sh\necho '{\"blocked\": true, \"reason\": \"second\"}'\n",
    );
    commit(&world);
    world.check_without_terminal(
        &["spaces", "update", "ship"],
        expect![[r#"
            exit 3
            --- stderr
            error: space `ship` is unchanged
              caused by: there is no terminal to ask on, and only a person can give trust
        "#]],
    );
    expect![[r#"
        exit 0
        from    file://[T]/repo at [HASH]b8cc8f89
        source  [T]/home/.config/cotter/spaces/ship
        hash    [HASH][HASH]
        trust   none: it changed since it was trusted

        commands, pinned (all their code is in the files below) or open (they run other code too)
          pinned  hook no at tool.pre
                  runs ./hooks/no.sh

        files (3)
          exec         55 bytes  hooks/no.sh
                       31 bytes  hooks/no.yaml
                       46 bytes  manifest.json

        changed since it was trusted
          changed: hooks/no.sh
              #!/bin/sh
            - echo '{"blocked": true, "reason": "first"}'
            + echo '{"blocked": true, "reason": "second"}'

        Trust it as it is, and let it run?
        [s]how all, [y]es, [n]o: n
        space `ship` is unchanged: the answer was no
    "#]]
    .assert_eq(&at_terminal(&world, &["spaces", "update"], "n"));
    assert_eq!(run(&world), "refused: write: first (no, space:ship)\n");
    expect![[r#"
        exit 0
        from    file://[T]/repo at [HASH]b8cc8f89
        source  [T]/home/.config/cotter/spaces/ship
        hash    [HASH][HASH]
        trust   none: it changed since it was trusted

        commands, pinned (all their code is in the files below) or open (they run other code too)
          pinned  hook no at tool.pre
                  runs ./hooks/no.sh

        files (3)
          exec         55 bytes  hooks/no.sh
                       31 bytes  hooks/no.yaml
                       46 bytes  manifest.json

        changed since it was trusted
          changed: hooks/no.sh
              #!/bin/sh
            - echo '{"blocked": true, "reason": "first"}'
            + echo '{"blocked": true, "reason": "second"}'

        Trust it as it is, and let it run?
        [s]how all, [y]es, [n]o: y
        space `ship` 1 is up to date: 1 hook
        `cotter -p --space ship PROMPT` uses it
    "#]]
    .assert_eq(&at_terminal(&world, &["spaces", "update"], "y"));
    assert_eq!(run(&world), "refused: write: second (no, space:ship)\n");
    world.check(
        &["spaces", "update", "shi"],
        expect![[r#"
        exit 1
        --- stderr
        error: there is no space `shi` of yours

        hint: did you mean `ship`?
    "#]],
    );
    world.check(
        &["spaces", "remove", "ship"],
        expect![[r#"
            exit 0
            --- stdout
            space `ship` is removed, and is no longer trusted
        "#]],
    );
    // A fixed revision keeps its contents.
    for rev in ["v1", &first, "main"] {
        let added = at_terminal(&world, &["spaces", "add", &address, "--rev", rev], "y");
        assert!(added.contains("is installed: 1 hook"), "{added}");
        let expected = if rev == "main" { "second" } else { "first" };
        assert_eq!(run(&world), format!("refused: write: {expected} (no, space:ship)\n"));
        world.output(&["spaces", "remove", "ship"]);
    }
}

#[test]
fn c14_s12_git_hooks_and_filters_of_a_space_repository_do_not_run() {
    let (world, address) = repository();
    let mark = world.path("ran");
    let run = format!("touch {}", mark.display());
    for name in ["post-checkout", "post-merge", "reference-transaction", "pre-auto-gc", "fsmonitor"]
    {
        let text = format!("#!/bin/sh\n{run}\n");
        world.write_executable(&format!("repo/.git/hooks/{name}"), text);
    }
    let program = world.path("repo/.git/hooks/fsmonitor").display().to_string();
    world.write(
        "repo/.gitattributes",
        "* filter=evil text eol=crlf export-subst\nhooks/no.sh export-ignore\n",
    );
    world.write("repo/install.sh", format!("#!/bin/sh\n{run}\n"));
    world.write("repo/package.json", format!(r#"{{"scripts": {{"postinstall": "{run}"}}}}"#));
    world.write("repo/Makefile", format!("all:\n\t{run}\n"));
    commit(&world);
    let _ = fs::remove_file(&mark);
    for (key, value) in [
        ("core.fsmonitor", program.as_str()),
        ("filter.evil.smudge", &program),
        ("filter.evil.clean", &program),
        ("filter.evil.process", &program),
        ("filter.evil.required", "true"),
        ("uploadpack.packObjectsHook", &program),
        ("core.alternateRefsCommand", &program),
        ("core.sshCommand", &program),
        ("core.pager", &program),
        ("gpg.program", &program),
    ] {
        git(&world, &["config", key, value]);
    }
    // Some of the settings would run code in a normal git command.
    run_git(&world, &["status"]);
    assert!(mark.exists());
    fs::remove_file(&mark).unwrap();
    let added = at_terminal(&world, &["spaces", "add", &address], "y");
    assert!(added.contains("is installed: 1 hook"), "{added}");
    assert!(!mark.exists());
    // The bytes are exactly those of the commit.
    let bytes = fs::read(world.path(&format!("{OWN}/ship/hooks/no.sh"))).unwrap();
    assert_eq!(bytes, FILES[2].1.as_bytes());
    let output = world.output(&["spaces", "update"]);
    assert!(output.status.success());
    assert!(!mark.exists());
}

#[test]
fn c14_s12_invalid_revision_address_or_file_of_a_space_is_refused() {
    let (world, address) = repository();
    let mark = world.path("ran");
    let pack = format!("--upload-pack=touch {}", mark.display());
    for rev in [pack.as_str(), "-u", "main:refs/heads/x", "nowhere", "a..b", ""] {
        let output = world.without_terminal(&["spaces", "add", &address, &format!("--rev={rev}")]);
        let output = { output }.stdin(Stdio::null()).output().unwrap();
        assert!(!output.status.success(), "{rev}");
    }
    let helper = format!("ext::touch {}", mark.display());
    for address in
        [helper.as_str(), "http://127.0.0.1:1/x", "git://127.0.0.1:1/x", "git@127.0.0.1:x"]
    {
        let output = world.without_terminal(&["spaces", "add", address]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{address}");
    }
    assert!(!mark.exists());
    world.check_without_terminal(
        &["spaces", "add", &address, "--rev", "nowhere"],
        expect![[r#"
        exit 1
        --- stderr
        error: cannot fetch file://[T]/repo
          caused by: `git fetch` failed
          caused by: fatal: couldn't find remote ref nowhere
    "#]],
    );
    world.check_without_terminal(
        &["spaces", "add", &format!("{address}-not")],
        expect![[r#"
        exit 1
        --- stderr
        error: cannot fetch file://[T]/repo-not
          caused by: `git fetch` failed
          caused by: fatal: '[T]/repo-not' does not appear to be a git repository
          caused by: fatal: Could not read from remote repository.
          caused by: Please make sure you have the correct access rights
          caused by: and the repository exists.
    "#]],
    );
    world.check_without_terminal(
        &["spaces", "add", "../repo", "--rev", "main"],
        expect![[r#"
        exit 2
        --- stderr
        error: `--rev` is for repositories, and this is a folder
    "#]],
    );
    // A submodule, a link that leads outside, and a name that git reserves.
    git(
        &world,
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            "160000,0123456789012345678901234567890123456789,inner",
        ],
    );
    git(&world, &["commit", "--quiet", "--message=m"]);
    world.check_without_terminal(
        &["spaces", "add", &address],
        expect![[r#"
            exit 1
            --- stderr
            error: cannot fetch file://[T]/repo
              caused by: inner is a submodule

            hint: submodules are not fetched: put the files into the repository of the space
        "#]],
    );
    git(&world, &["rm", "--quiet", "--cached", "inner"]);
    symlink("/etc/passwd", world.path("repo/passwd")).unwrap();
    commit(&world);
    world.check_without_terminal(
        &["spaces", "add", &address],
        expect![[r#"
            exit 1
            --- stderr
            error: file://[T]/repo cannot be used as a space
              caused by: [T]/home/.config/cotter/spaces/.new/passwd is a link to a path outside the folder, /etc/passwd

            hint: move the link's target into the folder: everything that runs must be in it
        "#]],
    );
    fs::remove_file(world.path("repo/passwd")).unwrap();
    commit(&world);
    tree_with(&world, ".git", "config");
    world.check_without_terminal(
        &["spaces", "add", &address],
        expect![[r#"
            exit 1
            --- stderr
            error: file://[T]/repo cannot be used as a space
              caused by: [T]/home/.config/cotter/spaces/.new contains a file with an invalid path: .git/config
        "#]],
    );
    tree_with(&world, "..", "out");
    world.check_without_terminal(
        &["spaces", "add", &address],
        expect![[r#"
            exit 1
            --- stderr
            error: file://[T]/repo cannot be used as a space
              caused by: [T]/home/.config/cotter/spaces/.new contains a file with an invalid path: ../out
        "#]],
    );
    assert_eq!(fs::read_dir(world.path(OWN)).unwrap().count(), 0);
}

/// Commits a folder with a file, with names that git itself would refuse.
fn tree_with(world: &World, folder: &str, file: &str) {
    let blob = git(world, &["hash-object", "-w", "manifest.json"]);
    let inner = object(world, &[("100644", file, &blob)]);
    let root = object(world, &[("40000", folder, &inner), ("100644", "manifest.json", &blob)]);
    let commit = git(world, &["commit-tree", "-m", "m", &root]);
    git(world, &["update-ref", "refs/heads/main", &commit]);
}

/// Writes a tree object byte by byte.
fn object(world: &World, rows: &[(&str, &str, &str)]) -> String {
    let mut bytes = vec![];
    for (mode, name, id) in rows {
        bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        bytes.extend((0..40).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()));
    }
    let path = world.write("tree", bytes);
    let path: &Path = &path;
    git(world, &["hash-object", "-t", "tree", "-w", "--literally", path.to_str().unwrap()])
}

#[test]
fn c14_spaces_update_reports_lost_gates_and_pinned_revisions() {
    let (world, address) = repository();
    let first = git(&world, &["rev-parse", "HEAD"]);
    let add = ["spaces", "add", &address, "--rev", &first];
    at_terminal(&world, &add, "y");
    put(&world, "repo", &[("hooks/no.sh", "#!/bin/sh\necho second >&2\nexit 1\n")]);
    commit(&world);
    world.check(
        &["spaces", "update"],
        expect![[r#"
        exit 0
        --- stdout
        space `ship` is fixed at [HASH]dd1af6de, by `--rev`: there is nothing newer
    "#]],
    );
    assert_eq!(run(&world), "refused: write: first (no, space:ship)\n");
    world.output(&["spaces", "remove", "ship"]);
    at_terminal(&world, &["spaces", "add", &address], "y");
    let hook = format!("{OWN}/ship/hooks/no.sh");
    world.write(&hook, "#!/bin/sh\necho mine >&2\nexit 1\n");
    put(&world, "repo", &[("hooks/no.sh", "#!/bin/sh\necho third >&2\nexit 1\n")]);
    commit(&world);
    world.check(&["spaces", "update"], expect![[r#"
        exit 1
        --- stderr
        error: space `ship` is unchanged
          caused by: [T]/home/.config/cotter/spaces/ship was changed after it was copied there

        hint: save your changes elsewhere; then `cotter spaces remove ship` and `cotter spaces add file://[T]/repo`
    "#]]);
    let text = fs::read_to_string(world.path(&hook)).unwrap();
    assert_eq!(text, "#!/bin/sh\necho mine >&2\nexit 1\n");
    // The edits also stay if there is nothing newer, and if the folder cannot be read.
    git(&world, &["reset", "--quiet", "--hard", "HEAD~1"]);
    world.check(&["spaces", "update", "ship"], expect![[r#"
        exit 1
        --- stderr
        error: space `ship` is unchanged
          caused by: [T]/home/.config/cotter/spaces/ship was changed after it was copied there

        hint: save your changes elsewhere; then `cotter spaces remove ship` and `cotter spaces add file://[T]/repo`
    "#]]);
    symlink("/etc", world.path(&format!("{OWN}/ship/out"))).unwrap();
    assert_eq!(world.output(&["spaces", "update", "ship"]).status.code(), Some(1));
    // A space that was deleted by hand is restored.
    fs::remove_dir_all(world.path(&format!("{OWN}/ship"))).unwrap();
    world.check(
        &["spaces", "update", "ship"],
        expect![[r#"
        exit 0
        --- stdout
        space `ship` 1 is up to date: 1 hook
        `cotter -p --space ship PROMPT` uses it
    "#]],
    );
}

#[test]
fn c14_short_git_address_error_suggests_the_long_form() {
    let world = world();
    world.check(
        &["spaces", "add", "git@host.example:team/space.git"],
        expect![[r#"
        exit 2
        --- stderr
        error: `git@host.example:team/space.git` is not a supported address

        hint: did you mean `ssh://git@host.example/team/space.git`?
    "#]],
    );
    world.check(
        &["spaces", "add", "ext::sh -c x@y:z"],
        expect![[r#"
        exit 2
        --- stderr
        error: `ext::sh -c x@y:z` is not a supported address

        hint: name a folder, or a repository by `https://`, `ssh://` or `file:///`
    "#]],
    );
}

#[test]
fn c14_s6_space_contents_can_be_read_before_the_answer() {
    let (world, address) = repository();
    let mut screen = Screen::new(&world, &["spaces", "add", &address]);
    screen.wait_for("[y]es, [n]o: ");
    screen.type_keys("s\n");
    crate::support::wait_until(
        || screen.text().matches("[y]es, [n]o: ").count() > 1,
        "the second question",
    );
    screen.type_keys("n\n");
    expect![[r#"
        exit 3
        from    file://[T]/repo at [HASH]dd1af6de
        source  [T]/home/.config/cotter/spaces/ship
        hash    [HASH][HASH]
        trust   none yet

        commands, pinned (all their code is in the files below) or open (they run other code too)
          pinned  hook no at tool.pre
                  runs ./hooks/no.sh

        files (3)
          exec         54 bytes  hooks/no.sh
                       31 bytes  hooks/no.yaml
                       46 bytes  manifest.json

        Trust it as it is, and let it run?
        [s]how all, [y]es, [n]o: s
        file hooks/no.sh (54 bytes, executable)
          | #!/bin/sh
          | echo '{"blocked": true, "reason": "first"}'
        file hooks/no.yaml (31 bytes)
          | id: no
          | phase: pre
          | tools: write
        file manifest.json (46 bytes)
          | {"id": "ship", "name": "Ship", "version": "1"}

        Trust it as it is, and let it run?
        [s]how all, [y]es, [n]o: n
        error: the answer was no: nothing was added
    "#]]
    .assert_eq(&screen.end(&world));
    assert!(!world.path(&format!("{OWN}/ship")).exists());
}
