"""An agent that moves or replaces the folder of its own iteration fails its attempt, not the run."""

import json
from pathlib import Path

import pytest
from tests.sdk.projects import cut_log, engine, iteration_dir, pipeline, run, run_dir
from tests.security.confined import WORK, script

from agentforge.model.status import RunStatus

MOVED = 'I=$(dirname "$AGENTFORGE_RESULT"); mv "$I" "$I.moved"'
REPLACED = {
    "moved": (MOVED, None),
    "by a link to what was moved": (f'{MOVED}; ln -s "$I.moved" "$I"', "001"),
    "by a link elsewhere": (f'{MOVED}; ln -s / "$I"', "001"),
    "by a file": (f'{MOVED}; echo x > "$I"', "001"),
    "by a pipe": (f'{MOVED}; mkfifo "$I"', "001"),
    "by a folder": (f'{MOVED}; mkdir "$I"; echo "{{}}" > "$I/result.json"', None),
    "folder of the attempt": (
        'I=$(dirname "$AGENTFORGE_RESULT"); mv "$I/attempt-1" "$I/x"; ln -s x "$I/attempt-1"',
        "001/attempt-1",
    ),
    "folder of the stage": (
        'S=$(dirname "$(dirname "$(dirname "$AGENTFORGE_RESULT")")"); mv "$S" "$S.moved"; echo x > "$S"',
        "",
    ),
}


def events(project: Path, kind: str) -> list[dict[str, str]]:
    lines = (run_dir(project) / "events.jsonl").read_text().splitlines()
    return [event["data"] for event in map(json.loads, lines) if event["type"] == kind]


@pytest.mark.parametrize("how", REPLACED)
def test_the_attempt_fails_and_the_next_one_counts(tmp_path: Path, how: str) -> None:
    act, refused = REPLACED[how]
    text = f"[ -e once ] || {{ touch once; {act}; exit 0; }}\n{WORK}"
    sdk = engine(tmp_path)
    failed = run(sdk.run(pipeline(script(text, sandbox="none", runs=2)), session="s"))
    assert failed.status is RunStatus.FAILED
    assert "moved, removed or replaced the folder of its iteration" in failed.reason
    [error] = events(tmp_path, "error")
    assert error["type"] == "result_invalid"
    names = [found["name"] for found in events(tmp_path, "file_refused")]
    stage = "stage-00-plan"
    assert names == ([] if refused is None else [f"{stage}/iterations/{refused}" if refused else stage])
    assert run(sdk.resume("s")).status is RunStatus.COMPLETED
    assert not events(tmp_path, "attempt_lost")
    here = iteration_dir(tmp_path)
    assert json.loads((here / "result.json").read_text())["summary"] == "done"
    assert (here / "prompt.md").read_text().startswith("do it")
    assert not here.is_symlink()


@pytest.mark.parametrize("how", ["by a link elsewhere", "folder of the stage"])
def test_an_engine_that_finds_it_after_a_crash_recovers_the_run(tmp_path: Path, how: str) -> None:
    """The engine died while the agent worked, and the agent's process is gone."""
    act, refused = REPLACED[how]
    sdk = engine(tmp_path)
    text = f"[ -e once ] || {{ touch once; {act}; exit 0; }}\n{WORK}"
    run(sdk.run(pipeline(script(text, sandbox="none")), session="s"))
    lines = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
    started = next(number for number, line in enumerate(lines) if b'"attempt_start"' in line)
    cut_log(tmp_path, lines[: started + 1])
    place = iteration_dir(tmp_path) if refused else iteration_dir(tmp_path).parent.parent
    place.rename(tmp_path / "found")
    place.symlink_to("/")
    recovered = run(sdk.recover("s"))
    assert recovered is not None
    assert recovered.status is RunStatus.COMPLETED
    assert len(events(tmp_path, "file_refused")) == 1
    assert list(Path("/").glob("attempt-*")) == []
