//! What the spine costs, beside the cheapest way to do the same thing, in one run.
//!
//! Each row is the median of many batches. A row with a floor shows the ratio; the goals are those of
//! docs/PERFORMANCE.md. `cargo xtask bench [FILTER]` runs it; a filter keeps rows whose name has it.

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
