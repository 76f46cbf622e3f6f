"""`agentforge completion`: print the script with which a shell completes commands and names."""

import click

from agentforge.cli.invocation import invocation, json_option
from agentforge.cli.output import echo, print_json


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
    if call.as_json:
        print_json({"shell": shell, "script": script})
    else:
        echo(*script.rstrip("\n").split("\n"))
