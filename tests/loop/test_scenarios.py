"""What a user sees of the loop: the steps that a reader of its documentation verifies by hand, with real
processes. An agent that plays a story stands for the real one."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.surface.terminal import Done, Project, wait_for

FINE = {"level": "good", "explanation": "fine"}
DIMENSIONS = ("intent_alignment", "code_quality", "completeness", "consistency", "safety")
AGENT = """
import json, os, sys, time
from pathlib import Path

prompt = sys.stdin.read()
result = Path(os.environ["AGENTFORGE_RESULT"])
context = json.loads(result.with_name("context.json").read_text())
stage = context["stage"]["id"]
story = json.loads(Path(".story/story.json").read_text()).get(stage, [{}])
count = Path(f".story/{stage}")
calls = len(count.read_text()) if count.exists() else 0
count.write_text("." * (calls + 1))
act = story[min(calls, len(story) - 1)]
time.sleep(act.get("seconds", 0))
if act.get("crash"):
    sys.exit("the disk is full")
usual = json.loads(Path(".story/usual.json").read_text())[stage]
Path(os.environ["AGENTFORGE_ARTIFACT"]).write_text(json.dumps(act.get("artifact", usual)))
print(act.get("says", "done"))
result.write_text(json.dumps({"summary": "done"}))
"""


def plan(*ids: str) -> dict[str, Any]:
    steps = [{"id": id, "title": f"Do {id}", "action": "Do it.", "criteria": ["It is done."]} for id in ids]
    return {"goal": "it works", "steps": steps}


def review(verdict: str = "pass") -> dict[str, Any]:
    dimensions = {**dict.fromkeys(DIMENSIONS, FINE)}
    found = {"verdict": verdict, "summary": "looked at it", "tried": ["an empty text"]}
    if verdict == "reject":
        dimensions["completeness"] = {"level": "poor", "explanation": "no edge cases"}
        found["reason"] = "edge cases are missing"
    return {**found, "dimensions": dimensions}


STEP = {"verdict": "pass", "summary": "did it"}
PASSED = {"verdict": "pass", "checks": [{"name": "all", "status": "pass"}]}
WRONG = {"name": "all", "status": "fail", "reason": "it is wrong", "suggestion": "do it right"}
FAILED = {"verdict": "fail", "reason": "it is wrong", "items": ["s1"], "checks": [WRONG]}
USUAL = {"planner": plan("s1", "s2"), "executor": STEP, "verifier": PASSED, "reviewer": review()}


class Loop(Project):
    """A repository in which an agent plays a story."""

    def tell(self, **acts: list[dict[str, Any]]) -> None:
        """What each stage does, call by call; the last act is repeated."""
        (self.root / ".story/story.json").write_text(json.dumps(acts))

    def change(self, before: str, after: str) -> None:
        """Something in a copy of the loop."""
        copy = self.root / ".claude/pipelines/loop.yaml"
        if not copy.exists():
            assert self.call("init", "--from", "loop").code == 0
        assert before in copy.read_text()
        copy.write_text(copy.read_text().replace(before, after))

    def do(self, *arguments: str) -> Done:
        return self.call("run", "Make it work", "--provider", "actor", "-s", "s", *arguments)

    @property
    def visits(self) -> list[str]:
        return [event["data"]["name"] for event in self.events("s") if event["type"] == "node_start"]

    @property
    def steps(self) -> list[str]:
        started = (event["data"] for event in self.events("s") if event["type"] == "iteration_start")
        return [data["item"] for data in started if data.get("item")]


@pytest.fixture
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    """On the disk, as the agents of the loop are confined."""
    project = Loop(tmp_path_factory.mktemp("loop"))
    for name in (".story", ".agentforge/providers"):
        (project.root / name).mkdir(parents=True)
    (project.root / ".story/agent.py").write_text(AGENT)
    (project.root / ".story/usual.json").write_text(json.dumps(USUAL))
    (project.root / ".gitignore").write_text(".story\n")
    described = f"program: {sys.executable}\narguments: [-I, -S, .story/agent.py]\n"
    (project.root / ".agentforge/providers/actor.yaml").write_text(described)
    subprocess.run(["git", "init", "-q"], cwd=project.root, env=project.env, check=True)
    project.tell()
    yield project
    project.end_agents()


@pytest.mark.requirement("FR-002", "FR-003", "FR-005", "FR-072", "FR-074")
def test_scenario_1_full_pipeline(loop: Loop) -> None:
    done = loop.do()
    assert done.code == 0, done
    assert loop.visits == ["planner", "executor", "verifier", "reviewer"]
    at = -1
    for stage in loop.visits:
        start = done.out.index(f"{stage} started", at + 1)
        at = done.out.index(f"{stage} is done", start)


@pytest.mark.requirement("FR-024", "FR-027", "FR-028", "FR-075")
def test_scenario_2_verification_failure(loop: Loop) -> None:
    loop.tell(verifier=[{"artifact": FAILED}])
    done = loop.do()
    assert (done.code, loop.visits.count("verifier")) == (21, 3), done
    assert "verifier goes back to executor (cycle 2 of 3): it is wrong" in done.out
    assert loop.steps == ["s1", "s2", "s1", "s1"]


@pytest.mark.requirement("FR-025", "FR-075")
def test_scenario_3_review_rejection(loop: Loop) -> None:
    plans = [{"artifact": plan("s1", "s2")}, {"artifact": plan("s1", "s2", "s3")}]
    loop.tell(planner=plans, reviewer=[{"artifact": review("reject")}, {}])
    done = loop.do()
    assert done.code == 0, done
    assert "reviewer goes back to planner (cycle 2 of 3): edge cases are missing" in done.out
    assert loop.steps == ["s1", "s2", "s3"]


@pytest.mark.requirement("FR-035", "FR-036", "FR-037", "FR-038", "FR-039", "FR-058", "FR-060", "FR-062")
def test_scenario_4_escalation(loop: Loop) -> None:
    loop.change("initial_delay: 1", "initial_delay: 0")
    loop.tell(executor=[{"crash": True}])
    done = loop.do()
    assert done.code == 22, done
    assert loop.types("s").count("attempt_start") == 1 + 6  # The planner, and one step.
    assert "Paused" in done.out
    loop.tell()
    assert loop.call("resume", "s").code == 0
    assert loop.visits == ["planner", "executor", "verifier", "reviewer"]


@pytest.mark.requirement("FR-056", "FR-068", "FR-069", "NFR-005", "NFR-006")
def test_scenario_5_resume_mid_stage(loop: Loop) -> None:
    loop.tell(executor=[{}, {"seconds": 1.5}])
    with loop.started("run", "Make it work", "--provider", "actor", "-s", "s") as engine:
        wait_for(lambda: loop.steps == ["s1", "s2"], "the second step")
        engine.signal(signal.SIGINT)
        paused = engine.end()
    assert paused.code == 130, paused
    resumed = loop.call("resume", "s")
    assert resumed.code == 0, resumed
    unused = "check 'test' of stage 'verifier' is not run: there is no command of that name"
    assert unused in paused.err
    assert unused not in resumed.err
    assert "planner started" not in resumed.out
    assert loop.visits == ["planner", "executor", "verifier", "reviewer"]
    assert loop.steps == ["s1", "s2"]


@pytest.mark.requirement("FR-063", "FR-065", "FR-066", "FR-067")
def test_scenario_6_timeout(loop: Loop) -> None:
    loop.change("initial_delay: 1", "initial_delay: 0")
    loop.change("max_attempts: 4", "max_attempts: 2")
    loop.change("stage: 2", "stage: 0")
    loop.change("timeout: 300\n    delay", "timeout: 1\n    delay")
    loop.tell(executor=[{"seconds": 60}])
    done = loop.do()
    assert done.code == 20, done
    assert loop.types("s").count("attempt_start") == 1 + 2
    assert not [pid for pid in Path("/proc").glob("[0-9]*") if _works_in(pid, loop.root)]
    loop.tell()
    assert loop.call("resume", "s").code == 0


def _works_in(process: Path, folder: Path) -> bool:
    try:
        return ".story/agent.py" in (process / "cmdline").read_text() and folder.samefile(process / "cwd")
    except OSError:
        return False


@pytest.mark.requirement("FR-057", "FR-073", "FR-076", "NFR-008")
def test_scenario_7_progress_tracking(loop: Loop) -> None:
    loop.tell(planner=[{"artifact": plan("s1", "s2", "s3")}], executor=[{}, {"seconds": 2}, {}])
    with loop.started("run", "Make it work", "--provider", "actor", "-s", "s") as engine:
        wait_for(lambda: loop.steps == ["s1", "s2"], "the second step")
        assert "Step: 2 of 3" in loop.call("status", "s").out
        done = engine.end()
    assert done.code == 0, done
    for number in (1, 2, 3):
        assert f"executor {number}/3 started: item s{number}" in done.out


@pytest.mark.requirement("FR-046", "FR-047", "FR-048")
def test_scenario_8_token_budgets(loop: Loop) -> None:
    loop.change("total: 100000", "total: 15000")
    again = [{"artifact": plan("s1"), "says": "x" * 40_000}, {"artifact": plan("s1", "s2")}]
    loop.tell(planner=again, reviewer=[{"artifact": review("reject")}, {}])
    done = loop.do()
    assert done.code == 0, done
    shown = loop.call("show", "s", "planner", "--context", "--json").json
    assert "output of planner" in json.dumps(shown)
    used = [event["data"].get("context") for event in loop.events("s") if event["type"] == "iteration_start"]
    assert [context["budget"] for context in used][:2] == [5400, 4050]
    assert all(context["tokens"] <= context["budget"] for context in used)
    assert any(context.get("omitted") for context in used)


def test_run_without_commands_says_that_only_an_agent_verified_it(loop: Loop) -> None:
    done = loop.do()
    first = "Only an agent verifies the work: no check of stage verifier can be used"
    assert first in " ".join(done.out.partition("Pipeline:")[0].split())
    assert done.lines[-1] == "  Only an agent verified the work: no check of stage verifier could be used"
    (loop.root / "Makefile").write_text("test:\n\ttrue\n")
    checked = loop.call("run", "Make it work", "--provider", "actor", "-s", "checked")
    assert checked.code == 0, checked
    assert "nly an agent" not in checked.out + checked.err
