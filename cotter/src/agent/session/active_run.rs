//! The parts of a session besides its history: the current run, and the overrides of the session. Most
//! sessions have neither; memory is allocated on first use.

use std::sync::Arc;

use smol_str::SmolStr;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{
        listing::NameListing,
        session::{
            cache_break::{RequestLog, ToolLimit},
            estimate::{SizeAfterCompaction, TokenEstimate},
            state::SessionState,
        },
    },
    history::{
        entry::{Entries, Entry, EntryBody, EntryKind},
        ledger::Record,
        message::{Content, Message, ToolResultMessage, UserMessage, UserMessageKind},
        message_list::MessageList,
        store::StoreError,
    },
    model::{Model, Thinking},
    permission::rule::Rule,
};

/// The current run.
pub(crate) struct ActiveRun {
    cancel: CancellationToken,
    /// The calls that were permitted to run last. The outcome of such a call without a result is unknown.
    running_calls: Vec<SmolStr>,
    /// Entries that handlers and callers added, until the run's next safe moment.
    pending_entries: Vec<PendingEntry>,
    /// The reason of a hook that ended the run.
    end_reason: Option<String>,
}

/// An entry that waits for a safe moment of the current run.
struct PendingEntry {
    /// The id that the caller was given.
    id: SmolStr,
    body: EntryBody,
    source: EntrySource,
}

/// The source of an entry or an override.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum EntrySource {
    /// A handler of the prompt that is being staged: the entry is stored with the prompt, or not at all.
    Prompt,
    /// Any other source.
    Other,
}

/// The settings of one session that override its agent's.
#[derive(Default)]
pub(crate) struct SessionOverrides {
    /// The model of the current run, or of the next one.
    pub(crate) turn_model: Option<Arc<dyn Model>>,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) thinking: Thinking,
    /// The tools that the session is limited to, by name.
    pub(crate) active_tools: ToolLimit,
    /// A request to compact before the next request to the model, with instructions for the summary.
    pub(crate) compact_request: Option<String>,
    /// The steering texts for the current run.
    steering: Vec<(EntrySource, Content)>,
    /// The overrides before the prompt that is being staged changed them.
    prompt_backup: Option<Box<OverrideBackup>>,
    /// The estimated size of the conversation, for providers that do not count.
    estimate: Option<Box<TokenEstimate>>,
    /// The size of the conversation after its last compaction.
    pub(crate) size_after_compaction: Option<SizeAfterCompaction>,
    /// The last requests, kept while a handler or a listener looks at replies.
    pub(crate) request_log: RequestLog,
    /// The person's approvals for the rest of the session, as allow rules.
    pub(crate) approvals: Vec<Rule>,
    /// True if a secret was read; `None` until the first check.
    pub(crate) secret_read: Option<bool>,
    /// The skills that triggers activated; `None` until first use.
    pub(crate) skills: Option<Arc<ActiveSkills>>,
    /// The lists in the last note to the model, if its prompt still shows older lists.
    pub(crate) told_listing: Option<Arc<NameListing>>,
    /// Models that are no longer used.
    unused_models: Vec<Arc<dyn Model>>,
}

/// The skills that triggers activated in a session, on the path to its leaf.
#[derive(Default)]
pub(crate) struct ActiveSkills {
    pub(crate) names: Vec<SmolStr>,
    /// The skills in the system prompt, each with its text.
    pub(crate) system: Vec<(SmolStr, String)>,
    /// The bytes of all skill texts.
    pub(crate) bytes: usize,
}

impl ActiveSkills {
    fn of(path: &Entries) -> Self {
        let mut active = ActiveSkills::default();
        // True after an entry of a skill whose text is in the message that follows.
        let mut text_follows = false;
        for entry in path.iter() {
            if entry.kind() == EntryKind::SkillActive
                && let EntryBody::SkillActive { name, text } = entry.body()
            {
                active.names.push(name.clone());
                active.bytes += text.len();
                text_follows = text.is_empty();
                if !text_follows {
                    active.system.push((name.clone(), text.clone()));
                }
            } else if std::mem::take(&mut text_follows)
                && let Some(Message::User(UserMessage {
                    kind: UserMessageKind::SkillInjection,
                    content,
                    ..
                })) = entry.message()
            {
                active.bytes += content.text().len();
            }
        }
        active
    }
}

/// The settings to restore if a prompt is dropped.
struct OverrideBackup {
    model: Option<Arc<dyn Model>>,
    thinking: Thinking,
    active_tools: ToolLimit,
}

impl SessionOverrides {
    /// Estimates the tokens of the messages.
    pub(crate) fn estimate(&mut self, messages: MessageList) -> u64 {
        self.estimate.get_or_insert_default().update(messages)
    }
}

static NO_OVERRIDES: SessionOverrides = SessionOverrides {
    turn_model: None,
    model: None,
    thinking: Thinking::Off,
    active_tools: ToolLimit::NONE,
    compact_request: None,
    steering: Vec::new(),
    prompt_backup: None,
    estimate: None,
    size_after_compaction: None,
    request_log: RequestLog::EMPTY,
    approvals: Vec::new(),
    secret_read: None,
    skills: None,
    told_listing: None,
    unused_models: Vec::new(),
};

impl SessionState {
    /// Begins a run. From now on, added entries wait for its safe moments.
    pub(crate) fn begin_run(&mut self, cancel: CancellationToken) {
        let run =
            ActiveRun { cancel, running_calls: vec![], pending_entries: vec![], end_reason: None };
        self.active_run = Some(Box::new(run));
    }

    /// Ends the run and adds the waiting entries. Returns these entries.
    pub(crate) fn finish_run(
        &mut self,
        end: impl FnOnce() -> Record,
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        let writable = self.check_writable().is_ok();
        let added = if writable { self.add_pending_entries() } else { vec![] };
        self.active_run = None;
        if writable {
            self.record(end());
            self.commit_and_start_sync()?;
        }
        Ok(added)
    }

    /// Takes the model that was set for the run alone, and other unused models. The caller drops them
    /// outside the lock, because the drop of a model may call the session.
    pub(crate) fn take_unused_models(&mut self) -> Vec<Arc<dyn Model>> {
        let Some(overrides) = &mut self.overrides else { return vec![] };
        let unused = std::mem::take(&mut overrides.unused_models);
        unused.into_iter().chain(overrides.turn_model.take()).collect()
    }

    /// True during a run.
    pub(crate) fn is_busy(&self) -> bool {
        self.active_run.is_some()
    }

    /// Aborts the current run. Returns true if there was one.
    pub(crate) fn abort(&self) -> bool {
        self.active_run.as_ref().inspect(|run| run.cancel.cancel()).is_some()
    }

    /// Ends the current run with a reason, which its end reports. Returns true if there was a run. The
    /// first reason counts; after an abort, none does.
    pub(crate) fn end_run(&mut self, reason: String) -> bool {
        let Some(run) = &mut self.active_run else { return false };
        if !run.cancel.is_cancelled() {
            run.end_reason = Some(reason);
            run.cancel.cancel();
        }
        true
    }

    /// The reason of a hook that ended the current run, if one did.
    pub(crate) fn end_reason(&self) -> Option<String> {
        self.active_run.as_ref()?.end_reason.clone()
    }

    /// Adds an entry: at once, or at the next safe moment of the current run. Returns its id.
    pub(crate) fn add(
        &mut self,
        body: EntryBody,
        source: EntrySource,
    ) -> Result<SmolStr, StoreError> {
        self.check_writable()?;
        if self.is_busy() {
            let id = self.next_id();
            if let Some(run) = &mut self.active_run {
                run.pending_entries.push(PendingEntry { id: id.clone(), body, source });
            }
            return Ok(id);
        }
        let entry = self.append(body);
        self.commit_and_start_sync()?;
        Ok(entry.id().clone())
    }

    /// Fails if an added message would leave a call without exactly one result. While calls wait for their
    /// results, nothing else is accepted.
    pub(crate) fn check_paired(&self, message: &Message) -> Result<(), StoreError> {
        if self.is_busy() {
            return match message {
                Message::User(_) => Ok(()),
                Message::Assistant(reply) if reply.calls().next().is_none() => Ok(()),
                _ => Err(StoreError::new("cannot add a call or a result: a run is in progress")),
            };
        }
        let open = self.open_calls();
        match message {
            Message::ToolResult(ToolResultMessage { call_id, .. }) => {
                let waits = open.iter().any(|call| call.id == *call_id);
                let reason = || format!("no call `{call_id}` waits for a result");
                waits.then_some(()).ok_or_else(|| StoreError::new(reason()))
            }
            _ => match open.first() {
                None => Ok(()),
                Some(call) => {
                    let message = format!("cannot add a message: call `{}` has no result", call.id);
                    Err(StoreError::new(message))
                }
            },
        }
    }

    /// Adds the waiting entries at a safe moment. Returns these entries.
    pub(crate) fn add_pending_entries(&mut self) -> Vec<Arc<Entry>> {
        if let Some(overrides) = &mut self.overrides {
            overrides
                .unused_models
                .extend(overrides.prompt_backup.take().and_then(|before| before.model));
        }
        let pending = self.active_run.as_mut().map(|run| std::mem::take(&mut run.pending_entries));
        let pending = pending.unwrap_or_default();
        pending
            .into_iter()
            .map(|PendingEntry { id, body, .. }| self.append_with_id(id, body))
            .collect()
    }

    /// Drops the entries and settings of a prompt that is dropped.
    pub(crate) fn drop_prompt(&mut self) {
        if let Some(run) = &mut self.active_run {
            run.pending_entries.retain(|pending| pending.source != EntrySource::Prompt);
        }
        if let Some(overrides) = &mut self.overrides
            && let Some(before) = overrides.prompt_backup.take()
        {
            let OverrideBackup { model, thinking, active_tools } = *before;
            overrides.unused_models.extend(std::mem::replace(&mut overrides.model, model));
            (overrides.thinking, overrides.active_tools) = (thinking, active_tools);
        }
        if let Some(overrides) = &mut self.overrides {
            overrides.steering.retain(|(source, _)| *source != EntrySource::Prompt);
        }
    }

    /// Marks calls as running, besides those that already run.
    pub(crate) fn mark_calls_running(&mut self, calls: impl Iterator<Item = SmolStr>) {
        if let Some(run) = &mut self.active_run {
            run.running_calls.extend(calls);
        }
    }

    /// Marks that no call of the run is running any more.
    pub(crate) fn clear_running_calls(&mut self) {
        if let Some(run) = &mut self.active_run {
            run.running_calls.clear();
        }
    }

    /// True if a call was permitted to run.
    pub(crate) fn is_call_running(&self, call: &SmolStr) -> bool {
        self.active_run.as_ref().is_some_and(|run| run.running_calls.contains(call))
    }

    /// The skills that triggers activated.
    pub(crate) fn active_skills(&mut self) -> Arc<ActiveSkills> {
        if let Some(cached) = &self.overrides().skills {
            return cached.clone();
        }
        let active = Arc::new(ActiveSkills::of(&self.tree.path()));
        self.overrides_mut().skills = Some(active.clone());
        active
    }

    /// The overrides of this session.
    pub(crate) fn overrides(&self) -> &SessionOverrides {
        self.overrides.as_deref().unwrap_or(&NO_OVERRIDES)
    }

    /// The overrides of this session, to be changed.
    pub(crate) fn overrides_mut(&mut self) -> &mut SessionOverrides {
        self.overrides.get_or_insert_default()
    }

    /// The overrides, to be changed by a source. A backup is made first if the source is the prompt.
    pub(crate) fn overrides_mut_by(&mut self, source: EntrySource) -> &mut SessionOverrides {
        let overrides = self.overrides_mut();
        if source == EntrySource::Prompt && overrides.prompt_backup.is_none() {
            overrides.prompt_backup = Some(Box::new(OverrideBackup {
                model: overrides.model.clone(),
                thinking: overrides.thinking,
                active_tools: overrides.active_tools.clone(),
            }));
        }
        overrides
    }

    /// Forgets the last requests: no handler or listener looks at replies any more.
    pub(crate) fn clear_request_log(&mut self) {
        if let Some(overrides) = &mut self.overrides {
            overrides.request_log = RequestLog::EMPTY;
        }
    }

    /// Takes the steering texts for the current run.
    pub(crate) fn take_steering(&mut self) -> Vec<Content> {
        let steering =
            self.overrides.as_mut().map(|overrides| std::mem::take(&mut overrides.steering));
        steering.unwrap_or_default().into_iter().map(|(_, content)| content).collect()
    }

    /// Adds a steering text for the current run.
    pub(crate) fn steer(&mut self, content: Content, source: EntrySource) {
        self.overrides_mut().steering.push((source, content));
    }

    /// True if the current run has steering texts.
    pub(crate) fn has_steering(&self) -> bool {
        !self.overrides().steering.is_empty()
    }

    /// Takes the request for a compaction, with its instructions.
    pub(crate) fn take_compact_request(&mut self) -> Option<String> {
        self.overrides.as_mut()?.compact_request.take()
    }
}
