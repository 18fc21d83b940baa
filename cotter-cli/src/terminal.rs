//! The terminal: questions to the person, the screen, colour and tables.
//!
//! [`Terminal`] asks one question about all calls of a step. The person answers for all of them or one by
//! one. Keys typed before the question was readable do not count as an answer.

pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod screen;
pub(crate) mod pager;
pub(crate) mod spinner;

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use cotter::{
    hooks::ui::{CallApproval, Question, QuestionAnswer, QuestionCall, Ui, UiFuture},
    text,
};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::{net::unix::pipe::Receiver, sync::Mutex};

use crate::{
    error::CliError,
    terminal::{
        screen::Screen,
        style::{ColorChoice, Style},
    },
};

/// The time after a question appears during which keys do not count.
const KEY_GRACE: Duration = Duration::from_millis(500);

/// The number of characters of one call that are shown.
const CALL_CHARS: usize = 8000;

/// The controlling terminal.
pub(crate) struct Terminal {
    style: Style,
    tty: File,
    /// A second, non-blocking handle of this terminal, for reading only. The runtime polls it, so a dropped
    /// question leaves no reader behind.
    keys: Receiver,
    /// The lock of the question on the screen. Subagents may ask at the same time; their questions are put
    /// one after the other.
    turn: Mutex<()>,
    /// The screen for all other output, which waits while a question is open.
    screen: Screen,
    /// Stores rules that hold permanently. `None`: the person is not offered permanent rules.
    save_rules: Option<SaveRules>,
}

/// Stores allow rules, and returns the file they are in.
pub(crate) type SaveRules = fn(&[String]) -> Result<PathBuf, CliError>;

impl Terminal {
    /// Opens the terminal of this process. Fails if there is none. Must be called inside the runtime.
    pub(crate) fn open(color: ColorChoice, screen: Screen) -> io::Result<Self> {
        let open = || OpenOptions::new().read(true).write(true).open("/dev/tty");
        let (tty, keys) = (open()?, open()?);
        tcgetattr(&tty)?;
        rustix::io::ioctl_fionbio(&keys, true)?;
        let keys = Receiver::from_file_unchecked(keys)?;
        let (style, turn) = (Style::on_stderr(color), Mutex::default());
        Ok(Terminal { style, tty, keys, turn, screen, save_rules: None })
    }

    /// Lets the person allow calls permanently, through `save_rules`.
    pub(crate) fn with_save_rules(self, save_rules: SaveRules) -> Self {
        Terminal { save_rules: Some(save_rules), ..self }
    }

    /// Runs `question` once no other question is open. Output that waited is printed between two questions.
    async fn ask_in_turn<T>(&self, question: impl Future<Output = T>) -> T {
        let _turn = self.turn.lock().await;
        let _open = self.screen.open_question().await;
        question.await
    }

    /// Shows a text, then waits until typed keys can be an answer to it.
    pub(crate) async fn show_then_wait(&self, shown: &str) -> io::Result<()> {
        let _quiet = EchoOff::new(&self.tty, LocalModes::ECHO | LocalModes::ICANON)?;
        // Clears keys that were typed and echoed before.
        let clear = if style::can_clear_lines() { "\r\u{1b}[K" } else { "" };
        self.write(&format!("{clear}{shown}"))?;
        tokio::time::sleep(KEY_GRACE).await;
        Ok(())
    }

    /// Reads one line, without its end. `None` at the end of the terminal's input.
    async fn read_line(&self) -> io::Result<Option<String>> {
        let mut line = vec![];
        let mut buffer = [0; 1024];
        loop {
            self.keys.readable().await?;
            let read = match self.keys.try_read(&mut buffer) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => continue,
                read => read?,
            };
            line.extend_from_slice(&buffer[..read]);
            if read == 0 && line.is_empty() {
                return Ok(None);
            }
            if read == 0 || line.ends_with(b"\n") {
                return Ok(Some(String::from_utf8_lossy(line.trim_ascii()).into_owned()));
            }
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        (&self.tty).write_all(text.as_bytes())
    }

    /// Works like [`Terminal::ask_until_valid`], without echo of the answer.
    pub(crate) async fn ask_secret<T>(
        &self,
        prompt: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> io::Result<Option<T>> {
        let _unseen = EchoOff::new(&self.tty, LocalModes::ECHO)?;
        // The terminal does not echo the end of the line either.
        let answer = self.ask_until_valid(prompt, |line| {
            let _ = self.write("\n");
            read(line)
        });
        answer.await
    }

    /// Asks until `read` accepts the line. The error text of `read` says what may be typed.
    pub(crate) async fn ask_until_valid<T>(
        &self,
        prompt: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> io::Result<Option<T>> {
        loop {
            self.write(prompt)?;
            let open = OpenLine(&self.tty);
            let Some(line) = self.read_line().await? else { return Ok(None) };
            open.mark_ended();
            match read(&line) {
                Ok(answer) => return Ok(Some(answer)),
                Err(message) => self.write(&format!("{}\n", text::show_line(&message)))?,
            }
        }
    }

    /// Asks for a yes or no to `text`. The person may have `more` shown first.
    pub(crate) async fn confirm_or_show(&self, text: &str, more: impl Fn() -> String) -> bool {
        let more = ExtraDetail { description: "the text of every file", text: more };
        self.decide_or_show(text, more).await.unwrap_or(false)
    }

    /// Works like [`Terminal::confirm_or_show`]. `None` if the person gave no answer.
    pub(crate) async fn decide_or_show(
        &self,
        text: &str,
        more: ExtraDetail<impl Fn() -> String>,
    ) -> Option<bool> {
        let read = |line: &str| match (line.to_ascii_lowercase().as_str(), BulkAnswer::read(line)) {
            ("s" | "show", _) => Ok(None),
            (_, Some(BulkAnswer::All(decision))) => Ok(Some(decision)),
            _ => Err(format!("type s, y or n; s shows {}", more.description)),
        };
        let answer = async {
            self.show_then_wait(&format!("{}\n", text::show(text))).await?;
            loop {
                match self.ask_until_valid("[s]how all, [y]es, [n]o: ", read).await? {
                    Some(None) => {
                        let shown = format!("{}\n", text::show(&(more.text)()));
                        let is_paged = pager::page(&shown, &self.tty);
                        self.show_then_wait(if is_paged { "" } else { &shown }).await?;
                    }
                    decided => return Ok::<_, io::Error>(decided.flatten()),
                }
            }
        };
        let answer = self.ask_in_turn(answer).await.ok().flatten();
        answer.map(|decision| decision == CallApproval::Yes)
    }

    async fn decide(&self, question: &Question) -> io::Result<Option<QuestionAnswer>> {
        self.show_then_wait(&render_question(question, self.style)).await?;
        if let [only] = &question.calls[..] {
            let decision = self.decide_one(only, "Run it? ").await?;
            return Ok(
                decision.map(|decision| QuestionAnswer::all(question, decision, LEDGER_NAME))
            );
        }
        let help = "type y, n or e; text after n is sent to the model";
        let read = |line: &str| BulkAnswer::read(line).ok_or_else(|| help.to_owned());
        match self.ask_until_valid("Run them? [y]es, [n]o, [e]ach: ", read).await? {
            None => Ok(None),
            Some(BulkAnswer::All(decision)) => {
                Ok(Some(QuestionAnswer::all(question, decision, LEDGER_NAME)))
            }
            Some(BulkAnswer::Each) => self.decide_each(question).await,
        }
    }

    async fn decide_each(&self, question: &Question) -> io::Result<Option<QuestionAnswer>> {
        let mut answer = QuestionAnswer::all(question, CallApproval::No(None), LEDGER_NAME);
        let decisions = answer.decisions.iter_mut();
        for (index, (call, (_, decision))) in question.calls.iter().zip(decisions).enumerate() {
            let name = text::show_line(&call.name).into_owned();
            match self.decide_one(call, &format!("{}. {name}: ", index + 1)).await? {
                None => return Ok(None),
                Some(approval) => *decision = approval,
            }
        }
        Ok(Some(answer))
    }

    /// Asks about one call: once, for longer if a rule is offered, or no.
    async fn decide_one(
        &self,
        call: &QuestionCall,
        prefix: &str,
    ) -> io::Result<Option<CallApproval>> {
        let options = AnswerOptions::new(call, self.save_rules.is_some());
        let prompt = format!("{prefix}{}: ", options.letters());
        let Some(decision) = self.ask_until_valid(&prompt, |line| options.read(line)).await? else {
            return Ok(None);
        };
        let (CallApproval::YesAlways(rules), Some(save_rules)) = (&decision, self.save_rules)
        else {
            return Ok(Some(decision));
        };
        // The rules are saved before they count. If saving fails, they hold for this session only.
        Ok(Some(match save_rules(rules) {
            Ok(path) => {
                self.write(&format!("stored in {}\n", path.display()))?;
                decision
            }
            Err(failure) => {
                self.write(&format!(
                    "not stored, so it applies to this session only: {}\n",
                    failure.one_line()
                ))?;
                CallApproval::YesForSession(rules.clone())
            }
        }))
    }
}

/// A longer text that the person may have shown before they answer.
pub(crate) struct ExtraDetail<T> {
    /// The description of the text.
    pub(crate) description: &'static str,
    pub(crate) text: T,
}

/// The possible answers about one call.
struct AnswerOptions<'a> {
    call: &'a QuestionCall,
    rules: &'a [String],
    /// True if a rule may hold permanently: rules can be stored, and the whole call was shown.
    may_save_rule: bool,
}

impl<'a> AnswerOptions<'a> {
    fn new(call: &'a QuestionCall, can_save: bool) -> Self {
        AnswerOptions { call, rules: &call.offer, may_save_rule: can_save && is_shown_whole(call) }
    }

    fn letters(&self) -> &'static str {
        match (self.rules, self.may_save_rule) {
            ([], _) => "[y]es, [n]o",
            (_, true) => "[y]es, [s]ession, [a]lways, [n]o",
            (_, false) => "[y]es, [s]ession, [n]o",
        }
    }

    /// Describes in words what may be typed.
    fn describe_input(&self) -> String {
        let letters = match (self.rules, self.may_save_rule) {
            ([], _) => "y or n",
            (_, true) => "y, s, a or n",
            (_, false) => "y, s or n",
        };
        let narrower =
            if self.rules.is_empty() { "" } else { "; a narrower rule may follow s or a" };
        format!("type {letters}; text after n is sent to the model{narrower}")
    }

    /// Parses a line as an answer. A narrower rule may follow `s` and `a`.
    fn read(&self, line: &str) -> Result<CallApproval, String> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rules = || match rest.trim() {
            "" => Ok(self.rules.to_vec()),
            own => Ok(vec![self.call.take_rule(own)?]),
        };
        match word.to_ascii_lowercase().as_str() {
            "s" | "session" if !self.rules.is_empty() => rules().map(CallApproval::YesForSession),
            "a" | "always" if !self.rules.is_empty() && self.may_save_rule => {
                rules().map(CallApproval::YesAlways)
            }
            _ => match BulkAnswer::read(line) {
                Some(BulkAnswer::All(decision)) => Ok(decision),
                Some(BulkAnswer::Each) | None => Err(self.describe_input()),
            },
        }
    }
}

/// The name of this answerer in the ledger.
const LEDGER_NAME: &str = "terminal";

impl Ui for Terminal {
    fn present(&self) -> bool {
        true
    }

    fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        // A terminal that fails counts as absent, and no answer means no.
        Box::pin(async move { self.ask_in_turn(self.decide(&question)).await.ok().flatten() })
    }

    fn confirm(&self, text: &str) -> UiFuture<'_, bool> {
        let shown = format!("{}\n", text::show(text));
        Box::pin(async move {
            let answer = async {
                self.show_then_wait(&shown).await?;
                let read = |line: &str| match BulkAnswer::read(line) {
                    Some(BulkAnswer::All(decision)) => Ok(decision),
                    Some(BulkAnswer::Each) | None => Err("type y or n".to_owned()),
                };
                self.ask_until_valid("[y]es, [n]o: ", read).await
            };
            matches!(self.ask_in_turn(answer).await, Ok(Some(CallApproval::Yes)))
        })
    }

    fn select<'a>(&'a self, title: &'a str, options: &'a [String]) -> UiFuture<'a, Option<usize>> {
        let count = options.len();
        let prompt = format!("Choose one of 1 to {count}, or press Enter for none: ");
        Box::pin(async move {
            let answer = async {
                self.show_then_wait(&render_options(title, options)).await?;
                let read = |line: &str| {
                    let choice = parse_choice(line, count).filter(|all| all.len() < 2);
                    choice.ok_or_else(|| format!("type a number from 1 to {count}, or press Enter"))
                };
                self.ask_until_valid(&prompt, read).await
            };
            self.ask_in_turn(answer).await.ok().flatten()?.first().copied()
        })
    }

    fn select_many<'a>(
        &'a self,
        title: &'a str,
        options: &'a [String],
    ) -> UiFuture<'a, Option<Vec<usize>>> {
        let count = options.len();
        let prompt = format!("Choose any of 1 to {count} (as in 1, 2), or press Enter for none: ");
        Box::pin(async move {
            let answer = async {
                self.show_then_wait(&render_options(title, options)).await?;
                let help = || format!("type numbers from 1 to {count}, or press Enter");
                self.ask_until_valid(&prompt, |line| parse_choice(line, count).ok_or_else(help))
                    .await
            };
            self.ask_in_turn(answer).await.ok().flatten().filter(|all| !all.is_empty())
        })
    }

    fn input<'a>(&'a self, title: &'a str) -> UiFuture<'a, Option<String>> {
        let shown = format!("{}\n", text::show(title));
        Box::pin(async move {
            let answer = async {
                self.show_then_wait(&shown).await?;
                self.ask_until_valid("Your answer: ", |line| Ok(line.to_owned())).await
            };
            self.ask_in_turn(answer).await.ok().flatten()
        })
    }

    fn notify(&self, text: &str) {
        self.screen.print_line(text::show(text).into_owned());
    }
}

/// The user interface without a terminal. It cannot ask questions, and it prints messages on standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoTerminal;

impl Ui for NoTerminal {
    fn present(&self) -> bool {
        false
    }

    fn ask(&self, _: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        Box::pin(async { None })
    }

    fn notify(&self, text: &str) {
        screen::print_notice(text);
    }
}

/// An answer about all calls of a question.
#[derive(Clone, Debug, PartialEq)]
enum BulkAnswer {
    All(CallApproval),
    Each,
}

impl BulkAnswer {
    /// Parses `y`, `n`, `n` with a text for the model, or `e`. Anything else is no answer.
    fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let reason = Some(rest.trim()).filter(|rest| !rest.is_empty());
        match (word.to_ascii_lowercase().as_str(), reason) {
            ("y" | "yes", None) => Some(BulkAnswer::All(CallApproval::Yes)),
            ("n" | "no", reason) => {
                Some(BulkAnswer::All(CallApproval::No(reason.map(str::to_owned))))
            }
            ("e" | "each", None) => Some(BulkAnswer::Each),
            _ => None,
        }
    }
}

/// Renders a question: every call in full, and the reasons why approval is needed.
fn render_question(question: &Question, style: Style) -> String {
    let mut out = String::new();
    if question.agent != "main" {
        out += &format!("for the agent {}:\n", text::show_line(&question.agent));
    }
    for (index, call) in question.calls.iter().enumerate() {
        let QuestionCall { name, asks, offer, .. } = call;
        let input = render_input(call);
        let clipped = text::cut_chars(&input, CALL_CHARS);
        let name = style.strong(&text::show_line(name));
        out += &format!("{}. {name} {clipped}\n", index + 1);
        if !is_shown_whole(call) {
            out += "   (cut here: this is not the whole call)\n";
        }
        for ask in asks {
            let (by, reason) = (text::show_line(&ask.by), text::show_line(&ask.reason));
            out += &format!("   {}\n", style.muted(&format!("asked by {by}: {reason}")));
        }
        if !offer.is_empty() {
            let rules = text::show_line(&offer.join(", ")).into_owned();
            out += &format!(
                "   {}\n",
                style.muted(&format!("session or always would allow: {rules}"))
            );
        }
    }
    out
}

fn render_input(call: &QuestionCall) -> String {
    text::show_line(&call.input.to_string()).into_owned()
}

fn is_shown_whole(call: &QuestionCall) -> bool {
    let input = render_input(call);
    text::cut_chars(&input, CALL_CHARS) == input
}

/// Renders a title and numbered options, one per line.
fn render_options(title: &str, options: &[String]) -> String {
    let mut out = format!("{}\n", text::show(title));
    for (index, option) in options.iter().enumerate() {
        let shown = text::show_line(option);
        // A long option continues on an indented line, never at the beginning of a line.
        let pieces: Vec<_> = text::wrap(&shown, 70).into_iter().map(str::trim_end).collect();
        out += &format!("  {}) {}\n", index + 1, pieces.join("\n     "));
    }
    out
}

/// Parses the numbers in a line into indexes, in the order of the line. An empty line is an empty choice.
/// `None` if the line contains anything else.
fn parse_choice(line: &str, count: usize) -> Option<Vec<usize>> {
    let words = line.split([',', ' ', '\t']).filter(|word| !word.is_empty());
    let index = |word: &str| word.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < count);
    words.map(index).collect()
}

/// A prompt whose line is not ended yet. If the prompt is dropped, this ends the line.
struct OpenLine<'a>(&'a File);

impl OpenLine<'_> {
    fn mark_ended(self) {
        std::mem::forget(self);
    }
}

impl Drop for OpenLine<'_> {
    fn drop(&mut self) {
        let _ = self.0.write_all(b"\n");
    }
}

/// Switches off echo, and line mode while a question appears. Its end restores the terminal and discards
/// typed keys.
struct EchoOff<'a> {
    tty: &'a File,
    before: Termios,
}

impl<'a> EchoOff<'a> {
    fn new(tty: &'a File, without: LocalModes) -> io::Result<Self> {
        let before = tcgetattr(tty)?;
        let mut changed = before.clone();
        // Signals stay on: Ctrl-C still aborts.
        changed.local_modes.remove(without);
        tcsetattr(tty, OptionalActions::Flush, &changed)?;
        Ok(EchoOff { tty, before })
    }
}

impl Drop for EchoOff<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.tty, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use cotter::hooks::ui::RuleCheck;

    use super::*;

    /// S4: if a call is not shown whole, the text says so, even if one letter is missing.
    #[test]
    fn s4_truncated_call_in_a_question_says_so() {
        let shown = |letters: usize| {
            let input = serde_json::Value::from("x".repeat(letters));
            let call = QuestionCall {
                call_id: "c".into(),
                name: "write".into(),
                preview: String::new(),
                input: Arc::new(input),
                offer: vec![],
                own_rule: RuleCheck::default(),
                asks: vec![],
                digest: "d".into(),
            };
            let question = Question {
                id: "q".into(),
                agent: "main".into(),
                calls: vec![call],
                limit: KEY_GRACE,
            };
            super::render_question(&question, Style::on_stderr(ColorChoice::Never))
                .contains("not the whole call")
        };
        let quotes = 2;
        let is_cut: Vec<_> = (0..4).map(|more| shown(CALL_CHARS - quotes + more)).collect();
        assert_eq!(is_cut, [false, true, true, true]);
    }

    #[test]
    fn choice_accepts_only_numbers_of_listed_options() {
        let cases = [
            ("1", Some(vec![0])),
            (" 3 ", Some(vec![2])),
            ("1,3", Some(vec![0, 2])),
            ("2 1", Some(vec![1, 0])),
            ("", Some(vec![])),
            ("0", None),
            ("4", None),
            ("-1", None),
            ("1 and 2", None),
            ("y", None),
        ];
        for (line, expected) in cases {
            assert_eq!(parse_choice(line, 3), expected, "{line:?}");
        }
    }

    #[test]
    fn permission_answer_must_be_unambiguous() {
        let no = |words: Option<&str>| BulkAnswer::All(CallApproval::No(words.map(str::to_owned)));
        let cases = [
            ("y", Some(BulkAnswer::All(CallApproval::Yes))),
            (" YES ", Some(BulkAnswer::All(CallApproval::Yes))),
            ("n", Some(no(None))),
            ("no, thanks", None),
            ("n use the other file", Some(no(Some("use the other file")))),
            ("e", Some(BulkAnswer::Each)),
            ("yn", None),
            ("y n", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(BulkAnswer::read(line), expected, "{line:?}");
        }
    }
}
