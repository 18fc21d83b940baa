//! The cost of the runtime, next to the cheapest way to do the same work, in one run.
//!
//! Each row is the median of many batches. A row with a floor shows the ratio. The goals are those of
//! docs/PERFORMANCE.md. `cargo xtask bench [FILTER]` runs the benchmark; a filter keeps rows whose name
//! contains it.

mod directives;
mod hooks;
mod measure;
mod memory;
mod parallel;
mod sessions;
mod turns;

use measure::Table;

fn main() {
    let filter: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let mut table = Table::new(filter);
    directives::measure(&mut table);
    hooks::measure(&mut table);
    turns::measure(&mut table);
    parallel::measure(&mut table);
    sessions::measure(&mut table);
    memory::measure(&mut table);
    table.print();
}
