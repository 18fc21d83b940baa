//! Models, hooks, tools and stores that misbehave on purpose: what a review tried, and what must hold.

use std::sync::Mutex;

use cotter::{
    Agent,
    message::{StopReason, Usage},
    model::{Delta, Model, Request, Streaming},
    permission::Zone,
};
use cotter_test::{Said, ScriptedUi, transcript};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::kit::{Diary, fresh, probe};

/// A model that sends exactly these pieces, a reply per request, and then says `done`.
struct Raw {
    name: SmolStr,
    replies: Mutex<Vec<Vec<Delta>>>,
    cost: Option<f64>,
}

impl Raw {
    fn new(replies: impl IntoIterator<Item = Vec<Delta>>) -> Self {
        let mut replies: Vec<_> = replies.into_iter().collect();
        replies.reverse();
        Raw { name: "test/raw".into(), replies: Mutex::new(replies), cost: None }
    }
}

fn call(id: &str, name: &str, input: Value) -> Delta {
    Delta::Call { id: id.into(), name: name.into(), input }
}

impl Model for Raw {
    fn name(&self) -> &SmolStr {
        &self.name
    }

    fn stream(&self, _: Request) -> Streaming {
        let last = || vec![Delta::Text("done".into())];
        let mut reply = self.replies.lock().unwrap().pop().unwrap_or_else(last);
        reply.push(Delta::Done { stop_reason: StopReason::EndTurn, usage: Usage::default() });
        Box::pin(futures_util::stream::iter(reply.into_iter().map(Ok)))
    }

    fn cost_usd(&self, _: &Usage) -> Option<f64> {
        self.cost
    }
}

/// SECURITY 4: a made-up id is nobody else's, so a yes is never taken for another call's.
#[tokio::test]
async fn s4_a_yes_to_one_call_is_no_yes_to_another_of_its_id() {
    let diary = Diary::default();
    let calls = vec![
        call("call_1_1", "risky", json!({"do": "little"})),
        call("", "risky", json!({"do": "harm"})),
    ];
    let agent = Agent::builder(Raw::new([calls]))
        .ui(ScriptedUi::new([Said::Each(vec![true, false])]))
        .tool(probe("risky", Zone::External, &diary))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    assert_eq!(diary.shown(), "risky {\"do\":\"little\"}\n", "{}", transcript(&session).await);
}
