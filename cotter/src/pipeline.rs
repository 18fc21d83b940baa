//! pipeline

pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod decide;
pub(crate) mod dry_run;
pub(crate) mod execute;
pub(crate) mod explain;
pub(crate) mod nested;
pub(crate) mod question;
