//! `cargo xtask ci`: every check that CI runs, in one table.
//!
//! Steps run in order, each echoed as it could be typed. The first that fails ends the run.

use std::{env, time::Instant};

use crate::{command, failure::Failure};

/// The command that runs the tests. README.md shows this line; a test below checks that.
const TEST: &str = "cargo test --workspace --locked";

/// The checks, in the order they run. The checks that need a tool are last.
const STEPS: &[Step] = &[
    Step::new("fmt", "cargo fmt --all --check"),
    Step::new("clippy", "cargo clippy --workspace --all-targets --locked -- -D warnings"),
    Step::new("test", TEST),
    Step::new("oracle", "cargo xtask oracle --short"),
    Step::new("doc", "cargo doc --workspace --no-deps --locked")
        .with_env(&[("RUSTDOCFLAGS", "-D warnings")]),
    Step::new("rooms", "cargo xtask rooms"),
    Step::new("generated docs", "cargo xtask docs --check"),
    Step::new("no features", "cargo check -p cotter --no-default-features --locked"),
    Step::new(
        "feature jsonl",
        "cargo check -p cotter --no-default-features --features jsonl --locked",
    ),
    Step::new(
        "feature schema",
        "cargo check -p cotter --no-default-features --features schema --locked",
    ),
    Step::new("headline", "cargo xtask headline"),
    Step::new("deny", "cargo deny check bans licenses sources").with_tool(Tool {
        probe: "cargo deny --version",
        install: "cargo install --locked cargo-deny",
    }),
    Step::new("typos", "typos")
        .with_tool(Tool { probe: "typos --version", install: "pip install typos" }),
];

struct Step {
    name: &'static str,
    line: &'static str,
    env: &'static [(&'static str, &'static str)],
    tool: Option<Tool>,
}

/// A program that does not come with Rust.
#[derive(Clone, Copy)]
struct Tool {
    probe: &'static str,
    install: &'static str,
}

impl Step {
    const fn new(name: &'static str, line: &'static str) -> Self {
        Self { name, line, env: &[], tool: None }
    }

    const fn with_env(self, env: &'static [(&'static str, &'static str)]) -> Self {
        Self { env, ..self }
    }

    const fn with_tool(self, tool: Tool) -> Self {
        Self { tool: Some(tool), ..self }
    }

    /// The command as a person types it, with its environment.
    fn typed(&self) -> String {
        let env: String = self.env.iter().map(|(key, value)| format!("{key}='{value}' ")).collect();
        format!("{env}{}", self.line)
    }
}

/// The effect of a missing tool.
#[derive(Clone, Copy)]
enum Missing {
    /// On a contributor's machine: the step is skipped, with a message.
    Skips,
    /// In CI: a step that does not run must not look like one that passed.
    Fails,
}

pub(crate) fn run() -> Result<(), Failure> {
    let start = Instant::now();
    let missing = if env::var_os("CI").is_some() { Missing::Fails } else { Missing::Skips };
    let mut skipped = Vec::new();
    for step in STEPS {
        match step.tool {
            Some(tool) if !command::succeeds(tool.probe)? => {
                skipped.push(skip(step, tool, missing)?)
            }
            _ => run_step(step)?,
        }
    }
    eprintln!("{}", summary(start, &skipped));
    Ok(())
}

fn run_step(step: &Step) -> Result<(), Failure> {
    eprintln!("$ {}", step.typed());
    let start = Instant::now();
    let result = command::run(step.line, step.env);
    eprintln!("  {}: {}\n", step.name, seconds(start));
    result.map_err(|failure| {
        failure
            .context(format!("step `{}` failed", step.name))
            .with_hint(format!("run it alone: {}", step.typed()))
    })
}

fn skip(step: &Step, tool: Tool, missing: Missing) -> Result<&'static str, Failure> {
    let hint = format!("install it: {}", tool.install);
    match missing {
        Missing::Fails => {
            Err(Failure::new(format!("step `{}` cannot run: its tool is not installed", step.name))
                .with_hint(hint))
        }
        Missing::Skips => {
            eprintln!("  {}: SKIPPED, its tool is not installed ({hint})\n", step.name);
            Ok(step.name)
        }
    }
}

fn summary(start: Instant, skipped: &[&str]) -> String {
    let passed = format!("{} steps passed in {}", STEPS.len() - skipped.len(), seconds(start));
    if skipped.is_empty() { passed } else { format!("{passed}, skipped: {}", skipped.join(", ")) }
}

fn seconds(start: Instant) -> String {
    format!("{:.1} s", start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::{STEPS, TEST};
    use crate::command::root;

    fn read(path: &str) -> String {
        let path = root().unwrap().join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn readme_shows_the_test_command() {
        let shown = read("README.md").lines().any(|line| line.trim() == TEST);
        assert!(shown, "README.md has no line `{TEST}`");
    }

    #[test]
    fn each_feature_of_the_core_is_checked_alone() {
        let manifest = read("cotter/Cargo.toml");
        let declared: BTreeSet<&str> = manifest
            .lines()
            .skip_while(|line| line.trim() != "[features]")
            .skip(1)
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| Some(line.split_once('=')?.0.trim()))
            .filter(|feature| *feature != "default" && !feature.starts_with('#'))
            .collect();
        let checked: BTreeSet<&str> =
            STEPS.iter().filter_map(|step| step.name.strip_prefix("feature ")).collect();
        assert_eq!(checked, declared);
    }
}
