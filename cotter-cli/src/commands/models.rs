//! `cotter models`: the available models, their prices, and the model that a run would use now.

use std::process::ExitCode;

use cotter::{
    model::{ModelDirectory, ModelInfo, Price},
    text,
};
use cotter_files::settings::MergedSettings;
use cotter_models::{ModelFacts, Rehearsal};
use serde_json::{Value, json};

use crate::{
    error::CliError,
    models::{ChosenModel, Fallback, LOCAL, ProviderSet, UnavailableProvider},
    paths,
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style},
    },
};

/// The reason why a run would fail if no model is named.
const NO_MODEL_NAMED: &str = "no model is named, and no provider has a key";

/// Everything that the command prints.
struct ModelTable {
    models: Vec<ModelInfo>,
    choice: Result<ChosenModel, CliError>,
    /// The error if the chosen model cannot be used.
    choice_error: Option<CliError>,
    /// The fallback models that can be used.
    fallbacks: Vec<String>,
    /// The reasons for fallback models that are skipped.
    skipped: Vec<String>,
    /// The providers that cannot be used, each with the reason.
    unavailable: Vec<UnavailableProvider>,
}

/// `cotter models list`.
pub(crate) fn list(json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let workspace = paths::find_workspace(None)?;
    let files = crate::settings::SettingsFiles::load(
        None,
        &workspace,
        &crate::trust::scan_trust(&workspace),
    )?;
    let values = files.values();
    let provider_set = ProviderSet::new(&values, files.model_names(), workspace.project())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|cause| CliError::new("cannot start the runtime").with_cause(cause))?;
    let served = runtime.block_on(provider_set.served_locally());
    runtime.shutdown_background();
    let listing = ModelTable::new(&provider_set, &values, served);
    Ok(print_stdout(&if json { listing.json() } else { listing.text(Style::on_stdout(color)) }))
}

impl ModelTable {
    fn new(
        provider_set: &ProviderSet,
        values: &MergedSettings,
        served: Option<Vec<String>>,
    ) -> Self {
        let providers = provider_set.providers();
        let mut models = providers.available();
        let mut unavailable = provider_set.unavailable();
        match served {
            Some(names) => models.extend(names.iter().filter_map(|name| providers.info(name))),
            None => unavailable.extend(providers.get(LOCAL).map(|local| UnavailableProvider {
                provider: LOCAL.into(),
                variable: None,
                why: format!("no answer from {}", local.base_url()),
            })),
        }
        let mut rehearsal = ModelInfo::new(Rehearsal::NAME);
        rehearsal.price = Some(Price::default());
        models.push(rehearsal);
        let choice = provider_set.choose(None);
        let (mut fallbacks, mut skipped, mut choice_error) = (vec![], vec![], None);
        if let Ok(choice) = &choice {
            let set = Fallback::of_settings(values);
            let found =
                provider_set.check_may_name(choice).and_then(|()| provider_set.find(&choice.name));
            let budget_usd = values.limits.max_budget_usd;
            match found.and_then(|model| provider_set.with_fallbacks(model, &set, budget_usd)) {
                Ok(chain) => {
                    fallbacks = chain.names().split_off(1);
                    skipped = chain.skipped;
                }
                Err(failure) => choice_error = Some(failure),
            }
        }
        let named = choice.iter().map(|choice| &choice.name).filter(|_| choice_error.is_none());
        for name in named.chain(&fallbacks) {
            if models.iter().all(|info| info.name != *name) {
                models.extend(providers.info(name));
            }
        }
        ModelTable { models, choice, choice_error, fallbacks, skipped, unavailable }
    }

    fn is_used(&self, info: &ModelInfo) -> bool {
        self.choice_error.is_none()
            && self.choice.as_ref().is_ok_and(|choice| choice.name == info.name)
    }

    fn text(&self, style: Style) -> String {
        let shown = |info: &ModelInfo| text::show_line(&info.name).into_owned();
        let width = self.models.iter().map(|info| shown(info).chars().count()).max();
        let width = width.unwrap_or_default();
        let mut out = String::new();
        for info in &self.models {
            let name = shown(info);
            let padding = " ".repeat(width - name.chars().count());
            let (mark, name) = match self.is_used(info) {
                true => ('*', style.strong(&name)),
                false => (' ', name),
            };
            let window = info.context_window.map_or("?".into(), tokens);
            out += &format!("{mark} {name}{padding}  {window:>6}  {}\n", price(info.price));
        }
        out += "\n";
        out += &self.describe_choice();
        out += &self.describe_fallbacks();
        for UnavailableProvider { provider, why, .. } in &self.unavailable {
            out +=
                &style.muted(&format!("{}: {}", text::show_line(provider), text::show_line(why)));
            out += "\n";
        }
        let date = ModelFacts::date();
        out + &style.muted(&format!("prices in dollars per million tokens, as of {date}")) + "\n"
    }

    /// Describes in words the model that a run would use now, and the reason.
    fn describe_choice(&self) -> String {
        match (&self.choice, &self.choice_error) {
            (Ok(ChosenModel { name, source }), None) => {
                format!("a run would use {}: {}\n", text::show_line(name), source.reason())
            }
            (Ok(ChosenModel { name, source }), Some(trouble)) => format!(
                "a run would fail: {} is chosen ({}), but {}\n",
                text::show_line(name),
                source.reason(),
                text::show_line(trouble.message())
            ),
            (Err(_), _) => format!("a run would fail: {NO_MODEL_NAMED}\n"),
        }
    }

    /// Describes in words the fallback models, and those that are skipped.
    fn describe_fallbacks(&self) -> String {
        let names: Vec<_> = self.fallbacks.iter().map(|name| text::show_line(name)).collect();
        let then = match names.is_empty() {
            true => String::new(),
            false => format!("if it fails, in this order: {}\n", names.join(", ")),
        };
        let left_out = self.skipped.iter().map(|words| format!("{}\n", text::show_line(words)));
        left_out.fold(then, |out, line| out + &line)
    }

    fn json(&self) -> String {
        let models = self.models.iter().map(|info| {
            let provider = info.name.split_once('/').map_or(&*info.name, |(provider, _)| provider);
            json!({
                "type": "model",
                "name": info.name,
                "provider": provider,
                "contextWindow": info.context_window,
                "maxOutput": info.max_output,
                "price": info.price.map(price_json),
                "used": self.is_used(info),
            })
        });
        let closed = self.unavailable.iter().map(|closed| {
            json!({
                "type": "closed",
                "provider": closed.provider,
                "variable": closed.variable,
                "why": closed.why,
            })
        });
        let choice = self.choice.as_ref().ok();
        let trouble = match choice {
            Some(_) => self.choice_error.as_ref().map(CliError::message),
            None => Some(NO_MODEL_NAMED),
        };
        let used = json!({
            "type": "choice",
            "name": choice.map(|choice| &choice.name),
            "why": choice.map(|choice| choice.source.reason()),
            "trouble": trouble,
            "fallbacks": self.fallbacks,
            "leftOut": self.skipped,
        });
        let date = json!({"type": "catalogue", "date": ModelFacts::date()});
        models.chain(closed).chain([used, date]).map(|line| format!("{line}\n")).collect()
    }
}

fn price_json(price: Price) -> Value {
    let Price { input, output, cache_read, cache_write } = price;
    json!({"input": input, "output": output, "cacheRead": cache_read, "cacheWrite": cache_write})
}

fn price(price: Option<Price>) -> String {
    match price {
        None => "price unknown".into(),
        Some(price) if price == Price::default() => "free".into(),
        Some(Price { input, output, .. }) => format!("{input} in, {output} out"),
    }
}

/// Formats a number of tokens in short form.
fn tokens(count: u64) -> String {
    match count {
        1_000_000.. if count.is_multiple_of(1_000_000) => format!("{}M", count / 1_000_000),
        1_000_000.. => format!("{}.{:02}M", count / 1_000_000, count % 1_000_000 / 10_000),
        1_000.. => format!("{}k", count / 1000),
        _ => count.to_string(),
    }
}
