"""What the crash runs run: small pipelines that touch every command of the engine."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Literal

import agentforge
from agentforge.model.check import Check

HOME = Path(__file__).parent
SESSION = "night"
AGENT = f'type: command, argv: ["{sys.executable}", -I, -S, "{HOME / "agent.py"}"]'
WORK = f"""\
  provider: {{{AGENT}}}
  delay: 0
  retry: {{max_attempts: 3, initial_delay: 0.05, max_delay: 0.2}}
"""
# Two concurrent providers with two stages each, and a stage that reads their outputs.
BLOCK = f"""\
  - id: duel
    parallel:
      providers: [{{name: p, {AGENT}}}, {{name: q, {AGENT}}}]
      stages:
        - {{id: draft, prompt: 'draft ${{ITERATION}}', runs: 2}}
        - {{id: check, prompt: 'check ${{ITERATION}}', runs: 1, inputs: {{from: draft, select: all}}}}
  - {{id: merge, prompt: merge, runs: 1, inputs: {{from_parallel: {{stage: draft, select: history}}}}}}
"""
# A CLI of one's own that has conversations; twice, as a chain.
CLI = f"""\
type: cli, program: "{sys.executable}", arguments: [-I, -S, "{HOME / "agent.py"}", --json],
        resume_arguments: [--go-on-with, "{{session}}"], passes: ["CRASH_*", "AGENT_*"], output: json_lines,
        fields: {{text: text, session: conversation, error: error, done: state=done}},
        failures: {{"limit reached": provider_rate_limited}}"""
CHAIN = f"""\
  - id: work
    prompt: 'do ${{ITERATION}}'
    runs: 2
    on_limit: {{do: next, initial_delay: 0.3, max_delay: 0.6}}
    provider:
      - {{{CLI}}}
      - {{{CLI}}}
"""
JUDGED = "  - {id: work, prompt: x, termination: {type: judgment, max: 5, consensus: 2}}\n"
# The judge is the provider `claude`: a program of that name which is the same agent. Its own environment has
# only what a CLI may see; what the tests tell it, the supervisor has.
CLAUDE = f"""\
#!{sys.executable} -IS
import json, os, runpy
with open(os.path.join(os.path.dirname(__file__), "environment.json")) as told:
    os.environ.update(json.load(told))
runpy.run_path(os.environ["CRASH_HOME"] + "/agent.py", run_name="__main__")
"""
SERVICE = "http://127.0.0.1/service"
"""Replaced with the address of the service that counts deliveries."""
WEBHOOK = f"{{action: webhook, url: '{SERVICE}'}}"
ASKING = f"{{action: webhook, url: '{SERVICE}', on_lost: pause}}"
# The same program as the agent: it notes in the ledger that it ran.
SCRIPT = f"""\
{{action: script, script: 'exec "{sys.executable}" -I -S "{HOME / "agent.py"}"', environment: [
      CRASH_HOME, CRASH_BASE, CRASH_RUN, CRASH_LOG, CRASH_TRACE, CRASH_COUNTS, CRASH_LEDGER, CRASH_KILL,
      AGENT_WAITS, AGENT_TOOL, AGENT_LINGERS, AGENT_LONG]}}"""
# The check is a program in PATH which is the same agent; it fails at the first visit.
CHECKED = """\
  - {id: build, prompt: 'do ${ITERATION}', runs: 1}
  - {id: verify, prompt: 'see ${ITERATION}', runs: 1, checks: [{name: test, run: verify}], on: {fail: build}}
"""
# The check fails before the first stage, and passes before the second.
NEEDED = """\
  - {id: work, prompt: 'do ${ITERATION}', runs: 1, checks: [{name: test, run: verify, at: need}]}
  - {id: tidy, prompt: 'do ${ITERATION}', runs: 1, checks: [{name: test, run: verify, at: need}]}
"""
# Files change each time that the check runs, until the stage is retried.
DISTURBED = """\
  - {id: work, prompt: one, runs: 1, checks: [{name: test, run: verify}], on: {fail: end},
     retry: {stage: 1, initial_delay: 0.05, max_delay: 0.2}}
"""
# What a step has to pass is said by its artifact: files, and the name of a command, which fails once.
CRITERIA = """\
  - {id: plan, prompt: plan, runs: 1, artifact: {schema: {required: [steps]}}}
  - id: do
    prompt: 'do ${ITEM}'
    termination: {type: items, from: plan.steps, criteria: criteria}
    context_strategy: focused
    on: {fail: do}
"""
PROVEN = {
    "steps": [
        {"id": "s1", "criteria": [{"file": {"path": "made/1-1.txt"}}, {"command": "test"}]},
        {"id": "s2", "criteria": [{"file": {"path": "made/1-3.txt", "contains": "done"}}, "it is good"]},
    ]
}
# What the first iteration made is outside of the scope, also if the engine dies after it.
RULES = """\
  - id: build
    prompt: 'do ${ITERATION}'
    runs: 2
    checks:
      - {name: scope, at: iteration, scope: [made/shared.txt, made/0-2.txt]}
      - {name: left, at: iteration, file: {path: made/shared.txt, contains: done}}
    on: {fail: end}
"""
# Before the first agent, the check finds one failure; later, another one too. It starts the same agent.
LINT = Check(
    "lint",
    "lint; ls -d p.yaml made | while read name; do echo $name:1:1: E1 bad; done; exit 1",
    parse="lines",
    regressions=True,
)
RED = f"""\
  - id: build
    prompt: 'do ${{ITERATION}}'
    runs: 1
    checks: [{{name: lint, run: '{LINT.run}', parse: lines, regressions: true}}]
    on: {{fail: end}}
"""
# Each attempt and each judge reserves this, and spends it, as none of them says what it costs.
FIGURE = 0.5
DAILY = f"""\
  - {{id: work, prompt: one, runs: 2, max_iteration_cost_usd: {FIGURE}}}
  - {{id: judged, prompt: x, termination: {{type: judgment, max: 5, consensus: 1}},
     max_iteration_cost_usd: {FIGURE}}}
"""
COST = 0.3
"""What an agent of a branch spends, and reports: less than its figure."""
CAP = 1.2
"""Enough for the figures of two branches at a time, and for what three of them spend."""


def crowd(*branches: str) -> str:
    """A block below the cap; each of its branches reports what it spent."""
    paid = CLI.replace("done: state=done", "done: state=done, cost: cost")
    providers = "".join(f"        - {{name: {name}, {paid}}}\n" for name in branches)
    return f"""\
  - id: crowd
    parallel:
      providers:
{providers}
      stages: [{{id: work, prompt: 'do it', runs: 1, max_iteration_cost_usd: {FIGURE}}}]
"""


CAPPED = f"""\
{crowd("a", "b", "c", "d")}
  - {{id: judged, prompt: x, termination: {{type: judgment, max: 5, consensus: 1}},
     max_iteration_cost_usd: {FIGURE}}}
"""
# The plan of the second visit has s1 as it was, a changed s2, no s3, and s4.
ITEMS = f"""\
  - id: plan
    prompt: 'plan ${{ITERATION}}'
    runs: 1
    artifact: {{schema: {{required: [steps]}}, heal: 1}}
    provider: {{{CLI}}}
  - {{id: do, prompt: 'do ${{ITEM}}', termination: {{type: items, from: plan.steps}},
     artifact: {{type: object}}, context_strategy: focused}}
  - {{id: verify, prompt: see, runs: 1, on: {{fail: plan}}, context_strategy: summary,
     tokens: {{total: 20000}}}}
"""
FIRST_PLAN = {"steps": [{"id": "s1"}, {"id": "s2", "after": ["s1"]}, {"id": "s3"}]}
SECOND_PLAN = {"steps": [{"id": "s1"}, {"id": "s2", "title": "again", "after": ["s1"]}, {"id": "s4"}]}
# Notes its occasion and its key.
NOTIFY = 'echo "$AGENTFORGE_EVENT $AGENTFORGE_NOTIFICATION" >> ../notices'
HOOKED = "  - {id: work, prompt: 'do ${ITERATION} ${CONTEXT}', runs: 2}\n"

REPOSITORY = {".git/HEAD": "ref: refs/heads/main\n", ".git/objects/kept": "", ".git/refs/heads/kept": ""}
"""As git needs it to see a repository."""


@dataclass(frozen=True)
class Control:
    """A control that is sent to the run while an agent works on a certain iteration."""

    at: str
    """`node/iteration`, of a branch `node@provider/iteration`, of the judge `node/iteration/judge`; `hook`:
    of any script."""
    command: Literal["pause", "cancel", "steer", "resume"]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scenario:
    name: str
    nodes: str = ""
    """Of the pipeline; without any, it is a single stage of the scenario's name."""
    agent: dict[str, str] = field(default_factory=dict)
    control: Control | None = None
    replies: tuple[tuple[str, ...], ...] = ()
    """What a person decides each time that the run waits: a command and its options, without the session.
    The last one is repeated."""
    ends: str = "completed"
    programs: dict[str, str] = field(default_factory=dict)
    """What is found in PATH before anything else."""
    record: bool = False
    """Whether the run is recorded."""
    tracked: bool = False
    """Whether the project is a git repository."""
    hooks: str = ""
    """Of the pipeline."""
    program: bool = False
    """Whether a program runs it that embeds the engine and has hooks of its own."""
    settings: str = ""
    """Of the project."""

    @property
    def files(self) -> dict[str, str]:
        """The files of the project before the run."""
        if self.nodes:
            hooks = f"hooks:\n{self.hooks}" if self.hooks else ""
            pipeline = f"name: {self.name}\n{hooks}defaults:\n{WORK}nodes:\n{self.nodes}"
            settings = {".agentforge/config/settings.yaml": self.settings} if self.settings else {}
            return {"p.yaml": pipeline, **settings, **(REPOSITORY if self.tracked else {})}
        stage = f".claude/stages/{self.name}"
        return {f"{stage}/stage.yaml": dedent(WORK), f"{stage}/prompt.md": "do ${ITERATION} of ${SESSION}\n"}

    @property
    def command(self) -> tuple[str, ...]:
        """How a person begins it."""
        return (
            ("run", "-p", "p.yaml", "-s", SESSION, *(["--record"] if self.record else []))
            if self.nodes
            else ("loop", self.name, SESSION, "2", "--foreground")
        )


LOOP = Path(agentforge.__file__).parent / "builtin/pipelines"
STEPS = [{"id": id, "title": id, "action": "do it", "criteria": ["done"]} for id in ("s1", "s2", "s3")]
STEP_DONE = {"verdict": "pass", "summary": "did it"}
VERIFIED = {"verdict": "pass", "checks": [{"name": "all", "status": "pass"}]}
ASPECTS = ("intent_alignment", "code_quality", "completeness", "consistency", "safety")
REVIEWED = {
    "verdict": "pass",
    "summary": "looked at it",
    "tried": ["an empty text"],
    "dimensions": {aspect: {"level": "good", "explanation": "fine"} for aspect in ASPECTS},
}
LOOP_ARTIFACTS = {
    "0/1": {"goal": "it works", "steps": STEPS[:2]},
    **dict.fromkeys(("1/1", "1/2", "1~2/1", "1~3/1"), STEP_DONE),
    **dict.fromkeys(("2~2/1", "2~3/1"), VERIFIED),
    "3/1": {**REVIEWED, "verdict": "reject", "reason": "something is missing"},
    "0~2/1": {"goal": "it works", "steps": STEPS},
    "3~2/1": REVIEWED,
}


class LoopScenario(Scenario):
    """The built-in loop, outside of a sandbox and without waiting; the tests of the project fail once."""

    @property
    def files(self) -> dict[str, str]:
        loop = (LOOP / "loop.yaml").read_text().replace("sandbox: auto", "sandbox: none")
        return {
            ".claude/pipelines/loop.yaml": loop.replace("initial_delay: 1", "initial_delay: 0.05"),
            **{f".claude/pipelines/loop/{one.name}": one.read_text() for one in (LOOP / "loop").iterdir()},
            ".agentforge/providers/scripted.yaml": f"{{{CLI.removeprefix('type: cli, ')}}}\n",
            ".agentforge/config/settings.yaml": "commands: {test: verify}\n",
            **REPOSITORY,
        }

    @property
    def command(self) -> tuple[str, ...]:
        return ("run", "Do it", "-s", SESSION, "--provider", "scripted")


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "plain",
            "  - {id: work, prompt: 'do ${ITERATION}', runs: 3}\n",
            {"AGENT_TOOL": "0/1 0/2", "AGENT_WAITS": "0/2 0/3"},
        ),
        Scenario(
            "retry",
            "  - {id: first, prompt: one, runs: 2}\n"
            "  - {id: second, prompt: two, runs: 1, output_path: 'docs/${SESSION}.md'}\n",
            {
                "AGENT_CRASHES": "0/1 1/1",
                "AGENT_OLD_STATUS": "0/2",
                "AGENT_WAITS": "0/1 0/2 1/1",
                "AGENT_TOOL": "1/1",
            },
        ),
        Scenario(
            "exhausted",
            "  - {id: work, prompt: one, runs: 2, retry: {max_attempts: 1, exhausted: ask}}\n",
            {"AGENT_CRASHES": "0/1", "AGENT_WAITS": "0/1 0/2"},
            replies=(("answer", "retry"),),
            hooks=f"  stage_end: {WEBHOOK}\n",
        ),
        Scenario("stage", agent={"AGENT_WAITS": "0/1", "AGENT_OLD_STATUS": "0/1"}),
        Scenario(
            "delay", "  - {id: slow, prompt: x, runs: 3, delay: 0.15}\n", {"AGENT_WAITS": "0/1 0/2 0/3"}
        ),
        Scenario(
            "pause",
            "  - {id: held, prompt: x, runs: 3}\n",
            {"AGENT_UNTIL": "0/2:pause_requested", "AGENT_WAITS": "0/1 0/3"},
            Control("0/2", "pause"),
        ),
        Scenario(
            "pause-now",
            "  - {id: ended, prompt: x, runs: 2}\n",
            {
                "AGENT_LINGERS": "0/1",
                "AGENT_LONG": "1.0",
                "AGENT_UNTIL": "0/1:pause_requested",
                "AGENT_TOOL": "0/1",
            },
            Control("0/1", "pause", ("--now",)),
        ),
        Scenario(
            "cancel",
            "  - {id: dropped, prompt: x, runs: 3}\n",
            {"AGENT_LINGERS": "0/2", "AGENT_LONG": "90", "AGENT_TOOL": "0/2"},
            Control("0/2", "cancel"),
            ends="aborted",
        ),
        Scenario(
            "block",
            BLOCK,
            {
                "AGENT_WAITS": "0.0@p/1 0.0@q/1 0.0@q/2 0.1@p/1",
                "AGENT_CRASHES": "0.0@p/2",
                "AGENT_TOOL": "0.0@q/1",
            },
        ),
        Scenario(
            "block-pause",
            BLOCK,
            {
                "AGENT_UNTIL": "0.0@p/1:pause_requested 0.0@q/1:pause_requested",
                "AGENT_WAITS": "0.0@p/2",
            },
            Control("0.0@p/1", "pause"),
        ),
        Scenario(
            "judge",
            JUDGED,
            {
                "AGENT_WAITS": "0/1/judge 0/2 0/3/judge",
                "AGENT_STOPS": "0/2/judge 0/3/judge 0/4/judge 0/5/judge",
                "AGENT_TOOL": "0/2/judge",
            },
            programs={"claude": CLAUDE},
        ),
        Scenario(
            "record",
            "  - {id: first, prompt: one, runs: 2, output_path: 'docs/${SESSION}.md'}\n" + JUDGED,
            {
                "AGENT_FILES": "0/1 0/2 1/1 1/2",
                "AGENT_CRASHES": "0/1",
                "AGENT_WAITS": "0/1 0/2 1/2/judge",
                "AGENT_STOPS": "1/1/judge 1/2/judge 1/3/judge 1/4/judge 1/5/judge",
            },
            programs={"claude": CLAUDE},
            record=True,
        ),
        Scenario(
            "tracked",
            "  - {id: first, prompt: one, runs: 3}\n",
            {"AGENT_FILES": "0/1 0/2", "AGENT_CRASHES": "0/2", "AGENT_WAITS": "0/1 0/2"},
            tracked=True,
        ),
        Scenario(
            "chain",
            CHAIN,
            {"AGENT_LIMITS": "0/1", "AGENT_CRASHES": "0/2", "AGENT_WAITS": "0/1 0/2", "AGENT_TOOL": "0/2"},
        ),
        Scenario(
            "judge-cancel",
            JUDGED,
            {"AGENT_LINGERS": "0/1/judge", "AGENT_LONG": "90", "AGENT_TOOL": "0/1/judge"},
            Control("0/1/judge", "cancel"),
            ends="aborted",
            programs={"claude": CLAUDE},
        ),
        Scenario(
            "approval",
            "  - {id: plan, prompt: one, runs: 2, approve: true}\n"
            "  - {id: build, prompt: two, runs: 1, checkpoint: go}\n",
            {"AGENT_WAITS": "0/2 1/1"},
            replies=(("approve",),),
        ),
        Scenario(
            "feedback",
            "  - {id: plan, prompt: one, runs: 1, approve: {rounds: 2}}\n",
            {"AGENT_WAITS": "0/1 0~2/1", "AGENT_TOOL": "0~2/1"},
            replies=(("reject", "-f", "shorter"), ("approve",)),
        ),
        Scenario(
            "question",
            "  - {id: plan, prompt: one, runs: 2}\n",
            {"AGENT_ASKS": "0/1", "AGENT_WAITS": "0/1 0/2"},
            replies=(("answer", "blue"),),
        ),
        Scenario(
            "restart",
            "  - {id: plan, prompt: one, runs: 2}\n",
            {"AGENT_LINGERS": "0/2", "AGENT_LONG": "90", "AGENT_TOOL": "0/2", "AGENT_WAITS": "0~2/1"},
            Control("0/2", "resume", ("--restart-stage",)),
        ),
        Scenario(
            "steer",
            "  - {id: plan, prompt: 'do ${CONTEXT}', runs: 2}\n",
            {"AGENT_UNTIL": "0/1:note_added"},
            Control("0/1", "steer", ("use tabs",)),
        ),
        Scenario(
            "timeout",
            "  - {id: plan, prompt: one, runs: 1, approve: {timeout: 0.3, on_timeout: approve}}\n",
            {"AGENT_WAITS": "0/1"},
        ),
        Scenario(
            "webhook",
            HOOKED,
            {"AGENT_WAITS": "0/2"},
            hooks=f"  session_start: {WEBHOOK}\n  stage_start: {WEBHOOK}\n  iteration_start: {WEBHOOK}\n"
            f"  iteration_end: {WEBHOOK}\n  stage_end: {WEBHOOK}\n  session_end: {WEBHOOK}\n",
        ),
        Scenario(
            "webhook-asks",
            HOOKED,
            hooks=f"  iteration_start: {ASKING}\n  iteration_end: [{ASKING}, {ASKING}]\n",
        ),
        Scenario(
            "webhook-retry",
            "  - {id: flaky, prompt: 'do ${ITERATION} ${CONTEXT}', runs: 1}\n",
            hooks=f"  stage_start: {WEBHOOK}\n",
        ),
        Scenario(
            "webhook-block",
            BLOCK,
            hooks=f"  parallel_provider_start: {WEBHOOK}\n  parallel_provider_end: {WEBHOOK}\n"
            f"  iteration_end: {{stage: draft, {WEBHOOK[1:]}\n",
        ),
        Scenario(
            "script",
            HOOKED,
            {"AGENT_WAITS": "iteration_end/1 stage_end/2", "AGENT_TOOL": "iteration_end/2"},
            hooks=f"  iteration_end: {SCRIPT}\n  stage_end: {SCRIPT}\n",
        ),
        Scenario(
            "script-cancel",
            HOOKED,
            {"AGENT_LINGERS": "iteration_end/1", "AGENT_LONG": "90", "AGENT_TOOL": "iteration_end/1"},
            Control("hook", "cancel"),
            ends="aborted",
            hooks=f"  iteration_end: {SCRIPT}\n",
        ),
        Scenario(
            "checked",
            CHECKED,
            {
                "AGENT_FILES": "0/1 0~2/1 1/1",
                "AGENT_FAILS": "1/1/check/test",
                "AGENT_WAITS": "1/1/check/test",
                "AGENT_TOOL": "1~2/1/check/test",
            },
            programs={"verify": CLAUDE},
        ),
        Scenario(
            "needed",
            NEEDED,
            {"AGENT_FILES": "0/1", "AGENT_FAILS": "0/0/check/test", "AGENT_WAITS": "0/0/check/test"},
            programs={"verify": CLAUDE},
        ),
        Scenario(
            "disturbed",
            DISTURBED,
            {"AGENT_DISTURBS": "0/1/check/test", "AGENT_WAITS": "0/1/check/test"},
            programs={"verify": CLAUDE},
        ),
        Scenario(
            "criteria",
            CRITERIA,
            {
                "AGENT_ARTIFACTS": json.dumps({"0/1": PROVEN}),
                "AGENT_FILES": "1/1 1/2 1/3",
                "AGENT_FAILS": "1/1/check/test",
                "AGENT_WAITS": "1/1/check/test",
            },
            programs={"verify": CLAUDE},
            settings="commands: {test: verify}\n",
        ),
        Scenario(
            "red",
            RED,
            {"AGENT_FILES": "0/1", "AGENT_WAITS": f"0/0/check/{LINT.baseline}"},
            programs={"lint": CLAUDE},
        ),
        Scenario(
            "daily",
            DAILY,
            {
                "AGENT_WAITS": "0/1 1/1/judge",
                "AGENT_CRASHES": "0/2",
                "AGENT_STOPS": "1/1/judge 1/2/judge 1/3/judge 1/4/judge 1/5/judge",
            },
            programs={"claude": CLAUDE},
            settings="limits: {daily_usd: 50}\n",
        ),
        Scenario(
            "capped",
            CAPPED,
            {
                "AGENT_COSTS": str(COST),
                "AGENT_CRASHES": "0.0@b/1",
                "AGENT_WAITS": "0.0@a/1 0.0@d/1 1/1/judge",
                "AGENT_STOPS": "1/1/judge 1/2/judge 1/3/judge 1/4/judge 1/5/judge",
            },
            replies=(("answer", "2"),),
            programs={"claude": CLAUDE},
            settings=f"limits: {{cost_usd: {CAP}}}\n",
        ),
        Scenario("rules", RULES, {"AGENT_FILES": "0/1 0/2"}, tracked=True),
        Scenario(
            "items",
            ITEMS,
            {
                "AGENT_ARTIFACTS": json.dumps({"0/1": FIRST_PLAN, "0~2/1": SECOND_PLAN}),
                "AGENT_LARGE": "0/1 1/2",
                "AGENT_INVALID": "0/1 1/1",
                "AGENT_REJECTS": "2/1",
                "AGENT_WAITS": "0/1 1/2",
            },
        ),
        Scenario("program", HOOKED, hooks=f"  iteration_end: {WEBHOOK}\n", program=True),
        Scenario(
            "confirm",
            HOOKED,
            replies=(("approve",),),
            hooks="  session_start: {action: pause, message: Begin?}\n"
            f"  stage_end: [{WEBHOOK}, {{action: confirm, message: Good?}}, {WEBHOOK}]\n",
        ),
        Scenario(
            "confirm-block",
            BLOCK,
            {"AGENT_WAITS": "0.0@q/1"},
            replies=(("approve",),),
            hooks="  parallel_provider_start: {condition: provider == 'p', action: confirm, message: Go?}\n"
            f"notify: {{command: '{NOTIFY}', in_project: true}}\n",
        ),
        Scenario(
            "policy",
            "  - {id: work, prompt: 'do ${ITERATION} ${CONTEXT}', runs: 1, approve: true}\n",
            {"PROGRAM_POLICY": "1"},
            replies=(("resume",),),
            hooks="  stage_start: {action: pause, message: Begin?}\n",
            program=True,
        ),
        LoopScenario(
            "loop",
            agent={
                "AGENT_ARTIFACTS": json.dumps(LOOP_ARTIFACTS),
                "AGENT_FILES": "1/1 1/2 1~2/1 1~3/1",
                "AGENT_FAILS": "2/0/check/test",
                "AGENT_WAITS": "0/1 1/2 2/0/check/test 2~2/1 3/1",
            },
            programs={"verify": CLAUDE},
            tracked=True,
        ),
    )
}
