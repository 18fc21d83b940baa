//! What a run may spend, and has spent: its own requests, those its hooks make, those of the agents
//! that work for it.
//!
//! A request is sent only with a [`Leave`]. Near the end of a budget leaves are given one at a time,
//! so that many children at once spend no more than one agent would: at most the last request goes
//! over, unless a reply costs more than twice what any before it did.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::{agent::Limits, cx::RunCx, message::Usage, model::Model};

/// The spending of one run.
#[derive(Debug)]
pub(crate) struct Budget {
    max_usd: Option<f64>,
    max_tokens: Option<u64>,
    spent: Mutex<Spent>,
    /// Told when a leave is given back.
    settled: Notify,
}

/// What was spent so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) usage: Usage,
    /// `None` once a price was not known.
    pub(crate) cost: Option<f64>,
    /// Requests under way.
    out: u32,
    /// The dearest reply so far: what a request under way is taken to cost.
    dearest_usd: f64,
    largest_tokens: u64,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        let spent = Spent {
            usage: Usage::default(),
            cost: Some(0.0),
            out: 0,
            dearest_usd: 0.0,
            largest_tokens: 0,
        };
        Budget {
            max_usd: limits.max_budget_usd,
            max_tokens: limits.max_tokens,
            spent: Mutex::new(spent),
            settled: Notify::new(),
        }
    }

    pub(crate) fn spent(&self) -> Spent {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_limited(&self) -> bool {
        self.max_usd.is_some() || self.max_tokens.is_some()
    }

    fn add(&self, usage: Usage, cost: Option<f64>) {
        let mut spent = self.lock();
        spent.usage += usage;
        // What is no price is an unknown one.
        let cost = cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
        spent.cost = spent.cost.zip(cost).map(|(so_far, more)| so_far + more);
        spent.dearest_usd = spent.dearest_usd.max(cost.unwrap_or(0.0));
        spent.largest_tokens = spent.largest_tokens.max(usage.total());
    }

    /// Why no further request may be sent, where none may.
    fn exhausted(&self, spent: &Spent) -> Option<String> {
        let tokens = spent.usage.total();
        if let Some(max) = self.max_tokens.filter(|max| tokens >= *max) {
            return Some(format!("the run used {tokens} tokens of {max}"));
        }
        match (self.max_usd?, spent.cost) {
            (max, Some(cost)) if cost < max => None,
            (max, Some(cost)) => Some(format!("the run cost {} USD of {}", usd(cost), usd(max))),
            (_, None) => {
                Some("the price of a reply is not known, so the budget cannot be kept".into())
            }
        }
    }

    /// Whether what is under way may use up what is left. A request under way is taken to cost twice
    /// the dearest reply so far; while no reply has cost anything, nobody knows.
    fn is_tight(&self, spent: &Spent) -> bool {
        let tokens = spent.largest_tokens.saturating_mul(2 * u64::from(spent.out));
        let usd = spent.dearest_usd * 2.0 * f64::from(spent.out);
        let over = |max: u64| tokens == 0 || spent.usage.total().saturating_add(tokens) >= max;
        let dear = |max: f64| usd <= 0.0 || spent.cost.unwrap_or(max) + usd >= max;
        spent.out > 0 && (self.max_tokens.is_some_and(over) || self.max_usd.is_some_and(dear))
    }

    async fn take(&self) -> Result<(), String> {
        loop {
            let settled = self.settled.notified();
            {
                let mut spent = self.lock();
                if let Some(why) = self.exhausted(&spent) {
                    return Err(why);
                }
                if !self.is_tight(&spent) {
                    spent.out += 1;
                    return Ok(());
                }
            }
            settled.await;
        }
    }

    fn give_back(&self) {
        self.lock().out -= 1;
        self.settled.notify_waiters();
    }
}

/// An amount, small ones with more digits.
fn usd(amount: f64) -> String {
    if amount < 0.01 { format!("{amount:.6}") } else { format!("{amount:.4}") }
}

/// The leave to send one request; given back when it goes.
#[must_use]
pub(crate) struct Leave {
    run: Arc<RunCx>,
    /// Those of its lineage that have a limit.
    limited: Vec<Arc<RunCx>>,
}

impl Leave {
    /// Books what the reply used, then gives the leave back: whoever waits for it sees the sum.
    pub(crate) fn settle(self, usage: Usage, cost: Option<f64>) {
        book(&self.run, usage, cost);
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.limited.iter().for_each(|run| run.budget.give_back());
    }
}

/// Why no further request may be sent, by this run or whoever it works for, where none may.
pub(crate) fn exhausted(run: &Arc<RunCx>) -> Option<String> {
    let mut limited = RunCx::lineage(run).filter(|run| run.budget.is_limited());
    limited.find_map(|run| run.budget.exhausted(&run.budget.lock()))
}

/// The leave to send a request where nobody has a limit: there is nothing to wait for.
pub(crate) fn free_leave(run: &Arc<RunCx>) -> Option<Leave> {
    let limited = RunCx::lineage(run).any(|run| run.budget.is_limited());
    (!limited).then(|| Leave { run: run.clone(), limited: vec![] })
}

/// Waits for the leave to send a request, or says why there will be none. Whoever this run works for
/// is asked first.
pub(crate) async fn leave(run: &Arc<RunCx>, model: &Arc<dyn Model>) -> Result<Leave, String> {
    let has_price = || model.cost_usd(&Usage::default()).is_some();
    if RunCx::lineage(run).any(|run| run.budget.max_usd.is_some()) && !has_price() {
        let name = model.name();
        return Err(format!("the price of `{name}` is not known, so the budget cannot be kept"));
    }
    let mut limited: Vec<_> = RunCx::lineage(run).filter(|run| run.budget.is_limited()).collect();
    limited.reverse();
    let mut leave = Leave { run: run.clone(), limited: Vec::with_capacity(limited.len()) };
    for run in limited {
        run.budget.take().await?;
        leave.limited.push(run.clone());
    }
    Ok(leave)
}

/// What a reply cost, where that is known. One that nobody counted cost something all the same, unless
/// its model asks for nothing.
pub(crate) fn cost_of(model: &Arc<dyn Model>, usage: &Usage) -> Option<f64> {
    let cost = model.cost_usd(usage)?;
    let least = Usage { input_tokens: 1, output_tokens: 1, ..Usage::default() };
    let asks_for_something = || model.cost_usd(&least).is_none_or(|cost| cost > 0.0);
    let is_uncounted = usage.total() == 0 && cost <= 0.0 && asks_for_something();
    (!is_uncounted).then_some(cost)
}

/// Books what a reply used, for this run and whoever it works for.
pub(crate) fn book(run: &Arc<RunCx>, usage: Usage, cost: Option<f64>) {
    RunCx::lineage(run).for_each(|run| run.budget.add(usage, cost));
}
