"""Draws docs/demo.svg, the picture in the README: `python docs/record_demo.py`."""

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console

from agentforge.cli.commands.demo import Demo
from agentforge.cli.commands.demo import Screen


def main() -> None:
    console = Console(record=True, width=96, file=io.StringIO(), force_terminal=True)
    screen = Screen(console)

    def show(kind: str, text: str) -> None:
        if kind != "note":  # It names a temporary folder.
            screen.show(kind, text)

    with tempfile.TemporaryDirectory() as folder:
        screen.show_table(Demo(folder, show).play(), None)
    picture = console.export_svg(title="agentforge demo")
    # The reader's own monospaced font will do: the picture fetches nothing.
    picture = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    picture = re.sub(r"\s*<!--.*?-->", "", picture, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    Path(__file__).with_name("demo.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
