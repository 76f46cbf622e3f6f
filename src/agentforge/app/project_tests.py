"""The tests of a project, for programs that run a stage themselves: their files, and what the project's own
command says about them."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from shlex import quote

from msgspec import Struct

from agentforge.app.runs.lookup import existing_project
from agentforge.app.wiring import sources_of
from agentforge.definition.project_commands import find_language, first_tests, parser_of, reporting
from agentforge.engine.checks.findings import read_scope
from agentforge.engine.checks.outcome import read_check
from agentforge.engine.checks.red import judged_red
from agentforge.model.check import OWN_REPORT, CheckCounts, CheckEnd, CheckExpectation, CheckStatus, RanTest
from agentforge.model.errors import InvalidRequest
from agentforge.model.names import protected_step
from agentforge.system import files
from agentforge.system.confined import ConfinedFolder
from agentforge.system.programs import SHELL, NoExit, Program
from agentforge.system.programs import run as run_program

SECONDS = 300.0
MAX_OUTPUT = 1 << 20
MAX_FILE = 1 << 20
MAX_REPORT = 16 << 20


class SuiteRun(Struct, frozen=True):
    """What a run of tests says."""

    status: CheckStatus
    """Whether it is as it was expected to be."""
    reason: str
    """Why it isn't."""
    exit_code: int | None
    counts: CheckCounts
    tests: tuple[RanTest, ...] = ()
    """Empty without a report."""
    output: str = ""


class ProjectTests:
    """Writes and reads nothing outside of the project, and follows no link out of it. Commands run as the
    user, without a sandbox."""

    def __init__(
        self, project: str | os.PathLike[str], environ: Mapping[str, str] | None = None, command: str = ""
    ) -> None:
        """`command`: runs the tests; by default that of the project."""
        self.project = os.path.realpath(existing_project(project))
        self._environ = dict(os.environ if environ is None else environ)
        self._sources = sources_of(self.project, self._environ)
        language = find_language(self._sources)
        self.command = command or language.test or first_tests(self._sources)
        self.lint_command = language.lint

    def run(
        self, paths: Sequence[str] = (), *, expect: CheckExpectation = "pass", timeout: float = SECONDS
    ) -> SuiteRun:
        """Run all tests, or those of some files. A command that takes no files runs all."""
        if not self.command:
            return SuiteRun("error", "no command for its tests is known", None, CheckCounts())
        reported = reporting(self.command, self._sources)
        named = " ".join(map(quote, paths)) if reported else ""
        return self._run(f"{reported or self.command} {named}".strip(), expect, timeout)

    def lint(self, timeout: float = SECONDS) -> SuiteRun | None:
        """None if the project has no linter."""
        return self._run(self.lint_command, "pass", timeout) if self.lint_command else None

    def _run(self, command: str, expect: CheckExpectation, timeout: float) -> SuiteRun:
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "junit.xml")
            environ = {**self._environ, OWN_REPORT: report, "PYTHONDONTWRITEBYTECODE": "1"}
            program = Program(
                (SHELL, "-c", command),
                timeout,
                cwd=self.project,
                env=environ,
                merged=True,
                max_output=MAX_OUTPUT,
                contained=True,
            )
            ended = run_program(program)
            content = files.read_usable(report, MAX_REPORT)
        end = CheckEnd(
            ended.code if ended.code is None or ended.code >= 0 else None,
            timed_out=ended.reason is NoExit.TIMED_OUT,
            not_started=ended.problem if ended.code is None else "",
        )
        parser = "junit" if OWN_REPORT in command else parser_of(command)
        word = "pass" if expect == "red" else expect
        read = read_check(parser, word, end, ended.stdout, content, project=self.project)
        if expect == "red":
            read = judged_red(read, 0.0, output=ended.stdout)
        said, output = read.outcome, ended.stdout.decode("utf-8", "replace")
        return SuiteRun(said.status, said.reason, said.exit_code, said.counts, read.tests or (), output)

    def read(self, path: str) -> str | None:
        """None if it can't be read as a file of the project."""
        try:
            with ConfinedFolder(self.project) as folder:
                content, size = folder.read(path, MAX_FILE)
        except OSError:
            return None
        return content.decode("utf-8", "replace") if size <= MAX_FILE else None

    def write(self, path: str, text: str, scope: Sequence[str] = ()) -> str:
        """Write a file; returns its path, relative to the project. Raises InvalidRequest for a path outside
        of the project, one that decides what is executed, and one that doesn't match the `scope`."""
        named = os.path.normpath(path)
        if os.path.isabs(named) or named.startswith("..") or protected_step(named):
            raise InvalidRequest(f"{path} can't be written", hint="name a file inside the project")
        if scope and read_scope(scope, [named]).failure_count:
            raise InvalidRequest(f"{path} is not in a test folder", hint=f"use one of: {', '.join(scope)}")
        try:
            with ConfinedFolder(self.project) as folder:
                folder.write(named, text.encode())
        except OSError as error:
            what = f"{path} can't be written: {error.strerror or error}"
            raise InvalidRequest(what, hint="name a file inside the project") from error
        return named
