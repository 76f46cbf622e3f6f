"""Whether a run can continue with another plan, and where; `evolve/plan_change.py` applies it to the state.

Nodes are the same if they have the same kind and id within the same pipelines, regardless of position. A run
whose current node was removed can't continue with the new plan; that is an error.
"""

# What is running must not lose what reads its output: the provider of an agent, a check, the script of a
# hook. While a task may be in flight, these are compared between the plans, and a difference is refused. All
# else may change under a run, because past decisions are facts.

from collections.abc import Collection, Iterator

from agentforge.engine.nodes import first_node, is_of_round, key_of, next_node
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.cursor import Destination
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import Items, NestedNode, ParallelNode, Plan, StageNode, Step
from agentforge.model.state import Between, BlockState, RunState, Start, is_within

_HINT = "restore it, resume without --recompile, or start over with --force"


def plan_change(new: Plan, old: Plan, state: RunState) -> f.PlanChanged:
    """The fact for continuing with the new plan; raises IllegalMove if the current node was removed."""
    paths, now = moved_paths(old, new), dict(_places(new))
    _refuse_other_scripts(new, old, state, paths)
    visited = {key.partition("@")[0] for key in state.visits}
    back: dict[str, str | None] = {name: now[name] for name in visited if name in now}
    gone = {path: key for key, path in _places(old) if paths[path] is None}
    to = _destination(new, old, state, paths)
    passed = tuple(_passed(new, state, paths | back, to))
    _refuse_unvisited(new, state, passed)
    skipped = {now for known, now in paths.items() if any(is_within(known, node) for node in state.skipped)}
    return f.PlanChanged(new, to, paths | back, gone, tuple(path for path in passed if path not in skipped))


def _passed(
    new: Plan, state: RunState, paths: dict[str, str | None], to: Destination | None
) -> Iterator[str]:
    """The nodes before the current one that were not run in this round."""
    if isinstance(state.at, Start):
        return
    last = state.stages[-1].path if state.stages else ""
    here, now = (to.path, to.rounds) if to else (paths.get(last) or last, state.rounds)
    visited = {paths.get(key.partition("@")[0]) for key in state.visits}
    rounds = {paths.get(record.path): record.rounds for record in state.stages}
    for step in new.steps:
        path = step.path
        if to is not None and path == here:
            return
        if path not in visited or not is_of_round(path, rounds.get(path, now), here, now):
            yield path


def _refuse_unvisited(new: Plan, state: RunState, passed: Collection[str]) -> None:
    """No run goes back for a node that its new plan requires; a person may skip it."""
    for id, path in _required(new):
        inside = [step.path for step in new.steps if is_within(step.path, path)]
        is_passed = bool(inside) and all(place in passed for place in inside)
        if is_passed and state.waiver_of(id) is None:
            raise IllegalMove(
                f"the new plan requires {id!r}, which was not visited, and the run is past its place",
                hint="put it behind the node that the run has reached, resume without --recompile, or start"
                " over with --force",
            )


def _required(plan: Plan, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The required nodes of a plan and of those nested in it: ids and paths."""
    for node in plan.nodes:
        path = f"{prefix}{node.path}"
        if node.id in plan.pipeline.require:
            yield node.id, path
        if isinstance(node, NestedNode):
            yield from _required(node.plan, f"{path}.")


def _destination(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> Destination | None:
    match state.at:
        case Start():
            return first_node(new)
        case Between(next=following):
            return _between(new, old, state, following, paths)
        case at:
            before, now = old.places.get(at.path), new.places.get(paths.get(at.path) or "")
            if before is None or now is None:
                raise _removed(at.path, old, new)
            if isinstance(at, BlockState):
                _refuse_other_branches(now, before, at)
            _refuse_other_agents(new, old, state, paths)
            _refuse_other_commands(new, old, state, paths)
            _refuse_other_lists(new, old, state, paths)
            return Destination(now.path, state.rounds)


def moved_paths(old: Plan, new: Plan) -> dict[str, str | None]:
    """Each old path's path in the new plan; None if the node was removed."""
    now = dict(_places(new))
    return {path: now.get(key) for key, path in _places(old)}


def _between(
    new: Plan, old: Plan, state: RunState, following: Destination | None, paths: dict[str, str | None]
) -> Destination | None:
    """After the completed node, else at the next one; a jump to another node is kept."""
    done = state.stages[-1].path if state.stages else ""
    path = paths.get(done)
    is_back = isinstance(state.at, Between) and state.at.reentry is not None
    if path is not None and not is_back and following == next_node(old, done, state.rounds):
        return next_node(new, path, state.rounds)
    upcoming = paths.get(following.path) if following else None
    if following is not None and upcoming is not None:
        return Destination(upcoming, following.rounds)
    raise _removed(following.path if following else done, old, new)


def _removed(path: str, old: Plan, new: Plan) -> IllegalMove:
    step = old.places.get(path)
    name = step.node.id if step else path
    return IllegalMove(f"the current node {name!r} is no longer in {new.source.path}", hint=_HINT)


def _refuse_other_branches(now: Step, before: Step, block: BlockState) -> None:
    """A block in progress must keep its providers, and each provider the stages that it has started."""
    begun = {branch.provider: branch.next_stage + bool(branch.stage) for branch in block.branches}
    planned = now.node.branches if isinstance(now.node, ParallelNode) else ()
    if {branch.provider for branch in planned} != set(begun):
        message = f"the providers of block {now.node.id!r} changed while the block is running"
        raise IllegalMove(message, hint=_HINT)
    for provider, count in begun.items():
        stages, known = ([stage.id for stage in step.branch(provider)][:count] for step in (now, before))
        if stages != known:
            raise IllegalMove(
                f"stages that {provider} has started in block {now.node.id!r} were removed or reordered",
                hint=_HINT,
            )


def _refuse_other_agents(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> None:
    """The output of a running agent is read by its provider, so that must not change."""
    for provider, at in state.under_way():
        before, now = old.stage(at.path, provider), new.stage(paths.get(at.path) or "", provider)
        if not at.agent_in_flight or before is None:
            continue
        choice = at.iteration.attempt.choice if at.iteration and at.iteration.attempt else 0
        same = now is not None and before.chosen(choice).type == now.chosen(choice).type
        if not same or now is None or old.judge_of(before) != new.judge_of(now):
            raise IllegalMove(
                f"the agent of node {before.id!r} may still be running, but its provider changed in the new"
                " plan",
                hint="resume without --recompile, pause after its iteration, then recompile",
            )


def _refuse_other_commands(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> None:
    """The output of a running command is read as the plan says, so that must not change."""
    for provider, at in state.under_way():
        before, now = old.stage(at.path, provider), new.stage(paths.get(at.path) or "", provider)
        # A judge is an agent.
        calls = [(kind, call.about) for kind, call in at.calls.items() if call.in_flight and kind != "judge"]
        if before is None or not calls:
            continue
        for kind, about in calls:
            is_gone = about in old.baselines and about not in new.baselines
            if now is None or is_gone or _command(before, kind, about) != _command(now, kind, about):
                named = f"{kind} {about!r}" if about else kind
                raise IllegalMove(
                    f"{named} of node {before.id!r} may still be running, but it changed in the new plan",
                    hint=f"resume without --recompile, pause after the {kind}, then recompile",
                )


def _refuse_other_lists(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> None:
    """A visit works through the list that it began with: in another one, an id may mean something else."""
    for provider, at in state.under_way():
        before, now = old.stage(at.path, provider), new.stage(paths.get(at.path) or "", provider)
        lists = [
            node.termination.source
            for node in (before, now)
            if node is not None and isinstance(node.termination, Items)
        ]
        if at.planned and len({*lists}) > 1:
            raise IllegalMove(
                f"a stage works through the items of {lists[0]!r}, and takes {lists[1]!r} in the new plan",
                hint=_HINT,
            )


def _command(node: StageNode, kind: str, about: str) -> tuple[str | None, Check | None]:
    return node.own_commands.get(f"{kind} {about}".rstrip()), node.check(about)


def _refuse_other_scripts(new: Plan, old: Plan, state: RunState, paths: dict[str, str | None]) -> None:
    """A running script is awaited and ended by its hook, so that must stay where it is."""
    for progress in state.hooks:
        call, path = progress.call, progress.at.node_path if progress.at else ""
        before, now = old.hooks(progress.point, path), new.hooks(progress.point, paths.get(path) or "")
        scripts, kept = ({hook.id for hook in at if hook.action == "script"} for at in (before, now))
        if call is not None and call.in_flight and call.hook in scripts - kept:
            raise IllegalMove(
                f"the script of hook {call.hook!r} may still be running, but the new plan has no such script",
                hint="resume without --recompile, pause after the hook, then recompile",
            )


def _places(plan: Plan) -> Iterator[tuple[str, str]]:
    for step in plan.steps:
        key = key_of(step)
        yield key, step.path
        if isinstance(step.node, ParallelNode):
            yield from ((f"{key}/{stage.id}", step.inner_path(stage)) for stage in step.stages)
