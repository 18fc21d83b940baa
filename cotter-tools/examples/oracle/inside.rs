//! The part of the oracle inside the scratch root: generates scripts, judges them, runs those that pass and
//! compares.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fs,
    time::{Duration, Instant},
};

use cotter::{
    Agent,
    permission::{facts::Facts, mode::Level},
};
use cotter_tools::shell;
use serde::{Deserialize, Serialize};

use crate::{
    cover,
    execution::{Bench, Observed, missing_programs},
    grammar::{self, Grammar, Random, RowCount, RowCounts},
    kit, shrink,
};

/// The arguments of one part of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// The run ends after that many executed scripts.
    pub(crate) executed: usize,
    pub(crate) seconds: u64,
    /// Every row that passes should be executed so often.
    pub(crate) least: usize,
    /// The rule of the judge that is switched off. Then the run ends with the first wrong script.
    pub(crate) rule_off: Option<u8>,
}

/// The result of one part of a run.
#[derive(Default, Debug, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Scripts of the grammar and mutations.
    pub(crate) generated: usize,
    /// Those of them that pass.
    pub(crate) passed: usize,
    /// Scripts that were made for rarely executed rows, which mostly ask.
    pub(crate) for_rare: usize,
    /// Scripts that were run and compared.
    pub(crate) executed: usize,
    /// Scripts that were run and not compared: only confinement bounds what they do.
    pub(crate) not_compared: usize,
    /// Programs that the machine does not have. Their rows were not generated.
    pub(crate) missing: Vec<String>,
    /// Wrong scripts, shortened, with what was not predicted.
    pub(crate) wrong: Vec<(String, String)>,
    /// How often each row of the grammar was judged and executed.
    pub(crate) rows: BTreeMap<String, RowCount>,
}

/// The most wrong scripts that are collected before a run ends.
const MAX_WRONG: usize = 12;

/// Runs the plan and prints the tally as one line.
#[expect(clippy::print_stdout, reason = "the process outside reads it")]
pub(crate) async fn run(plan: Plan, canary: &str, port: &str) -> Result<(), Box<dyn Error>> {
    if rustix::process::geteuid().is_root() {
        return Err("the oracle does not run commands as root".into());
    }
    let texts: Vec<String> = serde_json::from_slice(&fs::read("/oracle/programs/texts.json")?)?;
    let oracle = Oracle::new()?;
    oracle.prove(canary, port).await?;
    shell::faults::switch_off(plan.rule_off);
    let tally = oracle.run(&plan, &texts).await?;
    shell::faults::switch_off(None);
    oracle.prove(canary, port).await?;
    println!("{}", serde_json::to_string(&tally)?);
    Ok(())
}

struct Oracle {
    bench: Bench,
    /// Commands run confined, at the default level.
    confined: Agent,
    /// Nothing is confined, at the loosest level.
    permissive: Agent,
}

/// The verdict on a script.
struct Judged {
    facts: Facts,
    passes_confined: bool,
    passes_permissive: bool,
}

impl Judged {
    fn passes(&self) -> bool {
        self.passes_confined || self.passes_permissive
    }
}

impl Oracle {
    fn new() -> Result<Self, Box<dyn Error>> {
        let bench = Bench::new()?;
        let builder = |confined| kit::builder_in(&bench.workspace, confined);
        let confined = builder(kit::Confined::WithoutView).build()?;
        let permissive = builder(kit::Confined::Not).level(Level::Permissive).build()?;
        Ok(Oracle { bench, confined, permissive })
    }

    /// Fails if a command reaches a file or a port outside, or if commands do not run at all.
    async fn prove(&self, canary: &str, port: &str) -> Result<(), Box<dyn Error>> {
        let script = format!(
            "echo x > {canary}; cat {canary} > m && touch read; echo x > /usr/x && touch system\n\
             exec 3<> /dev/tcp/127.0.0.1/{port} && touch connected; touch alive"
        );
        let observed = self.bench.run(&script).await?;
        let mut names: Vec<_> =
            observed.changes.writes.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        // Bash creates it before `cat` fails.
        names.retain(|name| *name != "m");
        match names.as_slice() {
            ["alive"] => Ok(()),
            _ => Err(format!("the scratch root does not hold: {names:?}").into()),
        }
    }

    async fn run(&self, plan: &Plan, texts: &[String]) -> Result<Tally, Box<dyn Error>> {
        let (mut tally, mut random) = (Tally::default(), Random::new(plan.seed));
        let grammar = Grammar::new(&missing_programs())?;
        tally.missing = missing_programs().into_iter().map(str::to_owned).collect();
        let mut counts: RowCounts = grammar.rows().map(|row| (row, RowCount::default())).collect();
        let end = Instant::now() + Duration::from_secs(plan.seconds);
        let mut seen = HashMap::new();
        while Instant::now() < end && tally.wrong.len() < MAX_WRONG {
            let is_enough = tally.executed >= plan.executed;
            let generated = match (is_enough, random.below(10)) {
                // Only rows that were executed too rarely are left.
                (true, _) => grammar.generate_rare(&mut random, &counts, plan.least),
                (false, 0) => Some(grammar::mutate(texts, &mut random)),
                (false, _) => Some(grammar.generate(&mut random, &counts, plan.least)),
            };
            let Some(generated) = generated else { break };
            let count =
                if generated.is_for_rare { &mut tally.for_rare } else { &mut tally.generated };
            *count += 1;
            for row in &generated.rows {
                counts.entry(row).or_default().judged += 1;
            }
            let judged = self.judge(&generated.text).await;
            if !judged.passes()
                || plan.rule_off.is_some_and(|rule| !self.matters(rule, &generated.text, &judged))
            {
                continue;
            }
            tally.passed += usize::from(!generated.is_for_rare);
            // A short script comes again and again.
            if seen.insert(generated.text.clone(), ()).is_some() && !generated.is_for_rare {
                continue;
            }
            if cover::is_comparable(&judged.facts) {
                tally.executed += 1;
                for row in &generated.rows {
                    counts.entry(row).or_default().executed += 1;
                }
            } else {
                tally.not_compared += 1;
            }
            let Some(what) = self.find_wrong(&generated.text, &judged).await else { continue };
            let is_wrong = async |script: &str| {
                let judged = self.judge(script).await;
                judged.passes() && self.find_wrong(script, &judged).await.is_some()
            };
            let script = match plan.rule_off {
                Some(_) => generated.text,
                None => shrink::shrink(&generated.text, is_wrong).await,
            };
            let what = self.find_wrong(&script, &self.judge(&script).await).await.unwrap_or(what);
            tally.wrong.push((script, what));
            if plan.rule_off.is_some() {
                break;
            }
        }
        tally.rows = counts.into_iter().map(|(row, count)| (row.to_owned(), count)).collect();
        Ok(tally)
    }

    /// True if a rule that is off changes what is said about a script. Only such a script can show it.
    fn matters(&self, rule: u8, script: &str, judged: &Judged) -> bool {
        shell::faults::switch_off(None);
        let facts = shell::facts(script, &self.bench.workspace);
        shell::faults::switch_off(Some(rule));
        let told = |facts: &Facts| {
            (
                facts.reads.clone(),
                facts.writes.clone(),
                facts.commands.clone(),
                facts.doubts.clone(),
            )
        };
        told(&facts) != told(&judged.facts)
    }

    async fn judge(&self, script: &str) -> Judged {
        let confined = kit::explain(&self.confined, script).await;
        let permissive = kit::explain(&self.permissive, script).await;
        Judged {
            passes_confined: confined.verdict == "pass",
            passes_permissive: permissive.verdict == "pass",
            facts: confined.facts,
        }
    }

    /// Runs a script. Returns the first effect that was not predicted.
    async fn find_wrong(&self, script: &str, judged: &Judged) -> Option<String> {
        let observed = match self.bench.run(script).await {
            Ok(observed) => observed,
            Err(error) => return Some(format!("the bench failed: {error}")),
        };
        let uncovered = cover::find_uncovered(&observed, &judged.facts, &self.bench.workspace);
        match uncovered {
            None if judged.passes_permissive => self.find_smuggled(&observed).await,
            found => found,
        }
    }

    /// A program that was started unconfined, and asks by itself.
    async fn find_smuggled(&self, observed: &Observed) -> Option<String> {
        for words in observed.commands.iter().filter(|words| words[0] == "x.sh") {
            let alone = kit::explain(&self.permissive, "./x.sh").await;
            if alone.verdict != "pass" {
                return Some(format!("it ran {words:?}, which asks by itself"));
            }
        }
        None
    }
}
