//! The question whether a run uses the folders `.claude` and `.agents` in the person's home folder. Cotter
//! asks it once and stores the answer in the person's settings.

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

/// Returns the person's home folder with the folders of the run. They are needed because a path in the home
/// folder may belong to the project.
pub(crate) fn home_folder(workspace: &Workspace) -> HomeFolder<'_> {
    HomeFolder { path: paths::person_home(), workspace }
}

/// Asks once whether a run uses the folders `.claude` and `.agents` in the home folder. Without `--ask`, or
/// without a terminal, the run does not use them; then the returned text is a warning that says so.
pub(crate) async fn ask_home(
    workspace: &Workspace,
    args: &RunArgs,
    color: ColorChoice,
) -> Result<Option<String>, CliError> {
    let found = home_folder(workspace).found_folders();
    if found.is_empty() || args.setup_args.safe_mode {
        return Ok(None);
    }
    let Some(path) = paths::user_settings() else { return Ok(None) };
    let Ok(settings) = Settings::load(&path, SettingsOwner::User) else {
        // The settings cannot be read, so an earlier answer is not known and the person is not asked. The
        // error is reported when the run loads all settings.
        return Ok(None);
    };
    let has_answered = settings.unwrap_or_default().claude.home.is_some();
    if has_answered {
        return Ok(None);
    }
    let shown: Vec<_> = found.iter().map(|path| crate::trust::show_path(path)).collect();
    let shown = shown.join(" and ");
    let terminal = args.ask.then(|| Terminal::open(color, Screen::default()).ok()).flatten();
    let Some(terminal) = terminal else { return Ok(first_notice(&shown)) };
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
    // If the person gives no answer, nothing is stored, and the next run asks again.
    if let Some(answer) = terminal.decide_or_show(&question, details).await {
        edit::store_home_choice(answer)?;
    }
    Ok(None)
}

/// Returns the warning of a run that cannot ask the person, and writes a marker file. `None` if an earlier
/// run wrote the marker: the warning appears once.
fn first_notice(shown: &str) -> Option<String> {
    let marker = paths::claude_notice_marker()?;
    if marker.exists() {
        return None;
    }
    // If the marker cannot be written, the next run prints the warning again.
    let _ = paths::write_private(&marker, b"");
    Some(format!(
        "the files in {shown} are not used: set `\"claude\": {{\"home\": true}}` in your \
         settings to use them, `false` to never use them"
    ))
}
