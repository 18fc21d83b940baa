//! Confinement: what the kernel lets a command touch, by what its call was judged to touch.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use cotter::{
    Agent, AgentBuilder, Workspace,
    permission::{
        Zone,
        facts::Facts,
        rule::{Rule, RuleKind},
    },
};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step, not_tested, transcript};
use cotter_tools::{
    bash::{Bash, background::background},
    confine::{Confinement, Sandbox},
    process::{Exit, Runner, environment::Environment},
};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::machine::{Scratch, job, runner};

/// Ways to start the spawner: normally; where it may not make namespaces; as a user without rights, who
/// must make a user namespace first.
const WAYS: [(&str, &str); 3] = [
    ("as it comes", "exec SPAWNER \"$@\""),
    (
        "without namespaces",
        "exec unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_mnt_namespaces && \
         echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin \
         --inh-caps=-sys_admin SPAWNER \"$@\"' sh \"$@\"",
    ),
    ("without rights", "exec unshare -U --map-user=1000 --map-group=1000 SPAWNER \"$@\""),
];

/// A project with protected files, beside a home folder.
struct Machine {
    scratch: Scratch,
    /// The closed paths of the project.
    closed: &'static [&'static str],
    /// True if its commands outlive their calls.
    outlives: bool,
}

impl Machine {
    fn new() -> Self {
        let machine = Machine { scratch: Scratch::new(), closed: &[], outlives: false };
        for folder in
            ["project/src", "project/.vscode", "project/data", "home/.config", "cache", "bin"]
        {
            fs::create_dir_all(machine.path(folder)).unwrap();
        }
        for (file, text) in [
            ("project/data/token", "secret"),
            ("project/.envrc", "old"),
            ("project/.vscode/tasks.json", "old"),
            ("home/notes", "private"),
            ("home/.gitconfig", "[user]\nname = Me\nemail = me@example.org\n"),
        ] {
            fs::write(machine.path(file), text).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn workspace(&self) -> Workspace {
        Workspace::new(&self.path("project"))
            .with_home(self.path("home"))
            .with_closed(self.closed.iter().map(|name| self.path(name)))
    }

    fn runner(&self, way: &str) -> Runner {
        let script = self.path("bin/spawner");
        let (_, line) = WAYS.iter().find(|(name, _)| *name == way).unwrap();
        let line = line.replace("SPAWNER", env!("CARGO_BIN_EXE_cotter-spawner"));
        fs::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
        let variables = std::env::vars_os().filter(|(name, _)| name == "PATH");
        let home = ("HOME".into(), self.path("home").into());
        Runner::new(script)
            .with_environment(Environment::chosen(variables.chain([home]), &[] as &[&str]))
            .with_temp_below(&self.scratch.path())
            .with_caches([self.path("cache")])
    }

    /// A command line run as a call that was judged to touch this.
    async fn run(&self, way: &str, facts: &Facts, command: &str) -> String {
        self.run_in(way, facts, command, &self.workspace()).await
    }

    async fn run_in(
        &self,
        way: &str,
        facts: &Facts,
        command: &str,
        workspace: &Workspace,
    ) -> String {
        let runner = self.runner(way);
        let temp = runner.temp().unwrap();
        let mut job = job(command, workspace.cwd());
        job.environment = runner.environment().for_workspace(workspace, temp);
        job.confinement = Confinement::of_call(facts, workspace, &runner).unwrap();
        job.confinement.as_mut().unwrap().outlives = self.outlives;
        let mut running = runner.start(job).await.unwrap();
        let mut said = String::new();
        while let Some(chunk) = running.next().await {
            said += &String::from_utf8_lossy(&chunk.bytes);
        }
        let ended = running.wait_for_end().await.unwrap_or_else(|cause| panic!("{way}: {cause}"));
        ended.remarks.iter().for_each(|remark| said += &format!("[{remark}]\n"));
        if ended.exit != Exit::Code(0) {
            said += &format!("{:?}\n", ended.exit);
        }
        let private = temp.parent().unwrap().display().to_string();
        said.replace(&private, "PRIVATE").replace(&self.scratch.path().display().to_string(), "")
    }
}

/// True if this machine can confine commands. If not, these tests print that they are skipped; with
/// `COTTER_TEST_CONFINE` set this is a failure.
pub(crate) fn can_confine() -> bool {
    match runner().cannot_confine() {
        None => true,
        Some(why) => {
            assert!(std::env::var_os("COTTER_TEST_CONFINE").is_none(), "{why}");
            not_tested(&why.to_string());
            false
        }
    }
}

/// Runs one command line with every way to start the spawner, each on a fresh machine.
async fn check(zone: Zone, command: &str, expected: Expect) {
    check_closed(&[], zone, command, expected).await;
}

/// Like `check`, with closed paths in the project.
async fn check_closed(
    closed: &'static [&'static str],
    zone: Zone,
    command: &str,
    expected: Expect,
) {
    if !can_confine() {
        return;
    }
    let mut all = vec![];
    for (way, _) in WAYS {
        let machine = Machine { closed, ..Machine::new() };
        all.push(machine.run(way, &Facts::zone(zone), command).await);
        assert_eq!(fs::read_to_string(machine.path("project/.envrc")).unwrap(), "old", "{way}");
        assert!(!machine.path("project/later").exists(), "{way}");
    }
    let differing = WAYS.iter().zip(&all).filter(|(_, said)| **said != all[0]);
    let mut shown = all[0].clone();
    differing.for_each(|((way, _), said)| shown += &format!("-- {way}:\n{said}"));
    expected.assert_eq(&shown);
}

#[tokio::test]
async fn b8_writes_stay_in_the_project_the_temp_folder_and_caches() {
    let command = "for to in src/x new ../cache/x $TMPDIR/x ../out ../home/x /etc/x /dev/null; do \
                   echo words > $to && echo wrote $to; done 2>&1";
    check(
        Zone::Build,
        command,
        expect![[r#"
            wrote src/x
            wrote new
            wrote ../cache/x
            wrote PRIVATE/tmp/x
            /bin/bash: line 1: ../out: Read-only file system
            /bin/bash: line 1: ../home/x: Read-only file system
            /bin/bash: line 1: /etc/x: Read-only file system
            wrote /dev/null
            -- without namespaces:
            wrote src/x
            wrote new
            wrote ../cache/x
            wrote PRIVATE/tmp/x
            /bin/bash: line 1: ../out: Permission denied
            /bin/bash: line 1: ../home/x: Permission denied
            /bin/bash: line 1: /etc/x: Permission denied
            wrote /dev/null
        "#]],
    )
    .await;
}

#[tokio::test]
async fn b8_command_in_zone_safe_cannot_write() {
    let command = "for to in src/x .envrc ../cache/x $TMPDIR/x; do \
                   echo words > $to && echo wrote $to; done 2>&1; rm -f .envrc 2>&1";
    check(
        Zone::Safe,
        command,
        expect![[r#"
            /bin/bash: line 1: src/x: Read-only file system
            /bin/bash: line 1: .envrc: Read-only file system
            /bin/bash: line 1: ../cache/x: Read-only file system
            wrote PRIVATE/tmp/x
            rm: cannot remove '.envrc': Read-only file system
            Code(1)
            -- without namespaces:
            /bin/bash: line 1: src/x: Permission denied
            /bin/bash: line 1: .envrc: Permission denied
            /bin/bash: line 1: ../cache/x: Permission denied
            wrote PRIVATE/tmp/x
            rm: cannot remove '.envrc': Permission denied
            Code(1)
        "#]],
    )
    .await;
}

#[tokio::test]
async fn b8_home_folder_is_closed_except_for_the_git_user() {
    let command = "cat ../home/notes; ls ../home; git config user.name; ls / > /dev/null";
    check(
        Zone::Build,
        &format!("({command}) 2>&1"),
        expect![[r#"
        cat: ../home/notes: Permission denied
        ls: cannot open directory '../home': Permission denied
        Me
        ls: cannot open directory '/': Permission denied
        Code(2)
    "#]],
    )
    .await;
    check(
        Zone::External,
        &format!("({command}) 2>&1; echo x 2>&1 > ../home/notes"),
        expect![[r#"
            privatenotes
            Me
            ls: cannot open directory '/': Permission denied
            /bin/bash: line 1: ../home/notes: Read-only file system
            Code(1)
            -- without namespaces:
            privatenotes
            Me
            ls: cannot open directory '/': Permission denied
            /bin/bash: line 1: ../home/notes: Permission denied
            Code(1)
        "#]],
    )
    .await;
}

#[tokio::test]
async fn s1_closed_paths_inside_the_project_are_closed() {
    let command = "cat data/token; echo x > data/new; mv data gone; rm -r data; cat data/*; \
                   cat /proc/self/root$PWD/data/token; ln data/token link; mkdir later; true";
    let closed = &["project/data", "project/later"];
    check_closed(closed, Zone::Build, &format!("({command}) 2>&1"), expect![[r#"
        cat: data/token: No such file or directory
        /bin/bash: line 1: data/new: Read-only file system
        mv: cannot move 'data' to 'gone': Device or resource busy
        rm: cannot remove 'data': Device or resource busy
        cat: 'data/*': No such file or directory
        cat: /proc/self/root/project/data/token: No such file or directory
        ln: failed to access 'data/token': No such file or directory
        [the command changed /project/later, which is closed to commands: it was removed; the command's version is in PRIVATE/aside/1-later]
        -- without namespaces:
        cat: data/token: Permission denied
        /bin/bash: line 1: data/new: Permission denied
        mv: cannot move 'data' to 'gone': Permission denied
        rm: cannot remove 'data/token': Permission denied
        cat: data/token: Permission denied
        cat: /proc/self/root/project/data/token: Permission denied
        ln: failed to create hard link 'link' => 'data/token': Permission denied
        mkdir: cannot create directory 'later': Permission denied
    "#]]).await;
}

#[tokio::test]
async fn s15_protected_paths_are_read_only_without_approval() {
    let command = "echo new > .envrc; rm -f .envrc; mv .vscode gone; echo x > .vscode/tasks.json; \
                   mkdir -p .github/workflows; echo x > .mcp.json; ln -s /tmp CLAUDE.md; mkdir .git; \
                   ln .envrc link && echo new > link; cat .envrc";
    check(Zone::Build, &format!("({command}) 2>&1"), expect![[r#"
        /bin/bash: line 1: .envrc: Read-only file system
        rm: cannot remove '.envrc': Device or resource busy
        mv: cannot move '.vscode' to 'gone': Device or resource busy
        /bin/bash: line 1: .vscode/tasks.json: Read-only file system
        ln: failed to create hard link 'link' => '.envrc': Invalid cross-device link
        cat: .envrc: Permission denied
        [the command changed /project/.mcp.json, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.mcp.json]
        [the command changed /project/CLAUDE.md, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-CLAUDE.md]
        [the command changed /project/.github/workflows, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-workflows]
        [the command changed /project/.git, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.git]
        Code(1)
        -- without namespaces:
        /bin/bash: line 1: .vscode/tasks.json: No such file or directory
        ln: failed to access '.envrc': No such file or directory
        cat: .envrc: No such file or directory
        [the command changed /project/.mcp.json, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.mcp.json]
        [the command changed /project/.vscode, which decides what runs later and was not approved: it was restored]
        [the command changed /project/.envrc, which decides what runs later and was not approved: it was restored]
        [the command changed /project/CLAUDE.md, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-CLAUDE.md]
        [the command changed /project/.github/workflows, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-workflows]
        [the command changed /project/.git, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.git]
        Code(1)
    "#]]).await;
}

#[tokio::test]
async fn s15_approved_protected_paths_are_writable() {
    if !can_confine() {
        return;
    }
    for (way, _) in WAYS {
        let machine = Machine::new();
        let mut facts = Facts::zone(Zone::Workspace);
        facts.writes = vec![machine.path("project/.envrc"), machine.path("project/.vscode/new")];
        let said = machine
            .run(way, &facts, "echo new > .envrc; echo x > .vscode/new; echo x > .mcp.json")
            .await;
        assert_eq!(fs::read_to_string(machine.path("project/.envrc")).unwrap(), "new\n", "{way}");
        assert!(machine.path("project/.vscode/new").exists(), "{way}");
        assert!(!machine.path("project/.mcp.json").exists(), "{way}");
        assert!(said.contains("/project/.mcp.json, which decides"), "{way}: {said}");
    }
}

const SOCKETS: &str = "python3 - <<'END'
import socket, errno
for name, family, kind in [('unix', socket.AF_UNIX, socket.SOCK_STREAM), ('tcp', socket.AF_INET, socket.SOCK_STREAM),
                     ('udp', socket.AF_INET, socket.SOCK_DGRAM), ('tcp6', socket.AF_INET6, socket.SOCK_STREAM),
                     ('netlink', socket.AF_NETLINK, socket.SOCK_RAW), ('vsock', socket.AF_VSOCK, socket.SOCK_STREAM),
                     ('packet', socket.AF_PACKET, socket.SOCK_RAW), ('alg', socket.AF_ALG, socket.SOCK_SEQPACKET)]:
    try:
        socket.socket(family, kind).close()
        print(name, 'open')
    except OSError as error:
        print(name, errno.errorcode[error.errno])
for name, kind in [('pair', socket.SOCK_STREAM), ('datagram pair', socket.SOCK_DGRAM),
                   ('raw pair', socket.SOCK_RAW)]:
    try:
        socket.socketpair(socket.AF_UNIX, kind)
        print(name, 'open')
    except OSError as error:
        print(name, errno.errorcode[error.errno])
END";

/// Runs with the python of the system, which lies in an open folder.
async fn check_python(zone: Zone, script: &str, expected: Expect) {
    let Some(python) = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        assert!(std::env::var_os("COTTER_TEST_CONFINE").is_none(), "no python3");
        not_tested("no python3 in a folder of the system");
        return;
    };
    check(zone, &script.replace("python3", python), expected).await;
}

#[tokio::test]
async fn b8_zone_decides_the_network_access() {
    check_python(
        Zone::Build,
        SOCKETS,
        expect![[r#"
        unix EPERM
        tcp EPERM
        udp EPERM
        tcp6 EPERM
        netlink open
        vsock EPERM
        packet EPERM
        alg EPERM
        pair open
        datagram pair EPERM
        raw pair EPERM
    "#]],
    )
    .await;
    check_python(
        Zone::Network,
        SOCKETS,
        expect![[r#"
        unix EPERM
        tcp open
        udp open
        tcp6 open
        netlink open
        vsock EPERM
        packet EPERM
        alg EPERM
        pair open
        datagram pair EPERM
        raw pair EPERM
    "#]],
    )
    .await;
    check_python(
        Zone::External,
        SOCKETS,
        expect![[r#"
        unix open
        tcp open
        udp open
        tcp6 open
        netlink open
        vsock EPERM
        packet EPERM
        alg EPERM
        pair open
        datagram pair open
        raw pair open
    "#]],
    )
    .await;
}

#[tokio::test]
async fn b8_dangerous_system_calls_are_refused() {
    let script = "python3 - <<'END'
import ctypes, errno, fcntl, os, platform
libc = ctypes.CDLL(None, use_errno=True)
numbers = {'x86_64': dict(ptrace=101, mount=165, keyctl=250, bpf=321, io_uring_setup=425, clone3=435, userfaultfd=323, unshare=272),
           'aarch64': dict(ptrace=117, mount=40, keyctl=219, bpf=280, io_uring_setup=425, clone3=435, userfaultfd=282, unshare=97)}
for name, number in numbers[platform.machine()].items():
    flags = 0x10000000 if name == 'unshare' else 0
    print(name, libc.syscall(number, flags, 0, 0, 0, 0) >= 0 or errno.errorcode[ctypes.get_errno()])
try:
    fcntl.ioctl(0, 0x5412, b'x')
except OSError as error:
    print('TIOCSTI', errno.errorcode[error.errno])
print('x32', libc.syscall(0x40000000 + 39) >= 0 or errno.errorcode[ctypes.get_errno()])
END";
    check_python(
        Zone::External,
        script,
        expect![[r#"
        ptrace EPERM
        mount EPERM
        keyctl EPERM
        bpf EPERM
        io_uring_setup EPERM
        clone3 ENOSYS
        userfaultfd EPERM
        unshare EPERM
        TIOCSTI EPERM
        x32 ENOSYS
    "#]],
    )
    .await;
}

#[tokio::test]
async fn s17_confined_command_cannot_kill_its_minder() {
    let command = "kill -9 $PPID 2> /dev/null || echo refused; kill -0 $$ && echo alive; \
                   (cat /proc/$PPID/environ) 2> /dev/null || echo refused";
    check(
        Zone::Build,
        command,
        expect![[r#"
            refused
            alive
            refused
        "#]],
    )
    .await;
}

fn git(folder: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").args([
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
    ]);
    assert!(git.args(args).output().unwrap().status.success(), "{args:?}");
}

/// A repository of one commit in a folder.
fn repository(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("f"), "one\n").unwrap();
    git(folder, &["init", "-q", "-b", "main", "."]);
    git(folder, &["add", "f"]);
    git(folder, &["commit", "-qm", "one"]);
}

const COMMIT: &str = "(echo more >> f && git add f && git commit -qm more && git log --oneline | wc -l; \
      git branch side && git stash list; echo x > GIT/hooks/pre-commit; \
      git config core.fsmonitor ./evil; git config user.name; echo x > GIT/config; \
      echo x > GIT/commondir; mv GIT GIT.old; ls GIT/hooks/pre-commit; \
      for f in GIT/worktrees/*/commondir .git; do [ -f $f ] && echo x > $f; done) 2>&1";

/// Commits and attacks in every way, in a place that is prepared with its repository.
async fn check_git(prepare: impl Fn(&Machine) -> (Workspace, PathBuf), expected: Expect) {
    if !can_confine() {
        return;
    }
    let mut all = String::new();
    for (way, _) in WAYS {
        let machine = Machine::new();
        let (workspace, common) = prepare(&machine);
        let before = fs::read_to_string(common.join("config")).unwrap();
        let command = COMMIT.replace("GIT", &common.display().to_string());
        let facts = Facts::zone(Zone::Workspace);
        let said = machine.run_in(way, &facts, &command, &workspace).await;
        all += &format!("-- {way}\n{}", said.replace("/bin/bash: line 1: ", ""));
        if common.exists() {
            assert_eq!(fs::read_to_string(common.join("config")).unwrap(), before, "{way}");
            assert!(!common.join("hooks/pre-commit").exists(), "{way}");
            assert!(!common.join("commondir").exists(), "{way}");
            git(workspace.cwd(), &["status"]);
        }
    }
    expected.assert_eq(&all);
}

#[tokio::test]
async fn b8_git_can_commit_and_cannot_write_hooks_or_config() {
    let prepare = |machine: &Machine| {
        repository(&machine.path("project"));
        (machine.workspace(), machine.path("project/.git"))
    };
    check_git(prepare, expect![[r#"
        -- as it comes
        2
        /project/.git/hooks/pre-commit: Read-only file system
        error: could not write config file .git/config: Device or resource busy
        Me
        /project/.git/config: Read-only file system
        mv: cannot move '/project/.git' to '/project/.git.old': Device or resource busy
        ls: cannot access '/project/.git/hooks/pre-commit': No such file or directory
        [the command changed /project/.git/commondir, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-commondir]
        Code(1)
        -- without namespaces
        2
        Me
        ls: cannot access '/project/.git/hooks/pre-commit': No such file or directory
        [the command changed /project/.git/hooks, which decides what runs later and was not approved: its repository no longer exists]
        [the command changed /project/.git/config, which decides what runs later and was not approved: its repository no longer exists]
        Code(1)
        -- without rights
        2
        /project/.git/hooks/pre-commit: Read-only file system
        error: could not write config file .git/config: Device or resource busy
        Me
        /project/.git/config: Read-only file system
        mv: cannot move '/project/.git' to '/project/.git.old': Device or resource busy
        ls: cannot access '/project/.git/hooks/pre-commit': No such file or directory
        [the command changed /project/.git/commondir, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-commondir]
        Code(1)
    "#]]).await;
}

#[tokio::test]
async fn b8_git_can_commit_in_a_linked_worktree_and_cannot_write_hooks_or_config() {
    let prepare = |machine: &Machine| {
        repository(&machine.path("main"));
        git(&machine.path("main"), &["worktree", "add", "-q", "../tree"]);
        let tree = machine.path("tree");
        (machine.workspace().with_project(&tree).with_cwd(&tree), machine.path("main/.git"))
    };
    check_git(prepare, expect![[r#"
        -- as it comes
        2
        /main/.git/hooks/pre-commit: Read-only file system
        error: could not write config file /main/.git/config: Device or resource busy
        Me
        /main/.git/config: Read-only file system
        mv: cannot move '/main/.git' to '/main/.git.old': Read-only file system
        ls: cannot access '/main/.git/hooks/pre-commit': No such file or directory
        /main/.git/worktrees/tree/commondir: Read-only file system
        .git: Read-only file system
        [the command changed /main/.git/commondir, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-commondir]
        Code(1)
        -- without namespaces
        error: Unable to create '/main/.git/packed-refs.lock': Permission denied
        2
        /main/.git/hooks/pre-commit: Permission denied
        error: could not lock config file /main/.git/config: Permission denied
        Me
        /main/.git/config: Permission denied
        /main/.git/commondir: Permission denied
        mv: cannot move '/main/.git' to '/main/.git.old': Permission denied
        ls: cannot access '/main/.git/hooks/pre-commit': No such file or directory
        [the command changed /tree/.git, which decides what runs later and was not approved: it was restored; the command's version is in PRIVATE/aside/1-.git]
        [the command changed /main/.git/worktrees/tree/commondir, which decides what runs later and was not approved: it was restored; the command's version is in PRIVATE/aside/1-commondir]
        -- without rights
        2
        /main/.git/hooks/pre-commit: Read-only file system
        error: could not write config file /main/.git/config: Device or resource busy
        Me
        /main/.git/config: Read-only file system
        mv: cannot move '/main/.git' to '/main/.git.old': Read-only file system
        ls: cannot access '/main/.git/hooks/pre-commit': No such file or directory
        /main/.git/worktrees/tree/commondir: Read-only file system
        .git: Read-only file system
        [the command changed /main/.git/commondir, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-commondir]
        Code(1)
    "#]]).await;
}

#[tokio::test]
async fn s15_only_a_plain_git_init_may_make_a_repository() {
    if !can_confine() {
        return;
    }
    for (way, _) in WAYS {
        for (command, made) in [
            ("git init -q", true),
            ("git init -q; bash -c true", false),
            ("git init -q --template=evil", false),
            ("git init -q --templ evil", false),
        ] {
            let machine = Machine::new();
            let facts = cotter_tools::shell::facts(command, &machine.workspace());
            let said = machine.run(way, &facts, command).await;
            assert_eq!(
                machine.path("project/.git/HEAD").exists(),
                made,
                "{way}: {command}: {said}"
            );
        }
    }
}

#[tokio::test]
async fn b8_git_file_opens_only_a_repository_that_lists_the_worktree() {
    if !can_confine() {
        return;
    }
    let machine = Machine::new();
    let other = machine.path("other");
    fs::create_dir(&other).unwrap();
    git(&other, &["init", "-q", "-b", "main", "."]);
    fs::create_dir_all(other.join(".git/worktrees/fake")).unwrap();
    fs::write(machine.path("project/.git"), format!("gitdir: {}\n", other.join(".git").display()))
        .unwrap();
    let said = machine
        .run("as it comes", &Facts::zone(Zone::Build), "ls ../other/.git/objects 2>&1")
        .await;
    expect![[r#"
        ls: cannot open directory '../other/.git/objects': Permission denied
        Code(2)
    "#]]
    .assert_eq(&said);
}

#[tokio::test]
async fn sandbox_required_refuses_to_run_without_confinement() {
    let scratch = Scratch::new();
    let direct = Runner::direct().with_sandbox(Sandbox::Required);
    let cause = direct.start(job("true", &scratch.path())).await.unwrap_err();
    expect!["the setting `sandbox` is `required`, and there is no spawner to confine commands"]
        .assert_eq(&cause.to_string());
    assert!(!Runner::direct().confines());
    assert!(!runner().with_sandbox(Sandbox::Off).confines());
}

#[tokio::test]
async fn s17_confined_command_cannot_set_limits_of_its_minder() {
    let script = "python3 - <<'END'
import resource, os, errno
for name, pid in [('own', 0), ('minder', os.getppid())]:
    try:
        resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1) if pid else (600, 600))
        print(name, 'set')
    except OSError as error:
        print(name, errno.errorcode[error.errno])
END";
    check_python(
        Zone::Build,
        script,
        expect![[r#"
            own set
            minder EPERM
        "#]],
    )
    .await;
}

#[tokio::test]
async fn s15_restoring_protected_files_follows_no_link_of_the_command() {
    if !can_confine() {
        return;
    }
    for (way, _) in WAYS {
        let machine = Machine::new();
        let theirs = machine.path("home/other/.github/workflows");
        fs::create_dir_all(&theirs).unwrap();
        fs::write(theirs.join("ci.yml"), "theirs").unwrap();
        let said = machine
            .run(way, &Facts::zone(Zone::Build), "ln -s ../home/other/.github .github")
            .await;
        assert_eq!(
            fs::read_to_string(theirs.join("ci.yml")).unwrap_or_default(),
            "theirs",
            "{way}: {said}"
        );
        assert!(machine.path("project/.github").symlink_metadata().is_err(), "{way}: {said}");
    }
}

#[tokio::test]
async fn s15_only_new_protected_files_are_removed_if_the_command_still_runs() {
    if !can_confine() {
        return;
    }
    let machine = Machine { outlives: true, ..Machine::new() };
    let command = "echo new > .envrc; mkdir .husky; echo evil > .husky/pre-commit; \
                   head -c 20000000 /dev/zero > .mcp.json";
    let said = machine.run("without namespaces", &Facts::zone(Zone::Build), command).await;
    expect![[r#"
        [/project/.mcp.json, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-.mcp.json]
        [/project/.envrc, which decides what runs later and was not approved, was changed while it ran: it was left as it is: another program may have changed it]
        [/project/.husky, which decides what runs later and was not approved, was changed while it ran: it was removed; its last version is in PRIVATE/aside/1-.husky]
    "#]].assert_eq(&said);
    assert_eq!(fs::read_to_string(machine.path("project/.envrc")).unwrap(), "new\n");
    for name in [".husky", ".mcp.json"] {
        assert!(machine.path("project").join(name).symlink_metadata().is_err(), "{name}");
    }
}

/// Runs a call of the tool `bash` with every way to start the spawner. A question is answered with no.
async fn check_call(
    prepare: impl Fn(&Machine),
    rules: &[(RuleKind, &str)],
    command: &str,
    expected: Expect,
) {
    check_calls(prepare, rules, &[command], expected).await;
}

/// Like `check_call`, with several calls of one agent.
async fn check_calls(
    prepare: impl Fn(&Machine),
    rules: &[(RuleKind, &str)],
    commands: &[&str],
    expected: Expect,
) {
    if !can_confine() {
        return;
    }
    let mut all = vec![];
    for (way, _) in WAYS {
        let machine = Machine::new();
        prepare(&machine);
        all.push(machine.calls(way, rules, commands).await);
    }
    let differing = WAYS.iter().zip(&all).filter(|(_, said)| **said != all[0]);
    let mut shown = all[0].clone();
    differing.for_each(|((way, _), said)| shown += &format!("-- {way}:\n{said}"));
    expected.assert_eq(&shown);
}

impl Machine {
    /// The result of a call of `bash`, with its decision.
    async fn call(&self, way: &str, rules: &[(RuleKind, &str)], command: &str) -> String {
        self.calls(way, rules, &[command]).await
    }

    /// The results of calls of one agent. A command that ends with `&` is started in the background.
    async fn calls(&self, way: &str, rules: &[(RuleKind, &str)], commands: &[&str]) -> String {
        let runner = self.runner(way);
        let temp = runner.temp().unwrap().parent().unwrap().display().to_string();
        let steps = commands.iter().map(|command| match command.strip_suffix(" &") {
            Some(command) => {
                Step::call("bash_background", json!({"action": "start", "command": command}))
            }
            None => Step::call("bash", json!({ "command": command })),
        });
        let steps: Vec<_> = steps.chain([Step::text("done")]).collect();
        let builder = Agent::builder(ScriptedModel::new(steps))
            .ui(ScriptedUi::new(vec![PersonAnswer::No("no".into()); commands.len()]))
            .workspace(self.workspace())
            .tool(Bash::new(runner.clone()))
            .extend(background(runner));
        let add = |builder: AgentBuilder, (kind, text): &(RuleKind, &str)| {
            builder.rule(Rule::parse(*kind, text).unwrap())
        };
        let agent = rules.iter().fold(builder, add).build().unwrap();
        agent.process_request("go").await.unwrap();
        let said = transcript(&agent.main_session().await.unwrap());
        let (_, said) = said.split_once("result c1.1").unwrap();
        let (said, _) = said.rsplit_once("assistant: done").unwrap();
        let is_result = |line: &&str| !line.starts_with("call ");
        let said: String = said.split_inclusive('\n').filter(is_result).collect();
        let said = said.trim_start().replace(&temp, "PRIVATE");
        said.replace(&self.scratch.path().display().to_string(), "")
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[tokio::test]
async fn b8_metadata_outside_the_write_roots_does_not_change() {
    let command = "chmod 000 ../home/notes; touch -d 2001-01-01 ../home/notes; \
                   chmod 777 ../home; python3 -c 'import os; os.setxattr(\"../home/notes\", \"user.x\", b\"y\")'; \
                   chmod 600 data/token && touch -d 2001-01-01 data/token && echo inside";
    check_python(
        Zone::Build,
        &format!("({command}) 2>&1 | grep -v '^ \\|Traceback'"),
        expect![[r#"
            chmod: changing permissions of '../home/notes': Read-only file system
            touch: cannot touch '../home/notes': Read-only file system
            chmod: changing permissions of '../home': Read-only file system
            OSError: [Errno 30] Read-only file system: '../home/notes'
            inside
            -- without namespaces:
            PermissionError: [Errno 13] Permission denied: '../home/notes'
            inside
        "#]],
    )
    .await;
}

#[tokio::test]
async fn b8_system_v_ipc_is_private() {
    if !can_confine() {
        return;
    }
    let own = fs::read_link("/proc/self/ns/ipc").unwrap().display().to_string();
    for (way, _) in WAYS {
        let facts = Facts::zone(Zone::Build);
        let said = Machine::new().run(way, &facts, "readlink /proc/self/ns/ipc").await;
        assert_eq!(said.trim() != own, way != "without namespaces", "{way}: {said}");
    }
}

#[tokio::test]
async fn root_b8_confined_root_has_no_capabilities_and_reads_no_password_hashes() {
    if !can_confine() || !rustix::process::geteuid().is_root() {
        return;
    }
    let command = "(grep Cap[PE] /proc/self/status; cat /etc/shadow /etc/gshadow; \
                   touch -d 2001-01-01 /etc/passwd; ls /etc/ssl/private) 2>&1";
    let said = Machine::new().run("as it comes", &Facts::zone(Zone::Build), command).await;
    expect![[r#"
        CapPrm:	0000000000000000
        CapEff:	0000000000000000
        cat: /etc/shadow: Permission denied
        cat: /etc/gshadow: Permission denied
        touch: cannot touch '/etc/passwd': Read-only file system
    "#]]
    .assert_eq(&said);
}

#[tokio::test]
async fn s15_protected_names_are_read_only_at_any_depth() {
    if !can_confine() {
        return;
    }
    let names = [
        "packages/a/.envrc",
        "packages/a/.vscode/tasks.json",
        "packages/a/b/c/CLAUDE.md",
        "packages/a/.mcp.json",
        "packages/a/.husky/pre-commit",
        "packages/a/.github/workflows/ci.yml",
        "vendor/other/.git/config",
        "vendor/other/.git/hooks/pre-commit",
    ];
    let writes: Vec<_> =
        names.iter().map(|name| format!("echo new > {name}; rm -rf {name}")).collect();
    let command =
        format!("({}) > /dev/null 2>&1; echo x > packages/a/b/c/other", writes.join("; "));
    for (way, _) in WAYS {
        let machine = Machine::new();
        names.iter().for_each(|name| machine.put(&format!("project/{name}"), "old"));
        let said = machine.run(way, &Facts::zone(Zone::Build), &command).await;
        for name in names {
            let now = fs::read_to_string(machine.path("project").join(name));
            assert_eq!(now.ok().as_deref(), Some("old"), "{way}: {name}: {said}");
        }
        assert!(machine.path("project/packages/a/b/c/other").exists(), "{way}: {said}");
    }
}

#[tokio::test]
async fn s15_new_protected_names_at_any_depth_are_taken_away() {
    let command = "./build.sh";
    let script = "#!/bin/sh\nmkdir -p packages/b/.vscode sub/.git\necho evil > packages/b/.envrc\n\
                  echo evil > packages/b/.vscode/tasks.json\necho fsmonitor > sub/.git/config\n\
                  echo fine > packages/b/plain\nmv packages/a packages/c\nmkdir packages/a\n\
                  echo evil > packages/a/AGENTS.md\n";
    let prepare = |machine: &Machine| {
        machine.put("project/build.sh", script);
        machine.put("project/packages/a/AGENTS.md", "old");
        let script = machine.path("project/build.sh");
        assert!(Command::new("chmod").arg("+x").arg(script).status().unwrap().success());
    };
    let rules = [(RuleKind::Allow, "bash(./build.sh)")];
    check_call(prepare, &rules, command, expect![[r#"
        : the command changed /project/packages/a/AGENTS.md, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-AGENTS.md
        the command changed /project/packages/b/.envrc, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.envrc
        the command changed /project/packages/b/.vscode, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.vscode
        the command changed /project/sub/.git, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.git
        -- without namespaces:
        : the command changed /project/packages/a/AGENTS.md, which decides what runs later and was not approved: it was restored; the command's version is in PRIVATE/aside/1-AGENTS.md
        the command changed /project/packages/b/.envrc, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.envrc
        the command changed /project/packages/b/.vscode, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.vscode
        the command changed /project/sub/.git, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.git
    "#]]).await;
}

#[tokio::test]
async fn s15_git_makes_repositories_deeper_in_the_project() {
    if !can_confine() {
        return;
    }
    for (way, _) in WAYS {
        let machine = Machine::new();
        let said =
            machine.call(way, &[(RuleKind::Allow, "bash(git init *)")], "git init -q sub").await;
        let made = machine.path("project/sub/.git/config").exists();
        assert!(made || said.contains("denied"), "{way}: {said}");
    }
}

#[tokio::test]
async fn s18_secrets_that_a_call_does_not_name_cannot_be_read() {
    let prepare = |machine: &Machine| {
        for file in
            ["project/.env", "project/deep/down/server.key", "project/deep/.aws/credentials"]
        {
            machine.put(file, "hidden");
        }
        std::os::unix::fs::symlink("deep/down/server.key", machine.path("project/link")).unwrap();
        fs::hard_link(machine.path("project/.env"), machine.path("project/deep/hard")).unwrap();
    };
    let command = "for f in .$(printf %s env) deep/$(printf %s/ser%s.k%s down ver ey) \
                   deep/.a$(printf %s/%s ws credentials) $(printf l%s ink) deep/$(printf h%s ard); do \
                   cat $f || stat -c '%A %s' $f; done 2>&1; ls -A deep/.a$(printf %s ws)";
    check_call(
        prepare,
        &[],
        command,
        expect![[r#"
            : cat: .env: Permission denied
            ---------- 0
            cat: deep/down/server.key: Permission denied
            ---------- 0
            cat: deep/.aws/credentials: No such file or directory
            stat: cannot statx 'deep/.aws/credentials': No such file or directory
            cat: link: Permission denied
            lrwxrwxrwx 20
            cat: deep/hard: Permission denied
            ---------- 0
            reading .env was refused: it has a secret's name or a rule is about it, and this call does not name it. A call that names it is asked about; an allow rule `read(.env)` of the person opens a secret's name
            reading deep/down/server.key was refused: it has a secret's name or a rule is about it, and this call does not name it. A call that names it is asked about; an allow rule `read(deep/down/server.key)` of the person opens a secret's name
            reading deep/hard was refused: it has a secret's name or a rule is about it, and this call does not name it. A call that names it is asked about; an allow rule `read(deep/hard)` of the person opens a secret's name
            -- without namespaces:
            (denied): Permission denied for `bash`: no. Do not retry this exact call.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn s18_named_and_allowed_secrets_can_be_read() {
    let prepare = |machine: &Machine| {
        machine.put("project/.env", "named");
        machine.put("project/.npmrc", "allowed");
        machine.put("project/other.key", "hidden");
    };
    let rules = [(RuleKind::Allow, "read(.npmrc)")];
    let command = "X=1; cat .env .$(printf np%s mrc) ot$(printf her.%s key) 2>&1";
    check_call(
        prepare,
        &rules,
        command,
        expect![[r#"
            : namedallowedcat: other.key: Permission denied
            exit code 1
            reading other.key was refused: it has a secret's name or a rule is about it, and this call does not name it. A call that names it is asked about; an allow rule `read(other.key)` of the person opens a secret's name
            SecretRead(".env")
            -- without namespaces:
            (denied): Permission denied for `bash`: no. Do not retry this exact call.
            SecretRead(".env")
        "#]],
    )
    .await;
}

#[tokio::test]
async fn s18_deny_rules_over_files_hold_for_unknown_words() {
    let prepare = |machine: &Machine| {
        machine.put("project/plans/next.md", "denied");
        machine.put("project/notes.md", "denied");
        machine.put("project/fixed.txt", "old\n");
        machine.put("project/free.txt", "free\n");
        std::os::unix::fs::symlink("notes.md", machine.path("project/alias")).unwrap();
    };
    let rules = [
        (RuleKind::Deny, "read(./plans)"),
        (RuleKind::Deny, "read(notes.md)"),
        (RuleKind::Deny, "write(fixed.txt)"),
    ];
    let command = "(for f in pl$(printf %s ans/next.md) not$(printf %s es.md) al$(printf %s ias) \
                   fix$(printf %s ed.txt) fre$(printf %s e.txt); do cat $f; done; \
                   echo new >> fix$(printf %s ed.txt)) 2>&1";
    check_call(
        prepare,
        &rules,
        command,
        expect![[r#"
            : cat: plans/next.md: No such file or directory
            cat: notes.md: Permission denied
            cat: alias: Permission denied
            old
            free
            /bin/bash: line 1: fixed.txt: Read-only file system
            exit code 1
            reading notes.md was refused: it has a secret's name or a rule is about it, and this call does not name it. A call that names it is asked about; an allow rule `read(notes.md)` of the person opens a secret's name
            writing to fixed.txt was refused: it decides what runs later, and this call was not approved for it
            -- without namespaces:
            (denied): Permission denied for `bash`: no. Do not retry this exact call.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn s18_unknown_words_ask_where_a_rule_cannot_be_enforced() {
    let rules = [(RuleKind::Deny, "write")];
    check_call(
        |_| {},
        &rules,
        "cat $(echo src/x)",
        expect![[r#"
            (denied): Permission denied for `bash`: no. Do not retry this exact call.
        "#]],
    )
    .await;
    let rules = [(RuleKind::Deny, "read(//usr/share/*)")];
    check_call(
        |_| {},
        &rules,
        "cat $(echo src/x)",
        expect![[r#"
            (denied): Permission denied for `bash`: no. Do not retry this exact call.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn s18_code_of_the_project_asks_without_a_view() {
    if !can_confine() {
        return;
    }
    let mut all = String::new();
    for (way, _) in WAYS {
        for sandbox in [Sandbox::Auto, Sandbox::Landlock, Sandbox::Required] {
            let machine = Machine::new();
            let runner = machine.runner(way).with_sandbox(sandbox);
            let (counts, why) = (
                runner.counts_as_confined(Zone::Build, &machine.workspace()),
                runner.cannot_confine().is_some(),
            );
            all += &format!("{way}, {}: confined {counts}, refused {why}\n", sandbox.as_str());
        }
    }
    expect![[r#"
        as it comes, auto: confined true, refused false
        as it comes, landlock: confined true, refused false
        as it comes, required: confined true, refused false
        without namespaces, auto: confined false, refused false
        without namespaces, landlock: confined true, refused false
        without namespaces, required: confined false, refused true
        without rights, auto: confined true, refused false
        without rights, landlock: confined true, refused false
        without rights, required: confined true, refused false
    "#]]
    .assert_eq(&all);
}

#[tokio::test]
async fn s18_folder_that_a_rule_denies_stays_in_its_place() {
    let prepare = |machine: &Machine| {
        machine.put("project/inner/private/k.txt", "denied");
        machine.put("project/inner/locked/l.txt", "old");
        machine.put("project/inner/free/f.txt", "free");
        machine.put(
            "project/move.sh",
            "cd inner; mv private pub; mv locked open; mv free moved; cd ..; mv inner other",
        );
        machine.put(
            "project/use.sh",
            "cat */pub/* */private/*; cat */moved/*; for f in */locked/* */open/*; do echo new > $f; done",
        );
    };
    let rules = [
        (RuleKind::Deny, "read(./inner/private/**)"),
        (RuleKind::Deny, "write(./inner/locked/**)"),
    ];
    check_calls(prepare, &rules, &["sh move.sh 2>&1", "sh use.sh 2>&1"], expect![[r#"
        : mv: cannot move 'private' to 'pub': Device or resource busy
        mv: cannot move 'locked' to 'open': Device or resource busy
        mv: cannot move 'inner' to 'other': Device or resource busy
        exit code 1
        result c2.1: cat: '*/pub/*': No such file or directory
        cat: inner/private/k.txt: Permission denied
        freeuse.sh: 1: cannot create inner/locked/l.txt: Read-only file system
        use.sh: 1: cannot create */open/*: Directory nonexistent
        exit code 2
        reading inner/private/k.txt was refused: it has a secret's name or a rule is about it, and this call does not name it. A call that names it is asked about; an allow rule `read(inner/private/k.txt)` of the person opens a secret's name
        writing to inner/locked/l.txt was refused: it decides what runs later, and this call was not approved for it
        -- without namespaces:
        (denied): Permission denied for `bash`: no. Do not retry this exact call.
        result c2.1 (denied): Permission denied for `bash`: no. Do not retry this exact call.
    "#]]).await;
}

/// Scripts of a project, which calls run with `sh`.
fn put_scripts(machine: &Machine, scripts: &[(&str, &str)]) {
    scripts.iter().for_each(|(name, text)| machine.put(&format!("project/{name}.sh"), text));
}

#[tokio::test]
async fn root_s18_folder_that_a_call_closed_is_opened_again() {
    if !can_confine() {
        return;
    }
    for (way, _) in WAYS.into_iter().filter(|(way, _)| *way != "without namespaces") {
        let machine = Machine::new();
        machine.put("project/cfg/.env", "hidden");
        machine.put("project/pk2/CLAUDE.md", "old");
        machine.put("project/sub/.git/config", "old");
        fs::create_dir(machine.path("project/quiet")).unwrap();
        fs::create_dir(machine.path("project/fixed")).unwrap();
        put_scripts(
            &machine,
            &[
                (
                    "close",
                    "echo x > quiet/.envrc; echo x > fixed/.envrc; mkdir -p a/b; echo x > a/b/.mcp.json\n\
                     chmod 0311 cfg; chmod 0111 pk2 quiet a/b; chmod 0555 fixed; chmod 0 a\n\
                     echo x > sub/.git/commondir; mkdir -p a2/.vscode/x; echo x > a2/.vscode/x/y\n\
                     chmod 0 sub/.git a2/.vscode/x a2/.vscode; chmod 0555 a2; chmod 0311 .",
                ),
                ("use", "cat cfg/.env; echo new > pk2/CLAUDE.md; ls a/b"),
            ],
        );
        let rules = [(RuleKind::Deny, "read(.env)")];
        let said = machine.calls(way, &rules, &["sh close.sh 2>&1", "sh use.sh 2>&1"]).await;
        let (closed, used) = said.split_once("result c2.1").unwrap();
        for name in
            ["quiet/.envrc", "fixed/.envrc", "a/b/.mcp.json", "sub/.git/commondir", "a2/.vscode"]
        {
            assert!(
                machine.path("project").join(name).symlink_metadata().is_err(),
                "{way}: {name}"
            );
            assert!(closed.contains(&format!("changed /project/{name}")), "{way}: {name}: {said}");
        }
        assert!(closed.contains("closed /project/cfg to its owner"), "{way}: {said}");
        assert!(used.contains("cat: cfg/.env: Permission denied"), "{way}: {said}");
        assert!(!used.contains("hidden"), "{way}: {said}");
        assert_eq!(fs::read_to_string(machine.path("project/pk2/CLAUDE.md")).unwrap(), "old");
    }
}

#[tokio::test]
async fn root_s18_folder_that_cannot_be_listed_is_hidden_as_a_whole() {
    if !can_confine() {
        return;
    }
    for (way, _) in WAYS.into_iter().filter(|(way, _)| *way != "without namespaces") {
        let machine = Machine::new();
        machine.put("project/cfg/x", "hidden");
        let close = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(machine.path("project/cfg"), mode).unwrap();
        };
        close(0o311);
        put_scripts(
            &machine,
            &[("use", "chmod 755 cfg; cat cfg/x; echo > cfg/.envrc; mv cfg gone; ls; echo done")],
        );
        let said = machine.calls(way, &[], &["sh use.sh 2>&1", "chmod 755 cfg 2>&1"]).await;
        close(0o755);
        expect![[r#"
            : chmod: changing permissions of 'cfg': Read-only file system
            cat: cfg/x: No such file or directory
            use.sh: 1: cannot create cfg/.envrc: Read-only file system
            mv: cannot move 'cfg' to 'gone': Device or resource busy
            cfg
            data
            src
            use.sh
            done
            cfg cannot be listed or is too deep: commands cannot use what is in it
            result c2.1: chmod: changing permissions of 'cfg': Read-only file system
            exit code 1
            cfg cannot be listed or is too deep: commands cannot use what is in it
        "#]]
        .assert_eq(&said);
        assert_eq!(fs::read_to_string(machine.path("project/cfg/x")).unwrap(), "hidden");
    }
}

#[tokio::test]
async fn s15_many_secret_names_do_not_hide_protected_ones() {
    let prepare = |machine: &Machine| {
        machine.put("project/sub/.git/config", "old\n");
        machine.put("project/aa/.env", "hidden");
        put_scripts(
            machine,
            &[
                ("make", "for i in $(seq 1 4200); do : > j$i.pem; done"),
                ("use", "mkdir -p pp/x; echo evil > pp/x/.envrc; echo evil >> sub/.git/config"),
                ("read", "cat aa/.env"),
            ],
        );
    };
    let rules = [
        (RuleKind::Allow, "bash(sh make.sh)"),
        (RuleKind::Allow, "bash(sh use.sh)"),
        (RuleKind::Deny, "read(.env)"),
    ];
    check_calls(prepare, &rules, &["sh make.sh", "sh use.sh", "sh read.sh"], expect![[r#"
        : the project has too many files to look at all: protected files that this command made may have stayed, and code of the project is asked about from now on
        result c2.1: use.sh: 1: cannot create sub/.git/config: Read-only file system
        exit code 2
        the command changed /project/pp/x/.envrc, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.envrc
        writing to sub/.git/config was refused: it decides what runs later, and this call was not approved for it
        result c3.1 (denied): Permission denied for `bash`: no. Do not retry this exact call.
        -- without namespaces:
        : the project has too many files to look at all: protected files that this command made may have stayed, and code of the project is asked about from now on
        result c2.1: the command changed /project/sub/.git/config, which decides what runs later and was not approved: it was restored; the command's version is in PRIVATE/aside/1-config
        the command changed /project/pp/x/.envrc, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.envrc
        result c3.1 (denied): Permission denied for `bash`: no. Do not retry this exact call.
    "#]]).await;
}

#[tokio::test]
async fn s15_nested_repositories_keep_what_decides_what_git_runs() {
    let prepare = |machine: &Machine| {
        repository(&machine.path("project/sub"));
        machine.put("project/sub/.git/modules/libs/foo/config", "old\n");
        machine.put("project/other/.git/HEAD", "ref: refs/heads/main\n");
        let hooks = machine.path("project/sub/.git/hooks");
        fs::remove_dir_all(hooks).unwrap();
        put_scripts(
            machine,
            &[(
                "attack",
                "mv sub/.git sub/old; mv sub moved; mv other/.git other/old\n\
                 mv sub/.git/modules/libs sub/.git/modules/x\n\
                 echo evil > sub/.git/modules/libs/foo/config\n\
                 mkdir -p sub/.git/modules/libs/foo/hooks\n\
                 echo evil > sub/.git/modules/libs/foo/hooks/post-checkout\n\
                 mkdir sub/.git/hooks; echo evil > sub/.git/hooks/post-checkout\n\
                 echo ../../evil > sub/.git/commondir; echo evil > other/.git/config\n\
                 cd sub; echo more >> f; git add f; git -c user.name=a -c user.email=b commit -qm more",
            )],
        );
    };
    check_call(prepare, &[], "sh attack.sh 2>&1", expect![[r#"
        : mv: cannot move 'sub/.git' to 'sub/old': Device or resource busy
        mv: cannot move 'sub' to 'moved': Device or resource busy
        mv: cannot move 'other/.git' to 'other/old': Device or resource busy
        mv: cannot move 'sub/.git/modules/libs' to 'sub/.git/modules/x': Device or resource busy
        attack.sh: 3: cannot create sub/.git/modules/libs/foo/config: Read-only file system
        fatal: not a git repository (or any of the parent directories): .git
        fatal: not a git repository (or any of the parent directories): .git
        exit code 128
        the command changed /project/other/.git/config, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-config
        the command changed /project/sub/.git/commondir, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-commondir
        the command changed /project/sub/.git/hooks, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-hooks
        the command changed /project/sub/.git/modules/libs/foo/hooks, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/2-hooks
        writing to sub/.git/modules/libs/foo/config was refused: it decides what runs later, and this call was not approved for it
        -- without namespaces:
        (denied): Permission denied for `bash`: no. Do not retry this exact call.
    "#]]).await;
}

#[tokio::test]
async fn s15_submodules_deeper_in_the_repository_are_protected() {
    let prepare = |machine: &Machine| {
        repository(&machine.path("project"));
        machine.put("project/.git/modules/libs/foo/config", "old\n");
        put_scripts(
            machine,
            &[(
                "attack",
                "cd .git/modules; echo evil > libs/foo/config; mkdir libs/foo/hooks\n\
                 echo evil > libs/foo/hooks/post-checkout; echo evil > libs/foo/commondir; mv libs x",
            )],
        );
    };
    check_call(prepare, &[], "sh attack.sh 2>&1", expect![[r#"
        : attack.sh: 1: cannot create libs/foo/config: Read-only file system
        mv: cannot move 'libs' to 'x': Device or resource busy
        exit code 1
        the command changed /project/.git/modules/libs/foo/hooks, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-hooks
        the command changed /project/.git/modules/libs/foo/commondir, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-commondir
        -- without namespaces:
        (denied): Permission denied for `bash`: no. Do not retry this exact call.
    "#]]).await;
}

#[tokio::test]
async fn s15_protected_names_in_odd_places_are_taken_away() {
    let deep = "p=$(printf '%0200d' 0); cd deep; for i in $(seq 1 25); do mkdir $p; cd $p; done; echo x > .envrc";
    let cut = "2>&1 | sed 's/00000*/0/g' | sort -u";
    let prepare = |machine: &Machine| {
        fs::create_dir(machine.path("project/deep")).unwrap();
        put_scripts(
            machine,
            &[
                (
                    "make",
                    "mkdir -p u4/.aws u5/.ssh/x u9/.github w; echo x > u4/.aws/.envrc\n\
                     echo x > u5/.ssh/x/CLAUDE.md; ln -s ../../w u9/.github/workflows",
                ),
                ("deep", deep),
                ("again", &deep.replace("mkdir $p; ", "")),
            ],
        );
    };
    let [deep, again] = ["deep", "again"].map(|name| format!("bash {name}.sh {cut}"));
    let commands = ["sh make.sh", &deep, &again];
    check_calls(prepare, &[], &commands, expect![[r#"
        : the command changed /project/u4/.aws/.envrc, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-.envrc
        the command changed /project/u5/.ssh/x/CLAUDE.md, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-CLAUDE.md
        the command changed /project/u9/.github/workflows, which decides what runs later and was not approved: it was removed; the command's version is in PRIVATE/aside/1-workflows
        result c2.1: cd: error retrieving current directory: getcwd: cannot access parent directories: Permission denied
        a folder deep in /project/deep cannot be listed or is too deep: nothing in it was checked, and commands cannot use it
        result c3.1: again.sh: line 1: .envrc: Read-only file system
        again.sh: line 1: cd: 0: No such file or directory
        reading .envrc was refused: it has a secret's name or a rule is about it, and this call does not name it. A call that names it is asked about; an allow rule `read(.envrc)` of the person opens a secret's name
        -- without namespaces:
        (denied): Permission denied for `bash`: no. Do not retry this exact call.
        result c2.1 (denied): Permission denied for `bash`: no. Do not retry this exact call.
        result c3.1 (denied): Permission denied for `bash`: no. Do not retry this exact call.
    "#]]).await;
}

#[tokio::test]
async fn s15_git_init_approves_only_the_repository_that_it_names() {
    if !can_confine() {
        return;
    }
    let evil = "mkdir -p evilrepo/.git x2/sub/.git; for git in evilrepo/.git x2/sub/.git .git; do \
                echo evil > $git/config; done; mv x2 gone; mkdir -p x2/.git && echo evil > x2/.git/config";
    let rules = [(RuleKind::Allow, "bash(sh evil.sh)")];
    for (way, _) in WAYS {
        let machine = Machine::new();
        put_scripts(&machine, &[("evil", evil)]);
        let calls = [
            "sleep 1000 &",
            "git init -q x2",
            "git init -q -b main x3",
            "git init -q",
            "sh evil.sh",
        ];
        let said = machine.calls(way, &rules, &calls).await;
        let path = |name: &str| machine.path("project").join(name);
        for made in [".git", "x2/.git", "x3/.git"] {
            let config = fs::read_to_string(path(made).join("config")).unwrap_or_default();
            assert!(config.contains("repositoryformatversion"), "{way}: {made}: {said}");
        }
        for evil in ["evilrepo/.git", "x2/sub/.git"] {
            assert!(!path(evil).exists(), "{way}: {evil}: {said}");
        }
    }
}
