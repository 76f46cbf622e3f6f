"""`inputs.from`: which earlier outputs a stage asks for, resolved to places in the plan."""

import pytest

from agentforge.model.plan import FromStage, InputSources, ParallelNode, StageNode

from .world import found, plan, where

ABC = "nodes:\n  - {id: a, prompt: x}\n  - {id: b, prompt: x}\n  - id: c\n    prompt: x\n    inputs: "
BLOCK = """nodes:
  - {{id: before, prompt: x}}
  - id: dual
    inputs: {block_inputs}
    parallel:
      providers: [claude, {{name: codex, inputs: {provider_inputs}}}]
      stages:
        - {{id: draft, prompt: x}}
        - {{id: revise, prompt: x, inputs: {stage_inputs}}}
"""


def of_third(inputs: str) -> InputSources | None:
    node = plan(f"{ABC}{inputs}\n").nodes[2]
    assert isinstance(node, StageNode)
    return node.sources


def in_block(stage: str = "{}", provider: str = "{}", block: str = "{}") -> dict[str, StageNode]:
    """Every stage of the block by `provider/id`."""
    text = BLOCK.format(stage_inputs=stage, provider_inputs=provider, block_inputs=block)
    node = plan(text).nodes[1]
    assert isinstance(node, ParallelNode)
    return {f"{branch.provider}/{s.id}": s for branch in node.branches for s in branch.stages}


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("{from: a}", [FromStage("a", "0")]),
        ("{from: b, select: latest}", [FromStage("b", "1")]),
        ("{from: a, select: history}", [FromStage("a", "0", "all")]),
        ("{from: a, select: all}", [FromStage("a", "0", "all")]),
        ("{from: [b, a, b], select: all}", [FromStage("b", "1", "all"), FromStage("a", "0", "all")]),
        ("{from: []}", []),
    ],
)
def test_from_an_earlier_node(inputs: str, expected: list[FromStage]) -> None:
    sources = of_third(inputs)
    assert list(sources.from_stage if sources else ()) == expected


def test_inputs_stay_in_the_plan_as_written() -> None:
    written = "{from: a, select: history, from_initial: true, from_previous_iterations: true}"
    node = plan(f"{ABC}{written}\n").nodes[2]
    assert node.inputs == {
        "from": "a",
        "select": "history",
        "from_initial": True,
        "from_previous_iterations": True,
    }


def test_no_sources_without_inputs_of_others() -> None:
    assert of_third("{from_initial: true}") is None


def test_a_number_serves_as_an_id() -> None:
    nodes = plan("nodes: [{id: 7, prompt: x}, {id: n, prompt: x, inputs: {from: 7}}]\n").nodes
    assert nodes[1].sources == InputSources((FromStage("7", "0"),))


@pytest.mark.parametrize(
    ("inputs", "expected", "message", "hint"),
    [
        ("{from: zz}", "unknown-node 6:20", "has the id `zz`", "ids: a, b"),
        ("{from: aa}", "unknown-node 6:20", "has the id `aa`", "did you mean `a`? ids: a, b"),
        ("{from: [a, x]}", "unknown-node 6:24", "has the id `x`", "ids: a, b"),
        ("{from: c}", "later-node 6:20", "its own output", "from_previous_iterations"),
        ("{from: d}", "later-node 6:20", "runs after this node", "reorder"),
        ("{from: {a: b}}", "bad-type 6:20", "text", ""),
        ("{from: a, select: some}", "bad-value 6:31", "`some`", "values: all, history, latest"),
        ("{from: a, select: histroy}", "bad-value 6:31", "`histroy`", "did you mean `history`?"),
        ("{from: a, select: []}", "bad-type 6:31", "text", ""),
        ("{from_initial: [x.md]}", "bad-type 6:28", "always in the context", "give files with --input"),
        ("{from_initial: false}", "bad-type 6:28", "can only be true", "`inputs` of the pipeline"),
        ("{from_previous_iterations: 3}", "bad-type 6:40", "can only be true", ""),
    ],
)
def test_invalid_references(inputs: str, expected: str, message: str, hint: str) -> None:
    (diagnostic,) = found(f"{ABC}{inputs}\n  - {{id: d, prompt: x}}\n")
    assert where(diagnostic) == expected
    assert message in diagnostic.message
    assert diagnostic.is_error
    assert hint in diagnostic.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stages:\n  - {name: a, loop: s}\n  - {name: b, loop: s, inputs: {from: zz}}\n", "3:39"),
        ("nodes:\n  - {name: a, loop: s}\n  - {name: b, stage: s, inputs: {from: [a, zz]}}\n", "3:44"),
        ("nodes:\n  - {id: a, prompt: x, inputs: {from: [zz], select: all}}\n", "2:40"),
        ("nodes:\n  - {id: a, prompt: x}\n  - {id: b, pipeline: p.yaml, inputs: {from: zz}}\n", "3:46"),
    ],
)
def test_an_unknown_id_is_an_error_in_every_form_of_node(text: str, expected: str) -> None:
    errors = [diagnostic for diagnostic in found(text) if diagnostic.code == "unknown-node"]
    assert [where(diagnostic) for diagnostic in errors] == [f"unknown-node {expected}"]
    assert errors[0].message == "no earlier node has the id `zz`"
    assert errors[0].is_error


def test_the_first_node_has_no_earlier_outputs() -> None:
    (diagnostic,) = found("nodes: [{id: a, prompt: x, inputs: {from: b}}]\n")
    assert diagnostic.hint == "no node runs before this one"


def test_select_without_from_is_warned_of() -> None:
    (diagnostic,) = found(f"{ABC}{{select: all}}\n")
    assert where(diagnostic) == "ignored-key 6:14"
    assert not diagnostic.is_error


class TestInsideABlock:
    def test_own_earlier_stage_of_the_same_branch(self) -> None:
        stages = in_block(stage="{from: draft, select: all}")
        assert stages["claude/revise"].sources == InputSources((FromStage("draft", "1.0", "all", "claude"),))
        assert stages["codex/revise"].sources == InputSources((FromStage("draft", "1.0", "all", "codex"),))
        assert stages["codex/draft"].sources is None

    def test_else_a_node_before_the_block(self) -> None:
        assert in_block(stage="{from: before}")["codex/revise"].sources == InputSources(
            (FromStage("before", "0"),)
        )

    def test_own_stage_wins_over_a_node_of_the_same_name(self) -> None:
        text = BLOCK.format(stage_inputs="{from: draft}", provider_inputs="{}", block_inputs="{}")
        node = plan(text.replace("before", "draft")).nodes[1]
        assert isinstance(node, ParallelNode)
        assert node.branches[0].stages[1].sources == InputSources(
            (FromStage("draft", "1.0", "latest", "claude"),)
        )

    def test_inputs_of_a_provider_are_for_all_stages_of_its_branch(self) -> None:
        stages = in_block(provider="{from: before, select: all}")
        expected = InputSources((FromStage("before", "0", "all"),))
        assert [stages[name].sources for name in ("codex/draft", "codex/revise")] == [expected, expected]
        assert [stages[name].sources for name in ("claude/draft", "claude/revise")] == [None, None]
        assert stages["codex/draft"].inputs == {"from": "before", "select": "all"}

    def test_inputs_of_the_block_are_for_all_branches(self) -> None:
        stages = in_block(block="{from: before}")
        assert {name for name, s in stages.items() if s.sources} == set(stages)

    def test_own_inputs_win_key_by_key(self) -> None:
        stages = in_block(
            stage="{from: draft}",
            provider="{from: before, select: all, from_initial: true}",
            block="{from: before, select: history, from_previous_iterations: true}",
        )
        assert stages["codex/revise"].inputs == {
            "from": "draft",
            "from_initial": True,
            "from_previous_iterations": True,
        }
        assert stages["codex/revise"].sources == InputSources((FromStage("draft", "1.0", "latest", "codex"),))
        assert stages["claude/draft"].inputs["select"] == "history"

    @pytest.mark.parametrize(
        ("level", "inputs", "expected", "word"),
        [
            ("stage", "{from: revise}", "later-node 9:50", "its own output"),
            ("stage", "{from: dual}", "later-node 9:50", "its own output"),
            ("stage", "{from: after}", "later-node 9:50", "runs after this node"),
            ("stage", "{from: drat}", "unknown-node 9:50", "has the id `drat`"),
            ("provider", "{from: draft}", "later-node 6:56", "only the block's stages"),
            ("block", "{from: draft}", "later-node 4:20", "only the block's stages"),
        ],
    )
    def test_invalid_references(self, level: str, inputs: str, expected: str, word: str) -> None:
        levels = {"stage_inputs": "{}", "provider_inputs": "{}", "block_inputs": "{}"}
        text = BLOCK.format(**{**levels, f"{level}_inputs": inputs})
        (diagnostic,) = found(f"{text}  - {{id: after, prompt: x}}\n")
        assert where(diagnostic) == expected
        assert word in diagnostic.message

    def test_a_mistake_that_a_nearer_level_hides_is_reported(self) -> None:
        text = BLOCK.format(
            stage_inputs="{from: draft}", provider_inputs="{from: zz}", block_inputs="{from_parallel: yy}"
        )
        text = text.replace("{id: draft, prompt: x}", "{id: draft, prompt: x, inputs: {from: before}}")
        assert [where(diagnostic) for diagnostic in found(text)] == ["unknown-node 4:29", "unknown-node 6:56"]

    def test_a_first_stage_cannot_take_from_a_second(self) -> None:
        text = BLOCK.format(stage_inputs="{}", provider_inputs="{}", block_inputs="{}")
        text = text.replace("{id: draft, prompt: x}", "{id: draft, prompt: x, inputs: {from: revise}}")
        (diagnostic,) = found(text)
        assert diagnostic.code == "later-node"
        assert "runs after this node" in diagnostic.message


def test_from_a_block_or_one_of_its_stages_names_the_other_key() -> None:
    text = BLOCK.format(stage_inputs="{}", provider_inputs="{}", block_inputs="{}")
    first, second = found(f"{text}  - {{id: n, prompt: x, inputs: {{from: [dual, draft]}}}}\n")
    assert (first.code, first.hint) == ("wrong-kind", "use `from_parallel: revise`")
    assert (second.code, second.hint) == ("wrong-kind", "use `from_parallel: draft`")
