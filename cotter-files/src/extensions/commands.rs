//! Commands from files: `commands/*.md`, whose text is a prompt. The name of a file in a subfolder includes
//! the subfolder: `git/fix.md` is `/git:fix`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use smol_str::SmolStr;

use crate::{
    extensions::{
        FolderShared,
        skills::{LazyText, open, warn_of_keys},
        template::Arguments,
    },
    folder::{
        diagnostic::Diagnostic,
        front_matter::FrontMatter,
        walk::{FoundFile, LinkPolicy, WalkResult, walk},
    },
};
use cotter::{
    Command,
    agent::controls::ModelScope,
    history::message::Content,
    invoke::{
        callable::BoxError,
        command::{CommandCx, CommandResult},
        named_item::NameKind,
    },
};

/// The keys of a command that have an effect here. Other keys belong to other programs and are ignored.
pub const KEYS: [&str; 5] = ["description", "argument-hint", "allowed-tools", "model", "name"];

/// A command as its file declares it. The text is read when it is first needed.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommandFile {
    /// The name that calls the command.
    pub name: SmolStr,
    /// A description of the command.
    pub description: String,
    /// A description of its arguments.
    pub argument_hint: Option<String>,
    /// The model for the prompt, as `provider/model`; without it, the current model answers.
    pub model: Option<String>,
    /// The path of the file.
    pub path: PathBuf,
    text: LazyText,
}

impl CommandFile {
    /// The text as it is written, before placeholders are replaced.
    pub fn text(&self) -> Result<Arc<str>, BoxError> {
        self.text.get()
    }

    /// The command, to be registered.
    pub(crate) fn command(self: &Arc<Self>, shared: &Arc<FolderShared>) -> Command {
        let (file, shared_state) = (self.clone(), shared.clone());
        let run = move |cx: CommandCx| {
            let (file, shared) = (file.clone(), shared_state.clone());
            async move { file.run(&shared, cx).await }
        };
        let description = match &self.argument_hint {
            None => self.description.clone(),
            Some(hint) => format!("{} (arguments: {hint})", self.description).trim().to_owned(),
        };
        Command::new(self.name.clone(), run).description(description)
    }

    async fn run(&self, shared: &FolderShared, cx: CommandCx) -> Result<CommandResult, BoxError> {
        let text = self.text.get()?;
        if let Some(name) = &self.model {
            let model = cx.controls.find_model(name)?;
            cx.controls.set_model(model, ModelScope::Turn)?;
        }
        let arguments = Arguments::new(&cx.args_raw);
        let prompt = shared.fill(&text, &arguments, &cx.controls).await;
        if cx.attachments.is_empty() {
            return Ok(CommandResult::Prompt(Content::Text(prompt)));
        }
        Ok(CommandResult::prompt_with(prompt, cx.attachments))
    }
}

/// The commands below a folder, or in one file. An invalid file is skipped and reported.
pub(crate) fn load(root: &Path, links: &LinkPolicy) -> (Vec<Arc<CommandFile>>, Vec<Diagnostic>) {
    let WalkResult { files, mut diagnostics, .. } = walk(root, None, links);
    let mut commands = vec![];
    for found in files.iter().filter(|found| found.ending() == "md") {
        match command(found, &mut diagnostics) {
            Ok(command) => commands.push(Arc::new(command)),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    (commands, diagnostics)
}

fn command(
    found: &FoundFile,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<CommandFile, Diagnostic> {
    let (FrontMatter { fields, diagnostics: repairs, .. }, text) = open(found)?;
    let to_diagnostic =
        |error: crate::folder::front_matter::FieldError| error.into_diagnostic(&found.shown);
    let folders = found.relative.parent().into_iter().flat_map(Path::iter);
    let folders = folders.map(|name| name.to_string_lossy().into_owned());
    let name = folders.chain([found.stem()]).collect::<Vec<_>>().join(":");
    let mut warnings = vec![];
    let name = found.name(NameKind::Command, &name, &mut warnings)?;
    let text_of = |key: &str| Ok(fields.text(key).map_err(to_diagnostic)?.map(str::to_owned));
    let command = CommandFile {
        name: name.into(),
        description: found.description(&fields, &mut warnings)?,
        argument_hint: match fields.words("argument-hint") {
            // `[a] [b]` is a list in YAML, and a hint here.
            Ok(words) => words.map(|words| words.join(" ")).filter(|hint| !hint.is_empty()),
            Err(error) => return Err(to_diagnostic(error)),
        },
        model: text_of("model")?.filter(|model| model.contains('/')),
        path: found.shown.clone(),
        text,
    };
    let at_file = |repair: Diagnostic| Diagnostic { path: found.shown.clone(), ..repair };
    diagnostics.extend(repairs.into_iter().map(at_file));
    if command.model.is_none()
        && let Some(model) = fields.get("model")
        && text_of("model")?.is_some_and(|model| model != "inherit")
    {
        let message = "`model` is not `provider/model`: the session's model is used";
        warnings.push(found.warning(Some(model.line), message));
    }
    diagnostics.append(&mut warnings);
    diagnostics.extend(warn_of_keys(found, &fields, &KEYS));
    Ok(command)
}
