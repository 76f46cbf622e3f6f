"""What an attempt's program is confined to, where its stage says so."""

import os
from collections.abc import Mapping

from agentforge.model.layout import AttemptLayout, IterationLayout, RunLayout
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement, Sandbox
from agentforge.system import files


class Confiner:
    def __init__(self, sandboxes: Mapping[str, Sandbox], project: str, layout: RunLayout) -> None:
        self._sandboxes = sandboxes
        self._project = project
        self._runs = os.path.dirname(layout.root)

    def confine(
        self, command: Command, choice: SandboxChoice | None, place: AttemptLayout, writable: tuple[str, ...]
    ) -> Command:
        """The program in its sandbox: the workspace is its to change, but of all runs only `writable`."""
        if choice is None or choice.type == "none":
            return command
        # Only what is there can be protected.
        files.make_dir(place.root)
        within = Confinement(self._project, (self._runs, place.root), writable)
        return self._sandboxes[choice.type].wrap(command, choice, within, place.root)


def writable_in(here: IterationLayout, progress: str) -> tuple[str, ...]:
    """What an iteration's agent writes among the run's own files."""
    return (here.root, progress)
