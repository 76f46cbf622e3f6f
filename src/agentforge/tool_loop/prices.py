"""What a model costs, in US dollars: by the price list of pydantic-ai, or else as the settings say."""

from decimal import Decimal

from genai_prices import Usage, calc_price
from msgspec.structs import replace
from pydantic_ai.usage import RunUsage

from agentforge.tool_loop.task import Endpoint, ModelTask, Price


def cost_of(endpoint: Endpoint, price: Price | None, input_tokens: int, output_tokens: int) -> Decimal | None:
    """The cost of a request; None if it is unknown, as that of a model on a server of one's own."""
    if price is not None:
        return Decimal(str(price.of(input_tokens, output_tokens)))
    if not endpoint.priced:
        return None
    used = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    try:
        return calc_price(used, endpoint.model, provider_id=endpoint.api).total_price
    except (LookupError, ValueError):
        return None


def priced(task: ModelTask) -> ModelTask:
    """The task with the price of the settings only if the list has none: a project can't make a model
    cheaper than it is."""
    listed = task.price and cost_of(task.endpoint, None, 1, 1)
    return task if listed is None else replace(task, price=None)


def spent_usd(task: ModelTask, used: RunUsage) -> float | None:
    """The cost of the task's requests so far; None if it is unknown."""
    if task.price is not None:
        return task.price.of(used.input_tokens, used.output_tokens, used.cache_read_tokens)
    if not task.endpoint.priced or used.cost is None:
        return None
    return float(used.cost)
