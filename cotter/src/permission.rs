//! The permission floor: rules, zones, level and mode, folded to one ruling by one function without side
//! effects.
//!
//! A deny rule, a guard, zone `never` or mode `plan` blocks. Otherwise an ask rule asks. Otherwise allow
//! rules and earlier approvals pass the calls they cover. Otherwise zone, level and mode decide. An allow
//! rule answers only the zone's question. Gates run in addition to the floor, and the strictest verdict
//! wins.
//!
//! This room holds the types of decisions (zones, verdicts, powers, origins) and the rules. It asks no
//! person and runs nothing.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Workspace, builtin::Read};
//! use cotter::permission::{mode::Mode, rule::{Rule, RuleKind}};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! # let folder = tempfile::tempdir()?;
//! # let project = folder.path().canonicalize()?;
//! # std::fs::write(project.join("notes.txt"), "tea at four")?;
//! # let project = project.as_path();
//! let step = Step::call("read", json!({"path": ".env"}))
//!     .and_call("read", json!({"path": "notes.txt"}))
//!     .and_call("read", json!({"path": "/etc/passwd"}));
//! let agent = Agent::builder(ScriptedModel::new([step, Step::text("Tea at four.")]))
//!     .workspace(Workspace::new(project))
//!     .tool(Read::default())
//!     .rule(Rule::parse(RuleKind::Deny, "read(.env*)")?)
//!     .mode(Mode::Plan)
//!     .build()?;
//! agent.process_request("What is planned?").await?;
//! let shown = transcript(&agent.main_session().await?);
//! assert!(shown.contains("c1.1 (denied): Denied: the rule `deny read(.env*)` denies it."));
//! assert!(shown.contains("tea at four"), "a safe call runs without a question");
//! assert!(shown.contains("c1.3 (denied): Denied: mode `plan` allows only safe calls"));
//! # Ok(())
//! # }
//! ```

mod zone;
pub mod mode;
pub mod facts;
pub mod rule;
pub mod file_rules;
mod command_pattern;
mod path_pattern;
pub mod host;
pub mod guard;
pub(crate) mod suggest;
pub mod verdict;
pub(crate) mod origin;
pub mod secret_files;
pub mod tool_glob;
pub(crate) mod tool_names;

use std::path::Path;

use serde_json::Value;

use crate::{
    fs::workspace::Workspace,
    permission::{
        facts::Facts, file_rules::FileRules, origin::Origin, rule::CallPart,
        secret_files::is_secret, verdict::Verdict,
    },
};

pub use crate::permission::{
    guard::Guard,
    host::{host_address, host_name},
    mode::{Level, Mode, Sandbox, UnknownWord},
    rule::{Rule, RuleError, RuleKind},
    zone::Zone,
};

/// The verdict of the policy, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// The source of the verdict.
    pub by: Decider,
}

/// The part of the policy that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decider {
    /// A rule, as written.
    Rule(String),
    /// A guard, by name.
    Guard(String),
    /// An earlier approval by a person in this session, as a rule.
    Approval(String),
    /// The zone, at the current level.
    Zone,
    /// The mode.
    Mode,
}

impl Decider {
    /// True if a hook may answer a question of this decider. Only questions of mode and zone are open to
    /// hooks.
    pub fn may_be_answered_by_hook(&self) -> bool {
        matches!(self, Decider::Zone | Decider::Mode)
    }

    /// The word for the decider's kind in explanations of a decision.
    pub fn kind(&self) -> &'static str {
        match self {
            Decider::Rule(_) | Decider::Guard(_) => "rule",
            Decider::Approval(_) => "approval",
            Decider::Zone => "zone",
            Decider::Mode => "mode",
        }
    }
}

impl std::fmt::Display for Decider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Decider::Rule(rule) => write!(f, "rule {rule}"),
            Decider::Guard(name) => f.write_str(name),
            Decider::Approval(rule) => write!(f, "approval {rule}"),
            Decider::Zone => f.write_str("zone"),
            Decider::Mode => f.write_str("mode"),
        }
    }
}

/// A call, as the policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInput<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The tool's input.
    pub input: &'a Value,
    /// The facts of the call.
    pub facts: &'a Facts,
    /// The folders of the run.
    pub workspace: &'a Workspace,
    /// Earlier approvals by a person in this session, as allow rules.
    pub approvals: &'a [Rule],
}

/// The current rules, guards, mode and level.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<(Rule, Origin)>,
    guards: Vec<(Guard, Origin)>,
    mode: BoundSetting<Mode>,
    level: BoundSetting<Level>,
}

/// A setting with a chosen value and a bound. The result is never looser than the bound.
#[derive(Clone, Copy, Debug, Default)]
struct BoundSetting<T> {
    chosen: Option<T>,
    bound: Option<T>,
}

impl<T: Ord + Copy + Default> BoundSetting<T> {
    fn get(self) -> T {
        self.chosen.max(self.bound).unwrap_or_default()
    }

    /// Sets the value. A later value replaces an earlier one. A value from the operator is a bound. An
    /// origin that may only tighten raises the bound at least to the current value.
    fn set(&mut self, value: T, origin: &Origin) {
        match origin {
            Origin::Operator => self.bound = self.bound.max(Some(value)),
            _ if origin.may_loosen() => self.chosen = Some(value),
            _ => self.bound = self.bound.max(Some(value.max(self.get()))),
        }
    }
}

impl Policy {
    /// The current mode.
    pub fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// The current level.
    pub fn level(&self) -> Level {
        self.level.get()
    }

    pub(crate) fn add(&mut self, rule: Rule, origin: &Origin) {
        self.rules.push((rule, origin.clone()));
    }

    pub(crate) fn add_guard(&mut self, guard: Guard, origin: &Origin) {
        self.guards.push((guard, origin.clone()));
    }

    pub(crate) fn set_mode(&mut self, mode: Mode, origin: &Origin) {
        self.mode.set(mode, origin);
    }

    pub(crate) fn set_level(&mut self, level: Level, origin: &Origin) {
        self.level.set(level, origin);
    }

    /// Returns the ruling about one call. The only I/O is to resolve file names.
    pub fn decide(&self, call: &PolicyInput<'_>) -> Ruling {
        let PolicyInput { tool, input, facts, workspace, .. } = *call;
        let find_rule = |kind: RuleKind| {
            let mut rules = self.rules.iter().map(|(rule, _)| rule);
            rules.find(|rule| rule.kind == kind && rule.hits(tool, facts, workspace))
        };
        let ruling_of =
            |verdict, rule: &Rule| Ruling { verdict, by: Decider::Rule(rule.to_string()) };
        if let Some(rule) = find_rule(RuleKind::Deny) {
            return ruling_of(Verdict::block(format!("the rule `{rule}` denies it")), rule);
        }
        let find_rejection =
            |(guard, _): &(Guard, _)| Some((guard.to_string(), guard.rejects(tool, input, facts)?));
        if let Some((name, reason)) = self.guards.iter().find_map(find_rejection) {
            let verdict = Verdict::block(format!("the {name} rejects it: {reason}"));
            return Ruling { verdict, by: Decider::Guard(name) };
        }
        if facts.zone == Zone::Never {
            return self.decide_by_zone(facts);
        }
        if self.mode() == Mode::Plan && facts.zone != Zone::Safe {
            let verdict = Verdict::block("mode `plan` allows only safe calls");
            return Ruling { verdict, by: Decider::Mode };
        }
        let asks = find_rule(RuleKind::Ask)
            .map(|rule| ruling_of(Verdict::ask(format!("the rule `{rule}` asks")), rule));
        let ruling = asks
            .or_else(|| self.find_allowing(call).map(|by| Ruling { verdict: Verdict::Pass, by }))
            .unwrap_or_else(|| self.decide_by_zone(facts));
        match (self.mode(), &ruling.verdict) {
            (Mode::Auto, Verdict::Ask(reason)) => Ruling {
                verdict: Verdict::block(format!("{reason}, and mode `auto` asks nobody")),
                by: Decider::Mode,
            },
            _ => ruling,
        }
    }

    /// Returns the rule or approval that allows a call. Every part of the call must be covered by a rule or
    /// approval, or run by its own zone. The first one that covers a part is returned.
    fn find_allowing(&self, call: &PolicyInput<'_>) -> Option<Decider> {
        let PolicyInput { tool, facts, workspace, approvals, .. } = *call;
        let rules = self.rules.iter().map(|(rule, _)| rule).filter(|rule| rule.loosens());
        let rules = rules.map(|rule| (rule, Decider::Rule(rule.to_string())));
        let approvals = approvals.iter().map(|rule| (rule, Decider::Approval(rule.text().into())));
        let all: Vec<_> = rules.chain(approvals).collect();
        if let Some((_, by)) = all.iter().find(|(rule, _)| rule.covers_call(tool, facts, workspace))
        {
            return Some(by.clone());
        }
        let mut by = None;
        for (part, zone) in split_parts(facts, workspace) {
            let covering = all.iter().find(|(rule, _)| rule.covers(&part, workspace));
            match covering {
                Some((_, decider)) => _ = by.get_or_insert(decider),
                None if self.runs_without_question(zone, facts) => {}
                None => return None,
            }
        }
        by.cloned()
    }

    /// True if a part in this zone runs without a question, in a call with these facts. Code of the project has
    /// to be confined as it would be alone: a call that reaches the network gives it the network too.
    fn runs_without_question(&self, zone: Zone, facts: &Facts) -> bool {
        let level = self.level();
        match zone {
            Zone::Safe => level <= Level::Strict,
            Zone::Workspace => level <= Level::Standard || self.mode() == Mode::AcceptEdits,
            Zone::Build => level <= Level::Standard && facts.confined && facts.zone <= Zone::Build,
            Zone::Network => level == Level::Permissive,
            Zone::External | Zone::Machine | Zone::Never => false,
        }
    }

    pub(crate) fn decide_by_zone(&self, facts: &Facts) -> Ruling {
        let (zone, level) = (facts.zone, self.level());
        if zone == Zone::Never {
            let verdict = Verdict::block("zone `never` is forbidden for every call");
            return Ruling { verdict, by: Decider::Zone };
        }
        let by_mode = self.mode() == Mode::AcceptEdits && zone == Zone::Workspace;
        let by = if by_mode { Decider::Mode } else { Decider::Zone };
        // The most serious zone need not be the one that asks: unconfined, `build` asks where `network` runs.
        let zones = facts.commands.iter().map(|command| command.zone);
        let mut zones = std::iter::once(zone).chain(zones);
        let Some(zone) = zones.find(|zone| !self.runs_without_question(*zone, facts)) else {
            return Ruling { verdict: Verdict::Pass, by };
        };
        let (zone, level) = (zone.as_str(), level.as_str());
        let verdict = Verdict::ask(format!("zone `{zone}` asks at level `{level}`"));
        Ruling { verdict, by: Decider::Zone }
    }

    /// True if a tool must skip a file that it finds. The name of such a file is a secret's name, or a rule
    /// asks about or denies reading it.
    pub(crate) fn should_hide_file(&self, tool: &str, path: &Path, workspace: &Workspace) -> bool {
        is_secret(path)
            || self.rules.iter().any(|(rule, _)| rule.should_hide_file(tool, path, workspace))
    }

    /// Returns the rules about files.
    pub(crate) fn file_rules(&self) -> FileRules {
        FileRules::new(self.rules.iter().map(|(rule, _)| rule))
    }

    /// Lists every rule and guard that applies to a call, with its origin and its own verdict.
    pub(crate) fn list_applying(&self, call: &PolicyInput<'_>) -> Vec<(String, &Origin, Verdict)> {
        let PolicyInput { tool, input, facts, workspace, .. } = *call;
        let applies = |rule: &Rule| match rule.kind {
            RuleKind::Allow => {
                let covers = |(part, _): (CallPart<'_>, Zone)| rule.covers(&part, workspace);
                rule.covers_call(tool, facts, workspace)
                    || split_parts(facts, workspace).into_iter().any(covers)
            }
            RuleKind::Ask | RuleKind::Deny => rule.hits(tool, facts, workspace),
        };
        let verdict_of = |rule: &Rule| match rule.kind {
            RuleKind::Allow => Verdict::Pass,
            RuleKind::Ask => Verdict::ask("the rule asks"),
            RuleKind::Deny => Verdict::block("the rule denies"),
        };
        let rules = self.rules.iter().filter(|(rule, _)| applies(rule));
        let rules = rules.map(|(rule, origin)| (rule.to_string(), origin, verdict_of(rule)));
        let guards = self.guards.iter().filter_map(|(guard, origin)| {
            let reason = guard.rejects(tool, input, facts)?;
            Some((guard.to_string(), origin, Verdict::block(reason)))
        });
        rules.chain(guards).collect()
    }
}

/// Splits a call into parts, each with its own zone. A call that runs commands consists of the commands and
/// their redirections; any other call consists of its reads, writes and hosts.
fn split_parts<'a>(facts: &'a Facts, workspace: &Workspace) -> Vec<(CallPart<'a>, Zone)> {
    let mut parts = vec![];
    for (index, command) in facts.commands.iter().enumerate() {
        parts.push((CallPart::Command(&facts.commands, index), command.zone));
        let writes = command.writes_to.iter();
        parts.extend(writes.map(|path| (CallPart::Write(path), Zone::of_write(path, workspace))));
    }
    if facts.commands.is_empty() {
        let reads =
            facts.reads.iter().map(|path| (CallPart::Read(path), Zone::of_read(path, workspace)));
        let writes = facts
            .writes
            .iter()
            .map(|path| (CallPart::Write(path), Zone::of_write(path, workspace)));
        let hosts = facts.hosts.iter().map(|host| (CallPart::Host(host), facts.zone));
        parts.extend(reads.chain(writes).chain(hosts));
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check(rules: &[(RuleKind, &str)], mode: Mode, level: Level, call: (&str, Facts)) -> Ruling {
        let workspace = Workspace::new(Path::new("/srv/project"));
        let mut policy = Policy::default();
        for (kind, text) in rules {
            policy.add(Rule::parse(*kind, text).unwrap(), &Origin::User);
        }
        policy.set_mode(mode, &Origin::User);
        policy.set_level(level, &Origin::User);
        let (tool, input) = (call.0, &Value::Null);
        policy.decide(&PolicyInput {
            tool,
            input,
            facts: &call.1,
            workspace: &workspace,
            approvals: &[],
        })
    }

    fn word(ruling: &Ruling) -> &'static str {
        match ruling.verdict {
            Verdict::Pass => "pass",
            Verdict::Ask(_) => "ask",
            Verdict::Block(_) => "block",
        }
    }

    #[test]
    fn zone_table_equals_the_documented_one() {
        let table = [
            (Zone::Safe, ["pass", "pass", "pass", "ask"]),
            (Zone::Workspace, ["pass", "pass", "ask", "ask"]),
            (Zone::Build, ["ask", "ask", "ask", "ask"]),
            (Zone::Network, ["pass", "ask", "ask", "ask"]),
            (Zone::External, ["ask", "ask", "ask", "ask"]),
            (Zone::Machine, ["ask", "ask", "ask", "ask"]),
            (Zone::Never, ["block", "block", "block", "block"]),
        ];
        for (zone, expected) in table {
            let got: Vec<_> = Level::WORDS
                .iter()
                .map(|(_, level)| word(&check(&[], Mode::Ask, *level, ("t", Facts::zone(zone)))))
                .collect();
            assert_eq!(got, expected, "{zone:?}");
        }
    }

    #[test]
    fn l13_each_command_of_a_call_is_held_against_the_table_by_its_own_zone() {
        let call = |zones: &[Zone], confined: bool| {
            let command = |zone: &Zone| facts::SimpleCommand {
                words: vec![],
                zone: *zone,
                writes_to: vec![],
                pipeline: 0,
            };
            let most = zones.iter().copied().max().unwrap();
            let commands = zones.iter().map(command).collect();
            let facts = Facts { commands, confined, ..Facts::zone(most) };
            word(&check(&[], Mode::Ask, Level::Permissive, ("bash", facts))).to_owned()
        };
        assert_eq!(call(&[Zone::Network], false), "pass");
        assert_eq!(call(&[Zone::Build, Zone::Network], false), "ask");
        assert_eq!(call(&[Zone::Build], true), "pass");
        assert_eq!(call(&[Zone::Build, Zone::Network], true), "ask");
        assert_eq!(call(&[Zone::Safe, Zone::Network], true), "pass");
    }

    #[test]
    fn deny_wins_over_ask_and_ask_over_allow_in_any_order() {
        use RuleKind::{Allow, Ask, Deny};
        let facts = || Facts::zone(Zone::Machine);
        let call = |rules: &[_]| {
            word(&check(rules, Mode::Ask, Level::Paranoid, ("bash", facts()))).to_owned()
        };
        assert_eq!(call(&[(Allow, "bash")]), "pass");
        assert_eq!(call(&[(Allow, "bash"), (Ask, "bash")]), "ask");
        assert_eq!(call(&[(Allow, "bash"), (Ask, "bash"), (Deny, "b*")]), "block");
    }

    #[test]
    fn mode_decides_calls_without_a_rule_and_auto_blocks_ask_rules() {
        let safe = || Facts::zone(Zone::Safe);
        let write = || Facts::zone(Zone::Workspace);
        let decide = |mode, facts| word(&check(&[], mode, Level::Strict, ("t", facts))).to_owned();
        assert_eq!(decide(Mode::AcceptEdits, write()), "pass");
        assert_eq!(decide(Mode::Plan, safe()), "pass");
        assert_eq!(decide(Mode::Plan, write()), "block");
        assert_eq!(decide(Mode::Auto, write()), "block");
        let ruling = check(&[(RuleKind::Ask, "t")], Mode::Auto, Level::Standard, ("t", safe()));
        assert_eq!(word(&ruling), "block", "mode `auto` does not ask, not even for an ask rule");
    }

    #[test]
    fn zone_never_is_blocked_in_every_mode_and_with_allow_rules() {
        for (_, mode) in Mode::WORDS {
            let rules = [(RuleKind::Allow, "*")];
            let ruling = check(&rules, *mode, Level::Permissive, ("t", Facts::zone(Zone::Never)));
            assert_eq!(word(&ruling), "block");
        }
    }

    #[test]
    fn project_cannot_loosen_the_level() {
        let mut policy = Policy::default();
        policy.set_level(Level::Standard, &Origin::User);
        policy.set_level(Level::Permissive, &Origin::Project);
        assert_eq!(policy.level(), Level::Standard);
        policy.set_level(Level::Paranoid, &Origin::Project);
        assert_eq!(policy.level(), Level::Paranoid);
    }

    #[test]
    fn user_cannot_loosen_the_operators_level() {
        let mut policy = Policy::default();
        policy.set_level(Level::Strict, &Origin::Operator);
        policy.set_level(Level::Paranoid, &Origin::User);
        policy.set_level(Level::Permissive, &Origin::User);
        assert_eq!(policy.level(), Level::Strict);
    }
}
