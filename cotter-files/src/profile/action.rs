//! Actions as hooks: each is a handler at its point, run by the one dispatch.

use std::{path::PathBuf, sync::Arc};

use smol_str::{SmolStr, format_smolstr};

use crate::command_hook::{
    dialect::Dialect,
    entry::{CommandHook, OnFailure},
};
use crate::profile::{
    Action, ActionHost, ActionKind, LogLevel, WebhookPoster, event_line, read::host_of, run_files,
};
use cotter::{
    Cx, Registry, Verdict,
    hooks::{
        external::{ExternalHook, ExternalHookSpec, HookAnswer, HookFuture, HookRequest},
        points::{ToolPre, ToolPreEvent},
    },
    named,
    permission::verdict::Power,
    text::redact::Redactor,
};

impl Action {
    pub(crate) fn register(&self, profile: &SmolStr, unit: &mut Registry, host: &ActionHost) {
        let ActionHost { folder, commands, posts, redactor } = host;
        let (profile_name, action) = (profile.clone(), self.name.clone());
        let outgoing = OutgoingLine { profile: profile_name, action, redactor: redactor.clone() };
        match &self.kind {
            ActionKind::Approve => return self.register_approval(profile, unit),
            ActionKind::Command(command) => {
                let hook = CommandHook {
                    name: self.name.clone(),
                    point: self.point,
                    spec: self.spec(None),
                    command: command.clone(),
                    env: vec![],
                    is_resident: false,
                    on_failure: OnFailure::Block,
                    dialect: Dialect::Cotter,
                };
                return hook.register(unit, commands);
            }
            _ => {}
        }
        let (definition, hook): (_, Arc<dyn ExternalHook>) = match &self.kind {
            ActionKind::Log(level) => (
                "reports names and sizes".into(),
                Arc::new(LogAction { profile: profile.clone(), level: *level }),
            ),
            ActionKind::Webhook(url) => {
                let url = url.text.clone();
                let definition = format_smolstr!("posts to {url}");
                (definition, Arc::new(WebhookAction { outgoing, url, posts: posts.clone() }))
            }
            ActionKind::SaveJson(path) => {
                let definition = format_smolstr!("appends to {}", path.display());
                let (folder, path) = (folder.clone(), path.clone());
                (definition, Arc::new(SaveJsonAction { outgoing, folder, path }))
            }
            ActionKind::Approve | ActionKind::Command(_) => return,
        };
        let spec = ExternalHookSpec { definition, ..self.spec(Some(Power::Observe)) };
        unit.register_external(self.point, spec, hook);
    }

    fn spec(&self, power: Option<Power>) -> ExternalHookSpec {
        ExternalHookSpec {
            name: Some(self.name.clone()),
            tools: self.tools.clone(),
            limit: self.limit,
            power,
            ..ExternalHookSpec::default()
        }
    }

    /// Registers the gate that asks; the answer to the step's question decides.
    fn register_approval(&self, profile: &SmolStr, unit: &mut Registry) {
        let reason = format!("the profile `{profile}` wants a person to approve this");
        let gate = named(self.name.clone(), move |_: &ToolPreEvent| Verdict::ask(reason.as_str()));
        let gate = gate.pure().description("Asks a person before the tool runs.");
        match &self.tools {
            Some(tools) => unit.gate(ToolPre, gate.tools(tools)),
            None => unit.gate(ToolPre, gate),
        };
    }
}

/// Reports names and sizes.
struct LogAction {
    profile: SmolStr,
    level: LogLevel,
}

impl ExternalHook for LogAction {
    fn ask(&self, request: HookRequest) -> HookFuture {
        let summary = event_line::summary(&request.payload);
        let profile = &self.profile;
        request.cx.remark(&summary);
        match self.level {
            LogLevel::Debug => {}
            LogLevel::Info => request.cx.notify(&format!("profile {profile}: {summary}")),
            LogLevel::Warn => request.cx.notify(&format!("warning: profile {profile}: {summary}")),
            LogLevel::Error => request.cx.notify(&format!("error: profile {profile}: {summary}")),
        }
        Box::pin(std::future::ready(Ok(HookAnswer::default())))
    }
}

/// An event on its way out of the run, with secrets redacted.
#[derive(Clone)]
struct OutgoingLine {
    profile: SmolStr,
    /// The name of the action, for warnings about a failed delivery.
    action: SmolStr,
    redactor: Arc<Redactor>,
}

/// Posts the event.
struct WebhookAction {
    outgoing: OutgoingLine,
    url: String,
    posts: Arc<dyn WebhookPoster>,
}

impl ExternalHook for WebhookAction {
    fn ask(&self, request: HookRequest) -> HookFuture {
        if request.cx.is_dry_run() {
            return Box::pin(std::future::ready(Ok(HookAnswer::default())));
        }
        let body = self.outgoing.line(&request);
        let posting = self.posts.post(&self.url, body.into_bytes().into());
        let host = host_of(&self.url).unwrap_or_default();
        let (cx, outgoing) = (request.cx, self.outgoing.clone());
        Box::pin(async move {
            let posted = posting.await;
            outgoing.report_failure(
                &cx,
                posted.map_err(|why| format!("cannot post to `{host}`: {why}")),
            )
        })
    }
}

impl OutgoingLine {
    /// The event as a line. After a secret was read, the line has no contents, so the secret cannot leave the
    /// session.
    fn line(&self, request: &HookRequest) -> String {
        match request.cx.has_read_secret() {
            true => {
                let payload = event_line::without_contents(&request.payload);
                event_line::line(&self.profile, &payload, &self.redactor)
            }
            false => event_line::line(&self.profile, &request.payload, &self.redactor),
        }
    }

    /// Reports a failed delivery to the person. The failure changes nothing else.
    fn report_failure(&self, cx: &Cx, result: Result<(), String>) -> Result<HookAnswer, String> {
        if let Err(why) = &result {
            cx.notify(&format!("warning: profile {}: {}: {why}", self.profile, self.action));
        }
        result.map(|()| HookAnswer::default())
    }
}

/// Appends the event to a file.
struct SaveJsonAction {
    outgoing: OutgoingLine,
    folder: PathBuf,
    path: PathBuf,
}

impl ExternalHook for SaveJsonAction {
    fn ask(&self, request: HookRequest) -> HookFuture {
        if request.cx.is_dry_run() {
            return Box::pin(std::future::ready(Ok(HookAnswer::default())));
        }
        let line = self.outgoing.line(&request) + "\n";
        let saved = run_files::append(&self.folder, &self.path, line.as_bytes());
        let saved =
            saved.map_err(|cause| format!("cannot append to {}: {cause}", self.path.display()));
        Box::pin(std::future::ready(self.outgoing.report_failure(&request.cx, saved)))
    }
}
