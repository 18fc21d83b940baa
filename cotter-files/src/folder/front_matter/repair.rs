//! Lenient readers for front matter that is not YAML: with values in quotes, or line by line.

use crate::folder::front_matter::{FieldError, YamlField, YamlFields, YamlValue};
use cotter::text;

/// Quotes the values that YAML misreads and replaces tabs at the start of lines; `None` if nothing changes.
pub(crate) fn quote(front: &str) -> Option<String> {
    let lines: Vec<_> = front.lines().map(quote_line).collect();
    let out = lines.join("\n") + "\n";
    let changed = !front.lines().eq(out.lines());
    changed.then_some(out)
}

/// Quotes the value of a line if the value needs quotes.
fn quote_line(line: &str) -> String {
    let content = line.trim_start_matches([' ', '\t']);
    let indent = line[..line.len() - content.len()].replace('\t', "  ");
    if content.is_empty() || content.starts_with('#') {
        return format!("{indent}{content}");
    }
    let dash = content.len() - content.trim_start_matches("- ").len();
    let (dashes, rest) = content.split_at(dash);
    let (key, value) = match split_key(rest) {
        Some((key, value)) => (format!("{key}: "), value),
        None if dash > 0 => (String::new(), rest),
        None => return format!("{indent}{content}"),
    };
    match needs_quotes(value) {
        true => format!("{indent}{dashes}{key}'{}'", value.trim().replace('\'', "''")),
        false => format!("{indent}{dashes}{key}{value}"),
    }
}

/// Splits a line into a key and the text after its colon.
fn split_key(line: &str) -> Option<(&str, &str)> {
    let in_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let (key, value) = line.split_once(':')?;
    let has_space = value.is_empty() || value.starts_with([' ', '\t']);
    (has_space && !key.is_empty() && key.chars().all(in_key)).then(|| (key, value.trim()))
}

/// True if YAML would misread an unquoted value.
fn needs_quotes(value: &str) -> bool {
    let Some(first) = value.chars().next() else { return false };
    let is_whole = |open: char, close: char| {
        value.len() > 1 && value.starts_with(open) && value.ends_with(close)
    };
    match first {
        '"' => !is_whole('"', '"'),
        '\'' => !is_whole('\'', '\''),
        '[' => !closes_at_end(value, '[', ']'),
        // A placeholder of a template that was never filled in.
        '{' if value.starts_with("{{") => true,
        '{' => !closes_at_end(value, '{', '}'),
        '|' | '>' => !value[1..].chars().all(|c| matches!(c, '+' | '-' | '1'..='9')),
        '*' | '&' | '!' | '@' | '%' | '`' | ',' | ']' | '}' => true,
        _ => {
            value.contains(": ")
                || value.ends_with(':')
                || value.contains(" #")
                || value.contains('\t')
        }
    }
}

/// True if the last character of a value closes its first bracket: `[a] [b]` is not a list.
fn closes_at_end(value: &str, open: char, close: char) -> bool {
    let mut depth = 0_usize;
    for (at, char) in value.char_indices() {
        if char == open {
            depth += 1;
        } else if char == close {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at + 1 == value.len();
            }
        }
    }
    false
}

/// Reads lines `key: value`, with the lists and texts below them. A nested value becomes `Unread`.
pub(crate) fn read_lines(front: &str, after: usize) -> Result<YamlFields, FieldError> {
    let mut fields: Vec<YamlField> = vec![];
    let mut below: Vec<(usize, &str)> = vec![];
    for (number, line) in (after + 1..).zip(front.lines()) {
        let is_top = !line.starts_with([' ', '\t', '-']);
        if line.trim().is_empty() || (is_top && line.starts_with('#')) {
            below.push((number, ""));
            continue;
        }
        if !is_top && !fields.is_empty() {
            below.push((number, line));
            continue;
        }
        let Some((key, value)) = split_key(line) else {
            let shown = text::cut_chars(&text::show_line(line), 40).into_owned();
            return Err(FieldError::new(number, format!("`{shown}` is not `key: value`")));
        };
        if fields.iter().any(|field| field.key == key) {
            return Err(FieldError::new(number, format!("duplicate key `{key}`")));
        }
        append_lines(&mut fields, std::mem::take(&mut below));
        fields.push(YamlField {
            key: key.to_owned(),
            line: number,
            value: read_inline(value, number),
        });
    }
    append_lines(&mut fields, below);
    Ok(YamlFields(fields))
}

/// Reads a value on the line of its key.
fn read_inline(value: &str, line: usize) -> YamlValue {
    match value {
        "" => YamlValue::Empty,
        "true" => YamlValue::Flag(true),
        "false" => YamlValue::Flag(false),
        _ => match value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
            Some(list) if !list.contains(['[', '{']) => {
                let words = list.split(',').map(unquote).filter(|word| !word.is_empty());
                YamlValue::List(words.map(|word| (line, YamlValue::Text(word))).collect())
            }
            _ if value.starts_with(['[', '{']) && !value.starts_with("{{") => YamlValue::Unread,
            _ => YamlValue::Text(unquote(value)),
        },
    }
}

fn unquote(value: &str) -> String {
    let value = value.trim();
    let within = |mark: char| {
        value.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark)).map(str::to_owned)
    };
    within('"').or_else(|| within('\'')).unwrap_or_else(|| value.to_owned())
}

/// Adds the lines below a key to the value of the last field.
fn append_lines(fields: &mut [YamlField], below: Vec<(usize, &str)>) {
    let Some(field) = fields.last_mut() else { return };
    let lines: Vec<_> = below.iter().filter(|(_, line)| !line.is_empty()).collect();
    if lines.is_empty() {
        return;
    }
    field.value = match &field.value {
        YamlValue::Empty => read_list(&lines),
        YamlValue::Text(mark) if mark.starts_with(['|', '>']) && mark.len() <= 3 => {
            let trimmed: Vec<_> = lines.iter().map(|(_, line)| line.trim()).collect();
            YamlValue::Text(trimmed.join(if mark.starts_with('|') { "\n" } else { " " }))
        }
        YamlValue::Text(text) => {
            let more = lines.iter().map(|(_, line)| line.trim());
            YamlValue::Text(
                std::iter::once(text.as_str()).chain(more).collect::<Vec<_>>().join(" "),
            )
        }
        _ => YamlValue::Unread,
    };
}

/// Reads lines as a list of plain texts; anything else becomes `Unread`.
fn read_list(lines: &[&(usize, &str)]) -> YamlValue {
    let item = |(number, line): &&(usize, &str)| {
        let text = line.trim().strip_prefix("- ")?.trim();
        let is_plain = split_key(text).is_none() && !text.starts_with(['[', '{', '-']);
        is_plain.then(|| (*number, YamlValue::Text(unquote(text))))
    };
    lines.iter().map(item).collect::<Option<Vec<_>>>().map_or(YamlValue::Unread, YamlValue::List)
}
