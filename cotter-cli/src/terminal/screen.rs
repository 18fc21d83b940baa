//! What a run puts on standard error beside its answer: lines that stay, a sign of life that comes and
//! goes. While a question is open nothing else is drawn; what comes meanwhile is told after it.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cotter::text;
use tokio::sync::{Notify, oneshot};

use crate::terminal::style;

/// Takes the line away that the cursor is on.
const CLEAR: &str = "\r\u{1b}[K";

/// The one way to the screen of everybody who draws during a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Screen(Arc<ScreenShared>);

#[derive(Debug, Default)]
struct ScreenShared {
    state: Mutex<ScreenState>,
    /// Somebody waits to put a question.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct ScreenState {
    /// How many questions are open: those of subagents may wait for each other.
    open: usize,
    /// Whether a sign of life is on the screen.
    drawn: bool,
    /// What is told when no question is open.
    waiting: Vec<String>,
    /// Whether somebody tells what happens, and so has to be waited for.
    followed: bool,
    /// Who waits to put a question.
    asking: Vec<oneshot::Sender<()>>,
}

impl Screen {
    /// Tells something on lines of its own: at once, or after the question that is open.
    pub(crate) fn tell(&self, line: String) {
        let mut state = self.state();
        state.waiting.push(line);
        state.tell();
    }

    /// Draws a sign of life, unless a question is open.
    pub(crate) fn draw(&self, line: &str) {
        let mut state = self.state();
        if state.open == 0 {
            let _ = write!(io::stderr().lock(), "{CLEAR}{line}");
            state.drawn = true;
        }
    }

    /// Takes the screen for a question: once everything is told that happened before it.
    pub(crate) async fn open(&self) -> QuestionGuard<'_> {
        let told = {
            let mut state = self.state();
            let (told, until) = oneshot::channel();
            state.followed.then(|| state.asking.push(told)).map(|()| until)
        };
        if let Some(told) = told {
            self.0.wanted.notify_one();
            // Whoever followed may be gone: then nobody has anything to tell.
            let _ = told.await;
        }
        let mut state = self.state();
        state.clear();
        state.open += 1;
        QuestionGuard(self)
    }

    /// From here on somebody tells what happens, and calls `let_ask` whenever nothing is left to tell.
    pub(crate) fn follow(&self) -> FollowGuard {
        self.state().followed = true;
        FollowGuard(self.clone())
    }

    /// Waits until somebody wants to put a question, and lets them.
    pub(crate) async fn let_ask(&self) {
        self.0.wanted.notified().await;
        for asking in std::mem::take(&mut self.state().asking) {
            let _ = asking.send(());
        }
    }

    fn state(&self) -> MutexGuard<'_, ScreenState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScreenState {
    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr().lock(), "{CLEAR}");
        }
    }

    fn tell(&mut self) {
        if self.open > 0 || self.waiting.is_empty() {
            return;
        }
        self.clear();
        for line in std::mem::take(&mut self.waiting) {
            // Nobody is left to be told when this fails.
            let _ = writeln!(io::stderr().lock(), "{line}");
        }
    }
}

/// A question that is open. Its end, also when it was given up, tells what waited for it.
pub(crate) struct QuestionGuard<'a>(&'a Screen);

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open = state.open.saturating_sub(1);
        state.tell();
    }
}

/// Somebody who tells what happens. At their end questions wait for nobody, and nothing is drawn that is
/// not told.
pub(crate) struct FollowGuard(Screen);

impl Drop for FollowGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.followed = false;
        state.asking.clear();
        state.clear();
    }
}

/// Tells something on a line of its own where no run has begun.
pub(crate) fn tell(text: &str) {
    let mut err = io::stderr().lock();
    let clears = err.is_terminal() && style::can_clear_lines();
    let over = if clears { CLEAR } else { "" };
    // Nobody is left to be told when this fails.
    let _ = writeln!(err, "{over}{}", text::show(text));
}

/// Warns on a line of its own where no run has begun.
pub(crate) fn warn(words: impl Display) {
    tell(&format!("warning: {}", text::show_line(&words.to_string())));
}

/// Writes to standard output. A reader who left is no error.
pub(crate) fn say(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
