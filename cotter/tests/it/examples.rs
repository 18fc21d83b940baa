//! Tests of the examples: each one does what its comment says.

use std::{error::Error, future::Future};

use cotter_test::PersonAnswer;
use expect_test::{Expect, expect};

macro_rules! examples {
    ($($name:ident $path:literal),*) => {
        $(
            #[path = $path]
            #[expect(dead_code, reason = "an example's `main` is not called from here")]
            mod $name;
        )*
    };
}

examples! {
    permission_gate "../../examples/permission_gate.rs",
    auto_approve "../../examples/auto_approve.rs",
    tool "../../examples/tool.rs",
    skill "../../examples/skill.rs",
    exposed_skill "../../examples/exposed_skill.rs",
    subagent "../../examples/subagent.rs",
    context_transform "../../examples/context_transform.rs",
    metering "../../examples/metering.rs",
    result_cache "../../examples/result_cache.rs",
    custom_compaction "../../examples/custom_compaction.rs",
    pop "../../examples/pop.rs",
    hook_recipes "../../examples/hook_recipes.rs",
    hook_trait "../../examples/hook_trait.rs",
    command "../../examples/command.rs",
    axum_service "../../examples/axum_service.rs"
}

async fn check(example: impl Future<Output = Result<String, Box<dyn Error>>>, expected: Expect) {
    expected.assert_eq(&example.await.expect("the example runs"));
}

#[tokio::test]
async fn permission_gate_example_passes_asks_and_blocks() {
    check(permission_gate::run(), expect![[r#"
        asked: git {"args":"push"} <- check-push: others will see it

        user: Push my work.
        call c1.1: git {"args":"status"}
        call c1.2: git {"args":"push"}
        call c1.3: git {"args":"push --force"}
        result c1.1: (simulated) git status
        result c1.2: (simulated) git push
        result c1.3 (denied): Hook "check-push" blocked the action: it would rewrite shared history. Adjust your approach; do not retry the exact same call.
        assistant: Pushed, without force.
    "#]]).await;
}

#[tokio::test]
async fn metering_example_counts_tokens_and_cost() {
    check(
        metering::run(),
        expect![[r#"
            end_turn: test/scripted, replies 1, tokens 1000, cache 0 read and 800 written, 0.002 USD
            end_turn: test/scripted, replies 2, tokens 1200, cache 800 read and 900 written, 0.004 USD
        "#]],
    )
    .await;
}

#[tokio::test]
async fn result_cache_example_answers_instead_of_the_tool() {
    check(
        result_cache::run(),
        expect![[r#"
        the tool ran 1 time
        "c1.1": "pass"
        "c2.1": "answer"
    "#]],
    )
    .await;
}

#[tokio::test]
async fn auto_approve_example_answers_instead_of_the_person() {
    check(auto_approve::run(), expect![[r#"
        the person was asked:
        fetch {"host":"other.example"} <- zone: zone `network` asks at level `standard`
        --
        fetch {"host":"docs.example"} <- zone: zone `network` asks at level `standard`
        fetch {"host":"docs.example","as":"root"} <- zone: zone `network` asks at level `standard`; as-root: it runs as another user

        user: Read about it.
        call c1.1: fetch {"host":"docs.example"}
        result c1.1: (simulated) page of docs.example
        call c2.1: fetch {"host":"tracker.example"}
        result c2.1 (denied): Permission denied for `fetch`: no trackers. Do not retry this exact call.
        call c3.1: fetch {"host":"other.example"}
        result c3.1 (denied): Permission denied for `fetch`: zone `network` asks at level `standard`, and there was no answer. Do not retry this exact call.
        call c4.1: fetch {"host":"docs.example"}
        call c4.2: fetch {"host":"docs.example","as":"root"}
        result c4.1 (denied): Permission denied for `fetch`: zone `network` asks at level `standard`, and there was no answer. Do not retry this exact call.
        result c4.2 (denied): Permission denied for `fetch`: zone `network` asks at level `standard`; it runs as another user, and there was no answer. Do not retry this exact call.
        assistant: I read what I could.
    "#]]).await;
}

#[tokio::test]
async fn tool_example_defines_a_tool() {
    check(tool::run(), expect![[r#"
        user: Remember the milk.
        call c1.1: append {"file":"todo.txt","line":"buy milk"}
        call c1.2: append {"file":"/elsewhere/todo.txt","line":"buy milk"}
        call c1.3: append {"file":"todo.txt"}
        result c1.1: written
        result c1.2 (denied): Hook "project-roots" blocked the action: /elsewhere/todo.txt is outside the project. Adjust your approach; do not retry the exact same call.
        result c1.3 (invalid_args): Invalid arguments for `append`: "line" is a required property.
        assistant: It is on the list.
        todo.txt: buy milk
    "#]]).await;
}

#[tokio::test]
async fn skill_example_adds_a_skill_by_name() {
    check(
        skill::run(),
        expect![[r#"
        skill: <skill name="tone">
        Answer as a butler would.
        </skill>
        skill: <skill name="brief">
        One sentence, no more.
        </skill>
        user: Dear Sir, when is lunch?
        --
        skill: <skill name="tone">
        Answer as a friend would.
        </skill>
        user: hey, lunch? see /usr/bin/lunch
    "#]],
    )
    .await;
}

#[tokio::test]
async fn exposed_skill_example_lets_the_model_call_a_skill() {
    check(exposed_skill::run(), expect![[r#"
        invoke_skill: Calls for a skill: its instructions or content come back as the result and hold for the rest of the conversation. Skills:
        - citations: How to cite sources. Call for it before writing on science.

        user: What are ribosomes?
        call c1.1: invoke_skill {"name":"citations","args":"Oxford"}
        result c1.1: {"status":"success","data":{"skill":"citations","content":"Cite every claim, in Oxford style."}}
        call c2.1: invoke_skill {"name":"poetry"}
        result c2.1 (not_found): {"status":"error","message":"Skill \"poetry\" is not available. Use one of: citations.","data":null}
        assistant: Ribosomes make proteins (Palade 1955).
    "#]]).await;
}

#[tokio::test]
async fn subagent_example_uses_config_and_function() {
    check(subagent::run(), expect![[r#"
        user: @reviewer look at it, and tell me in German
        call c1.1: invoke_subagent {"name":"reviewer","prompt":"Review the folder."}
        result c1.1: {"status":"success","data":{"subagent":"reviewer","content":"Looks good."}}
        call c3.1: invoke_subagent {"name":"translator","prompt":"Looks good."}
        result c3.1: {"status":"success","data":{"subagent":"translator","content":"Sieht gut aus."}}
        assistant: The reviewer says: Sieht gut aus.

        You keep a repository. 1 messages, list invoke_subagent
        You review code. You change nothing. 1 messages, list
        You keep a repository. 3 messages, list invoke_subagent
        You keep a repository. 5 messages, list invoke_subagent
    "#]]).await;
}

#[tokio::test]
async fn context_transform_example_changes_lists_and_messages() {
    check(
        context_transform::run(),
        expect![[r#"
        user: Hello?
        --
        user: Hello?
        assistant: Hello.
        user: How is the server?
        --
        user: Hello?
        assistant: Hello.
        user: How is the server?
        call c2.1: log {}
        result c2.1: started [and 2 more lines]
        --
        user: How is the server?
        call c2.1: log {}
        result c2.1: started [and 2 more lines]
        assistant: It started.
        user: Thanks.

        stored:
        user: Hello?
        assistant: Hello.
        user: How is the server?
        call c2.1: log {}
        result c2.1: started
        listening
        ready
        assistant: It started.
        user: Thanks.
        assistant: You are welcome.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn custom_compaction_example_gives_the_summary() {
    check(
        custom_compaction::run(),
        expect![[r#"
            user: What colour is the sky?
            --
            user: What colour is the sky?
            assistant: Blue.
            user: Why?
            --
            summary: [Summary of the conversation so far]

            The person asked:
            - What colour is the sky?
            - Why?

            [End of the summary; the conversation goes on from here]
            user: Always?
            note: <system-reminder>
            From hook "report": forced by list-prompts
            </system-reminder>
        "#]],
    )
    .await;
}

#[tokio::test]
async fn p9_pop_example_keeps_an_earlier_compaction() {
    check(
        pop::run(),
        expect![[r#"
        from entries:
        /pop: Popped stack
        user: What grows here?
        assistant: Roses.
        user: Which?
        assistant: Red ones.
        user: [Subtask completed]

        They talked of spades.
        user: Next?

        from messages:
        /pop: Popped stack
        summary: [Summary of the conversation so far]

        They talked of roses.

        [End of the summary; the conversation goes on from here]
        user: Which?
        assistant: Red ones.
        user: [Subtask completed]

        They talked of spades.
        user: Next?
    "#]],
    )
    .await;
}

/// Runs one conversation with both ways of building the context.
async fn check_pop(typed: &str, said: &str, chosen: &[usize], expected: Expect) {
    let chosen = || chosen.iter().map(|index| PersonAnswer::Choice(*index));
    let from_entries = pop::talk(pop::from_entries, typed, said, chosen()).await;
    let from_messages = pop::talk(pop::from_messages, typed, said, chosen()).await;
    let from_entries = from_entries.expect("it runs");
    assert_eq!(from_entries, from_messages.expect("it runs"), "without a compaction they agree");
    expected.assert_eq(&from_entries);
}

#[tokio::test]
async fn p9_nested_pop_is_part_of_the_outer_summary() {
    let typed = "Roses?|Spades?|Handles?|/pop|Boots?|/pop|Next?";
    let said = "Red.|Sharp.|Ash.|About handles.|Rubber.|About spades.|Plant.";
    check_pop(
        typed,
        said,
        &[2, 1],
        expect![[r#"
        /pop: Popped stack
        /pop: Popped stack
        user: Roses?
        assistant: Red.
        user: [Subtask completed]

        About spades.
        user: Next?
    "#]],
    )
    .await;
}

#[tokio::test]
async fn p9_two_separate_pops_both_stay() {
    let typed = "Roses?|Spades?|/pop|Handles?|Boots?|/pop|Next?";
    let said = "Red.|Sharp.|About spades.|Ash.|Rubber.|About boots.|Plant.";
    check_pop(
        typed,
        said,
        &[1, 3],
        expect![[r#"
        /pop: Popped stack
        /pop: Popped stack
        user: Roses?
        assistant: Red.
        user: [Subtask completed]

        About spades.
        user: Handles?
        assistant: Ash.
        user: [Subtask completed]

        About boots.
        user: Next?
    "#]],
    )
    .await;
}

#[tokio::test]
async fn p9_pop_to_the_first_turn_leaves_only_the_summary() {
    check_pop(
        "Roses?|Spades?|/pop|Next?",
        "Red.|Sharp.|All of it.|Plant.",
        &[0],
        expect![[r#"
        /pop: Popped stack
        user: [Subtask completed]

        All of it.
        user: Next?
    "#]],
    )
    .await;
}

#[tokio::test]
async fn p9_without_turns_or_a_choice_nothing_is_popped() {
    check_pop(
        "/pop|Roses?|/pop|Next?",
        "Red.|Plant.",
        &[],
        expect![[r#"
        /pop: No turns to pop
        /pop: (nothing)
        user: Roses?
        assistant: Red.
        user: Next?
    "#]],
    )
    .await;
}

#[tokio::test]
async fn p9_compaction_after_a_pop_includes_it() {
    let typed = "Roses?|Spades?|/pop|Boots?|/compact Next?";
    let said = "Red.|Sharp.|About spades.|Rubber.|All of it.|Plant.";
    let shown = pop::talk(pop::from_messages, typed, said, [PersonAnswer::Choice(1)]);
    check(
        shown,
        expect![[r#"
        /pop: Popped stack
        summary: [Summary of the conversation so far]

        All of it.

        [End of the summary; the conversation goes on from here]
        user: Next?
    "#]],
    )
    .await;
}

#[tokio::test]
async fn hook_recipes_example_runs_four_directive_hooks() {
    check(
        hook_recipes::run(),
        expect![[r#"
        small:
        user: I'm going to sail, ping /me
        --
        user: <conversation>
        [Person]: I'm going to sail, ping /me

        [Agent]: I see.

        [Person]: why?

        [Agent]: A deep answer.

        [Person]: forget it

        [Agent]: Cancelled: nothing was sent to the model.
        </conversation>

        Sum it up.
        --
        summary: [Summary of the conversation so far]

        They want to sail.

        [End of the summary; the conversation goes on from here]
        user: and now?

        opus:
        user: I'm going to sail, ping /me
        assistant: I see.
        user: why?

        stored:
        user: I'm going to sail, ping /me
        assistant: I see.
        user: why?
        assistant: A deep answer.
        user: forget it
        assistant: Cancelled: nothing was sent to the model.
        compaction: [Summary of the conversation so far]

        They want to sail.

        [End of the summary; the conversation goes on from here]
        user: and now?
        assistant: On we go.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn hook_trait_example_defines_a_subsystem() {
    check(
        hook_trait::run(),
        expect![[r#"
        Keep a list of what is left to do.

        <scope>
        lists: your own
        </scope>
        {"todo", "invoke_subagent"}

        the guest's: {"invoke_subagent"}

        user: What is to do?
        call c1.1: todo {"item":"milk"}
        result c1.1: milk
        call c2.1: todo {"item":"bread"}
        result c2.1: milk, bread
        call c3.1: invoke_subagent {"name":"guest","prompt":"Look round."}
        result c3.1: {"status":"success","data":{"subagent":"guest","content":"A nice shop."}}
        assistant: Milk and bread, and the guest likes it.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn command_example_gives_a_status_or_a_prompt() {
    check(
        command::run(),
        expect![[r#"
            /name: Names the session.
            /standup: Drafts a note.
            standup an…: ["ann", "anton"]
            /name "a fine day" -> the session is now named "a fine day" (0 requests)
            /standup ann -> All is well. (1 requests)

            SessionInfo(Some("a fine day"))
            user: Write a stand-up note for ann. 1 entries so far.
            assistant: All is well.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn axum_service_example_serves_an_agent() {
    check(
        axum_service::run(),
        expect![[r#"
        HTTP/1.1 200 OK
        Good day.

        event: session.start
        event: message
        event: text.start
        event: text.delta
        event: text.delta
        event: text.delta
        event: text.end
        event: message
        event: model.post
        event: session.end

        HTTP/1.1 502 Bad Gateway
        the script has no step for request 3
    "#]],
    )
    .await;
}
