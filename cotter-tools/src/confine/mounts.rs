//! A mount namespace for a command: protected paths are read-only, closed paths are empty.

use std::{
    ffi::CString,
    fs,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    mount::{
        MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    },
    process::DumpableBehavior,
    thread::{UnshareFlags, unshare_unsafe},
};

use crate::confine::Confinement;

impl Confinement {
    /// Gives this process and all it starts this view. False if the machine allows none.
    pub(crate) fn mounts(&self) -> bool {
        let mounts = self.plan_mounts();
        if mounts.is_empty() && self.closed.is_empty() {
            return false;
        }
        if !enter_namespace() {
            return false;
        }
        // A partial view counts as none: protected paths are then guarded and closed ones left out,
        // as without a namespace. Mounts made so far stay read-only.
        mounts.iter().all(|plan| plan.mount().is_ok())
            && self.closed.iter().all(|closed| self.hide(closed).is_ok())
    }

    /// The paths mounted over themselves: existing protected paths, and the folders that contain
    /// them or a closed path. Without the latter, those could be moved away with their folder.
    fn plan_mounts(&self) -> Vec<MountPlan> {
        let mut plans: Vec<MountPlan> = vec![];
        for path in &self.protected {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_symlink() {
                continue;
            }
            let mut roots = self.writes.iter().chain(&self.guarded_writes);
            let parent = path.parent().filter(|parent| !roots.any(|root| root == parent));
            let parent = parent.map(|parent| MountPlan { path: parent.into(), read_only: false });
            let own = MountPlan { path: path.clone(), read_only: true };
            for plan in parent.into_iter().chain([own]) {
                if !plans.iter().any(|other| other.path == plan.path) {
                    plans.push(plan);
                }
            }
        }
        let closed = self.closed.iter().filter(|path| path.exists());
        for above in closed.flat_map(|path| path.ancestors().skip(1)) {
            let inside = |root: &&PathBuf| above.starts_with(root) && above != root.as_path();
            let is_planned = plans.iter().any(|plan| plan.path == above);
            if !is_planned
                && self.writes.iter().chain(&self.guarded_writes).any(|root| inside(&root))
            {
                plans.push(MountPlan { path: above.into(), read_only: false });
            }
        }
        // Parents first: a later mount would hide the mounts below it.
        plans.sort_by_key(|plan| plan.path.components().count());
        plans
    }

    /// Mounts an empty folder or file over a closed one, and opens the open paths within again.
    fn hide(&self, closed: &Path) -> rustix::io::Result<()> {
        let Ok(metadata) = closed.symlink_metadata() else { return Ok(()) };
        if metadata.is_symlink() {
            // Its target is closed under its own path.
            return Ok(());
        }
        if metadata.is_file() {
            return mount_bind("/dev/null", closed);
        }
        let within = self.reads.iter().filter(|read| read.starts_with(closed) && *read != closed);
        let mut open = vec![];
        for path in within {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) {
                open.push((path, fd));
            }
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("none", closed, "tmpfs", flags, c"size=64k,mode=0755")?;
        for (path, fd) in open {
            fs::create_dir_all(path).map_err(|_| rustix::io::Errno::ACCESS)?;
            mount_bind(format!("/proc/self/fd/{}", fd.as_raw_fd()), path)?;
        }
        make_read_only(closed)
    }
}

struct MountPlan {
    path: PathBuf,
    read_only: bool,
}

impl MountPlan {
    fn mount(&self) -> rustix::io::Result<()> {
        // Recursive, so that mounts below stay visible.
        mount_bind_recursive(&self.path, &self.path)?;
        if self.read_only { make_read_only(&self.path) } else { Ok(()) }
    }
}

/// Enters a new mount namespace: as root, or as root of a user namespace with only this user.
fn enter_namespace() -> bool {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    if unshare(UnshareFlags::NEWNS).is_err() {
        // The files in `/proc/self` are writable only while this process is dumpable.
        let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
        let mapped = unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).is_ok()
            && fs::write("/proc/self/setgroups", "deny").is_ok()
            && fs::write("/proc/self/uid_map", format!("{user} {user} 1")).is_ok()
            && fs::write("/proc/self/gid_map", format!("{group} {group} 1")).is_ok();
        let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
        if !mapped {
            return false;
        }
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).is_ok()
}

#[expect(
    unsafe_code,
    reason = "rustix marks it so for the sake of open files, which stay shared here"
)]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: the table of open files is not unshared, and this process has one thread.
    unsafe { unshare_unsafe(flags) }
}

/// Adds "read-only" to a mount and those below it; other attributes stay.
#[expect(unsafe_code, reason = "rustix has no mount_setattr")]
fn make_read_only(path: &Path) -> rustix::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| rustix::io::Errno::INVAL)?;
    let change = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a C string, and the attributes have the given size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(rustix::io::Errno::PERM) }
}
