"""Bugs in artifacts, in what stages get of them, and in the items that stages work through."""

from tests.mutants.mutation import Mutation as Bug

ACCEPT = "agentforge.runtime.artifacts"
ORDER = ("tests/order/test_recorded_runs.py",)
OF_ITEMS = "agentforge.engine.items"
LISTS = ("tests/engine/test_items.py",)
DECIDED = "agentforge.engine.decide.items"
DECISIONS = ("tests/engine/test_decide_items.py",)
FAILURES = "agentforge.engine.decide.failure"
CORRECTIONS = ("tests/engine/test_decide_artifacts.py",)
GIVEN = "agentforge.views.artifacts"
INPUTS = ("tests/views/test_artifacts.py",)

BUGS = (
    Bug(
        ACCEPT,
        "a large artifact isn't synced before the event that names it",
        "ArtifactRules._kept",
        "files.replace(here.artifact, content, durable=is_large)",
        "files.replace(here.artifact, content)",
        ORDER,
    ),
    Bug(
        ACCEPT,
        "the name of a large artifact isn't durable",
        "ArtifactRules._kept",
        "sync_names(here.attempt(task.attempt), self._layout.root)",
        "pass",
        ORDER,
    ),
    Bug(
        OF_ITEMS,
        "an item that changed is not done again",
        "planned",
        "{one.id for one in listed if one.id in before and before[one.id].hash == one.hash}",
        "{one.id for one in listed if one.id in before}",
        LISTS,
    ),
    Bug(
        OF_ITEMS,
        "an item that failed before counts as finished",
        "planned",
        "before[id].status == 'done'",
        "before[id].status != 'pending'",
        LISTS,
    ),
    Bug(
        OF_ITEMS,
        "an item that is sent back stays finished",
        "planned",
        "same - named",
        "same",
        LISTS,
    ),
    Bug(
        OF_ITEMS,
        "a feedback about items adds a repair, too",
        "planned",
        "feedback is not None and (not named) and before",
        "feedback is not None and before",
        LISTS,
    ),
    Bug(
        OF_ITEMS,
        "items of which only the case differs are accepted",
        "_name_problems",
        "first.setdefault(one.id.casefold(), index) != index",
        "first.setdefault(one.id, index) != index",
        LISTS,
    ),
    Bug(
        OF_ITEMS,
        "a cycle is left out",
        "elements_of",
        "len(ordered) == len(elements)",
        "True",
        LISTS,
    ),
    Bug(
        DECIDED,
        "an item starts before those that it depends on",
        "_is_ready",
        "all((items[name].status == 'done' for name in item.after if name in items))",
        "True",
        DECISIONS,
    ),
    Bug(
        DECIDED,
        "an item that failed blocks nothing",
        "_is_ready",
        "items[name].status == 'done'",
        "items[name].status != 'pending'",
        DECISIONS,
    ),
    Bug(
        DECIDED,
        "an item has one iteration although its checks fail",
        "item_over",
        "at.item_tries < MAX_TRIES",
        "False",
        DECISIONS,
    ),
    Bug(
        DECIDED,
        "an iteration that asks ends its item",
        "item_over",
        "not at.item or at.last_decision is Decision.ASK",
        "not at.item",
        DECISIONS,
    ),
    Bug(
        DECIDED,
        "an item that its agent fails is done",
        "item_over",
        "claim is not None and claim.word == FAIL",
        "False",
        DECISIONS,
    ),
    Bug(
        DECIDED,
        "items are planned before each iteration",
        "plan_items",
        "not isinstance(here.node.termination, Items) or here.at.planned",
        "not isinstance(here.node.termination, Items)",
        DECISIONS,
    ),
    Bug(
        FAILURES,
        "a policy of one attempt prevents corrections",
        "attempts_allowed",
        "count + (failures.count(last) <= heal)",
        "min(policy.max_attempts, count + (failures.count(last) <= heal))",
        CORRECTIONS,
    ),
    Bug(
        FAILURES,
        "each attempt may correct the artifact",
        "attempts_allowed",
        "failures.count(last) <= heal",
        "bool(heal)",
        CORRECTIONS,
    ),
    Bug(
        GIVEN,
        "agents set keys of the engine",
        "artifact_input",
        "{**merged, **keys.values}",
        "{**keys.values, **merged}",
        INPUTS,
    ),
    Bug(
        GIVEN,
        "a stage gets artifacts of later ones",
        "earlier_stages",
        "return",
        "continue",
        INPUTS,
    ),
)
