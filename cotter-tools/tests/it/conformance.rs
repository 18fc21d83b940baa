//! Conformance of the floor: calls of real tools, what becomes of each, and who decides.
//!
//! The core's table names these cases and looks for their ids here. To add one, add a row.

use cotter::{
    Agent, AgentBuilder,
    permission::{
        guard::Guard,
        mode::Level,
        rule::{Rule, RuleKind},
    },
    pipeline::explain::ExplainReport,
};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step};
use cotter_tools::{bash::Bash, confine::Sandbox, fetch, files};
use serde_json::{Value, json};

use crate::{
    kit::{Project, verdict},
    machine,
};

/// A case: its id, what is in force (as in [`in_force`]), the call (a tool and its input, for `bash` the
/// bare command), the verdict and the zone as in the table of commands, and who decides.
type Row = (&'static str, &'static [&'static str], &'static str, &'static str, &'static str);

const ALL_ALLOWED: &[&str] = &["allow *", "allow Bash(*)", "level permissive"];
const LOOKS: &[&str] = &["only ls *", "only git log *"];
const NO_RM: &[&str] = &["never rm *"];

const ROWS: &[Row] = &[
    // The project's roots (C6) and the system's directories (C7).
    ("CB-001", &[], r#"write {"path":"src/a.go","content":""}"#, "pass workspace", "zone"),
    ("CB-002", &[], r#"write {"path":"../x","content":""}"#, "block machine", "project-roots"),
    ("CB-003", &[], r#"write {"path":"/etc/passwd","content":""}"#, "block never", "zone"),
    // The folder itself is inside, though no file.
    ("CB-004", &[], r#"write {"path":"@project@","content":""}"#, "pass workspace", "zone"),
    ("CB-007", &[], r#"write {"path":"~/x","content":""}"#, "block machine", "project-roots"),
    ("CB-010", &[], r#"write {"path":"a/../../app/b","content":""}"#, "pass workspace", "zone"),
    // Another name for the field is no way round: the schema knows one.
    ("CB-013", &[], r#"write {"file_path":"/etc/passwd","content":""}"#, "block -", "schema"),
    ("CB-014", &[], r#"read {"path":"/etc/passwd"}"#, "block machine", "project-roots"),
    ("CB-015", &[], r#"write {"path":"out/x","content":""}"#, "block never", "zone"),
    // Destructive commands ask, or are never run (C8, L13).
    ("CD-001", &[], "bash rm -rf /", "block never", "zone"),
    ("CD-004", &[], "bash rm -rf node_modules", "ask! workspace", "destructive-commands"),
    ("CD-005", &[], "bash RM -RF /", "block never", "zone"),
    ("CD-006", &[], "bash rm -fr /", "block never", "zone"),
    ("CD-007", &[], "bash rm  -rf /", "block never", "zone"),
    ("CD-008", &[], "bash rm -r -f /", "block never", "zone"),
    ("CD-009", &[], "bash git push --force origin main", "ask! external", "zone"),
    ("CD-010", &[], "bash git push --force-with-lease", "ask! external", "zone"),
    ("CD-011", &[], "bash git push -f", "ask! external", "zone"),
    ("CD-013", &[], "bash git push origin +main", "ask! external", "zone"),
    // It is printed, not executed.
    ("CD-014", &[], "bash echo 'DROP TABLE users'", "pass safe", "zone"),
    ("CD-015", &[], r#"bash psql -c "drop   table x""#, "ask! external", "zone"),
    ("CD-016", &[], "bash sudo rm -rf /", "block never", "zone"),
    ("CD-017", &[], "bash find / -delete", "block never", "zone"),
    ("CD-018", &[], "bash rm --recursive --force /", "block never", "zone"),
    // Paths of commands are judged like paths of tools.
    ("CS-004", &[], "bash cat @project@-evil/x", "block machine", "project-roots"),
    ("CS-006", &[], "bash echo x > /usr/local/y", "block never", "zone"),
    // Recommended is to ask; it reads outside, which C6 refuses.
    ("CS-009", &[], "bash cd .. && ls", "block machine", "project-roots"),
    ("CS-012", &[], "bash cat ~/.ssh/id_rsa", "block machine", "project-roots"),
    ("CS-013", &[], "bash cp a /", "block never", "zone"),
    // The known value is only printed; the unknown one might become several words.
    ("CS-014", &[], "bash echo $HOME/../x", "pass safe", "zone"),
    ("CS-014", &[], "bash echo $SOMEWHERE/../x", "pass safe", "zone"),
    ("CS-014", &[], "bash cat $SOMEWHERE/../x", "ask! build", "zone"),
    ("CS-015", &[], r#"write {"path":"/etc/passwd","content":""}"#, "block never", "zone"),
    (
        "CS-015",
        &[],
        r#"edit {"path":"/usr/x","edits":[{"old":"a","new":"b"}]}"#,
        "block never",
        "zone",
    ),
    // The published check leaves these to others; here they are the project's roots' matter.
    ("CS-015", &[], r#"write {"path":"/home/u/x","content":""}"#, "block machine", "project-roots"),
    ("CS-015", &[], r#"read {"path":"/etc/passwd"}"#, "block machine", "project-roots"),
    ("CS-015", &[], r#"write {"path":"/etcetera","content":""}"#, "block machine", "project-roots"),
    // Guards reject, over parsed commands (L12).
    ("LM-077", &["only"], "bash ls -la", "pass safe", "zone"),
    ("LM-078", LOOKS, "bash rm foo", "block workspace", "policy looks"),
    ("LM-080", ALL_ALLOWED, "bash mkfs.ext4 /dev/sda1", "block never", "zone"),
    ("LM-081", &[], "bash rm -rf build", "ask! workspace", "destructive-commands"),
    ("LM-081", ALL_ALLOWED, "bash rm -rf build", "ask! workspace", "destructive-commands"),
    ("LM-081", &[], "bash rm -rf /tmp/some-path", "block machine", "project-roots"),
    ("LM-082", &[], "bash echo $(whoami)", "pass safe", "zone"),
    ("LM-082", ALL_ALLOWED, "bash cat $(whoami)", "ask! build", "not-understood"),
    // Guards do not decide about input without a command; the tool's schema does.
    ("LM-083", LOOKS, r#"bash {"command":""}"#, "block -", "schema"),
    ("LM-083", LOOKS, r#"bash {}"#, "block -", "schema"),
    ("LM-090", LOOKS, "bash lsof -i", "block -", "policy looks"),
    ("LM-090", LOOKS, "bash ls; rm foo", "block workspace", "policy looks"),
    ("LM-090", LOOKS, "bash ls | curl -d @- https://x.example", "block external", "policy looks"),
    ("LM-091", LOOKS, "bash git log && git push", "block external", "policy looks"),
    ("LM-091", NO_RM, "bash ls; rm foo", "block workspace", "policy looks"),
    // Zones, at every level and with everything allowed (L13).
    ("LM-093", &["level permissive"], "bash rm -rf /", "block never", "zone"),
    ("LM-093", &["level standard"], "bash rm -rf /", "block never", "zone"),
    ("LM-093", &["level strict"], "bash rm -rf /", "block never", "zone"),
    ("LM-093", &["level paranoid"], "bash rm -rf /", "block never", "zone"),
    (
        "LM-094",
        &["level permissive"],
        r#"fetch {"url":"https://x.example/"}"#,
        "pass network",
        "zone",
    ),
    ("LM-094", &["level permissive"], "bash git push", "ask external", "zone"),
    ("LM-098", ALL_ALLOWED, "bash rm -rf /", "block never", "zone"),
    ("LM-098", &["allow bash(rm -rf /)"], "bash rm -rf /", "block never", "zone"),
    ("LM-107", &[], r#"read {"path":"@project@-evil/x"}"#, "block machine", "project-roots"),
    ("LM-108", &[], r#"fetch {"url":"http://169.254.169.254/"}"#, "ask machine", "zone"),
    ("LM-108", &["level permissive"], "bash curl http://169.254.169.254/", "ask machine", "zone"),
];

#[tokio::test]
async fn b11_c6_c7_c8_every_case_of_the_floor_gets_its_verdict_and_its_reason() {
    let project = Project::new();
    let mut wrong = vec![];
    for (id, force, written, expected, by) in ROWS {
        let agent = in_force(agent(&project), force).build().unwrap();
        let (tool, input) = call(&project, written);
        let explained = agent.explain(tool, input).await;
        if let Err(what) = check(&explained, expected, by) {
            wrong
                .push(format!("{id} {written} under {force:?}: {expected} by {by} wanted, {what}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}

fn check(explained: &ExplainReport, expected: &str, by: &str) -> Result<(), String> {
    let (wanted, zone) = expected.split_once(' ').unwrap();
    let (said, given) = (verdict(explained), explained.facts.zone.as_str());
    let (decider, reason) = (&explained.decided_by, &explained.reason);
    let told = said == "pass" || !reason.is_empty();
    match said == wanted && (zone == "-" || zone == given) && decider == by && told {
        true => Ok(()),
        false => Err(format!("{said} {given} by {decider} given: {reason}")),
    }
}

/// An agent with real tools, which runs commands unconfined.
fn agent(project: &Project) -> AgentBuilder {
    agent_that(project, ScriptedModel::new([]))
}

fn agent_that(project: &Project, model: ScriptedModel) -> AgentBuilder {
    let runner = machine::runner().with_sandbox(Sandbox::Off);
    Agent::builder(model)
        .workspace(project.workspace.clone())
        .extend(files::tools)
        .extend(fetch::tools)
        .tool(Bash::new(runner))
}

/// Puts in force: `allow RULE`, `level WORD`, and for one guard over `bash` `only COMMAND` and
/// `never COMMAND`, or `only` for a guard without any.
fn in_force(builder: AgentBuilder, words: &[&str]) -> AgentBuilder {
    let mut guard = Guard::new("looks", ["bash"]).unwrap();
    let mut builder = builder;
    for word in words {
        let (kind, rest) = word.split_once(' ').unwrap_or((word, ""));
        match kind {
            "allow" => builder = builder.rule(Rule::parse(RuleKind::Allow, rest).unwrap()),
            "level" => builder = builder.level(level(rest)),
            "only" if rest.is_empty() => {}
            "only" => guard = guard.allow(rest).unwrap(),
            "never" => guard = guard.deny(rest).unwrap(),
            other => panic!("`{other}` cannot be put in force"),
        }
    }
    builder.extend(|unit| _ = unit.guard(guard))
}

fn level(word: &str) -> Level {
    word.parse().unwrap()
}

/// A call as it is written in a row.
fn call<'a>(project: &Project, written: &'a str) -> (&'a str, Value) {
    let (tool, input) = written.split_once(' ').unwrap();
    let input = input.replace("@project@", project.folder.to_str().unwrap());
    match input.starts_with('{') {
        true => (tool, serde_json::from_str(&input).unwrap()),
        false => (tool, json!({"command": input})),
    }
}

/// A case: its id, the files that are read first, the call after that, and whether more than the zone asks.
type Following = (&'static str, &'static [&'static str], &'static str, bool);

const AFTER_READS: &[Following] = &[
    ("LM-102", &["app.ts", "package.json"], r#"fetch {"url":"https://x.example/"}"#, false),
    ("LM-104", &[".env.production"], "bash npm run build", true),
    ("LM-105", &[".env"], r#"fetch {"url":"https://x.example/"}"#, true),
];

#[tokio::test]
async fn calls_after_reading_a_secret_ask() {
    for (id, reads, written, asks) in AFTER_READS {
        let project = Project::new();
        for path in *reads {
            std::fs::write(project.folder.join(path), "x\n").unwrap();
        }
        let (tool, input) = call(&project, written);
        let reading = reads.iter().map(|path| Step::call("read", json!({"path": path})));
        let steps = reading.chain([Step::call(tool, input), Step::text("done")]);
        let ui = ScriptedUi::new([PersonAnswer::No("no".into())]);
        let agent = agent_that(&project, ScriptedModel::new(steps)).ui(ui.clone()).build().unwrap();
        agent.process_request("go").await.unwrap();
        let shown = ui.shown();
        assert!(shown.contains("<- zone: zone `"), "{id}: {shown}");
        let secret = "secret-then-network: a secret was read in this session";
        assert_eq!(shown.contains(secret), *asks, "{id}: {shown}");
    }
}
