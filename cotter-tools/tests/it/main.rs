//! The tools as a user of them sees them, by topic.

mod ask_user;
mod delegate;
mod examples;
mod memory;
