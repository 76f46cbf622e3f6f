"""The skeleton of performers that run a command of the user's, as checks and hooks do."""

from abc import abstractmethod
from collections.abc import Mapping

from msgspec import Struct

from agentforge.model.plan import ProviderChoice, SandboxChoice
from agentforge.model.task import MARK
from agentforge.ports.provider import ExecuteRequest
from agentforge.runtime.supervision import AttemptLimits
from agentforge.runtime.tasks.call import ProviderCall
from agentforge.runtime.tasks.performer import CallPerformer, TaskT


class ScriptCall(Struct, frozen=True, kw_only=True):
    run: str
    variables: Mapping[str, str]
    """What it is told, beside the session and the stage."""
    passed: tuple[str, ...] = ()
    """Variables of the engine that it gets, too."""
    combined: bool = False
    """Whether its errors are part of its output."""
    timeout: float | None = None
    sandbox: SandboxChoice | None = None
    writable: tuple[str, ...] = ()
    """Folders of the run that it may write to in a sandbox."""
    once: bool = False
    """Whether a person is asked before it is repeated."""


class ScriptPerformer(CallPerformer[TaskT]):
    """A kind says what is run, and what its end means. It has neither a prompt nor a result."""

    @abstractmethod
    def _script(self, task: TaskT) -> ScriptCall: ...

    def _call(self, task: TaskT) -> ProviderCall:
        script = self._script(task)
        config = {"run": script.run, "environment": script.passed, "combined": script.combined}
        return ProviderCall(
            by=ProviderChoice("script", "", config),
            place=task.folder(self._context.layout),
            mark=task.mark(self._context.run_id),
            stage=task.name,
            limits=AttemptLimits(script.timeout),
            sandbox=script.sandbox,
            writable=script.writable,
            scope=task.place.scope,
            once=script.once,
        )

    def _request(self, task: TaskT) -> ExecuteRequest:
        context, told = self._context, {"AGENT_PIPELINES_STAGE": task.name, **self._script(task).variables}
        # A variable can't hold the NUL characters that notes may have.
        told = {name: text.replace("\0", "\N{REPLACEMENT CHARACTER}") for name, text in told.items()}
        return ExecuteRequest(
            prompt="",
            model="",
            config=self._call(task).by.config,
            workdir=context.project,
            environment={
                **context.environment,
                MARK: task.mark(context.run_id),
                "AGENT_PIPELINES_SESSION": context.plan.session.name,
                **told,
            },
            status_path="",
            result_path="",
        )
