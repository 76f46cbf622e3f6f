"""Determines the file system of a path. Leases and fsync are only trusted on local file systems."""

from collections.abc import Sequence

from agentforge.system.mount_points import MountPoint

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


def why_not_local(path: str, mounts: Sequence[MountPoint]) -> str:
    """Why a real path can't hold a log, or "" if it can or its file system is unknown."""
    mount = _mount_of(path, mounts)
    if mount is None or not _is_remote(mount):
        return ""
    return f"{path} is on {mount.point}, a file system of type {mount.type}, which isn't local"


def _mount_of(path: str, mounts: Sequence[MountPoint]) -> MountPoint | None:
    found: MountPoint | None = None
    for mount in mounts:
        inside = f"{path}/".startswith(mount.point.rstrip("/") + "/")
        if inside and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def _is_remote(mount: MountPoint) -> bool:
    if mount.type == "9p":
        # Shared folders of virtual machines use it, but so does the root of some sandboxes.
        return mount.point != "/"
    kind, _, program = mount.type.partition(".")
    return mount.type in _NETWORK or (kind in ("fuse", "fuseblk", "macfuse") and program in _NETWORK_FUSE)
