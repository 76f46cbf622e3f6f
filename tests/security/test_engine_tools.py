"""An agent can't replace the programs that the engine calls, also not without a sandbox."""

from pathlib import Path

import pytest
from tests.sdk.projects import ENVIRON, engine, pipeline, run
from tests.security.confined import WORK, need_bwrap, ran, script

from agentforge.model.errors import ProviderUnusable
from agentforge.model.status import RunStatus

PLANT = """for name in {names}; do
    printf "#!/bin/sh\\ntouch {ran}\\n" > {bin}/$name; chmod +x {bin}/$name
done
"""


def put_bd(folder: Path) -> Path:
    """A `bd` whose queue is empty, outside the project."""
    (folder / "outside").mkdir()
    (folder / "outside/bd").write_text("#!/bin/sh\nexit 0\n")
    (folder / "outside/bd").chmod(0o755)
    return folder / "outside"


def test_a_planted_tool_is_not_called(tmp_path: Path) -> None:
    need_bwrap()
    project = tmp_path / "project"
    tools = project / ".venv/bin"
    tools.mkdir(parents=True)
    plant = PLANT.format(names="bwrap env git bd", ran=project / "ran", bin=tools)
    environ = {**ENVIRON, "PATH": f"{tools}:{put_bd(tmp_path)}:/usr/bin:/bin"}
    first = script(plant + WORK, "first", sandbox="none")
    queue = script(WORK, "third", sandbox="none", termination={"type": "queue", "max": 1})
    stages = pipeline(first, script(f"echo x > outside; {WORK}", "second"), queue)
    ended = run(engine(project, environ=environ).run(stages, session="s", record=True))
    assert not (project / "ran").exists()
    assert (project / "outside").exists()
    assert ended.status is RunStatus.COMPLETED, ended.error


def test_a_folder_on_the_path_that_an_agent_creates_has_no_effect(tmp_path: Path) -> None:
    project, tools, told = tmp_path / "project", tmp_path / "later/bin", tmp_path / "ran"
    project.mkdir()
    plant = f"mkdir -p {tools}\n" + PLANT.format(names="git bd notify-send", ran=told, bin=tools)
    environ = {**ENVIRON, "PATH": f"{tools}:{put_bd(tmp_path)}:/usr/bin:/bin", "DISPLAY": ":0"}
    first = script(plant + WORK, "first", sandbox="none")
    queue = script(WORK, "second", sandbox="none", termination={"type": "queue", "max": 1})
    ended = run(engine(project, environ=environ).run(pipeline(first, queue), session="s", record=True))
    assert (tools / "git").exists()
    assert not told.exists()
    assert ended.status is RunStatus.COMPLETED, ended.error


def test_a_sandbox_of_the_project_is_refused(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "bwrap").write_text("#!/bin/sh\nexit 0\n")
    (tools / "bwrap").chmod(0o755)
    for name in ("sh", "cat"):
        (tools / name).symlink_to(f"/bin/{name}")
    with pytest.raises(ProviderUnusable, match=f"{tools}/bwrap is not used"):
        ran(tmp_path, script(WORK), PATH=str(tools))
