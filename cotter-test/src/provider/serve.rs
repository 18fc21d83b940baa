//! The server: HTTP/1.1 by hand, so that tests control every byte, every split and every kind of
//! failure.

use std::{
    io::{self, Write},
    net::TcpListener as StdListener,
    pin::pin,
    sync::{Arc, PoisonError},
};

use flate2::{Compression, write::GzEncoder};
use futures_util::future::{Either, select};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::Builder,
    task::LocalSet,
};

use super::{
    ReceivedRequest, SentReply, Shared, State, Turn,
    answer::{After, Answer, AnswerBody, Cut, Reply},
    check::RequestError,
};

/// The longest head of a request.
const MAX_HEAD: usize = 1024 * 1024;
/// The longest body of a request: more than the published limits.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Serves until the provider is dropped.
pub(super) fn run(listener: StdListener, shared: Arc<Shared>) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let local = LocalSet::new();
    let mut over = shared.is_over.subscribe();
    runtime.block_on(local.run_until(async move {
        let listener_task = pin!(listen(listener, shared));
        let over = pin!(over.wait_for(|is_over| *is_over));
        select(listener_task, over).await;
    }));
}

async fn listen(listener: StdListener, shared: Arc<Shared>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let number = shared.change(|state| {
            state.connections += 1;
            state.connections
        });
        tokio::task::spawn_local(Connection::of(stream, number, shared.clone()).serve());
    }
}

struct Connection {
    number: usize,
    shared: Arc<Shared>,
    incoming: Incoming,
    outgoing: OwnedWriteHalf,
}

/// The client's side of a connection.
struct Incoming {
    stream: OwnedReadHalf,
    /// Bytes that are read but not parsed yet.
    buffer: Vec<u8>,
}

/// The next step of a connection.
enum NextStep {
    Next,
    /// Close it.
    Close,
    /// Reset it.
    Reset,
    /// The client has closed it.
    Gone,
}

impl Connection {
    fn of(stream: TcpStream, number: usize, shared: Arc<Shared>) -> Self {
        let (stream, outgoing) = stream.into_split();
        Connection { number, shared, incoming: Incoming { stream, buffer: vec![] }, outgoing }
    }

    async fn serve(mut self) {
        let next = loop {
            let Ok(Some(mut request)) = self.incoming.request().await else { break NextStep::Gone };
            request.connection = self.number;
            let keeps_open = request.header("connection") != Some("close");
            let plan = answer(&self.shared, request);
            // Notice a client that leaves while it is being answered.
            let Connection { shared, incoming, outgoing, .. } = &mut self;
            let wait_for_close = pin!(incoming.wait_for_close());
            let delivery = pin!(deliver(outgoing, plan, shared));
            match select(delivery, wait_for_close).await {
                Either::Left((Ok(NextStep::Next), _)) if keeps_open => {}
                Either::Left((Ok(NextStep::Next | NextStep::Close), _)) => break NextStep::Close,
                Either::Left((Ok(NextStep::Reset), _)) => break NextStep::Reset,
                Either::Left((Ok(NextStep::Gone) | Err(_), _)) | Either::Right(_) => {
                    break NextStep::Gone;
                }
            }
        };
        match next {
            NextStep::Gone => self.shared.change(|state| state.closed += 1),
            // A drop would close the stream in the normal way.
            NextStep::Reset => self.outgoing.forget(),
            NextStep::Close | NextStep::Next => {}
        }
    }
}

impl Incoming {
    /// The next request; `None` at the end of the connection.
    async fn request(&mut self) -> io::Result<Option<ReceivedRequest>> {
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                break String::from_utf8_lossy(&head).into_owned();
            }
            if self.buffer.len() > MAX_HEAD || !self.read_more().await? {
                return Ok(None);
            }
        };
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        let mut request = ReceivedRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: headers.collect(),
            body: vec![],
            connection: 0,
            refused: None,
        };
        let length = request.header("content-length").and_then(|length| length.parse().ok());
        request.body = match request.header("transfer-encoding") {
            Some(coding) if coding.eq_ignore_ascii_case("chunked") => self.chunks().await?,
            _ => self.read_bytes(length.unwrap_or(0)).await?,
        };
        Ok(Some(request))
    }

    /// Reads a chunked body.
    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = vec![];
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size =
                usize::from_str_radix(size, 16).map_err(|_| invalid_data("a chunk has no size"))?;
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.read_bytes(size).await?);
            self.line().await?;
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if !self.read_more().await? {
                return Err(invalid_data("a line does not end"));
            }
        }
    }

    async fn read_bytes(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        if bytes > MAX_BODY {
            return Err(invalid_data("a body is too long"));
        }
        while self.buffer.len() < bytes {
            if !self.read_more().await? {
                return Err(invalid_data("a body is cut off"));
            }
        }
        Ok(self.buffer.drain(..bytes).collect())
    }

    /// Returns when the client has closed the connection.
    async fn wait_for_close(&mut self) {
        while self.buffer.len() < MAX_BODY && self.read_more().await.unwrap_or(false) {}
    }

    async fn read_more(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 * 1024];
        let read = self.stream.read(&mut bytes).await?;
        self.buffer.extend_from_slice(&bytes[..read]);
        Ok(read > 0)
    }
}

fn invalid_data(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// The bytes to send, in order, and the point where they are cut off.
struct Plan {
    head: Vec<u8>,
    pieces: Vec<Vec<u8>>,
    /// The index of the piece before which it is cut; the head is index 0.
    cut: Option<(usize, Cut)>,
    /// The next step after the last piece.
    next: NextStep,
}

/// Decides the answer to a request and records the request.
fn answer(shared: &Shared, mut request: ReceivedRequest) -> Plan {
    let wire = shared.dialect.wire();
    let body = request.json();
    let checked = {
        let state = shared.state();
        if is_model_list(shared, &request) {
            let list = wire.models(&state.models);
            drop(state);
            shared.change(|state| state.requests.push(request));
            return short_response(200, &[], list.to_string().into_bytes());
        }
        check(shared, &state, &request, &body)
    };
    let answer = checked.and_then(|()| {
        let mut script = shared.script.lock().unwrap_or_else(PoisonError::into_inner);
        let number = shared.state().answers + 1;
        script(&request).ok_or_else(|| {
            RequestError::bad_request(format!("the script has no answer for request {number}"))
        })
    });
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            request.refused = Some(error.message.clone());
            shared.change(|state| state.requests.push(request));
            let body = wire.refusal(&error).to_string().into_bytes();
            return short_response(error.status, &[], body);
        }
    };
    let number = shared.change(|state| {
        state.requests.push(request);
        state.answers += 1;
        if let AnswerBody::Reply(reply) = &answer.kind {
            state.sent.push(sent_reply(reply, &body));
        }
        state.answers
    });
    plan(shared, answer, &Turn { number, request: &body })
}

fn sent_reply(reply: &Reply, body: &Value) -> SentReply {
    SentReply {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        calls: reply.calls().map(str::to_owned).collect(),
        thoughts: reply.thoughts().cloned().collect(),
    }
}

/// True if the request is for the list of models.
fn is_model_list(shared: &Shared, request: &ReceivedRequest) -> bool {
    let path = request.path.split('?').next().unwrap_or_default();
    request.method == "GET" && path == format!("{}/models", base(shared))
}

/// The base path. Anthropic's base address has no version in it.
fn base(shared: &Shared) -> &'static str {
    match shared.dialect.wire().base() {
        "" => "/v1",
        base => base,
    }
}

fn check(
    shared: &Shared,
    state: &State,
    request: &ReceivedRequest,
    body: &Value,
) -> Result<(), RequestError> {
    let wire = shared.dialect.wire();
    let path = request.path.split('?').next().unwrap_or_default();
    if request.method != "POST" || path != format!("{}{}", wire.base(), wire.path()) {
        return Err(RequestError::new(
            404,
            "not_found_error",
            format!("Not found: {} {path}", request.method),
        ));
    }
    wire.check_head(request, &state.keys)?;
    if state.skip_checks {
        return Ok(());
    }
    if !request.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(RequestError::bad_request("content-type: expected application/json"));
    }
    if !body.is_object() {
        return Err(RequestError::bad_request("The request body is not valid JSON"));
    }
    if body["stream"] != true {
        return Err(RequestError::bad_request("stream: this provider only streams"));
    }
    wire.check(request, body, &state.sent)
}

fn plan(shared: &Shared, answer: Answer, turn: &Turn<'_>) -> Plan {
    let wire = shared.dialect.wire();
    let (frames, content_events) = match &answer.kind {
        AnswerBody::Raw(bytes) => {
            let pieces = vec![bytes.clone()];
            let cut = answer.cut.map(|(_, cut)| (0, cut));
            return Plan { head: vec![], pieces, cut, next: NextStep::Close };
        }
        AnswerBody::Status { status, body } => {
            let default_body = || wire.refusal(&wire.failure(*status)).to_string().into_bytes();
            let plan =
                short_response(*status, &answer.headers, body.clone().unwrap_or_else(default_body));
            let piece_of = |after| usize::from(after != After::Nothing);
            return Plan { cut: answer.cut.map(|(after, cut)| (piece_of(after), cut)), ..plan };
        }
        AnswerBody::Events(bytes) => (vec![bytes.clone()], 1),
        AnswerBody::Reply(reply) => {
            let rendered = wire.reply(reply, turn);
            let content_events = rendered.body.len();
            let frames = rendered.body.into_iter().chain(rendered.end);
            (frames.map(String::into_bytes).collect(), content_events)
        }
    };
    let before = keep_alives(&answer, &wire.ping());
    let per_event = 1 + before.len();
    let mut frames: Vec<Vec<u8>> = frames
        .into_iter()
        .flat_map(|frame| before.iter().cloned().chain([frame]).collect::<Vec<_>>())
        .collect();
    if answer.is_gzipped {
        frames = gzip(&frames);
    }
    let at =
        answer.cut.map(|(after, cut)| (offset(after, &frames, content_events * per_event), cut));
    let pieces = match answer.pieces.as_slice() {
        [] => frames,
        sizes => split(&frames.concat(), sizes),
    };
    stream_response(&answer, pieces, at)
}

/// The frames before every event.
fn keep_alives(answer: &Answer, ping: &str) -> Vec<Vec<u8>> {
    let ping = answer.has_pings.then(|| ping.as_bytes().to_vec());
    let comment = answer.comment.as_ref().map(|text| format!(": {text}\n\n").into_bytes());
    ping.into_iter().chain(comment).collect()
}

/// The number of bytes before the cut; `None` if not even the head is sent.
fn offset(after: After, frames: &[Vec<u8>], content_events: usize) -> Option<usize> {
    let bytes = |frames: &[Vec<u8>]| frames.iter().map(Vec::len).sum::<usize>();
    match after {
        After::Nothing => None,
        After::Bytes(count) => Some(count.min(bytes(frames))),
        After::Events(count) => Some(bytes(&frames[..count.min(frames.len())])),
        After::Content => Some(bytes(&frames[..content_events.min(frames.len())])),
    }
}

fn split(mut bytes: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let mut pieces = vec![];
    for size in sizes.iter().cycle() {
        let (piece, rest) = bytes.split_at((*size).min(bytes.len()));
        pieces.push(piece.to_vec());
        bytes = rest;
        if bytes.is_empty() {
            break;
        }
    }
    pieces
}

/// Compresses each frame and flushes it, so that each can be read at once.
fn gzip(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut pieces = vec![];
    for frame in frames {
        let _ = encoder.write_all(frame).and_then(|()| encoder.flush());
        pieces.push(std::mem::take(encoder.get_mut()));
    }
    pieces.push(encoder.finish().unwrap_or_default());
    pieces
}

/// A chunked response, one chunk per piece.
fn stream_response(
    answer: &Answer,
    pieces: Vec<Vec<u8>>,
    at: Option<(Option<usize>, Cut)>,
) -> Plan {
    let mut headers = vec![("transfer-encoding".to_owned(), "chunked".to_owned())];
    let has_header = |name: &str| answer.headers.iter().any(|(key, _)| key == name);
    if !has_header("content-type") {
        headers.push(("content-type".into(), "text/event-stream; charset=utf-8".into()));
    }
    if answer.is_gzipped {
        headers.push(("content-encoding".into(), "gzip".into()));
    }
    headers.extend(answer.headers.iter().cloned());
    let (mut chunks, mut cut, mut so_far) = (vec![], None, 0);
    let chunk = |bytes: &[u8]| {
        let size = format!("{:x}\r\n", bytes.len()).into_bytes();
        [size.as_slice(), bytes, b"\r\n"].concat()
    };
    let wanted = at.and_then(|(offset, kind)| Some((offset?, kind)));
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        match wanted {
            Some((offset, kind)) if cut.is_none() && offset < so_far + piece.len() => {
                let (before, after) = piece.split_at(offset - so_far);
                if !before.is_empty() {
                    chunks.push(chunk(before));
                }
                cut = Some((chunks.len() + 1, kind));
                chunks.push(chunk(after));
            }
            _ => chunks.push(chunk(piece)),
        }
        so_far += piece.len();
    }
    let cut = cut.or_else(|| at.map(|(at, kind)| (at.map_or(0, |_| chunks.len() + 1), kind)));
    chunks.push(b"0\r\n\r\n".to_vec());
    Plan { head: head(200, &headers), pieces: chunks, cut, next: NextStep::Next }
}

/// A short response with a length.
fn short_response(status: u16, headers: &[(String, String)], body: Vec<u8>) -> Plan {
    let mut all = vec![("content-length".to_owned(), body.len().to_string())];
    if !headers.iter().any(|(name, _)| name == "content-type") {
        all.push(("content-type".into(), "application/json".into()));
    }
    all.extend(headers.iter().cloned());
    Plan { head: head(status, &all), pieces: vec![body], cut: None, next: NextStep::Next }
}

fn head(status: u16, headers: &[(String, String)]) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    };
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    head.push_str("\r\n");
    head.into_bytes()
}

/// The time between two bytes of an answer that drips.
const DRIP: std::time::Duration = std::time::Duration::from_millis(20);

/// Sends a plan up to its cut.
async fn deliver(out: &mut OwnedWriteHalf, plan: Plan, shared: &Shared) -> io::Result<NextStep> {
    let pieces = [plan.head].into_iter().chain(plan.pieces);
    for (index, piece) in pieces.enumerate() {
        match plan.cut {
            Some((at, Cut::Hang)) if at == index => {
                let mut released = shared.is_released.subscribe();
                let _ = released.wait_for(|is_released| *is_released).await;
            }
            Some((at, Cut::Drip)) if at == index => loop {
                out.write_all(b"1\r\n:\r\n").await?;
                tokio::time::sleep(DRIP).await;
            },
            Some((at, Cut::Close)) if at == index => return Ok(NextStep::Close),
            Some((at, Cut::Reset)) if at == index => {
                out.as_ref().set_zero_linger()?;
                return Ok(NextStep::Reset);
            }
            _ => {}
        }
        out.write_all(&piece).await?;
    }
    Ok(plan.next)
}
