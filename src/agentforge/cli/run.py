"""`agentforge run`, `pipeline`, `loop` and `STAGE`: begin a run and stay with it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli.invocation import Decorated, driving, invocation
from agentforge.cli.output import note
from agentforge.model.errors import InvalidRequest
from agentforge.model.plan import Overrides

if TYPE_CHECKING:
    from agentforge.sdk.engine import Engine
    from agentforge.sdk.results import RunResult


def overriding(command: Decorated) -> Decorated:
    """The options that outrank what files say."""
    options: tuple[Callable[[Decorated], Decorated], ...] = (
        click.option(
            "-i", "--input", "inputs", multiple=True, metavar="PATH", help="A file, folder or glob."
        ),
        click.option("--provider", metavar="NAME", help="Who does the work, above all that files say."),
        click.option("--model", metavar="NAME", help="The model, above all that files say."),
        click.option("--context", metavar="TEXT", help="Text for ${CONTEXT} in every prompt."),
        click.option(
            "--command", "commands", multiple=True, metavar="KEY=CMD", help="A command for the agents."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def beginning(command: Decorated) -> Decorated:
    """The options of agent-pipelines' own ways to begin a run."""
    options: tuple[Callable[[Decorated], Decorated], ...] = (
        click.option("--force", is_flag=True, help="Stop a run of that name, keep it aside, begin anew."),
        click.option("--resume", "resumed", is_flag=True, help="Go on with the session instead."),
        click.option("--recompile", is_flag=True, help="Not supported yet."),
        click.option("--foreground", "--no-tmux", is_flag=True, help="Stay attached, as it does anyway."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.option("-p", "--pipeline", metavar="PIPELINE|FILE", help="A file, or the name of a pipeline.")
@click.option("-s", "--session", help="What to call the run.  [default: the pipeline's name and the time]")
@click.option("--force", is_flag=True, help="Stop a run of that name, keep it aside, begin anew.")
@overriding
@driving
def run(pipeline: str | None, session: str | None, force: bool, **options: Any) -> int:
    """Run a pipeline, shown as it goes.

    Ctrl-C lets the agent finish its iteration and pauses the run: `agentforge resume` goes on.
    """
    if pipeline is None:
        raise click.UsageError("give a pipeline: agentforge run -p FILE (`agentforge pipelines` lists names)")
    return _begin(session, force=force, pipeline=pipeline, options=options)


@click.command()
@click.argument("file")
@click.argument("session", required=False)
@click.argument("runs", type=click.IntRange(min=1), default=1)
@beginning
@overriding
@driving
def pipeline(
    *, file: str, session: str | None, runs: int, force: bool, resumed: bool, recompile: bool, **options: Any
) -> int:
    """Run a pipeline from a file or by name."""
    _refuse_not_yet(recompile=recompile, runs=runs)
    if resumed:
        if session is None:
            raise click.UsageError("name the session to resume: agentforge pipeline FILE SESSION --resume")
        return _resume(session, force=force, context=options["context"])
    return _begin(session, force=force, pipeline=file, options=options)


@click.command()
@click.argument("stage")
@click.argument("session", required=False)
@click.argument("most", metavar="[MAX]", type=click.IntRange(min=1), required=False)
@beginning
@overriding
@driving
def loop(
    *,
    stage: str,
    session: str | None,
    most: int | None,
    force: bool,
    resumed: bool,
    recompile: bool,
    **options: Any,
) -> int:
    """Run a single stage, MAX times at most. `agentforge STAGE [SESSION] [MAX]` is the same."""
    _refuse_not_yet(recompile=recompile)
    if resumed:
        return _resume(session or stage, force=force, context=options["context"])
    return _begin(session, force=force, stage=stage, most=most, options=options)


def _begin(
    session: str | None,
    *,
    force: bool,
    options: dict[str, Any],
    pipeline: str | None = None,
    stage: str | None = None,
    most: int | None = None,
) -> int:
    from agentforge.cli.attached import conclude, drive
    from agentforge.cli.log_output import current_session
    from agentforge.model.ids import session_name

    call = invocation()
    if session is not None:
        session_name(session)
    overrides = Overrides(
        options["provider"],
        options["model"],
        options["context"],
        tuple(options["inputs"]),
        _commands(options["commands"]),
    )

    async def work(engine: "Engine") -> "RunResult":
        compiled = engine.compile(
            pipeline, stage=stage, session=session, max_iterations=most, overrides=overrides
        )
        if compiled.warnings:
            from agentforge.definition.diagnostics import render

            note(render(compiled.warnings))
        current_session.set(compiled.plan.session.name)
        return await engine.start(compiled, force=force)

    return conclude(call, drive(call, work))


def _resume(session: str, *, force: bool, context: str | None) -> int:
    from agentforge.cli.resume import go_on

    return go_on(invocation(), session, context=context, force=force)


def _commands(pairs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        key, equals, command = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(
                f"'{pair}' isn't KEY=CMD, as in test='pytest -q'", param_hint="--command"
            )
        found[key.strip()] = command
    return found


def _refuse_not_yet(*, recompile: bool, runs: int = 1) -> None:
    if recompile:
        raise InvalidRequest(
            "not supported yet: --recompile", hint="a resumed run keeps the plan it began with"
        )
    if runs > 1:
        raise InvalidRequest(
            f"not supported yet: {runs} runs of a pipeline in a row", hint="run it again under another name"
        )
