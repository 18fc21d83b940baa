//! The time command hooks add to a call, compared with their programs alone in one run.
//!
//! `cargo bench -p cotter-tools --bench hooks`

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
        fs,
        io::{BufRead, BufReader, Seek, Write},
        os::unix::fs::PermissionsExt,
        path::Path,
        process::{Child, ChildStdin, ChildStdout, Command, Stdio},
        sync::Arc,
        time::{Duration, Instant},
    };

    use cotter::{
        Agent, FnTool, Origin, Owner, ToolSpec, Workspace,
        permission::{Zone, facts::Facts},
    };
    use cotter_files::{
        command_hook::{self, HookLocation, entry::CommandHook},
        document::Document,
    };
    use cotter_test::{ScriptedModel, Step};
    use cotter_tools::{hooks::HookRunner, process::Runner};
    use serde_json::{Value, json};

    use crate::measure::{Goal, Table};

    const ROUNDS: usize = 400;
    /// For very short times.
    const MANY_ROUNDS: usize = 20_000;
    const GUARDS: usize = 10;
    const DECLARED: usize = 50;
    /// The argument that makes this program a resident hook.
    const SERVES: &str = "--serves";
    /// The input of a hook for the call below, except for a few characters.
    const TOLD: &str = r#"{"v":1,"event":"tool.pre","sessionId":"0123456789abcdef","runId":"r1","step":1,"agentId":"main","cwd":"/project","projectDir":"/project","dryRun":false,"callId":"c1.1","toolName":"work","toolInput":{"n":1},"facts":{"reads":[],"writes":[],"hosts":[],"commands":[],"zone":"safe"},"id":1}"#;

    pub(crate) fn main() {
        if std::env::args().any(|word| word == SERVES) {
            return serve();
        }
        let mut table = Table::from_args();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            // As much memory as a working agent may have: the cost of a fork of this process would
            // show.
            let mut ballast = vec![1u8; 256 * 1024 * 1024];
            ballast.iter_mut().step_by(4096).for_each(|byte| *byte = 2);
            let folder = tempfile::tempdir().expect("a folder");
            let folder = folder.path().canonicalize().expect("its path");
            started(&mut table, &folder).await;
            stays(&mut table, &folder).await;
            unmatched(&mut table, &folder).await;
            drop(ballast);
        });
        table.print();
    }

    /// Answers each line with its number.
    fn serve() {
        let (mut lines, mut out) = (std::io::stdin().lock(), std::io::stdout().lock());
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
            let id = line.rsplit_once("\"id\":").map_or("0", |(_, id)| id.trim_end());
            let _ = out.write_all(format!("{{\"id\":{}}}\n", id.trim_end_matches('}')).as_bytes());
            let _ = out.flush();
            line.clear();
        }
    }

    /// One hook, and ten, compared with the script they run.
    async fn started(table: &mut Table, folder: &Path) {
        let (one_row, ten_row) = ("a command hook adds", "ten command hooks add");
        if !table.wants(one_row) && !table.wants(ten_row) {
            return;
        }
        let script = folder.join("check");
        fs::write(&script, "#!/bin/sh\nread -r line\nexit 0\n").expect("a script");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a program");
        let hook = |number: usize| json!({"name": format!("h{number}"), "command": "./check"});
        let hooks = |count: usize| (0..count).map(hook).collect::<Vec<_>>();
        let agents = [0, 1, GUARDS].map(|count| agent(folder, &hooks(count), ROUNDS));
        let (mut alone, mut all, mut took) = (vec![], vec![], [vec![], vec![], vec![]]);
        let mut input = tempfile::tempfile().expect("a file");
        input.write_all(TOLD.as_bytes()).expect("room");
        for _ in 0..ROUNDS {
            alone.push(bare(&script, &input, 1));
            all.push(bare(&script, &input, GUARDS));
            for (agent, took) in agents.iter().zip(&mut took) {
                took.push(run(agent).await);
            }
        }
        let [none, one, ten] = took.map(|mut took| median(&mut took));
        let (alone, all) = (median(&mut alone), median(&mut all));
        table.add_beside(one_row, one - none, ("the script alone", alone), Goal::Ratio(1.15));
        table.add_beside(ten_row, ten - none, ("ten scripts at once", all), Goal::Ratio(1.4));
    }

    /// A resident hook, compared with one line to the same program and back.
    async fn stays(table: &mut Table, folder: &Path) {
        let row = "a hook that stays adds";
        if !table.wants(row) {
            return;
        }
        let program = std::env::current_exe().expect("this program");
        let entry = json!({"name": "warm", "command": [program, SERVES], "serve": true});
        let agents = [vec![], vec![entry]].map(|hooks| agent(folder, &hooks, ROUNDS));
        let mut pipe = Pipe::open(&program);
        let (mut alone, mut took) = (vec![], [vec![], vec![]]);
        for _ in 0..ROUNDS {
            alone.push(pipe.round_trip());
            for (agent, took) in agents.iter().zip(&mut took) {
                took.push(run(agent).await);
            }
        }
        let [none, one] = took.map(|mut took| median(&mut took));
        let alone = median(&mut alone);
        let floor = ("a line through a pipe and back", alone);
        table.add_beside(row, one - none, floor, Goal::Ratio(1.5));
    }

    /// Hooks for other tools than the called one.
    async fn unmatched(table: &mut Table, folder: &Path) {
        let row = "fifty hooks of which none matches add";
        if !table.wants(row) {
            return;
        }
        let hook =
            |number| json!({"name": format!("h{number}"), "tools": ["other"], "command": "no"});
        let hooks: Vec<_> = (0..DECLARED).map(hook).collect();
        let agents = [vec![], hooks].map(|hooks| agent(folder, &hooks, MANY_ROUNDS));
        let mut took = [vec![], vec![]];
        for _ in 0..MANY_ROUNDS {
            for (agent, took) in agents.iter().zip(&mut took) {
                took.push(run(agent).await);
            }
        }
        let [none, fifty] = took.map(|mut took| median(&mut took));
        // A negative time is noise, and printed as it is.
        table.add(row, fifty - none, Goal::Nanos(1000.0));
    }

    /// An agent whose every run is one call and one reply, with these hooks before the call.
    fn agent(folder: &Path, hooks: &[Value], rounds: usize) -> Agent {
        let spec = ToolSpec::new("work", "works", json!({"type": "object"}));
        let work = FnTool::new(spec, |_| async { Ok("worked".into()) });
        let steps = || [Step::call("work", json!({"n": 1})), Step::text("done")];
        let agent = Agent::builder(ScriptedModel::new((0..rounds).flat_map(move |_| steps())))
            .workspace(Workspace::new(&folder.join("project")))
            .tool(work.with_facts(Facts::zone(Zone::Safe)))
            .build()
            .expect("an agent");
        let text = json!({ "tool.pre": hooks }).to_string();
        let document = Document::parse("settings.json", &text).expect("JSON");
        let hooks = CommandHook::read_all(document.root()).expect("hooks");
        let starts = HookRunner::new(Runner::direct(), std::env::vars_os());
        let base = HookLocation {
            folder: folder.into(),
            confined: false,
            host: Arc::new(starts),
            state: None,
        };
        let owner = Owner::new(Origin::User, "settings.json");
        agent
            .extend(owner, |unit| command_hook::register_all(unit, &hooks, &base))
            .expect("hooks that fit");
        agent
    }

    async fn run(agent: &Agent) -> Duration {
        let session = agent.new_session().await.expect("a session");
        let begun = Instant::now();
        session.prompt("go").await.expect("a reply");
        begun.elapsed()
    }

    /// Runs a script `count` times in parallel, each with its input.
    fn bare(script: &Path, mut input: &fs::File, count: usize) -> Duration {
        input.rewind().expect("a file");
        let begun = Instant::now();
        let started = (0..count).map(|_| {
            let stdin = input.try_clone().expect("a file");
            let mut command = Command::new(script);
            command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("the script")
        });
        for child in started.collect::<Vec<_>>() {
            assert!(child.wait_with_output().expect("its end").status.success());
        }
        begun.elapsed()
    }

    /// A resident program without hooks.
    struct Pipe {
        child: Child,
        input: ChildStdin,
        output: BufReader<ChildStdout>,
        said: String,
    }

    impl Pipe {
        fn open(program: &Path) -> Self {
            let mut command = Command::new(program);
            command.arg(SERVES).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("this program");
            let input = child.stdin.take().expect("a pipe");
            let output = BufReader::new(child.stdout.take().expect("a pipe"));
            Pipe { child, input, output, said: String::new() }
        }

        fn round_trip(&mut self) -> Duration {
            let begun = Instant::now();
            self.input.write_all(format!("{TOLD}\n").as_bytes()).expect("it listens");
            self.said.clear();
            self.output.read_line(&mut self.said).expect("it answers");
            assert_eq!(self.said, "{\"id\":1}\n");
            begun.elapsed()
        }
    }

    impl Drop for Pipe {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Returns the median in nanoseconds.
    fn median(took: &mut [Duration]) -> f64 {
        took.sort_unstable();
        took[took.len() / 2].as_nanos() as f64
    }
}
