"""docs/json-output.md: the keys of commands that show what a run did."""

import json
import subprocess
from typing import Any

from tests.surface.json_agents import block, describe_provider, stage, write_pipeline
from tests.surface.json_calls import Calls, Examples
from tests.surface.terminal import WRITE_RESULT, Project
from tests.webhook_server import serving

from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice

QUESTIONS = [
    {"id": "db", "question": "Which?", "options": ["a", "b"], "default": "a", "blocking": False},
    {"id": "name", "question": "What name?"},
]
AGAIN = {"name": "twice", "run": "[ $(wc -l < count) -ge 2 ]"}
STYLE = {"name": "style", "run": "false"}
ARTIFACT = 'echo \'{"steps": [{"id": "s1"}]}\' > "$AGENTFORGE_ARTIFACT"'
LONG_OUTPUT = "head -c 8000 /dev/zero | tr '\\0' x"
HOOKS = {"stage_end": [{"id": "note", "stage": "build", "action": "script", "script": "echo ok"}]}
OTHER = "other.yaml"
EXAMPLES: Examples = {
    ("tail", "event"): ["tail", "work", "500", "--no-follow"],
    ("tail", "output line"): ["tail", "work", "500", "--no-follow", "--output"],
    ("logs", "event"): ["logs", "work", "500", "--no-follow"],
    ("logs", "output line"): ["logs", "work", "500", "--no-follow"],
    ("show", "iterations"): ["show", "work"],
    ("show SESSION STAGE", "shown iteration"): ["show", "work", "build", "--diff"],
    ("diff", "difference"): ["diff", "work"],
    ("show --checks", "checks"): ["show", "work", "--checks"],
    ("show --history", "history"): ["show", "work", "--history"],
    ("show --hooks", "hook deliveries"): ["show", "work", "--hooks"],
    ("show --artifacts", "artifacts"): ["show", "work", "do", "--artifacts", "-o", "artifact.json"],
    ("show --items", "items"): ["show", "work", "--items"],
    ("show --metrics", "metrics"): ["show", "work", "--metrics"],
    ("show --spans", "spans"): ["show", "work", "--spans"],
    ("show --timeline", "timeline"): ["show", "work", "--timeline", "--svg", "work.svg"],
    ("show --evidence", "evidence"): ["show", "work", "--evidence"],
    ("log verify", "log report"): ["log", "verify", "work"],
    ("log spans", "log spans"): ["log", "spans", "work"],
    ("replay --check", "course comparison"): ["replay", "work", "--check", "-p", OTHER],
}
SHOWN = (
    *("event", "output line", "cursor", "iterations", "shown iteration", "iteration", "result"),
    *("agent question", "changed file", "difference", "checks", "history", "hook deliveries", "delivery"),
    *(
        "artifact",
        "context use",
        "omitted part",
        "artifacts",
        "items",
        "metrics",
        "amounts",
        "spans",
        "timeline",
        "evidence",
        "seen check",
        "log spans",
        "log report",
        "damage",
        "course comparison",
        "course step",
    ),
)


CAPPED = {"limits": {"cost_usd": 9}, "max_iteration_cost_usd": 0.1}


def test_keys_of_what_a_run_did_are_those_of_the_page(project: Project) -> None:
    subprocess.run(["git", "init", "-q", str(project.root)], check=True, env=project.env)
    describe_provider(project, "mine", f"{WRITE_RESULT}; echo '{{\"stop\": true}}'")
    sandbox = {"sandbox": "bwrap"} if has_bwrap() else {}
    nodes = [
        stage("build", f"echo x >> count; {LONG_OUTPUT}; {ARTIFACT}; {leaves(verdict='pass')}", **routes()),
        stage("refine", termination={"type": "judgment", "max": 1}),
        stage("do", f"{ARTIFACT}; {WRITE_RESULT}", **over_items(), **CAPPED),
        block("both", "mine"),
        stage("ask", "git init -q sub; " + leaves(decision="ask", questions=QUESTIONS), **sandbox),
    ]
    del nodes[1]["runs"], nodes[2]["runs"]
    file = write_pipeline(project, "work", *nodes, hooks=HOOKS)
    skipped = ("--skip-check=style", "--reason=slow")
    calls, environment = Calls(project), {"JUDGE_PROVIDER": "mine"}
    done = project.call("run", "-p", file, "-s", "work", *skipped, "--json", env=environment)
    assert done.code == 22, done.err
    calls.compare("run", "run result", done)
    write_pipeline(project, "other", nodes[0], stage("ship"), hooks=HOOKS)
    with (project.run_dir("work") / "events.jsonl").open("a") as log:
        log.write("damaged\ntorn")
    with serving() as server:
        project.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = server.url
        calls.call_all(EXAMPLES)
    calls.call("show SESSION STAGE", "shown iteration", ["show", "work", "do", "--context"])
    assert [found for found in calls.problems(SHOWN) if sandbox or "git_left" not in found] == []


def has_bwrap() -> bool:
    try:
        BwrapSandbox().probe(SandboxChoice(type="bwrap"))
    except ProviderUnusable:
        return False
    return True


def routes() -> dict[str, Any]:
    """The stage is visited twice, and leaves artifacts."""
    return {
        "checks": [AGAIN, STYLE, {"name": "red", "run": "false", "expect": "fail"}],
        "on": {"fail": "build"},
        "artifact": {"schema": {"type": "object"}, "version": "1.2"},
        "context_strategy": "summary",
    }


def over_items() -> dict[str, Any]:
    """What it is told of the earlier output does not fit into its budget."""
    return {
        "termination": {"type": "items", "from": "build.steps"},
        "artifact": {"schema": {"type": "object"}, "version": "1.2"},
        "context_strategy": "full",
        "tokens": 1000,
    }


def leaves(**result: Any) -> str:
    """A line of shell that leaves a result."""
    return f"printf '%s' '{json.dumps({'summary': 'did it', **result})}' > \"$MOCK_RESULT_FILE\""
