"""However an attempt of the executor ends, nothing that its agent started is left: the built-in loop with a
real program as its agent, outside of any sandbox."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.code_blocks import ROOT
from tests.loop.story import REQUEST
from tests.runtime.agents import LIMITS
from tests.runtime.attempt_run import lives
from tests.sdk.projects import ENVIRON, eventually, run

from agentforge import Engine, RunResult, copy_pipeline
from agentforge.model.status import RunStatus

LONG = 600
# In the executor, it leaves two programs in the background, one of them in a session of its own.
AGENT = f"""
import os, subprocess, sys, time
if "executor" in os.environ["AGENTFORGE_RESULT"]:
    for apart in (False, True):
        left = subprocess.Popen(["sleep", "{LONG}"], start_new_session=apart)
        with open("left", "a") as file:
            file.write(f"{{left.pid}}\\n")
    if how == "failure":
        sys.exit("it fails")
    if how != "success":
        open("working", "w").close()
        time.sleep({LONG})
exec(open("agent.py").read())
"""
SHORTENED = {
    "sandbox: auto": "sandbox: none",
    "max_attempts: 4, initial_delay: 1, multiplier: 2, stage: 2": "max_attempts: 2, initial_delay: 0",
}
ENDS = {
    "success": (RunStatus.COMPLETED, 4),
    "failure": (RunStatus.PAUSED, 2),
    "timeout": (RunStatus.PAUSED, 2),
    "cancellation": (RunStatus.ABORTED, 1),
}
"""How the run ends, and how many attempts the executor has; with success, also at a repair and a new step."""


def prepare(project: Path, how: str) -> None:
    """The project of the example, with a copy of the loop that doesn't wait."""
    for name in ("agent.py", "slugs.py", "pyproject.toml", "tests/__init__.py", "tests/test_title.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text((ROOT / "examples/loop" / name).read_text())
    (project / "leaving.py").write_text(f"how = {how!r}{AGENT}")
    provider = {"program": "python3", "arguments": ["leaving.py"]}
    (project / ".agentforge/providers").mkdir(parents=True)
    (project / ".agentforge/providers/leaving.yaml").write_text(json.dumps(provider))
    copy_pipeline(project, "loop")
    file = project / ".claude/pipelines/loop.yaml"
    text = file.read_text()
    changes = SHORTENED | ({"timeout: 300\n    delay": "timeout: 2\n    delay"} if how == "timeout" else {})
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)


@pytest.mark.requirement("FR-009", "FR-012", "FR-063", "FR-066", "FR-067", "FR-070", "NFR-010")
@pytest.mark.parametrize("how", ENDS)
def test_nothing_that_the_agent_of_a_step_started_is_left(tmp_path: Path, how: str) -> None:
    prepare(tmp_path, how)

    async def main() -> RunResult:
        async with Engine(tmp_path, environ=ENVIRON, limits=LIMITS) as engine:
            options: dict[str, Any] = {"provider": "leaving", "request": REQUEST, "session": "s"}
            running = asyncio.create_task(engine.run("loop", **options))
            if how == "cancellation":
                await eventually((tmp_path / "working").exists)
                await engine.cancel("s")
            return await running

    result = run(main())
    status, attempts = ENDS[how]
    assert result.status is status, result
    left = [int(pid) for pid in (tmp_path / "left").read_text().split()]
    assert len(left) == 2 * attempts
    assert [pid for pid in left if lives(pid)] == []
