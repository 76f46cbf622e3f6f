"""What an agent puts in the place of a check's report is read or refused, and never ends the run."""

import os
import stat
from pathlib import Path

import pytest
from tests.privileges import permissions_count

from agentforge.engine.checks.junit import MAX_REPORT_BYTES
from agentforge.engine.checks.outcome import UnreadReport
from agentforge.runtime.tasks.check import CheckFiles


def read(project: Path) -> bytes | UnreadReport | None:
    return CheckFiles(str(project)).read("report.xml", None)


def test_report_is_read_also_through_a_link_in_the_project(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    assert CheckFiles(str(tmp_path)).read(None, None) is None
    (tmp_path / "there.xml").write_bytes(b"<testsuite/>")
    (tmp_path / "report.xml").symlink_to("there.xml")
    assert read(tmp_path) == b"<testsuite/>"


def test_report_that_was_there_before_is_not_read(tmp_path: Path) -> None:
    """Also not through a link."""
    reports = CheckFiles(str(tmp_path))
    (tmp_path / "there.xml").write_bytes(b"<testsuite/>")
    (tmp_path / "report.xml").symlink_to("there.xml")
    before = reports.stamp("report.xml")
    assert before is not None
    assert reports.read("report.xml", before) is None
    (tmp_path / "there.xml").write_bytes(b"<testsuites/>")
    assert reports.read("report.xml", before) == b"<testsuites/>"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("folder", "it is a folder"),
        ("pipe", "it is not a regular file"),
        ("link", "it is a link that leads outside the workspace"),
        ("large", "it is larger than 16 MB"),
    ],
)
def test_what_is_not_a_report_is_refused_with_the_reason(tmp_path: Path, kind: str, reason: str) -> None:
    report = tmp_path / "report.xml"
    match kind:
        case "folder":
            report.mkdir()
        case "pipe":
            os.mkfifo(report)
        case "link":
            report.symlink_to("/etc/passwd")
        case _:
            report.touch()
            os.truncate(report, MAX_REPORT_BYTES + 1)
    assert read(tmp_path) == UnreadReport(reason)
    stamped = CheckFiles(str(tmp_path)).stamp("report.xml") is not None
    assert stamped == stat.S_ISREG(report.lstat().st_mode)


def test_report_without_permission_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "report.xml").touch(0o000)
    with permissions_count():
        assert read(tmp_path) == UnreadReport("Permission denied")
