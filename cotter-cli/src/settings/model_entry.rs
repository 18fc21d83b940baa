//! Writing a person's choice of a model into their settings, where they say so.

use std::path::PathBuf;

use cotter_files::settings::Settings;

use crate::{error::CliError, settings::edit as own_settings};

/// Writes the person's choice of a model into their settings. Gives the file.
pub(crate) fn keep_model(name: &str) -> Result<PathBuf, CliError> {
    let is_so = |settings: &Settings| settings.model.as_ref().is_some_and(|m| m.text == name);
    own_settings::change(|text| Some(with_model(text, name)), is_so)
}

/// A settings file that says nothing of a model, with one in it. Comments stay where they are.
fn with_model(text: &str, name: &str) -> String {
    let open = root(text);
    let name = serde_json::Value::from(name);
    let (before, after) = text.split_at(open);
    let is_empty = after.trim_start().starts_with('}');
    let comma = if is_empty { "" } else { "," };
    let end = if after.starts_with('\n') { "" } else { "\n" };
    format!("{before}\n  \"model\": {name}{comma}{end}{after}")
}

/// Where the outermost object begins: behind its brace.
fn root(text: &str) -> usize {
    let mut at = text.len() - text.trim_start_matches('\u{feff}').len();
    loop {
        let rest = &text[at..];
        at += match rest.as_bytes() {
            [b'{', ..] | [] => return (at + 1).min(text.len()),
            [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
}

#[cfg(test)]
mod tests {
    use cotter_files::{document::Document, settings::SettingsOwner};

    use super::*;

    #[test]
    fn a_model_is_written_into_settings_and_nothing_else_changes() {
        let cases = [
            ("{\n}\n", "{\n  \"model\": \"a/b\"\n}\n"),
            ("{}", "{\n  \"model\": \"a/b\"\n}"),
            (
                "// mine {\n{ /* so */ \"limits\": {} }\n",
                "// mine {\n{\n  \"model\": \"a/b\",\n /* so */ \"limits\": {} }\n",
            ),
            (
                "/* { */ {\n  \"limits\": {}\n}",
                "/* { */ {\n  \"model\": \"a/b\",\n  \"limits\": {}\n}",
            ),
            ("\u{feff}{ // none\n}", "\u{feff}{\n  \"model\": \"a/b\",\n // none\n}"),
        ];
        for (before, after) in cases {
            assert_eq!(with_model(before, "a/b"), after);
            let document = Document::parse("s", after).unwrap();
            let read = Settings::from_document(&document, SettingsOwner::User).unwrap();
            assert_eq!(read.model.unwrap().text, "a/b");
        }
    }
}
