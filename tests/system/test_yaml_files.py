"""YAML files of plain data: what is written can be read, and what others wrote does no harm."""

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from tests.unit.pipeline.states import PLAIN

from agentforge.model.errors import InvalidRequest, StorageFailed, UnusableFile
from agentforge.system.yaml_files import parse_yaml, plain_data, read_yaml, write_yaml, yaml_bytes


@given(PLAIN)
def test_plain_data_is_read_as_it_was_written(data: Any) -> None:
    content = yaml_bytes(plain_data(data))
    assert parse_yaml(content) == data
    assert yaml.safe_load(content) == data


def test_text_of_several_lines_is_a_block() -> None:
    assert yaml_bytes({"text": "one\ntwo\n"}) == b"text: |\n  one\n  two\n"


def test_what_is_not_a_number_is_null() -> None:
    assert plain_data([float("nan"), float("inf")]) == [None, None]
    assert plain_data(float("nan")) is None


@dataclass
class Link:
    to: Any = None


def test_what_refers_to_itself_is_refused() -> None:
    endless, link = list[Any](), Link()
    endless.append(endless)
    link.to = link
    for value in (endless, link, reduce(lambda inner, _: [inner], range(100), list[Any]())):
        with pytest.raises(InvalidRequest, match="nested deeper than"):
            plain_data(value)


@pytest.mark.parametrize(
    "content", [b"[" * 300 + b"]" * 300, b"a: *b", b"a: &b 1", b"!!set {a}", b"a: !mine 1", b"{a", b"\x01"]
)
def test_what_our_files_never_have_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"not supported|while|not allowed|unacceptable"):
        parse_yaml(content)


def test_files_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "new/folder/a.yaml"
    assert read_yaml(path) is None
    assert write_yaml(path, {"a": (1, 2)}) == str(path)
    assert read_yaml(path) == {"a": [1, 2]}
    path.write_text("a: [")
    with pytest.raises(UnusableFile, match=r"a\.yaml can't be read: "):
        read_yaml(path)


def test_links_are_followed_up_to_the_projects_own_folder_only(tmp_path: Path) -> None:
    project, link = tmp_path / "project", tmp_path / "link"
    project.mkdir()
    link.symlink_to(project)
    write_yaml(link / ".agentforge/artifacts/a.yaml", {"a": 1})
    write_yaml(link / "a.yaml", {"a": 1})
    assert read_yaml(project / ".agentforge/artifacts/a.yaml") == {"a": 1}
    (project / ".agentforge/other").symlink_to(tmp_path)
    with pytest.raises(StorageFailed):
        write_yaml(link / ".agentforge/other/b.yaml", {"a": 1})
    with pytest.raises(StorageFailed):
        read_yaml(link / ".agentforge/other/project/a.yaml")
    assert not (tmp_path / "b.yaml").exists()
