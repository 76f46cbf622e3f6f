"""Bugs in artifacts, in what stages get of them, and in the items that stages work through."""

from tests.mutants.mutation import Mutation as Bug

ACCEPT = "agentforge.runtime.artifacts"
ORDER = ("tests/order/test_recorded_runs.py",)

BUGS = (
    Bug(
        ACCEPT,
        "a large artifact isn't synced before the event that names it",
        "ArtifactRules._kept",
        "files.replace(here.artifact, content, durable=is_large)",
        "files.replace(here.artifact, content)",
        ORDER,
    ),
    Bug(
        ACCEPT,
        "the name of a large artifact isn't durable",
        "ArtifactRules._kept",
        "sync_names(here.attempt(task.attempt), self._layout.root)",
        "pass",
        ORDER,
    ),
)
