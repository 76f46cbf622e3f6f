"""The processes of a crash run: who they are, what they work on, and their end."""

import contextlib
import io
import json
import os
import posix
import re
import signal

if __package__:
    from .killer import visited
else:  # In a process that is to be killed.
    from killer import visited

# Not those of `os` and `builtins`, which the injector wraps.
_open, _write, _close, _kill, _plain_open = posix.open, posix.write, posix.close, posix.kill, io.open

ROLES = ("engine", "sender", "supervisor", "agent", "tool")

PR_SET_NAME = 15
MARK = re.compile(rb"AGENTFORGE_ATTEMPT=[^/]*/([^/]*)/(\d+)/(\d+)/(\d+)(/judge|/check/[^/@]*)?@")
HOOK_MARK = re.compile(rb"AGENTFORGE_ATTEMPT=[^/]*/hook/([^/]*)/(\d+)@")
HOOK_FOLDER = re.compile(rb"/hooks/([^/]*)/attempt-(\d+)\0")
FOLDER = re.compile(
    rb"(?:parallel-(\d+)-[^/]*/providers/([^/]*)/)?"
    rb"stage-(\d+)-[^/]*/(?:run-(\d+)/)?iterations/(\d+)/(attempt|judge)-(\d+)\0"
)
CHECK_FOLDER = re.compile(rb"stage-(\d+)-[^/]*/(?:run-(\d+)/)?checks/([^/]*)-(\d+)-(\d+)\0")


def name_process(role: str) -> None:
    """So that others can find this one, which was forked: command line and environment in /proc aren't its
    own."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_NAME, _name(role, os.environ["CRASH_RUN"]).encode(), 0, 0, 0)


def _name(role: str, run: str) -> str:
    return f"{role[:6]}-{run[:8]}"


def processes(run: str) -> dict[int, str]:
    """All living processes of a crash run, each with its role."""
    found = {}
    roles = {_name(role, run): role for role in ("engine", "sender", "other")}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with _plain_open(f"/proc/{name}/comm", encoding="utf-8", errors="replace") as file:
                if role := roles.get(file.read().strip()):
                    found[int(name)] = role
                    continue
            with _plain_open(f"/proc/{name}/environ", "rb") as file:
                is_one = f"CRASH_RUN={run}".encode() in file.read().split(b"\0")
            with _plain_open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            # A supervisor has no environment.
            if is_one or any(f"supervised-{run}" in word for word in words):
                found[int(name)] = _role(words)
    return found


def _role(words: list[str]) -> str:
    ends = [os.path.basename(word) for word in words]
    if "launch.py" in ends:
        return ends[ends.index("launch.py") + 1]
    if any(word.startswith("supervised-") for word in ends):
        return "supervisor"
    return "agent" if "agent.py" in ends or "claude" in ends else "tool"


def attempt_of(pid: int) -> str:
    """`node/iteration/attempt` that a supervisor or an agent works on, or `node/iteration/judge/attempt`; of
    the script of a hook `hook/delivery/attempt`, of a check `node/iteration/check/name/attempt`."""
    with contextlib.suppress(OSError):
        with _plain_open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
            if mark := HOOK_MARK.search(environ):
                return b"/".join((b"hook", *mark.groups())).decode()
            if mark := MARK.search(environ):
                node, visit, iteration, attempt, judge = mark.groups(b"")
                place = visited(node.decode(), int(visit))
                return f"{place}/{int(iteration)}{judge.decode()}/{int(attempt)}"
        with _plain_open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
            if place := HOOK_FOLDER.search(words):
                return b"/".join((b"hook", *place.groups())).decode()
            if place := CHECK_FOLDER.search(words):
                stage, visit, name, iteration, attempt = place.groups(b"")
                node = visited(str(int(stage)), int(visit or 1))
                return f"{node}/{int(iteration)}/check/{name.decode()}/{int(attempt)}"
            if place := FOLDER.search(words):
                block, provider, stage, visit, iteration, kind, attempt = place.groups(b"")
                node = f"{int(block)}.{int(stage)}@{provider.decode()}" if block else str(int(stage))
                node = visited(node, int(visit or 1))
                judge = "/judge" if kind == b"judge" else ""
                return f"{node}/{int(iteration)}{judge}/{int(attempt)}"
    return ""


def kill_processes(run: str, victims: list[str], notes: str, myself: str = "") -> None:
    """Kill the living processes of these roles, all but ourselves. Who they are is noted first, since the
    death of one may be ours."""
    others = {pid: role for pid, role in processes(run).items() if role in victims and pid != os.getpid()}
    killed = [[myself, attempt_of(os.getpid())]] if myself else []
    killed += [[role, attempt_of(pid)] for pid, role in others.items()]
    note = _open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _write(note, json.dumps(killed).encode() + b"\n")
    _close(note)
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            _kill(pid, signal.SIGKILL)
