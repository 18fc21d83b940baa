//! A model that follows a script, one step per request.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cotter::{
    history::message::{StopReason, Usage},
    model::{Delta, Model, ModelError, ModelErrorKind, ReplyStream, Request},
};
use cotter_files::document::{Document, Node, Object, location::SettingsError};
use futures_util::stream;
use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};

/// The model's reaction to one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    thinking: Option<String>,
    text: Option<String>,
    calls: Vec<(SmolStr, Value)>,
    error: Option<ModelError>,
    delay: Option<Duration>,
    stop: Option<StopReason>,
    usage: Option<Usage>,
    hangs: bool,
}

impl Step {
    /// Replies with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Step { text: Some(text.into()), ..Step::default() }
    }

    /// Calls a tool.
    pub fn call(name: impl Into<SmolStr>, input: Value) -> Self {
        Step::default().and_call(name, input)
    }

    /// Fails with an error.
    pub fn error(kind: ModelErrorKind) -> Self {
        let error = ModelError::new(kind, "the script says so");
        Step { error: Some(error), ..Step::default() }
    }

    /// Adds thinking before the text.
    pub fn and_thinking(mut self, text: impl Into<String>) -> Self {
        self.thinking = Some(text.into());
        self
    }

    /// Adds a further tool call.
    pub fn and_call(mut self, name: impl Into<SmolStr>, input: Value) -> Self {
        self.calls.push((name.into(), input));
        self
    }

    /// Waits before each delta of the reply.
    pub fn and_delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Sets the stop reason. The default is `ToolUse` with calls, else `EndTurn`.
    pub fn and_stop(mut self, reason: StopReason) -> Self {
        self.stop = Some(reason);
        self
    }

    /// Sets the usage.
    pub fn and_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Fails after the rest of the reply, with a wait before the retry.
    pub fn and_error(mut self, kind: ModelErrorKind, retry_after: Option<Duration>) -> Self {
        let error = ModelError::new(kind, "the script says so");
        self.error = Some(ModelError { retry_after, ..error });
        self
    }

    /// Never ends the reply.
    pub fn and_hang(mut self) -> Self {
        self.hangs = true;
        self
    }

    fn deltas(self, request: usize) -> Vec<Result<Delta, ModelError>> {
        let pieces = |text: String| -> Vec<String> {
            text.split_inclusive(' ').map(str::to_owned).collect()
        };
        let mut all: Vec<Result<Delta, ModelError>> = vec![];
        all.extend(
            self.thinking.into_iter().flat_map(pieces).map(|text| Ok(Delta::Thinking(text))),
        );
        all.extend(self.text.into_iter().flat_map(pieces).map(|text| Ok(Delta::Text(text))));
        let has_calls = !self.calls.is_empty();
        for (index, (name, input)) in self.calls.into_iter().enumerate() {
            let id = format_smolstr!("c{request}.{}", index + 1);
            all.push(Ok(Delta::Call { id, name, input }));
        }
        match self.error {
            Some(error) => all.push(Err(error)),
            None if self.hangs => {}
            None => {
                let default = if has_calls { StopReason::ToolUse } else { StopReason::EndTurn };
                let stop_reason = self.stop.unwrap_or(default);
                all.push(Ok(Delta::Done { stop_reason, usage: self.usage.unwrap_or_default() }));
            }
        }
        all
    }
}

/// A model with a script. A request beyond the last step is an error.
#[derive(Clone)]
pub struct ScriptedModel {
    name: SmolStr,
    price: Option<f64>,
    script: Arc<Mutex<Script>>,
}

struct Script {
    steps: VecDeque<Step>,
    requests: usize,
}

impl ScriptedModel {
    /// A model that does these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let script = Script { steps: steps.into_iter().collect(), requests: 0 };
        ScriptedModel {
            name: "test/scripted".into(),
            price: None,
            script: Arc::new(Mutex::new(script)),
        }
    }

    /// Sets the model's name.
    pub fn named(self, name: impl Into<SmolStr>) -> Self {
        ScriptedModel { name: name.into(), ..self }
    }

    /// Sets the price of each reply.
    pub fn priced(self, usd: f64) -> Self {
        ScriptedModel { price: Some(usd), ..self }
    }

    /// Parses a script file. Errors name the file and the position.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, ScriptError> {
        let document = Document::parse_bytes(file, bytes)?;
        let object = document.root().object()?.keys(&["steps"])?;
        let steps = object.require("steps")?.list()?.map(step).collect::<Result<Vec<_>, _>>()?;
        Ok(ScriptedModel::new(steps).named("script"))
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).requests
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &SmolStr {
        &self.name
    }

    fn stream(&self, _: Request) -> ReplyStream {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.requests += 1;
        let request = script.requests;
        let Some(step) = script.steps.pop_front() else {
            let message = format!("the script has no step for request {request}");
            let error = ModelError::new(ModelErrorKind::BadRequest, message);
            return Box::pin(stream::iter([Err(error)]));
        };
        let (delay, hangs) = (step.delay, step.hangs);
        let deltas = VecDeque::from(step.deltas(request));
        Box::pin(stream::unfold(deltas, move |mut deltas| async move {
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            match deltas.pop_front() {
                Some(delta) => Some((delta, deltas)),
                None if hangs => std::future::pending().await,
                None => None,
            }
        }))
    }

    fn cost_usd(&self, _: &Usage) -> Option<f64> {
        self.price
    }
}

fn step(node: Node<'_>) -> Result<Step, ScriptError> {
    let object = node.object()?.keys(&["text", "thinking", "calls", "error", "delayMs"])?;
    if object.members().count() == 0 {
        return Err(node.error("a step needs `text`, `thinking`, `calls` or `error`").into());
    }
    let text = |key| object.get(key).map(|node| node.string().map(str::to_owned)).transpose();
    let calls = match object.get("calls") {
        Some(node) => node.list()?.map(call).collect::<Result<_, _>>()?,
        None => vec![],
    };
    let millis = |object: Object<'_>, key: &str| {
        object.get(key).map(|node| node.u64().map(Duration::from_millis)).transpose()
    };
    let error = match object.get("error") {
        None => None,
        Some(node) => {
            let object = node.object()?.keys(&["kind", "retryAfterMs"])?;
            let kind = object.require("kind")?;
            let words: Vec<_> = ModelErrorKind::words()
                .filter_map(|word| Some((word, ModelErrorKind::parse(word)?)))
                .collect();
            let error = ModelError::new(kind.one_of(&words)?, "the script says so");
            Some(ModelError { retry_after: millis(object, "retryAfterMs")?, ..error })
        }
    };
    let delay = millis(object, "delayMs")?;
    let (thinking, text) = (text("thinking")?, text("text")?);
    Ok(Step { thinking, text, calls, error, delay, ..Step::default() })
}

fn call(node: Node<'_>) -> Result<(SmolStr, Value), ScriptError> {
    let object = node.object()?.keys(&["name", "input"])?;
    let name = object.require("name")?.non_empty_string()?.into();
    let input = object
        .get("input")
        .map_or_else(|| Value::Object(Default::default()), |node| node.to_json());
    Ok((name, input))
}

/// An invalid script file.
#[derive(Debug)]
pub struct ScriptError(SettingsError);

impl ScriptError {
    /// A hint on how to fix it, if there is one.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint()
    }
}

impl From<SettingsError> for ScriptError {
    fn from(error: SettingsError) -> Self {
        ScriptError(error)
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ScriptError {}
