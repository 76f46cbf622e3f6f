"""The supervisor starts with every attempt, so it imports little and writes its records itself."""

import json
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from agentforge.runtime.supervisor import json_of

from .attempt_run import SUPERVISOR

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
