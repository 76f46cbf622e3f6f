"""A run continues in a project that was moved after an iteration was prepared: with paths that exist."""

import json
import shutil
from pathlib import Path

from tests.sdk.projects import engine, node, pipeline, run, run_dir

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
