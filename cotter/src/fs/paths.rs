//! Paths as the policy compares them: absolute, with links resolved as far as the path exists.

use std::{
    borrow::Cow,
    path::{Component, Path, PathBuf},
};

use crate::fs::{workspace, workspace::Workspace};

/// Returns the paths that `path` touches: the resolved file first, then the path as written if it differs.
/// A deny rule matches either path; an allow rule must cover both.
pub fn touched_paths(path: &str, workspace: &Workspace) -> Vec<PathBuf> {
    let as_written = make_absolute(path, workspace);
    // `/dev/stdout` resolves to the output of this process, not to the output of the call.
    if workspace::is_harmless_device(&as_written) && !path.contains("..") {
        return vec![as_written];
    }
    let file = resolve(path, workspace);
    if file == as_written { vec![file] } else { vec![file, as_written] }
}

/// Replaces a leading `~` by the home folder, if it is known. `~/x` never means a folder named `~` in the
/// project.
pub fn expand_home<'a>(path: &'a str, workspace: &Workspace) -> Cow<'a, str> {
    let home = workspace.home().and_then(Path::to_str);
    match (path.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            Cow::Owned(format!("{home}{rest}"))
        }
        _ => Cow::Borrowed(path),
    }
}

/// Makes a path absolute and removes dots. No link is followed.
fn make_absolute(path: &str, workspace: &Workspace) -> PathBuf {
    let mut absolute = PathBuf::new();
    for component in workspace.cwd().join(path).components() {
        match component {
            Component::ParentDir => _ = absolute.pop(),
            Component::CurDir => {}
            _ => absolute.push(component),
        }
    }
    absolute
}

/// Resolves a path to the file it means. Missing parts are appended to the nearest folder that exists, with
/// `..` applied literally. A dangling link is followed too, because a write through it creates its target.
fn resolve(path: &str, workspace: &Workspace) -> PathBuf {
    follow(&workspace.cwd().join(path), MAX_LINKS)
}

/// The limit on links in a row, as in an operating system.
const MAX_LINKS: usize = 40;

/// Resolves the links of a path, at most `links` of them in a row.
fn follow(path: &Path, links: usize) -> PathBuf {
    let mut resolved = PathBuf::new();
    let mut missing = PathBuf::new();
    let mut links = links;
    for component in path.components() {
        match component {
            Component::ParentDir if missing.as_os_str().is_empty() => _ = resolved.pop(),
            Component::ParentDir => _ = missing.pop(),
            Component::CurDir => {}
            _ if !missing.as_os_str().is_empty() => missing.push(component),
            _ => {
                let next = resolved.join(component);
                if let Ok(real) = std::fs::canonicalize(&next) {
                    resolved = real;
                } else if let Some(target) = std::fs::read_link(&next).ok().filter(|_| links > 0) {
                    links -= 1;
                    resolved = follow(&resolved.join(target), links);
                } else {
                    missing.push(component);
                }
            }
        }
    }
    if missing.as_os_str().is_empty() { resolved } else { resolved.join(missing) }
}

/// Formats a path for people: relative to the project if the path is below it.
pub fn format_path(path: &Path, workspace: &Workspace) -> String {
    match path.strip_prefix(workspace.project()) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".into(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_tilde_is_expanded_if_the_home_folder_is_known() {
        let without_home = Workspace::new(Path::new("/work"));
        let workspace = without_home.clone().with_home("/home/u");
        for (path, expected) in [
            ("~/x", "/home/u/x"),
            ("~", "/home/u"),
            ("~u/x", "~u/x"),
            ("a~/x", "a~/x"),
            ("./~/x", "./~/x"),
        ] {
            assert_eq!(expand_home(path, &workspace), expected);
            assert_eq!(expand_home(path, &without_home), path);
        }
    }

    #[test]
    fn touched_paths_resolve_links_and_dots() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let inside = root.join("project");
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::fs::write(root.join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", inside.join("dangling")).unwrap();
        std::os::unix::fs::symlink("dangling/b", inside.join("further")).unwrap();
        std::os::unix::fs::symlink("round", inside.join("round")).unwrap();
        std::os::unix::fs::symlink("../new", inside.join("sub/up")).unwrap();
        let workspace = Workspace::new(&inside);
        let check = |path: &str, expected: PathBuf| {
            assert_eq!(resolve(path, &workspace), expected, "{path}")
        };
        check("a.txt", inside.join("a.txt"));
        check("sub/../a.txt", inside.join("a.txt"));
        check("link", root.join("secret"));
        check("../secret", root.join("secret"));
        check("new/../../x", root.join("x"));
        check("/etc/../etc", PathBuf::from("/etc"));
        check(".", inside.clone());
        check("/../../..", PathBuf::from("/"));
        check("dangling", PathBuf::from("/nowhere/at/all"));
        check("dangling/x", PathBuf::from("/nowhere/at/all/x"));
        check("further", PathBuf::from("/nowhere/at/all/b"));
        check("sub/up", inside.join("new"));
        check("round/x", inside.join("round/x"));
        assert_eq!(touched_paths("/dev/stdout", &workspace), [PathBuf::from("/dev/stdout")]);
        assert_eq!(touched_paths("/dev/./fd/2", &workspace), [PathBuf::from("/dev/fd/2")]);
        assert_eq!(touched_paths("dangling", &workspace)[1], inside.join("dangling"));
    }
}
