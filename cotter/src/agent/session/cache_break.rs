//! Prompt caches: detects that a request begins differently from the one before it, and names the cause.
//!
//! Checked only while a handler or a listener would see the result. No earlier generation is kept: of
//! tools, prompt and lists, only the owner and the hash of each part.

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

/// A request that was answered. The next request to that model should begin with it.
pub(crate) struct AnsweredRequest {
    model: SmolStr,
    request: Request,
    outline: Arc<Outline>,
    tool_limit: ToolLimit,
    /// The transforms that made its messages, each with its input.
    transforms: Vec<(SmolStr, MessageList)>,
}

/// The last answered request of each model; each model has its own cache.
#[derive(Default)]
pub(crate) struct RequestLog(Vec<AnsweredRequest>);

/// The number of models whose last request is kept.
const MAX_MODELS: usize = 4;

impl RequestLog {
    pub(crate) const EMPTY: RequestLog = RequestLog(Vec::new());

    /// Takes the last answered request of this model.
    pub(crate) fn take(&mut self, model: &str) -> Option<AnsweredRequest> {
        let at = self.0.iter().position(|answered| answered.model == model)?;
        Some(self.0.remove(at))
    }

    pub(crate) fn remember(&mut self, answered: AnsweredRequest) {
        if self.0.len() == MAX_MODELS {
            self.0.remove(0);
        }
        self.0.push(answered);
    }
}

/// The tools that a session was limited to, and the owner that last set or lifted the limit.
#[derive(Clone, Default)]
pub(crate) struct ToolLimit {
    pub(crate) names: Option<Arc<[SmolStr]>>,
    pub(crate) set_by: SmolStr,
}

impl ToolLimit {
    pub(crate) const NONE: ToolLimit = ToolLimit { names: None, set_by: SmolStr::new_static("") };

    fn hides(&self, tool: &str) -> bool {
        self.names.as_ref().is_some_and(|names| !names.iter().any(|name| name == tool))
    }
}

/// Messages as they were built, and the input of each transform that changed them.
pub(crate) struct BuiltContext {
    pub(crate) messages: MessageList,
    pub(crate) transforms: Vec<(SmolStr, MessageList)>,
}

/// The parts before the conversation, in the order in which providers read them.
pub(crate) type Outline = [OutlinePart];

/// One part: a tool, a name in a list, a section of the system prompt.
pub(crate) struct OutlinePart {
    part: &'static str,
    /// The tool that the part belongs to; `None` for the system prompt.
    tool: Option<SmolStr>,
    owner: SmolStr,
    /// The hash of the text: equal text is no change.
    hash: u64,
}

impl OutlinePart {
    fn of_tool(tool: &SmolStr, owner: impl ToSmolStr, content: impl Hash) -> Self {
        OutlinePart {
            part: "tools",
            tool: Some(tool.clone()),
            owner: owner.to_smolstr(),
            hash: hash(content),
        }
    }

    fn of_system(owner: impl ToSmolStr, content: impl Hash) -> Self {
        OutlinePart { part: "system", tool: None, owner: owner.to_smolstr(), hash: hash(content) }
    }

    fn is_equal(&self, other: &OutlinePart) -> bool {
        self.hash == other.hash && self.part == other.part
    }
}

fn hash(content: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

/// Builds the outline of a view.
pub(crate) fn outline(view: &AgentView) -> Arc<Outline> {
    let listing = view.shown_listing.as_ref().unwrap_or(&view.listing);
    let tools = view.tools.entries().flat_map(|entry| {
        let ToolSpec { name, description, schema } = &*entry.spec;
        let schema = schema.to_string();
        match view.listed_kind(name) {
            None => vec![OutlinePart::of_tool(name, &entry.owner, (name, description, schema))],
            // The tool lists names; each name belongs to its own owner.
            Some(kind) => {
                let own = OutlinePart::of_tool(name, &entry.owner, (name, schema));
                let listed = listing.listed(kind).map(|listed_name| {
                    OutlinePart::of_tool(
                        name,
                        &listed_name.owner,
                        (&*listed_name.name, &*listed_name.description),
                    )
                });
                listed.chain([own]).collect()
            }
        }
    });
    let system = view.sections.iter().flat_map(|section| match section.listed_kind {
        None => vec![OutlinePart::of_system(&section.source, &section.text)],
        Some(kind) => {
            let names = listing.listed(kind);
            names
                .map(|listed_name| OutlinePart::of_system(&listed_name.owner, &*listed_name.name))
                .collect()
        }
    });
    tools.chain(system).collect()
}

impl AnsweredRequest {
    pub(crate) fn new(
        model: &Arc<dyn Model>,
        request: Request,
        view: &AgentView,
        tool_limit: ToolLimit,
        transforms: Vec<(SmolStr, MessageList)>,
    ) -> Self {
        AnsweredRequest {
            model: model.name().clone(),
            request,
            outline: view.outline(),
            tool_limit,
            transforms,
        }
    }

    pub(crate) fn model(&self) -> &SmolStr {
        &self.model
    }

    /// The cache break that this request causes after the one before it, if it causes one.
    pub(crate) fn find_cache_break(
        &self,
        before: &AnsweredRequest,
        model: &Arc<dyn Model>,
    ) -> Option<CacheBreak> {
        let (part, by) = self.find_prefix_change(before).or_else(|| {
            let at = before.request.messages.first_difference(&self.request.messages)?;
            Some(("messages", self.find_message_change(before, at)))
        })?;
        Some(CacheBreak { by, part, byte: model.break_at(&before.request, &self.request) })
    }

    /// The part before the conversation that changed, and the owner of the change.
    fn find_prefix_change(&self, before: &AnsweredRequest) -> Option<(&'static str, SmolStr)> {
        let (then, now) = (&before.outline, &self.outline);
        let is_same = |(then, now): &(&OutlinePart, &OutlinePart)| then.is_equal(now);
        let same = then.iter().zip(now.iter()).take_while(is_same).count();
        let (then, now) = (&then[same..], &now[same..]);
        let (piece, tool_limit) = match (then.first(), now.first()) {
            // The new part was further down before: a part in front of it is gone.
            (Some(gone), Some(new)) if then.iter().any(|piece| piece.is_equal(new)) => {
                (gone, &self.tool_limit)
            }
            (_, Some(new)) => (new, &before.tool_limit),
            (Some(gone), None) => (gone, &self.tool_limit),
            (None, None) => return None,
        };
        let was_limited = piece.tool.as_ref().is_some_and(|tool| tool_limit.hides(tool));
        let by = if was_limited { &self.tool_limit.set_by } else { &piece.owner };
        Some((piece.part, by.clone()))
    }

    /// The cause of a changed message at an index: the last transform that changed it on equal input, or
    /// the history itself.
    fn find_message_change(&self, before: &AnsweredRequest, mut index: usize) -> SmolStr {
        let stages = self.stages(before);
        for stage in stages.iter().rev() {
            match stage.inherited_index(index) {
                Some(input_index) => index = input_index,
                None => return stage.name.clone(),
            }
        }
        let history = stages.first().map_or(&self.request.messages, |stage| stage.inputs.1);
        match history.entries().nth(index).and_then(|entry| entry.context_message()) {
            Some(Message::User(UserMessage { kind: UserMessageKind::Compaction, .. })) => {
                "compaction".into()
            }
            _ => "session".into(),
        }
    }

    /// The transforms of both requests, in order. A transform that changed nothing in one request has its
    /// input as its output there.
    fn stages<'a>(&'a self, before: &'a AnsweredRequest) -> Vec<TransformStage<'a>> {
        let (mut then, mut now) = (before.transforms.as_slice(), self.transforms.as_slice());
        let mut stages: Vec<TransformStage<'a>> = vec![];
        loop {
            let has = |transforms: &[(SmolStr, MessageList)], name: &SmolStr| {
                transforms.iter().any(|(other, _)| other == name)
            };
            let is_gone = then.first().filter(|(name, _)| !has(now, name));
            let Some((name, _)) = is_gone.or(now.first()) else { break };
            let next = |transforms: &mut &'a [(SmolStr, MessageList)], sent: &'a MessageList| {
                let input = transforms.first().map_or(sent, |(_, input)| input);
                if transforms.first().is_some_and(|(other, _)| other == name) {
                    *transforms = &transforms[1..];
                }
                (input, transforms.first().map_or(sent, |(_, input)| input))
            };
            let (input_then, output_then) = next(&mut then, &before.request.messages);
            let (input_now, output_now) = next(&mut now, &self.request.messages);
            let (inputs, outputs) = ((input_then, input_now), (output_then, output_now));
            stages.push(TransformStage { name, inputs, outputs });
        }
        stages
    }
}

/// A transform in two requests: its inputs and its outputs.
struct TransformStage<'a> {
    name: &'a SmolStr,
    inputs: (&'a MessageList, &'a MessageList),
    outputs: (&'a MessageList, &'a MessageList),
}

impl TransformStage<'_> {
    /// The index at which the inputs differ, if that difference explains the difference at `index`.
    fn inherited_index(&self, index: usize) -> Option<usize> {
        let difference = self.inputs.0.first_difference(self.inputs.1)?;
        let source = |input: &MessageList, output: &MessageList| {
            let entry = output.entries().nth(index)?;
            input.entries().position(|candidate| candidate.is_source_of(entry))
        };
        let sources =
            [source(self.inputs.0, self.outputs.0), source(self.inputs.1, self.outputs.1)];
        let first = sources.into_iter().flatten().min().unwrap_or(index);
        (first >= difference).then_some(difference)
    }
}
