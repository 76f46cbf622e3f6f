"""Records a process's system calls, one JSON line each, in a file that all processes of a run append to.

Only the standard library, since the supervisor runs without any other, and none of its modules that take long
to import (tests/crash/killer.py). What others may observe (a link, a rename, an unlink, a spawn, a signal, a
write, a webhook) is recorded before it happens, a sync after it has returned. So if a sync stands before an
act in the file, it was over before the act began.
"""

import atexit
import builtins
import io
import os
import posix
import sys

from plain_json import text_of

SMALL = 1 << 20

# Not those of `os`, which other code may have wrapped already.
_open, _write, _plain_open = posix.open, posix.write, io.open


class Recorder:
    def __init__(self, role: str, trace: str, base: str) -> None:
        self.role, self.base = role, base + "/"
        self.fd = _open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def note(self, call: str, path: str = "", **more: object) -> None:
        line = {"pid": os.getpid(), "role": self.role, "call": call, "path": path, **more}
        _write(self.fd, text_of(line).encode() + b"\n")

    def path_of(self, where: object, folder: int | None = None) -> str:
        """Of a path or descriptor, if it lies where the run does; `folder` is the descriptor that the path is
        relative to."""
        try:
            if isinstance(where, int):
                path = os.readlink(f"/proc/self/fd/{where}")
            else:
                start = os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}")
                path = os.path.normpath(os.path.join(start, os.fsdecode(where)))
        except (OSError, TypeError):
            return ""
        return path if f"{path}/".startswith(self.base) else ""


def install(role: str, trace: str, base: str) -> Recorder:
    recorder = Recorder(role, trace, base)
    recorder.note("begin", argv=sys.argv)
    _wrap_descriptors(recorder)
    _wrap_paths(recorder)
    _wrap_processes(recorder)
    if role == "engine":
        _wrap_sockets(recorder)
    return recorder


def _wrap_descriptors(recorder: Recorder) -> None:
    def syncing(original):
        def sync(fd):
            path, size = recorder.path_of(fd), os.fstat(fd).st_size
            original(fd)
            if path:
                # What is written while it waits isn't covered.
                recorder.note("sync", path, size=size)

        return sync

    def write(fd, data):
        if path := recorder.path_of(fd):
            recorder.note("write", path, size=os.fstat(fd).st_size + len(data))
        return original_write(fd, data)

    def overwrite(fd, data, position):
        if path := recorder.path_of(fd):
            begin = bytes(data[:16]).hex()
            recorder.note("overwrite", path, position=position, size=len(data), begin=begin)
        return original_pwrite(fd, data, position)

    def truncate(fd, length):
        if path := recorder.path_of(fd):
            recorder.note("truncate", path, size=length)
        return original_truncate(fd, length)

    original_write, original_pwrite, original_truncate = os.write, os.pwrite, os.ftruncate
    os.fsync, os.fdatasync = syncing(os.fsync), syncing(os.fdatasync)
    os.write, os.pwrite, os.ftruncate = write, overwrite, truncate


def _wrap_paths(recorder: Recorder) -> None:
    def moving(call, original):
        def move(source, target, **options):
            if path := recorder.path_of(target, options.get("dst_dir_fd")):
                known = recorder.path_of(source, options.get("src_dir_fd"))
                recorder.note(call, path, source=known, text=_text(known or source))
            return original(source, target, **options)

        return move

    def unlink(path, **options):
        if where := recorder.path_of(path, options.get("dir_fd")):
            recorder.note("unlink", where)
        return original_unlink(path, **options)

    def making(path, *rest, **options):
        if where := recorder.path_of(path, options.get("dir_fd")):
            recorder.note("mkdir", where, is_new=not os.path.lexists(where))
        return original_mkdir(path, *rest, **options)

    def opening(path, flags, *rest, **options):
        if flags & os.O_CREAT and (where := recorder.path_of(path, options.get("dir_fd"))):
            recorder.note("create", where, is_new=not os.path.lexists(where))
        return original_open(path, flags, *rest, **options)

    def opening_file(path, mode="r", *rest, **options):
        if set(mode) & set("wax") and (where := recorder.path_of(path)):
            recorder.note("create", where, is_new=not os.path.lexists(path))
        return original_plain_open(path, mode, *rest, **options)

    def opening_without_links(path, flags, mode=0):
        if flags & os.O_CREAT and (where := recorder.path_of(path)):
            recorder.note("create", where, is_new=not os.path.lexists(where))
        return original_openat2(path, flags, mode)

    original_unlink, original_open, original_plain_open = os.unlink, os.open, builtins.open
    original_mkdir = os.mkdir
    os.rename, os.replace = moving("rename", os.rename), moving("rename", os.replace)
    os.link = moving("link", os.link)
    os.unlink = os.remove = unlink
    os.open, builtins.open, os.mkdir = opening, opening_file, making
    if recorder.role != "supervisor":  # It can't import it, and doesn't use it.
        from agentforge.system import linux

        original_openat2 = linux.open_without_links
        linux.open_without_links = opening_without_links


def _text(path: str) -> str:
    """What becomes visible under the new name; folders and large files aren't looked at."""
    if not os.path.isfile(path) or os.path.getsize(path) > SMALL:
        return ""
    with _plain_open(path, "rb") as file:
        return file.read().decode(errors="replace")


def _wrap_processes(recorder: Recorder) -> None:
    def starting(self, argv, *rest, **options):
        if isinstance(argv, (list, tuple)):
            recorder.note("spawn", argv=[os.fsdecode(word) for word in argv])
        return start(self, argv, *rest, **options)

    def forking():
        recorder.note("fork")
        return fork()

    def killing(pid, number):
        recorder.note("kill", target=pid, signal=int(number))
        return kill(pid, number)

    def sending(descriptor, number, *rest):
        recorder.note("kill", target=_pid_behind(descriptor), signal=int(number))
        return send(descriptor, number, *rest)

    def leaving(status):
        recorder.note("exit")
        leave(status)

    fork, kill, leave = os.fork, os.kill, os._exit
    os.fork, os.kill, os._exit = forking, killing, leaving
    # What hasn't been imported yet isn't used.
    if subprocess := sys.modules.get("subprocess"):
        start = subprocess.Popen.__init__
        subprocess.Popen.__init__ = starting
    if hasattr(signal := sys.modules.get("signal"), "pidfd_send_signal"):
        send = signal.pidfd_send_signal
        signal.pidfd_send_signal = sending
    atexit.register(recorder.note, "exit")


def _wrap_sockets(recorder: Recorder) -> None:
    """What is sent over the network."""
    import socket

    def sending(self, data, *rest):
        if self.family == socket.AF_INET:
            recorder.note("send", text=bytes(data).decode(errors="replace"))
        return send(self, data, *rest)

    send = socket.socket.send
    socket.socket.send = sending


def _pid_behind(descriptor: int) -> int:
    with _plain_open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
