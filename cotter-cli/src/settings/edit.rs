//! Edits of the person's own settings file, at their request. Comments in the file stay.

use std::{
    fs, io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use cotter_files::{
    document::Document,
    settings::{Settings, SettingsOwner, SourcedText},
};
use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstRootNode},
};

use crate::{error::CliError, paths};

/// Edits the file and returns its path. The file is written only if the result can be parsed and
/// `is_valid` accepts it; otherwise it stays the same.
pub(crate) fn edit_settings(
    edit: impl FnOnce(&str) -> Option<String>,
    is_valid: impl FnOnce(&Settings) -> bool,
) -> Result<PathBuf, CliError> {
    let path = paths::user_settings().ok_or_else(paths::no_config)?;
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => "{\n}\n".into(),
        Err(cause) => {
            return Err(CliError::new(format!("cannot read {}", path.display())).with_cause(cause));
        }
    };
    let cannot_edit =
        || CliError::new(format!("cannot edit {}; the file is unchanged", path.display()));
    let after = edit(&before).ok_or_else(cannot_edit)?;
    let document = Document::parse(&path.display().to_string(), &after)?;
    if !is_valid(&Settings::from_document(&document, SettingsOwner::User)?) {
        return Err(cannot_edit());
    }
    paths::write_private(&path, after.as_bytes())?;
    Ok(path)
}

/// The allow rules that a person stored through this process. They need no second confirmation.
static STORED_RULES: Mutex<Vec<String>> = Mutex::new(vec![]);

/// Returns the allow rules that a person stored through this process.
pub(crate) fn stored_rules() -> Vec<String> {
    STORED_RULES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Removes rules from the stored rules, after the person took them out of their settings.
pub(crate) fn forget_rules<'r>(rules: impl Iterator<Item = &'r String>) {
    let removed: Vec<_> = rules.collect();
    let mut stored = STORED_RULES.lock().unwrap_or_else(PoisonError::into_inner);
    stored.retain(|rule| !removed.contains(&rule));
}

/// Adds allow rules. Rules that the file has already are not added again.
pub(crate) fn allow(rules: &[String]) -> Result<PathBuf, CliError> {
    let has = |list: &[SourcedText], rule: &String| list.iter().any(|known| known.text == *rule);
    let path = edit_settings(
        |text| with_rules(text, rules),
        |settings| rules.iter().all(|rule| has(&settings.permissions.allow, rule)),
    )?;
    STORED_RULES.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(rules);
    Ok(path)
}

/// Removes an allow rule from the list, also if it occurs twice.
pub(crate) fn revoke(rule: &str) -> Result<PathBuf, CliError> {
    let is_removed = |list: &[SourcedText]| list.iter().all(|known| known.text != rule);
    edit_settings(
        |text| without_rule(text, rule),
        |settings| is_removed(&settings.permissions.allow),
    )
}

/// Stores whether files for Claude Code in the home folder are used.
pub(crate) fn store_home_choice(answer: bool) -> Result<PathBuf, CliError> {
    let edit = |text: &str| {
        let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
        let claude = root.object_value_or_create()?.object_value_or_create("claude")?;
        claude.append("home", CstInputValue::Bool(answer));
        Some(root.to_string())
    };
    edit_settings(edit, |settings| settings.claude.home == Some(answer))
}

/// Stores the person's choice of a model in their settings. Returns the file.
pub(crate) fn store_model(name: &str) -> Result<PathBuf, CliError> {
    let is_stored = |settings: &Settings| settings.model.as_ref().is_some_and(|m| m.text == name);
    edit_settings(|text| Some(with_model(text, name)), is_stored)
}

fn with_rules(text: &str, rules: &[String]) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let permissions = root.object_value_or_create()?.object_value_or_create("permissions")?;
    let allow = permissions.array_value_or_create("allow")?;
    let known: Vec<_> = allow.elements().iter().filter_map(rule_of).collect();
    allow.ensure_multiline();
    for rule in rules.iter().filter(|rule| !known.contains(rule)) {
        allow.append(CstInputValue::String(rule.clone()));
    }
    Some(root.to_string())
}

fn without_rule(text: &str, rule: &str) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let allow = root.object_value()?.object_value("permissions")?.array_value("allow")?;
    let find_rule = |allow: &CstArray| {
        allow.elements().into_iter().find(|node| rule_of(node).as_deref() == Some(rule))
    };
    while let Some(node) = find_rule(&allow) {
        node.remove();
    }
    Some(root.to_string())
}

/// Returns the rule of a list element: its text, or the text of its `rule`.
fn rule_of(node: &CstNode) -> Option<String> {
    let text = match node.as_object() {
        Some(object) => object.get("rule")?.value()?,
        None => node.clone(),
    };
    text.as_string_lit()?.decoded_value().ok()
}

/// Inserts a model into a settings file that names none. Comments stay.
fn with_model(text: &str, name: &str) -> String {
    let open = after_root_brace(text);
    let name = serde_json::Value::from(name);
    let (before, after) = text.split_at(open);
    let is_empty = after.trim_start().starts_with('}');
    let comma = if is_empty { "" } else { "," };
    let end = if after.starts_with('\n') { "" } else { "\n" };
    format!("{before}\n  \"model\": {name}{comma}{end}{after}")
}

/// Returns the byte position after the brace of the outermost object.
fn after_root_brace(text: &str) -> usize {
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
    use super::*;

    #[test]
    fn l14_rule_is_added_and_removed_and_comments_stay() {
        let rules = ["bash(cargo test *)".to_owned(), "read(./a)".to_owned()];
        let cases = [
            "{\n}\n",
            "{}",
            "// mine\n{ \"model\": \"rehearsal\" }\n",
            "{\n  \"permissions\": { \"allow\": [\"read(./a)\"] } // so\n}\n",
            "{\n  \"permissions\": {\n    \"allow\": [\n      // first\n      \"bash(ls *)\", // listing\n    ],\n    \"deny\": [],\n  },\n}\n",
            "{ \"permissions\": { \"allow\": [{\"rule\": \"read(./a)\", \"match\": [\"a\"]}] } }",
        ];
        for before in cases {
            let after = with_rules(before, &rules).unwrap();
            let read = |text: &str| {
                let document = Document::parse("s", text).unwrap();
                let settings = Settings::from_document(&document, SettingsOwner::User).unwrap();
                let allow = settings.permissions.allow.into_iter();
                allow.map(|written| written.text).collect::<Vec<_>>()
            };
            for rule in &rules {
                assert_eq!(
                    read(&after).iter().filter(|known| *known == rule).count(),
                    1,
                    "{after}"
                );
            }
            for comment in ["// mine", "// so", "// first", "// listing"] {
                assert_eq!(before.contains(comment), after.contains(comment), "{after}");
            }
            let back = without_rule(&after, "bash(cargo test *)").unwrap();
            assert!(!back.contains("cargo"), "{back}");
            assert!(read(&back).contains(&"read(./a)".to_owned()), "{back}");
        }
        assert_eq!(with_rules("[]", &rules), None);
        assert_eq!(with_rules(r#"{"permissions": []}"#, &rules), None);
    }

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
