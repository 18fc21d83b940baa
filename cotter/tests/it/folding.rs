//! Tests of folded verdicts: the strictest wins, in any order and however long each gate takes.

use std::{collections::BTreeSet, time::Duration};

use cotter::{
    Agent, At, Verdict,
    hooks::points::{ToolPre, ToolPreEvent},
    named,
    permission::Zone,
};
use cotter_test::{Diary, PersonAnswer, ScriptedModel, ScriptedUi, Step, fresh, probe};
use proptest::prelude::*;
use serde_json::json;

/// One gate: its verdict, and the time of its answer.
#[derive(Clone, Debug)]
struct Gate {
    name: String,
    says: Says,
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Pass,
    Ask,
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    AtOnce,
    /// An `async fn` that does not wait.
    InTheFirstPoll,
    After(u64),
}

impl Gate {
    fn verdict(&self) -> Verdict {
        match self.says {
            Says::Pass => Verdict::Pass,
            Says::Ask => Verdict::ask("sure?"),
            Says::Block => Verdict::block("no"),
        }
    }
}

/// The outcome of a call.
#[derive(Debug, PartialEq)]
struct Outcome {
    says: Says,
    /// The gates that asked.
    askers: BTreeSet<String>,
    ran: bool,
}

/// Runs one call under these gates. Returns the outcome, the called gates in order, and the duration of the
/// run in milliseconds.
async fn judge(gates: &[Gate]) -> (Outcome, Vec<String>, u128) {
    let (called, tools) = (Diary::default(), Diary::default());
    let ui = ScriptedUi::new([PersonAnswer::Yes]);
    let script = [Step::call("tool", json!({})), Step::text("done")];
    let mut builder = Agent::builder(ScriptedModel::new(script)).ui(ui.clone()).tool(probe(
        "tool",
        Zone::Safe,
        &tools,
    ));
    for gate in gates {
        let (own, called) = (gate.clone(), called.clone());
        builder = match gate.when {
            When::AtOnce => {
                let plain = move |_: &ToolPreEvent| {
                    called.add(own.name.clone());
                    own.verdict()
                };
                builder.gate(ToolPre, named(gate.name.as_str(), plain))
            }
            When::InTheFirstPoll | When::After(_) => {
                let later = move |_: At<ToolPre>| {
                    let (own, called) = (own.clone(), called.clone());
                    async move {
                        called.add(own.name.clone());
                        if let When::After(ms) = own.when {
                            tokio::time::sleep(Duration::from_millis(ms)).await;
                        }
                        own.verdict()
                    }
                };
                builder.gate(ToolPre, named(gate.name.as_str(), later))
            }
        };
    }
    let agent = builder.build().expect("the gates have names of their own");
    let start = tokio::time::Instant::now();
    let _ = fresh(&agent).await.prompt("go").await;
    let took = start.elapsed().as_millis();
    let ran = !tools.lines().is_empty();
    let questions = ui.questions();
    let asks = questions.iter().flat_map(|question| &question.calls).flat_map(|call| &call.asks);
    let askers: BTreeSet<_> = asks.map(|ask| ask.by.to_string()).collect();
    let says = match (questions.is_empty(), ran) {
        (false, _) => Says::Ask,
        (true, true) => Says::Pass,
        (true, false) => Says::Block,
    };
    (Outcome { says, askers, ran }, called.lines(), took)
}

fn on_paused_time<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts")
        .block_on(future)
}

fn gates() -> impl Strategy<Value = Vec<Gate>> {
    let says = prop_oneof![3 => Just(Says::Pass), 2 => Just(Says::Ask), 1 => Just(Says::Block)];
    let when = prop_oneof![
        Just(When::AtOnce),
        Just(When::InTheFirstPoll),
        (1u64..4000).prop_map(When::After)
    ];
    let named = |all: Vec<(Says, When)>| {
        let gate = |(n, (says, when))| Gate { name: format!("g{n}"), says, when };
        all.into_iter().enumerate().map(gate).collect()
    };
    prop::collection::vec((says, when), 0..9).prop_map(named)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() })]

    /// C2, L10: order never changes the result.
    #[test]
    fn c2_strictest_verdict_wins_in_any_order(
        (given, shuffled) in gates().prop_flat_map(|gates| (Just(gates.clone()), Just(gates).prop_shuffle()))
    ) {
        let strictest = given.iter().map(|gate| gate.says).max().unwrap_or(Says::Pass);
        let asked = given.iter().filter(|gate| gate.says == Says::Ask);
        let askers = match strictest {
            Says::Ask => asked.map(|gate| gate.name.clone()).collect(),
            _ => BTreeSet::new(),
        };
        let expected = Outcome { says: strictest, askers, ran: strictest != Says::Block };
        for order in [given, shuffled] {
            let (outcome, called, took) = on_paused_time(judge(&order));
            prop_assert_eq!(&outcome, &expected);
            check_calls(&order, &called, strictest)?;
            check_time(&order, took, strictest)?;
        }
    }
}

/// Checks the calls of gates. Gates are started in order. After an immediate block, no further gate is
/// called; otherwise each gate is called once, and once more after a yes.
fn check_calls(order: &[Gate], called: &[String], strictest: Says) -> Result<(), TestCaseError> {
    let blocks = |gate: &Gate| gate.says == Says::Block && !matches!(gate.when, When::After(_));
    let started = order.iter().position(blocks).map_or(order.len(), |index| index + 1);
    let names: Vec<_> = order[..started].iter().map(|gate| gate.name.clone()).collect();
    let expected = if strictest == Says::Ask { [&names[..], &names[..]].concat() } else { names };
    prop_assert_eq!(called, expected);
    Ok(())
}

/// Checks the duration: pending gates are waited for together, as long as the slowest takes.
fn check_time(order: &[Gate], took: u128, strictest: Says) -> Result<(), TestCaseError> {
    let waits = order.iter().map(|gate| match gate.when {
        When::After(ms) => u128::from(ms),
        _ => 0,
    });
    let slowest = waits.max().unwrap_or(0);
    match strictest {
        Says::Pass => prop_assert_eq!(took, slowest),
        Says::Ask => prop_assert_eq!(took, 2 * slowest),
        Says::Block => prop_assert!(took <= slowest),
    }
    Ok(())
}
