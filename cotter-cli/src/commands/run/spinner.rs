//! A sign of life on a terminal while a run goes on. Anywhere else there is none.

use std::{
    future::pending,
    io::{self, IsTerminal},
    time::Duration,
};

use cotter::text;
use tokio::time::{Instant, sleep_until};

use crate::{screen::Screen, style};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// A quick run shows none.
const FIRST: Duration = Duration::from_millis(300);
const NEXT: Duration = Duration::from_millis(100);

/// How much of what goes on is shown where there is room for more.
const MOST: usize = 60;

/// One line on standard error that comes and goes.
pub(super) struct Spinner {
    screen: Screen,
    /// What is going on; `None` where nothing is to be drawn.
    what: Option<String>,
    frame: usize,
    due: Option<Instant>,
}

impl Spinner {
    pub(super) fn new(wanted: bool, screen: Screen) -> Self {
        let terminal = wanted && io::stderr().is_terminal() && style::can_clear_lines();
        Spinner { screen, what: terminal.then(|| "thinking".into()), frame: 0, due: None }
    }

    /// Says what is going on from here on.
    pub(super) fn say(&mut self, what: &str) {
        if let Some(said) = &mut self.what {
            *said = text::clip(&text::show_line(what), MOST).into_owned();
        }
    }

    /// Draws the next frame when it is due. Never over where there is nothing to draw.
    pub(super) async fn tick(&mut self) {
        let Some(what) = &self.what else { return pending().await };
        let due = *self.due.get_or_insert_with(|| Instant::now() + FIRST);
        sleep_until(due).await;
        self.due = Some(due + NEXT);
        self.frame = (self.frame + 1) % FRAMES.len();
        self.screen.draw(&format!("{} {}", FRAMES[self.frame], what));
    }
}
