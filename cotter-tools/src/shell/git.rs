//! `git`: its settings, revisions and addresses. Pure.

use crate::shell::{command_verdict::CommandVerdict, expand::Field, options::ParsedOptions};

/// Settings that run no program.
const HARMLESS_SETTINGS: [&str; 6] =
    ["user.name=", "user.email=", "color.", "advice.", "core.quotepath=", "init.defaultbranch="];

/// The settings of `git -c`.
pub(crate) fn settings(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let is_harmless = |field: &Field| {
        let key = field.text.to_ascii_lowercase();
        field.is_known() && HARMLESS_SETTINGS.iter().any(|begin| key.starts_with(begin))
    };
    if given.values(&["c"]).any(|setting| !is_harmless(setting)) {
        verdict.unclear("a setting given to `git` may run a program");
    }
}

/// Files of earlier revisions.
pub(crate) fn revisions(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    verdict.add_history_reads(given.operands.iter().filter_map(path_in_revision));
}

/// The file that a word names in a revision or in the index: `HEAD:.env`, `:0:.env`, `:/.env`.
fn path_in_revision(word: &Field) -> Option<Field> {
    let mut depth = 0;
    // Braces hold times and searches: `HEAD@{10:00}:.env`.
    let (at, _) = word.text.char_indices().find(|(_, char)| {
        depth += i32::from(*char == '{') - i32::from(*char == '}');
        *char == ':' && depth == 0
    })?;
    let mut path = &word.text[at + 1..];
    if at == 0 {
        let staged =
            path.strip_prefix(['0', '1', '2', '3']).and_then(|rest| rest.strip_prefix(':'));
        let magic = || path.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        path = match (staged, magic()) {
            (Some(rest), _) | (_, Some((_, rest))) => rest,
            // Excluded paths are not read.
            _ if path.starts_with(['!', '^']) => return None,
            _ => path.trim_start_matches('/'),
        };
    }
    let open = word.is_open() && path.contains(['$', '`']);
    (!path.is_empty()).then(|| if open { Field::open(path) } else { Field::known(path) })
}

/// The repository that a command contacts, and the folder of a clone.
pub(crate) fn address(name: &str, given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let Some(address) = given.operands.first() else { return };
    let text = address.text.as_str();
    if text.contains("::") {
        verdict.unclear("`git` would run a helper for this address");
    } else if text.contains([':', '@']) || !address.is_known() {
        verdict.add_address(address);
    } else if text.starts_with(['/', '.']) || name == "git clone" {
        verdict.add_reads([address.clone()]);
    }
    if name == "git clone" {
        let from = text.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
        let named = Field::known(from.trim_end_matches(".git"));
        verdict.add_writes([given.operands.get(1).cloned().unwrap_or(named)]);
    }
}
