"""The built-in loop with real agents, by the command line: from a question to the limit of cycles."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agents.clis import write
from tests.agents.loop_story import (
    ANSWER,
    FILES,
    LEDGER,
    REQUEST,
    STEPS_DONE,
    VISITS,
    WRITTEN,
    Finish,
    finish_with_a_call,
    finish_with_files,
    finish_with_the_tool_of_claude,
    script,
)
from tests.agents.trial import Trial

from agentforge.testing.model_server import ModelServer
from agentforge.testing.provider_contract import MARK

SECONDS = 600.0


class Loop:
    """The project of the story, and the command line in it."""

    def __init__(self, project: Path, environ: dict[str, str]) -> None:
        self.project = project
        self._environ = {**environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
        for name, text in FILES.items():
            write(project / name, text)

    def call(self, *words: str) -> int:
        """The exit status."""
        done = subprocess.run(
            [sys.executable, "-m", "agentforge", *words],
            cwd=self.project,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        self.said = done.stdout
        return done.returncode

    def facts(self, kind: str) -> list[dict]:
        log = self.project / ".claude/pipeline-runs/s/events.jsonl"
        events = map(json.loads, log.read_text().splitlines())
        return [{**event["data"], "at": event["cursor"]} for event in events if event["type"] == kind]

    def tell(self, *given: str) -> None:
        """The story from its beginning to its end."""
        assert self.call("run", REQUEST, "-s", "s", *given) == 22, self.said
        (request,) = self.facts("request_opened")
        assert "Which sign" in request["question"]
        assert self.call("answer", "s", ANSWER) == 21, self.said
        assert "cycle 3 of 3" in self.facts("request_opened")[-1]["question"]
        assert self.call("answer", "s", "1") == 0, self.said
        self._verify()

    def _verify(self) -> None:
        assert (self.project / LEDGER).read_text().split() == STEPS_DONE
        for name, text in dict(WRITTEN.values()).items():
            assert (self.project / name).read_text() == text
        assert [error["type"] for error in self.facts("error")] == ["artifact_invalid"]
        first, _, again, *_ = self.facts("items_planned")
        assert first["added"] == ["s1", "s2", "s3", "s4"]
        kept = [item["id"] for item in again["items"] if item.get("status") == "done"]
        assert (kept, again["changed"], again["added"]) == (["s1", "s2"], ["s3"], ["s5"])
        back = [(fact["from"], fact["to"]) for fact in self.facts("stage_transition")]
        assert back == [("verifier", "executor"), *[("reviewer", "planner")] * 3]
        names = ("planner", "executor", "verifier", "reviewer")
        visits = [names[int(fact["at"]["node_path"])] for fact in self.facts("node_start")]
        assert visits == VISITS


FINISH: dict[str, Finish] = {"claude": finish_with_the_tool_of_claude}


@pytest.mark.requirement(
    "FR-002", "FR-024", "FR-025", "FR-028", "FR-032", "FR-038", "FR-041", "FR-069", "NFR-015"
)
@pytest.mark.agents
@pytest.mark.timeout(SECONDS)
def test_agent_tells_the_story_of_the_loop(trial: Trial) -> None:
    name = trial.cli.name
    loop = Loop(trial.project, trial.environ(script(FINISH.get(name, finish_with_files))))
    marked = f"env.{MARK}={trial.name}"
    loop.tell("--provider", name, "--model", trial.cli.model, "--provider-config", marked)


@pytest.mark.requirement(
    "FR-002", "FR-024", "FR-025", "FR-028", "FR-032", "FR-038", "FR-041", "FR-069", "NFR-015"
)
@pytest.mark.soak
@pytest.mark.timeout(SECONDS)
def test_directly_called_model_tells_the_story_of_the_loop(server: ModelServer, tmp_path: Path) -> None:
    url = server.url(script(finish_with_a_call), "loop")
    config = (f"base_url={url}", "api_key_env=MY_KEY", "allow=[sh]")
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "MY_KEY": "of-nobody",
    }
    (tmp_path / "project").mkdir()
    given = ("--provider", "api", "--model", "anthropic:claude-sonnet-5-5")
    Loop(tmp_path / "project", environ).tell(
        *given, *(word for one in config for word in ("--provider-config", one))
    )
