"""`migrate check`: what of a project of agent-pipelines would behave differently here."""

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from agentforge.definition.compiler import lint
from agentforge.legacy.differences import Finding, Level, pipeline_findings, refusal, stage_findings
from agentforge.model import facts as f
from agentforge.model.diagnostic import Diagnostic, Place
from agentforge.model.errors import AgentForgeError
from agentforge.model.event import Event
from agentforge.model.layout import RunLayout
from agentforge.model.result import Decision
from agentforge.ports.sources import Sources

PIPELINES = (".claude/pipelines", "scripts/pipelines", ".")
STAGES = (".claude/stages", "stages", "scripts/stages")
ORDER: dict[Level, int] = {"refused": 0, "changes": 1, "note": 2}


class Migration(Struct, frozen=True):
    """What was looked at, and what was found."""

    pipelines: int
    stages: int
    runs: int
    findings: tuple[Finding, ...]

    @property
    def is_same(self) -> bool:
        return all(finding.level == "note" for finding in self.findings)


class _RunInfo(Protocol):
    @property
    def status(self) -> str: ...


class PastRuns(Protocol):
    """The runs of the project."""

    def sessions(self) -> Sequence[str]: ...
    def layout(self, session: str) -> RunLayout: ...
    def is_original(self, session: str) -> bool: ...
    def info(self, session: str) -> _RunInfo: ...
    def events(self, session: str) -> Iterator[Event]: ...


def examine_migration(sources: Sources, runs: PastRuns, known: Collection[str] | None) -> Migration:
    """Everything in the project, ordered by file. Nothing is changed."""
    found: set[Finding] = set()
    pipelines, stages = _pipelines(sources), _stages(sources)
    for path in pipelines:
        found.update(pipeline_findings(sources, path))
        found.update(_refused(lint(sources, path, "pipeline", known_providers=known), path))
    for name in stages:
        found.update(stage_findings(sources, name))
        found.update(_refused(lint(sources, name, "stage", known_providers=known), name))
    sessions = sorted(runs.sessions())
    for session in sessions:
        found.update(_of_run(runs, session, sources.project))
    ordered = sorted(found, key=lambda n: (n.place.file, n.place.line, ORDER[n.level], n.rule, n.message))
    return Migration(len(pipelines), len(stages), len(sessions), tuple(ordered))


def _pipelines(sources: Sources) -> list[str]:
    found = []
    for folder in PIPELINES:
        root = os.path.normpath(os.path.join(sources.project, folder))
        for name in sources.listing(root):
            path = os.path.join(root, name)
            if name.endswith((".yaml", ".yml")) and _is_pipeline(sources.read(path) or "", folder):
                found.append(path)
    return found


def _is_pipeline(text: str, folder: str) -> bool:
    """In the project's own folder lie other YAML files, too."""
    return folder != "." or any(line.startswith(("nodes:", "stages:")) for line in text.splitlines())


def _stages(sources: Sources) -> list[str]:
    names = (
        name
        for folder in STAGES
        for name in sources.listing(os.path.join(sources.project, folder))
        if sources.is_dir(os.path.join(sources.project, folder, name))
    )
    return list(dict.fromkeys(names))


def _refused(diagnostics: list[Diagnostic], target: str) -> Iterator[Finding]:
    for found in diagnostics:
        if found.is_error:
            # What is wrong with the thing as a whole has no place in a file.
            place = Place(target, 1, 1) if found.place.file.startswith("<") else found.place
            yield refusal(found, place)


def _of_run(runs: PastRuns, session: str, project: str) -> Iterator[Finding]:
    """Only runs of the original have something to say here."""
    log = os.path.relpath(runs.layout(session).log, project)
    try:
        if not runs.is_original(session):
            return
        status = runs.info(session).status
        events = list(runs.events(session))
    except AgentForgeError as error:
        yield Finding("repaired-log", "note", Place(log, 1, 1), f"can't be read: {error.message}")
        return
    last = Place(log, events[-1].seq if events else 1, 1)
    if status == "completed":
        what = "running it again under this name needs --force"
    elif status == "running":
        what = "let it finish, or stop it, before resuming it here"
    else:
        what = f"`agentforge resume {session}` imports and continues it"
    rule = "finished-is-finished" if status == "completed" else "resumes-in-place"
    yield Finding(rule, "note", last, f"session {session!r} is {status}: {what}")
    yield from _of_events(log, events)


def _of_events(log: str, events: list[Event]) -> Iterator[Finding]:
    begun = 0
    for event in events:
        place = Place(log, event.seq, 1)
        if isinstance(event.fact, f.IterationCompleted) and event.fact.decision is Decision.ERROR:
            message = "an iteration that failed and went on: here it would have failed the run"
            yield Finding("failure-fails", "changes", place, message)
        if isinstance(event.fact, f.SessionStarted):
            begun += 1
            if begun > 1:
                message = "the completed session was run again over its own files: here that is refused"
                yield Finding("finished-is-finished", "changes", place, message)
