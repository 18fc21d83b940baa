//! The output of a run on standard error beside its answer: permanent lines and a spinner. While a question
//! is open, nothing else is drawn; lines that arrive meanwhile are printed after it.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cotter::text;
use tokio::sync::{Notify, oneshot};

use crate::terminal::style;

/// The escape sequence that clears the line of the cursor.
const CLEAR_LINE: &str = "\r\u{1b}[K";

/// The shared access to the screen for everything that draws during a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Screen(Arc<ScreenShared>);

#[derive(Debug, Default)]
struct ScreenShared {
    state: Mutex<ScreenState>,
    /// Notifies the follower that a question waits.
    question_waits: Notify,
}

#[derive(Debug, Default)]
struct ScreenState {
    /// The number of open questions. Questions of subagents may wait for each other.
    open_questions: usize,
    /// True if the spinner is on the screen.
    has_spinner: bool,
    /// Lines to print when no question is open.
    waiting_lines: Vec<String>,
    /// True if a follower prints the events of the run. Questions then wait for it.
    has_follower: bool,
    /// The questions that wait for the follower.
    waiting_questions: Vec<oneshot::Sender<()>>,
}

impl Screen {
    /// Prints something on lines of its own: now, or after the open question.
    pub(crate) fn print_line(&self, line: String) {
        let mut state = self.state();
        state.waiting_lines.push(line);
        state.print_waiting();
    }

    /// Draws the spinner, unless a question is open.
    pub(crate) fn draw(&self, line: &str) {
        let mut state = self.state();
        if state.open_questions == 0 {
            let _ = write!(io::stderr().lock(), "{CLEAR_LINE}{line}");
            state.has_spinner = true;
        }
    }

    /// Takes the screen for a question, after all earlier events are printed.
    pub(crate) async fn open_question(&self) -> QuestionGuard<'_> {
        let turn = {
            let mut state = self.state();
            let (sender, turn) = oneshot::channel();
            state.has_follower.then(|| state.waiting_questions.push(sender)).map(|()| turn)
        };
        if let Some(turn) = turn {
            self.0.question_waits.notify_one();
            // The follower may be gone. Then no event is left to print.
            let _ = turn.await;
        }
        let mut state = self.state();
        state.clear();
        state.open_questions += 1;
        QuestionGuard(self)
    }

    /// Registers a follower, which prints the events of the run. It calls
    /// [`Screen::let_question_proceed`] whenever it has printed all of them.
    pub(crate) fn follow(&self) -> FollowGuard {
        self.state().has_follower = true;
        FollowGuard(self.clone())
    }

    /// Waits until a question wants the screen, and lets it proceed.
    pub(crate) async fn let_question_proceed(&self) {
        self.0.question_waits.notified().await;
        for question in std::mem::take(&mut self.state().waiting_questions) {
            let _ = question.send(());
        }
    }

    fn state(&self) -> MutexGuard<'_, ScreenState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScreenState {
    fn clear(&mut self) {
        if std::mem::take(&mut self.has_spinner) {
            let _ = write!(io::stderr().lock(), "{CLEAR_LINE}");
        }
    }

    fn print_waiting(&mut self) {
        if self.open_questions > 0 || self.waiting_lines.is_empty() {
            return;
        }
        self.clear();
        for line in std::mem::take(&mut self.waiting_lines) {
            // A failed write to standard error cannot be reported anywhere.
            let _ = writeln!(io::stderr().lock(), "{line}");
        }
    }
}

/// An open question. When this is dropped, also by an abort, the waiting lines are printed.
pub(crate) struct QuestionGuard<'a>(&'a Screen);

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open_questions = state.open_questions.saturating_sub(1);
        state.print_waiting();
    }
}

/// The registration of a follower. When this is dropped, questions stop waiting for the follower, and the
/// spinner is cleared.
pub(crate) struct FollowGuard(Screen);

impl Drop for FollowGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_follower = false;
        state.waiting_questions.clear();
        state.clear();
    }
}

/// Prints a text on lines of its own, before a run has begun.
pub(crate) fn print_notice(text: &str) {
    let mut err = io::stderr().lock();
    let clears = err.is_terminal() && style::can_clear_lines();
    let clear = if clears { CLEAR_LINE } else { "" };
    // A failed write to standard error cannot be reported anywhere.
    let _ = writeln!(err, "{clear}{}", text::show(text));
}

/// Prints a warning on a line of its own, before a run has begun.
pub(crate) fn warn(message: impl Display) {
    print_notice(&format!("warning: {}", text::show_line(&message.to_string())));
}

/// Writes to standard output. A closed pipe is no error.
pub(crate) fn print_stdout(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
