"""What an attempt leaves becomes its outcome: nothing of an earlier attempt counts, and no secret is kept."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.engine.plans import stage
from tests.runtime.agents import ENVIRON, agents, end_left, engine, shell, supervisor
from tests.sdk.projects import eventually as soon
from tests.sdk.projects import iteration_dir, load, pipeline, run, types

from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import IterationLayout
from agentforge.model.place import Place
from agentforge.model.plan import ProviderChoice
from agentforge.model.result import Decision
from agentforge.model.secrets import Redactor
from agentforge.model.task import AgentTask
from agentforge.ports.provider import ExecuteResult
from agentforge.runtime.conclusion import (
    PROMISE,
    Attempted,
    archive_leftovers,
    conclude,
    note_attempt,
)
from agentforge.runtime.state_folder import MAX_COPY, OutputCopies
from agentforge.system.confined import ConfinedFolder
from agentforge.views.results import RunResult

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECRET = "sk-0123456789-secret"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    end_left(tmp_path)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "iterations" / "001"
    folder.mkdir(parents=True)
    return folder


def attempted(here: Path, number: int = 1, **changes: Any) -> Attempted:
    given: dict[str, Any] = {"redactor": Redactor([SECRET]), "project": str(here.parents[1]), **changes}
    by = ProviderChoice("claude", "opus")
    place = Place("0", 1, "stage-00-plan")
    task = AgentTask(place, "plan", 1, number, node=stage(), by=by, started_at=NOW)
    return Attempted(task, IterationLayout(str(here)), **given)


def completed(about: Attempted, ended: ExecuteResult) -> f.IterationCompleted:
    fact = conclude(about, ended, NOW)
    assert isinstance(fact, f.IterationCompleted)
    return fact


# -- what an earlier attempt left


@pytest.mark.parametrize("name", ["status.json", "result.json"])
def test_what_an_earlier_attempt_decided_does_not_count(here: Path, name: str) -> None:
    (here / name).write_text('{"decision": "stop", "summary": "of the first attempt"}')
    second = attempted(here, number=2)
    archive_leftovers(second)
    (here / ("result.json" if name == "status.json" else "status.json")).write_text('{"summary": "mine"}')
    fact = completed(second, ExecuteResult("said"))
    assert (fact.decision, fact.result.summary) == (Decision.CONTINUE, "mine")
    assert "first" in (here / "attempt-1" / name).read_text()


@pytest.mark.parametrize("name", ["output.md", "error.json", "artifact.json"])
def test_what_an_earlier_attempt_said_is_moved_to_its_folder(here: Path, name: str) -> None:
    (here / name).write_text("of the first attempt")
    archive_leftovers(attempted(here, number=2))
    assert not (here / name).exists()
    assert (here / "attempt-1" / name).read_text() == "of the first attempt"


def test_an_attempt_is_noted_once_however_often_its_outcome_is_taken(here: Path) -> None:
    note_attempt(attempted(here), "failed", "provider_crashed", NOW)
    for _ in range(2):
        note_attempt(attempted(here, number=2), "success", None, NOW)
    lines = (here / "attempts.jsonl").read_text().splitlines()
    assert [json.loads(line)["attempt"] for line in lines] == [1, 2]


# -- the output path


def test_an_output_path_that_is_a_link_stays_one(here: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "real.md", tmp_path / "link.md"
    target.write_text("old")
    link.symlink_to(target)
    completed(attempted(here, output_path=str(link)), ExecuteResult("said", result={"summary": "x"}))
    assert link.is_symlink()
    assert target.read_text() == "said\n"


def out_of_the_project(project: Path, outside: Path) -> None:
    (project / "docs").symlink_to(outside)


def into_git(project: Path, _outside: Path) -> None:
    (project / ".git").mkdir()
    (project / "docs").symlink_to(".git")


def through_a_file(project: Path, _outside: Path) -> None:
    (project / "docs").write_text("a person's")


def to_a_folder(project: Path, _outside: Path) -> None:
    (project / "docs" / "report.md").mkdir(parents=True)


@pytest.mark.parametrize(
    ("leads", "found"),
    [
        (out_of_the_project, "is a link that leads outside the workspace"),
        (into_git, "is a link that leads into .git"),
        (through_a_file, "Not a directory"),
        (to_a_folder, "is a folder"),
    ],
)
def test_an_output_path_that_leads_elsewhere_is_a_failure_of_the_attempt(
    here: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    leads: Callable[[Path, Path], None],
    found: str,
) -> None:
    """An agent can put anything on the path: the engine fails the attempt, and continues."""
    outside = tmp_path_factory.mktemp("outside")
    leads(tmp_path, outside)
    about = attempted(here, output_path=str(tmp_path / "docs" / "report.md"))
    fact = conclude(about, ExecuteResult("said", result={"summary": "x"}), NOW)
    assert isinstance(fact, f.ErrorOccurred)
    assert fact.kind is FailureKind.RESULT_INVALID
    assert "can't copy the output to the output path" in fact.message
    assert found in fact.message
    assert load(here / "error.json")["message"] == fact.message
    for folder in (outside, tmp_path / ".git"):
        assert not folder.exists() or list(folder.iterdir()) == []


def copies(tmp_path: Path, state: Path | None = None) -> OutputCopies:
    environ = {"XDG_STATE_HOME": str(state)} if state else {}
    return OutputCopies(str(tmp_path), str(tmp_path / ".claude/pipeline-runs/s"), environ)


def test_messages_replace_each_other_at_the_output_path_and_nothing_else(
    here: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target, kept = tmp_path / "docs.md", copies(tmp_path, tmp_path_factory.mktemp("state"))
    about = attempted(here, output_path=str(target), copies=kept)
    for said in ("one", "two"):
        completed(about, ExecuteResult(said, result={"summary": "x"}))
        assert target.read_text() == f"{said}\n"
    target.write_text("the agent's own")
    completed(about, ExecuteResult("three", result={"summary": "x"}))
    assert target.read_text() == "the agent's own"


@pytest.mark.parametrize("is_copied", [False, True], ids=["before the copy", "after it"])
def test_copy_whose_engine_was_killed_is_still_the_engine_s(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, is_copied: bool
) -> None:
    state, target = tmp_path_factory.mktemp("state"), str(tmp_path / "docs.md")
    with ConfinedFolder(str(tmp_path)) as project:
        assert copies(tmp_path, state).claim(project, target, b"one")
        project.write(target, b"one")
        assert copies(tmp_path, state).claim(project, target, b"two")
        if is_copied:
            project.write(target, b"two")
        assert copies(tmp_path, state).claim(project, target, b"two")
        project.write(target, b"a person's")
        assert not copies(tmp_path, state).claim(project, target, b"three")


def test_without_a_state_folder_only_a_missing_file_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = str(tmp_path / "docs.md")
    with ConfinedFolder(str(tmp_path)) as project:
        assert copies(tmp_path).claim(project, target, b"one")
        assert "will not be replaced by later messages" in caplog.text
        project.write(target, b"one")
        assert not copies(tmp_path).claim(project, target, b"two")
        project.write(target, b"x" * (MAX_COPY + 1))
        assert not copies(tmp_path).claim(project, target, b"two")


# -- what counts as an outcome


def test_an_agent_that_failed_is_not_a_success_although_it_wrote_a_result(here: Path) -> None:
    (here / "result.json").write_text('{"summary": "done"}')
    fact = conclude(attempted(here), ExecuteResult("said", exit_code=1), NOW)
    assert isinstance(fact, f.ErrorOccurred)
    assert fact.kind is FailureKind.PROVIDER_CRASHED


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        (f"all done\n{PROMISE}\n\n", Decision.STOP),
        (f"I will say {PROMISE} when I am done", Decision.CONTINUE),
        (f"{PROMISE}\nno, wait", Decision.CONTINUE),
    ],
)
def test_the_last_line_may_promise_that_all_is_done(here: Path, said: str, decision: Decision) -> None:
    about = attempted(here, honors_promise=True)
    assert completed(about, ExecuteResult(said, result={"summary": "x"})).decision is decision


# -- secrets


@pytest.mark.parametrize("name", ["result.json", "status.json"])
def test_a_secret_that_the_agent_wrote_is_hidden(here: Path, name: str) -> None:
    written = json.dumps({"summary": f"the key is {SECRET}", "decision": "continue"})
    (here / name).write_text(written)
    (here / "artifact.json").write_text(written)
    fact = completed(attempted(here), ExecuteResult("said"))
    assert fact.result.summary == "the key is [secret]"
    for path in here.rglob("*"):
        assert path.is_dir() or SECRET not in path.read_text(), path


def test_a_secret_that_the_agent_said_is_hidden(here: Path) -> None:
    about = attempted(here, light=True)
    fact = completed(about, ExecuteResult(f"key {SECRET}", result={"summary": f"the key is {SECRET}"}))
    assert (fact.text or "").strip() == "key [secret]"
    assert fact.result.summary == "the key is [secret]"
    written = completed(attempted(here), ExecuteResult(f"key {SECRET}", result={"summary": "x"}))
    assert written.output == "stage-00-plan/iterations/001/output.md"
    assert (here / "output.md").read_text() == "key [secret]\n"


def test_a_secret_in_a_failure_is_hidden(here: Path) -> None:
    failure = Failure(FailureKind.PROVIDER_AUTH, f"{SECRET} is refused")
    fact = conclude(attempted(here), ExecuteResult(failure=failure), NOW)
    assert isinstance(fact, f.ErrorOccurred)
    assert fact.message == "[secret] is refused"
    assert SECRET not in (here / "error.json").read_text()


WRITES_SECRETS = """
for file in "$MOCK_RESULT_FILE" "$MOCK_STATUS_FILE"; do
  printf '{"summary": "%s"}' "$DEPLOY_TOKEN" > "$file"
done
echo $$ >> runs
while [ ! -e go ]; do sleep 0.02; done
printf '{"summary": "done"}' > "$MOCK_RESULT_FILE"
"""
WITH_SECRET = {**ENVIRON, "DEPLOY_TOKEN": SECRET}


def expect_no_secret_in(folder: Path) -> None:
    for path in folder.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_files_of_a_cancelled_attempt_keep_no_secret(project: Path) -> None:
    async def main() -> RunResult:
        async with engine(project, environ=WITH_SECRET) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(shell(WRITES_SECRETS)), session="s"))
            await soon(lambda: agents(project))
            await sdk.pause("s", now=True)
            return await going

    run(main())
    assert "attempt_cancelled" in types(project)
    assert (iteration_dir(project) / "result.json").exists()
    expect_no_secret_in(iteration_dir(project))


def test_files_of_a_lost_attempt_keep_no_secret(project: Path) -> None:
    async def main() -> RunResult:
        async with engine(project, environ=WITH_SECRET) as sdk:
            once = pipeline(shell(WRITES_SECRETS, semantics="at_most_once"))
            going = asyncio.create_task(sdk.run(once, session="s"))
            await soon(lambda: agents(project))
            os.kill(supervisor(project), signal.SIGKILL)
            return await going

    run(main())
    assert "attempt_lost" in types(project)
    assert (iteration_dir(project) / "result.json").exists()
    expect_no_secret_in(iteration_dir(project))


def test_what_a_finished_attempt_says_of_a_secret_is_hidden_everywhere(project: Path) -> None:
    script = 'echo "$DEPLOY_TOKEN"; printf \'{"summary": "%s"}\' "$DEPLOY_TOKEN" > "$MOCK_RESULT_FILE"'

    async def main() -> RunResult:
        async with engine(project, environ=WITH_SECRET) as sdk:
            return await sdk.run(pipeline(shell(script)), session="s")

    assert run(main()).completed
    assert load(iteration_dir(project) / "result.json")["summary"] == "[secret]"
    expect_no_secret_in(project / ".claude")


@pytest.mark.parametrize(
    "planted",
    [
        '{"attempt": -1e400, "output_path": "output.md"}',
        '{"attempt": 1.5, "output_path": "output.md"}',
        '{"attempt": -1, "output_path": "output.md"}',
        '{"attempt": "1"}',
        '{"attempt": null}',
        '["attempt"]',
        "junk",
    ],
)
def test_records_that_an_agent_wrote_are_dropped(here: Path, planted: str) -> None:
    kept = '{"attempt":1,"status":"failed"}\n'
    (here / "attempts.jsonl").write_text(f"{planted}\n{kept}")
    archive_leftovers(attempted(here, number=2))
    assert (here / "attempts.jsonl").read_text() == kept


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_in_the_place_of_the_archive_is_moved_aside(here: Path, tmp_path: Path, kind: str) -> None:
    """As after an attempt of a provider in the engine's process, which has no folder."""
    archive, outside = here / "attempt-1", tmp_path / "outside"
    outside.mkdir()
    archive.write_text("planted") if kind == "file" else archive.symlink_to(outside)
    (here / "result.json").write_text("{}")
    archive_leftovers(attempted(here, number=2))
    assert (archive / "result.json").read_text() == "{}"
    assert not archive.is_symlink()
    assert list(outside.iterdir()) == []
