//! What is known of models: prices, windows, how they think. One data file with a date; what is not in
//! it works all the same, and its cost is unknown rather than nothing.
//!
//! Facts are the providers' own pages' where those say something. Where a price is announced to rise,
//! the dearer one is in the file: a budget is kept in any case.

use std::{collections::HashMap, sync::LazyLock};

use cotter::{
    message::Usage,
    model::{ModelInfo, Price, Thinking},
};
use serde::Deserialize;
use smol_str::SmolStr;

/// What is known of one model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Known {
    /// How many tokens a conversation may have.
    pub context_window: Option<u64>,
    /// How many tokens a reply may have.
    pub max_output: Option<u64>,
    /// What a million tokens cost.
    pub price: Option<Price>,
    /// From how many tokens of a request on another price holds for all of it.
    pub above: Option<(u64, Price)>,
    pub(crate) thinks: Thinks,
    /// The words for how hard it may think, where it takes any.
    pub(crate) efforts: Vec<Effort>,
    /// Whether what it thought is bound to the conversation before it.
    pub(crate) is_bound: bool,
    pub(crate) chat_tools: ChatTools,
}

/// How a model is told how hard to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Thinks {
    /// Nobody knows.
    #[default]
    Unknown,
    /// It does not.
    None,
    /// By a word.
    Effort,
    /// By a number of tokens.
    Budget,
    /// By a word, and only when it is told to.
    Adaptive,
    /// By a word, unless it is told not to.
    Disabled,
    /// By a word, always.
    Always,
}

/// A provider's word for how hard to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Effort {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Effort::None => "none",
            Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::Xhigh => "xhigh",
            Effort::Max => "max",
        }
    }

    fn of(level: Thinking) -> Self {
        match level {
            Thinking::Off => Effort::None,
            Thinking::Minimal => Effort::Minimal,
            Thinking::Low => Effort::Low,
            Thinking::Medium => Effort::Medium,
            _ => Effort::High,
        }
    }
}

/// Whether a model takes tools where OpenAI's Chat Completions are spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChatTools {
    #[default]
    Yes,
    /// Only when it does not think.
    WithoutThinking,
    /// Only where Responses are spoken.
    Never,
}

impl Known {
    /// What is in the file about a model, by `provider/model`.
    pub fn of(name: &str) -> Option<&'static Known> {
        CATALOG.models.get(name)
    }

    /// Every model of a provider in the file, by name.
    pub fn models_of(provider: &str) -> impl Iterator<Item = (&'static SmolStr, &'static Known)> {
        let provider = format!("{provider}/");
        CATALOG
            .order
            .iter()
            .filter(move |name| name.starts_with(&provider))
            .map(|name| (name, &CATALOG.models[name]))
    }

    /// The day the file is of.
    pub fn date() -> &'static str {
        &CATALOG.date
    }

    /// What a reply of that usage cost.
    pub(crate) fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        let asked =
            usage.input_tokens.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        match &self.above {
            Some((tokens, price)) if asked > *tokens => Some(price.of(usage)),
            _ => self.price.map(|price| price.of(usage)),
        }
    }

    /// The model as lists show it.
    pub(crate) fn info(&self, name: &SmolStr) -> ModelInfo {
        let mut info = ModelInfo::new(name.clone());
        info.context_window = self.context_window;
        info.max_output = self.max_output;
        info.price = self.price;
        info
    }

    /// The model's word for a level: the nearest it takes, rather less than more. `None` where it
    /// takes none.
    pub(crate) fn effort(&self, level: Thinking) -> Option<Effort> {
        let wanted = Effort::of(level);
        if self.thinks == Thinks::None {
            return None;
        }
        if self.efforts.is_empty() {
            return (wanted != Effort::None).then_some(wanted);
        }
        let below = self.efforts.iter().filter(|effort| **effort <= wanted).max();
        below.or_else(|| self.efforts.iter().min()).copied()
    }
}

struct Catalog {
    date: String,
    order: Vec<SmolStr>,
    models: HashMap<SmolStr, Known>,
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let file: File = serde_json::from_str(include_str!("catalog.json"))
        .expect("the file is read by a test before it is shipped");
    let order = file.models.iter().map(|row| row.id.clone()).collect();
    let models = file.models.into_iter().map(|row| (row.id.clone(), row.known())).collect();
    Catalog { date: file.date, order, models }
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    date: String,
    models: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Row {
    id: SmolStr,
    context: Option<u64>,
    max_output: Option<u64>,
    price: Option<PriceRow>,
    above: Option<AboveRow>,
    thinking: Thinks,
    #[serde(default)]
    efforts: Vec<Effort>,
    #[serde(default)]
    bound: bool,
    #[serde(default)]
    chat_tools: ChatTools,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AboveRow {
    tokens: u64,
    price: PriceRow,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PriceRow {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

impl PriceRow {
    fn price(self) -> Price {
        let PriceRow { input, output, cache_read, cache_write } = self;
        Price { input, output, cache_read, cache_write }
    }
}

impl Row {
    fn known(self) -> Known {
        Known {
            context_window: self.context,
            max_output: self.max_output,
            price: self.price.map(PriceRow::price),
            above: self.above.map(|AboveRow { tokens, price }| (tokens, price.price())),
            thinks: self.thinking,
            efforts: self.efforts,
            is_bound: self.bound,
            chat_tools: self.chat_tools,
        }
    }
}
