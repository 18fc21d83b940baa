//! `runs/*.jsonl`: lines that a profile keeps below its own folder, and nowhere else.

use std::{io, path::Path};

/// Adds a line to a file below a folder. No link is followed anywhere, what is no plain file is refused, and
/// what is made is for its owner alone.
#[cfg(unix)]
pub(super) fn append(folder: &Path, path: &Path, line: &[u8]) -> io::Result<()> {
    use std::{
        io::Write,
        os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    };

    let mut at = crate::open::Folder::open(folder)?;
    let (Some(parents), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    for part in parents.iter() {
        at = at.folder_or_new(part)?;
    }
    let mut file = at.append(name)?;
    let about = file.metadata()?;
    match () {
        () if !about.is_file() => return Err(io::Error::other("it is no file")),
        // A second name may stand anywhere.
        () if about.nlink() > 1 => return Err(io::Error::other("it has a second name")),
        () if about.mode() & 0o077 != 0 => {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        () => {}
    }
    // Half a line that somebody left stays a line by itself.
    let mut last = [b'\n'];
    if about.len() > 0 {
        file.read_exact_at(&mut last, about.len() - 1)?;
    }
    match last {
        [b'\n'] => file.write_all(line),
        _ => file.write_all(&[b"\n", line].concat()),
    }
}

#[cfg(not(unix))]
pub(super) fn append(_: &Path, _: &Path, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
