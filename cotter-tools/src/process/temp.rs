//! The private temp folder of a runner.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A folder that is made when it is first asked for and removed at the end.
pub(super) struct Temp {
    below: PathBuf,
    made: OnceLock<PathBuf>,
}

impl Temp {
    pub(super) fn new(below: &Path) -> Self {
        Temp { below: below.into(), made: OnceLock::new() }
    }

    pub(super) fn path(&self) -> io::Result<&Path> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        // Links resolved: what is opened for a command is where it really lies.
        let path = self.below.canonicalize()?.join(format!("cotter-{}", random_name()?));
        DirBuilder::new().mode(0o700).create(&path)?;
        if let Err(second) = self.made.set(path) {
            // Somebody else was quicker.
            std::fs::remove_dir(second)?;
        }
        self.made.get().map(PathBuf::as_path).ok_or_else(|| io::Error::other("no temp folder"))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(made) = self.made.get() {
            let _ = std::fs::remove_dir_all(made);
        }
    }
}

/// A name nobody can guess.
pub(super) fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
