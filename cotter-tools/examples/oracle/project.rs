//! The scratch project that commands run in: its files, and what a command read and changed of them.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

/// The folder of the project.
pub(crate) const PROJECT: &str = "/work/app";
/// The home folder.
pub(crate) const HOME: &str = "/home/u";
/// The folders whose files are compared.
const ROOTS: [&str; 3] = ["/work", HOME, "/tmp"];

/// The time of every file before a command runs, in seconds. Reading or writing a file sets it to now.
const STAMP: i64 = 1_000_000_000;

const FILES: [(&str, &str); 17] = [
    ("/work/app/a.txt", "x a\ny\n"),
    ("/work/app/b.txt", "x b\nz\n"),
    ("/work/app/my file.txt", "x\n"),
    ("/work/app/list.txt", "b.txt\nsub/x.txt\n.env\n"),
    ("/work/app/lib.sh", "touch from-lib\nx=.env\n"),
    ("/work/app/.env", "SECRET=x\n"),
    ("/work/app/src/main.rs", "fn main() {} // x\n"),
    ("/work/app/sub/x.txt", "x sub\n"),
    ("/work/app/sub/a.txt", "x other\n"),
    ("/work/app/sub/lib.sh", "cd src\n"),
    ("/work/app/sub/deep/y.txt", "x deep\n"),
    ("/work/app/dash/-n", "x\n"),
    ("/work/app/dash/--help", "x\n"),
    ("/work/app/.git/config", "[core]\n"),
    ("/work/app/.git/HEAD", "ref: refs/heads/main\n"),
    ("/home/u/notes.txt", "x notes\n"),
    ("/home/u/.ssh/id_rsa", "x key\n"),
];
const LINKS: [(&str, &str); 2] = [("/work/app/link", "a.txt"), ("/work/app/linked", "sub")];
const FOLDERS: [&str; 2] = ["/work/app/.git/hooks", "/work/app/new"];
/// The archive holds `x.txt` and `packed/y.txt`.
const ARCHIVE: &str = "/work/app/archive.tar";

/// The content of every file, by path.
pub(crate) type Tree = BTreeMap<PathBuf, Content>;

#[derive(Clone, PartialEq)]
pub(crate) enum Content {
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Link(PathBuf),
    Folder {
        mode: u32,
    },
    /// A pipe or a socket.
    Other,
}

/// The files that a command read and changed.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) reads: Vec<PathBuf>,
    pub(crate) writes: Vec<PathBuf>,
}

/// The scratch project, as it is before every command.
pub(crate) struct Project {
    tree: Tree,
    archive: Vec<u8>,
    script: Vec<u8>,
}

impl Project {
    /// Creates the project. `script` is the program that stands in for the project's own scripts.
    pub(crate) fn create(script: Vec<u8>) -> io::Result<Self> {
        let mut project = Project { tree: Tree::new(), archive: archive()?, script };
        project.build()?;
        project.tree = project.read()?;
        Ok(project)
    }

    fn build(&self) -> io::Result<()> {
        for root in ROOTS {
            fs::create_dir_all(root)?;
            for entry in fs::read_dir(root)? {
                let path = entry?.path();
                open_for_removal(&path);
                match path.symlink_metadata()?.is_dir() {
                    true => fs::remove_dir_all(path)?,
                    false => fs::remove_file(path)?,
                }
            }
        }
        for folder in FOLDERS {
            fs::create_dir_all(folder)?;
        }
        for (path, text) in FILES {
            let path = Path::new(path);
            path.parent().map(fs::create_dir_all).transpose()?;
            fs::write(path, text)?;
        }
        for (path, target) in LINKS {
            symlink(target, path)?;
        }
        fs::write(ARCHIVE, &self.archive)?;
        fs::write("/work/app/x.sh", &self.script)?;
        fs::set_permissions("/work/app/x.sh", fs::Permissions::from_mode(0o755))
    }

    /// Sets the times of all files to the same past moment.
    pub(crate) fn stamp(&self) -> io::Result<()> {
        let moment = Timespec { tv_sec: STAMP, tv_nsec: 0 };
        let times = Timestamps { last_access: moment, last_modification: moment };
        for (path, content) in &self.tree {
            if matches!(content, Content::File { .. }) {
                utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        Ok(())
    }

    /// The changes since the last stamp. Afterwards everything is as it was.
    pub(crate) fn take_changes(&self) -> io::Result<Changes> {
        let mut changes = Changes::default();
        // Times first: reading the content sets them.
        for (path, content) in &self.tree {
            let Content::File { .. } = content else { continue };
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.atime() != STAMP {
                changes.reads.push(path.clone());
            }
            if metadata.mtime() != STAMP {
                changes.writes.push(path.clone());
            }
        }
        let found = self.read()?;
        let differs = |path: &&PathBuf| found.get(*path) != self.tree.get(*path);
        changes.writes.extend(self.tree.keys().chain(found.keys()).filter(differs).cloned());
        changes.writes.sort();
        changes.writes.dedup();
        if !changes.writes.is_empty() {
            self.build()?;
        }
        Ok(changes)
    }

    fn read(&self) -> io::Result<Tree> {
        let mut tree = Tree::new();
        let mut left: Vec<PathBuf> = ROOTS.iter().map(PathBuf::from).collect();
        while let Some(folder) = left.pop() {
            // A command may have taken the right to read it.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let path = entry?.path();
                let Ok(metadata) = path.symlink_metadata() else { continue };
                let mode = metadata.mode();
                let content = match metadata.file_type() {
                    kind if kind.is_symlink() => Content::Link(fs::read_link(&path)?),
                    kind if kind.is_dir() => {
                        left.push(path.clone());
                        Content::Folder { mode }
                    }
                    kind if kind.is_file() => {
                        Content::File { bytes: fs::read(&path).unwrap_or_default(), mode }
                    }
                    _ => Content::Other,
                };
                tree.insert(path, content);
            }
        }
        Ok(tree)
    }
}

fn open_for_removal(path: &Path) {
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            // Fails only for what is not ours; removal then fails too, and says so.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).ok();
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path()));
        }
    }
}

/// An archive with two files, made by the system's own program.
fn archive() -> io::Result<Vec<u8>> {
    let folder = Path::new("/tmp/archive");
    fs::create_dir_all(folder.join("packed"))?;
    fs::File::create(folder.join("x.txt"))?.write_all(b"x\n")?;
    fs::write(folder.join("packed/y.txt"), "x\n")?;
    let made = std::process::Command::new("/usr/bin/tar")
        .args(["-C", "/tmp/archive", "-cf", "/tmp/archive.tar", "x.txt", "packed"])
        .status()?;
    if !made.success() {
        return Err(io::Error::other("`tar` failed"));
    }
    fs::read("/tmp/archive.tar")
}
