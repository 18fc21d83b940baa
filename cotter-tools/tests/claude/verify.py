#!/usr/bin/env python3
"""Run every handler as an ordinary process and compare with its manifest.

    verify.py              all handlers
    verify.py NAME ...     some handlers
    verify.py --runs FILE  also write each run as one JSON line: event, exit,
                           stdout, stderr and the answer of reference.py

Each case gets a fresh project, HOME and TMPDIR in a scratch folder that is
removed in the end, a time limit, and uid 1000 when this is started by root.
One line per case. Exit 1 if a case differs.

A handler whose needs are missing is skipped. A uv script without uv is run by
python3 instead and marked "(python3)": uv itself was not tested then.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # nothing is left in the checkout

import reference  # noqa: E402

HANDLERS = Path(__file__).resolve().parent / "handlers"
USER = 1000
TIME_LIMIT = 20
LARGE = "y" * 300_000
MATCHED_FIELD = {"SessionStart": "source", "SessionEnd": "reason", "PreCompact": "trigger",
                 "Notification": "notification_type", "SubagentStop": "agent_type"}


def is_root():
    return os.geteuid() == 0


def reachable(folder):
    """Whether every folder on the way may be entered by other users."""
    path = Path(folder)
    try:
        return all(part.stat().st_mode & 0o001 for part in [path, *path.parents])
    except OSError:
        return False


def search_path():
    folders = os.environ.get("PATH", "/usr/bin:/bin").split(os.pathsep)
    return os.pathsep.join(f for f in folders if f and (not is_root() or reachable(f)))


def missing_needs(handler, path):
    wanted = set(handler["needs"])
    if handler["interpreter"] != "none":
        wanted.add(handler["interpreter"])
    return sorted(name for name in wanted if shutil.which(name, path=path) is None)


def run(command, folders, extra, text, limit):
    """One process in its own session: (exit, stdout, stderr, timed out)."""
    env = {"PATH": search_path(), "HOME": str(folders["home"]), "TMPDIR": str(folders["tmp"]),
           "CLAUDE_PROJECT_DIR": str(folders["project"]), "LANG": "C.UTF-8", **extra}
    switch = {"user": USER, "group": USER, "extra_groups": []} if is_root() else {}
    process = subprocess.Popen(["sh", "-c", command], cwd=folders["project"], env=env,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True, **switch)
    timed_out = False
    try:
        out, err = process.communicate(text.encode(), timeout=limit)
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    return {"exit": None if timed_out else process.returncode, "timed_out": timed_out,
            "stdout": out.decode(errors="replace"), "stderr": err.decode(errors="replace")}


def give_away(top):
    if is_root():
        for folder, _, files in os.walk(top):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                os.chown(path, USER, USER, follow_symlinks=False)


def prepare(handler, case, top):
    """The folders of one case, with the project's files and the hook's files."""
    folders = {name: top / name for name in ("home", "tmp")}
    folders["project"] = top / "my project"
    (folders["home"] / ".claude").mkdir(parents=True)
    folders["tmp"].mkdir()
    hooks = folders["project"] / ".claude" / "hooks"
    hooks.mkdir(parents=True)
    for name in handler["files"]:
        (hooks / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HANDLERS / name, hooks / name)
    for name, content in case.get("project_files", {}).items():
        target = folders["project"] / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    give_away(top)
    if "git_branch" in case:
        steps = f"git init -q . && git symbolic-ref HEAD refs/heads/{case['git_branch']}"
        if case.get("git_staged"):
            steps += " && git add -A"
        done = run(steps, folders, {}, "", TIME_LIMIT)
        if done["exit"] != 0:
            raise RuntimeError(f"git: {done['stderr']}")
    return folders


def fill(value, folders):
    """Put the scratch folders in place of @PROJECT@, @HOME@ and @LARGE@."""
    if isinstance(value, str):
        value = value.replace("@PROJECT@", str(folders["project"]))
        return value.replace("@HOME@", str(folders["home"])).replace("@LARGE@", LARGE)
    if isinstance(value, list):
        return [fill(item, folders) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, folders) for key, item in value.items()}
    return value


def event_of(handler, step, folders):
    transcript = folders["project"] / ".claude" / "transcript.jsonl"
    event = {"session_id": "session-1", "transcript_path": str(transcript),
             "cwd": str(folders["project"]), "permission_mode": "default",
             "hook_event_name": handler["event"]}
    if step.get("tool"):
        event.update(tool_name=step["tool"], tool_input=step["input"], tool_use_id="toolu_01")
        if handler["event"] == "PostToolUse":
            event["tool_response"] = {"success": True}
    event.update(step.get("fields", {}))
    return fill(event, folders)


def differences(expect, got, folders):
    """What the answer and the files do not have of what the manifest expects."""
    checks = {"reason_contains": got["reason"] or "", "context_contains": "\n".join(got["context"])}
    for key, value in expect.items():
        if key in checks:
            if value not in checks[key]:
                yield f"{key} {value!r}: {checks[key][:200]!r}"
        elif key == "writes":
            yield from (f"not written: {name}" for name in value
                        if not place(name, folders).exists())
        elif key == "file_contains":
            for name, content in value.items():
                path = place(name, folders)
                found = path.read_text() if path.exists() else "(no file)"
                if content not in found:
                    yield f"{name}: {found[:200]!r}"
        elif key == "no_context":
            if got["context"]:
                yield f"context: {got['context']!r}"
        elif key == "older":
            if got.get("older", got)["verdict"] != value:
                yield f"older page: {got.get('older', got)['verdict']}"
        elif got.get(key) != value:
            yield f"{key}: {got.get(key)!r} instead of {value!r}"
    if "older" not in expect and got.get("older", got)["verdict"] != got["verdict"]:
        yield f"the older page says {got['older']['verdict']}"


def place(name, folders):
    return folders["home"] / name[2:] if name.startswith("~/") else folders["project"] / name


def run_case(handler, case, command, top):
    """(differences, record of the run)."""
    folders = prepare(handler, case, top)
    extra, limit = case.get("env", {}), handler.get("timeout", TIME_LIMIT)
    for step in case.get("before", []):
        text = json.dumps(event_of(handler, step, folders), separators=(",", ":"))
        run(command, folders, extra, text, limit)
    event = event_of(handler, case, folders)
    record = run(command, folders, extra, json.dumps(event, separators=(",", ":")), limit)
    record["event"] = event
    got = record["answer"] = reference.judge_document(record)
    found = list(differences(case["expect"], got, folders))
    name = event.get("tool_name") or event.get(MATCHED_FIELD.get(handler["event"], ""), "")
    if reference.matches(handler.get("matcher", ""), name, handler["event"]) is not True:
        found.append(f"the matcher does not select {name!r}")
    if found:
        found.append(f"exit {record['exit']}, stderr {record['stderr'][:300]!r}")
    return found, record


def main(arguments):
    records = None
    if arguments[:1] == ["--runs"]:
        records, arguments = open(arguments[1], "w"), arguments[2:]
    handlers = json.loads((HANDLERS / "handlers.json").read_text())
    unknown = set(arguments) - {handler["name"] for handler in handlers}
    if unknown:
        sys.exit(f"no such handler: {', '.join(sorted(unknown))}")
    counts = {"ok": 0, "differs": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="claude-hooks-") as scratch:
        os.chmod(scratch, 0o755)
        for handler in handlers:
            if arguments and handler["name"] not in arguments:
                continue
            verify_handler(handler, Path(scratch), counts, records)
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 1 if counts["differs"] else 0


def verify_handler(handler, scratch, counts, records):
    missing, command, mark = missing_needs(handler, search_path()), handler["command"], ""
    if missing == ["uv"]:
        command, mark, missing = "python3 " + command, " (python3)", []
    for number, case in enumerate(handler["cases"]):
        label = f"{handler['name']}[{number}] {handler['event']}{mark}"
        if missing:
            counts["skipped"] += 1
            print(f"skipped  {label}: needs {', '.join(missing)}")
            continue
        found, record = run_case(handler, case, command, scratch / f"{handler['name']}-{number}")
        if records:
            records.write(json.dumps({"name": handler["name"], "case": number, **record}) + "\n")
        word = "differs" if found else "ok"
        counts[word] += 1
        print(f"{word:8} {label}: {record['answer']['verdict']}", *found, sep="\n         ")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
