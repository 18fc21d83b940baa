//! The floor under every call: rules, zones, levels and modes, in one pure function.
//!
//! A deny rule, zone `never` or mode `plan` blocks; else an ask rule asks; else an allow rule passes;
//! else zone, level and mode decide. An allow rule answers the zone's question and no other: gates are heard
//! beside the floor, and the strictest of all stands.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Place, builtin::Read};
//! use cotter::permission::{Mode, Rule, RuleKind};
//! use cotter_test::{Scripted, Step, transcript};
//! use serde_json::json;
//!
//! # let folder = tempfile::tempdir()?;
//! # let project = folder.path().canonicalize()?;
//! # std::fs::write(project.join("notes.txt"), "tea at four")?;
//! # let project = project.as_path();
//! let step = Step::call("read", json!({"path": ".env"}))
//!     .and_call("read", json!({"path": "notes.txt"}))
//!     .and_call("read", json!({"path": "/etc/passwd"}));
//! let agent = Agent::builder(Scripted::new([step, Step::text("Tea at four.")]))
//!     .place(Place::new(project))
//!     .tool(Read::default())
//!     .rule(Rule::parse(RuleKind::Deny, "read(.env*)")?)
//!     .mode(Mode::Plan)
//!     .build()?;
//! agent.process_request("What is planned?").await?;
//! let shown = transcript(&agent.main_session().await?);
//! assert!(shown.contains("c1.1 (denied): Denied: the rule `deny read(.env*)` denies it."));
//! assert!(shown.contains("tea at four"), "what is safe runs unasked");
//! assert!(shown.contains("c1.3 (denied): Hook \"project-roots\" blocked the action"));
//! # Ok(())
//! # }
//! ```

mod rule;
mod words;

use serde::Serialize;

pub use self::{
    rule::{Rule, RuleError, RuleKind},
    words::{Level, Mode, UnknownWord},
};
use crate::{cx::Place, ext::Origin, points::Verdict, tool::Facts};

/// What a call touches, from harmless to forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Zone {
    /// Reads inside the roots; nothing changes.
    Safe,
    /// Writes inside the project.
    Workspace,
    /// Runs project code or an unknown program.
    Build,
    /// Outgoing traffic.
    Network,
    /// Changes something elsewhere.
    External,
    /// The system itself.
    Machine,
    /// Never, whoever asks.
    Never,
}

impl Zone {
    /// The zone's word in events and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Zone::Safe => "safe",
            Zone::Workspace => "workspace",
            Zone::Build => "build",
            Zone::Network => "network",
            Zone::External => "external",
            Zone::Machine => "machine",
            Zone::Never => "never",
        }
    }
}

/// The floor's answer, and what gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The answer.
    pub verdict: Verdict,
    /// What decided.
    pub by: Decider,
}

/// What on the floor decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decider {
    /// A rule, in its own words.
    Rule(String),
    /// The zone at the level in force.
    Zone,
    /// The mode.
    Mode,
}

impl Decider {
    /// Whether a question of this decider may be answered by a hook: only mode and zone.
    pub fn leaves_the_answer_open(&self) -> bool {
        matches!(self, Decider::Zone | Decider::Mode)
    }
}

impl std::fmt::Display for Decider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Decider::Rule(rule) => write!(f, "rule {rule}"),
            Decider::Zone => f.write_str("zone"),
            Decider::Mode => f.write_str("mode"),
        }
    }
}

/// The rules, mode and level in force.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    mode: Setting<Mode>,
    level: Setting<Level>,
}

/// A value that the nearest gives and some bind: it is never looser than what binds.
#[derive(Clone, Copy, Debug, Default)]
struct Setting<T> {
    nearest: Option<T>,
    bound: Option<T>,
}

impl<T: Ord + Copy + Default> Setting<T> {
    fn get(self) -> T {
        self.nearest.max(self.bound).unwrap_or_default()
    }

    /// What comes later is nearer. The operator binds; who may only tighten does so to no less than
    /// what holds already.
    fn set(&mut self, value: T, origin: &Origin) {
        match origin {
            Origin::Operator => self.bound = self.bound.max(Some(value)),
            _ if origin.may_loosen() => self.nearest = Some(value),
            _ => self.bound = self.bound.max(Some(value.max(self.get()))),
        }
    }
}

impl Policy {
    /// The mode in force.
    pub fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// The level in force.
    pub fn level(&self) -> Level {
        self.level.get()
    }

    pub(crate) fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(crate) fn set_mode(&mut self, mode: Mode, origin: &Origin) {
        self.mode.set(mode, origin);
    }

    pub(crate) fn set_level(&mut self, level: Level, origin: &Origin) {
        self.level.set(level, origin);
    }

    /// The floor's one answer to one call. Pure.
    pub fn decide(&self, tool: &str, facts: &Facts, place: &Place) -> Ruling {
        let matching = |kind: RuleKind| {
            self.rules.iter().find(|rule| rule.kind == kind && rule.matches(tool, facts, place))
        };
        let ruled = |verdict, rule: &Rule| Ruling { verdict, by: Decider::Rule(rule.to_string()) };
        if let Some(rule) = matching(RuleKind::Deny) {
            return ruled(Verdict::block(format!("the rule `{rule}` denies it")), rule);
        }
        if facts.zone == Zone::Never {
            let verdict = Verdict::block("it touches what nothing may touch");
            return Ruling { verdict, by: Decider::Zone };
        }
        if self.mode() == Mode::Plan && facts.zone != Zone::Safe {
            let verdict = Verdict::block("mode `plan` only looks");
            return Ruling { verdict, by: Decider::Mode };
        }
        let asked = matching(RuleKind::Ask)
            .map(|rule| ruled(Verdict::ask(format!("the rule `{rule}` asks")), rule));
        let plain = asked
            .or_else(|| matching(RuleKind::Allow).map(|rule| ruled(Verdict::Pass, rule)))
            .unwrap_or_else(|| self.by_zone(facts.zone));
        match (self.mode(), &plain.verdict) {
            (Mode::Auto, Verdict::Ask(reason)) => Ruling {
                verdict: Verdict::block(format!("{reason}, and mode `auto` asks nobody")),
                by: Decider::Mode,
            },
            _ => plain,
        }
    }

    fn by_zone(&self, zone: Zone) -> Ruling {
        let (mode, level) = (self.mode(), self.level());
        if mode == Mode::AcceptEdits && zone == Zone::Workspace {
            return Ruling { verdict: Verdict::Pass, by: Decider::Mode };
        }
        let runs = match zone {
            Zone::Safe => level <= Level::Strict,
            Zone::Workspace => level <= Level::Standard,
            Zone::Network => level == Level::Permissive,
            Zone::Build | Zone::External | Zone::Machine | Zone::Never => false,
        };
        let verdict = if runs {
            Verdict::Pass
        } else {
            Verdict::ask(format!("zone `{}` asks at level `{}`", zone.as_str(), level.as_str()))
        };
        Ruling { verdict, by: Decider::Zone }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check(rules: &[(RuleKind, &str)], mode: Mode, level: Level, call: (&str, Facts)) -> Ruling {
        let place = Place::new(Path::new("/srv/project"));
        let mut policy = Policy::default();
        for (kind, text) in rules {
            policy.add(Rule::parse(*kind, text).unwrap());
        }
        policy.set_mode(mode, &Origin::User);
        policy.set_level(level, &Origin::User);
        policy.decide(call.0, &call.1, &place)
    }

    fn word(ruling: &Ruling) -> &'static str {
        crate::points::Fold::word(&ruling.verdict)
    }

    #[test]
    fn the_zone_table_is_the_published_one() {
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
    fn deny_stands_over_ask_over_allow_whatever_their_order() {
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
    fn modes_only_fill_in_where_no_rule_speaks() {
        let safe = || Facts::zone(Zone::Safe);
        let write = || Facts::zone(Zone::Workspace);
        let go = |mode, facts| word(&check(&[], mode, Level::Strict, ("t", facts))).to_owned();
        assert_eq!(go(Mode::AcceptEdits, write()), "pass");
        assert_eq!(go(Mode::Plan, safe()), "pass");
        assert_eq!(go(Mode::Plan, write()), "block");
        assert_eq!(go(Mode::Auto, write()), "block");
        let ruling = check(&[(RuleKind::Ask, "t")], Mode::Auto, Level::Standard, ("t", safe()));
        assert_eq!(word(&ruling), "block", "auto asks nobody, not even for an ask rule");
    }

    #[test]
    fn nothing_a_rule_or_mode_says_lets_zone_never_pass() {
        for (_, mode) in Mode::WORDS {
            let rules = [(RuleKind::Allow, "*")];
            let ruling = check(&rules, *mode, Level::Permissive, ("t", Facts::zone(Zone::Never)));
            assert_eq!(word(&ruling), "block");
        }
    }

    #[test]
    fn a_project_makes_mode_and_level_stricter_never_looser() {
        let mut policy = Policy::default();
        policy.set_level(Level::Standard, &Origin::User);
        policy.set_level(Level::Permissive, &Origin::Project);
        assert_eq!(policy.level(), Level::Standard);
        policy.set_level(Level::Paranoid, &Origin::Project);
        assert_eq!(policy.level(), Level::Paranoid);
    }

    #[test]
    fn nobody_is_looser_than_the_operator() {
        let mut policy = Policy::default();
        policy.set_level(Level::Strict, &Origin::Operator);
        policy.set_level(Level::Paranoid, &Origin::User);
        policy.set_level(Level::Permissive, &Origin::User);
        assert_eq!(policy.level(), Level::Strict);
    }
}
