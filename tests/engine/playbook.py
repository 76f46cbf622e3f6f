"""Playbooks: a run of the pure engine, written down as a conversation.

    > start                     the world says: this happened
    < node_start plan           the engine decides: record this
    ? prepare plan 1            and this should be running now (no work without such a line)
    @ 5                         five seconds pass
    ^ 0                         the node that is done next leads to 0 (`^ 1.0 2,1`: in these rounds), as a
                                router may decide; the destination is recorded, and the engine continues
    = completed                 the run's status

In a parallel block a line names the provider whose branch it is about: `> claude: completed`.

After each `>` the engine is asked until it has nothing more to record, as the driver does. Everything
that it says has to be in the script, in that order.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from msgspec.structs import replace
from tests.engine.plans import NOON, RUN_ID, SESSION, started

from agentforge.engine.decide.files import nothing_done
from agentforge.engine.decide.run import decide
from agentforge.engine.decide.task_kinds import KINDS
from agentforge.engine.evolve.run import evolve
from agentforge.engine.items import Element, elements_of, planned
from agentforge.engine.legal import refuse_illegal
from agentforge.model import facts as f
from agentforge.model.check import Baseline
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.delivery import DeliveryBase, DeliveryProblem, PreparedDelivery
from agentforge.model.event import Draft, Event
from agentforge.model.failure import FailureKind
from agentforge.model.frozen import FrozenFile
from agentforge.model.plan import Plan
from agentforge.model.result import AgentQuestion, Decision, Result, Signals, Usage
from agentforge.model.spending import DailyAnswer
from agentforge.model.state import RunSettings, RunState, StageState
from agentforge.model.task import (
    CheckTask,
    DeliverTask,
    FilesTask,
    HookTask,
    ItemsTask,
    LedgerTask,
    ManifestTask,
    PrepareTask,
    Wait,
    Work,
)

TOO_MANY = 50


class Play:
    """The conversation so far."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now: datetime = NOON
        self.events: list[Event] = []
        self.state: RunState | None = None
        self.work: tuple[Work, ...] = ()
        self.provider: str | None = None
        """Whose branch the line is about."""
        self.routed: Destination | None = None
        """Where the node that is done next leads to, if not onward."""

    def happens(self, words: str) -> list[str]:
        """Record what the world says; the engine's answer, line by line."""
        provider, colon, said = words.partition(": ")
        self.provider = provider if colon else None
        verb, *rest = (said if colon else words).split()
        fact = FACTS_BY_VERB[verb](self, rest)
        if verb == "resume":
            self._answer_escalations()
        self.record(fact, self._where(fact))
        return self.answer()

    def _answer_escalations(self) -> None:
        """A person who resumes answers what offers it, as `agentforge resume` does."""
        assert self.state is not None
        for request in self.state.open_requests:
            if answer := request.resumes_with:
                self.record(f.RequestAnswered(request.id, answer, "person"), self.state.cursor)

    def answer(self) -> list[str]:
        said = []
        for _ in range(TOO_MANY):
            assert self.state is not None
            decision = decide(self.plan, self.state)
            if not decision.facts:
                self.work = decision.work
                return said + [f"? {_whose(work.cursor)}{self._shown_work(work)}" for work in decision.work]
            for draft in decision.facts:
                assert self._has_its_place(draft), draft
                self.record(self._as_routed(draft.fact), draft.cursor)
                said.append(f"< {_whose(draft.cursor)}{self._shown(draft.fact)}")
        raise AssertionError(f"the engine doesn't settle: {said}")

    def _has_its_place(self, draft: Draft) -> bool:
        """What is decided says where: an answer where it was asked, all else somewhere, but for the hooks of
        the run and their questions."""
        assert self.state is not None
        match draft.fact:
            case f.RequestAnswered(id=id) | f.RequestResolved(id=id):
                asked = next(request for request in self.state.requests if request.id == id)
                return draft.cursor == asked.at or (asked.at is None and draft.cursor == self.state.cursor)
            case f.SessionContinued() | f.SessionPaused() | f.SessionCompleted() | f.SessionAborted():
                return draft.cursor == self.state.cursor
            case f.RequestOpened(reason=reason) if reason.startswith("hook_"):
                return True
            case fact if fact.TYPE.startswith(("hook_", "effect_")):
                return True
            case f.CancelRequested(reason=reason) if reason.startswith("hook "):
                return True
            case _:
                return draft.cursor is not None

    def _as_routed(self, fact: f.AnyFact) -> f.AnyFact:
        if self.routed is None or not isinstance(fact, f.NodeCompleted):
            return fact
        to, self.routed = self.routed, None
        return replace(fact, next=to)

    def record(self, fact: f.AnyFact, cursor: Cursor | None) -> None:
        refuse_illegal(self.state, fact, cursor)
        event = Event(len(self.events) + 1, self.now, SESSION, RUN_ID, fact, cursor)
        self.events.append(event)
        self.state = evolve(self.state, event)
        if isinstance(fact, f.PlanChanged):
            self.plan = fact.plan

    def seconds_until(self, due: datetime) -> str:
        return f"{(due - self.now).total_seconds():g}s"

    def due(self, timer: str) -> datetime:
        for work in self.work:
            if isinstance(work, Wait) and work.timer == timer and self.is_meant(work):
                return work.due_at
        raise AssertionError(f"no wait for timer {timer}: {self.work}")

    @property
    def stage(self) -> StageState:
        """The stage that the line is about."""
        assert self.state is not None
        stage = self.state.stage(self.provider)
        assert stage is not None
        return stage

    @property
    def attempt(self) -> int:
        iteration = self.stage.iteration
        return iteration.attempt.number if iteration and iteration.attempt else 0

    def is_meant(self, work: Work) -> bool:
        return (work.cursor.provider if work.cursor else None) == self.provider

    def _where(self, fact: f.AnyFact) -> Cursor | None:
        for work in self.work:
            if self.is_meant(work) and _is_outcome(work, fact):
                return work.recorded_at
        assert self.provider is None, f"{self.provider} isn't waiting for {fact.TYPE}: {self.work}"
        return self.state.cursor if self.state else Cursor("0", 0, 0)

    def _shown(self, fact: f.AnyFact) -> str:
        match fact:
            case f.NodeStarted() | f.ProviderStarted():
                details = fact.name if isinstance(fact, f.NodeStarted) else ""
            case f.AttemptStarted():
                limits = f" timeout={fact.timeout:g}" if fact.timeout is not None else ""
                who = f" {fact.provider}" if fact.choice else ""
                goes_on = f" resume={fact.resume}" if fact.resume else ""
                details = f"{fact.attempt}{who}{limits}{goes_on}{_reserves(fact)}"
            case f.RetryScheduled():
                details = f"{fact.attempt}/{fact.of} in {self.seconds_until(fact.due_at)}"
            case f.StageRetried():
                details = f"{fact.number}/{fact.of} {fact.kind.value} in {self.seconds_until(fact.due_at)}"
            case f.LimitMet():
                until, due = self.seconds_until(fact.until), self.seconds_until(fact.due_at)
                details = f"{fact.provider} until {until}, next in {due}"
            case f.ProviderChanged():
                until = self.seconds_until(fact.until) if fact.until else "asked"
                due = f", in {self.seconds_until(fact.due_at)}" if fact.due_at else ""
                details = f"{fact.provider} to {fact.to} until {until}{due}"
            case f.DelayStarted():
                details = f"in {self.seconds_until(fact.due_at)}"
            case f.NodeCompleted() | f.StageCompleted():
                details = f"{fact.name}: {' '.join(fact.reason.split())}"
            case f.ProviderCompleted():
                details = fact.status
            case f.JudgeCompleted():
                details = f"{fact.status} {fact.result.reason}"
            case f.SessionFailed():
                details = fact.kind.value
            case f.SessionCompleted() | f.SessionPaused() | f.SessionAborted():
                details = " ".join(fact.reason.split())
            case f.JudgeStarted():
                details = f"{fact.attempt}{_reserves(fact)}"
            case f.AttemptEnding() | f.JudgeEnding():
                details = str(fact.attempt)
            case f.SpendingWarned():
                details = f"{fact.cost_usd:g} of {fact.warn_usd:g}"
            case f.IterationCompleted():
                details = fact.reason
            case f.RequestOpened():
                details = fact.id
            case f.RequestAnswered():
                details = f"{fact.id} {fact.answer} {fact.by}"
            case f.RequestResolved():
                details = f"{fact.id} {fact.effect}"
            case f.SessionContinued() | f.AwaitingApproval():
                details = " ".join(fact.requests)
            case f.CancelRequested():
                details = fact.reason
            case f.NodeRestarted():
                details = f"{fact.name} {fact.cause} round={fact.round}"
            case f.CheckpointCleared():
                details = f"{fact.name} {fact.by}"
            case f.HookStarted() | f.HookEnding():
                details = f"{fact.hook} {fact.attempt}"
            case f.HookCompleted():
                details = f"{fact.hook} {fact.action}"
            case f.HookRetryScheduled():
                assert fact.due_at is not None
                details = f"{fact.hook} in {self.seconds_until(fact.due_at)}"
            case f.HookSkipped():
                details = f"{fact.hook}: {fact.reason}"
            case f.EffectIntended():
                details = f"{fact.attempt} {fact.target}"
            case f.EffectDone():
                details = f"{fact.attempt} {fact.outcome}"
            case f.EffectReconciled():
                details = f"{fact.attempt} {fact.found} {fact.then}"
            case f.DeliverStarted() | f.DeliverEnding():
                details = f"{fact.what} {fact.attempt}"
            case f.Delivered(work=work):
                details = " ".join(filter(None, (work.mode, work.status, work.commit, work.url, work.patch)))
            case f.RestartRequested():
                details = fact.by
            case f.CheckStarted() | f.CheckEnding():
                details = f"{fact.check} {fact.attempt}{' baseline' if fact.baseline else ''}"
            case f.FilesStarted() | f.FilesEnding():
                details = f"{fact.about} {fact.attempt}"
            case f.StageVerdictReached():
                details = f"{fact.verdict} {','.join((*fact.failing, *fact.items))}"
            case f.ItemEnded():
                details = f"{fact.item} {fact.status}"
            case f.StageTransitioned():
                cycle = f" cycle {fact.cycle}/{fact.of}" if fact.cycle else ""
                skipped = f" skipping {','.join(fact.skipped)}" if fact.skipped else ""
                details = f"{fact.source} to {fact.to or 'end'}{cycle}{skipped}"
            case _:
                raise AssertionError(f"the engine decided {fact}")
        return f"{fact.TYPE} {details}".rstrip()

    def _shown_work(self, work: Work) -> str:
        match work:
            case Wait(timer=timer):
                # A delivery id says nothing to a reader.
                name = "hook" if timer.startswith("hook:") else timer
                return f"wait {name} {self.seconds_until(work.due_at)}"
            case CheckTask():
                verb = "end check" if work.ending else "check"
                baseline = " baseline" if work.baseline else ""
                base = f" since {work.base}" if work.base else ""
                base += f" without {','.join(work.found.keys)}" if work.found else ""
                return f"{verb} {work.check.name} {work.attempt}{baseline}{base}"
            case FilesTask():
                return f"{'end ' if work.ending else ''}files {work.about} {work.attempt}"
            case HookTask():
                verb = "end hook" if work.ending else "hook"
                return f"{verb} {work.hook.id} {work.attempt}"
            case DeliverTask():
                verb = "end deliver" if work.ending else "deliver"
                return f"{verb} {work.step} {work.attempt} of {work.tree}"
            case ManifestTask():
                return f"manifest {work.name}"
            case LedgerTask():
                return f"ledger {work.use} {work.attempt}: {work.least_usd:g} to {work.most_usd:g}"
        verb = f"end {work.KIND}" if work.ending else work.KIND
        here = f"{_VERBS.get(verb, verb)} {work.name} {work.iteration}"
        if isinstance(work, PrepareTask) and work.item:
            here += f" {work.item.id} {work.item.number}/{work.item.of}"
        return f"{here} attempt {work.attempt}" if work.attempt else here


def _reserves(fact: f.TaskStarted) -> str:
    """`reserves=$0.3+100`: dollars and tokens, if they are bounded."""
    amount = fact.reserves
    if amount is None:
        return ""
    money = f"${amount.cost_usd:g}" if amount.cost_usd is not None else ""
    return f" reserves={money}{f'+{amount.tokens}' if amount.tokens is not None else ''}"


def _used(given: Mapping[str, str]) -> Usage | None:
    """`cost=0.3`, `tokens=100`, `used=100`: of the last it is known that these are all."""
    if not given.keys() & {"cost", "tokens", "used"}:
        return None
    tokens = given.get("used", given.get("tokens"))
    return Usage(
        input_tokens=int(tokens) if tokens else None,
        output_tokens=0 if "used" in given else None,
        cost_usd=float(given["cost"]) if "cost" in given else None,
    )


def _whose(cursor: Cursor | None) -> str:
    return f"{cursor.provider}: " if cursor and cursor.provider else ""


_VERBS = {"agent": "execute", "end agent": "end", "queue": "check queue"}


def play(plan: Plan, script: str) -> Play:
    """Play the script; the conversation, for a closer look."""
    lines = [line.strip() for line in script.strip().splitlines() if line.strip()]
    conversation = Play(plan)
    answer: list[str] = []
    for number, line in enumerate(lines, 1):
        mark, _, words = line.partition(" ")
        place = f"line {number} of the script: {line!r}"
        if mark in "<?":
            assert answer, f"{place}: the engine says nothing more"
            assert answer[0] == line, f"{place}: the engine says {answer[0]!r}"
            answer.pop(0)
            continue
        assert not answer, f"{place}: the engine also says {answer}"
        if mark == ">":
            answer = conversation.happens(words)
        elif mark == "@":
            conversation.now += timedelta(seconds=float(words))
        elif mark == "^":
            conversation.routed = _destination(words)
        else:
            assert mark == "=", f"{place}: no such mark"
            assert conversation.state is not None
            assert conversation.state.status.value == words, place
    assert not answer, f"at the end the engine also says {answer}"
    refold(conversation)
    return conversation


def _destination(words: str) -> Destination:
    path, _, rounds = words.partition(" ")
    return Destination(path, tuple(map(int, rounds.split(","))) if rounds else (1,))


def refold(conversation: Play) -> None:
    """Every prefix folds to a state that the engine has an answer for, and the whole to the same state."""
    state: RunState | None = None
    for event in conversation.events:
        state = evolve(state, event)
        decide(conversation.plan, state)
    assert state == conversation.state


def _stage(play: Play) -> str:
    assert play.state is not None
    node = play.plan.stage(play.stage.path, play.provider)
    assert node is not None
    return node.id


def _start(play: Play, words: list[str]) -> f.AnyFact:
    delay = [float(word.removeprefix("delay=")) for word in words if word.startswith("delay=")]
    settings = RunSettings("mock" in words, delay[0] if delay else None, "plateau_test" in words)
    return started(play.plan, replace(settings, replay=0.0) if "replay" in words else settings)


def _complete(play: Play, words: list[str]) -> f.AnyFact:
    given = dict(word.split("=") for word in words if "=" in word)
    plateau, said = "plateau" in words, [word for word in words if word != "plateau" and "=" not in word]
    decision = Decision(said[0] if said else "continue")
    result = Result(summary="done", decision=decision, signals=Signals(plateau_suspected=plateau))
    if "verdict" in given:
        result = replace(result, verdict=given["verdict"], reason="the agent says so")
    if "items" in given:
        result = replace(result, items=tuple(given["items"].split(",")))
    done = f.IterationCompleted(_stage(play), play.attempt, decision, "", "result.json", result, 10)
    return replace(done, tree=given.get("tree"), usage=_used(given))


def _asks(play: Play, words: list[str]) -> f.AnyFact:
    """The texts of the questions; `why=because` doesn't block and has that default."""
    questions = tuple(
        AgentQuestion(f"q{number}", text, default=default if equals else None, blocking=not equals)
        for number, word in enumerate(words, 1)
        for text, equals, default in [word.partition("=")]
    )
    result = Result(decision=Decision.ASK, questions=questions)
    return f.IterationCompleted(_stage(play), play.attempt, Decision.ASK, "", "result.json", result, 10)


def _error(play: Play, words: list[str]) -> f.AnyFact:
    """The kind; `resets=60`: seconds to the reset, `session=abc` of the agent, which used `tokens=10`; with
    `unstarted` nothing ran."""
    given = dict(word.split("=") for word in words[1:] if "=" in word)
    resets = play.now + timedelta(seconds=float(given["resets"])) if "resets" in given else None
    return f.ErrorOccurred(
        FailureKind(words[0]),
        "it went wrong",
        _stage(play),
        play.attempt,
        usage=_used(given),
        resets_at=resets,
        agent_session=given.get("session"),
        started="unstarted" not in words,
    )


def _lost(play: Play, words: list[str]) -> f.AnyFact:
    session = words[0].removeprefix("session=") if words and words[0].startswith("session=") else None
    return f.AttemptLost(play.attempt, "the engine died", "unstarted" not in words, session)


def _prepared(play: Play, words: list[str]) -> f.AnyFact:
    task = _preparing(play)
    item = task.item.id if task.item else ""
    return f.IterationStarted(task.node.id, task.node.id, "claude", "opus", "0" * 64, item=item)


def _preparing(play: Play) -> PrepareTask:
    return next(work for work in play.work if isinstance(work, PrepareTask) and play.is_meant(work))


def _ledger(play: Play, words: list[str]) -> f.AnyFact:
    """All that was asked for, or `granted=0.1`; `spent=4` and `reserved=1` by all runs; `day=2026-01-16`."""
    task = next(work for work in play.work if isinstance(work, LedgerTask) and play.is_meant(work))
    given = dict(word.split("=") for word in words)
    day, granted = given.pop("day", "2026-01-15"), float(given.pop("granted", task.most_usd))
    amounts = [float(given.pop(name, 0)) for name in ("spent", "reserved")]
    assert not given
    return f.LedgerAnswered(task.id, task.run_usd, DailyAnswer(day, task.cap_on(day), *amounts, granted))


def _items(play: Play, words: list[str]) -> f.AnyFact:
    """The list: `b<a` is after a, `a:2` has another content than `a`, `a!test` needs the check test."""
    task = next(work for work in play.work if isinstance(work, ItemsTask) and play.is_meant(work))
    listed = []
    for word in words:
        name, _, after = word.partition("<")
        name, _, check = name.partition("!")
        id, _, content = name.partition(":")
        listed.append(
            {
                "id": id,
                "after": after.split(",") if after else [],
                "content": content,
                "checks": [check] if check else [],
            }
        )
    found = elements_of({"steps": listed}, "steps", 100)
    elements = [one for one in found if isinstance(one, Element)]
    assert len(elements) == len(listed), found
    return planned(
        elements,
        task.known,
        task.feedback,
        task.place.run,
        "0" * 64,
        checks_of=lambda one: tuple(one["checks"]),
    )


def _judged(play: Play, words: list[str]) -> f.AnyFact:
    """`stop` or `continue`, or with `failed` why; and the reason that is given. `capped`: it failed at its
    budget."""
    given = dict(word.split("=") for word in words if "=" in word)
    verdict, *reason = [word for word in words if "=" not in word and word != "capped"]
    status: Literal["success", "failed"] = "failed" if verdict == "failed" else "success"
    result = f.JudgeResult(verdict == "stop", " ".join(reason), 0.9)
    return f.JudgeCompleted(status, result, _judging(play), _used(given), capped="capped" in words)


def _judging(play: Play) -> int:
    judge = play.stage.calls.get("judge")
    assert judge is not None
    return judge.number


def _hook(play: Play, words: list[str]) -> f.AnyFact:
    """What became of the call, and what was said: `pause Look!`, `answer retry`, `failed`, `unreachable`,
    `timeout`, `lost`, `unsent`; with `context=`, that is added to the context. Of several calls, the first
    word may name the hook: `h2: continue`."""
    named = words[0].removesuffix(":") if words[0].endswith(":") else ""
    said = words[1:] if named else words
    tasks = (work for work in play.work if isinstance(work, HookTask) and play.is_meant(work))
    task = next(task for task in tasks if named in ("", task.hook.id))
    of = (task.hook.id, task.hook.point, task.delivery, task.attempt)
    verb, rest = said[0], " ".join(said[1:])
    match verb:
        case "failed" | "unreachable":
            return f.HookFailed(*of, message="no answer", retry=verb == "unreachable")
        case "timeout":
            return f.HookTimedOut(*of)
        case "lost" | "unsent":
            return f.HookLost(*of, started=verb == "lost")
        case "answer":
            return f.HookCompleted(*of, action="answer", answer=rest)
    context = rest.removeprefix("context=") if rest.startswith("context=") else ""
    return f.HookCompleted(*of, action=verb, reason="" if context else rest, context=context)  # type: ignore[arg-type]


def _check(play: Play, words: list[str]) -> f.AnyFact:
    """`pass`, `fail`, `error`, `timeout` or `lost`; then the signatures of its failures. `tree=`:
    the files before and after it, `changed=`: a path that changed meanwhile, `problem=` of an error."""
    task = next(work for work in play.work if isinstance(work, CheckTask) and play.is_meant(work))
    status, *rest = words
    if status == "lost":
        return f.CheckLost(**task.names)
    given = dict(word.split("=") for word in rest if "=" in word)
    found = None
    if task.baseline and task.check.regressions:
        found = Baseline(unusable=given.get("unusable", ""), keys=tuple(given.get("keys", "").split(",")))
    return f.CheckCompleted(
        **task.names,
        found=found,
        status=status,
        signatures=tuple(word for word in rest if "=" not in word),
        reason="" if status == "pass" else f"it says {status}",
        feedback="2 failed" if status == "fail" else "",
        tree_before=given.get("tree"),
        tree_after=given.get("tree"),
        changed=(given["changed"],) if "changed" in given else (),
        problem=given.get("problem"),  # type: ignore[arg-type]
    )


def _seen(play: Play, words: list[str]) -> f.AnyFact:
    """Nothing, or what is wrong."""
    return f.RepositorySeen(
        DeliveryBase("" if words else "t0", "c0", "refs/heads/main", problem=" ".join(words))
    )


def _delivery(play: Play, words: list[str]) -> f.AnyFact:
    """`prepared`, with `problems=` by their kinds, `no-changes` or `staged`; `done`, `present` with what an
    engine found after a crash, `failed`, `outdated`, `lost`."""
    task = next(work for work in play.work if isinstance(work, DeliverTask) and play.is_meant(work))
    of, given = (task.step, task.attempt), dict(word.split("=") for word in words[1:] if "=" in word)
    match words[0]:
        case "lost":
            return f.DeliverLost(*of)
        case "failed" | "outdated":
            return f.DeliverFailed(*of, message="it is locked", outdated=words[0] == "outdated")
        case "done" | "present":
            return f.DeliverCompleted(*of, url=given.get("url", ""), found=words[0] == "present")
    kinds = given.get("problems", "").split(",") if "problems" in given else []
    problems = tuple(DeliveryProblem(kind, f"{kind} c{task.attempt}", "it did") for kind in kinds)  # type: ignore[arg-type]
    commit = "" if "staged" in words or task.rule.mode == "patch" else f"c{task.attempt}"
    count = 0 if "no-changes" in words else 2
    prepared = PreparedDelivery(
        "t1",
        ("a", "b"),
        count,
        "c0",
        "refs/heads/main",
        commit,
        address="host",
        file="x.patch",
        problems=problems,
    )
    return f.DeliverCompleted(*of, prepared=prepared)


def _files(play: Play, words: list[str]) -> f.AnyFact:
    """`done` as where no files are looked at, `unknown` trees, trees that lack `inexact` paths, `froze`,
    `restored` or `undone` paths; paths because of which it `refused`; or `failed`."""
    task = next(work for work in play.work if isinstance(work, FilesTask) and play.is_meant(work))
    verb, paths = words[0], tuple(words[1:])
    match verb:
        case "done":
            return nothing_done(task)
        case "unknown":
            return f.VisitTree(**task.names, problem="too many files")
        case "inexact":
            return f.VisitTree(**task.names, tree="t1", inexact=paths)
        case "froze":
            kept = tuple(FrozenFile(path, "0" * 64) for path in paths)
            return f.FilesFrozen(**task.names, stage=task.node.id, files=kept, tree="t1")
        case "restored":
            return f.FilesRestored(**task.names, paths=paths, replaced="t2", count=task.restorations + 1)
        case "refused":
            return f.RollbackRefused(**task.names, paths=paths, reason="something else changed files")
    assert verb == "failed"
    return f.FilesFailed(**task.names, message="no such file")


def _fired(play: Play, words: list[str]) -> f.AnyFact:
    if words[0] == "hook":
        words = [next(w.timer for w in play.work if isinstance(w, Wait) and w.timer.startswith("hook:"))]
    play.now = max(play.now, play.due(words[0]))
    return f.TimerFired(words[0])


def _pause(play: Play, words: list[str]) -> f.AnyFact:
    grace = [float(word.removeprefix("grace=")) for word in words if word.startswith("grace=")]
    due = play.now + timedelta(seconds=grace[0]) if grace else None
    return f.PauseRequested(words[0], now="now" in words, due_at=due)


def _asked(play: Play, words: list[str]) -> f.AnyFact:
    """The id, which begins with the kind; `due=60`: seconds until `default=no` applies. Later parts
    of the engine ask like this."""
    given = dict(word.split("=") for word in words[1:])
    due = play.now + timedelta(seconds=float(given["due"])) if "due" in given else None
    kind: f.RequestKind = words[0].partition("-")[0]  # type: ignore[assignment]
    options = ("yes", "no", "cancel")
    return f.RequestOpened(
        words[0], kind, words[0], kind, "May it?", options, due_at=due, default=given.get("default")
    )


FACTS_BY_VERB: dict[str, Callable[[Play, list[str]], f.AnyFact]] = {
    "start": _start,
    "prepared": _prepared,
    "unprepared": lambda play, _: f.ErrorOccurred(
        FailureKind.PROMPT_UNREADABLE, "no such prompt", _preparing(play).node.id, 0
    ),
    "items": _items,
    "ledger": _ledger,
    "items-unusable": lambda play, _: f.ErrorOccurred(
        FailureKind.ARTIFACT_UNUSABLE, "it is missing", _stage(play), 0
    ),
    "completed": _complete,
    "asks": _asks,
    "judged": _judged,
    "hook": _hook,
    "check": _check,
    "seen": _seen,
    "delivery": _delivery,
    "files": _files,
    "waive": lambda play, words: f.Waived(words[0], "it is flaky", "person"),
    "skip": lambda play, words: f.Waived("", "not today", "person", words[0]),
    "judge-lost": lambda play, _: f.JudgeLost(_judging(play)),
    "left-in-queue": lambda play, words: f.QueueChecked(int(words[0])),
    "queue-unreadable": lambda play, _: f.ErrorOccurred(
        FailureKind.QUEUE_UNREADABLE, "no bd", _stage(play), 0
    ),
    "manifest": lambda play, _: f.ManifestWritten("manifest.json"),
    "error": _error,
    "reattached": lambda play, _: f.AttemptReattached(play.attempt, 4711),
    "lost": _lost,
    "cancelled": lambda play, words: f.AttemptCancelled(play.attempt, "ended on request", *words),
    "fired": _fired,
    "pause": _pause,
    "cancel": lambda play, words: f.CancelRequested(words[0]),
    "asked": _asked,
    "restart": lambda play, words: f.RestartRequested("asked", "person", words[0] if words else None),
    "note": lambda play, words: f.NoteAdded(" ".join(words), "person"),
    "resume-with-yes": lambda play, _: f.SessionResumed("person", approve=True),
    "answer": lambda play, words: f.RequestAnswered(
        words[0], words[1] if words[1:] else "retry", "person", " ".join(words[2:])
    ),
    "resume": lambda play, words: f.SessionResumed("person", " ".join(words) or None),
    "recover": lambda play, _: f.SessionRecovered(4711, "here"),
    "taken-up-by-person": lambda play, words: f.SessionRecovered(
        4711, "here", "person", " ".join(words) or None
    ),
    "repaired": lambda play, _: f.LogRepaired(12, "events.jsonl.torn-800"),
}


def _is_outcome(work: Work, fact: f.AnyFact) -> bool:
    """Whether the fact is an outcome of that work; False for facts about the whole run."""
    if isinstance(work, Wait):
        return isinstance(fact, f.TimerFired) and fact.timer == work.timer
    reattached = isinstance(fact, f.AttemptReattached) and work.KIND == "agent"
    return reattached or type(fact) in KINDS[work.KIND].outcomes
