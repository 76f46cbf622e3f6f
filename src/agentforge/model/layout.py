"""Where a run's files lie, as plain strings: the layout that users of agent-pipelines know."""

from posixpath import join

from msgspec import Struct

from agentforge.model.plan import Mode

RUNS = ".claude/pipeline-runs"
LOCKS = ".claude/locks"


def runs_dir(project: str) -> str:
    return join(project, RUNS)


def lock_file(project: str, session: str) -> str:
    return join(project, LOCKS, f"{session}.lock")


def loop_completions(project: str) -> str:
    """Where single-stage runs note that they ended."""
    return join(project, ".claude", "loop-completions.json")


class RunLayout(Struct, frozen=True):
    """The files of one run; `root` is the run's own directory."""

    root: str
    session: str

    @classmethod
    def of(cls, project: str, session: str) -> "RunLayout":
        return cls(join(runs_dir(project), session), session)

    @property
    def log(self) -> str:
        return f"{self.root}/events.jsonl"

    @property
    def plan(self) -> str:
        return f"{self.root}/plan.json"

    @property
    def state(self) -> str:
        return f"{self.root}/state.json"

    @property
    def cassette(self) -> str:
        """What a recorded run's agents did."""
        return f"{self.root}/cassette.jsonl"

    @property
    def recording(self) -> str:
        """How the workspace stood when the cassette was written to last."""
        return f"{self.root}/recording.json"

    @property
    def replayed(self) -> str:
        """The cassette that a replay plays: its own copy."""
        return f"{self.root}/replayed.jsonl"

    @property
    def control(self) -> str:
        return f"{self.root}/control"

    @property
    def answers(self) -> str:
        return f"{self.root}/answers"

    @property
    def session_progress(self) -> str:
        return f"{self.root}/progress-{self.session}.md"

    def stage_dir(self, folder: str) -> str:
        """A stage's directory; `folder` is what its spot in the plan says."""
        return f"{self.root}/{folder}"

    def progress(self, mode: Mode, folder: str, scope: str = "") -> str:
        """A single-stage run keeps one progress file for the session, a provider in a parallel block one
        for its branch, all other stages their own."""
        if mode == "loop":
            return self.session_progress
        return f"{self.root}/{scope or folder}/progress.md"

    def manifest(self, folder: str) -> str:
        return f"{self.root}/{folder}/manifest.json"

    def branch_state(self, scope: str) -> str:
        return f"{self.root}/{scope}/state.json"

    def iteration(self, folder: str, number: int) -> "IterationLayout":
        return IterationLayout(f"{self.root}/{folder}/iterations/{number:03d}")


class IterationLayout(Struct, frozen=True):
    root: str

    @property
    def context(self) -> str:
        return f"{self.root}/context.json"

    @property
    def prompt(self) -> str:
        return f"{self.root}/prompt.md"

    @property
    def output(self) -> str:
        return f"{self.root}/output.md"

    @property
    def result(self) -> str:
        return f"{self.root}/result.json"

    @property
    def status(self) -> str:
        return f"{self.root}/status.json"

    @property
    def attempts(self) -> str:
        return f"{self.root}/attempts.jsonl"

    @property
    def judge(self) -> str:
        return f"{self.root}/judge.json"

    @property
    def error(self) -> str:
        return f"{self.root}/error.json"

    def attempt(self, number: int) -> "AttemptLayout":
        return AttemptLayout(f"{self.root}/attempt-{number}")

    def judge_attempt(self, number: int) -> "AttemptLayout":
        return AttemptLayout(f"{self.root}/judge-{number}")


class AttemptLayout(Struct, frozen=True):
    """What the supervisor of one attempt reads and writes."""

    root: str

    @property
    def spec(self) -> str:
        return f"{self.root}/spec.json"

    @property
    def claim(self) -> str:
        return f"{self.root}/claim"

    @property
    def agent(self) -> str:
        return f"{self.root}/agent.json"

    @property
    def output(self) -> str:
        return f"{self.root}/output.log"

    @property
    def errors(self) -> str:
        """What the agent printed as errors, where that is kept apart."""
        return f"{self.root}/errors.log"

    @property
    def after(self) -> str:
        """The program to run once the agent is gone, if there is one."""
        return f"{self.root}/after.json"

    @property
    def exit(self) -> str:
        return f"{self.root}/exit.json"
