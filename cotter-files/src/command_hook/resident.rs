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

use crate::command_hook::{Base, Server, dialect::read_object, entry::CommandHook};
use cotter::{
    Cx,
    hooks::external::{Answer, Asked, Asking, Outside},
    host,
};

pub(crate) struct Warm(Arc<Kept>);

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
    pub(crate) fn new(hook: CommandHook, base: Base) -> Self {
        Warm(Arc::new(Kept { hook, base, next: AtomicU64::new(1), server: Mutex::default() }))
    }
}

impl Outside for Warm {
    fn ask(&self, asked: Asked) -> Asking {
        let kept = self.0.clone();
        Box::pin(async move { kept.hook.settled(&asked, kept.ask(&asked)).await })
    }
}

/// A question to a server. What it remarked meanwhile is kept when it is over, also where nobody waits for it
/// any longer.
struct Talk<'a> {
    cx: &'a Cx,
    server: &'a mut dyn Server,
}

impl Talk<'_> {
    async fn exchange(&mut self, line: &str) -> Result<Vec<u8>, String> {
        self.server.exchange(line.as_bytes()).await
    }
}

impl Drop for Talk<'_> {
    fn drop(&mut self) {
        let said = self.server.remarked();
        host::remark_end(self.cx, &String::from_utf8_lossy(&said));
    }
}

/// What is told, with the number of the line. What has an `id` of its own is told it as `questionId`.
fn numbered(payload: &Value, id: u64) -> Value {
    let name = |key: &str| if key == "id" { "questionId" } else { key }.to_owned();
    let told = payload.as_object().into_iter().flatten();
    let told = told.map(|(key, value)| (name(key), value.clone()));
    Value::Object(told.chain([("id".into(), id.into())]).collect())
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
        let line = numbered(&asked.payload, id).to_string();
        let line = Talk { cx: &asked.cx, server: &mut *started.server }.exchange(&line).await?;
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
