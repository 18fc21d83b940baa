//! pipeline

pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod decide;
pub mod dry_run;
pub(crate) mod execute;
pub mod explain;
pub(crate) mod nested;
pub(crate) mod question;
