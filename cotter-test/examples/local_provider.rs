//! A provider on this machine, to try things by hand. Its model reads a file and says so, again and
//! again, in the format of a real provider.
//!
//! ```sh
//! cargo run -p cotter-test --features provider --example local_provider -- anthropic
//! ```
//!
//! Use `openai` or `openai-responses` for the other formats. Then, in another terminal, with the
//! address it prints:
//!
//! ```sh
//! ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=any \
//!     cotter -p --model anthropic/any "Look at the readme"
//! OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 OPENAI_API_KEY=any \
//!     cotter -p --model openai/any "Look at the readme"
//! ```

use std::io;

use cotter::history::message::Usage;
use cotter_test::{Answer, Dialect, LocalProvider};
use serde_json::json;

fn main() -> io::Result<()> {
    let (dialect, variable) = match std::env::args().nth(1).as_deref() {
        Some("openai") => (Dialect::OpenAiChat, "OPENAI_BASE_URL"),
        Some("openai-responses") => (Dialect::OpenAiResponses, "OPENAI_BASE_URL"),
        Some("anthropic") | None => (Dialect::AnthropicMessages, "ANTHROPIC_BASE_URL"),
        Some(other) => {
            let message = format!("expected anthropic, openai or openai-responses, found {other}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
    };
    let turn = |n: usize| {
        let usage = Usage { input_tokens: 1200, output_tokens: 80, ..Usage::default() };
        let call = Answer::text("Let me look.");
        let call = call.and_call(format!("call_{n}"), "read", json!({"path": "README.md"}));
        [call.and_usage(usage), Answer::text("I have read it.").and_usage(usage)]
    };
    let provider = LocalProvider::start(dialect, (1..=1000).flat_map(turn));
    eprintln!("{variable}={}", provider.url());
    eprintln!("it ends with a line, or when its input does");
    io::stdin().read_line(&mut String::new())?;
    eprintln!("{} requests were answered", provider.requests().len());
    Ok(())
}
