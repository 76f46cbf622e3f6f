"""`agentforge design`, and the commands that take the id of its run."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.design.story import ARTIFACTS, QUESTION
from tests.surface.terminal import Done, Project

AGENT = """
import json, os, sys
from pathlib import Path

sys.stdin.read()
result = Path(os.environ["AGENTFORGE_RESULT"])
stage = json.loads(result.with_name("context.json").read_text())["stage"]["id"]
story = json.loads(Path(".story/story.json").read_text())
act = (story.get(stage) or [{}]).pop(0)
Path(".story/story.json").write_text(json.dumps(story))
usual = json.loads(Path(".story/usual.json").read_text())[stage]
Path(os.environ["AGENTFORGE_ARTIFACT"]).write_text(json.dumps({**usual, **act.get("artifact", {})}))
result.write_text(json.dumps(act.get("result", {"summary": f"{stage} done"})))
"""
UNCLEAR = {"artifact": {"verdict": "pass", "initial_questions": [QUESTION]}}
ASKS = {"result": {"decision": "ask", "questions": [{"question": "Which provider?"}]}}


class Actor(Project):
    """A project in which an agent plays a story."""

    def tell(self, **acts: list[dict[str, Any]]) -> None:
        (self.root / ".story/story.json").write_text(json.dumps(acts))

    def design(self, *arguments: str) -> tuple[Done, str]:
        """The end of the command, and the id of the run."""
        done = self.call("design", "Add OAuth2", "--provider", "actor", *arguments)
        found = re.search(r"^Pipeline ID: (PL-\d{14}-[0-9a-f]{8})$", done.out, re.MULTILINE)
        assert found, done
        return done, found[1]

    def visits(self, session: str) -> list[str]:
        return [event["data"]["name"] for event in self.events(session) if event["type"] == "node_start"]


@pytest.fixture
def actor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actor]:
    """On the disk, as the agents are confined."""
    project = Actor(tmp_path_factory.mktemp("design"))
    for name in (".story", ".agentforge/providers"):
        (project.root / name).mkdir(parents=True)
    (project.root / ".story/agent.py").write_text(AGENT)
    (project.root / ".story/usual.json").write_text(json.dumps(ARTIFACTS))
    described = "program: python3\narguments: [.story/agent.py]\n"
    (project.root / ".agentforge/providers/actor.yaml").write_text(described)
    project.tell()
    yield project
    project.end_agents()


def test_every_stage_is_approved_until_the_design_is_complete(actor: Actor) -> None:
    done, id = actor.design()
    assert done.code == 0, done
    assert done.lines[0] == "Starting pipeline for: Add OAuth2"
    for _ in range(2):
        assert "Awaiting approval" in done.out
        assert "Design complete!" not in done.out
        done = actor.call("approve", id)
    done = actor.call("approve", id)
    assert done.code == 0, done
    first, spec, stages, duration = done.lines[-4:]
    assert first == "Design complete!"
    named = re.fullmatch(r"  Specification: (SPEC-\d{8}T\d{6}Z-[0-9a-f]{8}) \((.*)\)", spec)
    assert named, done
    assert f"spec_id: {named[1]}\n" in (actor.root / named[2]).read_text()
    assert stages == "  Stages completed: intake, analyze, spec"
    assert duration.startswith("  Duration: ")
    assert spec.split()[1] in actor.call("show", id, "spec", "--artifacts").out


def test_a_design_may_end_after_an_earlier_stage(actor: Actor) -> None:
    done, id = actor.design("--yes", "--exit-after", "intake", "--iterate")
    assert done.code == 0, done
    assert (done.lines[-3], actor.visits(id)) == ("Pipeline completed successfully!", ["intake"])
    refused = actor.call("design", "Add OAuth2", "--exit-after", "plan")
    assert refused.code == 2
    assert "has no stage `plan` to end after" in refused.err


def test_a_question_is_answered_and_a_result_rejected_with_the_feedback_of_a_resume(actor: Actor) -> None:
    actor.tell(intake=[UNCLEAR], clarify=[ASKS])
    _, id = actor.design()
    done = actor.call("approve", id)
    assert done.code == 22, done
    assert actor.call("resume", id, "-f", "GitHub", "--recompile").code == 2
    assert actor.call("resume", id, "-f", " ").code == 2
    done = actor.call("resume", id, "-f", "GitHub")
    assert done.code == 0, done
    done = actor.call("resume", id, "--feedback", "Say more")
    assert done.code == 0, done
    assert actor.visits(id) == ["intake", "clarify", "clarify"]
    answered = [event["data"] for event in actor.events(id) if event["type"] == "request_answered"]
    assert [(one["answer"], one.get("text", "")) for one in answered] == [
        ("approve", ""),
        ("GitHub", ""),
        ("reject", "Say more"),
    ]


def test_feedback_for_a_run_that_asks_nothing_is_context(actor: Actor) -> None:
    actor.tell(intake=[{"result": {"decision": "error", "reason": "no network"}}])
    done, id = actor.design("--yes")
    assert done.code == 1, done
    done = actor.call("resume", id, "-f", "Use the cache", "--yes")
    assert done.code == 0, done
    (told,) = [event["data"] for event in actor.events(id) if event["type"] == "session_resumed"]
    assert told["context"] == "Use the cache"


def test_runs_are_listed_by_status(actor: Actor) -> None:
    assert actor.call("pipelines", "-s", "all").lines == ["No pipelines found."]
    _, waiting = actor.design()
    _, complete = actor.design("--yes")
    assert actor.call("abort", actor.design()[1]).code == 0
    head, one = actor.call("pipelines", "-s", "paused").lines
    assert head.split() == ["ID", "TYPE", "STATUS", "STAGE", "CREATED"]
    assert one.split()[:5] == [waiting, "design", "awaiting", "approval", "intake"]
    (listed,) = actor.call("pipelines", "-s", "completed", "--json").json
    assert listed["session"] == complete
    assert len(actor.call("pipelines", "-n", "2").lines) == 3
    assert actor.call("pipelines", "-s", "running").lines == ["No pipelines found."]


def test_status_shows_the_request_times_and_usage(actor: Actor) -> None:
    _, id = actor.design()
    shown = actor.call("status", id, "-v").out
    assert re.findall(r"^(Request|Tokens Used|Cost): +(.*)$", shown, re.MULTILINE) == [
        ("Request", "Add OAuth2"),
        ("Tokens Used", "0"),
        ("Cost", "unknown"),
    ]
    assert re.findall(r"^(Created|Updated): +\d{4}-", shown, re.MULTILINE) == ["Created", "Updated"]
    assert "Tokens Used" not in actor.call("status", id).out
