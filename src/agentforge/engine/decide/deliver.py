"""Gates of a stage that delivers: no agent runs in it. The engine prepares the change, asks about what it
must not decide, and makes a commit, a patch or a pull request of it."""

# Theory of operation
#
# A delivery is prepared first: what changed is compared with the repository as it is now, and the commit is
# written, to which nothing refers yet. So its id is in the log before any effect, and an engine that repeats
# the effect repeats it with the same object. Each effect is then one task, whose intent names what it expects
# to find. An engine that finds such a task in flight looks at the world, and performs it only if it isn't
# done.
#
# What a person has to decide is part of what was prepared. An accepted problem is remembered by its id, which
# names the commit or the paths: another one of its kind is asked about again.

from agentforge.engine.decide.requests import Question, Ruling
from agentforge.engine.decide.stage_at import StageAt
from agentforge.engine.evolve.deliver import DELIVERY, EFFECTS
from agentforge.model import facts as f
from agentforge.model.delivery import (
    DeliveredStatus,
    DeliveredWork,
    DeliverRule,
    DeliveryProblem,
    DeliveryState,
    DeliveryStep,
    PreparedDelivery,
)
from agentforge.model.facts.hook import EffectKind
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.place import visits_key
from agentforge.model.request import ACCEPT, CANCEL, RESUME, RETRY
from agentforge.model.state import LOST, TaskState
from agentforge.model.status import TaskStatus
from agentforge.model.task import DeliverTask, RepositoryTask

NO_BASE = "the files at the start of the run are not known, so what changed since isn't either"
BRANCHES = "refs/heads/"


def look_first(here: StageAt) -> Ruling | None:
    """Before the first agent, the engine looks at the files and the repository, if a stage will deliver."""
    state = here.state
    if not here.plan.delivers or state.settings.replay is not None:
        return None
    if state.base is None:
        is_late = state.has_worked or here.at.completed
        return None if is_late else Ruling(work=(RepositoryTask(here.place, here.node.id),))
    # Nothing else has been spent yet.
    is_early = not state.has_worked and bool(state.base.problem)
    return _failed(state.base.problem) if is_early else None


def _failed(why: str) -> Ruling:
    return Ruling(failure=Failure(FailureKind.DELIVERY_FAILED, why))


def deliver(here: StageAt) -> Ruling:
    """The next step of a stage that delivers."""
    now, rule = here.at.delivery or DeliveryState(), here.node.deliver
    assert rule is not None
    if now.status is not None:
        return Ruling(done=now.status)
    if here.state.settings.replay is not None:
        return here.record(f.Delivered(DeliveredWork(rule.mode, "not_delivered")))
    call = here.at.calls.get("deliver")
    if closed := _effect_closed(here, now, call):
        return here.record(closed)
    if here.state.base is None or not here.state.base.tree:
        return _failed(here.state.base.problem if here.state.base else NO_BASE)
    if call is not None and call.status is TaskStatus.FAILED and not call.excused:
        return Ruling(failure=call.failure)
    if call is not None and call.is_given_up:
        text = (
            f"{_noun(call.about)} of stage {here.node.id!r} was lost {call.lost} times in a row, because the"
            " engine or the machine died. Retry?"
        )
        return Ruling(question=Question(f"deliver{LOST}", text, subject=call.about))
    if now.prepared is None:
        return _start(here, "prepare", call)
    if asked := _asked(here, now, now.prepared):
        return asked
    step = next((step for step in rule.steps[1:] if step not in now.done), None)
    if step is None or not now.prepared.count:
        return here.record(f.Delivered(_work(rule, now, now.prepared)))
    return _start(here, step, call)


def _start(here: StageAt, step: DeliveryStep, call: TaskState | None) -> Ruling:
    now = here.at.delivery
    before = now.number if now is not None and step == "prepare" else 0
    number = 1 + (call.number if call is not None and call.about == step else before)
    started = here.record(f.DeliverStarted(step, number))
    if step == "prepare" or now is None or now.prepared is None:
        return started
    intended = f.EffectIntended(_key(here, step), step, _target(step, now.prepared), number)
    return Ruling((*started.facts, *here.record(intended).facts))


def _key(here: StageAt, step: str) -> str:
    """The same for every try of what was prepared."""
    number = here.at.delivery.number if here.at.delivery else 0
    place = f"{visits_key(here.place.path, here.place.branch)}/{here.place.run}"
    return f"{here.state.run_id}/{place}/{step}/{number}"


def _target(step: EffectKind, prepared: PreparedDelivery) -> str:
    match step:
        case "commit":
            return f"{prepared.ref} {prepared.commit}" if prepared.commit else "index"
        case "patch":
            return prepared.file
        case _:
            return f"{prepared.address} {prepared.ref}"


def _effect_closed(
    here: StageAt, now: DeliveryState, call: TaskState | None
) -> f.EffectDone | f.EffectReconciled | None:
    """How an open effect ended, or None."""
    step = now.effect
    if step is None or step == "prepare":
        return None
    key, number = _key(here, step), now.number_of_effect
    if step in now.done:
        if now.found:
            return f.EffectReconciled(key, step, number, found="present", then="skip")
        return f.EffectDone(key, step, number)
    if call is None or call.status is TaskStatus.FAILED:
        return f.EffectDone(key, step, number, outcome="failed")
    return f.EffectReconciled(key, step, number, found="absent", then="repeat")


# -- what a person decides


def _asked(here: StageAt, now: DeliveryState, prepared: PreparedDelivery) -> Ruling | None:
    problem = next((one for one in prepared.problems if one.id not in now.accepted), None)
    if problem is None or now.done:
        return None
    text, options = _question(here, problem)
    return Ruling(question=Question(DELIVERY, text, options, subject=problem.id, number=now.number))


def _question(here: StageAt, problem: DeliveryProblem) -> tuple[str, tuple[str, ...]]:
    about = f"stage {here.node.id!r} did not deliver the change: {problem.text}."
    match problem.kind:
        case "moved":
            return f"{about} Deliver on the new commit ({RETRY}), or cancel the run?", (RETRY, RESUME, CANCEL)
        case "edited":
            text = f"{about} Deliver them, too ({ACCEPT}), look again ({RETRY}), or cancel the run?"
            return text, (ACCEPT, RETRY, RESUME, CANCEL)
        case _:
            return f"{about} Look again ({RETRY}), or cancel the run?", (RETRY, RESUME, CANCEL)


# -- the end


def _work(rule: DeliverRule, now: DeliveryState, prepared: PreparedDelivery) -> DeliveredWork:
    found = DeliveredWork(
        rule.mode, _status(rule, prepared), paths=prepared.paths, count=prepared.count, tree=prepared.tree
    )
    if not prepared.count:
        return found
    commit, branch = prepared.commit, prepared.ref.removeprefix(BRANCHES) if prepared.commit else ""
    branch = "" if branch == "HEAD" else branch
    return DeliveredWork(
        found.mode,
        found.status,
        commit,
        branch,
        now.url,
        prepared.file if rule.mode == "patch" else "",
        found.paths,
        found.count,
        found.tree,
    )


def _status(rule: DeliverRule, prepared: PreparedDelivery) -> DeliveredStatus:
    if not prepared.count:
        return "no_changes"
    match rule.mode:
        case "commit":
            return "committed" if prepared.commit else "staged"
        case "patch":
            return "patched"
        case "pr":
            return "pull_request"
    return "files"


def _noun(step: str) -> str:
    return {"prepare": "the preparation", "pull_request": "the pull request"}.get(step, f"the {step}")


def deliver_task(here: StageAt, call: TaskState, **started: object) -> DeliverTask | None:
    """The step that is in flight; None if a damaged log has what the plan doesn't."""
    now, rule, base = here.at.delivery, here.node.deliver, here.state.base
    step = next((step for step in EFFECTS if step == call.about), None)
    if now is None or rule is None or base is None or step is None:
        return None
    return DeliverTask(
        **started,  # type: ignore[arg-type]
        step=step,
        rule=rule,
        base=base,
        tree=here.state.tree,
        prepared=now.prepared,
        accepted=now.accepted,
        date=now.since or call.started_at,
        user_request=here.state.user_request,
    )
