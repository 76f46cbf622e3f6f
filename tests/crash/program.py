"""A program that embeds the engine and has hooks of its own: `run`, `recover`, `resume` and `answer`.

Each hook notes in the ledger that it was called, as agents do, takes a moment, and adds to the context.
"""

import asyncio
import json
import os
import time
from typing import TYPE_CHECKING, Any

import killer

if TYPE_CHECKING:
    from agentforge import HookContext, HookResult, RunResult

SESSION = "night"
SECONDS = 0.03


class Hooks:
    def __init__(self, injector: killer.FaultInjector, recorder: Any) -> None:
        self._injector, self._recorder = injector, recorder

    def note(self, what: str, call: "HookContext") -> None:
        noted = {"what": what, "attempt": f"hook/{call.delivery}/{call.attempt}", "pid": os.getpid()}
        self._recorder.note("hook", of={"delivery": call.delivery, "attempt": call.attempt})
        line = json.dumps(noted).encode() + b"\n"
        self._injector.around("note", lambda: self._write(line))

    def _write(self, line: bytes) -> None:
        """Not counted by the injector."""
        ledger = killer._open(os.environ["CRASH_LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        killer._write(ledger, line)
        killer._close(ledger)

    def before(self, call: "HookContext") -> "HookResult":
        """In a thread."""
        self.note("start", call)
        time.sleep(SECONDS)
        return self._result(call)

    async def after(self, call: "HookContext") -> "HookResult":
        self.note("start", call)
        await asyncio.sleep(SECONDS)
        return self._result(call)

    def approve(self, call: "HookContext") -> "HookResult":
        from agentforge import HookResult

        self.before(call)
        return HookResult("answer", answer="approve") if _is_approval(call) else HookResult()

    def resumed(self, call: "HookContext", _: str) -> "HookResult":
        return self.before(call)

    def _result(self, call: "HookContext") -> "HookResult":
        from agentforge import HookResult

        self.note("end", call)
        return HookResult(context=f"saw {call.point} {call.iteration}")


def _is_approval(call: "HookContext") -> bool:
    return call.request is not None and call.request.kind == "approval"


async def main(arguments: list[str], hooks: Hooks) -> "RunResult | None":
    from agentforge import Engine

    async with Engine(".") as engine:
        if os.environ.get("PROGRAM_POLICY"):
            engine.on_request(hooks.approve)
            engine.on_resume(hooks.resumed)
        else:
            engine.on_iteration_start(on_lost="pause")(hooks.before)
            engine.on_iteration_end(hooks.after)
        match arguments:
            case ["run", "-p", path, *_]:
                return await engine.run(path, session=SESSION)
            case ["answer", session, answer]:
                return await engine.answer(session, answer)
            case ["resume", session]:
                return await engine.resume(session)
            case _:
                engine.tidy(SESSION)
                return await engine.recover(SESSION)
