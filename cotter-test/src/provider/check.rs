//! Checks of a request body. Missing, unknown and wrong fields are refused with the real provider's
//! messages.

use serde_json::Value;

/// The error of a refused request.
#[derive(Clone, Debug)]
pub(super) struct RequestError {
    pub(super) status: u16,
    /// The provider's error type.
    pub(super) kind: &'static str,
    pub(super) code: Option<&'static str>,
    /// The path in the request.
    pub(super) param: Option<String>,
    pub(super) message: String,
}

impl RequestError {
    pub(super) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        RequestError { status, kind, code: None, param: None, message: message.into() }
    }

    /// A status 400 error.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        RequestError::new(400, "invalid_request_error", message)
    }

    pub(super) fn with_code(self, code: &'static str) -> Self {
        RequestError { code: Some(code), ..self }
    }

    pub(super) fn with_param(self, param: impl Into<String>) -> Self {
        RequestError { param: Some(param.into()), ..self }
    }
}

/// The provider whose messages are used.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Provider {
    Anthropic,
    OpenAi,
}

/// A field of a body, with its path.
#[derive(Clone)]
pub(super) struct Field<'v> {
    pub(super) value: &'v Value,
    pub(super) path: String,
    provider: Provider,
}

impl<'v> Field<'v> {
    pub(super) fn root(value: &'v Value, provider: Provider) -> Self {
        Field { value, path: String::new(), provider }
    }

    /// The field under a key; `None` if missing or null.
    pub(super) fn get(&self, key: &str) -> Option<Field<'v>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Field { value, path: self.child_path(key), provider: self.provider })
    }

    /// The field under a key; an error if it is missing.
    pub(super) fn require(&self, key: &str) -> Result<Field<'v>, RequestError> {
        self.get(key).ok_or_else(|| {
            let path = self.child_path(key);
            match self.provider {
                Provider::Anthropic => RequestError::bad_request(format!("{path}: Field required")),
                Provider::OpenAi => {
                    RequestError::bad_request(format!("Missing required parameter: '{path}'."))
                        .with_code("missing_required_parameter")
                        .with_param(path)
                }
            }
        })
    }

    fn child_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Checks that it is an object with no other keys than these.
    pub(super) fn allow_keys(&self, keys: &[&str]) -> Result<(), RequestError> {
        let object = self.value.as_object().ok_or_else(|| self.wrong_type("an object"))?;
        let Some(unknown) = object.keys().find(|key| !keys.contains(&key.as_str())) else {
            return Ok(());
        };
        let path = self.child_path(unknown);
        Err(match self.provider {
            Provider::Anthropic => {
                RequestError::bad_request(format!("{path}: Extra inputs are not permitted"))
            }
            Provider::OpenAi => RequestError::bad_request(format!("Unknown parameter: '{path}'."))
                .with_code("unknown_parameter")
                .with_param(path),
        })
    }

    pub(super) fn str(&self) -> Result<&'v str, RequestError> {
        self.value.as_str().ok_or_else(|| self.wrong_type("a string"))
    }

    pub(super) fn int(&self) -> Result<u64, RequestError> {
        self.value.as_u64().ok_or_else(|| self.wrong_type("an integer"))
    }

    pub(super) fn bool(&self) -> Result<bool, RequestError> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("a boolean"))
    }

    pub(super) fn object(&self) -> Result<(), RequestError> {
        self.value.is_object().then_some(()).ok_or_else(|| self.wrong_type("an object"))
    }

    pub(super) fn items(&self) -> Result<Vec<Field<'v>>, RequestError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong_type("an array"))?;
        let field = |(index, value)| {
            let path = match self.provider {
                Provider::Anthropic => format!("{}.{index}", self.path),
                Provider::OpenAi => format!("{}[{index}]", self.path),
            };
            Field { value, path, provider: self.provider }
        };
        Ok(items.iter().enumerate().map(field).collect())
    }

    pub(super) fn one_of(&self, words: &[&str]) -> Result<&'v str, RequestError> {
        let word = self.str()?;
        if words.contains(&word) {
            return Ok(word);
        }
        let list = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ");
        Err(match self.provider {
            Provider::Anthropic => self.refuse(format!("Input should be {list}")),
            Provider::OpenAi => RequestError::bad_request(format!(
                "Invalid value: '{word}'. Supported values are: {list}."
            ))
            .with_code("invalid_value")
            .with_param(self.path.clone()),
        })
    }

    /// A name of letters, digits, `_` and `-`, not too long.
    pub(super) fn name(&self, max: usize) -> Result<&'v str, RequestError> {
        let name = self.str()?;
        let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
        if name.chars().all(is_plain) && !name.is_empty() && name.len() <= max {
            return Ok(name);
        }
        Err(match (self.provider, max) {
            (Provider::Anthropic, usize::MAX) => {
                self.refuse("String should match pattern '^[a-zA-Z0-9_-]+$'")
            }
            (Provider::Anthropic, _) => {
                self.refuse(format!("String should match pattern '^[a-zA-Z0-9_-]{{1,{max}}}$'"))
            }
            (Provider::OpenAi, _) => RequestError::bad_request(format!(
                "Invalid '{}': string does not match pattern. Expected a string that matches the \
                 pattern '^[a-zA-Z0-9_-]+$'.",
                self.path
            ))
            .with_code("invalid_value")
            .with_param(self.path.clone()),
        })
    }

    /// A text of at most that many characters.
    pub(super) fn max_chars(&self, max: usize) -> Result<&'v str, RequestError> {
        let text = self.str()?;
        if text.chars().count() <= max {
            return Ok(text);
        }
        let message = format!(
            "Invalid '{}': string too long. Expected a string with maximum length {max}, but got a \
             string with length {} instead.",
            self.path,
            text.chars().count()
        );
        Err(RequestError::bad_request(message)
            .with_code("string_above_max_length")
            .with_param(self.path.clone()))
    }

    /// Checks that it is Base64.
    pub(super) fn base64(&self) -> Result<(), RequestError> {
        let data = self.str()?;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        if !data.is_empty() && data.len() % 4 == 0 && data.bytes().all(is_letter) {
            return Ok(());
        }
        Err(self.refuse("invalid base64 data"))
    }

    /// An error that names this field.
    pub(super) fn refuse(&self, message: impl Into<String>) -> RequestError {
        let message = message.into();
        match self.provider {
            Provider::Anthropic => RequestError::bad_request(format!("{}: {message}", self.path)),
            Provider::OpenAi => RequestError::bad_request(message).with_param(self.path.clone()),
        }
    }

    pub(super) fn wrong_type(&self, expected: &str) -> RequestError {
        match self.provider {
            Provider::Anthropic => {
                let (_, expected) = expected.split_once(' ').unwrap_or(("", expected));
                self.refuse(format!("Input should be a valid {expected}"))
            }
            Provider::OpenAi => {
                let found = match self.value {
                    Value::Null => "null",
                    Value::Bool(_) => "a boolean",
                    Value::Number(_) => "a number",
                    Value::String(_) => "a string",
                    Value::Array(_) => "an array",
                    Value::Object(_) => "an object",
                };
                RequestError::bad_request(format!(
                    "Invalid type for '{}': expected {expected}, but got {found} instead.",
                    self.path
                ))
                .with_code("invalid_type")
                .with_param(self.path.clone())
            }
        }
    }
}

/// Checks the address of an image: a `data:` URL with Base64, or `http(s)`.
pub(super) fn image_url(field: &Field<'_>) -> Result<(), RequestError> {
    let url = field.str()?;
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(());
    }
    let data = url.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,"));
    let is_known = |kind: &str| ["png", "jpeg", "gif", "webp"].contains(&kind);
    match data {
        Some((kind, data)) if is_known(kind) && !data.is_empty() => Ok(()),
        _ => Err(field.refuse(
            "Invalid image data. Expected a base64-encoded data URL with an image MIME type of \
             image/png, image/jpeg, image/gif or image/webp.",
        )),
    }
}
