"""The reports that checks write into the project. Agents can put anything in their place."""

import stat

from agentforge.engine.checks.junit import MAX_REPORT_BYTES, TOO_LARGE
from agentforge.engine.checks.outcome import UnreadReport
from agentforge.model.check import ReportStamp
from agentforge.system.confined import ConfinedFolder


class CheckReports:
    def __init__(self, project: str) -> None:
        self._project = project

    def stamp(self, path: str | None) -> ReportStamp | None:
        """None if there is no regular file."""
        if path is None:
            return None
        try:
            with ConfinedFolder(self._project) as folder:
                about = folder.stat(path)
        except OSError:
            return None
        if about is None or not stat.S_ISREG(about.st_mode):
            return None
        return about.st_ino, about.st_mtime_ns, about.st_size

    def read(self, path: str | None, before: ReportStamp | None) -> bytes | UnreadReport | None:
        """What the check wrote; None if it wrote nothing: there is no report, or the one that was there."""
        if path is None or (before is not None and self.stamp(path) == before):
            return None
        try:
            with ConfinedFolder(self._project) as folder:
                content, size = folder.read(path, MAX_REPORT_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            return UnreadReport(_reason(error))
        return UnreadReport(TOO_LARGE) if size > MAX_REPORT_BYTES else content


def _reason(error: OSError) -> str:
    """`it is a folder`, `Permission denied`."""
    reason = error.strerror or str(error)
    return f"it {reason}" if reason.startswith("is ") else reason
