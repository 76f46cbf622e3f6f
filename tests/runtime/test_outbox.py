"""The folder for the results of agents that refuse to write below `.claude`."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.adapters.fake_clis import put_cli
from tests.sdk.projects import ENVIRON, engine, eventually, iteration_dir, load, node, pipeline, run

from agentforge.model.layout import IterationLayout
from agentforge.model.status import RunStatus
from agentforge.ports.provider import ExecuteRequest
from agentforge.runtime.attempt_folder import empty_outbox, make_outbox, outbox_of


@pytest.fixture
def here(tmp_path: Path) -> IterationLayout:
    found = IterationLayout(str(tmp_path / "run/iterations/001"))
    Path(found.attempt(1).root).mkdir(parents=True)
    return found


def request_in(project: Path, mark: str = "mark", **paths: str) -> ExecuteRequest:
    named = {
        "status_path": "/run/status.json",
        "result_path": "/run/result.json",
        "artifact_path": "/run/artifact.json",
        **paths,
    }
    outbox = outbox_of(str(project), mark)
    return ExecuteRequest("", "", {}, str(project), {}, outbox=outbox, **named)


def test_an_outbox_is_new_and_ignored_by_git(tmp_path: Path) -> None:
    request = request_in(tmp_path, "run/0/1")
    path = Path(request.outbox)
    path.mkdir(parents=True)
    (path / "result.json").write_text("planted")
    make_outbox(request)
    assert list(path.iterdir()) == []
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert outbox_of(str(tmp_path), "run/0/2") != str(path)


def test_result_and_artifact_are_moved_and_nothing_stays_behind(
    tmp_path: Path, here: IterationLayout
) -> None:
    request = request_in(tmp_path)
    path = request.outbox
    empty_outbox(path, here, 1)
    make_outbox(request)
    for name in ("result.json", "status.json", "artifact.json", "notes.md"):
        (Path(path) / name).write_text(name)
    for _ in range(2):
        empty_outbox(path, here, 1)
    assert Path(here.result).read_text() == "result.json"
    assert Path(here.status).read_text() == "status.json"
    assert Path(here.artifact).read_text() == "artifact.json"
    assert not Path(path).exists()
    assert (Path(here.attempt(1).root) / "outbox/notes.md").exists()


def test_a_crash_in_between_loses_nothing(tmp_path: Path, here: IterationLayout) -> None:
    request = request_in(tmp_path)
    path = request.outbox
    make_outbox(request)
    Path(here.result).write_text("moved before")
    empty_outbox(path, here, 1)
    assert Path(here.result).read_text() == "moved before"


def test_notes_and_context_are_copied_and_the_notes_moved_back(tmp_path: Path, here: IterationLayout) -> None:
    notes, context = tmp_path / "progress-s.md", Path(here.context)
    notes.write_text("first\n")
    paths = {"result_path": here.result, "progress_path": str(notes), "context_path": str(context)}
    context.write_text(json.dumps({"paths": paths}))
    request = request_in(tmp_path, **paths)
    make_outbox(request)
    told = json.loads((Path(request.outbox) / "context.json").read_text())["paths"]
    assert {Path(path).parent for path in told.values()} == {Path(request.outbox)}
    with Path(told["progress_path"]).open("a") as file:
        file.write("second\n")
    for _ in range(2):
        empty_outbox(request.outbox, here, 1, str(notes))
    assert notes.read_text() == "first\nsecond\n"
    assert json.loads(context.read_text()) == {"paths": paths}


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "missing"])
def test_notes_that_are_not_a_file_are_not_taken(tmp_path: Path, here: IterationLayout, kind: str) -> None:
    notes = tmp_path / "progress-s.md"
    notes.write_text("first\n")
    request = request_in(tmp_path, progress_path=str(notes))
    make_outbox(request)
    copy = Path(request.outbox) / "progress-s.md"
    copy.unlink()
    if kind == "link":
        copy.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(copy)
    elif kind == "folder":
        copy.mkdir()
    empty_outbox(request.outbox, here, 1, str(notes))
    assert notes.read_text() == "first\n"


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [(["--permission-mode", "acceptEdits"], ".agentforge-outbox"), (None, ".claude/pipeline-runs")],
)
def test_a_cli_with_restricted_permissions_writes_there(
    tmp_path: Path, permissions: list[str] | None, expected: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    put_cli(tmp_path / "bin", "claude")
    program = tmp_path / "bin/claude"
    program.write_text(
        "#!/bin/sh\ncat > seen\necho $AGENTFORGE_RESULT > where\n"
        'printf \'{"summary": "done"}\' > "$AGENTFORGE_RESULT"\n'
        'echo \'{"type":"result","subtype":"success","is_error":false,"result":"ok"}\'\n'
    )
    settings = {} if permissions is None else {"permissions": permissions}
    stage = node(prompt="Write to ${RESULT}.", provider={"type": "claude", **settings})
    environ = {**ENVIRON, "PATH": f"{tmp_path}/bin:{ENVIRON['PATH']}"}
    ended = run(engine(project, environ=environ).run(pipeline(stage), session="s"))
    assert ended.status is RunStatus.COMPLETED, ended.error
    where = (project / "where").read_text().strip()
    assert expected in where
    assert (project / "seen").read_text().startswith(f"Write to {where}.")
    assert load(iteration_dir(project) / "result.json")["summary"] == "done"


def test_what_a_cancelled_agent_wrote_there_is_moved_and_redacted(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    put_cli(tmp_path / "bin", "claude")
    (tmp_path / "bin/claude").write_text(
        '#!/bin/sh\ncat > seen\nprintf \'{"summary": "hunter2-hunter2"}\' > "$AGENTFORGE_RESULT"\n'
        "touch written\nexec sleep 600\n"
    )
    settings = {"type": "claude", "permissions": ["--permission-mode", "acceptEdits"]}
    path = f"{tmp_path}/bin:{ENVIRON['PATH']}"

    async def main() -> None:
        async with engine(
            project, environ={**ENVIRON, "PATH": path, "DEPLOY_TOKEN": "hunter2-hunter2"}
        ) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(provider=settings)), session="s"))
            await eventually((project / "written").exists)
            await sdk.cancel("s")
            assert (await going).status is RunStatus.ABORTED

    run(main())
    assert [entry.name for entry in (project / ".agentforge-outbox").iterdir()] == [".gitignore"]
    assert (iteration_dir(project) / "attempt-1/outbox").is_dir()
    assert load(iteration_dir(project) / "result.json")["summary"] != "hunter2-hunter2"
