"""Plans the items of a visit: reads their list, and compares it with what the visit before left."""

from functools import partial

from agentforge.engine.checks.criteria import needed_checks
from agentforge.engine.items import planned
from agentforge.model.errors import UnusableFile
from agentforge.model.facts import ErrorOccurred, ItemsPlanned
from agentforge.model.task import ItemsTask
from agentforge.runtime.artifacts import StoredArtifacts, unusable


class ItemsPerformer:
    """It changes nothing, so it can be repeated after a crash."""

    def __init__(self, stored: StoredArtifacts) -> None:
        self._stored = stored

    def do(self, task: ItemsTask) -> ItemsPlanned | ErrorOccurred:
        try:
            digest, elements = self._stored.items(task.node)
        except UnusableFile as error:
            return unusable(task.node, error.message)
        needed = partial(needed_checks, task.node)
        return planned(elements.values(), task.known, task.feedback, task.place.run, digest, checks_of=needed)
