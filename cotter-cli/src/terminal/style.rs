//! The looks of printed text: colors, numbers with their nouns, and whether a terminal can clear lines. Text
//! has colors on terminals, unless `NO_COLOR` or `--color` says otherwise.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

use clap::ValueEnum;
use cotter::text;

/// The value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On terminals.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// The color setting of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    has_color: bool,
}

impl Style {
    pub(crate) fn on_stdout(color: ColorChoice) -> Self {
        Style::on(color, || io::stdout().is_terminal())
    }

    pub(crate) fn on_stderr(color: ColorChoice) -> Self {
        Style::on(color, || io::stderr().is_terminal())
    }

    fn on(color: ColorChoice, terminal: impl FnOnce() -> bool) -> Self {
        let has_color = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()) && terminal()
            }
        };
        Style { has_color }
    }

    /// Prints a warning on standard error. A failed write cannot be reported anywhere.
    pub(crate) fn print_warning(self, message: &str) {
        let label = self.warning("warning:");
        let _ = writeln!(io::stderr().lock(), "{label} {}", text::show(message));
    }

    /// Returns the text in bold red.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Returns the text in cyan, the color of good results and of hints.
    pub(crate) fn good(self, text: &str) -> String {
        self.paint("36", text)
    }

    /// Returns the text in yellow. Prints nothing.
    pub(crate) fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Returns the text in bold.
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Returns the text in a faint color.
    pub(crate) fn muted(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Colors each line separately. If a program such as `head` prints only the first lines, the color ends
    /// with the last of them.
    fn paint(self, code: &str, text: &str) -> String {
        if !self.has_color {
            return text.into();
        }
        let lines = text.split('\n').map(|line| match line {
            "" => String::new(),
            line => format!("\u{1b}[{code}m{line}\u{1b}[0m"),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Formats a number with a noun: `1 file`, `2 files`. If `word` contains ` of `, the plural `s` stands
/// before it: `2 lines of text`.
pub(crate) fn count(number: usize, word: &str) -> String {
    let (noun, rest) = match word.split_once(" of ") {
        Some((noun, rest)) => (noun, format!(" of {rest}")),
        None => (word, String::new()),
    };
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}{rest}")
}

/// True if the terminal can clear a line. `TERM` tells whether it understands escape sequences.
pub(crate) fn can_clear_lines() -> bool {
    env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}
