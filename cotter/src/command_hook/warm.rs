//! Hooks that stay: started once, asked line by line. Each question has a number, which the answer must
//! repeat: a late or foreign answer is never taken for this one's.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;
use tokio::sync::Mutex;

use super::{Base, CommandHook, Server};
use crate::ext::foreign::{Answer, Asked, Asking, Outside, read_object};

pub(super) struct Warm(Arc<Kept>);

struct Kept {
    hook: CommandHook,
    base: Base,
    next: AtomicU64,
    /// Taken out while it is asked: whoever is dropped half-way leaves none, and the next starts anew.
    server: Mutex<Option<Started>>,
}

/// A server, and the project it was started for: another's is not asked.
struct Started {
    project: PathBuf,
    server: Box<dyn Server>,
}

impl Warm {
    pub(super) fn new(hook: CommandHook, base: Base) -> Self {
        Warm(Arc::new(Kept { hook, base, next: AtomicU64::new(1), server: Mutex::default() }))
    }
}

impl Outside for Warm {
    fn ask(&self, asked: Asked) -> Asking {
        let kept = self.0.clone();
        Box::pin(async move { kept.hook.settled(&asked, kept.ask(&asked)).await })
    }
}

impl Kept {
    async fn ask(&self, asked: &Asked) -> Result<Answer, String> {
        let mut place = self.server.lock().await;
        let project = asked.cx.place().project();
        let mut started = match place.take().filter(|started| started.project == project) {
            Some(started) => started,
            None => {
                let job = self.hook.job(&self.base, asked, vec![]);
                Started { project: project.into(), server: self.base.starts.serve(job)? }
            }
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut payload = asked.payload.clone();
        payload["id"] = id.into();
        let line = started.server.exchange(payload.to_string().as_bytes()).await;
        asked.cx.remark(&String::from_utf8_lossy(&started.server.remarked()));
        let line = line?;
        let object = read_object(&line)
            .map_err(|cause| format!("what it answered is no JSON object: {cause}"))?;
        if object.get("id").and_then(Value::as_u64) != Some(id) {
            return Err("what it answered is no answer to this question".into());
        }
        let answer = Answer::read(asked.point, &object)?;
        *place = Some(started);
        Ok(answer)
    }
}
