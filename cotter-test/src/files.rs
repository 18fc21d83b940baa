//! Files of a test.

use std::{fs, path::Path};

/// Writes files below a folder; a name that ends in `!` is an executable file.
///
/// # Panics
///
/// If a file cannot be written.
pub fn write_files(folder: &Path, files: &[(&str, impl AsRef<[u8]>)]) {
    for (name, content) in files {
        let path = folder.join(name.trim_end_matches('!'));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("the folder is made");
        }
        fs::write(&path, content).expect("the file is written");
        if name.ends_with('!') {
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&path, executable).expect("the file is made executable");
        }
    }
}

/// Makes every folder below `folder` writable, so that a temporary folder with read-only copies in it can be
/// removed. What cannot be changed is left.
pub fn make_removable(folder: &Path) {
    let _ = fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_removable(&entry.path());
        }
    }
}
