//! An ordinary user for the tests where CI is root: most people are not root, and root may do what they may not.
//!
//! Cargo builds as root and starts each test program by `cargo xtask as-user FOLDER PROGRAM …`, which gives up
//! root's rights first. The user has a home folder and a temp folder of its own, which the tests must leave empty.

use std::{
    env,
    ffi::OsString,
    fs, io,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, lchown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{self, Command},
};

use crate::{command, failure::Failure};

/// The user and the group. Neither needs a name on the machine.
pub(crate) const ID: u32 = 1000;

/// True if this process is root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// True if the folders above the checkout let other users in.
pub(crate) fn may_enter_checkout() -> Result<bool, Failure> {
    let root = command::root()?;
    let lets_in = |folder: &Path| {
        fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 0o001 != 0)
    };
    Ok(root.ancestors().all(lets_in))
}

/// The folders of the user. They are removed when it is dropped.
pub(crate) struct OrdinaryUser {
    folder: PathBuf,
}

impl OrdinaryUser {
    /// Makes the folders, and gives the user the folder below `target` that Cargo makes for the files of tests.
    pub(crate) fn create() -> Result<Self, Failure> {
        let user =
            Self { folder: env::temp_dir().join(format!("cotter-test-user-{}", process::id())) };
        let test_files = command::root()?.join("target/tmp");
        for folder in [&user.folder, &user.home(), &user.temp(), &test_files] {
            fs::create_dir_all(folder)
                .and_then(|()| give(folder))
                .map_err(|error| cannot("prepare", folder).with_cause(error))?;
        }
        Ok(user)
    }

    /// The variable that makes Cargo start test programs as this user, with its value.
    pub(crate) fn runner(&self) -> Result<(String, String), Failure> {
        let version = command::output("rustc -vV")?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or_else(|| Failure::new("`rustc -vV` names no host"))?;
        let name = format!("CARGO_TARGET_{}_RUNNER", host.replace('-', "_").to_uppercase());
        let own = env::current_exe()
            .map_err(|error| Failure::new("the path of xtask is not known").with_cause(error))?;
        Ok((name, format!("{} as-user {}", own.display(), self.folder.display())))
    }

    /// Fails if something is left in the home folder or the temp folder.
    pub(crate) fn check_empty(&self) -> Result<(), Failure> {
        let mut left = vec![];
        for folder in [self.home(), self.temp()] {
            let entries =
                fs::read_dir(&folder).map_err(|error| cannot("list", &folder).with_cause(error))?;
            left.extend(entries.flatten().map(|entry| entry.path().display().to_string()));
        }
        left.sort();
        match left.as_slice() {
            [] => Ok(()),
            left => Err(Failure::new(format!("the tests left behind: {}", left.join(", ")))),
        }
    }

    fn home(&self) -> PathBuf {
        home(&self.folder)
    }

    fn temp(&self) -> PathBuf {
        temp(&self.folder)
    }
}

impl Drop for OrdinaryUser {
    fn drop(&mut self) {
        // A folder below the temp folder that stays is a nuisance, not an error of the tests.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn home(folder: &Path) -> PathBuf {
    folder.join("home")
}

fn temp(folder: &Path) -> PathBuf {
    folder.join("tmp")
}

fn give(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give(&entry.path())?;
        } else {
            lchown(entry.path(), Some(ID), Some(ID))?;
        }
    }
    chown(path, Some(ID), Some(ID))
}

fn cannot(what: &str, path: &Path) -> Failure {
    Failure::new(format!("cannot {what} `{}`", path.display()))
}

/// Replaces this process by `program` as the user whose folders are in `folder`. Returns only if that fails.
pub(crate) fn become_user(folder: &str, program: &str, args: &[&str]) -> Failure {
    let folder = Path::new(folder);
    open_for_all(Path::new(program));
    let error = Command::new(program)
        .args(args)
        .env("HOME", home(folder))
        .env("TMPDIR", temp(folder))
        .env("PATH", readable_path())
        .uid(ID)
        .gid(ID)
        .exec();
    cannot("start", Path::new(program)).with_cause(error)
}

/// Opens the folder in which rustdoc builds the examples of doc comments: it is its owner's alone.
fn open_for_all(program: &Path) {
    let temp = env::temp_dir();
    let below_temp = program.ancestors().skip(1).take_while(|path| path.starts_with(&temp));
    for folder in below_temp.filter(|path| **path != temp) {
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o755));
    }
}

/// `PATH` without folders in root's home, which the user may not enter.
fn readable_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let home = env::var_os("HOME").map(PathBuf::from);
    let folders = env::split_paths(&path)
        .filter(|folder| !home.as_ref().is_some_and(|home| folder.starts_with(home)));
    env::join_paths(folders).unwrap_or(path)
}
