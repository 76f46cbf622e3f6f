"""The views of `agentforge show`: each an option, a selection from the record of a run, and its text.

A new view is a row of VIEWS. It has --json, and STAGE, ITERATION and --visit choose from what it lists.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import asdict

from agentforge.cli.invocation import Decorated, Invocation
from agentforge.cli.output import (
    columns,
    echo,
    echo_row,
    echo_wrapped,
    local_zone,
    marked,
    note,
    print_json,
    styled,
)
from agentforge.model.errors import InvalidRequest
from agentforge.model.status import status_text
from agentforge.views.lines.checks import waiver_text
from agentforge.views.lines.entries import RunEntry, Shown, check_entry, delivery_entry, visit_entry
from agentforge.views.lines.metrics import metrics_entry
from agentforge.views.lines.spans import span_entry
from agentforge.views.lines.structured_work import artifact_entry, item_entry, items_text
from agentforge.views.lines.timeline import timeline_count, timeline_lines
from agentforge.views.spending import cap_views
from agentforge.views.text import counted, one_line
from agentforge.views.timeline import timeline_json
from agentforge.views.visits import checks_of

if TYPE_CHECKING:
    from agentforge import ArtifactWork, RunInfo, RunWork, TimelineRow

LABEL = 9


class View(Struct, frozen=True, kw_only=True):
    help: str
    explained: str = ""
    """What the help of the command says of its entries."""
    key: str
    """Of the list in the JSON."""
    select: "Callable[[RunWork, bool], Sequence[Any]]"
    """What it lists; the flag: whether that is narrowed to details, a visit or an iteration."""
    count: Callable[[Sequence[Any]], str]
    entry: Callable[[Any, Shown], RunEntry] = span_entry
    """Of the timeline, not used: its lines depend on each other."""
    as_json: Callable[[Any], Any] = lambda one: one
    details: tuple[str, str] | None = None
    """An option that adds to the text, and its help."""
    takes: tuple[str, ...] = ("STAGE", "ITERATION", "--visit")
    """What limits the list, because the entries have it: a stage with its path and branch, an iteration, a
    visit."""
    spaced: bool = False
    """Whether a blank line comes before every entry, not only before the first."""


MAX_NAMED = 5
WRITTEN = "artifacts"
"""The view of which an entry can be written to a file."""
DRAWN = "timeline"
"""The view of lines that depend on each other, which can be drawn into a file."""
KEYS = {WRITTEN: "written", DRAWN: "svg"}
"""Of the path of that file in the JSON."""
VIEWS = {
    "checks": View(
        help="List the checks that the engine ran, with outcomes and counts.",
        key="checks",
        select=lambda work, _: checks_of(work.record.visits),
        count=lambda found: counted(len(found), "check run") if found else "no checks ran",
        entry=check_entry,
        details=("failures", "With --checks: also list what failed."),
    ),
    "history": View(
        help="List the visits to stages, with verdicts and trees.",
        explained="A stage is visited again when a route leads back to it, when its result is rejected, and"
        " when it is restarted. A tree is the id of the project's files at that moment.",
        key="visits",
        select=lambda work, _: work.record.visits,
        count=lambda found: counted(len(found), "visit"),
        entry=visit_entry,
        details=("cycles", "With --history: also show checks, reasons and routes."),
        takes=("STAGE", "--visit"),
    ),
    "hooks": View(
        help="List the calls of hooks, with their keys, tries and answers.",
        explained="All tries of a hook call have the same key, which a webhook sends as Idempotency-Key.",
        key="deliveries",
        select=lambda work, _: work.record.deliveries,
        count=lambda found: (
            counted(len(called), "hook call")
            if (called := [one for one in found if one.key is not None])
            else "no hooks were called"
        ),
        entry=delivery_entry,
        as_json=lambda one: {**asdict(one), "status": one.status},
        spaced=True,
    ),
    "artifacts": View(
        help="List the artifacts that later stages get: the latest of each stage or item.",
        key="artifacts",
        select=lambda work, all: work.artifacts(latest=not all),
        count=lambda found: counted(len(found), "artifact") if found else "no artifacts",
        entry=artifact_entry,
        details=("all", "With --artifacts: list all that were accepted, of all visits."),
        spaced=True,
    ),
    "items": View(
        help="List the items of stages over items, with what became of them.",
        explained="An item is a step: an element of a list in an artifact.",
        key="items",
        select=lambda work, _: work.items(),
        count=items_text,
        entry=item_entry,
        takes=("STAGE",),
    ),
    "metrics": View(
        help="List what each stage took: duration, tokens, retries, steps and cycles.",
        key="metrics",
        select=lambda work, _: work.metrics(),
        count=lambda found: counted(len(found), "stage"),
        entry=metrics_entry,
        takes=("STAGE",),
        spaced=True,
    ),
    "spans": View(
        help="List when each part of the run began and ended, with the ids that its logs name.",
        key="spans",
        select=lambda work, _: work.spans(),
        count=lambda found: counted(len(found), "span"),
        entry=span_entry,
        takes=(),
    ),
    DRAWN: View(
        help="Show when each part of the run was under way, what it waited for, and what it took.",
        key="timeline",
        select=lambda work, _: work.timeline(),
        count=timeline_count,
        as_json=timeline_json,
        takes=(),
    ),
}


def views_help() -> str:
    """What the help of the command says of all views."""
    *names, last = (f"--{name}" for name in VIEWS)
    explained = " ".join(view.explained for view in VIEWS.values() if view.explained)
    return f"{', '.join(names)} and {last} list something else of the run, or of STAGE. {explained}"


def view_options(command: Decorated) -> Decorated:
    """The options of all views, in the order of VIEWS; --help lists them in this order."""
    for name, view in reversed(VIEWS.items()):
        if view.details is not None:
            command = click.option(f"--{view.details[0]}", is_flag=True, help=view.details[1])(command)
        command = click.option(f"--{name}", is_flag=True, help=view.help)(command)
    return command


def chosen_view(parts: Sequence[str], flags: dict[str, bool]) -> tuple[str | None, bool]:
    """The one view or part that the options name, and whether they ask for its details."""
    # As values of one option, Click would take the last of them without a word.
    chosen = [name for name in (*parts, *VIEWS) if flags[name]]
    if len(chosen) > 1:
        raise click.UsageError(f"give one of {' and '.join(f'--{name}' for name in chosen)}")
    name = chosen[0] if chosen else None
    for other, view in VIEWS.items():
        if view.details and flags[view.details[0]] and other != name:
            raise click.UsageError(f"--{view.details[0]} goes with --{other}")
    details = VIEWS[name].details if name in VIEWS else None
    return name, details is not None and flags[details[0]]


def show_view(
    call: Invocation,
    work: "RunWork",
    name: str,
    place: tuple[str | None, int | None, int | None] = (None, None, None),
    *,
    details: bool = False,
    target: str | None = None,
) -> None:
    """`place`: the stage, the iteration and the visit, as far as they are given. `target`: a file for the
    one artifact, or the picture of the timeline."""
    view = VIEWS[name]
    given = [word for word, value in zip(("STAGE", "ITERATION", "--visit"), place, strict=True) if value]
    for word in given:
        if word not in view.takes:
            raise click.UsageError(f"--{name} takes no {word}")
    found = view.select(work, details or any(place[1:]))
    if given:
        found = work.narrowed(found, *place)
    written = (_drawn(work, target) if name == DRAWN else _written(found, target)) if target else None
    if call.as_json:
        also = {KEYS[name]: written} if name in KEYS else {}
        print_json({**run_head(work.info), view.key: [view.as_json(one) for one in found], **also})
        return
    echo_head(work.info, view.count(found))
    if name == DRAWN:
        _echo_timeline(found, work.info.status)
    else:
        _echo_entries(view, found, Shown(work.info.run_dir, work.info.status, local_zone(), details))
    if written:
        note(f"Wrote {written}")


def _echo_entries(view: View, found: Sequence[Any], shown: Shown) -> None:
    for number, one in enumerate(found):
        if view.spaced or not number:
            echo("")
        echo_entries([view.entry(one, shown)])


def echo_entries(entries: Sequence[RunEntry]) -> None:
    for entry in entries:
        echo(f"{marked(entry.mark)} {styled(entry.title, 'strong')}")
        for row in entry.rows:
            echo_row(row.label, row.value, LABEL, indent=4)
            for line in row.lines:
                echo(f"      {line}")


def _echo_timeline(rows: "Sequence[TimelineRow]", status: str) -> None:
    echo("")
    for line in timeline_lines(rows, status, columns()):
        head = f"{marked(line.mark) if line.mark else ' '} {line.label}"
        echo(f"{head}  {line.before}{styled(line.bar, line.tone)}{line.after}".rstrip())


def _drawn(work: "RunWork", target: str) -> str:
    from agentforge import write_timeline

    return write_timeline(work, target)


def _written(found: "Sequence[ArtifactWork]", target: str) -> str:
    """The path of the file to which the artifact was written."""
    from agentforge import write_artifact

    if len(found) != 1:
        stages = [one for one in found if one.stage][:MAX_NAMED]
        places = [one_line(f"{one.name} {one.iteration} --visit {one.visit}") for one in stages]
        named = f"name one of them: {', '.join(places)}" if places else ""
        raise InvalidRequest(f"-o writes one artifact; there are {len(found)}", hint=named)
    return write_artifact(found[0], target)


def run_head(info: "RunInfo") -> dict[str, Any]:
    """What the JSON of every view begins with."""
    return {
        "session": info.session,
        "status": info.status,
        "pipeline": info.plan.pipeline.name,
        "run_dir": info.run_dir,
        "waivers": info.state.waivers,
    }


def echo_head(info: "RunInfo", count: str) -> None:
    name, status = styled(info.session, "strong"), status_text(info.status, info.state.open_requests)
    spent = [cap.text for cap in cap_views(info.plan, info.state) if not cap.path]
    echo_wrapped(", ".join([f"{name}: {status}", f"pipeline {info.plan.pipeline.name}", count, *spent]))
    for waiver in info.state.waivers:
        echo_row("Waived", waiver_text(waiver), LABEL, indent=4)
