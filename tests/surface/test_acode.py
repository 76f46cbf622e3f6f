"""The program `acode`: what a person sees of the loop, with agents that play a script."""

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.surface.terminal import Done, Project, wait_for

AGENT = """\
import json, os, pathlib, re, time
artifact = pathlib.Path(os.environ["AGENTFORGE_ARTIFACT"])
stage = re.search(r"stage-\\d+-(\\w+)", str(artifact))[1]
here = pathlib.Path(__file__).parent
calls = here / (stage + ".calls")
number = len(calls.read_text()) if calls.exists() else 0
calls.write_text("x" * (number + 1))
turns = json.loads((here / "script.json").read_text())[stage]
turn = turns[min(number, len(turns) - 1)]
while turn == "wait" and not (here / "go").exists():
    time.sleep(0.02)
failed = isinstance(turn, str)
result = {"decision": "error", "reason": turn} if failed else {"summary": "did it"}
pathlib.Path(os.environ["AGENTFORGE_RESULT"]).write_text(json.dumps(result))
if not failed:
    artifact.write_text(json.dumps(turn))
if stage == "executor" and (here / "long.txt").exists():
    pathlib.Path("long.txt").write_text((here / "long.txt").read_text())
"""
TITLES = ["Analyze existing validation code", "Create email validator class", "Integrate with form handler"]
DONE = {"verdict": "pass", "summary": "did it"}
VERIFIED = {"verdict": "pass", "checks": [{"name": "the steps", "status": "pass"}]}
TEST = "test $(wc -c < {calls}) -ge 3 && exit; echo 'email format not validated'; exit 1"
"""Passes after three steps."""


def work_plan(*titles: str) -> dict[str, Any]:
    steps = [
        {"id": f"s{number}", "title": title, "action": "do it", "criteria": ["it works"]}
        for number, title in enumerate(titles, 1)
    ]
    return {"goal": "emails are validated", "steps": steps}


def review(issue: str = "") -> dict[str, Any]:
    names = ("intent_alignment", "code_quality", "completeness", "consistency", "safety")
    dimensions: dict[str, Any] = {name: {"level": "good", "explanation": "it is fine"} for name in names}
    if issue:
        dimensions["completeness"] = {"level": "poor", "explanation": "it lacks something", "issues": [issue]}
    verdict = {"verdict": "reject", "reason": issue} if issue else {"verdict": "pass"}
    return {**verdict, "summary": "it validates", "tried": ["an empty one"], "dimensions": dimensions}


class Loop:
    """A project whose pipeline `loop` is the built-in one with short delays and a check."""

    def __init__(self, project: Project) -> None:
        self.project = project
        builtin = Path(str(files("agentforge") / "builtin" / "pipelines"))
        folder = project.root / ".claude" / "pipelines"
        shutil.copytree(builtin / "loop", folder / "loop")
        pipeline = yaml.safe_load((builtin / "loop.yaml").read_text())
        for node in pipeline["nodes"]:
            node.update({"on": node.pop(True)} if True in node else {})  # For YAML 1.1, `on` is a boolean.
        pipeline["sandbox"] = "none"
        pipeline["retry"] |= {"initial_delay": 0.01}
        verifier = next(node for node in pipeline["nodes"] if node["id"] == "verifier")
        verifier["checks"] = [
            {"name": "test", "run": TEST.format(calls=project.home / "executor.calls"), "at": "start"}
        ]
        pipeline["defaults"]["provider"] = {
            "type": "command",
            "run": f"{sys.executable} -I -S {project.home}/agent.py",
        }
        (folder / "loop.yaml").write_text(json.dumps(pipeline))
        (project.home / "agent.py").write_text(AGENT)

    def plays(self, **turns: list[Any]) -> "Loop":
        script = {
            "planner": [work_plan(*TITLES)],
            "executor": [DONE],
            "verifier": [VERIFIED],
            "reviewer": [review()],
        }
        (self.project.home / "script.json").write_text(json.dumps({**script, **turns}))
        return self

    def __call__(self, *arguments: str) -> Done:
        return self.project.call(*arguments, name="acode")


@pytest.fixture
def loop(project: Project) -> Loop:
    return Loop(project)


def shown(done: Done) -> str:
    """What is printed between the agents and the conclusion."""
    first, _, rest = done.out.partition("\n")
    assert first.startswith("Agents in ")
    return rest.partition("\n  ")[0] if not rest else re.split(r"\n  (?=\d+ iteration)", rest)[0]


LADDER = """
[PLANNER] Analyzing request...
[PLANNER] Created 3-step plan:
  1. Analyze existing validation code
  2. Create email validator class
  3. Integrate with form handler

[EXECUTOR] Step 1: Analyze existing validation code...
[EXECUTOR] Step 1 complete
[EXECUTOR] Step 2: Create email validator class...
[EXECUTOR] Step 2 complete
[EXECUTOR] Step 3: Integrate with form handler...
[EXECUTOR] Step 3 failed: File write error
[EXECUTOR] Retry 1/3...
[EXECUTOR] Retry 2/3...
[EXECUTOR] Retry 3/3...
[EXECUTOR] Step retry limit reached

[ORCHESTRATOR] Stage retry 1/2...
[EXECUTOR] Retrying from step 3...
[EXECUTOR] Step 3 failed again

[ORCHESTRATOR] Stage retry 2/2...
[EXECUTOR] Step 3 failed again

[ORCHESTRATOR] Task aborted
[ORCHESTRATOR] Session paused: Human intervention required

⚠ Session paused. Use 'acode resume' after fixing the issue."""


def test_a_step_that_always_fails_climbs_to_a_person_who_resumes(loop: Loop) -> None:
    loop.plays(executor=[DONE, DONE, "File write error"])
    done = loop("run", "Add email validation", "-s", "auth")
    assert (done.code, shown(done)) == (22, LADDER)
    assert done.lines[-3:] == [
        "  Answer: agentforge answer auth resume",
        "  Inspect: agentforge inbox show auth",
        "  Resume: acode resume auth",
    ]
    status = loop("status").out.splitlines()
    assert status[:4] == ["Session: auth", "Stage: EXECUTOR", "Progress: Step 3/3", "Status: paused"]
    assert status[-2:] == ["Answer: agentforge answer auth resume", "Resume: acode resume auth"]
    loop.plays()
    resumed = loop("resume")
    assert resumed.code == 0, resumed.err
    assert "Resuming session 'auth' from stage executor, step 3 of 3\n" in resumed.out
    assert "\n✓ Task complete\n  6 iterations in " in resumed.out
    assert loop("status", "auth").out.splitlines()[1] == "Stage: COMPLETE"


PASSES = """
[PLANNER] Analyzing request...
[PLANNER] Created 2-step plan:
  1. Analyze existing validation code
  2. Create email validator class

[EXECUTOR] Step 1: Analyze existing validation code...
[EXECUTOR] Step 1 complete
[EXECUTOR] Step 2: Create email validator class...
[EXECUTOR] Step 2 complete

[VERIFIER] Validating results...
[VERIFIER] Running tests...
[VERIFIER] Test failure: email format not validated
[VERIFIER] ✗ Verification failed

[EXECUTOR] Retry 1/3: Step 3
[EXECUTOR] Adjusting based on feedback...
[EXECUTOR] Step 3: Repair test...
[EXECUTOR] Step 3 complete

[VERIFIER] Validating results...
[VERIFIER] Running tests...
[VERIFIER] All tests passed ✓

[REVIEWER] Reviewing changes...
[REVIEWER] Issue: Missing edge case handling
[REVIEWER] Requesting re-plan

[PLANNER] Cycle 2/3: Adjusting plan...
[PLANNER] Added step: Handle edge cases

[EXECUTOR] Step 3: Handle edge cases...
[EXECUTOR] Step 3 complete

[VERIFIER] Validating results...
[VERIFIER] Running tests...
[VERIFIER] All tests passed ✓

[REVIEWER] Reviewing changes...
[REVIEWER] Quality check passed ✓

✓ Task complete"""


def test_a_failing_test_and_a_rejection_lead_back(loop: Loop) -> None:
    first, more = TITLES[:2], [*TITLES[:2], "Handle edge cases"]
    loop.plays(
        planner=[work_plan(*first), work_plan(*more)],
        reviewer=[review("Missing edge case handling"), review()],
    )
    done = loop("run", "Add email validation", "-s", "auth")
    assert (done.code, shown(done)) == (0, PASSES)
    assert done.lines[-1] == "  .claude/pipeline-runs/auth"
    metrics = loop("metrics", "session", "auth").out.splitlines()
    assert [metrics[0], metrics[1]] == ["Stage Metrics:", "  Planner:"]
    assert "    Cycles: 2" in metrics
    assert metrics[-1] == "    Approved: true"
    assert loop("metrics", "session", "--json").json["metrics"][0]["stage"] == "planner"
    history = loop("session", "history", "auth", "--cycles").out
    assert "reviewer, visit 2" in history
    assert "auth" in loop("session", "list").out
    assert loop("session", "show", "auth").out.startswith("auth: completed, pipeline loop")


SKIPPED = """
[VERIFIER] Skipped by {who}: {why}

[REVIEWER] Reviewing changes...
[REVIEWER] Quality check passed ✓

✓ Task complete"""


@pytest.mark.parametrize(
    ("given", "why"), [((), "acode run --skip-verify"), (("--reason", "only docs"), "only docs")]
)
def test_a_person_skips_the_verifier(loop: Loop, given: tuple[str, ...], why: str) -> None:
    done = loop.plays()("run", "Quick fix", "-s", "auth", "--skip-verify", *given)
    who = pwd.getpwuid(os.getuid()).pw_name
    assert (done.code, SKIPPED.format(who=who, why=why) in done.out) == (0, True), done.out
    assert "[VERIFIER] Validating" not in done.out


def test_limits_of_one_run_stand_above_the_pipeline(loop: Loop) -> None:
    arguments = ("run", "Add email validation", "-s", "auth", "--cycle-limit")
    refused = loop.plays()(*arguments, "11")
    assert (refused.code, "'--cycle-limit': 11 is not in the range" in refused.err) == (2, True), refused.err
    assert loop(*arguments, "2", "--verifier-timeout", "77").code == 0
    nodes = json.loads((loop.project.run_dir("auth") / "plan.json").read_text())["nodes"]
    verifier = next(node for node in nodes if node["id"] == "verifier")
    assert (verifier["timeout"], verifier["limits"]["cycles"]) == (77, 2)


def test_a_review_of_a_completed_run_is_a_run_of_its_own(loop: Loop) -> None:
    subprocess.run(["git", "init", "-q", str(loop.project.root)], check=True, env=loop.project.env)
    (loop.project.home / "long.txt").write_text("line\n" * 10_000)
    assert loop.plays()("run", "Add email validation", "-s", "auth").code == 0
    loop.plays(reviewer=[review("Missing edge case handling")])
    done = loop("review", "auth", "--force")
    assert done.code == 21, done.err
    assert "This run only reviews: a resume repeats that." in done.err
    (prompt,) = loop.project.run_dir("auth-review-1").glob("stage-03-reviewer/iterations/001/prompt.md")
    told = prompt.read_text()
    assert "It changed: long.txt\n\ndiff --git a/long.txt b/long.txt" in told
    assert "[cut: `agentforge diff auth` shows all]" in told
    assert [line for line in done.out.splitlines() if line.startswith("[")][-4:] == [
        "[REVIEWER] Reviewing changes...",
        "[REVIEWER] Issue: Missing edge case handling",
        "[ORCHESTRATOR] Cycle limit reached",
        "[ORCHESTRATOR] Session paused: Human intervention required",
    ]
    (given,) = loop("session", "show", "auth-review-1", "--artifacts", "--json").json["artifacts"][:1]
    assert given["value"]["executor"]["s1"] == DONE
    assert given["value"]["goal"] == "emails are validated"
    assert loop("status", "auth", "--json").json["status"] == "completed"
    loop.plays()
    assert "auth-review-2" in loop("review", "auth", "--force").out


def test_a_review_of_an_unfinished_run_starts_its_reviewer_over(loop: Loop) -> None:
    loop.plays(executor=["no"])
    assert loop("run", "Add email validation", "-s", "auth").code == 22
    early = loop("review", "auth", "--force")
    assert (early.code, "is in stage executor, not in stage reviewer" in early.err) == (2, True)
    assert "`acode status auth` shows it" in early.err
    loop.plays(reviewer=["no"])
    assert loop("resume", "auth").code == 22
    done = loop.plays()("review", "auth", "--force")
    assert (done.code, "[REVIEWER] Quality check passed ✓" in done.out) == (0, True), done.err
    assert "Missing option '--force'" in loop("review", "auth").err
    assert loop("cancel", "auth").code != 0


def test_settings_are_in_the_file_of_acode(loop: Loop) -> None:
    refused = loop("config", "set", "orchestration.cycle_limit", "11")
    assert (refused.code, (loop.project.root / ".agent").exists()) == (2, False)
    assert loop("config", "set", "orchestration.cycle_limit", "5").code == 0
    assert (loop.project.root / ".agent" / "config.yml").read_text() == "orchestration:\n  cycle_limit: 5\n"
    assert loop("config", "get", "orchestration.cycle_limit").out == "5\n"


def test_a_resumed_run_names_its_steps_and_claims_no_verification(loop: Loop) -> None:
    loop.plays(executor=["no"])
    paused = loop("run", "Add email validation", "-s", "auth")
    assert (paused.code, "Only an agent verified" in paused.out) == (22, False)
    done = loop.plays()("resume", "auth")
    assert f"[EXECUTOR] Step 2: {TITLES[1]}...\n" in done.out, done.err


def test_json_has_no_lines_of_the_display(loop: Loop) -> None:
    done = loop.plays()("run", "Add email validation", "-s", "auth", "--json")
    assert (done.code, done.json["status"]) == (0, "completed")
    assert loop("status", "auth", "--json").json["stages"][0]["id"] == "planner"


def test_ctrl_c_pauses_the_run_which_another_process_controls(loop: Loop) -> None:
    loop.plays(executor=["wait"])
    line = "import sys; from agentforge.cli.acode import call; sys.exit(call(sys.argv[1:]))"
    arguments = ("run", "Add email validation", "-s", "auth")
    with loop.project.started_program(sys.executable, "-c", line, *arguments) as started:
        wait_for((loop.project.home / "executor.calls").exists, "the first step")
        assert "Stage: EXECUTOR\nProgress: Step 1/3\nStatus: running" in loop("status").out
        done = started.insist(signal.SIGINT)
    assert done.code == 130
    assert "⚠ Session paused. Use 'acode resume' to continue.\n" in done.out
    assert "  Resume: acode resume auth" in done.lines
    cancelled = loop("cancel", "--reason", "changed my mind")
    assert (cancelled.code, cancelled.out) == (0, "Cancelled session 'auth'.\n")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("run",), "Missing argument 'REQUEST'", "see `acode run --help`"),
        (("run", ""), "the user request is empty", ""),
        (("run", "loop"), "names something to run", "`agentforge run -p loop` runs the pipeline"),
        (("status", "nope"), "nope", ""),
        (("resume",), "no session to resume", ""),
    ],
)
def test_wrong_arguments(loop: Loop, arguments: tuple[str, ...], message: str, hint: str) -> None:
    done = loop(*arguments)
    assert done.code == 2
    assert message in done.err
    assert hint in done.err
