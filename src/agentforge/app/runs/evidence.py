"""The evidence of a run, compared with the repository as it is now."""

from collections.abc import Iterator
from functools import partial

from agentforge.app.runs.lookup import Runs
from agentforge.model.delivery import DeliveredWork
from agentforge.ports.host import is_tree_id
from agentforge.runtime.test_ids import read_tests
from agentforge.system.git import git_program
from agentforge.system.programs import run
from agentforge.views.evidence import Evidence, evidence_of
from agentforge.views.record import record_of

SECONDS = 30.0
MAX_OUTPUT = 4096
SHORT = 12
"""Characters of a commit that are shown."""


class RunEvidence:
    """Reads the log and the files of the run, and the repository. Changes nothing."""

    def __init__(self, runs: Runs, session: str) -> None:
        self.info = runs.info(session)
        self._runs = runs
        self.found: Evidence = evidence_of(
            record_of(runs.events(session)), partial(read_tests, runs.layout(session))
        )

    def differences(self) -> list[str]:
        """How the repository differs from it now."""
        return [*self._of_commit()]

    def _of_commit(self) -> Iterator[str]:
        work = self.found.delivered
        if work is None or not work.commit:
            return
        short = work.commit[:SHORT]
        # A log may have come with a repository: git would take another text for an option.
        if not is_tree_id(work.commit) or self._git("cat-file", "-e", f"{work.commit}^{{commit}}"):
            yield f"the repository has no commit {short}"
        elif self._git("merge-base", "--is-ancestor", work.commit, self._end_of(work)):
            yield f"commit {short} is not part of {work.branch or 'HEAD'}"

    def _end_of(self, work: DeliveredWork) -> str:
        """Where its branch ends now; HEAD without one."""
        branch = f"refs/heads/{work.branch}"
        return "HEAD" if not work.branch or self._git("rev-parse", "--verify", "-q", branch) else branch

    def _git(self, *arguments: str) -> int | None:
        """The exit status; None if it has none."""
        runs = self._runs
        program = git_program(
            runs.project, runs.environ, *arguments, timeout=SECONDS, max_output=MAX_OUTPUT, any_owner=True
        )
        return run(program).code
