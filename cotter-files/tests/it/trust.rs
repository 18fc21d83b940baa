//! Tests of trust in folders: hashes, stored copies, the text for a person, and states that grant nothing.

use std::{
    env,
    ffi::OsStr,
    fs::{self, Permissions},
    io::{self, BufRead, BufReader, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        net::UnixListener,
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use cotter_files::trust::{
    Declared, TrustError,
    declared::{DeclaredCommand, Invocation, Pinning},
    snapshot::{Snapshot, SnapshotItem},
    store::{Grants, TrustState, TrustStore},
    view::view,
};
use cotter_test::Dice;
use expect_test::{Expect, expect};
use tempfile::TempDir;

/// A project with a folder that declares hooks, and a store beside it.
struct World(TempDir);

impl World {
    fn new() -> Self {
        let world = World(tempfile::tempdir().unwrap());
        world.write("p/.cotter/settings.json", "{}\n");
        world.program("p/.cotter/hooks/check.sh", "#!/bin/sh\nexit 0\n");
        world
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.write(name, text);
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    fn source(&self) -> PathBuf {
        self.path("p/.cotter")
    }

    fn take(&self) -> Snapshot {
        Snapshot::take(&self.source()).unwrap()
    }

    fn store(&self) -> TrustStore {
        TrustStore::open(self.path("store"))
    }

    fn trust(&self) {
        self.store().trust(&self.take(), Grants::default()).unwrap();
    }

    /// The trust state of the folder, in a few words.
    fn trust_state(&self) -> String {
        self.plain(&show_state(&self.store().state(&self.take())))
    }

    fn plain(&self, text: &str) -> String {
        text.replace(self.path("").to_str().unwrap().trim_end_matches('/'), "[T]")
    }
}

fn show_state(standing: &TrustState) -> String {
    match standing {
        TrustState::Unknown { reason: None } => "unknown".into(),
        TrustState::Unknown { reason: Some(reason) } => format!("unknown: {reason}"),
        TrustState::Changed { difference, .. } => format!("changed: {}", difference.changes.len()),
        TrustState::Trusted { grants, .. } if grants.rewrite => "trusted, rewrites".into(),
        TrustState::Trusted { .. } => "trusted".into(),
        _ => "something new".into(),
    }
}

fn in_full(error: &TrustError) -> String {
    let mut out = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        out += &format!(": {error}");
        cause = error.source();
    }
    error.hint().into_iter().for_each(|hint| out += &format!(" ({hint})"));
    out
}

#[test]
fn s6_snapshot_contains_files_of_any_name() {
    let world = World::new();
    world.write("p/.cotter/.hidden/deep/.x", "x");
    world.write(Path::new("p/.cotter").join(OsStr::from_bytes(b"a\xff\nb")), "odd");
    world.write("p/.cotter/README", "");
    fs::create_dir_all(world.path("p/.cotter/empty/folders")).unwrap();
    symlink("hooks/check.sh", world.path("p/.cotter/link")).unwrap();
    symlink("nowhere", world.path("p/.cotter/dangling")).unwrap();
    let snapshot = world.take();
    let items: String =
        snapshot.items().map(|(path, item)| format!("{path:?} {item:?}\n")).collect();
    expect![[r#"
        ".hidden/deep/.x" File(1 bytes)
        "README" File(0 bytes)
        "a\xFF\nb" File(3 bytes)
        "dangling" Link("nowhere")
        "hooks/check.sh" File(executable, 17 bytes)
        "link" Link("hooks/check.sh")
        "settings.json" File(3 bytes)
    "#]]
    .assert_eq(&items);
    assert_eq!(snapshot.file(Path::new("link")), Some((true, &b"#!/bin/sh\nexit 0\n"[..])));
    assert_eq!(snapshot.file(Path::new("dangling")), None);
}

#[test]
fn s6_snapshot_hash_does_not_depend_on_path_or_time() {
    let (one, other) = (World::new(), World(tempfile::tempdir().unwrap()));
    other.program("elsewhere/.cotter/hooks/check.sh", "#!/bin/sh\nexit 0\n");
    let last = other.write("elsewhere/.cotter/settings.json", "{}\n");
    fs::set_permissions(&last, Permissions::from_mode(0o600)).unwrap();
    fs::File::options()
        .write(true)
        .open(&last)
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH)
        .unwrap();
    let other = Snapshot::take(&other.path("elsewhere/.cotter")).unwrap();
    assert_eq!(one.take().hash(), other.hash());
    // Users have this hash in their scripts, so it must not change with a version.
    expect!["09cda07f4aa6d326fb9989ac7e5f8c360750df31fe358d1554639918addfc96e"]
        .assert_eq(&one.take().hash().to_string());
}

/// S6: everything that a hook could load is part of the trusted contents, even a module beside it.
#[test]
fn s6_any_change_in_the_folder_changes_the_hash_and_the_trust() {
    let check = |what: &str, change: &dyn Fn(&World)| {
        let world = World::new();
        world.trust();
        let before = world.take().hash();
        assert_eq!(world.trust_state(), "trusted", "{what}");
        change(&world);
        assert_ne!(world.take().hash(), before, "{what}");
        assert_eq!(world.trust_state(), "changed: 1", "{what}");
    };
    check("a module beside it", &|world| _ = world.write("p/.cotter/hooks/json.py", "evil"));
    check("an empty file", &|world| _ = world.write("p/.cotter/x", ""));
    check("a hidden file", &|world| _ = world.write("p/.cotter/.a/.b", ""));
    check("a byte", &|world| _ = world.write("p/.cotter/settings.json", "{} "));
    check("a mode", &|world| {
        let path = world.path("p/.cotter/settings.json");
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    });
    check("a link", &|world| symlink("settings.json", world.path("p/.cotter/l")).unwrap());
    check("a file that became a link", &|world| {
        let path = world.path("p/.cotter/settings.json");
        fs::remove_file(&path).unwrap();
        symlink("hooks/check.sh", path).unwrap();
    });
    check("a removal", &|world| fs::remove_file(world.path("p/.cotter/settings.json")).unwrap());
}

#[test]
fn s6_folder_that_cannot_be_read_whole_is_refused_with_the_path() {
    let mut out = String::new();
    let mut check = |make: &dyn Fn(&World)| {
        let world = World::new();
        make(&world);
        let error = Snapshot::take(&world.source()).unwrap_err();
        out += &format!("{}\n", world.plain(&in_full(&error)));
    };
    let link = |target: &'static str| {
        move |world: &World| symlink(target, world.path("p/.cotter/hooks/link")).unwrap()
    };
    check(&link("/etc/passwd"));
    check(&link("../../.."));
    check(&link("../../.cotter/settings.json"));
    check(&|world| {
        symlink("..", world.path("p/.cotter/hooks/up")).unwrap();
        symlink("up/../x\u{1b}[31m", world.path("p/.cotter/hooks/zz")).unwrap();
    });
    check(&|world| {
        let pipe = world.path("p/.cotter/pipe");
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    });
    check(&|world| drop(UnixListener::bind(world.path("p/.cotter/socket")).unwrap()));
    check(&|world| {
        (0..5000).for_each(|n| _ = fs::write(world.path(format!("p/.cotter/hooks/{n}")), ""));
    });
    check(&|world| {
        let path = world.write("p/.cotter/big", "");
        fs::File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
    });
    check(&|world| _ = world.write(format!("p/.cotter/{}x", "d/".repeat(40)), ""));
    check(&|world| {
        fs::rename(world.source(), world.path("real")).unwrap();
        symlink(world.path("real"), world.source()).unwrap();
    });
    check(&|world| fs::remove_dir_all(world.source()).unwrap());
    check(&|world| fs::remove_dir_all(world.path("p")).unwrap());
    expect![[r#"
        [T]/p/.cotter/hooks/link is a link to a path outside the folder, /etc/passwd (move the link's target into the folder: everything that runs must be in it)
        [T]/p/.cotter/hooks/link is a link to a path outside the folder, ../../.. (move the link's target into the folder: everything that runs must be in it)
        [T]/p/.cotter/hooks/link is a link to a path outside the folder, ../../.cotter/settings.json (move the link's target into the folder: everything that runs must be in it)
        [T]/p/.cotter/hooks/zz is a link to a path outside the folder, up/../x\u{1b}[31m (move the link's target into the folder: everything that runs must be in it)
        [T]/p/.cotter/pipe is a pipe, not a file
        [T]/p/.cotter/socket is a socket, not a file
        [T]/p/.cotter contains more than 4096 files and folders (trust covers everything in the folder: move worktrees and caches elsewhere)
        [T]/p/.cotter contains more than 64 MB (big)
        [T]/p/.cotter/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d is more than 32 folders deep
        [T]/p/.cotter is a link (name the folder or file that the link leads to)
        cannot read [T]/p/.cotter: No such file or directory (os error 2)
        cannot find [T]/p: No such file or directory (os error 2)
    "#]].assert_eq(&out);
}

/// Another thread repeatedly replaces a file by a link to a secret, and a folder by a link to another
/// folder. No snapshot ever contains bytes from outside.
#[test]
fn s6_snapshot_never_reads_files_swapped_for_links() {
    let world = World::new();
    let secret = world.write("secret", "the secret");
    world.write("outside/check.sh", "the secret");
    // Many files make a long time between listing the names and opening the last file.
    (0..400).for_each(|n| _ = world.write(format!("p/.cotter/{n}"), ""));
    let (file, hooks) = (world.path("p/.cotter/settings.json"), world.path("p/.cotter/hooks"));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let [link, kept, folder] = ["l", "f", "h"].map(|name| world.path(name));
            fs::write(&kept, "{}\n").unwrap();
            while !done.load(Ordering::Relaxed) {
                symlink(&secret, &link).unwrap();
                fs::rename(&link, &file).unwrap();
                fs::copy(&kept, &link).unwrap();
                fs::rename(&link, &file).unwrap();
                fs::rename(&hooks, &folder).unwrap();
                symlink(world.path("outside"), &hooks).unwrap();
                fs::remove_file(&hooks).unwrap();
                fs::rename(&folder, &hooks).unwrap();
            }
        });
        let holds = |item: &SnapshotItem| matches!(item, SnapshotItem::File { bytes, .. } if bytes.starts_with(b"the secret"));
        let (mut taken, mut refused, mut leaked) = (0, 0, vec![]);
        while taken < 50 || refused < 50 {
            match Snapshot::take(&world.source()) {
                Err(_) => refused += 1,
                Ok(snapshot) => {
                    taken += 1;
                    leaked.extend(Some(snapshot).filter(|it| it.items().any(|(_, it)| holds(it))));
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(leaked, []);
    });
}

#[test]
fn s6_trust_is_granted_listed_lost_and_withdrawn() {
    let world = World::new();
    assert_eq!(world.trust_state(), "unknown");
    world.trust();
    assert_eq!(world.trust_state(), "trusted");
    world.write("p/.cotter/settings.json", "{\"hooks\": {}}\n");
    assert_eq!(world.trust_state(), "changed: 1");
    world.write("p/.cotter/settings.json", "{}\n");
    assert_eq!(world.trust_state(), "trusted");
    let rewrites = Grants::default().with_rewrite(true);
    world.store().trust(&world.take(), rewrites).unwrap();
    assert_eq!(world.trust_state(), "trusted, rewrites");
    let listed = world.store().list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].source, listed[0].grants), (&world.source(), rewrites));
    assert!(world.store().untrust(&world.source()).unwrap());
    assert!(!world.store().untrust(&world.source()).unwrap());
    assert_eq!(world.trust_state(), "unknown");
    // Equal contents in another folder are not trusted there.
    world.trust();
    fs::rename(world.path("p"), world.path("q")).unwrap();
    let elsewhere = world.store().read_state(&world.path("q/.cotter")).unwrap();
    assert_eq!(show_state(&elsewhere), "unknown");
    assert!(world.store().untrust(&world.path("p/.cotter")).unwrap(), "also when it is gone");
}

#[test]
fn s28_trusted_copies_are_private_and_their_files_read_only() {
    fn list(folder: &Path, at: &str, out: &mut String) {
        let mut all: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect();
        all.sort_by_key(fs::DirEntry::file_name);
        for entry in all {
            let about = entry.path().symlink_metadata().unwrap();
            let name = format!("{at}{}", entry.file_name().to_str().unwrap());
            *out += &format!("{:o} {name}\n", about.mode() & 0o7777);
            if about.is_dir() {
                list(&entry.path(), &format!("{name}/"), out);
            }
        }
    }
    let world = World::new();
    symlink("hooks/check.sh", world.path("p/.cotter/link")).unwrap();
    world.write("p/.mcp.json", "{}");
    world.trust();
    let file = Snapshot::take(&world.path("p/.mcp.json")).unwrap();
    let alone = world.store().trust(&file, Grants::default()).unwrap();
    let TrustState::Trusted { copy, .. } = alone else { panic!("{alone:?}") };
    assert_eq!(fs::read(copy.join(".mcp.json")).unwrap(), b"{}");
    let mut out = String::new();
    list(&world.path("store"), "", &mut out);
    for (hash, name) in [(world.take().hash(), "[FOLDER]"), (file.hash(), "[FILE]")] {
        out = out.replace(&hash.to_string(), name);
    }
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_by_key(|line| line.split(' ').nth(1));
    expect![[r#"
        700 copies
        700 copies/[FILE]
        400 copies/[FILE]/.mcp.json
        700 copies/[FOLDER]
        700 copies/[FOLDER]/hooks
        500 copies/[FOLDER]/hooks/check.sh
        777 copies/[FOLDER]/link
        400 copies/[FOLDER]/settings.json
        600 trust.json
        600 trust.lock
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

/// Removes a folder with `rm -rf`, as its owner. Root gives it to an ordinary user first.
fn remove_as_owner(folder: &Path) -> String {
    fn give(path: &Path, owner: u32) {
        chown(path, Some(owner), Some(owner)).unwrap();
        if path.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path(), owner));
        }
    }
    const ORDINARY: u32 = 1000;
    let mut rm = Command::new("rm");
    rm.arg("-rf").arg(folder).current_dir("/");
    if folder.metadata().unwrap().uid() == 0 {
        give(folder.parent().unwrap(), ORDINARY);
        rm.uid(ORDINARY).gid(ORDINARY);
    }
    String::from_utf8(rm.output().unwrap().stderr).unwrap()
}

#[test]
fn s28_owner_can_remove_the_data_folder_with_trusted_copies() {
    let world = World::new();
    world.trust();
    assert_eq!(remove_as_owner(&world.path("store")), "");
    assert!(!world.path("store").exists());
}

/// Folders of copies were read-only once.
#[test]
fn s28_older_copies_are_used_and_become_removable() {
    let world = World::new();
    world.trust();
    let copy = world.path("store/copies").join(world.take().hash().to_string());
    for folder in [&copy.join("hooks"), &copy] {
        fs::set_permissions(folder, Permissions::from_mode(0o500)).unwrap();
    }
    assert_eq!(world.trust_state(), "trusted");
    let other = world.write("other/.mcp.json", "{}");
    world.store().trust(&Snapshot::take(&other).unwrap(), Grants::default()).unwrap();
    assert_eq!(world.trust_state(), "trusted");
    assert_eq!(remove_as_owner(&world.path("store")), "");
    assert!(!world.path("store").exists());
}

#[test]
fn s6_modified_trusted_copy_is_never_used() {
    let check = |damage: &dyn Fn(&Path), expected: Expect| {
        let world = World::new();
        world.trust();
        let TrustState::Trusted { copy, .. } = world.store().state(&world.take()) else {
            panic!("it is trusted");
        };
        damage(&copy);
        let hash = world.take().hash().to_string();
        let plain = |text: String| text.replace(&hash, "[HASH]");
        let same = plain(world.trust_state());
        world.write("p/.cotter/new", "");
        let changed = plain(world.trust_state());
        fs::remove_file(world.path("p/.cotter/new")).unwrap();
        expected.assert_eq(&format!("{same}\n{changed}"));
        // Trusting the source again makes the copy again.
        world.trust();
        assert_eq!(world.trust_state(), "trusted");
        assert_eq!(fs::read(copy.join("settings.json")).unwrap(), b"{}\n");
    };
    let write = |path: PathBuf, text: &str| {
        let _ = fs::remove_file(&path);
        fs::write(path, text).unwrap();
    };
    check(
        &|copy| write(copy.join("settings.json"), "{} "),
        expect![[r#"
            trusted
            changed: 1"#]],
    );
    check(
        &|copy| write(copy.join("hooks/json.py"), ""),
        expect![[r#"
            trusted
            changed: 1"#]],
    );
    check(
        &|copy| {
            let path = copy.join("settings.json");
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        },
        expect![[r#"
            trusted
            changed: 1"#]],
    );
    check(
        &|copy| {
            fs::remove_dir_all(copy.join("hooks")).unwrap();
            symlink("/", copy.join("hooks")).unwrap();
        },
        expect![[r#"
            trusted
            changed: 1"#]],
    );
    check(
        &|copy| fs::remove_dir_all(copy).unwrap(),
        expect![[r#"
            trusted
            changed: 1"#]],
    );
}

#[test]
fn s6_damaged_trust_records_grant_nothing_and_are_not_overwritten() {
    let mut out = String::new();
    let mut check = |damage: &dyn Fn(&Path, &str)| {
        let world = World::new();
        world.trust();
        let file = world.path("store/trust.json");
        damage(&file, &fs::read_to_string(&file).unwrap());
        let broken = fs::read(&file).unwrap();
        out += &format!("{}\n", world.trust_state());
        let refused = world.store().trust(&world.take(), Grants::default()).unwrap_err();
        out += &format!("  {}\n", world.plain(&in_full(&refused)));
        assert!(world.store().list().is_err());
        assert!(world.store().untrust(&world.source()).is_err());
        assert_eq!(fs::read(&file).unwrap(), broken, "it was written over");
    };
    check(&|file, text| fs::write(file, &text[..text.find("\"hash\"").unwrap() + 16]).unwrap());
    check(&|file, _| fs::write(file, "").unwrap());
    check(&|file, text| fs::write(file, text.replace("\"v\": 1", "\"v\": 2")).unwrap());
    check(&|file, text| fs::write(file, text.replace("\"v\": 1", "\"v\": \"1\"")).unwrap());
    check(&|file, text| fs::write(file, text.replace("\"hash\"", "\"hsah\"")).unwrap());
    check(&|file, text| {
        let record = &text[text.find("    {").unwrap()..text.rfind("\n  ]").unwrap()];
        fs::write(file, text.replace(record, &format!("{record},\n{record}"))).unwrap();
    });
    check(&|file, _| fs::set_permissions(file, Permissions::from_mode(0o620)).unwrap());
    check(&|file, _| {
        fs::set_permissions(file.parent().unwrap(), Permissions::from_mode(0o777)).unwrap();
    });
    check(&|file, text| {
        let beside = file.with_file_name("beside");
        fs::write(&beside, text).unwrap();
        fs::remove_file(file).unwrap();
        symlink(beside, file).unwrap();
    });
    expect![[r#"
        unknown: [T]/store/trust.json is broken (EOF while parsing a string at line 6 column 22), so its records are ignored
          [T]/store/trust.json is broken (EOF while parsing a string at line 6 column 22), so its records are ignored (move the file away and trust your folders again)
        unknown: [T]/store/trust.json is broken (EOF while parsing a value at line 1 column 0), so its records are ignored
          [T]/store/trust.json is broken (EOF while parsing a value at line 1 column 0), so its records are ignored (move the file away and trust your folders again)
        unknown: [T]/store/trust.json was written by a newer version (format 2, this version reads up to 1), so its records are ignored
          [T]/store/trust.json was written by a newer version (format 2, this version reads up to 1), so its records are ignored (move the file away and trust your folders again)
        unknown: [T]/store/trust.json is broken (no format version), so its records are ignored
          [T]/store/trust.json is broken (no format version), so its records are ignored (move the file away and trust your folders again)
        unknown: [T]/store/trust.json is broken (invalid record), so its records are ignored
          [T]/store/trust.json is broken (invalid record), so its records are ignored (move the file away and trust your folders again)
        unknown: [T]/store/trust.json is broken (duplicate source), so its records are ignored
          [T]/store/trust.json is broken (duplicate source), so its records are ignored (move the file away and trust your folders again)
        unknown: [T]/store/trust.json can be written by other users: its records are ignored
          [T]/store/trust.json can be written by other users: its records are ignored
        unknown: [T]/store can be written by other users: its records are ignored
          [T]/store can be written by other users: its records are ignored
        unknown: cannot read [T]/store/trust.json: the path contains a link, and links are not followed
          cannot read [T]/store/trust.json: the path contains a link, and links are not followed
    "#]].assert_eq(&out);
}

#[test]
fn s6_trust_records_of_another_owner_grant_nothing() {
    let world = World::new();
    world.trust();
    let file = world.path("store/trust.json");
    // Only root may change the owner of a file.
    if std::os::unix::fs::chown(&file, Some(1), Some(1)).is_ok() {
        expect!["unknown: [T]/store/trust.json belongs to another user: its records are ignored"]
            .assert_eq(&world.trust_state());
    }
}

#[test]
fn s6_sources_with_non_utf8_names_are_distinguished() {
    let world = World::new();
    let odd: Vec<_> = [&b"\xff"[..], b"\xfe"]
        .map(|name| Path::new("odd").join(OsStr::from_bytes(name)))
        .iter()
        .map(|folder| world.write(folder.join(".cotter/x"), "").parent().unwrap().to_owned())
        .collect();
    let store = world.store();
    store.trust(&Snapshot::take(&odd[0]).unwrap(), Grants::default()).unwrap();
    assert_eq!(show_state(&store.read_state(&odd[0]).unwrap()), "trusted");
    assert_eq!(show_state(&store.read_state(&odd[1]).unwrap()), "unknown");
    assert!(store.untrust(&odd[0]).unwrap());
}

#[test]
fn s6_concurrent_trust_writers_lose_no_record() {
    let world = World::new();
    let sources: Vec<_> =
        (0..24).map(|n| world.write(format!("all/{n}/.cotter/x"), format!("{}", n % 3))).collect();
    thread::scope(|scope| {
        for path in &sources {
            let store = world.store();
            scope.spawn(move || {
                let source = path.parent().unwrap();
                let snapshot = Snapshot::take(source).unwrap();
                store.trust(&snapshot, Grants::default()).unwrap();
                assert!(store.untrust(source).unwrap());
                store.trust(&snapshot, Grants::default()).unwrap();
                assert_eq!(show_state(&store.read_state(source).unwrap()), "trusted");
            });
        }
    });
    assert_eq!(world.store().list().unwrap().len(), sources.len());
}

/// An untrusted copy is kept for the sessions that run from it, but not forever.
#[test]
fn s6_unused_untrusted_copy_is_deleted_after_a_month() {
    let world = World::new();
    let mut copies = vec![];
    for turn in 0..3 {
        version(&world.path(""), turn);
        world.trust();
        copies.push(world.path("store/copies").join(world.take().hash().to_string()));
    }
    let are_there = || copies.iter().map(|copy| copy.exists()).collect::<Vec<_>>();
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(31 * 24 * 60 * 60);
    for copy in [&copies[0], &copies[2]] {
        fs::File::open(copy).unwrap().set_modified(long_ago).unwrap();
    }
    assert_eq!(are_there(), [true, true, true]);
    let other = world.write("other/.mcp.json", "{}");
    world.store().trust(&Snapshot::take(&other).unwrap(), Grants::default()).unwrap();
    assert_eq!(are_there(), [false, true, true], "the last is trusted, the second is young");
    assert_eq!(world.trust_state(), "trusted");
}

const WORKER: &str = "COTTER_TRUST_WORKER";

/// A killed process leaves either the state before its change or the state after it, and the next process
/// continues from there.
#[test]
fn s6_killed_trust_writer_leaves_a_readable_store() {
    let world = World::new();
    let hashes: Vec<_> = (0..2)
        .map(|turn| {
            version(&world.path(""), turn);
            world.take().hash()
        })
        .collect();
    let mut dice = Dice::new(7);
    for round in 0..24 {
        let mut child = Command::new(env::current_exe().expect("a test has a binary"))
            .args(["--exact", "trust::trust_worker_of_the_kill_test", "--nocapture"])
            .env(WORKER, world.path(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test binary starts");
        let mut out = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
        assert!(out.any(|line| line.is_ok_and(|line| line.contains("begun"))), "it works");
        thread::sleep(Duration::from_micros(dice.below(8000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let records = world.store().list().unwrap_or_else(|error| {
            panic!("round {round}: {}", in_full(&error));
        });
        for (turn, hash) in hashes.iter().enumerate() {
            version(&world.path(""), turn);
            assert_eq!(world.take().hash(), *hash);
            let known = records.iter().any(|record| record.hash == *hash);
            match show_state(&world.store().state(&world.take())).as_str() {
                "trusted" => assert!(known, "round {round}"),
                "changed: 1" => assert!(!known && !records.is_empty(), "round {round}"),
                "unknown" => assert!(records.is_empty(), "round {round}"),
                other => panic!("round {round}: {other}"),
            }
        }
    }
    world.trust();
    let left = fs::read_dir(world.path("store/copies")).unwrap().map(|entry| entry.unwrap());
    let left: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.starts_with('.')), "{left:?}");
}

fn version(root: &Path, turn: usize) {
    fs::write(root.join("p/.cotter/settings.json"), format!("{turn}\n")).unwrap();
}

/// The worker process of the test above; without its variable it trusts once.
#[test]
fn trust_worker_of_the_kill_test() {
    let Some(root) = env::var_os(WORKER).map(PathBuf::from) else {
        let world = World::new();
        world.trust();
        return assert_eq!(world.trust_state(), "trusted");
    };
    let store = TrustStore::open(root.join("store"));
    let source = root.join("p/.cotter");
    let snapshots = [0, 1].map(|turn| {
        version(&root, turn);
        Snapshot::take(&source).unwrap()
    });
    for turn in 0.. {
        if turn == 1 {
            writeln!(io::stdout(), "begun").unwrap();
        }
        // The copy is made again each time, so that a kill may hit a partial copy.
        let copy = root.join("store/copies").join(snapshots[turn % 2].hash().to_string());
        for folder in [&copy, &copy.join("hooks")] {
            let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
        }
        let _ = fs::remove_dir_all(copy);
        store.trust(&snapshots[turn % 2], Grants::default()).unwrap();
        if turn % 5 == 4 {
            store.untrust(&source).unwrap();
        }
    }
}

#[test]
fn s8_worktree_listed_by_git_with_equal_contents_shares_trust() {
    let world = World::new();
    let own = world.path("p/.git/worktrees/tree");
    world.write("tree/.cotter/settings.json", "{}\n");
    world.program("tree/.cotter/hooks/check.sh", "#!/bin/sh\nexit 0\n");
    world.write("tree/.git", format!("gitdir: {}\n", own.display()));
    world.write("p/.git/worktrees/tree/commondir", "../..\n");
    let store = world.store();
    let stands = || show_state(&store.read_state(&world.path("tree/.cotter")).unwrap());
    world.trust();
    assert_eq!(stands(), "unknown", "a file that anybody can write is no list of git's");
    world.write("p/.git/worktrees/tree/gitdir", format!("{}\n", world.path("tree/.git").display()));
    assert_eq!(stands(), "trusted");
    world.write("tree/.cotter/hooks/json.py", "");
    assert_eq!(stands(), "unknown", "what is another is not shared");
    fs::remove_file(world.path("tree/.cotter/hooks/json.py")).unwrap();
    assert_eq!(stands(), "trusted");
    // Trust that is revoked in one checkout is revoked in all.
    assert!(store.untrust(&world.path("tree/.cotter")).unwrap());
    assert_eq!(stands(), "unknown");
    assert_eq!(world.trust_state(), "unknown");
    // Trust is also shared from the worktree to the project.
    store.trust(&Snapshot::take(&world.path("tree/.cotter")).unwrap(), Grants::default()).unwrap();
    assert_eq!(world.trust_state(), "trusted");
    // A folder with the same name elsewhere in the repository is another source.
    world.write("p/sub/.cotter/settings.json", "{}\n");
    world.program("p/sub/.cotter/hooks/check.sh", "#!/bin/sh\nexit 0\n");
    assert_eq!(show_state(&store.read_state(&world.path("p/sub/.cotter")).unwrap()), "unknown");
}

#[test]
fn s8_source_admitted_by_hash_is_not_recorded() {
    let world = World::new();
    let admitted = world.store().admit(&world.take()).unwrap();
    assert_eq!(show_state(&admitted), "trusted");
    assert_eq!(world.trust_state(), "unknown");
    assert_eq!(world.store().list().unwrap(), []);
}

/// A command is pinned only if all its code is in the snapshot; a doubtful command is open.
#[test]
fn s6_command_is_pinned_only_if_all_its_code_is_in_the_snapshot() {
    let world = World::new();
    world.write("p/.cotter/hooks/plain.py", "");
    world.program("p/.cotter/env.py", "#!/usr/bin/env python3\n");
    world.program("p/.cotter/strict.sh", "#!/bin/bash -eu\n");
    world.program("p/.cotter/made", "#!/usr/bin/make -f\n");
    world.program("p/.cotter/split", "#!/usr/bin/env -S npx tsx\n");
    world.program("p/.cotter/inner", "#!./hooks/check.sh\n");
    world.program("p/.cotter/bare", "exit 0\n");
    world.program("p/.cotter/elf", "\x7fELF...");
    symlink("hooks/check.sh", world.path("p/.cotter/link")).unwrap();
    let snapshot = world.take();
    let mut out = String::new();
    let mut judge = |shown: &str, command: Invocation| {
        let pinning = DeclaredCommand::new("", command).pinning(&snapshot);
        out += &match pinning {
            Pinning::Pinned => format!("pinned  {shown}\n"),
            Pinning::Open(why) => format!("open    {shown}: {why}\n"),
        };
    };
    let lines = "./hooks/check.sh|hooks/check.sh --fast|./link|./env.py a b|./strict.sh|./elf|\
        ./made|./split|./inner|./bare|./none.sh|../p/x.sh|hooks/plain.py|check.sh|\
        /usr/bin/python3 hooks/plain.py|python3 -I -B hooks/plain.py prod|python3 hooks/plain.py ../x|\
        python3 hooks/plain.py /etc/passwd|python3 hooks/plain.py --config=../x|\
        python3 hooks/plain.py --config hooks/check.sh|python3 -m json.tool|python3 -c pass|python3|python3 -|\
        python3 hooks/../../x.py|/opt/python3 hooks/plain.py|bash -eu hooks/check.sh|bash -c true|\
        bash -l hooks/check.sh|sh -s|node --require x hooks/plain.py|node hooks/plain.py|perl -e 1|\
        npm run lint|make check|npx prettier|pip install x|cargo run|go run .|git status|deno run x|\
        true|jq -e .tool|cat hooks/plain.py|cat ../secret|curl x|env python3 hooks/plain.py|\
        sudo ./hooks/check.sh|exec ./hooks/check.sh|. hooks/check.sh|eval x|\
        ./hooks/check.sh > log|./hooks/check.sh; ls|a & b|$HOME/x.sh|~/x.sh|./hooks/*.sh|FOO=1 ./hooks/check.sh|\
        python3 'hooks/plain.py'|./hooks/check.sh\nrm x||  ";
    for line in lines.split('|') {
        judge(&format!("{line:?}"), Invocation::Shell(line.into()));
    }
    for words in [&["./hooks/check.sh", "$HOME", "a; b"][..], &["python3", "-c", "x"], &[], &[""]] {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        judge(&format!("{words:?}"), Invocation::Words(words));
    }
    let doubted =
        DeclaredCommand::new("", Invocation::Shell("true".into())).with_doubt("it sets `PATH`");
    assert_eq!(doubted.pinning(&snapshot), Pinning::Open("it sets `PATH`".into()));
    expect![[r#"
        pinned  "./hooks/check.sh"
        pinned  "hooks/check.sh --fast"
        pinned  "./link"
        pinned  "./env.py a b"
        pinned  "./strict.sh"
        pinned  "./elf"
        open    "./made": `./made` is run by `/usr/bin/make -f`
        open    "./split": `./split` is run by `/usr/bin/env -S npx tsx`
        open    "./inner": `./inner` is run by `./hooks/check.sh`
        open    "./bare": `./bare` has no `#!` line
        open    "./none.sh": `./none.sh` is not a file of the folder
        open    "../p/x.sh": `../p/x.sh` is not a file of the folder
        open    "hooks/plain.py": `hooks/plain.py` is not executable
        open    "check.sh": `check.sh` may run other code
        pinned  "/usr/bin/python3 hooks/plain.py"
        pinned  "python3 -I -B hooks/plain.py prod"
        open    "python3 hooks/plain.py ../x": `../x` is not a file of the folder
        open    "python3 hooks/plain.py /etc/passwd": `/etc/passwd` is not a file of the folder
        open    "python3 hooks/plain.py --config=../x": it sets a variable or an option (`=`)
        pinned  "python3 hooks/plain.py --config hooks/check.sh"
        open    "python3 -m json.tool": `python3 -m` runs code that is not a file
        open    "python3 -c pass": `python3 -c` runs code that is not a file
        open    "python3": `python3` reads its code from standard input
        open    "python3 -": `python3 -` runs code that is not a file
        open    "python3 hooks/../../x.py": `hooks/../../x.py` is not a file of the folder
        open    "/opt/python3 hooks/plain.py": `/opt/python3` is outside the trusted folder
        pinned  "bash -eu hooks/check.sh"
        open    "bash -c true": `bash -c` runs code that is not a file
        open    "bash -l hooks/check.sh": `bash -l` runs code that is not a file
        open    "sh -s": `sh -s` runs code that is not a file
        open    "node --require x hooks/plain.py": `node --require` runs code that is not a file
        pinned  "node hooks/plain.py"
        open    "perl -e 1": `perl -e` runs code that is not a file
        open    "npm run lint": `npm` runs scripts of `package.json` and installed packages
        open    "make check": `make` runs the commands of a makefile
        open    "npx prettier": `npx` runs a package that it may fetch first
        open    "pip install x": `pip` may fetch packages and run them
        open    "cargo run": `cargo` builds and runs code of the project
        open    "go run .": `go` builds and runs code of the project
        open    "git status": `git` runs commands of a repository's configuration
        open    "deno run x": `deno` may fetch modules and run them
        pinned  "true"
        pinned  "jq -e .tool"
        pinned  "cat hooks/plain.py"
        open    "cat ../secret": `../secret` is not a file of the folder
        open    "curl x": `curl` may run other code
        open    "env python3 hooks/plain.py": `env` may run other code
        open    "sudo ./hooks/check.sh": `sudo` may run other code
        open    "exec ./hooks/check.sh": `exec` may run other code
        open    ". hooks/check.sh": `.` may run other code
        open    "eval x": `eval` may run other code
        open    "./hooks/check.sh > log": it has shell syntax (`>`)
        open    "./hooks/check.sh; ls": it has shell syntax (`;`)
        open    "a & b": it has shell syntax (`&`)
        open    "$HOME/x.sh": it has shell syntax (`$`)
        open    "~/x.sh": it has shell syntax (`~`)
        open    "./hooks/*.sh": it has shell syntax (`*`)
        open    "FOO=1 ./hooks/check.sh": it sets a variable or an option (`=`)
        open    "python3 'hooks/plain.py'": it has shell syntax (`'`)
        open    "./hooks/check.sh\nrm x": it has shell syntax (`\n`)
        open    "": the command is empty
        open    "  ": the command is empty
        pinned  ["./hooks/check.sh", "$HOME", "a; b"]
        open    ["python3", "-c", "x"]: `python3 -c` runs code that is not a file
        open    []: the command is empty
        open    [""]: `` may run other code
    "#]]
    .assert_eq(&out);
}

#[test]
fn s29_trust_view_shows_all_files_and_escapes_hidden_characters() {
    let world = World::new();
    world.write("p/.cotter/notes.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    world.write("p/.cotter/old", "gone soon\n");
    world.write("p/.cotter/bin", b"\x00\x01");
    let declared = [
        DeclaredCommand::new(
            "hook no-prod at tool.pre",
            Invocation::Shell("./hooks/check.sh".into()),
        ),
        DeclaredCommand::new(
            "MCP server \u{202e}evil",
            Invocation::Words(["npx", "-y", "a b", "\u{1b}[2J"].map(String::from).into()),
        ),
    ];
    let show = |world: &World, declared: &[DeclaredCommand]| {
        let snapshot = world.take();
        let declared = Declared { commands: declared.to_vec(), refused: vec![] };
        let shown = view(&snapshot, &declared, &world.store().state(&snapshot));
        world.plain(&shown)
    };
    expect![[r#"
        source  [T]/p/.cotter
        hash    efad696294f0b750fcc1d24aa23821e3ac4308285f4e2d5bcce316b6b7b76b64
        trust   none yet

        commands, pinned (all their code is in the files below) or open (they run other code too)
          pinned  hook no-prod at tool.pre
                  runs ./hooks/check.sh
          open    MCP server \u{202e}evil
                  runs npx -y "a b" "\u{1b}[2J"
                  open: `npx` runs a package that it may fetch first

        files (5)
                        2 bytes  bin
          exec         17 bytes  hooks/check.sh
                       40 bytes  notes.txt
                       10 bytes  old
                        3 bytes  settings.json
    "#]]
    .assert_eq(&show(&world, &declared));
    world.trust();
    world.write("p/.cotter/notes.txt", "one\ntwo\nthree\nfour\nFIVE\u{200b}\nsix\nseven\neight");
    fs::remove_file(world.path("p/.cotter/old")).unwrap();
    world.write("p/.cotter/bin", b"\x00\x02");
    fs::set_permissions(world.path("p/.cotter/settings.json"), Permissions::from_mode(0o755))
        .unwrap();
    world.program("p/.cotter/a  9 bytes\u{1b}[A", &format!("#!/bin/sh\n{}\r\n", "x".repeat(500)));
    symlink("bin", world.path("p/.cotter/link")).unwrap();
    expect![[r#"
        source  [T]/p/.cotter
        hash    dcfa807d7981d108dc3411a94302b61875d609d89d3791e70b38e04abad3b0a1
        trust   none: it changed since it was trusted

        no commands are declared

        files (6)
          exec        512 bytes  `a  9 bytes\u{1b}[A`
                        2 bytes  bin
          exec         17 bytes  hooks/check.sh
          link  link -> bin
                       42 bytes  notes.txt
          exec          3 bytes  settings.json

        changed since it was trusted
          added, executable now: `a  9 bytes\u{1b}[A`
            + #!/bin/sh
            + xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… (the line is cut)
          changed: bin
            (not text)
          added: link
            + link to bin
          changed: notes.txt
            …
              three
              four
            - five
            + FIVE\u{200b}
              six
              seven
            - eight
            + eight (no newline at the end)
          removed: old
            - gone soon
          changed, executable now: settings.json
    "#]].assert_eq(&show(&world, &[]));
}

#[test]
fn s6_trust_difference_is_bounded_and_reports_omissions() {
    let world = World::new();
    world.trust();
    let many: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    (0..30).for_each(|n| _ = world.write(format!("p/.cotter/many/{n}"), &many));
    world.write("p/.cotter/long", "x\n".repeat(200_000));
    let snapshot = world.take();
    let TrustState::Changed { difference, .. } = world.store().state(&snapshot) else {
        panic!("it changed");
    };
    let told: Vec<_> = difference
        .changes
        .iter()
        .map(|change| {
            let why = change.omission.clone().unwrap_or_default();
            format!("{}: {} lines, {why}", change.path.display(), change.lines.len())
        })
        .collect();
    assert_eq!(told.len(), 31);
    expect![[r#"
        long: 0 lines, too long to compare line by line
        many/0: 200 lines, 800 more lines
        many/9: 0 lines, too many other changes"#]]
    .assert_eq(&[told[0].as_str(), &told[1], &told[30]].join("\n"));
    let lines: usize = difference.changes.iter().map(|change| change.lines.len()).sum();
    assert_eq!(lines, 2000);
}
