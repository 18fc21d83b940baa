//! The parts of the library itself: the kernel gates, which every agent has, and the optional built-in
//! subagents and commands.

use std::path::Path;

use cotter::{
    Agent, AgentBuilder, Command, FnTool, Skill, Workspace,
    builtin::{self, List, Read},
    fs::declared_file::DeclaredFile,
    history::message::{Content, ContentPart},
    hooks::points::{CompactPre, CompactPreEvent},
    invoke::{
        command::{CommandCx, CommandResult},
        named_item::NameKind,
    },
    permission::{Zone, facts::Facts},
};
use cotter_test::{RecordingModel, ScriptedModel, Step, fresh, shown_event, spec, transcript};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::kit::to_the_end;

fn builder(steps: impl IntoIterator<Item = Step>) -> AgentBuilder {
    Agent::builder(ScriptedModel::new(steps)).extend(builtin::subagents).extend(builtin::commands)
}

/// Runs prompts one after the other on one session and checks the text that the person reads.
async fn check(builder: AgentBuilder, prompts: &[&str], expected: Expect) {
    let session = fresh(&builder.build().unwrap()).await;
    let mut shown = String::new();
    for prompt in prompts {
        let (events, reply) = to_the_end(session.prompt(*prompt)).await;
        let said = reply.map_or_else(|error| format!("error: {error}"), |reply| reply.text());
        let quiet = ["text.", "message", "model.post", "session."];
        let told = events.lines().filter(|line| !quiet.iter().any(|kind| line.starts_with(kind)));
        shown += &format!("> {prompt}\n{said}\n");
        told.for_each(|line| shown += &format!("  {line}\n"));
    }
    expected.assert_eq(&shown);
}

#[tokio::test]
async fn p1_agent_without_builtins_has_no_commands_or_subagents() {
    let agent = Agent::builder(ScriptedModel::new([Step::text("what?")])).build().unwrap();
    assert_eq!(agent.commands(), []);
    assert_eq!(agent.names(NameKind::Subagent), []);
    assert_eq!(agent.process_request("/tools").await.unwrap().text(), "what?");
}

#[tokio::test]
async fn p1_list_commands_show_tools_skills_agents_and_commands() {
    check(
        builder([]).tool(Read::default()).define_skill(
            Skill::new("brief", |_| async { Ok("Be brief.".into()) }).description("Short."),
        ),
        &["/tools", "/skills", "/agents", "/commands"],
        expect![[r#"
            > /tools
            read: Read a file of the project
            invoke_subagent: Gives a task to a subagent and returns its answer
              command.result
            > /skills
            /brief: Short
              command.result
            > /agents
            @general: Works on a task by itself and reports the result
            @reviewer: Reviews code or text and reports what is wrong
              command.result
            > /commands
            /compact: Summarise the conversation now; TEXT says what matters: /compact [TEXT]
            /name: Name this session, or show its name: /name [TEXT]
            /retry: Send your last prompt again
            /tools: List the tools that the model may call
            /skills: List the skills
            /agents: List the subagents that the model may call
            /commands: List the commands
              command.result
        "#]],
    )
    .await;
    check(
        Agent::builder(ScriptedModel::new([])).extend(builtin::commands),
        &["/tools", "/skills", "/agents"],
        expect![[r#"
            > /tools
            there are no tools
              command.result
            > /skills
            there are no skills
              command.result
            > /agents
            there are no subagents
              command.result
        "#]],
    )
    .await;
}

#[tokio::test]
async fn p2_name_command_sets_and_shows_the_name() {
    check(
        builder([]),
        &["/name", "/name  the  \"old\" pier ", "/name"],
        expect![[r#"
        > /name
        this session has no name
          command.result
        > /name  the  "old" pier 
        this session is now called "the "old" pier"
          command.result
        > /name
        this session is called "the "old" pier"
          command.result
    "#]],
    )
    .await;
}

#[tokio::test]
async fn g19_compact_command_summarises_and_reports_the_saving() {
    let words = "a long story ".repeat(40);
    check(
        builder([Step::text(&words), Step::text("a story was told")]),
        &["/compact", "tell me a story", "/compact the pier", "/compact"],
        expect![[r#"
            > /compact
            there is nothing to compact
              compaction_start
              compaction_end
              command.result
            > tell me a story
            a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story a long story 
            > /compact the pier
            compacted: 134 tokens before, 28 after
              compaction_start
              compaction_end
              command.result
            > /compact
            there is nothing to compact
              compaction_start
              compaction_end
              command.result
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g19_compact_command_passes_its_text_to_the_summary_model() {
    let model = RecordingModel::new(ScriptedModel::new([Step::text("hello"), Step::text("short")]));
    let agent = Agent::builder(model.clone()).extend(builtin::commands).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("hi").await.unwrap();
    session.prompt("/compact  keep the file names ").await.unwrap();
    expect![[r#"
        user: hi
        --
        user: <conversation>
        [Person]: hi

        [Agent]: hello
        </conversation>

        Sum it up. Mind this above all: keep the file names
    "#]]
    .assert_eq(&model.shown());
}

#[tokio::test]
async fn g19_a_compaction_that_is_refused_or_fails_is_an_error() {
    let refuse = |_: &CompactPreEvent| cotter::hooks::points::Admission::Block("not now".into());
    check(
        builder([Step::text("hello")]).gate(CompactPre, cotter::named("careful", refuse)),
        &["hi", "/compact"],
        expect![[r#"
            > hi
            hello
            > /compact
            error: command "/compact" failed: hook "careful" refused the compaction: not now
              compaction_start
              hook compact.pre careful gate block
              compaction_end
        "#]],
    )
    .await;
    check(builder([Step::text("hello")]), &["hi", "/compact"], expect![[r#"
        > hi
        hello
        > /compact
        error: command "/compact" failed: cannot summarise the conversation: the script has no step for request 2
          compaction_start
          compaction_end
    "#]]).await;
}

#[tokio::test]
async fn p2_retry_command_sends_the_last_prompt_unchanged() {
    let agent = builder([Step::text("one"), Step::text("two")]).build().unwrap();
    let session = fresh(&agent).await;
    assert_eq!(session.prompt("/retry").await.unwrap().text(), "there is no prompt to send again");
    let parts = vec![ContentPart::Text("what is /tools?".into()), ContentPart::data("/name x")];
    session.prompt(Content::Parts(parts)).await.unwrap();
    assert_eq!(session.prompt("/retry").await.unwrap().text(), "two");
    expect![[r#"
        user: what is /tools?
        /name x
        assistant: one
        user: what is /tools?
        /name x
        assistant: two
    "#]]
    .assert_eq(&transcript(&session));
}

#[tokio::test]
async fn p2_a_prompt_a_command_returns_runs_and_is_not_parsed() {
    let ask = |cx: CommandCx| async move { format!("/tools {}", cx.args.join("+")) };
    check(
        builder([Step::text("done")]).define_command(Command::new("ask", ask)),
        &["/ask a 'b c'"],
        expect![[r#"
            > /ask a 'b c'
            done
              command.result
        "#]],
    )
    .await;
}

#[tokio::test]
async fn p1_events_of_a_command_precede_those_of_its_run() {
    let warn = |cx: CommandCx| async move {
        cx.controls.cx().notify("mind the gap");
        CommandResult::prompt_with("go", [])
    };
    let agent = builder([Step::text("gone")]).define_command(Command::new("warn", warn)).build();
    let session = fresh(&agent.unwrap()).await;
    let mut run = session.prompt("/warn");
    let mut heard = vec![];
    while let Some(event) = run.next().await {
        heard.push(format!("{:?} {}", event.run_id, shown_event(&event)));
    }
    expect![[r#"
        "" ui.request
        "" command.result
        "r1" session.start
        "r1" message user: go
        "r1" text.start
        "r1" text.delta "gone"
        "r1" text.end
        "r1" message assistant: gone
        "r1" model.post
        "r1" session.end end_turn"#]]
    .assert_eq(&heard.join("\n"));
}

#[tokio::test]
async fn g16_reviewer_subagent_can_only_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\n").unwrap();
    let root = folder.path().canonicalize().unwrap();
    let model = RecordingModel::new(ScriptedModel::new([
        Step::call("invoke_subagent", json!({"name": "reviewer", "prompt": "look at a.txt"})),
        Step::call("read", json!({"path": "a.txt"})),
        Step::call("shout", json!({})),
        Step::text("It has one line."),
        Step::text("The reviewer says that it has one line."),
    ]));
    let shout = FnTool::new(spec("shout"), |_| async { Ok("!".into()) });
    let agent = Agent::builder(model.clone())
        .workspace(Workspace::new(&root))
        .tool(Read::default())
        .tool(List::default())
        .tool(shout)
        .extend(builtin::subagents)
        .build()
        .unwrap();
    let (events, reply) = to_the_end(fresh(&agent).await.prompt("@reviewer?")).await;
    assert_eq!(reply.unwrap().text(), "The reviewer says that it has one line.");
    let told = events.lines();
    let told = told.filter(|line| line.starts_with("tool.") || line.starts_with("subagent"));
    // Reading takes time, so its result may come before or after the refusal.
    let (refused, told): (Vec<_>, Vec<_>) = told.partition(|line| line.starts_with("tool.refused"));
    let words = "tool.refused c3.1 scope: The tool `shout` is not available to this agent.";
    assert_eq!(refused, [words]);
    expect![[r#"
        tool.call c1.1 invoke_subagent {"name":"reviewer","prompt":"look at a.txt"}
        subagent.start
        tool.call c2.1 read {"path":"a.txt"}
        tool.result c2.1 "     1\tone"
        subagent.end
        tool.result c1.1 "{\"status\":\"success\",\"data\":{\"subagent\":\"reviewer\",\"content\":\"It has one line.\"}}""#]].assert_eq(&told.join("\n"));
    let requests = model.requests();
    let offered = requests[1].tools.specs().map(|spec| spec.name.as_str());
    assert_eq!(offered.collect::<Vec<_>>(), ["read", "list"]);
    assert!(requests[1].system.starts_with("You review what you are asked to review."));
}

#[tokio::test]
async fn g19_compact_during_a_run_waits_for_its_next_request() {
    let tidy = cotter::FnTool::new(spec("tidy"), |permit: cotter::Permit| async move {
        let session = permit.cx().controls().session().clone();
        let said = session.invoke_command("compact", "the pier").await;
        Ok(format!("{:?}", said.unwrap().unwrap()).into())
    });
    let tidy =
        tidy.with_facts(cotter::permission::facts::Facts::zone(cotter::permission::Zone::Safe));
    let steps =
        [Step::call("tidy", json!({})), Step::text("it was tidied"), Step::text("all is well")];
    let agent = builder(steps).tool(tidy).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("tidy up").await.unwrap();
    expect![[r#"
        user: tidy up
        call c1.1: tidy {}
        result c1.1: Status("the conversation will be compacted before the next request")
        compaction: [Summary of the conversation so far]

        it was tidied

        [End of the summary; the conversation goes on from here]
        assistant: all is well
    "#]]
    .assert_eq(&transcript(&session));
}

/// Checks the result of a call with these facts, under the kernel gates and in the project `/project`.
async fn check_gate(facts: Facts, expected: Expect) {
    check_gate_with(|builder| builder, facts, expected).await;
}

async fn check_gate_with(
    register: impl FnOnce(AgentBuilder) -> AgentBuilder,
    facts: Facts,
    expected: Expect,
) {
    let tool = FnTool::new(spec("touch"), |_| async { Ok("touched".into()) }).with_facts(facts);
    let script = [Step::call("touch", json!({})), Step::text("done")];
    let agent = Agent::builder(ScriptedModel::new(script))
        .workspace(Workspace::new(Path::new("/project")))
        .tool(tool);
    let session = fresh(&register(agent).build().unwrap()).await;
    let _ = session.prompt("go").await;
    let shown = transcript(&session);
    expected.assert_eq(shown.lines().nth(2).unwrap_or_default());
}

#[tokio::test]
async fn s15_files_that_hooks_run_are_protected() {
    let writes = |path: &str| Facts { writes: vec![path.into()], ..Facts::zone(Zone::Workspace) };
    let register = |builder: AgentBuilder| {
        builder.extend(|unit| {
            unit.protect_file(DeclaredFile::InProject("scripts/guard.sh".into()))
                .protect_file(DeclaredFile::Absolute("/project/bin/check".into()));
        })
    };
    check_gate_with(register, writes("/project/scripts/guard.sh"), expect!["result c1.1 (denied): Permission denied for `touch`: scripts/guard.sh is run by a hook, and no person can be asked. Do not retry this exact call."]).await;
    check_gate_with(register, writes("/project/scripts"), expect!["result c1.1 (denied): Permission denied for `touch`: scripts is run by a hook, and no person can be asked. Do not retry this exact call."]).await;
    check_gate_with(register, writes("/project/bin/check"), expect!["result c1.1 (denied): Permission denied for `touch`: bin/check is run by a hook, and no person can be asked. Do not retry this exact call."]).await;
    check_gate_with(register, writes("/project/scripts/other.sh"), expect!["result c1.1: touched"])
        .await;
    check_gate_with(register, writes("/project"), expect!["result c1.1: touched"]).await;
}

#[tokio::test]
async fn c6_project_roots_keeps_calls_inside() {
    let safe = || Facts::zone(Zone::Safe);
    check_gate(
        Facts { reads: vec!["/project/a".into()], writes: vec!["/project/b".into()], ..safe() },
        expect!["result c1.1: touched"],
    )
    .await;
    check_gate(
        Facts { reads: vec!["/project/a".into(), "/projects/b".into()], ..safe() },
        expect![[r#"result c1.1 (denied): Hook "project-roots" blocked the action: /projects/b is outside the project. Adjust your approach; do not retry the exact same call."#]],
    )
    .await;
    check_gate(Facts { writes: vec!["/tmp/a".into()], ..safe() }, expect![[r#"result c1.1 (denied): Hook "project-roots" blocked the action: /tmp/a is outside the project. Adjust your approach; do not retry the exact same call."#]]).await;
}

/// System folders stay closed even if the project's roots include them.
#[tokio::test]
async fn c7_system_directories_are_write_protected() {
    let calls = ["/etc/hosts", "/usr/lib/x", "/dev/sda", "/etc/../etc/x"];
    for path in calls {
        let writes = Facts { writes: vec![path.into()], ..Facts::zone(Zone::Safe) };
        let tool =
            FnTool::new(spec("touch"), |_| async { Ok("touched".into()) }).with_facts(writes);
        let script = [Step::call("touch", json!({})), Step::text("done")];
        let agent = Agent::builder(ScriptedModel::new(script))
            .workspace(Workspace::new(Path::new("/")))
            .tool(tool);
        let session = fresh(&agent.build().unwrap()).await;
        let _ = session.prompt("go").await;
        let shown = transcript(&session);
        let expected = format!("Hook \"system-directories\" blocked the action: {path}");
        assert!(shown.contains(&expected), "{shown}");
    }
}

/// S1, S16: a closed file is closed under every name it has.
#[tokio::test]
async fn s1_s16_hard_link_to_a_closed_file_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["project", "own/deep"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("own/deep/keys.json"), "{}").unwrap();
    std::fs::write(root.join("project/plain"), "words").unwrap();
    std::fs::hard_link(root.join("own/deep/keys.json"), root.join("project/notes")).unwrap();
    std::fs::hard_link(root.join("project/plain"), root.join("project/twin")).unwrap();
    let step = Step::call("read", json!({"path": "notes"}))
        .and_call("read", json!({"path": "twin"}))
        .and_call("read", json!({"path": "plain"}));
    let agent = Agent::builder(ScriptedModel::new([step, Step::text("done")]))
        .workspace(Workspace::new(&root.join("project")).with_closed([root.join("own")]))
        .tool(cotter::builtin::Read::default());
    let session = fresh(&agent.build().unwrap()).await;
    let _ = session.prompt("go").await;
    let shown = transcript(&session);
    let results: Vec<_> = shown.lines().filter(|line| line.starts_with("result")).collect();
    expect![[r#"
        [
            "result c1.1 (denied): Hook \"own-files\" blocked the action: notes is a hard link to a file that is closed to every call. Adjust your approach; do not retry the exact same call.",
            "result c1.2:      1\twords",
            "result c1.3:      1\twords",
        ]
    "#]]
    .assert_debug_eq(&results);
}

/// A page of `read` ends at the stated line. Long lines make the page shorter, and no line is left out.
#[tokio::test]
async fn read_pages_of_a_long_file_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let line = |number: usize| format!("{number} {}\n", "x".repeat(number % 90));
    std::fs::write(root.join("long"), (1..=1900).map(line).collect::<String>()).unwrap();
    let wide = format!("{}\nshort\n", "y".repeat(5000));
    std::fs::write(root.join("wide"), wide).unwrap();
    let mut offset = 1;
    let mut pages = vec![];
    while let Some(next) = {
        let input = json!({"path": "long", "offset": offset});
        let page = read_page(&root, input, 48 * 1024).await;
        assert!(!page.contains("left out") && page.len() <= 48 * 1024, "{page}");
        let numbers = page.lines().filter_map(|line| line.split_once('\t')?.0.trim().parse().ok());
        let numbers: Vec<usize> = numbers.collect();
        let last = *numbers.last().unwrap();
        assert_eq!(numbers, (offset..=last).collect::<Vec<_>>());
        pages.push(last);
        let next = page.split_once("continue with offset ").map(|(_, next)| next.trim().to_owned());
        next.map(|next| next.parse::<usize>().unwrap())
    } {
        offset = next;
    }
    expect!["[881, 1741, 1900]"].assert_eq(&format!("{pages:?}"));
    // A page has at least one line, even if the line exceeds the limit.
    let page = read_page(&root, json!({"path": "wide"}), 1000).await;
    assert!(page.contains("continue with offset 2"), "{page}");
}

async fn read_page(root: &Path, input: serde_json::Value, bytes: usize) -> String {
    let agent = Agent::builder(ScriptedModel::new([Step::call("read", input), Step::text("done")]))
        .workspace(Workspace::new(root))
        .limits(|limits| limits.result_bytes = bytes)
        .tool(Read::default());
    let session = fresh(&agent.build().unwrap()).await;
    let _ = session.prompt("go").await;
    let shown = transcript(&session);
    let (_, result) = shown.split_once("result c1.1: ").unwrap();
    result.rsplit_once("\nassistant: done").unwrap().0.to_owned()
}
