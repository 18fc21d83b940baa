//! `settings.json` and the meaning of its keys. This room prints nothing and reads no environment. It does
//! not search for files: the caller names each file and its owner.
//!
//! [`Document`] and [`Node`] read the file strictly; [`Settings`] gives the keys their meaning. A new section
//! needs a field of [`Settings`], its key in `KEYS`, and a function from [`Node`] to the section's type. If
//! the nearest file wins, it also needs a line in [`Settings::merge`].

pub mod models;
pub mod permissions;
pub mod mcp_servers;

pub use crate::document::location::{SettingsError, SourceLocation, SourcedText};
pub use crate::document::{Document, MAX_BYTES, Node, Object};
pub use crate::settings::models::{ModelSettings, ProviderSettings};
pub use crate::settings::permissions::{Permissions, RuleExample};

/// Readers of sections that other files have too.
pub(crate) mod sections {
    pub(crate) use super::{count, one_text};
    pub(crate) use crate::settings::permissions::{permissions, policy, rule};
}

use crate::command_hook::entry::{CommandHook, OnFailure};
use cotter::permission::mode::Sandbox;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Read},
    path::Path,
    sync::Arc,
};

/// The keys of a settings file.
const KEYS: &[&str] = &[
    "$schema",
    "model",
    "fallbackModels",
    "providers",
    "models",
    "permissions",
    "limits",
    "sandbox",
    "roots",
    "readRoots",
    "caches",
    "hookRoots",
    "environment",
    "mcpServers",
    "hooks",
    "disable",
    "plugins",
    "claude",
    "claudeHooks",
];
const LIMIT_KEYS: &[&str] = &["maxTurns", "maxBudgetUsd"];

/// Keys that a project's settings must not have, because their values could loosen something or send data
/// elsewhere.
pub const KEYS_CLOSED_TO_PROJECTS: &[&str] = &[
    "providers",
    "models",
    "sandbox",
    "roots",
    "readRoots",
    "caches",
    "hookRoots",
    "environment",
    "disable",
    "plugins",
    "claude",
];

/// The contents of one settings file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// The owner of the file; `None` for settings made in code.
    pub source: Option<SettingsOwner>,
    /// The model as `provider/model`.
    pub model: Option<SourcedText>,
    /// The models to use if the ones before them fail.
    pub fallback_models: Option<Vec<SourcedText>>,
    /// The providers, by the name before the slash.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Data about models, by `provider/model`.
    pub models: BTreeMap<String, ModelSettings>,
    /// The rules: calls that run without a question, that ask, and that never run.
    pub permissions: Permissions,
    /// The limits of a run.
    pub limits: LimitSettings,
    /// The sandbox for calls that run commands.
    pub sandbox: Option<Sandbox>,
    /// Folders and variables for tools.
    pub access: AccessSettings,
    /// Command hooks.
    pub hooks: Vec<CommandHook>,
    /// Disabled hooks, by name.
    pub disable: Vec<SourcedText>,
    /// Folders of plugins.
    pub plugins: Vec<SourcedText>,
    /// Settings for files that were written for Claude Code.
    pub claude: ClaudeSettings,
}

/// Settings for files that were written for Claude Code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaudeSettings {
    /// True if the files in the user's home folder are used: `claude.home`.
    pub home: Option<bool>,
    /// The effect of a failure of a hook written for Claude Code: `claudeHooks.onFailure`. `block` in any
    /// file wins over `pass`.
    pub on_failure: Option<OnFailure>,
}

/// Access of tools besides the project. Only the settings of the user and the operator may grant it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessSettings {
    /// More folders that may be read and written: `roots`.
    pub roots: Vec<SourcedText>,
    /// More folders that may be read: `readRoots`.
    pub read_roots: Vec<SourcedText>,
    /// More folders that commands in the sandbox may write: `caches`.
    pub caches: Vec<SourcedText>,
    /// Folders and log files that a project's hooks may write besides: `hookRoots`.
    pub hook_roots: Vec<SourcedText>,
    /// Variables that commands get besides the usual ones: `environment`.
    pub environment: Vec<SourcedText>,
}

/// The owner of a settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettingsOwner {
    /// The machine's settings, owned by root.
    Operator,
    /// The user's own settings.
    User,
    /// The file named on the command line.
    File,
    /// The project's settings, which may only tighten.
    Project,
}

impl SettingsOwner {
    /// The word for this owner in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            SettingsOwner::Operator => "operator",
            SettingsOwner::User => "user",
            SettingsOwner::File => "file",
            SettingsOwner::Project => "project",
        }
    }
}

/// The section `limits`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LimitSettings {
    /// The maximum number of steps in a run, at least 1.
    pub max_turns: Option<u32>,
    /// The maximum cost of a run in dollars, above 0.
    pub max_budget_usd: Option<f64>,
}

impl Settings {
    /// Reads a file. A missing file gives `None`; an unreadable file is an error.
    pub fn load(path: &Path, source: SettingsOwner) -> Result<Option<Settings>, SettingsError> {
        let document = Document::load(path)?;
        document.map(|document| Settings::from_document(&document, source)).transpose()
    }

    /// Reads the settings from a document.
    pub fn from_document(
        document: &Document,
        source: SettingsOwner,
    ) -> Result<Settings, SettingsError> {
        let object = document.root().object()?.keys(KEYS)?;
        if source == SettingsOwner::Project {
            reject_loosening_keys(&object)?;
        }
        // `$schema` is for editors and has no effect.
        object.get("$schema").map(|node| node.string()).transpose()?;
        let list = |key| object.get(key).map(texts).transpose().map(Option::unwrap_or_default);
        Ok(Settings {
            source: Some(source),
            model: object.get("model").map(one_text).transpose()?,
            fallback_models: object.get("fallbackModels").map(texts).transpose()?,
            providers: object
                .get("providers")
                .map(crate::settings::models::providers)
                .transpose()?
                .unwrap_or_default(),
            models: object
                .get("models")
                .map(crate::settings::models::models)
                .transpose()?
                .unwrap_or_default(),
            permissions: object
                .get("permissions")
                .map(crate::settings::permissions::permissions)
                .transpose()?
                .unwrap_or_default(),
            limits: object.get("limits").map(limits).transpose()?.unwrap_or_default(),
            sandbox: object.get("sandbox").map(|node| node.one_of(Sandbox::WORDS)).transpose()?,
            access: AccessSettings {
                roots: list("roots")?,
                read_roots: list("readRoots")?,
                caches: list("caches")?,
                hook_roots: list("hookRoots")?,
                environment: list("environment")?,
            },
            hooks: object.get("hooks").map(CommandHook::read_all).transpose()?.unwrap_or_default(),
            disable: list("disable")?,
            plugins: list("plugins")?,
            claude: read_claude_settings(&object)?,
        })
    }

    /// Merges the plain values of several files, given nearest first: the nearest file that has a value wins.
    /// An entry of a section is one value, so a key never goes to an address from another file.
    ///
    /// Permissions are not merged. Each file's permissions are registered under their own owner, and the
    /// policy folds them: a deny of any file stays, and no file is looser than the operator.
    pub fn merge<'s>(nearest_first: impl IntoIterator<Item = &'s Settings>) -> MergedSettings {
        let mut merged = MergedSettings::default();
        // The limits of projects may only tighten.
        let mut projects = LimitSettings::default();
        for settings in nearest_first {
            let LimitSettings { max_turns, max_budget_usd } = settings.limits;
            merged.model = merged.model.or_else(|| settings.model.clone());
            merged.fallback_models =
                merged.fallback_models.or_else(|| settings.fallback_models.clone());
            for (name, provider) in &settings.providers {
                merged.providers.entry(name.clone()).or_insert_with(|| provider.clone());
            }
            for (name, model) in &settings.models {
                merged.models.entry(name.clone()).or_insert(*model);
            }
            if settings.source == Some(SettingsOwner::Project) {
                projects.max_turns = tighter(projects.max_turns, max_turns);
                projects.max_budget_usd = tighter(projects.max_budget_usd, max_budget_usd);
            } else {
                merged.limits.max_turns = merged.limits.max_turns.or(max_turns);
                merged.limits.max_budget_usd = merged.limits.max_budget_usd.or(max_budget_usd);
            }
            merged.merge_access(settings);
        }
        let LimitSettings { max_turns, max_budget_usd } = merged.limits;
        merged.limits.max_turns = tighter(max_turns, projects.max_turns);
        merged.limits.max_budget_usd = tighter(max_budget_usd, projects.max_budget_usd);
        merged
    }
}

/// The lower of two limits; if only one is set, that one.
pub fn tighter<T: PartialOrd>(first: Option<T>, second: Option<T>) -> Option<T> {
    match (first, second) {
        (Some(first), Some(second)) => Some(if second < first { second } else { first }),
        (first, second) => first.or(second),
    }
}

/// The merged values of several settings files, without permissions.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct MergedSettings {
    /// The model as `provider/model`.
    pub model: Option<SourcedText>,
    /// The models to use if the ones before them fail.
    pub fallback_models: Option<Vec<SourcedText>>,
    /// The providers, by the name before the slash.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Data about models, by `provider/model`.
    pub models: BTreeMap<String, ModelSettings>,
    /// The limits of a run.
    pub limits: LimitSettings,
    /// The sandbox for calls that run commands: the nearest value, but at least as strict as the operator's.
    pub sandbox: Option<Sandbox>,
    /// Folders and variables for tools, from all files.
    pub access: AccessSettings,
}

impl MergedSettings {
    fn merge_access(&mut self, settings: &Settings) {
        let AccessSettings { roots, read_roots, caches, hook_roots, environment } =
            &settings.access;
        self.access.hook_roots.extend_from_slice(hook_roots);
        self.access.roots.extend_from_slice(roots);
        self.access.read_roots.extend_from_slice(read_roots);
        self.access.caches.extend_from_slice(caches);
        self.access.environment.extend_from_slice(environment);
        self.sandbox = match settings.source {
            Some(SettingsOwner::Operator) => self.sandbox.max(settings.sandbox),
            _ => self.sandbox.or(settings.sandbox),
        };
    }
}

impl Document {
    /// Reads and parses a file. A missing file gives `None`; an unreadable file is an error.
    pub fn load(path: &Path) -> Result<Option<Document>, SettingsError> {
        let file = crate::document::file_name(path);
        let bytes = read(path, &file)?;
        bytes.map(|bytes| Document::parse_bytes(&file, &bytes)).transpose()
    }
}

/// Rejects settings that a project must not have, even if it is trusted.
fn reject_loosening_keys(object: &Object<'_>) -> Result<(), SettingsError> {
    const HINT: &str = "a project may only tighten: move this to your own settings";
    let mut closed = KEYS_CLOSED_TO_PROJECTS.iter().filter_map(|key| Some((key, object.get(key)?)));
    if let Some((key, node)) = closed.next() {
        let message = format!("`{key}` is not allowed in a project's settings");
        return Err(node.error(message).with_hint(HINT));
    }
    let permissions = object.get("permissions").map(|node| node.object()).transpose()?;
    let allow = permissions.and_then(|permissions| permissions.get("allow"));
    match allow.map(|node| Ok((node.list()?.next().is_some(), node))).transpose()? {
        Some((true, node)) => {
            Err(node.error("`allow` rules are not allowed in a project's settings").with_hint(HINT))
        }
        _ => Ok(()),
    }
}

fn read_claude_settings(object: &Object<'_>) -> Result<ClaudeSettings, SettingsError> {
    let claude = object.get("claude").map(|node| node.object()?.keys(&["home"])).transpose()?;
    let hooks = object.get("claudeHooks").map(|node| node.object()?.keys(&["onFailure"]));
    let home = claude.and_then(|claude| claude.get("home"));
    let on_failure = hooks.transpose()?.and_then(|hooks| hooks.get("onFailure"));
    Ok(ClaudeSettings {
        home: home.map(|node| node.bool()).transpose()?,
        on_failure: on_failure.map(|node| node.one_of(OnFailure::WORDS)).transpose()?,
    })
}

/// Reads a list of texts, none of them empty.
fn texts(node: Node<'_>) -> Result<Vec<SourcedText>, SettingsError> {
    node.list()?.map(one_text).collect()
}

pub(crate) fn one_text(node: Node<'_>) -> Result<SourcedText, SettingsError> {
    Ok(SourcedText { text: node.non_empty_string()?.to_owned(), location: node.location() })
}

fn limits(node: Node<'_>) -> Result<LimitSettings, SettingsError> {
    let object = node.object()?.keys(LIMIT_KEYS)?;
    Ok(LimitSettings {
        max_turns: object.get("maxTurns").map(count).transpose()?,
        max_budget_usd: object.get("maxBudgetUsd").map(amount).transpose()?,
    })
}

pub(crate) fn count(node: Node<'_>) -> Result<u32, SettingsError> {
    let number = node.u64_in(1..=u32::MAX.into())?;
    u32::try_from(number).map_err(|_| node.expected("a smaller number"))
}

fn amount(node: Node<'_>) -> Result<f64, SettingsError> {
    match node.f64()? {
        number if number > 0.0 => Ok(number),
        _ => Err(node.expected("a number above 0")),
    }
}

fn read(path: &Path, file: &Arc<str>) -> Result<Option<Vec<u8>>, SettingsError> {
    let cannot_read =
        |error: io::Error| SettingsError::of_file(file, "cannot read the file").with_source(error);
    // The type is checked before opening: opening a pipe would wait for a writer.
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return check_missing_file(path, file),
        metadata => metadata.map_err(cannot_read)?,
    };
    if metadata.is_dir() {
        return Err(SettingsError::of_file(file, "expected a file, found a folder"));
    }
    if !metadata.is_file() {
        return Err(SettingsError::of_file(
            file,
            "expected a file, found a device, pipe or socket",
        ));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed tells the parser that the file is too large. The size in the metadata may
    // change.
    let limit = MAX_BYTES as u64 + 1;
    let result = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    result.map_err(cannot_read)?;
    Ok(Some(bytes))
}

/// A missing file means no settings; a link to a missing file is an error that the user should see.
fn check_missing_file(path: &Path, file: &Arc<str>) -> Result<Option<Vec<u8>>, SettingsError> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let target = fs::read_link(path).unwrap_or_default();
    let message =
        format!("link to `{}`, which does not exist", crate::document::file_name(&target));
    Err(SettingsError::of_file(file, message).with_hint("remove the link or create its target"))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::error::Error;

    use cotter::permission::mode::{Level, Mode};

    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(input: &str, expected: Expect) {
        check_bytes(input.as_bytes(), expected);
    }

    /// Compares the output that a person sees: the settings, or the error with its hint.
    fn check_bytes(input: &[u8], expected: Expect) {
        let settings = Document::parse_bytes("settings.json", input)
            .and_then(|document| Settings::from_document(&document, SettingsOwner::User));
        expected.assert_eq(&outcome(settings.map(|settings| render(&settings))));
    }

    fn check_merge(nearest_first: &[(SettingsOwner, &str)], expected: Expect) {
        let parse = |(source, text): &(SettingsOwner, &str)| {
            let document =
                Document::parse(source.as_str(), text).expect("the test's document parses");
            Settings::from_document(&document, *source).expect("the test's settings are good")
        };
        let settings: Vec<_> = nearest_first.iter().map(parse).collect();
        let MergedSettings {
            model,
            fallback_models,
            providers,
            models,
            limits,
            sandbox,
            access: reach,
        } = Settings::merge(&settings);
        let merged = Settings {
            model,
            fallback_models,
            providers,
            models,
            limits,
            sandbox,
            access: reach,
            ..Settings::default()
        };
        expected.assert_eq(&render(&merged));
    }

    fn check_load(path: &Path, expected: Expect) {
        let folder =
            path.parent().map(|folder| format!("{}/", folder.display())).unwrap_or_default();
        let loaded = Settings::load(path, SettingsOwner::User).map(|settings| match settings {
            Some(settings) => render(&settings),
            None => "none".to_owned(),
        });
        expected.assert_eq(&outcome(loaded).replace(&folder, ""));
    }

    /// Reads the value of `x` with `ask`, to test `Node` alone.
    fn check_node<T: std::fmt::Debug>(
        value: &str,
        ask: impl Fn(Node<'_>) -> Result<T, SettingsError>,
        expected: Expect,
    ) {
        let document = Document::parse("x.json", &format!("{{\"x\": {value}}}"));
        let answer = document.and_then(|document| {
            ask(document.root().object()?.require("x")?).map(|answer| format!("{answer:?}"))
        });
        expected.assert_eq(&outcome(answer));
    }

    fn outcome(result: Result<String, SettingsError>) -> String {
        let error = match result {
            Ok(text) => return text,
            Err(error) => error,
        };
        let mut text = format!("error: {error}");
        if let Some(source) = error.source() {
            text += &format!("\n  caused by: {source}");
        }
        if let Some(hint) = error.hint() {
            text += &format!("\nhint: {hint}");
        }
        text
    }

    fn render(settings: &Settings) -> String {
        let Settings { model, fallback_models, providers, models, permissions, limits, .. } =
            settings;
        let at = |written: &SourcedText| format!("{} at {}", written.text, written.location);
        let mut lines = Vec::new();
        lines.extend(model.iter().map(|model| format!("model {}", at(model))));
        lines.extend(fallback_models.as_ref().map(|models| {
            format!("fallback [{}]", models.iter().map(at).collect::<Vec<_>>().join(", "))
        }));
        for (name, provider) in providers {
            lines.push(format!("provider {name} at {}", provider.location));
            lines.extend(provider.speaks.iter().map(|word| format!("  speaks {}", at(word))));
            lines.extend(provider.base_url.iter().map(|url| format!("  base {}", at(url))));
            lines.extend(provider.api_key_variable.iter().map(|name| format!("  key in {name}")));
            lines.extend(provider.idle_timeout_ms.map(|idle| format!("  idle {idle}")));
            lines.extend(provider.request_timeout_ms.map(|whole| format!("  whole {whole}")));
        }
        for (name, ModelSettings { context_window, max_output, price }) in models {
            lines.push(format!("about {name}: {context_window:?} {max_output:?} {price:?}"));
        }
        lines.extend(permissions.mode.map(|mode| format!("mode {mode}")));
        lines.extend(permissions.level.map(|level| format!("level {level}")));
        for (kind, rules) in
            [("allow", &permissions.allow), ("ask", &permissions.ask), ("deny", &permissions.deny)]
        {
            lines.extend(rules.iter().map(|rule| {
                let SourcedText { text, location } = rule;
                format!("{kind} {text} at {location} {}", location.path())
            }));
        }
        lines.extend(limits.max_turns.map(|turns| format!("turns {turns}")));
        lines.extend(limits.max_budget_usd.map(|usd| format!("budget {usd}")));
        for RuleExample { rule, example, matches, .. } in &permissions.examples {
            let verb = if *matches { "matches" } else { "does not match" };
            lines.push(format!("{rule} {verb} {}", at(example)));
        }
        lines.extend(permissions.policies.iter().map(|guard| format!("{guard:?}")));
        lines.extend(settings.sandbox.map(|sandbox| format!("sandbox {}", sandbox.as_str())));
        let AccessSettings { roots, read_roots, caches, hook_roots, environment } =
            &settings.access;
        let lists = [
            ("roots", roots),
            ("read", read_roots),
            ("caches", caches),
            ("hooks", hook_roots),
            ("env", environment),
        ];
        for (word, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            let shown = list.iter().map(at).collect::<Vec<_>>().join(", ");
            lines.push(format!("{word} [{shown}]"));
        }
        lines.join("\n")
    }

    const FULL: &str = r#"// everything there is
{
  "$schema": "https://example.org/settings.schema.json",
  "model": "anthropic/claude-sonnet-5", /* the usual */
  "permissions": {
    "mode": "accept-edits", "level": "strict",
    "allow": ["bash(git diff *)"],
    "ask": [],
    "deny": [
      "read(./.env)",
      "bash(curl * | sh)", // trailing commas are fine
    ],
  },
  "limits": { "maxTurns": 40, "maxBudgetUsd": 2.5 },
  "fallbackModels": ["openai/gpt-6.1-terra", "lab/qwen3"],
  "providers": {
    "lab": {
      "speaks": "openai", "baseUrl": "http://10.0.0.7:8000/v1",
      "apiKeyVariable": "LAB_KEY", "idleTimeoutMs": 60000, "requestTimeoutMs": 90000,
    },
    "anthropic": {},
  },
  "models": {
    "lab/qwen3": {
      "contextWindow": 32768, "maxOutput": 4096,
      "price": { "input": 0.5, "output": 1.5, "cacheRead": 0 },
    },
  },
}
"#;

    #[test]
    fn settings_file_with_every_key_is_read() {
        check(
            FULL,
            expect![[r#"
                model anthropic/claude-sonnet-5 at settings.json:4:12
                fallback [openai/gpt-6.1-terra at settings.json:15:22, lab/qwen3 at settings.json:15:46]
                provider anthropic at settings.json:21:18
                provider lab at settings.json:17:12
                  speaks openai at settings.json:18:17
                  base http://10.0.0.7:8000/v1 at settings.json:18:38
                  key in LAB_KEY
                  idle 60000
                  whole 90000
                about lab/qwen3: Some(32768) Some(4096) Some(Price { input: 0.5, output: 1.5, cache_read: 0.0, cache_write: 0.5 })
                mode accept-edits
                level strict
                allow bash(git diff *) at settings.json:7:15 $.permissions.allow[0]
                deny read(./.env) at settings.json:10:7 $.permissions.deny[0]
                deny bash(curl * | sh) at settings.json:11:7 $.permissions.deny[1]
                turns 40
                budget 2.5"#]],
        );
    }

    #[test]
    fn empty_settings_object_sets_nothing() {
        check("{}", expect![""]);
        check("\u{feff}{ // byte order mark\n}", expect![""]);
    }

    #[test]
    fn unknown_keys_are_errors_with_a_hint() {
        check(
            "{\n  \"permissions\": {\n    \"alow\": []\n  }\n}",
            expect![[r#"
                error: settings.json:3:5: $.permissions.alow: unknown key `alow`
                hint: did you mean `allow`?"#]],
        );
        check(
            r#"{"theme": "dark"}"#,
            expect![[r#"
                error: settings.json:1:2: $.theme: unknown key `theme`
                hint: known keys are `$schema`, `model`, `fallbackModels`, `providers`, `models`, `permissions`, `limits`, `sandbox`, `roots`, `readRoots`, `caches`, `hookRoots`, `environment`, `mcpServers`, `hooks`, `disable`, `plugins`, `claude`, `claudeHooks`"#]],
        );
        check(
            r#"{"limits": {"max-turns": 3}}"#,
            expect![[r#"
                error: settings.json:1:13: $.limits.max-turns: unknown key `max-turns`
                hint: did you mean `maxTurns`?"#]],
        );
        check(
            "{\"a\\u001b[31m\u{202e}\": 1}",
            expect![[r#"
                error: settings.json:1:2: $["a\u001b[31m\u{202e}"]: unknown key `a\u{1b}[31m\u{202e}`
                hint: known keys are `$schema`, `model`, `fallbackModels`, `providers`, `models`, `permissions`, `limits`, `sandbox`, `roots`, `readRoots`, `caches`, `hookRoots`, `environment`, `mcpServers`, `hooks`, `disable`, `plugins`, `claude`, `claudeHooks`"#]],
        );
    }

    #[test]
    fn s3_project_settings_may_only_tighten() {
        let check = |text: &str, expected: Expect| {
            let settings = Document::parse("settings.json", text)
                .and_then(|document| Settings::from_document(&document, SettingsOwner::Project));
            expected.assert_eq(&outcome(settings.map(|_| "read".into())));
        };
        check(
            r#"{"permissions": {"allow": ["bash"]}}"#,
            expect![[r#"
                error: settings.json:1:27: $.permissions.allow: `allow` rules are not allowed in a project's settings
                hint: a project may only tighten: move this to your own settings"#]],
        );
        check(r#"{"permissions": {"allow": [], "deny": ["bash"]}}"#, expect!["read"]);
        for key in KEYS_CLOSED_TO_PROJECTS {
            let document = Document::parse("settings.json", &format!(r#"{{"{key}": []}}"#));
            let read = document
                .and_then(|document| Settings::from_document(&document, SettingsOwner::Project));
            let message = read.expect_err("it may loosen").message().to_owned();
            assert_eq!(message, format!("`{key}` is not allowed in a project's settings"));
        }
    }

    #[test]
    fn b3_claude_and_plugin_settings_are_read() {
        let check = |text: &str, expected: Expect| {
            let settings = Document::parse("settings.json", text)
                .and_then(|document| Settings::from_document(&document, SettingsOwner::User));
            let shown = |settings: Settings| {
                let plugins: Vec<_> = settings.plugins.iter().map(|one| &one.text).collect();
                format!("{:?} {plugins:?}", settings.claude)
            };
            expected.assert_eq(&outcome(settings.map(shown)));
        };
        check("{}", expect!["ClaudeSettings { home: None, on_failure: None } []"]);
        check(
            r#"{"claude": {"home": true}, "claudeHooks": {"onFailure": "block"}, "plugins": ["~/a"]}"#,
            expect![[r#"ClaudeSettings { home: Some(true), on_failure: Some(Block) } ["~/a"]"#]],
        );
        check(
            r#"{"claude": {"home": "yes"}}"#,
            expect![
                "error: settings.json:1:21: $.claude.home: expected `true` or `false`, found the string `yes`"
            ],
        );
        check(
            r#"{"claude": {"hom": true}}"#,
            expect![[r#"
            error: settings.json:1:13: $.claude.hom: unknown key `hom`
            hint: did you mean `home`?"#]],
        );
        check(
            r#"{"claudeHooks": {"onFailure": "warn"}}"#,
            expect![
                "error: settings.json:1:31: $.claudeHooks.onFailure: expected one of `block`, `pass`, found the string `warn`"
            ],
        );
        check(
            r#"{"plugins": [""]}"#,
            expect![
                "error: settings.json:1:14: $.plugins[0]: expected a string that is not empty, found an empty string"
            ],
        );
    }

    fn check_hooks(hooks: &str, expected: Expect) {
        let settings = Document::parse("settings.json", &format!(r#"{{"hooks": {hooks}}}"#))
            .and_then(|document| Settings::from_document(&document, SettingsOwner::User));
        let shown = |settings: Settings| {
            let row =
                |hook: &CommandHook| format!("{} {} {:?}", hook.name, hook.point, hook.command);
            settings.hooks.iter().map(row).collect::<Vec<_>>().join("\n")
        };
        expected.assert_eq(&outcome(settings.map(shown)));
    }

    #[test]
    fn l7_hooks_are_read_strictly() {
        check_hooks(
            r#"{"tool.pre": [{"command": "./a.sh x"}, {"command": "./a.sh | b"}]}"#,
            expect![[r#"
                a-955d59 tool.pre Words(["./a.sh", "x"])
                a-89411d tool.pre Shell("./a.sh | b")"#]],
        );
        check_hooks(
            r#"{"tool.pre": [{"name": "n", "command": ["a b", "c"]}]}"#,
            expect![[r#"n tool.pre Words(["a b", "c"])"#]],
        );
        check_hooks(
            r#"{"tool.before": []}"#,
            expect![[r#"
            error: settings.json:1:27: $.hooks["tool.before"]: there is no point `tool.before`
            hint: there are session.open, session.start, user.prompt.submit, model.pre, model.post, tool.pre, permission.ask, tool.post, tool.refused, compact.pre, compact.post, subagent.start, subagent.end, turn.end, error, session.end, session.close"#]],
        );
        check_hooks(
            r#"{"context": []}"#,
            expect![
                "error: settings.json:1:23: $.hooks.context: `context` is not for command hooks, only for hooks in Rust and scripts"
            ],
        );
        check_hooks(
            r#"{"tool.pre": [{"command": ""}]}"#,
            expect![[
                r#"error: settings.json:1:37: $.hooks["tool.pre"][0].command: expected a string that is not empty, found an empty string"#
            ]],
        );
        check_hooks(
            r#"{"tool.pre": [{"command": []}]}"#,
            expect![[
                r#"error: settings.json:1:37: $.hooks["tool.pre"][0].command: the command is empty"#
            ]],
        );
        check_hooks(
            r#"{"tool.pre": [{"comand": "x"}]}"#,
            expect![[r#"
            error: settings.json:1:26: $.hooks["tool.pre"][0].comand: unknown key `comand`
            hint: did you mean `command`?"#]],
        );
        check_hooks(
            r#"{"tool.pre": [{"command": "x", "tools": []}]}"#,
            expect![[r#"
                error: settings.json:1:51: $.hooks["tool.pre"][0].tools: an empty list matches no tool
                hint: leave `tools` out to match every tool"#]],
        );
        check_hooks(
            r#"{"tool.pre": [{"command": "x", "tools": ["["]}]}"#,
            expect![[
                r#"error: settings.json:1:51: $.hooks["tool.pre"][0].tools: error parsing glob '[': unclosed character class; missing ']'"#
            ]],
        );
    }

    #[test]
    fn l7_hook_tools_and_timeouts_are_read_strictly() {
        check_hooks(
            r#"{"session.end": [{"command": "x", "tools": ["read"]}]}"#,
            expect![[
                r#"error: settings.json:1:54: $.hooks["session.end"][0].tools: `session.end` is not about tools, so `tools` is not allowed"#
            ]],
        );
        check_hooks(
            r#"{"tool.pre": [{"command": "x", "timeoutMs": 0}]}"#,
            expect![[
                r#"error: settings.json:1:55: $.hooks["tool.pre"][0].timeoutMs: expected a whole number from 1 to 3600000, found the number 0"#
            ]],
        );
        check_hooks(
            r#"{"tool.pre": [{"command": "x", "power": "transform"}]}"#,
            expect![[
                r#"error: settings.json:1:51: $.hooks["tool.pre"][0].power: expected one of `observe`, `gate`, found the string `transform`"#
            ]],
        );
        check_hooks(
            r#"{"tool.pre": [{"command": "x", "env": ["A=B"]}]}"#,
            expect![[
                r#"error: settings.json:1:50: $.hooks["tool.pre"][0].env[0]: `A=B` is not the name of a variable"#
            ]],
        );
        check_hooks(
            r#"{"tool.pre": [{"command": "x", "onFailure": "ignore"}]}"#,
            expect![[
                r#"error: settings.json:1:55: $.hooks["tool.pre"][0].onFailure: expected one of `block`, `pass`, found the string `ignore`"#
            ]],
        );
    }

    #[test]
    fn s3_api_keys_in_settings_are_errors() {
        for key in ["apiKey", "api_key", "key", "token", "authToken"] {
            let text = format!(r#"{{"providers": {{"lab": {{"{key}": "hush-hush-hush"}}}}}}"#);
            let expected = format!(
                "error: settings.json:1:24: $.providers.lab.{key}: a settings file must not contain an API key\n\
                 hint: put the key into a variable and name the variable: \"apiKeyVariable\": \"LAB_API_KEY\""
            );
            let read = Document::parse("settings.json", &text)
                .and_then(|document| Settings::from_document(&document, SettingsOwner::User));
            assert_eq!(outcome(read.map(|settings| render(&settings))), expected);
        }
        for value in
            ["sk-ant-api03-hush", "hush", "AIzaSyA-1234567890abcdefghijklmnopqrstu", "1A", ""]
        {
            check(
                &format!(r#"{{"providers": {{"lab": {{"apiKeyVariable": "{value}"}}}}}}"#),
                expect![[r#"
                    error: settings.json:1:42: $.providers.lab.apiKeyVariable: expected the name of a variable, in capital letters
                    hint: put the key into a variable and name the variable: "apiKeyVariable": "LAB_API_KEY""#]],
            );
        }
    }

    #[test]
    fn provider_errors_name_their_place() {
        check(
            r#"{"providers": {"lab": {"baseURL": "x"}}}"#,
            expect![[r#"
            error: settings.json:1:24: $.providers.lab.baseURL: unknown key `baseURL`
            hint: did you mean `baseUrl`?"#]],
        );
        check(
            r#"{"providers": {"la/b": {}}}"#,
            expect![[
                r#"error: settings.json:1:16: $.providers["la/b"]: a provider's name may have only letters, digits, `.`, `_` and `-`"#
            ]],
        );
        check(
            r#"{"providers": {"lab": {"idleTimeoutMs": 0}}}"#,
            expect![
                "error: settings.json:1:41: $.providers.lab.idleTimeoutMs: expected a whole number from 1 to 86400000, found the number 0"
            ],
        );
        check(
            r#"{"providers": {"lab": {"speaks": 3}}}"#,
            expect![
                "error: settings.json:1:34: $.providers.lab.speaks: expected a string, found the number 3"
            ],
        );
    }

    #[test]
    fn model_errors_name_their_place() {
        check(
            r#"{"models": {"qwen3": {}}}"#,
            expect![
                "error: settings.json:1:13: $.models.qwen3: expected a model's name, `provider/model`"
            ],
        );
        check(
            r#"{"models": {"lab/qwen3": {"contextwindow": 1}}}"#,
            expect![[r#"
            error: settings.json:1:27: $.models["lab/qwen3"].contextwindow: unknown key `contextwindow`
            hint: did you mean `contextWindow`?"#]],
        );
        check(
            r#"{"models": {"lab/qwen3": {"contextWindow": 0}}}"#,
            expect![[
                r#"error: settings.json:1:44: $.models["lab/qwen3"].contextWindow: expected a whole number from 1 to 1000000000, found the number 0"#
            ]],
        );
        check(
            r#"{"models": {"lab/qwen3": {"price": {"input": 1}}}}"#,
            expect![[
                r#"error: settings.json:1:36: $.models["lab/qwen3"].price: missing key `output`"#
            ]],
        );
        check(
            r#"{"models": {"lab/qwen3": {"price": {"input": 1, "output": -1}}}}"#,
            expect![[
                r#"error: settings.json:1:59: $.models["lab/qwen3"].price.output: expected a number that is not below 0, found the number -1"#
            ]],
        );
        check(
            r#"{"fallbackModels": "lab/qwen3"}"#,
            expect![
                "error: settings.json:1:20: $.fallbackModels: expected a list, found the string `lab/qwen3`"
            ],
        );
        check(
            r#"{"fallbackModels": ["a/b", ""]}"#,
            expect![
                "error: settings.json:1:28: $.fallbackModels[1]: expected a string that is not empty, found an empty string"
            ],
        );
    }

    #[test]
    fn price_without_cache_keys_uses_the_input_price() {
        check(
            r#"{"models": {"lab/qwen3": {"price": {"input": 2, "output": 3}}}}"#,
            expect![
                "about lab/qwen3: None None Some(Price { input: 2.0, output: 3.0, cache_read: 2.0, cache_write: 2.0 })"
            ],
        );
    }

    #[test]
    fn duplicate_keys_are_errors() {
        check(
            "{\"model\": \"a\",\n \"model\": \"b\"}",
            expect![[r#"
                error: settings.json:2:2: $.model: duplicate key `model`
                hint: it is already at settings.json:1:2; keep one of the two"#]],
        );
        check(
            r#"{"model": [{"\u0061": 1, "a": 2}]}"#,
            expect![[r#"
                error: settings.json:1:26: $.model[0].a: duplicate key `a`
                hint: it is already at settings.json:1:13; keep one of the two"#]],
        );
    }

    #[test]
    fn wrong_types_are_errors() {
        check(r#"[]"#, expect!["error: settings.json:1:1: $: expected an object, found a list"]);
        check(
            r#"{"model": 3}"#,
            expect!["error: settings.json:1:11: $.model: expected a string, found the number 3"],
        );
        check(
            r#"{"model": " "}"#,
            expect![
                "error: settings.json:1:11: $.model: expected a string that is not empty, found the string ` `"
            ],
        );
        check(
            r#"{"permissions": null}"#,
            expect!["error: settings.json:1:17: $.permissions: expected an object, found `null`"],
        );
        check(
            r#"{"permissions": {"allow": "bash"}}"#,
            expect![
                "error: settings.json:1:27: $.permissions.allow: expected a list, found the string `bash`"
            ],
        );
        check(
            r#"{"permissions": {"allow": ["bash", "read", []]}}"#,
            expect![
                "error: settings.json:1:44: $.permissions.allow[2]: expected a string, found a list"
            ],
        );
        check(
            r#"{"permissions": {"mode": "acceptEdits"}}"#,
            expect![[r#"
                error: settings.json:1:26: $.permissions.mode: expected one of `ask`, `accept-edits`, `plan`, `auto`, found the string `acceptEdits`
                hint: did you mean `accept-edits`?"#]],
        );
        check(
            r#"{"permissions": {"level": 2}}"#,
            expect![
                "error: settings.json:1:27: $.permissions.level: expected one of `permissive`, `standard`, `strict`, `paranoid`, found the number 2"
            ],
        );
    }

    #[test]
    fn settings_limits_must_be_positive() {
        for limits in [
            r#""maxTurns": 0"#,
            r#""maxTurns": -1"#,
            r#""maxTurns": 1.5"#,
            r#""maxTurns": 4294967296"#,
            r#""maxTurns": 99999999999999999999999"#,
            r#""maxBudgetUsd": 0"#,
            r#""maxBudgetUsd": -0.5"#,
            r#""maxBudgetUsd": 1e999"#,
            r#""maxBudgetUsd": 1e-999"#,
        ] {
            let document = Document::parse("s", &format!("{{\"limits\": {{{limits}}}}}"));
            let settings = document
                .and_then(|document| Settings::from_document(&document, SettingsOwner::User));
            assert!(settings.is_err(), "{limits} passed");
        }
        check(
            r#"{"limits": {"maxTurns": 0}}"#,
            expect![
                "error: settings.json:1:25: $.limits.maxTurns: expected a whole number from 1 to 4294967295, found the number 0"
            ],
        );
        check(
            r#"{"limits": {"maxBudgetUsd": 0.0}}"#,
            expect![
                "error: settings.json:1:29: $.limits.maxBudgetUsd: expected a number above 0, found the number 0.0"
            ],
        );
        check(
            r#"{"limits": {"maxBudgetUsd": 1e999}}"#,
            expect![
                "error: settings.json:1:29: $.limits.maxBudgetUsd: expected a number that a 64-bit float can hold, found the number 1e999"
            ],
        );
    }

    #[test]
    fn missing_punctuation_is_an_error() {
        check(
            "",
            expect![[r#"
                error: settings.json:1:1: $: expected an object, found the end of the file
                hint: an empty settings file is `{}`"#]],
        );
        check(
            "// nothing\n",
            expect![[r#"
                error: settings.json:2:1: $: expected an object, found the end of the file
                hint: an empty settings file is `{}`"#]],
        );
        check(
            "{\"model\": \"a\"\n \"limits\": {}}",
            expect![[
                r#"error: settings.json:1:14: $.model: expected `,` or `}`, found `"limits"`"#
            ]],
        );
        check(
            "{\"permissions\": {\"allow\": [\"a\", \"b\" \"c\"]}}",
            expect![[
                r#"error: settings.json:1:36: $.permissions.allow[1]: expected `,` or `]`, found `"c"`"#
            ]],
        );
        check(
            "{\"permissions\": {\"allow\": [\"a\"}}",
            expect![
                "error: settings.json:1:31: $.permissions.allow[0]: expected `,` or `]`, found `}`"
            ],
        );
        check(
            "{\"model\" \"a\"}",
            expect![[r#"error: settings.json:1:10: $.model: expected `:`, found `"a"`"#]],
        );
        check(
            "{\"model\":}",
            expect!["error: settings.json:1:10: $.model: expected a value, found `}`"],
        );
    }

    #[test]
    fn unquoted_words_are_errors() {
        check(
            "{model: 1}",
            expect![[r#"
                error: settings.json:1:2: $: expected a key in double quotes or `}`, found `model`
                hint: write keys in double quotes"#]],
        );
        check(
            "{'model': 1}",
            expect![[r#"
                error: settings.json:1:2: $: expected a key in double quotes or `}`, found `'model'`
                hint: write strings in double quotes"#]],
        );
        check(
            "{\"model\": tru}",
            expect!["error: settings.json:1:11: $.model: expected a value, found `tru`"],
        );
    }

    #[test]
    fn unclosed_json_is_an_error() {
        check(
            "{\"model\": \"a\"",
            expect![[r#"
                error: settings.json:1:1: $: object is not closed
                hint: add a `}`"#]],
        );
        check(
            "{\"model\": [\"a\"",
            expect![[r#"
                error: settings.json:1:11: $.model: list is not closed
                hint: add a `]`"#]],
        );
        check(
            "{} {}",
            expect!["error: settings.json:1:4: $: expected the end of the file, found `{`"],
        );
        check(
            "{ /* ",
            expect![[r#"
                error: settings.json:1:3: $: comment is not closed
                hint: add a `*/`"#]],
        );
        check("{\"a\": @}", expect!["error: settings.json:1:7: $.a: expected a value, found `@`"]);
        check(
            "{\"a\": 01}",
            expect!["error: settings.json:1:8: $.a: expected `,` or `}`, found `1`"],
        );
    }

    #[test]
    fn non_decimal_numbers_are_errors() {
        check(
            "{\"a\": 0x10}",
            expect![[r#"
                error: settings.json:1:7: $.a: expected a value, found `0x10`
                hint: write the number in decimal"#]],
        );
        check(
            "{\"a\": +1}",
            expect![[r#"
                error: settings.json:1:7: $.a: expected a value, found `+1`
                hint: write the number without `+`"#]],
        );
        check(
            "{\"a\": .5}",
            expect![[r#"
                error: settings.json:1:7: $.a: expected a value, found `.5`
                hint: write a digit on both sides of the decimal point"#]],
        );
        check(
            "{\"a\": NaN}",
            expect!["error: settings.json:1:7: $.a: expected a value, found `NaN`"],
        );
    }

    #[test]
    fn broken_string_errors_name_their_place() {
        check(
            "{\"model\": \"a\n\"}",
            expect![[r#"
                error: settings.json:1:11: $.model: string is not closed on its line
                hint: a line break in a string is written `\n`"#]],
        );
        check(
            "{\"model\": \"a",
            expect![[r#"
                error: settings.json:1:11: $.model: string is not closed
                hint: add a `"`"#]],
        );
        check(
            "{\"model\": \"a\tb\"}",
            expect![[r#"
                error: settings.json:1:13: $.model: tab in a string
                hint: write it as `\t`"#]],
        );
        check(
            r#"{"model": "a\qb"}"#,
            expect![[r#"
                error: settings.json:1:13: $.model: unknown escape in a string
                hint: a backslash is written `\\`"#]],
        );
        check(
            r#"{"model": "\ud800"}"#,
            expect![[r#"
                error: settings.json:1:12: $.model: half of a surrogate pair
                hint: write the character itself, or both halves as `\ud83d\ude42`"#]],
        );
        check(
            r#"{"model": "\ud800\u0041"}"#,
            expect![[r#"
                error: settings.json:1:12: $.model: half of a surrogate pair
                hint: write the character itself, or both halves as `\ud83d\ude42`"#]],
        );
        check(
            r#"{"model": "\u12"}"#,
            expect![[r#"error: settings.json:1:12: $.model: expected four hex digits after `\u`"#]],
        );
        check(r#"{"model": "\ud83d\ude42"}"#, expect!["model 🙂 at settings.json:1:11"]);
    }

    #[test]
    fn error_columns_count_characters() {
        check(
            "{ /* 🙂 日本\n äöü */ \"model\": 1}",
            expect!["error: settings.json:2:18: $.model: expected a string, found the number 1"],
        );
        check(
            "{\r\n\r\"model\": 1}",
            expect!["error: settings.json:3:10: $.model: expected a string, found the number 1"],
        );
        check(
            "{\"日本\": 1}",
            expect![[r#"
                error: settings.json:1:2: $["日本"]: unknown key `日本`
                hint: known keys are `$schema`, `model`, `fallbackModels`, `providers`, `models`, `permissions`, `limits`, `sandbox`, `roots`, `readRoots`, `caches`, `hookRoots`, `environment`, `mcpServers`, `hooks`, `disable`, `plugins`, `claude`, `claudeHooks`"#]],
        );
    }

    #[test]
    fn error_paths_quote_unusual_keys() {
        check_node(
            r#"{"a b": {"": [[], {"0": 5}]}}"#,
            |node| {
                let inner = node.object()?.require("a b")?.object()?.require("")?;
                let second = inner.list()?.nth(1).ok_or_else(|| inner.error("no second"))?;
                second.object()?.require("0")?.string().map(str::to_owned)
            },
            expect![[
                r#"error: x.json:1:31: $.x["a b"][""][1]["0"]: expected a string, found the number 5"#
            ]],
        );
    }

    #[test]
    fn hostile_bytes_are_errors() {
        check_bytes(
            b"{\"model\": \"\0\"}",
            expect![[r#"
                error: settings.json:1:12: $.model: control character U+0000
                hint: in a string, write it as `\u` and four digits"#]],
        );
        check_bytes(
            b"\0",
            expect![[r#"
                error: settings.json:1:1: $: control character U+0000
                hint: in a string, write it as `\u` and four digits"#]],
        );
        check_bytes(
            b"{\n\"model\": \"\xff\"}",
            expect![[r#"
                error: settings.json:2:11: $.model: byte 0xff is not UTF-8
                hint: save the file as UTF-8"#]],
        );
        check_bytes(
            b"\xff\xfe{\0}\0",
            expect![[r#"
                error: settings.json:1:1: $: byte 0xff is not UTF-8
                hint: save the file as UTF-8"#]],
        );
    }

    #[test]
    fn deep_nesting_is_refused_before_it_is_parsed() {
        check(
            &"[".repeat(100_000),
            expect![
                "error: settings.json:1:129: $[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0…: nested deeper than 128 levels"
            ],
        );
        check(
            &"{\"a\":".repeat(100_000),
            expect![
                "error: settings.json:1:641: $.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a…: nested deeper than 128 levels"
            ],
        );
        check(
            &format!("{}{}", "[".repeat(128), "]".repeat(128)),
            expect!["error: settings.json:1:1: $: expected an object, found a list"],
        );
        // Brackets in strings and comments do not count as nesting.
        let quoted = format!("{{\"model\": \"{}\" /* {} */}}", "[".repeat(200), "{".repeat(200));
        assert!(Document::parse("s", &quoted).is_ok());
    }

    #[test]
    fn large_files_are_refused() {
        check(
            &" ".repeat(10 << 20),
            expect![
                "error: settings.json: file is larger than 1 MiB, the maximum for a settings file"
            ],
        );
        check(&format!("{{}}{}", " ".repeat(MAX_BYTES - 2)), expect![""]);
    }

    #[test]
    fn many_rules_on_one_line_are_read_in_linear_time() {
        let text =
            format!("{{\"permissions\": {{\"deny\": [{}\"x\"]}}}}", "\"é\",".repeat(100_000));
        let document = Document::parse("s", &text).expect("it is well formed");
        let settings =
            Settings::from_document(&document, SettingsOwner::User).expect("every rule has text");
        let last = settings.permissions.deny.last().expect("there are rules");
        expect!["s:1:400027"].assert_eq(&last.location.to_string());
        expect!["$.permissions.deny[100000]"].assert_eq(&last.location.path());
    }

    #[test]
    fn location_makes_errors_after_parsing() {
        let document = Document::parse("s.json", FULL).expect("it is well formed");
        let settings = Settings::from_document(&document, SettingsOwner::User).expect("it is good");
        let error = settings.permissions.deny[1]
            .location
            .error("unknown tool `bash`")
            .with_hint("try `shell`");
        expect![[r#"
            error: s.json:11:7: $.permissions.deny[1]: unknown tool `bash`
            hint: try `shell`"#]]
        .assert_eq(&outcome(Err(error)));
    }

    #[test]
    fn node_accessors_check_the_value_type() {
        check_node("true", |node| node.bool(), expect!["true"]);
        check_node(
            "1",
            |node| node.bool(),
            expect!["error: x.json:1:7: $.x: expected `true` or `false`, found the number 1"],
        );
        check_node("18446744073709551615", |node| node.u64(), expect!["18446744073709551615"]);
        check_node(
            "18446744073709551616",
            |node| node.u64(),
            expect![
                "error: x.json:1:7: $.x: expected a whole number from 0 to 18446744073709551615, found the number 18446744073709551616"
            ],
        );
        check_node("-1.5e3", |node| node.f64(), expect!["-1500.0"]);
        check_node(
            "\"1\"",
            |node| node.f64(),
            expect!["error: x.json:1:7: $.x: expected a number, found the string `1`"],
        );
        check_node("\"b\"", |node| node.one_of(&[("a", 1), ("b", 2)]), expect!["2"]);
        check_node(
            "\"c\"",
            |node| node.one_of(&[("a", 1), ("b", 2)]),
            expect!["error: x.json:1:7: $.x: expected one of `a`, `b`, found the string `c`"],
        );
        check_node(
            "{\"y\": 1}",
            |node| node.object()?.require("z").map(drop),
            expect!["error: x.json:1:7: $.x: missing key `z`"],
        );
        check_node(
            "{\"y\": 1, \"z\": 2}",
            |node| {
                node.object()?
                    .members()
                    .map(|(key, node)| Ok((key.to_owned(), node.u64()?)))
                    .collect::<Result<Vec<_>, _>>()
            },
            expect![[r#"[("y", 1), ("z", 2)]"#]],
        );
    }

    #[test]
    fn formats_page_names_every_settings_key() {
        let page = include_str!("../../docs/FORMATS.md");
        let (_, page) = page.split_once("## Settings file").expect("the page has the section");
        let sections = [
            KEYS,
            models::PROVIDER_KEYS,
            models::MODEL_KEYS,
            models::PRICE_KEYS,
            permissions::KEYS,
            LIMIT_KEYS,
        ];
        for key in sections.into_iter().flatten() {
            let is_named = [format!("`{key}`"), format!("`{key}."), format!(".{key}`")];
            assert!(is_named.iter().any(|named| page.contains(named)), "{key} is not named");
        }
    }

    #[test]
    fn nearest_provider_or_model_entry_replaces_the_whole_entry() {
        check_merge(
            &[
                (
                    SettingsOwner::File,
                    r#"{"providers": {"lab": {"baseUrl": "http://near"}}, "fallbackModels": []}"#,
                ),
                (
                    SettingsOwner::User,
                    r#"{"providers": {"lab": {"apiKeyVariable": "LAB_KEY"}, "far": {}},
                        "models": {"a/b": {"maxOutput": 1}, "c/d": {"maxOutput": 2}},
                        "fallbackModels": ["a/b"]}"#,
                ),
                (SettingsOwner::Operator, r#"{"models": {"a/b": {"contextWindow": 3}}}"#),
            ],
            expect![[r#"
                fallback []
                provider far at user:1:61
                provider lab at file:1:23
                  base http://near at file:1:35
                about a/b: None Some(1) None
                about c/d: None Some(2) None"#]],
        );
    }

    #[test]
    fn nearest_plain_settings_value_wins() {
        check_merge(
            &[
                (SettingsOwner::File, r#"{"limits": {"maxTurns": 5}}"#),
                (
                    SettingsOwner::User,
                    r#"{"model": "user/m", "limits": {"maxTurns": 9, "maxBudgetUsd": 1}}"#,
                ),
                (SettingsOwner::Operator, r#"{"model": "operator/m"}"#),
            ],
            expect![[r#"
                model user/m at user:1:11
                turns 5
                budget 1"#]],
        );
        check_merge(&[], expect![""]);
        // A project's limits only tighten, wherever it stands in the order.
        let limits = |turns: u32, usd: f64| {
            format!(r#"{{"limits": {{"maxTurns": {turns}, "maxBudgetUsd": {usd}}}}}"#)
        };
        let (user, looser, tighter) = (limits(10, 2.0), limits(100, 9.0), limits(3, 9.0));
        for (project, expected) in
            [(&looser, expect![["turns 10\nbudget 2"]]), (&tighter, expect![["turns 3\nbudget 2"]])]
        {
            check_merge(
                &[(SettingsOwner::Project, project), (SettingsOwner::User, &user)],
                expected,
            );
        }
    }

    #[test]
    fn modes_and_levels_are_ordered_by_strictness() {
        assert!(Mode::AcceptEdits < Mode::Ask && Mode::Ask < Mode::Auto && Mode::Auto < Mode::Plan);
        assert!(Level::WORDS.is_sorted_by_key(|(_, level)| *level));
        for (word, mode) in Mode::WORDS {
            assert_eq!((word.parse(), mode.as_str()), (Ok(*mode), *word));
        }
        for (word, level) in Level::WORDS {
            assert_eq!((word.parse(), level.as_str()), (Ok(*level), *word));
        }
    }

    #[test]
    fn unknown_mode_error_has_a_hint() {
        let check = |word: &str, expected: Expect| {
            let error = word.parse::<Mode>().expect_err("it is no mode");
            expected.assert_eq(&format!("{error}; {}", error.hint().unwrap_or_default()));
        };
        check("pln", expect!["unknown mode `pln`; did you mean `plan`?"]);
        check(
            "yolo\n",
            expect![[r#"unknown mode `yolo\n`; a mode is one of ask, accept-edits, plan, auto"#]],
        );
    }

    #[test]
    fn settings_files_are_loaded() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("settings.json");
        check_load(&path, expect!["none"]);
        check_load(&folder.path().join("no/such/settings.json"), expect!["none"]);
        fs::write(&path, "{\n \"modle\": 1}").expect("writable");
        check_load(
            &path,
            expect![[r#"
                error: settings.json:2:2: $.modle: unknown key `modle`
                hint: did you mean `model`?"#]],
        );
        fs::write(&path, "{\"model\": \"p/m\"}").expect("writable");
        check_load(&path, expect!["model p/m at settings.json:1:11"]);
        fs::write(&path, vec![b' '; 10 << 20]).expect("writable");
        check_load(
            &path,
            expect![
                "error: settings.json: file is larger than 1 MiB, the maximum for a settings file"
            ],
        );
        fs::create_dir(folder.path().join("folder.json")).expect("writable");
        check_load(
            &folder.path().join("folder.json"),
            expect!["error: folder.json: expected a file, found a folder"],
        );
        check_load(
            &path.join("below-a-file.json"),
            expect![[r#"
                error: below-a-file.json: cannot read the file
                  caused by: Not a directory (os error 20)"#]],
        );
    }

    #[test]
    fn links_and_special_settings_files_are_errors() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("settings.json");
        std::os::unix::fs::symlink("no\nwhere.json", &path).expect("writable");
        check_load(
            &path,
            expect![[r#"
                error: settings.json: link to `no\nwhere.json`, which does not exist
                hint: remove the link or create its target"#]],
        );
        let socket = folder.path().join("socket.json");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        check_load(
            &socket,
            expect!["error: socket.json: expected a file, found a device, pipe or socket"],
        );
        check_load(
            Path::new("/dev/zero"),
            expect!["error: zero: expected a file, found a device, pipe or socket"],
        );
    }

    /// Reads settings from arbitrary bytes; only the invariants are checked.
    fn exercise(bytes: &[u8]) {
        let outcome = Document::parse_bytes("s", bytes)
            .and_then(|document| Settings::from_document(&document, SettingsOwner::File));
        if let Err(error) = outcome {
            let location = error.location().map(|location| (location.line(), location.column()));
            assert!(location.is_none_or(|(line, column)| line > 0 && column > 0));
            assert!(!error.to_string().contains('\n'));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            exercise(&bytes);
        }

        #[test]
        fn arbitrary_json_like_text_never_panics(text in "[\\[\\]{}:,\"'/*\\\\ue0-9.+\\- \n\r\tabé世🙂\u{0}\u{feff}]{0,80}") {
            exercise(text.as_bytes());
            exercise(format!("{{\"model\": {text}}}").as_bytes());
        }

        #[test]
        fn mutated_documents_never_panic(
            edits in proptest::collection::vec((0..FULL.len(), 0..4usize, any::<u8>(), any::<bool>()), 1..6)
        ) {
            let mut bytes = FULL.as_bytes().to_vec();
            for (at, removed, byte, punctuation) in edits {
                let at = at.min(bytes.len());
                let end = (at + removed).min(bytes.len());
                let inserted = if punctuation { b"{}[],:\"\\/*\n"[usize::from(byte) % 11] } else { byte };
                bytes.splice(at..end, [inserted]);
            }
            exercise(&bytes);
        }
    }

    #[test]
    fn b2_rule_with_examples_is_read() {
        check(
            r#"{"permissions": {"allow": [
  {"rule": "bash(git diff *)", "match": ["git diff HEAD"], "not_match": ["git push"]}, "read(./a)"]}}"#,
            expect![[r#"
                allow bash(git diff *) at settings.json:2:12 $.permissions.allow[0].rule
                allow read(./a) at settings.json:2:88 $.permissions.allow[1]
                bash(git diff *) matches git diff HEAD at settings.json:2:42
                bash(git diff *) does not match git push at settings.json:2:74"#]],
        );
        check(
            r#"{"permissions": {"deny": [{"match": ["x"]}]}}"#,
            expect!["error: settings.json:1:27: $.permissions.deny[0]: missing key `rule`"],
        );
    }

    #[test]
    fn l12_policy_needs_valid_tools_and_patterns() {
        check(
            r#"{"permissions": {"policies": [{"tools": [""]}]}}"#,
            expect![
                "error: settings.json:1:41: $.permissions.policies[0].tools: expected at least one tool name or glob, none of them empty"
            ],
        );
        check(
            r#"{"permissions": {"policies": [{"tools": ["fetch"], "fields": {"url": ["[unterminated"]}}]}}"#,
            expect![
                "error: settings.json:1:71: $.permissions.policies[0].fields.url[0]: invalid regex: unclosed character class"
            ],
        );
        check(
            r#"{"permissions": {"policies": [{"name": "look", "tools": ["bash"], "alow": ["ls"]}]}}"#,
            expect![[r#"
                error: settings.json:1:67: $.permissions.policies[0].alow: unknown key `alow`
                hint: did you mean `allow`?"#]],
        );
    }

    #[test]
    fn s3_roots_are_merged_and_the_operator_fixes_the_sandbox() {
        check(
            r#"{"sandbox": "required", "roots": ["~/notes"], "readRoots": ["/opt/sdk"], "caches": ["~/.cache/x"], "hookRoots": ["~/.claude/logs"], "environment": ["JAVA_HOME"]}"#,
            expect![[r#"
                sandbox required
                roots [~/notes at settings.json:1:35]
                read [/opt/sdk at settings.json:1:61]
                caches [~/.cache/x at settings.json:1:85]
                hooks [~/.claude/logs at settings.json:1:114]
                env [JAVA_HOME at settings.json:1:149]"#]],
        );
        check_merge(
            &[
                (SettingsOwner::User, r#"{"sandbox": "off", "roots": ["/a"]}"#),
                (SettingsOwner::Operator, r#"{"sandbox": "auto", "roots": ["/b"]}"#),
            ],
            expect![[r#"
                sandbox auto
                roots [/a at user:1:30, /b at operator:1:31]"#]],
        );
        check(
            r#"{"sandbox": "on"}"#,
            expect![
                "error: settings.json:1:13: $.sandbox: expected one of `off`, `landlock`, `auto`, `required`, found the string `on`"
            ],
        );
    }
}
