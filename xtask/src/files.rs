//! The text files of the workspace.

use std::{fs, io, path::Path};

use crate::failure::Failure;

/// A file of the workspace and its text.
pub(crate) struct SourceFile {
    /// The path from the workspace's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Reads every file below `root` whose name ends in `.extension`, sorted by path.
///
/// Hidden folders and folders called `target` are skipped. A file that is not UTF-8 is skipped too: tests
/// have such files as data.
pub(crate) fn read_all(root: &Path, extension: &str) -> Result<Vec<SourceFile>, Failure> {
    let mut files = Vec::new();
    collect(root, "", extension, &mut files)
        .map_err(|error| Failure::new("the workspace was not read").with_cause(error))?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn collect(
    folder: &Path,
    prefix: &str,
    extension: &str,
    files: &mut Vec<SourceFile>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && !name.starts_with('.') && name != "target" {
            collect(&entry.path(), &format!("{path}/"), extension, files)?;
        } else if kind.is_file() && name.rsplit_once('.').is_some_and(|(_, end)| end == extension) {
            match fs::read_to_string(entry.path()) {
                Ok(text) => files.push(SourceFile { path, text }),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
