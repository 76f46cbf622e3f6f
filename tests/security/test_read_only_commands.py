"""Commands that only look read no device, wait for no pipe and show no file from elsewhere, whatever a
repository has in the place of the files that they read."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from tests.sampling import one_in
from tests.sdk.projects import engine, node, run

from agentforge.cli.main import call

RUN = ".claude/pipeline-runs/s"
FILES = (
    ".claude/pipelines/p.yaml",
    ".claude/stages/one/stage.yaml",
    ".claude/stages/one/prompt.md",
    ".agentforge/providers/x.yaml",
    f"{RUN}/state.json",
    f"{RUN}/events.jsonl",
    f"{RUN}/plan.json",
    f"{RUN}/pipeline.yaml",
    f"{RUN}/stage-00-plan/iterations/001/output.md",
    f"{RUN}/stage-00-plan/iterations/001/context.json",
    f"{RUN}/control/1.json",
    f"{RUN}/answers/1.json",
    ".claude/locks/s.lock",
    ".claude/loop-completions.json",
    ".claude/pipeline-runs/.gitignore",
    ".claude/pipeline-runs/.placeholders",
    ".git/HEAD",
    ".git",
)
OF_DEFINITIONS = (
    *(
        ("lint",),
        ("stages",),
        ("pipelines",),
        ("dry-run", "p"),
        ("graph", "p"),
        ("migrate", "check"),
        ("providers",),
    ),
    *(("doctor",), ("schema",), ("schema", "stage"), ("completion", "bash")),
)
OF_RUNS = (
    *(("list",), ("status",), ("status", "s"), ("tail", "s"), ("log", "verify", "s"), ("top", "--once")),
    *(("show", "s"), ("show", "s", "plan", "1", "--output"), ("diff", "s")),
)
COMMANDS = (*OF_DEFINITIONS, *OF_RUNS)


def _linked(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _filled(content: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(content)

    return make


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 60 << 30)


ODD: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "device": _linked("/dev/zero"),
    "file elsewhere": _linked("/etc/passwd"),
    "folder elsewhere": _linked("/"),
    "loop": lambda path: path.symlink_to(path.name),
    "huge file": _huge,
    "deep JSON": _filled(b"[" * 200_000),
    "deep YAML": _filled(b"- " * 20_000),
    "escapes": _filled(b'{"name": "\x1b]0;owned\x07", "type": "\x1b[2J"}\n'),
    "not text": _filled(bytes(range(256)) * 40),
    "empty": _filled(b""),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with definitions and a finished run."""
    project = tmp_path_factory.mktemp("looking") / "project"
    stage = project / ".claude/stages/one"
    stage.mkdir(parents=True)
    (stage / "stage.yaml").write_text("name: one\n")
    (stage / "prompt.md").write_text("Write to ${RESULT}.")
    (project / ".claude/pipelines").mkdir()
    (project / ".claude/pipelines/p.yaml").write_text("nodes:\n  - {id: plan, stage: one, provider: mock}\n")
    run(engine(project).run({"name": "p", "nodes": [node("plan")]}, session="s"))
    return project


@pytest.mark.parametrize("name", one_in(9, FILES))
def test_looking_at_a_hostile_repository(
    template: Path,
    tmp_path: Path,
    name: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    commands = OF_RUNS if "pipeline-runs/" in name else OF_DEFINITIONS
    for kind, make in ODD.items():
        project = tmp_path / "project"
        shutil.copytree(template, project)
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.unlink() if path.is_file() else shutil.rmtree(path)
        make(path)
        before = _entries(project)
        for command in commands:
            call(["-C", str(project), *command])
            said = "".join(capfd.readouterr())
            for wrong in ("Traceback", "unexpected", "root:", "\x1b]", "\x1b[2J"):
                assert wrong not in said, (kind, command, said)
        assert _entries(project) == before, kind
        shutil.rmtree(project)


WORDS = ("run ", "status ", "stages ", "show s ", "dry-run ")
READ_BY_COMPLETION = (FILES[0], FILES[1], f"{RUN}/events.jsonl", f"{RUN}/state.json")


@pytest.mark.parametrize("name", one_in(2, READ_BY_COMPLETION))
def test_completing_words_in_a_hostile_repository(
    template: Path,
    tmp_path: Path,
    name: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("_AGENTFORGE_COMPLETE", "bash_complete")
    for kind, make in ODD.items():
        project = tmp_path / "project"
        shutil.copytree(template, project)
        (project / name).unlink()
        make(project / name)
        monkeypatch.chdir(project)
        for word in WORDS:
            monkeypatch.setenv("COMP_WORDS", f"agentforge {word}")
            monkeypatch.setenv("COMP_CWORD", str(word.count(" ")))
            with suppress(SystemExit):
                call([])
            said = "".join(capfd.readouterr())
            for wrong in ("Traceback", "root:", "\x1b"):
                assert wrong not in said, (kind, word, said)
        shutil.rmtree(project)


READ_BY_INIT = (
    ".gitignore",
    ".claude",
    ".claude/stages",
    ".claude/pipelines",
    "Makefile",
    "pyproject.toml",
    "package.json",
    "requirements.txt",
    "tests",
)


@pytest.mark.parametrize("name", one_in(3, READ_BY_INIT))
def test_a_first_pipeline_in_a_hostile_repository(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes in the project only, and shows no file from elsewhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("root: mine")
    elsewhere = {"own file": _linked(str(outside / "file")), "own folder": _linked(str(outside))}
    monkeypatch.setenv("HOME", str(tmp_path))
    for kind, make in {**ODD, **elsewhere}.items():
        project = tmp_path / "project"
        path = project / name
        path.parent.mkdir(parents=True)
        make(path)
        call(["-C", str(project), "init", "--yes"])
        said = "".join(capfd.readouterr())
        for wrong in ("Traceback", "unexpected", "root:", "\x1b]", "\x1b[2J"):
            assert wrong not in said, (kind, said)
        assert [found.name for found in outside.rglob("*")] == ["file"]
        assert (outside / "file").read_text() == "root: mine"
        shutil.rmtree(project)


def test_looking_at_a_run_with_a_hostile_payload(
    template: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The line names a payload of one gigabyte, which is there."""
    project = tmp_path / "project"
    shutil.copytree(template, project)
    name = "0" * 64
    line = (
        '{"seq":2,"type":"session_start","timestamp":"2026-01-01T00:00:00Z","session":"s","cursor":null,'
        f'"data":null,"trace_id":"t","payload":{{"sha256":"{name}","size":{1 << 30}}}'
    )
    log = project / RUN / "events.jsonl"
    first = log.read_bytes().splitlines()[0]
    previous = first.rpartition(b'"hash":"')[2][:32].decode()
    digest = sha256((previous + line).encode()).hexdigest()[:32]
    log.write_bytes(first + b"\n" + f'{line},"hash":"{digest}"}}\n'.encode())
    (project / RUN / "payloads").mkdir(exist_ok=True)
    (project / RUN / "payloads" / f"{name}.json").touch()
    os.truncate(project / RUN / "payloads" / f"{name}.json", 1 << 30)
    (project / RUN / "state.json").unlink()
    assert call(["-C", str(project), "log", "verify", "s"]) != 0
    assert f"the size of its payload is invalid: {1 << 30}" in "".join(capfd.readouterr())
    for command in OF_RUNS:
        call(["-C", str(project), *command])
        assert "Traceback" not in "".join(capfd.readouterr())


def _entries(project: Path) -> list[str]:
    return sorted(str(path) for path in project.rglob("*"))


def test_looking_at_names_with_control_characters(
    template: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    shutil.copytree(template, project)
    odd = "a\x1b]0;owned\x07\nb\u202ec"
    for name in (
        f".claude/stages/{odd}/stage.yaml",
        f".claude/pipelines/{odd}.yaml",
        f"{RUN}{odd}/events.jsonl",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("name: x\n")
    for command in COMMANDS:
        call(["-C", str(project), *command])
        said = "".join(capfd.readouterr())
        for wrong in ("Traceback", "unexpected", "\x1b]", "\x07", "\u202e"):
            assert wrong not in said, (command, said)


def test_looking_at_very_many_folders(
    template: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    shutil.copytree(template, project)
    for number in range(3_000):
        os.mkdir(project / ".claude/pipeline-runs" / f"s{number}")
    for command in (("list",), ("status", "s"), ("tail", "s")):
        assert call(["-C", str(project), *command]) == 0
        assert "Traceback" not in "".join(capfd.readouterr())
