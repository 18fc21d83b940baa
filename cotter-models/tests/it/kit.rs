//! Helpers of the tests: models of a local provider, conversations, replies and requests as text,
//! recorded streams.

use std::{fs, path::PathBuf, sync::Arc};

use cotter::{
    Agent, AgentBuilder, FnTool, Message, ToolOutput, ToolSpec,
    history::{
        message::{
            AssistantMessage, AssistantPart, Content, ContentPart, StopReason, ToolCall,
            ToolResultMessage, Usage,
        },
        outcome::ToolErrorKind,
    },
    model::{Delta, Model, ModelError, ReplyStream, Request, Thinking, tools::ToolList},
    permission::{Zone, facts::Facts},
};
use cotter_models::{ApiFormat, ApiKey, Http, HttpModel, Provider};
use cotter_test::{Answer, Dialect, LocalProvider};
use futures_util::StreamExt;
use serde_json::{Value, json};
use smol_str::SmolStr;

/// A key without the form of a key, so that only its value can be recognised.
pub(crate) const KEY: &str = "plain words of a local lab";

/// The built-in provider at the local address. Chat Completions use a custom provider: OpenAI shows
/// no thinking there.
pub(crate) fn provider_at(local: &LocalProvider) -> Provider {
    let provider = match local.dialect() {
        Dialect::AnthropicMessages => Provider::built_in("anthropic").expect("it is known"),
        Dialect::OpenAiResponses => Provider::built_in("openai-responses").expect("it is known"),
        _ => Provider::new("lab", ApiFormat::OpenAiChat, ""),
    };
    provider.with_base_url(local.url()).with_key(ApiKey::new(KEY))
}

/// A model of the local provider's dialect.
pub(crate) fn model_at(local: &LocalProvider) -> HttpModel {
    model_over(local, &Http::new())
}

pub(crate) fn model_over(local: &LocalProvider, http: &Http) -> HttpModel {
    provider_at(local).model(model_name(local.dialect()), http)
}

pub(crate) fn model_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages => "claude-opus-4-6",
        Dialect::OpenAiResponses => "gpt-5.6-sol",
        _ => "local",
    }
}

/// An agent builder with the tools `echo`, which returns its input, and `show`, which returns a
/// picture.
pub(crate) fn agent_of(model: impl Model) -> AgentBuilder {
    let echo = ToolSpec::new("echo", "Says it again.", json!({"type": "object"}));
    let show = ToolSpec::new("show", "Shows a picture.", json!({"type": "object"}));
    let says = FnTool::new(echo, |permit| async move {
        Ok(ToolOutput::from(permit.input()["text"].as_str().unwrap_or("nothing")))
    });
    let shows = FnTool::new(show, |_| async move {
        Ok(ToolOutput::from(vec![ContentPart::Text("A picture:".into()), picture()]))
    });
    let safe = Facts::zone(Zone::Safe);
    Agent::builder(model)
        .system_prompt("Be brief.")
        .tool(says.parallel().with_facts(safe.clone()))
        .tool(shows.parallel().with_facts(safe))
}

pub(crate) fn request(messages: impl IntoIterator<Item = Message>) -> Request {
    Request {
        system: "".into(),
        messages: messages.into_iter().collect(),
        notes: 0,
        tools: Arc::default(),
        thinking: Thinking::Off,
        max_tokens: None,
    }
}

pub(crate) fn hello() -> Request {
    request([Message::user("Hello?")])
}

pub(crate) fn tools() -> Arc<ToolList> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let read = ToolSpec::new("read", "Reads a file.", schema);
    let list = ToolSpec::new("list", "Lists a folder.", json!({"type": "object"}));
    Arc::new([read, list].into_iter().collect())
}

pub(crate) fn reply(model: &str, parts: impl Into<Vec<AssistantPart>>) -> Message {
    Message::Assistant(AssistantMessage {
        parts: parts.into(),
        model: model.into(),
        usage: Usage::default(),
        stop_reason: StopReason::EndTurn,
    })
}

pub(crate) fn text_part(text: &str) -> AssistantPart {
    AssistantPart::Text(text.into())
}

pub(crate) fn thought(text: &str, signature: impl Into<Option<&'static str>>) -> AssistantPart {
    let signature = signature.into().map(str::to_owned);
    AssistantPart::Thinking { text: text.into(), signature }
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> AssistantPart {
    AssistantPart::ToolCall(ToolCall { id: id.into(), name: name.into(), input: Arc::new(input) })
}

pub(crate) fn result(id: &str, content: impl Into<Content>) -> Message {
    result_with(id, content, None)
}

/// A result of the tool `read`, with this error.
pub(crate) fn result_with(
    id: &str,
    content: impl Into<Content>,
    error: Option<ToolErrorKind>,
) -> Message {
    Message::ToolResult(ToolResultMessage {
        call_id: id.into(),
        tool_name: "read".into(),
        content: content.into(),
        error,
        render_data: None,
    })
}

pub(crate) fn failed_result(id: &str, content: impl Into<Content>) -> Message {
    result_with(id, content, Some(ToolErrorKind::Failed))
}

pub(crate) fn picture() -> ContentPart {
    ContentPart::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() }
}

/// A model that always asks for high thinking.
pub(crate) struct Thoughtful(pub(crate) HttpModel);

impl Model for Thoughtful {
    fn name(&self) -> &SmolStr {
        self.0.name()
    }

    fn stream(&self, request: Request) -> ReplyStream {
        self.0.stream(Request { thinking: Thinking::High, ..request })
    }
}

/// The parts of a session's reply for an answer.
pub(crate) async fn parts_of(dialect: Dialect, answer: Answer) -> Vec<AssistantPart> {
    let provider = LocalProvider::start(dialect, [answer]);
    let agent = agent_of(Thoughtful(model_at(&provider))).build().expect("its tools are good");
    let session = agent.main_session().await.expect("a session is made");
    session.prompt("Hello?").await.ok();
    let messages = session.messages();
    let reply = messages.iter().find_map(|message| match message {
        Message::Assistant(reply) => Some(reply.parts.clone()),
        _ => None,
    });
    reply.expect("it answered")
}

/// All deltas of a reply.
pub(crate) async fn deltas(model: &HttpModel, request: Request) -> Vec<Result<Delta, ModelError>> {
    model.stream(request).collect().await
}

/// All deltas of a reply as text, one per line.
pub(crate) async fn reply_deltas(model: &HttpModel, request: Request) -> String {
    shown(&deltas(model, request).await)
}

pub(crate) fn shown(deltas: &[Result<Delta, ModelError>]) -> String {
    let line = |delta: &Result<Delta, ModelError>| match delta {
        Ok(Delta::Text(text)) => format!("text {text:?}\n"),
        Ok(Delta::Thinking(text)) => format!("thinking {text:?}\n"),
        Ok(Delta::Signature(signature)) => format!("signature {signature}\n"),
        Ok(Delta::Usage(usage)) => format!("counted {}\n", usage.total()),
        Ok(Delta::Call { id, name, input }) => format!("call {id:?} {name} {input}\n"),
        Ok(Delta::Done { stop_reason, usage }) => {
            let Usage { input_tokens, output_tokens, cache_read, cache_write } = usage;
            format!(
                "{}: in {input_tokens}, out {output_tokens}, cache read {cache_read}, written \
                 {cache_write}\n",
                stop_reason.as_str(),
            )
        }
        Ok(other) => format!("{other:?}\n"),
        Err(error) => failure(error),
    };
    deltas.iter().map(line).collect()
}

pub(crate) fn failure(error: &ModelError) -> String {
    match error.retry_after {
        Some(wait) => format!("{error} (wait {wait:?})\n"),
        None => format!("{error}\n"),
    }
}

/// The recorded streams of a dialect, by name.
pub(crate) fn fixtures(folder: &str) -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let Ok(files) = fs::read_dir(&folder) else { return vec![] };
    let mut all: Vec<(String, String)> = files
        .map(|file| file.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "sse"))
        .map(|path| {
            let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("it can be read");
            assert!(text.starts_with(": "), "{name} names no page");
            (name, text)
        })
        .collect();
    all.sort();
    all
}

pub(crate) fn fixture(folder: &str, name: &str) -> String {
    let found = fixtures(folder).into_iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("there is no stream {folder}/{name}")).1
}
