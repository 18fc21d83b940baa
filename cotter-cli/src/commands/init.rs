//! `cotter init`: creates a folder `.cotter` with a hook, a rule, a skill, a command and an agent. It also
//! contains the schema of the settings, so that editors need no network.

use std::{fs, io, path::Path, process::ExitCode};

use crate::{error::CliError, paths, terminal::screen::print_stdout, trust};

/// The files: path, true if executable, contents.
const STARTER: &[(&str, bool, &str)] = &[
    ("settings.json", false, include_str!("../../starter/settings.json")),
    ("settings.schema.json", false, trust::SETTINGS_SCHEMA),
    ("hooks/no-prod.sh", true, include_str!("../../starter/hooks/no-prod.sh")),
    (
        "skills/house-style/SKILL.md",
        false,
        include_str!("../../starter/skills/house-style/SKILL.md"),
    ),
    ("commands/review.md", false, include_str!("../../starter/commands/review.md")),
    ("agents/tester.md", false, include_str!("../../starter/agents/tester.md")),
];

/// Creates the folder in the project's root, completely or not at all.
pub(crate) fn init(folder: Option<&Path>) -> Result<ExitCode, CliError> {
    let workspace = paths::find_workspace(folder)?;
    let root = folder.map_or_else(|| workspace.project(), |_| workspace.cwd());
    let folder = root.join(".cotter");
    let shown = trust::show_path(&folder);
    if folder.symlink_metadata().is_ok() {
        return Err(CliError::new(format!("{shown} already exists"))
            .with_hint("nothing was changed; `cotter init DIR` creates one in another folder"));
    }
    let temporary = root.join(format!(".cotter.{}.new", std::process::id()));
    let done = write(&temporary).and_then(|()| fs::rename(&temporary, &folder));
    if let Err(cause) = done {
        let _ = fs::remove_dir_all(&temporary);
        return Err(CliError::new(format!("cannot create {shown}")).with_cause(cause));
    }
    let files = STARTER.iter().map(|(name, ..)| format!("  {name}\n")).collect::<String>();
    Ok(print_stdout(&format!(
        "created {shown}:\n{files}\nNothing in it runs before you trust it: `cotter trust` shows \
         it and asks.\n"
    )))
}

fn write(folder: &Path) -> io::Result<()> {
    for (name, is_program, text) in STARTER {
        let path = folder.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, text)?;
        if *is_program {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}
