//! A model that records its requests.

use std::sync::{Arc, Mutex, PoisonError};

use cotter::{
    history::message::Usage,
    model::{Model, ReplyStream, Request},
};
use smol_str::SmolStr;

/// Wraps a model and keeps every request.
#[derive(Clone)]
pub struct RecordingModel<M> {
    model: M,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl<M: Model> RecordingModel<M> {
    /// Records the requests to `model`.
    pub fn new(model: M) -> Self {
        RecordingModel { model, requests: Arc::default() }
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The messages of every request so far, one per line; `--` separates requests.
    pub fn shown(&self) -> String {
        let shown = |request: Request| -> String {
            request
                .messages
                .iter()
                .map(|message| crate::transcript::shown(message) + "\n")
                .collect()
        };
        self.requests().into_iter().map(shown).collect::<Vec<_>>().join("--\n")
    }
}

impl<M: Model> Model for RecordingModel<M> {
    fn name(&self) -> &SmolStr {
        self.model.name()
    }

    fn stream(&self, request: Request) -> ReplyStream {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        self.model.stream(request)
    }

    fn context_window(&self) -> Option<u64> {
        self.model.context_window()
    }

    fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        self.model.cost_usd(usage)
    }

    fn break_at(&self, before: &Request, now: &Request) -> Option<u64> {
        self.model.break_at(before, now)
    }
}
