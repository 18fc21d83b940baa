//! The JSON Schemas in schemas/, made by an example of `cotter-cli`, which has access to their tables.

use std::{collections::BTreeMap, fs, io, path::Path};

use crate::{command, docs::Mode, failure::Failure};

/// Files by name.
type Files = BTreeMap<String, String>;

pub(crate) fn run(mode: Mode) -> Result<(), Failure> {
    let root = command::root()?;
    let folder = root.join("schemas");
    let made = make()?;
    let found =
        read(&folder).map_err(|error| Failure::new("schemas/ was not read").with_cause(error))?;
    let Some(name) = stale(&found, &made) else { return Ok(()) };
    match mode {
        Mode::Check => {
            Err(Failure::new(format!("schemas/{name} is stale")).with_hint("run cargo xtask docs"))
        }
        Mode::Write => write(&folder, &found, &made)
            .map_err(|error| Failure::new("schemas/ was not written").with_cause(error)),
    }
}

/// Makes the files that schemas/ should hold.
fn make() -> Result<Files, Failure> {
    let printed = command::output("cargo run -q -p cotter-cli --example schemas --locked")?;
    Ok(parse(&printed))
}

/// Splits the output into files. Each file follows a line with its name, `=== NAME`.
fn parse(printed: &str) -> Files {
    let files = printed.split("=== ").filter_map(|file| file.split_once('\n'));
    files.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// The files of a folder; a missing folder has none.
fn read(folder: &Path) -> io::Result<Files> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Files::new()),
        entries => entries?,
    };
    let file = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        Ok((name, fs::read_to_string(entry.path())?))
    };
    entries.map(file).collect()
}

/// The first file that differs, is missing or should not exist.
fn stale<'a>(found: &'a Files, made: &'a Files) -> Option<&'a str> {
    let mut names = made.keys().chain(found.keys());
    names.find(|name| found.get(*name) != made.get(*name)).map(String::as_str)
}

fn write(folder: &Path, found: &Files, made: &Files) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for name in found.keys().filter(|name| !made.contains_key(*name)) {
        fs::remove_file(folder.join(name))?;
        eprintln!("removed schemas/{name}");
    }
    for (name, text) in made.iter().filter(|(name, text)| found.get(*name) != Some(text)) {
        fs::write(folder.join(name), text)?;
        eprintln!("wrote schemas/{name}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Files, parse, stale};

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect()
    }

    #[test]
    fn schema_output_is_split_into_files() {
        assert_eq!(parse("=== a\n{\n}\n=== b\n1\n"), files(&[("a", "{\n}\n"), ("b", "1\n")]));
        assert_eq!(parse(""), files(&[]));
    }

    #[test]
    fn a_changed_a_missing_and_a_leftover_file_are_stale() {
        let made = files(&[("a", "1"), ("b", "2")]);
        let check = |found: &[(&str, &str)], expected: Option<&str>| {
            assert_eq!(stale(&files(found), &made), expected);
        };
        check(&[("a", "1"), ("b", "2")], None);
        check(&[("a", "1"), ("b", "3")], Some("b"));
        check(&[("b", "2")], Some("a"));
        check(&[("a", "1"), ("b", "2"), ("c", "3")], Some("c"));
    }
}
