"""A recorded run with approvals, feedback and questions: its replay takes the answers from the recording."""

import json
from pathlib import Path

import pytest
from tests.sdk.blocks import block, inner
from tests.sdk.projects import ENVIRON, cut_log, node, pipeline, run, run_dir
from tests.sdk.test_recording import command, course, program, replayed

from agentforge.model.status import RunStatus
from agentforge.sdk.engine import Engine
from agentforge.views.results import RunResult

# It asks first, writes what it was told, and appends the feedback of a rejection.
AGENT = r"""cat > prompt.txt
if grep -q -e '^----- feedback' prompt.txt; then
  sed -n '/^----- feedback/,/^----- end of/p' prompt.txt | grep -v -e '^-----' >> draft.txt
elif grep -q -e '^----- answers' prompt.txt; then
  sed -n 's/.*"answer":"\([^"]*\)".*/\1/p' prompt.txt > draft.txt
else
  echo '{"decision": "ask", "questions": ["Which title?"]}' > "$AGENTFORGE_RESULT"
  exit
fi
echo '{"summary": "wrote it"}' > "$AGENTFORGE_RESULT"
"""
REVIEWED = pipeline(
    node("draft", provider={"type": "command", "run": AGENT}, approve=True),
    command("publish", 'echo {} > "$AGENTFORGE_RESULT"; cp draft.txt published.txt', checkpoint="release"),
)
ANSWERS = [("Birds", ""), ("reject", "Say more."), ("approve", ""), ("approve", "")]


def reviewed(project: Path, answers: list[tuple[str, str]] = ANSWERS) -> RunResult:
    project.mkdir()

    async def main() -> RunResult:
        async with Engine(project, environ=ENVIRON) as sdk:
            result = await sdk.run(REVIEWED, session="s", record=True)
            for answer, text in answers:
                assert result.status is RunStatus.AWAITING_APPROVAL
                driven = await sdk.answer("s", answer, text=text, by="alice")
                assert driven is not None
                result = driven
            return result

    return run(main())


def said(project: Path, session: str) -> list[tuple[str, str, str]]:
    lines = (run_dir(project, session) / "events.jsonl").read_bytes().splitlines()
    data = [event["data"] for event in map(json.loads, lines) if event["type"] == "request_answered"]
    return [(given["answer"], given["by"], given.get("text", "")) for given in data]


def test_replay_asks_no_person(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert reviewed(first).completed
    second.mkdir()
    result = replayed(second, str(run_dir(first) / "cassette.jsonl"), "again")
    assert result.completed, result.error
    assert (second / "published.txt").read_text() == "Birds\nSay more.\n"
    assert said(second, "again") == [(answer, "alice", text) for answer, text in ANSWERS]
    assert course(second, "again") == course(first, "s")
    assert not list((run_dir(second, "again") / "answers").glob("*")), "no person has answered"


def test_recording_of_a_run_that_waits_leaves_the_replay_waiting(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    waiting = reviewed(first, ANSWERS[:2])
    second.mkdir()
    result = replayed(second, str(run_dir(first) / "cassette.jsonl"), "again")
    assert result.status is waiting.status is RunStatus.AWAITING_APPROVAL
    (request,) = result.requests
    assert (request.kind, request.reason) == ("approval", "approval")
    assert said(second, "again") == [("Birds", "alice", ""), ("reject", "alice", "Say more.")]


def test_a_replay_that_approves_asks_for_no_approval_that_was_not_recorded(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    reviewed(first, ANSWERS[:1])
    second.mkdir()

    async def main() -> RunResult:
        async with Engine(second, environ=ENVIRON) as sdk:
            recording = sdk.runs.recording(str(run_dir(first) / "cassette.jsonl"))
            compiled = sdk.compile_replay(recording, None, session="again")
            return await sdk.start(compiled, replay=recording.replay(0.0), approve=True)

    result = run(main())
    (request,) = result.requests
    assert request.kind == "checkpoint", "it is still asked"
    assert [answer for answer, _, _ in said(second, "again")] == ["Birds", "approve"]


def test_check_of_the_session_and_of_its_cassette_finds_the_same_course(tmp_path: Path) -> None:
    project = tmp_path / "first"
    reviewed(project)
    sdk = Engine(project, environ=ENVIRON)
    for source in ("s", str(run_dir(project) / "cassette.jsonl")):
        comparison = sdk.rehearse(source, REVIEWED)
        assert comparison.is_same, comparison.rehearsal.difference
        assert comparison.rehearsal.now[-1].what == "run_completed"
    plain = pipeline(*({**stage, "approve": False} for stage in REVIEWED["nodes"]))
    assert not sdk.rehearse("s", plain).is_same


@pytest.mark.parametrize("answered", [1, 2])
def test_replay_that_was_killed_uses_each_answer_once(tmp_path: Path, answered: int) -> None:
    project = tmp_path / "first"
    reviewed(project)
    (project / "draft.txt").unlink()
    (project / "published.txt").unlink()
    replayed(project, "s")
    log = run_dir(project, "s-replay") / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines, 1) if b'"request_answered"' in line]
    cut_log(project, lines[: ends[answered - 1]], "s-replay")
    for path in ("draft.txt", "published.txt"):
        (project / path).unlink()

    async def main() -> RunResult:
        async with Engine(project, environ=ENVIRON) as sdk:
            return await sdk.resume("s-replay")

    assert run(main()).completed
    assert said(project, "s-replay") == [(answer, "alice", text) for answer, text in ANSWERS]


def test_branches_of_a_block_get_their_own_answers(tmp_path: Path) -> None:
    script = 'cat > /dev/null; echo x >> $MOCK_PROVIDER.txt; echo {} > "$AGENTFORGE_RESULT"'
    duel = pipeline(block(["claude", "codex"], inner("draft", approve=True)))

    async def main() -> RunResult | None:
        providers = {name: program(name, script) for name in ("claude", "codex")}
        async with Engine(tmp_path, providers=providers, environ=ENVIRON) as sdk:
            result: RunResult | None = await sdk.run(duel, session="s", record=True)
            for branch, answer, text in (
                ("codex", "reject", "More."),
                ("claude", "approve", ""),
                ("codex", "approve", ""),
            ):
                assert result is not None
                (request,) = (known for known in result.requests if known.at and known.at.provider == branch)
                result = await sdk.answer("s", answer, request=request.id, text=text)
            return result

    result = run(main())
    assert result is not None
    assert result.completed
    second = tmp_path / "second"
    second.mkdir()
    again = replayed(second, str(run_dir(tmp_path) / "cassette.jsonl"), "again")
    assert again.completed, again.error
    assert (second / "codex.txt").read_text() == "x\nx\n"
    assert (second / "claude.txt").read_text() == "x\n"


def test_secrets_in_answers_never_reach_a_cassette(tmp_path: Path) -> None:
    environ = {**ENVIRON, "SOME_API_KEY": "sk-0123456789abcdef"}

    async def main() -> None:
        async with Engine(tmp_path, environ=environ) as sdk:
            await sdk.run(REVIEWED, session="s", record=True)
            await sdk.answer("s", "sk-0123456789abcdef")
            await sdk.answer("s", "reject", text="not sk-0123456789abcdef")

    run(main())
    assert "0123456789abcdef" not in (run_dir(tmp_path) / "cassette.jsonl").read_text()
