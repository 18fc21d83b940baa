//! The question whether files for Claude Code in the home folder are used. It is asked once; the answer is
//! stored in the person's settings.

use cotter::Workspace;
use cotter_files::{
    claude::project::HomeFolder,
    settings::{Settings, SettingsOwner},
};

use crate::settings::claude_summary::ClaudeSummary;
use crate::{
    args::RunArgs,
    error::CliError,
    paths,
    settings::edit,
    terminal::{ExtraDetail, Terminal, screen::Screen, style::ColorChoice},
};

/// Returns the person's home folder, as seen from a project.
pub(crate) fn home_folder(workspace: &Workspace) -> HomeFolder<'_> {
    HomeFolder { path: paths::person_home(), workspace }
}

/// Asks once whether files for Claude Code in the home folder are used. Without a terminal they are not used;
/// the returned text is a warning that says so.
pub(crate) async fn ask_home(
    workspace: &Workspace,
    args: &RunArgs,
    color: ColorChoice,
) -> Result<Option<String>, CliError> {
    let found = home_folder(workspace).found_folders();
    let Some(path) =
        paths::user_settings().filter(|_| !found.is_empty() && !args.setup_args.safe_mode)
    else {
        return Ok(None);
    };
    // A file that cannot be read is reported when all settings are loaded.
    let own = Settings::load(&path, SettingsOwner::User).map(|read| read.unwrap_or_default());
    if own.map_or(true, |settings| settings.claude.home.is_some()) {
        return Ok(None);
    }
    let shown: Vec<_> = found.iter().map(|path| crate::trust::show_path(path)).collect();
    let shown = shown.join(" and ");
    let terminal = args.ask.then(|| Terminal::open(color, Screen::default()).ok()).flatten();
    let Some(terminal) = terminal else { return Ok(notice_without_terminal(&shown)) };
    let (table, details) = match ClaudeSummary::read(workspace) {
        Ok(summary) => (summary.table(), summary.details()),
        Err(failure) => (format!("  broken    {}\n", failure.one_line()), failure.one_line()),
    };
    let settings = crate::trust::show_path(&path);
    let question = format!(
        "Also use the files in {shown}?\n{table}They would count as your own. The answer is \
         stored in {settings}."
    );
    let details =
        ExtraDetail { description: "every hook, rule and server", text: || details.clone() };
    if let Some(answer) = terminal.decide_or_show(&question, details).await {
        edit::store_home_choice(answer)?;
    }
    Ok(None)
}

/// Returns the message for a run without a terminal, the first time only.
fn notice_without_terminal(shown: &str) -> Option<String> {
    let marker = paths::claude_notice_marker()?;
    if marker.exists() {
        return None;
    }
    // If the marker cannot be written, the message appears again.
    let _ = paths::write_private(&marker, b"");
    Some(format!(
        "the files in {shown} are not used: set `\"claude\": {{\"home\": true}}` in your \
         settings to use them, `false` to never use them"
    ))
}
