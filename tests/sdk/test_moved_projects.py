"""A run continues in a project that was moved after an iteration was prepared: with paths that exist."""

import json
import shutil
from pathlib import Path

from tests.sdk.projects import ENVIRON, engine, node, pipeline, run, run_dir

from agentforge.model.failure import Failure, FailureKind
from agentforge.model.status import RunStatus
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import fails, says


def test_an_iteration_is_where_the_project_is_now(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    once = fails(Failure(FailureKind.AGENT_ERROR, "once"))
    worker = ScriptedProvider([says("of a"), once, says("of b")])
    second = node("second", prompt="${CTX} ${RESULT}", inputs={"from": "first"}, retry={"max_attempts": 1})
    stopped = run(engine(before, worker).run(pipeline(node("first"), second), session="s"))
    assert stopped.status is RunStatus.FAILED
    shutil.move(before, after)
    assert run(engine(after, worker).resume("s")).status is RunStatus.COMPLETED
    asked = worker.calls[-1]
    assert asked.prompt.split() == [asked.context_path, asked.result_path]
    text = Path(asked.context_path).read_text()
    [output] = json.loads(text)["inputs"]["from_stage"]["first"]
    assert Path(output).read_text() == "of a\n"
    log = (run_dir(after) / "events.jsonl").read_text().partition("\n")[2]
    for written in (asked.prompt, text, log):
        assert str(before) not in written


def test_a_run_that_was_moved_is_known_at_its_new_place_only(tmp_path: Path) -> None:
    before, after, home = tmp_path / "before", tmp_path / "after", tmp_path / "home"
    before.mkdir()
    own = {**ENVIRON, "XDG_STATE_HOME": str(home)}
    worker = ScriptedProvider([fails(Failure(FailureKind.AGENT_ERROR, "once")), says("done")])
    run(engine(before, worker, environ=own).run(pipeline(node(retry={"max_attempts": 1})), session="s"))
    shutil.move(before, after)
    assert run(engine(after, worker, environ=own).resume("s")).completed
    kept = [path for path in (home / "agentforge").rglob("*.json") if path.parent.name in ("heads", "runs")]
    assert len(kept) == 2
    assert not any(str(before) in path.read_text() for path in kept)
