"""Writes the pages that are made from the code: `make docs`. A test fails if one is out of date."""

from collections.abc import Callable
from pathlib import Path

from tools.events_page import events_page
from tools.hooks_page import hooks_page
from tools.man_page import man_page
from tools.requirements_page import requirements_page
from tools.variables_page import variables_page

ROOT = Path(__file__).resolve().parents[1]
PAGES: dict[str, Callable[[], str]] = {
    "docs/events.md": events_page,
    "docs/hooks.md": hooks_page,
    "docs/loop-requirements.md": requirements_page,
    "docs/variables.md": variables_page,
    "docs/man/agentforge.1": man_page,
}


def main() -> None:
    for path, page in PAGES.items():
        target = ROOT / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
