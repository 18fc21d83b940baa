//! Every path in a file, with the definition it leads to.
//!
//! An imported item counts once, at its `use` line. A path through an imported module counts at each use.
//! Macro bodies and macro calls are read as tokens: each `a::b` in them is a path. A bare name is followed
//! only through a glob import, and only if it begins with a capital: others may be variables.

use std::mem;

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::{
    Attribute, Block, ImplItem, Item, ItemMod, ItemUse, LitStr, Macro, Meta, Path, Stmt, TraitItem,
    Visibility,
    visit::{self, Visit},
};

use super::modules::{Definition, Found, Modules, Place, Scope, leaves};
use crate::source_tree::{self, SourceFile};

/// A path that leads to an item or module of the crate.
pub(super) struct Mention {
    pub(super) line: usize,
    /// The module that contains the path.
    pub(super) module: Vec<String>,
    pub(super) target: Definition,
}

/// The paths of one file.
#[derive(Default)]
pub(super) struct Mentions {
    pub(super) found: Vec<Mention>,
    /// Lines and paths that begin with `crate`, `self` or `super` and lead to no item.
    pub(super) missing: Vec<(usize, String)>,
}

/// Reads the paths of one file.
pub(super) fn read(file: &SourceFile, modules: &Modules) -> Mentions {
    let module = file.module.clone();
    let mut reader = Reader { modules, module, blocks: Vec::new(), mentions: Mentions::default() };
    file.syntax.items.iter().for_each(|item| reader.visit_item(item));
    reader.mentions
}

struct Reader<'a> {
    modules: &'a Modules,
    module: Vec<String>,
    blocks: Vec<Scope>,
    mentions: Mentions,
}

/// The part of the language that a path was read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Tree,
    /// Tokens of a macro: not every sequence that looks like a path is one.
    Tokens,
}

impl Reader<'_> {
    fn place(&self) -> Place<'_> {
        Place { module: &self.module, blocks: &self.blocks }
    }

    /// Notes a path that is not part of a `use` line.
    fn note_path(&mut self, path: &[String], line: usize, syntax: Syntax) {
        let is_rooted = matches!(path[0].as_str(), "crate" | "self" | "super");
        let is_bare = path.len() == 1;
        if is_bare && !path[0].starts_with(char::is_uppercase) {
            return;
        }
        let imports = self.modules.find_imports(self.place(), &path[0]);
        let is_module = |found: &Found| match found {
            Found::Defined(definition) => definition.item.is_empty(),
            Found::Outside | Found::Missing => false,
        };
        let counts_at_its_import =
            !imports.is_empty() && (is_bare || !imports.iter().any(is_module));
        if is_rooted || !counts_at_its_import {
            self.note(path, line, syntax);
        }
    }

    fn note(&mut self, path: &[String], line: usize, syntax: Syntax) {
        match self.modules.find(self.place(), path) {
            Found::Defined(target) => {
                self.mentions.found.push(Mention { line, module: self.module.clone(), target });
            }
            Found::Missing if syntax == Syntax::Tree => {
                self.mentions.missing.push((line, path.join("::")));
            }
            Found::Outside | Found::Missing => {}
        }
    }

    /// Reads the paths in tokens. `prefix` is the path before the braces of a grouped `use`.
    fn read_tokens(&mut self, tokens: TokenStream, prefix: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.read_tokens(group.stream(), &[]),
                TokenTree::Ident(first) if begins_path(&tokens[..at], first, prefix) => {
                    let (path, end) = path_at(&tokens, at);
                    at = end;
                    let path = match path {
                        path if path == ["self"] && !prefix.is_empty() => prefix.to_vec(),
                        path => [prefix, &path].concat(),
                    };
                    match tokens.get(end + 1..).and_then(braces_of_use) {
                        Some(group) => {
                            self.read_tokens(group, &path);
                            at += 3;
                        }
                        None => self.note_path(&path, first.span().start().line, Syntax::Tokens),
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !source_tree::is_test(source_tree::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let is_test = match item {
            ImplItem::Const(item) => source_tree::is_test(&item.attrs),
            ImplItem::Fn(item) => source_tree::is_test(&item.attrs),
            _ => false,
        };
        if !is_test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let is_test = matches!(item, TraitItem::Fn(item) if source_tree::is_test(&item.attrs));
        if !is_test {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let Some((_, items)) = &item.content else { return };
        let blocks = mem::take(&mut self.blocks);
        self.module.push(item.ident.to_string());
        items.iter().for_each(|item| self.visit_item(item));
        self.module.pop();
        self.blocks = blocks;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            for leaf in leaves(&item.tree) {
                self.note(&leaf.path, leaf.line, Syntax::Tree);
            }
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let items = block.stmts.iter().filter_map(|statement| match statement {
            Stmt::Item(item) => Some(item),
            _ => None,
        });
        self.blocks.push(Scope::of(items));
        visit::visit_block(self, block);
        self.blocks.pop();
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            let segments: Vec<String> =
                path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let line = path.segments[0].ident.span().start().line;
            self.note_path(&segments, line, Syntax::Tree);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.read_tokens(call.tokens.clone(), &[]);
    }

    /// Reads paths, in strings too: `#[serde(with = "crate::text")]`. Doc comments do not count.
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.read_tokens(list.tokens.clone(), &[]);
            for token in list.tokens.clone() {
                let line = token.span().start().line;
                let text = syn::parse2::<LitStr>(token.into()).map(|text| text.value());
                let path = text.and_then(|text| syn::parse_str::<Path>(&text));
                if let Ok(path) = path {
                    let names = path.segments.iter().map(|segment| segment.ident.to_string());
                    self.note_path(&names.collect::<Vec<_>>(), line, Syntax::Tokens);
                }
            }
        }
    }

    /// `pub(in crate::a)` uses nothing of `a`.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// True if `name` begins a path after these tokens: not in `a.b`, `a::b`, `$b` or `use a::{c as b}`.
fn begins_path(before: &[TokenTree], name: &Ident, prefix: &[String]) -> bool {
    let last = |back: usize| match before.len().checked_sub(back).map(|at| &before[at]) {
        Some(TokenTree::Punct(punct)) => Some(punct.as_char()),
        _ => None,
    };
    match (last(2), last(1)) {
        (Some('.'), Some('.')) => true,
        (_, Some('.')) | (Some(':'), Some(':')) => false,
        (_, Some('$')) => name == "crate",
        _ => {
            let is_alias = matches!(before.last(), Some(TokenTree::Ident(last)) if last == "as");
            prefix.is_empty() || !is_alias
        }
    }
}

/// The path that begins at a token, and its last token.
fn path_at(tokens: &[TokenTree], at: usize) -> (Vec<String>, usize) {
    let (mut path, mut end) = (Vec::new(), at);
    if let TokenTree::Ident(first) = &tokens[at] {
        path.push(first.to_string());
    }
    while let Some([TokenTree::Punct(first), TokenTree::Punct(second), TokenTree::Ident(next)]) =
        tokens.get(end + 1..end + 4)
        && first.as_char() == ':'
        && second.as_char() == ':'
    {
        path.push(next.to_string());
        end += 3;
    }
    (path, end)
}

/// The braces of a grouped `use`, where `::{` follows a path.
fn braces_of_use(after: &[TokenTree]) -> Option<TokenStream> {
    match after {
        [TokenTree::Punct(first), TokenTree::Punct(second), TokenTree::Group(group), ..]
            if first.as_char() == ':'
                && second.as_char() == ':'
                && group.delimiter() == Delimiter::Brace =>
        {
            Some(group.stream())
        }
        _ => None,
    }
}
