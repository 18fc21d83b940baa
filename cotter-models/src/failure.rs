//! Classifies a provider's error response: by status, by its type and code, or by the sentence if
//! there is neither.

use std::time::{Duration, SystemTime};

use cotter::{
    model::{ModelError, ModelErrorKind as Kind},
    text::{self, redact::Redactor},
};
use serde_json::Value;

use crate::{http::HttpAnswer, key::ApiKey};

/// The longest part of a provider's message that an error repeats.
const MAX_MESSAGE: usize = 600;
/// The most bytes of an error response that are read.
pub(crate) const MAX_BODY: usize = 64 * 1024;
/// The longest wait for the body of an error response.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Error types and codes, and their kinds. The first match in this order wins.
const CODES: &[(&str, Kind)] = &[
    // An exhausted quota is not a rate limit: waiting does not help.
    ("insufficient_quota", Kind::Other),
    ("credit_balance_exhausted", Kind::Other),
    ("organization_spend_limit_exceeded", Kind::Other),
    ("project_spend_limit_exceeded", Kind::Other),
    ("organization_usage_limit_exceeded", Kind::Other),
    ("enforced_spend_limit_reached", Kind::Other),
    ("usage_not_included", Kind::Other),
    ("billing_error", Kind::Other),
    ("context_length_exceeded", Kind::ContextOverflow),
    ("exceed_context_size_error", Kind::ContextOverflow),
    ("request_too_large", Kind::ContextOverflow),
    ("authentication_error", Kind::Auth),
    ("permission_error", Kind::Auth),
    ("invalid_api_key", Kind::Auth),
    ("rate_limit_error", Kind::RateLimited),
    ("rate_limit_exceeded", Kind::RateLimited),
    ("slow_down", Kind::RateLimited),
    ("overloaded_error", Kind::Overloaded),
    ("server_is_overloaded", Kind::Overloaded),
    ("service_unavailable_error", Kind::Overloaded),
    ("unavailable_error", Kind::Overloaded),
    ("api_error", Kind::Overloaded),
    ("server_error", Kind::Overloaded),
    ("InternalServerError", Kind::Overloaded),
    ("timeout_error", Kind::Timeout),
    ("not_found_error", Kind::BadRequest),
    ("model_not_found", Kind::BadRequest),
    ("invalid_request_error", Kind::BadRequest),
    // Codes within a stream that began well. The request is at fault: a retry does not help.
    ("invalid_prompt", Kind::BadRequest),
    ("bio_policy", Kind::BadRequest),
    ("cyber_policy", Kind::BadRequest),
    ("misalignment_policy_violation", Kind::BadRequest),
    ("data_residency_mismatch", Kind::BadRequest),
    ("invalid_encrypted_content", Kind::BadRequest),
    ("unsupported_value", Kind::BadRequest),
    ("unsupported_parameter", Kind::BadRequest),
    ("invalid_image", Kind::BadRequest),
    ("invalid_image_format", Kind::BadRequest),
    ("invalid_base64_image", Kind::BadRequest),
    ("invalid_image_url", Kind::BadRequest),
    ("invalid_image_mode", Kind::BadRequest),
    ("image_too_large", Kind::BadRequest),
    ("image_too_small", Kind::BadRequest),
    ("image_parse_error", Kind::BadRequest),
    ("image_content_policy_violation", Kind::BadRequest),
    ("image_file_too_large", Kind::BadRequest),
    ("unsupported_image_media_type", Kind::BadRequest),
    ("empty_image_file", Kind::BadRequest),
    ("failed_to_download_image", Kind::BadRequest),
    ("image_file_not_found", Kind::BadRequest),
    ("BadRequestError", Kind::BadRequest),
    ("INVALID_ARGUMENT", Kind::BadRequest),
    ("RESOURCE_EXHAUSTED", Kind::RateLimited),
    ("UNAVAILABLE", Kind::Overloaded),
];

/// Phrases for a conversation that does not fit, in lower case, for providers without a code for
/// it.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the context window",
    "exceeds the available context size",
    "context size has been exceeded",
    "input tokens exceed",
    "input token count",
    "longer than the context length",
    "not fit in context length",
    "exceeds the model's maximum context",
];

/// A provider's error, read from any of the known shapes.
#[derive(Debug, Default)]
pub(crate) struct ProviderError {
    codes: Vec<String>,
    message: String,
    wait: Option<Duration>,
    /// The status in the error, for an error inside a response that began with 200.
    status: Option<u16>,
}

impl ProviderError {
    /// Reads an error: an object, a list with one object, a text, or fields at the top level.
    pub(crate) fn read(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
        let keys = ["type", "code", "status"];
        let details = error.get("details").filter(|details| details.is_object());
        let codes = keys.iter().filter_map(|key| text(error, key));
        let codes = codes.chain(details.and_then(|details| text(details, "error_code")));
        let message = match error {
            Value::String(message) => Some(message.clone()),
            _ => text(error, "message")
                .or_else(|| text(value, "message"))
                .or_else(|| text(value, "detail")),
        };
        let message = message.unwrap_or_default();
        let wait = retry_delay(error).or_else(|| wait_in(&message));
        let code = error.get("code").and_then(Value::as_u64);
        let status = code.and_then(|code| u16::try_from(code).ok());
        let provider_error = ProviderError { codes: codes.collect(), message, wait, status };
        provider_error.with_cause(error)
    }

    /// Adds the error of the upstream provider, if it is passed on.
    fn with_cause(mut self, error: &Value) -> Self {
        let Some(raw) = error.get("metadata").and_then(|metadata| metadata.get("raw")) else {
            return self;
        };
        let parsed = raw.as_str().and_then(|raw| serde_json::from_str(raw).ok());
        let cause = ProviderError::read(parsed.as_ref().unwrap_or(raw));
        if !cause.message.is_empty() {
            self.message = format!("{}: {}", self.message, cause.message);
        }
        self.codes.extend(cause.codes);
        self.wait = self.wait.or(cause.wait);
        self
    }

    /// The kind by phrase or code; `None` if nothing matches.
    fn kind(&self) -> Option<Kind> {
        let message = self.message.to_lowercase();
        if OVERFLOW.iter().any(|phrase| message.contains(phrase)) {
            return Some(Kind::ContextOverflow);
        }
        let entry = CODES.iter().find(|(code, _)| self.codes.iter().any(|own| own == code));
        entry.map(|(_, kind)| *kind)
    }

    /// The error of a stream that had begun well.
    pub(crate) fn within_stream(self, key: Option<&ApiKey>) -> ModelError {
        let by_status = || self.status.filter(|status| (400..600).contains(status)).map(by_status);
        // Without a known code the request is not known to be at fault, so it may be retried.
        let kind = self.kind().or_else(by_status).unwrap_or(Kind::Overloaded);
        let message = clean_message(&self.message, key, "the provider reported an error");
        ModelError { kind, message, retry_after: self.wait }
    }
}

/// The error of a response with an error status.
pub(crate) async fn of_answer(answer: HttpAnswer, key: Option<&ApiKey>) -> ModelError {
    let status = answer.status;
    let retry_after = retry_after(&answer);
    let may_retry = answer.header("x-should-retry").map(|word| word == "true");
    let body = answer.text(MAX_BODY, BODY_TIMEOUT).await;
    let error =
        serde_json::from_str(&body).map(|value| ProviderError::read(&value)).unwrap_or_default();
    let by_status = by_status(status);
    let kind = match error.kind() {
        // A message about tokens per minute may read like an overflow; the status 429 is right.
        Some(Kind::ContextOverflow) if by_status == Kind::RateLimited => by_status,
        // Many providers use the code of a bad request for everything; the status is more exact.
        Some(Kind::BadRequest) | None => by_status,
        Some(by_code) => by_code,
    };
    let kind = match may_retry {
        Some(false) if kind.is_temporary() => Kind::Other,
        Some(true) if kind == Kind::Other || kind == Kind::BadRequest => Kind::Overloaded,
        _ => kind,
    };
    let detail = if error.message.is_empty() { body.trim() } else { error.message.as_str() };
    let message = match clean_message(detail, key, "") {
        detail if detail.is_empty() => format!("the provider answered {status}"),
        detail => format!("the provider answered {status}: {detail}"),
    };
    ModelError { kind, message, retry_after: retry_after.or(error.wait) }
}

fn by_status(status: u16) -> Kind {
    match status {
        401 | 403 => Kind::Auth,
        402 => Kind::Other,
        408 | 504 => Kind::Timeout,
        409 => Kind::Overloaded,
        413 => Kind::ContextOverflow,
        429 => Kind::RateLimited,
        500.. => Kind::Overloaded,
        400.. => Kind::BadRequest,
        _ => Kind::Other,
    }
}

/// True if the error is about thoughts of earlier replies: sealed for another account, or bound to
/// another conversation.
pub(crate) fn is_about_thoughts(message: &str) -> bool {
    const PHRASES: &[&str] = &[
        "Invalid `signature` in `thinking` block",
        "Corrupted thought signature",
        "Invalid thought signature",
        "Thought signature is not valid",
        "encrypted content",
        "Items are not persisted when `store` is set to false",
    ];
    PHRASES.iter().any(|phrase| message.contains(phrase))
}

/// A provider's message on one line, without secrets, clipped; `if_empty` if it is empty.
pub(crate) fn clean_message(message: &str, key: Option<&ApiKey>, if_empty: &str) -> String {
    if message.is_empty() {
        return if_empty.to_owned();
    }
    let redactor = key
        .into_iter()
        .fold(Redactor::new(), |redactor, key| redactor.with_secret("key", key.expose()));
    let message = redactor.redact(message);
    text::cut_chars(&text::show_line(&message), MAX_MESSAGE).into_owned()
}

/// The wait that a response asks for, in milliseconds, in seconds or as a date.
fn retry_after(answer: &HttpAnswer) -> Option<Duration> {
    let number = |name: &str| answer.header(name)?.trim().parse::<f64>().ok();
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    if let Some(millis) = number("retry-after-ms") {
        return seconds(millis / 1000.0);
    }
    if let Some(after) = number("retry-after") {
        return seconds(after);
    }
    let date = httpdate::parse_http_date(answer.header("retry-after")?).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// `details[].retryDelay`, as in `"37s"`.
fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// The wait in a sentence: `try again in 11.054s`, `in 20ms`, `in 1h6m0s`, `in 7 minutes`.
fn wait_in(message: &str) -> Option<Duration> {
    const UNITS: &[(&str, f64)] = &[
        ("ms", 0.001),
        ("minute", 60.0),
        ("m", 60.0),
        ("second", 1.0),
        ("s", 1.0),
        ("hour", 3600.0),
        ("h", 3600.0),
    ];
    let lower = message.to_lowercase();
    let mut rest = lower.split_once("try again in ")?.1;
    let mut seconds = None;
    while let Some(digits) = rest.find(|char: char| !char.is_ascii_digit() && char != '.') {
        let (number, more) = rest.split_at(digits);
        let Ok(number) = number.parse::<f64>() else { break };
        let more = more.trim_start();
        let Some((unit, factor)) = UNITS.iter().find(|(unit, _)| more.starts_with(unit)) else {
            break;
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * factor);
        rest = &more[unit.len()..];
    }
    Duration::try_from_secs_f64(seconds?).ok()
}
