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
    agent::view::AgentView,
    history::{
        message::{Message, UserMessage, UserMessageKind},
        message_list::MessageList,
    },
    hooks::points::model::CacheBreak,
    model::{Model, Request, tools::ToolSpec},
};

/// A request that was answered: what the next one to that model should begin with.
pub(crate) struct AnsweredRequest {
    model: SmolStr,
    request: Request,
    outline: Arc<Outline>,
    limited: ToolLimit,
    /// The transforms that made its messages, each with what it was given.
    shaped: Vec<(SmolStr, MessageList)>,
}

/// The last requests that were answered, one a model: each has a cache of its own.
#[derive(Default)]
pub(crate) struct RequestLog(Vec<AnsweredRequest>);

/// A session takes turns with a few models, never with many.
const MODELS: usize = 4;

impl RequestLog {
    pub(crate) const NOTHING: RequestLog = RequestLog(Vec::new());

    /// What this model answered last, no longer remembered.
    pub(crate) fn take(&mut self, model: &str) -> Option<AnsweredRequest> {
        let at = self.0.iter().position(|answered| answered.model == model)?;
        Some(self.0.remove(at))
    }

    pub(crate) fn remember(&mut self, answered: AnsweredRequest) {
        if self.0.len() == MODELS {
            self.0.remove(0);
        }
        self.0.push(answered);
    }
}

/// The tools a session was limited to, and who limited them, or lifted that, last.
#[derive(Clone, Default)]
pub(crate) struct ToolLimit {
    pub(crate) to: Option<Arc<[SmolStr]>>,
    pub(crate) by: SmolStr,
}

impl ToolLimit {
    pub(crate) const NOT: ToolLimit = ToolLimit { to: None, by: SmolStr::new_static("") };

    fn hides(&self, tool: &str) -> bool {
        self.to.as_ref().is_some_and(|names| !names.iter().any(|name| name == tool))
    }
}

/// Messages as they were built, and what they were before each transform that changed them.
pub(crate) struct BuiltContext {
    pub(crate) messages: MessageList,
    pub(crate) shaped: Vec<(SmolStr, MessageList)>,
}

/// What is before the conversation, piece by piece, in the order in which providers read it.
pub(crate) type Outline = [OutlinePart];

/// One piece: a tool, a name in a list, a section of the system prompt.
pub(crate) struct OutlinePart {
    part: &'static str,
    /// The tool it is of; none where it is of the system prompt.
    tool: Option<SmolStr>,
    by: SmolStr,
    /// Of its words: whoever says the same has changed nothing.
    hash: u64,
}

impl OutlinePart {
    fn of_tool(tool: &SmolStr, by: impl ToSmolStr, words: impl Hash) -> Self {
        OutlinePart {
            part: "tools",
            tool: Some(tool.clone()),
            by: by.to_smolstr(),
            hash: hash(words),
        }
    }

    fn of_system(by: impl ToSmolStr, words: impl Hash) -> Self {
        OutlinePart { part: "system", tool: None, by: by.to_smolstr(), hash: hash(words) }
    }

    fn says_the_same(&self, other: &OutlinePart) -> bool {
        self.hash == other.hash && self.part == other.part
    }
}

fn hash(words: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

/// The pieces of what an agent shows its model.
pub(crate) fn outline(face: &AgentView) -> Arc<Outline> {
    let index = face.shown.as_ref().unwrap_or(&face.index);
    let tools = face.tools.rows().flat_map(|row| {
        let ToolSpec { name, description, schema } = &*row.spec;
        let schema = schema.to_string();
        match face.lists(name) {
            None => vec![OutlinePart::of_tool(name, &row.owner, (name, description, schema))],
            // It is there for the names in its list, which are their owners'.
            Some(kind) => {
                let own = OutlinePart::of_tool(name, &row.owner, (name, schema));
                let listed = index
                    .listed(kind)
                    .map(|one| OutlinePart::of_tool(name, &one.owner, (&*one.name, &*one.words)));
                listed.chain([own]).collect()
            }
        }
    });
    let system = face.sections.iter().flat_map(|section| match section.lists {
        None => vec![OutlinePart::of_system(&section.by, &section.text)],
        Some(kind) => {
            let names = index.listed(kind);
            names.map(|one| OutlinePart::of_system(&one.owner, &*one.name)).collect()
        }
    });
    tools.chain(system).collect()
}

impl AnsweredRequest {
    pub(crate) fn new(
        model: &Arc<dyn Model>,
        request: Request,
        face: &AgentView,
        limited: ToolLimit,
        shaped: Vec<(SmolStr, MessageList)>,
    ) -> Self {
        AnsweredRequest {
            model: model.name().clone(),
            request,
            outline: face.outline(),
            limited,
            shaped,
        }
    }

    pub(crate) fn model(&self) -> &SmolStr {
        &self.model
    }

    /// Who made this request begin otherwise than the one before it, where anybody did.
    pub(crate) fn broken_since(
        &self,
        before: &AnsweredRequest,
        model: &Arc<dyn Model>,
    ) -> Option<CacheBreak> {
        let (part, by) = self.changer(before).or_else(|| {
            let at = before.request.messages.ends_being(&self.request.messages)?;
            Some(("messages", self.shaper(before, at)))
        })?;
        Some(CacheBreak { by, part, byte: model.break_at(&before.request, &self.request) })
    }

    /// Who changed what is before the conversation.
    fn changer(&self, before: &AnsweredRequest) -> Option<(&'static str, SmolStr)> {
        let (then, now) = (&before.outline, &self.outline);
        let is_same = |(then, now): &(&OutlinePart, &OutlinePart)| then.says_the_same(now);
        let same = then.iter().zip(now.iter()).take_while(is_same).count();
        let (then, now) = (&then[same..], &now[same..]);
        let (piece, limited) = match (then.first(), now.first()) {
            // What stands here now stood further down: something before it is gone.
            (Some(gone), Some(new)) if then.iter().any(|piece| piece.says_the_same(new)) => {
                (gone, &self.limited)
            }
            (_, Some(new)) => (new, &before.limited),
            (Some(gone), None) => (gone, &self.limited),
            (None, None) => return None,
        };
        let was_limited = piece.tool.as_ref().is_some_and(|tool| limited.hides(tool));
        let by = if was_limited { &self.limited.by } else { &piece.by };
        Some((piece.part, by.clone()))
    }

    /// Who made the message at that place another: the last transform that was given the same and made
    /// something else of it, or history itself.
    fn shaper(&self, before: &AnsweredRequest, mut at: usize) -> SmolStr {
        let stages = self.stages(before);
        for stage in stages.iter().rev() {
            match stage.inherited(at) {
                Some(given) => at = given,
                None => return stage.name.clone(),
            }
        }
        let history = stages.first().map_or(&self.request.messages, |stage| stage.given.1);
        match history.entries().nth(at).and_then(|entry| entry.in_context()) {
            Some(Message::User(UserMessage { mark: UserMessageKind::Compaction, .. })) => {
                "compaction".into()
            }
            _ => "session".into(),
        }
    }

    /// The transforms of both requests, in order; who changed nothing of one made what it was given.
    fn stages<'a>(&'a self, before: &'a AnsweredRequest) -> Vec<TransformStage<'a>> {
        let (mut then, mut now) = (before.shaped.as_slice(), self.shaped.as_slice());
        let mut stages: Vec<TransformStage<'a>> = vec![];
        loop {
            let has = |shaped: &[(SmolStr, MessageList)], name: &SmolStr| {
                shaped.iter().any(|(other, _)| other == name)
            };
            let is_gone = then.first().filter(|(name, _)| !has(now, name));
            let Some((name, _)) = is_gone.or(now.first()) else { break };
            let next = |shaped: &mut &'a [(SmolStr, MessageList)], sent: &'a MessageList| {
                let given = shaped.first().map_or(sent, |(_, given)| given);
                if shaped.first().is_some_and(|(other, _)| other == name) {
                    *shaped = &shaped[1..];
                }
                (given, shaped.first().map_or(sent, |(_, given)| given))
            };
            let (given_then, made_then) = next(&mut then, &before.request.messages);
            let (given_now, made_now) = next(&mut now, &self.request.messages);
            let (given, made) = ((given_then, given_now), (made_then, made_now));
            stages.push(TransformStage { name, given, made });
        }
        stages
    }
}

/// A transform in two requests: what it was given, and what it made of it.
struct TransformStage<'a> {
    name: &'a SmolStr,
    given: (&'a MessageList, &'a MessageList),
    made: (&'a MessageList, &'a MessageList),
}

impl TransformStage<'_> {
    /// Where what it was given differed, where that is why the message at this place differs.
    fn inherited(&self, at: usize) -> Option<usize> {
        let differs = self.given.0.ends_being(self.given.1)?;
        let source = |given: &MessageList, made: &MessageList| {
            let entry = made.entries().nth(at)?;
            given.entries().position(|given| given.is_source_of(entry))
        };
        let sources = [source(self.given.0, self.made.0), source(self.given.1, self.made.1)];
        let first = sources.into_iter().flatten().min().unwrap_or(at);
        (first >= differs).then_some(differs)
    }
}
