//! Where something stands in a settings file, and what is wrong with it.

use std::{error::Error, fmt, io, sync::Arc};

use crate::document::scan;
use cotter::text;

/// A settings file's name and text, kept by every [`SourceLocation`] in it.
#[derive(PartialEq, Eq)]
pub(crate) struct SourceText {
    /// Fit to be seen.
    pub(crate) file: Arc<str>,
    pub(crate) text: String,
}

/// A place in a settings file: file, line, column and JSON path.
///
/// Kept beside a value that is judged later, so that the judgement can name it. Displayed as
/// `settings.json:3:5`.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceLocation {
    source: Arc<SourceText>,
    spot: TextPosition,
}

impl SourceLocation {
    pub(crate) fn new(source: &Arc<SourceText>, spot: TextPosition) -> SourceLocation {
        SourceLocation { source: Arc::clone(source), spot }
    }

    /// The file's name as it was given.
    pub fn file(&self) -> &str {
        &self.source.file
    }

    /// The line, from 1.
    pub fn line(&self) -> u32 {
        self.spot.line
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> u32 {
        self.spot.column
    }

    /// The JSON path of what stands here, such as `$.permissions.allow[2]`. Reads the file's text again.
    pub fn path(&self) -> String {
        scan::path_at(&self.source.text, self.spot.offset as usize)
    }

    /// An error about what stands here.
    pub fn error(&self, message: impl Into<String>) -> SettingsError {
        SettingsError {
            file: Arc::clone(&self.source.file),
            location: Some(self.clone()),
            message: text::show_line(&message.into()).into_owned(),
            hint: None,
            source: None,
        }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file(), self.line(), self.column())
    }
}

impl fmt::Debug for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceLocation({self})")
    }
}

/// A text whose meaning is somebody else's to say (a rule, an address), and its place for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedText {
    /// The text: `bash(git diff *)`.
    pub text: String,
    /// Where it stands.
    pub location: SourceLocation,
}

/// A position in a text. Files are small, so `u32` holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextPosition {
    pub(crate) offset: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl TextPosition {
    pub(crate) const START: TextPosition = TextPosition { offset: 0, line: 1, column: 1 };

    /// The spot of a later offset in the same text. Walking from spot to spot reads the text once.
    pub(crate) fn advance(self, text: &str, offset: usize) -> TextPosition {
        let mut spot = self;
        let passed = text.get(self.offset as usize..offset).unwrap_or_default();
        for (at, char) in passed.char_indices() {
            let next = || text.as_bytes().get(self.offset as usize + at + 1);
            if char == '\n' || (char == '\r' && next() != Some(&b'\n')) {
                spot.line += 1;
                spot.column = 1;
            } else {
                spot.column += 1;
            }
        }
        spot.offset += u32::try_from(passed.len()).unwrap_or(u32::MAX - spot.offset);
        spot
    }
}

/// A settings file that cannot be used, and why.
///
/// Displayed as `settings.json:3:5: $.permissions.alow: unknown key ...`; what to do about it is the
/// [`hint`](SettingsError::hint), an error of the operating system the source.
#[derive(Debug)]
pub struct SettingsError {
    file: Arc<str>,
    location: Option<SourceLocation>,
    message: String,
    hint: Option<String>,
    source: Option<io::Error>,
}

impl SettingsError {
    /// An error whose message names the file or folder itself.
    pub(crate) fn without_file(message: impl Into<String>) -> SettingsError {
        SettingsError::of_file(&Arc::from(""), message)
    }

    /// An error about a file as a whole.
    pub(crate) fn of_file(file: &Arc<str>, message: impl Into<String>) -> SettingsError {
        SettingsError {
            file: Arc::clone(file),
            location: None,
            message: message.into(),
            hint: None,
            source: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> SettingsError {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_source(mut self, source: io::Error) -> SettingsError {
        self.source = Some(source);
        self
    }

    /// The file's name as it was given; empty where the message names it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where in the file, unless the file as a whole is the matter.
    pub fn location(&self) -> Option<&SourceLocation> {
        self.location.as_ref()
    }

    /// What is wrong, without the location.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it, if that is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => write!(f, "{location}: {}: {}", location.path(), self.message),
            None if self.file.is_empty() => f.write_str(&self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl Error for SettingsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn Error + 'static))
    }
}
