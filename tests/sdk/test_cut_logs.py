"""A log that was cut after its last head was kept, and ends in the middle of a line."""

from pathlib import Path

import pytest
from tests.runtime.agents import shell

from agentforge.model.errors import LogCorrupt
from agentforge.sdk.engine import Engine

from .projects import pipeline, run, run_dir

WRITES = 'echo \'{"summary": "done"}\' > "$AGENTFORGE_RESULT"'


def test_a_cut_that_takes_the_start_of_an_agent_is_not_a_torn_line(tmp_path: Path) -> None:
    """The head is kept before every start of an agent, so that it tells of the lost one."""
    project, state = tmp_path / "project", tmp_path / "state"
    project.mkdir()
    environ = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(state)}
    keeps = f"rm -rf {tmp_path}/heads; cp -r {state}/agentforge/heads {tmp_path}/heads; {WRITES}"
    made = Engine(project, environ=environ)
    assert run(made.run(pipeline(shell(keeps, runs=2)), session="s")).completed
    log = run_dir(project) / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if b'"type":"attempt_start"' in line)
    torn = lines[last][:40]
    log.write_bytes(b"".join(lines[:last]) + torn)
    for head in (tmp_path / "heads").iterdir():
        (state / "agentforge" / "heads" / head.name).write_bytes(head.read_bytes())
    with pytest.raises(LogCorrupt, match=rf"no longer holds event {last + 1} as it was written"):
        run(made.recover("s"))
    assert (log.with_name(f"events.jsonl.torn-{len(b''.join(lines[:last]))}")).read_bytes() == torn
    assert run(made.recover("s", accept_damage=True)) is not None
