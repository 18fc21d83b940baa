//! The names that other programs use for our tools: in rules, in agent files, and in hooks that were
//! written for those programs.

/// Pairs of the other programs' name and our name. The first pair for one of our names has the name used
/// today. `cotter-files` uses it for tools in files of other programs.
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

/// Returns our name for a tool of another program. `cotter-files` uses it for tools in files of other
/// programs.
pub fn our_name(theirs: &str) -> Option<&'static str> {
    OTHER_NAMES.iter().find(|(name, _)| *name == theirs).map(|(_, ours)| *ours)
}

/// Pairs of our tools: a tool, and the tool whose work it does in another way.
const VARIANTS: [(&str, &str); 2] = [("bash_background", "bash"), ("delegate", "invoke_subagent")];

/// A tool of another program whose calls none of our tools can make.
const UNSUPPORTED_TOOL: &str = "NotebookEdit";

/// Lists our tools that do the work of another program's tool, the nearest first. `cotter-files` uses it if
/// such a name limits or forbids something.
pub fn our_tools(theirs: &str) -> Vec<&'static str> {
    let Some(ours) = our_name(theirs).filter(|_| theirs != UNSUPPORTED_TOOL) else { return vec![] };
    let variants = VARIANTS.iter().filter(|(_, of)| *of == ours).map(|(variant, _)| *variant);
    [ours].into_iter().chain(variants).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn claude_tool_names_map_to_cotter_tools() {
        let shown = OTHER_NAMES.map(|(theirs, _)| format!("{theirs} {:?}\n", our_tools(theirs)));
        expect![[r#"
            Bash ["bash", "bash_background"]
            Read ["read"]
            Write ["write"]
            Edit ["edit"]
            MultiEdit ["edit"]
            NotebookEdit []
            WebFetch ["fetch"]
            Glob ["glob"]
            Grep ["grep"]
            LS ["list"]
            Agent ["invoke_subagent", "delegate"]
            Task ["invoke_subagent", "delegate"]
            Skill ["invoke_skill"]
            AskUserQuestion ["ask_user"]
        "#]]
        .assert_eq(&shown.concat());
        assert!(our_tools("bash").is_empty());
    }
}
