"""Paths of a run's files, as plain strings: the layout of agent-pipelines."""

from collections.abc import Iterable, Mapping
from posixpath import isabs, join
from typing import Protocol

from msgspec import Struct

from agentforge.model.plan import Mode

RUNS = ".claude/pipeline-runs"
LOCKS = ".claude/locks"
OUTBOX = ".agentforge-outbox"
"""Where agents write their results that refuse to write below `.claude`."""
PROVIDERS = ".agentforge/providers"
"""The folder of a project's descriptions of providers."""
PROJECT_SETTINGS = (".agentforge/config/settings.yaml", ".agent/config.yml")
"""The settings files of a project; the first is written if both are missing."""
TRUST_FILE = "agentforge/trusted-projects"
"""In the user's config folder: one project's folder per line."""
USER_SETTINGS = "agentforge/settings.yaml"
"""The user's settings, in the folder `$XDG_CONFIG_HOME`."""
TEMPLATES = (".agentforge/pipelines", ".agentforge/pipelines/custom")
"""Folders of a project with templates, and with pipelines in their other form."""
STAGE_FILES = ".agentforge/config/stages"
"""The folder with what a project says of its stages, for all pipelines of the controller."""
ESCALATIONS = ".agentforge/escalations"
"""The folder of the view of that name: the requests of the project's runs, and resolutions."""
PIPELINES = ".agentforge/pipeline"
"""The folder of the view `controller`: the states of the project's pipelines."""
ARTIFACTS = ".agentforge/artifacts"
"""The artifacts of the same view, by pipeline."""
SPECIFICATIONS = ".agentforge/specs"
CONTROL = (".agentforge", ".agent", ".claude/stages", ".claude/pipelines", LOCKS)
"""Folders of a project that decide what later runs execute."""


def config_folder(environment: Mapping[str, str]) -> str | None:
    """The user's folder of settings, or None if the environment doesn't tell it."""
    home = environment.get("HOME", "")
    folder = environment.get("XDG_CONFIG_HOME") or (join(home, ".config") if home else "")
    return folder if isabs(folder) else None


def runs_dir(project: str) -> str:
    return join(project, RUNS)


def locks_dir(project: str) -> str:
    return join(project, LOCKS)


def lock_file(project: str, session: str) -> str:
    return join(locks_dir(project), f"{session}.lock")


def stop_reason_file(project: str, session: str) -> str:
    return join(locks_dir(project), f"{session}.stopped")


def loop_completions(project: str) -> str:
    """Where single-stage runs record their completion."""
    return join(project, ".claude", "loop-completions.json")


def is_inside(path: str) -> bool:
    """Whether a path in a log stays inside the run directory."""
    return not isabs(path) and ".." not in path.split("/")


def iteration_dir(folder: str, number: int) -> str:
    """The directory of an iteration; `folder` comes from its `Place`."""
    return f"{folder}/iterations/{number:03d}"


# Names and places are those of agent-pipelines, whose users have scripts that read them. Agents can write in
# these folders, so that a path says where a file belongs, not that it is one: `system/files.py` opens them.


class _HasRoot(Protocol):
    @property
    def root(self) -> str: ...


class InFolder:
    """The path of a file with a fixed name in a layout's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, layout: _HasRoot, _: type) -> str:
        return f"{layout.root}/{self._name}"


class RunLayout(Struct, frozen=True):
    """The files of one run; `root` is the run directory."""

    root: str
    session: str

    artifact = InFolder("artifact.json")
    """The one that the run was started with."""

    @classmethod
    def of(cls, project: str, session: str) -> "RunLayout":
        return cls(join(runs_dir(project), session), session)

    def relative(self, path: str) -> str:
        """How the log refers to a file of the run, so that the run can be moved."""
        return path.removeprefix(f"{self.root}/")

    def absolute(self, path: str) -> str:
        """The file that the log refers to; the shell engine's logs have absolute paths."""
        return path if path.startswith("/") else f"{self.root}/{path}"

    def absolutes(self, paths: Iterable[str]) -> list[str]:
        start = f"{self.root}/"
        return [path if path.startswith("/") else start + path for path in paths]

    @property
    def escalations(self) -> str:
        """Of the project that the run belongs to."""
        return join(self.project, ESCALATIONS)

    @property
    def project(self) -> str:
        return self.root.rpartition(f"/{RUNS}/")[0]

    log = InFolder("events.jsonl")
    plan = InFolder("plan.json")
    state = InFolder("state.json")
    cassette = InFolder("cassette.jsonl")
    """The recorded work of the run's agents."""
    recording = InFolder("recording.json")
    """The state of the workspace when the cassette was last written."""
    replayed = InFolder("replayed.jsonl")
    """A replay's own copy of its cassette."""
    trees = InFolder("trees")
    """Git's objects of the recorded trees."""
    tests = InFolder("tests")
    """The tests that checks ran, in files named by their hashes."""
    control = InFolder("control")
    answers = InFolder("answers")

    @property
    def session_progress(self) -> str:
        return f"{self.root}/progress-{self.session}.md"

    def stage_dir(self, folder: str) -> str:
        """A stage's directory; `folder` comes from its `Place`."""
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
        return IterationLayout(f"{self.root}/{iteration_dir(folder, number)}")

    def task_attempt(self, folder: str, kind: str, name: str, number: int) -> "AttemptLayout":
        """Of a task of a stage that has no folder of its own, such as a check."""
        return AttemptLayout(f"{self.root}/{folder}/{kind}s/{name}-{number}")

    def hook_attempt(self, delivery: str, number: int) -> "AttemptLayout":
        """Of a try of a hook's script."""
        return AttemptLayout(f"{self.root}/hooks/{delivery}/attempt-{number}")


class IterationLayout(Struct, frozen=True):
    root: str

    context = InFolder("context.json")
    prompt = InFolder("prompt.md")
    output = InFolder("output.md")
    result = InFolder("result.json")
    status = InFolder("status.json")
    artifact = InFolder("artifact.json")
    input = InFolder("input.json")
    """The artifacts of earlier stages, merged."""
    briefing = InFolder("briefing.md")
    attempts = InFolder("attempts.jsonl")
    judge = InFolder("judge.json")
    error = InFolder("error.json")

    def attempt(self, number: int) -> "AttemptLayout":
        return AttemptLayout(f"{self.root}/attempt-{number}")

    def judge_attempt(self, number: int) -> "AttemptLayout":
        return AttemptLayout(f"{self.root}/judge-{number}")


class AttemptLayout(Struct, frozen=True):
    """The files that the supervisor of one attempt writes."""

    root: str

    claim = InFolder("claim")
    agent = InFolder("agent.json")
    git = InFolder("git.json")
    """What git obeyed in the project when a confined program was started, as the engine recorded it."""
    output = InFolder("output.log")
    errors = InFolder("errors.log")
    """The agent's stderr, if it is kept separately."""
    exit = InFolder("exit.json")
    artifact = InFolder("artifact.json")
    """One that wasn't accepted."""
