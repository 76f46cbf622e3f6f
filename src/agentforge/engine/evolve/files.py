"""Applies events to the files that the engine looks after."""

from typing import assert_never

from msgspec.structs import replace

from agentforge.engine.evolve.node import in_stage
from agentforge.engine.evolve.task import evolve_call, with_call, without_call
from agentforge.model import facts as f
from agentforge.model.check import FilesBefore
from agentforge.model.event import Event
from agentforge.model.frozen import MAX_TOLD, FrozenFiles
from agentforge.model.place import visits_key
from agentforge.model.state import RunState, StageState


def evolve_files(state: RunState, event: Event, fact: f.AnyFilesFact) -> RunState:
    match fact:
        case f.FilesFrozen() if event.cursor is not None:
            key = visits_key(event.cursor.node_path, event.cursor.provider)
            kept = FrozenFiles(fact.stage, fact.files, fact.tree)
            state = replace(state, frozen={**state.frozen, key: kept} if fact.files else state.frozen)
        case f.FilesRestored():
            state = replace(state, restorations=state.restorations + 1)
        case _:
            pass
    return in_stage(state, event, fact, _evolve)


def _evolve(at: StageState, event: Event, fact: f.AnyFilesFact) -> StageState:
    done = without_call(at, fact.KIND)
    match fact:
        case f.FilesPrepared(tree=tree, paths=paths):
            # A later try only finds what the one before has left.
            known = at.calls.get(fact.KIND)
            before = known.paths if known else ()
            files = known.files if known and known.files.tree else FilesBefore(tree)
            return with_call(at, fact.KIND, files=files, paths=tuple(dict.fromkeys((*before, *paths))))
        case f.VisitTree():
            return replace(done, began=fact.seen)
        case f.FilesFrozen():
            return replace(done, froze=True)
        case f.FrozenVerified():
            return replace(done, verified=(at.completed, fact.subject))
        case f.FilesRestored(paths=paths):
            told = tuple(dict.fromkeys((*at.restored, *paths)))[:MAX_TOLD]
            return replace(done, verified=(at.completed, fact.subject), restored=told)
        case f.FilesRolledBack():
            return replace(done, rolled_back=True)
        case f.RollbackRefused(paths=paths, reason=reason):
            return replace(done, refused=(*paths[:MAX_TOLD], reason))
        case f.TaskFact():
            return evolve_call(at, event, fact)
        case _:
            assert_never(fact)
