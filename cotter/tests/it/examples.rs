//! The examples do what they say.

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
    permission_gate "../../examples/permission_gate.rs",
    metering "../../examples/metering.rs",
    result_cache "../../examples/result_cache.rs"
}

async fn check(example: impl Future<Output = Result<String, Box<dyn Error>>>, expected: Expect) {
    expected.assert_eq(&example.await.expect("the example runs"));
}

#[tokio::test]
async fn a_gate_passes_asks_and_blocks() {
    check(permission_gate::run(), expect![[r#"
        asked: git {"args":"push"} <- mind-the-remote: others will see it

        user: Push my work.
        call c1.1: git {"args":"status"}
        call c1.2: git {"args":"push"}
        call c1.3: git {"args":"push --force"}
        result c1.1: (pretended) git status
        result c1.2: (pretended) git push
        result c1.3 (denied): Hook "mind-the-remote" blocked the action: it would rewrite shared history. Adjust your approach; do not retry the exact same call.
        assistant: Pushed, without force.
    "#]]).await;
}

#[tokio::test]
async fn an_observer_meters() {
    check(
        metering::run(),
        expect![[r#"
        end_turn: test/scripted, replies 1, tokens 1000, 0.002 USD
        end_turn: test/scripted, replies 2, tokens 2000, 0.004 USD
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_cache_answers_in_the_tools_stead() {
    check(
        result_cache::run(),
        expect![[r#"
        the tool ran 1 time
        "c1.1": "pass"
        "c2.1": "answer"
    "#]],
    )
    .await;
}
