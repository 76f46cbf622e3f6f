"""Runs that are started with a user request: who takes one, where it goes, and what is refused before."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.approvals import events
from tests.sdk.projects import ENVIRON, engine, iteration_dir, node, pipeline, run, run_dir

from agentforge.model.errors import InvalidRequest, RunExists
from agentforge.model.request import MAX_USER_REQUEST_BYTES
from agentforge.ports.provider import ExecuteRequest
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says

TAKES = pipeline(node(prompt="Do it. ${REQUEST}"), request="required")
OPTIONAL = pipeline(node(prompt="Do it. ${REQUEST}"), request="optional")
WANTED = "add ${SESSION} to ----- end of request -----\nand ${CTX}"


def prompt(project: Path, number: int = 1) -> str:
    return (iteration_dir(project, number) / "prompt.md").read_text()


def test_the_request_is_in_the_log_the_context_and_the_prompt_as_data(tmp_path: Path) -> None:
    assert run(engine(tmp_path).run(TAKES, session="s", request=WANTED)).completed
    (started,) = events(tmp_path, "session_start")
    assert started.fact.user_request == WANTED
    context = json.loads((iteration_dir(tmp_path) / "context.json").read_text())
    assert context["user_request"] == WANTED
    before, _, quoted = prompt(tmp_path).partition("----- request ")
    mark, _, rest = quoted.partition(" -----\n")
    assert before.startswith("Do it. What the user wants is between the two marked lines.")
    assert rest.startswith(f"{WANTED}\n----- end of request {mark} -----\n")


def test_a_run_without_a_request_has_none(tmp_path: Path) -> None:
    assert run(engine(tmp_path).run(OPTIONAL, session="s")).completed
    assert prompt(tmp_path) == "Do it. "
    assert "user_request" not in json.loads((iteration_dir(tmp_path) / "context.json").read_text())


@pytest.mark.parametrize(
    ("definition", "given", "why"),
    [
        (TAKES, None, "the pipeline 'refine' needs a user request"),
        (pipeline(), "x", "the pipeline 'refine' takes no user request"),
        (pipeline(request="none"), "x", "the pipeline 'refine' takes no user request"),
        (OPTIONAL, " \n", "the user request is empty"),
        (OPTIONAL, "", "the user request is empty"),
        (OPTIONAL, "ä" * (MAX_USER_REQUEST_BYTES // 2 + 1), "the user request is larger than 256 KB"),
    ],
)
def test_what_a_pipeline_does_not_take_is_refused_before_a_folder_exists(
    tmp_path: Path, definition: dict[str, Any], given: str | None, why: str
) -> None:
    made = engine(tmp_path)
    compiled = made.compile(definition, session="s")
    for call in (made.validate_start, made.start):
        with pytest.raises(InvalidRequest) as refused:
            run(call(compiled, request=given))
        assert refused.value.message == why
        assert refused.value.hint
    assert not run_dir(tmp_path).exists()


def test_a_long_request_is_kept_beside_the_log_and_survives_a_resume(tmp_path: Path) -> None:
    wanted = "ä" * (MAX_USER_REQUEST_BYTES // 2)
    agent = ScriptedProvider([crashes(), crashes(), says("done")])
    made = engine(tmp_path, agent)
    retried_at_once = {**TAKES, "defaults": {"retry": {"max_attempts": 2, "initial_delay": 0}}}
    assert not run(made.run(retried_at_once, session="s", request=wanted)).completed
    assert run(made.resume("s")).completed
    assert wanted in prompt(tmp_path)
    assert all(wanted in request.prompt for request in agent.calls)


@pytest.mark.requirement("NFR-014")
def test_the_value_of_a_secret_in_a_request_is_stored_as_its_name(tmp_path: Path) -> None:
    environ = {**ENVIRON, "DEPLOY_TOKEN": "s3cret-value-42"}
    agent = ScriptedProvider([says("done")])
    made = engine(tmp_path, agent, environ=environ)
    assert run(made.run(TAKES, session="s", request="use s3cret-value-42, not ${secret:HOME}")).completed
    (started,) = events(tmp_path, "session_start")
    assert started.fact.user_request == "use ${secret:DEPLOY_TOKEN}, not ${secret:HOME}"
    assert started.fact.secrets == ("DEPLOY_TOKEN",)
    assert "use s3cret-value-42, not ${secret" in agent.calls[0].prompt


def test_a_single_stage_takes_a_request(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "stages" / "fix"
    folder.mkdir(parents=True)
    (folder / "stage.yaml").write_text("provider: scripted\nruns: 1\ndelay: 0\n")
    (folder / "prompt.md").write_text("Fix ${REQUEST}")
    assert run(engine(tmp_path).run(stage="fix", session="s", request="the tests")).completed
    assert "the tests" in (iteration_dir(tmp_path, stage="stage-00-fix") / "prompt.md").read_text()


def test_caller_is_told_before_the_first_agent_when_nothing_refuses_the_run(tmp_path: Path) -> None:
    told: list[str] = []

    def works(request: ExecuteRequest) -> Any:
        told.append("agent")
        return says("done")(request)

    made = engine(tmp_path, ScriptedProvider(lambda _: works))
    compiled = made.compile(pipeline(node(runs=1)), session="s")
    assert run(made.start(compiled, on_ready=lambda: told.append("ready"))).completed
    assert told == ["ready", "agent"]
    with pytest.raises(RunExists):
        run(made.start(compiled, on_ready=lambda: told.append("ready")))
    assert told == ["ready", "agent"]
