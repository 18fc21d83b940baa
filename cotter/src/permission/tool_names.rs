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

/// Returns the name that a file of another program must use for the tool that a text means: in another case, or
/// by our name. `None` if the text is right, or means no known tool.
pub fn corrected_name(text: &str) -> Option<&'static str> {
    let by_case = OTHER_NAMES.iter().find(|(other, _)| other.eq_ignore_ascii_case(text));
    let by_ours = || OTHER_NAMES.iter().find(|(_, ours)| ours.eq_ignore_ascii_case(text));
    by_case.or_else(by_ours).map(|(name, _)| *name).filter(|name| *name != text)
}

/// The tools that ship.
pub(crate) const OUR_TOOLS: [&str; 16] = [
    "bash",
    "bash_background",
    "read",
    "list",
    "write",
    "edit",
    "glob",
    "grep",
    "fetch",
    "ask_user",
    "remember",
    "recall",
    "forget",
    "invoke_skill",
    "invoke_subagent",
    "delegate",
];

/// Checks the names of tools in a file of ours. A name that another program uses for one of our tools, or that
/// differs from one only by case, would match nothing; the error says the right name.
///
/// Used by `cotter-files` for the tools of a hook.
pub fn check_tool_names<'n>(names: impl IntoIterator<Item = &'n String>) -> Result<(), String> {
    for name in names.into_iter().filter(|name| !OUR_TOOLS.contains(&name.as_str())) {
        let by_case = || OUR_TOOLS.into_iter().find(|ours| ours.eq_ignore_ascii_case(name));
        let by_other = || {
            let mut others = OTHER_NAMES.iter();
            others.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, ours)| *ours)
        };
        if let Some(ours) = by_case().or_else(by_other) {
            return Err(format!("there is no tool `{name}`: here it is `{ours}`"));
        }
    }
    Ok(())
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
    fn c1_tool_name_of_another_program_or_in_another_case_is_an_error() {
        let check = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            check_tool_names(&names).err().unwrap_or_default()
        };
        assert_eq!(check(&["write", "mcp__a__Write", "*", "Wri*", "deploy"]), "");
        assert_eq!(check(&["edit", "Write"]), "there is no tool `Write`: here it is `write`");
        assert_eq!(check(&["MultiEdit"]), "there is no tool `MultiEdit`: here it is `edit`");
        assert_eq!(check(&["webfetch"]), "there is no tool `webfetch`: here it is `fetch`");
        assert_eq!(check(&["Ask_User"]), "there is no tool `Ask_User`: here it is `ask_user`");
    }

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
