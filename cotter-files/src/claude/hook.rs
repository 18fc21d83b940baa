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
    prompt_handler as prompt, tool_mapping as tools,
};
use crate::command_hook::{
    EXTRA_TIME, HookLocation, ProcessExit, ProcessOutput, ProcessSpec, StderrBuffer,
    WebhookRequest, WebhookResponse, add_blocked_accesses, entry::CommandHook, time_limit_error,
};
use cotter::{
    Cx, Registry,
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
const MOST_PARTS: usize = 100;
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
    let unheard = match (unit.owner().may(Power::Answer), hook.spec.detached) {
        (true, false) => None,
        (true, true) => Some("nobody waits for it".to_owned()),
        (false, _) => Some(format!("what comes from `{}` may only tighten", unit.owner().origin)),
    };
    let may_answer = unheard.is_none();
    let asked = Arc::new(ClaudeHook {
        hook: hook.clone(),
        entry: entry.clone(),
        base: base.clone(),
        files: entry.files(&hook.command),
        allowed: Arc::default(),
        ignored_allow_reason: unheard,
    });
    // Each start has the whole limit.
    let starts = if event.is_about_tools() { MOST_PARTS } else { 1 };
    let limit = Some(hook.limit().saturating_mul(u32::try_from(starts).unwrap_or(1)) + EXTRA_TIME);
    for (index, &point) in event.row().points.iter().enumerate() {
        let definition = hook.definition(base);
        let mut declared = ExternalHookSpec { limit, definition, ..hook.spec.clone() };
        if event == ClaudeEvent::Notification {
            declared.power = Some(Power::Observe);
        }
        let asker = Arc::new(ClaudeHookRef(asked.clone()));
        match index {
            0 => _ = unit.outside(point, declared, asker),
            _ => host::register_another_point(unit, point, declared, asker),
        }
    }
    if event == ClaudeEvent::PreToolUse && may_answer {
        let name = hook.spec.name.clone();
        let declared = ExternalHookSpec { name, ..ExternalHookSpec::default() };
        let allows = Arc::new(AllowAnswer(asked.allowed.clone()));
        host::register_another_point(unit, PointId::PermissionAsk, declared, allows);
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
    fn ask(&self, asked: HookRequest) -> HookFuture {
        let asks = self.0.clone();
        Box::pin(async move { asks.ask(&asked).await })
    }
}

impl ClaudeHook {
    async fn ask(&self, asked: &HookRequest) -> Result<HookAnswer, String> {
        let event = self.entry.event;
        let all = claude_inputs(event, asked.point, &payload(asked), &event_context(&asked.cx));
        let parts = all.len();
        if parts == 0 {
            return Ok(not_run(asked, explain_other_event(event, &asked.payload)));
        }
        if !self.entry.condition_matches(asked) {
            return Ok(not_run(asked, "its `if` does not match"));
        }
        let told: Vec<_> =
            all.into_iter().filter_map(|told| self.entry.match_input(told)).collect();
        if told.is_empty() {
            return Ok(not_run(asked, "its matcher does not match"));
        }
        if told.len() > MOST_PARTS && event.is_gate() {
            let why = format!("a hook is asked about at most {MOST_PARTS} parts of a call");
            return Ok(HookAnswer::blocked(format!("{why}: make it several calls")));
        }
        if told.len() > MOST_PARTS {
            let why = format!("it is told of {MOST_PARTS} parts of {}, and no more", told.len());
            asked.cx.notify(&format!("hook `{}`: {why}", self.hook.name));
        }
        // Gates only look, so several may run at once. Hooks after a call may change the same file, so they
        // run in turn.
        let beside = if event.is_gate() { MAX_PARALLEL_PARTS } else { 1 };
        let starts: Vec<_> =
            told.iter().take(MOST_PARTS).map(|told| self.once(asked, told)).collect();
        let said: Vec<_> = stream::iter(starts).buffered(beside).collect().await;
        let said = said.into_iter().collect::<Result<Vec<_>, _>>()?;
        let is_whole = told.len() == parts;
        Ok(self.answer(asked, &told, said, is_whole))
    }

    /// Starts the hook once. If its failure passes, its output is empty.
    async fn once(&self, asked: &HookRequest, told: &ClaudeInput) -> Result<HookOutput, String> {
        // The check is outside the limit: its duration must not decide whether the hook may run.
        if let (false, Err(why)) = (self.is_prompt(), self.check(asked.cx.workspace()).await) {
            return Ok(match self.entry.event.is_gate() {
                true => HookOutput { block: Some(why), ..HookOutput::default() },
                false => HookOutput { person_notes: vec![why], ..HookOutput::default() },
            });
        }
        let (limit, remarks) = (self.hook.limit(), StderrBuffer::default());
        let heard = tokio::time::timeout(limit, self.run_handler(asked, told, &remarks)).await;
        let heard = heard.unwrap_or_else(|_| Err(time_limit_error(limit, &remarks.text())));
        let said = self.hook.apply_failure_policy(asked, heard)?;
        Ok(match self.hook.spec.detached {
            true => self.entry.keep_detached_output(said),
            false => said,
        })
    }

    async fn run_handler(
        &self,
        asked: &HookRequest,
        told: &ClaudeInput,
        remarks: &StderrBuffer,
    ) -> Result<HookOutput, String> {
        let event = self.entry.event;
        match &self.entry.handler {
            ClaudeHandler::Nothing(why) => Err(why.clone()),
            ClaudeHandler::Prompt(prompt) => prompt::ask(prompt, event, told, &asked.cx).await,
            ClaudeHandler::Http(http) => {
                let body = Value::Object(told.fields.clone()).to_string().into_bytes();
                let letter = WebhookRequest {
                    url: http.url.clone(),
                    headers: http.headers.clone(),
                    variable_names: http.named.clone(),
                    body: body.into(),
                };
                interpret_reply(event, &self.hook.name, self.base.host.post(letter).await?)
            }
            ClaudeHandler::Command => {
                let job = ProcessSpec { stderr: remarks.clone(), ..self.job(asked, told) };
                let ran = self.base.host.run(job).await?;
                let name = &self.hook.name;
                let tell = |words: &str| asked.cx.notify(&format!("hook `{name}`: {words}"));
                ran.remarks.iter().for_each(|remark| tell(remark));
                add_blocked_accesses(interpret_output(event, name, &ran), &ran, tell)
            }
        }
    }

    fn is_prompt(&self) -> bool {
        matches!(self.entry.handler, ClaudeHandler::Prompt(_) | ClaudeHandler::Nothing(_))
    }

    async fn check(&self, workspace: &cotter::Workspace) -> Result<(), String> {
        // The files existed when the hook was loaded. A missing file must not make a run looser.
        if let Some(gone) = self.files.iter().find(|path| !path.exists()) {
            let gone = gone.to_string_lossy();
            return Err(format!("{} was there, and is gone", cotter::text::show_line(&gone)));
        }
        let Some(pinned) = self.entry.pinned.clone() else { return Ok(()) };
        let words = self.entry.words(&self.hook.command, workspace.project());
        let cwd = workspace.cwd().to_owned();
        let check = move || pinned.check_relative_path(&words, &cwd).and_then(|()| pinned.check());
        let checked = tokio::task::spawn_blocking(check).await;
        checked.unwrap_or_else(|cause| Err(cause.to_string()))
    }

    fn job(&self, asked: &HookRequest, told: &ClaudeInput) -> ProcessSpec {
        let workspace = asked.cx.workspace();
        let stdin = Value::Object(told.fields.clone()).to_string().into_bytes();
        let mut job = self.hook.process_spec(&self.base, asked, stdin);
        job.cwd = workspace.cwd().into();
        job.words = self.entry.words(&self.hook.command, workspace.project());
        job.variables.extend(self.entry.variables(workspace.project()));
        if self.entry.pinned.is_some() && !self.base.confined {
            // Files that Python writes would change the pinned folder.
            job.variables.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
        }
        job
    }

    fn answer(
        &self,
        asked: &HookRequest,
        told: &[ClaudeInput],
        said: Vec<HookOutput>,
        is_whole: bool,
    ) -> HookAnswer {
        let (event, cx) = (self.entry.event, &asked.cx);
        let ends = said.iter().find_map(|said| said.end_reason.as_ref());
        // At these events the run ends by itself, or does not begin.
        let ends = ends.filter(|_| {
            !matches!(
                event,
                ClaudeEvent::Stop | ClaudeEvent::SubagentStop | ClaudeEvent::UserPromptSubmit
            )
        });
        let end = |why: &String| format!("hook `{}` ended the run: {why}", self.hook.name);
        let is_ended = ends.is_some_and(|why| host::end_run(cx, end(why)));
        // The reason of an ended run is reported with its end.
        let tells = said.iter().flat_map(|said| &said.person_notes);
        for words in tells.filter(|words| !is_ended || Some(*words) != ends) {
            cx.notify(&format!("hook `{}`: {words}", self.hook.name));
        }
        let context: Vec<_> = said.iter().flat_map(|said| said.context.clone()).collect();
        let mut answer = HookAnswer {
            block: said.iter().find_map(|said| said.block.clone()),
            ask: said.iter().find_map(|said| said.ask.clone()),
            additional_context: Some(context.join("\n")).filter(|text| !text.is_empty()),
            ..HookAnswer::default()
        };
        let allows = is_whole && said.iter().all(|said| said.allow);
        match event {
            ClaudeEvent::PreToolUse => {
                self.apply_tool_outputs(asked, told, &said, allows, &mut answer)
            }
            ClaudeEvent::PermissionRequest if allows => {
                answer.decision = Some(HookDecision::Yes);
                self.report_ignored_allow(cx);
            }
            ClaudeEvent::PostToolUse => {
                let output = said.iter().rev().find_map(|said| said.output.as_ref());
                let text = output.and_then(tools::read_response);
                if output.is_some() && text.is_none() {
                    let why =
                        "its `updatedToolOutput` has a form that is not known, and is not taken";
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
            let words = format!("it said `allow`, which does not count: {why}");
            host::set_caveat(cx, CaveatKind::PartIgnored, &words);
        }
    }

    fn apply_tool_outputs(
        &self,
        asked: &HookRequest,
        told: &[ClaudeInput],
        said: &[HookOutput],
        allows: bool,
        answer: &mut HookAnswer,
    ) {
        let before = &asked.payload["toolInput"];
        let mut input = before.clone();
        for (told, said) in told.iter().zip(said) {
            let (Some(call), Some(updated)) = (&told.call, &said.input) else { continue };
            if let Err(why) = call.apply_update(updated, &mut input) {
                let why = format!("its `updatedInput` cannot be taken: {why}");
                answer.block.get_or_insert(why);
            }
        }
        if answer.block.is_some() {
            return;
        }
        if allows && answer.ask.is_none() {
            self.allowed.remember(&asked.cx, &asked.payload["callId"], &input);
            self.report_ignored_allow(&asked.cx);
        }
        answer.change = Some(HookChange::Input(input)).filter(|change| match change {
            HookChange::Input(input) => input != before,
            _ => false,
        });
    }
}

/// The empty answer of a hook that is not started, with the reason.
fn not_run(asked: &HookRequest, why: &str) -> HookAnswer {
    host::set_caveat(&asked.cx, CaveatKind::NotRun, why);
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
        ClaudeEvent::SubagentStart | ClaudeEvent::SubagentStop => "this is no subagent",
        ClaudeEvent::Stop => "a subagent stops, which is `SubagentStop`",
        _ => "its event is another one",
    }
}

/// Interprets the reply of a URL like the output of a command that succeeds. Plain text is passed to the
/// model.
fn interpret_reply(
    event: ClaudeEvent,
    name: &str,
    reply: WebhookResponse,
) -> Result<HookOutput, String> {
    let WebhookResponse { status, body, is_redacted: scrubbed } = reply;
    if !(200..300).contains(&status) {
        return Err(format!("it answered with status {status}"));
    }
    let exit = ProcessExit::Code(0);
    let ran = ProcessOutput {
        exit,
        stdout: body,
        stderr: vec![],
        remarks: vec![],
        blocked_accesses: vec![],
    };
    let mut said = interpret_output(event, name, &ran)?;
    let words = String::from_utf8_lossy(&ran.stdout);
    let words = words.trim();
    if !words.is_empty() && !words.starts_with('{') && said == HookOutput::default() {
        said.context.push(words.to_owned());
    }
    match scrubbed && (said.input.is_some() || said.output.is_some()) {
        true => Err("secrets were taken out of what it was told, so it can change nothing".into()),
        false => Ok(said),
    }
}

impl ClaudeEntry {
    /// True if the `if` condition lets a call through. A call that is not understood passes the condition.
    fn condition_matches(&self, asked: &HookRequest) -> bool {
        let of_call = host::event::<ToolPre>(asked).map(|called| &called.facts);
        let facts = of_call.or_else(|| Some(&host::event::<ToolPost>(asked)?.facts));
        let (Some(rule), Some(facts)) = (&self.condition, facts) else { return true };
        let tool = asked.payload["toolName"].as_str().unwrap_or_default();
        rule.matches(tool, facts, asked.cx.workspace()) || has_unclear_facts(facts)
    }

    /// The input under the name that a matcher lets through; `None` if no matcher does.
    fn match_input(&self, told: ClaudeInput) -> Option<ClaudeInput> {
        let names: Vec<String> = told.names(self.event).into_iter().map(str::to_owned).collect();
        let lets = |name: &String| self.matchers.iter().any(|matcher| matcher.matches(name));
        match names.iter().position(lets) {
            Some(0) => Some(told),
            Some(index) => Some(told.with_name(&names[index])),
            None if self.event.row().matched_field.is_none() => Some(told),
            None => None,
        }
    }

    /// The part of an output that counts for a hook that nobody waited for.
    pub(crate) fn keep_detached_output(&self, said: HookOutput) -> HookOutput {
        let mut context = said.context;
        context.extend(said.block.filter(|_| self.rewakes));
        HookOutput { context, person_notes: said.person_notes, ..HookOutput::default() }
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
fn payload(asked: &HookRequest) -> Value {
    let mut payload = asked.payload.clone();
    if let Some(question) = host::event::<PermissionAsk>(asked) {
        for (index, call) in question.calls.iter().enumerate() {
            payload["calls"][index]["input"] = (*call.input).clone();
        }
    }
    if let Some(ending) = host::event::<TurnEnd>(asked) {
        payload["sentOn"] = ending.sent_on.into();
    }
    payload
}

/// True if a part of a call was not understood.
fn has_unclear_facts(facts: &Facts) -> bool {
    facts.doubts.iter().any(|doubt| matches!(doubt, Doubt::NotUnderstood(_)))
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
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_ALLOWED_CALLS {
            kept.pop_front();
        }
        kept.push_back(AllowedCall {
            session: cx.session_id().into(),
            run: cx.run_id().into(),
            call: call.clone(),
            input: input.clone(),
        });
    }

    fn has(&self, cx: &Cx, call: &QuestionCall) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().any(|kept| {
            kept.session == cx.session_id()
                && kept.run == cx.run_id()
                && kept.call == call.call_id.as_str()
                && kept.input == *call.input
        })
    }
}

/// Answers yes if a person is about to be asked only about calls that were allowed.
struct AllowAnswer(Arc<AllowedCalls>);

impl ExternalHook for AllowAnswer {
    fn ask(&self, asked: HookRequest) -> HookFuture {
        let question = host::event::<PermissionAsk>(&asked);
        let all = question
            .is_some_and(|question| question.calls.iter().all(|call| self.0.has(&asked.cx, call)));
        let answer =
            HookAnswer { decision: all.then_some(HookDecision::Yes), ..HookAnswer::default() };
        Box::pin(std::future::ready(Ok(answer)))
    }
}
