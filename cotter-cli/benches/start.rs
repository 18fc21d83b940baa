//! What the command line costs to start, beside the cheapest program there is.

#[path = "../../cotter/benches/spine/measure.rs"]
#[expect(dead_code, reason = "shared with the spine's bench, which uses all of it")]
mod measure;

use std::process::{Command, Stdio};

use measure::{Goal, Table, median_of};

fn main() {
    let filter = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let mut table = Table::new(filter);
    let home = tempfile::tempdir().expect("a folder is made");
    std::fs::write(home.path().join("notes.txt"), "one\ntwo\n").expect("a file is written");
    let bare = || time_of(&mut Command::new("/bin/true"));
    let cotter = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cotter"));
        command.args(args).env_clear().env("HOME", home.path()).current_dir(home.path());
        time_of(&mut command)
    };
    let rows: [(&str, &[&str], Goal); 2] = [
        ("cotter --version", &["--version"], Goal::Ratio(1.5)),
        (
            "cotter -p, rehearsal reads a file",
            &["-p", "--model", "rehearsal", "read notes.txt"],
            Goal::Nanos(6e6),
        ),
    ];
    for (what, args, goal) in rows {
        if table.wants(what) {
            // Turn about, so that a busy moment strikes both.
            let mut floors = vec![];
            let ours = median_of(200, || {
                floors.push(bare());
                cotter(args)
            });
            let floor = median_of(floors.len(), || floors.pop().unwrap_or_default());
            table.add_beside(what, ours, ("/bin/true", floor), goal);
        }
    }
    table.print();
}

fn time_of(command: &mut Command) -> f64 {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = std::time::Instant::now();
    let status = command.status().expect("the program starts");
    assert!(status.success(), "the program works");
    started.elapsed().as_nanos() as f64
}
