"""Names, ids, models and paths with control characters are refused, with their place."""

from typing import Any

import pytest

from agentforge.definition.compiler import compile_pipeline, compile_stage
from agentforge.model.errors import DefinitionError
from agentforge.model.names import control_character
from agentforge.model.plan import Overrides

from .world import TextWorld

TITLE = "\x1b]0;title\x07"


def refused(world: Any, pipeline: Any, **more: Any) -> list[str]:
    with pytest.raises(DefinitionError) as error:
        compile_pipeline(world, pipeline, "s", **more)
    return [found.message for found in error.value.diagnostics if found.code == "control-character"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"name": f"a{TITLE}"}, "`name`"),
        ({"nodes": [{"id": "a", "prompt": "x", "model": f"m{TITLE}"}]}, "`model`"),
        ({"nodes": [{"id": "a", "prompt": "x", "provider": "p\u202e"}]}, "`provider`"),
        ({"nodes": [{"id": "a", "prompt": "x", "provider": {"type": "p\n"}}]}, "`type`"),
        ({"nodes": [{"id": "a", "prompt": "x", "output_path": "a\rb"}]}, "`output_path`"),
        ({"nodes": [{"id": "a\x9b2J", "prompt": "x"}]}, "`id`"),
        ({"inputs": ["a\u2028b"]}, "`inputs`"),
    ],
)
def test_control_characters_in_a_pipeline(change: dict[str, Any], what: str) -> None:
    pipeline = {"name": "p", "nodes": [{"id": "a", "prompt": "x"}], **change}
    (message,) = refused(TextWorld(), pipeline)
    assert what in message
    assert "control character U+" in message


def test_control_characters_in_texts_are_kept() -> None:
    text = "one\n\ttwo\n"
    node = {"id": "a", "prompt": text, "context": text, "description": text}
    compiled = compile_pipeline(TextWorld(), {"name": "p", "nodes": [node]}, "s")
    assert compiled.plan.only_stage.prompt == text


def test_control_characters_in_the_name_of_a_file() -> None:
    world = TextWorld({f"a{TITLE}.yaml": "nodes: [{id: a, prompt: x}]"})
    assert refused(world, f"a{TITLE}.yaml") == ["the path of the file contains the control character U+001B"]


def test_control_characters_in_the_name_of_a_stage() -> None:
    world = TextWorld(
        {f".claude/stages/a{TITLE}/prompt.md": "x", "p.yaml": 'nodes: [{id: a, stage: "a\\e]0;"}]'}
    )
    with pytest.raises(DefinitionError):
        compile_stage(world, f"a{TITLE}", "s")
    assert len(refused(world, "p.yaml")) == 1


@pytest.mark.parametrize(
    "given", [Overrides(provider="a\x1b"), Overrides(model="a\n"), Overrides(inputs=("\x07",))]
)
def test_control_characters_in_an_argument(given: Overrides) -> None:
    (message,) = refused(TextWorld(), {"nodes": [{"id": "a", "prompt": "x"}]}, overrides=given)
    assert message.startswith("the argument contains")


@pytest.mark.parametrize("text", ["", "plan", "日本語", "a b", "naïve", "👩\u200d🚀", "می\u200cخواهم"])
def test_other_characters_are_not_control_characters(text: str) -> None:
    assert control_character(text) == ""


@pytest.mark.parametrize("char", "\0\n\r\t\x1b\x7f\x85\x9b\u061c\u200e\u2028\u202e\u2066\ufeff\udc80")
def test_control_characters(char: str) -> None:
    assert control_character(f"a{char}b") == f"U+{ord(char):04X}"
