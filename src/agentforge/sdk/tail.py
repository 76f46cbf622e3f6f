"""One reader's place in a log: what is new since the last look. No event loop needed."""

from collections.abc import Iterator

from agentforge.model import facts as f
from agentforge.model.errors import LogConflict
from agentforge.model.event import Event
from agentforge.ports.event_log import Head, LogReader
from agentforge.sdk.runs import Runs

STOPS = (f.SessionCompleted, f.SessionFailed, f.SessionPaused, f.SessionAborted)


class Tail:
    def __init__(self, runs: Runs, session: str, after: Head | None = None) -> None:
        self._log = runs.log(session)
        self._head = after
        self._stopped = False

    def news(self) -> Iterator[Event]:
        """Events since the last look."""
        reader = self._log.reader()
        try:
            yield from self._read(reader)
        except LogConflict:
            # The run was kept aside and its name begun anew: this is another log.
            self._head = None
            yield from self._read(reader)

    def _read(self, reader: LogReader) -> Iterator[Event]:
        for event in reader.events(after=self._head):
            self._stopped = isinstance(event.fact, STOPS)
            yield event
        self._head = reader.head

    @property
    def is_driven(self) -> bool:
        """Whether somebody drives the run now."""
        return self._log.is_held()

    @property
    def is_over(self) -> bool:
        """Whether the run has stopped and nobody drives it on."""
        return self._stopped and not self.is_driven
