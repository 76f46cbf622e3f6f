"""Where stages, prompts and pipelines are searched, and the errors if they are missing."""

import pytest

from agentforge.definition.compiler import compile_pipeline, compile_stage
from agentforge.definition.resolve import available_pipelines, available_stages
from agentforge.model.errors import DefinitionError, StorageFailed

from .world import TextWorld, linted, where

ROOTS = (
    ".claude/stages",
    "team/stages",
    "/extra",
    "/plugin/scripts/stages",
    "/builtin/stages",
)
ENVIRONMENT = {"STAGES_DIR": "/extra", "AGENT_PIPELINES_ROOT": "/plugin", "PIPELINES_DIR": "/more"}
PIPELINE = "nodes:\n  - id: n\n    stage: s\n"


def in_roots(*roots: str) -> dict[str, str]:
    return {f"{root}/s/{name}": "do it" for root in roots for name in ("prompt.md",)} | {
        f"{root}/s/stage.yaml": f"description: {root}\n" for root in roots
    }


@pytest.mark.parametrize("first", range(len(ROOTS)))
def test_stage_resolution_precedence_first_match_wins(first: int) -> None:
    world = TextWorld({"team/p.yaml": PIPELINE, **in_roots(*ROOTS[first:])}, **ENVIRONMENT)
    (node,) = compile_pipeline(world, "team/p.yaml", "x").plan.nodes
    assert node.description == ROOTS[first]
    assert node.prompt_path == f"{ROOTS[first]}/s/prompt.md"


def test_environment_folders_may_be_relative_to_the_project() -> None:
    world = TextWorld({"p.yaml": PIPELINE, **in_roots("mine")}, STAGES_DIR="./mine")
    assert compile_pipeline(world, "p.yaml", "x").plan.nodes[0].prompt_path == "mine/s/prompt.md"


def test_folders_of_unset_variables_are_not_searched() -> None:
    world = TextWorld(
        {"p.yaml": PIPELINE, "/s/prompt.md": "do it", "/scripts/stages/s/prompt.md": "do it"}, STAGES_DIR=""
    )
    with pytest.raises(DefinitionError):
        compile_pipeline(world, "p.yaml", "x")


def test_unknown_stage_lists_available_stages_and_searched_folders() -> None:
    files = {"p.yaml": PIPELINE.replace("stage: s", "stage: improv-plan")}
    files |= {".claude/stages/improve-plan/prompt.md": "do it", "/builtin/stages/work/prompt.md": "do it"}
    (diagnostic,) = linted(TextWorld(files), "p.yaml")
    assert where(diagnostic) == "unknown-stage 3:12"
    assert diagnostic.message == (
        "no stage named `improv-plan`; searched .claude/stages/improv-plan, stages/improv-plan, "
        "/builtin/stages/improv-plan"
    )
    assert diagnostic.hint == "did you mean `improve-plan`? stages: improve-plan, work"


def test_unknown_stage_without_any_stages() -> None:
    (diagnostic,) = linted(TextWorld({"p.yaml": PIPELINE}), "p.yaml")
    assert diagnostic.hint == "no stages exist yet"


def test_long_lists_are_cut() -> None:
    files = {f".claude/stages/k{n:02}/prompt.md": "do it" for n in range(20)}
    (diagnostic,) = linted(TextWorld({"p.yaml": PIPELINE, **files}), "p.yaml")
    assert diagnostic.hint.endswith("k11, and 8 more")


@pytest.mark.parametrize(
    ("named", "files", "expected"),
    [
        (None, ["prompt.md"], "prompt.md"),
        (None, ["prompts/prompt.md", "prompt.md"], "prompts/prompt.md"),
        ("other.md", ["other.md", "prompt.md"], "other.md"),
        ("other", ["other.md", "prompts/other.md"], "other.md"),
        ("other", ["prompts/other.md", "prompt.md"], "prompts/other.md"),
        ("other.md", ["prompts/other.md", "prompt.md"], "prompts/other.md"),
        ("./other", ["other.md"], "other.md"),
        ("prompts/a", ["prompts/a.md", "prompt.md"], "prompts/a.md"),
        ("../shared/a.md", ["../shared/a.md", "prompt.md"], "../shared/a.md"),
        ("/else/a.md", ["/else/a.md", "prompt.md"], "/else/a.md"),
    ],
)
def test_stage_prompt_resolution(named: str | None, files: list[str], expected: str) -> None:
    folder = ".claude/stages/s"
    yaml = f"prompt: {named}\n" if named else "delay: 0\n"
    texts = {name if name.startswith("/") else f"{folder}/{name}": "do it" for name in files}
    texts = {path.replace("stages/s/../", "stages/"): text for path, text in texts.items()}
    world = TextWorld({"p.yaml": PIPELINE, f"{folder}/stage.yaml": yaml, **texts})
    result = compile_pipeline(world, "p.yaml", "x")
    path = expected if expected.startswith("/") else f"{folder}/{expected}"
    assert result.plan.nodes[0].prompt_path == path.replace("stages/s/../", "stages/")
    assert result.warnings == ()


def test_named_prompt_that_is_missing_falls_back_with_a_warning() -> None:
    files = {".claude/stages/s/stage.yaml": "prompt: nope.md\n", ".claude/stages/s/prompt.md": "do it"}
    result = compile_pipeline(TextWorld({"p.yaml": PIPELINE, **files}), "p.yaml", "x")
    (diagnostic,) = result.warnings
    assert result.plan.nodes[0].prompt_path == ".claude/stages/s/prompt.md"
    assert where(diagnostic) == "missing-prompt 1:9"
    assert "prompts/nope.md.md" in diagnostic.hint


def test_missing_prompt_lists_every_path_searched() -> None:
    files = {".claude/stages/s/stage.yaml": "prompt: nope\n"}
    (diagnostic,) = linted(TextWorld({"p.yaml": PIPELINE, **files}), "p.yaml")
    assert diagnostic.place.file == ".claude/stages/s/stage.yaml"
    assert where(diagnostic) == "missing-prompt 1:9"
    folder = ".claude/stages/s"
    for path in ("nope", "nope.md", "prompts/nope", "prompts/nope.md", "prompts/prompt.md", "prompt.md"):
        assert f"{folder}/{path}" in diagnostic.message


def test_missing_prompt_without_a_name_points_at_the_node() -> None:
    (diagnostic,) = linted(
        TextWorld({"p.yaml": PIPELINE, ".claude/stages/s/stage.yaml": "delay: 1\n"}), "p.yaml"
    )
    assert diagnostic.place.file == "p.yaml"
    assert where(diagnostic) == "missing-prompt 3:12"


def test_inline_prompt_needs_no_file() -> None:
    files = {"p.yaml": PIPELINE + "    prompt: hello\n", ".claude/stages/s/stage.yaml": "delay: 1\n"}
    (node,) = compile_pipeline(TextWorld(files), "p.yaml", "x").plan.nodes
    assert (node.prompt, node.prompt_path, node.ref, node.delay) == ("hello", None, "s", 1.0)


def test_stage_without_yaml_is_a_prompt() -> None:
    (node,) = compile_stage(TextWorld({".claude/stages/s/prompt.md": "x"}), "s", "x").plan.nodes
    assert node.prompt_path == ".claude/stages/s/prompt.md"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("own.yaml", "own.yaml"),
        ("./team/own.yaml", "team/own.yaml"),
        ("/elsewhere/own.yaml", "/elsewhere/own.yaml"),
        ("flow", ".claude/pipelines/flow.yaml"),
        ("other", ".claude/pipelines/other.yml"),
        ("more", "/more/more.yaml"),
        ("plug", "/plugin/scripts/pipelines/plug.yaml"),
        ("shipped", "/builtin/pipelines/shipped.yaml"),
    ],
)
def test_pipeline_lookup_by_path_and_name(name: str, path: str) -> None:
    paths = ["own.yaml", "team/own.yaml", "/elsewhere/own.yaml", ".claude/pipelines/flow.yaml"]
    paths += (".claude/pipelines/other.yml", "/more/more.yaml", "/plugin/scripts/pipelines/plug.yaml")
    files = dict.fromkeys(
        (*paths, "/builtin/pipelines/shipped.yaml", "/builtin/pipelines/flow.yaml"), PIPELINE
    )
    world = TextWorld({**files, ".claude/stages/s/prompt.md": "do it"}, **ENVIRONMENT)
    assert compile_pipeline(world, name, "x").plan.source.path == path


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("shipped.yaml", "for the pipeline named `shipped`, leave out the ending"),
        ("team/shipped.yml", "for the pipeline named `shipped`, leave out the ending"),
        ("team/shipped", "for the pipeline named `shipped`, leave out the ending"),
        ("team/none.yaml", "check the path"),
    ],
)
def test_path_of_a_missing_pipeline_file_finds_no_pipeline_of_that_name(path: str, hint: str) -> None:
    world = TextWorld({"/builtin/pipelines/shipped.yaml": PIPELINE})
    (diagnostic,) = linted(world, path, "pipeline")
    assert (diagnostic.message, diagnostic.hint) == (f"no pipeline file `{path}`", hint)


def test_unknown_pipeline_suggests_the_closest() -> None:
    (diagnostic,) = linted(TextWorld({".claude/pipelines/refine.yaml": PIPELINE}), "refin", "pipeline")
    assert diagnostic.code == "unknown-pipeline"
    assert diagnostic.hint == "did you mean `refine`? pipelines: refine"
    assert diagnostic.text == "refin"


def test_stages_beside_the_pipeline_file_and_from_the_project_for_inline_text() -> None:
    world = TextWorld({"stages/s/prompt.md": "do it"})
    assert compile_pipeline(world, PIPELINE, "x").plan.nodes[0].prompt_path == "stages/s/prompt.md"


def test_lint_takes_a_pipeline_before_a_stage_and_reports_both_kinds() -> None:
    world = TextWorld(
        {".claude/pipelines/a.yaml": "nodes: []\n", ".claude/stages/a/stage.yaml": "delay: -1\n"}
    )
    assert [where(d) for d in linted(world, "a")] == ["empty-pipeline 1:8"]
    assert [where(d) for d in linted(world, "a", "stage")] == ["missing-prompt 1:1", "bad-value 1:8"]
    assert {d.place.file for d in linted(world, "a", "stage")} == {".claude/stages/a/stage.yaml"}
    assert [d.code for d in linted(world, "b")] == ["unknown-stage"]
    assert [d.code for d in linted(world, "../b")] == ["unknown-pipeline"]


def test_lint_of_something_right_is_empty() -> None:
    assert linted(TextWorld({".claude/stages/a/prompt.md": "do it"}), "a") == []


def test_available_stages_and_pipelines_with_descriptions() -> None:
    files = {
        ".claude/stages/a/stage.yaml": "description: |\n  First\n  one\n",
        "/builtin/stages/a/stage.yaml": "description: hidden\n",
        "/builtin/stages/b/prompt.md": "do it",
        "/builtin/stages/c/notes.txt": "no stage",
        ".claude/pipelines/x.yaml": "description: X\n",
        ".claude/pipelines/broken.yaml": "[",
        ".claude/pipelines/list.yaml": "description: [x]\n",
        ".claude/pipelines/readme.md": "no pipeline",
    }
    world = TextWorld(files)
    assert [(s.name, s.description, s.path) for s in available_stages(world)] == [
        ("a", "First one", ".claude/stages/a"),
        ("b", "", "/builtin/stages/b"),
    ]
    assert [(p.name, p.description, p.path) for p in available_pipelines(world)] == [
        ("broken", "", ".claude/pipelines/broken.yaml"),
        ("list", "", ".claude/pipelines/list.yaml"),
        ("x", "X", ".claude/pipelines/x.yaml"),
    ]


class UnreadableWorld(TextWorld):
    """Files whose text is "unreadable" can't be read."""

    def read(self, path: str) -> str | None:
        text = super().read(path)
        if text == "unreadable":
            raise StorageFailed(f"{path}: is a link that leads outside the workspace", hint="replace it")
        return text


def test_definition_that_can_not_be_read_is_listed_and_reported() -> None:
    world = UnreadableWorld(
        {".claude/stages/s/stage.yaml": "unreadable", ".claude/pipelines/p.yaml": "unreadable"}
    )
    assert [found.name for found in available_stages(world)] == ["s"]
    assert [found.name for found in available_pipelines(world)] == ["p"]
    for name, kind, path in (("s", "stage", "stages/s/stage.yaml"), ("p", "pipeline", "pipelines/p.yaml")):
        (diagnostic,) = linted(world, name, kind)  # type: ignore[arg-type]
        assert (diagnostic.code, diagnostic.hint) == ("unreadable", "replace it")
        assert f".claude/{path}: is a link" in diagnostic.message
