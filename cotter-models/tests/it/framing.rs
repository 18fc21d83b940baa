//! An event stream gives the same reply however it is split, and with everything the standard
//! allows between its lines.

use std::sync::{Arc, Mutex};

use cotter::model::{Delta, ModelError};
use cotter_models::HttpModel;
use cotter_test::{Answer, Dialect, LocalProvider};
use proptest::prelude::*;
use tokio::runtime::Builder;

use crate::kit::{deltas, fixture, fixtures, hello, model_at, shown};

/// The recorded streams of each dialect, and the name of a short one.
const RECORDED: &[(Dialect, &str, &str)] = &[
    (Dialect::AnthropicMessages, "anthropic", "text"),
    (Dialect::OpenAiChat, "chat", "openai-text"),
    (Dialect::OpenAiResponses, "responses", "at_the_end"),
];

/// The distance between two cuts if there are many.
const STRIDE: usize = 37;

/// A provider that gives the next answer on demand.
struct Teller {
    provider: LocalProvider,
    model: HttpModel,
    next: Arc<Mutex<Answer>>,
}

impl Teller {
    fn new(dialect: Dialect) -> Self {
        let next = Arc::new(Mutex::new(Answer::reply()));
        let told = next.clone();
        let provider = LocalProvider::start_with(dialect, move |_| {
            told.lock().expect("nobody panicked").clone()
        });
        Teller { model: model_at(&provider), provider, next }
    }

    async fn send(&self, answer: Answer) -> Vec<Result<Delta, ModelError>> {
        *self.next.lock().expect("nobody panicked") = answer;
        deltas(&self.model, hello()).await
    }

    async fn check(&self, answer: Answer, expected: &[Result<Delta, ModelError>], label: &str) {
        let text_part = self.send(answer).await;
        assert_eq!(shown(&text_part), shown(expected), "{:?} {label}", self.provider.dialect());
    }
}

#[tokio::test]
async fn a_stream_cut_in_two_at_every_byte_gives_the_same_reply() {
    for (dialect, folder, name) in RECORDED {
        let teller = Teller::new(*dialect);
        let stream = fixture(folder, name);
        let whole = teller.send(Answer::events(stream.as_str())).await;
        assert!(matches!(whole.last(), Some(Ok(Delta::Done { .. }))), "{}", shown(&whole));
        for at in 1..stream.len() {
            let cut = Answer::events(stream.as_str()).and_pieces([at, usize::MAX]);
            teller.check(cut, &whole, &format!("{name} cut at byte {at}")).await;
        }
    }
}

#[tokio::test]
async fn every_stream_cut_at_every_byte_gives_the_same_reply() {
    for (dialect, folder, _) in RECORDED {
        let teller = Teller::new(*dialect);
        for (name, stream) in fixtures(folder) {
            let whole = teller.send(Answer::events(stream.as_str())).await;
            assert!(!whole.is_empty(), "{name} says nothing");
            // Many cuts at once, so that each byte is the end of a chunk in one of the runs.
            for first in 1..=STRIDE {
                let rest = std::iter::repeat_n(STRIDE, stream.len() / STRIDE + 1);
                let sizes = std::iter::once(first).chain(rest);
                let cut = Answer::events(stream.as_str()).and_pieces(sizes);
                teller.check(cut, &whole, &format!("{name} cut at {first} and on")).await;
            }
        }
    }
}

/// Equivalent spellings of an event stream.
fn spellings(stream: &str) -> Vec<(&'static str, String)> {
    vec![
        ("with CRLF", stream.replace('\n', "\r\n")),
        ("with CR", stream.replace('\n', "\r")),
        ("with a mark of byte order", format!("\u{feff}{stream}")),
        ("with comments", stream.replace("data: ", ": still here\n:\ndata: ")),
        ("with other fields", stream.replace("data: ", "id: 7\nretry: 10\nmood: fine\ndata: ")),
        ("without blanks", stream.replace("data: ", "data:").replace("event: ", "event:")),
        ("over several lines", stream.replace("data: {", "data: {\ndata:\ndata: ")),
        ("with blank lines between", stream.replace("\n\n", "\n\n\n\n")),
        ("with comments between", stream.replace("\n\n", "\n\n: ping\n\n")),
    ]
}

#[tokio::test]
async fn every_spelling_of_a_stream_gives_the_same_reply() {
    for (dialect, folder, _) in RECORDED {
        let teller = Teller::new(*dialect);
        for (name, stream) in fixtures(folder) {
            let whole = teller.send(Answer::events(stream.as_str())).await;
            for (label, spelled) in spellings(&stream) {
                let answer = Answer::events(spelled.as_str());
                teller.check(answer.clone(), &whole, &format!("{name} {label}")).await;
                let cut = answer.and_pieces([1, 2, 3, 31]);
                teller.check(cut, &whole, &format!("{name} {label}, in pieces")).await;
            }
        }
    }
}

#[tokio::test]
async fn a_last_event_without_its_blank_line_is_no_event() {
    let teller = Teller::new(Dialect::AnthropicMessages);
    let stream = fixture("anthropic", "text");
    let text_part = teller.send(Answer::events(stream.trim_end())).await;
    assert!(!matches!(text_part.last(), Some(Ok(Delta::Done { .. }))), "{}", shown(&text_part));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streams_cut_at_random_places_give_the_same_replies(
        sizes in prop::collection::vec(1usize..200, 1..40),
        which in any::<prop::sample::Index>(),
        spelling in any::<prop::sample::Index>(),
        is_gzipped in any::<bool>(),
    ) {
        let all: Vec<_> = RECORDED
            .iter()
            .flat_map(|(dialect, folder, _)| {
                fixtures(folder).into_iter().map(move |(_, stream)| (*dialect, stream))
            })
            .collect();
        let (dialect, stream) = which.get(&all);
        let spelled = spelling.get(&spellings(stream)).1.clone();
        let runtime = Builder::new_current_thread().enable_all().build().expect("there is room");
        let (whole, cut) = runtime.block_on(async {
            let teller = Teller::new(*dialect);
            let whole = teller.send(Answer::events(stream.as_str())).await;
            let answer = Answer::events(spelled).and_pieces(sizes);
            let answer = if is_gzipped { answer.and_gzip() } else { answer };
            (whole, teller.send(answer).await)
        });
        prop_assert_eq!(shown(&whole), shown(&cut));
    }
}
