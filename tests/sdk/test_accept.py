"""Verdicts that a person overrides, in real runs, and what `RunResult` and `inspect` say about visits."""

from pathlib import Path

import pytest
from tests.sdk.projects import engine, node, pipeline, run
from tests.sdk.test_checks import found

from agentforge import Engine, RunResult
from agentforge.model.errors import InvalidAnswer
from agentforge.model.status import RunStatus
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

PLAN = pipeline(
    node("verify", checks=[{"name": "test", "run": "exit 1", "at": "start"}], on={"fail": "ask"}),
    node("last", verdicts=["small"], on={"small": "end"}),
    node("docs"),
)


def answered(project: Path, *texts: str) -> tuple[Engine, RunResult]:
    """Accept the failing check with each of the texts in turn."""

    async def main() -> tuple[Engine, RunResult]:
        provider = ScriptedProvider([says("done", "stop", verdict="small", reason="tiny")])
        async with engine(project, provider) as sdk:
            asked = await sdk.run(PLAN, session="s")
            assert (asked.status, asked.requests[0].reason) == (RunStatus.PAUSED, "verdict")
            assert "stage 'verify' ended with 'fail'" in asked.requests[0].question
            for text in texts:
                result = await sdk.answer("s", "accept", text=text, by="Ada")
            assert result is not None
            return sdk, result

    return run(main())


def test_result_that_a_person_accepts_keeps_its_verdict_with_who_and_why(tmp_path: Path) -> None:
    sdk, result = answered(tmp_path, "the server is down")
    assert result.completed
    verify, last = result.visits
    assert (verify.stage, verify.verdict, verify.failing) == ("verify", "fail", ("test",))
    assert (verify.accepted_by, verify.accept_reason) == ("Ada", "the server is down")
    (check,) = verify.checks
    assert (check.check, check.status, check.exit_code, check.iteration) == ("test", "fail", 1, 0)
    assert check.tree == verify.tree is not None
    assert (last.verdict, last.reason, last.to, last.skipped) == ("small", "tiny", "", ("docs",))
    info = sdk.inspect("s")
    assert info.summary.visits == result.visits
    assert list(info.state.skipped) == ["2"]
    done = found(tmp_path, "node_complete")[0]
    assert (done["verdict"], done["overridden_by"], done["override_reason"]) == (
        "fail",
        "Ada",
        "the server is down",
    )


def test_accept_needs_a_reason(tmp_path: Path) -> None:
    with pytest.raises(InvalidAnswer, match="'accept' requires a reason") as caught:
        answered(tmp_path, " ")
    assert caught.value.hint == "agentforge answer --reason TEXT s accept"
