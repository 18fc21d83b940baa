//! `cotter hooks log`: each hook that ran, from the records of a session. With `-f`, as it runs.

use std::{
    collections::HashMap,
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use cotter::text;
use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

use crate::commands::hooks::{log_printer::HookLogPrinter, tail::Tail};
use crate::{
    args::HooksLogArgs,
    commands::explain::block_on,
    error::CliError,
    paths,
    setup::sessions::Sessions,
    signals::SignalGuard,
    terminal::{
        screen::{self, print_stdout},
        style::{ColorChoice, Style},
    },
};

/// The interval between two looks at the files.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum number of sessions that are followed at a time. The newest are kept.
const MAX_FOLLOWED: usize = 16;

/// `cotter hooks log [SESSION]`.
pub(crate) fn log(args: &HooksLogArgs, color: ColorChoice) -> Result<ExitCode, CliError> {
    let sessions = Sessions::open()?;
    let workspace = paths::find_workspace(None)?;
    let printer = HookLogPrinter::new(args, Style::on_stdout(color));
    if args.follow {
        let follow = LogFollower::new(sessions, workspace.cwd(), args.session.as_deref(), printer)?;
        return block_on(follow.follow())?;
    }
    let id = sessions.find_or_last(args.session.as_deref())?;
    let mut session = FollowedSession::new(&sessions, id, printer)?;
    match session.print_new(&mut io::stdout().lock())? {
        PrintResult::Nothing if !args.json => {
            Ok(print_stdout(&format!("no hook ran in session {}\n", session.id)))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Returns the runs of hooks in the last sessions of a folder, newest session first, as rows of `--json`.
pub(crate) fn of_folder(cwd: &Path, most: usize) -> Result<Vec<serde_json::Value>, CliError> {
    let sessions = Sessions::open()?;
    let args = HooksLogArgs { session: None, follow: false, all: false, json: true };
    let all = cotter::history::store::Store::list(&sessions.store)?;
    let mut rows = vec![];
    for session in all.into_iter().filter(|session| session.cwd == cwd).take(most) {
        let printer = HookLogPrinter::new(&args, Style::on_stdout(ColorChoice::Never));
        let mut followed = FollowedSession::new(&sessions, session.id, printer)?;
        let mut out = vec![];
        followed.print_new(&mut out)?;
        let lines = out.split(|byte| *byte == b'\n');
        rows.extend(lines.filter_map(|line| serde_json::from_slice(line).ok()));
    }
    Ok(rows)
}

/// The result of printing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrintResult {
    Nothing,
    Something,
    /// The reader closed the pipe, which is no error.
    ReaderGone,
}

/// A session whose log is printed.
struct FollowedSession {
    id: SmolStr,
    tail: Tail,
    printer: HookLogPrinter,
}

impl FollowedSession {
    fn new(sessions: &Sessions, id: SmolStr, printer: HookLogPrinter) -> Result<Self, CliError> {
        let tail = Tail::new(sessions.store.path(&id)?);
        Ok(FollowedSession { printer: printer.for_session(&id), id, tail })
    }

    /// Reads the existing lines without printing them. The tables of hooks in them are kept.
    fn skip_to(&mut self, length: u64) -> Result<(), CliError> {
        let FollowedSession { tail, printer, .. } = self;
        let path = tail.path().display().to_string();
        while tail
            .read_lines_until(length, |line| printer.line(line))
            .map_err(|cause| CliError::new(format!("cannot read {path}")).with_cause(cause))?
        {
        }
        printer.take_output();
        Ok(())
    }

    /// Prints the lines that were added since the last call.
    fn print_new(&mut self, out: &mut impl Write) -> Result<PrintResult, CliError> {
        let FollowedSession { tail, printer, .. } = self;
        let mut result = PrintResult::Nothing;
        loop {
            let path = tail.path().display().to_string();
            let more = tail
                .read_lines(|line| printer.line(line))
                .map_err(|cause| CliError::new(format!("cannot read {path}")).with_cause(cause))?;
            let output = printer.take_output();
            if !output.is_empty() {
                result = PrintResult::Something;
                match out.write_all(output.as_bytes()).and_then(|()| out.flush()) {
                    Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {
                        return Ok(PrintResult::ReaderGone);
                    }
                    done => done
                        .map_err(|cause| CliError::new("cannot write the log").with_cause(cause))?,
                }
            }
            if !more {
                return Ok(result);
            }
        }
    }
}

/// Follows several sessions and prints their logs as they grow.
struct LogFollower {
    sessions: Sessions,
    /// The folder whose new sessions are followed too. `None` if a session was named.
    folder: Option<String>,
    printer: HookLogPrinter,
    followed: Vec<FollowedSession>,
    /// The other sessions, by the length of their files at the last look. `None` for a session of another
    /// folder.
    known: HashMap<SmolStr, Option<u64>>,
    /// The session that was printed last.
    last: Option<SmolStr>,
}

impl LogFollower {
    fn new(
        sessions: Sessions,
        cwd: &Path,
        named: Option<&str>,
        printer: HookLogPrinter,
    ) -> Result<Self, CliError> {
        let known = sessions.lengths().into_iter();
        let known = known.map(|(id, length)| (id, Some(length))).collect();
        let first = match named {
            Some(typed) => Some(sessions.find(typed).or_else(|failure| {
                // The session may begin later.
                sessions.store.path(typed).map_err(|_| failure)?;
                print_waiting(&format!("there is no session {} yet", text::show_line(typed)), "it");
                Ok::<_, CliError>(typed.into())
            })?),
            None => {
                let all = cotter::history::store::Store::list(&sessions.store)?;
                let here = all.into_iter().find(|session| session.cwd == cwd);
                if here.is_none() {
                    print_waiting("no session was started in this folder yet", "one");
                }
                here.map(|session| session.id)
            }
        };
        let folder = named.is_none().then(|| cwd.display().to_string());
        let mut follow =
            LogFollower { sessions, folder, printer, followed: vec![], known, last: None };
        if let Some(id) = first {
            follow.add(id, 0)?;
        }
        Ok(follow)
    }

    /// Follows a session from this position on.
    fn add(&mut self, id: SmolStr, from: u64) -> Result<(), CliError> {
        let mut session = FollowedSession::new(&self.sessions, id, self.printer.clone())?;
        session.skip_to(from)?;
        self.followed.push(session);
        let surplus = self.followed.len().saturating_sub(MAX_FOLLOWED);
        let dropped =
            self.followed.drain(..surplus).map(|session| (session.id, Some(session.tail.read())));
        self.known.extend(dropped);
        Ok(())
    }

    /// Follows the sessions until a signal ends the command.
    async fn follow(mut self) -> Result<ExitCode, CliError> {
        let ended = CancellationToken::new();
        let _guard = SignalGuard::of_work(ended.clone())?;
        while self.print_new()? {
            tokio::select! {
                () = ended.cancelled() => break,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the lines that were added. Returns false if the reader closed the pipe.
    fn print_new(&mut self) -> Result<bool, CliError> {
        self.follow_new()?;
        let mut out = io::stdout().lock();
        for session in &mut self.followed {
            if self.last.as_ref() != Some(&session.id) {
                session.printer.repeat_session();
            }
            match session.print_new(&mut out)? {
                PrintResult::Nothing => {}
                PrintResult::Something => self.last = Some(session.id.clone()),
                PrintResult::ReaderGone => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Follows the sessions of the folder that began or continued since the last look.
    fn follow_new(&mut self) -> Result<(), CliError> {
        let Some(folder) = self.folder.clone() else { return Ok(()) };
        for (id, length) in self.sessions.lengths() {
            let before = match self.known.get(&id) {
                Some(None) => continue,
                Some(Some(before)) if *before >= length => continue,
                Some(Some(before)) => *before,
                None => 0,
            };
            if self.followed.iter().any(|session| session.id == id) {
                continue;
            }
            // A session whose first line is incomplete is read again later.
            match crate::commands::hooks::tail::folder_of(&self.sessions.store.path(&id)?) {
                None => {}
                Some(cwd) if cwd == folder => self.add(id, before)?,
                Some(_) => _ = self.known.insert(id, None),
            }
        }
        Ok(())
    }
}

fn print_waiting(message: &str, what: &str) {
    screen::print_notice(&format!("{message}; waiting for {what}"));
}
