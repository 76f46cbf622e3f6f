"""Recording a run, and running it again without its agents: the same files, the same route."""

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.sdk.blocks import block, inner
from tests.sdk.projects import ENVIRON, node, pipeline, run, run_dir

from agentforge.adapters.providers.command import CommandProvider
from agentforge.engine.rehearsal import rehearse
from agentforge.model.cassette import Cassette, parse_cassette
from agentforge.model.route import Turn
from agentforge.ports.provider import Provider
from agentforge.sdk.engine import Engine
from agentforge.sdk.replaying import compiled_for_replay, find_recording
from agentforge.sdk.results import RunResult

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
            recording = find_recording(sdk.runs, source)
            compiled = compiled_for_replay(sdk, recording, pipeline, session)
            return await sdk.start(compiled, replay=recording.replay(0.0))

    return run(main())


def route(project: Path, session: str) -> tuple[Turn, ...]:
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
    # The judge is `claude` by name and a program of its own by its config.
    return recorded(
        project,
        WHOLE,
        claude=program("claude", f'if [ "$MOCK_PROVIDER" = judge ]; then {JUDGE}; else {WORK} fi'),
        codex=program("codex", WORK),
    )


def test_a_recorded_run_replayed_in_a_fresh_checkout_gives_the_same_files_and_the_same_route(
    tmp_path: Path,
) -> None:
    first, second = checkout(tmp_path / "first"), checkout(tmp_path / "second")
    assert whole(first).completed
    result = replayed(second, str(run_dir(first) / "cassette.jsonl"), "again")
    assert result.completed, result.error
    (first / "skip.tmp").unlink()
    assert files(second) == files(first)
    assert os.access(second / "run.sh", os.X_OK)
    assert route(second, "again") == route(first, "s")
