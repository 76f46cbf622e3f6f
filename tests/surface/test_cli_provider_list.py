"""`agentforge providers`, and a package's provider in the real program: listed, used, shut down."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.packages import install
from tests.surface.terminal import Project, wait_for

AGENT = """
import asyncio, os
from agentforge.ports.provider import Capabilities, ExecuteResult
from agentforge.model.errors import ProviderUnusable

class Agent:
    name = "agent"

    def __init__(self, environ):
        self.log = environ["LIFE"]

    def record(self, word):
        with open(self.log, "a") as file:
            file.write(word + "\\n")

    async def init(self):
        self.record("init")

    def validate(self):
        self.record("validate")

    def capabilities(self):
        return Capabilities(supports_tools=True, requires_sandbox=False, concurrent=False)

    async def execute(self, request):
        self.record("execute")
        if request.prompt.strip() == "work":
            await asyncio.Event().wait()
        return ExecuteResult(output="done", result={"summary": "done"})

    async def shutdown(self):
        self.record("shutdown")


class Confined(Agent):
    def capabilities(self):
        return Capabilities(requires_sandbox=True, bounds=("cost_usd",))


class Keyless(Agent):
    def validate(self):
        raise ProviderUnusable("no key", hint="set AGENT_KEY")
"""


@pytest.fixture
def life(project: Project) -> Path:
    """A project in which the package is installed; the file in which its provider notes its life."""
    site = project.home / "site"
    install(site, "some-agents", AGENT, {"agent": "Agent", "confined": "Confined", "keyless": "Keyless"})
    log = project.home / "life"
    project.env |= {"PYTHONPATH": str(site), "LIFE": str(log)}
    return log


def pipeline(project: Project, prompt: str, provider: str = "agent") -> None:
    text = f"nodes: [{{id: a, prompt: {prompt}, provider: {provider}, delay: 0, retry: {{max_attempts: 1}}}}]"
    (project.root / "p.yaml").write_text(text)


def test_list_shows_providers_and_why_one_is_not_usable(project: Project, life: Path) -> None:
    install(project.home / "site", "bad-agents", "import nothing_like_it", {"bad": "Agent"})
    done = project.call("providers")
    assert done.code == 0
    assert "  ✓ agent     entry point: some-agents 1.2 · tools, one call at a time" in done.lines
    assert (
        "  ✓ confined  entry point: some-agents 1.2 · keeps to a budget (cost), needs a sandbox" in done.lines
    )
    at = done.lines.index("  ✗ keyless   entry point: some-agents 1.2 · tools, one call at a time")
    assert [line.strip() for line in done.lines[at + 1 : at + 3]] == ["no key", "fix: set AGENT_KEY"]
    at = done.lines.index("  ✗ bad       entry point: bad-agents 1.2")
    assert "of bad-agents 1.2 can't be loaded: ModuleNotFoundError" in done.lines[at + 1]
    assert "fix: repair or uninstall bad-agents" in done.lines[at + 2]
    assert "Traceback" not in done.err
    assert sorted(life.read_text().split()) == sorted([*["init", "shutdown"] * 3, *["validate"] * 2])


def test_list_as_json(project: Project, life: Path) -> None:
    found = {info["name"]: info for info in project.call("providers", "--json").json}
    assert found["agent"]["usable"]
    assert (found["agent"]["origin"], found["agent"]["place"]) == ("entry point", "some-agents 1.2")
    assert found["confined"]["capabilities"]["requires_sandbox"]
    assert (found["keyless"]["problem"], found["keyless"]["fix"]) == ("no key", "set AGENT_KEY")
    assert found["mock"]["origin"] == "built in"
    assert life.exists()


def test_static_lint_knows_the_names_of_packages_and_loads_none(project: Project, life: Path) -> None:
    pipeline(project, "rest")
    assert project.call("lint", "pipeline", "p.yaml", "--static").code == 0
    pipeline(project, "rest", provider="agnet")
    done = project.call("lint", "pipeline", "p.yaml", "--static")
    assert done.code != 0
    assert "did you mean `agent`?" in done.out + done.err
    assert not life.exists()


def test_run_by_a_package_s_provider(project: Project, life: Path) -> None:
    pipeline(project, "rest")
    assert project.call("run", "-p", "p.yaml", "-s", "s").code == 0
    assert life.read_text().split() == ["init", "validate", "execute", "shutdown"]


def test_provider_that_requires_a_sandbox_is_refused_with_the_fix(project: Project, life: Path) -> None:
    pipeline(project, "rest", provider="confined")
    done = project.call("run", "-p", "p.yaml", "-s", "s")
    assert done.code != 0
    assert "must run in a sandbox, and stage 'a' has none" in done.err
    assert "sandbox: bwrap" in done.err
    assert not project.run_dir("s").exists()
    assert life.read_text().split() == ["init", "validate", "shutdown"]


@pytest.fixture
def heard() -> Iterator[None]:
    """A signal that is ignored here, as nohup does it, would be ignored by the programs we start, too."""
    ignored = [
        n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_provider_is_shut_down_once_when_a_signal_ends_the_program(
    project: Project, life: Path, number: signal.Signals
) -> None:
    pipeline(project, "work")
    with project.started("run", "-p", "p.yaml", "-s", "s") as program:
        wait_for(lambda: life.exists() and "execute" in life.read_text(), "the agent works")
        program.signal(number)
        wait_for(lambda: "pause_requested" in project.types("s"), "the request to pause")
        # A closing terminal may send several signals, so that of a person must be another one.
        second = signal.SIGTERM if number is signal.SIGHUP else number
        program.signal(second)
        done = program.end()
    assert done.code == 128 + second
    assert life.read_text().split() == ["init", "validate", "execute", "shutdown"]
