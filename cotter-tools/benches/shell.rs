//! The cost of computing what a command line would touch.

#[path = "../../cotter/benches/spine/measure.rs"]
#[expect(dead_code, reason = "shared with the spine's bench, which uses all of it")]
mod measure;

use std::hint::black_box;

use cotter::Workspace;
use cotter_tools::shell::facts;
use measure::{Goal, Table, time};

/// Command lines from short to long.
const COMMANDS: [(&str, &str); 5] = [
    ("one word", "ls"),
    ("one command", "cargo test -p cotter --lib -- --nocapture"),
    ("a pipeline", "git log --oneline -20 | grep -i fix | head -5"),
    (
        "a compound command",
        "cd src && for f in a b; do grep -n TODO \"$f\" > out.txt; done; ls -la 2>&1 | tail -3",
    ),
    (
        "a script in a script",
        "timeout 10 bash -lc 'set -e; make -j4 && echo \"$(date)\" >> log' || sudo rm -rf build",
    ),
];

fn main() {
    let filter = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let mut table = Table::new(filter);
    let folder = std::env::temp_dir();
    let workspace = Workspace::new(&folder);
    for (name, command) in COMMANDS {
        let took = time(|| _ = black_box(facts(black_box(command), &workspace)));
        table.add(&format!("shell: {name}"), took, Goal::Nanos(100e3));
    }
    table.print();
}
