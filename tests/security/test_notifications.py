"""The command of a notification runs after agents have worked in the project: it isn't theirs, and it learns
what a script of a hook learns."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.code_blocks import ROOT, code_blocks
from tests.sdk.projects import ENVIRON, engine, pipeline, run
from tests.security.confined import WORK, need_bwrap, script

from agentforge.definition.read.values import as_data
from agentforge.definition.report import Report, SourceText
from agentforge.definition.yaml_tree import parse_mapping

SECRETS = {"GITHUB_TOKEN": "ghp_0123456789", "ORDINARY": "variable"}


def ended(project: Path, *nodes: dict[str, Any], notify: object = (), **environ: str) -> None:
    async def main() -> None:
        async with engine(project, environ={**ENVIRON, **SECRETS, **environ}) as sdk:
            assert (await sdk.run(pipeline(*nodes, notify=notify), session="s")).completed

    run(main())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def documented() -> list[dict[str, Any]]:
    """The notifications of the pages that have a command."""
    found: list[dict[str, Any]] = []
    for page in ("docs/people.md", "docs/pipelines.md"):
        for block in code_blocks(page):
            if block.language == "yaml" and "notify:" in block.text:
                tree = parse_mapping(SourceText(block.place, block.text), Report())
                assert tree is not None
                given = as_data(tree, block.place, Report())["notify"]
                found += [one for one in given if "command" in one]
    return found


def test_documented_commands_are_found() -> None:
    assert len(documented()) == 2
    assert not any(one.get("in_project") for one in documented())
    assert (ROOT / "docs/people.md").read_text().count("export AGENTFORGE_NOTIFY=") == 1


LINKS = "for name in notices.jsonl notice.txt notices.txt; do ln -s ../victim $name; done\n"


@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_link_that_an_agent_left_is_not_followed(project: Path, sandbox: str) -> None:
    if sandbox == "bwrap":
        need_bwrap()
    (project.parent / "victim").write_text("")
    home = str(project.parent / "home")
    agent = script(LINKS + WORK, sandbox=sandbox)
    written = [*documented(), *({"command": f"cat >> {name}"} for name in ("notices.jsonl", "notice.txt"))]
    ended(project, agent, notify=written, HOME=home, AGENTFORGE_NOTIFY="cat >> notices.jsonl; touch was-here")
    assert (project.parent / "victim").read_text() == ""
    assert Path(home, "was-here").exists()


PLANT = """mkdir scripts; printf '#!/bin/sh\\ntouch %s/../ran\\n' "$PWD" > scripts/tell.sh
chmod +x scripts/tell.sh
"""


@pytest.mark.parametrize("way", ["notify", "variable"])
def test_a_program_that_an_agent_left_is_not_run(project: Path, way: str) -> None:
    command = "./scripts/tell.sh"
    notify = {"command": command} if way == "notify" else "desktop"
    variable = {"AGENTFORGE_NOTIFY": command} if way == "variable" else {}
    ended(project, script(PLANT + WORK, sandbox="none"), notify=notify, **variable)
    assert (project / "scripts/tell.sh").exists()
    assert not (project.parent / "ran").exists()


@pytest.mark.parametrize("where", ["outside", "in_project"])
def test_a_command_has_the_sandbox_of_the_stages(
    project: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the last one that has a sandbox: what runs after it doesn't make the project trustworthy."""
    need_bwrap()
    folder = project.parent
    tell = f"touch {folder}/out {folder}/home/out {project}/out; cp {project}/.claude/pipeline-runs/s/* ."
    told = {"command": f"{tell}; echo $(ls | wc -l) files >&2; exit 3", "in_project": where == "in_project"}
    nodes = (script(WORK, "a"), script(WORK, "b", sandbox="none"))
    with caplog.at_level(logging.WARNING):
        ended(project, *nodes, notify=[told], HOME=str(folder / "home"))
    assert list(folder.rglob("out")) == []
    assert (
        f"exit status 3: {0 if where == 'outside' else len(list(project.glob('[!.]*')))} files" in caplog.text
    )


@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_command_gets_the_variables_that_it_names(
    project: Path, sandbox: str, caplog: pytest.LogCaptureFixture
) -> None:
    if sandbox == "bwrap":
        need_bwrap()
    failing = (
        'case "$GITHUB_TOKEN$ORDINARY$AGENTFORGE_EVENT" in {expected}) exit 7;; *) env >&2; exit 8;; esac'
    )
    notify = [
        {"command": failing.format(expected="completed")},
        {"command": failing.format(expected="variablecompleted"), "environment": "ORDINARY"},
        {"command": "echo $GITHUB_TOKEN >&2; exit 9", "environment": ["GITHUB_TOKEN"]},
    ]
    with caplog.at_level(logging.WARNING):
        ended(project, script(WORK, sandbox=sandbox), notify=notify)
    failed = {text.partition("by command failed: ")[2] for text in caplog.messages}
    assert failed - {""} == {"exit status 7", "exit status 9: [secret]"}


def test_the_users_command_gets_basic_variables(project: Path) -> None:
    variable = 'echo "got $GITHUB_TOKEN$ORDINARY in $PWD" > told'
    home = project.parent / "home"
    ended(project, script(WORK, sandbox="none"), HOME=str(home), AGENTFORGE_NOTIFY=variable)
    assert (home / "told").read_text() == f"got  in {home}\n"
