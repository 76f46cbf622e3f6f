"""docs/json-output.md: the keys of what runs ask, and of the commands that answer it."""

import subprocess

from tests.surface.json_agents import block, describe_provider, stage, write_pipeline
from tests.surface.json_calls import Calls, Examples
from tests.surface.terminal import WRITE_RESULT, Project

TIMED = {"by": "agent", "timeout": 3600, "on_timeout": "approve"}
EXAMPLES: Examples = {
    ("inbox", "open request"): ["inbox"],
    ("inbox show", "shown request"): ["inbox", "show", "timed", "--verbose"],
    ("approve", "run result"): ["approve", "steps"],
    ("reject", "run result"): ["reject", "steps", "-f", "shorter"],
    ("answer", "run result"): ["answer", "steps", "resume"],
    ("inbox answer", "run result"): ["inbox", "answer", "steps", "approve"],
}
SHOWN = ("request", "open request", "shown request")


def test_keys_of_requests_are_those_of_the_page(project: Project) -> None:
    subprocess.run(["git", "init", "-q", str(project.root)], check=True, env=project.env)
    describe_provider(project, "mine", WRITE_RESULT)
    runs = {
        "timed": stage("a", f"echo new > new.txt; {WRITE_RESULT}", approve=TIMED),
        "gate": stage("a", checkpoint="go-live"),
        "branches": block("both", "mine", approve=True),
    }
    steps = [stage("a", approve=True), stage("b", approve={"rounds": 1}), stage("c", approve=True)]
    for name, nodes in {**{name: [node] for name, node in runs.items()}, "steps": steps}.items():
        file = write_pipeline(project, name, *nodes)
        assert project.call("run", "-p", file, "-s", name).code == 0
    calls = Calls(project)
    calls.call_all(EXAMPLES)
    assert calls.problems(SHOWN) == []
