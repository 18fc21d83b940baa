//! Hooks that stay: started once, asked line by line. Each question has a number, which the answer must
//! repeat: a late or foreign answer is never taken for this one's.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde_json::Value;
use tokio::sync::Mutex;

use super::{Base, CommandHook, Server};
use crate::ext::foreign::{Answer, Asked, Asking, Outside};

pub(super) struct Warm(Arc<Kept>);

struct Kept {
    hook: CommandHook,
    base: Base,
    next: AtomicU64,
    /// Taken out while it is asked: whoever is dropped half-way leaves none, and the next starts anew.
    server: Mutex<Option<Box<dyn Server>>>,
}

impl Warm {
    pub(super) fn new(hook: CommandHook, base: Base) -> Self {
        Warm(Arc::new(Kept { hook, base, next: AtomicU64::new(1), server: Mutex::default() }))
    }
}

impl Outside for Warm {
    fn ask(&self, asked: Asked) -> Asking {
        let kept = self.0.clone();
        Box::pin(async move {
            let answer = kept.ask(&asked).await;
            kept.hook.settled(answer, &asked)
        })
    }
}

impl Kept {
    async fn ask(&self, asked: &Asked) -> Result<Answer, String> {
        let mut place = self.server.lock().await;
        let mut server = match place.take() {
            Some(server) => server,
            None => self.base.starts.serve(self.hook.job(&self.base, asked, vec![]))?,
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut payload = asked.payload.clone();
        payload["id"] = id.into();
        let line = server.exchange(payload.to_string().as_bytes()).await?;
        let said: Value = serde_json::from_slice(&line)
            .map_err(|cause| format!("what it answered is not JSON: {cause}"))?;
        let object = said.as_object().ok_or("what it answered is no object")?;
        if object.get("id").and_then(Value::as_u64) != Some(id) {
            return Err("what it answered is no answer to this question".into());
        }
        let answer = Answer::read(asked.point, object)?;
        *place = Some(server);
        Ok(answer)
    }
}
