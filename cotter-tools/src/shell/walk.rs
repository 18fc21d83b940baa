//! Walks every command of a script, and collects what each would touch.
//!
//! The walk over-approximates: it takes every command that occurs anywhere in the text, and never concludes
//! that one does not run. Variables have no values. The only state it follows is the folder, through `cd` with
//! literal text in plain sequences: after `cd x && …` a command runs in `x`, after `cd x; …` in `x` or in the
//! old folder. Anything else that may change the folder makes it unknown.

use std::{
    borrow::Cow,
    collections::HashSet,
    path::{Path, PathBuf},
    rc::Rc,
};

use cotter::{
    Workspace,
    permission::{
        Zone,
        facts::{CommandWordKind, Doubt, Facts},
    },
};

use crate::shell::{
    below::{self, RecursiveRead},
    disk::DiskMemo,
    expand::{self, Field, KnownVariables},
    faults,
    folders::Folders,
    glob::GlobBudget,
    judge::{plain_words, verdict_of},
    names,
    parse::{self, Budget},
    programs,
    scan::Scan,
    tree::{ListOperator, Nesting, Node, Script, ShellWord, Simple, WordPart},
    wrappers::WrappedCommand,
};

/// The deepest nesting of scripts, groups and commands that run commands.
const MAX_DEPTH: usize = 70;
/// The most commands that are checked.
const MAX_COMMANDS: usize = 512;
/// The most words that are checked.
const MAX_WORDS: usize = 2048;
/// The most entries of folders that are looked at.
const MAX_ENTRIES: usize = 10_000;
/// The most doubts of one kind that are named.
const MAX_DOUBTS: usize = 10;
/// The most files to which the output of a group goes.
const MAX_OUTPUTS: usize = 16;
/// The most parts of paths that are resolved.
const MAX_PATH_PARTS: usize = 20_000;
/// The most patterns that are compared with file names.
const MAX_PATTERNS: usize = 64;

pub(crate) struct ScriptWalk<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) facts: Facts,
    /// The home folder, unless the environment of the current shell is unknown.
    home: Option<&'a str>,
    /// The findings in the text of the current shell.
    pub(crate) scan: Rc<Scan>,
    /// Functions of the current shell whose definition surely ran.
    settled: HashSet<String>,
    /// The number of the next pipeline, and that of the enclosing one.
    next_pipeline: u32,
    pipeline: Option<u32>,
    /// True if another command reads what the current one prints.
    pub(crate) is_captured: bool,
    depth: usize,
    budget: Rc<Budget>,
    commands_left: usize,
    words_left: usize,
    pub(crate) patterns_left: usize,
    pub(crate) globs_left: GlobBudget,
    pub(crate) path_parts_left: usize,
    pub(crate) entries_left: usize,
    /// The targets of the output of all commands.
    pub(crate) outputs: Vec<PathBuf>,
    /// Links that the script makes.
    pub(crate) links: HashSet<PathBuf>,
    /// Folders that were checked, with the way in which they are read.
    checked_folders: HashSet<(PathBuf, RecursiveRead)>,
    pub(crate) disk: DiskMemo,
    /// True if a command may run more than once, or at the same time as another.
    pub(crate) repeats: bool,
    /// True if a pattern is harmless only while no file has the name of an option.
    pub(crate) relies_on_names: bool,
}

/// The folders after success and after failure.
struct Outcome {
    ok: Folders,
    failed: Folders,
}

impl Outcome {
    fn same(folders: Folders) -> Self {
        Outcome { ok: folders.clone(), failed: folders }
    }
}

/// How a command is called, besides its words.
#[derive(Clone, Default)]
pub(crate) struct Call<'t> {
    pub number: u32,
    pub writes_to: Vec<PathBuf>,
    /// Its input, if known.
    pub input: Option<Field>,
    pub lookup: NameLookup,
    /// The commands in its words, if it is `eval` or `trap`.
    pub evaluated: Option<&'t Script>,
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
    /// A walk that knows of links which the script makes.
    pub(crate) fn new(workspace: &'a Workspace, links: HashSet<PathBuf>) -> Self {
        ScriptWalk {
            workspace,
            facts: Facts::zone(Zone::Safe),
            home: workspace.home().and_then(Path::to_str),
            scan: Rc::default(),
            settled: HashSet::new(),
            next_pipeline: 0,
            pipeline: None,
            is_captured: false,
            depth: 0,
            budget: Rc::default(),
            commands_left: MAX_COMMANDS,
            words_left: MAX_WORDS,
            patterns_left: MAX_PATTERNS,
            globs_left: GlobBudget::default(),
            path_parts_left: MAX_PATH_PARTS,
            entries_left: MAX_ENTRIES,
            outputs: vec![],
            links,
            checked_folders: HashSet::new(),
            disk: DiskMemo::default(),
            repeats: false,
            relies_on_names: false,
        }
    }

    /// Adds a doubt about the whole script.
    pub(crate) fn unclear(&mut self, why: impl Into<String>) {
        self.facts.zone = self.facts.zone.max(Zone::Build);
        self.doubt(Doubt::NotUnderstood(why.into()));
    }

    /// Adds a doubt about a word whose value is only known at run time.
    pub(crate) fn unknown(&mut self, why: impl Into<String>) {
        self.facts.zone = self.facts.zone.max(Zone::Build);
        self.doubt(Doubt::Unknown(why.into()));
    }

    pub(crate) fn doubt(&mut self, doubt: Doubt) {
        // Per kind: many doubts of one kind must not hide one of another.
        let is_same_kind =
            |other: &&Doubt| std::mem::discriminant(*other) == std::mem::discriminant(&doubt);
        let count = self.facts.doubts.iter().filter(is_same_kind).count();
        if count < MAX_DOUBTS && !self.facts.doubts.contains(&doubt) {
            self.facts.doubts.push(doubt);
        }
    }

    /// Walks the text of a shell that starts in one of these folders.
    pub(crate) fn shell(&mut self, text: &str, folders: &Folders) {
        let script = parse::parse_within(text, self.depth.min(50), &self.budget.clone());
        let scan = Rc::new(Scan::of(&script.nodes));
        for name in &scan.misnamed {
            self.unclear(format!("the function `{name}` has the name of a builtin"));
        }
        for (name, forks) in &scan.recursive {
            if *forks {
                self.facts.zone = Zone::Never;
                self.doubt(Doubt::Destructive(format!("`{name}` starts itself again and again")));
            }
            self.unclear(format!("the function `{name}` calls itself"));
        }
        self.repeats |= scan.repeats;
        let unknown = Folders::unknown();
        let folders = if scan.moves_in_traps { &unknown } else { folders };
        let saved = (std::mem::replace(&mut self.scan, scan), std::mem::take(&mut self.settled));
        let mut at = folders.clone();
        for node in &script.nodes {
            at = self.sequenced(node, &at);
            if faults::is_off(faults::ALL_COMMANDS) && is_jump(node) {
                break;
            }
            // A name with a slash may be a program all the same.
            if let Node::Function(name, _) = node
                && !name.contains('/')
            {
                self.settled.insert(name.clone());
            }
        }
        (self.scan, self.settled) = saved;
        if let Some(why) = script.error {
            self.unclear(why);
        }
    }

    /// Walks nodes that run here, one after the other.
    pub(crate) fn walk_in_place(&mut self, nodes: &[Node], folders: &Folders) -> Folders {
        let mut at = folders.clone();
        for node in nodes {
            at = self.sequenced(node, &at);
            if faults::is_off(faults::ALL_COMMANDS) && is_jump(node) {
                break;
            }
        }
        at
    }

    /// Walks a node of a sequence. Returns the folders for the next one.
    fn sequenced(&mut self, node: &Node, folders: &Folders) -> Folders {
        let Outcome { ok, failed } = self.node(node, folders);
        if faults::is_off(faults::OLD_FOLDER) { ok } else { ok.join(&failed) }
    }

    fn node(&mut self, node: &Node, folders: &Folders) -> Outcome {
        if self.depth >= MAX_DEPTH {
            self.unclear("it is nested deeper than can be checked");
            return Outcome::same(Folders::unknown());
        }
        self.depth += 1;
        let outcome = match node {
            Node::Simple(simple) => self.simple_node(node, simple, folders),
            Node::Chain(first, links) => self.chain(first, links, folders),
            Node::Sequence(nodes) => Outcome::same(self.walk_in_place(nodes, folders)),
            Node::Subshell(inner) | Node::Background(inner) => {
                self.node(inner, folders);
                Outcome::same(folders.clone())
            }
            Node::Pipeline(stages) => {
                self.pipeline(stages, folders);
                Outcome::same(folders.clone())
            }
            compound => {
                let may_move = self.scan.may_move(compound) && !faults::is_off(faults::GROUPS_MOVE);
                let inside = if may_move { Folders::unknown() } else { folders.clone() };
                self.compound(compound, &inside);
                Outcome::same(inside)
            }
        };
        self.depth -= 1;
        outcome
    }

    /// After `&&` a command runs only if those before it succeeded, after `||` only if one failed.
    fn chain(
        &mut self,
        first: &Node,
        links: &[(ListOperator, Node)],
        folders: &Folders,
    ) -> Outcome {
        let Outcome { mut ok, mut failed } = self.node(first, folders);
        for (operator, node) in links {
            match operator {
                ListOperator::And => {
                    let next = self.node(node, &ok);
                    ok = next.ok;
                    failed = failed.join(&next.failed);
                }
                ListOperator::Or => {
                    let next = self.node(node, &failed);
                    ok = ok.join(&next.ok);
                    failed = next.failed;
                }
            }
        }
        Outcome { ok, failed }
    }

    fn pipeline(&mut self, stages: &[Node], folders: &Folders) {
        let number = self.number();
        let saved = (self.pipeline.replace(number), std::mem::replace(&mut self.is_captured, true));
        for stage in stages {
            self.node(stage, folders);
        }
        (self.pipeline, self.is_captured) = saved;
    }

    /// Walks a node whose parts run in any order, any number of times.
    fn compound(&mut self, node: &Node, folders: &Folders) {
        match node {
            Node::Redirected(inner, redirects) => {
                let (writes_to, _) = self.redirects(redirects, folders);
                let outer = self.outputs.len();
                self.outputs.extend(writes_to);
                if self.outputs.len() > MAX_OUTPUTS {
                    // Every command in the group would name them all.
                    self.unclear("the output of a group goes to more files than can be checked");
                    self.outputs.truncate(MAX_OUTPUTS.max(outer));
                }
                self.node(inner, folders);
                self.outputs.truncate(outer);
                return;
            }
            Node::For { name, words, .. } => {
                self.check_assigned(name);
                self.walk_words(words, folders);
                let fields = self.expand(words, folders);
                self.mention_all(&fields, folders);
            }
            Node::ForNumber { doubt, .. } => self.unclear(doubt.clone()),
            Node::Case { words, .. } => self.walk_words(words, folders),
            Node::Test(words) => {
                self.walk_words(words, folders);
                self.test(words, folders);
            }
            Node::Arithmetic { doubt, within } => {
                if let Some(doubt) = doubt {
                    self.unclear(doubt.clone());
                }
                within.iter().for_each(|node| self.node_apart(node, folders));
            }
            Node::Function(_, body) => {
                // It runs wherever it is called.
                let moves = self.scan.moves && !faults::is_off(faults::BODIES_MOVE);
                let anywhere = if moves { Folders::unknown() } else { folders.clone() };
                self.node(body, &anywhere);
            }
            _ => {}
        }
        node.each_child(&mut |child, nesting| {
            if nesting == Nesting::SameShell {
                self.node(child, folders);
            }
        });
    }

    /// Walks a node apart from the current pipeline and its redirections. Something reads what it prints.
    fn node_apart(&mut self, node: &Node, folders: &Folders) {
        let pipeline = self.pipeline.take();
        let outputs = std::mem::take(&mut self.outputs);
        let is_captured = std::mem::replace(&mut self.is_captured, true);
        self.node(node, folders);
        (self.pipeline, self.outputs, self.is_captured) = (pipeline, outputs, is_captured);
    }

    /// Walks the commands within words, and collects their doubts.
    pub(crate) fn walk_words(&mut self, words: &[ShellWord], folders: &Folders) {
        for node in expand::within(words) {
            self.node_apart(node, folders);
        }
        for doubt in expand::doubts(words) {
            self.unclear(doubt.clone());
        }
    }

    /// Expands words. Words that cannot be expanded are unknown, with a doubt.
    fn expand(&mut self, words: &[ShellWord], folders: &Folders) -> Vec<Field> {
        let fields = expand::fields(words, self.known(folders)).unwrap_or_else(|why| {
            self.unclear(why);
            words.iter().map(|word| Field::open(word.source.clone())).collect()
        });
        let mut fields = fields;
        if !self.count_words(fields.len()) {
            // Whatever is said about the rest, a person is asked.
            fields.truncate(1);
        }
        fields
    }

    /// Counts words that are about to be checked. False: there are too many.
    pub(crate) fn count_words(&mut self, count: usize) -> bool {
        let left = self.words_left.checked_sub(count);
        self.words_left = left.unwrap_or(0);
        if left.is_none() {
            self.unclear("it has more words than can be checked");
        }
        left.is_some()
    }

    /// The variables whose values are known in these folders.
    pub(crate) fn known<'k>(&self, folders: &'k Folders) -> KnownVariables<'k>
    where
        'a: 'k,
    {
        let pwd = folders.only().filter(|_| !self.scan.moves);
        KnownVariables { home: self.home, pwd: pwd.and_then(|folder| folder.cwd().to_str()) }
    }

    /// Adds a doubt if a variable is set that later commands read.
    pub(crate) fn check_assigned(&mut self, name: &str) {
        if names::is_influential(name) {
            self.unclear(format!("`{name}=…` changes what later commands do"));
        }
        if name == "HOME" {
            self.home = None;
        }
    }

    /// The number of the pipeline of a command.
    fn number(&mut self) -> u32 {
        self.pipeline.unwrap_or_else(|| {
            self.next_pipeline += 1;
            self.next_pipeline - 1
        })
    }

    /// Walks a simple command. Follows `cd` with literal text.
    fn simple_node(&mut self, node: &Node, simple: &Simple, folders: &Folders) -> Outcome {
        let entered = self.simple(simple, folders);
        match entered {
            Some(entered) => Outcome { ok: entered, failed: folders.clone() },
            None if self.scan.may_move(node) => Outcome::same(Folders::unknown()),
            None => Outcome::same(folders.clone()),
        }
    }

    /// Records a simple command. Returns the folders that it enters, if it is a plain `cd`.
    fn simple(&mut self, simple: &Simple, folders: &Folders) -> Option<Folders> {
        if !self.count_command() {
            return None;
        }
        for assign in &simple.assigns {
            self.walk_words(assign.words(), folders);
        }
        self.walk_words(&simple.words, folders);
        let (writes_to, input) = self.redirects(&simple.redirects, folders);
        let call = Call {
            number: self.number(),
            writes_to,
            input,
            lookup: NameLookup::All,
            evaluated: simple.evaluated.as_deref(),
        };
        let Some(first) = simple.words.first() else {
            if !simple.redirects.is_empty() {
                self.add_command(vec![], Zone::Safe, &call);
            }
            self.assign_all(&simple.assigns, folders);
            return None;
        };
        let fields = self.expand(&simple.words, folders);
        if makes_several_words(first) {
            self.unclear(format!("the command `{}` is made by braces", first.source));
        }
        if first.bare().is_some_and(parse::is_declaration) {
            self.declare(&fields, &simple.assigns, folders, &call);
            return None;
        }
        self.assign_before_command(&simple.assigns, folders);
        self.command(fields, folders, &call)
    }

    fn count_command(&mut self) -> bool {
        let left = self.commands_left.checked_sub(1);
        match left {
            Some(left) => self.commands_left = left,
            None => self.unclear("it runs more commands than can be checked"),
        }
        left.is_some()
    }

    /// Records a command with its words: a function, builtin or program. Returns the folders that it enters,
    /// if it is a plain `cd`.
    pub(crate) fn command(
        &mut self,
        fields: Vec<Field>,
        folders: &Folders,
        call: &Call<'_>,
    ) -> Option<Folders> {
        let name = fields.first()?;
        let Some(name) = name.literal().map(str::to_owned) else {
            if !faults::is_off(faults::LITERAL_NAMES) {
                self.unclear(format!("`{}` is only known when it runs", name.text));
            }
            let words = plain_words(&fields).into_iter();
            let open = |(field, kind): (Field, CommandWordKind)| {
                let kind = if field.is_known() { kind } else { CommandWordKind::RuntimeValue };
                (field, kind)
            };
            let zone = if faults::is_off(faults::LITERAL_NAMES) { Zone::Safe } else { Zone::Build };
            self.add_command(words.map(open).collect(), zone, call);
            self.mention_all(&fields, folders);
            return None;
        };
        if call.lookup == NameLookup::All && self.is_surely_function(&name) {
            self.mention_all(&fields[1..], folders);
            self.add_command(plain_words(&fields), Zone::Safe, call);
            return None;
        }
        if call.lookup != NameLookup::Program {
            if name == "cd" {
                return self.cd(&fields, folders, call);
            }
            if self.builtin(&name, &fields, folders, call) {
                return None;
            }
        }
        self.program(&fields, folders, call);
        None
    }

    /// True if a name can only be a function: its definition stands before, at the top of the text. A trap may
    /// run before that.
    fn is_surely_function(&self, name: &str) -> bool {
        !self.scan.has_traps && self.settled.contains(name)
    }

    /// Records a program, and the commands it runs.
    fn program(&mut self, fields: &[Field], folders: &Folders, call: &Call<'_>) {
        let mut verdict = verdict_of(fields);
        if self.is_link_to_own_program(&fields[0], folders) {
            programs::own_program(fields, &mut verdict);
        }
        let mut inside = folders.clone();
        self.record_outer(&mut verdict, folders);
        let (words, mut effects) = verdict.into_parts();
        if let Some(folder) = &effects.folder {
            // The folder itself is relative to here; all other paths are relative to it.
            if let Some(at) = effects.reads.iter().position(|read| read == folder) {
                effects.reads.remove(at);
            }
            let zone = self.reads(folder, folders);
            self.facts.zone = self.facts.zone.max(zone);
            inside = self.entered(folder, folders);
        }
        let recursive_read = effects.recursive_read.take().map(|read| {
            let roots = inside.as_slice().iter().filter_map(|at| below::repository(at.cwd()));
            let starts = match read.whole_repository {
                true => roots.map(|root| Field::known(root.to_string_lossy())).collect(),
                false if effects.reads.is_empty() => {
                    effects.reads.push(Field::known("."));
                    effects.reads.clone()
                }
                false => effects.reads.clone(),
            };
            (read, starts)
        });
        let home = if effects.clears_environment { self.home.take() } else { None };
        let inner = self.record_effects(words, effects, &inside, call);
        let before = (self.facts.reads.len(), self.facts.writes.len(), self.facts.commands.len());
        let is_alone = inner.is_empty();
        self.all_inner(inner, &inside, call);
        self.home = self.home.or(home);
        let Some((mut read, starts)) = recursive_read else { return };
        read.follows_links &= is_alone || self.facts.reads.len() > before.0;
        // Code of the project may access any path: this is asked for, or confined.
        let runs_code = self.facts.commands[before.2..].iter().any(|c| c.zone >= Zone::Build);
        if !runs_code {
            let writes = self.facts.writes.len() > before.1;
            self.check_folders(&read, &starts, writes, &inside);
        }
    }

    /// Checks the folders that a command reads recursively.
    fn check_folders(
        &mut self,
        read: &RecursiveRead,
        starts: &[Field],
        writes: bool,
        folders: &Folders,
    ) {
        for start in starts.iter().filter(|field| !field.is_open()) {
            for path in self.touched(start, folders) {
                if !path.is_dir() || !self.workspace.is_readable(&path) {
                    continue;
                }
                // What was found the first time is in the facts.
                if !writes && !self.checked_folders.insert((path.clone(), read.clone())) {
                    continue;
                }
                let (disk, left) = (&mut self.disk, &mut self.entries_left);
                let below = below::check_folder(&path, read, self.workspace, disk, left);
                if below.is_truncated {
                    self.facts.zone = self.facts.zone.max(Zone::Build);
                    self.facts.possible_reads.unchecked.push(path.clone());
                }
                self.facts.possible_reads.files.extend(below.files);
                let outside: Vec<_> = below.outside.into_iter().take(3).collect();
                for path in &outside {
                    self.facts.zone = self.facts.zone.max(Zone::of_read(path, self.workspace));
                }
                self.facts.reads.extend(outside.into_iter().chain(below.secrets).take(50));
                if writes {
                    self.facts.writes.extend(below.protected.into_iter().take(50));
                }
            }
        }
    }

    fn all_inner(&mut self, inner: Vec<WrappedCommand>, folders: &Folders, call: &Call<'_>) {
        for inner in inner {
            if !self.count_command() {
                return;
            }
            if self.depth >= MAX_DEPTH {
                return self.unclear("it is nested deeper than can be checked");
            }
            self.depth += 1;
            self.inner(inner, folders, call);
            self.depth -= 1;
        }
    }

    /// True if a program given by its path is our own program, under any link name.
    fn is_link_to_own_program(&mut self, name: &Field, folders: &Folders) -> bool {
        name.text.contains('/')
            && self.touched(name, folders).iter().any(|path| path.ends_with(programs::OWN_NAME))
    }

    fn inner(&mut self, inner: WrappedCommand, folders: &Folders, call: &Call<'_>) {
        let inner_call = |lookup: NameLookup| Call { lookup, writes_to: vec![], ..call.clone() };
        match inner {
            WrappedCommand::Program(fields) | WrappedCommand::Command(fields)
                if !self.count_words(fields.len()) => {}
            WrappedCommand::Program(fields) => {
                self.command(fields, folders, &inner_call(NameLookup::Program));
            }
            WrappedCommand::Command(fields) => {
                self.command(fields, folders, &inner_call(NameLookup::Shell));
            }
            WrappedCommand::Script { shell, text } => match text.literal() {
                Some(script) => self.script(&shell, script, folders, call),
                None => self.unclear(format!("what `{shell} -c` runs is only known when it runs")),
            },
            WrappedCommand::Input { shell } => match call.input.as_ref().and_then(Field::literal) {
                // A program in another language: as much code as with `-c`.
                Some(_) if !is_shell(&shell) => {}
                Some(script) => self.script(&shell, script, folders, call),
                None => self.unclear(format!("`{shell}` runs what it reads")),
            },
        }
    }

    /// Walks a script that another shell runs.
    fn script(&mut self, shell: &str, text: &str, folders: &Folders, call: &Call<'_>) {
        if shell != "bash" && shell != "rbash" && !is_common(text, shell) {
            self.unclear(format!("`{shell}` may read it in another way than bash"));
        }
        let outer = self.pipeline.replace(call.number);
        self.shell(text, folders);
        self.pipeline = outer;
    }
}

fn is_jump(node: &Node) -> bool {
    let jumps = ["break", "continue", "return", "exit"];
    let first = |simple: &Simple| simple.words.first()?.literal().map(Cow::into_owned);
    matches!(node, Node::Simple(simple) if first(simple).is_some_and(|name| jumps.contains(&&*name)))
}

/// True if braces may make several words of one.
fn makes_several_words(word: &ShellWord) -> bool {
    word.pieces.iter().any(|part| matches!(part, WordPart::Bare(text) if text.contains('{')))
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
