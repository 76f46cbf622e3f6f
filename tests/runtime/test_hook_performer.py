"""Hooks are called: webhooks against a real server, scripts under the real supervisor, functions."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from tests.runtime.attempt_run import ManualClock, lives, no_leftover_processes
from tests.runtime.hook_tasks import DELIVERY, HookEngine, hook, task_of
from tests.sdk.projects import eventually as soon
from tests.webhook_server import Reply, serving

from agentforge.model import facts as f
from agentforge.model.hook import HookResult
from agentforge.model.task import HookTask

NAMED = ("iteration_end-1", "iteration_end", DELIVERY, 1)


def perform(engine: HookEngine, task: HookTask, *, fresh: bool = True) -> f.AnyFact:
    with no_leftover_processes():
        return asyncio.run(engine.perform(task, fresh=fresh))


def completed(fact: f.AnyFact) -> f.HookCompleted:
    assert isinstance(fact, f.HookCompleted), fact
    assert (fact.hook, fact.point, fact.delivery, fact.attempt) == NAMED
    return fact


def failed(fact: f.AnyFact) -> f.HookFailed:
    assert isinstance(fact, f.HookFailed), fact
    assert (fact.hook, fact.point, fact.delivery, fact.attempt) == NAMED
    return fact


# -- webhooks


def test_a_webhook_sends_the_payload_and_its_answer_is_context(tmp_path: Path) -> None:
    with serving(Reply(body='{"context": "more tests"}')) as server:
        task = task_of(hook("webhook", url=server.url), provider="claude", notes=("a", "b"))
        fact = completed(perform(HookEngine(tmp_path), task))
    assert (fact.action, fact.context, fact.status) == ("modify_context", "more tests", 200)
    (received,) = server.received
    assert list(received.payload.items()) == [
        ("session", "auth"),
        ("stage", "plan"),
        ("iteration", 2),
        ("provider", "claude"),
        ("summary", ""),
        ("context", "a\nb"),
        ("event", "iteration_end"),
        ("status", "completed"),
        ("hook", "iteration_end-1"),
        ("delivery", DELIVERY),
        ("attempt", 1),
    ]
    assert received.key == DELIVERY


def test_every_try_of_a_webhook_has_the_same_key(tmp_path: Path) -> None:
    with serving(Reply(500), Reply(body="fine")) as server:
        engine, called = HookEngine(tmp_path), hook("webhook", url=server.url)
        assert failed(perform(engine, task_of(called))).retry
        again = perform(engine, task_of(called, attempt=2))
    assert isinstance(again, f.HookCompleted)
    assert (again.attempt, again.context) == (2, "fine")
    assert server.keys == [DELIVERY, DELIVERY]
    assert [request.payload["attempt"] for request in server.received] == [1, 2]


def test_a_webhook_is_signed_with_the_secret_of_its_variable(tmp_path: Path) -> None:
    with serving() as server:
        task = task_of(hook("webhook", url=server.url, secret="REVIEW_SECRET"))
        completed(perform(HookEngine(tmp_path, {"REVIEW_SECRET": "hush"}), task))
    assert server.received[0].is_signed_with("hush")


def test_a_webhook_without_its_secret_is_not_sent(tmp_path: Path) -> None:
    with serving() as server:
        task = task_of(hook("webhook", url=server.url, secret="REVIEW_SECRET"))
        fact = failed(perform(HookEngine(tmp_path), task))
    assert not fact.retry
    assert "REVIEW_SECRET" in fact.message
    assert not server.received


def test_an_invalid_answer_of_a_service_is_a_failure(tmp_path: Path) -> None:
    with serving(Reply(body='{"action": "explode"}')) as server:
        fact = failed(perform(HookEngine(tmp_path), task_of(hook("webhook", url=server.url))))
    assert (fact.retry, fact.status) == (False, 200)
    assert fact.message.startswith("its answer has the unknown action 'explode'")


def test_invalid_json_of_a_service_is_text(tmp_path: Path) -> None:
    with serving(Reply(body='{"context": ')) as server:
        fact = completed(perform(HookEngine(tmp_path), task_of(hook("webhook", url=server.url))))
    assert fact.context == '{"context":'


def test_secrets_and_escape_codes_of_an_answer_are_not_recorded(tmp_path: Path) -> None:
    with serving(Reply(body="\x1b[31mred\x1b[0m s3cr3t-value")) as server:
        fact = completed(perform(HookEngine(tmp_path), task_of(hook("webhook", url=server.url))))
    assert fact.context.startswith("red ")
    assert "s3cr3t" not in fact.context


def test_a_webhook_times_out(tmp_path: Path) -> None:
    with serving(Reply(hangs=True)) as server:
        task = task_of(hook("webhook", url=server.url, timeout=0.3))
        fact = perform(HookEngine(tmp_path), task)
    assert isinstance(fact, f.HookTimedOut)
    assert fact.duration_ms >= 300


@pytest.mark.parametrize("ending", [False, True])
def test_a_webhook_of_an_earlier_engine_is_lost(tmp_path: Path, ending: bool) -> None:
    with serving() as server:
        task = task_of(hook("webhook", url=server.url), ending=ending)
        assert perform(HookEngine(tmp_path), task, fresh=False) == f.HookLost(*NAMED)
    assert not server.received


# -- scripts

VARIABLES = """
import json, os, sys
json.dump({"action": "modify_context", "context": json.dumps(dict(os.environ))}, sys.stdout)
"""


def test_a_script_gets_its_variables_and_those_that_are_declared(tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text(VARIABLES)
    environ = {"DECLARED": "yes", "OTHER": "no", "AWS_TOKEN": "s3cr3t"}
    task = task_of(hook("script", script="python3 show.py", environment=("DECLARED",)), notes=("a", "b\0"))
    fact = completed(perform(HookEngine(tmp_path, environ), task))
    found = json.loads(fact.context)
    expected = {
        "AGENT_PIPELINES_SESSION": "auth",
        "AGENT_PIPELINES_STAGE": "plan",
        "AGENT_PIPELINES_ITERATION": "2",
        "AGENT_PIPELINES_CONTEXT": "a\nb\ufffd",
        "AGENTFORGE_HOOK": "iteration_end-1",
        "AGENTFORGE_EVENT": "iteration_end",
        "AGENTFORGE_HOOK_STATUS": "completed",
        "AGENTFORGE_DELIVERY": DELIVERY,
        "DECLARED": "yes",
        "CLAUDE_PIPELINE_AGENT": "1",
    }
    assert expected.items() <= found.items()
    assert not {"OTHER", "AWS_TOKEN"} & found.keys()


def test_a_script_runs_in_the_project_and_its_output_is_context(tmp_path: Path) -> None:
    task = task_of(hook("script", script="pwd; echo aside >&2"))
    fact = completed(perform(HookEngine(tmp_path), task))
    assert (fact.action, fact.context, fact.status) == ("modify_context", str(tmp_path), 0)


def test_a_script_decides_with_an_object(tmp_path: Path) -> None:
    task = task_of(hook("script", script="""echo '{"action": "pause", "reason": "look"}'"""))
    fact = completed(perform(HookEngine(tmp_path), task))
    assert (fact.action, fact.reason, fact.context) == ("pause", "look", "")


def test_the_output_of_a_script_is_truncated(tmp_path: Path) -> None:
    task = task_of(hook("script", script="yes 0123456789 | head -c 200000"))
    fact = completed(perform(HookEngine(tmp_path), task))
    assert fact.context.endswith("\n(truncated)")
    assert len(fact.context.encode()) <= 32 * 1024


@pytest.mark.parametrize(
    ("script", "status", "message"),
    [
        ("echo out; echo 'no such\n  thing' >&2; exit 3", 3, "exit status 3: no such thing"),
        ("echo out; exit 1", 1, "exit status 1: out"),
        ("kill -KILL $$", 137, "exit status 137"),
        ("no-such-program", 127, "exit status 127: "),
    ],
)
def test_a_script_that_fails(tmp_path: Path, script: str, status: int, message: str) -> None:
    fact = failed(perform(HookEngine(tmp_path), task_of(hook("script", script=script))))
    assert (fact.status, fact.retry) == (status, False)
    assert fact.message.startswith(message)


def test_a_script_that_no_system_accepts(tmp_path: Path) -> None:
    fact = failed(perform(HookEngine(tmp_path), task_of(hook("script", script="echo \0"))))
    assert "put it into a file" in fact.message


def test_a_script_that_takes_too_long_is_ended_with_its_descendants(tmp_path: Path) -> None:
    clock, child = ManualClock(tmp_path / "clock"), tmp_path / "child"
    script = "(setsid sleep 60 & echo $! > child); sleep 60"

    async def main() -> f.AnyFact:
        engine = HookEngine(tmp_path, supervisor=clock.write_supervisor())
        going = asyncio.create_task(engine.perform(task_of(hook("script", script=script, timeout=0.5))))
        await soon(lambda: child.exists() and child.read_text())
        clock.advance(5)
        return await going

    with no_leftover_processes():
        assert isinstance(asyncio.run(main()), f.HookTimedOut)
    assert not lives(int(child.read_text()))


HELD = "echo run >> runs; until [ -e go ]; do sleep 0.01; done; echo done"


async def left_running(project: Path, task: HookTask) -> None:
    """An engine starts the script and goes away."""
    first = HookEngine(project)
    going = asyncio.create_task(first.perform(task))
    await soon((project / "runs").exists)
    going.cancel()
    await asyncio.wait([going])


def test_the_next_engine_reattaches_to_a_script(tmp_path: Path) -> None:
    task = task_of(hook("script", script=HELD))

    async def main() -> f.AnyFact:
        await left_running(tmp_path, task)
        again = asyncio.create_task(HookEngine(tmp_path).perform(task, fresh=False))
        (tmp_path / "go").touch()
        return await again

    with no_leftover_processes():
        assert completed(asyncio.run(main())).context == "done"
    assert (tmp_path / "runs").read_text() == "run\n"


def test_the_next_engine_ends_a_script(tmp_path: Path) -> None:
    task = task_of(hook("script", script=f"(setsid sleep 60 & echo $! > child); {HELD}"))

    async def main() -> f.AnyFact:
        await left_running(tmp_path, task)
        ending = task_of(task.hook, ending=True)
        return await HookEngine(tmp_path).perform(ending, fresh=False)

    with no_leftover_processes():
        assert asyncio.run(main()) == f.HookLost(*NAMED)
    assert not lives(int((tmp_path / "child").read_text()))


def test_a_script_that_was_never_started_is_lost_at_no_cost(tmp_path: Path) -> None:
    engine, task = HookEngine(tmp_path), task_of(hook("script", script="touch ran"))
    assert perform(engine, task, fresh=False) == f.HookLost(*NAMED, started=False)
    assert not (tmp_path / "ran").exists()


def test_a_script_whose_supervisor_died_is_lost(tmp_path: Path) -> None:
    task, engine = task_of(hook("script", script=HELD)), HookEngine(tmp_path)

    async def main() -> f.AnyFact:
        going = asyncio.create_task(engine.perform(task))
        await soon((tmp_path / "runs").exists)
        claim = engine.claim(task)
        assert claim is not None
        os.kill(claim.pid, signal.SIGKILL)
        return await going

    with no_leftover_processes():
        assert asyncio.run(main()) == f.HookLost(*NAMED)


# -- functions


def called(engine: HookEngine, **keys: object) -> f.AnyFact:
    return perform(engine, task_of(hook("call", **keys)))


def test_a_function_answers(tmp_path: Path) -> None:
    async def review(task: HookTask) -> HookResult:
        return HookResult("answer", "because", f"context of {task.name}", "retry", "go")

    fact = completed(called(HookEngine(tmp_path, calls={"iteration_end-1": review})))
    assert (fact.action, fact.reason, fact.context) == ("answer", "because", "context of plan")
    assert (fact.answer, fact.text) == ("retry", "go")


def test_an_exception_of_a_function_is_a_failure(tmp_path: Path) -> None:
    async def review(task: HookTask) -> HookResult:
        raise KeyError("s3cr3t-value")

    fact = failed(called(HookEngine(tmp_path, calls={"iteration_end-1": review})))
    assert fact.message.startswith("KeyError: ")
    assert "s3cr3t" not in fact.message
    assert not fact.retry


def test_a_function_that_returns_something_else_is_a_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def review(task: HookTask) -> HookResult:
        return "pause"  # type: ignore[return-value]

    fact = failed(called(HookEngine(tmp_path, calls={"iteration_end-1": review})))
    assert fact.message == "it returned str instead of a HookResult"
    (record,) = caplog.records
    assert record.getMessage() == "hook iteration_end-1: it returned str instead of a HookResult"
    # A traceback would show our code, not the user's.
    assert record.exc_info is None


def test_a_function_times_out(tmp_path: Path) -> None:
    async def review(task: HookTask) -> HookResult:
        await asyncio.sleep(60)
        return HookResult()

    fact = called(HookEngine(tmp_path, calls={"iteration_end-1": review}), timeout=0.05)
    assert isinstance(fact, f.HookTimedOut)


def test_function_missing_in_this_process(tmp_path: Path) -> None:
    assert failed(called(HookEngine(tmp_path))).message == "this process has no such hook"


def test_a_function_that_an_earlier_engine_called_is_lost(tmp_path: Path) -> None:
    assert perform(HookEngine(tmp_path), task_of(hook("call")), fresh=False) == f.HookLost(*NAMED)
