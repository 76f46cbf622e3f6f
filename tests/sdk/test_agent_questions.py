"""Agents that ask a person: the run waits, and the next iteration gets the answers."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.code_blocks import code_blocks
from tests.sdk.projects import ENVIRON, engine, iteration_dir, load, node, pipeline, run, run_dir, types

from agentforge.model import facts as f
from agentforge.model.status import RunStatus
from agentforge.ports.provider import ExecuteRequest
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.mock_sessions import mock_session
from agentforge.testing.scripted_provider import Act, returns, says
from agentforge.views.results import RunResult

WHICH = {"id": "db", "question": "Which database?", "options": ["sqlite", "postgres"]}
LOG = {"id": "log", "question": "Keep the log?", "default": "yes", "blocking": False}

# It does what its prompt says: it asks as in the example there, and uses the answer that it gets.
AGENT = r"""cat > prompt.txt
if grep -q -e '^----- answers' prompt.txt; then
  sed -n 's/.*"answer":"\([a-z]*\)".*/-- for \1/p' prompt.txt > schema.sql
  echo '{"summary": "wrote the schema", "decision": "stop"}' > "$AGENTFORGE_RESULT"
else
  sed -n 's/^ *\({"decision": "ask".*}\)$/\1/p' prompt.txt > "$AGENTFORGE_RESULT"
fi
"""


def test_paragraph_of_the_docs_makes_a_command_ask(tmp_path: Path) -> None:
    (example,) = (block for block in code_blocks("docs/pipelines.md", "yaml") if block.path == "ask.yaml")
    definition = yaml.safe_load(example.text)
    definition["nodes"][0] |= {"provider": {"type": "command", "run": AGENT}, "delay": 0}

    async def main() -> RunResult | None:
        async with Engine(tmp_path, environ=ENVIRON) as sdk:
            waiting = await sdk.run(definition, session="s")
            (request,) = waiting.requests
            assert waiting.status is RunStatus.AWAITING_APPROVAL
            assert (request.kind, request.subject, request.question) == ("question", "db", "Which database?")
            assert request.options == ("sqlite", "postgres")
            return await sdk.answer("s", "postgres", by="alice")

    result = run(main())
    assert result is not None
    assert result.completed
    assert (tmp_path / "schema.sql").read_text() == "-- for postgres\n"
    first, second = (
        load(iteration_dir(tmp_path, number, "stage-00-schema") / "context.json") for number in (1, 2)
    )
    assert "answers" not in first
    assert second["answers"] == [
        {"id": "db", "question": "Which database?", "answer": "postgres", "by": "alice"}
    ]


def asker(**result: Any) -> ScriptedProvider:
    """Asks until its prompt has answers."""

    def act(request: ExecuteRequest) -> Act:
        if "----- answers" in request.prompt:
            return says("done")
        return says("a question", "ask", **result)

    return ScriptedProvider(act)


def test_questions_that_do_not_block_are_answered_by_their_defaults(tmp_path: Path) -> None:
    provider = asker(questions=[LOG])

    async def main() -> RunResult:
        async with engine(tmp_path, provider) as sdk:
            return await sdk.run(pipeline(node(runs=1)), session="s")

    assert run(main()).completed
    assert '"answer":"yes","by":"default"' in provider.calls[1].prompt
    assert types(tmp_path).count("request_answered") == 1


def test_light_provider_gets_the_answers_in_its_prompt(tmp_path: Path) -> None:
    acts = [returns("asked", "ask", questions=[WHICH]), returns("done")]
    provider = ScriptedProvider(acts, uses_files=False)

    async def main() -> None:
        async with engine(tmp_path, provider) as sdk:
            await sdk.run(pipeline(node(runs=1)), session="s")
            result = await sdk.answer("s", "sqlite")
            assert result is not None
            assert result.completed

    run(main())
    assert '"answer":"sqlite","by":"person"' in provider.calls[1].prompt


@pytest.mark.parametrize("questions", [[], [{"id": "db"}], "Which?"])
def test_asking_nothing_fails_the_attempt_with_a_hint(tmp_path: Path, questions: Any) -> None:
    async def main() -> RunResult:
        async with engine(tmp_path, asker(questions=questions)) as sdk:
            return await sdk.run(pipeline(node(retry={"max_attempts": 1})), session="s")

    result = run(main())
    assert result.error_type == "result_invalid"
    assert 'the decision is "ask", but the result has no questions: write them as' in str(result.error)


def test_mock_asks_with_a_fixture(tmp_path: Path) -> None:
    session = mock_session(
        tmp_path,
        {"result-1.json": {"decision": "ask", "questions": [WHICH]}, "result-2.json": {"decision": "stop"}},
    )
    result = session.run(pipeline(node(provider="mock")))
    assert result.status is RunStatus.AWAITING_APPROVAL
    opened = [event.fact for event in session.events() if isinstance(event.fact, f.RequestOpened)]
    assert [(fact.kind, fact.subject, fact.options) for fact in opened] == [
        ("question", "db", ("sqlite", "postgres"))
    ]


def test_judge_sees_no_answers(tmp_path: Path) -> None:
    """The iteration that asks is not judged, and what people said is not part of the judge's prompt."""
    judge = ScriptedProvider(
        [says("x", output='{"stop": true, "reason": "fine", "confidence": 1}')], name="judge"
    )

    async def main() -> RunResult | None:
        agent = asker(questions=[WHICH])
        judged = node(termination={"type": "judgment", "max": 3, "min_iterations": 1, "consensus": 1})
        environ = {**ENVIRON, "JUDGE_PROVIDER": "judge"}
        async with Engine(tmp_path, providers={"scripted": agent, "judge": judge}, environ=environ) as sdk:
            await sdk.run(pipeline(judged), session="s")
            return await sdk.answer("s", "sqlite")

    result = run(main())
    assert result is not None
    assert result.completed
    assert len(judge.calls) == 1
    assert "sqlite" not in judge.calls[0].prompt


def test_value_of_a_secret_in_an_answer_is_not_stored(tmp_path: Path) -> None:
    environ = {**ENVIRON, "DEPLOY_TOKEN": "hunter2-hunter2"}
    provider = asker(questions=[{"id": "key", "question": "Which key?"}])

    async def main() -> None:
        async with engine(tmp_path, provider, environ=environ) as sdk:
            await sdk.run(pipeline(node(runs=2)), session="s")
            await sdk.answer("s", "take hunter2-hunter2")

    run(main())
    (left,) = (run_dir(tmp_path) / "answers").iterdir()
    assert load(left)["answer"] == "take ${secret:DEPLOY_TOKEN}"
