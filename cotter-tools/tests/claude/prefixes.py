#!/usr/bin/env python3
"""Build interpreter prefixes below a home folder, as version managers lay them out.

    prefixes.py HOME pyenv|uv|conda|mise|asdf|brew  python3
    prefixes.py HOME venv [PROJECT]                python3, HOME/venvs/tools or PROJECT/.venv
    prefixes.py HOME nvm                           node

The interpreters are real: this machine's own, copied with its standard library.
The dispatchers behind shims are ours, and only choose a version and run it.

Output: {"path": [folders to put first on PATH], "programs": [absolute paths],
"prefix": the folder of the interpreter, "version": its version}. Each program
was started once; exit 1 with a message if one does not start. A second call
with the same HOME reuses what is there.
"""
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# Large files are linked where that is possible; nothing here writes to them.
LINKED_FROM = 20_000_000
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__",
                   "idlelib", "ensurepip", "tkinter", "pydoc_data", "lib2to3", "turtledemo"}
PYTHON = platform.python_version()
MINOR = "python{}.{}".format(*sys.version_info)


# --- copying interpreters ----------------------------------------------------

def copy_file(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.getsize(source) >= LINKED_FROM:
        try:
            os.link(os.path.realpath(source), target)
            return
        except OSError:
            pass
    shutil.copy(source, target)


def copy_library(source, target):
    """The standard library without tests, compiled files and packages."""
    for folder, below, files in os.walk(source):
        below[:] = [name for name in below
                    if name not in SKIPPED_FOLDERS and not name.startswith("config-")]
        for name in files:
            path = Path(folder, name)
            if not name.endswith((".pyc", ".a")) and path.is_file():
                copy_file(path, target / path.relative_to(source))


def copy_python(prefix):
    """This interpreter in `prefix`, as bin/python3.X, bin/python3 and bin/python."""
    binary = prefix / "bin" / MINOR
    if binary.exists():
        return
    base = Path(sys.base_prefix)
    copy_file(os.path.realpath(sys.executable), binary)
    for kind in ("stdlib", "platstdlib"):
        library = Path(sysconfig.get_path(kind, vars={"base": str(base), "platbase": str(base)}))
        target = prefix / library.relative_to(base)
        if not (target / "lib-dynload").exists():
            copy_library(library, target)
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        copy_shared_library(prefix, binary)
    for link, to in (("python3", MINOR), ("python", "python3")):
        (prefix / "bin" / link).symlink_to(to)


def copy_shared_library(prefix, binary):
    """libpython beside the interpreter, which then looks for it there.

    A build with a shared library names its folder in the binary. A path
    relative to the binary takes its place, filled up with zero bytes.
    """
    folder = sysconfig.get_config_var("LIBDIR")
    name = sysconfig.get_config_var("INSTSONAME")
    copy_file(Path(folder, name), prefix / "lib" / name)
    old, new = f"\0{folder}\0".encode(), b"\0$ORIGIN/../lib\0"
    content = binary.read_bytes()
    if old in content and len(new) <= len(old):
        binary.unlink()  # it may be a link to the original
        binary.write_bytes(content.replace(old, new.ljust(len(old), b"\0")))
        binary.chmod(0o755)


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def link(path, to):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(to)


# --- dispatchers -------------------------------------------------------------

# Chooses by a variable, by a file in this folder or above, or by a file of the
# home folder, and runs the program of that version.
DISPATCHER = """#!/usr/bin/env bash
set -e
root={root}
[ "$1" = "exec" ] || {{ echo "usage: {name} exec PROGRAM" >&2; exit 64; }}
program=$2
shift 2
version=${variable}
folder=$PWD
while [ -z "$version" ] && [ -n "$folder" ]; do
  if [ -f "$folder/{file}" ]; then
    version=$(sed -n 's/^{prefix}//p' "$folder/{file}" | head -n 1)
  fi
  folder=${{folder%/*}}
done
[ -n "$version" ] || version=$(sed -n 's/^{prefix}//p' {default} | head -n 1)
exec "{versions}/$version/bin/$program" "$@"
"""


def build_pyenv(home):
    root = home / ".pyenv"
    prefix = root / "versions" / PYTHON
    copy_python(prefix)
    write(root / "version", PYTHON + "\n")
    write(root / "libexec" / "pyenv", DISPATCHER.format(
        root=f'"{root}"', name="pyenv", variable="PYENV_VERSION", file=".python-version",
        prefix="", default=f'"{root}/version"', versions="$root/versions"), 0o755)
    link(root / "bin" / "pyenv", "../libexec/pyenv")
    for name in ("python", "python3", MINOR):
        write(root / "shims" / name, f"""#!/usr/bin/env bash
set -e
program="${{0##*/}}"
export PYENV_ROOT="{root}"
exec "{root}/libexec/pyenv" exec "$program" "$@"
""", 0o755)
    return [root / "shims", root / "bin"], [root / "shims" / "python3", prefix / "bin/python3"], prefix


def build_asdf(home):
    root = home / ".asdf"
    prefix = root / "installs" / "python" / PYTHON
    copy_python(prefix)
    write(home / ".tool-versions", f"python {PYTHON}\n")
    write(root / "bin" / "asdf", DISPATCHER.format(
        root=f'"{root}"', name="asdf", variable="ASDF_PYTHON_VERSION", file=".tool-versions",
        prefix="python ", default='"$HOME/.tool-versions"',
        versions="$root/installs/python"), 0o755)
    for name in ("python", "python3"):
        write(root / "shims" / name, f"""#!/usr/bin/env bash
# asdf-plugin: python {PYTHON}
exec "{root}/bin/asdf" exec "{name}" "$@"
""", 0o755)
    return [root / "shims", root / "bin"], [root / "shims" / "python3", prefix / "bin/python3"], prefix


def build_mise(home):
    data = home / ".local/share/mise"
    prefix = data / "installs" / "python" / PYTHON
    copy_python(prefix)
    minor = PYTHON.rsplit(".", 1)[0]
    for name in (minor, "latest"):
        link(prefix.parent / name, f"./{PYTHON}")
    write(home / ".config/mise/config.toml", f'[tools]\npython = "{minor}"\n')
    # The shims are links to the program, which looks at the name it is called by.
    write(home / ".local/bin/mise", f"""#!/usr/bin/env bash
set -e
program=${{0##*/}}
[ "$program" != "mise" ] || {{ echo "called by its own name" >&2; exit 64; }}
version=$(sed -n 's/^python = "\\(.*\\)"$/\\1/p' "{home}/.config/mise/config.toml")
exec "{data}/installs/python/$version/bin/$program" "$@"
""", 0o755)
    for name in ("python", "python3"):
        link(data / "shims" / name, home / ".local/bin/mise")
    programs = [data / "shims" / "python3", prefix.parent / minor / "bin/python3"]
    return [data / "shims"], programs, prefix


# --- layouts without a dispatcher --------------------------------------------

def build_uv(home):
    system = {"darwin": "macos-{}-none"}.get(sys.platform, "linux-{}-gnu")
    system = system.format(platform.machine())
    root = home / ".local/share/uv/python"
    prefix = root / f"cpython-{PYTHON}-{system}"
    copy_python(prefix)
    minor = root / f"cpython-{PYTHON.rsplit('.', 1)[0]}-{system}"
    link(minor, prefix.name)
    for name in ("python3", MINOR):
        link(home / ".local/bin" / name, minor / "bin" / MINOR)
    return [home / ".local/bin"], [home / ".local/bin/python3", prefix / "bin/python3"], prefix


def build_conda(home):
    root = home / "miniconda3"
    prefix = root / "envs" / "tools"
    copy_python(prefix)
    write(prefix / "conda-meta" / "history", "==> created <==\n")
    write(home / ".conda" / "environments.txt", f"{prefix}\n")
    (root / "condabin").mkdir(parents=True, exist_ok=True)
    return [prefix / "bin", root / "condabin"], [prefix / "bin/python3"], prefix


def build_brew(home):
    root = home / ".linuxbrew"
    minor = PYTHON.rsplit(".", 1)[0]
    prefix = root / "Cellar" / f"python@{minor}" / PYTHON
    copy_python(prefix)
    link(root / "opt" / f"python@{minor}", f"../Cellar/python@{minor}/{PYTHON}")
    for name in ("python3", MINOR):
        link(root / "bin" / name, f"../Cellar/python@{minor}/{PYTHON}/bin/{name}")
    return [root / "bin"], [root / "bin/python3", root / f"opt/python@{minor}/bin/python3"], prefix


def build_venv(home, project=None):
    base = home / ".pyenv" / "versions" / PYTHON
    copy_python(base)
    prefix = Path(project) / ".venv" if project else home / "venvs" / "tools"
    link(prefix / "bin" / "python", base / "bin" / MINOR)
    for name in ("python3", MINOR):
        link(prefix / "bin" / name, "python")
    write(prefix / "pyvenv.cfg", f"home = {base}/bin\ninclude-system-site-packages = false\n"
          f"version = {PYTHON}\nexecutable = {base}/bin/{MINOR}\n")
    # A module that only this environment has.
    write(prefix / "lib" / MINOR / "site-packages" / "only_in_venv.py", "HERE = True\n")
    return [prefix / "bin"], [prefix / "bin/python3"], prefix


def build_nvm(home):
    node = shutil.which("node")
    if node is None:
        sys.exit("node is not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True,
                             check=True).stdout.strip()
    real = subprocess.run([node, "-p", "process.execPath"], capture_output=True, text=True,
                          check=True).stdout.strip()
    prefix = home / ".nvm" / "versions" / "node" / version
    if not (prefix / "bin/node").exists():
        copy_file(os.path.realpath(real), prefix / "bin" / "node")
    write(home / ".nvm" / "alias" / "default", version.lstrip("v") + "\n")
    return [prefix / "bin"], [prefix / "bin/node"], prefix


KINDS = {"pyenv": build_pyenv, "nvm": build_nvm, "venv": build_venv, "uv": build_uv,
         "conda": build_conda, "mise": build_mise, "asdf": build_asdf, "brew": build_brew}


# --- checking ----------------------------------------------------------------

PYTHON_CHECK = """import json, os, re, sys
print(sys.prefix)
if os.path.exists("/proc/self/maps"):
    print(open("/proc/self/maps").read())
"""


def start(program, path, home, prefix):
    """Start the program; it must say that it lives below `prefix`."""
    env = {"HOME": str(home), "PATH": os.pathsep.join([*map(str, path), "/usr/bin", "/bin"]),
           "PYTHONDONTWRITEBYTECODE": "1"}  # no .pyc files
    if prefix.parts[-2] == "node":
        arguments = ["-e", "JSON.parse('{}'); console.log(process.execPath)"]
    else:
        arguments = ["-c", PYTHON_CHECK]
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, env=env,
                          cwd=home, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{program} does not start: {done.stderr.strip()}")
    answer, *libraries = done.stdout.split("\n")
    answer = os.path.realpath(answer)
    original = os.path.realpath(sys.base_prefix) + "/lib/libpython"
    if any(original in line for line in libraries):
        sys.exit(f"{program} still loads the library of the original: {original}")
    if os.path.commonpath([answer, os.path.realpath(prefix)]) != os.path.realpath(prefix):
        sys.exit(f"{program} is {answer}, not below {prefix}")


def main(arguments):
    if len(arguments) < 2 or arguments[1] not in KINDS:
        sys.exit(f"usage: prefixes.py HOME {'|'.join(KINDS)}")
    home = Path(arguments[0]).absolute()
    home.mkdir(parents=True, exist_ok=True)
    more = [Path(arguments[2]).absolute()] if arguments[1] == "venv" and arguments[2:] else []
    path, programs, prefix = KINDS[arguments[1]](home, *more)
    for program in programs:
        start(program, path, home, prefix)
    version = prefix.name if arguments[1] == "nvm" else PYTHON
    json.dump({"path": [str(folder) for folder in path],
               "programs": [str(program) for program in programs],
               "prefix": str(prefix), "version": version}, sys.stdout)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
