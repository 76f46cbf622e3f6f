"""What a run may spend, has reserved and has spent: money in US dollars, and tokens."""

from collections.abc import Iterator
from typing import Literal, get_args

from msgspec import Struct

from agentforge.model.result import Usage

Unit = Literal["cost_usd", "tokens"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""Each is the name of a field of `Amount` and of a key of `limits`."""
CALLED: dict[Unit, str] = {"cost_usd": "cost", "tokens": "tokens"}
"""In texts for people."""
SPENDING_CAP = "spending_cap"
"""The reason of the request of a run that is at a cap."""
DAILY_CAP = "daily_usd "
"""Before the day: what a request at the cap of that day is about, and what is granted beyond it."""
DIGITS = 9
"""Of sums of money: 0.1 + 0.2 is to be 0.3, so that what fits exactly does fit."""
MAX_UNPRICED = 8
NOTHING = Usage(0, 0)
"""What an attempt used that called no model: without it, what it reserved would count as spent."""


def shown(unit: Unit, value: float) -> str:
    """`$0.30`, `1,200 tokens`; as many decimals as it has."""
    if unit == "tokens":
        return f"{value:,.0f} tokens"
    text = f"{value:,.6f}".rstrip("0")
    whole, _, part = text.partition(".")
    return f"${whole}.{part:0<2}"


class Amount(Struct, frozen=True, omit_defaults=True):
    """Money, tokens, or both. None: nothing is said about that unit."""

    cost_usd: float | None = None
    tokens: int | None = None

    def of(self, unit: Unit) -> float | None:
        return self.cost_usd if unit == "cost_usd" else self.tokens

    def or_else(self, other: "Amount | None") -> "Amount":
        """With those of another one in the units that this one doesn't have."""
        other = other or Amount()
        tokens = other.tokens if self.tokens is None else self.tokens
        return Amount(other.cost_usd if self.cost_usd is None else self.cost_usd, tokens)

    def with_unit(self, unit: Unit, value: float | None) -> "Amount":
        if unit == "cost_usd":
            return Amount(value, self.tokens)
        return Amount(self.cost_usd, None if value is None else int(value))

    @property
    def known(self) -> Iterator[tuple[Unit, float]]:
        for unit in UNITS:
            if (value := self.of(unit)) is not None:
                yield unit, value


def tightest_of(one: Amount, other: Amount) -> Amount:
    """The lower of both in each unit."""
    money = [amount.cost_usd for amount in (one, other) if amount.cost_usd is not None]
    tokens = [amount.tokens for amount in (one, other) if amount.tokens is not None]
    return Amount(min(money, default=None), min(tokens, default=None))


def plus(*amounts: float) -> float:
    return round(sum(amounts), DIGITS)


class DailyAnswer(Struct, frozen=True, omit_defaults=True):
    """What a user's runs may spend, have spent and have reserved in a day."""

    day: str
    """`2026-10-31`."""
    cap_usd: float
    """With what was granted for this day."""
    spent_usd: float
    """By all runs."""
    reserved_usd: float
    """By all runs, without what was asked for."""
    granted_usd: float = 0.0
    """What is reserved now, if anything fits."""


class Spending(Struct, frozen=True, omit_defaults=True):
    """Usage of all attempts and judges, as far as providers report it."""

    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    unpriced: tuple[str, ...] = ()
    """Models whose cost is unknown: they used tokens, or it is unknown how many; at most MAX_UNPRICED."""
    assumed_usd: float = 0.0
    """What was reserved for attempts whose cost is unknown: it counts as spent."""
    assumed_tokens: int = 0
    overruns: int = 0
    """How many attempts used more than they had reserved."""
    overrun_usd: float = 0.0
    """How much more, all together."""

    def counted(self, unit: Unit) -> float:
        """What counts against a cap."""
        if unit == "cost_usd":
            return plus(self.cost_usd, self.assumed_usd)
        return self.input_tokens + self.output_tokens + self.assumed_tokens

    def plus(self, usage: Usage | None) -> "Spending":
        return self if usage is None else self.settled(usage, None)

    def settled(self, usage: Usage | None, reserved: Amount | None) -> "Spending":
        """With what was used, or with what was reserved where that is unknown."""
        used, held = usage or Usage(), reserved or Amount()
        tokens = (used.input_tokens or 0) + (used.output_tokens or 0)
        is_counted = used.input_tokens is not None and used.output_tokens is not None
        is_unpriced = used.cost_usd is None and (tokens > 0 or not is_counted)
        over_usd = 0.0 if held.cost_usd is None else max(0.0, plus(used.cost_usd or 0.0, -held.cost_usd))
        is_over = over_usd > 0 or (held.tokens is not None and tokens > held.tokens)
        return Spending(
            plus(self.cost_usd, used.cost_usd or 0.0),
            self.input_tokens + (used.input_tokens or 0),
            self.output_tokens + (used.output_tokens or 0),
            self._with_unpriced(usage) if usage else self.unpriced,
            plus(self.assumed_usd, (held.cost_usd or 0.0) if is_unpriced else 0.0),
            self.assumed_tokens + (0 if is_counted else max(0, (held.tokens or 0) - tokens)),
            self.overruns + is_over,
            plus(self.overrun_usd, over_usd),
        )

    def _with_unpriced(self, usage: Usage) -> tuple[str, ...]:
        if usage.cost_usd is not None:
            return self.unpriced
        name, tokens = usage.model or "unnamed model", (usage.input_tokens, usage.output_tokens)
        # An agent that was ended before it reported its usage has used some if its session had begun.
        is_unknown = tokens == (None, None) and usage.agent_session is not None
        if not (any(tokens) or is_unknown) or name in self.unpriced:
            return self.unpriced
        return (*self.unpriced, name)[:MAX_UNPRICED]
