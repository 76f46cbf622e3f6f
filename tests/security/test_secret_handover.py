"""What an agent can find of secrets that it wasn't given."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.confined import need_bwrap
from tests.surface.terminal import PATIENCE

SECRET = "sk-of-the-user-0123456789"
RESULT = """printf '{"summary": "done"}' > "$AGENTFORGE_RESULT" """


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if sys.platform != "linux":
        pytest.skip("platform: looks into /proc")
    for name in ("project", "home"):
        (tmp_path / name).mkdir()
    return tmp_path


def as_a_user() -> tuple[str, ...]:
    """Root may inspect every process, unless its capabilities are taken from it."""
    if os.geteuid() != 0:
        return ()
    if not shutil.which("setpriv"):
        pytest.skip("program: setpriv is not installed")
    return ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


def ran(folder: Path, *nodes: str, become: tuple[str, ...] = ()) -> str:
    """Run the nodes; returns what their agents found."""
    project = folder / "project"
    (project / "p.yaml").write_text("name: demo\nnodes:\n" + "".join(nodes))
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "MY_API_KEY": SECRET, "GIVEN": "1"}
    line = [*become, sys.executable, "-m", "agentforge", "run", "-p", "p.yaml", "-s", "s"]
    done = subprocess.run(
        line, cwd=project, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = project / "found"
    return found.read_text(errors="replace") if found.exists() else ""


def node(id: str, script: str, *lines: str) -> str:
    text = "".join(f"    {line}\n" for line in lines)
    indented = "".join(f"        {line}\n" for line in script.splitlines())
    return (
        f"  - id: {id}\n    prompt: do it\n{text}"
        "    provider:\n      type: command\n      env: declared\n      pass_env: [GIVEN]\n"
        f"      run: |\n{indented}"
    )


# All ancestors: the supervisor and the engine. Files that they have open are tried as well.
LOOK = f"""\
cat /proc/self/environ > found
P=$PPID
while [ "$P" -gt 1 ]; do
  cat /proc/$P/environ /proc/$P/cmdline >> found 2>/dev/null
  for F in /proc/$P/fd/*; do timeout 1 head -c 100000 $F >> found 2>/dev/null < /dev/null; done
  P=$(cut -d " " -f 4 /proc/$P/stat)
  [ -r /proc/$P/comm ] && grep -q pytest /proc/$P/cmdline && break
done
{RESULT}
"""


def test_an_unconfined_agent_finds_no_secret_in_the_engine_and_its_supervisor(folder: Path) -> None:
    found = ran(folder, node("a", LOOK), become=as_a_user())
    assert "GIVEN=1" in found
    assert SECRET not in found


def test_a_confined_agent_finds_its_environment_in_its_own_processes_only(folder: Path) -> None:
    need_bwrap()
    script = f"tr '\\0' '\\n' < /proc/1/environ > found\n{RESULT}\n"
    assert "GIVEN" not in ran(folder, node("a", script, "sandbox: bwrap"))


def test_no_file_of_the_run_contains_an_agents_environment(folder: Path) -> None:
    """Not even while the agent runs."""
    ran(folder, node("a", f'grep -rl "GIVEN"=1 .claude > found\n{RESULT}\n'))
    assert (folder / "project/found").read_text() == ""
