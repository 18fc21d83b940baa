//! The thread that syncs files to the disk. It starts with the first request and ends with the store.

use std::{
    fs::File,
    future::Future,
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

/// The delay before a background sync, so that a burst of short steps costs one sync.
const SYNC_DELAY: Duration = Duration::from_millis(5);

/// Syncs files in the background, or while the writer waits.
#[derive(Default)]
pub(crate) struct Syncer {
    shared: Arc<SyncerShared>,
}

#[derive(Default)]
struct SyncerShared {
    queue: Mutex<SyncQueue>,
    work: Condvar,
}

#[derive(Default)]
struct SyncQueue {
    jobs: Vec<SyncJob>,
    /// Files whose background sync failed. The next append reports the error.
    failed: Vec<(Arc<File>, io::ErrorKind)>,
    running: bool,
    idle: bool,
    closed: bool,
}

struct SyncJob {
    file: Arc<File>,
    waiters: Vec<oneshot::Sender<Result<(), io::ErrorKind>>>,
}

impl Syncer {
    /// Queues a sync of the file and returns at once.
    pub(crate) fn queue_sync(&self, file: &Arc<File>) {
        self.add(file, None);
    }

    /// Returns a future that completes when the file is on the disk.
    pub(crate) fn wait(&self, file: &Arc<File>) -> impl Future<Output = io::Result<()>> + use<> {
        let (sender, receiver) = oneshot::channel();
        self.add(file, Some(sender));
        async move {
            let thread_ended = || Err(io::ErrorKind::BrokenPipe);
            receiver.await.unwrap_or_else(|_| thread_ended()).map_err(io::Error::from)
        }
    }

    /// Takes the error of an earlier background sync. A second call returns `None`.
    pub(crate) fn take_failure(&self, file: &Arc<File>) -> Option<io::Error> {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let index = queue.failed.iter().position(|(failed, _)| Arc::ptr_eq(failed, file))?;
        Some(queue.failed.swap_remove(index).1.into())
    }

    fn add(&self, file: &Arc<File>, waiter: Option<oneshot::Sender<Result<(), io::ErrorKind>>>) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let job = match queue.jobs.iter_mut().position(|job| Arc::ptr_eq(&job.file, file)) {
            Some(index) => &mut queue.jobs[index],
            None => {
                queue.jobs.push(SyncJob { file: file.clone(), waiters: vec![] });
                queue.jobs.last_mut().expect("it was just pushed")
            }
        };
        job.waiters.extend(waiter);
        if !queue.running {
            let shared = self.shared.clone();
            let name = "cotter-sync".to_owned();
            queue.running = thread::Builder::new().name(name).spawn(move || shared.run()).is_ok();
            if !queue.running {
                // No thread could be started, so the caller syncs the file itself.
                for job in std::mem::take(&mut queue.jobs) {
                    job.run(&mut queue);
                }
            }
        } else if queue.idle || queue.is_urgent() {
            queue.idle = false;
            self.shared.work.notify_one();
        }
    }
}

impl SyncQueue {
    /// True if a writer waits for a sync, or the store is closed.
    fn is_urgent(&self) -> bool {
        self.closed || self.jobs.iter().any(|job| !job.waiters.is_empty())
    }
}

impl SyncerShared {
    fn run(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            while queue.jobs.is_empty() {
                if queue.closed {
                    return;
                }
                queue.idle = true;
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle = false;
            }
            if !queue.is_urgent() {
                let may_wait = |queue: &mut SyncQueue| !queue.is_urgent();
                let waited = self.work.wait_timeout_while(queue, SYNC_DELAY, may_wait);
                queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            let jobs = std::mem::take(&mut queue.jobs);
            drop(queue);
            let results: Vec<_> = jobs.into_iter().map(|job| (job.file.sync_data(), job)).collect();
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            for (result, job) in results {
                job.notify_waiters(result.map_err(|cause| cause.kind()), &mut queue);
            }
        }
    }
}

impl SyncJob {
    fn run(self, queue: &mut SyncQueue) {
        let result = self.file.sync_data().map_err(|cause| cause.kind());
        self.notify_waiters(result, queue);
    }

    fn notify_waiters(self, result: Result<(), io::ErrorKind>, queue: &mut SyncQueue) {
        if let (Err(kind), true) = (result, self.waiters.is_empty()) {
            queue.failed.push((self.file, kind));
        }
        for waiter in self.waiters {
            let _ = waiter.send(result);
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.closed = true;
        self.shared.work.notify_one();
    }
}
