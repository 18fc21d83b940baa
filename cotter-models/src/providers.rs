//! Providers, and the lookup of a model by name.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use cotter::{
    model::{Model, ModelDirectory, ModelError, ModelErrorKind, ModelInfo, Price},
    text::{self, redact::Redactor},
};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    adapter::{DialectPair, HttpModel},
    anthropic,
    cassette::Tape,
    catalog::{ChatTools, ModelFacts},
    chat, failure,
    http::{Http, header},
    key::ApiKey,
    rehearsal::Rehearsal,
    responses,
};

/// The most bytes of a model list that are read.
const MAX_LIST: usize = 4 * 1024 * 1024;
/// The longest wait for the body of a model list.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// The API format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApiFormat {
    /// Anthropic's Messages.
    AnthropicMessages,
    /// OpenAI's Chat Completions. Many other providers use it too.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
}

impl ApiFormat {
    /// The headers of a request, with the key.
    pub(crate) fn request_headers(self, key: Option<&ApiKey>) -> Result<HeaderMap, ModelError> {
        let mut headers = HeaderMap::new();
        if self == ApiFormat::AnthropicMessages {
            header(&mut headers, "anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        let Some(key) = key else { return Ok(headers) };
        let (name, value) = match self {
            ApiFormat::AnthropicMessages => ("x-api-key", key.expose().to_owned()),
            _ => ("authorization", format!("Bearer {}", key.expose())),
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| {
            let message = "the key has characters that are not allowed in an HTTP header";
            ModelError::new(ModelErrorKind::Auth, message)
        })?;
        value.set_sensitive(true);
        header(&mut headers, name, value);
        Ok(headers)
    }

    /// The names of the formats in settings.
    pub const WORDS: &[(&str, ApiFormat)] = &[
        ("anthropic", ApiFormat::AnthropicMessages),
        ("openai", ApiFormat::OpenAiChat),
        ("openai-responses", ApiFormat::OpenAiResponses),
    ];
}

/// A built-in provider.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BuiltInProvider {
    /// The part of a model's name before the slash.
    pub name: &'static str,
    /// The API format.
    pub speaks: ApiFormat,
    /// The base address.
    pub base_url: &'static str,
    /// The usual environment variable of the key; `None` if it needs no key.
    pub key_variable: Option<&'static str>,
    /// The usual environment variable of another base address.
    pub base_url_variable: Option<&'static str>,
    /// The model used if none is named: good with tools and not the most expensive.
    pub default_model: Option<&'static str>,
    /// The provider's name in the catalogue.
    catalogue: &'static str,
}

/// The built-in providers, in the order in which they are tried.
pub const BUILT_IN_PROVIDERS: &[BuiltInProvider] = &[
    BuiltInProvider {
        name: "anthropic",
        speaks: ApiFormat::AnthropicMessages,
        base_url: "https://api.anthropic.com",
        key_variable: Some("ANTHROPIC_API_KEY"),
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
        default_model: Some("claude-sonnet-5-5"),
        catalogue: "anthropic",
    },
    BuiltInProvider {
        name: "openai",
        speaks: ApiFormat::OpenAiChat,
        base_url: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
        base_url_variable: Some("OPENAI_BASE_URL"),
        default_model: Some("gpt-6.1-terra"),
        catalogue: "openai",
    },
    BuiltInProvider {
        name: "openai-responses",
        speaks: ApiFormat::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
        base_url_variable: Some("OPENAI_BASE_URL"),
        default_model: Some("gpt-6.1-sol"),
        catalogue: "openai",
    },
    BuiltInProvider {
        name: "gemini",
        speaks: ApiFormat::OpenAiChat,
        base_url: "https://generativelanguage.googleapis.com/v1beta/openai",
        key_variable: Some("GEMINI_API_KEY"),
        base_url_variable: None,
        default_model: Some("gemini-3.8-flash"),
        catalogue: "google",
    },
    BuiltInProvider {
        name: "openrouter",
        speaks: ApiFormat::OpenAiChat,
        base_url: "https://openrouter.ai/api/v1",
        key_variable: Some("OPENROUTER_API_KEY"),
        base_url_variable: None,
        default_model: None,
        catalogue: "openrouter",
    },
    BuiltInProvider {
        name: "ollama",
        speaks: ApiFormat::OpenAiChat,
        base_url: "http://127.0.0.1:11434/v1",
        key_variable: None,
        base_url_variable: None,
        default_model: None,
        catalogue: "ollama",
    },
];

/// A provider: its API format, base address and key.
#[derive(Clone)]
pub struct Provider {
    name: SmolStr,
    speaks: ApiFormat,
    base_url: String,
    key: Option<ApiKey>,
    needs_key: bool,
    catalogue: SmolStr,
    http: Option<Http>,
}

impl Provider {
    /// A custom provider. It needs no key unless one is set.
    pub fn new(name: impl Into<SmolStr>, speaks: ApiFormat, base_url: impl Into<String>) -> Self {
        let name = name.into();
        Provider {
            catalogue: name.clone(),
            name,
            speaks,
            base_url: base_url.into(),
            key: None,
            needs_key: false,
            http: None,
        }
    }

    /// A built-in provider, by name.
    pub fn built_in(name: &str) -> Option<Self> {
        let ready = BUILT_IN_PROVIDERS.iter().find(|ready| ready.name == name)?;
        Some(Provider {
            needs_key: ready.key_variable.is_some(),
            catalogue: ready.catalogue.into(),
            ..Provider::new(ready.name, ready.speaks, ready.base_url)
        })
    }

    /// Sets the key.
    pub fn with_key(self, key: ApiKey) -> Self {
        Provider { key: Some(key), ..self }
    }

    /// Sets another base address. A server there may need no key, so a key is no longer required.
    pub fn with_base_url(self, base_url: impl Into<String>) -> Self {
        Provider { base_url: base_url.into(), needs_key: false, ..self }
    }

    /// Makes the provider unusable without a key.
    pub fn require_key(self) -> Self {
        Provider { needs_key: true, ..self }
    }

    /// Makes the provider usable without a key.
    pub fn without_required_key(self) -> Self {
        Provider { needs_key: false, ..self }
    }

    /// Sets the API format.
    pub fn speaking(self, speaks: ApiFormat) -> Self {
        Provider { speaks, ..self }
    }

    /// Gives the provider its own connections.
    pub fn with_http(self, http: Http) -> Self {
        Provider { http: Some(http), ..self }
    }

    /// The part of a model's name before the slash.
    pub fn name(&self) -> &SmolStr {
        &self.name
    }

    /// The base address.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// True if it has a key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// True if requests can be made: it has a key or needs none.
    pub fn is_usable(&self) -> bool {
        self.key.is_some() || !self.needs_key
    }

    /// One of its models, by the provider's own name of it.
    pub fn model(&self, model: &str, http: &Http) -> HttpModel {
        let facts = ModelFacts::of(&self.row(model)).unwrap_or_default();
        self.model_with_facts(model, facts, http)
    }

    /// The models it serves, by the provider's own names. Sends a request.
    pub async fn list_models(&self, http: &Http) -> Result<Vec<String>, ModelError> {
        let path = match self.speaks {
            ApiFormat::AnthropicMessages => "v1/models?limit=1000",
            _ => "models",
        };
        let url = format!("{}/{path}", self.base_url.trim_end_matches('/'));
        let http = self.http.as_ref().unwrap_or(http);
        let answer = http.get(&url, self.speaks.request_headers(self.key.as_ref())?).await?;
        if answer.status != 200 {
            return Err(failure::of_answer(answer, self.key.as_ref()).await);
        }
        let text = answer.text(MAX_LIST, LIST_TIMEOUT).await;
        let list: Value = serde_json::from_str(&text).map_err(|cause| {
            ModelError::new(ModelErrorKind::Other, format!("cannot read the model list: {cause}"))
        })?;
        let rows = list["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(rows.iter().filter_map(|row| row["id"].as_str().map(str::to_owned)).collect())
    }

    fn row(&self, model: &str) -> String {
        format!("{}/{model}", self.catalogue)
    }

    /// The API format for a model. Some OpenAI models think and call tools only over Responses.
    fn dialect_of(&self, facts: &ModelFacts) -> ApiFormat {
        let needs_responses = facts.chat_tools != ChatTools::Yes && chat::is_openai(&self.base_url);
        match self.speaks {
            ApiFormat::OpenAiChat if needs_responses => ApiFormat::OpenAiResponses,
            speaks => speaks,
        }
    }

    fn model_with_facts(&self, model: &str, facts: ModelFacts, http: &Http) -> HttpModel {
        let (name, speaks) = (format_smolstr!("{}/{model}", self.name), self.dialect_of(&facts));
        let http = self.http.as_ref().unwrap_or(http).clone();
        let (url, key) = (&self.base_url, self.key.clone());
        let dialects = match speaks {
            ApiFormat::AnthropicMessages => {
                DialectPair::of(&name, |name| anthropic::Messages::new(name, model, facts.clone()))
            }
            ApiFormat::OpenAiChat => DialectPair::of(&name, |name| {
                chat::Completions::new(name, model, url, facts.clone())
            }),
            ApiFormat::OpenAiResponses => {
                DialectPair::of(&name, |name| responses::Responses::new(name, model, facts.clone()))
            }
        };
        HttpModel::new(name, speaks, url, key, http, facts, dialects)
    }
}

/// Does not show the key, nor a password in the address.
impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base_url = Redactor::new().redact(&self.base_url).into_owned();
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("speaks", &self.speaks)
            .field("base_url", &base_url)
            .field("has_key", &self.key.is_some())
            .finish_non_exhaustive()
    }
}

/// Facts about a model that replace the catalogue's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Override {
    /// The context window in tokens.
    pub context_window: Option<u64>,
    /// The longest reply in tokens.
    pub max_output: Option<u64>,
    /// The price of a million tokens.
    pub price: Option<Price>,
}

/// The configured providers. Finds models by name.
#[derive(Clone, Debug, Default)]
pub struct Providers {
    http: Http,
    providers: Vec<Provider>,
    overrides: BTreeMap<SmolStr, Override>,
}

impl Providers {
    /// No providers. [`Rehearsal`] is always found.
    pub fn new() -> Self {
        Providers::default()
    }

    /// Adds a provider. It replaces one of the same name.
    pub fn with(mut self, provider: Provider) -> Self {
        self.providers.retain(|other| other.name != provider.name);
        self.providers.push(provider);
        self
    }

    /// Sets the connections.
    pub fn with_http(self, http: Http) -> Self {
        Providers { http, ..self }
    }

    /// Records to a cassette, or plays from one. Playing needs no key.
    pub fn with_tape(mut self, tape: &Tape) -> Self {
        self.http = self.http.with_tape(tape.clone());
        for provider in &mut self.providers {
            provider.http = provider.http.take().map(|http| http.with_tape(tape.clone()));
            provider.needs_key &= !matches!(tape, Tape::Play(_));
        }
        self
    }

    /// Sets facts about a model, by `provider/model`.
    pub fn with_override(mut self, name: impl Into<SmolStr>, facts: Override) -> Self {
        self.overrides.insert(name.into(), facts);
        self
    }

    /// All providers, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.providers.iter()
    }

    /// The provider of that name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.name == name)
    }

    /// The facts about a model, by `provider/model`; `None` for an unknown provider.
    pub fn info(&self, name: &str) -> Option<ModelInfo> {
        let (provider, model) = name.split_once('/')?;
        Some(self.facts(self.get(provider)?, model).info(&name.into()))
    }

    /// The usable providers, in the order in which they were added.
    pub fn usable(&self) -> impl Iterator<Item = &Provider> {
        self.providers.iter().filter(|provider| provider.is_usable())
    }

    fn facts(&self, provider: &Provider, model: &str) -> ModelFacts {
        let facts = ModelFacts::of(&provider.row(model));
        // Local models are free.
        let free = || Some(Price::default()).filter(|_| provider.catalogue == "ollama");
        let mut facts =
            facts.unwrap_or_else(|| ModelFacts { price: free(), ..ModelFacts::default() });
        let name = format!("{}/{model}", provider.name);
        if let Some(overrides) = self.overrides.get(name.as_str()) {
            facts.context_window = overrides.context_window.or(facts.context_window);
            facts.max_output = overrides.max_output.or(facts.max_output);
            if overrides.price.is_some() {
                (facts.price, facts.above) = (overrides.price, None);
            }
        }
        facts
    }
}

impl ModelDirectory for Providers {
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        let bad_request = |message| ModelError::new(ModelErrorKind::BadRequest, message);
        if name == Rehearsal::NAME {
            return Ok(Arc::new(Rehearsal::new()));
        }
        let shown = text::cut_chars(&text::show_line(name), 80).into_owned();
        let Some((provider, model)) = name.split_once('/').filter(|(_, model)| !model.is_empty())
        else {
            return Err(bad_request(format!(
                "`{shown}` is not a model name: expected `provider/model`"
            )));
        };
        let Some(found) = self.get(provider) else {
            let names = self.providers.iter().map(|provider| provider.name.as_str());
            let hint = text::did_you_mean(provider, names).map(|hint| format!("; {hint}"));
            let provider = text::cut_chars(&text::show_line(provider), 40).into_owned();
            return Err(bad_request(format!(
                "there is no provider `{provider}`{}",
                hint.unwrap_or_default()
            )));
        };
        if !found.is_usable() {
            let message = format!("there is no key for `{}`", found.name);
            return Err(ModelError::new(ModelErrorKind::Auth, message));
        }
        Ok(Arc::new(found.model_with_facts(model, self.facts(found, model), &self.http)))
    }

    fn available(&self) -> Vec<ModelInfo> {
        let mut all = vec![];
        for provider in self.usable() {
            let listed: Vec<_> =
                ModelFacts::models_of(&provider.catalogue).map(|(name, _)| name).collect();
            let listed = listed.iter().filter_map(|name| name.split_once('/'));
            let configured = self.overrides.keys().filter_map(|name| name.split_once('/'));
            let configured =
                configured.filter(|(name, _)| *name == provider.name).map(|(_, model)| model);
            let mut models: Vec<_> = listed.map(|(_, model)| model).collect();
            models.extend(configured.filter(|model| !models.contains(model)).collect::<Vec<_>>());
            all.extend(models.into_iter().map(|model| {
                let name = format_smolstr!("{}/{model}", provider.name);
                self.facts(provider, model).info(&name)
            }));
        }
        all
    }

    fn api_key(&self, provider: &str) -> Option<String> {
        let found = self.get(provider)?;
        found.key.as_ref().map(|key| key.expose().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ChatTools;

    #[test]
    fn default_models_are_in_the_catalogue_and_take_tools() {
        for ready in BUILT_IN_PROVIDERS {
            let Some(model) = ready.default_model else { continue };
            let facts = ModelFacts::of(&format!("{}/{model}", ready.catalogue));
            let facts = facts.unwrap_or_else(|| panic!("{model} is in the file"));
            assert!(facts.price.is_some() && facts.context_window.is_some(), "{model}");
            let takes_tools = facts.chat_tools != ChatTools::Never;
            assert!(takes_tools || ready.speaks == ApiFormat::OpenAiResponses, "{model}");
        }
    }
}
