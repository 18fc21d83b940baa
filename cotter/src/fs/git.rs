//! Where git keeps the repository of a folder. Nothing of git is run for it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where a linked worktree keeps what is not in its own folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Worktree {
    /// Its own folder among the worktrees of its repository.
    pub own: PathBuf,
    /// The repository it shares.
    pub common: PathBuf,
}

/// The repository of a linked worktree: its `.git` is a file that says where, and the place it names
/// says the same of it. A file that anybody could have written opens nothing by itself.
pub fn worktree(folder: &Path) -> Option<Worktree> {
    let dot_git = folder.join(".git");
    dot_git.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
    let pointer = line(&dot_git)?;
    let own = folder.join(pointer.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let common = own.join(line(&own.join("commondir"))?.trim()).canonicalize().ok()?;
    let back = own.join(line(&own.join("gitdir"))?.trim());
    let listed = own.parent()? == common.join("worktrees")
        && back.canonicalize().ok()? == dot_git.canonicalize().ok()?;
    listed.then_some(Worktree { own, common })
}

/// The other folders in which a folder's repository is checked out, as far as git lists them: the main
/// one and every linked worktree. None for a folder that is no root of a checkout.
pub fn other_checkouts(folder: &Path) -> Vec<PathBuf> {
    let Ok(folder) = folder.canonicalize() else { return vec![] };
    let common = match worktree(&folder) {
        Some(git) => git.common,
        None => match folder.join(".git") {
            git if git.symlink_metadata().is_ok_and(|about| about.is_dir()) => git,
            _ => return vec![],
        },
    };
    let main = common.parent().filter(|_| common.file_name().is_some_and(|name| name == ".git"));
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.filter_map(|entry| {
        let back = entry.path().join(line(&entry.path().join("gitdir"))?.trim());
        let checkout = back.parent()?.canonicalize().ok()?;
        (worktree(&checkout)?.common == common).then_some(checkout)
    });
    let mut all: Vec<_> = main.map(Path::to_path_buf).into_iter().chain(linked).collect();
    all.retain(|checkout| *checkout != folder);
    all.sort_unstable();
    all.dedup();
    all
}

/// What one of git's short files says.
fn line(path: &Path) -> Option<String> {
    use std::io::Read;
    const LONGEST: u64 = 64 * 1024;
    // Opening a pipe would wait for somebody to write to it.
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

    /// A repository `main` with a linked worktree, as git writes it.
    fn link(root: &Path, name: &str) {
        let own = root.join("main/.git/worktrees").join(name);
        put(own.join("commondir"), "../..\n".into());
        put(own.join("gitdir"), format!("{}\n", root.join(name).join(".git").display()));
        put(root.join(name).join(".git"), format!("gitdir: {}\n", own.display()));
    }

    #[test]
    fn s8_checkouts_are_those_that_git_lists() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        link(&root, "one");
        link(&root, "two");
        let main = root.join("main");
        let [one, two] = ["one", "two"].map(|name| root.join(name));
        assert_eq!(other_checkouts(&main), [one.clone(), two.clone()]);
        assert_eq!(other_checkouts(&one), [main.clone(), two.clone()]);
        // A pointer that nobody points back at.
        let forged = root.join("forged");
        put(forged.join(".git"), fs::read_to_string(one.join(".git")).unwrap());
        assert_eq!(worktree(&forged), None);
        assert_eq!(other_checkouts(&forged), [""; 0].map(PathBuf::from));
        // One that is listed and does not say so itself.
        put(two.join(".git"), "gitdir: elsewhere\n".into());
        assert_eq!(other_checkouts(&main), [one]);
        assert_eq!(other_checkouts(&root), [""; 0].map(PathBuf::from));
    }
}
