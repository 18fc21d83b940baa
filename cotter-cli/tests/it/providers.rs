//! `cotter -p` with models over the network: the run is the same with every provider, on a local server.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt};

use cotter_test::{After, Answer, Cut, Dialect, LocalProvider};
use expect_test::{Expect, expect};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{World, send_signal};

/// A provider, its model, and a world that sets the provider up by variables.
struct Line {
    world: World,
    provider: LocalProvider,
    model: &'static str,
}

const KEY: &str = "a-key-of-this-test";

impl Line {
    fn new(dialect: Dialect, answers: impl IntoIterator<Item = Answer>) -> Self {
        let provider = LocalProvider::start(dialect, answers).with_key(KEY);
        let (model, house) = match dialect {
            Dialect::AnthropicMessages => ("anthropic/x", "ANTHROPIC"),
            Dialect::OpenAiChat => ("openai/x", "OPENAI"),
            _ => ("openai-responses/x", "OPENAI"),
        };
        let world = World::new()
            .with_env(&format!("{house}_BASE_URL"), provider.url())
            .with_env(&format!("{house}_API_KEY"), KEY);
        Line { world, provider, model }
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        ["-p", "--model", self.model].into_iter().chain(more.iter().copied()).collect()
    }

    /// Runs with these arguments and returns the output. Checks the number of requests, and that none was
    /// invalid.
    fn run(&self, more: &[&str], requests: usize) -> String {
        let shown = self.world.shown(&self.world.output(&self.args(more)));
        assert_eq!(self.provider.refusals(), Vec::<String>::new(), "{}", self.model);
        assert_eq!(self.provider.requests().len(), requests, "{}: {shown}", self.model);
        shown.replace(self.model, "[MODEL]")
    }
}

/// Runs every dialect and checks that the results are equal. Returns the result.
fn of_all(run: impl Fn(Dialect) -> String) -> String {
    let [first, second, third] = Dialect::ALL.map(run);
    assert_eq!(first, second);
    assert_eq!(first, third);
    first
}

/// Checks a run that is the same with every dialect.
fn check_all(answers: impl Fn() -> Vec<Answer>, args: &[&str], requests: usize, expected: Expect) {
    expected.assert_eq(&of_all(|dialect| Line::new(dialect, answers()).run(args, requests)));
}

fn reads() -> Answer {
    Answer::text("I look.").and_call("call_1", "read", json!({"path": "a.txt"}))
}

fn tool_loop_answers() -> Vec<Answer> {
    vec![reads(), Answer::text("It says one and two.")]
}

#[test]
fn every_provider_runs_a_tool_loop() {
    check_all(
        tool_loop_answers,
        &["what is in a.txt?"],
        2,
        expect![[r#"
        exit 0
        --- stdout
        It says one and two.
    "#]],
    );
}

#[test]
fn tool_result_is_sent_to_every_provider() {
    for dialect in Dialect::ALL {
        let line = Line::new(dialect, tool_loop_answers());
        line.world.output(&line.args(&["what is in a.txt?"]));
        let requests = line.provider.requests();
        let second = String::from_utf8_lossy(&requests[1].body).into_owned();
        assert!(second.contains(r"1\tone"), "{second}");
        assert_eq!(requests[0].connection, requests[1].connection, "the connection is kept");
    }
}

/// Renders the events of a stream: their types and contents. Pieces of a text are joined.
fn show_events(stdout: &[u8]) -> String {
    let mut lines: Vec<String> = vec![];
    for line in String::from_utf8_lossy(stdout).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let kind = event["type"].as_str().unwrap();
        let said = match kind {
            "text.delta" => event["text"].as_str().unwrap().to_owned(),
            "message" => without_thoughts(event["entry"]["message"]["content"].clone()).to_string(),
            "tool.call" => format!("{} {}", event["name"], event["input"]),
            "model.post" => format!(
                "{} in {} out {} cost {}",
                event["stopReason"], event["inputTokens"], event["outputTokens"], event["costUsd"]
            ),
            "retry" => format!("{} in {} ms", event["kind"], event["waitMs"]),
            "session.end" | "result" => event["reason"].to_string(),
            _ => String::new(),
        };
        match lines.last_mut() {
            Some(last) if kind == "text.delta" && last.starts_with(kind) => *last += &said,
            _ => lines.push(format!("{kind} {said}")),
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Removes the parts of a message that only its provider understands.
fn without_thoughts(mut content: Value) -> Value {
    if let Value::Array(parts) = &mut content {
        parts.retain(|part| part["type"] != "thinking");
    }
    content
}

#[test]
fn every_provider_produces_the_same_stream_events() {
    let told = of_all(|dialect| {
        let line = Line::new(dialect, tool_loop_answers());
        let args = line.args(&["--output-format", "stream-json", "what is in a.txt?"]);
        let output = line.world.output(&args);
        assert_eq!(output.status.code(), Some(0));
        show_events(&output.stdout)
    });
    expect![[r#"
        session.open
        session.start
        message "what is in a.txt?"
        text.start
        text.delta I look.
        text.end
        message [{"type":"text","text":"I look."},{"type":"toolCall","id":"call_1","name":"read","input":{"path":"a.txt"}}]
        model.post "tool_use" in 10 out 5 cost null
        tool.call "read" {"path":"a.txt"}
        tool.result
        message "     1\tone\n     2\ttwo\n"
        text.start
        text.delta It says one and two.
        text.end
        message [{"type":"text","text":"It says one and two."}]
        model.post "end_turn" in 10 out 5 cost null
        session.end "end_turn"
        result "end_turn"
    "#]].assert_eq(&told);
}

#[test]
fn l21_rate_limited_request_is_retried_after_the_given_wait() {
    let waits = [
        ("retry-after-ms", "30", "retry: the model failed (rate_limited); again in 30 ms\n"),
        ("retry-after", "1", "retry: the model failed (rate_limited); again in 1 s\n"),
    ];
    for (header, value, told) in waits {
        for dialect in Dialect::ALL {
            let busy = Answer::status(429).and_header(header, value);
            let line = Line::new(dialect, [busy, Answer::text("Now.")]);
            let output = line.world.output(&line.args(&["hi"]));
            assert_eq!(String::from_utf8_lossy(&output.stderr), told);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "Now.\n");
        }
    }
}

#[test]
fn l21_broken_stream_is_retried() {
    let answers = |cut| {
        let broken = Answer::text("I was about to say").and_cut(After::Events(3), cut);
        vec![reads(), broken, Answer::text("It says one and two.")]
    };
    let prompt = ["what is in a.txt?"];
    check_all(
        || answers(Cut::Reset),
        &prompt,
        3,
        expect![[r#"
        exit 0
        --- stdout
        It says one and two.
        --- stderr
        retry: the model failed (network); again in N ms
    "#]],
    );
    check_all(
        || answers(Cut::Close),
        &prompt,
        3,
        expect![[r#"
        exit 0
        --- stdout
        It says one and two.
        --- stderr
        retry: the model failed (network); again in N ms
    "#]],
    );
}

#[test]
fn l21_silent_provider_times_out_and_is_retried() {
    let line = Line::new(Dialect::OpenAiChat, [Answer::hang(), Answer::text("Here.")]);
    line.world.settings(r#"{"providers": {"openai": {"idleTimeoutMs": 60}}}"#);
    expect![[r#"
        exit 0
        --- stdout
        Here.
        --- stderr
        retry: the model failed (timeout); again in N ms
    "#]]
    .assert_eq(&line.run(&["hi"], 2));
}

#[test]
fn l21_dripping_provider_reaches_the_limit_on_a_request_and_is_retried() {
    let drips = Answer::text("Never.").and_cut(After::Events(0), Cut::Drip);
    let line = Line::new(Dialect::OpenAiChat, [drips, Answer::text("Here.")]);
    line.world.settings(r#"{"providers": {"openai": {"requestTimeoutMs": 1000}}}"#);
    expect![[r#"
        exit 0
        --- stdout
        Here.
        --- stderr
        retry: the model failed (timeout); again in N ms
    "#]]
    .assert_eq(&line.run(&["hi"], 2));
}

#[test]
fn l21_fallback_model_flag_takes_over_after_an_error() {
    let other = LocalProvider::start(Dialect::OpenAiResponses, [Answer::text("I can.")]);
    let mut line = Line::new(Dialect::AnthropicMessages, [Answer::status(400)]);
    line.world =
        line.world.with_env("OPENAI_BASE_URL", other.url()).with_env("OPENAI_API_KEY", "another");
    let args = ["--fallback-model", "openai-responses/y", "hi"];
    let shown = line.world.shown(&line.world.output(&line.args(&args)));
    expect![[r#"
        exit 0
        --- stdout
        I can.
        --- stderr
        retry: the model failed (bad_request); openai-responses/y is used instead
    "#]]
    .assert_eq(&shown);
    assert_eq!(other.requests()[0].json()["model"], "y");
    assert_eq!(other.requests()[0].header("authorization"), Some("Bearer another"));
}

#[test]
fn l21_fallback_models_in_settings_take_over_after_an_error() {
    let other = LocalProvider::start(Dialect::OpenAiChat, [Answer::text("I can.")]).without_key();
    let line = Line::new(Dialect::AnthropicMessages, [Answer::status(400)]);
    line.world.settings(&format!(
        r#"{{"providers": {{"lab": {{"speaks": "openai", "baseUrl": "{}"}}}},
             "fallbackModels": ["lab/y", "anthropic/x"]}}"#,
        other.url()
    ));
    let shown = line.world.shown(&line.world.output(&line.args(&["hi"])));
    expect![[r#"
        exit 0
        --- stdout
        I can.
        --- stderr
        retry: the model failed (bad_request); lab/y is used instead
    "#]]
    .assert_eq(&shown);
    assert_eq!(other.requests()[0].header("authorization"), None);
}

#[test]
fn l21_spent_budget_stops_before_the_next_request() {
    let shown = of_all(|dialect| {
        let line = Line::new(dialect, tool_loop_answers());
        let price = r#""price": {"input": 10000, "output": 0}"#;
        line.world.settings(&format!(r#"{{"models": {{"{}": {{{price}}}}}}}"#, line.model));
        line.run(&["--max-budget-usd", "0.05", "what is in a.txt?"], 1)
    });
    expect![[r#"
        exit 3
        --- stdout
        I look.
        --- stderr
        error: the run cost 0.1000 USD of 0.0500

        hint: `--max-budget-usd X` allows more
    "#]]
    .assert_eq(&shown);
}

#[test]
fn l21_abort_closes_the_connection_at_once() {
    for dialect in Dialect::ALL {
        let line = Line::new(dialect, [Answer::text("I am about to say").and_hang()]);
        let child = line.world.spawn(&line.args(&["hi"]));
        line.provider.wait_received(1);
        send_signal(&child, Signal::INT);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        line.provider.wait_closed(1);
    }
}

#[test]
fn custom_provider_is_defined_in_settings() {
    let lab = LocalProvider::start(Dialect::OpenAiChat, tool_loop_answers()).with_key(KEY);
    let world = World::new();
    world.settings(&format!(
        r#"{{"model": "lab/qwen", "providers": {{"lab": {{"speaks": "openai", "baseUrl": "{}",
             "apiKeyVariable": "LAB_KEY"}}}}}}"#,
        lab.url()
    ));
    world.check(
        &["-p", "what is in a.txt?"],
        expect![[r#"
            exit 2
            --- stderr
            error: [T]/home/.config/cotter/settings.json:1:11: $.model: cannot use the model `lab/qwen`
              caused by: there is no key for `lab`

            hint: set `LAB_KEY`
        "#]],
    );
    assert_eq!(lab.connections(), 0);
    let world = world.with_env("LAB_KEY", KEY);
    world.check(
        &["-p", "what is in a.txt?"],
        expect![[r#"
        exit 0
        --- stdout
        It says one and two.
    "#]],
    );
    assert_eq!(lab.refusals(), Vec::<String>::new());
}

#[test]
fn proxy_is_used_except_for_loopback_addresses() {
    let proxy = LocalProvider::start(Dialect::OpenAiChat, []).unchecked();
    let near = LocalProvider::start(Dialect::OpenAiChat, [Answer::text("Here.")]).without_key();
    let world = World::new().with_env("http_proxy", format!("http://{}", proxy.address()));
    world.settings(&format!(
        r#"{{"providers": {{"far": {{"speaks": "openai", "baseUrl": "http://models.example/v1"}},
             "near": {{"speaks": "openai", "baseUrl": "{}"}}}}}}"#,
        near.url()
    ));
    assert!(world.output(&["-p", "--model", "near/x", "hi"]).status.success());
    assert_eq!(proxy.connections(), 0);
    assert_eq!(world.output(&["-p", "--model", "far/x", "hi"]).status.code(), Some(1));
    assert_eq!(proxy.requests()[0].path, "http://models.example/v1/chat/completions");
}

/// Removes the causes from an output, because their wording depends on the failure.
fn without_cause(shown: &str) -> String {
    let kept = shown.lines().filter(|line| !line.starts_with("  caused by:"));
    kept.map(|line| format!("{line}\n")).collect()
}

#[test]
fn refused_key_error_names_the_source_of_the_key() {
    let answers = || std::iter::repeat_with(|| Answer::status(401)).take(4);
    let house = LocalProvider::start(Dialect::OpenAiChat, answers()).unchecked();
    let settings = |key: &str| {
        let url = house.url();
        format!(
            r#"{{"providers": {{"openai": {{"baseUrl": "{url}"{key}}},
                 "lab": {{"speaks": "openai", "baseUrl": "{url}"}}}}}}"#
        )
    };
    let check = |world: &World, model: &str, expected: Expect| {
        let output = world.output(&["-p", "--model", model, "hi"]);
        expected.assert_eq(&without_cause(&world.shown(&output)));
    };
    let world = World::new();
    world.settings(&settings(""));
    check(
        &world,
        "openai/x",
        expect![[r#"
        exit 1
        --- stderr
        error: the run failed (auth)

        hint: no key was sent: set `OPENAI_API_KEY`
    "#]],
    );
    check(
        &world,
        "lab/x",
        expect![[r#"
            exit 1
            --- stderr
            error: the run failed (auth)

            hint: no key was sent: set `providers.lab.apiKeyVariable` in the settings to the name of the variable with the key
        "#]],
    );
    let file = world
        .write("home/.config/cotter/credentials.json", r#"{"openai": {"apiKey": "stored-key"}}"#);
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    check(
        &world,
        "openai/x",
        expect![[r#"
        exit 1
        --- stderr
        error: the run failed (auth)

        hint: the key that was sent is from [T]/home/.config/cotter/credentials.json
    "#]],
    );
    world.settings(&settings(r#", "apiKeyVariable": "OTHER_KEY""#));
    check(
        &world.with_env("OTHER_KEY", KEY),
        "openai/x",
        expect![[r#"
        exit 1
        --- stderr
        error: the run failed (auth)

        hint: the key that was sent is from `OTHER_KEY`
    "#]],
    );
    assert_eq!(house.requests().len(), 4);
}

#[test]
fn connection_error_names_the_address_and_the_proxy() {
    let gone = "127.0.0.1:9";
    let far = r#"{"providers": {"far": {"speaks": "openai", "baseUrl": "http://models.example"},
                  "near": {"speaks": "openai", "baseUrl": "http://127.0.0.1:9"}}}"#;
    let world = World::new()
        .with_env("OLLAMA_HOST", gone)
        .with_env("ANTHROPIC_BASE_URL", format!("http://{gone}"))
        .with_env("http_proxy", format!("http://{gone}"));
    world.settings(far);
    // The runs start together, because each of them retries for a while.
    let start = |model| world.spawn(&["-p", "--no-session", "--model", model, "hi"]);
    let children =
        ["ollama/x", "anthropic/x", "near/x", "far/x"].map(|model| (model, start(model)));
    let shown = children.map(|(model, child)| {
        let shown = world.shown(&child.wait_with_output().unwrap());
        format!("# {model}\n{}", without_cause(&shown))
    });
    expect![[r#"
        # ollama/x
        exit 1
        --- stderr
        retry: the model failed (network); again in N ms
        retry: the model failed (network); again in 1 s
        retry: the model failed (network); again in 2 s
        error: the run failed (network)

        hint: is Ollama running? the address is from `OLLAMA_HOST`
        # anthropic/x
        exit 1
        --- stderr
        retry: the model failed (network); again in N ms
        retry: the model failed (network); again in 1 s
        retry: the model failed (network); again in 2 s
        error: the run failed (network)

        hint: the address is from `ANTHROPIC_BASE_URL`
        # near/x
        exit 1
        --- stderr
        retry: the model failed (network); again in N ms
        retry: the model failed (network); again in 1 s
        retry: the model failed (network); again in 2 s
        error: the run failed (network)

        hint: the address is from [T]/home/.config/cotter/settings.json:2:59
        # far/x
        exit 1
        --- stderr
        retry: the model failed (network); again in N ms
        retry: the model failed (network); again in 1 s
        retry: the model failed (network); again in 2 s
        error: the run failed (network)

        hint: the address is from [T]/home/.config/cotter/settings.json:1:55; requests go through the proxy that `http_proxy` names
    "#]].assert_eq(&shown.concat());
}

#[test]
fn run_without_a_usable_model_connects_to_no_provider() {
    let provider = LocalProvider::start(Dialect::OpenAiChat, []);
    let world = World::new()
        .with_env("ANTHROPIC_BASE_URL", provider.url())
        .with_env("OPENAI_BASE_URL", provider.url())
        .with_env("OLLAMA_HOST", provider.url())
        .with_env("ALL_PROXY", provider.url());
    world.check(&["-p", "hi"], expect![[r#"
        exit 2
        --- stderr
        error: no model is set up, so nothing was sent

        hint: set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or name a model with `--model`, `COTTER_MODEL` or `model` in the settings; `--model rehearsal` works offline, `--ask` offers a choice, `cotter models list` shows all
    "#]]);
    world.check(
        &["-p", "--model", "gemini/x", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: there is no key for `gemini`

        hint: set `GEMINI_API_KEY`
    "#]],
    );
    world.check(
        &["-p", "--model", "antropic/x", "hi"],
        expect![[r#"
        exit 2
        --- stderr
        error: there is no provider `antropic`

        hint: did you mean `anthropic`?
    "#]],
    );
    assert_eq!(provider.connections(), 0);
    assert!(!world.sessions().exists());
}

#[test]
fn provider_key_selects_the_default_model() {
    let shown = |dialect| {
        let mut line = Line::new(dialect, [Answer::text("Hello.")]);
        line.world = line.world.with_env("GEMINI_API_KEY", "unused");
        let shown = line.world.shown(&line.world.output(&["-p", "hi"]));
        assert_eq!(line.provider.requests().len(), 1);
        shown
    };
    expect![[r#"
        exit 0
        --- stdout
        Hello.
        --- stderr
        model: anthropic/claude-sonnet-5-5, since no model is named, and there is a key in `ANTHROPIC_API_KEY`
    "#]].assert_eq(&shown(Dialect::AnthropicMessages));
    expect![[r#"
        exit 0
        --- stdout
        Hello.
        --- stderr
        model: openai/gpt-6.1-terra, since no model is named, and there is a key in `OPENAI_API_KEY`
    "#]]
    .assert_eq(&shown(Dialect::OpenAiChat));
}

#[test]
fn l21_budget_with_an_unpriced_model_is_refused_before_a_request() {
    let line = Line::new(Dialect::OpenAiChat, []);
    expect![[r#"
        exit 2
        --- stderr
        error: the price of `[MODEL]` is unknown, so a budget of 1 USD cannot be enforced

        hint: remove the budget, or set the price in [T]/home/.config/cotter/settings.json, in dollars per million tokens; replace 1.0 and 5.0 with the real prices:
        {
          "models": {
            "[MODEL]": {"price": {"input": 1.0, "output": 5.0}}
          }
        }
    "#]].assert_eq(&line.run(&["--max-budget-usd", "1", "hi"], 0));
    line.world.settings(
        r#"{"limits": {"maxBudgetUsd": 0.5}, "fallbackModels": ["openai/y"],
            "models": {"openai/x": {"price": {"input": 1, "output": 1}}}}"#,
    );
    expect![[r#"
        exit 2
        --- stderr
        error: the price of `openai/y` is unknown, so a budget of 0.5 USD cannot be enforced

        hint: remove the budget, or set the price in [T]/home/.config/cotter/settings.json, in dollars per million tokens; replace 1.0 and 5.0 with the real prices:
        {
          "models": {
            "openai/y": {"price": {"input": 1.0, "output": 5.0}}
          }
        }
    "#]].assert_eq(&line.run(&["hi"], 0));
    assert!(!line.world.sessions().exists());
    // A command spends nothing.
    assert!(line.world.output(&["-p", "/tools"]).status.success());
    // The settings in the hint can be pasted.
    let line = Line::new(Dialect::OpenAiChat, [Answer::text("Hello.")]);
    let args = line.args(&["--max-budget-usd", "1", "hi"]);
    let shown = String::from_utf8(line.world.output(&args).stderr).unwrap();
    line.world.settings(&shown[shown.find("{\n").unwrap()..]);
    line.world.check(
        &args,
        expect![[r#"
        exit 0
        --- stdout
        Hello.
    "#]],
    );
}

#[test]
fn cassette_replays_the_recorded_run() {
    let shown = of_all(|dialect| {
        let line = Line::new(dialect, tool_loop_answers());
        let tape = line.world.path("tape.jsonl");
        let tape = tape.to_str().unwrap();
        let prompt = "what is in a.txt?";
        let recorded = line.run(&["--record-cassette", tape, prompt], 2);
        check_page(&fs::read_to_string(tape).unwrap());
        // Playing needs no key and no provider.
        let elsewhere = World::new();
        let shown = elsewhere.shown(&elsewhere.output(&line.args(&["--cassette", tape, prompt])));
        assert_eq!(shown.replace(line.model, "[MODEL]"), recorded);
        // Another prompt to the same model gets the next recorded reply.
        let args = line.args(&["--cassette", tape, "--output-format", "json", "and?"]);
        let shown = elsewhere.shown(&elsewhere.output(&args));
        assert!(shown.starts_with("exit 0"), "{shown}");
        recorded
    });
    expect![[r#"
        exit 0
        --- stdout
        It says one and two.
    "#]]
    .assert_eq(&shown);
}

/// Checks that the page names every key of a cassette.
fn check_page(tape: &str) {
    let page = include_str!("../../../docs/FORMATS.md");
    let (_, page) = page.split_once("## Cassette file").expect("the page has the section");
    for key in keys_of(tape) {
        assert!(page.contains(&format!("`{key}`")), "docs/FORMATS.md does not name {key}");
    }
}

/// Returns the keys of a cassette's lines, without those in bodies and headers.
fn keys_of(tape: &str) -> BTreeSet<String> {
    fn collect(value: &Value, keys: &mut BTreeSet<String>) {
        let Value::Object(fields) = value else { return };
        for (key, value) in fields {
            keys.insert(key.clone());
            if key != "body" && key != "headers" {
                collect(value, keys);
            }
        }
    }
    let mut keys = BTreeSet::new();
    tape.lines().for_each(|line| collect(&serde_json::from_str(line).unwrap(), &mut keys));
    keys
}

#[test]
fn existing_or_incomplete_cassette_file_is_an_error() {
    let line = Line::new(Dialect::AnthropicMessages, []);
    let there = line.world.write("there.jsonl", "mine");
    let there = there.to_str().unwrap();
    expect![[r#"
        exit 1
        --- stderr
        error: cannot record to [T]/there.jsonl
          caused by: File exists (os error 17)

        hint: `--record-cassette FILE` needs a new file
    "#]]
    .assert_eq(&line.run(&["--record-cassette", there, "hi"], 0));
    assert_eq!(fs::read_to_string(there).unwrap(), "mine");
    expect![[r#"
        exit 1
        --- stderr
        error: cannot play [T]/there.jsonl
          caused by: [T]/there.jsonl:1: expected value at line 1 column 1
    "#]]
    .assert_eq(&line.run(&["--cassette", there, "hi"], 0));
    expect![[r#"
        exit 1
        --- stderr
        error: cannot play none.jsonl
          caused by: No such file or directory (os error 2)
    "#]]
    .assert_eq(&line.run(&["--cassette", "none.jsonl", "hi"], 0));
    let empty = line.world.write("empty.jsonl", "{\"type\":\"cassette\",\"v\":1}\n");
    expect![[r#"
        exit 1
        --- stderr
        error: the run failed (other)
          caused by: [T]/empty.jsonl: no unplayed response for /v1/messages
    "#]]
    .assert_eq(&line.run(&["--cassette", empty.to_str().unwrap(), "hi"], 0));
    let nothing = line.world.write("nothing.jsonl", "");
    expect![[r#"
        exit 1
        --- stderr
        error: cannot play [T]/nothing.jsonl
          caused by: it is empty
    "#]]
    .assert_eq(&line.run(&["--cassette", nothing.to_str().unwrap(), "hi"], 0));
    let new = line.world.path("new.jsonl");
    let args = ["-p", "--record-cassette", new.to_str().unwrap(), "--model", "lab/x", "hi"];
    assert_eq!(line.world.output(&args).status.code(), Some(2));
    assert!(!new.exists(), "a run that does not begin records nothing");
}

#[test]
fn cassette_of_another_model_is_an_error() {
    let line = Line::new(Dialect::OpenAiChat, [Answer::text("Hello.")]);
    let tape = line.world.path("tape.jsonl");
    let tape = tape.to_str().unwrap();
    line.run(&["--record-cassette", tape, "hi"], 1);
    let args = ["-p", "--cassette", tape, "hi"];
    World::new().check(
        &args,
        expect![[r#"
        exit 2
        --- stderr
        error: no model is set up, so nothing was sent

        hint: name the model that the cassette was recorded with, as in `--model provider/model`
    "#]],
    );
    // The key selects another model.
    line.world.check(
        &args,
        expect![[r#"
            exit 1
            --- stderr
            model: openai/gpt-6.1-terra, since no model is named, and there is a key in `OPENAI_API_KEY`
            error: the run failed (other)
              caused by: [T]/tape.jsonl: no unplayed response for /v1/chat/completions

            hint: name the model that the cassette was recorded with, as in `--model provider/model`
        "#]],
    );
}
