"""Which stages need no files: their providers run inside the engine and read none, and nothing else does."""

from collections.abc import Callable

from agentforge.model.errors import AgentForgeError
from agentforge.model.place import Place
from agentforge.model.plan import Judgment, Plan, StageNode
from agentforge.ports.provider import Provider
from agentforge.runtime.tasks.call import is_program


class LightStages:
    """Asked for every iteration, so the answer is kept."""

    def __init__(self, plan: Plan, provider_of: Callable[[str], Provider], *, is_kept: bool) -> None:
        """`is_kept`: whether the run is recorded, which reads what iterations wrote."""
        self._provider_of = provider_of
        self._is_kept = is_kept
        self._inputs = {
            source.path
            for step in plan.steps
            for stage in step.stages
            for source in (stage.sources.from_stage if stage.sources else ())
        }
        """Paths of stages whose outputs other stages read."""
        self._known: dict[tuple[str, str | None], bool] = {}

    def __call__(self, place: Place, node: StageNode) -> bool:
        key = (place.path, place.branch)
        if key not in self._known:
            self._known[key] = self._is_light(place, node)
        return self._known[key]

    def _is_light(self, place: Place, node: StageNode) -> bool:
        # The manifest of a block names the files of its stages, and a judge is shown those of its own.
        if self._is_kept or place.branch is not None or isinstance(node.termination, Judgment):
            return False
        if node.output_path is not None or place.path in self._inputs:
            return False
        return all(self._reads_none(choice.type) for choice in node.chain)

    def _reads_none(self, name: str) -> bool:
        try:
            provider = self._provider_of(name)
        except AgentForgeError:
            return False
        return not is_program(provider) and not provider.capabilities().uses_files
