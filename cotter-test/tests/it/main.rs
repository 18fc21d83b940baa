//! Tests of the test helpers.
#![expect(clippy::too_many_lines, reason = "tests are tables")]

mod provider;
