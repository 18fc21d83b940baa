//! Suggests allow rules that would answer a question of the policy from now on. A person gets them together
//! with a plain yes. This module has no side effects.

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
pub(crate) fn suggest_rules(policy: &Policy, asked: &PolicyInput<'_>) -> Vec<String> {
    let Some(texts) = candidates(asked) else { return vec![] };
    let rules = texts.iter().map(|text| Rule::parse(RuleKind::Allow, text));
    match rules.collect::<Result<Vec<_>, _>>() {
        Ok(rules) if would_pass(policy, asked, &rules) => texts,
        _ => vec![],
    }
}

/// True if a call would run without a question under these rules and the rules in force.
pub(crate) fn would_pass(policy: &Policy, asked: &PolicyInput<'_>, rules: &[Rule]) -> bool {
    let approvals = [asked.approvals, rules].concat();
    policy.decide(&PolicyInput { approvals: &approvals, ..*asked }).verdict == Verdict::Pass
}

/// Returns the texts of candidate rules; `None` if a rule about a command would match other commands too.
fn candidates(asked: &PolicyInput<'_>) -> Option<Vec<String>> {
    let PolicyInput { tool, facts, workspace, .. } = *asked;
    let mut texts = vec![];
    for command in facts.commands.iter().filter(|command| command.zone != Zone::Safe) {
        texts.push(format!("bash({})", rule_pattern(command)?));
    }
    for command in &facts.commands {
        texts.extend(command.writes_to.iter().filter_map(|path| write_rule(path, asked)));
    }
    if facts.commands.is_empty() {
        texts.extend(facts.writes.iter().filter_map(|path| write_rule(path, asked)));
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

/// Returns the pattern for a command. A subcommand is offered with any operands; any other command as
/// written.
fn rule_pattern(command: &SimpleCommand) -> Option<String> {
    let names = command.words.iter().take_while(|word| word.kind == CommandWordKind::Name).count();
    let is_plain = |kind| matches!(kind, CommandWordKind::Operand | CommandWordKind::Option);
    let open = names > 1
        && names < command.words.len()
        && command.words[names..].iter().all(|word| is_plain(word.kind));
    let words = if open { &command.words[..names] } else { &command.words[..] };
    // A rule reads these characters as its own syntax: `./deploy '*'` would become a rule about any
    // operand.
    let odd =
        |text: &str| text.contains(['*', '?', '\'', '"']) || text == "|" || text.ends_with(':');
    if words.iter().any(|word| odd(&word.text)) {
        return None;
    }
    let mut text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    if open {
        text.push_str(" *");
    }
    Some(text)
}

/// Returns a write rule for the file's folder, or for the file itself if it lies directly in the project.
fn write_rule(path: &Path, asked: &PolicyInput<'_>) -> Option<String> {
    let inside = path.strip_prefix(asked.workspace.project()).ok()?;
    match inside.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => Some(format!("write(./{}/**)", folder.display())),
        None => Some(format!("write(./{})", paths::shown(path, asked.workspace))),
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

    fn offered(names: usize, words: &[&str]) -> Vec<String> {
        let kind =
            |at: usize| if at < names { CommandWordKind::Name } else { CommandWordKind::Operand };
        let words = words.iter().enumerate();
        let words =
            words.map(|(at, text)| CommandWord { text: (*text).into(), kind: kind(at) }).collect();
        let command = SimpleCommand { words, zone: Zone::Build, writes_to: vec![], pipeline: 0 };
        let facts = Facts { commands: vec![command], ..Facts::zone(Zone::Build) };
        let workspace = Workspace::new(Path::new("/p"));
        let (input, approvals) = (&Value::Null, &[][..]);
        let asked =
            PolicyInput { tool: "bash", input, facts: &facts, workspace: &workspace, approvals };
        suggest_rules(&Policy::default(), &asked)
    }

    #[test]
    fn s4_offered_rules_cover_no_more_than_the_call() {
        assert_eq!(offered(1, &["./deploy", "staging"]), ["bash(./deploy staging)"]);
        assert_eq!(offered(2, &["git", "commit", "why?"]), ["bash(git commit *)"]);
        for word in ["*", "st*", "a?", "x:*", "'staging'", "a b"] {
            assert_eq!(offered(1, &["./deploy", word]), [""; 0], "{word}");
        }
    }
}
