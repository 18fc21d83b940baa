//! Paths as the policy compares them: absolute, with links resolved as far as the path exists.

use std::{
    borrow::Cow,
    io::ErrorKind,
    path::{Component, Path, PathBuf},
};

use crate::fs::{workspace, workspace::Workspace};

/// Returns the paths that `path` touches: the resolved file first, then the path as written if it differs.
/// A deny rule matches either path; an allow rule must cover both.
pub fn touched_paths(path: &str, workspace: &Workspace) -> Vec<PathBuf> {
    touched_paths_from(path, workspace, || resolve_folder(workspace))
}

/// The same for a working folder that was resolved before. `cwd` must return what [`resolve_folder`] does; it is
/// called for relative paths only.
pub fn touched_paths_from<P: AsRef<Path>>(
    path: &str,
    workspace: &Workspace,
    cwd: impl FnOnce() -> P,
) -> Vec<PathBuf> {
    let as_written = make_absolute(path, workspace);
    // `/dev/stdout` resolves to the output of this process, not to the output of the call.
    if workspace::is_harmless_device(&as_written) && !path.contains("..") {
        return vec![as_written];
    }
    let path = Path::new(path);
    let file = match path.is_absolute() {
        true => resolve(Path::new("/"), path),
        false => resolve(cwd().as_ref(), path),
    };
    if file == as_written { vec![file] } else { vec![file, as_written] }
}

/// Resolves the links of the working folder.
pub fn resolve_folder(workspace: &Workspace) -> PathBuf {
    resolve(Path::new("/"), workspace.cwd())
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

/// Resolves a path below a resolved folder to the file it means. Missing parts are appended to the nearest folder
/// that exists, with `..` applied literally. A dangling link is followed too, because a write through it creates
/// its target.
fn resolve(folder: &Path, path: &Path) -> PathBuf {
    let mut links = MAX_LINKS;
    let resolved = follow(folder.to_owned(), path, &mut links);
    // Where names are found in any case, the stored spelling counts.
    if cfg!(target_os = "linux") { resolved } else { stored_spelling(resolved) }
}

/// The limit on links in one path, as in an operating system.
const MAX_LINKS: usize = 40;

/// Follows the links of a path that starts in a resolved folder, at most `links` of them.
fn follow(folder: PathBuf, path: &Path, links: &mut usize) -> PathBuf {
    let mut resolved = folder;
    let mut missing = 0_usize;
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
                missing = missing.saturating_sub(1);
            }
            Component::RootDir | Component::Prefix(_) => resolved.push(component),
            Component::Normal(name) => {
                resolved.push(name);
                if missing > 0 {
                    missing += 1;
                    continue;
                }
                match std::fs::read_link(&resolved) {
                    Ok(target) if *links > 0 => {
                        *links -= 1;
                        resolved.pop();
                        resolved = follow(resolved, &target, links);
                    }
                    // It exists and is no link.
                    Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                    _ => missing = 1,
                }
            }
        }
    }
    resolved
}

/// A path with the part that exists spelled as it is stored.
fn stored_spelling(path: PathBuf) -> PathBuf {
    let stored =
        |part: &Path| Some((std::fs::canonicalize(part).ok()?, path.strip_prefix(part).ok()?));
    match path.ancestors().find_map(stored) {
        Some((stored, rest)) if rest.as_os_str().is_empty() => stored,
        Some((stored, rest)) => stored.join(rest),
        None => path,
    }
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
            assert_eq!(touched_paths(path, &workspace)[0], expected, "{path}");
            assert_eq!(stored_spelling(expected.clone()), expected, "{path}");
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
        // Each link leads twice through the next one: the limit holds for the whole path.
        for n in 0..60 {
            std::os::unix::fs::symlink(
                format!("l{0}/../l{0}", n + 1),
                inside.join(format!("l{n}")),
            )
            .unwrap();
        }
        assert!(touched_paths("l0", &workspace)[0].starts_with(&inside));
        check("round/x", inside.join("round/x"));
        assert_eq!(touched_paths("/dev/stdout", &workspace), [PathBuf::from("/dev/stdout")]);
        assert_eq!(touched_paths("/dev/./fd/2", &workspace), [PathBuf::from("/dev/fd/2")]);
        assert_eq!(touched_paths("dangling", &workspace)[1], inside.join("dangling"));
    }
}
