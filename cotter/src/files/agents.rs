//! Agents from files: `agents/*.md`, whose text is the prompt, or `agents/*.yaml` with a `prompt`. Each is
//! a subagent that the model may call.
//!
//! What an agent may use it may use among what its caller has: nothing a file says widens that. Where a
//! file would narrow it in a way that is not kept here, the file is left out.

use std::path::{Path, PathBuf};

use smol_str::SmolStr;

use super::{
    Diagnostic, FileKind, Told,
    front_matter::{FieldError, Fields, FrontMatter},
    hooks::of_settings,
    skills::{mistyped, open},
    walk::{Found, Walked, walk},
};
use crate::{
    agents::AgentConfig,
    ext::{Kind, check_name, tool_globs},
    profile::{Leave, Profile},
    settings::Document,
    tool::our_name,
};

/// The keys of an agent that mean something here. Others are somebody else's and stand without effect.
pub const KEYS: [&str; 9] =
    ["id", "name", "description", "prompt", "body", "tools", "skills", "model", "mode"];

/// An agent as its file tells.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentFile {
    /// What it is made of.
    pub config: AgentConfig,
    /// The file.
    pub path: PathBuf,
}

/// The file of a profile. A folder that has one is a profile, and nothing else in it is an agent.
const PROFILE: &str = "agent.json";

/// The agents below a folder, or in one file. What cannot be one is left out and told.
pub(super) fn load(root: &Path) -> (Vec<AgentFile>, Vec<Diagnostic>) {
    let Walked { files, mut diagnostics, .. } = walk(root, Some(PROFILE));
    let mut agents = vec![];
    let is_agent = |found: &&Found| matches!(found.ending().as_str(), "md" | "yaml" | "yml");
    for found in files.iter().filter(is_agent).filter(|found| found.stem() != "README") {
        match agent(found, &mut diagnostics) {
            Ok(config) => agents.push(AgentFile { config, path: found.shown.clone() }),
            Err(told) => diagnostics.push(told),
        }
    }
    (agents, diagnostics)
}

/// The profiles below a folder, or the one file, and what is wrong with them.
pub(super) fn check_profiles(root: &Path) -> Told {
    let files = walk(root, Some(PROFILE)).files;
    let profiles = files.iter().filter(|found| {
        // A file by itself may be called anything.
        found.relative.ends_with(PROFILE) || found.ending() == "json"
    });
    let (mut paths, mut diagnostics) = (vec![], vec![]);
    for found in profiles {
        paths.push((found.shown.clone(), FileKind::Profiles));
        let folder = found.real.parent().and_then(Path::file_name).unwrap_or_default();
        let read = Document::load(&found.real).and_then(|document| match document {
            Some(document) => {
                let name = folder.to_string_lossy();
                Profile::from_document(&document, &name, Leave::to_look()).map(drop)
            }
            None => Ok(()),
        });
        diagnostics.extend(read.err().map(|error| of_settings(&found.shown, &error)));
    }
    (paths, diagnostics)
}

fn agent(found: &Found, diagnostics: &mut Vec<Diagnostic>) -> Result<AgentConfig, Diagnostic> {
    let (FrontMatter { fields, diagnostics: told, .. }, text) = open(found)?;
    let of = |error: FieldError| error.of(&found.shown);
    let text_of = |key: &str| Ok(fields.text(key).map_err(of)?.map(str::to_owned));
    let id = name(&fields, found).map_err(of)?;
    check_name(Kind::Subagent, &id).map_err(|why| found.rejected(None, why))?;
    let prompt = match text_of("prompt")? {
        Some(prompt) => prompt,
        None => text.get().map_err(|why| found.rejected(None, why.to_string()))?.to_string(),
    };
    if prompt.trim().is_empty() {
        return Err(
            found.rejected(None, "it has no prompt: nothing is written below its front matter")
        );
    }
    refuse_what_is_not_kept(&fields).map_err(of)?;
    let mut config = AgentConfig::new(id).with_system_prompt(prompt);
    config.description = text_of("description")?.unwrap_or_default();
    config.tools = tools(&fields).map_err(of)?;
    let skills = listed(&fields, "skills").map_err(of)?;
    config.skills = skills.into_iter().map(SmolStr::from).collect();
    if let Some(mode) = text_of("mode")? {
        config.mode = mode.into();
    }
    let mut warnings = vec![];
    match text_of("model")? {
        Some(model) if model.contains('/') => config.model = Some(model.into()),
        None => {}
        Some(model) if model == "inherit" => {}
        Some(_) => {
            let line = fields.get("model").map(|field| field.line);
            let message = "`model` is not written as `provider/model`: its caller's is used";
            warnings.push(found.warning(line, message));
        }
    }
    if config.description.is_empty() {
        let message = "it has no `description`: the model sees its name only";
        warnings.push(found.warning(None, message));
    }
    diagnostics
        .extend(told.into_iter().map(|told| Diagnostic { path: found.shown.clone(), ..told }));
    diagnostics.append(&mut warnings);
    diagnostics.extend(mistyped(found, &fields, &KEYS));
    Ok(config)
}

/// What it is called by: its `id`, a `name` that can be one, or its file's name.
fn name(fields: &Fields, found: &Found) -> Result<String, FieldError> {
    if let Some(id) = fields.text("id")? {
        return Ok(id.to_owned());
    }
    let name = fields.text("name")?.filter(|name| check_name(Kind::Subagent, name).is_ok());
    Ok(name.map_or_else(|| found.stem(), str::to_owned))
}

fn refuse_what_is_not_kept(fields: &Fields) -> Result<(), FieldError> {
    let narrows = ["disallowedTools", "disallowed-tools", "blocked_tools", "permissionMode"];
    match narrows.iter().find_map(|key| fields.get(key)) {
        None => Ok(()),
        Some(field) => {
            let why =
                format!("`{}` would not be kept here; `tools` names what it may call", field.key);
            Err(FieldError::new(field.line, why))
        }
    }
}

fn tools(fields: &Fields) -> Result<Vec<String>, FieldError> {
    let line = fields.get("tools").map_or(1, |field| field.line);
    let ours = |name: String| our_name(&name).map_or(name, str::to_owned);
    let tools: Vec<_> = listed(fields, "tools")?.into_iter().map(ours).collect();
    if let Some(call) = tools.iter().find(|tool| tool.contains('(')) {
        let call = crate::text::clip(&crate::text::show_line(call), 40).into_owned();
        let why = format!("`tools` names tools, and `{call}` is a kind of call");
        return Err(FieldError::new(line, why));
    }
    tool_globs(&tools).map_err(|why| FieldError::new(line, format!("`tools`: {why}")))?;
    Ok(tools)
}

/// The words of a key. An empty list would be no limit, which is not what it says.
fn listed(fields: &Fields, key: &str) -> Result<Vec<String>, FieldError> {
    let Some(words) = fields.words(key)? else { return Ok(vec![]) };
    if words.is_empty() {
        let line = fields.get(key).map_or(1, |field| field.line);
        let why = format!("`{key}` names none, which would be all: name some, or leave it out");
        return Err(FieldError::new(line, why));
    }
    Ok(words)
}
