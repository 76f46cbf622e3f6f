"""The picture of a pipeline as a file."""

import os

from agentforge.model.errors import InvalidRequest, StorageFailed
from agentforge.model.plan import Plan
from agentforge.system import files
from agentforge.views.graph_picture import graph_svg

SVG = b"<svg"
OTHER_KIND = "choose a new file, or an SVG file that begins with `<svg`"
UNWRITABLE = "choose a file in a folder that exists and that you may write to"


def write_graph(plan: Plan, path: str | os.PathLike[str]) -> str:
    """Draw the nodes and routes of a pipeline into an SVG file; returns its absolute path. Another kind of
    file is never replaced."""
    folder, name = os.path.split(os.path.abspath(path))
    place = os.path.join(os.path.realpath(folder), name)
    try:
        known = files.read_named(place, len(SVG), cut=True)
        if known is not None and known != SVG:
            raise InvalidRequest(f"{place} exists and is not an SVG file", hint=OTHER_KIND)
        files.replace(place, graph_svg(plan).encode())
    except StorageFailed as error:
        raise type(error)(error.message, hint=UNWRITABLE) from error
    return place
