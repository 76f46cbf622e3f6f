"""What a confined agent can't read: other sessions, other branches, hidden paths and sockets."""

import os
import socket
from pathlib import Path

import pytest
from tests.sdk.projects import ENVIRON, engine, iteration_dir, load, pipeline, run, run_dir
from tests.security.confined import WORK, attempts, could, need_bwrap, project_in, ran, script

from agentforge.model.status import RunStatus


@pytest.fixture(autouse=True)
def bwrap() -> None:
    need_bwrap()


LOOK = "find .claude/pipeline-runs > {name}; cat $(find .claude/pipeline-runs -type f) > {name}.text\n"


def test_other_sessions_can_not_be_read(tmp_path: Path) -> None:
    ran(tmp_path, script("echo the-secret-word\n" + WORK, sandbox="none"), session="other")
    ran(tmp_path, script(LOOK.format(name="seen") + WORK), session="mine")
    assert "other" not in (tmp_path / "seen").read_text()
    assert "the-secret-word" not in (tmp_path / "seen.text").read_text()
    assert "mine/stage-00-plan" in (tmp_path / "seen").read_text()


def test_the_log_can_not_be_locked_or_read(tmp_path: Path) -> None:
    actions = ("cat .claude/pipeline-runs/s/events.jsonl", "cat .claude/pipeline-runs/s/plan.json")
    ran(tmp_path, script(attempts(*actions)))
    assert could(tmp_path) == []


def test_earlier_stages_and_iterations_can_be_read(tmp_path: Path) -> None:
    first = script("echo from-the-first\n" + WORK, "first")
    second = script(
        "cat .claude/pipeline-runs/s/stage-00-first/iterations/001/output.md > seen; "
        "cat .claude/pipeline-runs/s/stage-01-second/iterations/001/result.json > earlier || true\n" + WORK,
        "second",
        runs=2,
    )
    assert ran(tmp_path, first, second).status is RunStatus.COMPLETED
    assert (tmp_path / "seen").read_text().strip() == "from-the-first"
    assert "done" in (tmp_path / "earlier").read_text()


def test_the_ignored_runs_stay_ignored(tmp_path: Path) -> None:
    runs = tmp_path / ".claude/pipeline-runs"
    runs.mkdir(parents=True)
    (runs / ".gitignore").write_text("*\n")
    ran(tmp_path, script("cat .claude/pipeline-runs/.gitignore > seen\n" + WORK))
    assert (tmp_path / "seen").read_text() == "*\n"


def test_other_branches_can_not_be_read(tmp_path: Path) -> None:
    wait = "echo said-by-$BRANCH; touch here-$BRANCH; until [ -e here-$OTHER ]; do sleep 0.05; done; "
    look = wait + "sleep 0.3; find .claude/pipeline-runs > seen-$BRANCH\n" + WORK
    branches = [
        {"name": name, "type": "command", "run": look, "env": {"BRANCH": name, "OTHER": other}}
        for name, other in (("one", "two"), ("two", "one"))
    ]
    block = {
        "id": "both",
        "parallel": {
            "providers": branches,
            "stages": [{"id": "work", "prompt": "x", "delay": 0, "sandbox": "bwrap"}],
        },
    }
    last = script("find .claude/pipeline-runs > seen-last\n" + WORK, "last")
    assert ran(tmp_path, block, last).status is RunStatus.COMPLETED
    for mine, other in (("one", "two"), ("two", "one")):
        seen = (tmp_path / f"seen-{mine}").read_text()
        assert f"providers/{mine}/stage-00-work" in seen
        assert f"providers/{other}" not in seen
    assert "providers/one/" in (tmp_path / "seen-last").read_text()
    assert "providers/two/" in (tmp_path / "seen-last").read_text()


def test_scripts_of_hooks_in_a_branch_can_not_read_other_branches(tmp_path: Path) -> None:
    wait = "touch here-$BRANCH; until [ -e here-$OTHER ]; do sleep 0.05; done\n"
    branches = [
        {"name": name, "type": "command", "run": wait + WORK, "env": {"BRANCH": name, "OTHER": other}}
        for name, other in (("one", "two"), ("two", "one"))
    ]
    stage = {"id": "work", "prompt": "x", "delay": 0, "sandbox": "bwrap"}
    look = 'ls .claude/pipeline-runs/s/parallel-*/providers > "$(mktemp $AGENTFORGE_EVENT.XXXXXX)"'
    points = ("parallel_provider_start", "iteration_end")
    written = pipeline(
        {"id": "both", "parallel": {"providers": branches, "stages": [stage]}},
        hooks={point: [{"action": "script", "script": look}] for point in points},
    )
    assert run(engine(tmp_path, environ=ENVIRON).run(written, session="s")).status is RunStatus.COMPLETED
    for point in points:
        seen = sorted(path.read_text() for path in tmp_path.glob(f"{point}.*"))
        assert seen == ["one\n", "two\n"]


OTHERS = (
    "cat .claude/pipeline-runs/other/events.jsonl",
    "ls .claude/pipeline-runs/other",
    "touch .claude/pipeline-runs/other/planted",
    "mkdir .claude/pipeline-runs/planted",
    "mv .claude/pipeline-runs/other .claude/pipeline-runs/elsewhere",
    "touch .claude/pipeline-runs/s/planted",
    "mkdir .claude/pipeline-runs/s/control",
    "touch .claude/pipeline-runs/s/parallel-00-both/planted",
    "touch .claude/pipeline-runs/s/parallel-00-both/providers/one/planted",
    "touch .claude/pipeline-runs/s/parallel-00-both/providers/two/planted",
    "mkdir .claude/pipeline-runs/s/parallel-00-both/providers/one/stage-00-work/iterations/009",
    "mkdir .claude/pipeline-runs/s/parallel-00-both/providers/two/stage-00-work/iterations/009",
)
SEE = "ls .claude/pipeline-runs > $(mktemp sessions.XXXXXXXX); "
SEE += "ls .claude/pipeline-runs/s/parallel-00-both/providers > $(mktemp {who}.XXXXXXXX)\n"
JUDGE = """\
#!/bin/sh
cat > prompt.$$
{looks}
echo '{{"stop": false, "reason": "more", "confidence": 0.5}}'
"""


def test_agents_and_judges_reach_no_other_session_and_no_other_branch_in_any_iteration(
    tmp_path: Path,
) -> None:
    project, programs = tmp_path / "project", tmp_path / "bin"
    project.mkdir()
    programs.mkdir()
    ran(project, script("echo the-secret-word\n" + WORK, sandbox="none"), session="other")
    judge = programs / "claude"
    tries = attempts(*OTHERS).removesuffix(WORK)
    judge.write_text(JUDGE.format(looks=tries + SEE.format(who="judge")))
    judge.chmod(0o755)
    meet = "touch here-$BRANCH; until [ -e here-$OTHER ]; do sleep 0.02; done\n"
    branches = [
        {
            "name": name,
            "type": "command",
            "env": {"BRANCH": name, "OTHER": other},
            "run": meet + SEE.format(who="worker") + attempts(*OTHERS),
        }
        for name, other in (("one", "two"), ("two", "one"))
    ]
    judged = {"type": "judgment", "max": 2, "min_iterations": 1, "consensus": 2}
    stage = {"id": "work", "prompt": "x", "delay": 0, "sandbox": "bwrap", "termination": judged}
    block = {"id": "both", "parallel": {"providers": branches, "stages": [stage]}}
    path = f"{programs}:{os.environ['PATH']}"
    assert ran(project, block, PATH=path).status is RunStatus.COMPLETED
    assert could(project) == []
    for who in ("worker", "judge"):
        seen = sorted(file.read_text() for file in project.glob(f"{who}.*"))
        assert seen == ["one\n", "one\n", "two\n", "two\n"]
    assert {file.read_text() for file in project.glob("sessions.*")} == {"s\n"}


# -- hidden paths


def hiding(*paths: str) -> dict[str, object]:
    return {"type": "bwrap", "hidden": list(paths)}


def test_the_parents_of_a_hidden_path_can_not_be_moved(tmp_path: Path) -> None:
    (tmp_path / "config/deep/secrets").mkdir(parents=True)
    (tmp_path / "config/deep/secrets/key").write_text("the-secret-word")
    actions = ("mv config config2", "mv config/deep config/deep2", "rm -r config")
    look = "grep -r the-secret-word . && echo found >> could\n"
    ended = ran(tmp_path, script(look + attempts(*actions), runs=2, sandbox=hiding("config/deep/secrets")))
    assert ended.status is RunStatus.COMPLETED
    assert could(tmp_path) == []
    assert (tmp_path / "config/deep/secrets/key").exists()


@pytest.mark.parametrize("network", ["off", "on"])
def test_sockets_of_servers_are_hidden_with_the_network(network: str) -> None:
    for folder in project_in("/srv"):
        project = folder / "project"
        project.mkdir()
        with socket.socket(socket.AF_UNIX) as outside, socket.socket(socket.AF_UNIX) as inside:
            for server, path in ((outside, folder / "outside.sock"), (inside, project / "inside.sock")):
                server.bind(str(path))
                server.listen()
                code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
                (project / f"{path.stem}.py").write_text(code)
            text = attempts("python3 outside.py", "python3 inside.py")
            ran(project, script(text, sandbox={"type": "bwrap", "network": network}))
            assert len(could(project)) == (2 if network == "on" else 0)


def test_the_iteration_has_its_files(tmp_path: Path) -> None:
    ran(tmp_path, script('cat "$(dirname "$AGENTFORGE_RESULT")/context.json" > seen\n' + WORK))
    assert load(tmp_path / "seen")["session"] == "s"
    assert load(iteration_dir(tmp_path) / "result.json")["summary"] == "done"
    assert run_dir(tmp_path).is_dir()
