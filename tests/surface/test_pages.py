"""The pages that are made from the code are up to date, and the manual page is one that groff accepts."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools.pages import PAGES, ROOT
from tools.pictures import DRAWN, PICTURES, lint
from tools.terminal import ScreenState

from agentforge.cli.main import COMMANDS
from agentforge.model.facts import FACTS
from agentforge.model.variables import VARIABLES


@pytest.mark.parametrize("path", PAGES)
def test_page_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path](), "run `make docs`"


def test_every_event_has_a_section_and_a_sentence() -> None:
    page = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    assert [name for name in FACTS if f"\n### `{name}`\n\n" not in page] == []
    own = {
        name for name, kind in FACTS.items() if kind.__doc__ and not kind.__doc__.startswith(kind.__name__)
    }
    assert sorted(set(FACTS) - own) == []


def test_every_variable_and_command_is_on_its_page() -> None:
    page = (ROOT / "docs/variables.md").read_text(encoding="utf-8")
    assert [variable.name for variable in VARIABLES if f"| `{variable.name}` |" not in page] == []
    manual = (ROOT / "docs/man/agentforge.1").read_text(encoding="utf-8").replace("\\-", "-")
    assert [name for name in COMMANDS if f".SS agentforge {name} [OPTIONS]" not in manual] == []


def test_every_picture_is_on_a_page_and_every_picture_of_a_page_exists() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        (page.parent / name).resolve()
        for page in pages
        for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    assert [path for path in shown if not path.is_file()] == []
    drawn = {PICTURES / f"{name}.svg" for name in DRAWN}
    assert drawn == set(PICTURES.iterdir())
    assert drawn <= shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("one\r\ntwo", "one\ntwo"),
        ("one\rtwo", "two"),
        ("wrapped text", "wrapped\ntext"),
        ("1\r\n2\r\n3\r\n4", "2\n3\n4"),
        ("one\r\ntwo\x1b[1A\r\x1b[2Kthree", "three\ntwo"),
        ("a\r\nb\x1b[2J\x1b[1;1Hc", "c"),
        ("\x1b[?25l\x1b[1;32mgreen\x1b[0m", "green"),
        ("abcdef\x1b[3D\x1b[K", "abc"),
    ],
)
def test_the_terminal_of_the_pictures(written: str, shown: str) -> None:
    screen = ScreenState(8, 3)
    screen.feed(written)
    assert screen.text.rstrip("\n") == shown


def test_a_picture_shows_what_the_program_prints(tmp_path: Path) -> None:
    picture = html.unescape(re.sub(r"<[^>]*>", "", lint(tmp_path))).replace("\xa0", " ")
    assert "$ agentforge lint feature.yaml" in picture
    assert "unknown key `sandbx` in node" in picture
    assert str(tmp_path) not in picture


def test_the_readme_names_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in (ROOT / "docs").glob("*.md") if f"](docs/{path.name})" not in readme] == []


def test_groff_accepts_the_manual_page() -> None:
    if shutil.which("groff") is None:
        pytest.skip("program: groff isn't installed")
    page = ROOT / "docs/man/agentforge.1"
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", str(page)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
