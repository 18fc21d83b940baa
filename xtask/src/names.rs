//! `cargo xtask names`: figures about names and doc comments, one row per crate.
//!
//! The figures are for information: the task never fails because of one. Names come from `src/` without
//! tests; doc comments come from every `.rs` file of the crate.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Ident, ImplItem, Item, ItemImpl, Signature, Visibility,
    visit::{self, Visit},
};

use crate::{
    command,
    failure::Failure,
    source_tree::{self, SourceFile, Texts},
};

const CRATES: &[&str] = &[
    "cotter",
    "cotter-files",
    "cotter-models",
    "cotter-tools",
    "cotter-cli",
    "cotter-test",
    "xtask",
];

/// Openings of a doc comment that do not say what the item is or does.
const OPENINGS: &[&str] = &["The same", "What", "Who", "Whether"];

/// Words in -ed and -ing that are no participles, or that are used as nouns.
const NOUNS: &[&str] = &[
    "string", "thing", "nothing", "anything", "setting", "warning", "heading", "listing",
    "mapping", "binding", "encoding", "ruling", "need", "feed", "speed", "embed", "exceed",
    "proceed", "bring",
];

/// First words of a question, which may end in a participle: `is_allowed`.
const QUESTIONS: &[&str] = &["is", "are", "was", "has", "can", "must", "should"];

const HEADER: [&str; 6] =
    ["code lines", "public items", "doc lines", "bad openings", "same type", "participles"];

/// Prints the table, then the names behind its last two columns.
#[expect(clippy::print_stdout, reason = "the table is the output")]
pub(crate) fn run() -> Result<(), Failure> {
    let root = command::root()?;
    let mut figures = Vec::new();
    for name in CRATES {
        figures.push(measure(name, &source_tree::read(&root, name)?)?);
    }
    print!("{}", table(&figures));
    println!("bad openings: doc lines that begin with {}", OPENINGS.join(", "));
    print!("{}", figures.iter().map(lists).collect::<String>());
    Ok(())
}

/// The figures of one crate.
#[derive(Default)]
struct Figures {
    name: String,
    code_lines: usize,
    public_items: usize,
    doc_lines: usize,
    /// Doc lines that begin with one of `OPENINGS`.
    bad_openings: usize,
    /// The modules that define a type of this name. `cfg` twins share a module, and count once.
    types: BTreeMap<String, BTreeSet<Vec<String>>>,
    /// Types and functions whose last word is a participle.
    participles: BTreeSet<String>,
    /// The module that the visitor is in.
    module: Vec<String>,
}

fn measure(name: &str, texts: &Texts) -> Result<Figures, Failure> {
    let mut figures = Figures { name: name.to_owned(), ..Figures::default() };
    let source = format!("{name}/src/");
    for (file, text) in texts {
        let docs = text.lines().filter_map(doc_text);
        figures.bad_openings += docs.clone().filter(|text| opens_badly(text)).count();
        figures.doc_lines += docs.count();
        if file.starts_with(&source) {
            figures.code_lines += text.lines().filter(|line| is_code(line)).count();
        }
    }
    for SourceFile { module, syntax, .. } in source_tree::parse(&format!("{name}/src"), texts)? {
        figures.module = module;
        figures.visit_file(&syntax);
    }
    Ok(figures)
}

/// The text of a line of a doc comment, without the space before it.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    Some(text.strip_prefix(' ').unwrap_or(text))
}

fn opens_badly(text: &str) -> bool {
    let ends_word =
        |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    OPENINGS.iter().any(|opening| text.strip_prefix(opening).is_some_and(ends_word))
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// True if the last word of a name is a participle, by its ending.
fn ends_in_participle(name: &str) -> bool {
    let words = words(name);
    let is_question = words.len() > 1 && QUESTIONS.contains(&words[0].as_str());
    let last = words.last().map_or("", String::as_str);
    let has_ending =
        last.len() > 3 && last.ends_with("ed") || last.len() > 4 && last.ends_with("ing");
    has_ending && !is_question && !NOUNS.contains(&last)
}

/// The words of a name in snake case or camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

impl Figures {
    /// The types that more than one module defines.
    fn doubled_types(&self) -> impl Iterator<Item = (&str, usize)> {
        let counted = self.types.iter().map(|(name, modules)| (name.as_str(), modules.len()));
        counted.filter(|(_, count)| *count > 1)
    }

    /// The counts in the order of `HEADER`.
    fn counts(&self) -> [usize; 6] {
        [
            self.code_lines,
            self.public_items,
            self.doc_lines,
            self.bad_openings,
            self.doubled_types().count(),
            self.participles.len(),
        ]
    }

    fn add_name(&mut self, name: &Ident) {
        let name = name.to_string();
        if ends_in_participle(&name) {
            self.participles.insert(name);
        }
    }

    fn add_type(&mut self, name: &Ident, visibility: &Visibility) {
        self.add_name(name);
        self.types.entry(name.to_string()).or_default().insert(self.module.clone());
        self.add_visibility(visibility);
    }

    fn add_visibility(&mut self, visibility: &Visibility) {
        self.public_items += usize::from(matches!(visibility, Visibility::Public(_)));
    }
}

impl<'ast> Visit<'ast> for Figures {
    fn visit_item(&mut self, item: &'ast Item) {
        if source_tree::is_test(source_tree::attributes(item)) {
            return;
        }
        match item {
            Item::Enum(item) => self.add_type(&item.ident, &item.vis),
            Item::Struct(item) => self.add_type(&item.ident, &item.vis),
            Item::Trait(item) => self.add_type(&item.ident, &item.vis),
            Item::Type(item) => self.add_type(&item.ident, &item.vis),
            Item::Union(item) => self.add_type(&item.ident, &item.vis),
            Item::Const(item) => self.add_visibility(&item.vis),
            Item::Fn(item) => self.add_visibility(&item.vis),
            Item::Static(item) => self.add_visibility(&item.vis),
            Item::Mod(item) => {
                self.add_visibility(&item.vis);
                self.module.push(item.ident.to_string());
                visit::visit_item_mod(self, item);
                self.module.pop();
                return;
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        // The trait defines these names.
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        match item {
            ImplItem::Fn(item) if source_tree::is_test(&item.attrs) => return,
            ImplItem::Fn(item) => self.add_visibility(&item.vis),
            ImplItem::Const(item) => self.add_visibility(&item.vis),
            _ => {}
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.add_name(&signature.ident);
    }
}

fn table(figures: &[Figures]) -> String {
    let counts: Vec<[usize; 6]> = figures.iter().map(Figures::counts).collect();
    let total = counts
        .iter()
        .fold([0; 6], |total, counts| std::array::from_fn(|column| total[column] + counts[column]));
    let names = figures.iter().map(|figures| figures.name.as_str()).chain(["all"]);
    let rows = names.zip(counts.iter().chain([&total]));
    let rows = rows.map(|(name, counts)| line(name, &counts.map(|count| count.to_string())));
    [line("crate", &HEADER.map(str::to_owned))].into_iter().chain(rows).collect()
}

fn line(name: &str, cells: &[String; 6]) -> String {
    let columns = HEADER.iter().zip(cells);
    let cells: String =
        columns.map(|(header, cell)| format!("  {cell:>width$}", width = header.len())).collect();
    format!("{name:<13}{cells}\n")
}

/// The names behind the last two columns.
fn lists(figures: &Figures) -> String {
    let doubled: Vec<String> =
        figures.doubled_types().map(|(name, count)| format!("{name} ({count})")).collect();
    let participles: Vec<&str> = figures.participles.iter().map(String::as_str).collect();
    let list = |title: &str, names: String| match names.is_empty() {
        true => String::new(),
        false => format!("\n{}, {title}: {names}\n", figures.name),
    };
    list("same type", doubled.join(", ")) + &list("participles", participles.join(", "))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{lists, measure, table};
    use crate::source_tree::Texts;

    /// Checks the row of a crate with one file, and the lists below the table.
    fn check(root: &str, expected: Expect) {
        let texts = Texts::from([("shed/src/lib.rs".to_owned(), root.to_owned())]);
        let figures = measure("shed", &texts).unwrap_or_else(|failure| panic!("{failure}"));
        let lists = lists(&figures);
        let table = table(&[figures]);
        let row: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        expected.assert_eq(&format!("{}\n{lists}", row.join(" ")));
    }

    #[test]
    fn doc_lines_with_vague_openings_are_counted() {
        check(
            "//! Whether\n/// Whose\n///The same\n  /// Who, then.\n// What\nfn a() {}",
            expect![[r#"
                shed 1 0 4 3 0 0
            "#]],
        );
    }

    #[test]
    fn types_of_the_same_name_are_counted() {
        check(
            "struct A; mod m { struct A; type B = u8; } mod n { enum B {} trait A {} }",
            expect![[r#"
                shed 1 0 0 0 2 0

                shed, same type: A (3), B (2)
            "#]],
        );
        check(
            "#[cfg(unix)] struct A; #[cfg(not(unix))] struct A;",
            expect![[r#"
            shed 1 0 0 0 0 0
        "#]],
        );
        check(
            "struct A; #[cfg(test)] mod tests { struct A; }",
            expect![[r#"
            shed 1 0 0 0 0 0
        "#]],
        );
    }

    #[test]
    fn participle_names_are_counted() {
        check(
            "struct Asked; fn carried_out() {} fn matching() {} fn list_seen() {}",
            expect![[r#"
            shed 1 0 0 0 0 2

            shed, participles: Asked, matching
        "#]],
        );
        check(
            "struct ToString; fn is_allowed() {} fn need() {} fn red() {} fn ring() {}",
            expect![[r#"
                shed 1 0 0 0 0 0
            "#]],
        );
        check(
            "impl T for A { fn mapped() {} } impl A { fn kept_mapped() {} }",
            expect![[r#"
            shed 1 0 0 0 0 1

            shed, participles: kept_mapped
        "#]],
        );
    }

    #[test]
    fn public_items_are_counted() {
        check(
            "pub mod m { pub struct A; pub(crate) struct B; }\n\n\npub use m::A;",
            expect![[r#"
            shed 2 2 0 0 0 0
        "#]],
        );
        check(
            "pub struct A; impl A { pub fn a() {} fn b() {} }",
            expect![[r#"
            shed 1 2 0 0 0 0
        "#]],
        );
    }
}
