//! `cotter hooks test`: fires a point at the loaded hooks in a dry run, and prints their verdicts.

use std::{
    fs,
    io::{self, Read},
    process::ExitCode,
};

use cotter::{
    Agent, Workspace,
    hooks::points::{POINTS, PointId},
    pipeline::dry_run::{DryRun, DryRunReport, DryRunRow},
    text,
};
use cotter_files::{
    claude,
    trust::{snapshot::Snapshot, watch::WatchTargets},
};
use serde_json::Value;

use crate::{
    args::HooksTestArgs,
    commands::explain,
    error::CliError,
    paths, setup,
    signals::or_abort_on_signal,
    terminal::{
        screen::{self, print_stdout},
        style::{ColorChoice, Style},
    },
    trust::{self, TrustSources, here::trust_working_copy},
};

/// The maximum size of an input in bytes.
const INPUT_BYTES: u64 = 64 * 1024 * 1024;

/// `cotter hooks test POINT`.
pub(crate) fn test(args: &HooksTestArgs, color: ColorChoice) -> Result<ExitCode, CliError> {
    let point = point_of(&args.point)?;
    check_options(point, args)?;
    let workspace = paths::find_workspace(None)?;
    let sources = explain::block_on(trust_sources(args, &workspace, color))??;
    let test = HooksTest::build(point, args, &workspace, &sources)?;
    let (shown, has_passed) =
        explain::block_on(or_abort_on_signal(test.run(args.json, color), explain::HOOKS_ENDED))??;
    let exit_code = print_stdout(&shown);
    Ok(if has_passed { exit_code } else { ExitCode::from(explain::NOT_PASSED) })
}

/// `cotter hooks dev POINT`: the test of the working copy, again after each change, until it is aborted.
pub(crate) fn dev(args: &HooksTestArgs, color: ColorChoice) -> Result<ExitCode, CliError> {
    let point = point_of(&args.point)?;
    check_options(point, args)?;
    if args.input.as_deref() == Some("-") {
        return Err(CliError::usage("`hooks dev` reads its input again for each test")
            .with_hint("use `--input @FILE`"));
    }
    if args.trust.asks() || !args.trust.hashes().is_empty() {
        return Err(CliError::usage("`hooks dev` runs the working copy, so it takes no `--trust`"));
    }
    let workspace = paths::find_workspace(None)?;
    let repeat = async {
        let cannot = |cause| CliError::new("cannot watch the hooks").with_cause(cause);
        let sources = trust::possible_sources(&workspace);
        loop {
            // A change during the test is not missed.
            let elsewhere = sources.iter().filter_map(|source| Snapshot::take(source).ok());
            let elsewhere = elsewhere.flat_map(|snapshot| snapshot.files_elsewhere());
            let targets = WatchTargets::new([], sources.iter().cloned().chain(elsewhere));
            let before = targets.read_contents();
            let tested = async {
                let sources = trust_working_copy(&workspace, color).await?;
                let test = HooksTest::build(point, args, &workspace, &sources)?;
                test.run(args.json, color).await
            };
            match tested.await {
                Ok((shown, _)) => _ = print_stdout(&shown),
                Err(failure) if failure.is_refusal() => return Err(failure),
                // The author is in the middle of a change.
                Err(failure) => screen::print_notice(&format!("error: {}", failure.one_line())),
            }
            print_stdout("\nwaiting for a change; Ctrl-C ends this\n\n");
            targets.watch_since(before).map_err(cannot)?.changed().await;
        }
    };
    explain::block_on(or_abort_on_signal(repeat, "the tests were ended"))?
}

/// Returns the trust state of the sources for these options. Skipped sources are reported: a person who tests
/// a hook that is not trusted would look for an error in it.
async fn trust_sources(
    args: &HooksTestArgs,
    workspace: &Workspace,
    color: ColorChoice,
) -> Result<TrustSources, CliError> {
    let sources = match (args.here, args.setup_args.safe_mode) {
        (true, _) => return trust_working_copy(workspace, color).await,
        (_, true) => TrustSources::empty(),
        _ => trust::resolve_trust(workspace, &[], &args.trust, color).await?,
    };
    let skipped: Vec<_> = sources.skipped().collect();
    for message in &skipped {
        screen::print_notice(&format!("warning: {}", text::show_line(message)));
    }
    if !skipped.is_empty() {
        screen::print_notice("hint: `--here` runs the hooks of this folder as they are on disk");
    }
    Ok(sources)
}

/// The hooks of a folder, and the event they are tested with.
struct HooksTest {
    agent: Agent,
    dry_run: DryRun,
    title: String,
}

impl HooksTest {
    fn build(
        point: PointId,
        args: &HooksTestArgs,
        workspace: &Workspace,
        sources: &TrustSources,
    ) -> Result<Self, CliError> {
        let workspace = workspace.clone();
        let (agent, _) = setup::build_preview_trusting(workspace, &args.setup_args, sources)?;
        let (dry_run, title) = build_dry_run(point, args, &agent)?;
        Ok(HooksTest { agent, dry_run, title })
    }

    /// Runs the hooks of the point. Returns the text to print, and whether all passed. The agent is dropped
    /// at the end, so that resident programs are ended while the runtime exists.
    async fn run(self, json: bool, color: ColorChoice) -> Result<(String, bool), CliError> {
        let report = self.agent.try_hooks(self.dry_run).await;
        let shown = match json {
            true => serde_json::to_string(&report).unwrap_or_default() + "\n",
            false => text_of(&self.title, &report, Style::on_stdout(color)),
        };
        Ok((shown, report.verdict == "pass"))
    }
}

/// Parses the point. The point `context` is excluded, because it has no external hooks.
fn point_of(typed: &str) -> Result<PointId, CliError> {
    let known = || POINTS.iter().map(|row| row.id).filter(|point| *point != PointId::Context);
    if let Some(point) = known().find(|point| point.name() == typed) {
        return Ok(point);
    }
    let failure = CliError::usage(format!("there is no point `{}`", text::show_line(typed)));
    if let Some(point) = claude::point_of(typed) {
        let hint = format!("the event `{typed}` of Claude Code is `{point}` here");
        return Err(failure.with_hint(hint));
    }
    let names: Vec<_> = known().map(PointId::name).collect();
    let all = format!("there are {}", names.join(", "));
    Err(failure.suggest(typed, names, all))
}

/// Checks that the options fit the point, and that none is missing.
fn check_options(point: PointId, args: &HooksTestArgs) -> Result<(), CliError> {
    let about_tools = point.row().is_about_tools();
    let takes = [
        ("tool", args.tool.is_some(), about_tools || point == PointId::PermissionAsk),
        ("input", args.input.is_some(), about_tools || point == PointId::PermissionAsk),
        ("result", args.result.is_some(), point == PointId::ToolPost),
        ("prompt", args.prompt.is_some(), point == PointId::UserPromptSubmit),
    ];
    if let Some((flag, ..)) = takes.iter().find(|(_, given, taken)| *given && !taken) {
        return Err(CliError::usage(format!("`{point}` takes no `--{flag}`")));
    }
    match (about_tools, point) {
        (true, _) if args.tool.is_none() => {
            Err(CliError::usage(format!("`{point}` needs `--tool`")).with_hint(format!(
                "cotter hooks test {point} --tool bash --input '{{\"command\": \"git push\"}}'"
            )))
        }
        (_, PointId::UserPromptSubmit) if args.prompt.is_none() => {
            Err(CliError::usage(format!("`{point}` needs `--prompt`"))
                .with_hint(format!("cotter hooks test {point} --prompt 'deploy it'")))
        }
        _ => Ok(()),
    }
}

/// Returns the dry run, and a short description of it.
fn build_dry_run(
    point: PointId,
    args: &HooksTestArgs,
    agent: &Agent,
) -> Result<(DryRun, String), CliError> {
    let mut title = point.name().to_owned();
    let mut dry_run = DryRun::at(point);
    if let Some(tool) = &args.tool {
        if let Some(hint) = explain::claude_name_hint(&agent.tools(), tool) {
            let shown = text::show_line(tool);
            screen::print_notice(&format!("warning: there is no tool `{shown}`: {hint}"));
        }
        let input = match &args.input {
            None => Value::Object(serde_json::Map::new()),
            Some(typed) => explain::parse_object(agent, tool, &read(typed)?)?,
        };
        title += &format!(" {tool} {input}");
        dry_run = dry_run.with_call(tool.as_str(), input);
    }
    if let Some(result) = &args.result {
        dry_run = dry_run.with_result(result.as_str());
    }
    if let Some(prompt) = &args.prompt {
        title += &format!(" {prompt}");
        dry_run = dry_run.with_prompt(prompt.as_str());
    }
    Ok((dry_run, text::show_line(&title).into_owned()))
}

/// Reads an input: typed, from a file (`@FILE`), or from standard input (`-`).
fn read(typed: &str) -> Result<String, CliError> {
    let mut text = String::new();
    let done = match typed.strip_prefix('@') {
        None if typed == "-" => io::stdin().take(INPUT_BYTES).read_to_string(&mut text),
        None => return Ok(typed.to_owned()),
        Some(path) => {
            fs::File::open(path).and_then(|file| file.take(INPUT_BYTES).read_to_string(&mut text))
        }
    };
    match done {
        Ok(_) => Ok(text),
        Err(cause) => {
            let from = typed.strip_prefix('@').unwrap_or("standard input");
            Err(CliError::new(format!("cannot read the input from {from}")).with_cause(cause))
        }
    }
}

fn text_of(title: &str, report: &DryRunReport, style: Style) -> String {
    let word = match report.verdict {
        "pass" => style.strong(report.verdict),
        verdict => style.warning(verdict),
    };
    let because = match report.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", text::show_line(reason)),
    };
    let mut out = format!("{title}\n{word}{because}\n");
    if !report.decided_by.is_empty() {
        out += &format!("decided by {}\n", text::show_line(&report.decided_by));
    }
    // Hooks of the program itself are shown only if their verdict changes something.
    let quiet = |hook: &DryRunRow| matches!(hook.verdict, "pass" | "seen" | "keep" | "not reached");
    let own = |hook: &DryRunRow| hook.origin == "embedder" && quiet(hook);
    let hooks: Vec<_> = report.hooks.iter().filter(|hook| !own(hook)).collect();
    out +=
        &if hooks.is_empty() { "no hook is at this point\n".into() } else { rows(&hooks, style) };
    let mut part = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            out += &format!("\n{title}\n");
            lines.iter().for_each(|line| out += &format!("  {}\n", text::show_line(line)));
        }
    };
    let replaced = report.hooks.iter().any(|hook| matches!(hook.verdict, "replace" | "answer"));
    if replaced {
        match &report.text {
            Some(made) => part("the text after the hooks", lines(made)),
            None => part("the input after the hooks", vec![report.input.to_string()]),
        }
    }
    let notes = report.notes.iter().flat_map(|note| lines(&note.text));
    part("notes to the model", notes.collect());
    part("messages to you", report.notices.iter().flat_map(|notice| lines(notice)).collect());
    out
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn rows(hooks: &[&DryRunRow], style: Style) -> String {
    let name = |hook: &DryRunRow| text::show_line(&hook.name).into_owned();
    let origin = |hook: &DryRunRow| format!("({})", text::show_line(&hook.origin));
    let width = |of: &dyn Fn(&DryRunRow) -> String| {
        hooks.iter().map(|hook| of(hook).chars().count()).max().unwrap_or_default()
    };
    let (names, origins) = (width(&name), width(&origin));
    let mut out = String::from("\n");
    for hook in hooks {
        let verdict = describe_verdict(hook);
        let (name, origin, power) = (name(hook), origin(hook), hook.power.as_str());
        let line = format!("  {name:<names$}  {origin:<origins$}  {power:<9}  {verdict}");
        out += &match hook.verdict {
            "pass" | "seen" | "keep" | "not_run" => style.muted(&line),
            "failed_passed" => style.warning(&line),
            _ => line,
        };
        out.push('\n');
        for line in hook.stderr.iter().flat_map(|stderr| stderr.lines()) {
            out += &format!("    stderr: {}\n", text::show_line(line));
        }
    }
    out
}

/// Describes in words the verdict of a hook and its duration, or the reason why it was not asked.
fn describe_verdict(hook: &DryRunRow) -> String {
    if !hook.matched {
        let globs = hook.tools.as_ref().map(|globs| globs.join(", ")).unwrap_or_default();
        return format!("did not match: it is for {}", text::show_line(&globs));
    }
    if hook.verdict == "not reached" {
        return "not reached: an earlier hook ended the point".into();
    }
    let reason = hook.reason.as_ref().map(|reason| format!(": {}", text::show_line(reason)));
    let reason = reason.unwrap_or_default();
    match hook.verdict {
        "not_run" => format!("did not run{reason}"),
        "failed_passed" => format!("failed and passed in {:.1} ms{reason}", hook.ms),
        verdict => format!("{verdict} in {:.1} ms{reason}", hook.ms),
    }
}
