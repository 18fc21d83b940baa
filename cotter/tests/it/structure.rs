//! Properties of the source itself: few dependencies, a core that knows no subsystem, a loop that fits on
//! one screen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Crates that a program with only `cotter` must not depend on.
const UNWANTED: &str = "http hyper h2 reqwest ureq isahc curl attohttpc surf tungstenite axum tonic \
    rustls native-tls openssl openssl-sys boring ring aws-lc-rs webpki webpki-roots schannel \
    rusqlite libsqlite3-sys sqlx sqlx-core diesel sled redb rocksdb heed postgres tokio-postgres \
    mysql mongodb redis \
    rquickjs rquickjs-core rquickjs-sys boa_engine deno_core v8 rusty_v8 quick-js swc_core oxc mlua \
    wasmtime";

/// Subsystems that loop and pipeline must not name.
const SUBSYSTEMS: &str = "skill skills memory mcp delegate subagent subagents mention mentions space \
    spaces profile profiles trust settings command commands directive directives builtin bash shell \
    cotter_tools cotter_models cotter_script cotter_server cotter_cli";

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Rust files of a folder, in order.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let mut sources: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect();
    sources.sort();
    sources
}

/// The names of the packages in `Cargo.lock`, each with those it depends on.
fn locked_packages() -> BTreeMap<String, Vec<String>> {
    let lock = read(&package().join("../Cargo.lock"));
    let quoted =
        |line: &str| line.split('"').nth(1).map(|text| words(text).next().unwrap().to_owned());
    let mut packages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for block in lock.split("[[package]]").skip(1) {
        let mut lines = block.lines().filter(|line| !line.starts_with("source"));
        let name = lines.find(|line| line.starts_with("name")).and_then(quoted).unwrap();
        let dependencies = lines.filter(|line| line.starts_with(" \"")).filter_map(quoted);
        packages.entry(name).or_default().extend(dependencies);
    }
    packages
}

/// The crates that `Cargo.toml` names in its tables of dependencies, those of tests and benches left out.
fn named_dependencies() -> Vec<String> {
    let manifest = read(&package().join("Cargo.toml"));
    let tables = manifest.split("\n[").filter(|table| {
        let name = table.split(']').next().unwrap_or_default();
        name.ends_with("dependencies") && !name.contains("dev-") && !name.contains("build-")
    });
    let lines = tables.flat_map(|table| table.lines().skip(1));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| !name.is_empty() && *name != "#").map(str::to_owned).collect()
}

/// What other crates of the workspace turn on counts too: the lock file has one set of features for all.
#[test]
fn r9_a_program_that_links_only_cotter_gets_no_http_tls_database_or_javascript() {
    let (packages, mut waiting) = (locked_packages(), named_dependencies());
    let mut names = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let dependencies = packages.get(&name).unwrap_or_else(|| panic!("`{name}` is not locked"));
        if names.insert(name) {
            waiting.extend(dependencies.iter().cloned());
        }
    }
    assert!(names.contains("tokio"), "{names:?}");
    assert!(names.len() > 20, "this is no tree: {names:?}");
    let unwanted: Vec<_> = words(UNWANTED).filter(|name| names.contains(*name)).collect();
    assert_eq!(unwanted, [""; 0]);
}

/// The names that a source uses: every word of its `use` lines and of its `crate::` paths.
fn names_used(source: &str) -> BTreeSet<String> {
    let uses = source.split("\nuse ").skip(1).filter_map(|rest| rest.split(';').next());
    let in_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let paths = source.split("crate::").skip(1);
    let paths = paths.filter_map(|rest| rest.split(|c: char| !in_path(c)).next());
    let word = |text: &str| {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect::<Vec<_>>()
    };
    uses.chain(paths).flat_map(word).collect()
}

/// R12: the runtime names no subsystem.
#[test]
fn r12_the_loop_and_the_pipeline_name_no_subsystem() {
    let source = package().join("src");
    let mut files =
        ["run/agent_loop.rs", "run/attempt.rs", "hooks/dispatch.rs", "pipeline.rs", "tool.rs"]
            .map(|file| source.join(file))
            .to_vec();
    files.extend(sources(&source.join("pipeline")));
    files.extend(sources(&source.join("tool")));
    assert!(files.len() > 8, "loop and pipeline have files: {files:?}");
    for file in files {
        let names = names_used(&read(&file));
        let known: Vec<_> = words(SUBSYSTEMS).filter(|name| names.contains(*name)).collect();
        assert_eq!(known, [""; 0], "in {}", file.display());
    }
    let told = names_used("\nuse crate::{\n    skill::Skill,\n};\nfn f() { crate::mcp::go() }");
    assert!(told.contains("skill") && told.contains("mcp"), "the test itself sees: {told:?}");
}

/// The Rust files of a folder and of the folders in it.
fn all_sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = sources(folder);
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            found.extend(all_sources(&path));
        }
    }
    found
}

/// B1: a `Permit` is built in one place, after the ledger row.
#[test]
fn b1_only_the_pipeline_makes_permits() {
    let source = package().join("src");
    let mut users: Vec<_> = all_sources(&source)
        .into_iter()
        .filter(|file| read(file).contains("after_ledger_row"))
        .map(|file| file.strip_prefix(&source).expect("below src").display().to_string())
        .collect();
    users.sort();
    assert_eq!(users, ["pipeline/execute.rs", "tool/permit.rs"]);
}

#[test]
fn agent_loop_fits_one_screen() {
    let source = read(&package().join("src/run/agent_loop.rs"));
    let start = source.find("    async fn run_to_exit(").expect("the loop is called `run_to_exit`");
    let body = source[start..].split("\n    }\n").next().expect("it ends");
    let lines = body.lines().count() + 1;
    assert!(lines <= 40, "the loop has {lines} lines:\n{body}");
    assert!(body.contains("loop {"), "this is not the loop:\n{body}");
}
