"""`agentforge checks` and `agentforge history`: the visits of a run to its stages."""

from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from agentforge.cli.invocation import Invocation, choose_session_to_show, invocation, project_options
from agentforge.cli.output import echo, hanging, marked, print_json, styled
from agentforge.model.status import status_text
from agentforge.views.lines.checks import waiver_text
from agentforge.views.lines.visits import VisitText, check_text, visit_text
from agentforge.views.record import record_of
from agentforge.views.text import counted, padded
from agentforge.views.visits import StageVisit

if TYPE_CHECKING:
    from agentforge import RunInfo

LABEL = 9


@click.command()
@click.argument("session", required=False)
@click.option("--failures", is_flag=True, help="Also list what failed.")
@project_options
def checks(session: str | None, failures: bool) -> None:
    """List the checks that a run executed, with outcomes and counts.

    A tree is the id of the project's files at that moment. SESSION can be omitted if there is only one
    unfinished session.
    """
    call = invocation()
    info, visits = _read(call, session)
    runs = [(visit, run) for visit in visits for run in visit.checks]
    if call.as_json:
        place = ("stage", "path", "branch", "visit")
        found = [{**{key: getattr(visit, key) for key in place}, **to_builtins(run)} for visit, run in runs]
        print_json({**_head(info), "checks": found})
        return
    _show_head(info, counted(len(runs), "check run") if runs else "no checks ran")
    if runs:
        echo("")
    for visit, run in runs:
        _show(check_text(visit, run, info.run_dir, failures=failures))


@click.command()
@click.argument("session", required=False)
@click.option("--cycles", is_flag=True, help="Also show checks, reasons and routes.")
@project_options
def history(session: str | None, cycles: bool) -> None:
    """List each visit to a stage, with its verdict and trees.

    A stage is visited again when a route leads back to it, when its result is rejected, and when it is
    restarted. A tree is the id of the project's files at that moment. SESSION can be omitted if there is only
    one unfinished session.
    """
    call = invocation()
    info, visits = _read(call, session)
    if call.as_json:
        print_json({**_head(info), "visits": visits})
        return
    _show_head(info, counted(len(visits), "visit"))
    if visits:
        echo("")
    for visit in visits:
        _show(visit_text(visit, cycles=cycles))


def _read(call: Invocation, session: str | None) -> "tuple[RunInfo, tuple[StageVisit, ...]]":
    name = choose_session_to_show(call, session)
    return call.runs.info(name), record_of(call.runs.events(name)).visits


def _head(info: "RunInfo") -> dict[str, Any]:
    return {
        "session": info.session,
        "status": info.status,
        "pipeline": info.plan.pipeline.name,
        "run_dir": info.run_dir,
        "waivers": info.state.waivers,
    }


def _show_head(info: "RunInfo", number: str) -> None:
    name, status = styled(info.session, "strong"), status_text(info.status, info.state.open_requests)
    echo(f"{name}: {status}, pipeline {info.plan.pipeline.name}, {number}")
    for waiver in info.state.waivers:
        label = styled(padded("Waived:", LABEL), "dim")
        echo(*f"    {label} {hanging(waiver_text(waiver), LABEL + 5)}".split("\n"))


def _show(visit: VisitText) -> None:
    echo(f"{marked(visit.mark)} {styled(visit.title, 'strong')}")
    for row in visit.rows:
        label = styled(padded(row.label + ":", LABEL), "dim")
        echo(*f"    {label} {hanging(row.value, LABEL + 5)}".split("\n"))
