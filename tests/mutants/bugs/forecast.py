"""Bugs in the worst case of a run, and in what earlier runs say about it."""

from tests.mutants.mutation import Mutation as Bug

WORST = "agentforge.engine.worst_case"
NEAR = ("tests/engine/test_worst_case.py",)
EARLIER = "agentforge.views.earlier_runs"
LINES = ("tests/views/test_forecast_lines.py",)

BUGS = (
    Bug(
        WORST,
        "an inner route isn't followed again after an outer one",
        "_Walk._visits",
        "1 + sum(followed[source:])",
        "1",
        NEAR,
    ),
    Bug(
        WORST,
        "routes that overlap count as if one contained the other",
        "_Walk._visits",
        "sum(followed[source:])",
        "sum(followed)",
        NEAR,
    ),
    Bug(
        WORST,
        "rejections are free",
        "_Walk._rounds",
        "approve.rounds if approve and approve.feedback else 1",
        "1",
        NEAR,
    ),
    Bug(
        WORST,
        "iterations in which agents ask are free",
        "_Walk._iterations",
        "most + MAX_QUESTION_ROUNDS",
        "most",
        NEAR,
    ),
    Bug(
        WORST,
        "retries of a stage are free",
        "_Walk._stage",
        "visits * stage_tries if iterations else 0",
        "0",
        NEAR,
    ),
    Bug(
        WORST,
        "the last provider of a chain has no turn after the others",
        "_tries",
        "len(node.chain) + 1",
        "len(node.chain)",
        NEAR,
    ),
    Bug(
        WORST,
        "judges are free",
        "_Walk._spends",
        "most.attempts + most.judgments",
        "most.attempts",
        NEAR,
    ),
    Bug(
        WORST,
        "a cap on a part holds for the whole run",
        "_Walk._spent",
        "place.has(part[0])",
        "True",
        NEAR,
    ),
    Bug(
        WORST,
        "a stage that some run can't reach in full counts as exact",
        "_Walk._rounds",
        "self._is_bound_only(*_COUNTS)",
        "pass",
        NEAR,
    ),
    Bug(
        WORST,
        "hooks take no time after the runtime limit",
        "_Walk._hooks",
        "self.unstopped = _sum([self.unstopped, seconds])",
        "pass",
        NEAR,
    ),
    Bug(
        EARLIER,
        "a run in mock mode says what agents cost",
        "is_earlier_run",
        "not settings.mock and settings.replay is None",
        "settings.replay is None",
        LINES,
    ),
    Bug(
        EARLIER,
        "an unknown cost counts as nothing",
        "earlier_runs",
        "not (spending.unpriced or spending.assumed_usd)",
        "True",
        LINES,
    ),
)
