"""The repository of examples/tdd, with its scripted agent."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.surface.terminal import Done, Project

CHEAT = "program: python3\narguments: [cheat.py]\npasses: [CHEAT]\n"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/tdd"


class Slugs(Project):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        shutil.copytree(EXAMPLE, self.root, dirs_exist_ok=True)
        shutil.copy(Path(__file__).with_name("cheat.py"), self.root)
        (self.root / ".agentforge/providers/cheat.yaml").write_text(CHEAT)
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Start"]):
            self.git(*words)

    def git(self, *words: str) -> str:
        given = ("-c", "user.name=demo", "-c", "user.email=demo@localhost")
        done = subprocess.run(
            ["git", *given, *words], cwd=self.root, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    def pipeline_of(self, *words: str, cheat: str = "") -> tuple[Done, str]:
        """The end of the command, and the id of its run. `cheat`: how the agent cheats."""
        provider = "cheat" if cheat else "scripted"
        done = self.call(*words, "--provider", provider, env={"CHEAT": cheat} if cheat else None)
        found = re.search(r"^Pipeline ID: (PL-\d{14}-[0-9a-f]{8})$", done.out, re.MULTILINE)
        assert found, done
        return done, found[1]

    def visited(self, session: str) -> list[str]:
        return [event["data"]["name"] for event in self.events(session) if event["type"] == "node_start"]

    def checks(self, session: str, name: str = "test") -> list[dict[str, Any]]:
        """The outcomes of a check, without its baselines."""
        found = (event["data"] for event in self.events(session) if event["type"] == "check_complete")
        return [one for one in found if one["check"] == name and not one.get("baseline")]
