//! The offer to a person at a terminal when no model is set up: enter a key, use a local model, or use the
//! rehearsal model. Nothing is stored unless the person agrees.

use std::{io, path::Path};

use cotter::{hooks::ui::Ui, text};
use cotter_models::{ApiKey, BUILT_IN_PROVIDERS, BuiltInProvider, Rehearsal};

use crate::{
    error::CliError,
    models::{ChoiceSource, ChosenModel, LOCAL, ProviderSet},
    paths,
    settings::edit::store_model,
    terminal::Terminal,
};

/// The maximum number of local models in the offer.
const MAX_LOCAL_MODELS: usize = 7;

/// The prefixes of keys, with their provider.
const KEY_PREFIXES: &[(&str, &str)] = &[
    ("sk-ant-", "anthropic"),
    ("sk-or-", "openrouter"),
    ("AIza", "gemini"),
    ("sk-proj-", "openai"),
    ("sk-svcacct-", "openai"),
    ("sk-admin-", "openai"),
];

/// The prefix that keys of many providers share, with the default provider.
const SHARED_PREFIX: (&str, &str) = ("sk-", "openai");

/// One option of the offer.
#[derive(Clone, Debug)]
enum SetupOption {
    Key,
    Local(String),
    Rehearsal,
}

/// Offers the options. `None` if the person wants none of them.
pub(crate) async fn offer_models(
    terminal: &Terminal,
    provider_set: &mut ProviderSet,
) -> Result<Option<ChosenModel>, CliError> {
    let local = provider_set.served_locally().await.unwrap_or_default();
    let more = local.len().saturating_sub(MAX_LOCAL_MODELS);
    let local = local.into_iter().take(MAX_LOCAL_MODELS).map(SetupOption::Local);
    let offered: Vec<_> =
        [SetupOption::Key].into_iter().chain(local).chain([SetupOption::Rehearsal]).collect();
    let mut shown = "No model is set up. Choose one:\n".to_owned();
    for (index, option) in offered.iter().enumerate() {
        let label = match option {
            SetupOption::Key => "a provider, with your API key".to_owned(),
            SetupOption::Local(name) => {
                format!("{}, {}", text::show_line(name), provider_set.describe_local())
            }
            SetupOption::Rehearsal => {
                "rehearsal, which works offline, for this run only".to_owned()
            }
        };
        shown += &format!("{}. {label}\n", index + 1);
    }
    if more > 0 {
        shown += &format!("({more} more by name: `--model {LOCAL}/NAME`)\n");
    }
    terminal.show_then_wait(&shown).await.map_err(failed)?;
    let prompt = format!("[1-{}], [n]one: ", offered.len());
    let read = |line: &str| match line.trim().to_ascii_lowercase().as_str() {
        "n" | "no" | "none" => Ok(None),
        line => {
            let number = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let line = number.and_then(|at| offered.get(at)).cloned().map(Some);
            line.ok_or_else(|| format!("type a number from 1 to {}, or n", offered.len()))
        }
    };
    match terminal.ask_until_valid(&prompt, read).await.map_err(failed)?.flatten() {
        None => Ok(None),
        Some(SetupOption::Rehearsal) => Ok(Some(chosen(Rehearsal::NAME))),
        Some(SetupOption::Local(name)) => {
            offer_to_store_model(terminal, &name).await?;
            Ok(Some(chosen(&name)))
        }
        Some(SetupOption::Key) => ask_for_key(terminal, provider_set).await,
    }
}

fn chosen(name: &str) -> ChosenModel {
    ChosenModel { name: name.to_owned(), source: ChoiceSource::Person }
}

fn failed(cause: io::Error) -> CliError {
    CliError::new("cannot use the terminal").with_cause(cause)
}

/// Asks for a key, its provider and a model.
async fn ask_for_key(
    terminal: &Terminal,
    provider_set: &mut ProviderSet,
) -> Result<Option<ChosenModel>, CliError> {
    let read = |line: &str| match line.trim() {
        "" => Ok(None),
        key if key.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(ApiKey::new(key))),
        _ => Err("a key has only ASCII characters and no spaces; press Enter to cancel".to_owned()),
    };
    let prompt = "Paste the key (it is not shown): ";
    let Some(key) = terminal.ask_secret(prompt, read).await.map_err(failed)?.flatten() else {
        return Ok(None);
    };
    let Some(ready) = find_key_provider(terminal, &key).await? else { return Ok(None) };
    let Some(name) = choose_model(terminal, ready).await? else { return Ok(None) };
    provider_set.use_key(ready.name, &key);
    // Settings that name a model without its key would end the next run.
    if offer_to_store_key(terminal, provider_set, ready, &key).await? {
        offer_to_store_model(terminal, &name).await?;
    }
    Ok(Some(chosen(&name)))
}

/// Returns the provider of a key: by its prefix, else as the person says. `None` if they do not say.
async fn find_key_provider(
    terminal: &Terminal,
    key: &ApiKey,
) -> Result<Option<&'static BuiltInProvider>, CliError> {
    let with_keys = || BUILT_IN_PROVIDERS.iter().filter(|ready| ready.key_variable.is_some());
    let find = |name: &str| with_keys().find(|ready| ready.name == name);
    let prefix = KEY_PREFIXES.iter().find(|(start, _)| key.expose().starts_with(start));
    if let Some(ready) = prefix.and_then(|(_, name)| find(name)) {
        return Ok(Some(ready));
    }
    let default = Some(SHARED_PREFIX.1).filter(|_| key.expose().starts_with(SHARED_PREFIX.0));
    let names: Vec<_> = with_keys().map(|ready| ready.name).collect();
    let names = names.join(", ");
    let enter = default.unwrap_or("cancel");
    let mut prompt = format!("Which provider is the key for? {names} (Enter: {enter}): ");
    loop {
        let line = terminal.ask_until_valid(&prompt, |line| Ok(line.trim().to_owned())).await;
        let Some(line) = line.map_err(failed)? else { return Ok(None) };
        match (line.as_str(), find(&line)) {
            ("", _) => return Ok(default.and_then(find)),
            (_, Some(ready)) => return Ok(Some(ready)),
            (other, None) => {
                // The key itself is not shown again.
                let shown = match key.expose().contains(other) {
                    true => "That".into(),
                    false => format!("`{}`", text::cut_chars(&text::show_line(other), 24)),
                };
                prompt = format!(
                    "{shown} is not a known provider. Choose one of {names} (Enter: {enter}): "
                );
            }
        }
    }
}

/// Returns the model to use: the provider's default, else the one that the person names.
async fn choose_model(
    terminal: &Terminal,
    ready: &BuiltInProvider,
) -> Result<Option<String>, CliError> {
    let name = |model: &str| format!("{}/{model}", ready.name);
    if let Some(model) = ready.default_model {
        return Ok(Some(name(model)));
    }
    let read = |line: &str| Ok(Some(line.trim()).filter(|line| !line.is_empty()).map(name));
    let prompt = format!("Which model of `{0}`? {0}/", ready.name);
    Ok(terminal.ask_until_valid(&prompt, read).await.map_err(failed)?.flatten())
}

/// Stores a key if the person agrees. Returns true if it is stored.
async fn offer_to_store_key(
    terminal: &Terminal,
    provider_set: &mut ProviderSet,
    ready: &BuiltInProvider,
    key: &ApiKey,
) -> Result<bool, CliError> {
    let Some(path) = paths::credentials() else { return Ok(false) };
    let question =
        format!("Store the key of `{}` in {}, readable only by you?", ready.name, shown(&path));
    if !terminal.confirm(&question).await {
        return Ok(false);
    }
    provider_set.store_key(ready.name, key)?;
    Ok(true)
}

async fn offer_to_store_model(terminal: &Terminal, name: &str) -> Result<(), CliError> {
    let Some(path) = paths::user_settings() else { return Ok(()) };
    let question =
        format!("Use {} from now on, and store this in {}?", text::show_line(name), shown(&path));
    if terminal.confirm(&question).await {
        store_model(name)?;
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    text::show_line(&path.display().to_string()).into_owned()
}
