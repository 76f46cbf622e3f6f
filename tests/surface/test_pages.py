"""The pages that are made from the code are up to date, and the manual page is one that groff accepts."""

import shutil
import subprocess

import pytest
from tools.pages import PAGES, ROOT

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
