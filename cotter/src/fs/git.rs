//! The location of a folder's git repository, read from files. This module never runs git.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folders in which git keeps the data of a linked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Worktree {
    /// The worktree's own folder below `worktrees/` of its repository.
    pub own: PathBuf,
    /// The repository that the worktree shares.
    pub common: PathBuf,
}

/// Finds the repository of a linked worktree. Its `.git` is a file that names a folder in the repository,
/// and that folder must name the `.git` file. A `.git` file alone is no proof, because any process can
/// write one.
pub fn worktree(folder: &Path) -> Option<Worktree> {
    let dot_git = folder.join(".git");
    dot_git.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
    let pointer = read_short_file(&dot_git)?;
    let own = folder.join(pointer.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let common = own.join(read_short_file(&own.join("commondir"))?.trim()).canonicalize().ok()?;
    let pointer_back = own.join(read_short_file(&own.join("gitdir"))?.trim());
    let is_listed = own.parent()? == common.join("worktrees")
        && pointer_back.canonicalize().ok()? == dot_git.canonicalize().ok()?;
    is_listed.then_some(Worktree { own, common })
}

/// Lists the other folders in which a folder's repository is checked out, as git lists them: the main
/// checkout and every linked worktree. Empty if the folder is not the root of a checkout.
pub fn other_checkouts(folder: &Path) -> Vec<PathBuf> {
    let Ok(folder) = folder.canonicalize() else { return vec![] };
    let common = match worktree(&folder) {
        Some(git) => git.common,
        None => match folder.join(".git") {
            git if git.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) => git,
            _ => return vec![],
        },
    };
    let main = common.parent().filter(|_| common.file_name().is_some_and(|name| name == ".git"));
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.filter_map(|entry| {
        let dot_git = entry.path().join(read_short_file(&entry.path().join("gitdir"))?.trim());
        let checkout = dot_git.parent()?.canonicalize().ok()?;
        (worktree(&checkout)?.common == common).then_some(checkout)
    });
    let mut all: Vec<_> = main.map(Path::to_path_buf).into_iter().chain(linked).collect();
    all.retain(|checkout| *checkout != folder);
    all.sort_unstable();
    all.dedup();
    all
}

/// Reads one of git's short files, at most 64 KiB.
fn read_short_file(path: &Path) -> Option<String> {
    use std::io::Read;
    const LONGEST: u64 = 64 * 1024;
    // Opening a pipe would block until another process writes to it.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut text = String::new();
    fs::File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: PathBuf, text: String) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates a repository `main` with a linked worktree, as git writes it.
    fn link(root: &Path, name: &str) {
        let own = root.join("main/.git/worktrees").join(name);
        put(own.join("commondir"), "../..\n".into());
        put(own.join("gitdir"), format!("{}\n", root.join(name).join(".git").display()));
        put(root.join(name).join(".git"), format!("gitdir: {}\n", own.display()));
    }

    #[test]
    fn s8_other_checkouts_are_those_that_git_lists() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        link(&root, "one");
        link(&root, "two");
        let main = root.join("main");
        let [one, two] = ["one", "two"].map(|name| root.join(name));
        assert_eq!(other_checkouts(&main), [one.clone(), two.clone()]);
        assert_eq!(other_checkouts(&one), [main.clone(), two.clone()]);
        // `forged` points to a worktree folder that does not point back.
        let forged = root.join("forged");
        put(forged.join(".git"), fs::read_to_string(one.join(".git")).unwrap());
        assert_eq!(worktree(&forged), None);
        assert_eq!(other_checkouts(&forged), [""; 0].map(PathBuf::from));
        // `two` is listed by the repository, but its own `.git` file points elsewhere.
        put(two.join(".git"), "gitdir: elsewhere\n".into());
        assert_eq!(other_checkouts(&main), [one]);
        assert_eq!(other_checkouts(&root), [""; 0].map(PathBuf::from));
    }
}
