//! What a run may spend, and has spent: its own requests, those its hooks make, those of the agents
//! that work for it.
//!
//! A request is sent only with a [`RequestSlot`]. Near the end of a budget leaves are given one at a time,
//! so that many children at once spend no more than one agent would: at most the last request goes
//! over, unless a reply costs more than twice what any before it did.
//!
//! A part of a budget may be set aside ([`Share`]): what is spent from it counts for the run as well,
//! and nobody else spends it meanwhile.

use std::{
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

pub(crate) use crate::agent::session::reservation::{Reservation, reserve};
use crate::{
    agent::{
        Limits,
        cx::{Cx, RunCx},
    },
    history::message::Usage,
    model::Model,
};

/// The spending of one run, or of one share.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Whose it is, in words.
    whose: &'static str,
    pub(crate) max_usd: Option<f64>,
    pub(crate) max_tokens: Option<u64>,
    spent: Mutex<Spending>,
    /// Told when a leave is given back.
    pub(crate) settled: Notify,
}

/// What was spent so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spending {
    pub(crate) usage: Usage,
    /// `None` once a price was not known.
    pub(crate) cost: Option<f64>,
    /// Requests under way.
    out: u32,
    /// The dearest reply so far: what a request under way is taken to cost.
    dearest_usd: f64,
    largest_tokens: u64,
    /// What is set aside and not spent yet.
    pub(crate) aside: Amount,
}

/// Money and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amount {
    pub(crate) usd: f64,
    pub(crate) tokens: u64,
}

impl Amount {
    pub(crate) fn less(self, part: Amount) -> Amount {
        Amount {
            usd: (self.usd - part.usd).max(0.0),
            tokens: self.tokens.saturating_sub(part.tokens),
        }
    }

    pub(crate) fn and(self, more: Amount) -> Amount {
        Amount { usd: self.usd + more.usd, tokens: self.tokens.saturating_add(more.tokens) }
    }
}

/// What a request is paid from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FundedBy {
    /// Something that was set aside. It spends no more than its own, and all of that is there for it.
    FromShare,
    /// What nothing was set aside of.
    FromRest,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Budget::of("run", limits.max_budget_usd, limits.max_tokens)
    }

    pub(crate) fn of(whose: &'static str, max_usd: Option<f64>, max_tokens: Option<u64>) -> Self {
        let spent = Spending {
            usage: Usage::default(),
            cost: Some(0.0),
            out: 0,
            dearest_usd: 0.0,
            largest_tokens: 0,
            aside: Amount::default(),
        };
        Budget { whose, max_usd, max_tokens, spent: Mutex::new(spent), settled: Notify::new() }
    }

    pub(crate) fn spent(&self) -> Spending {
        *self.lock()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Spending> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.max_usd.is_some() || self.max_tokens.is_some()
    }

    /// Books a reply, of which so much had been set aside.
    fn add(&self, usage: Usage, cost: Option<f64>, was_aside: Amount) {
        let mut spent = self.lock();
        spent.usage += usage;
        // What is no price is an unknown one.
        let cost = cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
        spent.cost = spent.cost.zip(cost).map(|(so_far, more)| so_far + more);
        spent.dearest_usd = spent.dearest_usd.max(cost.unwrap_or(0.0));
        spent.largest_tokens = spent.largest_tokens.max(usage.total());
        spent.aside = spent.aside.less(was_aside);
    }

    /// Why no further request may be sent, where none may.
    pub(crate) fn exhausted(&self, spent: &Spending, paid: FundedBy) -> Option<String> {
        let (whose, aside) = (self.whose, spent.aside_for_others(paid));
        let tokens = spent.usage.total();
        if let Some(max) = self.max_tokens.filter(|max| tokens.saturating_add(aside.tokens) >= *max)
        {
            let used = format!("the {whose} used {tokens} tokens of {max}");
            return Some(match aside.tokens {
                0 => used,
                tokens => format!("{used}, and {tokens} are set aside"),
            });
        }
        match (self.max_usd?, spent.cost) {
            (max, Some(cost)) if cost + aside.usd < max => None,
            (max, Some(cost)) => {
                let cost = format!("the {whose} cost {} USD of {}", usd(cost), usd(max));
                let is_aside = aside.usd > 0.0;
                let with_aside = || format!("{cost}, and {} are set aside", usd(aside.usd));
                Some(if is_aside { with_aside() } else { cost })
            }
            (_, None) => {
                Some("the price of a reply is not known, so the budget cannot be kept".into())
            }
        }
    }

    /// Whether what is under way may use up what is left. A request under way is taken to cost twice
    /// the dearest reply so far; while no reply has cost anything, nobody knows.
    fn is_tight(&self, spent: &Spending, paid: FundedBy) -> bool {
        let aside = spent.aside_for_others(paid);
        let tokens = spent.largest_tokens.saturating_mul(2 * u64::from(spent.out));
        let usd = spent.dearest_usd * 2.0 * f64::from(spent.out);
        let used = spent.usage.total().saturating_add(aside.tokens);
        let over = |max: u64| tokens == 0 || used.saturating_add(tokens) >= max;
        let dear = |max: f64| usd <= 0.0 || spent.cost.unwrap_or(max) + aside.usd + usd >= max;
        spent.out > 0 && (self.max_tokens.is_some_and(over) || self.max_usd.is_some_and(dear))
    }

    async fn take(&self, paid: FundedBy) -> Result<(), String> {
        loop {
            let settled = self.settled.notified();
            {
                let mut spent = self.lock();
                if let Some(why) = self.exhausted(&spent, paid) {
                    return Err(why);
                }
                if !self.is_tight(&spent, paid) {
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

impl Spending {
    fn aside_for_others(&self, paid: FundedBy) -> Amount {
        match paid {
            FundedBy::FromShare => Amount::default(),
            FundedBy::FromRest => self.aside,
        }
    }
}

/// An amount, small ones with more digits.
pub(crate) fn usd(amount: f64) -> String {
    if amount < 0.01 { format!("{amount:.6}") } else { format!("{amount:.4}") }
}

/// Whose budget something counts against.
#[derive(Clone)]
pub(crate) enum BudgetScope {
    Run(Arc<RunCx>),
    Share(Arc<Reservation>),
}

impl BudgetScope {
    pub(crate) fn budget(&self) -> &Budget {
        match self {
            BudgetScope::Run(run) => &run.budget,
            BudgetScope::Share(share) => &share.budget,
        }
    }
}

/// Every purse that something spent here counts against, the nearest first: a share where it is paid
/// from one, the run, and the same of whoever that works for. With each, what a request from here is
/// to it.
pub(crate) fn purses(cx: &Cx) -> impl Iterator<Item = (BudgetScope, FundedBy)> {
    let mut paid = FundedBy::FromRest;
    let all = cx.lineage().flat_map(|cx| {
        let shares = cx.shares().map(|share| BudgetScope::Share(share.clone()));
        shares.chain(iter::once_with(|| BudgetScope::Run(cx.run.clone())))
    });
    all.map(move |purse| {
        let below = paid;
        if matches!(purse, BudgetScope::Share(_)) {
            paid = FundedBy::FromShare;
        }
        (purse, below)
    })
}

/// Whether anybody whom something spent here counts against has a limit.
fn is_limited(cx: &Cx) -> bool {
    let shares = |cx: &Cx| cx.shares().any(|share| share.budget.is_limited());
    cx.lineage().any(|cx| cx.run.budget.is_limited() || shares(cx))
}

/// The leave to send one request; given back when it goes.
#[must_use]
pub(crate) struct RequestSlot {
    cx: Cx,
    /// Those of its lineage that have a limit.
    limited: Vec<BudgetScope>,
}

impl RequestSlot {
    /// Books what the reply used, then gives the leave back: whoever waits for it sees the sum.
    pub(crate) fn settle(self, usage: Usage, cost: Option<f64>) {
        book(&self.cx, usage, cost);
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.limited.iter().for_each(|purse| purse.budget().give_back());
    }
}

/// Why no further request may be sent, by this run or whoever it works for, where none may.
pub(crate) fn exhausted(cx: &Cx) -> Option<String> {
    if !is_limited(cx) {
        return None;
    }
    purses(cx).find_map(|(purse, paid)| {
        let budget = purse.budget();
        budget.exhausted(&budget.lock(), paid)
    })
}

/// The leave to send a request where nobody has a limit: there is nothing to wait for.
pub(crate) fn free_leave(cx: &Cx) -> Option<RequestSlot> {
    (!is_limited(cx)).then(|| RequestSlot { cx: cx.clone(), limited: vec![] })
}

/// Waits for the leave to send a request, or says why there will be none. Whoever this run works for
/// is asked first.
pub(crate) async fn leave(cx: &Cx, model: &Arc<dyn Model>) -> Result<RequestSlot, String> {
    let mut limited: Vec<_> = purses(cx).filter(|(purse, _)| purse.budget().is_limited()).collect();
    let has_price = || model.cost_usd(&Usage::default()).is_some();
    if limited.iter().any(|(purse, _)| purse.budget().max_usd.is_some()) && !has_price() {
        let name = model.name();
        return Err(format!("the price of `{name}` is not known, so the budget cannot be kept"));
    }
    limited.reverse();
    let mut leave = RequestSlot { cx: cx.clone(), limited: Vec::with_capacity(limited.len()) };
    for (purse, paid) in limited {
        purse.budget().take(paid).await?;
        leave.limited.push(purse);
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
pub(crate) fn book(cx: &Cx, usage: Usage, cost: Option<f64>) {
    // What was set aside for it: by the share below, for everybody up to the next one.
    let mut aside = Amount::default();
    for cx in cx.lineage() {
        for share in cx.shares() {
            share.budget.add(usage, cost, aside);
            aside = share.use_up(Amount { usd: cost.unwrap_or(0.0), tokens: usage.total() });
        }
        cx.run.budget.add(usage, cost, aside);
    }
}
