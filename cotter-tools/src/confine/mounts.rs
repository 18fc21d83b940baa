//! A view of the files of its own for a command: what is protected read-only, what is closed empty.

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
    /// Gives this process and all it starts that view. `false` where the machine allows none.
    pub(crate) fn mounts(&self) -> bool {
        let mounts = self.planned();
        if mounts.is_empty() && self.closed.is_empty() {
            return false;
        }
        if !own_namespace() {
            return false;
        }
        // Half a view is none: then protected paths are guarded and closed ones left out, as if there
        // were no namespace. What was mounted read-only stays so.
        mounts.iter().all(|planned| planned.make().is_ok())
            && self.closed.iter().all(|closed| self.hide(closed).is_ok())
    }

    /// What is mounted over itself: protected paths that are there, and the folders that hold them or
    /// something closed, which could be moved away with them otherwise.
    fn planned(&self) -> Vec<MountPlan> {
        let mut planned: Vec<MountPlan> = vec![];
        for path in &self.protected {
            let Ok(about) = path.symlink_metadata() else { continue };
            if about.is_symlink() {
                continue;
            }
            let mut roots = self.writes.iter().chain(&self.guarded_writes);
            let above = path.parent().filter(|above| !roots.any(|root| root == above));
            let above = above.map(|above| MountPlan { path: above.into(), read_only: false });
            for one in above.into_iter().chain([MountPlan { path: path.clone(), read_only: true }])
            {
                if !planned.iter().any(|known| known.path == one.path) {
                    planned.push(one);
                }
            }
        }
        let closed = self.closed.iter().filter(|path| path.exists());
        for above in closed.flat_map(|path| path.ancestors().skip(1)) {
            let inside = |root: &&PathBuf| above.starts_with(root) && above != root.as_path();
            let known = planned.iter().any(|known| known.path == above);
            if !known && self.writes.iter().chain(&self.guarded_writes).any(|root| inside(&root)) {
                planned.push(MountPlan { path: above.into(), read_only: false });
            }
        }
        // What is above comes first: it would hide what was mounted below it.
        planned.sort_by_key(|planned| planned.path.components().count());
        planned
    }

    /// Puts an empty folder or file over a closed one, and opens again what is open within.
    fn hide(&self, closed: &Path) -> rustix::io::Result<()> {
        let Ok(about) = closed.symlink_metadata() else { return Ok(()) };
        if about.is_symlink() {
            // What it leads to is closed under its own name.
            return Ok(());
        }
        if about.is_file() {
            return mount_bind("/dev/null", closed);
        }
        let within = self.reads.iter().filter(|read| read.starts_with(closed) && *read != closed);
        let mut open = vec![];
        for path in within {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(held) = rustix::fs::open(path, flags, Mode::empty()) {
                open.push((path, held));
            }
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("none", closed, "tmpfs", flags, c"size=64k,mode=0755")?;
        for (path, held) in open {
            fs::create_dir_all(path).map_err(|_| rustix::io::Errno::ACCESS)?;
            mount_bind(format!("/proc/self/fd/{}", held.as_raw_fd()), path)?;
        }
        make_read_only(closed)
    }
}

struct MountPlan {
    path: PathBuf,
    read_only: bool,
}

impl MountPlan {
    fn make(&self) -> rustix::io::Result<()> {
        // With what is mounted below, which would be gone otherwise.
        mount_bind_recursive(&self.path, &self.path)?;
        if self.read_only { make_read_only(&self.path) } else { Ok(()) }
    }
}

/// Our own list of mounts: as root, or as the root of a namespace in which only this user exists.
fn own_namespace() -> bool {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    if unshare(UnshareFlags::NEWNS).is_err() {
        // Our own files in `/proc` are ours to write only while this process is an ordinary one.
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

/// Adds "read-only" to whatever holds for a mount and those below it already.
#[expect(unsafe_code, reason = "rustix has no mount_setattr")]
fn make_read_only(path: &Path) -> rustix::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| rustix::io::Errno::INVAL)?;
    let change = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a string with its end, the attributes have the size that is given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(rustix::io::Errno::PERM) }
}
