//! Actions as hooks: each is a handler at its point, run by the one dispatch.

use std::{path::PathBuf, sync::Arc};

use smol_str::{SmolStr, format_smolstr};

use crate::command_hook::{
    dialect::Dialect,
    entry::{CommandHook, OnFailure},
};
use crate::profile::{
    Action, ActionHost, ActionKind, LogLevel, WebhookPoster, event_line as line, read::host_of,
    run_files as runs,
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
    pub(crate) fn register(&self, profile: &SmolStr, unit: &mut Registry, means: &ActionHost) {
        let ActionHost { folder, commands, posts, redactor } = means;
        let (profile_name, action) = (profile.clone(), self.name.clone());
        let letter = OutgoingLine { profile: profile_name, action, redactor: redactor.clone() };
        match &self.kind {
            ActionKind::Approve => return self.register_approval(profile, unit),
            ActionKind::Command(command) => {
                let hook = CommandHook {
                    name: self.name.clone(),
                    point: self.point,
                    spec: self.declared(None),
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
                "tells names and sizes".into(),
                Arc::new(LogAction { profile: profile.clone(), level: *level }),
            ),
            ActionKind::Webhook(url) => {
                let url = url.text.clone();
                let words = format_smolstr!("posts to {url}");
                (words, Arc::new(WebhookAction { outgoing: letter, url, posts: posts.clone() }))
            }
            ActionKind::SaveJson(path) => {
                let words = format_smolstr!("adds to {}", path.display());
                let (folder, path) = (folder.clone(), path.clone());
                (words, Arc::new(SaveJsonAction { outgoing: letter, folder, path }))
            }
            ActionKind::Approve | ActionKind::Command(_) => return,
        };
        let declared = ExternalHookSpec { definition, ..self.declared(Some(Power::Observe)) };
        unit.outside(self.point, declared, hook);
    }

    fn declared(&self, power: Option<Power>) -> ExternalHookSpec {
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
        let gate = gate.pure().description("Has a person asked before the tool runs.");
        match &self.tools {
            Some(tools) => unit.on(ToolPre, gate.tools(tools)),
            None => unit.on(ToolPre, gate),
        };
    }
}

/// Reports names and sizes.
struct LogAction {
    profile: SmolStr,
    level: LogLevel,
}

impl ExternalHook for LogAction {
    fn ask(&self, asked: HookRequest) -> HookFuture {
        let words = line::summary(&asked.payload);
        let profile = &self.profile;
        asked.cx.remark(&words);
        match self.level {
            LogLevel::Debug => {}
            LogLevel::Info => asked.cx.notify(&format!("profile {profile}: {words}")),
            LogLevel::Warn => asked.cx.notify(&format!("warning: profile {profile}: {words}")),
            LogLevel::Error => asked.cx.notify(&format!("error: profile {profile}: {words}")),
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
    fn ask(&self, asked: HookRequest) -> HookFuture {
        if asked.cx.is_dry_run() {
            return Box::pin(std::future::ready(Ok(HookAnswer::default())));
        }
        let body = self.outgoing.line(&asked);
        let posting = self.posts.post(&self.url, body.into_bytes().into());
        let host = host_of(&self.url).unwrap_or_default();
        let (cx, letter) = (asked.cx, self.outgoing.clone());
        Box::pin(async move {
            let posted = posting.await;
            letter.report_failure(
                &cx,
                posted.map_err(|why| format!("nothing reached `{host}`: {why}")),
            )
        })
    }
}

impl OutgoingLine {
    /// The event as a line. After a secret was read, the line has no contents, so the secret cannot leave the
    /// session.
    fn line(&self, asked: &HookRequest) -> String {
        match asked.cx.has_read_secret() {
            true => {
                let payload = line::without_contents(&asked.payload);
                line::line(&self.profile, &payload, &self.redactor)
            }
            false => line::line(&self.profile, &asked.payload, &self.redactor),
        }
    }

    /// Reports a failed delivery to the person. The failure changes nothing else.
    fn report_failure(&self, cx: &Cx, done: Result<(), String>) -> Result<HookAnswer, String> {
        if let Err(why) = &done {
            cx.notify(&format!("warning: profile {}: {}: {why}", self.profile, self.action));
        }
        done.map(|()| HookAnswer::default())
    }
}

/// Appends the event to a file.
struct SaveJsonAction {
    outgoing: OutgoingLine,
    folder: PathBuf,
    path: PathBuf,
}

impl ExternalHook for SaveJsonAction {
    fn ask(&self, asked: HookRequest) -> HookFuture {
        if asked.cx.is_dry_run() {
            return Box::pin(std::future::ready(Ok(HookAnswer::default())));
        }
        let line = self.outgoing.line(&asked) + "\n";
        let saved = runs::append(&self.folder, &self.path, line.as_bytes());
        let saved =
            saved.map_err(|cause| format!("{} is not added to: {cause}", self.path.display()));
        Box::pin(std::future::ready(self.outgoing.report_failure(&asked.cx, saved)))
    }
}
