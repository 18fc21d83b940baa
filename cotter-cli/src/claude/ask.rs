//! Whether files of the home folder are used: asked once, kept in the person's settings.

use std::path::PathBuf;

use cotter::{
    Place,
    settings::{Settings, Source},
};

use super::own_folder;
use crate::{
    cli::RunArgs, failure::Failure, home, own_settings, screen::Screen, style::When,
    terminal::Terminal,
};

/// What of the person's home folder would be used, where something would.
pub(crate) fn at_home(place: &Place) -> Vec<PathBuf> {
    const BRINGS: [&str; 6] =
        ["settings.json", "settings.local.json", "skills", "agents", "commands", "plugins"];
    let folders = [".claude", ".agents"].into_iter().filter_map(|name| own_folder(place, name));
    folders.filter(|folder| BRINGS.iter().any(|name| folder.join(name).exists())).collect()
}

/// Asks once whether the home folder's files are used. Where nobody can be asked they are not, which is told
/// once.
pub(crate) async fn ask_home(
    place: &Place,
    args: &RunArgs,
    style: When,
) -> Result<Option<String>, Failure> {
    let found = at_home(place);
    let Some(path) = home::user_settings().filter(|_| !found.is_empty() && !args.shape.safe_mode)
    else {
        return Ok(None);
    };
    // A file that cannot be read is told when everything is.
    let said = Settings::load(&path, Source::User).map(|read| read.unwrap_or_default());
    if said.map_or(true, |said| said.foreign.home.is_some()) {
        return Ok(None);
    }
    let shown: Vec<_> = found.iter().map(|path| crate::trust::shown(path)).collect();
    let shown = shown.join(" and ");
    let terminal = args.ask.then(|| Terminal::open(style, Screen::default()).ok()).flatten();
    let Some(terminal) = terminal else { return Ok(headless(&shown)) };
    let question = format!(
        "Also use what is in {shown}?\nIts hooks, rules, skills, agents, commands and plugins would be \
         yours here too. The answer is kept in {}.\n",
        crate::trust::shown(&path)
    );
    let read = |line: &str| match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err("type y or n".to_owned()),
    };
    let asked = async {
        terminal.put(&question).await?;
        terminal.answer("[y]es, [n]o: ", read).await
    };
    if let Ok(Some(answer)) = asked.await {
        own_settings::use_home(answer)?;
    }
    Ok(None)
}

/// What is said where nobody can be asked, the first time.
fn headless(shown: &str) -> Option<String> {
    let mark = home::told_of_claude()?;
    if mark.exists() {
        return None;
    }
    // Where it cannot be kept it is said again.
    let _ = home::write_private(&mark, b"");
    Some(format!(
        "what is in {shown} is not used: `\"claude\": {{\"home\": true}}` in your settings says that it is, \
         `false` that it never is"
    ))
}
