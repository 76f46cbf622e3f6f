"""Prompts of nodes: as text, or in a file."""

import pytest
from tests.definition.world import PROJECT, TextWorld, found, only_node, stage, where

from agentforge.definition.compiler import compile_pipeline, compile_stage
from agentforge.model.errors import DefinitionError
from agentforge.ports.sources import MAX_SOURCE_BYTES


def node(text: str) -> str:
    return f"nodes:\n  - id: a\n    {text}\n"


def test_a_node_names_a_prompt_file_relative_to_its_pipeline() -> None:
    files = {"flows/p.yaml": node("prompt: {file: ../prompts/x.md}"), "prompts/x.md": "Do it on ${SESSION}."}
    plan = compile_pipeline(TextWorld(files), "flows/p.yaml", "session").plan
    assert plan.only_stage.prompt_path == "prompts/x.md"
    assert plan.only_stage.prompt == "Do it on ${SESSION}."


def test_a_prompt_file_overrides_that_of_the_stage() -> None:
    written = only_node(node("stage: s\n    prompt:\n      file: x.md"), {"x.md": "mine"})
    assert (written.ref, written.prompt_path, written.prompt) == ("s", "x.md", "mine")


def test_stage_yaml_names_its_file_in_both_ways() -> None:
    files = {**stage("s", "prompt: {file: other.md}"), ".claude/stages/s/other.md": "of the stage"}
    assert compile_stage(TextWorld(files), "s").plan.only_stage.prompt == "of the stage"


def test_variables_of_a_prompt_file_are_checked_in_it() -> None:
    (diagnostic,) = found(node("prompt: {file: x.md}"), {"x.md": "a\nb ${SESION}"})
    assert (diagnostic.place.file, where(diagnostic)) == ("x.md", "unknown-variable 2:3")


@pytest.mark.parametrize(
    ("written", "at", "message"),
    [
        ("{file: nosuch.md}", "missing-prompt 3:20", "no prompt file `nosuch.md`; looked for nosuch.md"),
        ("{file: prompts}", "missing-prompt 3:20", "the prompt file `prompts` is a folder"),
        ("{file: 'prompts/empty.md'}", "empty-prompt 1:1", "the prompt file is empty"),
        ("{file: prompts/large.md}", "too-large 1:1", "the prompt file is larger than 1,000,000 bytes"),
        ("{}", "missing-key 3:13", "`prompt` has no `file`"),
        ("{file: [x]}", "bad-type 3:20", "`prompt.file` must be text, got a list"),
        ("{flie: x}", "unknown-key 3:14", "unknown key `flie` in prompt"),
        ("[a]", "bad-type 3:13", "`prompt` must be text, got a list"),
        ('""', "empty-prompt 3:13", "the prompt is empty"),
        ("|\n\n", "empty-prompt 3:13", "the prompt is empty"),
    ],
)
def test_wrong_prompts_are_errors_at_their_place(written: str, at: str, message: str) -> None:
    files = {"prompts/empty.md": " \n", "prompts/large.md": "é" * (MAX_SOURCE_BYTES // 2 + 1)}
    errors = {where(one): one.message for one in found(node(f"prompt: {written}"), files) if one.is_error}
    assert errors[at] == message


def test_an_empty_prompt_of_a_stage_is_an_error() -> None:
    with pytest.raises(DefinitionError, match="the prompt file is empty"):
        compile_stage(TextWorld({".claude/stages/s/prompt.md": "\n"}), "s")


@pytest.mark.parametrize("prompt", ["prompts/x.md", "prompt.md", "./notes.txt", "prompts/plan", "~/x.prompt"])
def test_a_prompt_like_the_name_of_a_file_is_a_warning(prompt: str) -> None:
    (diagnostic,) = found(node(f"prompt: {prompt}"), {"prompts/x.md": "text"})
    assert (where(diagnostic), diagnostic.severity) == ("prompt-is-path 3:13", "warning")
    assert f"the agent gets only `{prompt}`" in diagnostic.message
    assert diagnostic.hint == "for its text, write `prompt: {file: PATH}`"


@pytest.mark.parametrize(
    "prompt", ["none", "Read plan.md", "/review", "Fix src/a.py.", "https://example.org/1"]
)
def test_other_prompts_are_not(prompt: str) -> None:
    assert found(node(f"prompt: {prompt}")) == []


def test_files_beside_a_pipeline_outside_the_project_are_named_in_full() -> None:
    world = TextWorld({"/other/p.yaml": node("prompt: {file: x.md}"), "/other/x.md": "text"})
    assert compile_pipeline(world, "/other/p.yaml", "session").plan.only_stage.prompt_path == "/other/x.md"
    assert not PROJECT.startswith("/other")
