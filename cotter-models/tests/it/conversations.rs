//! Every provider accepts every conversation, whatever a damaged file, a hook, another provider or
//! an abort left of it.

use std::sync::LazyLock;

use cotter::{
    Message,
    history::message::{AssistantPart, Content, ContentPart, UserMessage, UserMessageKind},
    model::{Model, Request, Thinking},
};
use cotter_models::{Http, HttpModel};
use cotter_test::{Answer, Dialect, LocalProvider};
use proptest::{prelude::*, sample::select, strategy::Union};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::kit::{
    call, failed_result, model_name, parts_of, picture, provider_at, reply, reply_deltas, request,
    result, text_part, thought, tools,
};

/// The checking providers, with thoughts that each gave earlier.
struct Court {
    judges: Vec<(LocalProvider, HttpModel, Vec<AssistantPart>)>,
    runtime: tokio::runtime::Runtime,
}

static COURT: LazyLock<std::sync::Mutex<Court>> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("there is room");
    let judge = |(dialect, name)| {
        let provider = LocalProvider::start_with(dialect, |_| Answer::text("Fine."));
        let thoughts = Answer::thinking("Hm.").and_hidden_thinking("sealed").and_text("x");
        let parts = runtime.block_on(parts_of(dialect, thoughts));
        let is_thought = |part: &AssistantPart| matches!(part, AssistantPart::Thinking { .. });
        let model = provider_at(&provider).model(name, &Http::new());
        (provider, model, parts.into_iter().filter(is_thought).collect())
    };
    let mut judges: Vec<_> = Dialect::ALL.map(|dialect| (dialect, model_name(dialect))).into();
    // It takes a thinking budget and checks when one is allowed.
    judges.push((Dialect::AnthropicMessages, "claude-haiku-4-5"));
    let judges = judges.into_iter().map(judge).collect();
    std::sync::Mutex::new(Court { judges, runtime })
});

/// A part of a generated reply.
#[derive(Clone, Debug)]
enum Piece {
    Text(&'static str),
    /// A thought of the requested model, unchanged.
    OwnThought(usize),
    Unsigned,
    Call(&'static str, Value),
}

/// A message of a generated conversation.
#[derive(Clone, Debug)]
enum Turn {
    User(Content),
    Note,
    Reply {
        is_own: bool,
        pieces: Vec<Piece>,
    },
    /// The result of the nth call from the end, if there are that many.
    Result {
        back: usize,
        is_error: bool,
        content: Content,
    },
    Orphan,
}

fn text() -> impl Strategy<Value = &'static str> {
    select(vec!["", " ", "\n\n", "Well.", "ein „Wort“", "\u{0}\u{7f}", "{\"a\":1}"])
}

fn content() -> impl Strategy<Value = Content> {
    let part = prop_oneof![
        3 => text().prop_map(|text| ContentPart::Text(text.into())),
        1 => text().prop_map(ContentPart::data),
        2 => Just(picture()),
    ];
    prop_oneof![
        text().prop_map(Content::from),
        prop::collection::vec(part, 0..4).prop_map(Content::from),
    ]
}

fn piece() -> impl Strategy<Value = Piece> {
    let names = select(vec!["read", "list", "", "functions.read", "ein Werkzeug", "mcp__a__b"]);
    let inputs =
        select(vec![json!({}), json!({"path": "a"}), json!("{\"pa"), json!([]), json!(null)]);
    prop_oneof![
        text().prop_map(Piece::Text),
        (0usize..2).prop_map(Piece::OwnThought),
        Just(Piece::Unsigned),
        (names, inputs).prop_map(|(name, input)| Piece::Call(name, input)),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    Union::new_weighted(vec![
        (2, content().prop_map(Turn::User).boxed()),
        (1, Just(Turn::Note).boxed()),
        (
            4,
            (any::<bool>(), prop::collection::vec(piece(), 0..5))
                .prop_map(|(is_own, pieces)| Turn::Reply { is_own, pieces })
                .boxed(),
        ),
        (
            5,
            (0usize..4, any::<bool>(), content())
                .prop_map(|(back, is_error, content)| Turn::Result { back, is_error, content })
                .boxed(),
        ),
        (1, Just(Turn::Orphan).boxed()),
    ])
}

/// The conversation for one model.
fn messages(turns: &[Turn], model: &HttpModel, thoughts: &[AssistantPart]) -> Vec<Message> {
    let mut ids = vec![];
    let mut part = |piece: &Piece, is_own: bool| match piece {
        Piece::Text(text) => Some(text_part(text)),
        Piece::OwnThought(which) => thoughts.get(*which).cloned(),
        Piece::Unsigned => Some(thought("Broken off", None)),
        Piece::Call(name, input) => {
            // A provider takes back its own ids; foreign ids may be anything.
            let n = ids.len();
            ids.push(match n % 4 {
                _ if is_own => format!("call_{n}"),
                0 => format!("toolu_{n}"),
                1 => format!("fc_{n}|call.{n}"),
                2 => format!("call_{n}_{}", "x".repeat(80)),
                _ => format!("вызов {n}"),
            });
            Some(call(&ids[n], name, input.clone()))
        }
    };
    let mut all = vec![];
    for turn in turns {
        all.push(match turn {
            Turn::User(content) => Message::User(UserMessage::new(content.clone())),
            Turn::Note => {
                Message::User(UserMessage::with_kind("A note.".into(), UserMessageKind::Note))
            }
            Turn::Reply { is_own, pieces } => {
                let name = if *is_own { model.name().as_str() } else { "else/where" };
                reply(
                    name,
                    pieces.iter().filter_map(|piece| part(piece, *is_own)).collect::<Vec<_>>(),
                )
            }
            Turn::Orphan => result("nobody asked", "It is there."),
            Turn::Result { .. } => continue,
        });
    }
    // Add results once all calls have their ids.
    let mut with_results = vec![];
    let mut made = all.into_iter();
    let mut so_far: Vec<String> = vec![];
    for turn in turns {
        match turn {
            Turn::Result { back, is_error, content } => {
                let Some(id) = so_far.iter().rev().nth(*back) else { continue };
                let answer = if *is_error { failed_result } else { result };
                with_results.push(answer(id, content.clone()));
            }
            _ => {
                let message = made.next().expect("there is one per turn");
                if let Message::Assistant(reply) = &message {
                    so_far.extend(reply.calls().map(|call| call.id.to_string()));
                }
                with_results.push(message);
            }
        }
    }
    with_results
}

/// Sends a conversation to every provider.
fn check(turns: &[Turn], thinking: Thinking) {
    let court = COURT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (provider, model, thoughts) in &court.judges {
        let mut messages = messages(turns, model, thoughts);
        messages.push(Message::user("And?"));
        let asked = Request { thinking, tools: tools(), ..request(messages) };
        let before = provider.refusals().len();
        let reply_deltas = court.runtime.block_on(reply_deltas(model, asked));
        let refused = provider.refusals().split_off(before);
        assert_eq!(refused, Vec::<String>::new(), "{:?}", provider.dialect());
        assert!(reply_deltas.contains("text \"Fine.\""), "{reply_deltas}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_conversation_is_accepted(
        turns in prop::collection::vec(turn(), 0..12),
        thinks in any::<bool>(),
    ) {
        check(&turns, if thinks { Thinking::Medium } else { Thinking::Off });
    }

    #[test]
    fn any_long_conversation_is_accepted(turns in prop::collection::vec(turn(), 60..140)) {
        check(&turns, Thinking::Off);
    }
}
