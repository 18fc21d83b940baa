//! Tests that the examples print the expected output.

use std::{error::Error, future::Future};

use expect_test::{Expect, expect};

macro_rules! examples {
    ($($name:ident $path:literal),*) => {
        $(
            #[path = $path]
            #[expect(dead_code, reason = "an example's `main` is not called from here")]
            mod $name;
        )*
    };
}

examples! {
    skill_files "../../examples/skill_files.rs",
    space "../../examples/space.rs"
}

async fn check(example: impl Future<Output = Result<String, Box<dyn Error>>>, expected: Expect) {
    expected.assert_eq(&example.await.expect("the example runs"));
}

#[tokio::test]
async fn c14_space_example_loads_and_unloads() {
    check(space::run(), expect![[r#"
        before: [], a call: pass ""
        loaded: ["tides by space:harbour (harbour)", "pilot by space:harbour (harbour)"], a call: block "nothing is started here"
        after: [], a call: pass ""
    "#]]).await;
}

#[tokio::test]
async fn skill_files_example_loads_and_unloads() {
    check(
        skill_files::run(),
        expect![[r#"
        broken.md, line 4: the pattern `(` cannot be a trigger: unclosed group
        system: <skill name="tides">
        Mind the tide: high water is at noon.
        </skill>
        system: 
    "#]],
    )
    .await;
}
