"""Checks, verdicts and routes in real runs: programs, files and git."""

import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run, run_dir

from agentforge import AgentForgeError, Engine, InvalidRequest, RunResult
from agentforge.model.status import RunStatus
from agentforge.model.task import MARK
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says


def found(project: Path, *kinds: str) -> list[dict[str, Any]]:
    lines = (run_dir(project) / "events.jsonl").read_bytes().splitlines()
    events = (json.loads(line) for line in lines)
    return [event["data"] for event in events if event["type"] in kinds]


def ran(
    project: Path, definition: dict[str, Any], *says_in_turn: Any, artifact: Any = None, **options: Any
) -> RunResult:
    """Run a pipeline in a new git repository."""
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)

    async def main() -> RunResult:
        async with engine(
            project, ScriptedProvider(says_in_turn or [says("done", "stop")]), **options
        ) as sdk:
            return await sdk.run(definition, session="s", artifact=artifact)

    return run(main())


def test_agent_that_claims_success_while_the_check_fails_is_sent_back(tmp_path: Path) -> None:
    """It reports `stop` and `verdict: pass` each time; the check passes at the second."""
    counts = "test -e .git/second || { touch .git/second; echo two failures; exit 1; }"
    plan = pipeline(node(runs=3, checks=[{"name": "test", "run": counts}]))
    result = ran(tmp_path, plan, says("it works", "stop", verdict="pass"))
    assert result.status is RunStatus.COMPLETED
    first, second = found(tmp_path, "check_complete")
    assert (first["status"], second["status"]) == ("fail", "pass")
    assert "two failures" in first["feedback"]
    assert [verdict["verdict"] for verdict in found(tmp_path, "stage_verdict")] == ["pass"]
    prompt = (run_dir(tmp_path) / "stage-00-plan/iterations/002/prompt.md").read_text()
    assert "two failures" in prompt
    assert first["tree_before"] == first["tree_after"] is not None
    assert found(tmp_path, "check_prepared")[0]["files"] == {"tree": first["tree_before"]}
    assert not list(run_dir(tmp_path).rglob("*before*"))


def test_check_that_fails_at_the_maximum_fails_the_run(tmp_path: Path) -> None:
    result = ran(tmp_path, pipeline(node(checks=[{"name": "test", "run": "exit 3"}])))
    assert result.status is RunStatus.FAILED
    (failed,) = found(tmp_path, "session_failed")
    assert failed["type"] == "checks_failed"


def test_command_that_cannot_be_started_is_an_error_of_the_check(tmp_path: Path) -> None:
    result = ran(tmp_path, pipeline(node(runs=3, checks=[{"name": "test", "run": "no-such-program-1"}])))
    assert result.status is RunStatus.FAILED
    (failed,) = found(tmp_path, "session_failed")
    assert failed["type"] == "check_error"
    assert len(found(tmp_path, "iteration_start")) == 1


def test_rule_about_a_file_is_applied_without_a_program(tmp_path: Path) -> None:
    """The link leads out of the project at first; the second iteration writes the file."""
    (tmp_path.parent / "outside.md").write_text("# Guide")

    def write(request: Any) -> Any:
        guide = tmp_path / "guide.md"
        if guide.is_symlink():
            guide.unlink()
            guide.write_text("# Guide")
        else:
            guide.symlink_to("../outside.md")
        return says("done", "stop")(request)

    checks = [
        {"name": "guide", "file": {"path": "guide.md", "heading": "Guide"}},
        {"name": "draft", "file": {"path": "draft.md"}, "expect": "fail"},
    ]
    assert ran(tmp_path, pipeline(node(runs=3, checks=checks)), write).completed
    first, *others = found(tmp_path, "check_complete")
    assert first["reason"] == "guide.md: it can't be read: it is outside the workspace"
    assert "output" not in first
    assert [(each["check"], each["status"]) for each in others] == [
        ("draft", "pass"),
        ("guide", "pass"),
        ("draft", "pass"),
    ]
    assert others[1]["tree_before"] == others[1]["tree_after"] != first["tree_after"]


def test_files_that_change_outside_of_the_scope_are_named(tmp_path: Path) -> None:
    """Each visit begins with its own files: at the second, the new one is there already."""
    (tmp_path / "kept.md").write_text("before")
    (tmp_path / "gone.md").write_text("before")

    def write(request: Any) -> Any:
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src/a.py").write_text(request.prompt)
        (tmp_path / "b.md").touch()
        (tmp_path / "gone.md").unlink(missing_ok=True)
        return says("done", "stop")(request)

    plan = pipeline(
        node("plan"), node("build", checks=[{"name": "only", "scope": ["src/"]}], on={"fail": "plan"})
    )
    assert ran(tmp_path, plan, says("done", "stop"), write, says("done", "stop")).completed
    outcomes = found(tmp_path, "check_complete")
    assert [outcome["status"] for outcome in outcomes] == ["pass", "fail", "pass", "pass"]
    assert outcomes[1]["signatures"] == [
        "b.md: changed, but only src/ may change",
        "gone.md: changed, but only src/ may change",
    ]


def test_failures_that_were_there_before_the_first_agent_do_not_count(tmp_path: Path) -> None:
    """Thousands of them, and a command that fails without saying what."""
    old = "".join(f"old{number}.py:1:1: E501 too long\n" for number in range(6_000))
    (tmp_path / "lint.txt").write_text(old)

    def write(request: Any) -> Any:
        new = "" if "new.py" in request.prompt else "new.py:3:1: F401 unused\n"
        (tmp_path / "lint.txt").write_text(new + old)
        return says("done", "stop")(request)

    checks = [
        {"name": "lint", "run": "cat lint.txt; exit 1", "parse": "lines", "regressions": True},
        {"name": "red", "run": "exit 3", "regressions": True, "at": "start"},
    ]
    plan = pipeline(node("plan"), node("build", checks=checks, on={"fail": "build"}))
    assert ran(tmp_path, plan, says("done", "stop"), write).completed
    outcomes = found(tmp_path, "check_complete")
    # The first is too large for the log, which has its hash.
    outcomes = [one for one in outcomes if one]
    shown = [(one["check"], "baseline" in one, one["status"], one.get("before", 0)) for one in outcomes]
    assert shown == [
        ("red", True, "fail", 0),
        ("lint", False, "fail", 6_000),
        ("lint", False, "pass", 6_000),
    ]
    assert outcomes[0]["found"] == {"unusable": "it fails: exit status 3"}
    assert outcomes[1]["reason"] == "1 new failure (6,000 failed before too)"
    assert outcomes[1]["signatures"] == ["new.py F401: unused"]
    assert outcomes[1]["feedback"].startswith("check 'lint': fail, 1 new failure (6,000 failed before too)\n")
    kinds = [
        json.loads(line)["type"] for line in (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines()
    ]
    last_baseline = [index for index, kind in enumerate(kinds) if kind == "check_complete"][1]
    assert last_baseline < kinds.index("attempt_start")


def test_criteria_of_an_item_are_verified_and_no_command_line_of_an_agent_is_run(tmp_path: Path) -> None:
    criteria = [
        "it is nice",
        {"file": {"path": "a.md", "contains": "two"}},
        {"command": "test"},
        {"command": "touch ran"},
    ]
    steps = {"steps": [{"id": "a", "criteria": criteria[:3]}]}
    wrong = {"steps": [*steps["steps"], {"id": "b", "criteria": criteria[3:]}]}

    def work(request: Any) -> Any:
        file = tmp_path / "a.md"
        file.write_text("one, two" if file.exists() else "one")
        return says("done")(request)

    items = {"type": "items", "from": "initial.steps", "criteria": "criteria"}
    plan = pipeline(node(termination=items, on={"fail": "end"}), commands={"test": "grep -q two a.md"})
    reason = "item 'b': criterion 1 can't be verified: no command has this name; there are: test"
    with pytest.raises(InvalidRequest, match=re.escape(reason)):
        ran(tmp_path, plan, work, artifact=wrong)
    assert ran(tmp_path, plan, work, artifact=steps).completed
    outcomes = [(one["check"], one["status"]) for one in found(tmp_path, "check_complete")]
    assert outcomes == [("criteria", "fail"), ("test", "fail"), ("criteria", "pass"), ("test", "pass")]
    assert [(one["item"], one["status"]) for one in found(tmp_path, "item_ended")] == [("a", "done")]
    assert not (tmp_path / "ran").exists()


def test_check_that_hangs_is_ended_at_its_time_limit(tmp_path: Path) -> None:
    check = {"name": "test", "run": "sleep 600 & wait", "timeout": 0.5}
    result = ran(tmp_path, pipeline(node(checks=[check])))
    assert result.status is RunStatus.FAILED
    (ended,) = found(tmp_path, "check_complete")
    assert ended["status"] == "timeout"


def test_check_whose_output_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A limit of the supervisor's files stands for a full disk."""
    limit = "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_FSIZE, (65536, 65536))"
    prints = f"{sys.executable} -c '{limit}' $PPID; head -c 200000 /dev/zero | tr '\\0' x"
    result = ran(tmp_path, pipeline(node(checks=[{"name": "test", "run": prints}])))
    assert result.error_type == "check_error"
    (ended,) = found(tmp_path, "check_complete")
    assert (ended["status"], ended["problem"], ended["exit_code"]) == ("error", "unreadable", 0)
    assert ended["reason"].startswith("its output is incomplete: can't write the output: File too large")


def test_outcome_of_a_check_is_void_if_files_change_meanwhile(tmp_path: Path) -> None:
    writes = "date +%N%s >> changed.txt"
    result = ran(tmp_path, pipeline(node(checks=[{"name": "test", "run": writes}])))
    assert result.status is RunStatus.FAILED
    ended = found(tmp_path, "check_complete")
    assert [outcome["changed"] for outcome in ended] == [["changed.txt"]] * 3
    (failed,) = found(tmp_path, "session_failed")
    assert "changed.txt" in failed["message"]


BREAK = "printf '[not a setting' > .git/config"


def test_outcome_without_a_tree_counts_and_says_so(tmp_path: Path) -> None:
    def act(request: Any) -> Any:
        subprocess.run(["sh", "-c", BREAK], cwd=tmp_path, check=True)
        return says("done", "stop")(request)

    assert ran(tmp_path, pipeline(node(checks=[{"name": "test", "run": "true"}])), act).completed
    (ended,) = found(tmp_path, "check_complete")
    assert "tree_after" not in ended
    assert "bad config" in ended["tree_problem"]


def test_outcome_is_void_if_only_the_tree_after_the_check_is_missing(tmp_path: Path) -> None:
    assert ran(tmp_path, pipeline(node(checks=[{"name": "test", "run": BREAK}]))).completed
    first, second = found(tmp_path, "check_complete")
    assert first["changed"] == ["unknown files"]
    assert "bad config" in first["tree_problem"]
    assert "changed" not in second, "there was no tree before the second run"


def test_report_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    report = '<testsuite><testcase classname="a" name="b"/></testsuite>'
    (tmp_path / "report.xml").write_text(report)
    check = {"name": "test", "run": "true", "parse": "junit", "report": "report.xml"}
    ran(tmp_path, pipeline(node(checks=[check])))
    (ended,) = found(tmp_path, "check_complete")
    assert (ended["status"], ended["problem"]) == ("error", "no_report")


def test_report_that_the_check_writes_is_not_a_change_of_the_files(tmp_path: Path) -> None:
    writes = """echo '<testsuite><testcase classname="a" name="b"/></testsuite>' > report.xml"""
    check = {"name": "test", "run": writes, "parse": "junit", "report": "report.xml"}
    assert ran(tmp_path, pipeline(node(checks=[check]))).completed
    (ended,) = found(tmp_path, "check_complete")
    assert (ended["status"], ended["counts"]) == ("pass", {"passed": 1})
    assert ended["tree_before"] == ended["tree_after"]


def test_a_report_may_be_left_outside_of_the_project(tmp_path: Path) -> None:
    writes = """echo '<testsuite><testcase classname="a" name="b"/></testsuite>' > "$AGENTFORGE_REPORT" """
    check = {"name": "test", "run": writes, "parse": "junit"}
    assert ran(tmp_path, pipeline(node(checks=[check]))).completed
    (ended,) = found(tmp_path, "check_complete")
    assert (ended["status"], ended["tests"]["counts"]) == ("pass", {"passed": 1})
    (report,) = run_dir(tmp_path).rglob("junit.xml")
    assert report.parent.name.endswith(".report")


@pytest.mark.parametrize("writes", ["true", "mkdir $AGENTFORGE_REPORT", "truncate -s 17M $AGENTFORGE_REPORT"])
def test_a_check_without_its_report_has_no_result(tmp_path: Path, writes: str) -> None:
    check = {"name": "test", "run": f"{writes} # $AGENTFORGE_REPORT", "parse": "junit"}
    ran(tmp_path, pipeline(node(checks=[check])))
    (ended,) = found(tmp_path, "check_complete")
    assert (ended["status"], ended["problem"]) == ("error", "no_report" if writes == "true" else "unreadable")


def test_report_that_differs_each_time_is_not_progress(tmp_path: Path) -> None:
    failure = '<testsuite><testcase classname="a" name="b" time="$N"><failure/></testcase></testsuite>'
    writes = f"N=$(date +%N); cat > out/report.xml <<END\n{failure}\nEND\nexit 1"
    (tmp_path / "out").mkdir()
    check = {"name": "test", "run": writes, "parse": "junit", "report": "./out/report.xml"}
    result = ran(tmp_path, pipeline(node(checks=[check], on={"fail": "plan"}, limits={"cycles": 5})))
    assert [request.reason for request in result.requests] == ["no_progress"]


def test_report_that_is_too_large_is_an_error_of_the_check(tmp_path: Path) -> None:
    check = {"name": "test", "run": "truncate -s 17M report.xml", "parse": "junit", "report": "report.xml"}
    assert ran(tmp_path, pipeline(node(checks=[check]))).status is RunStatus.FAILED
    (ended,) = found(tmp_path, "check_complete")
    assert (ended["status"], ended["problem"]) == ("error", "unreadable")
    (failed,) = found(tmp_path, "session_failed")
    assert failed["type"] == "check_error"
    assert "the JUnit report can't be read: it is larger than 16 MB" in failed["message"]


def test_secrets_in_the_report_of_a_check_reach_no_file_of_the_run(tmp_path: Path) -> None:
    """Neither whole nor with its numbers replaced, also not where further failures are listed."""
    secret = "sk-live 4242 & pw"
    case = f"<testcase name='{{}}'><failure message='not {secret.replace('&', '&amp;')}'/></testcase>"
    cases = "".join(map(case.format, range(60)))
    (tmp_path / "from.xml").write_text(f"<testsuite>{cases}</testsuite>")
    run_it = "cp from.xml report.xml; exit 1"
    check = {"name": "test", "run": run_it, "parse": "junit", "report": "report.xml"}
    result = ran(tmp_path, pipeline(node(runs=2, checks=[check])), environ={**ENVIRON, "MY_API_KEY": secret})
    assert result.status is RunStatus.FAILED
    written = {
        path.name: path.read_bytes() for path in sorted(run_dir(tmp_path).rglob("*")) if path.is_file()
    }
    listed = [content for name, content in written.items() if name.endswith(".failures.jsonl")]
    assert {content.count(b"\n") for content in listed} == {60}
    assert b"not [secret]" in written["context.json"]
    assert [name for name, content in written.items() if b"sk-live" in content] == []


def test_failing_check_leads_back_to_an_earlier_stage_and_asks_at_the_limit(tmp_path: Path) -> None:
    verify = node("verify", checks=[{"name": "test", "run": "cat n; exit 1"}], on={"fail": "plan"})
    acts = iter(range(100))

    def act(request: Any) -> Any:
        (tmp_path / "n").write_text(str(next(acts)))
        return says("done", "stop")(request)

    result = ran(tmp_path, pipeline(node(), verify, limits={"cycles": 2}), act)
    assert result.status is RunStatus.PAUSED
    (transition,) = found(tmp_path, "stage_transition")
    assert (transition["from"], transition["to"], transition["cycle"], transition["of"]) == (
        "verify",
        "plan",
        2,
        2,
    )
    (request,) = result.requests
    assert request.reason == "cycle_limit"
    assert (run_dir(tmp_path) / "stage-00-plan/run-002/iterations/001/prompt.md").exists()


def test_verdict_of_an_agent_leads_along_its_route(tmp_path: Path) -> None:
    """The first review names a verdict of the stage, the second the node to go to, the third nothing."""
    review = node("review", verdicts=["blocking"], on={"blocking": "plan", "reject": "plan"})
    written = says("planned", "stop")
    turns = (
        written,
        says("reviewed", verdict="Blocking", reason="too slow"),
        written,
        says("reviewed", next="plan", reason="still slow"),
        written,
        says("reviewed", next="deploy"),
    )
    result = ran(tmp_path, pipeline(node(), review), *turns)
    assert result.status is RunStatus.COMPLETED
    transitions = found(tmp_path, "stage_transition")
    assert [(went["verdict"], went["reason"]) for went in transitions] == [
        ("blocking", "too slow"),
        ("blocking", "still slow"),
    ]
    assert found(tmp_path, "stage_verdict")[-1]["verdict"] == "pass"
    prompt = (run_dir(tmp_path) / "stage-00-plan/run-002/iterations/001/prompt.md").read_text()
    assert "too slow" in prompt


def test_undeclared_verdict_fails_the_run_and_names_those_that_are_allowed(tmp_path: Path) -> None:
    review = node("review", verdicts=["blocking"], on={"blocking": "ask"})
    result = ran(tmp_path, pipeline(review), says("reviewed", verdict="awful"))
    assert result.status is RunStatus.FAILED
    (failed,) = found(tmp_path, "session_failed")
    assert failed["type"] == "result_invalid"
    assert "'awful'" in failed["message"]
    assert "pass, fail, reject, blocking" in failed["message"]


FAILS = [{"name": "test", "run": "exit 1"}]


def test_person_skips_a_check_and_the_log_records_who_and_why(tmp_path: Path) -> None:
    async def main() -> RunResult:
        async with engine(tmp_path, ScriptedProvider([says("done", "stop")])) as sdk:
            failed = await sdk.run(pipeline(node(checks=FAILS)), session="s")
            assert failed.status is RunStatus.FAILED
            return await sdk.resume("s", skip_checks={"test": " the \x1b[1mserver\udcff\nis down "})

    result = run(main())
    assert result.completed
    (waived,) = found(tmp_path, "waived")
    assert [msgspec.to_builtins(each) for each in result.waivers] == [waived]
    user, reason = pwd.getpwuid(os.getuid()).pw_name, "the \x1b[1mserver\ufffd\nis down"
    assert (waived["check"], waived["reason"], waived["by"]) == ("test", reason, user)
    assert len(found(tmp_path, "check_start")) == 1
    verdict = found(tmp_path, "stage_verdict")[-1]
    assert (verdict["verdict"], verdict["waived"]) == ("pass", ["test"])


@pytest.mark.parametrize(
    ("skipped", "environ", "error"),
    [
        ({"tset": "why"}, {}, "the pipeline has no check 'tset'"),
        ({"test": " "}, {}, "needs a reason"),
        ({"test": "x" * 2_001}, {}, "at most 2,000 characters"),
        ({"test": "why"}, {MARK: "another-run/1"}, "only a person may skip a check"),
    ],
)
def test_check_is_not_skipped_by_agents_nor_without_a_reason(
    tmp_path: Path, skipped: dict[str, str], environ: dict[str, str], error: str
) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("done", "stop")])
        async with Engine(tmp_path, providers={"scripted": provider}, environ=environ) as sdk:
            compiled = sdk.compile(pipeline(node(checks=FAILS)), session="s")
            for call in (sdk.start, sdk.validate_start):
                with pytest.raises(AgentForgeError, match=error):
                    await call(compiled, skip_checks=skipped)

    run(main())
    assert not run_dir(tmp_path).exists()


def test_failed_stage_is_retried_with_further_attempts(tmp_path: Path) -> None:
    retry = {"max_attempts": 1, "initial_delay": 0, "stage": 2}
    wrong = says("tried", "error", reason="no idea")
    result = ran(tmp_path, pipeline(node(retry=retry)), wrong, wrong, says("done", "stop"))
    assert result.completed
    tries = found(tmp_path, "stage_retry")
    assert [(each["number"], each["of"], each["type"]) for each in tries] == [
        (1, 2, "agent_error"),
        (2, 2, "agent_error"),
    ]
    assert [each["attempt"] for each in found(tmp_path, "attempt_start")] == [1, 2, 3]


def test_each_resume_of_a_stage_over_items_gives_a_failed_item_another_visit(tmp_path: Path) -> None:
    """Also if the check of that item was the last thing that happened."""
    passes = "test -e .git/mended"
    over = {"type": "items", "from": "initial.steps"}
    plan = pipeline(node(termination=over, checks=[{"name": "test", "run": passes, "at": "iteration"}]))
    steps = {"steps": [{"id": "b", "after": ["a"]}, {"id": "a"}]}
    result = ran(tmp_path, plan, artifact=steps)
    assert result.status is RunStatus.FAILED

    async def resumed() -> RunResult:
        async with engine(tmp_path) as sdk:
            return await sdk.resume("s")

    assert run(resumed()).status is RunStatus.FAILED
    (tmp_path / ".git/mended").touch()
    assert run(resumed()).status is RunStatus.COMPLETED
    begun = [start["item"] for start in found(tmp_path, "iteration_start")]
    assert begun == ["a", "a", "a", "a", "a", "b"]
    reasons = {fact["message"] for fact in found(tmp_path, "session_failed")}
    assert reasons == {"failed items: a; not done, because they depend on these: b"}


def test_every_test_of_a_report_is_kept_with_its_status(tmp_path: Path) -> None:
    """The real pytest: one test passes, one fails, one is skipped."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_n(n): assert n == 1\n"
        "@pytest.mark.skip(reason='later')\n"
        "def test_later(): pass\n"
    )
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider --junitxml=report.xml"
    check = {"name": "test", "run": command, "parse": "junit", "report": "report.xml"}
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    assert ran(tmp_path, pipeline(node(checks=[check]))).status is RunStatus.FAILED
    (ended,) = found(tmp_path, "check_complete")
    assert ended["tests"]["counts"] == ended["counts"] == {"passed": 1, "failed": 1, "skipped": 1}
    tests = json.loads((run_dir(tmp_path) / ended["tests"]["file"]).read_bytes())
    assert [one[:2] for one in tests] == [
        ["test_it::test_later", "skipped"],
        ["test_it::test_n[1]", "passed"],
        ["test_it::test_n[2]", "failed"],
    ]


PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider --junitxml=report.xml"
SLUGS = "from slugs import slug\ndef test_slug(): assert slug('A b') == 'a-b'\n"


@pytest.mark.parametrize(
    ("written", "reasons"),
    [
        ({"test_slugs.py": SLUGS}, [""]),
        ({"test_slugs.py": f"{SLUGS}def broken(:\n"}, ["1 test can't run: test_slugs: SyntaxError"]),
        ({"test_slugs.py": "def test_slug(): assert True\n"}, ["1 of 1 test passed, but none may"]),
        ({"pytest.ini": "[pytest]\naddopts = --odd\n"}, ["it left no report"]),
        ({}, ["no new test was executed"]),
    ],
)
def test_new_tests_have_to_fail_for_a_reason_of_the_code(
    tmp_path: Path, written: dict[str, str], reasons: list[str]
) -> None:
    """A first version is wrong, and the second one is right. The project has a test that passes."""
    (tmp_path / "test_old.py").write_text("def test_old(): pass\n")
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    versions = [written, {"test_slugs.py": SLUGS, "pytest.ini": "[pytest]\n"}]

    def write(request: Any) -> Any:
        for name, text in versions.pop(0).items():
            (tmp_path / name).write_text(text)
        return says("done", "stop")(request)

    check = {"name": "test", "run": PYTEST, "parse": "junit", "report": "report.xml", "expect": "red"}
    plan = pipeline(node(runs=2, checks=[{**check, "regressions": True}]))
    assert ran(tmp_path, plan, write).completed
    baseline, *outcomes = found(tmp_path, "check_complete")
    assert baseline["found"]["tests"]["counts"] == {"passed": 1}
    last = outcomes.pop()
    assert (last["status"], last.get("reason", "")) == ("pass", "")
    for one, reason in zip(outcomes, filter(None, reasons), strict=True):
        assert one["reason"].startswith(reason)
        assert one["status"] == "fail"
