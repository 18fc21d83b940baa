//! `runs/*.jsonl`: lines that a profile saves below its own folder only.

use std::{io, path::Path};

/// Appends a line to a file below a folder. No link is followed, only a plain file is accepted, and new files
/// and folders are accessible to their owner only.
pub(crate) fn append(folder: &Path, path: &Path, line: &[u8]) -> io::Result<()> {
    use std::{
        io::Write,
        os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    };

    let mut at = cotter::fs::open::Folder::open(folder)?;
    let (Some(parents), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    for part in parents.iter() {
        at = at.folder_or_new(part)?;
    }
    let mut file = at.append(name)?;
    let metadata = file.metadata()?;
    match () {
        () if !metadata.is_file() => return Err(io::Error::other("it is not a file")),
        // Another hard link may be outside the profile's folder.
        () if metadata.nlink() > 1 => return Err(io::Error::other("it has another hard link")),
        () if metadata.mode() & 0o077 != 0 => {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        () => {}
    }
    // An incomplete last line stays a separate line.
    let mut last = [b'\n'];
    if metadata.len() > 0 {
        file.read_exact_at(&mut last, metadata.len() - 1)?;
    }
    match last {
        [b'\n'] => file.write_all(line),
        _ => file.write_all(&[b"\n", line].concat()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        path::PathBuf,
    };

    use super::*;

    struct World {
        _folder: tempfile::TempDir,
        root: PathBuf,
    }

    /// A profile's folder beside a folder that the profile must not touch.
    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("profile")).unwrap();
        fs::create_dir(root.join("elsewhere")).unwrap();
        fs::write(root.join("elsewhere/theirs.jsonl"), "theirs\n").unwrap();
        World { _folder: folder, root }
    }

    impl World {
        fn append(&self, path: &str) -> io::Result<()> {
            append(&self.root.join("profile"), Path::new(path), b"{}\n")
        }

        fn profile(&self, name: &str) -> PathBuf {
            self.root.join("profile").join(name)
        }

        /// Checks that the append fails and changes nothing.
        fn refuses(&self, path: &str) {
            let refused = self.append(path).expect_err(path);
            let theirs = fs::read_to_string(self.root.join("elsewhere/theirs.jsonl")).unwrap();
            assert_eq!(theirs, "theirs\n", "{path}: {refused}");
            assert_eq!(fs::read_dir(self.root.join("elsewhere")).unwrap().count(), 1, "{path}");
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn s28_run_files_are_appended_with_owner_only_permissions() {
        let world = world();
        world.append("runs/a/b.jsonl").unwrap();
        world.append("runs/a/b.jsonl").unwrap();
        assert_eq!(fs::read_to_string(world.profile("runs/a/b.jsonl")).unwrap(), "{}\n{}\n");
        assert_eq!(mode(&world.profile("runs/a/b.jsonl")), 0o600);
        assert_eq!((mode(&world.profile("runs")), mode(&world.profile("runs/a"))), (0o700, 0o700));
        fs::write(world.profile("runs/half.jsonl"), "{\"v\":").unwrap();
        fs::set_permissions(world.profile("runs/half.jsonl"), fs::Permissions::from_mode(0o644))
            .unwrap();
        world.append("runs/half.jsonl").unwrap();
        assert_eq!(fs::read_to_string(world.profile("runs/half.jsonl")).unwrap(), "{\"v\":\n{}\n");
        assert_eq!(mode(&world.profile("runs/half.jsonl")), 0o600);
    }

    #[test]
    fn s34_run_file_behind_a_link_is_refused() {
        let at = world();
        symlink(at.root.join("elsewhere"), at.profile("runs")).unwrap();
        at.refuses("runs/new.jsonl");
        at.refuses("runs/theirs.jsonl");

        let at = world();
        fs::create_dir(at.profile("runs")).unwrap();
        symlink(at.root.join("elsewhere"), at.profile("runs/in")).unwrap();
        symlink(at.root.join("elsewhere/theirs.jsonl"), at.profile("runs/link.jsonl")).unwrap();
        symlink(at.root.join("elsewhere/new.jsonl"), at.profile("runs/dangling.jsonl")).unwrap();
        fs::hard_link(at.root.join("elsewhere/theirs.jsonl"), at.profile("runs/second.jsonl"))
            .unwrap();
        fs::create_dir(at.profile("runs/folder.jsonl")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(at.profile("runs/pipe.jsonl")).status();
        assert!(fifo.unwrap().success());
        for name in ["in/new", "link", "dangling", "second", "folder", "pipe"] {
            at.refuses(&format!("runs/{name}.jsonl"));
        }

        let at = world();
        fs::rename(at.root.join("profile"), at.root.join("moved")).unwrap();
        symlink(at.root.join("elsewhere"), at.root.join("profile")).unwrap();
        at.refuses("runs/new.jsonl");
    }

    #[test]
    fn run_file_of_any_size_is_appended_to() {
        let world = world();
        fs::create_dir(world.profile("runs")).unwrap();
        let file = fs::File::create(world.profile("runs/big.jsonl")).unwrap();
        let size = 10 * 1024 * 1024 * 1024;
        file.set_len(size).unwrap();
        world.append("runs/big.jsonl").unwrap();
        // A sparse file does not end in a newline.
        assert_eq!(file.metadata().unwrap().len(), size + 4);
    }
}
