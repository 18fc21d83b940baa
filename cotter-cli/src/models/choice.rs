//! The models of one run: a script, or the model chosen by the command line, `COTTER_MODEL`, the settings or
//! a key, with its fallbacks.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use cotter::{
    Reply,
    model::{Model, ModelError, ModelErrorKind, ReplyStream, Request},
    text::redact::Redactor,
};
use cotter_models::{Providers, Recorder};
use cotter_test::ScriptedModel;
use futures_util::stream;
use smol_str::SmolStr;

use crate::models::{
    AgentModel, CASSETTE_MODEL_HINT, ChoiceSource, ChosenModel, Fallback, ProviderSet,
};
use crate::{
    args::{Cassette, ModelArg, RunArgs},
    error::CliError,
    models::onboarding::offer_models,
    settings::SettingsFiles,
    terminal::Terminal,
};

/// Everything that is needed to choose the models of a run.
pub(crate) struct ModelChoice {
    provider_set: ProviderSet,
    /// The script, read once, because it may come from a pipe.
    script: Option<Result<Arc<dyn Model>, CliError>>,
    /// The chosen model, or the error if no model is named and no key is available.
    choice: Result<ChosenModel, CliError>,
    fallbacks: Vec<Fallback>,
    budget_usd: Option<f64>,
    record: Option<PathBuf>,
    recorder: Option<Recorder>,
}

/// The model of a run and its fallbacks.
pub(crate) struct ModelChain {
    pub(crate) model: Arc<dyn Model>,
    /// The fallbacks, each once.
    pub(crate) fallbacks: Vec<Arc<dyn Model>>,
    /// The reasons for fallbacks that were skipped.
    pub(crate) skipped: Vec<String>,
    /// The source of the choice. `None` for a script.
    pub(crate) source: Option<ChoiceSource>,
}

impl ModelChoice {
    /// Reads everything that may choose a model.
    pub(crate) fn new(
        args: &RunArgs,
        files: &SettingsFiles,
        agent: Option<AgentModel<'_>>,
        project: &Path,
    ) -> Result<Self, CliError> {
        let values = &files.values();
        let mut provider_set = ProviderSet::new(values, files.model_names(), project)?;
        if let Some(Cassette::Play(path)) = args.cassette() {
            provider_set.play(path)?;
        }
        let (script, flag) = match args.model() {
            ModelArg::Script(path) => (Some(script(path)), None),
            ModelArg::Named(name) => (None, Some(name)),
            ModelArg::Unnamed => (None, None),
        };
        Ok(ModelChoice {
            recorder: None,
            script,
            choice: provider_set.choose_for(flag, agent),
            fallbacks: match args.fallbacks.is_empty() {
                true => Fallback::of_settings(values),
                false => args.fallbacks.iter().cloned().map(Fallback::Flag).collect(),
            },
            budget_usd: args.max_budget_usd.or(values.limits.max_budget_usd),
            record: match args.cassette() {
                Some(Cassette::Record(path)) => Some(path.to_owned()),
                _ => None,
            },
            provider_set,
        })
    }

    /// True if no model is chosen, so that the person may be asked. Always false while a cassette plays,
    /// which holds replies of its own models.
    pub(crate) fn needs_question(&self, args: &RunArgs) -> bool {
        let plays = matches!(args.cassette(), Some(Cassette::Play(_)));
        self.choice.is_err() && self.script.is_none() && !plays
    }

    /// Asks the person for a model.
    pub(crate) async fn ask(&mut self, terminal: &Terminal) -> Result<(), CliError> {
        if let Some(choice) = offer_models(terminal, &mut self.provider_set).await? {
            self.choice = Ok(choice);
        }
        Ok(())
    }

    /// Returns the models of the run. Fails if none is available.
    pub(crate) fn find(&self) -> Result<ModelChain, CliError> {
        let (model, source) = match &self.script {
            Some(script) => (script.clone()?, None),
            None => {
                let choice = self.choice.clone()?;
                (self.provider_set.find_chosen(&choice)?, Some(choice.source))
            }
        };
        let chain = self.provider_set.with_fallbacks(model, &self.fallbacks, self.budget_usd)?;
        Ok(ModelChain { source, ..chain })
    }

    /// Returns the models of a run that begins. If a recording was requested, it starts here.
    pub(crate) fn start(&mut self) -> Result<ModelChain, CliError> {
        let chain = self.find()?;
        let Some(path) = self.record.take() else { return Ok(chain) };
        self.recorder = Some(self.provider_set.record(&path)?);
        self.find()
    }

    /// Returns a message if the recording failed.
    pub(crate) fn recording_failure(&self) -> Option<String> {
        let why = self.recorder.as_ref()?.failure()?;
        Some(format!("the cassette is incomplete: {why}"))
    }

    /// Returns a hint for a failed reply. `models` are the models that were asked, in order.
    pub(crate) fn hint(&self, reply: &Reply, models: &[String]) -> Option<String> {
        let failed = reply.error.as_ref()?;
        let is_unnamed =
            matches!(&self.choice, Ok(ChosenModel { source: ChoiceSource::Key(_), .. }));
        if self.provider_set.is_playing && is_unnamed && failed.code == "other" {
            return Some(CASSETTE_MODEL_HINT.into());
        }
        self.provider_set.hint(failed, models)
    }

    /// Returns a redactor that removes every key from the output of a run.
    pub(crate) fn redactor(&self) -> Redactor {
        self.provider_set.redactor()
    }

    /// Returns the providers whose models may be named during the run.
    pub(crate) fn providers(&self) -> Providers {
        self.provider_set.providers().clone()
    }
}

impl ModelChain {
    /// Creates a chain without fallbacks.
    pub(crate) fn without_fallbacks(model: Arc<dyn Model>) -> Self {
        ModelChain { model, fallbacks: vec![], skipped: vec![], source: None }
    }

    /// Adds a fallback, unless the chain has it.
    pub(crate) fn add(&mut self, fallback: Arc<dyn Model>) {
        if self.all().all(|known| known.name() != fallback.name()) {
            self.fallbacks.push(fallback);
        }
    }

    /// Returns all models, in the order in which they are asked.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Model>> {
        std::iter::once(&self.model).chain(&self.fallbacks)
    }

    /// Returns the model and the reason for its choice, if no one named it.
    pub(crate) fn describe_default_choice(&self) -> Option<String> {
        let source = self.source.as_ref();
        let source = source.filter(|source| matches!(source, ChoiceSource::Key(_)))?;
        Some(format!("{}, since {}", self.model.name(), source.reason()))
    }

    /// Returns the names of all models, in the order in which they are asked.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all().map(|model| model.name().to_string()).collect()
    }

    /// Returns a model that never answers, for commands that need none, and a flag that is set if it was
    /// asked.
    pub(crate) fn without_model() -> (Self, Arc<AtomicBool>) {
        let asked = Arc::<AtomicBool>::default();
        let model = Arc::new(NoModel { name: "none".into(), asked: asked.clone() });
        (ModelChain::without_fallbacks(model), asked)
    }
}

struct NoModel {
    name: SmolStr,
    asked: Arc<AtomicBool>,
}

impl Model for NoModel {
    fn name(&self) -> &SmolStr {
        &self.name
    }

    fn stream(&self, _: Request) -> ReplyStream {
        self.asked.store(true, Ordering::Relaxed);
        let error = ModelError::new(ModelErrorKind::BadRequest, "no model is set up");
        Box::pin(stream::iter([Err(error)]))
    }
}

fn script(path: &Path) -> Result<Arc<dyn Model>, CliError> {
    let shown = path.display().to_string();
    let bytes = fs::read(path).map_err(|cause| {
        CliError::new(format!("cannot read the script {shown}")).with_cause(cause)
    })?;
    Ok(Arc::new(ScriptedModel::parse(&shown, &bytes)?))
}
