//! Where points are fired from: a generation, a hub, a context. The only caller of the dispatch.

use std::sync::Arc;

use crate::{
    cx::Cx,
    events::{Event, EventKind, Hub},
    ext::{Chain, Decided, Generation, Ran, dispatch},
    points::{Point, PointId},
    session::Timestamp,
};

/// What firing a point needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) generation: Arc<Generation>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) cx: Cx,
}

impl Scene {
    /// Fires a point at whoever is registered there; nobody costs a bit test.
    pub(crate) async fn fire<P: Point>(
        &self,
        event: impl FnOnce() -> P::Event,
    ) -> Option<Decided<P>> {
        if !self.generation.has(P::ID) {
            return None;
        }
        // Boxed, so that a run does not carry the room for every point it may fire.
        Some(Box::pin(self.fire_on(self.generation.chain::<P>(), Arc::new(event()))).await)
    }

    /// Fires a point at some of its handlers, and tells each run of one.
    pub(crate) async fn fire_on<P: Point>(
        &self,
        chain: &Chain<P>,
        event: Arc<P::Event>,
    ) -> Decided<P> {
        let cancel = heeds_cancel(P::ID).then_some(&self.cx.run.cancel);
        let decided = dispatch(chain, event, &self.cx, cancel).await;
        if self.hub.is_heard() {
            decided.ran.iter().for_each(|ran| self.tell(ran));
        }
        decided
    }

    /// Tells whoever listens.
    pub(crate) fn emit(&self, kind: EventKind) {
        if !self.hub.is_heard() {
            return;
        }
        let run = &self.cx.run;
        self.hub.emit(|seq| Event {
            seq,
            at: Timestamp::now(),
            session_id: run.session_id.clone(),
            run_id: run.run_id.clone(),
            step: self.cx.step(),
            agent_id: run.agent_id.clone(),
            kind,
        });
    }

    fn tell(&self, ran: &Ran) {
        let Some(meta) = self.generation.meta(ran.handler) else { return };
        #[expect(clippy::cast_precision_loss, reason = "a duration of a hook, for people")]
        let ms = ran.nanos as f64 / 1e6;
        self.emit(EventKind::Hook {
            point: meta.point,
            name: meta.name.clone(),
            origin: meta.owner.origin.to_string(),
            power: meta.power,
            verdict: ran.word,
            reason: ran.reason.as_deref().map(str::to_owned),
            ms,
        });
    }
}

/// What has happened is told, abort or not: an audit trail that skips aborted runs is none.
fn heeds_cancel(point: PointId) -> bool {
    !matches!(
        point,
        PointId::SessionStart
            | PointId::ModelPost
            | PointId::ToolPost
            | PointId::ToolRefused
            | PointId::Error
            | PointId::SessionEnd
            | PointId::SessionOpen
            | PointId::SessionClose
    )
}
