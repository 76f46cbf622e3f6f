"""A pipeline with the stages of the loop, whose agents are lines of shell."""

import json
from typing import Any

from tests.surface.json_agents import stage, write_pipeline
from tests.surface.terminal import Done, Project

STAGES = ("planner", "executor", "verifier", "reviewer")


def says(verdict: str, reason: str = "") -> str:
    """A line of shell that leaves a result with the verdict."""
    result = json.dumps({"summary": "did it", "verdict": verdict, "reason": reason})
    return f"printf '%s' '{result}' > \"$MOCK_RESULT_FILE\""


def first_then(first: str, then: str) -> str:
    """A line of shell that does one thing when it is run for the first time in the project, later another."""
    return f"if mkdir once 2>/dev/null; then {first}; else {then}; fi"


def loop(project: Project, shells: dict[str, str] | None = None, **more: Any) -> str:
    """`shells`: what the agents of these stages do; `more`: keys of all stages."""
    on = {
        "verifier": {"fail": "executor", "reject": "executor"},
        "reviewer": {"fail": "planner", "reject": "planner"},
    }
    nodes = [
        stage(id, (shells or {}).get(id, says("pass")), **({"on": on[id]} if id in on else {}), **more)
        for id in STAGES
    ]
    return write_pipeline(project, "loop", *nodes, limits={"cycles": 3})


def logged(done: Done) -> list[dict[str, Any]]:
    """The JSON records on stderr."""
    return [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]


def transitions(done: Done) -> list[dict[str, Any]]:
    return [record for record in logged(done) if record.get("event") == "stage_transition"]
