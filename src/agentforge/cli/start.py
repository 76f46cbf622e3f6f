"""How a run begins: `run`, and agent-pipelines' own `pipeline`, `loop` and `STAGE`, in the background by
default; `dry-run` shows what would be done."""

import asyncio
import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation, driving, invocation, looking, options_of, record_option
from agentforge.cli.output import note, print_json
from agentforge.cli.run_options import Wanted, compile_shown, overriding
from agentforge.views.lines.preview import preview

if TYPE_CHECKING:
    from agentforge.app.background import Background, Begun
    from agentforge.app.results import RunResult
    from agentforge.model.facts import AnyFact, TmuxSessionCleaned
    from agentforge.sdk.engine import Engine


@click.command()
@click.option("-p", "--pipeline", metavar="PIPELINE|FILE", help="A file, or the name of a pipeline.")
@click.option("-s", "--session", help="What to call the run.  [default: the pipeline's name and the time]")
@click.option("--force", is_flag=True, help="Stop a run of that name, keep it aside, begin anew.")
@record_option
@overriding
@driving
def run(*, pipeline: str | None, session: str | None, force: bool, record: bool, **options: Any) -> int:
    """Run a pipeline, shown as it goes.

    Ctrl-C lets the agent finish its iteration and pauses the run: `agentforge resume` goes on.
    """
    if pipeline is None:
        raise click.UsageError("give a pipeline: agentforge run -p FILE (`agentforge pipelines` lists names)")
    return begin(Wanted(session, options, pipeline=pipeline, force=force, record=record))


def begin(wanted: Wanted, notes: "Sequence[AnyFact]" = ()) -> int:
    """Begin a run and stay with it."""
    from agentforge.cli.attached import conclude, drive
    from agentforge.cli.log_output import current_session

    call = invocation()

    async def work(engine: "Engine") -> "RunResult":
        compiled = compile_shown(wanted.compiled, engine)
        current_session.set(compiled.plan.session.name)
        return await engine.start(compiled, force=wanted.force, notes=notes, record=wanted.record)

    return conclude(call, drive(call, work))


def _cleaned(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> "tuple[TmuxSessionCleaned, ...]":
    if value is None:
        return ()
    from agentforge.model.facts import TmuxSessionCleaned

    name, _, pid = value.partition(":")
    return (TmuxSessionCleaned(name, int(pid) if pid.isdigit() else None),)


beginning = options_of(
    click.option("--force", is_flag=True, help="Stop a run of that name, keep it aside, begin anew."),
    click.option("--resume", "is_resumed", is_flag=True, help="Go on with the session instead."),
    click.option("--recompile", is_flag=True, help="With --resume: go on by the definition as it is now."),
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
    from agentforge.model.session_name import session_name

    if what["session"] is not None:
        session_name(what["session"])
    foreground, notes = options.pop("foreground"), options.pop("notes")
    how = {name: options.pop(name) for name in ("force", "recompile", "is_resumed", "record")}
    wanted = Wanted(options=options, **what, **how)
    if wanted.is_resumed:
        _refuse_unheard(wanted)
    if not foreground:
        return _send(invocation(), wanted)
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
    return begin(wanted, notes)


async def _check(engine: "Engine", wanted: Wanted, background: "Background") -> str:
    """What can be refused is refused here, where it is seen; the session."""
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


def _send(call: Invocation, wanted: Wanted) -> int:
    """Start the run in tmux; everything that can be refused at once is."""
    from agentforge.app.background import Background
    from agentforge.cli.log_output import set_up_logs
    from agentforge.sdk.engine import Engine

    async def start() -> "tuple[Begun, TmuxSessionCleaned | None]":
        background = Background(call.runs, os.environ)
        async with Engine(call.root) as engine:
            session = await _check(engine, wanted, background)
            cleaned = await background.make_way(session, force=wanted.force)
        return await background.start(session, wanted.arguments(call.root, session, cleaned)), cleaned

    set_up_logs(call)
    begun, cleaned = asyncio.run(start())
    if call.as_json:
        shown = {"session": begun.session, "tmux": begun.name, "window": begun.is_window, "cleaned": cleaned}
        print_json(shown)
    else:
        click.echo("\n".join(_hints(call, begun)))
    return exit_codes.COMPLETED


def _hints(call: Invocation, begun: "Begun") -> list[str]:
    kind = "window" if begun.is_window else "session"
    first = "tmux window" if begun.is_window else "tmux"
    attach = "select-window" if begun.is_window else "attach"
    session = f"{'-- ' if begun.session.startswith('-') else ''}{shlex.quote(begun.session)}"
    return [
        f"Session started in {first}: {begun.name}",
        "",
        f"  Monitor: tmux capture-pane -t {begun.name} -p | tail -50",
        f"  Attach:  tmux {attach} -t {begun.name}",
        f"  Status:  {call.program} status {session}",
        f"  Kill:    tmux kill-{kind} -t {begun.name}",
    ]


@click.command("dry-run")
@click.argument("kind", metavar="loop|pipeline", type=click.Choice(("loop", "stage", "pipeline")))
@click.argument("name")
@click.argument("session", default="preview")
@overriding
@looking
def dry_run(kind: str, name: str, session: str, **options: Any) -> None:
    """Show what a run would do: its stages, providers, iterations, inputs and directories.

    NAME is a stage or a pipeline, by file or by name. Nothing is started and nothing is written.
    """
    from agentforge.sdk.engine import Engine

    call = invocation()
    pipeline, stage = (name, None) if kind == "pipeline" else (None, name)
    wanted = Wanted(session, options, pipeline, stage)
    engine = Engine(call.root)
    compiled = compile_shown(wanted.compiled, engine)
    if call.as_json:
        print_json({"plan": compiled.plan, "run_dir": engine.runs.layout(session).root})
    else:
        click.echo("\n".join(preview(compiled.plan, engine.runs.layout(session))))
