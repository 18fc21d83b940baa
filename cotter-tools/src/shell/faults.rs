//! Switches rules of the judge off, so that the oracle can prove that it would notice. Without the feature
//! `faults` no rule can be switched off.

#[cfg(feature = "faults")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static RULE_OFF: Cell<Option<u8>> = const { Cell::new(None) };
    }

    /// Switches one rule off for commands judged on this thread, and all others on.
    pub fn switch_off(rule: Option<u8>) {
        RULE_OFF.set(rule);
    }

    pub(crate) fn is_off(rule: u8) -> bool {
        RULE_OFF.get() == Some(rule)
    }
}

#[cfg(feature = "faults")]
pub use switch::switch_off;

/// Every command in the text counts.
pub(crate) const ALL_COMMANDS: u8 = 1;
/// Variables have no values.
pub(crate) const NO_VALUES: u8 = 2;
/// After `cd x;` the folder may be the old one.
pub(crate) const OLD_FOLDER: u8 = 3;
/// A group that may change the folder makes it unknown.
pub(crate) const GROUPS_MOVE: u8 = 4;
/// Functions and traps run in an unknown folder if anything changes it.
pub(crate) const BODIES_MOVE: u8 = 5;
/// A command's name is literal text.
pub(crate) const LITERAL_NAMES: u8 = 6;
/// Text that builtins evaluate is literal, and judged.
pub(crate) const EVALUATED_TEXT: u8 = 7;
/// Every word that may be a file counts as read.
pub(crate) const WORDS_ARE_READ: u8 = 10;
/// An unknown option may write its value.
pub(crate) const UNKNOWN_OPTIONS: u8 = 11;
/// Links that the text makes are known from its beginning.
pub(crate) const EARLY_LINKS: u8 = 12;
/// Every command keeps its own zone.
pub(crate) const OWN_ZONES: u8 = 13;

/// True if a rule is switched off.
pub(crate) fn is_off(rule: u8) -> bool {
    #[cfg(feature = "faults")]
    return switch::is_off(rule);
    #[cfg(not(feature = "faults"))]
    {
        let _ = rule;
        false
    }
}
