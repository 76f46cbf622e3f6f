"""Runs one agent attempt so that the agent outlives the engine: `python -I -S supervisor.py SPEC.json`.

Theory of operation
-------------------
The engine may die at any instant; the agent must not be lost, duplicated or left running unattended. So this
program runs between the two, in a separate session. It is one file that imports nothing of ours and little of
the standard library: every attempt pays for its startup, and it must not change under a running agent.

*Claim.* The attempt belongs to the process that creates the claim file first: a supervisor, or an engine that
recovers the run and finds that no supervisor has started. The file is linked into place complete and durable,
before the agent exists. So a claim always names a process that can be waited for, and a missing claim means
that nothing ran. A second claimant exits without side effects (exit status 3).

*Following.* One loop waits for signals and for the agent's output. It enforces the deadline and the idle
limit (monotonic: clock changes and machine sleep don't count) and probes the run's lease: if no engine holds
it for the orphan grace, no engine will read this agent's results, and the agent is ended. Output beyond the
cap is counted and dropped, so a flood costs neither memory nor disk. Secrets are redacted before they reach
the file: bytes at the end of a read that may be the beginning of a secret are held back until the next read.

*Ending.* An agent's tools may start new sessions, double-fork, or clear their environment. On Linux we are a
child subreaper: an orphaned process becomes our child, so everything that the attempt started is below us in
the process tree, and "no children left" proves that all of it is gone. First everything gets SIGTERM and a
grace period; then the tree is stopped until no new processes appear (a stopped process can't fork), and
killed; this repeats until none is left. Other systems have no subreaper: we rely on the process group, the
environment mark and the parent pids of `ps`, and a process that changes all three escapes. If we ourselves
are killed, Linux kills the agent with us; leftover processes carry the mark, and the engine ends them before
the next attempt.

*After.* An agent that works elsewhere, such as in a container, has a cleanup program that ends it there. It
runs, with a timeout, when all our processes are gone.

*Exit record.* Renamed into place as the last step, so its existence means: the agent and everything it
started are gone, and the output is complete. Its space is reserved before the agent starts, so that a full
disk can't lose the outcome.
"""

# contextlib would slow down the start of every attempt; starting programs is the purpose of this one.
# ruff: noqa: SIM105, S606

from __future__ import annotations

import fcntl
import json
import os
import re  # Free: json has loaded it.
import select
import signal
import sys
import time

TYPE_CHECKING = False  # Importing typing would slow down the start, too.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

ALREADY_CLAIMED = 3
CHUNK = 65536
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
LEFTOVER_GRACE = 1.0  # For processes that are left over when an agent exits by itself.
FREEZE_PASSES = 20
QUICK_PASSES = 50
KILL_TIMEOUT = 30.0  # After this, a process that survives SIGKILL is reported instead.
RECORD_BYTES = 2048
RECORD_TRIES = 20
AFTER_SECONDS = 10.0
REDACTED = b"[secret]"


class Spec:
    """The attempt's specification, written by the engine."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.claim: str = record["claim"]
        self.agent: str = record["agent"]
        self.exit: str = record["exit"]
        self.output: str = record["output"]
        self.output_cap: int = record["output_cap"]
        self.argv: list[str] = record["argv"]
        self.cwd: str = record["cwd"]
        self.stdin: str | None = record["stdin"]
        self.timeout: float | None = record["timeout"]
        self.idle_timeout: float | None = record["idle_timeout"]
        self.term_grace: float = record["term_grace"]
        self.orphan_grace: float = record["orphan_grace"]
        self.lease: str = record["lease"]
        self.mark: str = record["mark"]
        self.errors: str | None = record.get("errors")
        self.secrets: list[str] = record.get("secrets") or []
        self.after: list[str] = record.get("after") or []
        name, _, value = self.mark.partition("=")
        self.env: dict[str, str] = {**record["env"], name: value}


# --- Identity -----------------------------------------------------------------------------------------------


def read(path: str) -> bytes:
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


def write_draft(path: str, record: dict[str, Any]) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(json.dumps(record).encode())
        os.fsync(file.fileno())


def sync_folder(path: str) -> None:
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def take_claim(spec: Spec) -> bool:
    """Linked rather than opened exclusively, so that a claim is never visible without its owner."""
    pid = os.getpid()
    draft = f"{spec.claim}.{pid}"
    identity = {"pid": pid, "start_time": start_time(pid), "boot_id": boot_id(), "host": os.uname().nodename}
    try:
        write_draft(draft, {**identity, "mark": spec.mark})
        os.link(draft, spec.claim)
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    sync_folder(spec.claim)
    return True


class ExitRecordFile:
    def __init__(self, path: str) -> None:
        self.path, self.draft = path, f"{path}.draft"
        self.file = os.open(self.draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(self.file, b" " * RECORD_BYTES)
        except OSError:
            pass  # The disk is full; there may be space when the record is written.

    def place(self, record: dict[str, Any]) -> bool:
        for _ in range(RECORD_TRIES):
            try:
                self._write(json.dumps(record).encode())
            except OSError:
                time.sleep(0.5)
            else:
                return True
        return False

    def _write(self, text: bytes) -> None:
        # Overwrites the reserved space, since the disk may be full.
        if os.pwrite(self.file, text, 0) < len(text):
            raise OSError("short write")
        os.ftruncate(self.file, len(text))
        os.fsync(self.file)
        os.rename(self.draft, self.path)
        sync_folder(self.path)


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
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
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
                self._keep(chunk)
            else:  # Closed by all writers; the agent itself may still be running.
                self.open = False
                os.close(self.read_end)
                return taken > 0
        return True

    def _keep(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._write(self.redactor.pass_on(chunk))

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


class Lease:
    """Whether an engine holds the lease of the run: a lock on its log."""

    def __init__(self, path: str, grace: float) -> None:
        self.path, self.grace = path, grace
        self.period = min(LEASE_PERIOD, max(grace / 4, 0.02))
        self.probed = time.monotonic()
        self.unattended = 0.0

    @property
    def due(self) -> float:
        return self.probed + self.period

    def abandoned(self, now: float) -> bool:
        if now < self.due:
            return False
        # A longer gap means that we were stopped, so only two periods of it count.
        gap = min(now - self.probed, 2 * self.period)
        self.probed = now
        self.unattended = 0.0 if self.is_held() else self.unattended + gap
        return self.unattended >= self.grace

    def is_held(self) -> bool:
        try:
            log = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # When in doubt, the agent is not ended.
        try:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(log)  # Also releases the lock.
        return False


# --- Starting the agent -------------------------------------------------------------------------------------


class SpawnFailed(Exception):
    """The agent could not be started; the message is shown to the user."""


def start_agent(spec: Spec, outputs: list[Output], prctl: Callable[..., int] | None) -> int:
    try:
        stdin = os.open(spec.stdin or os.devnull, os.O_RDONLY)
    except OSError as exc:
        raise SpawnFailed(f"can't read the agent's input {spec.stdin}: {exc.strerror}") from exc
    report, reporting = os.pipe()
    parent = os.getpid()
    # Blocked, so that our handlers don't run in the child.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid == 0:
        become_agent(spec, (stdin, outputs[0].write_end, outputs[-1].write_end, reporting), prctl, parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for end in (stdin, reporting, *(output.write_end for output in outputs)):
        os.close(end)
    problem = os.read(report, CHUNK)  # Empty once exec has succeeded.
    os.close(report)
    if problem:
        os.waitpid(pid, 0)
        raise SpawnFailed(problem.decode(errors="replace"))
    return pid


def become_agent(
    spec: Spec, ends: tuple[int, int, int, int], prctl: Callable[..., int] | None, parent: int
) -> NoReturn:
    stdin, out, err, reporting = ends
    action = "prepare the agent's process"
    try:
        os.setsid()
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # It died before the call above, so no signal would ever end us.
                os._exit(127)
        for number in RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for source, target in ((stdin, 0), (out, 1), (err, 2)):
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
    def __init__(self, spec: Spec, signals: SignalHandlers) -> None:
        self.spec, self.signals = spec, signals
        self.record = ExitRecordFile(spec.exit)
        self.outputs: list[Output] = []
        """One for all output, or a second one for stderr."""
        self.lease = Lease(spec.lease, spec.orphan_grace)
        self.agent: int | None = None
        self.code: int | None = None
        """The agent's exit code once it has exited; negative for a signal."""
        self.childless = False
        self.ended: set[int] = set()
        self.started_at, self.started = timestamp(), time.monotonic()
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
        for path in (self.spec.output, self.spec.errors):
            try:
                if path:
                    self.outputs.append(Output(path, self.spec.output_cap, self.spec.secrets))
            except OSError as exc:
                raise SpawnFailed(f"can't write the output to {path}: {exc.strerror}") from exc
        self.agent = start_agent(self.spec, self.outputs, prctl)
        draft = f"{self.spec.agent}.draft"
        try:
            write_draft(draft, {"pid": self.agent, "start_time": start_time(self.agent)})
            os.rename(draft, self.spec.agent)
        except OSError:
            pass  # Informational only.
        return self._follow()

    def _follow(self) -> str:
        """Wait until the agent exits or must be ended; returns the status."""
        spec = self.spec
        while True:
            now = time.monotonic()
            deadline = self.started + spec.timeout if spec.timeout is not None else now + 60
            silence = self.last_output + spec.idle_timeout if spec.idle_timeout is not None else now + 60
            if self.code is not None:
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
        """Wait for a signal, output or the timeout; then process everything available."""
        watched = [self.signals.wake, *(output.read_end for output in self.outputs if output.open)]
        select.select(watched, [], [], max(seconds, 0))
        try:
            os.read(self.signals.wake, CHUNK)
        except BlockingIOError:
            pass
        for output in self.outputs:
            if output.drain():
                self.last_output = time.monotonic()
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
        for group in {group for _, group in self._living().values()}:
            # Signal the whole group at once, or a shell would see its child die and run the next line.
            send(-group, signal.SIGTERM)
            send(-group, signal.SIGCONT)  # A stopped process would not handle it.
        asked = max(self.signals.terms, 1)
        until = time.monotonic() + grace
        # Another SIGTERM skips the grace period.
        while not self._all_gone() and self.signals.terms <= asked and (left := until - time.monotonic()) > 0:
            self._turn(left if LINUX else min(left, 0.1))
        kill_until = time.monotonic() + KILL_TIMEOUT
        while not self._all_gone() and time.monotonic() < kill_until:
            for pid in self._freeze():
                send(pid, signal.SIGKILL)
            self._kill_children(0.2)

    def _clean_up(self) -> str | None:
        """Run the cleanup program for work outside our process tree; returns an error or None."""
        argv = [raw(argument) for argument in self.spec.after]
        if not argv:
            return None
        env = {raw(name): raw(value) for name, value in self.spec.env.items()}
        devnull = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        defaults = [signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM]
        try:
            os.posix_spawnp(argv[0], argv, env, file_actions=devnull, setpgroup=0, setsigdef=defaults)
        except OSError as exc:
            return f"can't run cleanup program {self.spec.after[0]}: {exc.strerror}"
        self.childless = False
        until = time.monotonic() + AFTER_SECONDS
        while not self.childless and (left := until - time.monotonic()) > 0:
            self._turn(left)
        if self.childless:
            return None
        self._end(0.0)
        return f"cleanup program {self.spec.after[0]} timed out after {AFTER_SECONDS:g} s"

    def _kill_children(self, seconds: float) -> None:
        """Kill our own children repeatedly. A process that constantly forks and exits is gone before a scan
        of the whole tree ends, but its orphans become our children, which can be listed quickly."""
        until = time.monotonic() + seconds
        while not self._all_gone() and time.monotonic() < until:
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
            "status": status,
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "started_at": self.started_at,
            "ended_at": timestamp(),
            "duration_ms": int((time.monotonic() - self.started) * 1000),
            "output_bytes": outputs[0].total if outputs else 0,
            "output_truncated": any(output.truncated for output in outputs),
            "killed": len(self.ended),
            "error": error[:300] if error else None,
        }


def timestamp() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def main(arguments: list[str]) -> int:
    signals = SignalHandlers()
    if os.getsid(0) != os.getpid():
        try:
            os.setsid()
        except PermissionError:
            pass  # A process group leader, started manually: SIGHUP and SIGINT are ignored anyway.
    try:
        spec = Spec(json.loads(read(arguments[0])))
    except FileNotFoundError:
        return ALREADY_CLAIMED  # The claimant removes the file.
    if not take_claim(spec):
        return ALREADY_CLAIMED
    try:
        os.unlink(arguments[0])  # It contains the agent's environment, which may contain secrets.
    except OSError:
        pass
    return 0 if Attempt(spec, signals).run() else 1


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # The engine waits for us; skips the interpreter's slow shutdown.
