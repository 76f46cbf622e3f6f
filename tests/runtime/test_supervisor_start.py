"""The supervisor starts with every attempt, so it imports little and writes its records itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.runtime.supervisor import json_of

from .attempt_run import LOADED, SUPERVISOR, AttemptRun

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.dictionaries(st.text(), values),
)


@given(VALUES)
def test_records_are_json(value: object) -> None:
    assert json.loads(json_of(value)) == value


def test_a_name_that_is_not_text_is_kept() -> None:
    path = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert json.loads(json_of({"path": path})) == {"path": path}


def test_it_imports_nothing_slow() -> None:
    code = (
        f"import sys; sys.argv = ['supervisor']; exec(open({str(SUPERVISOR)!r}).read(), {{'__name__': 'x'}})"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{code}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not {"json", "re", "enum", "signal", "contextlib", "typing", "subprocess"} & set(
        done.stdout.split()
    )


@pytest.mark.skipif(sys.platform != "linux", reason="platform: no signal at the death of a parent")
@pytest.mark.parametrize("is_alive", [True, False])
def test_no_agent_starts_whose_supervisor_died_before_the_kernel_knew_to_end_it(
    is_alive: bool, tmp_path: Path
) -> None:
    code = f"""{LOADED}
import marshal
parent = os.getppid() if {is_alive} else os.getpid()
spec = supervisor.Spec(marshal.loads(sys.stdin.buffer.read()))
ends = {{number: os.open(os.devnull, os.O_RDWR) for number in range(3)}}
supervisor.become_agent(spec, ends, os.dup(2), supervisor.load_prctl(), parent)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(SUPERVISOR)],
        input=AttemptRun(tmp_path).spec("sh", "-c", "echo > ran"),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0 if is_alive else 127, b"")
    assert (tmp_path / "ran").exists() is is_alive
