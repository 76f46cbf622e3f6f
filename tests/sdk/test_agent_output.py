"""The output of agents, from their files: each line with its attempt, none lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.sdk.projects import ENVIRON, engine, iteration_dir, node, pipeline, run

from agentforge import AgentLine, OutputTail
from agentforge.model.event import Event
from agentforge.model.facts import AttemptStarted
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import returns


def shell(text: str) -> dict[str, Any]:
    return {"type": "command", "run": f"cat > /dev/null; {text}"}


RESULT = """echo '{"summary":"done"}' > "$AGENTFORGE_RESULT\""""


def events_of(project: Path, *nodes: dict[str, Any], provider: Any = None) -> list[Event]:
    async def drive() -> list[Event]:
        async with engine(project, provider) as at:
            await at.run(pipeline(*nodes), session="s")
            return list(at.events("s"))

    return run(drive())


def tail_of(project: Path) -> OutputTail:
    return OutputTail(str(project.resolve()), ENVIRON)


def all_lines(project: Path, events: list[Event]) -> Iterator[AgentLine]:
    tail = tail_of(project)
    for event in events:
        for attempt in tail.apply(event):
            yield from tail.rest(attempt, event)


def shown(lines: Iterator[AgentLine]) -> list[tuple[int, int, str]]:
    return [(line.cursor.iteration, line.attempt, line.text) for line in lines]


def test_lines_of_a_failed_and_of_a_repeated_attempt_are_told_apart(tmp_path: Path) -> None:
    once = f"test -e once && echo again || {{ touch once; echo first; exit 3; }}; {RESULT}"
    retry = {"initial_delay": 0}
    events = events_of(tmp_path, node(provider=shell(once), runs=2, retry=retry))
    assert shown(all_lines(tmp_path, events)) == [(1, 1, "first"), (1, 2, "again"), (2, 1, "again")]


def test_branches_of_a_block_have_their_own_lines(tmp_path: Path) -> None:
    providers = [{"name": name, **shell(f"echo {name} works; {RESULT}")} for name in ("a", "b")]
    block = {"providers": providers, "stages": [{"id": "x", "prompt": "do it", "runs": 1}]}
    events = events_of(tmp_path, {"id": "both", "parallel": block})
    found = {(line.cursor.provider, line.text) for line in all_lines(tmp_path, events)}
    assert found == {("a", "a works"), ("b", "b works")}


def test_output_of_a_provider_without_files_is_in_its_event(tmp_path: Path) -> None:
    for uses_files in (True, False):
        folder = tmp_path / str(uses_files)
        folder.mkdir()
        says = ScriptedProvider([returns("done", output="one\n\n  two\n")], uses_files=uses_files)
        events = events_of(folder, node(), provider=says)
        assert shown(all_lines(folder, events)) == [(1, 1, "one"), (1, 1, "  two")]


def test_incomplete_line_of_a_running_agent_waits_until_it_ends(tmp_path: Path) -> None:
    events = events_of(tmp_path, node(provider=shell(f"printf 'one\\ntwo'; {RESULT}")))
    tail = tail_of(tmp_path)
    begun = next(n for n, event in enumerate(events) if isinstance(event.fact, AttemptStarted)) + 1
    assert [tail.apply(event) for event in events[:begun]] == [()] * begun
    assert shown(tail.news()) == [(1, 1, "one")]
    assert shown(tail.news()) == []
    ended, *_ = (found for event in events[begun:] for found in [(event, tail.apply(event))] if found[1])
    event, (attempt,) = ended
    assert shown(tail.rest(attempt, event)) == [(1, 1, "two")]
    assert shown(tail.rest(attempt, event)) == []


def test_very_long_line_is_shown_in_parts(tmp_path: Path) -> None:
    events = events_of(tmp_path, node(provider=shell(RESULT)))
    output = iteration_dir(tmp_path) / "attempt-1" / "output.log"
    output.write_text("x" * 700_000 + "\nend\n")
    lines = [line.text for line in all_lines(tmp_path, events)]
    assert "".join(lines[:-1]) == "x" * 700_000
    assert lines[-1] == "end"


def test_run_that_was_started_over_under_the_same_name_is_read_from_its_start(tmp_path: Path) -> None:
    first = events_of(tmp_path, node(provider=shell(f"echo first; {RESULT}")))
    tail = tail_of(tmp_path)

    def lines(events: list[Event]) -> list[tuple[int, int, str]]:
        return shown(
            line for event in events for attempt in tail.apply(event) for line in tail.rest(attempt, event)
        )

    assert lines(first) == [(1, 1, "first")]

    async def again() -> list[Event]:
        async with engine(tmp_path) as at:
            plan = pipeline(node(provider=shell(f"echo second; {RESULT}")))
            await at.run(plan, session="s", force=True)
            return list(at.events("s"))

    assert lines(run(again())) == [(1, 1, "second")]
