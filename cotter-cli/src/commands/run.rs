//! `cotter -p`: one run, from a prompt to its answer.

mod output;
mod event_lines;

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use cotter::{
    Agent, EndReason, Reply, Session, Workspace,
    history::message::{Content, ContentPart},
    invoke::{directives::leading_command, named_item::NameKind},
    text,
};
use smol_str::SmolStr;

use crate::commands::run::output::{QuestionMode, RunOutput};
use crate::{
    args::{RunArgs, SessionArg},
    error::CliError,
    models::choice::{ModelChain, ModelChoice},
    paths,
    settings::{self, SettingsFiles, claude_home},
    setup::{
        RunSetup, StoreFrom, last_session, reload::RunFiles, selected_agent::SelectedAgent,
        sessions::Sessions,
    },
    signals::{ABORTED, SignalGuard, or_abort_on_signal},
    spaces::Spaces,
    terminal::{NoTerminal, Terminal, style::ColorChoice},
    trust::{self, TrustSources},
};

/// The maximum size of piped input in bytes.
const INPUT_BYTES: u64 = 10 * 1024 * 1024;

/// The message for a run that was aborted before it began.
const NOT_SENT: &str = "nothing was sent";

/// Runs a prompt.
pub(crate) fn run(args: RunArgs, style: ColorChoice) -> Result<ExitCode, CliError> {
    let mut output = RunOutput::new(args.format, style);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|cause| CliError::new("cannot start the runtime").with_cause(cause))?;
    let workspace = paths::find_workspace(args.cwd.as_deref())?;
    let run_files = RunFiles::read(&workspace, args.setup_args.settings.as_deref());
    let spaces = Spaces::new(&workspace, &args.setup_args, &args.trust.hashes());
    let trust_sources = match args.setup_args.safe_mode {
        true => TrustSources::empty(),
        false => {
            let sources = spaces.sources();
            let trust_sources = trust::resolve_trust(&workspace, &sources, &args.trust, style);
            runtime.block_on(or_abort_on_signal(trust_sources, NOT_SENT))?
        }
    };
    trust_sources.skipped().for_each(|message| output.warn(&message));
    let home = claude_home::ask_home(&workspace, &args, style);
    runtime
        .block_on(or_abort_on_signal(home, NOT_SENT))?
        .iter()
        .for_each(|message| output.warn(message));
    let prepared = PreparedRun::new(args, workspace, trust_sources, spaces, &mut output)?;
    let done = runtime.block_on(prepared.run(run_files, style, &mut output));
    // A tool that does not return must not keep the process alive.
    runtime.shutdown_background();
    done
}

/// A run with everything that can be determined without waiting.
struct PreparedRun {
    args: RunArgs,
    workspace: Workspace,
    files: SettingsFiles,
    trust_sources: TrustSources,
    selected_agent: Option<SelectedAgent>,
    spaces: Spaces,
    model_choice: ModelChoice,
    sessions: Option<Sessions>,
    id: Option<SmolStr>,
    prompt: Option<Content>,
    /// The name of the command that the prompt begins with. There may be no such command.
    command_name: Option<String>,
}

impl PreparedRun {
    fn new(
        args: RunArgs,
        workspace: Workspace,
        trust_sources: TrustSources,
        spaces: Spaces,
        output: &mut RunOutput,
    ) -> Result<Self, CliError> {
        let files =
            SettingsFiles::load(args.setup_args.settings.as_deref(), &workspace, &trust_sources)?;
        let command_name = args.prompt.as_deref().and_then(leading_command);
        let command_name = command_name.map(|leading| leading.name.to_owned());
        let selected_agent = SelectedAgent::named(&args.setup_args, &workspace, &trust_sources)?;
        let named = selected_agent.as_ref().and_then(SelectedAgent::model);
        let model_choice = ModelChoice::new(&args, &files, named, workspace.project())?;
        // A command may need no model, and a person can be asked for one.
        if command_name.is_none() && !(args.ask && model_choice.needs_question(&args)) {
            model_choice.find()?;
        }
        let sessions = match args.session() {
            SessionArg::NotStored => None,
            _ => Some(Sessions::open()?),
        };
        let id = match (args.session(), &sessions) {
            (SessionArg::ById(typed), Some(sessions)) => Some(sessions.find(typed)?),
            (SessionArg::Last, Some(sessions)) => Some(last_session(&sessions.store, &workspace)?),
            _ => None,
        };
        let prompt = prompt(args.prompt.as_deref(), output)?;
        if prompt.is_none() && id.is_none() {
            return Err(no_prompt());
        }
        Ok(PreparedRun {
            args,
            workspace,
            files,
            trust_sources,
            spaces,
            selected_agent,
            model_choice,
            sessions,
            id,
            prompt,
            command_name,
        })
    }

    async fn run(
        self,
        run_files: RunFiles,
        style: ColorChoice,
        output: &mut RunOutput,
    ) -> Result<ExitCode, CliError> {
        let PreparedRun { args, workspace, files, trust_sources, spaces, selected_agent, .. } =
            self;
        let PreparedRun { mut model_choice, sessions, id, prompt, command_name, .. } = self;
        let terminal = terminal(&args, style, output);
        if let (None, true, Some(terminal)) =
            (&command_name, model_choice.needs_question(&args), &terminal)
        {
            or_abort_on_signal(model_choice.ask(terminal), NOT_SENT).await?;
        }
        let (models, missing) = choose_models(&mut model_choice, command_name.is_some())?;
        let default_choice = models.describe_default_choice();
        let skipped = models.skipped.clone();
        let names = models.names();
        let store_from =
            if command_name.is_some() { StoreFrom::FromFirstLine } else { StoreFrom::AtOnce };
        let providers = model_choice.providers();
        let redactor = model_choice.redactor();
        output.set_redactor(redactor.clone());
        let setup = RunSetup {
            workspace,
            files,
            trust_sources,
            spaces,
            models,
            selected: selected_agent,
            redactor,
            providers,
            sessions,
            store_from,
        };
        let agent = async {
            match terminal {
                Some(terminal) => setup.agent(&args, terminal).await,
                None => setup.agent(&args, NoTerminal).await,
            }
        };
        let (agent, reloader) = or_abort_on_signal(agent, NOT_SENT).await?;
        let is_command = command_name.as_deref().is_some_and(|name| has_command(&agent, name));
        if let (false, Some((failure, _)), Some(name)) = (is_command, &missing, &command_name) {
            return Err(no_command(&agent, name, failure));
        }
        warn_about_command(&agent, command_name.as_deref(), is_command, prompt.as_ref(), output);
        skipped.iter().filter(|_| !is_command).for_each(|message| output.warn(message));
        default_choice.iter().filter(|_| !is_command).for_each(|model| output.print_model(model));
        let session = or_abort_on_signal(open(&agent, id.as_deref()), NOT_SENT).await?;
        let reloading = tokio::spawn(reloader.run(run_files));
        let reply = run_prompt(&session, prompt, output).await;
        reloading.abort();
        let reply = reply?;
        model_choice.recording_failure().iter().for_each(|message| output.warn(message));
        if let Some((failure, asked)) = missing
            && asked.load(Ordering::Relaxed)
        {
            return Err(failure);
        }
        output.finish(&reply, model_choice.hint(&reply, &names))?;
        Ok(exit_code(&reply))
    }
}

/// Warns about piped data that a command ignores, and about a name that is nearly a command's.
fn warn_about_command(
    agent: &Agent,
    command_name: Option<&str>,
    is_command: bool,
    prompt: Option<&Content>,
    output: &mut RunOutput,
) {
    match (command_name, is_command) {
        (Some(_), true) if matches!(prompt, Some(Content::Parts(_))) => {
            output.warn("a command takes no piped input; the input is ignored");
        }
        (Some(name), false) => warn_near_command(agent, name, output),
        _ => {}
    }
}

/// The error because of a missing model, and a flag that is set if the model was asked anyway.
type MissingModel = Option<(CliError, Arc<AtomicBool>)>;

/// Returns the models of the run. A command may run without a model.
fn choose_models(
    model_choice: &mut ModelChoice,
    is_command: bool,
) -> Result<(ModelChain, MissingModel), CliError> {
    match model_choice.start() {
        Ok(chain) => Ok((chain, None)),
        Err(failure) if !is_command => Err(failure),
        Err(failure) => {
            let (no_model, asked) = ModelChain::without_model();
            Ok((no_model, Some((failure, asked))))
        }
    }
}

async fn open(agent: &Agent, id: Option<&str>) -> Result<Session, CliError> {
    let session = match id {
        Some(id) => agent.session(id).await,
        None => agent.new_session().await,
    };
    Ok(session?)
}

/// Opens the terminal for questions, if `--ask` is given and a terminal exists.
fn terminal(args: &RunArgs, style: ColorChoice, output: &mut RunOutput) -> Option<Terminal> {
    if !args.ask {
        return None;
    }
    let terminal = Terminal::open(style, output.screen().clone())
        .map(|terminal| terminal.with_save_rules(settings::edit::allow));
    output.set_question_mode(if terminal.is_ok() {
        QuestionMode::OnTerminal
    } else {
        QuestionMode::Nowhere
    });
    if let Err(cause) = &terminal {
        let message = format!(
            "there is no terminal to ask on ({cause}): calls that need approval are refused"
        );
        output.warn(&message);
    }
    terminal.ok()
}

async fn run_prompt(
    session: &Session,
    prompt: Option<Content>,
    output: &mut RunOutput,
) -> Result<Reply, CliError> {
    for diagnostic in session.diagnostics() {
        output.warn(&diagnostic);
    }
    output.write_opening(session)?;
    let mut run = match prompt {
        Some(prompt) => session.prompt(prompt),
        None => session.resume().await.ok_or_else(no_prompt)?,
    };
    let cancel = run.cancel_token();
    let guard = SignalGuard::of_run(cancel.clone())?;
    output.follow(&mut run, &cancel).await;
    let reply = match run.reply().await {
        Ok(reply) => reply,
        Err(error) => *error.reply,
    };
    drop(guard);
    session.close().await;
    Ok(reply)
}

fn has_command(agent: &Agent, name: &str) -> bool {
    agent.commands().iter().any(|command| command.name == name)
}

/// Warns if a prompt begins with an unknown command that resembles a known one. The prompt goes to the model
/// unchanged. Without a terminal nothing is printed.
fn warn_near_command(agent: &Agent, typed: &str, output: &mut RunOutput) {
    let near = near_command(agent, typed).filter(|_| io::stderr().is_terminal());
    if let Some(near) = near {
        output.warn(&format!(
            "there is no command `/{typed}`, so the model gets it as text; did you mean `/{near}`?"
        ));
    }
}

/// Creates the error for an unknown command in a run without a model.
fn no_command(agent: &Agent, typed: &str, missing: &CliError) -> CliError {
    match near_command(agent, typed) {
        Some(near) => CliError::usage(format!("there is no command `/{typed}`"))
            .with_cause(missing.message())
            .with_hint(format!("did you mean `/{near}`?")),
        None => missing.clone(),
    }
}

/// Returns the name that is nearest to what was typed after a slash.
fn near_command(agent: &Agent, typed: &str) -> Option<SmolStr> {
    let kinds = [NameKind::Command, NameKind::Skill, NameKind::Hook];
    let names: Vec<_> = kinds.into_iter().flat_map(|kind| agent.names(kind)).collect();
    let near = text::nearest(typed, names.iter().map(|info| info.name.as_str()));
    near.filter(|near| *near != typed).map(SmolStr::from)
}

fn exit_code(reply: &Reply) -> ExitCode {
    ExitCode::from(match reply.reason {
        EndReason::EndTurn | EndReason::ShortCircuit => 0,
        EndReason::Blocked
        | EndReason::Refusal
        | EndReason::BudgetExceeded
        | EndReason::MaxTurns => 3,
        EndReason::Aborted => ABORTED,
        _ => 1,
    })
}

fn no_prompt() -> CliError {
    CliError::usage("there is no prompt").with_hint("type it after `-p`, or pipe it in")
}

/// Returns the typed prompt, with piped input as data in a part of its own.
fn prompt(typed: Option<&str>, output: &mut RunOutput) -> Result<Option<Content>, CliError> {
    if typed.is_some_and(|typed| typed.trim().is_empty()) {
        return Err(no_prompt());
    }
    let data = if should_read_stdin(typed) { read_piped(output)? } else { None };
    Ok(match (typed.map(str::to_owned), data) {
        (Some(typed), None) => Some(Content::Text(typed)),
        (None, None) => None,
        (typed, data) => {
            let data = data.as_deref().map(ContentPart::data);
            Some(Content::Parts(typed.map(ContentPart::Text).into_iter().chain(data).collect()))
        }
    })
}

/// True if standard input is to be read. With a typed prompt it is read only if it is a file, a pipe or a
/// socket.
fn should_read_stdin(typed: Option<&str>) -> bool {
    let stdin = io::stdin();
    if typed.is_none() {
        return !stdin.is_terminal();
    }
    use std::os::{fd::AsFd, unix::fs::FileTypeExt};
    let metadata = stdin.as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
    metadata.is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_file() || kind.is_fifo() || kind.is_socket()
    })
}

fn read_piped(output: &mut RunOutput) -> Result<Option<String>, CliError> {
    let mut bytes = vec![];
    io::stdin()
        .lock()
        .take(INPUT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|cause| CliError::new("cannot read standard input").with_cause(cause))?;
    if bytes.len() as u64 > INPUT_BYTES {
        return Err(CliError::new(format!("standard input has more than {INPUT_BYTES} bytes"))
            .with_hint("put it into a file of the project and name the file in the prompt"));
    }
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    Ok(Some(String::from_utf8(bytes).unwrap_or_else(|error| {
        output.warn("standard input is not UTF-8: invalid bytes were replaced");
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    })))
}
