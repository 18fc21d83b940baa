//! The question whether files of the home folder are used. It is asked once; the answer is stored in the
//! person's settings.

use cotter::Workspace;
use cotter_files::{
    claude::project::HomeFolder,
    settings::{Settings, SettingsOwner},
};

use crate::settings::claude_summary::ClaudeSummary;
use crate::{
    args::RunArgs,
    error::CliError,
    paths as home,
    settings::edit as own_settings,
    terminal::{ExtraDetail, Terminal, screen::Screen, style::ColorChoice},
};

/// Returns the person's home folder, as seen from a project.
pub(crate) fn home_folder(workspace: &Workspace) -> HomeFolder<'_> {
    HomeFolder { path: home::person_home(), workspace }
}

/// Asks once whether the home folder's files are used. Without a terminal they are not used, and a message
/// says so once.
pub(crate) async fn ask_home(
    workspace: &Workspace,
    args: &RunArgs,
    style: ColorChoice,
) -> Result<Option<String>, CliError> {
    let found = home_folder(workspace).used_folders();
    let Some(path) = home::user_settings().filter(|_| !found.is_empty() && !args.shape.safe_mode)
    else {
        return Ok(None);
    };
    // A file that cannot be read is reported when all settings are loaded.
    let said = Settings::load(&path, SettingsOwner::User).map(|read| read.unwrap_or_default());
    if said.map_or(true, |said| said.claude.home.is_some()) {
        return Ok(None);
    }
    let shown: Vec<_> = found.iter().map(|path| crate::trust::show_path(path)).collect();
    let shown = shown.join(" and ");
    let terminal = args.ask.then(|| Terminal::open(style, Screen::default()).ok()).flatten();
    let Some(terminal) = terminal else { return Ok(notice_without_terminal(&shown)) };
    let (brings, more) = match ClaudeSummary::read(workspace) {
        Ok(gist) => (gist.shown(), gist.whole()),
        Err(failure) => (format!("  broken    {}\n", failure.one_line()), failure.one_line()),
    };
    let kept = crate::trust::show_path(&path);
    let question = format!(
        "Also use what is in {shown}?\n{brings}It would be yours here too. The answer is kept in {kept}."
    );
    let shows = ExtraDetail { description: "every hook, rule and server", text: || more.clone() };
    if let Some(answer) = terminal.decide_or_show(&question, shows).await {
        own_settings::store_home_choice(answer)?;
    }
    Ok(None)
}

/// Returns the message for a run without a terminal, the first time only.
fn notice_without_terminal(shown: &str) -> Option<String> {
    let mark = home::claude_notice_marker()?;
    if mark.exists() {
        return None;
    }
    // If the marker cannot be written, the message appears again.
    let _ = home::write_private(&mark, b"");
    Some(format!(
        "what is in {shown} is not used: `\"claude\": {{\"home\": true}}` in your settings says that it is, \
         `false` that it never is"
    ))
}
