"""What this machine has: programs with their versions, how fast a write becomes durable, which model server
answers on loopback, and which file system a path lies on."""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from msgspec import Struct

from agentforge.host import files, programs

VERSION_SECONDS = 5.0
SYNCS = 5

_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
LOOPBACK = "127.0.0.1"
PROBE_SECONDS = 1.0
MOST_BYTES = 1_000_000
# fmt: off
_NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "afs", "coda", "ncpfs", "ncp", "ceph",
    "glusterfs", "lustre", "beegfs", "gpfs", "orangefs", "pvfs2", "ocfs2", "gfs2", "webdav",
    "davfs", "ftp", "vboxsf", "vmhgfs", "prl_fs", "drvfs",
})
# Programs behind FUSE that reach over the network or to the host of a virtual machine.
_NETWORK_FUSE = frozenset({
    "sshfs", "s3fs", "rclone", "gcsfuse", "goofys", "curlftpfs", "davfs2", "glusterfs", "ceph",
    "cephfs", "smbnetfs", "juicefs", "seaweedfs", "moosefs", "mfs", "lizardfs", "grpcfuse",
    "osxfs", "vmhgfs-fuse", "blobfuse", "blobfuse2", "mountpoint-s3",
})
# fmt: on
_OCTAL = re.compile(r"\\([0-7]{3})")
_DARWIN_MOUNT = re.compile(r"^.* on (?P<point>/.*) \((?P<type>[^,)]+)")


class Program(Struct, frozen=True):
    path: str
    version: str
    """Empty if it doesn't tell."""

    @property
    def words(self) -> str:
        return f"{self.version} ({self.path})" if self.version else self.path


class SyncSpeed(Struct, frozen=True):
    milliseconds: float = 0.0
    error: str = ""


def program(name: str, environ: Mapping[str, str], ask: tuple[str, ...] = ("--version",)) -> Program | None:
    """The program with its version, or None if it isn't on the path."""
    path = shutil.which(name, path=environ.get("PATH", os.defpath))
    if path is None:
        return None
    ended = programs.run(programs.Program((path, *ask), VERSION_SECONDS, env=environ))
    said = _VERSION.search(ended.output + ended.errors) if ended.code is not None else None
    return Program(path, said.group() if said else "")


def sync_speed(folder: str) -> SyncSpeed:
    """How long a small write takes to be durable there; what it writes is gone afterwards."""
    taken = []
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".agentforge-doctor-") as file:
            for _ in range(SYNCS):
                began = perf_counter()
                os.write(file.fileno(), b"x" * 512)
                files.sync(file.fileno())
                taken.append((perf_counter() - began) * 1000)
    except OSError as error:
        return SyncSpeed(error=f"can't write to {folder}: {error.strerror or error}")
    return SyncSpeed(median(taken))


class Listening(Struct, frozen=True):
    models: tuple[str, ...] | None
    """Nothing if what listens there doesn't answer as a model server does."""


def model_server(port: int, seconds: float = PROBE_SECONDS) -> Listening | None:
    """Asks for the list of models; nothing if nobody listens."""
    connection = HTTPConnection(LOOPBACK, port, timeout=seconds)
    try:
        connection.connect()
    except OSError:
        return None
    try:
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        return Listening(_models(answer.read(MOST_BYTES)) if answer.status == 200 else None)
    except (OSError, HTTPException):
        return Listening(None)
    finally:
        connection.close()


def _models(body: bytes) -> tuple[str, ...] | None:
    try:
        found: Any = json.loads(body)["data"] or []
        return tuple(str(model["id"]) for model in found)
    except (ValueError, KeyError, TypeError):
        return None


class Mount(Struct, frozen=True):
    point: str
    type: str


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Of Linux's /proc/self/mountinfo; the later of two mounts on one point hides the earlier."""
    mounts = []
    for line in text.split("\n"):
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if separator and len(fields) >= 5:
            point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
            mounts.append(Mount(point, after.split(" ")[0]))
    return tuple(mounts)


def parse_mount_output(text: str) -> tuple[Mount, ...]:
    """Of the lines that macOS's `mount` prints: `server:/x on /Volumes/x (nfs, nodev)`."""
    matches = (_DARWIN_MOUNT.match(line) for line in text.split("\n"))
    return tuple(Mount(match["point"], match["type"]) for match in matches if match)


def read_mounts() -> Sequence[Mount]:
    """The mounts of this machine; empty if the system won't tell."""
    if sys.platform == "darwin":
        return parse_mount_output(programs.run(programs.Program(("/sbin/mount",), 5.0)).output)
    try:
        return parse_mountinfo(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    except OSError:
        return ()


def why_not_local(path: str, mounts: Sequence[Mount]) -> str:
    """Why a real path can't hold a log, or "" if it can or its file system isn't known."""
    mount = _mount_of(path, mounts)
    if mount is None or not _is_remote(mount):
        return ""
    return f"{path} is on {mount.point}, a file system of type {mount.type}, which isn't local"


def _mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    found: Mount | None = None
    for mount in mounts:
        inside = f"{path}/".startswith(mount.point.rstrip("/") + "/")
        if inside and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def _is_remote(mount: Mount) -> bool:
    if mount.type == "9p":
        # Shared folders of virtual machines are served this way, but so is the own root of some sandboxes.
        return mount.point != "/"
    kind, _, program = mount.type.partition(".")
    return mount.type in _NETWORK or (kind in ("fuse", "fuseblk", "macfuse") and program in _NETWORK_FUSE)
