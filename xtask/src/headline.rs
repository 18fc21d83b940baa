//! `cargo xtask headline`: the times that users feel, each beside its floor in the same run.
//!
//! The benches measure and print tables. This task reads the rows it knows from them and fails if a ratio is
//! above its bound. Bounds are far above the goals of docs/PERFORMANCE.md: they find a time that has multiplied,
//! and a busy machine does not fail them.

use crate::{command, failure::Failure};

/// One command for all benches, so that everything is built once. The words after `--` select rows.
const BENCHES: &str = "cargo bench --profile ci --locked -p cotter -p cotter-tools -p cotter-cli \
    --bench spine --bench bash --bench hooks --bench start -- \
    version rehearsal sandbox adds turn,";

/// The rows, with the highest ratio to the floor that passes.
const ROWS: &[HeadlineRow] = &[
    HeadlineRow { name: "cotter --version", bound: 4.5 },
    HeadlineRow { name: "cotter -p, rehearsal reads a file", bound: 10.0 },
    HeadlineRow { name: "bash true, sandbox off", bound: 4.5 },
    HeadlineRow { name: "a command hook adds", bound: 3.45 },
    HeadlineRow { name: "text turn, memory", bound: 20.0 },
];

struct HeadlineRow {
    /// The name in the table of its bench.
    name: &'static str,
    bound: f64,
}

#[expect(clippy::print_stdout, reason = "the table is the output")]
pub(crate) fn run() -> Result<(), Failure> {
    let output = command::output(BENCHES)?;
    let table = build_table(&output, ROWS)?;
    print!("{}", table.text);
    match table.exceeded.as_slice() {
        [] => Ok(()),
        rows => Err(Failure::new(format!("above its bound: {}", rows.join("; ")))
            .with_hint("run it again with nothing else at work; `cargo xtask bench` shows more")),
    }
}

/// The printed table, and the names of the rows that are above their bounds.
struct HeadlineTable {
    text: String,
    exceeded: Vec<&'static str>,
}

/// Builds the table from the output of the benches. A row that is missing there is an error.
fn build_table(output: &str, rows: &[HeadlineRow]) -> Result<HeadlineTable, Failure> {
    let line = |what: &str, median: &str, floor: &str, ratio: &str, bound: &str| {
        format!("{what:<34}  {median:>9}  {floor:<30}  {ratio:>6}  {bound:>6}\n")
    };
    let mut text = line("what", "median", "floor", "ratio", "bound");
    let mut exceeded = vec![];
    for row in rows {
        let (median, floor, ratio) = find_row(output, row.name).ok_or_else(|| {
            Failure::new(format!("the benches printed no row `{}` with a ratio", row.name))
        })?;
        let bound = row.bound;
        text += &line(row.name, median, floor, &format!("{ratio:.2}"), &format!("{bound}"));
        // A ratio that is not a number must not pass.
        if !matches!(ratio.partial_cmp(&bound), Some(order) if order.is_le()) {
            exceeded.push(row.name);
        }
    }
    Ok(HeadlineTable { text, exceeded })
}

/// Returns median, floor and ratio of the row with this name: `| name | median | floor | ratio | …`.
fn find_row<'a>(output: &'a str, name: &str) -> Option<(&'a str, &'a str, f64)> {
    output.lines().find_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let found = cells.next()? == name;
        let (median, floor, ratio) = (cells.next()?, cells.next()?, cells.next()?);
        found.then_some((median, floor, ratio.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{BENCHES, HeadlineRow, ROWS, build_table};

    const OUTPUT: &str = "\
| what | ours | beside | ratio | goal | |
|---|---|---|---|---|---|
| start | 1.22 ms | /bin/true 862.48 µs | 1.41 | ≤ 1.5 × | met |
| start of more | 9.00 ms | /bin/true 862.48 µs | 10.43 | | |
| what | ours | beside | ratio | goal | |
| broken | 1.00 ns | nothing 0.00 ns | NaN | | |
| alone | 1.00 ns | | | | |
";

    fn check(name: &'static str, bound: f64, expected: Expect) {
        expected.assert_eq(&match build_table(OUTPUT, &[HeadlineRow { name, bound }]) {
            Ok(table) => format!("{}above: {:?}\n", table.text, table.exceeded),
            Err(failure) => format!("{failure}\n"),
        });
    }

    #[test]
    fn ratio_above_its_bound_names_the_row() {
        check(
            "start",
            1.41,
            expect![[r#"
            what                                   median  floor                            ratio   bound
            start                                 1.22 ms  /bin/true 862.48 µs               1.41    1.41
            above: []
        "#]],
        );
        check(
            "start",
            1.4,
            expect![[r#"
            what                                   median  floor                            ratio   bound
            start                                 1.22 ms  /bin/true 862.48 µs               1.41     1.4
            above: ["start"]
        "#]],
        );
        check(
            "broken",
            2.0,
            expect![[r#"
            what                                   median  floor                            ratio   bound
            broken                                1.00 ns  nothing 0.00 ns                    NaN       2
            above: ["broken"]
        "#]],
        );
    }

    #[test]
    fn missing_row_or_ratio_is_an_error() {
        check(
            "star",
            2.0,
            expect![[r#"
            error: the benches printed no row `star` with a ratio
        "#]],
        );
        check(
            "alone",
            2.0,
            expect![[r#"
            error: the benches printed no row `alone` with a ratio
        "#]],
        );
    }

    /// A row that no word selects would not be measured.
    #[test]
    fn each_row_is_selected() {
        let (_, words) = BENCHES.split_once(" -- ").unwrap();
        for row in ROWS {
            assert!(words.split_whitespace().any(|word| row.name.contains(word)), "{}", row.name);
        }
    }
}
