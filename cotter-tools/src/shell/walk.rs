//! Walks a script as bash runs it, and collects what each command would touch.
//!
//! The walk takes both branches of every condition, repeats loops until nothing changes, and enters
//! functions where they are called. A command may succeed or fail, with different states: after `cd
//! x && …` it runs in `x`, after `cd x; …` it may still be in the old folder.

use std::{
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use cotter::{
    Workspace,
    builtin::is_protected,
    fs::{paths, workspace::is_harmless_device},
    permission::{
        Zone,
        facts::{CommandWord as Told, CommandWordKind, Doubt, Facts, SimpleCommand},
    },
};

use crate::shell::{
    below::{self, Deep},
    command_verdict::{CommandVerdict, judge},
    expand::{self, Field, Shape},
    glob, parse, programs as special, second_parser as second,
    state::{ShellState, Val},
    tree::{ListOperator, Node, Redirect, ShellWord, Simple, Value},
    wrappers::WrappedCommand,
};

/// The deepest nesting of functions, scripts and groups.
const DEEPEST: usize = 70;
/// The most commands that are checked.
const MOST: usize = 1500;
/// The most rounds of a loop; then the state is unknown.
const ROUNDS: usize = 6;

pub(crate) struct ScriptWalk<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) facts: Facts,
    /// The number of the next pipeline, and that of the enclosing one.
    next: u32,
    within: Option<u32>,
    depth: usize,
    seen: usize,
    /// Functions being called, with the number of split-off processes at each call.
    calls: Vec<(String, usize)>,
    /// Variables local to the current function.
    locals: Vec<String>,
    forks: usize,
    /// The targets of the output of all commands.
    outputs: Vec<PathBuf>,
    /// Defined functions and their states; called ones are removed.
    defined: Vec<(String, Rc<Node>, ShellState)>,
    /// Links created so far.
    links: Vec<PathBuf>,
    /// Commands that run when the script ends.
    pub(crate) traps: Vec<String>,
    /// The states where a function returns or a loop is left.
    pub(crate) returns: Vec<ShellState>,
    pub(crate) escapes: Vec<ShellState>,
}

/// The state after success and after failure. `None`: it is never reached.
pub(crate) struct Outcome {
    pub ok: Option<ShellState>,
    pub failed: Option<ShellState>,
}

impl Outcome {
    pub(crate) fn same(state: ShellState) -> Self {
        Outcome { ok: Some(state.clone()), failed: Some(state) }
    }

    pub(crate) fn never() -> Self {
        Outcome { ok: None, failed: None }
    }

    fn either(self) -> Option<ShellState> {
        join(self.ok, self.failed)
    }
}

fn join(a: Option<ShellState>, b: Option<ShellState>) -> Option<ShellState> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(&b)),
        (a, b) => a.or(b),
    }
}

/// How a command is called, besides its words.
#[derive(Clone, Default)]
pub(crate) struct Call {
    pub number: u32,
    pub writes_to: Vec<PathBuf>,
    /// Its input, if known.
    pub input: Option<Field>,
    pub by: CallReason,
}

/// How a command's name is looked up.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum CallReason {
    /// Functions, then builtins, then programs.
    #[default]
    All,
    /// Builtins, then programs.
    Shell,
    Program,
}

impl<'a> ScriptWalk<'a> {
    pub(crate) fn new(workspace: &'a Workspace) -> Self {
        ScriptWalk {
            workspace,
            facts: Facts::zone(Zone::Safe),
            next: 0,
            within: None,
            depth: 0,
            seen: 0,
            calls: vec![],
            locals: vec![],
            forks: 0,
            outputs: vec![],
            defined: vec![],
            links: vec![],
            traps: vec![],
            returns: vec![],
            escapes: vec![],
        }
    }

    /// Walks a whole command line, with its traps.
    pub(crate) fn whole(&mut self, command: &str) {
        let end = self.text(command, ShellState::new(self.workspace)).either();
        for trap in std::mem::take(&mut self.traps) {
            if let Some(end) = &end {
                self.text(&trap, end.later());
            }
        }
        // These were not called here, but a name may be called in ways that are not visible.
        while let Some((name, body, state)) = self.defined.pop() {
            self.calls.push((name, self.forks));
            self.run(&body, state.later());
            self.calls.pop();
        }
    }

    pub(crate) fn unclear(&mut self, why: impl Into<String>) {
        self.facts.zone = self.facts.zone.max(Zone::Build);
        self.doubt(Doubt::NotUnderstood(why.into()));
    }

    fn doubt(&mut self, doubt: Doubt) {
        if !self.facts.doubts.contains(&doubt) && self.facts.doubts.len() < 20 {
            self.facts.doubts.push(doubt);
        }
    }

    pub(crate) fn run(&mut self, node: &Node, state: ShellState) -> Outcome {
        if self.depth >= DEEPEST || self.seen >= MOST {
            self.unclear("it runs more commands than can be looked at");
            return Outcome::same(state);
        }
        self.depth += 1;
        let outcome = self.step(node, state);
        self.depth -= 1;
        outcome
    }

    fn step(&mut self, node: &Node, state: ShellState) -> Outcome {
        match node {
            Node::Simple(simple) => self.simple(simple, state),
            Node::Sequence(nodes) => self.sequence(nodes, state),
            Node::Chain(first, links) => self.chain(first, links, state),
            Node::Pipeline(stages) => self.pipeline(stages, &state),
            Node::Not(inner) => {
                let Outcome { ok, failed } = self.run(inner, state);
                Outcome { ok: failed, failed: ok }
            }
            Node::Background(inner) => self.forked(inner, &state),
            Node::Subshell(inner) => {
                self.aside_here(inner, &state);
                Outcome::same(state)
            }
            Node::Redirected(inner, redirects) => self.redirected(inner, redirects, state),
            Node::If(arms, otherwise) => self.condition(arms, otherwise.as_deref(), state),
            Node::While(condition, body) => self.repeat(state, |walk, entry| {
                let Outcome { ok, failed } = walk.run(condition, entry);
                let after = ok.and_then(|state| walk.run(body, state).either());
                join(after, failed)
            }),
            Node::For { name, words, body } => self.each(name, words.as_deref(), body, state),
            Node::Repeat { name, doubt, body } => {
                if let Some(doubt) = doubt {
                    self.unclear(doubt.clone());
                }
                let mut state = state;
                if let Some(name) = name {
                    self.named(name);
                    state.set(name, Val::Open);
                }
                self.repeat(state, |walk, entry| walk.run(body, entry).either())
            }
            Node::Case { words, bodies } => self.case(words, bodies, state),
            Node::Function(name, body) => {
                if name == "command_not_found_handle" {
                    self.unclear("`command_not_found_handle` runs for names nobody knows");
                }
                let mut state = state;
                state.define(name, body.clone());
                self.defined.push((name.clone(), body.clone(), state.clone()));
                Outcome::same(state)
            }
            Node::Test(words) => {
                self.look_into(words.iter(), &state);
                self.test(words, &state);
                Outcome::same(state)
            }
            Node::Arithmetic { doubt, within } => {
                if let Some(doubt) = doubt {
                    self.unclear(doubt.clone());
                }
                within.iter().for_each(|node| self.aside(node, &state));
                Outcome::same(state)
            }
        }
    }

    fn sequence(&mut self, nodes: &[Node], state: ShellState) -> Outcome {
        let mut outcome = Outcome::same(state);
        for (index, node) in nodes.iter().enumerate() {
            let before = if index == 0 { outcome.ok } else { outcome.either() };
            let Some(state) = before else { return Outcome::never() };
            outcome = self.run(node, state);
        }
        outcome
    }

    fn chain(
        &mut self,
        first: &Node,
        links: &[(ListOperator, Node)],
        state: ShellState,
    ) -> Outcome {
        let Outcome { mut ok, mut failed } = self.run(first, state);
        for (link, node) in links {
            let taken = if *link == ListOperator::And { ok.take() } else { failed.take() };
            let Some(state) = taken else { continue };
            let next = self.run(node, state);
            ok = join(ok, next.ok);
            failed = join(failed, next.failed);
        }
        Outcome { ok, failed }
    }

    /// Every stage runs in its own process, so changes of one are not visible to the others.
    fn pipeline(&mut self, stages: &[Node], state: &ShellState) -> Outcome {
        let outer = self.within;
        self.within = Some(self.number());
        self.forks += 1;
        for stage in stages {
            self.aside_here(stage, state);
        }
        self.forks -= 1;
        self.within = outer;
        Outcome::same(state.clone())
    }

    fn forked(&mut self, inner: &Node, state: &ShellState) -> Outcome {
        self.forks += 1;
        self.aside_here(inner, state);
        self.forks -= 1;
        Outcome::same(state.clone())
    }

    /// Runs a node in its own shell.
    fn aside_here(&mut self, node: &Node, state: &ShellState) {
        let kept = (std::mem::take(&mut self.returns), std::mem::take(&mut self.escapes));
        self.run(node, state.clone());
        (self.returns, self.escapes) = kept;
    }

    /// Runs a node whose output does not go where that of the rest goes.
    pub(crate) fn aside(&mut self, node: &Node, state: &ShellState) {
        let kept = (self.within.take(), std::mem::take(&mut self.outputs));
        self.aside_here(node, state);
        (self.within, self.outputs) = kept;
    }

    /// Walks the commands within words, and collects their doubts.
    fn look_into<'w>(
        &mut self,
        words: impl Iterator<Item = &'w ShellWord> + Clone,
        state: &ShellState,
    ) {
        for node in expand::within(words.clone()) {
            self.aside(node, state);
        }
        for doubt in expand::doubts(words) {
            self.unclear(doubt.clone());
        }
    }

    fn redirected(&mut self, inner: &Node, redirects: &[Redirect], state: ShellState) -> Outcome {
        let (writes_to, _) = self.redirects(redirects, &state);
        let outer = self.outputs.len();
        self.outputs.extend(writes_to);
        let outcome = self.run(inner, state);
        self.outputs.truncate(outer);
        outcome
    }

    fn condition(
        &mut self,
        arms: &[(Node, Node)],
        otherwise: Option<&Node>,
        state: ShellState,
    ) -> Outcome {
        let (mut reached, mut after) = (Some(state), None);
        for (condition, body) in arms {
            let Some(state) = reached.take() else { break };
            let Outcome { ok, failed } = self.run(condition, state);
            let done = ok.and_then(|state| self.run(body, state).either());
            after = join(after, done);
            reached = failed;
        }
        let rest = match (reached, otherwise) {
            (Some(state), Some(body)) => self.run(body, state).either(),
            (state, _) => state,
        };
        join(after, rest).map_or_else(Outcome::never, Outcome::same)
    }

    fn case(&mut self, words: &[ShellWord], bodies: &[Node], state: ShellState) -> Outcome {
        self.look_into(words.iter(), &state);
        let mut after = Some(state.clone());
        for body in bodies {
            // A body reached by fall-through ran after an earlier body.
            let entry = after.clone().unwrap_or_else(|| state.clone());
            after = join(after, self.run(body, entry).either());
        }
        after.map_or_else(Outcome::never, Outcome::same)
    }

    /// Repeats a loop until the state no longer changes.
    fn repeat(
        &mut self,
        state: ShellState,
        mut round: impl FnMut(&mut Self, ShellState) -> Option<ShellState>,
    ) -> Outcome {
        let outer = std::mem::take(&mut self.escapes);
        let mut entry = state;
        for index in 0..=ROUNDS {
            let mark = self.mark();
            let mut after = round(self, entry.clone());
            for escape in std::mem::take(&mut self.escapes) {
                after = join(after, Some(escape));
            }
            let known = join(Some(entry.clone()), after).unwrap_or_else(|| entry.clone());
            if known.is(&entry) {
                break;
            }
            if index == ROUNDS {
                self.unclear("a loop changes something again and again");
                break;
            }
            self.rewind(mark);
            entry = known;
        }
        self.escapes = outer;
        Outcome::same(entry)
    }

    fn each(
        &mut self,
        name: &str,
        words: Option<&[ShellWord]>,
        body: &Node,
        state: ShellState,
    ) -> Outcome {
        self.named(name);
        let items = match words {
            None => match state.arguments() {
                Val::Known(items) => items,
                Val::Open => vec![Field::open("$@")],
            },
            Some(words) => {
                self.look_into(words.iter(), &state);
                match expand::fields(words, &state) {
                    Ok(items) => items,
                    Err(why) => {
                        self.unclear(why);
                        vec![Field::open("…")]
                    }
                }
            }
        };
        let known = items.len() <= 16 && !items.iter().any(Field::is_open);
        let values = match known {
            true => items.into_iter().map(|item| Val::Known(vec![item])).collect(),
            false => vec![Val::Open],
        };
        self.repeat(state, |walk, entry| {
            let mut after = None;
            for value in &values {
                let mut state = entry.clone();
                state.set(name, value.clone());
                after = join(after, walk.run(body, state).either());
            }
            after
        })
    }

    /// Records that a variable is set.
    pub(crate) fn named(&mut self, name: &str) {
        if crate::shell::names::is_telling(name) {
            self.unclear(format!("`{name}=…` changes what later commands do"));
        }
    }

    /// A mark of the current facts, to roll back to.
    fn mark(&self) -> Facts {
        self.facts.clone()
    }

    fn rewind(&mut self, mark: Facts) {
        self.facts = mark;
    }

    /// The number of the pipeline of a command.
    fn number(&mut self) -> u32 {
        self.within.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn simple(&mut self, simple: &Simple, state: ShellState) -> Outcome {
        self.seen += 1;
        let values = simple.assigns.iter().flat_map(|assign| match &assign.value {
            Value::Word(word) => std::slice::from_ref(word),
            Value::List(words) => words.as_slice(),
        });
        self.look_into(values, &state);
        self.look_into(simple.words.iter(), &state);
        let (writes_to, input) = self.redirects(&simple.redirects, &state);
        let number = self.number();
        let call = Call { number, writes_to, input, by: CallReason::All };
        if simple.words.is_empty() {
            if !simple.redirects.is_empty() {
                self.tell(vec![], Zone::Safe, &call);
            }
            return self.assign_all(&simple.assigns, state);
        }
        let fields = match expand::fields(&simple.words, &state) {
            Ok(fields) => fields,
            Err(why) => {
                self.unclear(why);
                simple.words.iter().map(|word| Field::open(word.source.clone())).collect()
            }
        };
        if simple.words[0].bare().is_some_and(parse::is_declaration) {
            return self.declare(&fields, &simple.assigns, state, &call);
        }
        for assign in &simple.assigns {
            if !crate::shell::names::is_harmless(&assign.name) || assign.subscript.is_some() {
                self.unclear(format!(
                    "`{}=…` before a command may change what it does",
                    assign.name
                ));
            }
        }
        self.command(fields, state, &call)
    }

    /// Runs a command with its words, by function, builtin or program.
    pub(crate) fn command(
        &mut self,
        fields: Vec<Field>,
        state: ShellState,
        call: &Call,
    ) -> Outcome {
        let Some(name) = fields.first() else { return Outcome::same(state) };
        let Some(name) = name.literal().map(str::to_owned) else {
            self.unclear(format!("`{}` is only known when it runs", name.text));
            let words = crate::shell::command_verdict::plain_words(&fields).into_iter();
            let open = |(field, kind): (Field, CommandWordKind)| {
                let kind = if field.is_known() { kind } else { CommandWordKind::Open };
                (field, kind)
            };
            self.tell(words.map(open).collect(), Zone::Build, call);
            return Outcome::same(state);
        };
        if call.by == CallReason::All {
            match state.function(&name) {
                Some(Some(body)) => return self.function(&name, &body, &fields, state, call),
                Some(None) => self.unclear(format!("which function `{name}` is, is not known")),
                None => {}
            }
        }
        if call.by != CallReason::Program
            && let Some(outcome) = self.builtin(&name, &fields, &state, call)
        {
            return outcome;
        }
        self.program(&fields, &state, call);
        Outcome::same(state)
    }

    /// Walks a function's body at its call, with its arguments.
    fn function(
        &mut self,
        name: &str,
        body: &Rc<Node>,
        fields: &[Field],
        state: ShellState,
        call: &Call,
    ) -> Outcome {
        self.tell(crate::shell::command_verdict::plain_words(fields), Zone::Safe, call);
        if let Some((_, forks)) = self.calls.iter().find(|(called, _)| called == name) {
            if self.forks > *forks {
                self.facts.zone = Zone::Never;
                self.doubt(Doubt::Destructive(format!("`{name}` starts itself again and again")));
            }
            self.unclear(format!("the function `{name}` calls itself"));
            return Outcome::same(state);
        }
        self.defined.retain(|(_, defined, _)| !Rc::ptr_eq(defined, body));
        self.calls.push((name.to_owned(), self.forks));
        let outer = (std::mem::take(&mut self.returns), state.arguments());
        let locals = std::mem::take(&mut self.locals);
        let mut inner = state;
        inner.set_arguments(match fields[1..].iter().any(Field::is_open) {
            true => Val::Open,
            false => Val::Known(fields[1..].to_vec()),
        });
        let writes = self.outputs.len();
        self.outputs.extend(call.writes_to.iter().cloned());
        let mut after = self.run(body, inner).either();
        self.outputs.truncate(writes);
        for returned in std::mem::replace(&mut self.returns, outer.0) {
            after = join(after, Some(returned));
        }
        self.calls.pop();
        let locals = std::mem::replace(&mut self.locals, locals);
        let Some(mut after) = after else { return Outcome::never() };
        locals.iter().for_each(|name| after.set(name, Val::Open));
        after.set_arguments(outer.1);
        Outcome::same(after)
    }

    /// Marks a variable as local to the current function.
    pub(crate) fn locals(&mut self, name: &str) {
        if !self.calls.is_empty() {
            self.locals.push(name.to_owned());
        }
    }

    /// Runs a program, and the commands it runs.
    fn program(&mut self, fields: &[Field], state: &ShellState, call: &Call) {
        let mut judged = judge(fields);
        if self.is_link_to_ours(&fields[0], state) {
            special::own(special::OURS, fields, &mut judged);
        }
        let mut inner_state = state.clone();
        if let Some(folder) = &judged.folder {
            // The folder itself is relative to here; all other paths are relative to it.
            if let Some(at) = judged.reads.iter().position(|read| read == folder) {
                judged.reads.remove(at);
            }
            let zone = self.reads(folder, state);
            self.facts.zone = self.facts.zone.max(zone);
            self.go(folder, &mut inner_state);
        }
        let deep = judged.deep.take().map(|deep| (deep, judged.reads.clone()));
        let inner = self.note(judged, &inner_state, call);
        let kept = (
            std::mem::take(&mut self.facts.reads),
            std::mem::take(&mut self.facts.writes),
            self.facts.commands.len(),
        );
        let alone = inner.is_empty();
        self.all_inner(inner, &inner_state, call);
        let reads = std::mem::replace(&mut self.facts.reads, kept.0);
        let writes = std::mem::replace(&mut self.facts.writes, kept.1);
        if let Some((mut deep, mut folders)) = deep {
            if folders.is_empty() {
                folders.push(Field::known("."));
            }
            deep.follows &= alone || !reads.is_empty();
            // Code of the project may access any path: this is asked for, or confined.
            let code = self.facts.commands[kept.2..].iter().any(|c| c.zone >= Zone::Build);
            if !code {
                self.goes_through(&deep, &folders, !writes.is_empty(), &inner_state);
            }
        }
        let new = |known: &[PathBuf], path: &PathBuf| !known.contains(path);
        let reads = reads.into_iter().filter(|path| new(&self.facts.reads, path));
        self.facts.reads.extend(reads.collect::<Vec<_>>());
        let writes = writes.into_iter().filter(|path| new(&self.facts.writes, path));
        self.facts.writes.extend(writes.collect::<Vec<_>>());
    }

    /// Checks the folders that a command reads recursively.
    fn goes_through(&mut self, deep: &Deep, folders: &[Field], writes: bool, state: &ShellState) {
        for folder in folders.iter().filter(|field| !field.is_open()) {
            for path in self.touched(folder, state) {
                if !path.is_dir() || !self.workspace.is_readable(&path) {
                    continue;
                }
                let below = below::look(&path, deep, self.workspace);
                if below.more {
                    self.facts.zone = self.facts.zone.max(Zone::Build);
                }
                let outside: Vec<_> = below.outside.into_iter().take(3).collect();
                for path in &outside {
                    self.facts.zone = self.facts.zone.max(Zone::of_read(path, self.workspace));
                }
                let found = outside.into_iter().chain(below.secrets).take(50);
                let found: Vec<_> = found.filter(|path| !self.facts.reads.contains(path)).collect();
                self.facts.reads.extend(found);
                if writes {
                    self.facts.writes.extend(below.protected.into_iter().take(50));
                }
            }
        }
    }

    fn all_inner(&mut self, inner: Vec<WrappedCommand>, inner_state: &ShellState, call: &Call) {
        for inner in inner {
            self.seen += 1;
            if self.depth >= DEEPEST || self.seen >= MOST {
                self.unclear("it runs more commands than can be looked at");
                return;
            }
            self.depth += 1;
            self.inner(inner, inner_state, call);
            self.depth -= 1;
        }
    }

    /// True if a program given by its path is ours, whatever the link's name.
    fn is_link_to_ours(&mut self, name: &Field, state: &ShellState) -> bool {
        name.text.contains('/')
            && self.touched(name, state).iter().any(|path| path.ends_with(special::OURS))
    }

    fn inner(&mut self, inner: WrappedCommand, state: &ShellState, call: &Call) {
        let by = |by: CallReason| Call { by, writes_to: vec![], ..call.clone() };
        match inner {
            WrappedCommand::Program(fields) => {
                _ = self.command(fields, state.clone(), &by(CallReason::Program))
            }
            WrappedCommand::Command(fields) => {
                _ = self.command(fields, state.clone(), &by(CallReason::Shell))
            }
            WrappedCommand::Here(fields) => {
                _ = self.command(fields, state.clone(), &by(CallReason::All))
            }
            WrappedCommand::Script { shell, text, arguments } => match text.literal() {
                Some(script) => {
                    let outer = self.within.replace(call.number);
                    self.script(&shell, script, state.afresh(arguments));
                    self.within = outer;
                }
                None => self.unclear(format!("what `{shell} -c` runs is only known when it runs")),
            },
            WrappedCommand::Input { shell } => match call.input.as_ref().and_then(Field::literal) {
                // A program in another language: as much code as with `-c`.
                Some(_) if !is_shell(&shell) => {}
                Some(script) => {
                    let script = script.to_owned();
                    self.script(&shell, &script, state.afresh(vec![]));
                }
                None => self.unclear(format!("`{shell}` runs what it reads")),
            },
        }
    }

    /// Walks a script that another shell runs.
    fn script(&mut self, shell: &str, text: &str, state: ShellState) {
        if shell != "bash" && shell != "rbash" && !is_common(text, shell) {
            self.unclear(format!("`{shell}` may read it in another way than bash"));
        }
        let kept = (std::mem::take(&mut self.returns), std::mem::take(&mut self.escapes));
        self.text(text, state);
        (self.returns, self.escapes) = kept;
    }

    /// Parses a text as commands, and runs them.
    pub(crate) fn text(&mut self, text: &str, state: ShellState) -> Outcome {
        let script = parse::parse_within(text, self.depth.min(50));
        let outcome = self.run(&script.node, state.clone());
        if let Some(why) = script.trouble {
            self.unclear(why);
            // A text with errors may still run in part: its commands count as far as they are
            // found.
            for words in second::read(text, second::SALVAGED).commands {
                let call = Call { number: self.number(), by: CallReason::Shell, ..Call::default() };
                self.command(words.into_iter().map(Field::known).collect(), state.clone(), &call);
            }
        } else if !reads_apart(text)
            && let Some(why) = second::read(text, second::COMPARED).differs(&script.node)
        {
            self.unclear(why);
        }
        outcome
    }

    /// Records what a command touches. Returns the commands it runs.
    pub(crate) fn note(
        &mut self,
        judged: CommandVerdict,
        state: &ShellState,
        call: &Call,
    ) -> Vec<WrappedCommand> {
        let mut zone = judged.zone;
        for field in &judged.reads {
            zone = zone.max(self.reads(field, state));
        }
        for field in &judged.kept {
            zone = zone.max(self.kept(field, state));
        }
        for field in &judged.writes {
            zone = zone.max(self.writes(field, state).0);
        }
        zone = zone.max(self.copies(&judged, state));
        for field in &judged.removes {
            zone = zone.max(self.removal(field, state));
        }
        for host in judged.hosts {
            if !self.facts.hosts.contains(&host) {
                self.facts.hosts.push(host);
            }
        }
        for doubt in judged.doubts {
            if matches!(doubt, Doubt::NotUnderstood(_)) {
                zone = zone.max(Zone::Build);
            }
            self.doubt(doubt);
        }
        for why in judged.wonders {
            self.doubt(Doubt::NotUnderstood(why));
        }
        self.tell(judged.words, zone, call);
        judged.inner
    }

    /// A file from a repository's history. Its path there is the path it has outside; git shows no
    /// other.
    fn kept(&mut self, field: &Field, state: &ShellState) -> Zone {
        let text = field.text.as_str();
        if field.is_open() || state.folders().is_empty() {
            self.unclear(format!("which file `{text}` is, is only known when it runs"));
            return Zone::Build;
        }
        let mut zone = Zone::Safe;
        for folder in state.folders() {
            let root = below::repository(folder.cwd()).unwrap_or(self.workspace.project());
            let is_below = text.starts_with("./") || text.starts_with("../");
            let path = without_dots(&if is_below { folder.cwd() } else { root }.join(text));
            if path.starts_with(root) && !self.facts.reads.contains(&path) {
                zone = zone.max(Zone::of_read(&path, self.workspace));
                self.facts.reads.push(path);
            }
        }
        zone
    }

    /// Records copies in folders by their new names, and links among them for later commands.
    fn copies(&mut self, judged: &CommandVerdict, state: &ShellState) -> Zone {
        let mut zone = Zone::Safe;
        let sources: Vec<_> =
            judged.copied.iter().flat_map(|field| self.touched(field, state)).collect();
        for into in &judged.into {
            let mut targets = self.touched(into, state);
            for folder in targets.clone().iter().filter(|path| path.is_dir()) {
                for source in &sources {
                    targets.extend(source.file_name().map(|name| folder.join(name)));
                    let within = names_in(source).into_iter().map(|name| folder.join(name));
                    targets.extend(within.filter(|path| is_protected(path, self.workspace)));
                }
            }
            for path in &targets {
                zone = zone.max(Zone::of_write(path, self.workspace));
                if !self.facts.writes.contains(path) {
                    self.facts.writes.push(path.clone());
                }
            }
            if judged.links || sources.iter().any(|source| self.may_hold_links(source)) {
                self.links.extend(targets);
            }
        }
        zone
    }

    /// True if a link may be at a path, or below it.
    fn may_hold_links(&self, path: &Path) -> bool {
        let mut left = vec![path.to_owned()];
        for _ in 0..MOST {
            let Some(path) = left.pop() else { return false };
            match path.symlink_metadata() {
                Ok(about) if about.is_symlink() => return true,
                Ok(about) if about.is_dir() => {
                    left.extend(path.read_dir().into_iter().flatten().flatten().map(|e| e.path()));
                }
                Ok(_) => {}
                // It is created before it is copied.
                Err(_) => return !self.links.is_empty(),
            }
        }
        true
    }

    /// Adds one command to the facts.
    pub(crate) fn tell(&mut self, words: Vec<(Field, CommandWordKind)>, zone: Zone, call: &Call) {
        let words =
            words.into_iter().map(|(field, kind)| Told { text: field.text, kind }).collect();
        let mut writes_to = call.writes_to.clone();
        writes_to.extend(self.outputs.iter().cloned());
        self.facts.zone = self.facts.zone.max(zone);
        self.facts.commands.push(SimpleCommand { words, zone, writes_to, pipeline: call.number });
    }

    /// Walks redirections: the targets of output, and the input.
    fn redirects(
        &mut self,
        redirects: &[Redirect],
        state: &ShellState,
    ) -> (Vec<PathBuf>, Option<Field>) {
        let (mut to, mut input) = (vec![], None);
        for redirect in redirects {
            let text = match redirect {
                Redirect::Text(body) => body.get(),
                Redirect::From(word) | Redirect::To(word) | Redirect::Both(word) => Some(word),
                Redirect::Copy => None,
            };
            let Some(word) = text else { continue };
            self.look_into(std::iter::once(word), state);
            let field = match self.target(word, redirect, state) {
                Some(field) => field,
                None => continue,
            };
            match redirect {
                Redirect::Text(_) => input = Some(field),
                Redirect::From(_) => self.raise_read(&field, state),
                _ => {
                    if matches!(redirect, Redirect::Both(_)) {
                        self.raise_read(&field, state);
                    }
                    let (zone, paths) = self.writes(&field, state);
                    self.facts.zone = self.facts.zone.max(zone);
                    to.extend(paths);
                }
            }
        }
        (to, input)
    }

    fn raise_read(&mut self, field: &Field, state: &ShellState) {
        let zone = self.reads(field, state);
        self.facts.zone = self.facts.zone.max(zone);
    }

    /// The target of a redirection. `None`: no file.
    fn target(
        &mut self,
        word: &ShellWord,
        redirect: &Redirect,
        state: &ShellState,
    ) -> Option<Field> {
        if matches!(word.pieces.as_slice(), [crate::shell::tree::WordPart::Process(_)]) {
            return None;
        }
        if matches!(redirect, Redirect::Text(_)) {
            return expand::single(word, state).ok();
        }
        // A pattern or several words may be one file, or an error.
        let field = match expand::fields(std::slice::from_ref(word), state) {
            Ok(mut fields) if fields.len() == 1 => fields.remove(0),
            _ => Field::open(word.source.clone()),
        };
        let socket = field.text.starts_with("/dev/tcp/") || field.text.starts_with("/dev/udp/");
        if socket {
            self.facts.zone = self.facts.zone.max(Zone::Network);
            self.unclear(format!("`{}` opens a connection", field.text));
            return None;
        }
        Some(field)
    }

    pub(crate) fn reads(&mut self, field: &Field, state: &ShellState) -> Zone {
        let paths = self.touched(field, state);
        let zone = paths.iter().map(|path| Zone::of_read(path, self.workspace)).max();
        for path in paths {
            if !self.facts.reads.contains(&path) {
                self.facts.reads.push(path);
            }
        }
        zone.unwrap_or(Zone::Safe)
    }

    pub(crate) fn writes(&mut self, field: &Field, state: &ShellState) -> (Zone, Vec<PathBuf>) {
        let paths = self.touched(field, state);
        let zone = paths.iter().map(|path| Zone::of_write(path, self.workspace)).max();
        for path in &paths {
            if !self.facts.writes.contains(path) {
                self.facts.writes.push(path.clone());
            }
        }
        (zone.unwrap_or(Zone::Safe), paths)
    }

    /// Raises the zone if the removed path is the person's home, or contains it.
    fn removal(&mut self, field: &Field, state: &ShellState) -> Zone {
        let spelled = field.text.trim_matches('"').trim_end_matches(['/', '*']);
        let unknown_home =
            field.is_open() && matches!(spelled, "~" | "$HOME" | "${HOME}" | "~root");
        let Some(home) = self.workspace.home() else {
            return if unknown_home { Zone::Never } else { Zone::Safe };
        };
        let whole = Field::known(match &field.shape {
            Shape::Pattern(_) => field.text.trim_end_matches('*').to_owned(),
            _ => field.text.clone(),
        });
        let holds = field.is_open() && unknown_home
            || !field.is_open()
                && self.touched(&whole, state).iter().any(|path| home.starts_with(path));
        if holds { Zone::Never } else { Zone::Safe }
    }

    /// The paths of a word, with links resolved.
    pub(crate) fn touched(&mut self, field: &Field, state: &ShellState) -> Vec<PathBuf> {
        let text = field.text.as_str();
        if text.is_empty() {
            return vec![];
        }
        if field.is_open() {
            self.unclear(format!("`{text}` is only known when it runs"));
            return vec![];
        }
        // Links such as `/dev/stderr` resolve to this process's own files, which is meaningless
        // here.
        if is_harmless_device(Path::new(text)) && !text.contains("..") {
            return vec![text.into()];
        }
        let absolute = text.starts_with('/');
        let base = [self.workspace.clone()];
        let folders = if absolute { &base[..] } else { state.folders() };
        if folders.is_empty() {
            self.unclear(format!("where `{text}` lies depends on a folder nobody knows"));
            return vec![];
        }
        let folders = folders.to_vec();
        if self.goes_through_links(field, &folders) {
            self.unclear(format!("`{text}` may go through a link that is made before"));
        }
        let mut found = vec![];
        for workspace in &folders {
            let names = match &field.shape {
                Shape::Pattern(pattern) => {
                    glob::matches(pattern, workspace.cwd()).unwrap_or_default()
                }
                _ => vec![],
            };
            if names.is_empty() {
                if !field.is_known() && text.contains("..") {
                    self.unclear(format!("what `{text}` matches is only known when it runs"));
                }
                let stem = text[..text.find(['*', '?', '[']).unwrap_or(text.len())].to_owned();
                let folder = &stem[..stem.rfind('/').map_or(0, |at| at + 1)];
                let spelled = if field.is_known() { text } else { folder };
                found.extend(paths::touched_paths(
                    if spelled.is_empty() { "." } else { spelled },
                    workspace,
                ));
            }
            found.extend(names.iter().flat_map(|name| paths::touched_paths(name, workspace)));
        }
        found
    }

    /// True if a path leads through a link that the script created, as far as known.
    fn goes_through_links(&self, field: &Field, folders: &[Workspace]) -> bool {
        if self.links.is_empty() {
            return false;
        }
        !field.is_known()
            || folders.iter().any(|workspace| {
                let mut at = workspace.cwd().to_owned();
                Path::new(&field.text).components().any(|component| {
                    match component {
                        Component::ParentDir => _ = at.pop(),
                        Component::CurDir => {}
                        component => at.push(component),
                    }
                    self.links.contains(&at)
                })
            })
    }

    /// Changes to the folder that a word names, if it is known.
    pub(crate) fn go(&mut self, folder: &Field, state: &mut ShellState) {
        let paths = self.touched(folder, state);
        match folder.is_known() && !paths.is_empty() {
            true => state.go(Some(&paths)),
            false => state.go(None),
        }
    }
}

/// True if a text has constructs that the second parser misreads: here-documents, words over two
/// lines.
fn reads_apart(text: &str) -> bool {
    let joined = |(at, _): (usize, &str)| !text[..at].ends_with([' ', '\t']);
    text.contains("<<") || text.match_indices("\\\n").any(joined)
}

/// A path in a repository without links: `..` removes the name before it.
fn without_dots(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = tidy.pop(),
            Component::CurDir => {}
            part => tidy.push(part),
        }
    }
    tidy
}

/// The names in a folder; empty for a file.
fn names_in(path: &Path) -> Vec<std::ffi::OsString> {
    let within = path.read_dir().into_iter().flatten().flatten().take(MOST);
    within.map(|entry| entry.file_name()).collect()
}

fn is_shell(name: &str) -> bool {
    name.ends_with("sh")
}

/// True if every shell reads a text as bash does: words, quotes and the plainest operators.
fn is_common(text: &str, shell: &str) -> bool {
    let odd = match shell {
        "sh" | "dash" | "ash" => &[
            "$'", "$\"", "&>", ">&", "|&", "<<<", "<(", ">(", "((", "[[", "{", "function", ";&",
            "~+",
        ][..],
        _ => &[
            "$", "`", "<", "&>", ">&", "|&", "(", "[", "{", "*", "?", "~", "=", "^", "#", "!",
            "\\", "function",
        ][..],
    };
    let copies = text.replace("2>&1", "").replace(">&2", "");
    !odd.iter().any(|sign| copies.contains(sign))
}
