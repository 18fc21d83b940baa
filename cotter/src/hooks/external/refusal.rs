//! Refusals in the words of any dialect. A hook may be written for another program, so its refusal counts
//! wherever it is said; its permission counts only in the words of the dialect that it is read in.

use serde_json::{Map, Value};

use crate::hooks::external::answer::{is_no, is_yes};

/// Words that refuse, in any letter case.
const REFUSALS: [&str; 7] = ["deny", "denied", "block", "blocked", "reject", "refuse", "no"];

/// Keys whose values decide, as a word or as an object with one.
const DECISION_KEYS: [&str; 7] = [
    "permissiondecision",
    "decision",
    "behavior",
    "permission",
    "hookspecificoutput",
    "verdict",
    "action",
];

/// Keys whose values are data of the call, not words of the hook.
const DATA_KEYS: [&str; 7] = [
    "input",
    "modified",
    "updatedinput",
    "updatedtooloutput",
    "updatedmcptooloutput",
    "updatedpermissions",
    "messages",
];

/// Keys whose text is the reason of a refusal, the most specific first.
const REASON_KEYS: [&str; 4] = ["permissiondecisionreason", "reason", "message", "stopreason"];

/// True if a word refuses: `deny`, `block`, `no` and the like, in any letter case.
pub fn is_refusal_word(word: &str) -> bool {
    REFUSALS.contains(&word.trim().to_ascii_lowercase().as_str())
}

/// Finds a refusal in an answer, in the words of any dialect, in any spelling of the keys and at any depth.
/// Returns its reason, which may be empty.
pub fn find_refusal(object: &Map<String, Value>) -> Option<String> {
    let plain_key = |key: &str| -> String {
        let letters = key.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|c| c.to_ascii_lowercase()).collect()
    };
    let members: Vec<_> = object.iter().map(|(key, value)| (plain_key(key), value)).collect();
    let reason = || {
        let text = |name: &str| {
            let mut named = members.iter().filter(|(key, _)| key == name);
            named.find_map(|(_, value)| {
                value.as_str().map(str::trim).filter(|text| !text.is_empty())
            })
        };
        REASON_KEYS.iter().find_map(|name| text(name)).map(str::to_owned)
    };
    members.iter().find_map(|(key, value)| {
        let refuses = match (key.as_str(), value) {
            (key, Value::String(word)) if DECISION_KEYS.contains(&key) => is_refusal_word(word),
            ("decision", Value::Bool(decision)) => !decision,
            ("continue" | "allow" | "allowed" | "approve" | "approved", word) => is_no(Some(word)),
            ("block" | "blocked" | "deny" | "denied", word) => is_yes(Some(word)),
            _ => false,
        };
        if refuses {
            return Some(reason().unwrap_or_default());
        }
        let inner = if DATA_KEYS.contains(&key.as_str()) { None } else { find_below(value) };
        let inner = inner.or_else(|| decides_no(key, value).then(String::new));
        inner.map(|inner| if inner.is_empty() { reason().unwrap_or_default() } else { inner })
    })
}

/// True for a decision in a form of its own: `{"decision": {"type": "block"}}`.
fn decides_no(key: &str, value: &Value) -> bool {
    let is_reason = |key: &str| REASON_KEYS.iter().any(|known| key.eq_ignore_ascii_case(known));
    let refuses = |(key, part): (&String, &Value)| {
        !is_reason(key) && part.as_str().is_some_and(is_refusal_word)
    };
    DECISION_KEYS.contains(&key) && value.as_object().is_some_and(|parts| parts.iter().any(refuses))
}

fn find_below(value: &Value) -> Option<String> {
    match value {
        Value::Object(object) => find_refusal(object),
        Value::Array(items) => items.iter().find_map(find_below),
        _ => None,
    }
}

/// True if text that is not valid JSON contains a refusal such as `"decision": "block"`, in single or double
/// quotes.
pub fn text_has_refusal(text: &str) -> bool {
    const KEYS: [&str; 6] =
        ["permissiondecision", "decision", "behavior", "continue", "block", "blocked"];
    let text = text.to_ascii_lowercase();
    let refuses = |key: &str, value: &str| match key {
        "continue" => value == "false",
        "block" | "blocked" => value == "true",
        _ => is_refusal_word(value),
    };
    KEYS.into_iter().any(|key| {
        text.match_indices(key).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let rest = &text[at + key.len()..];
            let quoted = before.filter(|quote| matches!(quote, '"' | '\''));
            let Some(rest) = quoted.and_then(|quote| rest.strip_prefix(quote)) else {
                return false;
            };
            let Some(value) = rest.trim_start().strip_prefix(':') else { return false };
            let value = value.trim_start().trim_start_matches(['"', '\'']);
            let end = value.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(value.len());
            refuses(key, &value[..end])
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Option<&str>) {
        let value: Value = serde_json::from_str(json).expect("the test's JSON");
        let found = find_refusal(value.as_object().expect("an object"));
        assert_eq!(found.as_deref(), expected, "{json}");
    }

    #[test]
    fn l8_refusal_in_words_of_any_dialect_is_found() {
        check(r#"{"continue": false, "reason": "r"}"#, Some("r"));
        check(r#"{"Continue": false}"#, Some(""));
        check(r#"{"BLOCKED": true, "Reason": "r"}"#, Some("r"));
        check(r#"{"block": 1}"#, Some(""));
        check(r#"{"decision": "block", "reason": " r "}"#, Some("r"));
        check(r#"{"decision": {"behavior": "deny", "message": "m"}}"#, Some("m"));
        check(r#"{"decision": false}"#, Some(""));
        let own = r#"{"hookSpecificOutput": {"permissionDecision": "Deny", "permissionDecisionReason": "p"}}"#;
        check(own, Some("p"));
        check(r#"{"permission_decision": "deny", "reason": "r"}"#, Some("r"));
        check(r#"{"reason": "outer", "hookSpecificOutput": {"decision": "no"}}"#, Some("outer"));
        check(r#"{"answers": [{"blocked": "yes"}]}"#, Some(""));
        check(r#"{"hookSpecificOutput": "deny"}"#, Some(""));
        check(r#"{"hookSpecificOutput": {"permission": "deny"}}"#, Some(""));
        check(
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "allow": false}}"#,
            Some(""),
        );
        check(r#"{"decision": {"type": "block"}, "reason": "r"}"#, Some("r"));
    }

    #[test]
    fn l8_data_of_a_call_is_no_refusal() {
        check("{}", None);
        check(r#"{"continue": true, "blocked": false, "decision": "approve"}"#, None);
        check(r#"{"input": {"block": true}}"#, None);
        check(r#"{"modified": {"decision": "deny"}}"#, None);
        check(r#"{"hookSpecificOutput": {"updatedInput": {"blocked": true}}}"#, None);
        check(r#"{"output": "block"}"#, None);
        check(r#"{"hookSpecificOutput": {"additionalContext": "x"}, "allow": true}"#, None);
        check(r#"{"decision": {"behavior": "allow", "message": "no"}}"#, None);
    }

    #[test]
    fn l8_refusal_in_broken_json_is_found() {
        let refuses = [
            r#"{"decision": "block""#,
            "{'permissionDecision': 'deny'}",
            r#"{"Continue" :false,"#,
            r#"{"blocked": true"#,
        ];
        let passes = ["decision: block", r#"{"decision": "approve""#, r#"{"blocked": false"#, ""];
        refuses.into_iter().for_each(|text| assert!(text_has_refusal(text), "{text}"));
        passes.into_iter().for_each(|text| assert!(!text_has_refusal(text), "{text}"));
    }
}
