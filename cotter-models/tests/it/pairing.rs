//! Every call is sent with exactly one result right after it, for any conversation: from a damaged
//! file, with a hook that drops messages, from another program.

use cotter::{
    Agent, Message, MessageList,
    history::{
        jsonl::JsonlStore,
        message::{AssistantPart, Content, ToolResultMessage},
        outcome::ToolErrorKind,
    },
    model::{Model, Request},
};
use cotter_models::{ApiFormat, ApiKey, Http, HttpModel, Provider};
use cotter_test::{Answer, Dialect, LocalProvider, ScriptedModel, Step};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kit::{
    agent_of, call, failed_result, model_at, picture, reply, request, result, text_part,
};

/// One model per dialect. Nothing is sent.
fn models() -> [HttpModel; 3] {
    let ready = |name: &str| Provider::built_in(name).expect("it is known");
    let chat = Provider::new("lab", ApiFormat::OpenAiChat, "http://127.0.0.1:9/v1");
    let (http, key) = (Http::new(), || ApiKey::new("key"));
    [
        ready("anthropic").with_key(key()).model("claude-opus-4-6", &http),
        ready("openai-responses").with_key(key()).model("gpt-5.6-sol", &http),
        chat.model("local", &http),
    ]
}

/// The messages of a body, in order, in one form for all dialects.
#[derive(Clone, Debug, PartialEq)]
enum Sent {
    User(String),
    Says(String),
    Call(String),
    Result(String, String),
}

fn sent(body: &[u8]) -> Vec<Sent> {
    let body: Value = serde_json::from_slice(body).expect("a body is JSON");
    let mut all = vec![];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().map(|part| part["text"].as_str().unwrap_or("(a picture)")).collect()
        }
        _ => String::new(),
    };
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // Chat Completions and Anthropic's Messages have messages; Responses has items.
    for item in list(&body["messages"]).iter().chain(&list(&body["input"])) {
        match (item["role"].as_str(), item["type"].as_str()) {
            (_, Some("function_call")) => all.push(Sent::Call(word(&item["call_id"]))),
            (_, Some("function_call_output")) => {
                all.push(Sent::Result(word(&item["call_id"]), text(&item["output"])));
            }
            (Some("tool"), _) => {
                all.push(Sent::Result(word(&item["tool_call_id"]), text(&item["content"])));
            }
            (Some(role), _) => {
                let says = |text: String| match role {
                    "user" => Sent::User(text),
                    _ => Sent::Says(text),
                };
                match &item["content"] {
                    Value::Null => {}
                    Value::String(text) => all.push(says(text.clone())),
                    blocks => all.extend(list(blocks).iter().map(|block| match &block["type"] {
                        kind if kind == "tool_use" => Sent::Call(word(&block["id"])),
                        kind if kind == "tool_result" => {
                            let is_error = block["is_error"] == true;
                            let told = text(&block["content"]);
                            let told = if is_error { format!("Error: {told}") } else { told };
                            Sent::Result(word(&block["tool_use_id"]), told)
                        }
                        _ => says(text(&json!([block]))),
                    })),
                }
                let calls = list(&item["tool_calls"]);
                all.extend(calls.iter().map(|call| Sent::Call(word(&call["id"]))));
            }
            _ => panic!("what is this: {item}"),
        }
    }
    all
}

/// Checks that every call has exactly one result after it and before anything else, and that there
/// are no other results.
fn check_paired(sent: &[Sent]) -> Result<(), String> {
    let mut open: Vec<&str> = vec![];
    let mut answering = false;
    for item in sent {
        match item {
            Sent::Call(id) => {
                if answering && !open.is_empty() {
                    return Err(format!("{open:?} wait while `{id}` is called"));
                }
                answering = false;
                open.push(id);
            }
            Sent::Result(id, _) => {
                answering = true;
                let Some(at) = open.iter().position(|open| open == id) else {
                    return Err(format!("nobody called `{id}`"));
                };
                open.remove(at);
            }
            // A reply's text may stand before, between or after its calls.
            Sent::Says(_) if !answering => {}
            Sent::User(_) | Sent::Says(_) if !open.is_empty() => {
                return Err(format!("{open:?} wait, and somebody speaks"));
            }
            _ => {}
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no result")) }
}

/// The sorted values of one key of some objects.
fn ids<'v>(objects: impl Iterator<Item = &'v Value>, key: &str) -> Vec<String> {
    let mut ids: Vec<_> = objects.map(|object| object[key].to_string()).collect();
    ids.sort();
    ids
}

/// Checks Anthropic's turns: roles alternate, no turn is empty, and every result stands first in
/// the turn right after its call.
fn check_turns(turns: &[Value]) {
    let blocks = |turn: &Value| turn["content"].as_array().cloned().unwrap_or_default();
    let mut called = vec![];
    for (index, turn) in turns.iter().enumerate() {
        assert_eq!(turn["role"], ["user", "assistant"][index % 2], "turn {index}");
        let blocks = blocks(turn);
        assert!(!blocks.is_empty(), "turn {index} says nothing");
        let first = blocks.iter().take_while(|block| block["type"] == "tool_result").count();
        assert_eq!(ids(blocks[..first].iter(), "tool_use_id"), called, "turn {index}");
        assert!(blocks[first..].iter().all(|block| block["type"] != "tool_result"));
        called = ids(blocks.iter().filter(|block| block["type"] == "tool_use"), "id");
    }
    assert_eq!(called, [""; 0], "the last turn waits");
}

/// Checks Chat Completions: results follow a reply with their calls, and stand nowhere else.
fn check_answers(messages: &[Value]) {
    let mut rest = messages;
    while let [message, after @ ..] = rest {
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        let answers = after.iter().take_while(|message| message["role"] == "tool").count();
        assert_ne!(message["role"], "tool", "nobody called");
        assert_eq!(ids(after[..answers].iter(), "tool_call_id"), ids(calls.iter(), "id"));
        rest = &after[answers..];
    }
}

/// Compares the sent messages, which must be equal in every dialect.
fn check(messages: impl IntoIterator<Item = Message>, expected: Expect) {
    let request = request(messages);
    let all = models().map(|model| sent(&model.body(&request)));
    assert_eq!(all[0], all[1], "Anthropic's and Responses");
    assert_eq!(all[0], all[2], "Anthropic's and Chat Completions");
    check_paired(&all[0]).expect("it is paired");
    let line = |sent: &Sent| match sent {
        Sent::User(text) => format!("user: {text}\n"),
        Sent::Says(text) => format!("says: {text}\n"),
        Sent::Call(id) => format!("call {id}\n"),
        Sent::Result(id, text) => format!("result {id}: {text}\n"),
    };
    expected.assert_eq(&all[0].iter().map(line).collect::<String>());
}

fn calls(ids: &[&str]) -> Message {
    let calls: Vec<_> = ids.iter().map(|id| call(id, "read", json!({}))).collect();
    reply("elsewhere/model", calls)
}

fn user(text: &str) -> Message {
    Message::user(text)
}

#[test]
fn missing_result_is_replaced_by_an_error() {
    check(
        [user("go"), calls(&["a", "b"]), result("b", "B"), user("and?")],
        expect![[r#"
        user: go
        call a
        call b
        result b: B
        result a: Error: The result of this call is lost.
        user: and?
    "#]],
    );
    check(
        [user("go"), calls(&["a"]), reply("elsewhere/model", [text_part("so")])],
        expect![[r#"
        user: go
        call a
        result a: Error: The result of this call is lost.
        says: so
    "#]],
    );
    check(
        [user("go"), calls(&["a"]), calls(&["b"]), result("b", "B")],
        expect![[r#"
        user: go
        call a
        result a: Error: The result of this call is lost.
        call b
        result b: B
    "#]],
    );
    check(
        [user("go"), calls(&["a", "b"])],
        expect![[r#"
        user: go
        call a
        call b
        result a: Error: The result of this call is lost.
        result b: Error: The result of this call is lost.
    "#]],
    );
}

#[test]
fn a_second_result_of_a_call_is_left_out() {
    check(
        [user("go"), calls(&["a"]), result("a", "A"), result("a", "again"), user("and?")],
        expect![[r#"
            user: go
            call a
            result a: A
            user: and?
        "#]],
    );
    check(
        [user("go"), calls(&["a", "b"]), result("a", "A"), result("a", "again"), result("b", "B")],
        expect![[r#"
            user: go
            call a
            call b
            result a: A
            result b: B
        "#]],
    );
}

#[test]
fn result_without_a_call_is_left_out() {
    check(
        [
            result("x", "X"),
            user("go"),
            result("x", "X"),
            calls(&["a"]),
            result("x", "X"),
            result("a", "A"),
            result("x", "X"),
            user("and?"),
            result("a", "late"),
        ],
        expect![[r#"
            user: go
            call a
            result a: A
            user: and?
        "#]],
    );
}

#[test]
fn results_may_come_in_another_order() {
    check(
        [
            user("go"),
            calls(&["a", "b", "c"]),
            result("c", "C"),
            failed_result("a", "A"),
            result("b", "B"),
        ],
        expect![[r#"
            user: go
            call a
            call b
            call c
            result c: C
            result a: Error: A
            result b: B
        "#]],
    );
}

#[test]
fn result_after_a_user_message_is_left_out() {
    check(
        [user("go"), calls(&["a"]), user("wait"), result("a", "A")],
        expect![[r#"
        user: go
        call a
        result a: Error: The result of this call is lost.
        user: wait
    "#]],
    );
}

/// Some providers reuse ids.
#[test]
fn id_may_repeat_in_a_later_reply() {
    check(
        [
            user("go"),
            calls(&["a"]),
            result("a", "1"),
            calls(&["a"]),
            calls(&["a"]),
            result("a", "3"),
            result("a", "4"),
        ],
        expect![[r#"
            user: go
            call a
            result a: 1
            call a
            result a: Error: The result of this call is lost.
            call a
            result a: 3
        "#]],
    );
}

/// Blocks of 64 messages are written once and cached: calls that are open at a block's end stay
/// open.
#[test]
fn pairs_hold_across_the_end_of_a_block() {
    let ids: Vec<String> = (0..70).map(|n| format!("c{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for before in 58..68 {
        for lost in [None, Some(0), Some(1), Some(3), Some(40), Some(69)] {
            let mut messages: MessageList =
                (0..before).map(|n| user(&format!("m{n}"))).chain([calls(&ids)]).collect();
            let answered = ids.iter().enumerate().filter(|(index, _)| Some(*index) != lost);
            answered.for_each(|(_, id)| messages.push(result(id, "done")));
            for model in models() {
                // The first pass writes the open calls, the second reads them from the cache.
                for _ in 0..2 {
                    let request = Request { messages: messages.clone(), ..request([]) };
                    let sent = sent(&model.body(&request));
                    let name = model.name();
                    check_paired(&sent)
                        .unwrap_or_else(|why| panic!("{name} {before} {lost:?}: {why}"));
                    let told =
                        |item: &&Sent| matches!(item, Sent::Result(_, text) if text == "done");
                    let done = sent.iter().filter(told).count();
                    assert_eq!(done, 70 - usize::from(lost.is_some()), "{name} {before} {lost:?}");
                }
                messages.push(user("and?"));
                messages.push(calls(&["z"]));
            }
        }
    }
}

/// Any list of messages, with few ids, so that ids collide.
fn messages() -> impl Strategy<Value = Vec<Message>> {
    let id = || proptest::sample::select(vec!["a", "b", "c", "d.e", "", "d_e"]);
    let part = prop_oneof![
        3 => id().prop_map(|id| call(id, "read", json!({"path": "x"}))),
        1 => proptest::sample::select(vec!["so", "", " "]).prop_map(text_part),
        1 => Just(AssistantPart::Thinking { text: "hm".into(), signature: Some("s".into()) }),
    ];
    let by = proptest::sample::select(vec!["anthropic/claude-opus-4-6", "lab/local", "else/where"]);
    let replied = (by, proptest::collection::vec(part, 0..4)).prop_map(|(by, parts)| {
        // The loop gives every call of a reply a unique id.
        let mut seen = vec![];
        let is_new = |part: &AssistantPart| match part {
            AssistantPart::ToolCall(call) if seen.contains(&call.id) => false,
            AssistantPart::ToolCall(call) => {
                seen.push(call.id.clone());
                true
            }
            _ => true,
        };
        reply(by, parts.into_iter().filter(is_new).collect::<Vec<_>>())
    });
    let content = prop_oneof![
        3 => proptest::sample::select(vec!["words", "", "\n"]).prop_map(Content::from),
        1 => Just(Content::Parts(vec![picture()])),
        1 => Just(Content::Parts(vec![])),
    ];
    let answered = (id(), content.clone(), any::<bool>()).prop_map(|(id, content, fails)| {
        Message::ToolResult(ToolResultMessage {
            call_id: id.into(),
            tool_name: "read".into(),
            content,
            error: fails.then_some(ToolErrorKind::Failed),
            render_data: None,
        })
    });
    let asked = content
        .prop_map(|content| Message::User(cotter::history::message::UserMessage::new(content)));
    let message = prop_oneof![2 => asked, 3 => replied, 5 => answered];
    proptest::collection::vec(message, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_call_has_one_result_in_any_conversation(messages in messages()) {
        let calls = |message: &Message| match message {
            Message::Assistant(reply) => reply.calls().count(),
            _ => 0,
        };
        let count: usize = messages.iter().map(calls).sum();
        let request = request(messages);
        for model in models() {
            let body = model.body(&request);
            prop_assert_eq!(&body, &model.body(&request), "asked again");
            let sent = sent(&body);
            prop_assert_eq!(check_paired(&sent), Ok(()), "{}", model.name());
            let called = sent.iter().filter(|item| matches!(item, Sent::Call(_))).count();
            prop_assert_eq!(called, count, "{}: no call is left out", model.name());
            let body: Value = serde_json::from_slice(&body).expect("a body is JSON");
            let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
            match model.name().split_once('/') {
                Some(("anthropic", _)) => check_turns(messages),
                Some(("lab", _)) => check_answers(messages),
                _ => assert!(messages.is_empty(), "Responses has none"),
            }
        }
    }
}

/// A session file with an unreadable result in the middle: every call is still sent with a result.
#[tokio::test]
async fn damaged_session_is_sent_with_all_results() {
    for dialect in Dialect::ALL {
        let folder = tempfile::tempdir().expect("there is room");
        let store = || JsonlStore::new(folder.path());
        let echo = |text: &str| Step::call("echo", json!({"text": text}));
        let script = [
            echo("one").and_call("echo", json!({"text": "two"})),
            Step::text("So."),
            echo("three"),
            Step::text("Well."),
        ];
        let agent = agent_of(ScriptedModel::new(script)).store(store()).build().expect("it builds");
        let session = agent.new_session().await.expect("it is stored");
        for prompt in ["Go.", "Again."] {
            session.prompt(prompt).await.expect("it goes well");
        }
        let id = session.id().clone();
        session.close().await;
        drop((session, agent));
        let path = store().path(&id).expect("it is a file");
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let is_lost = |line: &&str| line.contains("toolResult") && line.contains("two");
        let lost = text.lines().find(is_lost).expect("the result was stored");
        let damaged = text.replace(lost, &lost.replace("two", r"\xtwo"));
        std::fs::write(&path, damaged).expect("it can be written");
        let local = LocalProvider::start(dialect, [Answer::text("Here I am.")]);
        let agent: Agent = agent_of(model_at(&local)).store(store()).build().expect("it builds");
        let session = agent.session(&id).await.expect("it opens");
        let text_part = session.prompt("Still there?").await.expect("it is answered");
        assert_eq!((text_part.text().as_str(), local.refusals()), ("Here I am.", vec![]));
        let sent = sent(&local.requests()[0].body);
        assert_eq!(check_paired(&sent), Ok(()), "{dialect:?}");
        let results = sent.iter().filter_map(|item| match item {
            Sent::Result(_, text) => Some(text.as_str()),
            _ => None,
        });
        let results: Vec<_> = results.collect();
        assert_eq!(results, ["one", "Error: The result of this call is lost.", "three"]);
    }
}
