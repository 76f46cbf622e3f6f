"""What providers say about settings is reported where they are written."""

from collections.abc import Iterator

import pytest
from tests.definition.world import TextWorld, where

from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.machine import Machine, SettingProblem
from agentforge.definition.validate import is_of_definition
from agentforge.model.diagnostic import Diagnostic
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides, ProviderChoice

TEXT = """\
nodes:
  - id: a
    prompt: x
    provider: [{type: mine, model: big, speed: 9}, {type: other, speed: 8}]
  - id: b
    parallel:
      providers: [{name: mine, speed: 7}]
      stages: [{id: c, prompt: x}]
"""


def found(*problems: SettingProblem, **config: int) -> list[Diagnostic]:
    def check(choice: ProviderChoice) -> Iterator[SettingProblem]:
        yield from problems if choice.type == "mine" else ()

    world, overrides = TextWorld({"p.yaml": TEXT}), Overrides(config=config)
    try:
        compiled = compile_pipeline(world, "p.yaml", "s", overrides, Machine(check_settings=check))
    except DefinitionError as error:
        return list(error.diagnostics)
    return list(compiled.warnings)


def test_each_problem_is_at_the_setting_that_it_quotes() -> None:
    reported = found(SettingProblem("`speed` is slow", "raise it", is_error=False))
    assert [(where(one), one.hint) for one in reported] == [
        ("provider-settings 4:41", "raise it"),
        ("provider-settings 7:32", "raise it"),
    ]
    model, block = found(SettingProblem("`model` may be unknown"))
    assert where(model) == "provider-settings 4:36"
    # Without a model of its own, it is at the name of the provider.
    assert where(block) == "provider-settings 7:26"
    assert model.is_error


def test_a_problem_that_quotes_nothing_is_at_the_providers_name() -> None:
    assert where(found(SettingProblem("set either `argv` or `run`"))[0]) == "provider-settings 4:23"


def test_a_setting_of_the_caller_is_named_as_an_argument() -> None:
    reported = found(SettingProblem("`speed` is slow"), speed=1)
    assert {one.place.file for one in reported if one.text == "--provider-config speed"} == {"<arguments>"}


def test_the_place_of_each_provider_is_kept() -> None:
    compiled = compile_pipeline(TextWorld({"p.yaml": TEXT}), "p.yaml", "s")
    assert {name: (at.line, at.col) for name, (at, _) in compiled.providers.items()} == {
        "mine": (4, 23),
        "other": (4, 59),
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("set `run`", True),
        ("cannot use big", True),
        ("IS_SANDBOX is 'yes'", False),
        ("set `IS_SANDBOX`", False),
    ],
)
def test_errors_about_the_machine_are_not_of_the_definition(message: str, expected: bool) -> None:
    assert is_of_definition(message, ProviderChoice("mine", "big")) is expected
