//! The available models, and the one that a run uses: found from known providers, settings, variables and
//! stored keys.
//!
//! Settings win over variables that other programs use too. Nothing is sent: a missing key is an error before
//! the run begins.

pub(crate) mod choice;
pub(crate) mod credentials;
mod onboarding;
mod proxy;
mod route;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cotter::{
    history::message::Usage,
    model::{Model, ModelDirectory},
    text::{self, redact::Redactor},
};
use cotter_files::{
    document::location::{SettingsError, SourceLocation},
    settings::{
        MergedSettings, SourcedText,
        models::{ModelSettings, ProviderSettings},
    },
};
use cotter_models::{
    ApiFormat, ApiKey, BUILT_IN_PROVIDERS, BuiltInProvider, Http, Override, Player, Provider,
    Providers, Recorder, Rehearsal, Tape,
};
use tokio::time::timeout;

pub(crate) use crate::models::choice::ModelChain;

use crate::models::{proxy::Proxies, route::ProviderRoute};
use crate::{
    error::CliError,
    models::credentials::{Credentials, redactor},
    paths,
    settings::ModelNames,
};

/// The provider of models that run on this machine.
pub(crate) const LOCAL: &str = "ollama";

/// The time limit for the local provider to answer.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(300);

/// The hint for a person who plays a cassette and names no model.
const CASSETTE_MODEL_HINT: &str =
    "name the model that the cassette was recorded with, as in `--model provider/model`";

/// The providers that the person can use.
pub(crate) struct ProviderSet {
    providers: Providers,
    /// The error of each provider whose setup is invalid, shown when the provider is named.
    broken: BTreeMap<String, CliError>,
    /// The variable of each provider's key, if it has one.
    variables: BTreeMap<String, String>,
    /// The route to each provider: only what differs from the default.
    routes: BTreeMap<String, ProviderRoute>,
    credentials: Credentials,
    /// Every key in use, with its name.
    keys: Vec<(String, ApiKey)>,
    /// The model that the settings name.
    model: Option<SourcedText>,
    /// The models that settings name.
    names: ModelNames,
    /// The providers and models that settings describe.
    described: Vec<String>,
    /// True if a cassette answers.
    is_playing: bool,
}

/// A provider whose setup does not allow its use.
pub(crate) struct UnavailableProvider {
    pub(crate) provider: String,
    /// The variable for its key, if the key is missing.
    pub(crate) variable: Option<String>,
    pub(crate) why: String,
}

/// The chosen model, and the source of the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenModel {
    pub(crate) name: String,
    pub(crate) source: ChoiceSource,
}

/// A model as an agent names it.
#[derive(Clone, Copy)]
pub(crate) struct AgentModel<'a> {
    pub(crate) text: &'a str,
    /// The location of the name, if the file has locations.
    pub(crate) location: Option<&'a SourceLocation>,
    /// True if the person names the model. Other owners may only name a model that the person has set up.
    pub(crate) is_named_by_person: bool,
}

/// A fallback model, used when the models before it fail.
#[derive(Clone, Debug)]
pub(crate) enum Fallback {
    /// Named on the command line: the model must be available.
    Flag(String),
    /// Named by the settings, which apply to every run: an unavailable model is skipped.
    Settings(SourcedText),
}

impl Fallback {
    /// Returns the fallbacks that the settings name.
    pub(crate) fn of_settings(values: &MergedSettings) -> Vec<Self> {
        values.fallback_models.iter().flatten().cloned().map(Fallback::Settings).collect()
    }
}

/// The source of a model choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceSource {
    Flag,
    Variable,
    Settings(SourceLocation),
    /// The selected agent, with the location of the name if its file has locations.
    Agent(Option<SourceLocation>),
    /// No name: the provider is the first with a key. The text says where the key is stored.
    Key(String),
    /// The person, who just chose it.
    Person,
}

impl ChoiceSource {
    /// Returns the reason for the choice, as a sentence.
    pub(crate) fn reason(&self) -> String {
        match self {
            ChoiceSource::Flag => "`--model` names it".into(),
            ChoiceSource::Variable => "`COTTER_MODEL` names it".into(),
            ChoiceSource::Settings(_) => "the settings name it".into(),
            ChoiceSource::Agent(_) => "the agent names it".into(),
            ChoiceSource::Key(location) => {
                format!("no model is named, and there is a key in {location}")
            }
            ChoiceSource::Person => "it was chosen at the terminal".into(),
        }
    }
}

impl ProviderSet {
    /// Reads settings, variables and stored keys. A file of keys inside `project` is refused.
    pub(crate) fn new(
        values: &MergedSettings,
        names: ModelNames,
        project: &Path,
    ) -> Result<Self, CliError> {
        let described = values.providers.keys().chain(values.models.keys());
        let mut provider_set = ProviderSet {
            names,
            described: described.cloned().collect(),
            providers: Providers::new(),
            broken: BTreeMap::new(),
            variables: BTreeMap::new(),
            routes: BTreeMap::new(),
            credentials: Credentials::load(project)?,
            keys: vec![],
            model: values.model.clone(),
            is_playing: false,
        };
        let proxies = Proxies::of_variables();
        let built_in = BUILT_IN_PROVIDERS.iter().map(|ready| ready.name);
        let described = values.providers.keys().map(String::as_str);
        let others = described.filter(|name| ready(name).is_none());
        for name in built_in.chain(others) {
            match provider_set.provider(name, values.providers.get(name), &proxies)? {
                Ok(provider) => provider_set.providers = provider_set.providers.with(provider),
                Err(failure) => _ = provider_set.broken.insert(name.into(), failure),
            }
        }
        for (name, settings) in &values.models {
            let ModelSettings { context_window, max_output, price, .. } = *settings;
            let facts = Override { context_window, max_output, price };
            provider_set.providers = provider_set.providers.with_override(name, facts);
        }
        Ok(provider_set)
    }

    /// Creates a provider with its key and its route. Its errors are those of [`base`].
    fn provider(
        &mut self,
        name: &str,
        entry: Option<&ProviderSettings>,
        proxies: &Proxies,
    ) -> Result<Result<Provider, CliError>, SettingsError> {
        let mut provider = match base(name, entry)? {
            Ok(provider) => provider,
            Err(failure) => return Ok(Err(failure)),
        };
        let named = entry.and_then(|entry| entry.api_key_variable.clone());
        if named.is_some() {
            provider = provider.require_key();
        }
        let variable = named.or_else(|| ready(name)?.key_variable.map(str::to_owned));
        let mut route =
            ProviderRoute { address: address_source(name, entry), ..ProviderRoute::default() };
        if let Some((key, source)) = self.key(name, variable.as_deref()) {
            provider = provider.with_key(key);
            route.key = Some(source);
        }
        self.variables.extend(variable.map(|variable| (name.to_owned(), variable)));
        let idle = entry.and_then(|entry| entry.idle_timeout_ms).map(Duration::from_millis);
        let whole = entry.and_then(|entry| entry.request_timeout_ms).map(Duration::from_millis);
        let http = idle.into_iter().fold(Http::new(), Http::with_idle_timeout);
        let http = whole.into_iter().fold(http, Http::with_request_timeout);
        let http = proxies.add_proxy(provider.base_url(), http);
        route.proxy = proxies.describe_proxy(provider.base_url());
        self.routes.insert(name.to_owned(), route);
        Ok(http.map(|http| provider.with_http(http)))
    }

    /// Returns a provider's key and its source: the variable, else the file.
    fn key(&mut self, name: &str, variable: Option<&str>) -> Option<(ApiKey, String)> {
        let of_variable = variable.and_then(|name| Some((name, paths::text_variable(name)?)));
        let (key, source) = match of_variable {
            Some((variable, key)) => (ApiKey::new(key), format!("`{variable}`")),
            None => {
                let file = paths::credentials().map(|path| path.display().to_string());
                (self.stored_key(name, variable)?.clone(), file.unwrap_or("a file".into()))
            }
        };
        self.keys.push((variable.unwrap_or(name).to_owned(), key.clone()));
        Some((key, source))
    }

    /// Returns the stored key of a provider, or of a provider that uses the same variable.
    fn stored_key(&self, name: &str, variable: Option<&str>) -> Option<&ApiKey> {
        let same_variable = BUILT_IN_PROVIDERS.iter().filter(|ready| {
            ready.key_variable.is_some() && ready.key_variable == variable && ready.name != name
        });
        let names = std::iter::once(name).chain(same_variable.map(|ready| ready.name));
        names.into_iter().find_map(|name| self.credentials.get(name))
    }

    /// Returns every provider with a valid setup.
    pub(crate) fn providers(&self) -> &Providers {
        &self.providers
    }

    /// Returns the providers that cannot be used, each with the reason.
    pub(crate) fn unavailable(&self) -> Vec<UnavailableProvider> {
        let keyless = self.providers.iter().filter(|provider| !provider.is_usable());
        let keyless = keyless.map(|provider| {
            let variable = self.variable(provider.name()).map(str::to_owned);
            let why =
                variable.as_ref().map_or("it has no key".into(), |name| format!("set {name}"));
            UnavailableProvider { provider: provider.name().to_string(), variable, why }
        });
        let broken = self.broken.iter().map(|(name, failure)| UnavailableProvider {
            provider: name.clone(),
            variable: None,
            why: failure.message().to_owned(),
        });
        keyless.chain(broken).collect()
    }

    /// Returns the variable for a provider's key.
    fn variable(&self, provider: &str) -> Option<&str> {
        self.variables.get(provider).map(String::as_str)
    }

    /// Returns the models of the local provider, on this machine or at the address that the person set.
    /// `None` if it does not answer soon.
    pub(crate) async fn served_locally(&self) -> Option<Vec<String>> {
        let local = self.providers.get(LOCAL)?;
        let served = timeout(LOCAL_TIMEOUT, local.list_models(&Http::new())).await.ok()?.ok()?;
        Some(served.into_iter().map(|model| format!("{LOCAL}/{model}")).collect())
    }

    /// Describes in words where the local provider is.
    pub(crate) fn describe_local(&self) -> String {
        match self.providers.get(LOCAL).map(Provider::base_url) {
            Some(url) if !Http::is_local(url) => format!("at {url}"),
            _ => "on this machine".into(),
        }
    }

    /// Returns a redactor that removes every known secret.
    pub(crate) fn redactor(&self) -> Redactor {
        let stored = self.credentials.iter();
        let used = self.keys.iter().map(|(name, key)| (name.as_str(), key));
        used.chain(stored)
            .fold(redactor(), |redactor, (name, key)| redactor.with_secret(name, key.expose()))
    }

    /// Lets a cassette answer: no key is needed and nothing is sent.
    pub(crate) fn play(&mut self, path: &Path) -> Result<(), CliError> {
        let cannot = || CliError::new(format!("cannot play {}", path.display()));
        let metadata = fs::metadata(path).map_err(|cause| cannot().with_cause(cause))?;
        if metadata.is_file() && metadata.len() == 0 {
            return Err(cannot().with_cause("it is empty"));
        }
        let player = Player::open(path, self.redactor());
        let player = player.map_err(|cause| cannot().with_cause(cause))?;
        self.set_tape(&Tape::Play(player));
        self.is_playing = true;
        Ok(())
    }

    /// Records all further requests and replies in a new file.
    pub(crate) fn record(&mut self, path: &Path) -> Result<Recorder, CliError> {
        let recorder = Recorder::create(path, self.redactor()).map_err(|cause| {
            let failure = CliError::new(format!("cannot record to {}", path.display()));
            failure.with_cause(cause).with_hint("`--record-cassette FILE` needs a new file")
        })?;
        self.set_tape(&Tape::Record(recorder.clone()));
        Ok(recorder)
    }

    fn set_tape(&mut self, tape: &Tape) {
        self.providers = std::mem::take(&mut self.providers).with_tape(tape);
    }

    /// Uses a key for all further requests.
    pub(crate) fn use_key(&mut self, provider: &str, key: &ApiKey) {
        self.keys.push((provider.to_owned(), key.clone()));
        self.routes.entry(provider.to_owned()).or_default().key = Some("this terminal".into());
        if let Some(found) = self.providers.get(provider).cloned() {
            self.providers = std::mem::take(&mut self.providers).with(found.with_key(key.clone()));
        }
    }

    /// Stores a key for later runs. Returns the file.
    pub(crate) fn store_key(&mut self, provider: &str, key: &ApiKey) -> Result<PathBuf, CliError> {
        self.credentials.store(provider, key)
    }

    /// Chooses the model: the flag, then `COTTER_MODEL`, then the settings, then the first provider with a
    /// key.
    pub(crate) fn choose(&self, flag: Option<&str>) -> Result<ChosenModel, CliError> {
        let named = |name: &str, source| ChosenModel { name: name.trim().to_owned(), source };
        match (flag, model_from_variable(), &self.model) {
            (Some(name), ..) => Ok(named(name, ChoiceSource::Flag)),
            (None, Some(name), _) => Ok(named(&name, ChoiceSource::Variable)),
            (None, None, Some(SourcedText { text, location })) => {
                Ok(named(text, ChoiceSource::Settings(location.clone())))
            }
            (None, None, None) => self.first_with_key().ok_or_else(|| self.no_model()),
        }
    }

    /// Chooses the model that the agent names, if the command line names none.
    pub(crate) fn choose_for(
        &mut self,
        flag: Option<&str>,
        agent: Option<AgentModel<'_>>,
    ) -> Result<ChosenModel, CliError> {
        let Some(AgentModel { text, location, is_named_by_person }) =
            agent.filter(|_| flag.is_none())
        else {
            return self.choose(flag);
        };
        let name = text.trim().to_owned();
        if is_named_by_person {
            self.names.own.push(name.clone());
        }
        Ok(ChosenModel { name, source: ChoiceSource::Agent(location.cloned()) })
    }

    /// True if the person has set up a model: they name it, describe it or its provider, or have a key for
    /// it.
    fn is_set_up(&self, name: &str) -> bool {
        let provider = name.split('/').next().unwrap_or_default();
        let has_key = self.providers.get(provider).is_some_and(Provider::has_key);
        let is_described = self.described.iter().any(|known| known == name || known == provider);
        let is_in_variable = model_from_variable().is_some_and(|model| model.trim() == name);
        let has_address = self.routes.get(provider).is_some_and(|route| route.address.is_some());
        let is_named = self.names.own.iter().any(|own| own == name);
        is_named || is_in_variable || is_described || has_key || has_address
    }

    /// Refuses a model that a project or agent names, unless the person has set it up.
    pub(crate) fn check_may_name(
        &self,
        ChosenModel { name, source }: &ChosenModel,
    ) -> Result<(), CliError> {
        let is_of_others = match source {
            ChoiceSource::Agent(_) => true,
            ChoiceSource::Settings(location) => {
                self.names.of_project.iter().any(|known| known.location == *location)
            }
            ChoiceSource::Flag
            | ChoiceSource::Variable
            | ChoiceSource::Key(_)
            | ChoiceSource::Person => false,
        };
        match is_of_others && !self.is_set_up(name) {
            false => Ok(()),
            true => Err(CliError::usage(format!(
                "the model `{}` is not set up, and only you can set it up",
                shown(name)
            ))
            .with_hint(
                "add a key for its provider, or describe it in your own settings; `--model` uses \
                 another model",
            )),
        }
    }

    /// Returns the default model of the first provider with a key.
    fn first_with_key(&self) -> Option<ChosenModel> {
        BUILT_IN_PROVIDERS.iter().find_map(|ready| {
            self.providers.get(ready.name).filter(|provider| provider.has_key())?;
            let name = format!("{}/{}", ready.name, ready.default_model?);
            let location = self.routes.get(ready.name)?.key.clone()?;
            Some(ChosenModel { name, source: ChoiceSource::Key(location) })
        })
    }

    /// Returns the model with this name.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<dyn Model>, CliError> {
        if name == Rehearsal::NAME {
            return Ok(Arc::new(Rehearsal::new()));
        }
        let parts =
            name.split_once('/').filter(|(first, rest)| !first.is_empty() && !rest.is_empty());
        let Some((provider, _)) = parts else { return Err(self.no_name(name)) };
        if let Some(failure) = self.broken.get(provider) {
            return Err(failure.clone());
        }
        let Some(found) = self.providers.get(provider) else {
            return Err(self.no_provider(provider));
        };
        if !found.is_usable() {
            return Err(self.no_key(found));
        }
        self.providers.find(name).map_err(|error| CliError::usage(error.message))
    }

    /// Returns the chosen model. An error says where the model was named, unless that was the command line or
    /// the person just now.
    pub(crate) fn find_chosen(
        &self,
        ChosenModel { name, source }: &ChosenModel,
    ) -> Result<Arc<dyn Model>, CliError> {
        let shown = shown(name);
        let choice = ChosenModel { name: name.clone(), source: source.clone() };
        self.check_may_name(&choice).and_then(|()| self.find(name)).map_err(
            |failure| match source {
                ChoiceSource::Flag | ChoiceSource::Key(_) | ChoiceSource::Person => failure,
                ChoiceSource::Agent(None) => failure
                    .wrap_in(format!("cannot use the model `{shown}`, which the agent names")),
                ChoiceSource::Variable => failure
                    .wrap_in(format!("cannot use the model `{shown}`, which `COTTER_MODEL` names")),
                ChoiceSource::Settings(location) | ChoiceSource::Agent(Some(location)) => failure
                    .wrap_in(location.error(format!("cannot use the model `{shown}`")).to_string()),
            },
        )
    }

    /// Returns a model with its fallbacks, each once.
    pub(crate) fn with_fallbacks(
        &self,
        model: Arc<dyn Model>,
        fallbacks: &[Fallback],
        budget_usd: Option<f64>,
    ) -> Result<ModelChain, CliError> {
        let mut chain = ModelChain::without_fallbacks(model);
        for fallback in fallbacks {
            match self.fallback(fallback)? {
                Ok(model) => chain.add(model),
                Err(reason) => chain.skipped.push(reason),
            }
        }
        check_budget(chain.all(), budget_usd)?;
        Ok(chain)
    }

    /// Returns one fallback model. The outer error ends the run; the inner one says why the fallback is
    /// skipped.
    fn fallback(&self, fallback: &Fallback) -> Result<Result<Arc<dyn Model>, String>, CliError> {
        match fallback {
            Fallback::Flag(name) => match self.find(name.trim()) {
                Ok(model) => Ok(Ok(model)),
                Err(failure) => Err(failure
                    .wrap_in(format!("cannot use the fallback model `{}`", shown(name.trim())))),
            },
            Fallback::Settings(SourcedText { text: name, location }) => {
                let choice = ChosenModel {
                    name: name.trim().to_owned(),
                    source: ChoiceSource::Settings(location.clone()),
                };
                let found = self.check_may_name(&choice).and_then(|()| self.find(&choice.name));
                Ok(found.map_err(|failure| {
                    let why = failure.one_line();
                    let name = shown(name.trim());
                    let message = format!("the fallback model `{name}` is skipped: {why}");
                    location.error(message).to_string()
                }))
            }
        }
    }

    fn no_model(&self) -> CliError {
        let failure = CliError::usage("no model is set up, so nothing was sent");
        if self.is_playing {
            return failure.with_hint(CASSETTE_MODEL_HINT);
        }
        let open = self.providers.iter().find(|provider| provider.has_key());
        failure.with_hint(match open {
            Some(provider) => format!(
                "there is a key for `{0}`: name one of its models, as in `--model {0}/NAME`",
                provider.name()
            ),
            None => "set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, \
                     `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, \
                     `--ask` offers a choice, `cotter models list` shows all"
                .into(),
        })
    }

    fn no_name(&self, name: &str) -> CliError {
        let failure = CliError::usage(format!(
            "`{}` is not a model name: expected `provider/model`",
            shown(name)
        ));
        let first =
            BUILT_IN_PROVIDERS.iter().find(|ready| ready.name == name.trim_end_matches('/'));
        let first =
            first.and_then(|ready| Some(format!("{}/{}", ready.name, ready.default_model?)));
        let known =
            BUILT_IN_PROVIDERS.iter().flat_map(names_of).chain([Rehearsal::NAME.to_owned()]);
        let known: Vec<_> = known.collect();
        let alike = || known.iter().find(|known| known.ends_with(&format!("/{name}"))).cloned();
        match first.or_else(alike) {
            Some(model) => failure.with_hint(format!("did you mean `{model}`?")),
            None => {
                let names = known.iter().map(String::as_str);
                failure.suggest(name, names, "`cotter models list` shows the known models")
            }
        }
    }

    fn no_provider(&self, provider: &str) -> CliError {
        let failure = CliError::usage(format!("there is no provider `{}`", shown(provider)));
        let names = self.providers.iter().map(|provider| provider.name().as_str());
        let names = names.chain(self.broken.keys().map(String::as_str)).chain([Rehearsal::NAME]);
        let names: Vec<_> = names.collect();
        if text::nearest(provider, names.iter().copied()) == Some(Rehearsal::NAME) {
            return failure.with_hint("did you mean `--model rehearsal`?");
        }
        failure.suggest(
            provider,
            names,
            "`cotter models list` shows the providers; another one is described in the settings, \
             under `providers`",
        )
    }

    fn no_key(&self, provider: &Provider) -> CliError {
        let name = provider.name();
        let failure = CliError::usage(format!("there is no key for `{name}`"));
        failure.with_hint(no_key_hint(name, self.variable(name)))
    }
}

/// Returns the model that `COTTER_MODEL` names.
fn model_from_variable() -> Option<String> {
    paths::text_variable("COTTER_MODEL")
}

/// Returns the hint how to give a provider a key.
fn no_key_hint(provider: &str, variable: Option<&str>) -> String {
    match variable {
        Some(variable) => format!("set `{variable}`"),
        None => format!(
            "set `providers.{provider}.apiKeyVariable` in the settings to the name of the variable \
             with the key"
        ),
    }
}

/// Refuses a budget for a model without a price, before anything is spent.
fn check_budget<'m>(
    mut models: impl Iterator<Item = &'m Arc<dyn Model>>,
    budget_usd: Option<f64>,
) -> Result<(), CliError> {
    let has_no_price = |model: &&Arc<dyn Model>| model.cost_usd(&Usage::default()).is_none();
    let (Some(budget), Some(model)) = (budget_usd, models.find(has_no_price)) else {
        return Ok(());
    };
    let name = model.name();
    let failure = CliError::usage(format!(
        "the price of `{name}` is unknown, so a budget of {budget} USD cannot be enforced"
    ));
    Err(match name.contains('/') {
        true => failure.with_hint(price_hint(name)),
        false => failure.with_hint("remove the budget"),
    })
}

/// Returns the hint how to set a price, with a complete settings file.
fn price_hint(model: &str) -> String {
    let file = paths::user_settings();
    let file = file.map_or("your settings".into(), |path| path.display().to_string());
    let model = serde_json::Value::from(model);
    format!(
        "remove the budget, or set the price in {file}, in dollars per million tokens; replace 1.0 \
         and 5.0 with the real prices:\n{{\n  \"models\": {{\n    {model}: {{\"price\": \
         {{\"input\": 1.0, \"output\": 5.0}}}}\n  }}\n}}"
    )
}

/// Creates a provider without its key. The outer error comes from the settings and ends the run. The inner
/// error comes from a variable and counts only if this provider is used.
fn base(
    name: &str,
    entry: Option<&ProviderSettings>,
) -> Result<Result<Provider, CliError>, SettingsError> {
    let speaks = entry.and_then(|entry| entry.speaks.as_ref()).map(speaks).transpose()?;
    let address = entry.and_then(|entry| entry.base_url.as_ref()).map(address).transpose()?;
    let Some(known) = Provider::built_in(name) else {
        return match (speaks, address, entry) {
            (Some(speaks), Some(address), _) => Ok(Ok(Provider::new(name, speaks, address))),
            (_, _, Some(entry)) => Err(undescribed_error(name, entry)),
            (_, _, None) => unreachable!("a provider that is not built in has settings"),
        };
    };
    let known = speaks.into_iter().fold(known, Provider::speaking);
    let address = match (address, address_variable(name)) {
        (Some(address), _) => Some(Ok(address)),
        (None, Some(variable)) if name == LOCAL => {
            address_from_variable(variable, crate::models::proxy::parse_ollama_host)
        }
        (None, Some(variable)) => address_from_variable(variable, |url| {
            let url = url.trim().to_owned();
            Http::check_address(&url).map(|()| url)
        }),
        (None, None) => None,
    };
    Ok(match address {
        Some(Ok(address)) => Ok(known.with_base_url(address)),
        Some(Err(failure)) => Err(failure),
        None => Ok(known),
    })
}

/// Returns the variable for a provider's address.
fn address_variable(name: &str) -> Option<&'static str> {
    if name == LOCAL { Some("OLLAMA_HOST") } else { ready(name)?.base_url_variable }
}

/// Returns the source of a provider's address, if it is not the default one.
fn address_source(name: &str, entry: Option<&ProviderSettings>) -> Option<String> {
    if let Some(url) = entry.and_then(|entry| entry.base_url.as_ref()) {
        return Some(url.location.to_string());
    }
    let variable = address_variable(name)?;
    paths::text_variable(variable).map(|_| format!("`{variable}`"))
}

/// Parses the address in a variable. `None` if the variable is not set.
fn address_from_variable(
    variable: &str,
    read: impl Fn(&str) -> Result<String, String>,
) -> Option<Result<String, CliError>> {
    let value = paths::text_variable(variable)?;
    Some(read(&value).map_err(|why| {
        CliError::usage(format!("`{variable}` is not the address of a provider")).with_cause(why)
    }))
}

fn speaks(word: &SourcedText) -> Result<ApiFormat, SettingsError> {
    let known = ApiFormat::WORDS.iter().find(|(known, _)| *known == word.text);
    known.map(|(_, speaks)| *speaks).ok_or_else(|| {
        let words: Vec<_> = ApiFormat::WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
        let found = shown(&word.text);
        let message = format!("expected one of {}, found `{found}`", words.join(", "));
        word.location
            .error(message)
            .suggest(&word.text, ApiFormat::WORDS.iter().map(|(word, _)| *word))
    })
}

fn address(url: &SourcedText) -> Result<String, SettingsError> {
    let text = url.text.trim();
    Http::check_address(text).map_err(|why| url.location.error(why))?;
    Ok(text.to_owned())
}

/// Creates the error for an unknown provider that the settings do not describe.
fn undescribed_error(name: &str, entry: &ProviderSettings) -> SettingsError {
    let error = entry
        .location
        .error(format!("`{name}` is not a known provider, so it needs `speaks` and `baseUrl`"));
    error.suggest(name, BUILT_IN_PROVIDERS.iter().map(|ready| ready.name))
}

fn ready(name: &str) -> Option<&'static BuiltInProvider> {
    BUILT_IN_PROVIDERS.iter().find(|ready| ready.name == name)
}

/// Returns the models of a provider in the catalogue.
fn names_of(ready: &BuiltInProvider) -> Vec<String> {
    let alone = Provider::built_in(ready.name).map(Provider::without_required_key);
    let listed = alone.map(|provider| Providers::new().with(provider).available());
    listed.into_iter().flatten().map(|info| info.name.into()).collect()
}

/// Renders a name from foreign input: sanitized and clipped.
fn shown(name: &str) -> String {
    text::cut_chars(&text::show_line(name), 60).into_owned()
}
