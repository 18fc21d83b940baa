//! The accepted arguments, and the errors for all others.

use expect_test::expect;

use crate::support::World;

#[test]
fn help_lists_commands_and_flags() {
    let world = World::new();
    world.check(&["--help"], expect![[r#"
        exit 0
        --- stdout
        An agent runtime built round one extension layer

        Usage: cotter -p [OPTIONS] [PROMPT]
               cotter <COMMAND>

        Commands:
          skills       List skills, look at one, see which a task brings in
          hooks        List hooks, try them, see what they did, check the files that declare them
          commands     List what may be typed after a slash
          agents       List the subagents the model may call, and profiles
          models       List the models that can answer
          spaces       Add spaces, folders that are an extension, and begin one
          doctor       What was found where, what is trusted, used, not honoured, confined or slow
          explain      What would happen to a call, and why, without running it
          mcp          List what MCP servers offer, and accept what changed
          permissions  List the rules in force, and take one back
          init         Begin a project's own folder: a hook, a rule, a skill, a command, an agent
          schema       Print the JSON Schema of a file, for editors, or of what hooks read and answer
          trust        Show what a project brings, and let it run
          untrust      Take trust back
          sessions     List and show stored sessions
          ledger       Every decision about every tool call of a session

        Arguments:
          [PROMPT]  What to do; piped input is added as data

        Options:
          -p, --print                   Run one prompt and print the answer
              --output-format <FORMAT>  How the run is told: text, json, stream-json
              --model <MODEL>           Who answers: provider/model, or `rehearsal`, an offline stand-in
              --fallback-model <MODEL>  Who answers when the ones before fail; may be repeated
              --script <FILE>           Let a script answer: steps in a JSON file
              --record-cassette <FILE>  Write what is said to providers to a new file
              --cassette <FILE>         Let such a file answer; nothing is sent
              --continue                Go on with the last session of this folder
              --resume <ID>             Go on with a session; the beginning of its id is enough
              --no-session              Keep nothing
              --ask                     Put questions on the terminal instead of refusing what would ask
              --max-turns <N>           The most requests of this run, and of each subagent
              --max-budget-usd <X>      The most this run may cost, in dollars
              --cwd <DIR>               The folder to work in
              --add-dir <DIR>           A further folder that may be read and written; may be repeated
              --mcp <FILE>              MCP servers for this run, in a file; may be repeated
              --settings <FILE>         Settings for this run, nearer than your own
              --agent <AGENT>           Who runs: an agent's name, or the path of a profile's agent.json
              --space <ID>              Load a space; may be repeated
              --permission-mode <MODE>  What becomes of calls that no rule decides: ask, accept-edits, plan, auto
              --without <NAME>          Run without a hook; may be repeated
              --safe-mode               Use nothing that the project or a space brings: no hooks, skills, servers, notes
              --trust[=<HASH>]          Use what the project brings: ask about it, or trust this hash
              --require-trust           Do not run where something of the project is not trusted
              --color <WHEN>            Colour: auto, always, never
          -h, --help                    Print help
          -V, --version                 Print version
    "#]]);
    world.check(
        &["sessions", "--help"],
        expect![[r#"
        exit 0
        --- stdout
        List and show stored sessions

        Usage: cotter sessions [OPTIONS] <COMMAND>

        Commands:
          list  The sessions there are, the last one first
          show  The conversation of a session

        Options:
              --color <WHEN>  Colour: auto, always, never
          -h, --help          Print help
    "#]],
    );
    world.check(
        &["sessions", "show", "-h"],
        expect![[r#"
        exit 0
        --- stdout
        The conversation of a session

        Usage: cotter sessions show [OPTIONS] <ID>

        Arguments:
          <ID>  A session's id, or the beginning of it

        Options:
              --json          The entries as they are stored, one JSON object per line
              --color <WHEN>  Colour: auto, always, never
          -h, --help          Print help
    "#]],
    );
    world.check(
        &["ledger", "--help"],
        expect![[r#"
            exit 0
            --- stdout
            Every decision about every tool call of a session

            Usage: cotter ledger [OPTIONS] [ID] [COMMAND]

            Commands:
              verify  Check that no row of the ledger is missing, changed or out of order

            Arguments:
              [ID]  A session's id, or the beginning of it; without it, the folder's last

            Options:
                  --color <WHEN>  Colour: auto, always, never
              -h, --help          Print help
        "#]],
    );
}

#[test]
fn version_flag_works_with_any_command() {
    let world = World::new();
    world.check(
        &["--version"],
        expect![[r#"
        exit 0
        --- stdout
        cotter 0.1.0
    "#]],
    );
    world.check(
        &["-V"],
        expect![[r#"
        exit 0
        --- stdout
        cotter 0.1.0
    "#]],
    );
    world.check(
        &["-p", "--version"],
        expect![[r#"
        exit 0
        --- stdout
        cotter 0.1.0
    "#]],
    );
}

#[test]
fn chat_without_a_command_is_a_usage_error() {
    let world = World::new();
    world.check(
        &[],
        expect![[r#"
        exit 2
        --- stderr
        error: this version has no chat in the terminal yet

        hint: `cotter -p PROMPT` runs one prompt, `cotter --help` shows the rest
    "#]],
    );
    world.check(
        &["hello there"],
        expect![[r#"
        exit 2
        --- stderr
        error: this version has no chat in the terminal yet

        hint: `cotter -p PROMPT` runs one prompt, `cotter --help` shows the rest
    "#]],
    );
    world.check(
        &["sesions"],
        expect![[r#"
        exit 2
        --- stderr
        error: this version has no chat in the terminal yet

        hint: did you mean `cotter sessions`?
    "#]],
    );
}

#[test]
fn wrong_flag_or_value_is_a_usage_error_with_a_hint() {
    let world = World::new();
    world.check(
        &["-p", "--modle", "x", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: unexpected argument '--modle' found

        hint: a similar argument exists: '--model'
    "#]],
    );
    world.check(
        &["-p", "--output-format", "jsno", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: invalid value 'jsno' for '--output-format <FORMAT>'

        hint: a similar value exists: 'json'
    "#]],
    );
    world.check(
        &["-p", "--output-format", "xml", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: invalid value 'xml' for '--output-format <FORMAT>'

        hint: possible values: text, json, stream-json
    "#]],
    );
    world.check(
        &["-p", "--permission-mode", "yolo", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: invalid value 'yolo' for '--permission-mode <MODE>'

        hint: possible values: ask, accept-edits, plan, auto
    "#]],
    );
    world.check(
        &["-p", "--max-turns", "0", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: invalid value '0' for '--max-turns <N>': 0 is not in 1..=4294967295

            hint: `cotter --help` shows what may be typed
        "#]],
    );
    world.check(
        &["-p", "--max-budget-usd", "-1", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: invalid value '-1' for '--max-budget-usd <X>': expected a number above 0

            hint: `cotter --help` shows what may be typed
        "#]],
    );
    world.check(
        &["-p", "--max-budget-usd=nan", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: invalid value 'nan' for '--max-budget-usd <X>': expected a number above 0

        hint: `cotter --help` shows what may be typed
    "#]],
    );
    world.check(
        &["-p", "--continue", "--resume", "x", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: the argument '--continue' cannot be used with '--resume <ID>'

        hint: `cotter --help` shows what may be typed
    "#]],
    );
    world.check(
        &["-p", "--no-session", "--continue", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: the argument '--no-session' cannot be used with '--continue'

        hint: `cotter --help` shows what may be typed
    "#]],
    );
    world.check(
        &["-p", "--model", "rehearsal", "--script", "x", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: the argument '--model <MODEL>' cannot be used with '--script <FILE>'

        hint: `cotter --help` shows what may be typed
    "#]],
    );
    world.check(
        &["model", "list"],
        expect![[r#"
        exit 2
        --- stderr
        error: there is no command `model`

        hint: did you mean `cotter models`?
    "#]],
    );
    world.check(
        &["session", "show", "x"],
        expect![[r#"
        exit 2
        --- stderr
        error: there is no command `session`

        hint: did you mean `cotter sessions`?
    "#]],
    );
    world.check(
        &["what", "is", "it"],
        expect![[r#"
        exit 2
        --- stderr
        error: unexpected argument 'is' after the prompt

        hint: put the prompt in quotes; a command's options come after the command
    "#]],
    );
    world.check(
        &["-p", "one", "two"],
        expect![[r#"
            exit 2
            --- stderr
            error: unexpected argument 'two' after the prompt

            hint: put the prompt in quotes; a command's options come after the command
        "#]],
    );
    world.check(
        &["sessions"],
        expect![[r#"
        exit 2
        --- stderr
        error: 'cotter sessions' requires a subcommand but one was not provided

        hint: subcommands: list, show
    "#]],
    );
    world.check(
        &["sessions", "shwo", "x"],
        expect![[r#"
        exit 2
        --- stderr
        error: unrecognized subcommand 'shwo'

        hint: a similar subcommand exists: 'show'
    "#]],
    );
    world.check(
        &["ledger"],
        expect![[r#"
            exit 1
            --- stderr
            error: no session was started in [T]/project

            hint: `cotter sessions list` shows those of other folders; name one
        "#]],
    );
    world.check(
        &["-p", "--\u{1b}[31m", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: unexpected argument '--\u{1b}[31m' found

        hint: to pass '--\u{1b}[31m' as a value, use '-- --\u{1b}[31m'
    "#]],
    );
}

#[test]
fn color_flag_controls_colours() {
    let world = World::new();
    world.check(&["-p", "--color", "always", "hi"], expect![[r#"
        exit 2
        --- stderr
        [1;31merror:[0m no model is set up, so nothing was sent

        [36mhint:[0m set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers what there is, `cotter models list` shows it
    "#]]);
    world.check(&["-p", "--color", "never", "hi"], expect![[r#"
        exit 2
        --- stderr
        error: no model is set up, so nothing was sent

        hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers what there is, `cotter models list` shows it
    "#]]);
    world.check(
        &["-p", "--color", "blue", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: invalid value 'blue' for '--color <WHEN>'

        hint: possible values: auto, always, never
    "#]],
    );
}

#[test]
fn a_missing_argument_points_to_the_help_of_its_command() {
    let world = World::new();
    for (args, path) in [
        (&["spaces", "add"][..], "spaces add"),
        (&["agents", "check"], "agents check"),
        (&["hooks", "test"], "hooks test"),
        (&["mcp", "accept"], "mcp accept"),
        (&["sessions", "show"], "sessions show"),
        (&["untrust", "a", "b"], "untrust"),
    ] {
        let output = world.output(args);
        let told = String::from_utf8(output.stderr).unwrap();
        let hint = format!("\nhint: `cotter {path} --help` lists the arguments\n");
        assert!(told.ends_with(&hint), "{args:?}: {told}");
        let path: Vec<_> = path.split(' ').chain(["--help"]).collect();
        assert_eq!(world.output(&path).status.code(), Some(0));
    }
    world.check(
        &["spaces", "add"],
        expect![[r#"
        exit 2
        --- stderr
        error: the following required arguments were not provided
          caused by: <PATH|GIT-URL>

        hint: `cotter spaces add --help` shows what may be typed
    "#]],
    );
}
