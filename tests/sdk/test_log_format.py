"""Logs of an earlier format: refused with a message, never read as if they were of this one."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.engine.plans import plan_of, stage, started
from tests.sdk.projects import ENVIRON, node, pipeline, run_dir

from agentforge.model import codec
from agentforge.model.cursor import Cursor
from agentforge.model.errors import LogTooOld
from agentforge.model.event import Event
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A project with a run whose log has format 1."""
    began = replace(started(plan_of(stage("plan"))), format=1)
    line, _ = codec.encode(Event(1, AT, "s", began.run_id, began, Cursor("0", 0, 0)), codec.GENESIS)
    run_dir(tmp_path).mkdir(parents=True)
    (run_dir(tmp_path) / "events.jsonl").write_bytes(line + b"\n")
    return tmp_path


def sdk(project: Path) -> SyncEngine:
    return SyncEngine(project, providers={"scripted": ScriptedProvider([says("done")])}, environ=ENVIRON)


@pytest.mark.parametrize("act", ["status", "inspect", "resume", "recover", "pause", "cancel"])
def test_log_of_an_earlier_format_is_refused_with_a_hint(older: Path, act: str) -> None:
    before = (run_dir(older) / "events.jsonl").read_bytes()
    with sdk(older) as engine, pytest.raises(LogTooOld) as refused:
        getattr(engine, act)("s")
    assert refused.value.message == "the log of session 's' has format 1, but this version requires format 2"
    assert refused.value.hint == (
        "finish the run with the version that started it, or start over with --force"
    )
    assert (run_dir(older) / "events.jsonl").read_bytes() == before


def test_list_shows_a_run_of_an_earlier_format_as_unknown(older: Path) -> None:
    with sdk(older) as engine:
        assert [(row.session, row.status) for row in engine.list()] == [("s", "unknown")]


def test_force_archives_a_run_of_an_earlier_format(older: Path) -> None:
    with sdk(older) as engine:
        assert engine.run(pipeline(node()), session="s", force=True).completed
    aside = [path for path in run_dir(older).parent.iterdir() if path.is_dir() and path.name != "s"]
    assert [b'"format"' in (path / "events.jsonl").read_bytes() for path in aside] == [False]
