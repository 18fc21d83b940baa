//! `cotter trust` and `cotter untrust`: shows the sources of a project, and lets them run after a person
//! agrees.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use cotter_files::trust::{
    snapshot::Snapshot,
    state::LOCAL_SETTINGS,
    store::{Grants, TrustRecord, TrustState, TrustStore},
    view::{texts, view},
};
use serde_json::json;

use crate::{
    args::TrustCommandArgs,
    commands::explain::block_on,
    error::CliError,
    paths,
    setup::interpreters::{InterpreterCheck, describe_hooks},
    spaces,
    terminal::{
        pager::page_stdout,
        screen::print_stdout,
        style::{ColorChoice, Style},
    },
    trust::{self, SourceView, show_path},
};

/// `cotter trust`.
pub(crate) fn run(args: &TrustCommandArgs, color: ColorChoice) -> Result<ExitCode, CliError> {
    let path = args.path.as_deref();
    match (args.list, args.print || args.show) {
        (true, _) => list(args.json, color),
        (_, true) => print(path, args.show),
        _ => trust(path, args.rewrite, color),
    }
}

/// `cotter trust [PATH] --print` and `--show`: shows the sources, with their texts for `--show`, and decides
/// nothing.
fn print(path: Option<&Path>, with_texts: bool) -> Result<ExitCode, CliError> {
    let named = TrustTargets::find(path, trust::sources)?;
    let store = trust::store(&named.project);
    let check = named.interpreter_check();
    let mut views = vec![];
    for snapshot in named.snapshots()? {
        let state = match &store {
            Ok(store) => store.state(&snapshot),
            Err(failure) => TrustState::Unknown { reason: Some(failure.one_line()) },
        };
        let declared = trust::declared(&snapshot)?;
        let mut shown = view(&snapshot, &declared, &state);
        shown += &block_on(describe_hooks(&check, &snapshot, &declared))?;
        if with_texts {
            shown += &format!("\n{}", texts(&snapshot, &trust::KNOWN_FILES));
        }
        views.push(shown);
    }
    match views.is_empty() {
        true => Ok(say_nothing_found()),
        false => Ok(page_stdout(&views.join("\n"))),
    }
}

/// `cotter trust [PATH] [--rewrite]`: shows everything and asks.
fn trust(path: Option<&Path>, rewrite: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let named = TrustTargets::find(path, trust::sources)?;
    let store = trust::store(&named.project)?;
    let snapshots = named.snapshots()?;
    if snapshots.is_empty() {
        return Ok(say_nothing_found());
    }
    let check = named.interpreter_check();
    let grants = Grants::default().with_rewrite(rewrite);
    block_on(ask_each(&store, &snapshots, grants, &check, color))?
}

async fn ask_each(
    store: &TrustStore,
    snapshots: &[Snapshot],
    grants: Grants,
    check: &Result<InterpreterCheck, CliError>,
    color: ColorChoice,
) -> Result<ExitCode, CliError> {
    let terminal = trust::open_terminal(color)?;
    let mut refused = 0;
    for snapshot in snapshots {
        let source = show_path(snapshot.source());
        let state = store.state(snapshot);
        if let TrustState::Trusted { grants: given, .. } = &state
            && given.rewrite >= grants.rewrite
        {
            print_stdout(&format!("{source} is trusted already\n"));
            continue;
        }
        let declared = trust::declared(snapshot)?;
        let remarks = describe_hooks(check, snapshot, &declared).await;
        let shown = SourceView { snapshot, declared: &declared, remarks: &remarks };
        let answer = trust::ask(store, shown, state, grants, &terminal).await?;
        match answer {
            TrustState::Trusted { grants: given, .. } if given == grants => {
                print_stdout(&format!("{source} is trusted\n"));
            }
            _ => refused += 1,
        }
    }
    match refused {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(CliError::refused("the answer was no: nothing was changed")),
    }
}

/// `cotter trust --list`.
fn list(json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let here = paths::find_workspace(None)?;
    let records = trust::store(here.project())?.list()?;
    let style = Style::on_stdout(color);
    let row = |record: &TrustRecord| {
        let TrustRecord { source, hash, grants, at, .. } = record;
        let (source, rewrite, at) = (show_path(source), grants.rewrite, at.to_string());
        if json {
            let row =
                json!({"source": source, "hash": hash.to_string(), "rewrite": rewrite, "at": at});
            return format!("{row}\n");
        }
        let more = if rewrite { ", its hooks may rewrite" } else { "" };
        format!(
            "{}\n  {}\n",
            style.strong(&source),
            style.muted(&format!("{hash}, since {at}{more}"))
        )
    };
    let out: String = records.iter().map(row).collect();
    match out.is_empty() && !json {
        true => Ok(print_stdout("nothing is trusted\n")),
        false => Ok(print_stdout(&out)),
    }
}

/// `cotter untrust [PATH]`.
pub(crate) fn untrust(path: Option<&Path>) -> Result<ExitCode, CliError> {
    let named = TrustTargets::find(path, trust::possible_sources)?;
    let store = trust::store(&named.project)?;
    let mut out = String::new();
    for source in &named.sources {
        if store.untrust(source)? {
            out += &format!("{} is no longer trusted\n", show_path(source));
        }
    }
    match out.is_empty() {
        true => Err(CliError::new("nothing here is trusted")
            .with_hint("`cotter trust --list` shows everything that is trusted")),
        false => Ok(print_stdout(&out)),
    }
}

/// The sources that the command line names: one source, or all of a workspace.
struct TrustTargets {
    project: PathBuf,
    sources: Vec<PathBuf>,
}

impl TrustTargets {
    fn find(
        path: Option<&Path>,
        sources: fn(&cotter::Workspace) -> Vec<PathBuf>,
    ) -> Result<Self, CliError> {
        let by_itself = [".cotter", ".claude", LOCAL_SETTINGS, ".agents", ".mcp.json"];
        let source = path.filter(|path| {
            by_itself.iter().any(|name| path.ends_with(name)) || spaces::store::is_own_space(path)
        });
        if let Some(source) = source {
            let source = std::path::absolute(source).map_err(|cause| {
                CliError::new("cannot find the working folder").with_cause(cause)
            })?;
            let project = paths::project_root(source.parent().unwrap_or(&source)).to_owned();
            let local = source.ends_with(".claude").then(|| source.join(LOCAL_SETTINGS));
            let local = local.filter(|local| local.symlink_metadata().is_ok());
            return Ok(TrustTargets {
                project,
                sources: [Some(source), local].into_iter().flatten().collect(),
            });
        }
        let workspace = match path {
            Some(path) if !path.is_dir() => {
                let message = format!("folder {} not found", show_path(path));
                return Err(CliError::new(message)
                    .with_hint("name a folder of a project, a `.cotter`, `.claude` or `.agents` folder or a `.mcp.json`"));
            }
            path => paths::find_workspace(path)?,
        };
        Ok(TrustTargets { project: workspace.project().to_owned(), sources: sources(&workspace) })
    }

    /// The check of the interpreters that hooks of these sources need.
    fn interpreter_check(&self) -> Result<InterpreterCheck, CliError> {
        InterpreterCheck::new(paths::find_workspace(Some(&self.project))?)
    }

    /// Takes a snapshot of each source. A folder without files is skipped.
    fn snapshots(&self) -> Result<Vec<Snapshot>, CliError> {
        let mut all = vec![];
        for source in &self.sources {
            all.extend(Some(Snapshot::take(source)?).filter(|snapshot| !snapshot.is_empty()));
        }
        Ok(all)
    }
}

fn say_nothing_found() -> ExitCode {
    print_stdout(
        "nothing here needs trust: there is no `.cotter`, `.claude` or `.agents` folder with \
         files, nor `.mcp.json`\n",
    )
}
