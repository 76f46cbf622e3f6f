"""`agentforge config`: read and change settings."""

from typing import Any

import click
import msgspec

from agentforge.cli import exit_codes
from agentforge.cli.invocation import invocation, options_of, project_options
from agentforge.cli.output import echo, echo_wrapped, marked, print_json, styled
from agentforge.model.diagnostic import render
from agentforge.model.layout import PROJECT_SETTINGS
from agentforge.views.text import one_line

user_option = click.option("--user", is_flag=True, help="Your own file, for all projects.")
change_options = options_of(user_option, project_options)


@click.group()
def config() -> None:
    """Read and change settings.

    Settings are in `.agentforge/config/settings.yaml` or `.agent/config.yml` of a project, and in
    `agentforge/settings.yaml` of $XDG_CONFIG_HOME for all projects. See docs/settings.md.
    """


@config.command()
@click.option("--force", is_flag=True, help="Replace the file.")
@change_options
def init(force: bool, user: bool) -> None:
    """Write a settings file in which everything is commented out."""
    call = invocation()
    path = _files().init(user=user, force=force)
    if call.as_json:
        print_json({"created": path})
    elif path:
        echo(f"{marked('ok')} created {path}")
    else:
        echo(f"{marked('note')} there is a settings file already; --force replaces it")


@config.command()
@click.argument("key")
@project_options
def get(key: str) -> None:
    """Print the value of a setting that is in force.

    \b
      agentforge config get orchestration.cycle_limit
    """
    found = _files().get(key)
    if invocation().as_json:
        print_json(found)
    else:
        echo(_shown(found.value))


@config.command("set")
@click.argument("key")
@click.argument("value")
@change_options
def set_(key: str, value: str, user: bool) -> None:
    """Set a setting of the project.

    VALUE is YAML. Comments and the order of the file stay. A value that `validate` refuses changes nothing.

    \b
      agentforge config set provider codex
      agentforge config set commands.test "pytest -q"
      agentforge config set --user sandbox auto
    """
    path = _files().set(key, value, user=user)
    if invocation().as_json:
        print_json({"key": key, "file": path})
    else:
        echo(f"{marked('ok')} {one_line(key)} is set in {path}")


@config.command()
@click.option("--origin", is_flag=True, help="Also show where each value comes from.")
@project_options
def show(origin: bool) -> None:
    """List the settings that are in force."""
    found = _files().show()
    if invocation().as_json:
        print_json(found)
        return
    for one in found:
        place = f"  {styled(f'({one_line(one.origin)})', 'dim')}" if origin else ""
        echo(f"{one.key}: {one_line(_shown(one.value), 200)}{place}")


@config.command()
@project_options
def validate() -> int:
    """Check the settings files."""
    found = _files().validate()
    if invocation().as_json:
        print_json({"passed": found.passed, "files": found.files, "diagnostics": found.diagnostics})
    else:
        if found.diagnostics:
            echo(*render(found.diagnostics).split("\n"), "")
        result = "No problems found" if found.passed else "Not valid"
        echo_wrapped(f"{result}: {', '.join(found.files) or 'there is no settings file'}")
    return exit_codes.COMPLETED if found.passed else exit_codes.USAGE


def _files() -> Any:
    from agentforge import SettingsFiles

    call = invocation()
    return SettingsFiles(call.root, new=PROJECT_SETTINGS[call.is_acode])


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
