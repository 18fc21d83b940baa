//! The prompt's way into the session: gates and transforms see it, then it is stored.

use super::{Exit, Turn};
use crate::{
    events::EventKind,
    ext::Decided,
    message::{Content, Message, Part, Rewrite, Rewritten, UserMessage},
    points::{Admit, Prompt, Stop, UserPromptSubmit},
    run::Reason,
    session::Body,
};

impl Turn {
    /// Stores the person's message, as the transforms made it, unless a gate refuses it.
    pub(super) async fn prompt(&mut self, content: Content) -> Result<(), Exit> {
        let raw = || content.text().into_owned();
        let event = || Prompt { prompt: raw(), raw_prompt: raw() };
        let decided = self.fire::<UserPromptSubmit>(event).await?;
        let mut message = UserMessage::new(content);
        if let Some(decided) = decided {
            if let Some((name, reason)) = refused(&decided) {
                if self.cancel.is_cancelled() {
                    return Err(Exit::aborted());
                }
                let message = format!("hook \"{name}\" refused the prompt: {reason}");
                return Err(Exit::coded(Reason::Blocked, "blocked", message));
            }
            rewrite(&mut message, &decided);
        }
        let entry = self.state.append(Body::Message(Message::User(message)));
        Ok(self.emit(|| EventKind::Message { entry })?)
    }
}

fn refused(decided: &Decided<UserPromptSubmit>) -> Option<(&str, &str)> {
    if let Some((meta, Stop::Block(reason))) = &decided.stop {
        return Some((&meta.name, reason));
    }
    match decided.strictest()? {
        (meta, Admit::Block(reason)) => Some((&meta.name, reason)),
        (_, Admit::Pass) => None,
    }
}

/// The raw text stays beside the rewritten one, with the name of who rewrote it.
fn rewrite(message: &mut UserMessage, decided: &Decided<UserPromptSubmit>) {
    if decided.replaced.is_empty() {
        return;
    }
    let after = decided.replaced.iter().skip(1).map(|(_, event)| event).chain([&decided.event]);
    let rewrites = decided
        .replaced
        .iter()
        .zip(after)
        .map(|((meta, _), event)| Rewrite { by: meta.name.clone(), text: event.prompt.clone() })
        .collect();
    let raw = decided.event.raw_prompt.clone();
    message.rewritten = Some(Box::new(Rewritten { raw, rewrites }));
    let text = decided.event.prompt.clone();
    let content = std::mem::replace(&mut message.content, Content::Text(String::new()));
    message.content = match content {
        Content::Text(_) => Content::Text(text),
        Content::Parts(parts) => {
            let others = parts.into_iter().filter(|part| !matches!(part, Part::Text(_)));
            Content::Parts(std::iter::once(Part::Text(text)).chain(others).collect())
        }
    };
}
