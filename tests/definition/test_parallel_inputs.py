"""Parallel input resolution at compile time: `from_parallel` to blocks, stages and providers."""

import pytest

from agentforge.model.plan import FromParallel, InputSources, ParallelNode, StageNode

from .world import found, plan, where

IDEATE = """nodes:
  - id: ideate
    parallel:
      providers: [codex, claude]
      stages:
        - {id: generate, prompt: x}
        - {id: polish, prompt: x}
  - id: rating
    parallel:
      providers: [claude, {name: second, type: codex}]
      stages:
        - {id: rate, prompt: x}
"""
BOTH = ("claude", "codex")


def after(inputs: str) -> str:
    return f"{IDEATE}  - id: merge\n    prompt: x\n    inputs: {{from_parallel: {inputs}}}\n"


def sources(inputs: str) -> InputSources:
    node = plan(after(inputs)).nodes[-1]
    assert isinstance(node, StageNode)
    assert node.sources is not None
    return node.sources


def second_block(
    providers: str = "[claude, codex]", stage_inputs: str = "{}"
) -> dict[str, InputSources | None]:
    """The sources of each branch in a block after the first."""
    text = IDEATE + (
        f"  - id: evaluate\n    parallel:\n      providers: {providers}\n      stages:\n"
        f"        - {{id: critique, prompt: x, inputs: {stage_inputs}}}\n"
    )
    node = plan(text).nodes[-1]
    assert isinstance(node, ParallelNode)
    return {branch.provider: branch.stages[0].sources for branch in node.branches}


def test_from_parallel_as_string_shorthand_is_all_providers_latest() -> None:
    assert sources("generate") == InputSources((), (FromParallel("generate", "ideate", "0", BOTH),))


def test_from_parallel_as_object_with_provider_filter() -> None:
    found = sources("{stage: generate, providers: [codex]}")
    assert found.from_parallel == (FromParallel("generate", "ideate", "0", ("codex",)),)
    assert not found.parallel_list


def test_from_parallel_as_object_with_block_and_select() -> None:
    (source,) = sources("{stage: polish, block: ideate, select: history}").from_parallel
    assert source == FromParallel("polish", "ideate", "0", BOTH, "all")


def test_from_parallel_as_array_resolves_each_entry() -> None:
    found = sources("[{stage: generate, providers: [claude]}, {stage: generate, providers: codex}, polish]")
    assert [(s.stage, s.providers) for s in found.from_parallel] == [
        ("generate", ("claude",)),
        ("generate", ("codex",)),
        ("polish", BOTH),
    ]
    assert found.parallel_list


def test_from_parallel_as_array_of_one_stays_an_array() -> None:
    assert sources("[generate]").parallel_list


def test_array_from_parallel_with_stages_of_different_blocks() -> None:
    found = sources("[{stage: generate}, {stage: rate, select: all}]")
    assert found.from_parallel == (
        FromParallel("generate", "ideate", "0", BOTH),
        FromParallel("rate", "rating", "1", ("claude", "second"), "all"),
    )


def test_providers_are_found_by_their_name_in_the_block_or_an_alias() -> None:
    (source,) = sources("{stage: generate, providers: [openai]}").from_parallel
    assert source.providers == ("codex",)
    (source,) = sources("{stage: rate, providers: [second]}").from_parallel
    assert source.providers == ("second",)


def test_per_provider_inputs_in_object_format() -> None:
    providers = (
        "[{name: claude, inputs: {from_parallel: rate}}, {name: codex, inputs: {from_parallel: polish}}]"
    )
    found = second_block(providers)
    assert found["claude"] == InputSources((), (FromParallel("rate", "rating", "1", ("claude", "second")),))
    assert found["codex"] == InputSources((), (FromParallel("polish", "ideate", "0", BOTH),))


def test_cross_evaluation_each_provider_receives_the_others_output() -> None:
    one = "{name: claude, inputs: {from_parallel: {stage: generate, providers: [codex]}}}"
    other = "{name: codex, inputs: {from_parallel: {stage: generate, providers: [claude]}}}"
    found = second_block(f"[{one}, {other}]")
    assert found["claude"] == InputSources((), (FromParallel("generate", "ideate", "0", ("codex",)),))
    assert found["codex"] == InputSources((), (FromParallel("generate", "ideate", "0", ("claude",)),))


def test_per_provider_arrays() -> None:
    found = second_block("[{name: claude, inputs: {from_parallel: [generate, rate]}}, codex]")
    assert found["claude"] is not None
    assert found["claude"].parallel_list
    assert [s.path for s in found["claude"].from_parallel] == ["0", "1"]
    assert found["codex"] is None


def test_a_stage_inside_a_block_may_take_from_an_earlier_block() -> None:
    found = second_block(stage_inputs="{from_parallel: generate}")
    assert (
        found["claude"]
        == found["codex"]
        == InputSources((), (FromParallel("generate", "ideate", "0", BOTH),))
    )


def test_a_stage_keeps_its_own_from_parallel_over_the_providers() -> None:
    found = second_block("[{name: claude, inputs: {from_parallel: rate}}]", "{from_parallel: polish}")
    assert found["claude"] == InputSources((), (FromParallel("polish", "ideate", "0", BOTH),))


SAME_BLOCK = (
    "Cross-provider dependencies within a parallel block are not supported. Split into sequential blocks."
)


@pytest.mark.parametrize(
    ("stage_inputs", "provider_inputs"),
    [
        ("{from_parallel: generate}", "{}"),
        ("{from_parallel: {stage: generate, providers: [codex]}}", "{}"),
        ("{from_parallel: {stage: generate, block: one}}", "{}"),
        ("{from_parallel: [{stage: generate}]}", "{}"),
        ("{from_parallel: rate}", "{}"),
        ("{}", "{from_parallel: {stage: generate, providers: [codex]}}"),
    ],
)
def test_from_parallel_into_the_same_block_is_refused(stage_inputs: str, provider_inputs: str) -> None:
    text = (
        "nodes:\n  - id: one\n    parallel:\n"
        f"      providers: [{{name: claude, inputs: {provider_inputs}}}, codex]\n"
        f"      stages:\n        - {{id: generate, prompt: x}}\n"
        f"        - {{id: rate, prompt: x, inputs: {stage_inputs}}}\n"
    )
    (diagnostic,) = found(text)
    assert diagnostic.message == SAME_BLOCK
    assert (diagnostic.code, diagnostic.severity) == ("same-block", "error")


def test_an_earlier_block_is_meant_where_the_same_block_has_the_stage_too() -> None:
    text = IDEATE.replace(
        "{id: rate, prompt: x}", "{id: generate, prompt: x, inputs: {from_parallel: generate}}"
    )
    node = plan(text).nodes[1]
    assert isinstance(node, ParallelNode)
    assert node.branches[0].stages[0].sources == InputSources(
        (), (FromParallel("generate", "ideate", "0", BOTH),)
    )


def test_a_stage_that_several_blocks_have_needs_the_block() -> None:
    text = after("generate").replace("id: rate,", "id: generate,")
    (diagnostic,) = found(text)
    assert diagnostic.code == "ambiguous-stage"
    assert "`ideate`, `rating`" in diagnostic.message
    text = after("{stage: generate, block: rating}").replace("id: rate,", "id: generate,")
    assert plan(text).nodes[-1].sources.from_parallel[0].path == "1"


@pytest.mark.parametrize(
    ("inputs", "expected", "message", "hint"),
    [
        ("generat", "unknown-node 15:29", "has the id `generat`", "did you mean `generate`?"),
        (
            "{stage: generate, block: ideat}",
            "unknown-node 15:54",
            "no parallel block",
            "did you mean `ideate`?",
        ),
        (
            "{stage: generate, block: merge}",
            "unknown-node 15:54",
            "no parallel block",
            "blocks: ideate, rating",
        ),
        ("{stage: rate, block: ideate}", "unknown-node 15:37", "has no stage `rate`", "generate, polish"),
        ("{stage: generate, block: late}", "later-node 15:54", "runs after this node", ""),
        ("last", "later-node 15:29", "runs after this node", "reorder"),
        ("ideate", "wrong-kind 15:29", "not a stage", "use `from`"),
        ("{stage: generate, providers: [gemini]}", "unknown-provider 15:59", "`gemini`", "claude, codex"),
        (
            "{stage: generate, providers: [claud]}",
            "unknown-provider 15:59",
            "`claud`",
            "did you mean `claude`?",
        ),
        ("{stage: generate, providers: []}", "bad-value 15:29", "at least one provider", "omit the key"),
        ("{stage: generate, select: most}", "bad-value 15:55", "`most`", "latest"),
        ("{providers: [claude]}", "missing-key 15:29", "no `stage`", "add `stage"),
        ("{stage: []}", "bad-type 15:37", "text", ""),
        ("[[generate]]", "bad-type 15:30", "a list", ""),
        ("[~]", "bad-type 15:30", "null", ""),
    ],
)
def test_invalid_sources(inputs: str, expected: str, message: str, hint: str) -> None:
    later = "  - {id: late, parallel: {providers: [claude], stages: [{id: last, prompt: x}]}}\n"
    (diagnostic,) = found(after(inputs) + later)
    assert where(diagnostic) == expected
    assert message in diagnostic.message
    assert hint in diagnostic.hint
    assert diagnostic.is_error


def test_unknown_key_of_a_source_warns() -> None:
    (diagnostic,) = found(after("{stage: generate, provider: claude}"))
    assert (diagnostic.code, diagnostic.hint) == ("unknown-key", "did you mean `providers`?")
