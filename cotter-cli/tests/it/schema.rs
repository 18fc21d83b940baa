//! The shipped schemas: they accept what the readers accept.

mod spots;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use cotter::{
    hooks::{
        external::HookAnswer,
        points::{POINTS, PointId},
    },
    permission::verdict::Power,
};
use cotter_files::{
    check,
    document::{Document, location::SettingsError},
    extensions::{FileKind, Severity, keys},
    profile::{Profile, ProfileGrants},
    settings::{Settings, SettingsOwner, mcp_servers::Servers},
    space::SpaceManifest,
};
use cotter_models::ApiFormat;
use expect_test::{Expect, expect};
use jsonschema::Validator;
use serde_json::{Value, json};

use self::spots::{Spot, sample, spots};
use crate::support::World;

/// Returns a schema as the program prints it.
fn schema(name: &str) -> Value {
    let output = World::new().output(&["schema", name]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn validator(schema: &Value) -> Validator {
    jsonschema::validator_for(schema).expect("it is a schema")
}

/// Returns the part of a schema for one point.
fn at(schema: &Value, point: &str) -> Value {
    let mut part = schema["definitions"][point].clone();
    part["definitions"] = schema["definitions"].clone();
    part
}

#[test]
fn schemas_are_listed_and_printed() {
    let world = World::new().with_env("NO_COLOR", "1");
    world.check(
        &["schema"],
        expect![[r#"
            exit 0
            --- stdout
            settings          your own settings.json
            project-settings  .cotter/settings.json of a project
            mcp               a file of MCP servers, for --mcp
            hook-input        the input of a command hook, by point
            hook-output       the output of a command hook, by point
            hook-file         hooks/*.yaml
            space             manifest.json of a space
            skill             front matter of a skill
            command           front matter of a command
            agent             front matter of an agent
            profile           agent.json of a profile
        "#]],
    );
    world.check(
        &["schema", "setings"],
        expect![[r#"
        exit 2
        --- stderr
        error: there is no schema `setings`

        hint: did you mean `settings`?
    "#]],
    );
    world.check(
        &["schema", "x\u{1b}[2J"],
        expect![[r#"
            exit 2
            --- stderr
            error: there is no schema `x\u{1b}[2J`

            hint: `cotter schema` lists the schemas
        "#]],
    );
}

#[test]
fn every_schema_file_is_listed_and_is_a_valid_schema() {
    let listed = String::from_utf8(World::new().output(&["schema"]).stdout).expect("text");
    let listed: BTreeSet<_> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    let files = fs::read_dir(folder).expect("schemas/").map(|file| file.expect("a file"));
    let files: Vec<_> = files.map(|file| file.file_name().into_string().expect("text")).collect();
    let files = files.iter().map(|name| name.strip_suffix(".schema.json").expect("a schema"));
    assert_eq!(listed, files.collect());
    for name in listed {
        let schema = schema(name);
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        validator(&schema);
    }
}

/// The reader of a document.
type Reader = fn(&Document) -> Result<(), SettingsError>;

fn own(document: &Document) -> Result<(), SettingsError> {
    settings(document, SettingsOwner::User)
}

fn of_a_project(document: &Document) -> Result<(), SettingsError> {
    settings(document, SettingsOwner::Project)
}

fn servers(document: &Document) -> Result<(), SettingsError> {
    Servers::from_document(document).map(drop)
}

fn manifest(document: &Document) -> Result<(), SettingsError> {
    SpaceManifest::read(document).map(drop)
}

/// Reads a settings file as the program does, section by section.
fn settings(document: &Document, source: SettingsOwner) -> Result<(), SettingsError> {
    let settings = Settings::from_document(document, source)?;
    let servers = document.root().object()?.get("mcpServers").map(Servers::read);
    servers.transpose()?;
    let spoken = settings.providers.values().filter_map(|provider| provider.speaks.as_ref());
    let mut strange =
        spoken.filter(|word| !ApiFormat::WORDS.iter().any(|(known, _)| *known == word.text));
    strange.next().map_or(Ok(()), |word| Err(word.location.error("nobody speaks that")))
}

fn profile(document: &Document) -> Result<(), SettingsError> {
    Profile::from_document(document, "audit", ProfileGrants::for_inspection()).map(drop)
}

/// The files that are read strictly, by the name of their schema.
const STRICT: [(&str, Reader); 5] = [
    ("settings", own),
    ("project-settings", of_a_project),
    ("mcp", servers),
    ("profile", profile),
    ("space", manifest),
];

fn read(reader: Reader, document: &Value) -> Result<(), SettingsError> {
    reader(&Document::parse("s.json", &document.to_string())?)
}

/// Returns the keys that the reader lists when it meets an unknown key.
fn known_keys(reader: Reader, spot: &Spot<'_>) -> BTreeSet<String> {
    let mut object = sample_object(spot);
    object["qqqqqqqqqqqq"] = json!(["x"]);
    let error = read(reader, &(spot.whole)(object)).expect_err("there is no such key");
    let hint = error.hint().unwrap_or_default();
    let list = hint.strip_prefix("known keys are ").or(hint.strip_prefix("there are "));
    let list = list.unwrap_or_else(|| panic!("{}: {error}; {hint}", spot.path));
    list.split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
}

fn sample_object(spot: &Spot<'_>) -> Value {
    let required = spot.schema["required"].as_array().into_iter().flatten();
    let keys = required.map(|key| key.as_str().expect("a key").to_owned());
    Value::Object(
        keys.map(|key| (key.clone(), sample(spot.schema, &spot.schema["properties"][&key])))
            .collect(),
    )
}

/// True if the reader refuses a key here with any value, although it knows the key elsewhere.
fn is_refused_here(reader: Reader, spot: &Spot<'_>, key: &str) -> bool {
    let mut object = sample_object(spot);
    object[key] = json!(["x"]);
    let error = read(reader, &(spot.whole)(object)).err().map(|error| error.to_string());
    let why = ["in a project's settings", "is not about tools, so `tools` is not allowed"];
    error.is_some_and(|error| {
        why.iter().any(|why| error.ends_with(why)) || error.contains(", not to `")
    })
}

/// A key that only the reader or only the schema knows fails here.
#[test]
fn readers_and_schemas_know_the_same_keys() {
    for (name, reader) in STRICT {
        let schema = schema(name);
        let validator = validator(&schema);
        let spots = spots(&schema);
        let closed = |spot: &&Spot<'_>| spot.schema["additionalProperties"] == false;
        let spots: Vec<_> = spots.iter().filter(closed).collect();
        let least = if name == "space" { 1 } else { 3 };
        assert!(spots.len() >= least, "{name} has hardly any objects");
        for spot in spots {
            let offered = spot.schema["properties"].as_object().expect("its keys");
            let mut known = known_keys(reader, spot);
            known.retain(|key| offered.contains_key(key) || !is_refused_here(reader, spot, key));
            assert_eq!(known, offered.keys().cloned().collect(), "{name}: {}", spot.path);
            let mut object = sample_object(spot);
            object["qqqqqqqqqqqq"] = json!(["x"]);
            assert!(!validator.is_valid(&(spot.whole)(object)), "{name}: {}", spot.path);
        }
    }
}

/// For every key of a schema there is a document with it that loads and is valid.
#[test]
fn a_document_with_each_key_loads() {
    for (name, reader) in STRICT {
        let schema = schema(name);
        let validator = validator(&schema);
        for spot in spots(&schema) {
            let document = (spot.whole)(sample(&schema, spot.schema));
            let path = format!("{name}: {}: {document}", spot.path);
            assert!(validator.is_valid(&document), "{path}");
            if let Err(error) = read(reader, &document) {
                panic!("{path}: {error}");
            }
        }
    }
}

/// Values that are invalid in some position.
fn odd() -> Vec<Value> {
    let texts =
        ["", " ", "x", "X", "a/b", "[", "a\nb", "a\"b", "ä", "0", "http://x/", "observe", "gate"];
    let texts = texts.into_iter().map(|text| json!(text));
    let numbers = [json!(0), json!(-1), json!(1), json!(0.5), json!(2_000_000_000_000_u64)];
    let rest = [
        json!(null),
        json!(true),
        json!([]),
        json!([1]),
        json!([""]),
        json!(["x"]),
        json!(["["]),
        json!({}),
        json!({"": 1}),
        json!({"x": "y"}),
        json!({"x y": {}}),
        json!([null]),
        json!("x".repeat(100)),
    ];
    texts.chain(numbers).chain(rest).collect()
}

/// Lists where the reader and the schema disagree, at every position and with every odd value. The reader
/// reports a value that the schema accepts. A value that only the schema refuses is refused later, by the
/// code that uses it.
fn check_verdicts(name: &str, reader: Reader, expected: Expect) {
    let schema = schema(name);
    let validator = validator(&schema);
    let mut told = BTreeMap::<_, Vec<_>>::new();
    for spot in spots(&schema) {
        for value in odd() {
            let document = (spot.whole)(value.clone());
            let who = match (read(reader, &document).is_ok(), validator.is_valid(&document)) {
                (true, false) => "reader",
                (false, true) => "schema",
                _ => continue,
            };
            told.entry((who, spot.path.clone())).or_default().push(value.to_string());
        }
    }
    let line = |((who, path), values): ((&str, String), Vec<String>)| {
        format!("only the {who} takes at {path} {}\n", values.join(", "))
    };
    expected.assert_eq(&told.into_iter().map(line).collect::<String>());
}

#[test]
fn readers_and_schemas_agree_about_values() {
    check_verdicts(
        "settings",
        own,
        expect![[r#"
            only the schema takes at $.hooks.tool.post[].tools ["["]
            only the schema takes at $.hooks.tool.post[].tools[] "["
            only the schema takes at $.hooks.tool.pre[].tools ["["]
            only the schema takes at $.hooks.tool.pre[].tools[] "["
            only the schema takes at $.hooks.tool.refused[].tools ["["]
            only the schema takes at $.hooks.tool.refused[].tools[] "["
            only the schema takes at $.mcpServers.*|0.readOnly ["["]
            only the schema takes at $.mcpServers.*|0.readOnly[] "["
            only the schema takes at $.mcpServers.*|0.tools.allow ["["]
            only the schema takes at $.mcpServers.*|0.tools.allow[] "["
            only the schema takes at $.mcpServers.*|0.tools.deny ["["]
            only the schema takes at $.mcpServers.*|0.tools.deny[] "["
            only the schema takes at $.mcpServers.*|1.readOnly ["["]
            only the schema takes at $.mcpServers.*|1.readOnly[] "["
            only the schema takes at $.mcpServers.*|1.tools.allow ["["]
            only the schema takes at $.mcpServers.*|1.tools.allow[] "["
            only the schema takes at $.mcpServers.*|1.tools.deny ["["]
            only the schema takes at $.mcpServers.*|1.tools.deny[] "["
            only the schema takes at $.permissions.policies[].fields.* ["["]
            only the schema takes at $.permissions.policies[].fields.*[] "["
            only the schema takes at $.permissions.policies[].tools ["["]
            only the schema takes at $.permissions.policies[].tools[] "["
        "#]],
    );
    check_verdicts("space", manifest, expect![[""]]);
    check_verdicts(
        "project-settings",
        of_a_project,
        expect![[r#"
        only the schema takes at $.hooks.tool.post[].tools ["["]
        only the schema takes at $.hooks.tool.post[].tools[] "["
        only the schema takes at $.hooks.tool.pre[].tools ["["]
        only the schema takes at $.hooks.tool.pre[].tools[] "["
        only the schema takes at $.hooks.tool.refused[].tools ["["]
        only the schema takes at $.hooks.tool.refused[].tools[] "["
        only the schema takes at $.mcpServers.*|0.readOnly ["["]
        only the schema takes at $.mcpServers.*|0.readOnly[] "["
        only the schema takes at $.mcpServers.*|0.tools.allow ["["]
        only the schema takes at $.mcpServers.*|0.tools.allow[] "["
        only the schema takes at $.mcpServers.*|0.tools.deny ["["]
        only the schema takes at $.mcpServers.*|0.tools.deny[] "["
        only the schema takes at $.mcpServers.*|1.readOnly ["["]
        only the schema takes at $.mcpServers.*|1.readOnly[] "["
        only the schema takes at $.mcpServers.*|1.tools.allow ["["]
        only the schema takes at $.mcpServers.*|1.tools.allow[] "["
        only the schema takes at $.mcpServers.*|1.tools.deny ["["]
        only the schema takes at $.mcpServers.*|1.tools.deny[] "["
        only the schema takes at $.permissions.policies[].fields.* ["["]
        only the schema takes at $.permissions.policies[].fields.*[] "["
        only the schema takes at $.permissions.policies[].tools ["["]
        only the schema takes at $.permissions.policies[].tools[] "["
    "#]],
    );
    check_verdicts(
        "mcp",
        servers,
        expect![[r#"
        only the schema takes at $.mcpServers.*|0.readOnly ["["]
        only the schema takes at $.mcpServers.*|0.readOnly[] "["
        only the schema takes at $.mcpServers.*|0.tools.allow ["["]
        only the schema takes at $.mcpServers.*|0.tools.allow[] "["
        only the schema takes at $.mcpServers.*|0.tools.deny ["["]
        only the schema takes at $.mcpServers.*|0.tools.deny[] "["
        only the schema takes at $.mcpServers.*|1.readOnly ["["]
        only the schema takes at $.mcpServers.*|1.readOnly[] "["
        only the schema takes at $.mcpServers.*|1.tools.allow ["["]
        only the schema takes at $.mcpServers.*|1.tools.allow[] "["
        only the schema takes at $.mcpServers.*|1.tools.deny ["["]
        only the schema takes at $.mcpServers.*|1.tools.deny[] "["
    "#]],
    );
}

#[test]
fn l19_the_reader_of_profiles_and_its_schema_agree() {
    check_verdicts(
        "profile",
        profile,
        expect![[r#"
            only the schema takes at $.hooks.onToolCall[]|0.tools ["["]
            only the schema takes at $.hooks.onToolCall[]|0.tools[] "["
            only the schema takes at $.hooks.onToolCall[]|1.tools ["["]
            only the schema takes at $.hooks.onToolCall[]|1.tools[] "["
            only the schema takes at $.hooks.onToolCall[]|2.tools ["["]
            only the schema takes at $.hooks.onToolCall[]|2.tools[] "["
            only the schema takes at $.hooks.onToolCall[]|3.tools ["["]
            only the schema takes at $.hooks.onToolCall[]|3.tools[] "["
            only the schema takes at $.hooks.onToolCall[]|4.tools ["["]
            only the schema takes at $.hooks.onToolCall[]|4.tools[] "["
            only the schema takes at $.hooks.onToolEnd[]|0.tools ["["]
            only the schema takes at $.hooks.onToolEnd[]|0.tools[] "["
            only the schema takes at $.hooks.onToolEnd[]|1.tools ["["]
            only the schema takes at $.hooks.onToolEnd[]|1.tools[] "["
            only the schema takes at $.hooks.onToolEnd[]|2.tools ["["]
            only the schema takes at $.hooks.onToolEnd[]|2.tools[] "["
            only the schema takes at $.hooks.onToolEnd[]|3.tools ["["]
            only the schema takes at $.hooks.onToolEnd[]|3.tools[] "["
            only the schema takes at $.permissions.ask ["["]
            only the schema takes at $.permissions.ask[]|0 "[", "a\nb"
            only the schema takes at $.permissions.ask[]|1 "[", "a\nb"
            only the schema takes at $.permissions.ask[]|1.rule "[", "a\nb"
            only the schema takes at $.permissions.deny ["["]
            only the schema takes at $.permissions.deny[]|0 "[", "a\nb"
            only the schema takes at $.permissions.deny[]|1 "[", "a\nb"
            only the schema takes at $.permissions.deny[]|1.rule "[", "a\nb"
            only the schema takes at $.permissions.policies[].fields.* ["["]
            only the schema takes at $.permissions.policies[].fields.*[] "["
            only the schema takes at $.permissions.policies[].tools ["["]
            only the schema takes at $.permissions.policies[].tools[] "["
            only the schema takes at $.policies ["["]
            only the schema takes at $.policies[]|0 "[", "a\nb"
            only the schema takes at $.policies[]|1 "[", "a\nb"
            only the schema takes at $.policies[]|1.rule "[", "a\nb"
            only the schema takes at $.policies[]|2 "[", "a\nb"
            only the schema takes at $.policies[]|2.fields.* ["["]
            only the schema takes at $.policies[]|2.fields.*[] "["
            only the schema takes at $.policies[]|2.tools ["["]
            only the schema takes at $.policies[]|2.tools[] "["
            only the schema takes at $.tools ["["]
            only the schema takes at $.tools[] "["
        "#]],
    );
}

/// Returns the texts between `open` and `close`.
fn between<'t>(text: &'t str, open: &'t str, close: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(open).skip(1).filter_map(move |rest| Some(rest.split_once(close)?.0))
}

/// Every settings file in a page or a test is valid for the schema if the reader accepts it.
#[test]
fn settings_in_pages_and_tests_are_valid_for_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let text = |path: &str| fs::read_to_string(root.join(path)).expect(path);
    let starter = text("cotter-cli/starter/settings.json");
    let policy = text("cotter-files/tests/data/policy/settings.json");
    let pages = ["README.md", "docs/FORMATS.md", "docs/ARCHITECTURE.md"].map(text);
    let tests = fs::read_dir(root.join("cotter-cli/tests/it")).expect("tests");
    let tests = tests.map(|file| file.expect("a file").path()).filter(|path| path.is_file());
    let tests = tests.map(|path| fs::read_to_string(path).expect("a test"));
    let tests: Vec<_> = tests.chain([text("cotter-files/src/settings.rs")]).collect();
    let shown = pages.iter().flat_map(|page| between(page, "```jsonc\n", "```"));
    let used = tests.iter().flat_map(|test| between(test, "r#\"", "\"#"));
    let own_schema = validator(&schema("settings"));
    let (mut valid, mut refused) = (0, 0);
    for written in shown.chain(used).chain([starter.as_str(), policy.as_str()]) {
        let Ok(document) = Document::parse("s.json", written) else { continue };
        let value = document.root().to_json();
        if value.as_object().is_none_or(serde_json::Map::is_empty) {
            continue;
        }
        match own(&document) {
            Ok(()) => valid += 1,
            Err(_) => refused += 1,
        }
        assert!(own_schema.is_valid(&value) || own(&document).is_err(), "{written}");
    }
    assert!(valid > 30 && refused > 10, "{valid} settings were found, and {refused} that are none");
    let document = Document::parse("settings.json", &starter).expect("it parses");
    of_a_project(&document).expect("a project may say it");
    assert!(validator(&schema("project-settings")).is_valid(&document.root().to_json()));
}

/// `cotter init` writes the schema of this version for editors.
#[test]
fn starter_project_contains_the_schema_it_names() {
    let world = World::new();
    assert!(world.output(&["init"]).status.success());
    let read = |name: &str| fs::read_to_string(world.path("project/.cotter").join(name)).unwrap();
    let settings = Document::parse("settings.json", &read("settings.json")).unwrap();
    let settings = settings.root().to_json();
    let named = settings["$schema"].as_str().unwrap();
    let brought: Value = serde_json::from_str(&read(named)).unwrap();
    assert_eq!(brought, schema("project-settings"));
    assert!(validator(&brought).is_valid(&settings));
}

/// Appends its input to a file per process id, because process ids are reused.
const TELL: &str = "#!/bin/sh\n{ cat; echo; } >> \"$COTTER_PROJECT_DIR/../told/$$\"\n";

/// Works like `TELL`, for a resident hook that is asked line by line.
const SERVE: &str = r#"#!/bin/sh
while read -r told; do
  printf '%s\n' "$told" >> "$COTTER_PROJECT_DIR/../told/$$"
  id=${told##*\"id\":}
  printf '{"id":%s}\n' "${id%%[!0-9]*}"
done
"#;

/// Creates a person with a hook at every point that records its input, and some hooks that change things.
fn listening() -> World {
    let world = World::new().with_env("NO_COLOR", "1");
    let mut hooks = serde_json::Map::new();
    for row in POINTS.iter().filter(|row| row.id != PointId::Context) {
        hooks.insert(row.name.into(), json!([{"name": row.name, "command": "./tell.sh"}]));
    }
    let push = |hooks: &mut serde_json::Map<_, _>, point: &str, entry: Value| {
        hooks[point].as_array_mut().unwrap().push(entry);
    };
    let says = |answer: &str| format!("echo '{answer}'");
    let other =
        json!({"name": "other", "tools": ["list"], "command": says(r#"{"input":{"path":"src"}}"#)});
    push(&mut hooks, "tool.pre", other);
    push(&mut hooks, "model.pre", json!({"name": "warm", "serve": true, "command": "./serve.sh"}));
    push(
        &mut hooks,
        "compact.pre",
        json!({"name": "short", "command": says(r#"{"summary":"all"}"#)}),
    );
    push(
        &mut hooks,
        "permission.ask",
        json!({"name": "yes", "command": says(r#"{"answer":"yes"}"#)}),
    );
    world.settings(&json!({"hooks": hooks}).to_string());
    fs::create_dir(world.path("told")).unwrap();
    for (name, text) in [("tell", TELL), ("serve", SERVE)] {
        world.write_executable(&format!("home/.config/cotter/{name}.sh"), text);
    }
    world
}

/// Forbids additional properties everywhere in a schema.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && object.get("type") == Some(&json!("object")) {
                object.insert("additionalProperties".into(), json!(false));
            }
            object.values_mut().for_each(strict);
        }
        Value::Array(list) => list.iter_mut().for_each(strict),
        _ => {}
    }
}

/// Collects the paths of a value, in the form of schema positions: `$.facts.zone`.
fn keys_of(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    match value {
        Value::Object(object) => {
            object.iter().for_each(|(key, value)| keys_of(value, &format!("{path}.{key}"), found));
        }
        Value::Array(list) => {
            list.iter().for_each(|value| keys_of(value, &format!("{path}[]"), found))
        }
        _ => {}
    }
}

/// The input of hooks in real runs is valid for the schema. The schema has no other keys, except those that
/// these runs do not reach.
#[test]
fn l7_hook_input_matches_its_schema() {
    let world = listening();
    let call =
        |name: &str, input: Value| json!({"calls": [{"name": name, "input": input}]}).to_string();
    let steps = [
        call("read", json!({"path": "a.txt"})),
        call("list", json!({"path": "."})),
        call("read", json!({"path": 7})),
        call("bash", json!({"command": "curl -s http://127.0.0.1:1/"})),
        call("bash", json!({"command": "rm -rf src"})),
        call("invoke_subagent", json!({"name": "general", "prompt": "hm"})),
        json!({"text": "I did."}).to_string(),
        json!({"text": "Done."}).to_string(),
    ];
    let script = world.script(&steps.join(","));
    world.check(&["-p", "--script", &script, "go"], expect![[r#"
        exit 0
        --- stdout
        Done.
        --- stderr
        refused: read: Invalid arguments for `read`: /path: 7 is not of type "string". (schema)
        refused: bash {"command":"rm -rf src"}: `rm -r src` deletes a folder with all it holds, and no person can be asked (destructive-commands); `--ask` asks you on the terminal
    "#]]);
    world.output(&["-p", "--script", &script, "--continue", "/compact"]);
    let script = world.script(r#"{"error": {"kind": "bad_request"}}"#);
    world.output(&["-p", "--script", &script, "--continue", "again"]);
    let told = fs::read_dir(world.path("told")).unwrap().map(|file| file.unwrap().path());
    let told = told.map(|file| fs::read_to_string(file).unwrap() + "\n").collect::<String>();
    let mut schema = schema("hook-input");
    let mut seen = BTreeMap::<String, BTreeSet<String>>::new();
    let shipped = validator(&schema);
    strict(&mut schema);
    for line in told.lines().filter(|line| !line.is_empty()) {
        let told: Value = serde_json::from_str(line).unwrap();
        let point = told["event"].as_str().unwrap();
        let wrong = validator(&at(&schema, point))
            .iter_errors(&told)
            .map(|e| e.to_string())
            .collect::<Vec<_>>();
        assert!(wrong.is_empty() && shipped.is_valid(&told), "{line}: {wrong:?}");
        keys_of(&told, "$", seen.entry(point.into()).or_default());
    }
    let mut unseen = String::new();
    for row in POINTS.iter().filter(|row| row.id != PointId::Context) {
        let part = at(&schema, row.name);
        let nothing = BTreeSet::new();
        let seen = seen.get(row.name).unwrap_or(&nothing);
        // Not every machine has a sandbox.
        let paths = spots(&part).into_iter().map(|spot| spot.path);
        let paths: BTreeSet<_> = paths.filter(|path| !path.ends_with(".confined")).collect();
        for path in paths.difference(seen) {
            unseen += &format!("{} {path}\n", row.name);
        }
    }
    expect![[r#"
        session.open $.id
        session.start $.id
        user.prompt.submit $.id
        model.post $.cacheBreak
        model.post $.cacheBreak.by
        model.post $.cacheBreak.byte
        model.post $.cacheBreak.part
        model.post $.id
        tool.pre $.facts.invalid
        tool.pre $.id
        permission.ask $.questionId
        tool.post $.facts.doubts
        tool.post $.facts.doubts[]
        tool.post $.facts.invalid
        tool.post $.facts.writes[]
        tool.post $.id
        tool.refused $.id
        compact.pre $.id
        compact.post $.id
        subagent.start $.id
        subagent.end $.id
        turn.end $.id
        error $.id
        session.end $.id
        session.close $.id
    "#]]
    .assert_eq(&unseen);
}

/// An answer that the schema accepts at a point has an effect there, and no other key has one.
#[test]
fn l8_hook_output_matches_its_schema() {
    let schema = schema("hook-output");
    let keys = schema["properties"].as_object().unwrap();
    for row in POINTS.iter().filter(|row| row.id != PointId::Context) {
        let part = at(&schema, row.name);
        let validator = validator(&part);
        for (key, about) in keys {
            let value = if key == "continue" { json!(false) } else { sample(&schema, about) };
            // A reason or an id alone says nothing.
            let (answer, said) = match key.as_str() {
                "reason" => (json!({"reason": value}), json!({"reason": value, "continue": false})),
                "id" => (json!({"id": value}), json!({})),
                key => (json!({key: value}), json!({key: value})),
            };
            let read =
                HookAnswer::read(row.id, said.as_object().unwrap()).expect("it is well written");
            let means = match key.as_str() {
                // For a resident hook, at any point.
                "id" => true,
                "continue" | "block" | "reason" => {
                    let warns = [PointId::SessionStart, PointId::ToolPost].contains(&row.id);
                    warns || row.powers.contains(&Power::Gate)
                }
                "ask" => row.id == PointId::ToolPre,
                _ => read != HookAnswer::default(),
            };
            assert_eq!(validator.is_valid(&answer), means, "{answer} at {}", row.name);
        }
        for answer in [json!({"carryOn": false}), json!({"input": "x"}), json!({"answer": "maybe"})]
        {
            assert!(!validator.is_valid(&answer), "{answer} at {}", row.name);
        }
    }
}

/// Checks a file with this front matter. Returns its severity and the messages.
fn checked(kind: FileKind, fields: &Value) -> (Severity, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.md");
    let lines = fields.as_object().unwrap().iter().map(|(key, value)| format!("{key}: {value}\n"));
    fs::write(&path, format!("---\n{}---\nText.\n", lines.collect::<String>())).unwrap();
    let [file] = &check::check(&path, kind)[..] else { panic!("one file, one answer") };
    let told = file.diagnostics.iter().map(|told| told.message.clone()).collect::<Vec<_>>();
    (file.status, told.join("; "))
}

#[test]
fn c9_front_matter_matches_its_schema() {
    let kinds: [(&str, FileKind, &[&str]); 3] = [
        ("skill", FileKind::Skills, &keys::SKILL),
        ("command", FileKind::Commands, &keys::COMMAND),
        ("agent", FileKind::Agents, &keys::AGENT),
    ];
    let mut only_schema = String::new();
    for (name, kind, keys) in kinds {
        let schema = schema(name);
        let validator = validator(&schema);
        let offered = schema["properties"].as_object().unwrap();
        let (refused, known): (Vec<_>, Vec<_>) =
            offered.iter().partition(|(_, about)| about["not"].is_object());
        let known: BTreeSet<_> = known.into_iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(known, keys.iter().copied().collect(), "{name}");
        for (key, _) in refused {
            let fields = json!({key.as_str(): ["x"]});
            assert!(
                !validator.is_valid(&fields) && checked(kind, &fields).0 == Severity::Rejected,
                "{key}"
            );
        }
        for spot in spots(&schema).iter().filter(|spot| spot.schema["not"].is_null()) {
            let fields = (spot.whole)(sample(&schema, spot.schema));
            let (status, told) = checked(kind, &fields);
            assert!(validator.is_valid(&fields), "{name}: {fields}");
            assert!(
                status == Severity::Warning && !told.contains("no effect"),
                "{name}: {fields}: {told}"
            );
            for value in odd().into_iter().filter(|_| spot.path != "$") {
                let fields = (spot.whole)(value);
                let (status, why) = checked(kind, &fields);
                if status == Severity::Rejected && validator.is_valid(&fields) {
                    only_schema += &format!("{name}: {fields}: {why}\n");
                }
            }
        }
    }
    expect![[r#"
        agent: {"tools":"["}: `tools`: error parsing glob '[': unclosed character class; missing ']'
        agent: {"tools":["["]}: `tools`: error parsing glob '[': unclosed character class; missing ']'
        agent: {"tools":["["]}: `tools`: error parsing glob '[': unclosed character class; missing ']'
        agent: {"disallowedTools":"["}: `disallowedTools`: error parsing glob '[': unclosed character class; missing ']'
        agent: {"disallowedTools":["["]}: `disallowedTools`: error parsing glob '[': unclosed character class; missing ']'
        agent: {"disallowedTools":["["]}: `disallowedTools`: error parsing glob '[': unclosed character class; missing ']'
    "#]].assert_eq(&only_schema);
}

/// Checks a `hooks/*.yaml` beside a program with its name. Returns its severity and the messages.
fn hook_file(fields: &Value) -> (Severity, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hooks");
    fs::create_dir(&path).unwrap();
    for name in ["sample.sh", "check.sh"] {
        fs::write(path.join(name), "#!/bin/sh\n").unwrap();
        fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = path.join("sample.yaml");
    fs::write(&path, fields.to_string()).unwrap();
    let [file] = &check::check(&path, FileKind::Hooks)[..] else { panic!("one file, one answer") };
    let told = file.diagnostics.iter().map(|told| told.message.clone()).collect::<Vec<_>>();
    (file.status, told.join("; "))
}

#[test]
fn c5_hook_files_match_their_schema() {
    let schema = schema("hook-file");
    let validator = validator(&schema);
    let unknown = json!({"id": "a", "phase": "pre", "qqqqqqqqqqqq": 1});
    let (_, told) = hook_file(&unknown);
    let known = told.split_once("there are ").expect("it names the keys").1;
    let known = known.split(", ").map(|key| key.trim_matches('`')).collect::<BTreeSet<_>>();
    let offered = schema["properties"].as_object().unwrap();
    assert_eq!(known, offered.keys().map(String::as_str).collect());
    assert!(!validator.is_valid(&unknown));
    let mut only_schema = BTreeSet::new();
    for spot in spots(&schema) {
        let fields = (spot.whole)(sample(&schema, spot.schema));
        let (status, why) = hook_file(&fields);
        assert!(validator.is_valid(&fields) && status == Severity::Warning, "{fields}: {why}");
        for fields in odd().into_iter().map(|value| (spot.whole)(value)) {
            let (status, why) = hook_file(&fields);
            if status == Severity::Rejected && validator.is_valid(&fields) {
                only_schema.insert(format!("{fields}: {why}\n"));
            }
        }
    }
    expect![[r#"
        {"id":"x","phase":"pre","command":"a/b"}: there is no program `a/b` in the folder that has `hooks`
        {"id":"x","phase":"pre","command":"http://x/"}: there is no program `http://x/` in the folder that has `hooks`
        {"id":"x","phase":"pre","tools":"["}: `tools`: error parsing glob '[': unclosed character class; missing ']'
        {"id":"x","phase":"pre","tools":["["]}: `tools`: error parsing glob '[': unclosed character class; missing ']'
    "#]].assert_eq(&only_schema.into_iter().collect::<String>());
}
