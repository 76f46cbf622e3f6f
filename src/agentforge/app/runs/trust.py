"""Which runs an engine drives without asking: those that were started on this machine by this user, and those
that a person trusts. A run folder that came with a repository is neither."""

import logging

from agentforge.app.runs.lookup import Runs
from agentforge.model.errors import AgentForgeError, UntrustedRun
from agentforge.runtime.run_proof import RunOrigin, RunProof
from agentforge.views.execution import executions

log = logging.getLogger("agentforge.run")


# A log names programs, and an engine that continues the run starts them. So a repository that brings a run
# folder could run programs as the user who resumes it. The question is asked before anything that the log
# names is started, and the answer is kept where neither a repository nor a confined agent can write.
# `recover` never asks: it skips what isn't known.
class Trust:
    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._trusted: set[str] = set()
        """Run ids, and sessions of the shell engine, whose runs have none: what a person trusts in this
        process, and the runs that it started, even if no proof can be stored."""

    def started(self, session: str, run_id: str) -> None:
        """Record, durably, that the run was started here; called before its first event."""
        self._trusted.add(run_id)
        self._proof(session).store(run_id)

    def allow(self, session: str) -> None:
        """A person trusts the run: record its place, so that the question is asked once."""
        run_id = self._runs.run_id(session)
        if self._proof(session).origin(run_id, self._runs.log(session)).kind == "here":
            return
        self._trusted.add(run_id or session)
        # A run of the shell engine gets its id, and with it a proof, when it is imported.
        if run_id:
            self._proof(session).store(run_id)

    def is_own(self, session: str) -> bool:
        """Whether the run was started here; true for a name without a run."""
        try:
            run_id = self._runs.run_id(session)
        except AgentForgeError:
            return True
        if not run_id and not self._runs.is_shell_run(session):
            return True
        return self._origin(session, run_id).kind == "here"

    def is_known(self, session: str) -> bool:
        """Whether the run was started here, even if it was moved, archived or restored since."""
        kind = self._origin(session, self._runs.run_id(session)).kind
        return kind in ("here", "restored", "moved")

    def refuse_untrusted(self, session: str) -> None:
        """Raise UntrustedRun, with what the run would execute. A run that was moved here is recognised."""
        run_id = self._runs.run_id(session)
        origin = self._origin(session, run_id)
        match origin.kind:
            case "here":
                return
            case "restored":
                self._proof(session).store(run_id)
            case "moved":
                log.warning("Session %r was moved here from %s", session, origin.before)
                self._proof(session).move(run_id, origin.before)
            case _:
                raise self._untrusted(session, origin)

    def _origin(self, session: str, run_id: str) -> RunOrigin:
        if (run_id or session) in self._trusted:
            return RunOrigin("here")
        return self._proof(session).origin(run_id, self._runs.log(session))

    def _proof(self, session: str) -> RunProof:
        return RunProof(self._runs.layout(session).root, self._runs.environ)

    def _untrusted(self, session: str, origin: RunOrigin) -> UntrustedRun:
        why = {
            "copied": f"is a copy of the run in {origin.before}",
            "replaced": "was started here, but its log was replaced since",
        }.get(origin.kind, "was not started by you on this machine")
        # Not from the cache, which is a file of the run: people are shown what the log says.
        info = self._runs.info(session, cached=False)
        return UntrustedRun(
            f"session {session!r} {why}: it can run any program that its log names, with your permissions",
            hint="check what it would execute, then repeat the command with --trust",
            executes=executions(info.plan, info.state.settings),
        )
