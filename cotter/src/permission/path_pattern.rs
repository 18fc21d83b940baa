//! A pattern over paths, as in an ignore file.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::fs::workspace::Workspace;

/// A pattern over paths. It matches the named path and everything below it.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    base: PatternBase,
    /// The globs for the path itself and for everything below it.
    globs: [GlobMatcher; 2],
    /// The path, if the pattern forbids a single path. Such a path is compared by name and by file identity.
    single_path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
enum PatternBase {
    Project,
    Home,
    Root,
    Anywhere,
}

impl PathPattern {
    /// Parses a pattern. A pattern that forbids ignores the case of letters.
    pub(crate) fn parse(spec: &str, forbids: bool) -> Result<Self, String> {
        let (base, pattern) = if let Some(rest) = spec.strip_prefix("./") {
            (PatternBase::Project, rest.to_owned())
        } else if let Some(rest) = spec.strip_prefix("//") {
            (PatternBase::Root, rest.to_owned())
        } else if let Some(rest) = spec.strip_prefix("~/") {
            (PatternBase::Home, rest.to_owned())
        } else if spec.contains('/') {
            (PatternBase::Project, spec.trim_start_matches('/').to_owned())
        } else {
            (PatternBase::Anywhere, format!("**/{spec}"))
        };
        let pattern = pattern.trim_end_matches('/');
        let glob = |pattern: &str| {
            GlobBuilder::new(pattern)
                .literal_separator(true)
                .case_insensitive(forbids)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|cause| cause.to_string())
        };
        let path = pattern.strip_prefix("**/").unwrap_or(pattern);
        let is_single = forbids && !path.contains(['*', '?', '[', '{']);
        Ok(PathPattern {
            base,
            globs: [glob(pattern)?, glob(&format!("{pattern}/**"))?],
            single_path: is_single.then(|| path.into()),
        })
    }

    /// True if a path matches by its name, or is the file that the pattern forbids.
    pub(crate) fn matches(&self, path: &Path, workspace: &Workspace) -> bool {
        let Some(base) = self.base(workspace) else { return false };
        let base = if base.as_os_str().is_empty() { workspace.project() } else { base };
        let is_forbidden = |single: &PathBuf| is_same_file(&base.join(single), path);
        self.matches_name(path, workspace) || self.single_path.as_ref().is_some_and(is_forbidden)
    }

    /// True if a path matches by its name. Looks at no file.
    pub(crate) fn matches_name(&self, path: &Path, workspace: &Workspace) -> bool {
        let relative = self.base(workspace).and_then(|base| path.strip_prefix(base).ok());
        relative.is_some_and(|path| self.globs.iter().any(|glob| glob.is_match(path)))
    }

    /// True if a path below a folder may match. Looks at no file.
    pub(crate) fn may_match_below(&self, folder: &Path, workspace: &Workspace) -> bool {
        let Some(begin) = self.begin(workspace) else { return false };
        begin.starts_with(folder) || folder.starts_with(begin)
    }

    /// The path with which every match begins; relative and maybe empty for a pattern about any folder.
    fn begin(&self, workspace: &Workspace) -> Option<PathBuf> {
        let base = self.base(workspace)?;
        let pattern = self.globs[0].glob().glob();
        let is_literal = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
        let literal = pattern.split('/').take_while(is_literal);
        Some(literal.fold(base.to_owned(), |path, part| path.join(part)))
    }

    /// The folder or file that contains every match; `None` for a pattern about any folder.
    pub(crate) fn folder(&self, workspace: &Workspace) -> Option<PathBuf> {
        self.begin(workspace).filter(|folder| folder.is_absolute())
    }

    /// The single path that the pattern forbids, if its folder is known.
    pub(crate) fn single(&self, workspace: &Workspace) -> Option<PathBuf> {
        let base = self.base(workspace).filter(|base| base.is_absolute())?;
        self.single_path.as_ref().map(|path| base.join(path))
    }

    /// The folder that paths are relative to; empty for any.
    fn base<'a>(&self, workspace: &'a Workspace) -> Option<&'a Path> {
        match self.base {
            PatternBase::Project => Some(workspace.project()),
            PatternBase::Home => workspace.home(),
            PatternBase::Root => Some(Path::new("/")),
            PatternBase::Anywhere => Some(Path::new("")),
        }
    }
}

/// True if two paths are the same file: a link, or another case on a file system that ignores case.
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let file_id = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
    };
    file_id(other).is_some_and(|other| file_id(one) == Some(other))
}
