"""The list of hand-made bugs is of today's code."""

import ast
from pathlib import Path

import pytest

from .bugs import ALL, NEAR
from .mutation import ROOT, Mutation, StaleMutation


@pytest.mark.parametrize("mutation", ALL, ids=lambda m: f"{m.module.rpartition('.')[2]}: {m.bug}")
def test_mutation_applies_and_is_python(mutation: Mutation) -> None:
    ast.parse(mutation.mutated())


@pytest.mark.parametrize("mutation", ALL, ids=lambda m: f"{m.module.rpartition('.')[2]}: {m.bug}")
def test_its_tests_are_there(mutation: Mutation) -> None:
    for test in () if mutation.equivalent else mutation.tests or NEAR[mutation.module]:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists(), test
        assert not name or f"def {name}(" in (ROOT / file).read_text(), test


def test_no_bug_is_listed_twice() -> None:
    assert len({(m.module, m.old, m.new) for m in ALL}) == len(ALL)
    assert len({(m.module, m.bug) for m in ALL}) == len(ALL)


def test_every_package_that_matters_is_on_the_list() -> None:
    wanted = {"model", "engine", "log", "runtime", "supervisor", "sandbox", "redaction"}
    assert wanted <= {mutation.package for mutation in ALL}


@pytest.mark.parametrize(
    ("module", "old"),
    [
        ("agentforge.nothing", "x"),
        ("agentforge.model.session_name", "no such code"),
        ("agentforge.model.session_name", "e"),
    ],
)
def test_code_that_is_not_there_exactly_once_is_refused(tmp_path: Path, module: str, old: str) -> None:
    with pytest.raises(StaleMutation):
        Mutation(f"agentforge.{module}", "stale", old, "").mutated()
