"""`agentforge design` with real agents: a question, approvals, a rejection, and the engine killed in every
stage. Each stage does its work once."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from tests.agents.clis import write
from tests.agents.loop_story import finish_with_files
from tests.agents.trial import PATIENCE, Trial, eventually
from tests.design.story import ARTIFACTS, QUESTION, REQUEST

from agentforge.testing.model_server import Call, Rule, Script, Shell, Turn, Write
from agentforge.testing.provider_contract import MARK

SECONDS = 900.0
ANSWER, FEEDBACK = "GitHub, please", "Name the errors"
STARTED = "started.txt"
"""A line for each time that a stage worked."""
HEADS = {
    "intake": "Record the request",
    "clarify": "Clarify the requirements",
    "analyze": "Analyze the change",
    "spec": "Specify the change",
}
WITH_A_TOOL = ("clarify", "analyze", "spec")
"""Stages whose schema claude enforces: it has no conditions."""
ITERATIONS = ["intake", "clarify", "clarify", "analyze", "spec", "spec"]


def turns(cli: str, stage: str, result: dict[str, Any], artifact: dict[str, Any] | None) -> tuple[Turn, ...]:
    """Work that takes until the file `go-STAGE` exists."""
    work = Shell(f"echo {stage} >> {STARTED}; while [ ! -e go-{stage} ]; do sleep 0.05; done")
    if cli == "claude" and artifact is not None and stage in WITH_A_TOOL:
        left = Turn("The result.", (Write("{result}", json.dumps(result)),))
        return Turn("I work.", (work,)), left, Turn("The artifact.", (Call("StructuredOutput", artifact),))
    return finish_with_files(result, artifact, (work,))


def script(cli: str) -> Script:
    done = {"summary": "did it", "decision": "continue"}
    asks = {"summary": "unclear", "decision": "ask", "questions": [{"question": QUESTION["question"]}]}
    unclear = {**ARTIFACTS["intake"], "verdict": "pass", "initial_questions": [QUESTION]}

    def rule(stage: str, says: str, result: dict[str, Any], artifact: dict[str, Any] | None) -> Rule:
        return Rule(rf"# {HEADS[stage]}\n[\s\S]*{says}", turns(cli, stage, result, artifact))

    again = {**ARTIFACTS["spec"], "title": "With errors"}
    return Script(
        rules=(
            # What claude tells its model if it ends without an artifact, as it does when it asks.
            Rule(r"^\[structured-output-enforce\]", (Turn("I asked: there is nothing to return yet."),)),
            rule("intake", "", done, unclear),
            rule("clarify", ANSWER, done, ARTIFACTS["clarify"]),
            rule("clarify", "", asks, None),
            rule("analyze", "", done, ARTIFACTS["analyze"]),
            rule("spec", FEEDBACK, done, again),
            rule("spec", "", done, ARTIFACTS["spec"]),
        )
    )


class Design:
    """The command line in the project of a trial."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        environ = trial.environ(script(trial.cli.name))
        self._environ = {**environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
        write(trial.project / "README.md", "An app without a login.\n")
        self.id = ""

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "agentforge", *words],
            cwd=self.trial.project,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def call(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, said
        return said

    def killed_in(self, stage: str, *words: str, code: int = 0) -> str:
        """Run a command whose engine is killed while the agent of the stage works; another one continues."""
        process = self.start(*words)
        with process:
            try:
                eventually(lambda: self.done[-1:] == [stage])
            finally:
                process.kill()
        self.id = self.id or next((self.trial.project / ".claude/pipeline-runs").glob("PL-*")).name
        known = len(self.facts("attempt_reattached"))
        with self.start("recover", self.id) as process:
            try:
                eventually(lambda: len(self.facts("attempt_reattached")) > known)
                (self.trial.project / f"go-{stage}").touch()
                said, _ = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        assert process.returncode == code, said
        return said

    @property
    def done(self) -> list[str]:
        ledger = self.trial.project / STARTED
        return ledger.read_text().split() if ledger.exists() else []

    def facts(self, kind: str) -> list[dict[str, Any]]:
        log = self.trial.project / ".claude/pipeline-runs" / self.id / "events.jsonl"
        events = [json.loads(line) for line in log.read_bytes().splitlines() if line.endswith(b"}")]
        return [event["data"] for event in events if event["type"] == kind]


@pytest.mark.agents
@pytest.mark.crash
@pytest.mark.timeout(SECONDS)
def test_design_survives_a_kill_in_every_stage_and_no_stage_works_twice(trial: Trial) -> None:
    design, cli = Design(trial), trial.cli
    given = ("--provider", cli.name, "--model", cli.model, "--provider-config", f"env.{MARK}={trial.name}")
    said = design.killed_in("intake", "design", REQUEST, *given)
    assert "Approve the result of stage 'intake'?" in said
    said = design.killed_in("clarify", "approve", design.id, code=22)
    assert str(QUESTION["question"]) in said
    assert "stage 'clarify'" in design.call("answer", design.id, ANSWER)
    assert "stage 'analyze'" in design.killed_in("analyze", "approve", design.id)
    assert "stage 'spec'" in design.killed_in("spec", "approve", design.id)
    assert "round 2 of 3" in design.call("reject", design.id, "-f", FEEDBACK)
    said = design.call("approve", design.id)
    assert re.search(r"^Design complete!\n  Specification: SPEC-", said, re.MULTILINE)
    assert "Stages completed: intake, clarify, analyze, spec\n" in said
    assert design.done == ITERATIONS
    visits = [fact["name"] for fact in design.facts("node_start")]
    assert visits == ["intake", "clarify", "analyze", "spec", "spec"]
    assert [fact["stage"] for fact in design.facts("iteration_complete")] == ITERATIONS
    assert design.facts("error") == []
    left = [fact["artifact"]["value"] for fact in design.facts("iteration_complete") if fact.get("artifact")]
    assert left[-2:] == [ARTIFACTS["spec"], {**ARTIFACTS["spec"], "title": "With errors"}]
