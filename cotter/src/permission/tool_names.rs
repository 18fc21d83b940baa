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

/// Tools of ours that do what another of ours does in another way, and that other one.
const VARIANTS: [(&str, &str); 2] = [("bash_background", "bash"), ("delegate", "invoke_subagent")];

/// A tool of theirs whose calls no tool of ours can make.
const WITHOUT_EQUAL: &str = "NotebookEdit";

/// Every tool of ours that does what a tool of theirs does, the nearest first. Used by `cotter-files` where
/// a name of theirs limits or forbids something.
pub fn our_tools(theirs: &str) -> Vec<&'static str> {
    let Some(ours) = our_name(theirs).filter(|_| theirs != WITHOUT_EQUAL) else { return vec![] };
    let variants = VARIANTS.iter().filter(|(_, of)| *of == ours).map(|(variant, _)| *variant);
    [ours].into_iter().chain(variants).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn every_tool_of_theirs_has_its_tools_of_ours() {
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
