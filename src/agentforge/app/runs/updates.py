"""What has changed since the last look: the new events of one run, and the runs of a project that changed."""

from collections.abc import Iterator

from agentforge.app.runs.lookup import Runs
from agentforge.model.errors import AgentForgeError, LogConflict
from agentforge.model.event import Event
from agentforge.model.facts.run import RunStop
from agentforge.ports.event_log import Head, LogReader
from agentforge.system import files
from agentforge.views.results import RunInfo


class Tail:
    def __init__(self, runs: Runs, session: str, after: Head | None = None) -> None:
        self._log = runs.log(session)
        self._head = after
        self._stopped = False

    def news(self) -> Iterator[Event]:
        """Events since the last call."""
        reader = self._log.reader()
        try:
            yield from self._read(reader)
        except LogConflict:
            if not self._log.exists():
                return  # Its engine restores a log that was removed.
            # The run was archived and started over under the same name: this is another log.
            self._head = None
            yield from self._read(reader)

    def _read(self, reader: LogReader) -> Iterator[Event]:
        for event in reader.events(after=self._head):
            self._stopped = isinstance(event.fact, RunStop)
            yield event
        self._head = reader.head

    @property
    def is_driven(self) -> bool:
        """Whether an engine drives the run now."""
        return self._log.is_held()

    @property
    def is_over(self) -> bool:
        """Whether the run has stopped and no engine continues it."""
        return self._stopped and not self.is_driven


class Overview:
    """All runs of a project, read again and again: only those that changed are read."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._known: dict[str, tuple[object, RunInfo | None]] = {}

    def infos(self) -> dict[str, RunInfo | None]:
        """Every session, latest first; None for a run that can't be read."""
        self._known = {session: self._entry(session) for session in self._runs.sessions()}
        return {session: info for session, (_, info) in self._known.items()}

    def _entry(self, session: str) -> tuple[object, RunInfo | None]:
        try:
            layout = self._runs.layout(session)
            found = files.about(layout.log)
            written = (found.st_ino, found.st_size, found.st_mtime_ns) if found else None
            # What is shown changes with the log, and without it when an answer is given or an engine dies.
            mark = written, tuple(files.listing(layout.answers)), self._runs.log_file(session).is_held()
            known = self._known.get(session)
            return known if known and known[0] == mark else (mark, self._runs.info(session))
        except AgentForgeError:
            return None, None
