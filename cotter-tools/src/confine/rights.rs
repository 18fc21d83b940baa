//! The rights to folders: one that cannot be listed hides what is in it.

use std::path::Path;

use rustix::fs::{Access, access};

/// The longest path of a folder whose entries are looked at: their paths fit in a system call.
const MAX_FOLDER_PATH: usize = 3_800;

/// True if the entries of a folder can be found and opened.
pub(crate) fn is_listable(folder: &Path) -> bool {
    folder.as_os_str().len() <= MAX_FOLDER_PATH
        && access(folder, Access::READ_OK | Access::EXEC_OK).is_ok()
}
