"""Who calls: a person, or a process that an agent started. The one rule about what agents must not decide."""

from collections.abc import Mapping

from msgspec import Struct

from agentforge.app.wiring import local_processes
from agentforge.model.errors import NotPermitted
from agentforge.model.failure import FailureKind
from agentforge.model.request import Request
from agentforge.model.state import MACHINE_SHUTDOWN, RunState
from agentforge.model.status import RunStatus
from agentforge.model.task import MARK
from agentforge.ports.host import Processes

DECISIONS = {
    "accept_damage": "continue a run without the damaged lines of its log",
    "allow_commands": "allow the commands of a cassette",
    "approve": "approve results in advance",
    "cancel": "cancel a run",
    "change_settings": "change settings",
    "force": "stop, take over or replace a run",
    "max_cost": "set a cap on the cost of a run",
    "max_tokens": "set a cap on the tokens of a run",
    "overwrite": "overwrite uncommitted changes",
    "pause": "pause a run",
    "recompile": "change the plan of a run",
    "remove": "delete a run",
    "restart_stage": "restart a stage",
    "skip": "skip a stage",
    "skip_checks": "skip a check",
    "steer": "steer a run",
    "trust": "trust a run that was not started here",
    "trust_project": "trust the providers of a project",
    "unsupervised": "start a run without its approvals",
}
"""What only a person may decide, by the name of the argument or the method that decides it.
Answering a request is not among them: each request says who may answer it."""

_STOPPED_BY_MACHINE = (MACHINE_SHUTDOWN, FailureKind.SIGNAL_INTERRUPT)


# An agent has the user's permissions and can run our commands. It must not approve its own work, or skip the
# check that it fails: then the checks and requests of a pipeline would mean nothing. This is a rule for
# agents that follow the easiest way, not a wall: what an agent can't reach at all is decided by its sandbox.
class Caller(Struct, frozen=True):
    environ: Mapping[str, str]
    processes: Processes

    @property
    def is_agent(self) -> bool:
        """Whether this process, or one that started it, is an agent of a run."""
        return bool(self._marks())

    def refuse_agent(self, **decided: object) -> None:
        """Raise NotPermitted if an agent makes one of these DECISIONS. An argument that is empty or False
        decides nothing."""
        for words in [DECISIONS[name] for name, value in decided.items() if value]:
            if self.is_agent:
                raise NotPermitted(
                    f"only a person may {words}, and this process was started by an agent",
                    hint="ask a person to run the command",
                )

    def refuse_decisions(self, how: Mapping[str, object]) -> None:
        """The same for the arguments of a call, of which only some decide for a person."""
        self.refuse_agent(**{name: how[name] for name in DECISIONS if name in how})

    def refuse_own_agent(self, state: RunState, verb: str) -> None:
        """Not even what other agents may do to the run."""
        if any(mark.startswith(f"{state.run_id}/") for mark in self._marks()):
            raise NotPermitted(
                f"an agent of session {state.session!r} must not {verb} it",
                hint="run the command outside of the agent",
            )

    def refuse_answer(self, session: str, request: Request) -> None:
        """For an agent that answers the request, or continues its run without an answer."""
        if "agent" not in request.answerers:
            raise NotPermitted(
                f"request {request.id!r} of session {session!r} must be answered by a person",
                hint="ask a person, or let agents answer with `by: agent` in the stage's `approve`",
            )

    def refuse_resume(self, state: RunState) -> None:
        """An agent continues neither a run that waits for a person nor one that a person paused."""
        self.refuse_own_agent(state, "resume")
        if not self.is_agent:
            return
        for request in state.open_requests:
            self.refuse_answer(state.session, request)
        is_paused = state.status is RunStatus.PAUSED and not state.open_requests
        if is_paused and state.pause_reason not in _STOPPED_BY_MACHINE:
            raise NotPermitted(
                f"session {state.session!r} was paused on request: only a person may resume it",
                hint="ask a person to run the command",
            )

    def _marks(self) -> frozenset[str]:
        """The marks of agents in the environment of this process and of those that started it."""
        # An agent may start us with a clean environment. That of the agent itself still has the mark: the
        # system keeps the one that a process was started with.
        marks = {self.environ.get(MARK, ""), *self.processes.inherited(MARK)}
        return frozenset(marks - {""})


def refuse_agent(environ: Mapping[str, str], **decided: object) -> None:
    """For surfaces, before they do anything else: raise NotPermitted if this process was started by an agent
    and decides for a person."""
    Caller(environ, local_processes()).refuse_agent(**decided)
