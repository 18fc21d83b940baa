//! Suggests allow rules that would answer a question of the policy from now on. The question
//! shows them to the person, next to a plain yes. This module has no side effects.

use std::path::Path;

use crate::{
    fs::paths,
    permission::{
        Policy, PolicyInput, Zone,
        facts::{CommandWordKind, SimpleCommand},
        rule::{Rule, RuleKind},
        verdict::Verdict,
    },
};

/// Returns the allow rules under which this call would run without a question, as narrow as is useful.
/// Empty if no rule would help.
pub(crate) fn suggest_rules(policy: &Policy, call: &PolicyInput<'_>) -> Vec<String> {
    let Some(texts) = candidates(call) else { return vec![] };
    let rules = texts.iter().map(|text| Rule::parse(RuleKind::Allow, text));
    match rules.collect::<Result<Vec<_>, _>>() {
        Ok(rules) if would_pass(policy, call, &rules) => texts,
        _ => vec![],
    }
}

/// True if a call would run without a question under these rules and the current rules.
pub(crate) fn would_pass(policy: &Policy, call: &PolicyInput<'_>, rules: &[Rule]) -> bool {
    let approvals = [call.approvals, rules].concat();
    policy.decide(&PolicyInput { approvals: &approvals, ..*call }).verdict == Verdict::Pass
}

/// Returns the texts of candidate rules; `None` if a rule about a command would match other commands too.
fn candidates(call: &PolicyInput<'_>) -> Option<Vec<String>> {
    let PolicyInput { tool, facts, workspace, .. } = *call;
    let mut texts = vec![];
    for command in facts.commands.iter().filter(|command| command.zone != Zone::Safe) {
        texts.push(format!("bash({})", rule_pattern(command)?));
    }
    for command in &facts.commands {
        texts.extend(command.writes_to.iter().filter_map(|path| write_rule(path, call)));
    }
    if facts.commands.is_empty() {
        texts.extend(facts.writes.iter().filter_map(|path| write_rule(path, call)));
        texts.extend(facts.hosts.iter().map(|host| format!("fetch({host})")));
        let reads = facts.reads.iter().filter(|path| Zone::of_read(path, workspace) != Zone::Safe);
        texts.extend(reads.map(|path| format!("read(/{})", path.display())));
    }
    if texts.is_empty() {
        texts.push(tool.to_owned());
    }
    texts.sort_unstable();
    texts.dedup();
    Some(texts)
}

/// Returns the pattern for a command. A subcommand is suggested with any operands; any other command as
/// written.
fn rule_pattern(command: &SimpleCommand) -> Option<String> {
    let names = command.words.iter().take_while(|word| word.kind == CommandWordKind::Name).count();
    let is_plain = |kind| matches!(kind, CommandWordKind::Operand | CommandWordKind::Option);
    let has_open_end = names > 1
        && names < command.words.len()
        && command.words[names..].iter().all(|word| is_plain(word.kind));
    let words = if has_open_end { &command.words[..names] } else { &command.words[..] };
    // A rule reads these characters as its own syntax: `./deploy '*'` would become a rule about any
    // operand.
    let has_rule_syntax =
        |text: &str| text.contains(['*', '?', '\'', '"']) || text == "|" || text.ends_with(':');
    if words.iter().any(|word| has_rule_syntax(&word.text)) {
        return None;
    }
    let mut text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    if has_open_end {
        text.push_str(" *");
    }
    Some(text)
}

/// Returns a write rule for the file's folder, or for the file itself if it lies directly in the project.
fn write_rule(path: &Path, call: &PolicyInput<'_>) -> Option<String> {
    let inside = path.strip_prefix(call.workspace.project()).ok()?;
    match inside.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => Some(format!("write(./{}/**)", folder.display())),
        None => Some(format!("write(./{})", paths::format_path(path, call.workspace))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        fs::workspace::Workspace,
        permission::facts::{CommandWord, Facts},
    };

    fn suggest(names: usize, words: &[&str]) -> Vec<String> {
        let kind =
            |at: usize| if at < names { CommandWordKind::Name } else { CommandWordKind::Operand };
        let words = words.iter().enumerate();
        let words =
            words.map(|(at, text)| CommandWord { text: (*text).into(), kind: kind(at) }).collect();
        let command = SimpleCommand { words, zone: Zone::Build, writes_to: vec![], pipeline: 0 };
        let facts = Facts { commands: vec![command], ..Facts::zone(Zone::Build) };
        let workspace = Workspace::new(Path::new("/p"));
        let (input, approvals) = (&Value::Null, &[][..]);
        let call =
            PolicyInput { tool: "bash", input, facts: &facts, workspace: &workspace, approvals };
        suggest_rules(&Policy::default(), &call)
    }

    #[test]
    fn s4_offered_rules_cover_no_more_than_the_call() {
        assert_eq!(suggest(1, &["./deploy", "staging"]), ["bash(./deploy staging)"]);
        assert_eq!(suggest(2, &["git", "commit", "why?"]), ["bash(git commit *)"]);
        for word in ["*", "st*", "a?", "x:*", "'staging'", "a b"] {
            assert_eq!(suggest(1, &["./deploy", word]), [""; 0], "{word}");
        }
    }
}
