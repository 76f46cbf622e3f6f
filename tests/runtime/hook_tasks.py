"""Hooks as tasks, performed without an engine: real services, scripts and functions."""

import os
from pathlib import Path
from typing import Any

from tests.engine.plans import NOON, plan_of, stage
from tests.runtime.attempt_run import SUPERVISOR

from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.host.processes import host_processes
from agentforge.adapters.httpx_webhooks import HttpxWebhooks
from agentforge.adapters.providers.command import ScriptProvider
from agentforge.app.wiring import sandboxes
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.hook import Hook, HookAction
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.secrets import Redactor
from agentforge.model.task import HookTask
from agentforge.runtime.attempt_folder import Claim, read_claim
from agentforge.runtime.confinement import Confiner
from agentforge.runtime.left_files import leave
from agentforge.runtime.supervision import Supervised, SupervisorLimits
from agentforge.runtime.tasks.call import Calls, TaskContext
from agentforge.runtime.tasks.hook import HookCalls, HookPerformer
from agentforge.views.history import History

DELIVERY = "5a1f0b6e-0000-5000-8000-000000000001"


def hook(action: HookAction, **keys: Any) -> Hook:
    return Hook("iteration_end-1", "iteration_end", action, **keys)


def task_of(hook: Hook, **changes: Any) -> HookTask:
    given: dict[str, Any] = {"delivery": DELIVERY, "started_at": NOON, "at": Cursor("0", 1, 2), **changes}
    attempt, ending = given.pop("attempt", 1), given.pop("ending", False)
    return HookTask(Place("0", 1, ""), "plan", 2, attempt, ending, hook=hook, **given)


class HookEngine:
    """One life of an engine, as far as hooks need it."""

    def __init__(
        self,
        project: Path,
        environ: dict[str, str] | None = None,
        calls: HookCalls | None = None,
        supervisor: Path = SUPERVISOR,
    ) -> None:
        # Processes are found by the id of their run, also those of tests that run at the same time.
        self.run_id = f"{os.getpid()}-{project.name}"
        self.layout = RunLayout.of(str(project), "auth")
        Path(self.layout.root).mkdir(parents=True, exist_ok=True)
        Path(self.layout.log).touch()
        plan, environ = plan_of(stage()), {"PATH": "/usr/bin:/bin", **(environ or {})}
        self.history = History()
        supervised = Supervised(
            host_processes(str(supervisor)), SupervisorLimits(term_grace=0.2), str(project), self.layout.log
        )
        confiner = Confiner(sandboxes(environ, str(project)), str(project), self.layout, plan)
        script = ScriptProvider(environ)
        scripts = Calls(lambda _: script, {}, supervised, confiner, run_dir=self.layout.root, refuse=leave)
        context = TaskContext(
            project=str(project),
            layout=self.layout,
            plan=plan,
            run_id=self.run_id,
            environment={"CLAUDE_PIPELINE_AGENT": "1"},
            redactor=Redactor(("s3cr3t-value",)),
            environ=environ,
        )
        self.performer = HookPerformer(
            context,
            self.history,
            SystemClock(),
            scripts=scripts,
            webhooks=HttpxWebhooks(),
            calls=calls or {},
        )

    async def perform(self, task: HookTask, *, fresh: bool = True) -> f.AnyFact:
        return await self.performer.perform(task, fresh=fresh, report=lambda _fact: None)

    def claim(self, task: HookTask) -> Claim | None:
        place = self.layout.hook_attempt(task.delivery, task.attempt)
        return read_claim(place, task.mark(self.run_id))
