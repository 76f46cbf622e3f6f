"""What the agents of a run did, for people who look: iterations, their files and their changes."""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct

from agentforge.app.runs.comparison import TreeComparison, current_tree
from agentforge.app.runs.lookup import Runs
from agentforge.engine.normalise import clean_output
from agentforge.model.changes import Changes
from agentforge.model.diagnostic import did_you_mean
from agentforge.model.errors import InvalidRequest
from agentforge.model.layout import IterationLayout, is_inside
from agentforge.model.names import session_argument
from agentforge.model.request import Request
from agentforge.runtime.artifacts import read_artifact
from agentforge.system import files
from agentforge.views.hook_calls import Delivery
from agentforge.views.metrics import StageMetrics, metrics_of
from agentforge.views.record import RunTrees, record_of
from agentforge.views.spans import Span, spans_of
from agentforge.views.structured_work import ArtifactWork, ItemWork, artifacts_of, items_of
from agentforge.views.timeline import TimelineRow, timeline_of
from agentforge.views.visits import StageCheck, StageVisit
from agentforge.views.work import IterationWork

MAX_TEXT_BYTES = 2 * 1024 * 1024
MAX_NUMBERS = 20
NOT_RECORDED = "changes are recorded in a git repository, for agents that are programs"


Placed = StageVisit | StageCheck | IterationWork | Delivery | ArtifactWork | ItemWork | StageMetrics
_Listed = TypeVar("_Listed", bound=Placed)


class RunChange(Struct, frozen=True):
    """What changed in the project's files since a run began."""

    before: str
    after: str
    """The id of the tree, as `before`."""
    is_now: bool
    """Whether `after` are the files as they are now."""
    changes: Changes
    patch: bytes
    """As `git apply` takes it."""


class RunWork:
    """Reads the whole log when it is created, later the run's folder, and the project's files for the total
    of a run that is in progress. Changes none of them, and starts no program but git."""

    def __init__(self, runs: Runs, session: str) -> None:
        self.session = session
        self.info = runs.info(session)
        self.record = record_of(runs.events(session))
        self._layout = runs.layout(session)
        self._runs = runs
        self._comparison = TreeComparison(runs.project, [self._layout.trees], runs.environ)

    @property
    def iterations(self) -> tuple[IterationWork, ...]:
        return self.record.iterations

    @property
    def trees(self) -> RunTrees:
        """The trees when the run began, and as recorded last."""
        return self.record.trees

    def find(
        self, stage: str | None = None, iteration: int | None = None, visit: int | None = None
    ) -> IterationWork:
        """An iteration of the stage (its id or its path, in a block followed by `@PROVIDER`), by default the
        latest of its latest visit. Without a stage: the latest iteration of the run."""
        named = _of_stage(self.iterations, stage)
        if not named:
            raise self._unknown_stage(stage)
        branches = sorted({work.name for work in named})
        if stage is not None and len(branches) > 1:
            raise InvalidRequest(
                f"stage {stage!r} runs in several branches", hint=f"name one of them: {', '.join(branches)}"
            )
        number = visit or (named[-1].visit if stage is not None else None)
        visited = [work for work in named if number is None or work.visit == number]
        found = [work for work in visited if iteration is None or work.iteration == iteration]
        if not visited or not found:
            known = visited or named
            visits = {work.visit for work in known}
            if visit is not None and visit not in visits:
                raise _unknown_visit(stage, visit, visits)
            numbers = _listed({work.iteration for work in known})
            raise InvalidRequest(
                f"{_where(stage)} has no iteration {iteration}", hint=f"iterations: {numbers}"
            )
        return found[-1]

    def narrowed(
        self, entries: Sequence[_Listed], stage: str | None, iteration: int | None, visit: int | None
    ) -> list[_Listed]:
        """Those entries of the record that are of the stage, the iteration and the visit, as far as given."""
        # A stage without such an entry is known all the same.
        visits, named = _of_stage(self.record.visits, stage), _of_stage(entries, stage)
        if stage is not None and not visits and not named:
            raise self._unknown_stage(stage)
        known = {one.visit for one in visits} | {one.visit for one in named}
        if visit is not None and visit not in known:
            raise _unknown_visit(stage, visit, known)
        return [
            one
            for one in named
            if visit in (None, one.visit) and iteration in (None, getattr(one, "iteration", None))
        ]

    def artifacts(self, *, latest: bool = False) -> list[ArtifactWork]:
        """The artifacts that were accepted, in this order, with their values. `latest`: only those that later
        stages get, one of each stage or item. Of one that was changed, `problem` says so."""
        return artifacts_of(self.record, partial(read_artifact, self._layout), latest=latest)

    def items(self) -> list[ItemWork]:
        """The items of all stages over items, with what became of them."""
        return items_of(self.record, partial(read_artifact, self._layout))

    def metrics(self) -> list[StageMetrics]:
        """What each stage took: duration, tokens, retries, steps and cycles."""
        return metrics_of(self.record)

    def spans(self) -> list[Span]:
        """The run, and each visit, iteration, attempt, check and call of a hook, in the shape of
        OpenTelemetry."""
        return spans_of(self.record)

    def timeline(self) -> list[TimelineRow]:
        """The spans, and what the run waited for, each below what it belongs to."""
        return timeline_of(self.record)

    def changes(self, works: Iterable[IterationWork]) -> list[Changes | None]:
        """What changed in the project's files from before to after each iteration; None if unknown."""
        listed = list(works)
        known = [(n, _pair(work)) for n, work in enumerate(listed)]
        # In one call of git: starting it takes longer than a comparison.
        pairs = [(n, pair) for n, pair in known if pair is not None]
        found = self._comparison.changes([pair for _, pair in pairs])
        by_number = {n: changes for (n, _), changes in zip(pairs, found, strict=True)}
        return [by_number.get(n) for n in range(len(listed))]

    def patch(self, work: IterationWork, *, binary: bool = True) -> bytes:
        """The change of an iteration, with `binary` as `git apply` takes it."""
        pair = _pair(work)
        if pair is None:
            where = f"{work.name}, iteration {work.iteration}"
            if work.awaits_changes:
                now = f"`agentforge diff {session_argument(self.session)}` shows the files as they are now"
                raise InvalidRequest(
                    f"{where} is still running: its changes are available when it ends", hint=now
                )
            raise InvalidRequest(
                f"the changes of {where} were not recorded"
                + (f": {work.tree_problem}" if work.tree_problem else ""),
                hint=NOT_RECORDED,
            )
        return self._comparison.patch(*pair, binary=binary)

    def asked_about(self, request: Request) -> IterationWork | None:
        """The latest iteration of the stage that the request is about; None if it is about none."""
        if request.at is None:
            return None
        place = request.at.node_path, request.at.node_run, request.at.provider
        found = (work for work in reversed(self.iterations) if (work.path, work.visit, work.branch) == place)
        return next(found, None)

    def stage_change(self, work: IterationWork, *, binary: bool = True) -> RunChange | None:
        """What changed from the beginning of the stage to the end of the iteration, its earlier visits
        included if no other stage ran in between; None if unknown. `binary` as for `patch`."""
        first = work.tree_before
        branch = [one for one in self.iterations if one.branch == work.branch]
        for one in reversed(branch[: branch.index(work) + 1]):
            if one.path != work.path:
                break
            first = one.tree_before or first
        if first is None or work.tree_after is None:
            return None
        return _compared(self._comparison, first, work.tree_after, binary=binary)

    def total(self, *, binary: bool = True) -> RunChange:
        """What changed since the run began: until now if it is running or was interrupted, else until its
        last recorded tree. `binary` as for `patch`."""
        first = self.trees.first
        if first is None:
            raise InvalidRequest(
                f"the changes of session {self.session!r} were not recorded", hint=NOT_RECORDED
            )
        # An agent may have changed files since the last recorded tree, which an attempt that ended left.
        if self.info.status not in ("running", "interrupted"):
            return _compared(self._comparison, first, self.trees.latest or first, binary=binary)
        reports = self.info.plan.check_reports
        with current_tree(self._runs.project, self._runs.environ, reports) as (tree, folders):
            comparison = TreeComparison(
                self._runs.project, [*folders, self._layout.trees], self._runs.environ
            )
            return _compared(comparison, first, tree, binary=binary, is_now=True)

    def prompt(self, work: IterationWork) -> str | None:
        """The rendered prompt, or None if its file is missing."""
        here = self._here(work)
        content = files.read_usable(here.prompt, MAX_TEXT_BYTES) if here else None
        return None if content is None else content.decode("utf-8", "replace")

    def output(self, work: IterationWork) -> str | None:
        """What the agent printed last, or None: of the iteration, of its latest attempt that left some, or
        from the log."""
        here = self._here(work)
        if work.text is not None or here is None:
            return work.text
        attempts = (here.attempt(attempt.number) for attempt in reversed(work.attempts))
        # What a failed attempt left was moved into its folder.
        places = [here.output]
        for attempt in attempts:
            places += [f"{attempt.root}/output.md", attempt.output]
        for place in places:
            content = files.read_usable(place, MAX_TEXT_BYTES)
            if content is not None and (text := clean_output(content).text):
                return text
        return None

    def files(self, work: IterationWork) -> list[str]:
        """The files of the iteration, with their paths."""
        here = self._here(work)
        return [] if here is None else [f"{here.root}/{name}" for name in sorted(files.listing(here.root))]

    def _here(self, work: IterationWork) -> IterationLayout | None:
        """None if the log names no folder of the run."""
        folder = work.folder
        if os.path.isabs(folder):  # As in a log of the shell engine.
            folder = os.path.relpath(folder, self._layout.root)
        return IterationLayout(self._layout.absolute(folder)) if folder and is_inside(folder) else None

    def _unknown_stage(self, stage: str | None) -> InvalidRequest:
        known = list(dict.fromkeys(work.name for work in self.iterations))
        if not known:
            see = f"see `agentforge status {session_argument(self.session)}`"
            return InvalidRequest(f"session {self.session!r} has no iteration yet", hint=see)
        meant = did_you_mean(stage or "", known)
        names = ", ".join(known)
        hint = f"{meant} Stages with iterations: {names}" if meant else f"stages with iterations: {names}"
        return InvalidRequest(f"session {self.session!r} has no iteration of a stage {stage!r}", hint=hint)


def _compared(
    comparison: TreeComparison, first: str, last: str, *, binary: bool, is_now: bool = False
) -> RunChange:
    changes = comparison.changes([(first, last)])[0] or Changes()
    return RunChange(first, last, is_now, changes, comparison.patch(first, last, binary=binary))


def _of_stage(entries: Iterable[_Listed], stage: str | None) -> list[_Listed]:
    """Those of the stage: by its id or path, in a block also followed by `@PROVIDER`."""
    found = []
    for one in entries:
        plain = (one.stage, one.path or one.stage)
        names = plain if one.branch is None else (*plain, *(f"{name}@{one.branch}" for name in plain))
        if stage is None or stage in names:
            found.append(one)
    return found


def _pair(work: IterationWork) -> tuple[str, str] | None:
    return (work.tree_before, work.tree_after) if work.tree_before and work.tree_after else None


def _unknown_visit(stage: str | None, visit: int, known: Iterable[int | None]) -> InvalidRequest:
    return InvalidRequest(f"{_where(stage)} has no visit {visit}", hint=f"visits: {_listed(known)}")


def _where(stage: str | None) -> str:
    return "the run" if stage is None else f"stage {stage!r}"


def _listed(numbers: Iterable[int | None]) -> str:
    return ", ".join(map(str, sorted(filter(None, numbers))[-MAX_NUMBERS:]))
