//! Colour: on terminals, unless `NO_COLOR` or `--color` says otherwise.

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

/// The colour setting of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    pub(crate) fn on_stdout(color: ColorChoice) -> Self {
        Style::on(color, || io::stdout().is_terminal())
    }

    pub(crate) fn on_stderr(color: ColorChoice) -> Self {
        Style::on(color, || io::stderr().is_terminal())
    }

    fn on(color: ColorChoice, terminal: impl FnOnce() -> bool) -> Self {
        let colour = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()) && terminal()
            }
        };
        Style { colour }
    }

    /// Prints a warning on standard error. A failed write cannot be reported anywhere.
    pub(crate) fn warn(self, message: &str) {
        let label = self.warning("warning:");
        let _ = writeln!(io::stderr().lock(), "{label} {}", text::show(message));
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("36", text)
    }

    pub(crate) fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn muted(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Paints line by line, so that a reader that cuts lines leaves no colour open.
    fn paint(self, code: &str, text: &str) -> String {
        if !self.colour {
            return text.into();
        }
        let lines = text.split('\n').map(|line| match line {
            "" => String::new(),
            line => format!("\u{1b}[{code}m{line}\u{1b}[0m"),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Formats a number with its noun, with a plural `s`. The noun is the end of `word`, or the part before
/// ` of `.
pub(crate) fn count(number: usize, word: &str) -> String {
    let (noun, rest) = match word.split_once(" of ") {
        Some((noun, rest)) => (noun, format!(" of {rest}")),
        None => (word, String::new()),
    };
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}{rest}")
}

/// True if the terminal understands escape sequences.
pub(crate) fn can_clear_lines() -> bool {
    env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}
