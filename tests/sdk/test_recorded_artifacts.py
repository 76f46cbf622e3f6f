"""Recorded artifacts: a replay accepts and rejects the same ones, and works through the same items."""

import json
from pathlib import Path
from typing import Any

from tests.sdk.projects import ENVIRON, node, pipeline, run, run_dir

from agentforge.sdk.engine import Engine
from agentforge.views.results import RunResult

STEPS = '"steps": [{"id": "s2", "after": ["s1"]}, {"id": "s1"}]'
WRITE = """
cat > /dev/null
printf '{"summary": "done"}' > "$AGENTFORGE_RESULT"
id=$(sed -n 's/.*"request_id": "\\(.*\\)".*/\\1/p' "$(dirname "$AGENTFORGE_RESULT")/context.json")
"""
PLAN = f"""{WRITE}
[ -e tried ] && printf '%s' '{{{STEPS}}}' > "$AGENTFORGE_ARTIFACT"
[ -e tried ] || printf '{{"steps": 3}}' > "$AGENTFORGE_ARTIFACT"
touch tried
"""
DO = f"""{WRITE}
set -- '{{"did": "%s", "request_id": "%s", "original_request": "add it"}}' "$MOCK_ITERATION" "$id"
printf "$@" > "$AGENTFORGE_ARTIFACT"
"""


def program(id: str, script: str, **more: Any) -> dict[str, Any]:
    return node(id, provider={"type": "command", "run": script}, **more)


PIPELINE = pipeline(
    program("plan", PLAN, runs=1, artifact={"properties": {"steps": {"type": "array"}}}),
    program("do", DO, termination={"type": "items", "from": "plan.steps"}, artifact={"type": "object"}),
    request="required",
)


def facts(project: Path, session: str, kind: str) -> list[Any]:
    lines = (run_dir(project, session) / "events.jsonl").read_bytes().splitlines()
    return [event["data"] for event in map(json.loads, lines) if event["type"] == kind]


def test_replay_accepts_artifacts_that_have_the_keys_of_the_recorded_run(tmp_path: Path) -> None:
    async def main() -> list[RunResult]:
        async with Engine(tmp_path, environ=ENVIRON) as engine:
            first = await engine.run(PIPELINE, session="s", request="add it", record=True)
            (tmp_path / "tried").unlink()
            return [first, await engine.replay("s", session="again")]

    first, again = run(main())
    assert first.completed, first.reason
    assert again.completed, again.reason
    recorded, replayed = (facts(tmp_path, name, "iteration_complete") for name in ("s", "again"))
    (own,) = {fact["artifact"]["value"]["request_id"] for fact in recorded[1:]}
    assert own.startswith("REQ-")
    assert own not in (run_dir(tmp_path) / "cassette.jsonl").read_text()
    for then, now in zip(recorded, replayed, strict=True):
        kept = {key: then["artifact"]["value"].get(key) for key in ("did", "steps")}
        assert {key: now["artifact"]["value"].get(key) for key in ("did", "steps")} == kept
        assert now["artifact"].get("item") == then["artifact"].get("item")
    (planned,), (again_planned,) = (facts(tmp_path, name, "items_planned") for name in ("s", "again"))
    assert again_planned["items"] == planned["items"]
    assert [len(facts(tmp_path, name, "error")) for name in ("s", "again")] == [1, 1], "one is healed"
