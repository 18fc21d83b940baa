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
          skills       List skills, show one, show which skills a task triggers, check skill files
          hooks        List hooks, test them, show their log, check hook files
          commands     List slash commands, check command files
          agents       List subagents and profiles, check agent files
          models       List the available models
          spaces       Add, update, remove, create and check spaces: folders that are an extension
          doctor       Report which files are found, trusted and used, what is broken, confined or slow
          explain      Show the decision about a call, and its reasons, without running the call
          mcp          List the tools of MCP servers, accept changed ones
          permissions  List the permission rules, revoke one
          init         Create a `.cotter` folder with an example hook, rule, skill, command and agent
          schema       Print the JSON Schema of a file, or of the input and output of hooks
          trust        Show what a project would run, and ask whether to trust it
          untrust      Withdraw trust
          sessions     List and show stored sessions
          ledger       Show every decision about the tool calls of a session

        Arguments:
          [PROMPT]  Run this prompt; piped input is added as data

        Options:
          -p, --print                   Run one prompt and print the answer
              --output-format <FORMAT>  Print the run in this format: text, json, stream-json
              --model <MODEL>           Use this model: `provider/model`, or `rehearsal`
              --fallback-model <MODEL>  Use this model if the models before it fail; may be repeated
              --script <FILE>           Take the replies of the model from this script, a JSON file
              --record-cassette <FILE>  Record the requests to providers and their replies in this new file
              --cassette <FILE>         Take the replies from such a file; nothing is sent
              --continue                Continue the last session in this folder
              --resume <ID>             Continue this session; the start of its id is enough
              --no-session              Do not store this session
              --ask                     Ask on the terminal, instead of refusing calls that need approval
              --max-turns <N>           Limit the steps of this run, and of each subagent
              --max-budget-usd <X>      Limit the cost of this run, in dollars
              --cwd <DIR>               Work in this folder
              --add-dir <DIR>           Allow calls to read and write in this folder too; may be repeated
              --mcp <FILE>              Use the MCP servers in this file; may be repeated
              --settings <FILE>         Use this settings file too; it takes precedence over your own settings
              --agent <AGENT>           Run this agent: a name, or the path of a profile's agent.json
              --space <ID>              Load this space; may be repeated
              --permission-mode <MODE>  Set the mode for calls that no rule decides: ask, accept-edits, plan, auto
              --without <NAME>          Disable this hook; may be repeated
              --safe-mode               Use no hooks, skills, servers or memory files of the project or of a space
              --trust[=<HASH>]          Ask whether to trust the project, or trust this hash for one run
              --require-trust           Refuse to run if a source of the project or a named space is not trusted
              --color <WHEN>            Use colour: auto, always, never
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
              list  List all sessions, the newest first
              show  Show the conversation of a session

            Options:
                  --color <WHEN>  Use colour: auto, always, never
              -h, --help          Print help
        "#]],
    );
    world.check(
        &["sessions", "show", "-h"],
        expect![[r#"
            exit 0
            --- stdout
            Show the conversation of a session

            Usage: cotter sessions show [OPTIONS] <ID>

            Arguments:
              <ID>  Show this session; the start of its id is enough

            Options:
                  --json          Print the stored entries, one JSON object per line
                  --color <WHEN>  Use colour: auto, always, never
              -h, --help          Print help
        "#]],
    );
    world.check(
        &["ledger", "--help"],
        expect![[r#"
            exit 0
            --- stdout
            Show every decision about the tool calls of a session

            Usage: cotter ledger [OPTIONS] [ID] [COMMAND]

            Commands:
              verify  Check that no row of the ledger is missing, changed or out of order

            Arguments:
              [ID]  Show this session; the start of its id is enough [default: the last one in this folder]

            Options:
                  --color <WHEN>  Use colour: auto, always, never
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

            hint: `cotter --help` lists the arguments
        "#]],
    );
    world.check(
        &["-p", "--max-budget-usd", "-1", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: invalid value '-1' for '--max-budget-usd <X>': expected a number above 0

            hint: `cotter --help` lists the arguments
        "#]],
    );
    world.check(
        &["-p", "--max-budget-usd=nan", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: invalid value 'nan' for '--max-budget-usd <X>': expected a number above 0

            hint: `cotter --help` lists the arguments
        "#]],
    );
    world.check(
        &["-p", "--continue", "--resume", "x", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: the argument '--continue' cannot be used with '--resume <ID>'

            hint: `cotter --help` lists the arguments
        "#]],
    );
    world.check(
        &["-p", "--no-session", "--continue", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: the argument '--no-session' cannot be used with '--continue'

            hint: `cotter --help` lists the arguments
        "#]],
    );
    world.check(
        &["-p", "--model", "rehearsal", "--script", "x", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: the argument '--model <MODEL>' cannot be used with '--script <FILE>'

            hint: `cotter --help` lists the arguments
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

            hint: `cotter sessions list` shows the sessions of other folders; name one
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

        [36mhint:[0m set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
    "#]]);
    world.check(&["-p", "--color", "never", "hi"], expect![[r#"
        exit 2
        --- stderr
        error: no model is set up, so nothing was sent

        hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
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

            hint: `cotter spaces add --help` lists the arguments
        "#]],
    );
}
