//! The part of the oracle outside the scratch root: reads options, starts the parts inside and prints what they
//! found.

use std::{env, error::Error, fs, io::Read, path::Path, process::Child, time::Instant};

use serde_json::Value;

use crate::{
    inside::{Plan, Tally},
    kit::Project,
    project::PROJECT,
    scratch::Scratch,
};

/// The rules of the judge that can be switched off.
const RULES: [u8; 11] = [1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13];
/// The share of generated scripts that must pass, in percent, without those made for rare rows.
const MIN_PASSED: usize = 30;

/// The options of a run.
struct Options {
    plan: Plan,
    jobs: usize,
    /// Switch rules off instead.
    tries_rules: bool,
}

/// Runs the oracle and prints its figures. Fails if a script did more than was predicted.
#[expect(clippy::print_stdout, reason = "the figures are the output")]
pub(crate) fn run(args: &[&str]) -> Result<(), Box<dyn Error>> {
    let options = Options::parse(args)?;
    let scratch = Scratch::new(&serde_json::to_string(&texts()?)?)?;
    if options.tries_rules {
        return try_rules(&scratch, &options.plan);
    }
    let start = Instant::now();
    let parts = (0..options.jobs).map(|job| {
        let executed = options.plan.executed.div_ceil(options.jobs);
        let least = options.plan.least.div_ceil(options.jobs);
        let seed = options.plan.seed.wrapping_add(job as u64 * 1_000_003);
        start_part(&scratch, &Plan { seed, executed, least, ..options.plan.clone() })
    });
    let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
    let mut tally = Tally::default();
    for part in parts {
        tally.add(finish_part(part)?);
    }
    scratch.check_canaries()?;
    println!(
        "seed {}: {} generated, {} passed ({} %), {} more made for rare rows, {} executed, \
         {} not compared, {} wrong, {:.0} s",
        options.plan.seed,
        tally.generated,
        tally.passed,
        tally.passed * 100 / tally.generated.max(1),
        tally.for_rare,
        tally.executed,
        tally.not_compared,
        tally.wrong.len(),
        start.elapsed().as_secs_f64(),
    );
    if !tally.missing.is_empty() {
        println!("  not on this machine, so not in any row: {}", tally.missing.join(", "));
    }
    for (script, what) in &tally.wrong {
        println!("  {script:?}: {what}");
    }
    let (refused, rest): (Vec<_>, Vec<_>) = tally.rows.iter().partition(|(_, count)| count.asks());
    println!(
        "{} rows of the grammar, of which {} ask or are not compared",
        tally.rows.len(),
        refused.len(),
    );
    let mut rare = rest;
    rare.retain(|(_, count)| count.executed < options.plan.least);
    rare.sort_by_key(|(_, count)| count.executed);
    for (row, count) in &rare {
        println!("  executed {} times: {row:?}", count.executed);
    }
    if !tally.wrong.is_empty() {
        return Err("scripts did more than was predicted".into());
    }
    if tally.passed * 100 < tally.generated * MIN_PASSED {
        return Err(format!("fewer than {MIN_PASSED} % of the generated scripts pass").into());
    }
    match rare.is_empty() {
        true => Ok(()),
        false => Err(format!("rows were executed fewer than {} times", options.plan.least).into()),
    }
}

/// Switches rules off, one after the other. Fails if the oracle does not notice one.
#[expect(clippy::print_stdout, reason = "the figures are the output")]
fn try_rules(scratch: &Scratch, plan: &Plan) -> Result<(), Box<dyn Error>> {
    let mut unnoticed = vec![];
    for rule in RULES {
        let part = start_part(scratch, &Plan { rule_off: Some(rule), ..plan.clone() })?;
        let tally = finish_part(part)?;
        scratch.check_canaries()?;
        match tally.wrong.first() {
            Some((script, what)) => {
                println!("rule {rule} off: noticed after {}: {script:?}: {what}", tally.executed);
            }
            None => {
                println!("rule {rule} off: not noticed in {}", tally.executed);
                unnoticed.push(rule.to_string());
            }
        }
    }
    match unnoticed.is_empty() {
        true => Ok(()),
        false => Err(format!("the oracle does not notice rules {}", unnoticed.join(", ")).into()),
    }
}

fn start_part(scratch: &Scratch, plan: &Plan) -> Result<Child, Box<dyn Error>> {
    scratch.start(&[serde_json::to_string(plan)?])
}

fn finish_part(mut part: Child) -> Result<Tally, Box<dyn Error>> {
    let mut output = String::new();
    part.stdout.take().ok_or("the part has no output")?.read_to_string(&mut output)?;
    if !part.wait()?.success() {
        return Err("a part of the oracle failed".into());
    }
    Ok(serde_json::from_str(output.lines().last().unwrap_or_default())?)
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.generated += other.generated;
        self.passed += other.passed;
        self.for_rare += other.for_rare;
        self.executed += other.executed;
        self.not_compared += other.not_compared;
        self.missing = other.missing;
        self.wrong.extend(other.wrong);
        for (row, count) in other.rows {
            let sum = self.rows.entry(row).or_default();
            sum.judged += count.judged;
            sum.executed += count.executed;
        }
    }
}

impl Options {
    fn parse(args: &[&str]) -> Result<Self, Box<dyn Error>> {
        let plan = Plan { seed: 1, executed: usize::MAX, seconds: 60, least: 0, rule_off: None };
        let mut options = Options { plan, jobs: 1, tries_rules: false };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if *word == "--rules" {
                options.tries_rules = true;
                continue;
            }
            let value: u64 = words.next().ok_or(format!("`{word}` needs a number"))?.parse()?;
            match *word {
                "--seed" => options.plan.seed = value,
                "--executed" => options.plan.executed = usize::try_from(value)?,
                "--seconds" => options.plan.seconds = value,
                "--jobs" => options.jobs = usize::try_from(value)?.max(1),
                "--least" => options.plan.least = usize::try_from(value)?,
                _ => return Err(format!("unknown option `{word}`").into()),
            }
        }
        Ok(options)
    }
}

/// Scripts written by people: the rows of our tables, and those in the folder `COTTER_CORPORA`.
fn texts() -> Result<Vec<String>, Box<dyn Error>> {
    let project = Project::new();
    let folder = project.folder.to_str().ok_or("the folder's name is not text")?;
    let mut texts: Vec<_> =
        project.commands().into_iter().map(|text| text.replace(folder, PROJECT)).collect();
    let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wanted.jsonl")];
    if let Some(corpora) = env::var_os("COTTER_CORPORA") {
        let entries = fs::read_dir(corpora)?.collect::<Result<Vec<_>, _>>()?;
        files.extend(entries.iter().map(|entry| entry.path()));
    }
    for file in files.iter().filter(|file| file.extension().is_some_and(|name| name == "jsonl")) {
        for line in fs::read_to_string(file)?.lines() {
            let row: Value = serde_json::from_str(line)?;
            texts.extend(row["command"].as_str().map(str::to_owned));
        }
    }
    texts.retain(|text| text.len() < 500 && !text.is_empty());
    Ok(texts)
}
