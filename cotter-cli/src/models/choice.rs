//! Who answers in one run: a script, or the model that the command line, `COTTER_MODEL`, the settings or
//! a key stand for, and those to turn to when it fails.

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
use cotter_test::Scripted;
use futures_util::stream;
use smol_str::SmolStr;

use crate::models::{AgentModel, ChoiceSource, ChosenModel, Fallback, ProviderSet, RECORDED_WITH};
use crate::{
    args::{Cassette, ModelArg, RunArgs},
    error::CliError,
    models::onboarding::offer,
    settings::SettingsFiles,
    terminal::Terminal,
};

/// What it takes to say who answers.
pub(crate) struct ModelChoice {
    reach: ProviderSet,
    /// Read once: it may come from a pipe.
    script: Option<Result<Arc<dyn Model>, CliError>>,
    /// The model; none where nobody named one and no key stands for one.
    choice: Result<ChosenModel, CliError>,
    fallbacks: Vec<Fallback>,
    budget_usd: Option<f64>,
    record: Option<PathBuf>,
    recorder: Option<Recorder>,
}

/// Those who answer.
pub(crate) struct ModelChain {
    pub(crate) model: Arc<dyn Model>,
    /// Each once.
    pub(crate) fallbacks: Vec<Arc<dyn Model>>,
    /// The fallbacks that cannot answer, each with why.
    pub(crate) left_out: Vec<String>,
    /// Who named the model; none for a script.
    pub(crate) by: Option<ChoiceSource>,
}

impl ModelChoice {
    /// Looks at everything that may say it.
    pub(crate) fn new(
        args: &RunArgs,
        files: &SettingsFiles,
        agent: Option<AgentModel<'_>>,
        project: &Path,
    ) -> Result<Self, CliError> {
        let values = &files.values();
        let mut reach = ProviderSet::new(values, files.model_names(), project)?;
        if let Some(Cassette::Play(path)) = args.cassette() {
            reach.play(path)?;
        }
        let (script, flag) = match args.model() {
            ModelArg::Script(path) => (Some(script(path)), None),
            ModelArg::Named(name) => (None, Some(name)),
            ModelArg::Unsaid => (None, None),
        };
        Ok(ModelChoice {
            recorder: None,
            script,
            choice: reach.choose_for(flag, agent),
            fallbacks: match args.fallbacks.is_empty() {
                true => Fallback::of_settings(values),
                false => args.fallbacks.iter().cloned().map(Fallback::Flag).collect(),
            },
            budget_usd: args.max_budget_usd.or(values.limits.max_budget_usd),
            record: match args.cassette() {
                Some(Cassette::Record(path)) => Some(path.to_owned()),
                _ => None,
            },
            reach,
        })
    }

    /// Whether nobody is meant, so that a person may be asked. Cassettes are for whoever was recorded.
    pub(crate) fn is_open(&self, args: &RunArgs) -> bool {
        let plays = matches!(args.cassette(), Some(Cassette::Play(_)));
        self.choice.is_err() && self.script.is_none() && !plays
    }

    /// Asks the person.
    pub(crate) async fn ask(&mut self, terminal: &Terminal) -> Result<(), CliError> {
        if let Some(choice) = offer(terminal, &mut self.reach).await? {
            self.choice = Ok(choice);
        }
        Ok(())
    }

    /// Those who answer, or why there is nobody.
    pub(crate) fn find(&self) -> Result<ModelChain, CliError> {
        let (model, by) = match &self.script {
            Some(script) => (script.clone()?, None),
            None => {
                let choice = self.choice.clone()?;
                (self.reach.find_chosen(&choice)?, Some(choice.by))
            }
        };
        let answering = self.reach.with_fallbacks(model, &self.fallbacks, self.budget_usd)?;
        Ok(ModelChain { by, ..answering })
    }

    /// The same for a run that begins: from here on what is said is written down, where that was asked
    /// for.
    pub(crate) fn settle(&mut self) -> Result<ModelChain, CliError> {
        let answering = self.find()?;
        let Some(path) = self.record.take() else { return Ok(answering) };
        self.recorder = Some(self.reach.record(&path)?);
        self.find()
    }

    /// What is wrong with the recording, if anything.
    pub(crate) fn recording_failure(&self) -> Option<String> {
        let why = self.recorder.as_ref()?.failure()?;
        Some(format!("the cassette is not whole: {why}"))
    }

    /// What may help whoever gets this reply. The models are those who were asked, in their order.
    pub(crate) fn hint(&self, reply: &Reply, models: &[String]) -> Option<String> {
        let failed = reply.error.as_ref()?;
        let by_nobody = matches!(&self.choice, Ok(ChosenModel { by: ChoiceSource::Key(_), .. }));
        if self.reach.plays && by_nobody && failed.code == "other" {
            return Some(RECORDED_WITH.into());
        }
        self.reach.hint(failed, models)
    }

    /// Takes every key out of what leaves a run.
    pub(crate) fn redactor(&self) -> Redactor {
        self.reach.redactor()
    }

    /// The models that may be named while it runs.
    pub(crate) fn providers(&self) -> Providers {
        self.reach.providers().clone()
    }
}

impl ModelChain {
    /// A model without anybody to turn to.
    pub(crate) fn alone(model: Arc<dyn Model>) -> Self {
        ModelChain { model, fallbacks: vec![], left_out: vec![], by: None }
    }

    /// Adds one to turn to, unless it is there.
    pub(crate) fn add(&mut self, fallback: Arc<dyn Model>) {
        if self.all().all(|known| known.name() != fallback.name()) {
            self.fallbacks.push(fallback);
        }
    }

    /// Everybody, in the order they are asked.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Model>> {
        std::iter::once(&self.model).chain(&self.fallbacks)
    }

    /// The model and why it is this one, where nobody named it.
    pub(crate) fn named_by_nobody(&self) -> Option<String> {
        let by = self.by.as_ref().filter(|by| matches!(by, ChoiceSource::Key(_)))?;
        Some(format!("{}, since {}", self.model.name(), by.words()))
    }

    /// The names of everybody, in the order they are asked.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all().map(|model| model.name().to_string()).collect()
    }

    /// Nobody, for commands that need no model, and whether one was needed all the same.
    pub(crate) fn nobody() -> (Self, Arc<AtomicBool>) {
        let asked = Arc::<AtomicBool>::default();
        let model = Arc::new(NoModel { name: "none".into(), asked: asked.clone() });
        (ModelChain::alone(model), asked)
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
    Ok(Arc::new(Scripted::parse(&shown, &bytes)?))
}
