//! The memory of an idle session.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicIsize, Ordering},
};

use cotter::Agent;

use crate::{
    measure::{Goal, Table},
    turns::{InstantModel, runtime},
};

/// The system's allocator with a count of the allocated bytes.
struct CountingAllocator;

/// The bytes that were allocated and not yet freed while counting.
static ALLOCATED: AtomicIsize = AtomicIsize::new(0);
/// True while allocations are counted. Counting costs time, so it is off by default.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

fn count(bytes: isize) {
    if IS_COUNTING.load(Ordering::Relaxed) {
        ALLOCATED.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[expect(unsafe_code, reason = "counting allocations needs a custom allocator")]
// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
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
    let agent = Agent::builder(InstantModel::with_text()).build().expect("the agent builds");
    let runtime = runtime();
    IS_COUNTING.store(true, Ordering::Relaxed);
    let before = ALLOCATED.load(Ordering::Relaxed);
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|_| runtime.block_on(agent.new_session()).expect("a session is made"))
        .collect();
    let allocated = (ALLOCATED.load(Ordering::Relaxed) - before) as f64;
    IS_COUNTING.store(false, Ordering::Relaxed);
    table.add("idle session in memory", allocated / SESSIONS as f64, Goal::Bytes(1_000.0));
    table.add("10,000 idle sessions", allocated, Goal::Bytes(25e6));
    drop(sessions);
}
