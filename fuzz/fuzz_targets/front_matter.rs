//! Bytes as a file with front matter. What must hold of any is written where it is read.

#![no_main]

use cotter_files::folder::front_matter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| front_matter::check_invariants(bytes));
