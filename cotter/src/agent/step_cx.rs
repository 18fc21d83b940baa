//! Where something happens, seen by the runtime: what an agent shows its model, a context, the way to
//! whoever listens. Points are fired from here; it is the only caller of the dispatch.

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

/// What firing a point needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct StepCx {
    /// Pinned for a step from start to end.
    pub(crate) face: Arc<AgentView>,
    pub(crate) cx: Cx,
}

impl StepCx {
    /// The scene of a context, as things stand now.
    pub(crate) fn of(cx: &Cx) -> Self {
        StepCx { face: cx.session().face(), cx: cx.clone() }
    }

    /// The same with the newest generation: tightening acts at once.
    pub(crate) fn newest(&self) -> Self {
        StepCx::of(&self.cx)
    }

    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.face.generation
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

    /// The session's state, for a moment: never across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.session().state()
    }

    fn hub(&self) -> &Arc<EventHub> {
        &self.session().shared.hub
    }

    /// The call that this happens within: a tool's own, or the one an agent works for.
    pub(crate) fn within(&self) -> Option<SmolStr> {
        match &self.cx.speaker {
            NoteAuthor::Tool(calling) => Some(calling.call_id.clone()),
            _ => self.agent().parent().and_then(|parent| parent.call_id.clone()),
        }
    }

    /// Who acts here; nobody where it is the runtime itself.
    pub(crate) fn speaker(&self) -> Option<Owner> {
        match &self.cx.speaker {
            NoteAuthor::Runtime => None,
            NoteAuthor::Hook(id) => self.generation().meta(*id).map(|meta| meta.owner.clone()),
            NoteAuthor::Tool(calling) => Some(calling.owner.clone()),
            NoteAuthor::Called(by) => Some(by.owner.clone()),
        }
    }

    /// Tells the hooks of this run's events as they come, off the path of the run.
    pub(crate) fn watch(&self) {
        let hooks = self.generation().hooks.clone();
        if hooks.is_empty() || self.agent().parent().is_some() {
            return;
        }
        let (mut events, run) = (self.hub().subscribe(), self.run_id().clone());
        tokio::spawn(async move {
            loop {
                let event = events.next().await;
                hooks.iter().for_each(|hook| hook.tell(&event));
                if event.run_id == run && matches!(event.kind, EventKind::SessionEnd { .. }) {
                    break;
                }
            }
        });
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.hub().is_heard()
    }

    /// Fires a point at whoever is registered there; nobody costs a bit test.
    pub(crate) async fn fire<P: Point>(
        &self,
        event: impl FnOnce() -> P::Event,
    ) -> Option<PointOutcome<P>> {
        if !self.generation().has(P::ID) {
            return None;
        }
        // Boxed, so that a run does not carry the room for every point it may fire.
        let mut decided =
            Box::pin(self.fire_on(self.generation().chain::<P>(), Arc::new(event()))).await;
        self.store_ran(P::ID, None, std::mem::take(&mut decided.ran));
        if matches!(P::ID, PointId::SessionEnd | PointId::SessionClose) {
            self.store_late();
        }
        Some(decided)
    }

    /// The same; what handlers see has been stored.
    pub(crate) async fn fire_stored<P: Point>(
        &self,
        event: impl FnOnce() -> P::Event,
    ) -> Result<Option<PointOutcome<P>>, StoreError> {
        if !self.generation().has(P::ID) {
            return Ok(None);
        }
        self.state().commit()?;
        let event = Arc::new(event());
        let mut decided = Box::pin(self.fire_on(self.generation().chain::<P>(), event)).await;
        if self.store_ran(P::ID, None, std::mem::take(&mut decided.ran)) {
            // Whoever follows the record sees it before the model answers, or a person.
            self.state().commit()?;
        }
        Ok(Some(decided))
    }

    /// Stages which hooks ran at a point that no row of a call tells of; whether there is anything to
    /// store. Of the program's own only failures are kept: the record is not paid for by whoever looks
    /// on from within.
    pub(crate) fn store_ran(
        &self,
        point: PointId,
        call_id: Option<&SmolStr>,
        ran: Vec<HandlerRun>,
    ) -> bool {
        let ran: Vec<_> = ran.into_iter().filter(HandlerRun::should_record).collect();
        if ran.is_empty() || self.state().check_writable().is_err() {
            return false;
        }
        self.store_tables();
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

    /// Stores what is left when nobody else will: after the end of a run. A session in which nothing was
    /// said yet is not begun by that; what fails here is no failure of the run, which is over.
    pub(crate) fn store_late(&self) {
        let mut state = self.state();
        if state.next_run > 1 {
            let _ = state.commit();
        }
    }

    /// The names behind the numbers of hooks, once per generation: this step's, and the newest, of which
    /// those are that were asked again.
    pub(crate) fn store_tables(&self) {
        let agent = self.agent();
        let mut state = self.state();
        if state.table < Some(agent.live().number()) {
            store_table(&mut state, self.generation());
            store_table(&mut state, &agent.generation());
        }
    }

    /// Fires a point at some of its handlers, and tells each run of one.
    pub(crate) async fn fire_on<P: Point>(
        &self,
        chain: &Chain<P>,
        event: Arc<P::Event>,
    ) -> PointOutcome<P> {
        let cancel = (!P::ID.row().after_the_fact).then_some(&self.cx.run.cancel);
        let decided = dispatch(chain, event, &self.cx, cancel).await;
        if self.is_heard() {
            decided.ran.iter().for_each(|ran| self.tell_ran(ran));
        }
        decided
    }

    /// Tells whoever listens. What is told has been stored.
    pub(crate) fn tell(&self, kind: impl FnOnce() -> EventKind) -> Result<(), StoreError> {
        if self.is_heard() {
            self.state().commit()?;
            self.emit(kind());
        }
        Ok(())
    }

    /// Stores an error as the result of a call that has none. A failing store is reported elsewhere.
    pub(crate) fn close_call(&self, call: &ToolCall, kind: ToolErrorKind, words: &str) {
        let entry = self.state().close_call(call, kind, words);
        let _ = self.tell(|| EventKind::Message { entry });
    }

    /// Tells whoever listens, at once.
    pub(crate) fn emit(&self, kind: EventKind) {
        if !self.is_heard() {
            return;
        }
        self.hub().emit(|seq| Event {
            seq,
            at: Timestamp::now(),
            session_id: self.session().shared.id.clone(),
            run_id: self.run_id().clone(),
            step: self.cx.step(),
            agent_id: self.agent().id().clone(),
            parent_call_id: self.within(),
            kind,
        });
    }

    fn tell_ran(&self, ran: &HandlerRun) {
        let Some(meta) = self.generation().meta(ran.handler) else { return };
        #[expect(clippy::cast_precision_loss, reason = "a duration of a hook, for people")]
        let ms = ran.nanos as f64 / 1e6;
        self.emit(EventKind::Hook {
            point: meta.point.name(),
            name: meta.name.clone(),
            origin: meta.owner.origin.to_string(),
            power: meta.power,
            verdict: ran.word,
            reason: ran.reason.as_deref().map(str::to_owned),
            stderr: ran.remark.as_deref().map(str::to_owned),
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

    /// A detached context in which hooks are told that it is a dry run.
    pub(crate) fn dry_step_cx(&self) -> StepCx {
        let detached = self.detached_step_cx();
        StepCx { cx: detached.cx.dry(), ..detached }
    }
}

fn store_table(state: &mut SessionState, generation: &Generation) {
    let number = generation.number;
    if state.table >= Some(number) {
        return;
    }
    state.table = Some(number);
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
