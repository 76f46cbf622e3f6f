"""What an agent concludes in its result: a verdict, or the node to go to next."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from tests.engine.plans import stage

from agentforge.engine.claims import allowed_by
from agentforge.engine.normalise import normalise_result, normalise_returned
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import Route
from agentforge.model.result import Result

STAGE = stage(
    verdicts=("Blocking",),
    routes=(
        Route("fail", "go", "build"),
        Route("reject", "go", "plan"),
        Route("Blocking", "go", "plan"),
        Route("pass", "end"),
    ),
)
ALLOWED = allowed_by(STAGE)


def result_of(**written: Any) -> Result:
    result = normalise_result(json.dumps(written), None, ALLOWED)
    assert isinstance(result, Result)
    assert normalise_returned(written, ALLOWED) == result
    assert normalise_result(msgspec.json.encode(result).decode(), None, ALLOWED) == result
    return result


@pytest.mark.parametrize(
    ("given", "word"),
    [("pass", "pass"), (" Fail\n", "fail"), ("blocking", "Blocking"), ("", UNSET), (None, UNSET)],
)
def test_verdict_is_one_of_the_words_of_the_stage(given: str | None, word: object) -> None:
    result = result_of(verdict=given, reason="so it is")
    assert (result.verdict, result.reason, result.errors) == (word, "so it is", ())


@pytest.mark.parametrize("given", ["maybe", "passed", True, 1, ["pass"], {"pass": 1}, "x" * 10_000])
def test_undeclared_verdict_makes_the_result_invalid(given: object) -> None:
    failure = normalise_result(json.dumps({"verdict": given}), None, ALLOWED)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.RESULT_INVALID
    assert "pass, fail, reject, Blocking" in failure.message
    assert len(failure.message) < 300


def test_stage_without_verdicts_accepts_those_of_every_stage() -> None:
    failure = normalise_result('{"verdict": "blocking"}', None)
    assert isinstance(failure, Failure)
    assert "one of pass, fail, reject, got" in failure.message
    older = normalise_result(None, '{"decision": "stop", "verdict": "reject"}')
    assert isinstance(older, Result)
    assert older.verdict == "reject"


@pytest.mark.requirement("FR-022")
@pytest.mark.parametrize(
    ("written", "verdict", "remark"),
    [
        ({"next": "build"}, "fail", ""),
        ({"next": "plan"}, "reject", ""),
        ({"next": "deploy"}, UNSET, "next 'deploy' ignored: no route of the stage leads there"),
        ({"next": ["build"]}, UNSET, ""),
        ({"next": ""}, UNSET, ""),
        ({"verdict": "fail", "next": "build"}, "fail", ""),
        ({"verdict": "Blocking", "next": "plan"}, "Blocking", ""),
        ({"verdict": "pass", "next": "build"}, "pass", "next 'build' ignored: the verdict 'pass' decides"),
    ],
)
def test_next_node_counts_only_if_a_route_leads_there(
    written: dict[str, Any], verdict: object, remark: str
) -> None:
    result = result_of(**written)
    assert (result.verdict, result.errors) == (verdict, (remark,) if remark else ())
