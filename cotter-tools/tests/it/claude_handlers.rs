//! A hundred hooks like those that people publish (`tests/claude`), as real processes: the verdict here is the
//! one that the published pages give. Each runs as a person's hook and as a confined one of a project, with
//! its interpreter in a system folder and in the home folder. The reference runner, which shares nothing with
//! our code, runs every case too: it finds a wrong expectation.

use std::{
    ffi::OsString,
    fmt::Write,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use cotter::{
    Agent, FnTool, Origin, Owner, Registry, ToolSpec, Workspace,
    permission::{Zone, facts::Facts},
};
use cotter_files::{
    claude::{self, ClaudeFile},
    command_hook::{self, HookHost, HookLocation},
    document::Document,
};
use cotter_test::{ScriptedModel, ScriptedUi, Step, not_tested, transcript};
use cotter_tools::{
    hooks::HookRunner,
    process::{Runner, environment::Environment},
};
use expect_test::expect;
use serde_json::{Map, Value, json};

use crate::machine::Scratch;

/// The events that one call or one prompt of a run shows.
const EVENTS: [&str; 3] = ["PreToolUse", "PostToolUse", "UserPromptSubmit"];

/// Handlers whose failure the pages let pass and that block here, each with the reason.
const STRICTER: [(&str, &str); 7] = [
    ("fail-killed", "signal 9 is also what a limit of memory sends"),
    ("fail-log-before-json", "a refusal counts wherever it is said"),
    ("fail-array", "a refusal counts wherever it is said"),
    ("fail-json-twice", "a refusal counts wherever it is said"),
    ("fail-wrong-case", "a refusal counts in any spelling"),
    ("fail-top-level-fields", "a refusal counts wherever it is said"),
    ("defer-question", "a question to a person cannot be changed"),
];

/// Hooks of a project that write outside the project. They block and name the path.
const OUTSIDE: [&str; 1] = ["log-inline-jq"];

/// The place of the interpreters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    /// Those of the system.
    System,
    /// Below the home folder, as pyenv and nvm install them; the system's are not in `PATH`.
    Home,
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/claude")
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
            for manager in ["pyenv", "nvm"] {
                let script = data().join("prefixes.py");
                let mut build = Command::new("python3");
                build.arg(script).arg(scratch.path().join("home")).arg(manager);
                let output = build.output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let made: Value = serde_json::from_slice(&output.stdout).unwrap();
                let made = made["path"].as_array().unwrap().iter();
                folders.extend(made.map(|folder| PathBuf::from(folder.as_str().unwrap())));
            }
        }
        let bin = scratch.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        let hidden =
            |name: &str| ["python", "node", "npm", "npx", "uv"].iter().any(|h| name.starts_with(h));
        for folder in ["/usr/local/bin", "/usr/bin", "/bin"] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if prefix == Prefix::System || !hidden(&name.to_string_lossy()) {
                    let _ = symlink(entry.path(), bin.join(name));
                }
            }
        }
        folders.push(bin);
        let path = std::env::join_paths(folders).unwrap();
        Programs { scratch, path }
    }

    fn has(&self, program: &str) -> bool {
        std::env::split_paths(&self.path).any(|folder| folder.join(program).exists())
    }
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

    /// Runs the calls before the case and the case. Returns the verdict and everything that was said.
    async fn verdict(&mut self, confined: bool) -> (&'static str, String) {
        let prompt = self.case["fields"]["prompt"].as_str();
        let before = self.case["before"].as_array().into_iter().flatten();
        let cases = before.chain([self.case]).filter(|case| case["tool"].is_string());
        let steps = cases.map(|case| self.call(case)).chain([Step::text("done")]);
        let person = ScriptedUi::new(vec![]);
        let workspace = Workspace::new(&self.project()).with_home(self.path("home"));
        let mut builder =
            Agent::builder(ScriptedModel::new(steps)).workspace(workspace).ui(person.clone());
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
            let spec = ToolSpec::new(name, "works", json!({"type": "object"}));
            let work = FnTool::new(spec, |_| async { Ok("worked".into()) });
            builder = builder.tool(work.with_facts(Facts::zone(Zone::Safe)));
        }
        let agent = builder.build().unwrap();
        self.register(&agent, confined);
        let session = agent.new_session().await.unwrap();
        self.session = session.id().to_string();
        let ended = session.prompt(self.fill(prompt.unwrap_or("go"))).await;
        let mut said = format!("{}{}", transcript(&session), person.notices());
        let _ = match &ended {
            Ok(reply) => writeln!(said, "{:?} {:?}", reply.reason, reply.error),
            Err(why) => writeln!(said, "{why}"),
        };
        let mut results = said.lines().filter(|line| line.starts_with("result "));
        let last = results.next_back().unwrap_or_default();
        let asked = last.contains("there was no answer");
        let is_blocked = last.contains("(denied)")
            || prompt.is_some()
                && ended.as_ref().map_or(true, |reply| !reply.text().contains("done"));
        let verdict = match (asked, is_blocked) {
            (true, _) => "ask",
            (false, true) => "block",
            (false, false) => "pass",
        };
        (verdict, said)
    }

    fn register(&self, agent: &Agent, confined: bool) {
        let handler = self.handler;
        let mut entry = json!({"type": "command", "command": handler["command"]});
        entry["timeout"] = handler["timeout"].as_u64().unwrap_or(60).into();
        let matcher = handler["matcher"].as_str().unwrap_or_default();
        let event = handler["event"].as_str().unwrap();
        let text = json!({"hooks": {event: [{"matcher": matcher, "hooks": [entry]}]}}).to_string();
        let document = Document::parse("settings.json", &text).unwrap();
        let (hooks, _) = claude::read(&document, &ClaudeFile::new("settings.json"));
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
        let host: Arc<dyn HookHost> = Arc::new(HookRunner::new(runner, variables));
        let folder = self.project().join(".claude");
        let base = HookLocation { state: Some(folder.clone()), folder, confined, host };
        let put = |unit: &mut Registry| command_hook::register_all(unit, &hooks, &base);
        agent.extend(owner, put).unwrap();
    }

    /// What differs from the pages; empty if nothing does.
    fn differences(&self, confined: bool, verdict: &str, said: &str) -> String {
        let expect = &self.case["expect"];
        let wanted = expect["verdict"].as_str().unwrap();
        let has_name = |name: &str| self.handler["name"] == name;
        let is_stricter = STRICTER.iter().any(|(name, _)| has_name(name))
            || confined && OUTSIDE.iter().any(|name| has_name(name));
        let fits = match wanted {
            // A guard that says something undefined has not said that the call is fine.
            "unspecified" => true,
            _ if is_stricter => verdict == "block" || verdict == wanted,
            "allow" => verdict == "pass",
            "defer" => verdict == "ask",
            // After a tool, a block only tells the model.
            "block" if self.handler["event"] == "PostToolUse" => verdict == "pass",
            wanted => verdict == wanted,
        };
        let mut found = String::new();
        if !fits {
            let _ = writeln!(found, "  {verdict} instead of {wanted}: {}", last_words(said));
        }
        // Nobody reads the reason of a call that runs.
        let is_read = verdict != "pass" && !is_stricter;
        let reason = expect["reason_contains"].as_str().filter(|_| is_read);
        if let Some(reason) = reason.filter(|reason| !said.contains(reason)) {
            let _ = writeln!(found, "  no reason {reason:?}: {}", last_words(said));
        }
        for name in expect["writes"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            let name = &name.replace("session-1", &self.session);
            let (is_home, path) = match name.strip_prefix("~/") {
                Some(name) => (true, self.path("home").join(name)),
                None => (false, self.project().join(name)),
            };
            // A project's hook writes to the home folder only where the person agreed.
            if !(path.exists() || confined && is_home) {
                let _ = writeln!(found, "  {name} was not written: {}", last_words(said));
            }
        }
        found
    }
}

fn last_words(said: &str) -> String {
    let lines: Vec<_> = said.lines().filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" / ");
    last.chars().take(600).collect()
}

/// Runs every case and lists those whose outcome is not that of the pages.
async fn differing(prefix: Prefix, confined: bool) -> String {
    let programs = Programs::new(prefix);
    let (mut shown, mut count, mut skipped) = (String::new(), 0, 0);
    for handler in &handlers() {
        let needs = handler["needs"].as_array().unwrap().iter().chain([&handler["interpreter"]]);
        let mut needs = needs.filter_map(Value::as_str).filter(|need| *need != "none");
        let is_known = EVENTS.contains(&handler["event"].as_str().unwrap());
        if !is_known || needs.any(|need| !programs.has(need)) {
            skipped += usize::from(is_known);
            continue;
        }
        for case in handler["cases"].as_array().unwrap() {
            count += 1;
            let mut run = Run::new(handler, case, &programs);
            let (verdict, said) = run.verdict(confined).await;
            let found = run.differences(confined, verdict, &said);
            if !found.is_empty() {
                let _ = write!(shown, "{}:\n{found}", handler["name"].as_str().unwrap());
            }
        }
    }
    drop(programs.scratch);
    if skipped > 0 {
        not_tested(&format!("{skipped} handlers need programs that are not there"));
    }
    assert!(count > 100, "{count} cases ran, {skipped} handlers were skipped");
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
