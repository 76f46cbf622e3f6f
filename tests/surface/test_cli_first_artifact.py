"""`--artifact FILE` of `agentforge run`: what it is checked against, and what is refused at the start."""

import json

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

DO = {
    "id": "do",
    "prompt": "${ITEM}",
    "delay": 0,
    "inputs": {"artifact": ["goal"]},
    "termination": {"type": "items", "from": "initial.steps"},
    "provider": {"type": "command", "run": WRITE_RESULT},
}
PLAN = {"id": "plan", "prompt": "x", "artifact": {"schema": {"type": "object"}, "version": "2.1"}}
GIVEN = {"goal": "g", "steps": [{"id": "two", "after": ["one"]}, {"id": "one"}]}


@pytest.fixture
def file(project: Project) -> str:
    (project.root / "do.yaml").write_text(json.dumps({"name": "do", "nodes": [DO]}))
    last = {**PLAN, "provider": {"type": "command", "run": WRITE_RESULT}}
    (project.root / "two.yaml").write_text(json.dumps({"name": "two", "nodes": [DO, last]}))
    return "do.yaml"


def write(project: Project, value: object) -> str:
    (project.root / "in.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return "in.json"


def test_a_run_works_through_the_items_of_the_artifact_it_was_given(project: Project, file: str) -> None:
    done = project.call("run", "-p", file, "-s", "s", "--artifact", write(project, GIVEN))
    assert done.code == 0, done.err
    events = project.events("s")
    (project.root / "in.json").unlink()
    assert events[0]["data"]["artifact"]["value"] == GIVEN
    planned = next(event["data"] for event in events if event["type"] == "items_planned")
    assert [item["id"] for item in planned["items"]] == ["one", "two"]
    assert json.loads((project.run_dir("s") / "artifact.json").read_text()) == GIVEN


def test_a_large_one_is_only_in_its_file(project: Project, file: str) -> None:
    given = {**GIVEN, "details": "x" * 70_000}
    done = project.call("run", "-p", file, "-s", "s", "--artifact", write(project, given))
    assert done.code == 0, done.err
    first = project.events("s")[0]["data"]["artifact"]
    assert "value" not in first
    content = (project.run_dir("s") / "artifact.json").read_bytes()
    assert (first["size"], json.loads(content)) == (len(content), given)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "the pipeline 'do' needs an artifact with the fields 'goal', 'steps'"),
        ("{", "the artifact in.json can't be used: $: it is not JSON"),
        ("[]", "it must be a JSON object"),
        ("[" * 100 + "]" * 100, "in.json can't be used"),
        ({**GIVEN, "goal": None}, "needs the field 'goal'"),
        ({"goal": "g"}, "needs the field 'steps'"),
        ({**GIVEN, "request_id": "x"}, "$.request_id: the engine sets this key; leave it out"),
        ({**GIVEN, "steps": [{"id": "a", "after": ["b"]}]}, "(the items of stage 'do')"),
        ({**GIVEN, "_artifact_meta": {"version": "x"}}, "_artifact_meta can't be used"),
        ({**GIVEN, "_artifact_meta": {"version": "1.0\n"}}, "_artifact_meta can't be used"),
        ({**GIVEN, "steps": [{"id": "s3cret-value-42"}]}, "got `[secret]`"),
    ],
)
def test_what_the_stages_can_not_use_is_refused_before_a_run_exists(
    project: Project, file: str, given: object, why: str
) -> None:
    options = () if given is None else ("--artifact", write(project, given))
    refused = project.call("run", "-p", file, "-s", "s", *options, env={"DEPLOY_TOKEN": "s3cret-value-42"})
    assert (refused.code, refused.out) == (2, "")
    assert why in refused.err
    assert not project.run_dir("s").exists()


@pytest.mark.parametrize(("version", "code"), [("2.0", 0), ("1.0", 2)])
def test_one_of_another_major_version_of_its_stage_is_refused(
    project: Project, file: str, version: str, code: int
) -> None:
    meta = {"_artifact_meta": {"stage": "plan", "version": version}}
    done = project.call("run", "-p", "two.yaml", "-s", "s", "--artifact", write(project, {**GIVEN, **meta}))
    if code:
        assert done.code == 2
        assert "has version 1.0, and stage 'plan' has version 2.1" in done.err
    else:
        assert project.events("s")[0]["data"]["artifact"]["version"] == "2.0"


def test_a_missing_file_is_named(project: Project, file: str) -> None:
    refused = project.call("run", "-p", file, "-s", "s", "--artifact", "none.json")
    assert refused.code == 2
    assert "the file none.json does not exist" in refused.err


def test_a_replay_has_the_request_and_the_artifact_of_the_recording(project: Project, file: str) -> None:
    pipeline = {"name": "do", "request": "required", "nodes": [DO]}
    (project.root / file).write_text(json.dumps(pipeline))
    given = ("-s", "s", "--record", "--artifact", write(project, GIVEN), "do it")
    assert project.call("run", "-p", file, *given).code == 0
    (project.root / "in.json").unlink()
    replayed = project.call("replay", "s")
    assert replayed.code == 0, replayed.err
    first = project.events("s-replay")[0]["data"]
    assert (first["user_request"], first["artifact"]["value"]) == ("do it", GIVEN)


def test_an_artifact_of_a_run_can_be_given_to_another(project: Project, file: str) -> None:
    writes = f"echo '{json.dumps(GIVEN)}' > \"$AGENTFORGE_ARTIFACT\"; {WRITE_RESULT}"
    plan = {**PLAN, "provider": {"type": "command", "run": writes}}
    (project.root / "plan.yaml").write_text(json.dumps({"name": "plan", "nodes": [plan]}))
    assert project.call("run", "-p", "plan.yaml", "-s", "first").code == 0
    shown = project.call("show", "first", "plan", "--artifacts", "-o", "plan.json")
    assert shown.code == 0, shown.err
    assert json.loads((project.root / "plan.json").read_text())["_artifact_meta"]["version"] == "2.1"
    done = project.call("run", "-p", file, "-s", "second", "--artifact", "plan.json")
    assert done.code == 0, done.err
    assert project.events("second")[0]["data"]["artifact"]["value"] == GIVEN
