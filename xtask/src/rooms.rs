//! `cargo xtask rooms`: within a crate, no room uses a higher room.
//!
//! A room is a top-level module. `HOUSES` gives each crate's rooms from top to bottom. A path counts by
//! the module that defines its item, through re-exports. The crate's root is above all rooms. Tests and
//! doc comments do not count.

use std::{collections::BTreeSet, path::Path};

use crate::{
    command,
    failure::Failure,
    source_tree::{self, Texts},
};

mod modules;
mod paths;
#[cfg(test)]
mod tests;

use modules::{Definition, Modules};

/// The rooms of one crate.
struct House {
    /// The crate's folder.
    name: &'static str,
    /// The rooms from top to bottom. Modules on one line share a room.
    rooms: &'static [&'static [&'static str]],
    /// Modules outside the order: they may use every room, and no room uses them.
    outside: &'static [&'static str],
    handles: Option<Handles>,
}

/// Items of a higher room that some rooms may name.
struct Handles {
    room: &'static str,
    items: &'static [&'static str],
    users: &'static [&'static str],
}

const HOUSES: &[House] = &[
    House {
        name: "cotter",
        rooms: &[
            &["run"],
            &["pipeline"],
            &["agent"],
            &["builtin"],
            &["registry"],
            &["invoke"],
            &["tool"],
            &["hooks"],
            &["permission"],
            &["model"],
            &["history"],
            &["fs"],
            &["text"],
        ],
        outside: &["host"],
        // A handler takes `&Cx`, which holds the session, its agent and so the registry of handlers.
        handles: Some(Handles {
            room: "agent",
            items: &["Cx", "Controls", "ControlError", "Session", "ChildBuilder"],
            users: &["hooks", "tool", "invoke", "registry", "builtin"],
        }),
    },
    House {
        name: "cotter-files",
        rooms: &[
            &["check"],
            &["space"],
            &["claude"],
            &["profile"],
            &["extensions"],
            &["settings"],
            &["command_hook"],
            &["trust"],
            &["folder"],
            &["document"],
        ],
        outside: &[],
        handles: None,
    },
    House {
        name: "cotter-cli",
        rooms: &[
            &["commands"],
            &["setup"],
            &["spaces"],
            &["models"],
            &["settings"],
            &["trust"],
            &["args"],
            &["paths"],
            &["terminal", "signals", "error"],
        ],
        outside: &[],
        handles: None,
    },
    House {
        name: "cotter-tools",
        rooms: &[
            &["agents"],
            &["mcp"],
            &["memory"],
            &["bash"],
            &["hooks"],
            &["files"],
            &["process"],
            &["confine"],
            &["shell"],
            &["fetch"],
        ],
        outside: &[],
        handles: None,
    },
];

const HINT: &str = "cut it: move the item down to the room that uses it, or move the `impl` that acts \
                    up to the room it uses";

/// Fails when a path points up.
#[expect(clippy::print_stdout, reason = "the list of edges is the output")]
pub(crate) fn run() -> Result<(), Failure> {
    let surveys = survey_all(&command::root()?)?;
    let faults: usize = surveys.iter().map(|survey| survey.fault_lines().len()).sum();
    if faults == 0 {
        let paths: usize = surveys.iter().map(|survey| survey.paths).sum();
        println!("{} crates, {paths} paths, none points up", surveys.len());
        return Ok(());
    }
    for line in surveys.iter().flat_map(Survey::fault_lines) {
        println!("{line}");
    }
    Err(Failure::new(format!("{faults} paths point up, or cannot be placed")).with_hint(HINT))
}

/// Prints the number of paths that point up, per crate.
#[expect(clippy::print_stdout, reason = "the count is the output")]
pub(crate) fn count() -> Result<(), Failure> {
    for (house, survey) in HOUSES.iter().zip(survey_all(&command::root()?)?) {
        println!("{}", survey.count_line(house.name));
    }
    Ok(())
}

fn survey_all(root: &Path) -> Result<Vec<Survey>, Failure> {
    let survey = |house: &House| {
        let folder = format!("{}/src", house.name);
        survey(house, &folder, &source_tree::read(root, &folder)?)
    };
    HOUSES.iter().map(survey).collect()
}

/// The paths of one crate, checked.
struct Survey {
    /// The number of paths that lead to an item of the crate.
    paths: usize,
    edges: BTreeSet<Edge>,
    /// Other faults, as lines: a path that leads to no item, a module without a room.
    faults: BTreeSet<String>,
}

/// A path from a room to a higher one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    file: String,
    line: usize,
    /// The definition, as a path from the crate's root.
    path: String,
    from: String,
    to: String,
    /// The module that defines the item.
    module: Vec<String>,
    rule: Rule,
}

/// The rule that an edge breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Order,
    Outside,
}

fn survey(house: &House, folder: &str, texts: &Texts) -> Result<Survey, Failure> {
    let files = source_tree::parse(folder, texts)?;
    let modules = Modules::of(&files);
    let mut survey =
        Survey { paths: 0, edges: BTreeSet::new(), faults: house.unknown_rooms(folder, &modules) };
    for file in &files {
        let mentions = paths::read(file, &modules);
        survey.paths += mentions.found.len();
        for mention in mentions.found {
            let Some((from, rule)) = house.judge(&mention.module, &mention.target) else {
                continue;
            };
            survey.edges.insert(Edge {
                file: file.name.clone(),
                line: mention.line,
                path: shown(&mention.target),
                from: from.to_owned(),
                to: mention.target.module.first().cloned().unwrap_or("the crate's root".into()),
                module: mention.target.module,
                rule,
            });
        }
        for (line, path) in mentions.missing {
            survey.faults.insert(format!("{}:{line}: cannot find `{path}`", file.name));
        }
    }
    Ok(survey)
}

impl House {
    /// The room that a path leaves and the rule that it breaks; `None` if it breaks no rule.
    fn judge<'a>(&self, from: &'a [String], target: &Definition) -> Option<(&'a str, Rule)> {
        let from = from.first()?;
        let height = self.height(from)?;
        let Some(to) = target.module.first() else {
            // The root itself, as in `use crate as cotter`, is no item.
            return (!target.item.is_empty()).then_some((from, Rule::Order));
        };
        if self.outside.contains(&to.as_str()) {
            return Some((from, Rule::Outside));
        }
        let is_above = self.height(to)? > height;
        (is_above && !self.is_handle(from, to, target)).then_some((from, Rule::Order))
    }

    /// The position of a room, counted from the bottom.
    fn height(&self, module: &str) -> Option<usize> {
        self.rooms.iter().rev().position(|room| room.contains(&module))
    }

    fn is_handle(&self, from: &str, to: &str, target: &Definition) -> bool {
        self.handles.as_ref().is_some_and(|handles| {
            let item = target.item.first().map_or("", String::as_str);
            handles.room == to && handles.items.contains(&item) && handles.users.contains(&from)
        })
    }

    fn unknown_rooms(&self, folder: &str, modules: &Modules) -> BTreeSet<String> {
        let is_unknown = |room: &&str| self.height(room).is_none() && !self.outside.contains(room);
        let line = |room| format!("{folder}: `{room}` is not in the table of xtask/src/rooms.rs");
        modules.rooms().filter(is_unknown).map(line).collect()
    }
}

impl Survey {
    /// One line per fault, edges by file and line first.
    fn fault_lines(&self) -> Vec<String> {
        let edges = self.edges.iter().map(|Edge { file, line, path, from, to, rule, .. }| {
            let reason = match rule {
                Rule::Order => "which is above it",
                Rule::Outside => "which no room may use",
            };
            format!("{file}:{line}: {from} uses {to} (`{path}`), {reason}")
        });
        edges.chain(self.faults.iter().cloned()).collect()
    }

    fn count_line(&self, name: &str) -> String {
        let between: BTreeSet<_> =
            self.edges.iter().map(|edge| (&edge.file, &edge.module)).collect();
        let unplaced = match self.faults.len() {
            0 => String::new(),
            count => format!(", {count} other faults"),
        };
        format!("{name:<12} {:>3} edges ({} paths){unplaced}", between.len(), self.edges.len())
    }
}

/// A definition as a path: the module and the item's own name.
fn shown(target: &Definition) -> String {
    let names = target.module.iter().chain(target.item.first());
    names.map(String::as_str).collect::<Vec<_>>().join("::")
}
