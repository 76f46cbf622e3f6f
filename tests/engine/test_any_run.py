"""Properties of whole runs: any plan, nodes entered again, crashes, answers, recompiles.

A prefix of the log says the same as the run that wrote it said then; visits have no gaps; a request is
answered and resolved once; the state doesn't grow.
"""

from collections import Counter, defaultdict
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.engine.any_run import WildRun, any_wild_run
from tests.engine.plans import block, nested, plan_of, stage
from tests.engine.playbook import Play
from tests.sampling import heavy

from agentforge.engine.decide.people import SKIPPED
from agentforge.engine.decide.run import decide
from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.codec import GENESIS, Payload, decode, encode
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.event import Event
from agentforge.model.facts.hook import HookFact
from agentforge.model.hook import HookPoint
from agentforge.model.plan import ParallelNode, Plan
from agentforge.model.state import RunState
from agentforge.model.status import FINAL
from agentforge.model.task import Wait


def _no_payload(payload: Payload) -> bytes:
    raise AssertionError(f"nothing was put beside the log: {payload}")


def written(events: list[Event]) -> list[Event]:
    """The events as another process reads them."""
    lines, previous = [], GENESIS
    for event in events:
        line, previous = encode(event, previous)
        lines.append(line)
    return [decode(line, _no_payload) for line in lines]


def reread(state: RunState) -> RunState:
    return msgspec.json.decode(msgspec.json.encode(state), type=RunState)


@pytest.mark.requirement("NFR-017", "NFR-019")
@heavy
@given(any_wild_run())
def test_any_replayed_prefix_decides_the_same_as_the_live_run(run: WildRun) -> None:
    state: RunState | None = None
    for event, (plan, decision) in zip(written(run.events), run.decided, strict=True):
        state = evolve(state, event)
        assert decide(plan, state) == decision
    assert state == run.state


@heavy
@given(any_wild_run())
def test_any_state_that_was_written_and_read_decides_the_same(run: WildRun) -> None:
    state: RunState | None = None
    for event, (plan, decision) in zip(run.events, run.decided, strict=True):
        state = reread(evolve(state, event))
        assert decide(plan, state) == decision
    assert state == run.state


@heavy
@given(any_wild_run())
def test_visits_of_any_run_are_numbered_without_gaps(run: WildRun) -> None:
    numbers = defaultdict(list)
    folders = Counter[str]()
    for event in run.events:
        in_branch = event.cursor is not None and event.cursor.provider is not None
        if isinstance(event.fact, f.NodeStarted):
            folders[event.fact.folder] += 1
        if isinstance(event.fact, f.NodeStarted) and not in_branch:
            numbers[event.fact.name].append(event.fact.run)
    for name, found in numbers.items():
        assert found == list(range(1, len(found) + 1)), name
    assert set(folders.values()) <= {1}, "each visit has its own folder"
    for step in run.decided[-1][0].steps:
        assert run.state.visits.get(step.path, 0) == len(numbers[step.node.id])


@heavy
@given(any_wild_run())
def test_visits_of_branches_in_any_run_are_numbered_without_gaps(run: WildRun) -> None:
    """A stage of a branch is entered by its first event after the block or the branch was there, or after the
    stage was left; only a visit within the same visit of the block has a node_start."""
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    inside: set[tuple[str, str]] = set()
    for event, (plan, _) in zip(run.events, run.decided, strict=True):
        at = event.cursor
        node = plan.stage(at.node_path, at.provider) if at and at.provider else None
        if isinstance(event.fact, f.NodeStarted) and event.fact.kind == "parallel":
            inside.clear()
        if at is None or at.provider is None or node is None:
            continue
        stage = (node.id, at.provider)
        if isinstance(event.fact, f.IterationStarted | f.NodeStarted) and stage not in inside:
            inside.add(stage)
            numbers[stage].append(at.node_run)
        elif isinstance(event.fact, f.StageCompleted | f.NodeRestarted):
            if stage not in inside:
                numbers[stage].append(at.node_run)
            inside.discard(stage)
    for stage, found in numbers.items():
        assert found == list(range(1, len(found) + 1)), stage


@heavy
@given(any_wild_run())
def test_iterations_of_any_visit_are_numbered_without_gaps(run: WildRun) -> None:
    begun = defaultdict(list)
    for event, (plan, _) in zip(run.events, run.decided, strict=True):
        if isinstance(event.fact, f.IterationCompleted) and event.cursor:
            at = event.cursor
            node = plan.stage(at.node_path, at.provider)
            assert node is not None
            begun[node.id, at.node_run, at.provider].append(at.iteration)
    for place, found in begun.items():
        assert found == list(range(1, len(found) + 1)), place


@heavy
@given(any_wild_run())
def test_every_request_of_any_run_is_answered_once_and_resolved_once_or_closed_by_the_end(
    run: WildRun,
) -> None:
    seen: dict[str, list[str]] = {}
    for event in run.events:
        if isinstance(event.fact, f.RequestOpened):
            assert event.fact.id not in seen, "an id is given once"
        if isinstance(event.fact, f.RequestOpened | f.RequestAnswered | f.RequestResolved):
            seen.setdefault(event.fact.id, []).append(event.fact.TYPE)
    whole = ["request_opened", "request_answered", "request_resolved"]
    withdrawn = {
        event.fact.id
        for event in run.events
        if isinstance(event.fact, f.RequestResolved) and event.fact.effect == "withdrawn"
    }
    left = {request.id for request in run.state.requests}
    for id, life in seen.items():
        if id in withdrawn:
            assert life in (whole, ["request_opened", "request_resolved"]), id
            continue
        assert life == whole[: len(life)], id
        if life != whole:
            assert id in left or run.state.status in FINAL, id
    assert left <= set(seen)
    if run.state.status in FINAL:
        assert not left


@heavy
@given(any_wild_run())
def test_only_one_question_of_a_kind_is_open_at_a_place(run: WildRun) -> None:
    state: RunState | None = None
    for event in run.events:
        state = evolve(state, event)
        keys = [request.key for request in state.requests]
        assert len(keys) == len(set(keys))


@heavy
@given(any_wild_run())
def test_every_visit_with_an_approval_is_complete_once_and_only_if_it_was_approved(run: WildRun) -> None:
    """Only a result that the run continues with is shown for approval: a person accepts another one, or it
    goes back."""
    not_shown: set[tuple[str, int, str | None]] = set()
    asked: dict[str, tuple[str, int, str | None]] = {}
    approved = Counter[tuple[str, int, str | None]]()
    for event, (plan, _) in zip(run.events, run.decided, strict=True):
        at = event.cursor
        node = plan.stage(at.node_path, at.provider) if at else None
        if at is None or node is None or node.approve is None:
            continue
        visit = (node.id, at.node_run, at.provider)
        match event.fact:
            case f.RequestOpened(kind="approval", id=id):
                asked[id] = visit
            case f.RequestResolved(effect="approved", id=id):
                approved[asked[id]] += 1
            case f.StageTransitioned(verdict=word, cycle=cycle) if word in ("fail", "reject") or (
                word != "pass" and cycle
            ):
                not_shown.add(visit)
            case f.RequestResolved(effect="accepted") | f.StageVerdictReached(ended="skipped"):
                not_shown.add(visit)
            case f.NodeCompleted() | f.StageCompleted():
                assert approved[visit] == (visit not in not_shown)
                approved[visit] += 1
    assert set(approved.values()) <= {1, 2}


@heavy
@given(any_wild_run())
def test_checkpoint_of_any_run_is_cleared_once(run: WildRun) -> None:
    """It is asked a second time only if the first question was withdrawn: another plan moved its node."""
    cleared = Counter(event.fact.name for event in run.events if isinstance(event.fact, f.CheckpointCleared))
    withdrawn = {
        event.fact.id
        for event in run.events
        if isinstance(event.fact, f.RequestResolved) and event.fact.effect == "withdrawn"
    }
    asked = Counter(
        event.fact.subject
        for event in run.events
        if isinstance(event.fact, f.RequestOpened)
        and event.fact.kind == "checkpoint"
        and event.fact.id not in withdrawn
    )
    assert set(cleared.values()) | set(asked.values()) <= {1}
    assert sorted(cleared) == sorted(run.state.cleared)


@heavy
@given(any_wild_run())
def test_time_and_numbers_of_attempts_never_go_back(run: WildRun) -> None:
    assert all(one.at <= other.at for one, other in pairwise(run.events))
    begun: dict[object, int] = {}
    for event in run.events:
        if isinstance(event.fact, f.PlanChanged):
            begun.clear()  # The same attempts have other places there.
        if isinstance(event.fact, f.AttemptStarted):
            assert event.fact.attempt > begun.get(event.cursor, 0), "no claim is made twice"
            begun[event.cursor] = event.fact.attempt


# -- the size of the state


def places(plan: Plan) -> int:
    """Stages of every branch, blocks and nodes."""
    return sum(len(step.stages) + isinstance(step.node, ParallelNode) for step in plan.steps)


def size(state: RunState) -> int:
    return len(msgspec.json.encode(state))


@heavy
@given(any_wild_run(steps=120))
def test_size_of_any_state_is_bounded_by_the_plan(run: WildRun) -> None:
    """Apart from what people are asked, which waits for them."""
    bound = 2000 + 1600 * places(run.decided[-1][0])
    assert size(msgspec.structs.replace(run.state, requests=())) <= bound


def driven(plan: Plan, visits: int, iterations: int) -> dict[int, RunState]:
    """The state at each visit of the first node, with the given number of iterations; the last node leads
    back each time."""
    conversation, last = Play(plan), plan.steps[-1]
    found: dict[int, RunState] = {}
    conversation.happens("start")
    while len(found) < visits:
        assert conversation.state is not None
        found.setdefault(conversation.state.visits["0"], conversation.state)
        work = conversation.work[0]
        assert not isinstance(work, Wait)
        if work.place.path.startswith(last.path):
            conversation.routed = Destination("0")
        is_enough = work.place.path == "0" and work.iteration == iterations
        said = {
            "prepare": "prepared",
            "agent": "completed stop" if is_enough else "completed",
            "manifest": "manifest",
        }
        who = f"{work.place.branch}: " if work.place.branch else ""
        conversation.happens(who + said[work.KIND])
    return found


GROWING = plan_of(
    stage("plan", runs=1000),
    nested("polish", stage("refine"), stage("check")),
    block("claude codex", stage("draft")),
)
DIGITS = 40
"""Numbers of visits, iterations and events become longer."""


def test_state_after_fifty_visits_is_not_larger_than_after_five() -> None:
    states = driven(GROWING, 50, 1)
    assert sorted(states) == list(range(1, 51))
    assert size(states[50]) - size(states[5]) <= DIGITS


def test_state_after_many_iterations_is_not_larger_than_after_a_few() -> None:
    few, many = driven(GROWING, 3, 2)[3], driven(GROWING, 3, 200)[3]
    assert many.seq - few.seq > 1000
    assert size(many) - size(few) <= DIGITS


# -- hooks


def _answers(events: list[Event]) -> dict[str, list[str]]:
    """What happened to each delivery, in order."""
    seen: dict[str, list[str]] = defaultdict(list)
    for event in events:
        if isinstance(event.fact, HookFact):
            seen[event.fact.delivery].append(event.fact.TYPE)
    return seen


@heavy
@given(any_wild_run())
def test_a_hook_of_any_run_whose_answer_is_recorded_is_not_called_again(run: WildRun) -> None:
    for life in _answers(run.events).values():
        assert life.count("hook_complete") <= 1
        if "hook_complete" in life:
            assert life[-1] == "hook_complete"
        for start, following in pairwise(life):
            assert (start, following) != ("hook_start", "hook_start"), "two tries at the same time"


@heavy
@given(any_wild_run())
def test_no_run_passes_a_point_before_its_hooks_have_answered(run: WildRun) -> None:
    """Independently of the engine's own bookkeeping: the hooks that apply, and the answers before."""
    answered: set[tuple[str, Cursor | None]] = set()
    asked: dict[str, tuple[str, Cursor | None]] = {}
    is_recompiled = any(isinstance(event.fact, f.PlanChanged) for event in run.events)
    for event, (plan, _) in zip(run.events, run.decided, strict=True):
        fact, at = event.fact, event.cursor
        match fact:
            case f.HookCompleted(hook=hook) | f.HookSkipped(hook=hook):
                answered.add((hook, at))
            case f.RequestOpened(kind="pause", id=id, subject=hook):
                asked[id] = (hook, at)
            case f.RequestResolved(id=id, effect="continue") if id in asked:
                answered.add(asked[id])
        passed = None if is_recompiled else _passed(fact, at)
        if passed is not None:
            point, place = passed
            hooks = plan.hooks(point, place.node_path if place else "")
            missing = [hook for hook in hooks if hook.condition is None and (hook.id, place) not in answered]
            assert not missing, event


def _passed(fact: f.AnyFact, at: Cursor | None) -> tuple[HookPoint, Cursor | None] | None:
    """The hook point that a run has passed when it records the fact."""
    match fact:
        case f.SessionCompleted():
            return "session_end", None
        case f.IterationStarted() if at is not None:
            return "iteration_start", at
        case f.StageCompleted(iterations=iterations) if at is not None:
            return "stage_end", replace(at, iteration=iterations)
        case f.NodeCompleted() if fact.reason == SKIPPED:
            return None
        case f.NodeCompleted(iterations=iterations) if at is not None and iterations == at.iteration:
            return "stage_end", at
        case f.ProviderCompleted(status="completed") if at is not None:
            return "parallel_provider_end", at
        case _:
            return None


@heavy
@given(any_wild_run())
def test_every_effect_of_any_run_is_intended_before_its_call_and_closed_before_the_next(run: WildRun) -> None:
    intended: dict[str, int] = {}
    for event in run.events:
        match event.fact:
            case f.EffectIntended(key=key, attempt=attempt):
                assert key not in intended
                intended[key] = attempt
            case f.EffectDone(key=key, attempt=attempt) | f.EffectReconciled(key=key, attempt=attempt):
                assert intended.pop(key) == attempt


@heavy
@given(any_wild_run())
def test_the_hooks_in_any_state_are_bounded(run: WildRun) -> None:
    plan = run.decided[-1][0]
    assert len(run.state.hooks) <= 4 + 3 * len(run.state.requests) + 2 * sum(
        len(step.stages) + 1 for step in plan.steps
    )


@heavy
@given(any_wild_run())
def test_items_of_any_run_are_worked_on_in_order_and_never_again_once_they_are_done(run: WildRun) -> None:
    """By what the log says, without the state."""
    done: dict[object, dict[str, str]] = defaultdict(dict)
    """The hash of each item that is done, by stage."""
    left: dict[object, dict[str, tuple[str, ...]]] = {}
    """What the items are after that the visit has to do."""
    failed: dict[object, set[str]] = defaultdict(set)
    hashes: dict[object, dict[str, str]] = {}
    round_of: dict[object, tuple[int, ...]] = {}
    for event in run.events:
        fact, at = event.fact, event.cursor
        here = (at.node_path, at.provider) if at else None
        match fact:
            case f.PlanChanged():
                done.clear()
                left.clear()
            case f.NodeStarted(rounds=rounds) if rounds != round_of.get(here, rounds):
                done.pop(here, None)  # A new round of the pipeline begins with nothing.
                round_of[here] = rounds
            case f.NodeStarted(rounds=rounds):
                round_of[here] = rounds
            case f.NodeRestarted(feedback=None):
                done.pop(here, None)
            case f.StageVerdictReached(skipped_by=person, failing=checks) if person or checks:
                left.pop(here, None)  # It is over before its items are.
            case f.ItemsPlanned(items=items, reopened=reopened):
                finished = {item.id: item.hash for item in items if item.status == "done"}
                kept = {id: hash for id, hash in done[here].items() if id not in reopened}
                assert {item.id for item in items if kept.get(item.id) == item.hash} <= set(finished)
                left[here] = {item.id: item.after for item in items if item.id not in finished}
                hashes[here] = {item.id: item.hash for item in items}
                done[here] = finished
                failed[here] = set()
            case f.IterationStarted(item=item) if item and here in left:
                assert item in left[here]
                assert not set(left[here][item]) & set(left[here])
            case f.ItemEnded(item=item, status="done"):
                left.get(here, {}).pop(item, None)
                done[here][item] = hashes.get(here, {}).get(item, "")  # A new plan has other places.
            case f.ItemEnded(item=item):
                failed[here].add(item)
            case f.NodeCompleted() | f.StageCompleted() if here in left:
                # Those that are left depend on one that failed.
                waiting = set(left.pop(here)) - failed[here]
                assert not waiting or failed[here]
