"""`agentforge version`, `help` and `completion`: about the program itself."""

import platform

import click

from agentforge.cli.invocation import invocation, json_option
from agentforge.cli.output import echo
from agentforge.version import __version__


@click.command()
@json_option
def version() -> None:
    """Print the version."""
    shown = {"version": __version__, "python": platform.python_version()}
    invocation().report(shown, f"agentforge, version {__version__}")


@click.command("help")
@click.argument("command", required=False)
@click.pass_context
def help_(context: click.Context, command: str | None) -> None:
    """Show this help, or the help of COMMAND."""
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    if command is None:
        echo(*root.get_help().split("\n"))
        return
    found = root.command.get_command(root, command)
    if found is None:
        raise click.UsageError(f"unknown command '{command}'; `{invocation().name} help` lists the commands")
    with click.Context(found, info_name=command, parent=root) as about:
        echo(*found.get_help(about).split("\n"))


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@json_option
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    It completes commands, options, sessions, stages, pipelines and requests. Put the line of your shell into
    its settings file:

    \b
      bash, in ~/.bashrc:                    eval "$(agentforge completion bash)"
      zsh, in ~/.zshrc, after compinit:      eval "$(agentforge completion zsh)"
      fish, in ~/.config/fish/config.fish:   agentforge completion fish | source
    """
    from click.shell_completion import get_completion_class

    call = invocation()
    kind = get_completion_class(shell)
    assert kind is not None, "one of click's own"
    script = kind(context.find_root().command, {}, call.name, call.completion_variable).source()
    call.report({"shell": shell, "script": script}, *script.rstrip("\n").split("\n"))
