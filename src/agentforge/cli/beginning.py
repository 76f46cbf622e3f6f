"""`pipeline`, `loop` and `STAGE`: agent-pipelines' own ways to begin a run, in the background by default."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli.invocation import Decorated, driving, invocation, record_option
from agentforge.cli.output import note
from agentforge.cli.overrides import overriding
from agentforge.cli.wanted import Wanted

if TYPE_CHECKING:
    from agentforge.model.facts import TmuxSessionCleaned
    from agentforge.sdk.background import Background
    from agentforge.sdk.engine import Engine


def _cleaned(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> "tuple[TmuxSessionCleaned, ...]":
    if value is None:
        return ()
    from agentforge.model.facts import TmuxSessionCleaned

    name, _, pid = value.partition(":")
    return (TmuxSessionCleaned(name, int(pid) if pid.isdigit() else None),)


def beginning(command: Decorated) -> Decorated:
    options: tuple[Callable[[Decorated], Decorated], ...] = (
        click.option("--force", is_flag=True, help="Stop a run of that name, keep it aside, begin anew."),
        click.option("--resume", "is_resumed", is_flag=True, help="Go on with the session instead."),
        click.option(
            "--recompile", is_flag=True, help="With --resume: go on by the definition as it is now."
        ),
        click.option(
            "--foreground/--tmux",
            "--no-tmux",
            "foreground",
            default=False,
            help="Stay attached, or go on in the background.  [default: --tmux]",
        ),
        record_option,
        click.option("--cleaned-tmux", "notes", hidden=True, callback=_cleaned),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("file")
@click.argument("session", required=False)
@click.argument("runs", type=click.IntRange(min=1), required=False)
@beginning
@overriding
@driving
def pipeline(*, file: str, session: str | None, runs: int | None, **options: Any) -> int:
    """Run a pipeline from a file or by name, RUNS times in a row.

    In the background unless --foreground: in a detached tmux session `pipeline-SESSION`, or in a new window
    where you are inside of tmux.
    """
    if options["is_resumed"] and session is None:
        raise click.UsageError("name the session to resume: agentforge pipeline FILE SESSION --resume")
    return _do(options, session=session, pipeline=file, count=runs)


@click.command()
@click.argument("stage")
@click.argument("session", required=False)
@click.argument("most", metavar="[MAX]", type=click.IntRange(min=1), required=False)
@beginning
@overriding
@driving
def loop(*, stage: str, session: str | None, most: int | None, **options: Any) -> int:
    """Run a single stage, MAX times at most. `agentforge STAGE [SESSION] [MAX]` is the same.

    In the background unless --foreground: in a detached tmux session `pipeline-SESSION`, or in a new window
    where you are inside of tmux.
    """
    return _do(options, session=stage if session is None else session, stage=stage, count=most)


def _do(options: dict[str, Any], **what: Any) -> int:
    from agentforge.model.ids import session_name

    if what["session"] is not None:
        session_name(what["session"])
    foreground, notes = options.pop("foreground"), options.pop("notes")
    how = {name: options.pop(name) for name in ("force", "recompile", "is_resumed", "record")}
    wanted = Wanted(options=options, **what, **how)
    if wanted.is_resumed:
        _refuse_unheard(wanted)
    if not foreground:
        from agentforge.cli.background import send

        return send(invocation(), wanted, _check)
    if wanted.is_resumed:
        from agentforge.cli.resume import go_on

        return go_on(
            invocation(),
            what["session"],
            context=options["context"],
            force=wanted.force,
            recompile=wanted.recompiled,
            notes=notes,
            record=wanted.record,
        )
    from agentforge.cli.run import begin

    return begin(wanted, notes)


async def _check(engine: "Engine", wanted: Wanted, background: "Background") -> str:
    """What can be refused is refused here, where it is seen; the session."""
    from agentforge.cli.run import compile_shown

    if wanted.is_resumed and wanted.session is not None:
        background.refuse(wanted.session, force=wanted.force)
        engine.validate_resume(wanted.session, force=wanted.force, recompile=wanted.recompiled(engine))
        return wanted.session
    compiled = compile_shown(wanted.compiled, engine)
    session = compiled.plan.session.name
    background.refuse(session, force=wanted.force)
    await engine.validate_start(compiled, force=wanted.force)
    return session


def _refuse_unheard(wanted: Wanted) -> None:
    """A resumed run keeps its plan: what would change it isn't silently dropped."""
    plan = invocation().runs.info(wanted.session or "").plan
    if wanted.recompile:
        return
    names = {"provider": "--provider", "model": "--model", "inputs": "--input", "commands": "--command"}
    for name, option in names.items():
        if wanted.options[name]:
            raise click.UsageError(f"a resumed run keeps its plan: {option} takes effect with --recompile")
    kept = plan.only_stage.termination.max if plan.mode == "loop" else plan.passes
    if wanted.count not in (None, kept):
        note(f"The run keeps its plan, with {kept} and not {wanted.count}: --recompile changes that.")
