//! A hundred hooks like those that people publish (`tests/claude`), as real processes: the verdict here is the
//! one that the published pages give. Each runs as a person's hook and as a confined one of a project, with
//! its interpreter in a system folder and in the home folder. The reference runner, which shares nothing with
//! our code, runs every case too: it finds a wrong expectation.

use std::{
    ffi::OsString,
    fmt::Write,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use cotter::{
    Agent, AgentConfig, FnTool, Origin, Owner, Registry, Subagent, ToolError, ToolSpec, Workspace,
    builtin,
    model::ModelErrorKind,
    permission::{Zone, facts::Facts},
};
use cotter_files::{
    claude::{self, ClaudeFile},
    command_hook::{
        self, HookHost, HookLocation, HookPlace, PlaceKind, ProcessOutput, ProcessSpec,
        ResidentProcess, entry::CommandHook,
    },
    document::Document,
};
use cotter_test::{RecordingModel, ScriptedModel, ScriptedUi, Step, transcript};
use cotter_tools::{
    hooks::HookRunner,
    process::{Runner, environment::Environment},
};
use expect_test::expect;
use serde_json::{Map, Value, json};

use crate::{
    machine::Scratch,
    prefixes::{Installation, data, link_system_programs},
};

/// Handlers whose failure the pages let pass and that block or end the run here, each with the reason.
const STRICTER: [(&str, &str); 8] = [
    ("fail-killed", "signal 9 is also what a limit of memory sends"),
    ("fail-log-before-json", "a refusal counts wherever it is said"),
    ("fail-array", "a refusal counts wherever it is said"),
    ("fail-json-twice", "a refusal counts wherever it is said"),
    ("fail-wrong-case", "a refusal counts in any spelling"),
    ("fail-top-level-fields", "a refusal counts wherever it is said"),
    ("defer-question", "a question to a person cannot be changed"),
    ("fail-wrong-type", "an end counts in any spelling"),
];

/// Handlers that copy the transcript: sessions are closed to hooks.
const TRANSCRIPT: [&str; 1] = ["compact-backup"];

/// Hooks of a project that fail where the sandbox may be the cause: they write outside the project, or miss a
/// module. Gates block and say so.
const SANDBOXED: [&str; 3] = ["log-inline-jq", "log-failures", "fail-missing-module"];

/// The second report of a subagent, which its hook asks for.
const SECOND_REPORT: &str = "here is the second report";

/// The place of the interpreters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    /// Those of the system.
    System,
    /// Below the home folder, as pyenv and nvm install them; the system's are not in `PATH`.
    Home,
}

fn handlers() -> Vec<Value> {
    let text = fs::read_to_string(data().join("handlers/handlers.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The folders of `PATH`: links to the programs of the system without interpreters, and those of the home.
struct Programs {
    scratch: Scratch,
    path: OsString,
}

impl Programs {
    fn new(prefix: Prefix) -> Self {
        let scratch = Scratch::new();
        let mut folders = vec![];
        if prefix == Prefix::Home {
            for kind in ["pyenv", "nvm"] {
                folders.extend(Installation::build(&scratch.path().join("home"), &[kind]).path);
            }
        }
        let local = scratch.path().join("home/.local/bin");
        fs::create_dir_all(&local).unwrap();
        write_uv(&local.join("uv"));
        folders.push(local);
        let bin = scratch.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        link_system_programs(&bin, prefix == Prefix::System);
        folders.push(bin);
        let path = std::env::join_paths(folders).unwrap();
        Programs { scratch, path }
    }

    fn has(&self, program: &str) -> bool {
        std::env::split_paths(&self.path).any(|folder| folder.join(program).exists())
    }
}

/// A `uv` that starts scripts with the Python of `PATH`, as the real one does for a script without packages.
fn write_uv(path: &Path) {
    let text = "#!/bin/sh\n[ \"$1\" = run ] || exit 64\nshift\n\
                [ \"$1\" != --script ] || shift\nexec python3 \"$@\"\n";
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Starts hooks and counts them.
struct CountingHost {
    runner: HookRunner,
    starts: AtomicUsize,
}

impl HookHost for CountingHost {
    fn run(
        &self,
        job: ProcessSpec,
    ) -> Pin<Box<dyn Future<Output = Result<ProcessOutput, String>> + Send>> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        self.runner.run(job)
    }

    fn take_place(&self, kind: PlaceKind) -> Pin<Box<dyn Future<Output = HookPlace> + Send>> {
        self.runner.take_place(kind)
    }

    fn serve(&self, job: ProcessSpec) -> Result<Box<dyn ResidentProcess>, String> {
        self.runner.serve(job)
    }
}

/// What one case showed.
#[derive(Default)]
struct Shown {
    verdict: &'static str,
    /// The transcript, the notices and the ends of the runs.
    said: String,
    notices: String,
    /// The messages that the model got.
    model: String,
    /// The input of the last call that ran.
    input: Value,
    /// True if the model said its last words.
    is_done: bool,
    /// The number of times that the hook started.
    starts: usize,
}

/// One case of a handler in its own project.
struct Run<'a> {
    handler: &'a Value,
    case: &'a Value,
    programs: &'a Programs,
    scratch: Scratch,
    session: String,
}

impl<'a> Run<'a> {
    fn new(handler: &'a Value, case: &'a Value, programs: &'a Programs) -> Self {
        let run = Run { handler, case, programs, scratch: Scratch::new(), session: String::new() };
        let hooks = run.project().join(".claude/hooks");
        for folder in [&hooks, &run.path("home/.claude"), &run.path("temp")] {
            fs::create_dir_all(folder).unwrap();
        }
        for name in handler["files"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            fs::create_dir_all(hooks.join(name).parent().unwrap()).unwrap();
            // This keeps the mode: one of them must not be executable.
            fs::copy(data().join("handlers").join(name), hooks.join(name)).unwrap();
        }
        for (name, text) in case["project_files"].as_object().into_iter().flatten() {
            let path = run.project().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.as_str().unwrap()).unwrap();
        }
        run.make_repository();
        run
    }

    fn make_repository(&self) {
        let Some(branch) = self.case["git_branch"].as_str() else { return };
        let head = format!("refs/heads/{branch}");
        let mut steps = vec![vec!["init", "-q", "."], vec!["symbolic-ref", "HEAD", &head]];
        if self.case["git_staged"] == true {
            steps.push(vec!["add", "-A"]);
        }
        for step in steps {
            let mut git = Command::new("git");
            let status =
                git.args(step).current_dir(self.project()).env("HOME", self.path("home")).status();
            assert!(status.unwrap().success());
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn project(&self) -> PathBuf {
        self.path("my project")
    }

    /// A text of the manifest with the folders of this case.
    fn fill(&self, text: &str) -> String {
        let text = text.replace("@PROJECT@", self.project().to_str().unwrap());
        text.replace("@HOME@", self.path("home").to_str().unwrap())
            .replace("@LARGE@", &"y".repeat(300_000))
    }

    /// The call of a case in the words of our tools.
    fn call(&self, case: &Value) -> Step {
        let theirs = case["tool"].as_str().unwrap_or_default();
        let text = self.fill(&case["input"].to_string());
        let mut input: Map<String, Value> = serde_json::from_str(&text).unwrap();
        let name = cotter::host::our_name(theirs).unwrap_or(theirs);
        if let Some(path) = input.remove("file_path") {
            input.insert("path".into(), path);
        }
        if let (Some(old), Some(new)) = (input.remove("old_string"), input.remove("new_string")) {
            input.insert("edits".into(), json!([{"old": old, "new": new}]));
        }
        Step::call(name, Value::Object(input))
    }

    fn event(&self) -> &str {
        self.handler["event"].as_str().unwrap()
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.case["fields"][name].as_str()
    }

    /// The steps of the model and the prompts that lead to the event of the case.
    fn script(&self) -> (Vec<Step>, Vec<String>) {
        let last = self.field("last_assistant_message").unwrap_or("finished");
        let mut prompts = vec![self.field("prompt").unwrap_or("go")];
        let steps = match self.event() {
            "Notification" => vec![Step::call("bash", json!({"command": "x"}))],
            "Stop" => vec![Step::text(last)],
            "SubagentStop" => {
                let input = json!({"name": self.field("agent_type"), "prompt": "look"});
                let call = Step::call("invoke_subagent", input);
                vec![call, Step::text(last), Step::text(SECOND_REPORT)]
            }
            "PreCompact" if self.field("trigger") == Some("auto") => {
                prompts.push("more");
                vec![Step::text("begun"), Step::error(ModelErrorKind::ContextOverflow)]
            }
            "PreCompact" => {
                prompts.push("/compact");
                vec![]
            }
            "SessionStart" if self.field("source") == Some("compact") => {
                prompts.extend(["/compact", "more"]);
                vec![]
            }
            _ => {
                let before = self.case["before"].as_array().into_iter().flatten();
                let cases = before.chain([self.case]).filter(|case| case["tool"].is_string());
                cases.map(|case| self.call(case)).collect()
            }
        };
        let ends = [(); 4].map(|()| Step::text("done"));
        let prompts = prompts.into_iter().map(|prompt| self.fill(prompt)).collect();
        (steps.into_iter().chain(ends).collect(), prompts)
    }

    /// Runs the events before the case and the case.
    async fn show(&mut self, confined: bool) -> Shown {
        let (steps, prompts) = self.script();
        let (person, inputs) = (ScriptedUi::new(vec![]), Arc::new(Mutex::new(Value::Null)));
        let model = RecordingModel::new(ScriptedModel::new(steps));
        let workspace = Workspace::new(&self.project()).with_home(self.path("home"));
        let mut builder = Agent::builder(model.clone())
            .workspace(workspace)
            .ui(person.clone())
            .extend(builtin::commands)
            .define_mention(Subagent::agent(AgentConfig::new("Explore")));
        for name in [
            "bash",
            "write",
            "edit",
            "read",
            "fetch",
            "ask_user",
            "mcp__database__query",
            "mcp__memory__create_entities",
        ] {
            builder = builder.tool(self.tool(name, inputs.clone()));
        }
        let agent = builder.build().unwrap();
        let host = self.register(&agent, confined);
        let session = agent.new_session().await.unwrap();
        self.session = session.id().to_string();
        let mut shown = Shown::default();
        for prompt in prompts {
            let ended = session.prompt(prompt).await;
            shown.is_done = ended.as_ref().is_ok_and(|reply| reply.text().contains("done"));
            let _ = match &ended {
                Ok(reply) => writeln!(shown.said, "{:?} {:?}", reply.reason, reply.error),
                Err(why) => writeln!(shown.said, "{why}"),
            };
        }
        session.close().await;
        shown.notices = person.notices();
        let transcript = transcript(&session);
        shown.said = format!("{transcript}{}{}", shown.notices, shown.said);
        shown.model = model.shown();
        shown.input = inputs.lock().unwrap().clone();
        shown.starts = host.starts.load(Ordering::Relaxed);
        shown.verdict = self.verdict(&transcript, &shown);
        shown
    }

    /// A tool that keeps its last input. It fails where the event is a failure; a person is asked about it
    /// where the event is a question.
    fn tool(&self, name: &str, inputs: Arc<Mutex<Value>>) -> impl cotter::Tool {
        let failure = match self.event() {
            "PostToolUseFailure" => self.field("error").map(str::to_owned),
            _ => None,
        };
        let spec = ToolSpec::new(name, "works", json!({"type": "object"}));
        let work = FnTool::new(spec, move |permit| {
            *inputs.lock().unwrap() = permit.input().clone();
            let failure = failure.clone();
            async move { failure.map_or(Ok("worked".into()), |why| Err(ToolError::failed(why))) }
        });
        let asks = matches!(self.event(), "PermissionRequest" | "Notification");
        work.with_facts(Facts::zone(if asks { Zone::External } else { Zone::Safe }))
    }

    fn verdict(&self, transcript: &str, shown: &Shown) -> &'static str {
        let mut results = transcript.lines().filter(|line| line.starts_with("result "));
        let last = results.next_back().unwrap_or_default();
        let is_blocked = match self.event() {
            "Stop" => {
                let stops = if self.is_held_back() { 2 } else { 1 };
                let after = transcript.split("\nassistant: ").nth(stops);
                after.is_none_or(|after| after.contains("asks you to continue"))
            }
            "SubagentStop" => last.contains(SECOND_REPORT),
            "PreCompact" => shown.said.contains("refused the compaction"),
            "UserPromptSubmit" => !shown.is_done,
            _ => last.contains("(denied)"),
        };
        match (last.contains("there was no answer"), is_blocked) {
            (true, _) => "ask",
            (false, true) => "block",
            (false, false) => "pass",
        }
    }

    /// True if the case is about a stop after one that was refused.
    fn is_held_back(&self) -> bool {
        self.case["fields"]["stop_hook_active"] == true
    }

    fn register(&self, agent: &Agent, confined: bool) -> Arc<CountingHost> {
        let handler = self.handler;
        let mut entry = json!({"type": "command", "command": handler["command"]});
        entry["timeout"] = handler["timeout"].as_u64().unwrap_or(60).into();
        let matcher = handler["matcher"].as_str().unwrap_or_default();
        let hooks = read_hooks(self.event(), matcher, &entry);
        let mut variables: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), self.programs.path.clone()),
            ("HOME".into(), self.path("home").into()),
            ("LANG".into(), "C.UTF-8".into()),
        ];
        let of_case = self.case["env"].as_object().into_iter().flatten();
        let of_case: Vec<_> = of_case
            .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
            .collect();
        variables.extend(of_case.iter().map(|(name, value)| (name.into(), value.into())));
        let names: Vec<_> = of_case.iter().map(|(name, _)| name.as_str()).collect();
        let runner = Runner::new(env!("CARGO_BIN_EXE_cotter-spawner"))
            .with_environment(Environment::chosen(variables.clone(), &names))
            .with_temp_below(&self.path("temp"));
        let owner = match confined {
            true => Owner::new(Origin::Project, "settings.json").with_rewrite(),
            false => Owner::new(Origin::User, "settings.json"),
        };
        let runner = HookRunner::new(runner, variables);
        let host = Arc::new(CountingHost { runner: runner.clone(), starts: AtomicUsize::new(0) });
        let folder = self.project().join(".claude");
        let state = Some(folder.clone());
        let base = HookLocation { state, folder, confined, host: host.clone() };
        let put = |unit: &mut Registry| command_hook::register_all(unit, &hooks, &base);
        agent.extend(owner, put).unwrap();
        if self.is_held_back() {
            let once = "grep -q '\"stop_hook_active\":true' || { echo once more >&2; exit 2; }";
            let hooks = read_hooks("Stop", "", &json!({"type": "command", "command": once}));
            let base = HookLocation { confined: false, host: Arc::new(runner), ..base };
            let put = |unit: &mut Registry| command_hook::register_all(unit, &hooks, &base);
            agent.extend(Owner::new(Origin::User, "before"), put).unwrap();
        }
        host
    }

    /// What differs from the pages; empty if nothing does.
    fn differences(&self, confined: bool, shown: &Shown) -> String {
        let (expect, verdict) = (&self.case["expect"], shown.verdict);
        let mut found = String::new();
        let mut differs = |what: String| {
            let _ = writeln!(found, "  {what}: {}", last_words(&shown.said));
        };
        if shown.starts == 0 {
            differs("it did not start".into());
        }
        let has_name = |name: &str| self.handler["name"] == name;
        let is_stricter = STRICTER.iter().any(|(name, _)| has_name(name))
            || confined && SANDBOXED.iter().any(|name| has_name(name));
        let wanted = self.wanted(confined);
        // A guard that says something undefined has not said that the call is fine.
        let fits = wanted == "unspecified" || is_stricter && verdict == "block";
        if !fits && verdict != wanted {
            differs(format!("{verdict} instead of {wanted}"));
        }
        // Nobody reads the reason of a call that runs.
        let is_read = (verdict != "pass" || expect["verdict"] == "block") && !is_stricter;
        let told = format!("{}{}", shown.said, shown.model);
        let reason = expect["reason_contains"].as_str().filter(|_| is_read);
        if let Some(reason) = reason.filter(|reason| !told.contains(reason)) {
            differs(format!("no reason {reason:?}"));
        }
        let context = expect["context_contains"].as_str();
        if let Some(context) = context.filter(|context| !shown.model.contains(context))
            && !is_stricter
        {
            differs(format!("the model did not get {context:?}"));
        }
        if expect["no_context"] == true && shown.model.contains("From hook") && !is_stricter {
            differs("the model got something".into());
        }
        // An input that a person is asked about does not reach the tool.
        for (key, value) in
            expect["input"].as_object().filter(|_| verdict != "ask").into_iter().flatten()
        {
            let ours = if key == "timeout" { "timeout_ms" } else { key };
            if shown.input[ours] != *value {
                differs(format!("{ours} is {}", shown.input[ours]));
            }
        }
        let stops = expect["stops"].as_bool().filter(|_| !is_stricter);
        if let Some(stops) = stops.filter(|stops| *stops == shown.is_done) {
            differs(format!("it ends the run: {}", !stops));
        }
        let fails = expect["error"].as_bool().filter(|_| verdict == "pass" && !is_stricter);
        if let Some(fails) = fails
            && fails == shown.notices.is_empty()
        {
            differs(format!("the person was told {:?}", shown.notices));
        }
        self.check_files(confined, &mut differs);
        found
    }

    /// The verdict of the pages, as it shows here.
    fn wanted(&self, confined: bool) -> &str {
        let expect = &self.case["expect"];
        match (self.event(), expect["verdict"].as_str().unwrap()) {
            // Feedback keeps the model going.
            ("Stop", _) if expect["continues"] == true => "block",
            // After a tool, a block only tells the model.
            ("PostToolUse", "block") => "pass",
            // Nothing was decided: the person is asked.
            ("PermissionRequest" | "Notification", "pass") => "ask",
            // A project's hook grants nothing, and an answer with another input is not used.
            ("PermissionRequest", "allow") if confined || expect["input"].is_object() => "ask",
            (_, "allow") => "pass",
            (_, "defer") => "ask",
            (_, wanted) => wanted,
        }
    }

    fn check_files(&self, confined: bool, differs: &mut impl FnMut(String)) {
        let expect = &self.case["expect"];
        let written = expect["writes"].as_array().into_iter().flatten();
        let written = written.map(|name| (name.as_str().unwrap(), ""));
        let contents = expect["file_contains"].as_object().into_iter().flatten();
        let contents = contents.map(|(name, text)| (name.as_str(), text.as_str().unwrap()));
        for (name, text) in written.chain(contents) {
            let name = &name.replace("session-1", &self.session);
            let (is_home, path) = match name.strip_prefix("~/") {
                Some(name) => (true, self.path("home").join(name)),
                None => (false, self.project().join(name)),
            };
            // A project's hook writes to the home folder only where the person agreed.
            let is_transcript = TRANSCRIPT.iter().any(|name| self.handler["name"] == *name);
            if confined && is_home || is_transcript {
                continue;
            }
            // The reason of an end is always `other` here.
            let text =
                self.field("reason").map_or(text.to_owned(), |why| text.replace(why, "other"));
            match fs::read_to_string(path) {
                Err(_) => differs(format!("{name} was not written")),
                Ok(content) if !content.contains(&text) => {
                    differs(format!("{name} is {content:?}"))
                }
                Ok(_) => {}
            }
        }
    }
}

/// One hook at an event, as the settings of Claude Code declare it.
fn read_hooks(event: &str, matcher: &str, entry: &Value) -> Vec<CommandHook> {
    let text = json!({"hooks": {event: [{"matcher": matcher, "hooks": [entry]}]}}).to_string();
    let document = Document::parse("settings.json", &text).unwrap();
    claude::read(&document, &ClaudeFile::new("settings.json")).0
}

fn last_words(said: &str) -> String {
    let lines: Vec<_> = said.lines().filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" / ");
    last.chars().take(600).collect()
}

/// Runs every case and lists those whose outcome is not that of the pages.
async fn differing(prefix: Prefix, confined: bool) -> String {
    let programs = Programs::new(prefix);
    let (mut shown, handlers) = (String::new(), handlers());
    let cases = |handler: &Value| handler["cases"].as_array().unwrap().clone();
    for (handler, case) in handlers.iter().flat_map(|h| cases(h).into_iter().map(move |c| (h, c))) {
        let needs = handler["needs"].as_array().unwrap().iter().chain([&handler["interpreter"]]);
        let mut needs = needs.filter_map(Value::as_str).filter(|need| *need != "none");
        let missing = needs.find(|need| !programs.has(need));
        assert_eq!(missing, None, "a program that the README names is missing");
        let mut run = Run::new(handler, &case, &programs);
        let outcome = run.show(confined).await;
        let found = run.differences(confined, &outcome);
        if !found.is_empty() {
            let _ = write!(shown, "{}:\n{found}", handler["name"].as_str().unwrap());
        }
    }
    drop(programs.scratch);
    shown
}

#[tokio::test]
async fn b3_published_hooks_of_a_person_get_their_verdicts() {
    expect![""].assert_eq(&differing(Prefix::System, false).await);
}

#[tokio::test]
async fn b3_published_hooks_of_a_project_get_their_verdicts() {
    expect![""].assert_eq(&differing(Prefix::System, true).await);
}

#[tokio::test]
async fn b3_published_hooks_with_interpreters_in_the_home_get_their_verdicts() {
    expect![""].assert_eq(&differing(Prefix::Home, false).await);
}

#[tokio::test]
async fn b3_published_hooks_of_a_project_with_interpreters_in_the_home_get_their_verdicts() {
    expect![""].assert_eq(&differing(Prefix::Home, true).await);
}

/// Compares cases with the reference runner. Returns true if none differs, and what it said.
fn compare_with_reference(folder: &Path, names: &[&str]) -> (bool, String) {
    let scratch = Scratch::new();
    // As root it runs the handlers as an ordinary user, who must be able to reach them.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut verify = Command::new("python3");
    verify.arg("-B").arg(folder.join("verify.py")).args(names).env("TMPDIR", scratch.path());
    let output = verify.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn b3_reference_of_the_protocol_agrees_with_every_case() {
    let (agrees, said) = compare_with_reference(&data(), &[]);
    let differing: Vec<_> = said.lines().filter(|line| !line.starts_with("ok ")).collect();
    let handlers = handlers();
    let cases = handlers.iter().flat_map(|handler| handler["cases"].as_array().unwrap()).count();
    assert_eq!(differing, [format!("{cases} ok, 0 differs, 0 skipped")]);
    assert!(agrees && handlers.len() >= 100, "{} handlers", handlers.len());
}

#[test]
fn b3_reference_of_the_protocol_finds_a_wrong_expectation() {
    let scratch = Scratch::new();
    let mut copy = Command::new("cp");
    let copy = copy.arg("-R").arg(data()).arg(scratch.path().join("claude"));
    assert!(copy.status().unwrap().success());
    let manifest = scratch.path().join("claude/handlers/handlers.json");
    let mut handlers = handlers();
    handlers.retain(|handler| handler["name"] == "guard-rm");
    let expect = &mut handlers[0]["cases"][0]["expect"];
    assert_eq!(expect["verdict"], "block");
    *expect = json!({"verdict": "pass"});
    fs::write(manifest, serde_json::to_string(&handlers).unwrap()).unwrap();
    let (agrees, said) = compare_with_reference(&scratch.path().join("claude"), &["guard-rm"]);
    assert!(!agrees && said.contains("verdict: 'block' instead of 'pass'"), "{said}");
}
