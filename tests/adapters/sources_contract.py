"""The contract of the sources port. Derive a test class, override `make`, and run all of it."""

from collections.abc import Callable, Mapping
from posixpath import isabs

import pytest

from agentforge.ports.sources import MAX_INPUTS, MAX_SOURCE_BYTES, Sources

Make = Callable[[Mapping[str, str]], Sources]
"""The sources of a project with these files, by their paths in it."""

FILES = {
    name: name
    for name in (
        "docs/a.md",
        "docs/b.py",
        "docs/sub/c.txt",
        "docs/sub/deep/d.md",
        "docs/.hidden/e.md",
        "a[1].md",
        "top.md",
    )
}


class SourcesContract:
    @pytest.fixture
    def make(self) -> Make:
        raise NotImplementedError

    @pytest.fixture
    def sources(self, make: Make) -> Sources:
        return make(FILES)

    def test_places_are_absolute_and_the_time_is_known(self, sources: Sources) -> None:
        assert isabs(sources.project)
        assert isabs(sources.builtin)
        assert sources.now().utcoffset() is not None
        assert sources.environment == dict(sources.environment)

    @pytest.mark.parametrize(
        ("path", "text", "is_dir", "listing"),
        [
            ("top.md", "top.md", False, []),
            ("docs", None, True, [".hidden", "a.md", "b.py", "sub"]),
            ("docs/sub", None, True, ["c.txt", "deep"]),
            ("none", None, False, []),
            ("top.md/below", None, False, []),
        ],
    )
    def test_what_is_at_a_path(
        self, sources: Sources, path: str, text: str | None, is_dir: bool, listing: list[str]
    ) -> None:
        place = f"{sources.project}/{path}"
        assert sources.read(place) == text
        assert sources.is_dir(place) is is_dir
        assert list(sources.listing(place)) == listing
        assert sources.resolve(place) == (place if is_dir or text is not None else None)

    def test_text_is_kept_byte_for_byte(self, make: Make) -> None:
        text = "\ufeffä\r\nb\udcff\n"
        sources = make({"a": text})
        assert sources.read(f"{sources.project}/a") == text

    @pytest.mark.parametrize("more", [0, 1, MAX_SOURCE_BYTES])
    def test_of_a_large_file_as_much_is_read_as_shows_that_it_is_too_large(
        self, make: Make, more: int
    ) -> None:
        sources = make({"a": "x" * (MAX_SOURCE_BYTES + more)})
        text = sources.read(f"{sources.project}/a")
        assert text is not None
        assert len(text) == MAX_SOURCE_BYTES + min(more, 1)

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("top.md", ["top.md"]),
            ("docs/../top.md", ["top.md"]),
            ("a[1].md", ["a[1].md"]),
            ("docs/b.py", ["docs/b.py"]),
            ("docs/sub", ["docs/sub/c.txt", "docs/sub/deep/d.md"]),
            ("docs/*", ["docs/a.md", "docs/b.py"]),
            ("docs/*/*", ["docs/sub/c.txt"]),
            ("docs/.hidden/*", ["docs/.hidden/e.md"]),
            ("**/*.md", ["a[1].md", "docs/a.md", "docs/sub/deep/d.md", "top.md"]),
            ("docs/**/d.md", ["docs/sub/deep/d.md"]),
            ("none", []),
            ("none/*", []),
        ],
    )
    def test_files_that_an_input_names(self, sources: Sources, pattern: str, found: list[str]) -> None:
        assert sources.expand(pattern) == [f"{sources.project}/{path}" for path in found]

    def test_an_input_names_only_so_many_files(self, make: Make) -> None:
        sources = make({f"docs/{number}.md": "" for number in range(MAX_INPUTS + 1)})
        assert sources.expand("docs") is None
        assert sources.expand("docs/*.md") is None
        some = sources.expand("docs/1*.md")
        assert some is not None
        assert 1000 < len(some) < MAX_INPUTS
