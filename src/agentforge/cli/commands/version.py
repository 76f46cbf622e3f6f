"""`agentforge version`."""

import platform

import click

from agentforge.cli.invocation import invocation, json_option
from agentforge.cli.output import echo, print_json
from agentforge.version import __version__


@click.command()
@json_option
def version() -> None:
    """Print the version."""
    if invocation().as_json:
        print_json({"version": __version__, "python": platform.python_version()})
    else:
        echo(f"agentforge, version {__version__}")
