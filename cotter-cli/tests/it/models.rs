//! The choice of a model, the errors if none is available, and `cotter models list`.

use cotter_test::{Dialect, LocalProvider};
use expect_test::{Expect, expect};

use crate::support::World;

/// Checks the output for a model's name.
fn check_name(name: &str, expected: Expect) {
    World::new().check(&["-p", "--model", name, "hi"], expected);
}

#[test]
fn unknown_model_name_error_suggests_near_matches() {
    check_name(
        "anthropc/claude-sonnet-5-5",
        expect![[r#"
        exit 2
        --- stderr
        error: there is no provider `anthropc`

        hint: did you mean `anthropic`?
    "#]],
    );
    check_name(
        "claude-sonnet-5-5",
        expect![[r#"
        exit 2
        --- stderr
        error: `claude-sonnet-5-5` is not a model name: expected `provider/model`

        hint: did you mean `anthropic/claude-sonnet-5-5`?
    "#]],
    );
    check_name(
        "anthropic",
        expect![[r#"
        exit 2
        --- stderr
        error: `anthropic` is not a model name: expected `provider/model`

        hint: did you mean `anthropic/claude-sonnet-5-5`?
    "#]],
    );
    check_name(
        "anthropic/",
        expect![[r#"
        exit 2
        --- stderr
        error: `anthropic/` is not a model name: expected `provider/model`

        hint: did you mean `anthropic/claude-sonnet-5-5`?
    "#]],
    );
    check_name(
        "rehersal",
        expect![[r#"
        exit 2
        --- stderr
        error: `rehersal` is not a model name: expected `provider/model`

        hint: did you mean `rehearsal`?
    "#]],
    );
    check_name(
        "rehearsal/x",
        expect![[r#"
        exit 2
        --- stderr
        error: there is no provider `rehearsal`

        hint: did you mean `--model rehearsal`?
    "#]],
    );
    check_name(
        "lab/x",
        expect![[r#"
            exit 2
            --- stderr
            error: there is no provider `lab`

            hint: `cotter models list` shows the providers; another one is described in the settings, under `providers`
        "#]],
    );
    check_name(
        "\u{1b}[31m",
        expect![[r#"
            exit 2
            --- stderr
            error: `\u{1b}[31m` is not a model name: expected `provider/model`

            hint: `cotter models list` shows the known models
        "#]],
    );
    check_name(
        "openai-responses/gpt-6.1-sol",
        expect![[r#"
            exit 2
            --- stderr
            error: there is no key for `openai-responses`

            hint: set `OPENAI_API_KEY`
        "#]],
    );
}

#[test]
fn wrong_model_error_names_the_file_or_variable() {
    let check = |name: &str, expected: Expect| {
        let world = World::new();
        world.settings(&format!("{{\n  // mine\n  \"model\": \"{name}\"\n}}"));
        let of_settings = world.shown(&world.output(&["-p", "hi"]));
        let world = world.with_env("COTTER_MODEL", name);
        let of_variable = world.shown(&world.output(&["-p", "hi"]));
        expected.assert_eq(&(of_settings + &of_variable));
    };
    check(
        "opnai/x",
        expect![[r#"
            exit 2
            --- stderr
            error: [T]/home/.config/cotter/settings.json:3:12: $.model: cannot use the model `opnai/x`
              caused by: there is no provider `opnai`

            hint: did you mean `openai`?
            exit 2
            --- stderr
            error: cannot use the model `opnai/x`, which `COTTER_MODEL` names
              caused by: there is no provider `opnai`

            hint: did you mean `openai`?
        "#]],
    );
    check(
        "claude-sonnet-5-5",
        expect![[r#"
            exit 2
            --- stderr
            error: [T]/home/.config/cotter/settings.json:3:12: $.model: cannot use the model `claude-sonnet-5-5`
              caused by: `claude-sonnet-5-5` is not a model name: expected `provider/model`

            hint: did you mean `anthropic/claude-sonnet-5-5`?
            exit 2
            --- stderr
            error: cannot use the model `claude-sonnet-5-5`, which `COTTER_MODEL` names
              caused by: `claude-sonnet-5-5` is not a model name: expected `provider/model`

            hint: did you mean `anthropic/claude-sonnet-5-5`?
        "#]],
    );
    check(
        "gemini/x",
        expect![[r#"
            exit 2
            --- stderr
            error: [T]/home/.config/cotter/settings.json:3:12: $.model: cannot use the model `gemini/x`
              caused by: there is no key for `gemini`

            hint: set `GEMINI_API_KEY`
            exit 2
            --- stderr
            error: cannot use the model `gemini/x`, which `COTTER_MODEL` names
              caused by: there is no key for `gemini`

            hint: set `GEMINI_API_KEY`
        "#]],
    );
}

#[test]
fn unusable_fallback_model_flag_is_an_error() {
    let world = World::new();
    let check = |name: &str, expected: Expect| {
        world.check(&["-p", "--model", "rehearsal", "--fallback-model", name, "hi"], expected);
    };
    check(
        "openai/x",
        expect![[r#"
            exit 2
            --- stderr
            error: cannot use the fallback model `openai/x`
              caused by: there is no key for `openai`

            hint: set `OPENAI_API_KEY`
        "#]],
    );
    check(
        "opnai/x",
        expect![[r#"
            exit 2
            --- stderr
            error: cannot use the fallback model `opnai/x`
              caused by: there is no provider `opnai`

            hint: did you mean `openai`?
        "#]],
    );
    check(
        "x",
        expect![[r#"
            exit 2
            --- stderr
            error: cannot use the fallback model `x`
              caused by: `x` is not a model name: expected `provider/model`

            hint: `cotter models list` shows the known models
        "#]],
    );
    assert!(!world.sessions().exists());
    // The flag replaces the fallbacks of the settings, and a model is no fallback of itself.
    world.settings(r#"{"fallbackModels": ["opnai/x"]}"#);
    check(
        "rehearsal",
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: I do not understand "hi"

            I understand: read FILE; list [FOLDER]; run COMMAND; write TEXT to FILE; replace TEXT by TEXT in FILE; find FILES; search WORDS; fetch URL; remember WORDS; recall WORDS; ask @NAME …; call TOOL JSON

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
}

#[test]
fn unusable_fallback_model_in_settings_is_skipped_with_a_warning() {
    let world = World::new()
        .with_env("OPENAI_BASE_URL", "not an address")
        .with_env("OLLAMA_HOST", "127.0.0.1:9");
    world.settings(
        "{\n  \"model\": \"rehearsal\",\n  \"fallbackModels\":\n    [\"anthropic/x\", \
         \"ollama/y\", \"opnai/x\", \"rehearsal\", \"openai/x\"]\n}",
    );
    world.check(&["-p", "list src"], expect![[r#"
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/home/.config/cotter/settings.json:4:6: $.fallbackModels[0]: the fallback model `anthropic/x` is skipped: there is no key for `anthropic` (set `ANTHROPIC_API_KEY`)
        warning: [T]/home/.config/cotter/settings.json:4:33: $.fallbackModels[2]: the fallback model `opnai/x` is skipped: there is no provider `opnai` (did you mean `openai`?)
        warning: [T]/home/.config/cotter/settings.json:4:57: $.fallbackModels[4]: the fallback model `openai/x` is skipped: `OPENAI_BASE_URL` is not the address of a provider: expected an address that begins with `http://` or `https://`
    "#]]);
    // A command asks no model.
    assert!(world.output(&["-p", "/tools"]).stderr.is_empty());
    expect![[r#"
        exit 0
        --- stdout
        * rehearsal       ?  free
          ollama/y        ?  free

        a run would use rehearsal: the settings name it
        if it fails, in this order: ollama/y
        [T]/home/.config/cotter/settings.json:4:6: $.fallbackModels[0]: the fallback model `anthropic/x` is skipped: there is no key for `anthropic` (set `ANTHROPIC_API_KEY`)
        [T]/home/.config/cotter/settings.json:4:33: $.fallbackModels[2]: the fallback model `opnai/x` is skipped: there is no provider `opnai` (did you mean `openai`?)
        [T]/home/.config/cotter/settings.json:4:57: $.fallbackModels[4]: the fallback model `openai/x` is skipped: `OPENAI_BASE_URL` is not the address of a provider: expected an address that begins with `http://` or `https://`
        anthropic: set ANTHROPIC_API_KEY
        gemini: set GEMINI_API_KEY
        openrouter: set OPENROUTER_API_KEY
        openai: `OPENAI_BASE_URL` is not the address of a provider
        openai-responses: `OPENAI_BASE_URL` is not the address of a provider
        ollama: no answer from http://127.0.0.1:9/v1
        prices in dollars per million tokens, as of [DATE]
    "#]].assert_eq(&listed(&world, &["models", "list"]));
    let shown = listed(&world, &["models", "list", "--json"]);
    let choice = shown.lines().find(|line| line.contains("choice"));
    expect![[r#"{"type":"choice","name":"rehearsal","why":"the settings name it","trouble":null,"fallbacks":["ollama/y"],"leftOut":["[T]/home/.config/cotter/settings.json:4:6: $.fallbackModels[0]: the fallback model `anthropic/x` is skipped: there is no key for `anthropic` (set `ANTHROPIC_API_KEY`)","[T]/home/.config/cotter/settings.json:4:33: $.fallbackModels[2]: the fallback model `opnai/x` is skipped: there is no provider `opnai` (did you mean `openai`?)","[T]/home/.config/cotter/settings.json:4:57: $.fallbackModels[4]: the fallback model `openai/x` is skipped: `OPENAI_BASE_URL` is not the address of a provider: expected an address that begins with `http://` or `https://`"]}"#]].assert_eq(choice.unwrap());
}

#[test]
fn models_list_marks_models_that_a_budget_refuses() {
    let world = World::new().with_env("OLLAMA_HOST", "127.0.0.1:9").with_env("OPENAI_API_KEY", "x");
    world.settings(
        r#"{"model": "rehearsal", "fallbackModels": ["openai/y"], "limits": {"maxBudgetUsd": 1}}"#,
    );
    assert_eq!(world.output(&["-p", "list src"]).status.code(), Some(2));
    expect![[r#"
        exit 0
        --- stdout
          rehearsal                                      ?  free

        a run would fail: rehearsal is chosen (the settings name it), but the price of `openai/y` is unknown, so a budget of 1 USD cannot be enforced
        anthropic: set ANTHROPIC_API_KEY
        gemini: set GEMINI_API_KEY
        openrouter: set OPENROUTER_API_KEY
        ollama: no answer from http://127.0.0.1:9/v1
        prices in dollars per million tokens, as of [DATE]
    "#]].assert_eq(&listed(&world, &["models", "list"]));
}

#[test]
fn invalid_base_url_error_names_its_variable_or_setting() {
    let check = |variable: &str, value: &str, model: &str, expected: Expect| {
        let world = World::new().with_env(variable, value).with_env("OPENAI_API_KEY", "x");
        world.check(&["-p", "--model", model, "hi"], expected);
        assert!(world.output(&["-p", "--model", "rehearsal", "list src"]).status.success());
    };
    check(
        "ANTHROPIC_BASE_URL",
        "localhost:8080",
        "anthropic/x",
        expect![[r#"
            exit 2
            --- stderr
            error: `ANTHROPIC_BASE_URL` is not the address of a provider
              caused by: expected an address that begins with `http://` or `https://`
        "#]],
    );
    check(
        "OPENAI_BASE_URL",
        "ftp://x.example",
        "openai/x",
        expect![[r#"
            exit 2
            --- stderr
            error: `OPENAI_BASE_URL` is not the address of a provider
              caused by: expected an address that begins with `http://` or `https://`
        "#]],
    );
    check(
        "OPENAI_BASE_URL",
        "http://me:hush@x.example",
        "openai-responses/x",
        expect![[r#"
            exit 2
            --- stderr
            error: `OPENAI_BASE_URL` is not the address of a provider
              caused by: the address must not contain a name or password: set the key separately
        "#]],
    );
    check(
        "OLLAMA_HOST",
        "localhost:port",
        "ollama/x",
        expect![[r#"
            exit 2
            --- stderr
            error: `OLLAMA_HOST` is not the address of a provider
              caused by: invalid port number
        "#]],
    );
    check(
        "HTTPS_PROXY",
        "socks5://me:hush@x.example",
        "openai/x",
        expect![[r#"
            exit 2
            --- stderr
            error: `HTTPS_PROXY` names a proxy of an unknown kind

            hint: use `http://HOST:PORT` or `https://HOST:PORT`
        "#]],
    );
}

#[test]
fn invalid_provider_settings_name_their_place() {
    let check = |settings: &str, expected: Expect| {
        let world = World::new();
        world.settings(settings);
        world.check(&["-p", "--model", "rehearsal", "hi"], expected);
    };
    check(
        r#"{"providers": {"lab": {"speaks": "openai"}}}"#,
        expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/settings.json:1:23: $.providers.lab: `lab` is not a known provider, so it needs `speaks` and `baseUrl`
    "#]],
    );
    check(
        r#"{"providers": {"opnai": {"apiKeyVariable": "X"}}}"#,
        expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/settings.json:1:25: $.providers.opnai: `opnai` is not a known provider, so it needs `speaks` and `baseUrl`

        hint: did you mean `openai`?
    "#]],
    );
    check(
        r#"{"providers": {"lab": {"speaks": "opnai", "baseUrl": "http://x"}}}"#,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:34: $.providers.lab.speaks: expected one of `anthropic`, `openai`, `openai-responses`, found `opnai`

            hint: did you mean `openai`?
        "#]],
    );
    check(
        r#"{"providers": {"lab": {"speaks": "openai", "baseUrl": "x.example/v1"}}}"#,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:55: $.providers.lab.baseUrl: expected an address that begins with `http://` or `https://`
        "#]],
    );
    check(
        r#"{"providers": {"openai": {"baseUrl": "https://me:hush@x.example/v1"}}}"#,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:38: $.providers.openai.baseUrl: the address must not contain a name or password: set the key separately
        "#]],
    );
    check(
        r#"{"providers": {"openai": {"apiKey": "hush"}}}"#,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:27: $.providers.openai.apiKey: a settings file must not contain an API key

            hint: put the key into a variable and name the variable: "apiKeyVariable": "LAB_API_KEY"
        "#]],
    );
}

#[test]
fn provider_settings_win_over_environment_variables() {
    let world = World::new()
        .with_env("OPENAI_API_KEY", "x")
        .with_env("OPENAI_BASE_URL", "not an address")
        .with_env("OLLAMA_HOST", "not an address either");
    world.settings(
        r#"{"model": "openai/x", "providers": {
             "openai": {"baseUrl": "http://127.0.0.1:9/v1", "apiKeyVariable": "OTHER_KEY"},
             "ollama": {"baseUrl": "http://127.0.0.1:9/v1"}}}"#,
    );
    world.check(
        &["-p", "hi"],
        expect![[r#"
            exit 2
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:11: $.model: cannot use the model `openai/x`
              caused by: there is no key for `openai`

            hint: set `OTHER_KEY`
        "#]],
    );
}

/// Lists the models without the rows of the catalogue, which change with its date.
fn listed(world: &World, args: &[&str]) -> String {
    let shown = world.shown(&world.output(args));
    let ours = |line: &&str| {
        let name = line.get(2..).unwrap_or_default();
        let is_row =
            ["anthropic/", "openai/", "openai-responses/", "gemini/"].iter().any(|provider| {
                name.starts_with(provider) || line.contains(&format!("name\":\"{provider}"))
            });
        !is_row
            || line.starts_with('*')
            || line.contains("\"used\":true")
            || line.contains("\"choice\"")
    };
    let kept: Vec<_> = shown.lines().filter(ours).collect();
    let date = cotter_models::ModelFacts::date();
    (kept.join("\n") + "\n").replace(date, "[DATE]")
}

/// Starts Ollama with models, on a port that is not the default one.
fn ollama() -> LocalProvider {
    LocalProvider::start(Dialect::OpenAiChat, []).without_key().with_models(["qwen3:8b", "gemma4"])
}

fn host_of(provider: &LocalProvider) -> String {
    provider.address().to_string().replace("127.0.0.1", "0.0.0.0")
}

#[test]
fn p8_models_list_shows_the_key_each_model_needs() {
    let ollama = ollama();
    let world = World::new().with_env("OLLAMA_HOST", host_of(&ollama));
    expect![[r#"
        exit 0
        --- stdout
          ollama/qwen3:8b       ?  free
          ollama/gemma4         ?  free
          rehearsal             ?  free

        a run would fail: no model is named, and no provider has a key
        anthropic: set ANTHROPIC_API_KEY
        openai: set OPENAI_API_KEY
        openai-responses: set OPENAI_API_KEY
        gemini: set GEMINI_API_KEY
        openrouter: set OPENROUTER_API_KEY
        prices in dollars per million tokens, as of [DATE]
    "#]]
    .assert_eq(&listed(&world, &["models", "list"]));
    expect![[r#"
        exit 0
        --- stdout
        {"type":"model","name":"ollama/qwen3:8b","provider":"ollama","contextWindow":null,"maxOutput":null,"price":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0},"used":false}
        {"type":"model","name":"ollama/gemma4","provider":"ollama","contextWindow":null,"maxOutput":null,"price":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0},"used":false}
        {"type":"model","name":"rehearsal","provider":"rehearsal","contextWindow":null,"maxOutput":null,"price":{"input":0.0,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0},"used":false}
        {"type":"closed","provider":"anthropic","variable":"ANTHROPIC_API_KEY","why":"set ANTHROPIC_API_KEY"}
        {"type":"closed","provider":"openai","variable":"OPENAI_API_KEY","why":"set OPENAI_API_KEY"}
        {"type":"closed","provider":"openai-responses","variable":"OPENAI_API_KEY","why":"set OPENAI_API_KEY"}
        {"type":"closed","provider":"gemini","variable":"GEMINI_API_KEY","why":"set GEMINI_API_KEY"}
        {"type":"closed","provider":"openrouter","variable":"OPENROUTER_API_KEY","why":"set OPENROUTER_API_KEY"}
        {"type":"choice","name":null,"why":null,"trouble":"no model is named, and no provider has a key","fallbacks":[],"leftOut":[]}
        {"type":"catalogue","date":"[DATE]"}
    "#]].assert_eq(&listed(&world, &["models", "list", "--json"]));
    assert_eq!(ollama.requests()[0].path, "/v1/models");
}

#[test]
fn models_list_shows_the_chosen_model_and_the_reason() {
    let nobody = LocalProvider::start(Dialect::OpenAiChat, []);
    let gone = host_of(&nobody);
    drop(nobody);
    let world = World::new().with_env("OLLAMA_HOST", gone).with_env("ANTHROPIC_API_KEY", "x");
    let shown = |world: &World| {
        let shown = listed(world, &["models", "list"]);
        let port = world.env().iter().find(|(name, _)| name == "OLLAMA_HOST").unwrap().1.clone();
        shown.replace(port.split_once(':').unwrap().1, "[PORT]")
    };
    expect![[r#"
        exit 0
        --- stdout
        * anthropic/claude-sonnet-5-5               1M  2 in, 10 out
          rehearsal                                  ?  free

        a run would use anthropic/claude-sonnet-5-5: no model is named, and there is a key in `ANTHROPIC_API_KEY`
        openai: set OPENAI_API_KEY
        openai-responses: set OPENAI_API_KEY
        gemini: set GEMINI_API_KEY
        openrouter: set OPENROUTER_API_KEY
        ollama: no answer from http://127.0.0.1:[PORT]/v1
        prices in dollars per million tokens, as of [DATE]
    "#]].assert_eq(&shown(&world));
    world.settings(
        r#"{"model": "lab/qwen", "providers": {"lab": {"speaks": "openai", "baseUrl": "http://127.0.0.1:9"}},
            "models": {"lab/qwen": {"contextWindow": 32768, "price": {"input": 0.5, "output": 1.25}}}}"#,
    );
    expect![[r#"
        exit 0
        --- stdout
        * lab/qwen                                 32k  0.5 in, 1.25 out
          rehearsal                                  ?  free

        a run would use lab/qwen: the settings name it
        openai: set OPENAI_API_KEY
        openai-responses: set OPENAI_API_KEY
        gemini: set GEMINI_API_KEY
        openrouter: set OPENROUTER_API_KEY
        ollama: no answer from http://127.0.0.1:[PORT]/v1
        prices in dollars per million tokens, as of [DATE]
    "#]]
    .assert_eq(&shown(&world));
    let world = world.with_env("COTTER_MODEL", "gemini/x");
    expect![[r#"
        exit 0
        --- stdout
          lab/qwen                                 32k  0.5 in, 1.25 out
          rehearsal                                  ?  free

        a run would fail: gemini/x is chosen (`COTTER_MODEL` names it), but there is no key for `gemini`
        openai: set OPENAI_API_KEY
        openai-responses: set OPENAI_API_KEY
        gemini: set GEMINI_API_KEY
        openrouter: set OPENROUTER_API_KEY
        ollama: no answer from http://127.0.0.1:[PORT]/v1
        prices in dollars per million tokens, as of [DATE]
    "#]].assert_eq(&shown(&world));
}

#[test]
fn formats_page_names_every_key_of_models_list() {
    let world = World::new().with_env("ANTHROPIC_API_KEY", "x");
    let output = world.output(&["models", "list", "--json"]);
    let page = include_str!("../../../docs/FORMATS.md");
    let (_, page) = page.split_once("`cotter models list --json`").expect("the page tells of it");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let kind = line["type"].as_str().unwrap();
        let words = line.as_object().unwrap().keys().map(String::as_str).chain([kind]);
        for word in words {
            assert!(page.contains(&format!("`{word}`")), "{word} is not named");
        }
    }
}
