//! A git repository as the source of a space. One commit is fetched, and its files are read one by one.
//!
//! Nothing of a repository is ever checked out. Its hooks, filters, attributes, submodules and settings have
//! no effect. Git works in a folder of Cotter, with settings of Cotter, and returns bytes.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use cotter::text;
use cotter_files::trust::snapshot::{MAX_BYTES, MAX_ITEMS, SnapshotItem};

use crate::error::CliError;

/// The permitted schemes of addresses.
const SCHEMES: [&str; 3] = ["https", "ssh", "file"];

/// The maximum size in bytes of all files that git writes for a fetch: packed objects, unpacked objects and
/// output.
const MAX_FETCHED_BYTES: u64 = 512 * 1024 * 1024;

/// The time limit of one git command.
const GIT_TIMEOUT: Duration = Duration::from_secs(300);

/// The maximum length of the name of a branch, tag or commit.
const MAX_REV_BYTES: usize = 200;

/// The environment variables that git gets from Cotter's own environment. None of them configures git: the
/// folder `HOME` contains the person's git settings, but `GIT_CONFIG_GLOBAL` below switches them off.
const VARIABLES: [&str; 11] = [
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The address of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitUrl {
    text: String,
    scheme: &'static str,
}

impl GitUrl {
    /// Parses an address. `None` if the text is not an address: the caller takes it as a path.
    pub(crate) fn parse(typed: &str) -> Result<Option<Self>, CliError> {
        let Some((scheme, rest)) = typed.split_once("://") else {
            // `user@host:path`.
            let is_short_address =
                typed.split_once(':').is_some_and(|(host, _)| host.contains('@'));
            // `helper::address`: git would run the program `git-remote-helper`.
            let has_remote_helper = typed.contains("::");
            if (is_short_address || has_remote_helper) && !Path::new(typed).exists() {
                let failure = address_error(typed, "is not a supported address");
                return Err(match expand_short_address(typed).filter(|_| !has_remote_helper) {
                    Some(whole) => failure.with_hint(format!("did you mean `{whole}`?")),
                    None => failure,
                });
            }
            return Ok(None);
        };
        let Some(scheme) = SCHEMES.into_iter().find(|known| *known == scheme) else {
            return Err(address_error(typed, "is not a supported address"));
        };
        if !typed.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(address_error(typed, "has characters that are not allowed in an address"));
        }
        let host = rest.split('/').next().unwrap_or_default();
        let user = host.rsplit_once('@').map(|(user, _)| user);
        match scheme {
            "file" if !rest.starts_with('/') => {
                Err(address_error(typed, "is not a folder on this machine"))
            }
            "https" | "ssh" if host.is_empty() || host.starts_with('-') => {
                Err(address_error(typed, "has no host"))
            }
            "https" if user.is_some() => Err(secret_address_error("a user name or a key")),
            "ssh" if user.is_some_and(|user| user.contains(':')) => {
                Err(secret_address_error("a password"))
            }
            _ => Ok(Some(GitUrl { text: typed.into(), scheme })),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Returns the full address of the short form `user@host:path`.
fn expand_short_address(short: &str) -> Option<String> {
    let (host, path) = short.split_once(':')?;
    let is_plain = short.bytes().all(|byte| byte.is_ascii_graphic()) && !path.is_empty();
    is_plain.then(|| format!("ssh://{host}/{}", path.trim_start_matches('/')))
}

fn address_error(typed: &str, what: &str) -> CliError {
    CliError::usage(format!("`{}` {what}", text::show_line(typed))).with_hint(ADDRESS_HINT)
}

/// Creates the error for an address with a secret, without quoting the address.
fn secret_address_error(secret: &str) -> CliError {
    let message = format!("the address contains {secret}, which would be stored");
    CliError::usage(message).with_hint(ADDRESS_HINT)
}

const ADDRESS_HINT: &str = "name a folder, or a repository by `https://`, `ssh://` or `file:///`";

/// Checks that a text can only be a branch, a tag or a commit.
pub(crate) fn check_rev(rev: &str) -> Result<(), CliError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    let is_rev = !rev.is_empty()
        && rev.len() <= MAX_REV_BYTES
        && rev.bytes().all(fits)
        && !rev.starts_with(['-', '/', '.'])
        && !rev.contains("..");
    match is_rev {
        true => Ok(()),
        false => {
            let message = format!("`{}` is not a branch, tag or commit", text::show_line(rev));
            Err(CliError::usage(message).with_hint("`--rev` takes a name or a full commit id"))
        }
    }
}

/// Fetches one commit and returns its files and its id. `scratch` is created for the fetch and removed
/// afterwards.
pub(crate) fn fetch_commit(
    address: &GitUrl,
    rev: Option<&str>,
    scratch: &Path,
) -> Result<(BTreeMap<PathBuf, SnapshotItem>, String), CliError> {
    rev.map_or(Ok(()), check_rev)?;
    let cannot = |cause: io::Error| CliError::new("cannot fetch").with_cause(cause);
    crate::spaces::store::remove(scratch)
        .and_then(|()| fs::create_dir_all(scratch))
        .map_err(cannot)?;
    let git = GitFetch { address, scratch };
    let done = git.fetch_files(rev).map_err(|failure| {
        let shown = text::show_line(address.as_str()).into_owned();
        failure.wrap_in(format!("cannot fetch {shown}"))
    });
    crate::spaces::store::remove(scratch).map_err(cannot)?;
    done
}

/// Runs the git commands of one fetch.
struct GitFetch<'a> {
    address: &'a GitUrl,
    /// The folder for the repository and for the output of git.
    scratch: &'a Path,
}

/// A file of a commit.
struct GitFile {
    path: PathBuf,
    mode: String,
    object: String,
    size: u64,
}

impl GitFetch<'_> {
    /// Fetches a commit into the scratch folder and returns its files and its id.
    fn fetch_files(
        &self,
        rev: Option<&str>,
    ) -> Result<(BTreeMap<PathBuf, SnapshotItem>, String), CliError> {
        let repository = self.repository();
        let path = repository
            .to_str()
            .ok_or_else(|| CliError::new("the path of the temporary folder is not UTF-8"))?;
        self.git(&["init", "--quiet", "--bare", "--template=", "--", path], None)?;
        let wanted = rev.unwrap_or("HEAD");
        self.git(
            &[
                "fetch",
                "--quiet",
                "--depth=1",
                "--no-tags",
                "--no-recurse-submodules",
                "--no-auto-maintenance",
                "--no-write-commit-graph",
                "--",
                self.address.as_str(),
                wanted,
            ],
            None,
        )?;
        let commit =
            self.git(&["rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}"], None)?;
        let commit = String::from_utf8_lossy(&commit).trim().to_owned();
        let is_full_id = |text: &str| {
            matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if !is_full_id(&commit) {
            return Err(CliError::new("git returned no commit"));
        }
        if rev.is_some_and(|rev| is_full_id(rev) && !rev.eq_ignore_ascii_case(&commit)) {
            return Err(CliError::new(format!("the repository returned another commit, {commit}")));
        }
        let listed = self.git(&["ls-tree", "-r", "-z", "-l", "--full-tree", &commit], None)?;
        let files = listed.split(|byte| *byte == 0).filter(|row| !row.is_empty());
        let files: Vec<_> = files.map(parse_tree_row).collect::<Result<_, _>>()?;
        self.read(&files).map(|items| (items, commit))
    }

    /// Reads the bytes of files.
    fn read(&self, files: &[GitFile]) -> Result<BTreeMap<PathBuf, SnapshotItem>, CliError> {
        let bytes: u64 = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
        if files.len() > MAX_ITEMS || bytes > MAX_BYTES {
            let most = MAX_BYTES / (1024 * 1024);
            return Err(CliError::new(format!(
                "the repository has more than {MAX_ITEMS} files or {most} MB"
            )));
        }
        let objects: String = files.iter().map(|file| format!("{}\n", file.object)).collect();
        let all = self.git(&["cat-file", "--batch"], Some(objects.as_bytes()))?;
        let mut rest = all.as_slice();
        let mut items = BTreeMap::new();
        for file in files {
            let (bytes, after) = split_object(rest, file)
                .ok_or_else(|| CliError::new("git returned unexpected data"))?;
            rest = after;
            let item = match file.mode.as_str() {
                "120000" => SnapshotItem::Link(OsString::from_vec(bytes.to_vec())),
                mode => SnapshotItem::File { executable: mode == "100755", bytes: bytes.to_vec() },
            };
            items.insert(file.path.clone(), item);
        }
        Ok(items)
    }

    fn repository(&self) -> PathBuf {
        self.scratch.join("repository")
    }

    /// Runs git to its end. Its output goes to files in the scratch folder, so the size limit of that folder
    /// covers it.
    fn git(&self, args: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, CliError> {
        let cannot = |cause: io::Error| CliError::new("cannot start git").with_cause(cause);
        let [out, err, stdin] = ["out", "err", "in"].map(|name| self.scratch.join(name));
        let mut command = self.command(args);
        command.stdout(File::create(&out).map_err(cannot)?);
        command.stderr(File::create(&err).map_err(cannot)?);
        command.stdin(match input {
            None => Stdio::null(),
            Some(bytes) => {
                let written = File::create(&stdin).and_then(|mut file| file.write_all(bytes));
                written.and_then(|()| File::open(&stdin)).map_err(cannot)?.into()
            }
        });
        let status = self.wait(command)?;
        let output = fs::read(&out).map_err(cannot)?;
        match status.success() {
            true => Ok(output),
            false => Err(git_error(args, &fs::read(&err).unwrap_or_default())),
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        // Only absolute entries of `PATH` are used: the current folder must not decide which `git` runs.
        let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let path = env::join_paths(env::split_paths(&path).filter(|folder| folder.is_absolute()));
        let path = path.unwrap_or_default();
        let program = env::split_paths(&path).map(|folder| folder.join("git"));
        let program = program.into_iter().find(|program| program.is_file());
        let mut command = Command::new(program.unwrap_or_else(|| "/usr/bin/git".into()));
        command.env_clear().current_dir(self.scratch);
        command.envs(VARIABLES.iter().filter_map(|name| Some((name, env::var_os(name)?))));
        command.env("PATH", path).env("LC_ALL", "C");
        for (name, value) in [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "false"),
            ("SSH_ASKPASS_REQUIRE", "never"),
            ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            // A redirect cannot lead to another scheme.
            ("GIT_ALLOW_PROTOCOL", self.address.scheme),
        ] {
            command.env(name, value);
        }
        if args[0] != "init" {
            command.arg(format!("--git-dir={}", self.repository().display()));
        }
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.attributesFile=/dev/null",
            "credential.helper=",
            "submodule.recurse=false",
            "fetch.recurseSubmodules=false",
            "safe.bareRepository=explicit",
            "gc.auto=0",
            "maintenance.auto=false",
        ] {
            command.args(["-c", setting]);
        }
        command.args(args);
        command
    }

    /// Waits for git. Stops it after the time limit, or when the folder exceeds the size limit.
    fn wait(&self, mut command: Command) -> Result<ExitStatus, CliError> {
        let mut child = command.spawn().map_err(|cause| {
            CliError::new("cannot start git").with_cause(cause).with_hint("install git")
        })?;
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let ended = child.try_wait();
            if let Some(status) =
                ended.map_err(|cause| CliError::new("cannot wait for git").with_cause(cause))?
            {
                return Ok(status);
            }
            let too_much = size(self.scratch) > MAX_FETCHED_BYTES;
            if too_much || began.elapsed() > GIT_TIMEOUT {
                let _ = child.kill();
                let _ = child.wait();
                return Err(CliError::new(match too_much {
                    true => "the repository is too large for a space",
                    false => "git took too long",
                }));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }
}

/// Creates the error with the first lines of git's error output.
fn git_error(args: &[&str], stderr: &[u8]) -> CliError {
    const LINES: usize = 5;
    let stderr = String::from_utf8_lossy(&stderr[..stderr.len().min(4096)]).into_owned();
    let failure = CliError::new(format!("`git {}` failed", args[0]));
    let lines = stderr.lines().filter(|line| !line.trim().is_empty()).take(LINES);
    lines.fold(failure, |failure, line| failure.with_cause(text::cut_chars(line.trim(), 300)))
}

/// Parses a row of `ls-tree`: mode, kind, object, size, a tab, the path.
fn parse_tree_row(row: &[u8]) -> Result<GitFile, CliError> {
    let invalid = || CliError::new("git returned an invalid list of files");
    let tab = row.iter().position(|byte| *byte == b'\t').ok_or_else(invalid)?;
    let columns = std::str::from_utf8(&row[..tab]).map_err(|_| invalid())?;
    let path = PathBuf::from(OsString::from_vec(row[tab + 1..].to_vec()));
    let shown = || crate::trust::show_path(&path);
    match columns.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
        ["160000", ..] => Err(CliError::new(format!("{} is a submodule", shown())).with_hint(
            "submodules are not fetched: put the files into the repository of the space",
        )),
        // Early versions of git stored files with the mode 100664. Such a file is an ordinary file.
        [mode @ ("100644" | "100755" | "100664" | "120000"), "blob", object, size] => Ok(GitFile {
            mode: (*mode).to_owned(),
            object: (*object).to_owned(),
            size: size.parse().map_err(|_| invalid())?,
            path,
        }),
        _ => Err(CliError::new(format!("{} is neither a file nor a link", shown()))),
    }
}

/// Returns the next object of `cat-file --batch`, and the rest.
fn split_object<'a>(rest: &'a [u8], file: &GitFile) -> Option<(&'a [u8], &'a [u8])> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&rest[..end]).ok()?;
    if head != format!("{} blob {}", file.object, file.size) {
        return None;
    }
    let size = usize::try_from(file.size).ok()?;
    let bytes = rest.get(end + 1..end + 1 + size)?;
    Some((bytes, rest.get(end + 1 + size..)?.strip_prefix(b"\n")?))
}

/// Returns the total size of a folder in bytes.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c14_s12_git_addresses_and_revisions_are_parsed_strictly() {
        let taken = |typed: &str| match GitUrl::parse(typed) {
            Ok(Some(_)) => "repository",
            Ok(None) => "folder",
            Err(_) => "refused",
        };
        for (typed, expected) in [
            ("https://example.com/a.git", "repository"),
            ("ssh://git@example.com/a", "repository"),
            ("file:///srv/a.git", "repository"),
            ("./a", "folder"),
            ("a:b", "folder"),
            ("http://example.com/a", "refused"),
            ("git://example.com/a", "refused"),
            ("ext::sh -c id", "refused"),
            ("ext::sh -c id://x", "refused"),
            ("git@example.com:a", "refused"),
            ("file://host/a", "refused"),
            ("https://", "refused"),
            ("ssh://-oProxyCommand=id/a", "refused"),
            ("https://me:key@example.com/a", "refused"),
            ("https://key@example.com/a", "refused"),
            ("ssh://me:word@example.com/a", "refused"),
            ("https://example.com/a b", "refused"),
            ("--upload-pack=id", "folder"),
        ] {
            assert_eq!(taken(typed), expected, "{typed}");
        }
        for rev in ["main", "v1.2.3", "feature/one", "0123456789abcdef0123456789abcdef01234567"] {
            assert!(check_rev(rev).is_ok(), "{rev}");
        }
        let long = "a".repeat(MAX_REV_BYTES + 1);
        for rev in [
            "",
            "--upload-pack=id",
            "-u",
            "a..b",
            "a b",
            "+main",
            "a:b",
            "^a",
            "a~1",
            "@{1}",
            &long,
        ] {
            assert!(check_rev(rev).is_err(), "{rev}");
        }
    }
}
