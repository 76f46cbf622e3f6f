"""Buffer settings from the environment, file systems that can't hold a log, and `log verify`."""

import os
from pathlib import Path

import pytest

from agentforge.adapters.log.jsonl_log import JsonlLog, buffer_settings, verify
from agentforge.adapters.log.lease import why_not_local
from agentforge.adapters.log.writer import Buffering
from agentforge.model.errors import InvalidRequest, StorageFailed, UnknownRun
from agentforge.system.mount_points import MountPoint, parse_mount_output, parse_mountinfo, read_mounts
from agentforge.testing.event_log_contract import large_event, lines_of, timer_event, timer_events

_MOUNTINFO = rb"""22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 28 0:40 / /home/me/shared\040folder rw shared:9 master:2 - nfs4 server:/x rw,vers=4.2
41 28 0:41 / /mnt/ssh rw - fuse.sshfs me@host: rw
42 28 0:42 / /mnt/encrypted rw - fuse.gocryptfs /x rw
43 28 0:43 / /mnt/c rw - 9p drvfs rw
44 40 254:1 / /home/me/shared\040folder/local rw - xfs /dev/vdb rw
"""

_DARWIN = """/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled)
//me@nas/x on /Volumes/x (y) (smbfs, nodev, nosuid)
"""


def test_event_buffer_settings_default_to_100_events_and_one_second() -> None:
    assert buffer_settings({}) == Buffering(events=100, seconds=1.0)


def test_event_buffer_settings_come_from_the_environment() -> None:
    environ = {"AGENT_PIPELINES_EVENT_BUFFER": " 7 ", "AGENT_PIPELINES_EVENT_FLUSH_MS": "250"}
    assert buffer_settings(environ) == Buffering(events=7, seconds=0.25)


@pytest.mark.parametrize("name", ["AGENT_PIPELINES_EVENT_BUFFER", "AGENT_PIPELINES_EVENT_FLUSH_MS"])
@pytest.mark.parametrize("value", ["many", "-1", "1.5", "1e3", "٣"])
def test_invalid_event_buffer_setting_is_rejected_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        buffer_settings({name: value})


def test_event_buffer_of_zero_events_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="AGENT_PIPELINES_EVENT_BUFFER"):
        buffer_settings({"AGENT_PIPELINES_EVENT_BUFFER": "0"})
    assert buffer_settings({"AGENT_PIPELINES_EVENT_FLUSH_MS": "0"}).seconds == 0


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/project", ""),
        ("/home/me/shared folder/project", "nfs4"),
        ("/home/me/shared folder", "nfs4"),
        ("/home/me/shared folders", ""),
        ("/home/me/shared folder/local/project", ""),
        ("/mnt/ssh/project", "fuse.sshfs"),
        ("/mnt/encrypted/project", ""),
        ("/mnt/c/project", "9p"),
    ],
)
def test_non_local_file_system_is_recognised_on_linux(path: str, kind: str) -> None:
    reason = why_not_local(path, parse_mountinfo(_MOUNTINFO))
    assert (f"type {kind}," in reason) if kind else not reason


@pytest.mark.parametrize(
    ("path", "kind"), [("/Users/me/x", ""), ("/Volumes/x (y)/p", "smbfs"), ("/Volumes/x", "")]
)
def test_non_local_file_system_is_recognised_on_macos(path: str, kind: str) -> None:
    reason = why_not_local(path, parse_mount_output(_DARWIN))
    assert (f"type {kind}," in reason) if kind else not reason


def test_own_root_of_a_sandbox_counts_as_local() -> None:
    assert why_not_local("/work", [MountPoint("/", "9p")]) == ""


def test_unknown_mounts_refuse_nothing() -> None:
    assert why_not_local("/anywhere", ()) == ""


def test_mounts_of_this_machine_can_be_read(tmp_path: Path) -> None:
    assert any(mount.point == "/" for mount in read_mounts())


def test_log_on_a_non_local_file_system_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.jsonl"
    mounts = [MountPoint("/", "ext4"), MountPoint(os.path.realpath(tmp_path), "nfs4")]
    with pytest.raises(StorageFailed, match="nfs4, which isn't local") as refused:
        JsonlLog(path, mounts=lambda: mounts).open()
    assert refused.value.hint == "move the project to a local disk"
    assert list(tmp_path.iterdir()) == []


def test_log_verify_counts_intact_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with JsonlLog(path).open() as writer:
        for event in (timer_event(1), large_event(2), timer_event(3), large_event(4)):
            writer.append(event)
    report = verify(path)
    assert (report.lines, report.events, report.payloads) == (4, 4, 2)
    assert (report.damage, report.torn, report.head) == ((), None, writer.head)
    assert report.is_intact


def test_log_verify_names_damaged_lines_and_the_torn_tail_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    data = lines_of(timer_events(4)).replace(b"retry-2", b"retry-x") + b'{"seq":5'
    path.write_bytes(data)
    report = verify(path)
    assert not report.is_intact
    assert [damage.line for damage in report.damage] == [2]
    assert report.torn is not None
    assert (report.torn.bytes, report.lines, report.events) == (8, 4, 3)
    assert path.read_bytes() == data


def test_log_verify_of_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownRun, match="no log found") as missing:
        verify(tmp_path / "events.jsonl")
    assert missing.value.hint == "run `agentforge list` to see the runs of this project"


def test_log_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").mkdir()
    with pytest.raises(StorageFailed, match=r"can't open the log .*events\.jsonl"):
        JsonlLog(tmp_path / "events.jsonl").open()
    with pytest.raises(StorageFailed, match="can't read the log"):
        list(JsonlLog(tmp_path / "events.jsonl").reader().events())


def test_torn_tail_at_the_same_place_twice_keeps_both(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for torn in (b"first", b"second"):
        with path.open("ab") as file:
            file.write(torn)
        JsonlLog(path).open().close()
    assert {file.read_bytes() for file in tmp_path.glob("events.jsonl.torn-0*")} == {b"first", b"second"}
    assert path.read_bytes() == b""


@pytest.mark.parametrize("kind", ["fuse.sshfs", "fuseblk.sshfs", "macfuse.sshfs"])
def test_program_behind_fuse_decides_whether_it_is_local(kind: str) -> None:
    mounts = [MountPoint("/", "ext4"), MountPoint("/mnt/far/", kind)]
    assert f"type {kind}," in why_not_local("/mnt/far/project", mounts)
    assert why_not_local("/mnt/farther", mounts) == ""
    assert why_not_local("/mnt/near", [MountPoint("/mnt/X", kind)]) == ""
    assert why_not_local("/mnt/far", [MountPoint("/mnt/far", f"{kind.partition('.')[0]}.local")]) == ""


def test_single_event_can_be_the_whole_buffer() -> None:
    assert buffer_settings({"AGENT_PIPELINES_EVENT_BUFFER": "1"}).events == 1
    with pytest.raises(InvalidRequest) as refused:
        buffer_settings({"AGENT_PIPELINES_EVENT_BUFFER": "0"})
    assert refused.value.hint == "use 1 or more"
