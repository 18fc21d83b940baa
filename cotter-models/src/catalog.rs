//! What is known of models: prices, windows, how they think. One data file with a date; what is not in
//! it works all the same, and its cost is unknown rather than nothing.
//!
//! Facts are the providers' own pages' where those say something. Where a price is announced to rise,
//! the dearer one is in the file: a budget is kept in any case.

use cotter::{
    history::message::Usage,
    model::{ModelInfo, Price, Thinking},
};
use serde::Deserialize;
use serde_json::Value;
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
    pub fn of(name: &str) -> Option<Known> {
        let start = format!("{}{},", ROW, Value::from(name));
        rows().find(|row| row.starts_with(&start)).map(|row| Row::read(row).known())
    }

    /// Every model of a provider in the file, by name.
    pub fn models_of(provider: &str) -> impl Iterator<Item = (SmolStr, Known)> {
        let provider = format!("{provider}/");
        let all = rows().map(Row::read).filter(move |row| row.id.starts_with(&provider));
        all.map(|row| (row.id.clone(), row.known()))
    }

    /// The day the file is of.
    pub fn date() -> &'static str {
        let after = FILE.split_once("\"date\": \"").map_or("", |(_, after)| after);
        after.split('"').next().unwrap_or_default()
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

/// The file. Every model has a line of its own, so that whoever asks for one reads that one.
const FILE: &str = include_str!("catalog.json");

/// How the line of a model begins.
const ROW: &str = "{\"id\": ";

fn rows() -> impl Iterator<Item = &'static str> {
    let lines = FILE.lines().map(|line| line.trim().trim_end_matches(','));
    lines.filter(|line| line.starts_with(ROW))
}

/// One line of the file. A key that is not known is an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Row {
    /// `provider/model`, the provider as `READY` names its rows.
    id: SmolStr,
    context: Option<u64>,
    max_output: Option<u64>,
    /// All four of it; a cache without a price of its own costs what input does.
    price: Option<PriceRow>,
    above: Option<AboveRow>,
    thinking: Thinks,
    /// From the least to the most.
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
        serde_json::from_str(line).expect("a test reads every line before it is shipped")
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_json_with_a_line_for_each_model_and_each_once() {
        let file: Value = serde_json::from_str(FILE).expect("it is JSON");
        assert_eq!(file["date"], Known::date());
        let models = file["models"].as_array().expect("there are models");
        let lines: Vec<Value> =
            rows().map(|row| serde_json::from_str(row).expect("it is JSON")).collect();
        assert_eq!(*models, lines);
        let mut names: Vec<_> = rows().map(|row| Row::read(row).id).collect();
        for name in &names {
            let known = Known::of(name).expect("it is found by its name");
            assert!(known.context_window.is_some() || known.price.is_none(), "{name}");
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(Known::of("anthropic/claude"), None);
        assert_eq!(Known::of("\""), None);
    }
}
