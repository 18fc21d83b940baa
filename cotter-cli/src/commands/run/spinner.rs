//! A sign of life on a terminal while a run goes on. Anywhere else there is none.

use std::{
    future::pending,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use cotter::text;
use tokio::time::{Instant, sleep_until};

use crate::style;

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// A quick run shows none.
const FIRST: Duration = Duration::from_millis(300);
const NEXT: Duration = Duration::from_millis(100);

/// One line on standard error that comes and goes.
pub(super) struct Spinner {
    /// What is going on; `None` where nothing is to be drawn.
    what: Option<String>,
    terminal: bool,
    frame: usize,
    drawn: bool,
    due: Option<Instant>,
}

impl Spinner {
    pub(super) fn new(wanted: bool) -> Self {
        let terminal = wanted && io::stderr().is_terminal() && style::can_clear_lines();
        Spinner {
            what: terminal.then(|| "thinking".into()),
            terminal,
            frame: 0,
            drawn: false,
            due: None,
        }
    }

    /// Says what is going on from here on.
    pub(super) fn say(&mut self, what: &str) {
        if self.terminal {
            self.what = Some(text::clip(&text::show_line(what), 60).into_owned());
        }
    }

    /// Draws nothing until something is said again.
    pub(super) fn pause(&mut self) {
        self.what = None;
    }

    /// Draws the next frame when it is due. Never over where there is nothing to draw.
    pub(super) async fn tick(&mut self) {
        let Some(what) = &self.what else { return pending().await };
        let due = *self.due.get_or_insert_with(|| Instant::now() + FIRST);
        sleep_until(due).await;
        self.due = Some(due + NEXT);
        self.frame = (self.frame + 1) % FRAMES.len();
        let _ = write!(io::stderr().lock(), "\r\u{1b}[K{} {what}", FRAMES[self.frame]);
        self.drawn = true;
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
            self.drawn = false;
        }
    }
}
