//! `cargo xtask ci`: every check that CI runs, in one table.
//!
//! Steps run in order, each echoed as it could be typed. The first that fails ends the run.

use std::{env, time::Instant};

use crate::{
    command,
    failure::Failure,
    ordinary_user::{self, OrdinaryUser},
};

/// The command that runs the tests. README.md shows this line; a test below checks that.
const TEST: &str = "cargo test --workspace --locked";

/// Tests that only root can run. Their names begin with `root_`.
const ROOT_TESTS: &str = "cargo test --workspace --locked --lib --bins --tests ::root_";

/// The most tests that may say that they tested nothing, in all steps together: one needs collections of files
/// from elsewhere.
const NOT_TESTED: usize = 1;

/// The beginning of the line of such a test, as `cotter_test::not_tested` writes it.
const MARK: &str = "NOT TESTED";

/// The checks, in the order they run. The checks that need a tool are last.
const STEPS: &[Step] = &[
    Step::new("fmt", "cargo fmt --all --check"),
    Step::new("clippy", "cargo clippy --workspace --all-targets --locked -- -D warnings"),
    Step::new("test", TEST).with_account(Account::Ordinary),
    Step::new("tests of root", ROOT_TESTS).with_account(Account::Root),
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
    account: Account,
}

/// The user as whom a step runs.
#[derive(Clone, Copy, PartialEq)]
enum Account {
    /// The user who runs CI.
    Own,
    /// An ordinary user, where CI is root. The user who runs CI otherwise.
    Ordinary,
    /// Root. Where CI is not, the step is skipped.
    Root,
}

/// A program that does not come with Rust.
#[derive(Clone, Copy)]
struct Tool {
    probe: &'static str,
    install: &'static str,
}

impl Step {
    const fn new(name: &'static str, line: &'static str) -> Self {
        Self { name, line, env: &[], tool: None, account: Account::Own }
    }

    const fn with_env(self, env: &'static [(&'static str, &'static str)]) -> Self {
        Self { env, ..self }
    }

    const fn with_tool(self, tool: Tool) -> Self {
        Self { tool: Some(tool), ..self }
    }

    const fn with_account(self, account: Account) -> Self {
        Self { account, ..self }
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
    let (mut skipped, mut not_tested) = (Vec::new(), 0);
    for step in STEPS {
        match step.tool {
            Some(tool) if !command::succeeds(tool.probe)? => {
                skipped.push(skip(step, tool, missing)?)
            }
            _ if step.account == Account::Root && !ordinary_user::is_root() => {
                eprintln!("  {}: SKIPPED, this user is not root\n", step.name);
                skipped.push(step.name)
            }
            _ => not_tested += run_step(step)?,
        }
    }
    check_not_tested(not_tested)?;
    eprintln!("{}", summary(start, &skipped));
    Ok(())
}

/// Runs a step. Returns the number of its tests that tested nothing.
fn run_step(step: &Step) -> Result<usize, Failure> {
    eprintln!("$ {}", step.typed());
    let start = Instant::now();
    let result = match step.account {
        Account::Own => command::run(step.line, step.env).map(|()| 0),
        Account::Ordinary if ordinary_user::is_root() => run_as_ordinary_user(step),
        Account::Ordinary | Account::Root => command::run_and_count(step.line, &[], MARK),
    };
    eprintln!("  {}: {}\n", step.name, seconds(start));
    result.map_err(|failure| {
        failure
            .context(format!("step `{}` failed", step.name))
            .with_hint(format!("run it alone: {}", step.typed()))
    })
}

fn run_as_ordinary_user(step: &Step) -> Result<usize, Failure> {
    if !ordinary_user::may_enter_checkout()? {
        eprintln!("  as root: no other user may enter the folder of the checkout");
        return command::run_and_count(step.line, &[], MARK);
    }
    let user = OrdinaryUser::create()?;
    eprintln!("  as user {}", ordinary_user::ID);
    let not_tested = command::run_and_count(step.line, &[user.runner()?], MARK)?;
    user.check_empty()?;
    Ok(not_tested)
}

fn check_not_tested(count: usize) -> Result<(), Failure> {
    if count <= NOT_TESTED {
        return Ok(());
    }
    let message = format!("{count} tests say `{MARK}`, and {NOT_TESTED} may");
    Err(Failure::new(message).with_hint("install what the lines name, or let fewer tests need it"))
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
