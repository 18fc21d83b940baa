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
    let mut table = Table::from_args();
    directives::measure(&mut table);
    hooks::measure(&mut table);
    turns::measure(&mut table);
    parallel::measure(&mut table);
    sessions::measure(&mut table);
    memory::measure(&mut table);
    table.print();
}
