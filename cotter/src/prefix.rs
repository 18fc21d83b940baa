//! Prompt caches: whether a request begins as the one before it did, and who is to blame where not.
//!
//! Looked at only where somebody would hear of it. Nothing of an earlier generation is kept: of tools,
//! prompt and lists only whose each piece was, and its hash.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use smol_str::{SmolStr, ToSmolStr};

use crate::{
    ext::Kind,
    face::Face,
    message::{Mark, Message},
    messages::Messages,
    model::{Model, Request},
    points::CacheBreak,
};

/// A request that was answered: what the next one should begin with.
#[derive(Clone)]
pub(crate) struct Answered {
    model: SmolStr,
    request: Request,
    outline: Arc<Outline>,
    /// The transforms that made its messages.
    shaped_by: Vec<SmolStr>,
}

/// Messages as they were built, and what they were before each transform that changed them.
pub(crate) struct Built {
    pub(crate) messages: Messages,
    pub(crate) shaped: Vec<(SmolStr, Messages)>,
}

/// What is before the conversation, piece by piece, in the order in which providers read it.
pub(crate) type Outline = [Piece];

/// One piece: a tool, a name in a list, a section of the system prompt.
#[derive(PartialEq)]
pub(crate) struct Piece {
    part: &'static str,
    by: SmolStr,
    hash: u64,
}

impl Piece {
    fn new(part: &'static str, by: impl Into<SmolStr>, text: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Piece { part, by: by.into(), hash: hasher.finish() }
    }
}

/// The pieces of what an agent shows its model.
pub(crate) fn outline(face: &Face) -> Arc<Outline> {
    let tools = face.tools.rows().flat_map(|row| {
        let own = (&row.spec.name, row.spec.schema.to_string());
        // What it says is a list, and the names in it are their owners'.
        match face.lists(&row.spec.name) {
            Some(kind) => {
                let tool = Piece::new("tools", row.owner.to_smolstr(), own);
                std::iter::once(tool).chain(listed(face, "tools", kind)).collect::<Vec<_>>()
            }
            None => {
                let text = (own, &row.spec.description);
                vec![Piece::new("tools", row.owner.to_smolstr(), text)]
            }
        }
    });
    let system = face.sections.iter().flat_map(|section| match section.lists {
        Some(kind) => listed(face, "system", kind).collect(),
        None => vec![Piece::new("system", section.by.clone(), &section.text)],
    });
    tools.chain(system).collect()
}

fn listed<'a>(
    face: &'a Face,
    part: &'static str,
    kind: Kind,
) -> impl Iterator<Item = Piece> + use<'a> {
    face.listed(kind).map(move |(name, description)| {
        let by = face.owner_of(kind, name).to_smolstr();
        Piece::new(part, by, (name, description))
    })
}

impl Answered {
    pub(crate) fn new(
        model: &Arc<dyn Model>,
        request: Request,
        face: &Face,
        built: &Built,
    ) -> Self {
        Answered {
            model: model.name().clone(),
            request,
            outline: face.outline(),
            shaped_by: built.shaped.iter().map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Who made this request begin otherwise than the one before it, where anybody did. Another model
    /// has a cache of its own.
    pub(crate) fn broken_since(
        &self,
        before: &Answered,
        model: &Arc<dyn Model>,
        built: &Built,
    ) -> Option<CacheBreak> {
        if self.model != before.model {
            return None;
        }
        let (part, by) = match changed(&before.outline, &self.outline) {
            Some(piece) => (piece.part, piece.by.clone()),
            None => {
                let at = first_difference(&before.request.messages, &self.request.messages)?;
                ("messages", self.shaper(before, built, at))
            }
        };
        Some(CacheBreak { by, part, byte: model.break_at(&before.request, &self.request) })
    }

    /// Who changed the message at that place.
    fn shaper(&self, before: &Answered, built: &Built, at: usize) -> SmolStr {
        if let Some(Message::User(user)) = self.request.messages.iter().nth(at)
            && user.mark == Mark::Compaction
        {
            return "compaction".into();
        }
        let after = built.shaped.iter().skip(1).map(|(_, before)| before).chain([&built.messages]);
        let changed = built.shaped.iter().zip(after).filter(|((_, before), after)| {
            first_difference(before, after).is_some_and(|changed| changed <= at)
        });
        let names: Vec<_> = changed.map(|((name, _), _)| name.as_str()).collect();
        match names.as_slice() {
            [] if before.shaped_by.is_empty() => "session".into(),
            [] => before.shaped_by.join(", ").into(),
            names => names.join(", ").into(),
        }
    }
}

/// The piece that was added, changed or taken away first.
fn changed<'a>(before: &'a Outline, now: &'a Outline) -> Option<&'a Piece> {
    let same = before.iter().zip(now).take_while(|(before, now)| before == now).count();
    let (before, now) = (&before[same..], &now[same..]);
    match (before.first(), now.first()) {
        (Some(gone), Some(new)) if before.contains(new) => Some(gone),
        (gone, new) => new.or(gone),
    }
}

/// Where later messages cease to begin with earlier ones, in messages.
fn first_difference(before: &Messages, now: &Messages) -> Option<usize> {
    if now.after(before).is_some() {
        return None;
    }
    let same = |(before, now): &(&Message, &Message)| std::ptr::eq(*before, *now) || before == now;
    let same = before.iter().zip(now.iter()).take_while(same).count();
    (same < before.len()).then_some(same)
}
