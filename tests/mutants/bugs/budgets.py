"""Bugs that would let an attempt or a judge spend more than its budget."""

from tests.mutants.mutation import Mutation as Bug

AGENT = "agentforge.runtime.tasks.agent"
BOUNDS = "agentforge.app.providers.bounds"
COMMAND_LINE = "agentforge.adapters.cli_agents.command_line"
JUDGE = "agentforge.runtime.tasks.judge"
OUTCOME = "agentforge.adapters.cli_agents.outcome"
READINESS = "agentforge.app.providers.readiness"
RUN = ("tests/sdk/test_provider_budgets.py",)
CLIS = ("tests/adapters/test_cli_providers.py", "tests/adapters/test_agent_streams.py")

BUGS = (
    Bug(
        AGENT,
        "agents aren't given their budget",
        "AgentPerformer._request",
        "task.budget",
        "None",
        RUN,
    ),
    Bug(
        JUDGE,
        "judges aren't given their budget",
        "JudgePerformer._request",
        "task.budget",
        "None",
        RUN,
    ),
    Bug(
        JUDGE,
        "a judge that used up its budget has failed",
        "JudgePerformer._finished",
        "is_at_cap and task.budget is not None",
        "False",
        RUN,
    ),
    Bug(
        COMMAND_LINE,
        "claude isn't told its budget",
        "build_arguments",
        "_filled(cli.budget_arguments, values)",
        "()",
        CLIS,
    ),
    Bug(
        COMMAND_LINE,
        "the higher one of two budgets counts",
        "_budget",
        "min(own, given.cost_usd)",
        "max(own, given.cost_usd)",
        CLIS,
    ),
    Bug(
        OUTCOME,
        "a budget of the agent's own settings is a cap of the run",
        "_at_cap",
        "own is None or budget <= own",
        "True",
        CLIS,
    ),
    Bug(
        BOUNDS,
        "a model without a price is bounded",
        "_bounds",
        "not provider.has_price(choice.model, choice.config)",
        "False",
        RUN,
    ),
    Bug(
        READINESS,
        "a replay below a cap has no bound",
        "examine_replay",
        "spends_nothing(plan)",
        "plan",
        ("tests/surface/test_replay.py",),
    ),
)
