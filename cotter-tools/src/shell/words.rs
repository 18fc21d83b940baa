//! Parses the words of a command line: quotes, escapes and expansions, by bash's rules. Pure.

use crate::shell::{
    parse::{Budget, Parser, Reason, is_meta, parse_within},
    tree::{Node, ShellWord, WordPart},
};

type WordParseResult<T> = Result<T, Reason>;

/// The text of a here-document with an unquoted delimiter: expansions are active, quotes are
/// literal.
pub(crate) fn of_document(text: &str, depth: usize, budget: &Budget) -> WordParseResult<ShellWord> {
    let mut parser = Parser::new(text, depth, budget);
    let mut pieces = Pieces::default();
    while let Some(c) = parser.peek() {
        parser.quoted_piece(c, &mut pieces, Inside::Document)?;
    }
    Ok(ShellWord { source: text.to_owned(), pieces: pieces.done() })
}

/// The surroundings of a text: double quotes, or a here-document, where `"` is literal.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Quotes,
    Document,
}

/// The parts of a word; text of one kind is joined.
#[derive(Default)]
struct Pieces(Vec<WordPart>);

impl Pieces {
    fn bare(&mut self, c: char) {
        match self.0.last_mut() {
            Some(WordPart::Bare(text)) => text.push(c),
            _ => self.0.push(WordPart::Bare(c.into())),
        }
    }

    fn quoted(&mut self, new: &str) {
        match self.0.last_mut() {
            Some(WordPart::Quoted(text)) => text.push_str(new),
            _ => self.0.push(WordPart::Quoted(new.into())),
        }
    }

    fn quoted_char(&mut self, c: char) {
        self.quoted(c.encode_utf8(&mut [0; 4]));
    }

    fn push(&mut self, piece: WordPart) {
        self.0.push(piece);
    }

    fn done(self) -> Vec<WordPart> {
        self.0
    }
}

impl Parser<'_> {
    /// Parses a word. There must be one.
    pub(crate) fn word(&mut self) -> WordParseResult<ShellWord> {
        if !self.at_word() {
            return Err(match self.peek() {
                Some(odd) => format!("expected a word, found `{}`", odd.escape_debug()),
                None => "a word is missing".into(),
            });
        }
        self.word_or_nothing()
    }

    /// Parses a word, or an empty one if none stands here.
    pub(crate) fn word_or_nothing(&mut self) -> WordParseResult<ShellWord> {
        let start = self.at;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+^".contains(c);
        let end = self.rest().find(|c| !plain(c)).unwrap_or(self.rest().len());
        if end > 0 && self.rest()[end..].chars().next().is_none_or(is_blank_end) {
            self.at += end;
            let text = self.text[start..self.at].to_owned();
            return Ok(ShellWord { pieces: vec![WordPart::Bare(text.clone())], source: text });
        }
        let mut pieces = Pieces::default();
        while let Some(c) = self.peek() {
            if self.sees("<(") || self.sees(">(") {
                self.at += 2;
                pieces.push(WordPart::Process(self.substituted()?));
                continue;
            }
            if is_meta(c) {
                break;
            }
            self.piece(c, &mut pieces)?;
        }
        let word =
            ShellWord { source: self.text[start..self.at].to_owned(), pieces: pieces.done() };
        // Joined lines may form an assignment or a name that did not look like one.
        let plain = |piece: &WordPart| match piece {
            WordPart::Bare(text) => {
                !text.contains(['=', '$', '{', '}', '~', '*', '?', '[', ']', '!'])
            }
            piece => matches!(piece, WordPart::Quoted(_)),
        };
        let joined = word.source.contains("\\\n");
        let number = word.source.starts_with(|c: char| c.is_ascii_digit());
        if joined && (number || !word.pieces.iter().all(plain)) {
            return Err("a word continues on the next line".into());
        }
        Ok(word)
    }

    /// Parses one part outside quotes.
    fn piece(&mut self, c: char, pieces: &mut Pieces) -> WordParseResult<()> {
        match c {
            '\\' => {
                self.at += 1;
                match self.peek() {
                    Some('\n') => self.at += 1,
                    Some(next) => {
                        self.at += next.len_utf8();
                        pieces.quoted_char(next);
                    }
                    None => return Err("there is a backslash at the end".into()),
                }
            }
            '\'' => {
                self.at += 1;
                let end = self.rest().find('\'').ok_or("a quote is never closed")?;
                pieces.quoted(&self.rest()[..end]);
                self.at += end + 1;
            }
            '"' => self.double_quoted(pieces)?,
            '$' if self.sees("$'") => {
                self.at += 2;
                self.escaped(pieces)?;
            }
            '$' if self.sees("$\"") => {
                self.at += 1;
                self.double_quoted(pieces)?;
            }
            '$' | '`' => self.expansion(c, pieces, false)?,
            _ => {
                self.at += c.len_utf8();
                pieces.bare(c);
            }
        }
        Ok(())
    }

    fn double_quoted(&mut self, pieces: &mut Pieces) -> WordParseResult<()> {
        self.at += 1;
        // Empty quotes are a word too.
        pieces.quoted("");
        loop {
            match self.peek() {
                None => return Err("a quote is never closed".into()),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(c) => self.quoted_piece(c, pieces, Inside::Quotes)?,
            }
        }
    }

    /// Parses one part inside double quotes or a here-document.
    fn quoted_piece(
        &mut self,
        c: char,
        pieces: &mut Pieces,
        inside: Inside,
    ) -> WordParseResult<()> {
        if c == '$' || c == '`' {
            return self.expansion(c, pieces, true);
        }
        self.at += c.len_utf8();
        let next = self.peek().filter(|_| c == '\\');
        match next {
            Some('\n') => self.at += 1,
            Some(next @ ('$' | '`' | '\\')) => {
                self.at += 1;
                pieces.quoted_char(next);
            }
            Some('"') if inside == Inside::Quotes => {
                self.at += 1;
                pieces.quoted("\"");
            }
            _ => pieces.quoted_char(c),
        }
        Ok(())
    }

    /// `$'…'`, after its first quote.
    fn escaped(&mut self, pieces: &mut Pieces) -> WordParseResult<()> {
        pieces.quoted("");
        loop {
            let c = self.peek().ok_or("a quote is never closed")?;
            self.at += c.len_utf8();
            match c {
                '\'' => return Ok(()),
                '\\' => {
                    let decoded = self.escape()?;
                    if decoded.is_control() && decoded != '\n' && decoded != '\t' {
                        return Err("`$'…'` holds a control character".into());
                    }
                    pieces.quoted_char(decoded);
                }
                _ => pieces.quoted_char(c),
            }
        }
    }

    /// The escape after a backslash in `$'…'`. Bash keeps the backslash of an unknown escape; this
    /// is refused.
    fn escape(&mut self) -> WordParseResult<char> {
        let c = self.peek().ok_or("a quote is never closed")?;
        self.at += c.len_utf8();
        let simple = match c {
            'n' => '\n',
            't' => '\t',
            '\\' | '\'' | '"' | '?' => c,
            'x' => return self.code(16, 2),
            'u' => return self.code(16, 4),
            'U' => return self.code(16, 8),
            '0'..='7' => {
                self.at -= 1;
                return self.code(8, 3);
            }
            _ => return Err(format!("`\\{c}` in `$'…'` is an unusual escape")),
        };
        Ok(simple)
    }

    fn code(&mut self, radix: u32, most: usize) -> WordParseResult<char> {
        let digits = self.rest().chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let code = u32::from_str_radix(&self.rest()[..digits], radix).ok();
        self.at += digits;
        let wide = radix == 16 && most > 2;
        // Bytes above ASCII are only a part of a character.
        let decoded = code.filter(|&code| wide || code < 0x80).and_then(char::from_u32);
        decoded.ok_or_else(|| "`$'…'` holds no plain character".into())
    }

    /// `$…` or a back quote.
    fn expansion(&mut self, c: char, pieces: &mut Pieces, quoted: bool) -> WordParseResult<()> {
        if c == '`' {
            let node = self.back_quoted(quoted)?;
            pieces.push(WordPart::Open { within: vec![node], doubt: None, quoted });
            return Ok(());
        }
        self.at += 1;
        if self.sees("((") {
            self.at += 2;
            let (doubt, within) = self.arithmetic()?;
            pieces.push(match doubt {
                // A number, like `$#`.
                None => WordPart::Variable { name: "#".into(), quoted },
                doubt => WordPart::Open { within, doubt, quoted },
            });
        } else if self.sees("(") {
            self.at += 1;
            let node = self.substituted()?;
            pieces.push(WordPart::Open { within: vec![node], doubt: None, quoted });
        } else if self.sees("{") {
            self.at += 1;
            let piece = self.deeper(|parser| parser.braced(quoted))?;
            pieces.push(piece);
        } else if self.sees("[") {
            return Err("`$[…]` evaluates names".into());
        } else {
            match self.name() {
                Some(name) => pieces.push(WordPart::Variable { name, quoted }),
                None => pieces.quoted("$"),
            }
            if self.sees("\\\n") {
                return Err("a variable's name may continue on the next line".into());
            }
        }
        Ok(())
    }

    /// A variable's name, if one stands here: a word, a digit or a sign.
    fn name(&mut self) -> Option<String> {
        let rest = self.rest();
        let c = rest.chars().next()?;
        let length = match c {
            'a'..='z' | 'A'..='Z' | '_' => {
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            '0'..='9' | '@' | '*' | '#' | '?' | '-' | '$' | '!' => 1,
            _ => return None,
        };
        self.at += length;
        Some(rest[..length].to_owned())
    }

    /// `${…}`, after its brace.
    fn braced(&mut self, quoted: bool) -> WordParseResult<WordPart> {
        if self.sees("!") {
            self.at += 1;
            return self.doubtful("`${!…}` names a variable by a variable", quoted);
        }
        let counts = self.sees("#") && !self.sees("#}");
        if counts {
            self.at += 1;
        }
        let mut name = self.name().ok_or("`${` names no variable")?;
        // More than one digit.
        while name.starts_with(|c: char| c.is_ascii_digit())
            && self.peek().is_some_and(|c| c.is_ascii_digit())
        {
            name.extend(self.peek());
            self.at += 1;
        }
        if self.sees("[") {
            let end = self.rest().find(']').ok_or("`[` is never closed")?;
            let subscript = &self.rest()[1..end];
            let plain = matches!(subscript, "@" | "*")
                || subscript == "0"
                || !subscript.is_empty()
                    && !subscript.starts_with('0')
                    && subscript.chars().all(|c| c.is_ascii_digit());
            if !plain {
                let why = format!("the subscript `[{subscript}]` is evaluated");
                return self.doubtful(&why, quoted);
            }
            name = format!("{name}[{subscript}]");
            self.at += end + 1;
        }
        if self.sees("}") {
            self.at += 1;
            return Ok(match counts {
                true => WordPart::Open { within: vec![], doubt: None, quoted },
                false => WordPart::Variable { name, quoted },
            });
        }
        if self.sees("@") {
            return self
                .doubtful(&format!("`${{{name}@…}}` may evaluate what a variable holds"), quoted);
        }
        let assigns = self.sees("=") || self.sees(":=");
        let slice = self.sees(":")
            && !["-", "+", "=", "?"].iter().any(|op| self.rest()[1..].starts_with(op));
        let body = self.at;
        let within = self.braced_rest(quoted)?;
        let text = &self.text[body..self.at - 1];
        let doubt = if slice && text.contains(|c: char| !c.is_ascii_digit() && !": -".contains(c)) {
            Some("a slice of a variable is evaluated".into())
        } else {
            assigns.then(|| format!("`${{{name}=…}}` assigns where it is used"))
        };
        Ok(WordPart::Open { within, doubt, quoted })
    }

    /// The rest of a `${…}` that evaluates an expression.
    fn doubtful(&mut self, why: &str, quoted: bool) -> WordParseResult<WordPart> {
        let within = self.braced_rest(quoted)?;
        Ok(WordPart::Open { within, doubt: Some(why.into()), quoted })
    }

    /// The rest of `${…}` up to its brace, and the commands within.
    fn braced_rest(&mut self, quoted: bool) -> WordParseResult<Vec<Node>> {
        let mut pieces = Pieces::default();
        loop {
            let c = self.peek().ok_or("`${` is never closed")?;
            match c {
                '}' => {
                    self.at += 1;
                    break;
                }
                '\'' if quoted => return Err("there is a single quote within `\"${…}\"`".into()),
                '$' if quoted && self.sees("$'") => {
                    return Err("there is `$'…'` within `\"${…}\"`".into());
                }
                '<' | '>' => return Err("there is a redirection within `${…}`".into()),
                _ => self.piece(c, &mut pieces)?,
            }
        }
        let mut within = vec![];
        for piece in pieces.done() {
            match piece {
                WordPart::Open { within: nodes, doubt: None, .. } => within.extend(nodes),
                WordPart::Open { doubt: Some(doubt), .. } => return Err(doubt),
                _ => {}
            }
        }
        Ok(within)
    }

    /// A command in back quotes. Bash removes some backslashes before it parses it.
    fn back_quoted(&mut self, quoted: bool) -> WordParseResult<Node> {
        self.at += 1;
        let mut inner = String::new();
        loop {
            let c = self.peek().ok_or("a back quote is never closed")?;
            self.at += c.len_utf8();
            match c {
                '`' => break,
                '\\' => match self.peek() {
                    Some(next @ ('$' | '`' | '\\')) => {
                        self.at += 1;
                        inner.push(next);
                    }
                    Some('"') if quoted => {
                        return Err("there are escaped quotes in back quotes".into());
                    }
                    _ => inner.push('\\'),
                },
                _ => inner.push(c),
            }
        }
        self.deeper(|parser| {
            let script = parse_within(&inner, parser.depth, parser.budget);
            script.error.map_or(Ok(Node::Sequence(script.nodes)), Err)
        })
    }

    /// An arithmetic expression up to its `))`: its doubt, and commands within.
    pub(crate) fn arithmetic(&mut self) -> WordParseResult<(Option<Reason>, Vec<Node>)> {
        let (mut open, mut doubt, mut within) = (0usize, None, vec![]);
        loop {
            let c = self.peek().ok_or("`((` is never closed")?;
            match c {
                ')' if open == 0 => {
                    if !self.sees("))") {
                        return Err("`((` is closed by a single `)`".into());
                    }
                    self.at += 2;
                    return Ok((doubt, within));
                }
                '\'' | '"' | '`' | '\\' | '#' | '{' | '}' => {
                    return Err(format!("there is a `{c}` in an arithmetic expression"));
                }
                '$' if self.sees("$(") && !self.sees("$((") => {
                    self.at += 2;
                    doubt = Some("arithmetic evaluates what a command prints".into());
                    within.push(self.substituted()?);
                    continue;
                }
                'a'..='z' | 'A'..='Z' | '_' | '$' => {
                    doubt.get_or_insert_with(|| "arithmetic evaluates what names hold".into());
                }
                '(' => open += 1,
                ')' => open -= 1,
                _ => {}
            }
            self.at += c.len_utf8();
        }
    }

    /// The words of `[[ … ]]` with operators, up to its end.
    pub(crate) fn test_words(&mut self) -> WordParseResult<Vec<ShellWord>> {
        let mut words: Vec<ShellWord> = vec![];
        loop {
            while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\n')) {
                self.at += 1;
            }
            if self.sees("<(") || self.sees(">(") {
                return Err("there is a process substitution in `[[ … ]]`".into());
            }
            if self.sees("#") {
                return Err("there is a comment in `[[ … ]]`".into());
            }
            let regex = words.last().is_some_and(|word| word.bare() == Some("=~"));
            if regex {
                words.push(self.regex()?);
                continue;
            }
            let operator =
                ["&&", "||", "<", ">", "(", ")"].into_iter().find(|sign| self.sees(sign));
            if let Some(sign) = operator {
                self.at += sign.len();
                words.push(ShellWord {
                    source: sign.into(),
                    pieces: vec![WordPart::Bare(sign.into())],
                });
                continue;
            }
            let word = self.word()?;
            if word.bare() == Some("]]") {
                return Ok(words);
            }
            if self.sees("(") {
                return Err("there is a list of patterns in `[[ … ]]`".into());
            }
            words.push(word);
        }
    }

    /// The word after `=~`. Brackets belong to it, blanks end it.
    fn regex(&mut self) -> WordParseResult<ShellWord> {
        let (start, mut pieces) = (self.at, Pieces::default());
        let mut open = 0_usize;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' if open > 0 => {
                    return Err("a regular expression holds a blank in parentheses".into());
                }
                ' ' | '\t' | '\n' => break,
                ';' | '&' | '<' | '>' => {
                    return Err("a regular expression holds an operator".into());
                }
                '(' | ')' | '|' => {
                    open = if c == ')' {
                        open.saturating_sub(1)
                    } else {
                        open + usize::from(c == '(')
                    };
                    self.at += 1;
                    pieces.quoted_char(c);
                }
                _ => self.piece(c, &mut pieces)?,
            }
        }
        Ok(ShellWord { source: self.text[start..self.at].to_owned(), pieces: pieces.done() })
    }
}

/// True where a plain word surely ends: a blank or an operator that cannot continue the word.
fn is_blank_end(c: char) -> bool {
    is_meta(c) && c != '<' && c != '>' && c != '('
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::expand::{self, KnownVariables};

    /// Compares the results of a word, separated by `|`; `?` stands before parts known only at run
    /// time.
    fn check(text: &str, becomes: &str) {
        let known = KnownVariables { home: Some("/home/u"), pwd: None };
        let word = Parser::new(text, 0, &Budget::default()).word().unwrap();
        let fields = expand::fields(&[word], known).unwrap();
        let shown = |field: &expand::Field| {
            if field.is_open() { format!("?{}", field.text) } else { field.text.clone() }
        };
        assert_eq!(fields.iter().map(shown).collect::<Vec<_>>().join("|"), becomes, "{text}");
    }

    #[test]
    fn words_are_unquoted_and_expanded() {
        check("plain", "plain");
        check(r#"r\m"a"'b c'"#, "rmab c");
        check(r"$'a\x62\143\u0064\n'", "abcd\n");
        check(r#"$"a b""#, "a b");
        check(r#""a\$b\c""#, r"a$b\c");
        check("{a,b{c,d}}x", "ax|bcx|bdx");
        check("{1..3}", "1|2|3");
        check("{a}", "{a}");
        check("'{a,b}'", "{a,b}");
        check("~/x", "/home/u/x");
        check("of=~/x", "of=/home/u/x");
        check("--of=~/x", "--of=~/x");
        check("'~'", "~");
        check("$HOME", "/home/u");
        check("\"$x\"", "?\"$x\"");
        check("a$(ls)b", "?a$(ls)b");
        check("~root", "?~root");
        check("\"$@\"", "?\"$@\"");
    }

    #[test]
    fn doubtful_quoting_is_refused() {
        for text in [
            "'a", "\"a", "$(a", "`a", "${a", "$[1]", "$'\\xff'", "$'\\0'", "$'\\q'", "a\\\nb=c",
            "$((a)", "\\",
        ] {
            assert!(Parser::new(text, 0, &Budget::default()).word().is_err(), "{text}");
        }
    }
}
