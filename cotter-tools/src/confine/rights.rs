//! The rights to folders that a command can take from their owner: what it hides that way has to be found.

use std::{
    fs::{self, Permissions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::Path,
};

use rustix::fs::{Access, Mode, OFlags, access, fstat, open};

/// The longest path of a folder whose entries are looked at: their paths fit in a system call.
const MAX_FOLDER_PATH: usize = 3_800;

/// True if the entries of a folder can be found and opened, by commands of root too, which have no capabilities.
pub(crate) fn is_listable(folder: &Path) -> bool {
    folder.as_os_str().len() <= MAX_FOLDER_PATH
        && access(folder, Access::READ_OK | Access::EXEC_OK).is_ok()
        && !(rustix::process::geteuid().is_root() && is_closed_to_owner(folder))
}

/// True for a folder of this user without the rights to list and enter it.
fn is_closed_to_owner(folder: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let metadata = fs::symlink_metadata(folder);
    metadata.is_ok_and(|it| it.is_dir() && it.uid() == own && it.mode() & 0o500 != 0o500)
}

/// Gives a folder back to its owner, if this user is.
pub(crate) fn give_back(folder: &Path) -> bool {
    change_mode(folder, |mode| mode | 0o700).is_ok() && is_listable(folder)
}

/// Gives back the folders on the way to a path, and those in it, where they are closed to their owner.
pub(crate) fn give_back_around(path: &Path) {
    let is_denied = |cause: io::Error| cause.kind() == io::ErrorKind::PermissionDenied;
    if path.symlink_metadata().is_err_and(is_denied) {
        let mut above: Vec<_> = path.ancestors().skip(1).collect();
        above.reverse();
        let closed = above.into_iter().filter(|folder| access(*folder, Access::EXEC_OK).is_err());
        closed.for_each(|folder| _ = give_back(folder));
    }
    let mut pending = vec![path.to_path_buf()];
    while let Some(path) = pending.pop() {
        if !path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            continue;
        }
        if access(&path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
            give_back(&path);
        }
        pending.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path()));
    }
}

/// Changes an entry of a folder that may be read-only to its owner.
pub(crate) fn change_entry<T>(path: &Path, change: impl FnOnce() -> T) -> T {
    let folder = path.parent().unwrap_or(path);
    let is_closed = access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err();
    let old = is_closed.then(|| change_mode(folder, |mode| mode | 0o700).ok()).flatten();
    let changed = change();
    if let Some(old) = old {
        let _ = change_mode(folder, |_| old);
    }
    changed
}

/// Changes the mode of a folder, through no link, and returns the old one.
fn change_mode(folder: &Path, change: impl FnOnce(u32) -> u32) -> io::Result<u32> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = open(folder, flags, Mode::empty())?;
    let old = fstat(&opened)?.st_mode & 0o7777;
    let opened = format!("/proc/self/fd/{}", opened.as_raw_fd());
    fs::set_permissions(opened, Permissions::from_mode(change(old)))?;
    Ok(old)
}
