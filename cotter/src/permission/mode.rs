//! The permission settings: mode, level and sandbox.

use std::{error::Error, fmt, str::FromStr};

use crate::text;

/// The treatment of a call that the rules leave open. Ordered by strictness: a greater mode runs less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Like `ask`, but writes inside the project run without a question at every level.
    AcceptEdits,
    /// The level decides; other calls are asked about.
    #[default]
    Ask,
    /// No questions: a call that would need one is refused.
    Auto,
    /// Safe calls run; all others are refused.
    Plan,
}

impl Mode {
    /// Every mode with its word, in the order of messages and help.
    pub const WORDS: &[(&str, Mode)] = &[
        ("ask", Mode::Ask),
        ("accept-edits", Mode::AcceptEdits),
        ("plan", Mode::Plan),
        ("auto", Mode::Auto),
    ];

    /// The word for this mode in settings and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::AcceptEdits => "accept-edits",
            Mode::Ask => "ask",
            Mode::Auto => "auto",
            Mode::Plan => "plan",
        }
    }
}

/// The amount that runs without a question. Ordered by strictness: a greater level runs less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Work in the project and outgoing traffic run without a question.
    Permissive,
    /// Work in the project runs without a question.
    #[default]
    Standard,
    /// Only calls that change nothing run without a question.
    Strict,
    /// Nothing runs without a question.
    Paranoid,
}

impl Level {
    /// Every level with its word, the loosest first.
    pub const WORDS: &[(&str, Level)] = &[
        ("permissive", Level::Permissive),
        ("standard", Level::Standard),
        ("strict", Level::Strict),
        ("paranoid", Level::Paranoid),
    ];

    /// The word for this level in settings and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Permissive => "permissive",
            Level::Standard => "standard",
            Level::Strict => "strict",
            Level::Paranoid => "paranoid",
        }
    }
}

/// The confinement of calls that run commands, by the operating system. Ordered by strictness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Sandbox {
    /// Commands are not confined.
    Off,
    /// Commands are confined if the system supports it, and count as confined also without a view of
    /// the files of their own. Then rules about files and secrets' names do not bind them.
    Landlock,
    /// Commands are confined if the system supports it. Code of the project counts as confined only in
    /// a view of the files of its own.
    #[default]
    Auto,
    /// Commands are confined; without support they do not run.
    Required,
}

impl Sandbox {
    /// Every choice with its word, the loosest first.
    pub const WORDS: &[(&str, Sandbox)] = &[
        ("off", Sandbox::Off),
        ("landlock", Sandbox::Landlock),
        ("auto", Sandbox::Auto),
        ("required", Sandbox::Required),
    ];

    /// The word for this choice in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Sandbox::Off => "off",
            Sandbox::Landlock => "landlock",
            Sandbox::Auto => "auto",
            Sandbox::Required => "required",
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Mode, UnknownWord> {
        parse_word(word, "mode", Mode::WORDS)
    }
}

impl FromStr for Level {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Level, UnknownWord> {
        parse_word(word, "level", Level::WORDS)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error of an unknown mode or level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    message: String,
    hint: String,
}

impl UnknownWord {
    /// The hint: the most likely word, or the list of words.
    pub fn hint(&self) -> Option<&str> {
        Some(&self.hint)
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for UnknownWord {}

fn parse_word<T: Copy>(
    word: &str,
    kind: &str,
    table: &[(&'static str, T)],
) -> Result<T, UnknownWord> {
    if let Some((_, meaning)) = table.iter().find(|(known, _)| *known == word) {
        return Ok(*meaning);
    }
    let words = || table.iter().map(|(word, _)| *word);
    let all = || format!("a {kind} is one of {}", words().collect::<Vec<_>>().join(", "));
    let hint = text::did_you_mean(word, words()).unwrap_or_else(all);
    let message = format!("unknown {kind} `{}`", text::cut_chars(&text::show_line(word), 60));
    Err(UnknownWord { message, hint })
}
