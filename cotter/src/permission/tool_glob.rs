//! Globs over the names of tools.

use globset::{Glob, GlobSet, GlobSetBuilder};

/// Compiles globs over tool names, for hooks and for an agent's scope.
pub(crate) fn tool_globs(globs: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(Glob::new(glob)?);
    }
    set.build()
}

/// True if one of the globs of a hook matches a tool's name. An invalid glob makes the result false.
pub fn matches_tool(globs: &[String], tool: &str) -> bool {
    tool_globs(globs).is_ok_and(|set| set.is_match(tool))
}
