"""The environment variables that the code names are those of the table."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.source_trees import nodes_of

from agentforge.model.variables import GIVEN, VARIABLES

SOURCE = Path(__file__).resolve().parents[2] / "src/agentforge"
NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
APART = re.compile(
    "GIT_.*|GH_.*|LD_.*|DYLD_.*|LC_ALL|TMUX_PANE|TERM_PROGRAM.*|SSH_AUTH_SOCK|DBUS_.*|WAYLAND_DISPLAY|VIRTUAL_ENV"
    "|.*_PROXY|SSL_.*|NODE_.*|REQUESTS_.*|RUST_LOG|GCLOUD_.*|CLOUD_ML_REGION|MAX_.*_TOKENS"
)
"""What other programs read."""
AGENTS_OWN = {
    "adapters/cli_agents/addresses.py",
    "adapters/providers/claude.py",
    "adapters/providers/gemini.py",
    "adapters/providers/opencode.py",
}
"""Descriptions of CLIs, which have variables of their own."""
INTERNAL = {
    *("AGENTFORGE_KEY_DESCRIPTOR", "MOCK_ITERATION", "MOCK_PROVIDER", "MOCK_RESULT_FILE", "MOCK_STATUS_FILE"),
    *("CODEX_API_KEY", "CLAUDE_CODE_BUBBLEWRAP"),
}
"""Between two parts of AgentForge, or an agent's own."""
TEMPLATES = {
    *("MAX_ITERATIONS", "MIN_ITERATIONS", "OUTPUT_PATH", "PROGRESS_FILE", "PROGRESS_TEXT", "RESULT_JSON"),
    *("SESSION_NAME", "STAGE_NAME", "LOG_FORMAT", "INPUT_ARTIFACT"),
}
"""No environment variables."""


@cache
def literals() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith(("testing/", "builtin/", "model/variables.py")):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                found.setdefault(node.value, set()).add(place)
    return found


def test_every_variable_of_the_code_is_in_the_table() -> None:
    known = {variable.name for variable in (*VARIABLES, *GIVEN)} | INTERNAL | TEMPLATES
    named = {name for name, places in literals().items() if places - AGENTS_OWN and not APART.fullmatch(name)}
    assert sorted(named - known) == [], "add it to model/variables.py"


def test_every_variable_of_the_table_is_in_the_code() -> None:
    single = {"TERM"}
    assert {variable.name for variable in (*VARIABLES, *GIVEN)} - set(literals()) == single
