"""The trees of the project before and after each attempt of a visit, as the log tells them."""

from collections.abc import Iterable

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.place import Place
from agentforge.ports.host import is_tree_id
from agentforge.views.work import EndOfAttempt

AttemptTrees = tuple[str | None, str | None]
"""Before and after; None: unknown."""
_OfVisit = tuple[str, int, str | None]


def attempt_trees(events: Iterable[Event], place: Place) -> list[AttemptTrees]:
    """Of the attempts of a visit that ran, in their order."""
    known: dict[_OfVisit, list[AttemptTrees]] = {}
    running: dict[_OfVisit, str | None] = {}
    latest: str | None = None
    for event in events:
        fact, at = event.fact, event.cursor
        if isinstance(fact, f.PlanChanged):
            moved = fact.paths
            known = {(moved.get(key[0]) or key[0], *key[1:]): pairs for key, pairs in known.items()}
            running = {(moved.get(key[0]) or key[0], *key[1:]): tree for key, tree in running.items()}
        here = (at.node_path, at.node_run, at.provider) if at else ("", 0, None)
        match fact:
            case f.AttemptStarted():
                running[here] = latest
            case f.TreeTaken():
                latest = _tree(fact.tree)
                if here in running and fact.when == "before":
                    running[here] = latest
            case _ if isinstance(fact, EndOfAttempt) and here in running:
                before = running.pop(here)
                if getattr(fact, "started", True):
                    latest = _tree(fact.tree)
                    known.setdefault(here, []).append((before, latest))
            case _:
                pass
    return known.get((place.path, place.run, place.branch), [])


def _tree(id: str | None) -> str | None:
    # A log may have come with a repository.
    return id if id is not None and is_tree_id(id) else None
