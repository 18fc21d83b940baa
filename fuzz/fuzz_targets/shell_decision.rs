//! Text as a shell command, from parser to decision. What must hold is written where the tests are.

#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;

#[path = "../../cotter-tools/tests/it/decision.rs"]
mod decision;
#[expect(dead_code, reason = "the tests use the rest of it")]
#[path = "../../cotter-tools/tests/it/kit.rs"]
mod kit;

thread_local! {
    static JUDGE: OnceCell<decision::Judge> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    JUDGE.with(|judge| judge.get_or_init(decision::Judge::new).check(bytes));
});
