//! A bash script as a syntax tree, before any evaluation.

use std::{borrow::Cow, cell::OnceCell, rc::Rc};

/// A script, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// Words, assignments and redirections.
    Simple(Simple),
    /// Commands one after the other, whatever their results.
    Sequence(Vec<Node>),
    /// `a && b || c`, in written order: both operators have the same precedence.
    Chain(Box<Node>, Vec<(ListOperator, Node)>),
    /// `a | b`.
    Pipeline(Vec<Node>),
    /// `! a`.
    Not(Box<Node>),
    /// `a &`.
    Background(Box<Node>),
    /// `( a )`.
    Subshell(Box<Node>),
    /// `{ a; }` and every other compound command with redirections.
    Redirected(Box<Node>, Vec<Redirect>),
    /// Conditions with their bodies, and the `else` body.
    If(Vec<(Node, Node)>, Option<Box<Node>>),
    /// `while` and `until`: the condition, then the body.
    While(Box<Node>, Box<Node>),
    /// `for name in words` and `select name in words`. Without `in` the words are the arguments.
    For { name: String, words: Vec<ShellWord>, body: Box<Node> },
    /// `for ((…))`: its doubt, and a body that runs repeatedly.
    ForNumber { doubt: String, body: Box<Node> },
    /// `case word in`: the word, all patterns, all bodies.
    Case { words: Vec<ShellWord>, bodies: Vec<Node> },
    /// A function's definition.
    Function(String, Rc<Node>),
    /// `[[ … ]]`: its words, operators among them.
    Test(Vec<ShellWord>),
    /// `(( … ))`: its doubt, and commands within.
    Arithmetic { doubt: Option<String>, within: Vec<Node> },
}

/// The operator between two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListOperator {
    And,
    Or,
}

/// A simple command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Simple {
    /// Assignments before the command, or those of `export` and similar commands.
    pub assigns: Vec<Assign>,
    pub words: Vec<ShellWord>,
    pub redirects: Vec<Redirect>,
    /// The commands that `eval` or `trap` gets as literal text.
    pub evaluated: Option<Box<Script>>,
}

/// The commands parsed before an error, and the error.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Script {
    pub nodes: Vec<Node>,
    pub error: Option<String>,
}

/// `name=value`, `name+=value`, `name[subscript]=value`, `name=(…)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assign {
    pub name: String,
    pub subscript: Option<String>,
    pub append: bool,
    pub value: Value,
}

/// The assigned value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Word(ShellWord),
    List(Vec<ShellWord>),
}

/// A redirection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Redirect {
    /// From a file.
    From(ShellWord),
    /// To a file: `>`, `>>`, `>|`, `&>`, `&>>`, `>& file`.
    To(ShellWord),
    /// Both ways: `<>`.
    Both(ShellWord),
    /// `2>&1`: no file is named.
    Copy,
    /// `<&3`, `<&-`: the input is another one.
    CopyInput,
    /// A here-string, or a here-document, whose text follows later. True if it is the input.
    Text(Rc<OnceCell<ShellWord>>, bool),
}

/// A word in parts, and as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShellWord {
    pub source: String,
    pub pieces: Vec<WordPart>,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WordPart {
    /// Literal characters.
    Quoted(String),
    /// Characters without quotes: patterns, braces and `~` are expanded.
    Bare(String),
    /// `$name`, `${name}`, `$1`, `$@`, `${name[@]}` (as `name[@]`).
    Variable { name: String, quoted: bool },
    /// A part known only at run time: the output of commands, and expansions that change a value.
    Open { within: Vec<Node>, doubt: Option<String>, quoted: bool },
    /// `<(…)` and `>(…)`: a file name that is not a file.
    Process(Node),
}

impl ShellWord {
    /// The word if it is only bare text: it may then be a reserved word.
    pub(crate) fn bare(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [WordPart::Bare(text)] => Some(text),
            _ => None,
        }
    }

    /// The text of the word, if no part of it is expanded.
    pub(crate) fn literal(&self) -> Option<Cow<'_, str>> {
        match self.pieces.as_slice() {
            [part] => literal_part(part).map(Cow::Borrowed),
            parts => parts.iter().map(literal_part).collect::<Option<String>>().map(Cow::Owned),
        }
    }
}

/// The text of a part that is not expanded.
fn literal_part(part: &WordPart) -> Option<&str> {
    match part {
        WordPart::Quoted(text) => Some(text),
        WordPart::Bare(text) => (!text.contains(['*', '?', '[', '{', '~'])).then_some(text),
        _ => None,
    }
}

impl Simple {
    /// The words from the name on, without `command` and `builtin` before it: they change which names
    /// count, not what a builtin does to the shell.
    pub(crate) fn words_of_builtin(&self) -> &[ShellWord] {
        let mut words = self.words.as_slice();
        while let Some((first, rest)) = words.split_first() {
            if !matches!(first.literal().as_deref(), Some("command" | "builtin")) {
                break;
            }
            let is_option =
                |word: &&ShellWord| matches!(word.literal().as_deref(), Some("-p" | "--"));
            words = &rest[rest.iter().take_while(is_option).count()..];
        }
        words
    }
}

/// How a node runs, as seen from the node that contains it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Nesting {
    /// In the same shell.
    SameShell,
    /// In a shell of its own, whose changes nobody else sees.
    OwnShell,
    /// Later, if at all: the body of a function, the text of a trap.
    Later,
}

impl Node {
    /// Visits every node directly below this one.
    pub(crate) fn each_child<'t>(&'t self, visit: &mut impl FnMut(&'t Node, Nesting)) {
        match self {
            Node::Simple(simple) => simple.each_child(visit),
            Node::Sequence(nodes) => nodes.iter().for_each(|node| visit(node, Nesting::SameShell)),
            Node::Pipeline(nodes) => nodes.iter().for_each(|node| visit(node, Nesting::OwnShell)),
            Node::Chain(first, links) => {
                visit(first, Nesting::SameShell);
                links.iter().for_each(|(_, node)| visit(node, Nesting::SameShell));
            }
            Node::Not(inner) => visit(inner, Nesting::SameShell),
            Node::Background(inner) | Node::Subshell(inner) => visit(inner, Nesting::OwnShell),
            Node::Redirected(inner, redirects) => {
                visit(inner, Nesting::SameShell);
                redirects.iter().for_each(|redirect| redirect.each_child(visit));
            }
            Node::If(arms, otherwise) => {
                for (condition, body) in arms {
                    visit(condition, Nesting::SameShell);
                    visit(body, Nesting::SameShell);
                }
                otherwise.iter().for_each(|node| visit(node, Nesting::SameShell));
            }
            Node::While(condition, body) => {
                visit(condition, Nesting::SameShell);
                visit(body, Nesting::SameShell);
            }
            Node::For { words, body, .. } => {
                each_in_words(words, visit);
                visit(body, Nesting::SameShell);
            }
            Node::ForNumber { body, .. } => visit(body, Nesting::SameShell),
            Node::Case { words, bodies } => {
                each_in_words(words, visit);
                bodies.iter().for_each(|node| visit(node, Nesting::SameShell));
            }
            Node::Function(_, body) => visit(body, Nesting::Later),
            Node::Test(words) => each_in_words(words, visit),
            Node::Arithmetic { within, .. } => {
                within.iter().for_each(|node| visit(node, Nesting::OwnShell));
            }
        }
    }
}

impl Simple {
    fn each_child<'t>(&'t self, visit: &mut impl FnMut(&'t Node, Nesting)) {
        each_in_words(self.assigns.iter().flat_map(Assign::words), visit);
        each_in_words(&self.words, visit);
        self.redirects.iter().for_each(|redirect| redirect.each_child(visit));
        let name = self.words_of_builtin().first().and_then(ShellWord::literal);
        let nesting =
            if name.as_deref() == Some("trap") { Nesting::Later } else { Nesting::SameShell };
        let evaluated = self.evaluated.iter().flat_map(|script| &script.nodes);
        evaluated.for_each(|node| visit(node, nesting));
    }
}

impl Assign {
    /// The value, if it is literal text.
    pub(crate) fn literal(&self) -> Option<Cow<'_, str>> {
        match &self.value {
            Value::Word(word) => word.literal(),
            Value::List(_) => None,
        }
    }

    /// The words of the value.
    pub(crate) fn words(&self) -> &[ShellWord] {
        match &self.value {
            Value::Word(word) => std::slice::from_ref(word),
            Value::List(words) => words,
        }
    }
}

impl Redirect {
    /// The word that names the file or holds the text, once it is known.
    pub(crate) fn word(&self) -> Option<&ShellWord> {
        match self {
            Redirect::From(word) | Redirect::To(word) | Redirect::Both(word) => Some(word),
            Redirect::Text(body, _) => body.get(),
            Redirect::Copy | Redirect::CopyInput => None,
        }
    }

    fn each_child<'t>(&'t self, visit: &mut impl FnMut(&'t Node, Nesting)) {
        each_in_words(self.word(), visit);
    }
}

/// Visits the commands within words.
fn each_in_words<'t>(
    words: impl IntoIterator<Item = &'t ShellWord>,
    visit: &mut impl FnMut(&'t Node, Nesting),
) {
    for piece in words.into_iter().flat_map(|word| &word.pieces) {
        match piece {
            WordPart::Open { within, .. } => {
                within.iter().for_each(|node| visit(node, Nesting::OwnShell));
            }
            WordPart::Process(node) => visit(node, Nesting::OwnShell),
            _ => {}
        }
    }
}
