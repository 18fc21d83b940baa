//! Skills from files: a folder with a `SKILL.md`, or a single `.md` or `.yaml`.
//!
//! `/name` binds the `id`, or else the name of the folder or file. A `SKILL.md` is offered to the model
//! unless it says `disable-model-invocation: true`. A single file is added when it is named or when one of
//! its triggers matches. Front matter is read when a folder is loaded, the text when it is first needed.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use smol_str::SmolStr;

use crate::{
    extensions::{FolderShared, template::Arguments},
    folder::{
        diagnostic::{Diagnostic, Severity},
        front_matter::{self, FieldError, FrontMatter, YamlFields, YamlValue},
        walk::{FoundFile, LinkPolicy, WalkResult, read, walk},
    },
};
use cotter::{
    Skill,
    history::message::Content,
    host::check_name,
    invoke::{
        callable::BoxError,
        named_item::NameKind,
        skill::{SkillCaller, SkillCx},
        trigger::{MatchScope, Trigger, TriggerKind},
    },
    text,
};

/// The file that makes a folder a skill.
const SKILL_FILE: &str = "SKILL.md";

/// The maximum size of a file in bytes.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// The maximum number of triggers of a skill.
const MAX_TRIGGERS: usize = 64;

/// The keys of a skill that have an effect here. Other keys belong to other programs and are ignored.
pub const KEYS: [&str; 12] = [
    "id",
    "name",
    "description",
    "triggers",
    "agents",
    "tags",
    "license",
    "allowed-tools",
    "argument-hint",
    "disable-model-invocation",
    "metadata",
    "body",
];

/// A skill as its file declares it. The text is read when it is first needed.
#[derive(Debug)]
#[non_exhaustive]
pub struct SkillFile {
    /// The name that `/` binds.
    pub name: SmolStr,
    /// The purpose of the skill.
    pub description: String,
    /// The path of the file.
    pub path: PathBuf,
    /// True if the model may call the skill.
    pub exposed: bool,
    /// The patterns that add the skill without a call.
    pub triggers: Vec<Trigger>,
    /// The agents that the skill is for.
    pub agents: Vec<String>,
    /// Search words for the skill.
    pub tags: Vec<String>,
    pub(crate) text: LazyText,
}

/// The text of a file, after its front matter.
#[derive(Debug)]
pub(crate) struct LazyText {
    /// The path without links.
    real: PathBuf,
    read: OnceLock<Arc<str>>,
}

impl LazyText {
    pub(crate) fn of(found: &FoundFile) -> Self {
        LazyText { real: found.real.clone(), read: OnceLock::new() }
    }

    pub(crate) fn from_text(found: &FoundFile, text: &str) -> Self {
        LazyText { read: OnceLock::from(Arc::from(tidy(text))), ..LazyText::of(found) }
    }

    /// The text, read from the file at the first call.
    pub(crate) fn get(&self) -> Result<Arc<str>, BoxError> {
        if let Some(text) = self.read.get() {
            return Ok(text.clone());
        }
        let shown = || text::show_line(&self.real.to_string_lossy()).into_owned();
        let (bytes, _) = read(&self.real, MAX_BYTES + 1)
            .map_err(|error| format!("{} cannot be read: {error}", shown()))?;
        if bytes.len() > MAX_BYTES {
            return Err(format!("{} has more than {MAX_BYTES} bytes", shown()).into());
        }
        let head =
            front_matter::read(&self.real, &bytes).map_err(|diagnostic| diagnostic.to_string())?;
        let text: Arc<str> = tidy(&String::from_utf8_lossy(&bytes[head.body..])).into();
        Ok(self.read.get_or_init(|| text).clone())
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        self.real.parent()
    }
}

/// A text without blank lines at its ends, and with `\n` line ends.
pub(crate) fn tidy(text: &str) -> String {
    text.replace("\r\n", "\n").trim_matches('\n').trim_end().to_owned()
}

impl SkillFile {
    /// The text as it is written, before placeholders are replaced.
    pub fn text(&self) -> Result<Arc<str>, BoxError> {
        self.text.get()
    }

    /// The folder whose files belong to the skill, if the skill is a folder.
    pub fn folder(&self) -> Option<&Path> {
        let is_folder = self.path.file_name().is_some_and(|name| name == SKILL_FILE);
        self.text.folder().filter(|_| is_folder)
    }

    /// The skill, to be registered.
    pub(crate) fn skill(self: &Arc<Self>, shared: &Arc<FolderShared>) -> Skill {
        let (file, shared_state) = (self.clone(), shared.clone());
        let load = move |cx: SkillCx| {
            let (file, shared) = (file.clone(), shared_state.clone());
            async move { file.load_content(&shared, cx).await }
        };
        let source = self.clone();
        let skill = Skill::new(self.name.clone(), load)
            .description(self.description.clone())
            .agents(self.agents.iter().map(SmolStr::from))
            .tags(self.tags.clone())
            .file(self.path.clone())
            .source_text(move || source.text().map(|text| text.to_string()))
            .triggers(self.triggers.clone());
        if self.exposed { skill.expose_to_agent() } else { skill }
    }

    async fn load_content(&self, shared: &FolderShared, cx: SkillCx) -> Result<Content, BoxError> {
        let arguments = match cx.source {
            // A trigger passes no arguments.
            SkillCaller::Trigger => Arguments::default(),
            _ => Arguments::new(&cx.parsed_text),
        };
        let text = self.text.get()?;
        let mut text = shared.fill(&text, &arguments, &cx.controls).await;
        if let Some(folder) = self.folder()
            && has_more(folder)
        {
            let folder = text::show_line(&folder.to_string_lossy()).into_owned();
            text.push_str(&format!("\n\nThe files of this skill are in {folder}."));
        }
        Ok(Content::Text(text))
    }
}

/// True if a skill's folder holds more than the skill file.
fn has_more(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.nth(1).is_some())
}

/// The skills below a folder, or in one file. An invalid file is skipped and reported.
pub(crate) fn load(root: &Path, links: &LinkPolicy) -> (Vec<Arc<SkillFile>>, Vec<Diagnostic>) {
    let WalkResult { files, mut diagnostics, .. } = walk(root, Some(SKILL_FILE), links);
    let mut skills = vec![];
    for found in files.iter().filter(|found| is_skill(found, root)) {
        match skill(found, &mut diagnostics) {
            Ok(skill) => skills.push(Arc::new(skill)),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    (skills, diagnostics)
}

/// True if a file should be a skill. A readme or license beside skills is not, unless the caller named that
/// file.
fn is_skill(found: &FoundFile, root: &Path) -> bool {
    const NO_SKILLS: [&str; 5] = ["readme", "license", "changelog", "contributing", "notice"];
    matches!(found.ending().as_str(), "md" | "yaml" | "yml")
        && (found.shown == root || !NO_SKILLS.contains(&found.stem().to_lowercase().as_str()))
}

fn skill(found: &FoundFile, diagnostics: &mut Vec<Diagnostic>) -> Result<SkillFile, Diagnostic> {
    let (head, text) = open(found)?;
    let FrontMatter { fields, diagnostics: repairs, is_present, .. } = head;
    let at_file = |repair: Diagnostic| Diagnostic { path: found.shown.clone(), ..repair };
    let mut warnings: Vec<_> = repairs.into_iter().map(at_file).collect();
    let to_diagnostic = |error: FieldError| error.into_diagnostic(&found.shown);
    let is_folder = found.relative.file_name().is_some_and(|name| name == SKILL_FILE);
    let of_folder = |path: &Path| path.parent().and_then(Path::file_name).map(ToOwned::to_owned);
    let default_name = match of_folder(&found.relative).or_else(|| of_folder(&found.real)) {
        Some(folder) if is_folder => folder.to_string_lossy().into_owned(),
        _ => found.stem(),
    };
    let id = match fields.text("id").map_err(to_diagnostic)? {
        Some(id) => check_name(NameKind::Skill, id).map(|()| id.to_owned()).map_err(|why| {
            let line = fields.get("id").map(|field| field.line);
            found.rejected(line, format!("{why}; use letters, digits, `_` and `-`"))
        })?,
        None => found.name(NameKind::Skill, &default_name, &mut warnings)?,
    };
    let title = fields.text("name").map_err(to_diagnostic)?.unwrap_or_default();
    let description = found.description(&fields, &mut warnings)?;
    if is_folder && !title.is_empty() && title != default_name && fields.get("id").is_none() {
        let line = fields.get("name").map(|field| field.line);
        let message = format!("its name is that of its folder, `/{id}`; `name` has no effect");
        warnings.push(found.warning(line, message));
    }
    if !is_present {
        warnings
            .push(found.warning(None, "it has no front matter: it is used only if it is named"));
    } else if description.is_empty() && is_folder {
        warnings.push(found.warning(None, "it has no `description`: the model sees only its name"));
    } else if description.len() > 1024 {
        let line = fields.get("description").map(|field| field.line);
        warnings.push(found.warning(line, "its `description` has more than 1024 bytes"));
    }
    if !is_folder
        && found.relative.file_name().is_some_and(|name| name.eq_ignore_ascii_case(SKILL_FILE))
    {
        let message = format!("its folder is not a skill: for that, name the file `{SKILL_FILE}`");
        warnings.push(found.warning(None, message));
    }
    warnings.extend(warn_of_keys(found, &fields, &KEYS));
    let hidden = fields.flag("disable-model-invocation").map_err(to_diagnostic)?.unwrap_or(false);
    let skill = SkillFile {
        name: id.into(),
        description: if description.is_empty() { title.to_owned() } else { description },
        path: found.shown.clone(),
        exposed: is_folder && !hidden,
        triggers: triggers(&fields).map_err(to_diagnostic)?,
        agents: fields.words("agents").map_err(to_diagnostic)?.unwrap_or_default(),
        tags: fields.words("tags").map_err(to_diagnostic)?.unwrap_or_default(),
        text,
    };
    diagnostics.append(&mut warnings);
    Ok(skill)
}

/// The front matter of a file, and the text after it. A `.yaml` file may also be one mapping with a `body`.
pub(crate) fn open(found: &FoundFile) -> Result<(FrontMatter, LazyText), Diagnostic> {
    let most = front_matter::MAX_BYTES * 4;
    let (bytes, length) = found.read_head(most)?;
    if length > MAX_BYTES as u64 {
        return Err(found.rejected(None, format!("it has more than {MAX_BYTES} bytes")));
    }
    let at = |diagnostic: Diagnostic| Diagnostic { path: found.shown.clone(), ..diagnostic };
    let head = front_matter::read(&found.shown, &bytes);
    if found.ending() == "md" || head.as_ref().is_ok_and(|head| head.is_present) {
        return head.map(|head| (head, LazyText::of(found))).map_err(at);
    }
    if length > bytes.len() as u64 {
        return Err(found.rejected(None, format!("it is a mapping of more than {most} bytes")));
    }
    let head = front_matter::read_mapping(&found.shown, &bytes).map_err(at)?;
    let key = ["body", "prompt"].into_iter().find(|key| head.fields.get(key).is_some());
    let Some(key) = key else {
        return Err(found.rejected(None, "it has neither a front matter nor a `body`"));
    };
    let body = head
        .fields
        .text(key)
        .map_err(|error| error.into_diagnostic(&found.shown))?
        .unwrap_or_default();
    let text = LazyText::from_text(found, body);
    Ok((head, text))
}

fn triggers(fields: &YamlFields) -> Result<Vec<Trigger>, FieldError> {
    let Some(field) = fields.get("triggers") else { return Ok(vec![]) };
    let list = match &field.value {
        YamlValue::Empty => return Ok(vec![]),
        YamlValue::List(list) => list.as_slice(),
        YamlValue::Text(_) => &[(field.line, field.value.clone())],
        _ => return Err(field.error("a list of patterns")),
    };
    if list.len() > MAX_TRIGGERS {
        let message = format!("`triggers` has more than {MAX_TRIGGERS} patterns");
        return Err(FieldError::new(field.line, message));
    }
    list.iter().map(|(line, value)| trigger(*line, value)).collect()
}

fn trigger(line: usize, value: &YamlValue) -> Result<Trigger, FieldError> {
    let error = |line: usize, why: String| FieldError::new(line, why);
    let (line, pattern, kind, scope) = match value {
        YamlValue::Text(pattern) => {
            (line, pattern.as_str(), TriggerKind::Keyword, MatchScope::Anywhere)
        }
        YamlValue::Fields(fields) => {
            let at = |key: &str| fields.get(key).map_or(line, |field| field.line);
            let pattern = match fields.get("pattern").map(|field| &field.value) {
                Some(YamlValue::Text(pattern)) => pattern.as_str(),
                _ => return Err(error(at("pattern"), "a trigger needs a `pattern`".into())),
            };
            let kind = match fields.text("type")? {
                None | Some("keyword") => TriggerKind::Keyword,
                Some("regex") => TriggerKind::Regex,
                Some(other) => {
                    let other = text::cut_chars(&text::show_line(other), 40).into_owned();
                    let why =
                        format!("the `type` of a trigger is `regex` or `keyword`, not `{other}`");
                    return Err(error(at("type"), why));
                }
            };
            let whole_words = fields.flag("word")?.unwrap_or(false);
            let scope = if whole_words { MatchScope::Words } else { MatchScope::Anywhere };
            (at("pattern"), pattern, kind, scope)
        }
        _ => return Err(error(line, "a trigger needs a `pattern`".into())),
    };
    Trigger::new(pattern, kind, scope).map_err(|why| error(line, why.to_string()))
}

/// Warnings about keys that resemble a known key, and about `hooks` and `allowed-tools`, which have no effect
/// here.
pub(crate) fn warn_of_keys(
    found: &FoundFile,
    fields: &YamlFields,
    keys: &[&str],
) -> Vec<Diagnostic> {
    let hooks = fields.get("hooks").map(|field| {
        let message = "`hooks` has no effect here: no hook in it runs";
        Diagnostic::new(&found.shown, Some(field.line), Severity::Warning, message)
    });
    let near =
        fields.iter().filter(|field| !keys.contains(&field.key.as_str())).filter_map(|field| {
            let hint = text::did_you_mean(&field.key, keys.iter().copied())?;
            let key = text::cut_chars(&text::show_line(&field.key), 40).into_owned();
            let message = format!("`{key}` has no effect; {hint}");
            Some(Diagnostic::new(&found.shown, Some(field.line), Severity::Warning, message))
        });
    let allows = fields.get("allowed-tools").map(|field| {
        let message = "`allowed-tools` allows nothing here: use `allow` rules in your settings";
        Diagnostic::new(&found.shown, Some(field.line), Severity::Warning, message)
    });
    near.chain(hooks).chain(allows).collect()
}
