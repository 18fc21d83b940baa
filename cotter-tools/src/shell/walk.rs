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
        facts::{CommandWord, CommandWordKind, Doubt, Facts, SimpleCommand},
    },
};

use crate::shell::{
    below::{self, RecursiveRead},
    command_verdict::{CommandVerdict, verdict_of},
    expand::{self, Field, Shape},
    glob, parse, programs, second_parser,
    state::{ShellState, VariableValue},
    tree::{ListOperator, Node, Redirect, ShellWord, Simple, Value},
    wrappers::WrappedCommand,
};

/// The deepest nesting of functions, scripts and groups.
const MAX_DEPTH: usize = 70;
/// The most commands that are checked.
const MAX_COMMANDS: usize = 1500;
/// The most rounds of a loop; then the state is unknown.
const MAX_ROUNDS: usize = 6;

pub(crate) struct ScriptWalk<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) facts: Facts,
    /// The number of the next pipeline, and that of the enclosing one.
    next_pipeline: u32,
    pipeline: Option<u32>,
    depth: usize,
    /// The number of commands so far.
    command_count: usize,
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
    pub(crate) loop_exits: Vec<ShellState>,
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
    pub lookup: NameLookup,
}

/// How a command's name is looked up.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum NameLookup {
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
            next_pipeline: 0,
            pipeline: None,
            depth: 0,
            command_count: 0,
            calls: vec![],
            locals: vec![],
            forks: 0,
            outputs: vec![],
            defined: vec![],
            links: vec![],
            traps: vec![],
            returns: vec![],
            loop_exits: vec![],
        }
    }

    /// Walks a whole command line, with its traps.
    pub(crate) fn walk_command_line(&mut self, command: &str) {
        let end = self.text(command, ShellState::new(self.workspace)).either();
        for trap in std::mem::take(&mut self.traps) {
            if let Some(end) = &end {
                self.text(&trap, end.at_later_point());
            }
        }
        // These were not called here, but a name may be called in ways that are not visible.
        while let Some((name, body, state)) = self.defined.pop() {
            self.calls.push((name, self.forks));
            self.run(&body, state.at_later_point());
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
        if self.depth >= MAX_DEPTH || self.command_count >= MAX_COMMANDS {
            self.unclear("it runs more commands than can be checked");
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
                self.run_in_subshell(inner, &state);
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
                    self.check_assigned(name);
                    state.set(name, VariableValue::Open);
                }
                self.repeat(state, |walk, entry| walk.run(body, entry).either())
            }
            Node::Case { words, bodies } => self.case(words, bodies, state),
            Node::Function(name, body) => {
                if name == "command_not_found_handle" {
                    self.unclear("`command_not_found_handle` runs for unknown commands");
                }
                let mut state = state;
                state.define(name, body.clone());
                self.defined.push((name.clone(), body.clone(), state.clone()));
                Outcome::same(state)
            }
            Node::Test(words) => {
                self.walk_words(words.iter(), &state);
                self.test(words, &state);
                Outcome::same(state)
            }
            Node::Arithmetic { doubt, within } => {
                if let Some(doubt) = doubt {
                    self.unclear(doubt.clone());
                }
                within.iter().for_each(|node| self.run_apart(node, &state));
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
        let outer = self.pipeline;
        self.pipeline = Some(self.number());
        self.forks += 1;
        for stage in stages {
            self.run_in_subshell(stage, state);
        }
        self.forks -= 1;
        self.pipeline = outer;
        Outcome::same(state.clone())
    }

    fn forked(&mut self, inner: &Node, state: &ShellState) -> Outcome {
        self.forks += 1;
        self.run_in_subshell(inner, state);
        self.forks -= 1;
        Outcome::same(state.clone())
    }

    /// Runs a node in its own shell.
    fn run_in_subshell(&mut self, node: &Node, state: &ShellState) {
        let saved = (std::mem::take(&mut self.returns), std::mem::take(&mut self.loop_exits));
        self.run(node, state.clone());
        (self.returns, self.loop_exits) = saved;
    }

    /// Runs a node in its own shell, apart from the current pipeline and its redirections.
    pub(crate) fn run_apart(&mut self, node: &Node, state: &ShellState) {
        let saved = (self.pipeline.take(), std::mem::take(&mut self.outputs));
        self.run_in_subshell(node, state);
        (self.pipeline, self.outputs) = saved;
    }

    /// Walks the commands within words, and collects their doubts.
    fn walk_words<'w>(
        &mut self,
        words: impl Iterator<Item = &'w ShellWord> + Clone,
        state: &ShellState,
    ) {
        for node in expand::within(words.clone()) {
            self.run_apart(node, state);
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
        self.walk_words(words.iter(), &state);
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
        let outer = std::mem::take(&mut self.loop_exits);
        let mut entry = state;
        for index in 0..=MAX_ROUNDS {
            let mark = self.mark();
            let mut after = round(self, entry.clone());
            for escape in std::mem::take(&mut self.loop_exits) {
                after = join(after, Some(escape));
            }
            let joined = join(Some(entry.clone()), after).unwrap_or_else(|| entry.clone());
            if joined.is_equal(&entry) {
                break;
            }
            if index == MAX_ROUNDS {
                self.unclear("a loop changes something again and again");
                break;
            }
            self.rewind(mark);
            entry = joined;
        }
        self.loop_exits = outer;
        Outcome::same(entry)
    }

    fn each(
        &mut self,
        name: &str,
        words: Option<&[ShellWord]>,
        body: &Node,
        state: ShellState,
    ) -> Outcome {
        self.check_assigned(name);
        let items = match words {
            None => match state.arguments() {
                VariableValue::Known(items) => items,
                VariableValue::Open => vec![Field::open("$@")],
            },
            Some(words) => {
                self.walk_words(words.iter(), &state);
                match expand::fields(words, &state) {
                    Ok(items) => items,
                    Err(why) => {
                        self.unclear(why);
                        vec![Field::open("…")]
                    }
                }
            }
        };
        let is_known = items.len() <= 16 && !items.iter().any(Field::is_open);
        let values = match is_known {
            true => items.into_iter().map(|item| VariableValue::Known(vec![item])).collect(),
            false => vec![VariableValue::Open],
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

    /// Adds a doubt if a variable is set that later commands read.
    pub(crate) fn check_assigned(&mut self, name: &str) {
        if crate::shell::names::is_influential(name) {
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
        self.pipeline.unwrap_or_else(|| {
            self.next_pipeline += 1;
            self.next_pipeline - 1
        })
    }

    fn simple(&mut self, simple: &Simple, state: ShellState) -> Outcome {
        self.command_count += 1;
        let values = simple.assigns.iter().flat_map(|assign| match &assign.value {
            Value::Word(word) => std::slice::from_ref(word),
            Value::List(words) => words.as_slice(),
        });
        self.walk_words(values, &state);
        self.walk_words(simple.words.iter(), &state);
        let (writes_to, input) = self.redirects(&simple.redirects, &state);
        let number = self.number();
        let call = Call { number, writes_to, input, lookup: NameLookup::All };
        if simple.words.is_empty() {
            if !simple.redirects.is_empty() {
                self.add_command(vec![], Zone::Safe, &call);
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
                let kind = if field.is_known() { kind } else { CommandWordKind::RuntimeValue };
                (field, kind)
            };
            self.add_command(words.map(open).collect(), Zone::Build, call);
            return Outcome::same(state);
        };
        if call.lookup == NameLookup::All {
            match state.function(&name) {
                Some(Some(body)) => return self.function(&name, &body, &fields, state, call),
                Some(None) => self.unclear(format!("which function `{name}` is, is not known")),
                None => {}
            }
        }
        if call.lookup != NameLookup::Program
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
        self.add_command(crate::shell::command_verdict::plain_words(fields), Zone::Safe, call);
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
            true => VariableValue::Open,
            false => VariableValue::Known(fields[1..].to_vec()),
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
        locals.iter().for_each(|name| after.set(name, VariableValue::Open));
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
        let mut verdict = verdict_of(fields);
        if self.is_link_to_own_program(&fields[0], state) {
            programs::own_program(programs::OWN_NAME, fields, &mut verdict);
        }
        let mut inner_state = state.clone();
        if let Some(folder) = &verdict.folder {
            // The folder itself is relative to here; all other paths are relative to it.
            if let Some(at) = verdict.reads.iter().position(|read| read == folder) {
                verdict.reads.remove(at);
            }
            let zone = self.reads(folder, state);
            self.facts.zone = self.facts.zone.max(zone);
            self.enter_folder(folder, &mut inner_state);
        }
        let recursive_read =
            verdict.recursive_read.take().map(|read| (read, verdict.reads.clone()));
        let inner = self.record(verdict, &inner_state, call);
        let saved = (
            std::mem::take(&mut self.facts.reads),
            std::mem::take(&mut self.facts.writes),
            self.facts.commands.len(),
        );
        let alone = inner.is_empty();
        self.all_inner(inner, &inner_state, call);
        let reads = std::mem::replace(&mut self.facts.reads, saved.0);
        let writes = std::mem::replace(&mut self.facts.writes, saved.1);
        if let Some((mut read, mut folders)) = recursive_read {
            if folders.is_empty() {
                folders.push(Field::known("."));
            }
            read.follows_links &= alone || !reads.is_empty();
            // Code of the project may access any path: this is asked for, or confined.
            let code = self.facts.commands[saved.2..].iter().any(|c| c.zone >= Zone::Build);
            if !code {
                self.check_folders(&read, &folders, !writes.is_empty(), &inner_state);
            }
        }
        let is_new = |paths: &[PathBuf], path: &PathBuf| !paths.contains(path);
        let reads = reads.into_iter().filter(|path| is_new(&self.facts.reads, path));
        self.facts.reads.extend(reads.collect::<Vec<_>>());
        let writes = writes.into_iter().filter(|path| is_new(&self.facts.writes, path));
        self.facts.writes.extend(writes.collect::<Vec<_>>());
    }

    /// Checks the folders that a command reads recursively.
    fn check_folders(
        &mut self,
        read: &RecursiveRead,
        folders: &[Field],
        writes: bool,
        state: &ShellState,
    ) {
        for folder in folders.iter().filter(|field| !field.is_open()) {
            for path in self.touched(folder, state) {
                if !path.is_dir() || !self.workspace.is_readable(&path) {
                    continue;
                }
                let below = below::check_folder(&path, read, self.workspace);
                if below.is_truncated {
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
            self.command_count += 1;
            if self.depth >= MAX_DEPTH || self.command_count >= MAX_COMMANDS {
                self.unclear("it runs more commands than can be checked");
                return;
            }
            self.depth += 1;
            self.inner(inner, inner_state, call);
            self.depth -= 1;
        }
    }

    /// True if a program given by its path is our own program, under any link name.
    fn is_link_to_own_program(&mut self, name: &Field, state: &ShellState) -> bool {
        name.text.contains('/')
            && self.touched(name, state).iter().any(|path| path.ends_with(programs::OWN_NAME))
    }

    fn inner(&mut self, inner: WrappedCommand, state: &ShellState, call: &Call) {
        let inner_call = |lookup: NameLookup| Call { lookup, writes_to: vec![], ..call.clone() };
        match inner {
            WrappedCommand::Program(fields) => {
                _ = self.command(fields, state.clone(), &inner_call(NameLookup::Program))
            }
            WrappedCommand::Command(fields) => {
                _ = self.command(fields, state.clone(), &inner_call(NameLookup::Shell))
            }
            WrappedCommand::Here(fields) => {
                _ = self.command(fields, state.clone(), &inner_call(NameLookup::All))
            }
            WrappedCommand::Script { shell, text, arguments } => match text.literal() {
                Some(script) => {
                    let outer = self.pipeline.replace(call.number);
                    self.script(&shell, script, state.for_new_shell(arguments));
                    self.pipeline = outer;
                }
                None => self.unclear(format!("what `{shell} -c` runs is only known when it runs")),
            },
            WrappedCommand::Input { shell } => match call.input.as_ref().and_then(Field::literal) {
                // A program in another language: as much code as with `-c`.
                Some(_) if !is_shell(&shell) => {}
                Some(script) => {
                    let script = script.to_owned();
                    self.script(&shell, &script, state.for_new_shell(vec![]));
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
        let saved = (std::mem::take(&mut self.returns), std::mem::take(&mut self.loop_exits));
        self.text(text, state);
        (self.returns, self.loop_exits) = saved;
    }

    /// Parses a text as commands, and runs them.
    pub(crate) fn text(&mut self, text: &str, state: ShellState) -> Outcome {
        let script = parse::parse_within(text, self.depth.min(50));
        let outcome = self.run(&script.node, state.clone());
        if let Some(why) = script.error {
            self.unclear(why);
            // A text with errors may still run in part: its commands count as far as they are
            // found.
            for words in second_parser::read(text, second_parser::MAX_SALVAGED).commands {
                let call =
                    Call { number: self.number(), lookup: NameLookup::Shell, ..Call::default() };
                self.command(words.into_iter().map(Field::known).collect(), state.clone(), &call);
            }
        } else if !second_parser_misreads(text)
            && let Some(why) =
                second_parser::read(text, second_parser::MAX_COMPARED).difference(&script.node)
        {
            self.unclear(why);
        }
        outcome
    }

    /// Records what a command touches. Returns the commands it runs.
    pub(crate) fn record(
        &mut self,
        verdict: CommandVerdict,
        state: &ShellState,
        call: &Call,
    ) -> Vec<WrappedCommand> {
        let mut zone = verdict.zone;
        for field in &verdict.reads {
            zone = zone.max(self.reads(field, state));
        }
        for field in &verdict.history_reads {
            zone = zone.max(self.read_history(field, state));
        }
        for field in &verdict.writes {
            zone = zone.max(self.writes(field, state).0);
        }
        zone = zone.max(self.copies(&verdict, state));
        for field in &verdict.removes {
            zone = zone.max(self.removal(field, state));
        }
        for host in verdict.hosts {
            if !self.facts.hosts.contains(&host) {
                self.facts.hosts.push(host);
            }
        }
        for doubt in verdict.doubts {
            if matches!(doubt, Doubt::NotUnderstood(_)) {
                zone = zone.max(Zone::Build);
            }
            self.doubt(doubt);
        }
        for why in verdict.minor_doubts {
            self.doubt(Doubt::NotUnderstood(why));
        }
        self.add_command(verdict.words, zone, call);
        verdict.inner
    }

    /// A file from a repository's history. Its path there is the path it has outside; git shows no
    /// other.
    fn read_history(&mut self, field: &Field, state: &ShellState) -> Zone {
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
    fn copies(&mut self, verdict: &CommandVerdict, state: &ShellState) -> Zone {
        let mut zone = Zone::Safe;
        let sources: Vec<_> =
            verdict.copied.iter().flat_map(|field| self.touched(field, state)).collect();
        for into in &verdict.into {
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
            if verdict.links || sources.iter().any(|source| self.may_hold_links(source)) {
                self.links.extend(targets);
            }
        }
        zone
    }

    /// True if a link may be at a path, or below it.
    fn may_hold_links(&self, path: &Path) -> bool {
        let mut left = vec![path.to_owned()];
        for _ in 0..MAX_COMMANDS {
            let Some(path) = left.pop() else { return false };
            match path.symlink_metadata() {
                Ok(metadata) if metadata.is_symlink() => return true,
                Ok(metadata) if metadata.is_dir() => {
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
    pub(crate) fn add_command(
        &mut self,
        words: Vec<(Field, CommandWordKind)>,
        zone: Zone,
        call: &Call,
    ) {
        let words =
            words.into_iter().map(|(field, kind)| CommandWord { text: field.text, kind }).collect();
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
            self.walk_words(std::iter::once(word), state);
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
        let written = field.text.trim_matches('"').trim_end_matches(['/', '*']);
        let unknown_home =
            field.is_open() && matches!(written, "~" | "$HOME" | "${HOME}" | "~root");
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
            self.unclear(format!("where `{text}` lies depends on an unknown folder"));
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
                let written = if field.is_known() { text } else { folder };
                found.extend(paths::touched_paths(
                    if written.is_empty() { "." } else { written },
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
    pub(crate) fn enter_folder(&mut self, folder: &Field, state: &mut ShellState) {
        let paths = self.touched(folder, state);
        match folder.is_known() && !paths.is_empty() {
            true => state.enter_folder(Some(&paths)),
            false => state.enter_folder(None),
        }
    }
}

/// True if a text has constructs that the second parser misreads: here-documents, words over two
/// lines.
fn second_parser_misreads(text: &str) -> bool {
    let joined = |(at, _): (usize, &str)| !text[..at].ends_with([' ', '\t']);
    text.contains("<<") || text.match_indices("\\\n").any(joined)
}

/// A path in a repository without links: `..` removes the name before it.
fn without_dots(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = result.pop(),
            Component::CurDir => {}
            part => result.push(part),
        }
    }
    result
}

/// The names in a folder; empty for a file.
fn names_in(path: &Path) -> Vec<std::ffi::OsString> {
    let within = path.read_dir().into_iter().flatten().flatten().take(MAX_COMMANDS);
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
