//! Agents from files: `agents/*.md`, whose text is the prompt, or `agents/*.yaml` with a `prompt`. Each is a
//! subagent that the model may call.
//!
//! An agent may use only what its caller has: a file cannot widen that. A key that would widen it is reported
//! and ignored. A limit that cannot be applied exactly is applied more strictly.

use std::path::{Path, PathBuf};

use smol_str::SmolStr;

use crate::{
    extensions::skills::{open, warn_of_keys},
    folder::{
        diagnostic::{Diagnostic, Severity},
        front_matter::{FieldError, FrontMatter, YamlFields, YamlValue},
        walk::{FoundFile, LinkPolicy, WalkResult, walk},
    },
};
use cotter::{
    AgentConfig,
    host::{check_globs, check_name, our_name, our_tools},
    invoke::named_item::NameKind,
    text,
};

/// The keys of an agent that have an effect here. Other keys belong to other programs and are ignored.
pub const KEYS: [&str; 11] = [
    "id",
    "name",
    "description",
    "prompt",
    "body",
    "tools",
    "disallowedTools",
    "permissionMode",
    "skills",
    "model",
    "mode",
];

/// Other spellings of `disallowedTools`.
const DISALLOWED_TOOLS_KEYS: [&str; 3] = ["disallowedTools", "disallowed-tools", "blocked_tools"];

/// The item of a list that matches no name: nothing has this name.
const NO_MATCH: &str = "-";

/// An agent as its file declares it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentFile {
    /// The configuration of the agent.
    pub config: AgentConfig,
    /// The path of the file.
    pub path: PathBuf,
    /// The lines of the allowed tools and of the disallowed tools.
    lines: [Option<usize>; 2],
}

/// A tool that a file names, with the path and line.
pub(crate) type NamedTool = (PathBuf, Option<usize>, String);

impl AgentFile {
    /// The tools that the file names: the allowed and the disallowed ones.
    pub(crate) fn named_tools(&self) -> impl Iterator<Item = NamedTool> {
        let AgentConfig { tools, without_tools, .. } = &self.config;
        let tools_with_lines = [tools, without_tools].into_iter().zip(self.lines);
        let tools_with_lines =
            tools_with_lines.flat_map(|(tools, line)| tools.iter().map(move |tool| (line, tool)));
        let tools_with_lines = tools_with_lines.filter(|(_, tool)| *tool != NO_MATCH);
        tools_with_lines.map(|(line, tool)| (self.path.clone(), line, tool.clone()))
    }
}

/// The file of a profile. A folder that has one is a profile; its other files are not agents.
pub(crate) const PROFILE: &str = "agent.json";

/// The agents below a folder, or in one file. An invalid file is skipped and reported.
pub(crate) fn load(root: &Path, links: &LinkPolicy) -> (Vec<AgentFile>, Vec<Diagnostic>) {
    let WalkResult { files, mut diagnostics, .. } = walk(root, Some(PROFILE), links);
    let mut agents = vec![];
    let is_agent = |found: &&FoundFile| matches!(found.ending().as_str(), "md" | "yaml" | "yml");
    let is_readme = |found: &FoundFile| found.stem() == "README" && found.shown != root;
    for found in files.iter().filter(is_agent).filter(|found| !is_readme(found)) {
        match agent(found, &mut diagnostics) {
            Ok((config, lines)) => {
                agents.push(AgentFile { config, path: found.shown.clone(), lines });
            }
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    (agents, diagnostics)
}

/// Reads the agent of a file, with the lines of its tools.
fn agent(
    found: &FoundFile,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(AgentConfig, [Option<usize>; 2]), Diagnostic> {
    let (FrontMatter { fields, diagnostics: repairs, .. }, text) = open(found)?;
    let to_diagnostic = |error: FieldError| error.into_diagnostic(&found.shown);
    let text_of = |key: &str| Ok(fields.text(key).map_err(to_diagnostic)?.map(str::to_owned));
    let mut warnings = vec![];
    let id = match name(&fields).map_err(to_diagnostic)? {
        Some(name) => name,
        None => found.name(NameKind::Subagent, &found.stem(), &mut warnings)?,
    };
    check_name(NameKind::Subagent, &id).map_err(|why| found.rejected(None, why))?;
    let prompt = match text_of("prompt")? {
        Some(prompt) => prompt,
        None => text.get().map_err(|why| found.rejected(None, why.to_string()))?.to_string(),
    };
    if prompt.trim().is_empty() {
        return Err(found.rejected(None, "it has no prompt: write it below the front matter"));
    }
    let mut config = AgentConfig::new(id).with_system_prompt(prompt);
    config.description = found.description(&fields, &mut warnings)?;
    let mut limits = AgentLimitReader { found, fields: &fields, diagnostics: &mut warnings };
    config.tools = limits.tools().map_err(to_diagnostic)?;
    config.without_tools = limits.without_tools().map_err(to_diagnostic)?;
    config.is_read_only = limits.is_read_only().map_err(to_diagnostic)?;
    let skills = limits.read_list("skills").map_err(to_diagnostic)?;
    config.skills = skills.into_iter().map(SmolStr::from).collect();
    if let Some(mode) = text_of("mode")? {
        config.mode = mode.into();
    }
    match text_of("model")? {
        Some(model) if model.contains('/') => config.model = Some(model.into()),
        None => {}
        Some(model) if model == "inherit" => {}
        Some(_) => {
            let line = fields.get("model").map(|field| field.line);
            let message = "`model` is not `provider/model`: the caller's model is used";
            warnings.push(found.warning(line, message));
        }
    }
    if config.description.is_empty() {
        let message = "it has no `description`: the model sees only its name";
        warnings.push(found.warning(None, message));
    }
    let at_file = |repair: Diagnostic| Diagnostic { path: found.shown.clone(), ..repair };
    diagnostics.extend(repairs.into_iter().map(at_file));
    diagnostics.append(&mut warnings);
    let known: Vec<_> = KEYS.into_iter().chain(DISALLOWED_TOOLS_KEYS).collect();
    diagnostics.extend(warn_of_keys(found, &fields, &known));
    let line = |key: &str| fields.get(key).map(|field| field.line);
    Ok((config, [line("tools"), DISALLOWED_TOOLS_KEYS.into_iter().find_map(line)]))
}

/// The name of the agent: its `id`, or a valid `name`. `None` if there is neither; then the file's name is
/// used.
fn name(fields: &YamlFields) -> Result<Option<String>, FieldError> {
    if let Some(id) = fields.text("id")? {
        return Ok(Some(id.to_owned()));
    }
    let name = fields.text("name")?.filter(|name| check_name(NameKind::Subagent, name).is_ok());
    Ok(name.map(str::to_owned))
}

/// Reads the limits of an agent from its file.
struct AgentLimitReader<'a> {
    found: &'a FoundFile,
    fields: &'a YamlFields,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl AgentLimitReader<'_> {
    fn report(&mut self, severity: Severity, line: usize, message: String) {
        self.diagnostics.push(Diagnostic::new(&self.found.shown, Some(line), severity, message));
    }

    /// The allowed tools, by Cotter's names. An entry that is a kind of call is skipped, because the whole
    /// tool would be too much.
    fn tools(&mut self) -> Result<Vec<String>, FieldError> {
        let (mut tools, mut calls) = (vec![], vec![]);
        for word in self.read_list("tools")? {
            if word.contains('(') { calls.push(word) } else { tools.push(ours(&word)) }
        }
        let line = self.fields.get("tools").map_or(1, |field| field.line);
        for call in &calls {
            let call = text::cut_chars(&text::show_line(call), 40).into_owned();
            let why = format!("`{call}` in `tools` is a kind of call, not a tool: it is skipped");
            self.report(Severity::Repaired, line, why);
        }
        if tools.is_empty() && !calls.is_empty() {
            tools.push(NO_MATCH.into());
        }
        self.check(tools, "tools")
    }

    /// The disallowed tools. An entry that is a kind of call disallows the whole tool.
    fn without_tools(&mut self) -> Result<Vec<String>, FieldError> {
        let mut tools = vec![];
        for key in DISALLOWED_TOOLS_KEYS {
            let Some(words) = self.fields.words(key)? else { continue };
            let line = self.fields.get(key).map_or(1, |field| field.line);
            for word in words {
                let tool = match word.split_once('(') {
                    None => &word,
                    Some((tool, _)) => {
                        let call = text::cut_chars(&text::show_line(&word), 40).into_owned();
                        let why =
                            format!("`{call}` is a kind of call: the whole tool is disallowed");
                        self.report(Severity::Repaired, line, why);
                        tool
                    }
                };
                // Tools that do the same under another name are disallowed too.
                tools.extend(our_tools(tool).into_iter().map(str::to_owned));
                if ours(tool) == "bash" {
                    tools.push("bash_background".into());
                }
                tools.push(ours(tool));
                tools.sort();
                tools.dedup();
            }
            tools = self.check(tools, key)?;
        }
        Ok(tools)
    }

    /// True if the agent only reads. A mode that would permit more than the caller's mode has no effect.
    fn is_read_only(&mut self) -> Result<bool, FieldError> {
        let line = self.fields.get("permissionMode").map_or(1, |field| field.line);
        match self.fields.text("permissionMode")? {
            Some("plan") => Ok(true),
            None | Some("default") => Ok(false),
            Some(mode) => {
                let mode = text::cut_chars(&text::show_line(mode), 40).into_owned();
                let why =
                    format!("`permissionMode` `{mode}` has no effect: the caller's mode applies");
                self.report(Severity::Warning, line, why);
                Ok(false)
            }
        }
    }

    /// The words of a key. An empty list means none; an empty value means no limit.
    fn read_list(&mut self, key: &str) -> Result<Vec<String>, FieldError> {
        let Some(words) = self.fields.words(key)? else { return Ok(vec![]) };
        let Some(field) = self.fields.get(key).filter(|_| words.is_empty()) else {
            return Ok(words);
        };
        match field.value {
            YamlValue::List(_) => {
                self.report(
                    Severity::Warning,
                    field.line,
                    format!("`{key}` is empty: the agent has none"),
                );
                Ok(vec![NO_MATCH.into()])
            }
            _ => {
                let why = format!("`{key}` has no value and no effect");
                self.report(Severity::Warning, field.line, why);
                Ok(vec![])
            }
        }
    }

    fn check(&self, tools: Vec<String>, key: &str) -> Result<Vec<String>, FieldError> {
        let line = self.fields.get(key).map_or(1, |field| field.line);
        check_globs(&tools).map_err(|why| FieldError::new(line, format!("`{key}`: {why}")))?;
        Ok(tools)
    }
}

fn ours(name: &str) -> String {
    our_name(name).unwrap_or(name).to_owned()
}
