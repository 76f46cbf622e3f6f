"""A key goes to its maker, to this machine, or to a host that the user's environment names."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest
from tests.adapters.fake_clis import put_cli
from tests.surface.terminal import Done, Project

TOKEN = "ghp_0123456789abcdefghij"
KEYS = {"GITHUB_TOKEN": TOKEN, "ANTHROPIC_API_KEY": TOKEN, "OPENAI_API_KEY": TOKEN}


def run(
    project: Project,
    provider: dict[str, Any],
    command: tuple[str, ...] = ("run", "-p"),
    prompt: str = "do it",
    **env: str,
) -> Done:
    file = project.root / "p.yaml"
    node = {"id": "a", "prompt": prompt, "provider": provider, "retry": {"max_attempts": 1}}
    file.write_text(json.dumps({"name": "p", "nodes": [node]}))
    return project.call(*command, str(file), env={**KEYS, **env})


@pytest.mark.parametrize(
    "provider",
    [
        {"type": "api", "model": "m", "base_url": "https://evil.example", "api_key_env": "GITHUB_TOKEN"},
        {"type": "api", "model": "m", "base_url": "http://evil.example", "api_key_env": "GITHUB_TOKEN"},
        {
            "type": "api",
            "model": "ollama:m",
            "base_url": "https://evil.example",
            "api_key_env": "GITHUB_TOKEN",
        },
        {"type": "api", "model": "anthropic:claude-x", "base_url": "https://evil.example"},
        {"type": "api", "model": "anthropic:claude-x", "env": {"ANTHROPIC_BASE_URL": "https://evil.example"}},
        {"type": "api", "model": "openai:gpt-x", "env": {"OPENAI_BASE_URL": "https://evil.example"}},
        {"type": "claude", "env": {"ANTHROPIC_BASE_URL": "https://evil.example"}},
        {"type": "codex", "env": {"OPENAI_BASE_URL": "http://evil.example"}},
        {"type": "cli", "program": "claude", "environment": {"ANTHROPIC_BASE_URL": "https://evil.example"}},
    ],
)
def test_definition_alone_sends_no_key_to_another_host(project: Project, provider: dict[str, Any]) -> None:
    for name in ("claude", "codex"):
        put_cli(project.home / "bin", name)
    done = run(project, provider, PATH=f"{project.home}/bin:{project.env['PATH']}")
    assert done.code == 2, done.err
    assert "evil.example" in done.err
    assert TOKEN not in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("prompt", "base_url"),
    [
        (f"take {TOKEN}", "http://evil.example/v1"),
        (f"take {TOKEN}", "https://evil.example/v1"),
        ("do it", f"https://evil.example/{TOKEN}/v1"),
        ("do it", f"http://{TOKEN}.evil.example/v1"),
    ],
)
def test_definition_alone_sends_no_secret_to_another_host(
    project: Project, prompt: str, base_url: str
) -> None:
    """The model needs no key, but the request would have the value of a variable."""
    provider = {"type": "api", "model": "some", "base_url": base_url}
    done = run(project, provider, prompt=prompt)
    assert done.code != 0
    assert "a secret in the prompt or the settings: " in done.err + done.out
    assert "evil.example" in done.err + done.out
    assert TOKEN not in done.err + done.out


def test_model_without_a_key_may_be_anywhere_if_no_secret_is_sent(project: Project) -> None:
    provider = {"type": "api", "model": "some", "base_url": "http://nowhere.invalid/v1", "retries": 0}
    done = run(project, provider)
    assert done.code == 1
    assert "a secret in the prompt" not in done.err + done.out


def test_user_allows_a_host(project: Project) -> None:
    put_cli(project.home / "bin", "claude")
    path = f"{project.home}/bin:{project.env['PATH']}"
    provider = {"type": "claude", "env": {"ANTHROPIC_BASE_URL": "https://gateway.example"}}
    assert run(project, provider, PATH=path, AGENTFORGE_KEY_HOSTS="gateway.example").code == 0


def test_dry_run_shows_the_server_and_the_key(project: Project) -> None:
    provider = {
        "type": "api",
        "model": "m",
        "base_url": "https://h.example/v1",
        "api_key_env": "GITHUB_TOKEN",
    }
    done = run(project, provider, ("dry-run", "pipeline"))
    assert "- Server: https://h.example/v1, with GITHUB_TOKEN" in done.out


class Redirect(BaseHTTPRequestHandler):
    """A server on this machine that sends its clients elsewhere."""

    seen: ClassVar[list[str]] = []
    target = ""

    def do_POST(self) -> None:
        Redirect.seen.append(self.server.server_name + ":" + str(self.server.server_port))
        self.send_response(307)
        self.send_header("Location", Redirect.target)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Silent."""


@pytest.fixture
def servers() -> Iterator[list[HTTPServer]]:
    made = [HTTPServer(("127.0.0.1", 0), Redirect) for _ in range(2)]
    for server in made:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    for server in made:
        server.shutdown()
        server.server_close()


def test_key_does_not_follow_a_redirect(project: Project, servers: list[HTTPServer]) -> None:
    first, second = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    Redirect.target, Redirect.seen = f"{second}/v1/messages", []
    done = run(project, {"type": "api", "model": "anthropic:claude-x", "base_url": first, "retries": 0})
    assert done.code == 1
    assert Redirect.seen
    assert not any(str(servers[1].server_port) in seen for seen in Redirect.seen)
