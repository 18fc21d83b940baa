//! Profiles: `--agent`, the five actions in real runs, the operator's switches, and profiles of a project.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{Arc, mpsc},
    thread,
};

use expect_test::{Expect, expect};
use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivatePkcs8KeyDer};
use serde_json::Value;

use crate::{support::World, terminal::Screen};

const AUDIT: &str = "home/.config/cotter/agents/audit";

fn world() -> World {
    World::new().with_env("NO_COLOR", "1")
}

/// Writes a profile of the person.
fn with_profile(world: &World, text: &str) {
    world.write(&format!("{AUDIT}/agent.json"), text);
}

fn run<'a>(further: &[&'a str], prompt: &'a str) -> Vec<&'a str> {
    [&["-p", "--model", "rehearsal", "--agent", "audit"], further, &[prompt]].concat()
}

/// Reads a file that a profile wrote, with all varying parts masked.
fn read_masked(world: &World, path: &str) -> String {
    let lines = fs::read_to_string(world.path(path)).unwrap_or_default();
    world.plain(&lines)
}

const EVERYTHING: &str = r#"{
  // Watches every run, asks before anything is written, forbids what destroys.
  "description": "Watches, asks, forbids.",
  "systemPrompt": "Be careful.",
  "tools": ["read", "write", "bash", "list"],
  "policies": ["bash(rm *)"],
  "hooks": {
    "onStart": [{"action": "log"}],
    "onToolCall": [
      {"action": "approve", "tools": ["write"]},
      {"action": "log"},
      {"action": "save_json", "path": "runs/calls.jsonl"},
    ],
    "onToolEnd": [{"action": "log", "level": "warn"}, {"action": "save_json", "path": "runs/calls.jsonl"}],
    "onModelCall": [{"action": "log", "level": "debug"}],
    "onModelEnd": [{"action": "log", "level": "error"}],
    "onComplete": [{"action": "save_json", "path": "runs/ends/all.jsonl"}],
    "onError": [{"action": "log"}],
  },
}
"#;

#[test]
fn l15_l16_l17_profile_observes_asks_and_denies() {
    let world = world();
    with_profile(&world, EVERYTHING);
    world.check(
        &run(&["--no-session"], "read a.txt then write x to b.txt then run `rm a.txt`"),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `read` {"path":"a.txt"} gave 2 lines:
                 1	one
                 2	two

            `write` {"path":"b.txt","content":"x"} was refused: Permission denied for `write`: the profile `audit` wants a person to approve this, and no person can be asked. Do not retry this exact call.

            `bash` {"command":"rm a.txt"} was refused: Denied: the rule `deny bash(rm *)` denies it. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            profile audit: session.start rehearsal
            error: profile audit: model.post rehearsal, tool_use, 0 tokens in, 0 out, tool calls 1
            profile audit: tool.pre read, input 16 bytes
            warning: profile audit: tool.post read, input 16 bytes, result 22 bytes, ok, in N ms
            error: profile audit: model.post rehearsal, tool_use, 0 tokens in, 0 out, tool calls 1
            profile audit: tool.pre write, input 30 bytes
            error: profile audit: model.post rehearsal, tool_use, 0 tokens in, 0 out, tool calls 1
            error: profile audit: model.post rehearsal, end_turn, 0 tokens in, 0 out, tool calls 0
            refused: write {"path":"b.txt","content":"x"}: the profile `audit` wants a person to approve this, and no person can be asked (onToolCall.approve, profile:audit); `--ask` asks you on the terminal
            refused: bash: the rule `deny bash(rm *)` denies it (rule deny bash(rm *))
        "#]],
    );
    assert!(!world.path("project/b.txt").exists() && world.path("project/a.txt").exists());
    let lines = fs::read_to_string(world.path(&format!("{AUDIT}/runs/calls.jsonl"))).unwrap();
    let events: Vec<_> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| {
            format!("{} {} {}", line["profile"], line["event"], line["context"]["toolName"])
        })
        .collect();
    expect![[r#"
        "audit" "tool.pre" "read"
        "audit" "tool.post" "read"
        "audit" "tool.pre" "write""#]]
    .assert_eq(&events.join("\n"));
    let end = fs::read_to_string(world.path(&format!("{AUDIT}/runs/ends/all.jsonl"))).unwrap();
    let end: Value = serde_json::from_str(&end).unwrap();
    assert_eq!((&end["v"], &end["event"]), (&1.into(), &"session.end".into()));
    assert_eq!(end["context"]["reason"], "end_turn");
    assert_eq!(end["context"]["agentId"], "audit");
}

#[test]
fn l16_approve_action_asks_the_person() {
    let world = world();
    with_profile(&world, EVERYTHING);
    let args = run(&["--ask", "--no-session"], "write x to b.txt");
    let mut screen = Screen::new(&world, &args);
    screen.wait_for("[y]es");
    assert!(
        screen.text().contains("the profile `audit` wants a person to approve this"),
        "{}",
        screen.text()
    );
    screen.type_keys("n\n");
    assert!(screen.end(&world).starts_with("exit 0\n"));
    assert!(!world.path("project/b.txt").exists());
    let mut screen = Screen::new(&world, &args);
    screen.wait_for("[y]es");
    screen.type_keys("y\n");
    let seen = screen.end(&world);
    assert!(world.path("project/b.txt").exists(), "{seen}");
}

#[test]
fn l18_profile_commands_run_only_if_the_operator_allows_them() {
    let text = r#"{"hooks": {
      "onToolCall": [{"action": "command", "command": "./check.sh", "tools": ["write"]}],
      "onComplete": [{"action": "command", "command": "cat > /dev/null; pwd; exit 3"}],
    }}"#;
    let at = world();
    with_profile(&at, text);
    at.check(&run(&[], "write x to b.txt"), expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/agents/audit/agent.json:2:33: $.hooks.onToolCall[0].action: a profile's `command` is disabled by default: it would start a program

        hint: the operator of a machine allows it with `COTTER_ALLOW_COMMAND_HOOKS=1`
    "#]]);
    let at = at.with_env("COTTER_ALLOW_COMMAND_HOOKS", "1");
    at.write_executable(
        &format!("{AUDIT}/check.sh"),
        "#!/bin/sh\nif grep -q prod; then echo 'not in production' >&2; exit 1; fi\n",
    );
    at.check(&run(&["--no-session"], "write x to prod.txt then write x to b.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"prod.txt","content":"x"} was refused: Hook "onToolCall.command" blocked the action: not in production. Adjust your approach; do not retry the exact same call.

        `write` {"path":"b.txt","content":"x"} gave 1 line:
        created b.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: not in production (onToolCall.command, profile:audit)
    "#]]);
    // A rewrite is refused together with the call: a profile's hook never changes the input of a tool.
    at.write_executable(
        &format!("{AUDIT}/check.sh"),
        "#!/bin/sh\necho '{\"input\": {\"path\": \"b.txt\", \"content\": \"changed\"}}'\n",
    );
    at.check(&run(&["--no-session"], "write x to c.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"c.txt","content":"x"} was refused: Hook "onToolCall.command" blocked the action: it may not change anything: it belongs to a profile. Adjust your approach; do not retry the exact same call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: write: it may not change anything: it belongs to a profile (onToolCall.command, profile:audit)
    "#]]);
    assert!(!at.path("project/c.txt").exists());
    assert_eq!(fs::read_to_string(at.path("project/b.txt")).unwrap(), "x");
    let at = world().with_env("COTTER_ALLOW_COMMAND_HOOKS", "yes");
    with_profile(&at, text);
    at.check(
        &run(&[], "write x to b.txt"),
        expect![[r#"
            exit 2
            --- stderr
            error: `COTTER_ALLOW_COMMAND_HOOKS` has the unknown value `yes`

            hint: set it to 1, or unset it
        "#]],
    );
}

/// Starts an HTTPS server on this machine. Returns its port, and the path and body of each request.
fn https() -> (u16, mpsc::Receiver<(String, String)>) {
    let certificate = include_bytes!("../data/loopback/localhost.cert.der").to_vec();
    let key =
        PrivatePkcs8KeyDer::from(include_bytes!("../data/loopback/localhost.key.der").to_vec());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.into()], key.into())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(connection, stream));
            // A client that does not trust the certificate closes the connection.
            let Some(request) = request(&mut stream) else { continue };
            let answer = match request.0.as_str() {
                "/redirect" => format!("302 Found\r\nlocation: https://localhost:{port}/elsewhere"),
                "/broken" => "500 Oh".to_owned(),
                _ => "204 No Content".to_owned(),
            };
            // The test gets the request before the answer is written, because the client ends after the
            // answer.
            if sender.send(request).is_err() {
                return;
            }
            let stream = stream.get_mut();
            let end = "connection: close\r\ncontent-length: 0\r\n\r\n";
            let _ = write!(stream, "HTTP/1.1 {answer}\r\n{end}").and_then(|()| stream.flush());
        }
    });
    (port, receiver)
}

fn request(stream: &mut impl BufRead) -> Option<(String, String)> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line).ok()?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8(body).ok()?))
}

fn webhook(bucket: &str, url: &str) -> String {
    format!(r#"{{"hooks": {{"{bucket}": [{{"action": "webhook", "url": "{url}"}}]}}}}"#)
}

/// Creates a world in which this machine's server is on the allow list.
fn listing(port: u16) -> World {
    let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/loopback/ca.pem");
    world()
        .with_env("SSL_CERT_FILE", authority)
        .with_env("COTTER_HOOK_WEBHOOK_ALLOWLIST", format!("hooks.example.com, localhost:{port}"))
        .with_env("HTTPS_PROXY", "http://127.0.0.1:1")
        .with_env("LAB_TOKEN", "hush-hush-123")
}

#[test]
fn l17_s34_webhook_gets_events_without_secrets() {
    let (port, told) = https();
    let world = listing(port);
    with_profile(&world, &webhook("onToolEnd", &format!("https://localhost:{port}/hook")));
    world.write("project/.env", "A=plain-but-secret\n");
    world.check(
        &run(&["--no-session"], "write hush-hush-123 to b.txt then read .env"),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"b.txt","content":"[redacted LAB_TOKEN]"} gave 1 line:
            created b.txt, 1 line

            `read` {"path":".env"} gave 1 line:
                 1	A=plain-but-secret

            (rehearsal is an offline stand-in, not a model)
        "#]],
    );
    let plain = |(path, body): (String, String)| {
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body["context"]["sessionId"] = "[S]".into();
        body["context"]["durationMs"] = 0.into();
        world.plain(&format!("{path} {body}"))
    };
    let bodies: Vec<_> = told.try_iter().map(plain).collect();
    expect![[r#"
        /hook {"v":1,"ts":"[TIME]","profile":"audit","event":"tool.post","context":{"sessionId":"[S]","runId":"r1","step":1,"agentId":"audit","cwd":"[T]/project","projectDir":"[T]/project","dryRun":false,"callId":"call_r1_1_0","toolName":"write","toolInput":{"path":"b.txt","content":"[redacted LAB_TOKEN]"},"facts":{"reads":[],"writes":["[T]/project/b.txt"],"hosts":[],"commands":[],"zone":"workspace"},"result":"created b.txt, 1 line","is_error":false,"outcome":"ok","durationMs":0}}
        /hook {"v":1,"ts":"[TIME]","profile":"audit","event":"tool.post","context":{"sessionId":"[S]","runId":"r1","step":2,"agentId":"audit","cwd":"[T]/project","projectDir":"[T]/project","dryRun":false,"callId":"call_r1_2_0","toolName":"read","is_error":false,"outcome":"ok","durationMs":0,"withheld":"a secret was read in this session"}}"#]].assert_eq(&bodies.join("\n"));
}

#[test]
fn l17_failed_webhook_does_not_change_the_run() {
    let (port, told) = https();
    for path in ["/broken", "/redirect"] {
        let world = listing(port);
        with_profile(&world, &webhook("onToolCall", &format!("https://localhost:{port}{path}")));
        let output = world.output(&run(&["--no-session"], "read a.txt"));
        assert!(output.status.success(), "{}", world.shown(&output));
        let paths: Vec<_> = told.try_iter().map(|(path, _)| path).collect();
        // Redirects are not followed.
        assert_eq!(paths, [path]);
    }
    // No server listens on this port.
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let world = listing(nowhere);
    with_profile(&world, &webhook("onToolCall", &format!("https://localhost:{nowhere}/")));
    let output = world.output(&run(&["--no-session"], "read a.txt"));
    assert!(output.status.success(), "{}", world.shown(&output));
    // A server with a certificate that is not trusted gets nothing.
    let world = World::new()
        .with_env("NO_COLOR", "1")
        .with_env("COTTER_HOOK_WEBHOOK_ALLOWLIST", format!("localhost:{port}"));
    with_profile(&world, &webhook("onToolCall", &format!("https://localhost:{port}/hook")));
    let output = world.output(&run(&["--no-session"], "read a.txt"));
    assert!(output.status.success(), "{}", world.shown(&output));
    assert_eq!(told.try_iter().count(), 0);
}

#[test]
fn s34_webhook_to_a_local_host_needs_the_operators_list() {
    for url in ["https://localhost:9/", "https://169.254.169.254/", "https://[::ffff:127.0.0.1]/"] {
        let world = world();
        with_profile(&world, &webhook("onError", url));
        let output = world.output(&run(&[], "read a.txt"));
        let seen = world.shown(&output);
        assert!(seen.contains("`: it is on this machine or its network"), "{seen}");
    }
    let at = world().with_env("COTTER_HOOK_WEBHOOK_ALLOWLIST", "hooks.example.com");
    with_profile(&at, &webhook("onError", "https://other.example.com/x"));
    at.check(&run(&[], "read a.txt"), expect![[r#"
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/agents/audit/agent.json:1:53: $.hooks.onError[0].url: cannot post to `other.example.com`: it is not on the operator's list

        hint: the operator of a machine lists hosts in `COTTER_HOOK_WEBHOOK_ALLOWLIST`
    "#]]);
    let at = world().with_env("COTTER_HOOK_WEBHOOK_ALLOWLIST", "https://hooks.example.com");
    with_profile(&at, "{}");
    at.check(
        &run(&[], "read a.txt"),
        expect![[r#"
            exit 2
            --- stderr
            error: `COTTER_HOOK_WEBHOOK_ALLOWLIST`: `https://hooks.example.com` is not a host

            hint: list hosts, separated by commas: hooks.example.com,localhost:8443
        "#]],
    );
}

#[test]
fn l18_operator_variable_disables_profile_hooks() {
    let watches =
        r#"{"hooks": {"onStart": [{"action": "log"}], "onComplete": [{"action": "log"}]}}"#;
    let with = |value: &str, text: &str, expected: Expect| {
        let world = world().with_env("COTTER_DISABLE_HOOKS", value);
        with_profile(&world, text);
        world.check(&run(&["--no-session"], "write x to b.txt"), expected);
    };
    with(
        "1",
        watches,
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"b.txt","content":"x"} gave 1 line:
            created b.txt, 1 line

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: hooks are switched off by `COTTER_DISABLE_HOOKS`: profile:audit ([T]/home/.config/cotter/agents/audit/agent.json) runs without `onStart.log`, `onComplete.log`
        "#]],
    );
    with(
        "0",
        watches,
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `write` {"path":"b.txt","content":"x"} gave 1 line:
        created b.txt, 1 line

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        profile audit: session.start rehearsal
        profile audit: session.end end_turn
    "#]],
    );
    with(
        "1",
        EVERYTHING,
        expect![[r#"
            exit 1
            --- stderr
            error: hooks are switched off, but profile:audit ([T]/home/.config/cotter/agents/audit/agent.json) has the gate `onToolCall.approve`, which is not an observer

            hint: `COTTER_DISABLE_HOOKS=force` switches off gates and transforms too
        "#]],
    );
    with(
        "force",
        EVERYTHING,
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"b.txt","content":"x"} gave 1 line:
            created b.txt, 1 line

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: hooks are switched off by `COTTER_DISABLE_HOOKS`: profile:audit ([T]/home/.config/cotter/agents/audit/agent.json) runs without `onStart.log`, `onToolCall.approve`, `onToolCall.log`, `onToolCall.save_json`, `onToolEnd.log`, `onToolEnd.save_json`, `onModelCall.log`, `onModelEnd.log`, `onComplete.save_json`, `onError.log`
        "#]],
    );
    with(
        "maybe",
        watches,
        expect![[r#"
            exit 2
            --- stderr
            error: `COTTER_DISABLE_HOOKS` has the unknown value `maybe`

            hint: set it to 1 or force, or unset it
        "#]],
    );
}

/// Returns the flag that trusts the project's folder with its current contents.
fn hash(world: &World) -> String {
    let printed = world.output(&["trust", "--print"]);
    let text = String::from_utf8(printed.stdout).unwrap();
    let hash = text.lines().find_map(|line| line.strip_prefix("hash    ")).unwrap().to_owned();
    format!("--trust={hash}")
}

#[test]
fn s6_s34_project_profile_needs_trust_and_shows_its_webhooks() {
    let world = world().with_env("COTTER_ALLOW_COMMAND_HOOKS", "1");
    world.write(
        "project/.cotter/agents/audit/agent.json",
        r#"{"description": "The project's.", "hooks": {
          "onToolCall": [{"action": "command", "command": "./check.sh"}, {"action": "save_json", "path": "runs/calls.jsonl"}],
          "onError": [{"action": "webhook", "url": "https://hooks.example.com/x"}],
        }}"#,
    );
    world.write_executable(
        "project/.cotter/agents/audit/check.sh",
        "#!/bin/sh\ncat > /dev/null\n[ -f agent.json ] || exit 1\n",
    );
    world.check(
        &run(&[], "read a.txt"),
        expect![[r#"
            exit 3
            --- stderr
            warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
            error: the agent `audit` belongs to the project, and is not trusted

            hint: `cotter trust` shows the files of the project, and asks
        "#]],
    );
    let path = "project/.cotter/agents/audit/agent.json";
    let file = world.path(path);
    let named = ["-p", "--model", "rehearsal", "--agent", file.to_str().unwrap(), "read a.txt"];
    world.check(
        &named,
        expect![[r#"
            exit 3
            --- stderr
            warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
            error: [T]/project/.cotter/agents/audit/agent.json is inside the project, and is not trusted

            hint: `cotter trust` shows the files of the project, and asks
        "#]],
    );
    world.check(
        &["trust", "--print"],
        expect![[r#"
            exit 0
            --- stdout
            source  [T]/project/.cotter
            hash    [HASH][HASH]
            trust   none yet

            commands, pinned (all their code is in the files below) or open (they run other code too)
              pinned  profile audit, onToolCall.command
                      runs ./check.sh
              open    profile audit, onError.webhook
                      sends events to https://hooks.example.com/x
                      open: events are sent to another machine

            files (2)
                          266 bytes  agents/audit/agent.json
              exec         54 bytes  agents/audit/check.sh
        "#]],
    );
    let trusted = hash(&world);
    world.check(
        &run(&[&trusted, "--no-session"], "read a.txt"),
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    // The profile writes below its own folder, and the trust in the project stays.
    assert_eq!(
        read_masked(&world, "project/.cotter/agents/audit/runs/calls.jsonl").lines().count(),
        1
    );
    assert_eq!(hash(&world), trusted);
    let named = [&named[..3], &[&*trusted, "--no-session"], &named[3..]].concat();
    world.check(
        &named,
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    assert_eq!(
        read_masked(&world, "project/.cotter/agents/audit/runs/calls.jsonl").lines().count(),
        2
    );
    // A folder that becomes a link after the check is not written to.
    let agents = world.path("project/.cotter/agents");
    fs::create_dir(world.path("elsewhere")).unwrap();
    let swaps = format!(
        r#"{{"hooks": {{"session.start": [{{"name": "swap", "command": "mv {0}/audit {0}/old && ln -s {1} {0}/audit"}}]}}}}"#,
        agents.display(),
        world.path("elsewhere").display(),
    );
    world.settings(&swaps);
    let output = world.output(&run(&[&trusted, "--no-session"], "read a.txt"));
    assert!(output.status.success() && fs::read_link(agents.join("audit")).is_ok());
    assert_eq!(fs::read_dir(world.path("elsewhere")).unwrap().count(), 0);
    fs::remove_file(agents.join("audit")).unwrap();
    fs::rename(agents.join("old"), agents.join("audit")).unwrap();
    world.settings("{}");
    world.check(
        &run(&["--safe-mode"], "read a.txt"),
        expect![[r#"
            exit 2
            --- stderr
            error: there is no agent `audit`

            hint: `cotter agents list` shows the agents
        "#]],
    );
    // A profile elsewhere in the project cannot be trusted, not even through a link from outside.
    let lies = world.write("project/mine/agent.json", "{}");
    let args = ["-p", "--model", "rehearsal", "--agent", lies.to_str().unwrap(), "read a.txt"];
    world.check(&args, expect![[r#"
        exit 3
        --- stderr
        warning: nothing of [T]/project/.cotter runs: it is not trusted yet (`cotter trust` shows it)
        error: [T]/project/mine/agent.json is inside the project, but not in a folder that can be trusted

        hint: a project's profiles are `.cotter/agents/NAME/agent.json`; keep your own outside [T]/project
    "#]]);
    std::os::unix::fs::symlink(&lies, world.path("link.json")).unwrap();
    let link = world.path("link.json");
    let args = ["-p", "--model", "rehearsal", "--agent", link.to_str().unwrap(), "read a.txt"];
    assert_eq!(world.output(&args).status.code(), Some(3));
}

/// A project's profile does not replace the person's profile of the same name.
#[test]
fn s3_s6_user_profile_wins_over_a_project_profile_of_the_same_name() {
    let world = world();
    let says = |words: &str| {
        format!(
            r#"{{"description": "{words}", "hooks": {{"onToolCall": [{{"action": "approve"}}]}}}}"#
        )
    };
    with_profile(&world, &says("Mine."));
    world.write("project/.cotter/agents/audit/agent.json", r#"{"description": "The project's."}"#);
    world.write("project/.cotter/agents/other/agent.json", "{}");
    let trusted = hash(&world);
    world.check(&run(&[&trusted, "--no-session"], "read a.txt"), expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} was refused: Permission denied for `read`: the profile `audit` wants a person to approve this, and no person can be asked. Do not retry this exact call.

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        refused: read {"path":"a.txt"}: the profile `audit` wants a person to approve this, and no person can be asked (onToolCall.approve, profile:audit); `--ask` asks you on the terminal
    "#]]);
    // A name that only the project has means the project's profile.
    let args = ["-p", "--model", "rehearsal", "--no-session", &trusted, "--agent", "other"];
    let output = world.output(&[&args[..], &["read a.txt"]].concat());
    assert!(output.status.success(), "{}", world.shown(&output));
}

/// A stored line says what happened and contains no values that may be secret.
#[test]
fn l17_s21_stored_event_line_has_no_contents_after_a_secret_was_read() {
    let world = world().with_env("LAB_TOKEN", "hush-hush-123");
    with_profile(
        &world,
        r#"{"hooks": {"onToolEnd": [{"action": "save_json", "path": "runs/calls.jsonl"}]}}"#,
    );
    world.write("project/.env", "A=plain-but-secret\n");
    let prompt = "write hush-hush-123 to b.txt then read .env then write plain-but-secret to c.txt";
    let output = world.output(&run(&["--no-session"], prompt));
    assert!(output.status.success(), "{}", world.shown(&output));
    let lines = read_masked(&world, &format!("{AUDIT}/runs/calls.jsonl"));
    let contexts = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let of = |key: &str| line["context"].get(key).unwrap_or(&Value::Null).to_string();
        ["toolName", "toolInput", "result", "withheld"].map(of).join(" ")
    });
    expect![[r#"
        "write" {"path":"b.txt","content":"[redacted LAB_TOKEN]"} "created b.txt, 1 line" null
        "read" null null "a secret was read in this session"
        "write" null null "a secret was read in this session""#]]
    .assert_eq(&contexts.collect::<Vec<_>>().join("\n"));
    assert!(!lines.contains("hush-hush") && !lines.contains("plain-but-secret"), "{lines}");
}

/// A variable that is not UTF-8 is an error, not "unset".
#[test]
fn l18_operator_variable_that_is_not_utf8_is_an_error() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let world = world();
    with_profile(&world, "{}");
    let variables =
        ["COTTER_DISABLE_HOOKS", "COTTER_ALLOW_COMMAND_HOOKS", "COTTER_HOOK_WEBHOOK_ALLOWLIST"];
    for variable in variables {
        let mut command = world.command(&run(&["--no-session"], "read a.txt"));
        let output = command.env(variable, OsStr::from_bytes(b"1\xff")).output().unwrap();
        let expected = format!(
            "exit 2\n--- stderr\nerror: `{variable}` is not UTF-8 text\n\n\
             hint: set it to UTF-8 text, or unset it\n"
        );
        assert_eq!(world.shown(&output), expected);
    }
}

#[test]
fn l15_agent_flag_takes_a_name_or_a_path() {
    let world = world();
    with_profile(&world, "{}");
    world.write(
        "home/.config/cotter/agents/reader.md",
        "---\ndescription: Only reads.\ntools: read\n---\nRead and tell.\n",
    );
    let agent = |name: &str, prompt: &str, expected: Expect| {
        world.check(
            &["-p", "--model", "rehearsal", "--no-session", "--agent", name, prompt],
            expected,
        );
    };
    agent(
        "reader",
        "read a.txt then write x to b.txt",
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        "write x to b.txt" needs the tool `write`, and there are `read`

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    agent(
        "audti",
        "read a.txt",
        expect![[r#"
        exit 2
        --- stderr
        error: there is no agent `audti`

        hint: did you mean `audit`?
    "#]],
    );
    agent(
        "none/agent.json",
        "read a.txt",
        expect![[r#"
            exit 2
            --- stderr
            error: profile none/agent.json not found
              caused by: No such file or directory (os error 2)
        "#]],
    );
    agent(
        "../home/.config/cotter/agents/audit/agent.json",
        "read a.txt",
        expect![[r#"
        exit 0
        --- stdout
        rehearsal: `read` {"path":"a.txt"} gave 2 lines:
             1	one
             2	two

        (rehearsal is an offline stand-in, not a model)
    "#]],
    );
    world.write("home/.config/cotter/agents/audit.md", "---\ndescription: x\n---\nx\n");
    agent(
        "audit",
        "read a.txt",
        expect![[r#"
            exit 1
            --- stderr
            error: `audit` is both a profile and an agent file
              caused by: [T]/home/.config/cotter/agents/audit/agent.json
              caused by: [T]/home/.config/cotter/agents/audit.md

            hint: name the profile by its path, or rename one of them
        "#]],
    );
    world.write("home/.config/cotter/agents/bad/agent.json", "{\"nam\": 1}");
    world.check(&["agents", "list"], expect![[r#"
        exit 0
        --- stdout
        @general   Works on a task by itself and reports the result. For work with many steps or much reading, if only the result matters here.  (embedder)
        @reviewer  Reviews code or text and reports what is wrong. Changes nothing. Name the files to read and what to look for.  (embedder)
        @audit     x  (user)
        @reader    Only reads.  (user)
         audit     (profile:audit, run with --agent)
         bad       [T]/home/.config/cotter/agents/bad/agent.json:1:2: $.nam: unknown key `nam` (did you mean `name`?)  (profile:bad, run with --agent)
    "#]]);
    world.check(&["agents", "list", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"name":"general","description":"Works on a task by itself and reports the result. For work with many steps or much reading, if only the result matters here.","origin":"embedder","owner":"program"}
        {"name":"reviewer","description":"Reviews code or text and reports what is wrong. Changes nothing. Name the files to read and what to look for.","origin":"embedder","owner":"program"}
        {"name":"audit","description":"x","origin":"user","owner":"[T]/home/.config/cotter"}
        {"name":"reader","description":"Only reads.","origin":"user","owner":"[T]/home/.config/cotter"}
        {"name":"audit","description":"","origin":"profile:audit","owner":"[T]/home/.config/cotter/agents/audit/agent.json"}
        {"name":"bad","description":"","origin":"profile:bad","owner":"[T]/home/.config/cotter/agents/bad/agent.json","error":"[T]/home/.config/cotter/agents/bad/agent.json:1:2: $.nam: unknown key `nam` (did you mean `name`?)"}
    "#]]);
    let folder = world.path("home/.config/cotter/agents");
    world.check(
        &["agents", "check", folder.to_str().unwrap()],
        expect![[r#"
            exit 1
            --- stdout
            [T]/home/.config/cotter/agents/audit/agent.json: ok
            [T]/home/.config/cotter/agents/audit.md: ok
            [T]/home/.config/cotter/agents/bad/agent.json: rejected
              rejected  line 1: $.nam: unknown key `nam`; did you mean `name`?
            [T]/home/.config/cotter/agents/reader.md: ok

            checked 2 profiles, 2 agents: 3 ok, 1 rejected
        "#]],
    );
}

#[test]
fn s3_profile_may_only_choose_a_model_the_user_has_set_up() {
    let at = world();
    with_profile(&at, r#"{"model": "ollama/qwen"}"#);
    let args = ["-p", "--no-session", "--agent", "audit", "read a.txt"];
    at.check(&args, expect![[r#"
        exit 2
        --- stderr
        error: [T]/home/.config/cotter/agents/audit/agent.json:1:11: $.model: cannot use the model `ollama/qwen`
          caused by: the model `ollama/qwen` is not set up, and only you can set it up

        hint: add a key for its provider, or describe it in your own settings; `--model` uses another model
    "#]]);
    at.settings(r#"{"fallbackModels": ["ollama/qwen"]}"#);
    let named = at.output(&args);
    assert!(!at.shown(&named).contains("set up"), "{}", at.shown(&named));
    with_profile(&at, r#"{"model": "rehearsal"}"#);
    at.check(&args, expect![[r#"
        exit 2
        --- stderr
        error: [T]/home/.config/cotter/agents/audit/agent.json:1:11: $.model: cannot use the model `rehearsal`
          caused by: the model `rehearsal` is not set up, and only you can set it up

        hint: add a key for its provider, or describe it in your own settings; `--model` uses another model
    "#]]);
    at.settings(r#"{"model": "rehearsal"}"#);
    let named = at.output(&args);
    assert!(named.status.success(), "{}", at.shown(&named));
    // A project's settings have the same limit.
    let at = world();
    at.write(
        "project/.cotter/settings.json",
        r#"{"model": "rehearsal", "fallbackModels": ["ollama/x"]}"#,
    );
    let trusted = hash(&at);
    at.check(
        &["-p", "--no-session", &trusted, "read a.txt"],
        expect![[r#"
            exit 2
            --- stderr
            error: [T]/project/.cotter/settings.json:1:11: $.model: cannot use the model `rehearsal`
              caused by: the model `rehearsal` is not set up, and only you can set it up

            hint: add a key for its provider, or describe it in your own settings; `--model` uses another model
        "#]],
    );
    at.check(
        &["-p", "--no-session", "--model", "rehearsal", &trusted, "read a.txt"],
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `read` {"path":"a.txt"} gave 2 lines:
                 1	one
                 2	two

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: [T]/project/.cotter/settings.json:1:43: $.fallbackModels[0]: the fallback model `ollama/x` is skipped: the model `ollama/x` is not set up, and only you can set it up (add a key for its provider, or describe it in your own settings; `--model` uses another model)
        "#]],
    );
}

#[test]
fn s3_a_profile_only_tightens() {
    let with = |own: &str, profile: &str, expected: Expect| {
        let world = world();
        world.settings(own);
        with_profile(&world, profile);
        world.check(&run(&["--no-session"], "read a.txt then write x to b.txt"), expected);
    };
    with(
        "{}",
        r#"{"permissions": {"mode": "plan"}}"#,
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `read` {"path":"a.txt"} gave 2 lines:
                 1	one
                 2	two

            `write` {"path":"b.txt","content":"x"} was refused: Denied: mode `plan` allows only safe calls. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            refused: write: mode `plan` allows only safe calls (mode)
        "#]],
    );
    with(
        r#"{"permissions": {"level": "strict"}}"#,
        r#"{"permissions": {"level": "standard"}}"#,
        expect![[r#"
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/agents/audit/agent.json:1:27: $.permissions.level: the level of the profile is looser than yours

            hint: a profile may only tighten: move this to your own settings
        "#]],
    );
    with(
        r#"{"limits": {"maxTurns": 1}}"#,
        r#"{"maxTurns": 9}"#,
        expect![[r#"
            exit 3
            --- stderr
            error: the run reached its limit of 1 steps

            hint: `--max-turns N` allows more
        "#]],
    );
    with(
        "{}",
        r#"{"maxTurns": 1}"#,
        expect![[r#"
            exit 3
            --- stderr
            error: the run reached its limit of 1 steps

            hint: `--max-turns N` allows more
        "#]],
    );
    with(
        "{}",
        r#"{"policies": [{"name": "look", "tools": ["write"], "fields": {"path": ["^b"]}}], "tools": ["raed", "write"], "hooks": {"onToolCall": [{"action": "approve", "tools": ["WebSearch"]}]}, "skills": ["none"]}"#,
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"b.txt","content":"x"} was refused: Denied: the policy look rejects it: `path` matches `^b`. Do not retry this exact call.

            "read a.txt" needs the tool `read`, and there are `write`

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: [T]/home/.config/cotter/agents/audit/agent.json:1:166: $.hooks.onToolCall[0].tools: there is no tool `WebSearch`: for it `onToolCall.approve` guards nothing
            warning: [T]/home/.config/cotter/agents/audit/agent.json: the agent may call the tool `raed`, which does not exist
            warning: [T]/home/.config/cotter/agents/audit/agent.json: the agent may use the skill `none`, which does not exist
            refused: write: the policy look rejects it: `path` matches `^b` (policy look)
        "#]],
    );
}

/// The profile in the README, unchanged.
#[test]
fn profile_in_the_readme_works_unchanged() {
    let readme = include_str!("../../../README.md");
    let (_, page) = readme.split_once("<!-- a profile, run by a test -->\n```json\n").unwrap();
    let (profile, _) = page.split_once("```").unwrap();
    let world = world();
    world.write("home/.config/cotter/agents/careful/agent.json", profile);
    let prompt = "read a.txt then write x to b.txt then run `git push origin main`";
    world.check(
        &["-p", "--model", "rehearsal", "--no-session", "--agent", "careful", prompt],
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `read` {"path":"a.txt"} gave 2 lines:
                 1	one
                 2	two

            `write` {"path":"b.txt","content":"x"} was refused: Permission denied for `write`: the profile `careful` wants a person to approve this, and no person can be asked. Do not retry this exact call.

            `bash` {"command":"git push origin main"} was refused: Denied: the rule `deny bash(git push *)` denies it. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            refused: write {"path":"b.txt","content":"x"}: the profile `careful` wants a person to approve this, and no person can be asked (onToolCall.approve, profile:careful); `--ask` asks you on the terminal
            refused: bash: the rule `deny bash(git push *)` denies it (rule deny bash(git push *))
        "#]],
    );
    let lines = read_masked(&world, "home/.config/cotter/agents/careful/runs/calls.jsonl");
    assert_eq!(lines.lines().count(), 1, "{lines}");
}

#[test]
fn failed_save_json_is_reported_and_does_not_change_the_run() {
    let world = world();
    let keeps = r#"{"hooks": {"onComplete": [{"action": "save_json", "path": "runs/a.jsonl"}]}}"#;
    with_profile(&world, keeps);
    std::os::unix::fs::symlink(world.path("elsewhere"), world.path(&format!("{AUDIT}/runs")))
        .unwrap();
    fs::create_dir(world.path("elsewhere")).unwrap();
    world.check(
        &run(&["--no-session"], "read a.txt"),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `read` {"path":"a.txt"} gave 2 lines:
                 1	one
                 2	two

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            warning: profile audit: onComplete.save_json: cannot append to runs/a.jsonl: Not a directory (os error 20)
        "#]],
    );
    assert_eq!(fs::read_dir(world.path("elsewhere")).unwrap().count(), 0);
}

/// A run keeps the profile that it began with, including its gates, even if the file changes.
#[test]
fn s2_run_keeps_the_profile_it_began_with() {
    let world = world().with_env("COTTER_ALLOW_COMMAND_HOOKS", "1");
    let asks = r#"{"hooks": {"onToolCall": [{"action": "approve", "tools": ["write"]}]}}"#;
    with_profile(&world, asks);
    // The first call deletes the profile.
    world.settings(
        r#"{"hooks": {"tool.post": [{"name": "away", "tools": ["read"], "command": ["rm", "agents/audit/agent.json"]}]}}"#,
    );
    let output = world.output(&run(&["--no-session"], "read a.txt then write x to b.txt"));
    let seen = world.shown(&output);
    assert!(!world.path(&format!("{AUDIT}/agent.json")).exists(), "{seen}");
    assert!(seen.contains("the profile `audit` wants a person to approve this"), "{seen}");
    assert!(!world.path("project/b.txt").exists(), "{seen}");
}

#[test]
fn l15_agent_flag_with_a_folder_gets_a_hint_with_its_agent_json() {
    let world = world();
    world.write("profiles/reviewer/agent.json", r#"{"systemPrompt": "You review."}"#);
    let folder = world.path("profiles/reviewer");
    let folder = folder.to_str().unwrap();
    let agent = |named| ["-p", "--model", "rehearsal", "--agent", named, "hello"];
    world.check(
        &agent(folder),
        expect![[r#"
            exit 2
            --- stderr
            error: [T]/profiles/reviewer is a folder, not an agent

            hint: did you mean `--agent [T]/profiles/reviewer/agent.json`?
        "#]],
    );
    world.check(
        &agent("./src"),
        expect![[r#"
            exit 2
            --- stderr
            error: ./src is a folder, not an agent

            hint: name an agent that `cotter agents list` shows, or a profile by its `agent.json`
        "#]],
    );
    world.write("project/lone/agent.json", "{}");
    world.check(
        &agent("lone"),
        expect![[r#"
            exit 2
            --- stderr
            error: lone is a folder, not an agent

            hint: did you mean `--agent lone/agent.json`?
        "#]],
    );
}

/// Gates are asked again after an answer; only a new verdict is printed.
#[test]
fn l16_s4_question_is_logged_once() {
    let world = world();
    with_profile(
        &world,
        r#"{"name": "audit", "hooks": {"onToolCall": [{"action": "approve", "tools": ["read"]}]}}"#,
    );
    let mut screen = Screen::new(&world, &run(&["--ask"], "read a.txt"));
    screen.wait_for("[y]es");
    screen.type_keys("y\n");
    screen.end(&world);
    world.check(&["hooks", "log"], expect![[r#"
        exit 0
        --- stdout
        session [ID1]
        run r1 began [TIME] with rehearsal
        [TIME]  r1.1  tool.pre read  onToolCall.approve (profile:audit)  ask in N ms: the profile `audit` wants a person to approve this
    "#]]);
    world.check(&["hooks", "log", "--json"], expect![[r#"
        exit 0
        --- stdout
        {"sessionId":"[ID1]","runId":"r1","step":1,"at":"[TIME]","point":"tool.pre","tool":"read","name":"onToolCall.approve","origin":"profile:audit","power":"gate","matched":true,"verdict":"ask","ms":N,"reason":"the profile `audit` wants a person to approve this"}
        {"sessionId":"[ID1]","runId":"r1","step":1,"at":"[TIME]","point":"tool.pre","tool":"read","name":"onToolCall.approve","origin":"profile:audit","power":"gate","matched":true,"verdict":"ask","ms":N,"again":true,"reason":"the profile `audit` wants a person to approve this"}
    "#]]);
    world.check(&["ledger", &world.id()], expect![[r#"
        exit 0
        --- stdout
        run r1 began [TIME] with rehearsal
          r1.1 call_r1_1_0: read {"path":"a.txt"}
            onToolCall.approve (profile:audit, gate at tool.pre) ask in N µs: the profile `audit` wants a person to approve this
            asked by onToolCall.approve: the profile `audit` wants a person to approve this
            answered yes by terminal
            pass by zone, zone safe
            approved by terminal
          call_r1_1_0 came to ok in N ms
        run r1 ended: end_turn, steps: 2
    "#]]);
}

/// Returns the output of `agents check`, `doctor` and a start about a profile.
fn check_and_start(world: &World, profile: &str) -> String {
    with_profile(world, profile);
    let path = world.path(&format!("{AUDIT}/agent.json"));
    let check = world.output(&["agents", "check", path.to_str().unwrap()]);
    let doctor = world.shown(&world.output(&["doctor"]));
    let told = doctor.split("\n\n").find(|part| part.contains("profiles\n")).unwrap_or_default();
    let told = &told[told.find("profiles\n").unwrap_or_default()..];
    let model: &[_] = if profile.contains("model") { &[] } else { &["--model", "rehearsal"] };
    let start = ["-p", "--agent", "audit", "--no-session", "list src"];
    let start = world.output(&[&start, model].concat());
    format!("{}{told}\n{}", world.shown(&check), world.shown(&start))
}

#[test]
fn l19_agents_check_reports_errors_that_would_stop_a_start() {
    let world = world();
    let check =
        |profile: &str, expected: Expect| expected.assert_eq(&check_and_start(&world, profile));
    let hooks = |hooks: &str| format!("{{\"hooks\": {{{hooks}}}}}");
    check(
        &hooks(r#""onStart": [{"action": "command", "command": "true"}]"#),
        expect![[r#"
            exit 1
            --- stdout
            [T]/home/.config/cotter/agents/audit/agent.json: rejected
              rejected  line 1: $.hooks.onStart[0].action: a profile's `command` is disabled by default: it would start a program; the operator of a machine allows it with `COTTER_ALLOW_COMMAND_HOOKS=1`

            checked 1 profile: 1 rejected
            profiles
              broken  audit: cannot start
                        file [T]/home/.config/cotter/agents/audit/agent.json
                        actions onStart.command
                        why $.hooks.onStart[0].action: a profile's `command` is disabled by default: it would start a program; the operator of a machine allows it with `COTTER_ALLOW_COMMAND_HOOKS=1`
            exit 1
            --- stderr
            error: [T]/home/.config/cotter/agents/audit/agent.json:1:35: $.hooks.onStart[0].action: a profile's `command` is disabled by default: it would start a program

            hint: the operator of a machine allows it with `COTTER_ALLOW_COMMAND_HOOKS=1`
        "#]],
    );
    check(
        r#"{"model": "sonnet"}"#,
        expect![[r#"
            exit 1
            --- stdout
            [T]/home/.config/cotter/agents/audit/agent.json: rejected
              rejected  line 1: $.model: `sonnet` is not the name of a model: expected `provider/model`

            checked 1 profile: 1 rejected
            profiles
              broken  audit: cannot start
                        file [T]/home/.config/cotter/agents/audit/agent.json
                        why $.model: `sonnet` is not the name of a model: expected `provider/model`
            exit 2
            --- stderr
            error: [T]/home/.config/cotter/agents/audit/agent.json:1:11: $.model: cannot use the model `sonnet`
              caused by: the model `sonnet` is not set up, and only you can set it up

            hint: add a key for its provider, or describe it in your own settings; `--model` uses another model
        "#]],
    );
    check(
        r#"{"model": "openai/gpt-x"}"#,
        expect![[r#"
            exit 0
            --- stdout
            [T]/home/.config/cotter/agents/audit/agent.json: in part
              not used  line 1: $.model: it cannot start here: cannot use the model `openai/gpt-x`, which the agent names: the model `openai/gpt-x` is not set up, and only you can set it up (add a key for its provider, or describe it in your own settings; `--model` uses another model)

            checked 1 profile: 1 in part
            profiles
              note    audit: cannot start here
                        file [T]/home/.config/cotter/agents/audit/agent.json
                        why $.model: it cannot start here: cannot use the model `openai/gpt-x`, which the agent names: the model `openai/gpt-x` is not set up, and only you can set it up (add a key for its provider, or describe it in your own settings; `--model` uses another model)
            exit 2
            --- stderr
            error: [T]/home/.config/cotter/agents/audit/agent.json:1:11: $.model: cannot use the model `openai/gpt-x`
              caused by: the model `openai/gpt-x` is not set up, and only you can set it up

            hint: add a key for its provider, or describe it in your own settings; `--model` uses another model
        "#]],
    );
}

#[test]
fn s34_agents_check_reports_a_webhook_host_that_is_not_listed() {
    let world = world().with_env("COTTER_HOOK_WEBHOOK_ALLOWLIST", "hooks.example.com");
    let profile =
        r#"{"hooks": {"onStart": [{"action": "webhook", "url": "https://other.example.com/x"}]}}"#;
    expect![[r#"
        exit 1
        --- stdout
        [T]/home/.config/cotter/agents/audit/agent.json: rejected
          rejected  line 1: $.hooks.onStart[0].url: cannot post to `other.example.com`: it is not on the operator's list; the operator of a machine lists hosts in `COTTER_HOOK_WEBHOOK_ALLOWLIST`

        checked 1 profile: 1 rejected
        profiles
          broken  audit: cannot start
                    file [T]/home/.config/cotter/agents/audit/agent.json
                    actions onStart.webhook
                    why $.hooks.onStart[0].url: cannot post to `other.example.com`: it is not on the operator's list; the operator of a machine lists hosts in `COTTER_HOOK_WEBHOOK_ALLOWLIST`
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/agents/audit/agent.json:1:53: $.hooks.onStart[0].url: cannot post to `other.example.com`: it is not on the operator's list

        hint: the operator of a machine lists hosts in `COTTER_HOOK_WEBHOOK_ALLOWLIST`
    "#]].assert_eq(&check_and_start(&world, profile));
}

#[test]
fn l18_unknown_tool_in_a_profile_gate_is_an_error() {
    let world = world();
    let gate = |tools: &str| {
        let entry = format!(r#"{{"action": "approve", "tools": {tools}}}"#);
        format!(r#"{{"hooks": {{"onToolCall": [{entry}]}}}}"#)
    };
    expect![[r#"
        exit 1
        --- stdout
        [T]/home/.config/cotter/agents/audit/agent.json: rejected
          rejected  line 1: $.hooks.onToolCall[0].tools: there is no tool `wriet`: for it `onToolCall.approve` guards nothing; did you mean `write`?

        checked 1 profile: 1 rejected
        profiles
          broken  audit: cannot start
                    file [T]/home/.config/cotter/agents/audit/agent.json
                    actions onToolCall.approve
                    why $.hooks.onToolCall[0].tools: there is no tool `wriet`: for it `onToolCall.approve` guards nothing; did you mean `write`?
        exit 1
        --- stderr
        error: [T]/home/.config/cotter/agents/audit/agent.json:1:58: $.hooks.onToolCall[0].tools: there is no tool `wriet`: for it `onToolCall.approve` guards nothing

        hint: did you mean `write`?
    "#]].assert_eq(&check_and_start(&world, &gate(r#"["wriet"]"#)));
    // Tools that may exist later, and tools of other programs.
    expect![[r#"
        exit 0
        --- stdout
        [T]/home/.config/cotter/agents/audit/agent.json: ok
          note      line 1: $.hooks.onToolCall[0].tools: there is no tool `WebSearch`: for it `onToolCall.approve` guards nothing

        checked 1 profile: 1 ok
        profiles
          note    audit: runs with `--agent`
                    file [T]/home/.config/cotter/agents/audit/agent.json
                    actions onToolCall.approve
                    why $.hooks.onToolCall[0].tools: there is no tool `WebSearch`: for it `onToolCall.approve` guards nothing
        exit 0
        --- stdout
        rehearsal: `list` {"path":"src"} gave 1 line:
        b.txt

        (rehearsal is an offline stand-in, not a model)
        --- stderr
        warning: [T]/home/.config/cotter/agents/audit/agent.json:1:58: $.hooks.onToolCall[0].tools: there is no tool `WebSearch`: for it `onToolCall.approve` guards nothing
    "#]].assert_eq(&check_and_start(&world, &gate(r#"["mcp__depot__*", "del*", "WebSearch"]"#)));
    // Claude Code's name of a tool matches Cotter's tool.
    with_profile(&world, &gate(r#"["Write", "Bash"]"#));
    world.check(
        &run(&["--no-session"], "write x to b.txt then run `true`"),
        expect![[r#"
            exit 0
            --- stdout
            rehearsal: `write` {"path":"b.txt","content":"x"} was refused: Permission denied for `write`: the profile `audit` wants a person to approve this, and no person can be asked. Do not retry this exact call.

            `bash` {"command":"true"} was refused: Permission denied for `bash`: the profile `audit` wants a person to approve this, and no person can be asked. Do not retry this exact call.

            (rehearsal is an offline stand-in, not a model)
            --- stderr
            refused: write {"path":"b.txt","content":"x"}: the profile `audit` wants a person to approve this, and no person can be asked (onToolCall.approve, profile:audit); `--ask` asks you on the terminal
            refused: bash {"command":"true"}: the profile `audit` wants a person to approve this, and no person can be asked (onToolCall.approve, profile:audit); `--ask` asks you on the terminal
        "#]],
    );
}
