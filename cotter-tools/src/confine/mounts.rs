//! A view of the file system for a command: everything but the write roots is read-only, protected
//! paths within them too, and closed or secret paths are empty.
//!
//! A view is a mount namespace. Making one takes longer than everything else, so a minder makes it
//! before a call arrives ([`PreparedView`]). What the call may write is mounted when it is known.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::{CString, c_int, c_void},
    fs,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags},
    io::Errno,
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind,
        mount_bind_recursive, mount_change, move_mount, open_tree,
    },
    process::DumpableBehavior,
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

use cotter::permission::secret_files::is_secret;

use crate::confine::Confinement;

/// Namespaces that a command can enter once: its own mounts, its own System V IPC, and for an
/// ordinary user a user namespace that allows both.
pub(crate) struct PreparedView {
    user: Option<OwnedFd>,
    ipc: OwnedFd,
    mounts: OwnedFd,
    /// Becomes readable when the mounts of this machine change.
    changes: OwnedFd,
}

impl PreparedView {
    /// Makes the namespaces; this process stays in its own.
    pub(crate) fn new() -> Result<Self, String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let changes = rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty())
            .map_err(|cause| format!("cannot watch the mounts of this machine: {cause}"))?;
        let mut made = MadeNamespaces::default();
        make_in_child(&mut made)?;
        if let Some(why) = made.failure {
            return Err(why);
        }
        let (Some(ipc), Some(mounts)) = (own(made.ipc), own(made.mounts)) else {
            return Err("the namespaces of a view cannot be opened".into());
        };
        Ok(PreparedView { user: own(made.user), ipc, mounts, changes })
    }

    /// True if the mounts of this machine changed since. Then it would show the old ones.
    pub(crate) fn is_stale(&self) -> bool {
        let mut waiting = [PollFd::new(&self.changes, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut waiting, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Moves this process into the namespaces.
    fn enter(&self) -> rustix::io::Result<()> {
        if let Some(user) = &self.user {
            move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        }
        move_into_link_name_space(
            self.ipc.as_fd(),
            Some(LinkNameSpaceType::InterProcessCommunication),
        )?;
        move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))
    }
}

/// The reason why this machine allows no view, if so. Tries all steps of one.
pub(crate) fn check() -> Result<(), String> {
    let view = PreparedView::new()?;
    let mut check = CheckedView { view: &view, failure: None };
    run_in_child(&mut check, |check| check.failure = check.view.try_mounts().err())?;
    check.failure.map_or(Ok(()), Err)
}

struct CheckedView<'a> {
    view: &'a PreparedView,
    failure: Option<String>,
}

impl PreparedView {
    fn try_mounts(&self) -> Result<(), String> {
        let plan = Confinement { writes: vec!["/dev/null".into()], ..Confinement::nothing() };
        plan.enter_view(self)
    }
}

/// The treatment of a path in a view. A later one wins over an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MountKind {
    /// Mounted over itself, so that it cannot be moved away.
    Pinned,
    ReadOnly,
    Writable,
    /// Nothing can be read there.
    Covered,
}

impl Confinement {
    /// Moves this process, and all it starts, into a view of its own. It cannot go back.
    pub(crate) fn enter_view(&self, view: &PreparedView) -> Result<(), String> {
        view.enter().map_err(|cause| format!("its own view of the files: {cause}"))?;
        let plan = self.plan_mounts();
        let roots = self.open_write_roots(&plan)?;
        if !self.writes.iter().any(|root| root == Path::new("/")) {
            let failed = |cause| format!("everything else could not be made read-only: {cause}");
            make_read_only(Path::new("/")).map_err(failed)?;
        }
        for (path, kind) in &plan {
            let mounted = match kind {
                MountKind::Pinned => mount_bind_recursive(path, path),
                MountKind::ReadOnly => {
                    mount_bind_recursive(path, path).and_then(|()| make_read_only(path))
                }
                MountKind::Writable => roots.get(path).map_or(Ok(()), |root| attach(root, path)),
                MountKind::Covered => self.mount_blank(path),
            };
            match mounted {
                // It was removed meanwhile.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(cause) => return Err(format!("{} in its view: {cause}", path.display())),
            }
        }
        for closed in &self.closed {
            let failed = |cause| format!("{} in its view: {cause}", closed.display());
            self.hide(closed).map_err(failed)?;
        }
        Ok(())
    }

    /// What is mounted where; a folder comes before what is in it.
    fn plan_mounts(&self) -> BTreeMap<PathBuf, MountKind> {
        let mut plan = BTreeMap::new();
        let mut add = |path: &Path, kind: MountKind| {
            let planned = plan.entry(path.to_path_buf()).or_insert(kind);
            *planned = kind.max(*planned);
        };
        let exists = |path: &&PathBuf| path.symlink_metadata().is_ok();
        let is_link =
            |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let is_shown = |path: &&PathBuf| exists(path) && !is_link(path);
        for path in self.protected.iter().filter(is_shown).chain(&self.nested) {
            add(path, MountKind::ReadOnly);
        }
        for above in self.folders_kept_in_place() {
            add(above, MountKind::Pinned);
        }
        for path in &self.covered {
            add(path, MountKind::Covered);
        }
        let is_planned = |path: &Path| plan.contains_key(path);
        let within: Vec<_> = self
            .write_roots()
            .filter(|root| !self.is_within_root(root, &is_planned))
            .cloned()
            .collect();
        for root in within {
            plan.insert(root, MountKind::Writable);
        }
        plan
    }

    /// The folders of the write roots above paths that a command must not write or read: it could move such a
    /// path away with a folder. What its own name protects or hides wherever it is may move, except in a
    /// repository.
    fn folders_kept_in_place(&self) -> HashSet<&Path> {
        let exists = |path: &&PathBuf| path.symlink_metadata().is_ok();
        let in_git = |path: &&PathBuf| path.iter().rev().skip(1).any(|name| name == ".git");
        let is_told_by_name =
            |path: &PathBuf| is_secret(Path::new(path.file_name().unwrap_or_default()));
        let covered = self.covered.iter().filter(|path| !is_told_by_name(path));
        let kept = self.protected.iter().chain(&self.closed).filter(exists).chain(covered);
        let mut folders = HashSet::new();
        for path in kept.chain(self.nested.iter().filter(in_git)) {
            let is_inside = |above: &&Path| {
                self.write_roots().any(|root| above.starts_with(root) && *above != root)
            };
            let above = path.ancestors().skip(1).filter(is_inside);
            folders.extend(above.take_while(|above| !folders.contains(above)).collect::<Vec<_>>());
        }
        folders
    }

    fn write_roots(&self) -> impl Iterator<Item = &PathBuf> {
        self.writes.iter().chain(&self.guarded_writes)
    }

    fn is_write_root(&self, path: &Path) -> bool {
        self.write_roots().any(|root| root == path)
    }

    /// True if a write root is inside another one, with nothing in between that is read-only.
    fn is_within_root(&self, root: &Path, is_planned: &impl Fn(&Path) -> bool) -> bool {
        let mut above = root.ancestors().skip(1);
        let nearest = above.find(|path| is_planned(path) || self.is_write_root(path));
        nearest.is_some_and(|path| !is_planned(path))
    }

    /// Opens the write roots as they are, before everything becomes read-only. A missing one is left
    /// out.
    fn open_write_roots(
        &self,
        plan: &BTreeMap<PathBuf, MountKind>,
    ) -> Result<BTreeMap<PathBuf, OwnedFd>, String> {
        let mut roots = BTreeMap::new();
        let writable = plan.iter().filter(|(_, kind)| **kind == MountKind::Writable);
        for (path, _) in writable.filter(|(path, _)| path.as_path() != Path::new("/")) {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            match open_tree(CWD, path, flags) {
                Ok(root) => _ = roots.insert(path.clone(), root),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(cause) => return Err(format!("{} in its view: {cause}", path.display())),
            }
        }
        Ok(roots)
    }

    /// Mounts an unreadable file over a file, and an empty folder over a folder.
    fn mount_blank(&self, path: &Path) -> rustix::io::Result<()> {
        let blank = self.blank.as_ref().ok_or(Errno::INVAL)?;
        let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        mount_bind(blank.join(if is_folder { "folder" } else { "file" }), path)
    }

    /// Mounts an empty folder or file over a closed one, and opens the open paths within again.
    fn hide(&self, closed: &Path) -> rustix::io::Result<()> {
        let Ok(metadata) = closed.symlink_metadata() else { return Ok(()) };
        if metadata.is_symlink() {
            // Its target is closed under its own path.
            return Ok(());
        }
        // A file that is listed twice is a device by then.
        if !metadata.is_dir() {
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
            fs::create_dir_all(path).map_err(|_| Errno::ACCESS)?;
            mount_bind(format!("/proc/self/fd/{}", fd.as_raw_fd()), path)?;
        }
        make_read_only(closed)
    }
}

fn attach(root: &OwnedFd, path: &Path) -> rustix::io::Result<()> {
    move_mount(root, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// The namespaces that a child made, as numbers of files that it shares with this process.
#[derive(Default)]
struct MadeNamespaces {
    user: Option<RawFd>,
    ipc: Option<RawFd>,
    mounts: Option<RawFd>,
    failure: Option<String>,
}

/// Makes the namespaces in a child, which shares its open files with this process.
fn make_in_child(made: &mut MadeNamespaces) -> Result<(), String> {
    run_in_child(made, |made| {
        if let Err(why) = made.make() {
            made.failure = Some(why);
        }
    })
}

impl MadeNamespaces {
    fn make(&mut self) -> Result<(), String> {
        let has_user = enter_namespaces()?;
        let open = |name: &str| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = rustix::fs::open(format!("/proc/self/ns/{name}"), flags, Mode::empty());
            use std::os::fd::IntoRawFd;
            file.map(|file| Some(file.into_raw_fd())).map_err(|cause| cause.to_string())
        };
        self.user = if has_user { open("user")? } else { None };
        self.ipc = open("ipc")?;
        self.mounts = open("mnt")?;
        Ok(())
    }
}

#[expect(unsafe_code, reason = "the file was opened by a child that shares our open files")]
fn own(file: Option<RawFd>) -> Option<OwnedFd> {
    // SAFETY: the child opened it for us and is gone; nothing else owns it.
    file.map(|file| unsafe { OwnedFd::from_raw_fd(file) })
}

/// Enters new namespaces: as root, or as root of a user namespace with only this user. True if there
/// is a user namespace.
fn enter_namespaces() -> Result<bool, String> {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let kinds = UnshareFlags::NEWNS | UnshareFlags::NEWIPC;
    let has_user = unshare(kinds).is_err();
    if has_user {
        // The files in `/proc/self` are writable only while this process is dumpable.
        let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
        let mapped = unshare(UnshareFlags::NEWUSER | kinds)
            .map_err(|cause| format!("this machine allows no namespaces: {cause}"))
            .and_then(|()| map_user(user, group));
        let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
        mapped?;
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let refused = |cause| format!("this machine allows no mounts in a namespace: {cause}");
    mount_change("/", private).map_err(refused)?;
    Ok(has_user)
}

fn map_user(user: u32, group: u32) -> Result<(), String> {
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("{user} {user} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("{group} {group} 1")))
        .map_err(|cause| format!("this machine allows no user in a namespace: {cause}"))
}

#[expect(
    unsafe_code,
    reason = "rustix marks it so for the sake of open files, which stay shared here"
)]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: the table of open files is not unshared, and this process has one thread.
    unsafe { unshare_unsafe(flags) }
}

/// Runs a function in a child that shares memory and open files with this process, which waits until
/// the child is gone.
#[expect(unsafe_code, reason = "neither rustix nor std starts a process that shares its memory")]
fn run_in_child<T>(data: &mut T, run: fn(&mut T)) -> Result<(), String> {
    struct Work<'a, T> {
        data: &'a mut T,
        run: fn(&mut T),
    }
    extern "C" fn start<T>(work: *mut c_void) -> c_int {
        // SAFETY: it points to the value that the parent borrows, and the parent waits.
        let work = unsafe { &mut *work.cast::<Work<'_, T>>() };
        let run = std::panic::AssertUnwindSafe(|| (work.run)(work.data));
        let _ = std::panic::catch_unwind(run);
        crate::confine::exit_now(0)
    }
    const STACK: usize = 256 * 1024;
    let mut stack = Box::<[u128]>::new_uninit_slice(STACK / size_of::<u128>());
    let top: *mut std::mem::MaybeUninit<u128> = stack.as_mut_ptr_range().end;
    let mut work = Work { data, run };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: this process has one thread, which waits until the child is gone; the stack is the
    // child's own, large enough and aligned; `start` neither unwinds nor returns.
    let pid = unsafe { libc::clone(start::<T>, top.cast(), flags, (&raw mut work).cast()) };
    let Some(pid) = rustix::process::Pid::from_raw(pid.max(0)) else {
        return Err(std::io::Error::last_os_error().to_string());
    };
    let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    Ok(())
}

/// Adds "read-only" to a mount and those below it; other attributes stay.
#[expect(unsafe_code, reason = "rustix has no mount_setattr")]
fn make_read_only(path: &Path) -> rustix::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
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
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::PERM))
}
