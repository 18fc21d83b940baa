//! The kinds of files in an extension folder.

/// The kind of a file in an extension folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// Skills.
    Skills,
    /// Commands.
    Commands,
    /// Agents, including profiles.
    Agents,
    /// Profiles: `agent.json`.
    Profiles,
    /// Hooks: `hooks/*.yaml`, and the hooks in settings files.
    Hooks,
    /// Settings files.
    Settings,
    /// Spaces: every file of a folder with a `manifest.json`.
    Spaces,
}

impl FileKind {
    /// The word for one file of this kind.
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

    /// The name of the folder for files of this kind in an extension folder; `None` if they have no folder.
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
