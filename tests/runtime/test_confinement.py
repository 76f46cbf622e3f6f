"""What an attempt's program may touch: the workspace, but of all runs only what its iteration writes."""

from pathlib import Path

import pytest

from agentforge.model.layout import RunLayout
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement
from agentforge.runtime.tasks.call import Confiner, writable_in

COMMAND = Command(("agent",), {})


class NotingSandbox:
    """Notes what it is asked to confine."""

    name = "noting"

    def __init__(self) -> None:
        self.asked: list[tuple[Confinement, str]] = []

    def probe(self, choice: SandboxChoice) -> None:
        """Always there."""

    def wrap(self, command: Command, choice: SandboxChoice, within: Confinement, mark: str) -> Command:
        self.asked.append((within, mark))
        return Command(("confined", *command.argv), command.env)


def test_all_runs_and_the_attempts_own_files_are_protected(tmp_path: Path) -> None:
    layout, sandbox = RunLayout.of(str(tmp_path), "s"), NotingSandbox()
    here = layout.iteration("stage-00-plan", 1)
    place, writable = here.attempt(1), writable_in(here, "/progress.md")
    confiner = Confiner({"noting": sandbox}, str(tmp_path), layout)
    confined = confiner.confine(COMMAND, SandboxChoice(type="noting"), place, writable)  # type: ignore[arg-type]
    assert confined.argv == ("confined", "agent")
    ((within, mark),) = sandbox.asked
    assert within.workspace == str(tmp_path)
    assert within.protected == (f"{tmp_path}/.claude/pipeline-runs", place.root)
    assert within.writable == (here.root, "/progress.md")
    assert mark == place.root
    assert Path(place.root).is_dir(), "only what is there can be protected"


@pytest.mark.parametrize("choice", [None, SandboxChoice(type="none")])
def test_a_stage_without_a_sandbox_has_its_command_as_it_is(
    tmp_path: Path, choice: SandboxChoice | None
) -> None:
    layout = RunLayout.of(str(tmp_path), "s")
    place = layout.iteration("stage-00-plan", 1).attempt(1)
    assert Confiner({}, str(tmp_path), layout).confine(COMMAND, choice, place, ()) is COMMAND
