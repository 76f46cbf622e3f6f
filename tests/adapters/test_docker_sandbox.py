"""Agents in a container: the command line for it, tried with a program that takes notes, and for real where
an engine answers."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentforge.adapters.sandboxes.docker import DockerSandbox, container_name
from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.ports.provider import Command
from agentforge.ports.sandbox import Confinement

CHOICE = SandboxChoice(type="docker", image="agents:1")

NOTES = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done > {folder}/argv
env -0 > {folder}/env
cat /dev/fd/3 > {folder}/file
cat > {folder}/stdin
exit {status}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".claude/pipeline-runs/auth/iterations/001").mkdir(parents=True)
    return folder


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    return fake(tmp_path, "exit 0")


def fake(folder: Path, script: str) -> Path:
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    program = tools / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def wrap(
    docker: Path,
    project: Path,
    choice: SandboxChoice = CHOICE,
    within: dict[str, Any] | None = None,
    **asked: Any,
) -> Command:
    env = {"PATH": "/usr/bin", "HOME": "/home/me", "MY_API_KEY": "sk-0123456789", "LD_PRELOAD": "x.so"}
    command = Command(**{"argv": ("/opt/bin/agent", "--quiet"), "env": env, **asked})
    environ = {"PATH": str(docker.parent), "DOCKER_HOST": "unix:///engine.sock", "OTHER": "1"}
    confinement = Confinement(str(project), **(within or {}))
    return DockerSandbox(environ).wrap(command, choice, confinement, "run-1/0/1/1")


def values(argv: tuple[str, ...], option: str) -> list[str]:
    return [argv[at + 1] for at, word in enumerate(argv) if word == option]


def test_the_command_line(docker: Path, project: Path) -> None:
    argv = wrap(docker, project).argv
    assert argv[:5] == (str(docker), "run", "--rm", "--interactive", "--init")
    assert argv[-3:] == ("agents:1", "agent", "--quiet")
    assert values(argv, "--name") == [container_name("run-1/0/1/1")]
    assert values(argv, "--label") == ["agentforge.attempt=run-1/0/1/1"]
    assert values(argv, "--user") == [f"{os.geteuid()}:{os.getegid()}"]
    assert values(argv, "--workdir") == [str(project)]
    assert values(argv, "--cap-drop") == ["ALL"]
    assert values(argv, "--security-opt") == ["no-new-privileges"]
    assert values(argv, "--volume") == [f"{project}:{project}"]
    assert "--privileged" not in argv


@pytest.mark.parametrize(("network", "name"), [(True, "bridge"), (False, "none")])
def test_the_network_can_be_disabled(docker: Path, project: Path, network: bool, name: str) -> None:
    choice = SandboxChoice(type="docker", image="agents:1", network=network)
    assert values(wrap(docker, project, choice).argv, "--network") == [name]


def test_values_of_variables_are_not_on_the_command_line(docker: Path, project: Path) -> None:
    command = wrap(docker, project)
    assert values(command.argv, "--env-file") == ["/dev/fd/3"]
    assert not any("sk-0123456789" in word for word in (*command.argv, *command.env.values()))
    assert command.descriptors == {3: "HOME=/home/me\nMY_API_KEY=sk-0123456789\n"}


def test_values_of_several_lines_pass_through_the_environment_of_the_client(
    docker: Path, project: Path
) -> None:
    command = wrap(docker, project, env={"PRIVATE_KEY": "one\ntwo", "PLAIN": "1"})
    assert values(command.argv, "--env") == ["PRIVATE_KEY"]
    assert command.env["PRIVATE_KEY"] == "one\ntwo"
    assert command.descriptors == {3: "PLAIN=1\n"}


def test_the_client_has_what_it_needs_to_find_its_engine(docker: Path, project: Path) -> None:
    command = wrap(docker, project)
    assert command.env["DOCKER_HOST"] == "unix:///engine.sock"
    assert "OTHER" not in command.env


def test_volumes_protect_what_is_protected(docker: Path, project: Path) -> None:
    runs = project / ".claude/pipeline-runs"
    here = runs / "auth/iterations/001"
    (project / "vault").mkdir()
    (project / ".env").write_text("KEY=1")
    state = project.parent / "state"
    state.mkdir()
    choice = SandboxChoice(type="docker", image="agents:1", writable=("../state",), hidden=("vault", ".env"))
    within = {"protected": (str(runs), str(project / "gone")), "writable": (str(here),)}
    argv = wrap(docker, project, choice, within, state=(str(project.parent / "missing"),)).argv
    assert values(argv, "--volume") == [
        f"{project}:{project}",
        f"{state}:{state}",
        f"{project}/.claude:{project}/.claude",
        f"/dev/null:{project}/.env:ro",
        f"{runs}:{runs}:ro",
        f"{here}:{here}",
    ]
    assert f"{project}/vault:ro" in values(argv, "--tmpfs")


def test_the_home_is_an_empty_one_of_the_same_name(docker: Path, project: Path) -> None:
    homes = [word for word in values(wrap(docker, project).argv, "--tmpfs") if word.startswith("/home/me:")]
    assert len(homes) == 1
    assert f"uid={os.geteuid()}" in homes[0]


@pytest.mark.parametrize(
    ("program", "inside"),
    [("/usr/bin/agent", "agent"), ("agent", "agent"), ("{project}/bin/agent", "{project}/bin/agent")],
)
def test_a_program_of_the_project_keeps_its_path_and_any_other_is_the_images(
    docker: Path, project: Path, program: str, inside: str
) -> None:
    argv = wrap(docker, project, argv=(program.format(project=project),)).argv
    assert argv[-1] == inside.format(project=project)


def test_the_container_of_an_attempt_is_removed_by_its_mark(docker: Path, project: Path) -> None:
    sandbox = DockerSandbox({"PATH": str(docker.parent)})
    cleanup = sandbox.cleanup("run-1/0/1/1")
    assert cleanup == (str(docker), "rm", "-f", container_name("run-1/0/1/1"))
    assert values(wrap(docker, project).argv, "--name") == [cleanup[-1]]


def test_names_of_containers_tell_attempts_apart() -> None:
    names = {container_name(f"run-{number}/0/1/1") for number in range(100)}
    assert len(names) == 100
    assert all(len(name) < 64 and name.replace("-", "").isalnum() for name in names)


def test_a_path_that_docker_cannot_mount_is_refused(docker: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a:b"
    odd.mkdir()
    with pytest.raises(ProviderUnusable, match="colon"):
        wrap(docker, odd)


def test_the_program_is_called_as_it_says(tmp_path: Path, project: Path) -> None:
    docker = fake(tmp_path, NOTES.format(folder=tmp_path, status=7).partition("\n")[2])
    command = wrap(docker, project)
    (tmp_path / "given").write_text(command.descriptors[3])
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 3<"$0"', str(tmp_path / "given"), *command.argv],
        env={**command.env, "PATH": os.environ["PATH"]},
        input=b"do it",
        timeout=60,
        check=False,
    )
    assert done.returncode == 7
    assert (tmp_path / "argv").read_text().split("\0")[:-1] == list(command.argv[1:])
    assert "MY_API_KEY" not in (tmp_path / "env").read_text()
    assert "MY_API_KEY=sk-0123456789\n" in (tmp_path / "file").read_text()
    assert (tmp_path / "stdin").read_text() == "do it"


# -- what is missing


def test_missing_image_has_a_hint(docker: Path, project: Path) -> None:
    with pytest.raises(ProviderUnusable, match="`image` is missing") as refusal:
        DockerSandbox({"PATH": str(docker.parent)}).probe(SandboxChoice(type="docker"))
    assert "image: my-agents:1" in refusal.value.hint
    with pytest.raises(ProviderUnusable, match="`image` is missing"):
        wrap(docker, project, SandboxChoice(type="docker"))


def test_missing_client_has_install_instructions(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnusable, match="not installed") as refusal:
        DockerSandbox({"PATH": str(tmp_path)}).probe(CHOICE)
    assert "install Docker" in refusal.value.hint


def test_unreachable_engine_has_a_hint(tmp_path: Path) -> None:
    docker = fake(tmp_path, "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(ProviderUnusable, match="can't reach the Docker engine: Cannot connect") as refusal:
        DockerSandbox({"PATH": str(docker.parent)}).probe(CHOICE)
    assert "systemctl start docker" in refusal.value.hint


def test_with_an_engine_all_is_well(tmp_path: Path) -> None:
    docker = fake(tmp_path, 'echo "$@" > ' + f"{tmp_path}/asked; echo 27.0")
    DockerSandbox({"PATH": str(docker.parent)}).probe(CHOICE)
    assert (tmp_path / "asked").read_text().startswith("version")


@pytest.fixture
def image() -> str:
    """An image that is already present: nothing is pulled."""
    try:
        DockerSandbox().probe(CHOICE)
    except ProviderUnusable as error:
        pytest.skip(f"sandbox: {error.message}")
    listed = subprocess.run(
        ["docker", "images", "--format", "{{json .}}"], capture_output=True, timeout=60, check=True
    ).stdout
    names = [f"{entry['Repository']}:{entry['Tag']}" for entry in map(json.loads, listed.splitlines())]
    fitting = [name for name in names if name.startswith(("alpine:", "busybox:", "debian:", "ubuntu:"))]
    if not fitting:
        pytest.skip("sandbox: no image with a shell is present, and tests pull none")
    return fitting[0]


def test_a_real_container_writes_to_the_workspace_only(image: str, project: Path) -> None:
    runs = project / ".claude/pipeline-runs"
    command = Command(
        ("/bin/sh", "-c", f"cat > said; echo x > {runs}/new; exit 5"),
        {"PATH": os.environ["PATH"]},
        stdin="hello",
    )
    choice = SandboxChoice(type="docker", image=image, network=False)
    mark = f"test-{os.getpid()}"
    wrapped = DockerSandbox().wrap(command, choice, Confinement(str(project), (str(runs),)), mark)
    (project.parent / "given").write_text(wrapped.descriptors[3])
    argv = ["/bin/sh", "-c", 'exec "$@" 3<"$0"', str(project.parent / "given"), *wrapped.argv]
    done = subprocess.run(argv, env=wrapped.env, input=b"hello", timeout=60, check=False)
    subprocess.run(
        DockerSandbox().cleanup(mark), env=wrapped.env, timeout=30, check=False, capture_output=True
    )
    assert done.returncode == 5
    assert (project / "said").read_text() == "hello"
    assert not (runs / "new").exists()
