//! Expands words: braces, `~`, variables and patterns, as far as they are known.

use crate::shell::{
    faults,
    parse::Reason,
    tree::{Node, ShellWord, WordPart},
};

/// The variables whose values count. Every other variable may hold anything.
#[derive(Clone, Copy)]
pub(crate) struct KnownVariables<'a> {
    pub home: Option<&'a str>,
    pub pwd: Option<&'a str>,
}

impl<'a> KnownVariables<'a> {
    fn value(self, name: &str) -> Option<&'a str> {
        match name {
            "HOME" => self.home,
            "PWD" => self.pwd,
            _ if faults::is_off(faults::NO_VALUES) => Some("a.txt"),
            _ => None,
        }
    }
}

/// The result of a process substitution: the name of a pipe.
pub(crate) const PIPE: &str = "/dev/fd/63";

/// The most words that braces may produce from one.
const MAX_BRACE_WORDS: usize = 256;
/// The most characters that braces may produce from one word.
const MAX_BRACE_TEXT: usize = 100_000;

/// One word after expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The text; as written if it is not known.
    pub text: String,
    pub shape: Shape,
}

/// How much of a word is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of it.
    Known,
    /// File names that match this pattern. A backslash makes the next character literal.
    Pattern(String),
    /// Known only at run time.
    Open {
        /// It may become several words, or none.
        splits: bool,
        /// Its first character is not known either.
        starts_open: bool,
    },
}

impl Field {
    pub(crate) fn known(text: impl Into<String>) -> Self {
        Field { text: text.into(), shape: Shape::Known }
    }

    /// A word known only at run time, as written.
    pub(crate) fn open(text: impl Into<String>) -> Self {
        Field { text: text.into(), shape: Shape::Open { splits: true, starts_open: true } }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.shape, Shape::Open { .. })
    }

    pub(crate) fn is_known(&self) -> bool {
        self.shape == Shape::Known
    }

    /// The text, if all of it is known.
    pub(crate) fn literal(&self) -> Option<&str> {
        self.is_known().then_some(self.text.as_str())
    }

    /// True if it may become an option, though it is not written as one.
    pub(crate) fn may_be_option(&self) -> bool {
        match &self.shape {
            Shape::Known => false,
            Shape::Pattern(pattern) => pattern.starts_with(['*', '?', '[']),
            Shape::Open { splits, starts_open } => *splits || *starts_open,
        }
    }

    /// True if it may become several words, or none.
    pub(crate) fn may_split(&self) -> bool {
        matches!(self.shape, Shape::Open { splits: true, .. })
    }

    /// True if it may become several words: it splits, or is a pattern.
    pub(crate) fn is_several(&self) -> bool {
        self.may_split() || matches!(self.shape, Shape::Pattern(_))
    }

    /// The beginning of the word that is known.
    pub(crate) fn known_begin(&self) -> &str {
        let signs = match &self.shape {
            Shape::Known => return &self.text,
            Shape::Pattern(_) => &['*', '?', '[', '\\'][..],
            Shape::Open { starts_open: true, .. } => return "",
            Shape::Open { .. } => &['$', '`', '*', '?', '[', '\\', '\'', '"', '~', '<', '>'][..],
        };
        &self.text[..self.text.find(signs).unwrap_or(0)]
    }

    /// The word with a literal suffix.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Field {
        let shape = match &self.shape {
            Shape::Pattern(pattern) => Shape::Pattern(format!("{pattern}{suffix}")),
            shape => shape.clone(),
        };
        Field { text: format!("{}{suffix}", self.text), shape }
    }

    /// The word without a prefix, if it has this prefix.
    pub(crate) fn without(&self, prefix: &str) -> Option<Field> {
        let text = self.text.strip_prefix(prefix)?.to_owned();
        let shape = match &self.shape {
            Shape::Pattern(pattern) => match pattern.strip_prefix(prefix) {
                Some(rest) if rest.contains(['*', '?', '[']) => Shape::Pattern(rest.to_owned()),
                _ => Shape::Known,
            },
            Shape::Open { splits, .. } => Shape::Open { splits: *splits, starts_open: true },
            Shape::Known => Shape::Known,
        };
        Some(Field { text, shape })
    }
}

/// A character of a word, or an expansion.
#[derive(Clone)]
enum Atom<'a> {
    Bare(char),
    Quoted(char),
    /// Empty quotes: they make an empty word.
    Empty,
    Variable(&'a str, bool),
    Open(bool),
}

/// Expands words. Commands within them run first.
pub(crate) fn fields(words: &[ShellWord], known: KnownVariables<'_>) -> Result<Vec<Field>, Reason> {
    let mut all = vec![];
    for word in words {
        match word.pieces.as_slice() {
            [WordPart::Bare(text)] if !text.contains(['*', '?', '[', '{', '~']) => {
                all.push(Field::known(text.clone()));
            }
            _ => expand(word, known, &mut all)?,
        }
    }
    Ok(all)
}

/// Expands one word that is neither split nor a pattern: a value, a redirection's target.
pub(crate) fn single(word: &ShellWord, known: KnownVariables<'_>) -> Field {
    let mut atoms = atoms(word);
    tilde(&mut atoms, known, true);
    for atom in &mut atoms {
        match atom {
            Atom::Variable(_, quoted) | Atom::Open(quoted) => *quoted = true,
            Atom::Bare(c) => *atom = Atom::Quoted(*c),
            _ => {}
        }
    }
    let mut fields = vec![];
    build(&atoms, word, known, &mut fields);
    match fields.len() {
        0 => Field::known(""),
        1 => fields.remove(0),
        _ => Field::open(word.source.clone()),
    }
}

/// The commands within words, in order.
pub(crate) fn within<'a>(
    words: impl IntoIterator<Item = &'a ShellWord>,
) -> impl Iterator<Item = &'a Node> {
    words.into_iter().flat_map(|word| &word.pieces).flat_map(|piece| match piece {
        WordPart::Open { within, .. } => within.as_slice(),
        WordPart::Process(node) => std::slice::from_ref(node),
        _ => &[],
    })
}

/// The doubts about words.
pub(crate) fn doubts<'a>(
    words: impl IntoIterator<Item = &'a ShellWord>,
) -> impl Iterator<Item = &'a Reason> {
    words.into_iter().flat_map(|word| &word.pieces).filter_map(|piece| match piece {
        WordPart::Open { doubt, .. } => doubt.as_ref(),
        _ => None,
    })
}

fn expand(word: &ShellWord, known: KnownVariables<'_>, all: &mut Vec<Field>) -> Result<(), Reason> {
    let all_words = braces(atoms(word))?;
    let is_as_written = all_words.len() == 1;
    for mut atoms in all_words {
        tilde(&mut atoms, known, is_as_written);
        build(&atoms, word, known, all);
    }
    Ok(())
}

fn atoms(word: &ShellWord) -> Vec<Atom<'_>> {
    let mut atoms = vec![];
    for piece in &word.pieces {
        match piece {
            WordPart::Bare(text) => atoms.extend(text.chars().map(Atom::Bare)),
            WordPart::Quoted(text) if text.is_empty() => atoms.push(Atom::Empty),
            WordPart::Quoted(text) => atoms.extend(text.chars().map(Atom::Quoted)),
            WordPart::Variable { name, quoted } => atoms.push(Atom::Variable(name, *quoted)),
            WordPart::Open { quoted, .. } => atoms.push(Atom::Open(*quoted)),
            WordPart::Process(_) => atoms.extend(PIPE.chars().map(Atom::Quoted)),
        }
    }
    atoms
}

/// `{a,b}` and `{1..3}`, the outermost and leftmost first.
fn braces(atoms: Vec<Atom<'_>>) -> Result<Vec<Vec<Atom<'_>>>, Reason> {
    let (mut pending, mut done) = (vec![atoms], vec![]);
    let mut made = 0;
    while let Some(atoms) = pending.pop() {
        if has_odd_sequence(&atoms) || has_odd_pair(&atoms) {
            return Err("braces hold an unusual sequence".into());
        }
        let Some((open, close, alternatives)) = first_brace(&atoms) else {
            done.push(atoms);
            continue;
        };
        if done.len() + pending.len() + alternatives.len() > MAX_BRACE_WORDS {
            return Err("braces make too many words".into());
        }
        let others = atoms.len() - (close - open);
        made += alternatives.iter().map(|inner| inner.len() + others).sum::<usize>();
        if made > MAX_BRACE_TEXT {
            return Err("braces make too much text".into());
        }
        for inner in alternatives.into_iter().rev() {
            let mut whole = atoms[..open].to_vec();
            whole.extend(inner);
            whole.extend_from_slice(&atoms[close + 1..]);
            pending.push(whole);
        }
    }
    Ok(done)
}

type Brace<'a> = (usize, usize, Vec<Vec<Atom<'a>>>);

/// The first pair of braces that expands, and its results.
fn first_brace<'a>(atoms: &[Atom<'a>]) -> Option<Brace<'a>> {
    if !atoms.iter().any(|atom| matches!(atom, Atom::Bare('{'))) {
        return None;
    }
    // The open braces, with the commas at their own level.
    let mut open: Vec<(usize, Vec<usize>)> = vec![];
    let mut found: Option<(usize, usize, Vec<usize>)> = None;
    for (at, atom) in atoms.iter().enumerate() {
        match atom {
            Atom::Bare('{') => open.push((at, vec![])),
            Atom::Bare(',') => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            Atom::Bare('}') => {
                let Some((start, commas)) = open.pop() else { continue };
                let expands = !commas.is_empty() || sequence(&atoms[start + 1..at]).is_some();
                if expands && found.as_ref().is_none_or(|(first, ..)| start < *first) {
                    found = Some((start, at, commas));
                }
            }
            _ => {}
        }
    }
    let (start, end, commas) = found?;
    if commas.is_empty() {
        return Some((start, end, sequence(&atoms[start + 1..end])?));
    }
    let (mut parts, mut from) = (vec![], start + 1);
    for comma in commas.into_iter().chain([end]) {
        parts.push(atoms[from..comma].to_vec());
        from = comma + 1;
    }
    Some((start, end, parts))
}

/// True for `{}` in a word that has a comma or a sequence too: bash takes the `}` for a part of the text.
fn has_odd_pair(atoms: &[Atom<'_>]) -> bool {
    let has = |first: char, second: char| {
        let is_pair = |pair: &[Atom<'_>]| matches!(pair, [Atom::Bare(a), Atom::Bare(b)] if *a == first && *b == second);
        atoms.windows(2).any(is_pair)
    };
    has('{', '}') && (has('.', '.') || atoms.iter().any(|atom| matches!(atom, Atom::Bare(','))))
}

/// True if braces hold a sequence that is not a plain one: `{1..9..2}`, `{01..10}`, `{A..z}`.
fn has_odd_sequence(atoms: &[Atom<'_>]) -> bool {
    let bare = |atom: &Atom<'_>, wanted: char| matches!(atom, Atom::Bare(c) if *c == wanted);
    let opens = atoms.iter().enumerate().filter(|(_, atom)| bare(atom, '{'));
    { opens }.any(|(open, _)| {
        let inner = &atoms[open + 1..];
        let end = inner.iter().position(|atom| ['{', '}', ','].iter().any(|c| bare(atom, *c)));
        let Some(end) = end.filter(|end| bare(&inner[*end], '}')) else { return false };
        let dots = inner[..end].windows(2).any(|pair| pair.iter().all(|atom| bare(atom, '.')));
        dots && sequence(&inner[..end]).is_none()
    })
}

/// `1..3` or `a..c`.
fn sequence<'a>(atoms: &[Atom<'a>]) -> Option<Vec<Vec<Atom<'a>>>> {
    let mut text = String::new();
    for atom in atoms.iter().take(20) {
        let Atom::Bare(c) = atom else { return None };
        text.push(*c);
    }
    let (from, to) = text.split_once("..").filter(|_| atoms.len() <= 20)?;
    let plain = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !text.starts_with('+') && (digits == "0" || !digits.starts_with('0'))
    };
    if !plain(from) || !plain(to) {
        return None;
    }
    let whole = |text: String| text.chars().map(Atom::Quoted).collect();
    if let (Ok(from), Ok(to)) = (from.parse::<i32>(), to.parse::<i32>()) {
        let span = from.min(to)..=from.max(to);
        // One more than the limit, so that the caller refuses it.
        return Some(
            span.take(MAX_BRACE_WORDS + 1).map(|number| whole(number.to_string())).collect(),
        );
    }
    let letter = |text: &str| text.parse::<char>().ok().filter(char::is_ascii_alphabetic);
    let (from, to) = (letter(from)?, letter(to)?);
    if from.is_ascii_lowercase() != to.is_ascii_lowercase() {
        return None;
    }
    Some((from.min(to)..=from.max(to)).map(|c| whole(c.to_string())).collect())
}

/// `~` at the beginning, also after `name=` if that was written so. Behind any other `=` or `:` of an assignment
/// it is not known.
fn tilde(atoms: &mut Vec<Atom<'_>>, known: KnownVariables<'_>, is_as_written: bool) {
    let is_name = |(at, atom): (usize, &Atom<'_>)| match atom {
        Atom::Bare(c) => c.is_ascii_alphabetic() || *c == '_' || at > 0 && c.is_ascii_digit(),
        _ => false,
    };
    let equals = atoms.iter().position(|atom| matches!(atom, Atom::Bare('=')));
    let assigned =
        equals.filter(|&at| is_as_written && at > 0 && atoms[..at].iter().enumerate().all(is_name));
    let is_tilde = |atom: Option<&Atom<'_>>| matches!(atom, Some(Atom::Bare('~')));
    // Only what begins like a name is an assignment.
    let begins =
        matches!(atoms.first(), Some(Atom::Bare(c)) if c.is_ascii_alphabetic() || *c == '_');
    for at in equals.filter(|_| begins).map_or(0..0, |equals| equals + 1..atoms.len()) {
        let is_behind = matches!(atoms[at - 1], Atom::Bare('=' | ':'));
        if is_behind && is_tilde(atoms.get(at)) && assigned.is_none_or(|equals| at != equals + 1) {
            atoms[at] = Atom::Open(true);
        }
    }
    // The second first: the first may make the word longer.
    for at in [assigned.map(|at| at + 1), Some(0)].into_iter().flatten() {
        if !is_tilde(atoms.get(at)) {
            continue;
        }
        let ends = matches!(atoms.get(at + 1), None | Some(Atom::Bare('/')));
        match known.home.filter(|_| ends) {
            Some(home) => {
                let home: Vec<_> = home.chars().map(Atom::Quoted).collect();
                atoms.splice(at..=at, home);
            }
            None => atoms[at] = Atom::Open(true),
        }
    }
}

/// A word while it is built.
#[derive(Default)]
struct FieldBuilder {
    text: String,
    pattern: String,
    /// An unquoted `*`, `?` or `[…]` was found.
    has_pattern: bool,
    /// An unquoted `[` was found.
    bracket: bool,
    /// True if there is a word, even an empty one.
    has_begun: bool,
    open: Option<(bool, bool)>,
}

impl FieldBuilder {
    fn bare(&mut self, c: char) {
        self.bracket |= c == '[';
        self.has_pattern |= matches!(c, '*' | '?') || c == ']' && self.bracket;
        self.text.push(c);
        self.pattern.push(c);
        self.has_begun = true;
    }

    fn quoted(&mut self, c: char) {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '^' | '-' | ':' | '=' | '.') {
            self.pattern.push('\\');
        }
        self.text.push(c);
        self.pattern.push(c);
        self.has_begun = true;
    }

    fn open(&mut self, quoted: bool) {
        let starts_open = self.text.is_empty();
        let (splits, started_open) = self.open.unwrap_or_default();
        self.open = Some((splits || !quoted, started_open || starts_open));
        self.has_begun = true;
    }

    fn open_number(&mut self) {
        self.open = Some(self.open.unwrap_or_default());
        self.has_begun = true;
    }

    fn end(&mut self, word: &ShellWord, all: &mut Vec<Field>) {
        let built = std::mem::take(self);
        if !built.has_begun {
            return;
        }
        all.push(match built.open {
            Some((splits, starts_open)) => {
                // Its dash is behind a quote.
                let hides_dash = built.text.starts_with('-') && !word.source.starts_with('-');
                let starts_open = starts_open || hides_dash;
                Field { text: word.source.clone(), shape: Shape::Open { splits, starts_open } }
            }
            None if built.has_pattern => {
                Field { text: built.text, shape: Shape::Pattern(built.pattern) }
            }
            None => Field::known(built.text),
        });
    }
}

fn build(atoms: &[Atom<'_>], word: &ShellWord, known: KnownVariables<'_>, all: &mut Vec<Field>) {
    let mut builder = FieldBuilder::default();
    for atom in atoms {
        match atom {
            Atom::Bare(c) => builder.bare(*c),
            Atom::Quoted(c) => builder.quoted(*c),
            Atom::Empty => builder.has_begun = true,
            Atom::Open(quoted) => builder.open(*quoted),
            Atom::Variable(name, quoted) => variable(name, *quoted, known, &mut builder),
        }
    }
    builder.end(word, all);
}

fn variable(name: &str, quoted: bool, known: KnownVariables<'_>, builder: &mut FieldBuilder) {
    // A number: one word, and not an option.
    if matches!(name, "?" | "#" | "$") {
        builder.open_number();
        return;
    }
    match known.value(name) {
        // Without quotes, blanks would split the value and patterns in it would be expanded.
        Some(value) if quoted || !value.contains([' ', '\t', '\n', '*', '?', '[', '\\']) => {
            builder.has_begun = true;
            value.chars().for_each(|c| builder.quoted(c));
        }
        _ => {
            let is_list = name == "@" || name.ends_with("[@]");
            builder.open(quoted && !is_list);
        }
    }
}
