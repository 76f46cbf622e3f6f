"""`agentforge --help`: every command is in one group, and describes itself."""

import re
from pathlib import Path

import click
import pytest

from agentforge.cli.acode import SHARED, VERBS
from agentforge.cli.acode import call as call_acode
from agentforge.cli.main import ALIASES, COMMANDS, GROUPS, app, call

FOLDER = Path(__file__).resolve().parents[2] / "src/agentforge/cli/commands"


def test_groups_are_in_the_order_of_use() -> None:
    assert list(GROUPS) == ["Run", "Watch", "Decide", "Define", "Maintain"]


def test_every_command_is_in_one_group() -> None:
    assert sorted(COMMANDS) == sorted(name for group in GROUPS.values() for name in group)
    defined = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    places = [*COMMANDS.values(), *VERBS.values()]
    assert {place.partition(":")[0] for place in places} == defined


def test_help_lists_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--help"]) == 0
    shown = capsys.readouterr().out
    for group, names in GROUPS.items():
        section = re.search(rf"^{group} commands:\n((?:  .*\n)+)", shown, re.MULTILINE)
        assert section, group
        assert re.findall(r"^  (\S+) +\S", section[1], re.MULTILINE) == list(names)


@pytest.mark.parametrize("name", [*COMMANDS, *ALIASES])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: agentforge ")
    assert isinstance(app, click.Group)
    command = app.get_command(click.Context(app), name)
    assert command
    columns = 80 - len("  ") - max(map(len, COMMANDS)) - len("  ")
    assert len(command.get_short_help_str(200)) < columns, "the first sentence must fit on a line"


def test_acode_has_its_own_commands_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_acode(["--help"]) == 0
    shown = capsys.readouterr().out
    section = re.search(r"^Commands:\n((?:  .*\n)+)", shown, re.MULTILINE)
    assert section
    assert re.findall(r"^  (\S+) +\S", section[1], re.MULTILINE) == list(VERBS)
    assert set(VERBS) > SHARED


@pytest.mark.parametrize("words", [[verb] for verb in VERBS] + [["session", "show"], ["config", "set"]])
def test_every_command_of_acode_has_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call_acode([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: acode {' '.join(words)} ")
    assert not re.search(rf"agentforge ({'|'.join(SHARED)})\b", shown), "acode has that command"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("lint", "`agentforge lint` is a command"),
        ("stauts", "did you mean `status`?"),
        ("qqqq", "`acode --help` lists the commands"),
    ],
)
def test_acode_names_what_else_a_word_can_be(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_acode([word]) == 2
    assert f"Error: '{word}' is not a command of acode\n  hint: {hint}" in capsys.readouterr().err
    assert call_acode([word, "--json"]) == 2
    assert '"code": "usage"' in capsys.readouterr().out
