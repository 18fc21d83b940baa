//! A request's body, looked at as a provider looks at it: what is missing, unknown or wrong is refused
//! in that provider's words.

use serde_json::Value;

/// A request that is not answered.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) status: u16,
    /// The provider's word for it.
    pub(super) kind: &'static str,
    pub(super) code: Option<&'static str>,
    /// Where in the request.
    pub(super) param: Option<String>,
    pub(super) message: String,
}

impl Refused {
    pub(super) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Refused { status, kind, code: None, param: None, message: message.into() }
    }

    /// A request that is wrong.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Refused::new(400, "invalid_request_error", message)
    }

    pub(super) fn with_code(self, code: &'static str) -> Self {
        Refused { code: Some(code), ..self }
    }

    pub(super) fn with_param(self, param: impl Into<String>) -> Self {
        Refused { param: Some(param.into()), ..self }
    }
}

/// Whose words are used.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum House {
    Anthropic,
    OpenAi,
}

/// A place in a body.
#[derive(Clone)]
pub(super) struct Spot<'v> {
    pub(super) value: &'v Value,
    pub(super) path: String,
    house: House,
}

impl<'v> Spot<'v> {
    pub(super) fn root(value: &'v Value, house: House) -> Self {
        Spot { value, path: String::new(), house }
    }

    /// What stands under a key, unless it is null.
    pub(super) fn get(&self, key: &str) -> Option<Spot<'v>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Spot { value, path: self.below(key), house: self.house })
    }

    /// The same where it must be there.
    pub(super) fn need(&self, key: &str) -> Result<Spot<'v>, Refused> {
        self.get(key).ok_or_else(|| {
            let path = self.below(key);
            match self.house {
                House::Anthropic => Refused::bad(format!("{path}: Field required")),
                House::OpenAi => Refused::bad(format!("Missing required parameter: '{path}'."))
                    .with_code("missing_required_parameter")
                    .with_param(path),
            }
        })
    }

    fn below(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// An object with no other keys than these.
    pub(super) fn only(&self, keys: &[&str]) -> Result<(), Refused> {
        let object = self.value.as_object().ok_or_else(|| self.wrong("an object"))?;
        let Some(unknown) = object.keys().find(|key| !keys.contains(&key.as_str())) else {
            return Ok(());
        };
        let path = self.below(unknown);
        Err(match self.house {
            House::Anthropic => Refused::bad(format!("{path}: Extra inputs are not permitted")),
            House::OpenAi => Refused::bad(format!("Unknown parameter: '{path}'."))
                .with_code("unknown_parameter")
                .with_param(path),
        })
    }

    pub(super) fn str(&self) -> Result<&'v str, Refused> {
        self.value.as_str().ok_or_else(|| self.wrong("a string"))
    }

    pub(super) fn int(&self) -> Result<u64, Refused> {
        self.value.as_u64().ok_or_else(|| self.wrong("an integer"))
    }

    pub(super) fn bool(&self) -> Result<bool, Refused> {
        self.value.as_bool().ok_or_else(|| self.wrong("a boolean"))
    }

    pub(super) fn object(&self) -> Result<(), Refused> {
        self.value.is_object().then_some(()).ok_or_else(|| self.wrong("an object"))
    }

    pub(super) fn items(&self) -> Result<Vec<Spot<'v>>, Refused> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("an array"))?;
        let spot = |(index, value)| {
            let path = match self.house {
                House::Anthropic => format!("{}.{index}", self.path),
                House::OpenAi => format!("{}[{index}]", self.path),
            };
            Spot { value, path, house: self.house }
        };
        Ok(items.iter().enumerate().map(spot).collect())
    }

    pub(super) fn one_of(&self, words: &[&str]) -> Result<&'v str, Refused> {
        let word = self.str()?;
        if words.contains(&word) {
            return Ok(word);
        }
        let list = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ");
        Err(match self.house {
            House::Anthropic => self.refuse(format!("Input should be {list}")),
            House::OpenAi => {
                Refused::bad(format!("Invalid value: '{word}'. Supported values are: {list}."))
                    .with_code("invalid_value")
                    .with_param(self.path.clone())
            }
        })
    }

    /// Letters, digits, `_` and `-`, and not too many.
    pub(super) fn name(&self, most: usize) -> Result<&'v str, Refused> {
        let name = self.str()?;
        let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
        if name.chars().all(is_plain) && !name.is_empty() && name.len() <= most {
            return Ok(name);
        }
        Err(match (self.house, most) {
            (House::Anthropic, usize::MAX) => {
                self.refuse("String should match pattern '^[a-zA-Z0-9_-]+$'")
            }
            (House::Anthropic, _) => {
                self.refuse(format!("String should match pattern '^[a-zA-Z0-9_-]{{1,{most}}}$'"))
            }
            (House::OpenAi, _) => Refused::bad(format!(
                "Invalid '{}': string does not match pattern. Expected a string that matches the \
                 pattern '^[a-zA-Z0-9_-]+$'.",
                self.path
            ))
            .with_code("invalid_value")
            .with_param(self.path.clone()),
        })
    }

    /// A text of at most so many letters.
    pub(super) fn short(&self, most: usize) -> Result<&'v str, Refused> {
        let text = self.str()?;
        if text.chars().count() <= most {
            return Ok(text);
        }
        let message = format!(
            "Invalid '{}': string too long. Expected a string with maximum length {most}, but got a \
             string with length {} instead.",
            self.path,
            text.chars().count()
        );
        Err(Refused::bad(message)
            .with_code("string_above_max_length")
            .with_param(self.path.clone()))
    }

    /// Base64 of something.
    pub(super) fn base64(&self) -> Result<(), Refused> {
        let data = self.str()?;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        if !data.is_empty() && data.len() % 4 == 0 && data.bytes().all(is_letter) {
            return Ok(());
        }
        Err(self.refuse("invalid base64 data"))
    }

    /// A refusal that names this place.
    pub(super) fn refuse(&self, message: impl Into<String>) -> Refused {
        let message = message.into();
        match self.house {
            House::Anthropic => Refused::bad(format!("{}: {message}", self.path)),
            House::OpenAi => Refused::bad(message).with_param(self.path.clone()),
        }
    }

    pub(super) fn wrong(&self, expected: &str) -> Refused {
        match self.house {
            House::Anthropic => {
                let (_, expected) = expected.split_once(' ').unwrap_or(("", expected));
                self.refuse(format!("Input should be a valid {expected}"))
            }
            House::OpenAi => {
                let found = match self.value {
                    Value::Null => "null",
                    Value::Bool(_) => "a boolean",
                    Value::Number(_) => "a number",
                    Value::String(_) => "a string",
                    Value::Array(_) => "an array",
                    Value::Object(_) => "an object",
                };
                Refused::bad(format!(
                    "Invalid type for '{}': expected {expected}, but got {found} instead.",
                    self.path
                ))
                .with_code("invalid_type")
                .with_param(self.path.clone())
            }
        }
    }
}

/// An address of an image: `data:image/png;base64,…`, or one on the net.
pub(super) fn image_url(spot: &Spot<'_>) -> Result<(), Refused> {
    let url = spot.str()?;
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(());
    }
    let data = url.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,"));
    let is_known = |kind: &str| ["png", "jpeg", "gif", "webp"].contains(&kind);
    match data {
        Some((kind, data)) if is_known(kind) && !data.is_empty() => Ok(()),
        _ => Err(spot.refuse(
            "Invalid image data. Expected a base64-encoded data URL with an image MIME type of \
             image/png, image/jpeg, image/gif or image/webp.",
        )),
    }
}
