//! The spinner: an animated line on a terminal during a run. Without a terminal nothing is drawn.

use std::{
    future::pending,
    io::{self, IsTerminal},
    time::Duration,
};

use cotter::text;
use rustix::termios::tcgetwinsize;
use tokio::time::{Instant, sleep_until};

use crate::terminal::{screen::Screen, style};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The delay before the first frame. A quick run shows no spinner.
const FIRST_FRAME_DELAY: Duration = Duration::from_millis(300);
const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// The number of characters of the activity that are shown if the line has room.
const MAX_ACTIVITY_CHARS: usize = 60;

/// A line on standard error with the current activity.
pub(crate) struct Spinner {
    screen: Screen,
    /// The current activity. `None` if nothing is to be drawn.
    activity: Option<String>,
    frame: usize,
    due: Option<Instant>,
}

impl Spinner {
    pub(crate) fn new(wanted: bool, screen: Screen) -> Self {
        let terminal = wanted && io::stderr().is_terminal() && style::can_clear_lines();
        Spinner { screen, activity: terminal.then(|| "thinking".into()), frame: 0, due: None }
    }

    /// Sets the current activity.
    pub(crate) fn set_activity(&mut self, activity: &str) {
        if let Some(current) = &mut self.activity {
            *current = text::cut_chars(&text::show_line(activity), MAX_ACTIVITY_CHARS).into_owned();
        }
    }

    /// Draws the next frame when it is due. Never returns if there is nothing to draw.
    pub(crate) async fn tick(&mut self) {
        let Some(activity) = &self.activity else { return pending().await };
        let due = *self.due.get_or_insert_with(|| Instant::now() + FIRST_FRAME_DELAY);
        sleep_until(due).await;
        self.due = Some(due + FRAME_INTERVAL);
        self.frame = (self.frame + 1) % FRAMES.len();
        self.screen.draw(&format!("{} {}", FRAMES[self.frame], clip_to_width(activity, columns())));
    }
}

/// Returns the current width of the terminal, which a person may change at any time.
fn columns() -> usize {
    let size = tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0);
    size.map_or(80, |size| size.ws_col.into())
}

/// Cuts the text to the line after a frame. A longer line would leave its first row behind.
fn clip_to_width(activity: &str, columns: usize) -> String {
    // Reserves the frame, the space after it, and the last column, at which some terminals begin a new line.
    let room = columns.saturating_sub(4);
    let width = |char: char| if char.is_ascii() { 1 } else { 2 };
    if activity.chars().map(width).sum::<usize>() <= room {
        return activity.to_owned();
    }
    let mut left = room.saturating_sub(width('…'));
    let fits = |char: &char| match left.checked_sub(width(*char)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let mut cut: String = activity.chars().take_while(fits).collect();
    cut.extend((room > 1).then_some('…'));
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinner_frame_is_never_wider_than_the_terminal() {
        let cases = [
            ("thinking", 80, "thinking"),
            ("read {\"path\":\"a.txt\"}", 16, "read {\"pat…"),
            ("read 世界世界", 14, "read 世…"),
            ("thinking", 12, "thinking"),
            ("thinking", 11, "think…"),
            ("thinking", 3, ""),
        ];
        for (what, columns, expected) in cases {
            assert_eq!(clip_to_width(what, columns), expected, "{columns}");
        }
    }
}
