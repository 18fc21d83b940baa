//! Time measurement and the result table.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// The result table.
pub(crate) struct Table {
    filter: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    ours: f64,
    floor: Option<(String, f64)>,
    goal: Goal,
}

/// The goal of a row.
pub(crate) enum Goal {
    /// At most this many nanoseconds.
    Nanos(f64),
    /// At most this many times the floor.
    Ratio(f64),
    /// At most this many bytes.
    Bytes(f64),
    /// At least this many gigabytes per second.
    Rate(f64),
    /// No goal: the row is for comparison.
    None,
}

impl Table {
    fn new(filter: Vec<String>) -> Self {
        Table { filter, rows: vec![] }
    }

    /// Takes the words of the command line as the filter: a row is wanted if its name contains one of them.
    pub(crate) fn from_args() -> Self {
        Table::new(std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect())
    }

    /// True if the filter selects the row.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|word| name.contains(word.as_str()))
    }

    pub(crate) fn add(&mut self, name: &str, ours: f64, goal: Goal) {
        self.rows.push(Row { name: name.into(), ours, floor: None, goal });
    }

    pub(crate) fn add_beside(&mut self, name: &str, ours: f64, floor: (&str, f64), goal: Goal) {
        let floor = Some((floor.0.to_owned(), floor.1));
        self.rows.push(Row { name: name.into(), ours, floor, goal });
    }

    #[expect(clippy::print_stdout, reason = "a bench shows its table")]
    pub(crate) fn print(&self) {
        println!("| what | ours | beside | ratio | goal | |");
        println!("|---|---|---|---|---|---|");
        for row in &self.rows {
            let show = match row.goal {
                Goal::Bytes(_) => format_bytes,
                Goal::Rate(_) => format_rate,
                _ => format_time,
            };
            let (beside, ratio) = match &row.floor {
                Some((name, floor)) => {
                    (format!("{name} {}", show(*floor)), format!("{:.2}", row.ours / floor))
                }
                None => (String::new(), String::new()),
            };
            let (goal, met) = match row.goal {
                Goal::Nanos(nanos) => {
                    (format!("≤ {}", format_time(nanos)), Some(row.ours <= nanos))
                }
                Goal::Bytes(bytes) => {
                    (format!("≤ {}", format_bytes(bytes)), Some(row.ours <= bytes))
                }
                Goal::Rate(least) => (format!("≥ {}", format_rate(least)), Some(row.ours >= least)),
                Goal::Ratio(most) => {
                    let floor = row.floor.as_ref().map_or(f64::NAN, |(_, floor)| *floor);
                    (format!("≤ {most} ×"), Some(row.ours / floor <= most))
                }
                Goal::None => (String::new(), None),
            };
            let met = met.map_or("", |met| if met { "met" } else { "MISSED" });
            println!("| {} | {} | {beside} | {ratio} | {goal} | {met} |", row.name, show(row.ours));
        }
    }
}

fn format_time(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{n:.2} ns"),
        n if n < 1e6 => format!("{:.2} µs", n / 1e3),
        n => format!("{:.2} ms", n / 1e6),
    }
}

fn format_bytes(bytes: f64) -> String {
    match bytes {
        n if n < 1e3 => format!("{n:.0} B"),
        n if n < 1e6 => format!("{:.2} kB", n / 1e3),
        n => format!("{:.2} MB", n / 1e6),
    }
}

fn format_rate(gigabytes: f64) -> String {
    format!("{gigabytes:.2} GB/s")
}

/// Returns the median time of one call, in nanoseconds, over batches long enough for the clock.
pub(crate) fn time(mut call: impl FnMut()) -> f64 {
    let started = Instant::now();
    let mut batch = 1u32;
    // Warm up, and find the number of calls that take a millisecond.
    loop {
        let start = Instant::now();
        (0..batch).for_each(|_| call());
        if start.elapsed() > Duration::from_millis(1) || batch >= 1 << 24 {
            break;
        }
        batch *= 2;
        if started.elapsed() > Duration::from_secs(2) {
            break;
        }
    }
    let mut samples: Vec<f64> = vec![];
    let measuring = Instant::now();
    while samples.len() < 25
        || (measuring.elapsed() < Duration::from_millis(300) && samples.len() < 400)
    {
        let start = Instant::now();
        (0..batch).for_each(|_| call());
        samples.push(start.elapsed().as_nanos() as f64 / f64::from(batch));
        if measuring.elapsed() > Duration::from_secs(5) {
            break;
        }
    }
    median(&mut samples)
}

/// Returns the median of `count` samples.
pub(crate) fn median_of(count: usize, sample: impl FnMut() -> f64) -> f64 {
    median(&mut std::iter::repeat_with(sample).take(count).collect::<Vec<_>>())
}

/// Returns the extra time of `more` over `less`, and the time of `less`: medians of alternating samples.
pub(crate) fn time_difference(
    mut less: impl FnMut() -> f64,
    mut more: impl FnMut() -> f64,
) -> (f64, f64) {
    let samples: Vec<_> = (0..100).map(|_| (less(), more())).collect();
    let mut differences: Vec<_> = samples.iter().map(|(less, more)| more - less).collect();
    let mut plain: Vec<_> = samples.iter().map(|(less, _)| *less).collect();
    (median(&mut differences), median(&mut plain))
}

/// Returns the median time of `call`. Its result is dropped outside the measured time.
pub(crate) fn time_once<T>(times: usize, mut call: impl FnMut() -> T) -> f64 {
    median_of(times, || {
        let start = Instant::now();
        let result = black_box(call());
        let elapsed = start.elapsed();
        drop(result);
        elapsed.as_nanos() as f64
    })
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
