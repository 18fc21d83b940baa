//! What other programs call our tools: in rules, in agents' files, and in hooks that were written for
//! them.

/// Their name and ours. The first of theirs for one of ours is the one they use today. Used by
/// `cotter-files` for tools in files of other programs.
pub const OTHER_NAMES: [(&str, &str); 14] = [
    ("Bash", "bash"),
    ("Read", "read"),
    ("Write", "write"),
    ("Edit", "edit"),
    ("MultiEdit", "edit"),
    ("NotebookEdit", "edit"),
    ("WebFetch", "fetch"),
    ("Glob", "glob"),
    ("Grep", "grep"),
    ("LS", "list"),
    ("Agent", "invoke_subagent"),
    ("Task", "invoke_subagent"),
    ("Skill", "invoke_skill"),
    ("AskUserQuestion", "ask_user"),
];

/// Our name for a tool of theirs. Used by `cotter-files` for tools in files of other programs.
pub fn our_name(theirs: &str) -> Option<&'static str> {
    OTHER_NAMES.iter().find(|(name, _)| *name == theirs).map(|(_, ours)| *ours)
}
