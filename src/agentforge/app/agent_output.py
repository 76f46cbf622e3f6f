"""What agents at work say, read from their own output files: it never goes through the log."""

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
"""A line of a machine's output may be long."""


class AgentOutput:
    def __init__(self, project: str, environ: Mapping[str, str]) -> None:
        self._project = project
        self._environ = environ
        self._speakers: dict[str, ShowsProgress | None] = {}
        self._read: dict[str, int] = {}
        """How far each output was read."""

    def last(self, plan: Plan, state: RunState) -> Iterator[tuple[str | None, str]]:
        """The last thing that each agent at work said, with the branch it is in."""
        for branch, provider, output in self._at_work(plan, state):
            lines = reversed(_lines(_tail(output)))
            words = next((words for line in lines if (words := self._words(provider, line))), "")
            if words:
                yield branch, words

    def news(self, plan: Plan, state: RunState) -> Iterator[tuple[str | None, str]]:
        """All that agents at work said since the last look."""
        for branch, provider, output in self._at_work(plan, state):
            begin = self._read.get(output, 0)
            whole = files.read_part(output, begin, TAIL_BYTES * 16)[0]
            # A line that isn't whole yet is left for the next look.
            whole = whole[: whole.rfind(b"\n") + 1]
            self._read[output] = begin + len(whole)
            for line in _lines(whole):
                if words := self._words(provider, line):
                    yield branch, words

    def _at_work(self, plan: Plan, state: RunState) -> Iterator[tuple[str | None, str, str]]:
        """The branch, the provider and the output file of each agent at work."""
        layout = RunLayout.of(self._project, state.session)
        for branch, at in state.under_way():
            attempt = at.iteration.attempt if at.iteration else None
            if at.iteration is None or attempt is None or attempt.status is not TaskStatus.RUNNING:
                continue
            node, place = plan.stage(at.path, branch), place_of(plan, state, branch, at)
            if node is not None and place is not None:
                here = layout.iteration(place.folder, at.iteration.number).attempt(attempt.number)
                yield branch, node.chosen(attempt.choice).type, here.output

    def _words(self, provider: str, line: str) -> str:
        if provider not in self._speakers:
            self._speakers[provider] = self._speaker(provider)
        speaker = self._speakers[provider]
        return speaker.progress(line) if speaker else line.strip()

    def _speaker(self, provider: str) -> ShowsProgress | None:
        """The provider, if its output isn't meant for people; one that this process can't make speaks for
        itself."""
        offer = find_offers(self._project, self._environ).get(provider)
        try:
            made = offer.make() if offer else None
        except AgentForgeError:
            return None
        return made if isinstance(made, ShowsProgress) else None


def _tail(path: str) -> bytes:
    found, begin = files.read_part(path, -TAIL_BYTES, TAIL_BYTES)
    # The first line may be the end of one.
    return found[found.find(b"\n") + 1 :] if begin else found


def _lines(content: bytes) -> list[str]:
    return [line for line in clean_output(content).text.splitlines() if line.strip()]
