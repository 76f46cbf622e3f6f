"""Output of agents, read from their output files: it isn't part of the log."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from msgspec import Struct

from agentforge.app.providers.offers import find_offers
from agentforge.engine.normalise import clean_output
from agentforge.model.cursor import Cursor
from agentforge.model.errors import AgentForgeError
from agentforge.model.event import Event
from agentforge.model.facts import IterationCompleted
from agentforge.model.layout import RunLayout, is_inside
from agentforge.model.place import place_of
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.status import TaskStatus
from agentforge.ports.provider import ShowsProgress
from agentforge.system import files
from agentforge.views.run_model import RunModel

TAIL_BYTES = 64 * 1024
"""Large enough for the long lines of machine-readable output."""
PART_BYTES = 256 * 1024
"""How much is read at once; longer lines are split."""


class AgentAttempt(Struct, frozen=True):
    """An attempt whose agent has output."""

    cursor: Cursor
    number: int
    provider: str
    file: str
    """What the agent prints, as the supervisor stores it."""


class AgentLine(Struct, frozen=True):
    """A line of an attempt's output, as text for people."""

    cursor: Cursor
    attempt: int
    text: str


class AgentOutput:
    """The output of the agents of a project's runs."""

    def __init__(self, project: str, environ: Mapping[str, str]) -> None:
        self._project = project
        self._environ = environ
        self._formatters: dict[str, ShowsProgress | None] = {}

    def last(self, plan: Plan, state: RunState) -> Iterator[tuple[str | None, str]]:
        """The last output of each running agent, with its branch."""
        for attempt in self.running(plan, state):
            content, begin = files.read_part(attempt.file, -TAIL_BYTES, TAIL_BYTES)
            # The first line may be incomplete.
            lines = reversed(_lines(content[content.find(b"\n") + 1 :] if begin else content))
            text = next((text for line in lines if (text := self.text(attempt, line))), "")
            if text:
                yield attempt.cursor.provider, text

    def running(self, plan: Plan, state: RunState) -> Iterator[AgentAttempt]:
        """The attempts whose agents are running."""
        layout = RunLayout.of(self._project, state.session)
        for branch, at in state.under_way():
            attempt = at.iteration.attempt if at.iteration else None
            if at.iteration is None or attempt is None or attempt.status is not TaskStatus.RUNNING:
                continue
            node, place = plan.stage(at.path, branch), place_of(plan, state, branch, at)
            if node is not None and place is not None:
                number = at.iteration.number
                file = layout.iteration(place.folder, number).attempt(attempt.number).output
                provider = node.chosen(attempt.choice).type
                yield AgentAttempt(place.cursor(number), attempt.number, provider, file)

    def text(self, attempt: AgentAttempt, line: str) -> str:
        """A line of its output as text for people; empty if it is not worth showing."""
        provider = attempt.provider
        if provider not in self._formatters:
            offer = find_offers(self._project, self._environ).get(provider)
            # A provider that can't be created here has worked elsewhere: its output is shown as it is.
            made = None
            with suppress(AgentForgeError):
                made = offer.make() if offer else None
            self._formatters[provider] = made if isinstance(made, ShowsProgress) else None
        formatter = self._formatters[provider]
        return formatter.progress(line) if formatter else line.rstrip()


# The log has what came of an attempt. What the agent prints on the way is only in the file that its
# supervisor writes, which grows while it is read. So its end is found by the events: an attempt that they end
# is read to the end of the file, before anything that follows is shown.
class OutputTail:
    """The output of one run's agents, each line with its attempt. Apply the events of the run from its start;
    what an attempt printed comes before the event that ends it."""

    def __init__(self, project: str, environ: Mapping[str, str]) -> None:
        self._project = project
        self._output = AgentOutput(project, environ)
        self._model = RunModel()
        self._read: dict[str, int] = {}
        """How many bytes of each output were read."""

    def apply(self, event: Event) -> tuple[AgentAttempt, ...]:
        """The attempts that the event ends."""
        state = self._model.state
        if state is not None and event.seq <= state.seq:
            # Another run has started under the same name.
            self._model, self._read = RunModel(), {}
        # By comparing states, not by facts: an attempt ends in many ways, and a restart of its stage is one.
        before = self._running()
        self._model.apply(event)
        now = self._running()
        return tuple(attempt for attempt in before if attempt not in now)

    def rest(self, attempt: AgentAttempt, event: Event) -> Iterator[AgentLine]:
        """The output of an attempt since the last call, up to the event that ended it."""
        if files.is_file(attempt.file):
            yield from self._new_lines(attempt, to_end=True)
            return
        for line in _returned(event, self._project).splitlines():
            if line.strip():
                yield AgentLine(attempt.cursor, attempt.number, line.rstrip())

    def news(self) -> Iterator[AgentLine]:
        """The output of running agents since the last call. An incomplete line is left for the next call."""
        for attempt in self._running():
            yield from self._new_lines(attempt, to_end=False)

    def _running(self) -> list[AgentAttempt]:
        plan, state = self._model.plan, self._model.state
        return [] if plan is None or state is None else list(self._output.running(plan, state))

    def _new_lines(self, attempt: AgentAttempt, *, to_end: bool) -> Iterator[AgentLine]:
        while part := self._part(attempt.file, to_end=to_end):
            for line in _lines(part):
                if text := self._output.text(attempt, line):
                    yield AgentLine(attempt.cursor, attempt.number, text)

    def _part(self, file: str, *, to_end: bool) -> bytes:
        begin = self._read.get(file, 0)
        part = files.read_part(file, begin, PART_BYTES)[0]
        complete = part.rfind(b"\n") + 1
        if complete or (len(part) < PART_BYTES and not to_end):
            part = part[:complete]
        self._read[file] = begin + len(part)
        return part


def _returned(event: Event, project: str) -> str:
    """The output that a provider inside the engine returned."""
    fact = event.fact
    if not isinstance(fact, IterationCompleted):
        return ""
    if fact.text is not None or not fact.output or not is_inside(fact.output):
        return fact.text or ""
    path = RunLayout.of(project, event.session).absolute(fact.output)
    return files.read_part(path, 0, PART_BYTES)[0].decode("utf-8", "replace")


def _lines(content: bytes) -> list[str]:
    return [line for line in clean_output(content).text.splitlines() if line.strip()]
