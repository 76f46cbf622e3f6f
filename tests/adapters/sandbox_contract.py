"""The contract of the sandbox port. Derive a test class, override `sandbox`, and run all of it."""

from contextlib import suppress
from pathlib import Path

import pytest

from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement, Sandbox

CHOICE = SandboxChoice(image="agents:1")
COMMAND = Command(
    ("/bin/sh", "-c", "echo hello"),
    {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "KEY": "sk-secret"},
    stdin="the prompt",
    timeout=5.0,
    idle_timeout=4.0,
    term_grace=3.0,
    separate_errors=True,
    secrets=("sk-secret",),
    descriptors={7: "given"},
)


class SandboxContract:
    @pytest.fixture
    def sandbox(self) -> Sandbox:
        raise NotImplementedError

    @pytest.fixture
    def within(self, tmp_path: Path) -> Confinement:
        workspace = tmp_path / "workspace"
        workspace.mkdir()
        return Confinement(str(workspace))

    def test_name_and_what_is_said_of_nesting_are_stable(self, sandbox: Sandbox) -> None:
        assert sandbox.name
        assert not any(character.isspace() or character == "/" for character in sandbox.name)
        assert (sandbox.name, sandbox.nesting_problem) == (sandbox.name, sandbox.nesting_problem)

    def test_a_probe_succeeds_or_says_what_to_do(self, sandbox: Sandbox) -> None:
        with suppress(ProviderUnusable):
            sandbox.probe(CHOICE)

    def test_the_same_program_runs_with_what_it_was_given(
        self, sandbox: Sandbox, within: Confinement
    ) -> None:
        wrapped = sandbox.wrap(COMMAND, CHOICE, within, "run/0/1/1/1@5")
        assert wrapped.argv != COMMAND.argv
        program, *arguments = wrapped.argv[-len(COMMAND.argv) :]
        assert Path(program).name == Path(COMMAND.argv[0]).name, "a container may have it elsewhere"
        assert tuple(arguments) == COMMAND.argv[1:]
        assert Path(wrapped.argv[0]).is_absolute()
        for name in ("stdin", "timeout", "idle_timeout", "term_grace", "separate_errors", "outbox"):
            assert getattr(wrapped, name) == getattr(COMMAND, name), name
        assert COMMAND.descriptors.items() <= wrapped.descriptors.items()
        assert set(COMMAND.secrets) <= set(wrapped.secrets)

    def test_no_command_line_has_a_secret(self, sandbox: Sandbox, within: Confinement) -> None:
        wrapped = sandbox.wrap(COMMAND, CHOICE, within, "run/0/1/1/1@5")
        assert "sk-secret" not in "\n".join(wrapped.argv)
        assert any("sk-secret" in text for text in (*wrapped.env.values(), *wrapped.descriptors.values()))

    def test_an_attempt_is_confined_and_cleaned_up_the_same_way_each_time(
        self, sandbox: Sandbox, within: Confinement
    ) -> None:
        """A later engine does it again."""
        first, again = (sandbox.wrap(COMMAND, CHOICE, within, "run/0/1/1/1@5") for _ in range(2))
        assert first == again
        cleanup = sandbox.cleanup("run/0/1/1/1@5")
        assert cleanup == sandbox.cleanup("run/0/1/1/1@5")
        assert not cleanup or Path(cleanup[0]).is_absolute()
