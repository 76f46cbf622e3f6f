"""Output of running agents, read from their output files: it isn't part of the log."""

from collections.abc import Iterator, Mapping

from agentforge.app.providers.offers import find_offers
from agentforge.engine.normalise import clean_output
from agentforge.model.errors import AgentForgeError
from agentforge.model.layout import RunLayout
from agentforge.model.place import place_of
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.status import TaskStatus
from agentforge.ports.provider import ShowsProgress
from agentforge.system import files

TAIL_BYTES = 64 * 1024
"""Large enough for the long lines of machine-readable output."""


class AgentOutput:
    def __init__(self, project: str, environ: Mapping[str, str]) -> None:
        self._project = project
        self._environ = environ
        self._formatters: dict[str, ShowsProgress | None] = {}
        self._read: dict[str, int] = {}
        """How many bytes of each output were read."""

    def last(self, plan: Plan, state: RunState) -> Iterator[tuple[str | None, str]]:
        """The last output of each running agent, with its branch."""
        for branch, provider, output in self._running(plan, state):
            lines = reversed(_lines(_tail(output)))
            text = next((text for line in lines if (text := self._text(provider, line))), "")
            if text:
                yield branch, text

    def news(self, plan: Plan, state: RunState) -> Iterator[tuple[str | None, str]]:
        """The output of running agents since the last call."""
        for branch, provider, output in self._running(plan, state):
            begin = self._read.get(output, 0)
            whole = files.read_part(output, begin, TAIL_BYTES * 16)[0]
            # An incomplete line is left for the next call.
            whole = whole[: whole.rfind(b"\n") + 1]
            self._read[output] = begin + len(whole)
            for line in _lines(whole):
                if text := self._text(provider, line):
                    yield branch, text

    def _running(self, plan: Plan, state: RunState) -> Iterator[tuple[str | None, str, str]]:
        """The branch, the provider and the output file of each running agent."""
        layout = RunLayout.of(self._project, state.session)
        for branch, at in state.under_way():
            attempt = at.iteration.attempt if at.iteration else None
            if at.iteration is None or attempt is None or attempt.status is not TaskStatus.RUNNING:
                continue
            node, place = plan.stage(at.path, branch), place_of(plan, state, branch, at)
            if node is not None and place is not None:
                here = layout.iteration(place.folder, at.iteration.number).attempt(attempt.number)
                yield branch, node.chosen(attempt.choice).type, here.output

    def _text(self, provider: str, line: str) -> str:
        if provider not in self._formatters:
            self._formatters[provider] = self._formatter(provider)
        formatter = self._formatters[provider]
        return formatter.progress(line) if formatter else line.strip()

    def _formatter(self, provider: str) -> ShowsProgress | None:
        """The provider if it formats its output for people, or None if the output is shown as it is."""
        offer = find_offers(self._project, self._environ).get(provider)
        try:
            made = offer.make() if offer else None
        except AgentForgeError:
            return None
        return made if isinstance(made, ShowsProgress) else None


def _tail(path: str) -> bytes:
    found, begin = files.read_part(path, -TAIL_BYTES, TAIL_BYTES)
    # The first line may be incomplete.
    return found[found.find(b"\n") + 1 :] if begin else found


def _lines(content: bytes) -> list[str]:
    return [line for line in clean_output(content).text.splitlines() if line.strip()]
