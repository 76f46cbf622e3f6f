"""Prepares a project: examines it, and writes a first stage, a first pipeline and the lines of .gitignore.
Nothing that exists is overwritten, no link is followed, and nothing of the project is executed."""

import os
from collections.abc import Mapping

from msgspec import Struct

from agentforge.app.providers.logins import AgentLogin, agent_logins
from agentforge.app.providers.offers import AGENTS
from agentforge.app.wiring import BUILTIN, sources_of
from agentforge.definition.project_commands import find_language
from agentforge.model.diagnostic import choice
from agentforge.model.errors import InvalidRequest, StorageFailed
from agentforge.model.layout import LOCKS, OUTBOX, RUNS
from agentforge.model.names import control_character
from agentforge.model.plan_limits import is_plain_name
from agentforge.system import files

NAME = "change"
"""Of the first stage and of the first pipeline."""
IGNORED = (f"/{RUNS}/", f"/{LOCKS}/", "/.claude/*loop-completions.json*", f"/{OUTBOX}/")
"""Lines for .gitignore: what runs leave in the project."""
IGNORED_TITLE = "# AgentForge: runs and their locks"

README = """\
# AgentForge in this project

| folder | contents |
|---|---|
| `.claude/stages/NAME/` | a stage: `stage.yaml` has its settings, `prompt.md` says what the agent does |
| `.claude/pipelines/NAME.yaml` | a pipeline: stages in order |
| `.agentforge/providers/NAME.yaml` | an agent of your own, if you need one |
| `.claude/pipeline-runs/` | the runs; git ignores them |

    agentforge lint                                      check these files
    agentforge run "What to do"                          plan, do, verify and review it: the pipeline `loop`
    agentforge run -p change "What to do"                run your pipeline `change`
    agentforge --help                                    list all commands
"""

_STAGE = """\
name: change
description: Does the next piece of a task, one piece per iteration
termination:
  type: fixed
  iterations: 3        # at most; the agent stops earlier when the task is done
"""

_PROMPT = """\
# The task

${{REQUEST}}
${{CONTEXT}}

If no task is given above, find one small bug or missing test in this project, and fix it.

# How to work

You are iteration ${{ITERATION}} of the session `${{SESSION}}`. You see nothing of earlier iterations but
the files that they left.

1. Read `${{CTX}}` (your inputs and limits) and `${{PROGRESS}}` (notes of earlier iterations).
2. If there is feedback, begin with it: it says what failed. ${{FEEDBACK}}
3. Do the next piece of the task, small enough to finish now. Follow the conventions of the project.
4. {check}
5. Append to `${{PROGRESS}}` what you did and what is left.
6. Write your result to `${{RESULT}}` as JSON:

   {{"summary": "what you did, and how you know that it works", "decision": "continue"}}

   The decision is "stop" when the whole task is done, and "error" when you need help.
"""

_PIPELINE = """\
# Run it: agentforge run -p change "What to do"
name: change
description: An agent does a task{then}
request: optional
nodes:
  - id: change
    stage: change      # .claude/stages/change
    provider: {agent}
    # sandbox: auto    # where bwrap works, the agent can write to the project only
"""

_TEST = """\
    checks:
      - name: test     # the engine runs it, whatever the agent says
        run: |-
          {test}
    on: {{fail: change}} # back with what failed; at the third failure, a person is asked
"""


def starter_texts(agent: str, test: str) -> dict[str, str]:
    """The files by their paths, in the order in which they are written: nothing refers to a later one."""
    quoted = "" if "`" in test or "$" in test else f": `{test}`"
    check = f"Run the tests{quoted}. Fix what fails." if test else "Check that it works."
    pipeline = _PIPELINE.format(agent=agent, then=" until the tests pass" if test else "")
    return {
        ".agentforge/README.md": README,
        f".claude/stages/{NAME}/prompt.md": _PROMPT.format(check=check),
        f".claude/stages/{NAME}/stage.yaml": _STAGE,
        f".claude/pipelines/{NAME}.yaml": pipeline + (_TEST.format(test=test) if test else ""),
    }


MAX_GITIGNORE = 1024 * 1024
MAX_TEST = 500
_SHARED = 0o777
"""Like any folder of the project: others may read it, as the user's umask allows."""


class ProjectSurvey(Struct, frozen=True):
    """What was found in a project, and what `init` would add to its .gitignore."""

    language: str
    test: str
    """The command that runs the tests; empty if none was found."""
    agents: tuple[AgentLogin, ...]
    ignores: tuple[str, ...]

    @property
    def usable(self) -> tuple[str, ...]:
        """The agents that are installed and logged in."""
        return tuple(agent.name for agent in self.agents if agent.is_usable)


class StarterFiles(Struct, frozen=True):
    """What `init` wrote, as paths relative to the project, and for what."""

    agent: str
    test: str
    """The command that runs the tests; empty if there are none."""
    created: tuple[str, ...]
    kept: tuple[str, ...]
    """What was there already."""
    ignores: tuple[str, ...]
    """The lines that were added to .gitignore."""


def examine_project(
    project: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None
) -> ProjectSurvey:
    """Examine a project without changing it."""
    root = os.path.realpath(project)
    environ = os.environ if environ is None else environ
    try:
        lines = _gitignore(root).decode("utf-8", "replace").splitlines()
    except StorageFailed as error:
        raise _refused(error) from error
    # `/runs/` and `runs` ignore the same folder: a line of the user is not repeated in our words.
    there = {_plain(line) for line in lines}
    ignores = tuple(line for line in IGNORED if _plain(line) not in there)
    language = find_language(sources_of(root, environ))
    return ProjectSurvey(language.name, language.test, tuple(agent_logins(root, environ)), ignores)


def init_project(
    project: str | os.PathLike[str] = ".",
    *,
    agent: str | None = None,
    test: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> StarterFiles:
    """Write the first files of a project. `agent` and `test` default to what `examine_project` finds; an
    empty `test` means that the project has no tests."""
    root = os.path.realpath(project)
    survey = examine_project(root, environ)
    agent = agent or next(iter(survey.usable), AGENTS[0])
    test = survey.test if test is None else test.strip()
    if agent not in AGENTS:
        raise InvalidRequest(f"no agent named {agent!r}", hint=f"use one of {', '.join(AGENTS)}")
    # The command becomes part of a YAML file and of a prompt.
    if control_character(test) or len(test) > MAX_TEST:
        raise InvalidRequest("the test command must be one short line", hint="put a longer one into a script")
    try:
        created, kept = _written(root, starter_texts(agent, test))
        _append(root, survey.ignores)
    except StorageFailed as error:
        raise _refused(error) from error
    return StarterFiles(agent, test, tuple(created), tuple(kept), survey.ignores)


def copy_pipeline(project: str | os.PathLike[str], pipeline: str, name: str = "") -> tuple[str, ...]:
    """Copy a built-in pipeline with its prompts and schemas, to change it; returns the files. Its stages that
    are built in stay there. A copy of the same name replaces the built-in pipeline in this project."""
    root, name = os.path.realpath(project), name or pipeline
    source = os.path.join(BUILTIN, "pipelines")
    known = [one.removesuffix(".yaml") for one in files.listing(source) if one.endswith(".yaml")]
    if pipeline not in known:
        message = f"no built-in pipeline named {pipeline!r}"
        raise InvalidRequest(message, hint=choice(pipeline, "pipelines", known))
    if not is_plain_name(name) or name.startswith("."):
        raise InvalidRequest(f"{name!r} can't be the name of a pipeline", hint="use letters, digits, - and _")
    text = files.read_text(os.path.join(source, f"{pipeline}.yaml")) or ""
    # What the pipeline names comes before it.
    texts = {
        f".claude/pipelines/{name}/{one}": files.read_text(os.path.join(source, pipeline, one)) or ""
        for one in files.listing(os.path.join(source, pipeline))
    }
    text = text.replace(f"{pipeline}/", f"{name}/")
    texts[f".claude/pipelines/{name}.yaml"] = text.replace(f"name: {pipeline}\n", f"name: {name}\n", 1)
    if there := [path for path in texts if os.path.lexists(os.path.join(root, path))]:
        raise InvalidRequest(f"{there[-1]} exists", hint="choose another name for the copy, or remove it")
    try:
        return tuple(_written(root, texts)[0])
    except StorageFailed as error:
        raise _refused(error) from error


def _refused(error: StorageFailed) -> StorageFailed:
    return type(error)(error.message, hint="correct this, then run `agentforge init` again")


def _written(root: str, texts: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The paths that were created, and those that were there. A folder with files is kept as it is: a file
    more could change what a stage of the user does."""
    folders = {os.path.dirname(path) for path in texts if "/stages/" in path}
    taken = {folder for folder in folders if files.listing(os.path.join(root, folder))}
    created: list[str] = []
    kept: list[str] = []
    for path, text in texts.items():
        place = os.path.join(root, path)
        # A link counts as there, even one that leads nowhere.
        is_new = os.path.dirname(path) not in taken and not os.path.lexists(place)
        if is_new:
            files.make_dir(os.path.dirname(place), _SHARED)
            is_new = files.place(place, text.encode())
        (created if is_new else kept).append(path)
    return created, kept


def _gitignore(root: str) -> bytes:
    return files.read_bytes(os.path.join(root, ".gitignore"), MAX_GITIGNORE) or b""


def _plain(line: str) -> str:
    return line.strip().strip("/")


def _append(root: str, lines: tuple[str, ...]) -> None:
    if not lines:
        return
    path, before = os.path.join(root, ".gitignore"), _gitignore(root)
    end = "\r\n" if b"\r\n" in before else "\n"
    gap = "" if not before else end if before.endswith(b"\n") else end * 2
    added = gap + "".join(f"{line}{end}" for line in (IGNORED_TITLE, *lines))
    if not before and files.place(path, added.encode()):
        return
    files.append(path, added.encode())
