//! The kinds of files that folders of extensions hold.

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// Skills.
    Skills,
    /// Commands.
    Commands,
    /// Agents, and profiles among them.
    Agents,
    /// Profiles: `agent.json`.
    Profiles,
    /// Hooks: `hooks/*.yaml` and, beside them, settings files.
    Hooks,
    /// Settings files.
    Settings,
    /// Spaces: each file of a folder with a `manifest.json`.
    Spaces,
}

impl FileKind {
    /// The word for one of them.
    pub fn as_str(self) -> &'static str {
        match self {
            FileKind::Skills => "skill",
            FileKind::Commands => "command",
            FileKind::Agents => "agent",
            FileKind::Profiles => "profile",
            FileKind::Hooks => "hook",
            FileKind::Settings => "settings",
            FileKind::Spaces => "space",
        }
    }

    /// The folder of such files in a folder of extensions, where they have one.
    pub fn folder(self) -> Option<&'static str> {
        match self {
            FileKind::Skills => Some("skills"),
            FileKind::Commands => Some("commands"),
            FileKind::Agents | FileKind::Profiles => Some("agents"),
            FileKind::Hooks => Some("hooks"),
            FileKind::Settings | FileKind::Spaces => None,
        }
    }
}
