"""What compiling gives: the plan's fields, from a file, a text, a mapping or a single stage."""

from datetime import UTC, datetime
from hashlib import sha256

import msgspec
import pytest

from agentforge.definition.compiler import Compiled, compile_pipeline, compile_stage, default_session
from agentforge.model.errors import DefinitionError, InvalidSession
from agentforge.model.plan import Guardrails, Overrides, Plan

from .world import TextWorld, compiled, plan, stage

TEXT = "name: refine\nnodes:\n  - id: n\n    stage: s\n"


def test_plan_json_has_the_fields_of_schema_v1() -> None:
    data = msgspec.to_builtins(plan(TEXT))
    assert data["version"] == 1
    assert data["mode"] == "pipeline"
    assert data["source"] == {"path": "p.yaml", "sha256": sha256(TEXT.encode()).hexdigest()}
    assert data["session"]["name"] == "session"
    assert data["pipeline"] == {"name": "refine", "overrides": {}, "commands": {}}
    assert data["dependencies"] == {"jq": True, "yq": True, "tmux": True, "bd": False}
    assert data["nodes"][0] == {
        "kind": "stage",
        "path": "0",
        "id": "n",
        "stage": "s",
        "runs": 1,
        "termination": {"type": "fixed", "max": 1},
        "inputs": {},
        "provider": {"type": "claude", "model": "opus"},
        "ref": "s",
        "prompt_path": ".claude/stages/s/prompt.md",
        "prompt": "do it",
    }


def test_a_plan_survives_its_own_json() -> None:
    text = (
        "name: p\ndescription: d\ninputs: ['*.yaml']\nguardrails: {max_runtime_seconds: 60}\n"
        "commands: {t: x}\nnodes:\n  - id: n\n    stage: s\n"
        "    provider: {type: command, argv: [a], deep: {x: [1, 2.5, null]}}\n"
        "    retry: {max_attempts: 3}\n    inputs: {from_initial: true}\n"
    )
    written = plan(text)
    assert msgspec.json.decode(msgspec.json.encode(written), type=Plan) == written


def test_old_keys_give_the_same_plan_as_new_ones() -> None:
    old = "name: refine\nstages:\n  - name: n\n    loop: s\n"
    new, former = msgspec.to_builtins(plan(TEXT)), msgspec.to_builtins(plan(old))
    assert former["nodes"] == new["nodes"]


def test_id_wins_over_name_and_stage_over_loop() -> None:
    (node,) = plan("nodes: [{id: a, name: b, stage: s, loop: t}]\n").nodes
    assert (node.id, node.stage) == ("a", "s")


def test_nodes_are_numbered_in_order() -> None:
    nodes = plan("nodes: [{id: a, stage: s}, {id: b, prompt: hi}, {id: 7, stage: s}]\n").nodes
    assert [(node.path, node.id, node.stage, node.ref) for node in nodes] == [
        ("0", "a", "s", "s"),
        ("1", "b", "b", None),
        ("2", "7", "s", "s"),
    ]


def test_plain_words_stay_as_written() -> None:
    text = "name: on\ndescription: yes\ncommands: {a: 1, b: true}\n"
    text += "nodes: [{id: n, stage: s, context: 2026-01-01}]\n"
    result = plan(text)
    assert (result.pipeline.name, result.pipeline.description) == ("on", "yes")
    assert result.pipeline.commands == {"a": "1", "b": "true"}
    assert result.nodes[0].context == "2026-01-01"


def test_name_of_the_stage_where_it_differs_from_its_folder() -> None:
    files = {".claude/stages/s/stage.yaml": "name: other\n"}
    assert plan(TEXT, files).nodes[0].name == "other"
    assert plan(TEXT).nodes[0].name is None


def test_pipeline_guardrails_and_tmux() -> None:
    result = plan(f"tmux: false\nguardrails: {{max_runtime_seconds: 99}}\n{TEXT}")
    assert result.pipeline.guardrails == Guardrails(99)
    assert result.dependencies["tmux"] is False


def test_overrides_are_in_the_plan() -> None:
    overrides = Overrides("codex", "m", "c", ("a.md",), {"test": "x"})
    world = TextWorld({"p.yaml": TEXT, "a.md": "", **stage()})
    result = compile_pipeline(world, "p.yaml", "x", overrides).plan
    assert result.pipeline.overrides == overrides
    assert result.pipeline.commands == {}
    assert result.nodes[0].commands == {"test": "x"}


def test_a_command_line_carried_by_the_environment_counts_as_overrides() -> None:
    environment = {f"PIPELINE_CLI_{name}": name.lower() for name in ("PROVIDER", "MODEL", "CONTEXT")}
    result = plan(TEXT, {"a.md": ""}, PIPELINE_CLI_INPUTS='["a.md"]', **environment)
    assert result.pipeline.overrides == Overrides("provider", "model", "context", ("a.md",))
    assert result.session.inputs == ("/project/a.md",)


def test_inputs_are_absolute_sorted_and_each_once() -> None:
    files = {"docs/b.md": "", "docs/a.md": "", "top.md": "", "p.yaml": f"inputs: [docs/b.md, docs]\n{TEXT}"}
    world = TextWorld({**files, **stage()})
    result = compile_pipeline(world, "p.yaml", "x", Overrides(inputs=("top.md", "docs/*.md"))).plan
    assert result.session.inputs == ("/project/docs/a.md", "/project/docs/b.md", "/project/top.md")
    assert result.pipeline.inputs == ("docs/b.md", "docs")


def test_a_single_input_needs_no_list() -> None:
    assert plan(f"inputs: a.md\n{TEXT}", {"a.md": ""}).session.inputs == ("/project/a.md",)


def test_timestamps_are_whole_seconds_of_now() -> None:
    result = plan(TEXT)
    assert result.compiled_at == result.session.created_at == datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-01-14T00:00:00Z", "2026-01-14T01:00:00+01:00", "2026-01-14T00:00:00"])
def test_timestamps_fixed_by_the_environment(text: str) -> None:
    result = plan(TEXT, COMPILE_TIMESTAMP=text, SESSION_CREATED_AT="2026-01-13T00:00:00Z")
    assert msgspec.to_builtins(result)["compiled_at"] == "2026-01-14T00:00:00Z"
    assert msgspec.to_builtins(result)["session"]["created_at"] == "2026-01-13T00:00:00Z"


def test_the_same_definition_gives_the_same_bytes() -> None:
    assert msgspec.json.encode(plan(TEXT)) == msgspec.json.encode(plan(TEXT))


def test_a_hostile_session_name_is_refused() -> None:
    with pytest.raises(InvalidSession):
        compile_pipeline(TextWorld(stage()), TEXT, "../x")


class TestPipelineNames:
    def test_from_the_file_where_none_is_written(self) -> None:
        assert plan("nodes: [{id: n, stage: s}]\n").pipeline.name == "p"

    def test_of_inline_text(self) -> None:
        assert (
            compile_pipeline(TextWorld(stage()), "nodes: [{id: n, stage: s}]\n", "x").plan.pipeline.name
            == "pipeline"
        )


class TestInline:
    def test_text(self) -> None:
        result = compile_pipeline(TextWorld(stage()), TEXT, "x")
        assert result.plan.source.path == "<inline>"
        assert result.source.text == TEXT
        assert result.plan.mode == "pipeline"

    def test_mapping(self) -> None:
        mapping = {
            "name": "m",
            "nodes": [{"id": "n", "prompt": "größe\t\n${CTX}\x7f\x85\u2028😀\\u", "runs": 2}],
        }
        (node,) = compile_pipeline(TextWorld(), mapping, "x").plan.nodes
        assert (node.prompt, node.runs) == ("größe\t\n${CTX}\x7f\x85\u2028😀\\u", 2)

    def test_mapping_errors_have_places_too(self) -> None:
        with pytest.raises(DefinitionError) as refused:
            compile_pipeline(TextWorld(), {"nodes": [{"id": "n", "prompt": "x", "runs": 0}]}, "x")
        (diagnostic,) = refused.value.diagnostics
        assert diagnostic.text.strip() == '"runs": 0'

    @pytest.mark.parametrize("thing", [{"nodes": object()}, {"nodes": 2**70}, {object(): 1}])
    def test_mapping_that_is_not_plain_data(self, thing: dict[str, object]) -> None:
        with pytest.raises(DefinitionError) as refused:
            compile_pipeline(TextWorld(), thing, "x")
        assert refused.value.diagnostics[0].code == "bad-type"


class TestSingleStage:
    def compiled(self, name: str = "s", body: str = "") -> Compiled:
        return compile_stage(TextWorld(stage(name, body)), name, "x", Overrides(max_iterations=3))

    def test_is_a_plan_in_loop_mode(self) -> None:
        result = self.compiled(body="description: d\n").plan
        assert result.mode == "loop"
        assert result.pipeline.name == "s"
        assert result.source.path == ".claude/stages/s/stage.yaml"
        (node,) = result.nodes
        assert (node.path, node.id, node.stage, node.ref, node.description) == ("0", "s", "s", "s", "d")

    def test_nested_names(self) -> None:
        (node,) = self.compiled("team/s").plan.nodes
        assert (node.id, node.ref) == ("s", "team/s")

    def test_source_is_the_prompt_without_a_yaml(self) -> None:
        result = compile_stage(TextWorld({"stages/s/prompt.md": "hi"}), "s", "x").plan
        assert result.source.path == "stages/s/prompt.md"
        assert result.source.sha256 == sha256(b"hi").hexdigest()

    def test_unknown(self) -> None:
        with pytest.raises(DefinitionError) as refused:
            compile_stage(TextWorld(stage()), "z", "x")
        assert [d.code for d in refused.value.diagnostics] == ["unknown-stage"]

    def test_broken(self) -> None:
        with pytest.raises(DefinitionError) as refused:
            compile_stage(TextWorld({"stages/s/stage.yaml": "["}), "s", "x")
        assert [d.code for d in refused.value.diagnostics] == ["syntax"]


def test_warnings_come_with_the_plan() -> None:
    result = compiled(f"zzz: x\n{TEXT}")
    assert [d.code for d in result.warnings] == ["unknown-key"]


def test_warnings_come_with_the_errors_too() -> None:
    with pytest.raises(DefinitionError) as refused:
        compiled(f"zzz: x\nworkspace: {{}}\n{TEXT}")
    assert [d.severity for d in refused.value.diagnostics] == ["warning", "error"]
    assert refused.value.message == "1 error in the definition"
    assert "p.yaml:1:1: unknown-key: unknown key `zzz`" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("refine", "refine-20260115-120000"),
        ("a b/ü!", "a-b-ü-20260115-120000"),
        ("!", "pipeline-20260115-120000"),
    ],
)
def test_a_run_is_named_after_its_pipeline_and_the_time(name: str, session: str) -> None:
    assert default_session(name, datetime(2026, 1, 15, 12, tzinfo=UTC)) == session


def test_a_pipeline_names_its_run_where_the_caller_does_not() -> None:
    plan = compile_pipeline(TextWorld(stage()), TEXT).plan
    assert plan.session.name.startswith(f"{plan.pipeline.name}-")
