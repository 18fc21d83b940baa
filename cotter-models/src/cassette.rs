//! Cassettes: recorded exchanges with providers in a file, for tests and bug reports.
//!
//! A file of JSON lines: a head, then an exchange per line, in the order in which they ended.
//! Headers that carry keys are never written. Everything else passes the redactor first. The
//! redactor does not find a secret that a model spreads over several deltas.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use bytes::Bytes;
use cotter::{
    model::{ModelError, ModelErrorKind},
    text::redact::Redactor,
};
use futures_util::{StreamExt, stream};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http::{HttpAnswer, HttpCall};

/// The response headers that are recorded: those that change how a response is handled.
const HEADERS: &[&str] = &["content-type", "retry-after", "retry-after-ms", "x-should-retry"];
const VERSION: u32 = 1;

/// A cassette in use.
#[derive(Clone, Debug)]
pub enum Tape {
    /// Sends requests and records the exchanges.
    Record(Recorder),
    /// Sends nothing; responses come from the file.
    Play(Player),
}

/// Writes a cassette.
#[derive(Clone)]
pub struct Recorder(Arc<RecorderState>);

struct RecorderState {
    file: Mutex<File>,
    /// The first write error.
    failure: OnceLock<String>,
    redactor: Redactor,
}

/// Reads a cassette.
#[derive(Clone)]
pub struct Player(Arc<PlayerState>);

struct PlayerState {
    path: PathBuf,
    redactor: Redactor,
    /// The exchanges that were not played yet, in order.
    unplayed: Mutex<Vec<Exchange>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
enum CassetteLine {
    Cassette { v: u32 },
    Exchange(Exchange),
}

#[derive(Serialize, Deserialize)]
struct Exchange {
    request: RecordedRequest,
    response: RecordedResponse,
}

#[derive(Serialize, Deserialize)]
struct RecordedRequest {
    url: String,
    body: Value,
}

#[derive(Default, Serialize, Deserialize)]
struct RecordedResponse {
    /// `None` if there was no response at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    /// One string per event if the body is an event stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    body: Vec<String>,
    /// The error that ended the response, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<RecordedError>,
}

#[derive(Serialize, Deserialize)]
struct RecordedError {
    kind: String,
    message: String,
}

impl RecordedError {
    fn of(error: &ModelError) -> Self {
        RecordedError { kind: error.kind.as_str().into(), message: error.message.clone() }
    }

    fn error(&self) -> ModelError {
        let kind = ModelErrorKind::parse(&self.kind).unwrap_or(ModelErrorKind::Other);
        ModelError::new(kind, self.message.clone())
    }
}

impl Recorder {
    /// Creates a cassette in a new file that only its owner may read. Fails if the file exists.
    pub fn create(path: &Path, redactor: Redactor) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = Mutex::new(options.open(path)?);
        let recorder =
            Recorder(Arc::new(RecorderState { file, failure: OnceLock::new(), redactor }));
        recorder.write(&CassetteLine::Cassette { v: VERSION })?;
        Ok(recorder)
    }

    /// The first write error: the cassette is then incomplete. A run does not fail for it.
    pub fn failure(&self) -> Option<&str> {
        self.0.failure.get().map(String::as_str)
    }

    fn write(&self, line: &CassetteLine) -> io::Result<()> {
        let line = serde_json::to_string(line).map_err(io::Error::other)? + "\n";
        lock(&self.0.file).write_all(line.as_bytes())
    }

    /// Starts to record an exchange.
    pub(crate) fn begin(&self, call: &HttpCall) -> ExchangeRecording {
        let body = serde_json::from_slice(&call.body.joined()).unwrap_or_default();
        let request = RecordedRequest { url: call.url.clone(), body };
        let exchange = Exchange { request, response: RecordedResponse::default() };
        ExchangeRecording { recorder: self.clone(), exchange: Some(exchange), bytes: vec![] }
    }
}

/// An exchange being recorded. It is written on drop, so also when it fails or is cancelled.
pub(crate) struct ExchangeRecording {
    recorder: Recorder,
    exchange: Option<Exchange>,
    bytes: Vec<u8>,
}

impl ExchangeRecording {
    /// Records that there was no response.
    pub(crate) fn fail(mut self, error: &ModelError) {
        self.response(|response| response.failure = Some(RecordedError::of(error)));
    }

    /// Records the response while the caller reads it.
    pub(crate) fn follow(mut self, answer: HttpAnswer) -> HttpAnswer {
        self.response(|response| {
            response.status = Some(answer.status);
            let recorded = HEADERS.iter().filter_map(|name| Some((*name, answer.header(name)?)));
            response.headers = recorded.map(|(name, value)| (name.into(), value.into())).collect();
        });
        let body = answer.body.map(move |piece| {
            match &piece {
                Ok(bytes) => self.bytes.extend_from_slice(bytes),
                Err(error) => {
                    self.response(|response| response.failure = Some(RecordedError::of(error)))
                }
            }
            piece
        });
        HttpAnswer { body: body.boxed(), ..answer }
    }

    fn response(&mut self, change: impl FnOnce(&mut RecordedResponse)) {
        if let Some(exchange) = &mut self.exchange {
            change(&mut exchange.response);
        }
    }
}

impl Drop for ExchangeRecording {
    fn drop(&mut self) {
        let Some(Exchange { mut request, mut response }) = self.exchange.take() else { return };
        let redactor = &self.recorder.0.redactor;
        request.url = redactor.redact(&request.url).into_owned();
        redact(redactor, &mut request.body);
        let texts = response.headers.values_mut();
        let texts = texts.chain(response.failure.as_mut().map(|error| &mut error.message));
        texts.for_each(|text| *text = redactor.redact(text).into_owned());
        let text = String::from_utf8_lossy(&self.bytes);
        let pieces = text.split_inclusive("\n\n");
        response.body = pieces.map(|piece| redacted(redactor, piece)).collect();
        let exchange = Exchange { request, response };
        if let Err(error) = self.recorder.write(&CassetteLine::Exchange(exchange)) {
            let _ = self.recorder.0.failure.set(error.to_string());
        }
    }
}

impl Player {
    /// Reads a cassette. Pass the redactor it was recorded with: requests are compared after
    /// redaction.
    pub fn open(path: &Path, redactor: Redactor) -> io::Result<Self> {
        let line_error = |number: usize, why: String| {
            let message = format!("{}:{}: {why}", path.display(), number + 1);
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        let mut unplayed = vec![];
        for (number, line) in BufReader::new(File::open(path)?).lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            match (number, serde_json::from_str(&line)) {
                (_, Err(error)) => return Err(line_error(number, error.to_string())),
                (0, Ok(CassetteLine::Cassette { v: VERSION })) => {}
                (0, Ok(CassetteLine::Cassette { v })) => {
                    return Err(line_error(number, format!("unknown cassette version {v}")));
                }
                (0, Ok(_)) | (_, Ok(CassetteLine::Cassette { .. })) => {
                    return Err(line_error(
                        number,
                        "the head of a cassette must be its first line".into(),
                    ));
                }
                (_, Ok(CassetteLine::Exchange(exchange))) => unplayed.push(exchange),
            }
        }
        Ok(Player(Arc::new(PlayerState {
            path: path.into(),
            redactor,
            unplayed: Mutex::new(unplayed),
        })))
    }

    /// The response to a request: the first that was recorded for an equal request, else the first
    /// for the same path and model. Each is played once.
    pub(crate) fn answer(&self, call: &HttpCall) -> Result<HttpAnswer, ModelError> {
        let mut body = serde_json::from_slice(&call.body.joined()).unwrap_or_default();
        redact(&self.0.redactor, &mut body);
        let path = path_of(&call.url);
        let mut unplayed = lock(&self.0.unplayed);
        let is_similar = |request: &RecordedRequest| {
            path_of(&request.url) == path && request.body.get("model") == body.get("model")
        };
        let exact = unplayed
            .iter()
            .position(|other| is_similar(&other.request) && other.request.body == body);
        let found = exact.or_else(|| unplayed.iter().position(|other| is_similar(&other.request)));
        let Some(found) = found else {
            let message = format!("{}: no unplayed response for {path}", self.0.path.display());
            return Err(ModelError::new(ModelErrorKind::Other, message));
        };
        unplayed.remove(found).response.play()
    }
}

impl RecordedResponse {
    fn play(self) -> Result<HttpAnswer, ModelError> {
        let RecordedResponse { status, headers, body, failure } = self;
        let failure = failure.map(|error| error.error());
        let Some(status) = status else {
            let no_response = || ModelError::new(ModelErrorKind::Network, "no response");
            return Err(failure.unwrap_or_else(no_response));
        };
        let headers: HeaderMap = headers
            .into_iter()
            .filter_map(|(name, value)| {
                let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
                Some((name, HeaderValue::from_str(&value).ok()?))
            })
            .collect();
        let pieces = body.into_iter().map(|text| Ok(Bytes::from(text))).chain(failure.map(Err));
        Ok(HttpAnswer { status, headers, body: stream::iter(pieces.collect::<Vec<_>>()).boxed() })
    }
}

/// Removes secrets from every text of a value; true if there was one. It works on parsed texts,
/// because JSON can spell one text in many ways.
fn redact(redactor: &Redactor, value: &mut Value) -> bool {
    match value {
        Value::String(text) => match redactor.redact(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(clean) => {
                *text = clean;
                true
            }
        },
        Value::Array(all) => {
            // `count` and not `any`: every item must be redacted.
            all.iter_mut().map(|value| redact(redactor, value)).filter(|found| *found).count() > 0
        }
        Value::Object(fields) => {
            let names: Vec<_> =
                fields.keys().map(|name| redactor.redact(name).into_owned()).collect();
            let mut found = names.iter().ne(fields.keys());
            if found {
                *fields = names
                    .into_iter()
                    .zip(std::mem::take(fields))
                    .map(|(name, (_, value))| (name, value))
                    .collect();
            }
            for value in fields.values_mut() {
                found |= redact(redactor, value);
            }
            found
        }
        _ => false,
    }
}

/// A piece of a body without secrets. A piece that has none is returned unchanged, byte for byte.
fn redacted(redactor: &Redactor, piece: &str) -> String {
    let redact_json = |json: &str| {
        let mut value = serde_json::from_str(json).ok()?;
        Some(redact(redactor, &mut value).then(|| value.to_string()))
    };
    if let Some(changed) = redact_json(piece) {
        return changed.unwrap_or_else(|| piece.to_owned());
    }
    let line = |line: &str| {
        let Some(changed) = line.strip_prefix("data:").and_then(redact_json) else {
            return redactor.redact(line).into_owned();
        };
        changed.map_or_else(|| line.to_owned(), |data| format!("data: {data}\n"))
    };
    match piece.contains("data:") {
        true => piece.split_inclusive('\n').map(line).collect(),
        false => redactor.redact(piece).into_owned(),
    }
}

/// The part of an address after the host. Cassettes are played at any host.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("", |slash| &rest[slash..])
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl fmt::Debug for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Player").field("path", &self.0.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Body;

    #[test]
    fn recorder_reports_that_a_cassette_is_incomplete() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file is created");
        let read_only = File::open(file.path()).expect("the file opens");
        let recording = |file| RecorderState {
            file: Mutex::new(file),
            failure: OnceLock::new(),
            redactor: Redactor::new(),
        };
        let call = || HttpCall {
            url: "http://127.0.0.1:1/v1/messages".into(),
            headers: HeaderMap::new(),
            body: Body::default(),
        };
        let recorder = Recorder(Arc::new(recording(read_only)));
        assert_eq!(recorder.failure(), None);
        drop(recorder.begin(&call()));
        assert!(recorder.failure().is_some());
        let writable =
            Recorder(Arc::new(recording(file.reopen().expect("the file opens for writing"))));
        drop(writable.begin(&call()));
        assert_eq!(writable.failure(), None);
    }
}
