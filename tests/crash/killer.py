"""The fault injector: counts a process's system calls and kills it at a chosen one.

Product code knows nothing of it: a launcher installs it and then runs the ordinary entry point. Only the
standard library, since the supervisor runs without any other; and none of its modules whose import would take
longer than the start of the interpreter, as most processes of a crash run do no more than that.

`CRASH_KILL` holds what to cut as `role:kind:n:when:victims`; `CRASH_COUNTS` is a folder in which calls are
counted over all processes of one role; `CRASH_BASE` bounds what counts: files below it.

The numbers of ordinary calls change with the code. A case that needs a certain one says what it does:
`append=TYPE` and `sync=TYPE` write and sync an event of that type, `rename=NAME` gives a file its name, and
`write=NAME` and `sync=NAME` write and sync a file of that name.
"""

import builtins
import os
import sys

WRITES = ("append", "ahead", "keep", "write", "send", "post")
WHENS = ("before", "during", "after")

EVENT_TYPE = b'"type":"'

_write, _open, _lseek, _close, _kill = os.write, os.open, os.lseek, os.close, os.kill
_plain_open = builtins.open


class FaultInjector:
    def __init__(self, role: str) -> None:
        self.role = role
        self.base = os.environ["CRASH_BASE"] + "/"
        self.counts = os.environ["CRASH_COUNTS"]
        self.run = os.environ["CRASH_RUN"]
        self.cut = [None, None, 0, None]
        self.victims: list[str] = []
        if text := os.environ.get("CRASH_KILL"):
            owner, kind, n, when, victims = text.split(":")
            self.victims = victims.split("+")
            self.cut = [owner, kind, int(n), when]
        self.appended: list[str] = []
        """The types of the events that were written last."""

    def kind(self, kind: str, names: list[str]) -> str:
        """With the name of what the call is about, if the case chooses it by that."""
        return next((named for name in names if (named := f"{kind}={name}") == self.cut[1]), kind)

    def number(self, kind: str) -> int:
        """How often this kind was called by processes of this role, this time included."""
        counter = _open(f"{self.counts}/{self.role}.{kind}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            _write(counter, b".")
            return _lseek(counter, 0, os.SEEK_CUR)
        finally:
            _close(counter)

    def when(self, kind: str) -> str:
        """When in this very call to kill: before, during, after, or never."""
        return self.cut[3] if [self.role, kind, self.number(kind)] == self.cut[:3] else "never"

    def concerns(self, where, folder=None) -> bool:
        """Whether the path or descriptor is in a counted folder."""
        return place_of(where, folder).startswith(self.base)

    def note_synced(self, fd: int) -> None:
        """How much of the log, and what of its write-ahead file, a power cut would leave."""
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        if name == "events.jsonl":
            self._note("synced", str(os.fstat(fd).st_size).encode())
        elif name == "events.wal":
            self._note("ahead", os.pread(fd, os.fstat(fd).st_size, 0))

    def _note(self, name: str, content: bytes) -> None:
        note = _open(f"{self.counts}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        _write(note, content)
        _close(note)

    def kill_processes(self) -> None:
        import signal

        import victims

        dies = self.role in self.victims
        victims.kill_processes(self.run, self.victims, f"{self.counts}/killed", self.role if dies else "")
        if dies:
            _kill(os.getpid(), signal.SIGKILL)

    def around(self, kind, call, half=None):
        """Do the call, unless this is the one at which to die."""
        when = self.when(kind)
        if when == "before":
            self.kill_processes()
        if when == "during" and half is not None and self.role in self.victims:
            half()
            self.kill_processes()
        result = call()
        if when in ("during", "after") and not (
            kind == "spawn" and result == 0
        ):  # Of a fork only the parent dies.
            self.kill_processes()
        return result


def visited(node: str, visit: int) -> str:
    """A node in one of its visits; the first has no number."""
    return f"{node}~{visit}" if visit > 1 else node


def place_of(where, folder=None) -> str:
    """The path of a path or descriptor; `folder` is the descriptor that the path is relative to."""
    try:
        if isinstance(where, int):
            return os.readlink(f"/proc/self/fd/{where}")
        start = os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}")
        return os.path.normpath(os.path.join(start, os.fsdecode(where)))
    except (OSError, TypeError):
        return ""


class InjectedFile:
    """A file open for writing, whose writes are counted."""

    def __init__(self, file, injector: FaultInjector) -> None:
        self._file, self._injector = file, injector

    def write(self, data):
        def all_of(part):
            written = self._file.write(part)
            if self._injector.cut[1] == "write":
                self._file.flush()  # So that a kill after the call finds the bytes in the file.
            return written

        return self._injector.around("write", lambda: all_of(data), lambda: all_of(data[: len(data) // 2]))

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


def install(role: str) -> FaultInjector:
    injector = FaultInjector(role)
    _wrap_descriptors(injector)
    _wrap_paths(injector)
    _wrap_processes(injector)
    if role == "engine":
        _wrap_sockets(injector)
    return injector


def record_calls(role: str):
    """Have a recorder record them: tests/order verifies their order."""
    sys.path.append(os.path.join(os.path.dirname(os.environ["CRASH_HOME"]), "order"))
    import recorder

    return recorder.install(role, os.environ["CRASH_TRACE"], os.environ["CRASH_BASE"])


def _wrap_descriptors(injector: FaultInjector) -> None:
    def writing(original):
        def write(fd, data, *rest):
            if not injector.concerns(fd):
                return original(fd, data, *rest)
            name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
            kind = {"events.jsonl": "append", "events.wal": "ahead", "cassette.jsonl": "keep"}.get(
                name, "write"
            )
            if kind == "append":
                _, *found = bytes(data).split(EVENT_TYPE)
                injector.appended = [part.partition(b'"')[0].decode() for part in found]
                kind = injector.kind(kind, injector.appended)
            elif kind == "write":
                kind = injector.kind(kind, [name])
            half = bytes(data)[: len(data) // 2]
            return injector.around(kind, lambda: original(fd, data, *rest), lambda: original(fd, half, *rest))

        return write

    def plain(kind, original):
        def call(fd, *rest):
            if not injector.concerns(fd):
                return original(fd, *rest)
            return injector.around(kind, lambda: original(fd, *rest))

        return call

    def sendfile(out, source, offset, count):
        if not injector.concerns(out):
            return original_sendfile(out, source, offset, count)
        size = os.fstat(source).st_size
        return injector.around(
            "write",
            lambda: original_sendfile(out, source, offset, count),
            lambda: original_sendfile(out, source, offset, size // 2),
        )

    def syncing(original):
        def sync(fd):
            if not injector.concerns(fd):
                return original(fd)
            name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
            is_log = name in ("events.jsonl", "events.wal")
            kind = injector.kind("sync", injector.appended if is_log else [name])
            return injector.around(kind, lambda: (original(fd), injector.note_synced(fd)))

        return sync

    original_sendfile = os.sendfile
    os.write, os.pwrite, os.sendfile = writing(os.write), writing(os.pwrite), sendfile
    os.fsync, os.fdatasync = syncing(os.fsync), syncing(os.fdatasync)
    os.ftruncate = plain("truncate", os.ftruncate)


def _kind_of(injector: FaultInjector, kind: str, path: str, rest) -> str:
    """`aside` moves away what was refused, `drop` removes a control."""
    if kind == "rename":
        target = os.path.basename(os.fsdecode(rest[0]))
        return "aside" if target.endswith(".refused") else injector.kind(kind, [target])
    folder, name = os.path.split(path)
    is_control = os.path.basename(folder) == "control" and not name.startswith(".")
    return "drop" if kind == "unlink" and is_control else kind


def _wrap_paths(injector: FaultInjector) -> None:
    def plain(kind, original):
        def call(path, *rest, **options):
            folder = options.get("dir_fd", options.get("src_dir_fd"))
            if not injector.concerns(path, folder):
                return original(path, *rest, **options)
            named = _kind_of(injector, kind, place_of(path, folder), rest)
            return injector.around(named, lambda: original(path, *rest, **options))

        return call

    def opening(path, flags, *rest, **options):
        kind = "claim" if os.path.basename(path) == "claim" else "create"
        if not flags & os.O_CREAT or not injector.concerns(path, options.get("dir_fd")):
            return _open(path, flags, *rest, **options)
        return injector.around(kind, lambda: _open(path, flags, *rest, **options))

    def open_file(path, mode="r", *rest, **options):
        if isinstance(path, int):  # Made by the call above.
            file = _plain_open(path, mode, *rest, **options)
            return InjectedFile(file, injector) if "w" in mode and injector.concerns(path) else file
        if not set(mode) & set("wax") or not injector.concerns(path):
            return _plain_open(path, mode, *rest, **options)
        made = injector.around("create", lambda: _plain_open(path, mode, *rest, **options))
        return InjectedFile(made, injector)

    os.rename, os.replace = plain("rename", os.rename), plain("rename", os.replace)
    os.link, os.mkdir = plain("link", os.link), plain("mkdir", os.mkdir)
    os.unlink = os.remove = plain("unlink", os.unlink)
    os.open, builtins.open = opening, open_file


def _wrap_sockets(injector: FaultInjector) -> None:
    """The handover to a supervisor, and what goes over the network: a webhook and its answer. The event loop
    wakes itself through a socket, too, with single bytes."""
    import socket

    send, receive = socket.socket.send, socket.socket.recv

    def sending(self, data, *rest):
        if len(data) < 100:
            return send(self, data, *rest)
        half = bytes(data)[: len(data) // 2]
        kind = "post" if self.family == socket.AF_INET else "send"
        return injector.around(kind, lambda: send(self, data, *rest), lambda: send(self, half, *rest))

    def receiving(self, *given):
        if self.family != socket.AF_INET:
            return receive(self, *given)
        return injector.around("answer", lambda: receive(self, *given))

    socket.socket.send, socket.socket.recv = sending, receiving


def _wrap_processes(injector: FaultInjector) -> None:
    fork = os.fork
    os.fork = lambda: injector.around("spawn", fork)
    os.kill = lambda *given: injector.around("signal", lambda: _kill(*given))
    # What hasn't been imported yet isn't used.
    if subprocess := sys.modules.get("subprocess"):
        start = subprocess.Popen.__init__

        def starting(self, *arguments, **options):
            return injector.around("spawn", lambda: start(self, *arguments, **options))

        subprocess.Popen.__init__ = starting
    if hasattr(signal := sys.modules.get("signal"), "pidfd_send_signal"):
        send = signal.pidfd_send_signal
        signal.pidfd_send_signal = lambda *given: injector.around("signal", lambda: send(*given))


if __name__ == "__main__":
    sys.exit("to be installed by launch.py, supervised.py or agent.py")
