"""docs/json-output.md: the keys of commands that run a run to its end."""

import json
from contextlib import ExitStack
from signal import SIGKILL

from tests.surface.json_calls import Calls, Examples
from tests.surface.terminal import WRITE_RESULT, Project, wait_for

from agentforge.cli.run_views import VIEWS

REPORT = """\
<testsuite><testcase name="a"/><testcase name="b"><failure message="no"/></testcase>\
<testcase name="c"><error message="no"/></testcase><testcase name="d"><skipped/></testcase></testsuite>"""
LEAVE_ARTIFACT = 'echo "{}" > "$AGENTFORGE_ARTIFACT"'
WORK = {"type": "command", "run": f"cat >/dev/null; {LEAVE_ARTIFACT}; {WRITE_RESULT}"}
CHECKED = {
    "id": "build",
    "prompt": "x",
    "runs": 1,
    "provider": WORK,
    "checks": [
        {
            "name": "test",
            "run": f"echo '{REPORT}' > report.xml; exit 1",
            "parse": "junit",
            "report": "report.xml",
        },
        {"name": "style", "run": "true"},
    ],
    "on": {"fail": "ask"},
    "artifact": {"type": "object"},
}
SLOW = "touch up-$$; while [ ! -e go ]; do sleep 0.02; done; " + WRITE_RESULT
INTERRUPTED = ("first", "second", "third")

GIVEN = ("--artifact", "given.json")
EXAMPLES: Examples = {
    ("run", "run result"): [
        "run",
        "-p",
        "checked.yaml",
        "-s",
        "checked",
        "--skip-check=style",
        "--skip=docs",
        "--reason=slow",
    ],
    **{
        (command, "run result"): [command, "Add a login", "--provider", "mock", "--command", "test=false"]
        for command in ("start", "implement", "fix")
    },
    ("test", "run result"): ["test", "Add a login", "--provider", "mock", *GIVEN, "--command", "test=false"],
    ("design", "run result"): ["design", "Add a login", "--provider", "mock", "--yes"],
    ("pipeline --foreground", "run result"): ["pipeline", "fails.yaml", "fails", "--foreground"],
    ("resume", "run result"): ["resume", "fails"],
    ("resume --restart-stage", "run result"): ["resume", "fails", "--restart-stage"],
    ("loop --foreground", "run result"): ["loop", "work", "loop", "1", "--foreground"],
    ("replay", "run result"): ["replay", "recorded", "-s", "replayed"],
    ("recover", "run result"): ["recover", "first"],
    ("recover", "recovery"): ["recover"],
}
SHOWN = ("run result", "cap", "recovery", "visit", "check run", "waiver")


def test_keys_of_results_are_those_of_the_page(project: Project) -> None:
    specification = {"spec_id": "SPEC-1", "components": [], "test_cases": []}
    (project.root / "given.json").write_text(json.dumps(specification))
    (project.root / "checked.yaml").write_text(
        json.dumps({"name": "p", "nodes": [CHECKED, {**CHECKED, "id": "docs"}]})
    )
    once = "    retry: {max_attempts: 1}\n    limits: {cost_usd: 1}\n    max_iteration_cost_usd: 0.1\n"
    project.pipeline("a=exit 3", name="fails.yaml", extra=once)
    project.stage("work", "provider: mock\ndelay: 0\n")
    recorded = project.pipeline(f"a={WRITE_RESULT}", name="recorded.yaml")
    assert project.call("run", "-p", recorded, "-s", "recorded", "--record").code == 0
    interrupt_all(project, project.pipeline(f"a={SLOW}", name="slow.yaml"))
    calls = Calls(project)
    calls.call_all(EXAMPLES)
    calls.call("recover", "recovery", ["recover"])  # There is nothing left to recover.
    assert calls.problems(SHOWN) == []


def interrupt_all(project: Project, file: str) -> None:
    """Runs whose engines were killed."""
    with ExitStack() as stack:
        runs = [stack.enter_context(project.started("run", "-p", file, "-s", name)) for name in INTERRUPTED]
        wait_for(lambda: len(list(project.root.glob("up-*"))) == len(runs), "the agents")
        for run in runs:
            run.signal(SIGKILL)
            run.process.wait(60)
    (project.root / "go").touch()


def test_reasons_are_grammatical(project: Project) -> None:
    """The log and state.json have the words of the shell engine."""
    project.stage("work", "provider: mock\ndelay: 0\n")
    done = project.call("loop", "work", "auth", "1", "--foreground", "--json")
    assert done.json["reason"] == "Completed 1 iteration (max: 1)"
    assert project.state("auth")["completion_reason"] == "Completed 1 iterations (max: 1)"
    views = (["show", "auth", f"--{name}"] for name in VIEWS)
    for command in (["status", "auth"], ["show", "auth"], *views, ["diff", "auth"]):
        assert "1 iterations" not in project.call(*command, "--json").out
        assert "1 iterations" not in project.call(*command).out
    for command in ("list", "top", "inbox", "recover"):
        assert "1 iterations" not in project.call(command, "--json").out
