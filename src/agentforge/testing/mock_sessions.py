"""An isolated session with canned results, and assertions on its outcome.

def test_my_pipeline(tmp_path):
    session = mock_session(tmp_path, {"result-2.json": {"summary": "done", "decision": "stop"}})
    session.run("my-pipeline.yaml")
    assert_state_status(session, "completed")
    assert_iteration_count(session, 2)
    assert_event_sequence(session, ["session_start", "node_start", ..., "session_complete"])
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import Any

from agentforge.app.runs.lookup import Runs
from agentforge.model.event import Event
from agentforge.sdk.sync import SyncEngine
from agentforge.views.results import RunInfo, RunResult

Fixtures = Mapping[str, str | Mapping[str, Any]] | str | os.PathLike[str]


class ObservedSession:
    """A run of any engine, for assertions."""

    def __init__(self, project: str | os.PathLike[str], name: str, environ: Mapping[str, str] | None = None):
        self.name = name
        self._runs = Runs(os.path.abspath(project), dict(environ or {}))

    @property
    def run_dir(self) -> Path:
        return Path(self._runs.layout(self.name).root)

    def info(self) -> RunInfo:
        """The status of the run, folded from its whole log."""
        return self._runs.info(self.name, cached=False)

    def events(self) -> Iterator[Event]:
        return self._runs.events(self.name)

    def state_file(self) -> dict[str, Any]:
        """The content of state.json."""
        state: dict[str, Any] = json.loads((self.run_dir / "state.json").read_text(encoding="utf-8"))
        return state


class MockSession(ObservedSession):
    """A separate project in which fixtures replace every provider (`MOCK_MODE=true`)."""

    def __init__(self, project: Path, name: str, fixtures: Path, environ: Mapping[str, str]) -> None:
        self.project = project
        self.fixtures = fixtures
        self.environ = {**environ, "MOCK_MODE": "true", "MOCK_FIXTURES_DIR": str(fixtures)}
        super().__init__(project, name, self.environ)

    def run(self, pipeline: str | Mapping[str, Any] | None = None, **options: Any) -> RunResult:
        """Like `Engine.run`, with this session's name."""
        with SyncEngine(self.project, environ=self.environ) as engine:
            return engine.run(pipeline, session=self.name, **options)

    def resume(self, context: str | None = None, **options: Any) -> RunResult:
        with SyncEngine(self.project, environ=self.environ) as engine:
            return engine.resume(self.name, context, **options)


def mock_session(
    tmp_path: Path,
    fixtures: Fixtures | None = None,
    *,
    name: str = "mock",
    environ: Mapping[str, str] | None = None,
) -> MockSession:
    """An isolated test session in a separate folder under `tmp_path`.

    `fixtures` is a folder, or a mapping from file names (`iteration-1.txt`, `default.txt`, `result-2.json`,
    `result.json`, `status-N.json`, `status.json`, `artifact-STAGE-N.json`, `artifact-STAGE.json`,
    `artifact-N.json`, `artifact.json`) to texts or objects. `artifact-1-attempt-2.json` is for one attempt.
    Nothing of this process's environment reaches the session unless it is given in `environ`.
    """
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    # The proof that a run was started here is stored there, so that the session can be resumed.
    given = {"XDG_STATE_HOME": str(tmp_path / "state"), **(environ or {})}
    return MockSession(project, name, _fixtures_folder(tmp_path, fixtures), given)


def assert_iteration_count(session: ObservedSession, expected: int) -> None:
    """Assert the number of completed iterations, over all stages."""
    completed = [event.cursor for event in session.events() if event.fact.TYPE == "iteration_complete"]
    assert len(completed) == expected, (
        f"session {session.name!r} completed {len(completed)} iterations instead of {expected}: "
        f"{[(cursor.node_path, cursor.iteration) for cursor in completed if cursor]}"
    )


def assert_state_status(session: ObservedSession, status: str) -> None:
    """Assert the status of the run, in its log and in state.json."""
    info = session.info()
    reason = info.state.failure.message if info.state.failure else info.state.pause_reason
    assert info.status == status, (
        f"session {session.name!r} is {info.status} instead of {status}: {reason or 'no reason given'}"
    )
    written = session.state_file()["status"]
    shown = "running" if status == "interrupted" else status
    assert written == shown, f"state.json of session {session.name!r} has {written} instead of {shown}"


def assert_event_sequence(session: ObservedSession, types: Sequence[str | EllipsisType]) -> None:
    """Assert the types of the log's events in order; `...` matches any number of events."""
    emitted = [event.fact.TYPE for event in session.events()]
    assert _matches(emitted, list(types)), (
        f"session {session.name!r} emitted\n  {', '.join(emitted)}\ninstead of\n  "
        + ", ".join("…" if one is ... else one for one in types)
    )


def _matches(emitted: Sequence[str], expected: Sequence[str | EllipsisType]) -> bool:
    """Match like shell wildcards: try the shortest match for each `...` first, and backtrack."""
    at, start = 0, 0
    gap: tuple[int, int] | None = None
    while at < len(emitted):
        if start < len(expected) and expected[start] is ...:
            gap, start = (at, start + 1), start + 1
        elif start < len(expected) and expected[start] == emitted[at]:
            at, start = at + 1, start + 1
        elif gap is not None:
            gap = (gap[0] + 1, gap[1])
            at, start = gap
        else:
            return False
    return all(one is ... for one in expected[start:])


def _fixtures_folder(tmp_path: Path, fixtures: Fixtures | None) -> Path:
    if fixtures is not None and not isinstance(fixtures, Mapping):
        return Path(fixtures).absolute()
    folder = tmp_path / "fixtures"
    folder.mkdir(exist_ok=True)
    for name, content in (fixtures or {}).items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    return folder
