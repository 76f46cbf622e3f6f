"""Generated mutations that no test can catch: they change nothing that anybody can observe."""

ONE_CHOICE = "two entries for the same provider don't exist, so nothing after its position is compared"
SAME_PLACE = "what is compared or replaced there depends on the node, its visit and the branch only"
SHORTCUT = "a shortcut: without entries, the same follows"
NO_NODE = "no node has that path, so none follows it, as without a path"

SURVIVORS: dict[str, dict[str, str]] = {
    "engine.decide.block._after_all": {
        "kind = kinds.pop() if len(kinds) == 1 and kinds < TIMEOUTS else FailureKind.PARALLEL_BLOCK_FAILED": (
            "there is more than one kind of timeout, so one kind is never all of them"
        ),
    },
    "engine.decide.checks._end": {
        'outer = place.path.rpartition(".")[0] if place.branch is None else "XXXX"': NO_NODE,
        "to = next_node(here.plan, outer, here.state.rounds[:-1]) if (outer) or True else None": NO_NODE,
    },
    "engine.decide.checks._go": {
        "limit = max(limits.cycles or DEFAULT_CYCLES, known.limit if known else 1)": (
            "a limit of cycles is never below one"
        ),
    },
    "engine.decide.failure._fall_back": {
        "due_at, choice, first = min(limits, key=None)": ONE_CHOICE,
        "due_at, choice, first = min(limits, )": ONE_CHOICE,
        "due_at, choice, first = min(limits, key=lambda limit: limit[:3])": ONE_CHOICE,
    },
    "engine.decide.failure._end_of_limit": {
        "shortest = min(MIN_LIMIT_DELAY * 2.0 ** min(met, 33), longest)": (
            "both are more than a century, which is beyond every delay that a stage can have"
        ),
    },
    "engine.decide.hooks.end_reason": {
        'progress = state.hook_progress(hook_host("stage_end", at)) if (state.hooks) or True else None': (
            SHORTCUT
        ),
    },
    "engine.decide.hooks._call": {
        'return here.record(started, f.EffectIntended(delivery, "webhook", hook.url or "XXXX", number))': (
            "every webhook has an address: a definition without one is refused"
        ),
    },
    "engine.decide.people.requests_of": {"at = here.place.cursor(1)": SAME_PLACE},
    "engine.decide.requests._consequences": {
        'answer, said = request.answer or "XXXX", request.text.strip()': (
            "called for an answered request only: one without an answer is open"
        ),
    },
    "engine.decide.run._overdue": {"facts = defaults(state) if (state.requests) or True else ()": SHORTCUT},
    "engine.decide.stage._over": {
        "reason = end_reason(here.state, here.place.cursor(0)) if (here.state.hooks) or True else None": (
            SHORTCUT
        ),
        "reason = end_reason(here.state, here.place.cursor(1)) if here.state.hooks else None": SAME_PLACE,
    },
    "engine.decide.task_kinds.in_flight_at": {
        "hooks = calls_in_flight(here.plan, here.state, here.place.cursor(1))": SAME_PLACE,
    },
}
"""The reasons, by function as `tests/mutants/generated.py` names it, and by the line it writes."""
