//! Tests of the parts that tests are made of.
#![expect(clippy::too_many_lines, reason = "tests are tables")]

mod provider;
