//! The private folder of a runner: what commands may write, logs, and what was taken from them.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A folder that is made when it is first asked for, and removed at the end, but for what was set
/// aside in it.
pub(crate) struct PrivateFolder {
    below: PathBuf,
    made: OnceLock<PrivateFolders>,
}

/// What is in it.
pub(crate) struct PrivateFolders {
    /// The folder they are in.
    pub(crate) all: PathBuf,
    /// The temp folder of commands.
    pub(crate) temp: PathBuf,
    /// What background processes said. Commands cannot write there.
    pub(crate) logs: PathBuf,
    /// What was taken from a protected path. Made when there is something.
    pub(crate) aside: PathBuf,
}

impl PrivateFolder {
    pub(crate) fn new(below: &Path) -> Self {
        PrivateFolder { below: below.into(), made: OnceLock::new() }
    }

    pub(crate) fn folders(&self) -> io::Result<&PrivateFolders> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        // Links resolved: what is opened for a command is where it really lies.
        let all = self.below.canonicalize()?.join(format!("cotter-{}", random_name()?));
        let [temp, logs, aside] = ["tmp", "logs", "aside"].map(|name| all.join(name));
        for folder in [&all, &temp, &logs] {
            DirBuilder::new().mode(0o700).create(folder)?;
        }
        // Somebody else may have been quicker: the second is dropped, and gone with that.
        let _ = self.made.set(PrivateFolders { all, temp, logs, aside });
        self.made.get().ok_or_else(|| io::Error::other("no temp folder"))
    }
}

impl Drop for PrivateFolders {
    fn drop(&mut self) {
        remove(&self.all);
    }
}

/// Removes a private folder, but for what was set aside.
pub(crate) fn remove(all: &Path) {
    for name in ["tmp", "logs"] {
        let _ = std::fs::remove_dir_all(all.join(name));
    }
    let _ = std::fs::remove_dir(all);
}

/// A name nobody can guess.
pub(crate) fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
