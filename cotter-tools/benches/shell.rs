//! The cost of computing what a command line would touch.

#![expect(clippy::unwrap_used, reason = "helpers of the tests fail as tests do")]
#![expect(clippy::cast_precision_loss, reason = "there are few rows")]

#[path = "../../cotter/benches/spine/measure.rs"]
#[expect(dead_code, reason = "shared with the spine's bench, which uses all of it")]
mod measure;
#[path = "../tests/it/kit.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod kit;

use std::hint::black_box;

use cotter_tools::shell::facts;
use kit::Project;
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

/// The worst texts of 64 KB, by what they have much of.
fn worst() -> Vec<(&'static str, String)> {
    let many = |part: &str, count: usize| part.repeat(count.min(65_000 / part.len()));
    let chain = (0..1400).map(|n| format!("f{n}() {{ f{}; }};", n + 1)).collect::<String>();
    vec![
        ("eval, 200 times", format!("{}ls", many("eval ", 200))),
        ("30,000 words", format!("echo {}", many("a ", 30_000))),
        ("1,400 functions, each calling the next", chain),
        ("doubled variables", format!("A=aa;{}", many("A=$A$A;", 60_000))),
        ("doubled arguments", many("set -- \"$@\" \"$@\";", 60_000)),
        ("patterns", format!("cat {}", many("* ", 30_000))),
        ("braces", format!("echo {}", many("{a,b}{c,d} ", 6000))),
        ("recursive searches", many("grep -r x .;", 6000)),
        ("copies", many("cp -r . b;", 6000)),
        ("changes of the folder", many("cd a;", 12_000)),
        ("substitutions", many("$(a)", 16_000)),
        ("pipes", format!("a{}", many("|a", 30_000))),
        ("wrappers", format!("{}ls", many("env ", 16_000))),
        ("groups in groups", format!("{}ls", many("{ ", 30_000))),
        ("files of a group's output", format!("{{ {} }} {}", many(":;", 600), many(">a ", 20_000))),
        ("values in four folders", format!("cd a; cd b; perl {}", many("a=a=a=a=a ", 2000))),
        ("paths", format!("cat {}", many("a/../", 12_000))),
    ]
}

fn main() {
    let mut table = Table::from_args();
    let project = Project::new();
    for (name, command) in COMMANDS {
        let took = time(|| _ = black_box(facts(black_box(command), &project.workspace)));
        table.add(&format!("shell: {name}"), took, Goal::Nanos(100e3));
    }
    let cases = project.classes().into_iter().flat_map(|class| class.cases);
    let passing: Vec<_> = cases.filter(|case| case.verdicts == ["pass"]).collect();
    let took = time(|| {
        for case in &passing {
            black_box(facts(black_box(&case.command), &project.workspace));
        }
    });
    let goal = Goal::Nanos(passing.len() as f64 * 1e9 / 70e3);
    table.add(&format!("shell: {} commands that pass", passing.len()), took, goal);
    for (name, command) in worst() {
        let took = time(|| _ = black_box(facts(black_box(&command), &project.workspace)));
        table.add(&format!("shell: 64 KB of {name}"), took, Goal::Nanos(20e6));
    }
    table.print();
}
