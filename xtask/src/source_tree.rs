//! The source of one crate as syntax trees: the files that `mod` lines reach from its root.
//!
//! Items under `#[cfg(test)]` are left out, and so are files that only such an item declares.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use syn::{Attribute, Item, Meta, Token, punctuated::Punctuated};

use crate::failure::Failure;

/// Texts by the path of their file from the workspace's root.
pub(crate) type Texts = BTreeMap<String, String>;

/// One file of a crate.
pub(crate) struct SourceFile {
    /// The path from the workspace's root.
    pub(crate) name: String,
    /// The path of its module from the crate's root.
    pub(crate) module: Vec<String>,
    pub(crate) syntax: syn::File,
}

/// Reads every `.rs` file below `folder`, a path from the workspace's root.
pub(crate) fn read(root: &Path, folder: &str) -> Result<Texts, Failure> {
    let failed = |error| Failure::new(format!("{folder} was not read")).with_cause(error);
    let mut paths = Vec::new();
    collect(&root.join(folder), &mut paths).map_err(failed)?;
    let text = |path: PathBuf| {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        Ok((name.replace('\\', "/"), fs::read_to_string(&path)?))
    };
    paths.into_iter().map(text).collect::<io::Result<Texts>>().map_err(failed)
}

/// Parses the crate whose root is `folder/lib.rs`, or `folder/main.rs` if there is no library.
pub(crate) fn parse(folder: &str, texts: &Texts) -> Result<Vec<SourceFile>, Failure> {
    let roots = [format!("{folder}/lib.rs"), format!("{folder}/main.rs")];
    let Some(root) = roots.into_iter().find(|root| texts.contains_key(root)) else {
        return Err(Failure::new(format!("{folder} has neither lib.rs nor main.rs")));
    };
    let mut files = vec![parse_file(root, Vec::new(), texts)?];
    let mut next = 0;
    while let Some(file) = files.get(next) {
        for module in declared_modules(&file.syntax.items, &file.module) {
            if files.iter().any(|file| file.module == module) {
                continue;
            }
            files.push(parse_module(folder, module, texts)?);
        }
        next += 1;
    }
    Ok(files)
}

/// True if an item is compiled for tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args().is_ok_and(|condition| needs_test(&condition))
        }
        _ => false,
    })
}

/// The attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|all| all.iter().any(needs_test)),
        _ => false,
    }
}

/// The modules that have their own file, including those declared in inline modules.
fn declared_modules(items: &[Item], module: &[String]) -> Vec<Vec<String>> {
    let mut declared = Vec::new();
    for item in items {
        let Item::Mod(item) = item else { continue };
        if is_test(&item.attrs) {
            continue;
        }
        let path = [module, &[item.ident.to_string()]].concat();
        match &item.content {
            Some((_, items)) => declared.extend(declared_modules(items, &path)),
            None => declared.push(path),
        }
    }
    declared
}

fn parse_module(folder: &str, module: Vec<String>, texts: &Texts) -> Result<SourceFile, Failure> {
    let path = format!("{folder}/{}", module.join("/"));
    let names = [format!("{path}.rs"), format!("{path}/mod.rs")];
    match names.into_iter().find(|name| texts.contains_key(name)) {
        Some(name) => parse_file(name, module, texts),
        None => Err(Failure::new(format!("module `{}` has no file: {path}.rs", module.join("::")))),
    }
}

fn parse_file(name: String, module: Vec<String>, texts: &Texts) -> Result<SourceFile, Failure> {
    let syntax = syn::parse_file(&texts[&name]).map_err(|error| {
        let line = error.span().start().line;
        Failure::new(format!("{name}:{line}: cannot parse this file")).with_cause(error)
    })?;
    Ok(SourceFile { name, module, syntax })
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}
