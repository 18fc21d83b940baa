//! OpenAI's Chat Completions dialect, as OpenAI and many other servers speak it: the body of a
//! request, and the differences between servers.
//!
//! Order of the body: model, tools, messages with the system prompt first. Caches read them in this
//! order and need no marks. Settings that may change from request to request stand behind the
//! messages.

mod replay;
mod calls;
mod read;
mod write;

use bytes::Bytes;
use cotter::model::{Request, Thinking, tools::ToolList};
use reqwest::Url;
use serde_json::{Value, json};
use smol_str::SmolStr;

use self::{read::ChatReader, write::ChatWriter};
use crate::{
    adapter::{Dialect, Reader},
    body::{Body, put},
    catalog::{ChatTools, Effort, ModelFacts, ThinkingControl},
    conversation::{self, WrittenConversation},
    plain,
};

/// The differences between servers that speak this dialect.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Flavour {
    /// The host that has this flavour; its subdomains have it too.
    host: &'static str,
    /// The name of the field that limits a reply.
    max_tokens: &'static str,
    /// Fields of every request.
    always: &'static [Field],
    /// Fields added when thinking is off, besides the catalogue's.
    when_not_thinking: &'static [Field],
    /// Fields added for models whose name begins with the prefix.
    by_maker: &'static [(&'static str, Field)],
    returns: ReturnedParts,
}

/// A field name and its value in JSON.
type Field = (&'static str, &'static str);

/// The parts of earlier replies that a provider wants back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReturnedParts {
    /// Thoughts of replies that called tools.
    WithCalls,
    /// Thoughts of every reply, even if empty.
    Thoughts,
    /// A signature on the first call of every reply. Replies of other models get a placeholder.
    Signatures,
}

const USAGE: Field = ("stream_options", r#"{"include_usage":true}"#);

/// The default flavour: Ollama, llama.cpp, vLLM, LM Studio and every unknown server.
const PLAIN: Flavour = Flavour {
    host: "",
    max_tokens: "max_tokens",
    always: &[USAGE],
    when_not_thinking: &[],
    by_maker: &[],
    returns: ReturnedParts::WithCalls,
};

const OPENAI: &str = "api.openai.com";

const FLAVOURS: &[Flavour] = &[
    Flavour {
        host: OPENAI,
        max_tokens: "max_completion_tokens",
        always: &[USAGE, ("store", "false")],
        ..PLAIN
    },
    Flavour {
        host: "openrouter.ai",
        // It sends the usage without being asked.
        always: &[],
        // The other makers' models are cached without a mark.
        by_maker: &[("anthropic/", ("cache_control", r#"{"type":"ephemeral"}"#))],
        ..PLAIN
    },
    Flavour {
        host: "generativelanguage.googleapis.com",
        returns: ReturnedParts::Signatures,
        ..PLAIN
    },
    Flavour {
        host: "api.deepseek.com",
        when_not_thinking: &[("thinking", r#"{"type":"disabled"}"#)],
        returns: ReturnedParts::Thoughts,
        ..PLAIN
    },
];

impl Flavour {
    /// The flavour of the server at an address.
    fn at(url: &str) -> &'static Flavour {
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let is_at = |flavour: &&Flavour| {
            let subdomain = host.strip_suffix(flavour.host);
            subdomain.is_some_and(|name| name.is_empty() || name.ends_with('.'))
        };
        FLAVOURS.iter().find(is_at).unwrap_or(&PLAIN)
    }
}

/// True if the address is OpenAI's own.
pub(crate) fn is_openai(url: &str) -> bool {
    Flavour::at(url).host == OPENAI
}

/// The dialect of one model.
pub(crate) struct Completions {
    /// `provider/model`. Replies of this model carry this name in the session.
    name: SmolStr,
    /// The provider's own name of the model.
    model: String,
    facts: ModelFacts,
    flavour: &'static Flavour,
    /// The cache key: everything that the cached bytes of messages and tools depend on.
    key: String,
}

impl Completions {
    pub(crate) fn new(name: SmolStr, model: &str, base_url: &str, facts: ModelFacts) -> Self {
        let flavour = Flavour::at(base_url);
        let key = format!("chat {} {name}", flavour.host);
        Completions { name, model: model.to_owned(), facts, flavour, key }
    }

    /// The body before the conversation, with the system prompt.
    fn head(&self, request: &Request) -> Body {
        let mut body = Body::default();
        body.text(r#"{"model":"#).json(&self.model);
        if !request.tools.is_empty() {
            let tools: &Bytes = request.tools.memoize(&self.key, |tools| tools_json(tools).into());
            body.text(r#","tools":"#).shared(tools.clone());
        }
        body.text(r#","messages":["#);
        if has_system(request) {
            body.text(r#"{"role":"system","content":"#).json(&*request.system).text("}");
        }
        body
    }

    fn write(&self, request: &Request) -> WrittenConversation<ChatWriter> {
        let returns = match self.flavour.returns {
            // Gemini before version 3 does not sign calls and wants no signatures.
            ReturnedParts::Signatures if is_unsigned(&self.model) => ReturnedParts::WithCalls,
            returns => returns,
        };
        let writer = ChatWriter::new(self.name.clone(), returns, has_system(request));
        conversation::write(&request.messages, &self.key, writer)
    }

    fn settings(&self, request: &Request) -> Value {
        let mut settings = json!({"stream": true});
        let flavour = self.flavour;
        let when_not_thinking = match request.thinking {
            Thinking::Off => flavour.when_not_thinking,
            _ => &[],
        };
        let makers = flavour.by_maker.iter().filter(|(maker, _)| self.model.starts_with(maker));
        let fields = flavour.always.iter().chain(when_not_thinking);
        for (name, value) in fields.chain(makers.map(|(_, field)| field)) {
            settings[*name] = serde_json::from_str(value).unwrap_or_default();
        }
        if let Some(max_tokens) = request.max_tokens {
            // Models that think refuse `max_tokens` on every server.
            let thinks = self.facts.thinking_control == ThinkingControl::Effort;
            let field = if thinks { "max_completion_tokens" } else { flavour.max_tokens };
            settings[field] = json!(max_tokens);
        }
        if let Some(effort) = self.effort(request) {
            settings["reasoning_effort"] = json!(effort.as_str());
        }
        settings
    }

    fn effort(&self, request: &Request) -> Option<Effort> {
        let has_tools = !request.tools.is_empty();
        if has_tools && self.facts.chat_tools == ChatTools::WithoutThinking {
            // Sent explicitly: by default the model thinks, and a thinking model refuses tools.
            return Some(Effort::None);
        }
        let effort = self.facts.effort(request.thinking)?;
        // Few models take `minimal`; a model that is not in the catalogue gets `low`.
        let is_guess = self.facts.efforts.is_empty() && effort == Effort::Minimal;
        Some(if is_guess { Effort::Low } else { effort })
    }
}

impl Dialect for Completions {
    fn path(&self) -> &'static str {
        "chat/completions"
    }

    fn body(&self, request: &Request) -> Body {
        let mut body = self.head(request);
        let written = self.write(request);
        written.pieces.into_iter().for_each(|piece| _ = body.shared(piece.bytes));
        body.text(written.writer.closing()).text("],");
        body.text(self.settings(request).to_string().trim_start_matches('{'));
        body
    }

    fn prefix(&self, request: &Request) -> Body {
        let mut body = self.head(request);
        self.write(request).pieces.into_iter().for_each(|piece| _ = body.shared(piece.bytes));
        body
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(ChatReader::default())
    }
}

fn has_system(request: &Request) -> bool {
    !request.system.trim().is_empty()
}

fn is_unsigned(model: &str) -> bool {
    let name = model.strip_prefix("models/").unwrap_or(model);
    name.starts_with("gemini-1") || name.starts_with("gemini-2")
}

fn tools_json(tools: &ToolList) -> Vec<u8> {
    let tools = tools.specs().map(|spec| {
        json!({"type": "function", "function": {
            "name": plain::name(&spec.name), "description": spec.description, "parameters": spec.schema,
        }})
    });
    let mut out = vec![];
    put(&mut out, &tools.collect::<Vec<_>>());
    out
}

#[cfg(test)]
mod tests {
    use super::Flavour;

    #[test]
    fn flavour_is_found_by_the_address() {
        let cases = [
            ("https://api.openai.com/v1", "api.openai.com"),
            ("https://eu.api.openai.com/v1/", "api.openai.com"),
            ("https://user:word@API.OpenAI.com:443/v1?x=y", "api.openai.com"),
            ("https://openrouter.ai/api/v1", "openrouter.ai"),
            (
                "https://generativelanguage.googleapis.com/v1beta/openai",
                "generativelanguage.googleapis.com",
            ),
            ("https://api.deepseek.com", "api.deepseek.com"),
            ("https://myapi.openai.com/v1", ""),
            ("https://api.openai.com.example.org/v1", ""),
            ("http://127.0.0.1:11434/v1", ""),
            ("http://localhost:8000/api.openai.com", ""),
            ("", ""),
        ];
        for (url, host) in cases {
            assert_eq!(Flavour::at(url).host, host, "{url}");
        }
    }
}
