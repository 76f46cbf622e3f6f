"""What the options of starting and resuming become: arguments of `Engine`, and of a process behind it."""

from collections.abc import Iterator

import click
import pytest

from agentforge.cli.commands.resume import refuse_for_running, resume
from agentforge.cli.commands.run import loop, pipeline
from agentforge.cli.invocation import Invocation
from agentforge.cli.main import app
from agentforge.cli.run_options import options_given, repeated, taken
from agentforge.model.run_options import (
    OverrideOptions,
    StartOptions,
    overrides_of,
)

HOSTILE = "--the server=\nis $(down)"
WORDS = {"pipeline": ["p.yaml", "auth", "2"], "loop": ["tidy", "auth", "2"], "resume": ["auth"]}
COMMANDS = (pipeline, loop, resume)
LOCAL = {"foreground", "detach", "trust"}
"""What is decided in the process that starts the other one."""


def called(command: click.Command, line: list[str]) -> click.Context:
    name = str(command.name)
    line = [*line, "--", *WORDS[name]]
    return command.make_context(name, line, obj=Invocation(), **app.context_settings)


def given() -> Iterator[tuple[click.Command, str, list[str]]]:
    """Every option of the commands, with arguments that give it."""
    for command in COMMANDS:
        for option in command.params:
            if isinstance(option, click.Option) and option.expose_value and not option.hidden:
                flag = option.opts[-1]
                written = HOSTILE if option.type is click.STRING else "7"
                value = [flag] if option.is_flag else [f"{flag}={written}"]
                yield command, str(option.name), value * (2 if option.multiple else 1)


@pytest.mark.parametrize(
    ("command", "name", "line"), [pytest.param(*one, id=one[2][0][:24]) for one in given()]
)
def test_option_is_the_same_in_the_background(command: click.Command, name: str, line: list[str]) -> None:
    context = called(command, line)
    again = called(command, repeated(context, trusted=False))
    assert context.params[name], "the option was given"
    expected = {**context.params, **{name: again.params[name] for name in LOCAL & context.params.keys()}}
    assert again.params == expected


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.name))
def test_zero_reaches_the_background_where_it_is_refused(command: click.Command) -> None:
    assert "--max-cost=0.0" in repeated(called(command, ["--max-cost=0"]), trusted=False)


def test_an_option_that_says_no_is_repeated() -> None:
    line = ["--no-supervised"]
    assert repeated(called(pipeline, line), trusted=False) == line


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.name))
def test_options_that_were_not_given_are_not_repeated(command: click.Command) -> None:
    assert repeated(called(command, []), trusted=False) == []
    assert repeated(called(command, ["--trust"]), trusted=False) == []
    assert repeated(called(command, []), trusted=True) == ["--trust"]


@pytest.mark.parametrize(
    "flag", ["--yes", "--skip-check=a", "--context=x", "--recompile", "--record", "--detach"]
)
def test_stage_of_a_running_run_is_not_restarted_with_options_of_a_resume(flag: str) -> None:
    allowed = ["--restart-stage", "--provider=claude", "--trust"]
    refuse_for_running("auth", options_given(called(resume, allowed)))
    name = flag.partition("=")[0]
    with pytest.raises(click.UsageError, match=f"^{name} can't be used while session 'auth' is running"):
        refuse_for_running("auth", options_given(called(resume, [*allowed, flag])))


def test_pairs_and_reasons_are_read() -> None:
    context = called(
        pipeline, ["--command=test=pytest -q", "--provider-config=a.b=1", "--skip-check=t", "--reason=down"]
    )
    options = dict(context.params)
    assert overrides_of(taken(OverrideOptions, options)) == overrides_of(
        OverrideOptions(commands={"test": "pytest -q"}, provider_config={"a": {"b": 1}})
    )
    assert taken(StartOptions, options)["skip_checks"] == {"t": "down"}
    assert options.keys() == {
        "file",
        "session",
        "runs",
        "foreground",
        "is_resumed",
        "recompile",
        "trust",
    }
