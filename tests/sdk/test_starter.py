"""The first files of a project fit it, pass lint, replace nothing and are written inside the project only."""

import os
import stat
from pathlib import Path

import pytest

from agentforge import Definitions, StorageFailed, copy_pipeline, examine_project, init_project
from agentforge.app.starter import IGNORED
from agentforge.model.errors import InvalidRequest

PYTEST = "[project]\nname = 'x'\n[dependency-groups]\ndev = ['pytest']\n"
NPM = '{"scripts": {"test": "vitest run"}}'
REPOSITORIES: dict[str, tuple[dict[str, str], str, str]] = {
    "pytest": ({"pyproject.toml": PYTEST}, "Python", "pytest -q"),
    "pytest with uv": ({"pyproject.toml": PYTEST, "uv.lock": ""}, "Python", "uv run pytest -q"),
    "pytest by conftest": ({"setup.py": "", "tests/conftest.py": "#"}, "Python", "pytest -q"),
    "unittest": ({"setup.py": "", "tests/test_a.py": ""}, "Python", "python3 -m unittest discover tests"),
    "python without tests": ({"setup.py": ""}, "Python", ""),
    "npm": ({"package.json": NPM}, "JavaScript", "npm test"),
    "typescript": ({"package.json": NPM, "tsconfig.json": "{}"}, "TypeScript", "npm test"),
    "yarn": ({"package.json": NPM, "yarn.lock": ""}, "JavaScript", "yarn test"),
    "pnpm": ({"package.json": NPM, "pnpm-lock.yaml": ""}, "JavaScript", "pnpm test"),
    "no script": ({"package.json": "{}"}, "JavaScript", ""),
    "npm's example": (
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        "JavaScript",
        "",
    ),
    "go": ({"go.mod": "module x"}, "Go", "go test ./..."),
    "rust": ({"Cargo.toml": "[package]"}, "Rust", "cargo test"),
    "maven": ({"pom.xml": "<project/>"}, "Java", "mvn -q test"),
    "maven wrapper": ({"pom.xml": "<project/>", "mvnw": ""}, "Java", "./mvnw -q test"),
    "gradle": ({"build.gradle.kts": "", "gradlew": ""}, "Java", "./gradlew test"),
    "rspec": ({"Gemfile": "", "spec/a_spec.rb": ""}, "Ruby", "bundle exec rspec"),
    "rake": ({"Gemfile": "", "Rakefile": ""}, "Ruby", "bundle exec rake test"),
    "makefile": ({"Makefile": "all:\ntest: all\n\ttrue\n"}, "", "make test"),
    "makefile of a language": ({"Makefile": "test:\n", "go.mod": "module x"}, "Go", "make test"),
    "makefile without tests": ({"Makefile": "all:\ntest := 1\n"}, "", ""),
    "unknown": ({"notes.txt": "hello"}, "", ""),
    "empty": ({}, "", ""),
}


def repository(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize("name", REPOSITORIES)
def test_files_fit_the_repository_and_pass_lint(name: str, tmp_path: Path) -> None:
    files, language, test = REPOSITORIES[name]
    survey = examine_project(repository(tmp_path, files), {})
    assert (survey.language, survey.test) == (language, test)
    made = init_project(tmp_path, environ={})
    assert (made.agent, made.test, len(made.created)) == ("claude", test, 4)
    found = Definitions(tmp_path, {}).lint_all()
    assert [(linted.name, linted.diagnostics) for linted in found] == [("change", ())] * 2
    pipeline = (tmp_path / ".claude/pipelines/change.yaml").read_text()
    assert ("- name: test" in pipeline, f"          {test}\n" in pipeline) == (bool(test), bool(test))
    assert (f"`{test}`" in (tmp_path / ".claude/stages/change/prompt.md").read_text()) == bool(test)


@pytest.mark.parametrize("test", ["a | b: c # d", "echo '${X} {y} `date`' \"\\n\"", "- x", "x" * 500])
def test_any_test_command_is_kept_as_it_is(test: str, tmp_path: Path) -> None:
    init_project(tmp_path, test=test, environ={})
    assert all(linted.passed for linted in Definitions(tmp_path, {}).lint_all())
    assert f"          {test}\n" in (tmp_path / ".claude/pipelines/change.yaml").read_text()


@pytest.mark.parametrize("test", ["a\nb", "\x1b[2J", "x" * 501])
def test_a_test_command_that_is_not_a_line_is_refused(test: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="one short line"):
        init_project(tmp_path, test=test, environ={})
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no agent named 'nobody'"):
        init_project(tmp_path, agent="nobody", environ={})


# -- agents


def put_program(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ntouch {folder}/started\n")
    (folder / name).chmod(0o755)


def test_the_agent_that_is_logged_in_is_used(tmp_path: Path) -> None:
    project, programs = tmp_path / "project", tmp_path / "bin"
    project.mkdir()
    put_program(programs, "claude")
    put_program(programs, "codex")
    environ = {"PATH": str(programs), "HOME": str(tmp_path), "OPENAI_API_KEY": "sk-not-shown"}
    survey = examine_project(project, environ)
    assert survey.usable == ("codex",)
    assert "sk-not-shown" not in repr(survey)
    init_project(project, environ=environ)
    assert "provider: codex\n" in (project / ".claude/pipelines/change.yaml").read_text()
    assert not (programs / "started").exists()


def test_a_program_of_the_repository_is_not_an_agent(tmp_path: Path) -> None:
    put_program(tmp_path / "bin", "claude")
    path = f"{tmp_path}/bin:bin:."
    survey = examine_project(tmp_path, {"PATH": path, "ANTHROPIC_API_KEY": "x", "HOME": str(tmp_path)})
    assert survey.usable == ()


# -- nothing is overwritten


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    first = init_project(tmp_path, environ={})
    (tmp_path / ".claude/pipelines/change.yaml").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    second = init_project(tmp_path, environ={})
    assert (second.created, second.kept, second.ignores) == ((), first.created, ())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_stage_of_the_same_name_gets_no_file_more(tmp_path: Path) -> None:
    repository(tmp_path, {".claude/stages/change/prompts/prompt.md": "mine"})
    kept = init_project(tmp_path, environ={}).kept
    assert kept == (".claude/stages/change/prompt.md", ".claude/stages/change/stage.yaml")
    assert os.listdir(tmp_path / ".claude/stages/change") == ["prompts"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "# AgentForge: runs and their locks\n{all}"),
        ("*.pyc\n", "*.pyc\n\n# AgentForge: runs and their locks\n{all}"),
        ("*.pyc", "*.pyc\n\n# AgentForge: runs and their locks\n{all}"),
        (".claude/locks\n", ".claude/locks\n\n# AgentForge: runs and their locks\n{rest}"),
    ],
)
def test_missing_lines_are_added_to_gitignore(before: str | None, after: str, tmp_path: Path) -> None:
    path = tmp_path / ".gitignore"
    if before is not None:
        path.write_text(before)
        path.chmod(0o640)
    added = init_project(tmp_path, environ={}).ignores
    every = "".join(f"{line}\n" for line in IGNORED)
    assert path.read_text() == after.format(all=every, rest=every.replace("/.claude/locks/\n", ""))
    assert set(added) <= set(IGNORED)
    if before is not None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert init_project(tmp_path, environ={}).ignores == ()


def test_line_ends_and_bytes_of_gitignore_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xff*.o\r\n")
    init_project(tmp_path, environ={})
    content = (tmp_path / ".gitignore").read_bytes()
    assert content.startswith(b"\xff*.o\r\n\r\n# AgentForge")
    assert content.count(b"\n") == content.count(b"\r\n")


# -- a copy of a built-in pipeline


@pytest.mark.parametrize(("name", "copy"), [("", "loop"), ("mine", "mine")])
def test_copied_pipeline_is_complete_and_passes_lint(name: str, copy: str, tmp_path: Path) -> None:
    created = copy_pipeline(tmp_path, "loop", name)
    assert created[-1] == f".claude/pipelines/{copy}.yaml"
    folder = tmp_path / ".claude/pipelines" / copy
    assert len(created) == len(os.listdir(folder)) + 1
    (linted,) = Definitions(tmp_path, {}).lint_all()
    assert (linted.name, linted.diagnostics) == (copy, ())
    assert linted.plan is not None
    assert {os.path.dirname(node.prompt_path or "") for node in linted.plan.stages} == {
        f".claude/pipelines/{copy}"
    }
    with pytest.raises(InvalidRequest, match=f"{copy}.yaml exists"):
        copy_pipeline(tmp_path, "loop", name)


def test_only_built_in_pipelines_are_copied_and_only_to_names(tmp_path: Path) -> None:
    for pipeline, name in (("lop", ""), ("../x", ""), ("loop", "../x"), ("loop", ".x"), ("loop", "a b")):
        with pytest.raises(InvalidRequest):
            copy_pipeline(tmp_path, pipeline, name)
    assert list(tmp_path.iterdir()) == []


# -- a hostile repository


@pytest.mark.parametrize(
    "package",
    ["[" * 100_000, '{"scripts": {"test": ["x"]}}', '{"scripts": []}', "\0", '{"scripts": {"test": " "}}'],
)
def test_an_odd_package_file_has_no_test_command(package: str, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text(package)
    assert examine_project(tmp_path, {}).test == ""


def test_odd_files_are_passed_over(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.write_text("test:\n\trm -rf /\n")
    (project / "Makefile").symlink_to(outside)
    os.mkfifo(project / "package.json")
    (project / "pyproject.toml").mkdir()
    survey = examine_project(project, {})
    assert (survey.language, survey.test) == ("Python", "")


@pytest.mark.parametrize("link", [".claude", ".claude/stages", ".claude/pipelines", ".agentforge"])
def test_no_link_is_followed(link: str, tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / link).parent.mkdir(parents=True)
    outside.mkdir()
    (project / link).symlink_to(outside)
    with pytest.raises(StorageFailed) as refused:
        init_project(project, environ={})
    assert link in refused.value.message
    assert refused.value.hint == "correct this, then run `agentforge init` again"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("target", ["file", "nothing"])
def test_a_gitignore_that_is_a_link_is_refused_before_anything_is_written(
    target: str, tmp_path: Path
) -> None:
    project, outside = tmp_path / "project", tmp_path / "file"
    project.mkdir()
    outside.write_text("mine\n")
    (project / ".gitignore").symlink_to(tmp_path / target)
    with pytest.raises(StorageFailed, match="gitignore"):
        init_project(project, environ={})
    assert outside.read_text() == "mine\n"
    assert os.listdir(project) == [".gitignore"]


def test_a_link_in_the_place_of_a_file_is_kept(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".claude/pipelines").mkdir(parents=True)
    (project / ".claude/pipelines/change.yaml").symlink_to(tmp_path / "elsewhere")
    assert init_project(project, environ={}).kept == (".claude/pipelines/change.yaml",)
    assert not (tmp_path / "elsewhere").exists()
