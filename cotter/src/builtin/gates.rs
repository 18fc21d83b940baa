//! gates

pub(crate) mod doubts;
pub(crate) mod own_files;
pub(crate) mod project_roots;
pub(crate) mod protected_paths;
pub(crate) mod secrets;
pub(crate) mod system_directories;
