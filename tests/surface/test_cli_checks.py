"""lint, schema, stages, pipelines: what there is here, and what is wrong with it."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from tests.definition.test_schema import loaded
from tests.surface.terminal import WRITE_RESULT, Project

BUILTIN = Path(__file__).resolve().parents[2] / "src" / "agentforge" / "builtin"


def test_lint_prints_every_diagnostic_and_a_summary(project: Project) -> None:
    project.stage("good", "description: fine\nprovider: mock\n")
    project.stage("bad", "provider: mock\ntermination: {type: fixed, iterations: -1}\nprompt: nosuch.md\n")
    done = project.call("lint")
    assert done.code == 2
    assert done.out.startswith("  stage bad\n    [FAIL] Validation failed\n    [ERROR] ")
    assert "  stage good\n    [PASS] No problems found\n" in done.out
    assert done.lines[-1] == "Summary: 2 targets, 1 passed, 1 failed"
    assert "^" in done.out
    as_json = project.call("lint", "--json")
    assert (as_json.json["passed"], as_json.json["failed"]) == (1, 1)
    assert as_json.json["targets"][0]["diagnostics"][0]["place"]["line"] == 2


def test_lint_reads_the_pipelines_in_the_project_folder_and_says_what_it_read(project: Project) -> None:
    project.stage("change", "provider: mock\n")
    (project.root / ".claude" / "pipelines").mkdir()
    (project.root / ".claude" / "pipelines" / "change.yaml").write_text("nodes: [{id: a, stage: change}]\n")
    (project.root / "tidy.yaml").write_text("nodes:\n  - {id: a, prompt: x, provider: mock, runz: 2}\n")
    (project.root / "docker-compose.yml").write_text("services: {web: {image: nginx}}\n")
    (project.root / "kind.yaml").write_text("nodes: [{role: worker}]\n")
    (project.root / "draft.yaml").touch()
    done = project.call("lint")
    assert done.code == 2
    assert "tidy.yaml:2:40: unknown-key: unknown key `runz` in node" in done.out
    names = ["  stage change", "  pipeline change", "  pipeline tidy.yaml"]
    assert [line for line in done.lines if line.startswith("  ") and line[2] != " "] == names
    assert done.lines[-3:] == [
        "Read: .claude/stages, .claude/pipelines, .agentforge/providers, settings, and the pipelines in the "
        "project's folder. Other files: agentforge lint FILE",
        "Not read: draft.yaml (empty); docker-compose.yml (no `nodes`); kind.yaml (no node with `stage`, "
        "`prompt`, `parallel` or `pipeline`)",
        "Summary: 3 targets, 2 passed, 1 failed",
    ]
    unread = project.call("lint", "--json").json["unread"]
    assert {"file": "draft.yaml", "reason": "empty"} in unread


def test_a_pipeline_whose_nodes_are_misspelt_is_an_error(project: Project) -> None:
    (project.root / "tidy.yaml").write_text("name: tidy\nnodez:\n  - {id: a, prompt: x, provider: mock}\n")
    done = project.call("lint")
    assert done.code == 2
    assert "tidy.yaml:2:1: unknown-key: unknown key `nodez` in pipeline" in done.out
    assert "did you mean `nodes`?" in done.out


def test_lint_takes_a_kind_a_name_or_a_file(project: Project) -> None:
    project.stage("good", "provider: mock\n")
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("lint", "loop", "good").code == 0
    assert project.call("lint", "loop").lines[-1] == "Summary: 1 target, 1 passed, 0 failed"
    assert project.call("lint", "pipeline", file).lines == [
        "  pipeline p.yaml",
        "    [PASS] No problems found",
        "Summary: 1 target, 1 passed, 0 failed",
    ]
    assert project.call("lint", file).code == 0
    missing = project.call("lint", "pipeline", "nosuch")
    assert missing.code == 2
    assert missing.err.startswith("Error: no pipeline named `nosuch`\n  hint: pipelines: ")
    assert project.call("lint", "nosuch").code == 2
    assert "expected `loop` or `pipeline`" in project.call("lint", "nosuch").err


HOOKED = """\
hooks:
  iteration_end:
    - {stage: build, action: script, script: "true", condition: iteration%3==0}
nodes:
  - {id: build, prompt: x, provider: mock}
"""


def test_lint_and_dry_run_show_the_hooks(project: Project) -> None:
    (project.root / "hooked.yaml").write_text(HOOKED)
    shown = "hook iteration_end-1: script at iteration_end of build, if iteration % 3 == 0"
    assert project.call("lint", "hooked.yaml").lines == [
        "  pipeline hooked.yaml",
        "    [PASS] No problems found",
        f"    {shown}",
        "Summary: 1 target, 1 passed, 0 failed",
    ]
    (target,) = project.call("lint", "hooked.yaml", "--json").json["targets"]
    assert target["hooks"] == [
        {
            "id": "iteration_end-1",
            "point": "iteration_end",
            "action": "script",
            "stage": "build",
            "condition": "iteration % 3 == 0",
        }
    ]
    lines = project.call("dry-run", "hooked.yaml").lines
    assert lines[lines.index("## Hooks") + 2 :][:3] == [
        "### iteration_end-1: script",
        "- When: iteration_end of build",
        "- Condition: iteration % 3 == 0",
    ]


def test_lint_strict_counts_warnings(project: Project) -> None:
    project.stage("odd", "provider: mock\nno_such_key: 1\n")
    lenient = project.call("lint", "loop", "odd")
    assert lenient.code == 0
    assert "[PASS] Passed, with warnings" in lenient.out
    assert "[WARN] " in lenient.out
    assert project.call("lint", "loop", "odd", "--strict").code == 2


def test_lint_warns_of_a_stage_with_the_name_of_a_command(project: Project) -> None:
    for name in ("runs", "status", "test"):
        project.stage(name, "provider: mock\n")
    targets = project.call("lint", "loop", "--json").json["targets"]
    codes = {one["name"]: [found["code"] for found in one["diagnostics"]] for one in targets}
    assert codes == {"runs": ["hidden-by-verb"], "status": ["hidden-by-verb"], "test": ["hidden-by-verb"]}
    lines = project.call("lint", "loop", "status").lines
    assert any(".claude/stages/status/stage.yaml:1:1" in line for line in lines)
    assert any("run the stage as `loop status`, or rename its folder" in line for line in lines)


def test_lint_checks_what_the_machine_lacks_unless_it_is_static(project: Project) -> None:
    project.stage("tidy", "provider: codex\n")
    (project.root / ".agentforge/providers").mkdir(parents=True)
    (project.root / ".agentforge/providers/mine.yaml").write_text("program: sh\n")
    done = project.call("lint")
    assert done.code == 2
    assert "[ERROR] .claude/stages/tidy/stage.yaml:1:11: provider-unusable: Codex CLI not found." in done.out
    hint = "To validate only the files: agentforge lint --static\n"
    assert done.err.endswith(hint)
    static = project.call("lint", "--static", "--json")
    assert static.code == 0
    kinds = [(target["name"], target["kind"]) for target in static.json["targets"]]
    assert kinds == [("tidy", "stage"), (".agentforge/providers/mine.yaml", "provider")]


def test_lint_of_an_empty_project_prints_a_message(project: Project) -> None:
    done = project.call("lint")
    assert done.code == 0
    assert done.lines[-1] == "Summary: 0 targets, 0 passed, 0 failed"


@pytest.mark.parametrize(
    ("words", "title", "key"),
    [
        ((), "AgentForge pipeline", "nodes"),
        (("pipeline",), "AgentForge pipeline", "nodes"),
        (("stage",), "AgentForge stage", "prompt"),
        (("stage", "--json"), "AgentForge stage", "prompt"),
    ],
)
def test_schema_prints_json_schema(project: Project, words: tuple[str, ...], title: str, key: str) -> None:
    done = project.call("schema", *words)
    assert (done.code, done.err) == (0, "")
    printed = json.loads(done.out)
    Draft7Validator.check_schema(printed)
    assert printed["title"] == title
    assert printed["properties"][key]["description"]


def test_the_printed_schema_accepts_every_built_in_definition_and_refuses_mistakes(project: Project) -> None:
    pipeline = Draft7Validator(json.loads(project.call("schema").out))
    stage = Draft7Validator(json.loads(project.call("schema", "stage").out))
    pipelines, stages = [*BUILTIN.glob("pipelines/*.yaml")], [*BUILTIN.glob("stages/*/stage.yaml")]
    assert pipelines
    assert stages
    for path in pipelines:
        pipeline.validate(loaded(path.read_text()))
    for path in stages:
        stage.validate(loaded(path.read_text()))
    assert stage.is_valid({"timeout": 5})
    assert not stage.is_valid({"timeout": "soon"})
    assert not stage.is_valid({"timeuot": 5})
    assert stage.is_valid({"ticket": 5})


def test_schema_of_another_word_is_a_usage_error(project: Project) -> None:
    done = project.call("schema", "node")
    assert (done.code, done.out) == (2, "")
    assert "unknown schema 'node'; choose `pipeline`, `stage`, `settings` or `template`" in done.err


def test_stages_and_pipelines_are_listed(project: Project) -> None:
    project.stage("tidy", "description: tidies up\n")
    listed = [line.split(maxsplit=1) for line in project.call("stages").lines]
    assert ["tidy", "tidies up"] in listed
    assert "tidy" in [stage["name"] for stage in project.call("stages", "--json").json]
    folder = project.root / ".claude" / "pipelines"
    folder.mkdir()
    (folder / "ship.yaml").write_text("name: ship\ndescription: ships it\nnodes: []\n")
    listed = [line.split(maxsplit=1) for line in project.call("pipelines").lines]
    assert ["ship", "ships it"] in listed
