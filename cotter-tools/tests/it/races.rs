//! Folders that are replaced by links during calls: nothing outside is read or written.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use cotter::{
    Verdict,
    hooks::points::{
        ToolPost, ToolPostEvent, ToolPre, ToolPreEvent, ToolRefused, ToolRefusedEvent,
    },
    named,
};
use cotter_test::Step;
use cotter_tools::files::tools;
use expect_test::expect;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::scratch::Project;

/// A project with a folder `dir`, and beside it `link`, which leads to a folder outside with files of
/// the same names.
fn two_faced() -> Project {
    let project = Project::with(&[("dir/a.txt", "inside\n"), ("dir/sub/b.txt", "inside\n")]);
    let far = project.outside.join("far");
    std::fs::create_dir_all(far.join("sub")).unwrap();
    for name in ["a.txt", "sub/b.txt", "sub/only-far.txt", "only-far.txt"] {
        std::fs::write(far.join(name), "from afar\n").unwrap();
    }
    std::os::unix::fs::symlink(&far, project.root.join("link")).unwrap();
    project
}

/// The content of the outside folder.
fn outside(project: &Project) -> Vec<(String, String)> {
    let mut found = vec![];
    for folder in ["far", "far/sub"] {
        for entry in std::fs::read_dir(project.outside.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            found.push((path.display().to_string(), text));
        }
    }
    found.sort();
    found
}

/// Swaps the folder and the link, at once.
fn swap(root: &Path) {
    let (dir, link) = (root.join("dir"), root.join("link"));
    renameat_with(CWD, dir, CWD, link, RenameFlags::EXCHANGE).unwrap();
}

fn calls() -> Vec<(&'static str, Value)> {
    let edit = |old: &str, new: &str| {
        ("edit", json!({"path": "dir/sub/b.txt", "edits": [{"old": old, "new": new}]}))
    };
    vec![
        ("read", json!({"path": "dir/a.txt"})),
        ("write", json!({"path": "dir/new.txt", "content": "mine\n"})),
        ("write", json!({"path": "dir/deep/er/new.txt", "content": "mine\n"})),
        ("read", json!({"path": "dir/sub/b.txt"})),
        edit("inside", "within"),
        edit("within", "inside"),
        edit("from", "by"),
        ("list", json!({"path": "dir/sub"})),
        ("glob", json!({"pattern": "**/*.txt", "path": "dir"})),
        ("glob", json!({"pattern": "**/*.txt"})),
        ("grep", json!({"pattern": "afar", "path": "dir/a.txt"})),
        ("grep", json!({"pattern": "afar"})),
    ]
}

#[tokio::test]
async fn s16_folder_replaced_by_a_link_after_the_decision_is_not_followed() {
    let project = two_faced();
    let before = outside(&project);
    let [there, back, refused] = [0; 3].map(|_| project.root.clone());
    let steps = calls().into_iter().map(|(tool, input)| Step::call(tool, input));
    let agent = project
        .agent(steps)
        .extend(tools)
        .gate(
            ToolPre,
            named("swap", move |_: &ToolPreEvent| {
                swap(&there);
                Verdict::Pass
            }),
        )
        .observe(ToolPost, named("back", move |_: &ToolPostEvent| swap(&back)))
        .observe(ToolRefused, named("back-too", move |_: &ToolRefusedEvent| swap(&refused)));
    expect![[r#"
        call c1.1: read {"path":"dir/a.txt"}
        result c1.1 (failed): cannot read dir/a.txt: the path contains a link, and links are not followed
        call c2.1: write {"path":"dir/new.txt","content":"mine\n"}
        result c2.1 (failed): cannot write dir/new.txt: the path contains a link, and links are not followed
        call c3.1: write {"path":"dir/deep/er/new.txt","content":"mine\n"}
        result c3.1 (failed): cannot write dir/deep/er/new.txt: the path contains a link, and links are not followed
        call c4.1: read {"path":"dir/sub/b.txt"}
        result c4.1 (failed): cannot read dir/sub/b.txt: the path contains a link, and links are not followed
        call c5.1: edit {"path":"dir/sub/b.txt","edits":[{"old":"inside","new":"within"}]}
        result c5.1 (failed): cannot edit dir/sub/b.txt: the path contains a link, and links are not followed
        call c6.1: edit {"path":"dir/sub/b.txt","edits":[{"old":"within","new":"inside"}]}
        result c6.1 (failed): cannot edit dir/sub/b.txt: the path contains a link, and links are not followed
        call c7.1: edit {"path":"dir/sub/b.txt","edits":[{"old":"from","new":"by"}]}
        result c7.1 (failed): cannot edit dir/sub/b.txt: the path contains a link, and links are not followed
        call c8.1: list {"path":"dir/sub"}
        result c8.1 (failed): cannot list dir/sub: the path contains a link, and links are not followed
        call c9.1: glob {"pattern":"**/*.txt","path":"dir"}
        result c9.1 (failed): cannot look into dir: the path contains a link, and links are not followed
        call c10.1: glob {"pattern":"**/*.txt"}
        result c10.1: link/a.txt
        link/sub/b.txt
        call c11.1: grep {"pattern":"afar","path":"dir/a.txt"}
        result c11.1 (failed): cannot search dir/a.txt: the path contains a link, and links are not followed
        call c12.1: grep {"pattern":"afar"}
        result c12.1: no line in . matches
    "#]].assert_eq(&project.run(agent).await);
    assert_eq!(outside(&project), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn s16_folder_swapped_with_a_link_repeatedly_never_leads_outside() {
    let project = two_faced();
    let before = outside(&project);
    let done = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (root, done) = (project.root.clone(), done.clone());
        thread::spawn(move || {
            let mut swaps = 0u64;
            while !done.load(Ordering::Relaxed) || swaps % 2 == 1 {
                swap(&root);
                swaps += 1;
            }
            swaps
        })
    };
    // As many calls as it takes to meet both faces often.
    let rounds = (0..60).flat_map(|_| calls());
    let steps: Vec<_> = rounds.map(|(tool, input)| Step::call(tool, input)).collect();
    let told = project.run(project.agent(steps).extend(tools)).await;
    done.store(true, Ordering::Relaxed);
    assert!(swapping.join().unwrap() > 0);
    let results: String = told.lines().filter(|line| !line.starts_with("call ")).collect();
    assert!(!results.contains("from afar"), "{told}");
    assert!(!results.contains("only-far"), "{told}");
    assert_eq!(outside(&project), before);
}
