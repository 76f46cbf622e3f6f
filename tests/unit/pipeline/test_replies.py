"""The data in what a model answered."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.states import MAPPINGS

from agentforge.core.harness.replies import json_in, yaml_in

INNER = "Text:\n```yaml\ncode: |\n  ```python\n  x\n  ```\nb: 2\n```\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1", {"a": 1}),
        ("```yaml\na: 1\n```\n```yml\na: 2\n```", {"a": 2}),
        ("```yaml\na: 1\n```\n```yaml\n- not a mapping\n```", {"a": 1}),
        ("```yaml\na: 1\n```\n```yaml\ntorn: [\n```", {"a": 1}),
        ("```python\na: 1\n```\n```\nb: 2\n```", {"b": 2}),
        ("1. x\n   ```YAML\n   a: 1\n   ```\n", {"a": 1}),
        (INNER, {"code": "```python\nx\n```\n", "b": 2}),
        ('```json\n{"a": 1}\n```', None),
        ("Just prose.", None),
        ("- a\n- b", None),
        ("", None),
        (None, None),
        ("a: !!python/object:os.system x", None),
    ],
)
def test_yaml(text: str | None, found: dict[str, Any] | None) -> None:
    assert yaml_in(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```\nand\n```json\n{"a": 2}\n```', {"a": 2}),
        ('```json\n{"a": 1}\n```\nand\n```json\n[1]\n```', {"a": 1}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('First {"a": {"b": 1}}, then {"c": 2}.', {"c": 2}),
        ('It is {"a": {"b": 1}} {torn', {"a": {"b": 1}}),
        ("[1, 2]", None),
        ("{" * 5000, None),
        ("[" * 100_000, None),
        ("No data.", None),
        (None, None),
    ],
)
def test_json(text: str | None, found: dict[str, Any] | None) -> None:
    assert json_in(text) == found


@given(
    st.text()
    | st.lists(st.sampled_from(["```", "yaml\n", "json\n", "\n", "{", '"a"', ": ", "}", "- "])).map("".join)
)
def test_no_text_raises(text: str) -> None:
    for found in (yaml_in(text), json_in(text)):
        assert found is None or isinstance(found, dict)


@given(MAPPINGS)
def test_what_is_quoted_is_found(data: dict[str, Any]) -> None:
    assert (json_in(f"Here:\n```json\n{json.dumps(data, indent=2)}\n```\n") or {}) == data
