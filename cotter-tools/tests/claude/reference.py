#!/usr/bin/env python3
"""Reference runner of the Claude Code hook protocol.

It is written from the published pages alone: "Hooks reference" and "Automate
actions with hooks", as they stood in August 2026. It shares no table and no
line with the Rust code, so that the two can be compared.

    reference.py < run.json           one answer as JSON, see `answer` below
    reference.py --edition 2025-12    the same by the older page, see OLDER
    reference.py matches MATCHER NAME [EVENT]
                                      exit 0: selected, 1: not selected,
                                      3: the pages do not say

Input: {"event": {...}, "exit": 0, "stdout": "", "stderr": ""} for one hook, or
{"event": {...}, "runs": [{"exit", "stdout", "stderr"}, ...]} for several hooks.
A run that was ended by its time limit has "timed_out": true.

Verdicts. `block` means that the hook objected where the page lets it object.
On PostToolUse and PostToolUseFailure the call is over by then: `block` means
that the model is shown the reason. On Stop and SubagentStop it means that the
agent does not stop. `unspecified` means that the pages are silent, or that two
of their sentences lead to different verdicts; `notes` says which.
"""
import json
import re
import sys

NEWER, OLDER = "2026-08", "2025-12"
# The pages changed. The page of 2025-12 (and of 2026-03) read JSON on exit 0
# only, ignored it on every other code, denied a PermissionRequest on exit 2,
# could not block a PreCompact, and showed the stderr of a Notification.
# Handlers of both times are in use, so an answer that the older page gives
# otherwise is added as "older". The verdict itself follows the newer page.


class Event:
    """One row of the published tables."""

    def __init__(self, exit2, decision="none", context=False, plain=False,
                 on_stop="pass", reads_json=True, exit_counts=True):
        self.exit2 = exit2              # block | notice | ignored
        self.decision = decision        # permission | request | top | none
        self.context = context          # takes hookSpecificOutput.additionalContext
        self.plain = plain              # plain stdout on exit 0 goes to the model
        self.on_stop = on_stop          # verdict under continue:false, or "discarded"
        self.reads_json = reads_json    # false: JSON output is discarded
        self.exit_counts = exit_counts  # false: the exit code is ignored altogether


EVENTS = {
    # Two sentences disagree on continue:false before a tool call: processing
    # stops entirely after the hook, and: the stop applies even when the call
    # completes meanwhile. Whether the call runs is therefore open.
    "PreToolUse": Event("block", "permission", context=True, on_stop="unspecified"),
    # The tables give this event no additionalContext, and no word on what
    # becomes of the request under continue:false.
    "PermissionRequest": Event("ignored", "request", on_stop="unspecified"),
    # The older page says that continue:false keeps the prompt from being
    # processed; the newer one does not take that back.
    "UserPromptSubmit": Event("block", "top", context=True, plain=True, on_stop="block"),
    "UserPromptExpansion": Event("block", "top", context=True, plain=True,
                                 on_stop="unspecified"),
    "PostToolUse": Event("block", "top", context=True),
    # The summary table lists `decision` for this event; its own section lists
    # additionalContext alone. The table is followed.
    "PostToolUseFailure": Event("block", "top", context=True),
    "PostToolBatch": Event("block", "top", context=True, on_stop="block"),
    "Stop": Event("block", "top", context=True),
    "SubagentStop": Event("block", "top", context=True),
    "SubagentStart": Event("notice", context=True),
    "SessionStart": Event("notice", context=True, plain=True),
    "Setup": Event("notice", context=True),
    "SessionEnd": Event("notice", reads_json=False, on_stop="discarded"),
    "Notification": Event("ignored", on_stop="discarded", exit_counts=False),
    "PreCompact": Event("block", "top", on_stop="discarded"),
    "PostCompact": Event("notice", on_stop="discarded"),
    "StopFailure": Event("ignored", reads_json=False, on_stop="discarded",
                         exit_counts=False),
    "PermissionDenied": Event("ignored", exit_counts=False),
    "InstructionsLoaded": Event("ignored", exit_counts=False),
    "ConfigChange": Event("block", "top", on_stop="unspecified"),
    "TaskCreated": Event("block", "top", on_stop="discarded"),
    "TaskCompleted": Event("block"),
    "TeammateIdle": Event("block"),
    "CwdChanged": Event("notice"),
    "FileChanged": Event("notice"),
    "DirectoryAdded": Event("ignored"),
    # Elicitation, ElicitationResult, WorktreeCreate, WorktreeRemove and
    # MessageDisplay have contracts of their own and are not modelled here.
}
OLDER_EXIT2 = {"PermissionRequest": "block", "PreCompact": "notice", "Notification": "notice"}

UNIVERSAL_TYPES = {"continue": bool, "stopReason": str, "suppressOutput": bool,
                   "systemMessage": str, "terminalSequence": str,
                   "decision": str, "reason": str, "hookSpecificOutput": dict}
SPECIFIC_TYPES = {"hookEventName": str, "additionalContext": str,
                  "permissionDecision": str, "permissionDecisionReason": str,
                  "updatedInput": dict}
REQUEST_TYPES = {"behavior": str, "message": str, "interrupt": bool, "updatedInput": dict}
CONTEXT_LIMIT = 10_000


def answer(verdict="pass", **fields):
    whole = {"verdict": verdict, "reason": None, "input": None, "context": [],
             "stops": False, "stopReason": None, "error": False, "notes": []}
    whole.update(fields)
    return whole


# --- what one hook printed ---------------------------------------------------

def read_stdout(text):
    """("empty"|"text"|"object"|"open", value): the first character decides.

    Text that begins with { and is no valid JSON is plain text; so are two
    objects one after the other, an array, and a line of log before the object.
    """
    if text.startswith("\ufeff"):
        return "open", "a byte order mark before the JSON: not described"
    stripped = text.strip()
    if not stripped:
        return "empty", None
    if not stripped.startswith("{"):
        return "text", stripped
    try:
        return "object", json.loads(stripped, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return "text", stripped


def _no_constant(name):
    raise ValueError(name)


def check_types(value, types, where, wrong, silent):
    """Type errors against the published field tables.

    The page says that a value of the wrong type fails validation. It does not
    say whether null counts as absent.
    """
    for key, kind in types.items():
        if key not in value:
            continue
        if value[key] is None:
            silent.append(f"{where}{key} is null: not described")
        elif not isinstance(value[key], kind):
            wrong.append(f"{where}{key} has the wrong type")


def validate(name, output):
    """(what fails validation, what the pages do not describe)."""
    wrong, silent = [], []
    check_types(output, UNIVERSAL_TYPES, "", wrong, silent)
    specific = output.get("hookSpecificOutput")
    if not isinstance(specific, dict):
        return wrong, silent
    check_types(specific, SPECIFIC_TYPES, "hookSpecificOutput.", wrong, silent)
    if specific.get("hookEventName") != name:
        # "Requires a hookEventName field set to the event name": what happens
        # without it, or with another event's name, is not written down.
        silent.append("hookEventName is missing or names another event")
    if EVENTS[name].decision == "request" and "decision" in specific:
        if isinstance(specific["decision"], dict):
            check_types(specific["decision"], REQUEST_TYPES,
                        "hookSpecificOutput.decision.", wrong, silent)
        else:
            wrong.append("hookSpecificOutput.decision has the wrong type")
    return wrong, silent


# --- what its JSON decides ---------------------------------------------------

def decide_permission(output, specific):
    """PreToolUse: permissionDecision, or the deprecated approve and block."""
    found = []
    value = specific.get("permissionDecision")
    if value is not None:
        if value not in ("allow", "deny", "ask", "defer"):
            return answer("unspecified", notes=[f"permissionDecision {value!r} is not described"])
        reason = None if value == "defer" else specific.get("permissionDecisionReason")
        found.append(("block" if value == "deny" else value, reason))
    value = output.get("decision")
    if value is not None:
        if value not in ("approve", "block"):
            return answer("unspecified", notes=[f"decision {value!r} is not described"])
        found.append(("allow" if value == "approve" else "block", output.get("reason")))
    if len(found) == 2 and found[0][0] != found[1][0]:
        return answer("unspecified", notes=["old and new decision fields disagree"])
    verdict, reason = found[0] if found else ("pass", None)
    rewritten = None if verdict in ("block", "defer") else specific.get("updatedInput")
    return answer(verdict, reason=reason, input=rewritten)


def decide_request(_output, specific):
    """PermissionRequest: only the decision object grants or denies."""
    decision = specific.get("decision")
    if decision is None:
        return answer()
    behavior = decision.get("behavior")
    if behavior == "allow":
        return answer("allow", input=decision.get("updatedInput"))
    if behavior == "deny":
        return answer("block", reason=decision.get("message"),
                      stops=decision.get("interrupt") is True)
    return answer("unspecified", notes=[f"behavior {behavior!r} is not described"])


def decide_top(output, _specific):
    """Top-level decision: the only published value is "block"."""
    value = output.get("decision")
    if value is None:
        return answer()
    if value == "block":
        notes = [] if output.get("reason") else ["a block without the required reason"]
        return answer("block", reason=output.get("reason"), notes=notes)
    if value == "approve":
        # Not published for these events, but no sentence makes it an objection.
        return answer(notes=["approve is published for PreToolUse alone"])
    return answer("unspecified", notes=[f"decision {value!r} is not described"])


def decide(name, output):
    """What a valid object decides on this event, before exit codes."""
    spec = EVENTS[name]
    specific = output.get("hookSpecificOutput") or {}
    deciders = {"permission": decide_permission, "request": decide_request,
                "top": decide_top, "none": lambda *_: answer()}
    got = deciders[spec.decision](output, specific)
    if spec.context and specific.get("additionalContext") and got["verdict"] != "defer":
        got["context"].append(specific["additionalContext"])
        if name in ("Stop", "SubagentStop"):
            # Not a block: feedback after which the conversation goes on.
            got["continues"] = True
    if output.get("continue") is False and spec.on_stop != "discarded":
        got["stops"], got["stopReason"] = True, output.get("stopReason")
        # continue:false goes before every other decision field. A call that
        # was denied as well stays denied under every reading.
        if not (spec.on_stop == "unspecified" and got["verdict"] == "block"):
            got["verdict"] = spec.on_stop
        if got["verdict"] == "unspecified":
            got["notes"].append("continue:false: the fate of this action is not described")
    return got


# --- one run, by exit code ---------------------------------------------------

def judge(name, run, edition):
    spec = EVENTS.get(name)
    if spec is None:
        return answer("unspecified", notes=[f"event {name!r} is not modelled"])
    if run.get("timed_out"):
        # Cancelled, output discarded, no decision. That the user sees a notice
        # is published for UserPromptSubmit; elsewhere the page is silent.
        notes = [] if name == "UserPromptSubmit" else ["whether a timeout is shown: silent"]
        return answer(error=True, notes=notes)
    code, stderr = run["exit"], run.get("stderr", "").strip()
    kind, value = read_stdout(run.get("stdout", ""))
    wrong = []
    if edition == OLDER and code != 0:
        kind, value = "empty", None
    got = answer()
    if kind == "open":
        got = answer("unspecified", notes=[value])
    elif kind == "object" and spec.reads_json:
        wrong, silent = validate(name, value)
        if not wrong:
            got = answer("unspecified", notes=silent) if silent else decide(name, value)
    if code == 2:
        return on_exit_2(name, got, stderr, edition, wrong)
    if wrong:
        return answer(error=spec.exit_counts or code == 0, notes=wrong)
    if kind == "text" and code == 0 and spec.plain:
        got["context"].append(value)
    if code != 0 and (kind in ("empty", "text") or not spec.reads_json):
        # Any other code without a JSON object: shown, and the action goes on.
        got["error"] = spec.exit_counts
        got["reason"] = stderr.splitlines()[0] if stderr else None
    return note_long_context(got)


def on_exit_2(name, got, stderr, edition, wrong):
    spec = EVENTS[name]
    effect = OLDER_EXIT2.get(name, spec.exit2) if edition == OLDER else spec.exit2
    if effect == "block":
        # JSON cannot lift the block. Its reason is used if it blocks too.
        if got["verdict"] != "block" or not got["reason"]:
            got["reason"] = stderr
        got["verdict"], got["input"] = "block", None
    elif effect == "notice":
        got["error"] = True
        got["reason"] = got["reason"] or stderr
    got["notes"] += wrong
    return note_long_context(got)


def note_long_context(got):
    if any(len(text) > CONTEXT_LIMIT for text in got["context"]):
        got["notes"].append("over 10,000 characters: the model gets a preview and a file path")
    return got


# --- several hooks of one event ----------------------------------------------

def combine(name, answers):
    """deny > defer > ask > allow; context of every hook; each hook has run."""
    verdicts = [each["verdict"] for each in answers]
    if name == "PermissionRequest" and "allow" in verdicts and "block" in verdicts:
        verdict, conflict = "unspecified", ["no precedence is published for this event"]
    else:
        order = ["block", "unspecified", "defer", "ask", "allow", "pass"]
        verdict, conflict = min(verdicts or ["pass"], key=order.index), []
    inputs = []
    for each in answers:
        if each["input"] is not None and each["input"] not in inputs:
            inputs.append(each["input"])
    if verdict in ("block", "defer"):
        inputs = []
    if len(inputs) > 1:
        # The last hook to finish wins, and they run side by side.
        verdict, inputs = "unspecified", []
        conflict = ["several hooks rewrote the input: the last to finish wins"]
    reasons = [each["reason"] for each in answers
               if each["reason"] and each["verdict"] == verdict]
    whole = answer(verdict, reason="\n".join(reasons) or None,
                   input=inputs[0] if inputs else None,
                   context=[text for each in answers for text in each["context"]],
                   stops=any(each["stops"] for each in answers),
                   stopReason=next((each["stopReason"] for each in answers
                                    if each["stopReason"]), None),
                   error=any(each["error"] for each in answers),
                   notes=[note for each in answers for note in each["notes"]] + conflict)
    if any(each.get("continues") for each in answers):
        whole["continues"] = True
    return whole


def judge_all(document, edition=NEWER):
    """The answer by one edition of the pages."""
    name = document["event"].get("hook_event_name", "")
    runs = document["runs"] if "runs" in document else [document]
    return combine(name, [judge(name, run, edition) for run in runs])


def judge_document(document, edition=None):
    """The answer by the newer page, and the older one's where it differs."""
    if edition:
        return judge_all(document, edition)
    newer, older = judge_all(document, NEWER), judge_all(document, OLDER)
    compared = ("verdict", "input", "context", "stops", "error")
    if any(newer[key] != older[key] for key in compared):
        newer["older"] = older
    return newer


# --- matchers ----------------------------------------------------------------

NO_MATCHER = {"UserPromptSubmit", "PostToolBatch", "Stop", "TeammateIdle", "TaskCreated",
              "TaskCompleted", "WorktreeCreate", "WorktreeRemove", "MessageDisplay",
              "CwdChanged"}
NARROW = {"FileChanged", "StopFailure"}  # no hyphen, space or comma in names


def matches(matcher, name, event="PreToolUse"):
    """True, False, or None where the pages do not say. Case counts."""
    if event in NO_MATCHER or matcher in ("", "*"):
        return True
    exact = r"[A-Za-z0-9_|]+" if event in NARROW else r"[A-Za-z0-9_\- ,|]+"
    split = r"\|" if event in NARROW else r"[|,]"
    if re.fullmatch(exact, matcher):
        # Before versions 2.1.191 and 2.1.195 a comma or a hyphen made the
        # matcher a regular expression; the current rule is followed.
        return name in [part.strip() for part in re.split(split, matcher) if part.strip()]
    try:
        # JavaScript's RegExp.prototype.test; named groups are spelt otherwise.
        found = re.search(re.sub(r"\(\?<(?![=!])", "(?P<", matcher), name) is not None
    except re.error:
        return None  # an invalid expression: not described
    wide = re.fullmatch(r"[\w\- ,|]+", matcher)
    if wide and found != (name in [part.strip() for part in re.split(split, matcher)]):
        return None  # whether "letters" means more than A to Z: not described
    return found


def main(arguments):
    if arguments[:1] == ["matches"]:
        selected = matches(*arguments[1:4])
        return 3 if selected is None else 0 if selected else 1
    edition = None
    if arguments[:1] == ["--edition"]:
        edition = arguments[1]
        if edition not in (NEWER, OLDER):
            sys.exit(f"unknown edition {edition!r}: {NEWER} or {OLDER}")
    document = json.load(sys.stdin)
    json.dump(judge_document(document, edition), sys.stdout, ensure_ascii=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
