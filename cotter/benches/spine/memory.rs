//! The memory of an idle session.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicIsize, Ordering},
};

use cotter::Agent;

use crate::{
    measure::{Goal, Table},
    turns::{Instant, runtime},
};

struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);
/// True while allocations are counted. Counting costs time, so it is off by default.
static COUNT: AtomicBool = AtomicBool::new(false);

fn count(bytes: isize) {
    if COUNT.load(Ordering::Relaxed) {
        HELD.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[expect(unsafe_code, reason = "counting what is held needs an allocator of one's own")]
// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

pub(crate) fn measure(table: &mut Table) {
    const SESSIONS: usize = 10_000;
    if !table.wants("idle session in memory") && !table.wants("10,000 idle sessions") {
        return;
    }
    let agent = Agent::builder(Instant::speaking()).build().expect("the agent builds");
    let runtime = runtime();
    COUNT.store(true, Ordering::Relaxed);
    let before = HELD.load(Ordering::Relaxed);
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|_| runtime.block_on(agent.new_session()).expect("a session is made"))
        .collect();
    let held = (HELD.load(Ordering::Relaxed) - before) as f64;
    COUNT.store(false, Ordering::Relaxed);
    table.add("idle session in memory", held / SESSIONS as f64, Goal::Bytes(1_000.0));
    table.add("10,000 idle sessions", held, Goal::Bytes(25e6));
    drop(sessions);
}
