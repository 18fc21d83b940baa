//! Hooks whose interpreter is in the home folder, in the layout of each version manager. The interpreters are
//! real: copies of this machine's with their own standard library. Those of the system are not in `PATH`.

use std::{
    ffi::OsString,
    fmt::Write,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use cotter::{
    Agent, FnTool, Origin, Owner, Registry, ToolSpec, Workspace,
    permission::{Zone, facts::Facts},
};
use cotter_files::{
    claude::{self, ClaudeFile},
    command_hook::{self, HookHost, HookLocation},
    document::Document,
};
use cotter_test::{ScriptedModel, Step, transcript};
use cotter_tools::{
    hooks::HookRunner,
    process::{Runner, environment::Environment},
};
use expect_test::expect;
use serde_json::{Value, json};

use crate::machine::Scratch;

/// The folder of `prefixes.py`.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/claude")
}

/// An interpreter below a home folder.
pub(crate) struct Installation {
    /// The folders to put first in `PATH`.
    pub(crate) path: Vec<PathBuf>,
    /// The paths that start it.
    programs: Vec<PathBuf>,
    /// Its folder.
    prefix: PathBuf,
}

impl Installation {
    /// Builds one with the arguments of `prefixes.py`: the kind, and what the kind needs.
    pub(crate) fn build(home: &Path, kind: &[&str]) -> Self {
        let mut build = Command::new("python3");
        build.arg("-B").arg(data().join("prefixes.py")).arg(home).args(kind);
        let output = build.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        let paths = |name: &str| {
            let paths = made[name].as_array().unwrap().iter();
            paths.map(|path| PathBuf::from(path.as_str().unwrap())).collect()
        };
        let prefix = fs::canonicalize(made["prefix"].as_str().unwrap()).unwrap();
        Installation { path: paths("path"), programs: paths("programs"), prefix }
    }
}

/// Fills a folder with links to the programs of the system, with or without its interpreters.
pub(crate) fn link_system_programs(folder: &Path, with_interpreters: bool) {
    let is_interpreter =
        |name: &str| ["python", "node", "npm", "npx"].iter().any(|begin| name.starts_with(begin));
    for system in ["/usr/local/bin", "/usr/bin", "/bin"] {
        for entry in fs::read_dir(system).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name != "uv" && (with_interpreters || !is_interpreter(&name.to_string_lossy())) {
                let _ = symlink(entry.path(), folder.join(name));
            }
        }
    }
}

/// Refuses `push` and says where its interpreter is. Its modules are those of the standard library.
const GUARD_PY: &str = "#!/usr/bin/env python3\n\
    import datetime, hashlib, json, os, re, subprocess, sys, uuid\n\
    if 'push' in json.load(sys.stdin)['tool_input']['command']:\n    \
        print('I am ' + os.path.realpath(sys.prefix), file=sys.stderr)\n    \
        sys.exit(2)\n";

const GUARD_JS: &str = "#!/usr/bin/env node\n\
    const { dirname } = require('path');\n\
    const event = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n\
    if (event.tool_input.command.includes('push')) {\n  \
        console.error('I am ' + dirname(dirname(process.execPath)));\n  \
        process.exitCode = 2;\n}\n";

/// A project below a home folder that has one interpreter.
struct Machine {
    scratch: Scratch,
    installation: Installation,
    /// The name of the interpreter, and the hook for it.
    interpreter: &'static str,
    script: PathBuf,
}

impl Machine {
    fn new(kind: &str) -> Self {
        let scratch = Scratch::new();
        let project = scratch.path().join("home/code/project");
        for folder in [&scratch.path().join("temp"), &project.join(".claude/hooks")] {
            fs::create_dir_all(folder).unwrap();
        }
        let (kind, more) = match kind {
            "venv of the project" => ("venv", Some(project.to_str().unwrap())),
            kind => (kind, None),
        };
        let arguments: Vec<_> = [kind].into_iter().chain(more).collect();
        let installation = Installation::build(&scratch.path().join("home"), &arguments);
        let (interpreter, name, text) = match kind {
            "nvm" => ("node", "guard.js", GUARD_JS),
            _ => ("python3", "guard.py", GUARD_PY),
        };
        let script = project.join(".claude/hooks").join(name);
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let bin = scratch.path().join("bin");
        fs::create_dir(&bin).unwrap();
        link_system_programs(&bin, false);
        Machine { scratch, installation, interpreter, script }
    }

    /// The ways to start the hook, each with the folders of `PATH` before those of the system. `PATH` never has
    /// folders of the project.
    fn commands(&self) -> Vec<(String, &[PathBuf])> {
        let script = format!("\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/{}", self.script_name());
        let found = &*self.installation.path;
        let by_name = [(format!("{} {script}", self.interpreter), found), (script.clone(), found)];
        let is_of_project = self.installation.prefix.ends_with(".venv");
        let by_path =
            self.installation.programs.iter().map(|program| program.display().to_string());
        let of_project =
            is_of_project.then(|| "\"$CLAUDE_PROJECT_DIR\"/.venv/bin/python".to_owned());
        let by_path = by_path.chain(of_project);
        let by_path = by_path.map(|program| (format!("{program} {script}"), &[][..]));
        by_name.into_iter().filter(|_| !is_of_project).chain(by_path).collect()
    }

    fn script_name(&self) -> &str {
        self.script.file_name().unwrap().to_str().unwrap()
    }

    /// The results of `ls` and `git push` behind the hook.
    async fn results(&self, command: &str, path: &[PathBuf], confined: bool) -> String {
        let project = self.scratch.path().join("home/code/project");
        let home = self.scratch.path().join("home");
        let calls = ["ls", "git push"].map(|line| Step::call("bash", json!({"command": line})));
        let spec = ToolSpec::new("bash", "works", json!({"type": "object"}));
        let work = FnTool::new(spec, |_| async { Ok("worked".into()) });
        let agent =
            Agent::builder(ScriptedModel::new(calls.into_iter().chain([Step::text("done")])))
                .workspace(Workspace::new(&project).with_home(home.clone()))
                .tool(work.with_facts(Facts::zone(Zone::Safe)))
                .build()
                .unwrap();
        let handler = json!({"type": "command", "command": command});
        let text = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]}});
        let document = Document::parse("settings.json", &text.to_string()).unwrap();
        let (hooks, _) = claude::read(&document, &ClaudeFile::new("settings.json"));
        let folders = path.iter().cloned().chain([self.scratch.path().join("bin")]);
        let variables: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), std::env::join_paths(folders).unwrap()),
            ("HOME".into(), home.into()),
        ];
        let runner = Runner::new(env!("CARGO_BIN_EXE_cotter-spawner"))
            .with_environment(Environment::chosen(variables.clone(), &[] as &[&str]))
            .with_temp_below(&self.scratch.path().join("temp"));
        let host: Arc<dyn HookHost> = Arc::new(HookRunner::new(runner, variables));
        let folder = project.join(".claude");
        let base = HookLocation { state: Some(folder.clone()), folder, confined, host };
        let origin = if confined { Origin::Project } else { Origin::User };
        let put = |unit: &mut Registry| command_hook::register_all(unit, &hooks, &base);
        agent.extend(Owner::new(origin, "settings.json"), put).unwrap();
        let session = agent.new_session().await.unwrap();
        session.prompt("go").await.unwrap();
        let shown = transcript(&session);
        let results = shown.lines().filter(|line| line.starts_with("result "));
        results.map(|line| format!("{line}\n")).collect()
    }
}

#[tokio::test]
async fn b3_hooks_start_with_the_interpreters_of_every_version_manager() {
    let kinds =
        ["pyenv", "uv", "conda", "mise", "asdf", "brew", "venv", "venv of the project", "nvm"];
    let mut shown = String::new();
    for kind in kinds {
        let machine = Machine::new(kind);
        let commands = machine.commands();
        let _ = writeln!(shown, "{kind}: {} ways", commands.len());
        let wanted = format!("I am {}", machine.installation.prefix.display());
        let is_right = |results: &str| {
            let lines: Vec<_> = results.lines().collect();
            let is_denied = |line: &str| line.contains("(denied)") && line.contains(&wanted);
            matches!(*lines, [passed, denied] if passed.ends_with(": worked") && is_denied(denied))
        };
        for (command, path) in commands {
            let both = tokio::join!(
                machine.results(&command, path, false),
                machine.results(&command, path, true)
            );
            for (results, word) in [(both.0, "unconfined"), (both.1, "confined")] {
                if !is_right(&results) {
                    let _ = writeln!(shown, "  {word} {command}\n{results}");
                }
            }
        }
    }
    expect![[r#"
        pyenv: 4 ways
        uv: 4 ways
        conda: 3 ways
        mise: 4 ways
        asdf: 4 ways
        brew: 4 ways
        venv: 3 ways
        venv of the project: 2 ways
        nvm: 3 ways
    "#]]
    .assert_eq(&shown);
}
