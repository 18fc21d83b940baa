//! Symbolic links on a path, and the folders they lead through.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// True if `folder` is `inner` or an ancestor of `inner`. `folder` has no links; links in `inner` are
/// followed.
pub fn is_above(folder: &Path, inner: &Path) -> bool {
    inner.canonicalize().is_ok_and(|inner| inner.starts_with(folder))
}

/// The maximum number of links on a path.
const MAX_LINKS: usize = 40;

/// True if a path ends in a folder or passes a link that lies in the folder. `folder` itself has no links.
/// Entering the folder and leaving it by `..` does not count; a link in the folder does, wherever it leads.
pub fn leads_through(path: &Path, folder: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else { return false };
    let mut here = PathBuf::new();
    let mut links = 0;
    // The rest of the path, with the next name last.
    let mut left: Vec<_> = path.iter().rev().map(ToOwned::to_owned).collect();
    while let Some(name) = left.pop() {
        match name.to_str() {
            Some(".") => continue,
            Some("..") => _ = here.pop(),
            _ => here.push(name),
        }
        let Ok(to) = fs::read_link(&here) else { continue };
        links += 1;
        if here.starts_with(folder) || links > MAX_LINKS {
            return true;
        }
        here.pop();
        left.extend(to.iter().rev().map(ToOwned::to_owned));
    }
    here.starts_with(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn s3_path_that_leads_through_the_project_belongs_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let project = root.join("project");
        for name in ["project/sub", "beside/deep"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        symlink(root.join("beside/deep"), project.join("out")).unwrap();
        symlink("../project", root.join("beside/in")).unwrap();
        symlink("../project/out", root.join("beside/by")).unwrap();
        symlink("round", root.join("beside/round")).unwrap();
        let cases = [
            ("project/s.json", true),
            ("project/sub/../s.json", true),
            ("beside/../project/none/s.json", true),
            ("project/../beside/s.json", false),
            ("project/sub/../../beside/s.json", false),
            ("beside/s.json", false),
            ("project-two/s.json", false),
            // Links into the project, and links in the project, wherever they lead.
            ("beside/in/s.json", true),
            ("beside/in/../beside/s.json", false),
            ("project/out/s.json", true),
            ("project/out/../s.json", true),
            ("beside/by/s.json", true),
            ("beside/round", true),
        ];
        for (path, expected) in cases {
            assert_eq!(leads_through(&root.join(path), &project), expected, "{path}");
        }
    }
}
