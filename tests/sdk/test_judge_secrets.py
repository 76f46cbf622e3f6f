"""No secret of the engine's own environment is kept of what a judge says."""

from pathlib import Path

import pytest
from tests.sdk.projects import ENVIRON, run_dir
from tests.sdk.test_judge import answers, go, judgments, scripted

from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import ExecuteResult
from agentforge.testing.scripted_provider import Act

SECRET = "sk-0123456789-secret"
WITH_SECRET = {**ENVIRON, "DEPLOY_TOKEN": SECRET}


def expect_no_secret(project: Path) -> None:
    for path in run_dir(project).rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_a_secret_in_a_judgment_is_hidden(tmp_path: Path) -> None:
    judge = scripted(answers(f'{{"stop": true, "reason": "the token is {SECRET}"}}'))
    assert go(tmp_path, judge, environ=WITH_SECRET).completed
    assert judgments(tmp_path)[0]["result"]["reason"] == "the token is [secret]"
    expect_no_secret(tmp_path)


def test_a_secret_in_what_can_not_be_read_is_hidden(tmp_path: Path) -> None:
    judge = scripted(*[answers(f"no JSON, but {SECRET}")] * 9)
    go(tmp_path, judge, environ=WITH_SECRET)
    assert "[secret]" in next(run_dir(tmp_path).rglob("judge.log")).read_text()
    expect_no_secret(tmp_path)


def fails(_: object) -> ExecuteResult:
    return ExecuteResult(failure=Failure(FailureKind.PROVIDER_CRASHED, f"rejected {SECRET}"))


def refuses(_: object) -> ExecuteResult:
    raise ProviderUnusable(f"rejected {SECRET}")


@pytest.mark.parametrize("act", [fails, refuses])
def test_a_secret_in_the_failure_of_a_judge_is_hidden(tmp_path: Path, act: Act) -> None:
    go(tmp_path, scripted(*[act] * 9), environ=WITH_SECRET)
    assert "rejected [secret]" in judgments(tmp_path)[0]["error"]
    expect_no_secret(tmp_path)
