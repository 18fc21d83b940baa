//! Skills, commands, agents and memory in files: what a person writes down instead of linking it. Plugins,
//! profiles and checks of files stand in rooms above.
//!
//! A folder of extensions is read whole, without starting anything. What is broken is left out and told
//! with its place; what could be read another way than it was written is read so and told as well.

pub(crate) mod skills;
pub(crate) mod commands;
pub mod agents;
pub mod memory;
mod template;
mod project;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;
use smol_str::SmolStr;

pub use crate::{
    extensions::{agents::AgentFile, commands::CommandFile, skills::SkillFile},
    folder::{
        diagnostic::{Diagnostic, Severity},
        file_kind::FileKind,
    },
};
use crate::{
    extensions::{
        project::ProjectCache,
        template::{Arguments, TemplatePart, Variables, fill},
    },
    folder::walk::LinkPolicy,
};
use cotter::{
    Agent, Controls, Origin, Owner, Registry, Subagent, host, invoke::named_item::NameKind,
    permission::mode::Mode, text,
};

/// Whose a folder is, and whether a person trusts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadContext {
    /// Whose it is.
    pub origin: Origin,
    /// Whether what it brings may act: untrusted, no trigger matches, nothing of it takes the place of
    /// something else, and no command in its texts runs.
    pub trusted: bool,
}

impl LoadContext {
    /// A folder of somebody who needs no trust, or has it.
    pub fn trusted(origin: Origin) -> Self {
        LoadContext { origin, trusted: true }
    }

    /// A folder that nobody trusted.
    pub fn untrusted(origin: Origin) -> Self {
        LoadContext { origin, trusted: false }
    }

    /// Where links of such a folder may lead.
    pub(crate) fn links(&self, folder: &Path) -> LinkPolicy {
        match self.trusted && self.origin == Origin::User {
            true => LinkPolicy::Anywhere,
            false => LinkPolicy::within(folder),
        }
    }
}

/// The keys of front matter that mean something, by kind of file. Others stand without effect.
pub mod keys {
    pub use crate::extensions::{
        agents::KEYS as AGENT, commands::KEYS as COMMAND, skills::KEYS as SKILL,
    };
}

/// What folders brought: skills, commands, agents, and what is to be said about their files.
pub struct LoadedFolder {
    /// The skills.
    pub skills: Vec<Arc<SkillFile>>,
    /// The commands.
    pub commands: Vec<Arc<CommandFile>>,
    /// The agents.
    pub agents: Vec<AgentFile>,
    /// What is to be said about the files.
    pub diagnostics: Vec<Diagnostic>,
    loading: LoadContext,
    shared: Arc<FolderShared>,
}

/// Reads the folders `skills`, `commands` and `agents` of a folder. Those that are not there hold nothing.
pub fn load(folder: &Path, loading: &LoadContext) -> LoadedFolder {
    let links = loading.links(folder);
    let (skills, of_skills) = skills::load(&folder.join("skills"), &links);
    let (commands, of_commands) = commands::load(&folder.join("commands"), &links);
    let (agents, of_agents) = agents::load(&folder.join("agents"), &links);
    let diagnostics = [of_skills, of_commands, of_agents].concat();
    let nothing = LoadedFolder::nothing(loading);
    let mut loaded = LoadedFolder { skills, commands, agents, diagnostics, ..nothing };
    loaded.keep_first();
    loaded
}

impl LoadedFolder {
    pub(crate) fn nothing(loading: &LoadContext) -> Self {
        LoadedFolder {
            skills: vec![],
            commands: vec![],
            agents: vec![],
            diagnostics: vec![],
            loading: loading.clone(),
            shared: Arc::new(FolderShared {
                trusted: loading.trusted,
                known: ProjectCache::default(),
            }),
        }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let skills = self.skills.iter().map(|file| &file.path);
        let commands = self.commands.iter().map(|file| &file.path);
        skills.chain(commands).chain(self.agents.iter().map(|file| &file.path))
    }

    /// Adds what another folder of the same origin brought. Of one name the first stays.
    pub fn join(mut self, other: LoadedFolder) -> Self {
        self.skills.extend(other.skills);
        self.commands.extend(other.commands);
        self.agents.extend(other.agents);
        self.diagnostics.extend(other.diagnostics);
        self.keep_first();
        self
    }

    /// Leaves out what could not be taken: commands that are built in, names that others of the same
    /// origin have, and of an untrusted folder every name that is taken. What is left is taken from then
    /// on.
    pub fn fit(mut self, owner: &Owner, names: &mut TakenNames) -> Self {
        let LoadContext { origin, trusted } = self.loading.clone();
        self.leave_out(|kind, name| {
            let owner = names.hindrance(kind, name, &origin, trusted)?;
            let kind = kind.as_str();
            Some(format!("the {kind} `{name}` is already there, by {owner}"))
        });
        let skills = self.skills.iter().map(|file| (NameKind::Skill, &file.name));
        let commands = self.commands.iter().map(|file| (NameKind::Command, &file.name));
        let agents = self.agents.iter().map(|file| (NameKind::Subagent, &file.config.name));
        let ours = skills.chain(commands).chain(agents);
        names.0.extend(ours.map(|(kind, name)| (kind, name.clone(), owner.clone())));
        self
    }

    /// Registers all of it, as its owner's.
    pub fn register(&self, unit: &mut Registry) {
        self.skills.iter().for_each(|skill| _ = unit.define_skill(skill.skill(&self.shared)));
        for command in &self.commands {
            unit.define_command(command.command(&self.shared));
        }
        for agent in &self.agents {
            unit.define_mention(Subagent::agent(agent.config.clone()));
        }
    }

    /// The folders whose files belong to skills: what calls may read of a folder that is closed.
    pub fn skill_folders(&self) -> Vec<PathBuf> {
        self.skills.iter().filter_map(|skill| Some(skill.folder()?.to_owned())).collect()
    }

    /// Leaves everything out.
    #[cfg(unix)]
    pub(crate) fn clear(&mut self) {
        self.skills.clear();
        self.commands.clear();
        self.agents.clear();
        self.diagnostics.clear();
    }

    pub(crate) fn keep_first(&mut self) {
        let mut seen = FirstNames::default();
        self.leave_out_by(|kind, name, path| {
            let by = text::show_line(&seen.first(kind, name, path)?.to_string_lossy()).into_owned();
            Some(format!("the {} `{name}` is already there, by {by}", kind.as_str()))
        });
    }

    /// Tells which of several would be used, were they loaded together. A collection is to choose from:
    /// nothing is wrong with any of them.
    pub(crate) fn tell_of_repeats(&mut self) {
        let mut seen = FirstNames::default();
        let skills = self.skills.iter().map(|file| (NameKind::Skill, &file.name, &file.path));
        let commands = self.commands.iter().map(|file| (NameKind::Command, &file.name, &file.path));
        let agents = self.agents.iter();
        let agents = agents.map(|file| (NameKind::Subagent, &file.config.name, &file.path));
        let told = skills.chain(commands).chain(agents).filter_map(|(kind, name, path)| {
            let by = text::show_line(&seen.first(kind, name, path)?.to_string_lossy()).into_owned();
            let kind = kind.as_str();
            let why =
                format!("the {kind} `{name}` is in {by} too: loaded together, that one is used");
            Some(Diagnostic::new(path, None, Severity::Warning, why))
        });
        let told: Vec<_> = told.collect();
        self.diagnostics.extend(told);
    }

    fn leave_out(&mut self, why: impl Fn(NameKind, &str) -> Option<String>) {
        self.leave_out_by(|kind, name, _| why(kind, name));
    }

    fn leave_out_by(&mut self, mut why: impl FnMut(NameKind, &str, &Path) -> Option<String>) {
        let mut told = vec![];
        let mut keep = |kind: NameKind, name: &str, path: &Path| match why(kind, name, path) {
            None => true,
            Some(why) => {
                told.push(Diagnostic::new(path, None, Severity::Rejected, why));
                false
            }
        };
        self.skills.retain(|file| keep(NameKind::Skill, &file.name, &file.path));
        self.commands.retain(|file| keep(NameKind::Command, &file.name, &file.path));
        self.agents.retain(|file| keep(NameKind::Subagent, &file.config.name, &file.path));
        self.diagnostics.append(&mut told);
    }
}

/// Who had a name first.
#[derive(Default)]
struct FirstNames(HashMap<(NameKind, SmolStr), PathBuf>);

impl FirstNames {
    /// The file that had the name before this one; `None` where this is the first.
    fn first(&mut self, kind: NameKind, name: &str, path: &Path) -> Option<&Path> {
        match self.0.entry((kind, name.into())) {
            Entry::Occupied(first) => Some(first.into_mut()),
            Entry::Vacant(free) => {
                free.insert(path.to_owned());
                None
            }
        }
    }
}

/// The names that somebody has.
#[derive(Clone, Debug, Default)]
pub struct TakenNames(Vec<(NameKind, SmolStr, Owner)>);

impl TakenNames {
    /// Those that an agent has, but for the names of owners that are loaded again.
    pub fn of(agent: &Agent, except: &[Owner]) -> Self {
        let kinds = [NameKind::Skill, NameKind::Command, NameKind::Subagent, NameKind::Hook];
        let all = kinds.into_iter().flat_map(|kind| agent.names(kind));
        let all = all.filter(|info| !except.iter().any(|owner| owner.is(&info.owner)));
        TakenNames(all.map(|info| (info.kind, info.name, info.owner)).collect())
    }

    /// Who has a name so that somebody of that origin cannot have it too.
    fn hindrance(
        &self,
        kind: NameKind,
        name: &str,
        origin: &Origin,
        trusted: bool,
    ) -> Option<&Owner> {
        let is_it = |other: NameKind| {
            // A command is found before a hook or a skill of its name.
            let hides = kind == NameKind::Command && !trusted;
            other == kind || hides && matches!(other, NameKind::Hook | NameKind::Skill)
        };
        let mut owners = self.0.iter().filter(|(kind, known, _)| is_it(*kind) && known == name);
        let found = owners.find(|(_, _, owner)| {
            let built_in = matches!(owner.origin, Origin::Kernel | Origin::Embedder);
            !trusted || owner.origin == *origin || (built_in && kind == NameKind::Command)
        });
        found.map(|(_, _, owner)| owner)
    }
}

/// What the files of one folder share.
pub(crate) struct FolderShared {
    trusted: bool,
    known: ProjectCache,
}

impl fmt::Debug for FolderShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trusted: {}", self.trusted)
    }
}

/// The most bytes of what one command writes that are told.
const WRITTEN_BYTES: usize = 32 * 1024;

impl FolderShared {
    /// A text with everything filled in that it leaves open.
    async fn fill(&self, text: &str, arguments: &Arguments, controls: &Controls) -> String {
        let variables = self.variables(controls);
        let mut out = String::new();
        for piece in fill(text, arguments, &variables) {
            match piece {
                TemplatePart::Text(text) => out.push_str(&text),
                TemplatePart::Command { line, written } => {
                    let line = if self.trusted { line } else { Err("its folder is not trusted") };
                    match line {
                        Ok(line) => out.push_str(&run(controls, &line, written).await),
                        Err(why) => out.push_str(&format!("[`{written}` was not run: {why}]")),
                    }
                }
            }
        }
        out
    }

    fn variables(&self, controls: &Controls) -> Variables {
        let project = controls.cx().workspace().project();
        let found = self.known.of(project);
        let agent = controls.agent();
        let shown = |text: &str| text::show_line(text).into_owned();
        let name = project.file_name().unwrap_or_default().to_string_lossy();
        let is_plan = agent.policy().mode() == Mode::Plan;
        Variables {
            project_name: shown(&name),
            project_path: shown(&project.to_string_lossy()),
            language: found.language.to_owned(),
            framework: found.framework.to_owned(),
            agent_id: agent.id().to_string(),
            mode: if is_plan {
                "plan".to_owned()
            } else {
                host::agent_config(agent).mode.to_string()
            },
        }
    }
}

/// What a command writes, or why it did not. It takes the way of every call.
async fn run(controls: &Controls, line: &str, written: &str) -> String {
    match controls.run_tool("bash", json!({"command": line})).await {
        Ok(output) => text::cut(output.content.text().trim_end(), WRITTEN_BYTES),
        Err(error) => {
            format!("[`{written}` failed: {}]", text::cut(error.message.trim(), WRITTEN_BYTES))
        }
    }
}
