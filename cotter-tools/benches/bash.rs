//! The time a call of `bash` takes beyond the bash it starts, compared in one run.
//!
//! `cargo bench -p cotter-tools --bench bash`

#[path = "../../cotter/benches/spine/measure.rs"]
#[expect(dead_code, reason = "shared with the spine's bench, which uses all of it")]
mod measure;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        path::Path,
        process::{Command, Stdio},
        time::{Duration, Instant},
    };

    use cotter::{
        Agent, Workspace,
        permission::rule::{Rule, RuleKind},
    };
    use cotter_test::{ScriptedModel, Step};
    use cotter_tools::{
        bash::Bash,
        confine::Sandbox,
        process::{Runner, environment::Environment},
    };
    use serde_json::json;

    use crate::measure::{Goal, Table};

    const ROUNDS: usize = 400;

    /// The rows. They are measured together, if the filter selects one of them.
    const ROWS: [&str; 3] = [
        "bash true, sandbox off",
        "bash true, sandbox auto",
        "bash true > out, sandbox auto, in a repository",
    ];

    pub(crate) fn main() {
        let mut table = Table::from_args();
        if !ROWS.iter().any(|row| table.wants(row)) {
            return;
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(compare(&mut table));
        table.print();
    }

    async fn compare(table: &mut Table) {
        // As much memory as a working agent may have: the cost of a fork of this process would
        // show.
        let mut ballast = vec![1u8; 256 * 1024 * 1024];
        ballast.iter_mut().step_by(4096).for_each(|byte| *byte = 2);
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("its path");
        std::fs::create_dir_all(folder.join("repository/.git/hooks")).expect("a repository");
        std::fs::write(folder.join("repository/.git/config"), "").expect("a repository");
        let off = call(Sandbox::Off, &folder, "true").await;
        let confined = call(Sandbox::Auto, &folder, "true").await;
        let protected = call(Sandbox::Auto, &folder.join("repository"), "true > out").await;
        let (mut alone, mut took) = (vec![], [vec![], vec![], vec![]]);
        for _ in 0..ROUNDS {
            alone.push(bare());
            for (agent, took) in [&off, &confined, &protected].into_iter().zip(&mut took) {
                let begun = Instant::now();
                agent.process_request("go").await.expect("a reply");
                took.push(begun.elapsed());
            }
        }
        let bare = median(&mut alone);
        let goals = [Goal::Ratio(1.5), Goal::Ratio(1.5), Goal::None];
        for ((name, took), goal) in ROWS.iter().zip(&mut took).zip(goals) {
            table.add_beside(name, median(took), ("bash --norc -c true", bare), goal);
        }
        drop(ballast);
    }

    /// An agent whose every run is one call and one reply.
    async fn call(sandbox: Sandbox, folder: &Path, command: &str) -> Agent {
        let runner = Runner::new(env!("CARGO_BIN_EXE_cotter-spawner"))
            .with_environment(Environment::chosen(std::env::vars_os(), &[] as &[&str]))
            .with_sandbox(sandbox);
        let call = || [Step::call("bash", json!({ "command": command })), Step::text("done")];
        let agent = Agent::builder(ScriptedModel::new((0..=ROUNDS).flat_map(|_| call())))
            .workspace(Workspace::new(folder))
            .rule(Rule::parse(RuleKind::Allow, "bash").expect("a rule"))
            .tool(Bash::new(runner))
            .build()
            .expect("an agent");
        agent.process_request("go").await.expect("a reply");
        agent
    }

    fn bare() -> Duration {
        let begun = Instant::now();
        let mut bash = Command::new("/bin/bash");
        bash.args(["--noprofile", "--norc", "-c", "true"]).stdin(Stdio::null());
        let done = bash.output().expect("bash");
        assert!(done.status.success());
        begun.elapsed()
    }

    /// Returns the median in nanoseconds.
    fn median(took: &mut [Duration]) -> f64 {
        took.sort_unstable();
        took[took.len() / 2].as_nanos() as f64
    }
}
