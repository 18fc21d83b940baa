//! The kernel's own gates. No file can switch them off.

pub(super) mod project_roots;
pub(super) mod system_directories;
pub(super) mod own_files;
pub(super) mod protected_paths;
pub(super) mod doubts;
pub(super) mod secrets;
