//! The time a call of `bash` takes beyond the bash it starts, compared in one run.
//!
//! `cargo bench -p cotter-tools --bench bash`

#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

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

    const ROUNDS: usize = 400;

    pub(crate) fn main() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(compare());
    }

    async fn compare() {
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
        println!("{:<44} {:>6} µs", "bash --norc -c true, spawned by hand", bare.as_micros());
        let names = [
            "true, sandbox off",
            "true, sandbox auto",
            "true > out, sandbox auto, in a repository",
        ];
        for (name, took) in names.iter().zip(&mut took) {
            let name = format!("bash {name}");
            let took = median(took);
            let ratio = took.as_secs_f64() / bare.as_secs_f64();
            println!("{name:<44} {:>6} µs  {ratio:.2} x", took.as_micros());
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

    fn median(took: &mut [Duration]) -> Duration {
        took.sort_unstable();
        took[took.len() / 2]
    }
}
