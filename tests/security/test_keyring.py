"""A confined agent doesn't get the keys of the user's session, and neither does a command of a notification,
whose files an agent can have changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.confined import need_bwrap

from agentforge.runtime.supervisor import KEYCTL

ADD_KEY = {"x86_64": 248, "aarch64": 217, "riscv64": 217, "loongarch64": 217, "ppc64le": 269, "s390x": 278}
READER = """
import ctypes
libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
key = libc.syscall({keyctl}, 10, -3, b"user", b"{name}", 0)
buffer = ctypes.create_string_buffer(64)
size = libc.syscall({keyctl}, 11, ctypes.c_long(key), buffer, 64) if key > 0 else -1
print(buffer.raw[:size].decode() if size > 0 else "nothing")
"""
"""Searches the session keyring for the key, and reads it."""
RUN = """
import ctypes, logging, subprocess, sys
from pathlib import Path
from tests.sdk.projects import ENVIRON, engine, pipeline, run
from tests.security.confined import WORK, script
libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
if libc.syscall({keyctl}, 1, None) < 0 or libc.syscall({add_key}, b"user", b"{name}", b"the-key", 7, -3) < 0:
    sys.exit("no keyrings")
reader = {reader!r}
print(subprocess.run([sys.executable, "-I", "-c", reader], capture_output=True, text=True).stdout.strip())
project = Path({project!r})
(project / "reader.py").write_text(reader)
read = f"'{{sys.executable}}' -I '{{project}}/reader.py'"
told = [{{"on": ["completed"], "command": f"echo $({{read}}) >&2; exit 9", "in_project": True}}]
logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="%(message)s")

async def main():
    environ = {{**ENVIRON, "AGENTFORGE_NOTIFY": f"{{read}} > '{{project}}/own'"}}
    reads = script(f"{{read}} > seen\\n{{WORK}}", sandbox="{sandbox}")
    async with engine(project, environ=environ) as sdk:
        await sdk.run(pipeline(reads, notify=told), session="s")

run(main())
print((project / "seen").read_text().strip())
print((project / "own").read_text().strip())
"""
"""In a session keyring of its own: has the key, then runs an agent, and sends notices."""


@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_key_of_the_session_is_not_readable(tmp_path: Path, sandbox: str) -> None:
    """The user's own command keeps the user's keys."""
    if sandbox == "bwrap":
        need_bwrap()
    machine, name = os.uname().machine, f"agentforge-{os.getpid()}"
    if machine not in ADD_KEY:
        pytest.skip(f"platform: the system calls of {machine} are not known")
    keyctl = KEYCTL[machine]
    reader = READER.format(keyctl=keyctl, name=name)
    given = {"keyctl": keyctl, "add_key": ADD_KEY[machine], "name": name}
    program = RUN.format(**given, reader=reader, project=str(tmp_path), sandbox=sandbox)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    if done.stderr.endswith("no keyrings\n"):
        pytest.skip("platform: this kernel or container has no keyrings")
    told = "session 's': notification by command failed: exit status 9: nothing"
    assert done.stdout.splitlines() == ["the-key", told, "nothing", "the-key"], done.stderr
