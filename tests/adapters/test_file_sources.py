"""The sources port on real files."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.privileges import permissions_count

from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline, compile_stage, lint
from agentforge.definition.resolve import available_stages
from agentforge.model.errors import StorageFailed
from agentforge.ports.sources import Sources


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return FileSources(tmp_path, dict(os.environ))


def write(root: Path, *paths: str) -> list[str]:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return [str(root / path) for path in paths]


def test_read_is_byte_for_byte(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfa\r\nb\xff\n")
    text = sources.read(str(tmp_path / "f"))
    assert text == "\ufeffa\r\nb\udcff\n"
    assert text.encode("utf-8", "surrogateescape") == (tmp_path / "f").read_bytes()


@pytest.mark.parametrize("name", ["missing", "folder", "file/below", "nul\0", "x" * 300, "loop"])
def test_paths_that_are_not_files_read_as_none(sources: Sources, tmp_path: Path, name: str) -> None:
    write(tmp_path, "folder/x", "file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert sources.read(str(tmp_path / name)) is None
    assert list(sources.listing(str(tmp_path / name))) == (["x"] if name == "folder" else [])
    assert sources.is_dir(str(tmp_path / name)) is (name == "folder")
    assert list(sources.expand(name)) == []


def test_unreadable_file_is_a_clear_error(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "f").chmod(0)
    with permissions_count(), pytest.raises(StorageFailed, match="Permission denied"):
        sources.read(str(tmp_path / "f"))


def test_listing_is_sorted(sources: Sources, tmp_path: Path) -> None:
    write(tmp_path, "b", "a/x", "c")
    assert sources.listing(str(tmp_path)) == ["a", "b", "c"]


class TestExpand:
    def test_file(self, sources: Sources, tmp_path: Path) -> None:
        (path,) = write(tmp_path, "docs/a.py")
        assert list(sources.expand("docs/../docs/a.py")) == [path]
        assert list(sources.expand(path)) == [path]

    def test_folder_gives_its_texts_recursively(self, sources: Sources, tmp_path: Path) -> None:
        texts = write(tmp_path, "docs/a.md", "docs/b.txt", "docs/sub/c.json", "docs/sub/d.yaml")
        write(tmp_path, "docs/z.py", "docs/sub/e.png")
        assert list(sources.expand("docs")) == texts

    def test_glob_gives_files_of_any_kind(self, sources: Sources, tmp_path: Path) -> None:
        found = write(tmp_path, "docs/a.md", "docs/z.py")
        write(tmp_path, "docs/sub/c.md")
        assert list(sources.expand("docs/*")) == found
        assert len(sources.expand("**/*.md")) == 2

    def test_name_that_looks_like_a_glob(self, sources: Sources, tmp_path: Path) -> None:
        (path,) = write(tmp_path, "a[1].md")
        assert list(sources.expand("a[1].md")) == [path]

    def test_nothing(self, sources: Sources) -> None:
        assert list(sources.expand("nope/*.md")) == []
        assert list(sources.expand("a\0b")) == []


def test_now_is_utc(sources: Sources) -> None:
    assert abs((sources.now() - datetime.now(UTC)).total_seconds()) < 60


def test_project_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert FileSources(".", {}).project == str(tmp_path)


def test_compiles_from_real_files(tmp_path: Path) -> None:
    write(tmp_path, "flows/stages/s/prompt.md", "notes/a.md")
    (tmp_path / "flows/p.yaml").write_text("inputs: [notes]\nnodes:\n  - {id: n, stage: s}\n")
    plan = compile_pipeline(FileSources(tmp_path, {}), "flows/p.yaml", "x").plan
    assert plan.session.inputs == (str(tmp_path / "notes/a.md"),)
    assert plan.nodes[0].prompt_path == "flows/stages/s/prompt.md"


def test_every_built_in_stage_is_sound(tmp_path: Path) -> None:
    sources = FileSources(tmp_path, {})
    names = [stage.name for stage in available_stages(sources)]
    assert "work" in names
    for stage in available_stages(sources):
        assert stage.description
        assert lint(sources, stage.name, "stage") == []
        (node,) = compile_stage(sources, stage.name, "x").plan.nodes
        assert "${RESULT}" in Path(str(node.prompt_path)).read_text()
