"""An agent chooses the id of its session, which becomes an argument of its next attempt."""

from pathlib import Path

import pytest
from tests.adapters.fake_clis import put_cli
from tests.surface.terminal import Project

AGENT = """
import json, os, sys
with open("seen.jsonl", "a") as seen:
    print(json.dumps(sys.argv[1:]), file=seen)
if os.path.exists("again"):
    open(os.environ["AGENTFORGE_RESULT"], "w").write('{"summary": "done"}')
    print(json.dumps({"type": "result", "result": "done", "session_id": SESSION}))
else:
    open("again", "w").close()
    print(json.dumps({"type": "result", "is_error": True, "result": "it died", "session_id": SESSION}))
"""


def arguments(project: Project, session: str) -> list[str]:
    """Of the second attempt."""
    folder = project.home / "bin"
    folder.mkdir(exist_ok=True)
    put_cli(folder, "claude", f"SESSION = {session!r}\n{AGENT}")
    file = project.root / "p.yaml"
    file.write_text(
        "name: p\nnodes:\n  - id: a\n    prompt: do it\n    retry: {initial_delay: 0}\n    provider: claude\n"
    )
    env = {"PATH": f"{folder}:{project.env['PATH']}", "ANTHROPIC_API_KEY": "sk-test-0123456789"}
    done = project.call("run", "-p", str(file), "-s", "s", env=env)
    assert done.code == 0, done.err
    assert "\x1b]" not in project.call("tail", "s").out
    return (Path(project.root) / "seen.jsonl").read_text().splitlines()[1:]


def test_valid_session_is_resumed(project: Project) -> None:
    (second,) = arguments(project, "0198c5b2-2d9e")
    assert '"--resume", "0198c5b2-2d9e"' in second


@pytest.mark.parametrize(
    "session", ["--dangerously-skip-permissions=x", "a\x1b]0;title\x07", "../../etc/passwd"]
)
def test_option_escape_or_path_is_not_resumed(project: Project, session: str) -> None:
    (second,) = arguments(project, session)
    assert "--resume" not in second
    assert session not in (project.run_dir("s") / "events.jsonl").read_text()
