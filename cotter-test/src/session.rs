//! Sessions and replies of an agent under test.

use cotter::{Agent, Reply, RunError, Session};

/// Makes a new session of the agent.
///
/// # Panics
///
/// If the store refuses it.
pub async fn fresh(agent: &Agent) -> Session {
    agent.new_session().await.expect("the store takes a new session")
}

/// The reason of a run's end as text, with its error.
pub fn ending(reply: &Result<Reply, RunError>) -> String {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => &error.reply,
    };
    match &reply.error {
        Some(failed) => format!("{}: {}: {}", reply.reason.as_str(), failed.code, failed.message),
        None => reply.reason.as_str().into(),
    }
}
