"""The program that exports the spans of an engine's runs.

So the engine neither waits for a collector nor imports what the export needs, and what is left by one that is
killed is exported, too.

Reads `+SESSION` and `-SESSION` on stdin while the engine drives these runs. At the end of that it exports the
rest, for some seconds, and prints an `ExportReport`. `--ended`: also spans that may still change. `--local`:
only to a collector on this machine, as those of local runs.
"""

import os
import select
import signal
import sys
from time import monotonic

import msgspec

from agentforge.adapters.otlp import Collector, collector
from agentforge.app.redaction import environment_redactor
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.span_export import LAST_SECONDS, ExportReport
from agentforge.app.runs.updates import Tail
from agentforge.model import facts as f
from agentforge.model.errors import AgentForgeError
from agentforge.views.record import RunRecord
from agentforge.views.spans import spans_of

INTERVAL = 1.0
SHARE = 10
"""It works for one part of this many at most: each look goes through all spans of a run."""
BATCH = 512


class _Export:
    """Of one run, whose log it follows."""

    def __init__(self, runs: Runs, session: str) -> None:
        self._tail, self._record = Tail(runs, session), RunRecord()
        self._sent: dict[str, int] = {}
        """Digests by id. What changes in a run that failed and is continued is sent again."""
        self.is_left = False
        """Whether the engine has released the run."""
        self.is_done = True
        """Whether all that can be sent was sent."""

    def is_changed(self) -> bool:
        is_changed = not self.is_done
        for event in self._tail.news():
            if isinstance(event.fact, f.FirstFact):  # The run was started over under the same name.
                self._record, self._sent = RunRecord(), {}
            self._record.apply(event)
            is_changed = True
        return is_changed

    def send(self, to: Collector, report: ExportReport, *, all_ended: bool, is_local: bool) -> None:
        plan = self._record.model.plan
        is_local = is_local or (plan is not None and plan.is_local)
        found = [
            (one, digest)
            for one in spans_of(self._record)
            if one.is_settled or (all_ended and one.end_time)
            if self._sent.get(one.span_id) != (digest := hash(msgspec.json.encode(one)))
        ]
        for start in range(0, len(found), BATCH):
            batch = found[start : start + BATCH]
            problem = to.send([one for one, _ in batch], is_local=is_local)
            self.is_done = not problem
            if problem:
                report.problem = problem
                return
            self._sent |= {one.span_id: digest for one, digest in batch}
            report.exported += len(batch)


class _Program:
    def __init__(self, project: str, *, all_ended: bool, is_local: bool) -> None:
        self._runs, self._report = Runs(project, os.environ), ExportReport()
        self._all_ended, self._is_local = all_ended, is_local
        hide = environment_redactor(os.environ).text
        self._to = Collector(collector(os.environ, asked=True) or "", hide)
        self._exports: dict[str, _Export] = {}

    def run(self) -> ExportReport:
        rest, is_open, pause = b"", True, INTERVAL
        while is_open:
            if select.select([0], [], [], pause)[0]:
                read = os.read(0, 65536)
                *lines, rest = (rest + read).split(b"\n")
                is_open = bool(read)
                for line in lines:
                    self._hear(line.decode())
            if not is_open:
                signal.alarm(LAST_SECONDS)
                self._report.problem = ""
            began = monotonic()
            self._look()
            pause = max(INTERVAL, SHARE * (monotonic() - began))
        return self._report

    def _hear(self, line: str) -> None:
        session = line[1:]
        try:
            export = self._exports.setdefault(session, _Export(self._runs, session))
            export.is_left = line.startswith("-")
        except AgentForgeError as error:
            self._report.problem = error.message

    def _look(self) -> None:
        for session, export in list(self._exports.items()):
            try:
                if export.is_changed():
                    export.send(self._to, self._report, all_ended=self._all_ended, is_local=self._is_local)
            except AgentForgeError as error:
                self._report.problem = error.message
            if export.is_left and export.is_done:  # It needs no memory any more.
                del self._exports[session]


def main(project: str, *options: str) -> None:
    program = _Program(project, all_ended="--ended" in options, is_local="--local" in options)
    sys.stdout.write(msgspec.json.encode(program.run()).decode())
