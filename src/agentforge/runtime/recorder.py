"""Records a run: each attempt, judgment, queue check, call of a hook and answer becomes an exchange of a
cassette.

An exchange is on the disk before its outcome is in the log, and is stored exactly once even if repeated.
Files are compared with the state after the last exchange, not with the state at the start of the attempt: so
files written by a lost attempt are part of the next exchange, and a replay ends with the same files.
"""

import logging
import os
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import TypeGuard, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.evolve.hooks import BY as BY_HOOK
from agentforge.engine.nodes import recorded_key
from agentforge.engine.normalise import clean_output
from agentforge.engine.rehearsal.outcomes import attempt_of
from agentforge.model import facts as f
from agentforge.model.artifact import MAX_ARTIFACT_BYTES, is_of_engine
from agentforge.model.cassette import (
    MAX_CASSETTE,
    AnyStep,
    Delete,
    End,
    Exchange,
    ExchangeKind,
    ExchangeOutcome,
    Fail,
    Header,
    LeftStep,
    RecordedAnswer,
    RecordedHook,
    Say,
    Sleep,
    WriteArtifact,
    WriteFile,
    WriteResult,
    WriteStatus,
    encode_line,
    parse_exchange,
)
from agentforge.model.cursor import Cursor
from agentforge.model.errors import NOT_JSON
from agentforge.model.event import Event
from agentforge.model.layout import IterationLayout, RunLayout
from agentforge.model.names import protected_step
from agentforge.model.plan import Plan, ProviderChoice
from agentforge.model.secrets import Redactor
from agentforge.model.state import Waiver
from agentforge.model.task import (
    CheckTask,
    HookTask,
    JudgeTask,
    QueueTask,
    RecordedKind,
    StartedTask,
    Task,
    TaskKind,
)
from agentforge.ports.host import Stamp, Workspace
from agentforge.ports.provider import ExecuteResult
from agentforge.runtime.conclusion import Attempted
from agentforge.system import files

log = logging.getLogger("agentforge.run")

# Theory of operation
#
# A cassette has an exchange for each outcome that the log has, and no other. The two are different files,
# and a crash can come between them. So the exchange is written first, under a key that the repeated work
# has again: one whose outcome didn't reach the log is replaced when it is heard again, or dropped if its
# attempt turns out to be lost.
#
# The files of an attempt are compared before the engine changes any of them (`draft`), and the exchange
# is stored beside the cassette until its outcome is known (`_stash`). Compared again by the next engine,
# the copies that this one had made of the output would be recorded as work of the agent.
#
# Attempts are numbered as in a replay, in which none is lost: the recording of a run that was killed many
# times plays like that of one that never was.

FILE_BYTES = 1024 * 1024
"""The largest file that is stored; a larger one is only noted."""
EXCHANGE_BYTES = 8 * 1024 * 1024
"""The maximum for all files of one exchange."""

RecordedStep = Sleep | Say | WriteFile | Delete | LeftStep | Fail | End
"""The steps that a recorder writes; a cassette written by hand has others, such as commands."""

GONE = Stamp(-1, 0, 0, 0)


class ExchangeKey(Struct, frozen=True):
    """Identifies an exchange: its kind, stage and attempt."""

    kind: ExchangeKind
    node: str
    branch: str
    stage: str
    iteration: int
    made: int
    about: str = ""
    """What an answer is about, or which call of which hook it is."""


class ExchangeDraft(Struct, frozen=True):
    """An exchange without its outcome, and the state of the workspace."""

    exchange: Exchange
    stamps: dict[str, Stamp] | None = None


class Recorder:
    def __init__(
        self,
        project: str,
        layout: RunLayout,
        plan: Plan,
        workspace: Workspace,
        *,
        redactor: Redactor,
        header: Header,
    ) -> None:
        self._project = project
        self._layout = layout
        self._plan = plan
        self._workspace = workspace
        self._redactor = redactor
        self._header = replace(header, plan=plan)
        self._kept: set[ExchangeKey] = set()
        self._made: Counter[ExchangeKey] = Counter()
        """How many attempts of each iteration are stored."""
        self._opened: dict[str, tuple[f.RequestOpened, Cursor | None]] = {}
        """The requests that were opened, by id."""
        self._heard: Counter[ExchangeKey] = Counter()
        """How many answers were heard to the same request."""
        self._waived: tuple[Waiver, ...] = ()
        """What was skipped since the latest answer or resume."""
        self._stamps: dict[str, Stamp] | None = {}

    def begin(self) -> None:
        """Continue an earlier engine's cassette, or start a new one. A line cut off by a crash is dropped:
        its outcome is not in the log either and will be recorded again."""
        self._rewrite()
        kept = files.read_usable(self._layout.recording)
        if kept is None:
            self._stamps = self._seen()
            self._keep_stamps()
            return
        try:
            self._stamps = msgspec.json.decode(kept, type=dict[str, Stamp] | None)
        except NOT_JSON:
            self._stamps = None

    # -- the work of an iteration

    def draft(self, about: Attempted, ended: ExecuteResult) -> ExchangeDraft | None:
        """The attempt's exchange, or None if it is stored already. Must be called before the agent's files
        are changed."""
        key = self._key("work", about.task)
        if key in self._kept:
            return None
        stash = self._stash(about)
        earlier = _exchange(files.read_usable(stash) or b"")
        if earlier is not None and _key_of(earlier) == key:
            return ExchangeDraft(earlier)
        stamps = self._seen()
        notes: list[str] = []
        steps = (
            *output_steps(ended, self._redactor),
            *self._changes(stamps, notes),
            *result_steps(about.here, ended, self._redactor),
            *artifact_steps(about, ended, self._redactor),
            *exit_steps(ended, self._redactor),
        )
        exchange = self._exchange(key, about.task.by, steps)
        prompt = files.read_usable(about.here.prompt)
        hashed = sha256(prompt).hexdigest() if prompt is not None else ""
        exchange = replace(exchange, prompt_sha256=hashed, notes=tuple(notes))
        files.replace(stash, encode_line(exchange))
        return ExchangeDraft(exchange, stamps)

    def keep(self, draft: ExchangeDraft, about: Attempted, fact: f.AnyFact) -> None:
        """Append the exchange to the cassette, with its outcome."""
        self._append(replace(draft.exchange, outcome=self._outcome(fact)))
        if draft.stamps is not None:
            self._stamps = draft.stamps
            if about.output_path:
                # The engine copied the output there, and a replay will do so, too.
                path = os.path.relpath(about.output_path, self._project)
                if (stamp := self._workspace.stamp(path)) is not None:
                    self._stamps[path] = stamp
            self._keep_stamps()
        files.remove(self._stash(about))

    def forget(self, about: Attempted) -> None:
        """Remove a stored attempt that counts as lost: its files belong to the next one."""
        dropped = self._rewrite(without=self._key("work", about.task))
        if dropped is None:
            return
        for step in dropped.steps:
            if isinstance(step, WriteFile) and self._stamps is not None:
                self._stamps.pop(step.path, None)
            elif isinstance(step, Delete) and self._stamps is not None:
                self._stamps[step.path] = GONE
        self._keep_stamps()

    # -- other tasks

    def ended(self, task: StartedTask, fact: f.AnyFact, said: ExecuteResult | None = None) -> None:
        """Record the outcome of a task; a replay runs a check again. `said`: what a judge answered."""
        if not _is_recorded(task.KIND):
            return
        by = task.by if isinstance(task, JudgeTask) else ProviderChoice("", "")
        hook = RecordedHook(task.hook.id, task.delivery) if isinstance(task, HookTask) else None
        # Not the name: a baseline may be recorded in the same place as the check itself.
        check = task.about if isinstance(task, CheckTask) else ""
        key = self._key(task.KIND, task, f"{hook.id}:{hook.delivery}" if hook else check)
        # An outcome that is stored, and is heard again, didn't reach the log: the later one counts, if any.
        self._rewrite(without=key)
        if isinstance(fact, f.TaskLost):
            return
        steps: tuple[AnyStep, ...] = ()
        if said is not None:
            steps = (*output_steps(said, self._redactor), *exit_steps(said, self._redactor))
        exchange = self._exchange(key, by, steps)
        self._append(replace(exchange, hook=hook, check=check, outcome=self._outcome(fact)))

    def queue(self, task: QueueTask, remaining: int) -> None:
        """Record a queue check; the latest one counts."""
        key = self._key("queue", task)
        exchange = Exchange(
            key.stage,
            key.iteration,
            kind="queue",
            node=key.node,
            branch=key.branch,
            remaining=remaining,
        )
        self._rewrite(without=key)
        self._append(exchange)

    # -- answers

    def hear(self, event: Event) -> None:
        """Record what was answered to a request. The log has the answers, so an engine that continues the
        recording hears all its events again. What a hook answered is in its own exchange."""
        match event.fact:
            case f.RequestOpened(id=id):
                self._opened[id] = event.fact, event.cursor
            case f.RequestAnswered(id=id, by=by) if id in self._opened and not by.startswith(BY_HOOK):
                asked, at = self._opened[id]
                self._answered(asked, at or Cursor("", 1, 0), event.fact)
                self._waived = ()
            case f.Waived(waiver=waiver):
                self._waived = (*self._waived, replace(waiver, reason=self._redactor.text(waiver.reason)))
            case f.SessionResumed() | f.SessionRecovered():
                self._waived = ()
            case _:
                pass

    def _answered(self, asked: f.RequestOpened, at: Cursor, fact: f.RequestAnswered) -> None:
        node, branch = recorded_key(self._plan, at.node_path, at.node_run), at.provider or ""
        stage = self._name(at)
        # Attempts are counted as in a replay, where none is lost.
        until = range(1, attempt_of(asked) + 1)
        work = ExchangeKey("work", node, branch, stage, at.iteration, 0)
        attempts = sum(1 for key in self._kept if key.made in until and replace(key, made=0) == work)
        exchange = Exchange(
            stage,
            at.iteration,
            attempt=attempts or None,
            kind="answer",
            node=node,
            branch=branch,
            answer=RecordedAnswer(
                asked.reason,
                self._redactor.text(fact.answer),
                asked.subject,
                self._redactor.text(fact.by),
                self._redactor.text(fact.text),
                self._waived,
            ),
        )
        again = _key_of(exchange)
        self._heard[again] += 1
        if self._heard[again] > 1:
            exchange = replace(exchange, made=self._heard[again])
        if _key_of(exchange) not in self._kept:
            self._append(exchange)

    def _name(self, at: Cursor) -> str:
        """The id of the stage or block; the session for the run as a whole."""
        step = self._plan.places.get(at.node_path)
        node = self._plan.stage(at.node_path, at.provider) or (step.node if step else None)
        return node.id if node else self._plan.session.name

    # -- details

    def _key(self, kind: ExchangeKind, task: Task, about: str = "") -> ExchangeKey:
        place, stage = task.place, task.name or self._plan.session.name
        node, branch = recorded_key(self._plan, place.path, place.run), place.branch or ""
        return ExchangeKey(kind, node, branch, stage, task.iteration, task.attempt or 1, about)

    def _exchange(self, key: ExchangeKey, by: ProviderChoice, steps: tuple[AnyStep, ...]) -> Exchange:
        """Attempts are numbered as in a replay, where none is lost."""
        attempt = self._made[replace(key, made=0)] + 1
        return Exchange(
            stage=key.stage,
            iteration=key.iteration,
            steps=steps,
            attempt=attempt,
            kind=key.kind,
            node=key.node,
            branch=key.branch,
            provider=by.type,
            model=by.model,
            made=None if key.made == attempt else key.made,
        )

    def _changes(self, stamps: dict[str, Stamp] | None, notes: list[str]) -> Iterator[AnyStep]:
        if stamps is None or self._stamps is None:
            notes.append("the workspace has too many files to record changes")
            return
        room = EXCHANGE_BYTES
        for path in sorted(stamps.keys() | self._stamps.keys()):
            now = stamps.get(path)
            if now == self._stamps.get(path):
                continue
            if name := protected_step(path):
                notes.append(f"{path!r} is not recorded: a replay must not write below {name}")
                continue
            if now is None:
                yield Delete(path=path)
                continue
            content = self._workspace.read(path, min(FILE_BYTES, room))
            if content is None or not is_utf8_name(path):
                notes.append(f"{path!r} is not recorded: unreadable or too large ({now.size} bytes)")
                continue
            room -= len(content)
            yield write_step(path, self._redactor.bytes(content), executable=now.executable)

    def _seen(self) -> dict[str, Stamp] | None:
        """The state of the workspace, without files whose names contain a secret."""
        stamps = self._workspace.stamps()
        if stamps is None or not self._redactor:
            return stamps
        return {path: stamp for path, stamp in stamps.items() if self._redactor.text(path) == path}

    def _outcome(self, fact: f.AnyFact) -> ExchangeOutcome:
        data = self._redactor.data(msgspec.to_builtins(fact))
        for name in ("result_file", "output"):
            # A cassette must not contain the run's location.
            if data.get(name):
                data[name] = os.path.basename(data[name])
        if artifact := data.get("artifact"):
            artifact["file"] = os.path.basename(artifact["file"])
            if value := artifact.get("value"):
                artifact["value"] = {key: one for key, one in value.items() if not is_of_engine(key)}
        return ExchangeOutcome(fact.TYPE, data)

    def _append(self, exchange: Exchange) -> None:
        files.append(self._layout.cassette, encode_line(exchange))
        self._note(_key_of(exchange))

    def _note(self, key: ExchangeKey) -> None:
        self._kept.add(key)
        self._made[replace(key, made=0)] += 1

    def _rewrite(self, without: ExchangeKey | None = None) -> Exchange | None:
        """Rewrite the cassette with the current header, without a line cut off by a crash, and without one
        exchange, which is returned."""
        if without is not None and without not in self._kept:
            return None
        before, dropped = files.read_bytes(self._layout.cassette, MAX_CASSETTE) or b"", None
        lines = [encode_line(self._header)]
        self._kept, self._made = set(), Counter()
        for line in before.split(b"\n")[1:-1]:
            exchange = _exchange(line)
            if exchange is None:
                log.warning("skipped an unreadable line of %s", self._layout.cassette)
            elif _key_of(exchange) == without:
                dropped = exchange
            else:
                lines.append(line + b"\n")
                self._note(_key_of(exchange))
        if (content := b"".join(lines)) != before:
            files.make_dir(self._layout.root)
            files.replace(self._layout.cassette, content)
        return dropped

    def _keep_stamps(self) -> None:
        files.replace(self._layout.recording, msgspec.json.encode(self._stamps))

    def _stash(self, about: Attempted) -> str:
        """In the run's own folder, where a confined agent can't write."""
        key = sha256(msgspec.json.encode(self._key("work", about.task))).hexdigest()[:16]
        return os.path.join(self._layout.root, f"exchange-{key}.json")


def _is_recorded(kind: TaskKind) -> TypeGuard[RecordedKind]:
    return kind in get_args(RecordedKind)


def _key_of(exchange: Exchange) -> ExchangeKey:
    made = exchange.made or exchange.attempt or 1
    if exchange.kind == "answer":
        made = exchange.attempt or 0
    return ExchangeKey(
        exchange.kind,
        exchange.node,
        exchange.branch,
        exchange.stage,
        exchange.iteration,
        made,
        exchange.about,
    )


def _exchange(line: bytes) -> Exchange | None:
    """An exchange that a recorder wrote, or None."""
    try:
        exchange = parse_exchange(line)
    except ValueError:
        return None
    return exchange if all(isinstance(step, RecordedStep) for step in exchange.steps) else None


def output_steps(ended: ExecuteResult, redactor: Redactor) -> Iterator[AnyStep]:
    if ended.duration_ms > 0:
        yield Sleep(seconds=ended.duration_ms / 1000)
    text = clean_output(ended.output.encode("utf-8", "replace")).text
    if text:
        yield Say(text=redactor.text(text))


def exit_steps(ended: ExecuteResult, redactor: Redactor) -> Iterator[AnyStep]:
    failure = ended.failure
    if failure is not None:
        yield Fail(kind=failure.kind, message=redactor.text(failure.message), exit_code=failure.exit_code)
    elif ended.exit_code != 0:
        yield End(code=ended.exit_code % 256 or 1)


def result_steps(here: IterationLayout, ended: ExecuteResult, redactor: Redactor) -> Iterator[AnyStep]:
    """The result that the agent returned, or result.json and status.json as it wrote them."""
    if ended.result is not None:
        yield WriteResult(value=redactor.data(ended.result))
        return
    for path, step in ((here.result, WriteResult), (here.status, WriteStatus)):
        if (content := files.read_usable(path, FILE_BYTES)) is not None:
            yield _left_step(step, content, redactor)


def artifact_steps(about: Attempted, ended: ExecuteResult, redactor: Redactor) -> Iterator[AnyStep]:
    """The artifact as the agent wrote it, valid or not, else the one that it returned; without the keys that
    the engine sets, which have other values in a replay."""
    if about.artifacts is None:
        return
    content = files.read_usable(about.here.artifact, MAX_ARTIFACT_BYTES)
    if content is None and ended.artifact is not None:
        content = files.compact(ended.artifact)
    if content is not None:
        step = _left_step(WriteArtifact, content, redactor)
        yield step if step.value is None else replace(step, value=about.artifacts.keys.without(step.value))


def _left_step(kind: type[LeftStep], content: bytes, redactor: Redactor) -> LeftStep:
    text = redactor.text(content.decode("utf-8", "replace"))
    try:
        return kind(value=msgspec.json.decode(text, type=dict[str, object]))
    except NOT_JSON:
        return kind(text=text)


def write_step(path: str, content: bytes, *, executable: bool) -> WriteFile:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return WriteFile(path=path, base64=b64encode(content).decode(), executable=executable)
    return WriteFile(path=path, text=text, executable=executable)


def is_utf8_name(path: str) -> bool:
    """Whether a file's name is valid UTF-8, which a cassette requires."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
