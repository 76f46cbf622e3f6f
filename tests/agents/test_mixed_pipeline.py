"""One pipeline, three kinds of agents: Claude Code, Codex and a model that is called directly, one after the
other, side by side in a block, and one in the place of another."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.agents.clis import CLIS, KEY, PROGRAMS, programs
from tests.agents.trial import PATIENCE, Trial, bounded

from agentforge import Engine
from agentforge.testing.model_server import Call, Fault, ModelServer, Rule, Script, Turn, Write
from agentforge.testing.provider_contract import MARK
from agentforge.views.results import RunResult

pytestmark = pytest.mark.agents
BRANCHES = ("claude", "codex", "direct")


def turns(file: str, summary: str) -> tuple[Turn, ...]:
    """Of an agent that has its own tools."""
    return (
        Turn("I write.", (Write(file, f"{summary}\n"),)),
        Turn("The result.", (Write("{result}", json.dumps({"summary": summary, "decision": "stop"})),)),
        Turn(f"Done: {summary}."),
    )


def called(file: str, summary: str) -> tuple[Turn, ...]:
    """Of a model that is called directly, which says itself that it is done."""
    done = Call("complete", {"summary": summary, "decision": "stop"})
    return (Turn("I write.", (Write(file, f"{summary}\n"),)), Turn("Done.", (done,)))


class Mixed(Trial):
    """The trial of all three: each has a run of the server to itself."""

    def script(self, who: str) -> Script:
        work = called if who == "direct" else turns
        rules = tuple(
            Rule(f"TASK {task}", work(f"{task}-{who}.md", f"{task} by {who}"))
            for task in ("plan", "draft", "merge")
        )
        return Script(rules=rules)

    def url(self, who: str, script: Script | None = None) -> str:
        return self.server.url(script or self.script(who), f"{self.name}-{who}")

    def direct(self) -> dict[str, Any]:
        return {
            "type": "api",
            "model": "openai:local-model",
            "base_url": f"{self.url('direct')}/v1",
            "api_key_env": "DIRECT_API_KEY",
        }

    def mixed_pipeline(self) -> dict[str, Any]:
        marked = {"env": {MARK: self.name}}
        claude = {"type": "claude", "model": CLIS["claude"].model, **marked}
        codex = {"type": "codex", "model": CLIS["codex"].model, **marked}
        elsewhere = {"env": {MARK: self.name, "CODEX_HOME": str(self.home / "limited" / ".codex")}}
        write = "Write your file, then your result to ${RESULT}. TASK"
        return {
            "name": "mixed",
            "defaults": {"delay": 0, "timeout": PATIENCE},
            "nodes": [
                {"id": "plan", "prompt": f"{write} plan", "provider": claude},
                {
                    "id": "duel",
                    "parallel": {
                        "providers": [
                            {"name": "claude", **claude},
                            {"name": "codex", **codex},
                            {"name": "direct", **self.direct()},
                        ],
                        "stages": [{"id": "draft", "prompt": f"{write} draft", "inputs": {"from": "plan"}}],
                    },
                },
                {
                    "id": "merge",
                    "prompt": f"{write} merge",
                    "provider": [{**codex, **elsewhere}, self.direct()],
                    "inputs": {"from_parallel": "draft"},
                },
            ],
        }

    def play(self) -> RunResult:
        environ = {
            **self.environ(Script()),
            **CLIS["claude"].configure(self.home, self.url("claude")),
            **CLIS["codex"].configure(self.home, self.url("codex")),
            "DIRECT_API_KEY": KEY,
        }
        limited = Script(faults=(Fault(429),))
        CLIS["codex"].configure(self.home / "limited", self.url("limited", limited))

        async def main() -> RunResult:
            async with Engine(self.project, environ=environ) as engine:
                return await engine.run(self.mixed_pipeline(), session="s")

        return bounded(main())


@pytest.fixture(scope="module")
def mixed(server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    """The pipeline, run once to its end."""
    for name in ("claude", "codex"):
        if not os.access(programs() / name, os.X_OK):
            pytest.skip(f"agent: no {name} in {programs()} ({PROGRAMS}=DIR: elsewhere)")
    made = Mixed(CLIS["claude"], server, tmp_path_factory.mktemp("mixed"))
    known = len(server.strays())
    result = made.play()
    left = made.end_all()
    assert result.completed, result.error
    assert left == [], f"still running: {left}"
    assert not server.strays()[known:]
    return made


def test_claude_codex_and_a_direct_model_work_in_one_pipeline(mixed: Mixed) -> None:
    written = {path.name: path.read_text().strip() for path in mixed.project.glob("*-*.md")}
    expected = {"plan": ["claude"], "draft": BRANCHES, "merge": ["direct"]}
    assert written == {f"{task}-{who}.md": f"{task} by {who}" for task in expected for who in expected[task]}

    done = mixed.facts("iteration_complete")
    assert sorted(fact["result"]["summary"] for fact in done) == sorted(written.values())
    assert all(fact["usage"]["agent_session"] and fact["usage"]["input_tokens"] for fact in done)

    manifest = json.loads((mixed.run_dir / "parallel-01-duel" / "manifest.json").read_text())
    assert set(manifest["providers"]) == set(BRANCHES)


def test_a_limit_in_the_mixed_pipeline_hands_the_merge_to_the_direct_model(mixed: Mixed) -> None:
    changed = mixed.only("provider_changed")
    assert (changed["provider"], changed["to"]) == ("codex", "api")
    assert "429" in changed["message"]
    merge = [fact for fact in mixed.facts("attempt_start") if fact["provider"] == "api"]
    assert [fact.get("choice", 0) for fact in merge] == [0, 1], "of the block, and in the place of codex"


def test_texts_of_the_drafts_reach_the_merge(mixed: Mixed) -> None:
    context = mixed.run_dir / "stage-02-merge" / "iterations" / "001" / "context.json"
    drafts = json.loads(context.read_text())["inputs"]["from_parallel"]["providers"]
    assert set(drafts) == set(BRANCHES)
    assert "Done: draft by codex." in Path(drafts["codex"]["output"]).read_text()
