"""Bugs that would let an attempt or a judge spend more than its budget."""

from tests.mutants.mutation import Mutation as Bug

AGENT = "agentforge.runtime.tasks.agent"
API = "agentforge.adapters.providers.api"
BOUNDS = "agentforge.app.providers.bounds"
BUDGET = "agentforge.tool_loop.budget"
COMMAND_LINE = "agentforge.adapters.cli_agents.command_line"
CONVERSATION = "agentforge.tool_loop.conversation"
JUDGE = "agentforge.runtime.tasks.judge"
LOOP = "agentforge.tool_loop.loop"
OUTCOME = "agentforge.adapters.cli_agents.outcome"
PRICES = "agentforge.tool_loop.prices"
READINESS = "agentforge.app.providers.readiness"
SPENDING = "agentforge.model.spending"
RUN = ("tests/sdk/test_provider_budgets.py",)
LOOPS = ("tests/adapters/test_tool_loop_budget.py",)
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
        "_missing_price(choice, provider) is not None",
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
    Bug(
        API,
        "the tool loop isn't given its budget",
        "ApiProvider.task",
        "request.budget",
        "None",
        ("tests/adapters/test_api_provider.py",),
    ),
    Bug(
        LOOP,
        "the tool loop doesn't ask whether a request fits its budget",
        "_Loop._ask",
        "self._budget.allow(conversation.messages, self._besides)",
        "self._task.max_tokens",
        LOOPS,
    ),
    Bug(
        LOOP,
        "the budget of a request leaves out tools and instructions",
        "_Loop._agent",
        "len(msgspec.json.encode([system, shown, endings]))",
        "0",
        LOOPS,
    ),
    Bug(
        BUDGET,
        "an answer may be longer than the budget leaves",
        "Budget._worst",
        "size + answer",
        "size",
        LOOPS,
    ),
    Bug(
        BUDGET,
        "what a request of the budget sends isn't counted",
        "Budget._worst",
        "cost_of(self._task.endpoint, self._task.price, size, answer)",
        "cost_of(self._task.endpoint, self._task.price, 0, answer)",
        LOOPS,
    ),
    Bug(
        BUDGET,
        "a request that broke off isn't counted in its budget",
        "Budget.failed",
        "self.lost()",
        "pass",
        LOOPS,
    ),
    Bug(
        BUDGET,
        "an answer without usage isn't counted in its budget",
        "Budget.answered",
        "self.lost()",
        "self._sent = None",
        LOOPS,
    ),
    Bug(
        BUDGET,
        "what is new in a conversation isn't counted in its budget",
        "_tokens",
        "counted + _bytes(messages[place + 1 :])",
        "counted",
        LOOPS,
    ),
    Bug(
        PRICES,
        "a project can make a model cheaper than it is",
        "priced",
        "task if listed is None else replace(task, price=None)",
        "task",
        LOOPS,
    ),
    Bug(
        CONVERSATION,
        "a budget of which nothing was used counts as used up",
        "_usage",
        "used.input_tokens or used.output_tokens or task.budget",
        "used.input_tokens or used.output_tokens",
        LOOPS,
    ),
    Bug(
        SPENDING,
        "what used no tokens uses up its budget",
        "Spending.settled",
        "used.cost_usd is None and (tokens > 0 or not is_counted)",
        "used.cost_usd is None",
        ("tests/model/test_spending.py",),
    ),
)
