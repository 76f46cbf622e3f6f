"""Draws the pictures of docs/pictures by running the program on a terminal: `make pictures`."""

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agentforge.cli.commands.demo import Demo
from agentforge.cli.commands.demo import Screen as DemoScreen
from tools.terminal import Terminal

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
COLUMNS = 92
SPACE = "&#160;"
LETTER = 12.2
"""The width of a letter in the pictures."""
_TEXT = re.compile(rf'(<text [^>]*\bx=")([\d.]+)("[^>]* textLength=")([\d.]+)("[^>]*>)((?:{SPACE})+)(?=[^<])')
AGENT = """\
cat > /dev/null
say() { echo "$1"; sleep 0.2; }
"""
FEATURE = """\
name: feature
nodes:
  - {id: plan, stage: plan, runs: 2}
  - {id: build, stage: build, runs: 3}
  - {id: review, stage: review}
"""
STAGES = {
    "plan": """say "Reading the code"
if [ -e plan.md ]; then result "made the steps in plan.md smaller"
else touch plan.md; result "wrote plan.md: the parser, then its tests"; fi""",
    "build": """if [ -e parser.py ]; then
say "Writing the tests"; while [ ! -e go ]; do sleep 0.05; done
fi
printf "def parse(text):\\n    return text.split()\\n" >> parser.py
echo "The parser reads all three formats."; result "wrote the parser" """,
    "review": """result "no findings" """,
}
HOOKS = """\
hooks:
  iteration_end:
    - {{id: review, stage: build, condition: iteration == 1, action: webhook, url: "{url}"}}
  stage_end:
    - {{id: style, stage: build, action: script, script: echo "The style guide has no findings."}}
    - {{id: publish, stage: build, action: confirm, message: Publish it?}}
"""
TIMED = """\
name: feature
defaults: {delay: 0}
nodes:
  - {id: plan, prompt: x, runs: 2, approve: true, provider: &agent {type: command, run: sh agent.sh}}
  - id: build
    prompt: x
    provider: *agent
    retry: {initial_delay: 1}
    checks: [{name: test, run: "sleep 0.5; test $(wc -l < work) -ge 5"}]
    on: {fail: build}
"""
TIMED_AGENT = """\
sleep 0.7; echo >> work; [ $(wc -l < work) -ne 3 ] || { echo "lost the connection" >&2; exit 3; }
echo '{"summary": "did it"}' > "$AGENTFORGE_RESULT"
"""
MISTAKES = """\
name: feature
nodes:
  - id: plan
    prompt: Write a plan for ${SESION}. Write your result to ${RESULT}.
    runs: two
  - id: build
    prompt: Build it. Write your result to ${RESULT}.
    sandbx: bwrap
    inputs:
      from: plann
"""


def main(names: list[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    for name in names or DRAWN:
        with tempfile.TemporaryDirectory() as folder:
            (PICTURES / f"{name}.svg").write_text(DRAWN[name](Path(folder)), encoding="utf-8")


def live(folder: Path) -> str:
    project = _project(folder)
    with _terminal(project, 16, "run", "-p", "feature.yaml", "-s", "auth") as terminal:
        terminal.until("Writing the tests")
        picture = _picture("agentforge run -p feature.yaml -s auth", terminal)
        (project / "go").touch()
        terminal.end()
    return picture


def loop_run(folder: Path) -> str:
    project = folder / "slugs"
    shutil.copytree(ROOT / "examples/loop", project)
    for command in (["git", "init", "-q"], ["git", "add", "."], _commit()):
        subprocess.run(command, cwd=project, check=True)
    wanted = ("run", "-s", "slug", "--provider", "scripted", "Add a slugify function")
    with _terminal(project, 48, *wanted) as terminal:
        terminal.end()
        return _picture('agentforge run -s slug "Add a slugify function"', terminal)


def top(folder: Path) -> str:
    project = _project(folder)
    _finished(project, "docs")
    (project / "go").unlink()
    with _terminal(project, 16, "run", "-p", "feature.yaml", "-s", "auth") as running:
        running.until("Writing the tests")
        with _terminal(project, 16, "top") as terminal:
            terminal.until("docs")
            picture = _picture("agentforge top", terminal)
            terminal.type("q")
            terminal.end()
        (project / "go").touch()
        running.end()
    return picture


def _finished(project: Path, session: str) -> None:
    """A run that is over."""
    (project / "go").touch()
    with _terminal(project, 40, "run", "-p", "feature.yaml", "-s", session) as terminal:
        terminal.end()


def show(folder: Path) -> str:
    project = _project(folder)
    for command in (["git", "init", "-q"], ["git", "add", "."], _commit()):
        subprocess.run(command, cwd=project, check=True)
    _finished(project, "auth")
    with _terminal(project, 40, "show", "auth", "build", "1") as terminal:
        terminal.end()
        return _picture("agentforge show auth build 1", terminal)


def inbox(folder: Path) -> str:
    project = _project(folder)
    for command in (["git", "init", "-q"], ["git", "add", "."], _commit()):
        subprocess.run(command, cwd=project, check=True)
    (project / "go").touch()
    (project / "feature.yaml").write_text(f"{FEATURE}defaults: {{approve: true}}\n")
    with _terminal(project, 40, "run", "-p", "feature.yaml", "-s", "auth") as terminal:
        for question in ("stage 'plan'?", "stage 'build'?"):
            terminal.until(question)
            terminal.until("Your choice:")
            terminal.type("a\n" if "plan" in question else "l\n")
        terminal.end()
    with _terminal(project, 40, "inbox", "show", "auth") as terminal:
        terminal.end()
        return _picture("agentforge inbox show auth", terminal)


def hooks(folder: Path) -> str:
    project = _project(folder)
    (project / "go").touch()
    with _review_service() as url:
        (project / "feature.yaml").write_text(f"{FEATURE}{HOOKS.format(url=url)}")
        with _terminal(project, 40, "run", "-p", "feature.yaml", "-s", "auth") as terminal:
            terminal.until("Your choice:")
            terminal.type("l\n")
            terminal.end()
    with _terminal(project, 40, "show", "auth", "--hooks") as terminal:
        terminal.end()
        return _picture("agentforge show auth --hooks", terminal)


@contextmanager
def _review_service() -> Iterator[str]:
    """It is overloaded at first."""
    reviews = iter([(503, b"overloaded"), (200, b"The parser needs a test for empty files.")])

    class Review(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, text = next(reviews)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """The picture has no room for it."""

    with HTTPServer(("127.0.0.1", 0), Review) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/review"
        server.shutdown()


def lint(folder: Path) -> str:
    project = folder / "project"
    project.mkdir()
    (project / "feature.yaml").write_text(MISTAKES)
    with _terminal(project, 40, "lint", "feature.yaml") as terminal:
        terminal.end()
        return _picture("agentforge lint feature.yaml", terminal)


def graph(folder: Path) -> str:
    project = folder / "project"
    shutil.copytree(ROOT / "examples/checked", project)
    return _graph(project, "checked.yaml")


def loop(folder: Path) -> str:
    return _graph(folder, "loop")


def _graph(project: Path, pipeline: str) -> str:
    with _terminal(project, 40, "graph", pipeline, "--svg", "graph.svg") as terminal:
        terminal.end()
    return (project / "graph.svg").read_text(encoding="utf-8")


def timeline(folder: Path) -> str:
    project = folder / "project"
    project.mkdir()
    (project / "feature.yaml").write_text(TIMED)
    (project / "agent.sh").write_text(TIMED_AGENT)
    with _terminal(project, 40, "run", "-p", "feature.yaml", "-s", "auth") as terminal:
        terminal.until("Your choice:")
        time.sleep(2)
        terminal.type("a\n")
        terminal.end()
    with _terminal(project, 40, "show", "auth", "--timeline", "--svg", "auth.svg") as terminal:
        terminal.end()
    return (project / "auth.svg").read_text(encoding="utf-8")


def demo(folder: Path) -> str:
    console = _console(96)
    screen = DemoScreen(console)

    def show(kind: str, text: str) -> None:
        if kind != "note":  # It names a temporary folder.
            screen.show(kind, text)

    screen.show_table(Demo(str(folder), show).play(), None)
    return _svg(console, "agentforge demo")


DRAWN: dict[str, Callable[[Path], str]] = {
    "live": live,
    "loop-run": loop_run,
    "top": top,
    "show": show,
    "inbox": inbox,
    "hooks": hooks,
    "lint": lint,
    "graph": graph,
    "loop": loop,
    "timeline": timeline,
    "demo": demo,
}


def _project(folder: Path) -> Path:
    """A project whose agents are scripts."""
    project = folder / "project"
    for name, work in STAGES.items():
        stage = project / ".claude/stages" / name
        stage.mkdir(parents=True)
        (stage / "stage.yaml").write_text(f"delay: 0\nprovider: {{type: command, run: sh {name}.sh}}\n")
        (stage / "prompt.md").write_text("Write your result to ${RESULT}.\n")
        result = 'result() { echo "{\\"summary\\": \\"$1\\"}" > "$AGENTFORGE_RESULT"; }\n'
        (project / f"{name}.sh").write_text(AGENT + result + work + "\n")
    (project / "feature.yaml").write_text(FEATURE)
    return project


def _commit() -> list[str]:
    return ["git", "-c", "user.name=you", "-c", "user.email=you@example.com", "commit", "-qm", "Start"]


def _terminal(project: Path, rows: int, *arguments: str) -> Terminal:
    scripts = sysconfig.get_path("scripts")
    path = f"{scripts}:{os.environ['PATH']}"
    environ = {"PATH": path, "PYTHONPATH": str(ROOT / "src"), "LANG": "C.UTF-8", "TZ": "UTC"}
    environ["HOME"] = str(project.parent)
    line = [f"{scripts}/agentforge", *arguments]
    return Terminal(line, str(project), environ, COLUMNS, rows, spelled={str(project): "~/shop"})


def _picture(command: str, terminal: Terminal) -> str:
    console = _console(COLUMNS)
    console.print(Text.assemble(("$ ", "dim"), (command, "bold")))
    for line in terminal.screen.ansi_lines():
        console.print(Text.from_ansi(line), soft_wrap=True)
    return _svg(console, "agentforge")


def _console(columns: int) -> Console:
    return Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, highlight=False)


def _svg(console: Console, title: str) -> str:
    """The reader's own monospaced font will do: the picture fetches nothing."""
    picture = console.export_svg(title=title, unique_id="agentforge")
    picture = _TEXT.sub(_without_indent, picture)
    picture = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    return re.sub(r"\s*<!--.*?-->", "", picture, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")


def _without_indent(found: re.Match[str]) -> str:
    """Some programs drop spaces at the start of a text, so it begins where its first letter is."""
    before, x, between, length, after, indent = found.groups()
    width = len(indent) // len(SPACE) * LETTER
    return f"{before}{float(x) + width:.1f}{between}{float(length) - width:.1f}{after}"


if __name__ == "__main__":
    main(sys.argv[1:])
