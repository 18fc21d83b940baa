//! Parses a request in plain words into the calls it means.

use cotter::model::tools::ToolList;
use serde_json::{Value, json};
use smol_str::SmolStr;

/// The calls of a request.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// The calls by step: calls of one step run together, steps one after the other. No call is
    /// here twice.
    pub(super) steps: Vec<Vec<Task>>,
    /// Sentences whose tool is not offered.
    pub(super) missing: Vec<Missing>,
    /// Sentences that were not understood.
    pub(super) unknown: Vec<String>,
}

/// One call to make.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) tool: SmolStr,
    pub(super) input: Value,
}

/// A sentence whose tool is not offered.
#[derive(Debug, PartialEq)]
pub(super) struct Missing {
    pub(super) tool: SmolStr,
    pub(super) request: String,
}

/// A sentence that `rehearsal` understands: its first words, its tool, its usage in help texts.
pub(super) struct Verb {
    words: &'static [&'static str],
    tool: &'static str,
    pub(super) usage: &'static str,
    input: fn(&str) -> Option<Value>,
}

/// The name of the tool for subagents; it may have a prefix.
pub(super) const SUBAGENT: &str = "invoke_subagent";

/// Every sentence that `rehearsal` understands, except `call`, which names its tool itself.
pub(super) const VERBS: &[Verb] = &[
    Verb {
        words: &["read", "show", "cat"],
        tool: "read",
        usage: "read FILE",
        input: |rest| (!rest.is_empty()).then(|| json!({ "path": rest })),
    },
    Verb {
        words: &["list", "ls"],
        tool: "list",
        usage: "list [FOLDER]",
        input: |rest| Some(if rest.is_empty() { json!({}) } else { json!({ "path": rest }) }),
    },
    Verb {
        words: &["run"],
        tool: "bash",
        usage: "run COMMAND",
        input: |rest| (!rest.is_empty()).then(|| json!({ "command": rest })),
    },
    Verb { words: &["write"], tool: "write", usage: "write TEXT to FILE", input: write },
    Verb {
        words: &["replace"],
        tool: "edit",
        usage: "replace TEXT by TEXT in FILE",
        input: replace,
    },
    Verb {
        words: &["find"],
        tool: "glob",
        usage: "find FILES",
        input: |rest| (!rest.is_empty()).then(|| json!({ "pattern": rest })),
    },
    Verb {
        words: &["search", "grep"],
        tool: "grep",
        usage: "search WORDS",
        input: |rest| (!rest.is_empty()).then(|| json!({ "pattern": rest })),
    },
    Verb {
        words: &["fetch"],
        tool: "fetch",
        usage: "fetch URL",
        input: |rest| (!rest.is_empty()).then(|| json!({ "url": rest })),
    },
    Verb {
        words: &["remember"],
        tool: "remember",
        usage: "remember WORDS",
        input: |rest| (!rest.is_empty()).then(|| json!({ "text": rest })),
    },
    Verb {
        words: &["recall"],
        tool: "recall",
        usage: "recall WORDS",
        input: |rest| (!rest.is_empty()).then(|| json!({ "query": rest })),
    },
    Verb { words: &["ask"], tool: SUBAGENT, usage: "ask @NAME …", input: ask },
];

/// The usage of `call` in help texts.
pub(super) const CALL: &str = "call TOOL JSON";

impl Plan {
    /// Reads a request: a sentence per line, or several with `and` (one step) or `then` (steps).
    pub(super) fn parse(request: &str, tools: &ToolList) -> Self {
        let mut plan = Plan::default();
        for step in request.lines().flat_map(steps) {
            let mut calls = vec![];
            for sentence in step {
                plan.add_sentence(sentence, tools, &mut calls);
            }
            if !calls.is_empty() {
                plan.steps.push(calls);
            }
        }
        plan
    }

    fn add_sentence(&mut self, sentence: &str, tools: &ToolList, calls: &mut Vec<Task>) {
        let sentence = without_courtesy(sentence);
        if sentence.is_empty() {
            return;
        }
        let Some(mut task) = understand(sentence) else {
            return self.unknown.push(sentence.into());
        };
        match find_tool(&task.tool, tools) {
            None => self.missing.push(Missing { tool: task.tool, request: sentence.into() }),
            Some(name) => {
                task.tool = name;
                if !self.steps.iter().flatten().chain(&*calls).any(|other| *other == task) {
                    calls.push(task);
                }
            }
        }
    }
}

/// The offered tool of that name. The tool for subagents may have a prefix.
fn find_tool(tool: &str, tools: &ToolList) -> Option<SmolStr> {
    let matches_name = |name: &&SmolStr| {
        let prefix = name.strip_suffix(tool);
        prefix
            .is_some_and(|prefix| prefix.is_empty() || (tool == SUBAGENT && prefix.ends_with('_')))
    };
    tools.specs().map(|spec| &spec.name).find(matches_name).cloned()
}

fn understand(sentence: &str) -> Option<Task> {
    let (word, rest) = first_word(sentence);
    if word.eq_ignore_ascii_case("call") {
        let (tool, input) = first_word(rest);
        let input = if input.is_empty() { json!({}) } else { serde_json::from_str(input).ok()? };
        return (!tool.is_empty()).then(|| Task { tool: tool.into(), input });
    }
    let verb = verb(word)?;
    let takes_several = matches!(verb.tool, "write" | "edit");
    let input = (verb.input)(if takes_several { rest } else { without_quotes(rest) })?;
    Some(Task { tool: verb.tool.into(), input })
}

fn verb(word: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.words.iter().any(|other| other.eq_ignore_ascii_case(word)))
}

fn write(rest: &str) -> Option<Value> {
    let (text, path) = rest.rsplit_once(" to ")?;
    let (text, path) = (without_quotes(text.trim()), without_quotes(path.trim()));
    (!path.is_empty()).then(|| json!({ "path": path, "content": text }))
}

fn replace(rest: &str) -> Option<Value> {
    let (texts, path) = rest.rsplit_once(" in ")?;
    let (old, new) = texts.split_once(" by ")?;
    let [old, new, path] = [old, new, path].map(|text| without_quotes(text.trim()));
    let edit = json!({ "old": old, "new": new });
    (!path.is_empty() && !old.is_empty()).then(|| json!({ "path": path, "edits": [edit] }))
}

fn ask(rest: &str) -> Option<Value> {
    let (name, prompt) = first_word(rest.strip_prefix('@')?);
    let (name, prompt) = (name.trim_end_matches([',', ':']), prompt.trim_start_matches("to "));
    (!name.is_empty()).then(|| json!({ "name": name, "prompt": prompt }))
}

fn first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// A sentence without `please` and punctuation.
fn without_courtesy(sentence: &str) -> &str {
    let mut sentence = sentence.trim().trim_end_matches([',', ';', '!']);
    for courtesy in ["please ", "Please "] {
        sentence = sentence.strip_prefix(courtesy).unwrap_or(sentence).trim();
    }
    sentence
}

/// A value without the quotes or backticks round it.
fn without_quotes(text: &str) -> &str {
    ['"', '\'', '`']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(text)
}

/// The steps of a line, each a list of sentences: `and` joins sentences of one step, `then`
/// separates steps. Both count only before a word that begins a sentence, so a file named `salt and
/// pepper` stays whole. Text after `ask @NAME` belongs to the subagent, up to the next `ask`.
fn steps(line: &str) -> Vec<Vec<&str>> {
    let first_tool = |rest: &str| {
        let (word, _) = first_word(without_courtesy(rest));
        let call = word.eq_ignore_ascii_case("call");
        verb(word).map(|verb| verb.tool).or_else(|| call.then_some("call"))
    };
    let mut steps = vec![vec![]];
    let (mut start, mut word_start) = (0, 0);
    for (at, _) in line.match_indices(' ').chain([(line.len(), "")]) {
        let (word, next) = (&line[word_start..at], first_tool(&line[at..]));
        let is_for_subagent =
            first_tool(&line[start..]) == Some(SUBAGENT) && next != Some(SUBAGENT);
        if matches!(word, "and" | "then") && next.is_some() && !is_for_subagent {
            let sentence = &line[start..word_start];
            steps.last_mut().into_iter().for_each(|step| step.push(sentence));
            start = at;
            if word == "then" {
                steps.push(vec![]);
            }
        }
        word_start = (at + 1).min(line.len());
    }
    steps.last_mut().into_iter().for_each(|step| step.push(&line[start..]));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_split_where_one_begins() {
        let cases: &[(&str, &[&[&str]])] = &[
            ("read a and list", &[&["read a", "list"]]),
            ("read a and please list then read b", &[&["read a", "please list"], &["read b"]]),
            ("read salt and pepper", &[&["read salt and pepper"]]),
            ("and", &[&["and"]]),
            ("read a and", &[&["read a and"]]),
            ("", &[&[""]]),
            ("list é and read ü", &[&["list é", "read ü"]]),
            (
                "list then ask @x to read a and read b",
                &[&["list"], &["ask @x to read a and read b"]],
            ),
            ("ask @x to list then ask @y to list", &[&["ask @x to list"], &["ask @y to list"]]),
        ];
        for (text, expected) in cases {
            let found: Vec<Vec<_>> = steps(text)
                .into_iter()
                .map(|step| step.into_iter().map(str::trim).collect())
                .collect();
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn a_sentence_is_a_call() {
        let cases = [
            ("read README.md", "read", json!({"path": "README.md"})),
            ("Read \"a b.txt\"", "read", json!({"path": "a b.txt"})),
            ("list", "list", json!({})),
            ("ls src/x", "list", json!({"path": "src/x"})),
            ("run git status", "bash", json!({"command": "git status"})),
            (
                "write go to x to notes.txt",
                "write",
                json!({"path": "notes.txt", "content": "go to x"}),
            ),
            (
                "replace \"to be\" by be in a b.txt",
                "edit",
                json!({"path": "a b.txt", "edits": [{"old": "to be", "new": "be"}]}),
            ),
            ("find src/*.rs", "glob", json!({"pattern": "src/*.rs"})),
            ("search \"fn main\"", "grep", json!({"pattern": "fn main"})),
            ("fetch http://a.test/", "fetch", json!({"url": "http://a.test/"})),
            ("write \"\" to a", "write", json!({"path": "a", "content": ""})),
            (
                "ask @reviewer to look at a.rs",
                "invoke_subagent",
                json!({"name": "reviewer", "prompt": "look at a.rs"}),
            ),
            ("call weather {\"city\":\"Oslo\"}", "weather", json!({"city": "Oslo"})),
            ("call clock", "clock", json!({})),
        ];
        for (sentence, tool, input) in cases {
            assert_eq!(understand(sentence), Some(Task { tool: tool.into(), input }), "{sentence}");
        }
        for sentence in ["hello", "read", "run", "write x", "ask reviewer", "ask @", "call x {"] {
            assert_eq!(understand(sentence), None, "{sentence}");
        }
    }
}
