//! A bash script as a syntax tree, before any evaluation.

use std::{cell::OnceCell, rc::Rc};

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
    /// `for name in words`. Without `in` the words are the arguments.
    For { name: String, words: Option<Vec<ShellWord>>, body: Box<Node> },
    /// `select`, and `for ((…))`: a body that runs repeatedly with a variable of unknown value.
    Repeat { name: Option<String>, doubt: Option<String>, body: Box<Node> },
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
    /// `2>&1`, `<&-`: no file is named.
    Copy,
    /// A here-string, or a here-document, whose text follows later.
    Text(Rc<OnceCell<ShellWord>>),
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
}
