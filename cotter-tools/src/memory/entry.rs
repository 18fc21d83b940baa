//! One memory entry as a file that a person can read and edit: front matter, then the text.

use cotter::{history::entry::Timestamp, text};

/// An entry and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) created: String,
    pub(crate) session: String,
    pub(crate) agent: String,
    /// Its author: `model`, or `person` for a file made by hand.
    pub(crate) origin: String,
    pub(crate) tags: Vec<String>,
    /// True if it may contain a secret.
    pub(crate) secret: bool,
    pub(crate) text: String,
}

const FENCE: &str = "---";

impl Entry {
    /// The file content of the entry.
    pub(crate) fn to_file(&self) -> String {
        let Entry { id, created, .. } = self;
        let [session, agent] = [&self.session, &self.agent].map(|word| text::show_line(word));
        let (origin, tags, secret) = (&self.origin, self.tags.join(", "), self.secret);
        format!(
            "{FENCE}\nid: {id}\ncreated: {created}\nsession: {session}\nagent: {agent}\norigin: \
             {origin}\ntags: [{tags}]\nsecret: {secret}\n{FENCE}\n\n{}\n",
            self.text
        )
    }

    /// Parses a file. Unknown keys are ignored. A file without `secret` counts as secret.
    pub(crate) fn parse(file: &str) -> Result<Self, String> {
        let file = file.strip_prefix('\u{feff}').unwrap_or(file);
        let mut rest = file;
        let mut line = || -> Option<&str> {
            let (line, after) = rest.split_once('\n')?;
            rest = after;
            Some(line.trim_end())
        };
        if line() != Some(FENCE) {
            return Err("it does not begin with `---`".into());
        }
        let mut entry = Entry {
            id: String::new(),
            created: String::new(),
            session: String::new(),
            agent: String::new(),
            origin: "person".into(),
            tags: vec![],
            secret: true,
            text: String::new(),
        };
        loop {
            match line() {
                None => return Err("its front matter has no end".into()),
                Some(FENCE) => break,
                Some(line) => entry.set(line)?,
            }
        }
        if entry.id.is_empty() {
            return Err("its front matter has no `id`".into());
        }
        entry.text = rest.trim().to_owned();
        match entry.text.is_empty() {
            true => Err("there is no text below its front matter".into()),
            false => Ok(entry),
        }
    }

    fn set(&mut self, line: &str) -> Result<(), String> {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            return Ok(());
        }
        let shown = || text::cut_chars(&text::show_line(line), 60).into_owned();
        let (key, value) =
            line.split_once(':').ok_or_else(|| format!("`{}` is not `key: value`", shown()))?;
        let value = without_quotes(value.trim());
        match key.trim() {
            "id" if is_id(value) => self.id = value.into(),
            "secret" => {
                self.secret =
                    value.parse().map_err(|_| format!("`{}` is not `true` or `false`", shown()))?;
            }
            "created" if Timestamp::parse(value).is_some() => self.created = value.into(),
            key @ ("id" | "created") => {
                return Err(format!("`{}` is not a valid `{key}`", shown()));
            }
            "session" => self.session = value.into(),
            "agent" => self.agent = value.into(),
            "origin" => self.origin = value.into(),
            "tags" => self.tags = tags(value),
            _ => {}
        }
        Ok(())
    }
}

fn without_quotes(value: &str) -> &str {
    let within = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

fn tags(value: &str) -> Vec<String> {
    let list = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(value);
    let tags = list.split(',').map(|tag| without_quotes(tag.trim()));
    tags.filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
}

/// True if a text is a valid id: letters, digits, `-` and `_`.
pub(crate) fn is_id(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=64).contains(&text.len()) && text.chars().all(is_plain)
}

/// True if a text is a valid tag: without characters that would end it in the file.
pub(crate) fn is_tag(text: &str) -> bool {
    let fits = (1..=40).contains(&text.chars().count()) && text.trim() == text;
    fits && !text.contains([',', '[', ']', '"', '\'']) && text::show_line(text) == text
}
