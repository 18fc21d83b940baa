//! A part of a budget that is reserved for one task.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use crate::agent::{
    cx::Cx,
    session::budget::{self, Amount, Budget, BudgetScope, FundedBy, charged_budgets},
};

/// The allowance of one task. Without a value, a task gets a fair part of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TaskAllowance {
    /// The greatest number of requests of each agent that works on the task.
    pub max_turns: Option<u32>,
    /// The greatest cost of the task, in dollars.
    pub max_budget_usd: Option<f64>,
}

impl TaskAllowance {
    /// Returns this allowance with a limit on requests.
    pub fn with_max_turns(self, max_turns: u32) -> Self {
        TaskAllowance { max_turns: Some(max_turns), ..self }
    }

    /// Returns this allowance with a limit on the cost.
    pub fn with_max_budget_usd(self, max_budget_usd: f64) -> Self {
        TaskAllowance { max_budget_usd: Some(max_budget_usd), ..self }
    }
}

/// A part of a run's budget that is reserved for one task until this value is dropped. The unspent rest
/// then returns to the run. Made by [`Controls::reserve`](crate::agent::controls::Controls::reserve).
#[must_use]
pub struct BudgetShare(pub(crate) Arc<Reservation>);

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl fmt::Debug for BudgetShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Budget { max_usd, max_tokens, .. } = &self.0.budget;
        write!(f, "share of {max_usd:?} USD, {max_tokens:?} tokens")
    }
}

/// The budget behind a [`BudgetShare`]. Agents that work on its task spend from it.
pub(crate) struct Reservation {
    pub(crate) budget: Budget,
    pub(crate) max_turns: Option<u32>,
    /// The reservation that this one is a part of.
    pub(crate) parent: Option<Arc<Reservation>>,
    /// The reserved amount that is not spent yet; equal in each of `budgets`.
    remaining: Mutex<Amount>,
    budgets: Vec<BudgetScope>,
}

impl Reservation {
    /// Takes the usage of a reply out of the reserved amount. Returns the part of it that was reserved.
    pub(crate) fn deduct(&self, used: Amount) -> Amount {
        let mut rest = self.remaining.lock().unwrap_or_else(PoisonError::into_inner);
        let from_reserved = rest.minus(rest.minus(used));
        *rest = rest.minus(used);
        from_reserved
    }

    /// Gives back the unspent amount.
    fn close(&self) {
        let rest = self.deduct(Amount { usd: f64::INFINITY, tokens: u64::MAX });
        for scope in &self.budgets {
            let mut spent = scope.budget().lock();
            spent.reserved = spent.reserved.minus(rest);
            drop(spent);
            scope.budget().slot_released.notify_waiters();
        }
    }
}

/// Reserves a part of the rest for each task, or returns the reason why it cannot. One more part stays with
/// the caller, who must process the results.
pub(crate) fn reserve(cx: &Cx, tasks: &[TaskAllowance]) -> Result<Vec<BudgetShare>, String> {
    let is_valid = |usd: f64| usd.is_finite() && usd > 0.0;
    if let Some(wrong) = tasks.iter().filter_map(|t| t.max_budget_usd).find(|usd| !is_valid(*usd)) {
        return Err(format!("invalid `max_budget_usd`: {wrong} is not a positive number"));
    }
    // The budgets beyond a share already hold its amount as reserved. A share has every limit that the
    // budgets above it have.
    let mut is_within = true;
    let nearest = charged_budgets(cx).take_while(|(scope, _)| {
        let is_next = is_within;
        is_within = !matches!(scope, BudgetScope::Share(_));
        is_next
    });
    let budgets: Vec<_> =
        nearest.map(|(scope, _)| scope).filter(|scope| scope.budget().is_limited()).collect();
    // Locked from the nearest to the farthest; every caller that locks several uses this order.
    let mut locked: Vec<_> = budgets.iter().map(|scope| scope.budget().lock()).collect();
    let mut left = RemainingBudget::default();
    for (scope, spent) in budgets.iter().zip(&locked) {
        let budget = scope.budget();
        if let Some(reason) = budget.exhaustion_reason(spent, FundedBy::Unreserved) {
            return Err(reason);
        }
        let spent_usd = spent.cost.unwrap_or(f64::INFINITY) + spent.reserved.usd;
        let spent_tokens = spent.usage.total().saturating_add(spent.reserved.tokens);
        left.cap_usd(budget.max_usd.map(|max| max - spent_usd));
        left.cap_tokens(budget.max_tokens.map(|max| max.saturating_sub(spent_tokens)));
    }
    let parts = left.split(tasks)?;
    for spent in &mut locked {
        spent.reserved = parts.iter().fold(spent.reserved, |all, (_, part)| all.plus(*part));
    }
    drop(locked);
    let share = |(allowance, (budget, part)): (&TaskAllowance, (Budget, Amount))| {
        BudgetShare(Arc::new(Reservation {
            budget,
            max_turns: allowance.max_turns,
            parent: cx.reservation.clone(),
            remaining: Mutex::new(part),
            budgets: budgets.clone(),
        }))
    };
    Ok(tasks.iter().zip(parts).map(share).collect())
}

/// The rest that can be reserved; `None` if no budget has a limit.
#[derive(Default)]
struct RemainingBudget {
    usd: Option<f64>,
    tokens: Option<u64>,
}

impl RemainingBudget {
    fn cap_usd(&mut self, cap: Option<f64>) {
        self.usd = self.usd.map_or(cap, |usd| Some(cap.map_or(usd, |cap| usd.min(cap))));
    }

    fn cap_tokens(&mut self, cap: Option<u64>) {
        self.tokens = [self.tokens, cap].into_iter().flatten().min();
    }

    /// The budget of each task, with the amount to reserve for it.
    fn split(&self, tasks: &[TaskAllowance]) -> Result<Vec<(Budget, Amount)>, String> {
        let named: f64 = tasks.iter().filter_map(|task| task.max_budget_usd).sum();
        let unnamed = tasks.iter().filter(|task| task.max_budget_usd.is_none()).count();
        let fair_usd = match self.usd {
            Some(usd) if named > usd => {
                let (named, usd) = (budget::usd(named), budget::usd(usd.max(0.0)));
                return Err(format!("the tasks need {named} USD, but only {usd} USD are left"));
            }
            Some(usd) if unnamed > 0 && usd - named <= 0.0 => {
                return Err("the tasks with a `max_budget_usd` need all that is left".into());
            }
            usd => usd.map(|usd| (usd - named) / count_as_f64(unnamed + 1)),
        };
        let shares = u64::try_from(tasks.len()).unwrap_or(u64::MAX).saturating_add(1);
        let fair_tokens = self.tokens.map(|tokens| tokens / shares);
        let part = |task: &TaskAllowance| {
            let max_usd = task.max_budget_usd.or(fair_usd);
            let usd = self.usd.and(max_usd).unwrap_or(0.0);
            let reserved = Amount { usd, tokens: fair_tokens.unwrap_or(0) };
            (Budget::of("task", max_usd, fair_tokens), reserved)
        };
        Ok(tasks.iter().map(part).collect())
    }
}

fn count_as_f64(tasks: usize) -> f64 {
    f64::from(u32::try_from(tasks).unwrap_or(u32::MAX))
}
