//! The view of an agent: the system prompt and the tools that its model is shown. A view is built once per
//! generation, from the agent's config and the registrations. The model may call exactly the tools that it
//! is shown.

use std::sync::{Arc, OnceLock, PoisonError};

use globset::GlobSet;
use smol_str::SmolStr;

use crate::{
    agent::{
        Agent,
        listing::NameListing,
        session::{Session, active_run::ActiveSkills, cache_break, cache_break::Outline},
    },
    invoke::{
        agent_config::AgentConfig,
        command::Command,
        named_item::{NameKind, NamedItem, nearness},
        skill::{InvokeSkill, Skill},
        subagent::{InvokeSubagent, Subagent},
    },
    permission::{
        origin::{Origin, Owner},
        tool_glob::tool_globs,
    },
    registry::{
        generation::{Generation, ToolEntry},
        subsystem::{Hook, InstalledHook},
        tool_set::ToolSet,
    },
    tool::Tool,
};

/// The environment of an agent, for its system prompt. The caller gives it; the library does not detect it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// The operating system: `linux`.
    pub os: String,
    /// The shell that commands run in: `bash`.
    pub shell: String,
    /// The machine: `x86_64`.
    pub platform: String,
}

impl Environment {
    /// An environment with these three values.
    pub fn new(
        os: impl Into<String>,
        shell: impl Into<String>,
        platform: impl Into<String>,
    ) -> Self {
        Environment { os: os.into(), shell: shell.into(), platform: platform.into() }
    }
}

/// The view of one agent in one generation.
pub(crate) struct AgentView {
    pub(crate) generation: Arc<Generation>,
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) system: Arc<str>,
    /// The sections of the system prompt.
    pub(crate) sections: Vec<PromptSection>,
    outline: OnceLock<Arc<Outline>>,
    /// The lists of callable names, as they are now.
    pub(crate) listing: Arc<NameListing>,
    /// The lists that the session's model was first shown, if they differ from `listing`.
    pub(crate) shown_listing: Option<Arc<NameListing>>,
    /// The names of the tools for skills and for subagents.
    invoke_tool_names: [SmolStr; 2],
    config: Arc<AgentConfig>,
    /// The tools a session was limited to.
    pub(crate) limited_to: Option<Arc<[SmolStr]>>,
    /// The skills of a session that are at the end of its system prompt.
    skills: Option<Arc<ActiveSkills>>,
    /// The view of the parent.
    parent: Option<Arc<AgentView>>,
}

/// A section of the system prompt.
#[derive(Clone)]
pub(crate) struct PromptSection {
    pub(crate) text: String,
    /// The agent, hook or extension that the section comes from.
    pub(crate) source: SmolStr,
    /// The kind of names that the section lists, if it is a list.
    pub(crate) listed_kind: Option<NameKind>,
}

impl PromptSection {
    fn new(source: &SmolStr, text: String) -> Self {
        PromptSection { text, source: source.clone(), listed_kind: None }
    }
}

impl Agent {
    /// The current view of this agent.
    pub(crate) fn view(&self) -> Arc<AgentView> {
        let parent_view = self.parent().map(|parent| parent.cx.session().view());
        let number = self.live().number();
        // A child and its parents use one generation, so that the gates fit the tools that are shown.
        let generation = || {
            parent_view
                .as_ref()
                .map_or_else(|| self.generation(), |parent_view| parent_view.generation.clone())
        };
        let is_current = |view: &Arc<AgentView>| {
            let has_same_parent = match (&view.parent, &parent_view) {
                (None, None) => true,
                (Some(old), Some(new)) => old.shows_same_as(new),
                _ => false,
            };
            has_same_parent && view.generation.number == number
        };
        let slot = self.view_slot();
        if let Some(view) = slot.read().unwrap_or_else(PoisonError::into_inner).as_ref()
            && is_current(view)
        {
            return view.clone();
        }
        let view = Arc::new(AgentView::build(self, generation(), parent_view));
        let old = slot.write().unwrap_or_else(PoisonError::into_inner).replace(view.clone());
        // Dropped outside the lock: items that only the old generation held may call the agent on drop.
        drop(old);
        view
    }
}

impl Session {
    /// The current view of this session's agent.
    pub(crate) fn view(&self) -> Arc<AgentView> {
        let view = self.agent.view();
        let names = self.state().overrides().active_tools.names.clone();
        let skills = self.shown_skills(&view);
        let shown_listing = self.shown_listing(&view);
        match (&names, &skills, &shown_listing) {
            (None, None, None) => view,
            _ => Arc::new(view.for_session(names, skills, shown_listing)),
        }
    }

    /// The skills at the end of the system prompt. The history is not searched if no skill has a trigger.
    fn shown_skills(&self, view: &AgentView) -> Option<Arc<ActiveSkills>> {
        let has_triggers = !view.generation.triggers.is_empty();
        has_triggers.then(|| self.active_skills()).filter(|active| !active.system.is_empty())
    }

    /// True if a view is still current, for this session and its parents.
    pub(crate) fn is_view_current(&self, view: &AgentView) -> bool {
        let limited = self.state().overrides().active_tools.names.as_ref().map(Arc::as_ptr);
        let skills = self.shown_skills(view);
        let shown_listing = self.shown_listing(view);
        self.agent.live().number() == view.generation.number
            && skills.as_ref().map(Arc::as_ptr) == view.skills.as_ref().map(Arc::as_ptr)
            && shown_listing.as_ref().map(Arc::as_ptr)
                == view.shown_listing.as_ref().map(Arc::as_ptr)
            && limited == view.limited_to.as_ref().map(Arc::as_ptr)
            && match (self.agent.parent(), &view.parent) {
                (Some(parent), Some(parent_view)) => {
                    parent.cx.session().is_view_current(parent_view)
                }
                (None, None) => true,
                _ => false,
            }
    }
}

impl AgentView {
    fn build(
        agent: &Agent,
        generation: Arc<Generation>,
        parent_view: Option<Arc<AgentView>>,
    ) -> Self {
        let config = agent.config();
        let tools = parent_view
            .as_ref()
            .map_or(&generation.tools, |parent_view| &parent_view.tools)
            .clone();
        let mut view = AgentView {
            generation,
            tools,
            system: "".into(),
            sections: vec![],
            outline: OnceLock::new(),
            listing: Arc::default(),
            shown_listing: None,
            invoke_tool_names: agent.invoke_tool_names().clone(),
            config,
            limited_to: None,
            skills: None,
            parent: parent_view,
        };
        let scope = ToolScope::of(agent, &view.config, &view.generation.hooks);
        let names = agent.invoke_tool_names();
        let is_own =
            |entry: &&Arc<ToolEntry>| !names.contains(&entry.spec.name) && scope.allows(entry);
        let own: Vec<_> = view.tools.entries().filter(is_own).cloned().collect();
        let invoke_tools = view.invoke_tools(names, &scope);
        let entries = invoke_tools.iter().map(|tool| view.generation.make_entry(tool.clone()));
        view.tools = Arc::new(ToolSet::new(own.into_iter().chain(entries).collect()));
        view.sections = view.build_sections(agent, &scope.lines);
        view.system = join(&view.sections);
        view.listing = Arc::new(NameListing::of(&view, invoke_tools, view.sections.clone()));
        view
    }

    /// The tools for skills and subagents, if there are any and the agent may call them.
    fn invoke_tools(&self, names: &[SmolStr; 2], scope: &ToolScope<'_>) -> Vec<Arc<dyn Tool>> {
        let is_shown = |name: &SmolStr, is_configured: bool| {
            (is_configured || scope.contains(name))
                && self
                    .parent
                    .as_ref()
                    .is_none_or(|parent_view| parent_view.tools.entry(name).is_some())
        };
        let [skill_tool, subagent_tool] = names;
        let mut tools: Vec<Arc<dyn Tool>> = vec![];
        let has_skills = self.exposed_skills().next().is_some();
        if has_skills && is_shown(skill_tool, !self.config.skills.is_empty()) {
            tools.push(Arc::new(self.invoke_skill(skill_tool)));
        }
        let subagents: Vec<_> = self.subagents().collect();
        if !subagents.is_empty() && is_shown(subagent_tool, !self.config.agents.is_empty()) {
            let listed =
                subagents.iter().map(|subagent| (&*subagent.name, subagent.description.as_str()));
            tools.push(Arc::new(InvokeSubagent::new(subagent_tool.clone(), listed)));
        }
        tools
    }

    /// Builds the sections in their order: the agent's prompt, then every other part that has text.
    fn build_sections(&self, agent: &Agent, scope: &[String]) -> Vec<PromptSection> {
        let block = |name: &str, lines: &[String]| {
            let text = || format!("<{name}>\n{}\n</{name}>", lines.join("\n"));
            (!lines.is_empty()).then(|| PromptSection::new(agent.id(), text()))
        };
        let environment = agent.environment().map(|Environment { os, shell, platform }| {
            vec![format!("os: {os}"), format!("shell: {shell}"), format!("platform: {platform}")]
        });
        let skills: Vec<_> = self.exposed_skills().map(|skill| skill.name.as_str()).collect();
        let resources = (!skills.is_empty()).then(|| format!("skills: {}", skills.join(", ")));
        let resources = block("resources", resources.as_slice());
        let prompt = Some(self.config.system_prompt.clone()).filter(|prompt| !prompt.is_empty());
        let fragments = self
            .generation
            .hooks
            .iter()
            .filter_map(|hook| Some(PromptSection::new(&hook.name, hook.fragment.clone()?)));
        let sections = self.generation.sections.iter();
        let sections = sections.map(|section| PromptSection::new(&section.0, section.1.clone()));
        let prompt = prompt.map(|text| PromptSection::new(agent.id(), text));
        prompt
            .into_iter()
            .chain(block("environment", &environment.unwrap_or_default()))
            .chain(fragments)
            .chain(sections)
            .chain(
                resources
                    .map(|section| PromptSection { listed_kind: Some(NameKind::Skill), ..section }),
            )
            .chain(block("scope", scope))
            .collect()
    }

    /// The parts of this view with their owners. Built on first use.
    pub(crate) fn outline(&self) -> Arc<Outline> {
        self.outline.get_or_init(|| cache_break::outline(self)).clone()
    }

    /// The kind of names that a tool's description lists, if it is one of the runtime's two tools.
    pub(crate) fn listed_kind(&self, tool: &str) -> Option<NameKind> {
        let entry = self.tools.entry(tool)?;
        let kinds = [NameKind::Skill, NameKind::Subagent].into_iter().zip(&self.invoke_tool_names);
        let is_own = entry.owner.origin == Origin::Kernel;
        kinds.filter(|(_, name)| is_own && *name == tool).map(|(kind, _)| kind).next()
    }

    /// The names of a kind that the model is shown, with their descriptions.
    pub(crate) fn listed(&self, kind: NameKind) -> impl Iterator<Item = (&str, &str)> {
        let skills = self.exposed_skills().filter(move |_| kind == NameKind::Skill);
        let skills = skills.map(|skill| (skill.name.as_str(), skill.description.as_str()));
        let subagents = self.subagents().filter(move |_| kind == NameKind::Subagent);
        skills.chain(subagents.map(|agent| (agent.name.as_str(), agent.description.as_str())))
    }

    /// The view of one session: with its tools only, with the text of its skills, and with the lists that
    /// its model was shown.
    fn for_session(
        &self,
        names: Option<Arc<[SmolStr]>>,
        skills: Option<Arc<ActiveSkills>>,
        shown_listing: Option<Arc<NameListing>>,
    ) -> AgentView {
        let tools = match &shown_listing {
            None => self.tools.clone(),
            Some(listing) => self.tools_as_shown(listing),
        };
        let tools = match &names {
            None => tools,
            Some(names) => {
                let entries = tools.entries().filter(|entry| names.contains(&entry.spec.name));
                Arc::new(ToolSet::new(entries.cloned().collect()))
            }
        };
        let skill_sections = skills.iter().flat_map(|skills| &skills.system);
        let skill_sections =
            skill_sections.map(|(name, text)| PromptSection::new(name, text.clone()));
        let sections = shown_listing.as_ref().map_or(&self.sections, |listing| &listing.sections);
        let sections: Vec<_> = sections.iter().cloned().chain(skill_sections).collect();
        let system = match (&skills, &shown_listing) {
            (None, None) => self.system.clone(),
            _ => join(&sections),
        };
        AgentView {
            generation: self.generation.clone(),
            tools,
            system,
            sections,
            outline: OnceLock::new(),
            listing: self.listing.clone(),
            shown_listing,
            invoke_tool_names: self.invoke_tool_names.clone(),
            config: self.config.clone(),
            limited_to: names,
            skills,
            parent: self.parent.clone(),
        }
    }

    /// The tools; those for skills and subagents have the descriptions that the model was first shown.
    fn tools_as_shown(&self, listing: &NameListing) -> Arc<ToolSet> {
        let is_other = |entry: &&Arc<ToolEntry>| self.listed_kind(&entry.spec.name).is_none();
        let others = self.tools.entries().filter(is_other).cloned();
        let entries = listing.tools.iter().map(|tool| self.generation.make_entry(tool.clone()));
        Arc::new(ToolSet::new(others.chain(entries).collect()))
    }

    /// True if both views show the model the same: nothing that they depend on has changed.
    pub(crate) fn shows_same_as(&self, other: &AgentView) -> bool {
        let limited = |view: &AgentView| view.limited_to.as_ref().map(Arc::as_ptr);
        let has_same_parent = match (&self.parent, &other.parent) {
            (None, None) => true,
            (Some(ours), Some(theirs)) => ours.shows_same_as(theirs),
            _ => false,
        };
        has_same_parent
            && self.generation.number == other.generation.number
            && Arc::ptr_eq(&self.config, &other.config)
            && limited(self) == limited(other)
    }

    /// The item with a name of this kind, if this agent may use it.
    pub(crate) fn find(&self, kind: NameKind, name: &str) -> Option<&NamedItem> {
        let (_, item) = self.generation.names.find(kind, name)?;
        self.allows(kind, name).then_some(item)
    }

    /// The command of that name, with its owner.
    pub(crate) fn command(&self, name: &str) -> Option<(Owner, &Arc<Command>)> {
        match self.find(NameKind::Command, name)? {
            NamedItem::Command(command) => Some((self.owner_of(NameKind::Command, name), command)),
            _ => None,
        }
    }

    /// The skill of that name, if this agent may use it.
    pub(crate) fn skill(&self, name: &str) -> Option<&Arc<Skill>> {
        match self.find(NameKind::Skill, name)? {
            NamedItem::Skill(skill) => Some(skill),
            _ => None,
        }
    }

    /// The skills that this agent's model may call.
    pub(crate) fn exposed_skills(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.usable_items(NameKind::Skill).filter_map(|item| match item {
            NamedItem::Skill(skill) if skill.exposed => Some(skill),
            _ => None,
        })
    }

    /// The tool with which the model calls skills. If its list is too long, skills of the nearest origins
    /// keep their descriptions longest.
    fn invoke_skill(&self, tool: &SmolStr) -> InvokeSkill {
        let ranked = self.exposed_skills().map(|skill| {
            let origin = self.owner_of(NameKind::Skill, &skill.name).origin;
            (skill.name.as_str(), skill.description.as_str(), nearness(&origin))
        });
        InvokeSkill::ranked(tool.clone(), ranked.collect())
    }

    /// The subagent of that name, if this agent may call it.
    pub(crate) fn subagent(&self, name: &str) -> Option<&Arc<Subagent>> {
        match self.find(NameKind::Subagent, name)? {
            NamedItem::Subagent(subagent) => Some(subagent),
            _ => None,
        }
    }

    /// The subagents that this agent's model may call.
    pub(crate) fn subagents(&self) -> impl Iterator<Item = &Arc<Subagent>> {
        self.usable_items(NameKind::Subagent).filter_map(|item| match item {
            NamedItem::Subagent(subagent) => Some(subagent),
            _ => None,
        })
    }

    /// The items of a kind that this agent may use.
    pub(crate) fn usable_items(&self, kind: NameKind) -> impl Iterator<Item = &NamedItem> {
        let all = self.generation.names.visible().map(|(_, item)| item);
        all.filter(move |item| item.kind() == kind && self.allows(kind, item.name()))
    }

    /// The owner of a name. For an unknown name, an owner with the fewest rights and no hooks.
    pub(crate) fn owner_of(&self, kind: NameKind, name: &str) -> Owner {
        let found = self.generation.names.find(kind, name);
        let unknown_owner = || Owner::new(Origin::Profile(SmolStr::default()), "");
        found.map_or_else(unknown_owner, |(owner, _)| owner.clone())
    }

    fn allows(&self, kind: NameKind, name: &str) -> bool {
        let listed = match kind {
            NameKind::Skill => &self.config.skills,
            NameKind::Subagent => &self.config.agents,
            NameKind::Hook | NameKind::Command => return true,
        };
        (listed.is_empty() || listed.iter().any(|listed| listed == name))
            && self.parent.as_ref().is_none_or(|parent_view| parent_view.allows(kind, name))
    }
}

/// Joins the sections to a system prompt.
fn join(sections: &[PromptSection]) -> Arc<str> {
    let texts: Vec<_> = sections.iter().map(|section| section.text.as_str()).collect();
    texts.join("\n\n").into()
}

/// The tools that an agent is limited to.
struct ToolScope<'a> {
    agent: &'a Agent,
    /// The tools that the config names; `None` for all.
    allowed: Option<GlobSet>,
    /// The tools that the config excludes.
    excluded: Option<GlobSet>,
    /// The tools that each hook allows.
    allowed_by_hook: Vec<(Arc<dyn Hook>, Vec<String>)>,
    /// The lines that tell the model about the limits.
    lines: Vec<String>,
}

impl<'a> ToolScope<'a> {
    fn of(agent: &'a Agent, config: &AgentConfig, hooks: &[Arc<InstalledHook>]) -> Self {
        let format_line = |label: &str, names: Vec<&str>| {
            (!names.is_empty()).then(|| format!("{label}: {}", names.join(", ")))
        };
        let to_strings =
            |names: &'_ [SmolStr]| names.iter().map(SmolStr::to_string).collect::<Vec<_>>();
        let all = [
            ("tools", config.tools.clone()),
            ("without tools", config.without_tools.clone()),
            ("skills", to_strings(&config.skills)),
            ("mcps", to_strings(&config.mcps)),
            ("agents", to_strings(&config.agents)),
        ];
        let lines = all.iter().filter_map(|(label, names)| {
            format_line(label, names.iter().map(String::as_str).collect())
        });
        let mut lines: Vec<_> = lines.collect();
        let by_hook = hooks.iter().map(|installed| {
            let (names, line) = installed.find_scoped_tools(config);
            lines.extend(line);
            (installed.hook.clone(), names)
        });
        let allowed_by_hook = by_hook.collect();
        // Invalid globs match nothing, so an invalid list of tools allows no tool.
        let compile_allowed = || tool_globs(&config.tools).unwrap_or_else(|_| GlobSet::empty());
        let allowed = (!config.tools.is_empty()).then(compile_allowed);
        // An invalid list of excluded tools excludes every tool.
        let every_tool = || tool_globs(&["*".to_owned()]).unwrap_or_else(|_| GlobSet::empty());
        let compile_excluded =
            || tool_globs(&config.without_tools).unwrap_or_else(|_| every_tool());
        let excluded = (!config.without_tools.is_empty()).then(compile_excluded);
        ToolScope { agent, allowed, excluded, allowed_by_hook, lines }
    }

    fn contains(&self, name: &str) -> bool {
        self.agent.scope().is_none_or(|scope| scope.is_match(name))
            && self.allowed.as_ref().is_none_or(|named| named.is_match(name))
            && !self.excluded.as_ref().is_some_and(|without| without.is_match(name))
    }

    fn allows(&self, entry: &ToolEntry) -> bool {
        let name = entry.spec.name.as_str();
        let by_owner = entry.hook.as_ref().is_none_or(|owner| {
            let of_owner = self.allowed_by_hook.iter().find(|(hook, _)| Arc::ptr_eq(hook, owner));
            of_owner.is_some_and(|(_, names)| names.iter().any(|allowed| allowed == name))
        });
        by_owner && self.contains(name)
    }
}
