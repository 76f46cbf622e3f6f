"""The list of mutations matches the current source and tests."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from .bugs import ALL, NEAR
from .generated import MODULES, TESTS
from .mutation import PACKAGES, ROOT, SOURCE, Mutation, StaleMutation, path_of
from .survivors import SURVIVORS


def test_mutations_apply_and_their_tests_exist() -> None:
    stale = [problem for mutation in ALL for problem in _problems(mutation)]
    assert not stale, "\n".join(stale)


def _problems(mutation: Mutation) -> Iterator[str]:
    try:
        _, part = mutation.changed()
        ast.parse(ast.unparse(part))
    except (StaleMutation, SyntaxError) as error:
        yield str(error)
    for test in () if mutation.equivalent else mutation.tests or NEAR[mutation.module]:
        file, _, name = test.partition("::")
        if not (ROOT / file).exists() or (name and f"def {name}(" not in (ROOT / file).read_text()):
            yield f"{mutation.module}, {mutation.bug!r}: there is no {test}"


def test_no_mutation_is_listed_twice() -> None:
    assert len({(m.module, m.place, m.old, m.new) for m in ALL}) == len(ALL)
    assert len({(m.module, m.bug) for m in ALL}) == len(ALL)


@pytest.mark.parametrize("module", sorted({*NEAR, *PACKAGES}))
def test_modules_of_the_tables_exist(module: str) -> None:
    assert path_of(module).exists()


def test_every_package_that_matters_is_on_the_list() -> None:
    wanted = {"model", "engine", "log", "runtime", "supervisor", "sandbox", "redaction"}
    assert wanted <= {mutation.package for mutation in ALL}


@pytest.mark.parametrize(
    ("module", "place", "old", "error"),
    [
        ("agentforge.nothing", "", "x", "no such module"),
        ("agentforge.model.names", "nothing", "x", "there is no nothing"),
        ("agentforge.model.names", "session_name", "no_such_code", "occurs 0 times"),
        ("agentforge.model.names", "session_argument", "session", "occurs 3 times"),
    ],
)
def test_code_that_does_not_exist_exactly_once_is_refused(
    module: str, place: str, old: str, error: str
) -> None:
    with pytest.raises(StaleMutation, match=error):
        Mutation(module, "stale", place, old, "").mutated()


def test_code_is_found_whatever_its_format(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "class C:\n    def f(self, a):\n        if (a and  # why\n            b): return 1\n"
    )
    mutation = Mutation("m", "always", "C.f", "a and b", "True")
    assert (
        mutation.mutated(tmp_path)
        == "class C:\n\n    def f(self, a):\n        if True:\n            return 1"
    )


@pytest.mark.parametrize("module", sorted({*MODULES, *TESTS}))
def test_modules_of_generated_mutations_exist(module: str) -> None:
    place = SOURCE / "agentforge" / module
    assert place.is_dir() or place.with_suffix(".py").exists()


@pytest.mark.parametrize("test", sorted({test for tests in TESTS.values() for test in tests}))
def test_tests_of_generated_mutations_exist(test: str) -> None:
    assert (ROOT / test).exists()


def test_survivors_are_in_functions_that_exist() -> None:
    for place in SURVIVORS:
        module = "agentforge"
        *names, function = place.split(".")
        while names and not path_of(module).exists():
            module = f"{module}.{names.pop(0)}"
        assert f"def {function}(" in path_of(module).read_text(), place
