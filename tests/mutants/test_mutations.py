"""The list of mutations matches the current source and tests."""

import ast

import pytest

from .bugs import ALL, NEAR
from .mutation import PACKAGES, ROOT, Mutation, StaleMutation, path_of


@pytest.mark.parametrize("mutation", ALL, ids=lambda m: f"{m.module.rpartition('.')[2]}: {m.bug}")
def test_mutation_applies_and_is_python_and_its_tests_exist(mutation: Mutation) -> None:
    assert ast.parse(mutation.mutated()).body
    for test in () if mutation.equivalent else mutation.tests or NEAR[mutation.module]:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists(), test
        assert not name or f"def {name}(" in (ROOT / file).read_text(), test


def test_no_mutation_is_listed_twice() -> None:
    assert len({(m.module, m.old, m.new) for m in ALL}) == len(ALL)
    assert len({(m.module, m.bug) for m in ALL}) == len(ALL)


@pytest.mark.parametrize("module", sorted({*NEAR, *PACKAGES}))
def test_modules_of_the_tables_exist(module: str) -> None:
    assert path_of(module).exists()


def test_every_package_that_matters_is_on_the_list() -> None:
    wanted = {"model", "engine", "log", "runtime", "supervisor", "sandbox", "redaction"}
    assert wanted <= {mutation.package for mutation in ALL}


@pytest.mark.parametrize(
    ("module", "old", "error"),
    [
        ("agentforge.nothing", "x", "no such module"),
        ("agentforge.model.session_name", "no such code", "occurs 0 times"),
        ("agentforge.model.session_name", "MAX_SESSION_BYTES", "occurs 2 times"),
    ],
)
def test_code_that_does_not_exist_exactly_once_is_refused(module: str, old: str, error: str) -> None:
    with pytest.raises(StaleMutation, match=error):
        Mutation(module, "stale", old, "").mutated()
