"""Recording a run, and running it again without its agents: the same files, the same course."""

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.blocks import block, inner
from tests.sdk.projects import ENVIRON, node, pipeline, run, run_dir

from agentforge.adapters.providers.command import CommandProvider
from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.engine.rehearsal.rehearsed_run import enact
from agentforge.model.cassette import Cassette, Sleep, WriteFile, parse_cassette
from agentforge.model.course import CourseStep
from agentforge.model.errors import InvalidRequest
from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import Provider
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import fails, returns, writes
from agentforge.views.results import RunResult

RESULT = """printf '{"summary":"did %s"}' "$MOCK_ITERATION" > "$AGENTFORGE_RESULT"; """
ANSWER = '{"stop": true, "reason": "fine", "confidence": 0.9}'
JUDGE = f"cat > /dev/null; echo '{ANSWER}'"
WORK = (
    "cat > /dev/null; echo I am $MOCK_PROVIDER; "
    "echo $MOCK_PROVIDER $MOCK_ITERATION >> notes-$MOCK_PROVIDER.txt; "
    f"mkdir -p src; printf 'x = %s\\n' $MOCK_ITERATION > src/$MOCK_PROVIDER.py; {RESULT}"
)


def program(name: str, script: str) -> Provider:
    return CommandProvider({"PATH": os.environ["PATH"]}, name=name, config={"run": script})


def command(id: str, script: str, **changes: Any) -> dict[str, Any]:
    return node(id, provider={"type": "command", "run": f"cat > /dev/null; {script}"}, **changes)


def git(project: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(project), *words], check=True, capture_output=True)


def checkout(folder: Path) -> Path:
    """A repository with a file that will be edited and one that will be deleted."""
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("*.tmp\nbuild/\n")
    (folder / "README.md").write_text("# before\n")
    (folder / "old.txt").write_text("old\n")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "begin")
    return folder


def files(project: Path) -> dict[str, bytes]:
    """All files of the workspace that aren't the engine's or git's."""
    found = {}
    for path in sorted(project.rglob("*")):
        name = str(path.relative_to(project))
        if path.is_file() and not name.startswith((".git/", ".claude/")):
            found[name] = path.read_bytes()
    return found


def recorded(
    project: Path, definition: dict[str, Any], session: str = "s", **providers: Provider
) -> RunResult:
    async def main() -> RunResult:
        async with Engine(project, providers=providers, environ=ENVIRON) as sdk:
            return await sdk.run(definition, session=session, record=True)

    return run(main())


def cassette(project: Path, session: str = "s") -> Cassette:
    path = run_dir(project, session) / "cassette.jsonl"
    return parse_cassette(path.read_text(), str(path))


def replayed(project: Path, source: str, session: str | None = None, pipeline: Any = None) -> RunResult:
    async def main() -> RunResult:
        async with Engine(project, environ=ENVIRON) as sdk:
            recording = sdk.runs.recording(source)
            compiled = sdk.compile_replay(recording, pipeline, session=session)
            return await sdk.start(compiled, replay=recording.replay(0.0))

    return run(main())


def test_a_returned_result_is_recorded_and_replayed(tmp_path: Path) -> None:
    provider = ScriptedProvider([returns("one"), returns("two")], uses_files=False)
    first = recorded(tmp_path, pipeline(node(runs=2)), scripted=provider)
    again = replayed(tmp_path, "s")
    assert (first.iterations, again.iterations, again.completed) == (2, 2, True)


def course(project: Path, session: str) -> tuple[CourseStep, ...]:
    """The turns of a run; which branch comes first at each moment is left to chance."""
    sdk = Engine(project, environ=ENVIRON)
    turns = rehearse(sdk.status(session).plan, tuple(sdk.events(session))).past
    return tuple(sorted(turns, key=lambda turn: (turn.branch or "", turns.index(turn))))


WHOLE = pipeline(
    command(
        "plan",
        "echo after > README.md; rm old.txt; printf '\\000\\377' > data.bin; echo x > skip.tmp; "
        f"printf '#!/bin/sh\\n' > run.sh; chmod +x run.sh; {RESULT}",
    ),
    block(["claude", "codex"], inner("draft", runs=2)),
    command(
        "polish",
        f"echo $MOCK_ITERATION >> polished.txt; {RESULT}"
        '[ "$MOCK_ITERATION" != 2 ] || [ -e tried ] || { touch tried; exit 3; }',
        runs=4,
        retry={"max_attempts": 2, "initial_delay": 0},
        termination={"type": "judgment", "max": 4, "min_iterations": 3, "consensus": 1},
    ),
)


def whole(project: Path) -> RunResult:
    # The judge is `claude` by name and another program by its config.
    return recorded(
        project,
        WHOLE,
        claude=program("claude", f'if [ "$MOCK_PROVIDER" = judge ]; then {JUDGE}; else {WORK} fi'),
        codex=program("codex", WORK),
    )


def test_a_recorded_run_replayed_in_a_fresh_checkout_gives_the_same_files_and_the_same_course(
    tmp_path: Path,
) -> None:
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    assert whole(first).completed
    result = replayed(second, str(run_dir(first) / "cassette.jsonl"), "again")
    assert result.completed, result.error
    (first / "skip.tmp").unlink()
    assert files(second) == files(first)
    assert os.access(second / "run.sh", os.X_OK)
    assert course(second, "again") == course(first, "s")


def test_stages_of_one_name_and_passes_are_distinguished(tmp_path: Path) -> None:
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    said = f"date +%N >> moments.txt; {RESULT}"
    deep = {"name": "inner", "nodes": [command("work", said)]}
    (first / "inner.yaml").write_text(json.dumps(deep))
    definition = pipeline(command("work", said), {"id": "deep", "pipeline": "./inner.yaml", "runs": 2})
    result = recorded(first, definition)
    assert result.completed, result.error
    kept = cassette(first)
    assert [(e.node, e.iteration) for e in kept.exchanges] == [
        ("stage-work", 1),
        ("pipeline-deep/stage-work", 1),
        ("pipeline-deep/run-002/stage-work", 1),
    ]
    assert replayed(second, str(run_dir(first) / "cassette.jsonl")).completed
    assert (second / "moments.txt").read_bytes() == (first / "moments.txt").read_bytes()


def test_secrets_of_the_engines_environment_never_reach_a_cassette(tmp_path: Path) -> None:
    secret = "sk-a-very-secret-value-of-thirty-chars"
    project = checkout(tmp_path / "p")
    says_it = (
        "echo key is $OPENAI_API_KEY; echo $OPENAI_API_KEY > key.txt; "
        "printf '\\377%s' $OPENAI_API_KEY > key.bin; "
        'printf \'{"summary":"%s"}\' $OPENAI_API_KEY > $AGENTFORGE_RESULT'
    )

    async def main() -> RunResult:
        environ = {**ENVIRON, "OPENAI_API_KEY": secret}
        async with Engine(project, environ=environ) as sdk:
            return await sdk.run(pipeline(command("plan", says_it)), session="s", record=True)

    assert run(main()).completed
    assert secret.encode() in (project / "key.bin").read_bytes()
    for path in run_dir(project).rglob("*"):
        if path.is_file() and path.name in ("cassette.jsonl", "recording.json", "exchange.json"):
            assert secret.encode() not in path.read_bytes()
    (only,) = cassette(project).exchanges
    said = {step.path: step for step in only.steps if isinstance(step, WriteFile)}
    assert said["key.txt"].text == "[secret]\n"
    assert base64.b64decode(said["key.bin"].base64 or "") == b"\xff[secret]"


def test_too_large_files_are_noted_and_not_recorded(tmp_path: Path) -> None:
    project = checkout(tmp_path / "p")
    big = f"head -c 1048577 /dev/zero > big.bin; head -c 100 /dev/zero > small.bin; {RESULT}"
    assert recorded(project, pipeline(command("plan", big))).completed
    (only,) = cassette(project).exchanges
    assert only.notes == ("'big.bin' is not recorded: unreadable or too large (1048577 bytes)",)
    assert [step.path for step in only.steps if isinstance(step, WriteFile)] == ["small.bin"]


def test_a_copy_that_the_engine_made_of_an_output_is_left_to_the_engine(tmp_path: Path) -> None:
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    definition = pipeline(
        command("plan", f"echo said $MOCK_ITERATION; {RESULT}", runs=2, output_path="out.md")
    )
    assert recorded(first, definition).completed
    assert not [s for e in cassette(first).exchanges for s in e.steps if isinstance(s, WriteFile)]
    assert replayed(second, str(run_dir(first) / "cassette.jsonl")).completed
    assert files(second) == files(first)
    assert (second / "out.md").read_text() == "said 2\n"


def test_failures_are_replayed_as_failures_of_the_same_kind(tmp_path: Path) -> None:
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    limited = fails(Failure(FailureKind.PROVIDER_RATE_LIMITED, "slow down"), "half a thought")
    broken = ScriptedProvider([limited, writes("no json at all", "thinking")])
    result = recorded(first, pipeline(node(on_limit={"initial_delay": 0})), scripted=broken)
    assert (result.status, result.error_type) == ("failed", "result_invalid")
    again = replayed(second, str(run_dir(first) / "cassette.jsonl"), "s")
    assert (again.status, again.error_type, again.error) == (result.status, result.error_type, result.error)
    assert course(second, "s") == course(first, "s")
    for name in ("output.md", "attempt-1/output.md"):
        said = [run_dir(p) / "stage-00-plan" / "iterations" / "001" / name for p in (first, second)]
        assert said[0].read_text() == said[1].read_text()


def test_queues_are_replayed_without_looking_at_one(tmp_path: Path) -> None:
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "bd").write_text('#!/bin/sh\n[ "$1" != ready ] || [ -e done-2 ] || echo task\n')
    (tools / "bd").chmod(0o755)
    works = command("plan", f"touch done-$MOCK_ITERATION; {RESULT}", termination={"type": "queue", "max": 5})

    async def main() -> RunResult:
        environ = {"PATH": f"{tools}:{ENVIRON['PATH']}"}
        async with Engine(first, environ=environ) as sdk:
            return await sdk.run(pipeline(works), session="s", record=True)

    assert run(main()).completed
    left = [(e.iteration, e.remaining) for e in cassette(first).exchanges if e.kind == "queue"]
    assert left == [(1, 1), (2, 0)]
    result = replayed(second, str(run_dir(first) / "cassette.jsonl"), "s")
    assert result.completed, result.error
    assert course(second, "s") == course(first, "s")


def test_a_judge_that_fails_is_recorded_and_fails_again(tmp_path: Path) -> None:
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    judged = command("plan", RESULT, runs=2, termination={"type": "judgment", "max": 2, "min_iterations": 1})
    assert recorded(first, pipeline(judged), claude=program("claude", "echo what?; exit 4")).completed
    assert sum(e.kind == "judge" for e in cassette(first).exchanges) == 4
    assert replayed(second, str(run_dir(first) / "cassette.jsonl"), "s").completed
    assert course(second, "s") == course(first, "s")


def test_a_replay_may_be_recorded_and_gives_the_same_cassette(tmp_path: Path) -> None:
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    assert whole(first).completed

    async def main() -> RunResult:
        async with Engine(second, environ=ENVIRON) as sdk:
            recording = sdk.runs.recording(str(run_dir(first) / "cassette.jsonl"))
            compiled = sdk.compile_replay(recording, session="s")
            return await sdk.start(compiled, replay=recording.replay(0.0), record=True)

    assert run(main()).completed

    def done(project: Path) -> list[tuple[Any, ...]]:
        found = [
            (*exchange.key[:5], [step for step in exchange.steps if not isinstance(step, Sleep)])
            for exchange in cassette(project).exchanges
            if not exchange.branch
        ]
        return sorted(found, key=str)

    assert done(second) == done(first)


def test_a_cassette_enacted_gives_the_course_of_its_run(tmp_path: Path) -> None:
    project = checkout(tmp_path / "p")
    assert whole(project).completed
    kept = cassette(project)
    assert kept.header.plan is not None
    enacted = rehearse(kept.header.plan, enact(kept.header.plan, kept.exchanges)).past
    by_branch = tuple(sorted(enacted, key=lambda turn: (turn.branch or "", enacted.index(turn))))
    assert by_branch == course(project, "s")


def test_a_replay_asks_before_it_overwrites_uncommitted_work_or_runs_commands(tmp_path: Path) -> None:
    project = checkout(tmp_path / "project")
    steps: list[dict[str, Any]] = [{"do": "write", "path": "README.md", "text": "recorded"}]
    kept = tmp_path / "kept.jsonl"

    def replay(**allowed: bool) -> RunResult:
        exchange = {
            "stage": "a",
            "iteration": 1,
            "steps": [*steps, {"do": "result", "value": {"summary": "x"}}],
        }
        header = {"format": "agentforge-cassette", "version": 1}
        kept.write_text("".join(json.dumps(line) + "\n" for line in (header, exchange)))

        async def main() -> RunResult:
            async with Engine(project, environ=ENVIRON) as engine:
                name = f"s{len(list((project / '.claude').rglob('events.jsonl')))}"
                return await engine.replay(
                    str(kept), pipeline(node("a", runs=1, provider="claude")), session=name, **allowed
                )

        return run(main())

    (project / "README.md").write_text("mine")
    with pytest.raises(InvalidRequest, match=r"not committed: README\.md"):
        replay()
    assert (project / "README.md").read_text() == "mine"
    git(project, "checkout", "-q", "README.md")
    assert replay().completed
    (project / "README.md").write_text("mine again")
    assert replay(overwrite=True).completed
    assert (project / "README.md").read_text() == "recorded"
    steps[:] = [{"do": "run", "argv": ["touch", "made"]}]
    with pytest.raises(InvalidRequest, match="runs commands: `touch made`"):
        replay()
    assert not (project / "made").exists()
    assert replay(allow_commands=True).completed
    assert (project / "made").exists()
