"""All runs of a project, read again and again: only those that changed are read."""

from agentforge.app.runs.lookup import Runs
from agentforge.model.errors import AgentForgeError
from agentforge.system import files
from agentforge.views.results import RunInfo


class Overview:
    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._known: dict[str, tuple[object, RunInfo | None]] = {}

    def infos(self) -> dict[str, RunInfo | None]:
        """Every session, latest first; None for a run that can't be read."""
        self._known = {session: self._entry(session) for session in self._runs.sessions()}
        return {session: info for session, (_, info) in self._known.items()}

    def _entry(self, session: str) -> tuple[object, RunInfo | None]:
        try:
            mark = self._mark(session)
            known = self._known.get(session)
            return known if known and known[0] == mark else (mark, self._runs.info(session))
        except AgentForgeError:
            return None, None

    def _mark(self, session: str) -> object:
        """Changes with the log, with the answers, and with its owner."""
        layout = self._runs.layout(session)
        found = files.about(layout.log)
        written = (found.st_ino, found.st_size, found.st_mtime_ns) if found else None
        return written, tuple(files.listing(layout.answers)), self._runs.log_file(session).is_held()
