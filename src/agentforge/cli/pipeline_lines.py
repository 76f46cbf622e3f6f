"""What is said of a run with the id of a pipeline (`PL-…`), in the words that its users know, and the list of
runs as `agentforge pipelines` shows it."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentforge.cli.invocation import Invocation
from agentforge.cli.output import echo, local_zone, print_json, styled
from agentforge.model.layout import SPECIFICATIONS
from agentforge.model.names import is_pipeline_id
from agentforge.model.status import status_text
from agentforge.views.lines.status import STATUS_TONES
from agentforge.views.stage_progress import stage_progress
from agentforge.views.text import duration_text, one_line, padded, width

if TYPE_CHECKING:
    from agentforge import RunResult, RunRow

DESIGN = "design"
SPEC_ID = "spec_id"
STATUSES = {
    "running": ("running", "interrupted"),
    "paused": ("paused", "awaiting_approval"),
    "completed": ("completed",),
    "failed": ("failed",),
    "aborted": ("aborted",),
}
"""What can be listed, and the statuses that each stands for."""
ALL = "all"
REQUEST_CHARS = 160


def start_lines(session: str, request: str) -> list[str]:
    return [f"Starting pipeline for: {one_line(request, REQUEST_CHARS)}", f"Pipeline ID: {session}"]


def outcome_json(call: Invocation, result: "RunResult") -> dict[str, Any]:
    """What the result of such a run has beside that of any other."""
    if not is_pipeline_id(result.session):
        return {}
    from agentforge import RunWork

    work = RunWork(call.runs, result.session)
    added = [one.added for one in work.artifacts(latest=True)]
    stages = stage_progress(work.info.plan, work.info.state)
    waived = {waiver.stage for waiver in work.info.state.waivers}
    done = [one.id for one in stages if one.mark in ("done", "warning")]
    return {
        "pipeline": work.info.plan.pipeline.name,
        "specification": next((one[SPEC_ID] for one in reversed(added) if SPEC_ID in one), None),
        "stages_completed": [id for id in done if id not in waived],
        "stages_skipped": [one.id for one in stages if one.id in waived],
    }


def outcome_lines(call: Invocation, result: "RunResult") -> list[str]:
    if not result.completed or not (found := outcome_json(call, result)):
        return []
    spec, plan = found["specification"], call.runs.info(result.session).plan
    is_design = spec is not None and found["pipeline"] == DESIGN
    lines = ["", styled("Design complete!" if is_design else "Pipeline completed successfully!", "good")]
    if spec is not None:
        path = f" ({SPECIFICATIONS}/{spec}.yaml)" if plan.pipeline.has_controller_view else ""
        lines.append(f"  Specification: {spec}{path}")
    lists = ((word, found[f"stages_{word}"]) for word in ("completed", "skipped"))
    lines += [f"  Stages {word}: {', '.join(map(one_line, ids))}" for word, ids in lists if ids]
    return [*lines, f"  Duration: {duration_text(result.duration_seconds, result.waited_seconds)}"]


def list_pipeline_runs(call: Invocation, status: str, count: int) -> None:
    """The latest runs of the project with this status."""
    named = STATUSES.get(status)
    rows = (call.runs.row(session) for session in call.runs.sessions())
    fitting = (row for row in rows if row.archived_from is None and (named is None or row.status in named))
    found = list(islice(fitting, count))
    if call.as_json:
        print_json(found)
    elif not found:
        echo("No pipelines found.")
    else:
        echo(*_table(found))


def _table(rows: "Sequence[RunRow]") -> list[str]:
    zone = local_zone()
    cells = [("ID", "TYPE", "STATUS", "STAGE", "CREATED")]
    for row in rows:
        created = f"{row.started_at.astimezone(zone):%Y-%m-%d %H:%M:%S}" if row.started_at else ""
        text = status_text(row.status, row.requests)
        cells.append((row.session, one_line(row.pipeline), text, one_line(row.stage), created))
    columns = [max(map(width, column)) for column in zip(*cells, strict=True)]
    tones = ["strong", *(STATUS_TONES.get(row.status, "plain") for row in rows)]
    lines = []
    for texts, tone in zip(cells, tones, strict=True):
        shown = [padded(text, room) for text, room in zip(texts, columns, strict=True)]
        shown[2] = styled(shown[2], tone)
        lines.append("  ".join(shown).rstrip())
    return lines
