"""docs/json-output.md: the keys of commands that reach a run that another engine runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.surface.json_agents import WAIT, block, describe_provider, stage, write_pipeline
from tests.surface.json_calls import Calls, Examples
from tests.surface.terminal import WRITE_RESULT, Done, Project, wait_for

CONTROLS: Examples = {
    ("steer", "steer"): ["steer", "slow", "faster"],
    ("resume --restart-stage", "restart"): ["resume", "slow", "--restart-stage"],
    ("pause", "pause"): ["pause", "slow"],
    ("cancel", "cancel"): ["cancel", "slow"],
    ("abort", "cancel"): ["abort", "aborted"],
}
ANSWERS: Examples = {
    ("approve", "answer"): ["approve", "asking"],
    ("reject", "answer"): ["reject", "asking", "-f", "shorter"],
    ("answer", "answer"): ["answer", "asking", "approve"],
    ("inbox answer", "answer"): ["inbox", "answer", "asking", "approve"],
}
EXAMPLES: Examples = {**CONTROLS, **ANSWERS, ("attach", "run result"): ["attach"]}
SHOWN = ("steer", "restart", "pause", "cancel", "answer")
BRANCHES = ("one", "two", "three", "four")


def test_keys_of_controls_are_those_of_the_page(project: Project) -> None:
    calls = Calls(project)
    with running(project, "slow"), running(project, "aborted"):
        calls.call_all(CONTROLS)
    calls.compare("attach", "run result", followed(project))
    with asking(project) as requests:
        for ((command, object), line), request in zip(ANSWERS.items(), requests, strict=True):
            calls.call(command, object, [*line, "--request", request])
    assert calls.problems(SHOWN) == []


@contextmanager
def running(project: Project, session: str) -> Iterator[None]:
    file = write_pipeline(project, session, stage("a", f"touch {session}; {WAIT}"))
    with project.started("run", "-p", file, "-s", session):
        wait_for((project.root / session).exists, "the agent")
        yield


def followed(project: Project) -> Done:
    """What `attach` prints when the run ends. If the run ended before the process had attached to it, another
    one ends later."""
    number = 0
    while True:
        number += 1
        session = f"followed-{number}"
        with running(project, session), project.started("attach", session, "--json") as attached:
            for _ in range(number):
                project.call("status", session)
            project.call("cancel", session)
            done = attached.end()
        if done.json.get("error") is None:
            return done


@contextmanager
def asking(project: Project) -> Iterator[list[str]]:
    """A run that asks about the results of some branches while another one runs; its requests."""
    describe_provider(project, "slow", f"{WAIT}; {WRITE_RESULT}")
    for name in BRANCHES:
        describe_provider(project, name, WRITE_RESULT)
    file = write_pipeline(project, "asking", block("all", *BRANCHES, "slow", approve=True))
    with project.started("run", "-p", file, "-s", "asking"):

        def opened() -> list[str]:
            events = project.events("asking")
            return [event["data"]["id"] for event in events if event["type"] == "request_opened"]

        wait_for(lambda: len(opened()) == len(BRANCHES), "the requests")
        yield opened()
