//! Runs scripts, confined, and tells what they ran, read and changed.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use cotter::{
    Workspace,
    permission::{Zone, facts::Facts},
};
use cotter_tools::{
    confine::{Confinement, Sandbox},
    process::{Environment, Job, Runner},
};

use crate::project::{Changes, HOME, PROJECT, Project};

/// The file to which stubs append.
const LOG: &str = "/oracle/log";
/// The folder of the stubs, the first on the path of scripts.
const BIN: &str = "/oracle/bin";
const STUB: &str = "/oracle/programs/oracle_stub";

/// Programs that do what they always do after they were written down.
const REAL: [&str; 71] = [
    "base64",
    "basename",
    "bash",
    "cat",
    "chmod",
    "cmp",
    "comm",
    "cp",
    "csplit",
    "cut",
    "date",
    "dd",
    "diff",
    "dirname",
    "du",
    "env",
    "expand",
    "expr",
    "fgrep",
    "find",
    "fold",
    "grep",
    "gunzip",
    "gzip",
    "head",
    "install",
    "join",
    "jq",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mktemp",
    "mv",
    "nice",
    "nl",
    "nohup",
    "od",
    "paste",
    "pr",
    "readlink",
    "realpath",
    "rm",
    "sed",
    "seq",
    "setsid",
    "sh",
    "sha256sum",
    "shuf",
    "sort",
    "split",
    "stat",
    "stdbuf",
    "strings",
    "tac",
    "tail",
    "tar",
    "tee",
    "timeout",
    "touch",
    "tr",
    "truncate",
    "uniq",
    "wc",
    "who",
    "xargs",
    "xxd",
    "xz",
    "yes",
    "zip",
    "sleep",
];

/// Programs that are only written down.
pub(crate) const STUBS: [&str; 13] = [
    "awk", "cargo", "curl", "frob", "git", "go", "make", "node", "npm", "perl", "python3", "sudo",
    "wget",
];

/// Programs of the lists above that are run for real and that this machine does not have. No row of the
/// grammar with one of them is generated.
pub(crate) fn missing_programs() -> Vec<&'static str> {
    REAL.into_iter().filter(|name| !real_path(name).exists()).collect()
}

fn real_path(name: &str) -> PathBuf {
    Path::new("/usr/bin").join(name)
}

/// True for a program that scripts find on their path, if the machine has it.
pub(crate) fn is_known(name: &str) -> bool {
    REAL.contains(&name) || STUBS.contains(&name)
}

/// The observed effects of a script.
pub(crate) struct Observed {
    /// The words of every program that was started.
    pub(crate) commands: Vec<Vec<String>>,
    pub(crate) changes: Changes,
}

/// Runs scripts in the scratch project.
pub(crate) struct Bench {
    pub(crate) project: Project,
    pub(crate) workspace: Workspace,
    runner: Runner,
    confinement: Confinement,
}

impl Bench {
    /// Prepares the stubs and the project. Fails where commands cannot be confined.
    pub(crate) fn new() -> io::Result<Self> {
        let missing = missing_programs();
        let real: Vec<_> = REAL.into_iter().filter(|name| !missing.contains(name)).collect();
        for name in &real {
            std::os::unix::fs::symlink(real_path(name), format!("/oracle/real/{name}"))?;
        }
        for name in real.iter().chain(&STUBS) {
            fs::copy(STUB, format!("{BIN}/{name}"))?;
        }
        fs::write(LOG, "")?;
        let project = Project::create(fs::read(STUB)?)?;
        let workspace = Workspace::new(PROJECT.as_ref()).with_home(HOME);
        fs::create_dir_all("/oracle/private")?;
        let path = [("PATH".into(), BIN.into()), ("HOME".into(), HOME.into())];
        let runner = Runner::new("/proc/self/exe")
            .with_environment(Environment::chosen(path, &[] as &[&str]))
            .with_temp_below("/oracle/private".as_ref())
            .with_sandbox(Sandbox::Required);
        // The judge is on trial, not the sandbox: within the scratch tree nothing is refused.
        let plan = Confinement::of_call(&Facts::zone(Zone::Build), &workspace, &runner)?;
        let mut confinement =
            plan.ok_or_else(|| io::Error::other("commands cannot be confined here"))?;
        confinement.writes.extend([HOME.into(), "/work".into(), "/tmp".into(), LOG.into()]);
        confinement.reads.push("/oracle".into());
        confinement.protected.clear();
        confinement.nested.clear();
        confinement.covered.clear();
        Ok(Bench { project, workspace, runner, confinement })
    }

    /// Runs a script with bash. It is ended after a few seconds.
    pub(crate) async fn run(&self, script: &str) -> io::Result<Observed> {
        fs::write(LOG, "")?;
        self.project.stamp()?;
        let variables = [("PATH", BIN), ("HOME", HOME), ("LC_ALL", "C")];
        let job = Job {
            program: STUB.into(),
            args: vec![OsString::from(script)],
            cwd: PROJECT.into(),
            environment: variables
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            stdin: None,
            confinement: Some(self.confinement.clone()),
        };
        let mut running = self.runner.start(job).await.map_err(io::Error::other)?;
        let output = async { while running.next().await.is_some() {} };
        // A script that is ended early did what it did: that is compared all the same.
        tokio::time::timeout(Duration::from_secs(3), output).await.ok();
        running.end();
        running.wait_for_end().await.map_err(io::Error::other)?;
        let log = String::from_utf8_lossy(&fs::read(LOG)?).into_owned();
        Ok(Observed { commands: read_log(&log), changes: self.project.take_changes()? })
    }
}

/// The commands in a log of the stubs.
fn read_log(log: &str) -> Vec<Vec<String>> {
    let (mut words, mut commands) = (log.split_terminator('\0'), vec![]);
    while let Some(count) = words.next().and_then(|count| count.parse().ok()) {
        commands.push(words.by_ref().take(count).map(str::to_owned).collect());
    }
    commands
}
