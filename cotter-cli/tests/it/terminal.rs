//! `--ask` in a pseudo-terminal: one question, answered for all calls or one by one, never by accident.

use std::{
    io::{Read, Write},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use expect_test::{Expect, expect};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{World, holds_for, wait_until};

/// A command in a terminal of its own.
pub(crate) struct Screen {
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    seen: Arc<Mutex<Vec<u8>>>,
    reading: thread::JoinHandle<()>,
    _master: Box<dyn MasterPty + Send>,
}

impl Screen {
    pub(crate) fn new(world: &World, args: &[&str]) -> Self {
        Screen::with_columns(200, world, args)
    }

    pub(crate) fn with_columns(cols: u16, world: &World, args: &[&str]) -> Self {
        Screen::start(cols, env!("CARGO_BIN_EXE_cotter"), world, args)
    }

    /// Starts another program in a terminal.
    pub(crate) fn of(program: &str, world: &World, args: &[&str]) -> Self {
        Screen::start(200, program, world, args)
    }

    fn start(cols: u16, program: &str, world: &World, args: &[&str]) -> Self {
        let size = PtySize { rows: 40, cols, pixel_width: 0, pixel_height: 0 };
        let pty = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.env_clear();
        for (name, value) in world.env() {
            command.env(name, value);
        }
        command.cwd(world.path("project"));
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let seen = Arc::new(Mutex::new(vec![]));
        let mut reader = pty.master.try_clone_reader().unwrap();
        let sink = seen.clone();
        let reading = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        let keys = pty.master.take_writer().unwrap();
        Screen { child, keys, seen, reading, _master: pty.master }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    pub(crate) fn wait_for(&self, words: &str) {
        wait_until(|| self.text().contains(words), words);
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for the end. Returns the exit code and the whole text of the screen.
    pub(crate) fn end(mut self, world: &World) -> String {
        let status = self.child.wait().unwrap();
        // Joined before the keys are dropped, because a drop sends a newline, which would be echoed.
        self.reading.join().unwrap();
        let text = String::from_utf8_lossy(&self.seen.lock().unwrap()).replace('\r', "");
        // Hanging up may or may not echo a line of its own.
        world.plain(&format!("exit {}\n{}\n", status.exit_code(), text.trim_end()))
    }
}

fn world() -> World {
    let world = World::new().with_env("NO_COLOR", "1");
    world.settings(r#"{"permissions": {"ask": ["read"]}}"#);
    world
}

const ASK: [&str; 4] = ["-p", "--ask", "--model", "rehearsal"];

fn check(prompt: &str, keys: &[(&str, &str)], expected: Expect) -> World {
    let world = world();
    let args: Vec<_> = ASK.into_iter().chain([prompt]).collect();
    let mut screen = Screen::new(&world, &args);
    for (wait, keys) in keys {
        screen.wait_for(wait);
        screen.type_keys(keys);
    }
    expected.assert_eq(&screen.end(&world));
    world
}

#[test]
fn question_answered_yes_runs_the_call() {
    let world = check(
        "read a.txt",
        &[("Run it?", "y\n")],
        expect![[r#"
            exit 0
            1. read {"path":"a.txt"}
               asked by rule ask read: the rule `ask read` asks
            Run it? [y]es, [n]o: y
            rehearsal: `read` {"path":"a.txt"} gave 2 lines:
                 1	one
                 2	two

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    world.check(
        &["ledger", &world.id()],
        expect![[r#"
            exit 0
            --- stdout
            run r1 began [TIME] with rehearsal
              r1.1 call_r1_1_0: read {"path":"a.txt"}
                asked by rule ask read: the rule `ask read` asks
                answered yes by terminal
                pass by rule ask read, zone safe
                approved by terminal
              call_r1_1_0 came to ok in N ms
            run r1 ended: end_turn, steps: 2
        "#]],
    );
}

#[test]
fn question_answered_no_refuses_the_call_with_a_reason() {
    check(
        "read a.txt",
        &[("Run it?", "n take the other one\n")],
        expect![[r#"
            exit 0
            1. read {"path":"a.txt"}
               asked by rule ask read: the rule `ask read` asks
            Run it? [y]es, [n]o: n take the other one
            refused: read: take the other one (terminal)
            rehearsal: `read` {"path":"a.txt"} was refused: Permission denied for `read`: take the other one. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
}

#[test]
fn question_is_repeated_after_an_unclear_answer() {
    check(
        "read a.txt",
        &[("Run it?", "maybe\n"), ("to the model\r\nRun it?", "n\n")],
        expect![[r#"
            exit 0
            1. read {"path":"a.txt"}
               asked by rule ask read: the rule `ask read` asks
            Run it? [y]es, [n]o: maybe
            type y or n; text after n is sent to the model
            Run it? [y]es, [n]o: n
            refused: read: the answer was no (terminal)
            rehearsal: `read` {"path":"a.txt"} was refused: Permission denied for `read`. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
}

#[test]
fn question_about_several_calls_is_answered_together() {
    check(
        "read a.txt and read src/b.txt",
        &[("Run them?", "y\n")],
        expect![[r#"
            exit 0
            1. read {"path":"a.txt"}
               asked by rule ask read: the rule `ask read` asks
            2. read {"path":"src/b.txt"}
               asked by rule ask read: the rule `ask read` asks
            Run them? [y]es, [n]o, [e]ach: y
            rehearsal: `read` {"path":"a.txt"} gave 2 lines:
                 1	one
                 2	two

            `read` {"path":"src/b.txt"} gave 1 line:
                 1	three

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
}

#[test]
fn question_about_several_calls_is_answered_one_by_one() {
    check(
        "read a.txt and read src/b.txt",
        &[("Run them?", "e\n"), ("1. read:", "n\n"), ("2. read:", "y\n")],
        expect![[r#"
            exit 0
            1. read {"path":"a.txt"}
               asked by rule ask read: the rule `ask read` asks
            2. read {"path":"src/b.txt"}
               asked by rule ask read: the rule `ask read` asks
            Run them? [y]es, [n]o, [e]ach: e
            1. read: [y]es, [n]o: n
            2. read: [y]es, [n]o: y
            refused: read: the answer was no (terminal)
            rehearsal: `read` {"path":"a.txt"} was refused: Permission denied for `read`. Do not retry this exact call.

            `read` {"path":"src/b.txt"} gave 1 line:
                 1	three

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
}

#[test]
fn question_at_the_end_of_input_has_no_answer() {
    check(
        "read a.txt",
        &[("Run it?", "\u{4}")],
        expect![[r#"
            exit 0
            1. read {"path":"a.txt"}
               asked by rule ask read: the rule `ask read` asks
            Run it? [y]es, [n]o: 
            refused: read: the rule `ask read` asks, and there was no answer (nobody)
            rehearsal: `read` {"path":"a.txt"} was refused: Permission denied for `read`: the rule `ask read` asks, and there was no answer. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
}

/// Starts a question and types keys before it appears, and before it can be read. `None` if the machine was
/// so slow that the keys came too late for this.
fn type_early(world: &World, script: &str) -> Option<Screen> {
    let mut screen = Screen::new(world, &["-p", "--ask", "--script", script, "go"]);
    screen.type_keys("y\n");
    screen.wait_for("asked by");
    screen.type_keys("y\ny\n");
    (!screen.text().contains("Run it?")).then_some(screen)
}

#[test]
fn question_ignores_keys_typed_before_it_appears() {
    let world = world();
    let script = world.script(
        r#"{"calls": [{"name": "read", "input": {"path": "a.txt"}}], "delayMs": 150}, {"text": "done"}"#,
    );
    let early = (0..20).find_map(|_| type_early(&world, &script));
    let mut screen = early.expect("a key reaches a process within half a second");
    screen.wait_for("Run it?");
    // If an early key counted as an answer, the question would be over, and this key would answer nothing.
    screen.type_keys("n\n");
    expect![[r#"
        exit 0
        y
        1. read {"path":"a.txt"}
           asked by rule ask read: the rule `ask read` asks
        Run it? [y]es, [n]o: n
        refused: read: the answer was no (terminal)
        done
    "#]]
    .assert_eq(&screen.end(&world));
}

#[test]
fn ctrl_c_aborts_while_a_question_appears() {
    let world = world();
    let args: Vec<_> = ASK.into_iter().chain(["read a.txt"]).collect();
    let mut screen = Screen::new(&world, &args);
    screen.wait_for("asked by");
    screen.type_keys("\u{3}");
    let shown = screen.end(&world);
    assert!(shown.starts_with("exit 130\n"), "{shown}");
    world.wait_for_session("\"reason\":\"aborted\"");
}

#[test]
fn ctrl_c_at_a_question_aborts_the_run() {
    let world = check(
        "read a.txt",
        &[("Run it?", "\u{3}")],
        expect![[r#"
            exit 130
            1. read {"path":"a.txt"}
               asked by rule ask read: the rule `ask read` asks
            Run it? [y]es, [n]o: ^C
            refused: read: the rule `ask read` asks, and the run was aborted (nobody)
            error: the run was aborted
        "#]],
    );
    world.wait_for_session("\"reason\":\"aborted\"");
}

#[test]
fn question_escapes_control_characters_of_a_call() {
    let world = world();
    let script = world.script(
        r#"{"calls": [{"name": "read", "input": {"path": "a\u001b[2J\u202etxt\n1. list {}"}}]},
           {"text": "tail \u001b[31m\u200b"}"#,
    );
    let mut screen = Screen::new(&world, &["-p", "--ask", "--script", &script, "go"]);
    screen.wait_for("Run it?");
    screen.type_keys("y\n");
    expect![[r#"
        exit 0
        1. read {"path":"a\u001b[2J\u{202e}txt\n1. list {}"}
           asked by rule ask read: the rule `ask read` asks
        Run it? [y]es, [n]o: y
        tail \u{1b}[31m\u{200b}
    "#]]
    .assert_eq(&screen.end(&world));
}

#[test]
fn question_is_repeated_when_a_killed_run_is_resumed() {
    let world = world();
    let args: Vec<_> = ASK.into_iter().chain(["read a.txt"]).collect();
    let screen = Screen::new(&world, &args);
    screen.wait_for("Run it?");
    let pid = screen.child.process_id().and_then(|id| Pid::from_raw(id.try_into().unwrap()));
    kill_process(pid.unwrap(), Signal::KILL).unwrap();
    screen.end(&world);
    let id = world.id();
    let again: Vec<_> = ASK.into_iter().chain(["--resume", &id]).collect();
    let mut screen = Screen::new(&world, &again);
    screen.wait_for("Run it?");
    screen.type_keys("y\n");
    expect![[r#"
        exit 0
        1. read {"path":"a.txt"}
           asked by rule ask read: the rule `ask read` asks
        Run it? [y]es, [n]o: y
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
    "#]]
    .assert_eq(&screen.end(&world));
    world.check(
        &["sessions", "show", &id],
        expect![[r#"
        exit 0
        --- stdout
        user: read a.txt
        assistant: (calls) read {"path":"a.txt"}
        read:      1	one
             2	two
        assistant: rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
}

#[test]
fn ask_flag_without_a_terminal_refuses_the_call() {
    let world = world();
    let mut command =
        world.without_terminal(&["-p", "--ask", "--model", "rehearsal", "read a.txt"]);
    expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} was refused: Permission denied for `read`: the rule `ask read` asks, and no person can be asked. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: there is no terminal to ask on (No such device or address (os error 6)): calls that need approval are refused
        refused: read {"path":"a.txt"}: the rule `ask read` asks, and no person can be asked
    "#]].assert_eq(&world.shown(&command.output().unwrap()));
}

#[test]
fn spinner_is_shown_on_a_terminal_during_a_slow_run() {
    let world = world().with_env("TERM", "xterm");
    let script = world.script(r#"{"text": "done", "delayMs": 700}"#);
    let screen = Screen::new(&world, &["-p", "--script", &script, "go"]);
    screen.wait_for("thinking");
    let shown = screen.end(&world);
    assert!(shown.ends_with("\u{1b}[Kdone\n"), "{shown:?}");
}

/// While a question of the model is open, nothing is drawn: the typed text stays on its line.
#[test]
fn r11_spinner_is_not_drawn_while_a_question_is_open() {
    let world = world().with_env("TERM", "xterm");
    let script = world.script(
        r#"{"calls": [{"name": "ask_user", "input": {"question": "Which?", "options": ["a", "b"]}}], "delayMs": 400},
           {"text": "done"}"#,
    );
    let mut screen = Screen::new(&world, &["-p", "--ask", "--script", &script, "go"]);
    screen.wait_for("Choose");
    screen.type_keys("2");
    screen.wait_for(": 2");
    // Ten frames would be drawn in this time.
    let shown = screen.text();
    holds_for(Duration::from_secs(1), || screen.text() == shown, "nothing is drawn");
    screen.type_keys("\n");
    let shown = screen.end(&world);
    let question = shown.find("The agent has a question").unwrap();
    let end = shown.find("done").unwrap();
    expect![[r#"
        The agent has a question. Your answer allows nothing to run.
        │ Which?
          1) a
          2) b
          3) Something else
        Choose one of 1 to 3, or press Enter for none: 2
        done"#]]
    .assert_eq(&shown[question..end + 4]);
}

/// The result of a call is printed before the next question.
#[test]
fn refusal_is_printed_before_the_next_question() {
    let world = world().with_env("TERM", "xterm");
    let script = world.script(
        r#"{"calls": [{"name": "read", "input": {"path": "a.txt"}}]},
           {"calls": [{"name": "read", "input": {"path": "src/b.txt"}}]}, {"text": "done"}"#,
    );
    let mut screen = Screen::new(&world, &["-p", "--ask", "--script", &script, "go"]);
    screen.wait_for("Run it?");
    screen.type_keys("n\n");
    screen.wait_for("b.txt\"}\r\n   asked by rule ask read: the rule `ask read` asks\r\nRun it?");
    screen.type_keys("y\n");
    let shown = screen.end(&world).replace("\u{1b}[K", "");
    expect![[r#"
        exit 0
        1. read {"path":"a.txt"}
           asked by rule ask read: the rule `ask read` asks
        Run it? [y]es, [n]o: n
        refused: read: the answer was no (terminal)
        1. read {"path":"src/b.txt"}
           asked by rule ask read: the rule `ask read` asks
        Run it? [y]es, [n]o: y
        done
    "#]]
    .assert_eq(&shown);
}

/// The line fits the terminal: a wider line would leave a row behind with each frame.
#[test]
fn spinner_fits_one_line_of_a_narrow_terminal() {
    let world = World::new().with_env("NO_COLOR", "1").with_env("TERM", "xterm");
    let script = world.script(
        r#"{"calls": [{"name": "bash", "input": {"command": "sleep 1; true a long line that does not fit into forty columns"}}]},
           {"text": "done"}"#,
    );
    let screen = Screen::with_columns(40, &world, &["-p", "--script", &script, "go"]);
    screen.wait_for("bash {");
    let shown = screen.end(&world);
    let frames: Vec<_> = shown.split("\u{1b}[K").filter(|frame| frame.contains("bash")).collect();
    assert!(!frames.is_empty(), "{shown:?}");
    for frame in frames {
        assert!(frame.chars().count() < 40, "{frame:?}");
    }
}

#[test]
fn g16_questions_of_parallel_subagents_are_asked_in_turn() {
    check(
        "ask @general to read a.txt and ask @reviewer to read src/b.txt",
        &[
            ("Run it?", "n not that\n"),
            (
                "src/b.txt\"}\r\n   asked by rule ask read: the rule `ask read` asks\r\nRun it?",
                "y\n",
            ),
        ],
        expect![[r#"
            exit 0
            for the agent general:
            1. read {"path":"a.txt"}
               asked by rule ask read: the rule `ask read` asks
            Run it? [y]es, [n]o: n not that
            refused: read: not that (terminal)
            for the agent reviewer:
            1. read {"path":"src/b.txt"}
               asked by rule ask read: the rule `ask read` asks
            Run it? [y]es, [n]o: y
            rehearsal: @general says:
            rehearsal: `read` {"path":"a.txt"} was refused: Permission denied for `read`: not that. Do not retry this exact call.

            @reviewer says:
            rehearsal: `read` {"path":"src/b.txt"} gave 1 line:
                 1	three

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
}

#[test]
fn g8_unknown_command_at_a_terminal_names_a_near_match() {
    let world = world();
    let screen = Screen::new(&world, &["-p", "--model", "rehearsal", "/comapct now"]);
    expect![[r#"
        exit 0
        warning: there is no command `/comapct`, so the model gets it as text; did you mean `/compact`?
        rehearsal: I do not understand "/comapct now"

        I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

        (rehearsal is an offline stand-in, not a model)
    "#]].assert_eq(&screen.end(&world));
}

/// Checks a run whose model asks the person a question. The keys are typed when each text has appeared.
fn check_asked(input: &str, keys: &[(&str, &str)], expected: Expect) {
    let world = world();
    let script = world.script(&format!(
        r#"{{"calls": [{{"name": "ask_user", "input": {input}}}]}}, {{"text": "done"}}"#
    ));
    let mut screen = Screen::new(&world, &["-p", "--ask", "--script", &script, "go"]);
    for (wait, keys) in keys {
        screen.wait_for(wait);
        screen.type_keys(keys);
    }
    let shown = screen.end(&world);
    let told = world.output(&["sessions", "show", &world.id()]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let told: Vec<_> = told.lines().filter(|line| line.starts_with("ask_user: ")).collect();
    expected.assert_eq(&format!("{shown}--\n{}\n", told.join("\n")));
}

#[test]
fn r11_model_question_is_answered_by_number() {
    let input = r#"{"question": "Which colour?\nI have two.", "options": ["red", "blue"]}"#;
    check_asked(
        input,
        &[("Choose", "4\n"), ("press Enter\r\nChoose", "2\n")],
        expect![[r#"
            exit 0
            The agent has a question. Your answer allows nothing to run.
            │ Which colour?
            │ I have two.
              1) red
              2) blue
              3) Something else
            Choose one of 1 to 3, or press Enter for none: 4
            type a number from 1 to 3, or press Enter
            Choose one of 1 to 3, or press Enter for none: 2
            done
            --
            ask_user: The person chose "blue".
        "#]],
    );
}

#[test]
fn r11_model_question_is_answered_with_own_text() {
    let input = r#"{"question": "Which colour?", "options": ["red", "blue"]}"#;
    check_asked(
        input,
        &[("Choose", "3\n"), ("Your answer: ", "a warm green\n")],
        expect![[r#"
            exit 0
            The agent has a question. Your answer allows nothing to run.
            │ Which colour?
              1) red
              2) blue
              3) Something else
            Choose one of 1 to 3, or press Enter for none: 3
            The agent has a question. Your answer allows nothing to run.
            │ Which colour?
            Your answer: a warm green
            done
            --
            ask_user: The person said: a warm green
        "#]],
    );
    check_asked(
        r#"{"question": "Why?"}"#,
        &[("Your answer: ", "because\n")],
        expect![[r#"
        exit 0
        The agent has a question. Your answer allows nothing to run.
        │ Why?
        Your answer: because
        done
        --
        ask_user: The person said: because
    "#]],
    );
}

#[test]
fn r11_model_question_accepts_several_numbers() {
    let input = r#"{"question": "Which?", "options": ["a", "b", "c"], "multiple": true}"#;
    check_asked(
        input,
        &[("Choose", "3, 1\n")],
        expect![[r#"
            exit 0
            The agent has a question. Your answer allows nothing to run.
            │ Which?
              1) a
              2) b
              3) c
              4) Something else
            Choose any of 1 to 4 (as in 1, 2), or press Enter for none: 3, 1
            done
            --
            ask_user: The person chose "a" and "c".
        "#]],
    );
}

#[test]
fn r11_model_question_without_an_answer_is_reported_to_the_model() {
    let input = r#"{"question": "Which?", "options": ["a", "b"]}"#;
    check_asked(
        input,
        &[("Choose", "\n")],
        expect![[r#"
            exit 0
            The agent has a question. Your answer allows nothing to run.
            │ Which?
              1) a
              2) b
              3) Something else
            Choose one of 1 to 3, or press Enter for none: 
            done
            --
            ask_user: The person did not answer. Do not ask the same again: continue with the most likely meaning and say so, or say what you need to know.
        "#]],
    );
    check_asked(
        r#"{"question": "Why?"}"#,
        &[("Your answer: ", "\u{4}")],
        expect![[r#"
            exit 0
            The agent has a question. Your answer allows nothing to run.
            │ Why?
            Your answer: 
            done
            --
            ask_user: The person did not answer. Do not ask the same again: continue with the most likely meaning and say so, or say what you need to know.
        "#]],
    );
}

/// S1, S4, S29: a question of the model cannot look like a permission question, and no answer to it allows
/// anything.
#[test]
fn s4_model_question_cannot_look_like_a_permission_question() {
    let input = r#"{"question": "1. read {\"path\":\"a.txt\"}\n   asked by rule ask read\nRun it? [y]es, [n]o: \u001b[2J\u202e",
        "options": ["y\nRun it?", "no, and here is a long reason why not, longer than a screen should be asked to hold in one line"]}"#;
    check_asked(
        input,
        &[("Choose", "y\n"), ("press Enter\r\nChoose", "1\n")],
        expect![[r#"
            exit 0
            The agent has a question. Your answer allows nothing to run.
            │ 1. read {"path":"a.txt"}
            │    asked by rule ask read
            │ Run it? [y]es, [n]o: \u{1b}[2J\u{202e}
              1) y\nRun it?
              2) no, and here is a long reason why not, longer than a screen should be
                 asked to hold in one line
              3) Something else
            Choose one of 1 to 3, or press Enter for none: y
            type a number from 1 to 3, or press Enter
            Choose one of 1 to 3, or press Enter for none: 1
            done
            --
            ask_user: The person chose "y
        "#]],
    );
}

/// S4: keys typed before the question could be read are no answer to it.
#[test]
fn s4_model_question_ignores_keys_typed_before_it_appears() {
    let world = world();
    let script = world.script(
        r#"{"calls": [{"name": "ask_user", "input": {"question": "Which?", "options": ["a", "b"]}}], "delayMs": 150},
           {"text": "done"}"#,
    );
    let early = (0..20).find_map(|_| {
        let mut screen = Screen::new(&world, &["-p", "--ask", "--script", &script, "go"]);
        screen.type_keys("1\n");
        screen.wait_for("has a question");
        screen.type_keys("1\n1\n");
        (!screen.text().contains("Choose")).then_some(screen)
    });
    let mut screen = early.expect("a key reaches a process within half a second");
    screen.wait_for("Choose");
    // If an early key counted as an answer, the question would be over, and this key would answer nothing.
    screen.type_keys("2\n");
    expect![[r#"
        exit 0
        1
        The agent has a question. Your answer allows nothing to run.
        │ Which?
          1) a
          2) b
          3) Something else
        Choose one of 1 to 3, or press Enter for none: 2
        done
    "#]]
    .assert_eq(&screen.end(&world));
}

#[test]
fn r11_model_question_without_the_ask_flag_is_not_asked() {
    let world = world();
    let script = world.script(
        r#"{"calls": [{"name": "ask_user", "input": {"question": "Which?"}}]}, {"text": "done"}"#,
    );
    let screen = Screen::new(&world, &["-p", "--script", &script, "go"]);
    expect![[r#"
        exit 0
        done
    "#]]
    .assert_eq(&screen.end(&world));
    world.check(&["sessions", "show", &world.id()], expect![[r#"
        exit 0
        --- stdout
        user: go
        assistant: (calls) ask_user {"question":"Which?"}
        ask_user: There is no person to ask. Do not ask again: choose the most likely meaning, and say that you did.
        assistant: done
    "#]]);
}
