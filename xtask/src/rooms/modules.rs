//! The modules of a crate: the names each has, and the search for the module that defines an item.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, UseTree};

use crate::source_tree::{self, SourceFile};

/// A path as it is written: segments, from `crate`, `self`, `super` or a name in scope.
pub(super) type Segments = Vec<String>;

/// The names of one module, or of one block.
#[derive(Default)]
pub(super) struct Scope {
    types: BTreeSet<String>,
    /// Functions, constants and macros: only the last segment of a path names one.
    values: BTreeSet<String>,
    children: BTreeSet<String>,
    /// Paths by the name they are imported as. Types, values and macros may share a name.
    imports: BTreeMap<String, Vec<Segments>>,
    globs: Vec<Segments>,
    /// A macro at item level may define any name.
    has_macro_call: bool,
}

/// An item and the module that defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) module: Vec<String>,
    /// The item's name and the rest of the path; empty where the path names the module itself.
    pub(super) item: Vec<String>,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Defined(Definition),
    /// Another crate, the prelude, or a generic parameter.
    Outside,
    /// The path begins in this crate, and no item has its name.
    Missing,
}

/// Every module of a crate, by its path from the root.
pub(super) struct Modules(BTreeMap<Vec<String>, Scope>);

/// The location of a path: its module, and the blocks around it from the outside in.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) module: &'a [String],
    pub(super) blocks: &'a [Scope],
}

/// Names that the search has visited and must not look up again.
type Seen = Vec<(Vec<String>, String)>;

impl Modules {
    pub(super) fn of(files: &[SourceFile]) -> Self {
        let mut modules = Self(BTreeMap::new());
        for file in files {
            modules.add(&file.module, &file.syntax.items);
        }
        modules
    }

    /// The top-level modules.
    pub(super) fn rooms(&self) -> impl Iterator<Item = &str> {
        self.0[&Vec::new()].children.iter().map(String::as_str)
    }

    fn add(&mut self, module: &[String], items: &[Item]) {
        // Two inline modules under opposite `cfg`s are one module here.
        self.0.entry(module.to_vec()).or_default().extend(items.iter());
        for item in items {
            if let Item::Mod(item) = item
                && let Some((_, items)) = &item.content
                && !source_tree::is_test(&item.attrs)
            {
                self.add(&[module, &[item.ident.to_string()]].concat(), items);
            }
        }
    }

    /// Finds the definition of a path.
    pub(super) fn find(&self, place: Place<'_>, path: &[String]) -> Found {
        self.find_from(place, path, &mut Seen::new())
    }

    /// Finds the items that `use` lines import as `name`; empty if no line does.
    pub(super) fn find_imports(&self, place: Place<'_>, name: &str) -> Vec<Found> {
        let blocks = place.blocks.iter().enumerate().rev();
        let scopes = blocks
            .map(|(depth, block)| (&place.blocks[..=depth], block))
            .chain(self.0.get(place.module).map(|scope| (&place.blocks[..0], scope)));
        let imports = scopes.filter_map(|(blocks, scope)| Some((blocks, scope.imports.get(name)?)));
        let find = |(blocks, paths): (_, &Vec<Segments>)| {
            let place = Place { blocks, ..place };
            paths.iter().map(|path| self.find(place, path)).collect()
        };
        imports.map(find).next().unwrap_or_default()
    }

    fn find_from(&self, place: Place<'_>, path: &[String], seen: &mut Seen) -> Found {
        let Some((first, rest)) = path.split_first() else {
            return Found::Defined(Definition { module: place.module.to_vec(), item: Vec::new() });
        };
        match first.as_str() {
            "crate" => self.walk(&[], rest, seen).unwrap_or(Found::Missing),
            "self" | "super" => {
                let above = path.iter().take_while(|segment| *segment == "super").count();
                let below = if first == "self" { rest } else { &path[above..] };
                let depth = place.module.len().saturating_sub(above);
                let module = Place { module: &place.module[..depth], blocks: &[] };
                match below.first().map(String::as_str) {
                    Some("super") => self.find_from(module, below, seen),
                    _ => self.walk(module.module, below, seen).unwrap_or(Found::Missing),
                }
            }
            _ => self.find_name(place, path, seen).unwrap_or(Found::Outside),
        }
    }

    /// Finds a path whose first segment is a name in scope.
    fn find_name(&self, place: Place<'_>, path: &[String], seen: &mut Seen) -> Option<Found> {
        for (depth, block) in place.blocks.iter().enumerate().rev() {
            if block.defines(path) {
                return Some(definition(place.module, path));
            }
            let place = Place { blocks: &place.blocks[..=depth], ..place };
            let found = self.find_by_import(block, place, path, seen);
            if found.is_some() {
                return found;
            }
        }
        self.walk_from(place.module, path, seen)
    }

    /// Follows a path from a module downwards, through re-exports.
    fn walk(&self, module: &[String], path: &[String], seen: &mut Seen) -> Option<Found> {
        if path.is_empty() {
            return Some(definition(module, &[]));
        }
        let found = self.walk_from(module, path, seen);
        let may_be_generated = || self.0.get(module).is_some_and(|scope| scope.has_macro_call);
        match found {
            None if may_be_generated() => Some(definition(module, path)),
            found => found,
        }
    }

    fn walk_from(&self, module: &[String], path: &[String], seen: &mut Seen) -> Option<Found> {
        let scope = self.0.get(module)?;
        let name = &path[0];
        // A module and a function may share a name: the last segment of a path means the function.
        let is_item = scope.defines(path) || scope.imports.contains_key(name);
        if scope.children.contains(name) && !(path.len() == 1 && is_item) {
            return self.walk(&[module, &path[..1]].concat(), &path[1..], seen);
        }
        if scope.defines(path) {
            return Some(definition(module, path));
        }
        let place = Place { module, blocks: &[] };
        self.find_by_import(scope, place, path, seen).or_else(|| {
            let is_child = scope.children.contains(name);
            is_child.then(|| definition(&[module, &path[..1]].concat(), &path[1..]))
        })
    }

    /// Finds a path whose first segment is imported by a `use` line of the scope.
    fn find_by_import(
        &self,
        scope: &Scope,
        place: Place<'_>,
        path: &[String],
        seen: &mut Seen,
    ) -> Option<Found> {
        let (name, rest) = path.split_first()?;
        for import in scope.imports.get(name).into_iter().flatten() {
            let step = (place.module.to_vec(), import.join("::"));
            if seen.contains(&step) {
                continue;
            }
            seen.push(step);
            let found = self.find_from(place, &[import.as_slice(), rest].concat(), seen);
            seen.pop();
            if found != Found::Missing {
                return Some(found);
            }
        }
        scope.globs.iter().find_map(|glob| {
            let step = (place.module.to_vec(), format!("{}::*", glob.join("::")));
            if seen.contains(&step) {
                return None;
            }
            seen.push(step);
            let found = match self.find_from(place, glob, seen) {
                // The variants of an enum are found by the enum's own path.
                Found::Defined(Definition { module, item }) if item.is_empty() => {
                    self.walk_from(&module, path, seen)
                }
                _ => None,
            };
            seen.pop();
            found.filter(|found| matches!(found, Found::Defined(_)))
        })
    }
}

impl Scope {
    /// The names that items bring into their module or block.
    pub(super) fn of<'a>(items: impl Iterator<Item = &'a Item>) -> Self {
        let mut scope = Self::default();
        scope.extend(items);
        scope
    }

    fn extend<'a>(&mut self, items: impl Iterator<Item = &'a Item>) {
        for item in items.filter(|item| !source_tree::is_test(source_tree::attributes(item))) {
            self.add(item);
        }
    }

    /// True if an item of this scope is the first segment of a path.
    fn defines(&self, path: &[String]) -> bool {
        self.types.contains(&path[0]) || path.len() == 1 && self.values.contains(&path[0])
    }

    fn add(&mut self, item: &Item) {
        let (names, name) = match item {
            Item::Enum(item) => (&mut self.types, &item.ident),
            Item::Struct(item) => (&mut self.types, &item.ident),
            Item::Trait(item) => (&mut self.types, &item.ident),
            Item::TraitAlias(item) => (&mut self.types, &item.ident),
            Item::Type(item) => (&mut self.types, &item.ident),
            Item::Union(item) => (&mut self.types, &item.ident),
            Item::Const(item) => (&mut self.values, &item.ident),
            Item::Fn(item) => (&mut self.values, &item.sig.ident),
            Item::Static(item) => (&mut self.values, &item.ident),
            Item::Mod(item) => (&mut self.children, &item.ident),
            Item::Macro(item) => match &item.ident {
                Some(name) => (&mut self.values, name),
                None => return self.has_macro_call = true,
            },
            Item::Use(item) if item.leading_colon.is_none() => return self.import(&item.tree),
            _ => return,
        };
        names.insert(name.to_string());
    }

    fn import(&mut self, tree: &UseTree) {
        for leaf in leaves(tree) {
            match leaf.name {
                Some(name) => self.imports.entry(name).or_default().push(leaf.path),
                None => self.globs.push(leaf.path),
            }
        }
    }
}

/// One import of a `use` line.
pub(super) struct Leaf {
    pub(super) path: Segments,
    /// The name in scope; `None` for a glob.
    pub(super) name: Option<String>,
    pub(super) line: usize,
}

/// The imports of a `use` line, with groups expanded.
pub(super) fn leaves(tree: &UseTree) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    add_leaves(tree, &[], &mut leaves);
    leaves
}

fn add_leaves(tree: &UseTree, prefix: &[String], leaves: &mut Vec<Leaf>) {
    let joined = |name: &syn::Ident| match name.to_string() {
        name if name == "self" && !prefix.is_empty() => prefix.to_vec(),
        name => [prefix, &[name]].concat(),
    };
    let (path, name, span) = match tree {
        UseTree::Path(tree) => {
            return add_leaves(&tree.tree, &[prefix, &[tree.ident.to_string()]].concat(), leaves);
        }
        UseTree::Group(group) => {
            return group.items.iter().for_each(|tree| add_leaves(tree, prefix, leaves));
        }
        UseTree::Name(name) => {
            let path = joined(&name.ident);
            (path.clone(), path.last().cloned(), name.ident.span())
        }
        UseTree::Rename(rename) => {
            (joined(&rename.ident), Some(rename.rename.to_string()), rename.ident.span())
        }
        UseTree::Glob(glob) => (prefix.to_vec(), None, glob.star_token.spans[0]),
    };
    leaves.push(Leaf { path, name, line: span.start().line });
}

fn definition(module: &[String], item: &[String]) -> Found {
    Found::Defined(Definition { module: module.to_vec(), item: item.to_vec() })
}
