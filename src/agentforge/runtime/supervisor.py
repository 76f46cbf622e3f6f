"""Runs one agent attempt so that the agent outlives the engine: `python -I -S supervisor.py FOLDER`.

Theory of operation
-------------------
The engine may die at any instant; the agent must not be lost, duplicated or left running unattended. So this
program runs between the two, in a separate session. It is one file that imports nothing of ours and little of
the standard library: every attempt pays for its startup, and it must not change under a running agent.

*Handover.* The engine starts us in the attempt's folder with an almost empty environment, and a socket as
stdin. When other processes of the user can no longer inspect us, we write one byte to it; then the engine
sends the specification, which contains the agent's environment with its secrets, and closes the socket. So
no file, command line or environment ever holds it. If the engine dies before it has sent all, nothing is
claimed.

*Folder.* All records are written relative to the working directory, which stays the same folder wherever it
is moved, and which the specification identifies. Only if that folder was deleted and restored, as `git stash`
does, is it looked up by its path, and recognized by our claim in it.

*Claim.* The attempt belongs to the process that creates the claim file first: a supervisor, or an engine that
recovers the run and finds that no supervisor has started. The file is linked into place complete and durable,
before the agent exists. So a claim always names a process that can be waited for, and a missing claim means
that nothing ran. A second claimant exits without side effects (exit status 3).

*Following.* One loop waits for signals and for the agent's output. It enforces the deadline and the idle
limit and probes the run's lease: if no engine holds it for the orphan grace, no engine will read this agent's
results, and the agent is ended. All of these count our own working time: no changes of the clock, no sleep of
the machine, and no time in which we were stopped, as by SIGSTOP or a container's pause, since the agent
probably was stopped with us. We never wait long, so two readings far apart show such a time. Output beyond
the cap is counted and dropped, so a flood costs neither memory nor disk. Secrets are redacted before they
reach the file: bytes at the end of a read that may be the beginning of a secret are held back until the next
read.

*Ending.* An agent's tools may start new sessions, double-fork, or clear their environment. On Linux we are a
child subreaper: an orphaned process becomes our child, so everything that the attempt started is below us in
the process tree, and "no children left" proves that all of it is gone. First everything gets SIGTERM and a
grace period; then the tree is stopped until no new processes appear (a stopped process can't fork), and
killed; this repeats until none is left. Other systems have no subreaper: we rely on the process group, the
environment mark and the parent pids of `ps`, and a process that changes all three escapes. If we ourselves
are killed, Linux kills the agent with us; leftover processes carry the mark, and the engine ends them before
the next attempt.

*Cleanup.* An agent that works elsewhere, such as in a container, has a cleanup program that ends it there. It
runs, with a timeout, when all our processes are gone.

*Exit record.* Renamed into place as the last step, so its existence means: the agent and everything it
started are gone, and the output is complete. Its space is reserved before the agent starts, so that a full
disk can't lose the outcome.
"""

# Importing json, re, contextlib or signal (for its enums) would double the time that every attempt takes to
# start; starting programs is the purpose of this one.
# ruff: noqa: SIM105, S606

from __future__ import annotations

import fcntl
import marshal
import os
import select
import sys
import time
from _json import encode_basestring_ascii as quoted

TYPE_CHECKING = False  # Importing typing would slow down the start, too.
if TYPE_CHECKING:
    import re
    import signal
    from collections.abc import Callable
    from typing import Any, NoReturn
else:
    import _signal as signal

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219, "ppc64le": 271, "s390x": 280}
"""The number of the system call, by machine."""
KEYCTL_JOIN_SESSION_KEYRING = 1

CLAIM, AGENT, EXIT, OUTPUT, ERRORS = "claim", "agent.json", "exit.json", "output.log", "errors.log"
ALREADY_CLAIMED = 3
NOT_HANDED_OVER = 4
HANDOVER_SECONDS = 60.0
CHUNK = 65536
HIGH = 64  # Higher than every descriptor that a program is given.
# Signals that an agent must not inherit as ignored: background jobs of a shell, nohup and Python ignore some.
RESET_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGXFSZ,
)
TAIL_BYTES = 262144  # The last lines show how an agent ended.
CHUNKS_PER_TURN = 64  # A flood of output must not delay the checks of the limits.
LEASE_PERIOD = 2.0
LONGEST_WAIT = 0.5
STOPPED_SECONDS = 1.0  # Between two readings of the clock: we were stopped, as we never wait that long.
LEFTOVER_GRACE = 1.0  # For processes that are left over when an agent exits by itself.
FREEZE_PASSES = 20
QUICK_PASSES = 50
KILL_TIMEOUT = 30.0  # After this, a process that survives SIGKILL is reported instead.
RECORD_BYTES = 2048
RECORD_TRIES = 20
CLEANUP_SECONDS = 10.0
REDACTED = b"[secret]"


class Spec:
    """The attempt's specification, sent by the engine."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.place: dict[str, Any] = record["place"]
        """The path, device and inode of the attempt's folder."""
        self.output_cap: int = record["output_cap"]
        self.argv: list[str] = record["argv"]
        self.cwd: str = record["cwd"]
        self.stdin: str = record["stdin"]
        self.descriptors: dict[int, str] = {int(n): text for n, text in record["descriptors"].items()}
        """What the program can read from these descriptors."""
        self.timeout: float | None = record["timeout"]
        self.idle_timeout: float | None = record["idle_timeout"]
        self.term_grace: float = record["term_grace"]
        self.orphan_grace: float = record["orphan_grace"]
        self.lease: str = record["lease"]
        self.mark: str = record["mark"]
        self.separate_errors: bool = record["separate_errors"]
        self.secrets: list[str] = record["secrets"]
        self.cleanup: list[str] = record["cleanup"]
        name, _, value = self.mark.partition("=")
        self.env: dict[str, str] = {**record["env"], name: value}


# --- Identity -----------------------------------------------------------------------------------------------


def read(path: str | bytes) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; the name may contain spaces and parentheses."""
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()


def ask(*argv: str) -> str:
    """The output of a system program, for systems without /proc."""
    import subprocess

    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.stdout.decode(errors="replace")


def start_time(pid: int) -> str:
    return stat_fields(pid)[19] if LINUX else ask("ps", "-p", str(pid), "-o", "lstart=").strip()


def boot_id() -> str:
    if LINUX:
        return read("/proc/sys/kernel/random/boot_id").decode().strip()
    return ask("sysctl", "-n", "kern.bootsessionuuid").strip()


def load_prctl() -> Callable[..., int]:
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError) as exc:
        raise SpawnFailed(f"can't supervise: this Python has no working ctypes ({exc})") from exc
    prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    call: Callable[..., int] = prctl
    return call


# --- Files --------------------------------------------------------------------------------------------------


def json_of(value: Any) -> str:
    """The JSON text of a record: of text, numbers, None, and dictionaries of them."""
    if isinstance(value, dict):
        fields = [f"{quoted(name)}: {json_of(item)}" for name, item in value.items()]
        return f"{{{', '.join(fields)}}}"
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    return repr(value)


def create(name: str) -> int:
    """Create a file in the attempt's folder; an existing one is an error."""
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)


def write_draft(name: str, record: dict[str, Any]) -> None:
    draft, text = create(name), json_of(record).encode()
    try:
        if os.write(draft, text) < len(text):
            raise OSError("short write")
        os.fsync(draft)
    finally:
        os.close(draft)


def sync_folder() -> None:
    folder = os.open(".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def anonymous_file(text: str) -> int:
    """A file without a name that contains the text, positioned at its start."""
    if LINUX:
        file = os.memfd_create("agentforge")
    else:
        name = f"input.{os.getpid()}"
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        os.unlink(name)
    content = memoryview(raw(text))
    while content:
        content = content[os.write(file, content) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


class Folder:
    """The attempt's folder, which is the working directory."""

    def __init__(self, spec: Spec) -> None:
        self.place, self.mark = spec.place, spec.mark
        self.claim = b""
        """Our claim."""

    def is_right(self) -> bool:
        here = os.stat(".")
        return (here.st_dev, here.st_ino) == (self.place["device"], self.place["inode"])

    def take_claim(self) -> bool:
        """Linked rather than opened exclusively, so that a claim is never visible without its owner."""
        pid = os.getpid()
        draft = f"{CLAIM}.{pid}"
        identity = {"pid": pid, "start_time": start_time(pid), "boot_id": boot_id()}
        claim = {**identity, "host": os.uname().nodename, "mark": self.mark, "place": self.place}
        self.claim = json_of(claim).encode()
        try:
            write_draft(draft, claim)
            os.link(draft, CLAIM)
        except FileExistsError:
            return False
        finally:
            os.unlink(draft)
        sync_folder()
        return True

    def find_again(self) -> None:
        """Enter the folder at our path if the one we were in was deleted: it is ours if it has our claim."""
        if os.path.lexists(CLAIM):
            return
        folder = os.open(raw(self.place["path"]), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if self._is_ours(folder):
                os.fchdir(folder)
        finally:
            os.close(folder)

    def _is_ours(self, folder: int) -> bool:
        """Whether the folder has our claim; an agent may have put something else there, such as a pipe."""
        claim = os.open(CLAIM, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            size = os.fstat(claim).st_size
            return size == len(self.claim) and os.read(claim, size) == self.claim
        finally:
            os.close(claim)


class ExitRecordFile:
    def __init__(self, folder: Folder) -> None:
        self.folder, self.draft, self.renewed = folder, f"{EXIT}.draft", 0
        self.file = create(self.draft)
        try:
            os.write(self.file, b" " * RECORD_BYTES)
        except OSError:
            pass  # The disk is full; there may be space when the record is written.

    def place(self, record: dict[str, Any]) -> bool:
        for _ in range(RECORD_TRIES):
            try:
                self._write(json_of(record).encode())
            except OSError:
                time.sleep(0.5)
                self._renew()
            else:
                return True
        return False

    def _write(self, text: bytes) -> None:
        # Overwrites the reserved space, since the disk may be full.
        if os.pwrite(self.file, text, 0) < len(text):
            raise OSError("short write")
        os.ftruncate(self.file, len(text))
        os.fsync(self.file)
        if not self._is_draft():
            raise OSError("another file has the name of the draft")
        os.rename(self.draft, EXIT)
        sync_folder()

    def _renew(self) -> None:
        """Start another draft if ours was deleted or replaced, with its folder or without, and move a folder
        away that has the name of the record."""
        try:
            self.folder.find_again()
            self.renewed += 1
            if not self._is_draft():
                self.draft = f"{EXIT}.{os.getpid()}-{self.renewed}"
                self.file = create(self.draft)
            if os.path.isdir(EXIT) and not os.path.islink(EXIT):
                os.rename(EXIT, f"{EXIT}.{os.getpid()}-{self.renewed}.refused")
        except OSError:
            pass  # Retried.

    def _is_draft(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.file), os.lstat(self.draft))
        except FileNotFoundError:
            return False


class StreamRedactor:
    """Redacts secrets in a stream. Holds back only bytes that may be the beginning of a secret."""

    def __init__(self, secrets: list[str]) -> None:
        # Longest first, so that a value is matched before another one that is its prefix.
        self.values = sorted({raw(secret) for secret in secrets if secret}, key=len, reverse=True)
        self.pattern: re.Pattern[bytes] | None = None
        self.held = b""

    def pass_on(self, chunk: bytes) -> bytes:
        text, done = self.held + chunk, 0
        passed: list[bytes] = []
        held_from = self._beginning(text)
        # An incomplete value starts at `held_from` or later: matches before it are final.
        while (found := self._find(text, done)) and found.start() < held_from:
            passed += (text[done : found.start()], REDACTED)
            done = found.end()
            if done > held_from:
                held_from = self._beginning(text, done)
        self.held = text[held_from:]
        return b"".join((*passed, text[done:held_from]))

    def rest(self) -> bytes:
        # A complete value may have been held back, because it is a prefix of a longer one.
        text, self.held = self.held, b""
        for value in self.values:
            text = text.replace(value, REDACTED)
        return text

    def _find(self, text: bytes, start: int) -> re.Match[bytes] | None:
        if self.pattern is None:
            if not any(value in text for value in self.values):
                return None  # The common case, which avoids compiling the pattern.
            import re

            self.pattern = re.compile(b"|".join(map(re.escape, self.values)))
        return self.pattern.search(text, start)

    def _beginning(self, text: bytes, start: int = 0) -> int:
        """The first index from which the rest of the text may be the beginning of a value, or its length."""
        first = len(text)
        for value in self.values:
            at = text.find(value[:1], max(start, len(text) - len(value) + 1))
            while 0 <= at < first:
                if value.startswith(text[at:]):
                    first = at
                at = text.find(value[:1], at + 1)
        return first


class Output:
    """The agent's output: the first bytes up to the cap and the last lines go to a file; all bytes are
    counted."""

    def __init__(self, path: str, cap: int, secrets: list[str]) -> None:
        self.redactor = StreamRedactor(secrets)
        self.file = create(path)
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.open = True
        self.room, self.total, self.truncated = cap, 0, False
        self.dropped = bytearray()
        self.error: str | None = None

    def drain(self, chunks: int = CHUNKS_PER_TURN) -> bool:
        """Read the available output; returns whether there was any."""
        if not self.open:
            return False
        for taken in range(chunks):
            try:
                chunk = os.read(self.read_end, CHUNK)
            except BlockingIOError:
                return taken > 0
            if chunk:
                self.total += len(chunk)
                self._write(self.redactor.pass_on(chunk))
            else:  # Closed by all writers; the agent itself may still be running.
                self.open = False
                os.close(self.read_end)
                return taken > 0
        return True

    def _write(self, text: bytes) -> None:
        kept, rest = text[: self.room], text[self.room :]
        try:
            while kept:
                written = os.write(self.file, kept)
                self.room -= written
                kept = kept[written:]
        except OSError as exc:
            self.room, self.truncated = 0, True
            self.error = f"can't write the output: {exc.strerror}; the rest was dropped"
        if rest:
            self.truncated = True
            self.dropped += rest
            if len(self.dropped) > 2 * TAIL_BYTES:  # Rarely, not for every chunk.
                del self.dropped[:-TAIL_BYTES]

    def finish(self) -> None:
        self.drain(CHUNKS_PER_TURN * 16)
        self._write(self.redactor.rest())
        # Skip the first line: it is incomplete, or its beginning is already in the file.
        last = bytes(self.dropped[-TAIL_BYTES:]).partition(b"\n")[2]
        if last and self.error is None:
            self.room = len(last) + 1
            self._write(b"\n" + last)
        try:
            os.fsync(self.file)
        except OSError as exc:
            self.error = self.error or f"can't write the output: {exc.strerror}"


class AttemptClock:
    """Monotonic seconds, without those in which we were stopped."""

    def __init__(self) -> None:
        self.read_at = time.monotonic()
        self.stopped = 0.0

    def now(self) -> float:
        before, self.read_at = self.read_at, time.monotonic()
        if self.read_at - before > STOPPED_SECONDS:
            self.stopped += self.read_at - before
        return self.read_at - self.stopped


class Lease:
    """Whether an engine holds the lease of the run: a lock on its log."""

    def __init__(self, path: str, grace: float, now: float) -> None:
        self.path, self.grace = raw(path), grace
        self.period = min(LEASE_PERIOD, max(grace / 4, 0.02))
        self.probed = now
        self.unattended = 0.0
        try:
            # The log of the engine that started us, wherever it is moved.
            self.log: int | None = self._open()
        except OSError:
            self.log = None

    @property
    def due(self) -> float:
        return self.probed + self.period

    def abandoned(self, now: float) -> bool:
        if now < self.due:
            return False
        self.unattended = 0.0 if self.is_held() else self.unattended + now - self.probed
        self.probed = now
        return self.unattended >= self.grace

    def is_held(self) -> bool:
        return (self.log is not None and is_locked(self.log)) or self._is_held_at_path()

    def _is_held_at_path(self) -> bool:
        """The log may have been restored, by a backup or by an engine."""
        try:
            log = self._open()
        except FileNotFoundError:
            return False
        except OSError:
            return True  # When in doubt, the agent is not ended.
        try:
            return is_locked(log)
        finally:
            os.close(log)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)


def is_locked(log: int) -> bool:
    try:
        fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(log, fcntl.LOCK_UN)
    return False


# --- Starting the agent -------------------------------------------------------------------------------------


class SpawnFailed(Exception):
    """The agent could not be started; the message is shown to the user."""


def start_agent(spec: Spec, outputs: list[Output], prctl: Callable[..., int] | None) -> int:
    try:
        stdin = anonymous_file(spec.stdin) if spec.stdin else os.open(os.devnull, os.O_RDONLY)
        given = {number: anonymous_file(text) for number, text in spec.descriptors.items()}
    except OSError as exc:
        raise SpawnFailed(f"can't store the agent's input: {exc.strerror}") from exc
    report, reporting = os.pipe()
    parent = os.getpid()
    # Blocked, so that our handlers don't run in the child.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid == 0:
        ends = {0: stdin, 1: outputs[0].write_end, 2: outputs[-1].write_end, **given}
        become_agent(spec, ends, reporting, prctl, parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for end in (stdin, reporting, *given.values(), *(output.write_end for output in outputs)):
        os.close(end)
    problem = os.read(report, CHUNK)  # Empty once exec has succeeded.
    os.close(report)
    if problem:
        os.waitpid(pid, 0)
        raise SpawnFailed(problem.decode(errors="replace"))
    return pid


def become_agent(
    spec: Spec, ends: dict[int, int], reporting: int, prctl: Callable[..., int] | None, parent: int
) -> NoReturn:
    action = "prepare the agent's process"
    try:
        os.setsid()
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # It died before the call above, so no signal would ever end us.
                os._exit(127)
        for number in RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        # Moved out of the way first, so that none is overwritten before it is duplicated.
        reporting = fcntl.fcntl(reporting, fcntl.F_DUPFD_CLOEXEC, HIGH)
        moved = {target: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, HIGH) for target, source in ends.items()}
        for target, source in moved.items():
            os.dup2(source, target)
        action = f"enter the working directory {spec.cwd}"
        os.chdir(raw(spec.cwd))
        action = f"start {spec.argv[0]}"
        argv = [raw(argument) for argument in spec.argv]
        env = {raw(name): raw(value) for name, value in spec.env.items()}
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(argv[0], argv, env)
    except BaseException as exc:  # The parent reports any error.
        os.write(reporting, f"can't {action}: {explain(exc, action)}".encode()[:1000])
    finally:
        os._exit(127)


def raw(text: str) -> bytes:
    """Encode as UTF-8, as the engine wrote it, not in the locale's encoding."""
    return text.encode("utf-8", "surrogateescape")


def explain(exc: BaseException, action: str) -> str:
    if action.startswith("start ") and isinstance(exc, FileNotFoundError):
        return "no such program on the agent's PATH, or the interpreter it names is missing"
    if action.startswith("start ") and isinstance(exc, PermissionError):
        return "it is not executable (permission denied)"
    return getattr(exc, "strerror", None) or str(exc)


# --- The process tree ---------------------------------------------------------------------------------------


def with_descendants(roots: set[int], parents: dict[int, int]) -> set[int]:
    """The roots and all their descendants."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found, queue = set(roots), list(roots)
    while queue:
        fresh = [pid for pid in children.get(queue.pop(), ()) if pid not in found]
        found.update(fresh)
        queue.extend(fresh)
    return found


def tree_by_proc(root: int) -> dict[int, tuple[str, int]]:
    """All descendants, with their state and process group."""
    parents: dict[int, int] = {}
    seen: dict[int, tuple[str, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = stat_fields(int(name))
            except OSError:
                continue
            parents[int(name)], seen[int(name)] = int(fields[1]), (fields[0], int(fields[2]))
    return {pid: seen[pid] for pid in with_descendants({root}, parents) if pid != root}


def own_children() -> list[int]:
    """Our children, or [] if the kernel doesn't list them."""
    pid = os.getpid()
    try:
        return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []


def tree_by_ps(agent: int, mark: str, known: set[int]) -> dict[int, tuple[str, int]]:
    """The agent's process group, marked processes, those known before, and their descendants."""
    parents: dict[int, int] = {}
    seen: dict[int, tuple[str, int]] = {}
    roots: set[int] = set()
    for line in ask("ps", "-axww", "-E", "-o", "pid=,ppid=,pgid=,stat=,command=").splitlines():
        pid, parent, group, state, *command = line.split(None, 4)
        parents[int(pid)], seen[int(pid)] = int(parent), (state, int(group))
        if int(group) == agent or int(pid) in known or (command and mark in command[0].split()):
            roots.add(int(pid))
    return {pid: seen[pid] for pid in with_descendants(roots, parents) if pid != os.getpid()}


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


# --- The attempt --------------------------------------------------------------------------------------------


class SignalHandlers:
    """Counts SIGTERM; SIGTERM and the exit of a child wake the loop."""

    def __init__(self) -> None:
        self.terms = 0
        self.wake, wake_up = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_up, False)
        signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._term)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # The starting thread may have blocked some.

    def _term(self, *_: object) -> None:
        self.terms += 1


class Attempt:
    def __init__(self, spec: Spec, folder: Folder, signals: SignalHandlers) -> None:
        self.spec, self.signals = spec, signals
        self.record = ExitRecordFile(folder)
        self.outputs: list[Output] = []
        """One for all output, or a second one for stderr."""
        self.clock = AttemptClock()
        """Of all limits; read at least every `LONGEST_WAIT`."""
        self.started_at, self.started = timestamp(), self.clock.now()
        self.lease = Lease(spec.lease, spec.orphan_grace, self.started)
        self.agent: int | None = None
        self.code: int | None = None
        """The agent's exit status once it has exited; negative for a signal."""
        self.childless = False
        self.ended: set[int] = set()
        self.last_output = self.started

    def run(self) -> bool:
        status, error = "spawn_failed", None
        try:
            status = "ended" if self.signals.terms else self._start_and_follow()
        except Exception as exc:  # A claimed attempt must have an outcome.
            error = str(exc) or repr(exc)
            status = "spawn_failed" if self.agent is None else "ended"
        if self.agent is not None:
            by_itself = status in ("exited", "signaled")
            self._end(min(LEFTOVER_GRACE, self.spec.term_grace) if by_itself else self.spec.term_grace)
            problem = self._clean_up()
            error = error or problem
        for output in self.outputs:
            output.finish()
        return self.record.place(self._outcome(status, error))

    def _start_and_follow(self) -> str:
        prctl = load_prctl() if LINUX else None
        if prctl is not None and prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise SpawnFailed("can't supervise: the kernel refuses to make this process a subreaper")
        for name in (OUTPUT, ERRORS) if self.spec.separate_errors else (OUTPUT,):
            try:
                self.outputs.append(Output(name, self.spec.output_cap, self.spec.secrets))
            except OSError as exc:
                raise SpawnFailed(f"can't write the output to {name}: {exc.strerror}") from exc
        self.agent = start_agent(self.spec, self.outputs, prctl)
        draft = f"{AGENT}.draft"
        try:
            write_draft(draft, {"pid": self.agent, "start_time": start_time(self.agent)})
            os.rename(draft, AGENT)
        except OSError:
            pass  # Informational only.
        return self._follow()

    def _follow(self) -> str:
        """Wait until the agent exits or must be ended; returns the status."""
        spec = self.spec
        while True:
            now = self.clock.now()
            deadline = self.started + spec.timeout if spec.timeout is not None else now + 60
            silence = self.last_output + spec.idle_timeout if spec.idle_timeout is not None else now + 60
            # At a shutdown the agent gets the signal, too, and may die first: that isn't its own failure.
            if self.code is not None and (self.code == 0 or not self.signals.terms):
                return "exited" if self.code >= 0 else "signaled"
            if self.signals.terms:
                return "ended"
            if now >= deadline:
                return "timeout"
            if now >= silence:
                return "idle"
            if self.lease.abandoned(now):
                return "orphaned"
            self._turn(min(deadline, silence, self.lease.due) - now)

    def _turn(self, seconds: float) -> None:
        """Wait for a signal, output, the timeout or `LONGEST_WAIT`; then process everything available."""
        watched = [self.signals.wake, *(output.read_end for output in self.outputs if output.open)]
        select.select(watched, [], [], min(max(seconds, 0), LONGEST_WAIT))
        now = self.clock.now()
        try:
            os.read(self.signals.wake, CHUNK)
        except BlockingIOError:
            pass
        for output in self.outputs:
            if output.drain():
                self.last_output = now
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            if pid == self.agent and self.code is None:
                self.code = os.waitstatus_to_exitcode(status)

    def _end(self, grace: float) -> None:
        """End everything that the agent started."""
        self._reap()
        if self._all_gone():
            return
        asked = max(self.signals.terms, 1)
        for group in {group for _, group in self._living().values()}:
            # Signal the whole group at once, or a shell would see its child die and run the next line.
            send(-group, signal.SIGTERM)
            send(-group, signal.SIGCONT)  # A stopped process would not handle it.
        until = self.clock.now() + grace
        # Another SIGTERM skips the grace period.
        while not self._all_gone() and self.signals.terms <= asked and (left := until - self.clock.now()) > 0:
            self._turn(left if LINUX else min(left, 0.1))
        kill_until = self.clock.now() + KILL_TIMEOUT
        while not self._all_gone() and self.clock.now() < kill_until:
            for pid in self._freeze():
                send(pid, signal.SIGKILL)
            self._kill_children(0.2)

    def _clean_up(self) -> str | None:
        """Run the cleanup program for work outside our process tree; returns an error or None."""
        argv = [raw(argument) for argument in self.spec.cleanup]
        if not argv:
            return None
        env = {raw(name): raw(value) for name, value in self.spec.env.items()}
        devnull = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        defaults = [signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM]
        try:
            os.posix_spawnp(argv[0], argv, env, file_actions=devnull, setpgroup=0, setsigdef=defaults)
        except OSError as exc:
            return f"can't run cleanup program {self.spec.cleanup[0]}: {exc.strerror}"
        self.childless = False
        until = self.clock.now() + CLEANUP_SECONDS
        while not self.childless and (left := until - self.clock.now()) > 0:
            self._turn(left)
        if self.childless:
            return None
        self._end(0.0)
        return f"cleanup program {self.spec.cleanup[0]} timed out after {CLEANUP_SECONDS:g} s"

    def _kill_children(self, seconds: float) -> None:
        """Kill our own children repeatedly. A process that constantly forks and exits is gone before a scan
        of the whole tree ends, but its orphans become our children, which can be listed quickly."""
        until = self.clock.now() + seconds
        while not self._all_gone() and self.clock.now() < until:
            for _ in range(QUICK_PASSES):
                self._reap()
                for pid in own_children():
                    send(pid, signal.SIGKILL)
                    self.ended.add(pid)
            self._turn(0.02)

    def _freeze(self) -> set[int]:
        """Stop everything, until no new processes appear or the maximum number of passes is reached."""
        frozen: set[int] = set()
        for _ in range(FREEZE_PASSES):
            fresh = set(self._living()) - frozen
            if not fresh:
                break
            for pid in fresh:
                send(pid, signal.SIGSTOP)
            frozen |= fresh
        return frozen

    def _all_gone(self) -> bool:
        return self.childless if LINUX else self.code is not None and not self._tree()

    def _living(self) -> dict[int, tuple[str, int]]:
        """The process tree; counted as killed, since the caller is about to kill it."""
        tree = self._tree()
        self.ended |= {pid for pid, (state, _) in tree.items() if state[0] not in "ZX"}
        return tree

    def _tree(self) -> dict[int, tuple[str, int]]:
        assert self.agent is not None
        try:
            tree = tree_by_proc(os.getpid()) if LINUX else tree_by_ps(self.agent, self.spec.mark, self.ended)
        except OSError:
            return {}  # For example, out of descriptors; retried shortly.
        return {pid: seen for pid, seen in tree.items() if LINUX or seen[0][0] not in "ZX"}

    def _outcome(self, status: str, error: str | None) -> dict[str, Any]:
        outputs, code = self.outputs, self.code
        if self.agent is not None and not self._all_gone():
            error = f"can't kill these processes: {sorted(self._tree())}"
        for output in outputs:
            error = error or output.error
        return {
            "mark": self.spec.mark,
            "status": status,
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "started_at": self.started_at,
            "ended_at": timestamp(),
            "duration_ms": int((self.clock.now() - self.started) * 1000),
            "output_bytes": outputs[0].total if outputs else 0,
            "output_truncated": any(output.truncated for output in outputs),
            "killed": len(self.ended),
            "error": error[:300] if error else None,
        }


def timestamp() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def receive_spec() -> Spec | None:
    """The specification from the engine, or None if it died or gave up before it had sent all of it."""
    parts: list[bytes] = []
    try:
        os.write(0, b"+")
        while select.select([0], [], [], HANDOVER_SECONDS)[0]:
            part = os.read(0, CHUNK)
            if not part:
                return Spec(marshal.loads(b"".join(parts)))  # noqa: S302 - from the engine.
            parts.append(part)
    except (OSError, EOFError, ValueError, TypeError):
        pass
    return None


def hide_memory() -> None:
    """Keep the user's other processes, such as agents, from reading our memory and descriptors."""
    if LINUX:
        try:
            load_prctl()(PR_SET_DUMPABLE, 0, 0, 0, 0)
        except SpawnFailed:
            pass  # Reported when it is needed again.


def leave_session_keyring() -> None:
    """Start a new, empty session keyring: the agent must not get the keys of the user's session. Without it,
    as where a container forbids the call, the agent runs all the same."""
    number = KEYCTL.get(os.uname().machine) if LINUX and sys.maxsize > 2**32 else None
    if number is None:
        return
    try:
        import ctypes

        ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(KEYCTL_JOIN_SESSION_KEYRING), None)
    except (ImportError, OSError, AttributeError):
        pass


def main() -> int:
    signals = SignalHandlers()
    if os.getsid(0) != os.getpid():
        try:
            os.setsid()
        except PermissionError:
            pass  # A process group leader, started manually: SIGHUP and SIGINT are ignored anyway.
    hide_memory()
    leave_session_keyring()
    spec = receive_spec()
    if spec is None:
        return NOT_HANDED_OVER
    folder = Folder(spec)
    if not folder.is_right() or not folder.take_claim():
        return ALREADY_CLAIMED
    return 0 if Attempt(spec, folder, signals).run() else 1


if __name__ == "__main__":
    os._exit(main())  # The engine waits for us; skips the interpreter's slow shutdown.
