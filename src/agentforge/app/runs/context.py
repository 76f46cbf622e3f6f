"""What all operations on runs share: their dependencies, and reopening an existing run."""

import os
import socket
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from agentforge.app.runs.caller import Caller
from agentforge.app.runs.leases import Leases
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.runner import Runner
from agentforge.app.runs.trust import Trust
from agentforge.app.wiring import sources_of
from agentforge.model import facts as f
from agentforge.model.errors import LogCorrupt
from agentforge.model.names import session_argument
from agentforge.ports.event_log import Damage
from agentforge.ports.host import Clock, Processes
from agentforge.ports.sources import Sources
from agentforge.runtime.journal import Journal
from agentforge.runtime.state_folder import HeadKeeper


class RunContext(Struct, frozen=True):
    runs: Runs
    leases: Leases
    trust: Trust
    runner: Runner
    processes: Processes
    clock: Clock

    @property
    def sources(self) -> Sources:
        return sources_of(self.runs.project, self.runs.environ, self.clock)

    @property
    def caller(self) -> Caller:
        return Caller(self.runs.environ, self.processes)


def recovered(
    by: Literal["recovery", "person"],
    context: str | None = None,
    *,
    record: bool = False,
    approve: bool = False,
    secrets: tuple[str, ...] = (),
) -> f.SessionRecovered:
    return f.SessionRecovered(os.getpid(), socket.gethostname(), by, context, record, approve, secrets)


async def reopen(context: RunContext, session: str, *, accept_damage: bool, to_work: bool = True) -> Journal:
    """Open an existing run. Raises LogCorrupt for damage that isn't accepted. `to_work`: make ready what its
    plan needs."""
    journal = context.leases.open(session)
    with context.leases.released_on_error(journal):
        if to_work:
            await context.runner.make_ready(journal.plan, journal.state.settings)
        damage = [d for d in journal.writer.damage if d.line not in journal.state.accepted_damage]
        if not accept_damage:
            _refuse_damage(session, damage)
            keeper = HeadKeeper(context.runs.layout(session).root, context.runs.environ)
            # A log that was cut at the end of a line is not damaged: its chain holds. Only what was
            # remembered outside of the project tells that events are missing, such as the start of an agent
            # that would be started again.
            keeper.check_head(journal.state.run_id, context.runs.log_file(session))
        # What was repaired is recorded, as the log must explain itself, also why a line of it is in another
        # file.
        if journal.writer.repaired is not None:
            torn = journal.writer.repaired
            journal.record(f.LogRepaired(torn.bytes, torn.kept), journal.state.cursor)
        if damage:
            lines = tuple(d.line for d in damage)
            journal.record(f.DamageAccepted(lines), journal.state.cursor)
    return journal


def _refuse_damage(session: str, damage: Sequence[Damage]) -> None:
    for first in damage:
        see = f"see `agentforge log verify {session_argument(session)}`"
        raise LogCorrupt(
            f"the log of session {session!r} is damaged: line {first.line}: {first.reason}",
            hint=f"{see}; --accept-damage continues without those lines",
        )
