"""A scripted model on loopback, for stages that call one themselves."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentforge.testing.model_server import Call, ModelServer, Rule, Script, Turn
from agentforge.testing.model_server.requests import SeenRequest

RUN = "stage"
AGAIN = "Your previous answer can't be used"


class Models:
    """What the model answers, and what it was asked."""

    def __init__(self, server: ModelServer, patch: pytest.MonkeyPatch) -> None:
        self._server, self._patch = server, patch

    def answer(self, *texts: str) -> None:
        """To the task, and to the one that sends a wrong answer back."""
        self.follow(Script((Turn(texts[0]),), (Rule(AGAIN, (Turn(texts[-1]),)),)))

    def call(self, tool: str, *inputs: dict[str, Any]) -> None:
        """A tool, once in each answer, until a call of it ends the task."""
        calls = tuple(Turn("", (Call(tool, given),)) for given in inputs)
        self.follow(Script((*calls, Turn("Done."))))

    def follow(self, script: Script) -> None:
        self._patch.setenv("ANTHROPIC_BASE_URL", self._server.url(script, RUN))

    @property
    def requests(self) -> tuple[SeenRequest, ...]:
        return self._server.requests(RUN, asides=True)


@contextmanager
def scripted_models(patch: pytest.MonkeyPatch, home: str) -> Iterator[Models]:
    patch.setenv("ANTHROPIC_API_KEY", "test-key-of-nobody")
    patch.setenv("XDG_CONFIG_HOME", home)
    for name in ("CLAUDE_PIPELINE_PROVIDER", "CLAUDE_PIPELINE_MODEL", "PIPELINE_CLI_MODEL"):
        patch.delenv(name, raising=False)
    with ModelServer(keep_bodies=True) as server:
        yield Models(server, patch)
