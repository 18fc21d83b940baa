//! The sections `providers` and `models`: addresses of providers, and data about models that override the
//! known values.
//!
//! This module reads the words; the code for providers gives them their meaning.

use std::collections::BTreeMap;

use crate::{
    document::{
        Node,
        location::{SettingsError, SourceLocation},
    },
    settings::{SourcedText, one_text},
};
use cotter::{model::Price, text::redact::Redactor};

pub(crate) const PROVIDER_KEYS: &[&str] =
    &["speaks", "baseUrl", "apiKeyVariable", "idleTimeoutMs", "requestTimeoutMs"];
pub(crate) const MODEL_KEYS: &[&str] = &["contextWindow", "maxOutput", "price"];
pub(crate) const PRICE_KEYS: &[&str] = &["input", "output", "cacheRead", "cacheWrite"];

/// An entry of the section `providers`. A missing key has the default of the provider with this name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderSettings {
    /// The protocol of the provider, as a word.
    pub speaks: Option<SourcedText>,
    /// The address.
    pub base_url: Option<SourcedText>,
    /// The variable that contains the API key. A settings file never contains the key itself.
    pub api_key_variable: Option<String>,
    /// The maximum time without data from the provider, in milliseconds.
    pub idle_timeout_ms: Option<u64>,
    /// The maximum time of a whole request, in milliseconds.
    pub request_timeout_ms: Option<u64>,
    /// The location of the entry.
    pub location: SourceLocation,
}

/// An entry of the section `models`: data that override the known values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelSettings {
    /// The maximum number of tokens in a conversation.
    pub context_window: Option<u64>,
    /// The maximum number of tokens in a reply.
    pub max_output: Option<u64>,
    /// The price of a million tokens.
    pub price: Option<Price>,
}

pub(crate) fn providers(
    node: Node<'_>,
) -> Result<BTreeMap<String, ProviderSettings>, SettingsError> {
    let object = node.object()?;
    let entry = |(key, node): (SourcedText, Node<'_>)| {
        let allowed = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
        if key.text.is_empty() || !key.text.chars().all(allowed) {
            let message = "a provider's name may have only letters, digits, `.`, `_` and `-`";
            return Err(key.location.error(message));
        }
        Ok((key.text, provider(node)?))
    };
    object.entries().map(entry).collect()
}

fn provider(node: Node<'_>) -> Result<ProviderSettings, SettingsError> {
    const HINT: &str =
        "put the key into a variable and name the variable: \"apiKeyVariable\": \"LAB_API_KEY\"";
    let object = node.object()?;
    let key = object.entries().find(|(key, _)| is_api_key_name(&key.text));
    if let Some((key, _)) = key {
        let message = "a settings file must not contain an API key";
        return Err(key.location.error(message).with_hint(HINT));
    }
    let object = object.keys(PROVIDER_KEYS)?;
    let variable = |node: Node<'_>| match node.string()? {
        name if is_variable(name) => Ok(name.to_owned()),
        // The value may be the key itself, so the error does not repeat it.
        _ => Err(node.error("expected the name of a variable, in capital letters").with_hint(HINT)),
    };
    const A_DAY: u64 = 24 * 60 * 60 * 1000;
    let millis = |node: Node<'_>| node.u64_in(1..=A_DAY);
    Ok(ProviderSettings {
        speaks: object.get("speaks").map(one_text).transpose()?,
        base_url: object.get("baseUrl").map(one_text).transpose()?,
        api_key_variable: object.get("apiKeyVariable").map(variable).transpose()?,
        idle_timeout_ms: object.get("idleTimeoutMs").map(millis).transpose()?,
        request_timeout_ms: object.get("requestTimeoutMs").map(millis).transpose()?,
        location: node.location(),
    })
}

/// True if the name of a key suggests that its value is an API key itself.
fn is_api_key_name(name: &str) -> bool {
    let letters = name.chars().filter(|char| char.is_ascii_alphanumeric());
    let letters = letters.collect::<String>().to_ascii_lowercase();
    ["apikey", "key", "token", "authtoken", "secret", "password"].contains(&letters.as_str())
}

fn is_variable(name: &str) -> bool {
    let allowed = |char: char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_';
    let starts = |name: &str| name.starts_with(|char: char| !char.is_ascii_digit());
    let is_secret = || Redactor::new().redact(name) != name;
    name.len() <= 64 && starts(name) && name.chars().all(allowed) && !is_secret()
}

pub(crate) fn models(node: Node<'_>) -> Result<BTreeMap<String, ModelSettings>, SettingsError> {
    let object = node.object()?;
    let entry = |(key, node): (SourcedText, Node<'_>)| {
        let halves = key.text.split_once('/');
        if halves.is_none_or(|(provider, model)| provider.is_empty() || model.trim().is_empty()) {
            return Err(key.location.error("expected a model's name, `provider/model`"));
        }
        Ok((key.text, model(node)?))
    };
    object.entries().map(entry).collect()
}

fn model(node: Node<'_>) -> Result<ModelSettings, SettingsError> {
    const MOST: u64 = 1_000_000_000;
    let object = node.object()?.keys(MODEL_KEYS)?;
    let tokens = |key| object.get(key).map(|node| node.u64_in(1..=MOST)).transpose();
    Ok(ModelSettings {
        context_window: tokens("contextWindow")?,
        max_output: tokens("maxOutput")?,
        price: object.get("price").map(price).transpose()?,
    })
}

/// Reads a price in dollars per million tokens. A cache price that is missing equals the input price.
fn price(node: Node<'_>) -> Result<Price, SettingsError> {
    let object = node.object()?.keys(PRICE_KEYS)?;
    let dollars = |node: Node<'_>| match node.f64()? {
        number if number >= 0.0 => Ok(number),
        _ => Err(node.expected("a number that is not below 0")),
    };
    let input = dollars(object.require("input")?)?;
    let cache = |key| object.get(key).map(dollars).unwrap_or(Ok(input));
    Ok(Price {
        input,
        output: dollars(object.require("output")?)?,
        cache_read: cache("cacheRead")?,
        cache_write: cache("cacheWrite")?,
    })
}
