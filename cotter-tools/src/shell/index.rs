//! The files that git tracks, by its index: the files `git grep` reads.

use std::{
    fs,
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

/// The most bytes of an index that are read.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The tracked files of a folder's repository, by their paths below it. `None` if unknown: then any
/// file may be tracked.
pub(crate) fn tracked(repository: &Path) -> Option<Vec<String>> {
    let mut bytes = vec![];
    let file = match fs::File::open(git_folder(repository)?.join("index")) {
        // A new repository tracks nothing.
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(vec![]),
        file => file.ok()?,
    };
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    parse(&bytes)
}

/// The folder with git's data: `.git`, or what the file `.git` of a linked worktree names.
fn git_folder(repository: &Path) -> Option<PathBuf> {
    let path = repository.join(".git");
    if path.metadata().ok()?.is_dir() {
        return Some(path);
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(4096).read_to_string(&mut text).ok()?;
    Some(repository.join(text.strip_prefix("gitdir: ")?.trim_end())).filter(|path| path.is_dir())
}

/// The paths of an index of version 2 to 4; `None` if it is invalid.
fn parse(bytes: &[u8]) -> Option<Vec<String>> {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let version =
        number(4).filter(|version| bytes.starts_with(b"DIRC") && (2..=4).contains(version))?;
    let mut paths = vec![];
    let mut name: Vec<u8> = vec![];
    let mut at = 12;
    for _ in 0..number(8)? {
        let start = at;
        let flags = u16::from_be_bytes(bytes.get(at + 60..at + 62)?.try_into().ok()?);
        at += if version > 2 && flags & 0x4000 != 0 { 64 } else { 62 };
        // Version 4 stores how much of the previous name is removed.
        let kept_length =
            if version == 4 { name.len().checked_sub(varint(bytes, &mut at)?)? } else { 0 };
        let rest = bytes.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        name.truncate(kept_length);
        name.extend_from_slice(&rest[..end]);
        // An index with longer hashes has its names elsewhere: their lengths would not match.
        if name.is_empty() || name.len().min(0xfff) != usize::from(flags & 0xfff) {
            return None;
        }
        paths.push(String::from_utf8_lossy(&name).into_owned());
        at += end + 1;
        if version < 4 {
            at = start + (at - start).next_multiple_of(8);
        }
    }
    Some(paths)
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut next = || {
        let byte = *bytes.get(*at)?;
        *at += 1;
        Some(byte)
    };
    let mut byte = next()?;
    let mut value = usize::from(byte & 127);
    while byte & 128 != 0 {
        byte = next()?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 127))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, version: u8, before: usize) -> Vec<u8> {
        let mut bytes = vec![0; 60];
        bytes.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
        if version == 4 {
            bytes.push(u8::try_from(before).unwrap());
            bytes.extend(name.bytes());
            bytes.push(0);
        } else {
            bytes.extend(name.bytes());
            bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
        }
        bytes
    }

    fn index(version: u8, names: &[&str]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend([0, 0, 0, version]);
        bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        let before = |at: usize| if at == 0 { 0 } else { names[at - 1].len() };
        names
            .iter()
            .enumerate()
            .for_each(|(at, name)| bytes.extend(entry(name, version, before(at))));
        bytes
    }

    #[test]
    fn git_index_is_read_whole_or_rejected() {
        let names = [".env", "a", "src/a long name of a file.rs"];
        for version in 2..=4 {
            let whole = index(version, &names);
            assert_eq!(parse(&whole).unwrap(), names, "version {version}");
            for end in 0..whole.len() - 8 {
                let cut = parse(&whole[..end]);
                assert!(cut.is_none(), "version {version}, cut at {end}: {cut:?}");
            }
        }
        assert_eq!(parse(&index(5, &names)), None);
        // With longer hashes everything is 12 bytes further.
        let mut longer = index(2, &[".env"]);
        longer.splice(50..50, [7; 12]);
        assert_eq!(parse(&longer), None);
    }
}
