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
