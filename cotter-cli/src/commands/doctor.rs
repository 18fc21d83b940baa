//! `cotter doctor`: the files that were found, their trust and use, the parts that are not supported, the
//! sandbox, and hooks that are slow or fail.
//!
//! Each section is an entry of one table and reads the same input. Nothing is changed, and nothing is started but
//! the interpreters of the project's hooks, confined, to see whether they start.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
};

use cotter::{
    Origin, Workspace,
    hooks::points::PointId,
    invoke::named_item::NameKind,
    permission::{Zone, rule::RuleKind},
};
use cotter_files::{
    claude::ClaudeEntry,
    command_hook::entry::CommandLine,
    extensions::{Diagnostic, Severity},
    trust::{snapshot::Snapshot, store::TrustState},
};
use cotter_tools::process::Runner;
use serde_json::{Value, json};

use crate::{
    args::SetupArgs,
    commands::{explain::block_on, hooks::log},
    error::CliError,
    models::credentials::redactor,
    paths::{self, operator_switches},
    settings::{
        OwnedRule, checks::OPTIONAL_TOOLS, claude_home::home_folder, claude_summary::ClaudeSummary,
    },
    setup::{
        self, AgentPreview,
        extensions::CLAUDE_UNIT_SUFFIX,
        interpreters::{ADVICE, InterpreterCheck, errors_in_hook_files},
        selected_agent::{self, ProfileChecker, ProfileEntry},
        tools,
    },
    spaces::{SpaceLocation, Spaces},
    terminal::{
        screen::print_stdout,
        style::{ColorChoice, Style, count},
        table::{Page, StyledSpan},
    },
    trust::{self, TrustSources},
};

/// Returns the rows of a section.
type SectionFn = fn(&DoctorInput) -> Vec<DoctorRow>;

/// The sections, in the order in which they are printed.
const SECTIONS: [(&str, SectionFn); 11] = [
    ("sources", sources),
    ("plugins", plugins),
    ("spaces", spaces),
    ("profiles", profiles),
    ("extensions", extensions),
    ("not honoured", not_honoured),
    ("files of hooks", hook_files),
    ("confinement", confinement),
    ("folders", folders),
    ("hooks in the last sessions", hook_runs),
    ("switches", switches),
];

/// The number of recent sessions whose hooks are checked.
const MAX_SESSIONS: usize = 10;
/// The duration in milliseconds from which a hook is slow.
const SLOW_MS: f64 = 500.0;

/// The input of all sections.
struct DoctorInput {
    workspace: Workspace,
    trust_sources: TrustSources,
    /// The agent that would run, or the error that stops it.
    preview: Result<AgentPreview, CliError>,
    /// The log of hooks: a row per hook and point at which it ran.
    log: Vec<Value>,
}

/// The state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowState {
    Good,
    /// Useful to know; nothing is broken.
    Note,
    Broken,
}

/// A row of a section.
struct DoctorRow {
    what: String,
    state: RowState,
    /// The state in a few words.
    word: String,
    /// Details, by key.
    details: Vec<(&'static str, String)>,
}

impl DoctorRow {
    fn new(what: impl Into<String>, state: RowState, word: impl Into<String>) -> Self {
        DoctorRow { what: what.into(), state, word: word.into(), details: vec![] }
    }

    fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        self.details.extend((!value.is_empty()).then_some((key, value)));
        self
    }
}

/// `cotter doctor`.
pub(crate) fn doctor(json: bool, color: ColorChoice) -> Result<ExitCode, CliError> {
    let workspace = paths::find_workspace(None)?;
    let trust_sources = trust::scan_trust(&workspace);
    let preview = setup::preview_agent(workspace.clone(), &SetupArgs::default());
    let log = log::of_folder(workspace.cwd(), MAX_SESSIONS).unwrap_or_default();
    let input = DoctorInput { workspace, trust_sources, preview, log };
    let sections: Vec<_> = SECTIONS.iter().map(|(name, rows)| (*name, rows(&input))).collect();
    let rows = || sections.iter().flat_map(|(_, rows)| rows);
    let broken = rows().filter(|row| row.state == RowState::Broken).count();
    let out = match json {
        true => in_json(&sections, broken),
        false => in_text(&sections, Page::on_stdout(color)),
    };
    let exit_code = print_stdout(&redactor().redact(&out));
    Ok(if broken > 0 { ExitCode::FAILURE } else { exit_code })
}

fn in_json(sections: &[(&str, Vec<DoctorRow>)], broken: usize) -> String {
    let row = |row: &DoctorRow| {
        let state = match row.state {
            RowState::Good => "good",
            RowState::Note => "note",
            RowState::Broken => "broken",
        };
        let mut details: BTreeMap<_, Vec<_>> = BTreeMap::new();
        row.details.iter().for_each(|(key, value)| details.entry(*key).or_default().push(value));
        json!({"what": row.what, "state": state, "word": row.word, "about": details})
    };
    let sections: Vec<_> = sections
        .iter()
        .map(|(name, rows)| json!({"name": name, "rows": rows.iter().map(row).collect::<Vec<_>>()}))
        .collect();
    format!("{}\n", json!({"v": 1, "broken": broken, "sections": sections}))
}

/// Renders the sections. Empty sections share one line, and the last line is a summary.
fn in_text(sections: &[(&str, Vec<DoctorRow>)], page: Page) -> String {
    let (empty, filled): (Vec<_>, Vec<_>) = sections.iter().partition(|(_, rows)| rows.is_empty());
    let mut out = String::new();
    for (name, rows) in filled {
        out += &format!("{}\n", page.style.strong(name));
        for row in rows {
            out += &row.in_text(page);
        }
        out.push('\n');
    }
    if !empty.is_empty() {
        let names: Vec<_> = empty.iter().map(|(name, _)| *name).collect();
        let names = StyledSpan::new(Style::muted, &names.join(", "));
        out += &format!("{}\n", page.render_hanging("nothing to report  ", 19, &[names]));
    }
    out + &page.render_hanging("", 0, &[StyledSpan::plain(&summarize(sections))])
}

/// Returns the summary: the number of errors and notes.
fn summarize(sections: &[(&str, Vec<DoctorRow>)]) -> String {
    let of = |state: RowState| {
        let rows = sections.iter().flat_map(|(_, rows)| rows);
        rows.filter(move |row| row.state == state).map(|row| row.what.as_str())
    };
    let number = of(RowState::Broken).count();
    let notes = of(RowState::Note).count();
    let notes = if notes == 0 { String::new() } else { format!("; {}", count(notes, "note")) };
    let mut names: Vec<_> = of(RowState::Broken).collect();
    names.dedup();
    let more = names.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let names = names[..names.len().min(MAX_NAMED)].join(", ");
    match number {
        0 => format!("nothing is broken{notes}"),
        1 => format!("1 thing is broken: {names}{notes}"),
        _ => format!("{number} things are broken: {names}{more}{notes}"),
    }
}

/// The maximum number of errors that the summary names.
const MAX_NAMED: usize = 3;

/// The details that are printed beside the name.
const INLINE_KEYS: [&str; 2] = ["origin", "sandbox"];

/// The details that only `--json` shows.
const ONLY_JSON: [&str; 2] = ["hash", "absent"];

impl DoctorRow {
    /// Renders a row and its details. A word gives the state where there is no colour.
    fn in_text(&self, page: Page) -> String {
        let paint = match self.state {
            RowState::Good => Style::good,
            RowState::Note => Style::warning,
            RowState::Broken => Style::bad,
        };
        let word = match self.state {
            RowState::Good => "ok",
            RowState::Note => "note",
            RowState::Broken => "broken",
        };
        let lead = format!("  {}{}", paint(page.style, word), " ".repeat(8 - word.len()));
        let beside = self.details.iter().filter(|(key, _)| INLINE_KEYS.contains(key));
        let beside: Vec<_> = beside.map(|(key, value)| format!("{key} {value}")).collect();
        let mut pieces = vec![StyledSpan::new(paint, &format!("{}: {}", self.what, self.word))];
        if !beside.is_empty() {
            pieces.push(StyledSpan::new(Style::muted, &format!("({})", beside.join(", "))));
        }
        let mut out = page.render_hanging(&lead, 10, &pieces);
        let further = |key: &&str| !INLINE_KEYS.contains(key) && !ONLY_JSON.contains(key);
        let mut keys: Vec<_> = self.details.iter().map(|(key, _)| *key).filter(further).collect();
        keys.dedup();
        for key in keys {
            let values = self.details.iter().filter(|(known, _)| *known == key);
            let values: Vec<_> = values.map(|(_, value)| value.as_str()).collect();
            // Each hook has a line of its own; folders share a line, because there are many.
            let lines = if key == "folder" { vec![values.join(", ")] } else { owned(&values) };
            let lead = format!("            {} ", page.style.muted(key));
            for line in lines {
                out += &page.render_hanging(&lead, 13 + key.len(), &[StyledSpan::plain(&line)]);
            }
        }
        out
    }
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// Lists the possible sources, and their state.
fn sources(input: &DoctorInput) -> Vec<DoctorRow> {
    let file_row = |path: &std::path::Path| match path.exists() {
        true => DoctorRow::new(trust::show_path(path), RowState::Good, "used"),
        false => DoctorRow::new(trust::show_path(path), RowState::Good, "not found"),
    };
    let mut rows = vec![
        file_row(paths::OPERATOR_SETTINGS.as_ref()).with("origin", Origin::Operator.to_string()),
    ];
    if let Some(path) = paths::user_settings() {
        rows.push(file_row(&path).with("origin", Origin::User.to_string()));
    }
    for path in home_folder(&input.workspace).found_folders() {
        let home =
            input.preview.as_ref().ok().and_then(|preview| preview.files.claude_home_choice());
        let (state, word) = match home {
            Some(true) => (RowState::Good, "used"),
            Some(false) => (RowState::Note, "not used: your settings say so"),
            None => (RowState::Note, "not used: not decided yet, see `claude.home` in settings"),
        };
        let row = DoctorRow::new(trust::show_path(&path), state, word);
        rows.push(row.with("origin", Origin::User.to_string()));
    }
    rows.extend(claude_home_row(input));
    for found in &input.trust_sources.0 {
        let (state, word, hash) = match &found.state {
            TrustState::Trusted { hash, grants, .. } => {
                let word = if grants.rewrite { "trusted, and may rewrite" } else { "trusted" };
                (RowState::Good, word.to_owned(), hash.to_string())
            }
            TrustState::Changed { .. } => {
                (RowState::Note, "changed since it was trusted".into(), String::new())
            }
            TrustState::Gone { why: Some(why), .. } => {
                (RowState::Broken, why.clone(), String::new())
            }
            TrustState::Gone { .. } => (RowState::Note, "trusted, and gone".into(), String::new()),
            TrustState::Unknown { reason: Some(reason) } => {
                (RowState::Broken, reason.clone(), String::new())
            }
            _ => (RowState::Note, "not trusted: nothing of it runs".into(), String::new()),
        };
        let row = DoctorRow::new(trust::show_path(&found.source), state, word);
        rows.push(row.with("origin", Origin::Project.to_string()).with("hash", hash));
    }
    if let Err(failure) = &input.preview {
        rows.push(DoctorRow::new("settings", RowState::Broken, failure.one_line()));
    }
    rows
}

/// Describes what a yes about the home folder would add, if the person was not asked yet.
fn claude_home_row(input: &DoctorInput) -> Option<DoctorRow> {
    let preview = input.preview.as_ref().ok()?;
    let is_open = preview.files.claude_home_choice().is_none()
        && !home_folder(&input.workspace).found_folders().is_empty();
    let summary = is_open.then(|| ClaudeSummary::read(&input.workspace))?;
    let what = "with `claude.home` in settings";
    Some(match summary {
        Ok(summary) => DoctorRow::new(
            what,
            RowState::Note,
            format!("these would be used: {}", summary.one_line()),
        ),
        Err(failure) => DoctorRow::new(what, RowState::Broken, failure.one_line()),
    })
}

fn plugins(input: &DoctorInput) -> Vec<DoctorRow> {
    let Ok(preview) = &input.preview else { return vec![] };
    let rows = preview.files.plugins().map(|(owner, plugin)| {
        DoctorRow::new(plugin.name.as_str(), RowState::Good, "used")
            .with("folder", trust::show_path(&plugin.root))
            .with("origin", owner.origin.to_string())
    });
    let broken = preview.files.broken().map(|(path, owner, failure)| {
        DoctorRow::new(trust::show_path(path), RowState::Broken, failure.one_line())
            .with("origin", owner.origin.to_string())
    });
    rows.chain(broken).collect()
}

/// Lists the spaces that can be loaded by name.
fn spaces(input: &DoctorInput) -> Vec<DoctorRow> {
    let all = Spaces::new(&input.workspace, &SetupArgs::default(), &[]).all(&input.trust_sources);
    let row = |location: &SpaceLocation| {
        let state =
            if location.trust_word() == "trusted" { RowState::Good } else { RowState::Note };
        let origin = if location.of_project { Origin::Project } else { Origin::User };
        DoctorRow::new(location.id.as_str(), state, location.trust_word())
            .with("folder", trust::show_path(&location.source))
            .with("origin", origin.to_string())
    };
    all.iter().map(row).collect()
}

/// Lists the profiles that can be run by name, with the hosts that they notify and the programs that they
/// start.
fn profiles(input: &DoctorInput) -> Vec<DoctorRow> {
    let listed = match selected_agent::profiles(&input.workspace, &input.trust_sources) {
        Ok(listed) => listed,
        Err(failure) => {
            return vec![DoctorRow::new("profiles", RowState::Broken, failure.one_line())];
        }
    };
    let preview = input.preview.as_ref().ok();
    let mut start =
        match ProfileChecker::new(&input.workspace, preview.map(|preview| &preview.files)) {
            Ok(start) => start,
            Err(failure) => {
                return vec![DoctorRow::new("profiles", RowState::Broken, failure.one_line())];
            }
        };
    let known: Vec<String> = match preview.map(|preview| preview.agent.tools()) {
        Some(tools) => tools.specs().map(|spec| spec.name.to_string()).collect(),
        None => setup::own_tools().unwrap_or_default(),
    };
    let known: Vec<_> = known.iter().map(String::as_str).chain(OPTIONAL_TOOLS).collect();
    let row = |listed: &ProfileEntry| match &listed.profile {
        Err(failure) => DoctorRow::new(&listed.name, RowState::Broken, failure.one_line()),
        Ok(profile) => {
            let diagnostics = start.check(&listed.path, &listed.read, &known);
            let actions: Vec<_> =
                profile.actions.iter().map(|action| action.name.to_string()).collect();
            let (state, word) = match diagnostics.iter().map(|diagnostic| diagnostic.severity).max()
            {
                None => (RowState::Good, "runs with `--agent`"),
                Some(Severity::Rejected) => (RowState::Broken, "cannot start"),
                Some(Severity::PartlyUsed) => (RowState::Note, "cannot start here"),
                Some(_) => (RowState::Note, "runs with `--agent`"),
            };
            let row = DoctorRow::new(&listed.name, state, word)
                .with("file", trust::show_path(&listed.path))
                .with("actions", actions.join(", "));
            diagnostics
                .iter()
                .fold(row, |row, diagnostic| row.with("why", diagnostic.message.clone()))
        }
    };
    listed.iter().map(row).collect()
}

/// Lists what each owner registers, and the commands that it runs.
fn extensions(input: &DoctorInput) -> Vec<DoctorRow> {
    let Ok(preview) = &input.preview else { return vec![] };
    let mut owners: BTreeMap<(String, String), DoctorRow> = BTreeMap::new();
    let mut add = |origin: &Origin, unit: &str, key: &'static str, value: String| {
        if matches!(origin, Origin::Kernel | Origin::Embedder) {
            return;
        }
        let unit = unit.trim_end_matches(CLAUDE_UNIT_SUFFIX);
        let what = (origin.to_string(), unit.to_owned());
        let row = owners
            .entry(what)
            .or_insert_with(|| DoctorRow::new(unit, RowState::Good, origin.to_string()));
        match row.details.iter_mut().find(|(known, _)| *known == key && key != "hook") {
            Some((_, values)) => *values += &format!(", {value}"),
            None => row.details.push((key, value)),
        }
    };
    for (owner, hook) in preview.files.hooks() {
        let command = match &hook.command {
            CommandLine::Words(words) => words.join(" "),
            CommandLine::Shell(line) => line.clone(),
        };
        let runs = if command.is_empty() { String::new() } else { format!(" runs {command}") };
        let text = format!("{} at {}{runs}", hook.name, hook.point.name());
        add(&owner.origin, &owner.unit, "hook", text);
    }
    for OwnedRule { kind, rule, owner } in preview.files.owned_rules() {
        let key = match kind {
            RuleKind::Allow => "allows",
            RuleKind::Ask => "asks",
            _ => "denies",
        };
        add(&owner.origin, &owner.unit, key, rule.text.clone());
    }
    for (owner, server) in preview.files.owned_servers() {
        add(&owner.origin, &owner.unit, "servers", server);
    }
    let kinds = [
        (NameKind::Skill, "skills"),
        (NameKind::Command, "commands"),
        (NameKind::Subagent, "agents"),
    ];
    for (kind, key) in kinds {
        for info in preview.agent.names(kind) {
            let shadowed = if info.shadowed_by.is_some() { " (shadowed)" } else { "" };
            add(&info.owner.origin, &info.owner.unit, key, format!("{}{shadowed}", info.name));
        }
    }
    owners.into_values().collect()
}

/// Lists the diagnostics about files, and all other warnings.
fn not_honoured(input: &DoctorInput) -> Vec<DoctorRow> {
    let Ok(preview) = &input.preview else { return vec![] };
    let diagnostics = preview.reports.iter().flat_map(|report| &report.diagnostics);
    let of_files = diagnostics.map(|diagnostic: &Diagnostic| {
        let line = diagnostic.line.map(|line| format!(":{line}")).unwrap_or_default();
        let what = format!("{}{line}", diagnostic.path.display());
        let state = match diagnostic.severity {
            Severity::Rejected if diagnostic.message.contains("is already defined by ") => {
                RowState::Note
            }
            Severity::Rejected | Severity::PartlyUsed => RowState::Broken,
            _ => RowState::Note,
        };
        DoctorRow::new(what, state, diagnostic.message.clone())
    });
    let others = preview.messages.iter();
    let others = others.map(|message| DoctorRow::new("settings", RowState::Note, message.clone()));
    of_files.chain(others).collect()
}

/// Lists the errors in the files of the project's hooks, trusted or not, that no other section names.
fn hook_files(input: &DoctorInput) -> Vec<DoctorRow> {
    let known = not_honoured(input);
    let errors = trust::sources(&input.workspace)
        .into_iter()
        .flat_map(|source| errors_in_hook_files(&source));
    let rows = errors.map(|found| {
        let line = found.line.map(|line| format!(":{line}")).unwrap_or_default();
        let what = format!("{}{line}", trust::show_path(&found.path));
        DoctorRow::new(what, RowState::Broken, found.message)
    });
    rows.filter(|row| known.iter().all(|other| other.what != row.what)).collect()
}

/// Lists which commands and hooks are confined.
fn confinement(input: &DoctorInput) -> Vec<DoctorRow> {
    let Ok(preview) = &input.preview else { return vec![] };
    let values = preview.files.values();
    let Ok(runner) = tools::runner(&values) else { return vec![] };
    let setting = values.sandbox.unwrap_or_default().as_str();
    let confined = runner.confines_zone(Zone::Build);
    let (state, word) = match confined {
        true => (RowState::Good, "confined"),
        false => (RowState::Note, "not confined: they have all your permissions"),
    };
    let mut rows = vec![
        DoctorRow::new("commands of the agent", state, word).with("sandbox", setting),
        DoctorRow::new("hooks of the project", state, word),
        DoctorRow::new(
            "servers",
            state,
            match confined {
                true => "cannot reach the folders of Cotter and sockets, otherwise not confined",
                false => "not confined: they have all your permissions",
            },
        ),
    ];
    rows.extend(confined.then(|| view_row(&runner)));
    rows.extend(interpreter_rows(input));
    if preview.files.hooks().any(|(owner, _)| owner.origin == Origin::User) {
        let word = "not confined: they have all your permissions";
        rows.push(DoctorRow::new("your own hooks", RowState::Note, word));
    }
    rows
}

/// Says if confined commands have a view of the files, and what stays open if not.
fn view_row(runner: &Runner) -> DoctorRow {
    const NAME: &str = "view of the files";
    match runner.why_no_view() {
        None => DoctorRow::new(NAME, RowState::Good, "each command has its own"),
        Some(why) => DoctorRow::new(NAME, RowState::Note, tools::describe_missing_view(runner))
            .with("reason", why),
    }
}

/// Lists the interpreters of the project's hooks that are missing or do not start inside the sandbox.
fn interpreter_rows(input: &DoctorInput) -> Vec<DoctorRow> {
    let Ok(check) = InterpreterCheck::new(input.workspace.clone()) else { return vec![] };
    let mut failures = BTreeMap::new();
    for source in trust::sources(&input.workspace) {
        let Ok(snapshot) = Snapshot::take(&source) else { continue };
        let Ok(declared) = trust::declared(&snapshot) else { continue };
        for failure in block_on(check.failures(&snapshot, &declared)).unwrap_or_default() {
            failures.insert(failure.program, failure.reason);
        }
    }
    let row = |(program, reason): (PathBuf, String)| {
        let word = "does not start, and hooks of the project need it";
        let row = DoctorRow::new(trust::show_path(&program), RowState::Broken, word);
        row.with("reason", reason).with("hint", ADVICE)
    };
    failures.into_iter().map(row).collect()
}

fn folders(input: &DoctorInput) -> Vec<DoctorRow> {
    let Ok(preview) = &input.preview else { return vec![] };
    let workspace = preview.agent.workspace();
    let row = |what: &str, folders: &mut dyn Iterator<Item = &std::path::Path>| {
        let mut listed = BTreeSet::new();
        let new: Vec<_> = folders.filter(|folder| listed.insert(folder.to_owned())).collect();
        let (existing, absent): (Vec<_>, Vec<_>) = new.into_iter().partition(|path| path.exists());
        let mut word = count(existing.len(), "folder");
        if !absent.is_empty() {
            word += &format!(", {} not found", absent.len());
        }
        let row = DoctorRow::new(what, RowState::Good, word);
        let row = existing.iter().fold(row, |row, path| row.with("folder", trust::show_path(path)));
        absent.iter().fold(row, |row, path| row.with("absent", trust::show_path(path)))
    };
    vec![
        row("may be written", &mut workspace.write_roots()),
        row("may be read", &mut workspace.read_roots()),
        row("closed", &mut workspace.closed()),
    ]
}

/// Lists hooks that failed or were slow in the last sessions of the folder.
fn hook_runs(input: &DoctorInput) -> Vec<DoctorRow> {
    #[derive(Default)]
    struct Sum {
        ran: usize,
        failed: usize,
        slowest: f64,
        last: String,
    }
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for row in &input.log {
        let word = |key: &str| row[key].as_str().unwrap_or_default();
        let is_idle = matches!(word("verdict"), "not reached" | "not_run" | "switched off");
        if row["matched"] == false || is_idle {
            continue;
        }
        let sum = sums.entry(format!("{}/{}", word("origin"), word("name"))).or_default();
        sum.ran += 1;
        sum.slowest = sum.slowest.max(row["ms"].as_f64().unwrap_or_default());
        if matches!(word("verdict"), "failed" | "panicked" | "timed_out" | "cancelled") {
            sum.failed += 1;
            sum.last = format!("{} {}", word("verdict"), word("reason")).trim().to_owned();
        } else if word("verdict") == "failed_passed" {
            sum.failed += 1;
            sum.last = format!("failed and passed: {}", word("reason"));
        }
    }
    let rows = sums.into_iter().filter(|(_, sum)| sum.failed > 0 || sum.slowest >= SLOW_MS);
    let row = |(name, sum): (String, Sum)| {
        let Sum { ran, failed, slowest, last } = sum;
        let word = match failed {
            0 => format!("slow: up to {} ms", slowest.round()),
            failed => format!("failed {failed} of {ran} times"),
        };
        let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
        let hint = format!("`--without {name}` disables it for one run");
        DoctorRow::new(name, RowState::Note, word).with("last", last).with("hint", hint)
    };
    rows.map(row).collect()
}

/// Lists the hooks that are switched off, and the kernel gates, which cannot be switched off.
fn switches(input: &DoctorInput) -> Vec<DoctorRow> {
    let Ok(preview) = &input.preview else { return vec![] };
    let hooks = preview.agent.hooks();
    let gates = hooks.iter().filter(|hook| hook.owner.origin == Origin::Kernel);
    let gates = gates.filter(|hook| hook.point == PointId::ToolPre);
    let mut kernel: Vec<_> = gates.map(|hook| hook.name.to_string()).collect();
    kernel.dedup();
    let off = hooks.iter().filter(|hook| !hook.enabled).map(|hook| hook.name.to_string());
    let by_file = preview.files.switched_off().map(|(_, hook)| hook.name.to_string());
    let off = off.chain(by_file).map(|name| DoctorRow::new(name, RowState::Note, "switched off"));
    let policy = preview.agent.policy();
    let effect = match preview.files.claude_failures_block() {
        true => "block",
        false => "pass with a warning; `claudeHooks.onFailure` makes them block",
    };
    let by = |path: Option<&std::path::Path>| path.map(trust::show_path).unwrap_or_default();
    let mode_by = by(preview.files.find_nearest(|set| set.mode == Some(policy.mode())));
    let level_by = by(preview.files.find_nearest(|set| set.level == Some(policy.level())));
    let mut rows = vec![
        DoctorRow::new("mode", RowState::Good, policy.mode().to_string()).with("by", mode_by),
        DoctorRow::new("level", RowState::Good, policy.level().to_string()).with("by", level_by),
        DoctorRow::new("kernel gates", RowState::Good, "cannot be switched off")
            .with("gates", kernel.join(", ")),
    ];
    if preview.files.hooks().any(|(_, hook)| ClaudeEntry::of(hook).is_some()) {
        rows.push(DoctorRow::new(
            "failures of hooks written for Claude Code",
            RowState::Good,
            effect,
        ));
    }
    rows.extend(off);
    for name in operator_switches::VARIABLES {
        let value = paths::text_variable(name);
        rows.extend(value.map(|value| DoctorRow::new(name, RowState::Note, value)));
    }
    rows
}
