//! What a person reads on a machine that lets nobody make a view of the files, such as a container.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use cotter_test::not_tested;
use expect_test::expect;

use crate::support::World;

/// Runs the rest of its words where no namespace can be made.
const WITHOUT_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_mnt_namespaces && \
    echo 0 > /proc/sys/user/max_user_namespaces && \
    exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"$@\"";

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", WITHOUT_NAMESPACES, "sh"]);
    command
}

/// True if this machine can refuse namespaces to a program.
fn can_refuse() -> bool {
    let is_possible = unshare().arg("true").output().is_ok_and(|output| output.status.success());
    if !is_possible {
        not_tested("`unshare -Ur` is not allowed here");
    }
    is_possible
}

/// Runs a command on a machine without views.
fn output(world: &World, args: &[&str]) -> Output {
    let mut command = unshare();
    command.arg(env!("CARGO_BIN_EXE_cotter")).args(args).stdin(Stdio::null());
    command.env_clear().envs(world.env()).current_dir(world.path("project"));
    command.output().unwrap()
}

fn world(settings: &str) -> World {
    let path = std::env::var_os("PATH").unwrap();
    let world = World::new().with_env("NO_COLOR", "1").with_env("PATH", PathBuf::from(path));
    world.settings(settings);
    world.write_executable("project/build.sh", "#!/bin/sh\necho built\n");
    world
}

/// What `doctor` says about confinement, the verdict on code of the project, and a run of it.
fn shown(settings: &str) -> String {
    let world = world(settings);
    let doctor = world.shown(&output(&world, &["doctor"]));
    let section = doctor.split("\n\n").find(|part| part.starts_with("confinement"));
    let explained = output(&world, &["explain", "bash", "./build.sh"]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    let verdict: String = explained.lines().take(2).map(|line| format!("{line}\n")).collect();
    // The start does not wait for the check of views.
    let script = world.script(
        r#"{"calls": [{"name": "bash", "input": {"command": "./build.sh"}}], "delayMs": 1000}, {"text": "done"}"#,
    );
    let run = world.shown(&output(&world, &["-p", "--script", &script, "go"]));
    format!("{}\n# explain\n{verdict}# run\n{run}", section.unwrap_or(&doctor))
}

#[test]
fn b8_missing_view_is_told_by_doctor_and_the_start() {
    if can_refuse() {
        expect![[r#"
            confinement
              ok      commands of the agent: confined  (sandbox auto)
              ok      hooks of the project: confined
              ok      servers: cannot reach the folders of Cotter and sockets, otherwise not confined
              note    view of the files: none: commands may change modes and times of your files, read secrets in the project and write protected names deeper in it; code of the project asks (`"sandbox": "landlock"` would let it run)
                        reason this machine allows no namespaces: No space left on device (os error 28)
            # explain
            bash {"command":"./build.sh"}
            ask: zone `build` asks at level `standard`
            # run
            exit 0
            --- stdout
            done
            --- stderr
            warning: view of the files: none: commands may change modes and times of your files, read secrets in the project and write protected names deeper in it; code of the project asks (`"sandbox": "landlock"` would let it run) (this machine allows no namespaces: No space left on device (os error 28))
            refused: bash {"command":"./build.sh"}: zone `build` asks at level `standard`, and no person can be asked; `--ask` asks you on the terminal
        "#]].assert_eq(&shown("{}"));
    }
}

#[test]
fn b8_landlock_alone_runs_code_of_the_project_and_says_what_stays_open() {
    if can_refuse() {
        expect![[r#"
            confinement
              ok      commands of the agent: confined  (sandbox landlock)
              ok      hooks of the project: confined
              ok      servers: cannot reach the folders of Cotter and sockets, otherwise not confined
              note    view of the files: none: commands may change modes and times of your files, read secrets in the project and write protected names deeper in it; code of the project runs without it (`"sandbox": "landlock"`)
                        reason this machine allows no namespaces: No space left on device (os error 28)
            # explain
            bash {"command":"./build.sh"}
            pass
            # run
            exit 0
            --- stdout
            done
            --- stderr
            warning: view of the files: none: commands may change modes and times of your files, read secrets in the project and write protected names deeper in it; code of the project runs without it (`"sandbox": "landlock"`) (this machine allows no namespaces: No space left on device (os error 28))
        "#]].assert_eq(&shown(r#"{"sandbox": "landlock"}"#));
    }
}
