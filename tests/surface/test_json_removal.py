"""docs/json-output.md: the keys of commands that delete runs."""

import fcntl

from tests.surface.json_agents import stage, write_pipeline
from tests.surface.json_calls import Calls, Examples
from tests.surface.terminal import Project

EXAMPLES: Examples = {
    ("rm", "rm"): ["rm", "used", "--yes"],
    ("clean --dry-run", "clean --dry-run"): ["clean", "--older-than", "0m", "--dry-run"],
    ("clean", "rm"): ["clean", "--older-than", "0m", "--yes"],
}
SHOWN = ("rm", "clean --dry-run")


def test_keys_of_removals_are_those_of_the_page(project: Project) -> None:
    file = write_pipeline(project, "p", stage("a"))
    for session in ("used", "old"):
        assert project.call("run", "-p", file, "-s", session).code == 0
    with (project.run_dir("used") / "events.jsonl").open() as log:
        fcntl.flock(log, fcntl.LOCK_EX)  # As an engine holds it.
        for (command, object), line in EXAMPLES.items():
            calls = Calls(project)
            calls.call(command, object, line)
            assert calls.problems([object]) == []
