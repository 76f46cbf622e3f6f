"""`agentforge hooks`: list the calls of a run's hooks."""

from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from agentforge.cli.commands.status import local_zone
from agentforge.cli.invocation import choose_session_to_show, invocation, project_options
from agentforge.cli.output import echo, hanging, marked, print_json, styled
from agentforge.model.status import status_text
from agentforge.views.lines.hooks import DeliveryText, delivery_text
from agentforge.views.record import record_of
from agentforge.views.text import counted, padded

if TYPE_CHECKING:
    from agentforge import RunInfo

LABEL = 8


@click.command()
@click.argument("session", required=False)
@project_options
def hooks(session: str | None) -> None:
    """List the hook calls of a run, with keys, tries and answers.

    A hook is called once each time the run reaches its hook point. All tries of a call have the same key,
    which a webhook sends as Idempotency-Key. SESSION can be omitted if there is only one unfinished session.
    """
    call = invocation()
    name = choose_session_to_show(call, session)
    info = call.runs.info(name)
    found = record_of(call.runs.events(name)).deliveries
    if call.as_json:
        print_json({**_head(info), "deliveries": [{**asdict(one), "status": one.status} for one in found]})
        return
    status, pipeline = status_text(info.status, info.state.open_requests), info.plan.pipeline.name
    calls = sum(one.key is not None for one in found)
    number = counted(calls, "hook call") if calls else "no hooks were called"
    echo(f"{styled(name, 'strong')}: {status}, pipeline {pipeline}, {number}")
    zone = local_zone()
    for one in found:
        _show(delivery_text(one, status, zone))


def _show(delivery: DeliveryText) -> None:
    echo("", f"{marked(delivery.mark)} {styled(delivery.title, 'strong')}")
    for row in delivery.rows:
        label = styled(padded(row.label + ":", LABEL), "dim")
        echo(*f"    {label} {hanging(row.value, LABEL + 5)}".split("\n"))


def _head(info: "RunInfo") -> dict[str, Any]:
    return {
        "session": info.session,
        "status": info.status,
        "pipeline": info.plan.pipeline.name,
        "run_dir": info.run_dir,
    }
