"""docs/json-output.md: the keys of the commands that show the state of runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.surface.json_agents import WAIT, agent, block, describe_provider, stage, write_pipeline
from tests.surface.json_calls import Calls, Examples
from tests.surface.terminal import WRITE_RESULT, Project, wait_for

CHECKS = [
    {"name": "slow", "run": f"[ $(wc -l < count) -lt 2 ] || {WAIT}; exit 1"},
    {"name": "style", "run": "false"},
]
HOOKS = {"stage_end": [{"id": "publish", "stage": "a", "action": "confirm", "message": "Publish it?"}]}
LEAVE_STEPS = 'echo \'{"steps": [{"id": "s1"}]}\' > "$AGENTFORGE_ARTIFACT"'
RETRY = {"max_attempts": 3, "initial_delay": 600}
EXAMPLES: Examples = {
    ("status", "status"): ["status", "checking"],
    ("list", "listed run"): ["list"],
    ("pipelines -n", "listed run"): ["pipelines", "-n", "9"],
    ("top", "top row"): ["top"],
}
SHOWN = ("status", "listed run", "top row", "step", "wait", "running check", "hook call")


def test_keys_of_states_are_those_of_the_page(project: Project) -> None:
    stop_some(project)
    calls = Calls(project)
    with checking(project), waiting(project):
        calls.call_all(EXAMPLES)
        for session in ("waiting", "hooked", "branches", "failed", "steps", "votes"):
            calls.call("status", "status", ["status", session])
    assert calls.problems(SHOWN) == []


def stop_some(project: Project) -> None:
    """Runs that ask, and one that failed and whose engine in the background could not start again."""
    describe_provider(project, "mine", WRITE_RESULT)
    asked = write_pipeline(project, "hooked", stage("a"), hooks=HOOKS)
    assert project.call("run", "-p", asked, "-s", "hooked").code == 0
    branches = write_pipeline(project, "branches", block("both", "mine", approve=True))
    assert project.call("run", "-p", branches, "-s", "branches").code == 0
    failed = stage("a", "exit 3", retry={"max_attempts": 1}, max_iteration_cost_usd=0.1)
    failing = write_pipeline(project, "failed", failed, limits={"cost_usd": 1})
    assert project.call("run", "-p", failing, "-s", "failed").code == 1
    assert project.call("run", "-p", failing, "-s", "failed", "--background=failed").code != 0
    plan = stage("plan", f"{LEAVE_STEPS}; {WRITE_RESULT}", artifact={"type": "object"})
    over = {"termination": {"type": "items", "from": "plan.steps"}, "retry": {"max_attempts": 1}}
    do = {**stage("do", "exit 3"), **over}
    vote = {"id": "vote", "prompt": "x", "delay": 0, **over}
    describe_provider(project, "lost", "exit 3")
    del do["runs"]
    votes = {"id": "votes", "parallel": {"providers": ["lost"], "stages": [vote]}}
    for name, node in {"steps": do, "votes": votes}.items():
        file = write_pipeline(project, name, plan, node, request="required")
        assert project.call("run", "-p", file, "-s", name, "Add a slugify function.").code == 1


@contextmanager
def checking(project: Project) -> Iterator[None]:
    """A run in its second cycle, while a check runs. A file of it was refused."""
    again = stage("a", f"echo x >> count; {WRITE_RESULT}", checks=CHECKS, on={"fail": "a"})
    file = write_pipeline(project, "checking", again)
    with project.started("run", "-p", file, "-s", "checking", "--skip-check=style", "--reason=slow"):
        wait_for(lambda: project.types("checking").count("check_start") == 2, "the check")
        control = project.run_dir("checking") / "control"
        control.mkdir(exist_ok=True)
        (control / "pause-1.json").write_text("no JSON")
        wait_for(lambda: "file_refused" in project.types("checking"), "the refusal")
        yield


@contextmanager
def waiting(project: Project) -> Iterator[None]:
    """A run whose first provider is missing, and whose second one is waiting for its next attempt."""
    describe_provider(project, "missing", "exit")
    (project.home / "missing").unlink()
    chain = ["missing", agent("exit 3")]
    file = write_pipeline(project, "waiting", {**stage("a"), "provider": chain, "retry": RETRY})
    with project.started("run", "-p", file, "-s", "waiting"):
        wait_for(lambda: "retry_scheduled" in project.types("waiting"), "the retry")
        yield
