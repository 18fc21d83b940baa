//! Locations in settings files, and the error that names a location.

use std::{error::Error, fmt, io, sync::Arc};

use crate::document::scan;
use cotter::text;

/// The name and the text of a settings file, shared by every [`SourceLocation`] in the file.
#[derive(PartialEq, Eq)]
pub(crate) struct SourceText {
    /// The name, escaped for display.
    pub(crate) file: Arc<str>,
    pub(crate) text: String,
}

/// A location in a settings file: file, line, column and JSON path.
///
/// It is stored beside a value that is checked later, so that an error can name the location. Displayed as
/// `settings.json:3:5`.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceLocation {
    source: Arc<SourceText>,
    position: TextPosition,
}

impl SourceLocation {
    pub(crate) fn new(source: &Arc<SourceText>, position: TextPosition) -> SourceLocation {
        SourceLocation { source: Arc::clone(source), position }
    }

    /// The file's name, as the caller gave it.
    pub fn file(&self) -> &str {
        &self.source.file
    }

    /// The line, from 1.
    pub fn line(&self) -> u32 {
        self.position.line
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> u32 {
        self.position.column
    }

    /// The JSON path of the value here, such as `$.permissions.allow[2]`. Each call scans the file's text
    /// again.
    pub fn path(&self) -> String {
        scan::path_at(&self.source.text, self.position.offset as usize)
    }

    /// Creates an error about the value here.
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

/// A text that another module interprets (a rule, an address), with its location for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedText {
    /// The text: `bash(git diff *)`.
    pub text: String,
    /// The location of the text.
    pub location: SourceLocation,
}

/// A position in a text. Files are small, so `u32` is large enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextPosition {
    pub(crate) offset: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl TextPosition {
    pub(crate) const START: TextPosition = TextPosition { offset: 0, line: 1, column: 1 };

    /// The position of a later offset in the same text. Going from position to position reads the text once.
    pub(crate) fn advance(self, text: &str, offset: usize) -> TextPosition {
        let mut position = self;
        let passed = text.get(self.offset as usize..offset).unwrap_or_default();
        for (at, char) in passed.char_indices() {
            let next = || text.as_bytes().get(self.offset as usize + at + 1);
            if char == '\n' || (char == '\r' && next() != Some(&b'\n')) {
                position.line += 1;
                position.column = 1;
            } else {
                position.column += 1;
            }
        }
        position.offset += u32::try_from(passed.len()).unwrap_or(u32::MAX - position.offset);
        position
    }
}

/// An error about a settings file that cannot be used.
///
/// Displayed as `settings.json:3:5: $.permissions.alow: unknown key ...`. The [`hint`](SettingsError::hint)
/// says what to do; the source is an error of the operating system, if any.
#[derive(Debug)]
pub struct SettingsError {
    file: Arc<str>,
    location: Option<SourceLocation>,
    message: String,
    hint: Option<String>,
    source: Option<io::Error>,
}

impl SettingsError {
    /// Creates an error whose message itself names the file or folder.
    pub(crate) fn without_file(message: impl Into<String>) -> SettingsError {
        SettingsError::of_file(&Arc::from(""), message)
    }

    /// Creates an error about a whole file.
    pub(crate) fn of_file(file: &Arc<str>, message: impl Into<String>) -> SettingsError {
        SettingsError {
            file: Arc::clone(file),
            location: None,
            message: message.into(),
            hint: None,
            source: None,
        }
    }

    /// Adds a hint: what to do about the error.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> SettingsError {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the word that is nearest to the written one as a hint, if one is near.
    #[must_use]
    pub fn suggest<'a>(
        self,
        written: &str,
        words: impl IntoIterator<Item = &'a str>,
    ) -> SettingsError {
        match text::did_you_mean(written, words) {
            Some(hint) => self.with_hint(hint),
            None => self,
        }
    }

    pub(crate) fn with_source(mut self, source: io::Error) -> SettingsError {
        self.source = Some(source);
        self
    }

    /// The file's name as the caller gave it; empty if the message names the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The location in the file; `None` for an error about the whole file.
    pub fn location(&self) -> Option<&SourceLocation> {
        self.location.as_ref()
    }

    /// The description of the error, without the location.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The hint: what to do about the error, if known.
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
