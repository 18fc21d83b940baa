//! Starts the oracle again inside a scratch root, and proves by canaries that nothing of it gets out.
//!
//! The process inside has an ordinary user's rights, and namespaces of its own for users, mounts, processes and
//! the network. Its root holds the system's folders read-only.

use std::{
    error::Error,
    fs,
    io::ErrorKind,
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::fs::{XattrFlags, getxattr, setxattr};
use tempfile::TempDir;

/// The user of the process inside, if the oracle is started by root.
const NOBODY: u32 = 65534;
const ENTER: &str = include_str!("enter.sh");
const XATTR: &str = "user.canary";

/// A scratch root and its canaries.
pub(crate) struct Scratch {
    folder: TempDir,
    listener: TcpListener,
    file: CanaryState,
}

/// Everything about the canary file that must stay the same.
#[derive(Debug, PartialEq)]
struct CanaryState {
    bytes: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
    times: [(i64, i64); 2],
    xattr: Vec<u8>,
}

impl Scratch {
    /// Prepares folders and canaries. `texts` are scripts to be changed, as JSON.
    pub(crate) fn new(texts: &str) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let programs = folder.path().join("programs");
        fs::create_dir(&programs)?;
        fs::create_dir(folder.path().join("root"))?;
        let own = std::env::current_exe()?;
        let stub = own.with_file_name("oracle_stub");
        fs::copy(&own, programs.join("oracle"))?;
        fs::copy(&stub, programs.join("oracle_stub"))
            .map_err(|error| format!("cannot copy {}: {error}", stub.display()))?;
        fs::write(programs.join("texts.json"), texts)?;
        fs::write(folder.path().join("enter.sh"), ENTER)?;
        let canary = folder.path().join("canary");
        fs::write(&canary, "untouched\n")?;
        fs::set_permissions(&canary, fs::Permissions::from_mode(0o666))?;
        // Not every file system has them; then there is none to compare.
        setxattr(&canary, XATTR, b"untouched", XattrFlags::empty()).ok();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        if rustix::process::geteuid().is_root() {
            for path in ["", "root", "canary"] {
                chown(folder.path().join(path), Some(NOBODY), Some(NOBODY))?;
            }
        }
        let file = read_canary(&canary)?;
        Ok(Scratch { folder, listener, file })
    }

    /// Starts the oracle inside, with these arguments and its output in a pipe.
    pub(crate) fn start(&self, args: &[String]) -> Result<Child, Box<dyn Error>> {
        let folder = self.folder.path();
        let namespaces =
            ["user", "map-root-user", "mount", "pid", "fork", "kill-child", "net", "ipc", "uts"];
        let mut command = Command::new("unshare");
        command.args(namespaces.map(|name| format!("--{name}"))).arg("sh");
        command.arg(folder.join("enter.sh")).arg(folder.join("root")).arg(folder.join("programs"));
        command.args(["/oracle/programs/oracle", "inside"]).args(args);
        command.arg(self.canary()).arg(self.listener.local_addr()?.port().to_string());
        command.current_dir("/").env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        Ok(child.map_err(|error| format!("cannot start `unshare`: {error}"))?)
    }

    fn canary(&self) -> PathBuf {
        self.folder.path().join("canary")
    }

    /// Fails if the canary file changed, or somebody connected.
    pub(crate) fn check_canaries(&self) -> Result<(), Box<dyn Error>> {
        let now = read_canary(&self.canary())?;
        if now != self.file {
            return Err(format!("the canary changed from {:?} to {now:?}", self.file).into());
        }
        match self.listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            _ => Err("a command connected to a port outside".into()),
        }
    }
}

fn read_canary(path: &Path) -> Result<CanaryState, Box<dyn Error>> {
    let metadata = path.symlink_metadata()?;
    let mut xattr = vec![0; 64];
    let length = getxattr(path, XATTR, &mut xattr).unwrap_or(0);
    xattr.truncate(length);
    Ok(CanaryState {
        bytes: fs::read(path)?,
        mode: metadata.mode(),
        owner: (metadata.uid(), metadata.gid()),
        times: [
            (metadata.mtime(), metadata.mtime_nsec()),
            (metadata.ctime(), metadata.ctime_nsec()),
        ],
        xattr,
    })
}
