//! `cargo xtask docs`: writes the generated regions of README.md and of the Markdown in docs/, and the
//! JSON Schemas in schemas/.
//!
//! To generate something new, add a line to `GENERATORS` and its two markers to a page.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    command,
    failure::Failure,
    features, paths,
    region::{self, Difference, Region},
    schemas,
};

/// The treatment of a stale region or schema.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// Write the new contents.
    Write,
    /// Fail, and leave the file unchanged.
    Check,
}

/// The names of regions, with the functions that generate them.
const GENERATORS: &[(&str, Generator)] =
    &[("points", points), ("cli-help", cli_help), ("features", features::generate)];

type Generator = fn() -> Result<String, Failure>;

pub(crate) fn run(mode: Mode) -> Result<(), Failure> {
    let mut generated = Generated::default();
    for page in pages(&command::root()?)? {
        let text = page.read()?;
        let regions = page.regions(&text)?;
        generated.add(&regions)?;
        match mode {
            Mode::Write => page.write(&text, &regions, &generated)?,
            Mode::Check => page.check(&text, &regions, &generated)?,
        }
    }
    schemas::run(mode)?;
    match mode {
        Mode::Write => Ok(()),
        Mode::Check => paths::check(),
    }
}

/// The table of points, generated from the table in the code.
fn points() -> Result<String, Failure> {
    command::output("cargo run -q -p cotter --example points_table --locked")
}

/// The output of `cotter --help`.
fn cli_help() -> Result<String, Failure> {
    let help = command::output("cargo run -q -p cotter-cli --locked -- --help")?;
    Ok(format!("```text\n{}\n```", help.trim_end()))
}

/// The output of the generators; each generator runs at most once.
#[derive(Default)]
struct Generated(BTreeMap<&'static str, String>);

impl Generated {
    fn add(&mut self, regions: &[Region<'_>]) -> Result<(), Failure> {
        for &(name, generator) in GENERATORS {
            let is_wanted = regions.iter().any(|region| region.name == name);
            if is_wanted && !self.0.contains_key(name) {
                let text = generator().map_err(|failure| {
                    failure.context(format!("region `{name}` could not be generated"))
                })?;
                self.0.insert(name, text);
            }
        }
        Ok(())
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).expect("`add` was called with every region of the page")
    }
}

/// A Markdown file that may have generated regions.
struct Page {
    path: PathBuf,
    /// The path from the workspace's root, for messages.
    name: String,
}

impl Page {
    fn read(&self) -> Result<String, Failure> {
        fs::read_to_string(&self.path)
            .map_err(|error| Failure::new(format!("{} was not read", self.name)).with_cause(error))
    }

    fn regions<'a>(&self, text: &'a str) -> Result<Vec<Region<'a>>, Failure> {
        let known: Vec<&str> = GENERATORS.iter().map(|(name, _)| *name).collect();
        region::parse(text, &known).map_err(|fault| {
            Failure::new(format!("{}:{}: {}", self.name, fault.line, fault.message)).with_hint(
                "a region stands between `<!-- generated: NAME -->` and `<!-- /generated -->`",
            )
        })
    }

    fn write(&self, text: &str, regions: &[Region<'_>], new: &Generated) -> Result<(), Failure> {
        let filled = region::fill(text, regions, |name| new.get(name).to_owned());
        if filled == text {
            return Ok(());
        }
        fs::write(&self.path, filled).map_err(|error| {
            Failure::new(format!("{} was not written", self.name)).with_cause(error)
        })?;
        eprintln!("wrote {}", self.name);
        Ok(())
    }

    fn check(&self, text: &str, regions: &[Region<'_>], new: &Generated) -> Result<(), Failure> {
        for region in regions {
            if let Some(first) = region::difference(text, region, new.get(region.name)) {
                return Err(self.stale(region, &first));
            }
        }
        Ok(())
    }

    fn stale(&self, region: &Region<'_>, first: &Difference<'_>) -> Failure {
        let Difference { line, found, expected } = first;
        Failure::new(format!(
            "{}:{line}: region `{}` is stale\n  found:    {found}\n  expected: {expected}",
            self.name, region.name,
        ))
        .with_hint("run cargo xtask docs")
    }
}

/// README.md, then every `.md` below docs/ by path.
fn pages(root: &Path) -> Result<Vec<Page>, Failure> {
    let mut paths = Vec::new();
    collect(&root.join("docs"), &mut paths)
        .map_err(|error| Failure::new("docs/ was not read").with_cause(error))?;
    paths.sort();
    paths.insert(0, root.join("README.md"));
    Ok(paths.into_iter().map(|path| Page { name: relative(&path, root), path }).collect())
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
    Ok(())
}
