"""Pictures as SVG files: of a pipeline, and of a run."""

import os
from typing import TYPE_CHECKING

from agentforge.model.errors import InvalidRequest, StorageFailed
from agentforge.model.plan import Plan
from agentforge.system import files

if TYPE_CHECKING:
    from agentforge.app.runs.work import RunWork

# What draws is imported only when something is drawn.


def write_graph(plan: Plan, path: str | os.PathLike[str]) -> str:
    """Draw the nodes and routes of a pipeline into an SVG file; returns its absolute path. Another kind of
    file is never replaced."""
    from agentforge.views.graph_picture import graph_svg

    return _written(graph_svg(plan), path)


def write_timeline(work: "RunWork", path: str | os.PathLike[str]) -> str:
    """Draw what happened in a run, and when, into an SVG file; returns its absolute path. Another kind of
    file is never replaced."""
    from agentforge.views.timeline_picture import timeline_svg

    return _written(timeline_svg(work.timeline(), work.info.status), path)


def _written(svg: str, path: str | os.PathLike[str]) -> str:
    folder, name = os.path.split(os.path.abspath(path))
    place = os.path.join(os.path.realpath(folder), name)
    try:
        begins = files.read_named(place, 4, cut=True)
        if begins not in (None, b"<svg"):
            raise InvalidRequest(
                f"{place} exists and is not an SVG file",
                hint="choose a new file, or an SVG file that begins with `<svg`",
            )
        files.replace(place, svg.encode())
    except StorageFailed as error:
        raise type(error)(
            error.message, hint="choose a file in a folder that exists and that you may write to"
        ) from error
    return place
