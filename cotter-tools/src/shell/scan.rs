//! One pass over a script before it is walked: the functions it defines, and the commands anywhere in it that
//! may change the folder.
//!
//! The order of a text is not the order in which it runs, so these hold for the whole text.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use crate::shell::tree::{Nesting, Node, Simple};

/// Builtins that change the folder, or run text that may.
const MOVERS: [&str; 5] = ["cd", "pushd", "popd", "source", "."];

/// Builtins that change the shell. A function with such a name would change what the rest of a text means.
const STATE_BUILTINS: [&str; 36] = [
    "cd",
    "pushd",
    "popd",
    "source",
    ".",
    "eval",
    "exec",
    "set",
    "unset",
    "export",
    "declare",
    "typeset",
    "local",
    "readonly",
    "trap",
    "command",
    "builtin",
    "alias",
    "unalias",
    "shopt",
    "enable",
    "hash",
    "read",
    "mapfile",
    "readarray",
    "printf",
    "test",
    "[",
    "let",
    "shift",
    "return",
    "break",
    "continue",
    "exit",
    "getopts",
    "command_not_found_handle",
];

/// The findings in the text of one shell.
#[derive(Default)]
pub(crate) struct Scan {
    functions: HashSet<String>,
    /// A command of this text may change the folder, in any of its shells.
    pub(crate) moves: bool,
    /// The body of a function may change the folder of its caller.
    moves_in_functions: bool,
    /// A trap may change the folder, at any time.
    pub(crate) moves_in_traps: bool,
    /// There is a trap: commands may run before those written before them.
    pub(crate) has_traps: bool,
    /// A command may run more than once, or at the same time as another.
    pub(crate) repeats: bool,
    /// Functions that may call themselves, with true if the call starts another process.
    pub(crate) recursive: Vec<(String, bool)>,
    /// Functions named like a builtin that changes the shell.
    pub(crate) misnamed: Vec<String>,
}

/// A function while its text is scanned.
#[derive(Default)]
struct FunctionScan<'t> {
    calls: HashSet<Cow<'t, str>>,
    forks: bool,
}

/// The part of a text that a node belongs to.
#[derive(Clone, Copy)]
enum Part<'t> {
    Main,
    Function(&'t str),
    Trap,
}

impl Scan {
    pub(crate) fn of(nodes: &[Node]) -> Scan {
        let mut scan = Scan::default();
        let mut functions: HashMap<&str, FunctionScan<'_>> = HashMap::new();
        let mut left: Vec<_> = nodes.iter().map(|node| (node, Part::Main)).collect();
        while let Some((node, part)) = left.pop() {
            let mut inner_part = part;
            match node {
                Node::Function(name, _) => {
                    functions.entry(name).or_default();
                    if STATE_BUILTINS.contains(&name.as_str()) {
                        scan.misnamed.push(name.clone());
                    }
                    inner_part = Part::Function(name);
                    scan.repeats = true;
                }
                Node::Simple(simple) => {
                    let name = builtin_name(simple).unwrap_or_default();
                    scan.add_command(&name, part);
                    if let Part::Function(function) = part {
                        functions.entry(function).or_default().calls.insert(name);
                    }
                }
                Node::Pipeline(_) | Node::Background(_) => {
                    scan.repeats = true;
                    if let Part::Function(function) = part {
                        functions.entry(function).or_default().forks = true;
                    }
                }
                Node::While(..) | Node::For { .. } | Node::ForNumber { .. } => scan.repeats = true,
                _ => {}
            }
            node.each_child(&mut |child, nesting| {
                let is_trap = nesting == Nesting::Later && matches!(node, Node::Simple(_));
                left.push((child, if is_trap { Part::Trap } else { inner_part }));
            });
        }
        scan.recursive = recursive(&functions);
        scan.functions = functions.into_keys().map(str::to_owned).collect();
        scan
    }

    fn add_command(&mut self, name: &str, part: Part<'_>) {
        self.has_traps |= name == "trap";
        self.repeats |= name == "trap";
        if MOVERS.contains(&name) {
            self.moves = true;
            self.moves_in_functions |= matches!(part, Part::Function(_));
            self.moves_in_traps |= matches!(part, Part::Trap);
        }
    }

    /// True if the text defines a function of that name anywhere.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.functions.contains(name)
    }

    /// True if a node may change the folder of the shell that runs it.
    pub(crate) fn may_move(&self, node: &Node) -> bool {
        if !self.moves {
            return false;
        }
        let mut left = vec![node];
        while let Some(node) = left.pop() {
            if let Node::Simple(simple) = node
                && let Some(name) = builtin_name(simple)
                && (MOVERS.contains(&&*name) || self.moves_in_functions && self.defines(&name))
            {
                return true;
            }
            node.each_child(&mut |child, nesting| {
                if nesting == Nesting::SameShell {
                    left.push(child);
                }
            });
        }
        false
    }
}

/// The name of a command as far as builtins and functions go, if it is literal text.
fn builtin_name(simple: &Simple) -> Option<Cow<'_, str>> {
    simple.words_of_builtin().first()?.literal()
}

type Calls<'t> = HashMap<&'t str, Vec<&'t str>>;

/// The functions on a cycle of calls, or between two, with true if one of them starts processes.
fn recursive(functions: &HashMap<&str, FunctionScan<'_>>) -> Vec<(String, bool)> {
    let mut calls: Calls<'_> = HashMap::new();
    for (name, function) in functions {
        let callees = function.calls.iter().map(|callee| &**callee);
        calls.insert(name, callees.filter(|callee| functions.contains_key(callee)).collect());
    }
    // Without those that reach no cycle, then without those that no cycle reaches.
    let on_cycles = peel(peel(calls));
    let forks = on_cycles.keys().any(|name| functions[name].forks);
    let mut named: Vec<_> = on_cycles.into_keys().map(|name| (name.to_owned(), forks)).collect();
    named.sort();
    named
}

/// Removes functions without calls, again and again, and turns the calls of the others round.
fn peel(calls: Calls<'_>) -> Calls<'_> {
    let mut callers: Calls<'_> = calls.keys().map(|name| (*name, vec![])).collect();
    let mut calls_left: HashMap<&str, usize> = HashMap::new();
    for (name, callees) in &calls {
        calls_left.insert(name, callees.len());
        callees.iter().for_each(|callee| callers.entry(callee).or_default().push(name));
    }
    let mut ended: Vec<&str> =
        calls_left.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    while let Some(name) = ended.pop() {
        for caller in callers.remove(name).into_iter().flatten() {
            if let Some(count) = calls_left.get_mut(caller) {
                *count -= 1;
                if *count == 0 {
                    ended.push(caller);
                }
            }
        }
    }
    let names: HashSet<&str> = callers.keys().copied().collect();
    callers.values_mut().for_each(|callers| callers.retain(|caller| names.contains(caller)));
    callers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::parse::{Budget, parse_within};

    /// Renders what a scan finds.
    fn check(text: &str, expected: &str) {
        let script = parse_within(text, 0, &Budget::default());
        assert_eq!(script.error, None, "{text}");
        let scan = Scan::of(&script.nodes);
        let mut found = vec![];
        let flags = [
            (scan.moves, "moves"),
            (scan.moves_in_functions, "in functions"),
            (scan.moves_in_traps, "in traps"),
            (scan.has_traps, "traps"),
            (scan.repeats, "repeats"),
        ];
        found
            .extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| (*word).to_owned()));
        for (name, forks) in &scan.recursive {
            found.push(format!("{name} calls itself{}", if *forks { " and forks" } else { "" }));
        }
        found.extend(scan.misnamed.iter().map(|name| format!("a function {name}")));
        let moving = script.nodes.iter().any(|node| scan.may_move(node));
        found.extend(moving.then(|| "may move".to_owned()));
        assert_eq!(found.join(", "), expected, "{text}");
    }

    #[test]
    fn scan_finds_what_the_text_may_change() {
        check("ls; echo cd", "");
        check("cd a && ls", "moves, may move");
        check("(cd a); ls $(cd b)", "moves");
        check("builtin command -p c\\d a", "moves, may move");
        check("eval 'cd a'", "moves, may move");
        check("trap 'cd a' EXIT", "moves, in traps, traps, repeats");
        check("f() { cd a; }; ls", "moves, in functions, repeats");
        check("f() { cd a; }; f", "moves, in functions, repeats, may move");
        check("cd() { ls; }", "repeats, a function cd");
        check("while true; do ls; done", "repeats");
        check(
            "f() { g; }; g() { f; }; h() { f; }; i() { ls; }",
            "repeats, f calls itself, g calls itself",
        );
        check("f() { f | f & }; f", "repeats, f calls itself and forks");
    }
}
