//! The config of an agent: name, prompt, model, tools, and the names it may call.

use smol_str::SmolStr;

/// What an agent is made of. An empty list is no restriction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentConfig {
    /// The name it is called by.
    pub name: SmolStr,
    /// When to call it.
    pub description: String,
    /// What its model is told first.
    pub system_prompt: String,
    /// Its model, as `provider/model`; without it, its parent's.
    pub model: Option<SmolStr>,
    /// The tools it may call: globs over names.
    pub tools: Vec<String>,
    /// The tools it may not call, whatever else says that it may: globs over names.
    pub without_tools: Vec<String>,
    /// Whether it, and whoever works for it, only looks: as in [`Mode::Plan`](crate::permission::mode::Mode::Plan).
    pub looks_only: bool,
    /// The skills it may use, by name.
    pub skills: Vec<SmolStr>,
    /// The MCP servers it may use, by name: for the hook that has them.
    pub mcps: Vec<SmolStr>,
    /// The subagents it may call, by name.
    pub agents: Vec<SmolStr>,
    /// Whether it remembers things: for the hook that does.
    pub memory: bool,
    /// What it is at, for hooks: `code`, unless it says otherwise.
    pub mode: SmolStr,
}

impl AgentConfig {
    /// An agent of that name, without restrictions.
    pub fn new(name: impl Into<SmolStr>) -> Self {
        AgentConfig { name: name.into(), mode: "code".into(), ..AgentConfig::default() }
    }

    /// The same with words on when to call it.
    pub fn with_description(self, description: impl Into<String>) -> Self {
        AgentConfig { description: description.into(), ..self }
    }

    /// The same with words for its model.
    pub fn with_system_prompt(self, text: impl Into<String>) -> Self {
        AgentConfig { system_prompt: text.into(), ..self }
    }

    /// The same limited to tools whose names match.
    pub fn with_tools<S: Into<String>>(self, globs: impl IntoIterator<Item = S>) -> Self {
        AgentConfig { tools: globs.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same without tools whose names match.
    pub fn without_tools<S: Into<String>>(self, globs: impl IntoIterator<Item = S>) -> Self {
        AgentConfig { without_tools: globs.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same limited to calls that change nothing.
    pub fn looking_only(self) -> Self {
        AgentConfig { looks_only: true, ..self }
    }

    /// The same limited to some skills.
    pub fn with_skills<S: Into<SmolStr>>(self, names: impl IntoIterator<Item = S>) -> Self {
        AgentConfig { skills: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same limited to some subagents.
    pub fn with_agents<S: Into<SmolStr>>(self, names: impl IntoIterator<Item = S>) -> Self {
        AgentConfig { agents: names.into_iter().map(Into::into).collect(), ..self }
    }
}
