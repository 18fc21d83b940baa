//! The file tools `write`, `edit`, `glob` and `grep`, beside the core's `read` and `list`.
//!
//! Each tool opens exactly the path that was decided on and follows no link on the way. The model
//! may change only a file whose current content it has seen: an existing file must be read before
//! it is edited or overwritten, and read again after another program changed it. A hook at
//! `tool.post`, such as a formatter, may change a file that was just written. The file is then read
//! again here, and the model gets a note with the difference.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cotter::{Agent, Workspace};
//! use cotter_test::{ScriptedModel, Step, transcript};
//! use serde_json::json;
//!
//! # let folder = tempfile::tempdir()?;
//! # let project = folder.path().canonicalize()?;
//! let write = Step::call("write", json!({"path": "notes/tea.txt", "content": "tea at four\n"}));
//! let edit = Step::call(
//!     "edit",
//!     json!({"path": "notes/tea.txt", "edits": [{"old": "four", "new": "five"}]}),
//! );
//! let agent = Agent::builder(ScriptedModel::new([write, edit, Step::text("Tea is at five.")]))
//!     .workspace(Workspace::new(&project))
//!     .extend(cotter_tools::files::tools)
//!     .build()?;
//! agent.process_request("Plan tea.").await?;
//! assert_eq!(std::fs::read_to_string(project.join("notes/tea.txt"))?, "tea at five\n");
//! assert!(transcript(&agent.main_session().await?).contains("-tea at four\n+tea at five"));
//! # Ok(())
//! # }
//! ```

pub(crate) mod change;
pub(crate) mod disk;
pub(crate) mod edit;
pub(crate) mod find;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod walk;
pub(crate) mod write;

use cotter::{Registry, builtin};

pub use crate::files::{edit::Edit, glob::Glob, grep::Grep, write::Write};

/// An extension with all file tools, including `read` and `list`.
pub fn tools(unit: &mut Registry) {
    unit.tool(builtin::Read::default())
        .tool(builtin::List::default())
        .tool(Write::default())
        .tool(Edit::default())
        .tool(Glob::default())
        .tool(Grep::default());
}
