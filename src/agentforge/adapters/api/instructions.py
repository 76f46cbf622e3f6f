"""What a model is told before the task."""

from agentforge.adapters.api.completion import COMPLETE
from agentforge.adapters.api.task import Task

SYSTEM = """\
You are a step of an automated pipeline and work on the files in {workspace}. Nobody reads along and nobody
can answer questions: decide for yourself. Use the tools to look at the files and to change them; paths are
relative to that folder. When the work is done, call `{complete}` with a summary and your decision. Where the
task asks for a result.json or a status.json, `{complete}` writes it: give it the same content instead.
"""

GO_ON = """\
You were interrupted. What you did before has been kept, but the last tool calls may not have taken effect:
look before you repeat them. Then finish the task, and call `{complete}`.
"""


def system_of(task: Task) -> str:
    return task.system or SYSTEM.format(workspace=task.files.workspace, complete=COMPLETE)


def go_on() -> str:
    return GO_ON.format(complete=COMPLETE)
