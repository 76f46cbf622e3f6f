"""Mount points are read as the kernel writes them: by bytes, with escaped characters."""

import os
from pathlib import Path

import pytest

from agentforge.system.mount_points import MountPoint, mount_points, parse_mountinfo, read_mounts


def line(point: bytes, kind: bytes = b"ext4") -> bytes:
    return b"40 28 0:40 / " + point + b" rw,relatime shared:9 master:2 - " + kind + b" /dev/vda rw\n"


@pytest.mark.parametrize(
    ("written", "point"),
    [
        (rb"/a\040b", "/a b"),
        (rb"/a\011b\012c", "/a\tb\nc"),
        (rb"/a\134040b", "/a\\040b"),
        (rb"/\303\251", "/é"),
        ("/é".encode(), "/é"),
        (rb"/\777", r"/\777"),
        (b"/a\rb", "/a\rb"),
        (b"/\xff", os.fsdecode(b"/\xff")),
    ],
)
def test_points_are_unescaped(written: bytes, point: str) -> None:
    assert parse_mountinfo(line(written)) == (MountPoint(point, "ext4"),)


def test_optional_fields_may_be_missing() -> None:
    assert parse_mountinfo(b"28 1 254:0 / / rw - xfs /dev/vda rw\n") == (MountPoint("/", "xfs"),)


@pytest.mark.parametrize("junk", [b"", b"\n", b"a - b\n", b"1 2 3 /x rw ext4\n", b" - \n", b"\0\xff\n"])
def test_other_lines_are_ignored(junk: bytes) -> None:
    assert parse_mountinfo(junk + line(b"/kept")) == (MountPoint("/kept", "ext4"),)


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="platform: Linux tells what is mounted")
def test_all_processes_see_what_this_one_sees() -> None:
    assert {mount.point for mount in read_mounts()} <= mount_points()
