//! Keys: the files they may be stored in, the offer at a terminal, and that they are never shown.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use cotter_test::{After, Answer, Cut, Dialect, LocalProvider};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::{support::World, terminal::Screen};

const FILE: &str = "home/.config/cotter/credentials.json";
const KEY: &str = "sk-ant-hush-0123456789";

fn keep(world: &World, text: &str, mode: u32) {
    let path = world.write(FILE, text);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn anthropic(answers: impl IntoIterator<Item = Answer>) -> LocalProvider {
    LocalProvider::start(Dialect::AnthropicMessages, answers)
}

#[test]
fn stored_key_is_used_if_no_variable_is_set() {
    let provider = anthropic([Answer::text("One."), Answer::text("Two.")]);
    let world = World::new().with_env("ANTHROPIC_BASE_URL", provider.url());
    keep(&world, &json!({"anthropic": {"apiKey": KEY}}).to_string(), 0o600);
    world.check(&["-p", "hi"], expect![[r#"
        exit 0
        --- stdout
        One.
        --- stderr
        model: anthropic/claude-sonnet-5-5, since no model is named, and there is a key in [T]/home/.config/cotter/credentials.json
    "#]]);
    let world = world.with_env("ANTHROPIC_API_KEY", "of-the-variable");
    world.check(&["-p", "hi"], expect![[r#"
        exit 0
        --- stdout
        Two.
        --- stderr
        model: anthropic/claude-sonnet-5-5, since no model is named, and there is a key in `ANTHROPIC_API_KEY`
    "#]]);
    let keys: Vec<_> =
        provider.requests().iter().map(|it| it.header("x-api-key").map(str::to_owned)).collect();
    assert_eq!(keys, [Some(KEY.to_owned()), Some("of-the-variable".into())]);
}

#[test]
fn openai_key_works_for_both_openai_dialects() {
    let provider = LocalProvider::start(Dialect::OpenAiResponses, [Answer::text("One.")]);
    let world = World::new().with_env("OPENAI_BASE_URL", provider.url());
    keep(&world, r#"{"openai": {"apiKey": "the-house-key"}}"#, 0o600);
    assert!(world.output(&["-p", "--model", "openai-responses/x", "hi"]).status.success());
    assert_eq!(provider.requests()[0].header("authorization"), Some("Bearer the-house-key"));
}

#[test]
fn s28_credentials_file_readable_by_others_is_refused() {
    let check = |text: &str, mode: u32, expected: Expect| {
        let world = World::new();
        keep(&world, text, mode);
        world.check(&["-p", "hi"], expected);
    };
    let good = json!({"anthropic": {"apiKey": KEY}}).to_string();
    check(
        &good,
        0o640,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/credentials.json can be read by other users, so its keys are not used

            hint: `chmod 600 [T]/home/.config/cotter/credentials.json`
        "#]],
    );
    check(
        &good,
        0o604,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/credentials.json can be read by other users, so its keys are not used

            hint: `chmod 600 [T]/home/.config/cotter/credentials.json`
        "#]],
    );
    // The error quotes nothing of the file.
    check(
        &format!("{{\"anthropic\": \"{KEY}\"}}"),
        0o600,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/credentials.json:1:15: not a valid file of keys

            hint: expected `{"anthropic": {"apiKey": "…"}}`
        "#]],
    );
    check(
        &format!("{{\"anthropic\": {{\"{KEY}\": 1}}}}"),
        0o600,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/credentials.json:1:16: not a valid file of keys

            hint: expected `{"anthropic": {"apiKey": "…"}}`
        "#]],
    );
    check(
        &format!("{{\"anthropic\": {{\"apiKey\": \"x\" \"{KEY}\"}}}}"),
        0o600,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/credentials.json:1:29: not a valid file of keys

            hint: expected `{"anthropic": {"apiKey": "…"}}`
        "#]],
    );
    check(
        KEY,
        0o600,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/credentials.json:1:1: not a valid file of keys

            hint: expected `{"anthropic": {"apiKey": "…"}}`
        "#]],
    );
    let world = World::new();
    keep(&world, &good, 0o600);
    let folder = world.path("home/.config/cotter");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    world.check(&["-p", "hi"], expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/credentials.json is in a folder that other users can change, so its keys are not used

        hint: `chmod go-w [T]/home/.config/cotter`
    "#]]);
}

#[test]
fn s3_credentials_file_inside_the_project_is_not_read() {
    let world = World::new();
    let inside = world.path("project/.cotter");
    world.write("project/.cotter/credentials.json", r#"{"anthropic": {"apiKey": "theirs"}}"#);
    let world = world.with_env("COTTER_HOME", inside);
    world.check(
        &["-p", "hi"],
        expect![[r#"
            exit 1
            --- stderr
            warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
            error: [T]/project/.cotter/credentials.json is inside the project, so its keys are not used

            hint: keep your own files outside [T]/project
        "#]],
    );
}

/// Checks the screen of a person without a model, with these keys typed.
fn check_offer(world: &World, keys: &[(&str, &str)], expected: &Expect) {
    let mut screen = Screen::new(world, &["-p", "--ask", "what is in a.txt?"]);
    for (wait, keys) in keys {
        screen.wait_for(wait);
        screen.type_keys(keys);
    }
    expected.assert_eq(&screen.end(world));
}

/// Creates a world in which Ollama does not answer.
fn quiet_world() -> World {
    World::new().with_env("NO_COLOR", "1").with_env("OLLAMA_HOST", "127.0.0.1:9")
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn terminal_setup_stores_a_pasted_key_and_the_model() {
    let read = Answer::call("c1", "read", json!({"path": "a.txt"}));
    let provider =
        anthropic([read, Answer::text("One and two."), Answer::text("Again.")]).with_key(KEY);
    let world = quiet_world().with_env("ANTHROPIC_BASE_URL", provider.url());
    let pasted = format!("{KEY}\n");
    let keys = [
        ("[n]one: ", "1\n"),
        ("not shown): ", pasted.as_str()),
        ("readable only by you?\r\n[y]es, [n]o: ", "y\n"),
        ("settings.json?\r\n[y]es, [n]o: ", "y\n"),
    ];
    check_offer(
        &world,
        &keys,
        &expect![[r#"
            exit 0
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: 1
            Paste the key (it is not shown): 
            Store the key of `anthropic` in [T]/home/.config/cotter/credentials.json, readable only by you?
            [y]es, [n]o: y
            Use anthropic/claude-sonnet-5-5 from now on, and store this in [T]/home/.config/cotter/settings.json?
            [y]es, [n]o: y
            One and two.
        "#]],
    );
    assert_eq!(mode_of(&world.path(FILE)), 0o600);
    assert_eq!(mode_of(&world.path("home/.config/cotter")), 0o700);
    let settings = world.path("home/.config/cotter/settings.json");
    assert_eq!(
        fs::read_to_string(settings).unwrap(),
        "{\n  \"model\": \"anthropic/claude-sonnet-5-5\"\n}\n"
    );
    check_hidden(&world, KEY);
    world.check(
        &["-p", "again"],
        expect![[r#"
        exit 0
        --- stdout
        Again.
    "#]],
    );
}

#[test]
fn terminal_setup_stores_nothing_without_a_yes() {
    let provider =
        LocalProvider::start(Dialect::OpenAiChat, [Answer::text("Yes.")]).with_key("odd-key");
    let world = quiet_world().with_env("OPENAI_BASE_URL", provider.url());
    let keys = [
        ("[n]one: ", "1\n"),
        ("not shown): ", "odd-key\n"),
        ("Which provider is the key for?", "somebody's\n"),
        ("`somebody's` is not a known provider.", "openai\n"),
        ("readable only by you?\r\n[y]es, [n]o: ", "n\n"),
    ];
    check_offer(
        &world,
        &keys,
        &expect![[r#"
            exit 0
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: 1
            Paste the key (it is not shown): 
            Which provider is the key for? anthropic, openai, openai-responses, gemini, openrouter (Enter: cancel): somebody's
            `somebody's` is not a known provider. Choose one of anthropic, openai, openai-responses, gemini, openrouter (Enter: cancel): openai
            Store the key of `openai` in [T]/home/.config/cotter/credentials.json, readable only by you?
            [y]es, [n]o: n
            Yes.
        "#]],
    );
    assert!(!world.path("home/.config").exists());
}

#[test]
fn terminal_setup_asks_for_the_provider_of_an_ambiguous_key() {
    let key = "sk-0123456789abcdef";
    let pasted = format!("{key}\n");
    let provider = LocalProvider::start(Dialect::OpenAiChat, [Answer::text("Yes.")]).with_key(key);
    let world = quiet_world().with_env("OPENAI_BASE_URL", provider.url());
    let keys = [
        ("[n]one: ", "1\n"),
        ("not shown): ", pasted.as_str()),
        ("Which provider is the key for?", "\n"),
        ("readable only by you?\r\n[y]es, [n]o: ", "y\n"),
        ("settings.json?\r\n[y]es, [n]o: ", "n\n"),
    ];
    check_offer(
        &world,
        &keys,
        &expect![[r#"
            exit 0
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: 1
            Paste the key (it is not shown): 
            Which provider is the key for? anthropic, openai, openai-responses, gemini, openrouter (Enter: openai): 
            Store the key of `openai` in [T]/home/.config/cotter/credentials.json, readable only by you?
            [y]es, [n]o: y
            Use openai/gpt-6.1-terra from now on, and store this in [T]/home/.config/cotter/settings.json?
            [y]es, [n]o: n
            Yes.
        "#]],
    );
    check_hidden(&world, key);
    // The key could be of any provider, so nothing is guessed and nothing is sent.
    let keys = [
        ("[n]one: ", "1\n"),
        ("not shown): ", "odd-key\n"),
        ("Which provider is the key for?", "\n"),
    ];
    check_offer(
        &quiet_world(),
        &keys,
        &expect![[r#"
            exit 2
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: 1
            Paste the key (it is not shown): 
            Which provider is the key for? anthropic, openai, openai-responses, gemini, openrouter (Enter: cancel): 
            error: no model is set up, so nothing was sent

            hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
        "#]],
    );
    let keys =
        [("[n]one: ", "1\n"), ("not shown): ", "sk-or-0123456789\n"), ("Which model of", "\n")];
    check_offer(
        &quiet_world(),
        &keys,
        &expect![[r#"
            exit 2
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: 1
            Paste the key (it is not shown): 
            Which model of `openrouter`? openrouter/
            error: no model is set up, so nothing was sent

            hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
        "#]],
    );
    assert_eq!(provider.requests().len(), 1);
}

#[test]
fn terminal_setup_offers_local_models() {
    let read = Answer::call("c1", "read", json!({"path": "a.txt"}));
    let answers = [read, Answer::text("One and two.")];
    let ollama = LocalProvider::start(Dialect::OpenAiChat, answers).without_key();
    let ollama = ollama.with_models(["qwen3:8b", "gem\u{1b}[2Jma"]);
    let world = World::new()
        .with_env("NO_COLOR", "1")
        .with_env("OLLAMA_HOST", ollama.address().to_string());
    world.settings("// mine\n{\"limits\": {\"maxTurns\": 9}}\n");
    let keys = [("[n]one: ", "2\n"), ("settings.json?\r\n[y]es, [n]o: ", "y\n")];
    check_offer(
        &world,
        &keys,
        &expect![[r#"
            exit 0
            No model is set up. Choose one:
            1. a provider, with your API key
            2. ollama/qwen3:8b, on this machine
            3. ollama/gem\u{1b}[2Jma, on this machine
            4. rehearsal, which works offline, for this run only
            [1-4], [n]one: 2
            Use ollama/qwen3:8b from now on, and store this in [T]/home/.config/cotter/settings.json?
            [y]es, [n]o: y
            One and two.
        "#]],
    );
    let settings = world.path("home/.config/cotter/settings.json");
    expect![[r#"
        // mine
        {
          "model": "ollama/qwen3:8b",
        "limits": {"maxTurns": 9}}
    "#]]
    .assert_eq(&fs::read_to_string(settings).unwrap());
}

#[test]
fn setup_is_not_offered_without_a_terminal() {
    let world = quiet_world();
    let mut command = world.without_terminal(&["-p", "--ask", "hi"]);
    expect![[r#"
        exit 2
        --- stderr
        warning: there is no terminal to ask on (No such device or address (os error 6)): calls that need approval are refused
        error: no model is set up, so nothing was sent

        hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
    "#]].assert_eq(&world.shown(&command.output().unwrap()));
}

#[test]
fn rehearsal_model_chosen_in_setup_is_not_stored() {
    let keys = [("[n]one: ", "9\n"), ("or n\r\n[1-2], [n]one: ", "2\n")];
    let world = quiet_world();
    check_offer(
        &world,
        &keys,
        &expect![[r#"
            exit 0
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: 9
            type a number from 1 to 2, or n
            [1-2], [n]one: 2
            rehearsal: I do not understand "what is in a.txt?"

            I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    assert!(!world.path("home/.config").exists());
}

#[test]
fn terminal_setup_can_be_declined() {
    let world = quiet_world();
    check_offer(
        &world,
        &[("[n]one: ", "n\n")],
        &expect![[r#"
            exit 2
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: n
            error: no model is set up, so nothing was sent

            hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
        "#]],
    );
    check_offer(
        &world,
        &[("[n]one: ", "\u{4}")],
        &expect![[r#"
            exit 2
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: 
            error: no model is set up, so nothing was sent

            hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
        "#]],
    );
    check_offer(
        &world,
        &[("[n]one: ", "1\n"), ("not shown): ", "\n")],
        &expect![[r#"
            exit 2
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: 1
            Paste the key (it is not shown): 
            error: no model is set up, so nothing was sent

            hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
        "#]],
    );
    check_offer(
        &world,
        &[("[n]one: ", "\u{3}")],
        &expect![[r#"
            exit 130
            No model is set up. Choose one:
            1. a provider, with your API key
            2. rehearsal, which works offline, for this run only
            [1-2], [n]one: ^C
            error: nothing was sent
        "#]],
    );
    assert!(!world.path("home/.local").exists() && !world.path("home/.config").exists());
}

/// S28: no printed byte and no written file contains a key, even if a provider echoes the key.
#[test]
fn s28_keys_appear_in_no_output_and_no_file() {
    let secret = "hush-hush-0123456789";
    let echo =
        json!({"error": {"type": "authentication_error", "message": format!("bad key {secret}")}});
    let echoes = |status: u16| Answer::status(status).and_body(echo.to_string());
    let html = Answer::status(502).and_body(format!("<html>Bearer {secret}</html>"));
    let read = || Answer::call("c1", "read", json!({"path": "a.txt"}));
    for dialect in Dialect::ALL {
        let model = match dialect {
            Dialect::AnthropicMessages => "anthropic/x",
            Dialect::OpenAiChat => "openai/x",
            _ => "openai-responses/x",
        };
        let answers = [
            read(),
            Answer::status(429)
                .and_header("retry-after-ms", "1")
                .and_body(json!({"error": {"message": format!("{secret} is busy")}}).to_string()),
            Answer::text("half").and_cut(After::Events(2), Cut::Reset),
            html.clone(),
            Answer::text("done"),
            echoes(401),
            echoes(400),
            read(),
            echoes(403),
        ];
        let provider = LocalProvider::start(dialect, answers).with_key(secret);
        let world = World::new()
            .with_env("ANTHROPIC_BASE_URL", provider.url())
            .with_env("OPENAI_BASE_URL", provider.url())
            .with_env("ANTHROPIC_API_KEY", secret)
            .with_env("OPENAI_API_KEY", secret);
        keep(&world, &json!({"gemini": {"apiKey": secret}}).to_string(), 0o600);
        let tape = |name: &str| world.path(name).to_str().unwrap().to_owned();
        let (one, two, three) = (tape("1.jsonl"), tape("2.jsonl"), tape("3.jsonl"));
        let runs: [&[&str]; 9] = [
            &["-p", "--model", model, "--record-cassette", &one, "read a.txt"],
            &["-p", "--model", model, "--record-cassette", &two, "hi"],
            &["-p", "--model", model, "--output-format", "json", "hi"],
            &[
                "-p",
                "--model",
                model,
                "--output-format",
                "stream-json",
                "--record-cassette",
                &three,
                "read",
            ],
            &["-p", "--model", model, "--cassette", &three, "read"],
            &["models", "list"],
            &["models", "list", "--json"],
            &["sessions", "list"],
            &["-p", "--model", "gemini/x", "--max-budget-usd", "1", "hi"],
        ];
        for args in runs {
            let output = world.output(args);
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(!said.contains(secret), "{args:?} says {said}");
        }
        assert_eq!(provider.requests().len(), 9, "all of it was said: {:?}", provider.refusals());
        assert!(files_below(&world.path("")).len() > 8);
        check_hidden(&world, secret);
    }
}

/// Checks that only the file of keys contains the key.
fn check_hidden(world: &World, secret: &str) {
    for file in files_below(&world.path("")) {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        let may = file.ends_with("credentials.json");
        assert!(may || !text.contains(secret), "{} holds the key", file.display());
    }
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = vec![];
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_below(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}
