"""Read-only access to runs. Imports little, so that `status`, `list` and `tail` start fast."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from agentforge.adapters.log.jsonl_log import LogReport, verify
from agentforge.app.recording import Recording, is_cassette_file, read_recording
from agentforge.app.runs.lock_folder import locked_sessions, read_lock, reason_of, stopped_sessions
from agentforge.app.runs.snapshot import read_model, read_snapshot, refuse_damage
from agentforge.app.wiring import log_of
from agentforge.legacy.shell_run import is_driven_by_shell_engine, is_shell_run, reconstructed_plan
from agentforge.model.errors import (
    AgentForgeError,
    InvalidRequest,
    LogCorrupt,
    UnknownRun,
)
from agentforge.model.event import Event
from agentforge.model.failure import StopReason
from agentforge.model.layout import RunLayout, runs_dir
from agentforge.model.names import name_problem, session_argument, session_name
from agentforge.model.plan import Plan
from agentforge.model.request import Request
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus
from agentforge.ports.event_log import EventLog
from agentforge.system import files
from agentforge.views.results import RunInfo, ShownStatus
from agentforge.views.stage_progress import current_step
from agentforge.views.status import RunningCheck, WaitStatus, running_check, waiting


class RunRow(Struct, frozen=True):
    """A run in a list."""

    session: str
    status: ShownStatus | Literal["unknown"]
    """`unknown`: this version can't read its log."""
    updated_at: datetime
    stage: str
    iterations: int
    pipeline: str
    archived_from: str | None = None
    """The name of this run before it was archived, or None."""
    requests: tuple[Request, ...] = ()
    """The open ones."""
    waiting: tuple[WaitStatus, ...] = ()
    """The stages of a running run that wait for a retry or for a limit to reset."""
    check: RunningCheck | None = None
    """The check that a running run is running."""
    answered: bool = False
    """Whether the run waits although a request was answered, or its time is over: `recover` continues it."""
    unanswered: tuple[str, ...] = ()
    """Ids of the requests that a person still has to answer although it was answered."""
    started_at: datetime | None = None
    """None: its log can't be read."""


def existing_project(folder: str | os.PathLike[str]) -> str:
    """The absolute path of a project's folder. Raises InvalidRequest if it doesn't exist."""
    path = os.path.abspath(folder)
    if not files.is_dir(os.path.realpath(path)):
        raise InvalidRequest(f"project folder not found: {path}", hint="create it, or pass another")
    return path


class Runs:
    """The runs of one project. Looking at them changes nothing."""

    def __init__(
        self, project: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None
    ) -> None:
        self.project = os.path.realpath(existing_project(project))
        self.environ = os.environ if environ is None else environ

    def layout(self, session: str) -> RunLayout:
        return RunLayout.of(self.project, session_name(session))

    def log_file(self, session: str) -> EventLog:
        """The log of a run, whether it exists or not. Raises InvalidRequest if something else is in its
        place."""
        layout = self.layout(session)
        if problem := _obstacle(layout.root)[0]:
            raise InvalidRequest(
                f"{layout.root} is not a run: {problem}", hint="move it away, or choose another session name"
            )
        return log_of(layout, self.environ)

    def log(self, session: str) -> EventLog:
        """The log of a run that exists."""
        log = self.log_file(session)
        if not log.exists():
            self._refuse_without_log(session)
            known = ", ".join(self.sessions()[:5])
            hint = 'start one with `agentforge run "REQUEST"`, or give another project with -C DIR'
            raise UnknownRun(
                f"no session {session!r} in {runs_dir(self.project)}",
                hint=f"known sessions: {known} (see `agentforge list`)" if known else hint,
            )
        return log

    def lost_agents(self) -> dict[str, list[str]]:
        """The pids of supervisors whose run has no log any more that can be read, by session."""
        names = {*locked_sessions(self.project), *files.subfolders(runs_dir(self.project))}
        lost = {name for name in names if self._is_lost(name)}
        return {name: pids for name, pids in self.supervisors().items() if name in lost} if lost else {}

    def left_agents(self) -> dict[str, list[str]]:
        """The pids of supervisors that no engine drives, by session: of lost and of interrupted runs."""
        left = ("interrupted", "unknown")
        return {name: pids for name, pids in self.supervisors().items() if self.row(name).status in left}

    def supervisors(self) -> dict[str, list[str]]:
        """The pids of the living supervisors, by session."""
        from agentforge.app.wiring import local_processes

        folder = f"{runs_dir(self.project)}/"
        found: dict[str, list[str]] = {}
        for identity, attempt in local_processes().supervisors().items():
            if attempt.startswith(folder):
                session = attempt.removeprefix(folder).partition("/")[0]
                found.setdefault(session, []).append(str(identity.pid))
        return found

    def _is_lost(self, session: str) -> bool:
        """Whether no engine drives the run, nor can continue it, as its log doesn't begin with an event."""
        try:
            log = self.log_file(session)
            reader = log.reader()
            begins = next(iter(reader.events()), None) is not None and not reader.damage
            return not begins and not log.is_held()
        except AgentForgeError:
            return True

    def _refuse_without_log(self, session: str) -> None:
        """Raise UnknownRun if the run was to start in the background, and failed, or if its log is gone, but
        its agents are still running."""
        if found := reason_of(self.project, session):
            raise UnknownRun(f"session {session!r} did not start: {found.message}", hint=found.hint)
        if left := " ".join(self.supervisors().get(session, ())):
            raise UnknownRun(
                f"session {session!r} has no log any more, but its agents are still running (PID {left})",
                hint=f"end them with `kill {left}`, or start over with `agentforge run --force`",
            )

    def sessions(self) -> list[str]:
        """Names of all runs, latest first."""
        return self._scan()[0]

    def not_runs(self) -> dict[str, str]:
        """What else is in the folder of the runs: the reason by name. Hidden files are ignored."""
        return self._scan()[1]

    def _scan(self) -> tuple[list[str], dict[str, str]]:
        folder = runs_dir(self.project)
        found, others = [], {}
        for name in files.listing(folder):
            problem, touched = _obstacle(os.path.join(folder, name))
            if problem := name_problem(name) or problem:
                others[name] = problem
            elif touched:
                found.append((touched, name))
        visible = {name: problem for name, problem in sorted(others.items()) if not name.startswith(".")}
        return [name for _, name in sorted(found, reverse=True)], visible

    def stopped(self) -> list[StopReason]:
        """Why engines in the background stopped without recording the end of their run, or before its
        start."""
        sessions = (name for name in stopped_sessions(self.project) if not name_problem(name))
        reasons = (reason_of(self.project, name) for name in sessions if not self.is_held(name))
        return [reason for reason in reasons if reason is not None]

    def is_held(self, session: str) -> bool:
        """Whether an engine drives a run of that name now."""
        try:
            return self.log_file(session).is_held()
        except AgentForgeError:
            return False

    def events(self, session: str) -> Iterator[Event]:
        return self.log(session).reader().events()

    def verify(self, session: str) -> LogReport:
        """Check the log, even if the run itself can't be shown."""
        self.log(session)
        return verify(self.layout(session).log)

    def recording(self, source: str) -> Recording:
        """The recording of a session, or a cassette file."""
        if is_cassette_file(source):
            return read_recording(os.path.abspath(source))
        self.log(source)
        path = self.layout(source).cassette
        if not files.is_file(path):
            check = f"`agentforge replay --check {session_argument(source)}`"
            raise InvalidRequest(
                f"session {source!r} was not recorded: {path} not found",
                hint=f"run it with --record; {check} needs only its log",
            )
        return read_recording(path)

    def is_shell_run(self, session: str) -> bool:
        """Whether the run was started by the shell engine and isn't imported yet."""
        first = next(iter(self.events(session)), None)
        return first is not None and not first.trace_id and is_shell_run(self.info(session).state)

    def run_id(self, session: str) -> str:
        """The id of the run, from its log; empty for a run of the shell engine, and without events."""
        return next((event.trace_id for event in self.events(session) if event.trace_id), "")

    def info(self, session: str, *, cached: bool = True) -> RunInfo:
        try:
            return self._info(session, cached=cached)
        except LogCorrupt as error:
            if left := " ".join(self.supervisors().get(session, ())):
                error.hint = (
                    f"{error.hint}; its agents are still running (PID {left}): `kill {left}` ends them"
                )
            raise

    def _info(self, session: str, *, cached: bool) -> RunInfo:
        layout, log = self.layout(session), self.log(session)
        reader = log.reader()
        # Read even if it isn't used: whether it fits the log tells if an engine died before it wrote it.
        snapshot = read_snapshot(layout)
        model = read_model(session, log, reader, snapshot if cached else None)
        if model.state is None or model.plan is None:
            refuse_damage(session, reader)
            self._refuse_without_log(session)
            raise UnknownRun(
                f"session {session!r} has a log without events",
                hint="it was killed before it recorded anything: start it again",
            )
        held = log.is_held()
        if is_shell_run(model.state):
            model.plan = reconstructed_plan(layout, log, model.plan, model.state)
            held = held or is_driven_by_shell_engine(self.project, session)
        lock = read_lock(self.project, session) if held else None
        is_left = not held and layout.session == model.state.session
        now = datetime.now(UTC)
        answered = is_left and is_answered(model.plan, model.state, layout, now)
        return RunInfo(
            session=layout.session,
            status=shown_status(model.state, held=held),
            run_dir=layout.root,
            plan=model.plan,
            state=model.state,
            summary=model.summary,
            driver_pid=lock.pid if lock else None,
            damage=tuple(reader.damage),
            buffer=snapshot.buffer if snapshot else None,
            state_file_seq=snapshot.state.seq if snapshot else None,
            stopped=None if held else reason_of(self.project, session),
            answered=answered,
            unanswered=_unanswered(model.plan, model.state, layout, now) if answered else (),
            artifact=None if cached else model.history.artifact,
        )

    def is_outdated(self, session: str, info: RunInfo) -> bool:
        """Whether a stopped run has a lock file, or a state.json that isn't of its last event, because its
        engine died; `Engine.tidy` repairs both."""
        if info.status in ("running", "interrupted") or is_shell_run(info.state) or info.is_archived:
            return False
        return info.state_file_seq != info.state.seq or session in locked_sessions(self.project)

    def recoverable(self) -> list[str]:
        """The runs that recovery continues, latest first. Archived runs stay as they are."""
        found = []
        for session in self.sessions():
            with suppress(AgentForgeError):
                if self.is_recoverable(session):
                    found.append(session)
        return found

    def is_recoverable(self, session: str) -> bool:
        info = self.info(session)
        return not info.is_archived and is_recoverable(info, self.layout(session), datetime.now(UTC))

    def rows(self, count: int) -> list[RunRow]:
        return [self.row(session) for session in self.sessions()[:count]]

    def row(self, session: str, read: Callable[[str], RunInfo] | None = None) -> RunRow:
        """One run in brief, "unknown" if it can't be read. `read`: used instead of `info`."""
        try:
            info = (read or self.info)(session)
        except AgentForgeError:
            # The log may have been removed in the meantime.
            found = files.about(self.layout(session).log)
            touched = datetime.fromtimestamp(found.st_mtime if found else 0, UTC)
            return RunRow(session, "unknown", touched, "", 0, "")
        state, plan = info.state, info.plan
        step = current_step(plan, state)
        return RunRow(
            session=session,
            status=info.status,
            updated_at=state.updated_at,
            stage=step.node.id if step else "",
            iterations=info.summary.iterations,
            pipeline=plan.pipeline.name,
            archived_from=state.session if info.is_archived else None,
            requests=state.open_requests,
            waiting=tuple(waiting(plan, state)) if info.status == "running" else (),
            check=running_check(state) if info.status == "running" else None,
            answered=info.answered,
            unanswered=info.unanswered,
            started_at=state.started_at,
        )


def _obstacle(root: str) -> tuple[str, int]:
    """Why the path can't be a run's folder, or an empty string; and when its log was modified, or 0. Links
    are not followed: they may lead out of the project."""
    kinds = ((root, "folder", stat.S_ISDIR), (f"{root}/events.jsonl", "file", stat.S_ISREG))
    for path, what, is_kind in kinds:
        try:
            found = os.lstat(path)
        except OSError:
            return "", 0
        if not is_kind(found.st_mode):
            kind = "a link" if stat.S_ISLNK(found.st_mode) else f"not a {what}"
            return (f"it is {kind}" if path == root else f"its events.jsonl is {kind}"), 0
    return "", found.st_mtime_ns


def is_recoverable(info: RunInfo, layout: RunLayout, now: datetime) -> bool:
    """Whether recovery continues the run: its engine died, the machine was shut down, or the run waits and an
    answer or a timer continues it. Runs of the shell engine are only imported on request."""
    if is_shell_run(info.state) or info.status == "running":
        return False
    is_stopped = info.status == "interrupted" or info.state.is_stopped_by_shutdown
    return is_stopped or is_answered(info.plan, info.state, layout, now)


def is_answered(plan: Plan, state: RunState, layout: RunLayout, now: datetime) -> bool:
    """Whether a run that waits for people would continue now: a request was answered, or its time is over."""
    if not state.waits:
        return False
    if len(state.open_requests) < len(state.requests) or (state.wake_at is not None and state.wake_at <= now):
        return True
    # Few runs wait.
    from agentforge.runtime.answers import given_answers, resolution_answers

    if plan.pipeline.has_escalations:
        from agentforge.runtime.escalations import cancellations

        if any(resolution_answers(layout, state, now)) or any(cancellations(layout, state)):
            return True
    return any(given_answers(layout, state.run_id, state.open_requests))


# The log of a killed engine says that the run is running, forever. Only the lease, which the kernel frees,
# tells whether an engine is left that drives it.
def _unanswered(plan: Plan, state: RunState, layout: RunLayout, now: datetime) -> tuple[str, ...]:
    from agentforge.runtime.answers import given_answers, resolution_answers

    given = [request.id for request, _ in given_answers(layout, state.run_id, state.open_requests)]
    if plan.pipeline.has_escalations:
        given += [answer.request for answer in resolution_answers(layout, state, now)]
    return tuple(
        request.id for request in state.open_requests if request.id not in given and not request.is_due(now)
    )


def shown_status(state: RunState, *, held: bool) -> ShownStatus:
    if state.status is RunStatus.RUNNING and not held:
        return "interrupted"
    return state.status.value
