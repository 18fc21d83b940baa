//! The budget of a run: its limits, and the spending of its own requests, of its hooks' requests and of its
//! children.
//!
//! A request is sent only with a [`RequestSlot`]. Near the end of a budget, slots are given one at a time.
//! So many children together overspend no more than one agent: by the last request only. The exception is a
//! reply that costs more than twice any reply before it.
//!
//! A part of a budget may be reserved ([`Reservation`]). Spending from it also counts for the run, and no
//! one else can spend it meanwhile.

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

/// The spending of one run, or of one reservation.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The word for the owner of the budget in messages: `run` or `task`.
    owner_word: &'static str,
    pub(crate) max_usd: Option<f64>,
    pub(crate) max_tokens: Option<u64>,
    spent: Mutex<Spending>,
    /// Notified when a slot is given back.
    pub(crate) slot_released: Notify,
}

/// The spending so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spending {
    pub(crate) usage: Usage,
    /// `None` once a price was unknown.
    pub(crate) cost: Option<f64>,
    /// The number of requests in progress.
    requests_in_progress: u32,
    /// The most expensive reply so far. The cost of a request in progress is estimated from it.
    max_reply_usd: f64,
    max_reply_tokens: u64,
    /// The reserved amount that is not spent yet.
    pub(crate) reserved: Amount,
}

/// Money and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amount {
    pub(crate) usd: f64,
    pub(crate) tokens: u64,
}

impl Amount {
    pub(crate) fn minus(self, part: Amount) -> Amount {
        Amount {
            usd: (self.usd - part.usd).max(0.0),
            tokens: self.tokens.saturating_sub(part.tokens),
        }
    }

    pub(crate) fn plus(self, more: Amount) -> Amount {
        Amount { usd: self.usd + more.usd, tokens: self.tokens.saturating_add(more.tokens) }
    }
}

/// The source of the money for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FundedBy {
    /// A reservation. The request spends no more than the reserved amount, which is available for it.
    Reserved,
    /// The part of the budget that is not reserved.
    Unreserved,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Budget::of("run", limits.max_budget_usd, limits.max_tokens)
    }

    pub(crate) fn of(
        owner_word: &'static str,
        max_usd: Option<f64>,
        max_tokens: Option<u64>,
    ) -> Self {
        let spent = Spending {
            usage: Usage::default(),
            cost: Some(0.0),
            requests_in_progress: 0,
            max_reply_usd: 0.0,
            max_reply_tokens: 0,
            reserved: Amount::default(),
        };
        Budget {
            owner_word,
            max_usd,
            max_tokens,
            spent: Mutex::new(spent),
            slot_released: Notify::new(),
        }
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

    /// Books a reply, of which `from_reserved` had been reserved.
    fn add(&self, usage: Usage, cost: Option<f64>, from_reserved: Amount) {
        let mut spent = self.lock();
        spent.usage += usage;
        // An invalid price counts as an unknown one.
        let cost = cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
        spent.cost = spent.cost.zip(cost).map(|(so_far, more)| so_far + more);
        spent.max_reply_usd = spent.max_reply_usd.max(cost.unwrap_or(0.0));
        spent.max_reply_tokens = spent.max_reply_tokens.max(usage.total());
        spent.reserved = spent.reserved.minus(from_reserved);
    }

    /// The reason why no further request may be sent; `None` if one may.
    pub(crate) fn exhaustion_reason(
        &self,
        spent: &Spending,
        funded_by: FundedBy,
    ) -> Option<String> {
        let (owner, reserved) = (self.owner_word, spent.reserved_for_others(funded_by));
        let tokens = spent.usage.total();
        if let Some(max) =
            self.max_tokens.filter(|max| tokens.saturating_add(reserved.tokens) >= *max)
        {
            let used = format!("the {owner} used {tokens} tokens of {max}");
            return Some(match reserved.tokens {
                0 => used,
                tokens => format!("{used}, and {tokens} are reserved"),
            });
        }
        match (self.max_usd?, spent.cost) {
            (max, Some(cost)) if cost + reserved.usd < max => None,
            (max, Some(cost)) => {
                let cost = format!("the {owner} cost {} USD of {}", usd(cost), usd(max));
                let with_reserved =
                    || format!("{cost}, and {} USD are reserved", usd(reserved.usd));
                Some(if reserved.usd > 0.0 { with_reserved() } else { cost })
            }
            (_, None) => {
                Some("the price of a reply is not known, so the budget cannot be kept".into())
            }
        }
    }

    /// True if the requests in progress may use up the rest. A request in progress is estimated at twice
    /// the most expensive reply so far. Until a reply has cost something, the estimate is unknown. Then any
    /// request in progress makes this true.
    fn is_tight(&self, spent: &Spending, funded_by: FundedBy) -> bool {
        let reserved = spent.reserved_for_others(funded_by);
        let tokens =
            spent.max_reply_tokens.saturating_mul(2 * u64::from(spent.requests_in_progress));
        let usd = spent.max_reply_usd * 2.0 * f64::from(spent.requests_in_progress);
        let used = spent.usage.total().saturating_add(reserved.tokens);
        let exceeds_tokens = |max: u64| tokens == 0 || used.saturating_add(tokens) >= max;
        let exceeds_usd =
            |max: f64| usd <= 0.0 || spent.cost.unwrap_or(max) + reserved.usd + usd >= max;
        spent.requests_in_progress > 0
            && (self.max_tokens.is_some_and(exceeds_tokens)
                || self.max_usd.is_some_and(exceeds_usd))
    }

    async fn acquire_slot(&self, funded_by: FundedBy) -> Result<(), String> {
        loop {
            let released = self.slot_released.notified();
            {
                let mut spent = self.lock();
                if let Some(reason) = self.exhaustion_reason(&spent, funded_by) {
                    return Err(reason);
                }
                if !self.is_tight(&spent, funded_by) {
                    spent.requests_in_progress += 1;
                    return Ok(());
                }
            }
            released.await;
        }
    }

    fn release_slot(&self) {
        self.lock().requests_in_progress -= 1;
        self.slot_released.notify_waiters();
    }
}

impl Spending {
    fn reserved_for_others(&self, funded_by: FundedBy) -> Amount {
        match funded_by {
            FundedBy::Reserved => Amount::default(),
            FundedBy::Unreserved => self.reserved,
        }
    }
}

/// Formats an amount; small amounts get more digits.
pub(crate) fn usd(amount: f64) -> String {
    if amount < 0.01 { format!("{amount:.6}") } else { format!("{amount:.4}") }
}

/// A run or a reservation whose budget is charged.
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

/// Every budget that spending in this context is charged to, the nearest first: its reservations, its run,
/// then those of its parents. Each comes with the source of the money for a request from here.
pub(crate) fn charged_budgets(cx: &Cx) -> impl Iterator<Item = (BudgetScope, FundedBy)> {
    let mut funded_by = FundedBy::Unreserved;
    let all = cx.lineage().flat_map(|cx| {
        let shares = cx.reservations().map(|share| BudgetScope::Share(share.clone()));
        shares.chain(iter::once_with(|| BudgetScope::Run(cx.run.clone())))
    });
    all.map(move |scope| {
        let funded_here = funded_by;
        if matches!(scope, BudgetScope::Share(_)) {
            funded_by = FundedBy::Reserved;
        }
        (scope, funded_here)
    })
}

/// True if any budget that this context is charged to has a limit.
fn is_limited(cx: &Cx) -> bool {
    let shares = |cx: &Cx| cx.reservations().any(|share| share.budget.is_limited());
    cx.lineage().any(|cx| cx.run.budget.is_limited() || shares(cx))
}

/// The permission to send one request; given back on drop.
#[must_use]
pub(crate) struct RequestSlot {
    cx: Cx,
    /// The charged budgets that have a limit.
    limited: Vec<BudgetScope>,
}

impl RequestSlot {
    /// Books the usage of the reply, then gives the slot back. So a request that waits for the slot sees
    /// the new sum.
    pub(crate) fn settle(self, usage: Usage, cost: Option<f64>) {
        book(&self.cx, usage, cost);
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.limited.iter().for_each(|scope| scope.budget().release_slot());
    }
}

/// The reason why this run or a parent may send no further request; `None` if they may.
pub(crate) fn exhaustion_reason(cx: &Cx) -> Option<String> {
    if !is_limited(cx) {
        return None;
    }
    charged_budgets(cx).find_map(|(scope, funded_by)| {
        let budget = scope.budget();
        budget.exhaustion_reason(&budget.lock(), funded_by)
    })
}

/// A slot without waiting, if no budget has a limit.
pub(crate) fn slot_without_limits(cx: &Cx) -> Option<RequestSlot> {
    (!is_limited(cx)).then(|| RequestSlot { cx: cx.clone(), limited: vec![] })
}

/// Waits for a slot, or returns the reason why there is none. The topmost parent's budget is asked first.
pub(crate) async fn wait_for_slot(cx: &Cx, model: &Arc<dyn Model>) -> Result<RequestSlot, String> {
    let mut limited: Vec<_> =
        charged_budgets(cx).filter(|(scope, _)| scope.budget().is_limited()).collect();
    let has_price = || model.cost_usd(&Usage::default()).is_some();
    if limited.iter().any(|(scope, _)| scope.budget().max_usd.is_some()) && !has_price() {
        let name = model.name();
        return Err(format!("the price of `{name}` is not known, so the budget cannot be kept"));
    }
    limited.reverse();
    let mut slot = RequestSlot { cx: cx.clone(), limited: Vec::with_capacity(limited.len()) };
    for (scope, funded_by) in limited {
        scope.budget().acquire_slot(funded_by).await?;
        slot.limited.push(scope);
    }
    Ok(slot)
}

/// The cost of a reply, if it is known. A reply without a token count has an unknown cost, unless its model
/// is free.
pub(crate) fn cost_of(model: &Arc<dyn Model>, usage: &Usage) -> Option<f64> {
    let cost = model.cost_usd(usage)?;
    let least = Usage { input_tokens: 1, output_tokens: 1, ..Usage::default() };
    let is_paid_model = || model.cost_usd(&least).is_none_or(|cost| cost > 0.0);
    let is_uncounted = usage.total() == 0 && cost <= 0.0 && is_paid_model();
    (!is_uncounted).then_some(cost)
}

/// Books the usage of a reply, for this run and its parents.
pub(crate) fn book(cx: &Cx, usage: Usage, cost: Option<f64>) {
    // The amount that the reservation below had set aside, for every budget up to the next reservation.
    let mut reserved = Amount::default();
    for cx in cx.lineage() {
        for share in cx.reservations() {
            share.budget.add(usage, cost, reserved);
            reserved = share.deduct(Amount { usd: cost.unwrap_or(0.0), tokens: usage.total() });
        }
        cx.run.budget.add(usage, cost, reserved);
    }
}
