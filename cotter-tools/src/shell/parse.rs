//! Parses a command line into a tree, by bash's own grammar. Pure.
//!
//! Constructs that bash reads differently than a reader expects, or that differ between versions,
//! are refused with a reason. Nesting is limited, so the stack cannot overflow.

use std::{
    cell::{Cell, OnceCell},
    rc::Rc,
};

use crate::shell::tree::{Assign, ListOperator, Node, Redirect, Script, ShellWord, Simple, Value};

/// The longest command line that is parsed.
const MAX_LENGTH: usize = 64 * 1024;
/// The most bytes that are parsed for one command line, with every text that `eval` and the like parse again.
const MAX_PARSED: usize = 256 * 1024;
/// The deepest nesting.
const MAX_DEPTH: usize = 60;

/// The reason why a command line is not understood.
pub(crate) type Reason = String;
type ParseResult<T> = Result<T, Reason>;

/// Words that open or close a construct at the position of a command.
const RESERVED: [&str; 19] = [
    "!", "{", "}", "[[", "if", "then", "elif", "else", "fi", "for", "select", "while", "until",
    "do", "done", "case", "esac", "function", "coproc",
];

/// The longest subscript.
const MAX_SUBSCRIPT: usize = 200;

/// The characters of operators. Bash joins lines before it reads them.
const OPERATOR_SIGNS: [char; 6] = ['&', '|', ';', '<', '>', '('];

/// The number of bytes that may still be parsed for one command line, texts within texts included.
pub(crate) struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Self {
        Budget(Cell::new(MAX_PARSED))
    }
}

/// Parses a command line nested at a depth.
pub(crate) fn parse_within(text: &str, depth: usize, budget: &Budget) -> Script {
    let refuse = |why: &str| Script { nodes: vec![], error: Some(why.into()) };
    if text.len() > MAX_LENGTH {
        return refuse("it is longer than 64 KB");
    }
    let Some(left) = budget.0.get().checked_sub(text.len()) else {
        budget.0.set(0);
        return refuse("it holds more scripts within scripts than can be checked");
    };
    budget.0.set(left);
    let mut parser = Parser::new(text, depth, budget);
    let mut nodes = vec![];
    let error = parser.list(&mut nodes, &[]).and_then(|()| parser.at_end()).err();
    Script { nodes, error }
}

/// A here-document whose text was not reached yet.
struct Document {
    delimiter: String,
    /// `<<-`: leading tabs are removed.
    strips: bool,
    /// A quoted delimiter: the text is literal.
    raw: bool,
    body: Rc<OnceCell<ShellWord>>,
}

pub(crate) struct Parser<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
    pub(crate) depth: usize,
    pub(crate) budget: &'a Budget,
    documents: Vec<Document>,
    /// The number of substitutions around this place.
    substitutions: usize,
    /// An operator continues on the next line.
    splits_operator: bool,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, depth: usize, budget: &'a Budget) -> Self {
        Parser {
            text,
            at: 0,
            depth,
            budget,
            documents: vec![],
            substitutions: 0,
            splits_operator: false,
        }
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn sees(&self, token: &str) -> bool {
        self.rest().starts_with(token)
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        let is_next = self.sees(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    fn expect(&mut self, token: &str) -> ParseResult<()> {
        if self.take(token) { Ok(()) } else { Err(format!("`{token}` is missing")) }
    }

    fn at_end(&mut self) -> ParseResult<()> {
        if self.splits_operator {
            return Err("an operator may continue on the next line".into());
        }
        match (self.peek(), self.documents.is_empty()) {
            (None, true) => Ok(()),
            (None, false) => Err("a here-document has no end".into()),
            (Some(unexpected), _) => Err(format!("expected a command, found `{unexpected}`")),
        }
    }

    /// Runs a function one level deeper, if allowed.
    pub(crate) fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        if self.depth >= MAX_DEPTH {
            return Err("it is nested too deeply".into());
        }
        self.depth += 1;
        let parsed = inner(self);
        self.depth -= 1;
        parsed
    }

    /// Skips blanks, continued lines and comments.
    fn blanks(&mut self) {
        loop {
            match self.rest().as_bytes() {
                [b' ' | b'\t', ..] => self.at += 1,
                [b'\\', b'\n', ..] => {
                    self.splits_operator |= self.text[..self.at].ends_with(OPERATOR_SIGNS);
                    self.at += 2;
                }
                // Called only where a word could begin, so a comment may begin here.
                [b'#', ..] => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => return,
            }
        }
    }

    /// Skips line ends, and reads the here-documents after them.
    fn newlines(&mut self) -> ParseResult<()> {
        loop {
            self.blanks();
            if !self.take("\n") {
                return Ok(());
            }
            self.read_documents()?;
        }
    }

    /// Parses commands up to the end of the text, a `)`, a `;;` or one of the words.
    fn list(&mut self, done: &mut Vec<Node>, until: &[&str]) -> ParseResult<()> {
        loop {
            self.newlines()?;
            let ends =
                self.peek().is_none() || self.sees(")") || self.sees(";;") || self.sees(";&");
            if ends || until.iter().any(|word| self.sees_word(word)) {
                return Ok(());
            }
            let node = self.chain()?;
            self.blanks();
            let background = self.sees("&") && !self.sees("&&") && !self.sees("&>");
            if background {
                self.at += 1;
                done.push(Node::Background(Box::new(node)));
                continue;
            }
            done.push(node);
            let more = self.sees("\n") || self.sees(";") && !self.sees(";;") && !self.sees(";&");
            if !more {
                // The rest is an end, or an error for `newlines` or the caller.
                self.blanks();
                let ends =
                    self.peek().is_none() || self.sees(")") || self.sees(";;") || self.sees(";&");
                return if ends { Ok(()) } else { Err(self.unexpected()) };
            }
            self.take(";");
        }
    }

    fn sees_arrow(&self) -> bool {
        self.sees("<") || self.sees(">")
    }

    fn unexpected(&self) -> Reason {
        let word: String =
            self.rest().chars().take(20).take_while(|c| !c.is_whitespace()).collect();
        format!("unexpected `{word}`")
    }

    /// A list as one node, which must not be empty.
    fn body(&mut self, until: &[&str]) -> ParseResult<Node> {
        let mut done = vec![];
        self.deeper(|parser| parser.list(&mut done, until))?;
        if done.is_empty() { Err("a command is missing".into()) } else { Ok(Node::Sequence(done)) }
    }

    /// True if a reserved word stands here, as a whole word.
    fn sees_word(&self, word: &str) -> bool {
        let Some(after) = self.rest().strip_prefix(word) else { return false };
        after.chars().next().is_none_or(is_meta)
    }

    fn chain(&mut self) -> ParseResult<Node> {
        let first = self.pipeline()?;
        let mut links = vec![];
        loop {
            self.blanks();
            let link = if self.take("&&") {
                ListOperator::And
            } else if self.take("||") {
                ListOperator::Or
            } else {
                return Ok(if links.is_empty() {
                    first
                } else {
                    Node::Chain(Box::new(first), links)
                });
            };
            self.newlines()?;
            links.push((link, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> ParseResult<Node> {
        let mut negated = false;
        self.blanks();
        loop {
            if self.sees_word("!") {
                self.at += 1;
                negated = !negated;
            } else if let Some(after) = self.after_time() {
                self.at = after;
            } else {
                break;
            }
            self.blanks();
        }
        let mut stages = vec![self.command()?];
        loop {
            self.blanks();
            if self.sees("||") || !self.take("|") {
                break;
            }
            self.take("&");
            self.newlines()?;
            stages.push(self.command()?);
        }
        let whole = if stages.len() == 1 { stages.remove(0) } else { Node::Pipeline(stages) };
        Ok(if negated { Node::Not(Box::new(whole)) } else { whole })
    }

    /// The end of the reserved word `time` with its options, if it stands before a command. With other
    /// options it is the name of a program.
    fn after_time(&self) -> Option<usize> {
        if !self.sees_word("time") {
            return None;
        }
        let mut ahead = Parser { documents: vec![], ..*self };
        ahead.at += "time".len();
        ahead.blanks();
        for option in ["-p", "--"] {
            if ahead.sees_word(option) {
                ahead.at += option.len();
                ahead.blanks();
            }
        }
        (ahead.at_word() && !ahead.sees("-") || ahead.sees("(")).then_some(ahead.at)
    }

    fn command(&mut self) -> ParseResult<Node> {
        self.deeper(Parser::command_here)
    }

    fn command_here(&mut self) -> ParseResult<Node> {
        self.blanks();
        let Some(word) = RESERVED.iter().find(|word| self.sees_word(word)) else {
            if self.sees("(") {
                let node =
                    if self.take("((") { self.arithmetic_command()? } else { self.subshell()? };
                return self.redirected(node);
            }
            return match self.function_name()? {
                Some(name) => self.function(name),
                None => self.simple(),
            };
        };
        self.at += word.len();
        let node = match *word {
            "{" => self.group()?,
            "[[" => Node::Test(self.test_words()?),
            "if" => self.condition()?,
            "while" | "until" => {
                let condition = self.body(&["do"])?;
                Node::While(Box::new(condition), Box::new(self.do_group()?))
            }
            "for" | "select" => self.loop_command(word)?,
            "case" => self.case()?,
            "function" => {
                self.blanks();
                let name = self.plain_name()?;
                self.blanks();
                if self.take("(") {
                    self.blanks();
                    self.expect(")")?;
                }
                return self.function(name);
            }
            "coproc" => return Err("`coproc` starts a process that keeps running".into()),
            _ => return Err(format!("expected a command, found `{word}`")),
        };
        self.redirected(node)
    }

    /// A compound command with its redirections. The next word must not be part of it.
    fn redirected(&mut self, node: Node) -> ParseResult<Node> {
        let mut redirects = vec![];
        loop {
            self.blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => break,
            }
        }
        Ok(if redirects.is_empty() { node } else { Node::Redirected(Box::new(node), redirects) })
    }

    fn subshell(&mut self) -> ParseResult<Node> {
        self.expect("(")?;
        let body = self.body(&[])?;
        self.expect(")")?;
        Ok(Node::Subshell(Box::new(body)))
    }

    fn group(&mut self) -> ParseResult<Node> {
        let body = self.body(&["}"])?;
        self.expect("}")?;
        Ok(body)
    }

    fn do_group(&mut self) -> ParseResult<Node> {
        self.newlines()?;
        self.expect_word("do")?;
        let body = self.body(&["done"])?;
        self.expect_word("done")?;
        Ok(body)
    }

    fn expect_word(&mut self, word: &str) -> ParseResult<()> {
        if self.sees_word(word) { self.expect(word) } else { Err(format!("`{word}` is missing")) }
    }

    fn condition(&mut self) -> ParseResult<Node> {
        let mut arms = vec![];
        loop {
            let condition = self.body(&["then"])?;
            self.expect_word("then")?;
            arms.push((condition, self.body(&["elif", "else", "fi"])?));
            if self.sees_word("elif") {
                self.at += "elif".len();
                continue;
            }
            let otherwise = if self.sees_word("else") {
                self.at += "else".len();
                Some(Box::new(self.body(&["fi"])?))
            } else {
                None
            };
            self.expect_word("fi")?;
            return Ok(Node::If(arms, otherwise));
        }
    }

    fn loop_command(&mut self, word: &str) -> ParseResult<Node> {
        self.blanks();
        if word == "for" && self.take("((") {
            let (_, within) = self.arithmetic()?;
            if !within.is_empty() {
                return Err("there are commands within `((…))`".into());
            }
            self.blanks();
            self.take(";");
            let doubt = "`for ((…))` evaluates names".to_owned();
            return Ok(Node::ForNumber { doubt, body: Box::new(self.do_group()?) });
        }
        let name = self.plain_name()?;
        self.newlines()?;
        let mut words = vec![];
        if self.sees_word("in") {
            self.at += "in".len();
            loop {
                self.blanks();
                if self.at_word() { words.push(self.word()?) } else { break }
            }
        }
        self.take(";");
        Ok(Node::For { name, words, body: Box::new(self.do_group()?) })
    }

    fn case(&mut self) -> ParseResult<Node> {
        self.blanks();
        let mut words = vec![self.word()?];
        self.newlines()?;
        self.expect_word("in")?;
        let mut bodies = vec![];
        loop {
            self.newlines()?;
            if self.sees_word("esac") {
                self.at += "esac".len();
                return Ok(Node::Case { words, bodies });
            }
            self.take("(");
            loop {
                self.blanks();
                words.push(self.word()?);
                self.blanks();
                if !self.take("|") {
                    break;
                }
            }
            self.expect(")")?;
            let mut body = vec![];
            self.deeper(|parser| parser.list(&mut body, &["esac"]))?;
            bodies.push(Node::Sequence(body));
            let next = self.take(";;&") || self.take(";;") || self.take(";&");
            if !next && !self.sees_word("esac") {
                return Err("`;;` is missing".into());
            }
        }
    }

    /// `name ( )`, if it stands here.
    fn function_name(&mut self) -> ParseResult<Option<String>> {
        let end = self.rest().find(is_meta).unwrap_or(self.rest().len());
        let name = &self.rest()[..end];
        let mut ahead = Parser { documents: vec![], ..*self };
        ahead.at += end;
        ahead.blanks();
        // Quotes, expansions and assignments are not function names; they are parsed as words.
        let plain = !name.is_empty() && !name.contains(['\'', '"', '\\', '$', '`', '=']);
        if !plain || !ahead.take("(") {
            return Ok(None);
        }
        ahead.blanks();
        if !ahead.take(")") || name.contains(['*', '?', '[', '{', '~']) {
            return Err(self.unexpected());
        }
        self.at = ahead.at;
        Ok(Some(name.to_owned()))
    }

    fn function(&mut self, name: String) -> ParseResult<Node> {
        self.newlines()?;
        let compound = self.sees("(")
            || ["{", "[[", "if", "while", "until", "for", "case"]
                .iter()
                .any(|word| self.sees_word(word));
        if !compound {
            return Err(format!("the function `{name}` has no body in braces"));
        }
        Ok(Node::Function(name, Rc::new(self.command()?)))
    }

    /// A name of letters, digits and `_`.
    fn plain_name(&mut self) -> ParseResult<String> {
        let end = self.rest().find(is_meta).unwrap_or(self.rest().len());
        let name = &self.rest()[..end];
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(self.unexpected());
        }
        self.at += end;
        Ok(name.to_owned())
    }

    fn arithmetic_command(&mut self) -> ParseResult<Node> {
        let (doubt, within) = self.arithmetic()?;
        Ok(Node::Arithmetic { doubt, within })
    }

    /// True if a word begins here.
    pub(crate) fn at_word(&self) -> bool {
        let process = self.sees("<(") || self.sees(">(");
        process || self.peek().is_some_and(|c| !is_meta(c))
    }

    fn simple(&mut self) -> ParseResult<Node> {
        let mut simple = Simple::default();
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            if !self.at_word() {
                break;
            }
            let declares =
                simple.words.first().and_then(ShellWord::bare).is_some_and(is_declaration);
            let assign = if simple.words.is_empty() || declares { self.assign()? } else { None };
            match assign {
                Some(assign) => simple.assigns.push(assign),
                None => {
                    let word = self.word()?;
                    if names_a_descriptor(&word.source) && self.sees_arrow() {
                        return Err("a redirection names its descriptor by a variable".into());
                    }
                    simple.words.push(word);
                }
            }
        }
        let reserved = simple
            .words
            .first()
            .and_then(ShellWord::bare)
            .is_some_and(|word| RESERVED.contains(&word));
        if self.sees("(") || reserved {
            return Err(self.unexpected());
        }
        let empty =
            simple.words.is_empty() && simple.assigns.is_empty() && simple.redirects.is_empty();
        if empty {
            return Err("a command is missing".into());
        }
        simple.evaluated = self.evaluated(&simple);
        Ok(Node::Simple(simple))
    }

    /// The commands that `eval` or `trap` gets, if all of its text is literal.
    fn evaluated(&mut self, simple: &Simple) -> Option<Box<Script>> {
        let (name, words) = simple.words_of_builtin().split_first()?;
        let name = name.literal()?;
        if name != "eval" && name != "trap" {
            return None;
        }
        let words = match words.split_first() {
            Some((first, rest)) if first.literal().as_deref() == Some("--") => rest,
            _ => words,
        };
        let mut words = words.iter().map(ShellWord::literal);
        let text = match name.as_ref() {
            "eval" => words.collect::<Option<Vec<_>>>()?.join(" "),
            // Alone, a word is a signal or an option that only prints. `-` takes a command away.
            _ if words.len() == 1 => words.next()?.map(|_| String::new())?,
            _ => words.next()??.into_owned(),
        };
        let text = if name == "trap" && matches!(&*text, "-" | "-p" | "-l") { "" } else { &text };
        Some(Box::new(match self.depth < MAX_DEPTH {
            true => parse_within(text, self.depth + 1, self.budget),
            false => Script { nodes: vec![], error: Some("it is nested too deeply".into()) },
        }))
    }

    /// `name=…`, if it stands here.
    fn assign(&mut self) -> ParseResult<Option<Assign>> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        let (name, mut after) = rest.split_at(end);
        let mut subscript = None;
        if let Some(inner) = after.strip_prefix('[') {
            let line = inner.split('\n').next().unwrap_or_default();
            let near = line.char_indices().take(MAX_SUBSCRIPT).find(|(_, c)| *c == ']');
            let Some((close, _)) = near else {
                return Err("a subscript is not closed on its line".into());
            };
            let Some(at) = Some(close).filter(|&at| inner[at + 1..].starts_with(['=', '+'])) else {
                return Ok(None);
            };
            subscript = Some(inner[..at].to_owned());
            after = &inner[at + 1..];
        }
        let append = after.starts_with("+=");
        let Some(value) = after.strip_prefix(if append { "+=" } else { "=" }) else {
            return Ok(None);
        };
        self.at = self.text.len() - value.len();
        let value = if self.take("(") {
            let mut words = vec![];
            loop {
                self.newlines()?;
                if self.take(")") {
                    break Value::List(words);
                }
                words.push(self.word()?);
            }
        } else {
            Value::Word(self.word_or_nothing()?)
        };
        Ok(Some(Assign { name: name.to_owned(), subscript, append, value }))
    }

    /// A redirection, if one stands here.
    fn redirect(&mut self) -> ParseResult<Option<Redirect>> {
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let after = &rest[digits..];
        let both = after.starts_with("&>");
        let arrow = after.starts_with(['<', '>']) && (digits > 0 || !starts_process(after));
        let plain_both = both && digits == 0;
        if !arrow && !plain_both {
            return Ok(None);
        }
        self.at += digits;
        let is_input = digits == 0 || rest[..digits].chars().all(|c| c == '0');
        if self.take("<<<") {
            self.blanks();
            let word = self.word()?;
            return Ok(Some(Redirect::Text(Rc::new(OnceCell::from(word)), is_input)));
        }
        if self.sees("<<") {
            return self.document(is_input).map(Some);
        }
        for copy in ["<&", ">&"] {
            if self.take(copy) {
                return self.copied(copy, digits > 0).map(Some);
            }
        }
        let operators = ["&>>", "&>", "<>", ">>", ">|", ">", "<"];
        let operator =
            operators.into_iter().find(|operator| self.take(operator)).unwrap_or_default();
        self.blanks();
        if !self.at_word() {
            return Err("a redirection names no file".into());
        }
        let word = self.word()?;
        Ok(Some(match operator {
            "<" => Redirect::From(word),
            "<>" => Redirect::Both(word),
            _ => Redirect::To(word),
        }))
    }

    /// The rest of `<&` or `>&`: a descriptor, or a file for both streams.
    fn copied(&mut self, operator: &str, numbered: bool) -> ParseResult<Redirect> {
        let copy = || if operator == "<&" { Redirect::CopyInput } else { Redirect::Copy };
        // `>&-` is one token: what follows is another word.
        if self.take("-") {
            return match self.peek().is_none_or(is_meta) {
                true => Ok(copy()),
                false => Err(format!("`{operator}-` is not apart from the next word")),
            };
        }
        self.blanks();
        let word = self.word()?;
        let descriptor = word.bare().is_some_and(|text| {
            text == "-" || {
                let number = text.strip_suffix('-').unwrap_or(text);
                !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
            }
        });
        match (descriptor, operator) {
            (true, _) => Ok(copy()),
            // Bash expands such a word twice.
            (false, ">&") if !numbered && word.bare().is_some_and(is_plain_path) => {
                Ok(Redirect::To(word))
            }
            _ => Err(format!("where `{operator}{}` leads is not known", word.source)),
        }
    }

    /// The head of a here-document. Its text is read at the end of the line.
    fn document(&mut self, is_input: bool) -> ParseResult<Redirect> {
        self.at += 2;
        let strips = self.take("-");
        while self.take(" ") || self.take("\t") {}
        let (mut delimiter, mut raw) = (String::new(), false);
        while let Some(c) = self.peek().filter(|&c| !is_meta(c)) {
            self.at += c.len_utf8();
            match c {
                '\'' | '"' => {
                    raw = true;
                    let end = self.rest().find(c).ok_or("a quote is never closed")?;
                    delimiter.push_str(&self.rest()[..end]);
                    self.at += end + 1;
                }
                '\\' => {
                    raw = true;
                    let next = self.peek().ok_or("there is a backslash at the end")?;
                    delimiter.push(next);
                    self.at += next.len_utf8();
                }
                '$' | '`' => return Err("a here-document's end is not plain text".into()),
                _ => delimiter.push(c),
            }
        }
        if delimiter.is_empty() || delimiter.contains(['\n', '\\', '$', '`']) {
            return Err("a here-document's end is not plain text".into());
        }
        let body = Rc::new(OnceCell::new());
        self.documents.push(Document { delimiter, strips, raw, body: body.clone() });
        Ok(Redirect::Text(body, is_input))
    }

    /// Reads the text of the here-documents announced by the previous line.
    fn read_documents(&mut self) -> ParseResult<()> {
        for document in std::mem::take(&mut self.documents) {
            let mut body = String::new();
            loop {
                let rest = self.rest();
                let Some((line, _)) =
                    rest.split_once('\n').or((!rest.is_empty()).then_some((rest, "")))
                else {
                    return Err("a here-document has no end".into());
                };
                self.at = (self.at + line.len() + 1).min(self.text.len());
                let line = if document.strips { line.trim_start_matches('\t') } else { line };
                if line == document.delimiter {
                    break;
                }
                // Within a substitution, bash may end the text at such a line too.
                if self.substitutions > 0
                    && line.starts_with(&document.delimiter)
                    && line.contains(')')
                {
                    return Err("a here-document in a substitution has no clear end".into());
                }
                if !document.raw && line.ends_with('\\') {
                    return Err("a line of a here-document continues on the next".into());
                }
                body.push_str(line);
                body.push('\n');
            }
            let word = if document.raw {
                ShellWord {
                    pieces: vec![crate::shell::tree::WordPart::Quoted(body.clone())],
                    source: body,
                }
            } else {
                crate::shell::words::of_document(&body, self.depth, self.budget)?
            };
            _ = document.body.set(word);
        }
        Ok(())
    }

    /// Commands between `$(` or `<(` and their end.
    pub(crate) fn substituted(&mut self) -> ParseResult<Node> {
        if !self.documents.is_empty() {
            return Err("a here-document begins before a substitution on its line".into());
        }
        let mut done = vec![];
        self.substitutions += 1;
        self.deeper(|parser| parser.list(&mut done, &[]))?;
        self.substitutions -= 1;
        if !self.documents.is_empty() {
            return Err("a here-document has no end".into());
        }
        self.expect(")")?;
        Ok(Node::Sequence(done))
    }
}

/// True for characters that end a word.
pub(crate) fn is_meta(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '|' | '&' | ';' | '(' | ')' | '<' | '>')
}

/// True for a path that expands to itself, however often.
fn is_plain_path(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "._/-+,@%".contains(c))
}

fn starts_process(text: &str) -> bool {
    text.starts_with("<(") || text.starts_with(">(")
}

/// `{name}` before an arrow is a descriptor with a number assigned at run time; so is `{name[subscript]}`.
fn names_a_descriptor(word: &str) -> bool {
    word.starts_with('{') && word.ends_with('}')
}

/// True for commands whose arguments may be assignments.
pub(crate) fn is_declaration(name: &str) -> bool {
    matches!(name, "export" | "declare" | "typeset" | "local" | "readonly")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, error: Option<&str>) {
        let script = parse_within(text, 0, &Budget::default());
        assert_eq!(script.error.as_deref(), error, "{text}");
    }

    #[test]
    fn parser_accepts_bash_syntax() {
        for text in [
            "ls; ls & ls && ls || ! ls | ls |& ls",
            "{ ls; } > a 2>&1; (ls) 3<> b; > c; ls &>> d <<< x",
            "if a; then b; elif c; then d; else e; fi",
            "for x in a b; do c; done; for x; do c; done; while a; do b; done; until a; do b; done",
            "case $x in (a|b) c;; d) e;& *) ;; esac",
            "f() { a; }; function g { b; }; h() ( c )",
            "[[ -f a && ( $b == c* || ! $d =~ ^(e|f)$ ) ]]",
            "a=1 b+=2 c=(1 $x) d[0]=e ls",
            "cat <<A - <<-'B'\nx $(ls)\nA\n\ty\n\tB\nls # comment",
            "time { ls; }; time -p ls; select x in a; do ls; done",
            "",
            "# comment",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn parser_refuses_doubtful_syntax_with_a_reason() {
        check("ls )", Some("expected a command, found `)`"));
        check("if a; fi", Some("expected a command, found `fi`"));
        check("ls (a)", Some("unexpected `ls`"));
        check("coproc ls", Some("`coproc` starts a process that keeps running"));
        check("ls {x}> a", Some("a redirection names its descriptor by a variable"));
        check("{x}> a", Some("a redirection names its descriptor by a variable"));
        check("ls >& a.txt", None);
        check("ls >&- 2>&- <&-", None);
        check(">&-bash ls", Some("`>&-` is not apart from the next word"));
        check("ls >& '$(b)'", Some("where `>&'$(b)'` leads is not known"));
        check("ls >&\\\n-bash x", Some("an operator may continue on the next line"));
        check("ls &\\\n>x y", Some("an operator may continue on the next line"));
        check("(\\\n(echo))", Some("an operator may continue on the next line"));
        check("ls && \\\n ls | \\\n ls \\\n -l", None);
        check("[[ a =~ (b ]] ; x", Some("a regular expression holds a blank in parentheses"));
        check("[[ a =~ ^(b|c)$ ]]", None);
        check("[[ a == @(b ]] ; x", Some("there is a list of patterns in `[[ … ]]`"));
        check(": {a[b]}>f", Some("a redirection names its descriptor by a variable"));
        check(": {a[$(b)]}<f", Some("a redirection names its descriptor by a variable"));
        check("[[ -n a # ]] ; x", Some("there is a comment in `[[ … ]]`"));
        check(
            ": $(cat <<A\nA x )\nA\n)",
            Some("a here-document in a substitution has no clear end"),
        );
        check("cat <<A\nx", Some("a here-document has no end"));
        check("cat <<$x\n", Some("a here-document's end is not plain text"));
        check("ls &&", Some("a command is missing"));
        check("ls;; ls", Some("expected a command, found `;`"));
        check("f() ls", Some("the function `f` has no body in braces"));
        check(&"(".repeat(100), Some("`((` is never closed"));
        check(&"( ".repeat(100), Some("it is nested too deeply"));
    }
}
