"""`agentforge resume`: resume a stopped run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli.background import cleaned_option
from agentforge.cli.invocation import (
    Invocation,
    choose_session,
    engine_options,
    invocation,
    record_option,
    yes_option,
)
from agentforge.cli.output import echo, print_json
from agentforge.cli.run_options import skip_check_options, skipped_arguments, skipped_checks
from agentforge.cli.start import resume_attached, resume_detached
from agentforge.cli.trust import trust_option
from agentforge.views.status import RESUMABLE

if TYPE_CHECKING:
    from agentforge import Compiled, Engine


@click.command()
@click.argument("session", required=False)
@click.option("--context", metavar="TEXT", help="Text to add to ${CONTEXT} in later prompts.")
@click.option(
    "--restart-stage", is_flag=True, help="Start the current stage over, even while the run is running."
)
@click.option(
    "--provider",
    metavar="NAME",
    help="With --restart-stage in a parallel block: the provider whose branch to restart.",
)
@click.option("--force", is_flag=True, help="Stop the engine that runs it, and take over.")
@click.option("--recompile", is_flag=True, help="Recompile from the current definition before resuming.")
@click.option("--accept-damage", is_flag=True, help="Continue even if the log has damaged lines.")
@click.option("--detach", is_flag=True, help="Resume in the background, in tmux.")
@cleaned_option
@trust_option
@record_option
@yes_option
@skip_check_options
@engine_options
def resume(*, session: str | None, recompile: bool, detach: bool, trust: bool, **how: Any) -> int:
    """Resume a paused, failed or interrupted run.

    Resets failure counters. The run keeps the plan that it was started with unless --recompile is given.
    SESSION can be omitted if only one session can be resumed. To continue a run that waits for an approval or
    an answer, use `approve`, `reject` or `answer`.

    A run that was not started by you on this machine, such as one that came with a repository, is resumed
    only with --trust: its log decides which programs are run.
    """
    call = invocation()
    if how["provider"] is not None and not how["restart_stage"]:
        raise click.UsageError("--provider names the branch to start over: use it with --restart-stage")
    how["skip_checks"] = skipped_checks(how)
    name = choose_session(call, session, RESUMABLE, "to resume")
    if how["restart_stage"] and not how["force"] and call.runs.info(name).status == "running":
        return _restart_running(call, name, {**how, "recompile": recompile, "detach": detach})

    def recompiled(engine: "Engine") -> "Compiled | bool":
        return engine.recompile(name) if recompile else False

    if not detach:
        return resume_attached(call, name, recompile=recompiled, trust=trust, **how)
    flags = background_flags(recompile=recompile, **how)
    names = ("force", "accept_damage", "restart_stage", "provider", "approve", "skip_checks")
    checked = {name: how[name] for name in names}
    return resume_detached(call, name, flags, recompile=recompiled, trust=trust, **checked)


def background_flags(**given: Any) -> list[str]:
    """The options for the process in the background."""
    plain = {
        "--force": "force",
        "--recompile": "recompile",
        "--record": "record",
        "--accept-damage": "accept_damage",
        "--restart-stage": "restart_stage",
        "--yes": "approve",
    }
    flags = [flag for flag, key in plain.items() if given[key]]
    flags += skipped_arguments(given["skip_checks"])
    return flags + [f"--{key}={given[key]}" for key in ("context", "provider") if given[key]]


def refuse_resume_options(session: str, given: Mapping[str, Any]) -> None:
    """A run that is running takes no options of a resume."""
    for key in ("skip_checks", "context", "recompile", "record", "approve", "accept_damage", "detach"):
        if given[key]:
            option = {"skip_checks": "skip-check", "approve": "yes"}.get(key, key.replace("_", "-"))
            raise click.UsageError(
                f"--{option} can't be used while session '{session}' is running;"
                " use --force to stop it and take over"
            )


def _restart_running(call: Invocation, session: str, given: dict[str, Any]) -> int:
    """The engine that runs the session starts its stage over."""
    from agentforge.cli.controls import open_engine

    refuse_resume_options(session, given)
    with open_engine(call) as engine:
        engine.restart_stage(session, provider=given["provider"])
    if call.as_json:
        print_json({"session": session, "asked": "restart"})
    else:
        echo(f"Session '{session}' is restarting its current stage; its engine stops the agent first.")
    return 0
