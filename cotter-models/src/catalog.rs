//! The model catalogue: prices, context windows, how models think. It is one data file with a date.
//! A model that is not in it works too; its cost is then unknown, not zero.
//!
//! Facts come from the providers' own pages where these have them. If a provider has announced a
//! higher price, the file has the higher one, so that a budget is never exceeded.

use cotter::{
    history::message::Usage,
    model::{ModelInfo, Price, Thinking},
};
use serde::Deserialize;
use serde_json::Value;
use smol_str::SmolStr;

/// The facts about one model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelFacts {
    /// The context window in tokens.
    pub context_window: Option<u64>,
    /// The longest reply in tokens.
    pub max_output: Option<u64>,
    /// The price of a million tokens.
    pub price: Option<Price>,
    /// A number of input tokens, and the price of a request that has more.
    pub above: Option<(u64, Price)>,
    pub(crate) thinking_control: ThinkingControl,
    /// The effort words it takes, if any.
    pub(crate) efforts: Vec<Effort>,
    /// True if its thoughts are valid only after the same conversation.
    pub(crate) is_bound: bool,
    pub(crate) chat_tools: ChatTools,
}

/// How the amount of thinking is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThinkingControl {
    /// Not in the catalogue.
    #[default]
    Unknown,
    /// The model does not think.
    None,
    /// By an effort word.
    Effort,
    /// By a number of tokens.
    Budget,
    /// By an effort word. It thinks only when asked to.
    Adaptive,
    /// By an effort word. It thinks unless thinking is disabled.
    Disabled,
    /// By an effort word. Thinking cannot be disabled.
    Always,
}

/// A provider's word for how much to think.
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

/// If a model takes tools over OpenAI's Chat Completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChatTools {
    #[default]
    Yes,
    /// Only with thinking off.
    WithoutThinking,
    /// Never; only over Responses.
    Never,
}

impl ModelFacts {
    /// The catalogue's entry for a model, by `provider/model`.
    pub fn of(name: &str) -> Option<ModelFacts> {
        let start = format!("{}{},", ROW, Value::from(name));
        rows().find(|row| row.starts_with(&start)).map(|row| Row::read(row).facts())
    }

    /// The catalogue's models of a provider, by name.
    pub fn models_of(provider: &str) -> impl Iterator<Item = (SmolStr, ModelFacts)> {
        let provider = format!("{provider}/");
        let all = rows().map(Row::read).filter(move |row| row.id.starts_with(&provider));
        all.map(|row| (row.id.clone(), row.facts()))
    }

    /// The date of the catalogue.
    pub fn date() -> &'static str {
        let after = FILE.split_once("\"date\": \"").map_or("", |(_, after)| after);
        after.split('"').next().unwrap_or_default()
    }

    /// The cost of a reply with that usage; `None` without a price.
    pub(crate) fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        let input =
            usage.input_tokens.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        match &self.above {
            Some((tokens, price)) if input > *tokens => Some(price.of(usage)),
            _ => self.price.map(|price| price.of(usage)),
        }
    }

    /// The model's entry in lists.
    pub(crate) fn info(&self, name: &SmolStr) -> ModelInfo {
        let mut info = ModelInfo::new(name.clone());
        info.context_window = self.context_window;
        info.max_output = self.max_output;
        info.price = self.price;
        info
    }

    /// The effort word for a level: the nearest that the model takes, preferring the lower one.
    /// `None` if it takes none.
    pub(crate) fn effort(&self, level: Thinking) -> Option<Effort> {
        let wanted = Effort::of(level);
        if self.thinking_control == ThinkingControl::None {
            return None;
        }
        if self.efforts.is_empty() {
            return (wanted != Effort::None).then_some(wanted);
        }
        let below = self.efforts.iter().filter(|effort| **effort <= wanted).max();
        below.or_else(|| self.efforts.iter().min()).copied()
    }
}

/// The catalogue file. Every model has its own line, so that a lookup parses one line only.
const FILE: &str = include_str!("catalog.json");

/// The start of a model's line.
const ROW: &str = "{\"id\": ";

fn rows() -> impl Iterator<Item = &'static str> {
    let lines = FILE.lines().map(|line| line.trim().trim_end_matches(','));
    lines.filter(|line| line.starts_with(ROW))
}

/// One line of the file. An unknown key is an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Row {
    /// `provider/model`. The provider is a `catalogue` name of `BUILT_IN_PROVIDERS`.
    id: SmolStr,
    context: Option<u64>,
    max_output: Option<u64>,
    /// All four prices are given. A cache without its own price costs what input costs.
    price: Option<PriceRow>,
    above: Option<AboveRow>,
    thinking: ThinkingControl,
    /// In ascending order.
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
    fn read(line: &str) -> Self {
        serde_json::from_str(line).expect("a test parses every line of the catalogue")
    }

    fn facts(self) -> ModelFacts {
        ModelFacts {
            context_window: self.context,
            max_output: self.max_output,
            price: self.price.map(PriceRow::price),
            above: self.above.map(|AboveRow { tokens, price }| (tokens, price.price())),
            thinking_control: self.thinking,
            efforts: self.efforts,
            is_bound: self.bound,
            chat_tools: self.chat_tools,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_has_one_json_line_per_model() {
        let file: Value = serde_json::from_str(FILE).expect("it is JSON");
        assert_eq!(file["date"], ModelFacts::date());
        let models = file["models"].as_array().expect("there are models");
        let lines: Vec<Value> =
            rows().map(|row| serde_json::from_str(row).expect("it is JSON")).collect();
        assert_eq!(*models, lines);
        let mut names: Vec<_> = rows().map(|row| Row::read(row).id).collect();
        for name in &names {
            let facts = ModelFacts::of(name).expect("it is found by its name");
            assert!(facts.context_window.is_some() || facts.price.is_none(), "{name}");
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(ModelFacts::of("anthropic/claude"), None);
        assert_eq!(ModelFacts::of("\""), None);
    }
}
