//! Zones: how far the effects of a call reach.

use std::path::Path;

use serde::Serialize;

use crate::fs::workspace::{Workspace, is_harmless_device, is_system};

/// The reach of a call's effects, from harmless to forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Zone {
    /// Reads inside the roots and changes nothing.
    Safe,
    /// Writes inside the workspace.
    Workspace,
    /// Runs project code or an unknown program.
    Build,
    /// Sends traffic out of the machine.
    Network,
    /// Changes something outside the machine.
    External,
    /// Touches the machine outside the workspace.
    Machine,
    /// Forbidden for every caller.
    Never,
}

impl Zone {
    /// The zone's word in events and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Zone::Safe => "safe",
            Zone::Workspace => "workspace",
            Zone::Build => "build",
            Zone::Network => "network",
            Zone::External => "external",
            Zone::Machine => "machine",
            Zone::Never => "never",
        }
    }

    /// The zone of reading a path. The path must be absolute with links resolved.
    pub fn of_read(path: &Path, workspace: &Workspace) -> Self {
        if workspace.is_readable(path) { Zone::Safe } else { Zone::Machine }
    }

    /// The zone of writing a path. The path must be absolute with links resolved.
    pub fn of_write(path: &Path, workspace: &Workspace) -> Self {
        if is_harmless_device(path) {
            Zone::Safe
        } else if is_system(path) {
            Zone::Never
        } else if workspace.is_writable(path) {
            Zone::Workspace
        } else {
            Zone::Machine
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_path_decides_the_zone_of_reads_and_writes() {
        let workspace = Workspace::new(Path::new("/work"))
            .with_read_roots(["/usr/include".into(), "/work/.data/s/spill".into()])
            .with_roots(["/more".into()])
            .with_closed(["/work/.data".into()]);
        let check = |path: &str, read: Zone, write: Zone| {
            let path = Path::new(path);
            assert_eq!(
                (Zone::of_read(path, &workspace), Zone::of_write(path, &workspace)),
                (read, write),
                "{path:?}"
            );
        };
        check("/work/a", Zone::Safe, Zone::Workspace);
        check("/more/a", Zone::Safe, Zone::Workspace);
        check("/work-evil/x", Zone::Machine, Zone::Machine);
        check("/usr/include/stdio.h", Zone::Safe, Zone::Never);
        check("/etc/passwd", Zone::Machine, Zone::Never);
        check("/etcetera", Zone::Machine, Zone::Machine);
        check("/dev/null", Zone::Safe, Zone::Safe);
        check("/dev/fd/1", Zone::Safe, Zone::Safe);
        check("/dev/fd/3/etc/passwd", Zone::Machine, Zone::Never);
        check("/dev/sda", Zone::Machine, Zone::Never);
        check("/work/.data/settings.json", Zone::Machine, Zone::Machine);
        check("/work/.data/s/spill/c1.txt", Zone::Safe, Zone::Machine);
        check("/", Zone::Machine, Zone::Never);
    }
}
