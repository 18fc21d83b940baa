//! The offline model in an agent: whole transcripts.

use cotter::{
    Agent, FnTool, ToolOutput, ToolSpec, Workspace,
    builtin::{List, Read},
    history::message::ContentPart,
    hooks::events::EventKind,
    permission::{Zone, facts::Facts},
};
use cotter_models::Rehearsal;
use cotter_test::transcript;
use expect_test::{Expect, expect};
use serde_json::json;

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    std::fs::write(folder.path().join("README.md"), "# Hello\n\nText.\n").expect("writable");
    std::fs::create_dir(folder.path().join("src")).expect("writable");
    std::fs::write(folder.path().join("src/lib.rs"), "//! x\n").expect("writable");
    folder
}

fn agent(folder: &tempfile::TempDir) -> Agent {
    let root = folder.path().canonicalize().expect("it exists");
    let builder = Agent::builder(Rehearsal::new()).workspace(Workspace::new(&root));
    builder.tool(Read::default()).tool(List::default()).build().expect("tools are good")
}

async fn check(prompt: impl Into<cotter::history::message::Content>, expected: Expect) {
    let folder = project();
    let session = agent(&folder).main_session().await.expect("a session is made");
    session.prompt(prompt).await.expect("it runs");
    expected.assert_eq(&transcript(&session));
}

#[tokio::test]
async fn a_request_becomes_a_call_and_its_result_an_answer() {
    check(
        "read README.md",
        expect![[r#"
            user: read README.md
            call call_r1_1_0: read {"path":"README.md"}
            result call_r1_1_0:      1	# Hello
                 2	
                 3	Text.
            assistant: rehearsal: `read` {"path":"README.md"} gave 3 lines:
                 1	# Hello
                 2	
                 3	Text.

            (rehearsal is an offline stand-in, not a model)
        "#]],
    )
    .await;
    check(
        "please list",
        expect![[r#"
            user: please list
            call call_r1_1_0: list {}
            result call_r1_1_0: README.md
            src/
            assistant: rehearsal: `list` {} gave 2 lines:
            README.md
            src/

            (rehearsal is an offline stand-in, not a model)
        "#]],
    )
    .await;
}

#[tokio::test]
async fn and_joins_one_step_and_then_makes_two() {
    check(
        "list src and read src/lib.rs then list",
        expect![[r#"
            user: list src and read src/lib.rs then list
            call call_r1_1_0: list {"path":"src"}
            call call_r1_1_1: read {"path":"src/lib.rs"}
            result call_r1_1_0: lib.rs
            result call_r1_1_1:      1	//! x
            call call_r1_2_0: list {}
            result call_r1_2_0: README.md
            src/
            assistant: rehearsal: `list` {"path":"src"} gave 1 line:
            lib.rs

            `read` {"path":"src/lib.rs"} gave 1 line:
                 1	//! x

            `list` {} gave 2 lines:
            README.md
            src/

            (rehearsal is an offline stand-in, not a model)
        "#]],
    )
    .await;
}

#[tokio::test]
async fn equal_calls_are_made_once() {
    check(
        "list src and list src\nlist src",
        expect![[r#"
            user: list src and list src
            list src
            call call_r1_1_0: list {"path":"src"}
            result call_r1_1_0: lib.rs
            assistant: rehearsal: `list` {"path":"src"} gave 1 line:
            lib.rs

            (rehearsal is an offline stand-in, not a model)
        "#]],
    )
    .await;
}

#[tokio::test]
async fn missing_tool_is_reported_and_not_called() {
    check(
        "run git status",
        expect![[r#"
        user: run git status
        assistant: rehearsal: "run git status" needs the tool `bash`, and there are `read`, `list`

        (rehearsal is an offline stand-in, not a model)
    "#]],
    )
    .await;
    check(
        "write x to y",
        expect![[r#"
        user: write x to y
        assistant: rehearsal: "write x to y" needs the tool `write`, and there are `read`, `list`

        (rehearsal is an offline stand-in, not a model)
    "#]],
    )
    .await;
    check("ask @reviewer to look", expect![[r#"
        user: ask @reviewer to look
        assistant: rehearsal: "ask @reviewer to look" needs the tool `invoke_subagent`, and there are `read`, `list`

        (rehearsal is an offline stand-in, not a model)
    "#]]).await;
}

#[tokio::test]
async fn failed_and_refused_calls_are_reported() {
    check("read nothing.txt", expect![[r#"
        user: read nothing.txt
        call call_r1_1_0: read {"path":"nothing.txt"}
        result call_r1_1_0 (not_found): cannot read nothing.txt: No such file or directory (os error 2)
        assistant: rehearsal: `read` {"path":"nothing.txt"} failed (not_found): cannot read nothing.txt: No such file or directory (os error 2)

        (rehearsal is an offline stand-in, not a model)
    "#]]).await;
    check("read ../../../../../../../../etc/passwd", expect![[r#"
        user: read ../../../../../../../../etc/passwd
        call call_r1_1_0: read {"path":"../../../../../../../../etc/passwd"}
        result call_r1_1_0 (denied): Hook "project-roots" blocked the action: /etc/passwd is outside the project. Adjust your approach; do not retry the exact same call.
        assistant: rehearsal: `read` {"path":"../../../../../../../../etc/passwd"} was refused: Hook "project-roots" blocked the action: /etc/passwd is outside the project. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
    "#]]).await;
}

#[tokio::test]
async fn unknown_sentences_are_reported() {
    check("What is the meaning of it all?", expect![[r#"
        user: What is the meaning of it all?
        assistant: rehearsal: I do not understand "What is the meaning of it all?"

        I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

        (rehearsal is an offline stand-in, not a model)
    "#]]).await;
    check("", expect![[r#"
        user: 
        assistant: rehearsal: nothing was asked

        I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

        (rehearsal is an offline stand-in, not a model)
    "#]]).await;
}

#[tokio::test]
async fn parts_after_the_first_text_are_data() {
    let parts = ["list src", "read README.md"].map(|text| ContentPart::Text(text.into()));
    check(
        parts.to_vec(),
        expect![[r#"
            user: list src
            read README.md
            call call_r1_1_0: list {"path":"src"}
            result call_r1_1_0: lib.rs
            assistant: rehearsal: `list` {"path":"src"} gave 1 line:
            lib.rs

            (rehearsal is an offline stand-in, not a model)
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_prefixed_subagent_tool_is_found() {
    let schema = json!({"type": "object"});
    let spec = ToolSpec::new("glove_invoke_subagent", "", schema);
    let tool = FnTool::new(spec, |permit: cotter::Permit| async move {
        Ok(ToolOutput::from(format!("asked with {}", permit.input())))
    });
    let tool = tool.with_facts(Facts::zone(Zone::Safe));
    let agent = Agent::builder(Rehearsal::new()).tool(tool).build().expect("the tool is good");
    let reply = agent.process_request("ask @reviewer: is it good?").await.expect("it runs");
    expect![[r#"
        rehearsal: `glove_invoke_subagent` {"name":"reviewer","prompt":"is it good?"} gave 1 line:
        asked with {"name":"reviewer","prompt":"is it good?"}

        (rehearsal is an offline stand-in, not a model)"#]]
    .assert_eq(&reply.text());
}

#[tokio::test]
async fn each_request_starts_anew_and_repeats_its_answer() {
    let folder = project();
    let session = agent(&folder).main_session().await.expect("a session is made");
    let first = session.prompt("list src").await.expect("it runs");
    let second = session.prompt("list src").await.expect("it runs");
    assert_eq!((first.text(), first.steps), (second.text(), second.steps));
    assert_eq!(second.steps, 2);
    assert_eq!(second.cost_usd, Some(0.0));
}

#[tokio::test]
async fn the_answer_comes_in_pieces() {
    let folder = project();
    let session = agent(&folder).main_session().await.expect("a session is made");
    let mut run = session.prompt("list src");
    let mut pieces = vec![];
    while let Some(event) = run.next().await {
        if let EventKind::TextDelta { text } = &event.kind {
            pieces.push(text.clone());
        }
    }
    let reply = run.reply().await.expect("it runs");
    assert_eq!(pieces.concat(), reply.text());
    assert!(pieces.len() > 5, "{pieces:?}");
}

#[tokio::test]
async fn g16_subagent_is_called_and_runs() {
    let folder = project();
    let agent = agent(&folder);
    let owner = cotter::Owner::embedder();
    agent.extend(owner, cotter::builtin::subagents).expect("they are good");
    let session = agent.main_session().await.expect("a session is made");
    session.prompt("ask @reviewer to read src/lib.rs and list src").await.expect("it runs");
    expect![[r#"
        user: ask @reviewer to read src/lib.rs and list src
        call call_r1_1_0: invoke_subagent {"name":"reviewer","prompt":"read src/lib.rs and list src"}
        result call_r1_1_0: {"status":"success","data":{"subagent":"reviewer","content":"rehearsal: `read` {\"path\":\"src/lib.rs\"} gave 1 line:\n     1\t//! x\n\n`list` {\"path\":\"src\"} gave 1 line:\nlib.rs\n\n(rehearsal is an offline stand-in, not a model)"}}
        assistant: rehearsal: @reviewer says:
        rehearsal: `read` {"path":"src/lib.rs"} gave 1 line:
             1	//! x

        `list` {"path":"src"} gave 1 line:
        lib.rs

        (rehearsal is an offline stand-in, not a model)
    "#]].assert_eq(&transcript(&session));
    let reply = agent.process_request("ask @nobody to sing").await.expect("it runs");
    expect![[r#"
        rehearsal: `invoke_subagent` {"name":"nobody","prompt":"sing"} failed (not_found): {"status":"error","message":"Subagent \"nobody\" is not registered. Use one of: general, reviewer.","data":null}

        (rehearsal is an offline stand-in, not a model)"#]].assert_eq(&reply.text());
}

#[tokio::test]
async fn g19_summary_lists_the_requests() {
    let folder = project();
    let agent = agent(&folder);
    let owner = cotter::Owner::embedder();
    agent.extend(owner, cotter::builtin::commands).expect("they are good");
    let session = agent.main_session().await.expect("a session is made");
    for prompt in ["list src", "read README.md", "/compact"] {
        session.prompt(prompt).await.expect("it runs");
    }
    let last = session.messages().iter().last().map(|message| message.text().into_owned());
    expect![[r#"
        [Summary of the conversation so far]

        rehearsal: the person asked for 2: "list src", "read README.md"

        (rehearsal is an offline stand-in, not a model)

        [End of the summary; the conversation goes on from here]"#]]
    .assert_eq(&last.expect("a summary"));
}
