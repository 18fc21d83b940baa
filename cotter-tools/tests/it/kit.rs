//! Helpers of the tests in this folder: a project, an agent that decides there, and the table of
//! commands with their verdicts.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use cotter::{
    Agent, AgentBuilder, Permit, Tool, ToolError, ToolSpec, Workspace,
    permission::{
        Zone,
        facts::Facts,
        rule::{Rule, RuleKind},
    },
    pipeline::explain::ExplainReport,
    tool::ToolFuture,
};
use cotter_test::ScriptedModel;
use cotter_tools::{bash::decide_confinement, shell};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The project that the table of commands speaks about. It goes with the value.
pub(crate) struct Project {
    pub(crate) workspace: Workspace,
    pub(crate) folder: PathBuf,
    pub(crate) temp: PathBuf,
    _keep: TempDir,
}

impl Project {
    pub(crate) fn new() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let root = keep.path().canonicalize().unwrap();
        let (folder, temp) = (root.join("app"), root.join("tmp"));
        for name in ["app/src", "app/build", "app/.git/hooks", "app-evil", "tmp", "tmp-evil"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let files =
            ["src/main.rs", "README.md", ".env", "package.json", "a.txt", "b.txt", ".git/config"];
        for name in files {
            fs::write(folder.join(name), "x\n").unwrap();
        }
        fs::write(folder.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let links =
            [("out", "/etc"), ("up", ".."), ("key", "/home/u/.ssh/id_rsa"), ("same.txt", "a.txt")];
        for (name, target) in links {
            symlink(target, folder.join(name)).unwrap();
        }
        let workspace = Workspace::new(&folder)
            .with_home("/home/u")
            .with_read_roots(["/usr/include".into(), temp.clone()])
            .with_closed(["/home/u/.config/cotter".into(), "/home/u/.local/share/cotter".into()]);
        Project { workspace, folder, temp, _keep: keep }
    }

    /// The project without its links, as most projects are.
    pub(crate) fn without_links() -> Self {
        let project = Project::new();
        for name in ["out", "up", "key", "same.txt"] {
            fs::remove_file(project.folder.join(name)).unwrap();
        }
        project
    }

    /// An agent with these rules. Its `bash` returns the facts of a command and runs nothing. Nothing is
    /// confined.
    pub(crate) fn agent(&self, rules: &[(RuleKind, String)]) -> Agent {
        self.agent_confined(rules, Confined::Not)
    }

    /// The same agent, with commands that would run confined.
    pub(crate) fn agent_confined(&self, rules: &[(RuleKind, String)], confined: Confined) -> Agent {
        let builder = builder_in(&self.workspace, confined);
        let rules = rules.iter().map(|(kind, text)| Rule::parse(*kind, text).unwrap());
        rules.fold(builder, |builder, rule| builder.rule(rule)).build().unwrap()
    }

    /// A command with its stand-ins filled in.
    fn fill(&self, command: &str) -> String {
        let (folder, temp) = (self.folder.to_str().unwrap(), self.temp.to_str().unwrap());
        let mut filled = command.replace("@project@", folder).replace("@tmp@", temp);
        let repeated = [
            ("@long:", "a"),
            ("@words:", "a "),
            ("@lines:", "true\n"),
            ("@and:", "true && "),
            ("@open:", "$("),
            ("@close:", ")"),
            ("@group:", "( "),
            ("@end:", " )"),
        ];
        for (mark, text) in repeated {
            while let Some((before, after)) = filled.split_once(mark) {
                let (count, after) = after.split_once('@').unwrap();
                filled = format!("{before}{}{after}", text.repeat(count.parse().unwrap()));
            }
        }
        filled
    }

    /// The table of commands, read.
    pub(crate) fn classes(&self) -> Vec<Class> {
        let mut classes = vec![];
        for (number, line) in include_str!("../data/shell.txt").lines().enumerate() {
            if let Some(title) = line.strip_prefix("## ") {
                classes.push(Class::new(title));
            } else if !line.starts_with('#') && !line.trim().is_empty() {
                let class: &mut Class = classes.last_mut().unwrap();
                class.cases.push(self.case(number + 1, line));
            }
        }
        classes
    }

    fn case(&self, line: usize, text: &str) -> Case {
        let (verdicts, rest) = text.trim().split_once(char::is_whitespace).unwrap();
        let (zones, command) = rest.trim_start().split_once(char::is_whitespace).unwrap();
        let command = command.trim_start();
        let command = match command.starts_with('"') {
            true => {
                serde_json::from_str(command).unwrap_or_else(|error| panic!("line {line}: {error}"))
            }
            false => command.to_owned(),
        };
        let words = |text: &str| text.split('/').map(str::to_owned).collect();
        Case { line, verdicts: words(verdicts), zones: words(zones), command: self.fill(&command) }
    }

    /// Every command of the table.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.classes().into_iter().flat_map(|class| class.cases).map(|case| case.command).collect()
    }
}

/// An agent in a workspace. Its `bash` returns the facts of a command and runs nothing.
pub(crate) fn builder_in(workspace: &Workspace, confined: Confined) -> AgentBuilder {
    builder_with_model(workspace, confined, ScriptedModel::new([]))
}

/// The same agent, with a model that makes calls.
pub(crate) fn builder_with_model(
    workspace: &Workspace,
    confined: Confined,
    model: ScriptedModel,
) -> AgentBuilder {
    Agent::builder(model).workspace(workspace.clone()).tool(Bash::new(confined))
}

/// How commands would be confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confined {
    /// Not, or without a view of the files: code of the project counts as unconfined.
    Not,
    /// Without a view of the files, where a person said that it is enough.
    WithoutView,
    /// In a view of the files that enforces the rules about them.
    InView,
}

/// Commands of one kind, under the same rules.
pub(crate) struct Class {
    pub(crate) title: String,
    pub(crate) rules: Vec<(RuleKind, String)>,
    pub(crate) cases: Vec<Case>,
}

impl Class {
    fn new(title: &str) -> Self {
        let rules =
            title.split_once(" (").map_or("", |(_, rules)| rules.strip_suffix(')').unwrap());
        let rules = rules.split("; ").filter(|rule| !rule.is_empty()).map(|rule| {
            let (kind, text) = rule.split_once(' ').unwrap();
            let kind = match kind {
                "allow" => RuleKind::Allow,
                "ask" => RuleKind::Ask,
                "deny" => RuleKind::Deny,
                other => panic!("`{other}` is no kind of rule"),
            };
            (kind, text.to_owned())
        });
        Class { title: title.into(), rules: rules.collect(), cases: vec![] }
    }
}

/// One command, and its expected verdicts.
pub(crate) struct Case {
    pub(crate) line: usize,
    pub(crate) verdicts: Vec<String>,
    pub(crate) zones: Vec<String>,
    pub(crate) command: String,
}

/// Explains the decision about a command.
pub(crate) async fn explain(agent: &Agent, command: &str) -> ExplainReport {
    agent.explain("bash", json!({"command": command})).await
}

/// The verdict in the words of the table: `ask!` where a kernel gate asks.
pub(crate) fn verdict(explained: &ExplainReport) -> &'static str {
    let kernel_asks = explained.considered.iter().any(|c| c.kind == "kernel" && c.verdict == "ask");
    match explained.verdict {
        "ask" if kernel_asks => "ask!",
        other => other,
    }
}

/// A command in words that fit on a line.
pub(crate) fn brief(command: &str) -> String {
    let shown = format!("{command:?}");
    match shown.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

struct Bash {
    spec: ToolSpec,
    confined: Confined,
}

impl Bash {
    fn new(confined: Confined) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        });
        Bash { spec: ToolSpec::new("bash", "Tells what a command touches.", schema), confined }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self, input: &Value, workspace: &Workspace) -> Facts {
        let mut facts = shell::facts(input["command"].as_str().unwrap(), workspace);
        // As the runner does where the machine can confine.
        let is_confined = |zone| self.confined != Confined::Not && zone < Zone::Machine;
        decide_confinement(&mut facts, is_confined, || self.confined == Confined::InView);
        facts
    }

    fn run(&self, _: Permit) -> ToolFuture<'_> {
        Box::pin(async { Err(ToolError::failed("it only tells")) })
    }
}
