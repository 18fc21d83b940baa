//! The kernel's own gates. No file can switch them off.

pub(crate) mod project_roots;
pub(crate) mod system_directories;
pub(crate) mod own_files;
pub(crate) mod protected_paths;
pub(crate) mod doubts;
pub(crate) mod secrets;
