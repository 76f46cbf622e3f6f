"""Gates about the files of the project: the tree of a visit, files that are frozen, and visits that are
undone.

All of them are one kind of task, with an intent: an engine that dies while it replaces files is followed by
one that knows what they were.
"""

from agentforge.engine.decide.requests import Question, Ruling
from agentforge.engine.decide.stage_at import StageAt
from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.frozen import FROZEN_FILES, MAX_RESTORATIONS, ROLLBACK, START, FilesAction, named
from agentforge.model.plan import PASS
from agentforge.model.request import ACCEPT, CANCEL, RESUME, RETRY
from agentforge.model.task import FilesTask


def visit_tree(here: StageAt) -> Ruling | None:
    """The files at the start of the visit, before anything of it can change them."""
    if here.at.completed or not here.plan.keeps_trees:
        return None
    if here.at.began is None:
        return _task(here, "look", START)
    # At the start of the run for all of its stages: later, agents would have worked in vain.
    is_first = not here.state.has_worked
    stages = here.plan.stages if is_first else (here.node,)
    for stage in stages:
        seen = here.at.began
        defect = seen.defect if stage.rollback else "" if seen.tree or not stage.keeps_trees else seen.defect
        if defect:
            what = "`rollback`" if stage.rollback else "`freeze`"
            text = f"{what} of stage {stage.id!r} is not possible: {defect}. Have git ignore such files"
            return Ruling(failure=Failure(FailureKind.FILES_UNUSABLE, text))
    return None


def tampered(here: StageAt) -> Ruling | None:
    """Someone keeps changing the files that must stay as they are."""
    if here.state.restorations < MAX_RESTORATIONS:
        return None
    text = (
        f"{here.who}frozen files were changed {here.state.restorations} times, and restored each time; now in"
        f" stage {here.node.id!r}: {named(here.at.restored) or 'see the log'}. Continue?"
    )
    return Ruling(question=Question(FROZEN_FILES, text, (RESUME, RETRY, CANCEL), scope="run"))


def restored(here: StageAt, subject: str) -> Ruling | None:
    """Frozen files are as they must be, before something is said about the work: a check, or the end."""
    if not here.state.frozen or here.at.verified == (here.at.completed, subject):
        return None
    return _task(here, "restore", subject)


def frozen(here: StageAt) -> Ruling | None:
    """What a stage that has passed named is frozen, before the run leaves it."""
    verdict = here.at.verdict
    has_passed = verdict is not None and (verdict.word == PASS or verdict.accepted_by)
    if here.at.froze or not here.node.freeze or not has_passed:
        return None
    return _task(here, "freeze")


def rolled_back(here: StageAt) -> Ruling | None:
    """What the attempts of a visit without `pass` changed is undone, before anything follows from that."""
    verdict = here.at.verdict
    if verdict is None or not here.node.rollback or here.at.rolled_back or here.at.transition is not None:
        return None
    if verdict.word == PASS or verdict.accepted_by:
        return None
    if here.at.refused:
        *paths, reason = here.at.refused
        text = (
            f"{here.who}what stage {here.node.id!r} changed is not undone: {reason}: {named(tuple(paths))}."
            " Look again, leave all files as they are, or cancel the run?"
        )
        return Ruling(question=Question(ROLLBACK, text, (RETRY, ACCEPT, CANCEL)))
    return _task(here, "rollback")


def _task(here: StageAt, action: FilesAction, subject: str = "") -> Ruling:
    call, about = here.at.calls.get(FilesTask.KIND), f"{action} {subject}".rstrip()
    if call is None or call.about != about:
        return here.record(f.FilesStarted(action, subject))
    if call.failure is not None and not call.excused:
        return Ruling(failure=call.failure)
    return here.record(f.FilesStarted(action, subject, call.number + 1))


def nothing_done(task: FilesTask) -> f.AnyFilesFact:
    """The outcome where no files are looked at: in a replay, and in a rehearsal."""
    if task.ending:
        return f.FilesLost(**task.names)
    match task.action:
        case "look":
            return f.VisitTree(**task.names, tree="0" * 40)
        case "freeze":
            return f.FilesFrozen(**task.names, stage=task.name)
        case "restore":
            return f.FrozenVerified(**task.names)
        case "rollback":  # exhaustive
            return f.FilesRolledBack(**task.names)
