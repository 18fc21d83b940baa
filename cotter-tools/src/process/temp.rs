//! The private folder of a runner: temp files of commands, logs, and files that were taken from
//! commands.

use std::{
    fs::{DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A folder that is created when first asked for, and removed at the end except for the files set
/// aside in it.
pub(crate) struct PrivateFolder {
    below: PathBuf,
    folders: OnceLock<PrivateFolders>,
}

/// The folders in it.
pub(crate) struct PrivateFolders {
    /// The private folder itself.
    pub(crate) all: PathBuf,
    /// The temp folder of commands.
    pub(crate) temp: PathBuf,
    /// The temp folder of confined hooks. Commands cannot write there.
    pub(crate) temp_of_hooks: PathBuf,
    /// Output of background processes. Commands cannot write there.
    pub(crate) logs: PathBuf,
    /// Content taken from protected paths. Created when needed.
    pub(crate) aside: PathBuf,
    /// Compiled Python of hooks: of confined ones, which only they may write, and of all others.
    pub(crate) compiled: PathBuf,
    /// An unreadable file and an empty folder, which hide what commands must not read.
    pub(crate) blank: PathBuf,
}

impl PrivateFolder {
    pub(crate) fn new(below: &Path) -> Self {
        PrivateFolder { below: below.into(), folders: OnceLock::new() }
    }

    pub(crate) fn folders(&self) -> io::Result<&PrivateFolders> {
        if let Some(folders) = self.folders.get() {
            return Ok(folders);
        }
        // Resolve links: the sandbox opens resolved paths.
        let all = self.below.canonicalize()?.join(format!("cotter-{}", random_name()?));
        let [temp, temp_of_hooks, logs, aside, blank, compiled] =
            ["tmp", "hooks", "logs", "aside", "blank", "compiled"].map(|name| all.join(name));
        for folder in [&all, &temp, &temp_of_hooks, &logs, &blank, &blank.join("folder"), &compiled]
        {
            DirBuilder::new().mode(0o700).create(folder)?;
        }
        OpenOptions::new().write(true).create_new(true).mode(0o000).open(blank.join("file"))?;
        // If another thread was faster, ours is dropped and thereby removed.
        let _ = self.folders.set(PrivateFolders {
            all,
            temp,
            temp_of_hooks,
            logs,
            aside,
            compiled,
            blank,
        });
        self.folders.get().ok_or_else(|| io::Error::other("no temp folder"))
    }
}

impl Drop for PrivateFolders {
    fn drop(&mut self) {
        remove(&self.all);
    }
}

/// Removes a private folder, except for the files set aside.
pub(crate) fn remove(all: &Path) {
    for name in ["tmp", "hooks", "logs", "blank", "compiled"] {
        let _ = std::fs::remove_dir_all(all.join(name));
    }
    let _ = std::fs::remove_dir(all);
}

/// A random name that cannot be guessed.
pub(crate) fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
