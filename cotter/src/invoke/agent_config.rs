//! The config of an agent: name, prompt, model, tools, and the names that it may call.

use smol_str::SmolStr;

/// The config of an agent. An empty list is no restriction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentConfig {
    /// The name that the agent is called by.
    pub name: SmolStr,
    /// The description: when to call the agent.
    pub description: String,
    /// The system prompt.
    pub system_prompt: String,
    /// The model, as `provider/model`; by default the parent's.
    pub model: Option<SmolStr>,
    /// The tools that the agent may call: globs over names.
    pub tools: Vec<String>,
    /// The tools that the agent may not call, even if another setting allows them: globs over names.
    pub without_tools: Vec<String>,
    /// True if the agent and its children may change nothing, as in
    /// [`Mode::Plan`](crate::permission::mode::Mode::Plan).
    pub is_read_only: bool,
    /// The skills that the agent may use, by name.
    pub skills: Vec<SmolStr>,
    /// The MCP servers that the agent may use, by name; for the hook that provides them.
    pub mcps: Vec<SmolStr>,
    /// The subagents that the agent may call, by name.
    pub agents: Vec<SmolStr>,
    /// True if the agent has a memory; for the hook that provides it.
    pub memory: bool,
    /// The kind of work, for hooks; `code` by default.
    pub mode: SmolStr,
}

impl AgentConfig {
    /// Makes a config without restrictions.
    pub fn new(name: impl Into<SmolStr>) -> Self {
        AgentConfig { name: name.into(), mode: "code".into(), ..AgentConfig::default() }
    }

    /// Returns this config with a description of when to call the agent.
    pub fn with_description(self, description: impl Into<String>) -> Self {
        AgentConfig { description: description.into(), ..self }
    }

    /// Returns this config with a system prompt.
    pub fn with_system_prompt(self, text: impl Into<String>) -> Self {
        AgentConfig { system_prompt: text.into(), ..self }
    }

    /// Returns this config, limited to tools whose names match.
    pub fn with_tools<S: Into<String>>(self, globs: impl IntoIterator<Item = S>) -> Self {
        AgentConfig { tools: globs.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns this config without tools whose names match.
    pub fn without_tools<S: Into<String>>(self, globs: impl IntoIterator<Item = S>) -> Self {
        AgentConfig { without_tools: globs.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns this config, limited to calls that change nothing.
    pub fn read_only(self) -> Self {
        AgentConfig { is_read_only: true, ..self }
    }

    /// Returns this config, limited to some skills.
    pub fn with_skills<S: Into<SmolStr>>(self, names: impl IntoIterator<Item = S>) -> Self {
        AgentConfig { skills: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns this config, limited to some subagents.
    pub fn with_agents<S: Into<SmolStr>>(self, names: impl IntoIterator<Item = S>) -> Self {
        AgentConfig { agents: names.into_iter().map(Into::into).collect(), ..self }
    }
}
