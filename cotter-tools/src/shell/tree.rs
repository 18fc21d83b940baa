//! A bash script as a tree: what stands there, with nothing worked out yet.

use std::{cell::OnceCell, rc::Rc};

/// A script, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// Words, assignments and redirections.
    Simple(Simple),
    /// One after the other, whatever comes of each.
    Sequence(Vec<Node>),
    /// `a && b || c`, in the order it is written: both bind alike.
    Chain(Box<Node>, Vec<(ListOperator, Node)>),
    /// `a | b`.
    Pipeline(Vec<Node>),
    /// `! a`.
    Not(Box<Node>),
    /// `a &`.
    Background(Box<Node>),
    /// `( a )`.
    Subshell(Box<Node>),
    /// `{ a; }` and every other compound command with redirections behind it.
    Redirected(Box<Node>, Vec<Redirect>),
    /// Conditions with what follows each, and what follows when none holds.
    If(Vec<(Node, Node)>, Option<Box<Node>>),
    /// `while` and `until`: the condition, then the body.
    While(Box<Node>, Box<Node>),
    /// `for name in words`. Without `in` the words are the arguments.
    For { name: String, words: Option<Vec<ShellWord>>, body: Box<Node> },
    /// `select`, and `for ((…))`: a body that runs again and again with a name nobody knows the value of.
    Repeat { name: Option<String>, doubt: Option<String>, body: Box<Node> },
    /// `case word in`: the word, all patterns, all bodies.
    Case { words: Vec<ShellWord>, bodies: Vec<Node> },
    /// A function's definition.
    Function(String, Rc<Node>),
    /// `[[ … ]]`: its words, operators among them.
    Test(Vec<ShellWord>),
    /// `(( … ))`: what is doubtful about it, and commands within.
    Arithmetic { doubt: Option<String>, within: Vec<Node> },
}

/// How two commands hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListOperator {
    And,
    Or,
}

/// A simple command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Simple {
    /// What stands before the command, or what `export` and its like declare.
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

/// What is assigned.
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
    /// A here-string, or a here-document, whose text follows further down.
    Text(Rc<OnceCell<ShellWord>>),
}

/// A word in its pieces, and as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShellWord {
    pub source: String,
    pub pieces: Vec<WordPart>,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WordPart {
    /// Characters that mean themselves.
    Quoted(String),
    /// Characters without quotes: patterns, braces and `~` mean something.
    Bare(String),
    /// `$name`, `${name}`, `$1`, `$@`, `${name[@]}` (told as `name[@]`).
    Variable { name: String, quoted: bool },
    /// What only shows when it runs: the output of commands, and expansions that change a value.
    Open { within: Vec<Node>, doubt: Option<String>, quoted: bool },
    /// `<(…)` and `>(…)`: a file's name that is no file.
    Process(Node),
}

impl ShellWord {
    /// The word if it is bare text and nothing else: what may be a reserved word.
    pub(crate) fn bare(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [WordPart::Bare(text)] => Some(text),
            _ => None,
        }
    }
}
