//! A hook as the dispatch asks it: matches the event, starts the hook once per part, and reads the output.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{StreamExt, stream};
use serde_json::Value;
use smol_str::SmolStr;

use crate::claude::{
    ClaudeEntry, ClaudeHandler,
    events::ClaudeEvent,
    input::{ClaudeInput, EventContext, claude_inputs},
    output::{HookOutput, interpret_output},
    prompt_handler, tool_mapping,
};
use crate::command_hook::{
    EXTRA_TIME, HookLocation, HookPlace, PlaceKind, ProcessExit, ProcessOutput, ProcessSpec,
    StderrBuffer, WebhookRequest, WebhookResponse,
    entry::CommandHook,
    failure::{HookFailure, time_limit_error},
    take_place, without_python_caches,
};
use crate::trust::state::run_words;
use cotter::{
    Cx, Registry, Workspace,
    hooks::{
        external::{
            ExternalHook, ExternalHookSpec, HookAnswer, HookChange, HookDecision, HookFuture,
            HookRequest,
        },
        handler::CaveatKind,
        points::{PermissionAsk, PointId, ToolPost, ToolPre, TurnEnd},
        ui::QuestionCall,
    },
    host,
    permission::{
        facts::{Doubt, Facts},
        mode::Mode,
        verdict::Power,
    },
};

/// The maximum number of parts of a call that a hook is asked about one by one.
const MAX_PARTS: usize = 100;
/// The number of parts that are asked about at the same time.
const MAX_PARALLEL_PARTS: usize = 4;

/// Registers a hook at the points of its event.
pub(crate) fn register(
    hook: &CommandHook,
    entry: &Arc<ClaudeEntry>,
    unit: &mut Registry,
    base: &HookLocation,
) {
    let event = entry.event;
    let ignored_allow_reason = match (unit.owner().may(Power::Answer), hook.spec.detached) {
        (true, false) => None,
        (true, true) => Some("its answer is not awaited".to_owned()),
        (false, _) => {
            Some(format!("hooks of the origin `{}` may only tighten", unit.owner().origin))
        }
    };
    let may_answer = ignored_allow_reason.is_none();
    let claude_hook = Arc::new(ClaudeHook {
        hook: hook.clone(),
        entry: entry.clone(),
        base: base.clone(),
        files: entry.files(&hook.command),
        allowed: Arc::default(),
        ignored_allow_reason,
    });
    // Each start has the whole limit.
    let max_starts = if event.is_about_tools() { MAX_PARTS } else { 1 };
    let limit =
        Some(hook.limit().saturating_mul(u32::try_from(max_starts).unwrap_or(1)) + EXTRA_TIME);
    for (index, &point) in event.row().points.iter().enumerate() {
        let definition = hook.definition(base);
        let mut spec = ExternalHookSpec { limit, definition, ..hook.spec.clone() };
        if event == ClaudeEvent::Notification {
            spec.power = Some(Power::Observe);
        }
        let external_hook = Arc::new(ClaudeHookRef(claude_hook.clone()));
        match index {
            0 => _ = unit.register_external(point, spec, external_hook),
            _ => host::register_another_point(unit, point, spec, external_hook),
        }
    }
    if event == ClaudeEvent::PreToolUse && may_answer {
        let name = hook.spec.name.clone();
        let spec = ExternalHookSpec { name, ..ExternalHookSpec::default() };
        let allow_answer = Arc::new(AllowAnswer(claude_hook.allowed.clone()));
        host::register_another_point(unit, PointId::PermissionAsk, spec, allow_answer);
    }
}

struct ClaudeHook {
    hook: CommandHook,
    entry: Arc<ClaudeEntry>,
    base: HookLocation,
    /// The files that the command runs and that existed when the hook was loaded.
    files: Vec<PathBuf>,
    allowed: Arc<AllowedCalls>,
    /// The reason why an `allow` of this hook does not count.
    ignored_allow_reason: Option<String>,
}

struct ClaudeHookRef(Arc<ClaudeHook>);

impl ExternalHook for ClaudeHookRef {
    fn ask(&self, request: HookRequest) -> HookFuture {
        let hook = self.0.clone();
        Box::pin(async move { hook.ask(&request).await })
    }
}

impl ClaudeHook {
    async fn ask(&self, request: &HookRequest) -> Result<HookAnswer, String> {
        let event = self.entry.event;
        let all =
            claude_inputs(event, request.point, &payload(request), &event_context(&request.cx));
        let parts = all.len();
        if parts == 0 {
            return Ok(not_run(request, explain_other_event(event, &request.payload)));
        }
        if !self.entry.condition_matches(request) {
            return Ok(not_run(request, "its `if` does not match"));
        }
        let inputs: Vec<_> =
            all.into_iter().filter_map(|input| self.entry.match_input(input)).collect();
        if inputs.is_empty() {
            return Ok(not_run(request, "its matcher does not match"));
        }
        if inputs.len() > MAX_PARTS && event.is_gate() {
            let why = format!("a hook is asked about at most {MAX_PARTS} parts of a call");
            return Ok(HookAnswer::blocked(format!("{why}: split it into several calls")));
        }
        if inputs.len() > MAX_PARTS {
            let why = format!("it is asked about only {MAX_PARTS} of {} parts", inputs.len());
            request.cx.notify(&format!("hook `{}`: {why}", self.hook.name));
        }
        // Gates only look, so several may run at once. Hooks after a call may change the same file, so they
        // run in turn.
        let parallel = if event.is_gate() { MAX_PARALLEL_PARTS } else { 1 };
        let starts: Vec<_> =
            inputs.iter().take(MAX_PARTS).map(|input| self.run_once(request, input)).collect();
        let outputs: Vec<_> = stream::iter(starts).buffered(parallel).collect().await;
        let outputs = outputs.into_iter().collect::<Result<Vec<_>, _>>()?;
        let is_whole = inputs.len() == parts;
        Ok(self.answer(request, &inputs, outputs, is_whole))
    }

    /// Starts the hook once. If its failure passes, its output is empty.
    async fn run_once(
        &self,
        request: &HookRequest,
        input: &ClaudeInput,
    ) -> Result<HookOutput, String> {
        // The check is outside the limit: its duration must not decide whether the hook may run.
        let paused = host::pause_clock(&request.cx);
        let checked = self.check(request.cx.workspace()).await;
        drop(paused);
        if let (false, Err(why)) = (self.is_prompt(), checked) {
            return Ok(match self.entry.event.is_gate() {
                true => HookOutput { block: Some(why), ..HookOutput::default() },
                false => HookOutput { person_notes: vec![why], ..HookOutput::default() },
            });
        }
        let _place = match self.entry.handler {
            ClaudeHandler::Command | ClaudeHandler::Http(_) => {
                take_place(&*self.base.host, self.hook.place_kind(), &request.cx).await
            }
            ClaudeHandler::Prompt(_) => {
                take_place(&*self.base.host, PlaceKind::Prompt, &request.cx).await
            }
            ClaudeHandler::Nothing(_) => HookPlace::default(),
        };
        let (limit, stderr) = (self.hook.limit(), StderrBuffer::default());
        let result = tokio::time::timeout(limit, self.run_handler(request, input, &stderr)).await;
        let result = result.unwrap_or_else(|_| Err(time_limit_error(limit, &stderr.text())));
        let output = match result {
            Err(HookFailure::Host(why)) if !self.entry.event.is_gate() => {
                HookOutput { person_notes: vec![why], ..HookOutput::default() }
            }
            result => self.hook.apply_failure_policy(request, result)?,
        };
        Ok(match self.hook.spec.detached {
            true => self.entry.keep_detached_output(output),
            false => output,
        })
    }

    async fn run_handler(
        &self,
        request: &HookRequest,
        input: &ClaudeInput,
        stderr: &StderrBuffer,
    ) -> Result<HookOutput, HookFailure> {
        let event = self.entry.event;
        match &self.entry.handler {
            ClaudeHandler::Nothing(why) => Err(why.clone().into()),
            ClaudeHandler::Prompt(prompt) => {
                prompt_handler::ask(prompt, event, input, &request.cx).await
            }
            ClaudeHandler::Http(http) => {
                let body = Value::Object(input.fields.clone()).to_string().into_bytes();
                let webhook = WebhookRequest {
                    url: http.url.clone(),
                    headers: http.headers.clone(),
                    variable_names: http.variable_names.clone(),
                    body: body.into(),
                };
                interpret_reply(event, &self.hook.name, self.base.host.post(webhook).await?)
            }
            ClaudeHandler::Command => {
                let job = ProcessSpec { stderr: stderr.clone(), ..self.job(request, input) };
                let process = self.base.host.run(job).await.map_err(HookFailure::Host)?;
                let name = &self.hook.name;
                let notify =
                    |message: &str| request.cx.notify(&format!("hook `{name}`: {message}"));
                process.remarks.iter().for_each(|remark| notify(remark));
                interpret_output(event, name, &process)
            }
        }
    }

    fn is_prompt(&self) -> bool {
        matches!(self.entry.handler, ClaudeHandler::Prompt(_) | ClaudeHandler::Nothing(_))
    }

    async fn check(&self, workspace: &cotter::Workspace) -> Result<(), String> {
        // The files existed when the hook was loaded. A missing file must not make a run looser.
        if let Some(missing) = self.files.iter().find(|path| !path.exists()) {
            let missing = missing.to_string_lossy();
            let missing = cotter::text::show_line(&missing);
            return Err(format!("{missing} is missing; it existed when the hook was loaded"));
        }
        let Some(pinned) = self.entry.pinned.clone() else { return Ok(()) };
        let words = self.entry.words(&self.hook.command, workspace.project());
        let cwd = workspace.cwd().to_owned();
        let check = move || pinned.check_paths(&words, &cwd).and_then(|()| pinned.check());
        let result = tokio::task::spawn_blocking(check).await;
        result.unwrap_or_else(|cause| Err(cause.to_string()))
    }

    fn job(&self, request: &HookRequest, input: &ClaudeInput) -> ProcessSpec {
        let workspace = request.cx.workspace();
        let stdin = Value::Object(input.fields.clone()).to_string().into_bytes();
        let mut job = self.hook.process_spec(&self.base, request, stdin);
        job.cwd = self.start_folder(workspace).into();
        job.words = self.entry.words(&self.hook.command, workspace.project());
        job.variables.extend(self.entry.variables(workspace.project()));
        if self.entry.pinned.is_some() && !self.base.confined {
            job.variables.extend(without_python_caches());
        }
        job
    }

    /// The folder of the session. If the command runs a file of the project, named from there, the project's: that
    /// file is the one that trust covers, and a session in a folder below has the same gates.
    fn start_folder<'w>(&self, workspace: &'w Workspace) -> &'w Path {
        let (folder, project) = (workspace.cwd(), workspace.project());
        let line = self.hook.command.texts().collect::<Vec<_>>().join(" ");
        let is_of_project =
            |word: &String| Path::new(word).is_relative() && project.join(word).is_file();
        match folder != project && run_words(&line).iter().any(is_of_project) {
            true => project,
            false => folder,
        }
    }

    fn answer(
        &self,
        request: &HookRequest,
        inputs: &[ClaudeInput],
        outputs: Vec<HookOutput>,
        is_whole: bool,
    ) -> HookAnswer {
        let (event, cx) = (self.entry.event, &request.cx);
        let end_reason = outputs.iter().find_map(|output| output.end_reason.as_ref());
        // At these events the run ends by itself, or does not begin.
        let end_reason = end_reason.filter(|_| {
            !matches!(
                event,
                ClaudeEvent::Stop | ClaudeEvent::SubagentStop | ClaudeEvent::UserPromptSubmit
            )
        });
        let message = |why: &String| format!("hook `{}` ended the run: {why}", self.hook.name);
        let is_ended = end_reason.is_some_and(|why| host::end_run(cx, message(why)));
        // The reason of an ended run is reported with its end.
        let notes = outputs.iter().flat_map(|output| &output.person_notes);
        for note in notes.filter(|note| !is_ended || Some(*note) != end_reason) {
            cx.notify(&format!("hook `{}`: {note}", self.hook.name));
        }
        let context: Vec<_> = outputs.iter().flat_map(|output| output.context.clone()).collect();
        let mut answer = HookAnswer {
            block: outputs.iter().find_map(|output| output.block.clone()),
            ask: outputs.iter().find_map(|output| output.ask.clone()),
            additional_context: Some(context.join("\n")).filter(|text| !text.is_empty()),
            ..HookAnswer::default()
        };
        let allows = is_whole && outputs.iter().all(|output| output.allow);
        match event {
            ClaudeEvent::PreToolUse => {
                self.apply_tool_outputs(request, inputs, &outputs, allows, &mut answer)
            }
            ClaudeEvent::PermissionRequest if allows => {
                answer.decision = Some(HookDecision::Yes);
                self.report_ignored_allow(cx);
            }
            ClaudeEvent::PostToolUse => {
                let updated = outputs.iter().rev().find_map(|output| output.output.as_ref());
                let text = updated.and_then(tool_mapping::read_response);
                if updated.is_some() && text.is_none() {
                    let why = "its `updatedToolOutput` has an unknown form and is ignored";
                    cx.notify(&format!("hook `{}`: {why}", self.hook.name));
                }
                answer.change = text.map(HookChange::Result);
            }
            ClaudeEvent::Stop | ClaudeEvent::SubagentStop => answer.go_on = answer.block.take(),
            _ => {}
        }
        answer
    }

    /// Reports that an `allow` of this hook does not count, if its owner may not answer questions.
    fn report_ignored_allow(&self, cx: &Cx) {
        if let Some(why) = &self.ignored_allow_reason {
            let message = format!("its `allow` does not count: {why}");
            host::set_caveat(cx, CaveatKind::PartIgnored, &message);
        }
    }

    fn apply_tool_outputs(
        &self,
        request: &HookRequest,
        inputs: &[ClaudeInput],
        outputs: &[HookOutput],
        allows: bool,
        answer: &mut HookAnswer,
    ) {
        let before = &request.payload["toolInput"];
        let mut after = before.clone();
        for (input, output) in inputs.iter().zip(outputs) {
            let (Some(call), Some(updated)) = (&input.call, &output.input) else { continue };
            if let Err(why) = call.apply_update(updated, &mut after) {
                let why = format!("its `updatedInput` cannot be used: {why}");
                answer.block.get_or_insert(why);
            }
        }
        if answer.block.is_some() {
            return;
        }
        if allows && answer.ask.is_none() {
            self.allowed.remember(&request.cx, &request.payload["callId"], &after);
            self.report_ignored_allow(&request.cx);
        }
        answer.change = Some(HookChange::Input(after)).filter(|change| match change {
            HookChange::Input(input) => input != before,
            _ => false,
        });
    }
}

/// The empty answer of a hook that is not started, with the reason.
fn not_run(request: &HookRequest, why: &str) -> HookAnswer {
    host::set_caveat(&request.cx, CaveatKind::NotRun, why);
    HookAnswer::default()
}

/// The reason why what happened at the point is not this event of Claude Code.
fn explain_other_event(event: ClaudeEvent, payload: &Value) -> &'static str {
    match event {
        ClaudeEvent::PostToolUse => "the tool failed, which is `PostToolUseFailure`",
        ClaudeEvent::PostToolUseFailure if payload["outcome"] == "cancelled" => {
            "the call was cancelled"
        }
        ClaudeEvent::PostToolUseFailure => "the tool did not fail",
        ClaudeEvent::SubagentStart | ClaudeEvent::SubagentStop => "this is not a subagent",
        ClaudeEvent::Stop => "a subagent stops, which is `SubagentStop`",
        _ => "this is another event",
    }
}

/// Interprets the reply of a URL like the output of a command that succeeds. Plain text is passed to the
/// model.
fn interpret_reply(
    event: ClaudeEvent,
    name: &str,
    reply: WebhookResponse,
) -> Result<HookOutput, HookFailure> {
    let WebhookResponse { status, body, is_redacted } = reply;
    if !(200..300).contains(&status) {
        return Err(format!("it answered with status {status}").into());
    }
    let exit = ProcessExit::Code(0);
    let process = ProcessOutput {
        exit,
        stdout: body,
        stderr: vec![],
        remarks: vec![],
        blocked_accesses: vec![],
    };
    let mut output = interpret_output(event, name, &process)?;
    let body_text = String::from_utf8_lossy(&process.stdout);
    let body_text = body_text.trim();
    if !body_text.is_empty() && !body_text.starts_with('{') && output == HookOutput::default() {
        output.context.push(body_text.to_owned());
    }
    match is_redacted && (output.input.is_some() || output.output.is_some()) {
        true => {
            let why = "secrets were removed from its input, so it cannot change anything";
            Err(why.to_owned().into())
        }
        false => Ok(output),
    }
}

impl ClaudeEntry {
    /// True if the `if` condition lets a call through. A call that is not understood passes the condition.
    fn condition_matches(&self, request: &HookRequest) -> bool {
        let of_call = host::event::<ToolPre>(request).map(|called| &called.facts);
        let facts = of_call.or_else(|| Some(&host::event::<ToolPost>(request)?.facts));
        let (Some(rule), Some(facts)) = (&self.condition, facts) else { return true };
        let tool = request.payload["toolName"].as_str().unwrap_or_default();
        rule.matches(tool, facts, request.cx.workspace()) || has_unclear_facts(facts)
    }

    /// The input under the name that a matcher lets through; `None` if no matcher does.
    fn match_input(&self, input: ClaudeInput) -> Option<ClaudeInput> {
        let names: Vec<String> = input.names(self.event).into_iter().map(str::to_owned).collect();
        let is_matched = |name: &String| self.matchers.iter().any(|matcher| matcher.matches(name));
        match names.iter().position(is_matched) {
            Some(0) => Some(input),
            Some(index) => Some(input.with_name(&names[index])),
            None if self.event.row().matched_field.is_none() => Some(input),
            None => None,
        }
    }

    /// The part of an output that counts for a hook whose answer is not awaited.
    pub(crate) fn keep_detached_output(&self, output: HookOutput) -> HookOutput {
        let mut context = output.context;
        context.extend(output.block.filter(|_| self.rewakes));
        HookOutput { context, person_notes: output.person_notes, ..HookOutput::default() }
    }

    fn variables(&self, project: &Path) -> Vec<(String, std::ffi::OsString)> {
        let mut variables = vec![("CLAUDE_PROJECT_DIR".to_owned(), project.into())];
        if let Some(plugin) = &self.plugin {
            variables.push(("CLAUDE_PLUGIN_ROOT".into(), plugin.root.clone().into()));
            let data = plugin.data.clone();
            variables.extend(data.map(|data| ("CLAUDE_PLUGIN_DATA".into(), data.into())));
        }
        variables
    }
}

/// The payload of an event, with the data that only handlers in the program get.
fn payload(request: &HookRequest) -> Value {
    let mut payload = request.payload.clone();
    if let Some(question) = host::event::<PermissionAsk>(request) {
        for (index, call) in question.calls.iter().enumerate() {
            payload["calls"][index]["input"] = (*call.input).clone();
        }
    }
    if let Some(ending) = host::event::<TurnEnd>(request) {
        payload["sentOn"] = ending.continued_in_run.into();
    }
    payload
}

/// True if a part of a call was not understood.
fn has_unclear_facts(facts: &Facts) -> bool {
    facts.doubts.iter().any(|doubt| matches!(doubt, Doubt::NotUnderstood(_) | Doubt::Unknown(_)))
}

fn event_context(cx: &Cx) -> EventContext<'_> {
    EventContext {
        session: host::root_session_id(cx),
        subagent: host::is_subagent(cx).then(|| cx.agent_id()),
        mode: mode(host::agent(cx).policy().mode()),
        workspace: cx.workspace(),
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Ask => "default",
        Mode::AcceptEdits => "acceptEdits",
        Mode::Plan => "plan",
        Mode::Auto => "dontAsk",
        _ => "default",
    }
}

/// The calls that a hook allowed, with their exact input. A person need not be asked about them.
#[derive(Default)]
struct AllowedCalls(Mutex<VecDeque<AllowedCall>>);

struct AllowedCall {
    session: SmolStr,
    run: SmolStr,
    call: Value,
    input: Value,
}

/// The maximum number of remembered calls.
const MAX_ALLOWED_CALLS: usize = 256;

impl AllowedCalls {
    fn remember(&self, cx: &Cx, call: &Value, input: &Value) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= MAX_ALLOWED_CALLS {
            calls.pop_front();
        }
        calls.push_back(AllowedCall {
            session: cx.session_id().into(),
            run: cx.run_id().into(),
            call: call.clone(),
            input: input.clone(),
        });
    }

    fn has(&self, cx: &Cx, call: &QuestionCall) -> bool {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().any(|allowed| {
            allowed.session == cx.session_id()
                && allowed.run == cx.run_id()
                && allowed.call == call.call_id.as_str()
                && allowed.input == *call.input
        })
    }
}

/// Answers yes if a person is about to be asked only about calls that were allowed.
struct AllowAnswer(Arc<AllowedCalls>);

impl ExternalHook for AllowAnswer {
    fn ask(&self, request: HookRequest) -> HookFuture {
        let question = host::event::<PermissionAsk>(&request);
        let is_allowed = |call| self.0.has(&request.cx, call);
        let all = question.is_some_and(|question| question.calls.iter().all(is_allowed));
        let answer =
            HookAnswer { decision: all.then_some(HookDecision::Yes), ..HookAnswer::default() };
        Box::pin(std::future::ready(Ok(answer)))
    }
}
