//! State: which files of a folder trust leaves out, and that nothing of them is loaded.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use cotter::{Origin, Workspace};
use cotter_files::{
    claude::{
        plugin::Plugin,
        project::{ClaudeUnit, HomeFolder, load_project},
    },
    command_hook::hook_files::load_hooks,
    extensions::{self, LoadContext, LoadedFolder, memory},
    trust::{
        snapshot::Snapshot,
        source::TrustSource,
        store::{Grants, TrustState, TrustStore},
    },
};
use expect_test::{Expect, expect};
use tempfile::TempDir;

struct World(TempDir);

impl World {
    fn new() -> Self {
        World(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The copy of a source after it was trusted as it is.
    fn trust(&self, source: &str) -> PathBuf {
        let store = TrustStore::open(self.path("store"));
        let snapshot = Snapshot::take(&self.path(source)).unwrap();
        match store.trust(&snapshot, Grants::default()).unwrap() {
            TrustState::Trusted { copy, .. } => copy,
            state => panic!("not trusted: {state:?}"),
        }
    }

    /// A source after it was trusted.
    fn trusted_source(&self, source: &str) -> TrustSource {
        let store = TrustStore::open(self.path("store"));
        let source = self.path(source);
        let state = store.read_state(&source).unwrap();
        TrustSource { source, state }
    }
}

/// Text that is a command, a skill, an agent and, to YAML, a hook that has no program.
const TEXT: &str = "---\ndescription: x\n---\nx !`id`\n";

/// Hooks of a plugin, and a server.
const HOOKS: &str =
    r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo x"}]}]}}"#;
const SERVERS: &str = r#"{"mcpServers": {"x": {"command": "echo"}}}"#;

/// One file of each kind: its name, its contents, whether it may be executed.
const FILES: [(&str, &str, bool); 17] = [
    ("a.md", TEXT, false),
    ("a.local.md", TEXT, false),
    ("SKILL.md", TEXT, false),
    ("AGENTS.md", "x", false),
    ("CLAUDE.md", "x", false),
    ("plugin.json", "{}", false),
    ("hooks.json", HOOKS, false),
    (".mcp.json", SERVERS, false),
    ("settings.local.json", "{}", false),
    ("x.log", "x", false),
    ("x.lock", "", false),
    ("uv.lock", "x", false),
    (".DS_Store", "x", false),
    ("x.py", "x", false),
    ("run", "x", true),
    ("script", "#!/bin/sh\n", false),
    ("x.log.sh", "x", false),
];

const PLACES: [&str; 22] = [
    "",
    "logs",
    "data",
    "state",
    "cache",
    "tmp",
    "commands",
    "skills",
    "agents",
    "hooks",
    "state/commands",
    "data/skills/a",
    "commands/logs",
    "__pycache__",
    "memory",
    "plugins/p",
    "plugins/p/commands",
    "plugins/p/skills/a",
    "plugins/p/agents",
    "plugins/p/hooks",
    "plugins/p/state",
    "state/plugins/p",
];

/// What is left out of a source that has one file of each kind in every place.
fn left_out(source: &str) -> String {
    let world = World::new();
    for place in PLACES {
        for (name, text, executable) in FILES {
            let path = world.write(Path::new(source).join(place).join(name), text);
            let mode = if executable { 0o755 } else { 0o644 };
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    }
    let snapshot = Snapshot::take(&world.path(source)).unwrap();
    let pinned: BTreeSet<_> = snapshot.items().map(|(path, _)| path.to_owned()).collect();
    let mut shown = String::new();
    for place in PLACES {
        let is_out = |name: &&str| !pinned.contains(&Path::new(place).join(name));
        let names: Vec<_> = FILES.iter().map(|(name, ..)| *name).filter(is_out).collect();
        shown += &format!("{place:?}: {}\n", names.join(" "));
    }
    // Nothing that is left out is in the copy, and nothing is loaded but what is pinned.
    let copy = world.trust(source);
    let loaded = loaded_files(&world, source, &copy);
    for expected in ["commands/a.md", "plugins/p/commands/a.md", "plugins/p/hooks/hooks.json"] {
        assert!(loaded.contains(Path::new(expected)), "{expected} is not loaded");
    }
    let imported = imported_files(&world, source);
    assert!(imported.contains(Path::new("memory/a.md")), "{imported:?}");
    for inside in loaded.iter().chain(&imported) {
        assert!(pinned.contains(inside), "{} is loaded", inside.display());
        let is_local = inside == Path::new("a.local.md") && source == ".claude";
        assert!(!is_local, "{} is loaded", inside.display());
    }
    for path in pinned.iter().filter(|path| path.ends_with("run")) {
        assert!(copy.join(path).is_file(), "{}", path.display());
    }
    let copied = Snapshot::take(&copy).unwrap();
    assert_eq!(copied.hash(), snapshot.hash());
    assert!(load_hooks(&copy).is_ok());
    shown
}

/// The files of a source that any loader reads, by their paths below it.
fn loaded_files(world: &World, source: &str, copy: &Path) -> BTreeSet<PathBuf> {
    let trusted = LoadContext::trusted(Origin::Project);
    let mut paths = extension_paths(&extensions::load(copy, &trusted));
    for plugin in ["plugins/p", "state/plugins/p", ""] {
        let folder = copy.join(plugin);
        let Some(plugin) = folder.is_dir().then(|| Plugin::load(&folder).unwrap()).flatten() else {
            continue;
        };
        paths.extend(extension_paths(&plugin.extensions(&folder, &trusted)));
        paths.extend(plugin.hooks.iter().chain(&plugin.servers).map(|file| file.path.clone()));
    }
    let workspace = Workspace::new(&world.path(""));
    let home = HomeFolder { path: None, workspace: &workspace };
    let found = world.trusted_source(source);
    let units = match source {
        ".claude" | ".agents" => load_project(&found, &[], false, &home).unwrap(),
        _ => vec![],
    };
    let used = |unit: &ClaudeUnit| {
        let folders = unit.extension_folders.iter();
        let read = |plugin: &Plugin, folder: &Path| plugin.extensions(folder, &trusted);
        folders
            .filter_map(|found| Some(read(found.plugin.as_ref()?, &found.folder)))
            .flat_map(|loaded| extension_paths(&loaded))
            .collect::<Vec<_>>()
    };
    paths.extend(units.iter().flat_map(used));
    paths.into_iter().filter_map(|path| path.strip_prefix(copy).ok().map(Path::to_owned)).collect()
}

/// The files of a source that a memory file reads which imports every file. A run lets it read what was
/// trusted.
fn imported_files(world: &World, source: &str) -> BTreeSet<PathBuf> {
    let workspace = Workspace::new(&world.path(""));
    let found = world.trusted_source(source);
    let imports =
        PLACES.iter().flat_map(|place| FILES.map(|(name, ..)| Path::new(place).join(name)));
    let imports: String = imports.map(|at| format!("@{source}/{}\n", at.display())).collect();
    world.write("CLAUDE.md", imports);
    let allows = |path: &Path| match path.starts_with(&found.source) && !found.has_text(path) {
        true => Err("is not trusted".to_owned()),
        false => Ok(()),
    };
    let read = memory::load(&workspace, None, &allows).files.into_iter();
    read.filter_map(|file| file.path.strip_prefix(&found.source).ok().map(Path::to_owned)).collect()
}

fn extension_paths(loaded: &LoadedFolder) -> Vec<PathBuf> {
    let skills = loaded.skills.iter().map(|file| file.path.clone());
    let commands = loaded.commands.iter().map(|file| file.path.clone());
    skills.chain(commands).chain(loaded.agents.iter().map(|file| file.path.clone())).collect()
}

#[test]
fn s6_state_is_told_by_place_and_name_and_is_never_code() {
    expect![[r#"
        "": a.local.md settings.local.json x.log x.lock .DS_Store
        "logs": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "data": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "state": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "cache": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "tmp": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "commands": x.log x.lock .DS_Store
        "skills": x.log x.lock .DS_Store
        "agents": x.log x.lock .DS_Store
        "hooks": x.log x.lock .DS_Store
        "state/commands": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "data/skills/a": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "commands/logs": x.log x.lock .DS_Store
        "__pycache__": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store x.py run script x.log.sh
        "memory": x.log x.lock .DS_Store
        "plugins/p": x.log x.lock .DS_Store
        "plugins/p/commands": x.log x.lock .DS_Store
        "plugins/p/skills/a": x.log x.lock .DS_Store
        "plugins/p/agents": x.log x.lock .DS_Store
        "plugins/p/hooks": x.log x.lock .DS_Store
        "plugins/p/state": x.log x.lock .DS_Store
        "state/plugins/p": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
    "#]].assert_eq(&left_out(".claude"));
    expect![[r#"
        "": x.log x.lock .DS_Store
        "logs": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "data": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "state": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "cache": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "tmp": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "commands": x.log x.lock .DS_Store
        "skills": x.log x.lock .DS_Store
        "agents": x.log x.lock .DS_Store
        "hooks": x.log x.lock .DS_Store
        "state/commands": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "data/skills/a": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "commands/logs": x.log x.lock .DS_Store
        "__pycache__": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store x.py run script x.log.sh
        "memory": x.log x.lock .DS_Store
        "plugins/p": x.log x.lock .DS_Store
        "plugins/p/commands": x.log x.lock .DS_Store
        "plugins/p/skills/a": x.log x.lock .DS_Store
        "plugins/p/agents": x.log x.lock .DS_Store
        "plugins/p/hooks": x.log x.lock .DS_Store
        "plugins/p/state": x.log x.lock .DS_Store
        "state/plugins/p": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
    "#]].assert_eq(&left_out(".cotter"));
    expect![[r#"
        "": x.log x.lock .DS_Store
        "logs": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "data": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "state": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "cache": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "tmp": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "commands": x.log x.lock .DS_Store
        "skills": x.log x.lock .DS_Store
        "agents": x.log x.lock .DS_Store
        "hooks": x.log x.lock .DS_Store
        "state/commands": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "data/skills/a": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
        "commands/logs": x.log x.lock .DS_Store
        "__pycache__": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store x.py run script x.log.sh
        "memory": x.log x.lock .DS_Store
        "plugins/p": x.log x.lock .DS_Store
        "plugins/p/commands": x.log x.lock .DS_Store
        "plugins/p/skills/a": x.log x.lock .DS_Store
        "plugins/p/agents": x.log x.lock .DS_Store
        "plugins/p/hooks": x.log x.lock .DS_Store
        "plugins/p/state": x.log x.lock .DS_Store
        "state/plugins/p": a.md a.local.md SKILL.md AGENTS.md CLAUDE.md plugin.json hooks.json .mcp.json settings.local.json x.log x.lock uv.lock .DS_Store
    "#]].assert_eq(&left_out(".agents"));
    // Other folders, such as a space, have no state.
    expect![[r#"
        "": 
        "logs": 
        "data": 
        "state": 
        "cache": 
        "tmp": 
        "commands": 
        "skills": 
        "agents": 
        "hooks": 
        "state/commands": 
        "data/skills/a": 
        "commands/logs": 
        "__pycache__": 
        "memory": 
        "plugins/p": 
        "plugins/p/commands": 
        "plugins/p/skills/a": 
        "plugins/p/agents": 
        "plugins/p/hooks": 
        "plugins/p/state": 
        "state/plugins/p": 
    "#]]
    .assert_eq(&left_out("space"));
}

/// The hash of a source, as a sign whether trust holds.
fn is_same(world: &World, before: &Snapshot) -> bool {
    Snapshot::take(before.source()).is_ok_and(|now| now.hash() == before.hash())
        && world.path("").exists()
}

#[test]
fn s6_trust_holds_when_state_appears_and_ends_when_code_does() {
    let check = |name: &str, text: &str, mode: u32, holds: bool| {
        let world = World::new();
        world.write(".claude/settings.json", "{}");
        let before = Snapshot::take(&world.path(".claude")).unwrap();
        let path = world.write(Path::new(".claude").join(name), text);
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        assert_eq!(is_same(&world, &before), holds, "{name}");
    };
    for name in [
        "logs/today.txt",
        "state/seen.json",
        "data/a/b/c.json",
        "cache/x",
        "tmp/x.md",
        "hooks/guard.log",
        "hooks/guard.lock",
        ".DS_Store",
        "hooks/.DS_Store",
        "me.local.md",
        "settings.local.json",
        "__pycache__/x.cpython-312.pyc",
        "hooks/__pycache__/x.cpython-312.pyc",
    ] {
        check(name, "x", 0o644, true);
    }
    for name in [
        "commands/a.local.md",
        "commands/state/a.md",
        "hooks/json.py",
        "data/x.PY",
        "hooks/uv.lock",
        "logs",
        "notes.md",
        "log/x",
        "Logs/x",
        "x.LOG",
        "settings.local.json.bak",
    ] {
        check(name, "x", 0o644, false);
    }
    for end in ["py", "sh", "js", "ts", "mjs", "cjs", "rb", "pl", "so", "pyc", "lua", "bash"] {
        check(&format!("state/x.{end}"), "x", 0o644, false);
        check(&format!("logs/x.{end}.log"), "x", 0o644, false);
    }
    check("state/run", "x", 0o755, false);
    check("logs/x.log", "x", 0o645, false);
    check("state/run", "#!/bin/sh\n", 0o644, false);
    check("data/run", "\u{7f}ELF", 0o644, false);
}

/// Python with other options or variables reads the compiled files, so they are pinned then.
#[test]
fn s6_compiled_python_is_pinned_where_python_would_read_it() {
    let check = |text: &str, holds: bool| {
        let world = World::new();
        world.write(".claude/hooks/guard.sh", text);
        let before = Snapshot::take(&world.path(".claude")).unwrap();
        world.write(".claude/hooks/__pycache__/x.cpython-312.pyc", "x");
        assert_eq!(is_same(&world, &before), holds, "{text}");
    };
    check("python3 guard.py", true);
    check("python3 -u -s guard.py --In", true);
    check("python3 -I guard.py", false);
    check("#!/usr/bin/python3 -sE\n", false);
    check("[\"python3\", \"-I\", \"guard.py\"]", false);
    check("env -i python3 guard.py", false);
    check("subprocess.run([sys.executable, x], env={})  # python", false);
    check("unset PYTHONPYCACHEPREFIX; python3 guard.py", false);
}

/// A link cannot make state a part of what is loaded or run.
#[test]
fn s6_link_to_state_is_refused() {
    let check = |target: &str, expected: Expect| {
        let world = World::new();
        world.write(".claude/data/x", "x");
        world.write(".claude/commands/a.md", "x");
        symlink(target, world.path(".claude/commands/b.md")).unwrap();
        let taken = Snapshot::take(&world.path(".claude"));
        let root = world.path("").display().to_string();
        let shown = taken.map_or_else(|error| error.to_string(), |_| "taken".into());
        expected.assert_eq(&shown.replace(&root, ""));
    };
    check("a.md", expect![["taken"]]);
    check(
        "../data/x",
        expect![".claude/commands/b.md is a link to what trust leaves out, ../data/x"],
    );
    check("../data", expect![".claude/commands/b.md is a link to what trust leaves out, ../data"]);
    check(
        "../logs/later.log",
        expect![".claude/commands/b.md is a link to what trust leaves out, ../logs/later.log"],
    );
    check(
        "../settings.local.json",
        expect![".claude/commands/b.md is a link to what trust leaves out, ../settings.local.json"],
    );
    check(
        "../hooks/__pycache__/x",
        expect![".claude/commands/b.md is a link to what trust leaves out, ../hooks/__pycache__/x"],
    );
}
