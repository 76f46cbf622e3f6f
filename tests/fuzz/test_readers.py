"""Readers of untrusted bytes raise their documented errors only, whatever they read.

The corpus has inputs that once failed. `make fuzz` tries many more; add what it finds to the corpus.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .inputs import inputs
from .targets import HERE, TARGETS, check, seeds_of

CORPUS = [(name, path) for name in TARGETS for path in sorted((HERE / "corpus" / name).glob("*"))]


def test_every_reader_has_a_corpus_and_every_corpus_a_reader() -> None:
    assert {path.name for path in (HERE / "corpus").iterdir()} == set(TARGETS)
    assert all(seeds_of(name) for name in TARGETS)


@pytest.mark.parametrize(("name", "path"), CORPUS, ids=lambda value: getattr(value, "name", value))
def test_kept_inputs(name: str, path: object) -> None:
    assert hasattr(path, "read_bytes")
    check(name, path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_input(name: str, data: st.DataObject) -> None:
    check(name, data.draw(inputs(tuple(seeds_of(name).values()))))
