//! A second parser of command lines, with the grammar of another project.
//!
//! It continues after errors, so it finds commands in a text that our own parser gives up on. If
//! both parse a text but find different commands, the text counts as not understood. It makes too
//! many mistakes to be the first parser:
//!
//! - in `ls > a b` it takes both words for files;
//! - in `cd / && ls > a` it writes `a` in the start folder;
//! - the text after `<<EOF;` is an error for it.

use std::{cell::RefCell, collections::BTreeSet};

use tree_sitter::{Node as SyntaxNode, Parser, Tree};

use crate::shell::tree::{Node, Redirect, ShellWord, Simple, Value, WordPart};

/// The longest text with errors that is parsed, and the longest without: error recovery on a long
/// text takes seconds.
pub(crate) const MAX_SALVAGED: usize = 2 * 1024;
pub(crate) const MAX_COMPARED: usize = 8 * 1024;

/// The result of the second parser.
#[derive(Debug, Default)]
pub(crate) struct SecondParse {
    /// Commands as plain words.
    pub commands: Vec<Vec<String>>,
    /// Names of commands, as written.
    names: BTreeSet<String>,
}

thread_local! {
    /// Cached: its setup is too slow for every command.
    static PARSER: RefCell<Option<Parser>> = RefCell::new({
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok().map(|()| parser)
    });
}

/// Parses a text, unless it is too long. The tree is walked without recursion.
pub(crate) fn read(text: &str, longest: usize) -> SecondParse {
    let mut second = SecondParse::default();
    let tree = if text.len() <= longest { tree_of(text) } else { None };
    let Some(tree) = tree else { return second };
    let mut cursor = tree.walk();
    loop {
        if cursor.node().kind() == "command" {
            second.command(cursor.node(), text);
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return second;
            }
        }
    }
}

fn tree_of(text: &str) -> Option<Tree> {
    PARSER.with_borrow_mut(|parser| parser.as_mut()?.parse(text, None))
}

impl SecondParse {
    fn command(&mut self, node: SyntaxNode<'_>, text: &str) {
        let mut words = vec![];
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            let source = &text[child.byte_range()];
            match child.kind() {
                "command_name" => {
                    self.names.insert(source.to_owned());
                    words.push(source.trim_matches(['\'', '"']).replace('\\', ""));
                }
                "word" | "number" => words.push(source.replace('\\', "")),
                "raw_string" | "string" => words.push(source.trim_matches(['\'', '"']).to_owned()),
                _ => {}
            }
        }
        let named = words.first().is_some_and(|name| !name.is_empty());
        if named && self.commands.len() < 200 {
            self.commands.push(words);
        }
    }

    /// The doubt if this result has a command that our tree lacks; `None` if they agree.
    pub(crate) fn difference(&self, ours: &Node) -> Option<String> {
        let mut own_names = BTreeSet::new();
        names(ours, &mut own_names);
        // Reserved words; the second parser takes them for names of commands.
        own_names.extend(["time", "{", "}", "!"]);
        let extra = self.names.iter().find(|name| !own_names.contains(name.as_str()))?;
        Some(format!("whether `{extra}` is a command here can be read in two ways"))
    }
}

/// The words of a tree that could be a command's name. For commands that may run another, such as
/// `time` or `!`, every word counts.
fn names<'t>(node: &'t Node, own_names: &mut BTreeSet<&'t str>) {
    let mut pending = vec![node];
    while let Some(node) = pending.pop() {
        match node {
            Node::Simple(simple) => of_simple(simple, &mut pending, own_names),
            Node::Sequence(nodes) | Node::Pipeline(nodes) => pending.extend(nodes),
            Node::Chain(first, links) => {
                pending.push(first);
                pending.extend(links.iter().map(|(_, node)| node));
            }
            Node::Not(inner) | Node::Background(inner) | Node::Subshell(inner) => {
                pending.push(inner)
            }
            Node::Redirected(inner, redirects) => {
                pending.push(inner);
                redirects.iter().for_each(|redirect| of_redirect(redirect, &mut pending));
            }
            Node::If(arms, otherwise) => {
                pending.extend(arms.iter().flat_map(|(condition, body)| [condition, body]));
                pending.extend(otherwise.as_deref());
            }
            Node::While(condition, body) => pending.extend([&**condition, &**body]),
            Node::For { words, body, .. } => {
                of_words(words.iter().flatten(), &mut pending);
                pending.push(body);
            }
            Node::Repeat { body, .. } => pending.push(body),
            Node::Case { words, bodies } => {
                of_words(words, &mut pending);
                pending.extend(bodies);
            }
            Node::Function(_, body) => pending.push(body),
            Node::Test(words) => of_words(words, &mut pending),
            Node::Arithmetic { within, .. } => pending.extend(within),
        }
    }
}

fn of_simple<'t>(
    simple: &'t Simple,
    pending: &mut Vec<&'t Node>,
    own_names: &mut BTreeSet<&'t str>,
) {
    own_names.extend(simple.words.iter().take(1).map(|word| word.source.as_str()));
    of_words(&simple.words, pending);
    for assign in &simple.assigns {
        match &assign.value {
            Value::Word(word) => of_words([word], pending),
            Value::List(words) => of_words(words, pending),
        }
    }
    simple.redirects.iter().for_each(|redirect| of_redirect(redirect, pending));
}

fn of_redirect<'t>(redirect: &'t Redirect, pending: &mut Vec<&'t Node>) {
    match redirect {
        Redirect::From(word) | Redirect::To(word) | Redirect::Both(word) => {
            of_words([word], pending)
        }
        Redirect::Text(body) => of_words(body.get(), pending),
        Redirect::Copy => {}
    }
}

fn of_words<'t>(words: impl IntoIterator<Item = &'t ShellWord>, pending: &mut Vec<&'t Node>) {
    for piece in words.into_iter().flat_map(|word| &word.pieces) {
        match piece {
            WordPart::Open { within, .. } => pending.extend(within),
            WordPart::Process(node) => pending.push(node),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::parse::parse_within;

    fn check(text: &str, differs: bool) {
        let ours = parse_within(text, 0);
        assert_eq!(ours.error, None, "{text}");
        assert_eq!(read(text, MAX_COMPARED).difference(&ours.node).is_some(), differs, "{text}");
    }

    #[test]
    fn both_parsers_find_the_same_commands() {
        check("ls -la && (cat a | wc) ; echo $(git log) `date`", false);
        check("for f in *; do rm \"$f\"; done; if a; then b; fi; case x in a) c;; esac", false);
        check("cat <<EOF | sort\n$(ls)\nEOF\n", false);
        check("f() { a; }; f > out 2>&1 &", false);
    }

    #[test]
    fn second_parser_finds_commands_of_broken_scripts() {
        let commands = read("rm -rf /; if then", MAX_SALVAGED).commands;
        assert_eq!(commands.first(), Some(&vec!["rm".to_owned(), "-rf".into(), "/".into()]));
    }
}
