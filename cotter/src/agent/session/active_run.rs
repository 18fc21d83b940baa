//! What a session holds besides its history: the run under way, and what was set for it. Most
//! sessions have neither, so neither takes room until it is there.

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

/// The run under way.
pub(crate) struct ActiveRun {
    cancel: CancellationToken,
    /// The calls that had leave to run last: without a result, nobody knows what came of them.
    at_work: Vec<SmolStr>,
    /// Entries of others that wait for the run's next safe moment.
    waiting: Vec<PendingEntry>,
    /// Why a hook ended it.
    ended: Option<String>,
}

/// An entry that waits for a safe moment of the run under way.
struct PendingEntry {
    /// The id it was promised.
    id: SmolStr,
    body: EntryBody,
    by: EntrySource,
}

/// Whose an entry or a choice is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum EntrySource {
    /// Of somebody who works on the prompt that is being staged: it is stored with the prompt, or not
    /// at all.
    Prompt,
    /// Of anybody else.
    Others,
}

/// What was set for one session instead of what its agent has.
#[derive(Default)]
pub(crate) struct SessionOverrides {
    /// The model of the run under way, or of the next one.
    pub(crate) turn_model: Option<Arc<dyn Model>>,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) thinking: Thinking,
    /// The tools it is limited to, by name.
    pub(crate) active_tools: ToolLimit,
    /// The conversation is to be summed up before the next request, minding these words.
    pub(crate) compact: Option<String>,
    /// What the run under way is to be told before its next request.
    steering: Vec<(EntrySource, Content)>,
    /// What was set before the prompt that is being staged changed it.
    before_prompt: Option<Box<OverrideBackup>>,
    /// How long the conversation is, where no provider counts.
    estimate: Option<Box<TokenEstimate>>,
    /// What was left of the conversation when it was last summed up.
    pub(crate) summed_up: Option<SizeAfterCompaction>,
    /// What was sent last, where somebody hears of replies.
    pub(crate) sent: RequestLog,
    /// What a person said yes to for the rest of the session, as allow rules.
    pub(crate) approvals: Vec<Rule>,
    /// Whether a secret was read; unknown until somebody looks.
    pub(crate) secret_read: Option<bool>,
    /// The skills that triggers brought in; unknown until somebody looks.
    pub(crate) skills: Option<Arc<ActiveSkills>>,
    /// The lists that its model was told of last, where those it is shown are older.
    pub(crate) told: Option<Arc<NameListing>>,
    /// Models that no longer count.
    gone: Vec<Arc<dyn Model>>,
}

/// The skills that triggers brought into a session, on the way to its leaf.
#[derive(Default)]
pub(crate) struct ActiveSkills {
    pub(crate) names: Vec<SmolStr>,
    /// Those that stand in the system prompt, each with what is told.
    pub(crate) system: Vec<(SmolStr, String)>,
    /// How much all of them said.
    pub(crate) bytes: usize,
}

impl ActiveSkills {
    fn of(path: &Entries) -> Self {
        let mut active = ActiveSkills::default();
        // What a message brings follows its entry.
        let mut follows = false;
        for entry in path.iter() {
            if entry.kind() == EntryKind::SkillActive
                && let EntryBody::SkillActive { name, text } = entry.body()
            {
                active.names.push(name.clone());
                active.bytes += text.len();
                follows = text.is_empty();
                if !follows {
                    active.system.push((name.clone(), text.clone()));
                }
            } else if std::mem::take(&mut follows)
                && let Some(Message::User(UserMessage {
                    mark: UserMessageKind::SkillInjection,
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

/// What a prompt that comes to nothing gives back.
struct OverrideBackup {
    model: Option<Arc<dyn Model>>,
    thinking: Thinking,
    active_tools: ToolLimit,
}

impl SessionOverrides {
    /// About how many tokens these messages have.
    pub(crate) fn estimate(&mut self, messages: MessageList) -> u64 {
        self.estimate.get_or_insert_default().take(messages)
    }
}

static NOTHING_CHOSEN: SessionOverrides = SessionOverrides {
    turn_model: None,
    model: None,
    thinking: Thinking::Off,
    active_tools: ToolLimit::NOT,
    compact: None,
    steering: Vec::new(),
    before_prompt: None,
    estimate: None,
    summed_up: None,
    sent: RequestLog::NOTHING,
    approvals: Vec::new(),
    secret_read: None,
    skills: None,
    told: None,
    gone: Vec::new(),
};

impl SessionState {
    /// A run begins: others' entries wait for its safe moments from now on.
    pub(crate) fn begin_run(&mut self, cancel: CancellationToken) {
        let run = ActiveRun { cancel, at_work: vec![], waiting: vec![], ended: None };
        self.under_way = Some(Box::new(run));
    }

    /// The end of a run: what waited for it is added. Gives the entries.
    pub(crate) fn finish_run(
        &mut self,
        end: impl FnOnce() -> Record,
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        let writable = self.check_writable().is_ok();
        let settled = if writable { self.add_pending_entries() } else { vec![] };
        self.under_way = None;
        if writable {
            self.record(end());
            self.commit_behind()?;
        }
        Ok(settled)
    }

    /// The model that was set for the run alone, and others that no longer count. Whoever takes them
    /// drops them outside the lock: a model is somebody's own, and may look at the session as it goes.
    pub(crate) fn take_gone_models(&mut self) -> Vec<Arc<dyn Model>> {
        let Some(chosen) = &mut self.chosen else { return vec![] };
        let gone = std::mem::take(&mut chosen.gone);
        gone.into_iter().chain(chosen.turn_model.take()).collect()
    }

    /// Whether a run is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Aborts the run under way; whether there was one.
    pub(crate) fn abort(&self) -> bool {
        self.under_way.as_ref().inspect(|run| run.cancel.cancel()).is_some()
    }

    /// Ends the run under way, for a reason that its end tells; whether there was one. The first reason
    /// counts, and none once somebody aborted it.
    pub(crate) fn end_run(&mut self, why: String) -> bool {
        let Some(run) = &mut self.under_way else { return false };
        if !run.cancel.is_cancelled() {
            run.ended = Some(why);
            run.cancel.cancel();
        }
        true
    }

    /// Why a hook ended the run under way, where one did.
    pub(crate) fn ended(&self) -> Option<String> {
        self.under_way.as_ref()?.ended.clone()
    }

    /// Adds somebody's entry: at once, or at the next safe moment of the run under way. Gives its id.
    pub(crate) fn add(&mut self, body: EntryBody, by: EntrySource) -> Result<SmolStr, StoreError> {
        self.check_writable()?;
        if self.is_busy() {
            let id = self.next_id();
            if let Some(run) = &mut self.under_way {
                run.waiting.push(PendingEntry { id: id.clone(), body, by });
            }
            return Ok(id);
        }
        let entry = self.append(body);
        self.commit_behind()?;
        Ok(entry.id().clone())
    }

    /// Whether a message that somebody adds leaves every call with exactly one result: while calls wait
    /// for theirs, nothing else is taken.
    pub(crate) fn check_paired(&self, message: &Message) -> Result<(), StoreError> {
        if self.is_busy() {
            return match message {
                Message::User(_) => Ok(()),
                Message::Assistant(reply) if reply.calls().next().is_none() => Ok(()),
                _ => Err(StoreError::new("a run is under way, and calls and results are its own")),
            };
        }
        let open = self.open_calls();
        match message {
            Message::ToolResult(ToolResultMessage { call_id, .. }) => {
                let waits = open.iter().any(|call| call.id == *call_id);
                let why = || format!("there is no call `{call_id}` that waits for a result");
                waits.then_some(()).ok_or_else(|| StoreError::new(why()))
            }
            _ => match open.first() {
                None => Ok(()),
                Some(call) => {
                    Err(StoreError::new(format!("the call `{}` waits for its result", call.id)))
                }
            },
        }
    }

    /// A safe moment: what waited is added. Gives the entries.
    pub(crate) fn add_pending_entries(&mut self) -> Vec<Arc<Entry>> {
        if let Some(chosen) = &mut self.chosen {
            chosen.gone.extend(chosen.before_prompt.take().and_then(|before| before.model));
        }
        let waiting = self.under_way.as_mut().map(|run| std::mem::take(&mut run.waiting));
        let waiting = waiting.unwrap_or_default();
        waiting.into_iter().map(|PendingEntry { id, body, .. }| self.append_as(id, body)).collect()
    }

    /// A prompt that comes to nothing takes with it what was added and set for it.
    pub(crate) fn forget_prompt(&mut self) {
        if let Some(run) = &mut self.under_way {
            run.waiting.retain(|waiting| waiting.by != EntrySource::Prompt);
        }
        if let Some(chosen) = &mut self.chosen
            && let Some(before) = chosen.before_prompt.take()
        {
            let OverrideBackup { model, thinking, active_tools } = *before;
            chosen.gone.extend(std::mem::replace(&mut chosen.model, model));
            (chosen.thinking, chosen.active_tools) = (thinking, active_tools);
        }
        if let Some(chosen) = &mut self.chosen {
            chosen.steering.retain(|(by, _)| *by != EntrySource::Prompt);
        }
    }

    /// The calls that are about to run, besides those that already do.
    pub(crate) fn mark_calls_running(&mut self, calls: impl Iterator<Item = SmolStr>) {
        if let Some(run) = &mut self.under_way {
            run.at_work.extend(calls);
        }
    }

    /// No call of the run is at work any more.
    pub(crate) fn rest(&mut self) {
        if let Some(run) = &mut self.under_way {
            run.at_work.clear();
        }
    }

    /// Whether a call had leave to run.
    pub(crate) fn is_at_work(&self, call: &SmolStr) -> bool {
        self.under_way.as_ref().is_some_and(|run| run.at_work.contains(call))
    }

    /// The skills that triggers brought in.
    pub(crate) fn active_skills(&mut self) -> Arc<ActiveSkills> {
        if let Some(known) = &self.choices().skills {
            return known.clone();
        }
        let active = Arc::new(ActiveSkills::of(&self.tree.path()));
        self.choose().skills = Some(active.clone());
        active
    }

    /// What was set for this session.
    pub(crate) fn choices(&self) -> &SessionOverrides {
        self.chosen.as_deref().unwrap_or(&NOTHING_CHOSEN)
    }

    /// The same, to be changed.
    pub(crate) fn choose(&mut self) -> &mut SessionOverrides {
        self.chosen.get_or_insert_default()
    }

    /// The same, for somebody whose changes may go with a prompt.
    pub(crate) fn choose_by(&mut self, by: EntrySource) -> &mut SessionOverrides {
        let chosen = self.choose();
        if by == EntrySource::Prompt && chosen.before_prompt.is_none() {
            chosen.before_prompt = Some(Box::new(OverrideBackup {
                model: chosen.model.clone(),
                thinking: chosen.thinking,
                active_tools: chosen.active_tools.clone(),
            }));
        }
        chosen
    }

    /// Nobody hears of replies any more: what was sent need not be known.
    pub(crate) fn forget_sent(&mut self) {
        if let Some(chosen) = &mut self.chosen {
            chosen.sent = RequestLog::NOTHING;
        }
    }

    /// What the run under way is to be told, once.
    pub(crate) fn take_steering(&mut self) -> Vec<Content> {
        let steering = self.chosen.as_mut().map(|chosen| std::mem::take(&mut chosen.steering));
        steering.unwrap_or_default().into_iter().map(|(_, content)| content).collect()
    }

    /// Words for the model that are to reach it in the run under way.
    pub(crate) fn steer(&mut self, content: Content, by: EntrySource) {
        self.choose().steering.push((by, content));
    }

    /// Whether the run under way is to be told something.
    pub(crate) fn is_steered(&self) -> bool {
        !self.choices().steering.is_empty()
    }

    /// What somebody who asked for a compaction wants minded, once.
    pub(crate) fn take_compact(&mut self) -> Option<String> {
        self.chosen.as_mut()?.compact.take()
    }
}
