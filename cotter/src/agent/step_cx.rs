//! The context of a step for the runtime: the agent's view, the handler context, and the listeners. Every
//! point is fired from here; no other module calls the dispatch.

use std::sync::{Arc, MutexGuard};

use smol_str::SmolStr;

use crate::{
    agent::{
        Agent,
        cx::Cx,
        session::{Session, state::SessionState},
        view::AgentView,
    },
    history::{
        entry::{SessionHeader, Timestamp},
        ledger::{HandlerRun, HookTable, HookTableRow, HooksRow, Record},
        message::ToolCall,
        outcome::ToolErrorKind,
        store::StoreError,
    },
    hooks::{
        chain::{Chain, HandlerMeta},
        dispatch::{PointOutcome, dispatch},
        events::{Event, EventHub, EventKind},
        notes::NoteAuthor,
        points::{Point, PointId},
    },
    permission::origin::Owner,
    registry::generation::Generation,
};

/// The data that firing a point needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct StepCx {
    /// The view; it does not change within a step.
    pub(crate) view: Arc<AgentView>,
    pub(crate) cx: Cx,
}

impl StepCx {
    /// The step context of a handler context, with the current view.
    pub(crate) fn of(cx: &Cx) -> Self {
        StepCx { view: cx.session().view(), cx: cx.clone() }
    }

    /// Returns this step context with the newest generation, because a tightening acts at once.
    pub(crate) fn with_newest_view(&self) -> Self {
        StepCx::of(&self.cx)
    }

    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.view.generation
    }

    pub(crate) fn session(&self) -> &Session {
        self.cx.session()
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.session().agent
    }

    pub(crate) fn run_id(&self) -> &SmolStr {
        &self.cx.run.run_id
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cx.run.cancel.is_cancelled()
    }

    /// The session's state. Hold the lock briefly, never across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.session().state()
    }

    fn hub(&self) -> &Arc<EventHub> {
        &self.session().shared.hub
    }

    /// The call that this context is in: the tool's own call, or the call that asked for this child.
    pub(crate) fn parent_call_id(&self) -> Option<SmolStr> {
        match &self.cx.author {
            NoteAuthor::Tool(call) => Some(call.call_id.clone()),
            _ => self.agent().parent().and_then(|parent| parent.call_id.clone()),
        }
    }

    /// The owner that acts in this context; `None` for the runtime itself.
    pub(crate) fn acting_owner(&self) -> Option<Owner> {
        match &self.cx.author {
            NoteAuthor::Runtime => None,
            NoteAuthor::Hook(id) => self.generation().meta(*id).map(|meta| meta.owner.clone()),
            NoteAuthor::Tool(call) => Some(call.owner.clone()),
            NoteAuthor::Named(caller) => Some(caller.owner.clone()),
        }
    }

    /// Sends this run's events to the hooks, in a task of their own.
    pub(crate) fn forward_events_to_hooks(&self) {
        let hooks = self.generation().hooks.clone();
        if hooks.is_empty() || self.agent().parent().is_some() {
            return;
        }
        let (mut events, run) = (self.hub().subscribe(), self.run_id().clone());
        tokio::spawn(async move {
            loop {
                let event = events.next().await;
                hooks.iter().for_each(|hook| hook.send_event(&event));
                if event.run_id == run && matches!(event.kind, EventKind::SessionEnd { .. }) {
                    break;
                }
            }
        });
    }

    /// True if the session has listeners.
    pub(crate) fn has_listeners(&self) -> bool {
        self.hub().has_listeners()
    }

    /// Fires a point at its handlers. A point without handlers costs a bit test.
    pub(crate) async fn fire<P: Point>(
        &self,
        event: impl FnOnce() -> P::Event,
    ) -> Option<PointOutcome<P>> {
        if !self.generation().has(P::ID) {
            return None;
        }
        // Boxed, so that the future of a run does not hold space for every point that it may fire.
        let mut outcome =
            Box::pin(self.fire_on(self.generation().chain::<P>(), Arc::new(event()))).await;
        self.stage_hook_runs(P::ID, None, std::mem::take(&mut outcome.ran));
        if matches!(P::ID, PointId::SessionEnd | PointId::SessionClose) {
            self.commit_after_run();
        }
        Some(outcome)
    }

    /// Fires a point after everything that its handlers see has been stored.
    pub(crate) async fn fire_stored<P: Point>(
        &self,
        event: impl FnOnce() -> P::Event,
    ) -> Result<Option<PointOutcome<P>>, StoreError> {
        if !self.generation().has(P::ID) {
            return Ok(None);
        }
        self.state().commit()?;
        let event = Arc::new(event());
        let mut outcome = Box::pin(self.fire_on(self.generation().chain::<P>(), event)).await;
        if self.stage_hook_runs(P::ID, None, std::mem::take(&mut outcome.ran)) {
            // Committed now, so that readers of the record see it before the model or a person answers.
            self.state().commit()?;
        }
        Ok(Some(outcome))
    }

    /// Stages a record of the hooks that ran at a point without a ledger row. Returns true if there is
    /// something to store. In-process hooks are recorded only when they fail; this saves a write per event.
    pub(crate) fn stage_hook_runs(
        &self,
        point: PointId,
        call_id: Option<&SmolStr>,
        hook_runs: Vec<HandlerRun>,
    ) -> bool {
        let ran: Vec<_> = hook_runs.into_iter().filter(HandlerRun::should_record).collect();
        if ran.is_empty() || self.state().check_writable().is_err() {
            return false;
        }
        self.stage_hook_tables();
        self.state().record(Record::HooksRan(HooksRow {
            at: Timestamp::now(),
            run: self.run_id().clone(),
            step: self.cx.step(),
            point: point.name(),
            call_id: call_id.cloned(),
            generation: self.generation().number,
            ran,
        }));
        true
    }

    /// Stores the staged lines after the end of a run, when no later commit follows. A session without any
    /// run is not stored by this. An error here is ignored, because the run is over.
    pub(crate) fn commit_after_run(&self) {
        let mut state = self.state();
        if state.next_run > 1 {
            let _ = state.commit();
        }
    }

    /// Stages the names behind the hook ids, once per generation. It stages this step's generation and the
    /// newest one, because hooks that are asked again are from the newest.
    pub(crate) fn stage_hook_tables(&self) {
        let agent = self.agent();
        let mut state = self.state();
        if state.stored_table < Some(agent.live().number()) {
            stage_hook_table(&mut state, self.generation());
            stage_hook_table(&mut state, &agent.generation());
        }
    }

    /// Fires a point at some of its handlers, and reports each handler run to the listeners.
    pub(crate) async fn fire_on<P: Point>(
        &self,
        chain: &Chain<P>,
        event: Arc<P::Event>,
    ) -> PointOutcome<P> {
        let cancel = (!P::ID.row().after_the_fact).then_some(&self.cx.run.cancel);
        let outcome = dispatch(chain, event, &self.cx, cancel).await;
        if self.has_listeners() {
            outcome.ran.iter().for_each(|hook_run| self.emit_hook_run(hook_run));
        }
        outcome
    }

    /// Commits, then sends an event, if there are listeners. So listeners see only stored data.
    pub(crate) fn commit_and_emit(
        &self,
        kind: impl FnOnce() -> EventKind,
    ) -> Result<(), StoreError> {
        if self.has_listeners() {
            self.state().commit()?;
            self.emit(kind());
        }
        Ok(())
    }

    /// Stores an error as the result of a call without one. A failing store is reported elsewhere.
    pub(crate) fn close_call(&self, call: &ToolCall, kind: ToolErrorKind, message: &str) {
        let entry = self.state().close_call(call, kind, message);
        let _ = self.commit_and_emit(|| EventKind::Message { entry });
    }

    /// Sends an event to the listeners without a commit.
    pub(crate) fn emit(&self, kind: EventKind) {
        if !self.has_listeners() {
            return;
        }
        self.hub().emit(|seq| Event {
            seq,
            at: Timestamp::now(),
            session_id: self.session().shared.id.clone(),
            run_id: self.run_id().clone(),
            step: self.cx.step(),
            agent_id: self.agent().id().clone(),
            parent_call_id: self.parent_call_id(),
            kind,
        });
    }

    fn emit_hook_run(&self, hook_run: &HandlerRun) {
        let Some(meta) = self.generation().meta(hook_run.handler) else { return };
        #[expect(clippy::cast_precision_loss, reason = "a duration of a hook, for people")]
        let ms = hook_run.nanos as f64 / 1e6;
        self.emit(EventKind::Hook {
            point: meta.point.name(),
            name: meta.name.clone(),
            origin: meta.owner.origin.to_string(),
            power: meta.power,
            verdict: hook_run.word,
            reason: hook_run.reason.as_deref().map(str::to_owned),
            stderr: hook_run.remark.as_deref().map(str::to_owned),
            ms,
        });
    }
}

impl Agent {
    /// A context outside any run, in a session that is not stored.
    pub(crate) fn detached_step_cx(&self) -> StepCx {
        let header = SessionHeader::new(SmolStr::default(), self.workspace().cwd());
        let session = Session::new(self.clone(), SessionState::unstored(header));
        session.step_cx(SmolStr::default())
    }

    /// A detached context for a dry run; [`Cx::is_dry_run`] is true in it.
    pub(crate) fn dry_step_cx(&self) -> StepCx {
        let detached = self.detached_step_cx();
        StepCx { cx: detached.cx.for_dry_run(), ..detached }
    }
}

fn stage_hook_table(state: &mut SessionState, generation: &Generation) {
    let number = generation.number;
    if state.stored_table >= Some(number) {
        return;
    }
    state.stored_table = Some(number);
    let hook = |meta: &Arc<HandlerMeta>| HookTableRow {
        id: meta.id.0,
        name: meta.name.clone(),
        origin: meta.owner.origin.to_string(),
        point: meta.point.name(),
        power: meta.power.as_str(),
        tools: meta.tools.as_ref().map(|filter| filter.globs.clone()),
        enabled: generation.is_enabled(meta.id),
        detached: meta.detached,
    };
    let hooks = generation.metas().map(hook).collect();
    state.record(Record::Generation(HookTable { number, hooks }));
}
