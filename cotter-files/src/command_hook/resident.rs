//! Resident hooks: started once, asked line by line. Each request has a number, which the answer must repeat.
//! So an answer to another request is never accepted.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;
use tokio::sync::Mutex;

use crate::{
    command_hook::{
        HookLocation, ResidentProcess, check_files, entry::CommandHook, failure::HookFailure,
        stdout::read_object,
    },
    trust::outside::TrustedFiles,
};
use cotter::{
    Cx,
    hooks::external::{ExternalHook, HookAnswer, HookFuture, HookRequest},
    host,
};

pub(crate) struct ResidentHook(Arc<ResidentState>);

struct ResidentState {
    hook: CommandHook,
    base: HookLocation,
    files: Arc<TrustedFiles>,
    next: AtomicU64,
    /// The running program. It is taken out during a request: if the request is dropped, the next one starts
    /// a new program.
    server: Mutex<Option<RunningServer>>,
}

/// A running program and the project it was started for. It is used only for that project.
struct RunningServer {
    project: PathBuf,
    server: Box<dyn ResidentProcess>,
}

impl ResidentHook {
    pub(crate) fn new(hook: CommandHook, base: HookLocation) -> Self {
        let files = hook.trusted_files(&base);
        ResidentHook(Arc::new(ResidentState {
            hook,
            base,
            files,
            next: AtomicU64::new(1),
            server: Mutex::default(),
        }))
    }
}

impl ExternalHook for ResidentHook {
    fn ask(&self, request: HookRequest) -> HookFuture {
        let state = self.0.clone();
        Box::pin(async move { state.hook.wait_for_answer(&request, state.ask(&request)).await })
    }
}

/// A request to a resident program. On drop, standard error of the meantime is recorded, even if the
/// request was cancelled.
struct ServerExchange<'a> {
    cx: &'a Cx,
    server: &'a mut dyn ResidentProcess,
}

impl ServerExchange<'_> {
    async fn exchange(&mut self, line: &str) -> Result<Vec<u8>, HookFailure> {
        self.server.exchange(line.as_bytes()).await
    }
}

impl Drop for ServerExchange<'_> {
    fn drop(&mut self) {
        let stderr = self.server.take_stderr();
        host::remark_end(self.cx, &String::from_utf8_lossy(&stderr));
    }
}

/// The payload with the number of the line as `id`. An `id` of the payload becomes `questionId`.
fn add_line_number(payload: &Value, id: u64) -> Value {
    let name = |key: &str| if key == "id" { "questionId" } else { key }.to_owned();
    let fields = payload.as_object().into_iter().flatten();
    let fields = fields.map(|(key, value)| (name(key), value.clone()));
    Value::Object(fields.chain([("id".into(), id.into())]).collect())
}

impl ResidentState {
    async fn ask(&self, request: &HookRequest) -> Result<HookAnswer, HookFailure> {
        let mut slot = self.server.lock().await;
        let project = request.cx.workspace().project();
        let mut running = match slot.take().filter(|running| running.project == project) {
            Some(running) => running,
            None => {
                check_files(self.files.clone()).await?;
                let job = self.hook.process_spec(&self.base, request, vec![]);
                let server = self.base.host.serve(job).map_err(HookFailure::Host)?;
                RunningServer { project: project.into(), server }
            }
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let line = add_line_number(&request.payload, id).to_string();
        let line = ServerExchange { cx: &request.cx, server: &mut *running.server }
            .exchange(&line)
            .await?;
        let mut object = read_object(&line)
            .map_err(|cause| format!("its answer is not a JSON object: {cause}"))?;
        if object.remove("id").and_then(|id| id.as_u64()) != Some(id) {
            let why = "the `id` of its answer is not the `id` of the request".to_owned();
            return Err(why.into());
        }
        let answer = HookAnswer::read(request.point, &object)?;
        *slot = Some(running);
        Ok(answer)
    }
}
