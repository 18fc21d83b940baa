//! Commands in `-p`, subagents, and the lists of both.

use std::fs;

use expect_test::expect;

use crate::support::{REHEARSAL, World, rehearsal};

#[test]
fn p2_command_status_is_the_answer_without_model_run_or_session() {
    let world = World::new();
    world.check(
        &["-p", "/tools"],
        expect![[r#"
            exit 0
            --- stdout
            read: Read a file of the project
            list: List the contents of a folder of the project; without `path`, of the project itself
            write: Write a file of the project: `content` is all it will hold
            edit: Change parts of a file that was read before
            glob: Find files of the project by a pattern over their paths below `path` (the working folder without it): `src/**/*.rs`, `*.{toml,lock}`
            grep: Search files of the project for lines that match a regular expression (as ripgrep reads it)
            fetch: Get what is at an http or https address
            bash: Run a bash command line in the project and get its output and exit code
            bash_background: Start a bash command line that keeps running after the call, such as a server or a watcher, and look after it
            ask_user: Ask the person a question and wait for the answer
            delegate: Give several tasks to subagents at once and get all their answers, in the order of the tasks
            remember: Write down something about this project that later sessions should know: a decision and its reason, how something is done here, what a person prefers
            recall: Search what was remembered about this project, the best match first
            forget: Delete a note that is wrong or no longer true, by its id
            invoke_skill: Calls for a skill: its instructions or content come back as the result and hold for the rest of the conversation
            invoke_subagent: Gives a task to a subagent and returns its answer
        "#]],
    );
    world.check(
        &["-p", " /agents\nplease"],
        expect![[r#"
            exit 0
            --- stdout
            @general: Works on a task by itself and reports the result
            @reviewer: Reviews code or text and reports what is wrong
        "#]],
    );
    world.check(&["-p", "--no-session", "--output-format", "json", "/skills"], expect![[r#"
        exit 0
        --- stdout
        {"type":"result","sessionId":"s1","runId":"","reason":"end_turn","text":"/review-change: How to review a change to code\n/write-hook: How to write a hook that gates or watches what this agent does\n/write-skill: How to write a skill for this agent","steps":0,"usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"costUsd":null}
    "#]]);
    let stream = world.output(&["-p", "--output-format", "stream-json", "/skills"]);
    let stream = String::from_utf8(stream.stdout).unwrap();
    let kinds = stream.lines().map(|line| line.split('"').nth(3).unwrap_or_default());
    assert_eq!(kinds.collect::<Vec<_>>(), ["session.open", "command.result", "result"], "{stream}");
    assert!(!world.sessions().exists(), "nothing was said, so nothing is kept");
}

#[test]
fn p4_a_command_that_stores_something_keeps_its_session() {
    let world = World::new();
    world.check(
        &["-p", "/name the old pier"],
        expect![[r#"
        exit 0
        --- stdout
        this session is now called "the old pier"
    "#]],
    );
    world.check(
        &["-p", "--continue", "/name"],
        expect![[r#"
        exit 0
        --- stdout
        this session is called "the old pier"
    "#]],
    );
    world.check(
        &["-p", "--no-session", "/name x"],
        expect![[r#"
        exit 0
        --- stdout
        this session is now called "x"
    "#]],
    );
    assert_eq!(world.ids().len(), 1);
}

#[test]
fn g19_compact_reports_the_saved_tokens() {
    let world = World::new();
    world.check(
        &rehearsal(&[], "/compact"),
        expect![[r#"
            exit 0
            --- stdout
            there is nothing to compact
        "#]],
    );
    world.write("project/long.txt", "a line of a long file\n".repeat(30));
    world.output(&rehearsal(&[], "read long.txt"));
    world.check(
        &rehearsal(&["--continue"], "/compact"),
        expect![[r#"
            exit 0
            --- stdout
            compacted: 471 tokens before, 49 after
        "#]],
    );
    world.check(
        &rehearsal(&["--continue"], "/compact"),
        expect![[r#"
            exit 0
            --- stdout
            there is nothing to compact
        "#]],
    );
}

#[test]
fn p2_a_command_that_fails_says_why() {
    let world = World::new();
    world.output(&rehearsal(&[], "list src"));
    let script = world.script(r#"{"error": {"kind": "auth"}}"#);
    world.check(
        &["-p", "--script", &script, "--continue", "/compact"],
        expect![[r#"
        exit 1
        --- stderr
        error: command "/compact" failed: cannot summarise the conversation: the script says so

        hint: `cotter commands list` shows what each command is for
    "#]],
    );
    world.check(
        &["-p", "--script", &script, "--continue", "--output-format", "json", "/compact"],
        expect![[r#"
            exit 1
            --- stdout
            {"type":"result","sessionId":"[ID1]","runId":"","reason":"error","text":"","steps":0,"usage":{"inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0},"costUsd":null,"error":{"code":"command","message":"command \"/compact\" failed: cannot summarise the conversation: the script says so"}}
        "#]],
    );
}

#[test]
fn p2_a_prompt_that_a_command_returns_is_run() {
    let world = World::new();
    world.check(
        &rehearsal(&[], "/retry"),
        expect![[r#"
        exit 0
        --- stdout
        there is no prompt to send again
    "#]],
    );
    world.output(&rehearsal(&[], "list src"));
    world.check(
        &rehearsal(&["--continue"], "/retry"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
}

#[test]
fn p1_command_that_needs_a_model_fails_without_one() {
    let world = World::new();
    world.output(&rehearsal(&[], "list src"));
    world.check(&["-p", "--continue", "/retry"], expect![[r#"
        exit 2
        --- stderr
        error: no model is set up, so nothing was sent

        hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
    "#]]);
    world.check(&["-p", "--continue", "/compact"], expect![[r#"
        exit 2
        --- stderr
        error: no model is set up, so nothing was sent

        hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
    "#]]);
}

#[test]
fn g8_unknown_slash_name_is_sent_to_the_model_unchanged() {
    let world = World::new();
    world.check(&rehearsal(&[], "/comapct now"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: I do not understand "/comapct now"

        I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

        (rehearsal is an offline stand-in, not a model)
    "#]]);
    let stored = fs::read_to_string(world.session_file()).unwrap();
    assert!(stored.contains(r#""content":"/comapct now""#), "{stored}");
    World::new().check(
        &["-p", "/comapct now"],
        expect![[r#"
        exit 2
        --- stderr
        error: there is no command `/comapct`
          caused by: no model is set up, so nothing was sent

        hint: did you mean `/compact`?
    "#]],
    );
}

#[test]
fn s19_piped_input_is_never_a_command() {
    let world = World::new();
    world.check_piped(&REHEARSAL, b"/name stolen\n", expect![[r#"
        exit 0
        --- stdout
        rehearsal: I do not understand "/name stolen"

        I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

        (rehearsal is an offline stand-in, not a model)
    "#]]);
    world.check_piped(
        &rehearsal(&[], "list src"),
        b"/name stolen\n",
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.check_piped(
        &rehearsal(&["--continue"], "/name"),
        b"/name stolen\n",
        expect![[r#"
            exit 0
            --- stdout
            this session has no name
            --- stderr
            warning: a command takes no piped input; the input is ignored
        "#]],
    );
}

#[test]
fn p11_headless_notice_is_an_event_and_a_line_on_stderr() {
    let world = World::new();
    let script = world.script(r#"{"error": {"kind": "context_overflow"}}"#);
    world.check(
        &["-p", "--script", &script, "go"],
        expect![[r#"
            exit 1
            --- stderr
            there is nothing to compact
            error: the run failed (context_overflow)
              caused by: the script says so
        "#]],
    );
    let output = world.output(&["-p", "--output-format", "stream-json", "--script", &script, "go"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let told = r#""method":"notify","text":"there is nothing to compact""#;
    assert!(shown.contains(told), "{shown}");
}

#[test]
fn g16_a_subagent_reads_for_the_agent() {
    let world = World::new();
    world.check(
        &rehearsal(&[], "ask @reviewer to read a.txt and ask @general to list src"),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: @reviewer says:
            rehearsal: `read` {"path":"a.txt"} gave 2 lines:
                 1	one
                 2	two

            @general says:
            rehearsal: `list` {"path":"src"} gave 1 line:
            b.txt

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    let world = World::new();
    world.output(&rehearsal(&[], "ask @reviewer to read a.txt"));
    world.check(
        &["ledger", &world.id()],
        expect![[r#"
            exit 0
            --- stdout
            run r1 began [TIME] with rehearsal
              r1.1 call_r1_1_0: invoke_subagent {"name":"reviewer","prompt":"read a.txt"}
                pass by zone, zone safe
            run r1/1 began [TIME] with rehearsal
              r1/1.1 call_r1/1_1_0: read {"path":"a.txt"}
                pass by zone, zone safe
              call_r1/1_1_0 came to ok in N ms
            run r1/1 ended: end_turn, steps: 2
              call_r1_1_0 came to ok in N ms
            run r1 ended: end_turn, steps: 2
        "#]],
    );
}

#[test]
fn g16_rules_apply_to_subagents_and_to_calling_them() {
    let world = World::new();
    world.settings(r#"{"permissions": {"deny": ["read(a.txt)"]}}"#);
    world.check(&rehearsal(&[], "ask @general to read a.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: @general says:
        rehearsal: `read` {"path":"a.txt"} was refused: Denied: the rule `deny read(a.txt)` denies it. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: read: the rule `deny read(a.txt)` denies it (rule deny read(a.txt))
    "#]]);
    world.settings(r#"{"permissions": {"deny": ["invoke_subagent"]}}"#);
    world.check(&rehearsal(&[], "ask @general to read a.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `invoke_subagent` {"name":"general","prompt":"read a.txt"} was refused: Denied: the rule `deny invoke_subagent` denies it. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: invoke_subagent: the rule `deny invoke_subagent` denies it (rule deny invoke_subagent)
    "#]]);
}

#[test]
fn p1_command_and_agent_lists_show_names_and_owners() {
    let world = World::new();
    world.check(&["commands", "list"], expect![[r#"
        exit 0
        --- stdout
        /compact   Summarise the conversation now; TEXT says what matters: /compact [TEXT]  (embedder)
        /name      Name this session, or show its name: /name [TEXT]  (embedder)
        /retry     Send your last prompt again  (embedder)
        /tools     List the tools that the model may call  (embedder)
        /skills    List the skills  (embedder)
        /agents    List the subagents that the model may call  (embedder)
        /commands  List the commands  (embedder)
        /spaces    Lists spaces, loads and unloads them: /spaces [load|unload|switch ID]  (embedder)
    "#]]);
    world.check(&["agents", "list", "--color", "always"], expect![[r#"
        exit 0
        --- stdout
        [1m@general[0m   Works on a task by itself and reports the result. For work with many steps or much reading, if only the result matters here.  [2m(embedder)[0m
        [1m@reviewer[0m  Reviews code or text and reports what is wrong. Changes nothing. Name the files to read and what to look for.  [2m(embedder)[0m
    "#]]);
    world.check(&["agents", "list", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"name":"general","description":"Works on a task by itself and reports the result. For work with many steps or much reading, if only the result matters here.","origin":"embedder","owner":"program"}
        {"name":"reviewer","description":"Reviews code or text and reports what is wrong. Changes nothing. Name the files to read and what to look for.","origin":"embedder","owner":"program"}
    "#]]);
    world.check(
        &["commands"],
        expect![[r#"
            exit 2
            --- stderr
            error: 'cotter commands' requires a subcommand but one was not provided

            hint: subcommands: list, check
        "#]],
    );
    world.check(
        &["agent"],
        expect![[r#"
        exit 2
        --- stderr
        error: this version has no chat in the terminal yet

        hint: did you mean `cotter agents`?
    "#]],
    );
}
