"""What a confined agent may touch: the workspace, but neither the record of any run nor the files that decide
what is executed later."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeGuard

from agentforge.model.errors import ProviderUnusable
from agentforge.model.facts import GitLeft
from agentforge.model.layout import CONTROL, OUTBOX, AttemptLayout, RunLayout, is_inside, runs_dir
from agentforge.model.plan import DIR_NAMES, NestedNode, Plan, SandboxChoice
from agentforge.ports.provider import CleansUp, Command, Provider
from agentforge.ports.sandbox import Confinement, Sandbox
from agentforge.runtime.git_guard import GitGuard, is_below, only
from agentforge.system import files
from agentforge.system.links import first_link
from agentforge.system.mount_points import mount_points
from agentforge.system.repository import GitFiles, git_files, redirections

log = logging.getLogger("agentforge.run")
NAME = ".placeholders"
_MAX_BYTES = 1 << 16
_PARTS = tuple(f"{kind}-" for kind in DIR_NAMES.values())
"""How the names of the folders begin that agents may read in their run."""


class Placeholders:
    """Empty folders that a sandbox needs where a path is missing: only an existing path can be protected from
    an agent. They are removed when no agent is confined any more, after a crash by the next engine."""

    # A mount ends when its folder is removed, in every sandbox. So engines that confine agents share a lock
    # on the record of these folders, and folders that are mounted anywhere, for an agent that outlived its
    # engine, stay.

    def __init__(self, project: str) -> None:
        self._project = project
        self._record = os.path.join(runs_dir(project), NAME)
        self._lock: int | None = None

    def hold(self) -> None:
        """Keep other engines from removing placeholders, until `tidy`."""
        if self._lock is None:
            files.make_dir(os.path.dirname(self._record))
            self._lock = files.lock_shared(self._record)

    def make(self, folder: str) -> None:
        """Create a folder of the project and its missing parents, noting them first."""
        missing = [folder]
        while not os.path.lexists(parent := os.path.dirname(missing[-1])):
            missing.append(parent)
        names = (os.path.relpath(path, self._project) for path in missing)
        files.append(self._record, "".join(f"{name}\n" for name in names).encode())
        files.make_dir(folder)

    def tidy(self) -> None:
        """Remove those that are empty, unless another engine or an agent needs them."""
        if sys.platform != "linux" or (self._lock is None and not files.is_file(self._record)):
            return  # Elsewhere, nothing tells whether a container uses them.
        self.hold()
        assert self._lock is not None
        descriptor, self._lock = self._lock, None
        try:
            if files.lock_alone(descriptor):
                files.overwrite(descriptor, self._remove())
        finally:
            os.close(descriptor)

    def _remove(self) -> bytes:
        """Returns the record of those that are still in use."""
        noted = (files.read_usable(self._record, _MAX_BYTES) or b"").decode("utf-8", "replace")
        names = [name for name in dict.fromkeys(noted.splitlines()) if name and is_inside(name)]
        mounted = mount_points() if names else frozenset()
        used = []
        for name in names:
            path = os.path.join(self._project, name)
            if path in mounted:
                used.append(name)
            else:
                files.remove_empty_dir(path)
        return "".join(f"{name}\n" for name in used).encode()


class Confiner:
    def __init__(
        self,
        sandboxes: Mapping[str, Sandbox],
        project: str,
        layout: RunLayout,
        plan: Plan,
        placeholders: Placeholders | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ`: for git, which tells what its settings name."""
        self._sandboxes = sandboxes
        self._project = project
        self._run = layout.root
        self._cassette = layout.replayed
        self._runs = os.path.dirname(layout.root)
        self._placeholders = placeholders or Placeholders(project)
        self._git = GitGuard(project, environ or {})
        self._definition = sorted(set(_definition_files(plan, project)))

    def confine(
        self,
        command: Command,
        choice: SandboxChoice | None,
        place: AttemptLayout,
        writable: tuple[str, ...],
        *,
        mark: str,
        scope: str = "",
    ) -> Command:
        """Wrap the program in its sandbox. `writable`: what it may write of its run; `mark` identifies the
        attempt; `scope`: the directory of its branch, relative to the run directory."""
        if not is_confined(choice):
            return command
        # Only existing paths can be protected.
        files.make_dir(place.root)
        if scope:
            files.make_dir(f"{self._run}/{scope}")
        self._placeholders.hold()
        for path in redirections(self._project):
            log.warning("%s redirects git to another folder: renamed to %s.disabled", path, path)
            files.move(path, f"{path}.disabled")
        # Missing folders of PATH inside the project are created: otherwise an agent could create them, and
        # put programs there for others to find.
        for entry in command.env.get("PATH", "").split(os.pathsep):
            folder = os.path.normpath(entry)
            if folder.startswith(f"{self._project}/") and not os.path.lexists(folder):
                self._placeholders.make(folder)
        branches = [os.path.dirname(f"{self._run}/{scope}")] if scope else []
        hidden = [self._runs, os.path.join(self._project, OUTBOX), *branches]
        within = Confinement(
            self._project,
            hidden=tuple(hidden),
            protected=(*self._readable(scope), place.root, *self._guarded(choice, place)),
            writable=writable,
        )
        return self._sandboxes[choice.type].wrap(command, choice, within, mark)

    def cleanup(self, choice: SandboxChoice | None, provider: Provider | None, mark: str) -> tuple[str, ...]:
        """The program that ends an agent which works outside the process tree; empty: not needed. It is
        derived from the plan and the mark: nothing is executed that was read from a run's folder."""
        try:
            if is_confined(choice):
                return self._sandboxes[choice.type].cleanup(mark)
            return provider.cleanup(mark) if isinstance(provider, CleansUp) else ()
        except ProviderUnusable as error:
            log.warning("can't clean up after the agent: %s", error.message)
            return ()

    async def settle(
        self, choice: SandboxChoice | None, place: AttemptLayout, report: Callable[[GitLeft], None] | None
    ) -> None:
        """After an attempt: record what its program left for git, and rename what could start programs."""
        if not is_confined(choice) or report is None:
            return
        found = await asyncio.to_thread(self._git.found, place, self._named(choice))
        if found.items or not found.is_complete:
            self._git.settle(found, report)

    def _readable(self, scope: str) -> Iterator[str]:
        """What an agent may read of the runs: the folders of its own run, but only its own branch, and the
        cassette that it plays."""
        yield os.path.join(self._runs, ".gitignore")
        yield from (f"{self._run}/{name}" for name in files.listing(self._run) if name.startswith(_PARTS))
        if os.path.lexists(self._cassette):
            yield self._cassette
        if scope:
            yield f"{self._run}/{scope}"

    def _guarded(self, choice: SandboxChoice, place: AttemptLayout) -> Iterator[str]:
        """Files that decide what is executed later, unless the stage names them in `writable`. Missing ones
        are created, since only existing paths can be protected."""
        named = self._named(choice)
        further = [name for name in named if name != self._project]
        control = [os.path.join(self._project, name) for name in CONTROL]
        for path in (*control, *self._definition):
            if not is_below(path, further):
                yield self._existing(path, is_folder=path in control)
        repositories = self._repositories(named) + self._git.protect(place, further)
        resolved = dict(choice.resolved)
        hidden = [self._runs, *(self._absolute(resolved.get(path, path)) for path in choice.hidden)]
        for path in dict.fromkeys(repositories.all):
            if path not in named and is_below(path, (self._project, *named)) and not is_below(path, hidden):
                yield self._existing(path, is_folder=path in repositories.folders)

    def _named(self, choice: SandboxChoice) -> list[str]:
        return [self._absolute(path) for path in choice.writable]

    def _absolute(self, path: str) -> str:
        return os.path.normpath(os.path.join(self._project, path))

    def _repositories(self, named: Iterable[str]) -> GitFiles:
        """Those of the repository, as far as they can be written at all."""
        inside = (self._project, *named)
        found = git_files(self._project)
        for folder in named:
            if os.path.lexists(os.path.join(folder, ".git")):
                found += git_files(folder)
        return only(found, lambda path: is_below(path, inside))

    def _existing(self, path: str, *, is_folder: bool) -> str:
        if link := first_link(path, self._project):
            raise ProviderUnusable(
                f"a sandbox can't protect {link}, because it is a link, which an agent could replace",
                hint=f"replace the link with its target, or add {os.path.relpath(path, self._project)} to "
                "`writable` of the sandbox if agents may change it",
            )
        if not os.path.lexists(path):
            if is_folder:
                self._placeholders.make(path)
            else:
                files.create(path)
        return path


def is_confined(choice: SandboxChoice | None) -> TypeGuard[SandboxChoice]:
    return choice is not None and choice.type != "none"


def _definition_files(plan: Plan, project: str) -> Iterator[str]:
    """The files of the project that the plan was compiled from."""
    stages = [stage for step in plan.steps for stage in step.stages]
    prompts = (stage.prompt_path for stage in stages)
    schemas = (choice.schema_path for stage in stages for choice in stage.chain)
    for name in (plan.source.path, *prompts, *schemas):
        path = os.path.normpath(os.path.join(project, name or ""))
        if is_below(path, [project]) and files.is_file(path) and not first_link(path, project):
            yield path
    for node in plan.nodes:
        if isinstance(node, NestedNode):
            yield from _definition_files(node.plan, project)
