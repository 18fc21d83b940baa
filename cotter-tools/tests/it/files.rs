//! `write`, `edit`, `glob`, `grep` and `read` in a scratch project: whole conversations.

use std::os::unix::fs::{PermissionsExt, symlink};

use cotter::{
    FnTool, Permit, ToolSpec,
    hooks::points::{ToolPost, ToolPostEvent},
    named,
    permission::{
        Zone,
        facts::Facts,
        rule::{Rule, RuleKind},
    },
};
use cotter_test::{RecordingModel, ScriptedModel, Step};
use cotter_tools::files::tools;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::scratch::Project;

/// Makes calls one after the other, each a step of its own, and compares the whole conversation.
async fn check(
    project: &Project,
    calls: impl IntoIterator<Item = (&str, Value)>,
    expected: Expect,
) {
    let steps = calls.into_iter().map(|(tool, input)| Step::call(tool, input));
    let told = project.run(project.agent(steps).extend(tools)).await;
    expected.assert_eq(&told);
}

fn read(path: &str) -> (&'static str, Value) {
    ("read", json!({"path": path}))
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write", json!({"path": path, "content": content}))
}

fn edit(path: &str, edits: &[(&str, &str)]) -> (&'static str, Value) {
    let edits: Vec<_> = edits.iter().map(|(old, new)| json!({"old": old, "new": new})).collect();
    ("edit", json!({"path": path, "edits": edits}))
}

#[tokio::test]
async fn write_reports_its_effect_and_makes_folders() {
    let project = Project::with(&[("old.txt", "one\n")]);
    check(
        &project,
        [
            write("a/b/new.txt", "one\ntwo\n"),
            write("empty.txt", ""),
            read("old.txt"),
            write("old.txt", "two\n"),
            write("old.txt", "two\n"),
        ],
        expect![[r#"
            call c1.1: write {"path":"a/b/new.txt","content":"one\ntwo\n"}
            result c1.1: created a/b/new.txt, 2 lines
            call c2.1: write {"path":"empty.txt","content":""}
            result c2.1: created empty.txt, 0 lines
            call c3.1: read {"path":"old.txt"}
            result c3.1:      1	one
            call c4.1: write {"path":"old.txt","content":"two\n"}
            result c4.1: replaced old.txt, 1 line
            call c5.1: write {"path":"old.txt","content":"two\n"}
            result c5.1: old.txt held that already, 1 line
        "#]],
    )
    .await;
    assert_eq!(project.get("a/b/new.txt"), "one\ntwo\n");
    assert_eq!(project.tree(), "a a/b a/b/new.txt empty.txt old.txt");
}

#[tokio::test]
async fn edit_replaces_a_unique_text_and_shows_the_difference() {
    let project = Project::with(&[("a.rs", "fn a() {}\nfn b() {}\nfn c() {}\n")]);
    check(
        &project,
        [
            read("a.rs"),
            edit("a.rs", &[("fn b() {}", "fn b() -> u8 {\n    1\n}")]),
            edit("a.rs", &[("fn a", "fn x"), ("fn x", "fn y")]),
        ],
        expect![[r#"
            call c1.1: read {"path":"a.rs"}
            result c1.1:      1	fn a() {}
                 2	fn b() {}
                 3	fn c() {}
            call c2.1: edit {"path":"a.rs","edits":[{"old":"fn b() {}","new":"fn b() -> u8 {\n    1\n}"}]}
            result c2.1: edited a.rs, 1 place
            --- a/a.rs
            +++ b/a.rs
            @@ -1,3 +1,5 @@
             fn a() {}
            -fn b() {}
            +fn b() -> u8 {
            +    1
            +}
             fn c() {}
            call c3.1: edit {"path":"a.rs","edits":[{"old":"fn a","new":"fn x"},{"old":"fn x","new":"fn y"}]}
            result c3.1: edited a.rs, 2 places
            --- a/a.rs
            +++ b/a.rs
            @@ -1,4 +1,4 @@
            -fn a() {}
            +fn y() {}
             fn b() -> u8 {
                 1
             }
        "#]],
    )
    .await;
    assert_eq!(project.get("a.rs"), "fn y() {}\nfn b() -> u8 {\n    1\n}\nfn c() {}\n");
}

#[tokio::test]
async fn failed_edit_changes_nothing_and_names_the_error() {
    let text = "fn main() {\n    let x = 1;\n    let y = 1;\n\tlet z = 1;\n}\n";
    let project = Project::with(&[("a.rs", text)]);
    check(
        &project,
        [
            read("a.rs"),
            edit("a.rs", &[("let x", "let q"), ("= 1", "= 2")]),
            edit("a.rs", &[("let x = 2;", "let x = 3;")]),
            edit("a.rs", &[("    let y = 1;\n    let z = 1;\n", "")]),
            edit("a.rs", &[("entirely different", "x")]),
            edit("a.rs", &[("let x", "let x")]),
            edit("none.rs", &[("a", "b")]),
        ],
        expect![[r#"
            call c1.1: read {"path":"a.rs"}
            result c1.1:      1	fn main() {
                 2	    let x = 1;
                 3	    let y = 1;
                 4		let z = 1;
                 5	}
            call c2.1: edit {"path":"a.rs","edits":[{"old":"let x","new":"let q"},{"old":"= 1","new":"= 2"}]}
            result c2.1 (invalid_args): edit 2: `old` is in a.rs 3 times (lines 2, 3, 4); add the text around it, so that only one place matches
            call c3.1: edit {"path":"a.rs","edits":[{"old":"let x = 2;","new":"let x = 3;"}]}
            result c3.1 (invalid_args): `old` is not in a.rs; nearest is line 2:
                 2	    let x = 1;
            call c4.1: edit {"path":"a.rs","edits":[{"old":"    let y = 1;\n    let z = 1;\n","new":""}]}
            result c4.1 (invalid_args): `old` is not in a.rs as given: its spaces, tabs or line ends are not those of lines 3-4:
                 3	    let y = 1;
                 4		let z = 1;
            call c5.1: edit {"path":"a.rs","edits":[{"old":"entirely different","new":"x"}]}
            result c5.1 (invalid_args): `old` is not in a.rs, nor anything like it
            call c6.1: edit {"path":"a.rs","edits":[{"old":"let x","new":"let x"}]}
            result c6.1 (invalid_args): `old` and `new` are the same
            call c7.1: edit {"path":"none.rs","edits":[{"old":"a","new":"b"}]}
            result c7.1 (not_found): there is no none.rs; `write` makes a new file
        "#]],
    )
    .await;
    assert_eq!(project.get("a.rs"), text);
}

#[tokio::test]
async fn edit_keeps_line_ends_and_a_missing_last_newline() {
    let project =
        Project::with(&[("dos.txt", "one\r\ntwo\r\nthree"), ("mixed.txt", "a\r\nb\nc\n")]);
    check(
        &project,
        [
            read("dos.txt"),
            edit("dos.txt", &[("one\ntwo\n", "1\n2\n2b\n"), ("three", "3")]),
            edit("dos.txt", &[("3\n", "4\n")]),
            read("mixed.txt"),
            edit("mixed.txt", &[("b\nc", "B\nC")]),
        ],
        expect![[r#"
            call c1.1: read {"path":"dos.txt"}
            result c1.1:      1	one
                 2	two
                 3	three
            call c2.1: edit {"path":"dos.txt","edits":[{"old":"one\ntwo\n","new":"1\n2\n2b\n"},{"old":"three","new":"3"}]}
            result c2.1: edited dos.txt, 2 places
            --- a/dos.txt
            +++ b/dos.txt
            @@ -1,3 +1,4 @@
            -one\r
            -two\r
            -three
            \ No newline at end of file
            +1\r
            +2\r
            +2b\r
            +3
            \ No newline at end of file
            call c3.1: edit {"path":"dos.txt","edits":[{"old":"3\n","new":"4\n"}]}
            result c3.1 (invalid_args): `old` is not in dos.txt as given: its spaces, tabs or line ends are not those of line 4:
                 4	3
            call c4.1: read {"path":"mixed.txt"}
            result c4.1:      1	a
                 2	b
                 3	c
            call c5.1: edit {"path":"mixed.txt","edits":[{"old":"b\nc","new":"B\nC"}]}
            result c5.1: edited mixed.txt, 1 place
            --- a/mixed.txt
            +++ b/mixed.txt
            @@ -1,3 +1,3 @@
             a\r
            -b
            -c
            +B
            +C
        "#]],
    )
    .await;
    assert_eq!(project.get("dos.txt"), "1\\r\n2\\r\n2b\\r\n3");
    assert_eq!(project.get("mixed.txt"), "a\\r\nB\nC\n");
}

#[tokio::test]
async fn edit_and_write_need_the_file_to_be_read_first() {
    let project = Project::with(&[("a.txt", "one\n")]);
    check(
        &project,
        [
            edit("a.txt", &[("one", "two")]),
            write("a.txt", "two\n"),
            read("a.txt"),
            write("a.txt", "2\n"),
        ],
        expect![[r#"
            call c1.1: edit {"path":"a.txt","edits":[{"old":"one","new":"two"}]}
            result c1.1 (failed): a.txt exists and was not read yet; read it first, so that nothing in it is lost
            call c2.1: write {"path":"a.txt","content":"two\n"}
            result c2.1 (failed): a.txt exists and was not read yet; read it first, so that nothing in it is lost
            call c3.1: read {"path":"a.txt"}
            result c3.1:      1	one
            call c4.1: write {"path":"a.txt","content":"2\n"}
            result c4.1: replaced a.txt, 1 line
        "#]],
    )
    .await;
    assert_eq!(project.get("a.txt"), "2\n");
}

/// A tool that does something to a file behind the back of the others.
fn somebody(change: impl Fn() + Send + Sync + 'static) -> impl cotter::Tool {
    let spec = ToolSpec::new("somebody", "changes something", json!({"type": "object"}));
    let change = std::sync::Arc::new(change);
    FnTool::new(spec, move |_: Permit| {
        let change = change.clone();
        async move {
            change();
            Ok("did".into())
        }
    })
    .with_facts(Facts::zone(Zone::Safe))
}

#[tokio::test]
async fn edit_refuses_a_file_changed_since_it_was_read() {
    let project = Project::with(&[("a.txt", "one\n"), ("b.txt", "one\n")]);
    let (a, b) = (project.root.join("a.txt"), project.root.join("b.txt"));
    let change = move || {
        std::fs::write(&a, "ONE\n").unwrap();
        std::fs::write(&b, "one\n").unwrap();
    };
    let calls = [
        read("a.txt"),
        read("b.txt"),
        ("somebody", json!({})),
        edit("a.txt", &[("ONE", "two")]),
        write("a.txt", "two\n"),
        edit("b.txt", &[("one", "two")]),
        read("a.txt"),
        edit("a.txt", &[("ONE", "two")]),
    ];
    let steps = calls.into_iter().map(|(tool, input)| Step::call(tool, input));
    let agent = project.agent(steps).extend(tools).tool(somebody(change));
    expect![[r#"
        call c1.1: read {"path":"a.txt"}
        result c1.1:      1	one
        call c2.1: read {"path":"b.txt"}
        result c2.1:      1	one
        call c3.1: somebody {}
        result c3.1: did
        call c4.1: edit {"path":"a.txt","edits":[{"old":"ONE","new":"two"}]}
        result c4.1 (failed): a.txt has changed since it was read; read it again before you change it
        call c5.1: write {"path":"a.txt","content":"two\n"}
        result c5.1 (failed): a.txt has changed since it was read; read it again before you change it
        call c6.1: edit {"path":"b.txt","edits":[{"old":"one","new":"two"}]}
        result c6.1: edited b.txt, 1 place
        --- a/b.txt
        +++ b/b.txt
        @@ -1 +1 @@
        -one
        +two
        call c7.1: read {"path":"a.txt"}
        result c7.1:      1	ONE
        call c8.1: edit {"path":"a.txt","edits":[{"old":"ONE","new":"two"}]}
        result c8.1: edited a.txt, 1 place
        --- a/a.txt
        +++ b/a.txt
        @@ -1 +1 @@
        -ONE
        +two
    "#]].assert_eq(&project.run(agent).await);
    assert_eq!(project.get("a.txt"), "two\n");
}

/// A hook that acts like a formatter: it puts spaces around every `=`.
fn formatter(ran: &ToolPostEvent) {
    for path in &ran.facts.writes {
        let text = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, text.replace(" = ", "=").replace('=', " = ")).unwrap();
    }
}

#[tokio::test]
async fn edit_knows_and_reports_changes_of_a_hook_after_a_write() {
    let project = Project::with(&[]);
    let both = Step::call("write", json!({"path": "a.txt", "content": "a=1\nb=2\n"}))
        .and_call("edit", json!({"path": "a.txt", "edits": [{"old": "b = 2", "new": "b=3"}]}));
    let last = Step::call("edit", edit("a.txt", &[("a = 1", "a = 0")]).1);
    let model = RecordingModel::new(ScriptedModel::new([both, last, Step::text("done")]));
    let agent = cotter::Agent::builder(model.clone())
        .workspace(cotter::Workspace::new(&project.root))
        .extend(tools)
        .observe(ToolPost, named("formatter", formatter).tools(["write", "edit"]));
    project.run(agent).await;
    expect![[r#"
        user: go
        --
        user: go
        call c1.1: write {"path":"a.txt","content":"a=1\nb=2\n"}
        call c1.2: edit {"path":"a.txt","edits":[{"old":"b = 2","new":"b=3"}]}
        result c1.1: created a.txt, 2 lines
        result c1.2: edited a.txt, 1 place
        --- a/a.txt
        +++ b/a.txt
        @@ -1,2 +1,2 @@
         a = 1
        -b = 2
        +b=3
        note: <system-reminder>
        From the tool "write": a hook changed a.txt after it was written:
        --- a/a.txt
        +++ b/a.txt
        @@ -1,2 +1,2 @@
        -a=1
        -b=2
        +a = 1
        +b = 2
        </system-reminder>
        <system-reminder>
        From the tool "edit": a hook changed a.txt after it was written:
        --- a/a.txt
        +++ b/a.txt
        @@ -1,2 +1,2 @@
         a = 1
        -b=3
        +b = 3
        </system-reminder>
        --
        user: go
        call c1.1: write {"path":"a.txt","content":"a=1\nb=2\n"}
        call c1.2: edit {"path":"a.txt","edits":[{"old":"b = 2","new":"b=3"}]}
        result c1.1: created a.txt, 2 lines
        result c1.2: edited a.txt, 1 place
        --- a/a.txt
        +++ b/a.txt
        @@ -1,2 +1,2 @@
         a = 1
        -b = 2
        +b=3
        note: <system-reminder>
        From the tool "write": a hook changed a.txt after it was written:
        --- a/a.txt
        +++ b/a.txt
        @@ -1,2 +1,2 @@
        -a=1
        -b=2
        +a = 1
        +b = 2
        </system-reminder>
        <system-reminder>
        From the tool "edit": a hook changed a.txt after it was written:
        --- a/a.txt
        +++ b/a.txt
        @@ -1,2 +1,2 @@
         a = 1
        -b=3
        +b = 3
        </system-reminder>
        call c2.1: edit {"path":"a.txt","edits":[{"old":"a = 1","new":"a = 0"}]}
        result c2.1: edited a.txt, 1 place
        --- a/a.txt
        +++ b/a.txt
        @@ -1,2 +1,2 @@
        -a = 1
        +a = 0
         b = 3
    "#]]
    .assert_eq(&model.shown());
    assert_eq!(project.get("a.txt"), "a = 0\nb = 3\n");
}

#[tokio::test]
async fn reopened_session_must_read_files_again() {
    let project = Project::with(&[("a.txt", "one\n")]);
    let steps = [read("a.txt"), edit("a.txt", &[("one", "two")])]
        .map(|(tool, input)| Step::call(tool, input));
    let [first, second] = steps;
    let agent = project.agent([first, Step::text("read"), second]).extend(tools).build().unwrap();
    let one = agent.new_session().await.unwrap();
    one.prompt("read").await.unwrap();
    let two = agent.new_session().await.unwrap();
    two.prompt("edit").await.unwrap();
    let told = cotter_test::transcript(&two);
    assert!(told.contains("(failed): a.txt exists and was not read yet"), "{told}");
}

#[tokio::test]
async fn glob_finds_matches_and_skips_ignored_or_hidden_files() {
    let project = Project::with(&[
        (".gitignore", "target\n*.log\n!keep.log\n"),
        (".git/config", "x"),
        (".git/info/exclude", "private.rs\n"),
        (".github/workflows/ci.yml", "x"),
        ("Cargo.toml", "x"),
        ("keep.log", "x"),
        ("private.rs", "x"),
        ("run.log", "x"),
        ("src/.ignore", "made.rs\n"),
        ("src/lib.rs", "x"),
        ("src/made.rs", "x"),
        ("src/a/mod.rs", "x"),
        ("target/debug/x.rs", "x"),
    ]);
    symlink("..", project.root.join("up")).unwrap();
    symlink("/etc/hostname", project.root.join("link.rs")).unwrap();
    let glob = |pattern: &str| ("glob", json!({"pattern": pattern}));
    check(
        &project,
        [
            glob("*.rs"),
            glob("**/*.{toml,log}"),
            glob("./src/*.rs"),
            glob(".github/**"),
            glob("**/.gitignore"),
            ("glob", json!({"pattern": "*.rs", "path": "target"})),
            ("glob", json!({"pattern": "*", "path": "src"})),
            glob("../*"),
            glob("/etc/*"),
            glob("{a"),
            ("glob", json!({"pattern": "*", "path": "up"})),
            ("glob", json!({"pattern": "*", "path": "Cargo.toml"})),
            ("glob", json!({"pattern": "*", "path": "none"})),
        ],
        expect![[r#"
            call c1.1: glob {"pattern":"*.rs"}
            result c1.1: link.rs
            src/a/mod.rs
            src/lib.rs
            call c2.1: glob {"pattern":"**/*.{toml,log}"}
            result c2.1: Cargo.toml
            keep.log
            call c3.1: glob {"pattern":"./src/*.rs"}
            result c3.1: src/lib.rs
            call c4.1: glob {"pattern":".github/**"}
            result c4.1: .github/workflows/ci.yml
            call c5.1: glob {"pattern":"**/.gitignore"}
            result c5.1: .gitignore
            call c6.1: glob {"pattern":"*.rs","path":"target"}
            result c6.1: target/debug/x.rs
            call c7.1: glob {"pattern":"*","path":"src"}
            result c7.1: src/a/mod.rs
            src/lib.rs
            call c8.1: glob {"pattern":"../*"}
            result c8.1 (invalid_args): `../*`: a pattern matches paths below a folder; name another folder with `path`
            call c9.1: glob {"pattern":"/etc/*"}
            result c9.1 (invalid_args): `/etc/*`: a pattern matches paths below a folder; name another folder with `path`
            call c10.1: glob {"pattern":"{a"}
            result c10.1 (invalid_args): error parsing glob '**/{a': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
            call c11.1: glob {"pattern":"*","path":"up"}
            result c11.1 (denied): Hook "project-roots" blocked the action: OUTSIDE is outside the project. Adjust your approach; do not retry the exact same call.
            call c12.1: glob {"pattern":"*","path":"Cargo.toml"}
            result c12.1 (invalid_args): Cargo.toml is not a folder
            call c13.1: glob {"pattern":"*","path":"none"}
            result c13.1 (not_found): there is no none
        "#]],
    )
    .await;
}

#[tokio::test]
async fn glob_reports_how_many_matches_it_omits() {
    let project = Project::with(&[]);
    (0..1003).for_each(|n| project.put(&format!("{n:04}.txt"), ""));
    let step = Step::call("glob", json!({"pattern": "*.txt"}));
    let told = project.run(project.agent([step]).extend(tools)).await;
    assert!(told.contains("\n0999.txt\n… and 3 more; narrow the pattern\n"), "{told}");
}

#[tokio::test]
async fn grep_finds_lines_and_reports_skipped_files() {
    let project = Project::with(&[
        (".gitignore", "target\n"),
        (".env", "TOKEN=needle\n"),
        ("key.pem", "needle\n"),
        ("a.txt", "one\ntwo needle\nthree\nfour\nNeedle five\n"),
        ("b/c.rs", "// needle\n"),
        ("private/p.txt", "needle\n"),
        ("target/t.txt", "needle\n"),
    ]);
    project.put("bin", b"needle\n\0\n");
    project.put("latin.txt", b"caf\xe9 needle\n");
    symlink("/etc", project.root.join("link")).unwrap();
    let calls = [
        json!({"pattern": "needle"}),
        json!({"pattern": "NEEDLE", "ignore_case": true, "glob": "*.txt"}),
        json!({"pattern": "two|five", "context": 1, "path": "a.txt"}),
        json!({"pattern": "needle", "limit": 1}),
        json!({"pattern": "needle", "path": ".env"}),
        json!({"pattern": "needle", "glob": ".env"}),
        json!({"pattern": "nothing at all"}),
        json!({"pattern": "("}),
        json!({"pattern": "needle", "path": "private/p.txt"}),
        json!({"pattern": "root", "path": "link"}),
    ];
    let steps = calls.map(|input| Step::call("grep", input));
    let agent = project.agent(steps).extend(tools);
    let agent = agent.rule(Rule::parse(RuleKind::Deny, "read(private)").unwrap());
    expect![[r#"
        call c1.1: grep {"pattern":"needle"}
        result c1.1: a.txt:2:two needle
        b/c.rs:1:// needle
        latin.txt:1:caf� needle
        (1 file left out: binary)
        (2 files left out: a secret by name, or a rule keeps it back; `path` names one)
        call c2.1: grep {"pattern":"NEEDLE","ignore_case":true,"glob":"*.txt"}
        result c2.1: a.txt:2:two needle
        a.txt:5:Needle five
        latin.txt:1:caf� needle
        (1 file left out: a secret by name, or a rule keeps it back; `path` names one)
        call c3.1: grep {"pattern":"two|five","context":1,"path":"a.txt"}
        result c3.1: a.txt-1-one
        a.txt:2:two needle
        a.txt-3-three
        a.txt-4-four
        a.txt:5:Needle five
        call c4.1: grep {"pattern":"needle","limit":1}
        result c4.1: a.txt:2:two needle
        … this is the limit (1), and there is more; narrow the search, or give a higher `limit`
        call c5.1: grep {"pattern":"needle","path":".env"}
        result c5.1: .env:1:TOKEN=needle
        SecretRead(".env")
        call c6.1: grep {"pattern":"needle","glob":".env"}
        result c6.1: no line in . matches
        (1 file left out: a secret by name, or a rule keeps it back; `path` names one)
        call c7.1: grep {"pattern":"nothing at all"}
        result c7.1: no line in . matches
        (1 file left out: binary)
        (2 files left out: a secret by name, or a rule keeps it back; `path` names one)
        call c8.1: grep {"pattern":"("}
        result c8.1 (invalid_args): invalid pattern: regex parse error:
            (?:()
            ^
        error: unclosed group
        call c9.1: grep {"pattern":"needle","path":"private/p.txt"}
        result c9.1 (denied): Denied: the rule `deny read(private)` denies it. Do not retry this exact call.
        call c10.1: grep {"pattern":"root","path":"link"}
        result c10.1 (denied): Hook "project-roots" blocked the action: /etc is outside the project. Adjust your approach; do not retry the exact same call.
    "#]].assert_eq(&project.run(agent).await);
}

#[tokio::test]
async fn read_names_the_kind_of_a_binary_file() {
    let project = Project::with(&[("folder/x", "")]);
    project.put("program", b"\x7fELF\x02\x01\x01\0\0");
    project.put("archive.zip", b"PK\x03\x04\x14\0");
    project.put("data", b"ab\0cd");
    project.put("paper.pdf", b"%PDF-1.7\n");
    project.put("utf16.txt", b"\xff\xfea\0b\0");
    let mut late = vec![b'a'; 9000];
    late.extend(b"\nb\n\0\n");
    project.put("late", late);
    let calls = ["program", "archive.zip", "data", "paper.pdf", "utf16.txt", "late", "folder"];
    check(&project, calls.map(read), expect![[r#"
        call c1.1: read {"path":"program"}
        result c1.1 (invalid_args): program is not text: a program, 9 bytes
        call c2.1: read {"path":"archive.zip"}
        result c2.1 (invalid_args): archive.zip is not text: a zip archive, or a document in one, 6 bytes
        call c3.1: read {"path":"data"}
        result c3.1 (invalid_args): data is not text: binary data, 5 bytes
        call c4.1: read {"path":"paper.pdf"}
        result c4.1 (invalid_args): paper.pdf is not text: a PDF document, 9 bytes
        call c5.1: read {"path":"utf16.txt"}
        result c5.1 (invalid_args): utf16.txt is not text: text in UTF-16, 6 bytes
        call c6.1: read {"path":"late"}
        result c6.1 (invalid_args): late is not text: line 3 has a zero byte
        call c7.1: read {"path":"folder"}
        result c7.1 (invalid_args): folder is a folder; `list` shows its contents
    "#]]).await;
}

/// Odd paths in a file system, and the results of calls with them.
#[tokio::test]
async fn s16_odd_paths_have_specific_errors() {
    let project = Project::with(&[("folder/x", "x\n"), ("shut.txt", "x\n"), ("Case.txt", "x\n")]);
    std::fs::write(project.outside.join("secret.txt"), "secret\n").unwrap();
    symlink("../secret.txt", project.root.join("out.txt")).unwrap();
    symlink("folder/x", project.root.join("in.txt")).unwrap();
    let pipe = project.root.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let shut = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(project.root.join("shut.txt"), shut).unwrap();
    let long = "n".repeat(300);
    let within = format!("/proc/self/root{}/folder/x", project.root.display());
    let calls = [
        read("out.txt"),
        write("out.txt", "mine\n"),
        write("../new.txt", "mine\n"),
        write("folder/../../new.txt", "mine\n"),
        read("in.txt"),
        edit("in.txt", &[("x", "y")]),
        read("/proc/self/root/etc/passwd"),
        read("/proc/self/environ"),
        (read("").0, json!({"path": within})),
        read("pipe"),
        write("pipe", "x"),
        read("/dev/zero"),
        write("/dev/null", "x"),
        write("folder", "x"),
        write("folder/x/below", "x"),
        read("shut.txt"),
        write("shut.txt", "y\n"),
        edit("shut.txt", &[("x", "y")]),
        read("case.txt"),
        write("a\0b", "x"),
        read("a\0b"),
        write(&format!("made/{long}"), "x"),
    ];
    let steps = calls.map(|(tool, input)| Step::call(tool, input));
    let told = project.run(project.agent(steps).extend(tools)).await;
    let told = told.replace(&format!("/proc/{}/", std::process::id()), "/proc/PID/");
    expect![[r#"
        call c1.1: read {"path":"out.txt"}
        result c1.1 (denied): Hook "project-roots" blocked the action: OUTSIDE/secret.txt is outside the project. Adjust your approach; do not retry the exact same call.
        call c2.1: write {"path":"out.txt","content":"mine\n"}
        result c2.1 (denied): Hook "project-roots" blocked the action: OUTSIDE/secret.txt is outside the project. Adjust your approach; do not retry the exact same call.
        call c3.1: write {"path":"../new.txt","content":"mine\n"}
        result c3.1 (denied): Hook "project-roots" blocked the action: OUTSIDE/new.txt is outside the project. Adjust your approach; do not retry the exact same call.
        call c4.1: write {"path":"folder/../../new.txt","content":"mine\n"}
        result c4.1 (denied): Hook "project-roots" blocked the action: OUTSIDE/new.txt is outside the project. Adjust your approach; do not retry the exact same call.
        call c5.1: read {"path":"in.txt"}
        result c5.1:      1	x
        call c6.1: edit {"path":"in.txt","edits":[{"old":"x","new":"y"}]}
        result c6.1: edited folder/x, 1 place
        --- a/folder/x
        +++ b/folder/x
        @@ -1 +1 @@
        -x
        +y
        call c7.1: read {"path":"/proc/self/root/etc/passwd"}
        result c7.1 (denied): Hook "project-roots" blocked the action: /etc/passwd is outside the project. Adjust your approach; do not retry the exact same call.
        call c8.1: read {"path":"/proc/self/environ"}
        result c8.1 (denied): Hook "project-roots" blocked the action: /proc/PID/environ is outside the project. Adjust your approach; do not retry the exact same call.
        call c9.1: read {"path":"/proc/self/rootOUTSIDE/project/folder/x"}
        result c9.1 (denied): Hook "project-roots" blocked the action: /proc/self/rootOUTSIDE/project/folder/x is outside the project. Adjust your approach; do not retry the exact same call.
        call c10.1: read {"path":"pipe"}
        result c10.1 (invalid_args): pipe is a pipe, not a file
        call c11.1: write {"path":"pipe","content":"x"}
        result c11.1 (invalid_args): pipe is a pipe, not a file
        call c12.1: read {"path":"/dev/zero"}
        result c12.1 (invalid_args): /dev/zero is a device, not a file
        call c13.1: write {"path":"/dev/null","content":"x"}
        result c13.1 (invalid_args): /dev/null is a device, not a file
        call c14.1: write {"path":"folder","content":"x"}
        result c14.1 (invalid_args): folder is a folder, not a file
        call c15.1: write {"path":"folder/x/below","content":"x"}
        result c15.1 (failed): cannot write folder/x/below: Not a directory (os error 20)
        call c16.1: read {"path":"shut.txt"}
        result c16.1:      1	x
        call c17.1: write {"path":"shut.txt","content":"y\n"}
        result c17.1 (failed): cannot change shut.txt: it is read-only
        call c18.1: edit {"path":"shut.txt","edits":[{"old":"x","new":"y"}]}
        result c18.1 (failed): cannot change shut.txt: it is read-only
        call c19.1: read {"path":"case.txt"}
        result c19.1 (not_found): cannot read case.txt: No such file or directory (os error 2)
        call c20.1: write {"path":"a\u0000b","content":"x"}
        result c20.1 (invalid_args): "a\0b": a path cannot hold a zero byte
        call c21.1: read {"path":"a\u0000b"}
        result c21.1 (failed): cannot read a\0b: a path cannot hold a zero byte
        call c22.1: write {"path":"made/NNN","content":"x"}
        result c22.1 (failed): cannot change made/NNN: File name too long (os error 36)
    "#]].assert_eq(&told.replace(&long, "NNN").replace('\0', "\\0"));
    let link = std::fs::symlink_metadata(project.root.join("in.txt")).unwrap();
    assert!(link.is_symlink(), "the link itself stays");
    assert_eq!(project.get("folder/x"), "y\n");
    assert_eq!(std::fs::read_to_string(project.outside.join("secret.txt")).unwrap(), "secret\n");
    assert_eq!(project.tree(), "Case.txt folder folder/x in.txt out.txt pipe shut.txt");
}

#[tokio::test]
async fn edit_of_a_hard_link_changes_only_that_name() {
    let project = Project::with(&[("a.txt", "one\n")]);
    std::fs::write(project.outside.join("far.txt"), "far\n").unwrap();
    std::fs::hard_link(project.outside.join("far.txt"), project.root.join("near.txt")).unwrap();
    check(
        &project,
        [read("near.txt"), edit("near.txt", &[("far", "near")]), write("near.txt", "x\n")],
        expect![[r#"
            call c1.1: read {"path":"near.txt"}
            result c1.1:      1	far
            call c2.1: edit {"path":"near.txt","edits":[{"old":"far","new":"near"}]}
            result c2.1: edited near.txt, 1 place; it has other names (hard links), which keep the old text
            --- a/near.txt
            +++ b/near.txt
            @@ -1 +1 @@
            -far
            +near
            call c3.1: write {"path":"near.txt","content":"x\n"}
            result c3.1: replaced near.txt, 1 line
        "#]],
    )
    .await;
    assert_eq!(std::fs::read_to_string(project.outside.join("far.txt")).unwrap(), "far\n");
}

#[tokio::test]
async fn edit_keeps_the_mode_and_huge_files_are_not_loaded() {
    let project = Project::with(&[("run.sh", "#!/bin/sh\n")]);
    let mode =
        |path: &str| std::fs::metadata(project.root.join(path)).unwrap().permissions().mode();
    let script = std::fs::Permissions::from_mode(0o751);
    std::fs::set_permissions(project.root.join("run.sh"), script).unwrap();
    let huge = std::fs::File::create(project.root.join("huge.bin")).unwrap();
    huge.set_len(10 * 1024 * 1024 * 1024).unwrap();
    project.put("line.txt", [b"x".repeat(10 * 1024 * 1024), b"\nneedle\n".to_vec()].concat());
    project.put("bytes.txt", b"ok\n\xff\xfe\n");
    let calls = [
        read("run.sh"),
        edit("run.sh", &[("/bin/sh", "/bin/bash")]),
        read("huge.bin"),
        write("huge.bin", "x"),
        ("grep", json!({"pattern": "needle"})),
        read("line.txt"),
        edit("line.txt", &[("needle", "thread")]),
        read("bytes.txt"),
        edit("bytes.txt", &[("ok", "no")]),
    ];
    let steps = calls.map(|(tool, input)| Step::call(tool, input));
    let told = project.run(project.agent(steps).extend(tools)).await;
    expect![[r#"
        call c1.1: read {"path":"run.sh"}
        result c1.1:      1	#!/bin/sh
        call c2.1: edit {"path":"run.sh","edits":[{"old":"/bin/sh","new":"/bin/bash"}]}
        result c2.1: edited run.sh, 1 place
        --- a/run.sh
        +++ b/run.sh
        @@ -1 +1 @@
        -#!/bin/sh
        +#!/bin/bash
        call c3.1: read {"path":"huge.bin"}
        result c3.1 (invalid_args): huge.bin is not text: binary data, 10737418240 bytes
        call c4.1: write {"path":"huge.bin","content":"x"}
        result c4.1: replaced huge.bin, 1 line
        call c5.1: grep {"pattern":"needle"}
        result c5.1: line.txt:2:needle
        call c6.1: read {"path":"line.txt"}
        result c6.1:      1	Xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
             2	needle
        call c7.1: edit {"path":"line.txt","edits":[{"old":"needle","new":"thread"}]}
        result c7.1: edited line.txt, 1 place
        --- a/line.txt
        +++ b/line.txt
        @@ -1,2 +1,2 @@
         XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        … [10436697 bytes left out] …
        XXXXXXXXXXXXXXXXxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        -needle
        +thread
        call c8.1: read {"path":"bytes.txt"}
        result c8.1:      1	ok
             2	��
        call c9.1: edit {"path":"bytes.txt","edits":[{"old":"ok","new":"no"}]}
        result c9.1 (invalid_args): bytes.txt is not UTF-8 text: line 2 has other bytes
    "#]].assert_eq(&told.replace(&"x".repeat(1000), "X"));
    assert_eq!(mode("run.sh") & 0o777, 0o751);
}

/// A full disk leaves the old file. The test starts itself again with a limit on the size of files; the second
/// process writes its result into a file.
#[tokio::test]
async fn write_on_a_full_disk_keeps_the_old_file() {
    const INTO: &str = "COTTER_TEST_FULL_DISK";
    let project = Project::with(&[("a.txt", "one\n")]);
    if let Some(into) = std::env::var_os(INTO) {
        let long = "x".repeat(100_000);
        let calls = [read("a.txt"), write("a.txt", &long), write("made/b.txt", &long)];
        let steps = calls.map(|(tool, input)| Step::call(tool, input));
        let told = project.run(project.agent(steps).extend(tools)).await.replace(&long, "X");
        let left = format!("{told}left: {}: {}", project.tree(), project.get("a.txt"));
        std::fs::write(into, left).unwrap();
        return;
    }
    let into = project.outside.join("told");
    let started = std::process::Command::new("bash")
        .args(["--norc", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "files::write_on_a_full_disk_keeps_the_old_file"])
        .env(INTO, &into)
        .output()
        .unwrap();
    assert!(started.status.success(), "{started:?}");
    expect![[r#"
        call c1.1: read {"path":"a.txt"}
        result c1.1:      1	one
        call c2.1: write {"path":"a.txt","content":"X"}
        result c2.1 (failed): cannot write a.txt: File too large (os error 27)
        call c3.1: write {"path":"made/b.txt","content":"X"}
        result c3.1 (failed): cannot write made/b.txt: File too large (os error 27)
        left: a.txt: one
    "#]]
    .assert_eq(&std::fs::read_to_string(into).unwrap());
}
