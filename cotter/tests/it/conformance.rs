//! Conformance: the behaviour of similar systems as cases, and our behaviour in each case.
//!
//! [`CASES`] is the only table. A case is run here, is run by a test of another crate, is not applicable
//! for a stated reason, or waits for a named feature. To add a case, add a line: `run` takes any future
//! that panics if the case fails. The checks are in `conformance/`, by family; cases that differ only in
//! data share one function.
//!
//! The published cases are not part of the repository. `COTTER_CONFORMANCE` names a folder with the cases
//! as JSON files. If it is set, every published case of our areas must be in the table, and every id of the
//! table must be published. Without the variable the test reports that it compared nothing.

mod kit;
mod tools;
mod hooks;
mod runs;
mod sessions;
mod permissions;
mod profiles;
mod directives;
mod dispatch;
mod skills;
mod commands;
mod context;
mod compaction;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    future::Future,
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    pin::Pin,
    time::Duration,
};

use cotter::{Origin, Owner};
use serde_json::{Value, json};

use self::skills::Says;

/// The areas that this test covers, in the order of the output.
const AREAS: &[&str] = &[
    "registry",
    "tool-dispatch",
    "tool-result",
    "tool.pre",
    "tool.post",
    "model.pre",
    "session.end",
    "lifecycle",
    "limits",
    "events",
    "ordering",
    "order",
    "composition",
    "error-channel",
    "cancel",
    "interceptor",
    "hook-fn",
    "hook-chain",
    "hook-dispatch",
    "tool-filter",
    "reminder",
    "abort",
    "wire",
    "embedded",
    "session-file",
    "session-context",
    "tree",
    "llm-conversion",
    "runner",
    "concurrency",
    "permission",
    "directive-parsing",
    "dispatch",
    "dispatch-order",
    "dispatch-error",
    "skill-injection",
    "skill-listing",
    "mention",
    "scope",
    "slash-preprocess",
    "commands",
    "input",
    "context",
    "custom-entries",
    "compaction",
    "tools",
    "approval",
    "delegate",
    "safety-hook",
    "guard",
    "zone",
    "zone-combo",
    "path-filter",
    "mcp-bridge",
    "agent.json",
    "approve",
];

/// One case and its treatment.
struct Case {
    id: &'static str,
    area: &'static str,
    how: How,
}

enum How {
    Run(fn() -> Checking),
    /// A test of another crate: its file and its name.
    Elsewhere(&'static str, &'static str),
    /// A row of a table in a test of another crate: the file and the name of the test.
    Row(&'static str, &'static str),
    NotApplicable(&'static str),
    #[expect(dead_code, reason = "nothing is left for later just now")]
    Later(&'static str),
}

/// Cases about calls of real tools.
const FLOOR: (&str, &str) = (
    "cotter-tools/tests/it/conformance.rs",
    "b11_c6_c7_c8_every_case_of_the_floor_gets_its_verdict_and_its_reason",
);
/// Cases about a call that follows another call.
const SECRETS: (&str, &str) =
    ("cotter-tools/tests/it/conformance.rs", "calls_after_reading_a_secret_ask");
/// Policies in a settings file.
const POLICIES: (&str, &str) =
    ("cotter-files/src/settings.rs", "l12_policy_needs_valid_tools_and_patterns");

type Checking = Pin<Box<dyn Future<Output = ()>>>;

macro_rules! cases {
    ($($id:literal $area:literal $how:ident $what:expr;)*) => {
        const CASES: &[Case] =
            &[$(Case { id: $id, area: $area, how: cases!(@$how $what) }),*];
    };
    (@run $check:expr) => { How::Run(|| Box::pin($check)) };
    (@elsewhere $where:expr) => { How::Elsewhere($where.0, $where.1) };
    (@row $where:expr) => { How::Row($where.0, $where.1) };
    (@not_applicable $why:expr) => { How::NotApplicable($why) };
    (@later $feature:expr) => { How::Later($feature) };
}

cases! {
    "GT-019" "registry" run tools::an_extension_loads_once();
    "CT-019" "registry" run tools::first_tool_of_a_name_wins(Owner::embedder());

    "CT-003" "tool-dispatch" run tools::unknown_tool(&[], "nonexistent", "There are no tools here");

    "GD-026s" "tool-result" run skills::invokes_skill(
        Says::Text("V"),
        json!({"name": "n", "args": "foo"}),
        r#": {"status":"success","data":{"skill":"n","content":"V"}}"#,
        &[r#"skill n agent "foo" Some("foo")"#],
    );
    "GD-029s" "tool-result" run skills::invalid_invocation("invoke_skill", json!({}), "name");
    "GD-031s" "tool-result" run tools::parts_are_joined_for_the_model_and_stored();
    "GD-032s" "tool-result" run skills::picture_of_a_skill_is_stored_for_renderers();
    "GD-034s" "tool-result" run skills::invokes_skill(
        Says::Panic("boom"),
        json!({"name": "n"}),
        r#" (failed): {"status":"error","message":"it panicked: boom","data":null}"#,
        &[r#"skill n agent "" None"#],
    );
    "GD-036s" "tool-result" run skills::invokes_subagent(
        Says::Text("sunny"),
        json!({"name": "w", "prompt": "NYC"}),
        r#": {"status":"success","data":{"subagent":"w","content":"sunny"}}"#,
        &[r#"subagent w "NYC""#],
    );
    "GD-037s" "tool-result" run skills::invokes_subagent(
        Says::Text("sunny"),
        json!({"name": "zzz", "prompt": "p"}),
        concat!(
            r#" (not_found): {"status":"error","message":"Subagent \"zzz\" is not registered. "#,
            r#"Use one of: w.","data":null}"#,
        ),
        &[],
    );
    "GD-038s" "tool-result"
        run skills::invalid_invocation("invoke_subagent", json!({"name": "w"}), "prompt");
    "GD-039s" "tool-result" run skills::invokes_subagent(
        Says::Fail("boom"),
        json!({"name": "w", "prompt": "p"}),
        r#" (failed): {"status":"error","message":"boom","data":null}"#,
        &[r#"subagent w "p""#],
    );
    "GD-040s" "tool-result" run skills::invokes_subagent(
        Says::Text(""),
        json!({"name": "w", "prompt": "p"}),
        r#": {"status":"success","data":{"subagent":"w","content":"[subagent produced no text content]"}}"#,
        &[r#"subagent w "p""#],
    );
    "GD-041s" "tool-result" run skills::two_subagents_of_one_step();
    "GD-044s" "tool-result" run tools::unknown_tool(&["nop"], "nope", "Did you mean `nop`?");
    "GD-045s" "tool-result" run tools::tool_failure_reaches_the_model_and_is_not_retried(tools::Fails::Panic("boom"));
    "GD-046s" "tool-result" run tools::tool_failure_reaches_the_model_and_is_not_retried(tools::Fails::Err("m"));
    "GD-047s" "tool-result" run tools::invalid_input("t", &["n"], json!({"n":7}), "/n");
    "GD-048s" "tool-result" run tools::sequential_tools_run_in_order_past_a_failure();
    "GC-010" "tool-result" run skills::invokes_skill(
        Says::Text("C"),
        json!({"name": "n"}),
        r#": {"status":"success","data":{"skill":"n","content":"C"}}"#,
        &[r#"skill n agent "" None"#],
    );
    "GC-011" "tool-result" not_applicable "G14: a skill has a name and args, no sections";
    "GC-013" "tool-result" run skills::invokes_skill(
        Says::Text("C"),
        json!({"name": "zz"}),
        concat!(
            r#" (not_found): {"status":"error","message":"Skill \"zz\" is not available. "#,
            r#"Use one of: n.","data":null}"#,
        ),
        &[],
    );
    "GC-014" "tool-result" run skills::invokes_skill(
        Says::Text("C"),
        json!({"name": "h"}),
        concat!(
            r#" (not_found): {"status":"error","message":"Skill \"h\" is not available. "#,
            r#"Use one of: n.","data":null}"#,
        ),
        &[],
    );
    "GT-010" "tool-result" run tools::unknown_tool(&["look"], "nope", "There are: look");
    "GT-012" "tool-result" run tools::invalid_input("t", &["hull"], json!({"hull":42}), "/hull");
    "GT-013" "tool-result"
        run tools::tool_failure_reaches_the_model_and_is_not_retried(tools::Fails::Err("database is down"));
    "GT-014" "tool-result" run tools::render_data_is_not_sent_to_the_model();
    "GT-015" "tool-result" run tools::a_tool_out_of_scope_is_neither_shown_nor_run();

    "LM-039" "tool.pre" run hooks::block_reaches_the_model_with_its_reason();
    "LM-046" "tool.pre" run hooks::no_hook_is_asked_about_an_unknown_tool();
    "LM-042" "tool.post" run hooks::output_after_a_tool_is_in_the_next_request();
    "LM-044" "tool.post" run hooks::no_post_hook_runs_for_a_refused_call();
    "LM-049" "model.pre" run hooks::note_before_a_request_is_sent_with_it();
    "LM-050" "model.pre" run hooks::model_pre_hook_cannot_stop_a_request();

    "LM-052" "session.end" run runs::an_abort_before_the_first_request_ends_the_run();
    "LM-053" "session.end" run runs::error_comes_before_session_end();
    "LM-054" "session.end" run runs::a_failing_observer_changes_no_end();
    "LM-055" "session.end" run runs::an_abort_while_text_streams_keeps_it();
    "LM-056" "session.end" run runs::a_dropped_run_ends_properly();

    "bd-01" "lifecycle" run runs::points_fire_in_the_order_of_a_turn();
    "bd-02" "lifecycle" run runs::turn_end_gate_continues_the_run();
    "bd-03" "lifecycle" run runs::messages_removed_by_context_stay_in_history();
    "bd-04" "lifecycle" run runs::continued_run_has_a_message_to_answer();
    "bd-05" "lifecycle" run runs::a_failing_gate_at_the_turns_end_changes_nothing();
    "bd-06" "lifecycle" run runs::continued_turn_stays_within_one_run();
    "bd-08" "lifecycle" run runs::an_abort_interrupts_a_hanging_gate();
    "CT-052" "lifecycle" run skills::an_agent_leaves_once();
    "LM-038" "lifecycle" run runs::a_session_starts_a_run_per_prompt();

    "CT-011" "limits" run runs::steps_are_limited();
    "LM-059" "limits" run runs::truncated_reply_is_continued_three_times();
    "LM-060" "limits" run runs::refusal_is_the_end_reason();

    "CT-009" "events" run runs::tool_call_event_precedes_its_result();
    "CT-015" "events" run runs::thinking_closes_before_text_opens();
    "CT-016" "events" run runs::text_and_thinking_are_never_open_together();
    "CT-017" "events" run runs::text_closes_before_a_call();
    "CT-018" "events" run runs::events_end_with_the_end_and_the_reply_agrees();
    "CT-059" "events" run runs::listener_gets_run_ends_until_it_is_dropped();
    "LM-061" "events" run runs::run_has_start_and_end_and_counts_steps();
    "LM-062" "events" run runs::a_retry_is_no_step();
    "LM-063" "events" run runs::a_cut_reply_ends_its_step();
    "LM-064" "events" run runs::question_and_answer_events_are_sent_once();

    "CT-006" "ordering" run tools::results_stand_in_call_order();

    "CT-046" "composition" run hooks::rewrites_of_a_prompt_chain();
    "CT-047" "composition"
        run tools::first_tool_of_a_name_wins(Owner::new(Origin::Space("s".into()), "s"));
    "CT-048" "composition" run tools::a_unit_with_two_tools_of_a_name_is_refused();

    "CT-004" "error-channel" run tools::error_text_reaches_the_model_unchanged();
    "CT-013" "error-channel" run runs::a_broken_stream_still_ends_the_run();
    "CT-056" "error-channel" run tools::unparsable_arguments_are_answered();
    "CT-058" "error-channel" elsewhere (
        "cotter-tools/tests/it/bash.rs",
        "bash_result_is_the_output_and_a_nonzero_exit_code",
    );

    "CT-054" "cancel" run runs::an_abort_drops_calls_of_half_a_reply();
    "CT-055" "cancel" run tools::abort_answers_parallel_calls();

    "LM-069" "interceptor" run hooks::transforms_run_by_origin_and_registration();
    "LM-070" "interceptor" run hooks::rewrites_of_an_input_chain();
    "LM-071" "interceptor" run hooks::a_block_ends_the_chain_of_transforms();
    "LM-072" "interceptor" run hooks::rewrites_of_a_result_chain();
    "LM-073" "interceptor" run hooks::a_removed_hook_is_gone_once();
    "LM-075" "interceptor" run hooks::an_invalid_input_meets_no_hook();
    "LM-152" "interceptor" run hooks::approved_input_is_the_input_that_runs();

    "LM-002" "hook-fn" run hooks::a_failing_gate_blocks_with_its_words();
    "LM-017" "hook-fn" run hooks::no_hook_starts_after_an_abort();

    "LM-019" "hook-chain" run hooks::a_block_ends_the_chain_of_gates();
    "LM-020" "hook-chain" run hooks::hooks_without_an_objection_pass();
    "LM-021" "hook-chain" run hooks::a_block_without_a_reason_says_so();
    "LM-022" "hook-chain" run hooks::a_slow_gate_blocks();

    "CH-017" "hook-dispatch" run hooks::filtered_hook_runs_for_its_tools_only("read_file", &[]);
    "CH-018" "hook-dispatch"
        run hooks::filtered_hook_runs_for_its_tools_only("write_file", &["Output of hook \"w\": filtered"]);
    "CH-019" "hook-dispatch" run hooks::checks("bash", &[("go-blocker", Some("unsafe"))], &["go-blocker"]);
    "CH-020" "hook-dispatch"
        run hooks::checks("bash", &[("blocker", Some("no")), ("second", None)], &["blocker"]);
    "CH-021" "hook-dispatch" run hooks::every_warning_reaches_the_model();
    "CH-022" "hook-dispatch" run hooks::a_warning_before_a_block_reaches_the_model();
    "CH-024" "hook-dispatch" run hooks::a_failing_transform_refuses_the_call();
    "CH-026" "hook-dispatch" run hooks::a_failing_observer_leaves_the_result();
    "CH-027" "hook-dispatch" run hooks::hook_is_disabled_enabled_and_removed_by_id();
    "CH-028" "hook-dispatch" run hooks::the_second_hook_of_a_name_is_refused();

    "CTF-003" "tool-filter" run hooks::filter("space-*", "space-code-run", true);
    "CTF-004" "tool-filter" run hooks::filter("bash", "read_file", false);
    "CTF-006" "tool-filter" run hooks::filter("*", "mcp:github:search", true);
    "CTF-009" "tool-filter" run hooks::filter("write_*", "write_file", true);

    "LM-024" "reminder" run hooks::blank_words_are_not_sent();
    "LM-025" "reminder" run hooks::output_and_context_are_two_notes();
    "LM-028" "reminder" run hooks::a_note_is_delivered_once();
    "LM-030" "reminder" not_applicable "L9: three kinds of notes, no list to suppress them";
    "LM-031" "reminder" run hooks::a_flood_of_notes_hides_no_block();
    "LM-033" "reminder" run hooks::the_words_of_a_block();
    "LM-035" "reminder" run hooks::note_before_every_request_is_sent_with_each();
    "LM-036" "reminder" run hooks::a_retry_loses_no_note();

    "GD-049s" "abort" run tools::abort_answers_waiting_calls();

    "CT-053" "wire" run tools::a_failed_call_on_the_wire();

    "CT-028" "embedded" run permissions::question_without_a_person_refuses();

    "sf-01" "session-file" run sessions::an_empty_file_has_no_entries();
    "sf-04" "session-file" run sessions::file_that_is_not_a_session_is_unchanged();
    "sf-05" "session-file" run sessions::torn_line_loses_only_itself();
    "sf-06" "session-file" not_applicable "FORMATS Session file: every entry has an id, from the first version on";
    "sf-07" "session-file" run sessions::ids_from_elsewhere_stay();
    "sf-09" "session-file" run sessions::a_long_file_with_two_compactions();
    "sf-10" "session-file" run sessions::everything_is_stored_at_once();
    "sf-12" "session-file" run sessions::the_last_label_counts();
    "sf-14" "session-file" run sessions::the_leaf_is_stored();
    "sf-15" "session-file" not_applicable "session files lie in one folder, named by their id";
    "sf-17" "session-file" run sessions::a_name_is_one_line();
    "sf-18" "session-file" run sessions::a_session_may_have_two_roots();
    "sf-21" "session-file" run sessions::a_cycle_of_parents_is_cut();

    "sc-02" "session-context" run sessions::a_plain_conversation();
    "sc-03" "session-context" run sessions::a_thinking_level_is_read();
    "sc-04" "session-context" run sessions::a_model_change_is_read();
    "sc-05" "session-context" run sessions::a_reply_after_a_model_change_counts();
    "sc-11" "session-context" run sessions::unknown_leaf_moves_nothing();
    "sc-12" "session-context" run sessions::orphan_entry_is_stored_and_reported();
    "sc-13" "session-context" run sessions::a_leaf_before_the_first_entry();
    "sc-14" "session-context" run sessions::custom_entries_are_no_messages();
    "sc-17" "session-context" run sessions::a_compaction_may_keep_nothing();
    "sc-18" "session-context" run sessions::a_transform_edits_messages_by_entry();
    "sc-19" "session-context" run sessions::entries_after_the_leaf_are_not_sent();

    "tr-01" "tree" run sessions::navigating_to_before_a_prompt();
    "tr-03" "tree" run sessions::a_summary_of_a_branch_left_behind();
    "tr-04" "tree" run sessions::navigating_stores_the_leaf_alone();
    "tr-05" "tree" run sessions::a_navigation_that_does_not_happen();
    "tr-06" "tree" run sessions::navigating_to_the_leaf_stores_nothing();
    "tr-07" "tree" run sessions::navigating_waits_for_a_run();

    "cv-01" "llm-conversion" run sessions::unknown_role_is_stored_and_not_sent();
    "cv-02" "llm-conversion" not_applicable "FORMATS Session file: there is no role for a command a person ran";

    "CX-001" "runner" not_applicable "L21: runs are limited by steps, budget and abort";
    "CX-003" "runner" elsewhere (
        "cotter-models/tests/it/anthropic.rs",
        "foreign_ids_and_names_get_allowed_characters",
    );
    "CX-004" "runner" run tools::out_of_scope_unknown_and_invalid_calls_differ();
    "CX-006" "runner" run tools::first_tool_of_a_name_wins(Owner::new(Origin::User, "servers"));
    "CX-009" "runner" run tools::empty_output_is_named();

    "GC-016" "permission" run permissions::invalid_input_is_not_asked_about(Value::Null);
    "GC-018" "permission" run permissions::answer_is_bound_to_the_shown_input();
    "CQ-003" "permission" run permissions::a_name_decides_nothing("mail.send");
    "CQ-006" "permission" run permissions::a_name_decides_nothing("org.invite");
    "CQ-007" "permission" run permissions::a_name_decides_nothing("payInvoice");
    "CQ-009" "permission" run permissions::a_name_decides_nothing("resetBoard");
    "CQ-011" "permission" run tools::unknown_tool(&["look"], "", "There are: look");
    "CQ-012" "permission" run permissions::a_name_decides_nothing("createTask");
    "CQ-013" "permission" run permissions::a_name_decides_nothing("org.list_members");
    "CQ-015" "permission" run permissions::a_name_decides_nothing("project.create");
    "CQ-017" "permission" run permissions::a_name_decides_nothing("board.update_card");
    "CQ-018" "permission" run permissions::a_name_decides_nothing("calendar.find_free_slot");
    "CQ-019" "permission" run permissions::a_name_decides_nothing("org.info");
    "CQ-020" "permission" run permissions::a_name_decides_nothing("project.refresh");
    "CQ-021" "permission" run permissions::nested_call_is_decided_separately();
    "CQ-022" "permission" run permissions::invalid_input_is_not_asked_about(json!("garbage"));
    "GX-004" "permission" run permissions::session_answer_covers_the_shown_call();
    "LM-110" "permission" run permissions::mode_decides_without_a_rule();
    "LM-111" "permission" run permissions::no_mode_lets_an_asked_call_pass();
    "LM-112" "permission" run permissions::deny_then_ask_then_allow_then_zone();
    "LM-113" "permission" not_applicable "a rule's tool is a glob over a name, which has no segments";
    "LM-114" "permission" run permissions::a_check_that_fails_refuses();
    "LM-116" "permission" run permissions::reason_of_a_no_reaches_the_model();

    "GP-001s" "directive-parsing" run directives::binds("/compact", "", &["hook compact"]);
    "GP-003s" "directive-parsing"
        run directives::binds("/concise tell me about Rust", "tell me about Rust", &["skill concise"]);
    "GP-004s" "directive-parsing"
        run directives::binds("/research-mode tell me about ribosomes", "tell me about ribosomes", &["skill research-mode"]);
    "GP-007s" "directive-parsing" run directives::stays("ping /me at 3pm");
    "GP-009s" "directive-parsing" run directives::stays("@weather NYC");
    "GP-010s" "directive-parsing"
        run directives::binds("@weather /compact NYC", "@weather NYC", &["hook compact"]);
    "GP-011s" "directive-parsing"
        run directives::binds("please /concise explain", "please explain", &["skill concise"]);
    "GP-013s" "directive-parsing" run directives::binds("/a /b go", "go", &["hook a", "hook b"]);
    "GP-016s" "directive-parsing" run directives::binds("/dup hi", "hi", &["hook dup"]);
    "GP-017s" "directive-parsing"
        run directives::binds("/concise /concise hi", "hi", &["skill concise", "skill concise"]);
    "GP-019s" "directive-parsing" run directives::stays("do it /concise.");
    "GP-021s" "directive-parsing" run directives::stays("(/concise) hi");
    "GP-022s" "directive-parsing" run directives::stays("`/concise` hi");
    "GP-023s" "directive-parsing" run directives::stays("/Concise hi");
    "GP-024s" "directive-parsing" run directives::stays("/1a hi");
    "GP-025s" "directive-parsing" run directives::stays("//concise hi");
    "GP-026s" "directive-parsing" run directives::stays("/concise/ hi");
    "GP-028s" "directive-parsing" run directives::stays("foo/concise hi");
    "GP-029s" "directive-parsing"
        run directives::binds("hello\n/concise\nworld", "hello\n\nworld", &["skill concise"]);
    "GP-030s" "directive-parsing"
        run directives::binds("a\t/concise\tb", "a\tb", &["skill concise"]);
    "GP-031s" "directive-parsing"
        run directives::binds("a\u{a0}/concise\u{a0}b", "a\u{a0}\u{a0}b", &["skill concise"]);
    "GP-032s" "directive-parsing"
        run directives::binds("\u{3000}/concise hi", "\u{3000}hi", &["skill concise"]);
    "GP-033s" "directive-parsing" run directives::stays("/concise\u{200b} hi");
    "GP-034s" "directive-parsing" run directives::stays("/concise\u{1f642}");
    "GP-035s" "directive-parsing"
        run directives::binds("a\r\n/concise\r\nb", "a\r\n\r\nb", &["skill concise"]);
    "GP-037s" "directive-parsing" run directives::stays("keep  two   spaces");
    "GP-038s" "directive-parsing"
        run directives::binds("/concise\n    if x:\n        y()", "    if x:\n        y()", &["skill concise"]);
    "GP-039s" "directive-parsing" run directives::stays("```\n    indented\n```");
    "GP-040s" "directive-parsing" run directives::stays("a  \n  b");
    "GP-041s" "directive-parsing"
        run directives::binds("a\n\n\nb /concise", "a\n\n\nb", &["skill concise"]);
    "GP-042s" "directive-parsing" run directives::stays("```\n/compact\n```");
    "GP-044s" "directive-parsing" run directives::stays("/comp hi");
    "GP-045s" "directive-parsing" run directives::stays("");
    "GP-049s" "directive-parsing" run directives::binds("cd /usr", "cd", &["skill usr"]);
    "GP-051s" "directive-parsing"
        run directives::binds("a\u{feff}/concise hi", "a\u{feff}hi", &["skill concise"]);
    "GP-052s" "directive-parsing" run directives::stays("a\u{85}/concise hi");
    "GP-053s" "directive-parsing"
        run directives::binds("/concise\u{2028}x", "x", &["skill concise"]);
    "GP-054s" "directive-parsing" run directives::stays("/concise\u{e9} hi");

    "GD-001s" "dispatch" run dispatch::prompt_is_unchanged_without_registrations();
    "GD-002s" "dispatch" not_applicable "only a built agent has requests; nothing else can be written";
    "GD-017s" "dispatch" run dispatch::model_is_asked_after_a_hook_without_a_result();
    "GD-023s" "dispatch" run dispatch::a_model_is_set_for_a_turn_or_for_the_session();
    "GD-025s" "dispatch" run dispatch::a_hooks_own_message_comes_before_the_prompt();
    "GX-008" "dispatch" run dispatch::typed_text_is_stored();
    "GD-003s" "dispatch-order" run dispatch::hooks_come_in_text_order_and_skills_after_them();
    "GD-005s" "dispatch-order" run dispatch::an_answer_of_several_messages_is_stored_and_returned();
    "GD-006s" "dispatch-order" run dispatch::the_first_answer_in_text_order_counts();
    "GD-009s" "dispatch-error" run dispatch::a_failing_hook_leaves_nothing_behind();

    "GD-011s" "skill-injection" run dispatch::skills_come_in_text_order_before_the_prompt();
    "GD-013s" "skill-injection" run dispatch::a_skill_that_is_not_exposed_serves_the_person();
    "GD-014s" "skill-injection" run dispatch::a_skill_of_parts_keeps_its_pictures();
    "CF-016" "skill-injection" run skills::a_matched_skill_ends_the_system_prompt();
    "CF-017" "skill-injection" run skills::a_skill_does_not_widen_an_agents_tools();

    "GC-002" "skill-listing" run skills::a_skill_that_is_not_exposed_is_not_shown();
    "GC-004" "skill-listing" not_applicable "G14: skills have no priorities";
    "GC-005" "skill-listing" run skills::long_descriptions_give_way_to_names();
    "GC-006" "skill-listing" run skills::skills_that_do_not_fit_are_counted();
    "GC-007" "skill-listing" run skills::the_list_has_a_budget();
    "GC-008" "skill-listing" not_applicable "the index has one budget, whatever the window";

    "GD-042s" "mention" run dispatch::a_mention_stays_in_the_text();

    "CT-021" "scope" run skills::scoped(&["a", "c"], &["a", "b", "c"], &["a", "c"]);
    "CT-022" "scope" run skills::scoped(&["a", "z"], &["a"], &["a"]);
    "CT-023" "scope" run skills::recalls(
        &["bash"],
        "c1.1 (denied): The tool `recall` is not available to this agent.",
        &[],
    );
    "CT-024" "scope" run skills::recalls(&[], "c1.1 (failed): memory not available", &["recall"]);
    "CT-025" "scope" run skills::a_subagent_out_of_scope_is_not_called();
    "CT-049" "scope" run skills::scope_is_shown_and_enforced();

    "CT-036" "slash-preprocess" run skills::greeted("/unknown x", &[], "user: /unknown x\n", &[]);
    "CT-037" "slash-preprocess" run skills::greeted(
        "  /greet x",
        &[],
        "skill: <skill name=\"greet\">\nG\n</skill>\nuser: x\n",
        &[r#"skill greet user "x" None"#],
    );
    "CT-040" "slash-preprocess" run skills::greeted("/greet x", &["other"], "user: /greet x\n", &[]);

    "cm-02" "commands" run commands::any_whitespace_ends_a_name();
    "cm-04" "commands" run commands::failed_command_is_reported_and_stores_nothing();
    "cm-05" "commands" run commands::first_command_of_a_name_wins();
    "cm-07" "commands" run commands::a_unit_with_two_commands_of_a_name_is_refused();
    "cm-08" "commands" run commands::command_fires_no_user_prompt_submit();
    "cm-09" "commands" run commands::a_command_runs_at_once_beside_a_run();
    "cm-10" "commands" run commands::a_command_is_not_queued();

    "in-01" "input" run commands::a_rewrite_keeps_the_pictures();
    "in-03" "input" run commands::blocked_prompt_stops_the_chain_and_the_model();
    "in-04" "input" run commands::a_failing_rewrite_refuses_the_prompt();
    "in-05" "input" run commands::a_rewrite_calls_no_command();
    "in-06" "input" not_applicable "G9: a rewrite is not parsed again";

    "cx-02" "context" run context::a_failing_transform_ends_the_run();
    "cx-05" "context" run context::transform_adds_messages_to_the_request();
    "cx-06" "context" run context::transform_replaces_messages_of_the_request();
    "cx-07" "context" run context::the_context_is_built_for_each_request();
    "cx-10" "context" not_applicable "there is no point between a prompt and its first request";
    "cx-12" "context" run context::abandoned_branch_is_sent_as_its_summary();

    "ce-01" "custom-entries" run context::custom_entries_are_stored_and_only_messages_sent();
    "ce-02" "custom-entries" not_applicable "an extension is fn(&mut Registry), which has no session";
    "ce-03" "custom-entries" run context::appended_message_starts_no_request();
    "ce-05" "custom-entries" run context::nothing_comes_between_a_call_and_its_result();

    "cp-01" "compaction" run compaction::all_tokens_of_a_reply_count();
    "cp-02" "compaction" not_applicable "FORMATS Events: a usage has four counts and no total of its own";
    "cp-03" "compaction" run compaction::compaction_is_due_above_the_threshold();
    "cp-04" "compaction" run compaction::compaction_is_never_due_if_disabled();
    "cp-05" "compaction" run compaction::tokens_are_estimated();
    "cp-06" "compaction" run compaction::compaction_cuts_at_the_expected_entry(50, 4);
    "cp-07" "compaction" run compaction::compaction_cuts_at_the_expected_entry(150, 4);
    "cp-08" "compaction" run compaction::compaction_cuts_at_the_expected_entry(250, 3);
    "cp-11" "compaction" run compaction::a_long_result_is_cut_for_the_summary();
    "cp-12" "compaction" run compaction::refused_compaction_changes_nothing();
    "cp-13" "compaction" run compaction::compaction_makes_the_expected_summary(&[Ok(Some("MY SUM"))], "MY SUM", &[]);
    "cp-14" "compaction"
        run compaction::compaction_makes_the_expected_summary(&[Err("cb")], "MODEL'S", &["hook compact.pre hook-0 transform failed"]);
    "cp-16" "compaction" run compaction::compaction_makes_the_expected_summary(&[Ok(Some("A")), Ok(None)], "A", &[]);
    "cp-17" "compaction" run compaction::compaction_makes_the_expected_summary(&[Ok(None), Ok(Some("A")), Ok(None)], "A", &[]);
    "cp-18" "compaction" run compaction::compaction_of_nothing_is_an_error();
    "cp-23" "compaction" run compaction::a_reply_from_before_a_summary_does_not_count();
    "GD-021s" "compaction" run compaction::a_forced_compaction_comes_before_the_prompt();
    "LM-151" "compaction" run compaction::called_skills_survive_a_compaction();

    "tl-02" "tools" run hooks::a_block_without_a_reason_says_so();
    "tl-03" "tools" run hooks::a_failing_gate_blocks_and_is_named();
    "tl-05" "tools" run hooks::checks("bash", &[("a", Some("A")), ("b", Some("B"))], &["a"]);
    "tl-06" "tools" run tools::a_failed_transform_withholds_the_result();
    "tl-07" "tools" run tools::parallel_tools_run_concurrently();
    "tl-09" "tools" run tools::results_always_go_to_the_model();
    "tl-10" "tools" not_applicable "G23: a tool answers with text, parts or an error, and ends no run";
    "tl-11" "tools" run hooks::no_hook_is_asked_about_an_unknown_tool();
    "tl-12" "tools" not_applicable "G23: an input that does not fit the schema gets a result that says so";
    "tl-13" "tools" run tools::calls_of_a_cut_reply_do_not_run();
    "tl-14" "tools"
        run tools::first_tool_of_a_name_wins(Owner::new(Origin::User, "extension"));
    "tl-15" "tools" run tools::a_built_in_tool_is_replaced_explicitly();
    "tl-16" "tools" run tools::calls_within_a_call();
    "tl-17" "tools" not_applicable "model.post observes; a recorded reply is not rewritten";

    "LM-117" "approval" run permissions::question_without_a_person_refuses();
    "LM-118" "approval" run permissions::unanswered_question_refuses();

    "CT-027" "delegate" elsewhere (
        "cotter-tools/tests/it/delegate.rs",
        "r11_ct_027_delegate_refuses_invalid_task_lists",
    );

    "CB-001" "safety-hook" row FLOOR;
    "CB-002" "safety-hook" row FLOOR;
    "CB-003" "safety-hook" row FLOOR;
    "CB-004" "safety-hook" row FLOOR;
    "CB-007" "safety-hook" row FLOOR;
    "CB-010" "safety-hook" row FLOOR;
    "CB-013" "safety-hook" row FLOOR;
    "CB-014" "safety-hook" row FLOOR;
    "CB-015" "safety-hook" row FLOOR;
    "CD-001" "safety-hook" row FLOOR;
    "CD-004" "safety-hook" row FLOOR;
    "CD-005" "safety-hook" row FLOOR;
    "CD-006" "safety-hook" row FLOOR;
    "CD-007" "safety-hook" row FLOOR;
    "CD-008" "safety-hook" row FLOOR;
    "CD-009" "safety-hook" row FLOOR;
    "CD-010" "safety-hook" row FLOOR;
    "CD-011" "safety-hook" row FLOOR;
    "CD-013" "safety-hook" row FLOOR;
    "CD-014" "safety-hook" row FLOOR;
    "CD-015" "safety-hook" row FLOOR;
    "CD-016" "safety-hook" row FLOOR;
    "CD-017" "safety-hook" row FLOOR;
    "CD-018" "safety-hook" row FLOOR;
    "CS-004" "safety-hook" row FLOOR;
    "CS-006" "safety-hook" row FLOOR;
    "CS-009" "safety-hook" row FLOOR;
    "CS-012" "safety-hook" row FLOOR;
    "CS-013" "safety-hook" row FLOOR;
    "CS-014" "safety-hook" row FLOOR;
    "CS-015" "safety-hook" row FLOOR;

    "LM-077" "guard" row FLOOR;
    "LM-078" "guard" row FLOOR;
    "LM-080" "guard" row FLOOR;
    "LM-081" "guard" row FLOOR;
    "LM-082" "guard" row FLOOR;
    "LM-083" "guard" row FLOOR;
    "LM-084" "guard" elsewhere POLICIES;
    "LM-085" "guard" elsewhere POLICIES;
    "LM-086" "guard" run permissions::a_guard_rejects_and_is_named();
    "LM-087" "guard" run hooks::a_failing_gate_blocks_and_is_named();
    "LM-088" "guard" run permissions::a_guard_leaves_other_tools_alone();
    "LM-090" "guard" row FLOOR;
    "LM-091" "guard" row FLOOR;

    "LM-093" "zone" row FLOOR;
    "LM-094" "zone" row FLOOR;
    "LM-098" "zone" row FLOOR;
    "LM-099" "zone" run permissions::session_rule_is_revoked_once();
    "LM-107" "zone" row FLOOR;
    "LM-108" "zone" row FLOOR;

    "LM-101" "zone-combo" not_applicable "a secret is known by its file, not by a word somebody looked for";
    "LM-102" "zone-combo" row SECRETS;
    "LM-104" "zone-combo" row SECRETS;
    "LM-105" "zone-combo" row SECRETS;

    "CTF-011" "path-filter"
        run permissions::rules_over_files(&["*.env"], json!({"path": ".env"}), true);
    "CTF-013" "path-filter" not_applicable "paths are gitignore patterns; `.env` is a whole name";
    "CTF-015" "path-filter"
        run permissions::rules_over_files(&["*.go"], json!({"file_path": "main.go"}), true);
    "CTF-016" "path-filter"
        run permissions::rules_over_files(&["*.go"], json!({"path": "x.ts"}), false);
    "CTF-017" "path-filter" run permissions::rules_over_files(&[], json!({}), true);

    "GT-001" "mcp-bridge" elsewhere (
        "cotter-tools/src/mcp/result.rs",
        "r11_gt_001_model_gets_data_and_renderers_get_content",
    );

    "LM-120" "agent.json" run profiles::no_hooks_register_nothing();
    "LM-121" "agent.json" run profiles::disabled_observers_are_removed_and_gates_stop_the_start();
    "LM-122" "agent.json" run profiles::seven_buckets_are_bound();
    "LM-127" "agent.json" run profiles::all_refused(&[
        (r#"{"action": "webhook"}"#, "missing key `url`"),
        (r#"{"action": "webhook", "url": "not a url"}"#, "is not a valid URL"),
        (r#"{"action": "webhook", "url": "http://example.com"}"#, "is not https"),
        (r#"{"action": "webhook", "url": "http://127.0.0.1/"}"#, "is not https"),
        (r#"{"action": "webhook", "url": "https://other.example.com/"}"#, "it is not on the list"),
    ]);
    "LM-128" "agent.json" run profiles::two_events_are_two_lines();
    "LM-129" "agent.json" run profiles::all_refused(&[
        (r#"{"action": "save_json", "path": "/etc/x"}"#, "is not below `runs/`"),
        (r#"{"action": "save_json", "path": "../x"}"#, "is not below `runs/`"),
        (r#"{"action": "save_json"}"#, "missing key `path`"),
    ]);
    "LM-130" "agent.json" run profiles::refused(
        r#"{"action": "command", "command": "./check.sh"}"#, "onToolCall", "disabled by default");
    "LM-133" "agent.json" run profiles::refused(
        r#"{"action": "command", "command": "  "}"#, "onToolCall", "a string that is not empty");

    "LM-135" "approve" run async {
        profiles::refused(r#"{"action": "approve"}"#, "onToolEnd", "asks before a tool runs").await;
        profiles::refused(r#"{"action": "approve"}"#, "onComplete", "asks before a tool runs").await;
    };
    "LM-136" "approve" run profiles::yes_runs_the_call();
    "LM-137" "approve" run profiles::a_no_blocks_with_its_reason();
    "LM-138" "approve" run profiles::only_listed_tools_ask();
    "LM-140" "approve" run profiles::question_without_an_answer_refuses();
    "LM-141" "approve" run profiles::a_late_answer_is_waited_for();
}

#[test]
fn b11_every_conformance_case_of_our_areas_holds() {
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut wrong = wrong_entries();
    for case in CASES {
        let count = counts.entry(case.area).or_default();
        match case.how {
            How::NotApplicable(_) => count.not_applicable += 1,
            How::Later(_) => count.later += 1,
            How::Elsewhere(file, test) | How::Row(file, test) => {
                count.run += 1;
                let row = matches!(case.how, How::Row(..)).then_some(case.id);
                match has_test(file, test, row) {
                    true => count.passed += 1,
                    false => wrong.push(format!("{}: it is not in `{test}` of {file}", case.id)),
                }
            }
            How::Run(check) => {
                count.run += 1;
                match outcome(check) {
                    Ok(()) => count.passed += 1,
                    Err(what) => wrong.push(format!("{} ({}): {what}", case.id, case.area)),
                }
            }
        }
    }
    let beside = match env::var_os("COTTER_CONFORMANCE") {
        Some(folder) => {
            let cases = compare_with_published(Path::new(&folder), &mut wrong);
            format!("compared with {cases} published cases")
        }
        None => "NOT COMPARED with the published cases: `COTTER_CONFORMANCE` is not set".into(),
    };
    // Written directly to stdout, because the harness captures `println!` of a test that passes.
    let _ = std::io::stdout().write_all(table(&counts, &beside).as_bytes());
    assert!(wrong.is_empty(), "{} of the cases do not hold:\n{}", wrong.len(), wrong.join("\n"));
}

#[derive(Clone, Copy, Default)]
struct Counts {
    run: usize,
    passed: usize,
    not_applicable: usize,
    later: usize,
}

/// Runs a check on a clock that jumps forward when all tasks are idle. A check that hangs fails.
fn outcome(check: fn() -> Checking) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .map_err(|cause| cause.to_string())?;
    let limited = async { tokio::time::timeout(Duration::from_hours(24), check()).await };
    match catch_unwind(AssertUnwindSafe(|| runtime.block_on(limited))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err("it never ends".into()),
        Err(panic) => Err(words(&*panic)),
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// True if another crate has a test of that name, and a row of that id if one is given. The other crate
/// runs it.
fn has_test(file: &str, test: &str, row: Option<&str>) -> bool {
    let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).is_ok_and(|text| {
        let has_row = row.is_none_or(|id| text.contains(&format!("(\"{id}\"")));
        text.contains(&format!("fn {test}(")) && has_row
    })
}

/// Lists the invalid lines of the table: no reason, an unknown area, or a duplicate id.
fn wrong_entries() -> Vec<String> {
    let mut wrong = vec![];
    let mut seen = BTreeSet::new();
    for case in CASES {
        let told = match case.how {
            How::Run(_) | How::Elsewhere(..) | How::Row(..) => true,
            How::NotApplicable(why) => why.contains(' '),
            How::Later(feature) => feature.starts_with(|c: char| c.is_ascii_uppercase()),
        };
        if !told {
            wrong.push(format!("{}: it gives no reason", case.id));
        }
        if !AREAS.contains(&case.area) {
            wrong.push(format!("{}: `{}` is none of our areas", case.id, case.area));
        }
        if !seen.insert(case.id) {
            wrong.push(format!("{}: it stands in the table twice", case.id));
        }
    }
    wrong
}

/// Compares the table with the published cases in `folder`. Returns the number of cases in our areas.
fn compare_with_published(folder: &Path, wrong: &mut Vec<String>) -> usize {
    let files = fs::read_dir(folder)
        .unwrap_or_else(|cause| panic!("COTTER_CONFORMANCE: {}: {cause}", folder.display()));
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    let mut published = BTreeMap::new();
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        let bytes = fs::read(&path).unwrap_or_default();
        let cases: Vec<Value> = serde_json::from_slice(&bytes)
            .unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
        for case in cases {
            let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
            published.insert(text("id"), text("area"));
        }
    }
    published.retain(|_, area| AREAS.contains(&area.as_str()));
    for (id, area) in &published {
        if !CASES.iter().any(|case| case.id == id && case.area == area) {
            wrong.push(format!("{id} ({area}): it is not in the table"));
        }
    }
    for case in CASES.iter().filter(|case| !published.contains_key(case.id)) {
        wrong.push(format!("{} ({}): there is no such case", case.id, case.area));
    }
    published.len()
}

fn table(counts: &BTreeMap<&str, Counts>, beside: &str) -> String {
    let mut text = format!(
        "\n{:<18} {:>4} {:>7} {:>15} {:>6}\n",
        "conformance", "run", "passed", "not applicable", "later"
    );
    let mut all = Counts::default();
    let mut line = |name: &str, count: Counts| {
        let Counts { run, passed, not_applicable, later } = count;
        text += &format!("{name:<18} {run:>4} {passed:>7} {not_applicable:>15} {later:>6}\n");
    };
    for area in AREAS {
        let count = counts.get(area).copied().unwrap_or_default();
        line(area, count);
        all.run += count.run;
        all.passed += count.passed;
        all.not_applicable += count.not_applicable;
        all.later += count.later;
    }
    line("in all", all);
    text + &format!("{beside}\n")
}
