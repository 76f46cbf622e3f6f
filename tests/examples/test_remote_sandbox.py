"""The example of a remote sandbox: installed by its metadata, run by the real program, no sandbox left."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.examples.example_package import EXAMPLE, install_example
from tests.examples.sandbox_service import KEY, SandboxService, serving
from tests.surface.terminal import Project, wait_for

from agentforge.ports.provider import Provider
from agentforge.testing.provider_contract import LeaveArtifacts, ProcessProviderContract

RESULT = 'printf \'{"summary": "built"}\' > "$AGENTFORGE_RESULT"'


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SandboxService]:
    with serving(tmp_path / "remote") as running:
        yield running
        if "end" not in running.failing:
            # Every created sandbox was deleted, whatever else the test did.
            assert sorted(running.ended) == sorted(made["name"] for made in running.made)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("site")
    install_example(folder)
    return str(folder)


@pytest.fixture
def project(tmp_path: Path, service: SandboxService, site: str) -> Iterator[Project]:
    made = Project(tmp_path)
    made.search = site
    made.env |= {"PYTHONPATH": site, **service.environ}
    yield made
    made.end_agents()


def pipeline(project: Project, shell: str, more: dict[str, Any] | None = None, **settings: Any) -> None:
    """One stage whose agent is a line of shell inside of the sandbox."""
    provider = {"type": "remote", "argv": ["sh", "-c", shell], **settings}
    node = {
        "id": "build",
        "prompt": "do it in ${CTX}, say so in ${RESULT}",
        "provider": provider,
        "delay": 0,
        "retry": {"max_attempts": 1},
        **(more or {}),
    }
    (project.root / "p.yaml").write_text(yaml.safe_dump({"name": "remote", "nodes": [node]}))


def go(project: Project, session: str = "s") -> Any:
    return project.call("run", "-p", "p.yaml", "-s", session)


def iteration(project: Project) -> Path:
    return project.run_dir("s") / "stage-00-build/iterations/001"


def everything_kept(project: Project) -> bytes:
    return b"".join(path.read_bytes() for path in project.run_dir("s").rglob("*") if path.is_file())


def test_agent_changes_the_workspace_in_a_sandbox_and_the_changes_are_downloaded(
    project: Project, service: SandboxService
) -> None:
    (project.root / "old.txt").write_text("old")
    (project.root / "gone.txt").write_text("gone")
    (project.root / "tool.sh").write_text("#!/bin/sh\necho tool")
    (project.root / "tool.sh").chmod(0o755)
    shell = (
        f"./tool.sh; cat old.txt; echo new > old.txt; rm gone.txt; mkdir -p a/b; echo deep > a/b/c; {RESULT}"
    )
    pipeline(project, shell, template="python", ttl=99)
    done = go(project)
    assert done.code == 0, done.err
    assert (project.root / "old.txt").read_text() == "new\n"
    assert (project.root / "a/b/c").read_text() == "deep\n"
    assert not (project.root / "gone.txt").exists()
    assert (iteration(project) / "output.md").read_text().strip() == "tool\nold"
    assert json.loads((iteration(project) / "result.json").read_bytes())["summary"] == "built"
    ((name, template, ttl),) = [(made["name"], made["template"], made["ttl"]) for made in service.made]
    assert (template, ttl, service.ended) == ("python", 99, [name])


def test_agent_reads_prompt_and_context_at_paths_of_the_sandbox(
    project: Project, service: SandboxService
) -> None:
    pipeline(project, f"cat .remote-sandbox/context.json > context-there.json; cat; {RESULT}")
    assert go(project).code == 0
    said = (iteration(project) / "output.md").read_text().strip()
    assert str(project.root) not in said
    assert f"{service.folder}/" in said
    assert said.endswith("/.remote-sandbox/result.json")
    context = json.loads((project.root / "context-there.json").read_bytes())
    assert context["session"] == "s"
    assert str(project.root) not in json.dumps(context)
    (environment,) = service.environments
    assert str(project.root) not in json.dumps(environment)


def test_output_is_streamed_while_the_agent_runs(project: Project, service: SandboxService) -> None:
    pipeline(project, f"echo first; while [ ! -e go ]; do sleep 0.02; done; {RESULT}")
    with project.started("run", "-p", "p.yaml", "-s", "s") as run:
        log = iteration(project) / "attempt-1" / "output.log"
        wait_for(lambda: log.exists() and "first" in log.read_text(), "the first words")
        (sandbox,) = service.alive.values()
        (sandbox.root / "go").touch()
        assert run.end().code == 0


def test_key_is_on_no_command_line_and_in_no_file(project: Project, service: SandboxService) -> None:
    pipeline(project, f'echo "model key: $MODEL_KEY"; {RESULT}', pass_env=["MODEL_KEY"])
    project.env |= {"MODEL_KEY": "model-key-0123456789", "OTHER_KEY": "other-key-0123456789"}
    assert go(project).code == 0
    (environment,) = service.environments
    assert environment["MODEL_KEY"] == "model-key-0123456789"
    assert "OTHER_KEY" not in environment
    assert "REMOTE_SANDBOX_API_KEY" not in environment
    kept = everything_kept(project)
    assert KEY.encode() not in kept
    assert b"model-key-0123456789" not in kept


class TestWhatTravels:
    def test_git_files_secrets_and_records_are_not_uploaded(
        self, project: Project, service: SandboxService
    ) -> None:
        for path in (".git/config", ".env", "node_modules/x.js", "big.bin", "src/.env", "src/kept.py"):
            (project.root / path).parent.mkdir(parents=True, exist_ok=True)
            (project.root / path).write_text("x")
        (project.root / "link").symlink_to("/etc/hostname")
        pipeline(project, f"find . -type f; {RESULT}", exclude=["*.bin"])
        assert go(project).code == 0
        found = set((iteration(project) / "output.md").read_text().splitlines())
        assert {"./src/kept.py", "./p.yaml", "./.remote-sandbox/prompt.md"} <= found
        travelled = " ".join(found)
        for kept in (".git/", ".env", "node_modules", "big.bin", "link", "events.jsonl", "attempt-"):
            assert kept not in travelled

    PROTECTED = (
        "../outside.txt",
        "/tmp/absolute-by-the-sandbox",
        "a/../../outside.txt",
        "leads-out/outside.txt",
        ".git/hooks/post-checkout",
        ".claude/pipeline-runs/s/events.jsonl",
        ".agentforge/providers/mine.yaml",
        ".remote-sandbox/context.json",
        ".remote-sandbox/attempt-1/exit.json",
    )

    def test_protected_paths_are_not_written(self, project: Project, service: SandboxService) -> None:
        (project.root / "leads-out").symlink_to(project.home)
        service.extra_changes = [*map(service.file, self.PROTECTED), service.file("fine.txt")]
        pipeline(project, RESULT)
        assert go(project).code == 0
        assert (project.root / "fine.txt").read_text() == "from the sandbox"
        landed = [
            found
            for folder in (project.root.parent, Path("/tmp"))
            for found in (folder.rglob("*") if folder != Path("/tmp") else folder.glob("absolute-by*"))
            if found.is_file() and "remote" not in found.parts and found.name != "fine.txt"
        ]
        assert not any(found.read_bytes() == b"from the sandbox" for found in landed)
        errors = (iteration(project) / "attempt-1" / "errors.log").read_text()
        for path in self.PROTECTED:
            assert f"{path} was changed in the sandbox; the change is ignored because" in errors


class TestFailures:
    @pytest.mark.parametrize(
        ("operation", "status", "kind"),
        [
            ("create", 401, "provider_auth"),
            pytest.param("create", 402, "provider_quota", marks=pytest.mark.soak),
            ("create", 429, "provider_rate_limited"),
            pytest.param("create", 503, "provider_overloaded", marks=pytest.mark.soak),
            ("upload", 500, "provider_overloaded"),
            pytest.param("run", 500, "provider_overloaded", marks=pytest.mark.soak),
            ("changes", 500, "provider_overloaded"),
        ],
    )
    def test_refusal_has_its_failure_kind_and_leaves_no_sandbox(
        self, project: Project, service: SandboxService, operation: str, status: int, kind: str
    ) -> None:
        service.failing = {operation: status}
        pipeline(project, RESULT, {"on_limit": "fail"})
        assert go(project).code == 1
        (error,) = [event["data"] for event in project.events("s") if event["type"] == "error"]
        assert error["type"] == kind
        assert (
            error["message"] == f'the sandbox service returned {status}: {{"error": "{operation} refused"}}'
        )
        assert service.alive == {}

    def test_failed_deletion_is_reported_without_failing_the_run(
        self, project: Project, service: SandboxService
    ) -> None:
        service.failing = {"end": 500}
        pipeline(project, RESULT)
        assert go(project).code == 0
        (name,) = service.alive
        errors = (iteration(project) / "attempt-1" / "errors.log").read_text()
        assert f"failed to delete sandbox {name}: the sandbox service returned 500" in errors

    def test_unreachable_service(self, project: Project, service: SandboxService) -> None:
        project.env["REMOTE_SANDBOX_URL"] = "http://127.0.0.1:9"
        pipeline(project, RESULT)
        assert go(project).code != 0
        assert "provider_unreachable" in json.dumps(project.events("s"))
        assert service.made == []

    def test_broken_stream(self, project: Project, service: SandboxService) -> None:
        service.breaks_off = True
        pipeline(project, f"echo begun; sleep 60; {RESULT}")
        assert go(project).code != 0
        assert "disconnected while the agent was running" in json.dumps(project.events("s"))
        assert service.alive == {}

    def test_failed_agent_keeps_its_exit_status(self, project: Project, service: SandboxService) -> None:
        pipeline(project, "echo half > half.txt; exit 7")
        assert go(project).code == 1
        (error,) = [event["data"] for event in project.events("s") if event["type"] == "error"]
        assert (error["type"], error["exit_code"]) == ("provider_crashed", 7)
        assert (project.root / "half.txt").exists()
        assert service.alive == {}

    def test_missing_key_is_reported_before_the_run_starts(
        self, project: Project, service: SandboxService
    ) -> None:
        del project.env["REMOTE_SANDBOX_API_KEY"]
        pipeline(project, RESULT)
        done = go(project)
        assert done.code != 0
        assert "REMOTE_SANDBOX_API_KEY is not set" in done.err
        assert service.calls == []

    def test_missing_argv_is_reported(self, project: Project, service: SandboxService) -> None:
        pipeline(project, RESULT, argv=[])
        assert go(project).code != 0
        assert "`argv` is missing" in json.dumps(project.events("s"))
        assert service.made == []


class TestEnding:
    SLOW = "echo begun; sleep 300"

    def begun(self, service: SandboxService) -> None:
        wait_for(lambda: any(box.process for box in service.alive.values()), "the agent works")

    def test_signal_deletes_the_sandbox(self, project: Project, service: SandboxService) -> None:
        pipeline(project, self.SLOW)
        with project.started("run", "-p", "p.yaml", "-s", "s") as run:
            self.begun(service)
            run.signal(signal.SIGINT)
            wait_for(lambda: "pause_requested" in project.types("s"), "the request to pause")
            run.signal(signal.SIGINT)
            assert run.end().code == 130
        assert service.alive == {}

    def test_cancel_deletes_the_sandbox(self, project: Project, service: SandboxService) -> None:
        pipeline(project, self.SLOW)
        with project.started("run", "-p", "p.yaml", "-s", "s") as run:
            self.begun(service)
            project.call("cancel", "s")
            run.end()
        wait_for(lambda: service.alive == {}, "the sandbox is gone")

    def test_timeout_deletes_the_sandbox(self, project: Project, service: SandboxService) -> None:
        pipeline(project, self.SLOW, {"timeout": 1})
        assert go(project).code != 0
        (error,) = [event["data"] for event in project.events("s") if event["type"] == "error"]
        assert error["type"] == "iteration_timeout"
        assert service.alive == {}

    def test_next_engine_reattaches_to_the_sandbox_of_a_killed_engine(
        self, project: Project, service: SandboxService
    ) -> None:
        pipeline(
            project, f"echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done > done.txt; {RESULT}"
        )
        with project.started("run", "-p", "p.yaml", "-s", "s") as run:
            self.begun(service)
            run.signal(signal.SIGKILL)
            run.end()
        (sandbox,) = service.alive.values()
        with project.started("recover", "s") as run:
            wait_for(lambda: "attempt_reattached" in project.types("s"), "the agent is reattached to")
            (sandbox.root / "go").touch()
            assert run.end().code == 0
        assert len(service.made) == 1
        assert (project.root / "done.txt").exists()

    def test_sandbox_of_a_killed_program_is_deleted(self, project: Project, service: SandboxService) -> None:
        pipeline(project, self.SLOW)
        with project.started("run", "-p", "p.yaml", "-s", "s") as run:
            self.begun(service)
            agent = json.loads((iteration(project) / "attempt-1" / "agent.json").read_bytes())
            os.kill(agent["pid"], signal.SIGKILL)
            run.end()
        assert service.alive == {}


def test_example_pipeline_compiles_and_is_linted(project: Project) -> None:
    (project.root / "pipeline.yaml").write_text((EXAMPLE / "pipeline.yaml").read_text())
    done = project.call("lint", "pipeline", "pipeline.yaml")
    assert (done.code, "warnings" in done.out) == (0, False), done.out
    listed = {info["name"]: info for info in project.call("providers", "--json").json}
    assert listed["remote"]["place"] == "agentforge-remote-sandbox 0.1.0"
    assert listed["remote"]["usable"]


def test_readme_names_every_setting() -> None:
    text = (EXAMPLE / "README.md").read_text()
    for word in (
        "argv",
        "template",
        "pass_env",
        "exclude",
        "ttl",
        "REMOTE_SANDBOX_URL",
        "REMOTE_SANDBOX_API_KEY",
    ):
        assert f"`{word}`" in text


class TestContract(ProcessProviderContract):
    @pytest.fixture
    def provider(self, service: SandboxService, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
        monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
        from remote_sandbox.provider import RemoteSandbox

        yield RemoteSandbox({"PATH": "/usr/bin:/bin", **service.environ})
        for name in [name for name in sys.modules if name.startswith("remote_sandbox")]:
            del sys.modules[name]

    @pytest.fixture
    def secret_values(self) -> tuple[str, ...]:
        return (KEY,)

    @pytest.fixture
    def config(self) -> dict[str, Any]:
        return {"argv": ["sh", "-c", RESULT]}

    @pytest.fixture
    def slow_config(self) -> dict[str, Any]:
        return {"argv": ["sleep", "300"]}

    @pytest.fixture
    def leaving(self, provider: Provider, tmp_path: Path) -> LeaveArtifacts:
        def remote(*artifacts: Any) -> tuple[Provider, dict[str, Any]]:
            texts = [f"'{json.dumps(artifact)}'" for artifact in (*artifacts, artifacts[-1])[:2]]
            again = f"[ -e left ] && text={texts[1]} || text={texts[0]}; touch left"
            leave = f'{again}; printf %s "$text" > "$AGENTFORGE_ARTIFACT"; {RESULT}'
            return provider, {"argv": ["sh", "-c", leave]}

        return remote
