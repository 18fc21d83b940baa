//! An agent behind a web service. Look at `ask`: a client posts a prompt to a session by name. The response
//! is the reply, or live events if the client accepts `text/event-stream`. Runs of one session are served one
//! after the other. A client that disconnects aborts its run.

use std::{
    collections::HashMap,
    convert::Infallible,
    error::Error,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::ACCEPT},
    response::{IntoResponse, Response, Sse, sse},
    routing::post,
};
use cotter::{Agent, Session};
use cotter_test::{ScriptedModel, Step};
use futures_util::StreamExt;
use tokio::{net::TcpListener, sync::Mutex};

/// The agent, and its open sessions.
#[derive(Clone)]
struct Service {
    agent: Agent,
    sessions: Arc<Mutex<HashMap<String, Session>>>,
}

impl Service {
    async fn session(&self, name: &str) -> Result<Session, ServiceError> {
        let mut sessions = self.sessions.lock().await;
        if let Some(session) = sessions.get(name) {
            return Ok(session.clone());
        }
        let session = self.agent.new_session().await?;
        sessions.insert(name.into(), session.clone());
        Ok(session)
    }
}

async fn ask(
    State(service): State<Service>,
    Path(name): Path<String>,
    headers: HeaderMap,
    prompt: String,
) -> Result<Response, ServiceError> {
    let run = service.session(&name).await?.prompt(prompt);
    if headers.get(ACCEPT).is_some_and(|accept| accept == "text/event-stream") {
        let events = run.map(|event| {
            let name = event.kind.name();
            Ok::<_, Infallible>(sse::Event::default().event(name).data(event.to_json()))
        });
        return Ok(Sse::new(events).into_response());
    }
    Ok(run.await?.text().into_response())
}

/// The error of a request, sent to the client as text.
struct ServiceError(String);

impl<E: Error> From<E> for ServiceError {
    fn from(error: E) -> Self {
        ServiceError(error.to_string())
    }
}

impl IntoResponse for ServiceError {
    fn into_response(self) -> Response {
        (StatusCode::BAD_GATEWAY, self.0).into_response()
    }
}

fn router(agent: Agent) -> Router {
    let service = Service { agent, sessions: Arc::default() };
    Router::new().route("/sessions/{name}", post(ask)).with_state(service)
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let model = ScriptedModel::new([Step::text("Good day."), Step::text("And to you.")]);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        axum::serve(listener, router(Agent::builder(model).build()?)).await.map_err(Box::from)
            as Result<(), Box<dyn Error + Send + Sync>>
    });
    let report = tokio::task::spawn_blocking(move || -> std::io::Result<String> {
        let plain = request(address, "*/*", "Hello.")?;
        let streamed = request(address, "text/event-stream", "Hello again.")?;
        let failed = request(address, "*/*", "And again.")?;
        let events = streamed.lines().filter(|line| line.starts_with("event: "));
        let events = events.collect::<Vec<_>>().join("\n");
        Ok(format!("{}\n\n{events}\n\n{}\n", status_and_body(&plain), status_and_body(&failed)))
    });
    let report = report.await??;
    serving.abort();
    Ok(report)
}

/// Sends one request like a client, and returns the whole response.
fn request(address: SocketAddr, accept: &str, prompt: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /sessions/tea HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: text/plain\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n{prompt}",
        prompt.len(),
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Returns the status and the body of a response.
fn status_and_body(response: &str) -> String {
    let status = response.lines().next().unwrap_or_default();
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    format!("{status}\n{body}")
}
