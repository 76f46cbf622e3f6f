"""docs/json-output.md names every command that accepts --json, and tests compare all of it."""

from collections.abc import Iterator
from typing import Any

import click
import pytest
from msgspec.structs import fields
from tests.surface import (
    test_json_background,
    test_json_controls,
    test_json_definitions,
    test_json_errors,
    test_json_removal,
    test_json_requests,
    test_json_results,
    test_json_status,
    test_json_work,
)
from tests.surface.json_page import PAGE, Comparison, Key, Page, read_page

from agentforge.cli.commands.demo import Survived
from agentforge.cli.main import app

SUBJECTS = (
    test_json_background,
    test_json_controls,
    test_json_definitions,
    test_json_removal,
    test_json_requests,
    test_json_results,
    test_json_status,
    test_json_work,
)
DEMO = "demo"
"""The demo takes too long; test_wheel.py compares what it prints."""


@pytest.fixture
def page() -> Page:
    return read_page(PAGE.read_text(encoding="utf-8"))


def accepting_json(command: click.Command, name: str = "") -> Iterator[str]:
    """The names of the commands that have the option."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None
            yield from accepting_json(inner, f"{name} {word}".strip())
    if name and any("--json" in parameter.opts for parameter in command.params):
        yield name


def without_options(documented: str) -> str:
    """The command of `recover --detach` and of `show SESSION STAGE`."""
    return " ".join(word for word in documented.split() if word.islower() and not word.startswith("-"))


def test_the_page_names_the_commands_that_accept_json(page: Page) -> None:
    assert {without_options(command) for command in page.commands} == set(accepting_json(app))


def test_everything_that_a_command_prints_is_compared(page: Page) -> None:
    documented = {(command, object) for command, objects in page.commands.items() for object in objects}
    examples = {example for subject in SUBJECTS for example in subject.EXAMPLES}
    assert examples | {(DEMO, DEMO)} == documented


def test_every_object_is_compared(page: Page) -> None:
    shown = {object for subject in (*SUBJECTS, test_json_errors) for object in subject.SHOWN}
    assert shown | {DEMO} == set(page.objects)


def test_keys_of_the_demo_are_those_of_the_page(page: Page) -> None:
    assert {key.name for key in fields(Survived)} == set(page.objects[DEMO].keys)


def references(key: Key) -> Iterator[str]:
    if key.object:
        yield key.object
    for inner in key.keys.values():
        yield from references(inner)


def test_every_object_is_documented_and_used(page: Page) -> None:
    used = {object for key in page.objects.values() for object in references(key)}
    printed = {object for objects in page.commands.values() for object in objects}
    assert used | printed | {"error"} == set(page.objects)


SMALL = """\
## Commands
| `one` | [thing](#thing) |
| `many` | `[]`: [thing](#thing) |
### thing
| `name` | |
| `note` (optional) | |
| `parts[].size` | |
| `parts[]` | [part](#part) |
| `data` | any JSON |
### part
| `id` | |
"""
THING: dict[str, Any] = {"name": "x", "note": "", "parts": [{"size": 1, "id": 2}], "data": {"a": 1}}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, None),
        ({"note": None}, None),
        ({"parts": [{"size": 1}]}, "one: part: id: missing"),
        ({"parts": [{"id": 1}]}, "one: thing: parts[].size: missing"),
        ({"parts": [{"size": 1, "id": 1, "new": 1}]}, "one: thing: parts[]: 'new' is not documented"),
        ({"parts": [1]}, "one: thing: parts[]: expected an object, found 1"),
        ({"name": {"first": "x"}}, "one: thing: name: its keys are not documented"),
        ({"new": 1}, "one: thing: : 'new' is not documented"),
    ],
)
def test_a_difference_from_the_page_is_found(changed: dict[str, Any], problem: str | None) -> None:
    comparison = Comparison(read_page(SMALL))
    comparison.compare({**THING, **changed}, "thing", "one")
    assert comparison.problems == ({problem} if problem else set())


def test_a_list_without_elements_shows_nothing() -> None:
    comparison = Comparison(read_page(SMALL))
    comparison.compare([{**THING, "parts": []}], "thing", "many")
    assert comparison.problems == set()
    assert comparison.unseen("thing") == {"thing: parts[]", "thing: parts[].size"}
    assert comparison.unseen("part") == {"part: id"}
