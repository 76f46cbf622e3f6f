"""Real agents that are ended in the middle of a tool, or left alone by their engine."""

import asyncio
import os
import signal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agents.trial import PATIENCE, PROMPT, RESULT, WRITES, Trial, bounded, end, eventually, soon
from tests.runtime.attempt_run import lives

from agentforge.model.status import RunStatus
from agentforge.testing.model_server import Fault, Rule, Script, Shell, Turn, Write
from agentforge.views.results import RunResult

LATE = Script(
    (
        Turn("I wait.", (Shell("echo $$ > started.txt; sleep 600; echo late > late.txt"),)),
        Turn("Now the result.", (Write("{result}", RESULT),)),
        Turn("Late."),
    )
)
PATIENT = Script(
    (
        Turn("I wait.", (Shell("echo $$ >> started.txt; while [ ! -e go ]; do sleep 0.05; done"),)),
        Turn("Now the result.", (Write("{result}", RESULT),)),
        Turn("All done."),
    )
)

pytestmark = [pytest.mark.agents, pytest.mark.crash]


def has_started(trial: Trial) -> bool:
    """Whether the tool's shell wrote its pid: the file is there a moment earlier."""
    started = trial.project / "started.txt"
    return started.exists() and started.read_text().endswith("\n")


def has_saved(trial: Trial, text: str) -> bool:
    """Whether the agent has stored what the model said: a session that is resumed knows only that."""
    return any(text.encode() in path.read_bytes() for path in trial.home.rglob("*") if path.is_file())


def assert_nothing_comes_late(trial: Trial) -> None:
    """The processes that would have written have ended."""
    assert trial.processes() == []
    assert not lives(int((trial.project / "started.txt").read_text())), "the tool's shell"
    assert not trial.has("late.txt")


def test_engine_told_to_stop_ends_the_agent_in_the_middle_of_a_tool(trial: Trial) -> None:
    process = trial.start_engine(LATE)
    try:
        eventually(lambda: has_started(trial))
        # The first asks, the second doesn't wait for the iteration to end.
        process.send_signal(signal.SIGTERM)
        eventually(lambda: trial.facts("pause_requested"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 143
    finally:
        end(process)
    assert trial.only("session_paused")["reason"] == "signal_interrupt"
    assert_nothing_comes_late(trial)


def test_agent_ended_from_outside_leaves_no_tool_running(trial: Trial) -> None:
    async def main() -> RunResult:
        async with trial.engine(LATE) as engine:
            going = asyncio.create_task(engine.run(trial.pipeline(), session="s"))
            await soon(lambda: has_started(trial))
            # Gemini's program doesn't heed it, so the engine ends it for good.
            os.kill(trial.agent_pid(), signal.SIGKILL if trial.cli.name == "gemini" else signal.SIGTERM)
            return await going

    result = bounded(main())
    assert result.status is RunStatus.FAILED
    assert result.error_type == "provider_crashed", result.error
    assert_nothing_comes_late(trial)


def test_cancelled_agent_leaves_no_tool_running(trial: Trial) -> None:
    async def main() -> RunResult:
        async with trial.engine(LATE) as engine:
            going = asyncio.create_task(engine.run(trial.pipeline(), session="s"))
            await soon(lambda: has_started(trial))
            await engine.cancel("s")
            return await going

    assert bounded(main()).status is RunStatus.ABORTED
    assert_nothing_comes_late(trial)


def test_agent_outlives_its_engine_and_the_next_reattaches_to_it(trial: Trial) -> None:
    process = trial.start_engine(PATIENT)
    try:
        eventually(lambda: has_started(trial))
    finally:
        end(process)
    assert trial.processes(), "the agent outlives its engine"

    async def main() -> RunResult | None:
        async with trial.engine(PATIENT) as engine:
            assert engine.status("s").status == "interrupted"
            recovering = asyncio.create_task(engine.recover("s"))
            await soon(lambda: trial.facts("attempt_reattached"))
            (trial.project / "go").touch()
            return await recovering

    result = bounded(main())
    assert result is not None
    assert result.completed, result.error
    assert len((trial.project / "started.txt").read_text().split()) == 1, "the work was done once"
    assert [seen.step for seen in trial.requests()] == [0, 1, 2], "no question was asked twice"
    usage = trial.only("iteration_complete")["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (3000, 150)
    assert usage["agent_session"]


def earlier(trial: Trial, attempt: int) -> Any:
    return trial.facts("attempt_start")[attempt - 1].get("resume")


def test_next_attempt_resumes_the_agent_session(trial: Trial) -> None:
    """The first turn is done when the model fails for long enough that the CLI gives up."""
    status, times = trial.cli.gives_up
    script = replace(WRITES, faults=(Fault(status, times=times, after=1),))
    result = trial.run(script, retry={"max_attempts": 2, "initial_delay": 0.1})
    assert result.completed, result.error
    session = trial.only("error")["agent_session"]
    assert session
    assert (earlier(trial, 1), earlier(trial, 2)) == (None, session)
    resumed = [seen for seen in trial.requests() if seen.status == 200][1]
    assert [len(reply.calls) for reply in resumed.replies][:1] == [1], "it knows what it did"
    assert "Then write your result to" in "\n".join(resumed.prompts)
    # Codex doesn't say what a turn that failed has used, but what the session has in all.
    used = [trial.only(kind).get("usage") or {} for kind in ("error", "iteration_complete")]
    assert used[1]["agent_session"] == session
    assert [sum(one.get(name, 0) for one in used) for name in ("input_tokens", "output_tokens")] == [
        3000,
        150,
    ]


def test_agent_ended_in_a_tool_continues_after_a_resume(trial: Trial) -> None:
    # How many calls the agent remembers depends on when it is ended: none, if it stores a call with its
    # outcome; two, if it hears of its tool's end and asks for the next turn.
    continued = Rule("worked on the task below earlier", (LATE.turns[1],) * 3 + (LATE.turns[2],))
    script = replace(LATE, rules=(continued,))

    async def main() -> RunResult:
        async with trial.engine(script) as engine:
            going = asyncio.create_task(engine.run(trial.pipeline(), session="s"))
            await soon(lambda: has_started(trial) and has_saved(trial, "I wait."))
            await engine.pause("s", now=True)
            assert (await going).status is RunStatus.PAUSED
        async with trial.engine(script) as engine:
            return await engine.resume("s")

    result = bounded(main())
    assert result.completed, result.error
    assert PROMPT.split("$")[0] in "\n".join(trial.requests()[-1].prompts)
    assert earlier(trial, 2), "the session that was under way"
    assert trial.requests()[-1].replies[0].text == "I wait.", "the model is shown what was said before"
