//! The cost of writing a request and reading a reply, without the network: bodies of long
//! conversations, long replies, and finding where a body breaks a cache.

#[path = "../../cotter/benches/spine/measure.rs"]
#[expect(dead_code, reason = "shared with the spine's bench, which uses all of it")]
mod measure;

use std::{fmt::Write, hint::black_box, path::Path, sync::Arc};

use cotter::{
    Agent, Message, MessageList, ToolSpec,
    history::message::{AssistantMessage, AssistantPart, StopReason, Usage},
    model::{Model, Request, Thinking, tools::ToolList},
    text::redact::Redactor,
};
use cotter_models::{ApiFormat, ApiKey, Http, HttpModel, Player, Provider, Tape};
use measure::{Goal, Table, median_of, time, time_once};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

fn main() {
    let mut table = Table::from_args();
    for (name, model) in models(&Http::new()) {
        bodies(&mut table, name, &model);
    }
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for name in ["anthropic", "openai-responses", "lab"] {
        answers(&mut table, name, &runtime);
    }
    table.print();
}

/// One model per dialect.
fn models(http: &Http) -> [(&'static str, HttpModel); 3] {
    let ready = |name: &str| {
        Provider::built_in(name).expect("it is known").with_key(ApiKey::new("none of anybody's"))
    };
    let lab = Provider::new("lab", ApiFormat::OpenAiChat, "http://127.0.0.1:9/v1");
    [
        ("anthropic", ready("anthropic").model("claude-opus-4-6", http)),
        ("openai-responses", ready("openai-responses").model("gpt-5.6-sol", http)),
        ("lab", lab.model("local", http)),
    ]
}

/// Message `number`, of 200 bytes; user and assistant alternate.
fn message(number: usize) -> Message {
    let words = "word ".repeat(40);
    if number.is_multiple_of(2) {
        return Message::user(words);
    }
    Message::Assistant(AssistantMessage {
        parts: vec![AssistantPart::Text(words)],
        model: "lab/local".into(),
        usage: Usage::default(),
        stop_reason: StopReason::EndTurn,
    })
}

/// `count` tools.
fn tools(count: usize) -> Arc<ToolList> {
    let tool = |n: usize| ToolSpec::new(format!("tool{n}"), "does it", json!({"type": "object"}));
    Arc::new((0..count).map(tool).collect())
}

fn request(messages: &MessageList, tools: &Arc<ToolList>) -> Request {
    Request {
        system: "Be brief.".into(),
        messages: messages.clone(),
        notes: 0,
        tools: tools.clone(),
        thinking: Thinking::Off,
        max_tokens: None,
    }
}

/// One more request on a long conversation, and where it breaks the cache of the request before it.
fn bodies(table: &mut Table, name: &str, model: &HttpModel) {
    let shown = tools(20);
    for count in [1_000, 10_000, 100_000] {
        let what = format!("body of one more request after {count} messages, {name}");
        let breaks = format!("break of a cache after {count} messages, {name}");
        if !table.wants(&what) && !table.wants(&breaks) {
            continue;
        }
        let mut messages: MessageList = (0..=count).map(message).collect();
        let mut last = count;
        let mut ask = |messages: &mut MessageList| {
            (1..=2).for_each(|more| messages.push(message(last + more)));
            last += 2;
            request(messages, &shown)
        };
        let first = request(&messages, &shown);
        assert!(model.body_length(&first) > 200 * count as u64);
        if table.wants(&what) {
            let took = median_of(200, || {
                let request = ask(&mut messages);
                let started = std::time::Instant::now();
                black_box(model.body_length(&request));
                started.elapsed().as_nanos() as f64
            });
            table.add(&what, took, Goal::None);
        }
        if table.wants(&breaks) {
            let (before, now) = (request(&messages, &shown), request(&messages, &tools(21)));
            assert!(model.break_at(&before, &now).is_some());
            table.add(&breaks, time(|| _ = black_box(model.break_at(&before, &now))), Goal::None);
        }
    }
    let what = format!("first body of 100000 messages, {name}");
    if table.wants(&what) {
        let all: Vec<Message> = (0..=100_000).map(message).collect();
        let kept = request(&all.iter().cloned().collect(), &shown);
        let copied = time_once(9, || model.body(&kept));
        let mut fresh: Vec<MessageList> = (0..9).map(|_| all.iter().cloned().collect()).collect();
        let took = time_once(9, || {
            let request = request(&fresh.pop().expect("there is one for each"), &shown);
            (model.body_length(&request), request)
        });
        table.add_beside(&what, took, ("copying it", copied), Goal::None);
    }
}

/// A reply of many deltas, from its bytes to the session.
fn answers(table: &mut Table, name: &str, runtime: &Runtime) {
    let what = format!("answer of 100000 pieces, {name}");
    if !table.wants(&what) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder is made");
    let time_answer = |pieces: usize| {
        let path = folder.path().join(pieces.to_string());
        record(&path, name, pieces);
        median_of(9, || {
            let player = Player::open(&path, Redactor::new()).expect("it can be played");
            let http = Http::new().with_tape(Tape::Play(player));
            let model = models(&http).into_iter().find(|(known, _)| *known == name);
            let agent = Agent::builder(model.expect("it is there").1).build().expect("it builds");
            let started = std::time::Instant::now();
            let reply = runtime.block_on(agent.process_request("Go on.")).expect("it answers");
            let took = started.elapsed().as_nanos() as f64;
            assert_eq!(reply.text().len(), 5 * pieces);
            took
        })
    };
    let (short, long) = (time_answer(10_000), time_answer(100_000));
    // The time must grow linearly with the length.
    table.add_beside(&what, long, ("10000 pieces, ten times", 10.0 * short), Goal::Ratio(1.2));
}

/// Writes a cassette with one long reply, one delta per event.
fn record(path: &Path, name: &str, pieces: usize) {
    let (url, model) = match name {
        "anthropic" => ("https://api.anthropic.com/v1/messages", "claude-opus-4-6"),
        "openai-responses" => ("https://api.openai.com/v1/responses", "gpt-5.6-sol"),
        _ => ("http://127.0.0.1:9/v1/chat/completions", "local"),
    };
    let event = |value: serde_json::Value| format!("data: {value}\n\n");
    let (begin, piece, end) = match name {
        "anthropic" => (
            vec![
                json!({"type": "message_start", "message": {"usage": {"input_tokens": 3}}}),
                json!({"type": "content_block_start", "index": 0,
                       "content_block": {"type": "text", "text": ""}}),
            ],
            json!({"type": "content_block_delta", "index": 0,
                   "delta": {"type": "text_delta", "text": "word "}}),
            vec![
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                       "usage": {"output_tokens": 7}}),
                json!({"type": "message_stop"}),
            ],
        ),
        "openai-responses" => (
            vec![],
            json!({"type": "response.output_text.delta", "item_id": "m", "output_index": 0,
                   "content_index": 0, "delta": "word "}),
            vec![json!({"type": "response.completed",
                        "response": {"status": "completed", "output": [], "usage": null}})],
        ),
        _ => (
            vec![],
            json!({"choices": [{"index": 0, "delta": {"content": "word "}}]}),
            vec![json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})],
        ),
    };
    let pieces = std::iter::repeat_n(piece, pieces);
    let events: Vec<_> = begin.into_iter().chain(pieces).chain(end).map(event).collect();
    let headers = json!({"content-type": "text/event-stream"});
    let response = json!({"status": 200, "headers": headers, "body": events});
    let request = json!({"url": url, "body": {"model": model}});
    let mut text = String::new();
    for line in [
        json!({"type": "cassette", "v": 1}),
        json!({"type": "exchange", "request": request, "response": response}),
    ] {
        let _ = writeln!(text, "{line}");
    }
    std::fs::write(path, text).expect("it is written");
}
