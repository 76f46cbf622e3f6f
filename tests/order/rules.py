"""What must come before what, judged from a run's recorded system calls and its log.

Knows names of files and types of events, and nothing of the product's code.
"""

import json
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ATTEMPT = re.compile(
    r"(?:parallel-(\d+)-[^/]*/providers/([^/]+)/)?stage-(\d+)-[^/]*/"
    r"(?:run-(\d+)/)?iterations/(\d+)/(attempt|judge)-(\d+)$"
)
BRANCH = re.compile(r"/parallel-(\d+)-[^/]*/providers/([^/]+)/state\.json$")
CHECK = re.compile(r"stage-(\d+)-[^/]*/(?:run-(\d+)/)?checks/([^/]+)-(\d+)-(\d+)$")
SCRIPT = re.compile(r"/hooks/([^/]+)/attempt-(\d+)$")
SHOWN = re.compile(r"/escalations/[^/.]+\.yaml$")
PROOF = re.compile(r"/agentforge/runs/[^/]+\.json$")
KEY = re.compile(r"^idempotency-key: (\S+)\r$", re.IGNORECASE | re.MULTILINE)
STARTS = {"attempt_start": "attempt", "judge_start": "judge", "hook_start": "hook", "check_start": "check"}
ENDINGS = {
    "attempt_ending": "attempt",
    "judge_ending": "judge",
    "hook_ending": "hook",
    "check_ending": "check",
}
PREPARED = {"check_prepared": "check", "tree_taken": "attempt"}
CONTROLS = ("pause_requested", "cancel_requested", "restart_requested", "note_added")
FINAL = ("session_complete", "session_aborted", "session_failed")

Call = dict


@dataclass(frozen=True)
class Event:
    type: str
    cursor: dict
    data: dict
    payload: str
    end: int
    """How long the log must be on the disk for the event to be durable."""


def read_log(path: Path) -> list[Event]:
    events, end = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        end += len(line)
        event = json.loads(line)
        payload = (event.get("payload") or {}).get("sha256", "")
        events.append(Event(event["type"], event.get("cursor") or {}, event.get("data") or {}, payload, end))
    return events


def read_trace(path: Path) -> list[Call]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def attempt_of(folder: str) -> tuple[str, str, int, int] | None:
    """Kind, `node@provider~visit`, iteration and number of the attempt that a folder belongs to; of the
    script of a hook, kind, delivery and number; the node of a check includes its name."""
    if script := SCRIPT.search(folder):
        return "hook", script[1], 0, int(script[2])
    if check := CHECK.search(folder):
        stage, visit, name, iteration, number = check.groups()
        return "check", f"{_visited(str(int(stage)), int(visit or 1))}/{name}", int(iteration), int(number)
    if not (found := ATTEMPT.search(folder)):
        return None
    block, provider, stage, visit, iteration, kind, number = found.groups()
    node = f"{int(block)}.{int(stage)}@{provider}" if block else str(int(stage))
    return kind, _visited(node, int(visit or 1)), int(iteration), int(number)


def attempt_named(event: Event, kind: str) -> tuple[str, str, int, int]:
    if kind == "hook":
        return kind, event.data["delivery"], 0, event.data["attempt"]
    provider = event.cursor.get("provider")
    node = event.cursor["node_path"] + (f"@{provider}" if provider else "")
    node = _visited(node, event.cursor["node_run"])
    node = f"{node}/{event.data.get('baseline') or event.data['check']}" if kind == "check" else node
    return kind, node, event.cursor["iteration"], event.data.get("attempt", 1)


def _visited(node: str, visit: int) -> str:
    return f"{node}~{visit}" if visit > 1 else node


def record_of(call: Call) -> tuple[int, int]:
    """Which part of the log a record of the write-ahead file holds: its position and its size."""
    position, size, _ = struct.unpack("<QII", bytes.fromhex(call["begin"]))
    return position, size


@dataclass
class Disk:
    """What is durable at one moment of the trace."""

    log: str
    synced: int = 0
    """How much of the log, in the log itself or in its write-ahead file."""
    log_synced: int = 0
    """How much of the log in the log itself."""
    ahead: int = 0
    """How much of the log, with what the write-ahead file holds and wasn't synced yet."""
    files: dict[str, int] = field(default_factory=dict)
    """Length at the last sync, by path."""
    unsynced: set[str] = field(default_factory=set)
    """Paths of files that were created and never synced."""
    unsynced_names: set[str] = field(default_factory=set)
    """Paths that appeared in their folder after it was last synced."""
    removed: set[str] = field(default_factory=set)
    """Paths of files that were removed."""

    @property
    def wal(self) -> str:
        return self.log.removesuffix("jsonl") + "wal"

    def see(self, call: Call) -> None:
        match call["call"]:
            case "sync":
                self.files[call["path"]] = call["size"]
                self.unsynced.discard(call["path"])
                self.unsynced_names = {
                    name for name in self.unsynced_names if os.path.dirname(name) != call["path"]
                }
                if call["path"] == self.log:
                    self.log_synced = max(self.log_synced, call["size"])
                    self.synced = max(self.synced, call["size"])
                if call["path"] == self.wal and self.wal not in self.unsynced_names:
                    self.synced = max(self.synced, self.ahead)
            case "truncate" if call["path"] == self.log:
                self.synced = min(self.synced, call["size"])
                self.log_synced = min(self.log_synced, call["size"])
            case "overwrite" if call["path"] == self.wal:
                begin, size = record_of(call)
                self.ahead = begin + size
            case "unlink":
                self.removed.add(call["path"])
            case "mkdir" if call["is_new"]:
                self.unsynced_names.add(call["path"])
            case "create" if call["is_new"]:
                self.unsynced_names.add(call["path"])
                self.files.pop(call["path"], None)
                self.unsynced.add(call["path"])
                self.removed.discard(call["path"])
            case "rename" | "link":
                self.unsynced_names.add(call["path"])
                self.files[call["path"]] = self.files.get(call["source"], -1)

    def unsynced_folder(self, path: str) -> str:
        """The first folder of the path whose own name isn't synced, whichever process made it, or ""."""
        return next((str(above) for above in Path(path).parents if str(above) in self.unsynced_names), "")

    def holds(self, path: str, text: str) -> bool:
        """Whether all of the file's content was synced under this name."""
        return self.files.get(path) == len(text.encode())


class Judge:
    def __init__(self, log: Path, events: list[Event]) -> None:
        self.disk = Disk(str(log))
        self.run = str(log.parent)
        self.events = events
        self.claimed: dict[int, str] = {}
        """The folder of the attempt that a supervisor claimed."""
        self.resumed_by: set[int] = set()
        """Processes in which a person resumes the run: pauses that no engine recorded no longer count."""
        self.writers: set[int] = set()
        """Processes that wrote to the log."""
        self.shown: dict[str, bool] = {}
        """By file that shows a request: whether it is answered."""
        self.owed: dict[int, str] = {}
        """By process: what it placed and whose folder it has yet to sync."""

    def see_folders(self, trace: list[Call]) -> None:
        """Note which folders outside of the run's were made before it, and whose names were synced."""
        for call in trace:
            if call["call"] in ("mkdir", "sync") and not f"{call['path']}/".startswith(f"{self.run}/"):
                self.disk.see(call)

    def complaints(self, trace: list[Call]) -> Iterator[str]:
        for number, call in enumerate(trace, 1):
            files = (self.placed, self.acknowledged, self.taken, self.claim, self.view, self.line, self.wal)
            for rule in (self.act, self.sent, self.proof, *files):
                for error in rule(call):
                    yield f"call {number}, {call['role']} {call['call']} {call['path'][-60:]}: {error}"
            self.disk.see(call)

    def is_durable(self, *types: str, **data: object) -> bool:
        return any(
            event.type in types
            and event.end <= self.disk.synced
            and all(event.data.get(name) == value for name, value in data.items())
            for event in self.events
        )

    def announced(self, attempt: tuple, intents: dict[str, str]) -> bool:
        return any(
            event.type in intents
            and event.end <= self.disk.synced
            and attempt_named(event, intents[event.type]) == attempt
            for event in self.events
        )

    def unready(self, attempt: tuple) -> Iterator[str]:
        """The types of the events that describe the files before this attempt and aren't durable."""
        for event in self.events:
            kind = PREPARED.get(event.type)
            is_before = kind is not None and event.data.get("when", "before") == "before"
            if is_before and attempt_named(event, kind) == attempt and event.end > self.disk.synced:
                yield event.type

    def act(self, call: Call) -> Iterator[str]:
        """An intent is synced before its act, with the log's own name; the state of the files before an agent
        or a check, too."""
        if call["call"] == "spawn" and (attempt := attempt_of(call["argv"][-1])):
            if not self.announced(attempt, STARTS):
                yield f"the intent of {attempt} isn't synced"
            for type in self.unready(attempt):
                yield f"{type} of {attempt} isn't synced"
            if self.disk.log in self.disk.unsynced_names:
                yield "the log's own name isn't synced"
            elif folder := self.disk.unsynced_folder(self.disk.log):
                yield f"the folder {os.path.basename(folder)} of the log isn't synced"
        if call["call"] == "hook" and not self.is_durable("hook_start", **call["of"]):
            yield "the intent to call its function isn't synced"
        if call["call"] == "kill" and call["role"] == "engine" and call["target"] in self.claimed:
            attempt = attempt_of(self.claimed[call["target"]])
            if attempt is None or not self.announced(attempt, ENDINGS):
                yield f"the intent to end {attempt} isn't synced"

    def sent(self, call: Call) -> Iterator[str]:
        """The intent to call a hook and the intended effect are synced before its webhook is sent: the key is
        in the headers, the number of the try in the body."""
        if call["call"] != "send":
            return
        if found := KEY.search(call["text"]):
            known: dict[str, object] = {"key": found[1]}
        elif call["text"].startswith("{"):
            body = json.loads(call["text"])
            known = {"key": body["delivery"], "attempt": body["attempt"]}
        else:
            return
        if not self.is_durable("effect_intended", **known):
            yield f"the intended effect {known} isn't synced"
        if not self.is_durable("hook_start", **{"delivery": known.pop("key"), **known}):
            yield "the intent to call its hook isn't synced"

    def placed(self, call: Call) -> Iterator[str]:
        """A control or an answer is whole and synced before anybody can see it."""
        if not self.is_asked(call["path"]):
            return
        if call["call"] == "link" and not call["text"] and call["source"] in self.disk.removed:
            return  # An engine that started removed it as a leftover: the link fails, and is repeated.
        if call["call"] == "link" and not self.disk.holds(call["source"], call["text"]):
            yield "it is visible before its content is synced"
        if call["call"] in ("create", "rename"):
            yield "it isn't placed by a link, which no second one can replace"

    def acknowledged(self, call: Call) -> Iterator[str]:
        """Its name is synced before the process that placed it does anything else, such as acknowledging it,
        and that of its folder before; that of an exit record, too."""
        owed = self.owed.get(call["pid"])
        if owed and call["call"] == "sync" and call["path"] == os.path.dirname(owed):
            del self.owed[call["pid"]]
            if self.is_asked(owed) and (folder := self.disk.unsynced_folder(owed)):
                yield f"the name of the folder {os.path.basename(folder)} isn't synced by now"
        elif owed and os.path.dirname(call["path"]) != os.path.dirname(owed):
            del self.owed[call["pid"]]
            yield f"the name of {os.path.basename(owed)} isn't synced by now"
        exits = call["call"] == "rename" and os.path.basename(call["path"]) == "exit.json"
        if exits or (call["call"] == "link" and self.is_asked(call["path"])):
            self.owed[call["pid"]] = call["path"]

    def taken(self, call: Call) -> Iterator[str]:
        """A control is recorded, and that synced, before it is removed; an answer never is."""
        if call["call"] == "begin" and "resume" in call["argv"]:
            self.resumed_by.add(call["pid"])
        if call["call"] != "unlink" or not self.is_asked(call["path"]):
            return
        if os.path.basename(os.path.dirname(call["path"])) == "answers":
            yield "an answer is removed"
        control = os.path.basename(call["path"]).removesuffix(".json")
        recorded = self.is_durable(*CONTROLS, control=control)
        if not recorded and not self.is_durable(*FINAL) and call["pid"] not in self.resumed_by:
            yield "it is removed before its record is synced"

    def claim(self, call: Call) -> Iterator[str]:
        """A claim is whole and synced before it is visible, its name before the agent exists; an exit record
        is whole and synced before it is visible, and so is what the agent printed."""
        folder, name = os.path.split(call["path"])
        if call["call"] == "link" and name == "claim":
            if not self.disk.holds(call["source"], call["text"]):
                yield "it is visible before its content is synced"
            if _number(call["text"], "pid") != call["pid"]:
                yield "it doesn't say whose it is"
            self.claimed[call["pid"]] = folder
        if call["role"] == "supervisor" and name == "claim" and call["call"] in ("create", "rename"):
            yield "it is visible before it says whose it is"
        if call["call"] == "fork" and call["role"] == "supervisor":
            if call["pid"] not in self.claimed:
                yield "an agent is started without a claim"
            elif f"{self.claimed[call['pid']]}/claim" in self.disk.unsynced_names:
                yield "an agent is started before its claim's name is synced"
        ended = call["call"] == "rename" and name == "exit.json"
        if ended and not self.disk.holds(call["source"], call["text"]):
            yield "the exit record is visible before its content is synced"
        for printed in ("output.log", "errors.log"):
            if ended and f"{folder}/{printed}" in self.disk.unsynced:
                yield f"the exit record is visible before {printed} is synced"

    def view(self, call: Call) -> Iterator[str]:
        """A view is never ahead of the log."""
        if call["call"] != "rename":
            return
        if branch := BRANCH.search(call["path"]):
            yield from self.branch(int(branch[1]), branch[2], json.loads(call["text"]))
        if SHOWN.search(call["path"]):
            self.shown[call["path"]] = "status: resolved" in call["text"]
            yield from self.requests()
        if call["path"] == f"{self.run}/state.json":
            length = (json.loads(call["text"]).get("snapshot") or {}).get("length", 0)
        elif "/heads/" in call["path"]:
            length = json.loads(call["text"])["head"]["length"]
        else:
            return
        if length > self.disk.synced:
            yield f"it tells of {length} bytes of the log, of which {self.disk.synced} are synced"

    def branch(self, block: int, provider: str, told: dict) -> Iterator[str]:
        """The iterations of each stage of a branch are those of durable events."""
        stages = [*(stage["iterations"] for stage in told["stages"]), told["iteration_completed"]]
        for stage, iterations in enumerate(stages[: told["current_stage"] + 1]):
            durable = [
                event.cursor["iteration"]
                for event in self.events
                if event.type == "iteration_complete"
                and event.end <= self.disk.synced
                and event.cursor["node_path"] == f"{block}.{stage}"
                and event.cursor.get("provider") == provider
            ]
            if iterations > max(durable, default=0):
                yield f"it tells of {iterations} iterations of stage {stage}, more than are synced"

    def requests(self) -> Iterator[str]:
        """Files show no more requests and answers than the log holds."""
        durable = [event.type for event in self.events if event.end <= self.disk.synced]
        if len(self.shown) > durable.count("request_opened"):
            yield "it shows more requests than are synced"
        if sum(self.shown.values()) > durable.count("request_answered"):
            yield "it shows more answers than are synced"

    def proof(self, call: Call) -> Iterator[str]:
        """That the run was started here is durable before its first event."""
        if call["call"] != "write" or call["path"] != self.disk.log or self.writers:
            return
        found = [path for path in self.disk.files if PROOF.search(path)]
        if not any(self._is_kept(path) for path in found):
            yield "the proof that the run was started here isn't synced"
        elif any(folder := self.disk.unsynced_folder(path) for path in found):
            yield f"the folder {os.path.basename(folder)} of the proof isn't synced"

    def line(self, call: Call) -> Iterator[str]:
        """Data that a line of the log names is durable before the line is written; a torn line is archived,
        durably, before it is cut off."""
        if call["path"] != self.disk.log:
            return
        if call["call"] == "write":
            self.writers.add(call["pid"])
            named = (self.file_of(event) for event in self.events if event.end <= call["size"])
            for what, name, path in filter(None, named):
                if not self._is_kept(path):
                    yield f"its {what} {name} isn't synced"
                elif folder := self.disk.unsynced_folder(path):
                    yield f"the folder {os.path.basename(folder)} of its {what} isn't synced"
        # A writer truncates its own incomplete line; other processes find one.
        if call["call"] == "truncate" and call["pid"] not in self.writers:
            kept = f"{self.run}/events.jsonl.torn-{call['size']}"
            if not any(path.startswith(kept) and self._is_kept(path) for path in self.disk.files):
                yield "the torn line isn't kept"

    def file_of(self, event: Event) -> tuple[str, str, str] | None:
        """The file that has data of an event which is too large for the log: what it is, name and path."""
        if event.payload:
            return "payload", event.payload[:12], f"{self.run}/payloads/{event.payload}.json"
        artifact = event.data.get("artifact") or {}
        if event.type == "iteration_complete" and artifact and "value" not in artifact:
            return "artifact", artifact["file"][-40:], f"{self.run}/{artifact['file']}"
        return None

    def wal(self, call: Call) -> Iterator[str]:
        """The write-ahead file is overwritten from its beginning, or removed, only when the log itself holds
        all that was synced."""
        if call["path"] != self.disk.wal or call["pid"] not in self.writers:
            return
        restarts = call["call"] == "overwrite" and call["position"] == 0
        if (restarts or call["call"] == "unlink") and self.disk.log_synced < self.disk.synced:
            yield f"{self.disk.log_synced} bytes of the log are synced, {self.disk.synced} are needed"
        if call["call"] == "overwrite" and record_of(call)[0] > self.disk.synced:
            yield "it leaves out a part of the log"

    def _is_kept(self, path: str) -> bool:
        return self.disk.files.get(path, -1) >= 0 and path not in self.disk.unsynced_names

    def is_asked(self, path: str) -> bool:
        folder, name = os.path.split(path)
        asked = folder in (f"{self.run}/control", f"{self.run}/answers")
        return asked and not name.startswith(".") and name.endswith(".json")


def _number(text: str, key: str) -> object:
    try:
        return json.loads(text).get(key)
    except ValueError:
        return None


def unsynced_claims(trace: list[Call], log: Path) -> dict[str, str]:
    """By claim: the folder on its path whose name isn't synced when its agent or script is started, or "".
    After a power failure, it would seem that it was never started."""
    disk, claimed, found = Disk(str(log)), {}, {}
    for call in trace:
        if call["call"] == "link" and os.path.basename(call["path"]) == "claim":
            claimed[call["pid"]] = call["path"]
        if call["call"] == "fork" and call["role"] == "supervisor":
            claim = claimed[call["pid"]]
            found[claim] = disk.unsynced_folder(claim)
        disk.see(call)
    return found


def complaints(trace: list[Call], log: Path, events: list[Event] | None = None) -> list[str]:
    """What the recorded calls do in the wrong order, since an earlier run of that name was moved aside."""
    moved = [n for n, call in enumerate(trace) if call.get("source") == str(log.parent)]
    begin = moved[-1] + 1 if moved else 0
    judge = Judge(log, read_log(log) if events is None else events)
    judge.see_folders(trace[:begin])
    return list(judge.complaints(trace[begin:]))
