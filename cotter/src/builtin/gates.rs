//! The kernel gates. No file can disable them.

pub(super) mod project_roots;
pub(super) mod system_directories;
pub(super) mod own_files;
pub(super) mod protected_paths;
pub(super) mod doubts;
pub(super) mod secret_then_network;
