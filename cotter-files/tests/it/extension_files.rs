//! Tests of extensions from files: the contents of a folder of skills, commands and agents, and the
//! diagnostics about files that cannot be read as written.

use std::{
    fs,
    path::{Path, PathBuf},
};

use cotter::{
    Agent, AgentBuilder, FnTool, Message, Origin, Owner, Permit, Skill, ToolOutput, ToolSpec,
    Workspace,
    invoke::named_item::NameKind,
    permission::{Zone, facts::Facts},
};
use cotter_files::{
    check::{self, CheckedFile},
    extensions::{self, Diagnostic, FileKind, LoadContext, LoadedFolder, TakenNames, memory},
};
use cotter_test::{RecordingModel, ScriptedModel, Step, ending, fresh};
use expect_test::{Expect, expect};
use serde_json::json;
use tempfile::TempDir;

/// A skill with triggers, agents, tags and a variable.
const DOCKER_DEPLOY: &str = include_str!("../data/docker-deploy.md");

/// Creates a folder with files and their parent folders.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn show_diagnostics(root: &Path, diagnostics: &[Diagnostic]) -> String {
    let root = [root.to_owned(), root.canonicalize().unwrap()];
    let line = |told: &Diagnostic| {
        let mut shown = format!("{}: {told}\n", told.severity.as_str());
        for root in &root {
            shown = shown.replace(&format!("{}/", root.display()), "");
        }
        shown
    };
    diagnostics.iter().map(line).collect()
}

/// Shows everything that was loaded from a folder, and the diagnostics.
fn shown(folder: &TempDir, loaded: &LoadedFolder) -> String {
    let mut shown = String::new();
    for skill in &loaded.skills {
        let triggers: Vec<_> = skill
            .triggers
            .iter()
            .map(|one| format!("{} {:?} {:?}", one.kind().as_str(), one.pattern(), one.scope()))
            .collect();
        shown += &format!(
            "skill {} {:?} exposed {} triggers {triggers:?} agents {:?} tags {:?}\n  {:?}\n",
            skill.name,
            skill.description,
            skill.exposed,
            skill.agents,
            skill.tags,
            skill.text().unwrap(),
        );
    }
    for command in &loaded.commands {
        let text = command.text().unwrap();
        shown += &format!(
            "command {} {:?} {:?} {:?}\n  {text:?}\n",
            command.name, command.description, command.argument_hint, command.model
        );
    }
    for agent in &loaded.agents {
        let config = &agent.config;
        shown += &format!(
            "agent {} {:?} tools {:?} {} skills {:?} model {:?} mode {}\n  {:?}\n",
            config.name,
            config.description,
            config.tools,
            narrowed(config),
            config.skills,
            config.model,
            config.mode,
            config.system_prompt
        );
    }
    shown + &show_diagnostics(folder.path(), &loaded.diagnostics)
}

/// Shows the tools that an agent must not have.
fn narrowed(config: &cotter::AgentConfig) -> String {
    let looks = if config.is_read_only { " only looks" } else { "" };
    format!("without {:?}{looks}", config.without_tools)
}

fn load(folder: &TempDir) -> LoadedFolder {
    extensions::load(folder.path(), &LoadContext::trusted(Origin::User))
}

fn check(files: &[(&str, &str)], expected: Expect) {
    let folder = tree(files);
    expected.assert_eq(&shown(&folder, &load(&folder)));
}

#[test]
fn c9_skill_file_with_triggers_is_read() {
    check(
        &[("skills/docker-deploy.yaml", DOCKER_DEPLOY)],
        expect![[r#"
        skill docker-deploy "Guides agent through Docker container deployment" exposed false triggers ["regex \"deploy|container|docker\" Anywhere", "regex \"kubernetes|k8s\" Anywhere"] agents ["coder", "architect"] tags ["devops", "deployment"]
          "When deploying with Docker:\n\n1. Check for existing Dockerfile — if none, create one\n2. Verify .dockerignore exists\n3. Build the image: `docker build -t {{project_name}} .`\n4. Test locally: `docker run -p 8080:8080 {{project_name}}`\n5. Push to registry if deployment target specified\n\nAlways prefer multi-stage builds to minimize image size."
    "#]],
    );
    check(
        &[("skills/docker-deploy.md", DOCKER_DEPLOY)],
        expect![[r#"
        skill docker-deploy "Guides agent through Docker container deployment" exposed false triggers ["regex \"deploy|container|docker\" Anywhere", "regex \"kubernetes|k8s\" Anywhere"] agents ["coder", "architect"] tags ["devops", "deployment"]
          "When deploying with Docker:\n\n1. Check for existing Dockerfile — if none, create one\n2. Verify .dockerignore exists\n3. Build the image: `docker build -t {{project_name}} .`\n4. Test locally: `docker run -p 8080:8080 {{project_name}}`\n5. Push to registry if deployment target specified\n\nAlways prefer multi-stage builds to minimize image size."
    "#]],
    );
}

#[test]
fn c9_skill_folders_and_skill_files_are_read() {
    check(
        &[
            (
                "skills/pdf/SKILL.md",
                "---\nname: pdf\ndescription: Works with PDF files.\nlicense: MIT\nallowed-tools: Bash(pdftotext *) Read\nmetadata:\n  version: 1.0\n---\n\n# PDF\r\n\r\nDo it.\n",
            ),
            ("skills/pdf/forms.md", "no skill: a file of the one above"),
            (
                "skills/team/quiet/SKILL.md",
                "---\ndescription: Hidden.\ndisable-model-invocation: true\nargument-hint: [file]\n---\nShh.",
            ),
            ("skills/plain.md", "Only its name calls it."),
            (
                "skills/one.yaml",
                "id: uno\nname: One\ntriggers: [one, {pattern: 'o+', type: regex, word: true}]\nbody: |\n  Two lines,\n  one skill.\n",
            ),
            ("skills/README.md", "not a skill"),
            ("skills/notes.txt", "not a skill"),
            ("skills/.hidden/SKILL.md", "---\ndescription: no\n---\nx"),
        ],
        expect![[r##"
            skill uno "One" exposed false triggers ["keyword \"one\" Anywhere", "regex \"o+\" Words"] agents [] tags []
              "Two lines,\none skill."
            skill pdf "Works with PDF files." exposed true triggers [] agents [] tags []
              "# PDF\n\nDo it."
            skill plain "" exposed false triggers [] agents [] tags []
              "Only its name calls it."
            skill quiet "Hidden." exposed false triggers [] agents [] tags []
              "Shh."
            ok: skills/pdf/SKILL.md:5: `allowed-tools` allows nothing here: use `allow` rules in your settings
            ok: skills/plain.md: it has no front matter: it is used only if it is named
        "##]],
    );
}

#[test]
fn c9_folder_with_broken_files_loads_the_valid_ones() {
    check(
        &[
            ("skills/a/SKILL.md", "---\nname: other\ndescription: Use it when: always\n---\nA"),
            (
                "skills/b.md",
                "---\nid: b\ntriggers:\n  - pattern: ok\n  - pattern: \"[unclosed\"\n    type: regex\n---\nB",
            ),
            ("skills/c.md", "---\nid: a\n---\nthe second of that name"),
            ("skills/d.md", "---\nid: d\nid: dd\n---\nD"),
            ("skills/e.md", "---\nid: e\nno end"),
            ("skills/f.yaml", "name: f\n"),
            ("skills/g.md", "---\nid: not a name\n---\nG"),
            ("skills/h.md", "---\nid: h\ntriggers:\n  - type: regex\n---\nH"),
            ("skills/i.md", "---\nid: i\ntriggers:\n  - pattern: x\n    type: glob\n---\nI"),
            ("skills/j.md", "---\nid: j\ndescriptions: typo\n---\nJ"),
            ("skills/k.md", "---\nid: k\ndescription: [a, list]\n---\nK"),
            ("skills/l m.md", "---\ndescription: no name\n---\nL"),
            ("commands/good.md", "Fine."),
            (
                "commands/sub/x.md",
                "---\ndescription: D\nargument-hint: [a] [b]\nmodel: inherit\n---\nDo $1",
            ),
            ("commands/sp ace.md", "no"),
            ("commands/bad.md", "---\ndescription: {a: b}\n---\nx"),
            ("agents/none.md", "---\nname: none\n---\n"),
            ("agents/empty.md", "---\ndescription: d\ntools: []\n---\nWork."),
            ("agents/call.md", "---\ndescription: d\ntools: Bash(git *)\n---\nWork."),
            ("agents/glob.md", "---\ndescription: d\ntools: '[a'\n---\nWork."),
            (
                "agents/less.md",
                "---\ndescription: d\ndisallowedTools: Bash\npermissionMode: plan\n---\nWork.",
            ),
            (
                "agents/ok.md",
                "---\nname: My Agent\ndescription: d\ntools: Read, Grep\nmodel: sonnet\n---\nWork.",
            ),
        ],
        expect![[r#"
            skill a "Use it when: always" exposed true triggers [] agents [] tags []
              "A"
            skill j "" exposed false triggers [] agents [] tags []
              "J"
            skill k "a, list" exposed false triggers [] agents [] tags []
              "K"
            skill l-m "no name" exposed false triggers [] agents [] tags []
              "L"
            command good "" None None
              "Fine."
            command sp-ace "" None None
              "no"
            command sub:x "D" Some("[a] [b]") None
              "Do $1"
            agent call "d" tools ["-"] without [] skills [] model None mode code
              "Work."
            agent empty "d" tools ["-"] without [] skills [] model None mode code
              "Work."
            agent less "d" tools [] without ["bash", "bash_background"] only looks skills [] model None mode code
              "Work."
            agent ok "d" tools ["read", "grep"] without [] skills [] model None mode code
              "Work."
            repaired: skills/a/SKILL.md:3: it is not YAML; read with its values in quotes
            ok: skills/a/SKILL.md:2: its name is that of its folder, `/a`; `name` has no effect
            rejected: skills/b.md:5: the pattern `[unclosed` cannot be a trigger: unclosed character class
            rejected: skills/d.md:3: duplicate key `id`
            rejected: skills/e.md:1: the front matter has no end: a second line `---` is missing
            rejected: skills/f.yaml: it has neither a front matter nor a `body`
            rejected: skills/g.md:2: `not a name` cannot be the name of a skill; use letters, digits, `_` and `-`
            rejected: skills/h.md:4: a trigger needs a `pattern`
            rejected: skills/i.md:5: the `type` of a trigger is `regex` or `keyword`, not `glob`
            ok: skills/j.md:3: `descriptions` has no effect; did you mean `description`?
            repaired: skills/k.md:3: `description` is a list; it is joined to one text
            repaired: skills/l m.md: `l m` cannot be the name of a skill; the name `l-m` is used instead
            rejected: commands/bad.md:2: `description` has to be a text
            repaired: commands/sp ace.md: `sp ace` cannot be the name of a command; the name `sp-ace` is used instead
            repaired: commands/sub/x.md:3: it is not YAML; read with its values in quotes
            repaired: agents/call.md:3: `Bash(git *)` in `tools` is a kind of call, not a tool: it is skipped
            ok: agents/empty.md:3: `tools` is empty: the agent has none
            rejected: agents/glob.md:3: `tools`: error parsing glob '[a': unclosed character class; missing ']'
            rejected: agents/none.md: it has no prompt: write it below the front matter
            ok: agents/ok.md:5: `model` is not `provider/model`: the caller's model is used
            rejected: skills/c.md: the skill `a` is already defined by skills/a/SKILL.md
        "#]],
    );
}

#[test]
fn c15_agent_files_are_yaml_or_markdown() {
    check(
        &[
            (
                "agents/coder.yaml",
                "id: coder\nname: The Coder\ndescription: Writes code.\nprompt: |\n  You write code.\ntools: [read, 'file_*']\nskills: [docker-deploy]\nmodel: openai/gpt-9\nmode: build\n",
            ),
            ("agents/review.md", "---\nname: reviewer\ndescription: Reads.\n---\nYou read.\n"),
        ],
        expect![[r#"
            agent coder "Writes code." tools ["read", "file_*"] without [] skills ["docker-deploy"] model Some("openai/gpt-9") mode build
              "You write code."
            agent reviewer "Reads." tools [] without [] skills [] model None mode code
              "You read."
        "#]],
    );
}

#[test]
fn s8_links_out_of_the_folder_are_not_read() {
    use std::os::unix::fs::symlink;
    let outside = tree(&[("x/SKILL.md", "---\ndescription: out\n---\nsecret"), ("y.md", "secret")]);
    let folder = tree(&[
        ("skills/in.md", "in"),
        ("commands/in.md", "in"),
        ("parts/shared/SKILL.md", "---\ndescription: within\n---\nshared"),
    ]);
    let at = |path: &str| folder.path().join(path);
    symlink(outside.path().join("x"), at("skills/linked")).unwrap();
    symlink(outside.path().join("y.md"), at("skills/file.md")).unwrap();
    symlink(outside.path(), at("commands/out")).unwrap();
    symlink(at("commands"), at("commands/loop")).unwrap();
    symlink("in.md", at("skills/again.md")).unwrap();
    symlink("../parts/shared", at("skills/shared")).unwrap();
    fs::create_dir(at("skills/made")).unwrap();
    symlink(outside.path().join("y.md"), at("skills/made/SKILL.md")).unwrap();
    rustix_fifo(&at("skills/pipe.md"));
    fs::write(at("skills/big.md"), "x".repeat(2_000_000)).unwrap();
    expect![[r#"
        skill again "" exposed false triggers [] agents [] tags []
          "in"
        skill in "" exposed false triggers [] agents [] tags []
          "in"
        skill shared "within" exposed true triggers [] agents [] tags []
          "shared"
        command in "" None None
          "in"
        rejected: skills/file.md: it is a link to a path outside the folder and is not followed
        rejected: skills/linked: it is a link to a path outside the folder and is not followed
        rejected: skills/made/SKILL.md: it is a link to a path outside the folder and is not followed
        rejected: skills/pipe.md: it is not a file
        ok: skills/again.md: it has no front matter: it is used only if it is named
        rejected: skills/big.md: it has more than 1048576 bytes
        ok: skills/in.md: it has no front matter: it is used only if it is named
        rejected: commands/loop: it is a link to a folder that was already searched
        rejected: commands/out: it is a link to a path outside the folder and is not followed
    "#]]
    .assert_eq(&shown(&folder, &extensions::load(folder.path(), &LoadContext::trusted(Origin::Project))));
    // In a user's own folder links are followed.
    expect![[r#"
        skill again "" exposed false triggers [] agents [] tags []
          "in"
        skill file "" exposed false triggers [] agents [] tags []
          "secret"
        skill in "" exposed false triggers [] agents [] tags []
          "in"
        skill linked "out" exposed true triggers [] agents [] tags []
          "secret"
        skill made "" exposed true triggers [] agents [] tags []
          "secret"
        skill shared "within" exposed true triggers [] agents [] tags []
          "shared"
        command in "" None None
          "in"
        command out:x:SKILL "out" None None
          "secret"
        command out:y "" None None
          "secret"
        rejected: skills/pipe.md: it is not a file
        ok: skills/again.md: it has no front matter: it is used only if it is named
        rejected: skills/big.md: it has more than 1048576 bytes
        ok: skills/file.md: it has no front matter: it is used only if it is named
        ok: skills/in.md: it has no front matter: it is used only if it is named
        ok: skills/made/SKILL.md: it has no front matter: it is used only if it is named
        rejected: commands/loop: it is a link to a folder that was already searched
    "#]]
    .assert_eq(&shown(&folder, &load(&folder)));
    // A file that becomes a link after loading is not followed either.
    let loaded = load(&tree(&[]));
    assert!(loaded.skills.is_empty());
    let folder = tree(&[("skills/late.md", "late")]);
    let loaded = load(&folder);
    fs::remove_file(folder.path().join("skills/late.md")).unwrap();
    symlink(outside.path().join("y.md"), folder.path().join("skills/late.md")).unwrap();
    let error = loaded.skills[0].text().unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

fn rustix_fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

/// Creates an agent with the files of a folder, and a `bash` that returns its input.
fn with_files(
    builder: AgentBuilder,
    folder: &TempDir,
    loading: &LoadContext,
) -> (Agent, Vec<Diagnostic>) {
    let project = folder.path().join("project");
    fs::create_dir_all(&project).unwrap();
    let bash = ToolSpec::new("bash", "d", json!({"type": "object"}));
    let work = |permit: Permit| async move {
        Ok(ToolOutput::from(format!("<ran {}> $1 {{{{mode}}}}", permit.input()["command"])))
    };
    let bash = FnTool::new(bash, work).with_facts(Facts::zone(Zone::Safe));
    let agent = builder.tool(bash).workspace(Workspace::new(&project)).build().unwrap();
    let loaded = extensions::load(folder.path(), loading);
    let owner = Owner::new(loading.origin.clone(), "files");
    let loaded = loaded.drop_taken_names(&owner, &mut TakenNames::of(&agent, &[]));
    agent.extend(owner, |unit| loaded.register(unit)).unwrap();
    (agent, loaded.diagnostics)
}

const TEXTS: [(&str, &str); 5] = [
    (
        "skills/fix.md",
        "---\nid: fix\ntriggers: [repair]\n---\nFix $ARGUMENTS ($1) in {{project_name}} ({{language}}, {{agent_id}}, {{mode}}).\n!`git log $1`",
    ),
    ("skills/doc/SKILL.md", "---\ndescription: Writes docs.\n---\nDocs for ${1:-everything}."),
    ("skills/doc/style.md", "more"),
    (
        "commands/git/look.md",
        "---\ndescription: Looks.\nargument-hint: FILE\n---\nLook at $1:\n!`cat \"$1\"`",
    ),
    ("agents/helper.md", "---\ndescription: Helps.\ntools: read\n---\nYou help."),
];

/// Checks the requests that the model gets for some prompts, with the files of a folder.
async fn check_requests(loading: LoadContext, prompts: &[&str], expected: Expect) {
    let folder = tree(&TEXTS);
    let model = RecordingModel::new(ScriptedModel::new(prompts.iter().map(|_| Step::text("ok"))));
    let (agent, diagnostics) = with_files(Agent::builder(model.clone()), &folder, &loading);
    assert_eq!(diagnostics, []);
    let session = fresh(&agent).await;
    for prompt in prompts {
        let reply = session.prompt(*prompt).await;
        assert_eq!(ending(&reply), "end_turn", "{prompt}");
    }
    let request = model.requests().pop().unwrap();
    let mut shown = format!("system: {}\n", request.system);
    for message in request.messages.iter() {
        if let Message::User(user) = message {
            shown += &format!("{:?}: {}\n", user.kind, user.content.text());
        }
    }
    let real = folder.path().canonicalize().unwrap();
    expected.assert_eq(&shown.replace(&real.display().to_string(), "FOLDER"));
}

#[tokio::test]
async fn g13_s19_skill_and_command_texts_get_the_passed_arguments() {
    let loading = || LoadContext::trusted(Origin::User);
    check_requests(
        loading(),
        &["/fix 'a b' c"],
        expect![[r#"
        system: <resources>
        skills: doc
        </resources>
        SkillInjection: <skill name="fix">
        Fix 'a b' c (a b) in project (unknown, main, code).
        <ran "git log 'a b'"> $1 {{mode}}
        </skill>
        Typed: 'a b' c
    "#]],
    )
    .await;
    check_requests(
        loading(),
        &["hello", "repair it"],
        expect![[r#"
        system: <resources>
        skills: doc
        </resources>
        Typed: hello
        SkillInjection: <skill name="fix">
        Fix  ($1) in project (unknown, main, code).
        <ran "git log $1"> $1 {{mode}}
        </skill>
        Typed: repair it
    "#]],
    )
    .await;
    check_requests(
        loading(),
        &["/git:look 'x; rm -rf ~'"],
        expect![[r#"
        system: <resources>
        skills: doc
        </resources>
        Typed: Look at x; rm -rf ~:
        <ran "cat 'x; rm -rf ~'"> $1 {{mode}}
    "#]],
    )
    .await;
    check_requests(
        loading(),
        &["/doc"],
        expect![[r#"
        system: <resources>
        skills: doc
        </resources>
        SkillInjection: <skill name="doc">
        Docs for everything.

        The files of this skill are in FOLDER/skills/doc.
        </skill>
        Typed: 
    "#]],
    )
    .await;
}

#[tokio::test]
async fn s8_no_folder_shadows_a_command() {
    let files = [("skills/a.md", "theirs"), ("commands/b.md", "theirs"), ("agents/c.md", "x")];
    let names = |agent: &Agent| {
        let kinds = [NameKind::Skill, NameKind::Command, NameKind::Subagent].into_iter();
        let all = kinds.flat_map(|kind| agent.names(kind));
        let all = all.map(|info| {
            let by = info.shadowed_by.map(|by| format!(" (shadowed by {by})")).unwrap_or_default();
            format!("{} of {}{by}\n", info.name, info.owner)
        });
        all.collect::<String>()
    };
    let build = |loading: &LoadContext| {
        let folder = tree(&files);
        let builder = Agent::builder(ScriptedModel::new([]))
            .define_skill(Skill::text("a", "ours"))
            .define_command(cotter::Command::new("b", |_| async {}))
            .define_mention(cotter::Subagent::agent(cotter::AgentConfig::new("c")));
        let (agent, diagnostics) = with_files(builder, &folder, loading);
        names(&agent) + &show_diagnostics(folder.path(), &diagnostics)
    };
    expect![[r#"
        a of embedder (program) (shadowed by project (files))
        a of project (files)
        b of embedder (program)
        c of embedder (program) (shadowed by project (files))
        c of project (files)
        ok: skills/a.md: it has no front matter: it is used only if it is named
        ok: agents/c.md: it has no `description`: the model sees only its name
        rejected: commands/b.md: the command `b` is already defined by embedder (program)
    "#]]
    .assert_eq(&build(&LoadContext::trusted(Origin::Project)));
}

#[test]
fn c13_first_folder_of_an_origin_wins_for_equal_names() {
    let (first, second) =
        (tree(&[("skills/a.md", "first")]), tree(&[("skills/a.md", "2"), ("skills/b.md", "b")]));
    let joined = load(&first).join(load(&second));
    let names: Vec<_> = joined.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(&*joined.skills[0].text().unwrap(), "first");
    let said = show_diagnostics(second.path(), &joined.diagnostics);
    assert!(said.contains("rejected: skills/a.md: the skill `a` is already defined by "), "{said}");
}

#[test]
fn c9_check_reports_every_skill_file() {
    let folder = tree(&[
        ("a.md", "---\nid: a\n---\nA"),
        ("b.md", "---\nid: b: c\n---\nB"),
        ("c.md", "---\nid: [\n---\nC"),
        ("d.md", "---\nid: d\n---\n"),
        ("e/SKILL.md", "---\ndescription: e\nid: a\n---\nE"),
    ]);
    fs::write(folder.path().join("f.md"), b"---\nid: f\n---\n\xff").unwrap();
    let line = |checked: &CheckedFile| {
        let path = checked.path.strip_prefix(folder.path()).unwrap();
        let status = checked.status.as_str();
        format!(
            "{} {status}\n{}",
            path.display(),
            show_diagnostics(folder.path(), &checked.diagnostics)
        )
    };
    let shown: String = check::check(folder.path(), FileKind::Skills).iter().map(line).collect();
    expect![[r#"
        a.md ok
        b.md rejected
        rejected: b.md:2: `b: c` cannot be the name of a skill; use letters, digits, `_` and `-`
        c.md rejected
        rejected: c.md:2: `[` cannot be the name of a skill; use letters, digits, `_` and `-`
        d.md ok
        ok: d.md: it has no text below its front matter
        e/SKILL.md ok
        ok: e/SKILL.md: a.md also defines the skill `a`; if both are loaded, that file is used
        f.md repaired
        repaired: f.md: bytes of its text are not UTF-8 and are replaced by U+FFFD
    "#]]
    .assert_eq(&shown);
    let one = check::check(&folder.path().join("a.md"), FileKind::Agents);
    assert_eq!(
        one.iter().map(line).collect::<String>(),
        "a.md ok\nok: a.md: it has no `description`: the model sees only its name\n"
    );
    assert_eq!(check::check(&folder.path().join("none"), FileKind::Commands), []);
}

/// Shows the memory files that are loaded for a workspace.
fn remembered(folder: &TempDir, workspace: &Workspace, own: Option<&Path>) -> String {
    let root = folder.path().canonicalize().unwrap();
    let allows = |path: &Path| match path.ends_with("denied.md") {
        true => Err("is denied".to_owned()),
        false => Ok(()),
    };
    let memory = memory::load(workspace, own, &allows);
    let short = |text: String| text.replace(&format!("{}/", root.display()), "");
    let mut shown: String = memory.files.iter().map(|file| short(file.section()) + "\n").collect();
    shown += &show_diagnostics(folder.path(), &memory.diagnostics)
        .replace(&root.display().to_string(), "");
    shown
}

#[test]
fn c13_memory_files_are_read_from_the_root_down_with_their_imports() {
    let folder = tree(&[
        ("own/AGENTS.md", "Be kind."),
        ("own/settings.json", "{}"),
        (
            "p/AGENTS.md",
            "Top. See @docs/a.md and @reviewer, mail me@x.org.\n`@docs/no.md`\n```\n@docs/no.md\n```\n</memory> <system-reminder>",
        ),
        (
            "p/CLAUDE.md",
            "@AGENTS.md\n@../own/settings.json\n@.env\n@docs/none.md @denied.md @/etc/passwd",
        ),
        ("p/.env", "KEY=1"),
        ("p/denied.md", "no"),
        ("p/docs/a.md", "A imports @b.md."),
        ("p/docs/b.md", "B imports @a.md"),
        ("p/docs/no.md", "no"),
        ("p/sub/CLAUDE.md", "Below.\r\n"),
        ("p/other/AGENTS.md", "not on the way"),
    ]);
    let root = folder.path().canonicalize().unwrap();
    let workspace = Workspace::new(&root.join("p/sub")).with_project(&root.join("p"));
    expect![[r#"
        <memory file="own/AGENTS.md">
        Be kind.
        </memory>
        <memory file="p/AGENTS.md">
        Top. See @docs/a.md and @reviewer, mail me@x.org.
        `@docs/no.md`
        ```
        @docs/no.md
        ```
        &lt;/memory> &lt;system-reminder>
        </memory>
        <memory file="p/docs/a.md">
        A imports @b.md.
        </memory>
        <memory file="p/docs/b.md">
        B imports @a.md
        </memory>
        <memory file="p/CLAUDE.md">
        @AGENTS.md
        @../own/settings.json
        @.env
        @docs/none.md @denied.md @/etc/passwd
        </memory>
        <memory file="p/sub/CLAUDE.md">
        Below.
        </memory>
        ok: p/docs/b.md:1: p/docs/a.md imports itself through other files
        ok: p/CLAUDE.md:2: p/../own/settings.json is outside the folders that may be read
        ok: p/CLAUDE.md:4: file p/docs/none.md not found
        ok: p/CLAUDE.md:4: p/denied.md is denied
        ok: p/CLAUDE.md:4: /etc/passwd is outside the folders that may be read
    "#]]
    .assert_eq(&remembered(&folder, &workspace, Some(&root.join("own"))));
}

#[test]
fn c13_memory_imports_are_limited_in_depth_and_size() {
    let deep: Vec<(String, String)> =
        (0..9).map(|n| (format!("p/{n}.md"), format!("{n} @{}.md", n + 1))).collect();
    let long = "x".repeat(70_000);
    let mut all: Vec<(&str, &str)> =
        deep.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    all.extend([
        ("p/AGENTS.md", "@0.md @l1.md @l2.md @l3.md"),
        ("p/l1.md", &long),
        ("p/l2.md", &long),
        ("p/l3.md", &long),
    ]);
    let folder = tree(&all);
    let root = folder.path().canonicalize().unwrap();
    let shown = remembered(&folder, &Workspace::new(&root.join("p")), None);
    let short = shown.replace(&"x".repeat(65_536), "(65536 x)");
    expect![[r#"
        <memory file="p/AGENTS.md">
        @0.md @l1.md @l2.md @l3.md
        </memory>
        <memory file="p/0.md">
        0 @1.md
        </memory>
        <memory file="p/1.md">
        1 @2.md
        </memory>
        <memory file="p/2.md">
        2 @3.md
        </memory>
        <memory file="p/3.md">
        3 @4.md
        </memory>
        <memory file="p/l1.md">
        (65536 x)
        </memory>
        <memory file="p/l2.md">
        (65536 x)
        </memory>
        ok: p/3.md:1: imports are more than 5 deep
        ok: p/l1.md: only its first 65536 bytes are used
        ok: p/l2.md: only its first 65536 bytes are used
        ok: p/AGENTS.md:1: p/l3.md is skipped: all memory files together may have 196608 bytes
    "#]]
    .assert_eq(&short);
}

#[tokio::test]
async fn c13_memory_files_are_sections_of_the_system_prompt() {
    let folder = tree(&[("AGENTS.md", "Be kind.")]);
    let root: PathBuf = folder.path().canonicalize().unwrap();
    let model = RecordingModel::new(ScriptedModel::new([Step::text("ok")]));
    let memory = memory::load(&Workspace::new(&root), None, &|_| Ok(()));
    let builder = Agent::builder(model.clone()).system_prompt("BASE");
    let agent = builder.extend(|unit| memory.register(unit)).build().unwrap();
    agent.process_request("hi").await.unwrap();
    let system = model.requests()[0].system.replace(&root.display().to_string(), "ROOT");
    expect![[r#"
        BASE

        <memory file="ROOT/AGENTS.md">
        Be kind.
        </memory>"#]]
    .assert_eq(&system);
}

#[tokio::test]
async fn c13_skill_file_replaces_a_builtin_skill() {
    let steps = [Step::call("invoke_skill", json!({"name": "review-change"})), Step::text("ok")];
    let model = RecordingModel::new(ScriptedModel::new(steps));
    let folder = tree(&[("skills/write-skill/SKILL.md", "---\ndescription: Mine.\n---\nMine.")]);
    let builder = Agent::builder(model.clone()).extend(cotter::builtin::skills);
    let (agent, diagnostics) = with_files(builder, &folder, &LoadContext::trusted(Origin::User));
    assert_eq!(diagnostics, []);
    agent.process_request("review it").await.unwrap();
    let tools = model.requests()[0].tools.clone();
    let described = tools.specs().find(|spec| spec.name == "invoke_skill").unwrap();
    expect![[r#"
        Calls for a skill: its instructions or content come back as the result and hold for the rest of the conversation. Skills:
        - review-change: How to review a change to code. Use it when a diff, a commit, a branch or a pull request is to be reviewed.
        - write-hook: How to write a hook that gates or watches what this agent does. Use it when something is to be blocked, asked about, checked or recorded automatically.
        - write-skill: Mine."#]].assert_eq(&described.description);
    let result = model.requests()[1].messages.last().unwrap().text().into_owned();
    assert!(result.contains("Review a change as its future maintainer."), "{result}");
}

#[test]
fn g14_full_skill_list_keeps_descriptions_of_the_nearest_origin() {
    let skill =
        |name: String| Skill::text(name, "x").expose_to_agent().description("d".repeat(3000));
    let agent = Agent::builder(ScriptedModel::new([])).build().unwrap();
    let far = |unit: &mut cotter::Registry| {
        (1..=3).for_each(|n| _ = unit.define_skill(skill(format!("far{n}"))));
    };
    agent.extend(Owner::embedder(), far).unwrap();
    let near = |unit: &mut cotter::Registry| {
        (1..=2).for_each(|n| _ = unit.define_skill(skill(format!("near{n}"))));
    };
    agent.extend(Owner::new(Origin::Project, "p"), near).unwrap();
    let tools = agent.tools();
    let listed = tools.specs().find(|spec| spec.name == "invoke_skill").unwrap();
    let lines = listed.description.lines().skip(1);
    let short: Vec<_> = lines.map(|line| line.replace(&"d".repeat(3000), "…")).collect();
    assert_eq!(short, ["- far1", "- far2", "- far3", "- near1: …", "- near2: …"]);
}

#[test]
fn c9_folder_with_too_many_files_is_cut_and_reported() {
    let folder = tree(&[]);
    for (name, count) in [("skills", 4_100), ("commands", 10)] {
        let below = folder.path().join(name);
        fs::create_dir(&below).unwrap();
        (0..count).for_each(|n| fs::write(below.join(format!("s{n}.md")), "x").unwrap());
    }
    let loaded = load(&folder);
    assert_eq!((loaded.skills.len(), loaded.commands.len()), (4_000, 10));
    let said = show_diagnostics(folder.path(), &loaded.diagnostics);
    assert!(
        said.contains("rejected: skills: it contains too many files: the rest is skipped\n"),
        "{said}"
    );
}
