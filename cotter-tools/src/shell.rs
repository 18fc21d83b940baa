//! What a bash command line would touch, worked out before it runs.
//!
//! A command line is read by bash's grammar ([`parse`]), gone through with both ways of every condition
//! ([`walk`]), and every command in it is judged by a table ([`table`]). What cannot be worked out is
//! not understood: a person is asked, whatever rules say.

mod tree;
mod parse;
mod words;
mod expand;
mod glob;
mod state;
mod walk;
mod builtins;
mod names;
mod judge;
mod wrappers;
mod find;
mod options;
mod special;
mod sed;
mod hosts;
mod table;

use std::borrow::Cow;

use cotter::{Place, permission::Zone, text, tool::{Doubt, Facts}};

use self::{state::State, walk::Walk};

/// Everything a bash command line would touch in a place: files, hosts and commands, those within others
/// included. Nothing runs. Whether it will run confined is not known here.
pub fn facts(command: &str, place: &Place) -> Facts {
    if let Some(why) = hidden(command) {
        let doubts = vec![Doubt::NotUnderstood(why)];
        return Facts { doubts, ..Facts::zone(Zone::Build) };
    }
    let mut walk = Walk::new(place);
    walk.text(command, State::new(place));
    walk.facts
}

/// Characters that a person would not see, or that bash reads in another way than it looks.
fn hidden(command: &str) -> Option<String> {
    let odd = |c: char| c == '\r' || c.is_whitespace() && !c.is_ascii() || c.is_control() && !matches!(c, '\n' | '\t');
    let shown = matches!(text::show(command), Cow::Borrowed(_));
    (!shown || command.contains(odd)).then(|| "it has characters that cannot be seen".into())
}
