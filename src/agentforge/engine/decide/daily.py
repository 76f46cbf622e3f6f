"""Decides whether an attempt or a judge fits into what the user's runs may spend in a day. What other
runs have spent is in a ledger, which a task asks: its answer is a fact."""

from datetime import timedelta

from agentforge.engine.decide.caps import Spender, breach, needs_text, unbounded
from agentforge.engine.decide.requests import Ruling
from agentforge.model.spending import DAILY_CAP, SPENDING_CAP, Amount, plus, shown
from agentforge.model.task import LedgerTask, LedgerUse, Wait

GOOD_FOR = timedelta(seconds=30)
"""How long an answer counts. Meanwhile other runs may end, and so may the day."""


def within_day(
    start: Spender, reserved: Amount | Ruling | None, number: int, use: LedgerUse
) -> Amount | Ruling | None:
    """What it may spend within the caps of the run and that of the day; or that the ledger is asked, that it
    waits, or a question."""
    here, cap = start.here, start.here.plan.pipeline.daily_usd
    if cap is None or isinstance(reserved, Ruling):
        return reserved
    amount, needed = reserved or Amount(), start.needs("cost_usd")
    if amount.cost_usd is None and "cost_usd" not in start.by.bounds:
        return unbounded(start, DAILY_CAP, "cost_usd")
    most = max(needed, plus(cap / here.sharing)) if amount.cost_usd is None else amount.cost_usd
    is_fixed = here.node.max_iteration_cost_usd is not None
    granted = {
        subject.removeprefix(DAILY_CAP): usd
        for subject, usd in here.state.granted.items()
        if subject.startswith(DAILY_CAP)
    }
    task = LedgerTask(
        here.place,
        here.node.id,
        here.cursor.iteration,
        number,
        use=use,
        least_usd=most if is_fixed else needed,
        most_usd=most,
        cap_usd=cap,
        granted=granted,
        run_usd=here.state.spending.counted("cost_usd"),
    )
    return _ruling(start, task, amount)


def _ruling(start: Spender, task: LedgerTask, amount: Amount) -> Amount | Ruling:
    here, reply = start.here, start.here.at.ledger
    asked = (one for one in here.state.requests if one.reason == SPENDING_CAP)
    if any(one.subject.startswith(DAILY_CAP) for one in asked):
        return Ruling()
    if (
        reply is None
        or (reply.key, reply.run_usd) != (task.id, task.run_usd)
        or reply.answer.cap_usd != task.cap_on(reply.answer.day)
        or here.state.updated_at - reply.at >= GOOD_FOR
    ):
        return Ruling(work=(task,))
    answer = reply.answer
    if answer.granted_usd and answer.granted_usd >= task.least_usd:
        return amount.with_unit("cost_usd", min(task.most_usd, answer.granted_usd))
    left = plus(answer.cap_usd, -answer.spent_usd)
    if left > 0 and task.least_usd <= left:
        return Ruling(work=(Wait("daily_cap", reply.at + GOOD_FOR, here.cursor),))
    spent, limit = shown("cost_usd", answer.spent_usd), shown("cost_usd", answer.cap_usd)
    held = f", {shown('cost_usd', answer.reserved_usd)} reserved" if answer.reserved_usd else ""
    text = f"{answer.day} is at its cap: {spent} of {limit} spent by all runs{held}; {start.name}"
    text += f" {needs_text('cost_usd', task.least_usd)}"
    return breach(text, f"{DAILY_CAP}{answer.day}", "cost_usd")
