//! Skills, commands, agents and memory from files, which a person writes instead of linking code. Plugins,
//! profiles and checks of files are in rooms above.
//!
//! A folder of extensions is read as a whole, without starting anything. An invalid file is skipped and
//! reported with its location. A file that can be read only in a corrected form is used so, and reported.

pub(crate) mod skills;
pub(crate) mod commands;
pub mod agents;
pub mod memory;
mod template;
mod project;

use std::{
    collections::{HashMap, hash_map::Entry},
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
    trust::state,
};
use cotter::{
    Agent, Controls, Origin, Owner, Registry, Subagent, host, invoke::named_item::NameKind,
    permission::mode::Mode, text,
};

/// The owner's class of a folder. A folder that needs trust is read only once it is trusted, from its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadContext {
    /// The origin of the folder.
    pub origin: Origin,
}

impl LoadContext {
    /// The context of a folder that needs no trust, or has it.
    pub fn trusted(origin: Origin) -> Self {
        LoadContext { origin }
    }

    /// The targets that links in such a folder may have.
    pub(crate) fn links(&self, folder: &Path) -> LinkPolicy {
        match self.origin == Origin::User {
            true => LinkPolicy::Anywhere,
            false => LinkPolicy::within(folder),
        }
    }
}

/// The keys of front matter that have an effect, by kind of file. Other keys are ignored.
pub mod keys {
    pub use crate::extensions::{
        agents::KEYS as AGENT, commands::KEYS as COMMAND, skills::KEYS as SKILL,
    };
}

/// The contents of folders: skills, commands, agents, and diagnostics about their files.
pub struct LoadedFolder {
    /// The skills.
    pub skills: Vec<Arc<SkillFile>>,
    /// The commands.
    pub commands: Vec<Arc<CommandFile>>,
    /// The agents.
    pub agents: Vec<AgentFile>,
    /// Diagnostics about the files.
    pub diagnostics: Vec<Diagnostic>,
    loading: LoadContext,
    shared: Arc<FolderShared>,
}

/// A command in the text of a skill or command. It runs when the text is used, like a call of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextCommand {
    /// The kind of the text's item.
    pub kind: NameKind,
    /// The name of the item.
    pub name: SmolStr,
    /// The command as it is written, with its placeholders.
    pub line: String,
}

/// Reads the folders `skills`, `commands` and `agents` of a folder. A missing folder is empty.
pub fn load(folder: &Path, loading: &LoadContext) -> LoadedFolder {
    let links = loading.links(folder);
    let (skills, of_skills) = skills::load(&folder.join("skills"), &links);
    let (commands, of_commands) = commands::load(&folder.join("commands"), &links);
    let (agents, of_agents) = agents::load(&folder.join("agents"), &links);
    let diagnostics = [of_skills, of_commands, of_agents].concat();
    let empty = LoadedFolder::empty(loading);
    let mut loaded = LoadedFolder { skills, commands, agents, diagnostics, ..empty };
    loaded.keep_first();
    loaded
}

impl LoadedFolder {
    pub(crate) fn empty(loading: &LoadContext) -> Self {
        LoadedFolder {
            skills: vec![],
            commands: vec![],
            agents: vec![],
            diagnostics: vec![],
            loading: loading.clone(),
            shared: Arc::default(),
        }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let skills = self.skills.iter().map(|file| &file.path);
        let commands = self.commands.iter().map(|file| &file.path);
        skills.chain(commands).chain(self.agents.iter().map(|file| &file.path))
    }

    /// Adds the contents of another folder of the same origin. Of equal names, the first stays.
    pub fn join(mut self, other: LoadedFolder) -> Self {
        self.skills.extend(other.skills);
        self.commands.extend(other.commands);
        self.agents.extend(other.agents);
        self.diagnostics.extend(other.diagnostics);
        self.keep_first();
        self
    }

    /// Drops items whose names are not free: names of built-in commands, and names that another owner of the
    /// same origin has. The names of the remaining items are then taken.
    pub fn drop_taken_names(mut self, owner: &Owner, names: &mut TakenNames) -> Self {
        let LoadContext { origin } = self.loading.clone();
        self.drop_by_name(|kind, name| {
            let owner = names.find_blocking_owner(kind, name, &origin)?;
            let kind = kind.as_str();
            Some(format!("the {kind} `{name}` is already defined by {owner}"))
        });
        let skills = self.skills.iter().map(|file| (NameKind::Skill, &file.name));
        let commands = self.commands.iter().map(|file| (NameKind::Command, &file.name));
        let agents = self.agents.iter().map(|file| (NameKind::Subagent, &file.config.name));
        let kept = skills.chain(commands).chain(agents);
        names.0.extend(kept.map(|(kind, name)| (kind, name.clone(), owner.clone())));
        self
    }

    /// Registers all items under the owner of `unit`.
    pub fn register(&self, unit: &mut Registry) {
        self.skills.iter().for_each(|skill| _ = unit.define_skill(skill.skill(&self.shared)));
        for command in &self.commands {
            unit.define_command(command.command(&self.shared));
        }
        for agent in &self.agents {
            unit.define_mention(Subagent::agent(agent.config.clone()));
        }
    }

    /// The commands `` !`command` `` in the texts of skills and commands, in order. A text that cannot be read
    /// is a diagnostic: it is not used either.
    pub fn text_commands(&self) -> (Vec<TextCommand>, Vec<Diagnostic>) {
        let skills = self.skills.iter();
        let skills = skills.map(|file| (NameKind::Skill, &file.name, &file.path, file.text()));
        let commands = self.commands.iter();
        let commands =
            commands.map(|file| (NameKind::Command, &file.name, &file.path, file.text()));
        let (mut found, mut diagnostics) = (vec![], vec![]);
        for (kind, name, path, text) in skills.chain(commands) {
            match text {
                Err(why) => {
                    let why = why.to_string();
                    diagnostics.push(Diagnostic::new(path, None, Severity::Rejected, why));
                }
                Ok(text) => found.extend(template::commands(&text).map(|line| TextCommand {
                    kind,
                    name: name.clone(),
                    line: line.to_owned(),
                })),
            }
        }
        (found, diagnostics)
    }

    /// The folders whose files belong to skills. Calls may read them even in a closed folder.
    pub fn skill_folders(&self) -> Vec<PathBuf> {
        self.skills.iter().filter_map(|skill| Some(skill.folder()?.to_owned())).collect()
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.skills.clear();
        self.commands.clear();
        self.agents.clear();
        self.diagnostics.clear();
    }

    /// Drops files that are not loaded from a project, then repeats of a name.
    pub(crate) fn keep_first(&mut self) {
        if !self.loading.origin.may_loosen() {
            self.drop_items(|_, _, path| {
                let why = "its name says that it belongs to one person, so it is not loaded";
                state::is_never_loaded(path).then(|| why.to_owned())
            });
        }
        let mut first_names = FirstNames::default();
        self.drop_items(|kind, name, path| {
            let first = text::show_line(&first_names.claim(kind, name, path)?.to_string_lossy())
                .into_owned();
            Some(format!("the {} `{name}` is already defined by {first}", kind.as_str()))
        });
    }

    /// Reports which of several items of one name would be used if they were loaded together. In a collection
    /// that a person chooses from, this is a warning and no error.
    pub(crate) fn report_repeats(&mut self) {
        let mut first_names = FirstNames::default();
        let skills = self.skills.iter().map(|file| (NameKind::Skill, &file.name, &file.path));
        let commands = self.commands.iter().map(|file| (NameKind::Command, &file.name, &file.path));
        let agents = self.agents.iter();
        let agents = agents.map(|file| (NameKind::Subagent, &file.config.name, &file.path));
        let warnings = skills.chain(commands).chain(agents).filter_map(|(kind, name, path)| {
            let first = text::show_line(&first_names.claim(kind, name, path)?.to_string_lossy())
                .into_owned();
            let kind = kind.as_str();
            let why = format!(
                "{first} also defines the {kind} `{name}`; if both are loaded, that file is used"
            );
            Some(Diagnostic::new(path, None, Severity::Warning, why))
        });
        let warnings: Vec<_> = warnings.collect();
        self.diagnostics.extend(warnings);
    }

    fn drop_by_name(&mut self, why: impl Fn(NameKind, &str) -> Option<String>) {
        self.drop_items(|kind, name, _| why(kind, name));
    }

    fn drop_items(&mut self, mut why: impl FnMut(NameKind, &str, &Path) -> Option<String>) {
        let mut diagnostics = vec![];
        let mut keep = |kind: NameKind, name: &str, path: &Path| match why(kind, name, path) {
            None => true,
            Some(why) => {
                diagnostics.push(Diagnostic::new(path, None, Severity::Rejected, why));
                false
            }
        };
        self.skills.retain(|file| keep(NameKind::Skill, &file.name, &file.path));
        self.commands.retain(|file| keep(NameKind::Command, &file.name, &file.path));
        self.agents.retain(|file| keep(NameKind::Subagent, &file.config.name, &file.path));
        self.diagnostics.append(&mut diagnostics);
    }
}

/// The first file of each name.
#[derive(Default)]
struct FirstNames(HashMap<(NameKind, SmolStr), PathBuf>);

impl FirstNames {
    /// The file that had the name before this one; `None` if this file is the first.
    fn claim(&mut self, kind: NameKind, name: &str, path: &Path) -> Option<&Path> {
        match self.0.entry((kind, name.into())) {
            Entry::Occupied(first) => Some(first.into_mut()),
            Entry::Vacant(free) => {
                free.insert(path.to_owned());
                None
            }
        }
    }
}

/// The names that are already taken, with their owners.
#[derive(Clone, Debug, Default)]
pub struct TakenNames(Vec<(NameKind, SmolStr, Owner)>);

impl TakenNames {
    /// The names of an agent, without the names of owners that are loaded again.
    pub fn of(agent: &Agent, except: &[Owner]) -> Self {
        let kinds = [NameKind::Skill, NameKind::Command, NameKind::Subagent, NameKind::Hook];
        let all = kinds.into_iter().flat_map(|kind| agent.names(kind));
        let all = all.filter(|info| !except.iter().any(|owner| owner.is_same_unit(&info.owner)));
        TakenNames(all.map(|info| (info.kind, info.name, info.owner)).collect())
    }

    /// The owner whose registration blocks `name` for `origin`.
    fn find_blocking_owner(&self, kind: NameKind, name: &str, origin: &Origin) -> Option<&Owner> {
        let mut owners = self.0.iter().filter(|(other, known, _)| *other == kind && known == name);
        let found = owners.find(|(_, _, owner)| {
            let built_in = matches!(owner.origin, Origin::Kernel | Origin::Embedder);
            owner.origin == *origin || (built_in && kind == NameKind::Command)
        });
        found.map(|(_, _, owner)| owner)
    }
}

/// State that the files of one folder share.
#[derive(Default)]
pub(crate) struct FolderShared {
    project_cache: ProjectCache,
}

/// The maximum size of one command's output that is passed on, in bytes.
const MAX_OUTPUT_BYTES: usize = 32 * 1024;

impl FolderShared {
    /// Replaces all placeholders and commands of a text.
    async fn fill(&self, text: &str, arguments: &Arguments, controls: &Controls) -> String {
        let variables = self.variables(controls);
        let mut out = String::new();
        for piece in fill(text, arguments, &variables) {
            match piece {
                TemplatePart::Text(text) => out.push_str(&text),
                TemplatePart::Command { line, written } => match line {
                    Ok(line) => out.push_str(&run(controls, &line, written).await),
                    Err(why) => out.push_str(&format!("[`{written}` was not run: {why}]")),
                },
            }
        }
        out
    }

    fn variables(&self, controls: &Controls) -> Variables {
        let project = controls.cx().workspace().project();
        let detected = self.project_cache.get(project);
        let agent = controls.agent();
        let shown = |text: &str| text::show_line(text).into_owned();
        let name = project.file_name().unwrap_or_default().to_string_lossy();
        let is_plan = agent.policy().mode() == Mode::Plan;
        Variables {
            project_name: shown(&name),
            project_path: shown(&project.to_string_lossy()),
            language: detected.language.to_owned(),
            framework: detected.framework.to_owned(),
            agent_id: agent.id().to_string(),
            mode: if is_plan {
                "plan".to_owned()
            } else {
                host::agent_config(agent).mode.to_string()
            },
        }
    }
}

/// The output of a command, or the reason why it failed. The command runs like every other call.
async fn run(controls: &Controls, line: &str, written: &str) -> String {
    match controls.run_tool("bash", json!({"command": line})).await {
        Ok(output) => text::cut_bytes(output.content.text().trim_end(), MAX_OUTPUT_BYTES),
        Err(error) => {
            format!(
                "[`{written}` failed: {}]",
                text::cut_bytes(error.message.trim(), MAX_OUTPUT_BYTES)
            )
        }
    }
}
