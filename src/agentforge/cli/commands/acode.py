"""The commands that only `acode` has: it starts the loop, and shows a run by its stages."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from agentforge import Definitions
from agentforge.cli import exit_codes
from agentforge.cli.commands.resume import resume
from agentforge.cli.commands.run import refuse_name
from agentforge.cli.commands.show import show
from agentforge.cli.commands.status import list_runs, status_of
from agentforge.cli.controls import trust_option
from agentforge.cli.invocation import (
    ACODE,
    Invocation,
    choose_session_to_show,
    engine_options,
    invocation,
    options_of,
    project_options,
)
from agentforge.cli.output import PROGRAM, echo, local_zone, note, print_json, styled
from agentforge.cli.run_options import Definition, definition_of, from_stdin, options_for, taken
from agentforge.cli.run_views import show_view
from agentforge.cli.start import start_attached
from agentforge.model.artifact import is_of_engine
from agentforge.model.errors import DefinitionError, InvalidRequest
from agentforge.model.names import DEFAULT_PIPELINE, session_argument
from agentforge.model.plan_limits import MAX_CYCLES, MAX_SECONDS
from agentforge.model.run_options import OverrideOptions, StartOptions
from agentforge.views.lines.acode import acode_status_rows
from agentforge.views.lines.metrics import metrics_lines
from agentforge.views.stage_progress import current_step
from agentforge.views.token_budget import BYTES_PER_TOKEN

if TYPE_CHECKING:
    from agentforge import RunInfo, RunWork

STAGES = ("planner", "executor", "verifier", "reviewer")
*_, VERIFIER, REVIEWER = STAGES
MAX_REVIEWS = 1000
MAX_FILES = 50
PATCH_TOKENS = 20_000
"""The budget of a reviewer that has none."""


_limits = options_of(
    *(
        click.option(
            f"--{id}-timeout",
            type=click.FloatRange(0, MAX_SECONDS, min_open=True),
            metavar="SECONDS",
            help=f"Maximum seconds of an attempt in stage {id}.",
        )
        for id in STAGES
    ),
    click.option(
        "--cycle-limit",
        type=click.IntRange(1, MAX_CYCLES),
        metavar="N",
        help="Maximum number of cycles before a person is asked.",
    ),
)


@click.command()
@click.argument("wanted", metavar="REQUEST", callback=from_stdin)
@click.option("-s", "--session", help="Name of the run.  [default: the pipeline's name and the time]")
@click.option("--skip-verify", is_flag=True, help="Skip the stage verifier, with its checks.")
@_limits
@options_for(StartOptions)
@trust_option
@options_for(OverrideOptions)
@engine_options
def run(*, wanted: str, session: str | None, skip_verify: bool, trust: bool, **options: Any) -> int:
    """Plan what REQUEST says, do it step by step, verify it and review it; - reads REQUEST from stdin.

    The timeouts and --cycle-limit stand above settings, in pipelines that take those (`settings:
    orchestration`).

    Ctrl-C lets the agent finish its iteration and pauses the run; `acode resume` resumes it.
    """
    refuse_name(wanted)
    limits = {f"stages.{id}.timeout": options.pop(f"{id}_timeout") for id in STAGES}
    limits["cycle_limit"] = options.pop("cycle_limit")
    options["orchestration"] = {key: value for key, value in limits.items() if value is not None}
    options["request"] = wanted
    pipeline = Definitions(invocation().root).default_pipeline() or DEFAULT_PIPELINE
    what = definition_of(options, session, pipeline=pipeline)
    reason = options["reason"]
    if skip_verify and not (options["skip"] or options["skip_checks"]):
        options["reason"] = None  # It may be only for this.
    how = taken(StartOptions, options)
    if skip_verify:
        how["skip"] = {**how["skip"], VERIFIER: reason or f"{ACODE} run --skip-verify"}
    return start_attached(what, how, trust=trust)


# It is the argument.
run.params = [parameter for parameter in run.params if parameter.name != "request"]


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@project_options
def status(session: str | None) -> None:
    """Show the stage and the step of a run, and what a person can do.

    ID can be omitted if there is only one unfinished session.
    """
    call, now = invocation(), datetime.now(UTC)
    info = call.runs.info(choose_session_to_show(call, session))
    if call.as_json:
        print_json(status_of(info, now, call.program))
        return
    for row in acode_status_rows(status_of(info, now, PROGRAM), now, local_zone()):
        echo(f"{row.label}: {styled(call.named(row.value), row.tone)}")


@click.command()
@click.argument("session", metavar="ID")
@click.option("--force", is_flag=True, required=True, help="Confirms it: a run reviews its work by itself.")
@trust_option
@engine_options
def review(session: str, force: bool, trust: bool) -> int:  # noqa: ARG001 - only confirms
    """Review the work of a run again.

    A run that is in its stage reviewer starts that over. A completed one stays as it is: a new run with the
    name ID-review-1 has its artifacts and starts with the reviewer. It only reviews: what that rejects is
    for another run to change.
    """
    call = invocation()
    info = call.runs.info(session)
    ids = [step.node.id for step in info.plan.steps]
    if REVIEWER not in ids:
        raise InvalidRequest(f"session {session!r} has no stage {REVIEWER!r}: {', '.join(ids)}")
    if info.status == "completed":
        return _review_again(call, info, ids[: ids.index(REVIEWER)], trust=trust)
    here = current_step(info.plan, info.state)
    if info.status == "aborted" or here is None or here.node.id != REVIEWER:
        where = "was cancelled" if info.status == "aborted" else f"is in stage {here.node.id}" if here else ""
        hint = f"`agentforge status {session_argument(session)}` shows it"
        raise InvalidRequest(f"session {session!r} {where}, not in stage {REVIEWER}", hint=hint)
    again = [session, "--restart-stage", *(["--trust"] if trust else [])]
    with resume.make_context("resume", again, parent=click.get_current_context()) as context:
        restarted: int = resume.invoke(context)
    return restarted


def _review_again(call: Invocation, info: "RunInfo", before: list[str], *, trust: bool) -> int:
    """`before`: the stages before the reviewer."""
    from agentforge import RunWork

    work, asked, taken_names = RunWork(call.runs, info.session), info.state.user_request, call.runs.sessions()
    names = (f"{info.session[:48]}-review-{number}" for number in range(1, MAX_REVIEWS))
    session = next(name for name in names if name not in taken_names)
    request = f"{asked.text if asked else ''}\n\nThe work to review was done in session {info.session}."
    with suppress(InvalidRequest):  # Its files were not recorded.
        total = work.total(binary=False)
        if files := [change.path for change in total.changes.files[:MAX_FILES]]:
            request += f" It changed: {', '.join(files)}\n\n{_shown_patch(total.patch, info)}"
    how: StartOptions = {
        "request": request.strip(),
        "artifact": _left(work, before),
        "skip": dict.fromkeys(before, f"{ACODE} review {info.session}"),
    }
    overrides = info.plan.pipeline.overrides
    # A rejection can't lead to another plan: its stages are skipped.
    once = replace(overrides, orchestration={**overrides.orchestration, "cycle_limit": 1})
    try:
        status = start_attached(Definition(session, once, info.plan.source.path), how, trust=trust)
    except DefinitionError as error:
        if any(one.code != "no-orchestration" for one in error.diagnostics):
            raise
        status = start_attached(Definition(session, overrides, info.plan.source.path), how, trust=trust)
    if status == exit_codes.CYCLE_LIMIT:
        end = f"{ACODE} cancel {session_argument(session)}"
        note(
            "This run only reviews: a resume repeats that. To have the work changed, say what the reviewer"
            f' found in the request of another run: `{ACODE} run "REQUEST"`; `{end}` ends this one.'
        )
    return status


def _shown_patch(patch: bytes, info: "RunInfo") -> str:
    """As much as leaves half of the reviewer's budget free."""
    budgets = (stage.tokens.limit for stage in info.plan.stages if stage.id == REVIEWER and stage.tokens)
    tokens = next(budgets, None) or PATCH_TOKENS
    room = tokens * BYTES_PER_TOKEN // 2
    more = (
        f"\n[cut: `agentforge diff {session_argument(info.session)}` shows all]" if len(patch) > room else ""
    )
    return patch[:room].decode("utf-8", "replace") + more


def _left(work: "RunWork", stages: list[str]) -> dict[str, Any]:
    """What these stages left, as later ones get it."""
    found: dict[str, Any] = {}
    for one in work.artifacts(latest=True):
        if one.stage not in stages or one.value is None:
            continue
        if one.item:
            found.setdefault(one.stage, {})[one.item] = one.value
        else:
            found |= {name: value for name, value in one.value.items() if not is_of_engine(name)}
    return found


@click.group()
def metrics() -> None:
    """Show what the stages of a run took."""


@metrics.command("session")
@click.argument("session", metavar="[ID]", required=False)
@project_options
def metrics_of_session(session: str | None) -> None:
    """Show the duration, tokens, retries and steps of each stage."""
    call, work = _work(session)
    if call.as_json:
        show_view(call, work, "metrics")
    else:
        echo(*metrics_lines(work.metrics()))


@click.group()
def session() -> None:
    """List runs, and show what happened in them."""


@session.command("history")
@click.argument("session", metavar="[ID]", required=False)
@click.option("--cycles", is_flag=True, help="Also show checks, reasons and routes.")
@project_options
def history(session: str | None, cycles: bool) -> None:
    """List the visits to stages, with verdicts."""
    call, work = _work(session)
    show_view(call, work, "history", details=cycles)


def _work(session: str | None) -> "tuple[Invocation, RunWork]":
    from agentforge import RunWork

    call = invocation()
    return call, RunWork(call.runs, choose_session_to_show(call, session))


session.add_command(list_runs)
session.add_command(show)
