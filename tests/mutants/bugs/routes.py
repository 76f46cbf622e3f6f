"""Bugs in verdicts, routes and cycles, and in the graph that shows them."""

from tests.mutants.mutation import Mutation as Bug

ROUTES = (
    "tests/engine/test_decide_checks.py",
    "tests/engine/test_decide_pipeline.py",
    "tests/engine/test_decide_routes.py",
    "tests/engine/test_route_graphs.py",
)
RETRY = ("tests/engine/test_decide_retry.py",)
GRAPH = ("tests/views/test_graph.py",)
CHECKS = "agentforge.engine.decide.checks"
OF_CHECKS = "agentforge.engine.evolve.checks"
DECIDED = "agentforge.engine.decide.routes"

BUGS = (
    Bug(
        CHECKS,
        "an agent's claim outranks a failing check",
        "    if failed := here.failing:\n",
        "    if (failed := here.failing) and not here.at.claim:\n",
        ROUTES,
    ),
    Bug(
        CHECKS,
        "an outcome counts although files changed",
        "    if known.changed and known.voids < MAX_VOID_CHECKS:\n",
        "    if known.changed and known.voids < 0:\n",
        ROUTES,
    ),
    Bug(
        CHECKS,
        "a check that can't run counts as passed",
        'return _error(check, known.reason) if known.status == "error" else None',
        "return None",
        ROUTES,
    ),
    Bug(
        CHECKS,
        "an agent runs although a check before it fails",
        " if here.failing else None",
        " if False else None",
        ROUTES,
    ),
    Bug(
        CHECKS,
        "a waived check runs",
        "        if check.at == when and not here.is_waived(check.name):\n",
        "        if check.at == when:\n",
        ROUTES,
    ),
    Bug(
        CHECKS,
        "a verdict names a tree that the agent changed",
        "check.iteration == at.completed or (at.tree is not None and check.tree == at.tree)",
        "True",
        ROUTES,
    ),
    Bug(
        CHECKS,
        "a verdict names the tree of one check, and another saw other files",
        "seen.pop() if len(seen) == 1 else None",
        "seen.pop() if seen else None",
        ROUTES,
    ),
    Bug(
        DECIDED,
        "one cycle more than the limit",
        "    if cycle > limit:",
        "    if cycle > limit + 1:",
        ROUTES,
    ),
    Bug(
        DECIDED,
        "a failure of another stage is a reason to ask",
        " if known.latest == (place, here.at.run))",
        ")",
        ROUTES,
    ),
    Bug(
        DECIDED,
        "a failure comes back once more than its limit",
        "most.visits >= (limits.cluster",
        "most.visits > (limits.cluster",
        ROUTES,
    ),
    Bug(
        DECIDED,
        "a stage without progress goes back once more",
        "known.visits >= (limits.no_progress",
        "known.visits > (limits.no_progress",
        ROUTES,
    ),
    Bug(
        DECIDED,
        "an accepted result still follows its verdict",
        "    if verdict.accepted_by:\n        return None  #",
        "    if False:\n        return None  #",
        ROUTES,
    ),
    Bug(
        DECIDED,
        "a route forward doesn't say what it skips",
        "        skipped = tuple(order[source + 1 : target])\n",
        "        skipped = ()\n",
        ROUTES,
    ),
    Bug(
        OF_CHECKS,
        "an outer cycle keeps the counters inside it",
        " if not _is_inside(key, target, source, provider)",
        "",
        ROUTES,
    ),
    Bug(
        OF_CHECKS,
        "a cycle resets every counter",
        "{**outside, route_key(source, provider, target): count}",
        "{route_key(source, provider, target): count}",
        ROUTES,
    ),
    Bug(
        DECIDED,
        "one cycle more than a person granted",
        "max(limit, cycle - 1 + here.at.granted)",
        "max(limit, cycle + here.at.granted)",
        ROUTES,
    ),
    Bug(
        OF_CHECKS,
        "the rounds of a nested pipeline share their cycles",
        "    return _without(state, lambda place: place.startswith(pipeline))\n",
        "    return state\n",
        ROUTES,
    ),
    Bug(
        OF_CHECKS,
        "a cycle in a branch resets the counters of the others",
        "    if provider is not None and branch != provider:\n",
        "    if False:\n",
        ROUTES,
    ),
    Bug(
        OF_CHECKS,
        "a visit that passes doesn't end a row of equal failures",
        "        return replace(state, failing={key: known for key, known in state.failing.items() if key != path})\n",
        "        return state\n",
        ROUTES,
    ),
    Bug(
        OF_CHECKS,
        "a check that was stopped on request counts as lost",
        "    if at.check.status is TaskStatus.ENDING:\n",
        "    if at.check is None:\n",
        ROUTES,
    ),
    Bug(
        "agentforge.engine.retry",
        "a timeout inside another exception is not transient",
        "    causes = _causes(error)\n",
        "    causes = [error]\n",
        RETRY,
    ),
    Bug(
        "agentforge.engine.decide.failure",
        "a failed stage has one try more than declared",
        "    if number > policy.stage or",
        "    if number > policy.stage + 1 or",
        (*RETRY, "tests/engine/test_decide_pipeline.py"),
    ),
    Bug(
        "agentforge.views.graph",
        "a route of a stage to itself is shown as the next one",
        "    if target <= source:\n",
        "    if target < source:\n",
        GRAPH,
    ),
    Bug(
        "agentforge.views.graph",
        "the limits of a pipeline outrank those of its stage",
        "    given = cycle_limits(pipeline, stage)\n",
        "    given = pipeline.limits or cycle_limits(pipeline, stage)\n",
        GRAPH,
    ),
)
