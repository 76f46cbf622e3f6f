"""Where a run's files lie, as plain strings: the layout that users of agent-pipelines know."""

from posixpath import join

from msgspec import Struct

from agentforge.model.plan import Mode, Node

RUNS = ".claude/pipeline-runs"
LOCKS = ".claude/locks"


def runs_dir(project: str) -> str:
    return join(project, RUNS)


def lock_file(project: str, session: str) -> str:
    return join(project, LOCKS, f"{session}.lock")


def node_dir_name(index: int, node: Node) -> str:
    return f"stage-{index:02d}-{node.id}"


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
    def control(self) -> str:
        return f"{self.root}/control"

    @property
    def answers(self) -> str:
        return f"{self.root}/answers"

    @property
    def session_progress(self) -> str:
        return f"{self.root}/progress-{self.session}.md"

    def stage_dir(self, index: int, node: Node, run: int = 1) -> str:
        """A node's first run lies flat, later ones in `run-002` and up beside it."""
        flat = f"{self.root}/{node_dir_name(index, node)}"
        return flat if run == 1 else f"{flat}/run-{run:03d}"

    def progress(self, mode: Mode, index: int, node: Node, run: int = 1) -> str:
        """A single-stage run keeps one progress file for the session, a pipeline one for each stage run."""
        return self.session_progress if mode == "loop" else f"{self.stage_dir(index, node, run)}/progress.md"

    def iteration(self, index: int, node: Node, run: int, number: int) -> "IterationLayout":
        return IterationLayout(f"{self.stage_dir(index, node, run)}/iterations/{number:03d}")


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
    def error(self) -> str:
        return f"{self.root}/error.json"

    def attempt(self, number: int) -> "AttemptLayout":
        return AttemptLayout(f"{self.root}/attempt-{number}")


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
    def exit(self) -> str:
        return f"{self.root}/exit.json"
