"""The program of provider `python`: imports the class of a stage, executes it once, and prints the outcome as
its last line. Reads a `StageCall` from standard input.

    python -P child.py

The supervisor runs it like any agent, in the sandbox of the stage.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentforge import StageCall
    from agentforge.core.pipeline.stage_executor import StageExecutor
    from agentforge.provider import ExecuteResult

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def main() -> int:
    if ROOT not in sys.path:
        sys.path.insert(0, ROOT)
    import msgspec

    from agentforge import StageCall, StageEnded

    call = msgspec.json.decode(sys.stdin.buffer.read(), type=StageCall)
    # At the end: nothing in the project may stand in for a module of Python or of the product.
    sys.path += [call.workdir, os.path.join(call.workdir, "src")]
    ended = _executed(call)
    sys.stdout.flush()
    event = msgspec.json.encode(StageEnded(ended.result, ended.artifact, ended.failure, ended.usage))
    # On a line of its own, whatever the class has printed.
    sys.stdout.buffer.write(b"\n" + event + b"\n")
    sys.stdout.buffer.flush()
    return 0


def _executed(call: "StageCall") -> "ExecuteResult":
    from agentforge.core.pipeline.executor_runs import run_executor
    from agentforge.provider import ExecuteResult, Failure, FailureKind

    try:
        executor = _made(call)
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {error}"
        message = f"`executor: {{python: {call.name}}}` of stage {call.stage!r} can't be used: {cause}"
        return ExecuteResult(failure=Failure(FailureKind.PROVIDER_MISSING, message))
    return run_executor(executor, call.given, session=call.session, stage=call.stage, project=call.workdir)


def _made(call: "StageCall") -> "StageExecutor":
    from agentforge.core.pipeline.registry import complete_executor

    module, _, name = call.name.partition(":")
    kind = getattr(importlib.import_module(module), name)
    return complete_executor(kind(call.config), call.stage)


if __name__ == "__main__":
    sys.exit(main())
