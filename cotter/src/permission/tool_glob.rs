//! Globs over the names of tools.

use globset::{Glob, GlobSet, GlobSetBuilder};

/// Globs over tools' names, for hooks and for an agent's scope.
pub(crate) fn tool_globs(globs: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(Glob::new(glob)?);
    }
    set.build()
}

/// Whether one of the globs that a hook is limited to matches a tool's name. What is no glob matches
/// nothing.
pub fn matches_tool(globs: &[String], tool: &str) -> bool {
    tool_globs(globs).is_ok_and(|set| set.is_match(tool))
}
