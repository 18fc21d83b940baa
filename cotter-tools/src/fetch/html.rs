//! Converts an HTML page to readable text: tags are dropped, links kept as text. Small and
//! tolerant; unknown constructs are skipped.

use reqwest::Url;

/// Elements whose content is skipped.
const SKIPPED: [&str; 9] =
    ["script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "select"];
/// Elements on their own lines.
const BLOCKS: [&str; 34] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "html",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tr",
    "ul",
];
/// Character entities.
const ENTITIES: [(&str, char); 22] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("mdash", '—'),
    ("ndash", '–'),
    ("hellip", '…'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("bull", '•'),
    ("middot", '·'),
    ("copy", '©'),
    ("reg", '®'),
    ("trade", '™'),
    ("times", '×'),
    ("deg", '°'),
];
/// The longest link that is shown.
const LINK_CHARS: usize = 500;

/// The text of a page. Links are shown with their absolute address.
pub(crate) fn to_text(page: &str, base: &Url) -> String {
    let mut text = Text { room: 2 * page.len(), ..Text::default() };
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        text.add_text(&rest[..at]);
        rest = &rest[at..];
        match Tag::parse(rest) {
            None => {
                text.add_text("<");
                rest = &rest[1..];
            }
            Some((tag, after)) => {
                rest = after;
                if !tag.closes && SKIPPED.contains(&&*tag.name) {
                    rest = skip_element(after, &tag.name);
                } else {
                    text.add_tag(&tag, base);
                }
            }
        }
    }
    text.add_text(rest);
    text.finish()
}

/// The text after the end of a skipped element.
fn skip_element<'a>(rest: &'a str, name: &str) -> &'a str {
    let mut from = 0;
    while let Some(at) = rest[from..].find("</").map(|at| at + from) {
        let found = rest.as_bytes().get(at + 2..at + 2 + name.len());
        if found.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes())) {
            return rest[at..].find('>').map_or("", |end| &rest[at + end + 1..]);
        }
        from = at + 2;
    }
    ""
}

/// A tag. Comments and similar constructs have an empty name.
#[derive(Debug, Default)]
struct Tag {
    name: String,
    closes: bool,
    href: Option<String>,
    alt: Option<String>,
}

impl Tag {
    /// Parses a tag at the start of a text; `None` if there is none.
    fn parse(text: &str) -> Option<(Tag, &str)> {
        if let Some(comment) = text.strip_prefix("<!--") {
            let after = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            return Some((Tag::default(), after));
        }
        let inner = &text[1..];
        let closes = inner.starts_with('/');
        let named = inner.trim_start_matches('/');
        if !named.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?')) {
            return None;
        }
        let end = named.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/'));
        let (name, mut rest) = named.split_at(end.unwrap_or(named.len()));
        let mut tag = Tag { name: name.to_ascii_lowercase(), closes, ..Tag::default() };
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
            if rest.is_empty() {
                return Some((tag, ""));
            }
            if let Some(after) = rest.strip_prefix('>') {
                return Some((tag, after));
            }
            let (key, value, after) = attribute(rest);
            match key.to_ascii_lowercase().as_str() {
                "href" => tag.href = Some(decode_entities(value)),
                "alt" => tag.alt = Some(decode_entities(value)),
                _ => {}
            }
            rest = after;
        }
    }
}

/// The first attribute: its name, its value, and the rest. Always consumes something.
fn attribute(text: &str) -> (&str, &str, &str) {
    let stops = |c: char| c.is_whitespace() || matches!(c, '=' | '>' | '/');
    let first = text.chars().next().map_or(0, char::len_utf8);
    let end = text[first..].find(stops).map_or(text.len(), |at| at + first);
    let (key, rest) = text.split_at(end);
    let Some(rest) = rest.trim_start().strip_prefix('=') else { return (key, "", rest) };
    let rest = rest.trim_start();
    for quote in ['"', '\''] {
        if let Some(quoted) = rest.strip_prefix(quote) {
            let (value, after) = quoted.split_once(quote).unwrap_or((quoted, ""));
            return (key, value, after);
        }
    }
    let end = rest.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(rest.len());
    (key, &rest[..end], &rest[end..])
}

/// A text with its entities decoded.
fn decode_entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.bytes().take(12).position(|byte| byte == b';');
        match end.and_then(|end| Some((character(&rest[..end])?, end))) {
            Some((character, end)) => {
                out.push(character);
                rest = &rest[end + 1..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return char::from_u32(code.ok()?);
    }
    ENTITIES.iter().find(|(entity, _)| *entity == name).map(|(_, character)| *character)
}

/// The output text: spaces are joined, empty lines are limited.
#[derive(Default)]
struct Text {
    out: String,
    /// The longest text that still gets link addresses, so that a page of links does not grow
    /// without limit.
    room: usize,
    /// True if a space is needed before the next word.
    space: bool,
    /// The number of line breaks needed before the next word.
    breaks: usize,
    /// The number of open `pre` elements: in them spaces and line breaks stay.
    pre: usize,
    /// The target of the open link, and the start of its text. Links are not nested.
    link: Option<(String, usize)>,
}

impl Text {
    fn add_text(&mut self, raw: &str) {
        let text = decode_entities(raw);
        if self.pre > 0 {
            for (index, line) in text.split('\n').enumerate() {
                if index > 0 {
                    self.out.push('\n');
                }
                if !line.trim().is_empty() {
                    self.begin();
                    self.out.push_str(line.trim_end_matches('\r'));
                }
            }
            return;
        }
        for (index, word) in text.split(char::is_whitespace).enumerate() {
            self.space |= index > 0;
            if !word.is_empty() {
                self.begin();
                self.out.push_str(word);
            }
        }
    }

    /// Writes the needed space or line breaks.
    fn begin(&mut self) {
        let (breaks, space) = (std::mem::take(&mut self.breaks), std::mem::take(&mut self.space));
        if self.out.is_empty() {
            return;
        }
        if breaks > 0 {
            self.out.extend(std::iter::repeat_n('\n', breaks));
        } else if space && !self.out.ends_with(char::is_whitespace) {
            self.out.push(' ');
        }
    }

    fn need_breaks(&mut self, breaks: usize) {
        self.breaks = self.breaks.max(breaks);
    }

    fn add_tag(&mut self, tag: &Tag, base: &Url) {
        let name = tag.name.as_str();
        if BLOCKS.contains(&name) {
            let is_compact = matches!(name, "li" | "tr" | "dt" | "dd");
            self.need_breaks(if is_compact { 1 } else { 2 });
        }
        match (name, tag.closes) {
            ("br", _) => self.need_breaks(1),
            ("title", _) => self.need_breaks(2),
            ("td" | "th", true) => self.add_mark(" | "),
            ("li", false) => self.add_mark("- "),
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                let depth = usize::from(name.as_bytes()[1] - b'0');
                self.add_mark(&format!("{} ", "#".repeat(depth)));
            }
            ("pre", false) => self.pre += 1,
            ("pre", true) => self.pre = self.pre.saturating_sub(1),
            ("img", false) => {
                if let Some(alt) = tag.alt.as_deref().filter(|alt| !alt.trim().is_empty()) {
                    self.add_text(&format!("[{}]", alt.trim()));
                }
            }
            ("a", false) => {
                self.end_link();
                let link = tag.href.as_deref().and_then(|href| link_target(href, base));
                self.link = link.map(|link| (link, self.out.len()));
            }
            ("a", true) => self.end_link(),
            _ => {}
        }
    }

    fn add_mark(&mut self, mark: &str) {
        self.begin();
        self.out.push_str(mark);
    }

    /// Writes a link's target after its text, if it has text.
    fn end_link(&mut self) {
        if let Some((link, from)) = self.link.take()
            && self.out.len() > from
            && self.out.len() < self.room
            && !self.out[from..].contains(&*link)
        {
            self.out.push_str(&format!(" ({link})"));
        }
    }

    fn finish(mut self) -> String {
        self.end_link();
        let lines = self.out.lines().map(|line| line.trim_end_matches([' ', '|']).trim_end());
        let mut text = String::with_capacity(self.out.len());
        let mut empty = 0;
        for line in lines {
            empty = if line.is_empty() { empty + 1 } else { 0 };
            if empty <= 1 {
                text.push_str(line);
                text.push('\n');
            }
        }
        text.trim_matches('\n').to_owned()
    }
}

/// The absolute address of a link that leads out of the page.
fn link_target(href: &str, base: &Url) -> Option<String> {
    let url = base.join(href.trim()).ok()?;
    let is_same_page = href.trim_start().starts_with('#');
    let link = url.to_string();
    (!is_same_page
        && matches!(url.scheme(), "http" | "https" | "mailto")
        && link.len() <= LINK_CHARS)
        .then_some(link)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(page: &str, expected: Expect) {
        let base = Url::parse("https://example.com/docs/").unwrap();
        expected.assert_eq(&to_text(page, &base));
    }

    #[test]
    fn page_becomes_readable_text() {
        check(
            "<!DOCTYPE html><html><head><title>Tea &amp; cake</title><style>p{}</style>\
             <script>if (a < b) { '</p>' }</script></head><body>\n<h1>Tea</h1>\n<p>At <b>four</b>\n\
             o&#39;clock, &#x201c;sharp&#x201d;.<br>Bring\n   <a href=\"cake.html\">cake</a>, or \
             <a href='#top'>nothing</a>.</p><ul><li>milk</li><li>sugar</li></ul>\
             <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>\
             <pre>fn main() {\n    x\n}</pre><!-- <p>no</p> --><img src=x alt='a cup'></body>",
            expect![[r#"
                Tea & cake

                # Tea

                At four o'clock, “sharp”.
                Bring cake (https://example.com/docs/cake.html), or nothing.

                - milk
                - sugar

                a | b
                1 | 2

                fn main() {
                    x
                }

                [a cup]"#]],
        );
    }

    #[test]
    fn broken_html_is_read_as_far_as_possible() {
        check(
            "a < b && c > d <3 &unknown; &#xffffffff; <",
            expect!["a < b && c > d <3 &unknown; &#xffffffff; <"],
        );
        check(
            "<p>one<p>two</b></i><a href=x>three",
            expect![[r#"
                one

                twothree (https://example.com/docs/x)"#]],
        );
        check("<script>never closed <p>text", expect![[""]]);
        check(
            "<a href=\"javascript:alert(1)\">click</a> <a href>empty</a> <p class=a=b=>x",
            expect![[r#"
                click empty (https://example.com/docs/)

                x"#]],
        );
        check("", expect![[""]]);
    }

    #[test]
    fn page_of_open_tags_is_read_in_linear_time() {
        let page = "<a href=x><".repeat(100_000);
        let base = Url::parse("https://example.com/").unwrap();
        let text = to_text(&page, &base);
        assert!(text.starts_with("< (https://example.com/x)< ("), "{}", &text[..50]);
        assert!(text.len() < 3 * page.len(), "{}", text.len());
    }
}
