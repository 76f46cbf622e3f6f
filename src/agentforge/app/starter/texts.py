"""The texts of the first files of a project."""

from agentforge.model.layout import LOCKS, OUTBOX, RUNS

NAME = "change"
"""Of the first stage and of the first pipeline."""
IGNORED = (f"/{RUNS}/", f"/{LOCKS}/", "/.claude/loop-completions.json", f"/{OUTBOX}/")
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
    agentforge run -p change --context "What to do"      run the pipeline `change`
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

${{CONTEXT}}

If no task is given above, find one small bug or missing test in this project, and fix it.

# How to work

You are iteration ${{ITERATION}} of the session `${{SESSION}}`. You see nothing of earlier iterations but
the files that they left.

1. Read `${{CTX}}` (your inputs and limits) and `${{PROGRESS}}` (notes of earlier iterations).
2. Do the next piece of the task, small enough to finish now. Follow the conventions of the project.
3. {check}
4. Append to `${{PROGRESS}}` what you did and what is left.
5. Write your result to `${{RESULT}}` as JSON:

   {{"summary": "what you did, and how you know that it works", "decision": "continue"}}

   The decision is "stop" when the whole task is done, and "error" when you need help.
"""

_PIPELINE = """\
# Run it: agentforge run -p change --context "What to do"
name: change
description: An agent does a task{then}
nodes:
  - id: change
    stage: change      # .claude/stages/change
    provider: {agent}
    # sandbox: bwrap   # the agent can write to the project only
"""

_TEST = """\
  - id: test           # no agent: the run fails if the tests fail
    prompt: none
    provider:
      type: command
      run: |
        set -e
        {test}
        echo '{{"summary": "the tests pass"}}' > "$AGENTFORGE_RESULT"
"""


def starter_texts(agent: str, test: str) -> dict[str, str]:
    """The files by their paths, in the order in which they are written: nothing refers to a later one."""
    quoted = "" if "`" in test or "$" in test else f": `{test}`"
    check = f"Run the tests{quoted}. Fix what fails." if test else "Check that it works."
    pipeline = _PIPELINE.format(agent=agent, then=", then the tests run" if test else "")
    return {
        ".agentforge/README.md": README,
        f".claude/stages/{NAME}/prompt.md": _PROMPT.format(check=check),
        f".claude/stages/{NAME}/stage.yaml": _STAGE,
        f".claude/pipelines/{NAME}.yaml": pipeline + (_TEST.format(test=test) if test else ""),
    }
