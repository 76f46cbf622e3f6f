"""The log's head, kept outside the workspace: a shortened log is detected."""

import asyncio
from pathlib import Path

import pytest
from tests.sdk.projects import ENVIRON, engine, eventually, load, node, pipeline, run, run_dir

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.model.errors import LogCorrupt
from agentforge.ports.event_log import Head
from agentforge.runtime.state_folder import HEADS, HeadKeeper, StateFolder
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says


def environ(home: Path, **more: str) -> dict[str, str]:
    return {**ENVIRON, "XDG_STATE_HOME": str(home), **more}


def heads(home: Path) -> list[Path]:
    return list((home / "agentforge" / "heads").glob("*.json"))


def project_of(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


def test_log_that_was_shortened_while_no_engine_was_running_is_rejected(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"

    async def main() -> None:
        provider = ScriptedProvider([says("x"), crashes(), says("y")])
        async with engine(project, provider, environ=environ(home)) as sdk:
            failed = await sdk.run(pipeline(node(runs=2, retry={"max_attempts": 1})), session="s")
            assert failed.error_type == "provider_crashed"
            log = run_dir(project) / "events.jsonl"
            shortened = b"".join(log.read_bytes().splitlines(keepends=True)[:-2])
            log.write_bytes(shortened)
            with pytest.raises(LogCorrupt, match="was shortened or changed") as caught:
                await sdk.resume("s")
            assert "--accept-damage" in caught.value.hint
            assert log.read_bytes() == shortened
            assert (await sdk.resume("s", accept_damage=True)).completed

    run(main())
    assert len(heads(home)) == 1


def test_new_run_of_the_same_name_is_not_held_to_the_old_head(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"

    async def main() -> None:
        async with engine(project, environ=environ(home)) as sdk:
            await sdk.run(pipeline(node(runs=5)), session="s")
            assert (await sdk.run(pipeline(), session="s", force=True)).completed

    run(main())


def test_neither_state_file_nor_kept_head_runs_ahead_of_the_log(tmp_path: Path) -> None:
    """A fact that no act waits for is buffered; it must be durable before the head is stored."""
    project, home = project_of(tmp_path), tmp_path / "home"
    clock = FakeClock(hold=True)
    patient = environ(home, AGENT_PIPELINES_EVENT_FLUSH_MS="600000")

    async def main() -> None:
        async with engine(project, clock=clock, environ=patient) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(node(runs=2, delay=60)), session="s"))
            log, state = run_dir(project) / "events.jsonl", run_dir(project) / "state.json"
            await eventually(lambda: clock.waits)
            waiting = len(log.read_bytes().splitlines())
            await eventually(lambda: load(state)["event_offset"] > waiting)
            size = log.stat().st_size
            assert load(state)["snapshot"]["length"] <= size
            assert load(heads(home)[0])["head"]["length"] <= size
            assert log.read_bytes().count(b"\n") == load(state)["event_offset"]
            clock.advance(60)
            assert (await going).completed

    run(main())


def test_unwritable_home_does_not_stop_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    project = project_of(tmp_path)
    (tmp_path / "home").write_text("a file, not a folder")

    async def main() -> None:
        async with engine(project, environ=environ(tmp_path / "home")) as sdk:
            assert (await sdk.run(pipeline(), session="s")).completed

    run(main())
    assert "can't store the log's head outside the project" in caplog.text


def test_damaged_kept_head_is_ignored(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"

    async def main(sdk: Engine) -> None:
        async with sdk:
            await sdk.run(pipeline(node(retry={"max_attempts": 1})), session="s")
            heads(home)[0].write_text("{torn")
            assert (await sdk.resume("s")).completed

    run(main(engine(project, ScriptedProvider([crashes(), says("x")]), environ=environ(home))))


def test_head_of_another_run_says_nothing(tmp_path: Path) -> None:
    folder = run_dir(project_of(tmp_path))
    log = JsonlLog(folder / "events.jsonl")
    keeper = HeadKeeper(str(folder), environ(tmp_path / "home"))
    keeper.keep("first", Head(9, "0" * 32, 5000))
    keeper.check_head("second", log)
    with pytest.raises(LogCorrupt):
        keeper.check_head("first", log)


def test_kept_head_that_names_another_run_is_ignored(tmp_path: Path) -> None:
    folder, env = run_dir(project_of(tmp_path)), environ(tmp_path / "home")
    keeper = HeadKeeper(str(folder), env)
    keeper.keep("first", Head(9, "0" * 32, 5000))
    (kept,) = heads(tmp_path / "home")
    kept.rename(StateFolder(str(folder), env).path(HEADS, "second"))
    assert keeper.kept("second") is None
