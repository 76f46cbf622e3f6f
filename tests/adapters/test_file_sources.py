"""The sources port on real files."""

import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.adapters.sources_contract import Make, SourcesContract
from tests.privileges import permissions_count

from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline, compile_stage, lint
from agentforge.definition.resolve import available_stages
from agentforge.model.errors import StorageFailed
from agentforge.ports.sources import Sources
from agentforge.system.confined import ConfinedFolder
from agentforge.system.file_search import FileSearch, TooManyEntries


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return FileSources(tmp_path, dict(os.environ))


def write(root: Path, *paths: str) -> list[str]:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return [str(root / path) for path in paths]


class TestContract(SourcesContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        def make(files: Mapping[str, str]) -> Sources:
            for path, text in files.items():
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / path).write_bytes(text.encode("utf-8", "surrogateescape"))
            return FileSources(tmp_path, {})

        return make


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
    assert list(sources.expand(name) or ()) == []


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
        assert list(sources.expand("docs/../docs/a.py") or ()) == [path]
        assert list(sources.expand(path) or ()) == [path]

    def test_folder_gives_its_texts_recursively(self, sources: Sources, tmp_path: Path) -> None:
        texts = write(tmp_path, "docs/a.md", "docs/b.txt", "docs/sub/c.json", "docs/sub/d.yaml")
        write(tmp_path, "docs/z.py", "docs/sub/e.png")
        assert list(sources.expand("docs") or ()) == texts

    def test_glob_gives_files_of_any_kind(self, sources: Sources, tmp_path: Path) -> None:
        found = write(tmp_path, "docs/a.md", "docs/z.py")
        write(tmp_path, "docs/sub/c.md")
        assert list(sources.expand("docs/*") or ()) == found
        assert len(sources.expand("**/*.md") or ()) == 2

    def test_name_that_looks_like_a_glob(self, sources: Sources, tmp_path: Path) -> None:
        (path,) = write(tmp_path, "a[1].md")
        assert list(sources.expand("a[1].md") or ()) == [path]

    def test_links_inside_the_project_are_followed(self, sources: Sources, tmp_path: Path) -> None:
        write(tmp_path, "shared/a.md")
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs/shared").symlink_to("../shared")
        (tmp_path / "docs/a.md").symlink_to("../shared/a.md")
        (tmp_path / "docs/back").symlink_to("..")
        found = [str(tmp_path / "docs" / name) for name in ("a.md", "back/shared/a.md", "shared/a.md")]
        assert list(sources.expand("docs/**/*.md") or ()) == found
        assert list(sources.expand("docs") or ()) == found[:1]
        assert list(sources.expand("docs/shared/*") or ()) == found[2:]

    @pytest.mark.parametrize(
        "pattern", ["docs", "docs/*", "docs/**", "docs/*/*", "docs/out/*.md", "docs/a.md"]
    )
    def test_links_out_of_the_project_are_not(self, tmp_path: Path, pattern: str) -> None:
        (tmp_path / "project/docs").mkdir(parents=True)
        (secret,) = write(tmp_path, "elsewhere/secret.md")
        (tmp_path / "project/docs/a.md").symlink_to(secret)
        (tmp_path / "project/docs/b.md").symlink_to("../../elsewhere/secret.md")
        (tmp_path / "project/docs/out").symlink_to("../../elsewhere")
        (tmp_path / "project/docs/up").symlink_to("../..")
        assert list(FileSources(tmp_path / "project", {}).expand(pattern) or ()) == []

    def test_files_elsewhere_that_the_user_names(self, tmp_path: Path) -> None:
        (tmp_path / "project").mkdir()
        found = write(tmp_path, "elsewhere/a.md", "elsewhere/sub/b.md")
        (tmp_path / "link.md").symlink_to(found[0])
        sources = FileSources(tmp_path / "project", {})
        assert list(sources.expand("../elsewhere") or ()) == found
        assert list(sources.expand("../elsewhere/*/*.md") or ()) == found[1:]
        assert list(sources.expand(found[0]) or ()) == found[:1]
        assert list(sources.expand("../link.md") or ()) == [str(tmp_path / "link.md")]
        assert sources.listing("../elsewhere") == ["a.md", "sub"]

    def test_pipes_and_devices_are_left_out(self, sources: Sources, tmp_path: Path) -> None:
        (tmp_path / "docs").mkdir()
        os.mkfifo(tmp_path / "docs/pipe.md")
        (tmp_path / "docs/zero.md").symlink_to("/dev/zero")
        assert [list(sources.expand(name) or ()) for name in ("docs", "docs/*", "docs/pipe.md")] == [
            [],
            [],
            [],
        ]

    def test_deep_folders(self, sources: Sources, tmp_path: Path) -> None:
        folder = os.open(tmp_path, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d", dir_fd=folder)
            inner = os.open("d", os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
        os.close(os.open("a.md", os.O_CREAT, dir_fd=folder))
        os.close(folder)
        write(tmp_path, "d/d/b.md")
        for pattern in ("d", "**", "**/**/*.md", "d/" * 40 + "**/*.md"):
            found = sources.expand(pattern)
            assert found is not None
            assert list(found) in ([str(tmp_path / "d/d/b.md")], [])
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # Too deep for what removes tmp_path.

    def test_too_many(self, tmp_path: Path) -> None:
        write(tmp_path, *(f"docs/{number}.md" for number in range(20)))
        with ConfinedFolder(str(tmp_path)) as folder:
            assert len(list(FileSearch(folder, 22).matches("docs/*"))) == 20
            for pattern in ("docs/*", "**", "*/*"):
                with pytest.raises(TooManyEntries):
                    list(FileSearch(folder, 15).matches(pattern))

    def test_too_many_for_one_input(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path, *(f"docs/{number}.md" for number in range(4)))
        monkeypatch.setattr("agentforge.adapters.host.project_files.MAX_INPUTS", 3)
        assert FileSources(tmp_path, {}).expand("docs") is None

    def test_nothing(self, sources: Sources) -> None:
        assert list(sources.expand("nope/*.md") or ()) == []
        assert list(sources.expand("a\0b") or ()) == []


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
    settings = tmp_path / ".agentforge/config/settings.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("commands: {test: make test, lint: make lint, types: make types}\n")
    sources = FileSources(tmp_path, {})
    names = [stage.name for stage in available_stages(sources)]
    assert "work" in names
    for stage in available_stages(sources):
        assert stage.description
        assert lint(sources, stage.name, "stage")[0] == []
        (node,) = compile_stage(sources, stage.name, "x").plan.nodes
        says_so = "${RESULT}" in Path(str(node.prompt_path)).read_text() if node.prompt_path else False
        assert says_so or node.artifact or node.deliver
