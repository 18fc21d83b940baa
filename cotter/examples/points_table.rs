//! Prints the table of points as Markdown, for `cargo xtask docs`.

use cotter::{
    hooks::points::{POINTS, PointSpec},
    permission::verdict::Power,
};

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() {
    println!("| point | fires | powers | limit | a transform that fails |");
    println!("|---|---|---|---|---|");
    POINTS.iter().for_each(|row| println!("{}", line(row)));
}

fn line(row: &PointSpec) -> String {
    let powers: Vec<_> = row.powers.iter().map(|power: &Power| power.as_str()).collect();
    format!(
        "| `{}` | {} | {} | {} s | {} |",
        row.name,
        row.fires,
        powers.join(" "),
        row.limit.as_secs(),
        row.failed_transform.unwrap_or_default(),
    )
}
