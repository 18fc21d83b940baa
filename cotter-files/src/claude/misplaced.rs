//! Errors for gates that would be lost silently: keys that are not read, and hooks beyond the maximum of a
//! file.

use crate::claude::{entries::MAX_HOOKS, events};
use crate::document::{Document, Node, Object, location::SettingsError};

/// Refuses a file in which a gate would be lost. That is: `hooks` or an event in the wrong letter case, an
/// event outside `hooks`, `hooks` within `hooks`, or a gate beyond the maximum number of hooks of a file.
pub fn check(document: &Document) -> Result<(), SettingsError> {
    let root = document.root().object()?;
    for (key, node) in root.members().filter(|(key, _)| *key != "hooks") {
        explain_misplaced_key(key).map_or(Ok(()), |why| Err(node.error(why)))?;
    }
    let Some(hooks) = root.get("hooks") else { return Ok(()) };
    let mut handler_count = 0;
    for (key, groups) in hooks.object()?.members() {
        match events::name_in_any_case(key) {
            Some(name) if name == key => count(name, groups, &mut handler_count)?,
            Some(name) => {
                return Err(groups.error(format!("unknown event: it is spelled `{name}`")));
            }
            None if key.eq_ignore_ascii_case("hooks") => {
                return Err(groups.error("`hooks` is inside `hooks`, where only events are read"));
            }
            None => {}
        }
    }
    Ok(())
}

/// The error for a key beside `hooks` that looks like a misplaced or misspelled hook key; `None` for any
/// other key.
pub(crate) fn explain_misplaced_key(key: &str) -> Option<String> {
    if key.eq_ignore_ascii_case("hooks") {
        return Some("unknown key: it is spelled `hooks`".into());
    }
    let event = events::name_in_any_case(key)?;
    Some(format!("the event `{event}` is outside `hooks`, where it is not read"))
}

/// Counts the handlers of an event. A gate beyond the maximum is an error.
fn count(event: &str, groups: Node<'_>, handler_count: &mut usize) -> Result<(), SettingsError> {
    let is_gate = events::find_event(event).is_ok_and(|event| event.is_gate());
    let groups = groups.list().into_iter().flatten();
    for group in groups.filter_map(|group| group.object().ok()) {
        *handler_count += handlers(&group);
        if is_gate && *handler_count > MAX_HOOKS {
            let why = format!("a file has at most {MAX_HOOKS} hooks: this gate would be lost");
            return Err(group.node().error(why));
        }
    }
    Ok(())
}

/// The number of handlers of a group. A group without `hooks` may itself be one handler.
fn handlers(group: &Object<'_>) -> usize {
    match group.get("hooks") {
        Some(hooks) => hooks.list().map_or(0, |list| list.len()),
        None => usize::from(group.get("command").is_some()),
    }
}
